/*
 * The devices of the host: cpu, timed and reference.
 *
 * A stream of cpu and timed is a thread with a bounded queue of commands. The host thread appends,
 * the stream's thread runs; neither spins. Several commands run per wake-up, and a host that waits
 * for the last of them is woken once. After a failure of the device the thread skips queued
 * commands but still counts them, so that waiters for a count are released.
 */
#include "base/array.h"
#include "base/thread.h"
#include "base/units.h"
#include "kernels/narrow.h"
#include "kernels/ops.h"
#include "runtime/device/device_impl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* ---- Running a command ---- */

static uint64_t now_ns(struct lk_stream *s)
{
    return s->device->ops->now_ns ? s->device->ops->now_ns(s) : lk_now_ns();
}

static void run_range_begin(struct lk_stream *s, const struct lk_stream_command *c)
{
    s->range = c->span;
    if (!s->track)
        return;
    lk_span_enter(s->track, &s->range);
    s->range.start_ns = now_ns(s);
    if (c->event)
        s->range.ready_ns = lk_event_time_ns(c->event);
}

static void run_range_end(struct lk_stream *s, const struct lk_stream_command *c)
{
    (void)c;
    if (!s->track)
        return;
    s->range.end_ns = now_ns(s);
    lk_span_leave(s->track, &s->range);
    lk_span_emit(s->track, &s->range);
}

static void run_mark(struct lk_stream *s, const struct lk_stream_command *c)
{
    struct lk_span span = c->span;

    if (!s->track)
        return;
    span.start_ns = now_ns(s);
    span.end_ns = span.start_ns;
    lk_span_emit(s->track, &span);
}

static void run_copy(struct lk_stream *s, const struct lk_stream_command *c)
{
    struct lk_span span = lk_span_begin(s->track, LK_SPAN_COPY, 0, c->span.step, -1);

    span.bytes = c->copy.bytes;
    if (c->copy.bytes)
        memcpy(c->copy.to, c->copy.from, c->copy.bytes);
    lk_span_end(s->track, &span);
    if (s->device->ops->advance)
        s->device->ops->advance(s, lk_now_ns());
}

static void run_host(struct lk_stream *s, const struct lk_stream_command *c)
{
    enum lk_status st = c->fn(s, c->args);

    if (st != LK_OK)
        lk_device_fail(s->device, st, lk_error_text());
    if (s->device->ops->advance)
        s->device->ops->advance(s, lk_now_ns());
}

static void run_record(struct lk_stream *s, const struct lk_stream_command *c)
{
    pthread_mutex_lock(&c->event->lock);
    c->event->passed_stream = s;
    c->event->passed_seq = c->seq;
    c->event->passed_ns = now_ns(s);
    pthread_mutex_unlock(&c->event->lock);
}

static void run_op(struct lk_stream *s, const struct lk_stream_command *c)
{
    const struct lk_device_ops *ops = s->device->ops;
    struct lk_span span = lk_span_begin(s->track, LK_SPAN_KERNEL, c->span.name, c->span.step, -1);

    if (ops->run_op) {
        ops->run_op(s, c, &span);
        return;
    }
    c->op->ref(c->args);
    lk_span_end(s->track, &span);
}

/* Continue after a wait: the other stream has passed the event, so this stream's time is not
 * earlier. */
static void run_wait(struct lk_stream *s, const struct lk_stream_command *c)
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

static void (*const run_table[LK_COMMAND_COUNT])(struct lk_stream *,
                                                 const struct lk_stream_command *) = {
    [LK_COMMAND_OP] = run_op,
    [LK_COMMAND_HOST] = run_host,
    [LK_COMMAND_RANGE_BEGIN] = run_range_begin,
    [LK_COMMAND_RANGE_END] = run_range_end,
    [LK_COMMAND_MARK] = run_mark,
    [LK_COMMAND_COPY] = run_copy,
    [LK_COMMAND_RECORD] = run_record,
    [LK_COMMAND_WAIT] = run_wait,
};

/* Run a command other than WAIT on the executing thread; its failure becomes the device's. */
static void run_command(struct lk_stream *s, const struct lk_stream_command *c)
{
    if (s->device->ops->advance)
        s->device->ops->advance(s, c->queued_ns);
    run_table[c->kind](s, c);
}

