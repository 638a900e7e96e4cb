/* The CUPTI session. Divisions: buffers, fetching, starting, ending. */
#include "profiler/record/cupti_buffers.h"
#include "profiler/record/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "base/log.h"
#include "base/thread.h"
#include "facts/cupti_abi.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, since 12.3: older headers lack the name, older
 * libraries reject the number. */
enum { ATTR_BUFFERS_BY_THREAD = 9 };
#if CUPTI_API_VERSION >= 21
_Static_assert((int)ATTR_BUFFERS_BY_THREAD == (int)CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
               "an attribute");
#endif

struct lk_cupti {
    struct lk_cupti_calls call;
    char library[1100], text[1200];
    struct lk_cupti_buffers buffers;
    pthread_mutex_t reading; /* guards records (but for its tracks) and closed */
    struct lk_cupti_records records;
    atomic_bool closed; /* nothing may be emitted any more */
    CUpti_SubscriberHandle subscriber;
    uint32_t version;
    bool older;          /* the driver is older than this library */
    atomic_bool off;     /* CUPTI was switched off with its window: drops are of no interest */
    atomic_bool chooses; /* API calls are recorded by id, and no kernel has told against it */
    uint64_t fetch_ns;
    struct {
        pthread_t thread;
        pthread_mutex_t lock; /* guards all members below */
        pthread_cond_t changed;
        bool ending;        /* it is to fetch the last records */
        bool look;          /* it is to look at once whether ids come */
        bool fetched, done; /* all records were fetched; CUPTI is switched off, too */
        bool abandoned;     /* the thread frees the session */
        CUptiResult error;  /* of fetching */
    } fetcher;
};

/* The open session, because CUPTI's callbacks carry no context. NULL: none. */
static _Atomic(struct lk_cupti *)
    current; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- Buffers ---- */

/* Lend CUPTI a buffer. Without a session only a CUPTI that could not be switched off asks; it gets
 * a buffer nevertheless: see CUPTI_VERSION_REFUSABLE. */
static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    struct lk_cupti *g = atomic_load(&current);

    *buffer = NULL;
    *max_records = 0;
    *size = 0;
    if (g)
        *buffer = lk_cupti_buffers_lend(&g->buffers, size);
    else if (lk_alloc(buffer, LK_CUPTI_BUFFER_BYTES, 1) == LK_OK)
        *size = LK_CUPTI_BUFFER_BYTES;
}

/* Read both clocks at one moment: the middle of the shortest of several readings. */
static CUptiResult look_at_clocks(struct lk_cupti *g)
{
    enum { LOOKS = 8 };
    uint64_t shortest_ns = UINT64_MAX, theirs = 0, ours = 0;

    if (g->call.clocks)
        g->call.clocks(&theirs, &ours);
    for (int i = 0; !g->call.clocks && i < LOOKS; i++) {
        uint64_t before = lk_now_ns(), t = 0, took;
        CUptiResult e = g->call.GetTimestamp(&t);

        took = lk_now_ns() - before;
        if (e != CUPTI_SUCCESS)
            return e;
        if (took < shortest_ns) {
            shortest_ns = took;
            theirs = t;
            ours = before + took / 2;
        }
    }
    lk_cupti_clock_add(&g->records.clock, theirs, ours);
    return CUPTI_SUCCESS;
}

/* Ask how many records were dropped since the last time, before CUPTI was switched off. CUPTI holds
 * locks of its own while it calls buffer_completed: asking with `reading` held would wait for them
 * in the other order. */
static size_t dropped(struct lk_cupti *g)
{
    size_t n = 0;

    return g->call.ActivityGetNumDroppedRecords(NULL, 0, &n) == CUPTI_SUCCESS &&
                   !atomic_load(&g->off)
               ? n
               : 0;
}

