/* Open NCCL's library, enter and leave it, and convert its status; see
 * runtime/comm/comm_nccl_cuda.h. */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

#include <sched.h>
#include <stdio.h>
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

bool lk_nccl_enter_last(struct lk_nccl *n, struct lk_deadline deadline)
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

static enum lk_status ask(struct lk_nccl *n, struct lk_deadline deadline, ncclResult_t *out)
{
    ncclResult_t result, state = ncclInternalError;
    enum lk_status st = lk_nccl_enter(n, deadline);

    if (st != LK_OK)
        return st;
    result = n->call->CommGetAsyncError(n->comm, &state);
    lk_nccl_leave(n);
    *out = result == ncclSuccess ? state : result;
    return LK_OK;
}

enum lk_status lk_nccl_await(struct lk_nccl *n, ncclResult_t result, struct lk_deadline deadline)
{
    enum lk_status st = LK_OK;
    uint64_t nap_ns = 0;

    while (result == ncclInProgress) {
        LK_TRY(ask(n, deadline, &result));
        if (result == ncclInProgress && !lk_deadline_left_ns(deadline))
            return lk_nccl_late(n);
        if (result == ncclInProgress)
            lk_nccl_nap(&nap_ns);
    }
    if (result != ncclSuccess) {
        st = lk_nccl_status(n, result);
        st = lk_nccl_blame(n, st, lk_error_text());
    }
out:
    return st == LK_ETIMEOUT ? lk_nccl_late(n) : st;
}

#endif
