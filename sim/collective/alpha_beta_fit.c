/*
 * This file fits the alpha-beta model to measured points.
 *
 * Divisions: least squares / points.
 */
#include "sim/collective/alpha_beta_fit.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "sim/collective/alpha_beta.h"

#include <math.h>
#include <stdlib.h>

enum {
    COLUMNS = 3,
    RESAMPLES = 200,
    HUBER_ROUNDS = 3,
    ROWS_MAX = 4096 /* of a fit with its resamples: more tell three constants no better */
};

/* The least squares problem has a row per point: a[i] . (launch, alpha, 1/bandwidth) = t[i]. */
struct problem {
    size_t n;
    double *a;             /* n * COLUMNS, as measured */
    double *t;             /* s, without the time on the other kind of link */
    double *scaled, *ones; /* work space: rows over their time and weight */
    bool launch_known;     /* the points have several hop counts */
};

/* ---- Least squares ---- */

/* Huber's tuning constant: 95 % efficiency at the normal distribution. */
static const double HUBER_K = 1.345;

/* Return the row that is i-th among those picked; NULL picks all. */
static size_t picked(const size_t *pick, size_t i)
{
    return pick ? pick[i] : i;
}

static void problem_fini(struct problem *p)
{
    free(p->a);
    free(p->t);
    free(p->scaled);
    free(p->ones);
    *p = (struct problem){0};
}

static double problem_residual(const struct problem *p, const double *c, size_t i)
{
    const double *a = &p->a[i * COLUMNS];

    return (c[0] * a[0] + c[1] * a[1] + c[2] * a[2]) / p->t[i] - 1;
}

/*
 * Set the scales of the columns, which differ by many powers of ten (seconds a hop, seconds a
 * byte). A column that is left out has scale 0.
 */
static void set_scale(const struct problem *p, double *scale)
{
    for (int j = 0; j < COLUMNS; j++) {
        double most = 0;

        for (size_t i = 0; i < p->n; i++)
            most = fmax(most, p->a[i * COLUMNS + (size_t)j] / p->t[i]);
        scale[j] = (j == 0 && !p->launch_known) || most <= 0 ? 0 : 1 / most;
    }
}

/* Set row i of the scaled problem to row `from`, divided by its time and weighted. */
static void set_row(const struct problem *p, size_t i, size_t from, double weight,
                    const double *scale)
{
    for (size_t j = 0; j < COLUMNS; j++)
        p->scaled[i * COLUMNS + j] = weight * p->a[from * COLUMNS + j] / p->t[from] * scale[j];
    p->ones[i] = weight;
}

/* Return a robust sd of the errors: 1.4826 times their median. `errors` is work space. */
static double spread_of(const struct problem *p, const size_t *pick, const double *c,
                        double *errors)
{
    for (size_t i = 0; i < p->n; i++)
        errors[i] = fabs(problem_residual(p, c, picked(pick, i)));
    return 1.4826 * lk_stats_median(errors, p->n);
}

/* Solve with the picked rows (NULL: all), first with equal weights, then with Huber's. */
static enum lk_status solve(const struct problem *p, const size_t *pick, double *c)
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
            size_t from = picked(pick, i);
            double e = spread > 0 ? fabs(problem_residual(p, c, from)) / (HUBER_K * spread) : 0;

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

/*
 * Sizes of at least LARGE_SHARE of the largest determine the rate; points whose time without bytes
 * is at least HOPS_SHARE of it determine the hops. A fit that misses the large sizes by
 * LARGE_MISFIT is replaced by solve_ends.
 */
static const double LARGE_SHARE = 1.0 / 16, HOPS_SHARE = 0.5, LARGE_MISFIT = 0.08;

static double most_bytes(const struct problem *p, const size_t *pick)
{
    double most = 0;

    for (size_t i = 0; i < p->n; i++)
        most = fmax(most, p->a[picked(pick, i) * COLUMNS + 2]);
    return most;
}

