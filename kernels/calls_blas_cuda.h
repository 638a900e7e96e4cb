/* Declare the table of cuBLASLt functions that matrix products call, so that the layouts given to
 * cuBLASLt can be tested without a GPU. Private to kernels/blas_cuda.c and its tests. */
#ifndef LK_KERNELS_CALLS_BLAS_CUDA_H
#define LK_KERNELS_CALLS_BLAS_CUDA_H

#include "kernels/cuda.h"

#include <cublasLt.h>

/* X(function): cublasLt<function>. */
#define LK_BLAS_CALL_LIST(X)                                                                       \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(GetStatusString)                                                                             \
    X(Matmul)                                                                                      \
    X(MatmulAlgoGetHeuristic)                                                                      \
    X(MatmulDescCreate)                                                                            \
    X(MatmulDescDestroy)                                                                           \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatmulPreferenceCreate)                                                                      \
    X(MatmulPreferenceDestroy)                                                                     \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatrixLayoutCreate)                                                                          \
    X(MatrixLayoutDestroy)

struct lk_blas_calls {
#define LK_BLAS_CALL_MEMBER_(function) __typeof__(cublasLt##function) *function;
    LK_BLAS_CALL_LIST(LK_BLAS_CALL_MEMBER_)
#undef LK_BLAS_CALL_MEMBER_
};

/* As lk_cuda_blas_open, with these functions (copied); opens no library and queries no GPU. */
enum lk_status lk_cuda_blas_open_calls(const struct lk_blas_calls *calls,
                                       struct lk_cuda_blas **out);

#endif
