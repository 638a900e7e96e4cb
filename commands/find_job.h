/* Jobs: a job file, or a run directory that holds one. */
#ifndef LK_COMMANDS_FIND_JOB_H
#define LK_COMMANDS_FIND_JOB_H

#include "base/job.h"
#include "base/status.h"

/* Reads PATH, or PATH/job.json when PATH is a directory. */
enum lk_status find_job(const char *path, struct lk_job *out);
/*
 * One job of several run directories: their traces are read together (profiler/run_set.h). With
 * one operand this is find_job.
 */
enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out);

#endif
