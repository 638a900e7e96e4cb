/* Kernels that the launchers of kernels/ started on this thread, counted (launches_cuda.c). */
#ifndef LK_TESTS_DRY_LAUNCHES_H
#define LK_TESTS_DRY_LAUNCHES_H

#include <stddef.h>

struct launches {
    int n;
    size_t shared_bytes; /* that they asked for, all together */
};
extern _Thread_local struct launches launches;

#endif
