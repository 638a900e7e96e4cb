/*
 * The optimizer steps of one rank, cut out of its trace: the common ground of the analysis and of
 * job.json. All times are on the common clock (rank 0's).
 *
 * A step's window goes from done(s - 1) to done(s) (for the first one in the trace, from its own
 * start), where done is the end of the STEP span or of the step's last span on a stream, whichever
 * is later. Windows of consecutive steps leave nothing out, so that their mean is the step time.
 *
 * A step is kept when it is complete: it has a STEP span, and one FORWARD and one BACKWARD range
 * for every micro-batch. Steps that a kill or a full ring cut off are left out.
 */
#ifndef LK_PROFILER_STEPS_H
#define LK_PROFILER_STEPS_H

#include "base/status.h"
#include "base/trace.h"
#include "profiler/stand.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a rank's own work: FORWARD, BACKWARD, OPTIMIZER (on the compute stream) or INPUT. */
struct lk_range {
    uint64_t start_ns, end_ns;
    uint32_t step;
    enum lk_span_kind kind;
    int32_t micro_batch; /* -1: none */
    size_t first_mark;   /* BACKWARD: its marks, in lk_rank_steps.marks */
    size_t n_marks;
    uint64_t idle_ns; /* its stream ran no kernel and waited for no collective; 0 without kernels */
};

/* A GRADIENT instant. */
struct lk_mark {
    uint64_t at_ns;
    uint32_t step;
    uint32_t ordinal; /* in the trace: marks of one instant keep their order */
    int32_t tensor;
};

/* A collective of one rank. */
struct lk_transfer {
    uint64_t ready_ns, start_ns, end_ns; /* as recorded; start is when the rank joined it */
    uint64_t arrival_ns; /* max(ready, end of the one before in this step), at most start */
    uint64_t bytes;
    uint32_t step;
    uint32_t seq; /* the same on all ranks */
    int32_t bucket;
};

struct lk_step {
    uint32_t step;
    uint64_t begin_ns, end_ns;          /* the window */
    size_t first_range, n_ranges;       /* by start */
    size_t first_transfer, n_transfers; /* by seq */
};

struct lk_rank_steps {
    int rank;
    uint64_t uncertainty_ns; /* of this rank's clock against rank 0's */
    struct lk_step *steps;   /* by step; warm-up included */
    size_t n_steps;
    struct lk_range *ranges;
    size_t n_ranges;
    struct lk_mark *marks;
    size_t n_marks;
    struct lk_transfer *transfers;
    size_t n_transfers;
    struct lk_interval *stands; /* by time, apart: compute stood (profiler/stand.h) */
    size_t n_stands;
};

enum lk_status lk_rank_steps_read(const struct lk_trace *t, struct lk_rank_steps *out);
void lk_rank_steps_fini(struct lk_rank_steps *s); /* zeroes it; safe on a zeroed one */
/* The step with this number, or NULL. */
const struct lk_step *lk_rank_step(const struct lk_rank_steps *s, uint32_t step);
/* This transfer's place in the step's list by its seq, or NULL. */
const struct lk_transfer *lk_step_transfer(const struct lk_rank_steps *s, const struct lk_step *p,
                                           uint32_t seq);

/*
 * Where the window of one step went, s. Every instant belongs to exactly one part, the first that
 * applies: the rank's own compute (forward, backward, optimizer ranges, but for what it stood
 * inside them for a collective that blocks); a collective that is pending (from its arrival to its
 * end), before `begin` straggler wait, after it wire; input; gap. The parts sum to the window.
 */
struct lk_step_split {
    double forward_s, backward_s, optimizer_s;
    double straggler_s, wire_s; /* exposed: not covered by own compute */
    double input_s;             /* exposed as well */
    double gap_s;
};

/*
 * begin_ns[i]: when all ranks had arrived at the step's transfer i (n_transfers of them); NULL: no
 * rank is waited for.
 */
void lk_step_split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                   struct lk_step_split *out);
double lk_step_window_s(const struct lk_step *p);

/* Nanoseconds of [a, b) in which one of the step's transfers is pending while the rank works. */
uint64_t lk_step_pending_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b);
/* Nanoseconds of [a, b), in one range, that the rank worked: without what it stood. */
uint64_t lk_range_work_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b);
/* Nanoseconds of [a, b) that the rank's own compute (forward, backward, optimizer) covers. */
uint64_t lk_step_compute_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b);

#endif
