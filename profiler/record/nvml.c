/*
 * One GPU by NVML. Divisions: the library, the GPU, samples, the sampler: a thread that takes
 * samples during a run.
 */
#include "profiler/record/nvml.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/thread.h"
#include "base/units.h"
#include "profiler/record/nvml_calls.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

struct lk_nvml {
    struct lk_nvml_calls call;
    struct lk_library *library; /* NULL: the caller supplied the calls */
    struct nvmlDevice_st *gpu;
    bool initialised, instance;
    bool mute[LK_GPU_QUANTITY_COUNT]; /* the GPU does not report it */
};

/* ---- The library ---- */

#define SYMBOL(member, type, function) {function, offsetof(struct lk_nvml_calls, member)},
static const struct lk_library_symbol symbols[] = {LK_NVML_CALL_LIST(SYMBOL)};
/* The last is the older name of `reasons`, for drivers before 535. */
static const struct lk_library_symbol optional[] = {LK_NVML_SOMETIMES_LIST(SYMBOL){
    "nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(struct lk_nvml_calls, reasons)}};
#undef SYMBOL

static const char *const files[] = {"libnvidia-ml.so.1", NULL};

static enum lk_status open_library(struct lk_nvml *n)
{
    const struct lk_library_spec spec = {
        .name = "NVML", .files = files, .symbols = symbols, .n_symbols = LK_COUNT(symbols)};

    LK_PASS(lk_library_open(&spec, &n->call, &n->library));
    for (size_t i = 0; i < LK_COUNT(optional); i++) {
        char *slot = (char *)&n->call + optional[i].offset;
        void (*known)(void);

        memcpy(&known, slot, sizeof known);
        if (!known)
            lk_library_function(n->library, optional[i].name, slot);
    }
    return LK_OK;
}

/* ---- The GPU ---- */

static enum lk_status nvml_fail(const struct lk_nvml *n, int code, const char *what)
{
    enum lk_status st =
        code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED ? LK_EIO : LK_EUNSUPPORTED;

    return lk_fail(st, "NVML: %s: %s", what, n->call.error_string(code));
}

/* Find the MIG instance with this UUID. CUDA's UUID of an instance may have a GPU's prefix. */
static int find_instance(struct lk_nvml *n, const char *uuid)
{
    struct nvmlDevice_st *instance = NULL;
    char text[96]; /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
    int code;

    if (!n->call.device_of_mig)
        return NVML_NOT_FOUND;
    (void)snprintf(text, sizeof text, "MIG-%s", uuid + 4);
    code = n->call.device_by_uuid(text, &instance);
    if (code == NVML_OK)
        code = n->call.device_of_mig(instance, &n->gpu);
    n->instance = code == NVML_OK;
    return code;
}

static enum lk_status find_gpu(struct lk_nvml *n, const char *uuid)
{
    bool instance = !strncmp(uuid, "MIG-", 4);
    int code = NVML_NOT_FOUND;

    if (!instance && strncmp(uuid, "GPU-", 4) != 0)
        return lk_fail(LK_EINTERNAL, "NVML: '%s' is no UUID of a GPU", uuid);
    if (!instance)
        code = n->call.device_by_uuid(uuid, &n->gpu);
    if (code == NVML_NOT_FOUND || code == NVML_INVALID_ARGUMENT)
        code = find_instance(n, uuid);
    return code == NVML_OK ? LK_OK : nvml_fail(n, code, uuid);
}

enum lk_status lk_nvml_open(const char *uuid, const struct lk_nvml_calls *calls,
                            struct lk_nvml **out)
{
    struct lk_nvml *n = NULL;
    enum lk_status st = LK_OK;
    int code;

    LK_TRY(lk_alloc(&n, 1, sizeof *n));
    if (calls)
        n->call = *calls;
    else
        LK_TRY(open_library(n));
    code = n->call.init();
    n->initialised = code == NVML_OK;
    if (!n->initialised)
        LK_TRY(nvml_fail(n, code, "nvmlInit"));
    LK_TRY(find_gpu(n, uuid));
    LK_HAND_OVER(out, n);
out:
    lk_nvml_close(n);
    return st;
}

void lk_nvml_close(struct lk_nvml *n)
{
    if (!n)
        return;
    if (n->initialised)
        (void)n->call.shutdown();
    lk_library_close(n->library);
    free(n);
}

static double max_clock_mhz(const struct lk_nvml *n, int kind)
{
    unsigned mhz;

    return n->call.max_clock(n->gpu, kind, &mhz) == NVML_OK ? (double)mhz : (double)NAN;
}

void lk_nvml_limits(struct lk_nvml *n, struct lk_gpu_limits *out)
{
    unsigned mw;

    *out = (struct lk_gpu_limits){.max_sm_clock_mhz = max_clock_mhz(n, NVML_SM_CLOCK),
                                  .max_memory_clock_mhz = max_clock_mhz(n, NVML_MEMORY_CLOCK),
                                  .power_limit_w = NAN,
                                  .instance = n->instance};
    if (n->call.max_power && n->call.max_power(n->gpu, &mw) == NVML_OK)
        out->power_limit_w = 1e-3 * mw;
}

static int count_nvlinks(const struct lk_nvml *n)
{
    int active = -1;

    for (unsigned link = 0; n->call.nvlink && link < NVML_NVLINKS_MAX; link++) {
        unsigned on = 0;

        if (n->call.nvlink(n->gpu, link, &on) == NVML_OK)
            active = (active < 0 ? 0 : active) + (on == 1);
    }
    return active;
}

static int ask(const struct lk_nvml *n, lk_nvml_unsigned *what)
{
    unsigned value;

    return what && what(n->gpu, &value) == NVML_OK ? (int)value : -1;
}

void lk_nvml_links(struct lk_nvml *n, struct lk_gpu_links *out)
{
    out->nvlinks = count_nvlinks(n);
    out->pcie_generation = ask(n, n->call.pcie_generation);
    out->pcie_lanes = ask(n, n->call.pcie_width);
}

bool lk_gpu_nvlinks_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT])
{
    (void)snprintf(text, LK_GPU_LINKS_TEXT, "%d", l->nvlinks);
    return l->nvlinks >= 0;
}

