/*
 * The device cuda: ops in float on a GPU, products in tf32 (kernels/cuda.h). A stream is a CUDA
 * stream; nothing here waits for the GPU but sync.
 *
 * Commands go to CUDA as they are submitted. What the host wants to know later, that is when
 * events, ranges and marks were passed, is a CUDA event each, in the stream's list of points; the
 * list is read up to the first that has not been passed whenever the host waits for the stream.
 * Times are those of CUDA's events, in lk_now_ns by a base event whose time the host took. KERNEL
 * and COPY spans are not made here: two events around each kernel would disturb what they measure.
 * They come from CUPTI's records.
 *
 * A host function runs on a thread of CUDA's, in stream order, and must not call CUDA itself.
 *
 * Several threads may drive a stream each. What they share is who waits for which point, and the
 * origin of times: one lock of the device guards the points of all its streams.
 *
 * GPU by local rank. Two ranks on one GPU would time-slice it and every figure would be wrong, so
 * that has to be asked for (config.share_gpu); without, the second rank fails and names the first.
 * A lock on a file that is named by the GPU's UUID tells, since ranks may each see their GPU as
 * number 0.
 */
#include "runtime/device_cuda.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum lk_status run_op(const struct lk_op *op, const void *args, const struct lk_cuda *cuda)
{
    return op->cuda(args, cuda);
}

#define CALL(call) .call = cuda##call,
const struct lk_cuda_calls lk_cuda_calls = {LK_CUDA_CALL_LIST(CALL).blas_open = lk_cuda_blas_open,
                                            .blas_close = lk_cuda_blas_close, .init = lk_cuda_init,
                                            .fini = lk_cuda_fini, .run_op = run_op};
#undef CALL

/* ---- The device ---- */

/* As nvidia-smi writes it. */
static void uuid_text(const cudaUUID_t *uuid, char text[static 64])
{
    size_t n = (size_t)snprintf(text, 64, "GPU-");

    for (size_t i = 0; i < sizeof uuid->bytes; i++)
        n += (size_t)snprintf(text + n, 64 - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                              (unsigned)(unsigned char)uuid->bytes[i]);
}

/* CUDA's text says "insufficient" also where there is no driver at all. */
static enum lk_status count_gpus(struct cuda_device *g, int *out_n)
{
    cudaError_t e = g->call->GetDeviceCount(out_n);

    if (e == cudaErrorInsufficientDriver)
        return lk_fail_context(lk_cuda_status(e, "device cuda"),
                               "no NVIDIA driver, or one older than CUDA %d.%d",
                               CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return lk_cuda_status(e, "device cuda");
}

static enum lk_status choose_gpu(struct cuda_device *g)
{
    const struct lk_device_config *c = &g->base.config;
    struct cudaDeviceProp properties;
    enum lk_status st = LK_OK;
    int n = 0;

    LK_TRY(count_gpus(g, &n));
    if (n == 0)
        return lk_fail(LK_EUNSUPPORTED, "device cuda: this process sees no GPU");
    g->gpu = c->local_rank % n;
    LK_TRY(lk_cuda_status(g->call->GetDeviceProperties(&properties, g->gpu), "device cuda"));
    uuid_text(&properties.uuid, g->uuid);
    snprintf(g->name, sizeof g->name, "%s", properties.name);
    g->major = properties.major;
    g->minor = properties.minor;
    g->multiprocessors = properties.multiProcessorCount;
    g->memory_bytes = properties.totalGlobalMem;
    LK_TRY(lk_gpu_claim(&g->claim, g->uuid, c->local_rank, c->share_gpu));
    LK_TRY(lk_cuda_status(g->call->SetDevice(g->gpu), "device cuda"));
    LK_TRY(lk_cuda_status(g->call->DriverGetVersion(&g->driver), "version of the driver"));
    LK_TRY(lk_cuda_status(g->call->RuntimeGetVersion(&g->runtime), "version of CUDA"));
    lk_log(LK_LOG_DEVICE, LK_INFO, "local rank %d: GPU %d of %d, %s (%s)", c->local_rank, g->gpu, n,
           g->name, g->uuid);
out:
    return st;
}

static enum lk_status cuda_describe(const struct lk_device *d, struct lk_run_info *info)
{
    const struct cuda_device *g = device_of(d);
    enum lk_status st = LK_OK;
    char value[64];

