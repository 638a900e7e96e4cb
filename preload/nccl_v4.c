/* Version 4 of NCCL's profiler interface: NCCL 2.27. Its init has another order of arguments, and a
 * type one byte; the bytes up to the parent are not set. */
#include "preload/nccl_events.h"
#include "preload/record.h"

static int init(void **context, int *mask, const char *comm_name, uint64_t comm_id, int n_nodes,
                int n_ranks, int rank, void (*log)(void))
{
    (void)n_nodes;
    (void)log;
    return lk_nccl_init(context, mask, NCCL_COLL | NCCL_P2P | NCCL_KERNEL_CH, comm_id, comm_name,
                        n_ranks, rank);
}

static int start_event(void *context, void **handle, const struct nccl_descriptor *d)
{
    *handle = lk_nccl_start(context, *(const uint8_t *)d, d);
    return NCCL_SUCCESS;
}

struct nccl_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_id, int n_nodes,
                int n_ranks, int rank, void (*log)(void));
    nccl_start_event *start_event;
    nccl_stop_event *stop_event;
    nccl_record_event_state *record_event_state;
    nccl_finalize *finalize;
};

LK_FOREIGN_EXPORT extern const struct nccl_profiler_v4 ncclProfiler_v4;
const struct nccl_profiler_v4 ncclProfiler_v4 = {
    .name = "lockstep",
    .init = init,
    .start_event = start_event,
    .stop_event = lk_nccl_stop_event,
    .record_event_state = lk_nccl_record_event_state,
    .finalize = lk_nccl_finalize,
};
