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

struct lk_gemm {
    size_t m, n, k;
    float alpha, beta; /* beta 0: c is not read */
    struct lk_factor a, b;
    float *c;
    size_t c_stride; /* row stride in elements */
};

/* Run the product. pre: sizes and strides fit an int. */
void lk_gemm_run(const struct lk_gemm *g);

#endif
