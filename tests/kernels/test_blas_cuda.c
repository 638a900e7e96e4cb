/* Matrix products as passed to cuBLASLt, checked by the fake (tests/fakes/fake_cublaslt_cuda.h). */
#include "base/array.h"
#include "base/rng.h"
#include "facts/dtype.h"
#include "kernels/ops.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/rigs/blas_rig_cuda.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- All forms ---- */

struct form {
    bool transpose_a, transpose_b, bias;
    enum { E_NONE, E_APART, E_IN_PLACE, E_FORMS } e;
    bool padded; /* rows padded to 16 bytes */
    size_t shift;
};

static const struct {
    size_t rows, inner, columns;
} shapes[] = {
    {1, 1, 1}, {5, 17, 3}, {8, 16, 24}, {13, 8, 33}, {3, 40, 9}, {64, 1, 7},
};

static size_t padded(size_t columns, bool yes)
{
    return yes ? (columns + 7) / 8 * 8 + 8 : columns;
}

static void try_form(struct lk_rng *g, size_t shape, const struct form *f)
{
    size_t rows = shapes[shape].rows, inner = shapes[shape].inner;
    size_t columns = shapes[shape].columns, stride = padded(columns, f->padded);
    size_t a_rows = f->transpose_a ? inner : rows, a_columns = f->transpose_a ? rows : inner;
    size_t b_rows = f->transpose_b ? columns : inner, b_columns = f->transpose_b ? inner : columns;
    struct matrix a = matrix(g, a_rows, a_columns, padded(a_columns, f->padded), f->shift);
    struct matrix b = matrix(g, b_rows, b_columns, padded(b_columns, f->padded), f->shift);
    struct matrix bias = matrix(g, 1, columns, columns, 3 * f->shift);
    struct matrix e = matrix(g, rows, columns, stride, f->shift);
    struct matrix d = matrix(g, rows, columns, stride, f->shift);
    struct lk_cuda_product p = {.d = d.at,
                                .a = a.at,
                                .b = b.at,
                                .bias = f->bias ? bias.at : NULL,
                                .e = f->e == E_NONE    ? NULL
                                     : f->e == E_APART ? e.at
                                                       : d.at,
                                .rows = rows,
                                .inner = inner,
                                .columns = columns,
                                .a_stride = f->padded ? a.stride : 0,
                                .b_stride = f->padded ? b.stride : 0,
                                .d_stride = f->padded ? d.stride : 0,
                                .transpose_a = f->transpose_a,
                                .transpose_b = f->transpose_b};
    double *want = malloc((d.n + 1) * sizeof *want);

    memcpy(want, d.d, d.n * sizeof *want);
    fake_blas.n_seen = 0;
    ck_assert_msg(lk_cuda_blas_product(&blas_rig, &p) == LK_OK, "%s (%s)", lk_error_text(),
                  fake_blas.why);
    p.d_stride = stride;
    matrix_multiply(want, &p, &a, &b, &bias, f->e == E_APART ? e.d : d.d);
    matrix_check(&d, want, fake_blas.n_seen > 1 ? 2 : 1, "product");
    free(want);
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&bias);
    matrix_free(&e);
    matrix_free(&d);
}

/* Runs one type and shape, selected by _i. */
START_TEST(every_form_is_its_definition)
{
    struct lk_rng g = lk_rng_init(1, (uint64_t)_i);

    blas_rig.real = blas_rig_reals[_i % BLAS_RIG_REALS];
    for (int bits = 0; bits < 16; bits++)
        for (int e = E_NONE; e < E_FORMS; e++)
            for (size_t shift = 0; shift < 3; shift++)
                try_form(&g, (size_t)(_i / BLAS_RIG_REALS),
                         &(struct form){.transpose_a = bits & 1,
                                        .transpose_b = bits & 2,
                                        .bias = bits & 4,
                                        .padded = bits & 8,
                                        .e = (unsigned)e,
                                        .shift = shift});
}
END_TEST

/* ---- The linear layer ---- */

