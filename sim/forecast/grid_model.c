/*
 * The step model made fast: each part that configurations share is computed once.
 *
 * A network shape (ranks, caps, scheme) gives the collectives, and their cost in every draw, the
 * slowest link's included. A local batch gives the compute. The ranks' law gives the compute of the
 * slowest rank (sim/step/straggler_max.h), tail and known ranks included. A configuration is then
 * one rank that computes as long as the slowest does on average, simulated without randomness at a
 * few factors of its collectives' cost; a draw is a look-up:
 *
 *     t_i = w_i (fixed + x_i (T(f_i / x_i / w_i) - fixed))
 *
 * f_i: cost, x_i: compute of the slowest rank, w_i: a rank's own work, over the estimate's; the
 * step scales with its durations; fixed is optimizer and gap. The limits: all collectives
 * of a draw change by the factor of the one in the middle of the cost; one rank is the slowest of a
 * whole micro-batch; a node's effect has the share of a rank's; effects are those of the job's
 * current batch; a new run's 50 steps are their mean. The anchor is treated alike, so most of these
 * errors cancel. tests/sim/test_grid_model.c compares it with simulation (tests/rigs/simulated.h).
 *
 * Divisions: one configuration / anchors / points / interface.
 */
#include "sim/forecast/grid_model.h"

#include "base/array.h"
#include "sim/forecast/basis.h"
#include "sim/forecast/bound.h"
#include "sim/forecast/grid_parts.h"
#include "sim/prior.h"
#include "sim/step/bucket_cost.h"
#include "sim/step/closed_form.h"
#include "sim/step/straggler_max.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    FACTORS = 5,
    STEPS = 2,         /* nothing is random, and a steady state is reached in the warm-up */
    STEPS_LOADER = 10, /* a loader's queue takes so many to settle */
};

/* Factors on the collectives' cost; between them the step is nearly straight, beyond them it is
 * taken as straight. */
static const double factors[FACTORS] = {0.5, 0.8, 1, 1.25, 2};

static const double FASTEST = 0.05;  /* as in sim/step/step.c */
static const double LOW_END = 1.645; /* of a 90 % interval, in sd */

/*
 * A configuration that was run, and its measured over its modelled step. What runs of one rank are
 * off by is a rank's own work, and says nothing of communication; what others are off by beyond
 * that is of the whole step, as nothing tells which part it belongs to.
 */
struct anchor {
    struct lk_config config;
    enum lk_status status;
    double factor, *factors; /* of the estimate; of each draw */
};

struct lk_grid_model {
    const struct lk_basis *basis; /* borrowed */
    size_t n_draws;
    struct lk_draw *draws;
    double *fresh;              /* for each draw, the new run's step over the mean of all runs */
    double *z_bucket, *z_fixed; /* standard normal: of a bucket's cost, of what a step takes once */
    struct lk_grid_parts parts;
    struct anchor *anchors;
    size_t n_anchors, anchors_capacity;
    struct lk_step_coll *colls; /* scratch */
    size_t colls_capacity;
};

/* ---- One configuration ---- */

struct point_model {
    const struct lk_grid_shape *shape;
    const struct lk_grid_compute *compute;
    const struct lk_grid_straggler *straggler;
    struct lk_step_model step;             /* one rank, the slowest */
    double slowest;                        /* its compute over a rank's mean */
    double step_at_cost[FACTORS], fixed_s; /* the step at each factor; optimizer and gap */
    double charged_s;                      /* of its compute: by buckets beyond the job's own */
    double gamma_s, delta_s, per_bucket_s; /* by how much more of each lengthens it */
    /* A rank's own work over the model's, by runs of one rank, and of each draw; NULL: no run
     * tells, and it is as well known as the compute. */
    double work_ratio;
    const double *work_ratio_draws;
    /* What a step takes once, as a share of a micro-batch, and how its own work follows it. */
    double fixed_sd, per_fixed;
    double losses_s[LK_LOSS_COUNT]; /* at factor 1 */
};

