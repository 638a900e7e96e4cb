/* Learning-rate schedule and gradient noise scale. */
#include "base/rng.h"
#include "facts/noise.h"
#include "runtime/model/optim.h"
#include "tests/rigs/suite.h"

#include <math.h>

static const struct {
    int64_t warmup, reference, step, batch;
    double rate; /* at a configured rate of 0.1 */
} rates[] = {
    {0, 0, 0, 32, 0.1},   {0, 0, 1000, 64, 0.1}, {10, 0, 0, 32, 0.01}, {10, 0, 8, 32, 0.09},
    {10, 0, 9, 32, 0.1},  {10, 0, 10, 32, 0.1},  {0, 32, 5, 32, 0.1},  {0, 32, 5, 256, 0.8},
    {4, 32, 0, 64, 0.05}, {4, 32, 3, 64, 0.2},   {0, 32, 0, 8, 0.025},
};

START_TEST(schedule)
{
    struct lk_optim_config c = {.learning_rate = 0.1,
                                .warmup_steps = rates[_i].warmup,
                                .reference_batch = rates[_i].reference};

    /* A product of three roundings. */
    ck_assert_double_eq_tol(lk_optim_rate(&c, rates[_i].step, rates[_i].batch), rates[_i].rate,
                            1e-15);
}
END_TEST

/* Exact expectations as input give the exact parameters back: |G|^2 = 4, tr(Sigma) = 96. */
START_TEST(noise_of_exact_norms)
{
    struct lk_noise e;
    struct lk_estimate got;

    lk_noise_init(&e, 8, 32);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(lk_noise_add(&e, 4 + 96.0 / 8, 4 + 96.0 / 32), LK_OK);
    got = lk_noise_estimate(&e);
    ck_assert_double_eq_tol(got.value, 24, 1e-12);
    ck_assert_double_eq_tol(got.lo, 24, 1e-9);
    ck_assert_double_eq_tol(got.hi, 24, 1e-9);
    ck_assert_uint_eq(got.n, 5);
    lk_noise_fini(&e);
}
END_TEST

/*
 * Gradients of D components: truth G with |G|^2 = D * 0.01, noise of unit variance a component and
 * sample, so tr(Sigma) = D and the scale is 100. A rank's mean over b samples is G + N(0, 1/b).
 */
enum { DIMS = 64, RANKS = 4, SMALL = 8, STEPS = 60, TRIALS = 200 };

static struct lk_estimate simulate(struct lk_rng *g)
{
    struct lk_noise e;
    struct lk_estimate got;

    lk_noise_init(&e, SMALL, SMALL * RANKS);
    for (int s = 0; s < STEPS; s++) {
        double small_sq = 0;
        double big_sq = 0;

        for (int d = 0; d < DIMS; d++) {
            double mean = 0;

            for (int r = 0; r < RANKS; r++) {
                double v = 0.1 + lk_rng_normal(g) / sqrt(SMALL);

                small_sq += v * v / RANKS;
                mean += v / RANKS;
            }
            big_sq += mean * mean;
        }
        ck_assert_int_eq(lk_noise_add(&e, small_sq, big_sq), LK_OK);
    }
    got = lk_noise_estimate(&e);
    lk_noise_fini(&e);
    return got;
}

START_TEST(noise_interval_covers)
{
    struct lk_rng g = lk_rng_init(5, 0);
    double log_sum = 0;
    int inside = 0;

    for (int t = 0; t < TRIALS; t++) {
        struct lk_estimate got = simulate(&g);

        ck_assert(got.lo <= got.value && got.value <= got.hi);
        inside += got.lo <= 100 && 100 <= got.hi;
        log_sum += log(got.value);
    }
    /* The mean of the logarithm has a small bias, of half the variance of |G|^2's relative error.
     */
    ck_assert_double_eq_tol(exp(log_sum / TRIALS), 100, 10);
    /* 90 % nominal; three binomial sd of 200 trials are 6.4 %. */
    ck_assert_double_eq_tol(inside / (double)TRIALS, 0.9, 0.065);
}
END_TEST

/*
 * Linear regression, y = w* x + e with normal x of unit covariance in D dimensions and noise e of
 * variance s^2, at weights w = w* + d. A sample's gradient is (d x - e) x, its mean d, and its
 * covariance (s^2 + |d|^2) I + d d^T: E[(d x)^2 x x^T] = |d|^2 I + 2 d d^T for normal x. So the
 * scale is (D (s^2 + |d|^2) + |d|^2) / |d|^2. Its gradients are not normal, and not independent
 * over their components.
 */
