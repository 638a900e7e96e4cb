/*
 * A known truth for the forecast's tests: a machine whose collectives follow the ring formula and a
 * job whose steps follow the step model, seen only through noisy measurements.
 */
#ifndef LK_TESTS_SIM_TRUTH_H
#define LK_TESTS_SIM_TRUTH_H

#include "base/cluster.h"
#include "base/job.h"
#include "sim/config.h"

#include <stdint.h>

struct sim_truth {
    double forward_s, backward_s; /* at local batch 8; a third of it does not depend on the batch */
    double alpha_s, rate_Bps;     /* of a hop, between hosts */
    double point_noise;           /* relative sd of a measured point */
    double rank_sd, transient_sd;
    double run_sd; /* relative, one run after another */
    int steps;     /* of a run */
    int slow_rank; /* computes slow_factor times as long as it would; slow_factor 0: none is slow */
    double slow_factor;
};

extern const struct sim_truth sim_truth_default;

/* One rank a host; all-reduce measured on 2 ranks, 4 KiB to 64 MiB. */
void sim_truth_cluster(const struct sim_truth *t, uint64_t seed, struct lk_cluster *out);
/* Compute at local batches 4, 8 and 16; no runs yet. */
void sim_truth_job(const struct sim_truth *t, uint64_t seed, struct lk_job *out);
/* Steps of a fresh run; `steps` holds t->steps. Its mean is returned. */
double sim_truth_run(const struct sim_truth *t, const struct lk_job *j, int gpus, int local_batch,
                     uint64_t seed, double *steps);
/* Adds such a run to the job. */
void sim_truth_add_run(const struct sim_truth *t, struct lk_job *j, int gpus, int local_batch,
                       uint64_t seed);

#endif