static void set_step(struct point_model *point, const struct lk_config *c)
{
    const struct lk_step_model *of_batch = &point->compute->model.step;

    point->step = point->shape->model.step;
    point->step.ranks = point->step.nodes = 1;
    point->step.accumulation = c->accumulation;
    point->step.forward_s =
        of_batch->forward_s * point->slowest * point->shape->model.async_slowdown;
    point->step.backward_s =
        of_batch->backward_s * point->slowest * point->shape->model.async_slowdown;
    point->step.optimizer_s = of_batch->optimizer_s / lk_config_sharers(c);
    point->step.gap_s = of_batch->gap_s;
    point->step.input_s = of_batch->input_s;
    point->step.load_s = of_batch->load_s;
    point->step.prefetch_depth = of_batch->prefetch_depth;
    point->step.law = (struct lk_straggler_law){0};
    point->step.rank_slowness = point->step.node_slowness = point->step.node_link = NULL;
    point->fixed_s = point->step.optimizer_s * (1 + point->step.kappa) + point->step.gap_s;
}

/* Turn the slowest rank's losses into those of the mean rank, which waits for it. */
static void set_losses(struct point_model *point, const struct lk_config *c,
                       const struct lk_sim_result *r)
{
    const struct lk_step_model *s = &point->compute->model.step;
    double compute_s = c->accumulation * (s->forward_s + s->backward_s);
    double slow_s = compute_s * (point->slowest - 1);
    double own_s = compute_s * point->straggler->slowest.average;

    memcpy(point->losses_s, r->losses_s, sizeof point->losses_s);
    point->losses_s[LK_LOSS_IDEAL] -= slow_s + point->charged_s;
    point->losses_s[LK_LOSS_OVERLAP] += point->charged_s;
    point->losses_s[LK_LOSS_SLOW_RANK] += own_s;
    point->losses_s[LK_LOSS_STRAGGLER] += slow_s - own_s;
}

/* Return the step with the collectives' cost times f. */
static double at_factor(const struct point_model *point, double f)
{
    int i = 1;

    while (i + 1 < FACTORS && f > factors[i])
        i++;
    return point->step_at_cost[i - 1] + (point->step_at_cost[i] - point->step_at_cost[i - 1]) *
                                            (f - factors[i - 1]) / (factors[i] - factors[i - 1]);
}

/* Return true if ranks wait for each other in a step's last micro-batch alone, for all of it. */
static bool meets_once(const struct lk_step_model *m)
{
    for (size_t i = 0; i < m->n_colls; i++)
        if (m->colls[i].every_micro_batch)
            return false;
    return true;
}

/* Charge the compute of a step, whose backward is that of the job's own buckets, for its buckets.
 */
static double charge(struct lk_grid_model *m, const struct lk_grid_shape *shape, double cost_s,
                     struct lk_step_model *step)
{
    return lk_bucket_cost_charge(step, shape->model.volume.steps, m->colls,
                                 shape->model.own_buckets, cost_s);
}

/* Set by how much more gamma, delta and a bucket's cost lengthen the step: over one more tenth of
 * the first two, 20 us more of the third. bare: the step before it was charged for buckets. */
static enum lk_status set_slopes(struct lk_grid_model *m, const struct lk_sim_request *q,
                                 const struct lk_step_model *bare, struct point_model *point)
{
    static const double more[] = {0.1, 0.1, 20e-6};
    const struct lk_step_model as_is = point->step;
    double *slopes[] = {&point->gamma_s, &point->delta_s, &point->per_bucket_s};
    bool others = lk_bucket_count(point->shape->model.volume.steps, point->step.n_colls) !=
                  point->shape->model.own_buckets;

    for (size_t k = 0; k < point->step.n_colls; k++)
        m->colls[k].cost_s = point->shape->model.colls[k].cost_s;
    for (size_t i = 0; i < LK_COUNT(more) && point->step.n_colls; i++) {
        struct lk_sim_result r;

        if (i == 2 ? !others : !point->shape->overlap_drawn)
            continue;
        point->step.gamma_wire += i == 0 ? more[0] : 0;
        point->step.delta += i == 1 ? more[1] : 0;
        if (i == 2) {
            point->step = *bare;
            charge(m, point->shape, m->basis->bucket.s + more[2], &point->step);
        }
        LK_PASS(lk_closed_form_run(&point->step, q, &r));
        *slopes[i] = (r.mean_s - at_factor(point, 1)) / more[i];
        lk_sim_result_fini(&r);
        point->step = as_is;
    }
    point->gamma_s = fmax(0, point->gamma_s);
    point->delta_s = fmax(0, point->delta_s);
    return LK_OK;
}

