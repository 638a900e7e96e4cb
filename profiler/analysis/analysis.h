/*
 * Attribute the time of a run per collective, per bucket and per rank, and as the waterfall from
 * the ideal step to the measured one. Steady-state steps only (struct lk_run.steps).
 *
 * For collective k on ranks r, on the common clock (docs/model.md):
 *     due(r,k)     = max(ready(r,k), end(r,k-1)), since one stream runs them in order
 *     queue        = due - ready
 *     arrival(r,k) = the start of its NCCL kernel, where a GPU's records tell it; else due
 *     launch(r,k)  = arrival - due
 *     begin(k)     = max over r of arrival
 *     wait(r,k)    = begin(k) - arrival(r,k)
 *     wire(k)      = max over r of end - begin(k)
 * The last rank to arrive is "late" by the time since the previous arrival. A lateness below the
 * sum of both clocks' uncertainties is unresolved: it is counted apart and attributed to no rank.
 * Of the others a part is the rank's own, the rest inherited (profiler/analysis/analysis_late.c).
 * When some rank's clock was never compared, only durations count: wire(k) = min over r of end -
 * arrival, and wait(r,k) = end - arrival - wire(k).
 *
 * A step's window is split as in profiler/analysis/steps.h: own compute first, then collectives
 * that are due (launch until arrival, straggler wait until begin(k), wire after it), then input,
 * then gap. So "exposed" is the time that own compute does not cover.
 *
 * The waterfall holds means over steps, first per rank, then over ranks (0: the reference's mean;
 * c: the forward and backward ranges, o: optimizer, i: input, g: gap):
 *
 *     ideal      c0 + o0 + i0 + g0
 *     input      i - i0
 *     optimizer  o - o0
 *     launch     the split's launch
 *     straggler  the split's straggler wait
 *     wire       the split's wire (queueing behind an earlier bucket is that bucket's time)
 *     slow_rank  (s(r) - s) W
 *     colocation s W, for more than one rank; else it is in slow_rank
 *     overlap    D_in(r) - (1 + s(r)) W_in(r)
 *     rest       the remainder: g - g0
 *
 * One rank alone exchanges nothing: what its collectives take is in its rest. The reference's own
 * step is not ideal either. Beyond the ideal it has losses of its own (reference_own_s), which
 * tables of pools show as a row and take from those of the run: the ideal and that row are the step
 * of linear scaling, whose share of the step is the efficiency.
 *
 * The last four rows need the reference's work item by item. A backward is cut at its GRADIENT
 * instants; forward and every piece are items, W the sum of the reference's means of a step's
 * items. D_out and W_out are measured and reference time of the items that had no collective
 * pending, D_in and W_in of those that had one. Then s(r) = D_out / W_out - 1 is rank r's slowdown
 * and s the common one: the lower median over ranks, so that with two ranks a slow one does not
 * make both slow, and a minority of slow ranks shows as slow ranks. The items sum exactly: c - c0 =
 * slow_rank + colocation + overlap. Two things cannot be separated: a slowdown of all ranks by
 * something else than co-location, and co-location that slows backward more than forward.
 *
 * Without a reference the ideal is modelled from the run itself, and marked so: items come from the
 * rank with the lower median compute, each from executions with no collective pending if there are
 * any (with accumulation and no_sync all micro-batches but the last give such); i0 = 0, o0 and g0
 * are that rank's. Co-location, and without such micro-batches the overlap, are then hidden in the
 * ideal.
 */
#ifndef LK_PROFILER_ANALYSIS_H
#define LK_PROFILER_ANALYSIS_H

#include "base/status.h"
#include "base/table.h"
#include "facts/coll.h"
#include "facts/forecast.h"
#include "profiler/analysis/findings.h"
#include "profiler/analysis/run_set.h"
#include "profiler/record/gpu_state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Launches of NCCL's kernels, where they are known: sums. */
struct lk_analysis_launch {
    size_t n;
    double delay_s;  /* from when a collective was due to its kernel's start */
    double called_s; /* of it, until the host called NCCL's launch */
};

/* One rank, means over the steps. */
struct lk_analysis_rank {
    double step_s;
    struct lk_step_split split; /* gaps of passes are among the other gaps */
    double losses_s[LK_LOSS_COUNT];
    double slowdown; /* s(r) */
    struct lk_analysis_launch launch;
    size_t n_late;                   /* resolved collectives at which this rank was last */
    double late_by_s;                /* mean over these */
    double own_late_s;               /* of it its own: profiler/analysis/analysis_late.c */
    struct lk_gpu_summary gpu;       /* during the steps; n 0: not sampled */
    double gpu_max_mhz, gpu_limit_w; /* highest clock, power limit of its GPU; NaN: not known */
};

/* One bucket, means over steps (and ranks). */
struct lk_analysis_bucket {
    int bucket;           /* -1: collectives of no gradients, of a function and of about a size */
    const char *function; /* of those, as NCCL names it, else NULL; of the run's */
    enum lk_coll coll;    /* LK_COLL_COUNT: none that is known */
    int ranks;            /* that it joins */
    uint64_t bytes;       /* the mean; 0: not known */
    size_t n;             /* collectives */
    double ready_s;       /* from the start of the last backward */
    double queue_s, wait_s, wire_s;
    double launch_s; /* NaN: not known */
    double wire_p95_s;
    double exposed_s; /* of arrival to end, the rank does not compute */
    double queued;    /* share of them that the one before kept waiting */
    double alone_s;   /* the same one outside of the job (lk_analysis_set_alone); NaN: not known */
    int late_rank;    /* rank most often last; -1: never resolved */
    size_t n_late;    /* how often late_rank was last */
    double late_by_s; /* mean lateness of late_rank */
    size_t n_unresolved;
};

