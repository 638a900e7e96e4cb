/*
 * Matrix products by cuBLASLt, opened at run time (base/library.h says why).
 *
 * A plan consists of the layouts and the algorithm that cuBLASLt's heuristic expects to be fastest.
 * It is made for the first product of its shape and kept. cuBLASLt is column major: transposing
 * everything, d = a * b is transposed(d) = transposed(b) * transposed(a), so b is its first factor
 * and our columns are its rows.
 *
 * A product gives the same bits every time on the same GPU model: NVIDIA documents it for
 * cublasLtMatmul with a workspace of the caller's, which each stream has here (cuBLAS manual,
 * 2.1.4), and a plan depends on its key alone. Sums are float: reduction schemes that round partial
 * sums to 16 bits ("in place" and "output type") are not allowed.
 *
 * Epilogues (cublasLt.h, cublasLtEpilogue_t): GELU_AUX_BIAS and DGELU_BGRAD have gelu's input as
 * aux, with a leading dimension of its own. The header does not say which gelu; frameworks put the
 * approximation by tanh in its place (openxla/xla#7751), GPT-2's. BGRADB sums its second factor
 * over the inner axis: our a, which has to be transposed for it. Sums have the type of d, and are
 * overwritten whatever beta is.
 *
 * The manual lists the types used here for any shape and stride (3.4.17, "Datatypes Supported"),
 * including the bias as epilogue together with a third matrix. For speed, all contiguous extents,
 * strides and addresses must be multiples of 16 bytes (2.1.11, "Tensor Core Usage"), and a bias
 * together with a third matrix costs some of the speed (3.4.17, note 6).
 */
#include "base/array.h"
#include "base/library.h"
#include "kernels/calls_blas_cuda.h"
#include "kernels/ops.h"

#include <cuda_runtime_api.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_library_symbol symbols[] = {
#define ROW(function) {"cublasLt" #function, offsetof(struct lk_blas_calls, function)},
    LK_BLAS_CALL_LIST(ROW)
#undef ROW
};

/* The version of the build's toolkit comes first; the functions used here have not changed since
 * 11. */
#define SONAME_(major) "libcublasLt.so." #major
#define SONAME(major)  SONAME_(major)
static const char *const files[] = {SONAME(CUBLAS_VER_MAJOR), "libcublasLt.so.13",
                                    "libcublasLt.so.12", NULL};

/* VECTOR: the bias, or the sums that an epilogue makes. */
enum operand { A, B, D, E, VECTOR, AUX, OPERANDS };
enum { MATRICES = E }; /* matrices with a stride of their own: e has that of d */

/* The key of a plan. */
struct key {
    size_t rows, inner, columns;
    size_t stride[MATRICES];
    uint32_t alignment[OPERANDS]; /* bytes, a power of two up to 256 */
    enum lk_dtype real;
    bool transpose_a, transpose_b, e;
    cublasLtEpilogue_t epilogue;
};

struct plan {
    struct key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    size_t workspace_bytes;
};

struct lk_cuda_blas {
    struct lk_blas_calls call;
    struct lk_library *library; /* NULL: the caller gave the functions */
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

/* Check that the GPU's tensor cores have bfloat16 and tf32: compute capability 8.0 or newer. */
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

enum lk_status lk_cuda_blas_open_calls(const struct lk_blas_calls *calls, struct lk_cuda_blas **out)
{
    struct lk_cuda_blas *b = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&b, 1, sizeof *b));
    b->call = *calls;
    LK_TRY(check(b, b->call.Create(&b->handle), "a handle"));
    LK_HAND_OVER(out, b);
out:
    lk_cuda_blas_close(b);
    return st;
}

enum lk_status lk_cuda_blas_open(struct lk_cuda_blas **out)
{
    /* The library stays loaded: its kernels stay in CUDA's context, on which the process may open
     * devices again. */
    static const struct lk_library_spec spec = {.name = "cuBLASLt",
                                                .files = files,
                                                .symbols = symbols,
                                                .n_symbols = LK_COUNT(symbols),
                                                .stays = true};
    struct lk_library *library = NULL;
    struct lk_blas_calls calls;
    enum lk_status st = LK_OK;

