/*
 * A configuration: one way to run a job on a cluster. From it, job and cluster the step model is
 * made, with the evidence behind each part. What-ifs are other configurations, jobs or clusters.
 */
#ifndef LK_SIM_CONFIG_H
#define LK_SIM_CONFIG_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/scheme.h"
#include "base/status.h"
#include "sim/coll_cost.h"
#include "sim/step.h"
#include "sim/volume.h"

#include <stdbool.h>
#include <stdint.h>

/* What is left out is PyTorch's plain DDP, as the job's own runs are. */
struct lk_config {
    int gpus, nodes;
    int local_batch, accumulation;
    bool no_sync;
    uint64_t first_bytes, cap_bytes; /* bucket limits */
    enum lk_algo algo;               /* of the collectives; AUTO: what the cluster would choose */
    enum lk_grad_dtype grad_dtype;   /* what gradients are produced in */
    enum lk_compression compression; /* what a communication hook does to them */
    int powersgd_rank;               /* POWERSGD: of the factors, 1 or more */
    enum lk_sharding sharding;
    int shard_group; /* HSDP: ranks that share one copy of the model; 0: those of a node */
    int period;      /* LOCAL_SGD and DILOCO: steps from one averaging to the next, 1 or more */
};

bool lk_config_equal(const struct lk_config *a, const struct lk_config *b);
/* Are gradients exchanged alike: algorithm, dtype, compression, sharding with its group and period?
 */
bool lk_config_same_scheme(const struct lk_config *a, const struct lk_config *b);
/* The configuration of a measured run. */
struct lk_config lk_config_of_run(const struct lk_job_run *r);
/* The configuration of a forecast's point; what a point does not say is the job's. */
struct lk_config lk_config_of_point(const struct lk_forecast_point *p, const struct lk_job *j);
/*
 * Strong scaling: the accumulation, and where the batch exceeds a rank's share a smaller one, that
 * make `global` samples a step. 0 or less: as it is. LK_EUSAGE where they do not divide.
 */
enum lk_status lk_config_split_global(int64_t global, struct lk_config *c);
/* Sets the cap and, by the job's ddp rule, the first bucket's limit. */
void lk_config_set_cap(struct lk_config *c, const struct lk_job *j, uint64_t cap_bytes);
/*
 * Nodes that K ranks take: as few as hold them, equally filled. Where the cluster has fewer, the
 * ranks share what there is, which needs measured co-location (LK_EEVIDENCE otherwise); LK_EUSAGE
 * when the ranks do not divide among the nodes.
 */
enum lk_status lk_config_nodes(const struct lk_cluster *c, int gpus, int *out_nodes);

/* Ranks that share one copy of what the sharding divides, the optimizer's work too; 1: nothing. */
double lk_config_sharers(const struct lk_config *c);

/* The job as it is: its usual batch, its accumulation and limits, plain DDP, on one GPU. */
struct lk_config lk_config_current(const struct lk_job *j);

/*
 * A step model that owns its collectives, and what is behind it.
 *
 * An averaging every `period` steps takes its share of each step and hides behind nothing, as
 * PyTorch's PeriodicModelAverager does; ranks that meet every H steps only have transients of
 * 1/sqrt(H). Ranks that share the optimizer's states share its work. Asynchronous ranks go at their
 * own pace: there is no effect of the slowest. A hook's casts take their bytes over the device's
 * memory rate, and none where that is not known.
 */
struct lk_config_model {
    struct lk_step_model step;
    struct lk_step_coll *colls;
    struct lk_volume volume;
    size_t *order;   /* the collectives, those of a kind, algorithm and group together */
    uint64_t *bytes; /* of the collectives in this order, as the network sees them */
    double *known; /* the step's rank_slowness, node_slowness and node_link; NULL: none is known */
    double pace;   /* ASYNC: the ranks' compute over one's, by what is known of them; contained */
    enum lk_algo algo;
    double memory_Bps; /* of the device; NaN: not known */
    enum lk_evidence evidence;
    char evidence_text[64];
    double batch_reach, cost_reach; /* how many times beyond the evidence; 1: within */
    double batch_sd;                /* relative, of the compute time: what batch_reach adds */
    double compute_sd;              /* relative uncertainty of the compute time */
    bool rank_sd_assumed, transient_assumed, overlap_unknown, kappa_unknown;
    bool shapes_assumed, cast_unknown; /* of a compression */
};

/* Builds it, with costs of `cost`. */
enum lk_status lk_config_model_init(struct lk_config_model *m, const struct lk_job *j,
                                    const struct lk_cluster *c, const struct lk_cost_model *cost,
                                    const struct lk_config *config);
/* The same collectives with another draw's costs. */
enum lk_status lk_config_model_costs(struct lk_config_model *m, const struct lk_cost_model *cost);
void lk_config_model_fini(struct lk_config_model *m);

#endif
