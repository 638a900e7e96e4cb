/* Vector operations, the sum of squares and the checksum. */
#include "base/checksum.h"
#include "kernels/map.cuh"

namespace
{

template <class T> struct times {
    float factor;

    __device__ T operator()(T x) const
    {
        return from_float<T>(to_float(x) * factor);
    }
};

template <class T> struct constant {
    float value;

    __device__ T operator()(T) const
    {
        return from_float<T>(value);
    }
};

template <class T> struct plus_times {
    float factor;

    __device__ T operator()(T y, T x) const
    {
        return from_float<T>(to_float(y) + factor * to_float(x));
    }
};

template <class T> struct clipped {
    const float *sum_squares;
    float most, scale;

    __device__ T operator()(T x) const
    {
        return from_float<T>(to_float(x) *
                             fminf(1, most / (sqrtf(*sum_squares) / scale + (float)LK_CLIP_EPS)));
    }
};

template <class W> struct converted {
    template <class T> __device__ W operator()(T x) const
    {
        return from_float<W>(to_float(x));
    }
};

template <class T> enum lk_status scale(const struct lk_scale_args &a, const struct lk_cuda *c)
{
    T *x = static_cast<T *>(a.x);

    return lk_map(c, "scale", x, x, a.n, times<T>{(float)a.factor});
}

/* fill maps a function that ignores its argument: the compiler drops the load. The value is rounded
 * on the GPU: a __device__ function that the host calls ends the process, and nvcc does not say so.
 */
template <class T> enum lk_status fill(const struct lk_fill_args &a, const struct lk_cuda *c)
{
    T *x = static_cast<T *>(a.x);

    return lk_map(c, "fill", x, x, a.n, constant<T>{(float)a.value});
}

template <class T> enum lk_status axpy(const struct lk_axpy_args &a, const struct lk_cuda *c)
{
    T *y = static_cast<T *>(a.y);

    return lk_map(c, "axpy", y, static_cast<const T *>(y), static_cast<const T *>(a.x), a.n,
                  plus_times<T>{(float)a.factor});
}

template <class T> enum lk_status clip(const struct lk_clip_args &a, const struct lk_cuda *c)
{
    T *x = static_cast<T *>(a.x);

    return lk_map(
        c, "clip", x, x, a.n,
        clipped<T>{static_cast<const float *>(a.sum_squares), (float)a.most, (float)a.scale});
}

template <class W, class T>
enum lk_status to_wire(const struct lk_cast_to_wire_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "cast_to_wire", reinterpret_cast<W *>(a.out), static_cast<const T *>(a.in),
                  a.n, converted<W>{});
}

template <class T>
enum lk_status cast_to_wire(const struct lk_cast_to_wire_args &a, const struct lk_cuda *c)
{
    return a.dtype == LK_F16 ? to_wire<f16, T>(a, c) : to_wire<bf16, T>(a, c);
}

template <class W, class T>
enum lk_status from_wire(const struct lk_cast_from_wire_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "cast_from_wire", static_cast<T *>(a.out), reinterpret_cast<const W *>(a.in),
                  a.n, converted<T>{});
}

template <class T>
enum lk_status cast_from_wire(const struct lk_cast_from_wire_args &a, const struct lk_cuda *c)
{
    return a.dtype == LK_F16 ? from_wire<f16, T>(a, c) : from_wire<bf16, T>(a, c);
}

/*
 * The sum of squares takes two launches: up to 1024 partial sums, then their sum in double. A
 * thread adds n / 2^18 floats, so that its rounding error stays small for any model.
 */
enum { SUM_THREADS = 256, SUM_BLOCKS = 1024, SUM_EACH = 16 };

