/*
 * Causal attention without the matrix of probabilities in memory: FlashAttention-2 (Dao 2023), on
 * the tensor cores by mma instructions (kernels/ptx.cuh).
 *
 * A block has 64 or 128 queries (or keys) of one head, a warp 16 or 32 of them; tiles of the other
 * side go through shared memory, double buffered: the next tile is loaded while this one is
 * multiplied. With 16 rows per warp, reading shared memory takes longer than the tensor cores
 * (counted, not measured, for an H100 and bfloat16 heads of 64: 176 cycles per tile of 16 by 64
 * forward, against 102); with 32 rows, each element read is used twice.
 * Forward keeps the logarithm of each row's sum, from which backward recomputes the probabilities.
 * Backward runs two kernels, one for dq and one for dk and dv, so that no sum needs atomics: seven
 * products instead of five, and the same bits every time.
 *
 * Heads up to 128 wide; the tile is 64 or 128 wide, zero where the head is narrower. Products are
 * of bfloat16, or of tf32 where lk_real is float; sums, softmax and its derivative are float.
 */
#include "kernels/ptx.cuh"

#include <cmath>

namespace
{

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
template <class T> struct factors;

template <> struct factors<bf16> {
    static constexpr int K = 16, PAD = 8;

    static __device__ void load_a(uint32_t (&a)[4], const bf16 *tile, int ld)
    {
        int lane = (int)threadIdx.x % LK_WARP;

        load_matrices(a, tile + lane % 16 * ld + lane / 16 * 8);
    }

    static __device__ void load_b_rows(uint32_t (&b)[2][2], const bf16 *tile, int ld)
    {
        int lane = (int)threadIdx.x % LK_WARP;
        uint32_t r[4];

        load_matrices(r, tile + (lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
        b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
    }

    static __device__ void load_b_columns(uint32_t (&b)[2][2], const bf16 *tile, int ld)
    {
        int lane = (int)threadIdx.x % LK_WARP;
        uint32_t r[4];

        load_matrices_transposed(r, tile + lane % 16 * ld + lane / 16 * 8);
        b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
    }

    static __device__ void from_sums(uint32_t (&a)[4], const float (*sums)[4])
    {
        a[0] = two_bf16(sums[0][0], sums[0][1]);
        a[1] = two_bf16(sums[0][2], sums[0][3]);
        a[2] = two_bf16(sums[1][0], sums[1][1]);
        a[3] = two_bf16(sums[1][2], sums[1][3]);
    }

    static __device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
    {
        mma_bf16(d, a, b);
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

/* Unroll only synchronous loads: asynchronous copies need no overlap, and more addresses at once
 * would cost registers. */
#pragma unroll(WIDE ? 1 : 4)
    for (int i = (int)threadIdx.x; i < ROWS * packs; i += THREADS) {
        int row = i / packs, column = i % packs * N;
        bool there = first + row < m.rows && column < m.width;
        const T *from = there ? m.p + (size_t)(first + row) * m.stride + column : m.p;

        if (WIDE)
            copy_async(tile + row * ld + column, from, there);
        else
            tile[row * ld + column] = there ? *from : from_float<T>(0);
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

            if (WIDE && 8 * i + 2 * t < m.width) {
                store<2>(to, two);
                continue;
            }
            if (8 * i + 2 * t < m.width)
                to[0] = two.x[0];
            if (8 * i + 2 * t + 1 < m.width)
                to[1] = two.x[1];
        }
    }
}

/* Reduce x by f over the four lanes that share a row of sums. */
template <class F> __device__ float of_row(float x, F f)
{
    x = f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, 1));
    return f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, 2));
}

/* ---- Forward ---- */

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

/* Rows of the other side per tile in shared memory: keys, and for dkv_kernel queries. */
template <class T, int WIDTH> constexpr int keys_of = sizeof(T) == 2 && WIDTH == 64 ? 64 : 32;
enum { QUERIES = 32 };

