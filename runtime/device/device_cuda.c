/*
 * The device cuda: ops in float on a GPU, products in tf32 (kernels/cuda.h). A stream is a CUDA
 * stream; nothing here waits for the GPU but sync.
 *
 * Commands go to CUDA as they are submitted. Each event, range and mark whose time the host needs
 * later is a point: a CUDA event in the stream's list of points. Whenever the host waits for the
 * stream, it reads the list up to the first point that the GPU has not passed. Times are those of
 * CUDA events, converted to lk_now_ns by an origin event whose time the host took. KERNEL and COPY
 * spans are not made here, because two events around each kernel would disturb the measurement;
 * they come from CUPTI's records, as do times of gradients where these are complete.
 *
 * A host function runs on a thread of CUDA's, in stream order, and must not call CUDA itself.
 *
 * Several threads may drive a stream each. They share the ranges that wait for a point's time, and
 * the origin of times: one lock of the device guards the points of all its streams.
 *
 * A rank takes the GPU of its local rank. Two ranks on one GPU would time-slice it and every figure
 * would be wrong, so that has to be asked for (config.share_gpu); otherwise the second rank fails
 * and names the first. A lock on a file named by the GPU's UUID detects it, since ranks may each
 * see their GPU as number 0.
 */
#include "runtime/device/device_cuda.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "facts/trace.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LK_HAVE_NVTX
#include <nvtx3/nvToolsExtCudaRt.h>
#endif

static enum lk_status run_op(const struct lk_op *op, const void *args, const struct lk_cuda *cuda)
{
    if (!op->cuda)
        return lk_fail(LK_EUNSUPPORTED, "%s has no implementation on the device cuda", op->name);
    return op->cuda(args, cuda);
}

static uint64_t now_ns(void)
{
    return lk_now_ns();
}

#define CALL(call) .call = cuda##call,
const struct lk_cuda_calls lk_cuda_calls = {LK_CUDA_CALL_LIST(CALL).blas_open = lk_cuda_blas_open,
                                            .blas_close = lk_cuda_blas_close,
                                            .dnn_open = lk_cuda_dnn_open,
                                            .dnn_close = lk_cuda_dnn_close,
                                            .dnn_choose = lk_cuda_dnn_choose,
                                            .dnn_ask = lk_cuda_dnn_ask,
                                            .init = lk_cuda_init,
                                            .fini = lk_cuda_fini,
                                            .run_op = run_op,
                                            .now_ns = now_ns};
#undef CALL

/* ---- The device ---- */

/* Write a UUID as nvidia-smi does. */
static void uuid_text(const cudaUUID_t *uuid, char text[static 64])
{
    size_t n = (size_t)snprintf(text, 64, "GPU-");

    for (size_t i = 0; i < sizeof uuid->bytes; i++)
        n += (size_t)snprintf(text + n, 64 - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                              (unsigned)(unsigned char)uuid->bytes[i]);
}

/* Count the GPUs. The error names both cases, because CUDA also calls a missing driver
 * "insufficient". */
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
    int n = 0;

    LK_PASS(count_gpus(g, &n));
    if (n == 0)
        return lk_fail(LK_EUNSUPPORTED, "device cuda: this process sees no GPU");
    g->gpu = c->local_rank % n;
    LK_PASS(lk_cuda_status(g->call->GetDeviceProperties(&properties, g->gpu), "device cuda"));
    uuid_text(&properties.uuid, g->uuid);
    snprintf(g->name, sizeof g->name, "%s", properties.name);
    g->major = properties.major;
    g->minor = properties.minor;
    g->multiprocessors = properties.multiProcessorCount;
    g->memory_bytes = properties.totalGlobalMem;
    LK_PASS(lk_gpu_claim(&g->claim, g->uuid, c->local_rank, c->share_gpu));
    LK_PASS(lk_cuda_status(g->call->SetDevice(g->gpu), "device cuda"));
    LK_PASS(lk_cuda_status(g->call->DriverGetVersion(&g->driver), "version of the driver"));
    LK_PASS(lk_cuda_status(g->call->RuntimeGetVersion(&g->runtime), "version of CUDA"));
    lk_log(LK_LOG_DEVICE, LK_INFO, "local rank %d: GPU %d of %d, %s (%s)", c->local_rank, g->gpu, n,
           g->name, g->uuid);
    return LK_OK;
}

static enum lk_status cuda_describe(const struct lk_device *d, struct lk_run_info *info)
{
    const struct cuda_device *g = device_of(d);
    char value[64];