/* Return the absolute mean error of the fit over the large sizes. */
static double large_misfit(const struct problem *p, const size_t *pick, const double *c)
{
    double most = most_bytes(p, pick), sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->a[picked(pick, i) * COLUMNS + 2] >= LARGE_SHARE * most) {
            sum += problem_residual(p, c, picked(pick, i));
            n++;
        }
    return fabs(sum / (double)n);
}

/*
 * Fit a line to the large sizes on relative errors: *slope in seconds a byte, *at_zero the time of
 * no bytes, which may be negative. Return false if all have one size.
 */
static bool large_line(const struct problem *p, const size_t *pick, double *slope, double *at_zero)
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
 * Take the rate from the large sizes, then launch and hops from the points where bytes take little
 * time. Links whose time is not linear in bytes need this: a token bucket lets a burst pass at
 * once, so that small messages seem to have a higher rate and no latency. c stays as it is if the
 * sizes cannot tell.
 */
static enum lk_status solve_ends(const struct problem *p, const size_t *pick, double *c)
{
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
    LK_PASS(lk_stats_nnls(p->scaled, p->ones, p->n, COLUMNS, hops));
    c[0] = hops[0] * scale[0];
    c[1] = hops[1] * scale[1];
    c[2] = slope;
    return LK_OK;
}

static enum lk_status problem_solve(const struct problem *p, const size_t *pick, double *c)
{
    LK_PASS(solve(p, pick, c));
    if (large_misfit(p, pick, c) > LARGE_MISFIT)
        LK_PASS(solve_ends(p, pick, c));
    return LK_OK;
}

static double problem_least_inverse(const struct problem *p)
{
    double best = 0;

    for (size_t i = 0; i < p->n; i++)
        best = fmax(best, p->a[i * COLUMNS + 2] / p->t[i]);
    return 1 / best;
}

static enum lk_status problem_resample(const struct problem *p, uint64_t seed, double *draws)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(seed, lk_rng_stream("coll_fit", 0));
    double floor_inverse = problem_least_inverse(p);
    size_t *pick = NULL;

    LK_TRY(lk_alloc(&pick, p->n, sizeof *pick));
    for (size_t d = 0; d < RESAMPLES; d++) {
        double c[COLUMNS];

        for (size_t i = 0; i < p->n; i++)
            pick[i] = (size_t)lk_rng_below(&g, p->n);
        LK_TRY(problem_solve(p, pick, c));
        draws[d] = c[0];
        draws[RESAMPLES + d] = c[1];
        draws[2 * RESAMPLES + d] = c[2] > 0 ? c[2] : floor_inverse;
    }
out:
    free(pick);
    return st;
}

/* ---- Points ---- */

/* The points that one fit uses. */
struct selection {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_link link;
    enum lk_timing timing;
};

/*
 * Return true for a tree on two ranks (or on two nodes). That is a plain exchange, without a
 * tree's depth and copies, and so no evidence for larger trees.
 */
static bool is_exchange(const struct lk_cluster_point *p)
{
    return p->algo == LK_ALGO_TREE && (p->nodes > 1 ? p->nodes : p->ranks) == 2;
}

static bool belongs(const struct lk_cluster_point *p, const struct selection *s)
{
    return !is_exchange(p) && p->coll == s->coll && p->algo == s->algo && p->timing == s->timing &&
           p->ranks > 1 && p->bytes > 0 && (p->nodes > 1) == (s->link == LK_LINK_INTER);
}

/*
 * Select points timed alone if there are any, as coll_points.c does, since the two timings
 * differ.
 */
static struct selection select_points(const struct lk_cluster_point *points, size_t n,
                                      enum lk_coll coll, enum lk_algo algo, enum lk_link link)
{
    struct selection s = {coll, algo, link, LK_TIMING_ALONE};

    for (size_t i = 0; i < n; i++)
        if (belongs(&points[i], &s))
            return s;
    s.timing = LK_TIMING_BACK_TO_BACK;
    return s;
}

