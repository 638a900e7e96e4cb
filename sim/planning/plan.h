/*
 * A plan holds the memory, cost and time to a target of a forecast's point. Inputs that are not
 * known leave their columns empty; a note says which key or option would fill them. A value taken
 * from a prior is called assumed, with its source.
 */
#ifndef LK_SIM_PLANNING_PLAN_H
#define LK_SIM_PLANNING_PLAN_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"

/* Inputs by option; 0: not given, the cluster's or the job's own is taken. */
struct lk_plan_request {
    uint64_t device_bytes; /* memory of a GPU */
    double price_per_hour; /* of a GPU */
    const char *currency;  /* of the price; NULL: not given */
    double power_W;        /* of a GPU */
    double noise_scale;    /* samples */
    double target_samples; /* that reach the target: in small batches, or in target_batch */
    double target_batch;   /* the global batch at which they did */
    double gpu_mtbf_s;     /* between failures of one GPU that stop the job */
    double restart_s;      /* from a failure to the next step */
    double checkpoint_s;   /* that a checkpoint stops training for */
    double checkpoint_Bps; /* rate at which the whole job's checkpoint is written */
    double cost_factor;    /* times the least cost to the target that is still accepted; 0:
                              where more GPUs stop paying is not told */
};

/*
 * Plan the points of a forecast of this job on this cluster, and say and note what the plans tell.
 * `devices` has one item for each point: the cluster whose GPU it runs on, with that GPU's memory,
 * price and power; NULL: the forecast's own. devices NULL: all are its own. LK_EUSAGE for inputs
 * that contradict each other.
 */
enum lk_status lk_plan_points(const struct lk_job *job, const struct lk_cluster *cluster,
                              const struct lk_plan_request *request,
                              const struct lk_cluster *const *devices, struct lk_forecast *f);
enum lk_status lk_plan_tell(const struct lk_job *job, const struct lk_cluster *cluster,
                            const struct lk_plan_request *request,
                            const struct lk_cluster *const *devices, struct lk_forecast *f);

/* Return the gradient noise scale in samples: the request's, else the job's (request NULL: the
 * job's); NaN: not known. */
double lk_plan_noise_scale(const struct lk_job *job, const struct lk_plan_request *request);
/* Return the memory of a GPU: the request's, else the cluster's (request NULL: the cluster's); NaN:
 * not known. */
double lk_plan_device_bytes(const struct lk_cluster *device, const struct lk_plan_request *request);

#endif
