/* Kernels that the launchers of kernels/ started, counted (launches_cuda.c). */
#ifndef LK_TESTS_LAUNCHES_H
#define LK_TESTS_LAUNCHES_H

#include <stddef.h>

extern struct launches {
    int n;
    size_t shared_bytes; /* that they asked for, all together */
} launches;

#endif
