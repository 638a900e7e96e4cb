/*
 * Cut one rank's trace into optimizer steps, for the analysis and for job.json. All times are on
 * the common clock (rank 0's).
 *
 * A step's window goes from done(s - 1) to done(s) (for the first one in the trace, from its own
 * start), where done is the end of the STEP span or of the step's last span on a stream, whichever
 * is later. Consecutive windows leave no time out, so their mean is the step time.
 *
 * A step is kept when it is complete: it has a STEP span, and one FORWARD and one BACKWARD range
 * for every micro-batch. Steps cut off by a kill or a full ring are left out. In steps that an
 * importer found without marks (LK_PERIOD_CONFIG_KEY) the passes are not known: all work of the GPU
 * is one FORWARD range.
 *
 * Where gradients are applied some steps late (async), a step does not wait for its own
 * collectives, but may for those of the steps before: its window ends without its own, and the
 * parts below count all that are under way in it.
 *
 * Updates on a stream of their own (LK_TRACK_UPDATE) run beside backward and collectives. The
 * optimizer's time is the part of them behind the end of backward and of the last bucket: it comes
 * behind the last bucket on any number of ranks. The rest is hidden_ns, and no part of the step.
 */
#ifndef LK_PROFILER_ANALYSIS_STEPS_H
#define LK_PROFILER_ANALYSIS_STEPS_H

#include "base/status.h"
#include "facts/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_interval {
    uint64_t start_ns, end_ns;
};

/* A list of intervals; merged ones are disjoint, and by time. A zeroed one is empty. */
struct lk_intervals {
    struct lk_interval *at;
    size_t n, capacity;
};
enum lk_status lk_intervals_add(struct lk_intervals *x, uint64_t from, uint64_t to);
void lk_intervals_merge(struct lk_intervals *x);

/* A range of a rank's own work: FORWARD, BACKWARD, OPTIMIZER (on the compute stream) or INPUT. */
struct lk_range {
    uint64_t start_ns, end_ns;
    uint32_t step;
    enum lk_span_kind kind;
    int32_t micro_batch; /* -1: none */
    size_t first_mark;   /* BACKWARD: its marks, in lk_rank_steps.marks */
    size_t n_marks;
    bool beside; /* an update on a stream of its own, after its hidden part */
};

/* A GRADIENT instant. */
struct lk_mark {
    uint64_t at_ns;
    uint32_t step;
    uint32_t ordinal; /* position in the trace: keeps the order of marks at one instant */
    int32_t tensor;
};

/* One rank's part in a collective. */
struct lk_collective {
    uint64_t ready_ns, start_ns, end_ns; /* as recorded; start is when the rank joined it */
    uint64_t due_ns; /* max(ready, end of the previous one in this step), at most start: from here
                        on the rank could have joined it */
    uint64_t arrival_ns;  /* start of its NCCL kernel where that is known, else due */
    uint64_t launched_ns; /* when the host called that kernel; 0: not known */
    bool by_kernel;       /* arrival is the kernel's start */
    uint64_t bytes;
    uint32_t step;
    uint32_t seq;   /* the same on all ranks */
    int32_t bucket; /* -1: of no gradients */
    int32_t unit;   /* bucket or unit of the sharding that it moves, gradients or not; -1: none */
    uint16_t name;  /* of the trace; 0: none */
};

struct lk_step {
    uint32_t step;
    bool recorded;                          /* some kernel of it is known */
    uint64_t begin_ns, end_ns;              /* the window */
    uint64_t hidden_ns;                     /* of updates */
    size_t first_range, n_ranges;           /* by start */
    size_t first_collective, n_collectives; /* by seq */
};

struct lk_rank_steps {
    int rank;
    int staleness; /* steps by which gradients are applied late */
    uint64_t
        uncertainty_ns;    /* of this rank's times on rank 0's clock: the hosts' and the device's */
    struct lk_step *steps; /* by step; warm-up included */
    size_t n_steps;
    struct lk_range *ranges;
    size_t n_ranges;
    struct lk_mark *marks;
    size_t n_marks;
    struct lk_collective *collectives;
    size_t n_collectives;
    bool by_kernels;             /* kernels of a GPU tell when it computes, else the ranges do */
    struct lk_intervals kernels; /* of no communication; empty unless by_kernels */
    struct lk_intervals stalls;  /* compute blocked by a collective */
    struct lk_intervals gaps;    /* within ranges: nothing runs, and no collective blocks it */
};

