/* The backward pass of a GPT block as a unit of compute; see the header. */
#include "runtime/probe/probe_block.h"

#include "base/array.h"
#include "base/rng.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * X(buffer, elements, of lk_wide, filled), with r rows (samples * context), c channels and h heads.
 * Buffers that are not filled are written before they are read.
 */
#define BUFFER_LIST(X)                                                                             \
    X(in, r *c, false, true)                                                                       \
    X(attention, r *c, false, false)                                                               \
    X(dstream, r *c, false, true)                                                                  \
    X(dnarrow, r *c, false, false)                                                                 \
    X(qkv, 3 * r * c, false, true)                                                                 \
    X(wide, 4 * r * c, false, true)                                                                \
    X(dwide, 4 * r * c, false, false)                                                              \
    X(weight, 4 * c * c, false, true)                                                              \
    X(dweight, 4 * c * c, false, false)                                                            \
    X(dbias, 4 * c, false, false)                                                                  \
    X(mean, r, true, false)                                                                        \
    X(rstd, r, true, false)                                                                        \
    X(log_sum, r *h, true, false)                                                                  \
    X(probs, probs, false, false)                                                                  \
    X(scratch, scratch, false, false)

struct lk_block {
    struct lk_device *device;
    struct lk_block_size size;
#define MEMBER(buffer, n, wide, filled) void *buffer;
    BUFFER_LIST(MEMBER)
#undef MEMBER
};

enum { PATTERN = 1 << 18 };

/* Make the numbers of a pattern, in the device's type. */
static enum lk_status make_pattern(struct lk_device *d, void **out)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("probe.block", 0));
    enum lk_dtype real = lk_device_real_dtype(d);
    void *p = NULL;

    LK_PASS(lk_device_alloc_host(d, PATTERN * lk_dtype_bytes(real), &p));
    for (size_t i = 0; i < PATTERN; i++) {
        float x = (float)(lk_rng_uniform(&g) - 0.5);

        lk_dtype_from_f32(real, (char *)p + i * lk_dtype_bytes(real), &x, 1);
    }
    *out = p;
    return LK_OK;
}

enum lk_status lk_block_fill(struct lk_stream *s, void *to, size_t n, uint64_t timeout_ns)
{
    struct lk_device *d = lk_stream_device(s);
    size_t real = lk_device_real_bytes(d);
    enum lk_status st = LK_OK;
    void *pattern = NULL;

    LK_TRY(make_pattern(d, &pattern));
    for (size_t i = 0; i < n; i += PATTERN) {
        size_t count = n - i < PATTERN ? n - i : PATTERN;

        LK_TRY(lk_stream_copy(s, (char *)to + i * real, pattern, count * real));
    }
out:
    /* Wait also after a failure: the work on the stream reads the pattern. */
    LK_KEEP(lk_stream_sync(s, lk_deadline_in(timeout_ns)));
    lk_device_free_host(d, pattern);
    return st;
}

struct linear {
    size_t inputs, outputs;
    void *dout, *in, *din;
};

/* Enqueue both gradients of a linear layer. */
static enum lk_status put_linear(const struct lk_block *b, struct lk_stream *s,
                                 const struct linear *l)
{
    size_t rows = b->size.samples * b->size.context;

    LK_PASS(LK_LAUNCH(s, matmul_backward_weight, .dweight = b->dweight, .dbias = b->dbias,
                      .dout = l->dout, .in = l->in, .rows = rows, .inputs = l->inputs,
                      .outputs = l->outputs));
    return LK_LAUNCH(s, matmul_backward_input, .din = l->din, .dout = l->dout, .weight = b->weight,
                     .rows = rows, .inputs = l->inputs, .outputs = l->outputs);
}

static enum lk_status put_norm(const struct lk_block *b, struct lk_stream *s)
{
    return LK_LAUNCH(s, layernorm_backward, .din = b->dwide, .dweight = b->dweight,
                     .dbias = b->dbias, .dout = b->dnarrow, .in = b->in, .weight = b->weight,
                     .mean = b->mean, .rstd = b->rstd, .rows = b->size.samples * b->size.context,
                     .channels = b->size.channels);
}

