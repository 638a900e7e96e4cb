#include "tests/fakes/fake_cupti_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "base/clock.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

struct fake_cupti fake_cupti;
_Thread_local struct fake_cupti_stack fake_cupti_stack;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* Return the planned failure if this is the call to fail, else success. */
static CUptiResult result(const char *call)
{
    if (!fake_cupti.fail_call || strcmp(call, fake_cupti.fail_call) != 0 ||
        fake_cupti.fail_after-- > 0)
        return CUPTI_SUCCESS;
    fake_cupti.fail_call = NULL;
    return fake_cupti.fail_with;
}

void fake_cupti_reset(void)
{
    memset(&fake_cupti, 0, sizeof fake_cupti);
    fake_cupti_stack.depth = 0;
    fake_cupti.version = CUPTI_API_VERSION;
    fake_cupti.by_thread = 1;
}

static bool put(const void *record, size_t bytes)
{
    size_t most = 0;

    if (fake_cupti.open && fake_cupti.open_used + bytes > fake_cupti.open_size)
        fake_cupti_deliver(0);
    if (!fake_cupti.open) {
        fake_cupti.request(&fake_cupti.open, &fake_cupti.open_size, &most);
        fake_cupti.open_used = 0;
    }
    if (!fake_cupti.open || bytes > fake_cupti.open_size)
        return false;
    memcpy(fake_cupti.open + fake_cupti.open_used, record, bytes);
    if (((const CUpti_Activity *)record)->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        fake_cupti.unfinished |= ((const CUpti_ActivityKernel10 *)record)->end == 0;
    fake_cupti.open_used += bytes;
    return true;
}

bool fake_cupti_put(const void *record, size_t bytes)
{
    bool there;

    pthread_mutex_lock(&lock);
    there = put(record, bytes);
    pthread_mutex_unlock(&lock);
    return there;
}

bool fake_cupti_records_call(bool of_runtime, CUpti_CallbackId id)
{
    const bool *chosen = of_runtime ? fake_cupti.runtime_calls : fake_cupti.driver_calls;
    bool is;

    pthread_mutex_lock(&lock);
    is =
        id < FAKE_CUPTI_CALLS &&
        (chosen[id] ||
         fake_cupti.enabled[of_runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER]);
    pthread_mutex_unlock(&lock);
    return is;
}

bool fake_cupti_gives_id(bool of_runtime, CUpti_CallbackId id)
{
    return fake_cupti_records_call(of_runtime, id) &&
           (!fake_cupti.ids_with_kinds_only || fake_cupti.enabled[CUPTI_ACTIVITY_KIND_RUNTIME]);
}

CUptiResult fake_cupti_enable_callback(uint32_t on, CUpti_SubscriberHandle s,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    (void)s;
    pthread_mutex_lock(&lock);
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && id < FAKE_CUPTI_CALLS)
        fake_cupti.called_back[id] = on;
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

void fake_cupti_called(CUpti_CallbackId id)
{
    const CUpti_CallbackData data = {.callbackSite = CUPTI_API_ENTER};

    pthread_mutex_lock(&lock);
    if (fake_cupti.called_back[id])
        fake_cupti.callback(NULL, CUPTI_CB_DOMAIN_RUNTIME_API, id, &data);
    pthread_mutex_unlock(&lock);
}

void fake_cupti_hold(bool on)
{
    if (on)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

void fake_cupti_deliver(size_t cut)
{
    uint8_t *buffer;

    pthread_mutex_lock(&lock);
    buffer = fake_cupti.open;
    fake_cupti.open = NULL;
    fake_cupti.unfinished = false;
    if (buffer)
        fake_cupti.complete(NULL, 0, buffer, fake_cupti.open_size, fake_cupti.open_used - cut);
    pthread_mutex_unlock(&lock);
}

static CUptiResult get_version(uint32_t *version)
{
    *version = fake_cupti.version;
    return result("GetVersion");
}

static CUptiResult get_result_string(CUptiResult e, const char **text)
{
    *text = e == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                                     : "an error of the fake";
    return result("GetResultString");
}

static CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                      CUpti_BuffersCallbackCompleteFunc complete)
{
    fake_cupti.request = request;
    fake_cupti.complete = complete;
    return result("ActivityRegisterCallbacks");
}

static CUptiResult get_timestamp(uint64_t *timestamp)
{
    *timestamp = lk_now_ns() + fake_cupti.ahead_ns;
    return result("GetTimestamp");
}

static void clocks(uint64_t *theirs_ns, uint64_t *ours_ns)
{
    *ours_ns = lk_now_ns();
    *theirs_ns = *ours_ns + fake_cupti.ahead_ns;
}

/* Set buffers by thread. CUPTI documents undefined behaviour unless this precedes the registration
 * of callbacks and the enabling of kinds. */
static CUptiResult set_attribute(CUpti_ActivityAttribute attribute, size_t *size, void *value)
{
    if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER) {
        if (*size != 1 || fake_cupti.kinds_enabled > 0)
            return CUPTI_ERROR_INVALID_OPERATION;
        memcpy(&fake_cupti.by_thread, value, 1);
    }
    return result("ActivitySetAttribute");
}