    LK_PASS(lk_run_info_config(info, "gpu", g->name));
    LK_PASS(lk_run_info_config(info, "gpu_uuid", g->uuid));
    snprintf(value, sizeof value, "%d.%d", g->major, g->minor);
    LK_PASS(lk_run_info_config(info, "gpu_compute_capability", value));
    snprintf(value, sizeof value, "%d", g->multiprocessors);
    LK_PASS(lk_run_info_config(info, "gpu_multiprocessors", value));
    snprintf(value, sizeof value, "%zu", g->memory_bytes);
    LK_PASS(lk_run_info_config(info, "gpu_memory_bytes", value));
    snprintf(value, sizeof value, "%d.%d", g->driver / 1000, g->driver % 1000 / 10);
    LK_PASS(lk_run_info_config(info, "cuda_driver", value));
    snprintf(value, sizeof value, "%d.%d", g->runtime / 1000, g->runtime % 1000 / 10);
    return lk_run_info_config(info, "cuda_runtime", value);
}

static enum lk_status cuda_attention(const struct lk_device *d,
                                     const struct lk_attention_shape *shape, bool ask,
                                     char text[LK_ATTENTION_TEXT])
{
    const struct cuda_device *g = device_of(d);
    bool taken;

    if (g->dnn)
        return ask ? g->call->dnn_ask(g->dnn, d->real, shape, text)
                   : g->call->dnn_choose(g->dnn, d->real, shape, &taken, text);
    (void)snprintf(text, LK_ATTENTION_TEXT, "own");
    return LK_OK;
}

/* Set the calling thread's current device, which CUDA keeps per thread. */
static enum lk_status cuda_attach(struct lk_device *d)
{
    struct cuda_device *g = device_of(d);

    return lk_cuda_status(g->call->SetDevice(g->gpu), "device cuda");
}

static enum lk_status cuda_open(struct lk_device *d)
{
    struct cuda_device *g = device_of(d);

    g->call = d->config.cuda_calls ? d->config.cuda_calls : &lk_cuda_calls;
    if (pthread_mutex_init(&g->points_lock, NULL))
        return lk_fail(LK_ENOMEM, "cannot make a mutex");
    g->has_lock = true;
    LK_PASS(choose_gpu(g));
    LK_PASS(lk_cuda_status(g->call->DeviceGetStreamPriorityRange(&g->least_urgent, &g->most_urgent),
                           "priorities of streams"));
    LK_PASS(lk_cuda_origin_init(g));
    LK_PASS(g->call->blas_open(&g->blas));
    return d->config.attention == LK_ATTENTION_OWN
               ? LK_OK
               : g->call->dnn_open(d->config.attention, d->config.deterministic, &g->dnn);
}

static void cuda_close(struct lk_device *d)
{
    struct cuda_device *g = device_of(d);

    if (!g->hangs)
        lk_cuda_origin_fini(g);
    if (g->blas && !g->hangs)
        g->call->blas_close(g->blas);
    if (g->dnn && !g->hangs)
        g->call->dnn_close(g->dnn);
    /* The CUDA context occupies GPU memory until it is destroyed or the process ends. */
    if (d->config.brief && g->runtime && !g->hangs)
        (void)g->call->DeviceReset();
    lk_gpu_claim_release(&g->claim);
    if (g->has_lock)
        pthread_mutex_destroy(&g->points_lock);
}

/*
 * Clear memory as work of any track's, so that CUPTI's record of the memset is not one of work that
 * nobody issued. Wait for it: cudaMemset is asynchronous, on a stream that ours do not wait for.
 */
static enum lk_status clear(struct lk_device *d, void *p, size_t bytes)
{
    const struct lk_cuda_calls *call = device_of(d)->call;
    struct lk_span span = {.kind = LK_SPAN_MEMSET, .index = -1};
    struct lk_track *track = NULL;
    cudaError_t e;

    pthread_mutex_lock(&d->lock);
    for (const struct lk_stream *s = d->streams; s && !track; s = s->next) {
        track = s->track;
        span.step = s->step;
    }
    pthread_mutex_unlock(&d->lock);
    lk_span_enter(track, &span);
    e = call->Memset(p, 0, bytes);
    lk_span_leave(track, &span);
    LK_PASS(lk_cuda_status(e, "device memory"));
    return lk_cuda_status(call->StreamSynchronize(NULL), "device memory");
}

static enum lk_status cuda_alloc(struct lk_device *d, size_t bytes, void **out)
{
    const struct lk_cuda_calls *call = device_of(d)->call;
    void *p = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(call->Malloc(&p, bytes), "device memory"));
    LK_TRY(clear(d, p, bytes));
    LK_HAND_OVER(out, p);
