/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104, FIPS 198-1), for ranks that prove to each other
 * that they belong to a run. Checked with NIST's vectors; it is for a few hundred bytes at a start,
 * not for speed.
 */
#ifndef LK_BASE_SHA256_H
#define LK_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_SHA256_BYTES = 32 };

struct lk_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* taken so far */
    unsigned char block[64];
};
void lk_sha256_init(struct lk_sha256 *h);
void lk_sha256_add(struct lk_sha256 *h, const void *data, size_t n);
void lk_sha256_end(struct lk_sha256 *h, unsigned char out[LK_SHA256_BYTES]);

/* Compute the HMAC of data with a key of any length. */
void lk_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t n,
                    unsigned char out[LK_SHA256_BYTES]);

/* Compare in a time that does not depend on where they differ. */
bool lk_equal_secret(const void *a, const void *b, size_t n);

#endif
