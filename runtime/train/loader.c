/* The loader: threads that prepare batches ahead, in a ring of slots, and copy them to the
 * device. */
#include "runtime/train/data.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Targets begin at a multiple of so many bytes. */
enum { TARGETS_ALIGN = sizeof(int32_t) };

/* Limit for a batch's copy to the device; any machine that trains needs far less. */
static const uint64_t copy_timeout_ns = 120 * LK_NS_PER_S;

/* A batch: inputs, then targets. Device and events are for devices without host memory. */
struct slot {
    char *host, *device;
    struct lk_event *copied; /* on the copy stream: the batch is on the device */
    struct lk_event *used;   /* on the compute stream: the step has its own copy */
    bool made;               /* it holds the next batch that is to be taken from it */
};

/* A thread that prepares batches, or the caller. */
struct worker {
    struct lk_loader *l;
    struct lk_sampler *sampler;
    uint64_t epoch; /* of the sampler */
    struct lk_track *track;
    pthread_t thread;
    bool started;
};

struct lk_loader {
    struct lk_loader_config config;
    struct lk_device *device;
    struct lk_stream *copy;  /* NULL: the device uses host memory */
    pthread_mutex_t copying; /* held by the thread that drives the copy stream */
    struct lk_sample_shape shape;
    size_t input_bytes; /* of a sample */
    size_t targets_at;  /* byte of a slot */
    uint16_t span_name, copy_name;
    struct lk_shares *shares;
    size_t n_slots; /* depth + accumulation, or accumulation without threads */
    struct slot *slots;
    char **step; /* by micro-batch: device buffers that the model reads */
    struct worker *workers;
    size_t n_workers;
    bool threaded, has_lock;
    pthread_mutex_t lock; /* guards all below, and slots[].made, when threaded */
    pthread_cond_t changed;
    /* Batches since the start: those that a worker has begun, and those taken. Slot of batch n is
     * n % n_slots. */
    uint64_t begun, taken;
    bool stop;
    enum lk_status failed;
    uint64_t failed_at; /* the first batch that is missing */
    char failure[512];
};

static size_t slot_bytes(const struct lk_loader *l)
{
    return l->targets_at +
           (size_t)l->config.local_batch * (size_t)l->shape.targets * sizeof(int32_t);
}

/* Return the step that gets batch n. */
static uint32_t step_of(const struct lk_loader *l, uint64_t n)
{
    return (uint32_t)(l->config.first_step + n / (uint64_t)l->config.accumulation);
}

/* Read batch n, counted from the loader's first, into its slot. */
static enum lk_status fill(struct worker *w, uint64_t n)
{
    const struct lk_loader *l = w->l;
    const struct lk_share share =
        lk_shares_of(l->shares, l->config.sampler.rank, l->config.first + n);
    size_t n_targets = (size_t)l->shape.targets;
    char *inputs = l->slots[n % l->n_slots].host;
    int32_t *targets = (int32_t *)(void *)(inputs + l->targets_at);

    if (share.epoch != w->epoch) {
        lk_sampler_set_epoch(w->sampler, share.epoch);
        w->epoch = share.epoch;
    }
    for (size_t i = 0; i < (size_t)share.samples; i++)
        LK_PASS(lk_dataset_read(l->config.dataset, lk_sampler_index(w->sampler, share.first + i),
                                inputs + i * l->input_bytes, targets + i * n_targets));
    return LK_OK;
}

/* Wait out the artificial delay of a batch begun at began_ns; return early on stop. */
static void delay(struct lk_loader *l, uint64_t began_ns)
{
    struct lk_deadline end = {began_ns + lk_ns_from_s(l->config.delay_s)};
    struct timespec at = lk_deadline_timespec(end);

    if (l->config.delay_s <= 0)
        return;
    if (!l->threaded) {
        lk_sleep_until_ns(end.at_ns);
        return;
    }
    pthread_mutex_lock(&l->lock);
    while (!l->stop && lk_deadline_left_ns(end) > 0)
        pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &at);
    pthread_mutex_unlock(&l->lock);
}

