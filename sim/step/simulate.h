/* This function runs one configuration through the event engine and writes its trace. */
#ifndef LK_SIM_SIMULATE_H
#define LK_SIM_SIMULATE_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/step/step.h"

/*
 * Simulate `request` with the cluster's estimates and write the traces to dir
 * (rankNNNNN.trace.json.gz) in the measured schema, marked as simulated. *out (may be NULL) is the
 * truth that an analysis of them should find; lk_sim_result_fini frees it.
 */
enum lk_status lk_simulate_trace(const struct lk_job *job, const struct lk_cluster *cluster,
                                 const struct lk_config *config,
                                 const struct lk_sim_request *request, const char *dir,
                                 struct lk_sim_result *out);

#endif
