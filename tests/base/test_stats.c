/* Statistics: closed forms, numpy's and published values, and properties by brute force. */
#include "base/array.h"
#include "base/stats.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounding of a few dozen operations on numbers of order 1. */
#define ROUNDING 1e-13

static const double pi_digits[] = {3, 1, 4, 1, 5, 9, 2, 6};

START_TEST(summary)
{
    double copy[LK_COUNT(pi_digits)];
    struct lk_summary s;

    memcpy(copy, pi_digits, sizeof copy);
    ck_assert_int_eq(lk_stats_summary(copy, LK_COUNT(copy), &s), LK_OK);
    ck_assert_uint_eq(s.n, 8);
    ck_assert_double_eq(s.mean, 3.875);
    ck_assert_double_eq_tol(s.sd, 2.7483761439387144, ROUNDING); /* numpy.std(ddof=1) */
    ck_assert_double_eq(s.min, 1);
    ck_assert_double_eq(s.median, 3.5);
    ck_assert_double_eq(s.max, 9);
    ck_assert_mem_eq(copy, pi_digits, sizeof copy);
    ck_assert_int_eq(lk_stats_summary(copy, 1, &s), LK_OK);
    ck_assert_double_eq(s.sd, 0);
    ck_assert_double_eq(s.median, 3);
}
END_TEST

/* numpy.percentile of pi_digits. */
static const struct {
    double q, value;
} quantiles[] = {{0, 1},     {0.1, 1},     {0.25, 1.75}, {0.5, 3.5}, {0.75, 5.25},
                 {0.9, 6.9}, {0.99, 8.79}, {1, 9},       {-1, 1},    {2, 9}};

START_TEST(quantile)
{
    double v[LK_COUNT(pi_digits)];

    memcpy(v, pi_digits, sizeof v);
    ck_assert_double_eq_tol(lk_stats_quantile(v, LK_COUNT(v), quantiles[_i].q), quantiles[_i].value,
                            ROUNDING);
    ck_assert_double_eq_tol(lk_stats_quantile_sorted(v, LK_COUNT(v), quantiles[_i].q),
                            quantiles[_i].value, ROUNDING);
}
END_TEST

/* Orders that are hard for some sorting algorithm: value i of n. */
static double sawtooth(size_t i, size_t n)
{
    (void)n;
    return (double)(i % 7);
}

static double rising(size_t i, size_t n)
{
    (void)n;
    return (double)i;
}

static double falling(size_t i, size_t n)
{
    return (double)(n - i);
}

static double organ_pipe(size_t i, size_t n)
{
    return (double)(i < n / 2 ? i : n - i);
}

static double pair_of_ramps(size_t i, size_t n)
{
    return (double)(i % 2 ? i : n - i);
}

static double equal(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return -1;
}

static double scattered(size_t i, size_t n)
{
    (void)n;
    return (double)lk_rng_at(1, 2, i) - 9e18;
}

static double (*const orders[])(size_t, size_t) = {sawtooth,      rising, falling,  organ_pipe,
                                                   pair_of_ramps, equal,  scattered};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Quantiles sort like qsort, in any initial order. */
START_TEST(sorting)
{
    static double v[3000], expected[3000];

    for (size_t n = 1; n <= LK_COUNT(v); n += n < 70 ? 1 : 1465) {
        for (size_t i = 0; i < n; i++)
            v[i] = expected[i] = orders[_i](i, n);
        qsort(expected, n, sizeof *expected, by_value);
        (void)lk_stats_median(v, n);
        ck_assert_mem_eq(v, expected, n * sizeof *v);
    }
}
END_TEST

START_TEST(mean_and_median)
{
    double v[1000];
    double odd[] = {5, -1, 3};

    for (size_t i = 0; i < LK_COUNT(v); i++)
        v[i] = 1e15 + (double)i; /* a plain sum would be off by more than 1 */
    ck_assert_double_eq(lk_stats_mean(v, LK_COUNT(v)), 1e15 + 499.5);
    ck_assert_double_eq(lk_stats_median(odd, 3), 3);
}
END_TEST

/* Quantiles from R's qnorm, to all its digits. */
static const struct {
    double p, x;
} normals[] = {
    {0.5, 0},
    {0.75, 0.67448975019608174},
    {0.95, 1.6448536269514722},
    {0.975, 1.959963984540054},
    {0.995, 2.5758293035489004},
    {0.025, -1.959963984540054},
    {0.01, -2.3263478740408411},
    {1e-10, -6.3613409024040557},
    {1e-300, -37.0471},
};

START_TEST(normal_quantile)
{
    double tolerance = normals[_i].p < 1e-200 ? 1e-4 : 1e-12;

    ck_assert_double_eq_tol(lk_stats_normal_quantile(normals[_i].p), normals[_i].x, tolerance);
}
END_TEST