static enum lk_status problem_init(struct problem *p, const struct lk_cluster_point *points,
                                   size_t n, const struct selection *sel,
                                   const struct lk_cluster_fit *intra)
{
    enum lk_status st = LK_OK;
    double first_hops = 0;

    *p = (struct problem){0};
    LK_TRY(lk_alloc(&p->a, n * COLUMNS, sizeof *p->a));
    LK_TRY(lk_alloc(&p->t, n, sizeof *p->t));
    LK_TRY(lk_alloc(&p->scaled, n * COLUMNS, sizeof *p->scaled));
    LK_TRY(lk_alloc(&p->ones, n, sizeof *p->ones));
    for (size_t i = 0; i < n; i++) {
        const struct lk_cluster_point *q = &points[i];
        struct lk_alpha_beta_shape shape;
        double hops, t = q->time_s.value;

        if (!belongs(q, sel) ||
            !lk_alpha_beta_shape(q->coll, q->algo, (double)q->bytes, q->ranks, q->nodes, &shape))
            continue;
        hops = sel->link == LK_LINK_INTER ? shape.hops_inter : shape.hops_intra;
        if (sel->link == LK_LINK_INTER && shape.hops_intra > 0) {
            if (!intra)
                continue;
            t -= shape.hops_intra * intra->alpha_s.value +
                 shape.phase_bytes[LK_LINK_INTRA] / intra->bandwidth_Bps.value;
        }
        if (t <= 0)
            continue;
        p->a[p->n * COLUMNS] = 1;
        p->a[p->n * COLUMNS + 1] = hops;
        p->a[p->n * COLUMNS + 2] = shape.wire_bytes + shape.phase_bytes[sel->link];
        p->t[p->n] = t;
        if (!p->n)
            first_hops = hops;
        else if (hops < first_hops || hops > first_hops)
            p->launch_known = true;
        p->n++;
    }
out:
    if (st != LK_OK)
        problem_fini(p);
    return st;
}

/* Keep every k-th row where there are more than a fit needs: its work stays bounded. */
static void problem_thin(struct problem *p)
{
    size_t step = (p->n + ROWS_MAX - 1) / ROWS_MAX, kept = 0;

    for (size_t i = 0; step > 1 && i < p->n; i += step, kept++) {
        for (int j = 0; j < COLUMNS; j++)
            p->a[kept * COLUMNS + (size_t)j] = p->a[i * COLUMNS + (size_t)j];
        p->t[kept] = p->t[i];
    }
    p->n = step > 1 ? kept : p->n;
}

static enum lk_status set_constants(const struct problem *p, const double *c, double *draws,
                                    struct lk_cluster_fit *out)
{
    double lo[COLUMNS], hi[COLUMNS], sum = 0;
    double inverse = c[2] > 0 ? c[2] : problem_least_inverse(p);

    for (int j = 0; j < COLUMNS; j++) {
        lo[j] = lk_stats_quantile(&draws[j * RESAMPLES], RESAMPLES, 0.05);
        hi[j] = lk_stats_quantile(&draws[j * RESAMPLES], RESAMPLES, 0.95);
    }
    for (size_t i = 0; i < p->n; i++)
        sum += problem_residual(p, c, i) * problem_residual(p, c, i);
    LK_PASS(lk_quantity_set(&out->launch_s, c[0], fmin(lo[0], c[0]), fmax(hi[0], c[0]), p->n,
                            p->launch_known ? "fit to points"
                                            : "one rank count: not told apart from the hops"));
    LK_PASS(lk_quantity_set(&out->alpha_s, c[1], fmin(lo[1], c[1]), fmax(hi[1], c[1]), p->n,
                            p->launch_known ? "fit to points" : "fit to points, with the launch"));
    LK_PASS(lk_quantity_set(
        &out->bandwidth_Bps, 1 / inverse, 1 / fmax(hi[2], inverse), 1 / fmin(lo[2], inverse), p->n,
        c[2] > 0 ? "fit to points" : "best rate seen: the sizes are too small"));
    return lk_quantity_set(&out->error, sqrt(sum / (double)p->n), NAN, NAN, p->n,
                           "rms of relative errors");
}

