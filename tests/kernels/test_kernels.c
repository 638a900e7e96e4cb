/*
 * Compare every float32 op with its float64 definition, over sizes that are 1, odd, and around the
 * widths of vectors and blocks; check that accumulating adds and not accumulating overwrites.
 * Tolerances are those of tests/rigs/kernel_pair.h.
 */
#include "kernels/ops.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_rng generator(int i)
{
    return lk_rng_init(20240607, (uint64_t)i);
}

/* Sizes of vectors: nothing, one, odd, and around the widths of SSE, AVX2 and AVX-512. */
static const size_t lengths[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000, 4097};
static const int n_lengths = sizeof lengths / sizeof *lengths;

struct shape {
    size_t rows, inputs, outputs;
};
static const struct shape shapes[] = {{1, 1, 1},    {1, 5, 1},     {2, 3, 4},    {7, 1, 9},
                                      {5, 17, 3},   {6, 16, 16},   {13, 31, 33}, {64, 48, 144},
                                      {3, 257, 16}, {65, 300, 35}, {0, 4, 4},    {4, 0, 4},
                                      {4, 4, 0},    {1, 513, 2},   {130, 20, 65}};
static const int n_shapes = sizeof shapes / sizeof *shapes;

START_TEST(matmul_forward_matches)
{
    struct shape s = shapes[_i / 8];
    size_t stride = _i & 4 ? s.outputs + 3 : s.outputs;
    struct lk_rng g = generator(_i);
    struct pair in = pair_random(&g, s.rows * s.inputs, 1);
    struct pair weight = pair_random(&g, s.outputs * s.inputs, 1);
    struct pair bias = pair_random(&g, s.outputs, 1);
    struct pair residual = pair_random(&g, s.rows * stride, 1);
    struct pair out = pair_random(&g, s.rows * stride, 1);
    bool has_bias = _i & 1, has_residual = _i & 2;

    RUN(matmul_forward,
        (.out = out.f, .in = in.f, .weight = weight.f, .bias = has_bias ? bias.f : NULL,
         .residual = has_residual ? residual.f : NULL),
        (.out = out.d, .in = in.d, .weight = weight.d, .bias = has_bias ? bias.d : NULL,
         .residual = has_residual ? residual.d : NULL),
        .rows = s.rows, .inputs = s.inputs, .outputs = s.outputs, .stride = stride);
    ck_assert_double_le(pair_error(&out), SUM_TOLERANCE(s.inputs));

    /* In place on the residual. */
    RUN(matmul_forward, (.out = residual.f, .in = in.f, .weight = weight.f, .residual = residual.f),
        (.out = residual.d, .in = in.d, .weight = weight.d, .residual = residual.d), .rows = s.rows,
        .inputs = s.inputs, .outputs = s.outputs, .stride = stride);
    ck_assert_double_le(pair_error(&residual), SUM_TOLERANCE(s.inputs));
}
END_TEST

START_TEST(matmul_backward_matches)
{
    struct shape s = shapes[_i / 4];
    size_t stride = _i & 2 ? s.outputs + 5 : 0;
    struct lk_rng g = generator(_i);
    struct pair in = pair_random(&g, s.rows * s.inputs, 1);
    struct pair weight = pair_random(&g, s.outputs * s.inputs, 1);
    struct pair dout = pair_random(&g, s.rows * (stride ? stride : s.outputs), 1);
    struct pair din = pair_random(&g, s.rows * s.inputs, 1);
    struct pair dweight = pair_random(&g, s.outputs * s.inputs, 1);
    struct pair dbias = pair_random(&g, s.outputs, 1);

    RUN(matmul_backward_input, (.din = din.f, .dout = dout.f, .weight = weight.f),
        (.din = din.d, .dout = dout.d, .weight = weight.d), .rows = s.rows, .inputs = s.inputs,
        .outputs = s.outputs, .stride = stride, .accumulate = _i & 1);
    ck_assert_double_le(pair_error(&din), SUM_TOLERANCE(s.outputs));
    RUN(matmul_backward_weight,
        (.dweight = dweight.f, .dbias = dbias.f, .dout = dout.f, .in = in.f),
        (.dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d), .rows = s.rows,
        .inputs = s.inputs, .outputs = s.outputs, .stride = stride, .accumulate = _i & 1);
    ck_assert_double_le(pair_error(&dweight), SUM_TOLERANCE(s.rows));
    ck_assert_double_le(pair_error(&dbias), SUM_TOLERANCE(s.rows));

    RUN(matmul_backward_weight, (.dweight = dweight.f, .dout = dout.f, .in = in.f),
        (.dweight = dweight.d, .dout = dout.d, .in = in.d), .rows = s.rows, .inputs = s.inputs,
        .outputs = s.outputs, .stride = stride);
    ck_assert_double_le(pair_error(&dweight), SUM_TOLERANCE(s.rows));
}
END_TEST