START_TEST(normal_quantile_inverts_the_distribution)
{
    for (double x = -8; x < 8; x += 0.03125) {
        double p = 0.5 * erfc(-x / sqrt(2));

        /* Above, p's own rounding near 1 moves x by eps / density. */
        ck_assert_double_eq_tol(lk_stats_normal_quantile(p), x,
                                1e-12 + (x > 0 ? 2.3e-16 * sqrt(6.3) * exp(x * x / 2) : 0));
    }
    ck_assert(isinf(lk_stats_normal_quantile(0)));
    ck_assert(isinf(lk_stats_normal_quantile(1)));
    ck_assert(isnan(lk_stats_normal_quantile(-0.1)));
    ck_assert(isnan(lk_stats_normal_quantile(NAN)));
}
END_TEST

/* Two-sided values of the usual printed tables, with R's further digits. */
static const struct {
    double level;
    size_t df;
    double t;
} students[] = {
    {0.95, 1, 12.706204736174698},   {0.95, 2, 4.3026527297494637},
    {0.95, 3, 3.1824463052837091},   {0.95, 5, 2.5705818356363146},
    {0.95, 10, 2.2281388519862735},  {0.95, 30, 2.0422724563012378},
    {0.95, 120, 1.9799304050824402}, {0.99, 1, 63.656741162871526},
    {0.99, 10, 3.1692726726169518},  {0.90, 4, 2.1318467863266499},
    {0.90, 20, 1.7247182429207868},  {0.50, 2, 0.81649658092772603},
    {0.999, 5, 6.8688266258811099},  {0.95, 1000, 1.9623390808264078},
};

START_TEST(student_t)
{
    ck_assert_double_eq_tol(lk_stats_student_t(students[_i].level, students[_i].df), students[_i].t,
                            1e-8);
}
END_TEST

/* P(|T| < t) by Simpson's rule on the density. */
static double student_level(double t, size_t df)
{
    double nu = (double)df;
    double scale = exp(lgamma((nu + 1) / 2) - lgamma(nu / 2)) / sqrt(nu * acos(-1));
    int n = 20000;
    double h = t / n;
    double sum = 0;

    for (int i = 0; i <= n; i++) {
        double x = i * h;

        sum += (i == 0 || i == n ? 1 : i % 2 ? 4 : 2) * pow(1 + x * x / nu, -(nu + 1) / 2);
    }
    return 2 * scale * sum * h / 3;
}

START_TEST(student_t_inverts_its_integral)
{
    static const double levels[] = {0.1, 0.5, 0.8, 0.9, 0.95, 0.99};
    static const size_t dfs[] = {2, 3, 4, 7, 19, 60, 250, 999, 1000, 5000};

    for (size_t i = 0; i < LK_COUNT(levels); i++)
        for (size_t j = 0; j < LK_COUNT(dfs); j++)
            ck_assert_double_eq_tol(student_level(lk_stats_student_t(levels[i], dfs[j]), dfs[j]),
                                    levels[i], 1e-8);
}
END_TEST

START_TEST(student_t_limits)
{
    double before = INFINITY;

    for (size_t df = 1; df < 3000; df++) { /* decreases, also where the expansion takes over */
        double t = lk_stats_student_t(0.95, df);

        ck_assert_double_lt(t, before);
        before = t;
    }
    ck_assert_double_eq_tol(lk_stats_student_t(0.95, 1000000000), 1.959963984540054, 1e-8);
    ck_assert(isinf(lk_stats_student_t(0.95, 0)));
    ck_assert_double_eq(lk_stats_student_t(0, 5), 0);
    ck_assert(isnan(lk_stats_student_t(1.5, 5)));
    ck_assert_double_gt(lk_stats_student_t(1 - 1e-9, 2), 3e4);
}
END_TEST

START_TEST(wilson)
{
    struct lk_estimate e = lk_stats_wilson(8, 10, 0.95);

    ck_assert_double_eq(e.value, 0.8);
    ck_assert_double_eq_tol(e.lo, 0.49016, 5e-6); /* Newcombe 1998's method 3 */
    ck_assert_double_eq_tol(e.hi, 0.94332, 5e-6);
    ck_assert_uint_eq(e.n, 10);
    e = lk_stats_wilson(0, 10, 0.95);
    ck_assert_double_eq(e.lo, 0);
    ck_assert_double_eq_tol(e.hi, 0.27753, 5e-6);
    e = lk_stats_wilson(10, 10, 0.95);
    ck_assert_double_eq(e.hi, 1);
    ck_assert_double_eq_tol(e.lo, 1 - 0.27753, 5e-6);
    e = lk_stats_wilson(0, 0, 0.95);
    ck_assert(isnan(e.value));
    ck_assert_double_eq(e.lo, 0);
    ck_assert_double_eq(e.hi, 1);
}
END_TEST

