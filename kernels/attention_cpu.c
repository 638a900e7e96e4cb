/*
 * Causal attention, float32. Queries are processed in blocks: a block's products with all keys that
 * it may see are matrix products on strided slices of qkv, and most of the upper triangle is never
 * computed. Within a block probabilities above the diagonal are 0.
 */
#include "kernels/impl.h"
#include "kernels/vecmath.h"

#include <math.h>
#include <string.h>

/* Queries per block: larger wastes more of the triangle, smaller needs more calls. */
enum { BLOCK = 64 };

/* The slices of one sample and head, for forward and backward. */
struct slice {
    size_t context, channels, width; /* width: channels of a head */
    size_t qkv_at, out_at, probs_at; /* offsets of the slice's first element */
    float factor;                    /* 1 / sqrt(width) */
};

static struct slice make_slice(size_t i, size_t context, size_t channels, size_t heads)
{
    size_t sample = i / heads, head = i % heads, width = channels / heads;

    return (struct slice){.context = context,
                          .channels = channels,
                          .width = width,
                          .qkv_at = sample * context * 3 * channels + head * width,
                          .out_at = sample * context * channels + head * width,
                          .probs_at = i * context * context,
                          .factor = 1 / sqrtf((float)width)};
}

/* Return n rounded up to whole vectors, but not beyond the block's `end`. The positions added are
 * set so that they contribute nothing. */
static size_t whole_vectors(size_t n, size_t end)
{
    enum { VECTOR = 16 };
    size_t up = (n + VECTOR - 1) / VECTOR * VECTOR;

    return up < end ? up : end;
}

/* Compute the softmax of x(0..n-1) in place; set x(n..end-1) to 0. */
static void softmax_row(float *restrict x, size_t n, size_t end)
{
    size_t up = whole_vectors(n, end);
    float max, inverse;

    for (size_t i = n; i < up; i++)
        x[i] = -INFINITY;
    max = lk_lanes_max(x, up);
    for (size_t i = 0; i < up; i++)
        x[i] = lk_vecmath_exp(x[i] - max);
    inverse = 1 / lk_lanes_sum(x, up);
    for (size_t i = 0; i < up; i++)
        x[i] *= inverse;
    memset(x + up, 0, (end - up) * sizeof *x);
}

static void forward_block(const struct lk_attention_forward_args *a, const struct slice *s,
                          size_t first, size_t end)
{
    size_t stride = 3 * s->channels;
    const float *q = (const float *)a->qkv + s->qkv_at;
    float *probs = (float *)a->probs + s->probs_at + first * s->context;
    const struct lk_factor keys = {q + s->channels, stride, true};
    const struct lk_factor values = {q + 2 * s->channels, stride, false};

    lk_gemm(end - first, end, s->width, s->factor,
            (struct lk_factor){q + first * stride, stride, false}, keys, 0, probs, s->context);
    for (size_t t = first; t < end; t++)
        softmax_row(probs + (t - first) * s->context, t + 1, end);
    lk_gemm(end - first, s->width, end, 1, (struct lk_factor){probs, s->context, false}, values, 0,
            (float *)a->out + s->out_at + first * s->channels, s->channels);
}

void lk_attention_forward_cpu(const void *args)
{
    const struct lk_attention_forward_args *a = args;

    for (size_t i = 0; i < a->samples * a->heads; i++) {
        struct slice s = make_slice(i, a->context, a->channels, a->heads);

        for (size_t first = 0; first < s.context; first += BLOCK) {
            size_t end = first + BLOCK < s.context ? first + BLOCK : s.context;

            forward_block(a, &s, first, end);
        }
    }
}

/* Replace dprobs by the gradient of the scores before scaling; 0 above the diagonal, where probs is
 * 0 but dprobs is not yet. */
static void softmax_backward_row(float *restrict dprobs, const float *restrict probs, size_t n,
                                 size_t end)
{
    size_t up = whole_vectors(n, end);
    float mean = lk_lanes_dot(probs, dprobs, up);

    for (size_t i = 0; i < up; i++)
        dprobs[i] = probs[i] * (dprobs[i] - mean);
    memset(dprobs + up, 0, (end - up) * sizeof *dprobs);
}

/* Compute the block's rows of dq and its share of dk and dv: `last` overwrites those, other blocks
 * add. */
static void backward_block(const struct lk_attention_backward_args *a, const struct slice *s,
                           size_t first, size_t end, bool last)
{
    size_t stride = 3 * s->channels, rows = end - first;
    const float *q = (const float *)a->qkv + s->qkv_at, *k = q + s->channels;
    float *dq = (float *)a->dqkv + s->qkv_at, *dk = dq + s->channels;
    const float *probs = (const float *)a->probs + s->probs_at + first * s->context;
    const float *dout = (const float *)a->dout + s->out_at + first * s->channels;
    float *dscores = a->scratch;
    float kept = last ? 0 : 1;

    lk_gemm(rows, end, s->width, 1, (struct lk_factor){dout, s->channels, false},
            (struct lk_factor){k + s->channels, stride, true}, 0, dscores, end);
    for (size_t t = first; t < end; t++)
        softmax_backward_row(dscores + (t - first) * end, probs + (t - first) * s->context, t + 1,
                             end);
    lk_gemm(rows, s->width, end, s->factor, (struct lk_factor){dscores, end, false},
            (struct lk_factor){k, stride, false}, 0, dq + first * stride, stride);
    lk_gemm(end, s->width, rows, s->factor, (struct lk_factor){dscores, end, true},
            (struct lk_factor){q + first * stride, stride, false}, kept, dk, stride);
    lk_gemm(end, s->width, rows, 1, (struct lk_factor){probs, s->context, true},
            (struct lk_factor){dout, s->channels, false}, kept, dk + s->channels, stride);
}

void lk_attention_backward_cpu(const void *args)
{
    const struct lk_attention_backward_args *a = args;
    size_t blocks = (a->context + BLOCK - 1) / BLOCK;

    for (size_t i = 0; i < a->samples * a->heads; i++) {
        struct slice s = make_slice(i, a->context, a->channels, a->heads);

        /* Go backwards: the last block sees all keys, so its products initialise dk and dv. */
        for (size_t b = blocks; b-- > 0;) {
            size_t end = (b + 1) * BLOCK < s.context ? (b + 1) * BLOCK : s.context;

            backward_block(a, &s, b * BLOCK, end, b + 1 == blocks);
        }
    }
}
