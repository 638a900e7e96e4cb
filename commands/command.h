/* A subcommand: one file each in commands/, one row each in lockstep.c. */
#ifndef LK_COMMANDS_COMMAND_H
#define LK_COMMANDS_COMMAND_H

#include "base/option.h"
#include "base/status.h"

struct lk_command {
    const char *name;
    const char *usage; /* operands, e.g. "RUN..." */
    const char *help;  /* one line */
    const struct lk_option *options;
    /* argv without the program's and the command's name. */
    enum lk_status (*run)(int argc, char **argv);
};

#endif