static const struct {
    size_t samples, context, channels, vocab;
} texts[] = {{1, 1, 1, 1},   {1, 5, 3, 2}, {2, 3, 17, 7}, {3, 16, 48, 256},
             {2, 33, 31, 5}, {0, 4, 4, 4}, {4, 1, 16, 3}};
static const int n_texts = sizeof texts / sizeof *texts;

START_TEST(encoder_matches)
{
    size_t samples = texts[_i / 2].samples, context = texts[_i / 2].context;
    size_t channels = texts[_i / 2].channels, vocab = texts[_i / 2].vocab;
    size_t n = samples * context, wpe_rows = context + 2;
    struct lk_rng g = generator(_i);
    struct pair wte = pair_random(&g, vocab * channels, 1);
    struct pair wpe = pair_random(&g, wpe_rows * channels, 1);
    struct pair out = pair_random(&g, n * channels, 1);
    int32_t *tokens = random_tokens(&g, n, vocab);

    RUN(encoder_forward, (.out = out.f, .wte = wte.f, .wpe = wpe.f),
        (.out = out.d, .wte = wte.d, .wpe = wpe.d), .tokens = tokens, .samples = samples,
        .context = context, .channels = channels, .vocab = vocab);
    ck_assert_double_le(pair_error(&out), ULP); /* one addition */
    pair_align(&out);
    RUN(encoder_backward_position, (.dwpe = wpe.f, .dout = out.f), (.dwpe = wpe.d, .dout = out.d),
        .samples = samples, .context = context, .channels = channels, .wpe_rows = wpe_rows,
        .accumulate = _i & 1);
    ck_assert_double_le(pair_error(&wpe), SUM_TOLERANCE(samples));
    RUN(encoder_backward_token, (.dwte = wte.f, .dout = out.f), (.dwte = wte.d, .dout = out.d),
        .tokens = tokens, .samples = samples, .context = context, .channels = channels,
        .vocab = vocab, .accumulate = _i & 1);
    ck_assert_double_le(pair_error(&wte), SUM_TOLERANCE(n));
}
END_TEST

START_TEST(bytes_match)
{
    size_t n = lengths[_i];
    struct lk_rng g = generator(_i);
    struct pair out = pair_zero(n);
    int32_t *tokens = random_tokens(&g, n, 256);

    RUN(bytes_forward, (.out = out.f), (.out = out.d), .tokens = tokens, .n = n,
        .factor = 2.0 / 255, .shift = -1.0);
    ck_assert_double_le(pair_error(&out), 2 * ULP); /* the rounded factor, product and sum */
}
END_TEST

