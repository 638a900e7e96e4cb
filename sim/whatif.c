/*
 * Grids of what-ifs.
 *
 * Divisions: scenarios / worlds / results / verdicts / notes / the whole.
 */
#include "sim/whatif.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/units.h"
#include "sim/backtest.h"
#include "sim/prior.h"
#include "sim/run_group.h"
#include "sim/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 }; /* points from one report of progress to the next */

/* Why a scenario is looked at. */
enum role { ROLE_CURRENT, ROLE_EFFECT, ROLE_GRID, ROLE_REFERENCE };

struct item {
    struct lk_scenario s;
    enum role role;
    enum lk_axis axis;           /* of an effect */
    size_t value;                /* of an effect, in its axis */
    size_t index[LK_AXIS_COUNT]; /* of a grid point, in each axis asked for */
    size_t current, reference;   /* items; of effects and grid points */
    enum lk_status status;
    struct lk_sweep_point at;
    double *draws_s; /* borrowed from its world's sweep */
};

/* A machine, as it is or changed, and all that is asked of it. */
struct world {
    struct lk_change change;
    int gpus; /* most that are asked for */
    struct lk_changed changed;
    struct lk_predictor *predictor;
    size_t *items;
    size_t n_items, capacity;
    struct lk_sweep *sweeps;
    size_t n_sweeps;
};

struct whatif {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_whatif_request *request;
    struct lk_predictor_options options;
    struct item *items;
    size_t n_items, capacity;
    size_t *point_items; /* of the points */
    struct world *worlds;
    size_t n_worlds, worlds_capacity;
    double anchor;        /* the current forecast over its model; 1: no run to say */
    double *anchor_draws; /* the same draw by draw */
    int reference_gpus;
    char *refusal;
    size_t n_refused, done;
    struct lk_whatif *out;
};

/* ---- Scenarios ---- */

static double samples(const struct lk_config *c)
{
    return (double)c->gpus * c->local_batch * c->accumulation;
}

static enum lk_status refuse(struct whatif *w, struct item *i, enum lk_status st)
{
    i->status = st;
    w->n_refused += i->role == ROLE_GRID;
    return w->refusal || i->role != ROLE_GRID ? LK_OK : lk_strdup(&w->refusal, lk_error_text());
}

/* Strong scaling: accumulation from the global batch; a batch above the rank's share shrinks. */
static enum lk_status split_global(const struct whatif *w, struct lk_config *c)
{
    int64_t global = w->request->global_batch, share = global / c->gpus;

    if (global <= 0)
        return LK_OK;
    if (global % c->gpus || (share > c->local_batch && share % c->local_batch))
        return lk_fail(LK_EUSAGE,
                       "a global batch of %lld does not split into %d GPUs with local batch %d",
                       (long long)global, c->gpus, c->local_batch);
    if (share < c->local_batch)
        c->local_batch = (int)share;
    c->accumulation = (int)(share / c->local_batch);
    return LK_OK;
}

/* Nodes and accumulation follow from what the axes set. */
static enum lk_status finish(struct whatif *w, struct item *i)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = *w->cluster;

    if (i->s.change.gpus_per_node)
        c.gpus_per_node = i->s.change.gpus_per_node;
    if (i->s.config.compression == LK_COMPRESSION_POWERSGD && !i->s.config.powersgd_rank)
        i->s.config.powersgd_rank = 1; /* PyTorch's default */
    st = lk_config_nodes(&c, i->s.config.gpus, &i->s.config.nodes);
    if (st == LK_OK)
        st = split_global(w, &i->s.config);
    return st == LK_EUSAGE || st == LK_EEVIDENCE ? refuse(w, i, st) : st;
}

static enum lk_status add_item(struct whatif *w, struct item i, size_t *out)
{
    enum lk_status st = LK_OK;

    LK_TRY(finish(w, &i));
    LK_TRY(lk_array_grow(&w->items, &w->capacity, w->n_items + 1, sizeof *w->items));
    *out = w->n_items;
    w->items[w->n_items++] = i;
out:
    return st;
}

