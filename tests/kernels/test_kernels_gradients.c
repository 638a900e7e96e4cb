/*
 * The float64 definitions: every backward op against central finite differences of its forward op.
 *
 * The scalar is sum(w * out) with fixed random w, so that d(scalar) / d(out) = w is what the
 * backward op gets. Central differences with h = 1e-5 err by h^2 |f'''| / 6 and by the rounding
 * 2^-53 |f| / h, each below 1e-9 here: values and derivatives are a few units.
 */
#include "kernels/ops.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

static const double tolerance = 1e-8;

/* Sizes and buffers of the case in hand; each op uses some of them. */
struct setup {
    size_t a, b, c, heads;
    struct pair x, weight, bias, residual, out, w, mean, rstd, probs;
    int32_t *tokens;
};

typedef double (*scalar_fn)(struct setup *s);

static double weighted(const struct setup *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->out.n; i++)
        sum += s->w.d[i] * s->out.d[i];
    return sum;
}

static void check_gradient(struct setup *s, scalar_fn f, double *at, const double *grad, size_t n,
                           const char *what)
{
    const double h = 1e-5;

    for (size_t i = 0; i < n; i++) {
        double keep = at[i], up, down;

        at[i] = keep + h;
        up = f(s);
        at[i] = keep - h;
        down = f(s);
        at[i] = keep;
        ck_assert_msg(fabs(grad[i] - (up - down) / (2 * h)) <= tolerance,
                      "d%s[%zu]: %.12g, difference %.12g", what, i, grad[i], (up - down) / (2 * h));
    }
}

static struct setup setup_make(int seed, size_t a, size_t b, size_t c)
{
    struct lk_rng g = lk_rng_init(11, (uint64_t)seed);

    return (struct setup){.a = a,
                          .b = b,
                          .c = c,
                          .x = pair_random(&g, a * b, 2),
                          .weight = pair_random(&g, c * b, 1),
                          .bias = pair_random(&g, c > b ? c : b, 1),
                          .residual = pair_random(&g, a * c, 1),
                          .out = pair_zero(a * c),
                          .w = pair_random(&g, a * c, 1),
                          .mean = pair_zero(a),
                          .rstd = pair_zero(a),
                          .tokens = random_tokens(&g, a, c)};
}

