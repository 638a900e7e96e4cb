/*
 * The axes of a forecast, and the request that lists values on them. Each axis has a word, a kind
 * of value, and a member of a configuration or of a cluster's change that it sets. Options, columns
 * and notes use these words. `predict` varies the axes of LK_AXIS_RUN_LIST, `whatif` all.
 */
#ifndef LK_SIM_FORECAST_AXIS_H
#define LK_SIM_FORECAST_AXIS_H

#include "base/status.h"
#include "base/units.h"
#include "base/words.h"
#include "facts/bounds.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/knowledge.h"
#include "sim/step/altered_cluster.h"

#include <stdbool.h>
#include <stddef.h>

/* The kinds of values, with the word for a list of each in the help, whether that gives the range,
 * and the unit of the range. */
#define LK_AXIS_WORD_COUNT   "N,N,..."
#define LK_AXIS_WORD_SIZE    "SIZE,..."
#define LK_AXIS_WORD_RATE    "RATE,..."
#define LK_AXIS_WORD_LINK    "RATE,..."
#define LK_AXIS_WORD_TIME    "TIME,..."
#define LK_AXIS_WORD_RATIO   "X,..."
#define LK_AXIS_WORD_WORD    "WORD,..."
#define LK_AXIS_WORD_NAME    "NAME,..."
#define LK_AXIS_WORD_PLACE   "N:X,..."
#define LK_AXIS_WORD_SPLIT   "NxN+N,..."
#define LK_AXIS_RANGED_COUNT 1
#define LK_AXIS_RANGED_SIZE  1
#define LK_AXIS_RANGED_RATE  1
#define LK_AXIS_RANGED_LINK  1
#define LK_AXIS_RANGED_TIME  1
#define LK_AXIS_RANGED_RATIO 0
#define LK_AXIS_RANGED_WORD  0
#define LK_AXIS_RANGED_NAME  0
#define LK_AXIS_RANGED_PLACE 0
#define LK_AXIS_RANGED_SPLIT 0
#define LK_AXIS_DIM_COUNT    LK_DIM_NONE
#define LK_AXIS_DIM_SIZE     LK_DIM_BYTES
#define LK_AXIS_DIM_RATE     LK_DIM_RATE
#define LK_AXIS_DIM_LINK     LK_DIM_LINK
#define LK_AXIS_DIM_TIME     LK_DIM_TIME
#define LK_AXIS_DIM_RATIO    LK_DIM_NONE
#define LK_AXIS_DIM_WORD     LK_DIM_NONE
#define LK_AXIS_DIM_NAME     LK_DIM_NONE
#define LK_AXIS_DIM_PLACE    LK_DIM_NONE
#define LK_AXIS_DIM_SPLIT    LK_DIM_NONE

/* X(axis, option, column, kind, min, max, help): the axes in the order in which they are applied.
 * Those of the first list are how plain DDP is run: all that `predict` varies. */
#define LK_AXIS_RUN_LIST(X)                                                                        \
    X(LK_AXIS_GPUS, "gpus", "gpus", COUNT, 1, LK_FORECAST_GPUS_MAX,                                \
      "counts of GPUs (ranks); required")                                                          \
    X(LK_AXIS_LOCAL_BATCH, "local-batch", "local_batch", COUNT, 1, LK_BATCH_MAX,                   \
      "samples a micro-batch of a rank; default: the job's")                                       \
    X(LK_AXIS_ACCUMULATION, "accumulation", "accumulation", COUNT, 1, LK_ACCUMULATION_MAX,         \
      "micro-batches a step; default: the job's")                                                  \
    X(LK_AXIS_REDUCE, "reduce", "reduce", WORD, 0, 0,                                              \
      "every, scatter, last: micro-batches whose gradients are reduced; default: the job's, or "   \
      "as the scheme's library does")                                                              \
    X(LK_AXIS_BUCKET_CAP, "bucket-cap", "bucket_cap", SIZE, 1, 1e12,                               \
      "bucket caps, e.g. 25MiB, or tensor: each is a bucket; FSDP: size of a unit")                \
    X(LK_AXIS_FIRST_BUCKET, "first-bucket", "first_bucket", SIZE, 1, 1e12,                         \
      "limits of the first bucket, e.g. 1MiB")                                                     \
    X(LK_AXIS_RANK_BATCHES, "rank-batches", "rank_batches", SPLIT, 0, 0,                           \
      "equal; local batches of ranks that differ, 2x8+4 for 8, 8 and 4; or balanced: as many "     \
      "samples as equal ones, so that known slow ranks compute as long as the others")
