/* Element types; see the header. */
#include "facts/dtype.h"

#include <string.h>

const struct lk_words lk_dtype_words = LK_WORDS("a dtype", LK_DTYPE_LIST);

static const size_t bytes_of[] = {LK_DTYPE_LIST(LK_WORD_THIRD)};

size_t lk_dtype_bytes(enum lk_dtype t)
{
    return bytes_of[t];
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