START_TEST(bootstrap_of_two)
{
    /* Means 0, 1/2, 1 with 1/4, 1/2, 1/4: the 40 % interval is 1/2, the 90 % one is all. */
    static const double v[] = {0, 1};
    struct lk_rng g = lk_rng_init(1, 0);
    struct lk_estimate e;

    ck_assert_int_eq(lk_stats_bootstrap_mean(v, 2, 1, 2000, 0.4, &g, &e), LK_OK);
    ck_assert_double_eq(e.value, 0.5);
    ck_assert_double_eq(e.lo, 0.5);
    ck_assert_double_eq(e.hi, 0.5);
    ck_assert_int_eq(lk_stats_bootstrap_mean(v, 2, 1, 2000, 0.9, &g, &e), LK_OK);
    ck_assert_double_eq(e.lo, 0);
    ck_assert_double_eq(e.hi, 1);
    ck_assert_uint_eq(e.n, 2);
    ck_assert_int_eq(lk_stats_bootstrap_mean(v, 1, 1, 2000, 0.9, &g, &e), LK_OK);
    ck_assert_double_eq(e.lo, e.value);
    ck_assert_double_eq(e.hi, e.value);
    ck_assert_int_eq(lk_stats_bootstrap_mean(v, 0, 1, 2000, 0.9, &g, &e), LK_EINTERNAL);
    ck_assert_int_eq(lk_stats_bootstrap_mean(v, 2, 1, 0, 0.9, &g, &e), LK_EINTERNAL);
    ck_assert_int_eq(lk_stats_bootstrap_mean(v, 2, 1, 10, 1, &g, &e), LK_EINTERNAL);
}
END_TEST

/* n values x_i = rho x_(i-1) + noise around 10: rho 0 is independent. */
static void draw_series(struct lk_rng *g, double rho, double *v, size_t n)
{
    double x = lk_rng_normal(g) / sqrt(1 - rho * rho);

    for (size_t i = 0; i < n; i++) {
        v[i] = 10 + x;
        x = rho * x + lk_rng_normal(g);
    }
}

/* Count how many of `repeats` 90 % intervals contain the true mean. */
static size_t covered(double rho, size_t block, size_t repeats)
{
    struct lk_rng g = lk_rng_init(5, lk_rng_stream("coverage", block));
    double v[200];
    size_t inside = 0;

    for (size_t i = 0; i < repeats; i++) {
        struct lk_estimate e;

        draw_series(&g, rho, v, LK_COUNT(v));
        ck_assert_int_eq(lk_stats_bootstrap_mean(v, LK_COUNT(v), block, 400, 0.9, &g, &e), LK_OK);
        inside += e.lo <= 10 && e.hi >= 10;
    }
    return inside;
}

/* Seeds are fixed; 500 repeats have a standard error of 1.3 %, and
 * percentile intervals undercover. */
START_TEST(bootstrap_covers)
{
    size_t independent = covered(0, 1, 500);
    size_t naive = covered(0.7, 1, 500);
    size_t blocks = covered(0.7, 20, 500);

    ck_assert_uint_ge(independent, 430);
    ck_assert_uint_le(independent, 470);
    ck_assert_uint_lt(naive, 350); /* correlated samples resampled one by one: far too narrow */
    ck_assert_uint_ge(blocks,
                      375); /* ten blocks are few, so still below 90 %, but no longer that */
}
END_TEST

START_TEST(bootstrap_is_repeatable)
{
    struct lk_rng g = lk_rng_init(9, 9);
    struct lk_rng h = g;
    struct lk_estimate a;
    struct lk_estimate b;

    ck_assert_int_eq(lk_stats_bootstrap_mean(pi_digits, 8, 3, 100, 0.9, &g, &a), LK_OK);
    ck_assert_int_eq(lk_stats_bootstrap_mean(pi_digits, 8, 3, 100, 0.9, &h, &b), LK_OK);
    ck_assert_double_eq(a.lo, b.lo);
    ck_assert_double_eq(a.hi, b.hi);
    /* A block longer than half of the samples is cut: else every draw would be the same. */
    ck_assert_int_eq(lk_stats_bootstrap_mean(pi_digits, 8, 100, 100, 0.9, &g, &a), LK_OK);
    ck_assert_double_lt(a.lo, a.hi);
}
END_TEST

