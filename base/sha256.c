/* SHA-256 and HMAC; see the header. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

/* Mix one block into the state. Names are the standard's. */
static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];

    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;

        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    memcpy(v, state, sizeof v);
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + rounds[t] + w[t];
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void lk_sha256_init(struct lk_sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

void lk_sha256_add(struct lk_sha256 *h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++) {
        h->block[h->bytes++ % sizeof h->block] = p[i];
        if (h->bytes % sizeof h->block == 0)
            compress(h->state, h->block);
    }
}

void lk_sha256_end(struct lk_sha256 *h, unsigned char out[LK_SHA256_BYTES])
{
    static const unsigned char first = 0x80, zero = 0;
    uint64_t bits = 8 * h->bytes;
    unsigned char length[8];

    lk_sha256_add(h, &first, 1);
    while (h->bytes % sizeof h->block != sizeof h->block - sizeof length)
        lk_sha256_add(h, &zero, 1);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    lk_sha256_add(h, length, sizeof length);
    for (int i = 0; i < LK_SHA256_BYTES; i++)
        out[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* Hash the padded key, with each byte changed, and then the data. */
static void keyed(const unsigned char key[64], unsigned char change, const void *data, size_t n,
                  unsigned char out[LK_SHA256_BYTES])
{
    unsigned char pad[64];
    struct lk_sha256 h;

    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] = key[i] ^ change;
    lk_sha256_init(&h);
    lk_sha256_add(&h, pad, sizeof pad);
    lk_sha256_add(&h, data, n);
    lk_sha256_end(&h, out);
}

void lk_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t n,
                    unsigned char out[LK_SHA256_BYTES])
{
    unsigned char padded[64] = {0}, inner[LK_SHA256_BYTES];
    struct lk_sha256 h;

    if (key_bytes > sizeof padded) {
        lk_sha256_init(&h);
        lk_sha256_add(&h, key, key_bytes);
        lk_sha256_end(&h, padded);
    } else if (key_bytes) {
        memcpy(padded, key, key_bytes);
    }
    keyed(padded, 0x36, data, n, inner);
    keyed(padded, 0x5c, inner, sizeof inner, out);
}

bool lk_equal_secret(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char differs = 0;

    for (size_t i = 0; i < n; i++)
        differs |= x[i] ^ y[i];
    return differs == 0;
}
