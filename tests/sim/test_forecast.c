/* Forecasts against a known truth: coverage, evidence, refusal, back-tests, baselines, knee. */
#include "base/array.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/predictor.h"
#include "sim/prior.h"
#include "tests/rigs/said.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static struct lk_predictor_options options(uint64_t seed)
{
    return (struct lk_predictor_options){
        .level = 0.9, .draws = 100, .seed = seed, .scale_error = NAN};
}

static struct lk_config config(const struct lk_job *j, int world_size, int batch)
{
    return (struct lk_config){.world_size = world_size,
                              .nodes = world_size,
                              .local_batch = batch,
                              .accumulation = 1,
                              .reduce = LK_REDUCTION_LAST,
                              .first_bytes = j->first_bytes,
                              .cap_bytes = j->cap_bytes};
}

static void predict_one(const struct sim_world *w, uint64_t seed, const struct lk_config *c,
                        struct lk_prediction *out)
{
    struct lk_predictor_options o = options(seed);
    struct lk_predictor *p = NULL;

    ck_assert_int_eq(lk_predictor_create(&w->job, &w->cluster, &o, &p), LK_OK);
    ck_assert_int_eq(lk_predictor_at(p, c, out), LK_OK);
    lk_predictor_destroy(p);
}

/*
 * Three runs differ by 5 %; a fourth is forecast. Their sd has two degrees of freedom, and the
 * interval must reflect that.
 */
START_TEST(few_runs_hold_their_share)
{
    int inside = 0, worlds = 200;

    for (int i = 0; i < worlds; i++) {
        struct sim_world w;
        struct lk_prediction p;
        struct lk_config c;
        double truth;

        w.truth = sim_truth_default;
        w.truth.run_sd = 0.05;
        sim_truth_cluster(&w.truth, (uint64_t)i, &w.cluster);
        sim_truth_job(&w.truth, (uint64_t)i, &w.job);
        for (uint64_t k = 0; k < 3; k++)
            sim_truth_add_run(&w.truth, &w.job, 1, 8, 7000 + 10 * (uint64_t)i + k);
        c = config(&w.job, 1, 8);
        predict_one(&w, (uint64_t)i, &c, &p);
        truth = sim_truth_run(&w.truth, &w.job, 1, 8, 90000 + (uint64_t)i, NULL);
        inside += truth >= p.lo_s && truth <= p.hi_s;
        lk_prediction_fini(&p);
        sim_world_fini(&w);
    }
    ck_assert_msg(inside >= worlds * 85 / 100, "%d of %d", inside, worlds);
    ck_assert_msg(inside <= worlds * 95 / 100, "%d of %d", inside, worlds);
}
END_TEST

/* Without a model error in the truth, on 20 machines, the estimate itself is near. */
START_TEST(the_estimate_is_near)
{
    double sum = 0;

    for (int i = 0; i < 20; i++) {
        struct sim_world w;
        struct lk_prediction p;
        struct lk_config c;
        double truth = 0;

        sim_world_init(&w, (uint64_t)(300 + i), 2);
        c = config(&w.job, 8, 8);
        predict_one(&w, 1, &c, &p);
        for (int k = 0; k < 10; k++)
            truth +=
                sim_truth_run(&w.truth, &w.job, 8, 8, (uint64_t)(9000 + 10 * i + k), NULL) / 10;
        sum += p.step_s / truth - 1;
        /* A run's deviation (1 %), the anchor's rank (1 %), points (2 % of half the step). */
        ck_assert_double_lt(fabs(p.step_s / truth - 1), 0.06);
        lk_prediction_fini(&p);
        sim_world_fini(&w);
    }
    ck_assert_double_lt(fabs(sum / 20), 0.015); /* 1.7 % / sqrt(20), four times */
}
END_TEST

START_TEST(a_measured_configuration_is_met)
{
    struct sim_world w;
    struct lk_prediction p;
    struct lk_config c;
    double mean = 0;

    sim_world_init(&w, 1, 2);
    c = config(&w.job, 2, 8);
    predict_one(&w, 1, &c, &p);
    for (size_t i = 0; i < w.job.runs[1].n_steps; i++)
        mean += w.job.runs[1].step_s[i] / (double)w.job.runs[1].n_steps;
    ck_assert_double_eq_tol(p.step_s, mean, 1e-12);
    ck_assert_double_eq_tol(p.measured_s, mean, 1e-12);
    ck_assert_double_lt(p.measured_lo_s, mean);
    ck_assert_double_gt(p.measured_hi_s, mean);
    ck_assert_int_eq(p.evidence, LK_EVIDENCE_MEASURED);
    ck_assert_str_eq(p.evidence_text, "measured");
    lk_prediction_fini(&p);
    sim_world_fini(&w);
}
END_TEST

