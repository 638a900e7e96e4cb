/* This file groups the measured points of a cluster into sets. */
#include "sim/collective/coll_points.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/links.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool lk_coll_key_equal(struct lk_coll_key a, struct lk_coll_key b)
{
    return a.coll == b.coll && a.algo == b.algo && a.ranks == b.ranks && a.nodes == b.nodes;
}

static int power_of_two_below(int n)
{
    int p = 1;

    while (p < n - p)
        p *= 2;
    return p;
}

bool lk_coll_key_fewer(struct lk_coll_key *at, bool nvls)
{
    int nodes = at->nodes > 1 ? power_of_two_below(at->nodes) : 1;

    if (at->nodes > 1)
        at->ranks = at->ranks / at->nodes * nodes;
    else if (at->ranks > 2 && !nvls)
        at->ranks = power_of_two_below(at->ranks);
    else
        return false;
    at->nodes = nodes;
    return at->ranks > 1;
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
    LK_PASS(lk_alloc(&s->behind, n, sizeof *s->behind));
    return lk_alloc(&s->sd, n, sizeof *s->sd);
}

void lk_coll_set_fini(struct lk_coll_set *s)
{
    free(s->bytes);
    free(s->seconds);
    free(s->behind);
    free(s->sd);
    lk_loglog_curve_fini(&s->curve);
}

/*
 * Set *ln to the median logarithm of n points of one size and *sd to its sd: that of one point, and
 * of how far they lie apart (1.4826 times the median distance, of a normal law its sd). `work` has
 * n elements.
 */
static void summarise(const struct lk_cluster_point *const *p, size_t n, double *work, double *ln,
                      double *sd)
{
    double own = 0;

    for (size_t i = 0; i < n; i++) {
        work[i] = log(p[i]->time_s.value);
        own += lk_prior_log_sd(&p[i]->time_s) / (double)n;
    }
    *ln = lk_stats_median(work, n);
    for (size_t i = 0; i < n; i++)
        work[i] = fabs(log(p[i]->time_s.value) - *ln);
    *sd = hypot(own, 1.4826 * lk_stats_median(work, n));
}

/* Set the times of a key, either those timed alone or the others; of several of one size the median
 * counts. */
static enum lk_status set_times(struct lk_coll_set *s, const struct lk_cluster *c,
                                struct lk_coll_key at, bool alone)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point **picked = NULL;
    double *work = NULL;
    size_t n = 0;

    *s = (struct lk_coll_set){.at = at};
    LK_TRY(lk_alloc(&picked, c->n_points, sizeof *picked));
    LK_TRY(lk_alloc(&work, c->n_points, sizeof *work));
    for (size_t i = 0; i < c->n_points; i++)
        if (lk_coll_key_equal(key_of(&c->points[i]), at) &&
            (c->points[i].timing == LK_TIMING_ALONE) == alone && c->points[i].time_s.value > 0)
            picked[n++] = &c->points[i];
    qsort(picked, n, sizeof *picked, by_bytes);
    LK_TRY(set_alloc(s, n));
    for (size_t i = 0, next; i < n; i = next) {
        double ln;

        for (next = i + 1; next < n && picked[next]->bytes == picked[i]->bytes; next++)
            ;
        summarise(picked + i, next - i, work, &ln, &s->sd[s->n]);
        /* A size of 0 (barrier) has no logarithm; its time is that of anything up to a byte. */
        s->bytes[s->n] = fmax((double)picked[i]->bytes, 1);
        s->seconds[s->n++] = exp(ln);
    }
    if (s->n)
        LK_TRY(lk_loglog_curve_init(&s->curve, s->bytes, s->seconds, s->n, LK_COLL_REAL_FALL));
out:
    free(picked);
    free(work);
    return st;
}

/* Set how much longer a collective takes behind another, from the times of bursts at the nearest of
 * their sizes. */
static enum lk_status set_behind(struct lk_coll_set *s, const struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_coll_set bursts;

    LK_TRY(set_times(&bursts, c, s->at, false));
    for (size_t i = 0; i < s->n && bursts.n; i++) {
        double bytes = fmin(bursts.bytes[bursts.n - 1], fmax(bursts.bytes[0], s->bytes[i]));

        s->behind[i] = fmax(
            0, lk_loglog_curve_at(&bursts.curve, bytes) / lk_loglog_curve_at(&s->curve, bytes) - 1);
    }
out:
    lk_coll_set_fini(&bursts);
    return st;
}

/*
 * Move the measured times by `shift` sds, but not below the bound by the links, unless the measured
 * time itself is below it.
 */
static enum lk_status set_move(struct lk_coll_set *s, double shift,
                               const struct lk_link_rates *rates)
{
    for (size_t i = 0; i < s->n; i++) {
        double bound_s = lk_link_bound_s(rates, s->at.coll, s->bytes[i], s->at.ranks, s->at.nodes);

        s->seconds[i] = fmax(s->seconds[i] * exp(shift * s->sd[i]), fmin(s->seconds[i], bound_s));
    }
    lk_loglog_curve_fini(&s->curve);
    return lk_loglog_curve_init(&s->curve, s->bytes, s->seconds, s->n, LK_COLL_REAL_FALL);
}