/* Cut a trace into steps. The arrays of *out belong to it and are freed by lk_rank_steps_fini; the
 * trace is only read and may be freed. A trace without a complete step gives none. LK_EPARSE: it
 * has a step twice; LK_ENOMEM. */
enum lk_status lk_rank_steps_read(const struct lk_trace *t, struct lk_rank_steps *out);
void lk_rank_steps_fini(struct lk_rank_steps *s); /* zeroes it; safe on a zeroed one */
/* Return the index of a step's number in n of them, ascending; n: it is none of them. */
size_t lk_steps_find(const uint32_t *steps, size_t n, uint32_t step);
/* Return the step with this number, or NULL. */
const struct lk_step *lk_rank_step(const struct lk_rank_steps *s, uint32_t step);

/*
 * The window of one step split into parts, s. Every instant has one label, the first that holds:
 * the rank's own compute (forward, backward and optimizer ranges without their stalls); a
 * collective from when it is due to its end, before its arrival launch, before `begin` straggler
 * wait, after it wire; input; gap. The parts sum to the window.
 */
enum lk_part {
    LK_PART_FORWARD,
    LK_PART_BACKWARD,
    LK_PART_OPTIMIZER,
    LK_PART_LAUNCH, /* this and the parts below are no compute's */
    LK_PART_STRAGGLER,
    LK_PART_WIRE,
    LK_PART_INPUT,
    LK_PART_GAP,
    LK_PART_COUNT
};

/*
 * The same instants once more, by what the rank's device does: it computes while a kernel of no
 * communication runs or, without a GPU's kernels, while it works on a range. What is exposed of the
 * collectives is blocking (straggler wait and wire) or in a gap of a pass, where the host had not
 * launched the next kernel.
 */
struct lk_step_split {
    double s[LK_PART_COUNT];
    double gap_s[LK_PART_COUNT]; /* of forward, backward, optimizer: gaps between kernels */
    double compute_s;            /* union of compute */
    double comm_s;               /* union of collectives, from arrival to end */
    double moving_s;             /* part of comm_s after all ranks had arrived */
    double exposed_s;            /* part of comm_s in which the rank does not compute */
};

/*
 * Split a step's window. begin_ns[i]: when all ranks had arrived at the step's collective i
 * (n_collectives of them); NULL: no straggler wait.
 */
void lk_step_split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                   struct lk_step_split *out);
/* Likewise, where the n_before values before begin_ns[0] are of the collectives before. */
void lk_step_split_late(const struct lk_rank_steps *s, const struct lk_step *p,
                        const uint64_t *begin_ns, size_t n_before, struct lk_step_split *out);
/* Add a step's split to a mean, in which the gaps of passes are a part of LK_PART_GAP alone. */
void lk_step_split_add(struct lk_step_split *to, const struct lk_step_split *x, double weight);
double lk_step_window_s(const struct lk_step *p);
/* Set how long each collective of the step kept the rank from computing: the nanoseconds of launch,
 * straggler wait and wire that are its own. blocked_ns has room for n_collectives. */
void lk_step_blocked(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t *blocked_ns);
/*
 * Return how far the rank's own work had come at an instant, as a position of the step model
 * (sim/step/step.h): 0 to 1 in forward, to 2 in backward, to 3 in the optimizer; between two ranges
 * the end of the first. *out_micro_batch is that of the pass, from 0.
 */
double lk_step_position(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t at_ns,
                        int *out_micro_batch);

/* Return the nanoseconds of [a, b) in which the rank computes and a collective is pending. */
uint64_t lk_step_pending_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b);
/* Return the nanoseconds of [a, b), in one range, without stalls; without gaps, too. */
uint64_t lk_range_work_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b);
uint64_t lk_range_busy_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b);
/* Return the nanoseconds of [a, b) of forward, backward and optimizer, without stalls. */
uint64_t lk_step_compute_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b);
/* Return the nanoseconds of [a, b) in which the rank computes: what they cover is not exposed. */
uint64_t lk_step_covered_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b);

/*
 * Fill s->stalls and s->gaps from the ranges and collectives, which are filled, and the compute
 * stream's kernels and copies; merge these and s->kernels. For lk_rank_steps_read alone.
 */
enum lk_status lk_stalls_find(struct lk_rank_steps *s, struct lk_intervals *kernels);

#endif
