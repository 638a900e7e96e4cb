/*
 * The step model with its unknowns drawn.
 *
 * Divisions: unknowns / shapes / one step / interface.
 */
#include "sim/throughput/step_prior.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/links.h"
#include "sim/forecast/bound.h"
#include "sim/step/closed_form.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COST_DRAWS = 64,     /* of the cost model; draws take them in turn */
    EXTREME_CELLS = 400, /* of the mean of the largest normal */
    STEPS = 2            /* nothing is random: steady after the warm-up */
};

/* ---- Unknowns ---- */

struct draw {
    double backward, fixed, warp, rate, growth, z_gamma, z_delta, rank_sd;
    double network; /* rate between nodes over the cost model's */
    bool overlapped;
};

struct shape {
    struct lk_config key;
    struct lk_config_model model;
    double *cost_s;             /* COST_DRAWS x its collectives */
    double bound_s;             /* of its collectives, sim/forecast/bound.h */
    double extreme;             /* E max of `gpus` standard normals */
    bool blocks_backward;       /* a collective is needed within backward */
    struct lk_step_coll *colls; /* scratch */
};

struct lk_step_prior {
    const struct lk_job *timed; /* the job, if it has times of compute; else NULL */
    struct lk_job job;          /* borrows all but compute */
    struct lk_job_compute compute;
    struct lk_fitted_cluster fitted;
    struct lk_cost_model *cost, *costs[COST_DRAWS];
    struct draw *draws;
    size_t n_draws;
    struct shape *shapes;
    size_t n_shapes, shapes_capacity;
};

/* Turn a standard normal number into a uniform one. */
static double uniform(double z)
{
    return erfc(-z / sqrt(2)) / 2;
}

/* The job's own backward share and fixed cost, of its first batch; NAN: not known. */
static void known_shares(const struct lk_job *job, double *backward, double *fixed)
{
    const struct lk_job_compute *c = job ? &job->compute[0] : NULL;
    double all_s = c ? c->forward_s.value + c->backward_s.value : NAN, fixed_s = 0;
    bool any = false;

    *backward = c && lk_quantity_known(&c->backward_s) ? c->backward_s.value / all_s : NAN;
    if (c && lk_quantity_known(&c->optimizer_s)) {
        fixed_s += c->optimizer_s.value;
        any = true;
    }
    if (c && lk_quantity_known(&c->gap_s)) {
        fixed_s += c->gap_s.value;
        any = true;
    }
    *fixed = any ? fixed_s / all_s : NAN;
}

static struct draw make_draw(const struct lk_step_prior *p, bool timed, const double *z)
{
    const struct lk_cluster *c = &p->fitted.cluster;
    bool measured = c->n_points > 0;
    double backward, fixed;

    known_shares(p->timed, &backward, &fixed);
    backward = isnan(backward) ? 2.0 / 3 + 0.04 * z[LK_STEP_BACKWARD_]
                               : backward + 0.01 * z[LK_STEP_BACKWARD_];
    fixed =
        isnan(fixed) ? 0.03 * exp(0.7 * z[LK_STEP_FIXED_]) : fixed * exp(0.2 * z[LK_STEP_FIXED_]);
    return (struct draw){.backward = fmin(fmax(backward, 0.4), 0.85),
                         .fixed = fmin(fixed, 0.5),
                         .warp = exp((timed ? 0.1 : 0.3) * z[LK_STEP_WARP_]),
                         .overlapped = uniform(z[LK_STEP_OVERLAP_]) > 0.12,
                         .rate = exp((measured ? 0.08 : 0.25) * z[LK_STEP_RATE_]),
                         .growth = 0.05 * z[LK_STEP_GROWTH_],
                         .z_gamma = z[LK_STEP_GAMMA_],
                         .z_delta = z[LK_STEP_DELTA_],
                         .rank_sd = 0.008 * exp(0.6 * z[LK_STEP_RANK_]),
                         .network =
                             lk_link_network_draw(c, z[LK_STEP_NICS_], z[LK_STEP_ACHIEVED_])};
}

static enum lk_status make_draws(struct lk_step_prior *p, bool timed, uint64_t seed)
{
    double z[LK_STEP_UNKNOWN_COUNT];

    LK_PASS(lk_alloc(&p->draws, p->n_draws, sizeof *p->draws));
    for (size_t i = 0; i < p->n_draws; i++) {
        struct lk_rng g = lk_rng_init(seed, lk_rng_stream("step_prior.draw", i));

        for (int k = 0; k < LK_STEP_UNKNOWN_COUNT; k++)
            z[k] = lk_rng_normal(&g);
        p->draws[i] = make_draw(p, timed, z);
    }
    return LK_OK;
}

/* ---- Shapes ---- */

static void shape_fini(struct shape *s)
{
    lk_config_model_fini(&s->model);
    free(s->cost_s);
    free(s->colls);
}

