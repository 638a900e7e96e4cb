/*
 * A cluster's fits and links say the constants of the alpha-beta model
 * (sim/collective/alpha_beta.h) for each collective and algorithm. A fit is of the machine; where
 * there is none a link's numbers serve the named algorithms, and what is known of an all-reduce the
 * others.
 */
#ifndef LK_SIM_COLL_CONSTANTS_H
#define LK_SIM_COLL_CONSTANTS_H

#include "facts/cluster.h"
#include "sim/collective/alpha_beta.h"
#include "sim/collective/links.h"

#include <stdbool.h>

struct lk_coll_constants {
    bool known[LK_LINK_COUNT];
    struct lk_alpha_beta_constants k;
    double error; /* relative, of the fit */
    bool fitted;  /* from points of this machine, not from a datasheet */
    int per_node; /* ranks of a node that the network's bandwidth is of */
};

/* Fill the zeroed table of collectives, LK_COLL_MODELLED of them, and algorithms. */
void lk_coll_constants_set(struct lk_coll_constants (*of)[LK_ALGO_COUNT],
                           const struct lk_cluster *c, bool with_fits, struct lk_coll_shifts by);
/* Return true if an all-reduce gives `coll` and the cluster has neither points nor fits of it. */
bool lk_coll_from_all_reduce(const struct lk_cluster *c, enum lk_coll coll);
/* Return the network cards that so many ranks of a node use: those beside their GPUs, one at least.
 */
double lk_coll_cards(const struct lk_link_rates *r, int per_node);

#endif
