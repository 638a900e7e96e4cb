#include "tests/cuda/cases.h"

#include "base/array.h"
#include "tests/cuda/buffers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const enum lk_dtype cuda_case_types[] = {LK_F32, LK_BF16, LK_F16};

/* Return the type of lk_real. */
static enum lk_dtype real(const struct cuda_rig *r)
{
    return r->cuda.real;
}

/* ---- Embeddings ---- */

static const struct {
    size_t samples, context, channels, vocab;
} texts[] = {
    {1, 1, 1, 1},         {2, 3, 17, 7},     {3, 16, 48, 256},      {2, 33, 31, 5},
    {0, 4, 4, 4},         {2, 40, 264, 300}, {5, 60, 70, 3},        {3, 70, 264, 2},
    {2, 1000, 770, 5003}, {4, 1024, 768, 9}, {4, 1024, 768, 50257},
};
/* The last two for the host have words of more rows than a warp adds alone. */
enum { HOST_TEXTS = 8, SHIFTED_TEXTS = 10 };

static void encoder_forward(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, texts, HOST_TEXTS, SHIFTED_TEXTS); i++) {
        size_t samples = texts[i].samples, context = texts[i].context, c = texts[i].channels;
        struct buffer out = buffer_zero(r, "out", real(r), samples * context * c);
        struct buffer wte = buffer_random(r, "wte", real(r), texts[i].vocab * c, 1);
        struct buffer wpe = buffer_random(r, "wpe", real(r), (context + 2) * c, 1);
        int32_t *host, *tokens = tokens_random(r, samples * context, texts[i].vocab, &host);

        RUN(r, encoder_forward, (.out = out.dev, .tokens = tokens, .wte = wte.dev, .wpe = wpe.dev),
            (.out = out.d, .tokens = host, .wte = wte.d, .wpe = wpe.d), .samples = samples,
            .context = context, .channels = c, .vocab = texts[i].vocab);
        buffer_check(&out, ULP);
        buffers_free(r);
    }
}

static void encoder_backward(struct cuda_rig *r)
{
    for (size_t i = 0; i < 2 * N_SHAPES(r, texts, HOST_TEXTS, SHIFTED_TEXTS); i++) {
        size_t samples = texts[i / 2].samples, context = texts[i / 2].context;
        size_t c = texts[i / 2].channels, vocab = texts[i / 2].vocab, rows = samples * context;
        struct buffer dout = buffer_random(r, "dout", real(r), rows * c, 1);
        struct buffer dwte = buffer_random(r, "dwte", real(r), vocab * c, 1);
        struct buffer dwpe = buffer_random(r, "dwpe", real(r), (context + 2) * c, 1);
        int32_t *host, *tokens = tokens_random(r, rows, vocab, &host);

        RUN(r, encoder_backward_position, (.dwpe = dwpe.dev, .dout = dout.dev),
            (.dwpe = dwpe.d, .dout = dout.d), .samples = samples, .context = context, .channels = c,
            .wpe_rows = context + 2, .accumulate = i % 2);
        buffer_check(&dwpe, SUM_BOUND(samples));
        RUN(r, encoder_backward_token, (.dwte = dwte.dev, .dout = dout.dev, .tokens = tokens),
            (.dwte = dwte.d, .dout = dout.d, .tokens = host), .samples = samples,
            .context = context, .channels = c, .vocab = vocab, .accumulate = i % 2);
        /* A token of a small vocabulary occurs at many positions. */
        buffer_check(&dwte, SUM_BOUND(8 + 4 * rows / vocab));
        buffers_free(r);
    }
}

static void bytes_forward(struct cuda_rig *r)
{
    for (size_t n = 0; n < (r->large ? 100000U : 1200U); n = 3 * n + 1) {
        struct buffer out = buffer_zero(r, "out", real(r), n);
        int32_t *host, *tokens = tokens_random(r, n, 256, &host);

        RUN(r, bytes_forward, (.out = out.dev, .tokens = tokens), (.out = out.d, .tokens = host),
            .n = n, .factor = 1 / 128.0, .shift = -1);
        buffer_check(&out, 2 * ULP);
        buffers_free(r);
    }
}

/* ---- Layer normalisation ---- */

