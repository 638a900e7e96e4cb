/* Prints an option table as help text, manual page or Markdown, and an option's value as text. */
#include "base/array.h"
#include "base/option.h"
#include "base/units.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
    HELP_COLUMN = 26, /* where the help text begins */
    HELP_WIDTH = 80
};

/* Whole numbers below are printed in full. */
static const double WHOLE_MAX = 1e16;

static const struct {
    const char *word; /* for the value, in the help */
    enum lk_dimension dim;
} types[] = {
#define LK_OPTION_TYPE_(type, c, word, dim) [type] = {word, dim},
    LK_OPTION_LIST(LK_OPTION_TYPE_)
#undef LK_OPTION_TYPE_
};

/* Return the word for the value; "" for a flag. */
static const char *value_word(const struct lk_option *row)
{
    return row->word ? row->word : types[row->type].word;
}

/* Append to the text of *used bytes in buf; the excess is cut off. */
__attribute__((format(printf, 4, 5))) static void append(char *buf, size_t size, size_t *used,
                                                         const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(buf + *used, size - *used, fmt, ap);
    va_end(ap);
    if (n > 0)
        *used = *used + (size_t)n < size ? *used + (size_t)n : size - 1;
}

/* Append a bound: whole numbers in full, quantities in their unit. */
static void append_bound(const struct lk_option *row, double v, char *buf, size_t size,
                         size_t *used)
{
    enum lk_dimension dim = row->type == LK_OPT_TEXT ? row->dim : types[row->type].dim;
    char text[48];

    if (dim == LK_DIM_NONE && v == floor(v) && fabs(v) < WHOLE_MAX)
        append(buf, size, used, "%.0f", v);
    else
        append(buf, size, used, "%s", lk_units_exact(dim, v, text, sizeof text));
}

/* Write "1..64; default 8": range or allowed words, and the default; "" for a row without. */
static void describe(const struct lk_option *row, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    if (row->type == LK_OPT_CHOICE) {
        for (int i = 0; row->choices[i]; i++)
            append(buf, size, &used, "%s%s", i ? "|" : "", row->choices[i]);
    } else if (row->words) {
        for (size_t i = 0; i < row->words->n; i++)
            append(buf, size, &used, "%s%s", i ? "|" : "", row->words->names[i]);
    } else if (row->min != 0 || row->max != 0) {
        append(buf, size, &used, "%s", isfinite(row->max) ? "" : "at least ");
        append_bound(row, row->min, buf, size, &used);
        if (isfinite(row->max)) {
            append(buf, size, &used, "..");
            append_bound(row, row->max, buf, size, &used);
        }
    }
    if (row->fallback && *row->fallback)
        append(buf, size, &used, "%sdefault %s", used ? "; " : "", row->fallback);
}

/* Write the help with what describe() says in brackets. */
static void describe_fully(const struct lk_option *row, char *buf, size_t size)
{
    char values[512];
    size_t used = 0;

    describe(row, values, sizeof values);
    append(buf, size, &used, *values ? "%s [%s]" : "%s", row->help, values);
}

