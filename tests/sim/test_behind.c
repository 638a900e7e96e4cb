/* Collectives right behind another: what points timed both ways tell of them, and what a step makes
 * of it. */
#include "base/array.h"
#include "base/rng.h"
#include "sim/collective/coll_cost.h"
#include "sim/step/closed_form.h"
#include "sim/step/engine.h"
#include "tests/rigs/step_ways.h"
#include "tests/rigs/suite.h"

#include <math.h>

/* ---- The cost ---- */

static struct lk_cluster_point point(int ranks, uint64_t bytes, double seconds,
                                     enum lk_timing timing)
{
    return (struct lk_cluster_point){.coll = LK_ALL_REDUCE,
                                     .algo = LK_ALGO_RING,
                                     .timing = timing,
                                     .ranks = ranks,
                                     .nodes = 1,
                                     .bytes = bytes,
                                     .time_s = {.value = seconds, .lo = NAN, .hi = NAN, .n = 9}};
}

static struct lk_cost cost_at(struct lk_cluster_point *points, size_t n, enum lk_coll coll,
                              int ranks, uint64_t bytes)
{
    const struct lk_quantity none = lk_quantity_none();
    const struct lk_cluster c = {.nodes = 1,
                                 .gpus_per_node = 8,
                                 .intra = {.latency_s = none, .bandwidth_Bps = none},
                                 .inter = {.latency_s = none, .bandwidth_Bps = none},
                                 .points = points,
                                 .n_points = n};
    struct lk_cost_model *m = NULL;
    struct lk_cost out;

    ck_assert_int_eq(lk_cost_model_create(&c, NULL, NULL, &m), LK_OK);
    ck_assert_msg(lk_cost_eval(m, coll, LK_ALGO_AUTO, ranks, 1, &bytes, 1, &out) == LK_OK, "%s",
                  lk_error_text());
    lk_cost_model_destroy(m);
    return out;
}

enum { BOTH = 6, BURSTS = 3 };

/* 2 ranks take 1 ms a MiB alone, and half as long again to a tenth in a burst; 4 ranks were timed
 * alone. */
START_TEST(two_timings_tell)
{
    struct lk_cluster_point p[] = {
        point(2, 1 << 20, 1e-3, LK_TIMING_ALONE),
        point(2, 4 << 20, 4e-3, LK_TIMING_ALONE),
        point(2, 16 << 20, 16e-3, LK_TIMING_ALONE),
        point(2, 1 << 20, 1.5e-3, LK_TIMING_BACK_TO_BACK),
        point(2, 4 << 20, 4.4e-3, LK_TIMING_BACK_TO_BACK),
        point(2, 16 << 20, 17.6e-3, LK_TIMING_BACK_TO_BACK),
        point(4, 1 << 20, 2e-3, LK_TIMING_ALONE),
        point(4, 4 << 20, 8e-3, LK_TIMING_ALONE),
    };
    struct lk_cost c = cost_at(p, BOTH, LK_ALL_REDUCE, 2, 1 << 20);

    ck_assert_double_eq_tol(c.seconds, 1e-3, 1e-9);
    ck_assert_double_eq_tol(c.behind, 0.5, 1e-9);
    ck_assert_double_eq_tol(cost_at(p, BOTH, LK_ALL_REDUCE, 2, 2 << 20).behind, 0.3, 1e-9);
    ck_assert_double_eq_tol(cost_at(p, BOTH, LK_ALL_REDUCE, 2, 64 << 20).behind, 0.1, 1e-9);
    /* Other counts of ranks, and what an all-reduce tells of others, take the nearest's. */
    ck_assert_double_eq_tol(cost_at(p, BOTH, LK_ALL_REDUCE, 3, 1 << 20).behind, 0.5, 1e-9);
    ck_assert_double_eq_tol(cost_at(p, BOTH, LK_ALL_GATHER, 2, 1 << 20).behind, 0.5, 1e-9);
    /* One timing alone tells nothing, and a collective of one rank costs nothing. */
    ck_assert_double_eq(cost_at(p, LK_COUNT(p), LK_ALL_REDUCE, 4, 1 << 20).behind, 0);
    ck_assert_double_eq(cost_at(&p[BURSTS], BURSTS, LK_ALL_REDUCE, 2, 1 << 20).behind, 0);
    ck_assert_double_eq_tol(cost_at(&p[BURSTS], BURSTS, LK_ALL_REDUCE, 2, 1 << 20).seconds, 1.5e-3,
                            1e-9);
    ck_assert_double_eq(cost_at(p, BOTH, LK_ALL_REDUCE, 1, 1 << 20).behind, 0);
    /* Bursts that are faster hide launches, which an early start does, too: no gain. */
    p[BURSTS].time_s.value = 0.8e-3;
    ck_assert_double_eq(cost_at(p, BOTH, LK_ALL_REDUCE, 2, 1 << 20).behind, 0);
}
END_TEST

