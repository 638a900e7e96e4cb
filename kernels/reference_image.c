/* The ops of image models in float64, by their definitions, as kernels/reference.c has the
 * others. */
#include "kernels/impl.h"
#include "kernels/ops_image.h"

#include <math.h>
#include <string.h>

void lk_pixels_forward_ref(const void *args)
{
    const struct lk_pixels_forward_args *a = args;
    double *out = a->out;

    for (size_t s = 0; s < a->samples; s++)
        for (size_t c = 0; c < a->channels; c++)
            for (size_t p = 0; p < a->area; p++)
                out[(s * a->area + p) * a->channels + c] =
                    a->pixels[(s * a->channels + c) * a->area + p] * a->factor + a->shift;
}

/* ---- Windows ---- */

/* One pixel of one window. */
struct tap {
    size_t out, in; /* pixels of the output and of the input */
    size_t window;  /* its place in the window */
};

/* Return the number of taps, those on padding included. */
static size_t taps(const struct lk_conv_shape *s)
{
    return s->samples * lk_conv_out(s->height, s->kernel, s->stride, s->padding) *
           lk_conv_out(s->width, s->kernel, s->stride, s->padding) * s->kernel * s->kernel;
}

/* Find tap i, window by window; false: it is on padding. */
static bool tap_at(const struct lk_conv_shape *s, size_t i, struct tap *t)
{
    size_t height = lk_conv_out(s->height, s->kernel, s->stride, s->padding);
    size_t width = lk_conv_out(s->width, s->kernel, s->stride, s->padding);
    size_t area = s->kernel * s->kernel, y, x;

    t->out = i / area;
    t->window = i % area;
    y = t->out / width % height * s->stride + t->window / s->kernel;
    x = t->out % width * s->stride + t->window % s->kernel;
    if (y < s->padding || x < s->padding || y - s->padding >= s->height ||
        x - s->padding >= s->width)
        return false;
    t->in = (t->out / width / height * s->height + y - s->padding) * s->width + x - s->padding;
    return true;
}

void lk_conv_forward_ref(const void *args)
{
    const struct lk_conv_forward_args *a = args;
    const struct lk_conv_shape *s = &a->shape;
    const double *in = a->in, *weight = a->weight, *bias = a->bias;
    size_t area = s->kernel * s->kernel, n = taps(s);
    double *out = a->out;
    struct tap t;

    for (size_t i = 0; i < n / area * s->outputs; i++)
        out[i] = bias ? bias[i % s->outputs] : 0;
    for (size_t i = 0; i < n; i++)
        if (tap_at(s, i, &t))
            for (size_t o = 0; o < s->outputs; o++)
                for (size_t c = 0; c < s->inputs; c++)
                    out[t.out * s->outputs + o] +=
                        in[t.in * s->inputs + c] * weight[(o * s->inputs + c) * area + t.window];
}

void lk_conv_backward_input_ref(const void *args)
{
    const struct lk_conv_backward_input_args *a = args;
    const struct lk_conv_shape *s = &a->shape;
    const double *dout = a->dout, *weight = a->weight;
    size_t area = s->kernel * s->kernel, n = taps(s);
    double *din = a->din;
    struct tap t;

    if (!a->accumulate)
        memset(din, 0, s->samples * s->height * s->width * s->inputs * sizeof *din);
    for (size_t i = 0; i < n; i++)
        if (tap_at(s, i, &t))
            for (size_t o = 0; o < s->outputs; o++)
                for (size_t c = 0; c < s->inputs; c++)
                    din[t.in * s->inputs + c] += dout[t.out * s->outputs + o] *
                                                 weight[(o * s->inputs + c) * area + t.window];
}

void lk_conv_backward_weight_ref(const void *args)
{
    const struct lk_conv_backward_weight_args *a = args;
    const struct lk_conv_shape *s = &a->shape;
    const double *dout = a->dout, *in = a->in;
    size_t area = s->kernel * s->kernel, n = taps(s);
    double *dweight = a->dweight, *dbias = a->dbias;
    struct tap t;

    if (!a->accumulate)
        memset(dweight, 0, s->outputs * s->inputs * area * sizeof *dweight);
    for (size_t i = 0; i < n; i++)
        if (tap_at(s, i, &t))
            for (size_t o = 0; o < s->outputs; o++)
                for (size_t c = 0; c < s->inputs; c++)
                    dweight[(o * s->inputs + c) * area + t.window] +=
                        dout[t.out * s->outputs + o] * in[t.in * s->inputs + c];
    for (size_t o = 0; o < s->outputs && dbias; o++) {
        double sum = a->accumulate ? dbias[o] : 0;

        for (size_t i = 0; i < n / area; i++)
            sum += dout[i * s->outputs + o];
        dbias[o] = sum;
    }
}

