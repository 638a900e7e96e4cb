/*
 * Causal attention without the matrix of probabilities in memory: FlashAttention-2 (Dao 2023), on
 * the tensor cores by mma instructions (kernels/ptx.cuh).
 *
 * A block has 64 queries (or keys) of one head, a warp 16 of them; tiles of the other side go
 * through shared memory, two buffers of them: the next tile comes while this one is multiplied.
 * Forward keeps the logarithm of each row's sum, from which backward computes the probabilities
 * again. Backward runs two kernels, one for dq and one for dk and dv, so that no sum is formed by
 * atomics: seven products instead of five, and the same bits every time.
 *
 * Heads up to 128 wide; the tile is 64 or 128 wide, zero where the head is narrower. Products are
 * of bfloat16, or of tf32 where lk_real is float; sums, softmax and its derivative are float.
 */
#include "kernels/ptx.cuh"

#include <cmath>

namespace
{

enum { THREADS = 128, WARP_ROWS = 16, TILE_ROWS = THREADS / LK_WARP * WARP_ROWS };

constexpr float log2_e = 1.44269504088896340736F;

/* ---- Products of tiles in shared memory, of 16 rows a warp ---- */

/*
 * T's factors: a step of a product over K elements. LD(width) is the length of a row in shared
 * memory that keeps the eight rows which a warp reads at once in different banks.
 *
 *   load_a            (16, K) of a row-major tile
 *   load_b_rows       (K, 16) as two factors, from a row-major (16, K): the tile is used transposed
 *   load_b_columns    (K, 16) as two factors, from a row-major (K, 16)
 *   from_sums         the sums of an earlier product, K columns of them, as a factor. With
 *                     load_b_columns on the other side; the two agree on the order of the K terms.
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

    static __device__ uint32_t two(float low, float high)
    {
        return (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(low)) |
               (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
    }

    static __device__ void from_sums(uint32_t (&a)[4], const float (*sums)[4])
    {
        a[0] = two(sums[0][0], sums[0][1]);
        a[1] = two(sums[0][2], sums[0][3]);
        a[2] = two(sums[1][0], sums[1][1]);
        a[3] = two(sums[1][2], sums[1][3]);
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

    /* Term t of the instruction is row 2t of the tile and term t + 4 row 2t + 1: then the columns
     * that a lane has of an earlier product are the terms that it needs. */
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

/* d(16, 8 * TILES) = a(16, WIDTH) * transposed(b(8 * TILES, WIDTH)), both tiles in shared memory.
 */
template <class T, int WIDTH, int TILES>
__device__ void product_of_rows(float (&d)[TILES][4], const T *a, const T *b)
{
    constexpr int ld = WIDTH + factors<T>::PAD;

#pragma unroll
    for (int i = 0; i < TILES; i++)
        d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0;
#pragma unroll
    for (int k = 0; k < WIDTH; k += factors<T>::K) {
        uint32_t left[4], right[2][2];

        factors<T>::load_a(left, a + k, ld);
#pragma unroll
        for (int i = 0; i < TILES; i += 2) {
            factors<T>::load_b_rows(right, b + 8 * i * ld + k, ld);
            factors<T>::multiply(d[i], left, right[0]);
            factors<T>::multiply(d[i + 1], left, right[1]);
        }
    }
}

/* d(16, WIDTH) += sums(16, 8 * TILES) * b(8 * TILES, WIDTH), b in shared memory. */
template <class T, int WIDTH, int TILES>
__device__ void add_product_of_sums(float (&d)[WIDTH / 8][4], const float (&sums)[TILES][4],
                                    const T *b)
{
    constexpr int ld = WIDTH + factors<T>::PAD, step = factors<T>::K / 8;

#pragma unroll
    for (int k = 0; k < TILES; k += step) {
        uint32_t left[4], right[2][2];

        factors<T>::from_sums(left, &sums[k]);
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i += 2) {
            factors<T>::load_b_columns(right, b + 8 * k * ld + 8 * i, ld);
            factors<T>::multiply(d[i], left, right[0]);
            factors<T>::multiply(d[i + 1], left, right[1]);
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

/* ROWS rows from row `first` on; zero outside the matrix, so that no product meets a NaN that is
 * not there. WIDE: 16 bytes at once, by copies that have come when tiles_are_there returns. */
template <class T, int WIDTH, int ROWS, bool WIDE>
__device__ void load_tile(T *tile, const rows_of<const T> &m, int first)
{
    constexpr int N = WIDE ? widest<T> : 1, packs = WIDTH / N, ld = WIDTH + factors<T>::PAD;

/* Nothing waits for a copy that has begun, and more addresses at once would take registers. */
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

/* What this thread has begun to load is there for all, and all are done with what they read
 * before. */
__device__ inline void tiles_are_there()
{
    wait_for_copies();
    __syncthreads();
}

/* A warp's 16 rows of sums, from row `first` on, times factor. Lane's elements: kernels/ptx.cuh. */
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

/* Sum, or largest, of the four lanes that share a row of sums. */
template <class F> __device__ float of_row(float x, F f)
{
    x = f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, 1));
    return f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, 2));
}

