/*
 * Matrix products. Without OpenBLAS, panels of b and strips of a are copied to the stack, so that
 * the inner loop reads consecutive floats for every transposition; its tile of c stays in
 * registers.
 */
#include "kernels/impl.h"

/* The arguments of lk_gemm. */
struct gemm {
    size_t m, n, k;
    float alpha, beta;
    struct lk_factor a, b;
    float *c;
    size_t c_stride;
};

#ifdef LK_HAVE_OPENBLAS
#include "base/array.h"
#include "base/library.h"
#include "base/limits.h"

#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS maps so much for a thread that multiplies. It tries for ever where that is refused. As
 * much again is for the stacks and heaps of a rank's threads. */
enum { BLAS_BUFFER_BYTES = 128 << 20, BLAS_BUFFERS = 2 };

static struct blas {
    void (*sgemm)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint m,
                  blasint n, blasint k, float alpha, const float *a, blasint a_stride,
                  const float *b, blasint b_stride, float beta, float *c, blasint c_stride);
    char *(*config)(void);
} blas;

static enum lk_status open_blas(void)
{
    static const char *const files[] = {"libopenblas.so.0", "libopenblas.so", NULL};
    static const struct lk_library_symbol symbols[] = {
        {"cblas_sgemm", offsetof(struct blas, sgemm)},
        {"openblas_get_config", offsetof(struct blas, config)},
    };
    static const struct lk_library_spec spec = {.name = "OpenBLAS",
                                                .files = files,
                                                .symbols = symbols,
                                                .n_symbols = LK_COUNT(symbols),
                                                .stays = true};
    static struct lk_library *library; /* for good */

    return lk_library_open(&spec, &blas, &library);
}

/* Open OpenBLAS with one thread, as it takes their number from the environment when it is loaded.
 * What this process starts finds the environment as it was. */
static enum lk_status open_with_one_thread(void)
{
    static const char threads[] = "OPENBLAS_NUM_THREADS";
    const char *now = getenv(threads);
    enum lk_status st = LK_OK;
    char *before = NULL;

    if (now && !strcmp(now, "1"))
        return open_blas();
    if (now)
        LK_TRY(lk_strdup(&before, now));
    if (setenv(threads, "1", 1))
        LK_TRY(lk_fail(LK_ENOMEM, "setenv: %s", strerror(errno)));
    st = open_blas();
    if (before ? setenv(threads, before, 1) : unsetenv(threads))
        LK_KEEP(lk_fail(LK_ENOMEM, "setenv: %s", strerror(errno)));
out:
    free(before);
    return st;
}

static enum lk_status open_once(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum lk_status st = LK_OK;

    pthread_mutex_lock(&lock);
    if (!blas.sgemm)
        st = open_with_one_thread();
    pthread_mutex_unlock(&lock);
    return st;
}

enum lk_status lk_kernels_init(void)
{
    LK_PASS(lk_limits_memory(BLAS_BUFFERS, BLAS_BUFFER_BYTES, "OpenBLAS"));
    return open_once();
}

const char *lk_kernels_blas(void)
{
    return open_once() == LK_OK ? blas.config() : lk_error_text();
}

static void multiply(const struct gemm *g)
{
    blas.sgemm(CblasRowMajor, g->a.transposed ? CblasTrans : CblasNoTrans,
               g->b.transposed ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k,
               g->alpha, g->a.at, (int)g->a.stride, g->b.at, (int)g->b.stride, g->beta, g->c,
               (int)g->c_stride);
}

#else

enum {
    TILE_ROWS = 6, /* with TILE_COLS: as much as fits the 16 registers of AVX2 */
    TILE_COLS = 16,
    PANEL_DEPTH = 256 /* a panel of b is 16 KiB: half of a first-level cache */
};

enum lk_status lk_kernels_init(void)
{
    return LK_OK;
}

const char *lk_kernels_blas(void)
{
    return "own loops, no BLAS";
}

