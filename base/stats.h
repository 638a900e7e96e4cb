/*
 * Compute statistics of samples: summaries, quantiles, bootstrap intervals, robust fits. Samples
 * are finite, in any unit, and results have that unit. There is no shared state: any thread may
 * call, with a random generator of its own. `level` is the probability of an interval, 0 to 1, e.g.
 * 0.90.
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
    double mean, sd, min, median, max; /* sd with n - 1; 0 for n < 2 */
};

/* Summarise v[0..n). pre: n > 0. LK_ENOMEM is possible: the samples are copied and sorted. */
enum lk_status lk_stats_summary(const double *v, size_t n, struct lk_summary *out);

/* Return a where share is 0, b where it is 1, and what lies between in proportion: never below 0,
 * not by rounding either, where neither of them is. pre: share in [0, 1]. */
double lk_stats_between(double a, double b, double share);

/*
 * Return quantile q in [0, 1] of a sorted array by linear interpolation between order statistics
 * (Hyndman and Fan, type 7: numpy's and R's default). pre: n > 0.
 */
double lk_stats_quantile_sorted(const double *sorted, size_t n, double q);
/* Sort in rising order; NaN is not allowed. */
void lk_stats_sort(double *v, size_t n);
/* Return quantile q of an unsorted array, which is sorted in place. */
double lk_stats_quantile(double *v, size_t n, double q);
/*
 * Compute the interval that contains one further draw with probability `level`: quantiles by p (n +
 * 1) (Hyndman and Fan, type 6), since a new draw falls below the k-th of n with probability k / (n
 * + 1). Sorts v. pre: n > 0.
 */
void lk_stats_predictive(double *v, size_t n, double level, double *out_lo, double *out_hi);
/*
 * Return the value with its interval by n draws of it, v: percentiles at (1 - level) / 2 and (1 +
 * level) / 2, widened to hold the value. A value of NaN leaves the percentiles as they are. Sorts
 * v; n of the result is the number of draws. pre: n > 0.
 */
struct lk_estimate lk_stats_interval(double value, double *v, size_t n, double level);
/* Return the probability that a ratio is above 1: the mean over n draws of it, each with a further
 * lognormal error whose logarithm has this sd. sd 0: the share of draws above 1. pre: n > 0, all
 * draws above 0. */
double lk_stats_above_one(const double *ratios, size_t n, double sd);
/* Return the mean; NaN for n = 0. */
double lk_stats_mean(const double *v, size_t n);
/* Return the median; sorts v in place. */
double lk_stats_median(double *v, size_t n);

/*
 * Compute the percentile bootstrap interval of the mean, resampling whole blocks of `block`
 * consecutive samples (moving-block bootstrap, Kuensch 1989), because consecutive steps are
 * correlated. block 1 is the plain bootstrap; a block longer than n / 2 is cut to that, because
 * with one long block every draw would be the same. LK_EINTERNAL unless n > 0, resamples > 0 and 0
 * < level < 1.
 */
enum lk_status lk_stats_bootstrap_mean(const double *v, size_t n, size_t block, int resamples,
                                       double level, struct lk_rng *g, struct lk_estimate *out);
/*
 * Compute the bootstrap interval of mean(a)/mean(b) for paired, interleaved measurements,
 * resampling pairs: a[i] with b[i]. LK_EEVIDENCE when a resampled mean of b is 0.
 */
enum lk_status lk_stats_bootstrap_ratio(const double *a, const double *b, size_t n, int resamples,
                                        double level, struct lk_rng *g, struct lk_estimate *out);
/* Compute the bootstrap interval of the median, resampling single samples; the interval holds the
 * median. */
enum lk_status lk_stats_bootstrap_median(const double *v, size_t n, int resamples, double level,
                                         struct lk_rng *g, struct lk_estimate *out);

/* The samples of one repetition, in order; v is borrowed. */
struct lk_series {
    const double *v;
    size_t n;
};
/*
 * Compute the mean of the means of n_series repetitions of positive samples, with its interval:
 * Student's t on the logarithms of the means. A single series takes lk_stats_bootstrap_mean, plain
 * where it has fewer than two blocks; block, resamples and g are for it alone. out->n: the number
 * of series, or of samples of the single one. pre: n_series > 0.
 */
enum lk_status lk_stats_repeated_mean(const struct lk_series *series, size_t n_series, size_t block,
                                      int resamples, double level, struct lk_rng *g,
                                      struct lk_estimate *out);

/*
 * Solve non-negative linear least squares: min |A c - y|, c >= 0 (Lawson and Hanson, 1974, ch. 23).
 * A is n x m, row major, 1 <= m <= 16, n >= 1. Columns may differ in scale by any factor and may be
 * linearly dependent; then one of the minima is found. out_c has room for m numbers.
 */
enum lk_status lk_stats_nnls(const double *a, const double *y, size_t n, size_t m, double *out_c);
/* Replace y by its non-decreasing fit (pool adjacent violators; weights > 0; NULL: all 1). */
enum lk_status lk_stats_isotonic(double *y, const double *weight, size_t n);
/* Return the share k / n with its Wilson interval, e.g. of the forecasts whose interval held what
 * was measured. n 0: value NaN, interval 0 to 1. */
struct lk_estimate lk_stats_wilson(size_t k, size_t n, double level);
/* Return the quantile of the standard normal distribution (Acklam's approximation and one step of
 * Halley's method: to about 1e-15). p of 0 and 1 gives the infinities, p outside [0, 1] NaN. */
double lk_stats_normal_quantile(double p);
/* Return the two-sided Student t quantile for a level, e.g. 0.95, with df degrees of freedom, to
 * 1e-8. df 0 gives infinity. */
double lk_stats_student_t(double level, size_t df);

/* Return the probability of at least k successes in n trials of probability p each, 0 < p < 1. */
double lk_stats_binomial_tail(size_t k, size_t n, double p);

#endif
