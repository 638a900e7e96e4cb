/*
 * Elementary functions and conversions that a compiler can vectorise: no branch, no call, no table.
 * For the float32 ops, and for sums of float16 and bfloat16.
 */
#ifndef LK_KERNELS_VECMATH_H
#define LK_KERNELS_VECMATH_H

#include "facts/dtype.h"

#include <stdint.h>
#include <string.h>

/*
 * exp(x) in float32, error below 2 ulp (tests/kernels/test_kernels_math.c). Results below 2^-126
 * are 0, results from 2^127.5 on are infinity; NaN stays NaN.
 *
 * x = n ln 2 + r with |r| <= ln(2) / 2 and ln 2 in two parts, so that r is nearly exact; exp(r) by
 * a minimax polynomial of degree 7 (the coefficients of Moshier's Cephes library, expf); 2^n by the
 * exponent field.
 */
static inline float lk_vecmath_exp(float x)
{
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const float lowest = -87.3365f, highest = 88.3762626f;
    float shifted = x * 1.44269504f + to_integer;
    float n = shifted - to_integer;
    float r = x - n * 0.693359375f;
    float p, power;
    uint32_t bits;

    r = r - n * -2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u; /* the low bits of `shifted` are n */
    memcpy(&power, &bits, sizeof power);
    p *= power;
    p = x < lowest ? 0.0f : p;
    return x > highest ? __builtin_inff() : p;
}

/* 1 / (1 + exp(-x)). */
static inline float lk_vecmath_sigmoid(float x)
{
    return 1.0f / (1.0f + lk_vecmath_exp(-x));
}

/* Convert as lk_bf16_from_f32 and lk_f32_from_bf16 do. */
static inline uint16_t lk_vecmath_bf16_from_f32(float x)
{
    uint32_t bits, rounded;

    memcpy(&bits, &x, sizeof bits);
    rounded = bits + 0x7fffu + (bits >> 16 & 1);
    /* A NaN must not become an infinity by rounding or by losing its low bits. */
    return (uint16_t)((x != x ? bits | 0x400000u : rounded) >> 16);
}

static inline float lk_vecmath_f32_from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Convert as lk_f16_from_f32 and lk_f32_from_f16 do. A compiler that has _Float16 converts a vector
 * with one instruction. */
#ifdef __FLT16_MAX__
static inline uint16_t lk_vecmath_f16_from_f32(float x)
{
    __extension__ _Float16 h = (_Float16)x;
    uint16_t bits;

    memcpy(&bits, &h, sizeof bits);
    return bits;
}

static inline float lk_vecmath_f32_from_f16(uint16_t x)
{
    __extension__ _Float16 h;

    memcpy(&h, &x, sizeof h);
    return (float)h;
}
#else
#define lk_vecmath_f16_from_f32 lk_f16_from_f32
#define lk_vecmath_f32_from_f16 lk_f32_from_f16
#endif

#endif
