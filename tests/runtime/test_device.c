/* Devices: order, concurrency, events, the sticky failure, deadlines, and time on `timed`. */
#include "base/array.h"
#include "runtime/device/device.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* A hang ends a test after this; no test asserts durations. */
static const uint64_t long_ns = WAIT_PLENTY_NS;

static const char *const all_devices[] = {"cpu", "timed", "reference"};
static const char *const thread_devices[] = {"cpu", "timed"};
static const char *const compute_devices[] = {"cpu", "reference"};

/* Host functions run on every device; ops only where the device computes. */

struct log {
    atomic_int n;
    int entries[8192];
};
struct log_args {
    struct log *log;
    int value;
};

static void log_append(const void *args)
{
    const struct log_args *a = args;

    a->log->entries[atomic_fetch_add(&a->log->n, 1)] = a->value;
}

static enum lk_status log_host(struct lk_stream *s, const void *arg)
{
    (void)s;
    log_append(arg);
    return LK_OK;
}

static struct lk_op_cost no_cost(const void *args)
{
    (void)args;
    return (struct lk_op_cost){0};
}

static const struct lk_op log_op = {.name = "log",
                                    .args_bytes = sizeof(struct log_args),
                                    .cpu = log_append,
                                    .ref = log_append,
                                    .cost = no_cost};

/* A gate that a host function waits at, and one that it opens. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool is_open;
};

#define GATE                                                                                       \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                 \
    }

static void gate_open(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->is_open = true;
    pthread_cond_broadcast(&g->cond);
    pthread_mutex_unlock(&g->lock);
}

static bool gate_wait(struct gate *g, uint64_t timeout_ns)
{
    struct timespec at = lk_deadline_timespec(lk_deadline_in(timeout_ns));
    bool is_open;

    pthread_mutex_lock(&g->lock);
    while (!g->is_open)
        if (pthread_cond_clockwait(&g->cond, &g->lock, CLOCK_MONOTONIC, &at))
            break;
    is_open = g->is_open;
    pthread_mutex_unlock(&g->lock);
    return is_open;
}

struct gate_args {
    struct gate *opens, *waits;
};

static enum lk_status gate_host(struct lk_stream *s, const void *arg)
{
    const struct gate_args *a = arg;

    (void)s;
    if (a->opens)
        gate_open(a->opens);
    if (a->waits && !gate_wait(a->waits, long_ns))
        return lk_fail(LK_ETIMEOUT, "nobody opened the gate");
    return LK_OK;
}

static enum lk_status fail_host(struct lk_stream *s, const void *arg)
{
    (void)s;
    (void)arg;
    return lk_fail(LK_EPEER, "rank 3 went away");
}

static enum lk_status nap_host(struct lk_stream *s, const void *arg)
{
    (void)s;
    (void)arg;
    lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
    return LK_OK;
}

/* A device with up to three streams. */
struct rig {
    struct lk_recorder *recorder;
    struct lk_device *device;
    struct lk_stream *streams[3];
};

static struct rig *rig_open(const char *name)
{
    static struct rig rig; /* a test is a process of its own */
    struct lk_track_info info = {.name = "test stream", .kind = LK_TRACK_COMPUTE};
    struct lk_device_config config = {.timed_flops = 1e9, .timed_Bps = 1e9, .slowdown = 1};

    memset(&rig, 0, sizeof rig);
    ck_assert_int_eq(lk_recorder_create(&rig.recorder), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(rig.recorder, &kept_ops, &kept), LK_OK);
    config.recorder = rig.recorder;
    ck_assert_int_eq(lk_device_open(name, &config, &rig.device), LK_OK);
    for (int i = 0; i < 3; i++) {
        info.stream = i;
        ck_assert_int_eq(lk_stream_create(rig.device, &info, &rig.streams[i]), LK_OK);
    }
    return &rig;
}

