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
#include "sim/forecast/misfit.h"
#include "sim/prior.h"
#include "sim/step/bucket_cost.h"
#include "sim/step/straggler_max.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const double FASTEST = 0.05;     /* as in sim/step/step.c */
static const double LOW_END = 1.645;    /* of a 90 % interval, in sd */
static const double MISFIT_TOLD = 0.03; /* of the step: of less it hardly matters where it went */

/*
 * A configuration that was run, and what its steps take beyond the model. What runs of one rank are
 * off by is a rank's own work, and says nothing of communication; others tell more
 * (sim/forecast/misfit.h).
 */
struct anchor {
    struct lk_config config;
    enum lk_status status;
    double factor, *factors;           /* of one rank: measured over modelled step; of each draw */
    struct lk_misfit misfit, *misfits; /* of several ranks: of the estimate; of each draw */
    bool unseen;                       /* nobody knows of which part the misfit is */
    double step_s, *steps;             /* measured; of each draw */
    struct lk_meeting meeting;
};

struct lk_grid_model {
    const struct lk_basis *basis; /* borrowed */
    struct lk_grid_model *as_is;  /* whose runs count here too; borrowed, NULL: its own */
    size_t n_draws;
    struct lk_draw *draws;
    double *fresh; /* for each draw, the new run's step over the mean of all runs */
    double *z_bucket, *z_tensor, *z_fixed; /* standard normal: of costs, of what a step has once */
    double *exposed; /* share of an unseen misfit that is exposed communication */
    double *slowed;  /* of the point at hand (lk_grid_point.slowed_draws) */
    struct lk_grid_parts parts;
    struct anchor *anchors;
    size_t n_anchors, anchors_capacity;
};

/* ---- One configuration ---- */

/* Return what the overlap's slowdown and the launches' cost in a draw add to the estimate's. */
static double overlap_of(const struct lk_grid_model *m, const struct lk_grid_point *point, size_t i)
{
    return point->gamma_s * point->shape->gamma[i] + point->delta_s * point->shape->delta[i] +
           point->per_bucket_s *
               (lk_bucket_cost_draw(&m->basis->bucket, m->z_bucket[i]) - m->basis->bucket.s) +
           point->per_tensor_s * (lk_bucket_cost_draw_tensor(&m->basis->bucket, m->z_tensor[i]) -
                                  m->basis->bucket.tensor_s) +
           point->per_start_s * point->shape->start[i];
}

/* Return the estimate of the step, the slowest link's cost in it, without runs of several ranks. */
static double estimate_of(const struct lk_grid_point *point)
{
    double own = point->work_ratio * point->slowed;

    return own * lk_grid_point_at(point, point->shape->link / own);
}

/* Return the own work over the model's when a step takes this share of a micro-batch once: as much
 * as before at the accumulation that was measured, less a micro-batch above it. */
static double fixed_factor(const struct lk_grid_point *point, double share)
{
    return fmax(FASTEST, 1 + share * point->per_fixed);
}

static double own_in_draw(const struct lk_grid_model *m, const struct lk_grid_point *point,
                          size_t i)
{
    return (point->work_ratio_draws ? point->work_ratio_draws[i] : point->compute->factors[i]) *
           (point->slowed_draws ? point->slowed_draws[i] : point->slowed) *
           fixed_factor(point, point->fixed_sd * m->z_fixed[i]);
}

/* Return the parts of the estimate. */
static struct lk_step_parts parts_of(const struct lk_grid_point *point)
{
    double own_s = point->work_ratio * point->slowed * point->busy_s;

    return (struct lk_step_parts){own_s, estimate_of(point) - own_s};
}

/* Return the step in a draw with this own work, and its compute times `compute`, without the
 * model's error and without runs. */
static struct lk_step_parts draw_of(const struct lk_grid_model *m,
                                    const struct lk_grid_point *point, size_t i, double own,
                                    double compute)
{
    const struct lk_straggler_max *s = &point->straggler->slowest;
    double away = point->straggler->effect[i] - s->mean;
    double x = fmax(FASTEST, 1 + s->persistent * away / point->slowest) *
               point->shape->colocation[i] * compute;
    double own_s = own * (point->fixed_s + x * (point->busy_s - point->fixed_s));
    double step_s =
        own * (point->fixed_s +
               x * (lk_grid_point_at(point, point->shape->cost[i] / x / own) - point->fixed_s)) +
        overlap_of(m, point, i);

    return (struct lk_step_parts){own_s, step_s - own_s};
}