/* ---- Forward ---- */

/* What all kernels need: (samples, context, 3 * channels) and its parts. */
template <class T> struct problem {
    const T *qkv, *dout, *out;
    T *to; /* forward: out; backward: dqkv */
    float *log_sum;
    float *delta; /* (samples, heads, context): dot products of dout and out */
    int context, heads, width;
    float scale; /* of the scores: 1 / sqrt(width) */

    __device__ size_t channels() const
    {
        return (size_t)heads * width;
    }

    /* part: 0 q, 1 k, 2 v; of the block's sample and head. */
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

/* Rows of the other side in shared memory at a time. */
template <class T, int WIDTH> constexpr int tile_of = sizeof(T) == 2 && WIDTH == 64 ? 64 : 32;

template <class T, int WIDTH> constexpr size_t tile_bytes(int rows)
{
    return (size_t)rows * (WIDTH + factors<T>::PAD) * sizeof(T);
}

/* A lane's part of a row of the online softmax, in units of log2. */
struct softmax_row {
    float max, sum;
};

/*
 * Scores to exp2(score - max), with the sums and the output so far brought to the new maximum.
 * key: of the tile's first column; query: of this lane's first row.
 */
template <int TILES, int WIDTH>
__device__ void softmax_tile(float (&s)[TILES][4], softmax_row (&rows)[2],
                             float (&out)[WIDTH / 8][4], int query, int key, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        softmax_row &row = rows[half];
        float larger = row.max, shrink;

#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            float &x = s[i / 2][2 * half + i % 2];
            int column = key + 8 * (i / 2) + 2 * ((int)threadIdx.x % 4) + i % 2;

            x = column <= query + 8 * half ? x * scale : -INFINITY;
            larger = fmaxf(larger, x);
        }
        larger = of_row(larger, [](float a, float b) { return fmaxf(a, b); });
        shrink = exp2f(row.max - larger);
        row.sum *= shrink;
        row.max = larger;
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            float &x = s[i / 2][2 * half + i % 2];

            x = exp2f(x - larger);
            row.sum += x;
        }
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++) {
            out[i][2 * half] *= shrink;
            out[i][2 * half + 1] *= shrink;
        }
    }
}

/* A query sees its own key, so after the first tile that it sees any maximum is finite. The first
 * tile has key 0, which all see. */
