/*
 * A subcommand is a struct lk_command, defined in a file of its own in commands/ and listed in
 * lockstep.c. Its rows drive parsing; `lockstep help` prints usage, manual pages and Markdown
 * tables from them.
 */
#ifndef LK_COMMANDS_COMMAND_H
#define LK_COMMANDS_COMMAND_H

#include "base/option.h"
#include "base/page.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Write the row of --NAME, whose value goes to a field of the struct T; type is without LK_OPT_.
 * Its other members follow, always .help. */
#define ROW(...) ROW_(__VA_ARGS__)
#define ROW_(T, name_, field, type_, ...)                                                          \
    {                                                                                              \
        .name = (name_), .type = LK_OPT_##type_, .offset = offsetof(T, field),                     \
        .bytes = sizeof(((T *)0)->field), __VA_ARGS__                                              \
    }
/* Names of the options that have the level of the log, the format of the page, and its gates. */
#define LOG_NAME  "log"
#define PAGE_NAME "format"
#define GATE_NAME "fail-if"

/* What the operands of a command are. */
enum lk_operand {
    LK_OPERAND_FILE,
    LK_OPERAND_CLUSTER, /* a file or a preset's name */
    LK_OPERAND_COMMAND, /* a command and its words, which stand behind "--" */
    LK_OPERAND_NAME     /* a command of lockstep */
};

struct lk_command {
    const char *name;
    const char *usage;                /* operands, e.g. "RUN..." */
    const char *help;                 /* one line */
    const struct lk_option *options;  /* rows, ended by a zeroed one; LOG_OPTION is one of them */
    const struct lk_option *defaults; /* (optional) rows whose defaults fill the struct first */
    size_t size;                      /* of the struct that the rows fill */
    int operands_max;                 /* most operands that it takes */
    enum lk_operand operand;
    const char *no_operand;    /* (optional) failure when no operand is given */
    const char *const *tables; /* (optional) names of all tables of its pages, NULL-ended */
    const char *main_value;    /* (optional) value of the page that --fail-below means */
    /* Run the command; options is the struct, operands has room for two or more. The frame prints
     * and destroys the page that it fills. */
    enum lk_status (*run)(void *options, const char **operands, int n_operands,
                          struct lk_page *page);
};

/* Write the names of a command's tables, as its struct has them. */
#define TABLES(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* Print the devices, collective backends, BLAS and vector instructions of this build, and what its
 * pages have. */
void lk_command_backends(FILE *out);

/*
 * Fill the command's struct with defaults, then with the options of argv, which is without the
 * program's and the command's name. operands has room for operands_max.
 */
enum lk_status lk_command_parse(const struct lk_command *c, int argc, char **argv, void *options,
                                const char **operands, int *n_operands);
/*
 * Make a command line that parses to `options`: "lockstep NAME [OPERAND]", and every option that is
 * not at its default, as "--name=value". operand NULL: none. Freed by lk_argv_free.
 */
enum lk_status lk_command_argv(const struct lk_command *c, const void *options, const char *operand,
                               char ***out);
void lk_argv_free(char **argv); /* NULL is legal */

#endif
