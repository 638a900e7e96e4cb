/* This function warns of what a job says of itself that cannot all be so: compute against local
 * batch, and against runs of one GPU. */
#ifndef LK_SIM_JOB_DOUBTS_H
#define LK_SIM_JOB_DOUBTS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"

/* Warn of each, once, in the forecast of a job on a cluster. Runs that do not count there
 * (sim/step/measured_runs.h) contradict nothing. */
enum lk_status lk_job_doubts_add(const struct lk_job *job, const struct lk_cluster *cluster,
                                 struct lk_forecast *out);

#endif
