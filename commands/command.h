/*
 * A subcommand is a struct lk_command, defined in a file of its own in commands/ and listed in
 * lockstep.c. `lockstep help` prints usage, manual pages and Markdown tables from these structs.
 */
#ifndef LK_COMMANDS_COMMAND_H
#define LK_COMMANDS_COMMAND_H

#include "base/option.h"
#include "base/status.h"

#include <stdio.h>

struct lk_command {
    const char *name;
    const char *usage;               /* operands, e.g. "RUN..." */
    const char *help;                /* one line */
    const struct lk_option *options; /* rows, ended by a zeroed one */
    /* Run the command; argv is without the program's and the command's name. */
    enum lk_status (*run)(int argc, char **argv);
};

/* Print the devices, collective backends, BLAS and vector instructions of this build. */
void lk_command_backends(FILE *out);

/* Find a command by its name in `all`, a list of pointers that ends with NULL and has the order in
 * which the help prints them. LK_EUSAGE suggests the nearest name. */
enum lk_status lk_command_find(const struct lk_command *const *all, const char *name,
                               const struct lk_command **out);
/* Print the program's usage. */
void lk_help_program(const struct lk_command *const *all, FILE *out);
/* Print a command's usage and options. */
void lk_help_command(const struct lk_command *c, FILE *out);
/*
 * Run `lockstep help` with the words that follow: nothing or a command for the text of --help,
 * --man [COMMAND] for a manual page, --markdown COMMAND [OPTION...] for a table of all or some of
 * its options. argv is without the program's and `help`; version is the program's, for the manual
 * page. Prints to standard output. LK_EUSAGE for unknown words.
 */
enum lk_status lk_help_run(const struct lk_command *const *all, const char *version, int argc,
                           char **argv);

#endif