static const struct {
    size_t rows, channels;
} matrices[] = {
    {1, 1},    {3, 5},   {9, 33},      {0, 8},       {2, 1030},   {34, 64},    {9, 264},
    {1, 4104}, {520, 8}, {1000, 1601}, {100, 16384}, {4096, 768}, {700, 4096},
};
/* The last one for the host has strips of several rows. */
enum { HOST_MATRICES = 9, SHIFTED_MATRICES = 11 };

static void layernorm_forward(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, matrices, HOST_MATRICES, SHIFTED_MATRICES); i++) {
        size_t rows = matrices[i].rows, c = matrices[i].channels;
        struct buffer in = buffer_random(r, "in", real(r), rows * c, 3);
        struct buffer weight = buffer_random(r, "weight", real(r), c, 1);
        struct buffer bias = buffer_random(r, "bias", real(r), c, 1);
        struct buffer out = buffer_zero(r, "out", real(r), rows * c);
        struct buffer mean = buffer_zero(r, "mean", LK_F32, rows);
        struct buffer rstd = buffer_zero(r, "rstd", LK_F32, rows);

        /* A mean far from 0 must not cost the variance its digits. */
        for (size_t k = 0; k < rows * c; k++)
            in.d[k] += 20;
        buffer_send(&in);
        RUN(r, layernorm_forward,
            (.out = out.dev, .mean = mean.dev, .rstd = rstd.dev, .in = in.dev, .weight = weight.dev,
             .bias = bias.dev),
            (.out = out.d, .mean = mean.d, .rstd = rstd.d, .in = in.d, .weight = weight.d,
             .bias = bias.d),
            .rows = rows, .channels = c);
        buffer_check(&mean, 8 * ULP);
        buffer_check(&rstd, 64 * ULP);
        buffer_check(&out, 64 * ULP); /* in - mean cancels 4 bits */
        buffers_free(r);
    }
}

static void fill_statistics(struct buffer *mean, struct buffer *rstd)
{
    for (size_t k = 0; k < rstd->n; k++)
        rstd->d[k] = 1 + fabs(rstd->d[k]);
    buffer_send(mean);
    buffer_send(rstd);
}

static void layernorm_backward(struct cuda_rig *r)
{
    for (size_t i = 0; i < 2 * N_SHAPES(r, matrices, HOST_MATRICES, SHIFTED_MATRICES); i++) {
        size_t rows = matrices[i / 2].rows, c = matrices[i / 2].channels;
        struct buffer in = buffer_random(r, "in", real(r), rows * c, 1);
        struct buffer dout = buffer_random(r, "dout", real(r), rows * c, 1);
        struct buffer weight = buffer_random(r, "weight", real(r), c, 1);
        struct buffer din = buffer_random(r, "din", real(r), rows * c, 1);
        struct buffer dweight = buffer_random(r, "dweight", real(r), c, 1);
        struct buffer dbias = buffer_random(r, "dbias", real(r), c, 1);
        struct buffer mean = buffer_random(r, "mean", LK_F32, rows, 0.1);
        struct buffer rstd = buffer_random(r, "rstd", LK_F32, rows, 1);

        fill_statistics(&mean, &rstd);
        RUN(r, layernorm_backward,
            (.din = din.dev, .dweight = dweight.dev, .dbias = dbias.dev, .dout = dout.dev,
             .in = in.dev, .weight = weight.dev, .mean = mean.dev, .rstd = rstd.dev),
            (.din = din.d, .dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d,
             .weight = weight.d, .mean = mean.d, .rstd = rstd.d),
            .rows = rows, .channels = c, .accumulate = i % 2, .accumulate_input = i % 2);
        buffer_check(&din, 32 * ULP);
        buffer_check(&dweight, SUM_BOUND(rows));
        buffer_check(&dbias, SUM_BOUND(rows));
        buffers_free(r);
    }
}

/* ---- Linear layer ---- */

static const struct {
    size_t rows, inputs, outputs;
} products[] = {
    {1, 1, 1}, {5, 17, 3}, {33, 8, 130},    {200, 4, 24},    {0, 4, 4},
    {4, 0, 4}, {4, 4, 0},  {200, 770, 300}, {256, 768, 768}, {24, 768, 8191},
};
enum { HOST_PRODUCTS = 7, SHIFTED_PRODUCTS = 8 };

