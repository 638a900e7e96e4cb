/*
 * What a comparison chooses does not depend on how it is asked: the order of lists changes nothing,
 * an axis without effect has a gain of exactly 0, the best is no machine, and the superlatives of
 * the sentences are the minima of the points.
 *
 * LOCKSTEP_CASES=10000 build/test_lockstep choices tries as many; the default is quick.
 */
#include "base/array.h"
#include "base/rng.h"
#include "sim/planning/plan.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/said.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

enum { CASES = 200, VALUES = 3, DRAWS = 10 };

struct question {
    struct sim_world *w;
    struct lk_axis_value values[LK_AXIS_COUNT][VALUES];
    struct lk_plan_request plan;
    struct lk_forecast_request q;
};

static void ask_for(struct question *q, enum lk_axis a, size_t i, const char *word)
{
    ck_assert_msg(lk_axis_parse(a, word, &q->values[a][i]) == LK_OK, "%s", lk_error_text());
    q->q.axes[a].v = q->values[a];
    q->q.axes[a].n = i + 1;
}

/* Each axis, with words from which a question takes some. */
static const struct {
    enum lk_axis axis;
    const char *words[VALUES];
} offers[] = {
    {LK_AXIS_ACCUMULATION, {"1", "2", "8"}},
    {LK_AXIS_BUCKET_CAP, {"1MiB", "4MiB", "25MiB"}},
    {LK_AXIS_LOCAL_BATCH, {"4", "8", "16"}},
    {LK_AXIS_SHARDING, {"ddp", "zero1", "zero3"}},
    {LK_AXIS_SLOW_RANK, {"none", "1:1.2", "50:1.1"}},
    {LK_AXIS_NIC_BANDWIDTH, {"x1", "x2", "x0.5"}},
};

static void question_init(struct question *q, uint64_t number, bool target)
{
    struct lk_rng g = lk_rng_init(23, number);

    *q = (struct question){.w = sim_world_shared(number % SIM_WORLDS),
                           .q = {.level = 0.9, .draws = DRAWS, .seed = 1, .compare = true}};
    q->q.anyway = true; /* what contradicts a random world is no matter here */
    ask_for(q, LK_AXIS_GPUS, 0, "8");
    for (int k = 0; k < 2; k++) {
        size_t a = lk_rng_below(&g, LK_COUNT(offers)), n = 2 + lk_rng_below(&g, VALUES - 1);

        for (size_t i = 0; i < n; i++)
            ask_for(q, offers[a].axis, i, offers[a].words[i]);
    }
    q->plan = (struct lk_plan_request){.noise_scale = 30 + 1000 * lk_rng_uniform(&g),
                                       .target_samples = 1e6,
                                       .price_per_hour = 2,
                                       .cost_factor = 1.5};
    q->q.plan = target ? &q->plan : NULL;
}

static void turn_lists(struct question *q)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        for (size_t i = 0, n = q->q.axes[a].n; i < n / 2; i++) {
            struct lk_axis_value v = q->values[a][i];

            q->values[a][i] = q->values[a][n - 1 - i];
            q->values[a][n - 1 - i] = v;
        }
}

static void answer(struct question *q, struct sim_answer *out)
{
    ck_assert_msg(sim_whatif(&q->w->job, &q->w->cluster, &q->q, out) == LK_OK, "%s",
                  lk_error_text());
}

/* Return the point of a forecast with the verdict "best" of the machine as it is; NULL: none. */
static const struct lk_forecast_point *best_of(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].gain.verdict == LK_VERDICT_BEST)
            return &f->points[i];
    return NULL;
}

START_TEST(the_order_of_lists_changes_nothing)
{
    for (uint64_t k = 0; k < cases_or(CASES); k++) {
        struct question q;
        struct sim_answer a, b;
        size_t bests[2] = {0};

        question_init(&q, k, _i);
        answer(&q, &a);
        turn_lists(&q);
        answer(&q, &b);
        ck_assert_uint_eq(a.forecast.n_points, b.forecast.n_points);
        for (size_t i = 0; i < a.forecast.n_points; i++)
            for (size_t j = 0; j < b.forecast.n_points; j++) {
                const struct lk_forecast_point *x = &a.forecast.points[i],
                                               *y = &b.forecast.points[j];

                if (x->step_s != y->step_s || !lk_config_equal(&x->config, &y->config))
                    continue;
                bests[0] += x->gain.verdict == LK_VERDICT_BEST;
                bests[1] += y->gain.verdict == LK_VERDICT_BEST;
                ck_assert_msg(x->gain.ratio == y->gain.ratio, "case %llu: a gain of %g, then %g",
                              (unsigned long long)k, x->gain.ratio, y->gain.ratio);
            }
        ck_assert_msg(bests[0] == bests[1], "case %llu: %zu best, then %zu", (unsigned long long)k,
                      bests[0], bests[1]);
        ck_assert_msg(!best_of(&a.forecast) == !best_of(&b.forecast), "case %llu",
                      (unsigned long long)k);
        sim_answer_fini(&a);
        sim_answer_fini(&b);
    }
}
END_TEST

