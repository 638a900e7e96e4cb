/*
 * Planning: what a forecast means for memory, money and time to a target. Fills each point's plan
 * and adds notes. Inputs that are not known leave their columns empty; a note says which key or
 * option would fill them. What is taken from a prior is called assumed, with its source.
 */
#ifndef LK_SIM_PLAN_H
#define LK_SIM_PLAN_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"
#include "base/table.h"
#include "sim/config.h"

/* What the user gave; 0: not given, the cluster's or the job's own is taken. */
struct lk_plan_request {
    double device_bytes;   /* memory of a GPU */
    double price_per_hour; /* of a GPU */
    double power_W;        /* of a GPU */
    double noise_scale;    /* samples */
    double target_samples; /* that reach the target: in small batches, or in target_batch */
    double target_batch;   /* the global batch at which they did */
    double gpu_mtbf_s;     /* between failures of one GPU that stop the job */
    double restart_s;      /* from a failure to the next step */
    double checkpoint_s;   /* that a checkpoint stops training for */
    double checkpoint_Bps; /* rate at which the whole job's checkpoint is written */
    double cost_factor;    /* times the least cost to the target that is still accepted */
};

/* What a point runs as, where that is more than the point says. */
struct lk_plan_place {
    struct lk_config config;
    const struct lk_cluster *device; /* whose GPU, with its memory, price and power; NULL: as is */
};

/*
 * Adds plans and notes to the forecast of this job on this cluster. Where more GPUs stop paying is
 * said of the points that differ in GPUs alone from the first that fits. `places` has one item a
 * point; NULL: points are plain data parallelism. LK_EUSAGE for inputs that contradict each other.
 */
enum lk_status lk_plan_forecast(const struct lk_job *job, const struct lk_cluster *cluster,
                                const struct lk_plan_request *request,
                                const struct lk_plan_place *places, struct lk_forecast *f);

/* Memory of a GPU: what the user gave, or else the cluster's number (request NULL: that alone);
 * NaN: nothing says. */
double lk_plan_device_bytes(const struct lk_cluster *device, const struct lk_plan_request *request);

/*
 * The memory of one GPU in the forecast's first configuration, row by row, under plain data
 * parallelism and ZeRO-1 to 3, with the largest local batch.
 */
enum lk_status lk_plan_memory_table(const struct lk_job *job, const struct lk_cluster *cluster,
                                    const struct lk_plan_request *request,
                                    const struct lk_forecast *f, struct lk_table **out);

/*
 * What fits on which GPU: one row for each different GPU of the clusters whose memory is known, for
 * the forecast's first configuration. *out is NULL when there is none.
 */
enum lk_status lk_plan_device_table(const struct lk_job *job, const struct lk_cluster *clusters,
                                    size_t n, const struct lk_forecast *f, struct lk_table **out);

#endif
