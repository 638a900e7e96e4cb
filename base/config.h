/*
 * A configuration is one way to run a job on a cluster. Measured runs, forecast points, what-ifs
 * and plans hold one each, and every model takes it as it is.
 */
#ifndef LK_BASE_CONFIG_H
#define LK_BASE_CONFIG_H

#include "base/coll.h"
#include "base/exchange.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The value 0 of every member after the bucket limits means PyTorch's plain DDP. base/exchange.h
 * has the schemes that are named in capitals. */
struct lk_config {
    int gpus; /* the world size: ranks of one GPU each */
    int nodes;
    int local_batch;                 /* samples of a rank's micro-batch; 0: not known */
    int accumulation;                /* micro-batches a step */
    bool no_sync;                    /* gradients are reduced on the last micro-batch alone */
    uint64_t first_bytes, cap_bytes; /* bucket limits; 0: not known */
    enum lk_algo algo;               /* of the collectives; AUTO: what the cluster would choose */
    enum lk_grad_dtype grad_dtype;   /* dtype that gradients are produced in */
    enum lk_compression compression; /* communication hook */
    int powersgd_rank;               /* POWERSGD: of the factors, 1 or more */
    enum lk_sharding sharding;
    int shard_group;      /* HSDP: ranks that share one copy of the model; 0: those of a node */
    int averaging_period; /* LOCAL_SGD and DILOCO: steps from one averaging to the next, 1 or more
                           */
};

/* A point of a scaling curve: a configuration with the throughput measured in it, or one whose
 * throughput is to be forecast. */
struct lk_scaling_point {
    struct lk_config config;
    double throughput; /* samples a second of all ranks; not read where it is to be forecast */
    /* ln(GPU-seconds a sample) as another model predicts it, up to a constant that is common to all
     * points; 0: none (sim/throughput/scaling.h) */
    double model;
};

/* Return true if all members are equal. */
bool lk_config_equal(const struct lk_config *a, const struct lk_config *b);
/* Return true if gradients are exchanged alike: algorithm, dtype, compression, sharding with its
 * group and averaging period. */
bool lk_config_same_scheme(const struct lk_config *a, const struct lk_config *b);
/* Return the samples of one step of all ranks; an unknown local batch counts as one sample. */
double lk_config_samples(const struct lk_config *c);
/*
 * Apply strong scaling: set the accumulation, and a smaller local batch where it exceeds a rank's
 * share, so that a step has `global` samples of all ranks. A global batch of 0 or less changes
 * nothing. LK_EUSAGE: it does not divide into ranks and whole local batches, or takes too many
 * micro-batches. pre: the local batch is known.
 */
enum lk_status lk_config_split_global(int64_t global, struct lk_config *c);
/* Set the nodes to as few of per_node GPUs as hold the ranks, but no more than `most` (0: any
 * number), which then hold more ranks each. LK_EUSAGE: the ranks do not divide equally among them.
 */
enum lk_status lk_config_fill_nodes(struct lk_config *c, int per_node, int most);
/* Return the ranks that share one copy of what the sharding divides, the optimizer's work too; 1
 * when it divides nothing. */
double lk_config_sharers(const struct lk_config *c);

#endif
