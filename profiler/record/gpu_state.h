/*
 * The state that a GPU reports while it works: clocks, power, temperature, and reasons for a
 * lowered clock. One sample, summaries of samples, and their form in traces (COUNTER spans on a
 * track of kind "gpu"). profiler/record/nvml.h takes the samples.
 */
#ifndef LK_PROFILER_RECORD_GPU_STATE_H
#define LK_PROFILER_RECORD_GPU_STATE_H

#include "base/words.h"
#include "facts/run_facts.h"

#include <stddef.h>
#include <stdint.h>

/* X(quantity, name of its counter in traces) */
#define LK_GPU_QUANTITY_LIST(X)                                                                    \
    X(LK_GPU_SM_CLOCK_MHZ, "GPU SM clock (MHz)")                                                   \
    X(LK_GPU_MEMORY_CLOCK_MHZ, "GPU memory clock (MHz)")                                           \
    X(LK_GPU_POWER_W, "GPU power (W)")                                                             \
    X(LK_GPU_TEMPERATURE_C, "GPU temperature (C)")                                                 \
    X(LK_GPU_REASONS, "GPU clock reasons (NVML bits)")                                             \
    X(LK_GPU_ENERGY_J, "GPU energy (J)")

enum lk_gpu_quantity { LK_GPU_QUANTITY_LIST(LK_WORD_VALUE) LK_GPU_QUANTITY_COUNT };

/*
 * X(reason, text, NVML's bit, throttled): why the clock is below its maximum
 * (nvmlClocksEventReasons in nvml.h: NVIDIA, NVML API Reference Guide, R550, 4.31). A reason that
 * is a setting of the user, or idleness, is no throttling. Bits missing here are newer ones.
 */
#define LK_GPU_REASON_LIST(X)                                                                      \
    X(LK_GPU_IDLE, "idle", 0x1, 0)                                                                 \
    X(LK_GPU_CLOCKS_SETTING, "clocks that were set", 0x2, 0)                                       \
    X(LK_GPU_POWER_CAP, "power", 0x4, 1)                                                           \
    X(LK_GPU_HW_SLOWDOWN, "hardware slowdown", 0x8, 1)                                             \
    X(LK_GPU_SYNC_BOOST, "sync boost", 0x10, 0)                                                    \
    X(LK_GPU_SW_THERMAL, "temperature", 0x20, 1)                                                   \
    X(LK_GPU_HW_THERMAL, "temperature (hardware)", 0x40, 1)                                        \
    X(LK_GPU_POWER_BRAKE, "power brake", 0x80, 1)                                                  \
    X(LK_GPU_DISPLAY_CLOCKS, "display clocks", 0x100, 0)

enum lk_gpu_reason { LK_GPU_REASON_LIST(LK_WORD_VALUE) LK_GPU_REASON_COUNT };

struct lk_gpu_sample {
    uint64_t at_ns;                      /* lk_now_ns */
    double value[LK_GPU_QUANTITY_COUNT]; /* NaN: the GPU does not report it */
};

/* Sums over samples. A zeroed one has none. */
struct lk_gpu_sums {
    size_t n[LK_GPU_QUANTITY_COUNT];
    double sum[LK_GPU_QUANTITY_COUNT], min[LK_GPU_QUANTITY_COUNT], max[LK_GPU_QUANTITY_COUNT];
    size_t n_reason[LK_GPU_REASON_COUNT]; /* samples with this reason */
    size_t n_throttled;                   /* samples with a throttling reason */
    uint64_t first_energy_ns, last_energy_ns;
    double first_energy_j, last_energy_j;
};
/* Add one value taken at at_ns, in order of time. A NaN is ignored. */
void lk_gpu_sums_add(struct lk_gpu_sums *s, enum lk_gpu_quantity q, uint64_t at_ns, double value);

/* Summary of samples. NaN where there is none. */
struct lk_gpu_summary {
    size_t n; /* number of samples: the largest of any quantity */
    struct {
        double mean, min, max;
    } quantity[LK_GPU_QUANTITY_COUNT]; /* not set for ENERGY and REASONS */
    /*
     * Energy over time if the GPU counts energy and two samples lie far enough apart; else the mean
     * of its power readings, which newer GPUs average over a second (nvmlDeviceGetPowerUsage).
     */
    double power_w;
    double energy_j;  /* from the first to the last sample */
    double throttled; /* share of samples */
    double reason[LK_GPU_REASON_COUNT];
};
void lk_gpu_summary(const struct lk_gpu_sums *sums, struct lk_gpu_summary *out);

LK_WORDS_DECLARE(lk_gpu_quantity, enum lk_gpu_quantity); /* names as "GPU power (W)" */
LK_WORDS_DECLARE(lk_gpu_reason, enum lk_gpu_reason);     /* as "power" */

/*
 * Format for people: "1755 MHz (1410 to 1980), 640 W, throttled 12 % of the time (power 12 %)";
 * unknown parts are left out, "nothing" when all are. out holds LK_GPU_TEXT bytes.
 */
enum { LK_GPU_TEXT = 256 };
void lk_gpu_summary_text(const struct lk_gpu_summary *s, char *out);
/* Format the throttling alone: "power 12 %, temperature 3 %", commonest first; "" without any. */
void lk_gpu_throttle_text(const struct lk_gpu_summary *s, char *out);

#endif
