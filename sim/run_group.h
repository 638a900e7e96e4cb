/*
 * Measured runs of one configuration: their mean, what a fresh one may differ by, and the run that
 * a forecast of another configuration is anchored at.
 *
 * Runs of one configuration differ by more than their steps do. That sd, relative, is pooled over
 * all configurations with several runs; to a single difference the prior is added as a second one.
 * How little is then known of it is in the draws: Student's t.
 */
#ifndef LK_SIM_RUN_GROUP_H
#define LK_SIM_RUN_GROUP_H

#include "base/cluster.h"
#include "base/job.h"
#include "base/rng.h"
#include "sim/config.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * May this run be evidence for this cluster? One rank alone may. A preset is another machine, and
 * so is a cluster that could not hold the run: too few nodes, or too few devices on them.
 */
bool lk_run_counts(const struct lk_cluster *c, const struct lk_job_run *r);

/* The job's runs that count on the cluster; both are borrowed. */
struct lk_runs {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    double sd;           /* relative, between runs of one configuration */
    int sd_observations; /* behind it: degrees of freedom; 0: it is the prior */
};
struct lk_runs lk_runs_of(const struct lk_job *job, const struct lk_cluster *cluster);

/*
 * How many times a configuration's accumulation and bucket cap lie outside those of the runs that
 * count; 1: within, or no run says. A run of one micro-batch reduces both on the last and on all.
 */
struct lk_runs_reach {
    double accumulation, cap;
};
struct lk_runs_reach lk_runs_reach(const struct lk_runs *r, const struct lk_config *at);

/* Mean step over the runs of a configuration, each with the same weight; NaN and 0: none. */
double lk_runs_mean(const struct lk_runs *r, const struct lk_config *at, size_t *out_n);
/* One draw of that mean, from the steps of these very runs, in blocks. */
double lk_runs_mean_draw(const struct lk_runs *r, const struct lk_config *at, struct lk_rng *g);
/* One draw of the sd between runs. */
double lk_runs_sd_draw(const struct lk_runs *r, struct lk_rng *g);

/*
 * The run nearest to a configuration, of at most as many ranks, whose distance is above
 * *distance_io, which becomes its; start at -INFINITY. False: there is none.
 */
bool lk_runs_nearest(const struct lk_runs *r, const struct lk_config *at, double *distance_io,
                     struct lk_config *out);

#endif