/* Enqueue the copy of batch n to the device. pre: l->copying is held. */
static enum lk_status enqueue_copy(struct lk_loader *l, uint64_t n)
{
    const struct slot *slot = &l->slots[n % l->n_slots];
    uint64_t a_step = (uint64_t)l->config.accumulation;
    const struct lk_span span = {
        .kind = LK_SPAN_INPUT, .name = l->copy_name, .index = (int32_t)(n % a_step)};

    lk_stream_set_step(l->copy, step_of(l, n));
    LK_PASS(lk_stream_wait(l->copy, slot->used));
    LK_PASS(lk_stream_span_begin(l->copy, &span, NULL));
    LK_PASS(lk_stream_copy(l->copy, slot->device, slot->host, slot_bytes(l)));
    LK_PASS(lk_stream_range_end(l->copy));
    return lk_event_record(slot->copied, l->copy);
}

static enum lk_status send(struct lk_loader *l, uint64_t n)
{
    enum lk_status st;

    pthread_mutex_lock(&l->copying);
    st = enqueue_copy(l, n);
    pthread_mutex_unlock(&l->copying);
    return st;
}

static enum lk_status prepare(struct worker *w, uint64_t n)
{
    struct lk_loader *l = w->l;
    uint64_t began_ns = lk_monotonic_ns();
    uint64_t a_step = (uint64_t)l->config.accumulation;
    struct lk_span span = {0};
    enum lk_status st = LK_OK;

    if (l->copy) /* the slot's previous batch must have been copied */
        LK_TRY(lk_event_sync(l->slots[n % l->n_slots].copied, lk_deadline_in(copy_timeout_ns)));
    span =
        lk_span_begin(w->track, LK_SPAN_INPUT, l->span_name, step_of(l, n), (int32_t)(n % a_step));
    st = fill(w, n);
    delay(l, began_ns);
    lk_span_end(w->track, &span);
    if (l->copy)
        LK_TRY(st == LK_OK ? send(l, n) : st);
out:
    return st;
}

/* Record that batch n will not come; the first one that is missing counts, however the threads run.
 * pre: the lock is held. */
static void fail(struct lk_loader *l, uint64_t n, enum lk_status st)
{
    if (l->failed != LK_OK && l->failed_at <= n)
        return;
    l->failed = st;
    l->failed_at = n;
    snprintf(l->failure, sizeof l->failure, "%s", lk_error_text());
}

