/*
 * How wrong it may be to carry a measured time to another rank count by the alpha-beta model.
 *
 * The model's residuals over sizes are not it: what they have in common at both counts cancels in
 * the ratio. What matters is how the time splits into bytes, which grow by 2(K-1)/K, and hops,
 * which grow by K-1 (of a ring). The fit is one reading of that split; the slope of the measured
 * curve in logarithms is another, because for T = a + b m it is the bytes' share of T. Where they
 * differ, by as much the carried time may be wrong; where they agree, LK_PRIOR_CARRY_ERROR is left.
 */
#ifndef LK_SIM_COLL_CARRY_H
#define LK_SIM_COLL_CARRY_H

#include "sim/coll_points.h"

#include <stddef.h>

/*
 * Relative sd a doubling of the ranks of point i, carried to `at` by the factor `ratio`. NaN: the
 * algorithm has no alpha-beta shape. pre: at.ranks differs from the set's.
 */
double lk_coll_carry_error(const struct lk_coll_set *from, size_t i, struct lk_coll_place at,
                           double ratio);

#endif
