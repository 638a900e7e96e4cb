/* Counter-based random numbers; see the header. */
#include "base/rng.h"

#include "base/elementary.h"

#include <math.h>

/* Philox4x32's multipliers and Weyl increments (Salmon et al., SC'11, section 3.3). */
#define PHILOX_M0 0xD2511F53U
#define PHILOX_M1 0xCD9E8D57U
#define PHILOX_W0 0x9E3779B9U
#define PHILOX_W1 0xBB67AE85U
enum { PHILOX_ROUNDS = 10 };

#define TWO_PI 6.283185307179586476925286766559

void lk_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0];
    uint32_t c1 = counter[1];
    uint32_t c2 = counter[2];
    uint32_t c3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];

    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

struct lk_rng lk_rng_init(uint64_t seed, uint64_t stream)
{
    return (struct lk_rng){.seed = seed, .stream = stream};
}

/* The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA'14): a bijection that mixes all bits. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

uint64_t lk_rng_stream(const char *purpose, uint64_t index)
{
    uint64_t h = 0xCBF29CE484222325U; /* FNV-1a, 64 bits */

    for (; *purpose; purpose++)
        h = (h ^ (unsigned char)*purpose) * 0x100000001B3U;
    /* index * odd constant is a bijection: equal purposes with different indices never collide. */
    return mix(mix(h) + index * 0x9E3779B97F4A7C15U);
}

/* Compute draws 2 block and 2 block + 1. */
static void block_at(uint64_t seed, uint64_t stream, uint64_t block, uint64_t v[2])
{
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                           (uint32_t)(stream >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];

    lk_philox4x32(counter, key, out);
    v[0] = (uint64_t)out[1] << 32 | out[0];
    v[1] = (uint64_t)out[3] << 32 | out[2];
}

uint64_t lk_rng_at(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t v[2];

    block_at(seed, stream, i / 2, v);
    return v[i % 2];
}

uint64_t lk_rng_u64(struct lk_rng *g)
{
    return lk_rng_at(g->seed, g->stream, g->next++);
}

double lk_rng_uniform(struct lk_rng *g)
{
    return (double)(lk_rng_u64(g) >> 11) * 0x1p-53;
}

uint64_t lk_rng_below(struct lk_rng *g, uint64_t n)
{
    uint64_t biased = (0 - n) % n; /* 2^64 mod n: that many of the lowest draws are rejected */
    uint64_t v;

    do
        v = lk_rng_u64(g);
    while (v < biased);
    return v % n;
}

/* Map 64 bits to a uniform number in [0, 1) with 53 bits. */
static double uniform_from(uint64_t v)
{
    return (double)(v >> 11) * 0x1p-53;
}

double lk_rng_normal(struct lk_rng *g)
{
    uint64_t v[2];
    double u;

    if (g->next % 2) {
        v[0] = lk_rng_u64(g);
        v[1] = lk_rng_u64(g);
    } else { /* one block holds both draws */
        block_at(g->seed, g->stream, g->next / 2, v);
        g->next += 2;
    }
    u = 1 - uniform_from(v[0]); /* in (0, 1]: its logarithm is finite */
    return sqrt(-2 * log(u)) * cos(TWO_PI * uniform_from(v[1]));
}

/* Turn each of n blocks from `first` on into two uniform numbers, one in (0, 1], one in [0, 1).
 * Their 52 bits become the fraction of a number from 1 to 2, which needs no integer conversion and
 * so vectorises. */
static void uniform_pairs(uint64_t seed, uint64_t stream, uint64_t first, double *above_0,
                          double *below_1, size_t n)
{
    static const uint64_t one = 0x3FF0000000000000;

    for (size_t i = 0; i < n; i++) {
        uint64_t v[2];

        block_at(seed, stream, first + i, v);
        above_0[i] = 2 - lk_elementary_double_(one | v[0] >> 12);
        below_1[i] = lk_elementary_double_(one | v[1] >> 12) - 1;
    }
}

/* Compute both results of the Box-Muller transform. */
static void normal_pairs(uint64_t seed, uint64_t stream, uint64_t first, double *even, double *odd,
                         size_t n)
{
    uniform_pairs(seed, stream, first, even, odd, n);
    for (size_t i = 0; i < n; i++) {
        double radius = sqrt(-2 * lk_elementary_log(even[i])), x, y;

        lk_elementary_cos_sin(odd[i], &x, &y);
        even[i] = radius * x;
        odd[i] = radius * y;
    }
}

void lk_rng_normals(uint64_t seed, uint64_t stream, uint64_t first, double *out, size_t n)
{
    enum { TILE = 128 };
    double even[TILE], odd[TILE];
    size_t at = 0, skip = first % 2; /* 1: the even half of the first block is not asked for */

    while (at < n) {
        uint64_t block = (first + at) / 2;
        size_t pairs = (n - at + skip + 1) / 2;

        pairs = pairs < TILE ? pairs : TILE;
        normal_pairs(seed, stream, block, even, odd, pairs);
        for (size_t i = skip; i < 2 * pairs && at < n; i++)
            out[at++] = i % 2 ? odd[i / 2] : even[i / 2];
        skip = 0;
    }
}

double lk_rng_exponential(struct lk_rng *g)
{
    return -log1p(-lk_rng_uniform(g));
}

void lk_rng_permutation(struct lk_rng *g, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t j = lk_rng_below(g, (uint64_t)i + 1);

        out[i] = out[j];
        out[j] = i;
    }
}
