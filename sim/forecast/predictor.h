/*
 * Predicts the step time of configurations, each with the distribution of what it might be.
 *
 * The estimate is the step model's mean (sim/step/config.h, sim/forecast/grid_model.h), anchored
 * twice: a rank's own work (compute, input, optimizer, gap) is multiplied by measured / modelled of
 * the nearest run of one rank, and then each part of the step takes what the largest measured run
 * that is not larger than the configuration took beyond the model (sim/forecast/misfit.h); if all
 * runs are larger, what the nearest of them did. A configuration that was itself measured is thus
 * met.
 *
 * The distribution is that of the mean step of a new run of 50 steps on the same cluster. A draw
 * resamples the anchor's runs (sim/step/measured_runs.h), moves the cluster's points and fits by
 * their intervals, draws stragglers anew, and adds the new run's deviation and two model errors:
 *
 *  - The error between measured configurations is Student's t of 4 degrees of freedom, because such
 *    errors have heavy tails. What extrapolation to another local batch adds
 *    (sim/step/batch_curve.h) moves a rank's compute alone.
 *
 *  - The error of the scale grows with log2 of the ranks over the anchor's. How well a job scales
 * as modelled differs from job to job: the prior of sim/prior.h counts as LK_PRIOR_SCALE_TESTS
 *    back-tests, and after n of the job's own the error is Student's t of LK_PRIOR_SCALE_TESTS + n
 *    degrees of freedom, scaled by the rms of all of them. It changes what communication and
 * waiting add, so it makes no step shorter than its compute.
 *
 * Estimate, draws and interval of what was not measured are raised to the bound of the
 * configuration (sim/forecast/bound.h).
 *
 * Monte Carlo draw i takes the same random numbers for all configurations: ratios of predictions
 * may be formed draw by draw.
 */
#ifndef LK_SIM_FORECAST_PREDICTOR_H
#define LK_SIM_FORECAST_PREDICTOR_H

#include "base/status.h"
#include "sim/forecast/basis.h"
#include "sim/forecast/evidence.h"

struct lk_grid_model;

/* Read it, and change it only through the functions below. */
struct lk_predictor {
    struct lk_basis basis;
    struct lk_grid_model *grid; /* what predictions share */
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

/* Take the runs of the machine as it is for an altered one, which has none; as_is outlives p. */
void lk_predictor_follow(struct lk_predictor *p, const struct lk_predictor *as_is);

/* Set the interval of a prediction from its draws, widened to hold its estimate. */
enum lk_status lk_predictor_interval(const struct lk_predictor *p, struct lk_prediction *out);

#endif
