/* Forecasts, back-tests and what-ifs over a source of evidence whose numbers are known. */
#include "base/array.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/forecast.h"
#include "tests/rigs/said.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 100, PER_NODE = 4 };

/* A step takes 1 s a sample of the micro-batch, and a share more for each node beyond the first. */
struct toy {
    double a_node, fixed_s;
    bool no_draws, no_reference;
    int prepared, predicted, estimated;
};

static double step_s(const struct toy *t, const struct lk_config *c)
{
    return t->fixed_s + c->local_batch * c->accumulation * (1 + t->a_node * (c->nodes - 1));
}

static enum lk_status prepare(void *self, struct lk_forecast *out)
{
    struct toy *t = self;

    t->prepared++;
    return lk_strdup(&out->job, "toy");
}

/* Draw i is off by as much for every configuration. */
static enum lk_status at(void *self, const struct lk_config *c, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct toy *t = self;
    struct lk_prediction p = {.config = *c, .step_s = step_s(t, c), .batch_extrapolation = 1};

    t->predicted++;
    p.lo_s = 0.9 * p.step_s;
    p.hi_s = 1.1 * p.step_s;
    p.measured_s = p.measured_lo_s = p.measured_hi_s = NAN;
    p.losses_s[LK_LOSS_IDEAL] = 0.75;
    p.losses_s[LK_LOSS_WIRE] = p.step_s - 0.75;
    if (!t->no_draws) {
        LK_TRY(lk_alloc(&p.draws_s, DRAWS, sizeof *p.draws_s));
        for (; p.n_draws < DRAWS; p.n_draws++)
            p.draws_s[p.n_draws] = p.step_s * (0.9 + 0.2 * (double)p.n_draws / (DRAWS - 1));
    }
    *out = p;
out:
    return st;
}

static enum lk_status estimate(void *self, const struct lk_config *c, double *out_step_s)
{
    struct toy *t = self;

    t->estimated++;
    *out_step_s = step_s(t, c);
    return LK_OK;
}

static enum lk_status set_reference(const void *self, struct lk_config *c)
{
    const struct toy *t = self;

    c->world_size = t->no_reference ? 0 : 2;
    c->nodes = 1;
    return LK_OK;
}

/* Predicts 10 % too much; has no prediction of 16 GPUs. */
static enum lk_status predict_held_out(void *self, const struct lk_config *c, enum lk_held held,
                                       struct lk_prediction *out)
{
    (void)held;
    if (c->world_size == 16)
        return lk_fail(LK_EEVIDENCE, "nothing is known of 16");
    *out = (struct lk_prediction){.config = *c, .step_s = 1.1 * step_s(self, c)};
    out->lo_s = out->hi_s = out->step_s;
    return LK_OK;
}

static const struct lk_evidence_ops ops = {
    .prepare = prepare,
    .at = at,
    .estimate = estimate,
    .predict_held_out = predict_held_out,
    .set_reference = set_reference,
};

static struct lk_evidence_source source(struct toy *t)
{
    static const struct lk_cluster cluster = {.gpus_per_node = PER_NODE};

    return (struct lk_evidence_source){
        .ops = &ops,
        .self = t,
        .cluster = &cluster,
        .current = {.world_size = 1, .nodes = 1, .local_batch = 2, .accumulation = 1}};
}

static const struct lk_axis_value world_sizes[] = {
    {.count = 1}, {.count = 8}, {.count = 16}, {.count = 8}};

static struct lk_forecast_request request(void)
{
    return (struct lk_forecast_request){
        .axes[LK_AXIS_GPUS] = {world_sizes, LK_COUNT(world_sizes)}, .level = 0.9, .draws = DRAWS};
}

static void run(struct toy *t, const struct lk_forecast_request *q, struct lk_forecast *out)
{
    struct lk_evidence_source e = source(t);

    ck_assert_msg(lk_forecast_run(&e, q, out, NULL) == LK_OK, "%s", lk_error_text());
}

