/*
 * The collectives of a job that reduce no gradients, from measured runs (facts/job.h).
 *
 * They come from the runs with the fewest ranks, of those with several. Collectives of one function
 * and group are told apart by their number in the micro-batch. Each has the mean, over steps and
 * ranks, of its bytes, of the position where it was ready, and of the position where compute waited
 * for its end: that of its end where it was exposed, else the end of backward, or of the step. Its
 * bytes and its exposed time sum to those of the traces. With one micro-batch a step, what is ready
 * before the end of backward is taken to come with every micro-batch.
 *
 * Those of SyncBatchNorm's layers, which a run of our own names (facts/run_facts.h), are none of
 * them: they only say where in forward each layer is.
 *
 * A collective that no model has takes the time that it exposed, whatever the number of ranks: it
 * is added to the gap of every row of compute, whose source says so.
 */
#ifndef LK_PROFILER_ANALYSIS_JOB_COLLECTIVES_H
#define LK_PROFILER_ANALYSIS_JOB_COLLECTIVES_H

#include "base/status.h"
#include "facts/job.h"
#include "profiler/analysis/run_set.h"

/*
 * Fill j->collectives, and add to the gaps of j->compute, which is filled. LK_EEVIDENCE: what no
 * model has takes more than 3 % of the runs' steps; the text says which collectives and how long.
 */
enum lk_status lk_job_collectives_fill(const struct lk_run_set *set, struct lk_job *j);

#endif
