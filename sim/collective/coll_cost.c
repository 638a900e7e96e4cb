/*
 * This file gives the cost of a collective.
 *
 * Divisions: other collectives from an all-reduce / creation / measured / rescaled from another
 * rank count / evaluation / slow links / the whole.
 */
#include "sim/collective/coll_cost.h"

#include "base/array.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/coll_model.h"
#include "sim/collective/coll_points.h"
#include "sim/collective/links.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes that differ by less than this, relatively, are the same. */
static const double SAME_SIZE = 1e-3;

/* The costs where the links of a kind are alike. */
struct level {
    int nodes;      /* the level holds for collectives on so many nodes or more */
    double slowest; /* factor of the slowest link among them; NAN: as measured */
    struct lk_coll_sets sets;
    struct lk_coll_model *model;
    double shift;                   /* of a draw, in sds: of what is derived from an all-reduce */
    bool derived[LK_COLL_MODELLED]; /* `sets` has what an all-reduce gives of it */
    struct lk_coll_sets rescaled; /* to other rank counts: forecasts ask for the same ones again */
};

struct lk_cost_model {
    struct level *levels; /* by rising nodes; the first is the cluster file, unchanged */
    size_t n;
};

/* ---- Other collectives from an all-reduce ---- */

/* The sd of the logarithm where bytes take all the time, and its increase where the launch does. */
static const double BYTES_SD = 0.12, LAUNCH_SD = 0.3;

static enum lk_status add_from_all_reduce(const struct lk_coll_model *m, double shift,
                                          const struct lk_coll_set *from, enum lk_coll coll,
                                          struct lk_coll_sets *sets)
{
    enum lk_status st = LK_OK;
    struct lk_coll_key at = from->at;
    double *seconds = NULL, *sd = NULL;

    at.coll = coll;
    if (isnan(lk_coll_model_at(m, at, 1).seconds) ||
        isnan(lk_coll_model_at(m, from->at, 1).seconds))
        return LK_OK;
    LK_TRY(lk_alloc(&seconds, from->n, sizeof *seconds));
    LK_TRY(lk_alloc(&sd, from->n, sizeof *sd));
    for (size_t i = 0; i < from->n; i++) {
        double bytes = from->bytes[i],
               more = BYTES_SD + LAUNCH_SD * (1 - lk_coll_set_slope(from, i));

        seconds[i] = fmax(from->seconds[i] * lk_coll_model_at(m, at, bytes).seconds /
                              lk_coll_model_at(m, from->at, bytes).seconds,
                          lk_coll_model_bound_s(m, at, bytes, false));
        seconds[i] *= exp(shift * more);
        sd[i] = hypot(from->sd[i], more);
    }
    LK_TRY(lk_coll_sets_add(sets, at, from, seconds, sd));
out:
    free(seconds);
    free(sd);
    return st;
}

/*
 * Derive reduce-scatter, all-gather or broadcast, if it was not measured, from each set of an
 * all-reduce by the ratio of the model's times, and add it to the sets when it is first asked for.
 * The sds are wider: in public tables with both on one machine (8 A100 of superbenchmark, 8 H100 of
 * SimuMax) all-gathers and reduce-scatters take 0.51 to 0.68 of the all-reduce where bytes
 * dominate, and up to all of it where the launch does.
 */
static enum lk_status derive(struct level *l, enum lk_coll coll)
{
    size_t n = l->sets.n;

    for (size_t i = 0; i < n && !l->derived[coll]; i++)
        if (lk_coll_model_derives(l->model, l->sets.list[i].at, coll))
            LK_PASS(add_from_all_reduce(l->model, l->shift, &l->sets.list[i], coll, &l->sets));
    l->derived[coll] = true;
    return LK_OK;
}

/* ---- Creation ---- */

/* Make the costs of a cluster with fits without regard to its entries of slow links. */
static enum lk_status level_init(struct level *l, const struct lk_cluster *c, struct lk_rng *draw,
                                 const struct lk_nccl_factors *prior)
{
    struct lk_coll_shifts by = {0};
    double shift = 0;

    if (draw) {
        shift = lk_rng_normal(draw);
        by.time = lk_rng_normal(draw);
        by.rate = lk_rng_normal(draw);
        by.error = lk_rng_normal(draw);
    }
    LK_PASS(lk_coll_sets_init(&l->sets, c, shift));
    l->shift = by.error;
    return lk_coll_model_create(c, &l->sets, prior, by, draw, &l->model);
}

