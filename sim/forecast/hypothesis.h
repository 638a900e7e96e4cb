/*
 * A measurement that was not made: a run, or all-reduces, with the outcome that the forecast gives
 * it. Added to what was measured it shows what the measurement would be worth before it is paid for
 * (sim/forecast/next_run.h).
 */
#ifndef LK_SIM_FORECAST_HYPOTHESIS_H
#define LK_SIM_FORECAST_HYPOTHESIS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/collective/coll_cost.h"

#include <stdbool.h>

struct lk_hypothesis {
    struct lk_config config; /* that is run; of all-reduces its ranks and nodes count alone */
    bool collectives;        /* all-reduces are timed, else steps */
    double step_s;           /* of a run */
};

/* A job and a cluster with one more measurement; both borrow all else. */
struct lk_hypothetical {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_job_run *runs;
    double *steps;
    struct lk_cluster_point *points;
};
/* Make them; cost is of the cluster. LK_EEVIDENCE: nothing says what the all-reduces take. */
enum lk_status lk_hypothetical_init(struct lk_hypothetical *out, const struct lk_job *job,
                                    const struct lk_cluster *cluster,
                                    const struct lk_cost_model *cost,
                                    const struct lk_hypothesis *h);
void lk_hypothetical_fini(struct lk_hypothetical *h); /* zeroes it; safe on a zeroed one */

#endif
