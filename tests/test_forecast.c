/* Forecasts against a known truth: coverage, evidence, refusal, back-tests, baselines, knee. */
#include "base/array.h"
#include "sim/backtest.h"
#include "sim/batch_curve.h"
#include "sim/forecast.h"
#include "sim/knee.h"
#include "sim/predictor.h"
#include "sim/prior.h"
#include "tests/sim_truth.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct sim_truth truth;
    struct lk_job job;
    struct lk_cluster cluster;
};

/* A machine and a job measured with runs of 1 and `largest` ranks. */
static void world_init(struct world *w, uint64_t seed, int largest)
{
    w->truth = sim_truth_default;
    sim_truth_cluster(&w->truth, seed, &w->cluster);
    sim_truth_job(&w->truth, seed, &w->job);
    sim_truth_add_run(&w->truth, &w->job, 1, 8, 1000 * seed + 1);
    for (int k = 2; k <= largest; k *= 2)
        sim_truth_add_run(&w->truth, &w->job, k, 8, 1000 * seed + (uint64_t)k);
}

static void world_fini(struct world *w)
{
    lk_job_fini(&w->job);
    lk_cluster_fini(&w->cluster);
}

static struct lk_predictor_options options(uint64_t seed)
{
    return (struct lk_predictor_options){
        .level = 0.9, .draws = 100, .seed = seed, .scale_error = NAN};
}

static struct lk_config config(const struct lk_job *j, int gpus, int batch)
{
    return (struct lk_config){.gpus = gpus,
                              .nodes = gpus,
                              .local_batch = batch,
                              .accumulation = 1,
                              .no_sync = true,
                              .first_bytes = j->first_bytes,
                              .cap_bytes = j->cap_bytes};
}

static void predict_one(const struct world *w, uint64_t seed, const struct lk_config *c,
                        struct lk_prediction *out)
{
    struct lk_predictor_options o = options(seed);
    struct lk_predictor *p = NULL;

    ck_assert_int_eq(lk_predictor_create(&w->job, &w->cluster, &o, &p), LK_OK);
    ck_assert_int_eq(lk_predictor_at(p, c, out), LK_OK);
    lk_predictor_destroy(p);
}

/* Student's t of 2 degrees of freedom, as the predictor assumes of its error of the scale. */
static double scale_error(struct lk_rng *g)
{
    return lk_rng_normal(g) / sqrt(lk_rng_exponential(g));
}

/*
 * 200 worlds, each measured at 1 and 2 ranks, forecast to 8; the truth there is a fresh run, off by
 * errors of the sizes that are assumed: of the model, and of collectives carried from 2 ranks. A
 * 90 % interval that is right holds 180 of them; the worlds are the same in every run of this test.
 */
START_TEST(the_interval_holds_its_share)
{
    int inside = 0, worlds = 200;

    for (int i = 0; i < worlds; i++) {
        struct world w;
        struct lk_prediction p;
        struct lk_rng g = lk_rng_init((uint64_t)i, 77);
        double off = lk_prior_value(LK_PRIOR_MEASURED_SCALE_ERROR) * 2, truth;
        double slower = exp(lk_prior_value(LK_PRIOR_CARRY_ERROR) * 2 * lk_rng_normal(&g));
        struct lk_config c;

        world_init(&w, (uint64_t)i, 2);
        c = config(&w.job, 8, 8);
        predict_one(&w, (uint64_t)i, &c, &p);
        w.truth.alpha_s *= slower;
        w.truth.rate_Bps /= slower;
        truth = sim_truth_run(&w.truth, &w.job, 8, 8, (uint64_t)(5000 + i), NULL) *
                exp(off * scale_error(&g));
        inside += truth >= p.lo_s && truth <= p.hi_s;
        lk_prediction_fini(&p);
        world_fini(&w);
    }
    ck_assert_msg(inside >= worlds * 85 / 100, "%d of %d", inside, worlds);
    ck_assert_msg(inside <= worlds * 95 / 100, "%d of %d", inside, worlds);
}
END_TEST

