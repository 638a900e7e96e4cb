/*
 * Measured runs give the mean step of a configuration, its uncertainty for a new run, and the run
 * at which a forecast of another configuration is anchored.
 *
 * Runs of one configuration differ by more than their steps do. That relative sd is pooled over
 * all configurations with several runs; with a single difference the prior counts as a second one.
 * The draws contain its own uncertainty (Student's t).
 */
#ifndef LK_SIM_STEP_MEASURED_RUNS_H
#define LK_SIM_STEP_MEASURED_RUNS_H

#include "base/rng.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/job.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Return true if a run of the job is evidence for this cluster: it was measured there
 * (facts/place.h), or nothing says where, and the cluster can hold it. One rank alone communicates
 * with none, so its step is that of the device wherever that is.
 */
bool lk_run_counts(const struct lk_cluster *c, const struct lk_job *j, const struct lk_job_run *r);

/* Return true if runs of both have the same step: buckets do not count on one rank, nor does
 * `reduce` without accumulation. */
bool lk_runs_same_config(const struct lk_config *a, const struct lk_config *b);

/* Repeats of a configuration whose steps differ by more than this factor are not repeats. Assumed.
 */
#define LK_REPEATS_DOUBTED 1.25

/* The job's runs that count on the cluster; both are borrowed. */
struct lk_runs {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    double sd;           /* relative, between runs of one configuration */
    int sd_observations; /* degrees of freedom; 0: sd is the prior */
    double as_assumed;   /* probability that runs deviate as the prior says, and not by sd */
};
struct lk_runs lk_runs_of(const struct lk_job *job, const struct lk_cluster *cluster);

/* Return the fewest GPUs of the job's runs that count on the cluster; 0: none counts. */
int lk_runs_smallest(const struct lk_job *job, const struct lk_cluster *cluster);
/* Return true if some run that counts was sharded. */
bool lk_runs_are_sharded(const struct lk_runs *r);
/* Return true if run i counts and no run before it that counts is of its configuration. */
bool lk_runs_is_first(const struct lk_runs *r, size_t i);

/* Return the accumulation that tells most of a configuration's: its own where it lies within those
 * of the runs that count, else the nearest of them; without runs the job's. */
int lk_runs_accumulation(const struct lk_runs *r, const struct lk_config *at);

/*
 * Extrapolation factors of a configuration's accumulation and bucket cap beyond the runs that
 * count; 1: within, or no run tells. A run of one micro-batch covers all kinds of `reduce`.
 */
struct lk_runs_extrapolation {
    double accumulation, cap;
};
struct lk_runs_extrapolation lk_runs_extrapolation(const struct lk_runs *r,
                                                   const struct lk_config *at);

/* Return the mean step over the runs of a configuration, with equal weights; NaN and 0: no run. */
double lk_runs_mean(const struct lk_runs *r, const struct lk_config *at, size_t *out_n);
/* Set the shortest and the longest mean step of the runs of the configuration of run i. Return
 * false unless run i is the first of several. */
bool lk_runs_range(const struct lk_runs *r, size_t i, double *lo_s, double *hi_s);
/* Set the mean over these runs of where their steps went, LK_LOSS_COUNT numbers. Return false if
 * none of them says it. */
bool lk_runs_losses(const struct lk_runs *r, const struct lk_config *at, double *out_s);
/* Return one draw of that mean, resampling the steps of these runs in blocks. */
double lk_runs_mean_draw(const struct lk_runs *r, const struct lk_config *at, struct lk_rng *g);
/* Return one draw of the sd between runs. */
double lk_runs_sd_draw(const struct lk_runs *r, struct lk_rng *g);

/*
 * Find the run nearest to a configuration whose distance is above *distance_io, and set
 * *distance_io to its distance; start at -INFINITY. Runs of more ranks come after all others.
 * Return false if there is none.
 */
bool lk_runs_nearest(const struct lk_runs *r, const struct lk_config *at, double *distance_io,
                     struct lk_config *out);

#endif
