/* Attention forward: one pass over the keys with an online softmax. It keeps the logarithm of each
 * row's sum, from which backward recomputes the probabilities. */
#include "kernels/attention.cuh"

namespace
{

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

template <class T, int WIDTH, bool WIDE>
enum lk_status forward(const struct lk_cuda *c, size_t samples, const problem<T> &p)
{
    constexpr int ROWS = block_rows<T, WIDTH>;

    return launch_tiles(c, "attention_forward", samples, ROWS,
                        tile_bytes<T, WIDTH>(ROWS + 4 * keys_of<T, WIDTH>), p,
                        forward_kernel<T, WIDTH, WIDE>);
}

template <class T>
enum lk_status attention_forward(const struct lk_attention_forward_args &a, const struct lk_cuda *c)
{
    problem<T> p;
    bool taken = false;
    enum lk_status st = lk_cuda_dnn_forward(c, &a, &taken);

    if (st != LK_OK || taken)
        return st;
    st = describe(&p, "attention_forward", a.samples, a.context, a.channels, a.heads);
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

} // namespace

LK_CUDA_OP(attention_forward)