START_TEST(layernorm_matches)
{
    size_t rows = shapes[_i / 2].rows;
    size_t channels = shapes[_i / 2].inputs ? shapes[_i / 2].inputs : 1;
    size_t n = rows * channels;
    struct lk_rng g = generator(_i);
    struct pair in = pair_random(&g, n, 3), out = pair_zero(n);
    struct pair mean = pair_zero(rows), rstd = pair_zero(rows);
    struct pair weight = pair_random(&g, channels, 1), bias = pair_random(&g, channels, 1);
    struct pair dout = pair_random(&g, n, 1), din = pair_random(&g, n, 1);
    struct pair dweight = pair_random(&g, channels, 1), dbias = pair_random(&g, channels, 1);
    double largest_rstd = 1, tolerance;

    RUN(layernorm_forward,
        (.out = out.f, .mean = mean.f, .rstd = rstd.f, .in = in.f, .weight = weight.f,
         .bias = bias.f),
        (.out = out.d, .mean = mean.d, .rstd = rstd.d, .in = in.d, .weight = weight.d,
         .bias = bias.d),
        .rows = rows, .channels = channels);
    /* An error of the mean is multiplied by rstd, which is large where a row hardly varies. */
    for (size_t r = 0; r < rows; r++)
        largest_rstd = fmax(largest_rstd, rstd.d[r]);
    tolerance = largest_rstd * SUM_TOLERANCE(channels);
    ck_assert_double_le(pair_error(&mean), SUM_TOLERANCE(channels));
    ck_assert_double_le(pair_error(&rstd), tolerance);
    ck_assert_double_le(pair_error(&out), tolerance);

    RUN(layernorm_backward,
        (.din = din.f, .dweight = dweight.f, .dbias = dbias.f, .dout = dout.f, .in = in.f,
         .weight = weight.f, .mean = mean.f, .rstd = rstd.f),
        (.din = din.d, .dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d,
         .weight = weight.d, .mean = mean.d, .rstd = rstd.d),
        .rows = rows, .channels = channels, .accumulate = _i & 1, .accumulate_input = _i & 1);
    ck_assert_double_le(pair_error(&din), largest_rstd * tolerance);
    ck_assert_double_le(pair_error(&dweight), tolerance + SUM_TOLERANCE(rows));
    ck_assert_double_le(pair_error(&dbias), SUM_TOLERANCE(rows));
}
END_TEST

/* Contexts around the block of 64 queries. */
static const struct {
    size_t samples, context, channels, heads;
} attentions[] = {{1, 1, 1, 1},   {1, 2, 4, 2},    {2, 5, 6, 3}, {1, 63, 16, 2}, {2, 64, 48, 3},
                  {1, 65, 10, 1}, {1, 129, 32, 4}, {0, 8, 8, 2}, {1, 200, 9, 9}};
static const int n_attentions = sizeof attentions / sizeof *attentions;

START_TEST(attention_matches)
{
    size_t samples = attentions[_i].samples, context = attentions[_i].context;
    size_t channels = attentions[_i].channels, heads = attentions[_i].heads;
    size_t n = samples * context * channels;
    struct lk_rng g = generator(_i);
    struct pair qkv = pair_random(&g, 3 * n, 2), dqkv = pair_random(&g, 3 * n, 1);
    struct pair out = pair_random(&g, n, 1), dout = pair_random(&g, n, 1);
    struct pair probs = pair_random(&g, samples * heads * context * context, 1);
    struct pair scratch = pair_random(&g, context * context, 1);

    /* Probabilities sum to 1, so sums over keys are averages: their error does not grow; scores
     * are sums of channels / heads products below 4. */
    double tolerance = 8 * SUM_TOLERANCE(channels / heads);

    RUN(attention_forward, (.out = out.f, .probs = probs.f, .qkv = qkv.f),
        (.out = out.d, .probs = probs.d, .qkv = qkv.d), .samples = samples, .context = context,
        .channels = channels, .heads = heads);
    ck_assert_double_le(pair_error(&out), tolerance);
    RUN(attention_backward,
        (.dqkv = dqkv.f, .scratch = scratch.f, .dout = dout.f, .qkv = qkv.f, .probs = probs.f),
        (.dqkv = dqkv.d, .scratch = scratch.d, .dout = dout.d, .qkv = qkv.d, .probs = probs.d),
        .samples = samples, .context = context, .channels = channels, .heads = heads);
    /* dk and dv do add up over queries. */
    ck_assert_double_le(pair_error(&dqkv), 2 * tolerance + SUM_TOLERANCE(context));
}
END_TEST

