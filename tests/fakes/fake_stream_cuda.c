/* Streams of the fake machine, and the progress of work on them. */
#include "tests/fakes/fake_machine_cuda.h"

#include "base/array.h"
#include "base/clock.h"
#include "tests/fakes/fake_graph_cuda.h"
#include "tests/fakes/fake_ops.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Return the host's clock, ms, which events have unless a model of time is at work. */
static double clock_ms(void)
{
    return (double)lk_now_ns() / 1e6;
}

static void run_work(const struct fake_work *w)
{
    const struct fake_ops_config config = {
        .real = w->real, .tf32 = fake_cuda.tf32, .check = fake_cuda_check_device};

    if (w->kind == WORK_RUN)
        fake_run_host(w->fn, w->arg);
    if (w->kind == WORK_OP && !fake_cuda.idle) {
        fake_work_begin();
        fake_ops_run(w->op, w->arg, &config);
        fake_cuda_close();
    }
    if (w->kind == WORK_COPY && !fake_cuda.idle) {
        fake_work_begin();
        fake_check_any(w->to, w->bytes);
        fake_check_any(w->from, w->bytes);
        memmove(w->to, w->from, w->bytes);
        fake_cuda_close();
    }
    if (w->kind == WORK_SET && !fake_cuda.idle) {
        fake_work_begin();
        fake_cuda_check_device(w->to, w->bytes);
        memset(w->to, w->value, w->bytes);
        fake_cuda_close();
    }
    if (w->kind == WORK_RECORD) {
        w->event->passed = w->number;
        if (!fake_cuda.takes_ms)
            w->event->ms = clock_ms();
    }
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Return true for work whose call a profiler sees. */
static bool is_seen(const struct fake_work *w)
{
    return w->kind == WORK_OP || w->kind == WORK_COPY || w->kind == WORK_SET ||
           w->kind == WORK_GRAPH;
}

/* Run work that begins now; with a model of time, its time has passed. Tell whoever wants to know.
 * launch: of the graph whose node it is, or NULL. */
static void run(struct fake_stream *s, const struct fake_work *w, double begins_ms,
                const struct fake_work *launch)
{
    const double gap_ms = 1e-3, shortest_ms = 5e-3; /* more than the error of reading two clocks */
    struct fake_work seen = *w;
    uint64_t zero_ns = fake_cuda.takes_ms && !fake_cuda.real_time ? fake_cuda.reset_ns : 0;

    if (!fake_cuda.takes_ms)
        begins_ms = later(clock_ms(), s->ms + gap_ms);
    run_work(w);
    if (!fake_cuda.takes_ms)
        s->ms = later(clock_ms(), begins_ms + shortest_ms);
    if (launch)
        seen.launch = launch->call;
    if (fake_cuda.ran && is_seen(w) && w->kind != WORK_GRAPH)
        fake_cuda.ran(&seen, (cudaStream_t)s, zero_ns + (uint64_t)(begins_ms * 1e6),
                      zero_ns + (uint64_t)(s->ms * 1e6));
}

struct host_call {
    struct fake_stream *stream;
    struct fake_work work;
};

static void *host_thread(void *arg)
{
    struct host_call *h = arg;

    h->work.fn(h->work.arg);
    fake_lock();
    h->stream->busy = false;
    h->stream->done++;
    fake_unlock();
    free(h);
    return NULL;
}

static void start_host_thread(struct fake_stream *s, const struct fake_work *w)
{
    struct host_call *h = malloc(sizeof *h);
    pthread_t thread;

    ck_assert_ptr_nonnull(h);
    *h = (struct host_call){s, *w};
    s->busy = true;
    ck_assert_int_eq(pthread_create(&thread, NULL, host_thread, h), 0);
    pthread_detach(thread);
}

static bool polled(const struct fake_work *w)
{
    bool done;

    fake_work_begin();
    done = w->poll(w->arg);
    fake_cuda_close();
    return done;
}

/* Run one node of the graph that the stream's next work launches; false if none was left. */
static bool step_graph(struct fake_stream *s, const struct fake_work *launch)
{
    struct fake_graph *g = launch->graph;
    bool first = !s->ran;
    const struct fake_node *node = fake_graph_next(g, s);
    _Alignas(max_align_t) char args[LK_OP_ARGS_MAX];
    double begins_ms;
    struct fake_work w;

    if (!node)
        return false;
    if (node->work.kind == WORK_POLL && !polled(&node->work))
        s->ran[node - g->nodes] = false;
    w = node->work;
    if (w.kind == WORK_OP) {
        memcpy(args, w.arg, w.op->args_bytes); /* a run may change them */
        w.arg = args;
    }
    if (w.kind == WORK_RECORD) /* a captured record has no event of its own */
        return true;
    if (first)
        s->ms = later(s->ms, launch->queued_ms);
    begins_ms = s->ms;
    if (fake_cuda.takes_ms)
        s->ms += fake_cuda.takes_ms(&w, s);
    run(s, &w, begins_ms, launch);
    return true;
}

void fake_saw(double ms)
{
    fake_cuda.seen_ms = later(fake_cuda.seen_ms, ms);
}

/* Advance the model's time before the work runs; false if that time is still to come. */
static bool pass_time(struct fake_stream *s, const struct fake_work *w)
{
    if (!fake_cuda.takes_ms)
        return true;
    if (!s->began) {
        s->ms = later(s->ms, w->queued_ms);
        if (w->kind == WORK_WAIT)
            s->ms = later(s->ms, w->event->ms);
        s->begins_ms = s->ms;
        s->ends_ms = s->ms + fake_cuda.takes_ms(w, s);
        s->began = true;
    }
    if (fake_cuda.real_time && clock_ms() < s->ends_ms)
        return false;
    s->began = false;
    s->ms = s->ends_ms;
    if (w->kind == WORK_RECORD)
        w->event->ms = s->ms;
    return true;
}

static bool step(struct fake_stream *s)
{
    struct fake_work w;

    if (s->done == s->n || s->busy || fake_cuda.stuck)
        return false;
    w = s->work[s->done];
    if (w.kind == WORK_GRAPH && !s->began && step_graph(s, &w))
        return true;
    if (w.kind == WORK_WAIT && w.event->passed < w.number)
        return false;
    if (w.kind == WORK_POLL && !polled(&w))
        return false;
    if (w.kind == WORK_RUN && fake_cuda.host_threads) {
        start_host_thread(s, &w);
        return false;
    }
    if (!pass_time(s, &w))
        return false;
    s->done++;
    run(s, &w, s->begins_ms, NULL);
    if (w.kind == WORK_OP)
        free(w.arg);
    if (w.kind == WORK_GRAPH)
        fake_graph_release(w.graph);
    return true;
}

void fake_cuda_step(void)
{
    static const size_t bursts[] = {1, 1, 1, 2, 5, 40};
    bool again;

    fake_step_begin();
    if (fake_cuda.seed && fake_cuda.n_streams > 0) {
        struct fake_stream *s = &fake_cuda.streams[fake_draw(fake_cuda.n_streams)];

        for (size_t n = bursts[fake_draw(LK_COUNT(bursts))]; n > 0 && step(s); n--)
            ;
    }
    /* The last stream first: without waits, later submissions would run earlier. */
    do {
        again = false;
        for (size_t i = fake_cuda.n_streams; i > 0 && !fake_cuda.seed; i--)
            again |= step(&fake_cuda.streams[i - 1]);
    } while (again && fake_cuda.takes_ms); /* its time does not depend on when events are queried */
    fake_step_end();
}

cudaError_t fake_put(struct fake_stream *f, const struct fake_work *w, size_t other)
{
    struct fake_work put = *w;

    ck_assert_msg(!f->destroyed, "work for a destroyed stream");
    if (f->capture && f->capture->spoilt)
        return cudaErrorStreamCaptureInvalidated;
    if (fake_cuda.called && is_seen(w))
        put.call = fake_cuda.called(w);
    if (f->capture) {
        fake_graph_add(f->capture, f, &put, other);
        return cudaSuccess;
    }
    put.queued_ms = fake_cuda.real_time ? clock_ms() : fake_cuda.seen_ms;
    if (f->done == f->n)
        f->done = f->n = 0;
    ck_assert_uint_lt(f->n, FAKE_WORK_MAX);
    f->work[f->n++] = put;
    return cudaSuccess;
}

cudaError_t fake_enqueue(cudaStream_t s, struct fake_work w)
{
    cudaError_t e;

    ck_assert_ptr_nonnull(s);
    fake_lock();
    e = fake_put((struct fake_stream *)s, &w, FAKE_NO_NODE);
    fake_unlock();
    return e;
}

cudaError_t fake_cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_CALLED();
    *least = 0;
    *greatest = fake_cuda.most_urgent;
    return cudaSuccess;
}

