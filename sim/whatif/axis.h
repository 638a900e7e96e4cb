/*
 * The axes of a what-if: each has a word, a kind of value, and a member of a configuration or of a
 * cluster's change that it sets. Options, columns and notes use these words.
 */
#ifndef LK_SIM_WHATIF_AXIS_H
#define LK_SIM_WHATIF_AXIS_H

#include "base/config.h"
#include "base/job.h"
#include "base/status.h"
#include "base/words.h"
#include "sim/forecast/altered_cluster.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>
#include <stddef.h>

/* The kinds of values, and the word for a list of each in the help. */
#define LK_AXIS_WORD_COUNT  "N,N,..."
#define LK_AXIS_WORD_YES_NO "WORD,..."
#define LK_AXIS_WORD_SIZE   "SIZE,..."
#define LK_AXIS_WORD_RATE   "RATE,..."
#define LK_AXIS_WORD_TIME   "TIME,..."
#define LK_AXIS_WORD_RATIO  "X,..."
#define LK_AXIS_WORD_WORD   "WORD,..."
#define LK_AXIS_WORD_NAME   "NAME,..."
#define LK_AXIS_WORD_PLACE  "N:X,..."

/* X(axis, option, column, kind, help): the axes in the order in which they are applied. Those of
 * the first list are how plain DDP is run: all that `predict` varies. */
#define LK_AXIS_RUN_LIST(X)                                                                        \
    X(LK_AXIS_GPUS, "gpus", "gpus", COUNT, "counts of GPUs (ranks); required")                     \
    X(LK_AXIS_LOCAL_BATCH, "local-batch", "local_batch", COUNT,                                    \
      "samples a micro-batch of a rank; default: the job's")                                       \
    X(LK_AXIS_ACCUMULATION, "accumulation", "accumulation", COUNT,                                 \
      "micro-batches a step; default: the job's")                                                  \
    X(LK_AXIS_NO_SYNC, "no-sync", "no_sync", YES_NO,                                               \
      "yes, no: reduce on the last micro-batch alone")                                             \
    X(LK_AXIS_BUCKET_CAP, "bucket-cap", "bucket_cap", SIZE,                                        \
      "bucket caps, bytes; FSDP: size of a unit")                                                  \
    X(LK_AXIS_FIRST_BUCKET, "first-bucket", "first_bucket", SIZE,                                  \
      "limits of the first bucket, bytes")
#define LK_AXIS_LIST(X)                                                                            \
    LK_AXIS_RUN_LIST(X)                                                                            \
    X(LK_AXIS_GRAD_DTYPE, "grad-dtype", "grad_dtype", WORD,                                        \
      "own, float32, float16, bfloat16, float8")                                                   \
    X(LK_AXIS_COMPRESSION, "compression", "compression", WORD, "none, fp16, bf16, powersgd")       \
    X(LK_AXIS_POWERSGD_RANK, "powersgd-rank", "powersgd_rank", COUNT,                              \
      "ranks of PowerSGD's factors")                                                               \
    X(LK_AXIS_ALGORITHM, "algorithm", "algorithm", WORD,                                           \
      "of the all-reduce: auto, ring, tree, ...")                                                  \
    X(LK_AXIS_SHARDING, "sharding", "sharding", WORD,                                              \
      "ddp, zero1, zero2, zero3, hsdp, local-sgd, ...")                                            \
    X(LK_AXIS_SHARD_GROUP, "shard-group", "shard_group", COUNT,                                    \
      "hsdp, local-sgd, diloco: ranks of a group")                                                 \
    X(LK_AXIS_PERIOD, "period", "period", COUNT,                                                   \
      "local-sgd, diloco: steps from averaging to averaging")                                      \
    X(LK_AXIS_INTER_BANDWIDTH, "inter-bandwidth", "inter_bandwidth", RATE,                         \
      "of a network link: 25Gbit/s, or x2 for twice today's")                                      \
    X(LK_AXIS_INTER_LATENCY, "inter-latency", "inter_latency", TIME,                               \
      "of a network hop: 5us, or x0.5")                                                            \
    X(LK_AXIS_INTRA_BANDWIDTH, "intra-bandwidth", "intra_bandwidth", RATE,                         \
      "of a GPU inside its node")                                                                  \
    X(LK_AXIS_INTRA_LATENCY, "intra-latency", "intra_latency", TIME, "of a hop inside a node")     \
    X(LK_AXIS_NODES_PER_SWITCH, "nodes-per-switch", "nodes_per_switch", COUNT,                     \
      "below a leaf switch")                                                                       \
    X(LK_AXIS_OVERSUBSCRIPTION, "oversubscription", "oversubscription", RATIO,                     \
      "above the leaf switches: 1, 2, 4, or x2")                                                   \
    X(LK_AXIS_GPUS_PER_NODE, "gpus-per-node", "gpus_per_node", COUNT, "how the ranks are spread")  \
    X(LK_AXIS_GPU, "gpu", "gpu", NAME, "own, or clusters and presets whose GPU to take")           \
    X(LK_AXIS_WITHOUT_RANKS, "without-ranks", "without_ranks", COUNT, "slowest ranks to replace")  \
    X(LK_AXIS_WITHOUT_NODES, "without-nodes", "without_nodes", COUNT, "slowest nodes to replace")  \
    X(LK_AXIS_SLOW_RANK, "slow-rank", "slow_rank", PLACE,                                          \
      "none, or 3:1.25: rank 3 computes 1.25 times as long")                                       \
    X(LK_AXIS_SLOW_LINK, "slow-link", "slow_link", PLACE,                                          \
      "none, or 1:2: node 1's link at half the rate")

enum lk_axis { LK_AXIS_LIST(LK_WORD_VALUE) LK_AXIS_COUNT };

struct lk_axis_value {
    struct lk_scaled number; /* is_factor only on axes of the network */
    int at;                  /* SLOW_RANK, SLOW_LINK: the rank or node, slowed number.value times */
    const struct lk_cluster *gpu; /* LK_AXIS_GPU: whose; NULL: own. Set by the caller */
    char text[32];                /* as the user wrote it */
};

/* One way to run a job on a machine. */
struct lk_scenario {
    struct lk_config config;
    struct lk_change change;
};

const char *lk_axis_option(enum lk_axis a);
const char *lk_axis_column(enum lk_axis a);

/* Reads one value. LK_EUSAGE names the option and says what was expected. */
enum lk_status lk_axis_parse(enum lk_axis a, const char *text, struct lk_axis_value *out);
/* Sets the axis to the value. No axis sets the nodes. j: its rule sets the bucket limits; NULL
 * where no axis changes them. */
void lk_axis_apply(enum lk_axis a, const struct lk_axis_value *v, const struct lk_job *j,
                   struct lk_scenario *s);
/* Sets what has no meaning here as the current configuration has it, so that equal configurations
 * compare equal. */
void lk_axis_settle(const struct lk_config *current, struct lk_config *c);
/* Return what a source of evidence must know to predict another value of the axis. */
enum lk_knowledge lk_axis_needs(enum lk_axis a);
/* Return what else must be asked for, for an axis that has a meaning only there; else NULL. */
const char *lk_axis_partner(enum lk_axis a);
/* Return true if the axis has a meaning here; PowerSGD's rank has none without PowerSGD. */
bool lk_axis_matters(enum lk_axis a, const struct lk_config *c);

#endif
