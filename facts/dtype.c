/* Element types; see the header. */
#include "facts/dtype.h"

#include <math.h>
#include <string.h>

const struct lk_words lk_dtype_words = LK_WORDS("a dtype", LK_DTYPE_LIST);

static const struct {
    size_t bytes;
    const char *torch;
    int bits;
} rows[LK_DTYPE_COUNT] = {
#define LK_DTYPE_ROW_(type, name, bytes, torch, bits) [type] = {bytes, torch, bits},
    LK_DTYPE_LIST(LK_DTYPE_ROW_)
#undef LK_DTYPE_ROW_
};

size_t lk_dtype_bytes(enum lk_dtype t)
{
    return rows[t].bytes;
}

const char *lk_dtype_torch_name(enum lk_dtype t)
{
    return rows[t].torch;
}

bool lk_dtype_is_float(enum lk_dtype t)
{
    return rows[t].bits > 0;
}

double lk_dtype_unit_roundoff(enum lk_dtype t)
{
    return ldexp(1, -rows[t].bits);
}

bool lk_dtype_has_masters(enum lk_dtype t)
{
    return lk_dtype_is_float(t) && rows[t].bits < rows[LK_F32].bits;
}

static uint32_t bits_of(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float v;

    memcpy(&v, &u, sizeof v);
    return v;
}

float lk_f32_from_f16(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000) << 16;
    uint32_t exponent = v >> 10 & 0x1F;
    uint32_t mantissa = v & 0x3FF;

    if (exponent == 0x1F) /* infinity, NaN */
        return float_of(sign | 0x7F800000 | mantissa << 13);
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact in a float */
        float magnitude = (float)mantissa * 0x1p-24F;

        return float_of(sign | bits_of(magnitude));
    }
    return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

/* v >> shift, rounded to nearest, ties to even. pre: 0 < shift < 32. */
static uint32_t shift_round(uint32_t v, unsigned shift)
{
    uint32_t half = 1U << (shift - 1);
    uint32_t rest = v & ((half << 1) - 1);
    uint32_t q = v >> shift;

    return q + (rest > half || (rest == half && (q & 1)));
}

uint16_t lk_f16_from_f32(float v)
{
    uint32_t u = bits_of(v);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    uint32_t magnitude = u & 0x7FFFFFFF;
    uint32_t half;

    if (magnitude > 0x7F800000) /* a quiet NaN with the payload's upper bits */
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
    if (magnitude >= 0x477FF000) /* 65520: rounds to 2^16, which is infinity */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude < 0x33000000) /* below 2^-25 */
        return sign;
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal, in units of 2^-24 */
        unsigned exponent = magnitude >> 23;

        half = shift_round((magnitude & 0x7FFFFF) | 0x800000, 126 - exponent);
    } else {
        /* A carry out of the mantissa goes into the exponent, as it should. */
        half = shift_round(magnitude - ((127U - 15U) << 23), 13);
    }
    return (uint16_t)(sign | half);
}

float lk_f32_from_bf16(uint16_t v)
{
    return float_of((uint32_t)v << 16);
}

uint16_t lk_bf16_from_f32(float v)
{
    uint32_t u = bits_of(v);

    if ((u & 0x7FFFFFFF) > 0x7F800000) /* rounding could carry a NaN into infinity */
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)shift_round(u, 16);
}

double lk_dtype_at(enum lk_dtype t, const void *array, size_t i)
{
    switch (t) {
    case LK_F64:
        return ((const double *)array)[i];
    case LK_BF16:
        return (double)lk_f32_from_bf16(((const uint16_t *)array)[i]);
    case LK_F16:
        return (double)lk_f32_from_f16(((const uint16_t *)array)[i]);
    default:
        return (double)((const float *)array)[i];
    }
}

void lk_dtype_to_f32(enum lk_dtype from, float *out, const void *in, size_t n)
{
    if (from == LK_F32)
        memcpy(out, in, n * sizeof *out);
    for (size_t i = 0; i < n && from != LK_F32; i++)
        out[i] = (float)lk_dtype_at(from, in, i);
}

void lk_dtype_from_f32(enum lk_dtype to, void *out, const float *in, size_t n)
{
    if (to == LK_F32)
        memcpy(out, in, n * sizeof *in);
    for (size_t i = 0; i < n && to == LK_F64; i++)
        ((double *)out)[i] = (double)in[i];
    for (size_t i = 0; i < n && to == LK_BF16; i++)
        ((uint16_t *)out)[i] = lk_bf16_from_f32(in[i]);
    for (size_t i = 0; i < n && to == LK_F16; i++)
        ((uint16_t *)out)[i] = lk_f16_from_f32(in[i]);
}