/* The launchers of kernels/matmul.cu, which only make a product here, against the definition. */
START_TEST(layers_with_padded_rows_are_their_definition)
{
    const size_t rows = 6, inputs = 16, outputs = 37, stride = 40;
    struct lk_rng g = lk_rng_init(1, 0);
    struct matrix in, weight, out, din, dweight;

    blas_rig.real = blas_rig_reals[_i];
    in = matrix(&g, rows, inputs, inputs, 0);
    weight = matrix(&g, outputs, inputs, inputs, 0);
    out = matrix(&g, rows, outputs, stride, 0);
    din = matrix(&g, rows, inputs, inputs, 0);
    dweight = matrix(&g, outputs, inputs, inputs, 0);
#define LAYER(op, ...)                                                                             \
    ck_assert_msg(lk_op_##op.cuda(&(struct lk_##op##_args){__VA_ARGS__}, &blas_rig) == LK_OK,      \
                  "%s", lk_error_text())
#define SCALARS .rows = rows, .inputs = inputs, .outputs = outputs, .stride = stride
    LAYER(matmul_backward_input, .din = din.at, .dout = out.at, .weight = weight.at, SCALARS);
    lk_op_matmul_backward_input.ref(&(struct lk_matmul_backward_input_args){
        .din = din.d, .dout = out.d, .weight = weight.d, SCALARS});
    matrix_check(&din, din.d, 2, "din");
    LAYER(matmul_backward_weight, .dweight = dweight.at, .dout = out.at, .in = in.at, SCALARS,
          .accumulate = true);
    lk_op_matmul_backward_weight.ref(&(struct lk_matmul_backward_weight_args){
        .dweight = dweight.d, .dout = out.d, .in = in.d, SCALARS, .accumulate = true});
    matrix_check(&dweight, dweight.d, 1, "dweight");
    LAYER(matmul_forward, .out = out.at, .in = in.at, .weight = weight.at, SCALARS);
    lk_op_matmul_forward.ref(
        &(struct lk_matmul_forward_args){.out = out.d, .in = in.d, .weight = weight.d, SCALARS});
    matrix_check(&out, out.d, 1, "out");
    matrix_free(&in);
    matrix_free(&weight);
    matrix_free(&out);
    matrix_free(&din);
    matrix_free(&dweight);
}
END_TEST

/* ---- Tensor cores ---- */

/* Logits of a vocabulary that is no multiple of 8, as in GPT-2: forward, gradient of the input and
 * of the weight. Nearly all work of each is done with everything at multiples of 16 bytes. */
START_TEST(only_the_rest_of_an_odd_vocabulary_is_unaligned)
{
    enum { ROWS = 16, CHANNELS = 24, VOCAB = 257, STRIDE = 320 };
    static const struct fake_blas_seen want[3][2] = {
        {{256, ROWS, CHANNELS, true}, {1, ROWS, CHANNELS, false}},
        {{CHANNELS, ROWS, 256, true}, {CHANNELS, ROWS, 1, false}},
        {{CHANNELS, 256, ROWS, true}, {CHANNELS, 1, ROWS, false}},
    };
    struct lk_rng g = lk_rng_init(1, 0);
    struct matrix logits, x, wte;

    blas_rig.real = LK_BF16;
    logits = matrix(&g, ROWS, VOCAB, STRIDE, 0);
    x = matrix(&g, ROWS, CHANNELS, CHANNELS, 0);
    wte = matrix(&g, VOCAB, CHANNELS, CHANNELS, 0);
    if (_i == 0)
        LAYER(matmul_forward, .out = logits.at, .in = x.at, .weight = wte.at, .rows = ROWS,
              .inputs = CHANNELS, .outputs = VOCAB, .stride = STRIDE);
    else if (_i == 1)
        LAYER(matmul_backward_input, .din = x.at, .dout = logits.at, .weight = wte.at, .rows = ROWS,
              .inputs = CHANNELS, .outputs = VOCAB, .stride = STRIDE);
    else
        LAYER(matmul_backward_weight, .dweight = wte.at, .dout = logits.at, .in = x.at,
              .rows = ROWS, .inputs = CHANNELS, .outputs = VOCAB, .stride = STRIDE);
    ck_assert_uint_eq(fake_blas.n_seen, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(fake_blas.seen[i].m, want[_i][i].m);
        ck_assert_uint_eq(fake_blas.seen[i].n, want[_i][i].n);
        ck_assert_uint_eq(fake_blas.seen[i].k, want[_i][i].k);
        ck_assert(i > 0 || fake_blas.seen[i].aligned);
    }
    matrix_free(&logits);
    matrix_free(&x);
    matrix_free(&wte);
}
END_TEST

/* ---- Plans ---- */

struct small {
    struct matrix a, b, d, bias;
    struct lk_cuda_product p;
};

/* (4, 8) times (8, 16), with a bias. */
static void small_init(struct small *s)
{
    struct lk_rng g = lk_rng_init(1, 0);

    blas_rig.real = LK_F32;
    s->a = matrix(&g, 4, 8, 8, 0);
    s->b = matrix(&g, 8, 16, 16, 0);
    s->d = matrix(&g, 4, 16, 16, 0);
    s->bias = matrix(&g, 1, 17, 17, 0);
    s->p = (struct lk_cuda_product){.d = s->d.at,
                                    .a = s->a.at,
                                    .b = s->b.at,
                                    .bias = s->bias.at,
                                    .rows = 4,
                                    .inner = 8,
                                    .columns = 16};
}

static void small_fini(struct small *s)
{
    matrix_free(&s->a);
    matrix_free(&s->b);
    matrix_free(&s->d);
    matrix_free(&s->bias);
}

static enum lk_status product(const struct lk_cuda_product *p)
{
    fake_blas.n_seen = 0;
    return lk_cuda_blas_product(&blas_rig, p);
}

