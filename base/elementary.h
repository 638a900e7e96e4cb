/*
 * Logarithm, exponential, sine and cosine without branches, tables or calls, so that a loop over
 * them is vectorised. They are sums and products of IEEE doubles in a fixed order: the same bits on
 * every platform, in a vector or alone. Series about 0 after the usual reduction of the argument;
 * the error is below 4e-16 of the result, or of 1 where the result is smaller.
 */
#ifndef LK_BASE_ELEMENTARY_H
#define LK_BASE_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

static inline uint64_t lk_elementary_bits_(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double lk_elementary_double_(uint64_t u)
{
    double x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/* ln 2 in two parts; the first has trailing zeros, so that small multiples of it are exact. */
#define LK_ELEMENTARY_LN2_HIGH_ 0x1.62e42fee00000p-1
#define LK_ELEMENTARY_LN2_LOW_  0x1.a39ef35793c76p-33

/* pre: x is a positive normal number. */
static inline double lk_elementary_log(double x)
{
    /* x = 2^k m with m in [sqrt 1/2, sqrt 2); ln m = 2 atanh((m - 1) / (m + 1)). */
    static const uint64_t sqrt_half = 0x3FE6A09E667F3BCD;
    uint64_t above = lk_elementary_bits_(x) - sqrt_half;
    int32_t k = (int32_t)((int64_t)above >> 52);
    double m = lk_elementary_double_((above & 0xFFFFFFFFFFFFF) + sqrt_half);
    double s = (m - 1) / (m + 1), z = s * s, sum = 1.0 / 21;

    sum = sum * z + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return k * LK_ELEMENTARY_LN2_HIGH_ + (2 * s + (2 * s * z * sum + k * LK_ELEMENTARY_LN2_LOW_));
}

/* pre: -700 < x < 700. */
static inline double lk_elementary_exp(double x)
{
    static const double log2_e = 1.4426950408889634074;
    static const double round = 0x1.8p52; /* added and taken off: rounds to a whole number */
    double whole = x * log2_e + round, k = whole - round;
    double r = x - k * LK_ELEMENTARY_LN2_HIGH_ - k * LK_ELEMENTARY_LN2_LOW_;
    double sum = 1.0 / 6227020800; /* 1 / 13! */

    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 1.0 / 2;
    sum = sum * r + 1;
    sum = sum * r + 1;
    /* The whole number's low bits are those of `whole`. */
    return lk_elementary_double_(lk_elementary_bits_(sum) + (lk_elementary_bits_(whole) << 52));
}

/* cos and sin of 2 pi turns. pre: 0 <= turns <= 1. */
static inline void lk_elementary_cos_sin(double turns, double *out_cos, double *out_sin)
{
    static const double two_pi = 6.283185307179586476925286766559;
    /* Quarter turns, and at most an eighth more or less, where the series converge fast. */
    int32_t quarter = (int32_t)(4 * turns + 0.5);
    double a = two_pi * (turns - 0.25 * quarter), z = a * a;
    double s = 1.0 / 355687428096000, c = 1.0 / 20922789888000; /* 1 / 17!, 1 / 16! */
    uint64_t odd = 0 - (uint64_t)(quarter & 1), sine, cosine;

    s = s * z - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = a + a * z * s;
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = 1 - 0.5 * z + z * z * c;
    /* An odd quarter swaps them; the second and third make the cosine negative, the third and
     * fourth the sine. */
    sine = (lk_elementary_bits_(s) & ~odd) | (lk_elementary_bits_(c) & odd);
    cosine = (lk_elementary_bits_(c) & ~odd) | (lk_elementary_bits_(s) & odd);
    *out_cos = lk_elementary_double_(cosine ^ (uint64_t)((quarter + 1) & 2) << 62);
    *out_sin = lk_elementary_double_(sine ^ (uint64_t)(quarter & 2) << 62);
}

#endif