/* What a scheme needs beside its name comes with it: the first value that was asked for. */
static void apply_companions(const struct whatif *w, struct lk_scenario *s)
{
    static const enum lk_axis companions[] = {LK_AXIS_POWERSGD_RANK, LK_AXIS_SHARD_GROUP,
                                              LK_AXIS_PERIOD};

    for (size_t i = 0; i < LK_COUNT(companions); i++) {
        enum lk_axis a = companions[i];

        if (w->request->axes[a].n && lk_axis_matters(a, &s->config))
            lk_axis_apply(a, &w->request->axes[a].v[0], w->job, s);
    }
}

/* The current configuration at each GPU count, then each axis moved alone. */
static enum lk_status add_current(struct whatif *w)
{
    enum lk_status st = LK_OK;
    const struct lk_whatif_request *q = w->request;

    for (size_t g = 0; g < q->axes[LK_AXIS_GPUS].n; g++) {
        struct item i = {.role = ROLE_CURRENT, .s.config = lk_config_current(w->job)};
        size_t at, current;

        lk_axis_apply(LK_AXIS_GPUS, &q->axes[LK_AXIS_GPUS].v[g], w->job, &i.s);
        LK_TRY(add_item(w, i, &current));
        for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
            for (size_t v = 0; v < q->axes[a].n; v++) {
                struct item e = i;

                e.role = ROLE_EFFECT;
                e.axis = (enum lk_axis)a;
                e.value = v;
                e.current = current;
                lk_axis_apply((enum lk_axis)a, &q->axes[a].v[v], w->job, &e.s);
                apply_companions(w, &e.s);
                if (lk_axis_matters((enum lk_axis)a, &e.s.config))
                    LK_TRY(add_item(w, e, &at));
            }
    }
out:
    return st;
}

static size_t current_of(const struct whatif *w, int gpus)
{
    size_t i = 0;

    while (w->items[i].role != ROLE_CURRENT || w->items[i].s.config.gpus != gpus)
        i++;
    return i;
}

/* The n-th point, the last axis running fastest; false where an axis without meaning would only
 * repeat another point. */
static bool make_point(const struct whatif *w, size_t n, struct item *out)
{
    const struct lk_whatif_request *q = w->request;

    *out = (struct item){.role = ROLE_GRID, .s.config = lk_config_current(w->job)};
    for (int a = LK_AXIS_COUNT; a-- > 0;) {
        if (!q->axes[a].n)
            continue;
        out->index[a] = n % q->axes[a].n;
        n /= q->axes[a].n;
    }
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n)
            lk_axis_apply((enum lk_axis)a, &q->axes[a].v[out->index[a]], w->job, &out->s);
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n && out->index[a] && !lk_axis_matters((enum lk_axis)a, &out->s.config))
            return false;
    return true;
}

static enum lk_status add_grid(struct whatif *w)
{
    enum lk_status st = LK_OK;
    double size = 1;
    size_t at;

    for (int a = 0; a < LK_AXIS_COUNT; a++)
        size *= w->request->axes[a].n ? (double)w->request->axes[a].n : 1;
    if (size > LK_WHATIF_POINTS_MAX)
        return lk_fail(LK_EUSAGE, "the grid has %.0f points, more than %d: give shorter lists",
                       size, LK_WHATIF_POINTS_MAX);
    LK_TRY(add_current(w));
    for (size_t n = 0; n < (size_t)size; n++) {
        struct item i;

        if (!make_point(w, n, &i))
            continue;
        i.current = current_of(w, i.s.config.gpus);
        LK_TRY(add_item(w, i, &at));
    }
out:
    return st;
}

/* What a point's efficiency refers to: plain DDP on the same machine at the reference's count. */
static struct lk_scenario reference_of(const struct whatif *w, const struct lk_scenario *s)
{
    struct lk_scenario r = *s;

    r.config = lk_config_current(w->job);
    r.config.gpus = w->reference_gpus;
    r.config.local_batch = s->config.local_batch;
    r.config.accumulation = s->config.accumulation;
    r.config.no_sync = s->config.no_sync;
    r.config.grad_dtype = s->config.grad_dtype;
    return r;
}

