/* The machine; see the header. */
#include "tests/fake_cuda.h"

#include "base/clock.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct fake_cuda fake_cuda;

static cudaError_t called(void)
{
    return ++fake_cuda.calls == fake_cuda.fail_at ? fake_cuda.fail_with : cudaSuccess;
}

#define CALLED()                                                                                   \
    do {                                                                                           \
        cudaError_t error_ = called();                                                             \
        if (error_ != cudaSuccess)                                                                 \
            return error_;                                                                         \
    } while (0)

static void step(struct fake_stream *s)
{
    struct fake_work *w = &s->work[s->done];

    if (s->done == s->n || fake_cuda.stuck)
        return;
    if (w->kind == WORK_WAIT && w->event->passed < w->number)
        return;
    s->done++;
    if (w->kind == WORK_RUN)
        w->fn(w->arg);
    if (w->kind == WORK_OP) {
        w->op->cpu(w->arg);
        free(w->arg);
    }
    if (w->kind == WORK_COPY)
        memcpy(w->to, w->from, w->bytes);
    if (w->kind == WORK_RECORD) {
        w->event->passed = w->number;
        w->event->ms = (double)lk_now_ns() / 1e6;
    }
}

void fake_cuda_step(void)
{
    /* The last stream first: without waits, what was submitted later would run earlier. */
    for (size_t i = fake_cuda.n_streams; i > 0; i--)
        step(&fake_cuda.streams[i - 1]);
}

static cudaError_t enqueue(cudaStream_t s, struct fake_work w)
{
    struct fake_stream *f = (struct fake_stream *)s;

    ck_assert_ptr_nonnull(f);
    if (f->done == f->n)
        f->done = f->n = 0;
    ck_assert_uint_lt(f->n, FAKE_WORK_MAX);
    f->work[f->n++] = w;
    return cudaSuccess;
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

static cudaError_t fake_properties(struct cudaDeviceProp *p, int gpu)
{
    CALLED();
    memset(p, 0, sizeof *p);
    strcpy(p->name, "fake");
    p->uuid.bytes[15] = (char)gpu;
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

static cudaError_t fake_malloc(void **p, size_t bytes)
{
    CALLED();
    *p = malloc(bytes);
    fake_cuda.allocated++;
    return cudaSuccess;
}

static cudaError_t fake_free(void *p)
{
    free(p);
    fake_cuda.allocated--;
    return cudaSuccess;
}

static cudaError_t fake_host_alloc(void **p, size_t bytes, unsigned flags)
{
    CALLED();
    ck_assert_uint_eq(flags, cudaHostAllocDefault);
    *p = malloc(bytes);
    fake_cuda.allocated++;
    return cudaSuccess;
}

static cudaError_t fake_memset(void *p, int value, size_t bytes)
{
    CALLED();
    memset(p, value, bytes);
    return cudaSuccess;
}

static cudaError_t fake_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                             cudaStream_t s)
{
    CALLED();
    ck_assert_int_eq(kind, cudaMemcpyDefault);
    return enqueue(s,
                   (struct fake_work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes});
}

static cudaError_t fake_stream_create(cudaStream_t *s, unsigned flags, int priority)
{
    struct fake_stream *f = &fake_cuda.streams[fake_cuda.n_streams];

    CALLED();
    ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    ck_assert_uint_lt(fake_cuda.n_streams++, FAKE_STREAMS_MAX);
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

static cudaError_t fake_synchronize(cudaStream_t s)
{
    struct fake_stream *f = (struct fake_stream *)s;

    CALLED();
    while (f && f->done < f->n && !fake_cuda.stuck)
        fake_cuda_step();
    return cudaSuccess;
}

static cudaError_t fake_wait(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    struct fake_event *f = (struct fake_event *)e;

    CALLED();
    ck_assert_uint_eq(flags, 0);
    return enqueue(s, (struct fake_work){.kind = WORK_WAIT, .event = f, .number = f->recorded});
}

static cudaError_t fake_host(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    CALLED();
    return enqueue(s, (struct fake_work){.kind = WORK_RUN, .fn = fn, .arg = arg});
}

static cudaError_t fake_event_create(cudaEvent_t *e, unsigned flags)
{
    CALLED();
    ck_assert_uint_eq(flags, cudaEventDefault); /* with times */
    *e = (cudaEvent_t)calloc(1, sizeof(struct fake_event));
    fake_cuda.events_alive++;
    return cudaSuccess;
}

static cudaError_t fake_event_destroy(cudaEvent_t e)
{
    free(e);
    fake_cuda.events_alive--;
    return cudaSuccess;
}

static cudaError_t fake_record(cudaEvent_t e, cudaStream_t s)
{
    struct fake_event *f = (struct fake_event *)e;

    CALLED();
    f->recorded++;
    return enqueue(s, (struct fake_work){.kind = WORK_RECORD, .event = f, .number = f->recorded});
}

static cudaError_t fake_query(cudaEvent_t e)
{
    const struct fake_event *f = (const struct fake_event *)e;

    if (fake_cuda.query_error != cudaSuccess)
        return fake_cuda.query_error;
    fake_cuda_step();
    return f->passed == f->recorded ? cudaSuccess : cudaErrorNotReady;
}

static cudaError_t fake_elapsed(float *ms, cudaEvent_t from, cudaEvent_t to)
{
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
    struct fake_work w = {.kind = WORK_OP, .op = op};

    if (!op->cpu)
        return op->cuda(args, c);
    w.arg = malloc(op->args_bytes);
    ck_assert_ptr_nonnull(w.arg);
    memcpy(w.arg, args, op->args_bytes);
    enqueue((cudaStream_t)c->stream, w);
    return LK_OK;
}

const struct lk_cuda_calls fake_cuda_calls = {
    .GetDeviceCount = fake_count,
    .SetDevice = fake_set,
    .GetDeviceProperties = fake_properties,
    .DriverGetVersion = fake_version,
    .RuntimeGetVersion = fake_version,
    .DeviceReset = fake_reset,
    .DeviceGetStreamPriorityRange = fake_priorities,
    .Malloc = fake_malloc,
    .Free = fake_free,
    .HostAlloc = fake_host_alloc,
    .FreeHost = fake_free,
    .Memset = fake_memset,
    .MemcpyAsync = fake_copy,
    .StreamCreateWithPriority = fake_stream_create,
    .StreamDestroy = fake_stream_destroy,
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

void fake_cuda_reset(int gpus)
{
    memset(&fake_cuda, 0, sizeof fake_cuda);
    fake_cuda.gpus = gpus;
}

void fake_cuda_check_clean(void)
{
    ck_assert_int_eq(fake_cuda.events_alive, 0);
    ck_assert_int_eq(fake_cuda.streams_alive, 0);
    ck_assert_int_eq(fake_cuda.contexts_alive, 0);
    ck_assert_int_eq(fake_cuda.blas_alive, 0);
    ck_assert_int_eq(fake_cuda.allocated, 0);
}
