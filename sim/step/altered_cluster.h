/*
 * Copies of a cluster and a job as they would be with another network, other nodes, another GPU, or
 * without the slowest ranks. Every model takes the copies like measured ones.
 *
 * A change names what differs (struct lk_change); lk_altered_init makes the copies; the caller
 * gives `job` and `cluster` of the result to a predictor, and ends all with lk_altered_fini.
 *
 *     struct lk_change change = {.bandwidth_Bps[LK_LINK_INTER] = {2, true}};    twice as fast
 *
 * Network: points measured between nodes (within nodes, for intra) are multiplied by the modelled
 * time on the new links over that on the old ones, so that the model's error stays. GPU, and mixes
 * of kinds of GPU: sim/step/gpu_mix.h. Slowest ranks: they are replaced by ranks like the rest, so
 * that the number of GPUs stays. Ranks that are known to be slow, or that the runs showed to be
 * (sim/step/known_stragglers.h), stay slow in the copies, and are the first to be replaced.
 * Straggler spread: the standard deviations of ranks, nodes, links and micro-batches and the tail's
 * mean excess (facts/straggler.h) are multiplied, those that are assumed, too; how often the tail
 * strikes and which ranks are known to be slow stay.
 */
#ifndef LK_SIM_STEP_ALTERED_CLUSTER_H
#define LK_SIM_STEP_ALTERED_CLUSTER_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/job.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/step/gpu_mix.h"
#include "sim/step/known_stragglers.h"

#include <stdbool.h>
#include <stddef.h>

/* A new value, in the unit of what it replaces, or a factor on the old one; value 0: unchanged (a
 * factor of 1 changes nothing either). */
struct lk_scaled {
    double value;
    bool is_factor;
};

/* A rank or node that is made slower than the others. */
struct lk_slowed {
    int at;        /* the rank or node, from 0 */
    double factor; /* its time over that of the others; 0: none is made slower */
};

/* Changes to the copies; all zero changes nothing. The clusters are borrowed. */
struct lk_change {
    struct lk_scaled bandwidth_Bps[LK_LINK_COUNT]; /* by enum lk_link (facts/cluster.h): of a GPU
                                                      inside its node, of a network card */
    struct lk_scaled node_Bps;                     /* of all network cards of a node together */
    struct lk_scaled latency_s[LK_LINK_COUNT];     /* of a hop */
    int nodes_per_switch;                          /* 0: unchanged */
    struct lk_scaled oversubscription; /* of a leaf switch: downlink over uplink bandwidth */
    struct lk_scaled overlap_slowdown; /* 1 + gamma_wire (sim/step/step.h) */
    struct lk_scaled straggler_spread; /* a factor on the law's deviations and tail */
    int gpus_per_node;                 /* 0: unchanged; the number of a node's NICs stays */
    const struct lk_cluster *gpu;      /* the cluster with the new device; NULL: unchanged */
    const struct lk_gpu_mix *mix;      /* of as many ranks as the forecast has; gpu is NULL, or it
                                          is NULL */
    int without_ranks, without_nodes;  /* number of the slowest that are replaced */
    struct lk_slowed slow_rank, slow_link; /* a rank's compute and a node's link, from now on */
};

/* Return true if nothing is changed. */
bool lk_change_is_none(const struct lk_change *c);
/* Return true if all members are equal; gpu and mix are compared as pointers. */
bool lk_change_equal(const struct lk_change *a, const struct lk_change *b);

/*
 * The copies. They borrow names, sources and lists from the originals, which outlive them. The job
 * has no runs: they were made on another machine. The caller reads job and cluster alone, and frees
 * them with lk_altered_fini alone.
 */
struct lk_altered {
    struct lk_job job;
    struct lk_cluster cluster;
    /* Private: the owned parts. */
    struct lk_job_compute *compute;
    struct lk_cluster_point *points;
    struct lk_cluster_fit *fits;
    struct lk_known_stragglers slow; /* of the originals */
    struct lk_cluster_slow *known;   /* cluster.slow: those, with slow_rank and slow_link; borrows
                                        the sources of `slow` */
    struct lk_fitted_cluster fitted; /* the original: `fits` borrows the sources of its fits */
    char *source;                    /* of quantities that the original did not know */
};

/*
 * Make the altered copies. world_size: ranks of the forecast, among which the slowest are sought
 * when no run of the job has the compute time of each of its ranks. LK_EEVIDENCE names the one
 * number that is missing; LK_EUSAGE: fewer than two ranks or nodes would stay, or oversubscription
 * below 1.
 */
enum lk_status lk_altered_init(struct lk_altered *out, const struct lk_job *j,
                               const struct lk_cluster *c, const struct lk_change *change,
                               int world_size);
void lk_altered_fini(struct lk_altered *c); /* zeroes it; safe on a zeroed one */

#endif
