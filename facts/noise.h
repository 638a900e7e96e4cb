/*
 * The gradient noise scale: McCandlish, Kaplan, Amodei and the OpenAI Dota team 2018, "An empirical
 * model of large-batch training", appendix A.1. It tells up to which global batch larger batches
 * pay.
 *
 * A gradient averaged over B samples has E|G_B|^2 = |G|^2 + tr(Sigma) / B. Two batch sizes, the one
 * averaged on a rank (B_small, norms averaged over the ranks) and the global one (B_big), give
 * unbiased estimates in every step:
 *
 *     |G|^2     = (B_big |G_big|^2 - B_small |G_small|^2) / (B_big - B_small)
 *     tr(Sigma) = (|G_small|^2 - |G_big|^2) / (1 / B_small - 1 / B_big)
 *
 * The simple noise scale is tr(Sigma) / |G|^2, in samples. The ratio of two noisy numbers is
 * biased, so both are averaged over the steps first (equation A.3 and the text after it).
 */
#ifndef LK_FACTS_NOISE_H
#define LK_FACTS_NOISE_H

#include "base/stats.h"
#include "base/status.h"

#include <stddef.h>

struct lk_noise {
    double b_small, b_big; /* samples */
    double *gradient_sq;   /* |G|^2 of each step */
    double *trace;         /* tr(Sigma) of each step */
    size_t n, gradient_capacity, trace_capacity;
};

/* Start an estimate. b_small == b_big (one rank) gives none. pre: 0 < b_small <= b_big. */
void lk_noise_init(struct lk_noise *e, double b_small, double b_big);
void lk_noise_fini(struct lk_noise *e);
/* Add one step: the mean over ranks of |G_small|^2, and |G_big|^2. */
enum lk_status lk_noise_add(struct lk_noise *e, double small_sq, double big_sq);
/*
 * Estimate the noise scale over all steps added, with a 90 % interval by a delete-one-block
 * jackknife of its logarithm (blocks of consecutive steps, because steps are correlated). value
 * NaN: not estimable (one batch size, fewer than 2 steps, or a mean that is not positive); hi
 * INFINITY: the data do not bound it from above.
 */
struct lk_estimate lk_noise_estimate(const struct lk_noise *e);

#endif
