/* Means and intervals over the steps of several runs, for a job's rows
 * (profiler/analysis/job_build.h). */
#ifndef LK_PROFILER_ANALYSIS_JOB_STATS_H
#define LK_PROFILER_ANALYSIS_JOB_STATS_H

#include "base/stats.h"
#include "base/status.h"
#include "profiler/analysis/run_set.h"

#include <stddef.h>

/*
 * Compute the mean of a part over all steady steps and ranks, s, with its 90 % interval; forward
 * and backward are of a micro-batch, the other parts of the step. The interval is by a bootstrap
 * that draws runs, and in each drawn run blocks of consecutive steps (of about the square root of
 * its length), because neighbouring steps are correlated. With one run it misses the variation
 * between runs. n: steps.
 */
enum lk_status lk_job_part_mean(const struct lk_run *runs, size_t n_runs, enum lk_part part,
                                struct lk_estimate *out);

/* Compute the mean time of a step's updates that is hidden (profiler/analysis/steps.h), likewise.
 */
enum lk_status lk_job_hidden_mean(const struct lk_run *runs, size_t n_runs,
                                  struct lk_estimate *out);

/*
 * Compute the standard deviation of a micro-batch's forward + backward around the mean of its rank
 * and run, relative to that mean; the interval is by the same bootstrap. A single micro-batch gives
 * 0.
 */
enum lk_status lk_job_transient(const struct lk_run *runs, size_t n_runs, struct lk_estimate *out);

/* Estimate the noise scale from the trainer's counters in repetitions together; NaN without usable
 * counters. */
enum lk_status lk_job_noise(const struct lk_run *runs, size_t n_runs, struct lk_estimate *out);

#endif