bool lk_gpu_pcie_text(const struct lk_gpu_links *l, char text[static LK_GPU_LINKS_TEXT])
{
    (void)snprintf(text, LK_GPU_LINKS_TEXT, "%d x%d", l->pcie_generation, l->pcie_lanes);
    return l->pcie_generation > 0 && l->pcie_lanes > 0;
}

/* ---- Samples ---- */

/* Ask for a quantity; return NVML's code. *out is valid where that is NVML_OK. */
static int read_quantity(const struct lk_nvml *n, enum lk_gpu_quantity q, double *out)
{
    const struct lk_nvml_calls *call = &n->call;
    int code = NVML_NOT_SUPPORTED;
    unsigned value = 0;
    unsigned long long wide = 0;

    switch (q) {
    case LK_GPU_SM_CLOCK_MHZ:
        code = call->clock(n->gpu, NVML_SM_CLOCK, &value);
        break;
    case LK_GPU_MEMORY_CLOCK_MHZ:
        code = call->clock(n->gpu, NVML_MEMORY_CLOCK, &value);
        break;
    case LK_GPU_POWER_W:
        code = call->power(n->gpu, &value);
        break;
    case LK_GPU_TEMPERATURE_C:
        if (call->temperature)
            code = call->temperature(n->gpu, NVML_TEMPERATURE_OF_GPU, &value);
        break;
    case LK_GPU_REASONS:
        if (call->reasons)
            code = call->reasons(n->gpu, &wide);
        break;
    case LK_GPU_ENERGY_J:
        if (call->energy)
            code = call->energy(n->gpu, &wide);
        break;
    case LK_GPU_QUANTITY_COUNT:
        break;
    }
    *out = (double)wide + value;
    if (q == LK_GPU_POWER_W || q == LK_GPU_ENERGY_J)
        *out *= 1e-3; /* from mW and mJ */
    return code;
}