/* A count given twice is one point; the reference of all points is predicted once. */
START_TEST(each_configuration_is_predicted_once)
{
    struct toy t = {.a_node = 0.5};
    struct lk_forecast_request q = request();
    struct lk_forecast f;

    run(&t, &q, &f);
    ck_assert_uint_eq(f.n_points, 3);
    ck_assert_int_eq(t.prepared, 1);
    ck_assert_int_eq(t.predicted, 4);
    ck_assert_int_eq(f.points[1].config.nodes, 2);
    ck_assert_double_eq_tol(f.points[0].efficiency, 1, 1e-12);
    ck_assert_double_eq_tol(f.points[1].efficiency, 1 / 1.5, 1e-12);
    ck_assert_double_eq_tol(f.points[2].throughput_per_s, 16 / 2.5, 1e-12);
    ck_assert(forecast_says(&f, "most is lost to blocking communication"));
    lk_forecast_fini(&f);
}
END_TEST

/* Draws that err alike leave the efficiency exact; without draws the step's interval is taken. */
START_TEST(efficiency_is_paired_where_draws_are)
{
    struct toy t = {.a_node = 0.5, .no_draws = _i == 1, .no_reference = _i == 2};
    struct lk_forecast_request q = request();
    struct lk_forecast f;
    const struct lk_forecast_point *p;

    run(&t, &q, &f);
    p = &f.points[1];
    if (_i == 2) {
        ck_assert_double_nan(p->efficiency);
        ck_assert_double_nan(p->efficiency_hi);
    } else {
        double off = _i ? 0.1 : 0;

        ck_assert_double_eq_tol(p->efficiency, 1 / 1.5, 1e-12);
        ck_assert_double_eq_tol(p->efficiency_lo, 1 / 1.5 / (1 + off), 1e-12);
        ck_assert_double_eq_tol(p->efficiency_hi, 1 / 1.5 / (1 - off), 1e-12);
    }
    lk_forecast_fini(&f);
}
END_TEST

START_TEST(a_global_batch_is_split)
{
    struct toy t = {.a_node = 0.5};
    struct lk_forecast_request q = request();
    struct lk_evidence_source e = source(&t);
    struct lk_forecast f;

    q.global_batch = 32;
    run(&t, &q, &f);
    for (size_t i = 0; i < f.n_points; i++)
        ck_assert_double_eq(lk_config_samples(&f.points[i].config), 32);
    ck_assert_int_eq(f.points[0].config.accumulation, 16);
    /* On 2 GPUs a step of 32 samples takes 16 s, on 16 with the penalty of 4 nodes 5. */
    ck_assert_double_eq_tol(f.points[2].efficiency, 16. / 5 * 2 / 16, 1e-12);
    ck_assert(!forecast_says(&f, "knee"));
    lk_forecast_fini(&f);
    q.global_batch = 21;
    ck_assert_int_eq(lk_forecast_run(&e, &q, &f, NULL), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "21 does not split into"));
}
END_TEST

/* n nodes deliver n / (1 + a (n - 1)): the second node adds half of the first at a = 1 / 3. */
START_TEST(the_knee_is_where_a_node_adds_half)
{
    struct toy t = {.a_node = _i ? 0.34 : 0.001};
    struct lk_forecast_request q = request();
    struct lk_forecast f;

    run(&t, &q, &f);
    ck_assert(forecast_says(&f, _i ? "The knee is at 1 node (4 GPUs)" : "No knee within 4 nodes"));
    ck_assert_int_eq(f.knee_gpus, _i ? 4 : 0);
    ck_assert_int_gt(t.estimated, 1);
    lk_forecast_fini(&f);
}
END_TEST

/* Batches of which none is faster; without draws the difference has the error of the less certain.
 */
START_TEST(the_best_is_named_with_its_certainty)
{
    static const struct lk_axis_value batches[] = {{.count = 2}, {.count = 4}};
    struct toy t = {.no_draws = _i == 1};
    struct lk_forecast_request q = request();
    struct lk_forecast f;

    q.axes[LK_AXIS_LOCAL_BATCH].v = batches;
    q.axes[LK_AXIS_LOCAL_BATCH].n = LK_COUNT(batches);
    run(&t, &q, &f);
    ck_assert_uint_eq(f.n_points, 6);
    ck_assert_int_eq(f.points[3].config.local_batch, 4);
    ck_assert_ptr_nonnull(
        forecast_says(&f, "Most samples/s of those asked for at 8 GPUs: local batch 2, "
                          "0.0 % more than the next, within the model's error "
                          "(50 % likely)"));
    lk_forecast_fini(&f);
}
END_TEST

