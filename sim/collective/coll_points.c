/* This file groups the measured points of a cluster into sets. */
#include "sim/collective/coll_points.h"

#include "base/array.h"
#include "sim/collective/links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double lk_coll_log_sd(const struct lk_quantity *q)
{
    return q->lo > 0 && q->hi >= q->lo ? log(q->hi / q->lo) / (2 * LK_Z90) : 0;
}

bool lk_coll_key_equal(struct lk_coll_key a, struct lk_coll_key b)
{
    return a.coll == b.coll && a.algo == b.algo && a.ranks == b.ranks && a.nodes == b.nodes;
}

static struct lk_coll_key key_of(const struct lk_cluster_point *p)
{
    return (struct lk_coll_key){p->coll, p->algo, p->ranks, p->nodes};
}

static bool has_alone(const struct lk_cluster *c, struct lk_coll_key at)
{
    for (size_t i = 0; i < c->n_points; i++)
        if (lk_coll_key_equal(key_of(&c->points[i]), at) && c->points[i].timing == LK_TIMING_ALONE)
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    const struct lk_cluster_point *const *p = a, *const *q = b;

    return ((*p)->bytes > (*q)->bytes) - ((*p)->bytes < (*q)->bytes);
}

static enum lk_status set_alloc(struct lk_coll_set *s, size_t n)
{
    LK_PASS(lk_alloc(&s->bytes, n, sizeof *s->bytes));
    LK_PASS(lk_alloc(&s->seconds, n, sizeof *s->seconds));
    return lk_alloc(&s->sd, n, sizeof *s->sd);
}

static void set_fini(struct lk_coll_set *s)
{
    free(s->bytes);
    free(s->seconds);
    free(s->sd);
    lk_loglog_curve_fini(&s->curve);
}

/*
 * Return a measured time moved by ln, but not below the bound by the links, unless the measured
 * time itself is below it.
 */
static double moved(const struct lk_coll_set *s, const struct lk_link_rates *rates, double measured,
                    double ln)
{
    const struct lk_coll_key *at = &s->at;
    double bound_s = lk_link_bound_s(rates, at->coll, s->bytes[s->n], at->ranks, at->nodes);

    return fmax(measured * exp(ln), fmin(measured, bound_s));
}

/* Collect the points of a key; several of one size are averaged in the logarithm. */
static enum lk_status set_init(struct lk_coll_set *s, const struct lk_cluster *c,
                               struct lk_coll_key at, double shift,
                               const struct lk_link_rates *rates)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point **picked = NULL;
    bool alone = has_alone(c, at);
    size_t n = 0;

    *s = (struct lk_coll_set){.at = at};
    LK_TRY(lk_alloc(&picked, c->n_points, sizeof *picked));
    for (size_t i = 0; i < c->n_points; i++)
        if (lk_coll_key_equal(key_of(&c->points[i]), at) &&
            (c->points[i].timing == LK_TIMING_ALONE) == alone && c->points[i].time_s.value > 0)
            picked[n++] = &c->points[i];
    qsort(picked, n, sizeof *picked, by_bytes);
    LK_TRY(set_alloc(s, n));
    for (size_t i = 0; i < n;) {
        double sum = 0, sd = 0;
        size_t same = 0;

        for (; i + same < n && picked[i + same]->bytes == picked[i]->bytes; same++) {
            sum += log(picked[i + same]->time_s.value);
            sd += lk_coll_log_sd(&picked[i + same]->time_s);
        }
        sd /= (double)same;
        /* A size of 0 (barrier) has no logarithm; its time is that of anything up to a byte. */
        s->bytes[s->n] = fmax((double)picked[i]->bytes, 1);
        s->seconds[s->n] = moved(s, rates, exp(sum / (double)same), shift * sd);
        s->sd[s->n++] = sd;
        i += same;
    }
    if (s->n)
        LK_TRY(lk_loglog_curve_init(&s->curve, s->bytes, s->seconds, s->n, LK_COLL_REAL_FALL));
out:
    free(picked);
    if (st != LK_OK)
        set_fini(s);
    return st;
}

double lk_coll_set_sd(const struct lk_coll_set *s, double bytes)
{
    size_t next = lk_coll_set_at(s, bytes), i = next ? next - 1 : 0;

    if (!next || bytes > s->bytes[next])
        return s->sd[next];
    return s->sd[i] +
           (s->sd[next] - s->sd[i]) * log(bytes / s->bytes[i]) / log(s->bytes[next] / s->bytes[i]);
}

/*
 * Return how far point i lies off the straight line between its neighbours, in ln; 0 at the ends.
 */