/* ---- Batch normalisation ---- */

void lk_batchnorm_statistics_ref(const void *args)
{
    const struct lk_batchnorm_statistics_args *a = args;
    double *mean = a->statistics, *rstd = mean + a->channels, n = (double)a->rows;
    const double *in = a->in;

    mean[2 * a->channels] = n;
    for (size_t c = 0; c < a->channels; c++) {
        double sum = 0, squares = 0;

        for (size_t r = 0; r < a->rows; r++)
            sum += in[r * a->channels + c];
        mean[c] = a->rows ? sum / n : 0;
        for (size_t r = 0; r < a->rows; r++) {
            double d = in[r * a->channels + c] - mean[c];

            squares += d * d;
        }
        rstd[c] = a->rows ? 1 / sqrt(squares / n + LK_BATCHNORM_EPS) : 0;
    }
}

void lk_batchnorm_gather_ref(const void *args)
{
    const struct lk_batchnorm_gather_args *a = args;
    double *joint = a->joint, *running_mean = a->running_mean, *running_var = a->running_var;
    size_t n = a->channels, stride = 2 * n + 1;
    const double *all = a->all;
    double total = 0;

    for (size_t i = 0; i < a->batches; i++)
        total += all[i * stride + 2 * n];
    joint[2 * n] = total;
    for (size_t c = 0; c < n; c++) {
        double mean = 0, variance = 0;

        for (size_t i = 0; i < a->batches; i++)
            mean += all[i * stride + 2 * n] * all[i * stride + c] / total;
        for (size_t i = 0; i < a->batches; i++) {
            double rows = all[i * stride + 2 * n], rstd = all[i * stride + n + c];
            double away = all[i * stride + c] - mean;

            if (rows > 0)
                variance += rows * (1 / (rstd * rstd) - LK_BATCHNORM_EPS + away * away) / total;
        }
        joint[c] = mean;
        joint[n + c] = 1 / sqrt(variance + LK_BATCHNORM_EPS);
        running_mean[c] += a->momentum * (mean - running_mean[c]);
        running_var[c] += a->momentum * (variance * total / (total - 1) - running_var[c]);
    }
}

void lk_batchnorm_forward_ref(const void *args)
{
    const struct lk_batchnorm_forward_args *a = args;
    const double *in = a->in, *joint = a->joint, *weight = a->weight, *bias = a->bias;
    double *out = a->out;

    for (size_t i = 0; i < a->rows * a->channels; i++) {
        size_t c = i % a->channels;
        double y = (in[i] - joint[c]) * joint[a->channels + c] * weight[c] + bias[c];

        out[i] = a->relu && y < 0 ? 0 : y;
    }
}

void lk_batchnorm_sums_ref(const void *args)
{
    const struct lk_batchnorm_sums_args *a = args;
    const double *dout = a->dout, *in = a->in, *joint = a->joint;
    double *sums = a->sums, *dweight = a->dweight, *dbias = a->dbias;
    size_t n = a->channels;

    for (size_t c = 0; c < n; c++) {
        double level = 0, slope = 0;

        for (size_t r = 0; r < a->rows; r++) {
            level += dout[r * n + c];
            slope += dout[r * n + c] * (in[r * n + c] - joint[c]);
        }
        sums[c] = level;
        sums[n + c] = slope;
        dbias[c] = (a->accumulate ? dbias[c] : 0) + level;
        dweight[c] = (a->accumulate ? dweight[c] : 0) + slope * joint[n + c];
    }
}

void lk_batchnorm_backward_ref(const void *args)
{
    const struct lk_batchnorm_backward_args *a = args;
    const double *dout = a->dout, *in = a->in, *joint = a->joint, *sums = a->sums;
    const double *weight = a->weight;
    double *din = a->din;
    size_t n = a->channels;

    for (size_t i = 0; i < a->rows * n; i++) {
        size_t c = i % n;
        double rstd = joint[n + c], away = in[i] - joint[c];
        double mean = (sums[c] + away * rstd * rstd * sums[n + c]) / joint[2 * n];

        din[i] = weight[c] * rstd * (dout[i] - mean);
    }
}

