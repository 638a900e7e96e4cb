/* The least squares problem behind a fit. */
#include "sim/coll_solve.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = LK_COLL_PROBLEM_COLUMNS, RESAMPLES = LK_COLL_PROBLEM_DRAWS, HUBER_ROUNDS = 3 };

/* Huber's tuning constant: 95 % efficiency at the normal distribution. */
static const double HUBER_K = 1.345;

void lk_coll_problem_fini(struct lk_coll_problem *p)
{
    free(p->a);
    free(p->t);
    free(p->scaled);
    free(p->ones);
    *p = (struct lk_coll_problem){0};
}

double lk_coll_problem_residual(const struct lk_coll_problem *p, const double *c, size_t i)
{
    const double *a = &p->a[i * COLUMNS];

    return (c[0] * a[0] + c[1] * a[1] + c[2] * a[2]) / p->t[i] - 1;
}

/*
 * Columns are scaled to like size, because seconds a hop and seconds a byte differ by many powers
 * of ten; one that is left out gets 0.
 */
static void set_scale(const struct lk_coll_problem *p, double *scale)
{
    for (int j = 0; j < COLUMNS; j++) {
        double most = 0;

        for (size_t i = 0; i < p->n; i++)
            most = fmax(most, p->a[i * COLUMNS + (size_t)j] / p->t[i]);
        scale[j] = (j == 0 && !p->launch_known) || most <= 0 ? 0 : 1 / most;
    }
}

/* The scaled row i, over its time, weighted. */
static void set_row(const struct lk_coll_problem *p, size_t i, size_t from, double weight,
                    const double *scale)
{
    for (size_t j = 0; j < COLUMNS; j++)
        p->scaled[i * COLUMNS + j] = weight * p->a[from * COLUMNS + j] / p->t[from] * scale[j];
    p->ones[i] = weight;
}

/* 1.4826 times the median error, or 0; `errors` is work space. */
static double spread_of(const struct lk_coll_problem *p, const size_t *pick, const double *c,
                        double *errors)
{
    for (size_t i = 0; i < p->n; i++)
        errors[i] = fabs(lk_coll_problem_residual(p, c, pick ? pick[i] : i));
    return 1.4826 * lk_stats_median(errors, p->n);
}

/* Solves with the rows picked (NULL: all), first with equal weights, then with Huber's. */
static enum lk_status solve(const struct lk_coll_problem *p, const size_t *pick, double *c)
{
    enum lk_status st = LK_OK;
    double scale[COLUMNS], *errors = NULL;

    LK_TRY(lk_alloc(&errors, p->n, sizeof *errors));
    set_scale(p, scale);
    for (int j = 0; j < COLUMNS; j++)
        c[j] = 0;
    for (int round = 0; round <= HUBER_ROUNDS; round++) {
        double spread = round ? spread_of(p, pick, c, errors) : 0;

        for (size_t i = 0; i < p->n; i++) {
            size_t from = pick ? pick[i] : i;
            double e =
                spread > 0 ? fabs(lk_coll_problem_residual(p, c, from)) / (HUBER_K * spread) : 0;

            set_row(p, i, from, e > 1 ? 1 / sqrt(e) : 1, scale);
        }
        LK_TRY(lk_stats_nnls(p->scaled, p->ones, p->n, COLUMNS, c));
        for (int j = 0; j < COLUMNS; j++)
            c[j] *= scale[j];
    }
out:
    free(errors);
    return st;
}

/* Sizes at least this share of the largest tell the rate; times at least this share of which is not
 * bytes tell the hops; a fit this far off the former is made from the ends. */
static const double LARGE_SHARE = 1.0 / 16, HOPS_SHARE = 0.5, LARGE_MISFIT = 0.08;

static size_t picked(const size_t *pick, size_t i)
{
    return pick ? pick[i] : i;
}

static double most_bytes(const struct lk_coll_problem *p, const size_t *pick)
{
    double most = 0;

    for (size_t i = 0; i < p->n; i++)
        most = fmax(most, p->a[picked(pick, i) * COLUMNS + 2]);
    return most;
}

