/*
 * Private to profiler/cupti*_cuda.c and their tests: the CUPTI functions in use, as a table, so
 * that the handling of their results can be tested without a GPU.
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

/* X(call, parameters): functions of newer versions; NULL where the library lacks them. */
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
    /* For tests: read both clocks at once. NULL: GetTimestamp between two readings of ours. */
    void (*clocks)(uint64_t *theirs_ns, uint64_t *ours_ns);
};

/* Load CUPTI's functions; the library is never closed. path: set to the file. */
enum lk_status lk_cupti_library(struct lk_cupti_calls *out, char *path, size_t size);
/* Get the API version. LK_EUNSUPPORTED for one whose records are not known; path is for the text.
 */
enum lk_status lk_cupti_version(const struct lk_cupti_calls *call, const char *path, uint32_t *out);
/* Return LK_OK for CUPTI_SUCCESS, else LK_EUNSUPPORTED with a remedy, if the error has one. */
enum lk_status lk_cupti_check(const struct lk_cupti_calls *call, CUptiResult e, const char *what);

#endif
