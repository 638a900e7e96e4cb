/*
 * The device timed: an op takes the time that its cost says, and computes nothing.
 *
 * Time on a stream is kept apart from when its thread happens to wake: an op starts when the one
 * before it ended, or when it was enqueued, or when what it waited for had happened, whichever is
 * last, and ends exactly its cost later. The thread sleeps to that absolute end. It wakes a little
 * late, but the next op starts at the end that was meant, so lateness does not add up. Host
 * functions and copies run for real, and time on the stream moves on to when they were done.
 */
#include "base/units.h"
#include "runtime/device_thread.h"

#include <math.h>

static const char *timed_lacks(const struct lk_op *op)
{
    return op->cost ? NULL : "cost";
}

static enum lk_status timed_open(struct lk_device *d)
{
    const struct lk_device_config *c = &d->config;

    if (!(c->timed_flops > 0) || !(c->timed_Bps > 0) || !(c->slowdown > 0))
        return lk_fail(LK_EUSAGE,
                       "device timed needs rates above 0: %g flop/s, %g B/s, slowdown %g",
                       c->timed_flops, c->timed_Bps, c->slowdown);
    return LK_OK;
}

/* Roofline: arithmetic and memory traffic overlap, so the longer of the two counts. */
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

static void timed_run_op(struct lk_stream *s, const struct lk_command *c)
{
    struct lk_thread_stream *t = (struct lk_thread_stream *)s;
    struct lk_op_cost cost = c->op->cost(c->args);
    struct lk_span span = lk_span_begin(s->track, LK_SPAN_KERNEL, c->span.name, c->span.step, -1);
    uint64_t now_ns;

    span.start_ns = t->busy_until_ns;
    span.end_ns = span.start_ns + op_time_ns(&s->device->config, &cost);
    t->busy_until_ns = span.end_ns;
    now_ns = lk_now_ns();
    if (span.end_ns > now_ns)
        lk_thread_sleep(t, lk_deadline_in(span.end_ns - now_ns));
    lk_span_leave(s->track, &span);
    lk_span_emit(s->track, &span);
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
    .lacks = timed_lacks,
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
