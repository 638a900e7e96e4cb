/* The fake; see the header. Quoted sections are those of the cuBLAS manual of CUDA 13. */
#include "tests/fakes/fake_cublaslt_impl_cuda.h"

#include "base/array.h"
#include "facts/dtype.h"

#include <check.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_blas fake_blas;

/* ---- Objects ---- */

struct preference {
    uint64_t workspace_bytes;
    uint32_t reduction;
    uint32_t alignment[4]; /* A, B, C, D */
};

_Static_assert(sizeof(struct algo) <= sizeof(cublasLtMatmulAlgo_t), "it is opaque");

static cublasStatus_t refuse(cublasStatus_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static cublasStatus_t refuse(cublasStatus_t status, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(fake_blas.why, sizeof fake_blas.why, format, ap);
    va_end(ap);
    return status;
}

static cublasStatus_t called(void)
{
    return ++fake_blas.calls == fake_blas.fail_at
               ? refuse(fake_blas.fail_with, "call %d", fake_blas.calls)
               : CUBLAS_STATUS_SUCCESS;
}

#define CALLED()                                                                                   \
    do {                                                                                           \
        cublasStatus_t status_ = called();                                                         \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return status_;                                                                        \
    } while (0)

static void *make(size_t bytes, const void *from)
{
    void *p = malloc(bytes);

    ck_assert_ptr_nonnull(p);
    memcpy(p, from, bytes);
    fake_blas.alive++;
    return p;
}

static cublasStatus_t destroy(void *p)
{
    ck_assert_ptr_nonnull(p);
    free(p);
    fake_blas.alive--;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t create(cublasLtHandle_t *out)
{
    CALLED();
    *out = make(1, "");
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy_handle(cublasLtHandle_t handle)
{
    return destroy(handle);
}

static const char *status_string(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED   ? "the requested functionality is not supported"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value was passed"
                                                   : "another status";
}

static cublasStatus_t desc_create(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                  cudaDataType_t scale)
{
    const struct desc d = {.compute = compute,
                           .scale = scale,
                           .transa = CUBLAS_OP_N,
                           .transb = CUBLAS_OP_N,
                           .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                           .bias_type = -1};

    CALLED();
    *out = make(sizeof d, &d);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t desc_destroy(cublasLtMatmulDesc_t d)
{
    return destroy(d);
}

/* cublasLt.h: CUBLAS_STATUS_INVALID_VALUE if sizeInBytes does not match the attribute. */
static cublasStatus_t put(void *to, size_t size, const void *from, size_t bytes)
{
    if (!from || size != bytes)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of %zu bytes, not %zu", size,
                      bytes);
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t desc_set(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t what,
                               const void *from, size_t bytes)
{
    struct desc *d = (struct desc *)opaque;
    const struct {
        cublasLtMatmulDescAttributes_t what;
        void *to;
        size_t size;
    } rows[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &d->transa, sizeof(int32_t)},
        {CUBLASLT_MATMUL_DESC_TRANSB, &d->transb, sizeof(int32_t)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &d->epilogue, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias, sizeof(void *)},
        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &d->bias_type, sizeof(int32_t)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d->aux, sizeof(void *)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->aux_ld, sizeof(int64_t)},
    };

    CALLED();
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].what == what)
            return put(rows[i].to, rows[i].size, from, bytes);
    ck_abort_msg("attribute %d of a description is not modelled", (int)what);
}

static cublasStatus_t layout_create(cublasLtMatrixLayout_t *out, cudaDataType_t type, uint64_t rows,
                                    uint64_t cols, int64_t ld)
{
    const struct layout l = {type, rows, cols, ld, CUBLASLT_ORDER_COL};

    CALLED();
    *out = make(sizeof l, &l);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t layout_destroy(cublasLtMatrixLayout_t l)
{
    return destroy(l);
}

static cublasStatus_t preference_create(cublasLtMatmulPreference_t *out)
{
    /* The defaults of cublasLt.h: no workspace, all schemes, 256 bytes. */
    const struct preference p = {.reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
                                 .alignment = {256, 256, 256, 256}};

    CALLED();
    *out = make(sizeof p, &p);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_destroy(cublasLtMatmulPreference_t p)
{
    return destroy(p);
}

static cublasStatus_t preference_set(cublasLtMatmulPreference_t opaque,
                                     cublasLtMatmulPreferenceAttributes_t what, const void *from,
                                     size_t bytes)
{
    struct preference *p = (struct preference *)opaque;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        void *to;
        size_t size;
    } rows[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->workspace_bytes, sizeof(uint64_t)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &p->reduction, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->alignment[0], sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->alignment[1], sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->alignment[2], sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->alignment[3], sizeof(uint32_t)},
    };

    CALLED();
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].what == what)
            return put(rows[i].to, rows[i].size, from, bytes);
    ck_abort_msg("preference %d is not modelled", (int)what);
}

