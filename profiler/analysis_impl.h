/*
 * The parts of an analysis, private to profiler/analysis*.c: the reference's compute, the waterfall
 * made from it, and the findings. profiler/analysis.h has the terms and the formulas.
 */
#ifndef LK_PROFILER_ANALYSIS_IMPL_H
#define LK_PROFILER_ANALYSIS_IMPL_H

#include "profiler/analysis.h"

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

/* Fill a->findings, the most costly first. pre: all else in a is filled. */
enum lk_status lk_analysis_findings_(struct lk_analysis *a);

/* Add a finding; cost_s: time of a step, NaN: not a matter of time. */
enum lk_status lk_analysis_say_(struct lk_analysis *a, double cost_s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Add the findings about what the job does (analysis_host.c). */
enum lk_status lk_analysis_host_(struct lk_analysis *a);

static inline double lk_ns_to_s_(uint64_t ns)
{
    return (double)ns * 1e-9;
}

#endif