static void level_fini(struct level *l)
{
    lk_coll_sets_fini(&l->sets);
    lk_coll_sets_fini(&l->rescaled);
    lk_coll_model_destroy(l->model);
}

/* ---- Measured ---- */

/* Set the evidence and a 90 % interval, whose lower end stays above the bound by the links. */
static void grade(const struct level *l, struct lk_coll_key at, double bytes, struct lk_cost *c,
                  enum lk_evidence evidence, double sd)
{
    double bound_s = lk_coll_model_bound_s(l->model, at, bytes, true);

    c->evidence = evidence;
    c->lo = fmax(c->seconds * exp(-LK_Z90 * sd), fmin(c->seconds, bound_s));
    c->hi = c->seconds * exp(LK_Z90 * sd);
}

/* Set the time of a size by a set. Return its sd, beside that of the set's points. */
static double eval_set(const struct level *l, const struct lk_coll_set *s, double bytes,
                       struct lk_cost *out)
{
    struct lk_coll_modelled at = lk_coll_model_of_set(l->model, s, bytes);
    double outside = fmax(s->bytes[0] / bytes, bytes / s->bytes[s->n - 1]);

    out->seconds = at.seconds;
    out->behind = lk_coll_set_behind(s, bytes);
    if (outside > fmax(out->extrapolation, 1 + SAME_SIZE)) {
        out->extrapolation = outside;
        out->extrapolates_bytes = true;
    }
    return at.error;
}

static void eval_measured(const struct level *l, const struct lk_coll_set *s, double bytes,
                          struct lk_cost *out)
{
    enum lk_evidence evidence = LK_EVIDENCE_INTERPOLATED;
    double error;

    *out = (struct lk_cost){.extrapolation = 1};
    bytes = fmax(bytes, 1);
    error = eval_set(l, s, bytes, out);
    for (size_t i = 0; i < s->n; i++)
        if (fabs(bytes / s->bytes[i] - 1) <= SAME_SIZE)
            evidence = LK_EVIDENCE_MEASURED;
    if (s->derived || out->extrapolates_bytes)
        evidence = LK_EVIDENCE_EXTRAPOLATED;
    if (evidence != LK_EVIDENCE_MEASURED)
        error = hypot(error, lk_coll_set_between_sd(s, bytes));
    grade(l, s->at, bytes, out, evidence, hypot(error, lk_coll_set_sd(s, bytes)));
}

/* ---- Rescaled from another rank count ---- */

/*
 * Add to `into` the points of the nearest set, rescaled (case 2 of the header). Between a smaller
 * and a larger count both sets are averaged in the logarithm, with more weight for the nearer one.
 */
static enum lk_status rescale(const struct level *l, const struct lk_coll_near *near,
                              struct lk_coll_key at, struct lk_coll_sets *into)
{
    enum lk_status st = LK_OK;
    const struct lk_coll_set *from = near->set[0], *other = near->set[1], *second;
    struct lk_coll_sets by_other = {0};
    double *seconds = NULL, *sd = NULL, share = near->share;

    LK_TRY(lk_alloc(&seconds, from->n, sizeof *seconds));
    LK_TRY(lk_alloc(&sd, from->n, sizeof *sd));
    LK_TRY(lk_coll_model_rescale(l->model, from, at, seconds, sd));
    if (other)
        LK_TRY(rescale(l, &(struct lk_coll_near){{other}, 1}, at, &by_other));
    second = by_other.list;
    for (size_t i = 0; other && i < from->n; i++) {
        size_t k = lk_coll_set_at(other, from->bytes[i]);
        double ln;

        if (from->bytes[i] < other->bytes[0] || from->bytes[i] > other->bytes[other->n - 1])
            continue;
        ln = log(lk_loglog_curve_at(&second->curve, from->bytes[i]) / seconds[i]);
        seconds[i] *= exp((1 - share) * ln);
        /* The sd is that of two independent estimates and of their difference. */
        sd[i] = sqrt(pow(share * sd[i], 2) + pow((1 - share) * second->sd[k], 2) +
                     share * (1 - share) * ln * ln);
    }
    LK_TRY(lk_coll_sets_add(into, at, from, seconds, sd));
out:
    lk_coll_sets_fini(&by_other);
    free(seconds);
    free(sd);
    return st;
}

