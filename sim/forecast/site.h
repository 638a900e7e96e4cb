/*
 * The errors of a site's own forecasts (facts/ledger.h) widen or narrow the intervals of its next
 * ones.
 *
 * Each scored forecast gives v, the square of its error over what its interval says the sd of that
 * error is, both of logarithms: intervals that are right have a mean v of 1. The forecasts of one
 * job count as one, with their mean v, since their errors are alike and since the job's later
 * forecasts have its earlier runs as evidence. With the prior's weight, LK_SITE_PRIOR_JOBS of v =
 * 1, an interval is multiplied by sqrt((prior + sum of v) / (prior + jobs)), the scale of a
 * posterior of a normal error (scaled inverse chi-square). One v counts as LK_SITE_ERROR_MOST at
 * the most, as three times the half width of a 90 % interval gives: the tails of forecasts are
 * heavier than a normal law's. `build/bench/accuracy_site` tries other weights on public series.
 */
#ifndef LK_SIM_FORECAST_SITE_H
#define LK_SIM_FORECAST_SITE_H

#include "base/status.h"
#include "facts/ledger.h"
#include "sim/forecast/evidence.h"

#include <stddef.h>

enum { LK_SITE_PRIOR_JOBS = 8, LK_SITE_ERROR_MOST = 25 };

/* Return v of a forecast: measured and the interval in one unit, of this level. pre: lo <=
 * predicted
 * <= hi, all above 0. */
double lk_site_error(double measured, double predicted, double lo, double hi, double level);
/* Return what n jobs' mean errors multiply an interval by; prior: the weight of v = 1. */
double lk_site_factor_of(const double *errors, size_t n, double prior);
/* Set what the scored forecasts of a ledger multiply intervals by, and the number of jobs behind
 * it. What they themselves were multiplied by is taken off first. */
enum lk_status lk_site_factor(const struct lk_ledger_pair *v, size_t n, double *out,
                              size_t *out_jobs);

/* Multiply the interval of what was not measured, and the distance of its draws from the estimate,
 * by a factor, on logarithms. No end goes below the prediction's bound. */
void lk_prediction_spread(struct lk_prediction *p, double factor);

#endif
