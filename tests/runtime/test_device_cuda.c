/* The device cuda without a GPU: its reaction to CUDA's results (tests/fakes/fake_cuda.h). */
#include "base/array.h"
#include "runtime/device/calls_cuda.h"
#include "runtime/device/device.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t hang_ns = WAIT_PLENTY_NS;

/* ---- Shared by tests ---- */

static char *locks;
static const struct lk_track_info compute_info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
static const struct lk_track_info net_info = {.name = "net", .kind = LK_TRACK_COMM};

static void setup(void)
{
    locks = scratch_create_for_gpus();
    fake_cuda_reset(2);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(locks);
}

static enum lk_status open_device(struct lk_device **d, int local_rank, bool share)
{
    const struct lk_device_config config = {
        .local_rank = local_rank, .share_gpu = share, .cuda_calls = &fake_cuda_calls};

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

/* An op that appends its value to a list when the stream reaches it. */
struct log {
    int n, values[FAKE_WORK_MAX];
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
    fake_cuda_run_on((cudaStream_t)c->stream, append, copy);
    return LK_OK;
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
    int *host = NULL;
    void *device = NULL;

    ck_assert_int_eq(lk_device_alloc_host(d, 2 * sizeof *host, (void **)&host), LK_OK);
    ck_assert_int_eq(lk_device_alloc(d, sizeof *host, &device), LK_OK);
    host[0] = 4;
    log_value(s, log, 1);
    log_value(s, log, 2);
    ck_assert_int_eq(lk_stream_host(s, log_host, &third, sizeof third), LK_OK);
    ck_assert_int_eq(lk_stream_copy(s, device, &host[0], sizeof *host), LK_OK);
    ck_assert_int_eq(lk_stream_copy(s, &host[1], device, sizeof *host), LK_OK);
    ck_assert_int_eq(log->n, 0);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(log->values[i], i + 1);
    ck_assert_int_eq(host[1], 4);
    lk_device_free_host(d, host);
    lk_device_free(d, device);
    lk_stream_destroy(s);
    lk_device_close(d);
    free(log);
}
END_TEST

/* With compared times the host's clock is the GPU's, so that a slow host does not matter. */
static double a_ms(const struct fake_work *w, const struct fake_stream *s)
{
    (void)w;
    (void)s;
    return 1;
}

/* Without the event the second stream would run first; recording the event
 * again changes nothing. */
START_TEST(streams_wait_for_events)
{
    struct log *log = calloc(1, sizeof *log);
    struct lk_device *d;
    struct lk_stream *first, *second;
    struct lk_event *e;
    uint64_t passed_ns;

    fake_cuda.takes_ms = a_ms;
    d = must_open();
    first = must_stream(d, &compute_info);
    second = must_stream(d, &net_info);
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
    passed_ns = fake_cuda.reset_ns + (uint64_t)(fake_cuda.streams[0].ms * 1e6);
    ck_assert_uint_ge(lk_event_time_ns(e) + 1000, passed_ns);
    ck_assert_uint_le(lk_event_time_ns(e), passed_ns + 1000);
    lk_event_destroy(e);
    lk_stream_destroy(second);
    lk_stream_destroy(first);
    lk_device_close(d);
    free(log);
}
END_TEST

/* Thousands of event points are in flight, and events are reused afterwards. A stream that nobody
 * waits for does not accumulate more. */
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
    alive = fake_cuda.events_alive;
    ck_assert_int_lt(alive, N / 10);
    fake_cuda.stuck = true;
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    fake_cuda.stuck = false;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    alive = fake_cuda.events_alive;
    ck_assert_int_ge(alive, N);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive);
    lk_event_destroy(e);
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

static struct lk_device *recording_device(struct lk_recorder **r)
{
    struct lk_device_config config = {.cuda_calls = &fake_cuda_calls};
    struct lk_device *d = NULL;

    ck_assert_int_eq(lk_recorder_create(r), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(*r, &kept_ops, &kept), LK_OK);
    config.recorder = *r;
    ck_assert_int_eq(lk_device_open("cuda", &config, &d), LK_OK);
    return d;
}

/*
 * A bucket's event is recorded in every step, and the host looks at its collectives' stream late,
 * when the event may be steps ahead. Each range must have its own point's time.
 */
