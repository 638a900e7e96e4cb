/*
 * Convolution, float32: the windows of some output pixels are copied to the rows of a matrix
 * (im2col), which is multiplied by the weights (kernels/gemm.c), piece by piece, so that a piece
 * stays in a second-level cache. Where the window is one pixel and the stride 1, the image is that
 * matrix. Windows have their channels side by side; so that weights do, too, they are copied to the
 * scratch buffer.
 */
#include "kernels/impl.h"
#include "kernels/ops_image.h"

#include <string.h>

enum { PIECE_ELEMS = 1 << 18 }; /* 1 MiB of windows */

/* A convolution with its derived sizes and the two parts of the scratch buffer. */
struct conv {
    const struct lk_conv_shape *s;
    size_t out_height, out_width;
    size_t rows;    /* output pixels of all samples */
    size_t depth;   /* values of a window */
    size_t piece;   /* rows that are multiplied at a time */
    bool direct;    /* the image is the matrix of windows */
    float *weights; /* (outputs, kernel, kernel, inputs), for a window of several pixels */
    float *windows; /* (piece, depth) */
};

static size_t weight_elems(const struct lk_conv_shape *s)
{
    return s->kernel > 1 ? s->outputs * s->inputs * s->kernel * s->kernel : 0;
}

static struct conv conv_of(const struct lk_conv_shape *s, void *scratch)
{
    struct conv c = {.s = s,
                     .out_height = lk_conv_out(s->height, s->kernel, s->stride, s->padding),
                     .out_width = lk_conv_out(s->width, s->kernel, s->stride, s->padding),
                     .depth = s->kernel * s->kernel * s->inputs};

    c.rows = s->samples * c.out_height * c.out_width;
    c.direct = s->kernel == 1 && s->stride == 1 && s->padding == 0;
    c.piece = c.depth ? PIECE_ELEMS / c.depth : c.rows;
    c.piece = c.piece < 1 ? 1 : c.piece;
    c.piece = c.direct || c.piece > c.rows ? c.rows : c.piece;
    c.weights = scratch;
    c.windows = scratch ? c.weights + weight_elems(s) : NULL;
    return c;
}

size_t lk_conv_scratch(const struct lk_conv_shape *s)
{
    struct conv c = conv_of(s, NULL);

    return weight_elems(s) + (c.direct ? 0 : c.piece * c.depth);
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
    size_t x = row % c->out_width, y = row / c->out_width % c->out_height;
    size_t sample = row / c->out_width / c->out_height;
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
        return (struct lk_factor){weight, c->depth, transposed};
    for (size_t o = 0; o < c->s->outputs; o++)
        for (size_t k = 0; k < area; k++)
            for (size_t i = 0; i < inputs; i++)
                c->weights[(o * area + k) * inputs + i] = weight[(o * inputs + i) * area + k];
    return (struct lk_factor){c->weights, c->depth, transposed};
}

/* Return the windows of n output pixels from `first`. */
static struct lk_factor windows_of(const struct conv *c, const float *in, size_t first, size_t n)
{
    if (c->direct)
        return (struct lk_factor){in + first * c->depth, c->depth, false};
    gather(c, in, first, n, c->windows);
    return (struct lk_factor){c->windows, c->depth, false};
}

static size_t piece_at(const struct conv *c, size_t first)
{
    return c->rows - first < c->piece ? c->rows - first : c->piece;
}

void lk_conv_forward_cpu(const void *args)
{
    const struct lk_conv_forward_args *a = args;
    const struct conv c = conv_of(&a->shape, a->scratch);
    const struct lk_factor weights = weights_of(&c, a->weight, true);
    size_t outputs = a->shape.outputs;

    for (size_t first = 0, n; first < c.rows; first += n) {
        float *out = (float *)a->out + first * outputs;

        n = piece_at(&c, first);
        for (size_t r = 0; r < n && a->bias; r++)
            memcpy(out + r * outputs, a->bias, outputs * sizeof *out);
        lk_gemm(n, outputs, c.depth, 1, windows_of(&c, a->in, first, n), weights, a->bias ? 1 : 0,
                out, outputs);
    }
}

void lk_conv_backward_input_cpu(const void *args)
{
    const struct lk_conv_backward_input_args *a = args;
    const struct conv c = conv_of(&a->shape, a->scratch);
    const struct lk_factor weights = weights_of(&c, a->weight, false);
    size_t outputs = a->shape.outputs;
    const float *dout = a->dout;
    float *din = a->din;

    if (c.direct) {
        lk_gemm(c.rows, c.depth, outputs, 1, (struct lk_factor){dout, outputs, false}, weights,
                a->accumulate ? 1 : 0, din, c.depth);
        return;
    }
    if (!a->accumulate)
        memset(din, 0,
               a->shape.samples * a->shape.height * a->shape.width * a->shape.inputs * sizeof *din);
    for (size_t first = 0, n; first < c.rows; first += n) {
        n = piece_at(&c, first);
        lk_gemm(n, c.depth, outputs, 1, (struct lk_factor){dout + first * outputs, outputs, false},
                weights, 0, c.windows, c.depth);
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
    const struct conv c = conv_of(&a->shape, a->scratch);
    size_t outputs = a->shape.outputs;
    bool apart = a->shape.kernel > 1; /* the product's layout is not dweight's */
    float *to = apart ? c.weights : a->dweight;
    float beta = a->accumulate && !apart ? 1 : 0;

    if (c.rows == 0)
        lk_gemm(outputs, c.depth, 0, 1, (struct lk_factor){0}, (struct lk_factor){0}, beta, to,
                c.depth);
    for (size_t first = 0, n; first < c.rows; first += n, beta = 1) {
        const float *dout = (const float *)a->dout + first * outputs;

        n = piece_at(&c, first);
        lk_gemm(outputs, c.depth, n, 1, (struct lk_factor){dout, outputs, true},
                windows_of(&c, a->in, first, n), beta, to, c.depth);
    }
    if (apart)
        put_weights(&c, a->dweight, a->accumulate);
    if (!a->dbias)
        return;
    if (!a->accumulate)
        memset(a->dbias, 0, outputs * sizeof(float));
    lk_add_columns(a->dbias, a->dout, c.rows, outputs, outputs);
}
