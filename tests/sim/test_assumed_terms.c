/* What no measurement varied is not known: it is drawn, and a note names it. */
#include "base/array.h"
#include "base/stats.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/predictor.h"
#include "sim/prior.h"
#include "tests/rigs/said.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static struct lk_forecast_request request(const struct lk_axis_value *world_sizes, size_t n)
{
    return (struct lk_forecast_request){
        .axes[LK_AXIS_GPUS] = {world_sizes, n}, .level = 0.9, .draws = 200, .seed = 1};
}

/* One batch was timed: others are answered, 64 times fewer samples, too, each as unsure as public
 * series are, and its compute is no bound. */
START_TEST(one_batch_answers_others_widely)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 1}},
                                      batches[] = {{.count = 64}, {.count = 8}, {.count = 1}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, 1);
    double fixed_s;
    size_t n_runs;

    q.axes[LK_AXIS_LOCAL_BATCH].v = batches;
    q.axes[LK_AXIS_LOCAL_BATCH].n = 3;
    sim_world_init(&w, 14, 0);
    n_runs = w.job.n_runs;
    w.job.n_runs = 0;
    w.job.compute[0].local_batch = 64;
    w.job.n_compute = 1;
    ck_assert_msg(sim_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
    fixed_s = w.job.compute[0].optimizer_s.value + w.job.compute[0].gap_s.value;
    ck_assert_uint_eq(f.n_points, 3);
    ck_assert_str_eq(f.points[1].evidence_text, "extrapolated x8 on local batch");
    ck_assert_str_eq(f.points[2].evidence_text, "extrapolated x64 on local batch");
    for (int i = 1; i < 3; i++) {
        double doublings = 3 * i, sd = doublings * lk_prior_value(LK_PRIOR_ONE_BATCH_ERROR);

        double compute_s = f.points[i].step_s - fixed_s;

        ck_assert_double_lt(f.points[i].step_lo_s - fixed_s, compute_s * exp(-sd));
        ck_assert_double_gt(f.points[i].step_hi_s - fixed_s, compute_s * exp(sd));
    }
    w.job.n_compute = 3;
    w.job.n_runs = n_runs;
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

/* A run of one rank that took 1.5 times the rows' time says nothing of communication: where that is
 * almost all of the step, a forecast stays where it was. */
START_TEST(one_rank_anchors_no_communication)
{
    struct sim_world w;
    struct lk_forecast f[2];
    static const struct lk_axis_value world_sizes[] = {{.count = 64}};
    struct lk_forecast_request q = request(world_sizes, 1);
    double own_s;

    sim_world_init(&w, 14, 1);
    for (size_t i = 0; i < w.cluster.n_points; i++)
        w.cluster.points[i].time_s.value *= 100;
    q.anyway = true; /* a run that is half as long again contradicts the other batches' compute */
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f[0]), LK_OK);
    for (size_t i = 0; i < w.job.runs[0].n_steps; i++)
        w.job.runs[0].step_s[i] *= 1.5;
    own_s = lk_stats_mean(w.job.runs[0].step_s, w.job.runs[0].n_steps) / 3;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f[1]), LK_OK);
    ck_assert_double_gt(f[0].points[0].step_s, 20 * own_s);
    ck_assert_double_gt(f[1].points[0].step_s, f[0].points[0].step_s);
    ck_assert_double_lt(f[1].points[0].step_s, f[0].points[0].step_s + 1.01 * own_s);
    lk_forecast_fini(&f[0]);
    lk_forecast_fini(&f[1]);
    sim_world_fini(&w);
}
END_TEST

static double relative_width(const struct lk_forecast_point *p)
{
    return log(p->step_hi_s / p->step_lo_s);
}

/* Runs of one accumulation do not say what others save; runs of two do, between them. Without the
 * optimizer's time less is known. */
