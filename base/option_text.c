/* What is printed from an option table: help, manual page, effective configuration. */
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

static const char *const type_words[] = {
#define LK_OPTION_WORD_(type, c, word) [type] = (word),
    LK_OPTION_LIST(LK_OPTION_WORD_)
#undef LK_OPTION_WORD_
};

/* Of the numbers that a type's range and value are in. */
static enum lk_dimension dimension_of(enum lk_option_type type)
{
    switch (type) {
    case LK_OPT_SIZE:
    case LK_OPT_SIZES:
        return LK_DIM_BYTES;
    case LK_OPT_TIME:
        return LK_DIM_TIME;
    case LK_OPT_RATE:
        return LK_DIM_RATE;
    case LK_OPT_FLAG:
    case LK_OPT_INT:
    case LK_OPT_REAL:
    case LK_OPT_TEXT:
    case LK_OPT_FILE:
    case LK_OPT_CHOICE:
    case LK_OPT_INTS:
        break;
    }
    return LK_DIM_NONE;
}

/* Appends to the text of *used bytes in buf; what does not fit is cut. */
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

/* A bound as text: whole numbers in full, quantities in their unit. */
static void append_bound(const struct lk_option *row, double v, char *buf, size_t size,
                         size_t *used)
{
    char text[48];

    if (row->type == LK_OPT_INT || row->type == LK_OPT_INTS)
        append(buf, size, used, "%.0f", v);
    else
        append(buf, size, used, "%s",
               lk_units_exact(dimension_of(row->type), v, text, sizeof text));
}

/* "[1..64; default 8]", the allowed words, or nothing. */
static void describe(const struct lk_option *row, char *buf, size_t size)
{
    const char *comma = "";
    size_t used = 0;

    append(buf, size, &used, " [");
    if (row->type == LK_OPT_CHOICE) {
        for (int i = 0; row->choices[i]; i++)
            append(buf, size, &used, "%s%s", i ? "|" : "", row->choices[i]);
        comma = "; ";
    } else if (row->min != 0 || row->max != 0) {
        append(buf, size, &used, "%s", isfinite(row->max) ? "" : "at least ");
        append_bound(row, row->min, buf, size, &used);
        if (isfinite(row->max)) {
            append(buf, size, &used, "..");
            append_bound(row, row->max, buf, size, &used);
        }
        comma = "; ";
    }
    if (row->fallback && *row->fallback) {
        append(buf, size, &used, "%sdefault %s", comma, row->fallback);
        comma = "; ";
    }
    if (*comma)
        append(buf, size, &used, "]");
    else
        buf[0] = '\0';
}

/* Prints words from `column` on, broken before HELP_WIDTH and indented to HELP_COLUMN. */
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

/* A flag that is on by default is shown by the form that changes it. */
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
    const char *word = type_words[row->type];

    append(left, sizeof left, &used, row->letter ? "  -%c, " : "      ", row->letter);
    append(left, sizeof left, &used, "--%s%s%s%s", negation(row), row->name, *word ? "=" : "",
           word);
    used = (size_t)snprintf(text, sizeof text, "%s", row->help);
    if (used < sizeof text)
        describe(row, text + used, sizeof text - used);
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

/* Text of a roff line: backslashes and dashes escaped. It never begins a line with a control. */
static void print_roff(const char *text, FILE *out)
{
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
}

void lk_option_man(const struct lk_option *rows, FILE *out)
{
    for (const struct lk_option *row = rows; row->name; row++) {
        char text[1024];

        if (row->group) {
            fputs(".SS ", out);
            print_roff(row->group, out);
            fputc('\n', out);
        }
        fputs(".TP\n", out);
        if (row->letter)
            fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
        fputs("\\fB\\-\\-", out);
        print_roff(negation(row), out);
        print_roff(row->name, out);
        fputs("\\fR", out);
        if (*type_words[row->type])
            fprintf(out, "=\\fI%s\\fR", type_words[row->type]);
        fputs("\n\\&", out);
        print_roff(row->help, out);
        describe(row, text, sizeof text);
        print_roff(text, out);
        fputc('\n', out);
    }
}

const char *lk_option_value(const struct lk_option *row, const void *target, char *buf, size_t size)
{
    const void *field = (const char *)target + row->offset;
    char text[48];
    size_t used = 0;

    if (!size)
        return buf;
    buf[0] = '\0';
    switch (row->type) {
    case LK_OPT_FLAG:
        append(buf, size, &used, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case LK_OPT_INT:
        append(buf, size, &used, "%lld", (long long)*(const int64_t *)field);
        break;
    case LK_OPT_SIZE:
        lk_units_exact(LK_DIM_BYTES, (double)*(const uint64_t *)field, buf, size);
        break;
    case LK_OPT_REAL:
    case LK_OPT_TIME:
    case LK_OPT_RATE:
        lk_units_exact(dimension_of(row->type), *(const double *)field, buf, size);
        break;
    case LK_OPT_TEXT:
    case LK_OPT_FILE:
        if (*(const char *const *)field)
            append(buf, size, &used, "%s", *(const char *const *)field);
        break;
    case LK_OPT_CHOICE:
        append(buf, size, &used, "%s", row->choices[*(const int *)field]);
        break;
    case LK_OPT_INTS: {
        const struct lk_ints *list = field;

        for (int i = 0; i < list->n; i++)
            append(buf, size, &used, "%s%lld", i ? "," : "", (long long)list->v[i]);
        break;
    }
    case LK_OPT_SIZES: {
        const struct lk_sizes *list = field;

        for (int i = 0; i < list->n; i++)
            append(buf, size, &used, "%s%s", i ? "," : "",
                   lk_units_exact(LK_DIM_BYTES, (double)list->v[i], text, sizeof text));
        break;
    }
    }
    return buf;
}

void lk_option_print(const struct lk_option *rows, const void *target, FILE *out)
{
    int width = 0;

    for (const struct lk_option *row = rows; row->name; row++)
        width = (int)strlen(row->name) > width ? (int)strlen(row->name) : width;
    for (const struct lk_option *row = rows; row->name; row++) {
        char text[2048];

        lk_option_value(row, target, text, sizeof text);
        fprintf(out, "  %-*s  %s\n", width, row->name, *text ? text : "-");
    }
}