/* ---- Pooling ---- */

/* Return the element of `in` that is the largest of output pixel `out` and a channel. */
static size_t largest(const struct lk_conv_shape *s, const double *in, size_t out, size_t channel)
{
    size_t area = s->kernel * s->kernel, best = SIZE_MAX;
    struct tap t;

    for (size_t i = out * area; i < (out + 1) * area; i++)
        if (tap_at(s, i, &t)) {
            size_t at = t.in * s->inputs + channel;

            if (best == SIZE_MAX || in[at] > in[best] || isnan(in[at]))
                best = at;
        }
    return best;
}

void lk_maxpool_forward_ref(const void *args)
{
    const struct lk_maxpool_forward_args *a = args;
    const struct lk_conv_shape *s = &a->shape;
    size_t n = taps(s) / (s->kernel * s->kernel) * s->inputs;
    const double *in = a->in;
    double *out = a->out;

    for (size_t i = 0; i < n; i++)
        out[i] = in[largest(s, in, i / s->inputs, i % s->inputs)];
}

void lk_maxpool_backward_ref(const void *args)
{
    const struct lk_maxpool_backward_args *a = args;
    const struct lk_conv_shape *s = &a->shape;
    size_t n = taps(s) / (s->kernel * s->kernel) * s->inputs;
    const double *dout = a->dout;
    double *din = a->din;

    memset(din, 0, s->samples * s->height * s->width * s->inputs * sizeof *din);
    for (size_t i = 0; i < n; i++)
        din[largest(s, a->in, i / s->inputs, i % s->inputs)] += dout[i];
}

/* Return true if row, or column, i of the input is in the mean of output o. */
static bool in_mean(size_t i, size_t o, size_t size, size_t parts)
{
    return i >= o * size / parts && i < ((o + 1) * size + parts - 1) / parts;
}

/* Return the share that an input pixel has in an output pixel. */
static double share(size_t height, size_t width, size_t size, size_t in, size_t out)
{
    size_t y = out / size, x = out % size, n = 0;

    if (!in_mean(in / width, y, height, size) || !in_mean(in % width, x, width, size))
        return 0;
    for (size_t i = 0; i < height * width; i++)
        n += in_mean(i / width, y, height, size) && in_mean(i % width, x, width, size);
    return 1 / (double)n;
}

void lk_avgpool_forward_ref(const void *args)
{
    const struct lk_avgpool_forward_args *a = args;
    size_t area = a->size * a->size, pixels = a->height * a->width, n = a->channels;
    const double *in = a->in;
    double *out = a->out;

    memset(out, 0, a->samples * n * area * sizeof *out);
    for (size_t s = 0; s < a->samples; s++)
        for (size_t o = 0; o < area; o++)
            for (size_t i = 0; i < pixels; i++) {
                double part = share(a->height, a->width, a->size, i, o);

                for (size_t c = 0; c < n && part > 0; c++)
                    out[(s * n + c) * area + o] += part * in[(s * pixels + i) * n + c];
            }
}

void lk_avgpool_backward_ref(const void *args)
{
    const struct lk_avgpool_backward_args *a = args;
    size_t area = a->size * a->size, pixels = a->height * a->width, n = a->channels;
    const double *dout = a->dout;
    double *din = a->din;

    memset(din, 0, a->samples * n * pixels * sizeof *din);
    for (size_t s = 0; s < a->samples; s++)
        for (size_t o = 0; o < area; o++)
            for (size_t i = 0; i < pixels; i++) {
                double part = share(a->height, a->width, a->size, i, o);

                for (size_t c = 0; c < n && part > 0; c++)
                    din[(s * pixels + i) * n + c] += part * dout[(s * n + c) * area + o];
            }
}

void lk_add_relu_forward_ref(const void *args)
{
    const struct lk_add_relu_forward_args *a = args;
    const double *in = a->in, *residual = a->residual;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++)
        out[i] = in[i] + residual[i] < 0 ? 0 : in[i] + residual[i];
}
