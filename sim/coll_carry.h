/*
 * A ring's measured time at one rank count, carried to another: for what only alpha-beta models
 * (sim/coll_formula.h), where all hops are over one kind of link.
 *
 * A ring on K ranks passes chunks of m/K from rank to rank, as many times as it has hops. So m
 * bytes on K ranks are, hop for hop, what the bytes of the same chunk are on K0 ranks:
 *
 *     T(K, m) = T(K0, m0) x model(K, m) / model(K0, m0)    m0 = m K0/K
 *
 * The ratio is that of the hops, but for the launch. This keeps what no straight line has: bursts
 * that a link passes at once, delayed acknowledgements, a protocol that changes with the size.
 *
 * At equal bytes the model gives another such number. By half of what the two differ the time may
 * be wrong, and by LK_PRIOR_CARRY_ERROR where they agree.
 */
#ifndef LK_SIM_COLL_CARRY_H
#define LK_SIM_COLL_CARRY_H

#include "sim/coll_model.h"
#include "sim/coll_points.h"

#include <stddef.h>

/*
 * Point i of a set, carried to `at` by the model, in seconds; *out_error: relative sd a doubling of
 * the ranks. pre: at.ranks differs from the set's; the model has a ring at both.
 */
double lk_coll_carry_s(const struct lk_coll_set *from, size_t i, struct lk_coll_place at,
                       const struct lk_coll_model *model, double *out_error);

#endif
