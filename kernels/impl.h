/* Private to kernels/: the implementations behind the rows of kernels/ops.c. */
#ifndef LK_KERNELS_IMPL_H
#define LK_KERNELS_IMPL_H

#include "kernels/ops.h"

/* args is a const struct lk_<op>_args *. lk_<op>_cuda exists in builds with CUDA only. */
#define LK_OP_IMPL_(op)                                                                            \
    void lk_##op##_cpu(const void *args);                                                          \
    void lk_##op##_ref(const void *args);                                                          \
    enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *cuda);
LK_OP_LIST(LK_OP_IMPL_)
#undef LK_OP_IMPL_

/*
 * ---- For the float32 ops: reductions in 16 lanes (lanes.c) ----
 *
 * Element i goes to lane i % 16, and the lanes are added as a tree. The order is fixed, so that a
 * sum has the same bits whatever the machine's vector width, and the compiler may vectorise it
 * without reordering.
 */

enum { LK_LANES = 16 };

/* Return the sum of the lanes. */
float lk_lanes_total(const float lanes[LK_LANES]);
float lk_lanes_sum(const float *x, size_t n);
float lk_lanes_dot(const float *x, const float *y, size_t n);
/* Return the maximum. NaN is ignored, unless x(0) is NaN. pre: n > 0. */
float lk_lanes_max(const float *x, size_t n);

/*
 * ---- And the matrix product c = alpha * op(a) * op(b) + beta * c (gemm.c) ----
 *
 * Float32, row major: op(a) is (m, k), op(b) is (k, n). Uses OpenBLAS if the build has it, our own
 * blocked loops otherwise.
 */

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
