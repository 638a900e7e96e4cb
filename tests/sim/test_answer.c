/* The sentences that forecasts begin with, on points made by hand. */
#include "base/array.h"
#include "facts/forecast.h"
#include "facts/forecast_answer.h"
#include "sim/forecast/backtest.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Make a point of n GPUs: 10 ms a GPU-step, and its efficiency with interval. */
static struct lk_forecast_point point(int gpus, double efficiency, double lo, double hi)
{
    struct lk_forecast_point p = {.config = {.world_size = gpus,
                                             .nodes = 1,
                                             .local_batch = 8,
                                             .accumulation = 1,
                                             .cap_bytes = 1 << 20},
                                  .step_s = 0.01,
                                  .step_lo_s = 0.009,
                                  .step_hi_s = 0.012,
                                  .throughput_per_s = 800.0 * gpus,
                                  .efficiency = efficiency,
                                  .efficiency_lo = lo,
                                  .efficiency_hi = hi,
                                  .evidence = LK_EVIDENCE_EXTRAPOLATED,
                                  .evidence_text = "extrapolated x4 on gpus"};

    return p;
}

static void make(struct lk_forecast *f, const char *reference, const struct lk_forecast_point *p,
                 size_t n)
{
    *f = (struct lk_forecast){.level = 0.9};
    ck_assert_int_eq(lk_strdup(&f->job, "job"), LK_OK);
    ck_assert_int_eq(lk_strdup(&f->cluster, "ethernet-25g"), LK_OK);
    ck_assert_int_eq(lk_strdup(&f->reference, reference), LK_OK);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *p),
                         LK_OK);
        f->points[f->n_points++] = p[i];
    }
}

/* The answer of one point, by what is known of it. */
static const struct {
    const char *reference;
    int gpus;
    double efficiency, lo, hi;
    const char *says;
} points[] = {
    {"1 GPU, same local batch and accumulation", 64, 0.867, 0.49, 1,
     "64 GPUs reach 87 % of linear scaling from 1 GPU (49 to 100): 10.0 ms a step (9.00 to 12.0), "
     "51,200 samples/s."},
    {"8 GPUs, the same global batch 64", 16, 0.0231, 0.0129, 0.1,
     "16 GPUs reach 2.3 % of linear scaling from 8 GPUs at a fixed global batch (1.3 to 10): 10.0 "
     "ms a step (9.00 to 12.0), 12,800 samples/s."},
    {"none: no run of this batch", 2, NAN, NAN, NAN,
     "2 GPUs take 10.0 ms a step (9.00 to 12.0): 1,600 samples/s."},
    {"1 GPU, same local batch and accumulation", 1, 1, 1, 1,
     "1 GPU takes 10.0 ms a step (9.00 to 12.0): 800 samples/s."},
    {"the smallest count, as forecast", 4, 0.995, 0.9, 1,
     "4 GPUs reach 100 % of linear scaling from the smallest count (90 to 100): 10.0 ms a step "
     "(9.00 to 12.0), 3,200 samples/s."},
};

START_TEST(a_point_is_a_sentence)
{
    struct lk_forecast_point p =
        point(points[_i].gpus, points[_i].efficiency, points[_i].lo, points[_i].hi);
    struct lk_forecast f;

    make(&f, points[_i].reference, &p, 1);
    ck_assert_int_eq(lk_answer_point(&f, 0), LK_OK);
    ck_assert_uint_eq(f.n_answer, 2);
    ck_assert_str_eq(f.answer[0], points[_i].says);
    ck_assert_str_eq(f.answer[1], "Evidence: extrapolated x4 on gpus.");
    lk_forecast_fini(&f);
}
END_TEST

/* One replica of several GPUs is several GPUs. */
START_TEST(a_replica_is_counted_in_gpus)
{
    struct lk_forecast_point p = point(8, 1, 1, 1);
    struct lk_forecast f;

    p.config.tensor_parallel = 4;
    p.config.pipeline_parallel = 2;
    make(&f, "8 GPUs, same local batch and accumulation", &p, 1);
    ck_assert_int_eq(lk_answer_point(&f, 0), LK_OK);
    ck_assert_str_eq(f.answer[0], "8 GPUs take 10.0 ms a step (9.00 to 12.0): 6,400 samples/s.");
    lk_forecast_fini(&f);
}
END_TEST

/* An end that is the estimate is a limit, and is said to be one. */
static const struct {
    double lo_s, hi_s;
    const char *says;
} sides[] = {
    {0.01, 0.012, "10.0 ms a step (10.0 to 12.0; no less: what is not known can only lengthen it)"},
    {0.009, 0.01, "10.0 ms a step (9.00 to 10.0; no more: what is not known can only shorten it)"},
    {0.00999, 0.0101, "10.0 ms a step (9.99 to 10.1), 51"},
    {0.01, 0.01, "10.0 ms a step (10.0 to 10.0), 51"},
};

