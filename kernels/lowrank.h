/* The implementations of orthogonalize share the columns that replace dependent ones. */
#ifndef LK_KERNELS_LOWRANK_H
#define LK_KERNELS_LOWRANK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LK_LOWRANK_FN static __host__ __device__ inline
#else
#define LK_LOWRANK_FN static inline
#endif

/* Return element (row, column) of the fixed matrix whose columns take the place of dependent ones:
 * between -1 and 1, by a multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4). */
LK_LOWRANK_FN double lk_lowrank_stand_in(size_t row, size_t column)
{
    uint32_t h = (uint32_t)(row + 1) * 2654435769U ^ (uint32_t)(column + 1) * 2246822519U;

    h = (h ^ h >> 15) * 2654435769U;
    return (double)(h >> 8) * 0x1p-23 - 1;
}

#endif
