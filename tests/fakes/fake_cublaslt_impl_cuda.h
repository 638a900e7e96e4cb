/* Private to the fake cuBLASLt: a product as it was described, and its numbers. */
#ifndef LK_TESTS_FAKE_CUBLASLT_IMPL_CUDA_H
#define LK_TESTS_FAKE_CUBLASLT_IMPL_CUDA_H

#include "tests/fakes/fake_cublaslt_cuda.h"

#include <stdint.h>

struct desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t transa, transb;
    cublasLtEpilogue_t epilogue;
    void *bias; /* or the sums that the epilogue makes */
    void *aux;
    int64_t aux_ld;
    int32_t bias_type; /* -1: as D */
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
    cublasLtOrder_t order;
};

/* What an epilogue takes and makes (cublasLt.h, cublasLtEpilogue_t). */
struct fake_epilogue {
    cublasLtEpilogue_t epilogue;
    bool bias;    /* added to each column of D */
    bool of_rows; /* sums of D's rows go to the bias's place */
    bool of_b;    /* sums of B over the inner axis go there */
    bool aux_out; /* gelu's input goes to aux, gelu to D */
    bool aux_in;  /* D is multiplied by gelu's derivative at aux */
};
/* Return an epilogue's row, or NULL. */
const struct fake_epilogue *fake_epilogue_find(cublasLtEpilogue_t epilogue);

/* Contents of a cublasLtMatmulAlgo_t. */
struct algo {
    uint64_t problem; /* a hash of all inputs of the heuristic */
    uint32_t alignment[4], bias_alignment, aux_alignment;
    uint32_t workspace_bytes;
    bool splits_rounded;
};

struct problem {
    const struct desc *desc;
    const struct layout *a, *b, *c, *d;
    uint64_t m, n, k;
    const struct fake_epilogue *epilogue;
};

static inline bool has_aux(const struct problem *p)
{
    return p->epilogue->aux_in || p->epilogue->aux_out;
}

static inline bool has_bias(const struct problem *p)
{
    return p->epilogue->bias || p->epilogue->of_rows || p->epilogue->of_b;
}

size_t fake_blas_type_bytes(cudaDataType_t type);
size_t fake_blas_index_of(const struct layout *l, uint64_t row, uint64_t col);
/* Compute D, and what the epilogue makes. at: A, B and C. */
void fake_blas_compute(const struct problem *p, const struct algo *algo, const void *const at[4],
                       void *d, double alpha, double beta);

#endif