static enum lk_status point_model_init(struct lk_grid_model *m, const struct lk_config *c,
                                       struct point_model *point)
{
    struct lk_sim_request q = {.seed = 1};
    struct lk_step_model bare;
    const struct lk_step_model *of;
    size_t shape, compute, straggler, n;

    LK_PASS(lk_grid_shape_of(&m->parts, c, &shape));
    LK_PASS(lk_grid_compute_of(&m->parts, c->local_batch, &compute));
    of = &m->parts.shapes[shape].model.step;
    LK_PASS(lk_grid_straggler_of(&m->parts, of, meets_once(of) ? c->accumulation : 1, &straggler));
    *point = (struct point_model){.work_ratio = 1,
                                  .shape = &m->parts.shapes[shape],
                                  .compute = &m->parts.computes[compute],
                                  .straggler = &m->parts.stragglers[straggler]};
    point->slowest = fmax(FASTEST, 1 + point->straggler->slowest.mean);
    set_step(point, c);
    n = point->step.n_colls;
    LK_PASS(lk_array_grow(&m->colls, &m->colls_capacity, n, sizeof *m->colls));
    point->step.colls = m->colls;
    if (n)
        memcpy(m->colls, point->shape->model.colls, n * sizeof *m->colls);
    bare = point->step;
    point->charged_s = charge(m, point->shape, m->basis->bucket.s, &point->step);
    q.steps = point->step.load_s > 0 ? STEPS_LOADER : STEPS;
    for (int i = 0; i < FACTORS; i++) {
        struct lk_sim_result r;

        for (size_t k = 0; k < n; k++)
            m->colls[k].cost_s = point->shape->model.colls[k].cost_s * factors[i];
        LK_PASS(lk_closed_form_run(&point->step, &q, &r));
        point->step_at_cost[i] = r.mean_s;
        if (factors[i] == 1)
            set_losses(point, c, &r);
        lk_sim_result_fini(&r);
    }
    LK_PASS(set_slopes(m, &q, &bare, point));
    point->losses_s[LK_LOSS_WIRE] += at_factor(point, point->shape->link) - at_factor(point, 1);
    return LK_OK;
}

/* Return what the overlap's slowdown and the buckets' cost in a draw add to the estimate's. */
static double overlap_of(const struct lk_grid_model *m, const struct point_model *point, size_t i)
{
    return point->gamma_s * point->shape->gamma[i] + point->delta_s * point->shape->delta[i] +
           point->per_bucket_s *
               (lk_bucket_cost_draw(&m->basis->bucket, m->z_bucket[i]) - m->basis->bucket.s);
}

/* Return the estimate of the step, the slowest link's cost in it, without runs of several ranks. */
static double estimate_of(const struct point_model *point)
{
    return point->work_ratio * at_factor(point, point->shape->link / point->work_ratio);
}

/* Return the own work over the model's when a step takes this share of a micro-batch once: as much
 * as before at the accumulation that was measured, less a micro-batch above it. */
static double fixed_factor(const struct point_model *point, double share)
{
    return fmax(FASTEST, 1 + share * point->per_fixed);
}

static double own_in_draw(const struct lk_grid_model *m, const struct point_model *point, size_t i)
{
    return (point->work_ratio_draws ? point->work_ratio_draws[i] : point->compute->factors[i]) *
           fixed_factor(point, point->fixed_sd * m->z_fixed[i]);
}

/* Return the step in a draw with this own work, and its compute times `compute`, without the
 * model's error and without runs. */
static double draw_of(const struct lk_grid_model *m, const struct point_model *point, size_t i,
                      double own, double compute)
{
    const struct lk_straggler_max *s = &point->straggler->slowest;
    double away = point->straggler->effect[i] - s->mean;
    double x = fmax(FASTEST, 1 + s->persistent * away / point->slowest) *
               point->shape->colocation[i] * compute;

    return own * (point->fixed_s +
                  x * (at_factor(point, point->shape->cost[i] / x / own) - point->fixed_s)) +
           overlap_of(m, point, i);
}

/* ---- Anchors ---- */

static enum lk_status point_model_of_runs(struct lk_grid_model *m, const struct lk_config *c,
                                          struct point_model *point);

