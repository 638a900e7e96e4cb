/*
 * A configuration is one way to run a job on a cluster. Measured runs, forecast points, what-ifs
 * and plans hold one each, and every model takes it as it is. Its schemes say how a step's
 * gradients are exchanged: sharding (facts/sharding.h), gradient dtype and compression (what
 * is sent). Their names are the words of the command line and of forecast files.
 */
#ifndef LK_FACTS_CONFIG_H
#define LK_FACTS_CONFIG_H

#include "base/status.h"
#include "base/words.h"
#include "facts/coll.h"
#include "facts/dtype.h"
#include "facts/rank_batches.h"
#include "facts/sharding.h"

#include <stdbool.h>
#include <stdint.h>

/* X(compression, name, help): a DDP communication hook. It does not change the bucket limits. */
#define LK_COMPRESSION_LIST(X)                                                                     \
    X(LK_COMPRESSION_NONE, "none", "gradients as they are")                                        \
    X(LK_COMPRESSION_FP16, "fp16", "cast to float16 and back")                                     \
    X(LK_COMPRESSION_BF16, "bf16", "cast to bfloat16 and back")                                    \
    X(LK_COMPRESSION_POWERSGD, "powersgd", "low-rank factors of each matrix")

enum lk_compression { LK_COMPRESSION_LIST(LK_WORD_VALUE) LK_COMPRESSION_COUNT };

/*
 * X(dtype, name, bytes an element, element type): the dtype that gradients are produced in. Bucket
 * limits count its bytes. Integer tensors keep their own. The element type of one that lk_dtype has
 * not is one of as many bytes.
 */
#define LK_GRAD_DTYPE_LIST(X)                                                                      \
    X(LK_GRAD_OWN, "own", 0, LK_U8)                                                                \
    X(LK_GRAD_F32, "float32", 4, LK_F32)                                                           \
    X(LK_GRAD_F16, "float16", 2, LK_F16)                                                           \
    X(LK_GRAD_BF16, "bfloat16", 2, LK_BF16)                                                        \
    X(LK_GRAD_F8, "float8", 1, LK_U8)

enum lk_grad_dtype { LK_GRAD_DTYPE_LIST(LK_WORD_VALUE) LK_GRAD_DTYPE_COUNT };

/*
 * X(mode, name, help): how collectives and compute share a step. PARTIAL is communication that the
 * host drives, as gloo's of GPU tensors: it has one collective under way, and is blocked when it
 * comes to the next before that has ended.
 */
#define LK_OVERLAP_MODE_LIST(X)                                                                    \
    X(LK_OVERLAP_MODE_FULL, "full", "each is launched when it can, and runs beside compute")       \
    X(LK_OVERLAP_MODE_PARTIAL, "partial", "one at a time: the next blocks the host until it ends") \
    X(LK_OVERLAP_MODE_NONE, "none", "each runs where it is needed: buckets after the backward")

enum lk_overlap_mode { LK_OVERLAP_MODE_LIST(LK_WORD_VALUE) LK_OVERLAP_MODE_COUNT };

LK_WORDS_DECLARE(lk_overlap_mode, enum lk_overlap_mode);
LK_WORDS_DECLARE(lk_compression, enum lk_compression);
LK_WORDS_DECLARE(lk_grad_dtype, enum lk_grad_dtype);
uint64_t lk_grad_dtype_bytes(enum lk_grad_dtype d); /* 0: the tensor's own */
/* Return the element type. pre: not the tensor's own. */
enum lk_dtype lk_grad_dtype_elem(enum lk_grad_dtype d);