/* Each larger count is held out, then each batch; the baselines know only what is left. */
START_TEST(any_source_is_held_out)
{
    struct toy t = {.a_node = 0.5};
    struct lk_measured rows[] = {
        {.config = {.world_size = 2, .nodes = 1, .local_batch = 2, .accumulation = 1}},
        {.config = {.world_size = 8, .nodes = 2, .local_batch = 2, .accumulation = 1}},
        {.config = {.world_size = 8, .nodes = 2, .local_batch = 4, .accumulation = 1}},
        {.config = {.world_size = 8, .nodes = 2, .local_batch = 8, .accumulation = 1}},
        {.config = {.world_size = 16, .nodes = 4, .local_batch = 16, .accumulation = 1}}};
    struct lk_evidence_source e = source(&t);
    struct lk_backtests b;
    struct lk_forecast f = {0};

    e.measured = rows;
    e.n_measured = LK_COUNT(rows);
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        rows[i].step_s = step_s(&t, &rows[i].config);
    ck_assert_int_eq(lk_backtest_run(&e, 0.9, 0, &b), LK_OK);
    ck_assert_uint_eq(b.n, 7); /* 2 GPUs, three times 8; batches 2, 4, 8 */
    ck_assert_str_eq(b.refusal, "nothing is known of 16");
    ck_assert_str_eq(b.items[1].test.what, "8 GPUs from 2");
    ck_assert_double_eq_tol(b.items[1].test.predicted_s, 1.1 * rows[1].step_s, 1e-12);
    ck_assert_double_eq_tol(b.items[1].baseline_s[LK_BASELINE_PROPORTIONAL], 2, 1e-12);
    ck_assert_double_nan(b.items[2].baseline_s[LK_BASELINE_PROPORTIONAL]); /* no batch of 4 */
    ck_assert_str_eq(b.items[5].test.what, "local batch 4 from 2, 8, 16");
    ck_assert_double_eq_tol(b.items[5].baseline_s[LK_BASELINE_LINE], rows[2].step_s, 1e-12);
    ck_assert_int_eq(lk_backtest_add(&b, &f), LK_OK);
    ck_assert_uint_eq(f.n_backtests, 7);
    lk_backtests_fini(&b);
    ck_assert_int_eq(lk_backtest_run(&e, 0.9, 2, &b), LK_OK); /* rows 2 and, refused, 4 */
    ck_assert_uint_eq(b.n, 3);
    ck_assert_int_eq(b.items[0].config.local_batch, 4);
    lk_forecast_fini(&f);
    lk_backtests_fini(&b);
}
END_TEST

/* A cap, an accumulation and each pair of both are held out where another is left that tells it: on
 * the most GPUs, of one rank its accumulation alone. What is left is named. */
