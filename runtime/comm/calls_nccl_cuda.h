/*
 * Private to runtime/comm/comm_nccl*_cuda.c and their tests: a table of NCCL's functions, filled
 * when the first communicator is opened (base/library.h), so that the callers can be tested without
 * a GPU.
 *
 * Built with NCCL 2.22 or newer and run with 2.19 or newer. A configuration that is newer than the
 * library is legal: NCCL reads as much of it as it knows.
 */
#ifndef LK_RUNTIME_CALLS_NCCL_CUDA_H
#define LK_RUNTIME_CALLS_NCCL_CUDA_H

#ifdef LK_HAVE_NCCL
#include <nccl.h>
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0)
#define LK_NCCL_BUILT
#endif
#endif

#ifdef LK_NCCL_BUILT

#include "base/library.h"
#include "base/status.h"

/* X(call): nccl<call>. */
#define LK_NCCL_CALL_LIST(X)                                                                       \
    X(GetVersion)                                                                                  \
    X(GetUniqueId)                                                                                 \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(CommRegister)                                                                                \
    X(CommDeregister)                                                                              \
    X(MemAlloc)                                                                                    \
    X(MemFree)                                                                                     \
    X(AllReduce)                                                                                   \
    X(ReduceScatter)                                                                               \
    X(AllGather)                                                                                   \
    X(Broadcast)

/* Functions of NCCL 2.22 and newer, for estimates; NULL in older ones. */
#define LK_NCCL_ESTIMATE_LIST(X)                                                                   \
    X(GroupStart)                                                                                  \
    X(GroupSimulateEnd)

struct lk_nccl_calls {
#define LK_NCCL_CALL_MEMBER_(call) __typeof__(nccl##call) *call;
    LK_NCCL_CALL_LIST(LK_NCCL_CALL_MEMBER_)
    LK_NCCL_ESTIMATE_LIST(LK_NCCL_CALL_MEMBER_)
#undef LK_NCCL_CALL_MEMBER_
};

enum { LK_NCCL_OLDEST = NCCL_VERSION(2, 19, 0) };

/* Open the library and fill the table. LK_EUNSUPPORTED: not found, or too old. The library stays
 * loaded for good, because it has threads of its own. */
enum lk_status lk_nccl_open_library(struct lk_nccl_calls *table, struct lk_library **out);
/* Return the library's version; LK_EUNSUPPORTED if it is older than LK_NCCL_OLDEST. `path` is for
 * the message. */
enum lk_status lk_nccl_version(const struct lk_nccl_calls *call, const char *path, int *out);
/* Write a version as text, "2.28.9", into buf. */
void lk_nccl_version_text(int version, char *buf, size_t size);

#endif
#endif