/* ---- Anchors ---- */

static enum lk_status point_model_of_runs(struct lk_grid_model *m, const struct lk_config *c,
                                          struct lk_grid_point *point);

/* Compare the runs of one rank with their model. */
static void set_alone(struct lk_grid_model *m, const struct lk_grid_point *point, struct anchor *a)
{
    a->factor = a->step_s / estimate_of(point);
    for (size_t i = 0; i < m->n_draws; i++) {
        struct lk_step_parts p = draw_of(m, point, i, 1, 1);

        a->factors[i] = a->steps[i] / (p.own_s + p.exposed_s);
    }
}

/* Compare the runs of several ranks with their model, part by part. */
static void set_misfit(struct lk_grid_model *m, const struct lk_grid_point *point, struct anchor *a)
{
    double losses_s[LK_LOSS_COUNT];
    bool known = lk_runs_losses(&m->basis->runs, &a->config, losses_s);
    bool alone = point->work_ratio_draws != NULL;
    struct lk_misfit_seen seen = lk_misfit_seen(known ? losses_s : NULL, point->losses_s, alone);
    struct lk_grid_point slowed = *point;
    struct lk_step_parts p = parts_of(point);
    double beside = lk_misfit_beside(&seen, a->step_s, &p);
    bool told = alone && a->config.nodes == a->config.world_size &&
                beside * p.own_s > MISFIT_TOLD * a->step_s;

    slowed.slowed = told ? 1 + beside : 1;
    p = parts_of(&slowed);
    a->misfit = lk_misfit_of(&seen, a->step_s, &p);
    a->misfit.beside = slowed.slowed - 1;
    a->unseen = seen.by == LK_MISFIT_UNSEEN && fabs(a->misfit.whole - 1) > MISFIT_TOLD;
    a->meeting = lk_meeting_of(&point->shape->model, &a->config);
    for (size_t i = 0; i < m->n_draws; i++) {
        p = draw_of(m, point, i, own_in_draw(m, point, i), 1);
        slowed.slowed = told ? 1 + lk_misfit_beside(&seen, a->steps[i], &p) : 1;
        p = draw_of(m, point, i, own_in_draw(m, &slowed, i), 1);
        if (seen.by == LK_MISFIT_UNSEEN)
            seen.exposed = m->exposed[i];
        a->misfits[i] = lk_misfit_of(&seen, a->steps[i], &p);
        a->misfits[i].beside = slowed.slowed - 1;
    }
}

/* Compare the runs of a configuration with its model. *out owns its lists. */
static enum lk_status anchor_init(struct lk_grid_model *m, struct anchor *a)
{
    bool alone = lk_config_replicas(&a->config) == 1;
    struct lk_grid_point point;
    size_t n;

    a->factor = 1;
    a->misfit = lk_misfit_none;
    LK_PASS(lk_alloc(&a->steps, m->n_draws, sizeof *a->steps));
    if (alone)
        LK_PASS(lk_alloc(&a->factors, m->n_draws, sizeof *a->factors));
    else
        LK_PASS(lk_alloc(&a->misfits, m->n_draws, sizeof *a->misfits));
    a->status = alone ? lk_grid_point_init(&m->parts, &m->basis->bucket, &a->config, &point)
                      : point_model_of_runs(m, &a->config, &point);
    if (a->status == LK_OK)
        a->status = lk_grid_point_draw(&m->parts, &m->basis->bucket, &point);
    if (a->status != LK_OK)
        return a->status == LK_EEVIDENCE ? LK_OK : a->status;
    a->step_s = lk_runs_mean(&m->basis->runs, &a->config, &n);
    for (size_t i = 0; i < m->n_draws; i++)
        a->steps[i] = lk_basis_runs_draw(m->basis, &a->config, n, &m->draws[i]);
    (alone ? set_alone : set_misfit)(m, &point, a);
    return LK_OK;
}

static void anchor_fini(struct anchor *a)
{
    free(a->factors);
    free(a->misfits);
    free(a->steps);
}

