/*
 * The tables of NCCL's profiler interface, versions 4 to 7, with a type of event more in each: in 5
 * (NCCL 2.28) calls are events, too; in 6 (2.29) collectives of the copy engines. What 7 (2.31)
 * adds, phases of kernels and tags that users give a call, is not asked for. In 4 (2.27) the
 * arguments of init have another order, and a type is one byte; the bytes up to the parent are not
 * set.
 */
#include "preload/nccl_events.h"
#include "preload/record.h"

static int start_narrow(void *context, void **handle, const struct nccl_descriptor *d)
{
    *handle = lk_nccl_start(context, *(const uint8_t *)d, d);
    return NCCL_SUCCESS;
}

static int start_wide(void *context, void **handle, const struct nccl_descriptor *d)
{
    *handle = lk_nccl_start(context, d->type, d);
    return NCCL_SUCCESS;
}

enum {
    TYPES_V4 = NCCL_COLL | NCCL_P2P | NCCL_KERNEL_CH,
    TYPES_V5 = TYPES_V4 | NCCL_COLL_API | NCCL_P2P_API,
    TYPES_V6 = TYPES_V5 | NCCL_CE_COLL,
    TYPES_V7 = TYPES_V6
};

/* Parameters of init. */
#define PARAMETERS_V4                                                                              \
    void **context, int *mask, const char *comm_name, uint64_t comm_id, int n_nodes, int n_ranks,  \
        int rank, void (*log)(void)
#define PARAMETERS_V5                                                                              \
    void **context, uint64_t comm_id, int *mask, const char *comm_name, int n_nodes, int n_ranks,  \
        int rank, void (*log)(void)

#define VERSION(v, table, parameters, start)                                                       \
    static int init_##v(parameters)                                                                \
    {                                                                                              \
        (void)n_nodes;                                                                             \
        (void)log;                                                                                 \
        return lk_nccl_init(context, mask, TYPES_V##v, comm_id, comm_name, n_ranks, rank);         \
    }                                                                                              \
    LK_FOREIGN_EXPORT extern const struct table ncclProfiler_v##v;                                 \
    const struct table ncclProfiler_v##v = {                                                       \
        .name = "lockstep",                                                                        \
        .init = init_##v,                                                                          \
        .start_event = start,                                                                      \
        .stop_event = lk_nccl_stop_event,                                                          \
        .record_event_state = lk_nccl_record_event_state,                                          \
        .finalize = lk_nccl_finalize,                                                              \
    };

VERSION(4, nccl_profiler_v4, PARAMETERS_V4, start_narrow)
VERSION(5, nccl_profiler, PARAMETERS_V5, start_wide)
VERSION(6, nccl_profiler, PARAMETERS_V5, start_wide)
VERSION(7, nccl_profiler, PARAMETERS_V5, start_wide)
