/*
 * Private to kernels/NAME.cu: functions and macros that kernels and their launchers share.
 *
 * The sources are compiled twice: by nvcc, and for tests without a GPU by a C++ compiler for the
 * host, with the headers of tests/cuda_shim instead of CUDA's. Shared memory is therefore declared
 * by macros, kernels start through lk_launch, and inline PTX is only in kernels/ptx.cuh.
 *
 * Equal inputs give equal bits: no float is added by an atomic, and the order of a sum depends on
 * its shape alone, never on the GPU.
 */
#ifndef LK_KERNELS_DEVICE_CUH
#define LK_KERNELS_DEVICE_CUH

extern "C" {
#include "kernels/cuda.h"
#include "kernels/impl.h"
}

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#ifndef LK_SHARED /* the shim has its own */
/* Shared memory of a block: an array of n elements, or the dynamic memory that the launch
 * requests. */
#define LK_SHARED(type, name, n)  __shared__ type name[n]
#define LK_SHARED_OF_LAUNCH(name) extern __shared__ __align__(16) unsigned char name[]
#endif

typedef __nv_bfloat16 bf16;
typedef __half f16;

enum { LK_WARP = 32, LK_ALL_LANES = -1 };

/* ---- Elements ---- */

__device__ inline float to_float(float x)
{
    return x;
}

__device__ inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}

__device__ inline float to_float(f16 x)
{
    return __half2float(x);
}

template <class T> __device__ inline T from_float(float x);

template <> __device__ inline float from_float<float>(float x)
{
    return x;
}

template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <> __device__ inline f16 from_float<f16>(float x)
{
    return __float2half_rn(x);
}

/* N elements that move in one instruction. 16 bytes is the widest. kernels/ptx.cuh has store. */
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) pack {
    T x[N];
};

template <int N, class T> __device__ inline pack<T, N> load(const T *p)
{
    return *reinterpret_cast<const pack<T, N> *>(p);
}

/* Number of elements of T in 16 bytes. */
template <class T> constexpr int widest = 16 / (int)sizeof(T);

/* Return true if N elements at p, for all arrays given, are aligned to move in one instruction. */
template <int N, class T> inline bool fits(const T *p)
{
    return reinterpret_cast<uintptr_t>(p) % alignof(pack<T, N>) == 0;
}

template <int N, class T, class... U> inline bool fits(const T *p, const U *...more)
{
    return fits<N>(p) && fits<N>(more...);
}

/* ---- Sums over lanes and threads ---- */

struct add {
    template <class X> __device__ X operator()(X a, X b) const
    {
        return a + b;
    }
};

/* Maximum that propagates NaN, unlike fmaxf: divergence must show. */
struct max_or_nan {
    __device__ float operator()(float a, float b) const
    {
        return a > b || a != a ? a : b;
    }
};

/* Reduce x over all 32 lanes by f; every lane gets the result. f is commutative, so all get the
 * same bits. */
template <class X, class F> __device__ inline X warp_reduce(X x, F f)
{
    for (int other = LK_WARP / 2; other > 0; other /= 2)
        x = f(x, __shfl_xor_sync((unsigned)LK_ALL_LANES, x, other));
    return x;
}

/*
 * Reduce x over all threads of the block by f; every thread gets the result. `start` is f's neutral
 * element. pre: a block of whole warps, at most 32; all threads call; shared holds 32 elements,
 * free again afterwards.
 */
template <class X, class F> __device__ inline X block_reduce(X x, F f, X start, X *shared)
{
    unsigned lane = threadIdx.x % LK_WARP, warp = threadIdx.x / LK_WARP;

    x = warp_reduce(x, f);
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / LK_WARP ? shared[lane] : start;
    __syncthreads();
    return warp_reduce(x, f);
}

/* ---- Launching ---- */

/* Launch a kernel on the context's stream; an empty grid is no error and launches nothing. */
template <class... P, class... A>
enum lk_status lk_launch(const struct lk_cuda *c, const char *name, dim3 grid, unsigned threads,
                         size_t shared_bytes, void (*kernel)(P...), A... args)
{
    cudaLaunchConfig_t config = {};

    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return LK_OK;
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(c->stream);
    return lk_cuda_status(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), name);
}

/* As lk_launch, with more dynamic shared memory than the default limit. */
template <class... P, class... A>
enum lk_status lk_launch_shared(const struct lk_cuda *c, const char *name, dim3 grid,
                                unsigned threads, size_t shared_bytes, void (*kernel)(P...),
                                A... args)
{
    enum lk_status st = lk_cuda_status(
        cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
        name);

    return st == LK_OK ? lk_launch(c, name, grid, threads, shared_bytes, kernel, args...) : st;
}

/* Return the number of blocks for n items, `each` per block; kernels stride by the grid, so any n
 * is legal. */
inline unsigned blocks_for(size_t n, size_t each, unsigned most = 1U << 16)
{
    size_t blocks = (n + each - 1) / each;

    return blocks < most ? (unsigned)blocks : most;
}

/* Define lk_<op>_cuda by a template over the element type: op<T>(args, context). */
#define LK_CUDA_OP(op)                                                                             \
    extern "C" enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *c)            \
    {                                                                                              \
        const struct lk_##op##_args &a = *static_cast<const struct lk_##op##_args *>(args);        \
                                                                                                   \
        switch (c->real) {                                                                         \
        case LK_BF16:                                                                              \
            return op<bf16>(a, c);                                                                 \
        case LK_F16:                                                                               \
            return op<f16>(a, c);                                                                  \
        default:                                                                                   \
            return op<float>(a, c);                                                                \
        }                                                                                          \
    }

#endif
