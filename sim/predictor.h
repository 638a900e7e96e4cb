/*
 * Predicts the step time of configurations, each with the distribution of what it might be.
 *
 * The estimate is the step model's mean (sim/config.h, sim/closed_form.h), anchored: it is
 * multiplied by measured / modelled of the largest measured run that is not larger than the
 * configuration. A configuration that was itself measured is thus met.
 *
 * The distribution is of the mean step of a fresh run of 50 steps on the same cluster. A draw takes
 * the anchor's runs again (sim/run_group.h), moves the cluster's points and fits by their
 * intervals, draws stragglers anew, and adds a run's own deviation and the model's two errors:
 *
 *  - of the compute, sd^2 = base^2 + (what the batch's reach adds: sim/batch_curve.h)^2, with
 *    Student's t of 4 degrees of freedom, because such errors have heavy tails;
 *  - of the scale, times log2 of the ranks over the anchor's. How well a job scales as modelled
 *    differs from job to job: the prior of sim/prior.h is worth LK_PRIOR_SCALE_TESTS back-tests,
 *    and after n of the job's own the error is Student's t of LK_PRIOR_SCALE_TESTS + n degrees of
 *    freedom, its scale the rms of all of them. It is an error in what communication and waiting
 *    add: it makes no step shorter than its compute.
 *
 * Draw i is the same world for all configurations: ratios of predictions may be formed draw by
 * draw.
 */
#ifndef LK_SIM_PREDICTOR_H
#define LK_SIM_PREDICTOR_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"
#include "sim/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_predictor_options {
    double level;       /* of intervals, e.g. 0.90 */
    int draws;          /* e.g. 200 */
    uint64_t seed;      /* of everything random */
    double scale_error; /* relative, a doubling of the ranks: scale of its t; NaN: the prior's */
    size_t scale_tests; /* the job's own back-tests behind it */
};

struct lk_predictor;

/* job and cluster are borrowed and outlive the predictor. */
enum lk_status lk_predictor_create(const struct lk_job *job, const struct lk_cluster *cluster,
                                   const struct lk_predictor_options *options,
                                   struct lk_predictor **out);
void lk_predictor_destroy(struct lk_predictor *p); /* NULL is legal */
/* Was this very configuration run? */
bool lk_predictor_measured(const struct lk_predictor *p, const struct lk_config *config);
size_t lk_predictor_draws(const struct lk_predictor *p); /* of a prediction */

struct lk_prediction {
    struct lk_config config;
    double step_s, lo_s, hi_s;
    double *draws_s; /* options.draws, as drawn */
    size_t n_draws;
    enum lk_evidence evidence;
    char evidence_text[64];
    double batch_reach; /* times the local batch is outside the measured ones; 1: within */
    double measured_s, measured_lo_s, measured_hi_s; /* of runs of this configuration; or NaN */
    int anchor_gpus;                                 /* of the run it is anchored at; 0: none */
    int costless_gpus;    /* of a nearer run, passed over: no cost at its ranks; 0: none */
    double anchor_factor; /* measured over modelled there; 1: none */
    double losses_s[LK_LOSS_COUNT]; /* of step_s, which they sum to; NaN: measured, no model */
    bool rank_sd_assumed, transient_assumed, overlap_unknown, kappa_unknown;
};
void lk_prediction_fini(struct lk_prediction *p); /* zeroes it; safe on a zeroed one */

enum lk_status lk_predictor_at(struct lk_predictor *p, const struct lk_config *config,
                               struct lk_prediction *out);
/* The estimate alone, without its distribution: for searches. */
enum lk_status lk_predictor_estimate(struct lk_predictor *p, const struct lk_config *config,
                                     double *out_step_s);

#endif
