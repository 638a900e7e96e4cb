/*
 * No forecast beats arithmetic. Random jobs, clusters and configurations are forecast; each point
 * must lie above the time that compute and wires take, which is computed here without the product's
 * code, no efficiency may be above 1, and the estimate must not depend on the seed. More GPUs take
 * no shorter steps; a collective on more ranks never costs less, nor a step by one algorithm on
 * slower links.
 *
 * LOCKSTEP_CASES=100000 build/test_lockstep bounds tries as many; the default is quick.
 */
#include "base/array.h"
#include "base/rng.h"
#include "sim/collective/coll_cost.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/predictor.h"
#include "sim/forecast/step_evidence.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 2000, CHUNKS = 8, TENSORS_MAX = 12, COUNTS = 4, DRAWS = 20 };

/* Rounding may take this share from a bound: durations are whole ns. */
static const double ROUNDING = 1e-5;

static struct lk_quantity known(double v)
{
    struct lk_quantity q = lk_quantity_none();

    ck_assert_int_eq(lk_quantity_set(&q, v, NAN, NAN, 0, "made up for this test"), LK_OK);
    return q;
}

/* Return a number between a and b, evenly in its logarithm. */
static double between(struct lk_rng *g, double a, double b)
{
    return a * exp(lk_rng_uniform(g) * log(b / a));
}

/* One random question, with the numbers that the bound is computed from. */
struct question {
    struct lk_job job;
    struct lk_cluster cluster;
    double forward_s, backward_s, optimizer_s, bytes, slow, link_Bps, nics_Bps;
    int slow_rank, per_node, accumulation;
    struct lk_axis_value counts[COUNTS];
};

static void make_job(struct lk_rng *g, struct question *q)
{
    struct lk_job *j = &q->job;
    size_t n = 1 + lk_rng_below(g, TENSORS_MAX);

    lk_job_init(j);
    q->forward_s = between(g, 1e-4, 1);
    q->backward_s = q->forward_s * between(g, 0.5, 3);
    q->optimizer_s = lk_rng_below(g, 2) ? 0 : q->forward_s * 0.1;
    q->accumulation = 1 + (int)lk_rng_below(g, 4);
    j->accumulation = q->accumulation;
    j->reduce = LK_REDUCTION_LAST;
    j->ddp_rule = LK_DDP_TORCH_2;
    j->first_bytes = 1 << 20;
    j->cap_bytes = (uint64_t)between(g, 1e5, 1e8);
    ck_assert_int_eq(lk_strdup(&j->name, "random"), LK_OK);
    ck_assert_int_eq(lk_strdup(&j->sample_unit, "sample"), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->tensors, n, sizeof *j->tensors), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->compute, 1, sizeof *j->compute), LK_OK);
    for (; j->n_tensors < n; j->n_tensors++) {
        struct lk_job_tensor *t = &j->tensors[j->n_tensors];

        *t = (struct lk_job_tensor){
            .elems = (uint64_t)between(g, 1e2, 1e8), .dtype = LK_F32, .ready = NAN};
        ck_assert_int_eq(lk_asprintf(&t->name, "t%zu", j->n_tensors), LK_OK);
        q->bytes += 4 * (double)t->elems;
    }
    ck_assert_int_eq(lk_job_order_gradients(j), LK_OK);
    j->compute[0] = (struct lk_job_compute){.local_batch = 8,
                                            .forward_s = known(q->forward_s),
                                            .backward_s = known(q->backward_s),
                                            .input_s = lk_quantity_none(),
                                            .optimizer_s = known(q->optimizer_s),
                                            .optimizer_hidden_s = lk_quantity_none(),
                                            .gap_s = lk_quantity_none(),
                                            .transient = lk_quantity_none()};
    j->n_compute = 1;
}

