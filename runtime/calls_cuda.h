/*
 * Private to runtime/device_cuda.c and its tests: the calls into CUDA that the device makes, as a
 * table, so that what the device does with their answers can be tested without a GPU.
 */
#ifndef LK_RUNTIME_CALLS_CUDA_H
#define LK_RUNTIME_CALLS_CUDA_H

#include "kernels/cuda.h"
#include "kernels/op.h"

#include <cuda_runtime_api.h>

/* X(call): cuda<call>. */
#define LK_CUDA_CALL_LIST(X)                                                                       \
    X(GetDeviceCount)                                                                              \
    X(SetDevice)                                                                                   \
    X(GetDeviceProperties)                                                                         \
    X(DriverGetVersion)                                                                            \
    X(RuntimeGetVersion)                                                                           \
    X(DeviceReset)                                                                                 \
    X(DeviceGetStreamPriorityRange)                                                                \
    X(Malloc)                                                                                      \
    X(Free)                                                                                        \
    X(HostAlloc)                                                                                   \
    X(FreeHost)                                                                                    \
    X(Memset)                                                                                      \
    X(MemcpyAsync)                                                                                 \
    X(StreamCreateWithPriority)                                                                    \
    X(StreamDestroy)                                                                               \
    X(StreamSynchronize)                                                                           \
    X(StreamWaitEvent)                                                                             \
    X(LaunchHostFunc)                                                                              \
    X(EventCreateWithFlags)                                                                        \
    X(EventDestroy)                                                                                \
    X(EventRecord)                                                                                 \
    X(EventQuery)                                                                                  \
    X(EventElapsedTime)

struct lk_cuda_calls {
#define LK_CUDA_CALL_MEMBER_(call) __typeof__(cuda##call) *call;
    LK_CUDA_CALL_LIST(LK_CUDA_CALL_MEMBER_)
#undef LK_CUDA_CALL_MEMBER_
    __typeof__(lk_cuda_blas_open) *blas_open;
    __typeof__(lk_cuda_blas_close) *blas_close;
    __typeof__(lk_cuda_init) *init;
    __typeof__(lk_cuda_fini) *fini;
    enum lk_status (*run_op)(const struct lk_op *op, const void *args, const struct lk_cuda *cuda);
};

/* CUDA's own. */
extern const struct lk_cuda_calls lk_cuda_calls;

#endif
