/*
 * Private to kernels/NAME.cu: column sums of a matrix, for the gradients of biases and norms. Rows
 * are cut into strips, in a way that depends on their number alone; a strip's sums go to the
 * workspace, and strips are added in a fixed order: every 32nd first, then these 32 sums.
 */
#ifndef LK_KERNELS_COLUMNS_CUH
#define LK_KERNELS_COLUMNS_CUH

#include "kernels/ptx.cuh"

enum { LK_COLUMNS_THREADS = 256, LK_COLUMNS_PARTS = LK_COLUMNS_THREADS / LK_WARP };

/* Return the number of strips for `rows` rows: at most one per row, at most `most`, and at most as
 * many as fit into the workspace with `floats` floats each (possibly 0). */
inline size_t strips_of(size_t rows, size_t floats, size_t most)
{
    size_t room = LK_CUDA_WORKSPACE_BYTES / sizeof(float) / (floats ? floats : 1);
    size_t strips = rows < most ? rows : most;

    return strips < room ? strips : room;
}

/* Destination of column sums: the first `split` columns go to one array, the others to another. */
template <class T> struct column_sums {
    T *first, *second;
    size_t split;

    __device__ T *at(size_t c) const
    {
        return c < split ? first + c : second + (c - split);
    }
};

/* The maximum of warps per block, because strips are many, columns few, and each addition waits for
 * memory. */
enum { LK_STRIPS_PARTS = 32, LK_STRIPS_THREADS = LK_STRIPS_PARTS * LK_WARP };

/* out(c) = sum over strips of partial(strip, c), plus out(c) if accumulate. A warp has 32
 * neighbouring columns; each warp of a block adds every 32nd strip. */
template <class T>
__global__ void __launch_bounds__(LK_STRIPS_THREADS)
    strips_kernel(column_sums<T> out, const float *partial, size_t strips, size_t columns,
                  bool accumulate)
{
    LK_SHARED(float, sums, LK_STRIPS_THREADS);
    size_t c = (size_t)blockIdx.x * LK_WARP + threadIdx.x % LK_WARP;
    size_t part = threadIdx.x / LK_WARP;
    float sum = 0;

    if (c < columns) {
#pragma unroll 4
        for (size_t s = part; s < strips; s += LK_STRIPS_PARTS)
            sum += partial[s * columns + c];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (part > 0 || c >= columns)
        return;
    sum = accumulate ? to_float(*out.at(c)) : 0;
    for (int p = 0; p < LK_STRIPS_PARTS; p++)
        sum += sums[p * LK_WARP + threadIdx.x];
    *out.at(c) = from_float<T>(sum);
}

/* Add the strips' sums into out. partial: (strips, columns). */
template <class T>
enum lk_status sum_strips(const struct lk_cuda *c, const char *name, column_sums<T> out,
                          const float *partial, size_t strips, size_t columns, bool accumulate)
{
    return lk_launch(c, name, dim3(blocks_for(columns, LK_WARP, UINT32_MAX)), LK_STRIPS_THREADS, 0,
                     strips_kernel<T>, out, partial, strips, columns, accumulate);
}

/*
 * Sum the columns of a strip of rows: a lane has N columns, a warp of the block every eighth row.
 * F::SUMS quantities are summed at once: add(sum, r, c) adds those of row r's elements in the N
 * columns from c on, the first quantity's N sums coming first. partial: (strips, SUMS, columns).
 */
template <int N, class F>
__global__ void __launch_bounds__(LK_COLUMNS_THREADS)
    columns_kernel(float *partial, size_t rows, size_t columns, F add)
{
    constexpr int K = N * F::SUMS;
    LK_SHARED(float, sums, LK_COLUMNS_THREADS *K);
    size_t first = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
    size_t c = ((size_t)blockIdx.x * LK_WARP + threadIdx.x % LK_WARP) * N;
    float sum[K] = {};

    for (size_t r = first + threadIdx.x / LK_WARP; r < end && c < columns; r += LK_COLUMNS_PARTS)
        add(sum, r, c);
#pragma unroll
    for (int k = 0; k < K; k++)
        sums[k * LK_COLUMNS_THREADS + threadIdx.x] = sum[k];
    __syncthreads();
    if (threadIdx.x >= LK_WARP || c >= columns)
        return;
    for (int k = 0; k < K; k++) {
        float total = 0;

        for (int part = 0; part < LK_COLUMNS_PARTS; part++)
            total += sums[k * LK_COLUMNS_THREADS + part * LK_WARP + (int)threadIdx.x];
        partial[(blockIdx.y * F::SUMS + k / N) * columns + c + (size_t)(k % N)] = total;
    }
}

/*
 * Sum columns of rows that F<N, T>{of...} gives into the workspace, in at most `most` strips, each
 * of at least eight rows a warp; *out_strips is their number. wide: 16 bytes of a row may be moved
 * at once, if that divides its columns.
 */
template <template <int, class> class F, class T, class... A>
enum lk_status partial_columns(const struct lk_cuda *c, const char *name, size_t rows,
                               size_t columns, size_t most, bool wide, size_t *out_strips, A... of)
{
    constexpr int N = widest<T>;
    float *partial = static_cast<float *>(c->workspace);
    size_t strips = strips_of((rows + 63) / 64, F<N, T>::SUMS * columns, most);
    dim3 grid;

    if (rows > 0 && strips == 0)
        return lk_fail(LK_EUNSUPPORTED, "%s: sums of %zu columns", name, columns);
    wide = wide && columns % N == 0;
    grid =
        dim3(blocks_for(columns, (size_t)LK_WARP * (wide ? N : 1), UINT32_MAX), (unsigned)strips);
    *out_strips = strips;
    return wide ? lk_launch(c, name, grid, LK_COLUMNS_THREADS, 0, columns_kernel<N, F<N, T>>,
                            partial, rows, columns, F<N, T>{of...})
                : lk_launch(c, name, grid, LK_COLUMNS_THREADS, 0, columns_kernel<1, F<1, T>>,
                            partial, rows, columns, F<1, T>{of...});
}

/* Sum columns as partial_columns does, of one quantity, and add the strips into out. */
template <template <int, class> class F, class T, class... A>
enum lk_status sum_columns(const struct lk_cuda *c, const char *name, column_sums<T> out,
                           size_t rows, size_t most, bool wide, bool accumulate, A... of)
{
    size_t strips;
    enum lk_status st = partial_columns<F, T>(c, name, rows, out.split, most, wide, &strips, of...);

    if (st != LK_OK)
        return st;
    return sum_strips(c, name, out, static_cast<float *>(c->workspace), strips, out.split,
                      accumulate);
}

/* Sum the values of a matrix as they are stored. */
template <int N, class T> struct stored {
    static constexpr int SUMS = 1;
    const T *in;
    size_t stride;

    __device__ void operator()(float (&sum)[N], size_t r, size_t c) const
    {
        pack<T, N> from = load<N>(in + r * stride + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            sum[k] += to_float(from.x[k]);
    }
};

#endif
