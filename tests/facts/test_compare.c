/* Comparisons: ratios and intervals against closed forms, verdicts. */
#include "base/array.h"
#include "facts/compare.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_compared row_of(enum lk_dimension dim, struct lk_estimate a, struct lk_estimate b)
{
    return (struct lk_compared){.dim = dim, .a = a, .b = b};
}

/* Times of A and B with their intervals, and the verdict on B. */
static const struct {
    enum lk_dimension dim;
    struct lk_estimate a, b;
    double ratio;
    enum lk_difference verdict;
} cases[] = {
    {LK_DIM_TIME, {2, 1.9, 2.1, 3}, {1, 0.95, 1.05, 3}, 2, LK_DIFFERENCE_FASTER},
    {LK_DIM_TIME, {1, 0.95, 1.05, 3}, {2, 1.9, 2.1, 3}, 0.5, LK_DIFFERENCE_SLOWER},
    {LK_DIM_TIME, {1, 0.9, 1.1, 3}, {1.05, 0.95, 1.15, 3}, 1 / 1.05, LK_DIFFERENCE_NOISE},
    {LK_DIM_RATE, {1, 0.95, 1.05, 3}, {2, 1.9, 2.1, 3}, 2, LK_DIFFERENCE_FASTER},
    {LK_DIM_TIME, {1, NAN, NAN, 0}, {2, 1.9, 2.1, 3}, 0.5, LK_DIFFERENCE_UNKNOWN},
    {LK_DIM_TIME, {1, 1, 1, 1}, {2, 1.9, 2.1, 3}, 0.5, LK_DIFFERENCE_UNKNOWN},
    {LK_DIM_TIME, {1, 0.9, INFINITY, 3}, {2, 1.9, 2.1, 3}, 0.5, LK_DIFFERENCE_UNKNOWN},
};

START_TEST(verdicts)
{
    struct lk_comparison c = {0};

    ck_assert_int_eq(lk_compare_add(&c, row_of(cases[_i].dim, cases[_i].a, cases[_i].b), NULL),
                     LK_OK);
    ck_assert_double_eq_tol(c.rows[0].ratio.value, cases[_i].ratio, 1e-12);
    ck_assert_int_eq(c.rows[0].verdict, cases[_i].verdict);
    ck_assert_uint_eq(lk_compare_count(&c, cases[_i].verdict), 1);
    lk_comparison_fini(&c);
}
END_TEST

/* Relative half-widths of both sides add as squares, on logarithms. */
START_TEST(intervals_combine)
{
    const struct lk_estimate a = {6, 6 / exp(0.3), 6 * exp(0.3), 3};
    const struct lk_estimate b = {3, 3 / exp(0.4), 3 * exp(0.4), 3};
    struct lk_comparison c = {0};

    ck_assert_int_eq(lk_compare_add(&c, row_of(LK_DIM_TIME, a, b), NULL), LK_OK);
    ck_assert_double_eq_tol(c.rows[0].ratio.lo, 2 / exp(0.5), 1e-12);
    ck_assert_double_eq_tol(c.rows[0].ratio.hi, 2 * exp(0.5), 1e-12);
    lk_comparison_fini(&c);
}
END_TEST

/* Equal samples on both sides: the half-width is t(2n - 2) s sqrt(2 / n), as Student's is. */
START_TEST(welch_is_student_for_equal_spread)
{
    const double a[] = {exp(0.1), exp(0.2), exp(0.3)}, b[] = {exp(1.1), exp(1.2), exp(1.3)};
    struct lk_estimate r = lk_compare_welch(a, 3, b, 3, 0.9);
    /* t(0.9, 4) = 2.131847 (tables), the sd of each side is 0.1. */
    const double half = 2.131847 * 0.1 * sqrt(2.0 / 3);

    ck_assert_double_eq_tol(log(r.value), -1, 1e-12);
    ck_assert_double_eq_tol(log(r.lo), -1 - half, 1e-6);
    ck_assert_double_eq_tol(log(r.hi), -1 + half, 1e-6);
}
END_TEST

/* A side with far more spread sets the degrees of freedom: 2, of its 3 repetitions. */
START_TEST(welch_is_careful)
{
    const double a[] = {1, 1, 1, 1, 1}, b[] = {exp(-0.1), 1, exp(0.1)};
    struct lk_estimate r = lk_compare_welch(a, 5, b, 3, 0.9);

    /* t(0.9, 2) = 2.919986 (tables). */
    ck_assert_double_eq_tol(log(r.hi), 2.919986 * 0.1 / sqrt(3), 1e-6);
}
END_TEST

SUITE(compare, c)
{
    tcase_add_loop_test(c, verdicts, 0, LK_COUNT(cases));
    tcase_add_test(c, intervals_combine);
    tcase_add_test(c, welch_is_student_for_equal_spread);
    tcase_add_test(c, welch_is_careful);
}