START_TEST(attention_is_causal)
{
    enum { CONTEXT = 70, CHANNELS = 8 };
    struct lk_rng g = generator(0);
    struct pair qkv = pair_random(&g, CONTEXT * 3 * CHANNELS, 1);
    struct pair out = pair_zero(CONTEXT * CHANNELS), again = pair_zero(CONTEXT * CHANNELS);
    struct pair probs = pair_zero(2 * CONTEXT * CONTEXT);

    for (int round = 0; round < 2; round++) {
        struct pair *to = round ? &again : &out;

        RUN(attention_forward, (.out = to->f, .probs = probs.f, .qkv = qkv.f),
            (.out = to->d, .probs = probs.d, .qkv = qkv.d), .samples = 1, .context = CONTEXT,
            .channels = CHANNELS, .heads = 2);
        /* Second round: the last position alone is different. */
        for (size_t i = (CONTEXT - 1) * 3 * CHANNELS; i < qkv.n; i++) {
            qkv.f[i] = 5 - qkv.f[i];
            qkv.d[i] = 5 - qkv.d[i];
        }
    }
    for (size_t i = 0; i < CONTEXT * CHANNELS; i++) {
        ck_assert_int_eq(out.f[i] == again.f[i], i < (CONTEXT - 1) * CHANNELS);
        ck_assert_int_eq(out.d[i] == again.d[i], i < (CONTEXT - 1) * CHANNELS);
    }
}
END_TEST

START_TEST(activations_match)
{
    size_t n = lengths[_i];
    struct lk_rng g = generator(_i);
    struct pair in = pair_random(&g, n, 6), out = pair_zero(n);
    struct pair dout = pair_random(&g, n, 1), din = pair_zero(n);

    RUN(gelu_forward, (.out = out.f, .in = in.f), (.out = out.d, .in = in.d), .n = n);
    /* The argument of the exponential, at most 25 here, is rounded twice. */
    ck_assert_double_le(pair_error(&out), 4 * ULP);
    RUN(gelu_backward, (.din = din.f, .dout = dout.f, .in = in.f),
        (.din = din.d, .dout = dout.d, .in = in.d), .n = n);
    ck_assert_double_le(pair_error(&din), 8 * ULP);

    RUN(relu_forward, (.out = out.f, .in = in.f), (.out = out.d, .in = in.d), .n = n);
    ck_assert_double_eq(pair_error(&out), 0);
    RUN(relu_backward, (.din = din.f, .dout = dout.f, .out = out.f),
        (.din = din.d, .dout = dout.d, .out = out.d), .n = n);
    ck_assert_double_eq(pair_error(&din), 0);

    /* In place. */
    RUN(gelu_backward, (.din = dout.f, .dout = dout.f, .in = in.f),
        (.din = dout.d, .dout = dout.d, .in = in.d), .n = n);
    ck_assert_double_le(pair_error(&dout), 8 * ULP);
}
END_TEST

START_TEST(cross_entropy_matches)
{
    static const struct {
        size_t rows, vocab, target_stride, stride;
    } table[] = {{1, 1, 1, 0},   {1, 2, 1, 0},       {5, 17, 1, 20},
                 {3, 256, 4, 0}, {2, 1001, 2, 1024}, {16, 31, 1, 31}};
    size_t rows = table[_i].rows, vocab = table[_i].vocab, stride = table[_i].stride;
    size_t targets_apart = table[_i].target_stride, n = rows * (stride ? stride : vocab);
    struct lk_rng g = generator(_i);
    struct pair logits = pair_random(&g, n, 8), log_sum = pair_zero(rows);
    struct pair loss = pair_zero(1), dlogits = pair_zero(n);
    int32_t *targets = random_tokens(&g, rows * targets_apart, vocab);

    RUN(cross_entropy_forward, (.loss = loss.f, .log_sum = log_sum.f, .logits = logits.f),
        (.loss = loss.d, .log_sum = log_sum.d, .logits = logits.d), .targets = targets,
        .rows = rows, .vocab = vocab, .target_stride = targets_apart, .stride = stride);
    /* The terms are positive: their sum's relative error is a few ulp, its log's an absolute one.
     */
    ck_assert_double_le(pair_error(&log_sum), 8 * ULP);
    ck_assert_double_le(pair_error(&loss), 8 * ULP);
    RUN(cross_entropy_backward, (.dlogits = dlogits.f, .logits = logits.f, .log_sum = log_sum.f),
        (.dlogits = dlogits.d, .logits = logits.d, .log_sum = log_sum.d), .targets = targets,
        .rows = rows, .vocab = vocab, .target_stride = targets_apart, .stride = stride,
        .seed = 0.5);
    ck_assert_double_le(pair_error(&dlogits), 32 * ULP); /* an exponent of up to 16 rounded */
    RUN(cross_entropy_backward, (.dlogits = logits.f, .logits = logits.f, .log_sum = log_sum.f),
        (.dlogits = logits.d, .logits = logits.d, .log_sum = log_sum.d), .targets = targets,
        .rows = rows, .vocab = vocab, .target_stride = targets_apart, .stride = stride,
        .seed = 0.5);
    for (size_t i = 0; i < logits.n; i++)
        if (stride == 0 || i % stride < vocab)
            ck_assert_float_eq(logits.f[i], dlogits.f[i]);
}
END_TEST

