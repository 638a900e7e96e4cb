/* Names of streams for tools (NVTX): Nsight Systems shows them beside the stream's number. */
#include "runtime/device_cuda.h"

#ifdef LK_HAVE_NVTX
#include <nvtx3/nvToolsExtCudaRt.h>

void lk_cuda_name_stream(cudaStream_t stream, const char *name)
{
    nvtxNameCudaStreamA(stream, name);
}

#else

void lk_cuda_name_stream(cudaStream_t stream, const char *name)
{
    (void)stream;
    (void)name;
}

#endif