out:
    if (p)
        (void)call->Free(p);
    return lk_fail_context(st, "%zu bytes", bytes);
}

/*
 * Wait until no work uses memory that is about to be freed; after a failure, earlier work may still
 * run. An error here belongs to that work. Return false if the GPU hangs: a call that frees would
 * hang, too.
 */
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

static enum lk_status submit_host(struct cuda_stream *t, const struct lk_stream_command *c)
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

static enum lk_status submit_op(struct cuda_stream *t, const struct lk_stream_command *c)
{
    enum lk_status st;

    lk_span_enter(t->base.track, &c->span);
    st = calls_of(t)->run_op(c->op, c->args, &t->context);
    lk_span_leave(t->base.track, &c->span);
    return st;
}

static enum lk_status submit_copy(struct cuda_stream *t, const struct lk_stream_command *c)
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

/* Submit a wait. A point that is no longer in the list was passed already. Waiting for an event of
 * the graph being captured makes this stream part of the capture. */
static enum lk_status submit_wait(struct cuda_stream *t, const struct lk_stream_command *c)
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

static enum lk_status drop(struct cuda_stream *t, const struct lk_stream_command *c)
{
    (void)t;
    lk_command_drop(c);
    return LK_OK;
}

/* Drop spans of a stream without a track: their events would be wasted work for host and GPU. */
static enum lk_status submit_span(struct cuda_stream *t, const struct lk_stream_command *c)
{
    return t->base.track ? lk_cuda_point_submit(t, c) : drop(t, c);
}

/* Leave a mark behind an op to CUPTI's records, which have the times of its kernels: a CUDA event
 * would cost the GPU time between two kernels. */
static enum lk_status submit_mark(struct cuda_stream *t, const struct lk_stream_command *c)
{
    if (t->behind_op && lk_span_mark(t->base.track, &c->span))
        return LK_OK;
    return submit_span(t, c);
}

static enum lk_status (*const submit_table[LK_COMMAND_COUNT])(struct cuda_stream *,
                                                              const struct lk_stream_command *) = {
    [LK_COMMAND_OP] = submit_op,
    [LK_COMMAND_HOST] = submit_host,
    [LK_COMMAND_RANGE_BEGIN] = submit_span,
    [LK_COMMAND_RANGE_END] = submit_span,
    [LK_COMMAND_MARK] = submit_mark,
    [LK_COMMAND_COPY] = submit_copy,
    [LK_COMMAND_RECORD] = lk_cuda_point_submit,
    [LK_COMMAND_WAIT] = submit_wait,
};

/* Submit functions during capture. Times inside a graph are unknown: ranges and marks are
 * dropped. */
static enum lk_status (*const capture_table[LK_COMMAND_COUNT])(struct cuda_stream *,
                                                               const struct lk_stream_command *) = {
    [LK_COMMAND_OP] = submit_op,
    [LK_COMMAND_HOST] = lk_cuda_graph_refuse,
    [LK_COMMAND_RANGE_BEGIN] = drop,
    [LK_COMMAND_RANGE_END] = drop,
    [LK_COMMAND_MARK] = drop,
    [LK_COMMAND_COPY] = submit_copy,
    [LK_COMMAND_RECORD] = lk_cuda_graph_record,
    [LK_COMMAND_WAIT] = submit_wait,
};

/* Commands that the GPU spends time on; the others are passed. */
static const bool is_work[LK_COMMAND_COUNT] = {[LK_COMMAND_OP] = true,
                                               [LK_COMMAND_HOST] = true,
                                               [LK_COMMAND_COPY] = true,
                                               [LK_COMMAND_WAIT] = true};

static enum lk_status cuda_submit(struct lk_stream *s, const struct lk_stream_command *c,
                                  uint64_t *out_seq)
{
    struct cuda_stream *t = stream_of(s);
    enum lk_status st;

    t->submitted++;
    if (is_work[c->kind]) {
        t->at_point = false;
        t->behind_op = c->kind == LK_COMMAND_OP;
    }
    st = (t->capturing ? capture_table : submit_table)[c->kind](t, c);
    if (st == LK_OK)
        *out_seq = t->submitted;
    return st;
}

/* ---- Waiting ---- */

/* Nap for a thousandth of the time waited since began_ns, at first for 2 to 20 us and at last for 1
 * ms: the GPU idles until we wake up. */
static void nap(uint64_t began_ns)
{
    const double waited_ns = (double)(lk_monotonic_ns() - began_ns);
    const double first_ns = fmin(20e3, fmax(2e3, waited_ns / 10));

    lk_nap_ns((uint64_t)fmax(first_ns, fmin(1e6, waited_ns / 1000)));
}

