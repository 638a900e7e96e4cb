/* Estimate the straggler law from measured compute times: speed, components, tail, intervals. */
#include "facts/straggler.h"

#include "base/array.h"
#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const double SLOW_LEAST = 0.05;
static const double SLOW_SDS = 4;
static const double PRIOR_RANKS = 2;

static const double THRESHOLD_SDS = 3;
static const double BEYOND_NORMAL = 0.00135; /* share of a normal law above 3 sd */
static const double TIMES_NORMAL = 3;
static const double SHAPE_MAX = 0.9;
static const double SHARE_MAX = 0.5;
enum { PEAKS_MIN = 20, RESAMPLES = 200 };
static const double LEVEL = 0.90;

/* ---- Normal ranks ---- */

static struct lk_normal_ranks normal_ranks_of(const double *sorted, size_t n)
{
    struct lk_normal_ranks p = {.mean = lk_stats_mean(sorted, n), .slowest = sorted[n - 1], .n = n};

    for (size_t i = 0; i < n; i++)
        p.sum_sq += (sorted[i] / p.mean - 1) * (sorted[i] / p.mean - 1);
    return p;
}

struct lk_normal_ranks lk_straggler_normal_ranks(double *v, size_t n, double prior, double noise)
{
    size_t common = (n + 1) / 2;

    lk_stats_sort(v, n);
    for (; common < n; common++) {
        struct lk_normal_ranks p = normal_ranks_of(v, common);
        double freedom = PRIOR_RANKS + (double)common - 1;
        double sd = hypot(sqrt((PRIOR_RANKS * prior * prior + p.sum_sq) / freedom), noise);

        if (v[common] / p.mean - 1 > fmax(SLOW_LEAST, SLOW_SDS * sd))
            break;
    }
    return normal_ranks_of(v, common);
}

/* ---- Components ---- */

enum { RANK_SD, COMMON_SD, TRANSIENT_SD, TAIL_SHARE, TAIL_SCALE, TAIL_SHAPE, N_VALUES };

/* The repetitions of a (bootstrap) sample by number, perhaps repeated, and scratch memory. */
struct sample {
    const double *v;
    const size_t *pick;
    size_t n, ranks;
    double *rank_mean, *row_mean; /* ranks, n */
    double *residual, *column;    /* n * ranks, n */
};

static double at(const struct sample *s, size_t i, size_t rank)
{
    return s->v[s->pick[i] * s->ranks + rank];
}

/* Compute the variance components from the mean squares of ranks, repetitions and residuals. */
static void components(struct sample *s, double *values)
{
    double n = (double)s->n, ranks = (double)s->ranks, all = 0, rank_ms = 0, row_ms = 0, rest = 0;

    memset(s->rank_mean, 0, s->ranks * sizeof(double));
    memset(s->row_mean, 0, s->n * sizeof(double));
    for (size_t i = 0; i < s->n; i++)
        for (size_t r = 0; r < s->ranks; r++) {
            s->rank_mean[r] += at(s, i, r) / n;
            s->row_mean[i] += at(s, i, r) / ranks;
            all += at(s, i, r) / (n * ranks);
        }
    for (size_t r = 0; r < s->ranks; r++)
        rank_ms += n * pow(s->rank_mean[r] / all - 1, 2) / fmax(ranks - 1, 1);
    for (size_t i = 0; i < s->n; i++)
        row_ms += ranks * pow(s->row_mean[i] / all - 1, 2) / (n - 1);
    for (size_t i = 0; i < s->n; i++)
        for (size_t r = 0; r < s->ranks; r++)
            rest += pow((at(s, i, r) - s->rank_mean[r] - s->row_mean[i]) / all + 1, 2);
    rest /= fmax((ranks - 1) * (n - 1), 1);
    values[RANK_SD] = s->ranks > 1 ? sqrt(fmax(0, rank_ms - rest) / n) : 0;
    values[COMMON_SD] = s->ranks > 1 ? sqrt(fmax(0, row_ms - rest) / ranks) : 0;
    values[TRANSIENT_SD] = s->ranks > 1 ? sqrt(rest) : sqrt(row_ms);
}

/* ---- Tail ---- */

/* Compute the residuals around each rank's median. */
static void residuals(struct sample *s)
{
    for (size_t r = 0; r < s->ranks; r++) {
        double median;

        for (size_t i = 0; i < s->n; i++)
            s->column[i] = at(s, i, r);
        median = lk_stats_median(s->column, s->n);
        for (size_t i = 0; i < s->n; i++)
            s->residual[i * s->ranks + r] = at(s, i, r) / median - 1;
    }
}