/* Compare the runs of a configuration with its model. *out owns `factors`. */
static enum lk_status anchor_init(struct lk_grid_model *m, struct anchor *a)
{
    bool alone = a->config.world_size == 1;
    struct point_model point;
    double measured;
    size_t n;

    LK_PASS(lk_alloc(&a->factors, m->n_draws, sizeof *a->factors));
    a->status = (alone ? point_model_init : point_model_of_runs)(m, &a->config, &point);
    if (a->status != LK_OK)
        return a->status == LK_EEVIDENCE ? LK_OK : a->status;
    measured = lk_runs_mean(&m->basis->runs, &a->config, &n);
    a->factor = measured / estimate_of(&point);
    for (size_t i = 0; i < m->n_draws; i++)
        a->factors[i] = lk_basis_runs_draw(m->basis, &a->config, n, &m->draws[i]) /
                        draw_of(m, &point, i, alone ? 1 : own_in_draw(m, &point, i), 1);
    return LK_OK;
}

/* Append an anchor, behind that of one rank which it may need. */
static enum lk_status anchor_add(struct lk_grid_model *m, struct anchor a)
{
    enum lk_status st = anchor_init(m, &a);

    if (st == LK_OK)
        st = lk_array_grow(&m->anchors, &m->anchors_capacity, m->n_anchors + 1, sizeof *m->anchors);
    if (st != LK_OK)
        free(a.factors);
    else
        m->anchors[m->n_anchors++] = a;
    return st;
}

/* Find the anchor: the nearest run whose configuration has a model. out->factors, which the model
 * keeps, is NULL if none has; *costless: GPUs of the nearest run that was passed over, or 0. */
static enum lk_status anchor_of(struct lk_grid_model *m, const struct lk_config *c,
                                struct anchor *out, int *costless)
{
    double distance = -INFINITY;
    struct anchor a = {0};

    *out = (struct anchor){.factor = 1};
    *costless = 0;
    while (!out->factors && lk_runs_nearest(&m->basis->runs, c, &distance, &a.config)) {
        size_t i = 0;

        while (i < m->n_anchors && !lk_config_equal(&m->anchors[i].config, &a.config))
            i++;
        if (i == m->n_anchors) {
            LK_PASS(anchor_add(m, a));
            i = m->n_anchors - 1;
        }
        if (m->anchors[i].status == LK_OK)
            *out = m->anchors[i];
        else if (!*costless)
            *costless = a.config.world_size;
    }
    return LK_OK;
}

/* Set what is not known of a step's fixed part where no run had the accumulation. */
static void set_fixed(const struct lk_grid_model *m, const struct lk_config *c,
                      struct point_model *point)
{
    const struct lk_step_model *s = &point->compute->model.step;
    double micro_s = s->forward_s + s->backward_s + s->input_s;
    int more = c->accumulation - lk_runs_accumulation(&m->basis->runs, c);

    point->per_fixed = -more * micro_s / (c->accumulation * micro_s + point->fixed_s);
    if (more)
        point->fixed_sd =
            lk_prior_value(point->fixed_s > 0 ? LK_PRIOR_FIXED_REST : LK_PRIOR_FIXED_SHARE);
}

/* Model a configuration with the own work that the nearest runs of one rank show. */
static enum lk_status point_model_of_runs(struct lk_grid_model *m, const struct lk_config *c,
                                          struct point_model *point)
{
    struct lk_config alone = *c;
    struct anchor a;
    int costless;

    alone.world_size = alone.nodes = 1;
    LK_PASS(anchor_of(m, &alone, &a, &costless));
    LK_PASS(point_model_init(m, c, point));
    point->work_ratio = a.factor;
    point->work_ratio_draws = a.factors;
    set_fixed(m, c, point);
    return LK_OK;
}

/* ---- Points ---- */

static void set_grade(struct lk_grid_model *m, const struct point_model *point,
                      int anchor_world_size, struct lk_prediction *p)
{
    struct lk_config_model graded = point->shape->model; /* borrows; only grades are read */
    const struct lk_config_model *of_batch = &point->compute->model;

    graded.batch_extrapolation = of_batch->batch_extrapolation;
    if (of_batch->batch_extrapolation > 1 && graded.evidence < LK_EVIDENCE_EXTRAPOLATED) {
        graded.evidence = of_batch->evidence;
        memcpy(graded.evidence_text, of_batch->evidence_text, sizeof graded.evidence_text);
    }
    p->batch_extrapolation = of_batch->batch_extrapolation;
    lk_basis_grade(m->basis, &graded, anchor_world_size, &p->config, &p->evidence,
                   p->evidence_text);
}