static bool same_reference(const struct lk_scenario *a, const struct lk_scenario *b)
{
    struct lk_config x = a->config;

    x.nodes = b->config.nodes;
    return lk_config_equal(&x, &b->config) && lk_change_equal(&a->change, &b->change);
}

static enum lk_status add_references(struct whatif *w)
{
    enum lk_status st = LK_OK;
    size_t n = w->n_items, first = w->n_items;

    for (size_t i = 0; i < n; i++) {
        struct item r = {.role = ROLE_REFERENCE};
        size_t at = first;

        if (w->items[i].role != ROLE_GRID || w->items[i].status != LK_OK)
            continue;
        r.s = reference_of(w, &w->items[i].s);
        if (w->request->global_batch > 0 && split_global(w, &r.s.config) != LK_OK)
            LK_TRY(refuse(w, &w->items[i], LK_EUSAGE));
        while (at < w->n_items && !same_reference(&r.s, &w->items[at].s))
            at++;
        if (at == w->n_items)
            LK_TRY(add_item(w, r, &at));
        w->items[i].reference = at;
    }
out:
    return st;
}

/* ---- Worlds ---- */

static enum lk_status world_of(struct whatif *w, const struct lk_change *c, struct world **out)
{
    enum lk_status st = LK_OK;
    size_t i = 0;

    while (i < w->n_worlds && !lk_change_equal(&w->worlds[i].change, c))
        i++;
    if (i == w->n_worlds) {
        LK_TRY(lk_array_grow(&w->worlds, &w->worlds_capacity, i + 1, sizeof *w->worlds));
        w->worlds[w->n_worlds++] = (struct world){.change = *c};
    }
    *out = &w->worlds[i];
out:
    return st;
}

static enum lk_status gather(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct world *world;

    for (size_t i = 0; i < w->n_items; i++) {
        if (w->items[i].status != LK_OK)
            continue;
        LK_TRY(world_of(w, &w->items[i].s.change, &world));
        LK_TRY(lk_array_grow(&world->items, &world->capacity, world->n_items + 1,
                             sizeof *world->items));
        world->items[world->n_items++] = i;
        if (w->items[i].s.config.gpus > world->gpus)
            world->gpus = w->items[i].s.config.gpus;
    }
out:
    return st;
}

static enum lk_status refuse_world(struct whatif *w, const struct world *world, enum lk_status why)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < world->n_items; i++)
        LK_TRY(refuse(w, &w->items[world->items[i]], why));
out:
    return st;
}

/*
 * What measured runs say beyond the model: the current configuration at the largest count that was
 * measured, forecast with its runs and without them, draw by draw.
 */
static enum lk_status set_anchor(struct whatif *w, struct lk_predictor *anchored)
{
    enum lk_status st = LK_OK;
    struct lk_job bare = *w->job;
    struct lk_predictor *model = NULL;
    struct lk_prediction a = {0}, b = {0};
    struct lk_config c = lk_config_current(w->job);
    size_t n = (size_t)w->options.draws;

    LK_TRY(lk_alloc(&w->anchor_draws, n, sizeof *w->anchor_draws));
    w->anchor = 1;
    for (size_t i = 0; i < n; i++)
        w->anchor_draws[i] = 1;
    for (size_t i = 0; i < w->job->n_runs; i++)
        if (lk_run_counts(w->cluster, &w->job->runs[i]) && w->job->runs[i].gpus >= c.gpus) {
            c.gpus = w->job->runs[i].gpus;
            c.nodes = w->job->runs[i].nodes;
        }
    bare.runs = NULL;
    bare.n_runs = 0;
    LK_TRY(lk_predictor_create(&bare, w->cluster, &w->options, &model));
    st = lk_predictor_at(anchored, &c, &a);
    if (st == LK_OK)
        st = lk_predictor_at(model, &c, &b);
    if (st == LK_EEVIDENCE) { /* the model has nothing to be compared with */
        st = LK_OK;
        goto out;
    }
    if (st != LK_OK)
        goto out;
    w->anchor = a.step_s / b.step_s;
    for (size_t i = 0; i < n; i++)
        w->anchor_draws[i] = a.draws_s[i] / b.draws_s[i];
out:
    lk_prediction_fini(&a);
    lk_prediction_fini(&b);
    lk_predictor_destroy(model);
    return st;
}

