/* The step model of a job on a cluster, with the job's runs, as a source of evidence. */
#ifndef LK_SIM_FORECAST_STEP_EVIDENCE_H
#define LK_SIM_FORECAST_STEP_EVIDENCE_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/job.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/evidence.h"

/* Open a job and its cluster, both borrowed; of the request level, draws, seed, global batch and
 * `compare` are read. The caller closes the source by its hook. */
enum lk_status lk_step_evidence(const struct lk_job *job, const struct lk_cluster *cluster,
                                const struct lk_forecast_request *q,
                                struct lk_evidence_source *out);

/* Let the scaling law of the job's runs answer where they contradict the step model. The law is
 * taken over, and closed with the model. */
void lk_step_evidence_set_law(struct lk_evidence_source *of, const struct lk_evidence_source *law);

#endif
