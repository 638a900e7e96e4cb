/* Epilogues of matrix products as passed to cuBLASLt, checked by the fake. */
#include "base/array.h"
#include "facts/dtype.h"
#include "kernels/ops.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/rigs/blas_rig_cuda.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fake's tanh errs by 2^-11 of itself, which gelu and its derivative multiply by less than 2.
 */
static const double tanh_bound = 0x1p-9;

static double gelu(double x)
{
    double y;

    lk_op_gelu_forward.ref(&(struct lk_gelu_forward_args){.out = &y, .in = &x, .n = 1});
    return y;
}

static double gelu_slope(double x)
{
    double y, one = 1;

    lk_op_gelu_backward.ref(
        &(struct lk_gelu_backward_args){.din = &y, .dout = &one, .in = &x, .n = 1});
    return y;
}

/* Check an element after one rounding to its type, within `more`. */
static void check_element(const void *p, size_t i, double want, double more, const char *what)
{
    double ulp = matrix_ulp(), got = matrix_element(p, i);

    ck_assert_msg(fabs(got - want) <= ulp * (fabs(want) + 0x1p-10) + more, "%s %zu: %g, not %g",
                  what, i, got, want);
}

enum { EPI_ROWS = 8, EPI_INNER = 16, EPI_COLUMNS = 24, EPI_STRIDE = 40 };

/* aux, e and d have rows of 24 elements, 40 apart. */
struct epilogue_rig {
    struct matrix a, b, bias, sums, aux, d;
    struct lk_cuda_product p;
};

static struct epilogue_rig epilogue_rig(bool transposed, enum lk_cuda_epilogue epilogue)
{
    struct lk_rng g = lk_rng_init(1, 0);
    struct epilogue_rig r = {
        .a = transposed ? matrix(&g, EPI_INNER, EPI_ROWS, EPI_ROWS, 0)
                        : matrix(&g, EPI_ROWS, EPI_INNER, EPI_INNER, 0),
        .b = matrix(&g, EPI_INNER, EPI_COLUMNS, EPI_COLUMNS, 0),
        .bias = matrix(&g, 1, EPI_COLUMNS, EPI_COLUMNS, 0),
        .sums = matrix(&g, 1, EPI_COLUMNS, EPI_COLUMNS, 8),
        .aux = matrix(&g, EPI_ROWS, EPI_COLUMNS, EPI_STRIDE, 8),
        .d = matrix(&g, EPI_ROWS, EPI_COLUMNS, EPI_STRIDE, 0),
    };

    r.p = (struct lk_cuda_product){.d = r.d.at,
                                   .a = r.a.at,
                                   .b = r.b.at,
                                   .epilogue = epilogue,
                                   .rows = EPI_ROWS,
                                   .inner = EPI_INNER,
                                   .columns = EPI_COLUMNS,
                                   .d_stride = EPI_STRIDE,
                                   .transpose_a = transposed};
    return r;
}

static void epilogue_rig_free(struct epilogue_rig *r)
{
    matrix_free(&r->a);
    matrix_free(&r->b);
    matrix_free(&r->bias);
    matrix_free(&r->sums);
    matrix_free(&r->aux);
    matrix_free(&r->d);
}

static void must_run(const struct epilogue_rig *r)
{
    ck_assert_msg(lk_cuda_blas_product(&blas_rig, &r->p) == LK_OK, "%s (%s)", lk_error_text(),
                  fake_blas.why);
}

/* _i / 2: the type; _i & 1: with a bias. */
START_TEST(gelu_forward_is_its_definition)
{
    struct epilogue_rig r;
    double *x;

    blas_rig.real = blas_rig_reals[_i / 2];
    r = epilogue_rig(false, LK_EPILOGUE_GELU);
    r.p.aux = r.aux.at;
    r.p.bias = _i & 1 ? r.bias.at : NULL;
    x = malloc(r.d.n * sizeof *x);
    memcpy(x, r.d.d, r.d.n * sizeof *x);
    matrix_multiply(x, &r.p, &r.a, &r.b, &r.bias, NULL);
    must_run(&r);
    for (size_t i = 0; i < r.d.n; i++) {
        bool padding = i % EPI_STRIDE >= EPI_COLUMNS;

        if (padding) {
            ck_assert_double_eq(matrix_element(r.d.at, i), r.d.d[i]);
            ck_assert_double_eq(matrix_element(r.aux.at, i), r.aux.d[i]);
            continue;
        }
        check_element(r.aux.at, i, x[i], 0, "gelu's input");
        check_element(r.d.at, i, gelu(x[i]), tanh_bound * fabs(x[i]), "gelu");
    }
    free(x);
    epilogue_rig_free(&r);
}
END_TEST

/* _i / 2: the type; _i & 1: with sums. */
START_TEST(gelu_backward_is_its_definition)
{
    struct epilogue_rig r;
    double *x, sums[EPI_COLUMNS] = {0};

    blas_rig.real = blas_rig_reals[_i / 2];
    r = epilogue_rig(false, LK_EPILOGUE_DGELU);
    r.p.aux = r.aux.at;
    r.p.sums = _i & 1 ? r.sums.at : NULL;
    x = malloc(r.d.n * sizeof *x);
    memcpy(x, r.d.d, r.d.n * sizeof *x);
    matrix_multiply(x, &r.p, &r.a, &r.b, NULL, NULL);
    must_run(&r);
    for (size_t i = 0; i < r.d.n; i++)
        if (i % EPI_STRIDE < EPI_COLUMNS) {
            double want = x[i] * gelu_slope(r.aux.d[i]);

            sums[i % EPI_STRIDE] += want;
            check_element(r.d.at, i, want, tanh_bound * fabs(x[i]), "gelu's derivative");
        }
    for (size_t c = 0; c < EPI_COLUMNS; c++)
        if (_i & 1)
            check_element(r.sums.at, c, sums[c], 8 * EPI_ROWS * tanh_bound, "sum");
        else
            ck_assert_double_eq(matrix_element(r.sums.at, c), r.sums.d[c]);
    free(x);
    epilogue_rig_free(&r);
}
END_TEST

