/*
 * Cost and time to a target of a data-parallel job.
 *
 * More GPUs make the global batch larger, and a larger batch learns less from each sample. After
 * McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training"
 * (arXiv:1812.06162), with the gradient noise scale B_noise in samples:
 *
 *     samples to the target   E = E_min (1 + B / B_noise)
 *     steps to the target     S = S_min (1 + B_noise / B),  E_min = S_min B_noise
 *     statistical efficiency  E_min / E = 1 / (1 + B / B_noise)
 *
 * B_noise is thus the critical batch: there twice the samples and twice the steps are needed. Not
 * in it: that the noise scale grows while training (use its mean over the run), a generalization
 * gap, learning rates that were not tuned. As a stand-in for the critical batch the noise scale has
 * been questioned for language models (Merrill et al. 2025, arXiv:2505.23971).
 */
#ifndef LK_SIM_ECONOMICS_H
#define LK_SIM_ECONOMICS_H

#include "base/stats.h"

#include <stdint.h>

/* A value that is not known has NaN; lo and hi are then NaN too. */
struct lk_economics {
    struct lk_estimate price_per_hour; /* of a GPU */
    struct lk_estimate power_W;        /* of a GPU with its share of the node */
    struct lk_estimate noise_scale;    /* samples */
    struct lk_estimate target_samples; /* E_min: to the target with small batches */
};

struct lk_economics_point {
    int gpus;
    double global_batch;        /* samples a step */
    struct lk_estimate step_s;  /* of training */
    struct lk_estimate goodput; /* share of the time that is training; 1: no failures */
};

/* What follows; NaN where an input is not known. Failures are in time and cost of the target and of
 * a million samples, not in those of a step. */
struct lk_economics_result {
    double cost_per_step, cost_per_million, energy_per_million_kWh;
    double statistical_efficiency;
    double samples_to_target, steps_to_target;
    struct lk_estimate time_to_target_s, cost_to_target;
};

/* The estimate of a quantity that is known as x, within its interval or exactly. */
struct lk_estimate lk_economics_known(double x);
struct lk_estimate lk_economics_unknown(void);

/* 1 / (1 + B / B_noise). pre: both > 0. */
double lk_statistical_efficiency(double batch, double noise_scale);

/*
 * E_min from the samples that reached the target at this batch. pre: as above.
 */
double lk_target_samples(double samples, double batch, double noise_scale);

/*
 * Intervals are those of step, goodput, noise scale, target and price, taken as independent: each
 * is moved to its bounds alone, and the logarithms of the effects are added as squares.
 */
void lk_economics_at(const struct lk_economics *e, const struct lk_economics_point *p,
                     struct lk_economics_result *out);

/*
 * X(rule, key, text): what a learning rate that was tuned for batch B0 becomes at B.
 *
 * linear: Goyal et al. 2017 (arXiv:1706.02677), for SGD with warm-up; they saw no loss of accuracy
 * up to 8192 images of ImageNet and a clear one beyond. sqrt: Malladi et al. 2022
 * (arXiv:2205.10287), for Adam and RMSprop. noise: the best rate of a step is e / (1 + B_noise / B)
 * (McCandlish et al., equation of the optimal step): linear far below B_noise, constant far above.
 */
#define LK_RATE_RULE_LIST(X)                                                                       \
    X(LK_RATE_LINEAR, "linear", "linear scaling rule")                                             \
    X(LK_RATE_SQRT, "sqrt", "square-root rule")                                                    \
    X(LK_RATE_NOISE, "noise", "noise-scale rule")

enum lk_rate_rule {
#define LK_RATE_ENUM_(rule, key, text) rule,
    LK_RATE_RULE_LIST(LK_RATE_ENUM_)
#undef LK_RATE_ENUM_
        LK_RATE_RULE_COUNT
};

/* NaN where the noise rule has no noise scale. pre: batches > 0. */
double lk_learning_rate(enum lk_rate_rule rule, double rate, double tuned_batch, double batch,
                        double noise_scale);

/* Up to here the linear rule was seen to hold on ImageNet, samples. */
#define LK_RATE_GOYAL_BATCH 8192

#endif
