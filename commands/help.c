/* Usage, manual pages, Markdown tables and completion, from the commands' rows. */
#include "commands/help.h"

#include "base/array.h"
#include "base/file.h"
#include "commands/completion.h"
#include "commands/schema.h"
#include "commands/start.h"
#include "facts/preset.h"

#include <string.h>

enum { WORDS_MAX = 64 }; /* a command, then names of options */

struct help_options {
    bool man, markdown, presets, schema;
    int completion; /* index of completion_shells */
};

static const struct lk_option rows[] = {
    ROW(struct help_options, "man", man, FLAG, .help = "manual page"),
    ROW(struct help_options, "markdown", markdown, FLAG, .help = "table of options"),
    ROW(struct help_options, "completion", completion, CHOICE, .choices = completion_shells,
        .fallback = "none", .help = "completion for a shell"),
    ROW(struct help_options, "presets", presets, FLAG, .help = "names of the cluster presets"),
    ROW(struct help_options, "schema", schema, FLAG, .help = "JSON Schema of a page or file"),
    {0}};

/* What completion knows of `help`, which is no command of the frame: it fills no page. */
static const struct lk_command help_row = {.name = "help",
                                           .help = "print help, manual pages and completions",
                                           .options = rows,
                                           .operands_max = WORDS_MAX,
                                           .operand = LK_OPERAND_NAME};

static const char summary[] = "Measures how well a data-parallel training job scales, explains the "
                              "loss, and\nforecasts more GPUs, batches and buckets with an "
                              "interval.\n";

void lk_help_program(const struct lk_command *const *all, FILE *out)
{
    fprintf(out, "usage: lockstep COMMAND [options]\n\n%s\ncommands:\n", summary);
    for (size_t i = 0; all[i]; i++)
        fprintf(out, "  %-10s %s\n", all[i]->name, all[i]->help);
    fputs("\n  lockstep COMMAND --help         options of a command\n"
          "  lockstep help --man [COMMAND]   manual page\n"
          "  lockstep help --completion SHELL   completion for bash, zsh or fish\n"
          "  lockstep help --presets         names of the cluster presets\n"
          "  lockstep help --schema NAME     JSON Schema of a page or file\n"
          "  lockstep --version              version and build\n",
          out);
}

void lk_help_command(const struct lk_command *c, FILE *out)
{
    fprintf(out, "usage: lockstep %s [options] %s\n\n%s\n\noptions:\n", c->name, c->usage, c->help);
    lk_option_help(c->options, out);
    for (size_t i = 0; c->tables && c->tables[i]; i++)
        fprintf(out, "%s%s%s", i ? " " : "\ntables, for --table: ", c->tables[i],
                c->tables[i + 1] ? "," : "\n");
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
    fputs(".SH EXIT STATUS\n0: success; 1: failure, e.g. a missing or malformed input; 2: wrong "
          "usage; 3: a condition of \\-\\-fail\\-below or \\-\\-fail\\-if failed.\n",
          stdout);
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
          ".TP\n\\fISIZE\\fR\n25MiB or 25M (1024\\-based), 25MB (1000\\-based); a small b would be "
          "a bit\n"
          ".TP\n\\fITIME\\fR\n20ms, 1.5s, 5min, 2h or 1d\n"
          ".TP\n\\fIRATE\\fR\n12.5GB/s or 100Gbit/s, also 100Gbps or 100Gb/s; of a network link "
          "also 100G\n"
          ".TP\n\\fIN\\fR\n65536, 64k or 1e6\n"
          ".PP\nA size, a time or a rate needs its unit, but for 0.\n",
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
    for (size_t i = 0; c->tables && c->tables[i]; i++) {
        fputs(i ? ", " : ".SH TABLES\nFor \\-\\-table: ", stdout);
        lk_option_roff(c->tables[i], stdout);
    }
    fputs(c->tables ? ".\n" : "", stdout);
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

static enum lk_status print_presets(void)
{
    char **names = NULL;
    size_t n = 0;

    LK_PASS(lk_preset_names(&names, &n));
    for (size_t i = 0; i < n; i++)
        puts(names[i]);
    lk_names_free(names, n);
    return LK_OK;
}

enum lk_status lk_help_run(const struct lk_command *const *all, const char *version, int argc,
                           char **argv)
{
    struct help_options o;
    const struct lk_command *c = NULL;
    const char *words[WORDS_MAX];
    int n, kinds;

    LK_PASS(lk_option_parse(rows, &o, argc, argv, words, WORDS_MAX, &n));
    kinds = o.man + o.markdown + o.presets + o.schema + (o.completion > 0);
    if (kinds > 1 || (o.markdown ? n < 1 : n > (o.presets || o.completion ? 0 : 1)))
        return lk_fail(
            LK_EUSAGE,
            "usage: lockstep help [COMMAND], --man [COMMAND], --markdown "
            "COMMAND [OPTION...], --completion bash|zsh|fish, --presets or --schema NAME");
    if (o.schema)
        return lk_schema_run(all, n, words);
    if (n > 0)
        LK_PASS(lk_command_find(all, words[0], &c));
    if (o.presets)
        return print_presets();
    if (o.completion)
        return print_completion(o.completion, all, &help_row, stdout);
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
