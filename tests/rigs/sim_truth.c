/* A known truth for the forecast's tests. */
#include "tests/rigs/sim_truth.h"

#include "base/array.h"
#include "base/rng.h"
#include "sim/collective/alpha_beta.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/step/closed_form.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct sim_truth sim_truth_default = {.forward_s = 10e-3,
                                            .backward_s = 20e-3,
                                            .alpha_s = 50e-6,
                                            .rate_Bps = 1e9,
                                            .point_noise = 0.02,
                                            .rank_sd = 0.01,
                                            .transient_sd = 0.02,
                                            .run_sd = 0.01,
                                            .steps = 60};

/* 12 tensors of 256 Ki to 1 Mi floats, ready in reverse order at equal intervals. */
enum { TENSORS = 12 };

static double cost(const struct sim_truth *t, uint64_t bytes, int ranks)
{
    struct lk_alpha_beta_constants k = {0, {0, t->alpha_s}, {0, t->rate_Bps}};
    struct lk_alpha_beta_shape s;

    ck_assert(lk_alpha_beta_shape(LK_ALL_REDUCE, LK_ALGO_RING, (double)bytes, ranks, ranks, &s));
    return lk_alpha_beta_s(&k, &s);
}

static void set(struct lk_quantity *q, double v, double sd, uint64_t n)
{
    ck_assert_int_eq(lk_quantity_set(q, v, v * (1 - 1.645 * sd), v * (1 + 1.645 * sd), n, "truth"),
                     LK_OK);
}

void sim_truth_add_points(const struct sim_truth *t, uint64_t seed, int ranks, struct lk_cluster *c)
{
    enum { SIZES = 8 };
    struct lk_rng g = lk_rng_init(seed, 1);
    double common = t->point_noise * lk_rng_normal(&g);
    struct lk_cluster_point *points = NULL;

    ck_assert_int_eq(lk_alloc(&points, c->n_points + SIZES, sizeof *points), LK_OK);
    if (c->n_points)
        memcpy(points, c->points, c->n_points * sizeof *points);
    free(c->points);
    c->points = points;
    for (uint64_t b = 4096; b <= 64U << 20; b *= 4) {
        struct lk_cluster_point *p = &points[c->n_points++];

        *p = (struct lk_cluster_point){.coll = LK_ALL_REDUCE,
                                       .algo = LK_ALGO_RING,
                                       .timing = LK_TIMING_ALONE,
                                       .ranks = ranks,
                                       .nodes = ranks,
                                       .bytes = b,
                                       .time_s = lk_quantity_none()};
        set(&p->time_s, cost(t, b, ranks) * exp(common), t->point_noise, 20);
    }
}

void sim_truth_cluster(const struct sim_truth *t, uint64_t seed, struct lk_cluster *out)
{
    struct lk_quantity none = lk_quantity_none();
    struct lk_cluster c = {.nodes = 0,
                           .gpus_per_node = 1,
                           .intra = {none, none},
                           .inter = {none, none},
                           .gamma_wait = none,
                           .gamma_wire = none,
                           .delta = none,
                           .rank_sd = none,
                           .node_sd = none,
                           .transient_sd = none,
                           .common_sd = none,
                           .price_per_hour = none,
                           .power_W = none};

    ck_assert_int_eq(lk_strdup(&c.name, "truth"), LK_OK);
    ck_assert_int_eq(lk_strdup(&c.gpu, "none"), LK_OK);
    sim_truth_add_points(t, seed, 2, &c);
    set(&c.gamma_wait, 0, 0, 5);
    set(&c.gamma_wire, 0.05, 0, 5);
    set(&c.delta, 0, 0, 5);
    set(&c.rank_sd, t->rank_sd, 0, 5);
    *out = c;
}

static double batch_factor(int local_batch)
{
    return 1.0 / 3 + 2.0 / 3 * local_batch / 8;
}

static void add_compute(const struct sim_truth *t, struct lk_job *j, int batch, struct lk_rng *g)
{
    struct lk_job_compute *c = &j->compute[j->n_compute++];
    struct lk_quantity none = lk_quantity_none();
    double f = batch_factor(batch) * (1 + 0.003 * lk_rng_normal(g));

    *c = (struct lk_job_compute){batch, none, none, none, none, none, none, none};
    set(&c->forward_s, t->forward_s * f, 0.003, 60);
    set(&c->backward_s, t->backward_s * f, 0.003, 60);
    set(&c->input_s, 0, 0, 60);
    set(&c->optimizer_s, 1e-3, 0, 60);
    set(&c->gap_s, 0.2e-3, 0, 60);
    set(&c->transient, t->transient_sd, 0, 60);
}

