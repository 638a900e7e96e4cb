/*
 * A mixture of normal distributions: what a forecast is when several accounts of the same
 * measurements remain possible. One dimension.
 */
#ifndef LK_SIM_MIXTURE_H
#define LK_SIM_MIXTURE_H

#include "base/status.h"

#include <stddef.h>

struct lk_mixture_part {
    double log_weight; /* up to a constant common to all parts */
    double mean, sd;   /* sd > 0 */
};

struct lk_mixture {
    struct lk_mixture_part *parts;
    size_t n, capacity;
};

void lk_mixture_fini(struct lk_mixture *m); /* zeroes it; safe on a zeroed one */
enum lk_status lk_mixture_add(struct lk_mixture *m, double log_weight, double mean, double sd);
/* Adds the parts of a normalised mixture, which together weigh exp(log_weight). */
enum lk_status lk_mixture_append(struct lk_mixture *m, const struct lk_mixture *from,
                                 double log_weight);
/* Makes the weights sum to 1 and drops parts below 1e-9 of that; *out_log_sum (NULL is legal):
 * ln of their sum before. pre: n > 0. */
void lk_mixture_normalise(struct lk_mixture *m, double *out_log_sum);
/* Of a normalised mixture. */
double lk_mixture_cdf(const struct lk_mixture *m, double x);
double lk_mixture_log_density(const struct lk_mixture *m, double x);
/* To 1e-9 of the mixture's own width. pre: 0 < q < 1. */
double lk_mixture_quantile(const struct lk_mixture *m, double q);

#endif
