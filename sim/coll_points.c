/* The measured points of a cluster, in sets. */
#include "sim/coll_points.h"

#include "base/array.h"
#include "sim/coll_floor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Relative sd of a quantity from its interval; 0 when that is unknown. */
double lk_coll_log_sd(const struct lk_quantity *q)
{
    return q->lo > 0 && q->hi >= q->lo ? log(q->hi / q->lo) / (2 * LK_Z90) : 0;
}

static bool same_set(const struct lk_cluster_point *a, const struct lk_cluster_point *b)
{
    return a->coll == b->coll && a->algo == b->algo && a->ranks == b->ranks && a->nodes == b->nodes;
}

static bool has_alone(const struct lk_cluster *c, const struct lk_cluster_point *like)
{
    for (size_t i = 0; i < c->n_points; i++)
        if (same_set(&c->points[i], like) && c->points[i].timing == LK_TIMING_ALONE)
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    const struct lk_cluster_point *const *p = a, *const *q = b;

    return ((*p)->bytes > (*q)->bytes) - ((*p)->bytes < (*q)->bytes);
}

static void set_fini(struct lk_coll_set *s)
{
    free(s->bytes);
    free(s->seconds);
    free(s->sd);
    lk_curve_fini(&s->curve);
}

/* A measured time moved by ln, but not beyond what the links allow, unless it was itself. */
static double moved(const struct lk_coll_set *s, const struct lk_coll_lines *line, double measured,
                    double ln)
{
    const struct lk_coll_place *at = &s->at;
    double floor_s = lk_coll_floor_s(line, at->coll, s->bytes[s->n], at->ranks, at->nodes);

    return fmax(measured * exp(ln), fmin(measured, floor_s));
}

/* The points like c's point `first`; several of one size are averaged in the logarithm. */
static enum lk_status set_init(struct lk_coll_set *s, const struct lk_cluster *c, size_t first,
                               double shift, const struct lk_coll_lines *line)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point *like = &c->points[first], **picked = NULL;
    bool alone = has_alone(c, like);
    size_t n = 0;

    *s = (struct lk_coll_set){
        .at = {like->coll, like->algo, like->ranks, like->nodes}
    };
    LK_TRY(lk_alloc(&picked, c->n_points, sizeof *picked));
    for (size_t i = 0; i < c->n_points; i++)
        if (same_set(&c->points[i], like) && (c->points[i].timing == LK_TIMING_ALONE) == alone &&
            c->points[i].time_s.value > 0)
            picked[n++] = &c->points[i];
    qsort(picked, n, sizeof *picked, by_bytes);
    LK_TRY(lk_alloc(&s->bytes, n, sizeof *s->bytes));
    LK_TRY(lk_alloc(&s->seconds, n, sizeof *s->seconds));
    LK_TRY(lk_alloc(&s->sd, n, sizeof *s->sd));
    for (size_t i = 0; i < n;) {
        double sum = 0, sd = 0;
        size_t same = 0;

        for (; i + same < n && picked[i + same]->bytes == picked[i]->bytes; same++) {
            sum += log(picked[i + same]->time_s.value);
            sd += lk_coll_log_sd(&picked[i + same]->time_s);
        }
        sd /= (double)same;
        /* A size of 0 (barrier) has no logarithm; it is the cost of anything up to a byte. */
        s->bytes[s->n] = fmax((double)picked[i]->bytes, 1);
        s->seconds[s->n] = moved(s, line, exp(sum / (double)same), shift * sd);
        s->sd[s->n++] = sd;
        i += same;
    }
    if (s->n)
        LK_TRY(lk_curve_init(&s->curve, s->bytes, s->seconds, s->n, 1, LK_COLL_REAL_FALL));
out:
    free(picked);
    if (st != LK_OK)
        set_fini(s);
    return st;
}

