/* The cases of ops that do the work of several: the loss with its gradient, gelu's derivative with
 * the gradient of a bias, and the epilogues of products. */
#include "base/array.h"
#include "tests/cuda/buffers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum lk_dtype real(const struct cuda_rig *r)
{
    return r->cuda.real;
}

/* ---- The loss with its gradient ---- */

static const struct {
    size_t rows, vocab, stride;
} losses[] = {
    {1, 1, 0}, {3, 2, 0},    {5, 257, 320},  {4, 1000, 0},       {2, 8193, 8256}, {3, 77, 0},
    {0, 9, 0}, {600, 33, 0}, {64, 50304, 0}, {64, 50257, 50304}, {64, 50257, 0},
};
enum { HOST_LOSSES = 7, SHIFTED_LOSSES = 8 };

/* How the gradients get their logits: from shared memory, from memory a second time, from and to
 * rows that begin at different offsets. */
enum way { KEPT, AGAIN, APART, WAYS };

static void same_bits(struct cuda_rig *r, const struct buffer *got, const struct buffer *want)
{
    size_t bytes = got->n * lk_dtype_bytes(got->type);
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);

    if (!a || !b)
        abort();
    r->machine->copy(a, got->dev, bytes);
    r->machine->copy(b, want->dev, bytes);
    if (memcmp(a, b, bytes) != 0)
        rig_fail(r, "%s has other bits than by two ops", got->name);
    free(a);
    free(b);
}

static void cross_entropy_both(struct cuda_rig *r, size_t i, enum way way)
{
    size_t rows = losses[i].rows, vocab = losses[i].vocab, stride = losses[i].stride;
    size_t n = rows * lk_op_stride(stride, vocab), shift = r->shift, shared = r->cuda.shared_bytes;
    struct buffer logits = buffer_random(r, "logits", real(r), n, 8);
    struct buffer log_sum = buffer_zero(r, "log_sum", LK_F32, rows);
    struct buffer loss = buffer_zero(r, "loss", LK_F32, 1);
    struct buffer by_two = buffer_zero(r, "log_sum by two", LK_F32, rows);
    struct buffer loss_by_two = buffer_zero(r, "loss by two", LK_F32, 1);
    struct buffer d_by_two = buffer_zero(r, "dlogits by two", real(r), n);
    struct buffer dlogits;
    int32_t *host, *targets = tokens_random(r, 2 * rows, vocab, &host);

    r->shift += way == APART;
    dlogits = buffer_zero(r, "dlogits", real(r), n);
    r->shift = shift;
    if (vocab > 2 && rows > 0 && host[0] != 0)
        logits.d[0] = -INFINITY;
    buffer_send(&logits);
    memcpy(dlogits.d, logits.d, n * sizeof *logits.d);
    memcpy(d_by_two.d, logits.d, n * sizeof *logits.d);
    buffer_send(&dlogits);
    buffer_send(&d_by_two);
#define SCALARS .rows = rows, .vocab = vocab, .target_stride = 2, .stride = stride
    RUN(r, cross_entropy_forward,
        (.loss = loss_by_two.dev, .log_sum = by_two.dev, .logits = d_by_two.dev,
         .targets = targets),
        (.loss = loss_by_two.d, .log_sum = by_two.d, .logits = d_by_two.d, .targets = host),
        SCALARS);
    RUN(r, cross_entropy_backward,
        (.dlogits = d_by_two.dev, .logits = d_by_two.dev, .log_sum = by_two.dev,
         .targets = targets),
        (.dlogits = d_by_two.d, .logits = d_by_two.d, .log_sum = by_two.d, .targets = host),
        SCALARS, .seed = 0.25);
    if (way == AGAIN)
        r->cuda.shared_bytes = 0;
    RUN(r, cross_entropy_forward,
        (.loss = loss.dev, .log_sum = log_sum.dev, .dlogits = dlogits.dev,
         .logits = way == APART ? logits.dev : dlogits.dev, .targets = targets),
        (.loss = loss.d, .log_sum = log_sum.d, .dlogits = dlogits.d, .logits = logits.d,
         .targets = host),
        SCALARS, .seed = 0.25);
    r->cuda.shared_bytes = shared;
#undef SCALARS
    buffer_check(&loss, 16 * ULP);
    buffer_check(&log_sum, 16 * ULP);
    buffer_check(&dlogits, 64 * ULP); /* as in the case of two ops */
    if (way != APART) {               /* its sums are in another order */
        same_bits(r, &loss, &loss_by_two);
        same_bits(r, &log_sum, &by_two);
        same_bits(r, &dlogits, &d_by_two);
    }
    buffers_free(r);
}