/*
 * Factors of tf32 keep 11 bits. Tensor cores cut the rest off, and cuBLASLt need not round before:
 * a product of numbers below 1 errs by at most 2^-9, and k such errors add up to sqrt(k) of them;
 * what they have in common, since all go towards zero, is a part of the result and within one.
 * Factors of 16 bits are exact. The products, and what is added to them, are below 1.
 */
double cuda_product_bound(const struct cuda_rig *r, size_t k)
{
    return SUM_BOUND(k) + (real(r) == LK_F32 ? 0x1p-9 * sqrt((double)k + 1) : 0);
}

/*
 * A sum that is rounded before something is added to it, as a part of the largest. cuBLASLt does so
 * with some algorithms where it adds a third matrix, or has an epilogue (seen on an H200, 13.1); we
 * do where a product is split along its inner axis.
 */
double cuda_rounded_before(const struct cuda_rig *r, bool is)
{
    return is && real(r) != LK_F32 ? lk_dtype_unit_roundoff(real(r)) : 0;
}

/* Pad every other shape's rows, as logits of an odd vocabulary need. */
static size_t padded(size_t i, size_t columns)
{
    return i % 2 ? (columns + 63) / 64 * 64 : 0;
}

static void matmul_forward(struct cuda_rig *r)
{
    for (size_t i = 0; i < 4 * N_SHAPES(r, products, HOST_PRODUCTS, SHIFTED_PRODUCTS); i++) {
        size_t rows = products[i / 4].rows, inputs = products[i / 4].inputs;
        size_t outputs = products[i / 4].outputs, stride = padded(i / 4, outputs);
        bool bias = i & 1, residual = i & 2;
        struct buffer in = buffer_random(r, "in", real(r), rows * inputs, 1);
        struct buffer weight = buffer_random(r, "weight", real(r), outputs * inputs, 1);
        struct buffer b = buffer_random(r, "bias", real(r), outputs, 1);
        struct buffer e =
            buffer_random(r, "residual", real(r), rows * lk_op_stride(stride, outputs), 1);
        struct buffer out =
            buffer_random(r, "out", real(r), rows * lk_op_stride(stride, outputs), 1);

        RUN(r, matmul_forward,
            (.out = out.dev, .in = in.dev, .weight = weight.dev, .bias = bias ? b.dev : NULL,
             .residual = residual ? e.dev : NULL),
            (.out = out.d, .in = in.d, .weight = weight.d, .bias = bias ? b.d : NULL,
             .residual = residual ? e.d : NULL),
            .rows = rows, .inputs = inputs, .outputs = outputs, .stride = stride);
        buffer_check_sum(
            &out, cuda_product_bound(r, inputs) + cuda_rounded_before(r, bias || residual), 1);
        if (bias && residual) { /* in place, once a shape */
            RUN(r, matmul_forward,
                (.out = e.dev, .in = in.dev, .weight = weight.dev, .residual = e.dev),
                (.out = e.d, .in = in.d, .weight = weight.d, .residual = e.d), .rows = rows,
                .inputs = inputs, .outputs = outputs, .stride = stride);
            buffer_check_sum(&e, cuda_product_bound(r, inputs) + cuda_rounded_before(r, true), 1);
        }
        buffers_free(r);
    }
}

static void matmul_backward(struct cuda_rig *r)
{
    for (size_t i = 0; i < 2 * N_SHAPES(r, products, HOST_PRODUCTS, SHIFTED_PRODUCTS); i++) {
        size_t rows = products[i / 2].rows, inputs = products[i / 2].inputs;
        size_t outputs = products[i / 2].outputs, stride = padded(i / 2, outputs);
        struct buffer in = buffer_random(r, "in", real(r), rows * inputs, 1);
        struct buffer weight = buffer_random(r, "weight", real(r), outputs * inputs, 1);
        struct buffer dout =
            buffer_random(r, "dout", real(r), rows * lk_op_stride(stride, outputs), 1);
        struct buffer din = buffer_random(r, "din", real(r), rows * inputs, 1);
        struct buffer dweight = buffer_random(r, "dweight", real(r), outputs * inputs, 1);
        struct buffer dbias = buffer_random(r, "dbias", real(r), outputs, 1);

        RUN(r, matmul_backward_input, (.din = din.dev, .dout = dout.dev, .weight = weight.dev),
            (.din = din.d, .dout = dout.d, .weight = weight.d), .rows = rows, .inputs = inputs,
            .outputs = outputs, .stride = stride, .accumulate = i % 2);
        buffer_check_sum(&din,
                         cuda_product_bound(r, outputs) +
                             cuda_rounded_before(r, i % 2 || (stride && outputs % 8)),
                         1);
        RUN(r, matmul_backward_weight,
            (.dweight = dweight.dev, .dbias = dbias.dev, .dout = dout.dev, .in = in.dev),
            (.dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d), .rows = rows,
            .inputs = inputs, .outputs = outputs, .stride = stride, .accumulate = i % 2);
        buffer_check_sum(&dweight, cuda_product_bound(r, rows) + cuda_rounded_before(r, i % 2), 1);
        buffer_check(&dbias, SUM_BOUND(rows));
        buffers_free(r);
    }
}

