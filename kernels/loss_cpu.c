/* Softmax and cross-entropy, float32; the mean over rows is summed in float64. */
#include "kernels/impl.h"
#include "kernels/vecmath.h"

#include <math.h>

/* Return the log of the sum of exponentials. They go to a buffer in the first-level cache, chunk by
 * chunk, and are added there. */
static float row_log_sum(const float *restrict x, size_t n)
{
    enum { CHUNK = 512 };
    float max = lk_lanes_max(x, n), sum = 0, chunk[CHUNK];

    for (size_t first = 0; first < n; first += CHUNK) {
        size_t count = n - first < CHUNK ? n - first : CHUNK;

        for (size_t i = 0; i < count; i++)
            chunk[i] = lk_vecmath_exp(x[first + i] - max);
        sum += lk_lanes_sum(chunk, count);
    }
    return logf(sum) + max;
}

void lk_cross_entropy_forward_cpu(const void *args)
{
    const struct lk_cross_entropy_forward_args *a = args;
    float *log_sum = a->log_sum;
    size_t stride = lk_op_stride(a->stride, a->vocab);
    double loss = 0;

    if (a->rows == 0)
        return;
    for (size_t r = 0; r < a->rows; r++) {
        const float *logits = (const float *)a->logits + r * stride;

        log_sum[r] = row_log_sum(logits, a->vocab);
        loss += (double)(log_sum[r] - logits[a->targets[r * a->target_stride]]);
    }
    *(float *)a->loss = (float)(loss / (double)a->rows);
    if (a->dlogits)
        lk_cross_entropy_backward_cpu(
            &(struct lk_cross_entropy_backward_args){.dlogits = a->dlogits,
                                                     .logits = a->logits,
                                                     .log_sum = log_sum,
                                                     .targets = a->targets,
                                                     .rows = a->rows,
                                                     .vocab = a->vocab,
                                                     .target_stride = a->target_stride,
                                                     .stride = a->stride,
                                                     .seed = a->seed});
}

void lk_cross_entropy_backward_cpu(const void *args)
{
    const struct lk_cross_entropy_backward_args *a = args;
    const float *log_sum = a->log_sum;
    float seed = (float)(a->seed / (double)a->rows);
    size_t stride = lk_op_stride(a->stride, a->vocab);

    for (size_t r = 0; r < a->rows; r++) {
        const float *logits = (const float *)a->logits + r * stride;
        float *dlogits = (float *)a->dlogits + r * stride;
        float shift = log_sum[r];

#pragma omp simd
        for (size_t v = 0; v < a->vocab; v++)
            dlogits[v] = seed * lk_vecmath_exp(logits[v] - shift);
        dlogits[a->targets[r * a->target_stride]] -= seed;
    }
}
