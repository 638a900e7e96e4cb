/*
 * What the predictions of a job on a cluster rest on: the job's runs, the cluster's costs as
 * estimate and in every draw, the known stragglers; and the parts of a prediction that they give:
 * draws of runs, the model's errors, grades.
 */
#ifndef LK_SIM_FORECAST_BASIS_H
#define LK_SIM_FORECAST_BASIS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/collective/coll_cost.h"
#include "sim/step/bucket_cost.h"
#include "sim/step/config.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/measured_runs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The costs of a cluster's collectives, as estimate and in draws: they depend on cluster and seed
 * alone, so predictors of several jobs share them.
 */
struct lk_drawn_costs {
    struct lk_cost_model *estimate, **draws;
    int n;
};
/* The cluster is not kept. */
enum lk_status lk_drawn_costs_init(struct lk_drawn_costs *out, const struct lk_cluster *cluster,
                                   int draws, uint64_t seed);
void lk_drawn_costs_fini(struct lk_drawn_costs *c); /* zeroes it; safe on a zeroed one */

struct lk_predictor_options {
    double level; /* of intervals, e.g. 0.90 */
    int draws;    /* e.g. 200 */
    uint64_t seed;
    uint64_t network_seed; /* of what is not known of the network; 0: the seed */
    double scale_error;    /* of the collectives' time, for each doubling of the ranks; NaN: the
                              prior's */
    size_t scale_tests;    /* how many of the job's back-tests it rests on */
    const struct lk_drawn_costs *costs; /* of the cluster and the seed, as many draws or more;
                                           borrowed. NULL: the predictor makes its own */
};

struct lk_basis {
    const struct lk_job *job; /* borrowed, as the cluster is */
    const struct lk_cluster *cluster;
    struct lk_predictor_options options;
    struct lk_runs runs;
    bool other_device; /* the job's compute was measured on another GPU than the cluster's */
    struct lk_bucket_cost bucket; /* set by the predictor: by runs of several caps, else assumed */
    struct lk_known_stragglers slow; /* of the runs and the cluster file, fitted once */
    struct lk_drawn_costs own;       /* zeroed where others' are shared */
    struct lk_cost_model *cost;      /* the estimates */
    struct lk_cost_model **draws;    /* options.draws of them, or more */
};

/* job and cluster outlive the basis. LK_EUSAGE: less than two draws, or a level outside 0 to 1. */
enum lk_status lk_basis_init(struct lk_basis *out, const struct lk_job *job,
                             const struct lk_cluster *cluster,
                             const struct lk_predictor_options *options);
void lk_basis_fini(struct lk_basis *b); /* zeroes it; safe on a zeroed one */

/* The random numbers of draw i that every configuration shares. */
struct lk_draw {
    double run_sd;                /* relative, between runs */
    double z_new_run;             /* deviation of the new run, in run_sd */
    double compute, error, scale; /* deviations of compute, model and scale, in sd of each */
    double model;                 /* what the model's own error multiplies a step by */
    uint64_t past;                /* seed of what past runs were */
};
struct lk_draw lk_basis_draw(const struct lk_basis *b, size_t i);
/* Return draw w of the mean step that n runs of a configuration measured: their steps vary, and so
 * do runs, those of one configuration apart from those of another. */
double lk_basis_runs_draw(const struct lk_basis *b, const struct lk_config *at, size_t n,
                          const struct lk_draw *w);
/*
 * Return the doublings of the GPUs that a configuration is away from what was measured: from an
 * anchor (0 GPUs: none, so from one GPU), or from all-reduces (lk_grid_points_distance), and one
 * more, since no run shows what a job makes of them. The nearest counts: more evidence never makes
 * the distance longer.
 */
double lk_basis_distance(const struct lk_config *at, int anchor_world_size, double of_points);
/*
 * Return the relative error of the collectives' time at so many doublings from what was measured.
 * cost_sd: of the logarithm of what is drawn of their cost, which the errors of other jobs contain
 * as well: it is not drawn twice. A doubling's worth is always left, for what is not their cost.
 */
double lk_basis_scale_error(const struct lk_basis *b, double distance, double cost_sd);
/*
 * Return true if a configuration is that of a run on more ranks, placed so that none shares less:
 * in the same node or in several as full, or on more nodes of as many ranks. Its step is no faster
 * than the run's was, but where state is sharded or the machine is changed.
 */
bool lk_basis_grows(const struct lk_config *run, const struct lk_config *c);
/* Return the time of a step's collectives, hidden or not, and at least what ranks add to a step. */
double lk_basis_shared_s(const struct lk_step_model *m, double alone_s, double step_s);
/*
 * Return a step with the model's errors of a draw. The error between measured configurations scales
 * all of the step; the scale's error is of what ranks share, and makes no step shorter than a
 * rank's own work.
 */
double lk_basis_with_error(double alone_s, double step_s, double shared_s, double scale_error,
                           const struct lk_draw *w);
/* Return the time of a rank's own work in a step. */
double lk_basis_alone_s(const struct lk_step_model *m, int accumulation);
/* Grade a configuration that was not measured, in words (LK_EVIDENCE_TEXT_BYTES each): all of it,
 * and what of that goes beyond a preset's grade. */
void lk_basis_grade(const struct lk_basis *b, const struct lk_config_model *m,
                    int anchor_world_size, const struct lk_config *at, enum lk_evidence *out,
                    char *text, char *reach);

#endif