    LK_TRY(lk_run_info_config(info, "gpu", g->name));
    LK_TRY(lk_run_info_config(info, "gpu_uuid", g->uuid));
    snprintf(value, sizeof value, "%d.%d", g->major, g->minor);
    LK_TRY(lk_run_info_config(info, "gpu_compute_capability", value));
    snprintf(value, sizeof value, "%d", g->multiprocessors);
    LK_TRY(lk_run_info_config(info, "gpu_multiprocessors", value));
    snprintf(value, sizeof value, "%zu", g->memory_bytes);
    LK_TRY(lk_run_info_config(info, "gpu_memory_bytes", value));
    snprintf(value, sizeof value, "%d.%d", g->driver / 1000, g->driver % 1000 / 10);
    LK_TRY(lk_run_info_config(info, "cuda_driver", value));
    snprintf(value, sizeof value, "%d.%d", g->runtime / 1000, g->runtime % 1000 / 10);
    LK_TRY(lk_run_info_config(info, "cuda_runtime", value));
out:
    return st;
}

/* The current device is a thread's own. */
static enum lk_status cuda_attach(struct lk_device *d)
{
    struct cuda_device *g = device_of(d);

    return lk_cuda_status(g->call->SetDevice(g->gpu), "device cuda");
}

static enum lk_status cuda_open(struct lk_device *d)
{
    struct cuda_device *g = device_of(d);
    enum lk_status st = LK_OK;
    int least;

    g->call = d->config.cuda_calls ? d->config.cuda_calls : &lk_cuda_calls;
    if (pthread_mutex_init(&g->points_lock, NULL))
        return lk_fail(LK_ENOMEM, "cannot make a mutex");
    g->has_lock = true;
    LK_TRY(choose_gpu(g));
    LK_TRY(lk_cuda_status(g->call->DeviceGetStreamPriorityRange(&least, &g->most_urgent),
                          "priorities of streams"));
    LK_TRY(lk_cuda_status(g->call->EventCreateWithFlags(&g->origin, cudaEventDefault),
                          "the origin of times"));
    LK_TRY(g->call->blas_open(&g->blas));
out:
    return st;
}

static void cuda_close(struct lk_device *d)
{
    struct cuda_device *g = device_of(d);

    if (g->origin)
        (void)g->call->EventDestroy(g->origin);
    if (g->blas && !g->hangs)
        g->call->blas_close(g->blas);
    /* CUDA's context takes memory of the GPU until it is destroyed or the process ends. */
    if (d->config.brief && g->runtime && !g->hangs)
        (void)g->call->DeviceReset();
    lk_gpu_claim_release(&g->claim);
    if (g->has_lock)
        pthread_mutex_destroy(&g->points_lock);
}

/* cudaMemset returns before it is done, and our streams do not wait for the one it runs on. */
static enum lk_status cuda_alloc(struct lk_device *d, size_t bytes, void **out)
{
    const struct lk_cuda_calls *call = device_of(d)->call;
    void *p = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(call->Malloc(&p, bytes), "device memory"));
    LK_TRY(lk_cuda_status(call->Memset(p, 0, bytes), "device memory"));
    LK_TRY(lk_cuda_status(call->StreamSynchronize(NULL), "device memory"));
    *out = p;
    p = NULL;
out:
    if (p)
        (void)call->Free(p);
    return lk_fail_context(st, "%zu bytes", bytes);
}

/* Where something failed, what was enqueued before may still use the memory. An error here is one
 * of that work. False: it hangs, and so would every call that frees. */
static bool wait_for_all(struct lk_device *d)
{
    cudaError_t e;

    if (device_of(d)->hangs)
        return false;
    e = device_of(d)->call->DeviceSynchronize();
    if (e != cudaSuccess)
        lk_device_fail(d, lk_cuda_status(e, "before memory is freed"), lk_error_text());
    return true;
}

