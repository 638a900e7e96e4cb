/* The fit of the alpha-beta model of collectives (sim/coll_formula.h) to measured points. */
#ifndef LK_SIM_COLL_FIT_H
#define LK_SIM_COLL_FIT_H

#include "base/cluster.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Points that a fit needs: as many as it has constants. */
enum { LK_COLL_FIT_POINTS_MIN = 3 };

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