void sim_truth_job(const struct sim_truth *t, uint64_t seed, struct lk_job *out)
{
    struct lk_rng g = lk_rng_init(seed, 2);
    struct lk_job j = {.ddp_rule = LK_DDP_TORCH_2,
                       .first_bytes = 1 << 20,
                       .cap_bytes = 4 << 20,
                       .accumulation = 1,
                       .reduce = LK_REDUCTION_LAST,
                       .n_tensors = TENSORS,
                       .flops_per_sample = lk_quantity_none(),
                       .memory_fixed_bytes = lk_quantity_none(),
                       .memory_per_sample_bytes = lk_quantity_none(),
                       .noise_scale = lk_quantity_none()};

    ck_assert_int_eq(lk_strdup(&j.name, "synthetic"), LK_OK);
    ck_assert_int_eq(lk_strdup(&j.sample_unit, "sample"), LK_OK);
    ck_assert_int_eq(lk_alloc(&j.tensors, TENSORS, sizeof *j.tensors), LK_OK);
    ck_assert_int_eq(lk_alloc(&j.ready_order, TENSORS, sizeof *j.ready_order), LK_OK);
    ck_assert_int_eq(lk_alloc(&j.compute, 3, sizeof *j.compute), LK_OK);
    for (size_t i = 0; i < TENSORS; i++) {
        j.tensors[i].elems = (1 + i % 4) << 18;
        j.tensors[i].dtype = LK_F32;
        j.tensors[i].ready = 1 - (double)i / TENSORS;
        j.ready_order[i] = TENSORS - 1 - i;
        ck_assert_int_eq(lk_asprintf(&j.tensors[i].name, "t%zu", i), LK_OK);
    }
    add_compute(t, &j, 4, &g);
    add_compute(t, &j, 8, &g);
    add_compute(t, &j, 16, &g);
    *out = j;
}

double sim_truth_run(const struct sim_truth *t, const struct lk_job *j, int world_size,
                     int local_batch, uint64_t seed, double *steps)
{
    struct lk_rng g = lk_rng_init(seed, 3);
    struct lk_bucket_plan plan;
    struct lk_step_coll colls[TENSORS];
    struct lk_sim_result r;
    struct lk_step_model m = {.ranks = world_size,
                              .nodes = world_size,
                              .accumulation = 1,
                              .forward_s = t->forward_s * batch_factor(local_batch),
                              .backward_s = t->backward_s * batch_factor(local_batch),
                              .optimizer_s = 1e-3,
                              .gap_s = 0.2e-3,
                              .gamma_wire = 0.05,
                              .law = {.rank_sd = t->rank_sd, .transient_sd = t->transient_sd},
                              .colls = colls};
    double deviation = exp(t->run_sd * lk_rng_normal(&g)), mean;
    double *slowness = NULL;

    ck_assert_int_eq(lk_job_buckets(j, j->first_bytes, j->cap_bytes, &plan), LK_OK);
    for (; m.n_colls < plan.n_buckets; m.n_colls++) {
        struct lk_step_coll *b = &colls[m.n_colls];

        *b = (struct lk_step_coll){.bytes = plan.bytes[m.n_colls],
                                   .ready = LK_STEP_BACKWARD,
                                   .need = LK_STEP_OPTIMIZER,
                                   .bucket = (int)m.n_colls,
                                   .cost_s = cost(t, plan.bytes[m.n_colls], world_size)};
        for (size_t i = plan.first[m.n_colls]; i < plan.first[m.n_colls + 1]; i++)
            b->ready = fmax(b->ready, LK_STEP_BACKWARD + j->tensors[plan.index[i]].ready);
    }
    ck_assert_int_eq(lk_alloc(&slowness, (size_t)world_size, sizeof *slowness), LK_OK);
    for (int i = 0; i < world_size; i++)
        slowness[i] = t->slow_factor > 0 && i == t->slow_rank ? t->slow_factor - 1 : NAN;
    m.rank_slowness = slowness;
    ck_assert_int_eq(
        lk_closed_form_run(&m, &(struct lk_sim_request){.steps = t->steps, .seed = lk_rng_u64(&g)},
                           &r),
        LK_OK);
    for (size_t i = 0; steps && i < r.n; i++)
        steps[i] = r.step_s[i] * deviation;
    mean = r.mean_s * deviation;
    free(slowness);
    lk_sim_result_fini(&r);
    lk_bucket_plan_fini(&plan);
    return mean;
}

