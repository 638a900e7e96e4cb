/*
 * Comparisons of scenarios.
 *
 * Divisions: gains / the best / machines / tables.
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

double lk_certainty(const struct lk_pipeline *w, const struct lk_item *a, const struct lk_item *b,
                    double worth)
{
    double r = worth * ratio(a, b, a->at.step_s, b->at.step_s);
    size_t n = (size_t)w->request->draws;

    if (a == b)
        return 0.5;
    if (!set_ratios(w, a, b))
        return lk_stats_above_one(&r, 1, ratio_sd(w, a, b));
    for (size_t d = 0; d < n; d++)
        w->ratios[d] *= worth;
    return lk_stats_above_one(w->ratios, n, lk_prior_value(LK_PRIOR_RESOLUTION));
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

    if (b->status != LK_OK || a->hidden || b->hidden)
        return g;
    g.certainty = lk_certainty(w, a, b, 1);
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

struct ranked {
    int world_size;
    size_t machine, point;
};

static int by_choice(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;

    if (a->world_size != b->world_size)
        return a->world_size < b->world_size ? -1 : 1;
    if (a->machine != b->machine)
        return a->machine < b->machine ? -1 : 1;
    return a->point < b->point ? -1 : 1;
}

static enum lk_status sort_choices(struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    struct ranked *v = NULL;

    LK_TRY(lk_alloc(&v, w->n_points, sizeof *v));
    LK_TRY(lk_alloc(&w->sorted, w->n_points, sizeof *w->sorted));
    LK_TRY(lk_alloc(&w->choices, w->n_points, sizeof *w->choices));
    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_item *item = &w->all.v[w->points[i].item];

        v[i] = (struct ranked){item->config.world_size, item->machine, i};
    }
    qsort(v, w->n_points, sizeof *v, by_choice);
    for (size_t i = 0; i < w->n_points; i++) {
        bool first =
            !i || v[i - 1].world_size != v[i].world_size || v[i - 1].machine != v[i].machine;

        if (first)
            w->choices[w->n_choices++].from = i;
        w->choices[w->n_choices - 1].to = i + 1;
        w->sorted[i] = v[i].point;
        w->all.v[w->points[v[i].point].item].choice = w->n_choices - 1;
    }
out:
    free(v);
    return st;
}

/* Draws the error of the model's resolution: draw i has the same factor in every gain. */
enum lk_status lk_gains_init(struct lk_pipeline *w)
{
    size_t n = (size_t)w->request->draws;

    LK_PASS(sort_choices(w));

    LK_PASS(lk_alloc(&w->ratios, n, sizeof *w->ratios));
    LK_PASS(lk_alloc(&w->resolution, n, sizeof *w->resolution));
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(w->request->seed, lk_rng_stream("whatif.resolution", d));

        w->resolution[d] = exp(lk_prior_value(LK_PRIOR_RESOLUTION) * lk_rng_normal(&g));
    }
    return LK_OK;
}

/* ---- The best ---- */

static const struct lk_item *item_of(const struct lk_pipeline *w, size_t point)
{
    return &w->all.v[w->points[point].item];
}

bool lk_may_be_best(const struct lk_pipeline *w, size_t point)
{
    const struct lk_item *i = item_of(w, point);

    return !(i->at.batch_extrapolation > 1) && !i->too_large && !i->hidden;
}

bool lk_may_win(const struct lk_pipeline *w, size_t point)
{
    size_t now = w->points[point].current;

    return lk_may_be_best(w, point) && (!lk_prediction_gain_unproven(&item_of(w, point)->at) ||
                                        (now < w->all.n && w->all.v[now].too_large));
}

bool lk_learns_alike(const struct lk_pipeline *w, size_t point)
{
    const struct lk_config *c = &item_of(w, point)->config,
                           *current = &w->all.v[w->points[point].current].config;
    bool as_now = c->compression == current->compression &&
                  c->powersgd_rank == current->powersgd_rank && c->sharding == current->sharding &&
                  c->averaging_period == current->averaging_period &&
                  c->staleness == current->staleness;
    bool exact = c->compression == LK_COMPRESSION_NONE && lk_config_is_synchronous(c);

    return c->grad_dtype == LK_GRAD_OWN && (exact || as_now) && lk_may_be_best(w, point) &&
           (w->by_target ? !isnan(w->out->points[point].plan.time_to_target_h)
                         : lk_config_samples(c) == lk_config_samples(current));
}

