/*
 * The simple forecasters that ours is held against. Each predicts throughput at K from throughputs
 * at smaller counts.
 */
#ifndef LK_SIM_BASELINE_H
#define LK_SIM_BASELINE_H

#include "base/status.h"

#include <stddef.h>

/* Measured throughput at a count of GPUs. The rest is for Pollux; 0: one, or the same for all. */
struct lk_scale_point {
    double gpus, throughput;
    double nodes, local_batch, accumulation;
};

/* X(baseline, key, text) */
#define LK_BASELINE_LIST(X)                                                                        \
    X(LK_BASELINE_PROPORTIONAL, "proportional", "proportional from the largest count")             \
    X(LK_BASELINE_LINE, "line", "line through the last two counts")                                \
    X(LK_BASELINE_AMDAHL, "amdahl", "Amdahl's law fitted to all counts")                           \
    X(LK_BASELINE_POLLUX, "pollux", "Pollux's 7-parameter model fitted to all counts")

enum lk_baseline {
#define LK_BASELINE_ENUM_(baseline, key, text) baseline,
    LK_BASELINE_LIST(LK_BASELINE_ENUM_)
#undef LK_BASELINE_ENUM_
        LK_BASELINE_COUNT
};
const char *lk_baseline_text(enum lk_baseline b);

/*
 * Throughput at the target (its own is not read). points: n of different counts, ascending. NaN
 * when there are too few: the line, Amdahl and Pollux (sim/pollux.h) need two.
 * Amdahl: time of one sample's share, y = gpus / throughput = a + b gpus, non-negative, relative
 * errors: b / (a + b) is the serial share.
 */
double lk_baseline_throughput(enum lk_baseline b, const struct lk_scale_point *points, size_t n,
                              const struct lk_scale_point *target);

#endif
