/* Convolution, float32: matrices of windows (kernels/ops_image.h) are multiplied by the weights
 * (kernels/gemm.c). */
#include "kernels/impl.h"
#include "kernels/ops_image.h"

#include <string.h>

/* A convolution with its plan and the two parts of the scratch buffer. */
struct conv {
    const struct lk_conv_shape *s;
    struct lk_conv_plan p;
    float *weights; /* (outputs, kernel, kernel, inputs), for a window of several pixels */
    float *windows; /* (piece, depth) */
};

static struct conv conv_of(const struct lk_conv_shape *s, void *scratch, size_t elems)
{
    struct conv c = {.s = s, .p = lk_conv_plan(s, false, elems), .weights = scratch};

    c.windows = scratch ? c.weights + c.p.weights : NULL;
    return c;
}

/* A row of a window: `count` pixels of the image from `at` lie in it, behind `before` that are
 * padding. */
struct run {
    size_t at, before, count;
};

/* Find row ky of the window of output pixel `row`. count 0: all of it is padding. */
static struct run run_of(const struct conv *c, size_t row, size_t ky)
{
    const struct lk_conv_shape *s = c->s;
    size_t x = row % c->p.out_width, y = row / c->p.out_width % c->p.out_height;
    size_t sample = row / c->p.out_width / c->p.out_height;
    size_t top = y * s->stride + ky, left = x * s->stride; /* of the padded image */
    size_t end = left + s->kernel;
    struct run r = {0};

    if (top < s->padding || top >= s->height + s->padding)
        return r;
    r.before = left < s->padding ? s->padding - left : 0;
    end = end > s->width + s->padding ? s->width + s->padding : end;
    if (left + r.before >= end)
        return (struct run){0};
    r.count = end - left - r.before;
    r.at = (sample * s->height + top - s->padding) * s->width + left + r.before - s->padding;
    return r;
}

/* Copy the windows of n output pixels. */
static void gather(const struct conv *c, const float *restrict in, size_t first, size_t n,
                   float *restrict windows)
{
    size_t width = c->s->kernel * c->s->inputs, pixel = c->s->inputs;

    for (size_t row = first; row < first + n; row++)
        for (size_t ky = 0; ky < c->s->kernel; ky++, windows += width) {
            struct run r = run_of(c, row, ky);
            size_t behind = (r.before + r.count) * pixel;

            memset(windows, 0, r.before * pixel * sizeof *windows);
            memcpy(windows + r.before * pixel, in + r.at * pixel, r.count * pixel * sizeof *in);
            memset(windows + behind, 0, (width - behind) * sizeof *windows);
        }
}

/* Add the gradients of windows to those of the pixels that they were copied from. */
static void scatter(const struct conv *c, const float *restrict windows, size_t first, size_t n,
                    float *restrict din)
{
    size_t width = c->s->kernel * c->s->inputs, pixel = c->s->inputs;

    for (size_t row = first; row < first + n; row++)
        for (size_t ky = 0; ky < c->s->kernel; ky++, windows += width) {
            struct run r = run_of(c, row, ky);
            const float *from = windows + r.before * pixel;
            float *to = din + r.at * pixel;

            for (size_t i = 0; i < r.count * pixel; i++)
                to[i] += from[i];
        }
}

/* Return the weights with channels last. */
static struct lk_factor weights_of(const struct conv *c, const float *weight, bool transposed)
{
    size_t area = c->s->kernel * c->s->kernel, inputs = c->s->inputs;

    if (area == 1)
        return (struct lk_factor){weight, c->p.depth, transposed};
    for (size_t o = 0; o < c->s->outputs; o++)
        for (size_t k = 0; k < area; k++)
            for (size_t i = 0; i < inputs; i++)
                c->weights[(o * area + k) * inputs + i] = weight[(o * inputs + i) * area + k];
    return (struct lk_factor){c->weights, c->p.depth, transposed};
}

/* Return the windows of n output pixels from `first`. */
static struct lk_factor windows_of(const struct conv *c, const float *in, size_t first, size_t n)
{
    if (c->p.direct)
        return (struct lk_factor){in + first * c->p.depth, c->p.depth, false};
    gather(c, in, first, n, c->windows);
    return (struct lk_factor){c->windows, c->p.depth, false};
}

