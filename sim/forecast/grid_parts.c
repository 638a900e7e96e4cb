#include "sim/forecast/grid_parts.h"

#include "base/array.h"
#include "base/rng.h"
#include "sim/collective/links.h"
#include "sim/prior.h"
#include "sim/step/bucket_cost.h"
#include "sim/step/closed_form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Shapes ---- */

static struct lk_config shape_key(const struct lk_grid_parts *g, const struct lk_config *c)
{
    struct lk_config key = *c;

    if (!*c->batches)
        key.local_batch = lk_config_current(g->inputs.job).local_batch;
    key.accumulation = c->accumulation > 1 ? 2 : 1;
    return key;
}

/* Return the cost in a draw over the estimate's, from a collective's own ratio: hooks and the
 * messages of a sharded step are not known from runs of plain DDP. */
static double vary(const struct lk_grid_parts *g, const struct lk_grid_shape *s, double ratio,
                   size_t i)
{
    double hook = s->model.hook_share;

    if (s->key.sharding != LK_SHARDING_DDP)
        ratio *= exp(lk_prior_value(LK_PRIOR_SHARD_ERROR) * g->inputs.z_shard[i]);
    return (1 - hook) * ratio +
           hook * exp(lk_prior_value(LK_PRIOR_HOOK_ERROR) * g->inputs.z_hook[i]);
}

double lk_grid_points_distance(const struct lk_cluster *cluster, const struct lk_config *at)
{
    double least = INFINITY;

    for (size_t i = 0; i < cluster->n_points; i++) {
        const struct lk_cluster_point *p = &cluster->points[i];

        if (p->coll == LK_ALL_REDUCE && p->ranks > 1 && (p->nodes > 1) == (at->nodes > 1))
            least = fmin(least, fabs(log2((double)at->world_size / p->ranks)));
    }
    return least;
}

/* Return the sd of the logarithms of n > 1 numbers. */
static double log_sd(const double *v, size_t n)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++) {
        double y = log(v[i]);

        sum += y;
        squares += y * y;
    }
    return sqrt(fmax(0, squares - sum * sum / (double)n) / (double)(n - 1));
}

/* Set the shape's cost in every draw to that one collective's, over the estimate's. */
static enum lk_status set_cost(struct lk_grid_parts *g, struct lk_grid_shape *s)
{
    struct lk_config_model *model = &s->model;
    const struct lk_volume_coll *v;
    size_t n = model->step.n_colls, at = 0, k = lk_config_model_middle(model);
    struct lk_cost one, estimate;
    enum lk_coll coll;
    enum lk_algo algo;

    for (size_t i = 0; i < g->n_draws; i++)
        s->cost[i] = 1;
    if (!n || !(model->colls[k].cost_s > 0))
        return LK_OK;
    while (model->order[at] != k)
        at++;
    v = &model->volume.colls[k];
    coll = model->volume.steps[k].coll;
    algo = coll == LK_ALL_REDUCE ? model->algo : LK_ALGO_AUTO;
    LK_PASS(lk_cost_eval(g->inputs.cost, coll, algo, v->ranks, v->nodes, &model->bytes[at], 1,
                         &estimate));
    for (size_t i = 0; i < g->n_draws && estimate.seconds > 0; i++) {
        LK_PASS(lk_cost_eval(g->inputs.draws[i], coll, algo, v->ranks, v->nodes, &model->bytes[at],
                             1, &one));
        s->cost[i] =
            vary(g, s, one.seconds / estimate.seconds, i) / (v->nodes > 1 ? g->network[i] : 1);
    }
    s->cost_sd = log_sd(s->cost, g->n_draws);
    return LK_OK;
}

