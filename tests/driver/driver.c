/*
 * A stand-in for NVIDIA's driver, libcuda.so.1, on a machine that has none: cuDNN makes plans for a
 * GPU that a description names, and only loads their kernels, which this takes for granted. All
 * else fails as the toolkit's own stub does. Functions here ignore what they are called with.
 */
#include <stddef.h>
#include <stdio.h>

enum { SUCCESS = 0, STUB_LIBRARY = 34 };

/* The name of the kernel that was asked for last, for tests. */
char driver_kernel[256];
/* What loading kernels fails with, for tests; 0: it succeeds. */
int driver_refuses;

#define SUCCEEDS(function)                                                                         \
    int function(void);                                                                            \
    int function(void)                                                                             \
    {                                                                                              \
        return SUCCESS;                                                                            \
    }
#define FAILS(function)                                                                            \
    int function(void);                                                                            \
    int function(void)                                                                             \
    {                                                                                              \
        return STUB_LIBRARY;                                                                       \
    }

SUCCEEDS(cuFuncGetAttribute)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuCtxGetCurrent)
FAILS(cuCtxGetDevice)
FAILS(cuCtxGetLimit)
FAILS(cuCtxPopCurrent)
FAILS(cuCtxPushCurrent)
FAILS(cuDeviceGet)
FAILS(cuDeviceGetAttribute)
FAILS(cuDeviceGetCount)
FAILS(cuDevicePrimaryCtxRelease)
FAILS(cuDevicePrimaryCtxReset)
FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuDriverGetVersion)
FAILS(cuGetErrorName)
FAILS(cuGetErrorString)
FAILS(cuGetProcAddress_v2)
FAILS(cuInit)
FAILS(cuLaunchCooperativeKernel)
FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx)
FAILS(cuLibraryLoadFromFile)
FAILS(cuLinkAddData)
FAILS(cuLinkAddData_v2)
FAILS(cuLinkAddFile_v2)
FAILS(cuLinkComplete)
FAILS(cuLinkCreate)
FAILS(cuLinkCreate_v2)
FAILS(cuLinkDestroy)
FAILS(cuMemcpyDtoH_v2)
FAILS(cuModuleGetFunction)
FAILS(cuModuleGetGlobal_v2)
FAILS(cuModuleLoadData)
FAILS(cuModuleLoadDataEx)
FAILS(cuModuleLoadFatBinary)
FAILS(cuModuleUnload)
FAILS(cuStreamGetCtx)
FAILS(cuStreamSynchronize)
FAILS(cuTensorMapEncodeTiled)

/* Handles, which nobody looks behind. */
static char library, kernel, function;

int cuLibraryLoadData(void **out);
int cuLibraryLoadData(void **out)
{
    *out = &library;
    return driver_refuses;
}

int cuLibraryGetKernel(void **out, void *of, const char *name);
int cuLibraryGetKernel(void **out, void *of, const char *name)
{
    (void)of;
    (void)snprintf(driver_kernel, sizeof driver_kernel, "%s", name);
    *out = &kernel;
    return SUCCESS;
}

int cuKernelGetFunction(void **out);
int cuKernelGetFunction(void **out)
{
    *out = &function;
    return SUCCESS;
}
