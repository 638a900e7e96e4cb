/*
 * A checksum of 32-bit words: the sum, modulo 2^64, of a hash of each word and its place. The order
 * of adding does not matter, so any number of threads of a GPU give the same; one changed word
 * always changes it. It guards against accidents, not against an adversary (base/sha256.h does).
 */
#ifndef LK_BASE_CHECKSUM_H
#define LK_BASE_CHECKSUM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LK_CHECKSUM_FN static __host__ __device__ inline
#else
#define LK_CHECKSUM_FN static inline
#endif

/* Return the hash of the word at place i. For a fixed place it is one to one. */
LK_CHECKSUM_FN uint32_t lk_checksum_word(uint32_t word, size_t i)
{
    uint32_t h = word ^ ((uint32_t)i + 1) * 0x9E3779B1U;

    h = (h ^ h >> 16) * 0x85EBCA6BU;
    h = (h ^ h >> 13) * 0xC2B2AE35U;
    return h ^ h >> 16;
}

/* Return the checksum of n words. */
uint64_t lk_checksum(const uint32_t *words, size_t n);

/* Compute the checksum of a file's contents, read block by block; *out_bytes is its size. LK_EIO
 * names the file. */
enum lk_status lk_checksum_file(const char *path, uint64_t *out, uint64_t *out_bytes);

#endif