/* Collect the points of a key. */
static enum lk_status set_init(struct lk_coll_set *s, const struct lk_cluster *c,
                               struct lk_coll_key at, double shift,
                               const struct lk_link_rates *rates)
{
    enum lk_status st = LK_OK;
    bool alone = has_alone(c, at);

    LK_TRY(set_times(s, c, at, alone));
    if (alone)
        LK_TRY(set_behind(s, c));
    if (s->n)
        LK_TRY(set_move(s, shift, rates));
out:
    if (st != LK_OK)
        lk_coll_set_fini(s);
    return st;
}

/* Return what a set has at a size, of values at its sizes: linear in the logarithm between them,
 * constant outside. */
static double set_value(const struct lk_coll_set *s, const double *values, double bytes)
{
    size_t next = lk_coll_set_at(s, bytes), i = next ? next - 1 : 0;
    double share;

    if (!next || bytes > s->bytes[next])
        return values[next];
    share = fmin(1, log(bytes / s->bytes[i]) / log(s->bytes[next] / s->bytes[i]));
    return lk_stats_between(values[i], values[next], share);
}

double lk_coll_set_sd(const struct lk_coll_set *s, double bytes)
{
    return set_value(s, s->sd, bytes);
}

double lk_coll_set_behind(const struct lk_coll_set *s, double bytes)
{
    return set_value(s, s->behind, bytes);
}

/* Return true if the algorithm changes between point i and the next, or there is no next. */
static bool is_last_of_algorithm(const struct lk_coll_set *s, size_t i)
{
    return i + 1 >= s->n || lk_loglog_curve_jumps(&s->curve, i);
}

static bool is_first_of_algorithm(const struct lk_coll_set *s, size_t i)
{
    return !i || lk_loglog_curve_jumps(&s->curve, i - 1);
}

/*
 * Return how far point i lies off the straight line between its neighbours, in ln; 0 at the ends,
 * and where one of the neighbours is of another algorithm.
 */
static double off_line(const struct lk_coll_set *s, size_t i)
{
    double x;

    if (is_first_of_algorithm(s, i) || is_last_of_algorithm(s, i))
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

double lk_coll_set_slope(const struct lk_coll_set *s, size_t i)
{
    size_t a = is_first_of_algorithm(s, i) ? i : i - 1, b = is_last_of_algorithm(s, i) ? i : i + 1;

    if (a == b)
        return 0;
    return fmin(1, fmax(0, log(s->seconds[b] / s->seconds[a]) / log(s->bytes[b] / s->bytes[a])));
}

/* Make a set of the sizes of `like`, with copies of other times. */
static enum lk_status set_of(struct lk_coll_key at, const struct lk_coll_set *like,
                             const double *seconds, const double *sd, struct lk_coll_set *out)
{
    enum lk_status st = LK_OK;
    size_t n = like->n;
    struct lk_coll_set set = {.at = at, .n = n};

    LK_TRY(set_alloc(&set, n));
    memcpy(set.bytes, like->bytes, n * sizeof *set.bytes);
    memcpy(set.behind, like->behind, n * sizeof *set.behind);
    memcpy(set.seconds, seconds, n * sizeof *seconds);
    memcpy(set.sd, sd, n * sizeof *sd);
    LK_TRY(lk_loglog_curve_init(&set.curve, set.bytes, seconds, n, LK_COLL_REAL_FALL));
    *out = set;
    set = (struct lk_coll_set){0};
out:
    lk_coll_set_fini(&set);
    return st;
}

enum lk_status lk_coll_set_typical(const struct lk_coll_set *s, const double *misfit,
                                   struct lk_coll_set *out)
{
    enum lk_status st = LK_OK;
    double *seconds = NULL;

    LK_TRY(lk_alloc(&seconds, s->n, sizeof *seconds));
    for (size_t i = 0; i < s->n; i++) {
        bool inner = !is_first_of_algorithm(s, i) && !is_last_of_algorithm(s, i);
        double near[3] = {misfit[inner ? i - 1 : i], misfit[i], misfit[inner ? i + 1 : i]};

        seconds[i] = s->seconds[i];
        if (inner && log(s->seconds[i] / s->seconds[i + 1]) > LK_COLL_REAL_FALL)
            seconds[i] *= exp(lk_stats_median(near, LK_COUNT(near)) - misfit[i]);
    }
    LK_TRY(set_of(s->at, s, seconds, s->sd, out));
out:
    free(seconds);
    return st;
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
            lk_coll_set_fini(&s->list[s->n]);
    }
out:
    if (st != LK_OK)
        lk_coll_sets_fini(s);
    return st;
}

enum lk_status lk_coll_sets_add(struct lk_coll_sets *s, struct lk_coll_key at,
                                const struct lk_coll_set *like, const double *seconds,
                                const double *sd)
{
    enum lk_status st = LK_OK;
    struct lk_coll_set set = {0};

    LK_TRY(set_of(at, like, seconds, sd, &set));
    set.derived = true;
    LK_TRY(lk_array_grow(&s->list, &s->capacity, s->n + 1, sizeof *s->list));
    s->list[s->n++] = set;
    set = (struct lk_coll_set){0};
out:
    lk_coll_set_fini(&set);
    return st;
}

void lk_coll_sets_fini(struct lk_coll_sets *s)
{
    for (size_t i = 0; i < s->n; i++)
        lk_coll_set_fini(&s->list[i]);
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