START_TEST(bootstrap_ratio)
{
    struct lk_rng g = lk_rng_init(2, 0);
    struct lk_estimate e;
    double a[50];
    double b[50];

    for (size_t i = 0; i < LK_COUNT(a); i++) {
        b[i] = 1 + lk_rng_uniform(&g);
        a[i] = 1.25 * b[i]; /* pairs: the ratio is exact in each resample */
    }
    ck_assert_int_eq(lk_stats_bootstrap_ratio(a, b, LK_COUNT(a), 200, 0.9, &g, &e), LK_OK);
    ck_assert_double_eq_tol(e.value, 1.25, ROUNDING);
    ck_assert_double_eq_tol(e.lo, 1.25, ROUNDING);
    ck_assert_double_eq_tol(e.hi, 1.25, ROUNDING);
    for (size_t i = 0; i < LK_COUNT(a); i++)
        a[i] += 0.1 * lk_rng_normal(&g);
    ck_assert_int_eq(lk_stats_bootstrap_ratio(a, b, LK_COUNT(a), 200, 0.9, &g, &e), LK_OK);
    ck_assert(e.lo < e.value && e.value < e.hi);
    memset(b, 0, sizeof b);
    ck_assert_int_eq(lk_stats_bootstrap_ratio(a, b, LK_COUNT(a), 200, 0.9, &g, &e), LK_EEVIDENCE);
}
END_TEST

/* Percentiles of 0..100 at 80 %, widened to hold the value; a NaN widens nothing. */
START_TEST(interval_holds_its_value)
{
    static const double values[] = {50, 5, 200, NAN};
    static const double lo[] = {10, 5, 10, 10}, hi[] = {90, 90, 200, 90};

    for (size_t k = 0; k < LK_COUNT(values); k++) {
        double v[101];
        struct lk_estimate e;

        for (int i = 0; i <= 100; i++)
            v[i] = 100 - i;
        e = lk_stats_interval(values[k], v, LK_COUNT(v), 0.8);
        ck_assert_double_eq_tol(e.lo, lo[k], 1e-9);
        ck_assert_double_eq_tol(e.hi, hi[k], 1e-9);
        ck_assert_uint_eq(e.n, LK_COUNT(v));
    }
}
END_TEST

/* Without a further error it is a count; with one, ratios of 1 are as likely above as below. */
START_TEST(above_one_is_a_probability)
{
    static const double ratios[] = {0.5, 1, 2, 4}, ones[] = {1, 1};

    ck_assert_double_eq(lk_stats_above_one(ratios, 4, 0), 0.5);
    ck_assert_double_eq_tol(lk_stats_above_one(ones, 2, 0.03), 0.5, 1e-12);
    ck_assert_double_eq_tol(lk_stats_above_one(ratios, 4, log(2)),
                            (0.15866 + 0.5 + 0.84134 + 0.97725) / 4, 1e-4);
}
END_TEST

/* With 19 draws a further one falls between the first and the last with probability 18 / 20. */
START_TEST(predictive_by_hand)
{
    double v[19], lo, hi;

    for (int i = 0; i < 19; i++)
        v[i] = (i * 7) % 19;
    lk_stats_predictive(v, 19, 0.9, &lo, &hi);
    ck_assert_double_eq_tol(lo, 0, 1e-12);
    ck_assert_double_eq_tol(hi, 18, 1e-12);
    lk_stats_predictive(v, 19, 0.5, &lo, &hi);
    ck_assert_double_eq_tol(lo, 4, 1e-12);
    ck_assert_double_eq_tol(hi, 14, 1e-12);
    lk_stats_predictive(v, 1, 0.9, &lo, &hi);
    ck_assert_double_eq(lo, hi);
}
END_TEST

SUITE(stats, c)
{
    tcase_add_test(c, predictive_by_hand);
    tcase_add_test(c, interval_holds_its_value);
    tcase_add_test(c, above_one_is_a_probability);
    tcase_add_test(c, summary);
    tcase_add_loop_test(c, quantile, 0, (int)LK_COUNT(quantiles));
    tcase_add_loop_test(c, sorting, 0, (int)LK_COUNT(orders));
    tcase_add_test(c, mean_and_median);
    tcase_add_loop_test(c, normal_quantile, 0, (int)LK_COUNT(normals));
    tcase_add_test(c, normal_quantile_inverts_the_distribution);
    tcase_add_loop_test(c, student_t, 0, (int)LK_COUNT(students));
    tcase_add_test(c, student_t_inverts_its_integral);
    tcase_add_test(c, student_t_limits);
    tcase_add_test(c, wilson);
    tcase_add_test(c, bootstrap_of_two);
    tcase_add_test(c, bootstrap_covers);
    tcase_add_test(c, bootstrap_is_repeatable);
    tcase_add_test(c, bootstrap_ratio);
}
