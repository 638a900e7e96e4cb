/*
 * CUDA's functions that nvcc's objects call to start kernels, which check and count them instead:
 * the launchers of kernels/ then run to their end on a machine without a GPU (see machine.h).
 */
#include "tests/dry/launches.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

_Thread_local struct launches launches;

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **args)
{
    enum { THREADS_MAX = 1024, BLOCKS_MAX = 65535 /* but along x */ };
    size_t threads = (size_t)config->blockDim.x * config->blockDim.y * config->blockDim.z;

    (void)kernel;
    (void)args;
    if (threads == 0 || threads > THREADS_MAX || config->gridDim.x == 0 ||
        config->gridDim.x > INT32_MAX || config->gridDim.y == 0 || config->gridDim.y > BLOCKS_MAX ||
        config->gridDim.z == 0 || config->gridDim.z > BLOCKS_MAX)
        return cudaErrorInvalidConfiguration;
    launches.n++;
    launches.shared_bytes += config->dynamicSmemBytes;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    (void)kernel;
    (void)attribute;
    (void)value;
    return cudaSuccess;
}

/* ---- What objects of nvcc call when they are loaded, and in their other stubs ---- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *thread, void *block, void *dims, void *grid,
                            int *warp);
cudaError_t __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(void **kernel, const void *host);
cudaError_t __cudaLaunchKernel(void *kernel, void *grid, void *block, void **args, size_t shared,
                               void *stream);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    handle = binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *thread, void *block, void *dims, void *grid,
                            int *warp)
{
    (void)handle;
    (void)host;
    (void)device;
    (void)name;
    (void)threads;
    (void)thread;
    (void)block;
    (void)dims;
    (void)grid;
    (void)warp;
}

/* Nothing is launched by <<<>>>. */
cudaError_t __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void *stream)
{
    (void)grid;
    (void)block;
    (void)shared;
    (void)stream;
    return cudaErrorUnknown;
}

cudaError_t __cudaGetKernel(void **kernel, const void *host)
{
    (void)kernel;
    (void)host;
    return cudaErrorUnknown;
}

cudaError_t __cudaLaunchKernel(void *kernel, void *grid, void *block, void **args, size_t shared,
                               void *stream)
{
    (void)kernel;
    (void)grid;
    (void)block;
    (void)args;
    (void)shared;
    (void)stream;
    return cudaErrorUnknown;
}
