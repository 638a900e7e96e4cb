/*
 * Replay the steps of a pipeline with other durations: a graph says what each operation waits for.
 *
 * An operation starts when those that it depends on have ended, without any delay of its launch:
 *
 *  - computes of a worker, its sends and receives by type, and its all-gathers of parameters with
 *    its reduce-scatters of gradients run one behind the other, as recorded;
 *  - a send depends on its compute, a compute on its receive, and a receive on the compute of its
 *    direction before that;
 *  - the first forward of a chunk depends on the last all-gather of the chunk's parameters;
 *  - the types from "gc" on come in their order, behind the last compute. Where gradients have a
 *    separate all-reduce, reduce-scatters overlap: the first of a chunk depends on its last
 *    backward, and the last comes before those behind "gc".
 *
 * Operations of a scope (profiler/pipeline/ops.h) begin to transfer when all members have started;
 * each member then ends after its own time. So the time of a collective is from the last member's
 * start to this one's end, and the waiting before is none of it. Where it is negative, by clocks
 * that differ, it is kept to -10 ms, since it ends what another member's time is too long; else 0.
 *
 * A step whose operations do not fit together (a worker, a member or a partner is missing, or the
 * dependencies are a cycle) is left out and counted.
 */
#ifndef LK_PROFILER_PIPELINE_REPLAY_H
#define LK_PROFILER_PIPELINE_REPLAY_H

#include "profiler/pipeline/ops.h"

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct lk_replay {
    const struct lk_pipe_ops *ops; /* borrowed, outlives this */
    double *actual_s;              /* of each operation; 0 in steps that are left out */
    size_t n_negative;             /* transfers that became 0 */
    /* The steps that are replayed, as indices of ops->steps, and where their groups begin. */
    size_t *steps, *first_group; /* n_steps; n_steps + 1 */
    size_t n_steps;
    size_t n_left_out;
    char *left_out; /* why the first of them was; NULL: none */
    /* Groups in an order in which they can run: members, and what any of them depends on. */
    uint32_t *members, *depends; /* operations */
    size_t *first_member;        /* n_groups + 1 */
    size_t *first_depends;       /* n_groups + 1 */
    size_t n_groups, n_members, n_depends;
    size_t members_capacity, depends_capacity, first_member_capacity, first_depends_capacity;
};

/* Build the graph. LK_EEVIDENCE: no step fits together, and why. */
enum lk_status lk_replay_build(const struct lk_pipe_ops *ops, struct lk_replay *out);
/*
 * Replay with the duration of each operation; *step_s: the end of each step's last one. end_s is
 * scratch of ops->n.
 */
void lk_replay_run(const struct lk_replay *r, const double *duration_s, double *end_s,
                   double *step_s);
void lk_replay_fini(struct lk_replay *r); /* zeroes it; safe on a zeroed one */

#endif