/* _i / 2: the type; _i & 1: d is added to. Sums are overwritten all the same. */
START_TEST(sums_of_rows_are_their_definition)
{
    struct epilogue_rig r;
    double *x;

    blas_rig.real = blas_rig_reals[_i / 2];
    r = epilogue_rig(true, LK_EPILOGUE_SUMS);
    r.p.sums = r.sums.at;
    r.p.e = _i & 1 ? r.d.at : NULL;
    x = malloc(r.d.n * sizeof *x);
    memcpy(x, r.d.d, r.d.n * sizeof *x);
    matrix_multiply(x, &r.p, &r.a, &r.b, NULL, r.d.d);
    must_run(&r);
    matrix_check(&r.d, x, 1, "product");
    for (size_t row = 0; row < EPI_ROWS; row++) {
        double sum = 0;

        for (size_t k = 0; k < EPI_INNER; k++)
            sum += matrix_at(&r.a, true, row, k);
        check_element(r.sums.at, row, sum, 0, "sum");
    }
    ck_assert_double_eq(matrix_element(r.sums.at, EPI_ROWS), r.sums.d[EPI_ROWS]);
    free(x);
    epilogue_rig_free(&r);
}
END_TEST

/* What a caller does without: an error that says why. */
START_TEST(epilogues_are_refused)
{
    static const struct {
        enum lk_cuda_epilogue epilogue;
        size_t columns, stride;
        bool plain_only;
        const char *says;
    } rows[] = {
        {LK_EPILOGUE_GELU, 24, 44, false, "cuBLASLt's gelu is for rows of multiples of 8 elements"},
        {LK_EPILOGUE_DGELU, 23, 40, false, "an epilogue is for extents of multiples of 16 bytes"},
        {LK_EPILOGUE_SUMS, 23, 40, false, "an epilogue is for extents of multiples of 16 bytes"},
        {LK_EPILOGUE_GELU, 24, 40, true,
         ", gelu in bfloat16, strides 16, 24, 40, aligned to 256, "
         "256, 256, 256, 256 bytes: cuBLASLt has no algorithm"},
        {LK_EPILOGUE_DGELU, 24, 40, true, ", gelu's derivative, sums of columns in bfloat16"},
        {LK_EPILOGUE_SUMS, 24, 40, true, ", sums of the first one's rows in bfloat16"},
    };
    struct epilogue_rig r;

    blas_rig.real = LK_BF16;
    r = epilogue_rig(rows[_i].epilogue == LK_EPILOGUE_SUMS, rows[_i].epilogue);
    r.p.columns = rows[_i].columns;
    r.p.b_stride = EPI_COLUMNS;
    r.p.d_stride = rows[_i].stride;
    r.p.aux = rows[_i].epilogue == LK_EPILOGUE_SUMS ? NULL : r.aux.at;
    r.p.sums = rows[_i].epilogue == LK_EPILOGUE_GELU ? NULL : r.sums.at;
    fake_blas.plain_only = rows[_i].plain_only;
    ck_assert_int_eq(lk_cuda_blas_product(&blas_rig, &r.p), LK_EUNSUPPORTED);
    ck_assert_msg(strstr(lk_error_text(), rows[_i].says) != NULL, "%s", lk_error_text());
    ck_assert_uint_eq(fake_blas.n_seen, 0);
    epilogue_rig_free(&r);
}
END_TEST

/* The same product with and without its epilogue, and with sums at another alignment, has plans of
 * its own. */
START_TEST(plans_are_kept_by_epilogue)
{
    struct epilogue_rig r;

    blas_rig.real = LK_BF16;
    r = epilogue_rig(true, LK_EPILOGUE_SUMS);
    r.p.sums = r.sums.at;
    must_run(&r);
    must_run(&r);
    ck_assert_int_eq(fake_blas.heuristics, 1);
    r.p.sums = (uint16_t *)r.sums.at + 8;
    must_run(&r);
    r.p.sums = NULL;
    r.p.epilogue = LK_EPILOGUE_PLAIN;
    must_run(&r);
    ck_assert_int_eq(fake_blas.heuristics, 3);
    epilogue_rig_free(&r);
}
END_TEST

SUITE(blas_epilogues_cuda, tc)
{
    tcase_add_checked_fixture(tc, blas_rig_setup, blas_rig_teardown);
    tcase_add_loop_test(tc, gelu_forward_is_its_definition, 0, 2 * BLAS_RIG_REALS);
    tcase_add_loop_test(tc, gelu_backward_is_its_definition, 0, 2 * BLAS_RIG_REALS);
    tcase_add_loop_test(tc, sums_of_rows_are_their_definition, 0, 2 * BLAS_RIG_REALS);
    tcase_add_loop_test(tc, epilogues_are_refused, 0, 6);
    tcase_add_test(tc, plans_are_kept_by_epilogue);
}