static void rig_close(struct rig *r)
{
    for (int i = 0; i < 3; i++)
        lk_stream_destroy(r->streams[i]);
    lk_device_close(r->device);
    lk_recorder_destroy(r->recorder);
    kept_reset();
}

static void sync_ok(struct lk_stream *s)
{
    enum lk_status st = lk_stream_sync(s, lk_deadline_in(long_ns));

    ck_assert_msg(st == LK_OK, "%s", lk_error_text());
}

static void host_ok(struct lk_stream *s, lk_host_fn fn, const void *arg, size_t bytes)
{
    ck_assert_int_eq(lk_stream_host(s, fn, arg, bytes), LK_OK);
}

static void gate_on(struct lk_stream *s, struct gate *opens, struct gate *waits)
{
    struct gate_args a = {opens, waits};

    host_ok(s, gate_host, &a, sizeof a);
}

START_TEST(a_stream_runs_in_order_with_copied_arguments)
{
    struct rig *r = rig_open(compute_devices[_i]);
    static struct log log;
    struct log_args a = {.log = &log};
    enum { N = 5000 }; /* more than the queue holds */

    for (int i = 0; i < N; i++) {
        a.value = i;
        if (i % 2)
            host_ok(r->streams[0], log_host, &a, sizeof a);
        else
            ck_assert_int_eq(lk_stream_launch(r->streams[0], &log_op, &a), LK_OK);
        a.value = -1;
    }
    sync_ok(r->streams[0]);
    ck_assert_int_eq(log.n, N);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(log.entries[i], i);
    rig_close(r);
}
END_TEST

START_TEST(two_streams_run_at_once)
{
    struct rig *r = rig_open(thread_devices[_i]);
    struct gate a = GATE, b = GATE;

    /* Each ends only while the other runs. */
    gate_on(r->streams[0], &a, &b);
    gate_on(r->streams[1], &b, &a);
    sync_ok(r->streams[0]);
    sync_ok(r->streams[1]);
    rig_close(r);
}
END_TEST

START_TEST(the_host_does_not_wait_for_the_stream)
{
    struct rig *r = rig_open(thread_devices[_i]);
    struct gate g = GATE;

    gate_on(r->streams[0], NULL, &g);
    for (int i = 0; i < 100; i++)
        host_ok(r->streams[0], gate_host, &(struct gate_args){NULL, NULL},
                sizeof(struct gate_args));
    gate_open(&g);
    sync_ok(r->streams[0]);
    rig_close(r);
}
END_TEST

START_TEST(an_event_orders_two_streams)
{
    struct rig *r = rig_open(all_devices[_i]);
    static struct log log;
    struct lk_event *there, *back;
    enum { N = 300 };

    ck_assert_int_eq(lk_event_create(r->device, &there), LK_OK);
    ck_assert_int_eq(lk_event_create(r->device, &back), LK_OK);
    for (int i = 0; i < N; i++) {
        host_ok(r->streams[0], log_host, &(struct log_args){&log, 2 * i}, sizeof(struct log_args));
        ck_assert_int_eq(lk_event_record(there, r->streams[0]), LK_OK);
        ck_assert_int_eq(lk_stream_wait(r->streams[1], there), LK_OK);
        host_ok(r->streams[1], log_host, &(struct log_args){&log, 2 * i + 1},
                sizeof(struct log_args));
        ck_assert_int_eq(lk_event_record(back, r->streams[1]), LK_OK);
        ck_assert_int_eq(lk_stream_wait(r->streams[0], back), LK_OK);
    }
    sync_ok(r->streams[0]);
    sync_ok(r->streams[1]);
    ck_assert_int_eq(log.n, 2 * N);
    for (int i = 0; i < 2 * N; i++)
        ck_assert_int_eq(log.entries[i], i);
    ck_assert_uint_le(lk_event_time_ns(there), lk_event_time_ns(back));
    lk_event_destroy(there);
    lk_event_destroy(back);
    rig_close(r);
}
END_TEST

