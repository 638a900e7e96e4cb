/*
 * Findings: conclusions from an analysis in words. A finding has its evidence, what mending it
 * brings a step, what to do next, and the finding that causes it, if another one does.
 *
 * One cause stands once, with its consequences under it. A finding causes another one when the
 * table of findings (profiler/analysis/findings_table.c) says that it can, both are about the same
 * rank, or one of them about all ranks, and it costs at least half as much, or its cost is not
 * known. Of several the most direct one does, then the most costly.
 */
#ifndef LK_PROFILER_ANALYSIS_FINDINGS_H
#define LK_PROFILER_ANALYSIS_FINDINGS_H

#include "base/words.h"

#include <stdbool.h>

/*
 * X(finding, id in JSON and CSV). Causes stand before their consequences, so that no finding causes
 * itself by way of others.
 */
#define LK_FINDING_LIST(X)                                                                         \
    X(LK_FINDING_DUPLICATE_SHARDS, "duplicate_shards")                                             \
    X(LK_FINDING_SHARED_GPU, "shared_gpu")                                                         \
    X(LK_FINDING_HOST_BUSY, "host_busy")                                                           \
    X(LK_FINDING_LATE_NODE, "late_node")                                                           \
    X(LK_FINDING_THROTTLED, "throttled")                                                           \
    X(LK_FINDING_GPU_CLOCK, "gpu_clock")                                                           \
    X(LK_FINDING_SLOW_RANK, "slow_rank")                                                           \
    X(LK_FINDING_RANK_INPUT, "rank_input")                                                         \
    X(LK_FINDING_RANK_LAUNCH, "rank_launch")                                                       \
    X(LK_FINDING_CHECKPOINTS, "checkpoints")                                                       \
    X(LK_FINDING_LOGGING, "logging")                                                               \
    X(LK_FINDING_UNEVEN_BATCHES, "uneven_batches")                                                 \
    X(LK_FINDING_SLOW_LINK, "slow_link")                                                           \
    X(LK_FINDING_UNEVEN_ENDS, "uneven_ends")                                                       \
    X(LK_FINDING_LATE_RANK, "late_rank")                                                           \
    X(LK_FINDING_STRAGGLERS, "stragglers")                                                         \
    X(LK_FINDING_ACCUMULATION, "accumulation")                                                     \
    X(LK_FINDING_UNUSED_PARAMETERS, "unused_parameters")                                           \
    X(LK_FINDING_SMALL_BUCKETS, "small_buckets")                                                   \
    X(LK_FINDING_FIRST_BUCKET, "first_bucket")                                                     \
    X(LK_FINDING_WIRE, "wire_bound")                                                               \
    X(LK_FINDING_POOR_OVERLAP, "poor_overlap")                                                     \
    X(LK_FINDING_SYNCHRONISATION, "hidden_synchronisation")                                        \
    X(LK_FINDING_LAUNCH_BOUND, "launch_bound")                                                     \
    X(LK_FINDING_LATE_LAUNCHES, "late_launches")                                                   \
    X(LK_FINDING_INPUT, "input_bound")                                                             \
    X(LK_FINDING_COLOCATION, "colocation")                                                         \
    X(LK_FINDING_OVERLAP_SLOWDOWN, "overlap_slowdown")                                             \
    X(LK_FINDING_OPTIMIZER, "optimizer")                                                           \
    X(LK_FINDING_REST, "unexplained")                                                              \
    X(LK_FINDING_TRAINING, "slower_in_training")                                                   \
    X(LK_FINDING_CLOCKS, "clocks")                                                                 \
    X(LK_FINDING_MISSING_RANKS, "missing_ranks")                                                   \
    X(LK_FINDING_TRUNCATED, "truncated")                                                           \
    X(LK_FINDING_LOST_SPANS, "lost_spans")                                                         \
    X(LK_FINDING_GPU_RECORDS, "gpu_records")                                                       \
    X(LK_FINDING_RECORDING_COST, "recording_cost")

enum lk_finding_id { LK_FINDING_LIST(LK_WORD_VALUE) LK_FINDING_COUNT };
LK_WORDS_DECLARE(lk_finding_id, enum lk_finding_id);

struct lk_finding {
    enum lk_finding_id id;
    /*
     * Time of a step that mending it brings at most, by the waterfall; NaN: not known, or not a
     * matter of time. A consequence's time is in that of its cause.
     */
    double cost_s;
    double most_s;    /* a consequence of it costs no more; NaN: not known */
    bool inherited;   /* the cost is that of the most costly consequence: its own is not known */
    char *text;       /* the evidence; owned */
    const char *next; /* what to do; static storage. NULL: its cause says it, or there is nothing */
    int rank;         /* index of the run's rank that it is about; -1: all of them */
    const char *host; /* of the rank, or whose ranks it is about; the run's. NULL: not of one host,
                         or all ranks are on it */
    int cause;        /* index of the finding that causes it, which stands before it; -1: none */
    int depth;        /* number of causes above it */
};

#endif
