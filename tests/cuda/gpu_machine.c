#include "tests/cuda/gpu_machine.h"

#include <check.h>
#include <cuda_runtime_api.h>

static cudaStream_t stream;

static void must(cudaError_t e, const char *what)
{
    ck_assert_msg(e == cudaSuccess, "%s: %s", what, cudaGetErrorString(e));
}

void gpu_machine_open(void)
{
    must(cudaStreamCreate(&stream), "stream");
}

void gpu_machine_close(void)
{
    must(cudaStreamDestroy(stream), "stream");
}

void *gpu_machine_stream(void)
{
    return stream;
}

void gpu_machine_sync(const char *what)
{
    must(cudaStreamSynchronize(stream), what);
}

static void *gpu_alloc(size_t bytes, const char *name)
{
    void *p = NULL;

    must(cudaMalloc(&p, bytes ? bytes : 1), name);
    return p;
}

static void gpu_free(void *p)
{
    must(cudaFree(p), "cudaFree");
}

static void gpu_copy(void *to, const void *from, size_t bytes)
{
    gpu_machine_sync("kernels before a copy");
    if (bytes > 0)
        must(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

const struct cuda_machine gpu_machine = {.alloc = gpu_alloc, .free = gpu_free, .copy = gpu_copy};
