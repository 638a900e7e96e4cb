/*
 * A uniform cost is the time of a collective on a cluster whose links of a kind are alike, with
 * interval and evidence, from the best of three sources:
 *
 *  1. points measured with this many ranks on this many nodes: a curve over bytes
 *     (loglog_curve.h), which continues at the bandwidth of the largest point and the time of the
 *     smallest;
 *  2. points of the nearest other rank count (of two, if the count lies between them), rescaled
 *     by the model (coll_model.h). The interval widens with every doubling of the ranks and
 *     wherever the regime is in doubt;
 *  3. without points, the model alone (coll_model.h).
 *
 * AUTO takes points measured as "auto"; without them, the fastest algorithm for the size.
 */
#ifndef LK_SIM_UNIFORM_COST_H
#define LK_SIM_UNIFORM_COST_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct lk_cost {
    double seconds, lo, hi; /* 90 % */
    enum lk_evidence evidence;
    double extrapolation; /* EXTRAPOLATED: the extrapolation factor, in ranks or in bytes */
    bool extrapolates_bytes;
};

struct lk_nccl_factors;
struct lk_uniform_cost;

/*
 * Compile a cluster; its entries of slow links are ignored. draw NULL takes the estimates. A Monte
 * Carlo draw moves each curve and each constant as a whole, because the errors of one calibration
 * are common to its points. Points without fits are fitted here. prior: LK_NCCL_FABRIC_COUNT rows,
 * or NULL for those of nccl_fit.h. The cluster is not kept.
 */
enum lk_status lk_uniform_cost_create(const struct lk_cluster *c, struct lk_rng *draw,
                                      const struct lk_nccl_factors *prior,
                                      struct lk_uniform_cost **out);
void lk_uniform_cost_destroy(struct lk_uniform_cost *m); /* NULL is legal */

/* Return the cost of n sizes in out[n]; see lk_cost_eval (coll_cost.h). */
enum lk_status lk_uniform_cost_eval(const struct lk_uniform_cost *m, enum lk_coll coll,
                                    enum lk_algo algo, int ranks, int nodes, const uint64_t *bytes,
                                    size_t n, struct lk_cost *out);

#endif
