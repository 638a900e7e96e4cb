/* What planning adds to a forecast, as result tables. */
#include "base/forecast.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* X(column, heading): texts of a plan, after the numbers of memory and cost. */
#define TEXT_LIST(X)                                                                               \
    X(memory_fit, "fits")                                                                          \
    X(fits_with, "would fit with")

#define NUMBER_COLUMN(field, heading, dim, digits) {#field, heading, dim, digits},
#define TEXT_COLUMN(field, heading)                {#field, heading, LK_DIM_NONE, -1},
static const struct lk_column plan_columns[] = {
    LK_PLAN_RESOURCE_LIST(NUMBER_COLUMN) TEXT_LIST(TEXT_COLUMN) LK_PLAN_TARGET_LIST(NUMBER_COLUMN)};
#undef NUMBER_COLUMN
#undef TEXT_COLUMN

#define COUNT_ONE(...) +1
enum {
    N_PLAN = sizeof plan_columns / sizeof *plan_columns,
    N_RESOURCE = 0 LK_PLAN_RESOURCE_LIST(COUNT_ONE) TEXT_LIST(COUNT_ONE)
};
#undef COUNT_ONE

/* The columns of each table: from one bound to the next. */
static const size_t part_bounds[LK_PLAN_TABLES + 1] = {0, N_RESOURCE, N_PLAN};
static const char *const part_titles[LK_PLAN_TABLES] = {
    "Plan: memory and cost of a GPU's work",
    "Plan: time and cost to the target, learning rates",
};

static const struct lk_column key_columns[] = {
    {"gpus",             "GPUs",        LK_DIM_NONE,  -1},
    {"local_batch",      "local batch", LK_DIM_NONE,  -1},
    {"accumulation",     "accum.",      LK_DIM_NONE,  -1},
    {"bucket_cap_bytes", "bucket cap",  LK_DIM_BYTES, -1},
    {"throughput_per_s", "samples/s",   LK_DIM_NONE,  1 },
};

/* Which columns have a value in some point. */
static void mark_used(const struct lk_forecast *f, bool used[N_PLAN])
{
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_plan *p = &f->points[i].plan;
        size_t at = 0;

        if (!p->known)
            continue;
#define MARK_NUMBER(field, heading, dim, digits) used[at++] |= !isnan(p->field);
#define MARK_TEXT(field, heading)                used[at++] |= *p->field != '\0';
        LK_PLAN_RESOURCE_LIST(MARK_NUMBER)
        TEXT_LIST(MARK_TEXT)
        LK_PLAN_TARGET_LIST(MARK_NUMBER)
#undef MARK_TEXT
#undef MARK_NUMBER
    }
}

/* Appends the used columns of parts [from, to) to `columns`, which has room; returns the count. */
static size_t append_used(const struct lk_forecast *f, int from, int to, struct lk_column *columns,
                          size_t n)
{
    bool used[N_PLAN] = {false};

    mark_used(f, used);
    for (size_t i = part_bounds[from]; i < part_bounds[to]; i++)
        if (used[i])
            columns[n++] = plan_columns[i];
    return n;
}

static bool has_column(const struct lk_table *t, const char *name)
{
    for (size_t i = 0; i < t->n_columns; i++)
        if (!strcmp(t->columns[i].name, name))
            return true;
    return false;
}

/* The plan's cells of the last row, as far as the table has their columns. */
static enum lk_status plan_cells(struct lk_table *t, const struct lk_plan *p)
{
    enum lk_status st = LK_OK;

