/* The fit of the alpha-beta model of collectives: which points, and what their constants are. */
#include "sim/coll_fit.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/coll_formula.h"
#include "sim/coll_solve.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = LK_COLL_PROBLEM_COLUMNS, RESAMPLES = LK_COLL_PROBLEM_DRAWS };

/* The points that one fit is about. */
struct selection {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_link link;
    enum lk_timing timing;
};

/*
 * On two ranks (or nodes, between nodes) every algorithm is one exchange, in which a tree has
 * neither its depth nor its copies: such points say nothing of larger trees.
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

/* Those timed alone where there are any, as sim/coll_cost.c prefers them: the two kinds differ. */
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

static enum lk_status problem_init(struct lk_coll_problem *p, const struct lk_cluster_point *points,
                                   size_t n, const struct selection *sel,
                                   const struct lk_cluster_fit *intra)
{
    enum lk_status st = LK_OK;
    double first_hops = 0;

    *p = (struct lk_coll_problem){0};
    LK_TRY(lk_alloc(&p->a, n * COLUMNS, sizeof *p->a));
    LK_TRY(lk_alloc(&p->t, n, sizeof *p->t));
    LK_TRY(lk_alloc(&p->scaled, n * COLUMNS, sizeof *p->scaled));
    LK_TRY(lk_alloc(&p->ones, n, sizeof *p->ones));
    for (size_t i = 0; i < n; i++) {
        const struct lk_cluster_point *q = &points[i];
        struct lk_coll_shape shape;
        double hops, t = q->time_s.value;

        if (!belongs(q, sel) ||
            !lk_coll_shape(q->coll, q->algo, (double)q->bytes, q->ranks, q->nodes, &shape))
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
        lk_coll_problem_fini(p);
    return st;
}

static enum lk_status set_constants(const struct lk_coll_problem *p, const double *c, double *draws,
                                    struct lk_cluster_fit *out)
{
    enum lk_status st = LK_OK;
    double lo[COLUMNS], hi[COLUMNS], sum = 0;
    double inverse = c[2] > 0 ? c[2] : lk_coll_problem_least_inverse(p);

    for (int j = 0; j < COLUMNS; j++) {
        lo[j] = lk_stats_quantile(&draws[j * RESAMPLES], RESAMPLES, 0.05);
        hi[j] = lk_stats_quantile(&draws[j * RESAMPLES], RESAMPLES, 0.95);
    }
    for (size_t i = 0; i < p->n; i++)
        sum += lk_coll_problem_residual(p, c, i) * lk_coll_problem_residual(p, c, i);
    LK_TRY(lk_quantity_set(&out->launch_s, c[0], fmin(lo[0], c[0]), fmax(hi[0], c[0]), p->n,
                           p->launch_known ? "fit to points"
                                           : "one rank count: not told apart from the hops"));
    LK_TRY(lk_quantity_set(&out->alpha_s, c[1], fmin(lo[1], c[1]), fmax(hi[1], c[1]), p->n,
                           p->launch_known ? "fit to points" : "fit to points, with the launch"));
    LK_TRY(lk_quantity_set(&out->bandwidth_Bps, 1 / inverse, 1 / fmax(hi[2], inverse),
                           1 / fmin(lo[2], inverse), p->n,
                           c[2] > 0 ? "fit to points" : "best rate seen: the sizes are too small"));
    LK_TRY(lk_quantity_set(&out->error, sqrt(sum / (double)p->n), NAN, NAN, p->n,
                           "rms of relative errors"));
out:
    return st;
}

enum lk_status lk_coll_fit(const struct lk_cluster_point *points, size_t n, enum lk_coll coll,
                           enum lk_algo algo, enum lk_link link, const struct lk_cluster_fit *intra,
                           uint64_t seed, struct lk_cluster_fit *out)
{
    enum lk_status st = LK_OK;
    struct lk_coll_problem p = {0};
    struct lk_cluster_fit fit = {.coll = coll, .algo = algo, .link = link};
    struct selection sel = select_points(points, n, coll, algo, link);
    double c[COLUMNS], *draws = NULL;

    LK_TRY(problem_init(&p, points, n, &sel, intra));
    if (p.n < LK_COLL_FIT_POINTS_MIN) {
        st = lk_fail(LK_EEVIDENCE, "%s by %s: %zu points %s nodes, a fit needs %d",
                     lk_coll_name(coll), lk_algo_name(algo), p.n,
                     link == LK_LINK_INTER ? "between" : "inside", (int)LK_COLL_FIT_POINTS_MIN);
        goto out;
    }
    LK_TRY(lk_alloc(&draws, (size_t)RESAMPLES * COLUMNS, sizeof *draws));
    LK_TRY(lk_coll_problem_solve(&p, NULL, c));
    LK_TRY(lk_coll_problem_resample(&p, seed, draws));
    LK_TRY(set_constants(&p, c, draws, &fit));
    *out = fit;
out:
    if (st != LK_OK)
        lk_cluster_fit_fini(&fit);
    lk_coll_problem_fini(&p);
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

static size_t count_points(const struct lk_cluster *c, enum lk_coll coll, enum lk_algo algo,
                           enum lk_link link)
{
    struct selection s = select_points(c->points, c->n_points, coll, algo, link);
    size_t n = 0;

    for (size_t i = 0; i < c->n_points; i++)
        n += belongs(&c->points[i], &s);
    return n;
}

enum lk_status lk_coll_fit_cluster(struct lk_cluster *c, uint64_t seed)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_fit *fits = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&fits, (size_t)LK_COLL_COUNT * LK_ALGO_COUNT * LK_LINK_COUNT, sizeof *fits));
    for (int coll = 0; coll < LK_COLL_COUNT; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT; algo++) {
            const struct lk_cluster_fit *intra = NULL;

            for (int link = 0; link < LK_LINK_COUNT; link++) {
                if (coll == LK_BARRIER || count_points(c, (enum lk_coll)coll, (enum lk_algo)algo,
                                                       (enum lk_link)link) < LK_COLL_FIT_POINTS_MIN)
                    continue;
                st = lk_coll_fit(c->points, c->n_points, (enum lk_coll)coll, (enum lk_algo)algo,
                                 (enum lk_link)link, intra, seed, &fits[n]);
                if (st == LK_EEVIDENCE) { /* inter points that need a missing intra fit */
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
    lk_coll_fits_free(c->fits, c->n_fits);
    c->fits = fits;
    c->n_fits = n;
    fits = NULL;
out:
    lk_coll_fits_free(fits, n);
    return st;
}

void lk_coll_fits_free(struct lk_cluster_fit *fits, size_t n)
{
    for (size_t i = 0; fits && i < n; i++)
        lk_cluster_fit_fini(&fits[i]);
    free(fits);
}

enum lk_status lk_coll_fit_missing(const struct lk_cluster *c, struct lk_cluster *out,
                                   bool *out_own)
{
    enum lk_status st = LK_OK;
    struct lk_cluster copy = *c;
    bool own = !c->n_fits && c->n_points;

    if (own) {
        copy.fits = NULL;
        LK_TRY(lk_coll_fit_cluster(&copy, 1));
    }
    *out = copy;
    *out_own = own;
out:
    return st;
}