template <class T, int WIDTH, bool WIDE>
__global__ void __launch_bounds__(THREADS) forward_kernel(problem<T> p)
{
    constexpr int KEYS = tile_of<T, WIDTH>, LD = WIDTH + factors<T>::PAD;
    LK_SHARED_OF_LAUNCH(shared);
    T *q = reinterpret_cast<T *>(shared), *k = q + TILE_ROWS * LD, *v = k + KEYS * LD;
    constexpr int BUFFER = 2 * KEYS * LD; /* from a tile to the next one's */
    int at = 0;
    /* The last queries have the most keys: they start first. */
    int first = (int)(gridDim.x - 1 - blockIdx.x) * TILE_ROWS;
    int warp_row = (int)threadIdx.x / LK_WARP * WARP_ROWS;
    int query = first + warp_row + (int)threadIdx.x % LK_WARP / 4;
    int keys = first + TILE_ROWS < p.context ? first + TILE_ROWS : p.context;
    float out[WIDTH / 8][4] = {};
    softmax_row rows[2] = {
        {-INFINITY, 0},
        {-INFINITY, 0}
    };

    load_tile<T, WIDTH, TILE_ROWS, WIDE>(q, p.part(p.qkv, 0), first);
    load_tile<T, WIDTH, KEYS, WIDE>(k, p.part(p.qkv, 1), 0);
    load_tile<T, WIDTH, KEYS, WIDE>(v, p.part(p.qkv, 2), 0);
    for (int key = 0; key < keys; key += KEYS, at = BUFFER - at) {
        float s[KEYS / 8][4];

        tiles_are_there();
        if (key + KEYS < keys) {
            load_tile<T, WIDTH, KEYS, WIDE>(k + BUFFER - at, p.part(p.qkv, 1), key + KEYS);
            load_tile<T, WIDTH, KEYS, WIDE>(v + BUFFER - at, p.part(p.qkv, 2), key + KEYS);
        }
        product_of_rows<T, WIDTH>(s, q + warp_row * LD, k + at);
        softmax_tile<KEYS / 8, WIDTH>(s, rows, out, query, key, p.scale * log2_e);
        add_product_of_sums<T, WIDTH>(out, s, v + at);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        rows[half].sum = of_row(rows[half].sum, add{});
        if (threadIdx.x % 4 == 0 && query + 8 * half < p.context)
            p.log_sum[p.first_row() + query + 8 * half] =
                rows[half].max / log2_e + logf(rows[half].sum);
    }
    store_sums<T, WIDTH, WIDE>(p.heads_side_by_side(p.to), first + warp_row, out, 1 / rows[0].sum,
                               1 / rows[1].sum);
}

/* ---- Backward ---- */

/* delta = sum over the head of dout * out: what the softmax's derivative subtracts. A warp a row.
 */
template <class T> __global__ void __launch_bounds__(THREADS) delta_kernel(problem<T> p)
{
    int row = (int)blockIdx.x * (THREADS / LK_WARP) + (int)threadIdx.x / LK_WARP;
    rows_of<const T> dout = p.heads_side_by_side(p.dout), out = p.heads_side_by_side(p.out);
    float sum = 0;

    if (row >= p.context)
        return;
    for (int c = (int)threadIdx.x % LK_WARP; c < p.width; c += LK_WARP)
        sum += to_float(dout.p[row * dout.stride + c]) * to_float(out.p[row * out.stride + c]);
    sum = warp_reduce(sum, add{});
    if (threadIdx.x % LK_WARP == 0)
        p.delta[p.first_row() + row] = sum;
}

/* probs and dscores of one element; scores are q * k without the scale, dprobs is dout * v. */
__device__ inline void derive(float &score, float &dprob, bool seen, float log_sum, float delta,
                              float scale)
{
    float prob = seen ? exp2f((score * scale - log_sum) * log2_e) : 0;

    dprob = prob * (dprob - delta) * scale;
    score = prob;
}

/* dq of 64 queries: over the keys up to them, dq += dscores * k. */
template <class T, int WIDTH, bool WIDE>
__global__ void __launch_bounds__(THREADS) dq_kernel(problem<T> p)
{
    constexpr int KEYS = tile_of<T, WIDTH>, LD = WIDTH + factors<T>::PAD;
    LK_SHARED_OF_LAUNCH(shared);
    T *q = reinterpret_cast<T *>(shared), *dout = q + TILE_ROWS * LD;
    T *k = dout + TILE_ROWS * LD, *v = k + KEYS * LD;
    constexpr int BUFFER = 2 * KEYS * LD;
    int at = 0;
    int first = (int)(gridDim.x - 1 - blockIdx.x) * TILE_ROWS;
    int warp_row = (int)threadIdx.x / LK_WARP * WARP_ROWS;
    int query = first + warp_row + (int)threadIdx.x % LK_WARP / 4;
    int keys = first + TILE_ROWS < p.context ? first + TILE_ROWS : p.context;
    float dq[WIDTH / 8][4] = {}, log_sum[2] = {}, delta[2] = {};

    for (int half = 0; half < 2; half++)
        if (query + 8 * half < p.context) {
            log_sum[half] = p.log_sum[p.first_row() + query + 8 * half];
            delta[half] = p.delta[p.first_row() + query + 8 * half];
        }
    load_tile<T, WIDTH, TILE_ROWS, WIDE>(q, p.part(p.qkv, 0), first);
    load_tile<T, WIDTH, TILE_ROWS, WIDE>(dout, p.heads_side_by_side(p.dout), first);
    load_tile<T, WIDTH, KEYS, WIDE>(k, p.part(p.qkv, 1), 0);
    load_tile<T, WIDTH, KEYS, WIDE>(v, p.part(p.qkv, 2), 0);
    for (int key = 0; key < keys; key += KEYS, at = BUFFER - at) {
        float s[KEYS / 8][4], ds[KEYS / 8][4];

        tiles_are_there();
        if (key + KEYS < keys) {
            load_tile<T, WIDTH, KEYS, WIDE>(k + BUFFER - at, p.part(p.qkv, 1), key + KEYS);
            load_tile<T, WIDTH, KEYS, WIDE>(v + BUFFER - at, p.part(p.qkv, 2), key + KEYS);
        }
        product_of_rows<T, WIDTH>(s, q + warp_row * LD, k + at);
        product_of_rows<T, WIDTH>(ds, dout + warp_row * LD, v + at);
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int column = key + 8 * i + 2 * ((int)threadIdx.x % 4) + e % 2;
                int row = query + 8 * (e / 2);

                derive(s[i][e], ds[i][e], column <= row && row < p.context, log_sum[e / 2],
                       delta[e / 2], p.scale);
            }
        add_product_of_sums<T, WIDTH>(dq, ds, k + at);
    }
    store_sums<T, WIDTH, WIDE>(p.part(p.to, 0), first + warp_row, dq, 1, 1);
}