/* A rank that is not there, a network that is not used, a factor of 1; with some of them others. */
static const struct {
    enum lk_axis axis;
    const char *word, *gpus;
} without_effect[] = {
    {LK_AXIS_SLOW_RANK, "50:1.1", "8"},    {LK_AXIS_SLOW_RANK, "3:1", "8"},
    {LK_AXIS_NIC_BANDWIDTH, "x1", "8"},    {LK_AXIS_NIC_BANDWIDTH, "x0.5", "1"},
    {LK_AXIS_INTER_LATENCY, "x3", "1"},    {LK_AXIS_SLOW_LINK, "9:2", "8"},
    {LK_AXIS_BUCKET_CAP, "1MiB", "1"},     {LK_AXIS_SHARDING, "zero3", "1"},
    {LK_AXIS_OVERLAP_SLOWDOWN, "x2", "1"}, {LK_AXIS_GPUS_PER_NODE, "1", "8"},
    {LK_AXIS_GRAD_DTYPE, "float32", "8"},  {LK_AXIS_COMPRESSION, "none", "8"},
    {LK_AXIS_ACCUMULATION, "1", "8"},      {LK_AXIS_SHARDING, "ddp", "8"},
    {LK_AXIS_OVERLAP, "full", "8"},
};

START_TEST(an_axis_without_effect_gains_nothing)
{
    for (uint64_t k = (uint64_t)_i; k < cases_or(CASES); k += LK_COUNT(without_effect)) {
        struct question q;
        struct sim_answer a;

        question_init(&q, k / LK_COUNT(without_effect), false);
        memset(q.q.axes, 0, sizeof q.q.axes);
        ask_for(&q, LK_AXIS_GPUS, 0, without_effect[_i].gpus);
        ask_for(&q, without_effect[_i].axis, 0, without_effect[_i].word);
        answer(&q, &a);
        ck_assert_uint_eq(a.forecast.n_points, 1);
        ck_assert_double_eq(a.forecast.points[0].gain.ratio, 1);
        ck_assert_double_eq(a.forecast.points[0].gain.lo, 1);
        ck_assert_double_eq(a.forecast.points[0].gain.hi, 1);
        ck_assert_uint_eq(a.gains.n_machines, 0);
        for (size_t i = 0; i < a.gains.n_effects; i++)
            ck_assert(a.gains.effects[i].gain.ratio == 1 && a.gains.effects[i].gain.lo == 1 &&
                      a.gains.effects[i].gain.hi == 1);
        sim_answer_fini(&a);
    }
}
END_TEST

/* One rank shards and reduces nothing: its schemes are one point, with micro-batches, too. */
START_TEST(one_rank_has_one_scheme)
{
    static const char *const schemes[] = {"ddp", "zero1", "zero3"};
    struct question q;
    struct sim_answer a;
    size_t n = 0;

    question_init(&q, 1, false);
    memset(q.q.axes, 0, sizeof q.q.axes);
    ask_for(&q, LK_AXIS_GPUS, 0, "1");
    ask_for(&q, LK_AXIS_ACCUMULATION, 0, "4");
    for (size_t i = 0; i < LK_COUNT(schemes); i++)
        ask_for(&q, LK_AXIS_SHARDING, i, schemes[i]);
    answer(&q, &a);
    for (size_t i = 0; i < a.forecast.n_points; i++)
        n += a.forecast.points[i].config.accumulation == 4;
    ck_assert_uint_eq(n, 1);
    sim_answer_fini(&a);
}
END_TEST

/* A repeat whose steps are so many times as long as another's contradicts it, or is within noise.
 */
static const double repeats[] = {1 / 1.4, 1.05, 1.4};

START_TEST(repeats_that_contradict_each_other_are_told)
{
    struct lk_job_run *last;
    struct question q;
    struct sim_answer a;

    question_init(&q, 0, false);
    q.w = sim_world_shared(SIM_WORLDS + (size_t)_i);
    sim_truth_add_run(&q.w->truth, &q.w->job, 2, 8, 77);
    last = &q.w->job.runs[q.w->job.n_runs - 1];
    for (size_t i = 0; i < last->n_steps; i++)
        last->step_s[i] *= repeats[_i];
    answer(&q, &a);
    ck_assert_int_eq(forecast_says(&a.forecast, "2 GPUs that repeat each other") != NULL,
                     fabs(log(repeats[_i])) > log(1.25));
    sim_answer_fini(&a);
}
END_TEST