START_TEST(vectors_match)
{
    size_t n = lengths[_i];
    struct lk_rng g = generator(_i);
    struct pair x = pair_random(&g, n, 2), y = pair_random(&g, n, 1), sum = pair_zero(1),
                wire = pair_zero(n);
    uint16_t *half = calloc(n ? n : 1, sizeof *half), *half_ref = calloc(n ? n : 1, sizeof *half);

    ck_assert_ptr_nonnull(half);
    ck_assert_ptr_nonnull(half_ref);
    sum.f[0] = 3;
    sum.d[0] = 3;
    RUN(sum_squares, (.out = sum.f, .in = x.f), (.out = sum.d, .in = x.d), .n = n,
        .accumulate = true);
    ck_assert_double_le(pair_error(&sum), 64 * ULP); /* lanes and blocks: the error hardly grows */
    RUN(sum_squares, (.out = sum.f, .in = x.f), (.out = sum.d, .in = x.d), .n = n);
    ck_assert_double_le(pair_error(&sum), 64 * ULP);
    RUN(scale, (.x = x.f), (.x = x.d), .n = n, .factor = 0.25);
    ck_assert_double_eq(pair_error(&x), 0); /* a power of two */
    RUN(axpy, (.y = x.f, .x = y.f), (.y = x.d, .x = y.d), .n = n, .factor = -0.3);
    ck_assert_double_le(pair_error(&x), 4 * ULP);
    sum.f[0] = 9;
    sum.d[0] = 9;
    RUN(clip, (.x = x.f, .sum_squares = sum.f), (.x = x.d, .sum_squares = sum.d), .n = n,
        .scale = 1, .most = 0.5);
    ck_assert_double_le(pair_error(&x), 4 * ULP);
    memcpy(y.f, x.f, n * sizeof *y.f);
    RUN(clip, (.x = x.f, .sum_squares = sum.f), (.x = x.d, .sum_squares = sum.d), .n = n,
        .scale = 1, .most = 4);
    ck_assert_mem_eq(y.f, x.f, n * sizeof *y.f); /* a norm of 3 is not above 4 */
    for (size_t i = 0; i < n;
         i++) /* one number, since two that differ by a rounding may be cast apart */
        x.d[i] = (double)x.f[i];
    for (int t = LK_F16; t <= LK_BF16; t++) {
        enum lk_dtype dtype = (enum lk_dtype)t;

        lk_op_cast_to_wire.cpu(&(struct lk_cast_to_wire_args){half, x.f, n, dtype});
        lk_op_cast_to_wire.ref(&(struct lk_cast_to_wire_args){half_ref, x.d, n, dtype});
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq(half[i], half_ref[i]);
            ck_assert_uint_eq(half[i],
                              dtype == LK_F16 ? lk_f16_from_f32(x.f[i]) : lk_bf16_from_f32(x.f[i]));
        }
        lk_op_cast_from_wire.cpu(&(struct lk_cast_from_wire_args){wire.f, half, n, dtype});
        lk_op_cast_from_wire.ref(&(struct lk_cast_from_wire_args){wire.d, half, n, dtype});
        ck_assert_double_eq(pair_error(&wire), 0);
        for (size_t i = 0; i < n; i++) /* half an ulp of an 8-bit significand */
            ck_assert_double_le(fabs(wire.d[i] - x.d[i]), fabs(x.d[i]) / 256 + 0x1p-25);
    }
    RUN(fill, (.x = x.f), (.x = x.d), .n = n, .value = 1.5);
    for (size_t i = 0; i < n; i++)
        ck_assert(x.f[i] == 1.5F && x.d[i] == 1.5);
    free(half);
    free(half_ref);
}
END_TEST

