/*
 * The scaling law, which needs nothing but throughputs: a prior fitted to published measurements.
 *
 * y = ln(GPU-seconds a sample) at K ranks on N nodes with L = K / N ranks a node is
 *
 *     y = c + sum over effects f of theta_f f(K, N) + walk + error
 *
 * with the effects
 *     once       1 for K > 1  what being distributed costs at all: hooks, copies, a second process
 *     exchange   1 - 1/L      bytes that a ring moves a rank, in a node (notes: 2(K-1)/K m)
 *     skew       log2 L       waiting for the slowest of L ranks; latency of a tree
 *     contention (L - 1)/8    the host: input pipeline, memory, shared links; proportional to ranks
 *     crossing   1 - 1/N      the ring's bytes over the network
 *     hops       log2 N       skew and latency over nodes
 *     growth     h (h - 1)/2  with h = log2 N: losses of a doubling that grow from one to the next
 * theta_f ~ Normal(s mu_f, (s v mu_f)^2), with a v of its own for `once`: s is how much the series
 * communicates for its compute, ln s ~ Normal(0, omega^2). Contention is there or not (probability
 * `contended`). walk: a Brownian motion over log2 L and over log2 N, for the shape of a curve that
 * these effects miss. error: of the measurement (sigma) and of one configuration against its
 * neighbours (kappa s, K > 1), both times u, ln u ~ Normal(0, omega_u^2): some series are less
 * regular. At the forecast a resource may saturate that did not before (overlap used up, a link, a
 * host): with probability 1 - (1 - jump)^doublings y grows by Normal(s j, (s j)^2). `recovery`
 * times as likely is the end of a disturbance of the measured counts (a placement, another tenant):
 * y falls by as much.
 *
 * All effects but contention are times a step, part of which hides behind compute. With the local
 * batch B in place of B_0, of the row whose batch is nearest, they are multiplied by
 * (B_0 / B)^hidden, with A micro-batches a step by A^-amortised, compute is not, and `batch` of a
 * step of the largest measured batch, the host's time and launches, lasts as long whatever the
 * batch. So e, what the target loses at B_0, becomes
 *
 *     ln(1 + floor (B_0 / B - 1) + (exp(e) - 1) (B_0 / B)^hidden)
 *
 * and a step of fewer samples is never a longer one. Another batch also has another c, by a
 * Brownian motion over log2 of the batch.
 *
 * Two shapes that these effects lack, saturation and Amdahl's law, count by how well they explain
 * the rows (sim/curve_shapes.h). Nor does a forecast leave what the last counts of several
 * GPUs show: more GPUs bring no fewer samples a second unless the last two steps between counts
 * did, and a doubling grows by at most four times as much as the last one.
 *
 * Given s, u and contention all is normal; they are summed over a grid, which gives a mixture of
 * normals with skew and heavy tails, without draws. The constants are rows of LK_SCALING_LIST.
 */
#ifndef LK_SIM_THROUGHPUT_SCALING_H
#define LK_SIM_THROUGHPUT_SCALING_H

#include "base/mixture.h"
#include "base/status.h"
#include "facts/config.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * X(constant, value, text): the constants, fitted to published_scaling.csv: 110 series of tier A
 * (25 source files) and, with 0.3 of the weight, 160 of tier B (18 source files) and 40 of strong
 * scaling (8), three counts or more each. A series' weight is one over the square root of its
 * source's number of series. Units: ln of time a sample, ln of doublings, powers, probabilities.
 * `build/bench/accuracy_scaling --fit` goes on from these values; amortised, to which the fit is
 * indifferent from 0.4 to 0.8, is assumed.
 */