START_TEST(settings_are_held_out)
{
    static const char *const said[] = {"2 GPUs from 1",
                                       "bucket cap 1.00 KiB from 2.00 KiB",
                                       "bucket cap 2.00 KiB from 1.00 KiB",
                                       "accumulation 1 from 2",
                                       "accumulation 2 from 1",
                                       "bucket cap 1.00 KiB with accumulation 1",
                                       "bucket cap 2.00 KiB with accumulation 1",
                                       "bucket cap 1.00 KiB with accumulation 2"};
    struct toy t = {.a_node = 0.5};
    struct lk_config one = {.world_size = 1, .nodes = 1, .local_batch = 2, .accumulation = 1},
                     two = {.world_size = 2, .nodes = 2, .local_batch = 2, .accumulation = 1};
    struct lk_measured rows[] = {
        {.config = one}, {.config = one}, {.config = two}, {.config = two}, {.config = two}};
    struct lk_evidence_source e = source(&t);
    struct lk_backtests b;
    size_t found = 0;

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        rows[i].config.cap_bytes = 1024;
    rows[3].config.cap_bytes = 2048;
    rows[1].config.accumulation = rows[4].config.accumulation = 2;
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        rows[i].step_s = step_s(&t, &rows[i].config);
    e.measured = rows;
    e.n_measured = LK_COUNT(rows);
    ck_assert_int_eq(lk_backtest_run(&e, 0.9, 0, &b), LK_OK);
    for (size_t i = 0; i < b.n; i++)
        for (size_t k = 0; k < LK_COUNT(said); k++)
            found += !strcmp(b.items[i].test.what, said[k]);
    /* The scale thrice, the batch once; of settings only the one whose cap and accumulation are
     * both left with others. */
    ck_assert_uint_eq(b.n, 3 + 1 + 2 + 2 + 1);
    ck_assert_uint_eq(found, b.n - 1);
    ck_assert_double_eq_tol(b.items[4].baseline_s[LK_BASELINE_PROPORTIONAL], rows[3].step_s, 1e-12);
    ck_assert_double_eq_tol(b.items[6].baseline_s[LK_BASELINE_PROPORTIONAL], rows[4].step_s / 2,
                            1e-12);
    lk_backtests_fini(&b);
}
END_TEST

/* Without draws a gain is as uncertain as the less certain of both points; an axis that the source
 * knows nothing of is refused. */
START_TEST(a_what_if_without_draws)
{
    struct toy t = {.no_draws = true};
    struct lk_evidence_source e = source(&t);
    struct lk_axis_value gpus_8 = {.count = 8, .text = "8"};
    struct lk_axis_value batches[] = {{.count = 2, .text = "2"}, {.count = 4, .text = "4"}};
    struct lk_forecast_request q = {.level = 0.9, .draws = DRAWS, .seed = 1, .compare = true};
    const double z = 1.6448536269514722, sd = hypot(log(1.1 / 0.9) / 2 / z, 0.025);
    struct lk_forecast w;

    q.axes[LK_AXIS_GPUS].v = &gpus_8;
    q.axes[LK_AXIS_GPUS].n = 1;
    q.axes[LK_AXIS_LOCAL_BATCH].v = batches;
    q.axes[LK_AXIS_LOCAL_BATCH].n = 2;
    t.fixed_s = 1;
    ck_assert_msg(lk_forecast_run(&e, &q, &w, NULL) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(w.n_points, 2);
    ck_assert_double_eq(w.points[0].gain.hi, 1); /* the current one itself */
    ck_assert_double_eq_tol(w.points[1].gain.ratio, 2 * 3. / 5, 1e-12);
    ck_assert_double_eq_tol(w.points[1].gain.lo, 1.2 * exp(-z * sd), 1e-6);
    ck_assert_double_eq_tol(w.points[1].gain.hi, 1.2 * exp(z * sd), 1e-6);
    ck_assert_double_eq_tol(w.points[1].gain.certainty, 0.5 * erfc(-log(1.2) / sd / sqrt(2)), 1e-6);
    ck_assert_double_eq_tol(w.points[1].efficiency, 1, 1e-12);
    lk_forecast_fini(&w);
    q.axes[LK_AXIS_PERIOD] = q.axes[LK_AXIS_LOCAL_BATCH];
    ck_assert_int_eq(lk_forecast_run(&e, &q, &w, NULL), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "--period takes the step model"));
}
END_TEST

SUITE(evidence, c)
{
    tcase_add_test(c, each_configuration_is_predicted_once);
    tcase_add_loop_test(c, efficiency_is_paired_where_draws_are, 0, 3);
    tcase_add_test(c, a_global_batch_is_split);
    tcase_add_loop_test(c, the_knee_is_where_a_node_adds_half, 0, 2);
    tcase_add_loop_test(c, the_best_is_named_with_its_certainty, 0, 2);
    tcase_add_test(c, any_source_is_held_out);
    tcase_add_test(c, settings_are_held_out);
    tcase_add_test(c, a_what_if_without_draws);
}
