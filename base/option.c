/*
 * Command-line options as tables: the parser. option_text.c has what is printed from a table.
 */
#include "base/option.h"

#include "base/array.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The longest word that "did you mean" looks at: its table is on the stack. */
enum { NEAREST_MAX = 48 };

/* Doubles hold every whole number up to here, so sizes up to here are exact. */
#define SIZE_LIMIT 0x1p53

/* One walk over argv. */
struct parse {
    const struct lk_option *rows;
    void *target;
    int argc;
    char **argv;
    int next;   /* index of the word after the option's name */
    bool *seen; /* by row */
};

static bool is_bounded(const struct lk_option *row)
{
    return row->min != 0 || row->max != 0;
}

static enum lk_status check_range(const struct lk_option *row, enum lk_dimension dim, double v)
{
    char min[48];
    char max[48];

    if (!is_bounded(row) || (v >= row->min && v <= row->max))
        return LK_OK;
    if (!isfinite(row->max))
        return lk_fail(LK_EUSAGE, "must be at least %s",
                       lk_units_exact(dim, row->min, min, sizeof min));
    return lk_fail(LK_EUSAGE, "must be from %s to %s",
                   lk_units_exact(dim, row->min, min, sizeof min),
                   lk_units_exact(dim, row->max, max, sizeof max));
}