template <class T, int WIDTH> constexpr size_t tile_bytes(int rows)
{
    return (size_t)rows * (WIDTH + factors<T>::PAD) * sizeof(T);
}

/* A lane's part of a row's online softmax, in units of log2. */
struct softmax_row {
    float max, sum;
};

/*
 * Replace the scores of 16 rows by exp2(score - max), and rescale the sums and the output so far to
 * the new maximum. key: index of the tile's first column; query: of this lane's first row. MASK:
 * some queries do not see all keys of the tile. scale > 0, so scaling keeps the largest score the
 * largest.
 */
template <bool MASK, int TILES, int WIDTH>
__device__ void softmax_tile(float (&s)[TILES][4], softmax_row (&rows)[2],
                             float (&out)[WIDTH / 8][4], int query, int key, float scale2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        softmax_row &row = rows[half];
        float larger = -INFINITY, shrink;

#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            float &x = s[i / 2][2 * half + i % 2];
            int column = key + 8 * (i / 2) + 2 * ((int)threadIdx.x % 4) + i % 2;

            if (MASK && column > query + 8 * half)
                x = -INFINITY;
            larger = fmaxf(larger, x);
        }
        larger = of_row(larger, [](float a, float b) { return fmaxf(a, b); });
        larger = fmaxf(row.max, larger * scale2);
        shrink = exp2_fast(row.max - larger);
        row.sum *= shrink;
        row.max = larger;
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            float &x = s[i / 2][2 * half + i % 2];

            x = exp2_fast(fmaf(x, scale2, -larger));
            row.sum += x;
        }
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++) {
            out[i][2 * half] *= shrink;
            out[i][2 * half + 1] *= shrink;
        }
    }
}

/* Forward. The first tile has key 0, which every query sees, so every maximum is finite after the
 * first tile that a warp processes. */
template <class T, int WIDTH, bool WIDE>
__global__ void __launch_bounds__(THREADS) forward_kernel(problem<T> p)
{
    constexpr int KEYS = keys_of<T, WIDTH>, LD = WIDTH + factors<T>::PAD, M = tall<T, WIDTH>;
    constexpr int ROWS = block_rows<T, WIDTH>;
    LK_SHARED_OF_LAUNCH(shared);
    T *q = reinterpret_cast<T *>(shared), *k = q + ROWS * LD, *v = k + KEYS * LD;
    constexpr int BUFFER = 2 * KEYS * LD; /* elements from one buffer to the other */
    int at = 0;
    /* The last queries have the most keys: start them first. */
    int first = (int)(gridDim.x - 1 - blockIdx.x) * ROWS;
    int warp_row = (int)threadIdx.x / LK_WARP * M * MMA_ROWS;
    int query = first + warp_row + (int)threadIdx.x % LK_WARP / 4;
    int keys = first + ROWS < p.context ? first + ROWS : p.context;
    float out[M][WIDTH / 8][4] = {};
    softmax_row rows[M][2];

#pragma unroll
    for (int r = 0; r < 2 * M; r++)
        rows[r / 2][r % 2] = {-INFINITY, 0};
    load_tile<T, WIDTH, ROWS, WIDE>(q, p.part(p.qkv, 0), first);
    load_tile<T, WIDTH, KEYS, WIDE>(k, p.part(p.qkv, 1), 0);
    load_tile<T, WIDTH, KEYS, WIDE>(v, p.part(p.qkv, 2), 0);
    for (int key = 0; key < keys; key += KEYS, at = BUFFER - at) {
        float s[M][KEYS / 8][4];

        tiles_are_there();
        if (key + KEYS < keys) {
            load_tile<T, WIDTH, KEYS, WIDE>(k + BUFFER - at, p.part(p.qkv, 1), key + KEYS);
            load_tile<T, WIDTH, KEYS, WIDE>(v + BUFFER - at, p.part(p.qkv, 2), key + KEYS);
        }
        if (key >= first + warp_row + M * MMA_ROWS)
            continue; /* none of this warp's queries sees these keys */
        product_of_rows<T, WIDTH>(s, q + warp_row * LD, k + at);
#pragma unroll
        for (int m = 0; m < M; m++)
            if (key + KEYS - 1 <= first + warp_row + m * MMA_ROWS)
                softmax_tile<false, KEYS / 8, WIDTH>(s[m], rows[m], out[m], 0, 0, p.scale2);
            else
                softmax_tile<true, KEYS / 8, WIDTH>(s[m], rows[m], out[m], query + m * MMA_ROWS,
                                                    key, p.scale2);
        add_product_of_sums<T, WIDTH>(out, s, v + at);
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = query + m * MMA_ROWS + 8 * half;
            float sum = of_row(rows[m][half].sum, add{});

            if (threadIdx.x % 4 == 0 && row < p.context)
                p.log_sum[p.first_row() + row] = rows[m][half].max / log2_e + logf(sum);
            rows[m][half].sum = sum;
        }
        store_sums<T, WIDTH, WIDE>(p.heads_side_by_side(p.to), first + warp_row + m * MMA_ROWS,
                                   out[m], 1 / rows[m][0].sum, 1 / rows[m][1].sum);
    }
}

