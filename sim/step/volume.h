/*
 * A volume lists the collectives of a step under a configuration, with size, group and positions in
 * the step. sim/step/config.h adds their costs.
 *
 * With M bytes of gradients (and of parameters), N ranks and k micro-batches, a rank sends in an
 * optimizer step
 *
 *   ddp                  r all-reduce                               2r (N-1)/N M
 *   zero1, zero2         r reduce-scatter, 1 all-gather             (r+1) (N-1)/N M
 *   zero3                2k all-gather, r reduce-scatter            (2k+r) (N-1)/N M
 *   shard-grad-op        k all-gather, r reduce-scatter             (k+r) (N-1)/N M
 *   hsdp, groups of S    zero3 in a group, a all-reduce of M/S
 *                        (2k+r) (S-1)/S M + 2a (R-1)/R M/S over the R = N/S groups
 *   local-sgd, diloco    1 all-reduce every H steps           2 (N-1)/N M / H
 *   async                as ddp, needed a step later
 *
 * r and a follow from what is reduced: r = a = k of every micro-batch, r = a = 1 of the last, r = k
 * and a = 1 where gradients are scattered in each and all-reduced between groups in the last.
 * (DeepSpeed and FSDP volumes: github.com/stas00/ml-engineering, training/model-parallelism;
 * DiLoCo: arXiv 2311.08105; the three ways to reduce: pytorch#126166.) A unit of FSDP is a bucket
 * here, so the bucket cap is the size of a unit. local-sgd and diloco with a shard group all-reduce
 * gradients within the group every step (PyTorch's post_localSGD_hook; DiLoCo's workers of several
 * GPUs).
 *
 * Without overlap a collective is launched where it is needed, gradients after the backward. With
 * partial overlap compute waits, where the next one is launched, until the one before has ended.
 *
 * Of replicas of several GPUs the tensors are those of one GPU, and N counts replicas: one rank of
 * each reduces them, at once with the other GPUs of its node.
 *
 * Where shards hold gradients and the update needs a number of all of them, to clip them or to skip
 * a step that overflowed, an all-reduce of 4 bytes comes before it.
 *
 * A job's other collectives (struct lk_job_collective) join them where its runs had them.
 *
 * Compression works on buckets that are cut: fp16 and bf16 halve float32 (default_hooks.py),
 * PowerSGD makes three all-reduces of one (powerSGD_hook.py): tensors that are not worth it, all
 * P (n x rank), all Q (m x rank); a tensor is worth it when (n + m) rank 2 < n m.
 */
#ifndef LK_SIM_VOLUME_H
#define LK_SIM_VOLUME_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/job.h"
#include "sim/step/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_config;

/* How a collective travels, and what it takes beside. */
struct lk_volume_coll {
    int ranks, nodes;    /* of one group */
    int groups;          /* that use a node's network at once, this one included */
    int period;          /* steps from one to the next, 1 or more */
    double memory_bytes; /* moved in the device's memory by a hook, or by copies of tensors */
    int matrices;        /* that a hook orthogonalises */
};

/* The collectives of a step, n of each list, in the order of the stream. */
struct lk_volume {
    struct lk_step_coll *steps; /* without costs; where nothing is charged for buckets */
    struct lk_volume_coll *colls;
    size_t n;
    size_t tensors;      /* of all collectives */
    bool shapes_assumed; /* PowerSGD took tensors as nearly square: the job gives no rows */
};

/*
 * List the collectives. LK_EUSAGE: groups that do not divide the ranks, a compression that the
 * sharding does not support, a missing period or rank.
 */
enum lk_status lk_volume_init(struct lk_volume *v, const struct lk_job *j,
                              const struct lk_config *c);
/* Set *out to the number of buckets that the job has at its own limits. */
enum lk_status lk_volume_own_buckets(const struct lk_job *j, int *out);
void lk_volume_fini(struct lk_volume *v); /* zeroes it; safe on a zeroed one */

#endif