/* Set what the ranks' place does to the shape's compute in every draw. */
static void set_slowdowns(const struct lk_grid_parts *g, struct lk_grid_shape *s)
{
    const struct lk_step_model *m = &s->model.step;

    for (size_t i = 0; i < g->n_draws; i++) {
        struct lk_overlap d =
            lk_overlap_draw(g->inputs.cluster, g->inputs.z_gamma[i], g->inputs.z_delta[i]);
        double kappa =
            lk_config_kappa(g->inputs.cluster, m->ranks / m->nodes, g->inputs.z_kappa[i]);

        s->colocation[i] = (1 + kappa) / (1 + m->kappa);
        s->gamma[i] = d.gamma_wire - m->gamma_wire;
        s->delta[i] = d.delta - m->delta;
        s->start[i] =
            lk_overlap_draw_start(g->inputs.cluster, g->inputs.z_start[i]) - s->model.start_s;
        s->start_drawn |= s->start[i] != 0;
        s->overlap_drawn |= s->gamma[i] != 0 || s->delta[i] != 0;
    }
}

/* Fail as the first attempt to make a configuration's model did, with its text. */
static enum lk_status refuse_again(const struct lk_grid_parts *g, const struct lk_config *c)
{
    struct lk_config_model model;
    enum lk_status st = lk_config_model_init(&model, g->inputs.job, g->inputs.cluster,
                                             g->inputs.cost, g->inputs.slow, c);

    if (st == LK_OK)
        lk_config_model_fini(&model);
    return st == LK_OK ? lk_fail(LK_EEVIDENCE, "a collective has no cost in some draw") : st;
}

enum lk_status lk_grid_shape_of(struct lk_grid_parts *g, const struct lk_config *c, size_t *out)
{
    struct lk_grid_shape s = {.key = shape_key(g, c)};

    /* Neighbours in a grid share their shape more often than not: the latest first. */
    for (size_t i = g->n_shapes; i-- > 0;)
        if (lk_config_equal(&g->shapes[i].key, &s.key)) {
            *out = i;
            return g->shapes[i].status == LK_OK ? LK_OK : refuse_again(g, &s.key);
        }
    LK_PASS(lk_array_grow(&g->shapes, &g->shapes_capacity, g->n_shapes + 1, sizeof *g->shapes));
    s.of_points = lk_grid_points_distance(g->inputs.cluster, c);
    s.status = lk_config_model_init(&s.model, g->inputs.job, g->inputs.cluster, g->inputs.cost,
                                    g->inputs.slow, &s.key);
    if (s.status == LK_OK)
        s.link = lk_straggler_max_link_mean(&s.model.step);
    *out = g->n_shapes;
    g->shapes[g->n_shapes++] = s;
    return s.status;
}

static enum lk_status draw_shape(struct lk_grid_parts *g, struct lk_grid_shape *s)
{
    if (s->cost)
        return LK_OK;
    LK_PASS(lk_alloc(&s->cost, 5 * g->n_draws, sizeof *s->cost));
    s->colocation = s->cost + g->n_draws;
    s->gamma = s->cost + 2 * g->n_draws;
    s->delta = s->cost + 3 * g->n_draws;
    s->start = s->cost + 4 * g->n_draws;
    LK_PASS(set_cost(g, s));
    set_slowdowns(g, s);
    for (size_t i = 0; i < g->n_draws; i++)
        s->cost[i] *= lk_straggler_max_link(&s->model.step, g->link_share[i], g->link_apart[i]);
    return LK_OK;
}

/* ---- Compute ---- */

enum lk_status lk_grid_compute_of(struct lk_grid_parts *g, const struct lk_config *of, size_t *out)
{
    struct lk_config alone = lk_config_current(g->inputs.job);
    struct lk_grid_compute c = {.local_batch = of->local_batch};