enum lk_status lk_nvml_read(struct lk_nvml *n, struct lk_gpu_sample *out)
{
    struct lk_gpu_sample sample = {.at_ns = lk_now_ns()};

    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++) {
        double value;
        int code =
            n->mute[q] ? NVML_NOT_SUPPORTED : read_quantity(n, (enum lk_gpu_quantity)q, &value);

        if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED || code == NVML_UNINITIALIZED)
            return nvml_fail(n, code, lk_gpu_quantity_name((enum lk_gpu_quantity)q));
        n->mute[q] |= code == NVML_NOT_SUPPORTED;
        sample.value[q] = code == NVML_OK ? value : NAN;
    }
    *out = sample;
    return LK_OK;
}

/* ---- The sampler ---- */

/* Samples in the trace before the rate is halved: at a period of 0.1 s, the first two minutes. */
enum { SAMPLES_A_RATE = 1024 };

struct lk_nvml_sampler {
    struct lk_nvml *nvml;
    uint64_t period_ns, timeout_ns;
    struct lk_track *track; /* NULL: no spans */
    uint16_t names[LK_GPU_QUANTITY_COUNT];
    pthread_t thread;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t changed;
    bool stop, done, ended;
    bool abandoned; /* the thread frees this when the driver answers */
    struct lk_gpu_sums sums;
    enum lk_status failed;
    char failure[256];
};

/* ---- The sampler's thread ---- */

/* Thins out spans, one of every `every` samples: how many were shown at this rate, and samples left
 * until the next one. */
struct rarity {
    unsigned every, shown, left;
};

static void show(struct lk_nvml_sampler *s, const struct lk_gpu_sample *sample, struct rarity *r)
{
    if (r->left > 0) {
        r->left--;
        return;
    }
    if (++r->shown == SAMPLES_A_RATE) {
        r->shown = 0;
        r->every *= 2;
    }
    r->left = r->every - 1;
    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++) {
        struct lk_span span = {.kind = LK_SPAN_COUNTER,
                               .name = s->names[q],
                               .step = LK_SPAN_STEP_UNKNOWN,
                               .index = -1,
                               .start_ns = sample->at_ns,
                               .end_ns = sample->at_ns};

        if (isnan(sample->value[q]))
            continue;
        span.value = sample->value[q];
        lk_span_emit(s->track, &span);
    }
}

/* Add a sample to the summary. pre: the lock is held. */
static void add(struct lk_nvml_sampler *s, const struct lk_gpu_sample *sample)
{
    for (size_t q = 0; !s->ended && q < LK_GPU_QUANTITY_COUNT; q++)
        lk_gpu_sums_add(&s->sums, (enum lk_gpu_quantity)q, sample->at_ns, sample->value[q]);
}

static void release(struct lk_nvml_sampler *s)
{
    lk_nvml_close(s->nvml);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Sample until stopped. The lock is not held while reading, because the driver may be slow. */
static void *sample(void *arg)
{
    struct lk_nvml_sampler *s = arg;
    bool abandoned, first = true;
    struct rarity rarity = {.every = 1};
    struct lk_deadline next = {lk_monotonic_ns()};
    struct timespec at;

    prctl(PR_SET_NAME, "nvml");
    pthread_mutex_lock(&s->lock);
    while ((first || !s->stop) && s->failed == LK_OK) {
        struct lk_gpu_sample got;
        enum lk_status st;

        pthread_mutex_unlock(&s->lock);
        st = lk_nvml_read(s->nvml, &got);
        pthread_mutex_lock(&s->lock);
        if (s->stop && !first)
            break;
        first = false;
        if (st != LK_OK) {
            s->failed = st;
            (void)snprintf(s->failure, sizeof s->failure, "%s", lk_error_text());
            break;
        }
        add(s, &got);
        show(s, &got, &rarity);
        /* A read longer than the period delays the following ones. */
        next.at_ns += s->period_ns;
        if (lk_deadline_left_ns(next) == 0)
            next.at_ns = lk_monotonic_ns() + s->period_ns;
        at = lk_deadline_timespec(next);
        while (!s->stop &&
               pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &at) != ETIMEDOUT)
            ;
    }
    s->done = true;
    abandoned = s->abandoned;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (abandoned)
        release(s);
    return NULL;
}

