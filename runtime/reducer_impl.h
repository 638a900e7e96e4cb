/* Private to the reducer: what its files share. */
#ifndef LK_RUNTIME_REDUCER_IMPL_H
#define LK_RUNTIME_REDUCER_IMPL_H

#include "runtime/reducer.h"

/*
 * Checks that all ranks have the same parameters: how many, and of each the name, the number of
 * elements and their type. LK_EVERIFY, on all ranks, names the first that differs, what each of the
 * two ranks has, and both ranks. Collective.
 */
enum lk_status lk_reducer_check_params(struct lk_comm *c, const struct lk_param *params,
                                       size_t n_params, enum lk_dtype dtype);
/* Gives all ranks rank 0's values, the exact ones too. Collective. pre: the compute stream is idle.
 */
enum lk_status lk_reducer_broadcast_params(struct lk_comm *c, struct lk_param *params,
                                           size_t n_params, enum lk_dtype dtype);
/* Gives all ranks rank 0's order. Collective. */
enum lk_status lk_reducer_broadcast_order(struct lk_comm *c, size_t *order, size_t n);

#endif
