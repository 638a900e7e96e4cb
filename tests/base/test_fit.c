/* Fits: exact answers, optimality conditions, and brute force on random problems. */
#include "base/array.h"
#include "base/stats.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

/* Rounding of a few dozen operations on numbers of order 1. */
#define ROUNDING 1e-13

START_TEST(nnls_small)
{
    static const double a[] = {1, 0, 1, 0, 0, 1};
    static const double y[] = {2, 1, 1};
    static const double negative[] = {-1, -1, -1};
    static const double zero[] = {0, 0, 0};
    double c[2];

    ck_assert_int_eq(lk_stats_nnls(a, y, 3, 2, c), LK_OK);
    ck_assert_double_eq_tol(c[0], 1.5, ROUNDING);
    ck_assert_double_eq_tol(c[1], 1, ROUNDING);
    ck_assert_int_eq(lk_stats_nnls(a, negative, 3, 2, c), LK_OK);
    ck_assert_double_eq(c[0], 0);
    ck_assert_double_eq(c[1], 0);
    ck_assert_int_eq(lk_stats_nnls(a, zero, 3, 2, c), LK_OK);
    ck_assert_double_eq(c[0], 0);
    ck_assert_int_eq(lk_stats_nnls(a, y, 3, 17, c), LK_EINTERNAL);
    ck_assert_int_eq(lk_stats_nnls(a, y, 0, 2, c), LK_EINTERNAL);
}
END_TEST

/* Latency and bandwidth of an all-reduce: columns seven orders of magnitude apart. */
START_TEST(nnls_alpha_beta)
{
    double a[2 * 20];
    double y[20];
    double c[2];

    for (size_t i = 0; i < 20; i++) {
        double bytes = ldexp(1024, (int)i);

        a[2 * i] = 1;
        a[2 * i + 1] = bytes;
        y[i] = 12e-6 + bytes / 180e9;
    }
    ck_assert_int_eq(lk_stats_nnls(a, y, 20, 2, c), LK_OK);
    ck_assert_double_eq_tol(c[0], 12e-6, 1e-6 * 12e-6);
    ck_assert_double_eq_tol(c[1] * 180e9, 1, 1e-12);
}
END_TEST

START_TEST(nnls_dependent_columns)
{
    static const double twice[] = {1, 1, 2, 2, 3, 3};
    static const double y[] = {2, 4, 6};
    static const double wide[] = {1, 2, 3, 0, 1, 1}; /* fewer rows than columns */
    static const double with_zero[] = {1, 0, 2, 0, 3, 0};
    double c[3];

    ck_assert_int_eq(lk_stats_nnls(twice, y, 3, 2, c), LK_OK);
    ck_assert_double_eq_tol(c[0] + c[1], 2, ROUNDING);
    ck_assert_int_eq(lk_stats_nnls(wide, y, 2, 3, c), LK_OK);
    ck_assert_double_eq(c[0], 0); /* residual (-1.2, 2.4): only the middle column is orthogonal */
    ck_assert_double_eq_tol(c[1], 1.6, ROUNDING);
    ck_assert_double_eq(c[2], 0);
    ck_assert_int_eq(lk_stats_nnls(with_zero, y, 3, 2, c), LK_OK);
    ck_assert_double_eq_tol(c[0], 2, ROUNDING);
    ck_assert_double_eq(c[1], 0);
}
END_TEST

/* Check the Kuhn-Tucker conditions, which define the optimum: gradient 0 where c > 0,
 * not positive where c = 0. */
START_TEST(nnls_is_optimal)
{
    struct lk_rng g = lk_rng_init(4, (uint64_t)_i);
    size_t m = 1 + (size_t)lk_rng_below(&g, 16);
    size_t n = m + (size_t)lk_rng_below(&g, 40);
    double a[16 * 56];
    double y[56];
    double c[16];
    double residual[56];

    /* Every other time all columns are nearly parallel: then some enter the
     * passive set and leave it. */
    for (size_t i = 0; i < n; i++) {
        y[i] = lk_rng_normal(&g) + (_i % 2 ? 2 : 0);
        for (size_t j = 0; j < m; j++)
            a[i * m + j] = _i % 2 ? lk_rng_exponential(&g) : lk_rng_normal(&g);
    }
    ck_assert_msg(lk_stats_nnls(a, y, n, m, c) == LK_OK, "%s", lk_error_text());
    for (size_t i = 0; i < n; i++) {
        residual[i] = y[i];
        for (size_t j = 0; j < m; j++)
            residual[i] -= a[i * m + j] * c[j];
    }
    for (size_t j = 0; j < m; j++) {
        double gradient = 0;

        for (size_t i = 0; i < n; i++)
            gradient += a[i * m + j] * residual[i];
        ck_assert_double_ge(c[j], 0);
        ck_assert_double_le(gradient, 1e-10);
        if (c[j] > 0)
            ck_assert_double_ge(gradient, -1e-10);
    }
}
END_TEST