static void cuda_free(struct lk_device *d, void *p)
{
    if (wait_for_all(d))
        (void)device_of(d)->call->Free(p);
}

static enum lk_status cuda_alloc_host(struct lk_device *d, size_t bytes, void **out)
{
    const struct lk_cuda_calls *call = device_of(d)->call;
    void *p = NULL;
    enum lk_status st =
        lk_cuda_status(call->HostAlloc(&p, bytes, cudaHostAllocDefault), "page-locked host memory");

    if (st != LK_OK)
        return lk_fail_context(st, "%zu bytes", bytes);
    memset(p, 0, bytes);
    *out = p;
    return LK_OK;
}

static void cuda_free_host(struct lk_device *d, void *p)
{
    if (wait_for_all(d))
        (void)device_of(d)->call->FreeHost(p);
}

static const char *cuda_lacks(const struct lk_op *op)
{
    return op->cuda ? NULL : "CUDA kernel";
}

/* ---- Points: all of this under the device's points_lock ---- */

static void look(struct cuda_stream *t);

static enum lk_status take_event(struct cuda_stream *t, cudaEvent_t *out)
{
    if (t->n_spare > 0) {
        *out = t->spare[--t->n_spare];
        return LK_OK;
    }
    return lk_cuda_status(calls_of(t)->EventCreateWithFlags(out, cudaEventDefault), "an event");
}

/* pre: no work refers to the event any more, or only by what was recorded before. */
static void give_event(struct cuda_stream *t, cudaEvent_t e)
{
    if (lk_array_grow(&t->spare, &t->spare_capacity, t->n_spare + 1, sizeof *t->spare) == LK_OK)
        t->spare[t->n_spare++] = e;
    else
        (void)calls_of(t)->EventDestroy(e);
}

/* Room for one more behind the last; those in use move to the front of the array first. */
static enum lk_status make_room(struct cuda_stream *t)
{
    if (t->first > 0 && t->first + t->n_points == t->capacity) {
        memmove(t->points, t->points + t->first, t->n_points * sizeof *t->points);
        t->first = 0;
    }
    return lk_array_grow(&t->points, &t->capacity, t->first + t->n_points + 1, sizeof *t->points);
}

static enum lk_status add_point(struct cuda_stream *t, const struct point *p)
{
    cudaEvent_t passed = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(make_room(t));
    LK_TRY(take_event(t, &passed));
    st = lk_cuda_status(calls_of(t)->EventRecord(passed, t->stream), "recording an event");
    if (st != LK_OK) {
        give_event(t, passed);
        return st;
    }
    t->points[t->first + t->n_points] = *p;
    t->points[t->first + t->n_points++].passed = passed;
out:
    return st;
}

/* A range was ready when this point of its event was passed. The event may have moved on since. */
static void set_ready(struct lk_event *e, struct point *p)
{
    p->ready_on = e->stream;
    p->ready_seq = e->seq;
    pthread_mutex_lock(&e->lock);
    if (e->stream && e->passed_stream == e->stream && e->passed_seq >= e->seq)
        p->span.ready_ns = e->passed_ns;
    pthread_mutex_unlock(&e->lock);
}

/* Tells the ranges that a point of their event was passed. */
static void tell_ranges(struct cuda_stream *t, const struct point *record, uint64_t at_ns)
{
    struct lk_device *d = t->base.device;

    pthread_mutex_lock(&d->lock);
    for (struct lk_stream *s = d->streams; s; s = s->next) {
        struct cuda_stream *u = stream_of(s);

        for (size_t i = u->first; i < u->first + u->n_points && u->n_ready > 0; i++)
            if (u->points[i].kind == LK_COMMAND_RANGE_BEGIN &&
                u->points[i].event == record->event && u->points[i].ready_on == &t->base &&
                u->points[i].ready_seq == record->seq)
                u->points[i].span.ready_ns = at_ns;
    }
    pthread_mutex_unlock(&d->lock);
}