/*
 * Take the model's losses; the rest is the anchor's correction, as nothing tells which loss it
 * belongs to. A single rank has no others to be slower than or to wait for: what the law says of
 * that counts as ideal.
 */
static void take_losses(const struct point_model *point, struct lk_prediction *p)
{
    memcpy(p->losses_s, point->losses_s, sizeof p->losses_s);
    lk_losses_close(p->losses_s, p->step_s);
    if (p->config.world_size == 1) {
        p->losses_s[LK_LOSS_IDEAL] +=
            p->losses_s[LK_LOSS_SLOW_RANK] + p->losses_s[LK_LOSS_STRAGGLER];
        p->losses_s[LK_LOSS_SLOW_RANK] = p->losses_s[LK_LOSS_STRAGGLER] = 0;
    }
}

static void set_assumed(const struct point_model *point, struct lk_prediction *p)
{
    const struct lk_config_model *shape = &point->shape->model;
    bool several = p->config.world_size > 1;

    p->rank_sd_assumed = shape->rank_sd_assumed && several;
    p->transient_assumed = point->compute->model.transient_assumed && several;
    p->overlap_assumed = shape->overlap_assumed && several;
    p->kappa_unknown = shape->kappa_unknown;
    p->assumed.fixed_sd = point->fixed_sd;
    p->assumed.hook = several && shape->hook_share > 0;
    p->assumed.shard = several && p->config.sharding != LK_SHARDING_DDP;
}

static void draw_all(const struct lk_grid_model *m, const struct point_model *point,
                     const struct anchor *whole, struct lk_prediction *p)
{
    const struct lk_config *c = &p->config;
    struct lk_step_model step = point->compute->model.step;
    double distance = lk_basis_distance(c, p->anchor_world_size, point->shape->of_points);
    double scale_error = lk_basis_scale_error(m->basis, distance, point->shape->cost_sd);
    double batch_sd = point->compute->model.batch_sd, alone, shared_s;

    step.optimizer_s = point->step.optimizer_s;
    alone = lk_basis_alone_s(&step, c->accumulation);
    step.colls = point->shape->model.colls;
    step.n_colls = point->shape->model.step.n_colls;
    step.accumulation = c->accumulation;
    shared_s = lk_basis_shared_s(&step, alone * point->work_ratio, estimate_of(point));
    p->scale_share = distance * shared_s / estimate_of(point);
    for (size_t i = 0; i < m->n_draws; i++) {
        const struct lk_draw *w = &m->draws[i];
        double own = own_in_draw(m, point, i), batch = batch_sd > 0 ? exp(batch_sd * w->error) : 1;
        double s = lk_basis_with_error(alone * own * batch, draw_of(m, point, i, own, batch),
                                       shared_s, scale_error, w);

        p->draws_s[i] = s * m->fresh[i] * (whole->factors ? whole->factors[i] : 1);
    }
}

/* Sets the bound of the configuration's step (sim/forecast/bound.h). Measured compute, and that of
 * a batch that was not measured, may be as short as the low end of its interval, given compute is
 * as given. */
static enum lk_status set_bound(struct lk_grid_model *m, const struct point_model *point,
                                struct lk_prediction *p)
{
    static const double MOST = 3; /* times the mean, of a half-normal number: 98 % are below */
    const struct lk_config_model *shape = &point->shape->model, *of_batch = &point->compute->model;
    double sd = hypot(hypot(of_batch->compute_sd, of_batch->batch_sd),
                      m->basis->job->n_runs ? m->basis->runs.sd : 0);
    struct lk_step_model s = point->step;

    s.ranks = shape->step.ranks;
    s.nodes = shape->step.nodes;
    s.rank_slowness = shape->step.rank_slowness;
    s.node_slowness = shape->step.node_slowness;
    s.forward_s = of_batch->step.forward_s * shape->async_slowdown;
    s.backward_s = of_batch->step.backward_s * shape->async_slowdown;
    charge(m, point->shape,
           lk_bucket_count(shape->volume.steps, s.n_colls) < shape->own_buckets
               ? MOST * m->basis->bucket.s
               : 0,
           &s);
    return lk_step_bound(
        shape, &s, m->basis->cluster,
        fmin(1, point->work_ratio) * exp(-LOW_END * sd) *
            fixed_factor(point, -LOW_END * point->fixed_sd * copysign(1, point->per_fixed)),
        &p->bound_s);
}