START_TEST(an_interval_of_one_side_says_so)
{
    struct lk_forecast_point p = point(64, 0.9, 0.8, 1);
    struct lk_forecast f;

    p.step_lo_s = sides[_i].lo_s;
    p.step_hi_s = sides[_i].hi_s;
    make(&f, "1 GPU", &p, 1);
    ck_assert_int_eq(lk_answer_point(&f, 0), LK_OK);
    ck_assert_msg(strstr(f.answer[0], sides[_i].says) != NULL, "%s", f.answer[0]);
    lk_forecast_fini(&f);
}
END_TEST

/* Loss, back-tests, a faster count, and the configuration are said where they are known. */
START_TEST(what_is_known_is_said)
{
    struct lk_forecast_point p[3] = {point(2, 0.9, 0.8, 1), point(8, 0.2, 0.1, 0.3),
                                     point(8, 0.1, 0.1, 0.2)};
    struct lk_backtest tests[] = {{"2 GPUs from 1", 0.0105, 0.009, 0.011, 0.01},
                                  {"4 GPUs from 1, 2", 0.02, 0.019, 0.021, 0.016}};
    struct lk_forecast f;

    p[0].throughput_per_s = 9000;
    p[1].config.accumulation = 4;
    p[1].evidence = LK_EVIDENCE_PRESET;
    strcpy(p[1].evidence_text, "preset, two networks; of one; extrapolated x15625 on local batch");
    strcpy(p[1].reach_text, "; extrapolated x15625 on local batch");
    p[1].losses_s[LK_LOSS_IDEAL] = 0.002;
    p[1].losses_s[LK_LOSS_WIRE] = 0.006;
    p[1].losses_s[LK_LOSS_REST] = 0.002;
    make(&f, "1 GPU", p, LK_COUNT(p));
    ck_assert_int_eq(lk_array_grow(&f.backtests, &f.backtests_capacity, 2, sizeof *tests), LK_OK);
    memcpy(f.backtests, tests, sizeof tests);
    f.n_backtests = 2;
    ck_assert_int_eq(lk_answer_point(&f, 1), LK_OK);
    ck_assert_uint_eq(f.n_answer, 3);
    ck_assert_int_eq(
        strncmp(f.answer[0], "8 GPUs with accumulation 4 reach 20 %", strlen("8 GPUs with acc")),
        0);
    ck_assert_str_eq(f.answer[1], "Fewer are faster: 2 GPUs, with 9,000 samples/s.");
    ck_assert_str_eq(f.answer[2], "Evidence: datasheet numbers of ethernet-25g; "
                                  "extrapolated x15625 on local batch; held-out runs: 1 of 2 "
                                  "inside the 90 % interval, mean error 15.0 %.");
    ck_assert_ptr_nonnull(
        strstr(f.answer[0], "; most is lost to blocking communication, 60 % of the step."));
    lk_forecast_fini(&f);
}
END_TEST

static const struct {
    double v;
    const char *text;
} numbers[] = {{0, "0"},        {0.01234, "0.0123"}, {528.3, "528"},         {999.6, "1,000"},
               {1000, "1,000"}, {15911.2, "15,900"}, {1234567, "1,230,000"}, {NAN, "nan"},
               {1024, "1,024"}, {524288, "524,288"}};

START_TEST(rates_have_three_digits_and_counts_all)
{
    char text[32];

    ck_assert_str_eq(lk_answer_number(numbers[_i].v, text, sizeof text), numbers[_i].text);
}
END_TEST

START_TEST(back_tests_are_a_sentence)
{
    struct lk_backtest_item items[2] = {
        {.test = {"", 0.0105, 0.009, 0.011, 0.01}, .baseline_s = {0.011, NAN, NAN, NAN}},
        {.test = {"", 0.02, 0.019, 0.021, 0.016}, .baseline_s = {0.016, NAN, NAN, NAN}}};
    struct lk_backtests b = {.items = items, .n = 2, .level = 0.9};
    char *text;

    ck_assert_int_eq(lk_backtest_answer(&b, &text), LK_OK);
    ck_assert_str_eq(text, "1 of 2 held-out runs lie inside the 90 % interval; mean error 15.0 %, "
                           "worst 25.0 %; simple baselines: proportional 5.0 %.");
    free(text);
    b.n = 1;
    ck_assert_int_eq(lk_backtest_answer(&b, &text), LK_OK);
    ck_assert_str_eq(text, "1 of 1 held-out runs lies inside the 90 % interval; mean error 5.0 %, "
                           "worst 5.0 %; simple baselines: proportional 10.0 %.");
    free(text);
}
END_TEST

SUITE(answer, t)
{
    tcase_add_loop_test(t, an_interval_of_one_side_says_so, 0, (int)LK_COUNT(sides));
    tcase_add_loop_test(t, a_point_is_a_sentence, 0, (int)LK_COUNT(points));
    tcase_add_test(t, a_replica_is_counted_in_gpus);
    tcase_add_test(t, what_is_known_is_said);
    tcase_add_loop_test(t, rates_have_three_digits_and_counts_all, 0, (int)LK_COUNT(numbers));
    tcase_add_test(t, back_tests_are_a_sentence);
}
