#include "tests/cupti/cupti.h"

#include "facts/cupti_abi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A record's size in CUDA 13, which has members behind those that are read. */
enum { RECORD_BYTES = 216, LAUNCH = 211, QUERY = 153 /* cudaEventQuery */ };

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct fake_cupti state = {.version = 130001};
static bool is_on[64];
static cupti_request *request;
static cupti_complete *complete;
static uint8_t *buffer;
static size_t buffer_bytes, used;
static size_t n_dropped;
static cupti_callback *callback;
static uint8_t watched[3][1024]; /* by domain */

struct fake_cupti *fake_state(void)
{
    return &state;
}

/* As CUPTI's own end, which it registers when it is first used: its calls crash behind it. */
static atomic_bool gone;
static bool registered;

static void leave(void)
{
    atomic_store(&gone, true);
}

static void check_alive(void)
{
    if (atomic_load(&gone))
        abort();
}

static int result(const char *call)
{
    check_alive();
    return state.fail_call && !strcmp(state.fail_call, call) ? state.fail_with : CUPTI_OK;
}

/* ---- Records ---- */

void fake_deliver(void)
{
    uint8_t *full;
    size_t n;

    pthread_mutex_lock(&lock);
    full = buffer;
    n = used;
    buffer = NULL;
    if (full && !state.keeps) {
        complete(NULL, 0, full, buffer_bytes, n);
        state.lent--;
    }
    pthread_mutex_unlock(&lock);
}

static void put(const void *record, size_t bytes)
{
    size_t most;

    if (buffer && used + RECORD_BYTES > buffer_bytes)
        fake_deliver();
    if (!buffer) {
        request(&buffer, &buffer_bytes, &most);
        used = 0;
        state.lent += buffer != NULL;
        state.refused += buffer == NULL;
    }
    if (!buffer) {
        n_dropped++;
        return;
    }
    memset(buffer + used, 0xee, RECORD_BYTES);
    memcpy(buffer + used, record, bytes);
    used += RECORD_BYTES;
}

static uint64_t theirs(int64_t ns)
{
    return ns ? (uint64_t)(ns + state.ahead_ns) : 0;
}

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void call(uint32_t function, uint32_t correlation, int64_t start_ns, int64_t end_ns)
{
    struct cupti_call c = {.kind = CUPTI_RUNTIME,
                           .function = function,
                           .start = theirs(start_ns),
                           .end = theirs(end_ns),
                           .process = (uint32_t)getpid(),
                           .thread = state.thread_id_type == CUPTI_THREAD_ID_SYSTEM
                                         ? (uint32_t)gettid()
                                         : (uint32_t)(uintptr_t)pthread_self(),
                           .correlation = correlation};

    if (is_on[CUPTI_RUNTIME])
        put(&c, sizeof c);
}

void fake_kernel(const char *name, uint32_t stream, int64_t start_ns, int64_t end_ns)
{
    struct cupti_kernel k = {.kind = CUPTI_CONCURRENT_KERNEL,
                             .start = theirs(start_ns),
                             .end = theirs(end_ns),
                             .stream = stream,
                             .device = 1,
                             .name = name};
    int64_t at;

    pthread_mutex_lock(&lock);
    k.correlation = ++state.n_launched;
    if (watched[CUPTI_DOMAIN_RUNTIME][LAUNCH])
        callback(NULL, CUPTI_DOMAIN_RUNTIME, LAUNCH, NULL);
    at = now();
    call(QUERY, 0, at, at);
    call(LAUNCH, k.correlation, at, at + 1);
    if (is_on[CUPTI_CONCURRENT_KERNEL])
        put(&k, sizeof k);
    pthread_mutex_unlock(&lock);
}

