/*
 * A model of cuBLASLt on the host, for tests: what NVIDIA's text says that cublasLtMatmul computes
 * and demands (cuBLAS manual 13, section 3.4.17; the comments of cublasLt.h), in double.
 *
 * Matrices are column major unless their layout's order says otherwise, D = epilogue(alpha * op(A)
 * * op(B) + beta * C). Where the text leaves the library a choice, the model makes the worst one:
 * an algorithm needs all the alignment that the preferences promise, and of the bias that which its
 * pointer has when the heuristic looks; it needs the whole workspace; it is good for the problem it
 * was chosen for and no other; sums split over the inner extent are rounded to the output's type
 * where the preferences do not forbid it. What is refused is refused with the status of the text,
 * and fake_blas.why says what it was.
 *
 * Not modelled: batches, complex, integer and 8-bit types, scales, epilogues but the bias, speed.
 */
#ifndef LK_TESTS_FAKE_CUBLASLT_CUDA_H
#define LK_TESTS_FAKE_CUBLASLT_CUDA_H

#include "kernels/calls_blas_cuda.h"

#include <stdbool.h>
#include <stddef.h>

enum { FAKE_BLAS_SEEN_MAX = 16, FAKE_BLAS_WORKSPACE_BYTES = 4096 };

/* A product that ran. */
struct fake_blas_seen {
    size_t m, n, k; /* of cuBLASLt: m is our columns, n our rows */
    bool aligned;   /* as "Tensor Core Usage" (2.1.11) recommends: 16 bytes in everything */
};

struct fake_blas {
    int alive;      /* handles, descriptions, layouts and preferences */
    int heuristics; /* asked */
    size_t n_seen;
    struct fake_blas_seen seen[FAKE_BLAS_SEEN_MAX];
    int fail_at; /* this call that can fail fails, from 1; 0: none */
    int calls;
    cublasStatus_t fail_with;
    enum { FAKE_BLAS_FINDS, FAKE_BLAS_FINDS_NONE, FAKE_BLAS_STATE_BAD } heuristic;
    char why[160];
};
extern struct fake_blas fake_blas;
extern const struct lk_blas_calls fake_blas_calls;

void fake_blas_reset(void);

#endif
