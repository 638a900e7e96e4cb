/* The watchdog of an NCCL communicator; see runtime/comm/comm_nccl_cuda.h. */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/array.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

enum {
    WATCH_MS = 10,
    MANY = 256, /* entries in flight above which the host thread retires some, too */
};
/* Upper limits; a shorter timeout of the communicator replaces them. */
#define OUTSIDE_NS (5 * LK_NS_PER_S)  /* for a thread to leave NCCL before the abort */
#define ABORT_NS   (15 * LK_NS_PER_S) /* for the abort */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Events and entries ---- */

enum lk_status lk_nccl_take_event(struct lk_nccl *n, cudaEvent_t *out)
{
    bool found;

    pthread_mutex_lock(&n->lock);
    found = n->n_spare > 0;
    if (found)
        *out = n->spare[--n->n_spare];
    pthread_mutex_unlock(&n->lock);
    if (found)
        return LK_OK;
    return lk_cuda_status(n->cuda->EventCreateWithFlags(out, cudaEventDisableTiming), "an event");
}

/* Return an event to the pool. pre: locked. */
static void give_event(struct lk_nccl *n, cudaEvent_t e)
{
    if (!e)
        return;
    if (lk_array_grow(&n->spare, &n->cap_spare, n->n_spare + 1, sizeof(cudaEvent_t)) == LK_OK)
        n->spare[n->n_spare++] = e;
    else
        (void)n->cuda->EventDestroy(e);
}

void lk_nccl_drop_events(struct lk_nccl *n, const struct lk_nccl_entry *e)
{
    pthread_mutex_lock(&n->lock);
    give_event(n, e->before);
    give_event(n, e->after);
    pthread_mutex_unlock(&n->lock);
}

enum lk_status lk_nccl_watch(struct lk_nccl *n, const struct lk_nccl_entry *e)
{
    enum lk_status st;
    bool many;

    pthread_mutex_lock(&n->lock);
    if (n->first > 0 && n->first + n->n_entries == n->cap_entries) {
        memmove(n->entries, n->entries + n->first, n->n_entries * sizeof *n->entries);
        n->first = 0;
    }
    st = lk_array_grow(&n->entries, &n->cap_entries, n->first + n->n_entries + 1,
                       sizeof *n->entries);
    if (st == LK_OK)
        n->entries[n->first + n->n_entries++] = *e;
    many = n->n_entries > MANY;
    pthread_mutex_unlock(&n->lock);
    return st == LK_OK && many ? lk_nccl_look(n) : st;
}

static void progress(const struct lk_nccl *n, uint64_t seq, bool entered)
{
    if (n->store)
        lk_store_progress(n->store, seq, entered);
}

/* Query if the GPU has passed the event. */
static enum lk_status passed(const struct lk_nccl *n, cudaEvent_t event, bool *out)
{
    cudaError_t e = n->cuda->EventQuery(event);

    *out = e == cudaSuccess;
    return e == cudaErrorNotReady ? LK_OK : lk_cuda_status(e, "collectives");
}

/* Query the oldest entry's events, and retire it if it has ended. pre: locked. */
static enum lk_status look_at_first(struct lk_nccl *n, bool *out_ended)
{
    struct lk_nccl_entry *e = &n->entries[n->first];
    enum lk_status st = LK_OK;

    *out_ended = false;
    if (!e->arrived) {
        LK_TRY(passed(n, e->before, &e->arrived));
        if (!e->arrived)
            goto out;
        e->deadline = lk_deadline_in(n->timeout_ns);
        progress(n, e->seq, true);
    }
    LK_TRY(passed(n, e->after, out_ended));
    if (!*out_ended)
        goto out;
    progress(n, e->seq, false);
    give_event(n, e->before);
    give_event(n, e->after);
    n->first++;
    n->n_entries--;
out:
    return st;
}

enum lk_status lk_nccl_look(struct lk_nccl *n)
{
    enum lk_status st = LK_OK;
    bool ended = true;

    pthread_mutex_lock(&n->lock);
    while (st == LK_OK && ended && n->n_entries > 0)
        st = look_at_first(n, &ended);
    pthread_mutex_unlock(&n->lock);
    return st;
}

static bool overdue(struct lk_nccl *n)
{
    bool yes;

    pthread_mutex_lock(&n->lock);
    yes = n->n_entries > 0 && n->entries[n->first].arrived &&
          lk_deadline_left_ns(n->entries[n->first].deadline) == 0;
    pthread_mutex_unlock(&n->lock);
    return yes;
}

/* ---- The thread ---- */

/* Return an error that NCCL has found asynchronously. Skipped while another thread is inside
 * NCCL. */
static enum lk_status ask_nccl(struct lk_nccl *n)
{
    ncclResult_t result, state = ncclSuccess;

    pthread_mutex_lock(&n->lock);
    if (n->inside || !n->comm) {
        pthread_mutex_unlock(&n->lock);
        return LK_OK;
    }
    n->inside = true;
    pthread_mutex_unlock(&n->lock);
    result = n->call->CommGetAsyncError(n->comm, &state);
    lk_nccl_leave(n);
    if (result == ncclSuccess)
        result = state;
    return result == ncclInProgress ? LK_OK : lk_nccl_status(n, result);
}

