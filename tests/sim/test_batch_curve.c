/* The time of a micro-batch at batches that were not measured: shape, evidence, refusal. */
#include "sim/prior.h"
#include "sim/step/batch_curve.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

START_TEST(compute_follows_the_batch)
{
    static const struct {
        int batch;
        double factor; /* of batch 8: 1/3 + 2/3 batch / 8 */
        enum lk_evidence evidence;
        double reach;
    } rows[] = {
        {8, 1, LK_EVIDENCE_MEASURED, 1},
        {12, 4.0 / 3, LK_EVIDENCE_INTERPOLATED, 1},
        {5, 0.75, LK_EVIDENCE_INTERPOLATED, 1},
        {32, 3, LK_EVIDENCE_EXTRAPOLATED, 2},
        {1, 5.0 / 12, LK_EVIDENCE_EXTRAPOLATED, 4},
    };
    struct sim_world w;
    struct lk_batch_point p;

    sim_world_init(&w, 4, 1);
    ck_assert_int_eq(lk_batch_curve_at(&w.job, rows[_i].batch, &p), LK_OK);
    /* The rows are measured to 0.3 %; the line through three of them at most doubles that error. */
    ck_assert_double_eq_tol((p.forward_s + p.backward_s) / 30e-3 / rows[_i].factor, 1, 0.02);
    ck_assert_int_eq(p.evidence, rows[_i].evidence);
    ck_assert_double_eq_tol(p.extrapolation, rows[_i].reach, 1e-12);
    sim_world_fini(&w);
}
END_TEST

START_TEST(one_batch_is_followed_with_a_wide_error)
{
    struct sim_world w;
    struct lk_batch_point p, at;
    size_t n;

    sim_world_init(&w, 4, 1);
    n = w.job.n_compute;
    w.job.n_compute = 1;
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 4, &at), LK_OK);
    ck_assert_double_eq(at.extrapolation_sd, 0);
    /* Everything but the assumed floor grows with the batch. */
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 8, &p), LK_OK);
    ck_assert_double_eq_tol(p.forward_s / at.forward_s, 2 - lk_prior_value(LK_PRIOR_FLOOR_SHARE),
                            1e-12);
    ck_assert_double_eq_tol(p.extrapolation, 2, 1e-12);
    ck_assert_double_eq_tol(p.extrapolation_sd, lk_prior_value(LK_PRIOR_ONE_BATCH_ERROR), 1e-12);
    w.job.n_compute = 0;
    ck_assert_int_eq(lk_batch_curve_at(&w.job, 8, &p), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "1 GPU at local batch 8"));
    w.job.n_compute = n;
    sim_world_fini(&w);
}
END_TEST

/* ms at batches 4, 8 and 16; the truth at 32 and 2; its tolerance. */
static const struct {
    const char *what;
    double at[3], at_32, at_2, tolerance;
    bool beats_proportional;
} shapes[] = {
    {"linear with a floor", {8, 12, 20}, 36, 6, 1e-9, true},
    {"proportional", {4, 8, 16}, 32, 2, 1e-9, false},
    {"b^1.2, a cache too small", {5.28, 12.13, 27.86}, 64.0, 2.30, 0.12, true},
    {"b^0.8, kernels that fill", {3.03, 5.28, 9.19}, 16.0, 1.74, 0.12, true},
    {"a bend at 8", {4, 8, 20}, 44, 2, 0.03, true},
};

/* Extrapolation by two is near the truth, and nearer than the time a sample of the last batch. */
START_TEST(the_curve_bends_as_the_data_do)
{
    struct sim_world w;
    struct lk_batch_point up, down;
    double proportional = fabs(2 * shapes[_i].at[2] / shapes[_i].at_32 - 1), t;

    sim_world_init(&w, 4, 1);
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
    ck_assert_double_gt(up.extrapolation_sd, lk_prior_value(LK_PRIOR_BATCH_ERROR) * 0.999);
    sim_world_fini(&w);
}
END_TEST

SUITE(batch_curve, c)
{
    tcase_add_loop_test(c, compute_follows_the_batch, 0, 5);
    tcase_add_test(c, one_batch_is_followed_with_a_wide_error);
    tcase_add_loop_test(c, the_curve_bends_as_the_data_do, 0, 5);
}
