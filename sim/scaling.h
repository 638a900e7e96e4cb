/*
 * The scaling law that needs nothing but throughputs: what published measurements have in common.
 *
 * y = ln(GPU-seconds a sample) at K ranks on N nodes with L = K / N ranks a node is
 *
 *     y = c + sum over effects f of theta_f f(K, N) + walk + error
 *
 * with the effects
 *     exchange   1 - 1/L     bytes that a ring moves a rank, in a node (notes: 2(K-1)/K m)
 *     skew       log2 L      waiting for the slowest of L ranks; latency of a tree
 *     contention (L - 1)/8   the host: input pipeline, memory, shared links; proportional to ranks
 *     crossing   1 - 1/N     the ring's bytes over the network
 *     hops       log2 N      skew and latency over nodes
 * theta_f ~ Normal(s mu_f, (s v mu_f)^2): s says how much the series communicates for its compute,
 * ln s ~ Normal(0, omega^2). Contention is there or not (probability `contended`). walk: a Brownian
 * motion over log2 L and over log2 N, for the shape of a curve that these effects miss. error: of
 * the measurement (sigma) and of one configuration against its neighbours (kappa s, K > 1), both
 * times u, ln u ~ Normal(0, omega_u^2): some series are less regular. At the forecast something may
 * also saturate that did not before (overlap used up, a link, a host): probability
 * 1 - (1 - jump)^doublings, then Normal(s j, (s j)^2) more. `recovery` times as likely, what
 * hindered the counts that were measured (a placement, another tenant, a disturbed run) is gone: as
 * much less.
 *
 * Exchange, skew, crossing and hops are times a step, so with B samples a rank and step in place of
 * B_0 they count B_0 / B as much: accumulation and local batch. Another local batch also has
 * another c, by a Brownian motion over its log2 (`batch`).
 *
 * Given s, u and contention all is normal; they are summed over a grid, which gives a mixture of
 * normals with skew and heavy tails, without draws. The constants are rows of LK_SCALING_LIST.
 */
#ifndef LK_SIM_SCALING_H
#define LK_SIM_SCALING_H

#include "base/status.h"
#include "sim/mixture.h"

#include <stddef.h>
#include <stdint.h>

/* A measurement, or what is asked for (throughput unused). */
struct lk_scaling_point {
    double gpus, nodes;
    double local_batch; /* 0: not known, the same for all */
    double accumulation;
    double throughput;  /* samples a second, all ranks */
    uint64_t cap_bytes; /* of DDP's buckets; 0: the job's. The law knows nothing of it */
    /* What another model says of ln(GPU-seconds a sample), up to a constant; 0: none. */
    double model;
};

/* The constants; LK_SCALING_LIST in sim/scaling_prior.h has their values. */
#define LK_SCALING_CONSTANTS(X)                                                                    \
    X(exchange, "mean of exchange's theta")                                                        \
    X(skew, "mean of skew's theta")                                                                \
    X(contention, "mean of contention's theta")                                                    \
    X(crossing, "mean of crossing's theta")                                                        \
    X(hops, "mean of hops' theta")                                                                 \
    X(spread, "sd of a theta over its mean: v")                                                    \
    X(contended, "probability of contention")                                                      \
    X(walk, "walk a square root of a doubling in the node, over s u")                              \
    X(walk_nodes, "walk a square root of a doubling of the nodes, over s u")                       \
    X(sigma, "sd of a measurement, over u")                                                        \
    X(kappa, "sd of a configuration, over s u")                                                    \
    X(omega, "sd of ln s")                                                                         \
    X(omega_u, "sd of ln u")                                                                       \
    X(jump, "probability of a saturation a doubling")                                              \
    X(jump_size, "its mean and sd, over s")                                                        \
    X(recovery, "probability of a recovery over that of a saturation; assumed, not fitted")

struct lk_scaling_prior {
#define LK_SCALING_FIELD_(field, text) double field;
    LK_SCALING_CONSTANTS(LK_SCALING_FIELD_)
#undef LK_SCALING_FIELD_
};
enum { LK_SCALING_CONSTANT_COUNT = sizeof(struct lk_scaling_prior) / sizeof(double) };

extern const struct lk_scaling_prior lk_scaling_default;
extern const char *const lk_scaling_constant_names[LK_SCALING_CONSTANT_COUNT];

enum { LK_SCALING_POINTS_MAX = 64 };

/*
 * Adds to *out what y may be at `target` given n points (1..LK_SCALING_POINTS_MAX), in any order;
 * each part's weight includes how well it explains the points, so several calls (other models) may
 * add to one mixture. model_share: the share of exchange, crossing and hops that is left to the law
 * where points carry another model of what is communicated; 1 without. log_weight: of this call.
 * Normalise *out before use.
 */
enum lk_status lk_scaling_predict(const struct lk_scaling_prior *prior,
                                  const struct lk_scaling_point *points, size_t n,
                                  const struct lk_scaling_point *target, double model_share,
                                  double log_weight, struct lk_mixture *out);

/* y of a point. */
double lk_scaling_y(const struct lk_scaling_point *p);

#endif