START_TEST(ranges_are_ready_at_their_own_point)
{
    const struct lk_span collective = {.kind = LK_SPAN_COLLECTIVE};
    struct lk_recorder *r = NULL;
    struct lk_device *d;
    struct lk_stream *compute, *net;
    struct lk_event *e = NULL;
    uint64_t passed_ns[4], last_ns = 0;

    fake_cuda.takes_ms = a_ms;
    d = recording_device(&r);
    compute = must_stream(d, &compute_info);
    net = must_stream(d, &net_info);
    ck_assert_int_eq(lk_event_create(d, &e), LK_OK);
    for (size_t i = 0; i < LK_COUNT(passed_ns); i++) {
        ck_assert_int_eq(lk_event_record(e, compute), LK_OK);
        ck_assert_int_eq(lk_stream_wait(net, e), LK_OK);
        ck_assert_int_eq(lk_stream_span_begin(net, &collective, e), LK_OK);
        ck_assert_int_eq(lk_stream_range_end(net), LK_OK);
        if (_i == 0) /* otherwise points and ranges are looked at together */
            ck_assert_int_eq(lk_stream_sync(compute, lk_deadline_in(hang_ns)), LK_OK);
        passed_ns[i] = lk_event_time_ns(e);
    }
    ck_assert_int_eq(lk_stream_sync(net, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_uint_eq(kept_track("net")->n, LK_COUNT(passed_ns));
    for (size_t i = 0; i < LK_COUNT(passed_ns); i++) {
        const struct lk_span *s = &kept_track("net")->spans[i];

        ck_assert_uint_gt(s->ready_ns, last_ns);
        ck_assert_uint_le(s->ready_ns, s->start_ns);
        ck_assert_uint_le(s->start_ns, s->end_ns);
        if (_i == 0)
            ck_assert_uint_eq(s->ready_ns, passed_ns[i]);
        last_ns = s->ready_ns;
    }
    lk_event_destroy(e);
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
}
END_TEST

/* Without a track no time is needed, so spans cost no events. */
START_TEST(spans_without_a_track_are_no_events)
{
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);
    struct lk_event *e = NULL;
    int calls;

    ck_assert_int_eq(lk_event_create(d, &e), LK_OK);
    ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    calls = fake_cuda.calls;
    ck_assert_int_eq(lk_stream_range_begin(s, LK_SPAN_FORWARD, 0), LK_OK);
    ck_assert_int_eq(lk_stream_mark(s, LK_SPAN_GRADIENT, 0), LK_OK);
    ck_assert_int_eq(lk_stream_range_end(s), LK_OK);
    ck_assert_int_eq(lk_stream_span_begin(s, &(struct lk_span){.kind = LK_SPAN_COLLECTIVE}, e),
                     LK_OK);
    ck_assert_int_eq(lk_stream_range_end(s), LK_OK);
    ck_assert_int_eq(fake_cuda.calls, calls);
    lk_event_destroy(e);
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

/* Weight and bias are ready together and share one event, unless an op, or work put on CUDA's own
 * stream, comes between them. */
START_TEST(instants_together_share_an_event)
{
    struct log *log = calloc(1, sizeof *log);
    struct lk_recorder *r = NULL;
    struct lk_device *d;
    struct lk_stream *s;
    const struct lk_span *spans;
    int alive;

    fake_cuda.takes_ms = a_ms;
    d = recording_device(&r);
    s = must_stream(d, &compute_info);
    alive = fake_cuda.events_alive;
    fake_cuda.stuck = true; /* points stay */
    log_value(s, log, 1);
    for (int32_t i = 0; i < 3; i++)
        ck_assert_int_eq(lk_stream_mark(s, LK_SPAN_GRADIENT, i), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive + 1);
    log_value(s, log, 2);
    ck_assert_int_eq(lk_stream_mark(s, LK_SPAN_GRADIENT, 3), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive + 2);
    ck_assert_ptr_nonnull(lk_stream_native(s));
    ck_assert_int_eq(lk_stream_mark(s, LK_SPAN_GRADIENT, 4), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive + 3);
    fake_cuda.stuck = false;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive + 3);
    spans = kept_track("compute")->spans;
    ck_assert_uint_eq(kept_track("compute")->n, 5);
    for (int32_t i = 0; i < 5; i++)
        ck_assert_int_eq(spans[i].index, i);
    ck_assert_uint_eq(spans[0].start_ns, spans[2].start_ns);
    ck_assert_uint_gt(spans[3].start_ns, spans[2].start_ns);
    ck_assert_uint_gt(spans[4].start_ns, spans[3].start_ns);
    lk_stream_destroy(s);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
    free(log);
}
END_TEST

/* A range cannot begin at an earlier point: the stream may have been idle since. */
START_TEST(what_begins_has_its_own_event)
{
    struct lk_recorder *r = NULL;
    struct lk_device *d = recording_device(&r);
    struct lk_stream *s = must_stream(d, &compute_info);
    struct lk_event *e = NULL;
    int alive = fake_cuda.events_alive;

    ck_assert_int_eq(lk_event_create(d, &e), LK_OK);
    fake_cuda.stuck = true;
    ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    ck_assert_int_eq(lk_event_record(e, s), LK_OK);
    ck_assert_int_eq(lk_stream_range_begin(s, LK_SPAN_FORWARD, 0), LK_OK);
    ck_assert_int_eq(lk_stream_range_end(s), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive + 4);
    fake_cuda.stuck = false;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    lk_event_destroy(e);
    lk_stream_destroy(s);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
}
END_TEST

/* A wait on one stream renews the origin of all times; times recorded before
 * keep their own origin. */
START_TEST(times_outlive_their_origin)
{
    struct lk_recorder *r = NULL;
    struct lk_device *d;
    struct lk_stream *compute, *net;
    uint64_t passed_ns, end_ns;

    fake_cuda.takes_ms = a_ms;
    d = recording_device(&r);
    compute = must_stream(d, &compute_info);
    net = must_stream(d, &net_info);
    ck_assert_int_eq(lk_stream_range_begin(net, LK_SPAN_COLLECTIVE, 0), LK_OK);
    ck_assert_int_eq(lk_stream_range_end(net), LK_OK);
    fake_cuda_step();
    passed_ns = fake_cuda.reset_ns + (uint64_t)(fake_cuda.streams[1].ms * 1e6);
    fake_cuda.seen_ms += 2000; /* an origin is old after that */
    ck_assert_int_eq(lk_stream_sync(compute, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(lk_stream_sync(net, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_uint_eq(kept_track("net")->n, 1);
    end_ns = kept_track("net")->spans[0].end_ns;
    ck_assert_uint_le(end_ns, passed_ns + 1000); /* times are floats */
    ck_assert_uint_ge(end_ns + 1000, passed_ns);
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
}
END_TEST

START_TEST(deadlines_end_waits)
{
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);

    fake_cuda.stuck = true;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(1)), LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "stream 'compute'"));
    fake_cuda.stuck = false;
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

/* An error of the GPU makes the device fail for good. */
START_TEST(errors_stick)
{
    struct log *log = calloc(1, sizeof *log);
    struct lk_device *d = must_open();
    struct lk_stream *s = must_stream(d, &compute_info);
    struct log_args a = {.log = log};

    fake_cuda.query_error = cudaErrorIllegalAddress;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "cudaErrorIllegalAddress"));
    fake_cuda.query_error = cudaSuccess;
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

    ck_assert_int_eq(fake_cuda.streams[0].priority, 0);
    ck_assert_int_eq(fake_cuda.streams[1].priority, -5);
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
    {cudaErrorNoDevice, LK_EUNSUPPORTED, "cudaErrorNoDevice"},
    {cudaErrorUnknown, LK_EINTERNAL, "cudaErrorUnknown"},
};

