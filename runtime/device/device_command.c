/* Commands on every device: what running one means, and graphs of them. */
#include "runtime/device/device_impl.h"

#include "base/words.h"

#include <string.h>

static const char *const command_names[LK_COMMAND_COUNT] = {LK_COMMAND_LIST(LK_WORD_NAME)};

static uint64_t now_ns(struct lk_stream *s)
{
    return s->device->ops->now_ns ? s->device->ops->now_ns(s) : lk_now_ns();
}

static void run_range_begin(struct lk_stream *s, const struct lk_command *c)
{
    s->range = c->span;
    if (!s->track)
        return;
    lk_span_enter(s->track, &s->range);
    s->range.start_ns = now_ns(s);
    if (c->event)
        s->range.ready_ns = lk_event_time_ns(c->event);
}

static void run_range_end(struct lk_stream *s, const struct lk_command *c)
{
    (void)c;
    if (!s->track)
        return;
    s->range.end_ns = now_ns(s);
    lk_span_leave(s->track, &s->range);
    lk_span_emit(s->track, &s->range);
}

static void run_mark(struct lk_stream *s, const struct lk_command *c)
{
    struct lk_span span = c->span;

    if (!s->track)
        return;
    span.start_ns = now_ns(s);
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
    c->event->passed_ns = now_ns(s);
    pthread_mutex_unlock(&c->event->lock);
}

static void run_op(struct lk_stream *s, const struct lk_command *c)
{
    const struct lk_device_ops *ops = s->device->ops;
    struct lk_span span = lk_span_begin(s->track, LK_SPAN_KERNEL, c->span.name, c->span.step, -1);

    if (ops->run_op) {
        ops->run_op(s, c, &span);
        return;
    }
    (ops->needs == LK_OP_REF ? c->op->ref : c->op->cpu)(c->args);
    lk_span_end(s->track, &span);
}

/* Continue after a wait: the other stream has passed the event, so this stream's time is not
 * earlier. */
static void run_wait(struct lk_stream *s, const struct lk_command *c)
{
    uint64_t at_ns = 0;

    if (!s->device->ops->advance)
        return;
    pthread_mutex_lock(&c->event->lock);
    if (c->event->passed_stream == c->on && c->event->passed_seq == c->seq)
        at_ns = c->event->passed_ns;
    pthread_mutex_unlock(&c->event->lock);
    /* If the event was recorded again, its old time is lost: take the wait's end, which is now. */
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

/* ---- Graphs of commands ---- */

bool lk_device_has_graphs(const struct lk_device *d)
{
    return d->ops->graph_begin != NULL;
}

enum lk_status lk_graph_begin(struct lk_stream *s)
{
    enum lk_status st = lk_device_status(s->device);

    if (st != LK_OK)
        return st;
    if (!s->device->ops->graph_begin)
        return lk_fail(LK_EUNSUPPORTED, "device %s has no graphs", s->device->ops->name);
    return s->device->ops->graph_begin(s);
}

enum lk_status lk_graph_end(struct lk_stream *s, struct lk_graph **out)
{
    if (!s->device->ops->graph_end)
        return lk_fail(LK_EUNSUPPORTED, "device %s has no graphs", s->device->ops->name);
    return s->device->ops->graph_end(s, out);
}

enum lk_status lk_graph_launch(struct lk_graph *g, struct lk_stream *s)
{
    enum lk_status st = lk_device_status(s->device);

    return st == LK_OK ? g->device->ops->graph_launch(g, s) : st;
}

void lk_graph_destroy(struct lk_graph *g)
{
    if (g)
        g->device->ops->graph_destroy(g);
}