/* Return a stream that never was, or else one that is no more. */
static struct fake_stream *free_stream(void)
{
    struct fake_stream *f = fake_cuda.streams;

    if (fake_cuda.n_streams < FAKE_STREAMS_MAX)
        return &fake_cuda.streams[fake_cuda.n_streams++];
    while (f < fake_cuda.streams + FAKE_STREAMS_MAX && (!f->destroyed || f->busy || f->done < f->n))
        f++;
    ck_assert_msg(f < fake_cuda.streams + FAKE_STREAMS_MAX, "too many streams");
    memset(f, 0, offsetof(struct fake_stream, work));
    return f;
}

cudaError_t fake_cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    struct fake_stream *f;

    FAKE_CALLED();
    ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    fake_lock();
    f = free_stream();
    f->priority = priority;
    fake_cuda.streams_alive++;
    fake_unlock();
    *s = (cudaStream_t)f;
    return cudaSuccess;
}

void fake_waits(cudaStream_t s)
{
    fake_lock();
    for (size_t i = 0; i < fake_cuda.n_streams && fake_cuda.stuck; i++) {
        const struct fake_stream *f = &fake_cuda.streams[i];

        ck_assert_msg(f->done == f->n || (s && s != (cudaStream_t)f), "a wait without an end");
    }
    fake_unlock();
}

