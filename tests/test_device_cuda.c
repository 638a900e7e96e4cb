/*
 * The device cuda without a GPU: what it does with CUDA's answers. CUDA is a table of functions
 * (runtime/calls_cuda.h); here they keep queues of their own, and work goes on by one step a stream
 * whenever the device asks whether an event was passed, so nothing is done when it is submitted.
 */
#include "base/array.h"
#include "runtime/calls_cuda.h"
#include "runtime/device.h"
#include "tests/scratch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STREAMS = 4, MAX_WORK = 16384 };
static const uint64_t hang_ns = 20 * LK_NS_PER_S;

struct fake_event {
    int recorded, passed; /* numbers of records: submitted, and done */
    double ms;
};

struct work {
    enum { WORK_RUN, WORK_COPY, WORK_RECORD, WORK_WAIT } kind;
    cudaHostFn_t fn;
    void *arg;
    void *to;
    const void *from;
    size_t bytes;
    struct fake_event *event;
    int number; /* RECORD, WAIT: of the record */
};

struct fake_stream {
    struct work work[MAX_WORK];
    size_t done, n;
    int priority;
};

/* One machine a test; every test is a process. */
static struct {
    struct fake_stream streams[MAX_STREAMS];
    size_t n_streams;
    int gpus;
    bool stuck;              /* no stream goes on */
    cudaError_t query_error; /* what EventQuery says */
    int fail_at;             /* this call fails, from 1; 0: none */
    cudaError_t fail_with;
    int calls, events_alive, streams_alive, contexts_alive, blas_alive, allocated;
} fake;

static cudaError_t called(void)
{
    return ++fake.calls == fake.fail_at ? fake.fail_with : cudaSuccess;
}

#define CALLED()                                                                                   \
    do {                                                                                           \
        cudaError_t error_ = called();                                                             \
        if (error_ != cudaSuccess)                                                                 \
            return error_;                                                                         \
    } while (0)

static void step(struct fake_stream *s)
{
    struct work *w = &s->work[s->done];

    if (s->done == s->n || fake.stuck)
        return;
    if (w->kind == WORK_WAIT && w->event->passed < w->number)
        return;
    s->done++;
    if (w->kind == WORK_RUN)
        w->fn(w->arg);
    if (w->kind == WORK_COPY)
        memcpy(w->to, w->from, w->bytes);
    if (w->kind == WORK_RECORD) {
        w->event->passed = w->number;
        w->event->ms = (double)lk_now_ns() / 1e6;
    }
}

static void step_all(void)
{
    /* The last stream first: without waits, what was submitted later would run earlier. */
    for (size_t i = fake.n_streams; i > 0; i--)
        step(&fake.streams[i - 1]);
}

static cudaError_t enqueue(cudaStream_t s, struct work w)
{
    struct fake_stream *f = (struct fake_stream *)s;

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_lt(f->n, MAX_WORK);
    f->work[f->n++] = w;
    return cudaSuccess;
}

static cudaError_t fake_count(int *n)
{
    CALLED();
    *n = fake.gpus;
    return cudaSuccess;
}

static cudaError_t fake_set(int gpu)
{
    CALLED();
    ck_assert(gpu >= 0 && gpu < fake.gpus);
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
    fake.allocated++;
    return cudaSuccess;
}

static cudaError_t fake_free(void *p)
{
    free(p);
    fake.allocated--;
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
    return enqueue(s, (struct work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes});
}

static cudaError_t fake_stream_create(cudaStream_t *s, unsigned flags, int priority)
{
    struct fake_stream *f = &fake.streams[fake.n_streams];

    CALLED();
    ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    ck_assert_uint_lt(fake.n_streams++, MAX_STREAMS);
    f->priority = priority;
    fake.streams_alive++;
    *s = (cudaStream_t)f;
    return cudaSuccess;
}

static cudaError_t fake_stream_destroy(cudaStream_t s)
{
    (void)s;
    fake.streams_alive--;
    return cudaSuccess;
}

