/*
 * Private to profiler/cupti*_cuda.c and their tests: the functions of CUPTI that are used, as a
 * table, so that what is done with their answers can be tested without a GPU.
 */
#ifndef LK_PROFILER_CUPTI_CALLS_CUDA_H
#define LK_PROFILER_CUPTI_CALLS_CUDA_H

#include "base/status.h"

#include <cupti.h>
#include <stddef.h>
#include <stdint.h>

/* X(call): cupti<call>. */
#define LK_CUPTI_CALL_LIST(X)                                                                      \
    X(GetVersion)                                                                                  \
    X(GetResultString)                                                                             \
    X(GetTimestamp)                                                                                \
    X(ActivityRegisterCallbacks)                                                                   \
    X(ActivitySetAttribute)                                                                        \
    X(ActivityEnable)                                                                              \
    X(ActivityDisable)                                                                             \
    X(ActivityFlushAll)                                                                            \
    X(ActivityGetNextRecord)                                                                       \
    X(ActivityGetNumDroppedRecords)                                                                \
    X(ActivityPushExternalCorrelationId)                                                           \
    X(ActivityPopExternalCorrelationId)

/* X(call, parameters): of newer versions; NULL where the library has none. */
#define LK_CUPTI_NEWER_LIST(X)                                                                     \
    X(ActivityFlushPeriod, (uint32_t ms))                                                          \
    X(ActivityEnableAllSyncRecords, (uint8_t enable))                                              \
    X(ActivityEnableRuntimeApi, (CUpti_CallbackId id, uint8_t enable))                             \
    X(ActivityEnableDriverApi, (CUpti_CallbackId id, uint8_t enable))

struct lk_cupti_calls {
#define LK_CUPTI_CALL_MEMBER_(call) __typeof__(cupti##call) *call;
    LK_CUPTI_CALL_LIST(LK_CUPTI_CALL_MEMBER_)
#undef LK_CUPTI_CALL_MEMBER_
#define LK_CUPTI_NEWER_MEMBER_(call, parameters) CUptiResult(*call) parameters;
    LK_CUPTI_NEWER_LIST(LK_CUPTI_NEWER_MEMBER_)
#undef LK_CUPTI_NEWER_MEMBER_
    /* For tests: both clocks at the same moment. NULL: GetTimestamp between two looks at ours. */
    void (*clocks)(uint64_t *theirs_ns, uint64_t *ours_ns);
};

/* CUPTI's own, of a library that stays open. path: the file. */
enum lk_status lk_cupti_library(struct lk_cupti_calls *out, char *path, size_t size);

#endif
