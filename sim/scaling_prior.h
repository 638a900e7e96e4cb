/*
 * Constants of the scaling law (sim/scaling.h), fitted to published_scaling.csv: 110 series of tier
 * A (25 source files) and, with 0.3 of the weight, 160 of tier B (18 source files), three counts or
 * more each, a series' weight one over the square root of its source's number of series.
 * `build/bench/accuracy_scaling --fit` prints these rows.
 */
#ifndef LK_SIM_SCALING_PRIOR_H
#define LK_SIM_SCALING_PRIOR_H

#include "sim/scaling.h"

/* X(constant, value); units: ln of time a sample, ln of doublings, probabilities. */
#define LK_SCALING_LIST(X)                                                                         \
    X(exchange, 0.06493)                                                                           \
    X(skew, 0.00517)                                                                               \
    X(contention, 0.3257)                                                                          \
    X(crossing, 0.0573)                                                                            \
    X(hops, 0.0179)                                                                                \
    X(spread, 0.3476)                                                                              \
    X(contended, 0.1678)                                                                           \
    X(walk, 0.01733)                                                                               \
    X(walk_nodes, 0.05415)                                                                         \
    X(sigma, 0.00346)                                                                              \
    X(kappa, 0.009103)                                                                             \
    X(omega, 0.6927)                                                                               \
    X(omega_u, 0.4059)                                                                             \
    X(jump, 0.05762)                                                                               \
    X(jump_size, 0.09663)                                                                          \
    X(recovery, 1)

#endif