/* Points of a changed machine: the model times the anchor, new interval, no grade above
 * extrapolated. */
static void anchor_point(const struct whatif *w, struct item *i, double *sorted)
{
    struct lk_sweep_point *p = &i->at;
    size_t n = (size_t)w->options.draws;

    p->step_s *= w->anchor;
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        p->losses_s[l] *= w->anchor;
    for (size_t d = 0; d < n; d++)
        sorted[d] = i->draws_s[d] *= w->anchor_draws[d];
    p->lo_s = fmin(p->step_s, lk_stats_quantile(sorted, n, (1 - w->options.level) / 2));
    p->hi_s = fmax(p->step_s, lk_stats_quantile_sorted(sorted, n, (1 + w->options.level) / 2));
    if (p->evidence < LK_EVIDENCE_EXTRAPOLATED) {
        p->evidence = LK_EVIDENCE_EXTRAPOLATED;
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated to a changed machine");
    }
}

static enum lk_status take_sweep(struct whatif *w, struct world *world, struct lk_sweep *s,
                                 size_t from, double *sorted)
{
    enum lk_status st = LK_OK;

    for (size_t k = 0; k < s->n; k++) {
        struct item *i = &w->items[world->items[from + k]];

        i->at = s->points[k];
        i->draws_s = &s->draws_s[k * s->n_draws];
        if (i->at.status != LK_OK) {
            if (s->refusal)
                (void)lk_fail(i->at.status, "%s", s->refusal);
            LK_TRY(refuse(w, i, i->at.status));
        } else if (!lk_change_is_none(&world->change)) {
            anchor_point(w, i, sorted);
        }
    }
out:
    return st;
}

static enum lk_status sweep_world(struct whatif *w, struct world *world)
{
    enum lk_status st = LK_OK;
    struct lk_config configs[CHUNK];
    double *sorted = NULL;

    LK_TRY(lk_alloc(&world->sweeps, world->n_items / CHUNK + 1, sizeof *world->sweeps));
    LK_TRY(lk_alloc(&sorted, (size_t)w->options.draws, sizeof *sorted));
    for (size_t from = 0; from < world->n_items; from += CHUNK) {
        size_t n = world->n_items - from < CHUNK ? world->n_items - from : CHUNK;
        struct lk_sweep *s = &world->sweeps[world->n_sweeps];

        for (size_t k = 0; k < n; k++)
            configs[k] = w->items[world->items[from + k]].s.config;
        LK_TRY(lk_sweep_run(world->predictor, configs, n, s));
        world->n_sweeps++;
        LK_TRY(take_sweep(w, world, s, from, sorted));
        w->done += n;
        if (w->request->progress)
            w->request->progress(w->request->user, w->done, w->n_items);
    }
out:
    free(sorted);
    return st;
}

static enum lk_status run_world(struct whatif *w, struct world *world)
{
    enum lk_status st = LK_OK;
    const struct lk_job *job = w->job;
    const struct lk_cluster *cluster = w->cluster;

    if (!lk_change_is_none(&world->change)) {
        st = lk_changed_init(&world->changed, job, cluster, &world->change, world->gpus);
        if (st == LK_EEVIDENCE || st == LK_EUSAGE)
            return refuse_world(w, world, st);
        if (st != LK_OK)
            return st;
        job = &world->changed.job;
        cluster = &world->changed.cluster;
    }
    LK_TRY(lk_predictor_create(job, cluster, &w->options, &world->predictor));
    LK_TRY(sweep_world(w, world));
out:
    return st;
}