static cudaError_t fake_synchronize(cudaStream_t s)
{
    struct fake_stream *f = (struct fake_stream *)s;

    CALLED();
    while (f && f->done < f->n && !fake.stuck)
        step_all();
    return cudaSuccess;
}

static cudaError_t fake_wait(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    struct fake_event *f = (struct fake_event *)e;

    CALLED();
    ck_assert_uint_eq(flags, 0);
    return enqueue(s, (struct work){.kind = WORK_WAIT, .event = f, .number = f->recorded});
}

static cudaError_t fake_host(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    CALLED();
    return enqueue(s, (struct work){.kind = WORK_RUN, .fn = fn, .arg = arg});
}

static cudaError_t fake_event_create(cudaEvent_t *e, unsigned flags)
{
    CALLED();
    ck_assert_uint_eq(flags, cudaEventDefault); /* with times */
    *e = (cudaEvent_t)calloc(1, sizeof(struct fake_event));
    fake.events_alive++;
    return cudaSuccess;
}

static cudaError_t fake_event_destroy(cudaEvent_t e)
{
    free(e);
    fake.events_alive--;
    return cudaSuccess;
}

static cudaError_t fake_record(cudaEvent_t e, cudaStream_t s)
{
    struct fake_event *f = (struct fake_event *)e;

    CALLED();
    f->recorded++;
    return enqueue(s, (struct work){.kind = WORK_RECORD, .event = f, .number = f->recorded});
}

static cudaError_t fake_query(cudaEvent_t e)
{
    const struct fake_event *f = (const struct fake_event *)e;

    if (fake.query_error != cudaSuccess)
        return fake.query_error;
    step_all();
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
    fake.blas_alive++;
    *out = (struct lk_cuda_blas *)&fake;
    return LK_OK;
}

static void fake_blas_close(struct lk_cuda_blas *b)
{
    (void)b;
    fake.blas_alive--;
}

static enum lk_status fake_init(struct lk_cuda *c, void *stream, enum lk_dtype real,
                                struct lk_cuda_blas *blas)
{
    enum lk_status st = lk_cuda_status(called(), "workspace");

    if (st != LK_OK)
        return st;
    fake.contexts_alive++;
    *c = (struct lk_cuda){.stream = stream, .real = real, .workspace = &fake, .blas = blas};
    return LK_OK;
}

static void fake_fini(struct lk_cuda *c)
{
    fake.contexts_alive--;
    *c = (struct lk_cuda){0};
}

static const struct lk_cuda_calls calls = {
    .GetDeviceCount = fake_count,
    .SetDevice = fake_set,
    .GetDeviceProperties = fake_properties,
    .DeviceGetStreamPriorityRange = fake_priorities,
    .Malloc = fake_malloc,
    .Free = fake_free,
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
};

/* ---- What tests share ---- */

static char *locks;
static const struct lk_track_info compute_info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
static const struct lk_track_info net_info = {.name = "net", .kind = LK_TRACK_COMM};

static void setup(void)
{
    locks = scratch_create();
    ck_assert_int_eq(setenv("LOCKSTEP_GPU_LOCKS", locks, 1), 0);
    memset(&fake, 0, sizeof fake);
    fake.gpus = 2;
}

static void teardown(void)
{
    ck_assert_int_eq(fake.events_alive, 0);
    ck_assert_int_eq(fake.streams_alive, 0);
    ck_assert_int_eq(fake.contexts_alive, 0);
    ck_assert_int_eq(fake.blas_alive, 0);
    ck_assert_int_eq(fake.allocated, 0);
    scratch_remove(locks);
}

static enum lk_status open_device(struct lk_device **d, int local_rank, bool share)
{
    const struct lk_device_config config = {
        .local_rank = local_rank, .share_gpu = share, .cuda_calls = &calls};

    return lk_device_open("cuda", &config, d);
}

static struct lk_device *must_open(void)
{
    struct lk_device *d = NULL;

