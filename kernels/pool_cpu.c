/* Pooling, pixels of a data set and sums of a residual connection, float32. Loops run over the
 * channels of a pixel, which lie side by side. */
#include "kernels/impl.h"
#include "kernels/ops_image.h"

#include <math.h>
#include <string.h>

void lk_pixels_forward_cpu(const void *args)
{
    const struct lk_pixels_forward_args *a = args;
    float factor = (float)a->factor, shift = (float)a->shift;

    for (size_t s = 0; s < a->samples; s++)
        for (size_t c = 0; c < a->channels; c++) {
            const uint8_t *restrict from = a->pixels + (s * a->channels + c) * a->area;
            float *restrict to = (float *)a->out + s * a->area * a->channels + c;

            for (size_t p = 0; p < a->area; p++)
                to[p * a->channels] = (float)from[p] * factor + shift;
        }
}

/* The part of a window that lies in the image: rows from y0 to below y1, columns likewise. */
struct window {
    size_t y0, y1, x0, x1;
};

static void clip(size_t out, size_t size, const struct lk_conv_shape *s, size_t *from, size_t *to)
{
    size_t end = out * s->stride + s->kernel; /* of the padded image */

    *from = out * s->stride < s->padding ? 0 : out * s->stride - s->padding;
    *to = end < s->padding ? 0 : end - s->padding;
    *to = *to > size ? size : *to;
}

/* Find the window of output pixel `row`, and the pixel at which its image begins. */
static struct window window_of(const struct lk_conv_shape *s, size_t row, size_t *image)
{
    size_t height = lk_conv_out(s->height, s->kernel, s->stride, s->padding);
    size_t width = lk_conv_out(s->width, s->kernel, s->stride, s->padding);
    struct window w;

    clip(row / width % height, s->height, s, &w.y0, &w.y1);
    clip(row % width, s->width, s, &w.x0, &w.x1);
    *image = row / width / height * s->height * s->width;
    return w;
}

static size_t out_pixels(const struct lk_conv_shape *s)
{
    return s->samples * lk_conv_out(s->height, s->kernel, s->stride, s->padding) *
           lk_conv_out(s->width, s->kernel, s->stride, s->padding);
}

/* Raise the largest values so far to those of a pixel; NaN stays. */
static void raise(float *restrict to, const float *restrict from, size_t n)
{
#pragma omp simd
    for (size_t c = 0; c < n; c++)
        to[c] = from[c] > to[c] || from[c] != from[c] ? from[c] : to[c];
}

void lk_maxpool_forward_cpu(const void *args)
{
    const struct lk_maxpool_forward_args *a = args;
    size_t n = a->shape.inputs, rows = out_pixels(&a->shape);

    for (size_t r = 0; r < rows; r++) {
        size_t image;
        struct window w = window_of(&a->shape, r, &image);
        float *out = (float *)a->out + r * n;

        for (size_t c = 0; c < n; c++)
            out[c] = -INFINITY;
        for (size_t y = w.y0; y < w.y1; y++)
            for (size_t x = w.x0; x < w.x1; x++)
                raise(out, (const float *)a->in + (image + y * a->shape.width + x) * n, n);
    }
}

/* Add the gradient of one channel of a window to that of its largest value. */
static void send_back(const struct lk_maxpool_backward_args *a, const struct window *w,
                      size_t image, size_t channel, float gradient)
{
    const float *in = a->in;
    size_t n = a->shape.inputs, best = 0;
    float largest = -INFINITY;
    bool found = false;

    for (size_t y = w->y0; y < w->y1; y++)
        for (size_t x = w->x0; x < w->x1; x++) {
            size_t at = (image + y * a->shape.width + x) * n + channel;

            if (found && !(in[at] > largest) && !isnan(in[at]))
                continue;
            found = true;
            largest = in[at];
            best = at;
        }
    if (found)
        ((float *)a->din)[best] += gradient;
}

void lk_maxpool_backward_cpu(const void *args)
{
    const struct lk_maxpool_backward_args *a = args;
    const struct lk_conv_shape *s = &a->shape;
    const float *dout = a->dout;
    size_t rows = out_pixels(s);

    memset(a->din, 0, s->samples * s->height * s->width * s->inputs * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        size_t image;
        struct window w = window_of(s, r, &image);

        for (size_t c = 0; c < s->inputs; c++)
            send_back(a, &w, image, c, dout[r * s->inputs + c]);
    }
}

/* Find the rows, or columns, that output i is the mean of. */
static void part_of(size_t i, size_t size, size_t parts, size_t *from, size_t *to)
{
    *from = i * size / parts;
    *to = ((i + 1) * size + parts - 1) / parts;
}

void lk_avgpool_forward_cpu(const void *args)
{
    const struct lk_avgpool_forward_args *a = args;
    size_t area = a->size * a->size, n = a->channels;

    for (size_t i = 0; i < a->samples * area; i++) {
        const float *image = (const float *)a->in + i / area * a->height * a->width * n;
        float *out = (float *)a->out + i / area * n * area + i % area;
        struct window w;
        float share;

        part_of(i % area / a->size, a->height, a->size, &w.y0, &w.y1);
        part_of(i % a->size, a->width, a->size, &w.x0, &w.x1);
        share = 1 / (float)((w.y1 - w.y0) * (w.x1 - w.x0));
        for (size_t c = 0; c < n; c++) {
            float sum = 0;

            for (size_t y = w.y0; y < w.y1; y++)
                for (size_t x = w.x0; x < w.x1; x++)
                    sum += image[(y * a->width + x) * n + c];
            out[c * area] = sum * share;
        }
    }
}

void lk_avgpool_backward_cpu(const void *args)
{
    const struct lk_avgpool_backward_args *a = args;
    size_t area = a->size * a->size, n = a->channels;

    memset(a->din, 0, a->samples * a->height * a->width * n * sizeof(float));
    for (size_t i = 0; i < a->samples * area; i++) {
        float *image = (float *)a->din + i / area * a->height * a->width * n;
        const float *dout = (const float *)a->dout + i / area * n * area + i % area;
        struct window w;
        float share;

        part_of(i % area / a->size, a->height, a->size, &w.y0, &w.y1);
        part_of(i % a->size, a->width, a->size, &w.x0, &w.x1);
        share = 1 / (float)((w.y1 - w.y0) * (w.x1 - w.x0));
        for (size_t y = w.y0; y < w.y1; y++)
            for (size_t x = w.x0; x < w.x1; x++)
                for (size_t c = 0; c < n; c++)
                    image[(y * a->width + x) * n + c] += dout[c * area] * share;
    }
}

void lk_add_relu_forward_cpu(const void *args)
{
    const struct lk_add_relu_forward_args *a = args;
    const float *in = a->in, *residual = a->residual;
    float *out = a->out;

    for (size_t i = 0; i < a->n; i++) {
        float sum = in[i] + residual[i];

        out[i] = sum < 0 ? 0 : sum;
    }
}
