/*
 * These functions describe the links of a cluster: the least time that their rates allow, which of
 * them are known to be slow, and how to change their numbers.
 *
 * A node's link is known to be slow where the cluster file has an entry for it (stragglers.known).
 * An entry marked `since` has held only since the job and the points were measured.
 */
#ifndef LK_SIM_LINKS_H
#define LK_SIM_LINKS_H

#include "base/status.h"
#include "facts/cluster.h"

#include <stdbool.h>

/* The numbers of a kind of link. */
enum lk_link_number { LK_LINK_BANDWIDTH, LK_LINK_LATENCY, LK_LINK_NUMBER_COUNT };

/*
 * Multiply the bandwidth or latency of a kind of link, in the cluster's own number and in every fit
 * of that kind. `value` is the factor or, unless is_factor, the new value, which is turned into a
 * factor on the cluster's own number or else on that of an all-reduce's fit. A value of 0 or a
 * factor of 1 changes nothing. LK_EEVIDENCE if the cluster gives neither number.
 * pre: c->fits is the caller's to write.
 */
enum lk_status lk_link_scale(struct lk_cluster *c, enum lk_link link, enum lk_link_number number,
                             double value, bool is_factor);

/* Return the network cards of a node, 1 or more. Each has inter.bandwidth: a node's bandwidth is
 * that of all, in one direction. */
int lk_link_cards(const struct lk_cluster *c);
/* Return the bandwidth of a node; unknown where that of a card is. Its source is borrowed. */
struct lk_quantity lk_link_node_bandwidth(const struct lk_cluster *c);

/* Return the node that an entry belongs to. */
int lk_slow_link_node(const struct lk_cluster *c, const struct lk_cluster_slow *e);
/*
 * Return how many times as long a transfer takes on the link of `node` as on the others; NaN: no
 * entry says. If `then`, ignore entries marked `since`.
 */
double lk_slow_link_factor(const struct lk_cluster *c, int node, bool then);
/* Return the largest factor among the links of the first `nodes` nodes: 1 or more, unless all are
 * known to be faster. */
double lk_slow_link_largest(const struct lk_cluster *c, int nodes, bool then);
/* Return the node count of the points measured between nodes that is nearest to `nodes`; 0: the
 * cluster has no such points. */
int lk_slow_link_measured_nodes(const struct lk_cluster *c, int nodes);

/* Return true if the rate between nodes is a datasheet's: no point or fit was measured over that
 * network, the rate itself was not, and whoever asks did not state it. */
bool lk_link_network_assumed(const struct lk_cluster *c);
/*
 * Draw the rate between nodes over the cluster's, by two standard normal numbers: 1 unless the
 * network is assumed. A datasheet has the usual machine of its name, and the user's may have fewer
 * cards: rented 8-GPU machines have 1 to 8. That all are there with 1/2, and the sd of what they
 * achieve, are assumed.
 */
double lk_link_network_draw(const struct lk_cluster *c, double nics_z, double achieved_z);

/*
 * No algorithm is faster than the rates of the links allow. Every collective of m bytes moves at
 * least these bytes out of each of n equal parts (a GPU, or a node with all its network links),
 * full duplex (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69, 2009; with in-switch reduction each part sends its operand and a switch
 * sends the sums):
 *
 *     all-reduce 2 (n-1)/n m; with in-switch reduction (1 + 1/n) m in a node, m between nodes
 *     reduce-scatter, all-gather (n-1)/n m; broadcast m; barrier 0
 *
 * Several nodes are not faster than one of them alone.
 */
/* Rates of a cluster's links in bytes a second, one direction; 0: not known. */
struct lk_link_rates {
    double gpu_Bps, nics_Bps; /* of a GPU to its node; of a node to the others */
    int gpus_per_node, cards, nvlink_domain;
    bool nvls, sharp;
};

/*
 * Return the rates: the upper ends of the intervals if `best` and there are any, else the values.
 */
struct lk_link_rates lk_link_rates_of(const struct lk_cluster *c, bool best);

/*
 * Return the least seconds; 0 if the rate of the link is unknown. pre: ranks >= 1, nodes divides
 * ranks.
 */
double lk_link_bound_s(const struct lk_link_rates *l, enum lk_coll coll, double bytes, int ranks,
                       int nodes);

#endif
