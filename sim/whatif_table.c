/* What-ifs as result tables. */
#include "sim/whatif.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_column verdict_columns[] = {
    {"gain_pct",    "gain, %", LK_DIM_NONE, 1 },
    {"gain_lo_pct", "from",    LK_DIM_NONE, 1 },
    {"gain_hi_pct", "to",      LK_DIM_NONE, 1 },
    {"verdict",     "verdict", LK_DIM_NONE, -1},
};

static const struct lk_column effect_columns[] = {
    {"gpus",        "GPUs",         LK_DIM_NONE, -1},
    {"axis",        "axis",         LK_DIM_NONE, -1},
    {"value",       "value",        LK_DIM_NONE, -1},
    {"step_s",      "step",         LK_DIM_TIME, -1},
    {"gain_pct",    "alone, %",     LK_DIM_NONE, 1 },
    {"gain_lo_pct", "from",         LK_DIM_NONE, 1 },
    {"gain_hi_pct", "to",           LK_DIM_NONE, 1 },
    {"certainty",   "sure to gain", LK_DIM_NONE, 3 },
};

/* The forecast's own columns say these axes. */
static bool has_column(enum lk_axis a)
{
    return a == LK_AXIS_GPUS || a == LK_AXIS_LOCAL_BATCH || a == LK_AXIS_ACCUMULATION ||
           a == LK_AXIS_BUCKET_CAP;
}

/* The forecast's columns, one an axis asked for, and the verdict. */
static enum lk_status make_columns(struct lk_whatif *w, const struct lk_table *base, size_t *out_n)
{
    enum lk_status st = LK_OK;
    size_t n = base->n_columns;

    free(w->columns);
    w->columns = NULL;
    LK_TRY(
        lk_alloc(&w->columns, n + LK_AXIS_COUNT + LK_COUNT(verdict_columns), sizeof *w->columns));
    memcpy(w->columns, base->columns, n * sizeof *w->columns);
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (w->asked[a] && !has_column((enum lk_axis)a))
            w->columns[n++] = (struct lk_column){lk_axis_column((enum lk_axis)a),
                                                 lk_axis_option((enum lk_axis)a), LK_DIM_NONE, -1};
    memcpy(&w->columns[n], verdict_columns, sizeof verdict_columns);
    *out_n = n + LK_COUNT(verdict_columns);
out:
    return st;
}

static enum lk_status set_gain(struct lk_table *t, const struct lk_estimate *e)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_number(t, "gain_pct", 100 * (e->value - 1)));
    LK_TRY(lk_table_number(t, "gain_lo_pct", 100 * (e->lo - 1)));
    LK_TRY(lk_table_number(t, "gain_hi_pct", 100 * (e->hi - 1)));
out:
    return st;
}

static enum lk_status add_row(struct lk_table *t, const struct lk_whatif *w,
                              const struct lk_whatif_point *p)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_forecast_point_row(t, &w->forecast.points[p->forecast]));
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (w->asked[a] && !has_column((enum lk_axis)a) && *p->words[a])
            LK_TRY(lk_table_text(t, lk_axis_column((enum lk_axis)a), "%s", p->words[a]));
    LK_TRY(set_gain(t, &p->gain));
    if (p->best || p->tie)
        LK_TRY(lk_table_text(t, "verdict", "%s", p->best ? "best" : "tie"));
out:
    return st;
}

enum lk_status lk_whatif_table(struct lk_whatif *w, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *base = NULL, *t = NULL;
    size_t n = 0;

    LK_TRY(lk_forecast_table(&w->forecast, &base));
    LK_TRY(make_columns(w, base, &n));
    LK_TRY(lk_table_create(base->title, w->columns, n, &t));
    for (size_t i = 0; i < w->n_points; i++)
        LK_TRY(add_row(t, w, &w->points[i]));
    for (size_t i = 0; i < w->forecast.n_notes; i++)
        LK_TRY(lk_table_note(t, "%s", w->forecast.notes[i]));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    lk_table_destroy(base);
    return st;
}

enum lk_status lk_whatif_effect_table(const struct lk_whatif *w, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("What each axis is worth alone: throughput against the current "
                           "configuration",
                           effect_columns, LK_COUNT(effect_columns), &t));
    for (size_t i = 0; i < w->n_effects; i++) {
        const struct lk_whatif_effect *e = &w->effects[i];

        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_number(t, "gpus", e->gpus));
        LK_TRY(lk_table_text(t, "axis", "%s", lk_axis_option(e->axis)));
        LK_TRY(lk_table_text(t, "value", "%s", e->word));
        LK_TRY(lk_table_number(t, "step_s", e->step_s));
        LK_TRY(set_gain(t, &e->gain));
        LK_TRY(lk_table_number(t, "certainty", e->certainty));
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
