/*
 * CUPTI in a window: the kernels, copies and launches of a few seconds of a foreign process.
 * Divisions: CUPTI's calls, the window, the thread, the injection.
 *
 * The CUDA driver calls InitializeInjection in cuInit, where CUDA_INJECTION64_PATH names this
 * library. That starts a thread of ours, which waits until the process trains, opens CUPTI, fetches
 * its records, closes it, and ends. CUPTI has one user in a process: it is taken in the window
 * alone, and whoever has it by then keeps it.
 *
 * The window begins LOCKSTEP_PROFILE_DELAY_S after the process's first collective, which all ranks
 * join at one time, so that their windows overlap; or after cuInit, in a process that no launcher
 * calls one of several ranks, and where no collective is seen within COLLECTIVE_WAIT_NS. Such a
 * process may be no rank at all, but what starts them: it may look at its GPU, and reset it. So it
 * has a context first, for a second, and then launches a kernel within a second. The window lasts
 * LOCKSTEP_PROFILE_FOR_S, or until its area of the file is full, or until somebody else takes CUPTI
 * (preload/cupti_user.h).
 */
#include "preload/cuda_context.h"
#include "preload/cupti_records.h"
#include "preload/cupti_user.h"
#include "preload/record.h"

#include "base/array.h"
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define DELAY_S            10.0 /* jobs warm up: allocators, cuDNN's choices, compilers */
#define FOR_S              5.0
#define SECONDS_MAX        1e6
#define PERIOD_NS          ((int64_t)100 * (int64_t)LK_NS_PER_MS) /* the thread looks, and fetches */
#define EXIT_WAIT_NS       (2 * (int64_t)LK_NS_PER_S) /* most that the end of the process waits */
#define COLLECTIVE_WAIT_NS (120 * (int64_t)LK_NS_PER_S)
#define QUIET_NS           ((int64_t)LK_NS_PER_S) /* a process that launches nothing for so long */
#define GIVE_WAY_S         2                      /* most that another user of CUPTI waits */

/* No result of CUPTI's: the process launches nothing. */
enum { QUIET = -1 };

/* CUPTI's callbacks and the driver's injection carry no context. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static struct lk_cupti_library library;
static struct lk_cupti_buffers buffers;
static void *subscriber;
static int thread_id_type = CUPTI_THREAD_ID_DEFAULT; /* the process's */
static _Atomic bool forked;                          /* this is a child, without the thread */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;               /* by CLOCK_MONOTONIC */
static bool ending;                          /* guarded by the lock: the process exits */
static atomic_flag ended = ATOMIC_FLAG_INIT; /* it waits for the thread, or has done so */
static pthread_t thread;                     /* once it is started */
static _Atomic bool launched;                /* a kernel was launched while launches were watched */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static bool is_open, is_taken; /* the window is open; somebody else has taken CUPTI */
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- CUPTI's calls ---- */

static void buffer_requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = atomic_load(&forked) ? NULL : lk_cupti_buffers_lend(&buffers);
    *bytes = *buffer ? LK_CUPTI_BUFFER_BYTES : 0;
    *most_records = 0;
}

static void buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                             size_t valid)
{
    size_t dropped = 0;

    (void)context;
    (void)stream;
    (void)bytes;
    if (atomic_load(&forked))
        return;
    lk_cupti_buffers_take(&buffers, buffer, valid);
    if (library.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_OK)
        lk_foreign_window_drop(dropped);
}

/* A subscriber tells other profilers that CUPTI is in use; launches alone are called back, while
 * they are watched. */
static void called_back(void *user, int domain, uint32_t function, const void *data)
{
    (void)user;
    (void)domain;
    (void)function;
    (void)data;
    atomic_store(&launched, true);
}

/* All calls: where CUDA was in use before, calls that are chosen one by one
 * (cuptiActivityEnableRuntimeApi) have no records (seen on an H200, CUPTI 130001). Those that do
 * not matter are left out as they are read. */
static const int kinds[] = {CUPTI_MEMCPY,  CUPTI_MEMCPY_PEER, CUPTI_MEMSET, CUPTI_CONCURRENT_KERNEL,
                            CUPTI_RUNTIME, CUPTI_DRIVER};

static int enable(void)
{
    int error = CUPTI_OK;

    for (size_t i = 0; i < LK_COUNT(kinds) && !error; i++)
        error = library.ActivityEnable(kinds[i]);
    return error;
}

static void disable(void)
{
    for (size_t i = LK_COUNT(kinds); i-- > 0;)
        (void)library.ActivityDisable(kinds[i]);
}

static enum lk_foreign_cupti reason_of(int error)
{
    switch (error) {
    case CUPTI_NOT_COMPATIBLE:
    case CUPTI_DISABLED:
    case CUPTI_SUBSCRIBED_ALREADY:
    case CUPTI_MAX_LIMIT_REACHED:
        return LK_FOREIGN_CUPTI_TAKEN;
    case CUPTI_NO_PRIVILEGES:
        return LK_FOREIGN_CUPTI_FORBIDDEN;
    default:
        return LK_FOREIGN_CUPTI_REFUSED;
    }
}