static void begin_range(struct cuda_stream *t, struct point *p, uint64_t at_ns)
{
    struct lk_stream *s = &t->base;

    if (p->ready_on) {
        look(stream_of(p->ready_on)); /* passed before this one, which waited for it */
        t->n_ready--;
    }
    s->range = p->span;
    s->range.start_ns = at_ns;
    if (s->range.ready_ns > at_ns) /* two origins: within the accuracy of the clock */
        s->range.ready_ns = at_ns;
}

static void end_range(struct cuda_stream *t, uint64_t at_ns)
{
    struct lk_stream *s = &t->base;

    s->range.end_ns = at_ns > s->range.start_ns ? at_ns : s->range.start_ns;
    if (s->track)
        lk_span_emit(s->track, &s->range);
}

/* A point's consequences, now that its time is known. */
static void pass(struct cuda_stream *t, struct point *p, uint64_t at_ns)
{
    struct lk_stream *s = &t->base;

    if (p->kind == LK_COMMAND_RANGE_BEGIN) {
        begin_range(t, p, at_ns);
    } else if (p->kind == LK_COMMAND_RANGE_END) {
        end_range(t, at_ns);
    } else if (p->kind == LK_COMMAND_MARK) {
        p->span.start_ns = at_ns;
        p->span.end_ns = at_ns;
        if (s->track)
            lk_span_emit(s->track, &p->span);
    } else if (p->kind == LK_COMMAND_RECORD && p->event) {
        pthread_mutex_lock(&p->event->lock);
        p->event->passed_stream = s;
        p->event->passed_seq = p->seq;
        p->event->passed_ns = at_ns;
        pthread_mutex_unlock(&p->event->lock);
        tell_ranges(t, p, at_ns);
    }
}

static void drop_first(struct cuda_stream *t)
{
    struct point *p = &t->points[t->first++];

    lk_event_destroy(p->event);
    give_event(t, p->passed);
    if (--t->n_points == 0)
        t->first = 0;
}

/* Passes what the GPU has passed. An error of the GPU shows here, and is the device's. */
static void look(struct cuda_stream *t)
{
    struct cuda_device *g = device_of(t->base.device);

    while (t->n_points > 0) {
        struct point *p = &t->points[t->first];
        cudaError_t e = g->call->EventQuery(p->passed);
        float ms = 0;

        if (e == cudaErrorNotReady)
            return;
        if (e == cudaSuccess)
            e = g->call->EventElapsedTime(&ms, g->origin, p->passed);
        if (e != cudaSuccess) {
            lk_device_fail(t->base.device, lk_cuda_status(e, t->base.name), lk_error_text());
            return;
        }
        /* Negative where another stream renewed the origin since. */
        pass(t, p, g->origin_ns + (uint64_t)(int64_t)((double)ms * 1e6));
        drop_first(t);
    }
}

/* ---- Commands ---- */

struct host_call {
    struct lk_stream *s;
    lk_host_fn fn;
    _Alignas(max_align_t) unsigned char args[LK_OP_ARGS_MAX];
};

static void CUDART_CB run_host_call(void *arg)
{
    struct host_call *h = arg;

    if (!lk_device_failed(h->s->device)) {
        enum lk_status st = h->fn(h->s, h->args);

        if (st != LK_OK)
            lk_device_fail(h->s->device, st, lk_error_text());
    }
    free(h);
}

static enum lk_status submit_host(struct cuda_stream *t, const struct lk_command *c)
{
    struct host_call *h = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&h, 1, sizeof *h));
    h->s = &t->base;
    h->fn = c->fn;
    if (c->args_bytes)
        memcpy(h->args, c->args, c->args_bytes);
    LK_TRY(lk_cuda_status(calls_of(t)->LaunchHostFunc(t->stream, run_host_call, h),
                          "a host function"));
    h = NULL;
out:
    free(h);
    return st;
}

static enum lk_status submit_op(struct cuda_stream *t, const struct lk_command *c)
{
    enum lk_status st;

