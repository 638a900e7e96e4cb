/* gelu and relu, float64. */
#include "kernels/impl.h"

#include <math.h>

static const double root_two_over_pi = 0.79788456080286535588;
static const double cubic = 0.044715;

void lk_gelu_forward_ref(const void *args)
{
    const struct lk_gelu_forward_args *a = args;
    const double *in = a->in;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++) {
        double x = in[i];

        out[i] = 0.5 * x * (1 + tanh(root_two_over_pi * (x + cubic * x * x * x)));
    }
}

void lk_gelu_backward_ref(const void *args)
{
    const struct lk_gelu_backward_args *a = args;
    const double *in = a->in, *dout = a->dout;
    double *din = a->din;

    for (size_t i = 0; i < a->n; i++) {
        double x = in[i];
        double t = tanh(root_two_over_pi * (x + cubic * x * x * x));
        double dt = (1 - t * t) * root_two_over_pi * (1 + 3 * cubic * x * x);

        din[i] = dout[i] * (0.5 * (1 + t) + 0.5 * x * dt);
    }
}

void lk_relu_forward_ref(const void *args)
{
    const struct lk_relu_forward_args *a = args;
    const double *in = a->in;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++)
        out[i] = in[i] < 0 ? 0 : in[i];
}

void lk_relu_backward_ref(const void *args)
{
    const struct lk_relu_backward_args *a = args;
    const double *out = a->out, *dout = a->dout;
    double *din = a->din;

    for (size_t i = 0; i < a->n; i++)
        din[i] = out[i] <= 0 ? 0 : dout[i];
}