/* ---- Problems ---- */

/* "Datatypes Supported" of 3.4.17, the rows with a bias type among real floating-point ones: A and
 * B, C and D. The bias has the type of D in all of them. */
static const struct {
    cublasComputeType_t compute;
    cudaDataType_t scale, ab, cd;
} supported[] = {
    {CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_FAST_16F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
};

static cublasStatus_t check_types(const struct problem *p)
{
    if (p->a->type != p->b->type || p->c->type != p->d->type)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types differ");
    if (p->desc->bias_type != -1 && p->desc->bias_type != (int32_t)p->d->type)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the bias is of another type than D");
    for (size_t i = 0; i < LK_COUNT(supported); i++)
        if (supported[i].compute == p->desc->compute && supported[i].scale == p->desc->scale &&
            supported[i].ab == p->a->type && supported[i].cd == p->d->type)
            return CUBLAS_STATUS_SUCCESS;
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types %d, %d computed in %d", (int)p->a->type,
                  (int)p->d->type, (int)p->desc->compute);
}

static cublasStatus_t check_layout(const struct layout *l, const char *name)
{
    uint64_t along = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;

    if (l->rows == 0 || l->cols == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s is empty", name);
    if (l->ld < (int64_t)along)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "leading dimension %lld of %s (%llu, %llu)",
                      (long long)l->ld, name, (unsigned long long)l->rows,
                      (unsigned long long)l->cols);
    return CUBLAS_STATUS_SUCCESS;
}

/* cublasLt.h says of aux what is checked here. It does not say for which transposes BGRADB is;
 * frameworks use it with a transposed B. */
static cublasStatus_t check_epilogue(const struct problem *p)
{
    if (!p->epilogue || (fake_blas.plain_only && (has_aux(p) || p->epilogue->of_b)))
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "epilogue %d", (int)p->desc->epilogue);
    if (has_bias(p) && !p->desc->bias)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a bias without a pointer");
    if (has_aux(p) && !p->desc->aux)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "an aux without a pointer");
    if (has_aux(p) && (p->desc->aux_ld % 8 || p->desc->aux_ld < (int64_t)p->m))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "leading dimension %lld of aux",
                      (long long)p->desc->aux_ld);
    if (p->epilogue->of_b && p->desc->transb == CUBLAS_OP_N)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "sums of a B that is not transposed");
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set_problem(struct problem *p, cublasLtMatmulDesc_t desc,
                                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    static const char *const names[] = {"A", "B", "C", "D"};
    const void *const layouts[] = {a, b, c, d};
    cublasStatus_t status;
    bool ta, tb;

    if (!desc || !a || !b || !c || !d)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor is NULL");
    *p = (struct problem){(const struct desc *)desc,
                          (const struct layout *)a,
                          (const struct layout *)b,
                          (const struct layout *)c,
                          (const struct layout *)d,
                          0,
                          0,
                          0,
                          fake_epilogue_find(((const struct desc *)desc)->epilogue)};
    for (size_t i = 0; i < LK_COUNT(layouts); i++) {
        status = check_layout(layouts[i], names[i]);
        if (status != CUBLAS_STATUS_SUCCESS)
            return status;
    }
    ta = p->desc->transa != CUBLAS_OP_N;
    tb = p->desc->transb != CUBLAS_OP_N;
    p->m = ta ? p->a->cols : p->a->rows;
    p->k = ta ? p->a->rows : p->a->cols;
    p->n = tb ? p->b->rows : p->b->cols;
    if ((tb ? p->b->cols : p->b->rows) != p->k || p->d->rows != p->m || p->d->cols != p->n ||
        p->c->rows != p->m || p->c->cols != p->n || p->c->order != p->d->order)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "extents do not match");
    status = check_epilogue(p);
    return status == CUBLAS_STATUS_SUCCESS ? check_types(p) : status;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return hash;
}

