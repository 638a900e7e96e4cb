/* One prediction from a table of throughputs: shared by forecast and validation. */
#ifndef LK_SIM_THROUGHPUT_POINT_H
#define LK_SIM_THROUGHPUT_POINT_H

#include "sim/scaling.h"

#include <stdbool.h>

struct lk_throughput_estimate {
    double value, lo, hi; /* samples a second: median and interval */
};

enum lk_status lk_throughput_at(const struct lk_scaling_point *points, size_t n,
                                const struct lk_scaling_point *target, double level,
                                struct lk_throughput_estimate *out);

bool lk_throughput_same_batch(const struct lk_scaling_point *a, const struct lk_scaling_point *b);

#endif
