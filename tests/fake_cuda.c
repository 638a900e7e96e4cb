/* The machine; see the header. */
#include "tests/fake_cuda.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "tests/fake_graph_cuda.h"
#include "tests/fake_ops.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_cuda fake_cuda;

static pthread_mutex_t machine; /* recursive: a host function may ask for something */
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;
static struct lk_rng order;
static uint64_t order_seed;

static void make_machine(void)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&machine, &attr);
    pthread_mutexattr_destroy(&attr);
}

static void lock(void)
{
    pthread_once(&machine_once, make_machine);
    pthread_mutex_lock(&machine);
}

static void unlock(void)
{
    pthread_mutex_unlock(&machine);
}

static uint64_t draw(uint64_t below)
{
    if (order_seed != fake_cuda.seed) {
        order_seed = fake_cuda.seed;
        order = lk_rng_init(fake_cuda.seed, lk_rng_stream("order", 0));
    }
    return lk_rng_below(&order, below);
}

static cudaError_t called(void)
{
    bool fails;

    lock();
    fails = ++fake_cuda.calls == fake_cuda.fail_at;
    /* An eager GPU, now and then. */
    if (fake_cuda.seed && draw(4) == 0)
        fake_cuda_step();
    unlock();
    return fails ? fake_cuda.fail_with : cudaSuccess;
}

#define CALLED()                                                                                   \
    do {                                                                                           \
        cudaError_t error_ = called();                                                             \
        if (error_ != cudaSuccess)                                                                 \
            return error_;                                                                         \
    } while (0)

static cudaError_t spoil(cudaError_t e)
{
    fake_cuda.capture->spoilt = true;
    return e;
}

/* Calls that are unsafe in a thread that captures in mode "thread local". */
static cudaError_t unsafe(void)
{
    cudaError_t e = cudaSuccess;

    lock();
    if (fake_cuda.capture && pthread_equal(fake_cuda.capturer, pthread_self()))
        e = spoil(cudaErrorStreamCaptureUnsupported);
    unlock();
    return e;
}

#define UNSAFE()                                                                                   \
    do {                                                                                           \
        cudaError_t unsafe_ = unsafe();                                                            \
        if (unsafe_ != cudaSuccess)                                                                \
            return unsafe_;                                                                        \
    } while (0)

/* ---- Memory ---- */

static const struct fake_memory *memory_of(const void *p, size_t bytes)
{
    const char *at = p;

    for (size_t i = 0; i < FAKE_ALLOCATIONS_MAX; i++) {
        const struct fake_memory *m = &fake_cuda.memory[i];

        if (m->at && at >= m->at && bytes <= m->bytes && at <= m->at + (m->bytes - bytes))
            return m;
    }
    return NULL;
}

static void protect(int rights)
{
    for (size_t i = 0; i < FAKE_ALLOCATIONS_MAX; i++) {
        const struct fake_memory *m = &fake_cuda.memory[i];

        if (m->at && !m->host)
            ck_assert_int_eq(mprotect(m->at, m->mapped, rights), 0);
    }
}