static void make_cluster(struct lk_rng *g, struct question *q)
{
    static const enum lk_gpu_link links[] = {LK_GPU_LINK_UNKNOWN, LK_GPU_LINK_NVLINK,
                                             LK_GPU_LINK_PCIE};
    static const int capabilities[] = {0, 70, 80, 90};
    struct lk_cluster *c = &q->cluster;

    lk_cluster_init(c);
    q->per_node = 1 << lk_rng_below(g, 4);
    q->link_Bps = between(g, 1e9, 4e11);
    c->topology.nics_per_node = 1 << lk_rng_below(g, 4);
    q->nics_Bps = between(g, 1e8, 5e10) * c->topology.nics_per_node;
    ck_assert_int_eq(lk_strdup(&c->name, "random"), LK_OK);
    ck_assert_int_eq(lk_strdup(&c->gpu, "none"), LK_OK);
    c->preset = lk_rng_below(g, 2);
    c->gpus_per_node = q->per_node;
    c->device.compute_capability = capabilities[lk_rng_below(g, LK_COUNT(capabilities))];
    c->topology.gpu_link = links[lk_rng_below(g, LK_COUNT(links))];
    c->topology.network = (enum lk_network)lk_rng_below(g, LK_NETWORK_COUNT);
    c->intra.latency_s = known(between(g, 1e-6, 1e-5));
    c->intra.bandwidth_Bps = known(q->link_Bps);
    c->inter.latency_s = known(between(g, 1e-6, 1e-4));
    c->inter.bandwidth_Bps = known(q->nics_Bps / c->topology.nics_per_node);
    q->slow = 1;
    if (lk_rng_below(g, 3))
        return;
    q->slow = between(g, 1.05, 3);
    q->slow_rank = (int)lk_rng_below(g, 8);
    ck_assert_int_eq(lk_alloc(&c->slow, 1, sizeof *c->slow), LK_OK);
    c->slow[0] = (struct lk_cluster_slow){.rank = q->slow_rank,
                                          .node = -1,
                                          .compute = known(q->slow),
                                          .link = lk_quantity_none(),
                                          .since = true};
    c->n_slow = 1;
}

static void make_question(uint64_t number, struct question *q)
{
    struct lk_rng g = lk_rng_init(11, number);

    *q = (struct question){.slow_rank = -1};
    make_job(&g, q);
    make_cluster(&g, q);
    for (int i = 0; i < COUNTS; i++) /* whole nodes, or a power of two in one */
        q->counts[i].count =
            i ? q->counts[i - 1].count * (2 + (int64_t)lk_rng_below(&g, 2) * 2) : 1;
}

static void forget(struct question *q)
{
    lk_job_fini(&q->job);
    lk_cluster_fini(&q->cluster);
}

static void ask(const struct question *q, uint64_t seed, struct lk_forecast *out)
{
    struct lk_forecast_request r = {
        .axes[LK_AXIS_GPUS] = {q->counts, COUNTS}, .level = 0.9, .draws = DRAWS, .seed = seed};

    struct lk_evidence_source source;

    ck_assert_int_eq(lk_step_evidence(&q->job, &q->cluster, &r, &source), LK_OK);
    ck_assert_msg(lk_forecast_run(&source, &r, out, NULL) == LK_OK, "%s", lk_error_text());
    source.ops->close(source.self);
}

/* Return the least step, by hand: compute of the slowest rank, or forward and the bytes that leave
 * a node, or a GPU within one. */
static double least_s(const struct question *q, const struct lk_config *c)
{
    double slow = q->slow_rank >= 0 && q->slow_rank < c->world_size ? q->slow : 1;
    double micro_s = (q->forward_s + q->backward_s) * slow, wire_s = 0;

    if (c->nodes > 1)
        wire_s = 2.0 * (c->nodes - 1) / c->nodes * q->bytes / q->nics_Bps;
    else if (c->world_size > 1)
        wire_s = 2.0 * (c->world_size - 1) / c->world_size * q->bytes / q->link_Bps;
    return (c->accumulation - 1) * micro_s + q->optimizer_s +
           fmax(micro_s, q->forward_s * slow + wire_s);
}

static void check(uint64_t number)
{
    struct question q;
    struct lk_forecast f, other_seed;

    make_question(number, &q);
    ask(&q, 1, &f);
    ask(&q, 2, &other_seed);
    for (size_t i = 0; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];
        double ideal = p->losses_s[LK_LOSS_IDEAL] / p->step_s;
        double least = least_s(&q, &p->config) * (1 - ROUNDING);

        ck_assert_msg(least <= p->step_lo_s && p->step_lo_s <= p->step_s &&
                          p->step_s <= p->step_hi_s,
                      "case %llu, %d GPUs: bound %.9g, estimate %.9g [%.9g .. %.9g] s",
                      (unsigned long long)number, p->config.world_size, least, p->step_s,
                      p->step_lo_s, p->step_hi_s);
        ck_assert_msg(!i || p->step_s >= p[-1].step_s * (1 - ROUNDING),
                      "case %llu, %d GPUs: step of %g s after %g s", (unsigned long long)number,
                      p->config.world_size, p->step_s, p[-1].step_s);
        ck_assert_msg(p->efficiency_hi <= 1 + ROUNDING, "case %llu, %d GPUs: efficiency %g (%g)",
                      (unsigned long long)number, p->config.world_size, p->efficiency,
                      p->efficiency_hi);
        ck_assert_msg(fabs(ideal - p->efficiency) <= 1e-9,
                      "case %llu, %d GPUs: efficiency %g, ideal over step %g",
                      (unsigned long long)number, p->config.world_size, p->efficiency, ideal);
        ck_assert_msg(fabs(other_seed.points[i].step_s / p->step_s - 1) <= 1e-3,
                      "case %llu, %d GPUs: %g s, with another seed %g", (unsigned long long)number,
                      p->config.world_size, p->step_s, other_seed.points[i].step_s);
    }
    lk_forecast_fini(&f);
    lk_forecast_fini(&other_seed);
    forget(&q);
}