/*
 * Three runs that differ by 5 %, and a fourth: their sd is known from two degrees of freedom, and
 * the interval must say so.
 */
START_TEST(few_runs_hold_their_share)
{
    int inside = 0, worlds = 200;

    for (int i = 0; i < worlds; i++) {
        struct world w;
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
        world_fini(&w);
    }
    ck_assert_msg(inside >= worlds * 85 / 100, "%d of %d", inside, worlds);
    ck_assert_msg(inside <= worlds * 95 / 100, "%d of %d", inside, worlds);
}
END_TEST

/* Without a model error in the truth, 20 worlds: the estimate itself is near. */
START_TEST(the_estimate_is_near)
{
    double sum = 0;

    for (int i = 0; i < 20; i++) {
        struct world w;
        struct lk_prediction p;
        struct lk_config c;
        double truth = 0;

        world_init(&w, (uint64_t)(300 + i), 2);
        c = config(&w.job, 8, 8);
        predict_one(&w, 1, &c, &p);
        for (int k = 0; k < 10; k++)
            truth +=
                sim_truth_run(&w.truth, &w.job, 8, 8, (uint64_t)(9000 + 10 * i + k), NULL) / 10;
        sum += p.step_s / truth - 1;
        /* A run's deviation (1 %), the anchor's rank (1 %), points (2 % of half the step). */
        ck_assert_double_lt(fabs(p.step_s / truth - 1), 0.06);
        lk_prediction_fini(&p);
        world_fini(&w);
    }
    ck_assert_double_lt(fabs(sum / 20), 0.015); /* 1.7 % / sqrt(20), four times */
}
END_TEST

START_TEST(a_measured_configuration_is_met)
{
    struct world w;
    struct lk_prediction p;
    struct lk_config c;
    double mean = 0;

    world_init(&w, 1, 2);
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
    world_fini(&w);
}
END_TEST

START_TEST(losses_sum_to_the_step)
{
    static const int gpus[] = {1, 2, 8, 64};
    struct world w;
    struct lk_prediction p;
    struct lk_config c;
    double sum = 0;

    world_init(&w, 2, 2);
    for (size_t r = 0; r < w.job.n_runs; r++)
        for (size_t i = 0; i < w.job.runs[r].n_steps; i++)
            w.job.runs[r].step_s[i] *= 1.3;
    c = config(&w.job, gpus[_i], 8);
    predict_one(&w, 1, &c, &p);
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        sum += p.losses_s[l];
    ck_assert_double_eq_tol(sum, p.step_s, 1e-12);
    ck_assert_int_eq(p.anchor_gpus, gpus[_i] == 1 ? 1 : 2);
    /* The runs are 1.3 times as long as the model says, and none of that is a rest. */
    ck_assert_double_gt(fabs(p.anchor_factor - 1), 0.2);
    ck_assert_double_lt(fabs(p.losses_s[LK_LOSS_REST]), 0.03 * p.step_s);
    if (gpus[_i] == 1)
        ck_assert_double_eq(p.losses_s[LK_LOSS_SLOW_RANK], 0);
    lk_prediction_fini(&p);
    world_fini(&w);
}
END_TEST

/* The interval of a farther extrapolation is relatively wider. */
START_TEST(the_interval_grows_with_the_reach)
{
    static const int gpus[] = {2, 4, 16, 128};
    struct world w;
    double last = 0;

    world_init(&w, 3, 2);
    for (size_t i = 0; i < LK_COUNT(gpus); i++) {
        struct lk_config c = config(&w.job, gpus[i], 8);
        struct lk_prediction p;

        predict_one(&w, 1, &c, &p);
        ck_assert_double_gt((p.hi_s - p.lo_s) / p.step_s, last);
        last = (p.hi_s - p.lo_s) / p.step_s;
        if (gpus[i] > 2)
            ck_assert_ptr_nonnull(strstr(p.evidence_text, "on gpus"));
        lk_prediction_fini(&p);
    }
    world_fini(&w);
}
END_TEST

