/* Vector operations, float32. */
#include "kernels/impl.h"
#include "kernels/lanes.h"

#include <string.h>

/* In blocks, whose sums are added in float64: the error does not grow with n. */
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

/* As lk_bf16_from_f32, without a branch. */
static inline uint16_t bf16_from_f32(float x)
{
    uint32_t bits, rounded;

    memcpy(&bits, &x, sizeof bits);
    rounded = bits + 0x7fffu + (bits >> 16 & 1);
    /* A NaN must not become an infinity by rounding or by losing its low bits. */
    return (uint16_t)((x != x ? bits | 0x400000u : rounded) >> 16);
}

static inline float f32_from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

#ifdef __FLT16_MAX__ /* the compiler's own type: one instruction for a vector of them */
__extension__ typedef _Float16 half;

static inline uint16_t f16_from_f32(float x)
{
    half h = (half)x;
    uint16_t bits;

    memcpy(&bits, &h, sizeof bits);
    return bits;
}

static inline float f32_from_f16(uint16_t x)
{
    half h;

    memcpy(&h, &x, sizeof h);
    return (float)h;
}
#else
#define f16_from_f32 lk_f16_from_f32
#define f32_from_f16 lk_f32_from_f16
#endif

void lk_cast_to_wire_cpu(const void *args)
{
    const struct lk_cast_to_wire_args *a = args;
    const float *restrict in = a->in;
    uint16_t *restrict out = a->out;

    if (a->dtype == LK_F16)
        for (size_t i = 0; i < a->n; i++)
            out[i] = f16_from_f32(in[i]);
    else
        for (size_t i = 0; i < a->n; i++)
            out[i] = bf16_from_f32(in[i]);
}

void lk_cast_from_wire_cpu(const void *args)
{
    const struct lk_cast_from_wire_args *a = args;
    const uint16_t *restrict in = a->in;
    float *restrict out = a->out;

    if (a->dtype == LK_F16)
        for (size_t i = 0; i < a->n; i++)
            out[i] = f32_from_f16(in[i]);
    else
        for (size_t i = 0; i < a->n; i++)
            out[i] = f32_from_bf16(in[i]);
}

void lk_wait_cpu(const void *args)
{
    (void)args;
}
