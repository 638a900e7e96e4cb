/*
 * This is the law of the slowest rank without drawing ranks: the distribution of the largest
 * effect on compute among all ranks of a model. The what-if grid takes its mean and quantiles.
 *
 * A rank's effect is its persistent one (known, or drawn for itself and its node), plus the mean
 * of its transients over the micro-batches that are waited for together, plus the tail's. All are
 * normal but the tail, whose excess is integrated over strata of its generalised Pareto law.
 * Common effects move all ranks alike and are left out.
 */
#ifndef LK_SIM_STRAGGLER_MAX_H
#define LK_SIM_STRAGGLER_MAX_H

#include "base/status.h"
#include "sim/step/step.h"

#include <stdbool.h>

enum { LK_STRAGGLER_MAX_CELLS = 64 };

struct lk_straggler_max {
    double effect[LK_STRAGGLER_MAX_CELLS + 1]; /* rising */
    double share[LK_STRAGGLER_MAX_CELLS +
                 1];   /* probability that the slowest has at most this effect */
    double mean;       /* of the slowest's effect */
    double average;    /* of all ranks' effects */
    double persistent; /* share of its variance that lasts the whole run */
};

/* Make the law; the ranks wait after micro_batches (1 or more: accumulation with no_sync). */
enum lk_status lk_straggler_max_init(struct lk_straggler_max *s, const struct lk_step_model *m,
                                     int micro_batches);
/* Return the effect that the slowest rank does not exceed with probability u, 0 < u < 1. */
double lk_straggler_max_quantile(const struct lk_straggler_max *s, double u);

/*
 * Return the factor on the time of a collective between nodes, because the slowest link sets its
 * rate: its mean, and its value where the slowest of the links that the costs contain is at its
 * u-quantile and that of the others at its u_apart-quantile. It is 1 where links are alike.
 * sim/step/step.c draws from the same law.
 */
double lk_straggler_max_link_mean(const struct lk_step_model *m);
double lk_straggler_max_link(const struct lk_step_model *m, double u, double u_apart);

/* Return true if the slowest of the ranks of two models are drawn alike. */
bool lk_straggler_max_alike(const struct lk_step_model *a, const struct lk_step_model *b);

#endif