/* A tile of queries as dkv_kernel reads it. */
template <class T, int WIDTH> struct queries {
    static constexpr int ROWS = tile_of<T, WIDTH>, LD = WIDTH + factors<T>::PAD;
    static constexpr size_t BYTES = tile_bytes<T, WIDTH>(2 * ROWS) + 2 * ROWS * sizeof(float);

    T *q, *dout;
    float *log_sum, *delta;

    __device__ explicit queries(unsigned char *at)
        : q(reinterpret_cast<T *>(at)), dout(q + ROWS * LD),
          log_sum(reinterpret_cast<float *>(dout + ROWS * LD)), delta(log_sum + ROWS)
    {
    }

    template <bool WIDE> __device__ void load(const problem<T> &p, int first) const
    {
        int mine = first + (int)threadIdx.x;

        load_tile<T, WIDTH, ROWS, WIDE>(q, p.part(p.qkv, 0), first);
        load_tile<T, WIDTH, ROWS, WIDE>(dout, p.heads_side_by_side(p.dout), first);
        if (threadIdx.x < ROWS) {
            log_sum[threadIdx.x] = mine < p.context ? p.log_sum[p.first_row() + mine] : 0;
            delta[threadIdx.x] = mine < p.context ? p.delta[p.first_row() + mine] : 0;
        }
    }
};

/* dk and dv of 64 keys: over the queries from them on, with rows of keys and columns of queries:
 * dv += transposed(probs) * dout, dk += transposed(dscores) * q. */
template <class T, int WIDTH, bool WIDE>
__global__ void __launch_bounds__(THREADS) dkv_kernel(problem<T> p)
{
    typedef queries<T, WIDTH> tile;
    constexpr int QUERIES = tile::ROWS, LD = tile::LD;
    LK_SHARED_OF_LAUNCH(shared);
    T *k = reinterpret_cast<T *>(shared), *v = k + TILE_ROWS * LD;
    unsigned char *buffers = reinterpret_cast<unsigned char *>(v + TILE_ROWS * LD);
    size_t at = 0;
    int first = (int)blockIdx.x * TILE_ROWS; /* the first keys have the most queries */
    int warp_row = (int)threadIdx.x / LK_WARP * WARP_ROWS;
    int key = first + warp_row + (int)threadIdx.x % LK_WARP / 4;
    float dk[WIDTH / 8][4] = {}, dv[WIDTH / 8][4] = {};

    load_tile<T, WIDTH, TILE_ROWS, WIDE>(k, p.part(p.qkv, 1), first);
    load_tile<T, WIDTH, TILE_ROWS, WIDE>(v, p.part(p.qkv, 2), first);
    tile(buffers).template load<WIDE>(p, first);
    for (int query = first; query < p.context; query += QUERIES, at = tile::BYTES - at) {
        tile now(buffers + at);
        float s[QUERIES / 8][4], ds[QUERIES / 8][4];

        tiles_are_there();
        if (query + QUERIES < p.context)
            tile(buffers + tile::BYTES - at).template load<WIDE>(p, query + QUERIES);
        product_of_rows<T, WIDTH>(s, k + warp_row * LD, now.q);
        product_of_rows<T, WIDTH>(ds, v + warp_row * LD, now.dout);
#pragma unroll
        for (int i = 0; i < QUERIES / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int column = 8 * i + 2 * ((int)threadIdx.x % 4) + e % 2;

                derive(s[i][e], ds[i][e],
                       key + 8 * (e / 2) <= query + column && query + column < p.context,
                       now.log_sum[column], now.delta[column], p.scale);
            }
        add_product_of_sums<T, WIDTH>(dv, s, now.dout);
        add_product_of_sums<T, WIDTH>(dk, ds, now.q);
    }
    store_sums<T, WIDTH, WIDE>(p.part(p.to, 1), first + warp_row, dk, 1, 1);
    store_sums<T, WIDTH, WIDE>(p.part(p.to, 2), first + warp_row, dv, 1, 1);
}