START_TEST(losses_sum_to_the_step)
{
    static const int world_sizes[] = {1, 2, 8, 64};
    struct sim_world w;
    struct lk_prediction p;
    struct lk_config c;
    double sum = 0;

    sim_world_init(&w, 2, 2);
    for (size_t r = 0; r < w.job.n_runs; r++)
        for (size_t i = 0; i < w.job.runs[r].n_steps; i++)
            w.job.runs[r].step_s[i] *= 1.3;
    c = config(&w.job, world_sizes[_i], 8);
    predict_one(&w, 1, &c, &p);
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        sum += p.losses_s[l];
    ck_assert_double_eq_tol(sum, p.step_s, 1e-12);
    ck_assert_int_eq(p.anchor_world_size, world_sizes[_i] == 1 ? 1 : 2);
    /* The runs take 1.3 times the model's time, that of one rank too: a rank's own work takes as
     * much longer, what several take beyond that is communication, and nothing is unexplained. */
    ck_assert_double_gt(p.anchor_factor, 1.15);
    ck_assert_double_lt(p.anchor_factor, 1.35);
    ck_assert_double_eq_tol(p.losses_s[LK_LOSS_REST], 0, 0.01 * p.step_s);
    if (world_sizes[_i] == 1)
        ck_assert_double_eq(p.losses_s[LK_LOSS_SLOW_RANK], 0);
    lk_prediction_fini(&p);
    sim_world_fini(&w);
}
END_TEST

/* A farther extrapolation has a relatively wider interval. */
START_TEST(the_interval_grows_with_the_reach)
{
    static const int world_sizes[] = {2, 4, 16, 128};
    struct sim_world w;
    double last = 0;

    sim_world_init(&w, 3, 2);
    for (size_t i = 0; i < LK_COUNT(world_sizes); i++) {
        struct lk_config c = config(&w.job, world_sizes[i], 8);
        struct lk_prediction p;

        predict_one(&w, 1, &c, &p);
        ck_assert_double_gt((p.hi_s - p.lo_s) / p.step_s, last);
        last = (p.hi_s - p.lo_s) / p.step_s;
        if (world_sizes[i] > 2)
            ck_assert_ptr_nonnull(strstr(p.evidence_text, "on gpus"));
        lk_prediction_fini(&p);
    }
    sim_world_fini(&w);
}
END_TEST

/* ---- The whole forecast ---- */

static struct lk_forecast_request request(const struct lk_axis_value *world_sizes, size_t n)
{
    return (struct lk_forecast_request){
        .axes[LK_AXIS_GPUS] = {world_sizes, n}, .level = 0.9, .draws = 60, .seed = 1};
}

START_TEST(a_grid_names_its_best)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 8}},
                                      batches[] = {{.count = 4}, {.count = 16}};
    static const struct lk_axis_value caps[] = {{.count = 1 << 20}, {.count = 16 << 20}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, 1);

    q.axes[LK_AXIS_LOCAL_BATCH].v = batches;
    q.axes[LK_AXIS_LOCAL_BATCH].n = 2;
    q.axes[LK_AXIS_BUCKET_CAP].v = caps;
    q.axes[LK_AXIS_BUCKET_CAP].n = 2;
    sim_world_init(&w, 7, 2);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_uint_eq(f.n_points, 4);
    ck_assert_ptr_nonnull(
        forecast_says(&f, "Most samples/s of those asked for at 8 GPUs: local batch 16"));
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

/* Two caps that differ by less than the model resolves are within the error, as for a what-if. */
START_TEST(a13_the_best_is_as_sure_as_the_model)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 8}};
    static const struct lk_axis_value caps[] = {{.count = 16 << 20}, {.count = 17 << 20}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, 1);

    q.axes[LK_AXIS_BUCKET_CAP].v = caps;
    q.axes[LK_AXIS_BUCKET_CAP].n = 2;
    sim_world_init(&w, 7, 2);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_ptr_nonnull(forecast_says(&f, "% faster than the next, within the model's error"));
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

