/*
 * The alpha-beta model of collectives.
 *
 * T = launch + hops alpha + bytes on the wire / bandwidth (Hockney 1994; Thakur, Rabenseifner and
 * Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005).
 * A further algorithm is a row in coll_formula.c.
 */
#ifndef LK_SIM_COLL_FORMULA_H
#define LK_SIM_COLL_FORMULA_H

#include "base/cluster.h"

#include <stdbool.h>

/* What one rank does in a collective. */
struct lk_coll_shape {
    double hops_intra, hops_inter; /* dependent steps over each kind of link */
    double wire_bytes;             /* through one rank's link, one direction */
    /* Of phases one after another: bytes through a rank's link inside the node, and through the
     * node's link, which its ranks share. */
    double phase_bytes[LK_LINK_COUNT];
};

/*
 * The shape of `coll` by `algo` on `ranks` over `nodes`; false when the algorithm does not offer
 * it, or is one of those that only NCCL's model knows (sim/nccl_model.h). AUTO is costed as a ring.
 * ranks 1 gives zeros. Limits: nodes divide the ranks evenly, and the hops of a node's ranks that
 * share one link are not told apart.
 */
bool lk_coll_shape(enum lk_coll coll, enum lk_algo algo, double bytes, int ranks, int nodes,
                   struct lk_coll_shape *out);

/* Constants of one algorithm. A kind of link that is not known has bandwidth 0. */
struct lk_coll_constants {
    double launch_s;
    double alpha_s[LK_LINK_COUNT];
    double bandwidth_Bps[LK_LINK_COUNT];
};
/* Seconds; NaN when a kind of link that is needed is not known. The slowest link sets the pace. */
double lk_coll_formula_s(const struct lk_coll_constants *k, const struct lk_coll_shape *shape);

#endif