    alone.local_batch = of->local_batch;
    if (alone.pipeline_parallel > 1) /* the stages' waits are shared out over the micro-batches */
        alone.accumulation = of->accumulation;
    c.accumulation = alone.accumulation;
    for (size_t i = 0; i < g->n_computes; i++)
        if (g->computes[i].local_batch == c.local_batch &&
            g->computes[i].accumulation == c.accumulation) {
            *out = i;
            return g->computes[i].status == LK_OK ? LK_OK : refuse_again(g, &alone);
        }
    LK_PASS(
        lk_array_grow(&g->computes, &g->computes_capacity, g->n_computes + 1, sizeof *g->computes));
    LK_PASS(lk_alloc(&c.factors, g->n_draws, sizeof *c.factors));
    c.status = lk_config_model_init(&c.model, g->inputs.job, g->inputs.cluster, g->inputs.cost,
                                    g->inputs.slow, &alone);
    for (size_t i = 0; i < g->n_draws; i++)
        c.factors[i] = exp(c.model.compute_sd * g->inputs.z_compute[i]);
    *out = g->n_computes;
    g->computes[g->n_computes++] = c;
    return c.status;
}

/* ---- Stragglers ---- */

/*
 * Draw the probability of a faster slowest one of K ranks. Rank 0 is the same at every count, and
 * so are the ranks that each doubling adds: what a run of few ranks says of these holds for more,
 * and of the others nothing.
 */
static double slowest_share(const struct lk_grid_parts *g, size_t i, int ranks)
{
    struct lk_rng r = lk_rng_init(g->inputs.seed, lk_rng_stream("sweep.extreme", i));
    double slowest = -INFINITY; /* ln of the probability of a faster rank */

    for (int from = 0; from < ranks; from = from ? 2 * from : 1) {
        int upto = from ? (from > ranks / 2 ? ranks : 2 * from) : 1;

        slowest = fmax(slowest, log(fmax(lk_rng_uniform(&r), 1e-300)) / (upto - from));
    }
    return fmin(fmax(exp(ranks * slowest), 1e-12), 1 - 1e-12);
}

enum lk_status lk_grid_straggler_of(struct lk_grid_parts *g, const struct lk_step_model *model,
                                    int micro_batches, size_t *out)
{
    struct lk_grid_straggler s = {.model = *model, .micro_batches = micro_batches};

    for (size_t i = g->n_stragglers; i-- > 0;)
        if (g->stragglers[i].micro_batches == micro_batches &&
            lk_straggler_max_alike(&g->stragglers[i].model, model)) {
            *out = i;
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&g->stragglers, &g->stragglers_capacity, g->n_stragglers + 1,
                          sizeof *g->stragglers));
    LK_PASS(lk_straggler_max_init(&s.slowest, &s.model, micro_batches));
    *out = g->n_stragglers;
    g->stragglers[g->n_stragglers++] = s;
    return LK_OK;
}

static enum lk_status draw_straggler(const struct lk_grid_parts *g, struct lk_grid_straggler *s)
{
    if (s->effect)
        return LK_OK;
    LK_PASS(lk_alloc(&s->effect, g->n_draws, sizeof *s->effect));
    for (size_t i = 0; i < g->n_draws; i++)
        s->effect[i] = lk_straggler_max_quantile(&s->slowest, slowest_share(g, i, s->model.ranks));
    return LK_OK;
}

/* ---- One configuration ---- */

enum {
    STEPS = 1,         /* nothing is random, so that all are alike */
    STEPS_LOADER = 10, /* a loader's queue takes so many to settle */
};

/* Factors on the collectives' cost; between them the step is nearly straight, beyond them it is
 * taken as straight. */
static const double factors[LK_GRID_FACTORS] = {0.5, 0.8, 1, 1.25, 2};

static const double FASTEST = 0.05; /* as in sim/step/step.c */

