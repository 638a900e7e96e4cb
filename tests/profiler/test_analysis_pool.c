/* Repetitions become one result: means over the runs, their spread, the findings that they share.
 */
#include "base/array.h"
#include "base/rng.h"
#include "profiler/analysis/analysis_pool.h"
#include "profiler/analysis/run_set.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

enum { RUNS_MAX = 3 };

/* Repetitions of a configuration, analysed. */
struct repeated {
    struct lk_run runs[RUNS_MAX];
    struct lk_analysis analyses[RUNS_MAX];
    size_t n;
    struct lk_pool pool;
};

static void repeat(const struct step_model *changes, size_t n, struct repeated *out)
{
    *out = (struct repeated){.n = n};
    for (size_t i = 0; i < n; i++) {
        const struct step_model m = step_model_default(changes[i]);
        struct lk_trace *traces = NULL;

        must(step_model_run(&m, &traces, NULL));
        must(lk_run_take("run", traces, (size_t)m.ranks, &out->runs[i]));
        must(lk_analyze(&out->runs[i], NULL, 0, &out->analyses[i]));
    }
    must(lk_pool(out->analyses, n, &out->pool));
}

static void repeated_fini(struct repeated *r)
{
    lk_pool_fini(&r->pool);
    for (size_t i = 0; i < r->n; i++) {
        lk_analysis_fini(&r->analyses[i]);
        lk_run_fini(&r->runs[i]);
    }
}

/* Numbers are means over the runs, between the least and the most of them, and the waterfall still
 * sums to the step: within the rounding of eleven sums of doubles. */
START_TEST(means)
{
    static const struct step_model changes[] = {{.seed = 1, .forward_s = 0.005},
                                                {.seed = 2, .forward_s = 0.006},
                                                {.seed = 3, .forward_s = 0.010}};
    struct repeated r;
    double sum = 0, step = 0;

    repeat(changes, LK_COUNT(changes), &r);
    for (size_t i = 0; i < r.n; i++)
        step += r.analyses[i].step_s / (double)r.n;
    for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
        sum += r.pool.losses_s[loss].mean;
    ck_assert_double_eq_tol(r.pool.step_s.mean, step, 1e-12);
    ck_assert_double_eq_tol(sum, step, 1e-12);
    ck_assert_double_eq(r.pool.step_s.lo, r.analyses[0].step_s);
    ck_assert_double_eq(r.pool.step_s.hi, r.analyses[2].step_s);
    ck_assert_int_eq(lk_pool_worst(&r.pool), LK_LOSS_WIRE);
    repeated_fini(&r);
}
END_TEST

/* With a reference, its step is that of linear scaling, and its share of the step the efficiency;
 * the rows sum from it to the step, and none of communication is negative. One rank has none. */
START_TEST(rows_sum_from_linear_to_the_step)
{
    for (uint64_t i = 0; i < 100; i++) {
        struct lk_rng g = lk_rng_init(31, i);
        const struct step_model few = step_model_default(
            (struct step_model){.seed = 2 * i + 1,
                                .ranks = 1 + (int)lk_rng_below(&g, 3),
                                .bandwidth_Bps = 1e9 * (1 + lk_rng_uniform(&g))});
        const struct step_model many = step_model_default(
            (struct step_model){.seed = 2 * i + 2,
                                .ranks = 4 + (int)lk_rng_below(&g, 3),
                                .bandwidth_Bps = 1e9 * (1 + lk_rng_uniform(&g))});
        const struct step_model *models[] = {&few, &many};
        struct lk_run runs[2];
        struct lk_analysis a[2];
        struct lk_pool pool;
        const struct lk_run *ref = &runs[0];
        struct lk_config config[2];
        double sum, linear_s;

        for (int k = 0; k < 2; k++) {
            struct lk_trace *traces = NULL;

            must(step_model_run(models[k], &traces, NULL));
            must(lk_run_take("run", traces, (size_t)models[k]->ranks, &runs[k]));
            config[k] = (struct lk_config){
                .world_size = models[k]->ranks, .local_batch = 8, .accumulation = 1};
            must(lk_analyze(&runs[k], &ref, few.ranks > 1 && !k ? 0 : 1, &a[k]));
            assert_adds_up(&a[k]);
        }
        must(lk_pool(&a[1], 1, &pool));
        /* Weak scaling: a rank has the same samples in either step. Runs and forecasts divide so,
         * too: throughput(K) / (K throughput(1)). */
        ck_assert_double_eq_tol(pool.efficiency.mean, a[0].step_s / a[1].step_s, 1e-9);
        ck_assert_double_eq_tol(
            pool.efficiency.mean,
            lk_scaling_efficiency(&config[1], a[1].step_s, &config[0], a[0].step_s), 1e-9);
        linear_s = pool.losses_s[LK_LOSS_IDEAL].mean + pool.reference_own_s.mean;
        ck_assert_double_eq_tol(linear_s, a[0].step_s, 1e-9);
        sum = pool.reference_own_s.mean;
        for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
            sum += pool.losses_s[loss].mean;
        ck_assert_double_eq_tol(sum, a[1].step_s, 1e-9);
        for (int loss = LK_LOSS_LAUNCH; loss <= LK_LOSS_WIRE; loss++) {
            ck_assert_double_ge(pool.losses_s[loss].mean, 0);
            ck_assert(few.ranks > 1 || a[0].losses_s[loss] == 0);
        }
        lk_pool_fini(&pool);
        for (int k = 0; k < 2; k++) {
            lk_analysis_fini(&a[k]);
            lk_run_fini(&runs[k]);
        }
    }
}
END_TEST

