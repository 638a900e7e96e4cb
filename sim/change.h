/*
 * A cluster and a job as they would be with another network, other nodes, another GPU, or without
 * the slowest ranks: changed copies, which every forecast takes like measured ones.
 *
 * Network: points measured between nodes (within nodes, for intra) are multiplied by what the
 * cluster's model of them says of the new links over the old ones, so that what the model misses
 * stays. GPU: compute times are multiplied by the roofline's time on the new device over the one
 * on the old: sum over layers of max(flops / rate, bytes / memory rate); the measured efficiency is
 * kept. Where a job has no layers but flops_per_sample, the rates' ratio is taken, and the interval
 * is widened to hold the ratio of the memories' rates. Slowest ranks: as if they were replaced by
 * others of the rest's kind; for fewer GPUs ask for fewer. Ranks that are known to be slow, or were
 * found to be in the runs (sim/slow.h), stay so in the copies, and are the first to be replaced.
 */
#ifndef LK_SIM_CHANGE_H
#define LK_SIM_CHANGE_H

#include "base/cluster.h"
#include "base/job.h"
#include "base/status.h"
#include "sim/slow.h"

#include <stdbool.h>
#include <stddef.h>

/* A new value, or a factor on the old one. value 0: unchanged. */
struct lk_scaled {
    double value;
    bool is_factor;
};

/* So much slower than the others; factor 0: nothing is. */
struct lk_slowed {
    int at; /* the rank or node */
    double factor;
};

struct lk_change {
    struct lk_scaled bandwidth_Bps[LK_LINK_COUNT], latency_s[LK_LINK_COUNT];
    int nodes_per_switch; /* 0: unchanged */
    struct lk_scaled oversubscription;
    int gpus_per_node;                     /* 0: unchanged; network links a node stay */
    const struct lk_cluster *gpu;          /* whose device to take; NULL: unchanged */
    int without_ranks, without_nodes;      /* how many of the slowest are replaced */
    struct lk_slowed slow_rank, slow_link; /* a rank's compute and a node's link, from now on */
};

/* Nothing is changed. */
bool lk_change_is_none(const struct lk_change *c);
bool lk_change_equal(const struct lk_change *a, const struct lk_change *b);

/*
 * Copies that borrow names, sources and lists from the originals, which outlive them. The job has
 * no runs: they are of another machine.
 */
struct lk_changed {
    struct lk_job job;
    struct lk_cluster cluster;
    /* Private: what is owned. */
    struct lk_job_compute *compute;
    struct lk_cluster_point *points;
    struct lk_cluster_fit *fits;
    struct lk_slow slow; /* of the originals; known borrows its sources */
    struct lk_cluster_slow *known;
    struct lk_cluster_fit *own_fits; /* whose sources fits borrows; NULL: the cluster's */
    size_t n_own_fits;
    char *source; /* of quantities that the original did not know */
};

/*
 * gpus: ranks among which the slowest are sought, when no run says. LK_EEVIDENCE names the one
 * number that is missing.
 */
enum lk_status lk_changed_init(struct lk_changed *out, const struct lk_job *j,
                               const struct lk_cluster *c, const struct lk_change *change,
                               int gpus);
void lk_changed_fini(struct lk_changed *c); /* zeroes it; safe on a zeroed one */

#endif
