/* Find a command and run it; see the header. */
#include "commands/start.h"

#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/words.h"
#include "commands/paths.h"
#include "reports/gates.h"
#include "reports/page.h"

#include <stdlib.h>
#include <string.h>

enum { COMMANDS_MAX = 64 };

enum lk_status lk_command_find(const struct lk_command *const *all, const char *name,
                               const struct lk_command **out)
{
    const char *names[COMMANDS_MAX], *near;
    size_t n = 0;

    for (; all[n] && n < COMMANDS_MAX; n++) {
        names[n] = all[n]->name;
        if (!strcmp(names[n], name)) {
            *out = all[n];
            return LK_OK;
        }
    }
    near = lk_words_nearest(name, names, n);
    return lk_fail(LK_EUSAGE, "no command '%s'%s%s%s", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

/* Return the level of the log that the parsed options give. */
static const char *log_level(const struct lk_command *c, const void *options)
{
    const struct lk_option *row = c->options;

    while (strcmp(row->name, LOG_NAME) != 0)
        row++;
    return *(const char *const *)((const char *)options + row->offset);
}

/* Return the field of an option, with which a struct of the command's begins; NULL: the command
 * has no such option. */
static const void *find_field(const struct lk_command *c, const void *options, const char *name)
{
    for (const struct lk_option *row = c->options; row->name; row++)
        if (!strcmp(row->name, name))
            return (const char *)options + row->offset;
    return NULL;
}

/* Return how the page is printed; a command without such options has text. */
static struct lk_page_options page_options(const struct lk_command *c, const void *options)
{
    const struct lk_page_options *o = find_field(c, options, PAGE_NAME);

    return o ? *o : (struct lk_page_options){.format = LK_FORMAT_TEXT};
}

/* Return the page's gates; a command without such options has none. */
static struct lk_gate_options gate_options(const struct lk_command *c, const void *options)
{
    const struct lk_gate_options *o = find_field(c, options, GATE_NAME);

    return o ? *o : (struct lk_gate_options){0};
}

/* Refuse a table that no page of the command has, before it works. */
static enum lk_status check_table(const struct lk_command *c, const char *name)
{
    enum lk_status st = LK_OK;
    char *list = NULL;
    size_t n = 0;

    if (!name || !c->tables)
        return LK_OK;
    for (; c->tables[n]; n++) {
        if (!strcmp(c->tables[n], name))
            goto out;
        LK_TRY(lk_text_add(&list, "%s%s", n ? ", " : "", c->tables[n]));
    }
    st = lk_fail(LK_EUSAGE, "--table=%s: there is no such table; %s has: %s", name, c->name, list);
out:
    free(list);
    return st;
}

/* Join the words of the command line, as a shell would read them. */
static enum lk_status command_line(const char *command, int argc, char **argv, char **out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+./,:@%";
    enum lk_status st = LK_OK;
    char *line = NULL;

    LK_TRY(lk_asprintf(&line, "lockstep %s", command));
    for (int i = 0; i < argc; i++) {
        const char *quote = *argv[i] && !argv[i][strspn(argv[i], plain)] ? "" : "'";

        LK_TRY(lk_text_add(&line, " %s%s%s", quote, argv[i], quote));
    }
    LK_HAND_OVER(out, line);
out:
    free(line);
    return st;
}

/* Print the page that a command has filled; a rank of a job fills none. */
static enum lk_status print_page(const struct lk_command *c, const void *options, int argc,
                                 char **argv, const struct lk_page *page)
{
    struct lk_page_style style = {.options = page_options(c, options),
                                  .width = lk_page_width(),
                                  .command = c->name,
                                  .version = LK_VERSION};
    enum lk_status st = LK_OK;
    char *line = NULL;

    if (!page->n_answer && !page->n_tables)
        return LK_OK;
    LK_TRY(command_line(c->name, argc, argv, &line));
    style.command_line = line;
    st = lk_page_print(page, &style, "-");
out:
    free(line);
    return st;
}

/* Find the word "--"; argc: there is none. */
static int find_dashes(int argc, char **argv)
{
    int i = 0;

    while (i < argc && strcmp(argv[i], "--") != 0)
        i++;
    return i;
}

/* Parse the words of a command whose operands are a command: all of them stand behind "--", since
 * that command's own options are not ours. */
static enum lk_status parse_with_command(const struct lk_command *c, int argc, char **argv,
                                         void *options, const char **operands, int *n)
{
    int dashes = find_dashes(argc, argv);
    enum lk_status st = lk_command_parse(c, argc, argv, options, operands, n);

    if (st == LK_OK && (!*n || (dashes < argc && operands[0] == argv[dashes + 1])))
        return LK_OK;
    if (st != LK_OK && dashes < argc)
        return st;
    return lk_fail(LK_EUSAGE, "%s%sthe command stands behind '--': lockstep %s [options] %s",
                   st == LK_OK ? "" : lk_error_text(), st == LK_OK ? "" : "; ", c->name, c->usage);
}

enum lk_status lk_command_start(const struct lk_command *c, int argc, char **argv)
{
    enum lk_status st = LK_OK;
    const char **operands = NULL;
    struct lk_page page = {0};
    struct lk_gates gates = {0};
    struct lk_gate_options gate;
    char *options = NULL;
    int n = 0;

    LK_TRY(lk_alloc(&options, c->size, 1));
    LK_TRY(lk_alloc(&operands, (size_t)c->operands_max + 2, sizeof *operands));
    LK_TRY((c->operand == LK_OPERAND_COMMAND ? parse_with_command : lk_command_parse)(
        c, argc, argv, options, operands, &n));
    LK_TRY(lk_log_configure(log_level(c, options)));
    if (!n && c->no_operand)
        LK_TRY(lk_fail(LK_EUSAGE, "%s", c->no_operand));
    LK_TRY(check_paths(c->options, options, operands, c->operand == LK_OPERAND_COMMAND ? 0 : n));
    gate = gate_options(c, options);
    LK_TRY(check_table(c, page_options(c, options).table));
    LK_TRY(lk_gates_open(&gate, c->main_value, &gates));
    st = c->run(options, operands, n, &page);
    lk_progress_end();
    if (st == LK_OK || st == LK_EVERIFY ||
        st == LK_ECONTRADICTED) /* what was found is on the page */
        LK_KEEP(print_page(c, options, argc, argv, &page));
    if (st == LK_OK || st == LK_ECONTRADICTED) /* the numbers that are left are judged, too */
        LK_KEEP(lk_gates_close(&gate, c->name, &page, &gates));
out:
    lk_gates_fini(&gates);
    lk_page_fini(&page);
    free(operands);
    free(options);
    return st;
}
