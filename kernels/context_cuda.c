/* Make the context of a stream, and convert CUDA's errors. */
#include "kernels/cuda.h"

#include <cuda_runtime_api.h>

/* Return true if the error is the machine's fault, not the program's. */
static bool machine_lacks(cudaError_t e)
{
    static const cudaError_t errors[] = {
        cudaErrorInsufficientDriver,
        cudaErrorNoDevice,
        cudaErrorInvalidDevice,
        cudaErrorNoKernelImageForDevice,
        cudaErrorUnsupportedPtxVersion,
        cudaErrorStubLibrary,
        cudaErrorDevicesUnavailable,
        cudaErrorSystemDriverMismatch,
        cudaErrorSystemNotReady,
        cudaErrorInitializationError,
        cudaErrorCompatNotSupportedOnDevice,
        cudaErrorInvalidDeviceFunction,
    };

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i] == e)
            return true;
    return false;
}

enum lk_status lk_cuda_status(unsigned error, const char *what)
{
    cudaError_t e = (cudaError_t)error;
    enum lk_status st = LK_EINTERNAL;

    if (e == cudaSuccess)
        return LK_OK;
    if (e == cudaErrorMemoryAllocation)
        st = LK_ENOMEM;
    else if (machine_lacks(e))
        st = LK_EUNSUPPORTED;
    return lk_fail(st, "%s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
}

enum lk_status lk_cuda_init(struct lk_cuda *c, void *stream, enum lk_dtype real,
                            struct lk_cuda_blas *blas)
{
    const char *what = "workspace of a stream";
    void *workspace = NULL;
    int device, shared_bytes;

    LK_PASS(lk_cuda_status(cudaGetDevice(&device), what));
    LK_PASS(lk_cuda_status(
        cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        what));
    LK_PASS(
        lk_cuda_status(cudaMalloc(&workspace, LK_CUDA_WORKSPACE_BYTES + LK_CUDA_SUMS_BYTES), what));
    *c = (struct lk_cuda){.stream = stream,
                          .real = real,
                          .workspace = workspace,
                          .sums = (char *)workspace + LK_CUDA_WORKSPACE_BYTES,
                          .shared_bytes = (size_t)shared_bytes,
                          .blas = blas};
    return LK_OK;
}

void lk_cuda_fini(struct lk_cuda *c)
{
    /* An error here belongs to an earlier call, and was reported at synchronisation. */
    (void)cudaFree(c->workspace);
    *c = (struct lk_cuda){0};
}