/* ---- Interface ---- */

/* Find the anchor; *whole is it where its misfit is of the whole step, else it has the factor 1. */
static enum lk_status whole_of(struct lk_grid_model *m, struct lk_prediction *p,
                               struct anchor *whole)
{
    LK_PASS(anchor_of(m, &p->config, whole, &p->costless_world_size));
    p->anchor_world_size = whole->factors ? whole->config.world_size : 0;
    if (p->anchor_world_size < 2)
        *whole = (struct anchor){.factor = 1};
    return LK_OK;
}

enum lk_status lk_grid_model_at(struct lk_grid_model *m, struct lk_prediction *p)
{
    struct anchor whole;
    struct point_model point;

    LK_PASS(whole_of(m, p, &whole));
    LK_PASS(point_model_of_runs(m, &p->config, &point));
    p->step_s = estimate_of(&point) * whole.factor;
    p->anchor_factor = p->step_s / at_factor(&point, point.shape->link);
    draw_all(m, &point, &whole, p);
    take_losses(&point, p);
    set_assumed(&point, p);
    set_grade(m, &point, p->anchor_world_size, p);
    return set_bound(m, &point, p);
}

enum lk_status lk_grid_model_step(struct lk_grid_model *m, const struct lk_config *c, bool anchored,
                                  double *out_step_s)
{
    struct lk_prediction p = {.config = *c};
    struct anchor whole = {.factor = 1};
    struct point_model point;

    if (anchored)
        LK_PASS(whole_of(m, &p, &whole));
    LK_PASS((anchored ? point_model_of_runs : point_model_init)(m, c, &point));
    *out_step_s = estimate_of(&point) * whole.factor;
    return LK_OK;
}

enum lk_status lk_grid_model_create(const struct lk_basis *b, struct lk_grid_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_grid_model *m = NULL;
    size_t n = (size_t)b->options.draws;
    struct lk_grid_evidence inputs;
    double *z_compute, *z_hook, *z_shard;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    *m = (struct lk_grid_model){.basis = b, .n_draws = n};
    LK_TRY(lk_alloc(&m->draws, n, sizeof *m->draws));
    LK_TRY(lk_alloc(&m->fresh, 9 * n, sizeof *m->fresh));
    m->z_bucket = m->fresh + 4 * n;
    m->z_fixed = m->fresh + 5 * n;
    z_hook = m->fresh + 6 * n;
    z_shard = m->fresh + 7 * n;
    z_compute = m->fresh + 8 * n;
    lk_rng_normals(b->options.seed, lk_rng_stream("grid_model.overlap", 0), 0, m->fresh + n, 7 * n);
    for (size_t i = 0; i < n; i++) {
        m->draws[i] = lk_basis_draw(b, i);
        m->fresh[i] = exp(m->draws[i].run_sd * m->draws[i].z_new_run);
        z_compute[i] = m->draws[i].compute;
    }
    inputs = (struct lk_grid_evidence){.job = b->job,
                                       .cluster = b->cluster,
                                       .slow = &b->slow,
                                       .cost = b->cost,
                                       .draws = b->draws,
                                       .z_compute = z_compute,
                                       .z_gamma = m->fresh + n,
                                       .z_delta = m->fresh + 2 * n,
                                       .z_kappa = m->fresh + 3 * n,
                                       .z_hook = z_hook,
                                       .z_shard = z_shard,
                                       .seed = b->options.seed};
    LK_TRY(lk_grid_parts_init(&m->parts, &inputs, n));
    *out = m;
    m = NULL;
out:
    lk_grid_model_destroy(m);
    return st;
}

void lk_grid_model_destroy(struct lk_grid_model *m)
{
    if (!m)
        return;
    lk_grid_parts_fini(&m->parts);
    for (size_t i = 0; i < m->n_anchors; i++)
        free(m->anchors[i].factors);
    free(m->draws);
    free(m->fresh);
    free(m->anchors);
    free(m->colls);
    free(m);
}