/* ---- The window ---- */

/* Wait for a time; true: the process exits. */
static bool is_ending(int64_t ns)
{
    struct timespec until;
    bool is;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / (int64_t)LK_NS_PER_S;
    until.tv_nsec = ns % (int64_t)LK_NS_PER_S;
    pthread_mutex_lock(&lock);
    while (!ending && !error)
        error = pthread_cond_timedwait(&changed, &lock, &until);
    is = ending;
    pthread_mutex_unlock(&lock);
    return is;
}

/* Let calls carry the threads' numbers of the kernel, as other records do, while the window lasts.
 */
static void use_thread_numbers(void)
{
    if (library.SetThreadIdType && library.GetThreadIdType &&
        library.GetThreadIdType(&thread_id_type) == CUPTI_OK)
        (void)library.SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
}

/* Call back on launches of kernels, or no more. A refusal is of a call that nobody makes. */
static void watch_launches(uint32_t on)
{
#define WATCH(domain, name, number)                                                                \
    (void)library.EnableCallback(on, subscriber, CUPTI_DOMAIN_##domain, number);
    CUPTI_LAUNCH_LIST(WATCH)
#undef WATCH
}

/* Return whether the process launches a kernel within QUIET_NS. */
static bool sees_launch(void)
{
    const int64_t until = lk_foreign_now() + QUIET_NS;

    atomic_store(&launched, false);
    watch_launches(1);
    while (!atomic_load(&launched) && lk_foreign_now() < until && !is_ending(PERIOD_NS / 10))
        ;
    watch_launches(0);
    return atomic_load(&launched);
}

static void stop(void)
{
    disable();
    (void)library.ActivityFlushAll(CUPTI_FLUSH_FORCED);
    (void)library.Unsubscribe(subscriber);
    if (library.SetThreadIdType)
        (void)library.SetThreadIdType(thread_id_type);
}

/* Let CUPTI record; return its error. pre: it is subscribed to. */
static int record(void)
{
    int error = CUPTI_OK;

    use_thread_numbers();
    if (!lk_cupti_moment(&library, &buffers.began))
        error = CUPTI_NOT_INITIALIZED;
    atomic_store(&buffers.start_ns, buffers.began.ours_ns);
    if (!error)
        error = library.ActivityRegisterCallbacks(buffer_requested, buffer_completed);
    if (!error)
        error = enable();
    if (error)
        stop();
    atomic_store(&buffers.start_ns, lk_foreign_now());
    return error;
}

/* Take CUPTI with the library that was found; return its error, or QUIET. */
static int start(bool is_rank)
{
    int error = library.Subscribe(&subscriber, called_back, NULL);

    if (error)
        return error;
    if (!is_rank && !sees_launch()) {
        (void)library.Unsubscribe(subscriber);
        return QUIET;
    }
    pthread_mutex_lock(&taking);
    if (is_taken) {
        (void)library.Unsubscribe(subscriber);
        error = CUPTI_SUBSCRIBED_ALREADY;
    } else {
        error = record();
        is_open = !error;
    }
    pthread_mutex_unlock(&taking);
    return error;
}

/* Find a CUPTI that this driver knows, and start it. A library that is newer than the driver says
 * that it is not initialized: the next one may do. Return CUPTI_OK, QUIET if it may be tried again,
 * or an error. */
static int begin_window(bool is_rank)
{
    enum lk_foreign_cupti why = LK_FOREIGN_CUPTI_ABSENT, of_library;
    int error = CUPTI_NOT_INITIALIZED;
    bool found;

    for (int i = 0; lk_cupti_library(i, &library, &found, &of_library); i++) {
        if (!found)
            continue;
        why = of_library;
        if (why != LK_FOREIGN_CUPTI_OFF)
            break; /* a second CUPTI beside one that is loaded already would be in its way */
        if (!buffers.bytes && !lk_cupti_buffers_init(&buffers, &library)) {
            why = LK_FOREIGN_CUPTI_NO_ROOM;
            break;
        }
        error = start(is_rank);
        if (error == QUIET)
            return QUIET;
        if (!error) {
            lk_foreign_cupti(LK_FOREIGN_CUPTI_RECORDED, 0);
            return CUPTI_OK;
        }
        why = reason_of(error);
        if (error != CUPTI_NOT_INITIALIZED)
            break;
    }
    lk_foreign_cupti(why, why == LK_FOREIGN_CUPTI_REFUSED ? (uint32_t)error : 0);
    return error ? error : CUPTI_NOT_INITIALIZED;
}

/* pre: `taking` is held. */
static void end_window(void)
{
    if (!is_open)
        return;
    is_open = false;
    (void)library.ActivityFlushAll(0);
    lk_foreign_window_close(lk_foreign_now());
    stop();
}

/* Fetch what has come. False: the window has ended. */
static bool fetch(void)
{
    bool is;

    pthread_mutex_lock(&taking);
    is = is_open;
    if (is)
        (void)library.ActivityFlushAll(0);
    pthread_mutex_unlock(&taking);
    return is;
}

void lk_cupti_give_way(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GIVE_WAY_S;
    if (atomic_load(&forked) || pthread_mutex_timedlock(&taking, &until))
        return; /* a CUPTI that hangs is nobody's gain */
    is_taken = true;
    end_window();
    pthread_mutex_unlock(&taking);
}

/* ---- The thread ---- */

/* Return the seconds that a variable has, as ns. */
static int64_t ns_of(const char *name, double fallback_s)
{
    const char *text = secure_getenv(name);
    char *end = NULL;
    double s = text ? strtod(text, &end) : fallback_s;

    if (text && (end == text || *end || !isfinite(s) || s < 0))
        s = fallback_s;
    return (int64_t)((s < SECONDS_MAX ? s : SECONDS_MAX) * (double)LK_NS_PER_S);
}

/* Return whether a launcher says that this is one of several ranks. */
static bool has_peers(void)
{
    static const char *const names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS"};

    for (size_t i = 0; i < LK_COUNT(names); i++) {
        const char *text = secure_getenv(names[i]);

        if (text)
            return strtol(text, NULL, 10) > 1;
    }
    return false;
}

/* Wait until the window is to begin: a delay after the first collective, or else after `from`;
 * false: the process exits before. *is_rank: it has joined a collective. */
static bool wait_for_window(int64_t from, int64_t delay_ns, bool *is_rank)
{
    int64_t first, with_context = 0; /* since when; 0: without */

    do {
        const int64_t now = lk_foreign_now();

        lk_foreign_cupti(LK_FOREIGN_CUPTI_WAITING, 0);
        first = lk_foreign_first_collective();
        *is_rank = first;
        if (!lk_cuda_has_context())
            with_context = 0;
        else if (!with_context)
            with_context = now;
        if (first ? now >= first + delay_ns
                  : now >= from + delay_ns && with_context && now >= with_context + QUIET_NS)
            return true;
    } while (!is_ending(PERIOD_NS));
    return false;
}

/*
 * In a window, let the thread fetch the last records, and end: a search for leaks at the end of the
 * process (AddressSanitizer) takes what a thread that is about to end owns for lost. The thread may
 * be stuck in a driver that ends, hence the deadline; glibc before 2.31 has none by another clock.
 */
static void end_at_exit(void)
{
    struct timespec until;

    if (atomic_load(&forked) || atomic_flag_test_and_set(&ended))
        return;
    pthread_mutex_lock(&lock);
    ending = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EXIT_WAIT_NS / (int64_t)LK_NS_PER_S;
    (void)pthread_timedjoin_np(thread, NULL, &until);
}

static void *run(void *arg)
{
    const int64_t delay_ns = ns_of("LOCKSTEP_PROFILE_DELAY_S", DELAY_S);
    const int64_t from = lk_foreign_now() + (has_peers() ? COLLECTIVE_WAIT_NS : 0);
    int64_t until;
    int error = QUIET;
    bool is_rank;

    (void)arg;
    while (error == QUIET && wait_for_window(from, delay_ns, &is_rank))
        error = begin_window(is_rank);
    if (error)
        return NULL;
    /* Again, to be called before what CUPTI has registered: behind its own end its calls crash. */
    (void)atexit(end_at_exit);
    if (lk_foreign_first_collective()) /* else the file is made with the first kernel */
        (void)lk_foreign_window_open(atomic_load(&buffers.start_ns));
    until = lk_foreign_now() + ns_of("LOCKSTEP_PROFILE_FOR_S", FOR_S);
    while (!is_ending(PERIOD_NS) && lk_foreign_now() < until && !lk_foreign_window_is_full() &&
           !atomic_load(&buffers.exhausted) && fetch())
        ;
    pthread_mutex_lock(&taking);
    end_window();
    pthread_mutex_unlock(&taking);
    return NULL;
}

static void stop_in_child(void)
{
    atomic_store(&forked, true);
}

/* The process's signals are for its own threads. */
static bool start_thread(void)
{
    sigset_t all, before;
    pthread_condattr_t attributes;
    int error;

    if (pthread_condattr_init(&attributes))
        return false;
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error)
        error = pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !error;
}

/* ---- The injection ---- */

/* The driver's entry point, which it calls in cuInit; 1: all is well. */
LK_FOREIGN_EXPORT int InitializeInjection(void);

int InitializeInjection(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    const char *folder = secure_getenv("LOCKSTEP_PROFILE_DIR");

    if (folder && *folder && !atomic_flag_test_and_set(&begun) &&
        !pthread_atfork(NULL, NULL, stop_in_child) && start_thread())
        (void)atexit(end_at_exit);
    return 1;
}
