/* Cost and time to a target: McCandlish's relations, arithmetic by hand, learning-rate rules. */
#include "sim/planning/economics.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

#include <math.h>

static struct lk_economics known(void)
{
    return (struct lk_economics){lk_economics_known(2), lk_economics_known(700),
                                 lk_economics_known(1000), lk_economics_known(1e6)};
}

static struct lk_economics_point point(int world_size, double batch, double step_s)
{
    return (struct lk_economics_point){world_size, batch, lk_economics_known(step_s),
                                       lk_economics_known(1)};
}

/* At the critical batch the samples and the steps are both twice their minimum: the definition. */
START_TEST(the_critical_batch)
{
    struct lk_economics e = known();
    struct lk_economics_point p = point(8, 1000, 0.5);
    struct lk_plan r;
    double s_min = 1e6 / 1000;

    lk_economics_at(&e, &p, &r);
    ck_assert_double_eq_tol(r.statistical_efficiency, 0.5, 1e-12);
    ck_assert_double_eq_tol(r.samples_to_target, 2e6, 1e-3);
    ck_assert_double_eq_tol(r.samples_to_target / p.global_batch, 2 * s_min, 1e-6);
}
END_TEST

/* (S / S_min - 1)(E / E_min - 1) = 1 at every batch: equation 2.11's hyperbola. */
START_TEST(the_trade_off_is_a_hyperbola)
{
    struct lk_economics e = known();

    for (double b = 1; b < 1e6; b *= 3) {
        struct lk_economics_point p = point(8, b, 0.5);
        struct lk_plan r;

        lk_economics_at(&e, &p, &r);
        ck_assert_double_eq_tol(
            (r.samples_to_target / b / 1000 - 1) * (r.samples_to_target / 1e6 - 1), 1, 1e-6);
        ck_assert_double_eq_tol(r.samples_to_target * lk_statistical_efficiency(b, 1000), 1e6,
                                1e-3);
    }
}
END_TEST

/* By hand: 8 GPUs at 2 an hour, 0.5 s a step of 1000 samples, 2e6 samples: 2000 steps, 1000 s. */
START_TEST(costs_by_hand)
{
    struct lk_economics e = known();
    struct lk_economics_point p = point(8, 1000, 0.5);
    struct lk_plan r;

    lk_economics_at(&e, &p, &r);
    ck_assert_double_eq_tol(r.cost_per_step, 8 * 2 * 0.5 / 3600, 1e-12);
    ck_assert_double_eq_tol(r.cost_per_million, 8 * 2 * 500 / 3600.0, 1e-9);
    ck_assert_double_eq_tol(r.energy_per_million_kWh, 8 * 0.7 * 500 / 3600.0, 1e-9);
    ck_assert_double_eq_tol(r.time_to_target_h * 3600, 1000, 1e-9);
    ck_assert_double_eq_tol(r.cost_to_target, 8 * 2 * 1000 / 3600.0, 1e-9);
    p.goodput = lk_economics_known(0.8);
    lk_economics_at(&e, &p, &r);
    ck_assert_double_eq_tol(r.time_to_target_h * 3600, 1250, 1e-9);
    ck_assert_double_eq_tol(r.cost_per_step, 8 * 2 * 0.5 / 3600, 1e-12);
}
END_TEST

/* Unknown inputs stay unknown, and affect no other result. */
START_TEST(unknown_stays_unknown)
{
    struct lk_economics e = known();
    struct lk_economics_point p = point(8, 1000, 0.5);
    struct lk_plan r;

    e.price_per_hour = lk_economics_unknown();
    lk_economics_at(&e, &p, &r);
    ck_assert(isnan(r.cost_per_step) && isnan(r.cost_to_target));
    ck_assert_double_eq_tol(r.time_to_target_h * 3600, 1000, 1e-9);
    e = known();
    e.noise_scale = lk_economics_unknown();
    lk_economics_at(&e, &p, &r);
    ck_assert(isnan(r.statistical_efficiency) && isnan(r.time_to_target_hi_h * 3600));
    ck_assert(!isnan(r.cost_per_million));
}
END_TEST

/* One uncertain input passes its interval on; two independent ones add up in squares. */
START_TEST(intervals_carry)
{
    struct lk_economics e = known();
    struct lk_economics_point p = point(8, 1000, 0.5);
    struct lk_plan r;

    p.step_s = (struct lk_estimate){0.5, 0.45, 0.6, 0};
    lk_economics_at(&e, &p, &r);
    ck_assert_double_eq_tol(r.time_to_target_lo_h * 3600, 900, 1e-6);
    ck_assert_double_eq_tol(r.time_to_target_hi_h * 3600, 1200, 1e-6);
    e.noise_scale = (struct lk_estimate){1000, 500, 2000, 0};
    lk_economics_at(&e, &p, &r);
    /* At half the noise scale 3e6 samples instead of 2e6, at twice 1.5e6. */
    ck_assert_double_eq_tol(log(r.time_to_target_hi_h * 3.6),
                            sqrt(pow(log(1.2), 2) + pow(log(1.5), 2)), 1e-9);
    ck_assert_double_eq_tol(log(r.time_to_target_lo_h * 3.6),
                            -sqrt(pow(log(0.9), 2) + pow(log(0.75), 2)), 1e-9);
}
END_TEST

/* Goyal et al.: 0.1 at 256 is 3.2 at 8192. */
START_TEST(learning_rates)
{
    struct lk_plan r;

    lk_learning_rates(0.1, 256, 8192, NAN, &r);
    ck_assert_double_eq_tol(r.rate_linear, 3.2, 1e-12);
    ck_assert(isnan(r.rate_noise));
    lk_learning_rates(1e-4, 256, 1024, NAN, &r);
    ck_assert_double_eq_tol(r.rate_sqrt, 2e-4, 1e-15);
    /* Linear far below the noise scale, held far above it. */
    lk_learning_rates(0.1, 256, 8192, 1e12, &r);
    ck_assert_double_eq_tol(r.rate_noise, 3.2, 1e-6);
    lk_learning_rates(0.1, 1e9, 1e12, 10, &r);
    ck_assert_double_eq_tol(r.rate_noise, 0.1, 1e-6);
}
END_TEST

SUITE(economics, c)
{
    tcase_add_test(c, the_critical_batch);
    tcase_add_test(c, the_trade_off_is_a_hyperbola);
    tcase_add_test(c, costs_by_hand);
    tcase_add_test(c, unknown_stays_unknown);
    tcase_add_test(c, intervals_carry);
    tcase_add_test(c, learning_rates);
}