void cuda_case_fused_loss(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, losses, HOST_LOSSES, SHIFTED_LOSSES); i++)
        for (enum way way = KEPT; way < WAYS; way++)
            cross_entropy_both(r, i, way);
}

/* ---- gelu's derivative with the gradient of a bias ---- */

static const struct {
    size_t rows, columns;
} biased[] = {
    {1, 1}, {3, 5}, {9, 33}, {0, 8}, {70, 264}, {520, 8}, {1000, 1601}, {4096, 768},
};
enum { HOST_BIASED = 6, SHIFTED_BIASED = 7 };

void cuda_case_gelu_bias(struct cuda_rig *r)
{
    for (size_t i = 0; i < 2 * N_SHAPES(r, biased, HOST_BIASED, SHIFTED_BIASED); i++) {
        size_t rows = biased[i / 2].rows, columns = biased[i / 2].columns;
        struct buffer in = buffer_random(r, "in", real(r), rows * columns, 5);
        struct buffer d = buffer_random(r, "dout", real(r), rows * columns, 1);
        struct buffer dbias = buffer_random(r, "dbias", real(r), columns, 1);

        RUN(r, gelu_backward, (.din = d.dev, .dbias = dbias.dev, .dout = d.dev, .in = in.dev),
            (.din = d.d, .dbias = dbias.d, .dout = d.d, .in = in.d), .n = rows * columns,
            .columns = columns, .accumulate = i % 2);
        buffer_check(&d, 16 * ULP);
        /* Each element added errs by 16 ULP. */
        buffer_check(&dbias, 16 * SUM_BOUND(rows));
        buffers_free(r);
    }
}

/* ---- Epilogues ---- */

/* What cuBLASLt takes: extents of multiples of 16 bytes. */
static const struct {
    size_t rows, inputs, outputs;
} products[] = {
    {8, 16, 24}, {24, 8, 40}, {5, 32, 8}, {256, 768, 1024}, {1024, 256, 256},
};
enum { HOST_PRODUCTS = 3 };

/* Note that cuBLASLt has no algorithm, which a model then does without; true: it has. */
static bool taken(struct cuda_rig *r, enum lk_status st, const char *what)
{
    if (st == LK_EUNSUPPORTED)
        printf("# %s, %s: refused: %s\n", what, lk_dtype_name(real(r)), lk_error_text());
    else
        rig_try(r, st);
    return st == LK_OK;
}

