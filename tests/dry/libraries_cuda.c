/*
 * The libraries that programs open at run time, under NVIDIA's names; see machine.h. The fakes
 * linked into the program that opens them do the work.
 */
#include "kernels/calls_blas_cuda.h"
#include "profiler/record/cupti_impl_cuda.h"
#include "profiler/record/nvml_calls.h"
#include "runtime/comm/calls_nccl_cuda.h"
#include "tests/dry/machine.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/fakes/fake_nvml.h"

#include <stdlib.h>
#include <string.h>
#ifdef LK_HAVE_CUDNN
#include "kernels/calls_dnn_cuda.h"
#include "tests/fakes/fake_cudnn_cuda.h"
#endif

__attribute__((constructor)) static void open_slowly(void)
{
    dry_sleep("DRY_LIBRARY_S");
}

/* The library's functions are looked up in the fake's table. */
#define EARLY __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#define FUNCTION(name, type, table, member)                                                        \
    EARLY static type *find_##name(void)                                                           \
    {                                                                                              \
        return (table).member;                                                                     \
    }                                                                                              \
    type name __attribute__((ifunc("find_" #name)));

#define BLAS(call) FUNCTION(cublasLt##call, __typeof__(cublasLt##call), fake_blas_calls, call)
LK_BLAS_CALL_LIST(BLAS)

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

#ifdef LK_HAVE_CUDNN
#define DNN(call) FUNCTION(cudnn##call, __typeof__(cudnn##call), fake_cudnn_calls, call)
LK_DNN_CALL_LIST(DNN)
#endif

#define NCCL(call) FUNCTION(nccl##call, __typeof__(nccl##call), fake_nccl_calls, call)
LK_NCCL_CALL_LIST(NCCL)
LK_NCCL_ESTIMATE_LIST(NCCL)

#define CUPTI(call) FUNCTION(cupti##call, __typeof__(cupti##call), fake_cupti_calls, call)
LK_CUPTI_CALL_LIST(CUPTI)

CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    return fake_cupti_enable_callback(on, subscriber, domain, id);
}

/* Those of newer versions: DRY_CUPTI_OLD in the environment makes it a library that lacks them. */
#define NEWER(call, parameters)                                                                    \
    EARLY static __typeof__(*fake_cupti_calls.call) *find_cupti##call(void)                        \
    {                                                                                              \
        return getenv("DRY_CUPTI_OLD") ? NULL : fake_cupti_calls.call;                             \
    }                                                                                              \
    CUptiResult cupti##call parameters __attribute__((ifunc("find_cupti" #call)));
LK_CUPTI_NEWER_LIST(NEWER)

#define NVML(call, member)                                                                         \
    FUNCTION(nvml##call, __typeof__(*fake_nvml_calls.member), fake_nvml_calls, member)
NVML(Init_v2, init)
NVML(Shutdown, shutdown)
NVML(ErrorString, error_string)
NVML(DeviceGetClockInfo, clock)
NVML(DeviceGetMaxClockInfo, max_clock)
NVML(DeviceGetPowerUsage, power)
NVML(DeviceGetTemperature, temperature)
NVML(DeviceGetEnforcedPowerLimit, max_power)
NVML(DeviceGetTotalEnergyConsumption, energy)
NVML(DeviceGetCurrentClocksEventReasons, reasons)

/* The fake does not know that the machine's GPU is number 0, whose UUID is all zeros. */
int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvmlDevice_st **out);
int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvmlDevice_st **out)
{
    return strncmp(uuid, "GPU-0", 5) ? NVML_NOT_FOUND
                                     : fake_nvml_calls.device_by_uuid(FAKE_NVML_GPU, out);
}