/* ---- A stream that is a thread ---- */

/* Commands that a stream can hold; a GPT-2 step is about 600, so enqueuing a step rarely blocks. */
enum { QUEUE = 1024 };

struct slot {
    struct lk_stream_command command;
    _Alignas(max_align_t) unsigned char args[LK_OP_ARGS_MAX];
};

struct thread_stream {
    struct lk_stream base;
    pthread_t thread;
    pthread_mutex_t lock;    /* guards all below; a thread holds at most one stream's lock */
    pthread_cond_t work;     /* to the stream's thread: something is queued, or stop */
    pthread_cond_t progress; /* to others: done reached wake_at, or the device failed */
    struct slot *slots;
    uint64_t queued, done; /* commands so far; done == UINT64_MAX: closed */
    uint64_t wake_at;      /* smallest count that a thread waits for */
    bool idle;             /* the thread waits for work */
    atomic_bool stop;
    /* timed: the time until which this stream is busy, in lk_now_ns. Its thread only. */
    uint64_t busy_until_ns;
    struct lk_narrow narrow; /* cpu: of ops on narrow buffers. Its thread only */
};

static struct thread_stream *thread_of(struct lk_stream *s)
{
    return (struct thread_stream *)s;
}

static struct slot *slot_of(struct thread_stream *t, uint64_t seq)
{
    return &t->slots[(seq - 1) % QUEUE];
}

/* Wake waiters if the count that they wait for is reached. pre: t->lock is held. */
static void note_progress(struct thread_stream *t)
{
    if (t->done < t->wake_at)
        return;
    t->wake_at = UINT64_MAX;
    pthread_cond_broadcast(&t->progress);
}

/* Wait on t, whose lock is held, until it has run `seq` commands, the device failed, or *stop
 * (NULL: never) is set. Return false past the deadline. */
static bool wait_done(struct thread_stream *t, uint64_t seq, struct lk_deadline deadline,
                      const atomic_bool *stop)
{
    struct timespec at = lk_deadline_timespec(deadline);

    while (t->done < seq && !lk_device_failed(t->base.device) && !(stop && atomic_load(stop))) {
        if (seq < t->wake_at)
            t->wake_at = seq;
        if (pthread_cond_clockwait(&t->progress, &t->lock, CLOCK_MONOTONIC, &at) == ETIMEDOUT)
            return t->done >= seq;
    }
    return true;
}

static const struct lk_deadline never = {UINT64_MAX};

/* Run a WAIT: wait until the other stream has passed the point. That needs no deadline: the point
 * was queued before this command, and the work before it ends by its own deadline. */
static void wait_other(struct thread_stream *t, const struct lk_stream_command *c)
{
    struct thread_stream *other = thread_of(c->on);

    pthread_mutex_lock(&other->lock);
    wait_done(other, c->seq, never, &t->stop);
    pthread_mutex_unlock(&other->lock);
}

static void run_one(struct thread_stream *t, const struct lk_stream_command *c)
{
    if (c->kind == LK_COMMAND_WAIT && !lk_device_failed(t->base.device))
        wait_other(t, c);
    if (!lk_device_failed(t->base.device) && !atomic_load(&t->stop))
        run_command(&t->base, c);
    lk_command_drop(c);
}

static void *stream_main(void *arg)
{
    struct thread_stream *t = arg;

    prctl(PR_SET_NAME, t->base.name); /* the kernel keeps 15 bytes */
    prctl(PR_SET_TIMERSLACK, 1UL);    /* ns; the default lets a sleep end 50 us late */
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->done == t->queued && !atomic_load(&t->stop)) {
            t->idle = true;
            pthread_cond_wait(&t->work, &t->lock);
            t->idle = false;
        }
        if (atomic_load(&t->stop))
            break;
        pthread_mutex_unlock(&t->lock);
        run_one(t, &slot_of(t, t->done + 1)->command);
        pthread_mutex_lock(&t->lock);
        t->done++;
        note_progress(t);
    }
    while (t->done < t->queued)
        lk_command_drop(&slot_of(t, ++t->done)->command);
    t->done = UINT64_MAX;
    note_progress(t);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void thread_free(struct lk_stream *s)
{
    struct thread_stream *t = thread_of(s);

    pthread_cond_destroy(&t->progress);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->slots);
    lk_narrow_fini(&t->narrow);
}