/* ---- Attention ---- */

static const struct lk_attention_shape attentions[] = {
    {1, 1, 8, 1},    {2, 17, 72, 3},  {1, 20, 5, 1},     {1, 66, 64, 1},
    {1, 34, 128, 1}, {1, 145, 64, 1}, {1, 1024, 256, 4}, {2, 333, 256, 2},
    {3, 65, 200, 5}, {2, 257, 99, 3}, {2, 256, 384, 3},
};
enum { HOST_ATTENTIONS = 6, SHIFTED_ATTENTIONS = LK_COUNT(attentions) };

/*
 * 16 bits: probabilities and their derivatives are rounded before they are multiplied; tf32: all
 * factors to 11 bits, scores among them, whose error becomes a relative one of the probability.
 * Sums of positions average such errors; they are allowed once in full forward, and four times
 * backward, where three products follow each other.
 */
static double attention_bound(const struct cuda_rig *r)
{
    return real(r) == LK_F32 ? 0x1p-10 : lk_dtype_unit_roundoff(real(r));
}

void cuda_case_attention(struct cuda_rig *r, const struct lk_attention_shape *s, bool backward)
{
    size_t samples = s->samples, context = s->context, heads = s->heads, c = s->channels;
    size_t rows = samples * context, n_probs = r->compare ? rows * heads * context : 0;
    struct buffer qkv = buffer_random(r, "qkv", real(r), rows * 3 * c, 2);
    struct buffer dout = buffer_random(r, "dout", real(r), rows * c, 1);
    struct buffer out = buffer_zero(r, "out", real(r), rows * c);
    struct buffer dqkv = buffer_zero(r, "dqkv", real(r), rows * 3 * c);
    struct buffer log_sum = buffer_zero(r, "log_sum", LK_F32, rows * heads);
    double *probs = calloc(n_probs + context * context, sizeof *probs);

    RUN(r, attention_forward, (.out = out.dev, .log_sum = log_sum.dev, .qkv = qkv.dev),
        (.out = out.d, .probs = probs, .qkv = qkv.d), .samples = samples, .context = context,
        .channels = c, .heads = heads);
    if (backward) {
        RUN(r, attention_backward,
            (.dqkv = dqkv.dev, .dout = dout.dev, .qkv = qkv.dev, .out = out.dev,
             .log_sum = log_sum.dev),
            (.dqkv = dqkv.d, .dout = dout.d, .qkv = qkv.d, .out = out.d, .probs = probs,
             .scratch = probs + n_probs),
            .samples = samples, .context = context, .channels = c, .heads = heads);
        buffer_check(&dqkv, 4 * attention_bound(r));
    } else {
        buffer_check(&out, attention_bound(r));
    }
    free(probs);
    buffers_free(r);
}

static void attention_forward(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, attentions, HOST_ATTENTIONS, SHIFTED_ATTENTIONS); i++)
        cuda_case_attention(r, &attentions[i], false);
}

static void attention_backward(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, attentions, HOST_ATTENTIONS, SHIFTED_ATTENTIONS); i++)
        cuda_case_attention(r, &attentions[i], true);
}

/* ---- Element by element ---- */

static const size_t lengths[] = {0, 1, 3, 8, 17, 300, 2051, 100003, 1 << 22};
enum { HOST_LENGTHS = 7, SHIFTED_LENGTHS = 8 };

