/* Softmax and cross-entropy, float64. */
#include "kernels/impl.h"

#include <math.h>

void lk_cross_entropy_forward_ref(const void *args)
{
    const struct lk_cross_entropy_forward_args *a = args;
    double *log_sum = a->log_sum, loss = 0;
    size_t stride = lk_op_stride(a->stride, a->vocab);

    if (a->rows == 0)
        return;
    for (size_t r = 0; r < a->rows; r++) {
        const double *logits = (const double *)a->logits + r * stride;
        double max = logits[0], sum = 0;

        for (size_t v = 1; v < a->vocab; v++)
            max = fmax(max, logits[v]);
        for (size_t v = 0; v < a->vocab; v++)
            sum += exp(logits[v] - max);
        log_sum[r] = log(sum) + max;
        loss += log_sum[r] - logits[a->targets[r * a->target_stride]];
    }
    *(double *)a->loss = loss / (double)a->rows;
}

void lk_cross_entropy_backward_ref(const void *args)
{
    const struct lk_cross_entropy_backward_args *a = args;
    const double *log_sum = a->log_sum;
    double seed = a->seed / (double)a->rows;
    size_t stride = lk_op_stride(a->stride, a->vocab);

    for (size_t r = 0; r < a->rows; r++) {
        const double *logits = (const double *)a->logits + r * stride;
        double *dlogits = (double *)a->dlogits + r * stride;

        for (size_t v = 0; v < a->vocab; v++)
            dlogits[v] = seed * exp(logits[v] - log_sum[r]);
        dlogits[a->targets[r * a->target_stride]] -= seed;
    }
}
