/*
 * Versions 5 to 7 of NCCL's profiler interface: one table, with a type of event more in each. In 5
 * (NCCL 2.28) calls are events, too; in 6 (2.29) collectives of the copy engines. What 7 (2.31)
 * adds, phases of kernels and tags that users give a call, is not asked for.
 */
#include "preload/nccl_events.h"
#include "preload/record.h"

static int start_event(void *context, void **handle, const struct nccl_descriptor *d)
{
    *handle = lk_nccl_start(context, d->type, d);
    return NCCL_SUCCESS;
}

enum {
    TYPES_V5 = NCCL_COLL | NCCL_P2P | NCCL_KERNEL_CH | NCCL_COLL_API | NCCL_P2P_API,
    TYPES_V6 = TYPES_V5 | NCCL_CE_COLL,
    TYPES_V7 = TYPES_V6
};

#define VERSION(v)                                                                                 \
    static int init_##v(void **context, uint64_t comm_id, int *mask, const char *comm_name,        \
                        int n_nodes, int n_ranks, int rank, void (*log)(void))                     \
    {                                                                                              \
        (void)n_nodes;                                                                             \
        (void)log;                                                                                 \
        return lk_nccl_init(context, mask, TYPES_V##v, comm_id, comm_name, n_ranks, rank);         \
    }                                                                                              \
    LK_FOREIGN_EXPORT extern const struct nccl_profiler ncclProfiler_v##v;                         \
    const struct nccl_profiler ncclProfiler_v##v = {                                               \
        .name = "lockstep",                                                                        \
        .init = init_##v,                                                                          \
        .start_event = start_event,                                                                \
        .stop_event = lk_nccl_stop_event,                                                          \
        .record_event_state = lk_nccl_record_event_state,                                          \
        .finalize = lk_nccl_finalize,                                                              \
    };

VERSION(5)
VERSION(6)
VERSION(7)
