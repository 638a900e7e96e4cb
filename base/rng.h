/*
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC'11). The same seed, stream and position give the same number on
 * every platform, in any order, on any thread: generators share no state.
 */
#ifndef LK_BASE_RNG_H
#define LK_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* The block function: 10 rounds on one counter and key. */
void lk_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A position in one stream of one seed. Plain value; copy it freely. */
struct lk_rng {
    uint64_t seed;
    uint64_t stream; /* e.g. rank, or a purpose: lk_rng_stream */
    uint64_t next;   /* index of the next 64-bit draw */
};

/* Return the generator at the start of a stream. */
struct lk_rng lk_rng_init(uint64_t seed, uint64_t stream);

/* Return the stream number of a purpose, e.g. "straggler.rank", and an index: a hash, so that two
 * purposes do not share a stream. */
uint64_t lk_rng_stream(const char *purpose, uint64_t index);

/* Return the i-th 64-bit draw of a stream, without state. */
uint64_t lk_rng_at(uint64_t seed, uint64_t stream, uint64_t i);

/* Return the next 64-bit draw. */
uint64_t lk_rng_u64(struct lk_rng *g);
/* Uniform in [0, 1), 53 bits. */
double lk_rng_uniform(struct lk_rng *g);
/* Uniform integer in [0, n), unbiased. pre: n > 0. */
uint64_t lk_rng_below(struct lk_rng *g, uint64_t n);
/* Standard normal (Box-Muller; two uniform draws each, no cached half). */
double lk_rng_normal(struct lk_rng *g);
/*
 * Set out[i] to standard normal number first + i of a stream, for i < n. This is far faster than
 * lk_rng_normal, whose sequence differs. A number has the same bits in whatever call it is made.
 * One block makes two numbers, so a call with an odd `first` computes one that it does not use.
 */
void lk_rng_normals(uint64_t seed, uint64_t stream, uint64_t first, double *out, size_t n);
/* Exponential with mean 1. */
double lk_rng_exponential(struct lk_rng *g);
/* Fill out with a uniformly random permutation of 0..n-1 (Fisher-Yates, inside out). */
void lk_rng_permutation(struct lk_rng *g, uint64_t *out, size_t n);

#endif
