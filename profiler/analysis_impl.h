/* Shared by the files of the analysis (profiler/analysis.h). */
#ifndef LK_PROFILER_ANALYSIS_IMPL_H
#define LK_PROFILER_ANALYSIS_IMPL_H

#include "profiler/analysis.h"

/* The cost of one step in the reference. */
struct lk_work {
    double forward_s;  /* one micro-batch, all pieces */
    double backward_s; /* a micro-batch, all pieces */
    double *piece_s;   /* pieces of a backward; n_pieces = GRADIENT instants + 1 */
    size_t n_pieces;
    double optimizer_s, input_s, gap_s; /* a step */
};
void lk_work_fini_(struct lk_work *w);
enum lk_status lk_work_measure_(const struct lk_run *const *refs, size_t n_refs,
                                struct lk_work *out);
/* Model it from the run itself. pre: the splits in a->ranks are filled. */
enum lk_status lk_work_model_(const struct lk_analysis *a, struct lk_work *out);
/* Compute the waterfall of every rank, and its mean. pre: the splits in a->ranks are filled. */
enum lk_status lk_analysis_waterfall_(struct lk_analysis *a, const struct lk_work *w);

enum lk_status lk_analysis_findings_(struct lk_analysis *a);

static inline double lk_ns_to_s_(uint64_t ns)
{
    return (double)ns * 1e-9;
}

#endif
