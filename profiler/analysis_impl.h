/* Shared by the files of the analysis (profiler/analysis.h). */
#ifndef LK_PROFILER_ANALYSIS_IMPL_H
#define LK_PROFILER_ANALYSIS_IMPL_H

#include "profiler/analysis.h"

/* Finds who met when: a->aligned, meetings, begin_ns, first_meeting. */
enum lk_status lk_analysis_meet_(struct lk_analysis *a);
/* a->buckets, first_ready, and who was late how often (a->ranks). pre: meetings are there. */
enum lk_status lk_analysis_buckets_(struct lk_analysis *a);

/* What the reference says that a step costs. */
struct lk_work {
    double forward_s;  /* a micro-batch */
    double backward_s; /* a micro-batch, all pieces */
    double *piece_s;   /* of a backward; n_pieces = GRADIENT instants + 1 */
    size_t n_pieces;
    double optimizer_s, input_s, gap_s; /* a step */
};
void lk_work_fini_(struct lk_work *w);
enum lk_status lk_work_measure_(const struct lk_run *const *refs, size_t n_refs,
                                struct lk_work *out);
/* From the run itself; pre: the splits in a->ranks are there. */
enum lk_status lk_work_model_(const struct lk_analysis *a, struct lk_work *out);
/* The waterfall of every rank, and its mean. pre: the splits in a->ranks are there. */
enum lk_status lk_analysis_waterfall_(struct lk_analysis *a, const struct lk_work *w);

/* The ranks' GPUs, from the counters of their traces. */
enum lk_status lk_analysis_gpu_(struct lk_analysis *a);
/*
 * Whether rank k's GPU is slower than the others' by so much that it explains a slow rank; out
 * (LK_GPU_TEXT bytes): "its GPU runs at 1410 MHz, 20 % below the others' 1755 MHz, throttled 45 %
 * of the time (power 45 %)".
 */
bool lk_analysis_gpu_slow_(const struct lk_analysis *a, size_t k, char *out);

/* An empty table whose title names the run. */
enum lk_status lk_analysis_table_(const struct lk_analysis *a, const char *what,
                                  const struct lk_column *columns, size_t n, struct lk_table **out);

enum lk_status lk_analysis_findings_(struct lk_analysis *a);

static inline double lk_ns_to_s_(uint64_t ns)
{
    return (double)ns * 1e-9;
}

#endif
