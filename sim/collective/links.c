/*
 * This file answers questions about the links of a cluster.
 *
 * Divisions: numbers / known to be slow / bound.
 */
#include "sim/collective/links.h"

#include "sim/collective/nccl_graph.h"

#include <math.h>

/* ---- Numbers ---- */

static const char *const number_names[LK_LINK_NUMBER_COUNT] = {
    [LK_LINK_BANDWIDTH] = "bandwidth",
    [LK_LINK_LATENCY] = "latency",
};

static struct lk_quantity *own_number(struct lk_cluster *c, enum lk_link link,
                                      enum lk_link_number number)
{
    struct lk_cluster_link *l = link == LK_LINK_INTER ? &c->inter : &c->intra;

    return number == LK_LINK_BANDWIDTH ? &l->bandwidth_Bps : &l->latency_s;
}

static struct lk_quantity *fit_number(struct lk_cluster_fit *f, enum lk_link_number number)
{
    return number == LK_LINK_BANDWIDTH ? &f->bandwidth_Bps : &f->alpha_s;
}

/* Return the cluster's own number, else that of an all-reduce's fit; NaN if it has neither. */
static double number_now(struct lk_cluster *c, enum lk_link link, enum lk_link_number number)
{
    const struct lk_quantity *own = own_number(c, link, number);

    if (lk_quantity_known(own))
        return own->value;
    for (size_t i = 0; i < c->n_fits; i++)
        if (c->fits[i].link == link && c->fits[i].coll == LK_ALL_REDUCE &&
            lk_quantity_known(fit_number(&c->fits[i], number)))
            return fit_number(&c->fits[i], number)->value;
    return NAN;
}

static void scale(struct lk_quantity *q, double factor)
{
    q->value *= factor;
    q->lo *= factor;
    q->hi *= factor;
}

enum lk_status lk_link_scale(struct lk_cluster *c, enum lk_link link, enum lk_link_number number,
                             double value, bool is_factor)
{
    double now = number_now(c, link, number), factor = value;
    const char *what = number_names[number];

    if (value == 0 || (is_factor && value == 1))
        return LK_OK;
    if (isnan(now))
        return lk_fail(LK_EEVIDENCE,
                       "cluster %s: nothing says what the %s %s is now, so it cannot be changed. "
                       "Give %s.%s in the cluster file",
                       c->name, lk_link_words.names[link], what, lk_link_words.names[link], what);
    if (!is_factor)
        factor = now > 0 ? value / now : 1;
    c->network_stated |= !is_factor && link == LK_LINK_INTER && number == LK_LINK_BANDWIDTH;
    scale(own_number(c, link, number), factor);
    for (size_t i = 0; i < c->n_fits; i++)
        if (c->fits[i].link == link)
            scale(fit_number(&c->fits[i], number), factor);
    return LK_OK;
}

int lk_link_cards(const struct lk_cluster *c)
{
    return c->topology.nics_per_node > 1 ? c->topology.nics_per_node : 1;
}

struct lk_quantity lk_link_node_bandwidth(const struct lk_cluster *c)
{
    struct lk_quantity q = c->inter.bandwidth_Bps;

    scale(&q, lk_link_cards(c));
    return q;
}

/* ---- Known to be slow ---- */

int lk_slow_link_node(const struct lk_cluster *c, const struct lk_cluster_slow *e)
{
    return e->rank < 0 ? e->node : e->rank / c->gpus_per_node;
}

double lk_slow_link_factor(const struct lk_cluster *c, int node, bool then)
{
    double was = NAN;

    for (size_t i = 0; i < c->n_slow; i++) {
        const struct lk_cluster_slow *e = &c->slow[i];

        if (lk_slow_link_node(c, e) != node || !lk_quantity_known(&e->link))
            continue;
        if (e->since && !then)
            return e->link.value;
        if (!e->since)
            was = isnan(was) ? e->link.value : fmax(was, e->link.value);
    }
    return was;
}