/* ---- The sampler's owner ---- */

static enum lk_status open_track(struct lk_nvml_sampler *s, struct lk_recorder *r)
{
    const struct lk_track_info info = {
        .name = "GPU", .kind = LK_TRACK_GPU, .n_spans = LK_NVML_SPANS};

    LK_PASS(lk_recorder_track(r, &info, &s->track));
    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
        LK_PASS(lk_recorder_name(r, lk_gpu_quantity_name((enum lk_gpu_quantity)q), &s->names[q]));
    return LK_OK;
}

enum lk_status lk_nvml_sampler_start(struct lk_nvml *n, const struct lk_nvml_sampler_config *config,
                                     struct lk_nvml_sampler **out)
{
    struct lk_nvml_sampler *s = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->nvml = n;
    s->period_ns = lk_ns_from_s(config->period_s);
    s->timeout_ns = lk_ns_from_s(config->timeout_s);
    LK_TRY(open_track(s, config->recorder));
    if (pthread_mutex_init(&s->lock, NULL))
        LK_TRY(lk_fail(LK_ENOMEM, "NVML: cannot make a mutex"));
    if (pthread_cond_init(&s->changed, NULL))
        st = lk_fail(LK_ENOMEM, "NVML: cannot make a condition variable");
    else
        st = lk_thread_start(&s->thread, sample, s, "NVML's samples");
    if (st != LK_OK) {
        pthread_mutex_destroy(&s->lock);
        goto out;
    }
    LK_HAND_OVER(out, s);
out:
    free(s);
    return st;
}

void lk_nvml_sampler_restart(struct lk_nvml_sampler *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->sums = (struct lk_gpu_sums){0};
    s->ended = false;
    pthread_mutex_unlock(&s->lock);
}

void lk_nvml_sampler_end(struct lk_nvml_sampler *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_mutex_unlock(&s->lock);
}

/* Return true if the thread ended in time; fill its sums and status either way. */
static bool wait_end(struct lk_nvml_sampler *s, struct lk_gpu_sums *sums, enum lk_status *failed)
{
    struct timespec at = lk_deadline_timespec(lk_deadline_in(s->timeout_ns));
    bool done;

    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    while (!s->done &&
           pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &at) != ETIMEDOUT)
        ;
    *sums = s->sums;
    *failed = s->failed;
    done = s->done;
    s->abandoned = !done;
    if (s->abandoned)
        pthread_detach(s->thread);
    pthread_mutex_unlock(&s->lock);
    return done;
}

enum lk_status lk_nvml_sampler_stop(struct lk_nvml_sampler *s, struct lk_gpu_summary *out)
{
    struct lk_gpu_sums sums = {0};
    enum lk_status st = LK_OK;
    uint64_t timeout_ns = s ? s->timeout_ns : 0;
    bool done = true;

    if (s)
        done = wait_end(s, &sums, &st);
    if (out)
        lk_gpu_summary(&sums, out);
    if (!s)
        return LK_OK;
    if (!done)
        return lk_fail(LK_ETIMEOUT, "NVML: the driver did not answer for %.1f s",
                       lk_s_from_ns(timeout_ns));
    pthread_join(s->thread, NULL);
    if (st != LK_OK)
        st = lk_fail(st, "%s", s->failure);
    release(s);
    return st;
}