/* ---- Backward ---- */

/* A row's logarithm of the sum, for powers of 2, and its delta: the dot product of dout and out
 * over the head, which the softmax's derivative subtracts. */
struct row_facts {
    float log_sum, delta;
};

/* Return the facts of a row. The four lanes that share the row compute delta, and store it for
 * dkv_kernel. */
template <class T, bool WIDE> __device__ row_facts find_facts(const problem<T> &p, int row)
{
    constexpr int N = WIDE ? widest<T> : 1;
    rows_of<const T> dout = p.heads_side_by_side(p.dout), out = p.heads_side_by_side(p.out);
    row_facts f = {0, 0};

    if (row < p.context) {
        for (int c = (int)threadIdx.x % 4 * N; c < p.width; c += 4 * N) {
            pack<T, N> a = load<N>(dout.p + (size_t)row * dout.stride + c);
            pack<T, N> b = load<N>(out.p + (size_t)row * out.stride + c);

#pragma unroll
            for (int i = 0; i < N; i++)
                f.delta += to_float(a.x[i]) * to_float(b.x[i]);
        }
        f.log_sum = p.log_sum[p.first_row() + row] * log2_e;
    }
    f.delta = of_row(f.delta, add{});
    if (threadIdx.x % 4 == 0 && row < p.context)
        p.delta[p.first_row() + row] = f.delta;
    return f;
}

/* Replace the score of one element (q * k) by its prob, and its dprob (dout * v) by dscore without
 * the scale, which is applied at the end. */
__device__ inline void derive(float &score, float &dprob, bool seen, row_facts f, float scale2)
{
    float prob = seen ? exp2_fast(fmaf(score, scale2, -f.log_sum)) : 0;

    dprob = prob * (dprob - f.delta);
    score = prob;
}

/* Apply derive to rows of queries, with the arguments of softmax_tile. Rows beyond the context are
 * zeros, and their results are not stored. */
template <bool MASK, int TILES>
__device__ void derive_rows(float (&s)[TILES][4], float (&ds)[TILES][4], const row_facts (&rows)[2],
                            int query, int key, float scale2)
{
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int column = key + 8 * i + 2 * ((int)threadIdx.x % 4) + e % 2;

            derive(s[i][e], ds[i][e], !MASK || column <= query + 8 * (e / 2), rows[e / 2], scale2);
        }
}

