/*
 * Rates of the CPU ops at the shapes of one GPT block: what an op takes, and by its cost formula
 * (kernels/ops.c) what rate that is. Nothing is asserted.
 *
 *     build/bench/kernels [SAMPLES CONTEXT CHANNELS HEADS VOCAB]      default 4 128 128 4 256
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct sizes {
    size_t samples, context, channels, heads, vocab;
    size_t rows, wide; /* samples * context, 4 * channels */
};

/* Enough for every op: two activations, weights, gradients, attention's probabilities. */
struct buffers {
    float *x, *y, *z; /* (rows, largest of 4 * channels and vocab) */
    float *weight, *dweight;
    float *m, *v;
    float *probs, *scratch, *mean, *rstd, *vector, *dvector;
    uint16_t *half;
    int32_t *tokens;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static enum lk_status make_buffers(struct buffers *b, const struct sizes *s)
{
    size_t width = larger(s->wide, s->vocab), weights = s->channels * width;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&b->x, s->rows * width, sizeof *b->x));
    LK_TRY(lk_alloc(&b->y, s->rows * width, sizeof *b->y));
    LK_TRY(lk_alloc(&b->z, s->rows * width, sizeof *b->z));
    LK_TRY(lk_alloc(&b->weight, weights, sizeof *b->weight));
    LK_TRY(lk_alloc(&b->dweight, weights, sizeof *b->dweight));
    LK_TRY(lk_alloc(&b->m, weights, sizeof *b->m));
    LK_TRY(lk_alloc(&b->v, weights, sizeof *b->v));
    LK_TRY(lk_alloc(&b->probs, s->rows * s->heads * s->context, sizeof *b->probs));
    LK_TRY(lk_alloc(&b->scratch, s->context * s->context, sizeof *b->scratch));
    LK_TRY(lk_alloc(&b->mean, s->rows, sizeof *b->mean));
    LK_TRY(lk_alloc(&b->rstd, s->rows, sizeof *b->rstd));
    LK_TRY(lk_alloc(&b->vector, width, sizeof *b->vector));
    LK_TRY(lk_alloc(&b->dvector, width, sizeof *b->dvector));
    LK_TRY(lk_alloc(&b->half, weights, sizeof *b->half));
    LK_TRY(lk_alloc(&b->tokens, s->rows, sizeof *b->tokens));
    for (size_t i = 0; i < s->rows * width; i++)
        b->x[i] = sinf((float)i);
    for (size_t i = 0; i < weights; i++)
        b->weight[i] = cosf((float)i);
    for (size_t i = 0; i < s->rows; i++)
        b->tokens[i] = (int32_t)(i * 7919 % s->vocab);
out:
    return st;
}

