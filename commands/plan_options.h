/*
 * Define the options of planning (memory, cost, time to a target, failures), the same for every
 * command that prints a forecast. PLAN_OPTIONS(T) expands to rows of a table of options
 * (base/option.h) whose values go to a struct T with a member `struct plan_options plan`.
 */
#ifndef LK_COMMANDS_PLAN_OPTIONS_H
#define LK_COMMANDS_PLAN_OPTIONS_H

#include "base/option.h"
#include "sim/planning/plan.h"

#include <stdbool.h>

struct plan_options {
    struct lk_plan_request request; /* sim/planning/plan.h has units; 0: not given */
    bool memory;                    /* print the memory of a GPU part by part */
};

/* Write the row of --word, whose value goes to `field` of struct plan_options. PLAN_REAL: a number
 * above 0. */
#define PLAN_OPTION(T, word, kind, field, ...)                                                     \
    {                                                                                              \
        .name = word, .type = kind, .offset = offsetof(T, plan.field), __VA_ARGS__                 \
    }
#define PLAN_REAL(T, word, field, ...)                                                             \
    PLAN_OPTION(T, word, LK_OPT_REAL, field, .min = 1e-12, .max = 1e18, __VA_ARGS__)

/* clang-format off */
#define PLAN_OPTIONS(T)                                                                            \
    PLAN_REAL(T, "target-samples", request.target_samples, .group = "planning",                    \
              .help = "samples that reach the target, in small batches; default: the job's"),      \
    PLAN_REAL(T, "target-batch", request.target_batch,                                             \
              .help = "global batch at which --target-samples reached the target"),                \
    PLAN_REAL(T, "noise-scale", request.noise_scale,                                               \
              .help = "gradient noise scale, samples; default: the job's"),                        \
    PLAN_REAL(T, "price", request.price_per_hour,                                                  \
              .help = "price of a GPU an hour; default: the cluster's"),                           \
    PLAN_REAL(T, "power", request.power_W, .help = "power of a GPU, W; default: the cluster's"),   \
    PLAN_OPTION(T, "cost-factor", LK_OPT_REAL, request.cost_factor, .min = 1, .max = 1e6,          \
                .fallback = "1.5", .help = "accepted cost to the target, as a multiple of the least"), \
    PLAN_OPTION(T, "device-memory", LK_OPT_SIZE, request.device_bytes, .min = 1, .max = 1e18,      \
                .help = "memory of a GPU; default: the cluster's"),                                \
    PLAN_OPTION(T, "memory", LK_OPT_FLAG, memory,                                                  \
                .help = "print the memory of a GPU part by part, plain and sharded"),              \
    PLAN_OPTION(T, "mtbf", LK_OPT_TIME, request.gpu_mtbf_s, .min = 1, .max = 1e18,                 \
                .help = "mean time between failures of one GPU that stop the job"),                \
    PLAN_OPTION(T, "restart", LK_OPT_TIME, request.restart_s, .min = 1e-9, .max = 1e18,            \
                .help = "time from a failure to the next step"),                                   \
    PLAN_OPTION(T, "checkpoint", LK_OPT_TIME, request.checkpoint_s, .min = 1e-9, .max = 1e18,      \
                .help = "time for which a checkpoint stops training"),                             \
    PLAN_OPTION(T, "checkpoint-bandwidth", LK_OPT_RATE, request.checkpoint_Bps, .min = 1,          \
                .max = 1e18, .help = "rate at which the job's checkpoint is written")
/* clang-format on */

#endif
