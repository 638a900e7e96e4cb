/* The loader: a thread that prepares batches ahead, in a ring of slots, and copies them to the
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

/* Limit for a batch's copy to the device; any machine that trains needs far less. */
static const uint64_t copy_timeout_ns = 120 * LK_NS_PER_S;

/* A batch: inputs, then targets. Other members than `host` are for devices without host memory. */
struct slot {
    int32_t *host, *device;
    struct lk_event *copied; /* on the copy stream: the batch is on the device */
    struct lk_event *used;   /* on the compute stream: the step has its own copy */
};

struct lk_loader {
    struct lk_loader_config config;
    struct lk_device *device;
    struct lk_stream *copy; /* NULL: the device uses host memory */
    struct lk_sampler *sampler;
    struct lk_track *track;
    uint16_t span_name, copy_name;
    size_t batches_an_epoch;
    uint64_t epoch; /* epoch of the sampler; only the preparing thread uses both */
    size_t n_slots; /* depth + accumulation, or accumulation without a thread */
    struct slot *slots;
    int32_t **step; /* by micro-batch: device buffers that the model reads */
    pthread_t thread;
    bool threaded, has_lock;
    pthread_mutex_t lock; /* guards all below when threaded */
    pthread_cond_t changed;
    uint64_t made, taken; /* batches since the start; slot of batch n is n % n_slots */
    bool stop;
    enum lk_status failed;
    char failure[512];
};

static size_t slot_elems(const struct lk_loader *l)
{
    return (size_t)l->config.local_batch * (size_t)l->config.context;
}

static size_t slot_bytes(const struct lk_loader *l)
{
    return 2 * slot_elems(l) * sizeof(int32_t);
}

/* Return the step that gets batch n. */
static uint32_t step_of(const struct lk_loader *l, uint64_t n)
{
    return (uint32_t)(l->config.first_step + n / (uint64_t)l->config.accumulation);
}

/* Read batch n, counted from the loader's first, into its slot. */
static enum lk_status fill(struct lk_loader *l, uint64_t n)
{
    size_t context = (size_t)l->config.context;
    size_t batch = (size_t)l->config.local_batch;
    uint64_t at = l->config.first + n, epoch = at / l->batches_an_epoch;
    size_t first = (size_t)(at % l->batches_an_epoch) * batch;
    int32_t *inputs = l->slots[n % l->n_slots].host;
    int32_t *targets = inputs + slot_elems(l);

    if (epoch != l->epoch) {
        lk_sampler_set_epoch(l->sampler, epoch);
        l->epoch = epoch;
    }
    for (size_t i = 0; i < batch; i++)
        LK_PASS(lk_dataset_read(l->config.dataset, lk_sampler_index(l->sampler, first + i),
                                inputs + i * context, targets + i * context));
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

/* Enqueue the copy of batch n to the device. */
static enum lk_status send(struct lk_loader *l, uint64_t n)
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

static enum lk_status prepare(struct lk_loader *l, uint64_t n)
{
    uint64_t began_ns = lk_monotonic_ns();
    uint64_t a_step = (uint64_t)l->config.accumulation;
    struct lk_span span = {0};
    enum lk_status st = LK_OK;