static enum lk_status thread_open(struct lk_stream *s)
{
    struct thread_stream *t = thread_of(s);
    enum lk_status st = LK_OK;

    t->wake_at = UINT64_MAX;
    atomic_init(&t->stop, false);
    LK_TRY(lk_alloc(&t->slots, QUEUE, sizeof *t->slots));
    /* On Linux these three cannot fail with default attributes. */
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->progress, NULL);
    st = lk_thread_start(&t->thread, stream_main, t, s->name);
    if (st != LK_OK)
        thread_free(s);
out:
    return st;
}

static void thread_close(struct lk_stream *s)
{
    struct thread_stream *t = thread_of(s);

    atomic_store(&t->stop, true);
    lk_device_wake(s->device); /* the thread may be waiting on another stream */
    pthread_join(t->thread, NULL);
    free(t->slots);
    t->slots = NULL;
}

static enum lk_status thread_submit(struct lk_stream *s, const struct lk_stream_command *c,
                                    uint64_t *out_seq)
{
    struct thread_stream *t = thread_of(s);
    struct slot *slot;
    bool wake;

    pthread_mutex_lock(&t->lock);
    /* If the queue is full, wait until half of it has run, so that the two threads do not
     * alternate. */
    if (t->queued - t->done == QUEUE)
        wait_done(t, t->queued - QUEUE / 2, never, NULL);
    if (t->queued - t->done == QUEUE) {
        pthread_mutex_unlock(&t->lock);
        return lk_device_status(s->device);
    }
    slot = slot_of(t, ++t->queued);
    slot->command = *c;
    slot->command.args = slot->args;
    if (c->kind == LK_COMMAND_RECORD)
        slot->command.seq = t->queued;
    if (c->args_bytes)
        memcpy(slot->args, c->args, c->args_bytes);
    *out_seq = t->queued;
    wake = t->idle;
    t->idle = false; /* one signal per wake-up */
    pthread_mutex_unlock(&t->lock);
    if (wake)
        pthread_cond_signal(&t->work);
    return LK_OK;
}

static enum lk_status thread_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline)
{
    struct thread_stream *t = thread_of(s);
    enum lk_status st = LK_OK;

    pthread_mutex_lock(&t->lock);
    if (!wait_done(t, seq < t->queued ? seq : t->queued, deadline, NULL))
        st = lk_fail(LK_ETIMEOUT,
                     "stream '%s' did not finish in time: %s is running, %llu more wait", s->name,
                     lk_command_text(&slot_of(t, t->done + 1)->command),
                     (unsigned long long)(t->queued - t->done - 1));
    pthread_mutex_unlock(&t->lock);
    return st;
}

static void thread_wake(struct lk_stream *s)
{
    struct thread_stream *t = thread_of(s);

    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->work);
    pthread_cond_broadcast(&t->progress);
    pthread_mutex_unlock(&t->lock);
}

/* Sleep until the deadline, or until the device fails or the stream closes. */
static void thread_sleep(struct thread_stream *t, struct lk_deadline deadline)
{
    struct timespec at = lk_deadline_timespec(deadline);

    pthread_mutex_lock(&t->lock);
    while (!lk_device_failed(t->base.device) && !atomic_load(&t->stop) &&
           lk_deadline_left_ns(deadline))
        pthread_cond_clockwait(&t->work, &t->lock, CLOCK_MONOTONIC, &at);
    pthread_mutex_unlock(&t->lock);
}

/* The devices cpu and timed share these functions. */
#define THREAD_HOOKS                                                                               \
    .real = LK_F32, .reals = 1U << LK_F16 | 1U << LK_BF16, .unit_roundoff = 0x1p-24,               \
    .device_bytes = sizeof(struct lk_device), .stream_bytes = sizeof(struct thread_stream),        \
    .stream_open = thread_open, .stream_close = thread_close, .stream_free = thread_free,          \
    .submit = thread_submit, .sync = thread_sync, .wake = thread_wake