    ck_assert_msg(open_device(&d, 0, false) == LK_OK, "%s", lk_error_text());
    return d;
}

static struct lk_stream *must_stream(struct lk_device *d, const struct lk_track_info *info)
{
    struct lk_stream *s = NULL;

    ck_assert_msg(lk_stream_create(d, info, &s) == LK_OK, "%s", lk_error_text());
    return s;
}

/* An op that writes its value at the end of a list when the stream comes to it. */
struct log {
    int n, values[MAX_WORK];
};
struct log_args {
    struct log *log;
    int value;
};

static void append(void *arg)
{
    struct log_args *a = arg;

    a->log->values[a->log->n++] = a->value;
    free(a);
}

static enum lk_status log_launch(const void *args, const struct lk_cuda *c)
{
    struct log_args *copy = malloc(sizeof *copy);

    memcpy(copy, args, sizeof *copy);
    ck_assert_int_eq(c->real, LK_F32);
    return lk_cuda_status((int)enqueue((cudaStream_t)c->stream,
                                       (struct work){.kind = WORK_RUN, .fn = append, .arg = copy}),
                          "log");
}

static const struct lk_op log_op = {
    .name = "log", .args_bytes = sizeof(struct log_args), .cuda = log_launch};

static void log_value(struct lk_stream *s, struct log *log, int value)
{
    struct log_args a = {.log = log, .value = value};

    ck_assert_int_eq(lk_stream_launch(s, &log_op, &a), LK_OK);
}

static enum lk_status log_host(struct lk_stream *s, const void *arg)
{
    const struct log_args *a = arg;

    (void)s;
    a->log->values[a->log->n++] = a->value;
    return LK_OK;
}

static enum lk_status fail_host(struct lk_stream *s, const void *arg)
{
    (void)s;
    (void)arg;
    return lk_fail(LK_EPEER, "rank 3 was lost");
}

/* ---- Tests ---- */

START_TEST(work_runs_in_order_and_later)
{
    struct log *log = calloc(1, sizeof *log);
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);
    struct log_args third = {.log = log, .value = 3};
    int copied = 0, four = 4;

    log_value(s, log, 1);
    log_value(s, log, 2);
    ck_assert_int_eq(lk_stream_host(s, log_host, &third, sizeof third), LK_OK);
    ck_assert_int_eq(lk_stream_copy(s, &copied, &four, sizeof copied), LK_OK);
    ck_assert_int_eq(log->n, 0);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(log->values[i], i + 1);
    ck_assert_int_eq(copied, 4);
    lk_stream_destroy(s);
    lk_device_close(d);
    free(log);
}
END_TEST

/* The second stream would run first but for the event; recording it again changes nothing. */
START_TEST(streams_wait_for_events)
{
    struct log *log = calloc(1, sizeof *log);
    struct lk_device *d = must_open();
    struct lk_stream *first = must_stream(d, &compute_info), *second = must_stream(d, &net_info);
    struct lk_event *e;
    uint64_t before_ns = lk_now_ns();

    ck_assert_int_eq(lk_event_create(d, &e), LK_OK);
    log_value(first, log, 1);
    log_value(first, log, 2);
    ck_assert_int_eq(lk_event_record(e, first), LK_OK);
    ck_assert_int_eq(lk_stream_wait(second, e), LK_OK);
    log_value(second, log, 3);
    log_value(first, log, 4);
    ck_assert_int_eq(lk_event_record(e, first), LK_OK);
    ck_assert_int_eq(lk_stream_sync(second, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->values[0], 1);
    ck_assert_int_eq(log->values[1], 2);
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->n, 4);
    /* Floats of milliseconds since the origin: a microsecond is near enough. */
    ck_assert_uint_ge(lk_event_time_ns(e) + 1000, before_ns);
    ck_assert_uint_le(lk_event_time_ns(e), lk_now_ns() + 1000);
    lk_event_destroy(e);
    lk_stream_destroy(second);
    lk_stream_destroy(first);
    lk_device_close(d);
    free(log);
}
END_TEST

