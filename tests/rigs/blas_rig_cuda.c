#include "tests/rigs/blas_rig_cuda.h"

#include "facts/dtype.h"
#include "tests/fakes/fake_cublaslt_cuda.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct lk_cuda blas_rig;
void *blas_rig_workspace;
const enum lk_dtype blas_rig_reals[] = {LK_F32, LK_BF16, LK_F16};

void blas_rig_setup(void)
{
    fake_blas_reset();
    blas_rig_workspace = aligned_alloc(256, FAKE_BLAS_WORKSPACE_BYTES);
    ck_assert_ptr_nonnull(blas_rig_workspace);
    blas_rig = (struct lk_cuda){.workspace = blas_rig_workspace};
    ck_assert_int_eq(lk_cuda_blas_open_calls(&fake_blas_calls, &blas_rig.blas), LK_OK);
}

void blas_rig_teardown(void)
{
    lk_cuda_blas_close(blas_rig.blas);
    ck_assert_int_eq(fake_blas.alive, 0);
    free(blas_rig_workspace);
}

double matrix_element(const void *p, size_t i)
{
    return lk_dtype_at(blas_rig.real, p, i);
}

double matrix_ulp(void)
{
    return blas_rig.real == LK_F32 ? 0x1p-23 : lk_dtype_unit_roundoff(blas_rig.real);
}

struct matrix matrix(struct lk_rng *g, size_t rows, size_t columns, size_t stride, size_t shift)
{
    size_t bytes = lk_dtype_bytes(blas_rig.real), used;
    struct matrix m = {.rows = rows, .columns = columns, .stride = stride};

    m.n = rows > 0 ? (rows - 1) * stride + columns : 0;
    used = (m.n + shift) * bytes;
    m.base = aligned_alloc(256, (used + 511) / 256 * 256);
    m.d = malloc((m.n + 1) * sizeof *m.d);
    ck_assert(m.base && m.d);
    m.at = (char *)m.base + shift * bytes;
    for (size_t i = 0; i < m.n; i++) {
        float x = (float)(2 * lk_rng_uniform(g) - 1);

        lk_dtype_from_f32(blas_rig.real, (char *)m.at + i * bytes, &x, 1);
        m.d[i] = matrix_element(m.at, i);
    }
    return m;
}

void matrix_free(struct matrix *m)
{
    free(m->base);
    free(m->d);
}

double matrix_at(const struct matrix *m, bool transposed, size_t row, size_t column)
{
    return transposed ? m->d[column * m->stride + row] : m->d[row * m->stride + column];
}

void matrix_check(const struct matrix *m, const double *want, int roundings, const char *what)
{
    double ulp = matrix_ulp();

    for (size_t i = 0; i < m->n; i++) {
        double got = matrix_element(m->at, i), bound = ulp * (fabs(want[i]) + 0x1p-10);

        /* A partial sum is rounded at its own size, which is below 8 here. */
        if (roundings > 1)
            bound += 8 * ulp;
        if (i % m->stride >= m->columns)
            bound = 0;
        ck_assert_msg(fabs(got - want[i]) <= bound, "%s: element %zu of (%zu, %zu): %g, not %g",
                      what, i, m->rows, m->columns, got, want[i]);
    }
}

void matrix_multiply(double *want, const struct lk_cuda_product *p, const struct matrix *a,
                     const struct matrix *b, const struct matrix *bias, const double *e)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->columns; c++) {
            double sum = 0;

            for (size_t k = 0; k < p->inner; k++)
                sum += matrix_at(a, p->transpose_a, r, k) * matrix_at(b, p->transpose_b, k, c);
            if (p->bias)
                sum += bias->d[c];
            if (p->e)
                sum += e[r * p->d_stride + c];
            want[r * p->d_stride + c] = sum;
        }
}