/* Print words from `column` on, broken before HELP_WIDTH and indented to HELP_COLUMN. */
static void print_wrapped(const char *text, int column, FILE *out)
{
    while (*text) {
        size_t word = strcspn(text, " ");

        if (column > HELP_COLUMN && column + 1 + (int)word > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word, text);
        column += (int)word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* Return "[no-]" for a flag that is on by default: help shows the form that changes it. */
static const char *negation(const struct lk_option *row)
{
    return row->type == LK_OPT_FLAG && row->fallback && !strcmp(row->fallback, "yes") ? "[no-]"
                                                                                      : "";
}

static void print_row(const struct lk_option *row, FILE *out)
{
    char left[96];
    char text[1024];
    size_t used = 0;
    const char *word = value_word(row);

    append(left, sizeof left, &used, row->letter ? "  -%c, " : "      ", row->letter);
    append(left, sizeof left, &used, "--%s%s%s%s", negation(row), row->name, *word ? "=" : "",
           word);
    describe_fully(row, text, sizeof text);
    fputs(left, out);
    if (strlen(left) + 2 > HELP_COLUMN)
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(out, "%*s", HELP_COLUMN - (int)strlen(left), "");
    print_wrapped(text, HELP_COLUMN, out);
}

void lk_option_help(const struct lk_option *rows, FILE *out)
{
    for (const struct lk_option *row = rows; row->name; row++) {
        if (row->group)
            fprintf(out, "%s%s:\n", row == rows ? "" : "\n", row->group);
        print_row(row, out);
    }
}

void lk_option_roff(const char *text, FILE *out)
{
    /* Without these escapes formatters print typographic quotes, accents and hyphens instead. A
     * list of words may be broken after each. */
    static const struct {
        char c;
        const char *roff;
    } escapes[] = {
        {'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'"', "\\(dq"},
        {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"},  {'|', "|\\:"},
    };

    fputs(*text == '.' ? "\\&" : "", out);
    for (; *text; text++) {
        size_t i = 0;

        while (i < LK_COUNT(escapes) && escapes[i].c != *text)
            i++;
        if (i < LK_COUNT(escapes))
            fputs(escapes[i].roff, out);
        else
            fputc(*text, out);
    }
}

void lk_option_man(const struct lk_option *rows, FILE *out)
{
    for (const struct lk_option *row = rows; row->name; row++) {
        char text[1024];

        if (row->group) {
            fputs(".SS ", out);
            lk_option_roff(row->group, out);
            fputc('\n', out);
        }
        fputs(".TP\n", out);
        if (row->letter)
            fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
        fputs("\\fB\\-\\-", out);
        lk_option_roff(negation(row), out);
        lk_option_roff(row->name, out);
        fputs("\\fR", out);
        if (*value_word(row))
            fprintf(out, "=\\fI%s\\fR", value_word(row));
        fputc('\n', out);
        describe_fully(row, text, sizeof text);
        lk_option_roff(text, out);
        fputc('\n', out);
    }
}

/* Print text of a table's cell: what Markdown or HTML would read as markup is escaped. */
static void print_cell(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (strchr("\\|*_<`[", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static bool is_listed(const struct lk_option *row, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], row->name))
            return true;
    return n == 0;
}

void lk_option_markdown(const struct lk_option *rows, const char *const *names, size_t n, FILE *out)
{
    fputs("| option | meaning | values |\n|---|---|---|\n", out);
    for (const struct lk_option *row = rows; row->name; row++) {
        char values[512];

        if (row->group && n == 0)
            fprintf(out, "| **%s** | | |\n", row->group);
        if (!is_listed(row, names, n))
            continue;
        fputs("| ", out);
        if (row->letter)
            fprintf(out, "`-%c`, ", row->letter);
        fprintf(out, "`--%s%s%s%s` | ", negation(row), row->name, *value_word(row) ? "=" : "",
                value_word(row));
        print_cell(row->help, out);
        fputs(" | ", out);
        describe(row, values, sizeof values);
        print_cell(values, out);
        fputs(*values ? " |\n" : "|\n", out);
    }
}

/* Append a whole number or a size, a value of its own or an item of a list. */
static void append_item(bool is_size, const void *item, char *buf, size_t size, size_t *used)
{
    char text[48];

    if (is_size)
        append(buf, size, used, "%s",
               lk_units_exact(LK_DIM_BYTES, (double)*(const uint64_t *)item, text, sizeof text));
    else
        append(buf, size, used, "%lld", (long long)*(const int64_t *)item);
}

const char *lk_option_value(const struct lk_option *row, const void *target, char *buf, size_t size)
{
    const void *field = (const char *)target + row->offset;
    const struct lk_ints *list = field; /* and struct lk_sizes: alike but for the sign */
    bool is_size = row->type == LK_OPT_SIZE || row->type == LK_OPT_SIZES;
    size_t used = 0;

    if (!size)
        return buf;
    buf[0] = '\0';
    switch (row->type) {
    case LK_OPT_FLAG:
        append(buf, size, &used, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case LK_OPT_INT:
        append(buf, size, &used, "%lld",
               row->bytes == sizeof(int) ? (long long)*(const int *)field
                                         : (long long)*(const int64_t *)field);
        break;
    case LK_OPT_SIZE:
        append_item(is_size, field, buf, size, &used);
        break;
    case LK_OPT_REAL:
    case LK_OPT_TIME:
    case LK_OPT_RATE:
        lk_units_exact(types[row->type].dim, *(const double *)field, buf, size);
        break;
    case LK_OPT_TEXT:
    case LK_OPT_FILE:
        if (*(const char *const *)field)
            append(buf, size, &used, "%s", *(const char *const *)field);
        break;
    case LK_OPT_CHOICE:
        append(buf, size, &used, "%s", row->choices[*(const int *)field]);
        break;
    case LK_OPT_INTS:
    case LK_OPT_SIZES:
        for (int i = 0; i < list->n; i++) {
            append(buf, size, &used, "%s", i ? "," : "");
            append_item(is_size, &list->v[i], buf, size, &used);
        }
        break;
    }
    return buf;
}