double lk_coll_set_sd(const struct lk_coll_set *s, double bytes)
{
    size_t i = 0;

    if (bytes <= s->bytes[0])
        return s->sd[0];
    while (i + 1 < s->n && s->bytes[i + 1] < bytes)
        i++;
    if (i + 1 == s->n)
        return s->sd[i];
    return s->sd[i] + (s->sd[i + 1] - s->sd[i]) * log(bytes / s->bytes[i]) /
                          log(s->bytes[i + 1] / s->bytes[i]);
}

/* ln of how far point i lies off the straight line between its neighbours; ends: 0. */
static double off_line(const struct lk_coll_set *s, size_t i)
{
    double x;

    if (!i || i + 1 >= s->n)
        return 0;
    x = log(s->bytes[i] / s->bytes[i - 1]) / log(s->bytes[i + 1] / s->bytes[i - 1]);
    return fabs(log(s->seconds[i] / s->seconds[i - 1]) -
                x * log(s->seconds[i + 1] / s->seconds[i - 1]));
}

/* ROUGH_SHARE and ROUGH_FLOOR: from sizes left out of public tables (bench/accuracy_collectives).
 */
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
    struct lk_coll_lines line = lk_coll_lines_of(c, true);

    *s = (struct lk_coll_sets){0};
    LK_TRY(lk_array_grow(&s->list, &s->capacity, c->n_points, sizeof *s->list));
    for (size_t i = 0; i < c->n_points; i++) {
        const struct lk_cluster_point *p = &c->points[i];

        if (lk_coll_sets_find(s, (struct lk_coll_place){p->coll, p->algo, p->ranks, p->nodes}))
            continue;
        LK_TRY(set_init(&s->list[s->n], c, i, shift, &line));
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

static enum lk_status copy_of(double **out, const double *v, size_t n)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(out, n, sizeof **out));
    memcpy(*out, v, n * sizeof **out);
out:
    return st;
}

enum lk_status lk_coll_sets_add(struct lk_coll_sets *s, struct lk_coll_place at,
                                const double *bytes, const double *seconds, const double *sd,
                                size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_coll_set set = {.at = at, .n = n, .derived = true};

    LK_TRY(copy_of(&set.bytes, bytes, n));
    LK_TRY(copy_of(&set.seconds, seconds, n));
    LK_TRY(copy_of(&set.sd, sd, n));
    LK_TRY(lk_curve_init(&set.curve, bytes, seconds, n, 1, LK_COLL_REAL_FALL));
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

const struct lk_coll_set *lk_coll_sets_find(const struct lk_coll_sets *s, struct lk_coll_place at)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct lk_coll_place *p = &s->list[i].at;

        if (p->coll == at.coll && p->algo == at.algo && p->ranks == at.ranks &&
            p->nodes == at.nodes)
            return &s->list[i];
    }
    return NULL;
}

/* Inside a node, one rank a node, or several: places that a model may be carried between. */
static int kind_of_place(struct lk_coll_place at)
{
    return at.nodes == 1 ? 0 : at.nodes == at.ranks ? 1 : 2;
}

static double octaves(const struct lk_coll_set *s, struct lk_coll_place at)
{
    return fabs(log2((double)s->at.ranks / at.ranks)) +
           ((s->at.nodes == 2) != (at.nodes == 2) ? 1 : 0);
}

struct lk_coll_near lk_coll_sets_near(const struct lk_coll_sets *s, struct lk_coll_place at)
{
    struct lk_coll_near near = {
        {NULL, NULL},
        1
    };
    const struct lk_coll_set *side[2] = {NULL, NULL}; /* fewer ranks, more */
    double d[2] = {INFINITY, INFINITY};

    for (size_t i = 0; i < s->n; i++) {
        const struct lk_coll_set *set = &s->list[i];
        int k = set->at.ranks > at.ranks;

        if (set->at.coll != at.coll || set->at.algo != at.algo || set->at.ranks < 2 ||
            kind_of_place(set->at) != kind_of_place(at) || octaves(set, at) >= d[k])
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