START_TEST(compute_follows_the_batch)
{
    static const struct {
        int batch;
        double factor; /* of batch 8: 1/3 + 2/3 batch / 8 */
        enum lk_evidence evidence;
        double reach;
    } rows[] = {
        {8,  1,        LK_EVIDENCE_MEASURED,     1},
        {12, 4.0 / 3,  LK_EVIDENCE_INTERPOLATED, 1},
        {5,  0.75,     LK_EVIDENCE_INTERPOLATED, 1},
        {32, 3,        LK_EVIDENCE_EXTRAPOLATED, 2},
        {1,  5.0 / 12, LK_EVIDENCE_EXTRAPOLATED, 4},
    };
    struct world w;
    struct lk_batch_point p;

    world_init(&w, 4, 1);
    ck_assert_int_eq(lk_batch_curve_at(&w.job, rows[_i].batch, &p), LK_OK);
    /* The rows are measured to 0.3 %; the line through three of them doubles that at most twice. */
    ck_assert_double_eq_tol((p.forward_s + p.backward_s) / 30e-3 / rows[_i].factor, 1, 0.02);
    ck_assert_int_eq(p.evidence, rows[_i].evidence);
    ck_assert_double_eq_tol(p.reach, rows[_i].reach, 1e-12);
    world_fini(&w);
}
END_TEST

START_TEST(one_batch_has_no_rate)
{
    struct world w;
    struct lk_batch_point p, at;
    size_t n;

    world_init(&w, 4, 1);
    n = w.job.n_compute;
    w.job.n_compute = 1;
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 4, &at), LK_OK);
    ck_assert_double_eq(at.reach_sd, 0);
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 6, &p), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "by lockstep run with --local-batches 4,6"));
    /* With a rate: all but the assumed floor grows. */
    ck_assert_int_eq(lk_quantity_set(&w.job.flops_per_sample, 1e9, NAN, NAN, 0, "test"), LK_OK);
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 8, &p), LK_OK);
    ck_assert_double_eq_tol(p.forward_s / at.forward_s, 2 - lk_prior_value(LK_PRIOR_FLOOR_SHARE),
                            1e-12);
    ck_assert_double_eq_tol(p.reach, 2, 1e-12);
    ck_assert_double_eq_tol(p.reach_sd, lk_prior_value(LK_PRIOR_ONE_BATCH_ERROR), 1e-12);
    w.job.n_compute = n;
    world_fini(&w);
}
END_TEST

/* ms at batches 4, 8 and 16; what the truth is at 32 and 2; its tolerance. */
static const struct {
    const char *what;
    double at[3], at_32, at_2, tolerance;
    bool beats_proportional;
} shapes[] = {
    {"linear with a floor",      {8, 12, 20},          36,   6,    1e-9, true },
    {"proportional",             {4, 8, 16},           32,   2,    1e-9, false},
    {"b^1.2, a cache too small", {5.28, 12.13, 27.86}, 64.0, 2.30, 0.12, true },
    {"b^0.8, kernels that fill", {3.03, 5.28, 9.19},   16.0, 1.74, 0.12, true },
    {"a bend at 8",              {4, 8, 20},           44,   2,    0.03, true },
};

