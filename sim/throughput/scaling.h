/*
 * The scaling law, which needs nothing but throughputs: a prior fitted to published measurements.
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
 * theta_f ~ Normal(s mu_f, (s v mu_f)^2): s is how much the series communicates for its compute,
 * ln s ~ Normal(0, omega^2). Contention is there or not (probability `contended`). walk: a Brownian
 * motion over log2 L and over log2 N, for the shape of a curve that these effects miss. error: of
 * the measurement (sigma) and of one configuration against its neighbours (kappa s, K > 1), both
 * times u, ln u ~ Normal(0, omega_u^2): some series are less regular. At the forecast a resource
 * may saturate that did not before (overlap used up, a link, a host): with probability 1 - (1 -
 * jump)^doublings y grows by Normal(s j, (s j)^2). `recovery` times as likely is the end of a
 * disturbance of the measured counts (a placement, another tenant): y falls by as much.
 *
 * Exchange, skew, crossing and hops are times a step, so with B samples a rank and step in place of
 * B_0 (another accumulation or local batch) they are multiplied by B_0 / B. Another local batch
 * also has another c, by a Brownian motion over its log2 (`batch`).
 *
 * Given s, u and contention all is normal; they are summed over a grid, which gives a mixture of
 * normals with skew and heavy tails, without draws. The constants are rows of LK_SCALING_LIST.
 */
#ifndef LK_SIM_THROUGHPUT_SCALING_H
#define LK_SIM_THROUGHPUT_SCALING_H

#include "base/config.h"
#include "base/status.h"

#include <stddef.h>

/* A mixture of normal distributions in one dimension: a forecast when several models of the same
 * measurements remain possible. */
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

/*
 * X(constant, value, text): the constants, fitted to published_scaling.csv: 110 series of tier A
 * (25 source files) and, with 0.3 of the weight, 160 of tier B (18 source files), three counts or
 * more each. A series' weight is one over the square root of its source's number of series. Units:
 * ln of time a sample, ln of doublings, probabilities. `build/bench/accuracy_scaling --fit` prints
 * the values.
 */
#define LK_SCALING_LIST(X)                                                                         \
    X(exchange, 0.06493, "mean of exchange's theta")                                               \
    X(skew, 0.00517, "mean of skew's theta")                                                       \
    X(contention, 0.3257, "mean of contention's theta")                                            \
    X(crossing, 0.0573, "mean of crossing's theta")                                                \
    X(hops, 0.0179, "mean of hops' theta")                                                         \
    X(spread, 0.3476, "sd of a theta over its mean: v")                                            \
    X(contended, 0.1678, "probability of contention")                                              \
    X(walk, 0.01733, "walk a square root of a doubling in the node, over s u")                     \
    X(walk_nodes, 0.05415, "walk a square root of a doubling of the nodes, over s u")              \
    X(sigma, 0.00346, "sd of a measurement, over u")                                               \
    X(kappa, 0.009103, "sd of a configuration, over s u")                                          \
    X(omega, 0.6927, "sd of ln s")                                                                 \
    X(omega_u, 0.4059, "sd of ln u")                                                               \
    X(jump, 0.05762, "probability of a saturation a doubling")                                     \
    X(jump_size, 0.09663, "its mean and sd, over s")                                               \
    X(recovery, 1, "probability of a recovery over that of a saturation; assumed, not fitted")

struct lk_scaling_prior {
#define LK_SCALING_FIELD_(field, value, text) double field;
    LK_SCALING_LIST(LK_SCALING_FIELD_)
#undef LK_SCALING_FIELD_
};
enum { LK_SCALING_CONSTANT_COUNT = sizeof(struct lk_scaling_prior) / sizeof(double) };

extern const struct lk_scaling_prior lk_scaling_default;

enum { LK_SCALING_POINTS_MAX = 64 };

/*
 * Add to *out the distribution of y at `target` given n points (1..LK_SCALING_POINTS_MAX), in any
 * order. The weight of each part includes how well it explains the points, so several calls (other
 * models) may add to one mixture. model_share: the share of exchange, crossing and hops that is
 * left to the law where points have another model of the communication; 1 without. log_weight is of
 * this call. Normalise *out before use.
 */
enum lk_status lk_scaling_predict(const struct lk_scaling_prior *prior,
                                  const struct lk_scaling_point *points, size_t n,
                                  const struct lk_scaling_point *target, double model_share,
                                  double log_weight, struct lk_mixture *out);

/* Return y of a point. */
double lk_scaling_y(const struct lk_scaling_point *p);

#endif
