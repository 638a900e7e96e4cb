/*
 * Baselines: the simple forecasters that back-tests compare this one with. Each predicts the
 * throughput at a count of GPUs from throughputs at smaller counts.
 */
#ifndef LK_SIM_FORECAST_BASELINE_H
#define LK_SIM_FORECAST_BASELINE_H

#include "base/status.h"
#include "base/words.h"
#include "facts/config.h"

#include <stddef.h>

/* X(baseline, key, text) */
#define LK_BASELINE_LIST(X)                                                                        \
    X(LK_BASELINE_PROPORTIONAL, "proportional", "proportional from the largest count")             \
    X(LK_BASELINE_LINE, "line", "line through the last two counts")                                \
    X(LK_BASELINE_AMDAHL, "Amdahl's law", "Amdahl's law fitted to all counts")                     \
    X(LK_BASELINE_POLLUX, "Pollux", "Pollux's 7-parameter model fitted to all counts")

enum lk_baseline { LK_BASELINE_LIST(LK_WORD_VALUE) LK_BASELINE_COUNT };
/* Return the name of a baseline, and what it does. */
const char *lk_baseline_name(enum lk_baseline b);
const char *lk_baseline_text(enum lk_baseline b);

/*
 * Predict the throughput at the target, whose own is not read. points: n of different counts,
 * ascending. The result is NaN when there are too few (the line, Amdahl and Pollux need two) or,
 * for a fit, more than LK_BASELINE_POINTS_MAX. Amdahl's law is y = world_size / throughput = a + b
 * world_size, fitted to relative errors with a, b >= 0; b / (a + b) is the serial share.
 */
enum { LK_BASELINE_POINTS_MAX = 64 };
double lk_baseline_throughput(enum lk_baseline b, const struct lk_scaling_point *points, size_t n,
                              const struct lk_scaling_point *target);
/* Predict by Pollux's model from one point or more, in any order. */
double lk_pollux_throughput(const struct lk_scaling_point *points, size_t n,
                            const struct lk_scaling_point *target);

#endif
