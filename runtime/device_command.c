/* What running a command means on every device. */
#include "runtime/device_impl.h"

#include <string.h>

static const char *const command_names[LK_COMMAND_COUNT] = {
#define LK_COMMAND_NAME_(command, name) [command] = name,
    LK_COMMAND_LIST(LK_COMMAND_NAME_)
#undef LK_COMMAND_NAME_
};

static void run_range_begin(struct lk_stream *s, const struct lk_command *c)
{
    s->range = c->span;
    if (!s->track)
        return;
    lk_span_enter(s->track, &s->range);
    s->range.start_ns = s->device->ops->now_ns(s);
    if (c->event)
        s->range.ready_ns = lk_event_time_ns(c->event);
}

static void run_range_end(struct lk_stream *s, const struct lk_command *c)
{
    (void)c;
    if (!s->track)
        return;
    s->range.end_ns = s->device->ops->now_ns(s);
    lk_span_leave(s->track, &s->range);
    lk_span_emit(s->track, &s->range);
}

static void run_mark(struct lk_stream *s, const struct lk_command *c)
{
    struct lk_span span = c->span;

    if (!s->track)
        return;
    span.start_ns = s->device->ops->now_ns(s);
    span.end_ns = span.start_ns;
    lk_span_emit(s->track, &span);
}

static void run_copy(struct lk_stream *s, const struct lk_command *c)
{
    struct lk_span span = lk_span_begin(s->track, LK_SPAN_COPY, 0, c->span.step, -1);

    span.bytes = c->copy.bytes;
    if (c->copy.bytes)
        memcpy(c->copy.to, c->copy.from, c->copy.bytes);
    lk_span_end(s->track, &span);
    if (s->device->ops->advance)
        s->device->ops->advance(s, lk_now_ns());
}

static void run_host(struct lk_stream *s, const struct lk_command *c)
{
    enum lk_status st = c->fn(s, c->args);

    if (st != LK_OK)
        lk_device_fail(s->device, st, lk_error_text());
    if (s->device->ops->advance)
        s->device->ops->advance(s, lk_now_ns());
}

static void run_record(struct lk_stream *s, const struct lk_command *c)
{
    pthread_mutex_lock(&c->event->lock);
    c->event->passed_stream = s;
    c->event->passed_seq = c->seq;
    c->event->passed_ns = s->device->ops->now_ns(s);
    pthread_mutex_unlock(&c->event->lock);
}

static void run_op(struct lk_stream *s, const struct lk_command *c)
{
    s->device->ops->run_op(s, c);
}

/* The other stream has come to the point: time on this one is not earlier. */
static void run_wait(struct lk_stream *s, const struct lk_command *c)
{
    uint64_t at_ns = 0;

    if (!s->device->ops->advance)
        return;
    pthread_mutex_lock(&c->event->lock);
    if (c->event->passed_stream == c->on && c->event->passed_seq == c->seq)
        at_ns = c->event->passed_ns;
    pthread_mutex_unlock(&c->event->lock);
    /* The event was recorded again and its time is gone: the wait ended just now. */
    s->device->ops->advance(s, at_ns ? at_ns : lk_now_ns());
}

static void (*const run_table[LK_COMMAND_COUNT])(struct lk_stream *, const struct lk_command *) = {
    [LK_COMMAND_OP] = run_op,
    [LK_COMMAND_HOST] = run_host,
    [LK_COMMAND_RANGE_BEGIN] = run_range_begin,
    [LK_COMMAND_RANGE_END] = run_range_end,
    [LK_COMMAND_MARK] = run_mark,
    [LK_COMMAND_COPY] = run_copy,
    [LK_COMMAND_RECORD] = run_record,
    [LK_COMMAND_WAIT] = run_wait,
};

void lk_device_run_command(struct lk_stream *s, const struct lk_command *c)
{
    if (s->device->ops->advance)
        s->device->ops->advance(s, c->queued_ns);
    run_table[c->kind](s, c);
}

void lk_command_drop(const struct lk_command *c)
{
    if (c->kind == LK_COMMAND_RECORD || c->kind == LK_COMMAND_WAIT ||
        c->kind == LK_COMMAND_RANGE_BEGIN)
        lk_event_destroy(c->event);
}

const char *lk_command_text(const struct lk_command *c)
{
    return c->kind == LK_COMMAND_OP ? c->op->name : command_names[c->kind];
}
