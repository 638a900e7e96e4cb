/*
 * Traces of a run whose truth is known, to test readers of traces: K ranks that follow the step
 * model (facts/forecast.h has the rows), computed bucket by bucket.
 */
#ifndef LK_TESTS_STEP_MODEL_H
#define LK_TESTS_STEP_MODEL_H

#include "base/status.h"
#include "facts/forecast.h"
#include "facts/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STEP_MODEL_RANKS_MAX = 8, STEP_MODEL_TENSORS = 12 };

struct step_model {
    int ranks, local_batch, accumulation;
    bool no_sync;
    uint32_t steps, warmup;
    double forward_s, backward_s; /* of a micro-batch, alone on the machine */
    double optimizer_s, input_s, gap_s;
    int buckets; /* the 12 equal tensors are divided evenly */
    uint64_t bucket_bytes;
    double last_share; /* bytes of the last bucket over those of the others; 0: as many */
    double latency_s, bandwidth_Bps;   /* ring all-reduce */
    double kappa;                      /* co-location */
    double gamma_wait, gamma_wire;     /* overlap */
    double slow[STEP_MODEL_RANKS_MAX]; /* slowdown of each rank by itself */
    double extra_input_s[STEP_MODEL_RANKS_MAX];
    double extra_optimizer_s;
    double launch_s[STEP_MODEL_RANKS_MAX];   /* from when a collective is due to its kernel's start;
                                                any: kernels are recorded */
    double end_late_s[STEP_MODEL_RANKS_MAX]; /* how much later a collective ends on a rank */
    double transient;                        /* relative sd of a micro-batch's compute */
    int64_t clock_offset_ns[STEP_MODEL_RANKS_MAX]; /* common clock = local + offset */
    uint64_t clock_uncertainty_ns;                 /* for ranks above 0 */
    uint64_t seed;
};

/* The true rows of the waterfall, means over ranks and steps after the warm-up. */
struct step_truth {
    double step_s;
    double losses_s[LK_LOSS_COUNT];
    double rank_slow_s[STEP_MODEL_RANKS_MAX]; /* compute beyond the lower median rank's */
    double rank_wait_s[STEP_MODEL_RANKS_MAX]; /* exposed straggler wait */
};

/* Return the tests' usual model (two ranks, 15 ms of compute, 4 MiB in four buckets over 2 GB/s)
 * with the non-zero fields of `change`. */
struct step_model step_model_default(struct step_model change);

/* Make m->ranks traces, to be freed by lk_traces_free. truth may be NULL. */
enum lk_status step_model_run(const struct step_model *m, struct lk_trace **out,
                              struct step_truth *truth);
/* Write n traces into the folder, which is made, as a run does, and free them. `without`: a rank
 * whose trace is left out, or -1. */
void step_model_write(struct lk_trace *traces, int n, const char *folder, int without);

#endif
