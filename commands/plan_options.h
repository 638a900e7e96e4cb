/*
 * Options of planning, the same for every command that prints a forecast: memory, cost, time to a
 * target, failures. PLAN_OPTIONS(T) are rows for a table of target struct T, which has a member
 * `struct plan_options plan`.
 */
#ifndef LK_COMMANDS_PLAN_OPTIONS_H
#define LK_COMMANDS_PLAN_OPTIONS_H

#include "base/option.h"
#include "sim/plan.h"

#include <stdbool.h>

struct plan_options {
    uint64_t device_memory;
    double price, power, noise_scale, target_samples, target_batch, cost_factor;
    double mtbf, restart, checkpoint, checkpoint_bandwidth;
    bool memory;
};

struct lk_plan_request plan_request(const struct plan_options *o);

#define PLAN_OPTION(T, word, kind, field, ...)                                                     \
    {                                                                                              \
        .name = word, .type = kind, .offset = offsetof(T, plan.field), __VA_ARGS__                 \
    }
#define PLAN_REAL(T, word, field, ...)                                                             \
    PLAN_OPTION(T, word, LK_OPT_REAL, field, .min = 1e-12, .max = 1e18, __VA_ARGS__)

/* clang-format off */
#define PLAN_OPTIONS(T)                                                                            \
    PLAN_REAL(T, "target-samples", target_samples, .group = "planning",                            \
              .help = "samples that reach the target, in small batches; default: the job's"),      \
    PLAN_REAL(T, "target-batch", target_batch,                                                     \
              .help = "global batch at which --target-samples were seen to do so"),                \
    PLAN_REAL(T, "noise-scale", noise_scale,                                                       \
              .help = "gradient noise scale, samples; default: the job's"),                        \
    PLAN_REAL(T, "price", price, .help = "price of a GPU an hour; default: the cluster's"),        \
    PLAN_REAL(T, "power", power, .help = "power of a GPU, W; default: the cluster's"),             \
    PLAN_OPTION(T, "cost-factor", LK_OPT_REAL, cost_factor, .min = 1, .max = 1e6,                  \
                .fallback = "1.5", .help = "times the least cost to the target that is accepted"), \
    PLAN_OPTION(T, "device-memory", LK_OPT_SIZE, device_memory, .min = 1, .max = 1e18,             \
                .help = "memory of a GPU; default: the cluster's"),                                \
    PLAN_OPTION(T, "memory", LK_OPT_FLAG, memory,                                                  \
                .help = "print the memory of a GPU part by part, plain and sharded"),              \
    PLAN_OPTION(T, "mtbf", LK_OPT_TIME, mtbf, .min = 1, .max = 1e18,                               \
                .help = "mean time between failures of one GPU that stop the job"),                \
    PLAN_OPTION(T, "restart", LK_OPT_TIME, restart, .min = 1e-9, .max = 1e18,                      \
                .help = "from a failure to the next step"),                                        \
    PLAN_OPTION(T, "checkpoint", LK_OPT_TIME, checkpoint, .min = 1e-9, .max = 1e18,                \
                .help = "how long a checkpoint stops training"),                                   \
    PLAN_OPTION(T, "checkpoint-bandwidth", LK_OPT_RATE, checkpoint_bandwidth, .min = 1,            \
                .max = 1e18, .help = "rate at which the job's checkpoint is written")
/* clang-format on */

#endif
