/* Jobs that a command's words name: files, and runs of which a job is made. */
#ifndef LK_COMMANDS_JOB_INPUTS_H
#define LK_COMMANDS_JOB_INPUTS_H

#include "base/status.h"
#include "facts/job.h"

#include <stddef.h>

/* Read the job file `path`; of a directory its job.json or, without one, a job of the runs at or
 * below it. LK_EIO, LK_EPARSE; LK_EEVIDENCE: the runs are too few steps. *out is freed by
 * lk_job_fini. */
enum lk_status find_job(const char *path, struct lk_job *out);
/* Build one job from the traces of several run directories (profiler/analysis/run_set.h). With one
 * operand this is find_job. */
enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out);

#endif
