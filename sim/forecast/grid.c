/*
 * The grid of a forecast: every combination of the values asked for; where the request compares,
 * the current configuration at each count and each axis moved alone; and what efficiencies refer
 * to.
 *
 * Divisions: points / effects / references / the whole.
 */
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

static void apply(const struct lk_pipeline *w, int a, size_t value, struct lk_scenario *s)
{
    lk_axis_apply((enum lk_axis)a, &w->request->axes[a].v[value], w->source->job, s);
}

/* Returns true if the axis has a meaning here; a global batch may still bring accumulation. */
static bool matters(const struct lk_pipeline *w, int a, const struct lk_config *c)
{
    return (a == LK_AXIS_REDUCE && w->request->global_batch > 0) ||
           lk_axis_matters((enum lk_axis)a, c);
}

/* ---- Points ---- */

bool lk_pipeline_worded(const struct lk_pipeline *w, enum lk_axis a)
{
    return w->request->axes[a].n && a != LK_AXIS_GPUS && a != LK_AXIS_LOCAL_BATCH &&
           a != LK_AXIS_ACCUMULATION && a != LK_AXIS_BUCKET_CAP;
}

const char *lk_pipeline_word(const struct lk_pipeline *w, const struct lk_grid_point *p,
                             enum lk_axis a)
{
    const char *batches = w->all.v[p->item].config.batches;

    if (a == LK_AXIS_RANK_BATCHES)
        return *batches ? batches : "equal";
    return p->is_current ? "current" : w->request->axes[a].v[p->index[a]].text;
}

/* Appends a point, unless its scenario is one. */
static enum lk_status add_point(struct lk_pipeline *w, struct lk_grid_point *p)
{
    struct lk_item *i = &w->all.v[p->item];

    if (i->is_point)
        return LK_OK;
    i->is_point = true;
    LK_PASS(lk_array_grow(&w->points, &w->points_capacity, w->n_points + 1, sizeof *w->points));
    w->points[w->n_points++] = *p;
    return LK_OK;
}

/* Adds the n-th combination, in which the last axis varies fastest; but not where an axis without
 * meaning would repeat another one. */
static enum lk_status add_combination(struct lk_pipeline *w, size_t n, size_t current)
{
    const struct lk_forecast_request *q = w->request;
    struct lk_grid_point p = {.current = current};
    struct lk_scenario s = {.config = w->source->current};

    for (int a = LK_AXIS_COUNT; a-- > 0;) {
        if (!q->axes[a].n)
            continue;
        p.index[a] = n % q->axes[a].n;
        n /= q->axes[a].n;
    }
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n)
            apply(w, a, p.index[a], &s);
    if (q->axes[LK_AXIS_REDUCE].n) /* a scheme has one of its own */
        apply(w, LK_AXIS_REDUCE, p.index[LK_AXIS_REDUCE], &s);
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (p.index[a] && !matters(w, a, &s.config))
            return LK_OK;
    LK_PASS(lk_scenarios_add(&w->all, &s, false, &p.item));
    return add_point(w, &p);
}

/* Adds the current configuration to the points of a count, so that none that is worse is named the
 * best. */
static enum lk_status add_current(struct lk_pipeline *w, size_t gpus, size_t current)
{
    struct lk_grid_point p = {.item = current, .current = current, .is_current = true};

    p.index[LK_AXIS_GPUS] = gpus;
    return w->all.v[current].status == LK_OK ? add_point(w, &p) : LK_OK;
}

/* Refuses an axis that was asked for and has no meaning at any point. */
static enum lk_status check_meaning(const struct lk_pipeline *w)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        bool sense = false, meaning = false;

        for (size_t i = 0; i < w->n_points && !meaning; i++) {
            const struct lk_item *item = &w->all.v[w->points[i].item];

            sense |= item->status == LK_OK;
            meaning = item->status == LK_OK && lk_axis_matters((enum lk_axis)a, &item->config);
        }
        if (w->request->axes[a].n && sense && !meaning)
            return lk_fail(LK_EUSAGE,
                           "--%s changes nothing at the points asked for: it goes with %s",
                           lk_axis_option((enum lk_axis)a), lk_axis_partner((enum lk_axis)a));
    }
    return LK_OK;
}

/* ---- Effects ---- */

/* Sets the other axes that this one needs, to the first value that was asked for. */
static void apply_companions(const struct lk_pipeline *w, int of, struct lk_scenario *s)
{
    static const struct {
        enum lk_axis of, companion;
    } rows[] = {
        {LK_AXIS_COMPRESSION, LK_AXIS_POWERSGD_RANK},
        {LK_AXIS_SHARDING, LK_AXIS_SHARD_GROUP},
        {LK_AXIS_SHARDING, LK_AXIS_PERIOD},
        {LK_AXIS_SHARDING, LK_AXIS_STALENESS},
        {LK_AXIS_OVERSUBSCRIPTION, LK_AXIS_NODES_PER_SWITCH},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        enum lk_axis a = rows[i].companion;

        if ((int)rows[i].of == of && w->request->axes[a].n && lk_axis_matters(a, &s->config))
            apply(w, (int)a, 0, s);
    }
}