static void free_buffers(struct buffers *b)
{
    void *const all[] = {b->x,    b->y,      b->z,       b->weight,  b->dweight,
                         b->m,    b->v,      b->probs,   b->scratch, b->mean,
                         b->rstd, b->vector, b->dvector, b->half,    b->tokens};

    for (size_t i = 0; i < LK_COUNT(all); i++)
        free(all[i]);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of 21 means over enough calls to last a millisecond. */
static void report(const struct lk_op *op, const char *note, const void *args)
{
    enum { MEANS = 21 };
    double seconds[MEANS];
    struct lk_op_cost cost = op->cost(args);
    size_t calls = 1;
    uint64_t start = lk_now_ns();

    op->cpu(args); /* warms the caches and says how long a call takes */
    calls += (size_t)(LK_NS_PER_MS / (lk_now_ns() - start + 1));
    for (size_t i = 0; i < MEANS; i++) {
        start = lk_now_ns();
        for (size_t c = 0; c < calls; c++)
            op->cpu(args);
        seconds[i] = lk_s_from_ns(lk_now_ns() - start) / (double)calls;
    }
    qsort(seconds, MEANS, sizeof *seconds, by_value);
    printf("%-26s %-10s %10.2f %9.2f %8.2f\n", op->name, note, seconds[MEANS / 2] * 1e6,
           cost.flops / seconds[MEANS / 2] * 1e-9, cost.bytes / seconds[MEANS / 2] * 1e-9);
}

#define REPORT(op, note, ...) report(&lk_op_##op, (note), &(struct lk_##op##_args){__VA_ARGS__})

static void report_linear(const struct buffers *b, const struct sizes *s, const char *note,
                          size_t inputs, size_t outputs)
{
    REPORT(matmul_forward, note, .out = b->y, .in = b->x, .weight = b->weight, .bias = b->vector,
           .rows = s->rows, .inputs = inputs, .outputs = outputs);
    REPORT(matmul_backward_weight, note, .dweight = b->dweight, .dbias = b->dvector, .dout = b->y,
           .in = b->x, .rows = s->rows, .inputs = inputs, .outputs = outputs);
    REPORT(matmul_backward_input, note, .din = b->z, .dout = b->y, .weight = b->weight,
           .rows = s->rows, .inputs = inputs, .outputs = outputs);
}

static void report_block(const struct buffers *b, const struct sizes *s)
{
    size_t c = s->channels;

    report_linear(b, s, "qkv", c, 3 * c);
    report_linear(b, s, "proj", c, c);
    report_linear(b, s, "fc", c, s->wide);
    report_linear(b, s, "fc proj", s->wide, c);
    report_linear(b, s, "head", c, s->vocab);
    REPORT(attention_forward, "", .out = b->y, .probs = b->probs, .qkv = b->x,
           .samples = s->samples, .context = s->context, .channels = c, .heads = s->heads);
    REPORT(attention_backward, "", .dqkv = b->z, .scratch = b->scratch, .dout = b->y, .qkv = b->x,
           .probs = b->probs, .samples = s->samples, .context = s->context, .channels = c,
           .heads = s->heads);
    REPORT(layernorm_forward, "", .out = b->y, .mean = b->mean, .rstd = b->rstd, .in = b->x,
           .weight = b->weight, .bias = b->vector, .rows = s->rows, .channels = c);
    REPORT(layernorm_backward, "", .din = b->z, .dweight = b->dweight, .dbias = b->dvector,
           .dout = b->y, .in = b->x, .weight = b->weight, .mean = b->mean, .rstd = b->rstd,
           .rows = s->rows, .channels = c);
    REPORT(gelu_forward, "", .out = b->y, .in = b->x, .n = s->rows * s->wide);
    REPORT(gelu_backward, "", .din = b->z, .dout = b->y, .in = b->x, .n = s->rows * s->wide);
}

static void report_rest(const struct buffers *b, const struct sizes *s)
{
    size_t c = s->channels, n = c * s->wide;
    struct lk_optim_tensor tensor = {
        .param = b->weight, .m = b->m, .v = b->v, .grad = b->dweight, .n = n};
    const struct lk_optim_rate rate = {1e-9, 1e-9, 1, 1};

    REPORT(encoder_forward, "", .out = b->y, .tokens = b->tokens, .wte = b->weight, .wpe = b->z,
           .samples = s->samples, .context = s->context, .channels = c, .vocab = s->vocab);
    REPORT(encoder_backward_token, "", .dwte = b->dweight, .dout = b->y, .tokens = b->tokens,
           .samples = s->samples, .context = s->context, .channels = c, .vocab = s->vocab,
           .accumulate = true);
    REPORT(cross_entropy_forward, "", .loss = b->vector, .log_sum = b->mean, .logits = b->x,
           .targets = b->tokens, .rows = s->rows, .vocab = s->vocab, .target_stride = 1);
    REPORT(cross_entropy_backward, "", .dlogits = b->y, .logits = b->x, .log_sum = b->mean,
           .targets = b->tokens, .rows = s->rows, .vocab = s->vocab, .target_stride = 1, .seed = 1);
    REPORT(sgd, "", .tensors = &tensor, .n_tensors = 1, .elems = n, .rate = &rate, .momentum = 0.9);
    REPORT(adamw, "", .tensors = &tensor, .n_tensors = 1, .elems = n, .rate = &rate, .beta1 = 0.9,
           .beta2 = 0.999, .eps = 1e-8);
    REPORT(sum_squares, "", .out = b->vector, .in = b->weight, .n = n);
    REPORT(scale, "", .x = b->m, .n = n, .factor = 1);
    REPORT(cast_to_wire, "float16", .out = b->half, .in = b->weight, .n = n, .dtype = LK_F16);
    REPORT(cast_from_wire, "float16", .out = b->v, .in = b->half, .n = n, .dtype = LK_F16);
    REPORT(cast_to_wire, "bfloat16", .out = b->half, .in = b->weight, .n = n, .dtype = LK_BF16);
    REPORT(cast_from_wire, "bfloat16", .out = b->v, .in = b->half, .n = n, .dtype = LK_BF16);
}

static enum lk_status read_sizes(int argc, char **argv, struct sizes *s)
{
    size_t *const fields[] = {&s->samples, &s->context, &s->channels, &s->heads, &s->vocab};
    enum lk_status st = LK_OK;
    int64_t value;

    for (int i = 1; i < argc && i <= (int)LK_COUNT(fields); i++) {
        LK_TRY(lk_parse_int64(argv[i], 1, 1 << 20, &value));
        *fields[i - 1] = (size_t)value;
    }
    s->rows = s->samples * s->context;
    s->wide = 4 * s->channels;
    if (s->channels % s->heads)
        st = lk_fail(LK_EUSAGE, "%zu heads do not divide %zu channels", s->heads, s->channels);
out:
    return st;
}

int main(int argc, char **argv)
{
    struct sizes s = {.samples = 4, .context = 128, .channels = 128, .heads = 4, .vocab = 256};
    struct buffers b = {0};
    enum lk_status st = LK_OK;

    LK_TRY(read_sizes(argc, argv, &s));
    LK_TRY(make_buffers(&b, &s));
    LK_TRY(lk_kernels_init());
    printf("# samples %zu, context %zu, channels %zu, heads %zu, vocab %zu, one thread\n",
           s.samples, s.context, s.channels, s.heads, s.vocab);
    printf("# %-24s %-10s %10s %9s %8s\n", "op", "", "us", "Gflop/s", "GB/s");
    report_block(&b, &s);
    report_rest(&b, &s);
out:
    free_buffers(&b);
    if (st != LK_OK)
        fprintf(stderr, "kernels: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
