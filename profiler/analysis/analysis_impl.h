/*
 * The parts of an analysis, private to profiler/analysis/analysis*.c and findings*.c: the
 * reference's compute, the waterfall made from it, and the findings. profiler/analysis/analysis.h
 * has the terms and the formulas.
 */
#ifndef LK_PROFILER_ANALYSIS_IMPL_H
#define LK_PROFILER_ANALYSIS_IMPL_H

#include "base/units.h"
#include "profiler/analysis/analysis.h"

/*
 * Mean times of the reference run, from which the ideal step is made. A backward is cut at its
 * GRADIENT instants into pieces; the pieces sum to backward_s.
 */
struct lk_work {
    double forward_s;                   /* of a micro-batch */
    double backward_s;                  /* of a micro-batch, all pieces */
    double *piece_s;                    /* of each piece, n_pieces of them; owned */
    size_t n_pieces;                    /* GRADIENT instants of a backward + 1 */
    double optimizer_s, input_s, gap_s; /* of a step */
    double pass_gap_s;                  /* part of gap_s between kernels of passes */
};
/* Free the pieces and zero *w. */
void lk_work_fini_(struct lk_work *w);
/* Measure the means over all ranks and steady steps of the reference runs. pre: n_refs > 0. */
enum lk_status lk_work_measure_(const struct lk_run *const *refs, size_t n_refs,
                                struct lk_work *out);
/* Model the means from the analysed run itself, when there is no reference run. pre: the splits in
 * a->ranks are filled. */
enum lk_status lk_work_model_(const struct lk_analysis *a, struct lk_work *out);
/* Compute slowdown and waterfall of every rank, and the mean waterfall over ranks, into a. pre: the
 * splits in a->ranks are filled. */
enum lk_status lk_analysis_waterfall_(struct lk_analysis *a, const struct lk_work *w);
/* Set the efficiency against n_refs runs (0: none), and what their step takes beyond the ideal.
 * pre: the waterfall is there. */
void lk_analysis_efficiency_(struct lk_analysis *a, const struct lk_run *const *refs,
                             size_t n_refs);

/* Return a rank's compute of a step: forward and backward, as split. */
double lk_compute_s_(const struct lk_analysis *a, size_t rank);

/* Return what of a row the reference has, too: of its own losses as much as the rows of
 * communication hold, in order, and what is left in the rest. */
double lk_reference_own_(const struct lk_analysis *a, enum lk_loss loss);

/* Split the lateness of collectives into own and inherited. pre: arrivals and n_late are filled. */
enum lk_status lk_analysis_lateness_(struct lk_analysis *a);

/* Fill a->findings: causes by cost, each with its consequences under it. pre: all else in a is
 * filled. */
enum lk_status lk_analysis_findings_(struct lk_analysis *a);

/* Return true if several ranks are here, or there is but one: one of several has nothing to be
 * compared with. */
static inline bool lk_compares_ranks_(const struct lk_analysis *a)
{
    return a->run->n > 1 || lk_run_world_size(a->run) == 1;
}

/* Return true if it is known how long ranks here waited for each other: else that is in the wire.
 */
static inline bool lk_knows_waits_(const struct lk_analysis *a)
{
    return lk_compares_ranks_(a) && !lk_run_is_grouped(a->run);
}

/* Return true for a row of the waterfall that is known of these ranks; the rest has the others. */
static inline bool lk_knows_loss_(const struct lk_analysis *a, enum lk_loss loss)
{
    switch (loss) {
    case LK_LOSS_BATCH: /* a run and its reference have the same local batch */
        return false;
    case LK_LOSS_LAUNCH: /* else it is in the wire */
        return a->launches;
    case LK_LOSS_STRAGGLER:
        return lk_knows_waits_(a);
    case LK_LOSS_SLOW_RANK:
        return lk_compares_ranks_(a) && lk_run_has_compute(a->run);
    case LK_LOSS_COLOCATION:
    case LK_LOSS_OVERLAP:
    case LK_LOSS_OPTIMIZER:
        return lk_run_has_compute(a->run);
    default:
        return true;
    }
}

/* Return true for findings that make a run worthless: they come before all that costs time. */
int lk_finding_is_grave_(enum lk_finding_id id);

