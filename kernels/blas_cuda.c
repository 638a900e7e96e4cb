/*
 * Matrix products by cuBLASLt, opened at run time (base/library.h says why).
 *
 * A plan, that is the layouts and the algorithm that cuBLASLt's heuristic thinks fastest, is made
 * when a product of its shape is first asked for and kept. cuBLASLt counts columns first: with
 * everything transposed, d = a * b is transposed(d) = transposed(b) * transposed(a), so b is its
 * first factor and our columns are its rows.
 *
 * The same product gives the same bits on the same GPU model: cuBLASLt says so as long as a stream
 * has its own workspace, which it has here.
 */
#include "base/array.h"
#include "base/library.h"
#include "kernels/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* X(function): cublasLt<function>. */
#define FUNCTIONS(X)                                                                               \
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

struct functions {
#define MEMBER(function) __typeof__(cublasLt##function) *function;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static const struct lk_library_symbol symbols[] = {
#define ROW(function) {"cublasLt" #function, offsetof(struct functions, function)},
    FUNCTIONS(ROW)
#undef ROW
};

/* That of the toolkit which this was built with first; what is used here has not changed since 11.
 */
#define SONAME_(major) "libcublasLt.so." #major
#define SONAME(major)  SONAME_(major)
static const char *const files[] = {SONAME(CUBLAS_VER_MAJOR), "libcublasLt.so.13",
                                    "libcublasLt.so.12", NULL};

enum { FACTORS = 4 }; /* a, b, d, e */

/* What a plan depends on. */
struct key {
    size_t rows, inner, columns;
    uint32_t alignment[FACTORS]; /* bytes, a power of two up to 256 */
    enum lk_dtype real;
    bool transpose_a, transpose_b, bias, e;
};

struct plan {
    struct key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    size_t workspace_bytes;
};

struct lk_cuda_blas {
    struct functions call;
    struct lk_library *library;
    cublasLtHandle_t handle;
    struct plan *plans;
    size_t n_plans, capacity;
};

static enum lk_status check(const struct lk_cuda_blas *b, cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return LK_OK;
    return lk_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? LK_ENOMEM : LK_EINTERNAL,
                   "cuBLASLt: %s: %s", what, b->call.GetStatusString(status));
}

/* Tensor cores for bfloat16 and tf32 came with compute capability 8.0. */
static enum lk_status check_device(void)
{
    int device, major;
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(cudaGetDevice(&device), "current device"));
    LK_TRY(lk_cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                          "compute capability"));
    if (major < 8)
        st = lk_fail(LK_EUNSUPPORTED,
                     "GPU %d has compute capability %d.x; 8.0 (A100) or newer is needed", device,
                     major);
out:
    return st;
}

enum lk_status lk_cuda_blas_open(struct lk_cuda_blas **out)
{
    static const struct lk_library_spec spec = {
        .name = "cuBLASLt", .files = files, .symbols = symbols, .n_symbols = LK_COUNT(symbols)};
    struct lk_cuda_blas *b = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(check_device());
    LK_TRY(lk_alloc(&b, 1, sizeof *b));
    LK_TRY(lk_library_open(&spec, &b->call, &b->library));
    LK_TRY(check(b, b->call.Create(&b->handle), "a handle"));
    *out = b;
    b = NULL;
out:
    lk_cuda_blas_close(b);
    return st;
}

static void destroy_plan(const struct lk_cuda_blas *b, struct plan *p)
{
    if (p->a)
        b->call.MatrixLayoutDestroy(p->a);
    if (p->b)
        b->call.MatrixLayoutDestroy(p->b);
    if (p->d)
        b->call.MatrixLayoutDestroy(p->d);
    if (p->desc)
        b->call.MatmulDescDestroy(p->desc);
}

void lk_cuda_blas_close(struct lk_cuda_blas *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_plans; i++)
        destroy_plan(b, &b->plans[i]);
    if (b->handle)
        b->call.Destroy(b->handle);
    lk_library_close(b->library);
    free(b->plans);
    free(b);
}

const char *lk_cuda_blas_path(const struct lk_cuda_blas *b)
{
    return lk_library_path(b->library);
}

/* The largest power of two, up to 256, that divides an address. */
static uint32_t alignment_of(const void *p)
{
    uint32_t bits = (uint32_t)((uintptr_t)p & 255);

    return bits ? bits & -bits : 256;
}

static struct key key_of(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    struct key k;

    memset(&k, 0, sizeof k); /* padding too: keys are compared as bytes */
    k.rows = p->rows;
    k.inner = p->inner;
    k.columns = p->columns;
    k.alignment[0] = alignment_of(p->a);
    k.alignment[1] = alignment_of(p->b);
    k.alignment[2] = alignment_of(p->d);
    k.alignment[3] = alignment_of(p->e ? p->e : p->d);
    k.real = c->real;
    k.transpose_a = p->transpose_a;
    k.transpose_b = p->transpose_b;
    k.bias = p->bias;
    k.e = p->e;
    return k;
}

static enum lk_status set_desc(const struct lk_cuda_blas *b, cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    return check(b, b->call.MatmulDescSetAttribute(desc, what, value, bytes), "an attribute");
}