/* All back-tests of one jump err alike: they are one test. */
START_TEST(a13_a_jump_is_one_test)
{
    struct lk_backtest_item items[4] = {{.config.world_size = 2, .scale_share = 0.5},
                                        {.config.world_size = 2, .scale_share = 0.5},
                                        {.config.world_size = 4, .scale_share = 0.5},
                                        {.config.world_size = 2, .scale_share = 0.5}};
    const struct lk_backtests b = {.items = items, .n = LK_COUNT(items)};
    const double errors[] = {0.01, 0.02, 0.05, 0.03};
    const double apart = 2e-4; /* squares of a configuration's and a run's own error, 1 % each */
    size_t n;
    double squares = 9 * 0.04 * 0.04 * 0.25; /* the prior counts as nine, of half a step */

    for (size_t i = 0; i < b.n; i++) {
        items[i].test.predicted_s = 1;
        items[i].test.measured_s = exp(errors[i]);
    }
    squares += (0 + 0.02 * 0.02 - apart + 0.03 * 0.03 - apart) / 3 + 0.05 * 0.05 - apart;
    ck_assert_double_eq_tol(lk_backtest_scale_error(&b, LK_PRIOR_MEASURED_SCALE_ERROR, &n),
                            sqrt(squares / (11 * 0.25)), 1e-12);
    ck_assert_uint_eq(n, 2);
}
END_TEST

/* Runs of two configurations deviate apart: their ratio is less certain than each. */
START_TEST(a13_runs_deviate_apart)
{
    struct sim_world w;
    struct lk_prediction p[2];
    double squares = 0;

    sim_world_init(&w, 4, 1);
    sim_truth_add_run(&w.truth, &w.job, 1, 16, 2);
    for (int i = 0; i < 2; i++) {
        struct lk_config c = config(&w.job, 1, i ? 16 : 8);

        predict_one(&w, 1, &c, &p[i]);
    }
    for (size_t i = 0; i < p[0].n_draws; i++)
        squares += pow(log(p[0].draws_s[i] / p[1].draws_s[i] * p[1].step_s / p[0].step_s), 2);
    ck_assert_double_gt(sqrt(squares / (double)p[0].n_draws),
                        1.2 * lk_prior_value(LK_PRIOR_RUN_SD));
    lk_prediction_fini(&p[0]);
    lk_prediction_fini(&p[1]);
    sim_world_fini(&w);
}
END_TEST

/* Batches 4 to 16 are measured: 64 is a row with its grade, but is never named the best. */
START_TEST(a_batch_outside_is_graded)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 8}},
                                      batches[] = {{.count = 4}, {.count = 16}, {.count = 64}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, 1);

    q.axes[LK_AXIS_LOCAL_BATCH].v = batches;
    q.axes[LK_AXIS_LOCAL_BATCH].n = 3;
    sim_world_init(&w, 14, 2);
    w.cluster.preset = _i == 1; /* which its points do not ask */
    ck_assert_msg(sim_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(f.points[2].evidence_text, "extrapolated x4 on gpus, x4 on local batch");
    ck_assert_ptr_nonnull(
        forecast_says(&f, "Most samples/s of those asked for at 8 GPUs: local batch 16"));
    ck_assert_ptr_nonnull(forecast_says(&f, "1 row is extrapolated on local batch"));
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

START_TEST(same_seed_same_numbers)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 2}, {.count = 16}};
    struct sim_world w;
    struct lk_forecast a, b;
    struct lk_forecast_request q = request(world_sizes, 2);

    sim_world_init(&w, 8, 1);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &a), LK_OK);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &b), LK_OK);
    for (size_t i = 0; i < a.n_points; i++) {
        ck_assert_double_eq(a.points[i].step_s, b.points[i].step_s);
        ck_assert_double_eq(a.points[i].step_lo_s, b.points[i].step_lo_s);
        ck_assert_double_eq(a.points[i].efficiency_hi, b.points[i].efficiency_hi);
    }
    lk_forecast_fini(&a);
    lk_forecast_fini(&b);
    sim_world_fini(&w);
}
END_TEST

START_TEST(no_evidence_is_refused)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 4}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, 1);

    sim_world_init(&w, 9, 1);
    w.cluster.n_points = 0;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "all_reduce"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "lockstep calibrate"));
    w.cluster.n_points = 8;
    /* One host with one device: four ranks would share it, which was not measured. */
    w.cluster.nodes = 1;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "co-location"));
    sim_world_fini(&w);
}
END_TEST

/* With costs of 3 ranks only, too few for a fit, the run of 1 is the anchor instead of that of 2.
 * The run of 2 itself is reproduced. */