static double extreme_mean(int n)
{
    double sum = 0;

    for (int i = 0; i < EXTREME_CELLS; i++)
        sum += lk_stats_normal_quantile(pow((i + 0.5) / EXTREME_CELLS, 1.0 / n));
    return sum / EXTREME_CELLS;
}

/* Computes the bound of the collectives alone: the compute is not known here. */
static enum lk_status set_bound(const struct lk_step_prior *p, struct shape *s)
{
    struct lk_step_model step = s->model.step;

    step.forward_s = step.backward_s = step.optimizer_s = step.gap_s = 0;
    step.input_s = step.load_s = 0;
    return lk_step_bound(&s->model, &step, &p->fitted.cluster, 1, &s->bound_s);
}

static enum lk_status shape_init(struct lk_step_prior *p, const struct lk_config *key,
                                 struct shape *s)
{
    enum lk_status st = LK_OK;
    size_t n;

    *s = (struct shape){.key = *key, .extreme = extreme_mean(key->world_size)};
    LK_TRY(lk_config_model_init(&s->model, &p->job, &p->fitted.cluster, p->cost, NULL, key));
    LK_TRY(set_bound(p, s));
    n = s->model.step.n_colls;
    LK_TRY(lk_alloc(&s->cost_s, COST_DRAWS * n, sizeof *s->cost_s));
    LK_TRY(lk_alloc(&s->colls, n, sizeof *s->colls));
    for (size_t d = 0; d < COST_DRAWS; d++) {
        LK_TRY(lk_config_model_costs(&s->model, p->costs[d]));
        for (size_t i = 0; i < n; i++)
            s->cost_s[d * n + i] = s->model.colls[i].cost_s;
    }
    memcpy(s->colls, s->model.colls, n * sizeof *s->colls);
    for (size_t i = 0; i < n; i++)
        s->blocks_backward |=
            s->colls[i].need > LK_STEP_BACKWARD && s->colls[i].need < LK_STEP_OPTIMIZER;
out:
    if (st != LK_OK)
        shape_fini(s);
    return st;
}

enum lk_status lk_step_prior_shape(struct lk_step_prior *p, const struct lk_config *config,
                                   size_t *out)
{
    struct lk_config key = *config;
    struct shape s;

    key.local_batch = 1; /* that of p->compute */
    if (!key.first_bytes)
        lk_config_set_cap(&key, &p->job, key.cap_bytes ? key.cap_bytes : p->job.cap_bytes);
    for (size_t i = p->n_shapes; i-- > 0;)
        if (lk_config_equal(&p->shapes[i].key, &key)) {
            *out = i;
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&p->shapes, &p->shapes_capacity, p->n_shapes + 1, sizeof *p->shapes));
    LK_PASS(shape_init(p, &key, &s));
    *out = p->n_shapes;
    p->shapes[p->n_shapes++] = s;
    return LK_OK;
}

void lk_step_prior_grade(const struct lk_step_prior *p, size_t shape, enum lk_evidence *out,
                         char *text, size_t text_size)
{
    const struct lk_config_model *m = &p->shapes[shape].model;

    *out = m->evidence;
    snprintf(text, text_size, "%s", m->evidence_text);
}

double lk_step_prior_bound_s(const struct lk_step_prior *p, size_t shape)
{
    return p->shapes[shape].bound_s;
}

/* ---- One step ---- */

/* Moves a position in backward with the draw's ready times. */
static double warped(const struct draw *d, double at)
{
    bool inside = at >= LK_STEP_BACKWARD && at <= LK_STEP_OPTIMIZER;

    return inside ? LK_STEP_BACKWARD + pow(at - LK_STEP_BACKWARD, d->warp) : at;
}

/* Without overlap all gradients are ready when backward has ended, unless a collective that blocks
 * backward, as of SyncBatchNorm or sharded parameters, comes after them. */
static void set_colls(const struct draw *d, size_t cost, double slower, struct shape *s)
{
    size_t n = s->model.step.n_colls;
    double factor = slower * d->rate * exp(d->growth * (log2(s->key.world_size) - 1)) /
                    (s->key.nodes > 1 ? d->network : 1);

    for (size_t i = 0; i < n; i++) {
        const struct lk_step_coll *from = &s->model.colls[i];
        bool gradients = from->bucket >= 0 && from->need >= LK_STEP_OPTIMIZER &&
                         from->ready >= LK_STEP_BACKWARD && from->ready <= LK_STEP_OPTIMIZER;

        s->colls[i].cost_s = fmin(s->cost_s[cost * n + i] * factor, LK_STEP_DURATION_MAX);
        s->colls[i].need = warped(d, from->need);
        s->colls[i].ready = gradients && !d->overlapped && !s->blocks_backward
                                ? LK_STEP_OPTIMIZER
                                : warped(d, from->ready);
    }
}

double lk_step_prior_wire_s(struct lk_step_prior *p, size_t draw, size_t shape, double slower)
{
    struct shape *s = &p->shapes[shape];
    double sum = 0;

    set_colls(&p->draws[draw], draw % COST_DRAWS, slower, s);
    for (size_t i = 0; i < s->model.step.n_colls; i++)
        sum += s->colls[i].cost_s * (s->colls[i].every_micro_batch ? s->key.accumulation : 1);
    return sum;
}

