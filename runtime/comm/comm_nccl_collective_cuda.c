/*
 * Run and enqueue NCCL's collectives.
 *
 * Sums are plain (ncclSum): for ncclAvg NCCL disables in-switch sums of NVSwitch (enqueue.cc:2285
 * and device.h:544 of 2.28.9), and the loss gradient's seed already contains the division. NCCL
 * chooses the algorithm.
 */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/array.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static const ncclDataType_t dtypes[LK_DTYPE_COUNT] = {
    [LK_F32] = ncclFloat32, [LK_F16] = ncclFloat16, [LK_BF16] = ncclBfloat16,
    [LK_F64] = ncclFloat64, [LK_I32] = ncclInt32,   [LK_I64] = ncclInt64,
    [LK_U8] = ncclUint8,
};

/* Return this rank's part of a buffer of a part for each rank. */
static void *own_part(const struct lk_nccl *n, const struct lk_coll_call *call)
{
    const struct lk_rank_group *g = &call->group;
    int own = g->n ? (n->base.rank - g->first) / g->stride : n->base.rank;

    return (char *)call->buf + (size_t)own * call->count * lk_dtype_bytes(call->dtype);
}

static ncclResult_t all_reduce(const struct lk_nccl *n, ncclComm_t comm,
                               const struct lk_coll_call *call, cudaStream_t s)
{
    return n->call->AllReduce(call->from ? call->from : call->buf, call->buf, call->count,
                              dtypes[call->dtype], ncclSum, comm, s);
}

static ncclResult_t reduce_scatter(const struct lk_nccl *n, ncclComm_t comm,
                                   const struct lk_coll_call *call, cudaStream_t s)
{
    return n->call->ReduceScatter(call->from ? call->from : call->buf,
                                  call->from ? call->buf : own_part(n, call), call->count,
                                  dtypes[call->dtype], ncclSum, comm, s);
}

static ncclResult_t all_gather(const struct lk_nccl *n, ncclComm_t comm,
                               const struct lk_coll_call *call, cudaStream_t s)
{
    return n->call->AllGather(call->from ? call->from : own_part(n, call), call->buf, call->count,
                              dtypes[call->dtype], comm, s);
}

static ncclResult_t broadcast(const struct lk_nccl *n, ncclComm_t comm,
                              const struct lk_coll_call *call, cudaStream_t s)
{
    return n->call->Broadcast(call->from ? call->from : call->buf, call->buf, call->count,
                              dtypes[call->dtype], call->root, comm, s);
}

/* A barrier is an all-reduce of one byte: no rank has the sum before all have sent theirs. */
static ncclResult_t barrier(const struct lk_nccl *n, ncclComm_t comm,
                            const struct lk_coll_call *call, cudaStream_t s)
{
    (void)call;
    return n->call->AllReduce(n->scratch, n->scratch, 1, ncclUint8, ncclSum, comm, s);
}

typedef ncclResult_t (*collective)(const struct lk_nccl *, ncclComm_t, const struct lk_coll_call *,
                                   cudaStream_t);
static const collective collectives[LK_COLL_MODELLED] = {
    [LK_ALL_REDUCE] = all_reduce, [LK_REDUCE_SCATTER] = reduce_scatter,
    [LK_ALL_GATHER] = all_gather, [LK_BROADCAST] = broadcast,
    [LK_BARRIER] = barrier,
};

ncclResult_t lk_nccl_call(const struct lk_nccl *n, ncclComm_t comm, const struct lk_coll_call *call,
                          cudaStream_t s)
{
    return collectives[call->coll](n, comm, call, s);
}

/* Put the collective on the stream; when this returns, NCCL has launched it. */
static enum lk_status issue(struct lk_nccl *n, const struct lk_coll_call *call, cudaStream_t s)
{
    struct lk_deadline deadline = lk_deadline_in(n->timeout_ns);
    ncclComm_t comm;

    LK_PASS(lk_nccl_group(n, &call->group, &comm));
    LK_PASS(lk_nccl_enter(n, deadline));
    return lk_nccl_end(n, &comm, lk_nccl_call(n, comm, call, s), deadline);
}

static bool moves_nothing(const struct lk_nccl *n, const struct lk_coll_call *call)
{
    return call->coll != LK_BARRIER && !lk_coll_call_bytes(call, n->base.world_size);
}

static enum lk_status record(const struct lk_nccl *n, cudaEvent_t e, cudaStream_t s)
{
    return lk_cuda_status(n->cuda->EventRecord(e, s), "recording an event");
}

enum lk_status lk_nccl_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call, uint64_t seq)
{
    struct lk_nccl *n = (struct lk_nccl *)c;
    cudaStream_t stream = lk_stream_native(s);
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    struct lk_nccl_entry e = {.call = *call, .seq = seq, .step = lk_stream_step(s)};
    enum lk_status st = LK_OK;