START_TEST(an_anchor_without_cost_is_passed_over)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 2}, {.count = 3}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_prediction p;
    struct lk_forecast_request q = request(world_sizes, 2);
    struct lk_config c;
    size_t n_points;

    sim_world_init(&w, 13, 2);
    n_points = w.cluster.n_points;
    w.cluster.n_points = 2;
    for (size_t i = 0; i < w.cluster.n_points; i++)
        w.cluster.points[i].ranks = w.cluster.points[i].nodes = 3;
    c = config(&w.job, 3, 8);
    predict_one(&w, 1, &c, &p);
    ck_assert_int_eq(p.anchor_world_size, 1);
    ck_assert_int_eq(p.costless_world_size, 2);
    lk_prediction_fini(&p);
    ck_assert_msg(sim_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_ptr_nonnull(forecast_says(&f, "runs of 2 GPUs are not used"));
    /* A measured configuration needs no cost; only its losses are unknown. */
    ck_assert_int_eq(f.points[0].evidence, LK_EVIDENCE_MEASURED);
    ck_assert_double_eq_tol(f.points[0].step_s, f.points[0].measured_step_s, 1e-12);
    ck_assert_double_nan(f.points[0].losses_s[LK_LOSS_WIRE]);
    ck_assert_int_eq(lk_forecast_largest_loss(&f.points[0]), LK_LOSS_IDEAL);
    ck_assert_ptr_nonnull(forecast_says(&f, "most is lost to"));
    lk_forecast_fini(&f);
    w.cluster.n_points = n_points;
    sim_world_fini(&w);
}
END_TEST

/* ---- Back-tests ---- */

static enum lk_status backtests(const struct sim_world *w, const struct lk_predictor_options *o,
                                struct lk_backtests *out)
{
    struct lk_forecast_request q = {.level = o->level, .draws = o->draws, .seed = o->seed};
    struct lk_evidence_source source;
    enum lk_status st;

    ck_assert_int_eq(lk_step_evidence(&w->job, &w->cluster, &q, &source), LK_OK);
    st = lk_backtest_run(&source, o->level, 0, out);
    source.ops->close(source.self);
    return st;
}

