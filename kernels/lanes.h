/*
 * Reductions over float32 arrays in 16 lanes: element i goes to lane i % 16, and the lanes are
 * added as a tree. The order is fixed, so that a sum has the same bits whatever the machine's
 * vector width, and the compiler may vectorise it without reordering. Private to the float32 ops.
 */
#ifndef LK_KERNELS_LANES_H
#define LK_KERNELS_LANES_H

#include <stddef.h>

enum { LK_LANES = 16 };

/* Return the sum of the lanes. */
float lk_lanes_total(const float lanes[LK_LANES]);
float lk_lanes_sum(const float *x, size_t n);
float lk_lanes_dot(const float *x, const float *y, size_t n);
/* Return the maximum. NaN is ignored, unless x(0) is NaN. pre: n > 0. */
float lk_lanes_max(const float *x, size_t n);

#endif