/* One collective of one step, seen across all ranks. */
struct lk_analysis_collective {
    size_t step;  /* index in the run's steps */
    size_t index; /* in the step, on every rank */
    uint64_t wire_ns;
    uint64_t late_by_ns;
    uint64_t own_ns; /* of late_by_ns, what is the late rank's own; the rest is inherited */
    int late_rank;
    bool resolved;
};

/* Lateness of all resolved collectives, and where collectives end late. */
struct lk_analysis_lateness {
    double lag_s, own_s;        /* sums; own_s is part of lag_s */
    size_t first_end, last_end; /* ranks on which they end first and last, on average */
    double ends_apart_s;        /* between these; NaN: the clocks do not tell */
};

struct lk_analysis {
    const struct lk_run *run; /* borrowed, outlives this */
    char *reference;          /* description of the reference run */
    int reference_ranks;      /* its ranks; 0: the ideal is modelled */
    double efficiency;        /* lk_scaling_efficiency against it; where the ideal is modelled, the
                                 ideal's share of the step; NaN: exposure is not known */
    double reference_own_s;   /* what the reference's step for as many samples a rank takes beyond
                                 the ideal: its own communication and waits. 0: it is modelled */
    bool modelled;
    bool aligned; /* false: some clock was never compared */
    /* False for traces without compute, as an MPI job's: how much of the collectives it
     * covers is not known, and all parts of a step, exposed times and losses are NaN. */
    bool exposure_known;
    bool launches; /* the kernel of some collective is known; else launches are in the wire */
    double step_s;
    double losses_s[LK_LOSS_COUNT];
    double pass_gap_s; /* part of the rest between kernels of passes: job files have it in these */
    /* The ideal of a run of one rank has that rank's own waits: mending them wins time, though they
     * lose no scaling. Of more ranks: 0. */
    double own_input_s, own_gap_s;
    struct lk_analysis_rank *ranks;     /* run->n */
    struct lk_analysis_bucket *buckets; /* by bucket */
    size_t n_buckets;
    const char *alone_on; /* the cluster of alone_s; NULL: none */
    struct lk_analysis_lateness late;
    double first_ready; /* share of the last backward after which the first bucket is ready */
    struct lk_finding *findings; /* causes by cost, consequences behind their causes */
    size_t n_findings, findings_capacity;
    /* All collectives in order; begin_ns[rank * n_collectives + i] on that rank. */
    struct lk_analysis_collective *collectives;
    uint64_t *begin_ns;
    size_t n_collectives;
    size_t *first_collective; /* for each of the run's steps, n_steps + 1 */
};

/*
 * Analyse a run. refs: n_refs runs that together are the reference (repetitions; the run itself may
 * be among them); 0: modelled. They must have the run's local batch: LK_EUSAGE. LK_EEVIDENCE when
 * the run or a reference has no steady step.
 */
enum lk_status lk_analyze(const struct lk_run *run, const struct lk_run *const *refs, size_t n_refs,
                          struct lk_analysis *out);
/* Set what the run's collectives take outside of the job on a cluster, alone_s[i] of bucket i (NaN:
 * not known): alone, and behind another as often as the job's queue; and add the finding of how
 * much slower they are in training. The name is borrowed. */
enum lk_status lk_analysis_set_alone(struct lk_analysis *a, const char *cluster,
                                     const double *alone_s);
void lk_analysis_fini(struct lk_analysis *a); /* zeroes it; safe on a zeroed one */

/*
 * Find the natural reference of `run` in the set: runs of the smallest world size, same local batch
 * and tensors, and if possible the same accumulation. Fills refs (room for set->n) and returns
 * their number. 0 when there is none, or when it would be the run itself with more than one rank: a
 * run cannot show how its own ranks slow each other.
 */
size_t lk_analysis_reference(const struct lk_run_set *set, const struct lk_run *run,
                             const struct lk_run **refs);

/* Result tables, in the order in which a user reads them. */
enum lk_analysis_kind {
    LK_ANALYSIS_WATERFALL,
    LK_ANALYSIS_FINDINGS,
    LK_ANALYSIS_RANKS,
    LK_ANALYSIS_OVERLAP,
    LK_ANALYSIS_BUCKETS,
    LK_ANALYSIS_STRAGGLERS,
    LK_ANALYSIS_GPUS,    /* clock, power and throttling of every rank's GPU */
    LK_ANALYSIS_KERNELS, /* all ranks' kernels and copies, by name */
    LK_ANALYSIS_HOSTS,   /* what each host's ranks do */
    LK_ANALYSIS_HOPS,    /* what each hop between hosts carried, and its rate */
    LK_ANALYSIS_TABLES
};
/* The caller destroys *out; NULL: LK_ANALYSIS_GPUS where no GPU was sampled, LK_ANALYSIS_KERNELS
 * where no kernel was recorded, LK_ANALYSIS_HOSTS of a run on one host, LK_ANALYSIS_HOPS
 * where none was recorded. */
enum lk_status lk_analysis_table(const struct lk_analysis *a, enum lk_analysis_kind kind,
                                 struct lk_table **out);
/* Make a table of every collective of one step by rank: ready, arrival, queue, wait, wire.
 * LK_EUSAGE names the steps there are. */
enum lk_status lk_analysis_step_table(const struct lk_analysis *a, uint32_t step,
                                      struct lk_table **out);

#endif
