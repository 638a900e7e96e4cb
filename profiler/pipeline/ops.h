/*
 * Operations of a pipeline-parallel job: a CSV with a row for each operation of each worker, as
 * ByteDance's straggler traces have it (ByteDance-Seed/StragglerAnalysis, readme.md). A worker is
 * the one GPU of a data-parallel rank and a pipeline stage that was recorded.
 *
 *     dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc
 *
 * Times are in s on one clock; seq_id numbers the operations of a type of a worker and step in the
 * order of their starts. mc is the chunk of the model on this stage, gmc in the whole model;
 * without these columns, or with -1, a stage has one chunk. Other columns are ignored.
 */
#ifndef LK_PROFILER_PIPELINE_OPS_H
#define LK_PROFILER_PIPELINE_OPS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The workers that take part in an operation together. */
enum lk_pipe_scope {
    LK_PIPE_ALONE,  /* this one */
    LK_PIPE_PAIR,   /* a sender and its receiver */
    LK_PIPE_DP,     /* all data-parallel ranks of the stage */
    LK_PIPE_STAGES, /* all stages of the data-parallel rank that have it */
    LK_PIPE_ALL
};

/* The types from LK_PIPE_GC on end a step, in this order.
 * X(value, name, shown as, scope, typical is the mean; else the median) */
#define LK_PIPE_TYPE_LIST(X)                                                                       \
    X(LK_PIPE_FORWARD, "forward-compute", "forward-compute", LK_PIPE_ALONE, true)                  \
    X(LK_PIPE_BACKWARD, "backward-compute", "backward-compute", LK_PIPE_ALONE, true)               \
    X(LK_PIPE_FORWARD_RECV, "forward-recv", "forward-pp-comm", LK_PIPE_PAIR, false)                \
    X(LK_PIPE_FORWARD_SEND, "forward-send", "forward-pp-comm", LK_PIPE_PAIR, false)                \
    X(LK_PIPE_BACKWARD_RECV, "backward-recv", "backward-pp-comm", LK_PIPE_PAIR, false)             \
    X(LK_PIPE_BACKWARD_SEND, "backward-send", "backward-pp-comm", LK_PIPE_PAIR, false)             \
    X(LK_PIPE_PARAMS, "params-all-gather", "params-all-gather", LK_PIPE_DP, false)                 \
    X(LK_PIPE_GC, "gc", "gc", LK_PIPE_ALONE, true)                                                 \
    X(LK_PIPE_LAYERNORM, "layernorm-grads-all-reduce", "layernorm-grads-all-reduce",               \
      LK_PIPE_ALONE, false)                                                                        \
    X(LK_PIPE_EMBEDDING, "embedding-grads-all-reduce", "embedding-grads-all-reduce",               \
      LK_PIPE_STAGES, false)                                                                       \
    X(LK_PIPE_GRADS, "grads-reduce-scatter", "grads-reduce-scatter", LK_PIPE_DP, false)            \
    X(LK_PIPE_SEPARATE, "separate-grads-all-reduce", "separate-grads-all-reduce", LK_PIPE_DP,      \
      false)                                                                                       \
    X(LK_PIPE_CLIP, "optimizer-clip-main-grad", "optimizer-clip-main-grad", LK_PIPE_ALL, false)    \
    X(LK_PIPE_OPTIMIZER, "optimizer", "optimizer", LK_PIPE_ALONE, true)

#define LK_PIPE_TYPE_VALUE_(value, name, shown, scope, mean) value,
enum lk_pipe_type { LK_PIPE_TYPE_LIST(LK_PIPE_TYPE_VALUE_) LK_PIPE_TYPES };
#undef LK_PIPE_TYPE_VALUE_

struct lk_pipe_type_row {
    const char *name, *shown; /* several types may be shown as one */
    enum lk_pipe_scope scope;
    bool mean; /* its typical time is the mean of its times, else their median */
};
extern const struct lk_pipe_type_row lk_pipe_types[LK_PIPE_TYPES];

struct lk_pipe_op {
    double start_s; /* since the first start of its step */
    double duration_s;
    uint32_t worker; /* dp index * n_stages + stage */
    uint32_t seq;
    int32_t chunk; /* of the whole model */
    uint32_t line; /* of the file */
    uint8_t local; /* chunk of the stage */
    uint8_t type;  /* enum lk_pipe_type */
};

struct lk_pipe_worker {
    int rank, dp_rank, stage;
};

struct lk_pipe_ops {
    char *path;
    struct lk_pipe_op *ops; /* by step, worker, type and seq */
    size_t n;
    struct lk_pipe_worker *workers;             /* by index; n_dp * n_stages */
    size_t n_workers, n_dp, n_stages, n_chunks; /* n_chunks: of a stage */
    int64_t *steps;                             /* their numbers in the file, rising */
    size_t *first;                              /* operation of each step, n_steps + 1 */
    size_t n_steps;
    bool present[LK_PIPE_TYPES];
    size_t n_unknown; /* rows of types that are not listed above; they are left out */
    char *unknown;    /* the first of these types, with its line; NULL: none */
};

/*
 * Read a file, gzipped or not. LK_EPARSE names file, line and column: a missing column, a number
 * that is none or out of range, an operation that is there twice, a rank of two places in the grid,
 * a place in the grid without a rank. *out is freed by lk_pipe_ops_fini.
 */
enum lk_status lk_pipe_ops_read(const char *path, struct lk_pipe_ops *out);
void lk_pipe_ops_fini(struct lk_pipe_ops *o); /* zeroes it; safe on a zeroed one */

#endif