/* Extrapolation by two: near the truth, and nearer than the time a sample of the last batch. */
START_TEST(the_curve_bends_as_the_data_do)
{
    struct world w;
    struct lk_batch_point up, down;
    double proportional = fabs(2 * shapes[_i].at[2] / shapes[_i].at_32 - 1), t;

    world_init(&w, 4, 1);
    for (int i = 0; i < 3; i++) {
        struct lk_quantity *f = &w.job.compute[i].forward_s, *b = &w.job.compute[i].backward_s;

        f->value = f->lo = f->hi = shapes[_i].at[i] / 3;
        b->value = b->lo = b->hi = shapes[_i].at[i] / 3 * 2;
    }
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 32, &up), LK_OK);
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 2, &down), LK_OK);
    t = up.forward_s + up.backward_s;
    ck_assert_msg(fabs(t / shapes[_i].at_32 - 1) <= shapes[_i].tolerance, "%s: %g at 32",
                  shapes[_i].what, t);
    if (shapes[_i].beats_proportional)
        ck_assert_double_lt(fabs(t / shapes[_i].at_32 - 1), proportional);
    t = down.forward_s + down.backward_s;
    ck_assert_double_ge(t, shapes[_i].at[0] / 2 * (1 - 1e-9));
    ck_assert_double_le(t, shapes[_i].at[0]);
    ck_assert_msg(fabs(t / shapes[_i].at_2 - 1) <= fmax(0.2, shapes[_i].tolerance), "%s: %g at 2",
                  shapes[_i].what, t);
    ck_assert_double_gt(up.reach_sd, lk_prior_value(LK_PRIOR_BATCH_ERROR) * 0.999);
    world_fini(&w);
}
END_TEST

/* ---- The whole forecast ---- */

static struct lk_predict_request request(const int *gpus, size_t n)
{
    return (struct lk_predict_request){
        .gpus = gpus, .n_gpus = n, .level = 0.9, .draws = 60, .seed = 1};
}

static const char *note_with(const struct lk_forecast *f, const char *text)
{
    for (size_t i = 0; i < f->n_notes; i++)
        if (strstr(f->notes[i], text))
            return f->notes[i];
    return NULL;
}

START_TEST(weak_scaling_refers_to_the_smallest_run)
{
    static const int gpus[] = {1, 2, 4, 64};
    struct world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(gpus, LK_COUNT(gpus));

    world_init(&w, 5, 2);
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_uint_eq(f.n_points, 4);
    ck_assert_str_eq(f.reference, "1 GPU, measured, same local batch and accumulation");
    ck_assert_double_eq(f.points[0].efficiency, 1);
    for (size_t i = 1; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];

        ck_assert_double_lt(p->efficiency, f.points[i - 1].efficiency);
        ck_assert_double_le(p->efficiency_lo, p->efficiency);
        ck_assert_double_ge(p->efficiency_hi, p->efficiency);
        ck_assert_double_eq_tol(p->efficiency, f.points[0].step_s / p->step_s, 1e-12);
        ck_assert_double_eq_tol(p->throughput_per_s, p->gpus * 8 / p->step_s, 1e-9);
        ck_assert_int_eq(p->nodes, p->gpus);
    }
    /* The 2-GPU run from the other; the batch that has a run from the rows of the others. */
    ck_assert_uint_eq(f.n_backtests, 2);
    ck_assert_str_eq(f.backtests[0].what, "2 GPUs from 1");
    ck_assert_str_eq(f.backtests[1].what, "local batch 8 from 4, 16");
    ck_assert_ptr_nonnull(note_with(&f, "back-tests"));
    ck_assert_ptr_nonnull(note_with(&f, "knee"));
    ck_assert_ptr_nonnull(note_with(&f, "largest loss at 64 GPUs: exposed queue and wire"));
    lk_forecast_fini(&f);
    world_fini(&w);
}
END_TEST

START_TEST(strong_scaling_keeps_the_global_batch)
{
    static const int gpus[] = {1, 2, 4, 16};
    struct world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(gpus, LK_COUNT(gpus));

    q.global_batch = 64;
    world_init(&w, 6, 1);
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    for (size_t i = 0; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];

        ck_assert_int_eq(p->gpus * p->local_batch * p->accumulation, 64);
        ck_assert_int_eq(p->local_batch, p->gpus == 16 ? 4 : 8);
        ck_assert_int_eq(p->accumulation, p->gpus == 16 ? 1 : 8 / p->gpus);
    }
    ck_assert_ptr_nonnull(strstr(f.reference, "global batch 64"));
    ck_assert_ptr_nonnull(note_with(&f, "no held-out evidence"));
    lk_forecast_fini(&f);
    q.global_batch = 3;
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_EUSAGE);
    world_fini(&w);
}
END_TEST

