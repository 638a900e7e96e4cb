/* Ops that do the work of several, on the CPU and by definition: they have the bits of these. */
#include "base/array.h"
#include "kernels/ops.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/suite.h"

#include <stddef.h>

enum { ROWS = 5, INPUTS = 24, OUTPUTS = 17, STRIDE = 20 };

static void same(const struct pair *a, const struct pair *b)
{
    ck_assert_uint_eq(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        ck_assert_msg(a->f[i] == b->f[i], "float %zu: %.9g, %.9g", i, a->f[i], b->f[i]);
        ck_assert_msg(a->d[i] == b->d[i], "double %zu: %.17g, %.17g", i, a->d[i], b->d[i]);
    }
}

START_TEST(gelu_forward)
{
    struct lk_rng g = lk_rng_init(1, 0);
    struct pair in = pair_random(&g, ROWS * INPUTS, 1);
    struct pair weight = pair_random(&g, OUTPUTS * INPUTS, 1);
    struct pair bias = pair_random(&g, OUTPUTS, 1);
    struct pair out[2] = {pair_zero(ROWS * STRIDE), pair_zero(ROWS * STRIDE)};
    struct pair gelu[2] = {pair_zero(ROWS * STRIDE), pair_zero(ROWS * STRIDE)};

#define SCALARS .rows = ROWS, .inputs = INPUTS, .outputs = OUTPUTS, .stride = STRIDE
    RUN(matmul_forward,
        (.out = out[0].f, .gelu = gelu[0].f, .in = in.f, .weight = weight.f, .bias = bias.f),
        (.out = out[0].d, .gelu = gelu[0].d, .in = in.d, .weight = weight.d, .bias = bias.d),
        SCALARS);
    RUN(matmul_forward, (.out = out[1].f, .in = in.f, .weight = weight.f, .bias = bias.f),
        (.out = out[1].d, .in = in.d, .weight = weight.d, .bias = bias.d), SCALARS);
    for (size_t r = 0; r < ROWS; r++)
        RUN(gelu_forward, (.out = gelu[1].f + r * STRIDE, .in = out[1].f + r * STRIDE),
            (.out = gelu[1].d + r * STRIDE, .in = out[1].d + r * STRIDE), .n = OUTPUTS);
    same(&out[0], &out[1]);
    same(&gelu[0], &gelu[1]);
    ck_assert_double_gt(gelu[0].d[0] * gelu[0].d[0], 0);
}
END_TEST

/* The sums of columns are what the weight's gradient makes of the same rows; _i: they are added. */
START_TEST(gelu_backward)
{
    struct lk_rng g = lk_rng_init(1, 0);
    struct pair dout = pair_random(&g, ROWS * STRIDE, 1);
    struct pair weight = pair_random(&g, OUTPUTS * INPUTS, 1);
    struct pair in = pair_random(&g, ROWS * INPUTS, 3), x = pair_random(&g, ROWS, 1);
    struct pair din[2] = {pair_zero(ROWS * INPUTS), pair_zero(ROWS * INPUTS)};
    struct pair dbias[3] = {pair_zero(INPUTS), pair_zero(INPUTS), pair_zero(INPUTS)};
    struct pair dweight = pair_zero(INPUTS);

    for (size_t i = 0; i < INPUTS; i++)
        for (size_t k = 0; k < LK_COUNT(dbias); k++)
            dbias[k].f[i] = (float)(dbias[k].d[i] = (double)i);
    RUN(matmul_backward_input,
        (.din = din[0].f, .dbias = dbias[0].f, .dout = dout.f, .weight = weight.f, .gelu_in = in.f),
        (.din = din[0].d, .dbias = dbias[0].d, .dout = dout.d, .weight = weight.d, .gelu_in = in.d),
        SCALARS, .accumulate_bias = _i);
    RUN(matmul_backward_input, (.din = din[1].f, .dout = dout.f, .weight = weight.f),
        (.din = din[1].d, .dout = dout.d, .weight = weight.d), SCALARS);
    RUN(gelu_backward, (.din = din[1].f, .dbias = dbias[1].f, .dout = din[1].f, .in = in.f),
        (.din = din[1].d, .dbias = dbias[1].d, .dout = din[1].d, .in = in.d), .n = ROWS * INPUTS,
        .columns = INPUTS, .accumulate = _i);
    RUN(matmul_backward_weight,
        (.dweight = dweight.f, .dbias = dbias[2].f, .dout = din[1].f, .in = x.f),
        (.dweight = dweight.d, .dbias = dbias[2].d, .dout = din[1].d, .in = x.d), .rows = ROWS,
        .inputs = 1, .outputs = INPUTS, .accumulate = _i, .epilogue = true);
    same(&din[0], &din[1]);
    same(&dbias[0], &dbias[1]);
    same(&dbias[1], &dbias[2]);
}
END_TEST

/* _i: in place. */
START_TEST(loss_with_its_gradient)
{
    struct lk_rng g = lk_rng_init(1, 0);
    struct pair logits = pair_random(&g, ROWS * STRIDE, 8);
    struct pair log_sum[2] = {pair_zero(ROWS), pair_zero(ROWS)};
    struct pair loss[2] = {pair_zero(1), pair_zero(1)};
    struct pair dlogits[2] = {pair_zero(ROWS * STRIDE), pair_zero(ROWS * STRIDE)};
    int32_t *targets = random_tokens(&g, ROWS, OUTPUTS);

    for (size_t i = 0; i < logits.n; i++)
        for (size_t k = 0; k < 2; k++) {
            dlogits[k].f[i] = logits.f[i];
            dlogits[k].d[i] = logits.d[i];
        }
#undef SCALARS
#define SCALARS                                                                                    \
    .targets = targets, .rows = ROWS, .vocab = OUTPUTS, .target_stride = 1, .stride = STRIDE
    RUN(cross_entropy_forward,
        (.loss = loss[0].f, .log_sum = log_sum[0].f, .dlogits = dlogits[0].f,
         .logits = _i ? dlogits[0].f : logits.f),
        (.loss = loss[0].d, .log_sum = log_sum[0].d, .dlogits = dlogits[0].d,
         .logits = _i ? dlogits[0].d : logits.d),
        SCALARS, .seed = 0.5);
    RUN(cross_entropy_forward, (.loss = loss[1].f, .log_sum = log_sum[1].f, .logits = logits.f),
        (.loss = loss[1].d, .log_sum = log_sum[1].d, .logits = logits.d), SCALARS);
    RUN(cross_entropy_backward,
        (.dlogits = dlogits[1].f, .logits = logits.f, .log_sum = log_sum[1].f),
        (.dlogits = dlogits[1].d, .logits = logits.d, .log_sum = log_sum[1].d), SCALARS,
        .seed = 0.5);
    same(&loss[0], &loss[1]);
    same(&log_sum[0], &log_sum[1]);
    same(&dlogits[0], &dlogits[1]);
}
END_TEST

SUITE(kernels_fused, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_test(tc, gelu_forward);
    tcase_add_loop_test(tc, gelu_backward, 0, 2);
    tcase_add_loop_test(tc, loss_with_its_gradient, 0, 2);
}
