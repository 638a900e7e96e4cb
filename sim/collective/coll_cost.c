/*
 * This file chooses the cost of a collective by the slowest link among its nodes.
 *
 * Divisions: points at another slowdown / levels / the whole.
 */
#include "sim/collective/coll_cost.h"

#include "base/array.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/links.h"

#include <stdlib.h>
#include <string.h>

/* From `nodes` nodes on, the slowest link has the factor `slowest`. */
struct level {
    int nodes;
    double slowest;
    struct lk_uniform_cost *cost; /* NULL: the cost as measured */
};

struct lk_cost_model {
    struct lk_uniform_cost *as_measured; /* by the cluster file, unchanged */
    struct level *levels;                /* by rising nodes */
    size_t n_levels;                     /* 0: no link is known to be slow */
};

/* The inputs from which all levels are made. */
struct source {
    const struct lk_cluster *cluster; /* with fits */
    const struct lk_rng *draw;
    const struct lk_nccl_factors *prior;
    double of_fits; /* slowest link of the points that the fits were made from */
};

/* ---- Points at another level ---- */

/*
 * A cluster without points and slow entries, whose links between nodes are as slow as at a level.
 */
struct bare {
    struct lk_cluster cluster;
    struct lk_cluster_fit *fits; /* a copy, whose sources are the original's */
};

static enum lk_status bare_at(const struct source *s, double level, struct bare *out)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster *c = s->cluster;

    LK_TRY(lk_alloc(&out->fits, c->n_fits, sizeof *out->fits));
    if (c->n_fits)
        memcpy(out->fits, c->fits, c->n_fits * sizeof *out->fits);
    out->cluster = *c;
    out->cluster.fits = out->fits;
    out->cluster.points = NULL;
    out->cluster.n_points = 0;
    out->cluster.n_slow = 0;
    LK_TRY(
        lk_link_scale(&out->cluster, LK_LINK_INTER, LK_LINK_BANDWIDTH, s->of_fits / level, true));
out:
    return st;
}

/* Rescale the points measured at one level to another. */
static enum lk_status move_points(const struct source *s, const struct lk_uniform_cost *to,
                                  double from_level, struct lk_cluster_point *points)
{
    enum lk_status st = LK_OK;
    struct bare bare = {0};
    struct lk_uniform_cost *from = NULL;

    LK_TRY(bare_at(s, from_level, &bare));
    LK_TRY(lk_uniform_cost_create(&bare.cluster, NULL, s->prior, &from));
    for (size_t i = 0; i < s->cluster->n_points; i++) {
        struct lk_cluster_point *p = &points[i];
        struct lk_cost a, b;

        if (p->nodes < 2 || p->ranks % p->nodes ||
            lk_slow_link_largest(s->cluster, p->nodes, true) != from_level)
            continue;
        LK_TRY(lk_uniform_cost_eval(from, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &a));
        LK_TRY(lk_uniform_cost_eval(to, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &b));
        p->time_s.value *= b.seconds / a.seconds;
        p->time_s.lo *= b.seconds / a.seconds;
        p->time_s.hi *= b.seconds / a.seconds;
    }
out:
    lk_uniform_cost_destroy(from);
    free(bare.fits);
    return st;
}

/* Return true if point `at` is the first of its level, and this level is not `level`. */
static bool is_other_level(const struct lk_cluster *c, size_t at, double level)
{
    double own = lk_slow_link_largest(c, c->points[at].nodes, true);

    if (c->points[at].nodes < 2 || own == level)
        return false;
    for (size_t i = 0; i < at; i++)
        if (c->points[i].nodes > 1 && lk_slow_link_largest(c, c->points[i].nodes, true) == own)
            return false;
    return true;
}

static enum lk_status make(const struct source *s, double level, struct lk_uniform_cost **out)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster *c = s->cluster;
    struct bare bare = {0};
    struct lk_uniform_cost *to = NULL;
    struct lk_cluster_point *points = NULL;
    struct lk_rng draw;

    LK_TRY(lk_alloc(&points, c->n_points, sizeof *points));
    if (c->n_points)
        memcpy(points, c->points, c->n_points * sizeof *points);
    LK_TRY(bare_at(s, level, &bare));
    LK_TRY(lk_uniform_cost_create(&bare.cluster, NULL, s->prior, &to));
    for (size_t i = 0; i < c->n_points; i++)
        if (is_other_level(c, i, level))
            LK_TRY(move_points(s, to, lk_slow_link_largest(c, c->points[i].nodes, true), points));
    bare.cluster.points = points;
    bare.cluster.n_points = c->n_points;
    if (s->draw)
        draw = *s->draw;
    LK_TRY(lk_uniform_cost_create(&bare.cluster, s->draw ? &draw : NULL, s->prior, out));
out:
    lk_uniform_cost_destroy(to);
    free(bare.fits);
    free(points);
    return st;
}