static CUptiResult enable(CUpti_ActivityKind kind)
{
    CUptiResult e = result("ActivityEnable");

    fake_cupti.kinds_enabled += (e == CUPTI_SUCCESS) - fake_cupti.enabled[kind];
    fake_cupti.enabled[kind] = e == CUPTI_SUCCESS;
    return e;
}

/* Return the size of a record that tests make. */
static size_t record_bytes(uint32_t kind)
{
    static const struct {
        uint32_t kind;
        size_t bytes;
    } rows[] = {
        {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(CUpti_ActivityKernel10)},
        {CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(CUpti_ActivityMemcpy6)},
        {CUPTI_ACTIVITY_KIND_MEMCPY2, sizeof(CUpti_ActivityMemcpyPtoP4)},
        {CUPTI_ACTIVITY_KIND_MEMSET, sizeof(CUpti_ActivityMemset4)},
        {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, sizeof(CUpti_ActivitySynchronization2)},
        {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(CUpti_ActivityOverhead3)},
        {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(CUpti_ActivityExternalCorrelation)},
        {CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(CUpti_ActivityAPI)},
        {CUPTI_ACTIVITY_KIND_DRIVER, sizeof(CUpti_ActivityAPI)},
        {CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE, sizeof(CUpti_ActivityDeviceAttribute)},
    };

    if (kind < LK_COUNT(fake_cupti.sizes) && fake_cupti.sizes[kind] > 0)
        return fake_cupti.sizes[kind];
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].kind == kind)
            return rows[i].bytes;
    return 0;
}

/* Return the next record. As in CUPTI, an unfinished record at the end is an invalid kind. */
static CUptiResult next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    uint8_t *at = *record ? (uint8_t *)*record + record_bytes((*record)->kind) : buffer;
    size_t left = valid - (size_t)(at - buffer);
    uint32_t kind = 0;

    if (left == 0)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    if (left < sizeof kind)
        return CUPTI_ERROR_INVALID_KIND;
    memcpy(&kind, at, sizeof kind);
    if (record_bytes(kind) == 0 || record_bytes(kind) > left)
        return CUPTI_ERROR_INVALID_KIND;
    *record = (CUpti_Activity *)(void *)at;
    return CUPTI_SUCCESS;
}

/* Take the times of kernels that have not ended. */
static void lose_times(void)
{
    const uint64_t now = lk_now_ns() + fake_cupti.ahead_ns;
    CUpti_Activity *record = NULL;

    while (fake_cupti.open &&
           next_record(fake_cupti.open, fake_cupti.open_used, &record) == CUPTI_SUCCESS) {
        CUpti_ActivityKernel10 *k = (CUpti_ActivityKernel10 *)(void *)record;

        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && (k->end == 0 || k->end > now))
            k->start = k->end = 0;
    }
    fake_cupti.unfinished = false;
}

static CUptiResult disable(CUpti_ActivityKind kind)
{
    bool was;

    pthread_mutex_lock(&lock);
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        lose_times();
    was = fake_cupti.enabled[kind];
    fake_cupti.enabled[kind] = false;
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER)
        fake_cupti.deaf = true;
    pthread_mutex_unlock(&lock);
    while (fake_cupti.stuck_disabling)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    fake_cupti.kinds_enabled -= was;
    return result("ActivityDisable");
}

