/* Orthonormal columns: what the low-rank factors of gradients need. */
#include "base/array.h"
#include "kernels/ops.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* The columns are orthonormal, also those that depended on others or were 0, and span what the
 * given ones span. */
static const struct {
    size_t rows, columns, rank; /* rank: columns from here on depend on the ones before */
    bool transposed;
} tall[] = {{5, 1, 1, false}, {7, 3, 3, true},  {40, 8, 8, false},
            {12, 5, 2, true}, {4, 4, 4, false}, {6, 3, 0, false}};

START_TEST(columns_become_orthonormal)
{
    size_t n = tall[_i].rows, r = tall[_i].columns;
    size_t down = tall[_i].transposed ? 1 : r, across = tall[_i].transposed ? n : 1;
    struct lk_rng g = lk_rng_init(3, (uint64_t)_i);
    struct pair x = pair_random(&g, n * r, 1);
    double *before = calloc(n * r, sizeof *before);

    ck_assert_ptr_nonnull(before);
    for (size_t j = tall[_i].rank; j < r; j++)
        for (size_t i = 0; i < n; i++) {
            double v = 0;

            for (size_t k = 0; k < tall[_i].rank; k++)
                v += (double)(j + k) * x.d[i * down + k * across];
            x.d[i * down + j * across] = v;
            x.f[i * down + j * across] = (float)v;
        }
    memcpy(before, x.d, n * r * sizeof *before);
    lk_op_orthogonalize.cpu(&(struct lk_orthogonalize_args){x.f, n, r, down, across});
    lk_op_orthogonalize.ref(&(struct lk_orthogonalize_args){x.d, n, r, down, across});
    for (size_t j = 0; j < r; j++)
        for (size_t k = 0; k < r; k++) {
            double dot = 0, dot_f = 0;

            for (size_t i = 0; i < n; i++) {
                dot += x.d[i * down + j * across] * x.d[i * down + k * across];
                dot_f += (double)x.f[i * down + j * across] * (double)x.f[i * down + k * across];
            }
            ck_assert_double_eq_tol(dot, j == k, 1e-12);
            ck_assert_double_eq_tol(dot_f, j == k, 16 * ULP);
        }
    for (size_t j = 0; j < r; j++)
        for (size_t i = 0; i < n; i++) { /* x transposed(x) before = before */
            double back = 0;

            for (size_t k = 0; k < r; k++) {
                double dot = 0;

                for (size_t l = 0; l < n; l++)
                    dot += x.d[l * down + k * across] * before[l * down + j * across];
                back += dot * x.d[i * down + k * across];
            }
            ck_assert_double_eq_tol(back, before[i * down + j * across], 1e-11);
        }
    free(before);
}
END_TEST

SUITE(lowrank, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, columns_become_orthonormal, 0, LK_COUNT(tall));
}