/* As RUN, but true only if the device has the op. */
#define TRY(r, op, device, host, ...)                                                              \
    (taken(r, lk_##op##_cuda(&(struct lk_##op##_args){UNWRAP device, __VA_ARGS__}, &(r)->cuda),    \
           #op) &&                                                                                 \
     (rig_define(r, &lk_op_##op, &(struct lk_##op##_args){UNWRAP host, __VA_ARGS__}), true))

/* A GPU's tanh errs by 2^-11 (tanh.approx). */
static double tanh_bound(const struct cuda_rig *r)
{
    return r->large ? 0x1p-10 : 0;
}

static void forward(struct cuda_rig *r, size_t rows, size_t inputs, size_t outputs, bool biased_too)
{
    struct buffer in = buffer_random(r, "in", real(r), rows * inputs, 1);
    struct buffer weight = buffer_random(r, "weight", real(r), outputs * inputs, 1);
    struct buffer bias = buffer_random(r, "bias", real(r), outputs, 1);
    struct buffer out = buffer_random(r, "out", real(r), rows * outputs, 1);
    struct buffer gelu = buffer_random(r, "gelu", real(r), rows * outputs, 1);

    if (TRY(r, matmul_forward,
            (.out = out.dev, .gelu = gelu.dev, .in = in.dev, .weight = weight.dev,
             .bias = biased_too ? bias.dev : NULL),
            (.out = out.d, .gelu = gelu.d, .in = in.d, .weight = weight.d,
             .bias = biased_too ? bias.d : NULL),
            .rows = rows, .inputs = inputs, .outputs = outputs)) {
        double bound = cuda_product_bound(r, inputs) + cuda_rounded_before(r, biased_too);

        buffer_check_sum(&out, bound, 1);
        buffer_check(&gelu, 1.2 * bound + tanh_bound(r));
    }
    buffers_free(r);
}

/* sums: 0: none, 1: overwritten, 2: accumulated. */
static void backward_input(struct cuda_rig *r, size_t rows, size_t inputs, size_t outputs, int sums)
{
    struct buffer dout = buffer_random(r, "dout", real(r), rows * outputs, 1);
    struct buffer weight = buffer_random(r, "weight", real(r), outputs * inputs, 1);
    struct buffer in = buffer_random(r, "gelu_in", real(r), rows * inputs, 3);
    struct buffer din = buffer_random(r, "din", real(r), rows * inputs, 1);
    struct buffer dbias = buffer_random(r, "dbias", real(r), inputs, 1);
    double bound =
        1.2 * (cuda_product_bound(r, outputs) + cuda_rounded_before(r, true)) + tanh_bound(r);

    if (TRY(r, matmul_backward_input,
            (.din = din.dev, .dbias = sums ? dbias.dev : NULL, .dout = dout.dev,
             .weight = weight.dev, .gelu_in = in.dev),
            (.din = din.d, .dbias = sums ? dbias.d : NULL, .dout = dout.d, .weight = weight.d,
             .gelu_in = in.d),
            .rows = rows, .inputs = inputs, .outputs = outputs, .accumulate_bias = sums == 2)) {
        buffer_check_sum(&din, bound, 1);
        /* Errors of tanh may have the same sign. Sums that are added are rounded before. */
        buffer_check(&dbias, bound + SUM_BOUND(rows) + tanh_bound(r) * sqrt((double)rows) +
                                 cuda_rounded_before(r, sums == 2));
    }
    buffers_free(r);
}

static void backward_weight(struct cuda_rig *r, size_t rows, size_t inputs, size_t outputs,
                            bool accumulate)
{
    struct buffer dout = buffer_random(r, "dout", real(r), rows * outputs, 1);
    struct buffer in = buffer_random(r, "in", real(r), rows * inputs, 1);
    struct buffer dweight = buffer_random(r, "dweight", real(r), outputs * inputs, 1);
    struct buffer dbias = buffer_random(r, "dbias", real(r), outputs, 1);

    if (TRY(r, matmul_backward_weight,
            (.dweight = dweight.dev, .dbias = dbias.dev, .dout = dout.dev, .in = in.dev),
            (.dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d), .rows = rows,
            .inputs = inputs, .outputs = outputs, .accumulate = accumulate, .epilogue = true)) {
        double bound = cuda_product_bound(r, rows) + cuda_rounded_before(r, accumulate);

        buffer_check_sum(&dweight, bound, 1);
        buffer_check(&dbias, bound);
    }
    buffers_free(r);
}

void cuda_case_epilogues(struct cuda_rig *r)
{
    /* At other addresses cuBLASLt need not take them; models then do without. */
    for (size_t i = 0; i < N_SHAPES(r, products, HOST_PRODUCTS, 0); i++) {
        size_t rows = products[i].rows, inputs = products[i].inputs, outputs = products[i].outputs;

        for (int k = 0; k < 2; k++) {
            forward(r, rows, inputs, outputs, k);
            backward_weight(r, rows, inputs, outputs, k);
        }
        for (int sums = 0; sums < 3; sums++)
            backward_input(r, rows, inputs, outputs, sums);
    }
}