static enum lk_status run_worlds(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = NULL;

    LK_TRY(gather(w));
    LK_TRY(lk_predictor_create(w->job, w->cluster, &w->options, &p));
    LK_TRY(set_anchor(w, p));
    for (size_t i = 0; i < w->n_worlds; i++)
        LK_TRY(run_world(w, &w->worlds[i]));
out:
    lk_predictor_destroy(p);
    return st;
}

/* ---- Results ---- */

/* Throughput of a over b's, with what the model does not resolve; as many GPUs both, or per GPU. */
static enum lk_status gain(const struct whatif *w, const struct item *a, const struct item *b,
                           struct lk_estimate *out, double *out_certainty)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)w->options.draws;
    double per =
        samples(&a->s.config) / samples(&b->s.config) * b->s.config.gpus / a->s.config.gpus;
    double resolution = lk_prior_value(LK_PRIOR_BASE_ERROR), sure = 0, *ratios = NULL;
    bool same =
        lk_config_equal(&a->s.config, &b->s.config) && lk_change_equal(&a->s.change, &b->s.change);

    LK_TRY(lk_alloc(&ratios, n, sizeof *ratios));
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(w->options.seed, lk_rng_stream("whatif.resolution", d));
        double r = per * b->draws_s[d] / a->draws_s[d];

        /* The share of errors below ln r; 1/2 where nothing differs. */
        sure += 0.5 * erfc(-log(r) / resolution / sqrt(2));
        ratios[d] = same ? 1 : r * exp(resolution * lk_rng_normal(&g));
    }
    *out_certainty = sure / (double)n;
    out->n = n;
    out->value = per * b->at.step_s / a->at.step_s;
    out->lo = fmin(out->value, lk_stats_quantile(ratios, n, (1 - w->options.level) / 2));
    out->hi = fmax(out->value, lk_stats_quantile_sorted(ratios, n, (1 + w->options.level) / 2));
out:
    free(ratios);
    return st;
}

/* Ratio draws of efficiency have no resolution added: it is one quantity, not a comparison. */
static enum lk_status set_efficiency(const struct whatif *w, const struct item *a,
                                     struct lk_forecast_point *out)
{
    enum lk_status st = LK_OK;
    const struct item *r = &w->items[a->reference];
    size_t n = (size_t)w->options.draws;
    double per, *ratios = NULL;

    out->efficiency = out->efficiency_lo = out->efficiency_hi = NAN;
    if (r->status != LK_OK)
        return LK_OK;
    per = samples(&a->s.config) / a->s.config.gpus / (samples(&r->s.config) / r->s.config.gpus);
    LK_TRY(lk_alloc(&ratios, n, sizeof *ratios));
    for (size_t d = 0; d < n; d++)
        ratios[d] = per * r->draws_s[d] / a->draws_s[d];
    out->efficiency = per * r->at.step_s / a->at.step_s;
    out->efficiency_lo =
        fmin(out->efficiency, lk_stats_quantile(ratios, n, (1 - w->options.level) / 2));
    out->efficiency_hi =
        fmax(out->efficiency, lk_stats_quantile_sorted(ratios, n, (1 + w->options.level) / 2));
out:
    free(ratios);
    return st;
}

static enum lk_status add_forecast_point(struct whatif *w, const struct item *i)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    const struct lk_config *c = &i->s.config;
    struct lk_forecast_point p = {.gpus = c->gpus,
                                  .nodes = c->nodes,
                                  .local_batch = c->local_batch,
                                  .accumulation = c->accumulation,
                                  .cap_bytes = c->cap_bytes,
                                  .step_s = i->at.step_s,
                                  .step_lo_s = i->at.lo_s,
                                  .step_hi_s = i->at.hi_s,
                                  .throughput_per_s = samples(c) / i->at.step_s,
                                  .evidence = i->at.evidence,
                                  .measured_step_s = NAN,
                                  .measured_lo_s = NAN,
                                  .measured_hi_s = NAN,
                                  .plan = lk_plan_none};

    memcpy(p.evidence_text, i->at.evidence_text, sizeof p.evidence_text);
    memcpy(p.losses_s, i->at.losses_s, sizeof p.losses_s);
    LK_TRY(set_efficiency(w, i, &p));
    LK_TRY(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *f->points));
    f->points[f->n_points++] = p;