/* A finding of two runs of three is there once, with its mean over all, and says so; what mending
 * it brings in efficiency is that of a step which is shorter by its cost. */
START_TEST(findings)
{
    static const struct step_model changes[] = {
        {.seed = 1, .slow = {0, 0.2}}, {.seed = 2}, {.seed = 3, .slow = {0, 0.3}}};
    const struct lk_pooled_finding *f;
    struct lk_table *t = NULL;
    struct repeated r;
    double ideal, step;

    repeat(changes, LK_COUNT(changes), &r);
    f = &r.pool.findings[0];
    ck_assert_uint_gt(r.pool.n_findings, 1);
    ck_assert_int_eq(f->is->id, LK_FINDING_SLOW_RANK);
    ck_assert_uint_eq(f->n_runs, 2);
    ck_assert_double_eq_tol(
        f->cost_s, (r.analyses[0].findings[0].cost_s + r.analyses[2].findings[0].cost_s) / 3,
        1e-12);
    ideal = r.pool.losses_s[LK_LOSS_IDEAL].mean;
    step = r.pool.step_s.mean;
    ck_assert_double_eq_tol(f->points, 100 * (ideal / (step - f->cost_s) - ideal / step), 1e-9);
    ck_assert_int_eq(r.pool.findings[1].is->id, LK_FINDING_LATE_RANK);
    ck_assert_int_eq(r.pool.findings[1].cause, 0);
    ck_assert_int_eq(r.pool.findings[1].depth, 1);
    must(lk_pool_table(&r.pool, LK_ANALYSIS_FINDINGS, &t));
    ck_assert_uint_eq(t->n_rows, r.pool.n_findings);
    ck_assert_double_eq(lk_table_cell(t, 0, "runs")->number, 2);
    lk_table_destroy(t);
    repeated_fini(&r);
}
END_TEST

/* A slow rank is one cause: the others wait for it through collectives that its compute covers, and
 * no finding of its own blames the network, the buckets or the overlap for that. */
START_TEST(slow_rank_is_one_cause)
{
    static const struct step_model change = {.slow = {0, 0.3}, .bandwidth_Bps = 1.2e9};
    struct repeated r;

    repeat(&change, 1, &r);
    for (size_t i = 0; i < r.pool.n_findings; i++)
        ck_assert_msg(!isnan(r.pool.findings[i].cost_s) == (i < 2), "%s",
                      r.pool.findings[i].is->text);
    ck_assert_int_eq(r.pool.findings[0].is->id, LK_FINDING_SLOW_RANK);
    ck_assert_int_eq(r.pool.findings[1].cause, 0);
    repeated_fini(&r);
}
END_TEST

/* Runs are repetitions if all but their seeds agrees. */
START_TEST(repetitions_agree)
{
    static const struct {
        struct step_model change;
        const char *key, *value;
        bool agree;
    } cases[] = {
        {{.seed = 7}, "bucket-cap", "1MiB", true},
        {{.seed = 1}, "seed", "9", true},
        {{.local_batch = 16}, "bucket-cap", "1MiB", false},
        {{.accumulation = 2}, "bucket-cap", "1MiB", false},
        {{.ranks = 4}, "bucket-cap", "1MiB", false},
        {{.seed = 1}, "bucket-cap", "2MiB", false},
        {{.seed = 1}, "precision", "bf16", false},
    };
    struct step_model changes[] = {{.seed = 1}, cases[_i].change};
    struct repeated r;

    repeat(changes, 2, &r);
    must(lk_run_info_config(&r.runs[0].traces[0].info, "bucket-cap", "1MiB"));
    if (strcmp(cases[_i].key, "bucket-cap") != 0)
        must(lk_run_info_config(&r.runs[1].traces[0].info, "bucket-cap", "1MiB"));
    must(lk_run_info_config(&r.runs[1].traces[0].info, cases[_i].key, cases[_i].value));
    ck_assert_int_eq(lk_pool_agree(&r.runs[0], &r.runs[1]), cases[_i].agree);
    ck_assert_int_eq(lk_pool_agree(&r.runs[1], &r.runs[0]), cases[_i].agree);
    repeated_fini(&r);
}
END_TEST

SUITE(analysis_pool, t)
{
    tcase_add_test(t, means);
    tcase_add_test(t, rows_sum_from_linear_to_the_step);
    tcase_add_test(t, findings);
    tcase_add_test(t, slow_rank_is_one_cause);
    tcase_add_loop_test(t, repetitions_agree, 0, 7);
}