/* Thousands of points in flight, and events used again afterwards. A stream that nobody waits for
 * does not gather more. */
START_TEST(events_are_used_again)
{
    enum { N = 2000 };
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);
    struct lk_event *e;
    int alive;

    ck_assert_int_eq(lk_event_create(d, &e), LK_OK);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    alive = fake.events_alive;
    ck_assert_int_lt(alive, N / 10);
    fake.stuck = true;
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    fake.stuck = false;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    alive = fake.events_alive;
    ck_assert_int_ge(alive, N);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(fake.events_alive, alive);
    lk_event_destroy(e);
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

START_TEST(deadlines_end_waits)
{
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);

    fake.stuck = true;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(1)), LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "stream 'compute'"));
    fake.stuck = false;
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

/* An error of the GPU is the device's for good. */
START_TEST(errors_stick)
{
    struct log *log = calloc(1, sizeof *log);
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);
    struct log_args a = {.log = log};

    fake.query_error = cudaErrorIllegalAddress;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "cudaErrorIllegalAddress"));
    fake.query_error = cudaSuccess;
    ck_assert_int_eq(lk_stream_launch(s, &log_op, &a), LK_EINTERNAL);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EINTERNAL);
    lk_stream_destroy(s);
    lk_device_close(d);
    free(log);
}
END_TEST

START_TEST(host_functions_fail_the_device)
{
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &net_info);

    ck_assert_int_eq(lk_stream_host(s, fail_host, "", 1), LK_OK);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "rank 3 was lost");
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

START_TEST(comm_streams_go_first)
{
    struct lk_device *d = must_open();
    struct lk_stream *compute = must_stream(d, &compute_info), *net = must_stream(d, &net_info);

    ck_assert_int_eq(fake.streams[0].priority, 0);
    ck_assert_int_eq(fake.streams[1].priority, -5);
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_device_close(d);
}
END_TEST

static const struct {
    cudaError_t error;
    enum lk_status status;
    const char *says;
} openings[] = {
    {cudaErrorInsufficientDriver, LK_EUNSUPPORTED, "cudaErrorInsufficientDriver"},
    {cudaErrorNoDevice,           LK_EUNSUPPORTED, "cudaErrorNoDevice"          },
    {cudaErrorUnknown,            LK_EINTERNAL,    "cudaErrorUnknown"           },
};

START_TEST(machines_without_a_gpu)
{
    struct lk_device *d = NULL;

    fake.fail_at = 1;
    fake.fail_with = openings[_i].error;
    ck_assert_int_eq(open_device(&d, 0, false), openings[_i].status);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "device cuda"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), openings[_i].says));
    fake.fail_at = 0;
    fake.gpus = 0;
    ck_assert_int_eq(open_device(&d, 0, false), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "sees no GPU"));
}
END_TEST

/* CUDA itself, as this machine has it: a device, or a reason. */
START_TEST(this_machine)
{
    const struct lk_device_config config = {.local_rank = 0};
    struct lk_device *d = NULL;
    enum lk_status st = lk_device_open("cuda", &config, &d);

    ck_assert_msg(st == LK_OK || st == LK_EUNSUPPORTED, "%s", lk_error_text());
    ck_assert(st == LK_OK || strlen(lk_error_text()) > 20);
    lk_device_close(d);
}
END_TEST

START_TEST(gpu_by_local_rank)
{
    struct lk_device *first = must_open(), *second = NULL, *third = NULL;

    ck_assert_int_eq(open_device(&second, 1, false), LK_OK);
    ck_assert_int_eq(open_device(&third, 2, false), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "local ranks 0 (process"));
    ck_assert_ptr_nonnull(
        strstr(lk_error_text(), "and 2 would be on one GPU (GPU-00000000-0000-0000-0000-"));
    lk_device_close(first);
    ck_assert_int_eq(open_device(&third, 2, false), LK_OK);
    lk_device_close(second);
    lk_device_close(third);
    ck_assert_int_eq(open_device(&first, 0, true), LK_OK);
    ck_assert_int_eq(open_device(&third, 2, true), LK_OK);
    lk_device_close(first);
    lk_device_close(third);
}
END_TEST