    lk_span_enter(t->base.track, &c->span);
    st = calls_of(t)->run_op(c->op, c->args, &t->context);
    lk_span_leave(t->base.track, &c->span);
    return st;
}

static enum lk_status submit_point(struct cuda_stream *t, const struct lk_command *c)
{
    enum { LONG = 64 };
    struct point p = {.kind = c->kind, .seq = t->submitted};
    enum lk_status st;

    p.span = c->span;
    if (c->kind == LK_COMMAND_RECORD || c->kind == LK_COMMAND_RANGE_BEGIN)
        p.event = c->event;
    if (c->kind == LK_COMMAND_RANGE_BEGIN) {
        t->issuing = c->span;
        lk_span_enter(t->base.track, &t->issuing);
    } else if (c->kind == LK_COMMAND_RANGE_END) {
        lk_span_leave(t->base.track, &t->issuing);
    }
    lock_points(t);
    /* Nobody may ever wait for this stream. */
    if (t->n_points >= LONG)
        look(t);
    if (c->kind == LK_COMMAND_RANGE_BEGIN && p.event)
        set_ready(p.event, &p);
    st = add_point(t, &p);
    t->n_ready += st == LK_OK && p.ready_on;
    unlock_points(t);
    return st;
}

static enum lk_status submit_copy(struct cuda_stream *t, const struct lk_command *c)
{
    const struct lk_span span = {.step = c->span.step, .index = -1, .kind = LK_SPAN_COPY};
    cudaError_t e;

    if (c->copy.bytes == 0)
        return LK_OK;
    lk_span_enter(t->base.track, &span);
    e = calls_of(t)->MemcpyAsync(c->copy.to, c->copy.from, c->copy.bytes, cudaMemcpyDefault,
                                 t->stream);
    lk_span_leave(t->base.track, &span);
    return lk_cuda_status(e, "a copy");
}

/* A point that is no longer in the list was passed. Waiting for a point of the graph that is being
 * made puts the stream into it, too. */
static enum lk_status submit_wait(struct cuda_stream *t, const struct lk_command *c)
{
    struct cuda_stream *on = stream_of(c->on);
    cudaEvent_t event;
    enum lk_status st = LK_OK;

    lock_points(t);
    event = lk_cuda_graph_event(on, c->seq);
    if (event)
        t->capturing = true;
    for (size_t i = on->first; i < on->first + on->n_points && !event; i++)
        if (on->points[i].seq == c->seq)
            event = on->points[i].passed;
    if (event)
        LK_TRY(lk_cuda_status(calls_of(t)->StreamWaitEvent(t->stream, event, 0), "a wait"));
    lk_event_destroy(c->event);
out:
    unlock_points(t);
    return st;
}

static enum lk_status drop(struct cuda_stream *t, const struct lk_command *c)
{
    (void)t;
    lk_command_drop(c);
    return LK_OK;
}

static enum lk_status (*const submit_table[LK_COMMAND_COUNT])(struct cuda_stream *,
                                                              const struct lk_command *) = {
    [LK_COMMAND_OP] = submit_op,
    [LK_COMMAND_HOST] = submit_host,
    [LK_COMMAND_RANGE_BEGIN] = submit_point,
    [LK_COMMAND_RANGE_END] = submit_point,
    [LK_COMMAND_MARK] = submit_point,
    [LK_COMMAND_COPY] = submit_copy,
    [LK_COMMAND_RECORD] = submit_point,
    [LK_COMMAND_WAIT] = submit_wait,
};

/* While a graph is made. Its times are not known: ranges and marks are left out. */
static enum lk_status (*const capture_table[LK_COMMAND_COUNT])(struct cuda_stream *,
                                                               const struct lk_command *) = {
    [LK_COMMAND_OP] = submit_op,
    [LK_COMMAND_HOST] = lk_cuda_graph_refuse,
    [LK_COMMAND_RANGE_BEGIN] = drop,
    [LK_COMMAND_RANGE_END] = drop,
    [LK_COMMAND_MARK] = drop,
    [LK_COMMAND_COPY] = submit_copy,
    [LK_COMMAND_RECORD] = lk_cuda_graph_record,
    [LK_COMMAND_WAIT] = submit_wait,
};