/* Whatever was timed, it takes no less behind another: at every size timed and between them. */
START_TEST(never_less_than_nothing)
{
    enum { SIZES = 5, TABLES = 100 };
    struct lk_rng rng = lk_rng_init(5, 0);

    for (int table = 0; table < TABLES; table++) {
        struct lk_cluster_point p[2 * SIZES];
        uint64_t bytes = 1;

        for (int i = 0; i < SIZES; i++) {
            double alone_s = 1e-5 * (1 + 99 * lk_rng_uniform(&rng));

            bytes += 1 + lk_rng_below(&rng, 20 * bytes);
            p[i] = point(2, bytes, alone_s, LK_TIMING_ALONE);
            p[SIZES + i] =
                point(2, bytes, alone_s * exp(lk_rng_normal(&rng)), LK_TIMING_BACK_TO_BACK);
        }
        for (int i = 0; i < SIZES; i++) {
            struct lk_cost at = cost_at(p, LK_COUNT(p), LK_ALL_REDUCE, 2, p[i].bytes);
            struct lk_cost beside = cost_at(p, LK_COUNT(p), LK_ALL_REDUCE, 2, p[i].bytes - 1);

            ck_assert_msg(at.behind >= 0 && beside.behind >= 0, "table %d: %g, %g", table,
                          at.behind, beside.behind);
        }
    }
}
END_TEST

/* ---- The step ---- */

static double step_s(step_way way, const struct lk_step_model *m)
{
    struct lk_sim_request q = {.steps = 8, .seed = 1};
    struct lk_sim_result r;
    double mean_s;

    ck_assert_int_eq(way(m, &q, &r), LK_OK);
    mean_s = r.mean_s;
    lk_sim_result_fini(&r);
    return mean_s;
}

/*
 * Two ranks, forward 10 ms, backward 20 ms, buckets at half of it and at its end, both half as long
 * again behind another, optimizer 1 ms, gap 0.5 ms.
 */
static const struct {
    const char *name;
    double first_ms, second_ms, delta;
    int accumulation; /* reduced in every micro-batch */
    bool late;        /* needed in the middle of the next step's backward */
    double want_ms;
} rows[] = {
    /* b0 20..28, b1 ready at 30: 4 + 2 behind, but 2 have passed. */
    {"fades", 8, 4, 0, 1, false, 34 + 1.5},
    /* b0 20..29.5, b1 ready at 30: 0.5 have passed, 5.5. */
    {"fades in part", 9.5, 4, 0, 1, false, 35.5 + 1.5},
    /* b0 20..32, b1 32..38. */
    {"queues", 12, 4, 0, 1, false, 38 + 1.5},
    /* b0 has 5 of 8 done at 30, ends at 33; b1 33..39. */
    {"queues, slowed", 8, 4, 1, 1, false, 39 + 1.5},
    /* b0 20..28 at half speed, b1 from 30: of 2 more 2/2 have passed, 5. */
    {"fades, slowed", 4, 4, 1, 1, false, 35 + 1.5},
    /* The first of each micro-batch is alone: 20..32..38, then 58..70..76. */
    {"micro-batches", 12, 4, 0, 2, false, 76 + 1.5},
    /* The stream never rests: 1.5 x (30 + 34) a step. */
    {"late", 30, 34, 0, 1, true, 96},
};

