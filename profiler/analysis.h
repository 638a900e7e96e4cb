/*
 * Where the time of a run went: per collective, per bucket, per rank, and as the waterfall from the
 * ideal step to the measured one. Steady-state steps only (struct lk_run.steps).
 *
 * For collective k on ranks r, on the common clock (DESIGN section 6):
 *     arrival(r,k) = max(ready(r,k), end(r,k-1)), since one stream runs them in order
 *     queue        = arrival - ready
 *     begin(k)     = max over r of arrival
 *     wait(r,k)    = begin(k) - arrival(r,k)
 *     wire(k)      = max over r of end - begin(k)
 * The last to arrive is "late" by what it came after the one before it. A lateness below the sum
 * of both clocks' uncertainties is unresolved: it is counted apart and blames nobody. When some
 * rank's clock was never compared, only durations count: wire(k) = min over r of end - arrival,
 * and wait(r,k) = end - arrival - wire(k).
 *
 * A step's window is split as in profiler/steps.h: own compute first, then pending collectives
 * (straggler wait until begin(k), wire after it), then input, then gap. So "exposed" is what own
 * compute does not cover.
 *
 * The waterfall, means over steps, first per rank, then over ranks (0: the reference's mean; c: the
 * forward and backward ranges, o: optimizer, i: input, g: gap):
 *
 *     ideal      c0 + o0 + i0 + g0
 *     input      i - i0
 *     optimizer  o - o0
 *     straggler  the split's straggler wait
 *     wire       the split's wire (queueing behind an earlier bucket is that bucket's time)
 *     slow_rank  (s(r) - s) W
 *     colocation s W, for more than one rank; else it is in slow_rank
 *     overlap    D_in(r) - (1 + s(r)) W_in(r)
 *     rest       what is left: g - g0
 *
 * The last four rows need the reference's work item by item. A backward is cut at its GRADIENT
 * instants; forward and every piece are items, W the sum of the reference's means of a step's
 * items. D_out and W_out are measured and reference time of the items that had no collective
 * pending, D_in and W_in of those that had one. Then s(r) = D_out / W_out - 1 is rank r's
 * slowdown, s the common one: the lower median over ranks, so that with two ranks a slow one does
 * not make both slow, and a minority of slow ranks shows as slow ranks. The items sum exactly:
 * c - c0 = slow_rank + colocation + overlap. What cannot be told apart: a slowdown of all ranks by
 * something else than co-location, and co-location that slows backward more than forward.
 *
 * Without a reference the ideal is modelled from the run itself, and marked so: items from the rank
 * with the lower median compute, each as it ran with no collective pending, where it ever did (with
 * accumulation and no_sync all micro-batches but the last give that); i0 = 0, o0 and g0 of that
 * rank. Then co-location, and without such micro-batches the overlap, hide in the ideal.
 */
#ifndef LK_PROFILER_ANALYSIS_H
#define LK_PROFILER_ANALYSIS_H

#include "base/forecast.h"
#include "base/status.h"
#include "base/table.h"
#include "profiler/gpu_state.h"
#include "profiler/run_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One rank, means over the steps. */
struct lk_analysis_rank {
    double step_s;
    struct lk_step_split split;
    double losses_s[LK_LOSS_COUNT];
    double slowdown;                 /* s(r) */
    double pending_s;                /* a step, some collective was pending */
    double moving_s;                 /* of this, after all ranks had arrived */
    size_t n_late;                   /* collectives at which this rank was the last, resolved */
    double late_by_s;                /* mean of these */
    struct lk_gpu_summary gpu;       /* during the steps; n 0: it was not sampled */
    double gpu_max_mhz, gpu_limit_w; /* clock and power that its GPU can have; NaN: not known */
};

/* One bucket, means over steps (and ranks). */
struct lk_analysis_bucket {
    int bucket; /* -1: collectives that are no bucket */
    uint64_t bytes;
    size_t n;       /* collectives */
    double ready_s; /* from the start of the last backward */
    double queue_s, wait_s, wire_s;
    double wire_p95_s;
    double exposed_s; /* wait and wire that own compute did not cover */
    int late_rank;    /* most often last; -1: never resolved */
    size_t n_late;    /* how often that rank was */
    double late_by_s; /* of that rank, mean */
    size_t n_unresolved;
};

struct lk_finding {
    char *text;
    double cost_s; /* of a step; NaN: not a matter of time */
};

/* One collective of one step, as all ranks saw it. */
struct lk_meeting {
    size_t step;     /* index in the run's steps */
    size_t transfer; /* index in the step's transfers */
    uint64_t wire_ns;
    uint64_t late_by_ns;
    int late_rank;
    bool resolved;
};

struct lk_analysis {
    const struct lk_run *run; /* borrowed, outlives this */
    char *reference;          /* what ideal refers to, in words */
    bool modelled;
    bool aligned; /* false: some clock was never compared */
    double step_s;
    double losses_s[LK_LOSS_COUNT];
    struct lk_analysis_rank *ranks;     /* run->n */
    struct lk_analysis_bucket *buckets; /* by bucket */
    size_t n_buckets;
    double first_ready; /* share of the last backward after which the first bucket is ready */
    struct lk_finding *findings; /* by cost */
    size_t n_findings, findings_capacity;
    /* All collectives in order; begin_ns[rank * n_meetings + i] on that rank. */
    struct lk_meeting *meetings;
    uint64_t *begin_ns;
    size_t n_meetings;
    size_t *first_meeting; /* of each of the run's steps, n_steps + 1 */
};

/*
 * refs: n_refs runs that together are the reference (repetitions; the run itself may be among
 * them); 0: modelled. They must have the run's local batch: LK_EUSAGE. LK_EEVIDENCE when the run or
 * a reference has no steady step.
 */
enum lk_status lk_analyze(const struct lk_run *run, const struct lk_run *const *refs, size_t n_refs,
                          struct lk_analysis *out);
void lk_analysis_fini(struct lk_analysis *a); /* zeroes it; safe on a zeroed one */

/*
 * The runs of the set that are the natural reference of `run`: smallest world size, same local
 * batch and tensors, and among these the same accumulation where there is one. Fills refs (room
 * for set->n). 0 when there is none, or when it would be the run itself with more than one rank: a
 * run cannot show what its own ranks cost each other.
 */
size_t lk_analysis_reference(const struct lk_run_set *set, const struct lk_run *run,
                             const struct lk_run **refs);

/* Result tables; the caller destroys them. */
enum lk_status lk_analysis_waterfall_table(const struct lk_analysis *a, struct lk_table **out);
enum lk_status lk_analysis_rank_table(const struct lk_analysis *a, struct lk_table **out);
enum lk_status lk_analysis_overlap_table(const struct lk_analysis *a, struct lk_table **out);
enum lk_status lk_analysis_bucket_table(const struct lk_analysis *a, struct lk_table **out);
enum lk_status lk_analysis_straggler_table(const struct lk_analysis *a, struct lk_table **out);
/* Clock, power and throttling of every rank's GPU; *out is NULL when none was sampled. */
enum lk_status lk_analysis_gpu_table(const struct lk_analysis *a, struct lk_table **out);
enum lk_status lk_analysis_finding_table(const struct lk_analysis *a, struct lk_table **out);
/* Every collective of one step by rank: ready, arrival, queue, wait, wire. LK_EUSAGE names the
 * steps there are. */
enum lk_status lk_analysis_step_table(const struct lk_analysis *a, uint32_t step,
                                      struct lk_table **out);

#endif