cudaError_t fake_cudaStreamDestroy(cudaStream_t s)
{
    fake_waits(s);
    fake_lock();
    ((struct fake_stream *)s)->destroyed = true;
    fake_cuda.streams_alive--;
    fake_unlock();
    return cudaSuccess;
}

/* Run the stream until it is empty. */
static void finish(struct fake_stream *f)
{
    bool done = false, waits;

    ck_assert_msg(!fake_cuda.stuck || f->done == f->n, "a wait without an end");

    while (!done) {
        fake_lock();
        fake_cuda_step();
        done = f->done == f->n;
        waits = f->busy || (!done && (fake_cuda.real_time || f->work[f->done].kind == WORK_POLL));
        fake_unlock();
        if (waits)
            usleep(50);
    }
}

/* Wait for a stream; also if it returns an error, the wait is over. */
cudaError_t fake_cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t e = fake_called();

    FAKE_UNSAFE();
    if (s && ((struct fake_stream *)s)->capture)
        return cudaErrorStreamCaptureUnsupported;
    if (!s)
        return e;
    finish((struct fake_stream *)s);
    fake_lock();
    fake_saw(((struct fake_stream *)s)->ms);
    fake_unlock();
    return e;
}

cudaError_t fake_cudaStreamQuery(cudaStream_t s)
{
    struct fake_stream *f = (struct fake_stream *)s;
    bool done;

    FAKE_UNSAFE();
    if (f->capture)
        return cudaErrorStreamCaptureUnsupported;
    fake_lock();
    fake_cuda_step();
    done = f->done == f->n && !f->busy;
    fake_unlock();
    return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t fake_cudaDeviceSynchronize(void)
{
    cudaError_t e = fake_called(), spoils = cudaSuccess;

    /* Allowed from any thread in any mode: NVIDIA/TensorRT#2888, measured in
     * ROCm/rocm-systems#4508. */
    fake_lock();
    if (fake_cuda.capture)
        spoils = fake_spoil(cudaErrorStreamCaptureUnsupported);
    fake_unlock();
    if (spoils != cudaSuccess)
        return spoils;
    for (size_t i = 0; i < fake_cuda.n_streams; i++)
        finish(&fake_cuda.streams[i]);
    return e;
}

cudaError_t fake_cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    FAKE_CALLED();
    return fake_enqueue(s, (struct fake_work){.kind = WORK_RUN, .fn = fn, .arg = arg});
}

void fake_cuda_run_on(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    fake_enqueue(s, (struct fake_work){.kind = WORK_RUN, .fn = fn, .arg = arg});
}

void fake_cuda_poll_on(cudaStream_t s, bool (*poll)(void *arg), void *arg)
{
    fake_enqueue(s, (struct fake_work){.kind = WORK_POLL, .poll = poll, .arg = arg});
}