START_TEST(machines_without_a_gpu)
{
    struct lk_device *d = NULL;

    fake_cuda.fail_at = 1;
    fake_cuda.fail_with = openings[_i].error;
    ck_assert_int_eq(open_device(&d, 0, false), openings[_i].status);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "device cuda"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), openings[_i].says));
    fake_cuda.fail_at = 0;
    fake_cuda.gpus = 0;
    ck_assert_int_eq(open_device(&d, 0, false), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "sees no GPU"));
}
END_TEST

/* Open the real CUDA of this machine: a device, or a reason why not. */
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
    unsigned char got[100], *p = NULL;

    ck_assert_int_eq(lk_device_alloc(d, sizeof got, (void **)&p), LK_OK);
    fake_cuda_peek(got, p, sizeof got);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(got[i], 0);
    lk_device_free(d, p);
    ck_assert_int_eq(lk_device_alloc_host(d, sizeof got, (void **)&p), LK_OK);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(p[i], 0);
    lk_device_free_host(d, p);
    lk_device_free(d, NULL);
    fake_cuda.fail_at = fake_cuda.calls + 1;
    fake_cuda.fail_with = cudaErrorMemoryAllocation;
    ck_assert_int_eq(lk_device_alloc(d, 12345, (void **)&p), LK_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "12345 bytes"));
    lk_device_close(d);
}
END_TEST

/* Run everything once. calls: number of calls into CUDA before closing,
 * which cannot report failures. */
