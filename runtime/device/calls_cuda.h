/* Private to runtime/device/device_cuda.c, runtime/comm/comm_nccl*_cuda.c and their tests: a table
 * of the CUDA functions that they call, so that they can be tested without a GPU. */
#ifndef LK_RUNTIME_CALLS_CUDA_H
#define LK_RUNTIME_CALLS_CUDA_H

#include "kernels/cuda.h"
#include "kernels/dnn.h"
#include "kernels/ops.h"

#include <cuda_runtime_api.h>

/* X(call): cuda<call>. */
#define LK_CUDA_CALL_LIST(X)                                                                       \
    X(GetDeviceCount)                                                                              \
    X(GetDevice)                                                                                   \
    X(SetDevice)                                                                                   \
    X(GetDeviceProperties)                                                                         \
    X(DeviceGetP2PAttribute)                                                                       \
    X(DriverGetVersion)                                                                            \
    X(RuntimeGetVersion)                                                                           \
    X(DeviceSynchronize)                                                                           \
    X(DeviceReset)                                                                                 \
    X(DeviceGetStreamPriorityRange)                                                                \
    X(Malloc)                                                                                      \
    X(Free)                                                                                        \
    X(HostAlloc)                                                                                   \
    X(FreeHost)                                                                                    \
    X(Memset)                                                                                      \
    X(MemcpyAsync)                                                                                 \
    X(PointerGetAttributes)                                                                        \
    X(StreamCreateWithPriority)                                                                    \
    X(StreamDestroy)                                                                               \
    X(StreamQuery)                                                                                 \
    X(StreamSynchronize)                                                                           \
    X(StreamWaitEvent)                                                                             \
    X(StreamIsCapturing)                                                                           \
    X(StreamBeginCapture)                                                                          \
    X(StreamEndCapture)                                                                            \
    X(GraphInstantiate)                                                                            \
    X(GraphLaunch)                                                                                 \
    X(GraphDestroy)                                                                                \
    X(GraphExecDestroy)                                                                            \
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
    __typeof__(lk_cuda_dnn_open) *dnn_open;
    __typeof__(lk_cuda_dnn_close) *dnn_close;
    __typeof__(lk_cuda_dnn_choose) *dnn_choose;
    __typeof__(lk_cuda_dnn_ask) *dnn_ask;
    __typeof__(lk_cuda_init) *init;
    __typeof__(lk_cuda_fini) *fini;
    enum lk_status (*run_op)(const struct lk_op *op, const void *args, const struct lk_cuda *cuda);
    uint64_t (*now_ns)(void); /* lk_now_ns: the host clock that CUDA events are aligned with */
};

/* The CUDA runtime's own functions. */
extern const struct lk_cuda_calls lk_cuda_calls;

#endif