static inline double lk_ns_to_s_(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Create an empty table whose title names the run. */
enum lk_status lk_analysis_create_(const struct lk_analysis *a, const char *what,
                                   const struct lk_column *columns, size_t n,
                                   struct lk_table **out);
/* Make LK_ANALYSIS_WATERFALL or LK_ANALYSIS_FINDINGS of one run
 * (profiler/analysis/analysis_pool.h). */
enum lk_status lk_pool_of_one_(const struct lk_analysis *a, enum lk_analysis_kind kind,
                               struct lk_table **out);
/* Make LK_ANALYSIS_HOSTS; *out NULL: there is but one. */
enum lk_status lk_analysis_hosts_(const struct lk_analysis *a, struct lk_table **out);
/* Make LK_ANALYSIS_HOPS; *out NULL: none was recorded. */
enum lk_status lk_analysis_hops_(const struct lk_analysis *a, struct lk_table **out);
/* Make LK_ANALYSIS_KERNELS; *out NULL: there are none. */
enum lk_status lk_analysis_kernels_(const struct lk_analysis *a, struct lk_table **out);

/* Return a rank's part in a collective. */
static inline const struct lk_collective *
lk_collective_of_(const struct lk_analysis *a, size_t rank, const struct lk_analysis_collective *m)
{
    const struct lk_rank_steps *r = &a->run->ranks[rank];

    return &r->collectives[lk_rank_step(r, a->run->steps[m->step])->first_collective + m->index];
}

/* Return the index of a step in the run's steps, n_steps if it is none of them. */
static inline size_t lk_step_index_(const struct lk_run *run, uint32_t step)
{
    return lk_steps_find(run->steps, run->n_steps, step);
}

/* ---- The detectors of findings: each adds what it finds ---- */

/* Thresholds that several detectors share, as shares of the step. */
#define LK_FINDING_LOSS_SHARE    0.03 /* a row of the waterfall */
#define LK_FINDING_EXPOSED_SHARE 0.05 /* exposed communication */
#define LK_FINDING_HOST_SHARE    0.01 /* what the job's own lines cause */
#define LK_FINDING_CHANCE        0.01 /* what equal ranks do with this probability accuses none */
/* With fewer samples a mean is meaningless. */
enum { LK_FINDING_FEW = 3 };

/* Add a finding about the rank at an index, or about all (-1). */
enum lk_status lk_finding_add_(struct lk_analysis *a, enum lk_finding_id id, int rank,
                               double cost_s, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Replace what to do about the finding added last. */
void lk_finding_next_(struct lk_analysis *a, const char *next);

/*
 * Return the exposed wire of a step that is communication's own. Where one rank is slow or late,
 * the others end their compute before it does, and then wait through collectives that its compute
 * covers: its own exposed wire alone stays when it is mended. pre: the detectors of ranks have run.
 */
double lk_exposed_wire_(const struct lk_analysis *a);
/* Return the same of the time in which bytes moved. */
double lk_moving_(const struct lk_analysis *a);

struct lk_time_text {
    char buf[32];
};
struct lk_time_text lk_time_text_(double s);

/* "rank 2", with its host where the run has several: "rank 2 (node2)". */
struct lk_rank_text {
    char buf[96];
};
struct lk_rank_text lk_rank_text_(const struct lk_analysis *a, size_t rank);
/* Return a time of the step in percent of it. */
double lk_percent_of_step_(const struct lk_analysis *a, double s);

/* ---- findings_data.c: what makes a run worthless ---- */

enum lk_status lk_find_duplicate_shards_(struct lk_analysis *a);
enum lk_status lk_find_shared_gpu_(struct lk_analysis *a);

/* ---- findings_stragglers.c: who waits for whom ---- */

enum lk_status lk_find_late_rank_(struct lk_analysis *a);
enum lk_status lk_find_stragglers_(struct lk_analysis *a);
enum lk_status lk_find_uneven_ends_(struct lk_analysis *a);
enum lk_status lk_find_late_node_(struct lk_analysis *a);
enum lk_status lk_find_uneven_batches_(struct lk_analysis *a);

/* ---- findings_ranks.c: GPUs, what one rank does more than the others, clocks ---- */

enum lk_status lk_find_throttled_(struct lk_analysis *a);
enum lk_status lk_find_gpu_clock_(struct lk_analysis *a);
enum lk_status lk_find_slow_rank_(struct lk_analysis *a);
enum lk_status lk_find_rank_input_(struct lk_analysis *a);
enum lk_status lk_find_rank_launch_(struct lk_analysis *a);
enum lk_status lk_find_clocks_(struct lk_analysis *a);
enum lk_status lk_find_missing_ranks_(struct lk_analysis *a);

/* ---- findings_links.c: which links are slow ---- */

enum lk_status lk_find_slow_links_(struct lk_analysis *a);
/* Return what is known of the link that makes collectives end unevenly. pre: the finder above has
 * run. */
const char *lk_links_known_(const struct lk_analysis *a);

/* ---- findings_buckets.c: what is reduced ---- */

enum lk_status lk_find_accumulation_(struct lk_analysis *a);
enum lk_status lk_find_unused_parameters_(struct lk_analysis *a);
enum lk_status lk_find_first_bucket_(struct lk_analysis *a);
enum lk_status lk_find_small_buckets_(struct lk_analysis *a);

/* ---- findings_comm.c: wire, overlap, launches ---- */

enum lk_status lk_find_wire_(struct lk_analysis *a);
enum lk_status lk_find_poor_overlap_(struct lk_analysis *a);
enum lk_status lk_find_late_launches_(struct lk_analysis *a);
enum lk_status lk_find_training_(struct lk_analysis *a);

/* ---- findings_copies.c: what goes from the GPU to the host ---- */

enum lk_status lk_find_checkpoints_(struct lk_analysis *a);
enum lk_status lk_find_logging_(struct lk_analysis *a);

/* ---- findings_host.c: what the job and its host do ---- */

/* A call that waits for the GPU while the step has more work to launch. */
struct lk_wait {
    const struct lk_span *sync;
    uint64_t idle_ns; /* from its end to the next kernel, which the host launched after it */
};
struct lk_wait_walk {
    size_t span, kernel; /* cursors, from 0 */
};
/* Set *out to the next such call of the run's steps in a trace; false: there is none left. */
bool lk_next_wait_(const struct lk_run *run, const struct lk_trace *t, struct lk_wait_walk *w,
                   struct lk_wait *out);

enum lk_status lk_find_host_busy_(struct lk_analysis *a);
enum lk_status lk_find_synchronisation_(struct lk_analysis *a);
enum lk_status lk_find_launch_bound_(struct lk_analysis *a);

/* ---- findings_record.c: what the recording tells of itself ---- */

enum lk_status lk_find_truncated_(struct lk_analysis *a);
enum lk_status lk_find_lost_spans_(struct lk_analysis *a);
enum lk_status lk_find_gpu_records_(struct lk_analysis *a);
enum lk_status lk_find_recording_cost_(struct lk_analysis *a);
/* Return what recording adds to a step: steps with records against those of the same run without;
 * NaN: not known. */
double lk_recording_cost_s_(const struct lk_run *run);

#endif
