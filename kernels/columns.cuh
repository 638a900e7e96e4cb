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

#endif