/* Hash everything but pointers. */
static uint64_t problem_hash(const struct problem *p)
{
    const struct layout *const layouts[] = {p->a, p->b, p->c, p->d};
    const int64_t desc[] = {p->desc->compute, p->desc->scale,    p->desc->transa,
                            p->desc->transb,  p->desc->epilogue, has_aux(p) ? p->desc->aux_ld : 0};
    uint64_t hash = mix(0xcbf29ce484222325, desc, sizeof desc);

    for (size_t i = 0; i < LK_COUNT(layouts); i++) {
        const struct layout *l = layouts[i];
        const int64_t words[] = {l->type, (int64_t)l->rows, (int64_t)l->cols, l->ld, l->order};

        hash = mix(hash, words, sizeof words);
    }
    return hash;
}

static uint32_t alignment_of(const void *p)
{
    uint32_t bytes = 256;

    while ((uintptr_t)p % bytes)
        bytes /= 2;
    return bytes;
}

static bool has_algorithm(const struct problem *p, const struct preference *want)
{
    const struct layout *const layouts[] = {p->a, p->b, p->c, p->d};
    uint32_t least = fake_blas.least_alignment;

    for (size_t i = 0; i < LK_COUNT(layouts) && least > 0; i++)
        if (want->alignment[i] < least ||
            (size_t)layouts[i]->ld * fake_blas_type_bytes(layouts[i]->type) % least)
            return false;
    return fake_blas.heuristic != FAKE_BLAS_FINDS_NONE;
}

static cublasStatus_t heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t preference, int requested,
                                cublasLtMatmulHeuristicResult_t *results, int *found)
{
    const struct preference *want = (const struct preference *)preference;
    struct algo algo = {0};
    struct problem p;
    cublasStatus_t status;

    CALLED();
    ck_assert_ptr_nonnull(handle);
    fake_blas.heuristics++;
    if (requested < 1)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "%d algorithms requested", requested);
    status = set_problem(&p, desc, a, b, c, d);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    *found = has_algorithm(&p, want);
    if (!*found)
        return CUBLAS_STATUS_SUCCESS;
    algo.problem = problem_hash(&p);
    memcpy(algo.alignment, want->alignment, sizeof algo.alignment);
    /* "Routines that don't dereference this pointer [...] depend on its value to determine expected
     * pointer alignment": cublasLt.h of CUBLASLT_MATMUL_DESC_BIAS_POINTER. */
    if (has_bias(&p))
        algo.bias_alignment = alignment_of(p.desc->bias);
    if (has_aux(&p))
        algo.aux_alignment = alignment_of(p.desc->aux);
    algo.workspace_bytes = want->workspace_bytes < FAKE_BLAS_WORKSPACE_BYTES
                               ? (uint32_t)want->workspace_bytes
                               : FAKE_BLAS_WORKSPACE_BYTES;
    algo.splits_rounded = want->reduction & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                                             CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    memset(results, 0, sizeof *results);
    memcpy(&results->algo, &algo, sizeof algo);
    results->workspaceSize = algo.workspace_bytes;
    results->state = fake_blas.heuristic == FAKE_BLAS_STATE_BAD ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                : CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Products ---- */

static size_t span_bytes(const struct layout *l)
{
    return (fake_blas_index_of(l, l->rows - 1, l->cols - 1) + 1) * fake_blas_type_bytes(l->type);
}

static bool overlap(const void *a, const struct layout *of_a, const void *b,
                    const struct layout *of_b)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y + span_bytes(of_b) && y < x + span_bytes(of_a);
}

/* Check the operands' addresses against the documentation and against the algorithm's
 * assumptions. */
