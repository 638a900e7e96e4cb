/* What kernels/context_cuda.c and kernels/blas_cuda.c do on a GPU, for the host: products by plain
 * loops, so that launchers are tested; the products themselves are not. */
#include "kernels/cuda.h"

#include "base/dtype.h"

#include <stdint.h>

enum lk_status lk_cuda_status(int error, const char *what)
{
    return error ? lk_fail(LK_EINTERNAL, "%s: launch refused (%d)", what, error) : LK_OK;
}

static double element(enum lk_dtype type, const void *p, size_t i)
{
    return type == LK_BF16 ? (double)lk_f32_from_bf16(((const uint16_t *)p)[i])
                           : (double)((const float *)p)[i];
}

static double dot(const struct lk_cuda *c, const struct lk_cuda_product *p, size_t row,
                  size_t column)
{
    double sum = 0;

    for (size_t k = 0; k < p->inner; k++)
        sum += element(c->real, p->a, p->transpose_a ? k * p->rows + row : row * p->inner + k) *
               element(c->real, p->b,
                       p->transpose_b ? column * p->inner + k : k * p->columns + column);
    return sum;
}

enum lk_status lk_cuda_blas_product(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    for (size_t i = 0; i < p->rows * p->columns; i++) {
        double sum = dot(c, p, i / p->columns, i % p->columns);

        if (p->bias)
            sum += element(c->real, p->bias, i % p->columns);
        if (p->e)
            sum += element(c->real, p->e, i);
        if (c->real == LK_BF16)
            ((uint16_t *)p->d)[i] = lk_bf16_from_f32((float)sum);
        else
            ((float *)p->d)[i] = (float)sum;
    }
    return LK_OK;
}