static double off_line(const struct lk_coll_set *s, size_t i)
{
    double x;

    if (!i || i + 1 >= s->n)
        return 0;
    x = log(s->bytes[i] / s->bytes[i - 1]) / log(s->bytes[i + 1] / s->bytes[i - 1]);
    return fabs(log(s->seconds[i] / s->seconds[i - 1]) -
                x * log(s->seconds[i + 1] / s->seconds[i - 1]));
}

/* The constants come from sizes left out of public tables (bench/accuracy_collectives). */
double lk_coll_set_between_sd(const struct lk_coll_set *s, double bytes)
{
    static const double ROUGH_SHARE = 0.85, ROUGH_FLOOR = 0.02;
    size_t i = lk_coll_set_at(s, bytes);
    double rough = fmax(off_line(s, i), i ? off_line(s, i - 1) : 0);

    return fmax(ROUGH_FLOOR, ROUGH_SHARE * rough);
}

/* ---- All sets of a cluster ---- */

enum lk_status lk_coll_sets_init(struct lk_coll_sets *s, const struct lk_cluster *c, double shift)
{
    enum lk_status st = LK_OK;
    struct lk_link_rates rates = lk_link_rates_of(c, true);

    *s = (struct lk_coll_sets){0};
    LK_TRY(lk_array_grow(&s->list, &s->capacity, c->n_points, sizeof *s->list));
    for (size_t i = 0; i < c->n_points; i++) {
        struct lk_coll_key at = key_of(&c->points[i]);

        if (lk_coll_sets_find(s, at))
            continue;
        LK_TRY(set_init(&s->list[s->n], c, at, shift, &rates));
        if (s->list[s->n].n)
            s->n++;
        else
            set_fini(&s->list[s->n]);
    }
out:
    if (st != LK_OK)
        lk_coll_sets_fini(s);
    return st;
}

enum lk_status lk_coll_sets_add(struct lk_coll_sets *s, struct lk_coll_key at, const double *bytes,
                                const double *seconds, const double *sd, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_coll_set set = {.at = at, .n = n, .derived = true};

    LK_TRY(set_alloc(&set, n));
    memcpy(set.bytes, bytes, n * sizeof *bytes);
    memcpy(set.seconds, seconds, n * sizeof *seconds);
    memcpy(set.sd, sd, n * sizeof *sd);
    LK_TRY(lk_loglog_curve_init(&set.curve, bytes, seconds, n, LK_COLL_REAL_FALL));
    LK_TRY(lk_array_grow(&s->list, &s->capacity, s->n + 1, sizeof *s->list));
    s->list[s->n++] = set;
    set = (struct lk_coll_set){0};
out:
    set_fini(&set);
    return st;
}

void lk_coll_sets_fini(struct lk_coll_sets *s)
{
    for (size_t i = 0; i < s->n; i++)
        set_fini(&s->list[i]);
    free(s->list);
    *s = (struct lk_coll_sets){0};
}

const struct lk_coll_set *lk_coll_sets_find(const struct lk_coll_sets *s, struct lk_coll_key at)
{
    for (size_t i = 0; i < s->n; i++)
        if (lk_coll_key_equal(s->list[i].at, at))
            return &s->list[i];
    return NULL;
}

/*
 * Return the layout: inside a node, one rank a node, or several. Times may be rescaled within one.
 */
static int layout_of(struct lk_coll_key at)
{
    return at.nodes == 1 ? 0 : at.nodes == at.ranks ? 1 : 2;
}

static double octaves(const struct lk_coll_set *s, struct lk_coll_key at)
{
    return fabs(log2((double)s->at.ranks / at.ranks)) +
           ((s->at.nodes == 2) != (at.nodes == 2) ? 1 : 0);
}

struct lk_coll_near lk_coll_sets_near(const struct lk_coll_sets *s, struct lk_coll_key at)
{
    struct lk_coll_near near = {{NULL, NULL}, 1};
    const struct lk_coll_set *side[2] = {NULL, NULL}; /* fewer ranks, more */
    double d[2] = {INFINITY, INFINITY};

    for (size_t i = 0; i < s->n; i++) {
        const struct lk_coll_set *set = &s->list[i];
        int k = set->at.ranks > at.ranks;

        if (set->at.coll != at.coll || set->at.algo != at.algo || set->at.ranks < 2 ||
            layout_of(set->at) != layout_of(at) || octaves(set, at) >= d[k])
            continue;
        side[k] = set;
        d[k] = octaves(set, at);
    }
    near.set[0] = d[1] < d[0] ? side[1] : side[0];
    near.set[1] = d[1] < d[0] ? side[0] : side[1];
    if (near.set[1])
        near.share = fmax(d[0], d[1]) / (d[0] + d[1]);
    return near;
}

size_t lk_coll_set_at(const struct lk_coll_set *s, double bytes)
{
    size_t i = 0;

    while (i + 1 < s->n && s->bytes[i] < bytes)
        i++;
    return i;
}