out:
    return st;
}

static enum lk_status add_point(struct whatif *w, const struct item *i)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    struct lk_whatif_point *p = &o->points[o->n_points];
    const struct item *current = &w->items[i->current];

    p->scenario = i->s;
    p->forecast = o->forecast.n_points;
    p->gain.value = p->gain.lo = p->gain.hi = p->certainty = NAN;
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (w->request->axes[a].n && lk_axis_matters((enum lk_axis)a, &i->s.config))
            memcpy(p->words[a], w->request->axes[a].v[i->index[a]].text, sizeof p->words[a]);
    if (current->status == LK_OK)
        LK_TRY(gain(w, i, current, &p->gain, &p->certainty));
    LK_TRY(add_forecast_point(w, i));
    o->n_points++;
out:
    return st;
}

static enum lk_status add_effect(struct whatif *w, const struct item *i)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    struct lk_whatif_effect *e = &o->effects[o->n_effects];

    if (w->items[i->current].status != LK_OK)
        return LK_OK;
    e->gpus = i->s.config.gpus;
    e->axis = i->axis;
    e->step_s = i->at.step_s;
    memcpy(e->word, w->request->axes[i->axis].v[i->value].text, sizeof e->word);
    LK_TRY(gain(w, i, &w->items[i->current], &e->gain, &e->certainty));
    o->n_effects++;
out:
    return st;
}

static enum lk_status add_results(struct whatif *w)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&w->point_items, w->n_items, sizeof *w->point_items));
    LK_TRY(lk_alloc(&w->out->points, w->n_items, sizeof *w->out->points));
    LK_TRY(lk_alloc(&w->out->effects, w->n_items, sizeof *w->out->effects));
    for (size_t i = 0; i < w->n_items; i++) {
        if (w->items[i].status != LK_OK)
            continue;
        if (w->items[i].role == ROLE_GRID) {
            w->point_items[w->out->n_points] = i;
            LK_TRY(add_point(w, &w->items[i]));
        }
        if (w->items[i].role == ROLE_EFFECT)
            LK_TRY(add_effect(w, &w->items[i]));
    }
    w->out->n_refused = w->n_refused;
    if (!w->out->n_points)
        st = lk_fail(LK_EEVIDENCE, "none of the %zu points can be forecast. The first: %s",
                     w->n_refused, w->refusal ? w->refusal : "no reason");
out:
    return st;
}

/* ---- Verdicts ---- */

static bool surely(const struct whatif *w, double certainty)
{
    return certainty >= (1 + w->options.level) / 2;
}

static const struct item *item_of(const struct whatif *w, size_t point)
{
    return &w->items[w->point_items[point]];
}

static enum lk_status mark_best(struct whatif *w, int gpus)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    const struct lk_forecast_point *f = o->forecast.points;
    size_t best = o->n_points;

    /* A batch outside the measured ones is a guess: it is shown, and is not named the best. */
    for (size_t i = 0; i < o->n_points; i++)
        if (f[i].gpus == gpus && item_of(w, i)->at.batch_reach <= 1 &&
            (best == o->n_points || f[i].throughput_per_s > f[best].throughput_per_s))
            best = i;
    if (best == o->n_points)
        return LK_OK;
    o->points[best].best = true;
    for (size_t i = 0; i < o->n_points; i++) {
        struct lk_estimate e;
        double certainty;

        if (i == best || f[i].gpus != gpus)
            continue;
        LK_TRY(gain(w, item_of(w, best), item_of(w, i), &e, &certainty));
        o->points[i].tie = item_of(w, i)->at.batch_reach <= 1 && !surely(w, certainty);
    }
out:
    return st;
}

/* ---- Notes ---- */

