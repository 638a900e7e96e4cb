/* Causal attention, float64: one query row at a time. */
#include "kernels/impl.h"

#include <math.h>
#include <string.h>

static double dot(const double *x, const double *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Compute the softmax of x(0..n-1) in place. */
static void softmax(double *x, size_t n)
{
    double max = x[0], sum = 0;

    for (size_t i = 1; i < n; i++)
        max = fmax(max, x[i]);
    for (size_t i = 0; i < n; i++) {
        x[i] = exp(x[i] - max);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

void lk_attention_forward_ref(const void *args)
{
    const struct lk_attention_forward_args *a = args;
    size_t t_n = a->context, c_n = a->channels, width = c_n / a->heads;
    double factor = 1 / sqrt((double)width);

    for (size_t i = 0; i < a->samples * a->heads * t_n; i++) {
        size_t t = i % t_n, head = i / t_n % a->heads, sample = i / t_n / a->heads;
        const double *q = (const double *)a->qkv + sample * t_n * 3 * c_n + head * width;
        const double *k = q + c_n, *v = q + 2 * c_n;
        double *probs = (double *)a->probs + i * t_n;
        double *out = (double *)a->out + (sample * t_n + t) * c_n + head * width;

        for (size_t u = 0; u <= t; u++)
            probs[u] = factor * dot(q + t * 3 * c_n, k + u * 3 * c_n, width);
        softmax(probs, t + 1);
        memset(out, 0, width * sizeof *out);
        for (size_t u = 0; u <= t; u++)
            for (size_t c = 0; c < width; c++)
                out[c] += probs[u] * v[u * 3 * c_n + c];
    }
}

void lk_attention_backward_ref(const void *args)
{
    const struct lk_attention_backward_args *a = args;
    size_t t_n = a->context, c_n = a->channels, width = c_n / a->heads;
    double factor = 1 / sqrt((double)width), *dprobs = a->scratch;

    memset(a->dqkv, 0, a->samples * t_n * 3 * c_n * sizeof(double));
    for (size_t i = 0; i < a->samples * a->heads * t_n; i++) {
        size_t t = i % t_n, head = i / t_n % a->heads, sample = i / t_n / a->heads;
        size_t at = sample * t_n * 3 * c_n + head * width;
        const double *q = (const double *)a->qkv + at, *k = q + c_n, *v = q + 2 * c_n;
        double *dq = (double *)a->dqkv + at, *dk = dq + c_n, *dv = dq + 2 * c_n;
        const double *probs = (const double *)a->probs + i * t_n;
        const double *dout = (const double *)a->dout + (sample * t_n + t) * c_n + head * width;
        double mean = 0;

        for (size_t u = 0; u <= t; u++) {
            dprobs[u] = dot(dout, v + u * 3 * c_n, width);
            mean += probs[u] * dprobs[u];
        }
        for (size_t u = 0; u <= t; u++) {
            double dscore = probs[u] * (dprobs[u] - mean) * factor;

            for (size_t c = 0; c < width; c++) {
                dq[t * 3 * c_n + c] += dscore * k[u * 3 * c_n + c];
                dk[u * 3 * c_n + c] += dscore * q[t * 3 * c_n + c];
                dv[u * 3 * c_n + c] += probs[u] * dout[c];
            }
        }
    }
}
