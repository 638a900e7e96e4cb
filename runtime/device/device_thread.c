/* A stream that is a thread with a bounded queue; see the header. */
#include "runtime/device/device_thread.h"

#include "base/array.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static struct lk_thread_stream *thread_of(struct lk_stream *s)
{
    return (struct lk_thread_stream *)s;
}

static struct lk_thread_slot *slot_of(struct lk_thread_stream *t, uint64_t seq)
{
    return &t->slots[(seq - 1) % LK_THREAD_QUEUE];
}

/* Wake waiters if the count that they wait for is reached. pre: t->lock is held. */
static void note_progress(struct lk_thread_stream *t)
{
    if (t->done < t->wake_at)
        return;
    t->wake_at = UINT64_MAX;
    pthread_cond_broadcast(&t->progress);
}

/* Wait on t, whose lock is held, until it has run `seq` commands, the device failed, or *stop
 * (NULL: never) is set. Return false past the deadline. */
static bool wait_done(struct lk_thread_stream *t, uint64_t seq, struct lk_deadline deadline,
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
static void wait_other(struct lk_thread_stream *t, const struct lk_command *c)
{
    struct lk_thread_stream *other = thread_of(c->on);

    pthread_mutex_lock(&other->lock);
    wait_done(other, c->seq, never, &t->stop);
    pthread_mutex_unlock(&other->lock);
}

static void run(struct lk_thread_stream *t, const struct lk_command *c)
{
    if (c->kind == LK_COMMAND_WAIT && !lk_device_failed(t->base.device))
        wait_other(t, c);
    if (!lk_device_failed(t->base.device) && !atomic_load(&t->stop))
        lk_device_run_command(&t->base, c);
    lk_command_drop(c);
}

static void *stream_main(void *arg)
{
    struct lk_thread_stream *t = arg;

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
        run(t, &slot_of(t, t->done + 1)->command);
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

/* Start the thread with all signals blocked: handlers must run on the program's own threads. */
static int start_thread(struct lk_thread_stream *t)
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    error = pthread_create(&t->thread, NULL, stream_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

enum lk_status lk_thread_stream_open(struct lk_stream *s)
{
    struct lk_thread_stream *t = thread_of(s);
    enum lk_status st = LK_OK;
    int error;

    t->wake_at = UINT64_MAX;
    atomic_init(&t->stop, false);
    LK_TRY(lk_alloc(&t->slots, LK_THREAD_QUEUE, sizeof *t->slots));
    /* On Linux these three cannot fail with default attributes. */
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->progress, NULL);
    error = start_thread(t);
    if (error) {
        st = lk_fail(LK_ENOMEM, "cannot start the thread of stream '%s': %s", s->name,
                     strerror(error));
        lk_thread_stream_free(s);
    }
out:
    return st;
}

void lk_thread_stream_free(struct lk_stream *s)
{
    struct lk_thread_stream *t = thread_of(s);

    pthread_cond_destroy(&t->progress);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->slots);
}

void lk_thread_stream_close(struct lk_stream *s)
{
    struct lk_thread_stream *t = thread_of(s);

    atomic_store(&t->stop, true);
    lk_device_wake(s->device); /* the thread may be waiting on another stream */
    pthread_join(t->thread, NULL);
    free(t->slots);
    t->slots = NULL;
}

enum lk_status lk_thread_submit(struct lk_stream *s, const struct lk_command *c, uint64_t *out_seq)
{
    struct lk_thread_stream *t = thread_of(s);
    struct lk_thread_slot *slot;
    bool wake;

    pthread_mutex_lock(&t->lock);
    /* If the queue is full, wait until half of it has run, so that the two threads do not
     * alternate. */
    if (t->queued - t->done == LK_THREAD_QUEUE)
        wait_done(t, t->queued - LK_THREAD_QUEUE / 2, never, NULL);
    if (t->queued - t->done == LK_THREAD_QUEUE) {
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

enum lk_status lk_thread_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline)
{
    struct lk_thread_stream *t = thread_of(s);
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

void lk_thread_wake(struct lk_stream *s)
{
    struct lk_thread_stream *t = thread_of(s);

    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->work);
    pthread_cond_broadcast(&t->progress);
    pthread_mutex_unlock(&t->lock);
}

void lk_thread_sleep(struct lk_thread_stream *t, struct lk_deadline deadline)
{
    struct timespec at = lk_deadline_timespec(deadline);

    pthread_mutex_lock(&t->lock);
    while (!lk_device_failed(t->base.device) && !atomic_load(&t->stop) &&
           lk_deadline_left_ns(deadline))
        pthread_cond_clockwait(&t->work, &t->lock, CLOCK_MONOTONIC, &at);
    pthread_mutex_unlock(&t->lock);
}
