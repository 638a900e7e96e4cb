/* What configurations of a sweep have in common. Divisions: shapes / compute / stragglers / all. */
#include "sim/sweep_parts.h"

#include "base/array.h"
#include "sim/predictor_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Shapes ---- */

static struct lk_config shape_key(const struct lk_sweep_parts *all, const struct lk_config *c)
{
    struct lk_config key = *c;

    key.local_batch = lk_config_current(all->p->job).local_batch;
    key.accumulation = c->accumulation > 1 ? 2 : 1;
    return key;
}

/* The collective in the middle of the shape's cost, as an index into colls. */
static size_t middle(const struct lk_config_model *m)
{
    double total = 0, sum = 0;
    size_t k = 0;

    for (size_t i = 0; i < m->step.n_colls; i++)
        total += m->colls[i].cost_s;
    for (; k + 1 < m->step.n_colls; k++) {
        sum += m->colls[k].cost_s;
        if (sum >= total / 2)
            break;
    }
    return k;
}

/* That one collective's cost in every draw, over the estimate's. */
static enum lk_status set_cost(struct lk_sweep_parts *all, struct lk_sweep_shape *s)
{
    enum lk_status st = LK_OK;
    struct lk_config_model *model = &s->model;
    const struct lk_volume_coll *v;
    size_t n = model->step.n_colls, at = 0, k = middle(model);
    struct lk_cost one, estimate;
    enum lk_algo algo;

    for (size_t i = 0; i < all->n_draws; i++)
        s->cost[i] = 1;
    if (!n || !(model->colls[k].cost_s > 0))
        return LK_OK;
    while (model->order[at] != k)
        at++;
    v = &model->volume.colls[k];
    algo = v->coll == LK_ALL_REDUCE ? model->algo : LK_ALGO_AUTO;
    LK_TRY(lk_cost_eval(all->p->cost, v->coll, algo, v->ranks, v->nodes, &model->bytes[at], 1,
                        &estimate));
    for (size_t i = 0; i < all->n_draws && estimate.seconds > 0; i++) {
        LK_TRY(lk_cost_eval(all->p->draws[i], v->coll, algo, v->ranks, v->nodes, &model->bytes[at],
                            1, &one));
        s->cost[i] = one.seconds / estimate.seconds;
    }
out:
    return st;
}

static void set_links(struct lk_sweep_parts *all, struct lk_sweep_shape *s)
{
    s->link = lk_slowest_link_mean(&s->model.step);
    for (size_t i = 0; i < all->n_draws; i++)
        s->cost[i] *= lk_slowest_link(&s->model.step, all->link_share[i], all->link_apart[i]);
}

static void shape_fini(struct lk_sweep_shape *s)
{
    lk_config_model_fini(&s->model);
    free(s->cost);
}

static enum lk_status shape_init(struct lk_sweep_parts *all, struct lk_sweep_shape *s)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = all->p;

    LK_TRY(lk_alloc(&s->cost, all->n_draws, sizeof *s->cost));
    s->status = lk_config_model_init(&s->model, p->job, p->cluster, p->cost, &s->key);
    if (s->status == LK_OK) {
        s->status = set_cost(all, s);
        set_links(all, s);
    }
    st = s->status == LK_EEVIDENCE || s->status == LK_EUSAGE ? LK_OK : s->status;
out:
    if (st != LK_OK)
        shape_fini(s);
    return st;
}

enum lk_status lk_sweep_shape_of(struct lk_sweep_parts *all, const struct lk_config *c, size_t *out)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_shape s = {.key = shape_key(all, c)};

    /* Neighbours in a grid share their shape more often than not: the latest first. */
    for (size_t i = all->n_shapes; i-- > 0;)
        if (lk_config_equal(&all->shapes[i].key, &s.key)) {
            *out = i;
            return all->shapes[i].status;
        }
    LK_TRY(
        lk_array_grow(&all->shapes, &all->shapes_capacity, all->n_shapes + 1, sizeof *all->shapes));
    LK_TRY(shape_init(all, &s));
    *out = all->n_shapes;
    all->shapes[all->n_shapes++] = s;
    st = s.status;
out:
    return st;
}

/* ---- Compute ---- */

