/* Layer normalisation, float32: one row at a time, which stays in the first-level cache. */
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
        float sum = 0, squares = 0, mean, rstd;

#pragma omp simd reduction(+ : sum)
        for (size_t c = 0; c < n; c++)
            sum += in[c];
        mean = sum / (float)n;
#pragma omp simd reduction(+ : squares)
        for (size_t c = 0; c < n; c++)
            squares += (in[c] - mean) * (in[c] - mean);
        rstd = 1 / sqrtf(squares / (float)n + (float)LK_LAYERNORM_EPS);
        for (size_t c = 0; c < n; c++)
            out[c] = (in[c] - mean) * rstd * weight[c] + bias[c];
        means[r] = mean;
        rstds[r] = rstd;
    }
}

/* One row of the formula in layernorm_ref.c. */
static void backward_row(const struct lk_layernorm_backward_args *a, size_t r)
{
    size_t n = a->channels;
    const float *restrict weight = a->weight;
    const float *restrict in = (const float *)a->in + r * n;
    const float *restrict dout = (const float *)a->dout + r * n;
    float *restrict din = (float *)a->din + r * n;
    float *restrict dweight = a->dweight, *restrict dbias = a->dbias;
    float mean = ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
    float sum_g = 0, sum_gx = 0;

#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (size_t c = 0; c < n; c++) {
        float x = (in[c] - mean) * rstd;
        float g = dout[c] * weight[c];

        sum_g += g;
        sum_gx += g * x;
        dweight[c] += dout[c] * x;
        dbias[c] += dout[c];
    }
    sum_g /= (float)n;
    sum_gx /= (float)n;
    if (a->accumulate_input)
        for (size_t c = 0; c < n; c++)
            din[c] += rstd * (dout[c] * weight[c] - sum_g - (in[c] - mean) * rstd * sum_gx);
    else
        for (size_t c = 0; c < n; c++)
            din[c] = rstd * (dout[c] * weight[c] - sum_g - (in[c] - mean) * rstd * sum_gx);
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