/* The heuristic is asked again when any of its inputs changes, even a bias at another alignment. */
START_TEST(plans_are_kept_by_all_that_they_depend_on)
{
    struct small s;

    small_init(&s);
    ck_assert_int_eq(product(&s.p), LK_OK);
    ck_assert_int_eq(product(&s.p), LK_OK);
    ck_assert_int_eq(fake_blas.heuristics, 1);
    s.p.bias = (float *)s.bias.at + 1;
    ck_assert_msg(product(&s.p) == LK_OK, "%s (%s)", lk_error_text(), fake_blas.why);
    ck_assert_int_eq(fake_blas.heuristics, 2);
    s.p.bias = NULL;
    ck_assert_int_eq(product(&s.p), LK_OK);
    s.p.e = s.p.d;
    ck_assert_int_eq(product(&s.p), LK_OK);
    s.p.rows = 3;
    ck_assert_int_eq(product(&s.p), LK_OK);
    ck_assert_int_eq(fake_blas.heuristics, 5);
    ck_assert_int_eq(product(&s.p), LK_OK);
    ck_assert_int_eq(fake_blas.heuristics, 5);
    small_fini(&s);
}
END_TEST

START_TEST(a_product_that_cannot_be_is_named)
{
    struct small s;

    small_init(&s);
    fake_blas.heuristic = _i ? FAKE_BLAS_STATE_BAD : FAKE_BLAS_FINDS_NONE;
    ck_assert_int_eq(product(&s.p), LK_EUNSUPPORTED);
    ck_assert_str_eq(
        lk_error_text(),
        "(4, 8) times (8, 16) plus bias in float32, strides 8, 16, 16, aligned to 256, "
        "256, 256, 256, 256 bytes: cuBLASLt has no algorithm");
    /* The failed plan was not kept. */
    fake_blas.heuristic = FAKE_BLAS_FINDS;
    ck_assert_int_eq(product(&s.p), LK_OK);
    small_fini(&s);
}
END_TEST

/* Each call that can fail does, in turn: an error with the product's name, no leaks. */
START_TEST(every_call_may_fail)
{
    struct small s;
    int n = 0;

    small_init(&s);
    fake_blas.fail_with = _i ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INVALID_VALUE;
    for (bool failed = true; failed; n++) {
        struct lk_cuda_blas *b = NULL;
        enum lk_status st;

        ck_assert_int_lt(n, 100);
        fake_blas.calls = 0;
        fake_blas.fail_at = n + 1;
        st = lk_cuda_blas_open_calls(&fake_blas_calls, &b);
        if (st == LK_OK) {
            struct lk_cuda c = blas_rig;

            c.blas = b;
            fake_blas.n_seen = 0;
            st = lk_cuda_blas_product(&c, &s.p);
            ck_assert(st == LK_OK || strstr(lk_error_text(), "(4, 8) times (8, 16) plus bias"));
            lk_cuda_blas_close(b);
        }
        failed = st != LK_OK;
        ck_assert_int_eq(st, !failed ? LK_OK : _i ? LK_ENOMEM : LK_EINTERNAL);
        ck_assert_int_eq(fake_blas.alive, 1); /* the handle of this test's own */
    }
    ck_assert_int_gt(n, 15);
    small_fini(&s);
}
END_TEST

/* ---- The fake's checks ---- */

/* The fake refuses misuse that would go wrong on a GPU. */
START_TEST(the_model_refuses_what_cublaslt_would)
{
    static const char *const why[] = {"C overlaps D and is not D", "a factor overlaps D",
                                      "the workspace is not aligned to 256 bytes"};
    struct small s;

    small_init(&s);
    if (_i == 0) {
        s.p.rows = 3;
        s.p.e = s.p.d;
        s.p.d = (float *)s.p.d + 16;
    } else if (_i == 1) {
        s.p.a = s.p.d;
    } else {
        blas_rig.workspace = (char *)blas_rig_workspace + 128;
    }
    ck_assert_int_eq(product(&s.p), LK_EINTERNAL);
    ck_assert_str_eq(fake_blas.why, why[_i]);
    small_fini(&s);
}
END_TEST

SUITE(blas_cuda, tc)
{
    tcase_add_checked_fixture(tc, blas_rig_setup, blas_rig_teardown);
    tcase_add_loop_test(tc, every_form_is_its_definition, 0,
                        BLAS_RIG_REALS * (int)LK_COUNT(shapes));
    tcase_add_loop_test(tc, layers_with_padded_rows_are_their_definition, 0, BLAS_RIG_REALS);
    tcase_add_loop_test(tc, only_the_rest_of_an_odd_vocabulary_is_unaligned, 0, 3);
    tcase_add_test(tc, plans_are_kept_by_all_that_they_depend_on);
    tcase_add_loop_test(tc, a_product_that_cannot_be_is_named, 0, 2);
    tcase_add_loop_test(tc, every_call_may_fail, 0, 2);
    tcase_add_loop_test(tc, the_model_refuses_what_cublaslt_would, 0, 3);
}