START_TEST(a_wait_keeps_the_point_that_was_recorded_then)
{
    struct rig *r = rig_open(thread_devices[_i]);
    struct gate held = GATE, passed = GATE;
    struct lk_event *e;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    gate_on(r->streams[0], NULL, &held);
    ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
    ck_assert_int_eq(lk_stream_wait(r->streams[1], e), LK_OK);
    gate_on(r->streams[1], &passed, NULL);
    /* Recorded again on an idle stream: passed at once, but not for stream 1. */
    ck_assert_int_eq(lk_event_record(e, r->streams[2]), LK_OK);
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(long_ns)), LK_OK);
    ck_assert(!gate_wait(&passed, 30 * LK_NS_PER_MS));
    gate_open(&held);
    sync_ok(r->streams[1]);
    ck_assert(passed.is_open);
    lk_event_destroy(e);
    rig_close(r);
}
END_TEST

START_TEST(an_event_may_go_before_it_is_passed)
{
    struct rig *r = rig_open(all_devices[_i]);
    struct gate g = GATE;

    if (strcmp(all_devices[_i], "reference"))
        gate_on(r->streams[0], NULL, &g);
    for (int i = 0; i < 10; i++) {
        struct lk_event *e;

        ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
        ck_assert_int_eq(lk_stream_wait(r->streams[1], e), LK_OK); /* never recorded: no wait */
        ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(0)), LK_OK);
        ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
        ck_assert_int_eq(lk_stream_wait(r->streams[1], e), LK_OK);
        lk_event_destroy(e);
    }
    gate_open(&g);
    sync_ok(r->streams[1]);
    rig_close(r);
}
END_TEST

START_TEST(the_first_failure_sticks)
{
    struct rig *r = rig_open(all_devices[_i]);
    static struct log log;
    struct log_args a = {.log = &log};
    struct lk_event *e;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    host_ok(r->streams[0], fail_host, NULL, 0);
    (void)lk_stream_host(r->streams[0], log_host, &a, sizeof a); /* refused or skipped */
    (void)lk_event_record(e, r->streams[0]);
    (void)lk_stream_wait(r->streams[1], e);
    (void)lk_stream_host(r->streams[1], log_host, &a, sizeof a);
    ck_assert_int_eq(lk_stream_sync(r->streams[0], lk_deadline_in(long_ns)), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "rank 3 went away");
    ck_assert_int_eq(lk_stream_sync(r->streams[1], lk_deadline_in(long_ns)), LK_EPEER);
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(long_ns)), LK_EPEER);
    lk_device_fail(r->device, LK_EIO, "a later one");
    ck_assert_int_eq(lk_stream_host(r->streams[2], log_host, &a, sizeof a), LK_EPEER);
    ck_assert_int_eq(lk_device_status(r->device), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "rank 3 went away");
    lk_event_destroy(e);
    rig_close(r);
    ck_assert_int_eq(log.n, 0);
}
END_TEST

static void *fail_soon(void *device)
{
    lk_sleep_until_ns(lk_monotonic_ns() + 20 * LK_NS_PER_MS);
    lk_device_fail(device, LK_EPEER, "told by another thread");
    return NULL;
}

START_TEST(a_failure_ends_every_wait)
{
    struct rig *r = rig_open(thread_devices[_i]);
    struct gate g = GATE;
    struct lk_event *e;
    pthread_t thread;
    enum lk_status st = LK_OK;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    gate_on(r->streams[0], NULL, &g);
    ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
    ck_assert_int_eq(lk_stream_wait(r->streams[1], e), LK_OK); /* a stream waits */
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_soon, r->device), 0);
    while (st == LK_OK) /* the host waits for room in the queue, then fails to enqueue */
        st = lk_stream_host(r->streams[1], nap_host, NULL, 0);
    ck_assert_int_eq(st, LK_EPEER);
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(UINT64_MAX)), LK_EPEER);
    ck_assert_int_eq(lk_stream_sync(r->streams[1], lk_deadline_in(UINT64_MAX)), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "told by another thread");
    pthread_join(thread, NULL);
    lk_event_destroy(e);
    gate_open(&g);
    rig_close(r);
}
END_TEST