static void copy(enum cupti_kind kind, uint8_t what, uint64_t bytes, int64_t start_ns,
                 int64_t end_ns)
{
    struct cupti_copy c = {.kind = kind,
                           .copy_kind = what,
                           .bytes = bytes,
                           .start = theirs(start_ns),
                           .end = theirs(end_ns),
                           .device = 1,
                           .stream = 7};

    int64_t at = now();

    pthread_mutex_lock(&lock);
    c.correlation = ++state.n_launched;
    call(kind == CUPTI_MEMCPY ? 41 : 51, c.correlation, at, at + 1);
    if (is_on[kind])
        put(&c, sizeof c);
    pthread_mutex_unlock(&lock);
}

void fake_copy(uint64_t bytes, int64_t start_ns, int64_t end_ns)
{
    copy(CUPTI_MEMCPY, 1, bytes, start_ns, end_ns);
}

void fake_memset(uint64_t bytes, int64_t start_ns, int64_t end_ns)
{
    copy(CUPTI_MEMSET, 0, bytes, start_ns, end_ns);
}

void fake_wait(int64_t start_ns, int64_t end_ns)
{
    pthread_mutex_lock(&lock);
    call(131, ++state.n_launched, start_ns, end_ns);
    pthread_mutex_unlock(&lock);
}

/* ---- CUPTI's functions ---- */

int cuptiGetVersion(uint32_t *out)
{
    *out = state.version;
    return result("cuptiGetVersion");
}

int cuptiGetTimestamp(uint64_t *out)
{
    *out = theirs(now());
    return result("cuptiGetTimestamp");
}

int cuptiSubscribe(void **out, cupti_callback *c, void *user)
{
    (void)user;
    callback = c;
    *out = &state;
    if (result("cuptiSubscribe"))
        return state.fail_with;
    if (!registered)
        registered = !atexit(leave);
    state.subscribed++;
    return CUPTI_OK;
}

static void linger(void *ns)
{
    const struct timespec time = {.tv_nsec = *(int64_t *)ns};

    nanosleep(&time, NULL);
    state.lingered = true;
}

int cuptiUnsubscribe(void *subscriber)
{
    pthread_key_t key;

    if (state.linger_ns && !pthread_key_create(&key, linger))
        pthread_setspecific(key, &state.linger_ns);
    state.subscribed -= subscriber == &state;
    return CUPTI_OK;
}

int cuptiActivityRegisterCallbacks(cupti_request *r, cupti_complete *c)
{
    pthread_mutex_lock(&lock);
    request = r;
    complete = c;
    state.registered++;
    pthread_mutex_unlock(&lock);
    return result("cuptiActivityRegisterCallbacks");
}

static int set_kind(int kind, bool on)
{
    check_alive();
    pthread_mutex_lock(&lock);
    state.enabled += on - is_on[kind];
    is_on[kind] = on;
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

int cuptiActivityEnable(int kind)
{
    return result("cuptiActivityEnable") ? state.fail_with : set_kind(kind, true);
}

int cuptiActivityDisable(int kind)
{
    return set_kind(kind, false);
}

int cuptiActivityFlushAll(uint32_t flags)
{
    (void)flags;
    check_alive();
    if (!state.is_late)
        fake_deliver();
    return CUPTI_OK;
}

int cuptiActivityGetNextRecord(uint8_t *from, size_t bytes, void **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + RECORD_BYTES : from;

    if (next >= from + bytes)
        return CUPTI_MAX_LIMIT_REACHED;
    *record = next;
    return CUPTI_OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *out)
{
    (void)context;
    (void)stream;
    *out = n_dropped;
    n_dropped = 0;
    return CUPTI_OK;
}

int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t function)
{
    if (subscriber != &state || domain > CUPTI_DOMAIN_RUNTIME || function >= sizeof watched[0])
        return 1;
    pthread_mutex_lock(&lock);
    state.watched += (int)on - watched[domain][function];
    watched[domain][function] = (uint8_t)on;
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

#ifndef FAKE_OLDER

int cuptiGetThreadIdType(int *out)
{
    *out = state.thread_id_type;
    return CUPTI_OK;
}

int cuptiSetThreadIdType(int type)
{
    state.thread_id_type = type;
    return CUPTI_OK;
}

#endif
