/*
 * Causal attention without the matrix of probabilities in memory: FlashAttention-2 (Dao 2023), on
 * the tensor cores by mma instructions (kernels/ptx.cuh). Private to kernels/attention_*.cu: the
 * products of tiles, the tiles, and the launch, which forward and backward share.
 *
 * A block has 64 or 128 queries (or keys) of one head, a warp 16 or 32 of them; tiles of the other
 * side go through shared memory, double buffered: the next tile is loaded while this one is
 * multiplied. With 16 rows per warp, reading shared memory takes longer than the tensor cores
 * (counted, not measured, for an H100 and bfloat16 heads of 64: 176 cycles per tile of 16 by 64
 * forward, against 102); with 32 rows, each element read is used twice.
 *
 * Heads up to 128 wide; the tile is 64 or 128 wide, zero where the head is narrower. Products are
 * of 16 bits, or of tf32 where lk_real is float; sums, softmax and its derivative are float.
 */
#ifndef LK_KERNELS_ATTENTION_CUH
#define LK_KERNELS_ATTENTION_CUH

extern "C" {
#include "kernels/dnn.h"
}

#include "kernels/ptx.cuh"

#include <cmath>

enum { THREADS = 128, WARPS = THREADS / LK_WARP, MMA_ROWS = 16 };

constexpr float log2_e = 1.44269504088896340736F;

/* Tiles of 16 rows per warp (two where registers allow), and rows per block. */
template <class T, int WIDTH> constexpr int tall = sizeof(T) == 2 && WIDTH == 64 ? 2 : 1;
template <class T, int WIDTH> constexpr int block_rows = WARPS *tall<T, WIDTH> *MMA_ROWS;

/* ---- Products of tiles in shared memory, with M times 16 rows per warp ---- */

/*
 * Fragments of T for one step of a product, over K elements. A row in shared memory is PAD elements
 * longer than its data, so that the eight rows which a warp reads at once are in different banks.
 *
 *   load_a            (16, K) of a row-major tile
 *   load_b_rows       (K, 16) as two factors, from a row-major (16, K): the tile is used transposed
 *   load_b_columns    (K, 16) as two factors, from a row-major (K, 16)
 *   from_sums         K columns of an earlier product's sums, as a left factor. Use with
 *                     load_b_columns for the right one: the two agree on the order of the K terms.
 */