/* Append an anchor, behind that of one rank which it may need. */
static enum lk_status anchor_add(struct lk_grid_model *m, struct anchor a)
{
    enum lk_status st = anchor_init(m, &a);

    if (st == LK_OK)
        st = lk_array_grow(&m->anchors, &m->anchors_capacity, m->n_anchors + 1, sizeof *m->anchors);
    if (st != LK_OK)
        anchor_fini(&a);
    else
        m->anchors[m->n_anchors++] = a;
    return st;
}

/* Find the anchor: the nearest run whose configuration has a model, of one rank if `alone`. The
 * model keeps its lists. *found is false if there is none; *costless: GPUs of the nearest run that
 * was passed over, or 0. */
static enum lk_status anchor_of(struct lk_grid_model *m, const struct lk_config *c, bool alone,
                                struct anchor *out, bool *found, int *costless)
{
    struct lk_grid_model *of = m->as_is ? m->as_is : m;
    double distance = -INFINITY;
    struct anchor a = {0};

    *out = (struct anchor){.factor = 1, .misfit = lk_misfit_none};
    *found = false;
    *costless = 0;
    while (!*found && lk_runs_nearest(&of->basis->runs, c, &distance, &a.config)) {
        size_t i = 0;

        if (alone && lk_config_replicas(&a.config) > 1)
            return LK_OK;
        while (i < of->n_anchors && !lk_config_equal(&of->anchors[i].config, &a.config))
            i++;
        if (i == of->n_anchors) {
            LK_PASS(anchor_add(of, a));
            i = of->n_anchors - 1;
        }
        *found = of->anchors[i].status == LK_OK;
        if (*found)
            *out = of->anchors[i];
        else if (!*costless)
            *costless = a.config.world_size;
    }
    return LK_OK;
}

/* Set what is not known of a step's fixed part where no run had the accumulation. */
static void set_fixed(const struct lk_grid_model *m, const struct lk_config *c,
                      struct lk_grid_point *point)
{
    const struct lk_step_model *s = &point->compute->model.step;
    double micro_s = s->forward_s + s->backward_s + s->input_s;
    int more = c->accumulation - lk_runs_accumulation(&m->basis->runs, c);

    point->per_fixed = -more * micro_s / (c->accumulation * micro_s + point->fixed_s);
    if (more)
        point->fixed_sd =
            lk_prior_value(point->fixed_s > 0 ? LK_PRIOR_FIXED_REST : LK_PRIOR_FIXED_SHARE);
}

/* Model a configuration with the own work that the nearest runs of one replica show. */
static enum lk_status point_model_of_runs(struct lk_grid_model *m, const struct lk_config *c,
                                          struct lk_grid_point *point)
{
    struct lk_config alone = *c;
    struct anchor a;
    bool found;
    int costless;

    alone.world_size = lk_config_replica_gpus(c);
    alone.nodes = (alone.world_size - 1) / (c->world_size / c->nodes) + 1;
    LK_PASS(anchor_of(m, &alone, true, &a, &found, &costless));
    LK_PASS(lk_grid_point_init(&m->parts, &m->basis->bucket, c, point));
    point->work_ratio = a.factor;
    point->work_ratio_draws = a.factors;
    set_fixed(m, c, point);
    return LK_OK;
}

/* ---- Points ---- */

static void set_grade(struct lk_grid_model *m, const struct lk_grid_point *point,
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
    lk_basis_grade(m->basis, &graded, anchor_world_size, &p->config, &p->evidence, p->evidence_text,
                   p->reach_text);
}

/*
 * Take the model's losses, each with what runs take beyond it; the rest multiplies the step. A
 * single rank has no others to be slower than or to wait for: what the law says of that counts as
 * ideal.
 */