/* Two tensors of one buffer: the update must find each one's start, and its own weight decay. */
struct tables {
    struct lk_optim_tensor f[2], d[2];
};

static struct tables tables_of(const struct pair *param, const struct pair *m, const struct pair *v,
                               const struct pair *grad, double weight_decay)
{
    struct tables t;
    size_t cut = param->n / 3;

    for (size_t i = 0; i < 2; i++) {
        size_t at = i ? cut : 0, n = i ? param->n - cut : cut;

        t.f[i] = (struct lk_optim_tensor){.param = param->f + at,
                                          .m = m ? m->f + at : NULL,
                                          .v = v ? v->f + at : NULL,
                                          .grad = grad->f + at,
                                          .n = n,
                                          .weight_decay = i ? weight_decay : 0};
        t.d[i] = t.f[i];
        t.d[i].param = param->d + at;
        t.d[i].m = m ? m->d + at : NULL;
        t.d[i].v = v ? v->d + at : NULL;
        t.d[i].grad = grad->d + at;
    }
    return t;
}

START_TEST(optimizers_match)
{
    size_t n = lengths[_i];
    struct lk_rng g = generator(_i);
    struct pair param = pair_random(&g, n, 1), buf = pair_zero(n), v = pair_zero(n);
    struct lk_optim_rate rate = {.learning_rate = 0.1, .unscale = 1};
    struct tables table;

    for (int64_t t = 1; t <= 5; t++) {
        struct pair grad = pair_random(&g, n, 1);

        table = tables_of(&param, &buf, NULL, &grad, 0.01);
        RUN(sgd, (.tensors = table.f), (.tensors = table.d), .n_tensors = 2, .rate = &rate,
            .momentum = 0.9);
        table = tables_of(&param, NULL, NULL, &grad, 0);
        RUN(sgd, (.tensors = table.f), (.tensors = table.d), .n_tensors = 2, .rate = &rate);
    }
    ck_assert_double_le(pair_error(&param), 20 * ULP); /* ten updates of a few roundings */
    buf = pair_zero(n);
    pair_align(&param);
    for (int64_t t = 1; t <= 5; t++) {
        struct pair grad = pair_random(&g, n, 1);

        table = tables_of(&param, &buf, &v, &grad, 0.1);
        rate = (struct lk_optim_rate){0.01, 0.01 / (1 - pow(0.9, (double)t)),
                                      sqrt(1 / (1 - pow(0.999, (double)t))), 0.75};
        RUN(adamw, (.tensors = table.f), (.tensors = table.d), .n_tensors = 2, .rate = &rate,
            .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8);
    }
    ck_assert_double_le(pair_error(&param), 20 * ULP);
    ck_assert_double_le(pair_error(&buf), 10 * ULP);
    ck_assert_double_le(pair_error(&v), 10 * ULP);
}
END_TEST

