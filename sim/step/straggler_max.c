/* This file computes the law of the slowest rank and of the slowest link. */
#include "sim/step/straggler_max.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { STRATA = 24 };

/* Each stratum of the tail begins at this share of the last one's probability to be exceeded. */
static const double STRATUM = 0.70710678;

/* The table is cut outside these probabilities; the last cells are geometric. */
static const double CUT = 1e-6;
static const double LINK_LEAST = 0.05; /* of the average link's time */

/* Ranks with the same law. */
struct group {
    double mean, sd;
    double n;
};

/* The noise of an unknown rank around its group: normal noise and the tail. */
struct noise {
    double sd;
    double tail_share, tail_mean;
    double excess[STRATA], weight[STRATA];
};

struct law {
    struct group *groups;
    size_t n, capacity;
    struct noise noise;
};

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

static double step_at(double x, double sd)
{
    return sd > 0 ? normal_cdf(x / sd) : x >= 0;
}

/* Return the probability that a rank of the group has at most this effect. */
static double rank_cdf(const struct law *l, const struct group *g, double x)
{
    const struct noise *n = &l->noise;
    double sd = hypot(g->sd, n->sd), at = x - g->mean + n->tail_mean;
    double p = step_at(at, sd);

    if (n->tail_share > 0) {
        double beyond = 0;

        for (int i = 0; i < STRATA; i++)
            beyond += n->weight[i] * step_at(at - n->excess[i], sd);
        p += n->tail_share * (beyond - p);
    }
    return p;
}

static double cdf(const struct law *l, double x)
{
    double p = 1;

    for (size_t i = 0; i < l->n; i++)
        p *= pow(rank_cdf(l, &l->groups[i], x), l->groups[i].n);
    return p;
}

static double quantile(const struct law *l, double u)
{
    double lo = INFINITY, hi = -INFINITY, width = 1e-9;

    for (size_t i = 0; i < l->n; i++) {
        lo = fmin(lo, l->groups[i].mean);
        hi = fmax(hi, l->groups[i].mean);
        width = fmax(width, hypot(l->groups[i].sd, l->noise.sd));
    }
    for (double w = width; cdf(l, lo) > u; w *= 2)
        lo -= w;
    for (double w = width; cdf(l, hi) < u; w *= 2)
        hi += w;
    for (int i = 0; i < 40; i++) {
        double at = (lo + hi) / 2;

        if (cdf(l, at) < u)
            lo = at;
        else
            hi = at;
    }
    return hi;
}

/* Return the generalised Pareto law's scale from its mean. */
static double scale_of(const struct lk_straggler_law *l)
{
    return l->tail_scale * (1 - l->tail_shape);
}

/* Return the generalised Pareto excess that is exceeded with probability p. */
static double excess_at(const struct lk_straggler_law *l, double p)
{
    return scale_of(l) *
           (l->tail_shape > 0 ? expm1(-l->tail_shape * log(p)) / l->tail_shape : -log(p));
}

static double mean_above(const struct lk_straggler_law *l, double p)
{
    double at = excess_at(l, p);

    return at + (scale_of(l) + l->tail_shape * at) / (1 - l->tail_shape);
}

/* Set strata of the tail by their means, finer towards its end. */
static void set_noise(struct noise *n, const struct lk_straggler_law *law, int micro_batches)
{
    double micro = micro_batches, p = 1;

    *n = (struct noise){.sd = law->transient_sd / sqrt(micro)};
    if (!(law->tail_share > 0) || !(law->tail_scale > 0))
        return;
    n->tail_share = 1 - pow(1 - fmin(law->tail_share, 1 - 1e-9), micro);
    n->tail_mean = law->tail_share * law->tail_scale;
    for (int i = 0; i < STRATA; i++, p *= STRATUM) {
        double q = i + 1 < STRATA ? p * STRATUM : 0;
        double sum = p * mean_above(law, p) - (q > 0 ? q * mean_above(law, q) : 0);

        n->weight[i] = p - q;
        n->excess[i] = sum / (p - q) / micro;
    }
}

static enum lk_status add_rank(struct law *l, double mean, double sd, double n)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->groups[i].mean == mean && l->groups[i].sd == sd) {
            l->groups[i].n += n;
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&l->groups, &l->capacity, l->n + 1, sizeof *l->groups));
    l->groups[l->n++] = (struct group){mean, sd, n};
    return LK_OK;
}

static enum lk_status set_groups(struct law *l, const struct lk_step_model *m)
{
    int per_node = (m->ranks + m->nodes - 1) / m->nodes;
    double own_sd = m->law.rank_sd, sd = hypot(own_sd, m->law.node_sd);

    if (!m->rank_slowness)
        return add_rank(l, 0, sd, m->ranks);
    for (int r = 0; r < m->ranks; r++) {
        double rank = m->rank_slowness[r],
               node = m->node_slowness ? m->node_slowness[r / per_node] : NAN;

        if (!isnan(rank))
            LK_PASS(add_rank(l, rank, m->ranks_vary ? (1 + rank) * own_sd : 0, 1));
        else if (!isnan(node))
            LK_PASS(add_rank(l, node, own_sd, 1));
        else
            LK_PASS(add_rank(l, 0, sd, 1));
    }
    return LK_OK;
}