static CUptiResult flush_all(uint32_t flag)
{
    fake_cupti.flushes_enabled += fake_cupti.kinds_enabled > 0;
    fake_cupti.flushes++;
    while (fake_cupti.stuck)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (fake_cupti.complete && !(fake_cupti.unfinished && flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED))
        fake_cupti_deliver(0);
    return result("ActivityFlushAll");
}

/* Hand over a buffer on a thread of CUPTI's, with its lock held. */
static void *hand_over(void *arg)
{
    uint8_t *buffer = NULL;
    size_t size = 0, most;

    (void)arg;
    fake_cupti.checks_order = false;
    pthread_mutex_lock(&lock);
    fake_cupti.request(&buffer, &size, &most);
    fake_cupti.complete(NULL, 0, buffer, size, 0);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Whoever asks must let CUPTI hand over buffers meanwhile. */
static void check_order(void)
{
    struct timespec until;
    pthread_t thread;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_create(&thread, NULL, hand_over, NULL) != 0)
        return;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        fake_cupti.inverted = true;
        pthread_detach(thread);
    }
}

static CUptiResult get_dropped(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    if (fake_cupti.checks_order)
        check_order();
    if (fake_cupti.inverted) /* CUPTI's lock is never free again */
        return CUPTI_ERROR_UNKNOWN;
    pthread_mutex_lock(&lock);
    *dropped = fake_cupti.dropped;
    fake_cupti.dropped = 0;
    pthread_mutex_unlock(&lock);
    return result("ActivityGetNumDroppedRecords");
}

static CUptiResult push_id(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 ||
        fake_cupti_stack.depth == LK_COUNT(fake_cupti_stack.ids))
        return CUPTI_ERROR_INVALID_PARAMETER;
    fake_cupti_stack.ids[fake_cupti_stack.depth++] = id;
    return CUPTI_SUCCESS;
}

static CUptiResult pop_id(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
    (void)kind;
    if (fake_cupti_stack.depth == 0)
        return CUPTI_ERROR_QUEUE_EMPTY;
    *last = fake_cupti_stack.ids[--fake_cupti_stack.depth];
    return CUPTI_SUCCESS;
}

static CUptiResult choose(bool calls[FAKE_CUPTI_CALLS], CUpti_CallbackId id, uint8_t enabled)
{
    if (id >= FAKE_CUPTI_CALLS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    enabled = enabled && !fake_cupti.deaf; /* without an error: seen on an H200, CUPTI 130001 */
    fake_cupti.calls_enabled += (enabled != 0) - calls[id];
    calls[id] = enabled;
    return CUPTI_SUCCESS;
}

static CUptiResult runtime_api(CUpti_CallbackId id, uint8_t enabled)
{
    return choose(fake_cupti.runtime_calls, id, enabled);
}

static CUptiResult driver_api(CUpti_CallbackId id, uint8_t enabled)
{
    return choose(fake_cupti.driver_calls, id, enabled);
}

static CUptiResult subscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *data)
{
    CUptiResult e = result("Subscribe");

    (void)data;
    fake_cupti.callback = callback;
    if (e != CUPTI_SUCCESS)
        return e;
    if (fake_cupti.other_profiler || fake_cupti.subscribers > 0)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    fake_cupti.subscribers++;
    *out = (CUpti_SubscriberHandle)(void *)&fake_cupti;
    return CUPTI_SUCCESS;
}

static CUptiResult unsubscribe(CUpti_SubscriberHandle s)
{
    (void)s;
    fake_cupti.subscribers--;
    return CUPTI_SUCCESS;
}

const struct lk_cupti_calls fake_cupti_calls = {
    .GetVersion = get_version,
    .GetResultString = get_result_string,
    .GetTimestamp = get_timestamp,
    .ActivityRegisterCallbacks = register_callbacks,
    .ActivitySetAttribute = set_attribute,
    .ActivityEnable = enable,
    .ActivityDisable = disable,
    .ActivityFlushAll = flush_all,
    .ActivityGetNextRecord = next_record,
    .ActivityGetNumDroppedRecords = get_dropped,
    .ActivityPushExternalCorrelationId = push_id,
    .ActivityPopExternalCorrelationId = pop_id,
    .Subscribe = subscribe,
    .Unsubscribe = unsubscribe,
    .ActivityEnableRuntimeApi = runtime_api,
    .ActivityEnableDriverApi = driver_api,
    .clocks = clocks,
};

#endif
