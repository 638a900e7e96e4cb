/*
 * Matrix product c = alpha * op(a) * op(b) + beta * c in float32, row major: op(a) is (m, k), op(b)
 * is (k, n). Uses OpenBLAS if the build has it, our own blocked loops otherwise. Private to the
 * float32 ops.
 */
#ifndef LK_KERNELS_GEMM_H
#define LK_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

/* A factor as it is stored: (m, k) or (k, n), or transposed. */
struct lk_factor {
    const float *at;
    size_t stride; /* row stride in elements */
    bool transposed;
};

/* Run the product; c_stride is c's row stride in elements. beta 0: c is not read. pre: sizes and
 * strides fit an int. */
void lk_gemm(size_t m, size_t n, size_t k, float alpha, struct lk_factor a, struct lk_factor b,
             float beta, float *c, size_t c_stride);

#endif