/* Generalised Pareto shape and scale of n sorted excesses, by probability-weighted moments. */
static void pareto(const double *sorted, size_t n, double *out_shape, double *out_scale)
{
    double a0 = 0, a1 = 0;

    for (size_t i = 0; i < n; i++) {
        a0 += sorted[i] / (double)n;
        a1 += (1 - ((double)i + 0.65) / (double)n) * sorted[i] / (double)n;
    }
    *out_shape = fmin(SHAPE_MAX, fmax(0, 2 - a0 / (a0 - 2 * a1)));
    *out_scale = a0 * (1 - *out_shape); /* keeps the mean */
}

/* Fit the tail beyond the threshold as an excess that begins at 0; false if there is none. */
static bool tail(struct sample *s, double *values)
{
    size_t n = s->n * s->ranks, first = n;
    double sd, threshold, shape, scale, share;

    residuals(s);
    lk_stats_sort(s->residual, n);
    /* Half of the residuals lie within 0.6745 sd. The lower quartile is used because the tail would
     * widen the upper one. */
    sd = (lk_stats_quantile_sorted(s->residual, n, 0.5) -
          lk_stats_quantile_sorted(s->residual, n, 0.25)) /
         0.6745;
    threshold = THRESHOLD_SDS * sd;
    while (first && s->residual[first - 1] > threshold)
        first--;
    if (n - first < PEAKS_MIN || (double)(n - first) < TIMES_NORMAL * BEYOND_NORMAL * (double)n)
        return false;
    for (size_t i = first; i < n; i++)
        s->residual[i] -= threshold;
    pareto(s->residual + first, n - first, &shape, &scale);
    share = (double)(n - first) / (double)n;
    if (scale - shape * threshold < scale / 4) /* too high to extrapolate to 0 */
        shape = 0;
    values[TAIL_SHAPE] = shape;
    values[TAIL_SHARE] = share * (shape > 0 ? pow(scale / (scale - shape * threshold), 1 / shape)
                                            : exp(threshold / scale));
    values[TAIL_SHARE] = fmin(values[TAIL_SHARE], SHARE_MAX);
    values[TAIL_SCALE] = (scale - shape * threshold) / (1 - shape);
    values[TRANSIENT_SD] = sd;
    return true;
}

/* ---- The whole ---- */

static void sample_fini(struct sample *s)
{
    free(s->rank_mean);
    free(s->row_mean);
    free(s->residual);
    free(s->column);
}

static enum lk_status sample_init(struct sample *s)
{
    LK_PASS(lk_alloc(&s->rank_mean, s->ranks, sizeof(double)));
    LK_PASS(lk_alloc(&s->row_mean, s->n, sizeof(double)));
    LK_PASS(lk_alloc(&s->residual, s->n * s->ranks, sizeof(double)));
    return lk_alloc(&s->column, s->n, sizeof(double));
}

enum lk_status lk_straggler_fit(const double *v, size_t n, size_t ranks,
                                struct lk_straggler_fit *out)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("straggler.fit", 0));
    struct lk_estimate *to[N_VALUES] = {&out->rank_sd,    &out->common_sd,  &out->transient_sd,
                                        &out->tail_share, &out->tail_scale, &out->tail_shape};
    double values[N_VALUES] = {0}, *draws = NULL;
    size_t *pick = NULL, n_tails = 0;
    struct sample s = {.v = v, .n = n, .ranks = ranks};
    bool has_tail;

    *out = (struct lk_straggler_fit){0};
    LK_TRY(sample_init(&s));
    LK_TRY(lk_alloc(&pick, n, sizeof *pick));
    LK_TRY(lk_alloc(&draws, (size_t)N_VALUES * RESAMPLES, sizeof *draws));
    s.pick = pick;
    for (size_t i = 0; i < n; i++)
        pick[i] = i;
    components(&s, values);
    has_tail = tail(&s, values);
    for (size_t d = 0; d < RESAMPLES; d++) {
        double drawn[N_VALUES] = {0};
        bool tailed;

        for (size_t i = 0; i < n; i++)
            pick[i] = (size_t)lk_rng_below(&g, n);
        components(&s, drawn);
        tailed = has_tail && tail(&s, drawn);
        for (int k = 0; k < TAIL_SHARE; k++)
            draws[(size_t)k * RESAMPLES + d] = drawn[k];
        for (int k = TAIL_SHARE; tailed && k < N_VALUES; k++)
            draws[(size_t)k * RESAMPLES + n_tails] = drawn[k];
        if (tailed)
            n_tails++;
    }
    for (int k = 0; k < N_VALUES; k++) {
        size_t m = k < TAIL_SHARE ? RESAMPLES : n_tails;
        bool told = k == TRANSIENT_SD || (k < TAIL_SHARE && ranks > 1) || (has_tail && m);
        double *drawn = draws + (size_t)k * RESAMPLES;

        *to[k] = (struct lk_estimate){values[k], values[k], values[k], told ? n * ranks : 0};
        if (!told || !m)
            continue;
        *to[k] = lk_stats_interval(values[k], drawn, m, LEVEL);
        to[k]->n = n * ranks;
    }
out:
    sample_fini(&s);
    free(pick);
    free(draws);
    return st;
}
