/* Means and intervals over the steps of several runs, for job.json. */
#ifndef LK_PROFILER_JOB_STATS_H
#define LK_PROFILER_JOB_STATS_H

#include "base/stats.h"
#include "base/status.h"
#include "profiler/run_set.h"

#include <stddef.h>

/* X(series, what a step's sample is) */
#define LK_JOB_SERIES_LIST(X)                                                                      \
    X(LK_JOB_FORWARD, "forward of a micro-batch")                                                  \
    X(LK_JOB_BACKWARD, "backward of a micro-batch")                                                \
    X(LK_JOB_INPUT, "exposed input of the step")                                                   \
    X(LK_JOB_OPTIMIZER, "optimizer of the step")                                                   \
    X(LK_JOB_GAP, "the step outside of compute, communication and input")

enum lk_job_series {
#define LK_JOB_SERIES_ENUM_(series, text) series,
    LK_JOB_SERIES_LIST(LK_JOB_SERIES_ENUM_)
#undef LK_JOB_SERIES_ENUM_
};

/*
 * The mean over all steady steps and ranks, s, with its 90 % interval: a bootstrap that draws runs,
 * and in each drawn run blocks of consecutive steps (of about the root of its length), because
 * neighbours are alike. With one run it cannot see what differs from run to run. n: steps.
 */
enum lk_status lk_job_series_mean(const struct lk_run *runs, size_t n_runs,
                                  enum lk_job_series series, struct lk_estimate *out);

/*
 * Standard deviation of a micro-batch's forward + backward around the mean of its rank and run,
 * relative to that mean; the interval is the same bootstrap. One micro-batch in all gives 0.
 */
enum lk_status lk_job_transient(const struct lk_run *runs, size_t n_runs, struct lk_estimate *out);

#endif
