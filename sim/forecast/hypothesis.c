/* A measurement that was not made; see the header. */
#include "sim/forecast/hypothesis.h"

#include "base/array.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 50 };

static int order_of(const struct lk_config *a, const struct lk_config *b)
{
    int order = LK_ORDER(a->world_size, b->world_size);

    order = order ? order : LK_ORDER(a->local_batch, b->local_batch);
    return order ? order : LK_ORDER(a->accumulation, b->accumulation);
}

static enum lk_status add_run(struct lk_hypothetical *o, const struct lk_job *job,
                              const struct lk_hypothesis *h)
{
    struct lk_job_run run = {
        .source = job->name, .place = job->place, .config = h->config, .n_steps = STEPS};
    size_t at = 0;

    LK_PASS(lk_alloc(&o->steps, STEPS, sizeof *o->steps));
    LK_PASS(lk_alloc(&o->runs, job->n_runs + 1, sizeof *o->runs));
    for (size_t i = 0; i < STEPS; i++)
        o->steps[i] = h->step_s;
    run.step_s = o->steps;
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        run.losses_s[i] = NAN;
    while (at < job->n_runs && order_of(&job->runs[at].config, &h->config) <= 0)
        at++;
    if (job->n_runs)
        memcpy(o->runs, job->runs, at * sizeof *o->runs);
    o->runs[at] = run;
    for (size_t i = at; i < job->n_runs; i++)
        o->runs[i + 1] = job->runs[i];
    o->job.runs = o->runs;
    o->job.n_runs = job->n_runs + 1;
    return LK_OK;
}

static int by_place(const void *x, const void *y)
{
    const struct lk_cluster_point *a = x, *b = y;
    int order = LK_ORDER(a->coll, b->coll);

    order = order ? order : LK_ORDER(a->algo, b->algo);
    order = order ? order : LK_ORDER(a->ranks, b->ranks);
    return order ? order : LK_ORDER(a->bytes, b->bytes);
}

/* Adds what nccl-tests would time: 64 KiB to 1 GiB. */
static enum lk_status add_points(struct lk_hypothetical *o, const struct lk_cluster *c,
                                 const struct lk_cost_model *cost, const struct lk_hypothesis *h)
{
    enum { SIZES = 8, FIRST = 16, APART = 2 };
    size_t n = c->n_points;

    LK_PASS(lk_alloc(&o->points, n + SIZES, sizeof *o->points));
    if (n)
        memcpy(o->points, c->points, n * sizeof *o->points);
    for (int i = 0; i < SIZES; i++) {
        struct lk_cluster_point p = {.coll = LK_ALL_REDUCE,
                                     .algo = LK_ALGO_AUTO,
                                     .timing = LK_TIMING_BACK_TO_BACK,
                                     .ranks = h->config.world_size,
                                     .nodes = h->config.nodes,
                                     .bytes = UINT64_C(1) << (FIRST + APART * i),
                                     .time_s = lk_quantity_none()};
        struct lk_cost at;

        LK_PASS(lk_cost_eval(cost, p.coll, p.algo, p.ranks, p.nodes, &p.bytes, 1, &at));
        p.time_s.value = p.time_s.lo = p.time_s.hi = at.seconds;
        p.time_s.n = 1;
        p.time_s.source = c->name;
        o->points[n++] = p;
    }
    qsort(o->points, n, sizeof *o->points, by_place);
    o->cluster.points = o->points;
    o->cluster.n_points = n;
    return LK_OK;
}

enum lk_status lk_hypothetical_init(struct lk_hypothetical *out, const struct lk_job *job,
                                    const struct lk_cluster *cluster,
                                    const struct lk_cost_model *cost, const struct lk_hypothesis *h)
{
    *out = (struct lk_hypothetical){.job = *job, .cluster = *cluster};
    return h->collectives ? add_points(out, cluster, cost, h) : add_run(out, job, h);
}

void lk_hypothetical_fini(struct lk_hypothetical *h)
{
    free(h->runs);
    free(h->steps);
    free(h->points);
    *h = (struct lk_hypothetical){0};
}