/* How ranks share the model: what `plan` varies, too. */
#define LK_AXIS_SHARDING_LIST(X)                                                                   \
    X(LK_AXIS_SHARDING, "sharding", "sharding", WORD, 0, 0, LK_SHARDING_NAMES)                     \
    X(LK_AXIS_SHARD_GROUP, "shard-group", "shard_group", COUNT, 1, 1 << 20,                        \
      "hsdp, local-sgd, diloco: ranks of a group")
/* The ranks' GPUs, which `predict` and `plan` take, too. */
#define LK_AXIS_GPU_LIST(X)                                                                        \
    X(LK_AXIS_GPU, "gpu", "gpu", NAME, 0, 0,                                                       \
      "own, or clusters and presets whose GPU to take; or kinds in the order of the ranks, "       \
      "4xdgx-a100+2xdgx-1-v100")
#define LK_AXIS_LIST(X)                                                                            \
    LK_AXIS_RUN_LIST(X)                                                                            \
    X(LK_AXIS_GRAD_DTYPE, "grad-dtype", "grad_dtype", WORD, 0, 0,                                  \
      "own, float32, float16, bfloat16, float8")                                                   \
    X(LK_AXIS_COMPRESSION, "compression", "compression", WORD, 0, 0, "none, fp16, bf16, powersgd") \
    X(LK_AXIS_POWERSGD_RANK, "powersgd-rank", "powersgd_rank", COUNT, 1, 1 << 20,                  \
      "ranks of PowerSGD's factors")                                                               \
    X(LK_AXIS_ALGORITHM, "algorithm", "algorithm", WORD, 0, 0,                                     \
      "of the all-reduce: auto, ring, tree, collnet_direct, collnet_chain, nvls, nvls_tree, pat, " \
      "hierarchical")                                                                              \
    LK_AXIS_SHARDING_LIST(X)                                                                       \
    X(LK_AXIS_PERIOD, "period", "period", COUNT, 1, 1e9,                                           \
      "local-sgd, diloco: steps from averaging to averaging")                                      \
    X(LK_AXIS_STALENESS, "staleness", "staleness", COUNT, 1, LK_STALENESS_MAX,                     \
      "async: steps by which gradients are applied late; default: the job's, or 1")                \
    X(LK_AXIS_OVERLAP, "overlap", "overlap", WORD, 0, 0,                                           \
      "full, partial, none: of collectives with compute; default: the job's")                      \
    X(LK_AXIS_NODE_BANDWIDTH, "node-bandwidth", "node_bandwidth", LINK, 1, 1e15,                   \
      "of a node's network cards together, one direction: 100GB/s, or x2 for twice today's")       \
    X(LK_AXIS_NIC_BANDWIDTH, "nic-bandwidth", "nic_bandwidth", LINK, 1, 1e15,                      \
      "of one network card, one direction: 100Gbit/s, 400G, or x2")                                \
    X(LK_AXIS_INTER_LATENCY, "inter-latency", "inter_latency", TIME, 1e-12, 60,                    \
      "of a network hop: 5us, or x0.5")                                                            \
    X(LK_AXIS_INTRA_BANDWIDTH, "intra-bandwidth", "intra_bandwidth", RATE, 1, 1e15,                \
      "of a GPU inside its node")                                                                  \
    X(LK_AXIS_INTRA_LATENCY, "intra-latency", "intra_latency", TIME, 1e-12, 60,                    \
      "of a hop inside a node")                                                                    \
    X(LK_AXIS_NODES_PER_SWITCH, "nodes-per-switch", "nodes_per_switch", COUNT, 1, 1 << 20,         \
      "below a leaf switch")                                                                       \
    X(LK_AXIS_OVERSUBSCRIPTION, "oversubscription", "oversubscription", RATIO, 1, 1000,            \
      "above the leaf switches: 1, 2, 4, or x2")                                                   \
    X(LK_AXIS_OVERLAP_SLOWDOWN, "overlap-slowdown", "overlap_slowdown", RATIO, 1, 100,             \
      "times as long that compute takes while collectives run: 1, 1.2")                            \
    X(LK_AXIS_STRAGGLER_SPREAD, "straggler-spread", "straggler_spread", RATIO, 1e-3, 1000,         \
      "times as far that ranks, nodes and micro-batches differ as they do: 0.5, 2, or x2")         \
    X(LK_AXIS_GPUS_PER_NODE, "gpus-per-node", "gpus_per_node", COUNT, 1, 1 << 20,                  \
      "how the ranks are spread")                                                                  \
    LK_AXIS_GPU_LIST(X)                                                                            \
    X(LK_AXIS_WITHOUT_RANKS, "without-ranks", "without_ranks", COUNT, 0, 1 << 20,                  \
      "slowest ranks to replace")                                                                  \
    X(LK_AXIS_WITHOUT_NODES, "without-nodes", "without_nodes", COUNT, 0, 1 << 20,                  \
      "slowest nodes to replace")                                                                  \
    X(LK_AXIS_SLOW_RANK, "slow-rank", "slow_rank", PLACE, 0, 1 << 20,                              \
      "none, or 3:1.25: rank 3 computes 1.25 times as long")                                       \
    X(LK_AXIS_SLOW_LINK, "slow-link", "slow_link", PLACE, 0, 1 << 20,                              \
      "none, or 1:2: node 1's link at half the rate")

