/* The agreement of all ranks on the model's parameters, before training starts. */
#ifndef LK_RUNTIME_PARAMS_AGREE_H
#define LK_RUNTIME_PARAMS_AGREE_H

#include "base/status.h"
#include "facts/dtype.h"
#include "runtime/comm/comm.h"
#include "runtime/model/model.h"

#include <stddef.h>

/*
 * Check that all ranks have the same parameters (count, names, sizes, type), then give all of them
 * rank 0's values, the exact ones too. Collective. LK_EVERIFY, on all ranks, names the first
 * difference, both values and both ranks. pre: the compute stream is idle.
 */
enum lk_status lk_params_agree(struct lk_comm *c, struct lk_param *params, size_t n_params,
                               enum lk_dtype dtype);

#endif