template <class T> struct factors { /* 16 bits */
    static constexpr int K = 16, PAD = 8;

    static __device__ void load_a(uint32_t (&a)[4], const T *tile, int ld)
    {
        int lane = (int)threadIdx.x % LK_WARP;

        load_matrices(a, tile + lane % 16 * ld + lane / 16 * 8);
    }

    static __device__ void load_b_rows(uint32_t (&b)[2][2], const T *tile, int ld)
    {
        int lane = (int)threadIdx.x % LK_WARP;
        uint32_t r[4];

        load_matrices(r, tile + (lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
        b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
    }

    static __device__ void load_b_columns(uint32_t (&b)[2][2], const T *tile, int ld)
    {
        int lane = (int)threadIdx.x % LK_WARP;
        uint32_t r[4];

        load_matrices_transposed(r, tile + lane % 16 * ld + lane / 16 * 8);
        b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
    }

    static __device__ void from_sums(uint32_t (&a)[4], const float (*sums)[4])
    {
        a[0] = two<T>(sums[0][0], sums[0][1]);
        a[1] = two<T>(sums[0][2], sums[0][3]);
        a[2] = two<T>(sums[1][0], sums[1][1]);
        a[3] = two<T>(sums[1][2], sums[1][3]);
    }

    static __device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
    {
        mma<T>(d, a, b);
    }
};

template <> struct factors<float> {
    static constexpr int K = 8, PAD = 4;

    static __device__ void load_a(uint32_t (&a)[4], const float *tile, int ld)
    {
        int g = (int)threadIdx.x % LK_WARP / 4, t = (int)threadIdx.x % 4;

        a[0] = to_tf32(tile[g * ld + t]);
        a[1] = to_tf32(tile[(g + 8) * ld + t]);
        a[2] = to_tf32(tile[g * ld + t + 4]);
        a[3] = to_tf32(tile[(g + 8) * ld + t + 4]);
    }

    static __device__ void load_b_rows(uint32_t (&b)[2][2], const float *tile, int ld)
    {
        int g = (int)threadIdx.x % LK_WARP / 4, t = (int)threadIdx.x % 4;

#pragma unroll
        for (int i = 0; i < 2; i++) {
            b[i][0] = to_tf32(tile[(8 * i + g) * ld + t]);
            b[i][1] = to_tf32(tile[(8 * i + g) * ld + t + 4]);
        }
    }

    /* Term t of the instruction is row 2t of the tile, and term t + 4 is row 2t + 1: the columns of
     * an earlier product that a lane holds are then the terms that it needs. */
    static __device__ void load_b_columns(uint32_t (&b)[2][2], const float *tile, int ld)
    {
        int g = (int)threadIdx.x % LK_WARP / 4, t = (int)threadIdx.x % 4;

#pragma unroll
        for (int i = 0; i < 2; i++) {
            b[i][0] = to_tf32(tile[2 * t * ld + 8 * i + g]);
            b[i][1] = to_tf32(tile[(2 * t + 1) * ld + 8 * i + g]);
        }
    }

    static __device__ void from_sums(uint32_t (&a)[4], const float (*sums)[4])
    {
        a[0] = to_tf32(sums[0][0]);
        a[1] = to_tf32(sums[0][2]);
        a[2] = to_tf32(sums[0][1]);
        a[3] = to_tf32(sums[0][3]);
    }

    static __device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
    {
        mma_tf32(d, a, b);
    }
};

/* d(16 M, 8 * TILES) = a(16 M, WIDTH) * transposed(b(8 * TILES, WIDTH)), both in shared memory. */
template <class T, int WIDTH, int M, int TILES>
__device__ void product_of_rows(float (&d)[M][TILES][4], const T *a, const T *b)
{
    constexpr int ld = WIDTH + factors<T>::PAD;

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int i = 0; i < TILES; i++)
            d[m][i][0] = d[m][i][1] = d[m][i][2] = d[m][i][3] = 0;
#pragma unroll
    for (int k = 0; k < WIDTH; k += factors<T>::K) {
        uint32_t left[M][4], right[2][2];

#pragma unroll
        for (int m = 0; m < M; m++)
            factors<T>::load_a(left[m], a + MMA_ROWS * m * ld + k, ld);
#pragma unroll
        for (int i = 0; i < TILES; i += 2) {
            factors<T>::load_b_rows(right, b + 8 * i * ld + k, ld);
#pragma unroll
            for (int m = 0; m < M; m++) {
                factors<T>::multiply(d[m][i], left[m], right[0]);
                factors<T>::multiply(d[m][i + 1], left[m], right[1]);
            }
        }
    }
}

/* d(16 M, WIDTH) += sums(16 M, 8 * TILES) * b(8 * TILES, WIDTH), b in shared memory. */
template <class T, int WIDTH, int M, int TILES>
__device__ void add_product_of_sums(float (&d)[M][WIDTH / 8][4], const float (&sums)[M][TILES][4],
                                    const T *b)
{
    constexpr int ld = WIDTH + factors<T>::PAD, step = factors<T>::K / 8;

#pragma unroll
    for (int k = 0; k < TILES; k += step) {
        uint32_t left[M][4], right[2][2];

#pragma unroll
        for (int m = 0; m < M; m++)
            factors<T>::from_sums(left[m], &sums[m][k]);
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i += 2) {
            factors<T>::load_b_columns(right, b + 8 * k * ld + 8 * i, ld);
#pragma unroll
            for (int m = 0; m < M; m++) {
                factors<T>::multiply(d[m][i], left[m], right[0]);
                factors<T>::multiply(d[m][i + 1], left[m], right[1]);
            }
        }
    }
}

/* ---- Tiles between global and shared memory ---- */

/* A matrix in global memory: rows of one head, `stride` elements apart. */
template <class T> struct rows_of {
    T *p;
    size_t stride;
    int rows, width;
};

/*
 * Load ROWS rows from row `first` on; zeros outside the matrix, so that no product meets a stray
 * NaN. WIDE: 16 bytes per access, by asynchronous copies that are complete when tiles_are_there
 * returns.
 */
template <class T, int WIDTH, int ROWS, bool WIDE>
__device__ void load_tile(T *tile, const rows_of<const T> &m, int first)
{
    constexpr int N = WIDE ? widest<T> : 1, packs = WIDTH / N, ld = WIDTH + factors<T>::PAD;
    constexpr int STEP = THREADS / packs; /* rows at a time */
    int column = (int)threadIdx.x % packs * N, row = (int)threadIdx.x / packs;
    int rows = column < m.width ? m.rows - first : 0;
    size_t at = (size_t)(first + row) * m.stride + (size_t)column, step = STEP * m.stride;

    static_assert(THREADS % packs == 0, "a thread stays in its column");
    tile += row * ld + column;
/* Unroll only synchronous loads: asynchronous copies need no overlap, and more addresses at once
 * would cost registers. */
#pragma unroll(WIDE ? 1 : 4)
    for (; row < ROWS; row += STEP, at += step, tile += STEP * ld) {
        bool there = row < rows;
        const T *from = m.p + (there ? at : 0);

        if (WIDE)
            copy_async(tile, from, there);
        else
            *tile = there ? *from : from_float<T>(0);
    }
}

/* Wait until the tiles that all threads have begun to load are complete, and all threads have
 * finished reading the previous ones. */