START_TEST(memory_is_zeroed_and_can_run_out)
{
    struct lk_device *d = must_open();
    unsigned char *p = NULL;

    ck_assert_int_eq(lk_device_alloc(d, 100, (void **)&p), LK_OK);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(p[i], 0);
    lk_device_free(d, p);
    lk_device_free(d, NULL);
    fake.fail_at = fake.calls + 1;
    fake.fail_with = cudaErrorMemoryAllocation;
    ck_assert_int_eq(lk_device_alloc(d, 12345, (void **)&p), LK_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "12345 bytes"));
    lk_device_close(d);
}
END_TEST

static enum lk_status short_life(void)
{
    struct log *log = calloc(1, sizeof *log);
    struct log_args a = {.log = log};
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL, *net = NULL;
    struct lk_event *e = NULL;
    void *p = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(open_device(&d, 1, false));
    LK_TRY(lk_stream_create(d, &compute_info, &s));
    LK_TRY(lk_stream_create(d, &net_info, &net));
    LK_TRY(lk_event_create(d, &e));
    LK_TRY(lk_device_alloc(d, 64, &p));
    LK_TRY(lk_stream_host(s, log_host, &a, sizeof a));
    LK_TRY(lk_event_record(e, s));
    LK_TRY(lk_stream_wait(net, e));
    LK_TRY(lk_stream_copy(net, p, log, 64));
    LK_TRY(lk_stream_sync(net, lk_deadline_in(hang_ns)));
out:
    lk_stream_destroy(net);
    lk_stream_destroy(s);
    lk_event_destroy(e);
    if (d)
        lk_device_free(d, p);
    lk_device_close(d);
    free(log);
    return st;
}

/* Every call fails once: what was made before is released (teardown counts), and the error returns.
 */
START_TEST(any_call_may_fail)
{
    int calls_of_a_life;

    ck_assert_msg(short_life() == LK_OK, "%s", lk_error_text());
    calls_of_a_life = fake.calls;
    for (int i = 1; i <= calls_of_a_life; i++) {
        fake.calls = 0;
        fake.n_streams = 0;
        memset(fake.streams, 0, sizeof fake.streams);
        fake.fail_at = i;
        fake.fail_with = cudaErrorMemoryAllocation;
        /* Closing streams synchronises them, and has nobody to tell. */
        ck_assert(short_life() == LK_ENOMEM || i > calls_of_a_life - 2);
        ck_assert_int_eq(fake.events_alive, 0);
        ck_assert_int_eq(fake.streams_alive, 0);
        ck_assert_int_eq(fake.contexts_alive, 0);
        ck_assert_int_eq(fake.allocated, 0);
    }
}
END_TEST

Suite *lk_suite_device_cuda(void);
Suite *lk_suite_device_cuda(void)
{
    Suite *s = suite_create("device_cuda");
    TCase *tc = tcase_create("without a GPU");

    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, work_runs_in_order_and_later);
    tcase_add_test(tc, streams_wait_for_events);
    tcase_add_test(tc, events_are_used_again);
    tcase_add_test(tc, deadlines_end_waits);
    tcase_add_test(tc, errors_stick);
    tcase_add_test(tc, host_functions_fail_the_device);
    tcase_add_test(tc, comm_streams_go_first);
    tcase_add_loop_test(tc, machines_without_a_gpu, 0, LK_COUNT(openings));
    tcase_add_test(tc, this_machine);
    tcase_add_test(tc, gpu_by_local_rank);
    tcase_add_test(tc, memory_is_zeroed_and_can_run_out);
    tcase_add_test(tc, any_call_may_fail);
    return s;
}
