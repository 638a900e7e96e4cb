/*
 * Reductions over float32 arrays in 16 lanes: element i goes to lane i % 16, the lanes are added as
 * a tree. The order is fixed, so that a sum has the same bits whatever the vector width of the
 * machine, and the compiler needs no leave to reorder. Private to the float32 ops.
 */
#ifndef LK_KERNELS_LANES_H
#define LK_KERNELS_LANES_H

#include <stddef.h>

enum { LK_LANES = 16 };

/* The sum of the lanes. */
float lk_lanes_total(const float lanes[LK_LANES]);
float lk_lanes_sum(const float *x, size_t n);
float lk_lanes_dot(const float *x, const float *y, size_t n);
/* NaN is passed over, unless x(0) is one. pre: n > 0. */
float lk_lanes_max(const float *x, size_t n);

#endif
