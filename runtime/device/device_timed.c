/*
 * The device timed: an op takes the time that follows from its cost, and computes nothing.
 *
 * A stream's time does not depend on when its thread wakes: an op starts when the previous one
 * ended, when it was enqueued, or when its wait was satisfied, whichever is last, and ends exactly
 * its cost later. The thread sleeps until that absolute time. It wakes a little late, but the next
 * op starts at the intended end, so lateness does not accumulate. Host functions and copies run for
 * real, and the stream's time advances to their end.
 */
#include "base/units.h"
#include "runtime/device/device_thread.h"

#include <math.h>

static enum lk_status timed_open(struct lk_device *d)
{
    const struct lk_device_config *c = &d->config;

    if (!(c->timed_flops > 0) || !(c->timed_Bps > 0) || !(c->slowdown > 0))
        return lk_fail(LK_EUSAGE,
                       "device timed needs rates above 0: %g flop/s, %g B/s, slowdown %g",
                       c->timed_flops, c->timed_Bps, c->slowdown);
    return LK_OK;
}

/* Return an op's duration by the roofline model: arithmetic and memory traffic overlap, so the
 * longer of the two counts. */
static uint64_t op_time_ns(const struct lk_device_config *config, const struct lk_op_cost *cost)
{
    double s = fmax(cost->flops / config->timed_flops, cost->bytes / config->timed_Bps);

    return lk_ns_from_s((s + cost->seconds) * config->slowdown);
}

static void timed_advance(struct lk_stream *s, uint64_t at_ns)
{
    struct lk_thread_stream *t = (struct lk_thread_stream *)s;

    if (t->busy_until_ns < at_ns)
        t->busy_until_ns = at_ns;
}

static void timed_run_op(struct lk_stream *s, const struct lk_command *c, struct lk_span *span)
{
    struct lk_thread_stream *t = (struct lk_thread_stream *)s;
    struct lk_op_cost cost = c->op->cost(c->args);
    uint64_t now_ns;

    span->start_ns = t->busy_until_ns;
    span->end_ns = span->start_ns + op_time_ns(&s->device->config, &cost);
    t->busy_until_ns = span->end_ns;
    now_ns = lk_now_ns();
    if (span->end_ns > now_ns)
        lk_thread_sleep(t, lk_deadline_in(span->end_ns - now_ns));
    lk_span_leave(s->track, span);
    lk_span_emit(s->track, span);
}

static uint64_t timed_now_ns(struct lk_stream *s)
{
    return ((struct lk_thread_stream *)s)->busy_until_ns;
}

const struct lk_device_ops lk_device_timed = {
    .name = "timed",
    .help = "waits for as long as an op would take, a stream is a thread",
    .real = LK_F32,
    .unit_roundoff = 0x1p-24,
    .device_bytes = sizeof(struct lk_device),
    .stream_bytes = sizeof(struct lk_thread_stream),
    .stamps = true,
    .open = timed_open,
    .needs = LK_OP_COST,
    .stream_open = lk_thread_stream_open,
    .stream_close = lk_thread_stream_close,
    .stream_free = lk_thread_stream_free,
    .submit = lk_thread_submit,
    .sync = lk_thread_sync,
    .wake = lk_thread_wake,
    .run_op = timed_run_op,
    .now_ns = timed_now_ns,
    .advance = timed_advance,
};
