/* What each axis of a what-if is worth, as a result table. */
#include "sim/whatif.h"

#include "base/array.h"

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
        LK_TRY(lk_table_number(t, "gain_pct", 100 * (e->gain.ratio - 1)));
        LK_TRY(lk_table_number(t, "gain_lo_pct", 100 * (e->gain.lo - 1)));
        LK_TRY(lk_table_number(t, "gain_hi_pct", 100 * (e->gain.hi - 1)));
        LK_TRY(lk_table_number(t, "certainty", e->gain.certainty));
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
