/* Curves through points in logarithms. */
#include "sim/collective/loglog_curve.h"
#include "tests/rigs/suite.h"

#include <math.h>

START_TEST(curve_meets_points_and_is_monotone)
{
    double x[] = {1, 4, 16, 64, 256}, y[] = {10, 10, 12, 11, 100}, last = 0;
    struct lk_loglog_curve c;

    ck_assert_int_eq(lk_loglog_curve_init(&c, x, y, 5, INFINITY), LK_OK);
    ck_assert_double_eq_tol(lk_loglog_curve_at(&c, 1), 10, 1e-9);
    ck_assert_double_eq_tol(lk_loglog_curve_at(&c, 0.01), 10, 1e-9);
    ck_assert_double_eq_tol(lk_loglog_curve_at(&c, 256), 100, 1e-9);
    ck_assert_double_eq_tol(lk_loglog_curve_at(&c, 512), 200, 1e-9);
    /* 12 then 11 fall: both become their mean in the logarithm. */
    ck_assert_double_eq_tol(lk_loglog_curve_at(&c, 16), sqrt(132), 1e-9);
    for (double v = 0.5; v < 1000; v *= 1.01) {
        ck_assert_double_ge(lk_loglog_curve_at(&c, v), last * (1 - 1e-12));
        last = lk_loglog_curve_at(&c, v);
    }
    lk_loglog_curve_fini(&c);
}
END_TEST

/* A point that stands twice, with sizes that all but agree and times that differ by noise, moves
 * the curve by no more than that and what straight ends do. */
START_TEST(a_point_that_stands_twice_bends_no_curve)
{
    static const double noises[] = {0, 0.02, 0.04, -0.02, -0.04};
    double x[] = {1, 4, 16, 64, 256}, y[] = {10, 12, 25, 90, 350};
    double xx[] = {1, 4, 16, 16.0001, 64, 256}, yy[] = {10, 12, 25, 25, 90, 350};
    struct lk_loglog_curve one, two;

    yy[3] *= 1 + noises[_i];
    ck_assert_int_eq(lk_loglog_curve_init(&one, x, y, 5, 0.05), LK_OK);
    ck_assert_int_eq(lk_loglog_curve_init(&two, xx, yy, 6, 0.05), LK_OK);
    for (double v = 0.5; v < 1000; v *= 1.05)
        ck_assert_double_eq_tol(lk_loglog_curve_at(&two, v) / lk_loglog_curve_at(&one, v), 1,
                                0.06 + fabs(noises[_i]));
    lk_loglog_curve_fini(&one);
    lk_loglog_curve_fini(&two);
}
END_TEST

SUITE(loglog_curve, c)
{
    tcase_add_test(c, curve_meets_points_and_is_monotone);
    tcase_add_loop_test(c, a_point_that_stands_twice_bends_no_curve, 0, 5);
}
