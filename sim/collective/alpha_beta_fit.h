/* These functions fit the alpha-beta model (sim/collective/alpha_beta.h) to measured points. */
#ifndef LK_SIM_ALPHA_BETA_FIT_H
#define LK_SIM_ALPHA_BETA_FIT_H

#include "base/rng.h"
#include "base/status.h"
#include "facts/cluster.h"

#include <stdbool.h>
#include <stddef.h>

/* A fit needs as many points as it has constants. */
enum { LK_ALPHA_BETA_FIT_POINTS_MIN = 3 };

/*
 * Fit one algorithm on one kind of link to the points of that kind (intra: nodes == 1; inter:
 * more), to those timed alone if there are any. The method is non-negative least squares on
 * relative errors with Huber's weights (three rounds). Where that misses the large sizes, the rate
 * comes from these and the hops from the small ones. With one rank count the launch cannot be
 * separated from the hops; all of it goes to the hops, the careful choice for more ranks, and the
 * source says so. Intervals (90 %) come from resampled points. `intra` holds the constants inside
 * a node; points between nodes with several ranks a node need it, otherwise NULL is legal.
 * LK_EEVIDENCE: fewer than three points, or none with ranks > 1.
 */
enum lk_status lk_alpha_beta_fit(const struct lk_cluster_point *points, size_t n, enum lk_coll coll,
                                 enum lk_algo algo, enum lk_link link,
                                 const struct lk_cluster_fit *intra, uint64_t seed,
                                 struct lk_cluster_fit *out);
void lk_cluster_fit_fini(struct lk_cluster_fit *f);

/*
 * A shallow copy of a cluster, with fits made here if it has points and none: they are made once,
 * and everyone who is given the copy finds them.
 */
struct lk_fitted_cluster {
    struct lk_cluster cluster; /* borrows all but fits that are own */
    bool own;
};
enum lk_status lk_fitted_cluster_init(struct lk_fitted_cluster *out, const struct lk_cluster *c);
void lk_fitted_cluster_fini(struct lk_fitted_cluster *f); /* zeroes it; safe on a zeroed one */

/*
 * Fit every (collective, algorithm, link) with three points or more; the fits replace those of c.
 */
enum lk_status lk_alpha_beta_fit_cluster(struct lk_cluster *c, uint64_t seed);

#endif