static enum lk_status eval_rescaled(struct level *l, const struct lk_coll_near *near,
                                    struct lk_coll_key at, const uint64_t *bytes, size_t n,
                                    struct lk_cost *out)
{
    const struct lk_coll_set *from = near->set[0], *s = lk_coll_sets_find(&l->rescaled, at);

    if (!s) {
        LK_PASS(rescale(l, near, at, &l->rescaled));
        s = lk_coll_sets_find(&l->rescaled, at);
    }
    for (size_t i = 0; i < n; i++) {
        double b = fmax((double)bytes[i], 1), error;
        bool between = near->set[1] && !from->derived;

        out[i] = (struct lk_cost){.extrapolation = fmax(1, (double)at.ranks / from->at.ranks)};
        error = eval_set(l, s, b, &out[i]);
        grade(l, at, b, &out[i],
              between && !out[i].extrapolates_bytes ? LK_EVIDENCE_INTERPOLATED
                                                    : LK_EVIDENCE_EXTRAPOLATED,
              hypot(hypot(lk_coll_set_sd(from, b), s->sd[lk_coll_set_at(s, b)]), error));
    }
    return LK_OK;
}

/* ---- Evaluation ---- */

static enum lk_status no_evidence(struct lk_coll_key at)
{
    return lk_fail(
        LK_EEVIDENCE,
        "nothing is known of %s%s%s on %d ranks over %d node%s: no points, no fit and no "
        "link in the cluster file. The cheapest run that would supply it: lockstep "
        "calibrate -n %d --collectives %s --out cluster.json%s",
        lk_coll_name(at.coll), at.algo == LK_ALGO_AUTO ? "" : " by ",
        at.algo == LK_ALGO_AUTO ? "" : lk_algo_name(at.algo), at.ranks, at.nodes,
        at.nodes == 1 ? "" : "s",
        at.nodes > 1   ? 2
        : at.ranks < 4 ? at.ranks
                       : 2,
        lk_coll_name(at.coll), at.nodes > 1 ? ", one rank on each of two nodes" : "");
}

static enum lk_status eval_formula(const struct level *l, struct lk_coll_key at,
                                   const uint64_t *bytes, size_t n, struct lk_cost *out)
{
    for (size_t i = 0; i < n; i++) {
        struct lk_coll_modelled f = lk_coll_model_at(l->model, at, (double)bytes[i]);

        if (isnan(f.seconds))
            return no_evidence(at);
        out[i] = (struct lk_cost){.seconds = f.seconds, .extrapolation = at.ranks / 2.0};
        grade(l, at, (double)bytes[i], &out[i],
              f.fitted ? LK_EVIDENCE_EXTRAPOLATED : LK_EVIDENCE_PRESET, f.error);
    }
    return LK_OK;
}

/*
 * Evaluate one algorithm, or AUTO as it was measured. *out_found is false if no measured set fits.
 */
static enum lk_status eval_points(struct level *l, struct lk_coll_key at, const uint64_t *bytes,
                                  size_t n, struct lk_cost *out, bool *out_found)
{
    const struct lk_coll_set *s = lk_coll_sets_find(&l->sets, at);
    struct lk_coll_near near;

    *out_found = true;
    if (s) {
        for (size_t i = 0; i < n; i++)
            eval_measured(l, s, (double)bytes[i], &out[i]);
        return LK_OK;
    }
    near = lk_coll_sets_near(&l->sets, at);
    if (near.set[0] && !isnan(lk_coll_model_at(l->model, at, 1).seconds) &&
        !isnan(lk_coll_model_at(l->model, near.set[0]->at, 1).seconds))
        return eval_rescaled(l, &near, at, bytes, n, out);
    *out_found = false;
    return LK_OK;
}

/* Evaluate AUTO without points of its own: take the fastest measured algorithm at each size. */
static enum lk_status eval_fastest(struct level *l, struct lk_coll_key at, const uint64_t *bytes,
                                   size_t n, struct lk_cost *out, bool *out_found)
{
    enum lk_status st = LK_OK;
    struct lk_cost *other = NULL;

    *out_found = false;
    LK_TRY(lk_alloc(&other, n, sizeof *other));
    for (int a = LK_ALGO_AUTO + 1; a < LK_ALGO_COUNT; a++) {
        bool found;

        at.algo = (enum lk_algo)a;
        LK_TRY(eval_points(l, at, bytes, n, other, &found));
        for (size_t i = 0; found && i < n; i++)
            if (!*out_found || other[i].seconds < out[i].seconds)
                out[i] = other[i];
        *out_found |= found;
    }
out:
    free(other);
    return st;
}

