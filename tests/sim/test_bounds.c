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
#include "tests/rigs/random_job.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 2000, CHUNKS = 8, COUNTS = RANDOM_COUNTS, DRAWS = 20 };

/* Rounding may take this share from a bound: durations are whole ns. */
static const double ROUNDING = 1e-5;

static void ask(const struct random_job *q, uint64_t seed, struct lk_forecast *out)
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
static double least_s(const struct random_job *q, const struct lk_config *c)
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
    struct random_job q;
    struct lk_forecast f, other_seed;

    random_job_init(number, &q);
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
    random_job_fini(&q);
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
        c->inter.bandwidth_Bps.value *= random_between(&g, 1, 4);
    if (inside)
        c->intra.bandwidth_Bps.value *= random_between(&g, 1, 4);
}

/* Set the steps with all-reduces by a ring. */
static void by_ring(const struct random_job *q, double *steps)
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
        struct random_job q;

        random_job_init(k, &q);
        q.cluster.device.compute_capability = 0; /* without NCCL's choice of a protocol */
        by_ring(&q, steps);
        quicken(&q.cluster, k);
        by_ring(&q, quicker);
        for (int i = 0; i < COUNTS; i++)
            ck_assert_msg(quicker[i] <= steps[i] * (1 + ROUNDING),
                          "case %llu, %d GPUs: step of %g s, on faster links %g s",
                          (unsigned long long)k, (int)q.counts[i].count, steps[i], quicker[i]);
        random_job_fini(&q);
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
    struct random_job q;
    struct lk_rng g = lk_rng_init(12, number), again = g;
    uint64_t bytes = (uint64_t)random_between(&g, 64, 1e9);
    double s[RUNGS], drawn[RUNGS];
    size_t n_slow;

    random_job_init(number, &q);
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
    random_job_fini(&q);
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