    if (l->copy) /* the slot's previous batch must have been copied */
        LK_TRY(lk_event_sync(l->slots[n % l->n_slots].copied, lk_deadline_in(copy_timeout_ns)));
    span =
        lk_span_begin(l->track, LK_SPAN_INPUT, l->span_name, step_of(l, n), (int32_t)(n % a_step));
    st = fill(l, n);
    delay(l, began_ns);
    lk_span_end(l->track, &span);
    if (l->copy)
        LK_TRY(st == LK_OK ? send(l, n) : st);
out:
    return st;
}

/* Record a failure and wake the consumer. pre: the lock is held. */
static void fail(struct lk_loader *l, enum lk_status st)
{
    l->failed = st;
    snprintf(l->failure, sizeof l->failure, "%s", lk_error_text());
    pthread_cond_broadcast(&l->changed);
}

static void *run(void *arg)
{
    struct lk_loader *l = arg;
    enum lk_status st = lk_device_attach(l->device);

    pthread_mutex_lock(&l->lock);
    if (st != LK_OK)
        fail(l, st);
    while (st == LK_OK) {
        /* The last `accumulation` batches taken may still be read: their slots are not free. */
        while (!l->stop && l->made - l->taken >= (uint64_t)l->config.depth)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->stop)
            break;
        pthread_mutex_unlock(&l->lock);
        st = prepare(l, l->made);
        pthread_mutex_lock(&l->lock);
        if (st == LK_OK)
            l->made++;
        else
            fail(l, st);
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static enum lk_status start_thread(struct lk_loader *l)
{
    enum lk_status st;

    /* On Linux these two cannot fail with default attributes. */
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->has_lock = true;
    l->threaded = true;
    st = lk_thread_start(&l->thread, run, l, "the loader");
    if (st != LK_OK)
        l->threaded = false;
    return st;
}

static enum lk_status check(const struct lk_loader_config *c)
{
    if (c->local_batch < 1 || c->context < 1 || c->depth < 0 || c->accumulation < 1)
        return lk_fail(LK_EUSAGE,
                       "loader with local batch %d, context %d, depth %d, accumulation %d",
                       c->local_batch, c->context, c->depth, c->accumulation);
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
    const struct lk_track_info info = {.name = "loader", .kind = LK_TRACK_LOADER};
    enum lk_status st = LK_OK;
    struct lk_loader *l = NULL;

    LK_TRY(check(config));
    LK_TRY(lk_alloc(&l, 1, sizeof *l));
    l->config = *config;
    l->device = d;
    if (l->config.sampler.samples == 0)
        l->config.sampler.samples = lk_dataset_samples(config->dataset);
    LK_TRY(lk_sampler_create(&l->config.sampler, &l->sampler));
    l->batches_an_epoch = lk_sampler_count(l->sampler) / (size_t)config->local_batch;
    if (l->batches_an_epoch == 0)
        LK_TRY(lk_fail(LK_EUSAGE,
                       "rank %d has %zu samples an epoch, fewer than its local batch of %d",
                       config->sampler.rank, lk_sampler_count(l->sampler), config->local_batch));
    LK_TRY(make_slots(l));
    LK_TRY(make_way(l));
    if (config->depth > 0) {
        LK_TRY(lk_recorder_track(config->recorder, &info, &l->track));
        LK_TRY(lk_recorder_name(config->recorder, "prepare batch", &l->span_name));
        LK_TRY(start_thread(l));
    }
    lk_log(LK_LOG_DATA, LK_DEBUG, "%zu samples, %zu batches of %d an epoch, %d ahead",
           l->config.sampler.samples, l->batches_an_epoch, config->local_batch, config->depth);
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
        pthread_join(l->thread, NULL);
    }
    if (l->has_lock) {
        pthread_cond_destroy(&l->changed);
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
    lk_sampler_destroy(l->sampler);
    free(l);
}

/* Wait until a batch is prepared, and take it. */
static enum lk_status wait_made(struct lk_loader *l, struct lk_deadline deadline)
{
    struct timespec at = lk_deadline_timespec(deadline);
    enum lk_status st = LK_OK;

    pthread_mutex_lock(&l->lock);
    while (l->made == l->taken && l->failed == LK_OK && lk_deadline_left_ns(deadline) > 0)
        pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &at);
    if (l->made == l->taken && l->failed != LK_OK)
        st = lk_fail(l->failed, "%s", l->failure);
    else if (l->made == l->taken)
        st = lk_fail(LK_ETIMEOUT, "the loader did not deliver batch %llu in time",
                     (unsigned long long)l->taken);
    else
        l->taken++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return st;
}

/* Return the address at which the step reads batch n; enqueue the copy to it on the compute
 * stream. */
static enum lk_status hand_over(struct lk_loader *l, uint64_t n, int32_t **out)
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
    int32_t *tokens;

    if (l->threaded) {
        LK_PASS(wait_made(l, deadline));
    } else {
        LK_PASS(prepare(l, n));
        l->made++;
        l->taken++;
    }
    out->samples = l->config.local_batch;
    out->context = l->config.context;
    LK_PASS(hand_over(l, n, &tokens));
    out->inputs = tokens;
    out->targets = tokens + slot_elems(l);
    return LK_OK;
}