    LK_TRY(check_device());
    LK_TRY(lk_library_open(&spec, &calls, &library));
    LK_TRY(lk_cuda_blas_open_calls(&calls, out));
    (*out)->library = library;
    library = NULL;
out:
    lk_library_close(library);
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
    return b->library ? lk_library_path(b->library) : "none";
}

/* Return the largest power of two, up to 256, that divides an address. */
static uint32_t alignment_of(const void *p)
{
    uint32_t bits = (uint32_t)((uintptr_t)p & 255);

    return bits ? bits & -bits : 256;
}

/* Return cuBLASLt's name of the epilogue. Its rows are our columns, and its B is our a. */
static cublasLtEpilogue_t epilogue_of(const struct lk_cuda_product *p)
{
    switch (p->epilogue) {
    case LK_EPILOGUE_GELU:
        return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case LK_EPILOGUE_DGELU:
        return p->sums ? CUBLASLT_EPILOGUE_DGELU_BGRAD : CUBLASLT_EPILOGUE_DGELU;
    case LK_EPILOGUE_SUMS:
        return CUBLASLT_EPILOGUE_BGRADB;
    case LK_EPILOGUE_PLAIN:
        break;
    }
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static const void *vector_of(const struct lk_cuda_product *p)
{
    return p->sums ? p->sums : p->bias;
}

/* Return the key of a product. pre: strides are not 0. */
static struct key key_of(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    struct key k;

    k.rows = p->rows;
    k.inner = p->inner;
    k.columns = p->columns;
    k.stride[A] = p->a_stride;
    k.stride[B] = p->b_stride;
    k.stride[D] = p->d_stride;
    k.alignment[A] = alignment_of(p->a);
    k.alignment[B] = alignment_of(p->b);
    k.alignment[D] = alignment_of(p->d);
    k.alignment[E] = alignment_of(p->e ? p->e : p->d);
    k.alignment[VECTOR] = vector_of(p) ? alignment_of(vector_of(p)) : 256;
    k.alignment[AUX] = p->aux ? alignment_of(p->aux) : 256;
    k.real = c->real;
    k.transpose_a = p->transpose_a;
    k.transpose_b = p->transpose_b;
    k.e = p->e;
    k.epilogue = epilogue_of(p);
    return k;
}

static bool same_key(const struct key *x, const struct key *y)
{
    return x->rows == y->rows && x->inner == y->inner && x->columns == y->columns &&
           !memcmp(x->stride, y->stride, sizeof x->stride) &&
           !memcmp(x->alignment, y->alignment, sizeof x->alignment) && x->real == y->real &&
           x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b && x->e == y->e &&
           x->epilogue == y->epilogue;
}

static const char *epilogue_text(cublasLtEpilogue_t epilogue)
{
    static const struct {
        cublasLtEpilogue_t epilogue;
        const char *text;
    } rows[] = {
        {CUBLASLT_EPILOGUE_BIAS, " plus bias"},
        {CUBLASLT_EPILOGUE_GELU_AUX, ", gelu"},
        {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, " plus bias, gelu"},
        {CUBLASLT_EPILOGUE_DGELU, ", gelu's derivative"},
        {CUBLASLT_EPILOGUE_DGELU_BGRAD, ", gelu's derivative, sums of columns"},
        {CUBLASLT_EPILOGUE_BGRADB, ", sums of the first one's rows"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].epilogue == epilogue)
            return rows[i].text;
    return "";
}

/* Add everything that the heuristic was told to an error. */
static enum lk_status product_context(const struct key *k, enum lk_status st)
{
    char text[400];

    if (st == LK_OK)
        return st;
    snprintf(text, sizeof text,
             "%s(%zu, %zu) times %s(%zu, %zu)%s%s in %s, strides %zu, %zu, %zu, aligned to %u, %u, "
             "%u, %u, %u bytes",
             k->transpose_a ? "transposed " : "", k->transpose_a ? k->inner : k->rows,
             k->transpose_a ? k->rows : k->inner, k->transpose_b ? "transposed " : "",
             k->transpose_b ? k->columns : k->inner, k->transpose_b ? k->inner : k->columns,
             epilogue_text(k->epilogue), k->e ? " plus matrix" : "", lk_dtype_name(k->real),
             k->stride[A], k->stride[B], k->stride[D], k->alignment[A], k->alignment[B],
             k->alignment[D], k->alignment[E], k->alignment[VECTOR]);
    return lk_fail_context(st, "%s", text);
}

static enum lk_status set_desc(const struct lk_cuda_blas *b, cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    return check(b, b->call.MatmulDescSetAttribute(desc, what, value, bytes), "an attribute");
}

/* Make the layout of a row-major matrix, which is a column-major one of its transpose. */
static enum lk_status make_layout(const struct lk_cuda_blas *b, cudaDataType_t type, size_t rows,
                                  size_t columns, size_t stride, cublasLtMatrixLayout_t *out)
{
    return check(b, b->call.MatrixLayoutCreate(out, type, columns, rows, (int64_t)stride),
                 "a layout");
}

static bool takes_aux(cublasLtEpilogue_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

static enum lk_status describe(const struct lk_cuda_blas *b, struct plan *p)
{
    const struct key *k = &p->key;
    static const struct {
        cudaDataType_t type;
        cublasComputeType_t compute;
    } reals[] = {[LK_F32] = {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
                 [LK_F16] = {CUDA_R_16F, CUBLAS_COMPUTE_32F},
                 [LK_BF16] = {CUDA_R_16BF, CUBLAS_COMPUTE_32F}};
    const cudaDataType_t type = reals[k->real].type;
    cublasOperation_t first = k->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = k->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint32_t epilogue = k->epilogue;
    int64_t aux_stride = (int64_t)k->stride[D];

    LK_PASS(check(b, b->call.MatmulDescCreate(&p->desc, reals[k->real].compute, CUDA_R_32F),
                  "a description"));
    LK_PASS(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LK_PASS(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    LK_PASS(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (takes_aux(k->epilogue))
        LK_PASS(set_desc(b, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_stride,
                         sizeof aux_stride));
    LK_PASS(make_layout(b, type, k->transpose_a ? k->inner : k->rows,
                        k->transpose_a ? k->rows : k->inner, k->stride[A], &p->a));
    LK_PASS(make_layout(b, type, k->transpose_b ? k->columns : k->inner,
                        k->transpose_b ? k->inner : k->columns, k->stride[B], &p->b));
    return make_layout(b, type, k->rows, k->columns, k->stride[D], &p->d);
}

static enum lk_status set_preference(const struct lk_cuda_blas *b, cublasLtMatmulPreference_t to,
                                     cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                     size_t bytes)
{
    return check(b, b->call.MatmulPreferenceSetAttribute(to, what, value, bytes), "a preference");
}

/*
 * Set the limits of the heuristic: the workspace, sums in float, and the alignment of the matrices.
 * It takes the alignment of bias, sums and aux from their pointers; D is held to that of the bias
 * and the sums too, as in PyTorch.
 */
static enum lk_status set_preferences(const struct lk_cuda_blas *b, cublasLtMatmulPreference_t to,
                                      const struct key *k)
{
    static const struct {
        enum operand operand;
        cublasLtMatmulPreferenceAttributes_t attribute;
    } rows[] = {
        /* a is cuBLASLt's second factor, b its first. */
        {A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES},
        {B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
        {D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
        {E, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES},
    };
    uint64_t workspace_bytes = LK_CUDA_WORKSPACE_BYTES;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    LK_PASS(set_preference(b, to, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                           sizeof workspace_bytes));
    LK_PASS(set_preference(b, to, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                           sizeof reduction));
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        uint32_t bytes = k->alignment[rows[i].operand];

        if (rows[i].operand == D && k->alignment[VECTOR] < bytes)
            bytes = k->alignment[VECTOR];
        LK_PASS(set_preference(b, to, rows[i].attribute, &bytes, sizeof bytes));
    }
    return LK_OK;
}

static enum lk_status choose(const struct lk_cuda_blas *b, struct plan *p)
{
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulPreference_t preference = NULL;
    cublasStatus_t status;
    int found = 0;
    enum lk_status st = LK_OK;

    LK_TRY(check(b, b->call.MatmulPreferenceCreate(&preference), "a preference"));
    LK_TRY(set_preferences(b, preference, &p->key));
    status = b->call.MatmulAlgoGetHeuristic(b->handle, p->desc, p->b, p->a, p->d, p->d, preference,
                                            1, &result, &found);
    /* cuBLASLt reports a missing algorithm in three ways. */
    if (status == CUBLAS_STATUS_SUCCESS && found > 0)
        status = result.state;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0))
        LK_TRY(lk_fail(LK_EUNSUPPORTED, "cuBLASLt has no algorithm"));
    LK_TRY(check(b, status, "the choice of an algorithm"));
    p->algo = result.algo;
    p->workspace_bytes = result.workspaceSize;
out:
    if (preference)
        b->call.MatmulPreferenceDestroy(preference);
    return st;
}

static enum lk_status set_pointers(const struct lk_cuda_blas *b, cublasLtMatmulDesc_t desc,
                                   const struct lk_cuda_product *p)
{
    const void *vector = vector_of(p);

    if (vector)
        LK_PASS(set_desc(b, desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector));
    return p->aux ? set_desc(b, desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &p->aux,
                             sizeof p->aux)
                  : LK_OK;
}

/* Return the plan of a product, made if necessary; valid until the next call. The heuristic sees
 * its pointers. */
static enum lk_status plan_of(struct lk_cuda_blas *b, const struct key *k,
                              const struct lk_cuda_product *p, struct plan **out)
{
    struct plan made = {0};
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < b->n_plans; i++)
        if (same_key(&b->plans[i].key, k)) {
            *out = &b->plans[i];
            return set_pointers(b, (*out)->desc, p);
        }
    made.key = *k;
    LK_TRY(describe(b, &made));
    LK_TRY(set_pointers(b, made.desc, p));
    LK_TRY(choose(b, &made));
    LK_TRY(lk_array_grow(&b->plans, &b->capacity, b->n_plans + 1, sizeof *b->plans));
    b->plans[b->n_plans] = made;
    *out = &b->plans[b->n_plans++];
    made = (struct plan){0};
out:
    destroy_plan(b, &made);
    return st;
}

/* Run a product as a whole. pre: strides are not 0. */
static enum lk_status run(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    struct lk_cuda_blas *b = c->blas;
    struct key k = key_of(c, p);
    const float one = 1, beta = p->e ? 1 : 0;
    const void *e = p->e ? p->e : p->d;
    struct plan *plan = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(plan_of(b, &k, p, &plan));
    LK_TRY(check(b,
                 b->call.Matmul(b->handle, plan->desc, &one, p->b, plan->b, p->a, plan->a, &beta, e,
                                plan->d, p->d, plan->d, &plan->algo, c->workspace,
                                plan->workspace_bytes, (cudaStream_t)c->stream),
                 "a product"));
out:
    return product_context(&k, st);
}

/* ---- Splitting ---- */

enum axis { ROWS, INNER, COLUMNS, AXES };

/* Return where to split a product along an axis: at its last multiple of 16 bytes, if the strides
 * and addresses of the matrices in which the axis is contiguous are multiples, too; 0: no split. */
static size_t cut_at(const struct lk_cuda_product *p, enum axis axis, size_t element_bytes)
{
    enum { UNIT_BYTES = 16 };
    const struct {
        enum axis along;
        size_t stride;
        const void *at;
    } matrices[] = {
        {p->transpose_a ? ROWS : INNER, p->a_stride, p->a},
        {p->transpose_b ? INNER : COLUMNS, p->b_stride, p->b},
        {COLUMNS, p->d_stride, p->d},
    };
    const size_t extents[AXES] = {p->rows, p->inner, p->columns};
    size_t unit = UNIT_BYTES / element_bytes, rest = extents[axis] % unit;
    bool along = false;

    for (size_t i = 0; i < LK_COUNT(matrices); i++)
        if (matrices[i].along == axis) {
            if (matrices[i].stride % unit || (uintptr_t)matrices[i].at % UNIT_BYTES)
                return 0;
            along = true;
        }
    return along && rest > 0 ? extents[axis] - rest : 0;
}

/* Advance a pointer, unless it is NULL. */
static const void *past(const void *p, size_t elements, size_t element_bytes)
{
    return p ? (const char *)p + elements * element_bytes : NULL;
}

/* Return the part of a product beyond `at`. Along the inner axis, it adds to the d that the first
 * part has written. */
static struct lk_cuda_product rest_of(struct lk_cuda_product p, enum axis axis, size_t at,
                                      size_t bytes)
{
    size_t in_d = axis == COLUMNS ? at : at * p.d_stride;

    if (axis != COLUMNS)
        p.a = past(p.a, (axis == INNER) == p.transpose_a ? at * p.a_stride : at, bytes);
    if (axis != ROWS)
        p.b = past(p.b, (axis == COLUMNS) == p.transpose_b ? at * p.b_stride : at, bytes);
    if (axis == INNER) {
        p.e = p.d;
        p.bias = NULL;
        p.inner -= at;
        return p;
    }
    p.d = (char *)p.d + in_d * bytes;
    p.e = past(p.e, in_d, bytes);
    if (axis == COLUMNS)
        p.bias = past(p.bias, at, bytes);
    *(axis == ROWS ? &p.rows : &p.columns) -= at;
    return p;
}

static struct lk_cuda_product start_of(struct lk_cuda_product p, enum axis axis, size_t at)
{
    *(axis == ROWS ? &p.rows : axis == INNER ? &p.inner : &p.columns) = at;
    return p;
}

/* Refuse an epilogue that no algorithm can have: cublasLt.h asks for rows of aux that are multiples
 * of 8 elements, and the parts of a product that is split have not its sums. */
static enum lk_status check_epilogue(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    struct key k = key_of(c, p);

    if (takes_aux(k.epilogue) && p->d_stride % 8)
        return product_context(
            &k, lk_fail(LK_EUNSUPPORTED, "cuBLASLt's gelu is for rows of multiples of 8 elements"));
    for (enum axis axis = ROWS; axis < AXES; axis++)
        if (cut_at(p, axis, lk_dtype_bytes(c->real)) > 0)
            return product_context(
                &k,
                lk_fail(LK_EUNSUPPORTED, "an epilogue is for extents of multiples of 16 bytes"));
    return LK_OK;
}

enum lk_status lk_cuda_blas_product(const struct lk_cuda *c, const struct lk_cuda_product *p)
{
    size_t bytes = lk_dtype_bytes(c->real);
    struct lk_cuda_product whole = *p;

    whole.a_stride = lk_op_stride(p->a_stride, p->transpose_a ? p->rows : p->inner);
    whole.b_stride = lk_op_stride(p->b_stride, p->transpose_b ? p->inner : p->columns);
    whole.d_stride = lk_op_stride(p->d_stride, p->columns);
    if (p->epilogue != LK_EPILOGUE_PLAIN) {
        LK_PASS(check_epilogue(c, &whole));
        return run(c, &whole);
    }
    for (enum axis axis = ROWS; axis < AXES; axis++) {
        size_t at = cut_at(&whole, axis, bytes);
        struct lk_cuda_product part = start_of(whole, axis, at);

        if (at == 0)
            continue;
        LK_PASS(lk_cuda_blas_product(c, &part));
        part = rest_of(whole, axis, at, bytes);
        return lk_cuda_blas_product(c, &part);
    }
    return run(c, &whole);
}