/* Return the number behind words of the answer. */
static double told(const struct lk_forecast *f, const char *words)
{
    const char *line = forecast_says(f, words), *at = line ? strstr(line, "asked for: ") : NULL;

    return at ? strtod(at + strlen("asked for: "), NULL) : NAN;
}

START_TEST(minima_in_words_are_those_of_the_points)
{
    for (uint64_t k = 0; k < cases_or(CASES); k++) {
        double time_h = INFINITY, cost = INFINITY;
        struct question q;
        struct sim_answer a;

        question_init(&q, k, true);
        q.q.compare = _i;
        ask_for(&q, LK_AXIS_GPUS, 0, "2");
        ask_for(&q, LK_AXIS_GPUS, 1, "8");
        ask_for(&q, LK_AXIS_GPUS, 2, "64");
        answer(&q, &a);
        for (size_t i = 0; i < a.forecast.n_points; i++) {
            time_h = fmin(time_h, a.forecast.points[i].plan.time_to_target_h);
            cost = fmin(cost, a.forecast.points[i].plan.cost_to_target);
        }
        ck_assert_msg(fabs(told(&a.forecast, "Time to the target is least") / time_h - 1) < 1e-3 &&
                          fabs(told(&a.forecast, "Cost to the target is least") / cost - 1) < 1e-3,
                      "case %llu: %g h and %g are least, told are %g and %g", (unsigned long long)k,
                      time_h, cost, told(&a.forecast, "Time to the target is least"),
                      told(&a.forecast, "Cost to the target is least"));
        sim_answer_fini(&a);
    }
}
END_TEST

/* Eight micro-batches a step give more samples/s and reach the target later: the noise scale says
 * so, and the best is by time to the target; without it, the steps are not compared. */
START_TEST(the_objective_is_named)
{
    struct question q;
    struct sim_answer a;

    question_init(&q, 0, _i);
    memset(q.q.axes, 0, sizeof q.q.axes);
    q.plan.noise_scale = 20;
    ask_for(&q, LK_AXIS_GPUS, 0, "64");
    ask_for(&q, LK_AXIS_ACCUMULATION, 0, "1");
    ask_for(&q, LK_AXIS_ACCUMULATION, 1, "8");
    answer(&q, &a);
    ck_assert_double_gt(a.forecast.points[1].throughput_per_s,
                        a.forecast.points[0].throughput_per_s);
    ck_assert_int_eq(a.forecast.points[0].gain.verdict, LK_VERDICT_BEST);
    ck_assert_int_eq(a.forecast.points[1].gain.verdict, LK_VERDICT_NONE);
    ck_assert_ptr_nonnull(forecast_says(&a.forecast, _i ? "by time to the target"
                                                        : "by throughput at 512 samples a step"));
    ck_assert((forecast_says(&a.forecast, "whatever a step learns: accumulation 8") == NULL) ==
              (_i == 1));
    sim_answer_fini(&a);
}
END_TEST

/* A slow rank is priced, a network is compared, and neither is the best. */
START_TEST(machines_are_compared_and_damages_priced)
{
    struct question q;
    struct sim_answer a;

    question_init(&q, 0, false);
    memset(q.q.axes, 0, sizeof q.q.axes);
    ask_for(&q, LK_AXIS_GPUS, 0, "8");
    ask_for(&q, LK_AXIS_SLOW_RANK, 0, "3:1.5");
    ask_for(&q, LK_AXIS_NIC_BANDWIDTH, 0, "x1");
    ask_for(&q, LK_AXIS_NIC_BANDWIDTH, 1, "x4");
    answer(&q, &a);
    ck_assert_uint_eq(a.gains.n_machines, 2);
    ck_assert_ptr_nonnull(forecast_says(&a.forecast, "slow-rank 3:1.5"));
    ck_assert_ptr_nonnull(forecast_says(&a.forecast, "% of the throughput ("));
    ck_assert_ptr_null(forecast_says(&a.forecast, "Best"));
    sim_answer_fini(&a);
}
END_TEST

SUITE(choices, c)
{
    tcase_add_loop_test(c, the_order_of_lists_changes_nothing, 0, 2);
    tcase_add_test(c, one_rank_has_one_scheme);
    tcase_add_loop_test(c, an_axis_without_effect_gains_nothing, 0, (int)LK_COUNT(without_effect));
    tcase_add_loop_test(c, repeats_that_contradict_each_other_are_told, 0, LK_COUNT(repeats));
    tcase_add_loop_test(c, minima_in_words_are_those_of_the_points, 0, 2);
    tcase_add_loop_test(c, the_objective_is_named, 0, 2);
    tcase_add_test(c, machines_are_compared_and_damages_priced);
}
