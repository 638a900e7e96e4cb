/* Bootstrap intervals of means, ratios and medians: base/stats.h. */
#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum lk_status check_arguments(size_t n, int resamples, double level)
{
    if (n && resamples > 0 && level > 0 && level < 1)
        return LK_OK;
    return lk_fail(LK_EINTERNAL, "bootstrap of %zu samples, %d times, at level %g", n, resamples,
                   level);
}

/* The mean of n samples in blocks drawn at random; sums[i] is the sum of the first i samples. */
static double block_mean(const double *sums, size_t n, size_t block, struct lk_rng *g)
{
    double sum = 0;
    size_t left = n;

    while (left) {
        size_t from = (size_t)lk_rng_below(g, n - block + 1);
        size_t count = block < left ? block : left; /* the last block is cut */

        sum += sums[from + count] - sums[from];
        left -= count;
    }
    return sum / (double)n;
}

enum lk_status lk_stats_bootstrap_mean(const double *v, size_t n, size_t block, int resamples,
                                       double level, struct lk_rng *g, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    double *sums = NULL;
    double *draws = NULL;
    double mean;

    LK_TRY(check_arguments(n, resamples, level));
    mean = lk_stats_mean(v, n);
    if (n == 1) {
        *out = (struct lk_estimate){.value = mean, .lo = mean, .hi = mean, .n = n};
        return LK_OK;
    }
    block = block > n / 2 ? n / 2 : block ? block : 1;
    LK_TRY(lk_alloc(&sums, n + 1, sizeof *sums));
    LK_TRY(lk_alloc(&draws, (size_t)resamples, sizeof *draws));
    for (size_t i = 0; i < n; i++)
        sums[i + 1] = sums[i] + (v[i] - mean);
    for (int i = 0; i < resamples; i++)
        draws[i] = mean + block_mean(sums, n, block, g);
    *out = lk_stats_interval(NAN, draws, (size_t)resamples, level);
    out->value = mean;
    out->n = n;
out:
    free(draws);
    free(sums);
    return st;
}

enum lk_status lk_stats_bootstrap_ratio(const double *a, const double *b, size_t n, int resamples,
                                        double level, struct lk_rng *g, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    double *draws = NULL;
    double ratio;

    LK_TRY(check_arguments(n, resamples, level));
    ratio = lk_stats_mean(a, n) / lk_stats_mean(b, n);
    if (n == 1) {
        *out = (struct lk_estimate){.value = ratio, .lo = ratio, .hi = ratio, .n = n};
        return LK_OK;
    }
    LK_TRY(lk_alloc(&draws, (size_t)resamples, sizeof *draws));
    for (int i = 0; i < resamples; i++) {
        double sum_a = 0;
        double sum_b = 0;

        for (size_t j = 0; j < n; j++) {
            size_t pick = (size_t)lk_rng_below(g, n);

            sum_a += a[pick];
            sum_b += b[pick];
        }
        draws[i] = sum_a / sum_b;
        if (!isfinite(draws[i]))
            LK_TRY(lk_fail(LK_EEVIDENCE, "the ratio of means is not finite: a divisor is 0"));
    }
    *out = lk_stats_interval(NAN, draws, (size_t)resamples, level);
    out->value = ratio;
    out->n = n;
out:
    free(draws);
    return st;
}

enum lk_status lk_stats_bootstrap_median(const double *v, size_t n, int resamples, double level,
                                         struct lk_rng *g, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    double *copy = NULL;
    double *draws = NULL;

    LK_TRY(check_arguments(n, resamples, level));
    LK_TRY(lk_alloc(&copy, n, sizeof *copy));
    LK_TRY(lk_alloc(&draws, (size_t)resamples, sizeof *draws));
    for (int d = 0; d < resamples; d++) {
        for (size_t i = 0; i < n; i++)
            copy[i] = v[lk_rng_below(g, n)];
        draws[d] = lk_stats_median(copy, n);
    }
    memcpy(copy, v, n * sizeof *copy);
    *out = lk_stats_interval(lk_stats_median(copy, n), draws, (size_t)resamples, level);
    out->n = n;
out:
    free(draws);
    free(copy);
    return st;
}

enum lk_status lk_stats_repeated_mean(const struct lk_series *series, size_t n_series, size_t block,
                                      int resamples, double level, struct lk_rng *g,
                                      struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_summary logs;
    double *means = NULL;
    double total = 0, half;

    if (n_series == 1)
        return lk_stats_bootstrap_mean(series->v, series->n, series->n < 2 * block ? 1 : block,
                                       resamples, level, g, out);
    LK_TRY(lk_alloc(&means, n_series, sizeof *means));
    for (size_t i = 0; i < n_series; i++) {
        double mean = lk_stats_mean(series[i].v, series[i].n);

        total += mean;
        means[i] = log(mean);
    }
    LK_TRY(lk_stats_summary(means, n_series, &logs));
    half = lk_stats_student_t(level, n_series - 1) * logs.sd / sqrt((double)n_series);
    total /= (double)n_series;
    *out = (struct lk_estimate){total, total * exp(-half), total * exp(half), n_series};
out:
    free(means);
    return st;
}