/* "bucket-cap=25MiB, accumulation=2": the axes asked for but the GPUs. */
static void describe(const struct whatif *w, const struct lk_whatif_point *p, char *out,
                     size_t size)
{
    size_t at = 0;

    *out = 0;
    for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
        if (w->request->axes[a].n && *p->words[a] && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s=%s", at ? ", " : "",
                                   lk_axis_option((enum lk_axis)a), p->words[a]);
}

static enum lk_status note_best(struct whatif *w, const struct lk_whatif_point *p)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    const char *verdict = surely(w, p->certainty)       ? "beyond the error"
                          : surely(w, 1 - p->certainty) ? "surely worse"
                                                        : "within the error";
    char words[256];
    size_t ties = 0;

    describe(w, p, words, sizeof words);
    for (size_t i = 0; i < o->n_points; i++)
        ties += o->points[i].tie && o->points[i].scenario.config.gpus == p->scenario.config.gpus;
    if (isnan(p->gain.value))
        LK_TRY(lk_forecast_note(&o->forecast, "best at %d GPUs: %s; %zu others tie with it",
                                p->scenario.config.gpus, *words ? words : "the only one", ties));
    else
        LK_TRY(lk_forecast_note(
            &o->forecast,
            "best at %d GPUs: %s; throughput %+.1f %% (%+.1f to %+.1f) against the current "
            "configuration, %s; %zu others tie with it",
            p->scenario.config.gpus, *words ? words : "the only one", 100 * (p->gain.value - 1),
            100 * (p->gain.lo - 1), 100 * (p->gain.hi - 1), verdict, ties));
out:
    return st;
}

/* An averaging that runs beside the next step's compute costs what does not fit in there. */
static enum lk_status note_schemes(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    bool said[LK_SHARDING_COUNT] = {false};

    for (size_t i = 0; i < o->n_points; i++) {
        const struct lk_config *c = &o->points[i].scenario.config;
        const struct lk_forecast_point *p = &o->forecast.points[i];
        double hidden = fmin(p->losses_s[LK_LOSS_WIRE], p->step_s / fmax(1, c->period));

        if (said[c->sharding])
            continue;
        said[c->sharding] = true;
        if (c->sharding == LK_SHARDING_ASYNC)
            LK_TRY(lk_forecast_note(&o->forecast,
                                    "async: throughput without the barrier, each rank at its own "
                                    "pace; gradients are %d updates old on average at %d GPUs, "
                                    "and what that costs in convergence is not in the numbers",
                                    c->gpus - 1, c->gpus));
        if ((c->sharding == LK_SHARDING_LOCAL_SGD || c->sharding == LK_SHARDING_DILOCO) &&
            c->shard_group < 2)
            LK_TRY(lk_forecast_note(
                &o->forecast,
                "%s: an averaging stands alone, its cost spread over the period; overlapped with "
                "the step after it, %d GPUs would take %.4g s a step instead of %.4g; what the "
                "period costs in convergence is not in the numbers",
                lk_sharding_name(c->sharding), c->gpus, p->step_s - hidden, p->step_s));
    }
out:
    return st;
}

static enum lk_status note_compression(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    bool some = false, power = false, rows = true;

    for (size_t i = 0; i < o->n_points; i++) {
        enum lk_compression c = o->points[i].scenario.config.compression;

        some |= c != LK_COMPRESSION_NONE;
        power |= c == LK_COMPRESSION_POWERSGD;
    }
    for (size_t i = 0; i < w->job->n_tensors; i++)
        rows = rows && w->job->tensors[i].rows;
    if (power && !rows)
        LK_TRY(lk_forecast_note(&o->forecast, "assumed: PowerSGD's matrices are square where the "
                                              "job does not give their rows"));
    if (some && !lk_quantity_known(&w->cluster->device.memory_Bps))
        LK_TRY(lk_forecast_note(&o->forecast,
                                "what a hook's casts and products take is not in the numbers: the "
                                "cluster does not give device.memory_bandwidth"));
out:
    return st;
}

