/*
 * Pollux's model of throughput (Qiao et al., "Pollux: Co-adaptive cluster scheduling for
 * goodput-optimized deep learning", OSDI 2021, section 3.2), a baseline:
 *
 *     T_grad = alpha_c + beta_c m                                  m: local batch
 *     T_sync = 0 (K = 1); alpha_r + beta_r (K - 2) on one node; alpha_n + beta_n (K - 2) on several
 *     T      = (T_grad^gamma + T_sync^gamma)^(1/gamma) + (accumulation - 1) T_grad
 *
 * fitted as the paper says: least root mean square error of ln T, all parameters >= 0, gamma 1..10;
 * those of a kind of placement that no row has are 0, and the betas are where no row has more than
 * two ranks; a small penalty on gamma - 1 and on beta / alpha, as the authors' implementation has.
 */
#ifndef LK_SIM_POLLUX_H
#define LK_SIM_POLLUX_H

#include "sim/baseline.h"

#include <stddef.h>

/* Throughput at target, given n points in any order; NaN: none, or more than
 * LK_POLLUX_POINTS_MAX. */
enum { LK_POLLUX_POINTS_MAX = 64 };
double lk_pollux_throughput(const struct lk_scale_point *points, size_t n,
                            const struct lk_scale_point *target);

#endif
