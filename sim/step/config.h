/*
 * These functions build the step model (sim/step/step.h) of a configuration from job and cluster
 * files, and grade the evidence for it.
 */
#ifndef LK_SIM_STEP_CONFIG_H
#define LK_SIM_STEP_CONFIG_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/collective/coll_cost.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/overlap.h"
#include "sim/step/step.h"
#include "sim/step/volume.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Set the cap and the first bucket's limit: by the job's ddp rule, but the job's own at the job's
 * cap, and at any cap where the rule does not give it: then it was set apart.
 */
void lk_config_set_cap(struct lk_config *c, const struct lk_job *j, uint64_t cap_bytes);
/*
 * Set the nodes of the configuration's ranks: as few as hold them, equally filled. If the cluster
 * has fewer, the ranks share them, which needs measured co-location (else LK_EEVIDENCE). LK_EUSAGE
 * if the nodes cannot hold equally many ranks.
 */
enum lk_status lk_config_nodes(const struct lk_cluster *cluster, struct lk_config *c);

/*
 * Return the co-location of `ranks` on a node: linear between measured counts, 0 at one rank,
 * constant beyond the last. Ranks that outnumber the devices take turns on them: r ranks on g
 * devices take at least r/g times as long, and how they take turns is known to LK_PRIOR_TURNS. z: a
 * standard normal number, which draws the measured ones in their intervals; 0: the estimate.
 */
double lk_config_kappa(const struct lk_cluster *c, int ranks, double z);

/* Return the job's own configuration on one GPU: usual batch, accumulation, limits, and DDP, plain
 * or with the hook, or the averaging, that all of its runs of several ranks had. */
struct lk_config lk_config_current(const struct lk_job *j);

/*
 * A step model that owns its collectives, with its evidence.
 *
 * Averaging every `period` steps takes its share of each step and does not overlap, as in
 * PyTorch's PeriodicModelAverager; ranks that synchronise every H steps have transients of
 * 1/sqrt(H). Ranks that wait for gradients of S steps ago have transients of 1/sqrt(1 + S): what
 * they wait for is a mean over so many steps; a rank that is always slower delays all (Ho et al.
 * 2013). Ranks that share the optimizer's states share its work. A hook's casts take their bytes
 * over the device's memory rate, or no time if that is unknown.
 */
struct lk_config_model {
    struct lk_step_model step;
    struct lk_volume volume;    /* the collectives, */
    struct lk_step_coll *colls; /* and with costs, where they are after buckets were charged */
    size_t *order;              /* the collectives, those of a kind, algorithm and group together */
    uint64_t *bytes;            /* in this order, as the network sees them */
    int own_buckets; /* of the job, whose cost is in its compute (sim/step/bucket_cost.h) */
    double *known; /* the step's rank_slowness, node_slowness and node_link; NULL: none is known */
    double hook_share; /* of the collectives' cost, what hooks compute */
    enum lk_algo algo;
    double memory_Bps; /* of the device; NaN: not known */
    double start_s;    /* that each collective takes longer than alone (sim/step/overlap.h) */
    enum lk_evidence evidence;
    char evidence_text[LK_EVIDENCE_TEXT_BYTES];
    double batch_extrapolation, bytes_extrapolation; /* extrapolation factors; 1: none */
    double batch_sd;   /* relative, of the compute time: the error of batch_extrapolation */
    double compute_sd; /* relative uncertainty of the compute time */
    bool rank_sd_assumed, transient_assumed, overlap_assumed, kappa_unknown;
};

/*
 * Build the model with the costs of `cost` and the known stragglers `slow` of job and cluster;
 * NULL finds them here.
 */
enum lk_status lk_config_model_init(struct lk_config_model *m, const struct lk_job *j,
                                    const struct lk_cluster *c, const struct lk_cost_model *cost,
                                    const struct lk_known_stragglers *slow,
                                    const struct lk_config *config);
/* Set the costs of the same collectives to those of another draw. */
enum lk_status lk_config_model_costs(struct lk_config_model *m, const struct lk_cost_model *cost);
/* Return the collective in the middle of the model's cost, as an index into colls. */
size_t lk_config_model_middle(const struct lk_config_model *model);
void lk_config_model_fini(struct lk_config_model *m);

#endif
