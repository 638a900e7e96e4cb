/* Command-line options as tables: the parser. option_text.c prints tables. */
#include "base/option.h"

#include "base/array.h"
#include "base/units.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Doubles hold every whole number up to here, so sizes up to here are exact. */
#define SIZE_LIMIT 0x1p53

/* State of one walk over argv. */
struct parse {
    const struct lk_option *rows;
    void *target;
    int argc;
    char **argv;
    int next; /* index of the word after the option's name */
    size_t n_rows;
    bool *seen;         /* by row */
    const char **names; /* by row */
};

static const struct {
    size_t bytes; /* of the field */
    enum lk_dimension dim;
} types[] = {
#define LK_OPTION_TYPE_(type, c, word, dim) [type] = {sizeof(c), dim},
    LK_OPTION_LIST(LK_OPTION_TYPE_)
#undef LK_OPTION_TYPE_
};

static bool is_bounded(const struct lk_option *row)
{
    return row->min != 0 || row->max != 0;
}

/* Format a bound: whole numbers in full, quantities in their unit. */
static const char *bound_text(enum lk_dimension dim, double v, char *buf, size_t size)
{
    if (dim != LK_DIM_NONE || v != floor(v) || fabs(v) >= 0x1p63)
        return lk_units_exact(dim, v, buf, size);
    snprintf(buf, size, "%.0f", v);
    return buf;
}

static enum lk_status check_range(const struct lk_option *row, enum lk_dimension dim, double v)
{
    char min[48];
    char max[48];

    if (!is_bounded(row) || (v >= row->min && v <= row->max))
        return LK_OK;
    bound_text(dim, row->min, min, sizeof min);
    if (!isfinite(row->max))
        return lk_fail(LK_EUSAGE, "must be at least %s", min);
    return lk_fail(LK_EUSAGE, "must be from %s to %s", min,
                   bound_text(dim, row->max, max, sizeof max));
}

