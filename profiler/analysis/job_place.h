/* Find the place of a run in its traces. */
#ifndef LK_PROFILER_ANALYSIS_JOB_PLACE_H
#define LK_PROFILER_ANALYSIS_JOB_PLACE_H

#include "base/status.h"
#include "facts/place.h"
#include "profiler/analysis/run_set.h"

/* Set the device and the hosts of a run's ranks. The caller frees what *p holds. */
enum lk_status lk_job_place(const struct lk_run *run, struct lk_place *p);

#endif