START_TEST(larger_runs_and_batches_are_held_out)
{
    struct sim_world w;
    struct lk_backtests b;
    struct lk_predictor_options o = options(1);
    struct lk_table *t = NULL;
    size_t n_scale;

    sim_world_init(&w, 11, 8);
    sim_truth_add_run(&w.truth, &w.job, 1, 4, 501);
    sim_truth_add_run(&w.truth, &w.job, 1, 16, 502);
    ck_assert_int_eq(backtests(&w, &o, &b), LK_OK);
    ck_assert_uint_eq(b.n, 6); /* 2, 4, 8 GPUs; batches 4, 8, 16 */
    ck_assert_str_eq(b.items[2].test.what, "8 GPUs from 1, 2, 4");
    ck_assert_str_eq(b.items[4].test.what, "local batch 8 from 4, 16");
    for (size_t i = 0; i < b.n; i++)
        ck_assert_double_eq_tol(b.items[i].test.predicted_s / b.items[i].test.measured_s, 1, 0.12);
    /* Proportional in scale is "the step stays as long"; the line needs two counts. */
    ck_assert_double_nan(b.items[0].baseline_s[LK_BASELINE_LINE]);
    ck_assert_double_lt(b.items[2].baseline_s[LK_BASELINE_PROPORTIONAL],
                        b.items[2].test.measured_s);
    ck_assert_double_gt(lk_backtest_scale_error(&b, LK_PRIOR_MEASURED_SCALE_ERROR, &n_scale),
                        0.005);
    ck_assert_double_lt(lk_backtest_scale_error(&b, LK_PRIOR_MEASURED_SCALE_ERROR, &n_scale), 0.08);
    ck_assert_uint_eq(n_scale, 3);
    ck_assert_int_eq(lk_backtest_table(&b, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 6);
    ck_assert_str_eq(lk_table_cell(t, 2, "held_out")->text, "8 GPUs from 1, 2, 4");
    lk_table_destroy(t);
    lk_backtests_fini(&b);
    sim_world_fini(&w);
}
END_TEST

/* The held-out run must not be used: an absurd value changes its
 * measurement, not its prediction. */
START_TEST(the_held_out_run_is_not_seen)
{
    struct sim_world w;
    struct lk_backtests before, after;
    struct lk_predictor_options o = options(1);

    sim_world_init(&w, 12, 2);
    ck_assert_int_eq(backtests(&w, &o, &before), LK_OK);
    for (size_t i = 0; i < w.job.runs[1].n_steps; i++)
        w.job.runs[1].step_s[i] *= 7;
    w.job.runs[1].rank_compute_s[0] *= 3;
    ck_assert_int_eq(backtests(&w, &o, &after), LK_OK);
    ck_assert_double_eq(before.items[0].test.predicted_s, after.items[0].test.predicted_s);
    ck_assert_double_eq(before.items[0].test.lo_s, after.items[0].test.lo_s);
    ck_assert_double_eq_tol(after.items[0].test.measured_s / before.items[0].test.measured_s, 7,
                            1e-9);
    lk_backtests_fini(&before);
    lk_backtests_fini(&after);
    sim_world_fini(&w);
}
END_TEST

START_TEST(baselines_by_hand)
{
    /* 1 GPU 100/s, 2 GPUs 190/s; to 4: 380; 100 + 90 x 3 = 370; Amdahl: 1/100 = a + b, 2/190 =
     * a + 2 b: b = 1/1900, a = 18/1900; 4 / (22/1900) = 345.45. */
    static const struct lk_scaling_point points[] = {{.config.world_size = 1, .throughput = 100},
                                                     {.config.world_size = 2, .throughput = 190}};
    static const struct lk_scaling_point four = {.config.world_size = 4};

    ck_assert_double_eq_tol(lk_baseline_throughput(LK_BASELINE_PROPORTIONAL, points, 2, &four), 380,
                            1e-9);
    ck_assert_double_eq_tol(lk_baseline_throughput(LK_BASELINE_LINE, points, 2, &four), 370, 1e-9);
    ck_assert_double_eq_tol(lk_baseline_throughput(LK_BASELINE_AMDAHL, points, 2, &four),
                            7600.0 / 22, 1e-6);
    ck_assert_double_nan(lk_baseline_throughput(LK_BASELINE_LINE, points, 1, &four));
    ck_assert_double_nan(lk_baseline_throughput(LK_BASELINE_PROPORTIONAL, points, 0, &four));
}
END_TEST

static enum lk_status estimate(void *self, const struct lk_config *c, double *out_step_s)
{
    return lk_predictor_estimate(self, c, out_step_s);
}

/* On a slower network the knee comes earlier. */
START_TEST(the_knee_comes_earlier_on_slow_networks)
{
    static const double rates[] = {0.02e9, 0.2e9, 20e9};
    static const struct lk_evidence_ops ops = {.estimate = estimate};
    int last = 0;

    for (size_t i = 0; i < LK_COUNT(rates); i++) {
        struct sim_world w;
        struct lk_predictor_options o = options(1);
        struct lk_predictor *p = NULL;
        struct lk_config c;
        int nodes;

        w.truth = sim_truth_default;
        w.truth.rate_Bps = rates[i];
        w.truth.alpha_s = i == 2 ? 1e-6 : 200e-6;
        sim_truth_cluster(&w.truth, 1, &w.cluster);
        sim_truth_job(&w.truth, 1, &w.job);
        c = config(&w.job, 1, 8);
        ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
        ck_assert_int_eq(
            lk_knee_find(
                &(struct lk_evidence_source){.ops = &ops, .self = p, .cluster = &w.cluster}, &c, 64,
                &nodes),
            LK_OK);
        ck_assert_int_ge(nodes, last);
        last = nodes;
        if (i == 0)
            ck_assert_int_lt(nodes, 4);
        if (i == 2)
            ck_assert_int_eq(nodes, 64);
        lk_predictor_destroy(p);
        sim_world_fini(&w);
    }
}
END_TEST

SUITE(forecast, c)
{
    tcase_add_test(c, few_runs_hold_their_share);
    tcase_add_test(c, the_estimate_is_near);
    tcase_add_test(c, a_measured_configuration_is_met);
    tcase_add_loop_test(c, losses_sum_to_the_step, 0, 4);
    tcase_add_test(c, the_interval_grows_with_the_reach);
    tcase_add_test(c, a_grid_names_its_best);
    tcase_add_test(c, a13_the_best_is_as_sure_as_the_model);
    tcase_add_test(c, a13_a_jump_is_one_test);
    tcase_add_test(c, a13_runs_deviate_apart);
    tcase_add_loop_test(c, a_batch_outside_is_graded, 0, 2);
    tcase_add_test(c, same_seed_same_numbers);
    tcase_add_test(c, no_evidence_is_refused);
    tcase_add_test(c, an_anchor_without_cost_is_passed_over);
    tcase_add_test(c, larger_runs_and_batches_are_held_out);
    tcase_add_test(c, the_held_out_run_is_not_seen);
    tcase_add_test(c, baselines_by_hand);
    tcase_add_test(c, the_knee_comes_earlier_on_slow_networks);
}
