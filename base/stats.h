/*
 * Statistics of samples: summaries, quantiles, bootstrap intervals, robust fits. Samples are
 * finite. No state: any thread, with a generator of its own.
 */
#ifndef LK_BASE_STATS_H
#define LK_BASE_STATS_H

#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>

/* An estimate with its interval. lo == hi == value when the interval is unknown and n <= 1. */
struct lk_estimate {
    double value, lo, hi;
    size_t n; /* samples behind it */
};

struct lk_summary {
    size_t n;
    double mean, sd, min, median, p95, max; /* sd with n - 1; 0 for n < 2 */
};

/* Summary of v[0..n). pre: n > 0. LK_ENOMEM is possible: the samples are copied and sorted. */
enum lk_status lk_stats_summary(const double *v, size_t n, struct lk_summary *out);

/*
 * Quantile q in [0, 1] of a sorted array by linear interpolation between order statistics
 * (Hyndman and Fan, type 7: numpy's and R's default). pre: n > 0.
 */
double lk_stats_quantile_sorted(const double *sorted, size_t n, double q);
/* The same of an unsorted array, which is sorted in place. */
double lk_stats_quantile(double *v, size_t n, double q);
/*
 * The interval that holds a further draw with this probability: quantiles by p (n + 1) (Hyndman and
 * Fan, type 6), since a new one falls below the k-th of n with probability k / (n + 1). Sorts v.
 * pre: n > 0.
 */
void lk_stats_predictive(double *v, size_t n, double level, double *out_lo, double *out_hi);
double lk_stats_mean(const double *v, size_t n);
/* Median, sorting v in place. */
double lk_stats_median(double *v, size_t n);
/* Median absolute deviation times 1.4826 (consistent for normal data); sorts a copy. */
enum lk_status lk_stats_mad_sd(const double *v, size_t n, double *out);

/*
 * Percentile bootstrap interval of the mean, resampling whole blocks of `block` consecutive
 * samples (moving-block bootstrap, Kuensch 1989), because steps that follow each other are
 * correlated. level e.g. 0.90. block 1 is the plain bootstrap; a block longer than n / 2 is cut to
 * that, because with one long block every draw would be the same. LK_EINTERNAL unless n > 0,
 * resamples > 0 and 0 < level < 1.
 */
enum lk_status lk_stats_bootstrap_mean(const double *v, size_t n, size_t block, int resamples,
                                       double level, struct lk_rng *g, struct lk_estimate *out);
/*
 * The same for mean(a)/mean(b) of paired, interleaved measurements, resampling pairs. LK_EEVIDENCE
 * when a resampled mean of b is 0.
 */
enum lk_status lk_stats_bootstrap_ratio(const double *a, const double *b, size_t n, int resamples,
                                        double level, struct lk_rng *g, struct lk_estimate *out);

/*
 * y = a + b x by least squares with weights >= 0 (NULL: all 1). LK_EEVIDENCE for fewer than two
 * different x.
 */
enum lk_status lk_stats_line(const double *x, const double *y, const double *weight, size_t n,
                             double *out_a, double *out_b);
/*
 * y = a + b x, robust: Theil-Sen slope (median of pairwise slopes), median intercept. Bears up to
 * 29 % of outliers. Time and memory grow with n^2: 100 MB at n = 5000. LK_EEVIDENCE as above.
 */
enum lk_status lk_stats_theil_sen(const double *x, const double *y, size_t n, double *out_a,
                                  double *out_b);
/*
 * Non-negative linear least squares: min |A c - y|, c >= 0 (Lawson and Hanson, 1974, ch. 23). A is
 * n x m, row major, 1 <= m <= 16, n >= 1. Columns may differ in scale by any factor and may depend
 * on each other; then one of the minima is found.
 */
enum lk_status lk_stats_nnls(const double *a, const double *y, size_t n, size_t m, double *out_c);
/* Pool-adjacent-violators: the non-decreasing fit to y (weights > 0; NULL: all 1), in place. */
enum lk_status lk_stats_isotonic(double *y, const double *weight, size_t n);
/* Wilson interval of a share: k of n at level; for coverage figures. n 0: NaN in [0, 1]. */
struct lk_estimate lk_stats_share(size_t k, size_t n, double level);
/* Quantile of the standard normal distribution (Acklam's approximation and one step of
 * Halley's method: to about 1e-15). 0 and 1 give the infinities, what lies outside NaN. */
double lk_stats_normal_quantile(double p);
/* Two-sided Student t quantile for a level, e.g. 0.95 with df degrees of freedom,
 * to 1e-8. df 0 gives infinity. */
double lk_stats_student_t(double level, size_t df);

#endif
