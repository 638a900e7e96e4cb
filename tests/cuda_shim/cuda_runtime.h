/*
 * CUDA's language and run-time library for a host compiler, as far as kernels/NAME.cu use them.
 * tests/cuda_shim/shim.h says how blocks and threads run.
 */
#ifndef LK_SHIM_CUDA_RUNTIME_H
#define LK_SHIM_CUDA_RUNTIME_H

#include "shim.h"

#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

struct dim3 : shim_index {
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : shim_index{x_, y_, z_}
    {
    }
};

#define LK_SHARED(type, name, n)                                                                   \
    type *const name = static_cast<type *>(shim_shared(__FILE__, __LINE__, sizeof(type) * (n)))
#define LK_SHARED_OF_LAUNCH(name)                                                                  \
    unsigned char *const name = static_cast<unsigned char *>(shim_shared_of_launch())

/* ---- Launching ---- */

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
typedef struct shim_stream *cudaStream_t;
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

inline cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int bytes)
{
    shim_allow_shared(kernel, (size_t)bytes);
    return cudaSuccess;
}

template <class... P> struct shim_call {
    void (*kernel)(P...);
    std::tuple<P...> args;

    static void run(void *self)
    {
        shim_call *c = static_cast<shim_call *>(self);

        std::apply(c->kernel, c->args);
    }
};

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A... args)
{
    shim_call<P...> call = {kernel, std::tuple<P...>(args...)};

    return shim_launch(reinterpret_cast<const void *>(kernel), config->gridDim, config->blockDim,
                       config->dynamicSmemBytes, shim_call<P...>::run, &call)
               ? cudaSuccess
               : cudaErrorInvalidConfiguration;
}

/* ---- Barriers, lanes, atomics ---- */

#define SHIM_SITE              __FILE__, __LINE__
#define __syncthreads()        ((void)shim_barrier(0, SHIM_SITE))
#define __syncthreads_or(flag) (shim_barrier((flag) != 0, SHIM_SITE))
#define __syncwarp()           (shim_sync_warp(0xffffffffU, SHIM_SITE))

template <class X> X shim_shuffle(unsigned mask, X x, int from, const char *file, int line)
{
    X got;

    std::memcpy(&got, shim_exchange(mask, &x, sizeof x, file, line) + from * SHIM_DEPOSIT,
                sizeof got);
    return got;
}

#define __shfl_xor_sync(mask, x, other)                                                            \
    shim_shuffle(mask, x, (int)shim_lane() ^ (int)(other), SHIM_SITE)
/* Lanes without a lane that far below keep their own value. */
#define __shfl_up_sync(mask, x, by)                                                                \
    shim_shuffle(mask, x, (int)(shim_lane() >= (by) ? shim_lane() - (by) : shim_lane()), SHIM_SITE)

template <class X> __attribute__((no_sanitize("address", "thread"))) X atomicAdd(X *p, X x)
{
    X old;

    shim_note_atomic(p, sizeof *p);
    old = *p;
    *p = old + x;
    return old;
}

#endif