/* Evaluate a collective on two ranks or more. */
static enum lk_status eval(struct level *l, struct lk_coll_key at, const uint64_t *bytes, size_t n,
                           struct lk_cost *out)
{
    bool found;

    LK_PASS(derive(l, at.coll));
    LK_PASS(eval_points(l, at, bytes, n, out, &found));
    if (!found && at.algo == LK_ALGO_AUTO)
        LK_PASS(eval_fastest(l, at, bytes, n, out, &found));
    if (!found)
        LK_PASS(eval_formula(l, at, bytes, n, out));
    return LK_OK;
}

/* ---- Slow links ---- */

/* The inputs from which all levels are made. */
struct source {
    const struct lk_cluster *cluster; /* with fits */
    const struct lk_rng *draw;
    const struct lk_nccl_factors *prior;
    double of_fits; /* factor of the slowest link of the points that the fits were made from */
};

/*
 * Make the costs where links between nodes are as slow as `slowest`, with these points, which were
 * rescaled to it. The cluster's other numbers are kept.
 */
static enum lk_status level_of(const struct source *s, double slowest,
                               struct lk_cluster_point *points, size_t n, struct lk_rng *draw,
                               struct level *out)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = *s->cluster;

    c.points = points;
    c.n_points = n;
    c.fits = NULL;
    LK_TRY(lk_alloc(&c.fits, c.n_fits, sizeof *c.fits));
    if (c.n_fits)
        memcpy(c.fits, s->cluster->fits, c.n_fits * sizeof *c.fits);
    LK_TRY(lk_link_scale(&c, LK_LINK_INTER, LK_LINK_BANDWIDTH, s->of_fits / slowest, true));
    LK_TRY(level_init(out, &c, draw, s->prior));
out:
    free(c.fits);
    return st;
}

/* Rescale a point by the ratio of the model's times for the new links and the measured ones. */
static enum lk_status rescale_point(struct lk_cluster_point *p, struct level *from,
                                    struct level *to)
{
    struct lk_coll_key at = {p->coll, p->algo, p->ranks, p->nodes};
    struct lk_cost a, b;

    LK_PASS(eval(from, at, &p->bytes, 1, &a));
    LK_PASS(eval(to, at, &p->bytes, 1, &b));
    p->time_s.value *= b.seconds / a.seconds;
    p->time_s.lo *= b.seconds / a.seconds;
    p->time_s.hi *= b.seconds / a.seconds;
    return LK_OK;
}

static enum lk_status slow_level_init(struct level *l, const struct source *s)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster *c = s->cluster;
    struct level from = {.slowest = NAN}, to = {0};
    struct lk_cluster_point *points = NULL;
    struct lk_rng draw;

    LK_TRY(lk_alloc(&points, c->n_points, sizeof *points));
    if (c->n_points)
        memcpy(points, c->points, c->n_points * sizeof *points);
    LK_TRY(level_of(s, l->slowest, NULL, 0, NULL, &to));
    for (size_t i = 0; i < c->n_points; i++) {
        struct lk_cluster_point *p = &points[i];
        double measured = p->nodes > 1 ? lk_slow_link_largest(c, p->nodes, true) : l->slowest;

        if (measured == l->slowest || p->ranks % p->nodes)
            continue;
        if (measured != from.slowest) {
            level_fini(&from);
            from = (struct level){.slowest = measured};
            LK_TRY(level_of(s, measured, NULL, 0, NULL, &from));
        }
        LK_TRY(rescale_point(p, &from, &to));
    }
    if (s->draw)
        draw = *s->draw;
    LK_TRY(level_of(s, l->slowest, points, c->n_points, s->draw ? &draw : NULL, l));
out:
    level_fini(&from);
    level_fini(&to);
    free(points);
    return st;
}

/*
 * Add a level that begins at this node count, unless the slowest link stays the same. Levels are
 * added by rising nodes.
 */