enum lk_status lk_sweep_compute_of(struct lk_sweep_parts *all, int local_batch, size_t *out)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_compute c = {.local_batch = local_batch};
    struct lk_config alone = lk_config_current(all->p->job);

    for (size_t i = 0; i < all->n_computes; i++)
        if (all->computes[i].local_batch == local_batch) {
            *out = i;
            return all->computes[i].status;
        }
    alone.local_batch = local_batch;
    LK_TRY(lk_array_grow(&all->computes, &all->computes_capacity, all->n_computes + 1,
                         sizeof *all->computes));
    LK_TRY(lk_alloc(&c.factors, all->n_draws, sizeof *c.factors));
    c.status = lk_config_model_init(&c.model, all->p->job, all->p->cluster, all->p->cost, &alone);
    for (size_t i = 0; i < all->n_draws; i++)
        c.factors[i] = exp(c.model.compute_sd * all->worlds[i].compute);
    *out = all->n_computes;
    all->computes[all->n_computes++] = c;
    st = c.status;
out:
    return st;
}

/* ---- Stragglers ---- */

static bool same_known(const double *a, const double *b, int n)
{
    return a && b ? !memcmp(a, b, (size_t)n * sizeof *a) : a == b;
}

/* Whether the slowest of their ranks are drawn alike. */
static bool same_ranks(const struct lk_step_model *a, const struct lk_step_model *b)
{
    const struct lk_straggler_law *x = &a->law, *y = &b->law;

    return a->ranks == b->ranks && a->nodes == b->nodes && x->rank_sd == y->rank_sd &&
           x->node_sd == y->node_sd && x->transient_sd == y->transient_sd &&
           x->tail_share == y->tail_share && x->tail_scale == y->tail_scale &&
           x->tail_shape == y->tail_shape &&
           same_known(a->rank_slowness, b->rank_slowness, a->ranks) &&
           same_known(a->node_slowness, b->node_slowness, a->nodes);
}

static enum lk_status straggler_init(const struct lk_sweep_parts *all, struct lk_sweep_straggler *s)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_slowest_init(&s->slowest, &s->of, s->micro_batches));
    LK_TRY(lk_alloc(&s->effect, all->n_draws, sizeof *s->effect));
    for (size_t i = 0; i < all->n_draws; i++)
        s->effect[i] = lk_slowest_quantile(&s->slowest, all->rank_share[i]);
out:
    return st;
}

enum lk_status lk_sweep_straggler_of(struct lk_sweep_parts *all, const struct lk_step_model *of,
                                     int micro_batches, size_t *out)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_straggler s = {.of = *of, .micro_batches = micro_batches};

    for (size_t i = all->n_stragglers; i-- > 0;)
        if (all->stragglers[i].micro_batches == micro_batches &&
            same_ranks(&all->stragglers[i].of, of)) {
            *out = i;
            return LK_OK;
        }
    LK_TRY(lk_array_grow(&all->stragglers, &all->stragglers_capacity, all->n_stragglers + 1,
                         sizeof *all->stragglers));
    LK_TRY(straggler_init(all, &s));
    *out = all->n_stragglers;
    all->stragglers[all->n_stragglers++] = s;
out:
    return st;
}

/* ---- All ---- */

enum lk_status lk_sweep_parts_init(struct lk_sweep_parts *all, struct lk_predictor *p)
{
    enum lk_status st = LK_OK;

    *all = (struct lk_sweep_parts){.p = p, .n_draws = lk_predictor_draws(p)};
    LK_TRY(lk_alloc(&all->worlds, all->n_draws, sizeof *all->worlds));
    LK_TRY(lk_alloc(&all->rank_share, all->n_draws, sizeof *all->rank_share));
    LK_TRY(lk_alloc(&all->link_share, all->n_draws, sizeof *all->link_share));
    LK_TRY(lk_alloc(&all->link_apart, all->n_draws, sizeof *all->link_apart));
    for (size_t i = 0; i < all->n_draws; i++) {
        struct lk_rng ranks = lk_rng_init(p->options.seed, lk_rng_stream("sweep.extreme", i));
        struct lk_rng links = lk_rng_init(p->options.seed, lk_rng_stream("sweep.link", i));

        all->worlds[i] = lk_predictor_world(p, i);
        all->rank_share[i] = fmax(lk_rng_uniform(&ranks), 1e-12);
        all->link_share[i] = fmax(lk_rng_uniform(&links), 1e-12);
        all->link_apart[i] = fmax(lk_rng_uniform(&links), 1e-12);
    }
out:
    return st;
}

void lk_sweep_parts_fini(struct lk_sweep_parts *all)
{
    for (size_t i = 0; i < all->n_shapes; i++)
        shape_fini(&all->shapes[i]);
    for (size_t i = 0; i < all->n_computes; i++) {
        lk_config_model_fini(&all->computes[i].model);
        free(all->computes[i].factors);
    }
    for (size_t i = 0; i < all->n_stragglers; i++)
        free(all->stragglers[i].effect);
    free(all->worlds);
    free(all->rank_share);
    free(all->link_share);
    free(all->link_apart);
    free(all->shapes);
    free(all->computes);
    free(all->stragglers);
}