/* Compute dq of a block's queries: over the keys up to each, dq += dscores * k. */
template <class T, int WIDTH, bool WIDE>
__global__ void __launch_bounds__(THREADS) dq_kernel(problem<T> p)
{
    constexpr int KEYS = keys_of<T, WIDTH>, LD = WIDTH + factors<T>::PAD, M = tall<T, WIDTH>;
    constexpr int ROWS = block_rows<T, WIDTH>;
    LK_SHARED_OF_LAUNCH(shared);
    T *q = reinterpret_cast<T *>(shared), *dout = q + ROWS * LD;
    T *k = dout + ROWS * LD, *v = k + KEYS * LD;
    constexpr int BUFFER = 2 * KEYS * LD;
    int at = 0;
    int first = (int)(gridDim.x - 1 - blockIdx.x) * ROWS;
    int warp_row = (int)threadIdx.x / LK_WARP * M * MMA_ROWS;
    int query = first + warp_row + (int)threadIdx.x % LK_WARP / 4;
    int keys = first + ROWS < p.context ? first + ROWS : p.context;
    float dq[M][WIDTH / 8][4] = {};
    row_facts rows[M][2];

    load_tile<T, WIDTH, ROWS, WIDE>(q, p.part(p.qkv, 0), first);
    load_tile<T, WIDTH, ROWS, WIDE>(dout, p.heads_side_by_side(p.dout), first);
    load_tile<T, WIDTH, KEYS, WIDE>(k, p.part(p.qkv, 1), 0);
    load_tile<T, WIDTH, KEYS, WIDE>(v, p.part(p.qkv, 2), 0);
#pragma unroll
    for (int r = 0; r < 2 * M; r++)
        rows[r / 2][r % 2] = find_facts<T, WIDE>(p, query + 8 * r);
    for (int key = 0; key < keys; key += KEYS, at = BUFFER - at) {
        float s[M][KEYS / 8][4], ds[M][KEYS / 8][4];

        tiles_are_there();
        if (key + KEYS < keys) {
            load_tile<T, WIDTH, KEYS, WIDE>(k + BUFFER - at, p.part(p.qkv, 1), key + KEYS);
            load_tile<T, WIDTH, KEYS, WIDE>(v + BUFFER - at, p.part(p.qkv, 2), key + KEYS);
        }
        if (key >= first + warp_row + M * MMA_ROWS)
            continue;
        product_of_rows<T, WIDTH>(s, q + warp_row * LD, k + at);
        product_of_rows<T, WIDTH>(ds, dout + warp_row * LD, v + at);
#pragma unroll
        for (int m = 0; m < M; m++)
            if (key + KEYS - 1 <= first + warp_row + m * MMA_ROWS)
                derive_rows<false>(s[m], ds[m], rows[m], 0, 0, p.scale2);
            else
                derive_rows<true>(s[m], ds[m], rows[m], query + m * MMA_ROWS, key, p.scale2);
        add_product_of_sums<T, WIDTH>(dq, ds, k + at);
    }
#pragma unroll
    for (int m = 0; m < M; m++)
        store_sums<T, WIDTH, WIDE>(p.part(p.to, 0), first + warp_row + m * MMA_ROWS, dq[m], p.scale,
                                   p.scale);
}

/* A tile of queries in shared memory, for dkv_kernel. */
template <class T, int WIDTH> struct queries {
    static constexpr int LD = WIDTH + factors<T>::PAD;
    static constexpr size_t BYTES = tile_bytes<T, WIDTH>(2 * QUERIES) + QUERIES * sizeof(row_facts);

    T *q, *dout;
    row_facts *rows;

    __device__ explicit queries(unsigned char *at)
        : q(reinterpret_cast<T *>(at)), dout(q + QUERIES * LD),
          rows(reinterpret_cast<row_facts *>(dout + QUERIES * LD))
    {
    }

    template <bool WIDE> __device__ void load(const problem<T> &p, int first) const
    {
        int mine = first + (int)threadIdx.x;

        load_tile<T, WIDTH, QUERIES, WIDE>(q, p.part(p.qkv, 0), first);
        load_tile<T, WIDTH, QUERIES, WIDE>(dout, p.heads_side_by_side(p.dout), first);
        if (threadIdx.x < QUERIES)
            rows[threadIdx.x] = mine < p.context
                                    ? row_facts{p.log_sum[p.first_row() + mine] * log2_e,
                                                p.delta[p.first_row() + mine]}
                                    : row_facts{0, 0};
    }
};