/* Two updates of one number, by hand from the formulas of torch.optim. */
START_TEST(optimizers_by_hand)
{
    struct lk_optim_rate rate = {.learning_rate = 0.1, .unscale = 1};
    double param = 1, buf = 0, m = 0, v = 0, grad = 0.5;
    struct lk_optim_tensor one = {
        .param = &param, .m = &buf, .grad = &grad, .n = 1, .weight_decay = 0.2};
    struct lk_sgd_args sgd = {.tensors = &one, .n_tensors = 1, .rate = &rate, .momentum = 0.9};
    struct lk_adamw_args adamw = {
        .tensors = &one, .n_tensors = 1, .rate = &rate, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};

    lk_op_sgd.ref(&sgd); /* g = 0.7, buf = 0.7, param = 0.93 */
    ck_assert_double_eq_tol(param, 0.93, 1e-15);
    grad = -1;
    lk_op_sgd.ref(&sgd); /* g = -0.814, buf = -0.184, param = 0.9484 */
    ck_assert_double_eq_tol(buf, -0.184, 1e-15);
    ck_assert_double_eq_tol(param, 0.9484, 1e-15);

    one.m = &m;
    one.v = &v;
    one.weight_decay = 0.5;
    param = 2;
    grad = 0.5;
    rate = (struct lk_optim_rate){0.1, 0.1 / 0.1, 1 / sqrt(0.01), 1}; /* t = 1 */
    lk_op_adamw.ref(&adamw); /* decay to 1.9; m / c1 = 0.5, sqrt(v / c2) = 0.5: minus 0.1 */
    ck_assert_double_eq_tol(param, 1.8, 1e-8);
    grad = -0.5;
    rate = (struct lk_optim_rate){0.1, 0.1 / 0.19, 1 / sqrt(0.0199), 1}; /* t = 2 */
    /* decay to 1.71; m = 0.9 * 0.05 - 0.05 = -0.005, / 0.19; v = 0.25 * 0.0199, / 0.0199. */
    lk_op_adamw.ref(&adamw);
    ck_assert_double_eq_tol(param, 1.71 + 0.1 * (0.005 / 0.19) / 0.5, 1e-8);
}
END_TEST

/* A NaN anywhere in the input must appear in the output of both: a diverged run has to show it. */
START_TEST(nan_comes_out)
{
    enum { N = 40 };
    struct lk_rng g = generator(1);
    struct pair x = pair_random(&g, N, 1), y = pair_zero(N), ones = pair_random(&g, N, 1);
    struct pair mean = pair_zero(1), rstd = pair_zero(1), one = pair_zero(1);
    const int32_t target = 3;
    size_t at = (size_t)_i;
    const struct lk_optim_rate rate = {.learning_rate = 1, .unscale = 1};
    struct tables table;

    x.f[at] = NAN;
    x.d[at] = NAN;
    RUN(cross_entropy_forward, (.loss = one.f, .log_sum = mean.f, .logits = x.f),
        (.loss = one.d, .log_sum = mean.d, .logits = x.d), .targets = &target, .rows = 1,
        .vocab = N, .target_stride = 1);
    ck_assert(isnan(one.f[0]) && isnan(one.d[0]));
    RUN(layernorm_forward,
        (.out = y.f, .mean = mean.f, .rstd = rstd.f, .in = x.f, .weight = ones.f, .bias = ones.f),
        (.out = y.d, .mean = mean.d, .rstd = rstd.d, .in = x.d, .weight = ones.d, .bias = ones.d),
        .rows = 1, .channels = N);
    ck_assert(isnan(y.f[0]) && isnan(y.d[0]) && isnan(y.f[N - 1]));
    RUN(gelu_forward, (.out = y.f, .in = x.f), (.out = y.d, .in = x.d), .n = N);
    ck_assert(isnan(y.f[at]) && isnan(y.d[at]));
    RUN(relu_forward, (.out = y.f, .in = x.f), (.out = y.d, .in = x.d), .n = N);
    ck_assert(isnan(y.f[at]) && isnan(y.d[at]));
    RUN(sum_squares, (.out = one.f, .in = x.f), (.out = one.d, .in = x.d), .n = N);
    ck_assert(isnan(one.f[0]) && isnan(one.d[0]));
    table = tables_of(&ones, NULL, NULL, &x, 0);
    RUN(sgd, (.tensors = table.f), (.tensors = table.d), .n_tensors = 2, .rate = &rate);
    ck_assert(isnan(ones.f[at]) && isnan(ones.d[at]));
}
END_TEST