template <int N, class T>
__global__ void __launch_bounds__(SUM_THREADS) squares_kernel(float *partial, const T *in, size_t n)
{
    LK_SHARED(float, shared, LK_WARP);
    size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    float sum = 0;

    for (size_t i = thread; i < n / N; i += stride) {
        pack<T, N> from = load<N>(in + i * N);
        float part = 0;

#pragma unroll
        for (int k = 0; k < N; k++)
            part += to_float(from.x[k]) * to_float(from.x[k]);
        sum += part;
    }
    for (size_t i = n / N * N + thread; i < n; i += stride)
        sum += to_float(in[i]) * to_float(in[i]);
    sum = block_reduce(sum, add{}, 0.0F, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* Add the partial sums in one warp; the lanes' sums, in double, are added in order through shared
 * memory. */
__global__ void __launch_bounds__(LK_WARP)
    total_kernel(float *out, const float *partial, size_t n, bool accumulate)
{
    LK_SHARED(double, sums, LK_WARP);
    double sum = 0;

    for (size_t i = threadIdx.x; i < n; i += LK_WARP)
        sum += partial[i];
    sums[threadIdx.x] = sum;
    __syncwarp();
    if (threadIdx.x != 0)
        return;
    sum = accumulate ? *out : 0;
    for (int lane = 0; lane < LK_WARP; lane++)
        sum += sums[lane];
    *out = (float)sum;
}

template <class T>
enum lk_status sum_squares(const struct lk_sum_squares_args &a, const struct lk_cuda *c)
{
    const T *in = static_cast<const T *>(a.in);
    float *partial = static_cast<float *>(c->workspace);
    unsigned blocks = blocks_for(a.n, (size_t)SUM_THREADS * SUM_EACH, SUM_BLOCKS);
    enum lk_status st;

    st = lk_launch(c, "sum_squares", dim3(blocks), SUM_THREADS, 0,
                   fits<widest<T>>(in) ? squares_kernel<widest<T>, T> : squares_kernel<1, T>,
                   partial, in, a.n);
    if (st != LK_OK)
        return st;
    return lk_launch(c, "sum_squares", dim3(1), LK_WARP, 0, total_kernel,
                     static_cast<float *>(a.out), partial, blocks, a.accumulate);
}

/* The checksum takes two launches in the same way; the order of its sums does not matter. */
__global__ void __launch_bounds__(SUM_THREADS)
    words_kernel(unsigned long long *partial, const uint32_t *words, size_t n)
{
    LK_SHARED(unsigned long long, shared, LK_WARP);
    size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    unsigned long long sum = 0;

    for (size_t i = thread; i < n; i += stride)
        sum += lk_checksum_word(words[i], i);
    sum = block_reduce(sum, add{}, 0ULL, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(LK_WARP)
    word_sums_kernel(uint64_t *out, const unsigned long long *partial, size_t n)
{
    unsigned long long sum = 0;

    for (size_t i = threadIdx.x; i < n; i += LK_WARP)
        sum += partial[i];
    sum = warp_reduce(sum, add{});
    if (threadIdx.x == 0)
        *out = sum;
}

template <class T>
enum lk_status checksum(const struct lk_checksum_args &a, const struct lk_cuda *c)
{
    unsigned long long *partial = static_cast<unsigned long long *>(c->workspace);
    unsigned blocks = blocks_for(a.n, (size_t)SUM_THREADS * SUM_EACH, SUM_BLOCKS);
    enum lk_status st;

    st =
        lk_launch(c, "checksum", dim3(blocks), SUM_THREADS, 0, words_kernel, partial, a.words, a.n);
    if (st != LK_OK)
        return st;
    return lk_launch(c, "checksum", dim3(1), LK_WARP, 0, word_sums_kernel, a.sum, partial, blocks);
}

} // namespace

LK_CUDA_OP(checksum)
LK_CUDA_OP(scale)
LK_CUDA_OP(fill)
LK_CUDA_OP(axpy)
LK_CUDA_OP(clip)
LK_CUDA_OP(cast_to_wire)
LK_CUDA_OP(cast_from_wire)
LK_CUDA_OP(sum_squares)
