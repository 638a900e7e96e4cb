/* Sums; see the header. Plain loops that compilers vectorise. */
#include "runtime/comm_reduce.h"

#include <stdint.h>
#include <string.h>

static void add_f32(void *acc, const void *in, size_t n)
{
    float *restrict a = acc;
    const float *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add_f64(void *acc, const void *in, size_t n)
{
    double *restrict a = acc;
    const double *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add_i32(void *acc, const void *in, size_t n)
{
    uint32_t *restrict a = acc;
    const uint32_t *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add_i64(void *acc, const void *in, size_t n)
{
    uint64_t *restrict a = acc;
    const uint64_t *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add_u8(void *acc, const void *in, size_t n)
{
    uint8_t *restrict a = acc;
    const uint8_t *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] = (uint8_t)(a[i] + b[i]);
}

/* The compiler's own half type, where there is one, becomes conversion instructions. */
#ifdef __FLT16_MANT_DIG__
__extension__ typedef _Float16 half;
#define HALF_SUM(a, b) ((half)((float)(a) + (float)(b)))
#else
typedef uint16_t half;
#define HALF_SUM(a, b) lk_f16_from_f32(lk_f32_from_f16(a) + lk_f32_from_f16(b))
#endif

static void add_f16(void *acc, const void *in, size_t n)
{
    half *restrict a = acc;
    const half *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] = HALF_SUM(a[i], b[i]);
}

static inline float bf16_up(uint16_t v)
{
    uint32_t u = (uint32_t)v << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* lk_bf16_from_f32 without a branch, so that the loop below is vectorised. */
static inline uint16_t bf16_down(float f)
{
    uint32_t u, rounded, quiet;

    memcpy(&u, &f, sizeof u);
    rounded = (u + 0x7FFF + (u >> 16 & 1)) >> 16;
    quiet = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

static void add_bf16(void *acc, const void *in, size_t n)
{
    uint16_t *restrict a = acc;
    const uint16_t *restrict b = in;

    for (size_t i = 0; i < n; i++)
        a[i] = bf16_down(bf16_up(a[i]) + bf16_up(b[i]));
}

void lk_reduce_add(enum lk_dtype t, void *acc, const void *in, size_t n)
{
    static void (*const add[LK_DTYPE_COUNT])(void *, const void *, size_t) = {
        [LK_F32] = add_f32, [LK_F16] = add_f16, [LK_BF16] = add_bf16, [LK_F64] = add_f64,
        [LK_I32] = add_i32, [LK_I64] = add_i64, [LK_U8] = add_u8,
    };

    add[t](acc, in, n);
}
