/* Layer normalisation, float32, row by row; a row stays in the first-level cache. */
#include "kernels/impl.h"

#include <math.h>
#include <string.h>

void lk_layernorm_forward_cpu(const void *args)
{
    const struct lk_layernorm_forward_args *a = args;
    const float *restrict weight = a->weight, *restrict bias = a->bias;
    float *means = a->mean, *rstds = a->rstd;
    size_t n = a->channels;

    for (size_t r = 0; r < a->rows; r++) {
        const float *restrict in = (const float *)a->in + r * n;
        float *restrict out = (float *)a->out + r * n;
        float mean = lk_lanes_sum(in, n) / (float)n, rstd;

        for (size_t c = 0; c < n; c++)
            out[c] = in[c] - mean;
        rstd = 1 / sqrtf(lk_lanes_dot(out, out, n) / (float)n + (float)LK_LAYERNORM_EPS);
        for (size_t c = 0; c < n; c++)
            out[c] = out[c] * rstd * weight[c] + bias[c];
        means[r] = mean;
        rstds[r] = rstd;
    }
}

/* Process `count` columns of a row: add to dweight and dbias, and to the lanes of the two sums of
 * reference.c. */
static inline void add_columns(const float *restrict in, const float *restrict dout,
                               const float *restrict weight, float mean, float rstd, size_t count,
                               float *restrict dweight, float *restrict dbias,
                               float sums[restrict 2][LK_LANES])
{
#pragma omp simd
    for (size_t l = 0; l < count; l++) {
        float x = (in[l] - mean) * rstd;
        float g = dout[l] * weight[l];

        sums[0][l] += g;
        sums[1][l] += g * x;
        dweight[l] += dout[l] * x;
        dbias[l] += dout[l];
    }
}

static void backward_row(const struct lk_layernorm_backward_args *a, size_t row)
{
    size_t n = a->channels, c = 0;
    const float *restrict weight = a->weight;
    const float *restrict in = (const float *)a->in + row * n;
    const float *restrict dout = (const float *)a->dout + row * n;
    float *restrict din = (float *)a->din + row * n;
    float *dweight = a->dweight, *dbias = a->dbias;
    float mean = ((const float *)a->mean)[row], rstd = ((const float *)a->rstd)[row];
    float sums[2][LK_LANES] = {{0}}, mean_g, slope;

    for (; c + LK_LANES <= n; c += LK_LANES)
        add_columns(in + c, dout + c, weight + c, mean, rstd, LK_LANES, dweight + c, dbias + c,
                    sums);
    add_columns(in + c, dout + c, weight + c, mean, rstd, n - c, dweight + c, dbias + c, sums);
    mean_g = lk_lanes_total(sums[0]) / (float)n;
    slope = lk_lanes_total(sums[1]) / (float)n * rstd;
    if (a->accumulate_input)
        for (c = 0; c < n; c++)
            din[c] += rstd * (dout[c] * weight[c] - mean_g - (in[c] - mean) * slope);
    else
        for (c = 0; c < n; c++)
            din[c] = rstd * (dout[c] * weight[c] - mean_g - (in[c] - mean) * slope);
}

void lk_layernorm_backward_cpu(const void *args)
{
    const struct lk_layernorm_backward_args *a = args;

    if (!a->accumulate) {
        memset(a->dweight, 0, a->channels * sizeof(float));
        memset(a->dbias, 0, a->channels * sizeof(float));
    }
    for (size_t r = 0; r < a->rows; r++)
        backward_row(a, r);
}
