/* gelu and relu, float32. gelu uses 0.5 (1 + tanh(u)) = sigmoid(2 u), which has no cancellation for
 * negative x. */
#include "kernels/impl.h"
#include "kernels/vecmath.h"

#include <string.h>

static const float two_root_two_over_pi = 1.59576912160573071f;
static const float cubic = 0.044715f;
static const float largest = 60; /* limit of u; the derivative's error beyond is 1e-24 */

void lk_gelu_forward_cpu(const void *args)
{
    const struct lk_gelu_forward_args *a = args;
    const float *restrict in = a->in;
    float *restrict out = a->out;

    for (size_t i = 0; i < a->n; i++) {
        float x = in[i];

        out[i] = x * lk_vecmath_sigmoid(two_root_two_over_pi * x * (1 + cubic * x * x));
    }
}

void lk_gelu_backward_cpu(const void *args)
{
    const struct lk_gelu_backward_args *a = args;
    const float *restrict in = a->in;
    const float *dout = a->dout;
    float *din = a->din;

#pragma omp simd
    for (size_t i = 0; i < a->n; i++) {
        float x = in[i];
        float u = -two_root_two_over_pi * x * (1 + cubic * x * x);
        float e = lk_vecmath_exp(u > largest ? largest : u);
        float s = 1 / (1 + e);
        float slope = two_root_two_over_pi * (1 + 3 * cubic * x * x);

        /* The sigmoid's derivative s (1 - s), written without cancellation. */
        din[i] = dout[i] * (s + x * slope * (e * s * s));
    }
    if (!a->dbias || a->columns == 0)
        return;
    if (!a->accumulate)
        memset(a->dbias, 0, a->columns * sizeof(float));
    lk_add_columns(a->dbias, din, a->n / a->columns, a->columns, a->columns);
}

void lk_relu_forward_cpu(const void *args)
{
    const struct lk_relu_forward_args *a = args;
    const float *in = a->in;
    float *out = a->out;

#pragma omp simd
    for (size_t i = 0; i < a->n; i++)
        out[i] = in[i] < 0 ? 0 : in[i];
}

void lk_relu_backward_cpu(const void *args)
{
    const struct lk_relu_backward_args *a = args;
    const float *restrict out = a->out;
    const float *dout = a->dout;
    float *din = a->din;

#pragma omp simd
    for (size_t i = 0; i < a->n; i++)
        din[i] = out[i] <= 0 ? 0 : dout[i];
}
