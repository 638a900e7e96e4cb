/* Private to kernels/NAME.cu: elementwise operations, y(i) = f(a(i), b(i)). One pass over memory,
 * 16 bytes per access if all arrays are aligned for it; else one element at a time. */
#ifndef LK_KERNELS_MAP_CUH
#define LK_KERNELS_MAP_CUH

#include "kernels/ptx.cuh"

/* Threads per block: eight warps hide the latency of memory, and the last block wastes little. */
enum { LK_MAP_THREADS = 256 };

/* y may be a or b: an element is read before it is written, by the same thread. */
template <int N, class Y, class A, class B, class F>
__global__ void __launch_bounds__(LK_MAP_THREADS)
    map_kernel(Y *y, const A *a, const B *b, size_t n, F f)
{
    size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t stride = (size_t)gridDim.x * blockDim.x;

    for (size_t i = thread; i < n / N; i += stride) {
        pack<A, N> from_a = load<N>(a + i * N);
        pack<B, N> from_b = load<N>(b + i * N);
        pack<Y, N> to;

#pragma unroll
        for (int k = 0; k < N; k++)
            to.x[k] = f(from_a.x[k], from_b.x[k]);
        store<N>(y + i * N, to);
    }
    for (size_t i = n / N * N + thread; i < n; i += stride)
        y[i] = f(a[i], b[i]);
}

/* Launch map_kernel with N elements per thread where alignment allows: the largest N for which no
 * access is wider than 16 bytes. */
template <class Y, class A, class B, class F>
enum lk_status lk_map(const struct lk_cuda *c, const char *name, Y *y, const A *a, const B *b,
                      size_t n, F f)
{
    constexpr size_t ab = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
    constexpr int N = 16 / (int)(sizeof(Y) > ab ? sizeof(Y) : ab);
    bool wide = fits<N>(y, a, b);

    return lk_launch(c, name, dim3(blocks_for(n, (size_t)LK_MAP_THREADS * (wide ? N : 1))),
                     LK_MAP_THREADS, 0,
                     wide ? map_kernel<N, Y, A, B, F> : map_kernel<1, Y, A, B, F>, y, a, b, n, f);
}

/* Adapt a function of one element. The compiler drops the second load, of the same address. */
template <class F> struct of_first {
    F f;

    template <class A> __device__ auto operator()(A a, A) const
    {
        return f(a);
    }
};

template <class Y, class A, class F>
enum lk_status lk_map(const struct lk_cuda *c, const char *name, Y *y, const A *a, size_t n, F f)
{
    return lk_map(c, name, y, a, a, n, of_first<F>{f});
}

#endif
