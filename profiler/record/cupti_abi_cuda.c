/* Our view of CUPTI (facts/cupti_abi.h) is that of its headers. */
#include "facts/cupti_abi.h"

#ifdef LK_HAVE_CUPTI

#include <assert.h>
#include <cupti.h>

#define SAME_NUMBER(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)
SAME_NUMBER(CUPTI_OK, CUPTI_SUCCESS);
SAME_NUMBER(CUPTI_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE);
SAME_NUMBER(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
SAME_NUMBER(CUPTI_DISABLED, CUPTI_ERROR_DISABLED);
SAME_NUMBER(CUPTI_NO_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME_NUMBER(CUPTI_SUBSCRIBED_ALREADY, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME_NUMBER(CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME_NUMBER(CUPTI_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_NUMBER(CUPTI_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_NUMBER(CUPTI_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
SAME_NUMBER(CUPTI_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
SAME_NUMBER(CUPTI_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME_NUMBER(CUPTI_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_NUMBER(CUPTI_MEMCPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME_NUMBER(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME_NUMBER(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME_NUMBER(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);

#define SAME(ours, theirs, a, b)                                                                   \
    static_assert(offsetof(struct ours, a) == offsetof(theirs, b), #theirs "." #b)
#define SAME_WORK(ours, theirs)                                                                    \
    SAME(ours, theirs, start, start);                                                              \
    SAME(ours, theirs, end, end);                                                                  \
    SAME(ours, theirs, device, deviceId);                                                          \
    SAME(ours, theirs, context, contextId);                                                        \
    SAME(ours, theirs, stream, streamId);                                                          \
    SAME(ours, theirs, correlation, correlationId)
#define SAME_TIMES(ours, theirs)                                                                   \
    SAME(ours, theirs, start, start);                                                              \
    SAME(ours, theirs, end, end)
#define SAME_KERNEL(theirs)                                                                        \
    SAME_WORK(cupti_kernel, theirs);                                                               \
    SAME(cupti_kernel, theirs, name, name)
#define SAME_COPY(ours, theirs)                                                                    \
    SAME_WORK(ours, theirs);                                                                       \
    SAME(ours, theirs, bytes, bytes);                                                              \
    SAME(ours, theirs, copy_kind, copyKind)

SAME(cupti_call, CUpti_ActivityAPI, function, cbid);
SAME_TIMES(cupti_call, CUpti_ActivityAPI);
SAME(cupti_call, CUpti_ActivityAPI, thread, threadId);
SAME(cupti_call, CUpti_ActivityAPI, correlation, correlationId);
SAME(cupti_external, CUpti_ActivityExternalCorrelation, id, externalId);
SAME(cupti_external, CUpti_ActivityExternalCorrelation, correlation, correlationId);
SAME_KERNEL(CUpti_ActivityKernel4);
#if CUPTI_API_VERSION >= 130000
SAME_NUMBER(CUPTI_THREAD_ID_DEFAULT, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
SAME_NUMBER(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME_KERNEL(CUpti_ActivityKernel5);
SAME_KERNEL(CUpti_ActivityKernel6);
SAME_KERNEL(CUpti_ActivityKernel7);
SAME_KERNEL(CUpti_ActivityKernel8);
SAME_KERNEL(CUpti_ActivityKernel9);
SAME_KERNEL(CUpti_ActivityKernel10);
SAME_COPY(cupti_copy, CUpti_ActivityMemcpy3);
SAME_COPY(cupti_copy, CUpti_ActivityMemcpy4);
SAME_COPY(cupti_copy, CUpti_ActivityMemcpy5);
SAME_COPY(cupti_copy, CUpti_ActivityMemcpy6);
SAME_COPY(cupti_peer_copy, CUpti_ActivityMemcpyPtoP3);
SAME_COPY(cupti_peer_copy, CUpti_ActivityMemcpyPtoP4);
SAME_WORK(cupti_copy, CUpti_ActivityMemset3);
SAME_WORK(cupti_copy, CUpti_ActivityMemset4);
SAME(cupti_copy, CUpti_ActivityMemset4, bytes, bytes);
SAME_TIMES(cupti_overhead, CUpti_ActivityOverhead);
SAME_TIMES(cupti_overhead, CUpti_ActivityOverhead2);
SAME_TIMES(cupti_overhead, CUpti_ActivityOverhead3);
#endif

#define SAME_CALL(domain, name, number)       SAME_NUMBER(number, CUPTI_##domain##_TRACE_CBID_##name);
#define SAME_WAIT(domain, name, number, wait) SAME_CALL(domain, name, number)
CUPTI_LAUNCH_LIST(SAME_CALL)
CUPTI_COPY_LIST(SAME_CALL)
CUPTI_WAIT_LIST(SAME_WAIT)

#endif