#define LK_SCALING_LIST(X)                                                                         \
    X(once, 0.02677, "mean of once's theta")                                                       \
    X(once_spread, 0.6797, "sd of it over its mean")                                               \
    X(exchange, 0.01716, "mean of exchange's theta")                                               \
    X(skew, 0.006704, "mean of skew's theta")                                                      \
    X(contention, 0.1968, "mean of contention's theta")                                            \
    X(crossing, 0.0702, "mean of crossing's theta")                                                \
    X(hops, 0.00953, "mean of hops' theta")                                                        \
    X(growth, 0.003766, "mean of growth's theta")                                                  \
    X(spread, 0.8428, "sd of a theta over its mean: v")                                            \
    X(contended, 0.1693, "probability of contention")                                              \
    X(walk, 0.01033, "walk a square root of a doubling in the node, over s u")                     \
    X(walk_nodes, 0.04522, "walk a square root of a doubling of the nodes, over s u")              \
    X(sigma, 0.002968, "sd of a measurement, over u")                                              \
    X(kappa, 0.007607, "sd of a configuration, over s u")                                          \
    X(omega, 0.5675, "sd of ln s")                                                                 \
    X(omega_u, 0.5837, "sd of ln u")                                                               \
    X(jump, 0.08524, "probability of a saturation a doubling")                                     \
    X(jump_size, 0.08064, "its mean and sd, over s")                                               \
    X(hidden, 0.6463, "power of B_0 / B in the effects of communication")                          \
    X(amortised, 0.5, "power of 1 / accumulation in them")                                         \
    X(batch, 0.09837, "share of a step of the largest measured batch that no batch shortens")      \
    X(batch_walk, 0.1117, "walk a square root of a doubling of the local batch")                   \
    X(serial, 0.06332, "probability of Amdahl's law")                                              \
    X(serial_share, 0.006767, "median of its serial share")                                        \
    X(serial_spread, 1.687, "sd of ln of it")                                                      \
    X(serial_error, 0.008323, "sd of a row by it")                                                 \
    X(recovery, 1, "probability of a recovery over that of a saturation; this and below assumed")  \
    X(saturated, 0.01, "probability that throughput ceased to grow within the rows")               \
    X(falling, 0.03, "median of what y then rises by a doubling beyond ln 2")                      \
    X(falling_spread, 1.2, "sd of ln of it")                                                       \
    X(levelled, 0.02, "sd of a row then")

struct lk_scaling_prior {
#define LK_SCALING_FIELD_(field, value, text) double field;
    LK_SCALING_LIST(LK_SCALING_FIELD_)
#undef LK_SCALING_FIELD_
};
enum { LK_SCALING_CONSTANT_COUNT = sizeof(struct lk_scaling_prior) / sizeof(double) };

extern const struct lk_scaling_prior lk_scaling_default;

enum { LK_SCALING_POINTS_MAX = 64 };

/* The law of n points (1..LK_SCALING_POINTS_MAX), in any order, and a target: what of it does not
 * depend on another model of the points. */
struct lk_scaling_law;

/* Make it; all is copied. beside_steps: a step model says what communication costs, of which a
 * share is left to the law, and what another local batch does, of which nothing is. */
enum lk_status lk_scaling_law_create(const struct lk_scaling_prior *prior,
                                     const struct lk_scaling_point *points, size_t n,
                                     const struct lk_scaling_point *target, bool beside_steps,
                                     struct lk_scaling_law **out);
void lk_scaling_law_destroy(struct lk_scaling_law *law); /* NULL is legal */

/*
 * Add to *out the distribution of y at the target given the points. The weight of each part
 * includes how well it explains the points, so several calls (other models) may add to one mixture.
 * model: y of each point, and then of the target, as another model predicts it, up to a constant
 * that is common to all; NULL: none. log_weight is of this call. Normalise *out before use.
 */
enum lk_status lk_scaling_law_add(const struct lk_scaling_law *law, const double *model,
                                  double log_weight, struct lk_mixture *out);
/* All three, without another model. */
enum lk_status lk_scaling_predict(const struct lk_scaling_prior *prior,
                                  const struct lk_scaling_point *points, size_t n,
                                  const struct lk_scaling_point *target, struct lk_mixture *out);

/* Return y of a point. */
double lk_scaling_y(const struct lk_scaling_point *p);

#endif