enum lk_status lk_alpha_beta_fit(const struct lk_cluster_point *points, size_t n, enum lk_coll coll,
                                 enum lk_algo algo, enum lk_link link,
                                 const struct lk_cluster_fit *intra, uint64_t seed,
                                 struct lk_cluster_fit *out)
{
    enum lk_status st = LK_OK;
    struct problem p = {0};
    struct lk_cluster_fit fit = {.coll = coll, .algo = algo, .link = link};
    struct selection sel = select_points(points, n, coll, algo, link);
    double c[COLUMNS], *draws = NULL;

    LK_TRY(problem_init(&p, points, n, &sel, intra));
    if (p.n < LK_ALPHA_BETA_FIT_POINTS_MIN) {
        st = lk_fail(LK_EEVIDENCE, "%s by %s: %zu points %s nodes, a fit needs %d",
                     lk_coll_name(coll), lk_algo_name(algo), p.n,
                     link == LK_LINK_INTER ? "between" : "inside",
                     (int)LK_ALPHA_BETA_FIT_POINTS_MIN);
        goto out;
    }
    problem_thin(&p);
    LK_TRY(lk_alloc(&draws, (size_t)RESAMPLES * COLUMNS, sizeof *draws));
    LK_TRY(problem_solve(&p, NULL, c));
    LK_TRY(problem_resample(&p, seed, draws));
    LK_TRY(set_constants(&p, c, draws, &fit));
    *out = fit;
out:
    if (st != LK_OK)
        lk_cluster_fit_fini(&fit);
    problem_fini(&p);
    free(draws);
    return st;
}

void lk_cluster_fit_fini(struct lk_cluster_fit *f)
{
    lk_quantity_fini(&f->launch_s);
    lk_quantity_fini(&f->alpha_s);
    lk_quantity_fini(&f->bandwidth_Bps);
    lk_quantity_fini(&f->error);
}

static void fits_free(struct lk_cluster_fit *fits, size_t n)
{
    for (size_t i = 0; fits && i < n; i++)
        lk_cluster_fit_fini(&fits[i]);
    free(fits);
}

enum lk_status lk_alpha_beta_fit_cluster(struct lk_cluster *c, uint64_t seed)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_fit *fits = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&fits, (size_t)LK_COLL_MODELLED * LK_ALGO_COUNT * LK_LINK_COUNT, sizeof *fits));
    for (int coll = 0; coll < LK_COLL_MODELLED; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT; algo++) {
            const struct lk_cluster_fit *intra = NULL;

            for (int link = 0; link < LK_LINK_COUNT; link++) {
                if (coll == LK_BARRIER)
                    continue;
                st = lk_alpha_beta_fit(c->points, c->n_points, (enum lk_coll)coll,
                                       (enum lk_algo)algo, (enum lk_link)link, intra, seed,
                                       &fits[n]);
                if (st == LK_EEVIDENCE) { /* too few points, or between nodes no fit inside them */
                    st = LK_OK;
                    continue;
                }
                if (st != LK_OK)
                    goto out;
                if (link == LK_LINK_INTRA)
                    intra = &fits[n];
                n++;
            }
        }
    fits_free(c->fits, c->n_fits);
    c->fits = fits;
    c->n_fits = n;
    fits = NULL;
out:
    fits_free(fits, n);
    return st;
}

enum lk_status lk_fitted_cluster_init(struct lk_fitted_cluster *out, const struct lk_cluster *c)
{
    struct lk_fitted_cluster f = {.cluster = *c, .own = !c->n_fits && c->n_points};

    if (f.own) {
        f.cluster.fits = NULL;
        LK_PASS(lk_alpha_beta_fit_cluster(&f.cluster, 1));
    }
    *out = f;
    return LK_OK;
}

void lk_fitted_cluster_fini(struct lk_fitted_cluster *f)
{
    if (f->own)
        fits_free(f->cluster.fits, f->cluster.n_fits);
    *f = (struct lk_fitted_cluster){0};
}
