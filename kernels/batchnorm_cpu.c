/*
 * Batch normalisation, float32. Sums over rows are made in blocks of rows, whose sums are added in
 * float64: a layer has 100,000 rows and more, too many for one sum in float32. A strip of channels
 * is summed at a time, so that its sums stay in registers or the first-level cache.
 */
#include "kernels/impl.h"
#include "kernels/ops_image.h"

#include <math.h>
#include <string.h>

enum { STRIP = 64, BLOCK = 256 };

/* The sums of two quantities over rows, a strip of channels wide. */
struct sums {
    double a[STRIP], b[STRIP];
};

/* Add a block of float32 sums and clear it. */
static void add_block(struct sums *s, float a[STRIP], float b[STRIP], size_t width)
{
    for (size_t c = 0; c < width; c++) {
        s->a[c] += (double)a[c];
        s->b[c] += (double)b[c];
    }
    memset(a, 0, STRIP * sizeof *a);
    memset(b, 0, STRIP * sizeof *b);
}

/* Sum in - base and its square over rows; base: the first row, which is near the mean. */
static void sum_moments(const float *in, size_t rows, size_t channels, size_t width,
                        struct sums *out)
{
    const float *restrict base = in;
    float a[STRIP] = {0}, b[STRIP] = {0};

    memset(out, 0, sizeof *out);
    for (size_t r = 0; r < rows; r++) {
        const float *restrict x = in + r * channels;

#pragma omp simd
        for (size_t c = 0; c < width; c++) {
            float d = x[c] - base[c];

            a[c] += d;
            b[c] += d * d;
        }
        if (r % BLOCK == BLOCK - 1)
            add_block(out, a, b, width);
    }
    add_block(out, a, b, width);
}

static size_t strip_at(size_t channels, size_t first)
{
    return channels - first < STRIP ? channels - first : STRIP;
}

void lk_batchnorm_statistics_cpu(const void *args)
{
    const struct lk_batchnorm_statistics_args *a = args;
    float *mean = a->statistics, *rstd = mean + a->channels;
    double n = (double)a->rows;

    mean[2 * a->channels] = (float)a->rows;
    if (a->rows == 0)
        memset(mean, 0, 2 * a->channels * sizeof *mean);
    for (size_t first = 0, width; first < a->channels && a->rows; first += width) {
        const float *in = (const float *)a->in + first;
        struct sums s;

        width = strip_at(a->channels, first);
        sum_moments(in, a->rows, a->channels, width, &s);
        for (size_t c = 0; c < width; c++) {
            double shift = s.a[c] / n, variance = s.b[c] / n - shift * shift;

            /* The difference of two sums can be below 0 by rounding; NaN stays. */
            variance = variance < 0 ? 0 : variance;
            mean[first + c] = (float)((double)in[c] + shift);
            rstd[first + c] = (float)(1 / sqrt(variance + LK_BATCHNORM_EPS));
        }
    }
}

void lk_batchnorm_gather_cpu(const void *args)
{
    const struct lk_batchnorm_gather_args *a = args;
    const float *all = a->all;
    float *joint = a->joint, *running_mean = a->running_mean, *running_var = a->running_var;
    size_t channels = a->channels, stride = 2 * channels + 1;
    double total = 0;

    for (size_t i = 0; i < a->batches; i++)
        total += (double)all[i * stride + 2 * channels];
    joint[2 * channels] = (float)total;
    for (size_t c = 0; c < channels; c++) {
        double mean = 0, variance = 0;

        for (size_t i = 0; i < a->batches; i++)
            mean += (double)all[i * stride + 2 * channels] * (double)all[i * stride + c] / total;
        for (size_t i = 0; i < a->batches; i++) {
            const float *own = all + i * stride;
            double n = (double)own[2 * channels], rstd = (double)own[channels + c];
            double away = (double)own[c] - mean;

            if (n > 0)
                variance += n * (1 / (rstd * rstd) - LK_BATCHNORM_EPS + away * away) / total;
        }
        joint[c] = (float)mean;
        joint[channels + c] = (float)(1 / sqrt(variance + LK_BATCHNORM_EPS));
        running_mean[c] += (float)(a->momentum * (mean - (double)running_mean[c]));
        running_var[c] +=
            (float)(a->momentum * (variance * total / (total - 1) - (double)running_var[c]));
    }
}

