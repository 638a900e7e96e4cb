/* NCCL's library, entering and leaving it, its status, and the watchdog; see
 * runtime/comm/comm_nccl_cuda.h. */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/units.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Time that another rank's report, or the store itself, gets to name the culprit. Once the store
 * has seen a rank's connection end, it takes no report for the cause any more. */
#define BLAME_NS (2 * LK_NS_PER_S)

/* ---- The library ---- */

static const struct lk_library_symbol symbols[] = {
#define ROW(call) {"nccl" #call, offsetof(struct lk_nccl_calls, call)},
    LK_NCCL_CALL_LIST(ROW)};
static const struct lk_library_symbol estimate_symbols[] = {LK_NCCL_ESTIMATE_LIST(ROW)
#undef ROW
};

static const char *const files[] = {"libnccl.so.2", NULL};

void lk_nccl_version_text(int version, char *buf, size_t size)
{
    snprintf(buf, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

enum lk_status lk_nccl_version(const struct lk_nccl_calls *call, const char *path, int *out)
{
    char found[32], oldest[32];
    int version = 0;
    ncclResult_t r = call->GetVersion(&version);

    if (r != ncclSuccess)
        return lk_fail(LK_EUNSUPPORTED, "NCCL (%s) does not say its version: %s", path,
                       call->GetErrorString(r));
    if (version < LK_NCCL_OLDEST) {
        lk_nccl_version_text(version, found, sizeof found);
        lk_nccl_version_text(LK_NCCL_OLDEST, oldest, sizeof oldest);
        return lk_fail(LK_EUNSUPPORTED, "NCCL %s (%s) is too old: %s or newer is needed", found,
                       path, oldest);
    }
    *out = version;
    return LK_OK;
}

/* Open the optional functions for estimates; keep them only if they come from the same file. */
static void open_estimates(struct lk_nccl_calls *table, const char *path)
{
    static const struct lk_library_spec spec = {.name = "NCCL",
                                                .files = files,
                                                .symbols = estimate_symbols,
                                                .n_symbols = LK_COUNT(estimate_symbols),
                                                .stays = true};
    struct lk_nccl_calls found = *table;
    struct lk_library *l = NULL;

    if (lk_library_open(&spec, &found, &l) == LK_OK && !strcmp(lk_library_path(l), path))
        *table = found;
    lk_library_close(l);
}

enum lk_status lk_nccl_open_library(struct lk_nccl_calls *table, struct lk_library **out)
{
    static const struct lk_library_spec spec = {.name = "NCCL",
                                                .files = files,
                                                .symbols = symbols,
                                                .n_symbols = LK_COUNT(symbols),
                                                .stays = true};
    struct lk_nccl_calls found = {.GroupStart = NULL};
    enum lk_status st = lk_library_open(&spec, &found, out);

    if (st != LK_OK)
        return st;
    lk_quietly_((open_estimates(&found, lk_library_path(*out)), LK_OK));
    *table = found;
    return LK_OK;
}

/* ---- Entering NCCL ---- */

/* Wait until no thread is inside NCCL, until the deadline, or (unless `last`) until the
 * communicator is broken. pre: locked. */
static bool wait_outside(struct lk_nccl *n, struct lk_deadline deadline, bool last)
{
    struct timespec until = lk_deadline_timespec(deadline);
    int rc = 0;

    while (n->inside && rc == 0 && (last || !n->broken))
        rc = pthread_cond_clockwait(&n->changed, &n->lock, CLOCK_MONOTONIC, &until);
    return !n->inside;
}

/* Return the failure that broke the communicator, or LK_OK. pre: locked. */
static enum lk_status why_broken(const struct lk_nccl *n)
{
    return n->broken ? lk_fail(n->status, "%s", n->text) : LK_OK;
}

enum lk_status lk_nccl_enter(struct lk_nccl *n, struct lk_deadline deadline)
{
    enum lk_status st;
    bool outside;

    pthread_mutex_lock(&n->lock);
    outside = wait_outside(n, deadline, false);
    st = why_broken(n);
    if (st == LK_OK && !outside)
        st = lk_fail(LK_ETIMEOUT, "NCCL did not return from a call in time");
    if (st == LK_OK)
        n->inside = true;
    pthread_mutex_unlock(&n->lock);
    return st;
}

/* As lk_nccl_enter, but also when broken. Return false if another thread stayed inside until the
 * deadline. */
static bool enter_last(struct lk_nccl *n, struct lk_deadline deadline)
{
    bool outside;

    pthread_mutex_lock(&n->lock);
    outside = wait_outside(n, deadline, true);
    if (outside)
        n->inside = true;
    pthread_mutex_unlock(&n->lock);
    return outside;
}

void lk_nccl_leave(struct lk_nccl *n)
{
    pthread_mutex_lock(&n->lock);
    n->inside = false;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

void lk_nccl_break(struct lk_nccl *n, enum lk_status st, const char *text)
{
    pthread_mutex_lock(&n->lock);
    if (!n->broken) {
        n->broken = true;
        n->status = st;
        snprintf(n->text, sizeof n->text, "%s", text);
    }
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    /* Cannot fail: the counter never comes near its limit. */
    (void)eventfd_write(n->wake_fd, 1);
}

enum lk_status lk_nccl_alive(struct lk_nccl *n)
{
    enum lk_status st;

    pthread_mutex_lock(&n->lock);
    st = why_broken(n);
    pthread_mutex_unlock(&n->lock);
    return st;
}

/* ---- Status ---- */

enum lk_status lk_nccl_status(const struct lk_nccl *n, ncclResult_t result)
{
    static const enum lk_status statuses[ncclNumResults] = {
        [ncclUnhandledCudaError] = LK_EINTERNAL, [ncclSystemError] = LK_EIO,
        [ncclInternalError] = LK_EINTERNAL,      [ncclInvalidArgument] = LK_EINTERNAL,
        [ncclInvalidUsage] = LK_EUNSUPPORTED,    [ncclRemoteError] = LK_EPEER,
        [ncclInProgress] = LK_EINTERNAL,
    };
    const char *more;

    if (result == ncclSuccess)
        return LK_OK;
    /* NCCL keeps one text per process and ignores the communicator argument. */
    more = n->call->GetLastError(NULL);
    return lk_fail(result < ncclNumResults ? statuses[result] : LK_EINTERNAL, "NCCL: %s%s%.300s",
                   n->call->GetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

void lk_nccl_nap(uint64_t *ns)
{
    enum { SPINS = 200, FIRST_NS = 2000, LONGEST_NS = 1000000 };

    /* A launch takes some tens of microseconds, and a sleep may take longer: yield first. */
    if (*ns < SPINS) {
        (*ns)++;
        sched_yield();
        return;
    }
    *ns = *ns < FIRST_NS ? FIRST_NS : *ns;
    lk_nap_ns(*ns);
    *ns = *ns < LONGEST_NS / 2 ? 2 * *ns : LONGEST_NS;
}

enum lk_status lk_nccl_blame(struct lk_nccl *n, enum lk_status st, const char *text)
{
    struct lk_deadline deadline =
        lk_deadline_in(n->timeout_ns < BLAME_NS ? n->timeout_ns : BLAME_NS);
    char why[1024];

    snprintf(why, sizeof why, "%s", text);
    if (n->store) {
        enum lk_status verdict = LK_OK;

        while (verdict == LK_OK && lk_deadline_left_ns(deadline)) {
            lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
            verdict = lk_store_check(n->store);
        }
        st = verdict != LK_OK ? verdict : lk_store_report(n->store, st, why);
        lk_log(LK_LOG_COMM, LK_INFO, "%s", why);
    } else {
        st = lk_fail(st, "%s", why);
    }
    lk_nccl_break(n, st, lk_error_text());
    return st;
}

enum lk_status lk_nccl_late(struct lk_nccl *n)
{
    enum lk_status st = lk_nccl_alive(n);

    if (st != LK_OK)
        return st;
    st = n->store ? lk_store_report(n->store, LK_ETIMEOUT, "")
                  : lk_fail(LK_ETIMEOUT, "did not end within %.1f s", lk_s_from_ns(n->timeout_ns));
    lk_nccl_break(n, st, lk_error_text());
    return st;
}

/* Return a communicator's state. pre: inside. */
static ncclResult_t ask(const struct lk_nccl *n, ncclComm_t comm)
{
    ncclResult_t state = ncclInternalError, result = n->call->CommGetAsyncError(comm, &state);

    return result == ncclSuccess ? state : result;
}

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

/* Wait until the watchdog has aborted the broken communicator, or no longer than it may take. */
static void await_abort(struct lk_nccl *n)
{
    uint64_t most_ns = least(n->timeout_ns, OUTSIDE_NS) + least(n->timeout_ns, ABORT_NS);
    struct timespec until = lk_deadline_timespec(lk_deadline_in(most_ns));
    int rc = 0;

    pthread_mutex_lock(&n->lock);
    while (!n->gone && (n->inside || n->comm) && rc == 0)
        rc = pthread_cond_clockwait(&n->changed, &n->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&n->lock);
}

static enum lk_status await(struct lk_nccl *n, ncclComm_t const *comm, ncclResult_t result,
                            struct lk_deadline deadline)
{
    enum lk_status st = LK_OK;
    uint64_t nap_ns = 0;

    while (result == ncclInProgress) {
        LK_TRY(lk_nccl_enter(n, deadline));
        result = ask(n, *comm);
        lk_nccl_leave(n);
        if (result == ncclInProgress && !lk_deadline_left_ns(deadline))
            LK_TRY(lk_fail(LK_ETIMEOUT, "a call of NCCL's stays in progress"));
        if (result == ncclInProgress)
            lk_nccl_nap(&nap_ns);
    }
    if (result != ncclSuccess) {
        st = lk_nccl_status(n, result);
        st = lk_nccl_blame(n, st, lk_error_text());
    }
out:
    if (st == LK_ETIMEOUT)
        st = lk_nccl_late(n);
    if (st != LK_OK && result == ncclInProgress)
        await_abort(n);
    return st;
}

enum lk_status lk_nccl_end(struct lk_nccl *n, ncclComm_t const *comm, ncclResult_t result,
                           struct lk_deadline deadline)
{
    lk_nccl_leave(n);
    return await(n, comm, result, deadline);
}

/* ---- What the watchdog watches: events and entries ---- */

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
    ncclResult_t result;

    pthread_mutex_lock(&n->lock);
    if (n->inside || !n->comm) {
        pthread_mutex_unlock(&n->lock);
        return LK_OK;
    }
    n->inside = true;
    pthread_mutex_unlock(&n->lock);
    result = ask(n, n->comm);
    for (size_t i = 0; i < LK_NCCL_GROUPS_MAX; i++)
        if (n->groups[i].comm && (result == ncclSuccess || result == ncclInProgress))
            result = ask(n, n->groups[i].comm);
    lk_nccl_leave(n);
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

/* Make the device fail with the verdict, then abort the communicators: in this order, so that a
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
    if (!enter_last(n, lk_deadline_in(least(n->timeout_ns, OUTSIDE_NS)))) {
        lk_log(LK_LOG_COMM, LK_ERROR,
               "a call of NCCL's does not return: its communicator cannot be aborted");
        return;
    }
    lk_nccl_abort(n);
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
    enum lk_status st = lk_thread_start(&n->watchdog, watch, n, "NCCL's watchdog");

    n->watched = st == LK_OK;
    return st;
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