static void gelu(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, lengths, HOST_LENGTHS, SHIFTED_LENGTHS); i++) {
        size_t n = lengths[i];
        struct buffer in = buffer_random(r, "in", real(r), n, 5);
        struct buffer out = buffer_zero(r, "out", real(r), n);
        struct buffer d = buffer_random(r, "dout", real(r), n, 1);

        RUN(r, gelu_forward, (.out = out.dev, .in = in.dev), (.out = out.d, .in = in.d), .n = n);
        buffer_check(&out, 4 * ULP);
        RUN(r, gelu_backward, (.din = d.dev, .dout = d.dev, .in = in.dev),
            (.din = d.d, .dout = d.d, .in = in.d), .n = n);
        buffer_check_sum(&d, 16 * ULP, 1);
        buffers_free(r);
    }
}

static void relu(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, lengths, HOST_LENGTHS, SHIFTED_LENGTHS); i++) {
        size_t n = lengths[i];
        struct buffer x = buffer_random(r, "in", real(r), n, 5);
        struct buffer d = buffer_random(r, "dout", real(r), n, 1);

        if (n > 1)
            x.d[1] = NAN;
        buffer_send(&x);
        RUN(r, relu_forward, (.out = x.dev, .in = x.dev), (.out = x.d, .in = x.d), .n = n);
        buffer_check(&x, 0);
        RUN(r, relu_backward, (.din = d.dev, .dout = d.dev, .out = x.dev),
            (.din = d.d, .dout = d.d, .out = x.d), .n = n);
        buffer_check(&d, 0);
        buffers_free(r);
    }
}

static void vectors(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, lengths, HOST_LENGTHS, SHIFTED_LENGTHS); i++) {
        size_t n = lengths[i];
        struct buffer x = buffer_random(r, "x", real(r), n, 5);
        struct buffer y = buffer_random(r, "y", real(r), n, 6);
        struct buffer z = buffer_random(r, "z", real(r), n, 4);
        struct buffer sum = buffer_random(r, "sum", LK_F32, 1, 7);

        sum.d[0] = 9;
        buffer_send(&sum);
        RUN(r, scale, (.x = x.dev), (.x = x.d), .n = n, .factor = 0.7);
        buffer_check(&x, ULP);
        RUN(r, axpy, (.y = y.dev, .x = z.dev), (.y = y.d, .x = z.d), .n = n, .factor = -0.3);
        buffer_check(&y, 2 * ULP);
        RUN(r, clip, (.x = z.dev, .sum_squares = sum.dev), (.x = z.d, .sum_squares = sum.d), .n = n,
            .scale = 1, .most = 0.5);
        buffer_check(&z, 4 * ULP);
        RUN(r, fill, (.x = x.dev), (.x = x.d), .n = n, .value = 1.5);
        buffer_check(&x, 0);
        buffers_free(r);
    }
}

static void sum_squares(struct cuda_rig *r)
{
    for (size_t i = 0; i < 2 * N_SHAPES(r, lengths, HOST_LENGTHS, SHIFTED_LENGTHS); i++) {
        struct buffer in = buffer_random(r, "in", real(r), lengths[i / 2], 1);
        struct buffer out = buffer_random(r, "out", LK_F32, 1, 1);

        RUN(r, sum_squares, (.out = out.dev, .in = in.dev), (.out = out.d, .in = in.d),
            .n = lengths[i / 2], .accumulate = i % 2);
        buffer_check(&out, 8 * ULP);
        buffers_free(r);
    }
}

/* The words of a buffer of floats; a checksum has no tolerance. */
static void checksums(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, lengths, HOST_LENGTHS, SHIFTED_LENGTHS); i++) {
        size_t n = lengths[i];
        struct buffer in = buffer_random(r, "in", LK_F32, n, 1);
        uint32_t *host = calloc(n + 1, sizeof *host);
        uint64_t *sum = r->machine->alloc(sizeof *sum, "sum"), want = 0, got = 0;

        r->machine->copy(host, in.dev, n * sizeof *host);
        RUN(r, checksum, (.sum = sum, .words = in.dev), (.sum = &want, .words = host), .n = n);
        r->machine->copy(&got, sum, sizeof got);
        rig_hash(r, &got, sizeof got);
        if (r->compare && got != want)
            rig_fail(r, "%zu words: %" PRIx64 ", not %" PRIx64, n, got, want);
        r->machine->free(sum);
        free(host);
        buffers_free(r);
    }
}