/* ---- Launching ---- */

template <class T>
enum lk_status describe(problem<T> *out, const char *name, size_t samples, size_t context,
                        size_t channels, size_t heads)
{
    enum { WIDEST_HEAD = 128, MOST_ROWS = 65535 };
    size_t width = channels / heads;

    if (width > WIDEST_HEAD || context > MOST_ROWS || heads > MOST_ROWS || samples > MOST_ROWS)
        return lk_fail(
            LK_EUNSUPPORTED,
            "%s: %zu samples of %zu positions, %zu heads %zu wide; heads are at most %d wide", name,
            samples, context, heads, width, (int)WIDEST_HEAD);
    *out = {};
    out->context = (int)context;
    out->heads = (int)heads;
    out->width = (int)width;
    out->scale = (float)(1 / sqrt((double)width));
    return LK_OK;
}

template <class T> unsigned tiles_of(const problem<T> &p)
{
    return blocks_for((size_t)p.context, TILE_ROWS);
}

/* A kernel of TILE_ROWS rows a block, with more shared memory than a kernel has unasked. */
template <class T>
enum lk_status launch_tiles(const struct lk_cuda *c, const char *name, size_t samples,
                            size_t shared_bytes, const problem<T> &p, void (*kernel)(problem<T>))
{
    enum lk_status st = lk_cuda_status(
        cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
        name);

    if (st != LK_OK)
        return st;
    return lk_launch(c, name, dim3(tiles_of(p), (unsigned)p.heads, (unsigned)samples), THREADS,
                     shared_bytes, kernel, p);
}

template <class T, int WIDTH, bool WIDE>
enum lk_status forward(const struct lk_cuda *c, size_t samples, const problem<T> &p)
{
    size_t bytes = tile_bytes<T, WIDTH>(TILE_ROWS + 4 * tile_of<T, WIDTH>);

    return launch_tiles(c, "attention_forward", samples, bytes, p, forward_kernel<T, WIDTH, WIDE>);
}

template <class T, int WIDTH, bool WIDE>
enum lk_status backward(const struct lk_cuda *c, size_t samples, const problem<T> &p)
{
    const char *name = "attention_backward";
    size_t bytes = tile_bytes<T, WIDTH>(2 * TILE_ROWS);
    enum lk_status st;

    st = launch_tiles(c, name, samples, bytes + tile_bytes<T, WIDTH>(4 * tile_of<T, WIDTH>), p,
                      dq_kernel<T, WIDTH, WIDE>);
    if (st != LK_OK)
        return st;
    return launch_tiles(c, name, samples, bytes + 2 * queries<T, WIDTH>::BYTES, p,
                        dkv_kernel<T, WIDTH, WIDE>);
}

/* Whether every row of every head begins at a multiple of 16 bytes. */
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
    st = lk_launch(
        c, name,
        dim3(blocks_for(a.context, THREADS / LK_WARP), (unsigned)a.heads, (unsigned)a.samples),
        THREADS, 0, delta_kernel<T>, p);
    if (st != LK_OK)
        return st;
    if (p.width > 64)
        return rows_fit(p) ? backward<T, 128, true>(c, a.samples, p)
                           : backward<T, 128, false>(c, a.samples, p);
    return rows_fit(p) ? backward<T, 64, true>(c, a.samples, p)
                       : backward<T, 64, false>(c, a.samples, p);
}

} // namespace

LK_CUDA_OP(attention_forward)
LK_CUDA_OP(attention_backward)
