/* Learning-rate schedule: linear warm-up, and the linear scaling rule. */
#ifndef LK_RUNTIME_SCHEDULE_H
#define LK_RUNTIME_SCHEDULE_H

#include "runtime/optim.h"

#include <stdint.h>

/*
 * Rate of step 0, 1, ...: the configured rate, times global_batch / reference_batch when a
 * reference batch is set (Goyal et al. 2017, "Accurate, large minibatch SGD", section 2.1), times
 * (step + 1) / warmup_steps during the warm-up (section 2.2, growing from near 0 instead of the
 * unscaled rate, so that one schedule serves all batches). Constant afterwards.
 * pre: step >= 0, global_batch > 0.
 */
double lk_schedule_rate(const struct lk_optim_config *config, int64_t step, int64_t global_batch);

#endif
