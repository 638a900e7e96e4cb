/* Help of the program and its commands. */
#ifndef LK_COMMANDS_HELP_H
#define LK_COMMANDS_HELP_H

#include "base/status.h"
#include "commands/command.h"

#include <stdio.h>

/* Print the program's usage. */
void lk_help_program(const struct lk_command *const *all, FILE *out);
/* Print a command's usage and options. */
void lk_help_command(const struct lk_command *c, FILE *out);
/*
 * Run `lockstep help` with the words that follow: nothing or a command for the text of --help,
 * --man [COMMAND] for a manual page, --markdown COMMAND [OPTION...] for a table of all or some of
 * its options, --completion SHELL, or --presets for the names of the cluster presets. argv is
 * without the program's and `help`; version is the program's, for the manual page. Prints to
 * standard output. LK_EUSAGE for unknown words.
 */
enum lk_status lk_help_run(const struct lk_command *const *all, const char *version, int argc,
                           char **argv);

#endif