static void take_losses(const struct lk_grid_point *point, const struct lk_misfit *by,
                        const struct lk_misfit_carry *carry, struct lk_prediction *p)
{
    static const enum lk_loss own[] = {LK_LOSS_IDEAL, LK_LOSS_INPUT, LK_LOSS_SLOW_RANK,
                                       LK_LOSS_COLOCATION, LK_LOSS_STRAGGLER};
    struct lk_step_parts parts = parts_of(point);
    double *l = p->losses_s;

    memcpy(l, point->losses_s, sizeof p->losses_s);
    for (size_t i = 0; i < LK_COUNT(own); i++)
        l[own[i]] *= by->own * point->work_ratio;
    l[LK_LOSS_WIRE] = fmax(0, parts.exposed_s + carry->exposed * by->exposed_s) -
                      l[LK_LOSS_OVERLAP] - l[LK_LOSS_LAUNCH];
    l[LK_LOSS_OVERLAP] += parts.own_s * (1 - 1 / point->slowed);
    l[LK_LOSS_STRAGGLER] += carry->wait * by->wait_s;
    l[LK_LOSS_OPTIMIZER] += carry->wait > 0 ? by->optimizer_s : 0;
    lk_losses_close(l, p->step_s);
    if (lk_config_replicas(&p->config) == 1) {
        l[LK_LOSS_IDEAL] += l[LK_LOSS_SLOW_RANK] + l[LK_LOSS_STRAGGLER];
        l[LK_LOSS_SLOW_RANK] = l[LK_LOSS_STRAGGLER] = 0;
    }
}

static void set_assumed(const struct lk_grid_model *m, const struct lk_grid_point *point,
                        const struct anchor *anchor, struct lk_prediction *p)
{
    const struct lk_config_model *shape = &point->shape->model;
    bool several = lk_config_replicas(&p->config) > 1;

    p->rank_sd_assumed = shape->rank_sd_assumed && several;
    p->transient_assumed = point->compute->model.transient_assumed && several;
    p->overlap_assumed = shape->overlap_assumed && several;
    p->kappa_unknown = shape->kappa_unknown;
    p->assumed.fixed_sd = point->fixed_sd;
    p->assumed.misfit = anchor->unseen;
    p->assumed.hook =
        several && shape->hook_share > 0 && p->config.compression != LK_COMPRESSION_NONE;
    p->assumed.shard =
        several && p->config.sharding != LK_SHARDING_DDP && !lk_runs_are_sharded(&m->basis->runs);
}

/* The anchor of a configuration, its own model, and the step that both give. */
struct anchored {
    struct anchor anchor;
    struct lk_grid_point point;
    struct lk_misfit_carry carry;
    double share; /* of the anchor's misfit that counts here */
    bool grows;   /* a step is no faster than the anchor's was */
    double step_s;
};

/*
 * Set how much of the anchor's misfit counts for a configuration. Where its collectives were
 * measured no farther off than the runs, a misfit that the draws explain, by what is not known of
 * the anchor's own collectives, says nothing of them: it counts as far as its square stands out of
 * its variance (as James and Stein's estimate does), so that runs widen no forecast that they agree
 * with.
 */
static enum lk_status set_share(struct lk_grid_model *m, const struct lk_config *c,
                                int anchor_world_size, struct anchored *a)
{
    double n = (double)m->n_draws, mean = 0, square = 0;

    a->share = 1;
    if (!a->anchor.misfits ||
        1 + a->point.shape->of_points > lk_basis_distance(c, anchor_world_size, INFINITY))
        return LK_OK;
    LK_PASS(lk_grid_point_draw(&m->parts, &m->basis->bucket, &a->point));
    for (size_t i = 0; i < m->n_draws; i++) {
        struct lk_step_parts parts = draw_of(m, &a->point, i, own_in_draw(m, &a->point, i), 1);
        double more_s = lk_misfit_step(&a->anchor.misfits[i], &a->carry, &parts) - parts.own_s -
                        parts.exposed_s;

        mean += more_s / n;
        square += more_s * more_s / n;
    }
    if (square > mean * mean)
        a->share = fmax(0, 2 - square / (mean * mean));
    return LK_OK;
}

static void draw_all(const struct lk_grid_model *m, const struct anchored *a,
                     struct lk_prediction *p)
{
    const struct lk_config *c = &p->config;
    const struct lk_grid_point *point = &a->point;
    const struct anchor *anchor = &a->anchor;
    struct lk_step_model step = point->compute->model.step;
    double distance = lk_basis_distance(c, p->anchor_world_size, point->shape->of_points);
    double scale_error = lk_basis_scale_error(m->basis, distance, point->shape->cost_sd);
    double batch_sd = point->compute->model.batch_sd, alone, shared_s;