static enum lk_status cuda_submit(struct lk_stream *s, const struct lk_command *c,
                                  uint64_t *out_seq)
{
    struct cuda_stream *t = stream_of(s);
    enum lk_status st;

    t->submitted++;
    st = (t->capturing ? capture_table : submit_table)[c->kind](t, c);
    if (st == LK_OK)
        *out_seq = t->submitted;
    return st;
}

/* ---- Waiting ---- */

static uint64_t hang_ns(const struct cuda_device *g)
{
    return g->base.config.hang_ns ? g->base.config.hang_ns : 10 * LK_NS_PER_S;
}

/* Takes the origin anew. pre: the stream is idle, so that the host looks at the clock when the GPU
 * has just passed it. *out_ns: how long all that took. */
static enum lk_status take_origin(struct cuda_stream *t, struct lk_deadline deadline,
                                  uint64_t *out_ns)
{
    struct cuda_device *g = device_of(t->base.device);
    uint64_t began_ns = lk_now_ns();
    enum lk_status st = LK_OK;
    cudaError_t e;

    LK_TRY(lk_cuda_status(g->call->EventRecord(g->origin, t->stream), "recording an event"));
    while ((e = g->call->EventQuery(g->origin)) == cudaErrorNotReady)
        if (lk_deadline_left_ns(deadline) == 0)
            return lk_fail(LK_ETIMEOUT, "stream '%s' did not finish in time, though it was idle",
                           t->base.name);
    LK_TRY(lk_cuda_status(e, "synchronising"));
    g->origin_ns = lk_now_ns();
    *out_ns = g->origin_ns - began_ns;
out:
    return st;
}

/* Times are floats of milliseconds since the origin, and two clocks drift apart: it must not be
 * long ago. Nor may the host have been held up beside it, or all times until the next are off. */
static enum lk_status refresh_origin(struct cuda_stream *t)
{
    enum { TRIES = 5 };
    const uint64_t too_old_ns = LK_NS_PER_S, close_ns = 30 * LK_NS_PER_US;
    struct cuda_device *g = device_of(t->base.device);
    struct lk_deadline deadline = lk_deadline_in(hang_ns(g));
    enum lk_status st = LK_OK;
    uint64_t ns = UINT64_MAX;

    lock_points(t);
    if (g->origin_ns > 0 && lk_now_ns() - g->origin_ns < too_old_ns)
        goto out;
    for (int i = 0; i < TRIES && ns > close_ns; i++)
        LK_TRY(take_origin(t, deadline, &ns));
out:
    unlock_points(t);
    return st;
}

/* Whether the stream's points up to `seq` were passed, as far as the GPU says. */
static bool was_passed(struct cuda_stream *t, uint64_t seq, size_t *out_left)
{
    bool passed;

    lock_points(t);
    look(t);
    passed = t->n_points == 0 || t->points[t->first].seq > seq;
    *out_left = t->n_points;
    unlock_points(t);
    return passed;
}

static enum lk_status add_last_point(struct cuda_stream *t)
{
    const struct point p = {.kind = LK_COMMAND_RECORD, .seq = ++t->submitted};
    enum lk_status st;

    lock_points(t);
    st = add_point(t, &p);
    unlock_points(t);
    return st;
}

static enum lk_status cuda_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline)
{
    enum { FIRST_NAP_NS = 2000, LONGEST_NAP_NS = 20000 }; /* the GPU idles until we wake up */
    struct cuda_stream *t = stream_of(s);
    uint64_t rest_ns = FIRST_NAP_NS;
    bool all = seq == UINT64_MAX;
    enum lk_status st = LK_OK;
    size_t left;

