/* This file computes the hops and bytes of collectives, and the alpha-beta time of these. */
#include "sim/collective/alpha_beta.h"

#include <math.h>

/* Return ceil(log2 n). pre: n >= 1. */
static int log2_ceil(int n)
{
    int k = 0;

    while ((1LL << k) < n)
        k++;
    return k;
}

/*
 * A ring passes every part to the next rank: each round has ranks - 1 hops, and one hop per node
 * and round leaves the node. A tree goes down (and up) its levels; the levels over nodes are hops
 * between nodes.
 */
static double ring_hops(int rounds, int n)
{
    return rounds * (n - 1);
}

static double tree_hops(int rounds, int n)
{
    return rounds * log2_ceil(n);
}

/*
 * A collective makes `rounds` passes over the ring or tree (0: the algorithm does not offer it). A
 * rank sends the bytes of a ring as in facts/coll.h if ring_wire is set, else `wire` times the
 * buffer.
 */
struct shape_row {
    int rounds;
    double wire;
    bool ring_wire;
};

static const struct shape_row ring_rows[LK_COLL_MODELLED] = {
    [LK_ALL_REDUCE] = {.rounds = 2, .ring_wire = true},
    [LK_REDUCE_SCATTER] = {.rounds = 1, .ring_wire = true},
    [LK_ALL_GATHER] = {.rounds = 1, .ring_wire = true},
    [LK_BROADCAST] = {.rounds = 1, .wire = 1},
    [LK_BARRIER] = {.rounds = 2},
};

static const struct shape_row tree_rows[LK_COLL_MODELLED] = {
    [LK_ALL_REDUCE] = {.rounds = 2, .wire = 2},
    [LK_BROADCAST] = {.rounds = 1, .wire = 1},
    [LK_BARRIER] = {.rounds = 2},
};

/*
 * The hierarchical algorithm runs a ring inside the node, rings of equal parts between nodes, and
 * a ring inside the node again: the collectives whose wire bytes are a ring's.
 */
static const struct {
    double (*hops)(int rounds, int n);
    const struct shape_row *coll;
    bool phases; /* the two kinds of link are used one after the other */
} algos[LK_ALGO_COUNT] = {
    [LK_ALGO_AUTO] = {ring_hops, ring_rows, false},
    [LK_ALGO_RING] = {ring_hops, ring_rows, false},
    [LK_ALGO_TREE] = {tree_hops, tree_rows, false},
    [LK_ALGO_HIERARCHICAL] = {ring_hops, ring_rows, true},
};

static void phased_shape(enum lk_coll coll, int rounds, double bytes, int ranks, int nodes,
                         struct lk_alpha_beta_shape *out)
{
    int local = ranks / nodes;

    out->hops_intra = ring_hops(rounds, local);
    out->hops_inter = ring_hops(rounds, nodes);
    out->phase_bytes[LK_LINK_INTRA] = lk_coll_wire_bytes(coll, bytes, local);
    out->phase_bytes[LK_LINK_INTER] = lk_coll_wire_bytes(coll, bytes, nodes);
}

bool lk_alpha_beta_shape(enum lk_coll coll, enum lk_algo algo, double bytes, int ranks, int nodes,
                         struct lk_alpha_beta_shape *out)
{
    const struct shape_row *row;
    double hops;

    if (!algos[algo].coll || !algos[algo].coll[coll].rounds)
        return false;
    row = &algos[algo].coll[coll];
    if (algos[algo].phases && !row->ring_wire)
        return false;
    *out = (struct lk_alpha_beta_shape){0};
    if (ranks < 2)
        return true;
    if (algos[algo].phases) {
        phased_shape(coll, row->rounds, bytes, ranks, nodes, out);
        return true;
    }
    hops = algos[algo].hops(row->rounds, ranks);
    out->hops_inter = nodes > 1 ? algos[algo].hops(row->rounds, nodes) : 0;
    if (out->hops_inter > hops)
        out->hops_inter = hops;
    out->hops_intra = hops - out->hops_inter;
    out->wire_bytes = row->ring_wire ? lk_coll_wire_bytes(coll, bytes, ranks) : row->wire * bytes;
    return true;
}

double lk_alpha_beta_s(const struct lk_alpha_beta_constants *k,
                       const struct lk_alpha_beta_shape *shape)
{
    const double *bw = k->bandwidth_Bps;
    double hops[LK_LINK_COUNT] = {
        [LK_LINK_INTRA] = shape->hops_intra, [LK_LINK_INTER] = shape->hops_inter};
    double s = 0, slowest_Bps = INFINITY;

    for (int l = 0; l < LK_LINK_COUNT; l++) {
        if (hops[l] <= 0)
            continue;
        if (bw[l] <= 0)
            return NAN;
        s += hops[l] * k->alpha_s[l] + shape->phase_bytes[l] / bw[l];
        slowest_Bps = fmin(slowest_Bps, bw[l]);
    }
    return s > 0 || slowest_Bps < INFINITY ? k->launch_s + s + shape->wire_bytes / slowest_Bps : 0;
}