    step.optimizer_s /= lk_config_sharers(c);
    alone = lk_basis_alone_s(&step, c->accumulation);
    step.colls = point->shape->model.colls;
    step.n_colls = point->shape->model.step.n_colls;
    step.accumulation = c->accumulation;
    shared_s = lk_basis_shared_s(&step, alone * point->work_ratio, estimate_of(point));
    p->scale_share = distance * shared_s / estimate_of(point);
    for (size_t i = 0; i < m->n_draws; i++) {
        const struct lk_draw *w = &m->draws[i];
        double own = own_in_draw(m, point, i), batch = batch_sd > 0 ? exp(batch_sd * w->error) : 1;
        struct lk_step_parts parts = draw_of(m, point, i, own, batch);
        double own_s = alone * own * batch, step_s = parts.own_s + parts.exposed_s;
        double in_draw_s = shared_s;

        if (anchor->misfits) {
            struct lk_misfit misfit = lk_misfit_share(&anchor->misfits[i], a->share);

            step_s = lk_misfit_step(&misfit, &a->carry, &parts);
            own_s *= misfit.own * misfit.whole;
            in_draw_s = lk_misfit_shared(&misfit, &a->carry, shared_s);
        }
        step_s = lk_basis_with_error(own_s, step_s, in_draw_s, scale_error, w);
        p->draws_s[i] = fmax(step_s, a->grows ? anchor->steps[i] : 0) * m->fresh[i];
    }
}

/* Sets the bound of the configuration's step (sim/forecast/bound.h). Measured compute, and that of
 * a batch that was not measured, may be as short as the low end of its interval, given compute is
 * as given. */
static enum lk_status set_bound(struct lk_grid_model *m, const struct lk_grid_point *point,
                                struct lk_prediction *p)
{
    static const double MOST = 3; /* times the mean, of a half-normal number: 98 % are below */
    const struct lk_config_model *shape = &point->shape->model, *of_batch = &point->compute->model;
    double sd = hypot(hypot(of_batch->compute_sd, of_batch->batch_sd),
                      m->basis->job->n_runs ? m->basis->runs.sd : 0);
    struct lk_step_model s = point->step;
    struct lk_bucket_cost least = {0};

    s.ranks = shape->step.ranks;
    s.nodes = shape->step.nodes;
    s.rank_slowness = shape->step.rank_slowness;
    s.node_slowness = shape->step.node_slowness;
    s.forward_s = of_batch->step.forward_s;
    s.backward_s = of_batch->step.backward_s;
    s.optimizer_s = of_batch->step.optimizer_s / lk_config_sharers(&p->config);
    if (lk_bucket_count(shape->volume.steps, s.n_colls) < shape->own_buckets)
        least.s = MOST * m->basis->bucket.s;
    lk_grid_point_charge(&m->parts, point->shape, &least, &s);
    return lk_step_bound(
        shape, &s, m->basis->cluster,
        fmin(1, point->work_ratio) * exp(-LOW_END * sd) *
            fixed_factor(point, -LOW_END * point->fixed_sd * copysign(1, point->per_fixed)),
        &p->bound_s);
}

/* ---- Interface ---- */

/* Slow the point's compute as the runs' exchange slowed theirs, by as much as it has of it. */
static void slow_down(struct lk_grid_model *m, struct anchored *a)
{
    if (!a->anchor.misfits)
        return;
    a->point.slowed = 1 + a->anchor.misfit.beside * a->carry.beside;
    for (size_t i = 0; i < m->n_draws; i++)
        m->slowed[i] = 1 + a->anchor.misfits[i].beside * a->carry.beside;
    a->point.slowed_draws = m->slowed;
}

static enum lk_status anchored_init(struct lk_grid_model *m, struct lk_prediction *p,
                                    struct anchored *a)
{
    struct lk_step_parts parts;
    struct lk_meeting meeting;
    bool found;

