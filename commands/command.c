/* Find, parse and run a command; print usage, manual pages and Markdown tables from its rows. */
#include "commands/command.h"

#include "base/array.h"
#include "base/log.h"
#include "reports/page.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 64 }; /* a command, then names of options */

struct help_options {
    bool man, markdown;
};

static const struct lk_option rows[] = {
    ROW(struct help_options, "man", man, FLAG, .help = "manual page"),
    ROW(struct help_options, "markdown", markdown, FLAG, .help = "table of options"),
    {0}};

static const char summary[] = "Measures how well a data-parallel training job scales, explains the "
                              "loss, and\nforecasts more GPUs, batches and buckets with an "
                              "interval.\n";

enum lk_status lk_command_find(const struct lk_command *const *all, const char *name,
                               const struct lk_command **out)
{
    const char *names[WORDS_MAX], *near;
    size_t n = 0;

    for (; all[n] && n < WORDS_MAX; n++) {
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

/* ---- The command line ---- */

enum lk_status lk_command_parse(const struct lk_command *c, int argc, char **argv, void *options,
                                const char **operands, int *n_operands)
{
    memset(options, 0, c->size);
    if (c->defaults)
        LK_PASS(lk_option_parse(c->defaults, options, 0, NULL, NULL, 0, n_operands));
    return lk_option_parse(c->options, options, argc, argv, operands, c->operands_max, n_operands);
}

/* Return the level of the log that the parsed options give. */
static const char *log_level(const struct lk_command *c, const void *options)
{
    const struct lk_option *row = c->options;

    while (strcmp(row->name, LOG_NAME) != 0)
        row++;
    return *(const char *const *)((const char *)options + row->offset);
}

/* Return how the page is printed; a command without such options has text. */
static struct lk_page_options page_options(const struct lk_command *c, const void *options)
{
    for (const struct lk_option *row = c->options; row->name; row++)
        if (!strcmp(row->name, PAGE_NAME))
            return *(const struct lk_page_options *)(const void *)((const char *)options +
                                                                   row->offset);
    return (struct lk_page_options){.format = LK_FORMAT_TEXT};
}

/* Join the words of the command line, as a shell would read them. */
static enum lk_status command_line(const char *command, int argc, char **argv, char **out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+./,:@%";
    enum lk_status st = LK_OK;
    char *line = NULL, *longer;

    LK_TRY(lk_asprintf(&line, "lockstep %s", command));
    for (int i = 0; i < argc; i++) {
        const char *quote = *argv[i] && !argv[i][strspn(argv[i], plain)] ? "" : "'";

        LK_TRY(lk_asprintf(&longer, "%s %s%s%s", line, quote, argv[i], quote));
        free(line);
        line = longer;
    }
    *out = line;
    line = NULL;
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
    char *options = NULL;
    int n = 0;

    LK_TRY(lk_alloc(&options, c->size, 1));
    LK_TRY(lk_alloc(&operands, (size_t)c->operands_max + 2, sizeof *operands));
    LK_TRY((c->operands_are_command ? parse_with_command : lk_command_parse)(c, argc, argv, options,
                                                                             operands, &n));
    LK_TRY(lk_log_configure(log_level(c, options)));
    if (!n && c->no_operand)
        LK_TRY(lk_fail(LK_EUSAGE, "%s", c->no_operand));
    LK_TRY(c->run(options, operands, n, &page));
    LK_TRY(print_page(c, options, argc, argv, &page));
out:
    lk_page_fini(&page);
    free(operands);
    free(options);
    return st;
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
    *out = argv;
    argv = NULL;
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

/* ---- Help ---- */

void lk_help_program(const struct lk_command *const *all, FILE *out)
{
    fprintf(out, "usage: lockstep COMMAND [options]\n\n%s\ncommands:\n", summary);
    for (size_t i = 0; all[i]; i++)
        fprintf(out, "  %-10s %s\n", all[i]->name, all[i]->help);
    fputs("\n  lockstep COMMAND --help         options of a command\n"
          "  lockstep help --man [COMMAND]   manual page\n"
          "  lockstep --version              version and build\n",
          out);
}

void lk_help_command(const struct lk_command *c, FILE *out)
{
    fprintf(out, "usage: lockstep %s [options] %s\n\n%s\n\noptions:\n", c->name, c->usage, c->help);
    lk_option_help(c->options, out);
}

/* ---- Manual pages ---- */

/* Print the title and the sections that every page begins with; command NULL: the program's. */
static void begin_page(const char *command, const char *help, const char *version)
{
    const char *dash = command ? "\\-" : "";

    command = command ? command : "";
    printf(".TH lockstep%s%s 1 \"\" \"lockstep %s\"\n.ad l\n.SH NAME\nlockstep%s%s \\- ", dash,
           command, version, dash, command);
    lk_option_roff(help, stdout);
    printf("\n.SH SYNOPSIS\n.B lockstep%s%s\n", *command ? " " : "", command);
}

static void end_page(void)
{
    fputs(".SH EXIT STATUS\n0: success; 1: failure; 2: wrong usage.\n", stdout);
}

static void print_program_page(const struct lk_command *const *all, const char *version)
{
    begin_page(NULL, "measure and forecast the scaling of data-parallel training", version);
    fputs("\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n", stdout);
    lk_option_roff(summary, stdout);
    fputs(".SH COMMANDS\n", stdout);
    for (size_t i = 0; all[i]; i++) {
        printf(".TP\n.BR lockstep\\-%s (1)\n", all[i]->name);
        lk_option_roff(all[i]->help, stdout);
        fputc('\n', stdout);
    }
    fputs(".SH OPTIONS\n"
          "An option is written \\-\\-name=value or \\-\\-name value, a flag \\-\\-name or "
          "\\-\\-no\\-name.\n"
          "Its value is a number (N, X), a text, a word of those listed, or a quantity:\n"
          ".TP\n\\fISIZE\\fR\nbytes, as 25MiB (1024\\-based) or 25MB (1000\\-based)\n"
          ".TP\n\\fITIME\\fR\nseconds, as 20ms, 1.5s or 2h\n"
          ".TP\n\\fIRATE\\fR\nbytes or bits a second, as 12.5GB/s or 100Gbit/s\n",
          stdout);
    end_page();
}

static void print_command_page(const struct lk_command *c, const char *version)
{
    begin_page(c->name, c->help, version);
    fputs("[\\fIoptions\\fR] ", stdout);
    lk_option_roff(c->usage, stdout);
    fputs("\n.SH OPTIONS\n.BR lockstep (1)\nsays how options and quantities are written.\n",
          stdout);
    lk_option_man(c->options, stdout);
    end_page();
    fputs(".SH SEE ALSO\n.BR lockstep (1)\n", stdout);
}

/* ---- `lockstep help` ---- */

static enum lk_status check_names(const struct lk_command *c, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct lk_option *row = c->options;

        while (row->name && strcmp(row->name, names[i]) != 0)
            row++;
        if (!row->name)
            return lk_fail(LK_EUSAGE, "'%s' has no option '%s'", c->name, names[i]);
    }
    return LK_OK;
}

enum lk_status lk_help_run(const struct lk_command *const *all, const char *version, int argc,
                           char **argv)
{
    struct help_options o;
    const struct lk_command *c = NULL;
    const char *words[WORDS_MAX];
    int n;

    LK_PASS(lk_option_parse(rows, &o, argc, argv, words, WORDS_MAX, &n));
    if ((o.man && o.markdown) || (o.markdown ? n < 1 : n > 1))
        return lk_fail(LK_EUSAGE, "usage: lockstep help [COMMAND], --man [COMMAND] or --markdown "
                                  "COMMAND [OPTION...]");
    if (n > 0)
        LK_PASS(lk_command_find(all, words[0], &c));
    if (o.markdown) {
        LK_PASS(check_names(c, words + 1, (size_t)n - 1));
        lk_option_markdown(c->options, words + 1, (size_t)n - 1, stdout);
    } else if (o.man && c) {
        print_command_page(c, version);
    } else if (o.man) {
        print_program_page(all, version);
    } else if (c) {
        lk_help_command(c, stdout);
    } else {
        lk_help_program(all, stdout);
    }
    return LK_OK;
}
