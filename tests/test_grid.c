/* Sweeps over many configurations. */
#include "base/array.h"
#include "sim/sweep.h"
#include "tests/sim_truth.h"

#include <check.h>
#include <math.h>
#include <string.h>

struct rig {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_predictor *predictor;
};

static void rig_init(struct rig *r)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 200, .seed = 3, .scale_error = NAN};

    sim_truth_cluster(&sim_truth_default, 1, &r->cluster);
    sim_truth_job(&sim_truth_default, 1, &r->job);
    sim_truth_add_run(&sim_truth_default, &r->job, 1, 8, 11);
    sim_truth_add_run(&sim_truth_default, &r->job, 2, 8, 12);
    ck_assert_int_eq(lk_predictor_create(&r->job, &r->cluster, &o, &r->predictor), LK_OK);
}

static void rig_fini(struct rig *r)
{
    lk_predictor_destroy(r->predictor);
    lk_job_fini(&r->job);
    lk_cluster_fini(&r->cluster);
}

static struct lk_config config(const struct rig *r, int gpus, int batch)
{
    return (struct lk_config){.gpus = gpus,
                              .nodes = gpus,
                              .local_batch = batch,
                              .accumulation = 1,
                              .no_sync = true,
                              .first_bytes = r->job.first_bytes,
                              .cap_bytes = r->job.cap_bytes};
}

/* Points are as they were given; one that has no evidence does not end the sweep. */
START_TEST(a_refused_point_is_marked)
{
    struct rig r = {0};
    struct lk_sweep s;
    struct lk_config configs[3];

    size_t n_compute;

    rig_init(&r);
    n_compute = r.job.n_compute;
    r.job.compute[0].local_batch = 8;
    r.job.n_compute = 1; /* one batch without a rate */
    configs[0] = config(&r, 4, 8);
    configs[1] = config(&r, 4, 100000);
    configs[2] = config(&r, 1, 8);
    ck_assert_int_eq(lk_sweep_run(r.predictor, configs, 3, NULL, &s), LK_OK);
    ck_assert_uint_eq(s.n, 3);
    ck_assert_int_eq(s.points[0].status, LK_OK);
    ck_assert_int_eq(s.points[1].status, LK_EEVIDENCE);
    ck_assert_int_eq(s.points[2].status, LK_OK);
    ck_assert_ptr_nonnull(strstr(s.refusal, "local batch 100000"));
    ck_assert_double_nan(s.draws_s[s.n_draws]);
    ck_assert_int_eq(s.points[2].evidence, LK_EVIDENCE_MEASURED);
    ck_assert_double_lt(s.points[0].lo_s, s.points[0].step_s);
    ck_assert_double_gt(s.points[0].hi_s, s.points[0].step_s);
    lk_sweep_fini(&s);
    r.job.n_compute = n_compute;
    rig_fini(&r);
}
END_TEST

START_TEST(gains_are_paired)
{
    struct rig r = {0};
    struct lk_sweep s;
    struct lk_config configs[2];
    struct lk_estimate gain;
    double lo, hi;

    rig_init(&r);
    configs[0] = config(&r, 8, 8);
    configs[1] = config(&r, 4, 8);
    ck_assert_int_eq(lk_sweep_run(r.predictor, configs, 2, NULL, &s), LK_OK);
    ck_assert_int_eq(lk_sweep_gain(&s, 0, 1, 0.9, &gain), LK_OK);
    ck_assert_double_eq_tol(gain.value, 2 * s.points[1].step_s / s.points[0].step_s, 1e-12);
    /* As worlds are shared, the ratio is known better than from the two intervals. */
    lo = 2 * s.points[1].lo_s / s.points[0].hi_s;
    hi = 2 * s.points[1].hi_s / s.points[0].lo_s;
    ck_assert_double_lt(gain.hi - gain.lo, 0.7 * (hi - lo));
    /* All but a draw or two in the tails of the model's error. */
    ck_assert_double_ge(lk_sweep_certainty(&s, 0, 1), 0.98);
    ck_assert_double_le(lk_sweep_certainty(&s, 1, 0), 0.02);
    lk_sweep_fini(&s);
    rig_fini(&r);
}
END_TEST

/*
 * The sweep against the full way, point by point: estimates and interval ends. What the tolerances
 * leave room for: 200 draws on both sides, few of them in the error's tails, and what
 * sim/sweep_model.h says it leaves out.
 */
START_TEST(the_sweep_agrees_with_the_full_way)
{
    static const int gpus[] = {4, 16, 64}, batches[] = {4, 16, 24}, accumulations[] = {1, 4};
    static const uint64_t caps[] = {1 << 20, 4 << 20, 25 << 20};
    struct rig r = {0};
    struct lk_sweep s;
    struct lk_config configs[54];
    size_t n = 0;
    double worst = 0, worst_lo = 0, worst_hi = 0, width = 0;

    rig_init(&r);
    for (int i = 0; i < 54; i++) {
        struct lk_config *c = &configs[n++];

        *c = config(&r, gpus[i % 3], batches[i / 3 % 3]);
        c->accumulation = accumulations[i / 9 % 2];
        lk_config_set_cap(c, &r.job, caps[i / 18]);
    }
    ck_assert_int_eq(lk_sweep_run(r.predictor, configs, n, NULL, &s), LK_OK);
    for (size_t i = 0; i < n; i++) {
        struct lk_prediction p;
        double losses = 0;

        ck_assert_int_eq(lk_predictor_at(r.predictor, &configs[i], &p), LK_OK);
        worst = fmax(worst, fabs(s.points[i].step_s / p.step_s - 1));
        worst_lo = fmax(worst_lo, fabs(s.points[i].lo_s / p.lo_s - 1));
        worst_hi = fmax(worst_hi, fabs(s.points[i].hi_s / p.hi_s - 1));
        width += log(s.points[i].hi_s / s.points[i].lo_s) / log(p.hi_s / p.lo_s) / (double)n;
        ck_assert_int_eq(s.points[i].evidence, p.evidence);
        ck_assert_str_eq(s.points[i].evidence_text, p.evidence_text);
        ck_assert_double_eq(s.points[i].batch_reach, p.batch_reach);
        for (int l = 0; l < LK_LOSS_COUNT; l++)
            losses += s.points[i].losses_s[l];
        ck_assert_double_eq_tol(losses, s.points[i].step_s, 1e-9);
        lk_prediction_fini(&p);
    }
    ck_assert_msg(worst < 0.005, "estimate off by %g", worst);
    ck_assert_msg(worst_lo < 0.05 && worst_hi < 0.05, "ends off by %g and %g", worst_lo, worst_hi);
    ck_assert_msg(fabs(width - 1) < 0.1, "widths are %g of the full way's", width);
    lk_sweep_fini(&s);
    rig_fini(&r);
}
END_TEST

Suite *lk_suite_grid(void);
Suite *lk_suite_grid(void)
{
    Suite *s = suite_create("grid");
    TCase *c = tcase_create("grid");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_refused_point_is_marked);
    tcase_add_test(c, gains_are_paired);
    tcase_add_test(c, the_sweep_agrees_with_the_full_way);
    suite_add_tcase(s, c);
    return s;
}
