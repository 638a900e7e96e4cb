/*
 * A mixture of normal distributions in one dimension: a forecast when several models of the same
 * measurements remain possible.
 */
#ifndef LK_BASE_MIXTURE_H
#define LK_BASE_MIXTURE_H

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

/* Return ln of the sum of two weights, given as logarithms. */
double lk_log_add(double a, double b);

void lk_mixture_fini(struct lk_mixture *m); /* zeroes it; safe on a zeroed one */
enum lk_status lk_mixture_add(struct lk_mixture *m, double log_weight, double mean, double sd);
/* Add the parts of a normalised mixture, which together weigh exp(log_weight). */
enum lk_status lk_mixture_append(struct lk_mixture *m, const struct lk_mixture *from,
                                 double log_weight);
/* Make the weights sum to 1 and drop parts below 1e-9 of that. *out_log_sum (NULL is legal) is ln
 * of their sum before. pre: n > 0. */
void lk_mixture_normalise(struct lk_mixture *m, double *out_log_sum);
/* Return the distribution function of a normalised mixture. */
double lk_mixture_cdf(const struct lk_mixture *m, double x);
/* Return a quantile of a normalised mixture, to 1e-9 of its width. pre: 0 < q < 1. */
double lk_mixture_quantile(const struct lk_mixture *m, double q);

#endif