/* The ends of the ranges of float16 and bfloat16, rounded to the real type first. */
static const double ends[] = {0.0,     -0.0,    65504.0,   65519.9, 65520.0,  -1e30,
                              0x1p-24, 0x1p-25, 0x1.8p-25, 3.4e38,  INFINITY, NAN};

static bool same_wire(enum lk_dtype dtype, uint16_t a, uint16_t b)
{
    return a == b || (isnan(lk_dtype_at(dtype, &a, 0)) && isnan(lk_dtype_at(dtype, &b, 0)));
}

static void cast(struct cuda_rig *r, size_t n, enum lk_dtype dtype)
{
    struct buffer x = buffer_random(r, "x", real(r), n, 9);
    uint16_t *wire = r->machine->alloc(n * sizeof *wire, "wire");
    uint16_t *want = calloc(n + 1, sizeof *want), *got = calloc(n + 1, sizeof *got);

    for (size_t k = 0; k < n && k < LK_COUNT(ends); k++)
        x.d[k] = ends[k];
    buffer_send(&x);
    RUN(r, cast_to_wire, (.out = wire, .in = x.dev), (.out = want, .in = x.d), .n = n,
        .dtype = dtype);
    r->machine->copy(got, wire, n * sizeof *got);
    rig_hash(r, got, n * sizeof *got);
    for (size_t k = 0; k < n && r->compare; k++)
        if (!same_wire(dtype, got[k], want[k]))
            rig_fail(r, "%s of %g is %#x, not %#x", lk_dtype_name(dtype), x.d[k], got[k], want[k]);
    RUN(r, cast_from_wire, (.out = x.dev, .in = wire), (.out = x.d, .in = want), .n = n,
        .dtype = dtype);
    buffer_round(&x);
    buffer_check(&x, 0);
    r->machine->free(wire);
    free(want);
    free(got);
    buffers_free(r);
}

static void casts(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, lengths, HOST_LENGTHS, SHIFTED_LENGTHS); i++) {
        cast(r, lengths[i], LK_F16);
        cast(r, lengths[i], LK_BF16);
    }
}

/* ---- Loss ---- */

static const struct {
    size_t rows, vocab;
} losses[] = {
    {1, 1}, {3, 2},    {5, 257},    {4, 1000},   {2, 8193},
    {0, 9}, {600, 33}, {64, 50304}, {64, 50257}, {64, 50257},
};
/* For a GPU: more rows than the block has threads that adds their losses. */
enum { HOST_LOSSES = 6, SHIFTED_LOSSES = LK_COUNT(losses) };

/* Targets every second token. A logit of -infinity is a masked word: it has no probability. */
static void cross_entropy(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, losses, HOST_LOSSES, SHIFTED_LOSSES); i++) {
        size_t rows = losses[i].rows, vocab = losses[i].vocab, stride = padded(i, vocab);
        struct buffer logits =
            buffer_random(r, "logits", real(r), rows * lk_op_stride(stride, vocab), 8);
        struct buffer log_sum = buffer_zero(r, "log_sum", LK_F32, rows);
        struct buffer loss = buffer_zero(r, "loss", LK_F32, 1);
        int32_t *host, *targets = tokens_random(r, 2 * rows, vocab, &host);

        if (vocab > 2 && rows > 0 && host[0] != 0)
            logits.d[0] = -INFINITY;
        buffer_send(&logits);
        RUN(r, cross_entropy_forward,
            (.loss = loss.dev, .log_sum = log_sum.dev, .logits = logits.dev, .targets = targets),
            (.loss = loss.d, .log_sum = log_sum.d, .logits = logits.d, .targets = host),
            .rows = rows, .vocab = vocab, .target_stride = 2, .stride = stride);
        buffer_check(&loss, 16 * ULP);
        buffer_check(&log_sum, 16 * ULP);
        if (i < HOST_LOSSES) { /* elsewhere, and aligned in another way */
            struct buffer d = buffer_zero(r, "dlogits", real(r), logits.n + 1);

            RUN(r, cross_entropy_backward,
                (.dlogits = (char *)d.dev + lk_dtype_bytes(real(r)), .logits = logits.dev,
                 .log_sum = log_sum.dev, .targets = targets),
                (.dlogits = d.d + 1, .logits = logits.d, .log_sum = log_sum.d, .targets = host),
                .rows = rows, .vocab = vocab, .target_stride = 2, .stride = stride, .seed = 0.25);
            buffer_check(&d, 64 * ULP);
        }
        RUN(r, cross_entropy_backward,
            (.dlogits = logits.dev, .logits = logits.dev, .log_sum = log_sum.dev,
             .targets = targets),
            (.dlogits = logits.d, .logits = logits.d, .log_sum = log_sum.d, .targets = host),
            .rows = rows, .vocab = vocab, .target_stride = 2, .stride = stride, .seed = 0.25);
        buffer_check(&logits, 64 * ULP); /* log_sum, about 10, has an error of 2^-20 itself */
        buffers_free(r);
    }
}

