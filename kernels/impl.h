/*
 * The implementations of the ops, which the rows of kernels/ops.c point to, and the loops that they
 * share. Private to kernels/.
 */
#ifndef LK_KERNELS_IMPL_H
#define LK_KERNELS_IMPL_H

#include "kernels/ops.h"

#include <assert.h>

/* args is a const struct lk_<op>_args *. lk_<op>_cuda exists in builds with CUDA only. */
#define LK_OP_HOST_(op)                                                                            \
    void lk_##op##_cpu(const void *args);                                                          \
    void lk_##op##_ref(const void *args);                                                          \
    void lk_##op##_operands(const void *args, struct lk_operands *out);
#define LK_OP_CUDA_(op) enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *cuda);
LK_OP_LIST(LK_OP_HOST_)
LK_OP_LIST(LK_OP_CUDA_)
#undef LK_OP_HOST_
#undef LK_OP_CUDA_

#ifdef LK_HAVE_CUDA
#define LK_OP_ON_CUDA_(op) lk_##op##_cuda
#else
#define LK_OP_ON_CUDA_(op) NULL
#endif
/* Define the row of an op, whose cost is the function op_cost. */
#define LK_OP_ROW_(op)                                                                             \
    static_assert(sizeof(struct lk_##op##_args) <= LK_OP_ARGS_MAX, #op);                           \
    const struct lk_op lk_op_##op = {.name = #op,                                                  \
                                     .args_bytes = sizeof(struct lk_##op##_args),                  \
                                     .cpu = lk_##op##_cpu,                                         \
                                     .ref = lk_##op##_ref,                                         \
                                     .cuda = LK_OP_ON_CUDA_(op),                                   \
                                     .operands = lk_##op##_operands,                               \
                                     .cost = op##_cost};

/* Return the cost of an op that reads or writes so many reals and reads so many tokens. */
struct lk_op_cost lk_op_cost_of(double flops, double reals, double tokens);

static inline double lk_op_product(size_t a, size_t b, size_t c)
{
    return (double)a * (double)b * (double)c;
}

/*
 * ---- Reductions of float32 in 16 lanes (lanes.c), for the cpu ops ----
 *
 * A sum adds element i to lane i % 16, and then adds the lanes as a tree. This order is fixed, so a
 * sum has the same bits whatever the machine's vector width, and the compiler can vectorise it
 * without reordering.
 */

enum { LK_LANES = 16 };

/* Return the sum of the lanes. */
float lk_lanes_total(const float lanes[LK_LANES]);
/* Return the sum of x, or of the products x[i] * y[i]; 0 when n is 0. */
float lk_lanes_sum(const float *x, size_t n);
float lk_lanes_dot(const float *x, const float *y, size_t n);
/* Return the maximum. A NaN is ignored, but one in x[0] makes the result NaN. pre: n > 0. */
float lk_lanes_max(const float *x, size_t n);

/*
 * ---- The matrix product c = alpha * op(a) * op(b) + beta * c (gemm.c), for the cpu ops ----
 *
 * Matrices are float32 and row major: op(a) is (m, k), op(b) is (k, n). The product runs in
 * OpenBLAS if the build has it, else in our own blocked loops.
 */

/* Factor a or b as it is stored: as op(a) or op(b), or as its transpose. */
struct lk_factor {
    const float *at;
    size_t stride; /* row stride in elements */
    bool transposed;
};

/* Run the product; c_stride is c's row stride in elements. beta 0: c is not read. pre: sizes and
 * strides fit an int. */
void lk_gemm(size_t m, size_t n, size_t k, float alpha, struct lk_factor a, struct lk_factor b,
             float beta, float *c, size_t c_stride);

/* Add the columns of x, (rows, n) with a row stride, to sums (matmul_cpu.c). pre: they do not
 * overlap. */
void lk_add_columns(float *sums, const float *x, size_t rows, size_t n, size_t stride);

#endif
