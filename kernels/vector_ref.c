/* Vector operations, float64. */
#include "kernels/impl.h"

void lk_sum_squares_ref(const void *args)
{
    const struct lk_sum_squares_args *a = args;
    const double *in = a->in;
    double *out = a->out, sum = a->accumulate ? *out : 0;

    for (size_t i = 0; i < a->n; i++)
        sum += in[i] * in[i];
    *out = sum;
}

void lk_scale_ref(const void *args)
{
    const struct lk_scale_args *a = args;
    double *x = a->x;

    for (size_t i = 0; i < a->n; i++)
        x[i] *= a->factor;
}

void lk_fill_ref(const void *args)
{
    const struct lk_fill_args *a = args;
    double *x = a->x;

    for (size_t i = 0; i < a->n; i++)
        x[i] = a->value;
}

void lk_cast_to_wire_ref(const void *args)
{
    const struct lk_cast_to_wire_args *a = args;
    const double *in = a->in;

    for (size_t i = 0; i < a->n; i++)
        a->out[i] =
            a->dtype == LK_F16 ? lk_f16_from_f32((float)in[i]) : lk_bf16_from_f32((float)in[i]);
}

void lk_cast_from_wire_ref(const void *args)
{
    const struct lk_cast_from_wire_args *a = args;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++)
        out[i] =
            (double)(a->dtype == LK_F16 ? lk_f32_from_f16(a->in[i]) : lk_f32_from_bf16(a->in[i]));
}

void lk_wait_ref(const void *args)
{
    (void)args;
}