static void *run(void *arg)
{
    struct worker *w = arg;
    struct lk_loader *l = w->l;
    enum lk_status st = lk_device_attach(l->device);

    pthread_mutex_lock(&l->lock);
    if (st != LK_OK)
        fail(l, 0, st);
    while (st == LK_OK) {
        uint64_t n;

        /* The last `accumulation` batches taken may still be read: their slots are not free. */
        while (!l->stop && l->failed == LK_OK && l->begun - l->taken >= (uint64_t)l->config.depth)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->stop || l->failed != LK_OK)
            break;
        n = l->begun++;
        pthread_mutex_unlock(&l->lock);
        st = prepare(w, n);
        pthread_mutex_lock(&l->lock);
        if (st == LK_OK)
            l->slots[n % l->n_slots].made = true;
        else
            fail(l, n, st);
        pthread_cond_broadcast(&l->changed);
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static enum lk_status start_threads(struct lk_loader *l)
{
    /* On Linux these cannot fail with default attributes. */
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->copying, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->has_lock = true;
    l->threaded = true;
    for (size_t i = 0; i < l->n_workers; i++) {
        LK_PASS(lk_thread_start(&l->workers[i].thread, run, &l->workers[i], "a loader"));
        l->workers[i].started = true;
    }
    return LK_OK;
}

static enum lk_status check(const struct lk_loader_config *c)
{
    if (c->local_batch < 1 || c->depth < 0 || c->workers < 0 || c->accumulation < 1)
        return lk_fail(LK_EUSAGE,
                       "loader with local batch %d, depth %d, %d threads, accumulation %d",
                       c->local_batch, c->depth, c->workers, c->accumulation);
    return LK_OK;
}

static enum lk_status make_workers(struct lk_loader *l)
{
    const struct lk_loader_config *c = &l->config;
    int wanted = c->workers > 0 ? c->workers : 1;
    char name[32];

    wanted = c->depth == 0 ? 1 : wanted > c->depth ? c->depth : wanted;
    LK_PASS(lk_alloc(&l->workers, (size_t)wanted, sizeof *l->workers));
    while (l->n_workers < (size_t)wanted) {
        const struct lk_track_info info = {.name = name, .kind = LK_TRACK_LOADER};
        struct worker *w = &l->workers[l->n_workers++];

        w->l = l;
        LK_PASS(lk_sampler_create(&c->sampler, &w->sampler));
        if (c->depth == 0)
            continue;
        snprintf(name, sizeof name, wanted > 1 ? "loader %zu" : "loader", l->n_workers - 1);
        LK_PASS(lk_recorder_track(c->recorder, &info, &w->track));
    }
    return LK_OK;
}

static enum lk_status make_slots(struct lk_loader *l)
{
    l->n_slots = (size_t)l->config.accumulation + (size_t)l->config.depth;
    LK_PASS(lk_alloc(&l->slots, l->n_slots, sizeof *l->slots));
    for (size_t i = 0; i < l->n_slots; i++)
        LK_PASS(lk_device_alloc_host(l->device, slot_bytes(l), (void **)&l->slots[i].host));
    return LK_OK;
}

/* Make the stream, buffers and events that copy batches to a device without host memory. */
static enum lk_status make_way(struct lk_loader *l)
{
    const struct lk_track_info info = {.name = "copy stream", .kind = LK_TRACK_COPY, .stream = 3};
    size_t n = (size_t)l->config.accumulation;

    if (lk_device_uses_host_memory(l->device))
        return LK_OK;
    if (!l->config.compute)
        return lk_fail(LK_EINTERNAL, "a loader for device %s without its compute stream",
                       lk_device_name(l->device));
    LK_PASS(lk_recorder_name(l->config.recorder, "copy batch", &l->copy_name));
    for (size_t i = 0; i < l->n_slots; i++) {
        LK_PASS(lk_device_alloc(l->device, slot_bytes(l), (void **)&l->slots[i].device));
        LK_PASS(lk_event_create(l->device, &l->slots[i].copied));
        LK_PASS(lk_event_create(l->device, &l->slots[i].used));
    }
    LK_PASS(lk_alloc(&l->step, n, sizeof *l->step));
    for (size_t i = 0; i < n; i++)
        LK_PASS(lk_device_alloc(l->device, slot_bytes(l), (void **)&l->step[i]));
    return lk_stream_create(l->device, &info, &l->copy);
}

enum lk_status lk_loader_create(struct lk_device *d, const struct lk_loader_config *config,
                                struct lk_loader **out)
{
    enum lk_status st = LK_OK;
    struct lk_loader *l = NULL;

    LK_TRY(check(config));
    LK_TRY(lk_alloc(&l, 1, sizeof *l));
    l->config = *config;
    l->device = d;
    if (l->config.sampler.samples == 0)
        l->config.sampler.samples = lk_dataset_samples(config->dataset);
    l->shape = *lk_dataset_shape(config->dataset);
    l->input_bytes = lk_sample_inputs(&l->shape) * lk_dtype_bytes(l->shape.dtype);
    l->targets_at = ((size_t)config->local_batch * l->input_bytes + TARGETS_ALIGN - 1) /
                    TARGETS_ALIGN * TARGETS_ALIGN;
    LK_TRY(make_workers(l));
    LK_TRY(lk_shares_create(&(struct lk_shares_config){.sampler = l->config.sampler,
                                                       .local_batch = config->local_batch,
                                                       .accumulation = config->accumulation},
                            &l->shares));
    LK_TRY(make_slots(l));
    LK_TRY(make_way(l));
    if (config->depth > 0) {
        LK_TRY(lk_recorder_name(config->recorder, "prepare batch", &l->span_name));
        LK_TRY(start_threads(l));
    }
    lk_log(LK_LOG_DATA, LK_DEBUG, "%zu samples, %g steps of batches of %d an epoch, %d ahead",
           l->config.sampler.samples, lk_shares_steps_an_epoch(l->shares), config->local_batch,
           config->depth);
    LK_HAND_OVER(out, l);
out:
    lk_loader_destroy(l);
    return st;
}

void lk_loader_destroy(struct lk_loader *l)
{
    if (!l)
        return;
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        for (size_t i = 0; i < l->n_workers; i++)
            if (l->workers[i].started)
                pthread_join(l->workers[i].thread, NULL);
    }
    if (l->has_lock) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->copying);
        pthread_mutex_destroy(&l->lock);
    }
    lk_stream_destroy(l->copy);
    for (size_t i = 0; l->slots && i < l->n_slots; i++) {
        lk_device_free(l->device, l->slots[i].device);
        lk_device_free_host(l->device, l->slots[i].host);
        lk_event_destroy(l->slots[i].copied);
        lk_event_destroy(l->slots[i].used);
    }
    free(l->slots);
    for (int i = 0; l->step && i < l->config.accumulation; i++)
        lk_device_free(l->device, l->step[i]);
    free(l->step);
    for (size_t i = 0; i < l->n_workers; i++)
        lk_sampler_destroy(l->workers[i].sampler);
    free(l->workers);
    lk_shares_destroy(l->shares);
    free(l);
}

