/*
 * c = alpha * op(a) * op(b) + beta * c in float32, row major: op(a) is (m, k), op(b) is (k, n).
 * By OpenBLAS where the build has it, by our own blocked loops otherwise. Private to the float32
 * ops.
 */
#ifndef LK_KERNELS_GEMM_H
#define LK_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

struct lk_gemm {
    size_t m, n, k;
    float alpha, beta; /* beta 0: c is not read */
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride; /* elements from a row to the next, as stored */
    bool a_transposed, b_transposed;     /* stored as (k, m), as (n, k) */
};

/* pre: sizes and strides fit an int. */
void lk_gemm_run(const struct lk_gemm *g);

#endif
