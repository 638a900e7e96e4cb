/* The answer about a table of ranks' times in steps (facts/step_times.h): for analyze and
 * report. */
#ifndef LK_COMMANDS_STEP_TIMES_PAGE_H
#define LK_COMMANDS_STEP_TIMES_PAGE_H

#include "base/page.h"
#include "base/status.h"
#include "facts/step_times.h"

/* Say what waiting for the slowest rank costs, and whether it is always the same ones. */
enum lk_status step_times_page(const struct lk_step_times *t, struct lk_page *page);
/* Read a table and say it. */
enum lk_status step_times_analyze(const char *path, struct lk_page *page);

#endif