START_TEST(a_grid_names_its_best)
{
    static const int gpus[] = {8}, batches[] = {4, 16};
    static const uint64_t caps[] = {1 << 20, 16 << 20};
    struct world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(gpus, 1);

    q.local_batches = batches;
    q.n_local_batches = 2;
    q.caps = caps;
    q.n_caps = 2;
    world_init(&w, 7, 2);
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_uint_eq(f.n_points, 4);
    ck_assert_ptr_nonnull(note_with(&f, "best at 8 GPUs: local batch 16"));
    lk_forecast_fini(&f);
    world_fini(&w);
}
END_TEST

/* Batches of 4 to 16 are measured: 64 is a row with its grade but never the best. */
START_TEST(a_batch_outside_is_graded)
{
    static const int gpus[] = {8}, batches[] = {4, 16, 64};
    struct world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(gpus, 1);

    q.local_batches = batches;
    q.n_local_batches = 3;
    world_init(&w, 14, 2);
    w.cluster.preset = _i == 1;
    ck_assert_msg(lk_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(f.points[2].evidence_text, _i ? "preset; extrapolated x4 on local batch"
                                                   : "extrapolated x4 on gpus, x4 on local batch");
    ck_assert_ptr_nonnull(note_with(&f, "best at 8 GPUs: local batch 16"));
    ck_assert_ptr_nonnull(note_with(&f, "1 row extrapolated on local batch"));
    lk_forecast_fini(&f);
    world_fini(&w);
}
END_TEST

START_TEST(same_seed_same_numbers)
{
    static const int gpus[] = {2, 16};
    struct world w;
    struct lk_forecast a, b;
    struct lk_predict_request q = request(gpus, 2);

    world_init(&w, 8, 1);
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &a), LK_OK);
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &b), LK_OK);
    for (size_t i = 0; i < a.n_points; i++) {
        ck_assert_double_eq(a.points[i].step_s, b.points[i].step_s);
        ck_assert_double_eq(a.points[i].step_lo_s, b.points[i].step_lo_s);
        ck_assert_double_eq(a.points[i].efficiency_hi, b.points[i].efficiency_hi);
    }
    lk_forecast_fini(&a);
    lk_forecast_fini(&b);
    world_fini(&w);
}
END_TEST

START_TEST(no_evidence_is_refused)
{
    static const int gpus[] = {4};
    struct world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(gpus, 1);

    world_init(&w, 9, 1);
    w.cluster.n_points = 0;
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "all_reduce"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "lockstep calibrate"));
    w.cluster.n_points = 8;
    /* One host of one device: four ranks would share it, and nobody measured that. */
    w.cluster.nodes = 1;
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "co-location"));
    world_fini(&w);
}
END_TEST

/* Costs of 3 ranks only, too few for a fit: the run of 2 cannot be the anchor, that of 1 can. It is
 * itself met. */
