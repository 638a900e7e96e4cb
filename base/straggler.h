/*
 * The straggler law from measured compute times: which ranks stand out, how the others spread, and
 * whether the times have a heavy tail. All relative to the compute time.
 */
#ifndef LK_BASE_STRAGGLER_H
#define LK_BASE_STRAGGLER_H

#include "base/stats.h"
#include "base/status.h"

#include <stddef.h>

/* The ranks that keep the common pace. */
struct lk_pace {
    double mean;
    double sum_sq; /* of their deviations, relative to the mean */
    size_t n;      /* the fastest n */
};
/*
 * Sorts v, n ranks' mean times. A rank stands out when it is above the mean of those faster by 5 %
 * and by 4 sd: of their spread, with two more ranks of sd `prior`, and of `noise`, the sd of a
 * rank's mean itself. The fastest half is never slow, so that slow ranks do not hide each other.
 */
struct lk_pace lk_straggler_pace(double *v, size_t n, double prior, double noise);

/*
 * Variance components of times v[repetition * ranks + rank], two-way (Searle, Casella, McCulloch
 * 1992, ch. 4): what a rank keeps, what all ranks share in a repetition, and the rest. n of an
 * estimate 0: it cannot be told from these, and its value is 0.
 *
 * Tail by peaks over threshold: residuals around their rank's median beyond 3 sd (1.4826 MAD). With
 * 20 of them, and 3 times as many as a normal law has, a generalised Pareto law is fitted by
 * probability-weighted moments (Hosking, Wallis 1987), shape 0 to 0.9, and carried back from the
 * threshold to an excess that begins at 0, which is how the step model adds it; the transient is
 * then what is below. Without: tail_share.n is 0.
 */
struct lk_straggler_fit {
    struct lk_estimate rank_sd, common_sd, transient_sd;
    struct lk_estimate tail_share, tail_scale, tail_shape; /* scale: the mean excess */
};
/* Intervals of 90 %: a bootstrap over repetitions. pre: n > 1, ranks > 0, all v above 0. Ranks that
 * stand out are the caller's to leave out. */
enum lk_status lk_straggler_fit(const double *v, size_t n, size_t ranks,
                                struct lk_straggler_fit *out);

#endif
