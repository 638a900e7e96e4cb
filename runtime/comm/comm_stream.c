/* Collectives on a stream, by a host function that runs the collective and emits its span. */
#include "runtime/comm/comm.h"

#include "base/span.h"

struct enqueued {
    struct lk_comm *comm;
    struct lk_coll_call call;
    uint32_t step;
};
_Static_assert(sizeof(struct enqueued) <= LK_OP_ARGS_MAX, "a call must fit a stream's entry");

static struct lk_span span_of(const struct lk_comm *c, const struct lk_coll_call *call,
                              uint32_t step)
{
    return (struct lk_span){.kind = LK_SPAN_COLLECTIVE,
                            .name = c->span_names[call->coll],
                            .step = step,
                            .index = call->index,
                            .bytes = lk_coll_call_bytes(call, c->world_size)};
}

static enum lk_status run_enqueued(struct lk_stream *s, const void *arg)
{
    const struct enqueued *e = arg;
    struct lk_span span = span_of(e->comm, &e->call, e->step);
    struct lk_track *track = lk_stream_track(s);
    uint64_t seq = 0;
    enum lk_status st;

    lk_span_enter(track, &span);
    /* The stream has reached this collective: the bucket is full and the one before has ended. */
    span.start_ns = lk_now_ns();
    st = lk_comm_run_step(e->comm, NULL, &e->call, e->step, &seq);
    if (st != LK_OK)
        return st;
    span.end_ns = lk_now_ns();
    lk_span_leave(track, &span);
    span.seq = (uint32_t)seq;
    span.ready_ns = e->call.ready ? lk_event_time_ns(e->call.ready) : span.start_ns;
    lk_span_emit(track, &span);
    return LK_OK;
}

/* Enqueue a collective that the stream runs natively; its span is a range of the stream. */
static enum lk_status put_on(struct lk_comm *c, struct lk_stream *s,
                             const struct lk_coll_call *call)
{
    struct lk_span span = span_of(c, call, lk_stream_step(s));
    enum lk_status st = LK_OK;
    uint64_t seq;

    span.seq = (uint32_t)c->next_seq;
    LK_TRY(lk_stream_span_begin(s, &span, call->ready));
    LK_TRY(lk_comm_run_step(c, s, call, lk_stream_step(s), &seq));
    LK_TRY(lk_stream_range_end(s));
out:
    return st;
}

enum lk_status lk_comm_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call)
{
    struct enqueued e = {.comm = c, .call = *call, .step = lk_stream_step(s)};

    /* A host function is cheaper than the events of a range, if host functions can use the
     * buffer. */
    if (c->ops->enqueue && !lk_device_uses_host_memory(lk_stream_device(s)))
        return put_on(c, s, call);
    return lk_stream_host(s, run_enqueued, &e, sizeof e);
}

enum lk_status lk_comm_put(struct lk_comm *c, struct lk_stream *s, const struct lk_coll_call *call)
{
    uint64_t seq;

    return c->ops->enqueue ? lk_comm_run_step(c, s, call, lk_stream_step(s), &seq)
                           : lk_comm_enqueue(c, s, call);
}