/* ---- Others ---- */

/* The cases of other files. */
#define ELSEWHERE(X)                                                                               \
    X(optimizers)                                                                                  \
    X(layerwise)                                                                                   \
    X(orthogonalize)                                                                               \
    X(fused_loss)                                                                                  \
    X(gelu_bias)                                                                                   \
    X(epilogues)                                                                                   \
    X(pixels)                                                                                      \
    X(convolution)                                                                                 \
    X(batchnorm)                                                                                   \
    X(maxpool)                                                                                     \
    X(avgpool)                                                                                     \
    X(add_relu)
#define CALL(name)                                                                                 \
    static void name(struct cuda_rig *r)                                                           \
    {                                                                                              \
        cuda_case_##name(r);                                                                       \
    }
ELSEWHERE(CALL)
#undef CALL

static void wait(struct cuda_rig *r)
{
    rig_try(r, lk_wait_cuda(&(struct lk_wait_args){.seconds = 1e-6}, &r->cuda));
    rig_try(r, lk_wait_cuda(&(struct lk_wait_args){.seconds = 0}, &r->cuda));
}

/* A surrogate copies its bytes whatever its rate and blocks, also with a remainder at the end. */
static void stand_ins(struct cuda_rig *r)
{
    static const struct {
        size_t n, ctas;
        double Bps;
    } moves[] = {
        {5000, 2, 0}, {2561, 3, 1e12}, {7, 1, 0}, {0, 4, 0}, {1 << 22, 16, 0}, {1 << 22, 8, 100e9},
    };
    enum { HOST_MOVES = 4, SHIFTED_MOVES = 4 };

    for (size_t i = 0; i < N_SHAPES(r, moves, HOST_MOVES, SHIFTED_MOVES); i++) {
        struct buffer from = buffer_random(r, "from", LK_F32, moves[i].n, 1);
        struct buffer to = buffer_zero(r, "to", LK_F32, moves[i].n);

        rig_try(r, lk_move_cuda(&(struct lk_move_args){.to = to.dev,
                                                       .from = from.dev,
                                                       .bytes = moves[i].n * sizeof(float),
                                                       .ctas = moves[i].ctas,
                                                       .Bps = moves[i].Bps},
                                &r->cuda));
        memcpy(to.d, from.d, moves[i].n * sizeof *to.d);
        buffer_check(&to, 0);
        buffers_free(r);
    }
    rig_try(r, lk_hold_cuda(&(struct lk_hold_args){.seconds = 1e-6, .ctas = 3}, &r->cuda));
    rig_try(r, lk_hold_cuda(&(struct lk_hold_args){.seconds = 0, .ctas = 3}, &r->cuda));
}

#define ROW(name) {#name, name},
const struct cuda_case cuda_cases[] = {CUDA_CASE_LIST(ROW){NULL, NULL}};
#undef ROW

void cuda_case_run(const struct cuda_case *c, struct cuda_rig *r)
{
    r->hash = 0xcbf29ce484222325U;
    if (r->compare)
        r->worst = 0;
    r->text[0] = '\0';
    for (r->shift = 0; r->shift < 2; r->shift++) {
        r->rng = lk_rng_init(20260705, lk_rng_stream(c->name, r->shift));
        c->run(r);
    }
}