static enum lk_status cuda_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline)
{
    struct cuda_stream *t = stream_of(s);
    const uint64_t began_ns = lk_monotonic_ns();
    bool all = seq == UINT64_MAX;
    size_t left;

    if (!s->open || lk_device_failed(s->device))
        return LK_OK;
    if (t->capturing)
        return lk_fail(LK_EINTERNAL, "a wait for stream '%s', whose work goes into a graph",
                       s->name);
    if (all) {
        LK_PASS(lk_cuda_point_add_last(t));
        seq = t->submitted;
    }
    while (!lk_cuda_was_passed(t, seq, &left)) {
        if (lk_device_failed(s->device))
            return LK_OK;
        if (lk_deadline_left_ns(deadline) == 0)
            return lk_fail(LK_ETIMEOUT, "stream '%s' did not finish in time: %zu points are left",
                           s->name, left);
        nap(began_ns);
    }
    if (all && !lk_device_failed(s->device))
        LK_PASS(lk_cuda_refresh_origin(t));
    return LK_OK;
}

/* ---- Streams ---- */

/* Release a stream's resources. With a GPU that hangs, destroy nothing: destroying events and
 * streams should return at once then, but has been seen not to (pytorch#97066, #122732). */
static void release(struct cuda_stream *t)
{
    const struct lk_cuda_calls *call = calls_of(t);
    bool hangs = device_of(t->base.device)->hangs;

    lk_cuda_points_fini(t);
    if (t->context.workspace && !hangs)
        call->fini(&t->context);
    if (t->stream && !hangs)
        (void)call->StreamDestroy(t->stream);
    free(t->captured);
    t->captured = NULL;
}

/* Name a stream for tools (NVTX): Nsight Systems shows the name beside the stream's number. */
static void name_stream(cudaStream_t stream, const char *name)
{
#ifdef LK_HAVE_NVTX
    nvtxNameCudaStreamA(stream, name);
#else
    (void)stream;
    (void)name;
#endif
}

static enum lk_status cuda_stream_open(struct lk_stream *s)
{
    struct cuda_stream *t = stream_of(s);
    struct cuda_device *g = device_of(s->device);
    int priority = lk_cuda_priority(g, s->kind);
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(
        g->call->StreamCreateWithPriority(&t->stream, cudaStreamNonBlocking, priority), s->name));
    LK_TRY(g->call->init(&t->context, t->stream, g->base.real, g->blas));
    t->context.dnn = g->dnn;
    LK_TRY(lk_cuda_refresh_origin(t));
    name_stream(t->stream, s->name);
out:
    g->hangs = g->hangs || st == LK_ETIMEOUT;
    if (st != LK_OK)
        release(t);
    return st;
}

/* Wait until the stream's work has ended, which cannot be cancelled; an error ends it, too. Return
 * false if it hangs. */
static bool has_ended(struct cuda_stream *t)
{
    struct lk_deadline deadline = lk_deadline_in(lk_cuda_hang_ns(device_of(t->base.device)));
    const uint64_t began_ns = lk_monotonic_ns();

    while (calls_of(t)->StreamQuery(t->stream) == cudaErrorNotReady) {
        if (lk_deadline_left_ns(deadline) == 0)
            return false;
        nap(began_ns);
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
    (void)lk_cuda_was_passed(t, UINT64_MAX, &left);
    release(t);
}

/* Return CUDA's handle of the stream. The caller may put work there, so the last point is no longer
 * current, nor is the last op. */
static void *cuda_native(struct lk_stream *s)
{
    stream_of(s)->at_point = stream_of(s)->behind_op = false;
    return stream_of(s)->stream;
}

const struct lk_device_ops lk_device_cuda = {
    .name = "cuda",
    .properties = lk_cuda_properties,
    .count = lk_cuda_count,
    .help = "float32 on a GPU with matrix products in tf32, or bfloat16 or float16",
    .real = LK_F32,
    .reals = 1U << LK_BF16 | 1U << LK_F16,
    .unit_roundoff = 0x1p-10, /* tensor cores truncate floats to tf32 */
    .device_bytes = sizeof(struct cuda_device),
    .stream_bytes = sizeof(struct cuda_stream),
    .keeps_log_sum = true,
    .fuses = true,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .attention = cuda_attention,
    .clock_error_ns = lk_cuda_clock_error_ns,
    .attach = cuda_attach,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .needs = LK_OP_CUDA,
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
