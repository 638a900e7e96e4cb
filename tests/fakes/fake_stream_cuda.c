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

static void run_work(const struct fake_work *w)
{
    const struct fake_ops_config config = {
        .real = w->real, .tf32 = fake_cuda.tf32, .check = fake_cuda_check_device};

    if (w->kind == WORK_RUN)
        w->fn(w->arg);
    if (w->kind == WORK_OP && !fake_cuda.idle) {
        fake_cuda_open();
        fake_ops_run(w->op, w->arg, &config);
        fake_cuda_close();
    }
    if (w->kind == WORK_COPY && !fake_cuda.idle) {
        fake_cuda_open();
        ck_assert_ptr_nonnull(fake_memory_of(w->to, w->bytes));
        ck_assert_ptr_nonnull(fake_memory_of(w->from, w->bytes));
        memmove(w->to, w->from, w->bytes);
        fake_cuda_close();
    }
    if (w->kind == WORK_RECORD) {
        w->event->passed = w->number;
        if (!fake_cuda.takes_ms)
            w->event->ms = (double)lk_now_ns() / 1e6;
    }
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

    fake_cuda_open();
    done = w->poll(w->arg);
    fake_cuda_close();
    return done;
}

/* Run one node of the graph; false if none was left. */
static bool step_graph(struct fake_stream *s, struct fake_graph *g)
{
    const struct fake_node *node = fake_graph_next(g, s);
    _Alignas(max_align_t) char args[LK_OP_ARGS_MAX];
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
    if (w.kind != WORK_RECORD) /* a captured record has no event of its own */
        run_work(&w);
    return true;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

void fake_saw(double ms)
{
    fake_cuda.seen_ms = later(fake_cuda.seen_ms, ms);
}

/* Advance the model's time before the work runs. */
static void pass_time(struct fake_stream *s, const struct fake_work *w)
{
    if (!fake_cuda.takes_ms)
        return;
    s->ms = later(s->ms, w->queued_ms);
    if (w->kind == WORK_WAIT)
        s->ms = later(s->ms, w->event->ms);
    s->ms += fake_cuda.takes_ms(w, s);
    if (w->kind == WORK_RECORD)
        w->event->ms = s->ms;
}

static bool step(struct fake_stream *s)
{
    struct fake_work w;

    if (s->done == s->n || s->busy || fake_cuda.stuck)
        return false;
    w = s->work[s->done];
    if (w.kind == WORK_GRAPH && step_graph(s, w.graph))
        return true;
    if (w.kind == WORK_WAIT && w.event->passed < w.number)
        return false;
    if (w.kind == WORK_POLL && !polled(&w))
        return false;
    if (w.kind == WORK_RUN && fake_cuda.host_threads) {
        start_host_thread(s, &w);
        return false;
    }
    s->done++;
    pass_time(s, &w);
    run_work(&w);
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

    fake_lock();
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
    fake_unlock();
}

cudaError_t fake_put(struct fake_stream *f, const struct fake_work *w, size_t other)
{
    if (f->capture && f->capture->spoilt)
        return cudaErrorStreamCaptureInvalidated;
    if (f->capture) {
        fake_graph_add(f->capture, f, w, other);
        return cudaSuccess;
    }
    if (f->done == f->n)
        f->done = f->n = 0;
    ck_assert_uint_lt(f->n, FAKE_WORK_MAX);
    f->work[f->n] = *w;
    f->work[f->n++].queued_ms = fake_cuda.seen_ms;
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

cudaError_t fake_cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    struct fake_stream *f;

    FAKE_CALLED();
    fake_lock();
    ck_assert_uint_lt(fake_cuda.n_streams, FAKE_STREAMS_MAX);
    f = &fake_cuda.streams[fake_cuda.n_streams++];
    fake_unlock();
    ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    f->priority = priority;
    fake_cuda.streams_alive++;
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
    fake_cuda.streams_alive--;
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
        waits = f->busy || (!done && f->work[f->done].kind == WORK_POLL);
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
