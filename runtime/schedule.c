#include "runtime/schedule.h"

double lk_schedule_rate(const struct lk_optim_config *config, int64_t step, int64_t global_batch)
{
    double rate = config->learning_rate;

    if (config->reference_batch > 0)
        rate *= (double)global_batch / (double)config->reference_batch;
    if (step < config->warmup_steps)
        rate *= (double)(step + 1) / (double)config->warmup_steps;
    return rate;
}