START_TEST(destroy_drops_what_is_queued)
{
    struct rig *r = rig_open(thread_devices[_i]);
    static struct log log;
    struct log_args a = {.log = &log};
    struct gate g = GATE;
    struct lk_event *e;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    gate_on(r->streams[0], NULL, &g);
    ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
    ck_assert_int_eq(lk_stream_wait(r->streams[1], e), LK_OK);
    host_ok(r->streams[1], log_host, &a, sizeof a);
    ck_assert_int_eq(lk_event_record(e, r->streams[1]), LK_OK);
    ck_assert_int_eq(lk_stream_wait(r->streams[2], e), LK_OK);
    lk_stream_destroy(r->streams[1]); /* while it waits for stream 0 */
    sync_ok(r->streams[2]);           /* which waited for the destroyed one */
    ck_assert_int_eq(log.n, 0);
    gate_open(&g);
    r->streams[1] = NULL;
    lk_event_destroy(e);
    rig_close(r);
}
END_TEST

START_TEST(a_deadline_ends_a_wait_and_nothing_else)
{
    struct rig *r = rig_open(thread_devices[_i]);
    struct gate g = GATE, began = GATE;
    struct lk_event *e;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    gate_on(r->streams[0], &began, &g);
    ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
    ck_assert(gate_wait(&began, long_ns));
    ck_assert_int_eq(lk_stream_sync(r->streams[0], lk_deadline_in(LK_NS_PER_MS)), LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "host function is running, 1 more"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "test stream"));
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(LK_NS_PER_MS)), LK_ETIMEOUT);
    gate_open(&g);
    sync_ok(r->streams[0]);
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(0)), LK_OK);
    lk_event_destroy(e);
    rig_close(r);
}
END_TEST

START_TEST(memory_is_zeroed_aligned_and_copied)
{
    struct rig *r = rig_open(all_devices[_i]);
    unsigned char *a, *b;
    enum { N = 1000 };

    ck_assert_int_eq(lk_device_alloc(r->device, N, (void **)&a), LK_OK);
    ck_assert_int_eq(lk_device_alloc(r->device, N, (void **)&b), LK_OK);
    ck_assert_uint_eq((uintptr_t)a % 64, 0);
    for (int i = 0; i < N; i++) {
        ck_assert_uint_eq(a[i], 0);
        a[i] = (unsigned char)i;
    }
    ck_assert_int_eq(lk_stream_copy(r->streams[0], b, a, N), LK_OK);
    ck_assert_int_eq(lk_stream_copy(r->streams[0], NULL, NULL, 0), LK_OK);
    sync_ok(r->streams[0]);
    ck_assert_mem_eq(a, b, N);
    ck_assert_uint_eq(kept.tracks[0].spans[0].bytes, N);
    lk_device_free(r->device, a);
    lk_device_free(r->device, b);
    lk_device_free(r->device, NULL);
    ck_assert_int_eq(lk_device_alloc(r->device, SIZE_MAX, (void **)&a), LK_ENOMEM);
    rig_close(r);
}
END_TEST

START_TEST(what_a_device_lacks_is_an_error)
{
    struct rig *r = rig_open(all_devices[_i]);
    struct lk_op empty = {.name = "hollow", .args_bytes = 8};
    struct lk_op fat = {.name = "fat", .args_bytes = LK_OP_ARGS_MAX + 1};
    unsigned char args[LK_OP_ARGS_MAX + 1] = {0};
    struct lk_device *d;

    ck_assert_int_eq(lk_stream_launch(r->streams[0], &empty, args), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "hollow"));
    ck_assert_int_eq(lk_stream_launch(r->streams[0], &fat, args), LK_EINTERNAL);
    ck_assert_int_eq(lk_stream_host(r->streams[0], log_host, args, sizeof args), LK_EINTERNAL);
    sync_ok(r->streams[0]); /* none of this is a failure of the device */
    ck_assert_int_eq(lk_device_open("abacus", &(struct lk_device_config){0}, &d), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "cpu timed reference"));
    ck_assert_int_eq(lk_device_open("timed", &(struct lk_device_config){.timed_flops = 1}, &d),
                     LK_EUSAGE);
    rig_close(r);
}
END_TEST