enum lk_status lk_block_backward(void *block, struct lk_stream *s)
{
    struct lk_block *b = block;
    size_t c = b->size.channels, rows = b->size.samples * b->size.context;
    const struct linear project_up = {4 * c, c, b->dstream, b->wide, b->dwide};
    const struct linear up = {c, 4 * c, b->dwide, b->in, b->dnarrow};
    const struct linear project = {c, c, b->dstream, b->attention, b->dnarrow};
    const struct linear into_qkv = {c, 3 * c, b->dwide, b->in, b->dnarrow};

    LK_PASS(put_linear(b, s, &project_up));
    LK_PASS(LK_LAUNCH(s, gelu_backward, .din = b->dwide, .dout = b->dwide, .in = b->wide,
                      .n = 4 * rows * c));
    LK_PASS(put_linear(b, s, &up));
    LK_PASS(put_norm(b, s));
    LK_PASS(put_linear(b, s, &project));
    LK_PASS(LK_LAUNCH(s, attention_backward, .dqkv = b->dwide, .scratch = b->scratch,
                      .dout = b->dnarrow, .qkv = b->qkv, .out = b->attention, .probs = b->probs,
                      .log_sum = b->log_sum, .samples = b->size.samples, .context = b->size.context,
                      .channels = c, .heads = b->size.heads));
    LK_PASS(put_linear(b, s, &into_qkv));
    return put_norm(b, s);
}

static enum lk_status allocate(struct lk_block *b, struct lk_stream *s, uint64_t timeout_ns)
{
    struct lk_device *d = b->device;
    size_t r = b->size.samples * b->size.context, c = b->size.channels, h = b->size.heads;
    bool keeps = lk_device_keeps_log_sum(d);
    size_t scratch = keeps ? 0 : b->size.context * b->size.context;
    size_t probs = scratch * b->size.samples * h;
    size_t real = lk_device_real_bytes(d), wide_bytes = lk_device_wide_bytes(d);

#define ALLOCATE(buffer, n, wide, filled)                                                          \
    LK_PASS(lk_device_alloc(d, (n) * ((wide) ? wide_bytes : real), &b->buffer));                   \
    if (filled)                                                                                    \
        LK_PASS(lk_block_fill(s, b->buffer, n, timeout_ns));
    BUFFER_LIST(ALLOCATE)
#undef ALLOCATE
    return LK_OK;
}

/* Enqueue the parts of forward whose results backward reads. */
static enum lk_status put_forward(const struct lk_block *b, struct lk_stream *s)
{
    LK_PASS(LK_LAUNCH(s, layernorm_forward, .out = b->dnarrow, .mean = b->mean, .rstd = b->rstd,
                      .in = b->in, .weight = b->weight, .bias = b->weight,
                      .rows = b->size.samples * b->size.context, .channels = b->size.channels));
    return LK_LAUNCH(s, attention_forward, .out = b->attention, .probs = b->probs,
                     .log_sum = b->log_sum, .qkv = b->qkv, .samples = b->size.samples,
                     .context = b->size.context, .channels = b->size.channels,
                     .heads = b->size.heads);
}

enum lk_status lk_block_create(struct lk_stream *s, const struct lk_block_size *size,
                               uint64_t timeout_ns, struct lk_block **out)
{
    enum lk_status st = LK_OK;
    struct lk_block *b = NULL;

    LK_TRY(lk_alloc(&b, 1, sizeof *b));
    b->device = lk_stream_device(s);
    b->size = *size;
    LK_TRY(allocate(b, s, timeout_ns));
    LK_TRY(put_forward(b, s));
    LK_TRY(lk_stream_sync(s, lk_deadline_in(timeout_ns)));
    LK_HAND_OVER(out, b);
out:
    lk_block_destroy(b);
    return st;
}

void lk_block_destroy(struct lk_block *b)
{
    if (!b)
        return;
#define RELEASE(buffer, n, wide, filled) lk_device_free(b->device, b->buffer);
    BUFFER_LIST(RELEASE)
#undef RELEASE
    free(b);
}
