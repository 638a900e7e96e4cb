/*
 * How much stragglers slow a pipeline-parallel job, and which: the what-if analysis of
 * "Understanding Stragglers in Large Model Training Using What-if Analysis" (Lin et al., OSDI
 * 2025), by replay of the recorded steps (profiler/pipeline/replay.h).
 *
 *     measured  a step as recorded, from its first start to its last end
 *     launched  replayed with the recorded times, so without delays of launches
 *     ideal     replayed with the typical time of each type for all operations: the mean over
 *               workers and steps of computes, the median of communication, in which few are long
 *     slowdown  mean launched / mean ideal (the paper's equation 1)
 *
 * A cause is a stage, a data-parallel rank, a worker or a type of operations:
 *
 *     slowdown  mean step with the recorded times of this cause alone, others typical / mean ideal
 *               (equations 2 to 4)
 *     share     of the lost time, launched - ideal, what is won when this cause alone is typical
 *               (equation 5). Shares need not sum to 1: slow operations hide behind one another.
 *     worst     share of steps in which it is the worst of its kind, and slows that step by 1 %
 */
#ifndef LK_PROFILER_PIPELINE_STRAGGLERS_H
#define LK_PROFILER_PIPELINE_STRAGGLERS_H

#include "profiler/pipeline/replay.h"

#include "base/status.h"
#include "base/table.h"

#include <stddef.h>
#include <stdint.h>

/* X(value, name) */
#define LK_PIPE_KIND_LIST(X)                                                                       \
    X(LK_PIPE_BY_STAGE, "stage")                                                                   \
    X(LK_PIPE_BY_DP, "dp rank")                                                                    \
    X(LK_PIPE_BY_WORKER, "rank")                                                                   \
    X(LK_PIPE_BY_TYPE, "operation")

#define LK_PIPE_KIND_VALUE_(value, name) value,
enum lk_pipe_kind { LK_PIPE_KIND_LIST(LK_PIPE_KIND_VALUE_) LK_PIPE_KINDS };
#undef LK_PIPE_KIND_VALUE_

/* So many causes of a kind are replayed: those whose operations take the most time above the
 * typical. */
enum { LK_PIPE_CAUSES_MAX = 64 };

struct lk_pipe_cause {
    enum lk_pipe_kind kind;
    int number;      /* of the stage, dp rank or rank; the type */
    double slowdown; /* in the mean */
    double most;     /* of any step */
    double share;    /* NaN: nothing is lost */
    size_t n_worst;  /* steps */
};

struct lk_pipe_step_times {
    int64_t step; /* its number in the file */
    double measured_s, launched_s, ideal_s;
    int worst[LK_PIPE_KINDS]; /* index of the cause that is the worst of its kind; -1: none */
    double worst_slowdown[LK_PIPE_KINDS];
};

struct lk_pipe_stragglers {
    const struct lk_replay *replay;         /* borrowed, outlives this */
    double measured_s, launched_s, ideal_s; /* means */
    struct lk_pipe_step_times *steps;       /* those of the replay that were asked for */
    size_t n_steps;
    struct lk_pipe_cause *causes; /* by kind, the slowest first */
    size_t n_causes;
    size_t n_others[LK_PIPE_KINDS]; /* causes that were not replayed */
};

/* Analyse all steps, or one (only: its number; -1: all). LK_EUSAGE: there is no such step. */
enum lk_status lk_pipe_stragglers(const struct lk_replay *r, int64_t only,
                                  struct lk_pipe_stragglers *out);
void lk_pipe_stragglers_fini(struct lk_pipe_stragglers *s); /* zeroes it; safe on a zeroed one */

/* The tables: the step and what is lost of it, the causes that slow it by half a percent or more,
 * all causes, the steps one by one. */
enum lk_pipe_table {
    LK_PIPE_TABLE_STEP,
    LK_PIPE_TABLE_SLOW,
    LK_PIPE_TABLE_CAUSES,
    LK_PIPE_TABLE_STEPS,
    LK_PIPE_TABLES
};
enum lk_status lk_pipe_stragglers_table(const struct lk_pipe_stragglers *s,
                                        enum lk_pipe_table which, struct lk_table **out);

#endif