static enum lk_status add_level(struct lk_cost_model *m, const struct source *s, int nodes)
{
    double slowest = lk_slow_link_largest(s->cluster, nodes, false);

    if (m->levels[m->n - 1].slowest == slowest)
        return LK_OK;
    m->levels[m->n] = (struct level){.nodes = nodes, .slowest = slowest};
    return slow_level_init(&m->levels[m->n++], s);
}

/*
 * Return the next node count, above `nodes`, where the slowest link may change, which is at each
 * node that has an entry and at the node after it; 0: there is none.
 */
static int next_change(const struct lk_cluster *c, int nodes)
{
    int next = 0;

    for (size_t i = 0; i < c->n_slow; i++) {
        int at = lk_slow_link_node(c, &c->slow[i]);

        for (int n = at + 1; n <= at + 2; n++)
            if (n > nodes && (!next || n < next))
                next = n;
    }
    return next;
}

static bool knows_a_link(const struct lk_cluster *c)
{
    for (size_t i = 0; i < c->n_slow; i++)
        if (lk_quantity_known(&c->slow[i].link))
            return true;
    return false;
}

/* Add the levels of a cluster with fits that has entries of slow links. */
static enum lk_status add_levels(struct lk_cost_model *m, const struct lk_cluster *c,
                                 const struct lk_rng *draw, const struct lk_nccl_factors *prior)
{
    struct source s = {.cluster = c, .draw = draw, .prior = prior, .of_fits = 1};
    int most = 0;

    for (size_t i = 0; i < c->n_points; i++)
        most = c->points[i].nodes > most ? c->points[i].nodes : most;
    if (most > 1)
        s.of_fits = lk_slow_link_largest(c, most, true);
    for (int nodes = 2; nodes; nodes = next_change(c, nodes))
        LK_PASS(add_level(m, &s, nodes));
    return LK_OK;
}

/* ---- The whole ---- */

enum lk_status lk_cost_model_create(const struct lk_cluster *c, struct lk_rng *draw,
                                    const struct lk_nccl_factors *prior, struct lk_cost_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *m = NULL;
    struct lk_fitted_cluster fitted = {0};
    struct lk_rng again = draw ? *draw : (struct lk_rng){0};

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    LK_TRY(lk_alloc(&m->levels, 2 * c->n_slow + 2, sizeof *m->levels));
    m->levels[m->n++] = (struct level){.slowest = NAN};
    LK_TRY(lk_fitted_cluster_init(&fitted, c));
    LK_TRY(level_init(&m->levels[0], &fitted.cluster, draw, prior));
    if (knows_a_link(c))
        LK_TRY(add_levels(m, &fitted.cluster, draw ? &again : NULL, prior));
    *out = m;
    m = NULL;
out:
    lk_fitted_cluster_fini(&fitted);
    lk_cost_model_destroy(m);
    return st;
}

void lk_cost_model_destroy(struct lk_cost_model *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        level_fini(&m->levels[i]);
    free(m->levels);
    free(m);
}

static struct level *level_at(const struct lk_cost_model *m, int nodes)
{
    struct level *level = m->levels;

    for (size_t i = 1; i < m->n && nodes > 1 && m->levels[i].nodes <= nodes; i++)
        level = &m->levels[i];
    return level;
}

enum lk_status lk_cost_eval(const struct lk_cost_model *m, enum lk_coll coll, enum lk_algo algo,
                            int ranks, int nodes, const uint64_t *bytes, size_t n,
                            struct lk_cost *out)
{
    if (ranks == 1) {
        for (size_t i = 0; i < n; i++)
            out[i] = (struct lk_cost){.evidence = LK_EVIDENCE_MEASURED, .extrapolation = 1};
        return LK_OK;
    }
    return eval(level_at(m, nodes), (struct lk_coll_key){coll, algo, ranks, nodes}, bytes, n, out);
}

double lk_cost_choice(const struct lk_cost_model *m, const struct lk_cost_model *like,
                      enum lk_coll coll, enum lk_algo algo, int ranks, int nodes, uint64_t bytes,
                      char *text)
{
    *text = '\0';
    return ranks == 1
               ? 1
               : lk_coll_model_choice(level_at(m, nodes)->model, level_at(like, nodes)->model,
                                      (struct lk_coll_key){coll, algo, ranks, nodes}, (double)bytes,
                                      text);
}