void sim_truth_add_run(const struct sim_truth *t, struct lk_job *j, int world_size, int local_batch,
                       uint64_t seed)
{
    struct lk_job_run *runs = realloc(j->runs, (j->n_runs + 1) * sizeof *runs), *r;

    ck_assert_ptr_nonnull(runs);
    j->runs = runs;
    r = &runs[j->n_runs++];
    *r = (struct lk_job_run){.config.world_size = world_size,
                             .config.nodes = world_size,
                             .config.local_batch = local_batch,
                             .config.accumulation = 1,
                             .config.reduce = LK_REDUCTION_LAST,
                             .config.first_bytes = j->first_bytes,
                             .config.cap_bytes = j->cap_bytes,
                             .n_steps = (size_t)t->steps};
    ck_assert_int_eq(lk_asprintf(&r->source, "truth/k%d-b%d", world_size, local_batch), LK_OK);
    ck_assert_int_eq(lk_alloc(&r->step_s, r->n_steps, sizeof *r->step_s), LK_OK);
    ck_assert_int_eq(lk_alloc(&r->rank_compute_s, (size_t)world_size, sizeof *r->rank_compute_s),
                     LK_OK);
    for (int i = 0; i < world_size; i++)
        r->rank_compute_s[i] = (t->forward_s + t->backward_s) * batch_factor(local_batch) *
                               (t->slow_factor > 0 && i == t->slow_rank ? t->slow_factor : 1);
    sim_truth_run(t, j, world_size, local_batch, seed, r->step_s);
}

void sim_world_init(struct sim_world *w, uint64_t seed, int largest)
{
    w->truth = sim_truth_default;
    sim_truth_cluster(&w->truth, seed, &w->cluster);
    sim_truth_job(&w->truth, seed, &w->job);
    sim_truth_add_run(&w->truth, &w->job, 1, 8, 1000 * seed + 1);
    for (int k = 2; k <= largest; k *= 2)
        sim_truth_add_run(&w->truth, &w->job, k, 8, 1000 * seed + (uint64_t)k);
}

void sim_world_fini(struct sim_world *w)
{
    lk_job_fini(&w->job);
    lk_cluster_fini(&w->cluster);
}

struct sim_world *sim_world_shared(size_t number)
{
    static struct sim_world worlds[SIM_WORLDS + SIM_WORLDS_CHANGED];
    struct sim_world *w = &worlds[number];

    ck_assert_uint_lt(number, LK_COUNT(worlds));
    if (w->cluster.n_fits)
        return w;
    sim_world_init(w, 1 + number, 2);
    /* As each forecast would for itself; its seed is the same. */
    ck_assert_int_eq(lk_alpha_beta_fit_cluster(&w->cluster, 1), LK_OK);
    set(&w->cluster.inter.latency_s, 50e-6, NAN, 0);
    set(&w->cluster.inter.bandwidth_Bps, 1e9, NAN, 0);
    return w;
}

static enum lk_status ask(const struct lk_job *job, const struct lk_cluster *cluster,
                          const struct lk_forecast_request *q, struct lk_forecast *out,
                          struct lk_gains *gains)
{
    enum lk_status st = LK_OK;
    struct lk_evidence_source source;

    LK_TRY(lk_step_evidence(job, cluster, q, &source));
    st = lk_forecast_run(&source, q, out, gains);
    source.ops->close(source.self);
out:
    return st;
}

enum lk_status sim_predict(const struct lk_job *job, const struct lk_cluster *cluster,
                           const struct lk_forecast_request *request, struct lk_forecast *out)
{
    return ask(job, cluster, request, out, NULL);
}

enum lk_status sim_whatif(const struct lk_job *job, const struct lk_cluster *cluster,
                          const struct lk_forecast_request *request, struct sim_answer *out)
{
    struct lk_forecast_request q = *request;

    q.compare = true;
    return ask(job, cluster, &q, &out->forecast, &out->gains);
}

void sim_answer_fini(struct sim_answer *a)
{
    lk_forecast_fini(&a->forecast);
    lk_gains_fini(&a->gains);
}