double lk_pipeline_speed(const struct lk_pipeline *w, size_t point)
{
    const struct lk_forecast_point *p = &w->out->points[point];
    const struct lk_item *i = item_of(w, point);

    return isnan(p->throughput_per_s) ? lk_config_samples(&i->config) / i->at.step_s
                                      : p->throughput_per_s;
}

/* Returns the time to the target as more of which is better. */
static double target_of(const struct lk_pipeline *w, size_t point)
{
    double time_h = w->out->points[point].plan.time_to_target_h;

    return isnan(time_h) ? -INFINITY : -time_h;
}

/* Returns true if a point goes before another that is as good, whatever the order of the lists: the
 * current one, then that with the smaller numbers. */
static bool goes_first(const struct lk_pipeline *w, size_t a, size_t b)
{
    const struct lk_config *x = &item_of(w, a)->config, *y = &item_of(w, b)->config;
    const double pairs[][2] = {
        {w->points[a].item != w->points[a].current, w->points[b].item != w->points[b].current},
        {x->local_batch, y->local_batch},
        {x->accumulation, y->accumulation},
        {(double)x->cap_bytes, (double)y->cap_bytes},
        {(double)x->first_bytes, (double)y->first_bytes},
        {(double)x->sharding, (double)y->sharding},
        {(double)x->algo, (double)y->algo},
        {(double)x->compression, (double)y->compression},
        {x->powersgd_rank, y->powersgd_rank},
        {x->shard_group, y->shard_group},
        {x->averaging_period, y->averaging_period},
        {x->staleness, y->staleness},
        {(double)x->grad_dtype, (double)y->grad_dtype},
        {(double)x->reduce, (double)y->reduce},
        {(double)x->overlap, (double)y->overlap}};

    for (size_t i = 0; i < LK_COUNT(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1];
    return false;
}

size_t lk_fastest(const struct lk_pipeline *w, size_t choice, lk_point_filter *take, bool by_target,
                  size_t except)
{
    const struct lk_choice *c = &w->choices[choice];
    size_t best = w->n_points;
    double most = -INFINITY;

    for (size_t k = c->from; k < c->to; k++) {
        size_t i = w->sorted[k];
        double v;

        if (i == except || !take(w, i))
            continue;
        v = by_target ? target_of(w, i) : lk_pipeline_speed(w, i);
        if (best == w->n_points || v > most || (v == most && goes_first(w, i, best))) {
            best = i;
            most = v;
        }
    }
    return best;
}

double lk_certainty_of_points(const struct lk_pipeline *w, size_t a, size_t b)
{
    const struct lk_item *x = item_of(w, a), *y = item_of(w, b);

    return lk_certainty(w, x, y, w->by_target ? x->worth / y->worth : 1);
}

/* Returns the point of a choice with the current settings; n_points: none. */
static size_t current_of(const struct lk_pipeline *w, const struct lk_choice *c)
{
    for (size_t k = c->from; k < c->to; k++) {
        size_t i = w->sorted[k];

        if (lk_learns_alike(w, i) &&
            lk_config_equal(&item_of(w, i)->config, &w->all.v[w->points[i].current].config))
            return i;
    }
    return w->n_points;
}

static bool may_win_alike(const struct lk_pipeline *w, size_t point)
{
    return lk_may_win(w, point) && lk_learns_alike(w, point);
}

static void mark_best_of(struct lk_pipeline *w, size_t choice)
{
    const struct lk_choice *c = &w->choices[choice];
    struct lk_forecast_point *f = w->out->points;
    size_t n = w->n_points, current = current_of(w, c);
    size_t best = lk_fastest(w, choice, may_win_alike, w->by_target, n);

    if (best == n || (current == n && c->to - c->from == 1)) /* alone it is no choice */
        return;
    if (current < n && !lk_is_sure(w, lk_certainty_of_points(w, best, current)))
        best = current;
    f[best].gain.verdict = LK_VERDICT_BEST;
    for (size_t k = c->from; k < c->to; k++) {
        size_t i = w->sorted[k];

        if (i != best && may_win_alike(w, i) && !lk_is_sure(w, lk_certainty_of_points(w, best, i)))
            f[i].gain.verdict = LK_VERDICT_TIE;
    }
}

void lk_mark_best(struct lk_pipeline *w)
{
    for (size_t i = 0; i < w->n_choices; i++)
        mark_best_of(w, i);
}

/* ---- Machines ---- */

static bool is_best(const struct lk_pipeline *w, size_t point)
{
    return w->out->points[point].gain.verdict == LK_VERDICT_BEST;
}

/* Returns true if a value that mends or breaks something has an effect at a point. */
static bool is_damage(const struct lk_pipeline *w, size_t point)
{
    const struct lk_change *c = &w->all.machines[item_of(w, point)->machine].change;

    return c->slow_rank.factor > 0 || c->slow_link.factor > 0 || c->without_ranks ||
           c->without_nodes;
}

static enum lk_status add_machine(const struct lk_pipeline *w, size_t best, size_t as_is,
                                  struct lk_gains *out)
{
    const struct lk_forecast_point *p = &w->out->points[best];
    struct lk_machine_gain m = {.world_size = p->config.world_size,
                                .is_damage = is_damage(w, best),
                                .step_s = p->step_s,
                                .throughput_per_s = p->throughput_per_s,
                                .gain = lk_gain_of(w, item_of(w, best), item_of(w, as_is))};

    lk_pipeline_machine_words(w, best, m.machine, sizeof m.machine);
    lk_pipeline_setting_words(w, best, m.settings, sizeof m.settings);
    LK_PASS(lk_array_grow(&out->machines, &out->machines_capacity, out->n_machines + 1,
                          sizeof *out->machines));
    out->machines[out->n_machines++] = m;
    return LK_OK;
}

/* Returns the best point of a choice; where none may be named so, the fastest that learns alike. */
static size_t best_of(const struct lk_pipeline *w, size_t choice)
{
    size_t best = lk_fastest(w, choice, is_best, w->by_target, w->n_points);

    return best < w->n_points ? best
                              : lk_fastest(w, choice, lk_learns_alike, w->by_target, w->n_points);
}

enum lk_status lk_compare_machines(const struct lk_pipeline *w, struct lk_gains *out)
{
    for (size_t c = 0; c < w->n_choices; c++) {
        size_t first = w->sorted[w->choices[c].from], best, other;
        const struct lk_item *current = &w->all.v[w->points[first].current];

        if (!current->is_point || current->choice == c)
            continue;
        best = best_of(w, c);
        other = best_of(w, current->choice);
        if (best < w->n_points && other < w->n_points)
            LK_PASS(add_machine(w, best, other, out));
    }
    return LK_OK;
}

/* ---- Tables ---- */

void lk_gains_fini(struct lk_gains *c)
{
    free(c->effects);
    free(c->machines);
    free(c->draws_s);
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

/* X(name, heading, dimension, digits, value): a machine's row. */
#define MACHINE_COLUMNS(X)                                                                         \
    X("gpus", "GPUs", LK_DIM_NONE, -1, m->world_size)                                              \
    X("machine", "machine", LK_DIM_NONE, -1, m->machine)                                           \
    X("settings", "best settings", LK_DIM_NONE, -1, m->settings)                                   \
    X("step_s", "step", LK_DIM_TIME, -1, m->step_s)                                                \
    X("throughput_per_s", "samples/s", LK_DIM_NONE, 1, m->throughput_per_s)                        \
    X("gain_pct", "against as it is, %", LK_DIM_NONE, 1, 100 * (m->gain.ratio - 1))                \
    X("gain_lo_pct", "from", LK_DIM_NONE, 1, 100 * (m->gain.lo - 1))                               \
    X("gain_hi_pct", "to", LK_DIM_NONE, 1, 100 * (m->gain.hi - 1))                                 \
    X("certainty", "sure to gain", LK_DIM_NONE, LK_TABLE_PERCENT, m->gain.certainty)

static const struct lk_column machine_columns[] = {MACHINE_COLUMNS(LK_TABLE_COLUMN)};

enum lk_status lk_machines_table(const struct lk_gains *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    if (c->n_machines)
        LK_TRY(lk_table_create("Machines, each with its best settings, against the machine as it "
                               "is with its own",
                               machine_columns, LK_COUNT(machine_columns), &t));
    for (size_t i = 0; i < c->n_machines; i++) {
        const struct lk_machine_gain *m = &c->machines[i];

        LK_TRY(lk_table_row(t));
        MACHINE_COLUMNS(LK_TABLE_CELL)
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