START_TEST(spans_tell_what_ran)
{
    struct rig *r = rig_open(compute_devices[_i]);
    const struct kept_track *k = &kept.tracks[0];
    static struct log log;
    struct log_args a = {.log = &log};

    lk_stream_set_step(r->streams[0], 7);
    ck_assert_int_eq(lk_stream_range_begin(r->streams[0], LK_SPAN_FORWARD, 3), LK_OK);
    ck_assert_int_eq(lk_stream_launch(r->streams[0], &log_op, &a), LK_OK);
    ck_assert_int_eq(lk_stream_mark(r->streams[0], LK_SPAN_GRADIENT, 5), LK_OK);
    lk_stream_set_step(r->streams[0], 8); /* for later work */
    ck_assert_int_eq(lk_stream_range_end(r->streams[0]), LK_OK);
    sync_ok(r->streams[0]);
    ck_assert_uint_eq(k->n, 3);
    ck_assert_uint_eq(k->spans[0].kind, LK_SPAN_KERNEL);
    ck_assert_str_eq(kept.names[k->spans[0].name], "log");
    ck_assert_uint_eq(k->spans[1].kind, LK_SPAN_GRADIENT);
    ck_assert_int_eq(k->spans[1].index, 5);
    ck_assert_uint_eq(k->spans[1].start_ns, k->spans[1].end_ns);
    ck_assert_uint_eq(k->spans[2].kind, LK_SPAN_FORWARD);
    ck_assert_int_eq(k->spans[2].index, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(k->spans[i].step, 7);
    ck_assert_uint_le(k->spans[2].start_ns, k->spans[0].start_ns);
    ck_assert_uint_le(k->spans[0].start_ns, k->spans[0].end_ns);
    ck_assert_uint_le(k->spans[0].end_ns, k->spans[1].start_ns);
    ck_assert_uint_le(k->spans[1].end_ns, k->spans[2].end_ns);
    rig_close(r);
}
END_TEST

static struct lk_op_cost cost_of(const void *args)
{
    struct lk_op_cost cost;

    memcpy(&cost, args, sizeof cost);
    return cost;
}
static const struct lk_op costly = {
    .name = "costly", .args_bytes = sizeof(struct lk_op_cost), .cost = cost_of};

/* Everything is queued behind a gate, so that the host's speed affects no figure. */
START_TEST(a_timed_op_takes_its_cost_and_lateness_does_not_add_up)
{
    struct rig *r = rig_open("timed"); /* 1e9 flop/s, 1e9 B/s */
    const struct kept_track *k = &kept.tracks[0];
    struct lk_op_cost by_flops = {.flops = 20e3, .bytes = 10};
    struct lk_op_cost by_bytes = {.flops = 10, .bytes = 5e3, .seconds = 5e-6};
    struct lk_event *e;
    struct gate g = GATE;
    enum { N = 200 };
    uint64_t opened_ns;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    gate_on(r->streams[0], NULL, &g);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(lk_stream_launch(r->streams[0], &costly, i % 2 ? &by_bytes : &by_flops),
                         LK_OK);
    ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
    opened_ns = lk_now_ns();
    gate_open(&g);
    sync_ok(r->streams[0]);
    ck_assert_uint_ge(lk_now_ns() - opened_ns, N / 2 * 30000);
    ck_assert_uint_eq(k->n, N);
    ck_assert_uint_ge(k->spans[0].start_ns, opened_ns);
    for (size_t i = 0; i < N; i++) {
        ck_assert_uint_eq(k->spans[i].end_ns - k->spans[i].start_ns, i % 2 ? 10000 : 20000);
        if (i) /* however late the previous one was seen to end */
            ck_assert_uint_eq(k->spans[i].start_ns, k->spans[i - 1].end_ns);
    }
    ck_assert_uint_eq(lk_event_time_ns(e), k->spans[N - 1].end_ns);
    lk_event_destroy(e);
    rig_close(r);
}
END_TEST

START_TEST(timed_streams_hand_on_their_time)
{
    struct rig *r = rig_open("timed");
    struct lk_op_cost ms2 = {.seconds = 2e-3};
    struct lk_event *e;
    struct gate g = GATE;

    ck_assert_int_eq(lk_event_create(r->device, &e), LK_OK);
    gate_on(r->streams[0], NULL, &g);
    ck_assert_int_eq(lk_stream_launch(r->streams[0], &costly, &ms2), LK_OK);
    ck_assert_int_eq(lk_event_record(e, r->streams[0]), LK_OK);
    ck_assert_int_eq(lk_stream_wait(r->streams[1], e), LK_OK);
    ck_assert_int_eq(lk_stream_launch(r->streams[1], &costly, &ms2), LK_OK);
    gate_open(&g);
    sync_ok(r->streams[1]);
    ck_assert_uint_eq(kept.tracks[1].spans[0].start_ns, kept.tracks[0].spans[0].end_ns);
    lk_event_destroy(e);
    rig_close(r);
}
END_TEST

START_TEST(a_long_timed_op_ends_with_its_device)
{
    struct rig *r = rig_open("timed");
    struct lk_op_cost hours = {.seconds = 1e4};

    ck_assert_int_eq(lk_stream_launch(r->streams[0], &costly, &hours), LK_OK);
    ck_assert_int_eq(lk_stream_launch(r->streams[1], &costly, &hours), LK_OK);
    lk_stream_destroy(r->streams[0]); /* by its stream */
    r->streams[0] = NULL;
    lk_device_fail(r->device, LK_EPEER, "enough"); /* by a failure */
    ck_assert_int_eq(lk_stream_sync(r->streams[1], lk_deadline_in(UINT64_MAX)), LK_EPEER);
    rig_close(r);
}
END_TEST

SUITE(device, c)
{
    const int n_all = LK_COUNT(all_devices);
    const int n_threads = LK_COUNT(thread_devices);
    const int n_compute = LK_COUNT(compute_devices);

    tcase_add_loop_test(c, a_stream_runs_in_order_with_copied_arguments, 0, n_compute);
    tcase_add_loop_test(c, two_streams_run_at_once, 0, n_threads);
    tcase_add_loop_test(c, the_host_does_not_wait_for_the_stream, 0, n_threads);
    tcase_add_loop_test(c, an_event_orders_two_streams, 0, n_all);
    tcase_add_loop_test(c, a_wait_keeps_the_point_that_was_recorded_then, 0, n_threads);
    tcase_add_loop_test(c, an_event_may_go_before_it_is_passed, 0, n_all);
    tcase_add_loop_test(c, the_first_failure_sticks, 0, n_all);
    tcase_add_loop_test(c, a_failure_ends_every_wait, 0, n_threads);
    tcase_add_loop_test(c, destroy_drops_what_is_queued, 0, n_threads);
    tcase_add_loop_test(c, a_deadline_ends_a_wait_and_nothing_else, 0, n_threads);
    tcase_add_loop_test(c, memory_is_zeroed_aligned_and_copied, 0, n_all);
    tcase_add_loop_test(c, what_a_device_lacks_is_an_error, 0, n_all);
    tcase_add_loop_test(c, spans_tell_what_ran, 0, n_compute);
    tcase_add_test(c, a_timed_op_takes_its_cost_and_lateness_does_not_add_up);
    tcase_add_test(c, timed_streams_hand_on_their_time);
    tcase_add_test(c, a_long_timed_op_ends_with_its_device);
}