/* A double as an int64_t bound: infinities and what lies beyond become the type's limits. */
static int64_t int64_bound(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

static enum lk_status read_int(const struct lk_option *row, const char *text, int64_t *out)
{
    int64_t v = 0;
    enum lk_status st = lk_parse_int64(text, INT64_MIN, INT64_MAX, &v);

    if (st != LK_OK)
        return st;
    if (is_bounded(row) && (v < int64_bound(row->min) || v > int64_bound(row->max)))
        return check_range(row, LK_DIM_NONE, v < int64_bound(row->min) ? -INFINITY : INFINITY);
    *out = v;
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

    LK_TRY(read_real(row, LK_DIM_BYTES, text, &v));
    if (v != floor(v) || v > SIZE_LIMIT)
        return lk_fail(LK_EUSAGE, "'%s' is not a whole number of bytes up to 8192TiB", text);
    *out = (uint64_t)v;
out:
    return st;
}

static enum lk_status read_choice(const struct lk_option *row, const char *text, int *out)
{
    char words[512] = "";
    const char *near;
    size_t used = 0;
    int n;

    for (n = 0; row->choices[n]; n++)
        if (!strcmp(row->choices[n], text)) {
            *out = n;
            return LK_OK;
        }
    near = lk_option_nearest(text, row->choices, (size_t)n);
    for (int i = 0; i < n && used < sizeof words - 1; i++) {
        int m = snprintf(words + used, sizeof words - used, " %s", row->choices[i]);

        used += m > 0 ? (size_t)m : 0;
    }
    return lk_fail(LK_EUSAGE, "'%s' is not one of:%s%s%s%s", text, words,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Reads the items of a comma-separated list one by one; an empty item is an error of its reader. */
static enum lk_status read_list(const struct lk_option *row, const char *text, struct lk_ints *ints,
                                struct lk_sizes *sizes)
{
    enum lk_status st = LK_OK;
    char *copy = NULL;
    char *item;
    char *rest;
    int n = 0;

    LK_TRY(lk_strdup(&copy, text));
    for (rest = copy; (item = strsep(&rest, ",")); n++) {
        if (n == LK_OPTION_LIST_MAX) {
            st = lk_fail(LK_EUSAGE, "has more than %d items", LK_OPTION_LIST_MAX);
            goto out;
        }
        LK_TRY(ints ? read_int(row, item, &ints->v[n]) : read_size(row, item, &sizes->v[n]));
    }
    if (ints)
        ints->n = n;
    else
        sizes->n = n;
out:
    free(copy);
    return st;
}

static enum lk_status read_ints(const struct lk_option *row, const char *text, struct lk_ints *out)
{
    return read_list(row, text, out, NULL);
}

static enum lk_status read_sizes(const struct lk_option *row, const char *text,
                                 struct lk_sizes *out)
{
    return read_list(row, text, NULL, out);
}

/* Sets the row's field from text; the error text says what was wrong with it, not which it was. */
static enum lk_status set_field(const struct lk_option *row, void *target, const char *text)
{
    void *field = (char *)target + row->offset;

    switch (row->type) {
    case LK_OPT_FLAG:
        *(bool *)field = !strcmp(text, "yes");
        return LK_OK;
    case LK_OPT_INT:
        return read_int(row, text, field);
    case LK_OPT_REAL:
        return read_real(row, LK_DIM_NONE, text, field);
    case LK_OPT_SIZE:
        return read_size(row, text, field);
    case LK_OPT_TIME:
        return read_real(row, LK_DIM_TIME, text, field);
    case LK_OPT_RATE:
        return read_real(row, LK_DIM_RATE, text, field);
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
        return read_ints(row, text, field);
    case LK_OPT_SIZES:
        return read_sizes(row, text, field);
    }
    return lk_fail(LK_EINTERNAL, "option type %d", (int)row->type);
}

static size_t field_size(enum lk_option_type type)
{
    static const size_t sizes[] = {
#define LK_OPTION_SIZE_(type, c, word) [type] = sizeof(c),
        LK_OPTION_LIST(LK_OPTION_SIZE_)
#undef LK_OPTION_SIZE_
    };

    return sizes[type];
}

static enum lk_status set_defaults(const struct lk_option *rows, void *target)
{
    for (const struct lk_option *row = rows; row->name; row++) {
        memset((char *)target + row->offset, 0, field_size(row->type));
        if (row->fallback && set_field(row, target, row->fallback) != LK_OK)
            return lk_fail(LK_EINTERNAL, "the default of --%s: %s", row->name, lk_error_text());
    }
    return LK_OK;
}

/* Optimal string alignment: insertions, deletions, replacements and swaps of neighbours. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t d[NEAREST_MAX + 1][NEAREST_MAX + 1];
    size_t n = strlen(a);
    size_t m = strlen(b);

    if (n > NEAREST_MAX || m > NEAREST_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

/* How far `word` is from `candidate`; SIZE_MAX when nobody would mix them up. */
static size_t nearness(const char *word, const char *candidate)
{
    size_t n = strlen(word);
    size_t distance;

    if (n >= 3 && !strncmp(word, candidate, n)) /* cut short: "--bucket" for "--bucket-cap" */
        return 1;
    distance = edit_distance(word, candidate);
    return distance <= 1 + n / 4 && distance < n ? distance : SIZE_MAX;
}

const char *lk_option_nearest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t distance = nearness(word, words[i]);

        if (distance < best_distance) {
            best = words[i];
            best_distance = distance;
        }
    }
    return best;
}

static enum lk_status fail_unknown(const struct lk_option *rows, const char *word, size_t len)
{
    char name[NEAREST_MAX + 1];
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;

    snprintf(name, sizeof name, "%.*s", (int)(len < NEAREST_MAX ? len : NEAREST_MAX), word);
    for (const struct lk_option *row = rows; row->name; row++) {
        size_t distance = nearness(name, row->name);

        if (distance < best_distance) {
            best = row->name;
            best_distance = distance;
        }
    }
    return lk_fail(LK_EUSAGE, "no option '--%.*s'%s%s%s", (int)len, word,
                   best ? "; did you mean '--" : "", best ? best : "", best ? "'?" : "");
}

static bool is_name(const struct lk_option *row, const char *word, size_t len)
{
    return strlen(row->name) == len && !memcmp(row->name, word, len);
}

/* The row of a long name; *out_no says that it was "no-" and a flag's name. */
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
 * The next word of argv as the value of an option. A word that looks like an option is none: the
 * user forgot the value. "-" and negative numbers are values.
 */
static enum lk_status take_value(struct parse *p, const struct lk_option *row, const char **out)
{
    const char *word = p->next < p->argc ? p->argv[p->next] : NULL;

    if (!word)
        return lk_fail(LK_EUSAGE, "--%s needs a value", row->name);
    if (word[0] == '-' && word[1] && !strchr("0123456789.", word[1]))
        return lk_fail(LK_EUSAGE,
                       "--%s needs a value, and '%s' looks like an option "
                       "(if it is the value: --%s=%s)",
                       row->name, word, row->name, word);
    p->next++;
    *out = word;
    return LK_OK;
}

/* An option was read: `value` is what came with it, NULL when nothing did. */
static enum lk_status apply(struct parse *p, const struct lk_option *row, bool no,
                            const char *value)
{
    enum lk_status st = LK_OK;

    if (p->seen[row - p->rows])
        return lk_fail(LK_EUSAGE, "--%s is given twice", row->name);
    p->seen[row - p->rows] = true;
    if (row->type == LK_OPT_FLAG) {
        if (value)
            return lk_fail(LK_EUSAGE, "--%s takes no value, but has '%s'", row->name, value);
        value = no ? "no" : "yes";
    } else if (!value) {
        LK_TRY(take_value(p, row, &value));
    }
    st = lk_fail_context(set_field(row, p->target, value), "--%s", row->name);
out:
    return st;
}

static enum lk_status parse_long(struct parse *p, const char *word)
{
    const char *eq = strchr(word, '=');
    size_t len = eq ? (size_t)(eq - word) : strlen(word);
    bool no = false;
    const struct lk_option *row = find_long(p->rows, word, len, &no);

    if (!row)
        return fail_unknown(p->rows, word, len);
    return apply(p, row, no, eq ? eq + 1 : NULL);
}

static enum lk_status parse_letter(struct parse *p, const char *word)
{
    for (const struct lk_option *row = p->rows; row->name; row++)
        if (row->letter && row->letter == word[0])
            return apply(p, row, false, word[1] ? word + 1 : NULL);
    return lk_fail(LK_EUSAGE, "no option '-%s'", word);
}

static enum lk_status parse_words(struct parse *p, const char **operands, int max_operands,
                                  int *out_operands)
{
    enum lk_status st = LK_OK;
    bool only_operands = false;
    int n = 0;

    while (p->next < p->argc) {
        const char *word = p->argv[p->next++];

        if (!only_operands && !strcmp(word, "--")) {
            only_operands = true;
        } else if (!only_operands && word[0] == '-' && word[1] == '-') {
            LK_TRY(parse_long(p, word + 2));
        } else if (!only_operands && word[0] == '-' && word[1]) {
            LK_TRY(parse_letter(p, word + 1));
        } else {
            if (n == max_operands) {
                st = max_operands ? lk_fail(LK_EUSAGE, "'%s' is one operand too many", word)
                                  : lk_fail(LK_EUSAGE, "'%s': takes no operands", word);
                goto out;
            }
            operands[n++] = word;
        }
    }
    *out_operands = n;
out:
    return st;
}

enum lk_status lk_option_parse(const struct lk_option *rows, void *target, int argc, char **argv,
                               const char **operands, int max_operands, int *out_operands)
{
    enum lk_status st = LK_OK;
    struct parse p = {.rows = rows, .target = target, .argc = argc, .argv = argv};
    size_t n = 0;

    while (rows[n].name)
        n++;
    LK_TRY(lk_alloc(&p.seen, n, sizeof *p.seen));
    LK_TRY(set_defaults(rows, target));
    LK_TRY(parse_words(&p, operands, max_operands, out_operands));
out:
    free(p.seen);
    return st;
}
