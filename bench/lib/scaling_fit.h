/*
 * Fits the scaling law's constants to measured series: minimum of
 *
 *     - sum over series of weight x (ln density of the last count given the smaller ones
 *                                    + half of that of each earlier one given those before it,
 *                                      and of the last given the first two,
 *                                    - 20 |ln measured - median|, at most 0.15 counted)
 *     + sum over constants of (ln constant - ln its start)^2 / 2
 *
 * The first part asks for honest intervals, the second for a median that is near, the third keeps
 * constants that the series say little about near where physics puts them.
 *
 * recovery is assumed, as likely as saturation, and scored as 0: the density of mostly regular
 * series has no use for it, and without it 84 % of the last counts held out are inside, not 86 %.
 */
#ifndef LK_BENCH_LIB_SCALING_FIT_H
#define LK_BENCH_LIB_SCALING_FIT_H

#include "base/status.h"
#include "sim/throughput/scaling.h"

#include <stddef.h>

/* One job and machine at several counts of GPUs, ascending. */
struct scaling_series {
    struct lk_scaling_point *points;
    size_t n;      /* 2 or more */
    double weight; /* 0: left out */
};

/* Constants at which the fit starts, and towards which it is drawn. */
extern const struct lk_scaling_prior scaling_start;

/* `from`: constants to begin the search at, e.g. of a fit to nearly the same series. Deterministic.
 * LK_EEVIDENCE when no series has weight. */
enum lk_status scaling_fit(const struct scaling_series *series, size_t n,
                           const struct lk_scaling_prior *from, int iterations,
                           struct lk_scaling_prior *out);
/* Compute the loss that the fit minimises. */
enum lk_status scaling_objective(const struct scaling_series *series, size_t n,
                                 const struct lk_scaling_prior *p, double *out);

#endif
