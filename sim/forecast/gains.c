/*
 * Comparisons of scenarios.
 *
 * Divisions: gains / the best / effects.
 */
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gains ---- */

/* Returns the throughput of one of a's GPUs over that of one of b's, when their steps take so long.
 */
static double ratio(const struct lk_item *a, const struct lk_item *b, double a_s, double b_s)
{
    return lk_config_samples(&a->config) / lk_config_samples(&b->config) * b->config.world_size /
           a->config.world_size * (b_s / a_s);
}

/* Sets w->ratios to the ratio of throughputs in each draw; returns false if one has no draws. */
static bool set_ratios(const struct lk_pipeline *w, const struct lk_item *a,
                       const struct lk_item *b)
{
    size_t n = (size_t)w->request->draws;

    if (!n || a->at.n_draws != n || b->at.n_draws != n)
        return false;
    for (size_t d = 0; d < n; d++)
        w->ratios[d] = ratio(a, b, a->at.draws_s[d], b->at.draws_s[d]);
    return true;
}

/* Returns the standard deviations that an interval of the level reaches to each side. */
static double reach(const struct lk_pipeline *w)
{
    return lk_stats_normal_quantile((1 + w->request->level) / 2);
}

/* Returns the sd of ln of the ratio of two points without draws: that of the less certain. */
static double ratio_sd(const struct lk_pipeline *w, const struct lk_item *a,
                       const struct lk_item *b)
{
    double width = fmax(log(a->at.hi_s / a->at.lo_s), log(b->at.hi_s / b->at.lo_s));

    return a == b ? 0 : hypot(width / 2 / reach(w), lk_prior_value(LK_PRIOR_RESOLUTION));
}

double lk_certainty(const struct lk_pipeline *w, const struct lk_item *a, const struct lk_item *b)
{
    double r = ratio(a, b, a->at.step_s, b->at.step_s);

    if (set_ratios(w, a, b))
        return lk_stats_above_one(w->ratios, (size_t)w->request->draws,
                                  lk_prior_value(LK_PRIOR_RESOLUTION));
    return a == b ? 0.5 : lk_stats_above_one(&r, 1, ratio_sd(w, a, b));
}

bool lk_is_sure(const struct lk_pipeline *w, double certainty)
{
    return certainty >= (1 + w->request->level) / 2;
}

struct lk_gain lk_gain_of(const struct lk_pipeline *w, const struct lk_item *a,
                          const struct lk_item *b)
{
    struct lk_gain g = {.known = true, .ratio = NAN, .lo = NAN, .hi = NAN, .certainty = NAN};
    struct lk_estimate e = {.value = ratio(a, b, a->at.step_s, b->at.step_s)};
    size_t n = (size_t)w->request->draws;

    if (b->status != LK_OK)
        return g;
    g.certainty = lk_certainty(w, a, b);
    if (set_ratios(w, a, b)) {
        for (size_t d = 0; d < n; d++)
            w->ratios[d] = a == b ? 1 : w->ratios[d] * w->resolution[d];
        e = lk_stats_interval(e.value, w->ratios, n, w->request->level);
    } else {
        e.lo = e.value * exp(-reach(w) * ratio_sd(w, a, b));
        e.hi = e.value * exp(reach(w) * ratio_sd(w, a, b));
    }
    g.ratio = e.value;
    g.lo = e.lo;
    g.hi = e.hi;
    return g;
}

/* Draws the error of the model's resolution: draw i has the same factor in every gain. */
enum lk_status lk_gains_init(struct lk_pipeline *w)
{
    size_t n = (size_t)w->request->draws;

    LK_PASS(lk_alloc(&w->ratios, n, sizeof *w->ratios));
    LK_PASS(lk_alloc(&w->resolution, n, sizeof *w->resolution));
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(w->request->seed, lk_rng_stream("whatif.resolution", d));

        w->resolution[d] = exp(lk_prior_value(LK_PRIOR_RESOLUTION) * lk_rng_normal(&g));
    }
    return LK_OK;
}

/* ---- The best ---- */

/* Where the current configuration does not fit in memory, a sharded one need not prove a gain. */
static bool is_proven(const struct lk_pipeline *w, size_t point)
{
    size_t now = w->points[point].current;

    return !lk_prediction_gain_unproven(&w->all.v[w->points[point].item].at) ||
           (now < w->all.n && w->all.v[now].too_large);
}

bool lk_may_be_best(const struct lk_pipeline *w, size_t point)
{
    const struct lk_item *i = &w->all.v[w->points[point].item];

    return !(i->at.batch_extrapolation > 1) && !i->too_large && is_proven(w, point);
}

size_t lk_fastest(const struct lk_pipeline *w, int world_size, lk_point_filter *take, size_t except)
{
    const struct lk_forecast_point *f = w->out->points;
    size_t best = w->n_points;

    for (size_t i = 0; i < w->n_points; i++)
        if (i != except && f[i].config.world_size == world_size && take(w, i) &&
            (best == w->n_points || f[i].throughput_per_s > f[best].throughput_per_s))
            best = i;
    return best;
}

static void mark_best_at(struct lk_pipeline *w, int world_size)
{
    struct lk_forecast_point *f = w->out->points;
    size_t n = w->n_points, best = lk_fastest(w, world_size, lk_may_be_best, n);

    if (best == n)
        return;
    f[best].gain.verdict = LK_VERDICT_BEST;
    for (size_t i = 0; i < n; i++)
        if (i != best && f[i].config.world_size == world_size && lk_may_be_best(w, i) &&
            !lk_is_sure(
                w, lk_certainty(w, &w->all.v[w->points[best].item], &w->all.v[w->points[i].item])))
            f[i].gain.verdict = LK_VERDICT_TIE;
}

void lk_mark_best(struct lk_pipeline *w)
{
    for (size_t g = 0; g < w->request->axes[LK_AXIS_GPUS].n; g++)
        mark_best_at(w, (int)w->request->axes[LK_AXIS_GPUS].v[g].count);
}

/* ---- Effects ---- */

void lk_gains_fini(struct lk_gains *c)
{
    free(c->effects);
    *c = (struct lk_gains){0};
}

/* X(name, heading, dimension, digits, value): an effect's row. */
#define EFFECT_COLUMNS(X)                                                                          \
    X("gpus", "GPUs", LK_DIM_NONE, -1, e->world_size)                                              \
    X("axis", "axis", LK_DIM_NONE, -1, lk_axis_option(e->axis))                                    \
    X("value", "value", LK_DIM_NONE, -1, e->word)                                                  \
    X("step_s", "step", LK_DIM_TIME, -1, e->step_s)                                                \
    X("gain_pct", "gain, %", LK_DIM_NONE, 1, 100 * (e->gain.ratio - 1))                            \
    X("gain_lo_pct", "from", LK_DIM_NONE, 1, 100 * (e->gain.lo - 1))                               \
    X("gain_hi_pct", "to", LK_DIM_NONE, 1, 100 * (e->gain.hi - 1))                                 \
    X("certainty", "sure to gain", LK_DIM_NONE, LK_TABLE_PERCENT, e->gain.certainty)

static const struct lk_column effect_columns[] = {EFFECT_COLUMNS(LK_TABLE_COLUMN)};

enum lk_status lk_gains_table(const struct lk_gains *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("What each change brings alone: throughput against the current "
                           "configuration",
                           effect_columns, LK_COUNT(effect_columns), &t));
    for (size_t i = 0; i < c->n_effects; i++) {
        const struct lk_effect *e = &c->effects[i];

        LK_TRY(lk_table_row(t));
        EFFECT_COLUMNS(LK_TABLE_CELL)
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
