/*
 * A cost model gives the time of a collective on a cluster, some of whose links between nodes may
 * be known to be slow (stragglers.known in the cluster file; links.h).
 *
 * The slowest link among a collective's nodes sets its rate. So a cluster has one uniform cost
 * (uniform_cost.h) for each level, which is the factor of the slowest link among its first nodes,
 * or 1. At another level than that of the measured points, the bandwidth between nodes is divided
 * by the ratio of the levels, and each point is multiplied by the ratio of the model's times for
 * the new links and for the measured ones. Fits without points and datasheet numbers describe
 * equal links.
 */
#ifndef LK_SIM_COLL_COST_H
#define LK_SIM_COLL_COST_H

#include "sim/collective/uniform_cost.h"

struct lk_cost_model;

/*
 * Compile a cluster, with its estimates if draw is NULL, else with one Monte Carlo draw of them.
 * The cluster is not kept.
 */
enum lk_status lk_cost_model_create(const struct lk_cluster *c, struct lk_rng *draw,
                                    struct lk_cost_model **out);
void lk_cost_model_destroy(struct lk_cost_model *m); /* NULL is legal */

/*
 * Compile a cluster with a table of LK_NCCL_FABRIC_COUNT priors that replaces that of nccl_fit.h;
 * bench/accuracy_collectives leaves sources out in this way.
 */
enum lk_status lk_cost_model_create_from(const struct lk_cluster *c, struct lk_rng *draw,
                                         const struct lk_nccl_factors *prior,
                                         struct lk_cost_model **out);

/*
 * Compute the cost of n sizes. A collective on 1 rank costs 0 and counts as measured. More bytes
 * may cost less, if this was measured or if NCCL would choose a slower algorithm for fewer.
 * LK_EEVIDENCE says what is missing and names the run that would supply it. One thread may call
 * this at a time, since rescaled curves are cached. pre: 1 <= nodes <= ranks, nodes divides ranks.
 */
enum lk_status lk_cost_eval(const struct lk_cost_model *m, enum lk_coll coll, enum lk_algo algo,
                            int ranks, int nodes, const uint64_t *bytes, size_t n,
                            struct lk_cost *out);

#endif
