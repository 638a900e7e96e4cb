/*
 * The alpha-beta model gives the time of a collective from its hops and bytes:
 *
 *     T = launch + hops alpha + bytes on the wire / bandwidth
 *
 * (Hockney 1994; Thakur, Rabenseifner and Gropp, "Optimization of collective communication
 * operations in MPICH", IJHPCA 19, 2005). A further algorithm is a row in alpha_beta.c.
 */
#ifndef LK_SIM_ALPHA_BETA_H
#define LK_SIM_ALPHA_BETA_H

#include "facts/cluster.h"

#include <stdbool.h>

/* The work of one rank in a collective. */
struct lk_alpha_beta_shape {
    double hops_intra, hops_inter; /* dependent steps over each kind of link */
    double wire_bytes;             /* through one rank's link, one direction */
    /*
     * Bytes of a hierarchical algorithm's phases: through a rank's link inside the node, and
     * through the node's link, which its ranks share.
     */
    double phase_bytes[LK_LINK_COUNT];
};

/*
 * Set the hops and bytes of `coll` by `algo` on `ranks` over `nodes`. Return false if the
 * algorithm does not offer it, or if only NCCL's model knows the algorithm
 * (sim/collective/nccl_model.h). AUTO counts as a ring; one rank gives zeros. Limits: the nodes
 * hold equally many ranks, and hops of ranks that share one link count as if each had its own.
 */
bool lk_alpha_beta_shape(enum lk_coll coll, enum lk_algo algo, double bytes, int ranks, int nodes,
                         struct lk_alpha_beta_shape *out);

/* The constants of one algorithm. An unknown kind of link has bandwidth 0. */
struct lk_alpha_beta_constants {
    double launch_s;
    double alpha_s[LK_LINK_COUNT];
    double bandwidth_Bps[LK_LINK_COUNT];
};
/*
 * Return seconds, at the rate of the slowest link that is used; NaN if a link that is needed is
 * unknown.
 */
double lk_alpha_beta_s(const struct lk_alpha_beta_constants *k,
                       const struct lk_alpha_beta_shape *shape);

/*
 * The shifts of one Monte Carlo draw, in standard deviations, common to all that they move. Zeros
 * give the estimates.
 */
struct lk_coll_shifts {
    double time, rate, error;
};

#endif