/* Wake the thread that fetches: it alone calls CUPTI to change what is recorded. */
static void call_for_look(struct lk_cupti *g)
{
    pthread_mutex_lock(&g->fetcher.lock);
    g->fetcher.look = true;
    pthread_cond_broadcast(&g->fetcher.changed);
    pthread_mutex_unlock(&g->fetcher.lock);
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
                                      size_t size, size_t valid)
{
    struct lk_cupti *g = atomic_load(&current);
    size_t n_dropped;
    bool lacks_ids = false;

    (void)context;
    (void)stream;
    if (!g) /* from an earlier session that did not wait for it, or from none */
        free(buffer);
    if (!g || !buffer)
        return;
    n_dropped = dropped(g);
    pthread_mutex_lock(&g->reading);
    if (!g->closed) {
        (void)look_at_clocks(g);
        lk_cupti_records_dropped(&g->records, n_dropped);
        lk_cupti_records_read(&g->records, buffer, valid < size ? valid : size);
        lacks_ids = atomic_load(&g->chooses) && lk_cupti_records_lack_ids(&g->records);
    }
    pthread_mutex_unlock(&g->reading);
    memset(buffer, 0, size);
    lk_cupti_buffers_return(&g->buffers, buffer, size);
    if (lacks_ids)
        call_for_look(g);
}

/* ---- Fetching ---- */

static void unsubscribe(struct lk_cupti *g)
{
    if (g->subscriber)
        (void)g->call.Unsubscribe(g->subscriber);
    g->subscriber = NULL;
}

static void destroy(struct lk_cupti *g)
{
    lk_cupti_records_fini(&g->records);
    lk_cupti_buffers_fini(&g->buffers);
    pthread_mutex_destroy(&g->reading);
    pthread_mutex_destroy(&g->fetcher.lock);
    pthread_cond_destroy(&g->fetcher.changed);
    free(g);
}

/* Destroy the session unless CUPTI still has buffers, which it may write into. */
static void destroy_if_idle(struct lk_cupti *g)
{
    if (lk_cupti_buffers_idle(&g->buffers))
        destroy(g);
}

/* Wait for a period, a call for a look, or the session's end: true then. */
static bool is_ending(struct lk_cupti *g)
{
    const struct timespec until = lk_deadline_timespec(lk_deadline_in(g->fetch_ns));
    bool ending;
    int error = 0;

    pthread_mutex_lock(&g->fetcher.lock);
    while (!g->fetcher.ending && !g->fetcher.look && error == 0)
        error =
            pthread_cond_clockwait(&g->fetcher.changed, &g->fetcher.lock, CLOCK_MONOTONIC, &until);
    ending = g->fetcher.ending;
    g->fetcher.look = false;
    pthread_mutex_unlock(&g->fetcher.lock);
    return ending;
}

/* Switch CUPTI off where it can be: in CUDA 13.0 before Update 1 that may hang while kernels are
 * launched (CUPTI, release notes of 13.0 Update 1). Return true if it is off. */
static bool stop_early(struct lk_cupti *g)
{
    size_t n_dropped;

    if (g->version == CUPTI_VERSION_HANGS)
        return false;
    n_dropped = dropped(g);
    atomic_store(&g->off, true);
    pthread_mutex_lock(&g->reading);
    lk_cupti_records_dropped(&g->records, n_dropped);
    pthread_mutex_unlock(&g->reading);
    lk_cupti_disable(&g->call, atomic_load(&g->chooses));
    return true;
}

/* Record all API calls if choosing them gives no ids, and tell the trace. */
static void look_for_ids(struct lk_cupti *g)
{
    char text[sizeof g->text];
    bool lacks_ids;

    pthread_mutex_lock(&g->reading);
    lacks_ids = !g->closed && lk_cupti_records_lack_ids(&g->records);
    pthread_mutex_unlock(&g->reading);
    if (!lacks_ids || !atomic_exchange(&g->chooses, false))
        return;
    snprintf(text, sizeof text, "%s, %s", g->library,
             lk_cupti_enable_all_calls(&g->call) == LK_OK
                 ? "all calls, since those chosen by id gave the first kernels no op"
                 : "calls by id, which give kernels no op, since all calls are refused");
    lk_log(LK_LOG_PROFILE, LK_INFO, "GPU records by %s", text);
    if (lk_recorder_fact(g->records.recorder, LK_CUPTI_CONFIG_KEY, text) != LK_OK)
        lk_log(LK_LOG_PROFILE, LK_WARN, "%s", lk_error_text());
}

