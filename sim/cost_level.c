/* Cost models by the slowest link. */
#include "sim/cost_level.h"

#include "base/array.h"
#include "sim/change.h"
#include "sim/coll_fit.h"
#include "sim/slow.h"

#include <stdlib.h>
#include <string.h>

/* From so many nodes on. */
struct level {
    int nodes;
    double slowest;
    struct lk_cost_model *model; /* NULL: the file as it is */
};

struct lk_cost_levels {
    struct level *list; /* by nodes */
    size_t n;
};

/* What all levels are made from. */
struct source {
    const struct lk_cluster *cluster; /* with fits */
    const struct lk_rng *draw;
    const struct lk_nccl_factors *prior;
    double of_fits; /* the level of what the fits were made from */
};

/* The cluster without points, its links between nodes as slow as at a level. */
static enum lk_status bare_at(const struct source *s, double level, struct lk_changed *out)
{
    const struct lk_job no_job = {0};
    const struct lk_change change = {
        .bandwidth_Bps[LK_LINK_INTER] = {s->of_fits / level, true}
    };
    struct lk_cluster bare = *s->cluster;

    bare.points = NULL;
    bare.n_points = 0;
    bare.n_slow = 0;
    return lk_changed_init(out, &no_job, &bare, &change, 2);
}

/* Multiplies the points measured at one level to be as at another. */
static enum lk_status move_points(const struct source *s, const struct lk_cost_model *to,
                                  double from_level, struct lk_cluster_point *points)
{
    enum lk_status st = LK_OK;
    struct lk_changed bare = {0};
    struct lk_cost_model *from = NULL;

    LK_TRY(bare_at(s, from_level, &bare));
    LK_TRY(lk_cost_model_create_from(&bare.cluster, NULL, s->prior, &from));
    for (size_t i = 0; i < s->cluster->n_points; i++) {
        struct lk_cluster_point *p = &points[i];
        struct lk_cost a, b;

        if (p->nodes < 2 || p->ranks % p->nodes ||
            lk_slow_links(s->cluster, p->nodes, true) != from_level)
            continue;
        LK_TRY(lk_cost_eval(from, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &a));
        LK_TRY(lk_cost_eval(to, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &b));
        p->time_s.value *= b.seconds / a.seconds;
        p->time_s.lo *= b.seconds / a.seconds;
        p->time_s.hi *= b.seconds / a.seconds;
    }
out:
    lk_cost_model_destroy(from);
    lk_changed_fini(&bare);
    return st;
}

/* Is this the first point of its level, and that not `level`? */
static bool is_other_level(const struct lk_cluster *c, size_t at, double level)
{
    double own = lk_slow_links(c, c->points[at].nodes, true);

    if (c->points[at].nodes < 2 || own == level)
        return false;
    for (size_t i = 0; i < at; i++)
        if (c->points[i].nodes > 1 && lk_slow_links(c, c->points[i].nodes, true) == own)
            return false;
    return true;
}

static enum lk_status make(const struct source *s, double level, struct lk_cost_model **out)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster *c = s->cluster;
    struct lk_changed bare = {0};
    struct lk_cost_model *to = NULL;
    struct lk_cluster_point *points = NULL;
    struct lk_rng draw;

    LK_TRY(lk_alloc(&points, c->n_points, sizeof *points));
    if (c->n_points)
        memcpy(points, c->points, c->n_points * sizeof *points);
    LK_TRY(bare_at(s, level, &bare));
    LK_TRY(lk_cost_model_create_from(&bare.cluster, NULL, s->prior, &to));
    for (size_t i = 0; i < c->n_points; i++)
        if (is_other_level(c, i, level))
            LK_TRY(move_points(s, to, lk_slow_links(c, c->points[i].nodes, true), points));
    bare.cluster.points = points;
    bare.cluster.n_points = c->n_points;
    if (s->draw)
        draw = *s->draw;
    LK_TRY(lk_cost_model_create_from(&bare.cluster, s->draw ? &draw : NULL, s->prior, out));
out:
    lk_cost_model_destroy(to);
    lk_changed_fini(&bare);
    free(points);
    return st;
}

/* Does the file as it is say what holds at this level? */
static bool is_as_measured(const struct source *s, double level)
{
    const struct lk_cluster *c = s->cluster;

    if (level != s->of_fits)
        return false;
    for (size_t i = 0; i < c->n_points; i++)
        if (c->points[i].nodes > 1 && lk_slow_links(c, c->points[i].nodes, true) != level)
            return false;
    return true;
}

/* From this many nodes on, unless the level stays as it was before. Levels come by rising nodes. */
static enum lk_status add_level(struct lk_cost_levels *l, const struct source *s, int nodes)
{
    enum lk_status st = LK_OK;
    struct level *e = &l->list[l->n];
    double slowest = lk_slow_links(s->cluster, nodes, false);

    if (l->n && e[-1].slowest == slowest)
        return LK_OK;
    *e = (struct level){.nodes = nodes, .slowest = slowest};
    if (!is_as_measured(s, slowest))
        LK_TRY(make(s, slowest, &e->model));
    l->n++;
out:
    return st;
}

static int by_count(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* The level may change with the node that has an entry, and with the first that has none. */
static enum lk_status add_levels(struct lk_cost_levels *l, const struct source *s)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster *c = s->cluster;
    int *counts = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&counts, 2 * c->n_slow + 1, sizeof *counts));
    LK_TRY(lk_alloc(&l->list, 2 * c->n_slow + 1, sizeof *l->list));
    counts[n++] = 2;
    for (size_t i = 0; i < c->n_slow; i++) {
        int at = lk_slow_node_of(c, &c->slow[i]);

        if (at > 0)
            counts[n++] = at + 1;
        counts[n++] = at + 2;
    }
    qsort(counts, n, sizeof *counts, by_count);
    for (size_t i = 0; i < n; i++)
        if (!i || counts[i] != counts[i - 1])
            LK_TRY(add_level(l, s, counts[i]));
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

enum lk_status lk_cost_levels_create(const struct lk_cluster *c, const struct lk_rng *draw,
                                     const struct lk_nccl_factors *prior,
                                     struct lk_cost_levels **out)
{
    enum lk_status st = LK_OK;
    struct lk_cluster fitted = {0};
    struct lk_cost_levels *l = NULL;
    struct source s = {.draw = draw, .prior = prior, .of_fits = 1};
    bool own_fits = false;
    int most = 0;

    *out = NULL;
    if (!knows_a_link(c))
        return LK_OK;
    LK_TRY(lk_coll_fit_missing(c, &fitted, &own_fits));
    s.cluster = &fitted;
    for (size_t i = 0; i < c->n_points; i++)
        most = c->points[i].nodes > most ? c->points[i].nodes : most;
    if (most > 1)
        s.of_fits = lk_slow_links(c, most, true);
    LK_TRY(lk_alloc(&l, 1, sizeof *l));
    LK_TRY(add_levels(l, &s));
    *out = l;
    l = NULL;
out:
    lk_cost_levels_destroy(l);
    if (own_fits)
        lk_coll_fits_free(fitted.fits, fitted.n_fits);
    return st;
}

void lk_cost_levels_destroy(struct lk_cost_levels *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        lk_cost_model_destroy(l->list[i].model);
    free(l->list);
    free(l);
}

const struct lk_cost_model *lk_cost_levels_at(const struct lk_cost_levels *l, int nodes)
{
    const struct lk_cost_model *m = NULL;

    if (!l || nodes < 2)
        return NULL;
    for (size_t i = 0; i < l->n && l->list[i].nodes <= nodes; i++)
        m = l->list[i].model;
    return m;
}