/* Convert a double to an int64_t bound, clamped to the type's limits. */
static int64_t int64_bound(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

static enum lk_status read_int(const struct lk_option *row, const char *text, int64_t *out)
{
    return is_bounded(row) ? lk_parse_count(text, int64_bound(row->min), int64_bound(row->max), out)
                           : lk_parse_count(text, INT64_MIN, INT64_MAX, out);
}

/* Read a whole number into a field of an int or an int64_t. */
static enum lk_status read_int_field(const struct lk_option *row, const char *text, void *field)
{
    int64_t v = 0;

    if (row->bytes != sizeof(int))
        return read_int(row, text, field);
    LK_PASS(read_int(row, text, &v));
    if (v < INT_MIN || v > INT_MAX)
        return lk_fail(LK_EUSAGE, "must be from %d to %d", INT_MIN, INT_MAX);
    *(int *)field = (int)v;
    return LK_OK;
}

static enum lk_status read_real(const struct lk_option *row, enum lk_dimension dim,
                                const char *text, double *out)
{
    double v = 0;
    enum lk_status st;

    LK_TRY(lk_units_parse(dim, text, &v));
    if (dim != LK_DIM_NONE && v < 0)
        return lk_fail(LK_EUSAGE, "'%s' is negative", text);
    LK_TRY(check_range(row, dim, v));
    *out = v;
out:
    return st;
}

static enum lk_status read_size(const struct lk_option *row, const char *text, uint64_t *out)
{
    double v = 0;
    enum lk_status st;

    if (row->least && !strcmp(text, row->least)) {
        *out = (uint64_t)row->min;
        return LK_OK;
    }
    LK_TRY(read_real(row, LK_DIM_BYTES, text, &v));
    if (v != floor(v) || v > SIZE_LIMIT)
        return lk_fail(LK_EUSAGE, "'%s' is not a whole number of bytes up to 8192TiB", text);
    *out = (uint64_t)v;
out:
    return st;
}

static enum lk_status read_choice(const struct lk_option *row, const char *text, int *out)
{
    struct lk_words words = {.names = row->choices};
    char list[512];
    const char *near;

    while (row->choices[words.n])
        words.n++;
    if (lk_words_match(&words, text, out))
        return LK_OK;
    near = lk_words_nearest(text, words.names, words.n);
    return lk_fail(LK_EUSAGE, "'%s' is not one of:%s%s%s%s", text,
                   lk_words_list(&words, list, sizeof list), near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

static enum lk_status set_value(const struct lk_option *row, enum lk_option_type type,
                                const char *text, void *field);

/* Read the items of a comma-separated list one by one; an empty item is an error of its reader. The
 * items of both kinds of list have 8 bytes. */
static enum lk_status read_list(const struct lk_option *row, enum lk_option_type type,
                                const char *text, void *items, int *out_n)
{
    enum lk_status st = LK_OK;
    char *copy = NULL;
    char *item;
    char *rest;
    int n = 0;

    LK_TRY(lk_strdup(&copy, text));
    for (rest = copy; (item = lk_list_next(&rest)); n++) {
        if (n == LK_OPTION_LIST_MAX)
            LK_TRY(lk_fail(LK_EUSAGE, "has more than %d items", LK_OPTION_LIST_MAX));
        LK_TRY(set_value(row, type, item, (char *)items + (size_t)n * sizeof(int64_t)));
    }
    *out_n = n;
out:
    free(copy);
    return st;
}

/* Set a field, or an item of a list, from text; the error text does not name the option. */
static enum lk_status set_value(const struct lk_option *row, enum lk_option_type type,
                                const char *text, void *field)
{
    struct lk_ints *ints = field;
    struct lk_sizes *sizes = field;

    switch (type) {
    case LK_OPT_FLAG:
        *(bool *)field = !strcmp(text, "yes");
        return LK_OK;
    case LK_OPT_INT:
        return read_int(row, text, field);
    case LK_OPT_REAL:
    case LK_OPT_TIME:
    case LK_OPT_RATE:
        return read_real(row, types[type].dim, text, field);
    case LK_OPT_SIZE:
        return read_size(row, text, field);
    case LK_OPT_FILE:
        if (!*text)
            return lk_fail(LK_EUSAGE, "the file name is empty");
        *(const char **)field = text;
        return LK_OK;
    case LK_OPT_TEXT:
        *(const char **)field = text;
        return LK_OK;
    case LK_OPT_CHOICE:
        return read_choice(row, text, field);
    case LK_OPT_INTS:
        return read_list(row, LK_OPT_INT, text, ints->v, &ints->n);
    case LK_OPT_SIZES:
        return read_list(row, LK_OPT_SIZE, text, sizes->v, &sizes->n);
    }
    return lk_fail(LK_EINTERNAL, "option type %d", (int)type);
}

static enum lk_status set_field(const struct lk_option *row, void *target, const char *text)
{
    void *field = (char *)target + row->offset;

    return row->type == LK_OPT_INT ? read_int_field(row, text, field)
                                   : set_value(row, row->type, text, field);
}

static enum lk_status set_defaults(const struct lk_option *rows, void *target)
{
    for (const struct lk_option *row = rows; row->name; row++) {
        memset((char *)target + row->offset, 0, row->bytes ? row->bytes : types[row->type].bytes);
        if (row->fallback && set_field(row, target, row->fallback) != LK_OK)
            return lk_fail(LK_EINTERNAL, "the default of --%s: %s", row->name, lk_error_text());
    }
    return LK_OK;
}

static enum lk_status fail_unknown(const struct parse *p, const char *word, size_t len)
{
    char name[64], now[512] = "";
    const char *near;

    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name), word);
    for (const struct lk_option *row = p->rows; row->name; row++)
        if (row->former && !strcmp(row->former, name))
            snprintf(now + strlen(now), sizeof now - strlen(now), "%s--%s, %s", *now ? "; or " : "",
                     row->name, row->help);
    if (*now)
        return lk_fail(LK_EUSAGE, "--%s is no option any more: give %s", name, now);
    near = lk_words_nearest(name, p->names, p->n_rows);
    return lk_fail(LK_EUSAGE, "no option '--%.*s'%s%s%s", (int)len, word,
                   near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

static bool is_name(const struct lk_option *row, const char *word, size_t len)
{
    return strlen(row->name) == len && !memcmp(row->name, word, len);
}

/* Find the row of a long name; *out_no is set for "no-" and a flag's name. */
static const struct lk_option *find_long(const struct lk_option *rows, const char *word, size_t len,
                                         bool *out_no)
{
    *out_no = false;
    for (const struct lk_option *row = rows; row->name; row++)
        if (is_name(row, word, len))
            return row;
    if (len <= 3 || memcmp(word, "no-", 3) != 0)
        return NULL;
    *out_no = true;
    for (const struct lk_option *row = rows; row->name; row++)
        if (row->type == LK_OPT_FLAG && is_name(row, word + 3, len - 3))
            return row;
    return NULL;
}

/*
 * Take the next word of argv as the value of an option. A word that looks like an option is not
 * taken: the user forgot the value. "-" and negative numbers are values. NULL: there is none
 * (LK_EUSAGE).
 */
static const char *take_value(struct parse *p, const struct lk_option *row)
{
    const char *word = p->next < p->argc ? p->argv[p->next] : NULL;

    if (!word) {
        (void)lk_fail(LK_EUSAGE, "--%s needs a value", row->name);
        return NULL;
    }
    if (word[0] == '-' && word[1] && !strchr("0123456789.", word[1])) {
        (void)lk_fail(LK_EUSAGE,
                      "--%s needs a value, and '%s' looks like an option "
                      "(if it is the value: --%s=%s)",
                      row->name, word, row->name, word);
        return NULL;
    }
    p->next++;
    return word;
}

/* Apply one option: `value` is the text attached to it ("--name=value", "-n4"), or NULL. */
static enum lk_status apply(struct parse *p, const struct lk_option *row, bool no,
                            const char *value)
{
    if (p->seen[row - p->rows])
        return lk_fail(LK_EUSAGE, "--%s is given twice", row->name);
    p->seen[row - p->rows] = true;
    if (row->type == LK_OPT_FLAG) {
        if (value)
            return lk_fail(LK_EUSAGE, "--%s takes no value, but has '%s'", row->name, value);
        value = no ? "no" : "yes";
    } else if (!value) {
        value = take_value(p, row);
        if (!value)
            return LK_EUSAGE;
    }
    return lk_fail_context(set_field(row, p->target, value), "--%s", row->name);
}

static enum lk_status parse_long(struct parse *p, const char *word)
{
    const char *eq = strchr(word, '=');
    size_t len = eq ? (size_t)(eq - word) : strlen(word);
    bool no = false;
    const struct lk_option *row = find_long(p->rows, word, len, &no);

    if (!row)
        return fail_unknown(p, word, len);
    return apply(p, row, no, eq ? eq + 1 : NULL);
}

static enum lk_status parse_letter(struct parse *p, const char *word)
{
    for (const struct lk_option *row = p->rows; row->name; row++)
        if (row->letter && row->letter == word[0])
            return apply(p, row, false, word[1] ? word + 1 : NULL);
    return lk_fail(LK_EUSAGE, "no option '-%s'", word);
}

static enum lk_status take_operand(const char *word, const char **operands, int max_operands,
                                   int *n)
{
    if (!max_operands)
        return lk_fail(LK_EUSAGE, "'%s': takes no operands", word);
    if (*n == max_operands)
        return lk_fail(LK_EUSAGE, "'%s' is one operand too many", word);
    operands[(*n)++] = word;
    return LK_OK;
}

/* Parse all words. "-" alone is an operand, and so is everything after "--". */
static enum lk_status parse_words(struct parse *p, const char **operands, int max_operands,
                                  int *out_operands)
{
    enum lk_status st = LK_OK;
    bool only_operands = false;
    int n = 0;

    while (p->next < p->argc && st == LK_OK) {
        const char *word = p->argv[p->next++];

        if (only_operands || word[0] != '-' || !word[1])
            st = take_operand(word, operands, max_operands, &n);
        else if (!strcmp(word, "--"))
            only_operands = true;
        else
            st = word[1] == '-' ? parse_long(p, word + 2) : parse_letter(p, word + 1);
    }
    if (st == LK_OK)
        *out_operands = n;
    return st;
}

enum lk_status lk_option_parse(const struct lk_option *rows, void *target, int argc, char **argv,
                               const char **operands, int max_operands, int *out_operands)
{
    enum lk_status st = LK_OK;
    struct parse p = {.rows = rows, .target = target, .argc = argc, .argv = argv};

    while (rows[p.n_rows].name)
        p.n_rows++;
    LK_TRY(lk_alloc(&p.seen, p.n_rows, sizeof *p.seen));
    LK_TRY(lk_alloc(&p.names, p.n_rows, sizeof *p.names));
    for (size_t i = 0; i < p.n_rows; i++)
        p.names[i] = rows[i].name;
    LK_TRY(set_defaults(rows, target));
    LK_TRY(parse_words(&p, operands, max_operands, out_operands));
out:
    free(p.names);
    free(p.seen);
    return st;
}