    if (!s->open || lk_device_failed(s->device))
        return LK_OK;
    if (t->capturing)
        return lk_fail(LK_EINTERNAL, "a wait for stream '%s', whose work goes into a graph",
                       s->name);
    if (all) {
        LK_TRY(add_last_point(t));
        seq = t->submitted;
    }
    while (!was_passed(t, seq, &left)) {
        if (lk_device_failed(s->device))
            return LK_OK;
        if (lk_deadline_left_ns(deadline) == 0)
            return lk_fail(LK_ETIMEOUT, "stream '%s' did not finish in time: %zu points are left",
                           s->name, left);
        lk_nap_ns(rest_ns);
        rest_ns = rest_ns < LONGEST_NAP_NS / 2 ? 2 * rest_ns : LONGEST_NAP_NS;
    }
    if (all && !lk_device_failed(s->device))
        LK_TRY(refresh_origin(t));
out:
    return st;
}

/* ---- Streams ---- */

static void release(struct cuda_stream *t)
{
    const struct lk_cuda_calls *call = calls_of(t);

    lock_points(t);
    while (t->n_points > 0)
        drop_first(t);
    while (t->n_spare > 0)
        (void)call->EventDestroy(t->spare[--t->n_spare]);
    if (t->context.workspace && !device_of(t->base.device)->hangs)
        call->fini(&t->context);
    if (t->stream)
        (void)call->StreamDestroy(t->stream);
    free(t->points);
    free(t->spare);
    free(t->captured);
    t->points = NULL;
    t->spare = NULL;
    t->captured = NULL;
    unlock_points(t);
}

static enum lk_status cuda_stream_open(struct lk_stream *s)
{
    struct cuda_stream *t = stream_of(s);
    struct cuda_device *g = device_of(s->device);
    int priority = s->kind == LK_TRACK_COMM ? g->most_urgent : 0;
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(
        g->call->StreamCreateWithPriority(&t->stream, cudaStreamNonBlocking, priority), s->name));
    LK_TRY(g->call->init(&t->context, t->stream, g->base.real, g->blas));
    LK_TRY(refresh_origin(t));
    lk_cuda_name_stream(t->stream, s->name);
out:
    if (st != LK_OK)
        release(t);
    return st;
}

/* Whether all that was given to CUDA has ended: it cannot be taken back. An error ends it, too. */
static bool has_ended(struct cuda_stream *t)
{
    struct lk_deadline deadline = lk_deadline_in(hang_ns(device_of(t->base.device)));

    while (calls_of(t)->StreamQuery(t->stream) == cudaErrorNotReady) {
        if (lk_deadline_left_ns(deadline) == 0)
            return false;
        lk_nap_ns(LK_NS_PER_US * 20);
    }
    return true;
}

static void cuda_stream_close(struct lk_stream *s)
{
    struct cuda_device *g = device_of(s->device);
    struct cuda_stream *t = stream_of(s);
    size_t left;

    lk_cuda_graph_abandon(g);
    if (!g->hangs && !has_ended(t)) {
        g->hangs = true;
        lk_log(LK_LOG_DEVICE, LK_ERROR, "stream '%s' hangs: memory of the GPU is left behind",
               s->name);
    }
    (void)was_passed(t, UINT64_MAX, &left);
    release(t);
}

static void *cuda_native(struct lk_stream *s)
{
    return stream_of(s)->stream;
}

const struct lk_device_ops lk_device_cuda = {
    .name = "cuda",
    .properties = lk_cuda_properties,
    .count = lk_cuda_count,
    .help = "float32 on a GPU with matrix products in tf32, or bfloat16",
    .real = LK_F32,
    .has_bf16 = true,
    .unit_roundoff = 0x1p-11,
    .device_bytes = sizeof(struct cuda_device),
    .stream_bytes = sizeof(struct cuda_stream),
    .keeps_log_sum = true,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .attach = cuda_attach,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .lacks = cuda_lacks,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .submit = cuda_submit,
    .sync = cuda_sync,
    .native = cuda_native,
    .graph_begin = lk_cuda_graph_begin,
    .graph_end = lk_cuda_graph_end,
    .graph_launch = lk_cuda_graph_launch,
    .graph_destroy = lk_cuda_graph_destroy,
};
