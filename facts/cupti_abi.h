/*
 * CUPTI's activity interface, as far as it is used here: numbers and layouts of its binary
 * interface, CUDA 10 to 13. CUPTI appends to its records and gives them new names
 * (CUpti_ActivityKernel4 to CUpti_ActivityKernel10); the fields below have not moved. Builds that
 * have CUDA compare them with its headers (profiler/record/cupti_abi_cuda.c). The preload library,
 * which is built without these, and the recorder read records by them.
 */
#ifndef LK_FACTS_CUPTI_ABI_H
#define LK_FACTS_CUPTI_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sonames, newest first: up to CUDA 11 they have the minor version, too. */
#define CUPTI_FILES "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"

/* API versions of which the release notes say: before CUDA 12.9's a library crashes if it is given
 * no buffer; CUDA 13.0's before Update 1 may hang when it is stopped. */
enum { CUPTI_VERSION_REFUSABLE = 27, CUPTI_VERSION_HANGS = 130000 };

/* Return true for versions whose records are known. CUDA 9's is 12 (CUpti_ActivityKernel4); from
 * CUDA 13 on the number is the toolkit's. */
static inline bool cupti_version_is_known(uint32_t version)
{
    return (version >= 12 && version < 130000) || version / 10000 == 13;
}

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

/* A record of the time that CUPTI itself spends. */
struct cupti_overhead {
    uint32_t kind, overhead, object[4];
    uint64_t start, end;
};

/* An id that was pushed when a call was made. */
struct cupti_external {
    uint32_t kind, external;
    uint64_t id;
    uint32_t correlation;
};

/*
 * Calls that put kernels on a GPU, that copy or fill memory there, and that wait for it: X(domain,
 * name, number), of a wait with its name without the version, too. The numbers are
 * CUPTI_DRIVER_TRACE_CBID_ and CUPTI_RUNTIME_TRACE_CBID_.
 */
#define CUPTI_LAUNCH_LIST(X)                                                                       \
    X(RUNTIME, cudaLaunchKernel_v7000, 211)                                                        \
    X(RUNTIME, cudaLaunchKernelExC_v11060, 430)                                                    \
    X(RUNTIME, cudaLaunchCooperativeKernel_v9000, 269)                                             \
    X(RUNTIME, cudaGraphLaunch_v10000, 311)                                                        \
    X(DRIVER, cuLaunchKernel, 307)                                                                 \
    X(DRIVER, cuLaunchKernelEx, 652)                                                               \
    X(DRIVER, cuLaunchCooperativeKernel, 477)                                                      \
    X(DRIVER, cuGraphLaunch, 514)
#define CUPTI_COPY_LIST(X)                                                                         \
    X(RUNTIME, cudaMemcpy_v3020, 31)                                                               \
    X(RUNTIME, cudaMemcpyAsync_v3020, 41)                                                          \
    X(RUNTIME, cudaMemcpy2DAsync_v3020, 44)                                                        \
    X(RUNTIME, cudaMemcpyPeerAsync_v4000, 161)                                                     \
    X(RUNTIME, cudaMemset_v3020, 49)                                                               \
    X(RUNTIME, cudaMemsetAsync_v3020, 51)                                                          \
    X(DRIVER, cuMemcpy, 305)                                                                       \
    X(DRIVER, cuMemcpyAsync, 306)                                                                  \
    X(DRIVER, cuMemcpyHtoD_v2, 276)                                                                \
    X(DRIVER, cuMemcpyHtoDAsync_v2, 277)                                                           \
    X(DRIVER, cuMemcpyDtoH_v2, 278)                                                                \
    X(DRIVER, cuMemcpyDtoHAsync_v2, 279)                                                           \
    X(DRIVER, cuMemcpyDtoD_v2, 280)                                                                \
    X(DRIVER, cuMemcpyDtoDAsync_v2, 281)                                                           \
    X(DRIVER, cuMemcpyPeerAsync, 319)                                                              \
    X(DRIVER, cuMemsetD8_v2, 249)                                                                  \
    X(DRIVER, cuMemsetD8Async, 216)                                                                \
    X(DRIVER, cuMemsetD32_v2, 251)                                                                 \
    X(DRIVER, cuMemsetD32Async, 220)
#define CUPTI_WAIT_LIST(X)                                                                         \
    X(RUNTIME, cudaStreamSynchronize_v3020, 131, "cudaStreamSynchronize")                          \
    X(RUNTIME, cudaEventSynchronize_v3020, 137, "cudaEventSynchronize")                            \
    X(RUNTIME, cudaDeviceSynchronize_v3020, 165, "cudaDeviceSynchronize")                          \
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
    X(GetThreadIdType, (int *out))                                                                 \
    X(SetThreadIdType, (int type))

#endif