/* Copy op(b)(k0.., j0..) to panel(depth, TILE_COLS); zeros beyond the last column. */
static void pack_b(const struct gemm *g, size_t k0, size_t depth, size_t j0, float *panel)
{
    size_t row = g->b.transposed ? 1 : g->b.stride;
    size_t column = g->b.transposed ? g->b.stride : 1;
    size_t columns = g->n - j0 < TILE_COLS ? g->n - j0 : TILE_COLS;

    for (size_t k = 0; k < depth; k++)
        for (size_t j = 0; j < TILE_COLS; j++)
            panel[k * TILE_COLS + j] =
                j < columns ? g->b.at[(k0 + k) * row + (j0 + j) * column] : 0.0f;
}

/* Copy alpha * op(a)(i0.., k0..) to strip(depth, TILE_ROWS); zeros beyond the last row. */
static void pack_a(const struct gemm *g, size_t i0, size_t k0, size_t depth, float *strip)
{
    size_t row = g->a.transposed ? 1 : g->a.stride;
    size_t column = g->a.transposed ? g->a.stride : 1;
    size_t rows = g->m - i0 < TILE_ROWS ? g->m - i0 : TILE_ROWS;

    for (size_t k = 0; k < depth; k++)
        for (size_t i = 0; i < TILE_ROWS; i++)
            strip[k * TILE_ROWS + i] =
                i < rows ? g->alpha * g->a.at[(i0 + i) * row + (k0 + k) * column] : 0.0f;
}

/* tile += strip * panel. */
static void multiply_tile(const float *restrict strip, const float *restrict panel, size_t depth,
                          float tile[restrict TILE_ROWS][TILE_COLS])
{
    float sum[TILE_ROWS][TILE_COLS] = {{0}};

    for (size_t k = 0; k < depth; k++)
        for (size_t i = 0; i < TILE_ROWS; i++)
#pragma omp simd
            for (size_t j = 0; j < TILE_COLS; j++)
                sum[i][j] += strip[k * TILE_ROWS + i] * panel[k * TILE_COLS + j];
    for (size_t i = 0; i < TILE_ROWS; i++)
        for (size_t j = 0; j < TILE_COLS; j++)
            tile[i][j] = sum[i][j];
}

static void add_tile(const struct gemm *g, size_t i0, size_t j0, float beta,
                     float tile[TILE_ROWS][TILE_COLS])
{
    for (size_t i = i0; i < g->m && i < i0 + TILE_ROWS; i++)
        for (size_t j = j0; j < g->n && j < j0 + TILE_COLS; j++) {
            float *c = &g->c[i * g->c_stride + j];

            *c = (beta == 0.0f ? 0.0f : beta * *c) + tile[i - i0][j - j0];
        }
}

static void multiply(const struct gemm *g)
{
    float panel[PANEL_DEPTH * TILE_COLS], strip[PANEL_DEPTH * TILE_ROWS];
    float tile[TILE_ROWS][TILE_COLS];

    for (size_t j0 = 0; j0 < g->n; j0 += TILE_COLS)
        for (size_t k0 = 0; k0 < g->k; k0 += PANEL_DEPTH) {
            size_t depth = g->k - k0 < PANEL_DEPTH ? g->k - k0 : PANEL_DEPTH;

            pack_b(g, k0, depth, j0, panel);
            for (size_t i0 = 0; i0 < g->m; i0 += TILE_ROWS) {
                pack_a(g, i0, k0, depth, strip);
                multiply_tile(strip, panel, depth, tile);
                add_tile(g, i0, j0, k0 ? 1.0f : g->beta, tile);
            }
        }
}
#endif

const char *lk_kernels_vectors(void)
{
#if defined __AVX512F__
    return "AVX-512";
#elif defined __AVX2__
    return "AVX2";
#elif defined __AVX__
    return "AVX";
#elif defined __SSE2__
    return "SSE2";
#elif defined __ARM_FEATURE_SVE
    return "SVE";
#elif defined __ARM_NEON
    return "NEON";
#else
    return "none";
#endif
}

/* Compute c = beta * c, for an empty inner dimension. */
static void scale_only(const struct gemm *g)
{
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->c_stride + j];

            *c = g->beta == 0.0f ? 0.0f : g->beta * *c;
        }
}

void lk_gemm(size_t m, size_t n, size_t k, float alpha, struct lk_factor a, struct lk_factor b,
             float beta, float *c, size_t c_stride)
{
    const struct gemm g = {m, n, k, alpha, beta, a, b, c, c_stride};

    if (k == 0)
        scale_only(&g);
    else if (m > 0 && n > 0)
        multiply(&g);
}