/* Apply derive to rows of keys and columns of queries, `first` being the first query. MASK: some
 * queries do not see some keys, or are beyond the context. */
template <bool MASK, int TILES>
__device__ void derive_columns(float (&s)[TILES][4], float (&ds)[TILES][4],
                               const row_facts *columns, int key, int first, int context,
                               float scale2)
{
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int column = 8 * i + 2 * ((int)threadIdx.x % 4) + e % 2, query = first + column;

            derive(s[i][e], ds[i][e], !MASK || (key + 8 * (e / 2) <= query && query < context),
                   columns[column], scale2);
        }
}

/* Compute dk and dv of a block's keys, over the queries from each on, with rows of keys and columns
 * of queries: dv += transposed(probs) * dout, dk += transposed(dscores) * q. */
template <class T, int WIDTH, bool WIDE>
__global__ void __launch_bounds__(THREADS) dkv_kernel(problem<T> p)
{
    typedef queries<T, WIDTH> tile;
    constexpr int LD = tile::LD, M = tall<T, WIDTH>, ROWS = block_rows<T, WIDTH>;
    LK_SHARED_OF_LAUNCH(shared);
    T *k = reinterpret_cast<T *>(shared), *v = k + ROWS * LD;
    unsigned char *buffers = reinterpret_cast<unsigned char *>(v + ROWS * LD);
    size_t at = 0;
    int first = (int)blockIdx.x * ROWS; /* the first keys have the most queries */
    int warp_row = (int)threadIdx.x / LK_WARP * M * MMA_ROWS;
    int key = first + warp_row + (int)threadIdx.x % LK_WARP / 4;
    float dk[M][WIDTH / 8][4] = {}, dv[M][WIDTH / 8][4] = {};

    load_tile<T, WIDTH, ROWS, WIDE>(k, p.part(p.qkv, 1), first);
    load_tile<T, WIDTH, ROWS, WIDE>(v, p.part(p.qkv, 2), first);
    tile(buffers).template load<WIDE>(p, first);
    for (int query = first; query < p.context; query += QUERIES, at = tile::BYTES - at) {
        tile now(buffers + at);
        float s[M][QUERIES / 8][4], ds[M][QUERIES / 8][4];

        tiles_are_there();
        if (query + QUERIES < p.context)
            tile(buffers + tile::BYTES - at).template load<WIDE>(p, query + QUERIES);
        if (query + QUERIES <= first + warp_row)
            continue; /* none of these queries sees this warp's keys */
        product_of_rows<T, WIDTH>(s, k + warp_row * LD, now.q);
        product_of_rows<T, WIDTH>(ds, v + warp_row * LD, now.dout);
#pragma unroll
        for (int m = 0; m < M; m++)
            if (query >= first + warp_row + (m + 1) * MMA_ROWS - 1 && query + QUERIES <= p.context)
                derive_columns<false>(s[m], ds[m], now.rows, 0, 0, 0, p.scale2);
            else
                derive_columns<true>(s[m], ds[m], now.rows, key + m * MMA_ROWS, query, p.context,
                                     p.scale2);
        add_product_of_sums<T, WIDTH>(dv, s, now.dout);
        add_product_of_sums<T, WIDTH>(dk, ds, now.q);
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
        int row = first + warp_row + m * MMA_ROWS;

        store_sums<T, WIDTH, WIDE>(p.part(p.to, 1), row, dk[m], p.scale, p.scale);
        store_sums<T, WIDTH, WIDE>(p.part(p.to, 2), row, dv[m], 1, 1);
    }
}

/* ---- Launching ---- */

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
    enum lk_status st = lk_cuda_status(
        cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
        name);

    if (st != LK_OK)
        return st;
    return lk_launch(
        c, name, dim3(blocks_for((size_t)p.context, rows), (unsigned)p.heads, (unsigned)samples),
        THREADS, shared_bytes, kernel, p);
}

