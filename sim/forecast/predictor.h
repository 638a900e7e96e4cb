/*
 * Predicts the step time of configurations, each with the distribution of what it might be.
 *
 * The estimate is the step model's mean (sim/step/config.h, sim/forecast/grid_model.h), anchored
 * twice: a rank's own work (compute, input, optimizer, gap) is multiplied by measured / modelled of
 * the nearest run of one rank, and then the step by measured / modelled of the largest measured run
 * that is not larger than the configuration. A configuration that was itself measured is thus met.
 *
 * The distribution is that of the mean step of a new run of 50 steps on the same cluster. A draw
 * resamples the anchor's runs (sim/step/measured_runs.h), moves the cluster's points and fits by
 * their intervals, draws stragglers anew, and adds the new run's deviation and two model errors:
 *
 *  - The error between measured configurations is Student's t of 4 degrees of freedom, because such
 *    errors have heavy tails; what extrapolation to another local batch adds
 *    (sim/step/batch_curve.h) moves a rank's compute alone.
 *  - The error of the scale grows with log2 of the ranks over the anchor's. How well a job scales
 * as modelled differs from job to job: the prior of sim/prior.h counts as LK_PRIOR_SCALE_TESTS
 *    back-tests, and after n of the job's own the error is Student's t of LK_PRIOR_SCALE_TESTS + n
 *    degrees of freedom, scaled by the rms of all of them. It changes what communication
 *    and waiting add, so it makes no step shorter than its compute.
 *
 * Estimate, draws and interval of what was not measured are raised to the bound of the
 * configuration (sim/forecast/bound.h).
 *
 * Monte Carlo draw i takes the same random numbers for all configurations: ratios of predictions
 * may be formed draw by draw.
 */
#ifndef LK_SIM_FORECAST_PREDICTOR_H
#define LK_SIM_FORECAST_PREDICTOR_H

#include "base/rng.h"
#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/collective/coll_cost.h"
#include "sim/forecast/evidence.h"
#include "sim/step/bucket_cost.h"
#include "sim/step/config.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/measured_runs.h"

#include <stddef.h>
#include <stdint.h>

struct lk_predictor_options {
    double level; /* of intervals, e.g. 0.90 */
    int draws;    /* e.g. 200 */
    uint64_t seed;
    double scale_error; /* relative, for each doubling of the ranks; NaN: the prior's */
    size_t scale_tests; /* how many of the job's back-tests it rests on */
};

/* Read it, and change it only through the functions below. */
struct lk_predictor {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    struct lk_predictor_options options;
    struct lk_runs runs;
    struct lk_bucket_cost bucket;    /* by the runs of several caps, else assumed */
    struct lk_known_stragglers slow; /* of the runs and the cluster file, fitted once */
    struct lk_cost_model *cost;      /* the estimates */
    struct lk_cost_model **draws;    /* options.draws of them */
    struct lk_grid_model *grid;      /* what predictions share */
};

/* job and cluster are borrowed and outlive the predictor. */
enum lk_status lk_predictor_create(const struct lk_job *job, const struct lk_cluster *cluster,
                                   const struct lk_predictor_options *options,
                                   struct lk_predictor **out);
void lk_predictor_destroy(struct lk_predictor *p); /* NULL is legal */

/* Predict a configuration with its distribution. *out is freed by lk_prediction_fini. */
enum lk_status lk_predictor_at(struct lk_predictor *p, const struct lk_config *config,
                               struct lk_prediction *out);
/* Predict the step alone, for searches. */
enum lk_status lk_predictor_estimate(struct lk_predictor *p, const struct lk_config *config,
                                     double *out_step_s);

/* ---- The parts of a prediction, which sim/forecast/grid_model.c combines in its own way ---- */

/* The random numbers of draw i that every configuration shares. */
struct lk_draw {
    double run_sd;                /* relative, between runs */
    double z_new_run;             /* deviation of the new run, in run_sd */
    double compute, error, scale; /* deviations of compute, model and scale, in sd of each */
    uint64_t past;                /* seed of what past runs were */
};
struct lk_draw lk_predictor_draw(const struct lk_predictor *p, size_t i);
/* Return draw w of the mean step that n runs of a configuration measured: their steps vary, and so
 * do runs, those of one configuration apart from those of another. */
double lk_predictor_runs_draw(const struct lk_predictor *p, const struct lk_config *at, size_t n,
                              const struct lk_draw *w);
/* Return the relative error of the scale at this distance from an anchor; 0 GPUs: no anchor. */
double lk_predictor_scale_error(const struct lk_predictor *p, const struct lk_config *at,
                                int anchor_world_size);
/*
 * Return a step with the model's errors of a draw. The error between measured configurations scales
 * all of the step; the scale's error changes only what communication and waiting add, which never
 * falls below zero.
 */
double lk_predictor_with_error(double alone_s, double step_s, double scale_error,
                               const struct lk_draw *w);
/* Set the interval of a prediction from its draws, widened to hold its estimate. */
enum lk_status lk_predictor_interval(const struct lk_predictor *p, struct lk_prediction *out);
/* Return the time of a rank's own work in a step. */
double lk_predictor_alone_s(const struct lk_step_model *m, int accumulation);
/* Grade a configuration that was not measured. text: 64 bytes. */
void lk_predictor_grade(const struct lk_predictor *p, const struct lk_config_model *m,
                        int anchor_world_size, const struct lk_config *at, enum lk_evidence *out,
                        char *text);

#endif
