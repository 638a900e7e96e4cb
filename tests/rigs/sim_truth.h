/*
 * A known truth for the forecast's tests: a machine whose collectives follow the ring formula and a
 * job whose steps follow the step model, observed only through noisy measurements.
 */
#ifndef LK_TESTS_SIM_TRUTH_H
#define LK_TESTS_SIM_TRUTH_H

#include "facts/cluster.h"
#include "facts/job.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/step_evidence.h"
#include "sim/step/config.h"

#include <stdint.h>

struct sim_truth {
    double forward_s, backward_s; /* at local batch 8; a third is independent of the batch */
    double alpha_s, rate_Bps;     /* latency of a hop, bandwidth between hosts */
    double point_noise;           /* relative sd of a measured point */
    double rank_sd, transient_sd;
    double run_sd; /* relative sd from run to run */
    int steps;     /* steps of a run */
    int slow_rank; /* rank whose compute takes slow_factor times as long; slow_factor 0: none */
    double slow_factor;
};

extern const struct sim_truth sim_truth_default;

/* Make a cluster with one rank a host; all-reduce measured on 2 ranks, 4 KiB to 64 MiB. */
void sim_truth_cluster(const struct sim_truth *t, uint64_t seed, struct lk_cluster *out);
/* Add all-reduces measured on more ranks than those it has. */
void sim_truth_add_points(const struct sim_truth *t, uint64_t seed, int ranks,
                          struct lk_cluster *c);
/* Make a job with compute at local batches 4, 8 and 16; no runs yet. */
void sim_truth_job(const struct sim_truth *t, uint64_t seed, struct lk_job *out);
/* Draw the steps of a new run; `steps` has room for t->steps. Return their mean. */
double sim_truth_run(const struct sim_truth *t, const struct lk_job *j, int world_size,
                     int local_batch, uint64_t seed, double *steps);
/* Add such a run to the job. */
void sim_truth_add_run(const struct sim_truth *t, struct lk_job *j, int world_size, int local_batch,
                       uint64_t seed);

/* A machine, and a job with runs of 1 and powers of 2 up to `largest` ranks at local batch 8. */
struct sim_world {
    struct sim_truth truth;
    struct lk_job job;
    struct lk_cluster cluster;
};
void sim_world_init(struct sim_world *w, uint64_t seed, int largest);
void sim_world_fini(struct sim_world *w);
/*
 * Return one of so many worlds with a run of two ranks, whose links between hosts are known, too:
 * cases share them, as making one, with the fit of its all-reduces, takes longer than a forecast.
 * They are made when first asked for, and live as long as the process. A test that changes one
 * takes its own: SIM_WORLDS to SIM_WORLDS + SIM_WORLDS_CHANGED - 1.
 */
enum { SIM_WORLDS = 50, SIM_WORLDS_CHANGED = 3 };
struct sim_world *sim_world_shared(size_t number);

/* Forecast a job on a cluster by the step model. */
enum lk_status sim_predict(const struct lk_job *job, const struct lk_cluster *cluster,
                           const struct lk_forecast_request *request, struct lk_forecast *out);
/* The same, compared with the current configuration. */
struct sim_answer {
    struct lk_forecast forecast;
    struct lk_gains gains;
};
enum lk_status sim_whatif(const struct lk_job *job, const struct lk_cluster *cluster,
                          const struct lk_forecast_request *request, struct sim_answer *out);
void sim_answer_fini(struct sim_answer *a);

#endif
