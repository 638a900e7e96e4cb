/* Version 5 of NCCL's profiler interface, NCCL 2.28: calls are events, too. */
#include "preload/nccl_events.h"
#include "preload/record.h"

static int init(void **context, uint64_t comm_id, int *mask, const char *comm_name, int n_nodes,
                int n_ranks, int rank, void (*log)(void))
{
    (void)n_nodes;
    (void)log;
    return lk_nccl_init(context, mask,
                        NCCL_COLL | NCCL_P2P | NCCL_KERNEL_CH | NCCL_COLL_API | NCCL_P2P_API,
                        comm_id, comm_name, n_ranks, rank);
}

static int start_event(void *context, void **handle, const struct nccl_descriptor *d)
{
    *handle = lk_nccl_start(context, d->type, d);
    return NCCL_SUCCESS;
}

LK_PROBE_EXPORT extern const struct nccl_profiler ncclProfiler_v5;
const struct nccl_profiler ncclProfiler_v5 = {
    .name = "lockstep",
    .init = init,
    .start_event = start_event,
    .stop_event = lk_nccl_stop_event,
    .record_event_state = lk_nccl_record_event_state,
    .finalize = lk_nccl_finalize,
};