void lk_batchnorm_forward_cpu(const void *args)
{
    const struct lk_batchnorm_forward_args *a = args;
    const float *joint = a->joint, *weight = a->weight, *bias = a->bias;

    for (size_t first = 0, width; first < a->channels; first += width) {
        float factor[STRIP], mean[STRIP], shift[STRIP];

        width = strip_at(a->channels, first);
        for (size_t c = 0; c < width; c++) {
            mean[c] = joint[first + c];
            factor[c] = joint[a->channels + first + c] * weight[first + c];
            shift[c] = bias[first + c];
        }
        for (size_t r = 0; r < a->rows; r++) {
            const float *restrict in = (const float *)a->in + r * a->channels + first;
            float *restrict out = (float *)a->out + r * a->channels + first;

            if (a->relu)
#pragma omp simd
                for (size_t c = 0; c < width; c++) {
                    float y = (in[c] - mean[c]) * factor[c] + shift[c];

                    out[c] = y < 0 ? 0 : y;
                }
            else
#pragma omp simd
                for (size_t c = 0; c < width; c++)
                    out[c] = (in[c] - mean[c]) * factor[c] + shift[c];
        }
    }
}

/* Sum dout and dout * (in - mean) over rows. */
static void sum_gradients(const float *dout, const float *in, const float *restrict mean,
                          size_t rows, size_t channels, size_t width, struct sums *out)
{
    float a[STRIP] = {0}, b[STRIP] = {0};

    memset(out, 0, sizeof *out);
    for (size_t r = 0; r < rows; r++) {
        const float *restrict g = dout + r * channels, *restrict x = in + r * channels;

#pragma omp simd
        for (size_t c = 0; c < width; c++) {
            a[c] += g[c];
            b[c] += g[c] * (x[c] - mean[c]);
        }
        if (r % BLOCK == BLOCK - 1)
            add_block(out, a, b, width);
    }
    add_block(out, a, b, width);
}

void lk_batchnorm_sums_cpu(const void *args)
{
    const struct lk_batchnorm_sums_args *a = args;
    const float *mean = a->joint, *rstd = mean + a->channels;
    float *sums = a->sums, *dweight = a->dweight, *dbias = a->dbias;

    for (size_t first = 0, width; first < a->channels; first += width) {
        struct sums s;

        width = strip_at(a->channels, first);
        sum_gradients((const float *)a->dout + first, (const float *)a->in + first, mean + first,
                      a->rows, a->channels, width, &s);
        for (size_t c = 0; c < width; c++) {
            size_t at = first + c;

            sums[at] = (float)s.a[c];
            sums[a->channels + at] = (float)s.b[c];
            dbias[at] = (a->accumulate ? dbias[at] : 0) + (float)s.a[c];
            dweight[at] = (a->accumulate ? dweight[at] : 0) + (float)(s.b[c] * (double)rstd[at]);
        }
    }
}

void lk_batchnorm_backward_cpu(const void *args)
{
    const struct lk_batchnorm_backward_args *a = args;
    const float *joint = a->joint, *sums = a->sums, *weight = a->weight;
    float n = joint[2 * a->channels];

    for (size_t first = 0, width; first < a->channels; first += width) {
        float factor[STRIP], mean[STRIP], level[STRIP], slope[STRIP];

        width = strip_at(a->channels, first);
        for (size_t c = 0; c < width; c++) {
            size_t at = first + c;
            float rstd = joint[a->channels + at];

            mean[c] = joint[at];
            factor[c] = weight[at] * rstd;
            level[c] = sums[at] / n;
            slope[c] = rstd * rstd * sums[a->channels + at] / n;
        }
        for (size_t r = 0; r < a->rows; r++) {
            const float *in = (const float *)a->in + r * a->channels + first;
            const float *dout = (const float *)a->dout + r * a->channels + first;
            float *din = (float *)a->din + r * a->channels + first;

#pragma omp simd
            for (size_t c = 0; c < width; c++)
                din[c] = factor[c] * (dout[c] - level[c] - (in[c] - mean[c]) * slope[c]);
        }
    }
}
