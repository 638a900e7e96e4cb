/* A site's own errors change intervals as sums by hand say. */
#include "base/stats.h"
#include "sim/forecast/site.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

static struct lk_ledger_pair pair_of(struct lk_ledger_forecast *f, struct lk_ledger_score *s,
                                     uint64_t job, double measured_s)
{
    *f = (struct lk_ledger_forecast){.gradient_bytes = job,
                                     .step_s = 1,
                                     .lo_s = 0.8,
                                     .hi_s = 1.25,
                                     .level = 0.9,
                                     .site_factor = 1};
    *s = (struct lk_ledger_score){.measured_s = measured_s};
    return (struct lk_ledger_pair){f, s};
}

START_TEST(one_job_counts_once)
{
    struct lk_ledger_forecast f[3];
    struct lk_ledger_score s[3];
    struct lk_ledger_pair v[3];
    double factor, z = lk_stats_normal_quantile(0.95);
    size_t jobs;

    v[0] = pair_of(&f[0], &s[0], 7, 1);    /* met: v = 0 */
    v[1] = pair_of(&f[1], &s[1], 7, 1.25); /* at the end of the interval: v = z * z */
    v[2] = pair_of(&f[2], &s[2], 8, 1e3);  /* v at its most */
    ck_assert(lk_site_factor(v, 2, &factor, &jobs) == LK_OK);
    ck_assert_uint_eq(jobs, 1);
    ck_assert_double_eq_tol(factor, sqrt((8 + z * z / 2) / 9), 1e-12);
    ck_assert(lk_site_factor(v, 3, &factor, &jobs) == LK_OK);
    ck_assert_uint_eq(jobs, 2);
    ck_assert_double_eq_tol(factor, sqrt((8 + z * z / 2 + 25) / 10), 1e-12);
}
END_TEST

/* An interval that was widened already is judged as it was before. */
START_TEST(its_own_factor_is_taken_off)
{
    struct lk_ledger_forecast f[2];
    struct lk_ledger_score s[2];
    struct lk_ledger_pair v = pair_of(&f[0], &s[0], 7, 1.1), wide = pair_of(&f[1], &s[1], 7, 1.1);
    double as_is, widened;
    size_t jobs;

    f[1].site_factor = 2;
    f[1].lo_s = 0.8 * 0.8;
    f[1].hi_s = 1.25 * 1.25;
    ck_assert(lk_site_factor(&v, 1, &as_is, &jobs) == LK_OK);
    ck_assert(lk_site_factor(&wide, 1, &widened, &jobs) == LK_OK);
    ck_assert_double_eq_tol(as_is, widened, 1e-12);
}
END_TEST

/* Errors that are as the intervals say leave them as they are. */
START_TEST(right_intervals_stay)
{
    enum { N = 2000 };
    double *errors = malloc(N * sizeof *errors), half = log(1.25);
    double z = lk_stats_normal_quantile(0.95);

    ck_assert_ptr_nonnull(errors);
    for (int i = 0; i < N; i++) {
        double off = half / z * lk_stats_normal_quantile((i + 0.5) / N);

        errors[i] = lk_site_error(exp(off), 1, 0.8, 1.25, 0.9);
    }
    ck_assert_double_eq_tol(lk_site_factor_of(errors, N, LK_SITE_PRIOR_JOBS), 1, 0.01);
    free(errors);
}
END_TEST

START_TEST(no_end_goes_below_the_bound)
{
    double draws[] = {0.9, 1, 1.2};
    struct lk_prediction p = {.step_s = 1,
                              .lo_s = 0.9,
                              .hi_s = 1.2,
                              .bound_s = 0.85,
                              .measured_s = NAN,
                              .draws_s = draws,
                              .n_draws = 3};

    lk_prediction_spread(&p, 3);
    ck_assert_double_eq(p.lo_s, 0.85);
    ck_assert_double_eq_tol(p.hi_s, 1.2 * 1.2 * 1.2, 1e-12);
    ck_assert_double_eq(draws[0], 0.85);
    ck_assert_double_eq(draws[1], 1);
    p.measured_s = 1;
    lk_prediction_spread(&p, 3); /* what was measured is shown as it was */
    ck_assert_double_eq_tol(p.hi_s, 1.2 * 1.2 * 1.2, 1e-12);
}
END_TEST

SUITE(site, c)
{
    tcase_add_test(c, one_job_counts_once);
    tcase_add_test(c, its_own_factor_is_taken_off);
    tcase_add_test(c, right_intervals_stay);
    tcase_add_test(c, no_end_goes_below_the_bound);
}