double lk_slow_link_largest(const struct lk_cluster *c, int nodes, bool then)
{
    double slowest = 0;
    int known = 0;

    /* The loop is over entries, not over nodes, of which there may be a million. */
    for (size_t i = 0; i < c->n_slow; i++) {
        const struct lk_cluster_slow *e = &c->slow[i];
        int at = lk_slow_link_node(c, e);
        double link = at < nodes ? lk_slow_link_factor(c, at, then) : NAN;
        bool again = false;

        for (size_t k = 0; k < i; k++)
            again |= at == lk_slow_link_node(c, &c->slow[k]);
        if (isnan(link) || again)
            continue;
        slowest = fmax(slowest, link);
        known++;
    }
    return known < nodes ? fmax(slowest, 1) : slowest;
}

int lk_slow_link_measured_nodes(const struct lk_cluster *c, int nodes)
{
    int best = 0;

    for (size_t i = 0; i < c->n_points; i++) {
        int at = c->points[i].nodes;

        if (at > 1 && (!best || fabs(log((double)at / nodes)) < fabs(log((double)best / nodes))))
            best = at;
    }
    return best;
}

/* ---- An assumed network ---- */

static const double ACHIEVED_SD =
    0.25; /* of ln(rate achieved / rate of the datasheet), half-normal */

bool lk_link_network_assumed(const struct lk_cluster *c)
{
    bool measured = c->inter.bandwidth_Bps.n > 0 || c->network_stated;

    for (size_t i = 0; i < c->n_points; i++)
        measured |= c->points[i].nodes > 1;
    for (size_t i = 0; i < c->n_fits; i++)
        measured |= c->fits[i].link == LK_LINK_INTER && c->fits[i].bandwidth_Bps.n > 0;
    return !measured;
}

double lk_link_network_draw(const struct lk_cluster *c, double nics_z, double achieved_z)
{
    double u = erfc(-nics_z / sqrt(2)) - 1; /* uniform in -1 to 1; below 0: all cards */
    int halvings = 0;

    if (!lk_link_network_assumed(c))
        return 1;
    for (int nics = c->topology.nics_per_node; nics > 1; nics /= 2)
        halvings++;
    return (u > 0 && halvings ? exp2(-ceil(u * halvings)) : 1) *
           exp(-ACHIEVED_SD * fabs(achieved_z));
}

/* ---- Bound ---- */

static double rate_of(const struct lk_quantity *q, bool best)
{
    if (!lk_quantity_known(q))
        return 0;
    return best && q->hi > q->value ? q->hi : q->value;
}

struct lk_link_rates lk_link_rates_of(const struct lk_cluster *c, bool best)
{
    const struct lk_cluster_topology *t = &c->topology;

    return (struct lk_link_rates){
        .gpu_Bps = rate_of(&c->intra.bandwidth_Bps, best),
        .nics_Bps = rate_of(&c->inter.bandwidth_Bps, best) * lk_link_cards(c),
        .gpus_per_node = c->gpus_per_node,
        .cards = lk_link_cards(c),
        .nvlink_domain = t->nvlink_domain,
        .nvls = lk_nccl_has_nvls(t, c->device.compute_capability),
        .sharp = t->sharp > 0,
    };
}

/* Return the bytes that leave each of n parts. */
static double bytes_out(enum lk_coll coll, double bytes, int n, double in_switch)
{
    double out = lk_coll_wire_bytes(coll, bytes, n);

    return coll == LK_ALL_REDUCE && in_switch > 0 ? fmin(out, in_switch * bytes) : out;
}

double lk_link_bound_s(const struct lk_link_rates *l, enum lk_coll coll, double bytes, int ranks,
                       int nodes)
{
    double rate = l->gpu_Bps, nics = l->nics_Bps, out, inside_s = 0;

    nodes = lk_nccl_nodes(l->nvlink_domain, ranks, nodes);
    if (ranks < 2)
        return 0;
    if (nodes > 1) {
        int domain = l->gpus_per_node > 0 ? ranks / nodes / l->gpus_per_node : 1;

        /* An NVLink domain over several nodes has the network links of all of them. */
        if (domain > 1)
            nics *= domain;
        rate = nics;
        out = bytes_out(coll, bytes, nodes, l->sharp);
        inside_s = lk_link_bound_s(l, coll, bytes, ranks / nodes, 1);
    } else {
        out = bytes_out(coll, bytes, ranks, l->nvls ? 1 + 1.0 / ranks : 0);
    }
    return fmax(rate > 0 ? out / rate : 0, inside_s);
}