/* How far the fit is off the large sizes, on the whole. */
static double large_misfit(const struct lk_coll_problem *p, const size_t *pick, const double *c)
{
    double most = most_bytes(p, pick), sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->a[picked(pick, i) * COLUMNS + 2] >= LARGE_SHARE * most) {
            sum += lk_coll_problem_residual(p, c, picked(pick, i));
            n++;
        }
    return fabs(sum / (double)n);
}

/* The line through the large sizes, by relative errors: seconds a byte, and at no bytes (may be
 * negative). False: they are of one size. */
static bool large_line(const struct lk_coll_problem *p, const size_t *pick, double *slope,
                       double *at_zero)
{
    double most = most_bytes(p, pick), w = 0, x = 0, y = 0, xx = 0, xy = 0, d;

    for (size_t i = 0; i < p->n; i++) {
        size_t k = picked(pick, i);
        double bytes = p->a[k * COLUMNS + 2] / most, t = p->t[k], v = 1 / (t * t);

        if (bytes < LARGE_SHARE)
            continue;
        w += v;
        x += v * bytes;
        y += v * t;
        xx += v * bytes * bytes;
        xy += v * bytes * t;
    }
    d = w * xx - x * x;
    if (!(d > 1e-9 * w * xx))
        return false;
    *slope = (w * xy - x * y) / d / most;
    *at_zero = (y - *slope * most * x) / w;
    return *slope > 0;
}

/*
 * The rate from the large sizes, then launch and hops from those where bytes take little. For links
 * that are no line of bytes: a shaped one (token bucket) lets a burst pass at once, so that small
 * messages seem to have a higher rate and no latency. Leaves c where the sizes cannot tell.
 */
static enum lk_status solve_ends(const struct lk_coll_problem *p, const size_t *pick, double *c)
{
    enum lk_status st = LK_OK;
    double scale[COLUMNS], hops[COLUMNS], slope, at_zero, burst;
    size_t n = 0;

    if (!large_line(p, pick, &slope, &at_zero))
        return LK_OK;
    burst = fmax(0, -at_zero / slope);
    set_scale(p, scale);
    scale[2] = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = picked(pick, i);
        double rest = 1 - slope * fmax(0, p->a[k * COLUMNS + 2] - burst) / p->t[k];

        set_row(p, i, k, rest >= HOPS_SHARE ? 1 : 0, scale);
        p->ones[i] *= rest;
        n += rest >= HOPS_SHARE;
    }
    if (!n)
        return LK_OK;
    LK_TRY(lk_stats_nnls(p->scaled, p->ones, p->n, COLUMNS, hops));
    c[0] = hops[0] * scale[0];
    c[1] = hops[1] * scale[1];
    c[2] = slope;
out:
    return st;
}

enum lk_status lk_coll_problem_solve(const struct lk_coll_problem *p, const size_t *pick, double *c)
{
    enum lk_status st = LK_OK;

    LK_TRY(solve(p, pick, c));
    if (large_misfit(p, pick, c) > LARGE_MISFIT)
        LK_TRY(solve_ends(p, pick, c));
out:
    return st;
}

double lk_coll_problem_least_inverse(const struct lk_coll_problem *p)
{
    double best = 0;

    for (size_t i = 0; i < p->n; i++)
        best = fmax(best, p->a[i * COLUMNS + 2] / p->t[i]);
    return 1 / best;
}

enum lk_status lk_coll_problem_resample(const struct lk_coll_problem *p, uint64_t seed,
                                        double *draws)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(seed, lk_rng_stream("coll_fit", 0));
    double floor_inverse = lk_coll_problem_least_inverse(p);
    size_t *pick = NULL;

    LK_TRY(lk_alloc(&pick, p->n, sizeof *pick));
    for (size_t d = 0; d < RESAMPLES; d++) {
        double c[COLUMNS];

        for (size_t i = 0; i < p->n; i++)
            pick[i] = (size_t)lk_rng_below(&g, p->n);
        LK_TRY(lk_coll_problem_solve(p, pick, c));
        draws[d] = c[0];
        draws[RESAMPLES + d] = c[1];
        draws[2 * RESAMPLES + d] = c[2] > 0 ? c[2] : floor_inverse;
    }
out:
    free(pick);
    return st;
}