/* Adds the current configuration at a count, and each axis moved alone from it. */
static enum lk_status add_effects(struct lk_pipeline *w, size_t gpus, size_t *current)
{
    struct lk_scenario now = {.config = w->source->current};

    apply(w, LK_AXIS_GPUS, gpus, &now);
    LK_PASS(lk_scenarios_add(&w->all, &now, false, current));
    for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
        for (size_t v = 0; v < w->request->axes[a].n; v++) {
            struct lk_grid_effect e = {.current = *current, .axis = (enum lk_axis)a, .value = v};
            struct lk_scenario s = now;

            apply(w, a, v, &s);
            apply_companions(w, a, &s);
            if (!matters(w, a, &s.config))
                continue;
            LK_PASS(lk_scenarios_add(&w->all, &s, false, &e.item));
            LK_PASS(lk_array_grow(&w->effects, &w->effects_capacity, w->n_effects + 1,
                                  sizeof *w->effects));
            w->effects[w->n_effects++] = e;
        }
    return LK_OK;
}

/* ---- References ---- */

/* Returns the local batch of the reference of a global batch: the largest that was asked for and
 * divides it there, which counts that share it may have to go below; else the current one. */
static int reference_batch(const struct lk_pipeline *w, const struct lk_config *reference)
{
    int most = 0;

    for (size_t i = 0; i < w->request->axes[LK_AXIS_LOCAL_BATCH].n; i++) {
        int batch = (int)w->request->axes[LK_AXIS_LOCAL_BATCH].v[i].count;

        if (batch > most && lk_config_splits(w->request->global_batch, reference, batch))
            most = batch;
    }
    return most ? most : w->source->current.local_batch;
}

/*
 * Makes the reference of a point's efficiency: the current configuration on the same machine at the
 * count that the source refers to, with the point's local batch, accumulation, reduced
 * micro-batches and dtype of gradients. So all points of a batch have one, whatever their buckets
 * and scheme, and the higher efficiency is the higher throughput. world_size 0: none is known.
 */
static enum lk_status reference_of(const struct lk_pipeline *w, const struct lk_config *of,
                                   struct lk_config *out)
{
    *out = w->source->current;
    out->local_batch = of->local_batch;
    out->accumulation = of->accumulation;
    if (lk_sharding_traits(of->sharding)->reduced == LK_REDUCED_AS_JOB)
        out->reduce = of->reduce;
    out->grad_dtype = of->grad_dtype;
    LK_PASS(w->source->ops->set_reference(w->source->self, out));
    if (w->request->global_batch > 0 && out->world_size)
        out->local_batch = reference_batch(w, out);
    return LK_OK;
}

static enum lk_status add_reference(struct lk_pipeline *w, struct lk_grid_point *p)
{
    const struct lk_item *i = &w->all.v[p->item];
    struct lk_scenario s = {.change = w->all.machines[i->machine].change};
    enum lk_status st;

    p->reference = SIZE_MAX;
    if (i->status != LK_OK)
        return LK_OK;
    st = reference_of(w, &i->config, &s.config);
    if (lk_refuses(st))
        return w->no_reference ? LK_OK : lk_strdup(&w->no_reference, lk_error_text());
    LK_PASS(st);
    return s.config.world_size ? lk_scenarios_add(&w->all, &s, true, &p->reference) : LK_OK;
}

/* ---- The whole ---- */

enum lk_status lk_pipeline_add_grid(struct lk_pipeline *w)
{
    const struct lk_forecast_request *q = w->request;
    size_t counts = q->axes[LK_AXIS_GPUS].n, of_count, current = SIZE_MAX;
    double size = 1;

    for (int a = 0; a < LK_AXIS_COUNT; a++)
        size *= q->axes[a].n ? (double)q->axes[a].n : 1;
    if (size > LK_FORECAST_POINTS_MAX)
        return lk_fail(LK_EUSAGE, "the grid has %.0f points, more than %d: give shorter lists",
                       size, LK_FORECAST_POINTS_MAX);
    of_count = (size_t)size / counts;
    for (size_t g = 0; g < counts; g++) {
        if (q->compare)
            LK_PASS(add_effects(w, g, &current));
        for (size_t n = g * of_count; n < (g + 1) * of_count; n++)
            LK_PASS(add_combination(w, n, current));
        if (q->compare)
            LK_PASS(add_current(w, g, current));
    }
    return check_meaning(w);
}

enum lk_status lk_pipeline_add_references(struct lk_pipeline *w)
{
    for (size_t i = 0; i < w->n_points; i++)
        LK_PASS(add_reference(w, &w->points[i]));
    return LK_OK;
}