/*
 * Fetch records as long as the session lasts, every second. CUPTI keeps back a buffer in which a
 * record is not complete, and while a GPU is busy one nearly always is: then records come when a
 * buffer is full. Its own period (cuptiActivityFlushPeriod) returns full buffers only, also while
 * the GPU is idle.
 *
 * At the end a forced flush also returns unfinished records: without times, and counted as such.
 * Kinds are switched off after it, since that may hang; the last flush makes CUPTI return its
 * buffers, whose records are of no interest.
 */
static void *fetch(void *arg)
{
    struct lk_cupti *g = arg;
    CUptiResult e;
    bool abandoned, off = false;

    while (!is_ending(g)) {
        bool over =
            lk_cupti_window_is_over(&g->records.window); /* first: then all of it is fetched */

        (void)g->call.ActivityFlushAll(0);
        if (!over)
            look_for_ids(g);
        else if (!off)
            off = stop_early(g);
    }
    e = g->call.ActivityFlushAll(0);
    if (e == CUPTI_SUCCESS)
        e = g->call.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&g->fetcher.lock);
    g->fetcher.error = e;
    g->fetcher.fetched = true;
    pthread_mutex_unlock(&g->fetcher.lock);
    if (!off)
        lk_cupti_disable(&g->call, atomic_load(&g->chooses));
    (void)g->call.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    unsubscribe(g);
    pthread_mutex_lock(&g->fetcher.lock);
    g->fetcher.done = true;
    abandoned = g->fetcher.abandoned;
    pthread_cond_broadcast(&g->fetcher.changed);
    pthread_mutex_unlock(&g->fetcher.lock);
    if (abandoned)
        destroy_if_idle(g);
    return NULL;
}

/* ---- Starting ---- */

/* Set the attributes of buffers, which CUPTI takes before callbacks are registered. A version that
 * does not know an attribute does not need it. */
static void describe_buffers(struct lk_cupti *g)
{
    uint8_t zeroed = 1, by_thread = 0;
    size_t size = sizeof zeroed;

    (void)g->call.ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size,
                                       &zeroed);
    (void)g->call.ActivitySetAttribute((CUpti_ActivityAttribute)ATTR_BUFFERS_BY_THREAD, &size,
                                       &by_thread);
}

/* Nothing is called back: subscribing tells other profilers that CUPTI is in use, and us if it is
 * by them. Without it, the last one that registers buffers gets all records, and nobody knows. */
static void CUPTIAPI called_back(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                 const void *data)
{
    (void)userdata;
    (void)domain;
    (void)id;
    (void)data;
}

static enum lk_status start(struct lk_cupti *g)
{
    CUptiResult e = g->call.Subscribe(&g->subscriber, called_back, NULL);
    enum lk_status st = LK_OK;

    g->older = e == CUPTI_ERROR_NOT_INITIALIZED;
    LK_TRY(lk_cupti_check(&g->call, e, "subscribing"));
    LK_TRY(lk_cupti_check(&g->call, look_at_clocks(g), "its clock"));
    describe_buffers(g);
    LK_TRY(lk_cupti_check(&g->call,
                          g->call.ActivityRegisterCallbacks(buffer_requested, buffer_completed),
                          "registering buffers"));
    LK_TRY(lk_cupti_enable(&g->call));
    atomic_store(&g->chooses, lk_cupti_can_choose(&g->call));
    snprintf(g->text, sizeof g->text, "%s, %s", g->library,
             atomic_load(&g->chooses) ? "calls by id" : "all calls");
    st = lk_thread_start(&g->fetcher.thread, fetch, g, "CUPTI's records");
    if (st != LK_OK)
        lk_cupti_disable(&g->call, atomic_load(&g->chooses));
out:
    if (st != LK_OK)
        unsubscribe(g);
    return st;
}

