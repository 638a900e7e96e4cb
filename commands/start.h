/* Find a command and run it. */
#ifndef LK_COMMANDS_START_H
#define LK_COMMANDS_START_H

#include "base/status.h"
#include "commands/command.h"

/* Find a command by its name in `all`, a list of pointers that ends with NULL and has the order in
 * which the help prints them. LK_EUSAGE suggests the nearest name. */
enum lk_status lk_command_find(const struct lk_command *const *all, const char *name,
                               const struct lk_command **out);
/* Parse the words after the command's name, set the level of the log, check that no input would be
 * written over (commands/paths.h), and run the command. */
enum lk_status lk_command_start(const struct lk_command *c, int argc, char **argv);

#endif
