/*
 * State that training keeps from step to step beside weights and the optimizer's states, in groups
 * of a piece for each parameter at most: late gradients, errors and factors of PowerSGD, the outer
 * optimizer. Checkpoints hold it (runtime/train/trainer_checkpoint.c).
 */
#ifndef LK_RUNTIME_KEPT_H
#define LK_RUNTIME_KEPT_H

#include "runtime/device/device.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_kept {
    char name[32]; /* of the group */
    bool own;      /* each rank has another; else all have the same */
    lk_real *data; /* of a parameter: device memory */
    size_t elems;  /* 0: the parameter has no piece */
};

#endif