    if (!p->known)
        return LK_OK;
#define PUT_NUMBER(field, heading, dim, digits)                                                    \
    if (!isnan(p->field) && has_column(t, #field))                                                 \
        LK_TRY(lk_table_number(t, #field, p->field));
    LK_PLAN_LIST(PUT_NUMBER)
#undef PUT_NUMBER
#define PUT_TEXT(field, heading)                                                                   \
    if (*p->field && has_column(t, #field))                                                        \
        LK_TRY(lk_table_text(t, #field, "%s", p->field));
    TEXT_LIST(PUT_TEXT)
#undef PUT_TEXT
out:
    return st;
}

static enum lk_status key_cells(struct lk_table *t, const struct lk_forecast *f,
                                const struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_number(t, "gpus", p->gpus));
    LK_TRY(lk_table_number(t, "local_batch", p->local_batch));
    LK_TRY(lk_table_number(t, "accumulation", p->accumulation));
    LK_TRY(lk_table_number(t, "bucket_cap_bytes", (double)p->cap_bytes));
    LK_TRY(lk_table_number(t, "throughput_per_s", p->throughput_per_s));
    LK_TRY(lk_forecast_axis_cells(t, f, p));
out:
    return st;
}

/* Which points the tables have. Beyond so many: those that a what-if found the best or as good; and
 * where these are as many, the best. */
enum { POINTS_SHOWN_MAX = 20 };
enum shown { ALL, GOOD, BEST };

static enum shown shown_of(const struct lk_forecast *f, bool all)
{
    size_t good = 0;

    for (size_t i = 0; i < f->n_points; i++)
        good += f->points[i].gain.verdict != LK_VERDICT_NONE;
    if (all || f->n_points <= POINTS_SHOWN_MAX || !good)
        return ALL;
    return good <= POINTS_SHOWN_MAX ? GOOD : BEST;
}

static bool is_shown(const struct lk_forecast_point *p, enum shown shown)
{
    return shown == ALL || p->gain.verdict == LK_VERDICT_BEST ||
           (shown == GOOD && p->gain.verdict == LK_VERDICT_TIE);
}

static enum lk_status part_table(const struct lk_forecast *f, int part, bool all,
                                 struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_column columns[LK_COUNT(key_columns) + LK_FORECAST_AXES_MAX + N_PLAN];
    struct lk_table *t = NULL;
    enum shown shown = shown_of(f, all);
    size_t n = LK_COUNT(key_columns), keys;

    for (size_t i = 0; i < n; i++)
        columns[i] = key_columns[i];
    n = lk_forecast_axis_columns(f, columns, n);
    keys = n;
    n = append_used(f, part, part + 1, columns, n);
    *out = NULL;
    if (n == keys)
        return LK_OK;
    LK_TRY(lk_table_create(part_titles[part], columns, n, &t));
    for (size_t i = 0; i < f->n_points; i++) {
        if (!is_shown(&f->points[i], shown))
            continue;
        LK_TRY(lk_table_row(t));
        LK_TRY(key_cells(t, f, &f->points[i]));
        LK_TRY(plan_cells(t, &f->points[i].plan));
    }
    if (shown != ALL)
        LK_TRY(lk_table_note(t, "%zu of %zu points: the best%s; --csv and --out have all",
                             t->n_rows, f->n_points,
                             shown == GOOD ? " and those that tie with them" : ""));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status lk_forecast_plan_tables(const struct lk_forecast *f, bool all,
                                       struct lk_table *out[LK_PLAN_TABLES])
{
    enum lk_status st = LK_OK;
    struct lk_table *t[LK_PLAN_TABLES] = {NULL};

    for (int i = 0; i < LK_PLAN_TABLES; i++)
        LK_TRY(part_table(f, i, all, &t[i]));
    for (int i = 0; i < LK_PLAN_TABLES; i++) {
        out[i] = t[i];
        t[i] = NULL;
    }
out:
    for (int i = 0; i < LK_PLAN_TABLES; i++)
        lk_table_destroy(t[i]);
    return st;
}

enum lk_status lk_forecast_csv_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_column *columns = NULL;
    struct lk_table *points = NULL, *t = NULL;
    size_t n;

    LK_TRY(lk_forecast_table(f, &points));
    n = points->n_columns;
    LK_TRY(lk_alloc(&columns, n + N_PLAN, sizeof *columns));
    for (size_t i = 0; i < n; i++)
        columns[i] = points->columns[i];
    n = append_used(f, 0, LK_PLAN_TABLES, columns, n);
    LK_TRY(lk_table_create(points->title, columns, n, &t));
    for (size_t i = 0; i < f->n_points; i++) {
        LK_TRY(lk_forecast_point_row(t, f, &f->points[i]));
        LK_TRY(plan_cells(t, &f->points[i].plan));
    }
    *out = t;
    t = NULL;
out:
    free(columns);
    lk_table_destroy(points);
    lk_table_destroy(t);
    return st;
}
