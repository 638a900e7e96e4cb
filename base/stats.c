/* Statistics of samples: summaries, quantiles and distributions. Fits are in fit.c. */
#include "base/stats.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SQRT_2      1.4142135623730950488
#define SQRT_2_PI   2.5066282746310005024
#define LOG_SQRT_PI 0.57236494292470008707
#define PI          3.1415926535897932385

/* From this many degrees of freedom on Student's t is expanded around the normal quantile, with an
 * error below 1e-8. */
enum { STUDENT_EXPANSION_DF = 1000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return LK_ORDER(x, y);
}

static void insertion_sort(double *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        double x = v[i];
        size_t j = i;

        for (; j > 0 && v[j - 1] > x; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
}

/* Move the values below the pivot (equal_too: not above it) to the front and return their number.
 * It has no branches on the values, which are unpredictable; this makes it faster than qsort. */
static size_t partition(double *v, size_t n, double pivot, bool equal_too)
{
    size_t front = 0;

    for (size_t i = 0; i < n; i++) {
        double x = v[i];

        v[i] = v[front];
        v[front] = x;
        front += equal_too ? !(x > pivot) : x < pivot;
    }
    return front;
}

static double median_of_3(double a, double b, double c)
{
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* Quicksort. Bad pivots cannot make it quadratic: after `levels` of them qsort takes over. */
static void quicksort(double *v, size_t n, int levels)
{
    enum { SMALL = 24 };

    while (n > SMALL && levels-- > 0) {
        double pivot = median_of_3(v[0], v[n / 2], v[n - 1]);
        size_t front = partition(v, n, pivot, false);

        if (!front) /* the pivot is the minimum: all values equal to it are in place */
            front = partition(v, n, pivot, true);
        else
            quicksort(v, front, levels);
        v += front;
        n -= front;
    }
    if (n > SMALL)
        qsort(v, n, sizeof *v, by_value);
    else
        insertion_sort(v, n);
}

void lk_stats_sort(double *v, size_t n)
{
    enum { LEVELS = 40 }; /* about four times what 10^6 random values need */

    quicksort(v, n, LEVELS);
}

void lk_stats_predictive(double *v, size_t n, double level, double *out_lo, double *out_hi)
{
    double count = (double)n, tail = (1 - level) / 2;
    double q = n > 1 ? fmax(0, (tail * (count + 1) - 1) / (count - 1)) : 0;

    *out_lo = lk_stats_quantile(v, n, q);
    *out_hi = lk_stats_quantile_sorted(v, n, 1 - q);
}

struct lk_estimate lk_stats_interval(double value, double *v, size_t n, double level)
{
    double lo = lk_stats_quantile(v, n, (1 - level) / 2);
    double hi = lk_stats_quantile_sorted(v, n, (1 + level) / 2);

    return (struct lk_estimate){
        .value = value, .lo = fmin(value, lo), .hi = fmax(value, hi), .n = n};
}

double lk_stats_above_one(const double *ratios, size_t n, double sd)
{
    double sure = 0;

    for (size_t i = 0; i < n; i++)
        sure += sd > 0 ? 0.5 * erfc(-log(ratios[i]) / sd / sqrt(2)) : ratios[i] > 1;
    return sure / (double)n;
}

double lk_stats_mean(const double *v, size_t n)
{
    double mean = 0;
    double rest = 0;

    for (size_t i = 0; i < n; i++)
        mean += v[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) /* the second pass removes the rounding error of the first */
        rest += v[i] - mean;
    return mean + rest / (double)n;
}

double lk_stats_between(double a, double b, double share)
{
    return a * (1 - share) + b * share;
}

double lk_stats_quantile_sorted(const double *sorted, size_t n, double q)
{
    double position = (q < 0 ? 0 : q > 1 ? 1 : q) * (double)(n - 1);
    size_t i = (size_t)position;
    double share = position - (double)i;

    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + share * (sorted[i + 1] - sorted[i]);
}

double lk_stats_quantile(double *v, size_t n, double q)
{
    lk_stats_sort(v, n);
    return lk_stats_quantile_sorted(v, n, q);
}

double lk_stats_median(double *v, size_t n)
{
    return lk_stats_quantile(v, n, 0.5);
}

enum lk_status lk_stats_summary(const double *v, size_t n, struct lk_summary *out)
{
    double *sorted;
    double mean = lk_stats_mean(v, n);
    double squares = 0;

    LK_PASS(lk_alloc(&sorted, n, sizeof *sorted));
    memcpy(sorted, v, n * sizeof *v);
    lk_stats_sort(sorted, n);
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - mean) * (v[i] - mean);
    *out = (struct lk_summary){
        .n = n,
        .mean = mean,
        .sd = n < 2 ? 0 : sqrt(squares / (double)(n - 1)),
        .min = sorted[0],
        .median = lk_stats_quantile_sorted(sorted, n, 0.5),
        .max = sorted[n - 1],
    };
    free(sorted);
    return LK_OK;
}

struct lk_estimate lk_stats_wilson(size_t k, size_t n, double level)
{
    double z = lk_stats_normal_quantile((1 + level) / 2);
    double count = (double)n;
    double share = (double)k / count;
    double scale = 1 + z * z / count;
    double centre = (share + z * z / (2 * count)) / scale;
    double half = z / scale * sqrt(share * (1 - share) / count + z * z / (4 * count * count));

    if (!n)
        return (struct lk_estimate){.value = NAN, .lo = 0, .hi = 1};
    return (struct lk_estimate){
        .value = share, .lo = k == 0 ? 0 : centre - half, .hi = k == n ? 1 : centre + half, .n = n};
}

/* Acklam's rational approximation of the lower half, relative error below 1.2e-9. */
static double acklam(double p)
{
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    double q;
    double r;

    if (p < 0.02425) {
        q = sqrt(-2 * log(p));
        return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    }
    q = p - 0.5;
    r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

double lk_stats_normal_quantile(double p)
{
    double x;
    double step;

    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (p > 0.5)
        return -lk_stats_normal_quantile(1 - p);
    x = acklam(p);
    if (x < -37) /* exp below would overflow */
        return x;
    /* One step of Halley's method on the distribution function gives the last digits. */
    step = (0.5 * erfc(-x / SQRT_2) - p) * SQRT_2_PI * exp(x * x / 2);
    return x - step / (1 + x * step / 2);
}

/*
 * The continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22). It
 * converges in O(sqrt(max(a, b))) rounds for x < (a + 1) / (a + b + 2).
 */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    double h;

    d = 1 / (fabs(d) < tiny ? tiny : d);
    h = d;
    for (int m = 1; m < 1000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double change;

        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        change = d * c;
        h *= change;
        if (fabs(change - 1) < 1e-15)
            break;
    }
    return h;
}

/* P(|T| > t) with df degrees of freedom: I_x(df/2, 1/2) at x = df / (df + t^2). */
static double student_tail(double t, double df)
{
    double a = df / 2;
    double b = 0.5;
    double x = df / (df + t * t);
    double y = t * t / (df + t * t); /* 1 - x without cancellation */
    int sign;
    double front =
        exp(lgamma_r(a + b, &sign) - lgamma_r(a, &sign) - LOG_SQRT_PI + a * log(x) + b * log(y));

    if (t == 0)
        return 1;
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

double lk_stats_student_t(double level, size_t df)
{
    double nu = (double)df;
    double z = lk_stats_normal_quantile((1 + level) / 2);
    double lo = 0;
    double hi = 1;

    if (!(level > 0 && level < 1))
        return level == 0 ? 0 : level == 1 ? INFINITY : NAN;
    if (df == 0)
        return INFINITY;
    if (df == 1) /* Cauchy; its far tail is out of the bisection's reach */
        return tan(PI / 2 * level);
    if (df >= STUDENT_EXPANSION_DF) { /* Abramowitz and Stegun 26.7.5 */
        double z2 = z * z;

        return z + z * (z2 + 1) / (4 * nu) + z * ((5 * z2 + 16) * z2 + 3) / (96 * nu * nu) +
               z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * nu * nu * nu);
    }
    while (student_tail(hi, nu) > 1 - level)
        hi *= 2;
    for (int i = 0; i < 100 && hi - lo > 1e-13 * hi; i++) {
        double middle = (lo + hi) / 2;

        if (student_tail(middle, nu) > 1 - level)
            lo = middle;
        else
            hi = middle;
    }
    return (lo + hi) / 2;
}

double lk_stats_binomial_tail(size_t k, size_t n, double p)
{
    double sum = 0;

    for (; k <= n; k++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) +
                   (double)k * log(p) + (double)(n - k) * log1p(-p));
    return fmin(1, sum);
}
