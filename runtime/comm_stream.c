/* Collectives on a stream: a host function that runs the call and emits its span. */
#include "runtime/comm.h"

#include "base/span.h"

struct enqueued {
    struct lk_comm *comm;
    struct lk_coll_call call;
    uint32_t step;
};
_Static_assert(sizeof(struct enqueued) <= LK_OP_ARGS_MAX, "a call must fit a stream's entry");

static enum lk_status run_enqueued(struct lk_stream *s, const void *arg)
{
    const struct enqueued *e = arg;
    struct lk_span span = {.kind = LK_SPAN_COLLECTIVE,
                           .name = e->comm->span_names[e->call.coll],
                           .step = e->step,
                           .index = e->call.index,
                           .bytes = lk_coll_call_bytes(&e->call, e->comm->world_size)};
    uint64_t seq = 0;
    enum lk_status st;

    /* The stream has come to this call: the bucket is full and the call before has ended. */
    span.start_ns = lk_now_ns();
    st = lk_comm_run_step(e->comm, &e->call, e->step, &seq);
    if (st != LK_OK)
        return st;
    span.end_ns = lk_now_ns();
    span.seq = (uint32_t)seq;
    span.ready_ns = e->call.ready ? lk_event_time_ns(e->call.ready) : span.start_ns;
    lk_span_emit(lk_stream_track(s), &span);
    return LK_OK;
}

enum lk_status lk_comm_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call)
{
    struct enqueued e = {.comm = c, .call = *call, .step = lk_stream_step(s)};

    return lk_stream_host(s, run_enqueued, &e, sizeof e);
}