__device__ inline void tiles_are_there()
{
    wait_for_copies();
    __syncthreads();
}

/* Store a warp's 16 rows of sums, times factor, from row `first` on. kernels/ptx.cuh gives the
 * elements of each lane. */
template <class T, int WIDTH, bool WIDE>
__device__ void store_sums(const rows_of<T> &m, int first, const float (&sums)[WIDTH / 8][4],
                           float factor_low, float factor_high)
{
    int row = first + (int)threadIdx.x % LK_WARP / 4, t = (int)threadIdx.x % 4;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float factor = half ? factor_high : factor_low;

        if (row + 8 * half >= m.rows)
            continue;
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++) {
            T *to = m.p + (size_t)(row + 8 * half) * m.stride + 8 * i + 2 * t;
            pack<T, 2> two = {from_float<T>(sums[i][2 * half] * factor),
                              from_float<T>(sums[i][2 * half + 1] * factor)};

            if constexpr (WIDE) {
                if (8 * i + 2 * t < m.width)
                    store<2>(to, two);
            } else {
                if (8 * i + 2 * t < m.width)
                    to[0] = two.x[0];
                if (8 * i + 2 * t + 1 < m.width)
                    to[1] = two.x[1];
            }
        }
    }
}

/* Reduce x by f over the four lanes that share a row of sums. */
template <class F> __device__ float of_row(float x, F f)
{
    x = f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, 1));
    return f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, 2));
}

/* ---- The problem, and its launch ---- */

/* Arguments of all kernels. qkv and dqkv are (samples, context, 3 * channels). */
template <class T> struct problem {
    const T *qkv, *dout, *out;
    T *to; /* forward: out; backward: dqkv */
    float *log_sum;
    float *delta; /* (samples, heads, context): dot products of dout and out */
    int context, heads, width;
    float scale;  /* scale of the scores: 1 / sqrt(width) */
    float scale2; /* scale for powers of 2: scale * log2(e) */

    __device__ size_t channels() const
    {
        return (size_t)heads * width;
    }

    /* Return q (part 0), k (1) or v (2) of the block's sample and head. */
    template <class X> __device__ rows_of<X> part(X *base, int part) const
    {
        return {base + blockIdx.z * context * 3 * channels() + part * channels() +
                    blockIdx.y * width,
                3 * channels(), context, width};
    }

    template <class X> __device__ rows_of<X> heads_side_by_side(X *base) const
    {
        return {base + blockIdx.z * context * channels() + blockIdx.y * width, channels(), context,
                width};
    }

    __device__ size_t first_row() const
    {
        return ((size_t)blockIdx.z * heads + blockIdx.y) * context;
    }
};

/* Rows of the other side per tile in shared memory: keys. (dkv_kernel: queries.) */
template <class T, int WIDTH> constexpr int keys_of = sizeof(T) == 2 && WIDTH == 64 ? 64 : 32;

template <class T, int WIDTH> constexpr size_t tile_bytes(int rows)
{
    return (size_t)rows * (WIDTH + factors<T>::PAD) * sizeof(T);
}

template <class T>
enum lk_status describe(problem<T> *out, const char *name, size_t samples, size_t context,
                        size_t channels, size_t heads)
{
    enum { WIDEST_HEAD = 128, MOST_ROWS = 65535 };
    size_t width = channels / heads;

    /* problem::part counts rows of q, k and v in 32 bits. */
    if (width > WIDEST_HEAD || context > MOST_ROWS || heads > MOST_ROWS || samples > MOST_ROWS ||
        samples * context > UINT32_MAX / 3)
        return lk_fail(
            LK_EUNSUPPORTED,
            "%s: %zu samples of %zu positions, %zu heads %zu wide; heads are at most %d wide", name,
            samples, context, heads, width, (int)WIDEST_HEAD);
    *out = {};
    out->context = (int)context;
    out->heads = (int)heads;
    out->width = (int)width;
    out->scale = (float)(1 / sqrt((double)width));
    out->scale2 = out->scale * log2_e;
    return LK_OK;
}

/* Launch a kernel of `rows` rows per block, with more dynamic shared memory than the default
 * limit. */
template <class T>
enum lk_status launch_tiles(const struct lk_cuda *c, const char *name, size_t samples, size_t rows,
                            size_t shared_bytes, const problem<T> &p, void (*kernel)(problem<T>))
{
    return lk_launch_shared(
        c, name, dim3(blocks_for((size_t)p.context, rows), (unsigned)p.heads, (unsigned)samples),
        THREADS, shared_bytes, kernel, p);
}

/* Return true if every row of every head begins at a multiple of 16 bytes. */
template <class T> bool rows_fit(const problem<T> &p)
{
    return p.width % widest<T> == 0 && fits<widest<T>>(p.qkv, p.dout, p.out, (const T *)p.to);
}

#endif
