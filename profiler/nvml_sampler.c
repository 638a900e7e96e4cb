/* A thread that samples a GPU beside a run; see profiler/nvml.h. */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "profiler/nvml.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* Samples in the trace before they become half as many: of a sampler with a tenth of a second, the
 * first two minutes. */
enum { SAMPLES_A_RATE = 1024 };

struct lk_nvml_sampler {
    struct lk_nvml *nvml;
    uint64_t period_ns, timeout_ns;
    struct lk_track *track; /* NULL: no spans */
    uint16_t names[LK_GPU_QUANTITY_COUNT];
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool stop, done, ended;
    bool abandoned; /* nobody waits for the thread: it frees this when the driver answers */
    struct lk_gpu_sums sums;
    enum lk_status failed;
    char failure[256];
};

/* ---- The thread ---- */

/* Every rarer-th sample: how many were shown at this rate, and until the next one. */
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

/* pre: the lock is held. */
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

/* Reads without the lock: the driver may take its time. */
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
        /* A read that took longer than the period delays those after it. */
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

/* ---- Its owner ---- */

/* Signals are for the host thread: one that ends the process must not end here. */
static int start_thread(struct lk_nvml_sampler *s)
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    error = pthread_create(&s->thread, NULL, sample, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

static enum lk_status open_track(struct lk_nvml_sampler *s, struct lk_recorder *r)
{
    const struct lk_track_info info = {
        .name = "GPU", .kind = LK_TRACK_GPU, .n_spans = LK_NVML_SPANS};
    enum lk_status st = LK_OK;

    LK_TRY(lk_recorder_track(r, &info, &s->track));
    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
        LK_TRY(lk_recorder_name(r, lk_gpu_quantity_name((enum lk_gpu_quantity)q), &s->names[q]));
out:
    return st;
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
    if (pthread_mutex_init(&s->lock, NULL)) {
        st = lk_fail(LK_ENOMEM, "NVML: cannot make a mutex");
        goto out;
    }
    if (pthread_cond_init(&s->changed, NULL) || start_thread(s)) {
        pthread_mutex_destroy(&s->lock);
        st = lk_fail(LK_ENOMEM, "NVML: cannot start a thread");
        goto out;
    }
    *out = s;
    s = NULL;
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

/* Whether the thread came to its end in time; what it found, either way. */
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