static enum lk_status add_notes(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;

    for (size_t i = 0; i < o->n_points; i++)
        if (o->points[i].best)
            LK_TRY(note_best(w, &o->points[i]));
    LK_TRY(note_schemes(w));
    LK_TRY(note_compression(w));
    if (w->n_refused)
        LK_TRY(lk_forecast_note(&o->forecast, "%zu points were left out. The first: %s",
                                w->n_refused, w->refusal));
    LK_TRY(lk_forecast_note(&o->forecast, "two configurations are told apart from %.0f %% on (%s)",
                            100 * lk_prior_value(LK_PRIOR_BASE_ERROR),
                            lk_prior_source(LK_PRIOR_BASE_ERROR)));
out:
    return st;
}

/* ---- The whole ---- */

static enum lk_status set_header(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    int gpus = w->reference_gpus ? w->reference_gpus : 1;

    f->level = w->options.level;
    LK_TRY(lk_strdup(&f->job, w->job->name));
    LK_TRY(lk_strdup(&f->cluster, w->cluster->name));
    LK_TRY(lk_strdup(&f->sample_unit, w->job->sample_unit));
    LK_TRY(lk_asprintf(&f->reference, "%d GPU%s, %s, plain DDP on the same machine", gpus,
                       gpus == 1 ? "" : "s", w->reference_gpus ? "measured" : "modelled"));
    w->reference_gpus = gpus;
out:
    return st;
}

static enum lk_status set_options(struct whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_backtests b = {0};
    size_t n;

    w->options = (struct lk_predictor_options){.level = w->request->level,
                                               .draws = w->request->draws,
                                               .seed = w->request->seed,
                                               .scale_error = NAN};
    LK_TRY(lk_backtest_all(w->job, w->cluster, &w->options, &b));
    w->options.scale_error = lk_backtest_scale_error(&b, &n);
    for (size_t i = 0; i < w->job->n_runs; i++) {
        const struct lk_job_run *r = &w->job->runs[i];

        if (lk_run_counts(w->cluster, r) && (!w->reference_gpus || r->gpus < w->reference_gpus))
            w->reference_gpus = r->gpus;
    }
out:
    lk_backtests_fini(&b);
    return st;
}

static void world_fini(struct world *world)
{
    for (size_t i = 0; i < world->n_sweeps; i++)
        lk_sweep_fini(&world->sweeps[i]);
    free(world->sweeps);
    free(world->items);
    lk_predictor_destroy(world->predictor);
    lk_changed_fini(&world->changed);
}

enum lk_status lk_whatif_run(const struct lk_job *job, const struct lk_cluster *cluster,
                             const struct lk_whatif_request *request, struct lk_whatif *out)
{
    enum lk_status st = LK_OK;
    struct lk_whatif o = {0};
    struct whatif w = {.job = job, .cluster = cluster, .request = request, .out = &o};

    if (!request->axes[LK_AXIS_GPUS].n)
        return lk_fail(LK_EUSAGE, "no GPU counts to look at");
    if (request->global_batch > 0 && request->axes[LK_AXIS_ACCUMULATION].n)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        o.asked[a] = request->axes[a].n > 0;
    LK_TRY(set_options(&w));
    LK_TRY(set_header(&w));
    LK_TRY(add_grid(&w));
    LK_TRY(add_references(&w));
    LK_TRY(run_worlds(&w));
    LK_TRY(add_results(&w));
    for (size_t g = 0; g < request->axes[LK_AXIS_GPUS].n; g++)
        LK_TRY(mark_best(&w, (int)request->axes[LK_AXIS_GPUS].v[g].number.value));
    LK_TRY(add_notes(&w));
    *out = o;
    o = (struct lk_whatif){0};
out:
    for (size_t i = 0; i < w.n_worlds; i++)
        world_fini(&w.worlds[i]);
    free(w.worlds);
    free(w.items);
    free(w.point_items);
    free(w.anchor_draws);
    free(w.refusal);
    lk_whatif_fini(&o);
    return st;
}

void lk_whatif_fini(struct lk_whatif *w)
{
    lk_forecast_fini(&w->forecast);
    free(w->points);
    free(w->effects);
    free(w->columns);
    *w = (struct lk_whatif){0};
}
