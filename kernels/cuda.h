/*
 * The context in which CUDA kernels are launched: lk_op.cuda takes it beside the arguments.
 *
 * Each stream needs its own context, because the kernels of a stream share its workspace. No CUDA
 * type appears here, so that files without CUDA can include it.
 *
 * The context's `real` is the element type of lk_real buffers: float32, bfloat16 or float16.
 * Buffers of lk_wide (sums, statistics, the optimizer's weights) are float32 in all cases. Products
 * of float32 matrices run as tf32 on the tensor cores: the factors keep 10 bits of mantissa, sums
 * are float32. That is torch's set_float32_matmul_precision("high"), not its default.
 */
#ifndef LK_KERNELS_CUDA_H
#define LK_KERNELS_CUDA_H

#include "base/status.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Convert a CUDA error: LK_OK for cudaSuccess, else "what: text (name)" with LK_ENOMEM,
 * LK_EUNSUPPORTED if the machine lacks something (driver, device, code for it), or LK_EINTERNAL.
 * `error` is a cudaError_t.
 */
enum lk_status lk_cuda_status(unsigned error, const char *what);

struct lk_cuda_blas;
struct lk_cuda_dnn;

struct lk_cuda {
    void *stream;       /* cudaStream_t */
    enum lk_dtype real; /* LK_F32, LK_BF16 or LK_F16 */
    /* Device memory of LK_CUDA_WORKSPACE_BYTES, for partial sums within one op and cuBLASLt. */
    void *workspace;
    void *sums; /* likewise, of LK_CUDA_SUMS_BYTES: a bias's gradient that is added to another */
    size_t shared_bytes;       /* the most shared memory that a launch may ask for */
    struct lk_cuda_blas *blas; /* borrowed; one host thread uses it at a time */
    struct lk_cuda_dnn *dnn;   /* likewise (kernels/dnn.h); NULL: our own attention */
};

enum { LK_CUDA_WORKSPACE_BYTES = 32 << 20, LK_CUDA_SUMS_BYTES = 1 << 20 };

/* Open cuBLASLt; the object caches the plans of products. LK_EUNSUPPORTED when the library is not
 * found or the current device has no tensor cores for bfloat16 (compute capability below 8.0). */
enum lk_status lk_cuda_blas_open(struct lk_cuda_blas **out);
void lk_cuda_blas_close(struct lk_cuda_blas *b); /* NULL is legal */
/* The file of cuBLASLt, which benchmarks and tests on a GPU print. */
const char *lk_cuda_blas_path(const struct lk_cuda_blas *b);

/* Set up the context of a stream of the current device and allocate workspace and sums; stream,
 * real and blas are the caller's, who may set dnn. */
enum lk_status lk_cuda_init(struct lk_cuda *c, void *stream, enum lk_dtype real,
                            struct lk_cuda_blas *blas);
/* Free workspace and sums. Safe on a zeroed context. */
void lk_cuda_fini(struct lk_cuda *c);

/* What a product does to d before it stores it; op(a), op(b) and e are those below. */
enum lk_cuda_epilogue {
    LK_EPILOGUE_PLAIN,
    LK_EPILOGUE_GELU,  /* aux = d; d = gelu(aux) */
    LK_EPILOGUE_DGELU, /* d *= gelu's derivative at aux; sums (columns) = column sums of d */
    LK_EPILOGUE_SUMS   /* sums (rows) = sums of the rows of op(a). pre: transpose_a */
};

/*
 * d = op(a) * op(b) + bias + e, all row major: op(a) is (rows, inner), op(b) is (inner, columns), d
 * and e are (rows, columns). A transposed factor is stored as its transpose.
 *
 * Any shape, stride and alignment is legal, but tensor cores are fast only if contiguous extents,
 * strides and addresses are multiples of 16 bytes. If only an extent is not, the product is split
 * in two: up to the last multiple, and the rest. Epilogues are for products that need no split.
 */
struct lk_cuda_product {
    void *d;
    const void *a, *b;
    const void *bias;               /* (columns), or NULL */
    const void *e;                  /* or NULL; may be d */
    size_t rows, inner, columns;    /* > 0 */
    enum lk_cuda_epilogue epilogue; /* others than PLAIN and SUMS take no e */
    void *aux;                      /* (rows, columns); GELU writes it, DGELU reads it */
    void *sums;                     /* SUMS, DGELU; NULL for DGELU: none. Overwritten */
    /* Row strides in elements, as stored, d_stride for e and aux too; 0: rows are dense. */
    size_t a_stride, b_stride, d_stride;
    bool transpose_a, transpose_b;
};
/* Enqueue a product. LK_EUNSUPPORTED when cuBLASLt has no algorithm, or none with the epilogue;
 * errors name shape, strides and types. */
enum lk_status lk_cuda_blas_product(const struct lk_cuda *c, const struct lk_cuda_product *p);

#endif
