/*
 * What a collective takes on a cluster, with interval and evidence, best source first:
 *
 *  1. points measured with this many ranks on this many nodes: a curve over bytes (sim/curve.h),
 *     beyond the largest at its bandwidth, before the smallest at its time;
 *  2. points of other rank counts: the nearest one's (between a smaller and a larger count, both),
 *     carried over by the model (sim/coll_model.h), the interval wider with every doubling of the
 *     ranks and wherever the regime is in doubt;
 *  3. no points: the model alone.
 *
 * The model, for a cluster file that has compute capability and kind of GPU link, is NCCL's with
 * factors refitted to the file's points (sim/nccl_fit.h); else, and for what NCCL does not have,
 * alpha-beta with the cluster's fits, or its links' datasheet numbers (sim/coll_formula.h).
 *
 * Where links between nodes are known to be slow (stragglers.known), all this is of as many nodes
 * as have the slowest of them: see sim/cost_level.h.
 *
 * AUTO takes points measured as "auto"; where there are none, the fastest algorithm for the size.
 */
#ifndef LK_SIM_COLL_COST_H
#define LK_SIM_COLL_COST_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct lk_cost {
    double seconds, lo, hi; /* 90 % */
    enum lk_evidence evidence;
    double reach; /* EXTRAPOLATED: how many times beyond the evidence, in ranks or in bytes */
    bool reach_is_bytes;
};

struct lk_cost_model;

/*
 * Compiles a cluster. draw NULL: the estimates. Otherwise one draw of what they might be: each
 * curve and each constant moved by its interval, as a whole, because the errors of a sweep are
 * common to its points. Points without fits are fitted here. The cluster is not kept.
 */
enum lk_status lk_cost_model_create(const struct lk_cluster *c, struct lk_rng *draw,
                                    struct lk_cost_model **out);
void lk_cost_model_destroy(struct lk_cost_model *m); /* NULL is legal */

/* The same with other rows (LK_NCCL_PLACE_COUNT of them) in place of sim/nccl_prior.c's: for
 * tests of the rows themselves. */
struct lk_nccl_factors;
enum lk_status lk_cost_model_create_from(const struct lk_cluster *c, struct lk_rng *draw,
                                         const struct lk_nccl_factors *prior,
                                         struct lk_cost_model **out);

/*
 * Cost of n sizes. ranks 1 costs 0, measured. More bytes may cost less, where that was measured or
 * NCCL would choose what is slow. LK_EEVIDENCE says what is missing and the run that would supply
 * it. One thread at a time: curves are kept. pre: 1 <= nodes
 * <= ranks, nodes divides ranks.
 */
enum lk_status lk_cost_eval(const struct lk_cost_model *m, enum lk_coll coll, enum lk_algo algo,
                            int ranks, int nodes, const uint64_t *bytes, size_t n,
                            struct lk_cost *out);

#endif