static cublasStatus_t check_pointers(const struct problem *p, const struct algo *algo,
                                     const void *const at[4])
{
    static const char names[] = "ABCD";

    for (size_t i = 0; i < 4; i++) {
        if (!at[i])
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "%c is NULL", names[i]);
        if (alignment_of(at[i]) < algo->alignment[i])
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "%c is not aligned to %u bytes", names[i],
                          algo->alignment[i]);
    }
    if (has_bias(p) && alignment_of(p->desc->bias) < algo->bias_alignment)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the bias is not aligned to %u bytes",
                      algo->bias_alignment);
    if (has_aux(p) && alignment_of(p->desc->aux) < algo->aux_alignment)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "aux is not aligned to %u bytes",
                      algo->aux_alignment);
    if (has_aux(p) && overlap(p->desc->aux, p->d, at[3], p->d))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "aux overlaps D");
    /* In place is C == D and Cdesc == Ddesc; anything else that shares bytes is a race. */
    if (at[2] == at[3] ? p->c != p->d : overlap(at[2], p->c, at[3], p->d))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "C overlaps D and is not D");
    if (overlap(at[0], p->a, at[3], p->d) || overlap(at[1], p->b, at[3], p->d))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a factor overlaps D");
    return CUBLAS_STATUS_SUCCESS;
}

/* 2.1.11: extents along memory, leading dimensions and addresses. */
static bool all_aligned(const struct problem *p, const void *const at[4])
{
    const struct layout *const layouts[] = {p->a, p->b, p->c, p->d};
    size_t bad = 0;

    for (size_t i = 0; i < 4; i++) {
        size_t bytes = fake_blas_type_bytes(layouts[i]->type);

        bad |= layouts[i]->rows * bytes % 16 | (size_t)layouts[i]->ld * bytes % 16 |
               (uintptr_t)at[i] % 16;
    }
    return !bad;
}

static cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t adesc, const void *b,
                             cublasLtMatrixLayout_t bdesc, const void *beta, const void *c,
                             cublasLtMatrixLayout_t cdesc, void *d, cublasLtMatrixLayout_t ddesc,
                             const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t bytes,
                             cudaStream_t stream)
{
    const void *const at[4] = {a, b, c, d};
    struct algo algo;
    struct problem p;
    cublasStatus_t status;

    (void)stream;
    CALLED();
    ck_assert_ptr_nonnull(handle);
    ck_assert_ptr_nonnull(chosen);
    if (!alpha || !beta)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a scale is NULL");
    status = set_problem(&p, desc, adesc, bdesc, cdesc, ddesc);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    memcpy(&algo, chosen, sizeof algo);
    if (algo.problem != problem_hash(&p))
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the algorithm is one for another problem");
    if (bytes < algo.workspace_bytes)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "workspace of %zu bytes", bytes);
    if (algo.workspace_bytes > 0 && (!workspace || (uintptr_t)workspace % 256))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is not aligned to 256 bytes");
    status = check_pointers(&p, &algo, at);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    fake_blas.products++;
    if (fake_blas.idle)
        return CUBLAS_STATUS_SUCCESS;
    if (algo.workspace_bytes > 0)
        memset(workspace, 0xff, algo.workspace_bytes);
    fake_blas_compute(&p, &algo, at, d, (double)*(const float *)alpha,
                      (double)*(const float *)beta);
    ck_assert_uint_lt(fake_blas.n_seen, FAKE_BLAS_SEEN_MAX);
    fake_blas.seen[fake_blas.n_seen++] =
        (struct fake_blas_seen){p.m, p.n, p.k, all_aligned(&p, at)};
    return CUBLAS_STATUS_SUCCESS;
}

void fake_blas_reset(void)
{
    fake_blas = (struct fake_blas){0};
}

const struct lk_blas_calls fake_blas_calls = {
    .Create = create,
    .Destroy = destroy_handle,
    .GetStatusString = status_string,
    .Matmul = matmul,
    .MatmulAlgoGetHeuristic = heuristic,
    .MatmulDescCreate = desc_create,
    .MatmulDescDestroy = desc_destroy,
    .MatmulDescSetAttribute = desc_set,
    .MatmulPreferenceCreate = preference_create,
    .MatmulPreferenceDestroy = preference_destroy,
    .MatmulPreferenceSetAttribute = preference_set,
    .MatrixLayoutCreate = layout_create,
    .MatrixLayoutDestroy = layout_destroy,
};