START_TEST(an_accumulation_that_no_run_had_is_not_known)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 1}},
                                      accumulations[] = {{.count = 1}, {.count = 2}, {.count = 8}};
    struct sim_world w;
    struct lk_forecast f[3];
    struct lk_forecast_request q = request(world_sizes, 1);
    double fixed_s;

    q.axes[LK_AXIS_ACCUMULATION].v = accumulations;
    q.axes[LK_AXIS_ACCUMULATION].n = 3;
    sim_world_init(&w, 14, 1);
    fixed_s = w.job.compute[0].optimizer_s.value;
    ck_assert_double_gt(fixed_s, 0);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f[0]), LK_OK);
    for (size_t i = 0; i < w.job.n_compute; i++)
        w.job.compute[i].optimizer_s.value = w.job.compute[i].gap_s.value = 0;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f[1]), LK_OK);
    sim_truth_add_run(&w.truth, &w.job, 1, 8, 7);
    w.job.runs[w.job.n_runs - 1].config.accumulation = 8;
    for (size_t i = 0; i < w.job.runs[w.job.n_runs - 1].n_steps; i++)
        w.job.runs[w.job.n_runs - 1].step_s[i] *= 7.5;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f[2]), LK_OK);
    ck_assert_double_gt(relative_width(&f[0].points[2]), 0.05);
    ck_assert_double_lt(relative_width(&f[0].points[2]), 0.2);
    ck_assert_double_gt(relative_width(&f[1].points[1]), 0.2);
    ck_assert_double_gt(relative_width(&f[1].points[2]), 0.4);
    ck_assert_double_lt(relative_width(&f[2].points[1]), 0.1);
    ck_assert_ptr_nonnull(forecast_says(&f[1], "no run had these accumulations"));
    ck_assert_ptr_null(forecast_says(&f[2], "no run had these accumulations"));
    for (int i = 0; i < 3; i++)
        lk_forecast_fini(&f[i]);
    sim_world_fini(&w);
}
END_TEST

/* No run has a scheme other than plain DDP: what its collectives and its hook take is drawn, the
 * step is less known the more of it they are. */
START_TEST(a_scheme_that_no_run_had_is_not_known)
{
    static const struct {
        enum lk_sharding sharding;
        enum lk_compression compression;
    } schemes[] = {{LK_SHARDING_DDP, LK_COMPRESSION_NONE},
                   {LK_SHARDING_ZERO3, LK_COMPRESSION_NONE},
                   {LK_SHARDING_DDP, LK_COMPRESSION_POWERSGD}};
    struct sim_world w;
    double widths[LK_COUNT(schemes)];
    struct lk_predictor_options o = {.level = 0.9, .draws = 200, .seed = 1, .scale_error = 0};

    sim_world_init(&w, 14, 1);
    for (size_t i = 0; i < LK_COUNT(schemes); i++) {
        struct lk_predictor *p;
        struct lk_prediction at;
        struct lk_config c = lk_config_current(&w.job);

        c.world_size = c.nodes = 4;
        c.local_batch = 8;
        c.sharding = schemes[i].sharding;
        c.compression = schemes[i].compression;
        c.powersgd_rank = c.compression == LK_COMPRESSION_POWERSGD;
        ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
        ck_assert_msg(lk_predictor_at(p, &c, &at) == LK_OK, "%s", lk_error_text());
        widths[i] = log(at.hi_s / at.lo_s);
        ck_assert_int_eq(at.assumed.shard, i == 1);
        ck_assert_int_eq(at.assumed.hook, i == 2);
        lk_prediction_fini(&at);
        lk_predictor_destroy(p);
    }
    ck_assert_double_gt(widths[1], 2 * widths[0]);
    sim_world_fini(&w);
}
END_TEST

SUITE(assumed_terms, c)
{
    tcase_add_test(c, a_scheme_that_no_run_had_is_not_known);
    tcase_add_test(c, an_accumulation_that_no_run_had_is_not_known);
    tcase_add_test(c, one_rank_anchors_no_communication);
    tcase_add_test(c, one_batch_answers_others_widely);
}