/* Turn the slowest rank's losses into those of the mean rank, which waits for it. */
static void add_losses(const struct lk_sim_result *r, double slow_s, double *losses_s)
{
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        losses_s[i] += r->losses_s[i];
    losses_s[LK_LOSS_IDEAL] -= slow_s;
    losses_s[LK_LOSS_STRAGGLER] += slow_s;
}

enum lk_status lk_step_prior_step_s(struct lk_step_prior *p, size_t draw, size_t shape,
                                    double slower, double compute_s, double usual_s,
                                    double *losses_s, double *out_s)
{
    const struct draw *d = &p->draws[draw];
    struct shape *s = &p->shapes[shape];
    double slow = s->key.world_size > 1 ? 1 + d->rank_sd * s->extreme : 1;
    struct lk_step_model m = s->model.step;
    const struct lk_overlap overlap = lk_overlap_draw(&p->fitted.cluster, d->z_gamma, d->z_delta);
    struct lk_sim_request q = {.steps = STEPS, .seed = 1};
    struct lk_sim_result r;

    set_colls(d, draw % COST_DRAWS, slower, s);
    m.ranks = m.nodes = 1;
    m.forward_s = compute_s * (1 - d->backward) * slow;
    m.backward_s = compute_s * d->backward * slow;
    m.optimizer_s = 0;
    m.gap_s = usual_s * d->fixed;
    m.input_s = m.load_s = 0;
    m.gamma_wire = overlap.gamma_wire;
    m.delta = overlap.delta;
    m.law = (struct lk_straggler_law){0};
    m.colls = s->colls;
    LK_PASS(lk_closed_form_run(&m, &q, &r));
    *out_s = r.mean_s;
    if (losses_s)
        add_losses(&r, s->key.accumulation * compute_s * (slow - 1), losses_s);
    lk_sim_result_fini(&r);
    return LK_OK;
}

/* ---- Interface ---- */

static enum lk_status make_costs(struct lk_step_prior *p, const struct lk_cluster *cluster,
                                 uint64_t seed)
{
    LK_PASS(lk_fitted_cluster_init(&p->fitted, cluster));
    p->fitted.cluster.nodes = 0;
    LK_PASS(lk_cost_model_create(&p->fitted.cluster, NULL, NULL, &p->cost));
    for (int i = 0; i < COST_DRAWS; i++) {
        struct lk_rng g = lk_rng_init(seed, lk_rng_stream("step_prior.cost", (uint64_t)i));

        LK_PASS(lk_cost_model_create(&p->fitted.cluster, &g, NULL, &p->costs[i]));
    }
    return LK_OK;
}

enum lk_status lk_step_prior_create(const struct lk_job *job, bool timed,
                                    const struct lk_cluster *cluster, size_t draws, uint64_t seed,
                                    struct lk_step_prior **out)
{
    enum lk_status st = LK_OK;
    struct lk_step_prior *p = NULL;

    if (draws < 2)
        return lk_fail(LK_EUSAGE, "step prior: %zu draws", draws);
    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    /* Compute is set draw by draw; this row only makes the job one that has a batch. */
    p->compute = (struct lk_job_compute){.local_batch = 1,
                                         .input_s = lk_quantity_none(),
                                         .optimizer_s = lk_quantity_none(),
                                         .optimizer_hidden_s = lk_quantity_none(),
                                         .gap_s = lk_quantity_none(),
                                         .transient = lk_quantity_none()};
    p->compute.forward_s.value = p->compute.backward_s.value = 1;
    p->timed = job->n_compute ? job : NULL;
    p->job = *job;
    p->job.compute = &p->compute;
    p->job.n_compute = 1;
    p->job.runs = NULL;
    p->job.n_runs = 0;
    p->n_draws = draws;
    LK_TRY(make_costs(p, cluster, seed));
    LK_TRY(make_draws(p, timed, seed));
    *out = p;
    p = NULL;
out:
    lk_step_prior_destroy(p);
    return st;
}

void lk_step_prior_destroy(struct lk_step_prior *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_shapes; i++)
        shape_fini(&p->shapes[i]);
    free(p->shapes);
    free(p->draws);
    for (int i = 0; i < COST_DRAWS; i++)
        lk_cost_model_destroy(p->costs[i]);
    lk_cost_model_destroy(p->cost);
    lk_fitted_cluster_fini(&p->fitted);
    free(p);
}

const struct lk_job *lk_step_prior_compute(const struct lk_step_prior *p)
{
    return p->timed;
}

size_t lk_step_prior_draws(const struct lk_step_prior *p)
{
    return p->n_draws;
}

const struct lk_cluster *lk_step_prior_cluster(const struct lk_step_prior *p)
{
    return &p->fitted.cluster;
}