/* Check everything once; break the communicator when something is wrong. */
static void look_around(struct lk_nccl *n)
{
    enum lk_status st = lk_device_status(n->device);

    if (st == LK_OK && n->store)
        st = lk_store_check(n->store);
    if (st != LK_OK) {
        lk_nccl_break(n, st, lk_error_text());
        return;
    }
    st = lk_nccl_look(n);
    if (st == LK_OK)
        st = ask_nccl(n);
    if (st != LK_OK)
        lk_quietly_(lk_nccl_blame(n, st, lk_error_text()));
    else if (overdue(n))
        lk_quietly_(lk_nccl_late(n));
}

/* Describe the oldest unfinished collective and the failure that ended it. */
static void describe(struct lk_nccl *n, char *buf, size_t size)
{
    const struct lk_nccl_entry *e = &n->entries[n->first];
    char name[128] = "nccl";

    if (n->n_entries > 0 && e->graph)
        snprintf(name, sizeof name, "graph (step %u)", (unsigned)e->step);
    else if (n->n_entries > 0)
        lk_comm_name_call(&e->call, e->seq, e->step, name, sizeof name);
    snprintf(buf, size, "%s: %s", name, n->text);
}

static void end_look(struct lk_nccl *n)
{
    pthread_mutex_lock(&n->lock);
    n->looking = false;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

/* Make the device fail with the verdict, then abort the communicator: in this order, so that a
 * thread which waits for a stream gets the reason. */
static void fall(struct lk_nccl *n)
{
    enum lk_status st;
    char text[1200];

    pthread_mutex_lock(&n->lock);
    if (n->deserted) {
        pthread_mutex_unlock(&n->lock);
        return;
    }
    describe(n, text, sizeof text);
    st = n->status;
    n->looking = true;
    pthread_mutex_unlock(&n->lock);
    lk_device_fail(n->device, st, text);
    end_look(n);
    if (!lk_nccl_enter_last(n, lk_deadline_in(least(n->timeout_ns, OUTSIDE_NS)))) {
        lk_log(LK_LOG_COMM, LK_ERROR,
               "a call of NCCL's does not return: its communicator cannot be aborted");
        return;
    }
    if (n->comm && n->call->CommAbort(n->comm) != ncclSuccess)
        lk_log(LK_LOG_COMM, LK_WARN, "NCCL could not abort the communicator");
    n->comm = NULL;
    lk_nccl_leave(n);
}

static void *watch(void *arg)
{
    struct lk_nccl *n = arg;
    struct pollfd polls[2] = {{.fd = n->wake_fd, .events = POLLIN},
                              {.fd = n->store ? lk_store_fd(n->store) : -1, .events = POLLIN}};
    bool broken, stop;

    (void)n->cuda->SetDevice(n->gpu); /* cannot fail: the host thread did the same */
    do {
        eventfd_t count;

        if (poll(polls, 2, WATCH_MS) > 0 && polls[0].revents)
            (void)eventfd_read(n->wake_fd, &count);
        pthread_mutex_lock(&n->lock);
        broken = n->broken;
        stop = n->stop;
        n->looking = !broken && !stop;
        pthread_mutex_unlock(&n->lock);
        if (!broken && !stop) {
            look_around(n);
            end_look(n);
            broken = lk_nccl_alive(n) != LK_OK;
        }
    } while (!broken && !stop);
    if (broken)
        fall(n);
    pthread_mutex_lock(&n->lock);
    n->gone = true;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

enum lk_status lk_nccl_watch_start(struct lk_nccl *n)
{
    int e = pthread_create(&n->watchdog, NULL, watch, n);

    if (e)
        return lk_fail(LK_EIO, "a thread for NCCL's watchdog: %s", strerror(e));
    n->watched = true;
    return LK_OK;
}

bool lk_nccl_watch_stop(struct lk_nccl *n)
{
    uint64_t most_ns = least(n->timeout_ns, OUTSIDE_NS) + least(n->timeout_ns, ABORT_NS);
    struct timespec until;
    bool gone;
    int rc = 0;

    if (!n->watched || n->deserted) /* only this thread writes both */
        return !n->deserted;
    /* The watchdog may also be waiting for the store's verdict. */
    until = lk_deadline_timespec(lk_deadline_in(least(n->timeout_ns, ABORT_NS) + most_ns));
    pthread_mutex_lock(&n->lock);
    n->stop = true;
    (void)eventfd_write(n->wake_fd, 1);
    while (!n->gone && rc == 0)
        rc = pthread_cond_clockwait(&n->changed, &n->lock, CLOCK_MONOTONIC, &until);
    /* The caller will close store and device, so wait until the watchdog no longer uses them (those
     * calls have deadlines). It may stay behind only inside NCCL, which uses neither. */
    while (!n->gone && n->looking)
        pthread_cond_wait(&n->changed, &n->lock);
    gone = n->gone;
    n->deserted = !gone;
    pthread_mutex_unlock(&n->lock);
    if (gone) {
        pthread_join(n->watchdog, NULL);
        n->watched = false;
    } else {
        pthread_detach(n->watchdog);
    }
    return gone;
}

#endif