/* Float16 and bfloat16 at the ends of their ranges: the op agrees with facts/dtype.h. */
START_TEST(casts_at_the_ends)
{
    static const float values[] = {0.0F,     -0.0F,    65504.0F,   65519.9F, 65520.0F, -1e30F,
                                   0x1p-24F, 0x1p-25F, 0x1.8p-25F, 3.4e38F,  INFINITY, NAN};
    enum { N = sizeof values / sizeof *values };
    uint16_t half[N];
    float back[N];

    for (int t = LK_F16; t <= LK_BF16; t++) {
        enum lk_dtype dtype = (enum lk_dtype)t;

        lk_op_cast_to_wire.cpu(&(struct lk_cast_to_wire_args){half, values, N, dtype});
        lk_op_cast_from_wire.cpu(&(struct lk_cast_from_wire_args){back, half, N, dtype});
        for (size_t i = 0; i < N - 1; i++)
            ck_assert_uint_eq(half[i], dtype == LK_F16 ? lk_f16_from_f32(values[i])
                                                       : lk_bf16_from_f32(values[i]));
        ck_assert(isnan(back[N - 1]) && isinf(back[N - 2]));
    }
}
END_TEST

START_TEST(every_op_has_a_cost)
{
    static const struct lk_op *const ops[] = {
#define ROW(op) &lk_op_##op,
        LK_OP_LIST(ROW)
#undef ROW
    };
    char zeros[LK_OP_ARGS_MAX] = {0};

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        _Alignas(max_align_t) char args[LK_OP_ARGS_MAX] = {0};
        struct lk_op_cost c = ops[i]->cost(args);

        ck_assert_mem_eq(args, zeros, sizeof args);
        ck_assert_msg(c.flops == 0 && c.seconds == 0, "%s of nothing", ops[i]->name);
    }
    ck_assert_double_eq(
        lk_op_matmul_forward
            .cost(&(struct lk_matmul_forward_args){.rows = 2, .inputs = 3, .outputs = 5})
            .flops,
        60);
    ck_assert_double_eq(lk_op_wait.cost(&(struct lk_wait_args){.seconds = 0.25}).seconds, 0.25);
    ck_assert_double_eq(lk_op_hold.cost(&(struct lk_hold_args){.seconds = 0.5}).seconds, 0.5);
    ck_assert_double_eq(lk_op_move.cost(&(struct lk_move_args){.bytes = 100, .Bps = 50}).seconds,
                        2);
    ck_assert_double_eq(lk_op_move.cost(&(struct lk_move_args){.bytes = 100}).bytes, 200);
}
END_TEST

START_TEST(stand_ins_move_bytes_and_nothing_else)
{
    enum { N = 36 };
    const struct lk_op *const op = &lk_op_move;
    unsigned char from[N], to[N + 1];

    for (int i = 0; i < N; i++)
        from[i] = (unsigned char)(3 * i);
    for (int ref = 0; ref < 2; ref++) {
        memset(to, 0xee, sizeof to);
        (ref ? op->ref : op->cpu)(&(struct lk_move_args){to, from, N, 4, 1e9});
        ck_assert_mem_eq(to, from, N);
        ck_assert_uint_eq(to[N], 0xee);
    }
    lk_op_hold.cpu(&(struct lk_hold_args){.seconds = 1e9});
    lk_op_hold.ref(&(struct lk_hold_args){.seconds = 1e9});
}
END_TEST

SUITE(kernels, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, matmul_forward_matches, 0, 8 * n_shapes);
    tcase_add_loop_test(tc, matmul_backward_matches, 0, 4 * n_shapes);
    tcase_add_loop_test(tc, encoder_matches, 0, 2 * n_texts);
    tcase_add_loop_test(tc, bytes_match, 0, n_lengths);
    tcase_add_loop_test(tc, layernorm_matches, 0, 2 * n_shapes);
    tcase_add_loop_test(tc, attention_matches, 0, n_attentions);
    tcase_add_test(tc, attention_is_causal);
    tcase_add_loop_test(tc, activations_match, 0, n_lengths);
    tcase_add_loop_test(tc, cross_entropy_matches, 0, 6);
    tcase_add_loop_test(tc, vectors_match, 0, n_lengths);
    tcase_add_loop_test(tc, optimizers_match, 0, n_lengths);
    tcase_add_test(tc, optimizers_by_hand);
    tcase_add_loop_test(tc, nan_comes_out, 0, 40);
    tcase_add_test(tc, casts_at_the_ends);
    tcase_add_test(tc, every_op_has_a_cost);
    tcase_add_test(tc, stand_ins_move_bytes_and_nothing_else);
}