template <class T, int WIDTH, bool WIDE>
enum lk_status forward(const struct lk_cuda *c, size_t samples, const problem<T> &p)
{
    constexpr int ROWS = block_rows<T, WIDTH>;

    return launch_tiles(c, "attention_forward", samples, ROWS,
                        tile_bytes<T, WIDTH>(ROWS + 4 * keys_of<T, WIDTH>), p,
                        forward_kernel<T, WIDTH, WIDE>);
}

/* Launch dq_kernel first: it computes delta, which dkv_kernel reads. */
template <class T, int WIDTH, bool WIDE>
enum lk_status backward(const struct lk_cuda *c, size_t samples, const problem<T> &p)
{
    constexpr int ROWS = block_rows<T, WIDTH>;
    const char *name = "attention_backward";
    enum lk_status st;

    st =
        launch_tiles(c, name, samples, ROWS, tile_bytes<T, WIDTH>(2 * ROWS + 4 * keys_of<T, WIDTH>),
                     p, dq_kernel<T, WIDTH, WIDE>);
    if (st != LK_OK)
        return st;
    return launch_tiles(c, name, samples, ROWS,
                        tile_bytes<T, WIDTH>(2 * ROWS) + 2 * queries<T, WIDTH>::BYTES, p,
                        dkv_kernel<T, WIDTH, WIDE>);
}

/* Return true if every row of every head begins at a multiple of 16 bytes. */
template <class T> bool rows_fit(const problem<T> &p)
{
    return p.width % widest<T> == 0 && fits<widest<T>>(p.qkv, p.dout, p.out, (const T *)p.to);
}

template <class T>
enum lk_status attention_forward(const struct lk_attention_forward_args &a, const struct lk_cuda *c)
{
    problem<T> p;
    enum lk_status st =
        describe(&p, "attention_forward", a.samples, a.context, a.channels, a.heads);

    if (st != LK_OK)
        return st;
    p.qkv = static_cast<const T *>(a.qkv);
    p.to = static_cast<T *>(a.out);
    p.log_sum = static_cast<float *>(a.log_sum);
    if (p.width > 64)
        return rows_fit(p) ? forward<T, 128, true>(c, a.samples, p)
                           : forward<T, 128, false>(c, a.samples, p);
    return rows_fit(p) ? forward<T, 64, true>(c, a.samples, p)
                       : forward<T, 64, false>(c, a.samples, p);
}

template <class T>
enum lk_status attention_backward(const struct lk_attention_backward_args &a,
                                  const struct lk_cuda *c)
{
    const char *name = "attention_backward";
    problem<T> p;
    enum lk_status st = describe(&p, name, a.samples, a.context, a.channels, a.heads);

    if (st != LK_OK)
        return st;
    if (a.samples * a.heads * a.context * sizeof(float) > LK_CUDA_WORKSPACE_BYTES)
        return lk_fail(LK_EUNSUPPORTED, "%s: %zu samples of %zu positions and %zu heads at once",
                       name, a.samples, a.context, a.heads);
    p.qkv = static_cast<const T *>(a.qkv);
    p.dout = static_cast<const T *>(a.dout);
    p.out = static_cast<const T *>(a.out);
    p.to = static_cast<T *>(a.dqkv);
    p.log_sum = const_cast<float *>(static_cast<const float *>(a.log_sum));
    p.delta = static_cast<float *>(c->workspace);
    if (p.width > 64)
        return rows_fit(p) ? backward<T, 128, true>(c, a.samples, p)
                           : backward<T, 128, false>(c, a.samples, p);
    return rows_fit(p) ? backward<T, 64, true>(c, a.samples, p)
                       : backward<T, 64, false>(c, a.samples, p);
}

} // namespace

LK_CUDA_OP(attention_forward)
LK_CUDA_OP(attention_backward)
