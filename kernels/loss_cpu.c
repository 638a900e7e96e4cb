/* Softmax and cross-entropy, float32; the mean over rows is summed in float64. */
#include "kernels/impl.h"
#include "kernels/vecmath.h"

#include <math.h>

static float row_log_sum(const float *restrict x, size_t n)
{
    float max = x[0], sum = 0;

#pragma omp simd reduction(max : max)
    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += lk_vecmath_exp(x[i] - max);
    return logf(sum) + max;
}

void lk_cross_entropy_forward_cpu(const void *args)
{
    const struct lk_cross_entropy_forward_args *a = args;
    float *log_sum = a->log_sum;
    double loss = 0;

    if (a->rows == 0)
        return;
    for (size_t r = 0; r < a->rows; r++) {
        const float *logits = (const float *)a->logits + r * a->vocab;

        log_sum[r] = row_log_sum(logits, a->vocab);
        loss += (double)(log_sum[r] - logits[a->targets[r * a->target_stride]]);
    }
    *(float *)a->loss = (float)(loss / (double)a->rows);
}

void lk_cross_entropy_backward_cpu(const void *args)
{
    const struct lk_cross_entropy_backward_args *a = args;
    const float *log_sum = a->log_sum;
    float seed = (float)(a->seed / (double)a->rows);

    for (size_t r = 0; r < a->rows; r++) {
        const float *logits = (const float *)a->logits + r * a->vocab;
        float *dlogits = (float *)a->dlogits + r * a->vocab;
        float shift = log_sum[r];

#pragma omp simd
        for (size_t v = 0; v < a->vocab; v++)
            dlogits[v] = seed * lk_vecmath_exp(logits[v] - shift);
        dlogits[a->targets[r * a->target_stride]] -= seed;
    }
}