static size_t piece_at(const struct conv *c, size_t first)
{
    return c->p.rows - first < c->p.piece ? c->p.rows - first : c->p.piece;
}

void lk_conv_forward_cpu(const void *args)
{
    const struct lk_conv_forward_args *a = args;
    const struct conv c = conv_of(&a->shape, a->scratch, a->scratch_elems);
    const struct lk_factor weights = weights_of(&c, a->weight, true);
    size_t outputs = a->shape.outputs;

    for (size_t first = 0, n; first < c.p.rows; first += n) {
        float *out = (float *)a->out + first * outputs;

        n = piece_at(&c, first);
        for (size_t r = 0; r < n && a->bias; r++)
            memcpy(out + r * outputs, a->bias, outputs * sizeof *out);
        lk_gemm(n, outputs, c.p.depth, 1, windows_of(&c, a->in, first, n), weights, a->bias ? 1 : 0,
                out, outputs);
    }
}

void lk_conv_backward_input_cpu(const void *args)
{
    const struct lk_conv_backward_input_args *a = args;
    const struct conv c = conv_of(&a->shape, a->scratch, a->scratch_elems);
    const struct lk_factor weights = weights_of(&c, a->weight, false);
    size_t outputs = a->shape.outputs;
    const float *dout = a->dout;
    float *din = a->din;

    if (c.p.direct) {
        lk_gemm(c.p.rows, c.p.depth, outputs, 1, (struct lk_factor){dout, outputs, false}, weights,
                a->accumulate ? 1 : 0, din, c.p.depth);
        return;
    }
    if (!a->accumulate)
        memset(din, 0,
               a->shape.samples * a->shape.height * a->shape.width * a->shape.inputs * sizeof *din);
    for (size_t first = 0, n; first < c.p.rows; first += n) {
        n = piece_at(&c, first);
        lk_gemm(n, c.p.depth, outputs, 1,
                (struct lk_factor){dout + first * outputs, outputs, false}, weights, 0, c.windows,
                c.p.depth);
        scatter(&c, c.windows, first, n, din);
    }
}

/* Write or add the gradient of weights with channels last to that with channels first. */
static void put_weights(const struct conv *c, float *dweight, bool accumulate)
{
    size_t area = c->s->kernel * c->s->kernel, inputs = c->s->inputs;

    for (size_t o = 0; o < c->s->outputs; o++)
        for (size_t i = 0; i < inputs; i++)
            for (size_t k = 0; k < area; k++) {
                float *to = &dweight[(o * inputs + i) * area + k];

                *to = (accumulate ? *to : 0) + c->weights[(o * area + k) * inputs + i];
            }
}

void lk_conv_backward_weight_cpu(const void *args)
{
    const struct lk_conv_backward_weight_args *a = args;
    const struct conv c = conv_of(&a->shape, a->scratch, a->scratch_elems);
    size_t outputs = a->shape.outputs;
    bool apart = a->shape.kernel > 1; /* the product's layout is not dweight's */
    float *to = apart ? c.weights : a->dweight;
    float beta = a->accumulate && !apart ? 1 : 0;

    if (c.p.rows == 0)
        lk_gemm(outputs, c.p.depth, 0, 1, (struct lk_factor){0}, (struct lk_factor){0}, beta, to,
                c.p.depth);
    for (size_t first = 0, n; first < c.p.rows; first += n, beta = 1) {
        const float *dout = (const float *)a->dout + first * outputs;

        n = piece_at(&c, first);
        lk_gemm(outputs, c.p.depth, n, 1, (struct lk_factor){dout, outputs, true},
                windows_of(&c, a->in, first, n), beta, to, c.p.depth);
    }
    if (apart)
        put_weights(&c, a->dweight, a->accumulate);
    if (!a->dbias)
        return;
    if (!a->accumulate)
        memset(a->dbias, 0, outputs * sizeof(float));
    lk_add_columns(a->dbias, a->dout, c.p.rows, outputs, outputs);
}
