/*
 * CUPTI's activity interface, as far as it is used here: numbers and layouts of its binary
 * interface, CUDA 10 to 13. CUPTI appends to its records and gives them new names
 * (CUpti_ActivityKernel4 to CUpti_ActivityKernel10); the fields below have not moved. A test
 * compares them with the headers of builds that have CUDA.
 */
#ifndef LK_PRELOAD_CUPTI_ABI_H
#define LK_PRELOAD_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cupti_result {
    CUPTI_OK = 0,
    CUPTI_NOT_COMPATIBLE = 14,
    CUPTI_NOT_INITIALIZED = 15, /* the driver is older than the library */
    CUPTI_DISABLED = 23,
    CUPTI_NO_PRIVILEGES = 35,
    CUPTI_SUBSCRIBED_ALREADY = 39, /* MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED; before CUDA 10.2: */
    CUPTI_MAX_LIMIT_REACHED = 12
};

enum cupti_kind {
    CUPTI_MEMCPY = 1,
    CUPTI_MEMSET = 2,
    CUPTI_KERNEL = 3,
    CUPTI_DRIVER = 4,
    CUPTI_RUNTIME = 5,
    CUPTI_CONCURRENT_KERNEL = 10,
    CUPTI_MEMCPY_PEER = 22
};

enum cupti_domain { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2 };
enum cupti_flush { CUPTI_FLUSH_FORCED = 1 };
enum cupti_thread_id { CUPTI_THREAD_ID_DEFAULT = 0, CUPTI_THREAD_ID_SYSTEM = 1 };

struct cupti_kernel {
    uint32_t kind;
    uint8_t config[12];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t launch[8];
    uint32_t local[2], correlation;
    int64_t grid;
    const char *name;
};

/* A copy, or a memset, of which copy_kind is the first byte of its value. */
struct cupti_copy {
    uint32_t kind;
    uint8_t copy_kind, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};

struct cupti_peer_copy {
    uint32_t kind;
    uint8_t copy_kind, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, ends[4], correlation;
};

/* A call of the runtime, or of the driver. */
struct cupti_call {
    uint32_t kind, function;
    uint64_t start, end;
    uint32_t process, thread, correlation;
};

/*
 * Calls that put kernels on a GPU, all that put work there, and those that wait for it: X(domain,
 * name, number, the name of a wait). The numbers are CUPTI_DRIVER_TRACE_CBID_ and
 * CUPTI_RUNTIME_TRACE_CBID_.
 */
#define CUPTI_LAUNCH_LIST(X)                                                                       \
    X(RUNTIME, cudaLaunchKernel_v7000, 211, NULL)                                                  \
    X(RUNTIME, cudaLaunchKernelExC_v11060, 430, NULL)                                              \
    X(RUNTIME, cudaLaunchCooperativeKernel_v9000, 269, NULL)                                       \
    X(RUNTIME, cudaGraphLaunch_v10000, 311, NULL)                                                  \
    X(DRIVER, cuLaunchKernel, 307, NULL)                                                           \
    X(DRIVER, cuLaunchKernelEx, 652, NULL)                                                         \
    X(DRIVER, cuLaunchCooperativeKernel, 477, NULL)                                                \
    X(DRIVER, cuGraphLaunch, 514, NULL)
#define CUPTI_CALL_LIST(X)                                                                         \
    CUPTI_LAUNCH_LIST(X)                                                                           \
    X(RUNTIME, cudaMemcpy_v3020, 31, NULL)                                                         \
    X(RUNTIME, cudaMemcpyAsync_v3020, 41, NULL)                                                    \
    X(RUNTIME, cudaMemcpy2DAsync_v3020, 44, NULL)                                                  \
    X(RUNTIME, cudaMemcpyPeerAsync_v4000, 161, NULL)                                               \
    X(RUNTIME, cudaMemset_v3020, 49, NULL)                                                         \
    X(RUNTIME, cudaMemsetAsync_v3020, 51, NULL)                                                    \
    X(RUNTIME, cudaStreamSynchronize_v3020, 131, "cudaStreamSynchronize")                          \
    X(RUNTIME, cudaEventSynchronize_v3020, 137, "cudaEventSynchronize")                            \
    X(RUNTIME, cudaDeviceSynchronize_v3020, 165, "cudaDeviceSynchronize")                          \
    X(DRIVER, cuMemcpyHtoDAsync_v2, 277, NULL)                                                     \
    X(DRIVER, cuMemcpyDtoHAsync_v2, 279, NULL)                                                     \
    X(DRIVER, cuMemcpyDtoDAsync_v2, 281, NULL)                                                     \
    X(DRIVER, cuMemcpyAsync, 306, NULL)                                                            \
    X(DRIVER, cuMemsetD8Async, 216, NULL)                                                          \
    X(DRIVER, cuMemsetD32Async, 220, NULL)                                                         \
    X(DRIVER, cuStreamSynchronize, 126, "cuStreamSynchronize")                                     \
    X(DRIVER, cuEventSynchronize, 121, "cuEventSynchronize")

typedef void cupti_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void cupti_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                            size_t valid);
typedef void cupti_callback(void *user, int domain, uint32_t function, const void *data);

/* X(name, parameters): cupti<name>. Those of the second list are in newer versions only. */
#define CUPTI_FUNCTION_LIST(X)                                                                     \
    X(GetVersion, (uint32_t * out))                                                                \
    X(GetTimestamp, (uint64_t * out))                                                              \
    X(Subscribe, (void **out, cupti_callback *callback, void *user))                               \
    X(Unsubscribe, (void *subscriber))                                                             \
    X(EnableCallback, (uint32_t on, void *subscriber, int domain, uint32_t function))              \
    X(ActivityRegisterCallbacks, (cupti_request * request, cupti_complete * complete))             \
    X(ActivityEnable, (int kind))                                                                  \
    X(ActivityDisable, (int kind))                                                                 \
    X(ActivityFlushAll, (uint32_t flags))                                                          \
    X(ActivityGetNextRecord, (uint8_t * buffer, size_t bytes, void **record))                      \
    X(ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *out))
#define CUPTI_NEWER_LIST(X)                                                                        \
    X(ActivityEnableRuntimeApi, (uint32_t function, uint8_t on))                                   \
    X(ActivityEnableDriverApi, (uint32_t function, uint8_t on))                                    \
    X(GetThreadIdType, (int *out))                                                                 \
    X(SetThreadIdType, (int type))

#endif
