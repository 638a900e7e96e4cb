/*
 * Private to kernels/NAME.cu: sums over the rows of a matrix, for the gradients of biases and
 * norms. Rows are cut into strips by their number alone, a strip's sums go to the workspace, and
 * strips are added in order.
 */
#ifndef LK_KERNELS_COLUMNS_CUH
#define LK_KERNELS_COLUMNS_CUH

#include "kernels/device.cuh"

enum { LK_COLUMNS_THREADS = 256, LK_COLUMNS_PARTS = LK_COLUMNS_THREADS / LK_WARP };

/* Strips of `rows` rows, with `floats` floats a strip in the workspace; 0 when one does not fit. */
inline size_t strips_of(size_t rows, size_t floats, size_t most)
{
    size_t room = LK_CUDA_WORKSPACE_BYTES / sizeof(float) / (floats ? floats : 1);
    size_t strips = rows < most ? rows : most;

    return strips < room ? strips : room;
}

/* out(c) = sum over strips of partial(strip, c), added to out where accumulate. A warp has 32
 * neighbouring columns, the warps of a block every eighth strip. */
template <class T>
__global__ void __launch_bounds__(LK_COLUMNS_THREADS)
    strips_kernel(T *out, const float *partial, size_t strips, size_t stride, size_t columns,
                  bool accumulate)
{
    LK_SHARED(float, sums, LK_COLUMNS_THREADS);
    size_t c = (size_t)blockIdx.x * LK_WARP + threadIdx.x % LK_WARP;
    size_t part = threadIdx.x / LK_WARP;
    float sum = 0;

    for (size_t s = part; s < strips && c < columns; s += LK_COLUMNS_PARTS)
        sum += partial[s * stride + c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (part > 0 || c >= columns)
        return;
    sum = accumulate ? to_float(out[c]) : 0;
    for (int p = 0; p < LK_COLUMNS_PARTS; p++)
        sum += sums[p * LK_WARP + threadIdx.x];
    out[c] = from_float<T>(sum);
}

template <class T>
enum lk_status sum_strips(const struct lk_cuda *c, const char *name, T *out, const float *partial,
                          size_t strips, size_t stride, size_t columns, bool accumulate)
{
    return lk_launch(c, name, dim3(blocks_for(columns, LK_WARP, UINT32_MAX)), LK_COLUMNS_THREADS, 0,
                     strips_kernel<T>, out, partial, strips, stride, columns, accumulate);
}

#endif