/* A row-major matrix is a column-major one of its transpose. */
static enum lk_status make_layout(const struct lk_cuda_blas *b, cudaDataType_t type, size_t rows,
                                  size_t columns, cublasLtMatrixLayout_t *out)
{
    return check(b, b->call.MatrixLayoutCreate(out, type, columns, rows, (int64_t)columns),
                 "a layout");
}

static enum lk_status describe(const struct lk_cuda_blas *b, struct plan *p)
{
    const struct key *k = &p->key;
    cudaDataType_t type = k->real == LK_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasComputeType_t compute =
        k->real == LK_BF16 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
    cublasOperation_t first = k->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = k->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = k->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    enum lk_status st = LK_OK;

    LK_TRY(check(b, b->call.MatmulDescCreate(&p->desc, compute, CUDA_R_32F), "a description"));
    LK_TRY(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LK_TRY(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    LK_TRY(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    LK_TRY(make_layout(b, type, k->transpose_a ? k->inner : k->rows,
                       k->transpose_a ? k->rows : k->inner, &p->a));
    LK_TRY(make_layout(b, type, k->transpose_b ? k->columns : k->inner,
                       k->transpose_b ? k->inner : k->columns, &p->b));
    LK_TRY(make_layout(b, type, k->rows, k->columns, &p->d));
out:
    return st;
}

/* What the heuristic may use: the workspace, and the alignment that the matrices have. */
static enum lk_status set_preference(const struct lk_cuda_blas *b, cublasLtMatmulPreference_t to,
                                     const struct key *k)
{
    static const cublasLtMatmulPreferenceAttributes_t of[FACTORS] = {
        /* a is the second factor of cuBLASLt, and b the first. */
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES};
    size_t workspace_bytes = LK_CUDA_WORKSPACE_BYTES;
    enum lk_status st = LK_OK;

    LK_TRY(check(b,
                 b->call.MatmulPreferenceSetAttribute(to, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace_bytes, sizeof workspace_bytes),
                 "the workspace"));
    for (size_t i = 0; i < FACTORS; i++)
        LK_TRY(check(b,
                     b->call.MatmulPreferenceSetAttribute(to, of[i], &k->alignment[i],
                                                          sizeof k->alignment[i]),
                     "an alignment"));
out:
    return st;
}

static enum lk_status choose(const struct lk_cuda_blas *b, struct plan *p)
{
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulPreference_t preference = NULL;
    const struct key *k = &p->key;
    int found = 0;
    enum lk_status st = LK_OK;

    LK_TRY(check(b, b->call.MatmulPreferenceCreate(&preference), "a preference"));
    LK_TRY(set_preference(b, preference, k));
    LK_TRY(check(b,
                 b->call.MatmulAlgoGetHeuristic(b->handle, p->desc, p->b, p->a, p->d, p->d,
                                                preference, 1, &result, &found),
                 "the choice of an algorithm"));
    if (found == 0) {
        st =
            lk_fail(LK_EUNSUPPORTED, "cuBLASLt has no algorithm for (%zu, %zu) times (%zu, %zu) %s",
                    k->rows, k->inner, k->inner, k->columns, lk_dtype_name(k->real));
        goto out;
    }
    p->algo = result.algo;
    p->workspace_bytes = result.workspaceSize;
out:
    if (preference)
        b->call.MatmulPreferenceDestroy(preference);
    return st;
}

static enum lk_status set_bias(const struct lk_cuda_blas *b, struct plan *p, const void *bias)
{
    return bias ? set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)
                : LK_OK;
}

/* The plan of a key, made if need be; valid until the next call. The heuristic sees the bias. */
static enum lk_status plan_of(struct lk_cuda_blas *b, const struct key *k, const void *bias,
                              struct plan **out)
{
    struct plan made = {0};
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < b->n_plans; i++)
        if (!memcmp(&b->plans[i].key, k, sizeof *k)) {
            *out = &b->plans[i];
            return set_bias(b, *out, bias);
        }
    memcpy(&made.key, k, sizeof *k);
    LK_TRY(describe(b, &made));
    LK_TRY(set_bias(b, &made, bias));
    LK_TRY(choose(b, &made));
    LK_TRY(lk_array_grow(&b->plans, &b->capacity, b->n_plans + 1, sizeof *b->plans));
    memcpy(&b->plans[b->n_plans], &made, sizeof made);
    *out = &b->plans[b->n_plans++];
    made = (struct plan){0};
out:
    destroy_plan(b, &made);
    return st;
}

enum lk_status lk_cuda_blas_product(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    struct lk_cuda_blas *b = c->blas;
    struct key k = key_of(c, p);
    const float one = 1, beta = p->e ? 1 : 0;
    const void *e = p->e ? p->e : p->d;
    struct plan *plan = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(plan_of(b, &k, p->bias, &plan));
    LK_TRY(check(b,
                 b->call.Matmul(b->handle, plan->desc, &one, p->b, plan->b, p->a, plan->a, &beta, e,
                                plan->d, p->d, plan->d, &plan->algo, c->workspace,
                                plan->workspace_bytes, (cudaStream_t)c->stream),
                 "a product"));
out:
    return st;
}
