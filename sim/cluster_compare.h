/*
 * Compare two clusters by what each predicts (sim/collective/coll_cost.h): collectives at every
 * size, algorithm and number of ranks that was measured on either, and the latency and bandwidth of
 * links; of the network that of a node, all cards together.
 */
#ifndef LK_SIM_CLUSTER_COMPARE_H
#define LK_SIM_CLUSTER_COMPARE_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/compare.h"

/*
 * Append a row a collective that both predict, and a row a link's number that both have; what one
 * side cannot predict is counted in only_a and only_b. A collective whose points one side took over
 * from the other is one number, and so is a link's.
 */
enum lk_status lk_compare_clusters(const struct lk_cluster *a, const struct lk_cluster *b,
                                   struct lk_comparison *out);

#endif