static enum lk_status short_life(int *calls)
{
    struct log *log = calloc(1, sizeof *log);
    struct log_args a = {.log = log};
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL, *net = NULL;
    struct lk_event *e = NULL;
    void *p = NULL, *host = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(open_device(&d, 1, false));
    LK_TRY(lk_stream_create(d, &compute_info, &s));
    LK_TRY(lk_stream_create(d, &net_info, &net));
    LK_TRY(lk_event_create(d, &e));
    LK_TRY(lk_device_alloc(d, 64, &p));
    LK_TRY(lk_device_alloc_host(d, 64, &host));
    LK_TRY(lk_stream_host(s, log_host, &a, sizeof a));
    LK_TRY(lk_event_record(e, s));
    LK_TRY(lk_stream_wait(net, e));
    LK_TRY(lk_stream_copy(net, p, host, 64));
    LK_TRY(lk_stream_sync(net, lk_deadline_in(hang_ns)));
out:
    *calls = fake_cuda.calls;
    lk_stream_destroy(net);
    lk_stream_destroy(s);
    lk_event_destroy(e);
    if (d) {
        lk_device_free(d, p);
        lk_device_free_host(d, host);
    }
    lk_device_close(d);
    free(log);
    return st;
}

/* Every call fails once: earlier objects are released (teardown counts
 * them), and the error returns. */
START_TEST(any_call_may_fail)
{
    int calls_of_a_life, calls;

    ck_assert_msg(short_life(&calls_of_a_life) == LK_OK, "%s", lk_error_text());
    for (int i = 1; i <= calls_of_a_life; i++) {
        fake_cuda_reset(2);
        fake_cuda.fail_at = i;
        fake_cuda.fail_with = cudaErrorMemoryAllocation;
        ck_assert_int_eq(short_life(&calls), LK_ENOMEM);
        ck_assert_int_eq(fake_cuda.events_alive, 0);
        ck_assert_int_eq(fake_cuda.streams_alive, 0);
        ck_assert_int_eq(fake_cuda.contexts_alive, 0);
        ck_assert_int_eq(fake_cuda.allocated, 0);
    }
}
END_TEST

/* The links between GPUs follow from CUDA's properties of pairs of them. */
START_TEST(properties_are_those_of_the_gpu)
{
    static const struct {
        int gpus;
        bool nvlink, apart;
        enum lk_gpu_link link;
    } machines[] = {
        {1, true, false, LK_GPU_LINK_UNKNOWN},  {2, false, true, LK_GPU_LINK_UNKNOWN},
        {2, false, false, LK_GPU_LINK_PCIE},    {4, true, false, LK_GPU_LINK_NVLINK},
        {8, true, false, LK_GPU_LINK_NVSWITCH},
    };

    for (size_t i = 0; i < LK_COUNT(machines); i++) {
        struct lk_device_config config = {.cuda_calls = &fake_cuda_calls};
        struct lk_device_properties p;
        struct lk_device *d;
        int n = 0;

        fake_cuda_reset(machines[i].gpus);
        fake_cuda.nvlink = machines[i].nvlink;
        fake_cuda.apart = machines[i].apart;
        ck_assert_int_eq(lk_device_count("cuda", &config, &n), LK_OK);
        ck_assert_int_eq(n, machines[i].gpus);
        d = must_open();
        ck_assert_int_eq(lk_device_properties(d, &p), LK_OK);
        ck_assert_str_eq(p.name, "fake");
        ck_assert_int_eq(p.compute_capability, 90);
        ck_assert_int_eq(p.multiprocessors, 132);
        ck_assert_uint_eq(p.memory_bytes, (uint64_t)80 << 30);
        ck_assert_int_eq(p.gpus, machines[i].gpus);
        ck_assert_int_eq(p.link, machines[i].link);
        lk_device_close(d);
    }
}
END_TEST

SUITE(device_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, work_runs_in_order_and_later);
    tcase_add_test(tc, streams_wait_for_events);
    tcase_add_test(tc, properties_are_those_of_the_gpu);
    tcase_add_test(tc, events_are_used_again);
    tcase_add_loop_test(tc, ranges_are_ready_at_their_own_point, 0, 2);
    tcase_add_test(tc, spans_without_a_track_are_no_events);
    tcase_add_test(tc, times_outlive_their_origin);
    tcase_add_test(tc, instants_together_share_an_event);
    tcase_add_test(tc, what_begins_has_its_own_event);
    tcase_add_test(tc, deadlines_end_waits);
    tcase_add_test(tc, errors_stick);
    tcase_add_test(tc, host_functions_fail_the_device);
    tcase_add_test(tc, comm_streams_go_first);
    tcase_add_loop_test(tc, machines_without_a_gpu, 0, LK_COUNT(openings));
    tcase_add_test(tc, this_machine);
    tcase_add_test(tc, gpu_by_local_rank);
    tcase_add_test(tc, memory_is_zeroed_and_can_run_out);
    tcase_add_test(tc, any_call_may_fail);
}
