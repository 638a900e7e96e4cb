/*
 * A cost model gives the time of a collective on a cluster, with interval and evidence, from the
 * best of three sources:
 *
 *  1. points measured with this many ranks on this many nodes: a curve over bytes
 *     (loglog_curve.h). Outside its sizes the model goes on from its end, with an interval that
 *     widens with the distance (lk_coll_model_of_set);
 *  2. points of the nearest other rank count (of two, if the count lies between them), rescaled
 *     by the model (coll_model.h). The interval widens with every doubling of the ranks and
 *     wherever the regime is in doubt;
 *  3. without points, the model alone (coll_model.h).
 *
 * What a collective takes more right behind another is the ratio of points timed back to back to
 * those timed alone, of the same or the nearest rank count; 0 where one of the two is missing.
 *
 * AUTO takes points measured as "auto"; without them, the fastest algorithm for the size.
 *
 * Some links between nodes may be known to be slow (stragglers.known in the cluster file;
 * links.h). The slowest link among a collective's nodes sets its rate. So a cluster has costs for
 * each level, which is the factor of the slowest link among its first nodes, or 1. At another
 * level than that of the measured points, the bandwidth between nodes is divided by the ratio of
 * the levels, and each point is multiplied by the ratio of the model's times for the new links and
 * for the measured ones. Fits without points and datasheet numbers describe equal links.
 */
#ifndef LK_SIM_COLL_COST_H
#define LK_SIM_COLL_COST_H

#include "base/rng.h"
#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"

#include <stddef.h>
#include <stdint.h>

struct lk_cost {
    double seconds, lo, hi; /* 90 % */
    double behind;          /* how much more it takes right behind another, relatively, 0 or more */
    enum lk_evidence evidence;
    double extrapolation; /* EXTRAPOLATED: the extrapolation factor, in ranks or in bytes */
    bool extrapolates_bytes;
};

struct lk_nccl_factors;
struct lk_cost_model;

/*
 * Compile a cluster, with its estimates if draw is NULL, else with one Monte Carlo draw of them. A
 * draw moves each curve and each constant as a whole, because the errors of one calibration are
 * common to its points. Points without fits are fitted here. `prior` has LK_NCCL_FABRIC_COUNT rows;
 * NULL takes those of nccl_fit.h. The cluster is not kept.
 */
enum lk_status lk_cost_model_create(const struct lk_cluster *c, struct lk_rng *draw,
                                    const struct lk_nccl_factors *prior,
                                    struct lk_cost_model **out);
void lk_cost_model_destroy(struct lk_cost_model *m); /* NULL is legal */

/*
 * Compute the cost of n sizes. A collective on 1 rank costs 0 and counts as measured. More bytes
 * may cost less, if this was measured or if NCCL would choose a slower algorithm for fewer.
 * LK_EEVIDENCE says what is missing and names the run that would supply it. One thread may call
 * this at a time, since rescaled curves are cached. pre: 1 <= nodes <= ranks, nodes divides ranks.
 */
enum lk_status lk_cost_eval(const struct lk_cost_model *m, enum lk_coll coll, enum lk_algo algo,
                            int ranks, int nodes, const uint64_t *bytes, size_t n,
                            struct lk_cost *out);

/* Return how many times as long a collective takes by NCCL's choice of algorithm and protocol as by
 * the one that it makes on the machine of `like`, which has other links (lk_coll_model_choice).
 * text: 64 bytes. */
double lk_cost_choice(const struct lk_cost_model *m, const struct lk_cost_model *like,
                      enum lk_coll coll, enum lk_algo algo, int ranks, int nodes, uint64_t bytes,
                      char *text);

#endif
