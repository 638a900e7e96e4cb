/*
 * The law of the slowest rank, without drawing ranks: the distribution of the largest effect on
 * compute among all ranks of a model, from which a sweep takes mean and quantiles.
 *
 * A rank's effect is its persistent one (of itself and its node, taken as its own; or what is
 * known), plus its transients' mean over the micro-batches that are waited for together, plus the
 * tail's. Normal, but for the tail, whose excess is integrated over strata of its generalised
 * Pareto law. Common effects move all ranks alike and are left out.
 */
#ifndef LK_SIM_SLOWEST_H
#define LK_SIM_SLOWEST_H

#include "base/status.h"
#include "sim/step.h"

enum { LK_SLOWEST_CELLS = 64 };

struct lk_slowest {
    double effect[LK_SLOWEST_CELLS + 1]; /* rising */
    double share[LK_SLOWEST_CELLS + 1];  /* probability that the slowest has at most this effect */
    double mean;                         /* of the slowest's effect */
    double average;                      /* of all ranks' effects */
    double persistent;                   /* share of its variance that lasts the whole run */
};

/* micro_batches: waited for together, 1 or more: accumulation with no_sync. */
enum lk_status lk_slowest_init(struct lk_slowest *s, const struct lk_step_model *m,
                               int micro_batches);
/* The effect that is not exceeded with probability u, 0 < u < 1. */
double lk_slowest_quantile(const struct lk_slowest *s, double u);

/*
 * What collectives between nodes take over their cost because of the slowest link: the mean, and
 * where the slowest of the links that the measured costs contain is at its u-quantile and that of
 * the others at its u_apart-quantile. 1 where links are alike. As sim/step.c draws it.
 */
double lk_slowest_link_mean(const struct lk_step_model *m);
double lk_slowest_link(const struct lk_step_model *m, double u, double u_apart);

#endif
