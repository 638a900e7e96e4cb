/*
 * Throughputs fitted: the scaling law, alone or weighed with a step model, of whose draws
 * (sim/throughput/step_prior.h) those count that explain the rows. Forecast and validation predict
 * with it.
 */
#ifndef LK_SIM_THROUGHPUT_THROUGHPUT_FIT_H
#define LK_SIM_THROUGHPUT_THROUGHPUT_FIT_H

#include "base/stats.h"
#include "sim/throughput/scaling.h"
#include "sim/throughput/step_prior.h"
#include "sim/throughput/throughput.h"

#include <stdbool.h>

struct lk_step_fit;

/* Keep one of so many draws of a prior: what the rows rule out needs no forecast. */
enum { LK_STEP_FIT_PROPOSALS = 8 };

struct lk_throughput_fit {
    struct lk_scaling_point points[LK_SCALING_POINTS_MAX];
    size_t n;
    struct lk_step_fit *step;        /* the step model fitted to the rows; NULL: none */
    struct lk_step_prior *elsewhere; /* of another machine than the rows', with the same seed:
                                        predictions are of it; NULL: of theirs. Borrowed */
    double step_odds; /* of the step model against the law, by the rows; 0: no model */
    double effective; /* draws' worth of evidence behind it */
};

/*
 * Fits 1 to LK_SCALING_POINTS_MAX points, which are copied; with a step model their local batches
 * are known. step: borrowed, outlives the fit; NULL: the law alone. The fit must not be moved.
 * LK_EEVIDENCE: no draw explains the rows, e.g. where the cluster's collectives take longer than
 * the measured steps.
 */
enum lk_status lk_throughput_fit_init(struct lk_throughput_fit *f, struct lk_step_prior *step,
                                      const struct lk_scaling_point *points, size_t n);
void lk_throughput_fit_fini(struct lk_throughput_fit *f); /* zeroes it; safe on a zeroed one */

/*
 * Predicts samples a second at the target: median and interval. With a step model both models are
 * weighed by how well they explain the rows, from equal odds; the law is left out where it cannot
 * know the answer: several nodes when none were measured. Where buckets, the exchange of gradients
 * or the machine are not the rows', its answer is changed as the step model's is.
 */
enum lk_status lk_throughput_fit_at(struct lk_throughput_fit *f,
                                    const struct lk_scaling_point *target, double level,
                                    struct lk_estimate *out);

/* Computes the losses of the target's step in shares of it, mean over draws. pre: a step model. */
enum lk_status lk_throughput_fit_losses(struct lk_throughput_fit *f,
                                        const struct lk_scaling_point *target,
                                        double out_shares[LK_LOSS_COUNT]);

#endif