/* Return true if the unchanged file describes this level. */
static bool is_as_measured(const struct source *s, double level)
{
    const struct lk_cluster *c = s->cluster;

    if (level != s->of_fits)
        return false;
    for (size_t i = 0; i < c->n_points; i++)
        if (c->points[i].nodes > 1 && lk_slow_link_largest(c, c->points[i].nodes, true) != level)
            return false;
    return true;
}

/* ---- Levels ---- */

/*
 * Add a level that begins at this node count, unless the slowest link stays the same. Levels are
 * added by rising nodes.
 */
static enum lk_status add_level(struct lk_cost_model *m, const struct source *s, int nodes)
{
    enum lk_status st = LK_OK;
    struct level *e = &m->levels[m->n_levels];
    double slowest = lk_slow_link_largest(s->cluster, nodes, false);

    if (m->n_levels && e[-1].slowest == slowest)
        return LK_OK;
    *e = (struct level){.nodes = nodes, .slowest = slowest};
    if (!is_as_measured(s, slowest))
        LK_TRY(make(s, slowest, &e->cost));
    m->n_levels++;
out:
    return st;
}

static int by_count(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/*
 * Add a level wherever the slowest link may change: at each node that has an entry, and at the
 * node after it.
 */
static enum lk_status add_levels(struct lk_cost_model *m, const struct source *s)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster *c = s->cluster;
    int *counts = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&counts, 2 * c->n_slow + 1, sizeof *counts));
    LK_TRY(lk_alloc(&m->levels, 2 * c->n_slow + 1, sizeof *m->levels));
    counts[n++] = 2;
    for (size_t i = 0; i < c->n_slow; i++) {
        int at = lk_slow_link_node(c, &c->slow[i]);

        if (at > 0)
            counts[n++] = at + 1;
        counts[n++] = at + 2;
    }
    qsort(counts, n, sizeof *counts, by_count);
    for (size_t i = 0; i < n; i++)
        if (!i || counts[i] != counts[i - 1])
            LK_TRY(add_level(m, s, counts[i]));
out:
    free(counts);
    return st;
}

static bool knows_a_link(const struct lk_cluster *c)
{
    for (size_t i = 0; i < c->n_slow; i++)
        if (lk_quantity_known(&c->slow[i].link))
            return true;
    return false;
}

static enum lk_status set_levels(struct lk_cost_model *m, const struct lk_cluster *c,
                                 const struct lk_rng *draw, const struct lk_nccl_factors *prior)
{
    enum lk_status st = LK_OK;
    struct lk_cluster fitted = {0};
    struct source s = {.draw = draw, .prior = prior, .of_fits = 1};
    bool own_fits = false;
    int most = 0;

    if (!knows_a_link(c))
        return LK_OK;
    LK_TRY(lk_alpha_beta_fit_missing(c, &fitted, &own_fits));
    s.cluster = &fitted;
    for (size_t i = 0; i < c->n_points; i++)
        most = c->points[i].nodes > most ? c->points[i].nodes : most;
    if (most > 1)
        s.of_fits = lk_slow_link_largest(c, most, true);
    LK_TRY(add_levels(m, &s));
out:
    if (own_fits)
        lk_alpha_beta_fits_free(fitted.fits, fitted.n_fits);
    return st;
}

/* ---- The whole ---- */

enum lk_status lk_cost_model_create(const struct lk_cluster *c, struct lk_rng *draw,
                                    struct lk_cost_model **out)
{
    return lk_cost_model_create_from(c, draw, NULL, out);
}

enum lk_status lk_cost_model_create_from(const struct lk_cluster *c, struct lk_rng *draw,
                                         const struct lk_nccl_factors *prior,
                                         struct lk_cost_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *m = NULL;
    struct lk_rng again = draw ? *draw : (struct lk_rng){0};

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    LK_TRY(lk_uniform_cost_create(c, draw, prior, &m->as_measured));
    LK_TRY(set_levels(m, c, draw ? &again : NULL, prior));
    *out = m;
    m = NULL;
out:
    lk_cost_model_destroy(m);
    return st;
}

void lk_cost_model_destroy(struct lk_cost_model *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_levels; i++)
        lk_uniform_cost_destroy(m->levels[i].cost);
    free(m->levels);
    lk_uniform_cost_destroy(m->as_measured);
    free(m);
}

enum lk_status lk_cost_eval(const struct lk_cost_model *m, enum lk_coll coll, enum lk_algo algo,
                            int ranks, int nodes, const uint64_t *bytes, size_t n,
                            struct lk_cost *out)
{
    const struct lk_uniform_cost *cost = m->as_measured;

    for (size_t i = 0; i < m->n_levels && nodes > 1 && m->levels[i].nodes <= nodes; i++)
        cost = m->levels[i].cost ? m->levels[i].cost : m->as_measured;
    return lk_uniform_cost_eval(cost, coll, algo, ranks, nodes, bytes, n, out);
}