    if (moves_nothing(n, call))
        return LK_OK;
    LK_TRY(lk_cuda_status(n->cuda->StreamIsCapturing(stream, &capture), "capture"));
    if (capture != cudaStreamCaptureStatusNone)
        return issue(n, call, stream);
    LK_TRY(lk_nccl_take_event(n, &e.before));
    LK_TRY(lk_nccl_take_event(n, &e.after));
    LK_TRY(record(n, e.before, stream));
    LK_TRY(issue(n, call, stream));
    LK_TRY(record(n, e.after, stream));
    LK_TRY(lk_nccl_watch(n, &e));
    return LK_OK;
out:
    lk_nccl_drop_events(n, &e);
    return st;
}

enum lk_status lk_nccl_graph(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end)
{
    struct lk_nccl *n = (struct lk_nccl *)c;
    struct lk_nccl_entry *e = &n->graph;
    cudaStream_t stream = lk_stream_native(s);
    enum lk_status st = lk_nccl_alive(n);

    if (st != LK_OK)
        return st;
    if (!end) {
        *e = (struct lk_nccl_entry){.graph = true, .seq = seq, .step = lk_stream_step(s)};
        LK_TRY(lk_nccl_take_event(n, &e->before));
        LK_TRY(lk_nccl_take_event(n, &e->after));
        LK_TRY(record(n, e->before, stream));
    } else {
        LK_TRY(record(n, e->after, stream));
        LK_TRY(lk_nccl_watch(n, e));
        *e = (struct lk_nccl_entry){.graph = false};
    }
out:
    return st;
}

/* ---- Collectives run to their end ---- */

enum lk_status lk_nccl_make_scratch(struct lk_nccl *n, size_t bytes)
{
    if (n->scratch_bytes >= bytes)
        return LK_OK;
    lk_device_free(n->device, n->scratch);
    lk_device_free_host(n->device, n->staging);
    n->scratch = n->staging = NULL;
    n->scratch_bytes = 0;
    LK_PASS(lk_device_alloc(n->device, bytes, &n->scratch));
    LK_PASS(lk_device_alloc_host(n->device, bytes, &n->staging));
    n->scratch_bytes = bytes;
    return LK_OK;
}

static enum lk_status is_of_device(const struct lk_nccl *n, const void *p, bool *out)
{
    struct cudaPointerAttributes a;
    enum lk_status st = lk_cuda_status(n->cuda->PointerGetAttributes(&a, p), "a buffer");

    if (st == LK_OK)
        *out = a.type == cudaMemoryTypeDevice || a.type == cudaMemoryTypeManaged;
    return st;
}

static enum lk_status copy(struct lk_nccl *n, void *to, const void *from, size_t bytes)
{
    return lk_cuda_status(n->cuda->MemcpyAsync(to, from, bytes, cudaMemcpyDefault, n->stream),
                          "a copy");
}

/* Wait until the stream of lk_nccl_run is done. */
static enum lk_status await_stream(struct lk_nccl *n)
{
    struct lk_deadline deadline = lk_deadline_in(n->timeout_ns);
    uint64_t nap_ns = 0;

    LK_PASS(record(n, n->ended, n->stream));
    for (;;) {
        cudaError_t e = n->cuda->EventQuery(n->ended);

        if (e != cudaErrorNotReady)
            return lk_cuda_status(e, "collective");
        LK_PASS(lk_nccl_alive(n));
        if (!lk_deadline_left_ns(deadline))
            return lk_nccl_late(n);
        lk_nccl_nap(&nap_ns);
    }
    return LK_OK;
}

static enum lk_status run(struct lk_nccl *n, struct lk_coll_call *call)
{
    size_t bytes = lk_coll_call_bytes(call, n->base.world_size);
    void *given = call->buf;
    bool staged = false;

    if (call->coll != LK_BARRIER && !call->from) { /* out of place: device buffers only */
        LK_PASS(is_of_device(n, given, &staged));
        staged = !staged;
    }
    if (staged) {
        LK_PASS(lk_nccl_make_scratch(n, bytes));
        memcpy(n->staging, given, bytes);
        call->buf = n->scratch;
        LK_PASS(copy(n, n->scratch, n->staging, bytes));
    }
    LK_PASS(issue(n, call, n->stream));
    if (staged)
        LK_PASS(copy(n, n->staging, n->scratch, bytes));
    LK_PASS(await_stream(n));
    if (staged)
        memcpy(given, n->staging, bytes);
    return LK_OK;
}

enum lk_status lk_nccl_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq)
{
    struct lk_nccl *n = (struct lk_nccl *)c;
    struct lk_coll_call own = *call;

    if (moves_nothing(n, call))
        return LK_OK;
    LK_PASS(lk_nccl_alive(n));
    LK_PASS(lk_nccl_look(n)); /* report the progress of earlier collectives first */
    if (n->store)
        lk_store_progress(n->store, seq, true);
    LK_PASS(run(n, &own));
    if (n->store)
        lk_store_progress(n->store, seq, false);
    return LK_OK;
}

#endif
