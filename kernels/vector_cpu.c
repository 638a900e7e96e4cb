/* Vector operations, float32; a surrogate only copies, and does not wait. */
#include "base/checksum.h"
#include "kernels/impl.h"
#include "kernels/vecmath.h"

#include <math.h>
#include <string.h>

/* Sum the squares in blocks, whose sums are added in float64: the error does not grow with n. */
void lk_sum_squares_cpu(const void *args)
{
    enum { BLOCK = 4096 };
    const struct lk_sum_squares_args *a = args;
    const float *in = a->in;
    float *out = a->out;
    double total = a->accumulate ? (double)*out : 0;

    for (size_t first = 0; first < a->n; first += BLOCK) {
        size_t n = a->n - first < BLOCK ? a->n - first : BLOCK;

        total += (double)lk_lanes_dot(in + first, in + first, n);
    }
    *out = (float)total;
}

void lk_checksum_cpu(const void *args)
{
    const struct lk_checksum_args *a = args;

    *a->sum = lk_checksum(a->words, a->n);
}

void lk_scale_cpu(const void *args)
{
    const struct lk_scale_args *a = args;
    float *x = a->x, factor = (float)a->factor;

    for (size_t i = 0; i < a->n; i++)
        x[i] *= factor;
}

void lk_fill_cpu(const void *args)
{
    const struct lk_fill_args *a = args;
    float *x = a->x, value = (float)a->value;

    for (size_t i = 0; i < a->n; i++)
        x[i] = value;
}

void lk_axpy_cpu(const void *args)
{
    const struct lk_axpy_args *a = args;
    const float *restrict x = a->x;
    float *restrict y = a->y, factor = (float)a->factor;

    for (size_t i = 0; i < a->n; i++)
        y[i] += factor * x[i];
}

void lk_clip_cpu(const void *args)
{
    const struct lk_clip_args *a = args;
    float *x = a->x;
    double norm = sqrt((double)*(const float *)a->sum_squares) / a->scale;
    float factor = (float)fmin(1, a->most / (norm + LK_CLIP_EPS));

    for (size_t i = 0; i < a->n; i++)
        x[i] *= factor;
}

void lk_cast_to_wire_cpu(const void *args)
{
    const struct lk_cast_to_wire_args *a = args;
    const float *restrict in = a->in;
    uint16_t *restrict out = a->out;

    if (a->dtype == LK_F16)
        for (size_t i = 0; i < a->n; i++)
            out[i] = lk_vecmath_f16_from_f32(in[i]);
    else
        for (size_t i = 0; i < a->n; i++)
            out[i] = lk_vecmath_bf16_from_f32(in[i]);
}

void lk_cast_from_wire_cpu(const void *args)
{
    const struct lk_cast_from_wire_args *a = args;
    const uint16_t *restrict in = a->in;
    float *restrict out = a->out;

    if (a->dtype == LK_F16)
        for (size_t i = 0; i < a->n; i++)
            out[i] = lk_vecmath_f32_from_f16(in[i]);
    else
        for (size_t i = 0; i < a->n; i++)
            out[i] = lk_vecmath_f32_from_bf16(in[i]);
}

void lk_wait_cpu(const void *args)
{
    (void)args;
}

void lk_hold_cpu(const void *args)
{
    (void)args;
}

void lk_move_cpu(const void *args)
{
    const struct lk_move_args *a = args;

    if (a->bytes)
        memcpy(a->to, a->from, a->bytes);
}
