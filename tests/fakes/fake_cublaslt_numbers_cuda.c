/* The numbers of the fake cuBLASLt: elements, sums, epilogues. */
#include "tests/fakes/fake_cublaslt_impl_cuda.h"

#include "base/array.h"
#include "facts/dtype.h"

#include <check.h>
#include <math.h>

/* ---- Epilogues ---- */

static const struct fake_epilogue epilogues[] = {
    {.epilogue = CUBLASLT_EPILOGUE_DEFAULT},
    {.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = true},
    {.epilogue = CUBLASLT_EPILOGUE_GELU_AUX, .aux_out = true},
    {.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, .bias = true, .aux_out = true},
    {.epilogue = CUBLASLT_EPILOGUE_DGELU, .aux_in = true},
    {.epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD, .of_rows = true, .aux_in = true},
    {.epilogue = CUBLASLT_EPILOGUE_BGRADB, .of_b = true},
};

const struct fake_epilogue *fake_epilogue_find(cublasLtEpilogue_t epilogue)
{
    for (size_t i = 0; i < LK_COUNT(epilogues); i++)
        if (epilogues[i].epilogue == epilogue)
            return &epilogues[i];
    return NULL;
}

static const double root = 0.7978845608028654, cubic = 0.044715; /* sqrt(2 / pi) */

/* The tanh of gelu at x. As on a GPU (tanh.approx), it may err by 2^-11: it does. */
static double gelu_tanh(double x)
{
    return tanh(root * (x + cubic * x * x * x)) * (1 - 0x1p-11);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + gelu_tanh(x));
}

static double gelu_slope(double x)
{
    double t = gelu_tanh(x);

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * cubic * x * x);
}

/* ---- Elements ---- */

size_t fake_blas_type_bytes(cudaDataType_t type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static enum lk_dtype dtype_of(cudaDataType_t type)
{
    ck_assert(type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F);
    return type == CUDA_R_32F ? LK_F32 : type == CUDA_R_16BF ? LK_BF16 : LK_F16;
}

static double get(cudaDataType_t type, const void *p, size_t i)
{
    return lk_dtype_at(dtype_of(type), p, i);
}

static void set(cudaDataType_t type, void *p, size_t i, double x)
{
    const float narrow = (float)x;

    lk_dtype_from_f32(dtype_of(type), (char *)p + i * fake_blas_type_bytes(type), &narrow, 1);
}

static double rounded(cudaDataType_t type, double x)
{
    float to;

    set(type, &to, 0, x);
    return get(type, &to, 0);
}

size_t fake_blas_index_of(const struct layout *l, uint64_t row, uint64_t col)
{
    return l->order == CUBLASLT_ORDER_COL ? (size_t)(col * (uint64_t)l->ld + row)
                                          : (size_t)(row * (uint64_t)l->ld + col);
}

/* ---- Products ---- */

static double dot(const struct problem *p, const struct algo *algo, const void *a, const void *b,
                  uint64_t row, uint64_t col)
{
    bool ta = p->desc->transa != CUBLAS_OP_N, tb = p->desc->transb != CUBLAS_OP_N;
    double sum = 0;

    for (uint64_t i = 0; i < p->k; i++) {
        sum += get(p->a->type, a,
                   ta ? fake_blas_index_of(p->a, i, row) : fake_blas_index_of(p->a, row, i)) *
               get(p->b->type, b,
                   tb ? fake_blas_index_of(p->b, col, i) : fake_blas_index_of(p->b, i, col));
        if (algo->splits_rounded)
            sum = rounded(p->d->type, sum);
    }
    return sum;
}

/* Do the epilogue's work on an element, and return what D gets. */
static double finish(const struct problem *p, uint64_t row, uint64_t col, double x)
{
    size_t at = (size_t)(col * (uint64_t)p->desc->aux_ld + row);

    /* "Bias vector length must match matrix D rows [...] broadcasted to all columns". */
    if (p->epilogue->bias)
        x += get(p->d->type, p->desc->bias, row);
    if (p->epilogue->aux_out)
        set(p->d->type, p->desc->aux, at, x);
    if (p->epilogue->aux_in)
        x *= gelu_slope(get(p->d->type, p->desc->aux, at));
    return p->epilogue->aux_out ? gelu(x) : x;
}

/* "The bias size corresponds to the number of columns of the matrix D. The reduction happens over
 * the GEMM's "k" dimension." */
static void sum_b(const struct problem *p, const void *b)
{
    for (uint64_t col = 0; col < p->n; col++) {
        double sum = 0;

        for (uint64_t i = 0; i < p->k; i++)
            sum += get(p->b->type, b, fake_blas_index_of(p->b, col, i));
        set(p->d->type, p->desc->bias, col, sum);
    }
}

void fake_blas_compute(const struct problem *p, const struct algo *algo, const void *const at[4],
                       void *d, double alpha, double beta)
{
    /* C may be D: an element is read before it is written, and read once. */
    for (uint64_t row = 0; row < p->m; row++) {
        double sum = 0;

        for (uint64_t col = 0; col < p->n; col++) {
            double x = alpha * dot(p, algo, at[0], at[1], row, col);

            if (beta != 0)
                x += beta * get(p->c->type, at[2], fake_blas_index_of(p->c, row, col));
            x = finish(p, row, col, x);
            sum += x;
            set(p->d->type, d, fake_blas_index_of(p->d, row, col), x);
        }
        if (p->epilogue->of_rows)
            set(p->d->type, p->desc->bias, row, sum);
    }
    if (p->epilogue->of_b)
        sum_b(p, at[1]);
}
