/* Replaces kernels/context_cuda.c, kernels/blas_cuda.c and kernels/dnn_cuda.c on the host: products
 * by plain loops, so that the launchers are tested here; tests/kernels/test_blas_cuda.c tests the
 * products. */
#include "kernels/cuda.h"
#include "kernels/dnn.h"

#include "base/dtype.h"

#include <stdint.h>
#include <string.h>

enum lk_status lk_cuda_status(unsigned error, const char *what)
{
    return error ? lk_fail(LK_EINTERNAL, "%s: launch refused (%u)", what, error) : LK_OK;
}

static double element(enum lk_dtype type, const void *p, size_t i)
{
    return type == LK_BF16 ? (double)lk_f32_from_bf16(((const uint16_t *)p)[i])
                           : (double)((const float *)p)[i];
}

/* Round a factor. Tensor cores ignore a float's mantissa beyond tf32's 10 bits, and libraries
 * need not round it beforehand. */
static double factor(enum lk_dtype type, const void *p, size_t i)
{
    double x = element(type, p, i);
    float narrow = (float)x;
    uint32_t bits;

    if (type == LK_BF16)
        return x;
    memcpy(&bits, &narrow, sizeof bits);
    bits &= 0xffffe000U;
    memcpy(&narrow, &bits, sizeof bits);
    return (double)narrow;
}

static size_t stride_of(size_t stride, size_t columns)
{
    return stride ? stride : columns;
}

static double dot(const struct lk_cuda *c, const struct lk_cuda_product *p, size_t row,
                  size_t column)
{
    size_t a = stride_of(p->a_stride, p->transpose_a ? p->rows : p->inner);
    size_t b = stride_of(p->b_stride, p->transpose_b ? p->inner : p->columns);
    double sum = 0;

    for (size_t k = 0; k < p->inner; k++)
        sum += factor(c->real, p->a, p->transpose_a ? k * a + row : row * a + k) *
               factor(c->real, p->b, p->transpose_b ? column * b + k : k * b + column);
    return sum;
}

enum lk_status lk_cuda_blas_product(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    for (size_t i = 0; i < p->rows * p->columns; i++) {
        size_t row = i / p->columns, column = i % p->columns;
        size_t at = row * stride_of(p->d_stride, p->columns) + column;
        double sum = dot(c, p, row, column);

        if (p->bias)
            sum += element(c->real, p->bias, column);
        if (p->e)
            sum += element(c->real, p->e, at);
        if (c->real == LK_BF16)
            ((uint16_t *)p->d)[at] = lk_bf16_from_f32((float)sum);
        else
            ((float *)p->d)[at] = (float)sum;
    }
    return LK_OK;
}

enum lk_status lk_cuda_dnn_forward(const struct lk_cuda *c,
                                   const struct lk_attention_forward_args *a, bool *out_taken)
{
    (void)c;
    (void)a;
    *out_taken = false;
    return LK_OK;
}

enum lk_status lk_cuda_dnn_backward(const struct lk_cuda *c,
                                    const struct lk_attention_backward_args *a, bool *out_taken)
{
    (void)c;
    (void)a;
    *out_taken = false;
    return LK_OK;
}