static enum lk_status create(struct lk_cupti **out)
{
    struct lk_cupti *g = NULL;

    LK_PASS(lk_alloc(&g, 1, sizeof *g));
    if (pthread_mutex_init(&g->reading, NULL) || pthread_mutex_init(&g->fetcher.lock, NULL) ||
        pthread_cond_init(&g->fetcher.changed, NULL)) {
        free(g);
        return lk_fail(LK_ENOMEM, "cannot make a mutex");
    }
    *out = g;
    return LK_OK;
}

/* Open a session with one library. *out_older: the driver is older than the library, so that
 * another one may do. */
static enum lk_status open_with(const struct lk_cupti_config *config,
                                const struct lk_cupti_calls *calls, const char *path,
                                struct lk_cupti **out, bool *out_older)
{
    struct lk_cupti *g = NULL, *none = NULL;
    enum lk_status st = LK_OK;
    bool ours = false;

    LK_TRY(create(&g));
    g->call = *calls;
    g->fetch_ns = config->fetch_ns ? config->fetch_ns : LK_NS_PER_S;
    LK_TRY(lk_cupti_version(&g->call, path, &g->version));
    snprintf(g->library, sizeof g->library, "CUPTI API %" PRIu32 ", %s", g->version, path);
    LK_TRY(lk_cupti_records_init(&g->records, config, &g->call));
    LK_TRY(lk_cupti_buffers_init(&g->buffers, config, g->version >= CUPTI_VERSION_REFUSABLE));
    ours = atomic_compare_exchange_strong(&current, &none, g);
    if (!ours)
        LK_TRY(lk_fail(LK_EINTERNAL, "CUPTI: this process has a session already"));
    LK_TRY(start(g));
    lk_log(LK_LOG_PROFILE, LK_INFO, "GPU records by %s", g->text);
    LK_HAND_OVER(out, g);
out:
    if (g) {
        *out_older = g->older;
        if (ours)
            atomic_store(&current, NULL);
        destroy(g);
    }
    return st;
}

enum lk_status lk_cupti_open(const struct lk_cupti_config *config, struct lk_cupti **out)
{
    char path[1024] = "a table of functions", why[sizeof path + 256] = "";
    struct lk_cupti_calls calls = {0};
    bool older = false;
    enum lk_status st = LK_OK;
    int which = 0;

    if (config->calls)
        return open_with(config, config->calls, path, out, &older);
    do {
        st = lk_cupti_library(&which, &calls, path, sizeof path);
        if (st != LK_OK)
            return *why ? lk_fail(LK_EUNSUPPORTED, "%s", why) : st;
        older = false;
        st = open_with(config, &calls, path, out, &older);
        if (st != LK_OK && !*why)
            snprintf(why, sizeof why, "%s (%s)", lk_error_text(), path);
    } while (older);
    return st;
}

const char *lk_cupti_text(const struct lk_cupti *g)
{
    return g->text;
}

struct lk_cupti_records *lk_cupti_records_of(struct lk_cupti *g)
{
    return &g->records;
}

/* ---- Ending ---- */

/* Ask the thread for the last records, until the deadline; set *ended if CUPTI is stopped. */
static enum lk_status fetch_last(struct lk_cupti *g, struct lk_deadline deadline, bool *ended)
{
    const struct timespec until = lk_deadline_timespec(deadline);
    enum lk_status st = LK_OK;
    int error = 0;

