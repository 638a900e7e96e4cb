/* Completion of command lines, made from the commands' option tables. */
#ifndef LK_COMMANDS_COMPLETION_H
#define LK_COMMANDS_COMPLETION_H

#include "commands/command.h"

#include <stdio.h>

/* "none", the names of the shells, and NULL. */
extern const char *const completion_shells[];

/*
 * Print a shell's completion: the commands, `help` behind them, their options, the words of an
 * option's value, files, and clusters, whose presets the script asks `lockstep help --presets` for.
 * shell: an index of completion_shells above 0.
 */
enum lk_status print_completion(int shell, const struct lk_command *const *all,
                                const struct lk_command *help, FILE *out);

#endif