/* The value 0 of every member after the bucket limits means PyTorch's plain DDP. */
struct lk_config {
    int world_size; /* the world size: ranks of one GPU each, of all replicas */
    int nodes;
    int local_batch; /* samples of a replica's micro-batch; 0: not known. Of unlike ranks the most
                      */
    char batches[LK_RANK_BATCHES_TEXT]; /* of unlike ranks, as facts/rank_batches.h writes them; "":
                                           all have the local batch */
    int accumulation;                   /* micro-batches a step */
    enum lk_reduction reduce;           /* the micro-batches whose gradients are reduced */
    uint64_t first_bytes, cap_bytes;    /* bucket limits; 0: not known */
    enum lk_algo algo;               /* of the collectives; AUTO: what the cluster would choose */
    enum lk_grad_dtype grad_dtype;   /* dtype that gradients are produced in */
    enum lk_compression compression; /* communication hook */
    int powersgd_rank;               /* POWERSGD: of the factors, 1 or more */
    enum lk_overlap_mode overlap;    /* of collectives with compute */
    enum lk_sharding sharding;
    int shard_group;      /* ranks that share one copy of the model (LK_SHARERS_GROUP; 0: those of a
                             node)      or that meet in every step (LK_PACE_PERIOD; 0: none) */
    int averaging_period; /* LK_PACE_PERIOD: steps from one averaging to the next, 1 or more */
    int staleness;        /* LK_PACE_BOUNDED: steps by which gradients are applied late */
    /*
     * GPUs that split each layer of one copy of the model, and stages that its layers are split
     * into: a replica is their product, and gradients are reduced over replicas. Ranks are numbered
     * as Megatron-LM's: neighbours split a layer, stages are farthest apart (arXiv:2104.04473). 0:
     * 1.
     */
    int tensor_parallel, pipeline_parallel;
};

/* A point of a scaling curve: a configuration with the throughput measured in it, or one whose
 * throughput is to be forecast. */
struct lk_scaling_point {
    struct lk_config config;
    double throughput;  /* samples a second of all ranks; not read where it is to be forecast */
    double least, most; /* of the measurements behind it; 0: one */
};

/* Return true if all members are equal. */
bool lk_config_equal(const struct lk_config *a, const struct lk_config *b);
/* Return true if gradients are exchanged alike: algorithm, dtype, compression, overlap, sharding
 * with its group, averaging period and staleness. */
bool lk_config_same_scheme(const struct lk_config *a, const struct lk_config *b);
/* Return the GPUs of a replica, 1 or more, and how many whole replicas the GPUs hold. */
int lk_config_replica_gpus(const struct lk_config *c);
int lk_config_replicas(const struct lk_config *c);
/* Return the samples of one step of all ranks; an unknown local batch counts as one sample. */
double lk_config_samples(const struct lk_config *c);
/*
 * Return the scaling efficiency, throughput(K) / (K throughput(1)): the samples a second of a GPU
 * over those of a GPU of the reference, by the time of a step of each. The one definition: `run`,
 * `analyze` and forecasts have it. The reference is one replica, or the fewest GPUs that were
 * measured.
 */
double lk_scaling_efficiency(const struct lk_config *c, double step_s,
                             const struct lk_config *reference, double reference_step_s);
/*
 * Apply strong scaling: set the accumulation, and a smaller local batch where it exceeds a rank's
 * share, so that a step has `global` samples of all ranks. A global batch of 0 or less changes
 * nothing. LK_EUSAGE: it does not divide into ranks and whole local batches, or takes too many
 * micro-batches. pre: the local batch is known.
 */
enum lk_status lk_config_split_global(int64_t global, struct lk_config *c);
/* Return true if it divides so for the configuration with another local batch. */
bool lk_config_splits(int64_t global, const struct lk_config *c, int local_batch);
/* Set the nodes to as few of per_node GPUs as hold the ranks, but no more than `most` (0: any
 * number), which then hold more ranks each. LK_EUSAGE: the ranks do not divide equally among them,
 * or are no whole replicas. */
enum lk_status lk_config_fill_nodes(struct lk_config *c, int per_node, int most);
/* Set the scheme, `reduce` as its library does, and a staleness of 1 where there is none and the
 * scheme has one; own: as the job's plain DDP does. */
void lk_config_shard(struct lk_config *c, enum lk_sharding s, enum lk_reduction own);
/* Return true if a rank keeps its whole gradients from one micro-batch to the next. */
bool lk_config_keeps_gradients(const struct lk_config *c);
/* Return true if every step learns from the whole global batch, by gradients of its own parameters.
 */
bool lk_config_is_synchronous(const struct lk_config *c);
/* Return true if ranks meet only when parameters are averaged. */
bool lk_config_meets_seldom(const struct lk_config *c);
/* Return the ranks, of different replicas, that share one copy of what the sharding divides, the
 * optimizer's work too; 1 when it divides nothing. */
double lk_config_sharers(const struct lk_config *c);

#endif