enum { REGRESSION_DIMS = 16, REGRESSION_STEPS = 100, REGRESSION_TRIALS = 60 };
static const struct {
    double distance_sq, noise_sq; /* |d|^2, s^2 */
    double scale;
} regressions[] = {{1, 1, 33}, {1, 0, 17}, {0.25, 1, 81}};

static struct lk_estimate regress(struct lk_rng *g, double distance_sq, double noise_sq)
{
    const double d = sqrt(distance_sq / REGRESSION_DIMS);
    struct lk_noise e;
    struct lk_estimate got;

    lk_noise_init(&e, SMALL, SMALL * RANKS);
    for (int s = 0; s < REGRESSION_STEPS; s++) {
        double small_sq = 0, big_sq = 0, mean[REGRESSION_DIMS] = {0};

        for (int r = 0; r < RANKS; r++) {
            double own[REGRESSION_DIMS] = {0};

            for (int b = 0; b < SMALL; b++) {
                double x[REGRESSION_DIMS], error = -sqrt(noise_sq) * lk_rng_normal(g);

                for (int i = 0; i < REGRESSION_DIMS; i++) {
                    x[i] = lk_rng_normal(g);
                    error += d * x[i];
                }
                for (int i = 0; i < REGRESSION_DIMS; i++)
                    own[i] += error * x[i] / SMALL;
            }
            for (int i = 0; i < REGRESSION_DIMS; i++) {
                small_sq += own[i] * own[i] / RANKS;
                mean[i] += own[i] / RANKS;
            }
        }
        for (int i = 0; i < REGRESSION_DIMS; i++)
            big_sq += mean[i] * mean[i];
        ck_assert_int_eq(lk_noise_add(&e, small_sq, big_sq), LK_OK);
    }
    got = lk_noise_estimate(&e);
    lk_noise_fini(&e);
    return got;
}

START_TEST(noise_of_linear_regression)
{
    struct lk_rng g = lk_rng_init(8, (uint64_t)_i);
    double scale = regressions[_i].scale, log_sum = 0;
    int inside = 0;

    for (int t = 0; t < REGRESSION_TRIALS; t++) {
        struct lk_estimate got = regress(&g, regressions[_i].distance_sq, regressions[_i].noise_sq);

        inside += got.lo <= scale && scale <= got.hi;
        log_sum += log(got.value);
    }
    ck_assert_double_eq_tol(exp(log_sum / REGRESSION_TRIALS), scale, 0.05 * scale);
    /* 90 % nominal; three binomial sd of 60 trials are 11.6 %. */
    ck_assert_double_ge(inside / (double)REGRESSION_TRIALS, 0.9 - 0.116);
}
END_TEST

START_TEST(noise_not_estimable)
{
    struct lk_noise e;

    lk_noise_init(&e, 8, 8); /* one rank */
    ck_assert_int_eq(lk_noise_add(&e, 5, 5), LK_OK);
    ck_assert_int_eq(lk_noise_add(&e, 5, 5), LK_OK);
    ck_assert_double_nan(lk_noise_estimate(&e).value);
    lk_noise_fini(&e);
    lk_noise_init(&e, 8, 16); /* one step */
    ck_assert_int_eq(lk_noise_add(&e, 5, 4), LK_OK);
    ck_assert_double_nan(lk_noise_estimate(&e).value);
    ck_assert_int_eq(lk_noise_add(&e, 5, 1), LK_OK); /* |G|^2 comes out negative */
    ck_assert_double_nan(lk_noise_estimate(&e).value);
    lk_noise_fini(&e);
}
END_TEST

START_TEST(noise_unbounded)
{
    struct lk_noise e;
    struct lk_estimate got;

    lk_noise_init(&e, 1, 2);
    ck_assert_int_eq(lk_noise_add(&e, 3, 2.5), LK_OK);  /* |G|^2 = 2, tr = 1 */
    ck_assert_int_eq(lk_noise_add(&e, 3, 1.25), LK_OK); /* |G|^2 = -0.5, tr = 3.5 */
    got = lk_noise_estimate(&e);
    ck_assert_double_eq_tol(got.value, 3, 1e-12); /* 2.25 / 0.75 */
    ck_assert(isinf(got.hi) && got.hi > 0);
    ck_assert_double_eq(got.lo, 0);
    lk_noise_fini(&e);
}
END_TEST

SUITE(noise, c)
{
    tcase_add_loop_test(c, schedule, 0, sizeof rates / sizeof *rates);
    tcase_add_test(c, noise_of_exact_norms);
    tcase_add_test(c, noise_interval_covers);
    tcase_add_loop_test(c, noise_of_linear_regression, 0, 3);
    tcase_add_test(c, noise_not_estimable);
    tcase_add_test(c, noise_unbounded);
}
