/* Tables in CSV: the values of cells, checked, with file, line and column in every error. */
#include "base/csv.h"

#include "base/csv_impl.h"
#include "base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *lk_csv_cell(const struct lk_csv *t, size_t cell)
{
    return t->text + t->cells[cell];
}

const char *lk_csv_shown_name(const struct lk_csv_column *c, char *buf, size_t size)
{
    snprintf(buf, size, "%.*s", (int)strcspn(c->name, "|"), c->name);
    return buf;
}

size_t lk_csv_rows(const struct lk_csv *t)
{
    return t->n_rows;
}

size_t lk_csv_line(const struct lk_csv *t, size_t row)
{
    return t->rows[row].line;
}

const char *lk_csv_name(const struct lk_csv *t)
{
    return t->name;
}

bool lk_csv_has_column(const struct lk_csv *t, size_t col)
{
    return t->place[col] >= 0;
}

/* "" for an absent column. */
static const char *field(const struct lk_csv *t, size_t row, size_t col)
{
    return t->place[col] < 0 ? "" : lk_csv_cell(t, t->rows[row].cell + (size_t)t->place[col]);
}

bool lk_csv_has(const struct lk_csv *t, size_t row, size_t col)
{
    return *field(t, row, col);
}

enum lk_status lk_csv_error_(const struct lk_csv *t, size_t row, size_t col, const char *fmt, ...)
{
    char what[512];
    char name[48];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    /* By the name that the file has for it. */
    if (t->place[col] < 0)
        lk_csv_shown_name(&t->columns[col], name, sizeof name);
    else
        snprintf(name, sizeof name, "%s", lk_csv_cell(t, (size_t)t->place[col]));
    return lk_fail(LK_EPARSE, "%s:%zu: column '%s': %s", t->name, t->rows[row].line, name, what);
}

/* The text of the last failure, which a parser of one value left, with the place before it. */
static enum lk_status blame(const struct lk_csv *t, size_t row, size_t col)
{
    char what[512];

    snprintf(what, sizeof what, "%s", lk_error_text());
    return lk_csv_error(t, row, col, "%s", what);
}

enum lk_status lk_csv_text(const struct lk_csv *t, size_t row, size_t col, const char **out)
{
    const char *text = field(t, row, col);

    if (!*text)
        return lk_csv_error(t, row, col, "nothing there");
    *out = text;
    return LK_OK;
}

enum lk_status lk_csv_int(const struct lk_csv *t, size_t row, size_t col, int64_t min, int64_t max,
                          int64_t *out)
{
    enum lk_status st = LK_OK;
    const char *text = NULL;
    int64_t whole = 0;
    double v = 0;

    LK_TRY(lk_csv_text(t, row, col, &text));
    if (lk_parse_int64(text, INT64_MIN, INT64_MAX, &whole) != LK_OK) {
        if (lk_parse_double(text, &v) != LK_OK || v != floor(v) || fabs(v) > 0x1p53)
            return lk_csv_error(t, row, col, "'%s' is not a whole number", text);
        whole = (int64_t)v;
    }
    if (whole < min || whole > max)
        return lk_csv_error(t, row, col, "%s is not from %lld to %lld", text, (long long)min,
                            (long long)max);
    *out = whole;
out:
    return st;
}

static enum lk_status check_range(const struct lk_csv *t, size_t row, size_t col, double v,
                                  double min, double max)
{
    if (v >= min && v <= max)
        return LK_OK;
    if (isinf(max))
        return lk_csv_error(t, row, col, "%g is below %g", v, min);
    return lk_csv_error(t, row, col, "%g is not from %g to %g", v, min, max);
}

enum lk_status lk_csv_quantity(const struct lk_csv *t, size_t row, size_t col,
                               enum lk_dimension dim, double min, double max, double *out)
{
    enum lk_status st = LK_OK;
    const char *text = NULL;
    double v = 0;

    LK_TRY(lk_csv_text(t, row, col, &text));
    if (lk_units_parse(dim, text, &v) != LK_OK)
        return blame(t, row, col);
    LK_TRY(check_range(t, row, col, v, min, max));
    *out = v;
out:
    return st;
}

enum lk_status lk_csv_real(const struct lk_csv *t, size_t row, size_t col, double min, double max,
                           double *out)
{
    enum lk_status st = LK_OK;
    const char *text = NULL;
    double v = 0;

    LK_TRY(lk_csv_text(t, row, col, &text));
    if (lk_parse_double(text, &v) != LK_OK)
        return blame(t, row, col);
    LK_TRY(check_range(t, row, col, v, min, max));
    *out = v;
out:
    return st;
}

enum lk_status lk_csv_positive(const struct lk_csv *t, size_t row, size_t col, double *out)
{
    enum lk_status st = LK_OK;
    double v = 0;

    LK_TRY(lk_csv_real(t, row, col, -INFINITY, INFINITY, &v));
    if (v <= 0)
        return lk_csv_error(t, row, col, "%g is not above 0", v);
    *out = v;
out:
    return st;
}