    pthread_mutex_lock(&g->fetcher.lock);
    g->fetcher.ending = true;
    pthread_cond_broadcast(&g->fetcher.changed);
    while (!g->fetcher.done && error == 0)
        error =
            pthread_cond_clockwait(&g->fetcher.changed, &g->fetcher.lock, CLOCK_MONOTONIC, &until);
    *ended = g->fetcher.done;
    if (g->fetcher.fetched)
        st = lk_cupti_check(&g->call, g->fetcher.error, "fetching the last records");
    else
        st = lk_fail(LK_ETIMEOUT, "CUPTI did not hand over its last records in time");
    if (g->fetcher.fetched && !*ended)
        lk_log(LK_LOG_PROFILE, LK_WARN,
               "CUPTI hangs where it is to stop; all records were fetched before");
    pthread_mutex_unlock(&g->fetcher.lock);
    if (*ended)
        pthread_join(g->fetcher.thread, NULL);
    else
        pthread_detach(g->fetcher.thread);
    return st;
}

/* Leave a thread that hangs: whoever ends last frees the session. */
static void abandon(struct lk_cupti *g)
{
    bool done;

    pthread_mutex_lock(&g->fetcher.lock);
    done = g->fetcher.done;
    g->fetcher.abandoned = true;
    pthread_mutex_unlock(&g->fetcher.lock);
    if (done)
        destroy_if_idle(g);
}

static void warn_of_clock(const struct lk_cupti_clock *c)
{
    if (c->jump_ns)
        lk_log(LK_LOG_PROFILE, LK_WARN,
               "the system's clock was set by %.3f ms while the GPU was recorded: times of its "
               "kernels and copies around that moment are off by as much",
               (double)c->jump_ns / (double)LK_NS_PER_MS);
}

/* Warn of missing records. */
static void warn(const struct lk_cupti_counts *c)
{
#define ROW(field, counter, missing, text)                                                         \
    if ((missing) && c->field)                                                                     \
        lk_log(LK_LOG_PROFILE, LK_WARN,                                                            \
               "%" PRIu64 " GPU records " text " (%" PRIu64 " are in the trace)", c->field,        \
               c->records);
    LK_CUPTI_COUNT_LIST(ROW)
#undef ROW
}

/* Report and close the records. fetched: all have come. ended: CUPTI is stopped and still answers.
 */
static enum lk_status finish(struct lk_cupti *g, bool fetched, bool ended,
                             struct lk_deadline deadline, struct lk_cupti_counts *out)
{
    const struct timespec until = lk_deadline_timespec(deadline);
    size_t n_dropped = ended ? dropped(g) : 0;

    /* A thread of CUPTI's that hangs in a buffer keeps the lock. */
    if (pthread_mutex_clocklock(&g->reading, CLOCK_MONOTONIC, &until) != 0) {
        g->closed = true;
        atomic_store(&current, NULL);
        return lk_fail(LK_ETIMEOUT, "CUPTI does not return from handing over a buffer");
    }
    lk_cupti_records_dropped(&g->records, n_dropped);
    warn_of_clock(&g->records.clock);
    lk_cupti_records_drain(&g->records, fetched);
    lk_cupti_records_report(&g->records);
    *out = g->records.counts;
    g->closed = true;
    pthread_mutex_unlock(&g->reading);
    atomic_store(&current, NULL);
    return LK_OK;
}

enum lk_status lk_cupti_close(struct lk_cupti *g, struct lk_deadline deadline,
                              struct lk_cupti_counts *out)
{
    struct lk_cupti_counts counts = {0};
    enum lk_status st = LK_OK, finished;
    bool ended;

    if (g) {
        st = fetch_last(g, deadline, &ended);
        /* A moment longer, for a deadline that has passed. */
        finished = finish(g, st == LK_OK, ended,
                          lk_deadline_in(lk_deadline_left_ns(deadline) + LK_NS_PER_S), &counts);
        st = st == LK_OK ? finished : st;
        warn(&counts);
        if (finished == LK_OK && ended)
            destroy_if_idle(g);
        else if (finished == LK_OK)
            abandon(g);
    }
    if (out)
        *out = counts;
    return st;
}

#endif
