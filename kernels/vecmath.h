/*
 * Elementary functions that a compiler can vectorise: no branch, no call, no table. Private to the
 * float32 ops.
 */
#ifndef LK_KERNELS_VECMATH_H
#define LK_KERNELS_VECMATH_H

#include <stdint.h>
#include <string.h>

/*
 * exp(x) in float32, error below 2 ulp (tests/test_kernels_math.c). Results below 2^-126 are 0,
 * results from 2^127.5 on are infinity; NaN stays NaN.
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

#endif