START_TEST(nothing_beats_arithmetic)
{
    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES); i += CHUNKS)
        check(i);
}
END_TEST

/* Make the links of a cluster up to four times as fast. */
static void quicken(struct lk_cluster *c, uint64_t number)
{
    struct lk_rng g = lk_rng_init(13, number);
    bool inside = lk_rng_below(&g, 2);

    if (inside || lk_rng_below(&g, 2))
        c->inter.bandwidth_Bps.value *= between(&g, 1, 4);
    if (inside)
        c->intra.bandwidth_Bps.value *= between(&g, 1, 4);
}

/* Set the steps with all-reduces by a ring. */
static void by_ring(const struct question *q, double *steps)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 2, .seed = 1, .scale_error = NAN};
    struct lk_predictor *p;

    ck_assert_int_eq(lk_predictor_create(&q->job, &q->cluster, &o, &p), LK_OK);
    for (int i = 0; i < COUNTS; i++) {
        struct lk_config c = lk_config_current(&q->job);

        c.world_size = (int)q->counts[i].count;
        c.algo = LK_ALGO_RING;
        ck_assert_int_eq(lk_config_nodes(&q->cluster, &c), LK_OK);
        ck_assert_msg(lk_predictor_estimate(p, &c, &steps[i]) == LK_OK, "%s", lk_error_text());
    }
    lk_predictor_destroy(p);
}

/* Faster links never take longer. NCCL may choose a slower algorithm or protocol there, as it does
 * on machines; each of them is tested in tests/sim/test_nccl_model.c. */
START_TEST(faster_links_never_take_longer)
{
    for (uint64_t k = 0; k < cases_or(CASES); k++) {
        double steps[COUNTS], quicker[COUNTS];
        struct question q;

        make_question(k, &q);
        q.cluster.device.compute_capability = 0; /* without NCCL's choice of a protocol */
        by_ring(&q, steps);
        quicken(&q.cluster, k);
        by_ring(&q, quicker);
        for (int i = 0; i < COUNTS; i++)
            ck_assert_msg(quicker[i] <= steps[i] * (1 + ROUNDING),
                          "case %llu, %d GPUs: step of %g s, on faster links %g s",
                          (unsigned long long)k, (int)q.counts[i].count, steps[i], quicker[i]);
        forget(&q);
    }
}
END_TEST

enum { RUNGS = 9 };

/* Set the seconds of an all-reduce on 2, 4, ... ranks, a node after the other. */
static void climb(const struct lk_cluster *c, struct lk_rng *draw, uint64_t bytes, double *seconds)
{
    struct lk_cost_model *m;

    ck_assert_int_eq(lk_cost_model_create(c, draw, NULL, &m), LK_OK);
    for (int i = 0; i < RUNGS; i++) {
        int ranks = 2 << i, nodes = ranks > c->gpus_per_node ? ranks / c->gpus_per_node : 1;
        struct lk_cost cost;

        ck_assert_int_eq(
            lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, ranks, nodes, &bytes, 1, &cost), LK_OK);
        seconds[i] = cost.seconds;
    }
    lk_cost_model_destroy(m);
}

/* More ranks never cost less, in the estimate and in each draw, whatever NCCL would choose. */
static void check_order(uint64_t number)
{
    struct question q;
    struct lk_rng g = lk_rng_init(12, number), again = g;
    uint64_t bytes = (uint64_t)between(&g, 64, 1e9);
    double s[RUNGS], drawn[RUNGS];
    size_t n_slow;

    make_question(number, &q);
    n_slow = q.cluster.n_slow;
    q.cluster.n_slow = 0;
    climb(&q.cluster, NULL, bytes, s);
    climb(&q.cluster, &again, bytes, drawn);
    for (int i = 1; i < RUNGS; i++)
        ck_assert_msg(s[i] >= s[i - 1] * (1 - ROUNDING) &&
                          drawn[i] >= drawn[i - 1] * (1 - ROUNDING),
                      "case %llu, %d ranks: %g s after %g (draw: %g after %g)",
                      (unsigned long long)number, 2 << i, s[i], s[i - 1], drawn[i], drawn[i - 1]);
    q.cluster.n_slow = n_slow;
    forget(&q);
}

START_TEST(more_ranks_never_cost_less)
{
    for (uint64_t i = 0; i < cases_or(CASES); i++)
        check_order(i);
}
END_TEST

SUITE(bounds, c)
{
    tcase_add_test(c, more_ranks_never_cost_less);
    tcase_add_test(c, faster_links_never_take_longer);
    tcase_add_loop_test(c, nothing_beats_arithmetic, 0, CHUNKS);
}