START_TEST(an_anchor_without_cost_is_passed_over)
{
    static const int gpus[] = {2, 3};
    struct world w;
    struct lk_forecast f;
    struct lk_prediction p;
    struct lk_predict_request q = request(gpus, 2);
    struct lk_config c;
    size_t n_points;

    world_init(&w, 13, 2);
    n_points = w.cluster.n_points;
    w.cluster.n_points = 2;
    for (size_t i = 0; i < w.cluster.n_points; i++)
        w.cluster.points[i].ranks = w.cluster.points[i].nodes = 3;
    c = config(&w.job, 3, 8);
    predict_one(&w, 1, &c, &p);
    ck_assert_int_eq(p.anchor_gpus, 1);
    ck_assert_int_eq(p.costless_gpus, 2);
    lk_prediction_fini(&p);
    ck_assert_msg(lk_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_ptr_nonnull(note_with(&f, "runs of 2 GPUs are no anchor"));
    /* What was measured needs no cost; only its losses are not known. */
    ck_assert_int_eq(f.points[0].evidence, LK_EVIDENCE_MEASURED);
    ck_assert_double_eq_tol(f.points[0].step_s, f.points[0].measured_step_s, 1e-12);
    ck_assert_double_nan(f.points[0].losses_s[LK_LOSS_WIRE]);
    ck_assert_ptr_null(note_with(&f, "largest loss at 2 GPUs"));
    ck_assert_ptr_nonnull(note_with(&f, "largest loss at 3 GPUs"));
    lk_forecast_fini(&f);
    w.cluster.n_points = n_points;
    world_fini(&w);
}
END_TEST

/* On a preset, runs of several ranks are another machine's: no anchor, no back-test, the grade. */
START_TEST(a_preset_is_another_machine)
{
    static const int gpus[] = {1, 2, 8};
    struct world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(gpus, 3);

    world_init(&w, 10, 2);
    w.cluster.preset = true;
    ck_assert_int_eq(lk_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_int_eq(f.points[0].evidence, LK_EVIDENCE_MEASURED);
    ck_assert_int_eq(f.points[1].evidence, LK_EVIDENCE_PRESET);
    ck_assert_double_nan(f.points[1].measured_step_s);
    ck_assert_uint_eq(f.n_backtests, 1); /* of the batch, on one rank */
    lk_forecast_fini(&f);
    world_fini(&w);
}
END_TEST

/* ---- Back-tests ---- */

START_TEST(larger_runs_and_batches_are_held_out)
{
    struct world w;
    struct lk_backtests b;
    struct lk_predictor_options o = options(1);
    struct lk_table *t = NULL;
    size_t n_scale;

    world_init(&w, 11, 8);
    sim_truth_add_run(&w.truth, &w.job, 1, 4, 501);
    sim_truth_add_run(&w.truth, &w.job, 1, 16, 502);
    ck_assert_int_eq(lk_backtest_all(&w.job, &w.cluster, &o, &b), LK_OK);
    ck_assert_uint_eq(b.n, 6); /* 2, 4, 8 GPUs; batches 4, 8, 16 */
    ck_assert_str_eq(b.items[2].test.what, "8 GPUs from 1, 2, 4");
    ck_assert_str_eq(b.items[4].test.what, "local batch 8 from 4, 16");
    for (size_t i = 0; i < b.n; i++)
        ck_assert_double_eq_tol(b.items[i].test.predicted_s / b.items[i].test.measured_s, 1, 0.12);
    /* Proportional in scale is "the step stays as long"; the line needs two counts. */
    ck_assert_double_nan(b.items[0].baseline_s[LK_BASELINE_LINE]);
    ck_assert_double_lt(b.items[2].baseline_s[LK_BASELINE_PROPORTIONAL],
                        b.items[2].test.measured_s);
    ck_assert_double_gt(lk_backtest_scale_error(&b, &n_scale), 0.005);
    ck_assert_double_lt(lk_backtest_scale_error(&b, &n_scale), 0.08);
    ck_assert_uint_eq(n_scale, 3);
    ck_assert_int_eq(lk_backtest_table(&b, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 6);
    ck_assert_str_eq(lk_table_cell(t, 2, "held_out")->text, "8 GPUs from 1, 2, 4");
    lk_table_destroy(t);
    lk_backtests_fini(&b);
    world_fini(&w);
}
END_TEST

/* What is held out must not be seen: making it absurd changes its measurement, not its prediction.
 */
START_TEST(the_held_out_run_is_not_seen)
{
    struct world w;
    struct lk_backtests before, after;
    struct lk_predictor_options o = options(1);

    world_init(&w, 12, 2);
    ck_assert_int_eq(lk_backtest_all(&w.job, &w.cluster, &o, &before), LK_OK);
    for (size_t i = 0; i < w.job.runs[1].n_steps; i++)
        w.job.runs[1].step_s[i] *= 7;
    w.job.runs[1].rank_compute_s[0] *= 3;
    ck_assert_int_eq(lk_backtest_all(&w.job, &w.cluster, &o, &after), LK_OK);
    ck_assert_double_eq(before.items[0].test.predicted_s, after.items[0].test.predicted_s);
    ck_assert_double_eq(before.items[0].test.lo_s, after.items[0].test.lo_s);
    ck_assert_double_eq_tol(after.items[0].test.measured_s / before.items[0].test.measured_s, 7,
                            1e-9);
    lk_backtests_fini(&before);
    lk_backtests_fini(&after);
    world_fini(&w);
}
END_TEST

START_TEST(baselines_by_hand)
{
    /* 1 GPU 100/s, 2 GPUs 190/s; to 4: 380; 100 + 90 x 3 = 370; Amdahl: 1/100 = a + b, 2/190 =
     * a + 2 b: b = 1/1900, a = 18/1900; 4 / (22/1900) = 345.45. */
    static const struct lk_scale_point points[] = {
        {.gpus = 1, .throughput = 100},
        {.gpus = 2, .throughput = 190}
    };
    static const struct lk_scale_point four = {.gpus = 4};

    ck_assert_double_eq_tol(lk_baseline_throughput(LK_BASELINE_PROPORTIONAL, points, 2, &four), 380,
                            1e-9);
    ck_assert_double_eq_tol(lk_baseline_throughput(LK_BASELINE_LINE, points, 2, &four), 370, 1e-9);
    ck_assert_double_eq_tol(lk_baseline_throughput(LK_BASELINE_AMDAHL, points, 2, &four),
                            7600.0 / 22, 1e-6);
    ck_assert_double_nan(lk_baseline_throughput(LK_BASELINE_LINE, points, 1, &four));
    ck_assert_double_nan(lk_baseline_throughput(LK_BASELINE_PROPORTIONAL, points, 0, &four));
}
END_TEST

/* The slower the network, the earlier the knee. */
START_TEST(the_knee_comes_earlier_on_slow_networks)
{
    static const double rates[] = {0.02e9, 0.2e9, 20e9};
    int last = 0;

    for (size_t i = 0; i < LK_COUNT(rates); i++) {
        struct world w;
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
        ck_assert_int_eq(lk_knee_find(p, &c, 1, 64, &nodes), LK_OK);
        ck_assert_int_ge(nodes, last);
        last = nodes;
        if (i == 0)
            ck_assert_int_lt(nodes, 4);
        if (i == 2)
            ck_assert_int_eq(nodes, 64);
        lk_predictor_destroy(p);
        world_fini(&w);
    }
}
END_TEST

Suite *lk_suite_forecast(void);
Suite *lk_suite_forecast(void)
{
    Suite *s = suite_create("forecast");
    TCase *c = tcase_create("forecast");

    tcase_add_test(c, the_interval_holds_its_share);
    tcase_add_test(c, few_runs_hold_their_share);
    tcase_add_test(c, the_estimate_is_near);
    tcase_add_test(c, a_measured_configuration_is_met);
    tcase_add_loop_test(c, losses_sum_to_the_step, 0, 4);
    tcase_add_test(c, the_interval_grows_with_the_reach);
    tcase_add_loop_test(c, compute_follows_the_batch, 0, 5);
    tcase_add_test(c, one_batch_has_no_rate);
    tcase_add_loop_test(c, the_curve_bends_as_the_data_do, 0, 5);
    tcase_add_test(c, weak_scaling_refers_to_the_smallest_run);
    tcase_add_test(c, strong_scaling_keeps_the_global_batch);
    tcase_add_test(c, a_grid_names_its_best);
    tcase_add_loop_test(c, a_batch_outside_is_graded, 0, 2);
    tcase_add_test(c, same_seed_same_numbers);
    tcase_add_test(c, no_evidence_is_refused);
    tcase_add_test(c, an_anchor_without_cost_is_passed_over);
    tcase_add_test(c, a_preset_is_another_machine);
    tcase_add_test(c, larger_runs_and_batches_are_held_out);
    tcase_add_test(c, the_held_out_run_is_not_seen);
    tcase_add_test(c, baselines_by_hand);
    tcase_add_test(c, the_knee_comes_earlier_on_slow_networks);
    suite_add_tcase(s, c);
    return s;
}