/* Return true if the next batch will not come. pre: the lock is held. */
static bool is_missing(const struct lk_loader *l)
{
    return l->failed != LK_OK && l->failed_at <= l->taken;
}

/* Wait until the next batch is prepared, and take it. */
static enum lk_status wait_made(struct lk_loader *l, struct lk_deadline deadline)
{
    struct timespec at = lk_deadline_timespec(deadline);
    enum lk_status st = LK_OK;
    bool *made;

    pthread_mutex_lock(&l->lock);
    made = &l->slots[l->taken % l->n_slots].made;
    while (!*made && !is_missing(l) && lk_deadline_left_ns(deadline) > 0)
        pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &at);
    if (*made) {
        *made = false;
        l->taken++;
    } else if (is_missing(l)) {
        st = lk_fail(l->failed, "%s", l->failure);
    } else {
        st = lk_fail(LK_ETIMEOUT, "the loader did not deliver batch %llu in time",
                     (unsigned long long)l->taken);
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return st;
}

/* Return the address at which the step reads batch n; enqueue the copy to it on the compute
 * stream. */
static enum lk_status hand_over(struct lk_loader *l, uint64_t n, char **out)
{
    const struct slot *slot = &l->slots[n % l->n_slots];
    struct lk_stream *compute = l->config.compute;

    *out = slot->host;
    if (!l->copy)
        return LK_OK;
    *out = l->step[n % (uint64_t)l->config.accumulation];
    LK_PASS(lk_stream_wait(compute, slot->copied));
    LK_PASS(lk_stream_copy(compute, *out, slot->device, slot_bytes(l)));
    return lk_event_record(slot->used, compute);
}

enum lk_status lk_loader_next(struct lk_loader *l, struct lk_deadline deadline,
                              struct lk_batch *out)
{
    uint64_t n = l->taken;
    char *at;

    if (l->threaded) {
        LK_PASS(wait_made(l, deadline));
    } else {
        LK_PASS(prepare(&l->workers[0], n));
        l->taken++;
    }
    out->samples = lk_shares_of(l->shares, l->config.sampler.rank, l->config.first + n).samples;
    out->shape = l->shape;
    LK_PASS(hand_over(l, n, &at));
    out->inputs = at;
    out->targets = (const int32_t *)(const void *)(at + l->targets_at);
    return LK_OK;
}
