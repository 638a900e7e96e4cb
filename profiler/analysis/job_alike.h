/* These functions decide whether runs are of one job, and say what a job needs. */
#ifndef LK_PROFILER_ANALYSIS_JOB_ALIKE_H
#define LK_PROFILER_ANALYSIS_JOB_ALIKE_H

#include "base/status.h"
#include "profiler/analysis/run_set.h"

/* Check them. LK_EUSAGE: two differ, and the text says in what. LK_EEVIDENCE: a run lacks what a
 * job is made of. */
enum lk_status lk_job_check_runs(const struct lk_run_set *set);
/* Return the GPUs of a replica: ranks over those that reduce a gradient; 0: no whole number, or it
 * depends on the gradient. */
int lk_run_replica_gpus(const struct lk_run *r);

#endif
