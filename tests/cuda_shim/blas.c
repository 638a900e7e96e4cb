/* Replaces kernels/context_cuda.c, kernels/blas_cuda.c and kernels/dnn_cuda.c on the host: products
 * by plain loops, so that the launchers are tested here; tests/kernels/test_blas_cuda.c tests the
 * products. */
#include "kernels/cuda.h"
#include "kernels/dnn.h"

#include "facts/dtype.h"
#include "tests/cuda_shim/shim.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum lk_status lk_cuda_status(unsigned error, const char *what)
{
    return error ? lk_fail(LK_EINTERNAL, "%s: launch refused (%u)", what, error) : LK_OK;
}

static double element(enum lk_dtype type, const void *p, size_t i)
{
    return lk_dtype_at(type, p, i);
}

/* Round a factor. Tensor cores ignore a float's mantissa beyond tf32's 10 bits, and libraries
 * need not round it beforehand. */
static double factor(enum lk_dtype type, const void *p, size_t i)
{
    double x = element(type, p, i);
    float narrow = (float)x;
    uint32_t bits;

    if (type != LK_F32)
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

static void put(enum lk_dtype type, void *p, size_t i, double x)
{
    const float narrow = (float)x;

    lk_dtype_from_f32(type, (char *)p + i * lk_dtype_bytes(type), &narrow, 1);
}

/* gelu by tanh (its), or its derivative. */
static double gelu(double x, bool derivative)
{
    const double a = 0.7978845608028654, b = 0.044715;
    double t = tanh(a * (x + b * x * x * x));

    return derivative ? 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * b * x * x)
                      : 0.5 * x * (1 + t);
}

/* Do the epilogue's work on element `at` of d, and return what is stored there. */
static double finish(const struct lk_cuda *c, const struct lk_cuda_product *p, size_t at, double x)
{
    if (p->epilogue == LK_EPILOGUE_GELU) {
        put(c->real, p->aux, at, x);
        return gelu(x, false);
    }
    return p->epilogue == LK_EPILOGUE_DGELU ? x * gelu(element(c->real, p->aux, at), true) : x;
}

/* Return the sum of row r of op(a), stored as its transpose. */
static double row_sum(const struct lk_cuda *c, const struct lk_cuda_product *p, size_t r)
{
    double sum = 0;

    for (size_t k = 0; k < p->inner; k++)
        sum += element(c->real, p->a, k * stride_of(p->a_stride, p->rows) + r);
    return sum;
}

enum lk_status lk_cuda_blas_product(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    if (shim_only_counts())
        return LK_OK;
    for (size_t column = 0; column < p->columns; column++) {
        double sums = 0;

        for (size_t row = 0; row < p->rows; row++) {
            size_t at = row * stride_of(p->d_stride, p->columns) + column;
            double x = dot(c, p, row, column);

            if (p->bias)
                x += element(c->real, p->bias, column);
            if (p->e)
                x += element(c->real, p->e, at);
            x = finish(c, p, at, x);
            sums += x;
            put(c->real, p->d, at, x);
        }
        if (p->epilogue == LK_EPILOGUE_DGELU && p->sums)
            put(c->real, p->sums, column, sums);
    }
    for (size_t r = 0; r < p->rows && p->epilogue == LK_EPILOGUE_SUMS; r++)
        put(c->real, p->sums, r, row_sum(c, p, r));
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
