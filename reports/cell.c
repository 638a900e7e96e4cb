/* Format cells; see the header. */
#include "reports/cell.h"

#include "base/array.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL_MAX = LK_CELL_TEXT_MAX / 4, /* bytes of a formatted number */
    BAR_MAX = 10                     /* characters of a bar of 1 */
};
/* A shorter time is 0 for people: clocks have nanoseconds. */
static const double RESOLUTION_S = 0.5e-9;
static const double RESOLUTION = 0.0005; /* of a ratio in percent */

static const struct lk_cell *cell_at(const struct lk_table *t, size_t row, size_t column)
{
    return &t->cells[row * t->n_columns + column];
}

/* Format a number for people. */
static const char *number_text(const struct lk_column *c, double v, char *buf)
{
    if (c->dim == LK_DIM_TIME && fabs(v) < RESOLUTION_S)
        v = 0;
    if (c->dim != LK_DIM_NONE)
        return lk_units_format(c->dim, v, buf, CELL_MAX);
    if (c->digits == LK_TABLE_PERCENT)
        snprintf(buf, CELL_MAX, "%.1f %%", fabs(v) < RESOLUTION ? 0 : 100 * v);
    else if (c->digits >= 0)
        snprintf(buf, CELL_MAX, "%.*f", c->digits, v);
    else
        snprintf(buf, CELL_MAX, v == floor(v) && fabs(v) < 1e15 ? "%.0f" : "%.4g", v);
    return buf;
}

/* Format a number that has an interval: a percentage from 10 % up has no decimals then. */
static const char *rounded_text(const struct lk_column *c, double v, char *buf)
{
    if (c->digits != LK_TABLE_PERCENT || !(fabs(v) >= 0.0995))
        return number_text(c, v, buf);
    snprintf(buf, CELL_MAX, "%.0f %%", 100 * v);
    return buf;
}

/* Return true if the user's terminal shows UTF-8, as the environment says. */
static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;

    for (size_t i = 0; i < LK_COUNT(names) && (!locale || !*locale); i++)
        locale = getenv(names[i]);
    return locale && (strcasestr(locale, "utf-8") || strcasestr(locale, "utf8"));
}

/* Draw a ratio: "#####" is 0.5. */
static const char *bar_text(const struct lk_cell *cell, char *buf)
{
    const char *mark = is_utf8() ? "\xE2\x96\x87" : "#"; /* U+2587, lower seven eighths block */
    double v = cell->type == LK_CELL_NUMBER ? cell->number : 0;
    int n = (int)lround(BAR_MAX * fmin(1, fmax(0, v)));

    *buf = '\0';
    while (n-- > 0)
        strcat(buf, mark);
    return buf;
}

static const char *plain_text(const struct lk_column *c, const struct lk_cell *cell, char *buf)
{
    switch (cell->type) {
    case LK_CELL_NUMBER:
        return number_text(c, cell->number, buf);
    case LK_CELL_TEXT:
        return cell->text;
    case LK_CELL_EMPTY:
        break;
    }
    return "-";
}

const char *lk_cell_text(const struct lk_table *t, const struct lk_cell_columns *s, size_t row,
                         char *buf)
{
    const struct lk_cell *cell = cell_at(t, row, s->at), *lo, *hi;
    char part[3][CELL_MAX], bounds[2 * CELL_MAX + 8];
    const char *value, *from, *to;

    if (s->bar)
        return bar_text(cell, buf);
    lo = s->lo == LK_NO_COLUMN ? NULL : cell_at(t, row, s->lo);
    hi = s->hi == LK_NO_COLUMN ? NULL : cell_at(t, row, s->hi);
    if (cell->type != LK_CELL_NUMBER || !lo || !hi || lo->type != LK_CELL_NUMBER ||
        hi->type != LK_CELL_NUMBER)
        return plain_text(&t->columns[s->at], cell, buf);
    value = rounded_text(&t->columns[s->at], cell->number, part[0]);
    from = rounded_text(&t->columns[s->lo], lo->number, part[1]);
    to = rounded_text(&t->columns[s->hi], hi->number, part[2]);
    if (!strcmp(value, from) && !strcmp(value, to)) {
        snprintf(buf, LK_CELL_TEXT_MAX, "%s", value);
        return buf;
    }
    snprintf(buf, LK_CELL_TEXT_MAX, "%.*s (%s)", CELL_MAX, value,
             lk_units_bounds(value, from, to, bounds, sizeof bounds));
    return buf;
}

bool lk_cell_is_numeric(const struct lk_table *t, size_t column)
{
    bool any = false;

    for (size_t r = 0; r < t->n_rows; r++) {
        if (cell_at(t, r, column)->type == LK_CELL_TEXT)
            return false;
        any = any || cell_at(t, r, column)->type == LK_CELL_NUMBER;
    }
    return any;
}

bool lk_cell_is_empty(const struct lk_table *t, size_t column)
{
    for (size_t r = 0; r < t->n_rows; r++)
        if (cell_at(t, r, column)->type != LK_CELL_EMPTY)
            return false;
    return t->n_rows > 0;
}

static size_t find_column(const struct lk_table *t, const char *name)
{
    for (size_t c = 0; name && c < t->n_columns; c++)
        if (!strcmp(t->columns[c].name, name))
            return c;
    return LK_NO_COLUMN;
}

enum lk_status lk_cell_columns_find(const struct lk_table *t, const struct lk_view_column *view,
                                    struct lk_cell_columns *out)
{
    const struct lk_cell_columns c = {find_column(t, view->name), find_column(t, view->lo),
                                      find_column(t, view->hi), view->bar};

    if (c.at == LK_NO_COLUMN || (view->lo && (c.lo == LK_NO_COLUMN || c.hi == LK_NO_COLUMN)))
        return lk_fail(LK_EINTERNAL, "table '%s' has no column '%s'", t->title, view->name);
    *out = c;
    return LK_OK;
}

enum lk_status lk_cell_columns_choose(const struct lk_page_table *t, bool whole,
                                      struct lk_cell_columns *out, size_t *n)
{
    const struct lk_table *table = t->table;

    *n = 0;
    for (size_t i = 0; !whole && t->view && i < t->n_view; i++) {
        LK_PASS(lk_cell_columns_find(table, &t->view[i], &out[*n]));
        *n += !out[*n].bar && !lk_cell_is_empty(table, out[*n].at);
    }
    for (size_t c = 0; (whole || !t->view) && c < table->n_columns; c++)
        if (!lk_cell_is_empty(table, c) && table->columns[c].digits != LK_TABLE_DATA)
            out[(*n)++] = (struct lk_cell_columns){c, LK_NO_COLUMN, LK_NO_COLUMN, false};
    return LK_OK;
}
