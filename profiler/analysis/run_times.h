/* How long each rank of a run worked in each of its steps, without waiting in collectives: the
 * table that other programs' timers write (facts/step_times.h), of a run. */
#ifndef LK_PROFILER_ANALYSIS_RUN_TIMES_H
#define LK_PROFILER_ANALYSIS_RUN_TIMES_H

#include "base/status.h"
#include "facts/step_times.h"
#include "profiler/analysis/run_set.h"

/* Fill the times of all ranks that are there in the run's steps. pre: it has steps. *out is freed
 * by lk_step_times_fini, whatever is returned. */
enum lk_status lk_run_times(const struct lk_run *run, struct lk_step_times *out);

#endif
