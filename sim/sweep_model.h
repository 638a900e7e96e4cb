/*
 * The step model made fast for sweeps: what configurations have in common is computed once.
 *
 * A network shape (ranks, caps, scheme) has its collectives, and how their cost moves in every
 * draw, the slowest link's included. A local batch has its compute. The ranks' law has that of the
 * slowest (sim/slowest.h), tail and known ranks included. A configuration is then one rank whose
 * compute is the slowest's mean, simulated without randomness at a few factors of its collectives'
 * cost; a draw is a look-up:
 *
 *     t_i = fixed + x_i (T(f_i / x_i) - fixed),   f_i: cost, x_i: compute, over the estimate's
 *
 * since the step scales with its durations; fixed is optimizer and gap. The limits: all collectives
 * of a draw move as the one in the middle of the cost does; one rank is the slowest of a whole
 * micro-batch; a node's share in the effects is as a rank's; effects are those of the job's current
 * batch; a fresh run's 50 steps are their mean. The anchor is treated alike, so most of what this
 * leaves out cancels. tests/test_grid.c holds it against sim/predictor.h.
 */
#ifndef LK_SIM_SWEEP_MODEL_H
#define LK_SIM_SWEEP_MODEL_H

#include "base/status.h"
#include "sim/sweep.h"

struct lk_sweep_model;

enum lk_status lk_sweep_model_create(struct lk_predictor *p, struct lk_sweep_model **out);
void lk_sweep_model_destroy(struct lk_sweep_model *m); /* NULL is legal */
/*
 * Fills a point whose configuration is set and its draws. LK_EEVIDENCE or LK_EUSAGE: it cannot be
 * predicted; the error text may be of an earlier configuration with the same lack.
 */
enum lk_status lk_sweep_model_at(struct lk_sweep_model *m, struct lk_sweep_point *point,
                                 double *draws_s);

#endif