/* rows, inputs, outputs */
static const size_t shapes[][3] = {{1, 1, 1}, {3, 4, 2}, {2, 1, 5}, {4, 7, 6}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double matmul(struct setup *s)
{
    lk_op_matmul_forward.ref(&(struct lk_matmul_forward_args){.out = s->out.d,
                                                              .in = s->x.d,
                                                              .weight = s->weight.d,
                                                              .bias = s->bias.d,
                                                              .residual = s->residual.d,
                                                              .rows = s->a,
                                                              .inputs = s->b,
                                                              .outputs = s->c});
    return weighted(s);
}

START_TEST(matmul_gradients)
{
    struct setup s = setup_make(_i, shapes[_i][0], shapes[_i][1], shapes[_i][2]);
    struct pair dx = pair_zero(s.x.n), dweight = pair_zero(s.weight.n), dbias = pair_zero(s.c);

    lk_op_matmul_backward_input.ref(&(struct lk_matmul_backward_input_args){.din = dx.d,
                                                                            .dout = s.w.d,
                                                                            .weight = s.weight.d,
                                                                            .rows = s.a,
                                                                            .inputs = s.b,
                                                                            .outputs = s.c});
    lk_op_matmul_backward_weight.ref(&(struct lk_matmul_backward_weight_args){.dweight = dweight.d,
                                                                              .dbias = dbias.d,
                                                                              .dout = s.w.d,
                                                                              .in = s.x.d,
                                                                              .rows = s.a,
                                                                              .inputs = s.b,
                                                                              .outputs = s.c});
    check_gradient(&s, matmul, s.x.d, dx.d, dx.n, "in");
    check_gradient(&s, matmul, s.weight.d, dweight.d, dweight.n, "weight");
    check_gradient(&s, matmul, s.bias.d, dbias.d, dbias.n, "bias");
    check_gradient(&s, matmul, s.residual.d, s.w.d, s.w.n, "residual");
}
END_TEST

static double layernorm(struct setup *s)
{
    lk_op_layernorm_forward.ref(&(struct lk_layernorm_forward_args){.out = s->out.d,
                                                                    .mean = s->mean.d,
                                                                    .rstd = s->rstd.d,
                                                                    .in = s->x.d,
                                                                    .weight = s->weight.d,
                                                                    .bias = s->bias.d,
                                                                    .rows = s->a,
                                                                    .channels = s->b});
    return weighted(s);
}

START_TEST(layernorm_gradients)
{
    /* Two or three channels only would put a row's variance near eps, where derivatives are big. */
    struct setup s = setup_make(_i, 3, 5 + (size_t)_i, 5 + (size_t)_i);
    struct pair dx = pair_zero(s.x.n), dweight = pair_zero(s.b), dbias = pair_zero(s.b);

    layernorm(&s);
    lk_op_layernorm_backward.ref(&(struct lk_layernorm_backward_args){.din = dx.d,
                                                                      .dweight = dweight.d,
                                                                      .dbias = dbias.d,
                                                                      .dout = s.w.d,
                                                                      .in = s.x.d,
                                                                      .weight = s.weight.d,
                                                                      .mean = s.mean.d,
                                                                      .rstd = s.rstd.d,
                                                                      .rows = s.a,
                                                                      .channels = s.b});
    check_gradient(&s, layernorm, s.x.d, dx.d, dx.n, "in");
    check_gradient(&s, layernorm, s.weight.d, dweight.d, dweight.n, "weight");
    check_gradient(&s, layernorm, s.bias.d, dbias.d, dbias.n, "bias");
}
END_TEST

/* samples, context, channels, heads */
static const size_t attentions[][4] = {{1, 1, 1, 1}, {1, 3, 4, 2}, {2, 5, 6, 3}, {1, 7, 4, 1}};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions };

static double attention(struct setup *s)
{
    lk_op_attention_forward.ref(&(struct lk_attention_forward_args){.out = s->out.d,
                                                                    .probs = s->probs.d,
                                                                    .qkv = s->x.d,
                                                                    .samples = s->a,
                                                                    .context = s->b,
                                                                    .channels = s->c,
                                                                    .heads = s->heads});
    return weighted(s);
}

START_TEST(attention_gradients)
{
    const size_t *n = attentions[_i];
    struct setup s = setup_make(_i, 1, 1, 1);
    struct lk_rng g = lk_rng_init(12, (uint64_t)_i);
    size_t elems = n[0] * n[1] * n[2];
    struct pair dx = pair_zero(3 * elems), scratch = pair_zero(n[1] * n[1]);

    s.a = n[0];
    s.b = n[1];
    s.c = n[2];
    s.heads = n[3];
    s.x = pair_random(&g, 3 * elems, 1);
    s.out = pair_zero(elems);
    s.w = pair_random(&g, elems, 1);
    s.probs = pair_zero(n[0] * n[3] * n[1] * n[1]);
    attention(&s);
    lk_op_attention_backward.ref(&(struct lk_attention_backward_args){.dqkv = dx.d,
                                                                      .scratch = scratch.d,
                                                                      .dout = s.w.d,
                                                                      .qkv = s.x.d,
                                                                      .probs = s.probs.d,
                                                                      .samples = s.a,
                                                                      .context = s.b,
                                                                      .channels = s.c,
                                                                      .heads = s.heads});
    check_gradient(&s, attention, s.x.d, dx.d, dx.n, "qkv");
}
END_TEST

static double gelu(struct setup *s)
{
    lk_op_gelu_forward.ref(&(struct lk_gelu_forward_args){s->out.d, s->x.d, s->x.n});
    return weighted(s);
}

static double relu(struct setup *s)
{
    lk_op_relu_forward.ref(&(struct lk_relu_forward_args){s->out.d, s->x.d, s->x.n});
    return weighted(s);
}