void fake_cuda_open(void)
{
    lock();
    if (fake_cuda.open++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

void fake_cuda_close(void)
{
    if (--fake_cuda.open == 0)
        protect(PROT_NONE);
    unlock();
}

void fake_cuda_check_device(const void *p, size_t bytes)
{
    const struct fake_memory *m = memory_of(p, bytes);

    ck_assert_msg(m && !m->host, "%zu bytes at %p are not device memory", bytes, p);
}

void fake_cuda_peek(void *to, const void *from, size_t bytes)
{
    fake_cuda_open();
    fake_cuda_check_device(from, bytes);
    memcpy(to, from, bytes);
    fake_cuda_close();
}

/* Not zeroed: garbage shows what was not written. */
static cudaError_t map(void **p, size_t bytes, bool host)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped = (bytes + page - 1) / page * page;
    struct fake_memory *m = fake_cuda.memory;

    while (m < fake_cuda.memory + FAKE_ALLOCATIONS_MAX && m->at)
        m++;
    ck_assert(m < fake_cuda.memory + FAKE_ALLOCATIONS_MAX);
    m->at = mmap(NULL, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(m->at != MAP_FAILED);
    memset(m->at, 0xa5, bytes);
    ck_assert_int_eq(mprotect(m->at + mapped, page, PROT_NONE), 0);
    m->bytes = bytes;
    m->mapped = mapped;
    m->host = host;
    if (!host && !fake_cuda.open)
        ck_assert_int_eq(mprotect(m->at, mapped, PROT_NONE), 0);
    *p = m->at;
    fake_cuda.allocated++;
    return cudaSuccess;
}

/* Whoever still has work on it pending finds it gone. */
static cudaError_t unmap(void *p, bool host)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    lock();
    for (size_t i = 0; i < FAKE_ALLOCATIONS_MAX; i++) {
        struct fake_memory *m = &fake_cuda.memory[i];

        if (m->at != p)
            continue;
        ck_assert_int_eq(m->host, host);
        ck_assert_int_eq(munmap(m->at, m->mapped + page), 0);
        *m = (struct fake_memory){0};
        fake_cuda.allocated--;
        unlock();
        return cudaSuccess;
    }
    ck_abort_msg("%p was not allocated", p);
    return cudaErrorInvalidValue;
}

static cudaError_t fake_malloc(void **p, size_t bytes)
{
    cudaError_t e;

    CALLED();
    UNSAFE();
    lock();
    e = map(p, bytes, false);
    unlock();
    return e;
}

static cudaError_t fake_host_alloc(void **p, size_t bytes, unsigned flags)
{
    cudaError_t e;

    CALLED();
    UNSAFE();
    ck_assert_uint_eq(flags, cudaHostAllocDefault);
    lock();
    e = map(p, bytes, true);
    unlock();
    return e;
}

static cudaError_t fake_free(void *p)
{
    UNSAFE();
    return unmap(p, false);
}

static cudaError_t fake_free_host(void *p)
{
    UNSAFE();
    return unmap(p, true);
}

static cudaError_t fake_memset(void *p, int value, size_t bytes)
{
    CALLED();
    UNSAFE();
    fake_cuda_open();
    fake_cuda_check_device(p, bytes);
    memset(p, value, bytes);
    fake_cuda_close();
    return cudaSuccess;
}

/* ---- Streams ---- */

static void run_work(const struct fake_work *w)
{
    const struct fake_ops_config config = {
        .real = w->real, .tf32 = fake_cuda.tf32, .check = fake_cuda_check_device};

    if (w->kind == WORK_RUN)
        w->fn(w->arg);
    if (w->kind == WORK_OP) {
        fake_cuda_open();
        fake_ops_run(w->op, w->arg, &config);
        fake_cuda_close();
    }
    if (w->kind == WORK_COPY) {
        fake_cuda_open();
        ck_assert_ptr_nonnull(memory_of(w->to, w->bytes));
        ck_assert_ptr_nonnull(memory_of(w->from, w->bytes));
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
    lock();
    h->stream->busy = false;
    h->stream->done++;
    unlock();
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

/* Whether there was something left of the graph to do. */
static bool step_graph(struct fake_stream *s, struct fake_graph *g)
{
    const struct fake_node *node = fake_graph_next(g, s, draw);
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
    if (w.kind != WORK_RECORD) /* its event was one of the capture */
        run_work(&w);
    return true;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Before the work runs. */
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

    lock();
    if (fake_cuda.seed && fake_cuda.n_streams > 0) {
        struct fake_stream *s = &fake_cuda.streams[draw(fake_cuda.n_streams)];

        for (size_t n = bursts[draw(LK_COUNT(bursts))]; n > 0 && step(s); n--)
            ;
    }
    /* The last stream first: without waits, what was submitted later would run earlier. */
    do {
        again = false;
        for (size_t i = fake_cuda.n_streams; i > 0 && !fake_cuda.seed; i--)
            again |= step(&fake_cuda.streams[i - 1]);
    } while (again && fake_cuda.takes_ms); /* its time does not depend on who asks when */
    unlock();
}

/* pre: the lock is held. `other`: the node that work in a capture waits for. */
static cudaError_t put(struct fake_stream *f, const struct fake_work *w, size_t other)
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

static cudaError_t enqueue(cudaStream_t s, struct fake_work w)
{
    cudaError_t e;

    ck_assert_ptr_nonnull(s);
    lock();
    e = put((struct fake_stream *)s, &w, FAKE_NO_NODE);
    unlock();
    return e;
}

static cudaError_t fake_count(int *n)
{
    CALLED();
    *n = fake_cuda.gpus;
    return cudaSuccess;
}

static cudaError_t fake_set(int gpu)
{
    CALLED();
    ck_assert(gpu >= 0 && gpu < fake_cuda.gpus);
    return cudaSuccess;
}

static cudaError_t fake_get(int *gpu)
{
    CALLED();
    *gpu = 0;
    return cudaSuccess;
}

static cudaError_t fake_attributes(struct cudaPointerAttributes *a, const void *p)
{
    const struct fake_memory *m;

    CALLED();
    lock();
    m = memory_of(p, 1);
    *a = (struct cudaPointerAttributes){.type = !m        ? cudaMemoryTypeUnregistered
                                                : m->host ? cudaMemoryTypeHost
                                                          : cudaMemoryTypeDevice};
    unlock();
    return cudaSuccess;
}

static cudaError_t fake_capturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    const struct fake_graph *g = ((struct fake_stream *)s)->capture;

    CALLED();
    *status = !g          ? cudaStreamCaptureStatusNone
              : g->spoilt ? cudaStreamCaptureStatusInvalidated
                          : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

static cudaError_t fake_properties(struct cudaDeviceProp *p, int gpu)
{
    CALLED();
    memset(p, 0, sizeof *p);
    strcpy(p->name, "fake");
    p->uuid.bytes[15] = (char)gpu;
    p->major = 9;
    p->totalGlobalMem = (size_t)80 << 30;
    p->multiProcessorCount = 132;
    return cudaSuccess;
}

static cudaError_t fake_p2p(int *value, enum cudaDeviceP2PAttr property, int from, int to)
{
    CALLED();
    ck_assert_int_ne(from, to);
    *value = property == cudaDevP2PAttrNativeAtomicSupported ? fake_cuda.nvlink : !fake_cuda.apart;
    return cudaSuccess;
}

static cudaError_t fake_version(int *version)
{
    CALLED();
    *version = 13000;
    return cudaSuccess;
}

/* Nothing may be left of what the context held. */
static cudaError_t fake_reset(void)
{
    CALLED();
    ck_assert_int_eq(fake_cuda.allocated, 0);
    ck_assert_int_eq(fake_cuda.streams_alive, 0);
    fake_cuda.resets++;
    return cudaSuccess;
}

static cudaError_t fake_priorities(int *least, int *greatest)
{
    CALLED();
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

static cudaError_t fake_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                             cudaStream_t s)
{
    CALLED();
    ck_assert_int_eq(kind, cudaMemcpyDefault);
    lock();
    ck_assert_msg(memory_of(to, bytes) && memory_of(from, bytes),
                  "a copy of %zu bytes from %p to %p names ordinary memory", bytes, from, to);
    unlock();
    return enqueue(s,
                   (struct fake_work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes});
}

static cudaError_t fake_stream_create(cudaStream_t *s, unsigned flags, int priority)
{
    struct fake_stream *f;

    CALLED();
    lock();
    ck_assert_uint_lt(fake_cuda.n_streams, FAKE_STREAMS_MAX);
    f = &fake_cuda.streams[fake_cuda.n_streams++];
    unlock();
    ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    f->priority = priority;
    fake_cuda.streams_alive++;
    *s = (cudaStream_t)f;
    return cudaSuccess;
}

static cudaError_t fake_stream_destroy(cudaStream_t s)
{
    (void)s;
    fake_cuda.streams_alive--;
    return cudaSuccess;
}

/* Until the stream has run everything. */
static void finish(struct fake_stream *f)
{
    bool done = false, waits;

    ck_assert_msg(!fake_cuda.stuck || f->done == f->n, "a wait without an end");

    while (!done) {
        lock();
        fake_cuda_step();
        done = f->done == f->n;
        waits = f->busy || (!done && f->work[f->done].kind == WORK_POLL);
        unlock();
        if (waits)
            usleep(50);
    }
}

/* One that says of an error has waited all the same. */
static cudaError_t fake_synchronize(cudaStream_t s)
{
    cudaError_t e = called();

    UNSAFE();
    if (s && ((struct fake_stream *)s)->capture)
        return cudaErrorStreamCaptureUnsupported;
    if (!s)
        return e;
    finish((struct fake_stream *)s);
    lock();
    fake_cuda.seen_ms = later(fake_cuda.seen_ms, ((struct fake_stream *)s)->ms);
    unlock();
    return e;
}

static cudaError_t fake_stream_query(cudaStream_t s)
{
    struct fake_stream *f = (struct fake_stream *)s;
    bool done;

    UNSAFE();
    if (f->capture)
        return cudaErrorStreamCaptureUnsupported;
    lock();
    fake_cuda_step();
    done = f->done == f->n && !f->busy;
    unlock();
    return done ? cudaSuccess : cudaErrorNotReady;
}

static cudaError_t fake_device_synchronize(void)
{
    cudaError_t e = called();

    UNSAFE();
    for (size_t i = 0; i < fake_cuda.n_streams; i++)
        finish(&fake_cuda.streams[i]);
    return e;
}

static cudaError_t wait_for(struct fake_stream *s, struct fake_event *e)
{
    const struct fake_work w = {.kind = WORK_WAIT, .event = e, .number = e->recorded};

    if (!e->graph)
        return s->capture ? spoil(cudaErrorStreamCaptureIsolation) : put(s, &w, FAKE_NO_NODE);
    if (e->graph != fake_cuda.capture)
        return cudaErrorCapturedEvent;
    if (!s->capture) {
        s->capture = e->graph;
        s->tail = FAKE_NO_NODE;
    }
    return put(s, &w, e->node);
}

static cudaError_t fake_wait(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    cudaError_t error;

    CALLED();
    ck_assert_uint_eq(flags, 0);
    lock();
    error = wait_for((struct fake_stream *)s, (struct fake_event *)e);
    unlock();
    return error;
}

static cudaError_t fake_begin(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    struct fake_stream *f = (struct fake_stream *)s;
    cudaError_t e = cudaSuccess;

    CALLED();
    ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
    lock();
    if (fake_cuda.capture) {
        e = cudaErrorIllegalState;
    } else {
        f->capture = fake_cuda.capture = fake_graph_create(f);
        f->tail = FAKE_NO_NODE;
        fake_cuda.capturer = pthread_self();
    }
    unlock();
    return e;
}

static cudaError_t end_capture(struct fake_stream *s, cudaGraph_t *out)
{
    struct fake_graph *g = s->capture;
    cudaError_t e = g->spoilt               ? cudaErrorStreamCaptureInvalidated
                    : !fake_graph_joined(g) ? cudaErrorStreamCaptureUnjoined
                                            : cudaSuccess;

    for (size_t i = 0; i < fake_cuda.n_streams; i++)
        fake_cuda.streams[i].capture = NULL;
    fake_cuda.capture = NULL;
    fake_cuda.graph_nodes = g->n;
    *out = e == cudaSuccess ? (cudaGraph_t)g : NULL;
    if (e != cudaSuccess)
        fake_graph_release(g);
    return e;
}

/* A call that fails by the plan of a test ends the capture all the same. */
static cudaError_t fake_end(cudaStream_t s, cudaGraph_t *out)
{
    struct fake_stream *f = (struct fake_stream *)s;
    cudaError_t planned = called(), e = cudaErrorIllegalState;

    lock();
    if (f->capture && f->capture->origin == f) {
        f->capture->spoilt |= planned != cudaSuccess;
        e = end_capture(f, out);
    }
    unlock();
    return planned == cudaSuccess ? e : planned;
}

static cudaError_t fake_instantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                    unsigned long long flags)
{
    CALLED();
    ck_assert_uint_eq(flags, cudaGraphInstantiateFlagUseNodePriority);
    lock();
    ((struct fake_graph *)graph)->refs++;
    unlock();
    *exec = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

static cudaError_t fake_launch(cudaGraphExec_t exec, cudaStream_t s)
{
    struct fake_graph *g = (struct fake_graph *)exec;

    CALLED();
    lock();
    g->refs++;
    fake_cuda.graph_launches++;
    unlock();
    return enqueue(s, (struct fake_work){.kind = WORK_GRAPH, .graph = g});
}

static cudaError_t fake_graph_destroy(cudaGraph_t graph)
{
    lock();
    fake_graph_release((struct fake_graph *)graph);
    unlock();
    return cudaSuccess;
}

static cudaError_t fake_exec_destroy(cudaGraphExec_t exec)
{
    return fake_graph_destroy((cudaGraph_t)exec);
}

static cudaError_t fake_host(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    CALLED();
    return enqueue(s, (struct fake_work){.kind = WORK_RUN, .fn = fn, .arg = arg});
}

static cudaError_t fake_event_create(cudaEvent_t *e, unsigned flags)
{
    CALLED();
    ck_assert(flags == cudaEventDefault || flags == cudaEventDisableTiming);
    *e = (cudaEvent_t)calloc(1, sizeof(struct fake_event));
    ((struct fake_event *)*e)->timed = flags == cudaEventDefault;
    lock();
    fake_cuda.events_alive++;
    unlock();
    return cudaSuccess;
}

static cudaError_t fake_event_destroy(cudaEvent_t e)
{
    lock();
    free(e);
    fake_cuda.events_alive--;
    unlock();
    return cudaSuccess;
}

static cudaError_t fake_record(cudaEvent_t e, cudaStream_t s)
{
    struct fake_stream *stream = (struct fake_stream *)s;
    struct fake_event *f = (struct fake_event *)e;
    cudaError_t error;

    CALLED();
    lock();
    f->recorded++;
    error = put(stream, &(struct fake_work){.kind = WORK_RECORD, .event = f, .number = f->recorded},
                FAKE_NO_NODE);
    f->graph = stream->capture;
    f->node = stream->tail;
    unlock();
    return error;
}

static cudaError_t fake_query(cudaEvent_t e)
{
    const struct fake_event *f = (const struct fake_event *)e;
    bool passed;

    CALLED();
    if (fake_cuda.query_error != cudaSuccess)
        return fake_cuda.query_error;
    UNSAFE();
    if (f->graph)
        return cudaErrorCapturedEvent;
    lock();
    fake_cuda_step();
    passed = f->passed == f->recorded;
    if (passed)
        fake_cuda.seen_ms = later(fake_cuda.seen_ms, f->ms);
    unlock();
    return passed ? cudaSuccess : cudaErrorNotReady;
}

static cudaError_t fake_elapsed(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    ck_assert(((const struct fake_event *)from)->timed && ((const struct fake_event *)to)->timed);
    *ms = (float)(((const struct fake_event *)to)->ms - ((const struct fake_event *)from)->ms);
    return cudaSuccess;
}

static enum lk_status fake_blas_open(struct lk_cuda_blas **out)
{
    enum lk_status st = lk_cuda_status(called(), "blas");

    if (st != LK_OK)
        return st;
    fake_cuda.blas_alive++;
    *out = (struct lk_cuda_blas *)&fake_cuda;
    return LK_OK;
}

static void fake_blas_close(struct lk_cuda_blas *b)
{
    (void)b;
    fake_cuda.blas_alive--;
}

static enum lk_status fake_init(struct lk_cuda *c, void *stream, enum lk_dtype real,
                                struct lk_cuda_blas *blas)
{
    enum lk_status st = lk_cuda_status(called(), "workspace");

    if (st != LK_OK)
        return st;
    fake_cuda.contexts_alive++;
    *c = (struct lk_cuda){.stream = stream, .real = real, .workspace = &fake_cuda, .blas = blas};
    return LK_OK;
}

static void fake_fini(struct lk_cuda *c)
{
    fake_cuda.contexts_alive--;
    *c = (struct lk_cuda){0};
}

/* An op of a test may have only the launcher: that runs at once. */
static enum lk_status fake_run_op(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    struct fake_work w = {.kind = WORK_OP, .op = op, .real = c->real};
    enum lk_status st;

    if (!op->cpu)
        return op->cuda(args, c);
    st = lk_cuda_status(called(), op->name);
    if (st != LK_OK)
        return st;
    w.arg = malloc(op->args_bytes);
    ck_assert_ptr_nonnull(w.arg);
    memcpy(w.arg, args, op->args_bytes);
    enqueue((cudaStream_t)c->stream, w);
    return LK_OK;
}

const struct lk_cuda_calls fake_cuda_calls = {
    .GetDeviceCount = fake_count,
    .GetDevice = fake_get,
    .SetDevice = fake_set,
    .PointerGetAttributes = fake_attributes,
    .StreamIsCapturing = fake_capturing,
    .StreamBeginCapture = fake_begin,
    .StreamEndCapture = fake_end,
    .GraphInstantiate = fake_instantiate,
    .GraphLaunch = fake_launch,
    .GraphDestroy = fake_graph_destroy,
    .GraphExecDestroy = fake_exec_destroy,
    .GetDeviceProperties = fake_properties,
    .DeviceGetP2PAttribute = fake_p2p,
    .DriverGetVersion = fake_version,
    .RuntimeGetVersion = fake_version,
    .DeviceSynchronize = fake_device_synchronize,
    .DeviceReset = fake_reset,
    .DeviceGetStreamPriorityRange = fake_priorities,
    .Malloc = fake_malloc,
    .Free = fake_free,
    .HostAlloc = fake_host_alloc,
    .FreeHost = fake_free_host,
    .Memset = fake_memset,
    .MemcpyAsync = fake_copy,
    .StreamCreateWithPriority = fake_stream_create,
    .StreamDestroy = fake_stream_destroy,
    .StreamQuery = fake_stream_query,
    .StreamSynchronize = fake_synchronize,
    .StreamWaitEvent = fake_wait,
    .LaunchHostFunc = fake_host,
    .EventCreateWithFlags = fake_event_create,
    .EventDestroy = fake_event_destroy,
    .EventRecord = fake_record,
    .EventQuery = fake_query,
    .EventElapsedTime = fake_elapsed,
    .blas_open = fake_blas_open,
    .blas_close = fake_blas_close,
    .init = fake_init,
    .fini = fake_fini,
    .run_op = fake_run_op,
};

void fake_cuda_run_on(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    enqueue(s, (struct fake_work){.kind = WORK_RUN, .fn = fn, .arg = arg});
}

void fake_cuda_poll_on(cudaStream_t s, bool (*poll)(void *arg), void *arg)
{
    enqueue(s, (struct fake_work){.kind = WORK_POLL, .poll = poll, .arg = arg});
}

void fake_cuda_reset(int gpus)
{
    memset(&fake_cuda, 0, offsetof(struct fake_cuda, streams));
    for (size_t i = 0; i < FAKE_STREAMS_MAX; i++)
        memset(&fake_cuda.streams[i], 0, offsetof(struct fake_stream, work));
    fake_cuda.gpus = gpus;
    order_seed = 0;
}

void fake_cuda_check_clean(void)
{
    ck_assert_int_eq(fake_cuda.events_alive, 0);
    ck_assert_int_eq(fake_cuda.streams_alive, 0);
    ck_assert_int_eq(fake_cuda.graphs_alive, 0);
    if (fake_cuda.stuck) /* to free memory would wait for ever */
        return;
    ck_assert_int_eq(fake_cuda.contexts_alive, 0);
    ck_assert_int_eq(fake_cuda.blas_alive, 0);
    ck_assert_int_eq(fake_cuda.allocated, 0);
}