enum lk_axis { LK_AXIS_LIST(LK_WORD_VALUE) LK_AXIS_COUNT };

/* The batches of a scenario that are to be balanced, which lk_scenarios_add does. */
#define LK_AXIS_BALANCED "balanced"

struct lk_axis_value {
    int64_t count;           /* COUNT, SIZE, WORD; PLACE: the rank or node */
    struct lk_scaled number; /* RATE, LINK, TIME, RATIO; PLACE: how many times as long it takes */
    const struct lk_cluster *gpu;    /* NAME: whose; NULL: own. Set by the caller, as is */
    const struct lk_gpu_mix *mix;    /* a mix; NULL: one kind */
    char text[LK_RANK_BATCHES_TEXT]; /* as the user wrote it */
};

/* One way to run a job on a machine. */
struct lk_scenario {
    struct lk_config config;
    struct lk_change change;
};

struct lk_goal;
struct lk_plan_request;

/* A request to a source of evidence. */
struct lk_forecast_request {
    struct {
        const struct lk_axis_value *v; /* borrowed */
        size_t n;                      /* 0: not varied, as the source has it. GPUS: > 0 */
    } axes[LK_AXIS_COUNT];
    int64_t global_batch; /* > 0: strong scaling, samples a step; accumulation follows from it, and
                             the local batch shrinks where it would exceed the share */
    double level;         /* of the intervals, e.g. 0.90 */
    int draws;            /* Monte Carlo draws that the source makes for a point, e.g. 200 */
    uint64_t seed;
    uint64_t network_seed; /* of what is not known of the network; 0: the seed. Forecasts of two
                              networks differ in it, and in nothing else that is drawn */
    double site_factor;    /* of all intervals (sim/forecast/site.h); 0: 1 */
    bool anyway;           /* by a model that is contradicted, too */
    const struct lk_goal *goal; /* borrowed: the points are searched for what reaches it
                                   (sim/forecast/goal.h), and nothing is said of each. NULL: not */
    bool compare; /* with the current configuration, which joins the points of each count: `whatif`
                   */
    const struct lk_plan_request *plan; /* borrowed: memory, cost and time to the target of each
                                           point are planned. NULL: they are not */
    /* (optional) Called from time to time, with the scenarios predicted so far and in all. */
    void (*progress)(void *user, size_t done, size_t total);
    void *user;
};

/* An axis changes how the job is run, the machine that it runs on, or what is broken there.
 */
enum lk_axis_role { LK_AXIS_SETTING, LK_AXIS_MACHINE, LK_AXIS_DAMAGE };
enum lk_axis_role lk_axis_role(enum lk_axis a);

const char *lk_axis_option(enum lk_axis a);
const char *lk_axis_column(enum lk_axis a);

/* Reads one value. LK_EUSAGE names the option and says what was expected. */
enum lk_status lk_axis_parse(enum lk_axis a, const char *text, struct lk_axis_value *out);
/* Return true if two values of an axis are the same, however they are spelled. */
bool lk_axis_value_equal(enum lk_axis a, const struct lk_axis_value *x,
                         const struct lk_axis_value *y);
/* Sets the axis to the value. No axis sets the nodes. j: its rule sets the first bucket's limit
 * with the cap; NULL: it stays. */
void lk_axis_apply(enum lk_axis a, const struct lk_axis_value *v, const struct lk_job *j,
                   struct lk_scenario *s);
/* Sets what has no effect here as the current configuration, the cluster and the job (NULL: not
 * known) have it, so that equal scenarios compare equal: a slow rank 50 is no change on 8 GPUs, nor
 * bfloat16 where gradients are. pre: its nodes are set. */
void lk_axis_settle(const struct lk_config *current, const struct lk_cluster *cluster,
                    const struct lk_job *j, struct lk_scenario *s);
/* Return true if the value changes the machine, and a settled change has nothing of that. */
bool lk_axis_without_effect(enum lk_axis a, const struct lk_axis_value *v,
                            const struct lk_change *settled);
/* Return what a source of evidence must know to predict another value of the axis. */
enum lk_knowledge lk_axis_needs(enum lk_axis a);
/* Return what else must be asked for, for an axis that has a meaning only there; else NULL. */
const char *lk_axis_partner(enum lk_axis a);
/* Return true if the axis has a meaning here; PowerSGD's rank has none without PowerSGD. */
bool lk_axis_matters(enum lk_axis a, const struct lk_config *c);

#endif