/* Spread half of the cells evenly to the 95 % quantile, the others ever wider to the end. */
static void set_table(struct lk_straggler_max *s, const struct law *l)
{
    enum { HALF = LK_STRAGGLER_MAX_CELLS / 2 };
    double lo = quantile(l, CUT), mid = quantile(l, 0.95), hi = quantile(l, 1 - CUT);
    double even = (mid - lo) / HALF, rest = hi - mid, ratio = 1;

    /* Find the ratio at which HALF cells that begin as wide as the even ones reach the end. */
    for (int i = 0; i < 30 && even > 0 && rest > even * HALF; i++)
        ratio = pow(1 + (ratio > 1 ? ratio - 1 : 0.1) * rest / even, 1.0 / HALF);
    for (int i = 0; i <= HALF; i++)
        s->effect[i] = lo + even * i;
    for (int i = 1; i <= HALF; i++)
        s->effect[HALF + i] = mid + rest * (ratio > 1 ? (pow(ratio, i) - 1) / (pow(ratio, HALF) - 1)
                                                      : (double)i / HALF);
    for (int i = 0; i <= LK_STRAGGLER_MAX_CELLS; i++)
        s->share[i] = cdf(l, s->effect[i]);
    s->mean = s->effect[0];
    for (int i = 0; i < LK_STRAGGLER_MAX_CELLS; i++)
        s->mean += (s->effect[i + 1] - s->effect[i]) * (1 - (s->share[i] + s->share[i + 1]) / 2);
}

/* Return the persistent share of the variance of the groups that are slowest at the median. */
static double persistent_share(const struct law *l, const struct lk_straggler_max *s)
{
    double median = lk_straggler_max_quantile(s, 0.5), own = 0, all = 0;

    for (size_t i = 0; i < l->n; i++) {
        const struct group *g = &l->groups[i];
        double weight = g->n * (1 - rank_cdf(l, g, median));

        own += weight * g->sd * g->sd;
        all += weight * (g->sd * g->sd + l->noise.sd * l->noise.sd);
    }
    return all > 0 ? own / all : 0;
}

enum lk_status lk_straggler_max_init(struct lk_straggler_max *s, const struct lk_step_model *m,
                                     int micro_batches)
{
    enum lk_status st = LK_OK;
    struct law l = {0};

    *s = (struct lk_straggler_max){0};
    set_noise(&l.noise, &m->law, micro_batches);
    LK_TRY(set_groups(&l, m));
    set_table(s, &l);
    s->persistent = persistent_share(&l, s);
    for (size_t i = 0; i < l.n; i++)
        s->average += l.groups[i].n * l.groups[i].mean / m->ranks;
out:
    free(l.groups);
    return st;
}

double lk_straggler_max_quantile(const struct lk_straggler_max *s, double u)
{
    int lo = 0, hi = LK_STRAGGLER_MAX_CELLS;

    while (hi - lo > 1) {
        int at = (lo + hi) / 2;

        if (s->share[at] < u)
            lo = at;
        else
            hi = at;
    }
    if (u <= s->share[lo] || s->share[hi] <= s->share[lo])
        return s->effect[u <= s->share[lo] ? lo : hi];
    return s->effect[lo] + (s->effect[hi] - s->effect[lo]) *
                               fmin(1, (u - s->share[lo]) / (s->share[hi] - s->share[lo]));
}

/* ---- Links ---- */

/* Return the u-quantile of the slowest of n unknown links; 0 if n is 0. */
static double slowest_unknown(const struct lk_step_model *m, double u, int n)
{
    return n > 0 ? 1 + m->law.link_sd * lk_stats_normal_quantile(pow(u, 1.0 / n)) : 0;
}

double lk_straggler_max_link(const struct lk_step_model *m, double u, double u_apart)
{
    int measured = m->law.link_nodes, both = 0, apart;
    double known = 0, shared, rest;

    if (m->nodes < 2 || !(m->law.link_sd > 0))
        return 1;
    if (measured < 2)
        measured = m->nodes;
    apart = measured > m->nodes ? measured - m->nodes : 0;
    for (int i = 0; i < m->nodes; i++) {
        bool is_known = m->node_link && !isnan(m->node_link[i]);

        known = is_known ? fmax(known, m->node_link[i]) : known;
        both += !is_known && i < measured;
        apart += !is_known && i >= measured;
    }
    shared = slowest_unknown(m, u, both);
    if (m->law.link_nodes < 2)
        return fmax(fmax(shared, known), 1) / fmax(known, 1);
    shared = fmax(fmax(shared, known), LINK_LEAST);
    rest = fmax(shared, slowest_unknown(m, u_apart, apart));
    return measured > m->nodes ? shared / rest : rest / shared;
}

double lk_straggler_max_link_mean(const struct lk_step_model *m)
{
    enum { CELLS = 24 };
    double sum = 0;

    for (int i = 0; i < CELLS; i++)
        for (int k = 0; k < CELLS; k++)
            sum += lk_straggler_max_link(m, (i + 0.5) / CELLS, (k + 0.5) / CELLS);
    return sum / (CELLS * CELLS);
}

static bool same_known(const double *a, const double *b, int n)
{
    return a && b ? !memcmp(a, b, (size_t)n * sizeof *a) : a == b;
}

static bool same_law(const struct lk_straggler_law *a, const struct lk_straggler_law *b)
{
#define SAME_(field, text, max, help) a->field == b->field &&
    return LK_STRAGGLER_LIST(SAME_) true;
#undef SAME_
}

bool lk_straggler_max_alike(const struct lk_step_model *a, const struct lk_step_model *b)
{
    return a->ranks == b->ranks && a->nodes == b->nodes && a->ranks_vary == b->ranks_vary &&
           same_law(&a->law, &b->law) && same_known(a->rank_slowness, b->rank_slowness, a->ranks) &&
           same_known(a->node_slowness, b->node_slowness, a->nodes);
}
