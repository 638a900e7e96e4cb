/*
 * These functions compute the goodput of a data-parallel job, and its cost and time to a target (a
 * loss or accuracy that the user chose, given here as the number of samples that reach it). Money
 * is in the unit of the price, whichever it is.
 *
 * More GPUs make the global batch larger, and a larger batch learns less from each sample. After
 * McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training"
 * (arXiv:1812.06162), with the gradient noise scale B_noise in samples:
 *
 *     samples to the target   E = E_min (1 + B / B_noise)
 *     steps to the target     S = S_min (1 + B_noise / B),  E_min = S_min B_noise
 *     statistical efficiency  E_min / E = 1 / (1 + B / B_noise)
 *
 * B_noise is thus the critical batch: there twice the samples and twice the steps are needed. The
 * model leaves out that the noise scale grows while training (use its mean over the run), a
 * generalization gap, learning rates that were not tuned. As a surrogate of the critical batch the
 * noise scale has been questioned for language models (Merrill et al. 2025, arXiv:2505.23971).
 */
#ifndef LK_SIM_PLANNING_ECONOMICS_H
#define LK_SIM_PLANNING_ECONOMICS_H

#include "base/quantity.h"
#include "base/stats.h"
#include "facts/forecast.h"

#include <stdint.h>

/*
 * Goodput is the share of a long run's time that is training, when GPUs fail and the job restarts
 * from its last checkpoint.
 *
 * Failures are memoryless, and any one stops the whole job, because training is synchronous: the
 * mean time between them is M = mtbf / world_size. After every `period` of training a checkpoint
 * stops it for `write`. A failure loses what came after the last checkpoint and costs `restart` (to
 * notice, replace the device, start and load), in which failures come as well. A period then takes
 * on average
 *
 *     M exp(restart / M) (exp((period + write) / M) - 1)
 *
 * (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
 * Future Generation Computer Systems 22, 2006). The best period does not depend on `restart`; to
 * first order it is sqrt(2 write M) (J. W. Young, CACM 17, 1974). The model leaves out failures in
 * bursts, machines that run on with fewer GPUs, slow devices that do not fail.
 */
struct lk_goodput {
    double mtbf_s;  /* mean time between failures of one GPU that stop the job, of any cause; > 0 */
    double write_s; /* time for which a checkpoint stops training; >= 0 */
    double restart_s; /* time from the failure to the first step after it; >= 0 */
};

/* Return the time of training between two checkpoints that loses least, s; 0 when a checkpoint
 * costs nothing. pre: world_size > 0. */
double lk_goodput_best_period_s(const struct lk_goodput *g, int world_size);

/*
 * Return the goodput, 0..1, with a checkpoint every period_s of training. It is 0
 * where failures come so often that nothing is ever finished (to the range of a double).
 */
double lk_goodput_share(const struct lk_goodput *g, int world_size, double period_s);

/* Inputs common to all points. One that is not known has NaN in value, lo and hi. */
struct lk_economics {
    struct lk_estimate price_per_hour; /* money an hour of one GPU */
    struct lk_estimate power_W;        /* of one GPU with its share of the node */
    struct lk_estimate noise_scale;    /* B_noise, samples */
    struct lk_estimate target_samples; /* E_min: samples that reach the target in small batches */
};

/* Inputs of one point. */
struct lk_economics_point {
    int world_size;
    double global_batch;        /* B, samples a step of all ranks */
    struct lk_estimate step_s;  /* time of a training step */
    struct lk_estimate goodput; /* 0..1; 1: no failures */
};

/* Return the estimate of an input that is exactly x, and of one that is not known. */
struct lk_estimate lk_economics_known(double x);
struct lk_estimate lk_economics_unknown(void);
/* Return an option's value if it is above 0, else q with its interval, else unknown. */
struct lk_estimate lk_economics_input(double option, const struct lk_quantity *q);

/* Return E_min / E = 1 / (1 + B / B_noise): times the samples that reached the target at a batch,
 * it gives E_min. pre: both > 0. */
double lk_statistical_efficiency(double batch, double noise_scale);

/*
 * Set the members of a plan from its cost_per_step to its cost_to_target_hi; NaN where an input is
 * not known. Costs are money of all GPUs. Goodput is in the time and cost to the target and in cost
 * and energy of a million samples, not in the cost of a step. Intervals are those of step, goodput,
 * noise scale, target and price, taken as independent: each is moved to its bounds alone, and the
 * logarithms of the effects are added as squares.
 */
void lk_economics_at(const struct lk_economics *e, const struct lk_economics_point *p,
                     struct lk_plan *out);

/*
 * Set the plan's learning rates at global batch `batch`, where `rate` was tuned at tuned_batch; NaN
 * by the noise rule when noise_scale is NaN. All batches are in samples. pre: batches > 0.
 *
 * linear: Goyal et al. 2017 (arXiv:1706.02677), for SGD with warm-up; they saw no loss of accuracy
 * up to 8192 images of ImageNet and a clear one beyond. sqrt: Malladi et al. 2022
 * (arXiv:2205.10287), for Adam and RMSprop. noise: the best rate of a step is e / (1 + B_noise / B)
 * (McCandlish et al., equation of the optimal step): linear far below B_noise, constant far above.
 */
void lk_learning_rates(double rate, double tuned_batch, double batch, double noise_scale,
                       struct lk_plan *out);

/* The largest batch, in samples, at which the linear rule was seen to hold on ImageNet. */
#define LK_RATE_GOYAL_BATCH 8192

#endif