    LK_PASS(anchor_of(m, &p->config, false, &a->anchor, &found, &p->costless_world_size));
    p->anchor_world_size = found ? a->anchor.config.world_size : 0;
    LK_PASS(point_model_of_runs(m, &p->config, &a->point));
    meeting = lk_meeting_of(&a->point.shape->model, &p->config);
    a->carry = lk_misfit_carry(&a->anchor.meeting, &meeting);
    slow_down(m, a);
    parts = parts_of(&a->point);
    LK_PASS(set_share(m, &p->config, p->anchor_world_size, a));
    a->anchor.misfit = lk_misfit_share(&a->anchor.misfit, a->share);
    a->step_s = lk_misfit_step(&a->anchor.misfit, &a->carry, &parts);
    a->grows = a->anchor.misfits && !m->as_is && lk_basis_grows(&a->anchor.config, &p->config);
    if (a->grows)
        a->step_s = fmax(a->step_s, a->anchor.step_s);
    return LK_OK;
}

enum lk_status lk_grid_model_at(struct lk_grid_model *m, struct lk_prediction *p)
{
    struct anchored a;

    LK_PASS(anchored_init(m, p, &a));
    LK_PASS(lk_grid_point_draw(&m->parts, &m->basis->bucket, &a.point));
    p->step_s = a.step_s;
    p->anchor_factor = p->step_s / lk_grid_point_at(&a.point, a.point.shape->link);
    draw_all(m, &a, p);
    take_losses(&a.point, &a.anchor.misfit, &a.carry, p);
    set_assumed(m, &a.point, &a.anchor, p);
    set_grade(m, &a.point, p->anchor_world_size, p);
    return set_bound(m, &a.point, p);
}

enum lk_status lk_grid_model_step(struct lk_grid_model *m, const struct lk_config *c, bool anchored,
                                  double *out_step_s)
{
    struct lk_prediction p = {.config = *c};
    struct lk_grid_point point;
    struct anchored a;

    if (anchored) {
        LK_PASS(anchored_init(m, &p, &a));
        *out_step_s = a.step_s;
    } else {
        LK_PASS(lk_grid_point_init(&m->parts, &m->basis->bucket, c, &point));
        *out_step_s = estimate_of(&point);
    }
    return LK_OK;
}

void lk_grid_model_follow(struct lk_grid_model *m, struct lk_grid_model *as_is)
{
    m->as_is = as_is;
}

enum lk_status lk_grid_model_create(const struct lk_basis *b, struct lk_grid_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_grid_model *m = NULL;
    size_t n = (size_t)b->options.draws;
    struct lk_grid_evidence inputs;
    double *z_compute, *z_hook, *z_shard;
    struct lk_rng rng;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    *m = (struct lk_grid_model){.basis = b, .n_draws = n};
    LK_TRY(lk_alloc(&m->draws, n, sizeof *m->draws));
    LK_TRY(lk_alloc(&m->fresh, 13 * n, sizeof *m->fresh));
    m->slowed = m->fresh + 12 * n;
    m->z_bucket = m->fresh + 4 * n;
    m->z_fixed = m->fresh + 5 * n;
    z_hook = m->fresh + 6 * n;
    z_shard = m->fresh + 7 * n;
    z_compute = m->fresh + 8 * n;
    m->z_tensor = m->fresh + 9 * n;
    m->exposed = m->fresh + 11 * n;
    lk_rng_normals(b->options.seed, lk_rng_stream("grid_model.overlap", 0), 0, m->fresh + n, 7 * n);
    lk_rng_normals(b->options.seed, lk_rng_stream("grid_model.launch", 0), 0, m->z_tensor, 2 * n);
    for (size_t i = 0; i < n; i++) {
        m->draws[i] = lk_basis_draw(b, i);
        m->fresh[i] = exp(m->draws[i].run_sd * m->draws[i].z_new_run);
        z_compute[i] = m->draws[i].compute;
        rng = lk_rng_init(b->options.seed, lk_rng_stream("grid_model.misfit", i));
        m->exposed[i] = lk_misfit_exposed(lk_rng_uniform(&rng));
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
                                       .z_start = m->fresh + 10 * n,
                                       .z_hook = z_hook,
                                       .z_shard = z_shard,
                                       .seed = b->options.seed,
                                       .network_seed = b->options.network_seed};
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
        anchor_fini(&m->anchors[i]);
    free(m->draws);
    free(m->fresh);
    free(m->anchors);
    free(m);
}
