/* Parse the words of a command, and make a command line of its options. */
#include "commands/command.h"

#include "base/array.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum lk_status lk_command_parse(const struct lk_command *c, int argc, char **argv, void *options,
                                const char **operands, int *n_operands)
{
    memset(options, 0, c->size);
    if (c->defaults)
        LK_PASS(lk_option_parse(c->defaults, options, 0, NULL, NULL, 0, n_operands));
    return lk_option_parse(c->options, options, argc, argv, operands, c->operands_max, n_operands);
}

enum lk_status lk_command_argv(const struct lk_command *c, const void *options, const char *operand,
                               char ***out)
{
    enum lk_status st = LK_OK;
    char *defaults = NULL, **argv = NULL;
    size_t n = 0, n_rows = 0;
    int none;

    LK_TRY(lk_alloc(&defaults, c->size, 1));
    LK_TRY(lk_command_parse(c, 0, NULL, defaults, NULL, &none));
    while (c->options[n_rows].name)
        n_rows++;
    LK_TRY(lk_alloc(&argv, n_rows + 4, sizeof *argv));
    LK_TRY(lk_strdup(&argv[n++], "lockstep"));
    LK_TRY(lk_strdup(&argv[n++], c->name));
    if (operand)
        LK_TRY(lk_strdup(&argv[n++], operand));
    for (const struct lk_option *row = c->options; row->name; row++) {
        char value[PATH_MAX], fallback[PATH_MAX];

        lk_option_value(row, options, value, sizeof value);
        lk_option_value(row, defaults, fallback, sizeof fallback);
        if (!strcmp(value, fallback))
            continue;
        if (row->type == LK_OPT_FLAG)
            LK_TRY(lk_asprintf(&argv[n++], "--%s%s", strcmp(value, "yes") != 0 ? "no-" : "",
                               row->name));
        else
            LK_TRY(lk_asprintf(&argv[n++], "--%s=%s", row->name, value));
    }
    LK_HAND_OVER(out, argv);
out:
    lk_argv_free(argv);
    free(defaults);
    return st;
}

void lk_argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}