static void set_step(struct lk_grid_point *point, const struct lk_config *c)
{
    const struct lk_step_model *of_batch = &point->compute->model.step;

    point->step = point->shape->model.step;
    point->step.ranks = point->step.nodes = 1;
    point->step.accumulation = c->accumulation;
    point->step.forward_s = of_batch->forward_s * point->slowest;
    point->step.backward_s = of_batch->backward_s * point->slowest;
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
static void set_losses(struct lk_grid_point *point, const struct lk_config *c,
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

double lk_grid_point_at(const struct lk_grid_point *point, double f)
{
    int i = 1;

    while (i + 1 < LK_GRID_FACTORS && f > factors[i])
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

double lk_grid_point_charge(struct lk_grid_parts *g, const struct lk_grid_shape *shape,
                            const struct lk_bucket_cost *cost, struct lk_step_model *step)
{
    return lk_bucket_cost_charge(step, shape->model.volume.steps, g->colls,
                                 shape->model.own_buckets, cost);
}

static struct lk_sim_request request_of(const struct lk_grid_point *point)
{
    bool steady = !(point->step.load_s > 0);

    return (struct lk_sim_request){
        .seed = 1, .steady = steady, .steps = steady ? STEPS : STEPS_LOADER};
}

/* Set by how much more gamma, delta, the time of a start, and the cost of a launch and of a tensor
 * lengthen the step: over one more tenth of the first two, 20 us more of the others. */
static enum lk_status set_slopes(struct lk_grid_parts *g, const struct lk_bucket_cost *own,
                                 struct lk_grid_point *point)
{
    enum { GAMMA, DELTA, START, LAUNCH, TENSOR, SLOPES };
    static const double more[SLOPES] = {0.1, 0.1, 20e-6, 20e-6, 20e-6};
    const struct lk_step_model as_is = point->step;
    const struct lk_sim_request q = request_of(point);
    const struct lk_grid_shape *shape = point->shape;
    const struct lk_volume *v = &shape->model.volume;
    double *slopes[SLOPES] = {&point->gamma_s, &point->delta_s, &point->per_start_s,
                              &point->per_bucket_s, &point->per_tensor_s};
    bool others = lk_bucket_count(v->steps, v->n) != shape->model.own_buckets;
    const bool varies[SLOPES] = {shape->overlap_drawn, shape->overlap_drawn, shape->start_drawn,
                                 others || v->tensors, v->tensors > 0};

    for (int i = 0; i < SLOPES && v->n; i++) {
        struct lk_bucket_cost cost = *own;
        struct lk_sim_result r;

        if (!varies[i])
            continue;
        for (size_t k = 0; k < v->n; k++)
            g->colls[k].cost_s =
                shape->model.colls[k].cost_s +
                (i == START && v->colls[k].ranks > 1 ? more[i] / v->colls[k].period : 0);
        point->step.gamma_wire += i == GAMMA ? more[i] : 0;
        point->step.delta += i == DELTA ? more[i] : 0;
        cost.s += i == LAUNCH ? more[i] : 0;
        cost.tensor_s += i == TENSOR ? more[i] : 0;
        if (i == LAUNCH || i == TENSOR) {
            point->step = point->bare;
            lk_grid_point_charge(g, shape, &cost, &point->step);
        }
        LK_PASS(lk_closed_form_run(&point->step, &q, &r));
        *slopes[i] = (r.mean_s - lk_grid_point_at(point, 1)) / more[i];
        lk_sim_result_fini(&r);
        point->step = as_is;
    }
    point->gamma_s = fmax(0, point->gamma_s);
    point->delta_s = fmax(0, point->delta_s);
    return LK_OK;
}

enum lk_status lk_grid_point_init(struct lk_grid_parts *g, const struct lk_bucket_cost *cost,
                                  const struct lk_config *c, struct lk_grid_point *point)
{
    struct lk_sim_request q;
    const struct lk_step_model *of;
    size_t shape, compute, straggler, n;

    LK_PASS(lk_grid_shape_of(g, c, &shape));
    LK_PASS(lk_grid_compute_of(g, c, &compute));
    of = &g->shapes[shape].model.step;
    LK_PASS(lk_grid_straggler_of(g, of, meets_once(of) ? c->accumulation : 1, &straggler));
    *point = (struct lk_grid_point){.work_ratio = 1,
                                    .slowed = 1,
                                    .shape = &g->shapes[shape],
                                    .compute = &g->computes[compute],
                                    .straggler = &g->stragglers[straggler]};
    point->slowest = fmax(FASTEST, 1 + point->straggler->slowest.mean);
    set_step(point, c);
    n = point->step.n_colls;
    LK_PASS(lk_array_grow(&g->colls, &g->colls_capacity, n, sizeof *g->colls));
    point->step.colls = g->colls;
    if (n)
        memcpy(g->colls, point->shape->model.colls, n * sizeof *g->colls);
    point->bare = point->step;
    point->charged_s = lk_grid_point_charge(g, point->shape, cost, &point->step);
    q = request_of(point);
    for (int i = 0; i < LK_GRID_FACTORS; i++) {
        struct lk_sim_result r;

        for (size_t k = 0; k < n; k++)
            g->colls[k].cost_s = point->shape->model.colls[k].cost_s * factors[i];
        LK_PASS(lk_closed_form_run(&point->step, &q, &r));
        point->step_at_cost[i] = r.mean_s;
        if (factors[i] == 1) {
            point->busy_s = r.mean_s - r.losses_s[LK_LOSS_WIRE] - r.losses_s[LK_LOSS_LAUNCH] -
                            r.losses_s[LK_LOSS_OVERLAP] - r.losses_s[LK_LOSS_STRAGGLER];
            set_losses(point, c, &r);
        }
        lk_sim_result_fini(&r);
    }
    point->losses_s[LK_LOSS_WIRE] +=
        lk_grid_point_at(point, point->shape->link) - lk_grid_point_at(point, 1);
    return LK_OK;
}

enum lk_status lk_grid_point_draw(struct lk_grid_parts *g, const struct lk_bucket_cost *cost,
                                  struct lk_grid_point *point)
{
    if (point->is_drawn)
        return LK_OK;
    LK_PASS(draw_shape(g, &g->shapes[point->shape - g->shapes]));
    LK_PASS(draw_straggler(g, &g->stragglers[point->straggler - g->stragglers]));
    LK_PASS(set_slopes(g, cost, point));
    point->is_drawn = true;
    return LK_OK;
}

/* ---- The whole ---- */

enum lk_status lk_grid_parts_init(struct lk_grid_parts *g, const struct lk_grid_evidence *inputs,
                                  size_t n)
{
    *g = (struct lk_grid_parts){.inputs = *inputs, .n_draws = n};
    LK_PASS(lk_alloc(&g->link_share, 3 * n, sizeof *g->link_share));
    g->link_apart = g->link_share + n;
    g->network = g->link_share + 2 * n;
    for (size_t i = 0; i < n; i++) {
        struct lk_rng links = lk_rng_init(inputs->network_seed, lk_rng_stream("sweep.link", i));
        struct lk_rng network =
            lk_rng_init(inputs->network_seed, lk_rng_stream("sweep.network", i));
        double nics_z;

        g->link_share[i] = fmax(lk_rng_uniform(&links), 1e-12);
        g->link_apart[i] = fmax(lk_rng_uniform(&links), 1e-12);
        nics_z = lk_rng_normal(&network);
        g->network[i] = lk_link_network_draw(inputs->cluster, nics_z, lk_rng_normal(&network));
    }
    return LK_OK;
}

void lk_grid_parts_fini(struct lk_grid_parts *g)
{
    for (size_t i = 0; i < g->n_shapes; i++) {
        lk_config_model_fini(&g->shapes[i].model);
        free(g->shapes[i].cost);
    }
    for (size_t i = 0; i < g->n_computes; i++) {
        lk_config_model_fini(&g->computes[i].model);
        free(g->computes[i].factors);
    }
    for (size_t i = 0; i < g->n_stragglers; i++)
        free(g->stragglers[i].effect);
    free(g->link_share);
    free(g->colls);
    free(g->shapes);
    free(g->computes);
    free(g->stragglers);
    *g = (struct lk_grid_parts){0};
}