START_TEST(a_step_by_hand)
{
    double need = rows[_i].late ? LK_STEP_END + 1.5 : 2;
    struct lk_step_coll colls[2] = {
        {.ready = 1.5, .need = need, .cost_s = 1e-3 * rows[_i].first_ms, .bucket = 0},
        {.ready = 2.0, .need = need, .cost_s = 1e-3 * rows[_i].second_ms, .bucket = 1}};
    const struct lk_step_model m = {.ranks = 2,
                                    .nodes = 1,
                                    .accumulation = rows[_i].accumulation,
                                    .forward_s = 10e-3,
                                    .backward_s = 20e-3,
                                    .optimizer_s = 1e-3,
                                    .gap_s = 0.5e-3,
                                    .delta = rows[_i].delta,
                                    .colls = colls,
                                    .n_colls = 2};

    for (size_t k = 0; k < 2; k++) {
        colls[k].behind = 0.5;
        colls[k].late = rows[_i].late;
        colls[k].every_micro_batch = rows[_i].accumulation > 1;
    }
    for (size_t w = 0; w < STEP_WAYS; w++)
        ck_assert_msg(fabs(step_s(step_ways[w], &m) - 1e-3 * rows[_i].want_ms) < 1e-8, "%s: %.9g s",
                      rows[_i].name, step_s(step_ways[w], &m));
}
END_TEST

/* Faster compute or a faster collective makes no step longer, for what it takes more behind another
 * is never more than the time by which it begins earlier. */
START_TEST(more_speed_is_never_slower)
{
    for (uint64_t i = 0; i < 2000; i++) {
        struct lk_rng g = lk_rng_init(i, 1);
        struct lk_step_coll colls[6];
        struct lk_step_model m = {.ranks = 2,
                                  .nodes = 1,
                                  .accumulation = 1 + (int)lk_rng_below(&g, 2),
                                  .forward_s = 10e-3 * lk_rng_uniform(&g),
                                  .backward_s = 10e-3 * lk_rng_uniform(&g),
                                  .delta = lk_rng_below(&g, 2) ? lk_rng_uniform(&g) : 0,
                                  .colls = colls,
                                  .n_colls = LK_COUNT(colls)};
        size_t k = (size_t)lk_rng_below(&g, LK_COUNT(colls));
        double base_s;

        for (size_t j = 0; j < LK_COUNT(colls); j++)
            colls[j] = (struct lk_step_coll){.ready = 1 + (double)(j + 1) / LK_COUNT(colls),
                                             .need = 2,
                                             .cost_s = 4e-3 * lk_rng_uniform(&g),
                                             .behind = 2 * lk_rng_uniform(&g),
                                             .every_micro_batch = m.accumulation > 1 && i % 3 == 0,
                                             .bucket = (int)j};
        base_s = step_s(lk_closed_form_run, &m);
        m.backward_s *= 0.9;
        ck_assert_double_le(step_s(lk_closed_form_run, &m), base_s + 1e-8);
        m.backward_s /= 0.9;
        colls[k].cost_s *= 0.9;
        ck_assert_double_le(step_s(lk_closed_form_run, &m), base_s + 1e-8);
        colls[k].cost_s /= 0.9;
        colls[k].behind *= 1.1;
        ck_assert_double_ge(step_s(lk_closed_form_run, &m), base_s - 1e-8);
    }
}
END_TEST

SUITE(behind, c)
{
    tcase_add_test(c, two_timings_tell);
    tcase_add_test(c, never_less_than_nothing);
    tcase_add_loop_test(c, a_step_by_hand, 0, LK_COUNT(rows));
    tcase_add_test(c, more_speed_is_never_slower);
}
