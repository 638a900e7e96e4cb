/* Attention backward: two kernels, one for dq and one for dk and dv, so that no sum needs atomics:
 * seven products instead of five, and the same bits every time. */
#include "kernels/attention.cuh"

namespace
{

/* Queries per tile in shared memory, for dkv_kernel. */
enum { QUERIES = 32 };

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

template <class T>
enum lk_status attention_backward(const struct lk_attention_backward_args &a,
                                  const struct lk_cuda *c)
{
    const char *name = "attention_backward";
    problem<T> p;
    bool taken = false;
    enum lk_status st = lk_cuda_dnn_backward(c, &a, &taken);

    if (st != LK_OK || taken)
        return st;
    st = describe(&p, name, a.samples, a.context, a.channels, a.heads);
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

LK_CUDA_OP(attention_backward)