START_TEST(activation_gradients)
{
    struct setup s = setup_make(_i, 6, 9, 9);
    struct pair dx = pair_zero(s.x.n);

    lk_op_gelu_backward.ref(
        &(struct lk_gelu_backward_args){.din = dx.d, .dout = s.w.d, .in = s.x.d, .n = s.x.n});
    check_gradient(&s, gelu, s.x.d, dx.d, dx.n, "in of gelu");
    for (size_t i = 0; i < s.x.n; i++) /* away from the corner at 0 */
        s.x.d[i] += s.x.d[i] < 0 ? -0.01 : 0.01;
    relu(&s);
    lk_op_relu_backward.ref(&(struct lk_relu_backward_args){dx.d, s.w.d, s.out.d, s.x.n});
    check_gradient(&s, relu, s.x.d, dx.d, dx.n, "in of relu");
}
END_TEST

static double encoder(struct setup *s)
{
    lk_op_encoder_forward.ref(&(struct lk_encoder_forward_args){.out = s->out.d,
                                                                .tokens = s->tokens,
                                                                .wte = s->weight.d,
                                                                .wpe = s->residual.d,
                                                                .samples = s->a / 3,
                                                                .context = 3,
                                                                .channels = s->c,
                                                                .vocab = s->b});
    return weighted(s);
}

START_TEST(encoder_gradients)
{
    /* 2 samples of 3 tokens, vocabulary 4, 5 channels */
    struct setup s = setup_make(_i, 6, 4, 5);
    struct pair dwte = pair_zero(s.weight.n), dwpe = pair_random(&(struct lk_rng){0}, 5 * 5, 1);

    for (size_t i = 0; i < 6; i++)
        s.tokens[i] %= 4;
    lk_op_encoder_backward_position.ref(&(struct lk_encoder_backward_position_args){
        .dwpe = dwpe.d, .dout = s.w.d, .samples = 2, .context = 3, .channels = 5, .wpe_rows = 5});
    lk_op_encoder_backward_token.ref(&(struct lk_encoder_backward_token_args){.dwte = dwte.d,
                                                                              .dout = s.w.d,
                                                                              .tokens = s.tokens,
                                                                              .samples = 2,
                                                                              .context = 3,
                                                                              .channels = 5,
                                                                              .vocab = 4});
    check_gradient(&s, encoder, s.weight.d, dwte.d, dwte.n, "wte");
    check_gradient(&s, encoder, s.residual.d, dwpe.d, dwpe.n, "wpe");
}
END_TEST

static double cross_entropy(struct setup *s)
{
    lk_op_cross_entropy_forward.ref(&(struct lk_cross_entropy_forward_args){.loss = s->out.d,
                                                                            .log_sum = s->mean.d,
                                                                            .logits = s->x.d,
                                                                            .targets = s->tokens,
                                                                            .rows = s->a,
                                                                            .vocab = s->b,
                                                                            .target_stride = 2});
    return 3 * s->out.d[0];
}

START_TEST(cross_entropy_gradients)
{
    struct lk_rng g = lk_rng_init(13, 0);
    struct setup s = setup_make(_i, 4, 6, 6);
    struct pair dx = pair_zero(s.x.n);

    s.tokens = random_tokens(&g, 8, 6);
    cross_entropy(&s);
    lk_op_cross_entropy_backward.ref(&(struct lk_cross_entropy_backward_args){.dlogits = dx.d,
                                                                              .logits = s.x.d,
                                                                              .log_sum = s.mean.d,
                                                                              .targets = s.tokens,
                                                                              .rows = s.a,
                                                                              .vocab = s.b,
                                                                              .target_stride = 2,
                                                                              .seed = 3});
    check_gradient(&s, cross_entropy, s.x.d, dx.d, dx.n, "logits");
}
END_TEST

SUITE(kernels_gradients, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, matmul_gradients, 0, SHAPES);
    tcase_add_loop_test(tc, layernorm_gradients, 0, 4);
    tcase_add_loop_test(tc, attention_gradients, 0, ATTENTIONS);
    tcase_add_test(tc, activation_gradients);
    tcase_add_test(tc, encoder_gradients);
    tcase_add_test(tc, cross_entropy_gradients);
}
