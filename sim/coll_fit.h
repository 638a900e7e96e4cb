/*
 * The alpha-beta model of collectives, and its fit to measured points.
 *
 * T = launch + hops alpha + bytes on the wire / bandwidth (Hockney 1994; Thakur, Rabenseifner and
 * Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19, 2005).
 * A further algorithm is a row in coll_fit.c.
 */
#ifndef LK_SIM_COLL_FIT_H
#define LK_SIM_COLL_FIT_H

#include "base/cluster.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Points that a fit needs: as many as it has constants. */
enum { LK_COLL_FIT_POINTS_MIN = 3 };

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

/*
 * Fits one algorithm on one kind of link to the points of that kind (intra: nodes == 1; inter:
 * more), those timed alone where there are any. Non-negative least squares on relative errors,
 * outliers weighted down (Huber, three rounds); where that is off the large sizes, the rate from
 * these and the hops from the small ones. With one rank count the launch cannot be told from
 * the hops and all of it is given to the hops, which is the careful side for more ranks; the source
 * says so. Intervals (90 %) by resampling the points. `intra`: the constants inside a node, needed
 * for inter points with several ranks a node; may be NULL otherwise. LK_EEVIDENCE with fewer than
 * three points, or when no point has ranks > 1.
 */
enum lk_status lk_coll_fit(const struct lk_cluster_point *points, size_t n, enum lk_coll coll,
                           enum lk_algo algo, enum lk_link link, const struct lk_cluster_fit *intra,
                           uint64_t seed, struct lk_cluster_fit *out);
void lk_cluster_fit_fini(struct lk_cluster_fit *f);

/*
 * A cluster whose points have fits: *out is a shallow copy of c, with fits made where c has points
 * and none; *out_own says that the fits are the caller's, to free by lk_coll_fits_free.
 */
enum lk_status lk_coll_fit_missing(const struct lk_cluster *c, struct lk_cluster *out,
                                   bool *out_own);
void lk_coll_fits_free(struct lk_cluster_fit *fits, size_t n); /* NULL is legal */

/* Fits whatever (collective, algorithm, link) has three points or more; replaces c's fits. */
enum lk_status lk_coll_fit_cluster(struct lk_cluster *c, uint64_t seed);

#endif
