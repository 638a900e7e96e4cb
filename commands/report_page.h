/* The page of a report: what the commands of its operands answer, in one file of HTML. */
#ifndef LK_COMMANDS_REPORT_PAGE_H
#define LK_COMMANDS_REPORT_PAGE_H

#include "base/status.h"
#include "commands/report_input.h"

/* Write the page to a file. command_line: that makes it again. */
enum lk_status report_page_write(const struct report_input *in, const char *path,
                                 const char *command_line);

#endif