/* Columns that repeat others at other scales: the fit is no worse than without them. */
START_TEST(nnls_with_repeated_columns)
{
    struct lk_rng g = lk_rng_init(8, (uint64_t)_i);
    enum { N = 20, M = 4 };
    double a[N * M];
    double doubled[N * 2 * M];
    double y[N];
    double c[M];
    double d[2 * M];
    double once = 0;
    double twice = 0;

    for (size_t i = 0; i < N; i++) {
        y[i] = lk_rng_normal(&g);
        for (size_t j = 0; j < M; j++) {
            a[i * M + j] = lk_rng_normal(&g);
            doubled[i * 2 * M + 2 * j] = a[i * M + j] * 1e-9;
            doubled[i * 2 * M + 2 * j + 1] = a[i * M + j] * 1e9;
        }
    }
    ck_assert_int_eq(lk_stats_nnls(a, y, N, M, c), LK_OK);
    ck_assert_msg(lk_stats_nnls(doubled, y, N, (size_t)2 * M, d) == LK_OK, "%s", lk_error_text());
    for (size_t i = 0; i < N; i++) {
        double r = y[i];
        double s = y[i];

        for (size_t j = 0; j < M; j++)
            r -= a[i * M + j] * c[j];
        for (size_t j = 0; j < (size_t)2 * M; j++)
            s -= doubled[i * 2 * M + j] * d[j];
        once += r * r;
        twice += s * s;
    }
    for (size_t j = 0; j < LK_COUNT(d); j++)
        ck_assert_double_ge(d[j], 0);
    ck_assert_double_eq_tol(once, twice, 1e-10);
}
END_TEST

START_TEST(isotonic_small)
{
    double y[] = {1, 3, 2, 4};
    double falling[] = {5, 4, 3};
    double weighted[] = {2, 1};
    static const double weight[] = {1, 3};

    ck_assert_int_eq(lk_stats_isotonic(y, NULL, 4), LK_OK);
    ck_assert_double_eq(y[0], 1);
    ck_assert_double_eq(y[1], 2.5);
    ck_assert_double_eq(y[2], 2.5);
    ck_assert_double_eq(y[3], 4);
    ck_assert_int_eq(lk_stats_isotonic(falling, NULL, 3), LK_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(falling[i], 4, ROUNDING);
    ck_assert_int_eq(lk_stats_isotonic(weighted, weight, 2), LK_OK);
    ck_assert_double_eq_tol(weighted[0], 1.25, ROUNDING);
    ck_assert_double_eq_tol(weighted[1], 1.25, ROUNDING);
    ck_assert_int_eq(lk_stats_isotonic(y, NULL, 0), LK_OK);
}
END_TEST

static double mean_of(const double *y, const double *w, size_t from, size_t to)
{
    double sum = 0;
    double weight = 0;

    for (size_t i = from; i <= to; i++) {
        sum += w[i] * y[i];
        weight += w[i];
    }
    return sum / weight;
}

/* The minimax formula: fit[i] = max over j <= i of min over k >= i of the mean of j..k. */
START_TEST(isotonic_is_minimax)
{
    struct lk_rng g = lk_rng_init(6, (uint64_t)_i);
    enum { N = 30 };
    double y[N];
    double w[N];
    double fit[N];

    for (size_t i = 0; i < N; i++) {
        y[i] = 0.1 * (double)i + lk_rng_normal(&g);
        w[i] = 0.1 + lk_rng_uniform(&g);
    }
    memcpy(fit, y, sizeof y);
    ck_assert_int_eq(lk_stats_isotonic(fit, w, N), LK_OK);
    for (size_t i = 0; i < N; i++) {
        double best = -INFINITY;

        for (size_t j = 0; j <= i; j++) {
            double least = INFINITY;

            for (size_t k = i; k < N; k++)
                least = fmin(least, mean_of(y, w, j, k));
            best = fmax(best, least);
        }
        ck_assert_double_eq_tol(fit[i], best, 1e-12);
    }
}
END_TEST

SUITE(fit, c)
{
    tcase_add_test(c, nnls_small);
    tcase_add_test(c, nnls_alpha_beta);
    tcase_add_test(c, nnls_dependent_columns);
    tcase_add_loop_test(c, nnls_is_optimal, 0, 200);
    tcase_add_loop_test(c, nnls_with_repeated_columns, 0, 30);
    tcase_add_test(c, isotonic_small);
    tcase_add_loop_test(c, isotonic_is_minimax, 0, 10);
}
