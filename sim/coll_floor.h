/*
 * What links allow: no algorithm is faster.
 *
 * Every collective of m bytes moves at least these bytes out of a part (a GPU, or a node with all
 * its network links) of n equal ones, full duplex (Patarasuk and Yuan, "Bandwidth optimal
 * all-reduce algorithms for clusters of workstations", JPDC 69, 2009; in-switch reduction: each
 * part sends its operand, and a switch the sums):
 *
 *     all-reduce 2 (n-1)/n m; with in-switch reduction (1 + 1/n) m in a node, m between nodes
 *     reduce-scatter, all-gather (n-1)/n m; broadcast m; barrier 0
 */
#ifndef LK_SIM_COLL_FLOOR_H
#define LK_SIM_COLL_FLOOR_H

#include "base/cluster.h"

#include <stdbool.h>

/* Rates of a cluster's links in bytes a second, one direction; 0: not known. */
struct lk_coll_lines {
    double gpu_Bps, nics_Bps; /* of a GPU to its node; of a node to the others */
    int gpus_per_node, nvlink_domain;
    bool nvls, sharp;
};

/* best: by the upper ends of the intervals, where there are any; else by the values. */
struct lk_coll_lines lk_coll_lines_of(const struct lk_cluster *c, bool best);

/* Seconds; 0 where the link that counts is not known. pre: ranks >= 1, nodes divides them. */
double lk_coll_floor_s(const struct lk_coll_lines *l, enum lk_coll coll, double bytes, int ranks,
                       int nodes);

#endif
