/*
 * The step model fitted to measured throughputs: of the draws of sim/step_prior.h, those that
 * explain the rows.
 *
 * In each draw the compute time of every local batch is solved for, so that the step of that
 * batch's smallest count is met; the other rows then weigh the draw. What the step model misses is
 * left to the scaling law (sim/scaling.h): contention and skew within a node, irregularity, and a
 * share of its communication. A row is
 *
 *     y = ln(step of the draw) + law with that share
 *
 * so that a forecast is a mixture over draws and cells of the law, and its evidence can be held
 * against that of the law alone.
 */
#ifndef LK_SIM_STEP_FIT_H
#define LK_SIM_STEP_FIT_H

#include "base/forecast.h"
#include "base/status.h"
#include "sim/mixture.h"
#include "sim/scaling.h"
#include "sim/step_prior.h"

#include <stddef.h>

struct lk_step_fit;

/* Draws of a prior of which one is kept: what the rows rule out needs no forecast. */
enum { LK_STEP_FIT_PROPOSALS = 8 };

/*
 * points: n of them (1..LK_SCALING_POINTS_MAX), local batches known, copied; prior, law: borrowed,
 * outlive the fit. LK_EEVIDENCE: no draw explains the rows, e.g. collectives that by the cluster
 * take longer than the whole step.
 */
enum lk_status lk_step_fit_create(struct lk_step_prior *prior, const struct lk_scaling_prior *law,
                                  double share, const struct lk_scaling_point *points, size_t n,
                                  struct lk_step_fit **out);
void lk_step_fit_destroy(struct lk_step_fit *f); /* NULL is legal */

/* Adds to *out what y may be at target, as lk_scaling_predict does. */
enum lk_status lk_step_fit_predict(struct lk_step_fit *f, const struct lk_scaling_point *target,
                                   double log_weight, struct lk_mixture *out);
/* Where the target's step goes, in shares of it, mean over draws. */
enum lk_status lk_step_fit_losses(struct lk_step_fit *f, const struct lk_scaling_point *target,
                                  double out_shares[LK_LOSS_COUNT]);
const struct lk_cluster *lk_step_fit_cluster(const struct lk_step_fit *f);
/* Draws' worth of evidence: (sum w)^2 / sum w^2. Few: the interval is made of few accounts. */
double lk_step_fit_effective(const struct lk_step_fit *f);
/* ln of the density that the fit gives the rows, as the sum of lk_scaling_predict's weights is the
 * law's when its points carry the first row's y as their model. */
double lk_step_fit_log_evidence(const struct lk_step_fit *f);

#endif
