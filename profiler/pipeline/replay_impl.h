/* The dependencies of one step, private to profiler/pipeline/replay*.c. */
#ifndef LK_PROFILER_PIPELINE_REPLAY_IMPL_H
#define LK_PROFILER_PIPELINE_REPLAY_IMPL_H

#include "profiler/pipeline/ops.h"

#include <stdbool.h>

/* An operation waits for the end of another. */
struct pipe_edge {
    uint32_t op, on;
};

/* A step; operations are numbered from its first. The arrays serve one step after the other. */
struct pipe_step {
    const struct lk_pipe_ops *all;
    const struct lk_pipe_op *ops;
    size_t number; /* index of all->steps */
    size_t n;
    uint32_t *at;     /* first operation of each worker and type; n_workers * LK_PIPE_TYPES + 1 */
    uint32_t *leader; /* of each operation: the member that stands for its group */
    bool *alone;      /* of each send and receive: nobody is at the other end */
    uint32_t *order;  /* scratch of n */
    struct pipe_edge *edges;
    size_t n_edges, edges_capacity;
};

/* List the edges and groups of a step. LK_EEVIDENCE says why its operations do not fit together. */
enum lk_status pipe_step_connect(struct pipe_step *s);

#endif