/* ---- cpu: ops in float32, on buffers of float32 or of narrower types ---- */

static enum lk_status cpu_open(struct lk_device *d)
{
    (void)d;
    return lk_kernels_init();
}

static void cpu_run_op(struct lk_stream *s, const struct lk_stream_command *c, struct lk_span *span)
{
    enum lk_status st = LK_OK;

    if (s->device->real == LK_F32)
        c->op->cpu(c->args);
    else
        st = lk_narrow_run(&thread_of(s)->narrow, c->op, c->args, s->device->real);
    if (st != LK_OK)
        lk_device_fail(s->device, st, lk_error_text());
    lk_span_end(s->track, span);
}

const struct lk_device_ops lk_device_cpu = {
    .name = "cpu",
    .help = "float32 on this processor, a stream is a thread",
    THREAD_HOOKS,
    .open = cpu_open,
    .needs = LK_OP_CPU,
    .run_op = cpu_run_op,
};

/*
 * ---- timed: an op takes the time that follows from its cost, and computes nothing ----
 *
 * A stream's time does not depend on when its thread wakes: an op starts when the previous one
 * ended, when it was enqueued, or when its wait was satisfied, whichever is last, and ends exactly
 * its cost later. The thread sleeps until that absolute time. It wakes a little late, but the next
 * op starts at the intended end, so lateness does not accumulate. Host functions and copies run for
 * real, and the stream's time advances to their end.
 */

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
    struct thread_stream *t = (struct thread_stream *)s;

    if (t->busy_until_ns < at_ns)
        t->busy_until_ns = at_ns;
}

static void timed_run_op(struct lk_stream *s, const struct lk_stream_command *c,
                         struct lk_span *span)
{
    struct thread_stream *t = (struct thread_stream *)s;
    struct lk_op_cost cost = c->op->cost(c->args);
    uint64_t now_ns;

    /* Costs are of float32. The few buffers that stay wide are counted as narrow. */
    cost.bytes *= (double)lk_dtype_bytes(s->device->real) / (double)lk_dtype_bytes(LK_F32);

    span->start_ns = t->busy_until_ns;
    span->end_ns = span->start_ns + op_time_ns(&s->device->config, &cost);
    t->busy_until_ns = span->end_ns;
    now_ns = lk_now_ns();
    if (span->end_ns > now_ns)
        thread_sleep(t, lk_deadline_in(span->end_ns - now_ns));
    lk_span_leave(s->track, span);
    lk_span_emit(s->track, span);
}

static uint64_t timed_now_ns(struct lk_stream *s)
{
    return ((struct thread_stream *)s)->busy_until_ns;
}

const struct lk_device_ops lk_device_timed = {
    .name = "timed",
    .help = "waits for as long as an op would take, a stream is a thread",
    THREAD_HOOKS,
    .stamps = true,
    .open = timed_open,
    .needs = LK_OP_COST,
    .run_op = timed_run_op,
    .now_ns = timed_now_ns,
    .advance = timed_advance,
};

/* ---- reference: ops in float64, by their definition, run at once on the caller's thread ---- */

struct reference_stream {
    struct lk_stream base;
    uint64_t done; /* commands so far */
};

static enum lk_status reference_submit(struct lk_stream *s, const struct lk_stream_command *c,
                                       uint64_t *out_seq)
{
    struct lk_stream_command numbered = *c;

    *out_seq = ++((struct reference_stream *)s)->done;
    if (c->kind == LK_COMMAND_RECORD)
        numbered.seq = *out_seq;
    run_command(s, &numbered);
    lk_command_drop(&numbered);
    return LK_OK;
}

static enum lk_status reference_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline)
{
    (void)s;
    (void)seq;
    (void)deadline;
    return LK_OK;
}

const struct lk_device_ops lk_device_reference = {
    .name = "reference",
    .help = "float64 by the definition, without threads",
    .real = LK_F64,
    .unit_roundoff = 0x1p-53,
    .device_bytes = sizeof(struct lk_device),
    .stream_bytes = sizeof(struct reference_stream),
    .needs = LK_OP_REF,
    .submit = reference_submit,
    .sync = reference_sync,
};
