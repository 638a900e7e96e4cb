/*
 * A fake cuBLASLt on the host, for tests: cublasLtMatmul computes and checks, in double, what
 * NVIDIA documents (cuBLAS manual 13, section 3.4.17; the comments of cublasLt.h).
 *
 * Matrices are column major unless their layout's order says otherwise, D = epilogue(alpha * op(A)
 * * op(B) + beta * C). Where the documentation leaves the library a choice, the fake makes the
 * worst one: an algorithm needs all the alignment that the preferences promise, and for the bias
 * the alignment of its pointer at the time of the heuristic; it needs the whole workspace; it is
 * valid only for the problem it was chosen for; sums split over the inner extent are rounded to the
 * output's type where the preferences do not forbid it. Misuse is refused with the documented
 * status, and fake_blas.why names it.
 *
 * Not modelled: batches, complex, integer and 8-bit types, scales, epilogues but the bias, gelu and
 * the sums of biases' gradients, speed.
 */
#ifndef LK_TESTS_FAKE_CUBLASLT_CUDA_H
#define LK_TESTS_FAKE_CUBLASLT_CUDA_H

#include "kernels/calls_blas_cuda.h"

#include <stdbool.h>
#include <stddef.h>

enum { FAKE_BLAS_SEEN_MAX = 16, FAKE_BLAS_WORKSPACE_BYTES = 4096 };

/* A product that ran. */
struct fake_blas_seen {
    size_t m, n, k; /* cuBLASLt's: m is our columns, n our rows */
    bool aligned;   /* all 16-byte aligned, as "Tensor Core Usage" (2.1.11) recommends */
};

struct fake_blas {
    int alive;      /* handles, descriptions, layouts and preferences */
    int heuristics; /* number of heuristic calls */
    size_t n_seen;
    struct fake_blas_seen seen[FAKE_BLAS_SEEN_MAX];
    int fail_at; /* number, from 1, of the call that fails; 0: none */
    int calls;
    cublasStatus_t fail_with;
    bool plain_only; /* there is no algorithm with an epilogue but the bias */
    enum { FAKE_BLAS_FINDS, FAKE_BLAS_FINDS_NONE, FAKE_BLAS_STATE_BAD } heuristic;
    uint32_t least_alignment; /* there is no algorithm for addresses or strides of fewer bytes */
    bool idle;                /* a product is checked, and not computed */
    int products;             /* that ran, idle or not */
    char why[160];
};
extern struct fake_blas fake_blas;
extern const struct lk_blas_calls fake_blas_calls;

void fake_blas_reset(void);

#endif
