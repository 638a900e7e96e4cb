/*
 * A forecast: the configurations asked for, each with interval, evidence, efficiency and losses,
 * the back-tests of the same model beside them, and what follows: knee, dominant loss, best choice.
 */
#ifndef LK_SIM_FORECAST_H
#define LK_SIM_FORECAST_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The grid. Empty lists take the job's own value; every array is borrowed. */
struct lk_predict_request {
    const int *gpus; /* required */
    size_t n_gpus;
    const int *local_batches; /* empty: the batch that most runs have */
    size_t n_local_batches;
    const int *accumulations;
    size_t n_accumulations;
    const uint64_t *caps; /* bucket caps; the first bucket's limit follows PyTorch's rule */
    size_t n_caps;
    int64_t global_batch; /* > 0: strong scaling, samples a step; accumulation follows from it,
                             and the local batch shrinks where it would exceed the share */
    bool no_sync, no_sync_given;
    double level; /* of the intervals, e.g. 0.90 */
    int draws;    /* e.g. 200 */
    uint64_t seed;
};

/*
 * Efficiency is throughput(K) / (K / Kref) / throughput(Kref) at the same local batch and
 * accumulation (strong scaling: the same global batch), Kref the smallest measured count, named in
 * out->reference. LK_EEVIDENCE: what is missing and the cheapest run that would supply it.
 */
enum lk_status lk_predict(const struct lk_job *job, const struct lk_cluster *cluster,
                          const struct lk_predict_request *request, struct lk_forecast *out);

#endif
