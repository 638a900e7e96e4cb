/*
 * The parts of a forecast that configurations share.
 *
 * Divisions: shapes / compute / stragglers / the whole.
 */
#include "sim/forecast/grid_parts.h"

#include "base/array.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Shapes ---- */

static struct lk_config shape_key(const struct lk_grid_parts *m, const struct lk_config *c)
{
    struct lk_config key = *c;

    key.local_batch = lk_config_current(m->job).local_batch;
    key.accumulation = c->accumulation > 1 ? 2 : 1;
    return key;
}

/* Set the shape's cost in every draw to that one collective's, over the estimate's. */
static enum lk_status set_cost(struct lk_grid_parts *m, struct lk_grid_shape *s)
{
    struct lk_config_model *model = &s->model;
    const struct lk_volume_coll *v;
    size_t n = model->step.n_colls, at = 0, k = lk_config_model_middle(model);
    struct lk_cost one, estimate;
    enum lk_algo algo;

    for (size_t i = 0; i < m->n_draws; i++)
        s->cost[i] = 1;
    if (!n || !(model->colls[k].cost_s > 0))
        return LK_OK;
    while (model->order[at] != k)
        at++;
    v = &model->volume.colls[k];
    algo = v->step.coll == LK_ALL_REDUCE ? model->algo : LK_ALGO_AUTO;
    LK_PASS(lk_cost_eval(m->cost, v->step.coll, algo, v->ranks, v->nodes, &model->bytes[at], 1,
                         &estimate));
    for (size_t i = 0; i < m->n_draws && estimate.seconds > 0; i++) {
        LK_PASS(lk_cost_eval(m->costs[i], v->step.coll, algo, v->ranks, v->nodes, &model->bytes[at],
                             1, &one));
        s->cost[i] = one.seconds / estimate.seconds;
    }
    return LK_OK;
}

/* Fail as the first attempt to make a configuration's model did, with its text. */
static enum lk_status refuse_again(const struct lk_grid_parts *m, const struct lk_config *c)
{
    struct lk_config_model model;
    enum lk_status st = lk_config_model_init(&model, m->job, m->cluster, m->cost, m->slow, c);

    if (st == LK_OK)
        lk_config_model_fini(&model);
    return st == LK_OK ? lk_fail(LK_EEVIDENCE, "a collective has no cost in some draw") : st;
}

enum lk_status lk_grid_shape_of(struct lk_grid_parts *m, const struct lk_config *c, size_t *out)
{
    struct lk_grid_shape s = {.key = shape_key(m, c)};

    /* Neighbours in a grid share their shape more often than not: the latest first. */
    for (size_t i = m->n_shapes; i-- > 0;)
        if (lk_config_equal(&m->shapes[i].key, &s.key)) {
            *out = i;
            return m->shapes[i].status == LK_OK ? LK_OK : refuse_again(m, &s.key);
        }
    LK_PASS(lk_array_grow(&m->shapes, &m->shapes_capacity, m->n_shapes + 1, sizeof *m->shapes));
    LK_PASS(lk_alloc(&s.cost, m->n_draws, sizeof *s.cost));
    s.status = lk_config_model_init(&s.model, m->job, m->cluster, m->cost, m->slow, &s.key);
    if (s.status == LK_OK)
        s.status = set_cost(m, &s);
    if (s.status == LK_OK)
        s.link = lk_straggler_max_link_mean(&s.model.step);
    for (size_t i = 0; s.status == LK_OK && i < m->n_draws; i++)
        s.cost[i] *= lk_straggler_max_link(&s.model.step, m->link_share[i], m->link_apart[i]);
    *out = m->n_shapes;
    m->shapes[m->n_shapes++] = s;
    return s.status;
}

/* ---- Compute ---- */

enum lk_status lk_grid_compute_of(struct lk_grid_parts *m, int local_batch, size_t *out)
{
    struct lk_grid_compute c = {.local_batch = local_batch};
    struct lk_config alone = lk_config_current(m->job);

    for (size_t i = 0; i < m->n_computes; i++)
        if (m->computes[i].local_batch == local_batch) {
            *out = i;
            alone.local_batch = local_batch;
            return m->computes[i].status == LK_OK ? LK_OK : refuse_again(m, &alone);
        }
    alone.local_batch = local_batch;
    LK_PASS(
        lk_array_grow(&m->computes, &m->computes_capacity, m->n_computes + 1, sizeof *m->computes));
    LK_PASS(lk_alloc(&c.factors, m->n_draws, sizeof *c.factors));
    c.status = lk_config_model_init(&c.model, m->job, m->cluster, m->cost, m->slow, &alone);
    for (size_t i = 0; i < m->n_draws; i++)
        c.factors[i] = exp(c.model.compute_sd * m->compute[i]);
    *out = m->n_computes;
    m->computes[m->n_computes++] = c;
    return c.status;
}

/* ---- Stragglers ---- */

enum lk_status lk_grid_straggler_of(struct lk_grid_parts *m, const struct lk_step_model *of,
                                    int micro_batches, size_t *out)
{
    struct lk_grid_straggler s = {.of = *of, .micro_batches = micro_batches};

    for (size_t i = m->n_stragglers; i-- > 0;)
        if (m->stragglers[i].micro_batches == micro_batches &&
            lk_straggler_max_alike(&m->stragglers[i].of, of)) {
            *out = i;
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&m->stragglers, &m->stragglers_capacity, m->n_stragglers + 1,
                          sizeof *m->stragglers));
    LK_PASS(lk_straggler_max_init(&s.slowest, &s.of, micro_batches));
    LK_PASS(lk_alloc(&s.effect, m->n_draws, sizeof *s.effect));
    for (size_t i = 0; i < m->n_draws; i++)
        s.effect[i] = lk_straggler_max_quantile(&s.slowest, m->rank_share[i]);
    *out = m->n_stragglers;
    m->stragglers[m->n_stragglers++] = s;
    return LK_OK;
}

/* ---- The whole ---- */

enum lk_status lk_grid_parts_init(struct lk_grid_parts *m, uint64_t seed)
{
    size_t n = m->n_draws;

    LK_PASS(lk_alloc(&m->compute, 4 * n, sizeof *m->compute));
    m->rank_share = m->compute + n;
    m->link_share = m->compute + 2 * n;
    m->link_apart = m->compute + 3 * n;
    for (size_t i = 0; i < n; i++) {
        struct lk_rng ranks = lk_rng_init(seed, lk_rng_stream("sweep.extreme", i));
        struct lk_rng links = lk_rng_init(seed, lk_rng_stream("sweep.link", i));

        m->rank_share[i] = fmax(lk_rng_uniform(&ranks), 1e-12);
        m->link_share[i] = fmax(lk_rng_uniform(&links), 1e-12);
        m->link_apart[i] = fmax(lk_rng_uniform(&links), 1e-12);
    }
    return LK_OK;
}

void lk_grid_parts_fini(struct lk_grid_parts *m)
{
    for (size_t i = 0; i < m->n_shapes; i++) {
        lk_config_model_fini(&m->shapes[i].model);
        free(m->shapes[i].cost);
    }
    for (size_t i = 0; i < m->n_computes; i++) {
        lk_config_model_fini(&m->computes[i].model);
        free(m->computes[i].factors);
    }
    for (size_t i = 0; i < m->n_stragglers; i++)
        free(m->stragglers[i].effect);
    free(m->compute);
    free(m->shapes);
    free(m->computes);
    free(m->stragglers);
    memset(m, 0, sizeof *m);
}
