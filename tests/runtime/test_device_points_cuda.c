/* The points of the device cuda without a GPU: events, and the spans and times that follow from
 * them (tests/fakes/fake_cuda.h). */
#include "base/array.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/cuda_rig_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t hang_ns = WAIT_PLENTY_NS;

/* Thousands of event points are in flight, and events are reused afterwards. A stream that nobody
 * waits for does not accumulate more. */
START_TEST(events_are_used_again)
{
    enum { N = 2000 };
    struct lk_device *d = cuda_rig_device();
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_compute);
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

    fake_cuda.takes_ms = cuda_rig_a_ms;
    d = recording_device(&r);
    compute = cuda_rig_stream(d, &cuda_rig_compute);
    net = cuda_rig_stream(d, &cuda_rig_net);
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
    struct lk_device *d = cuda_rig_device();
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_compute);
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
    struct cuda_log *log = calloc(1, sizeof *log);
    struct lk_recorder *r = NULL;
    struct lk_device *d;
    struct lk_stream *s;
    const struct lk_span *spans;
    int alive;

    fake_cuda.takes_ms = cuda_rig_a_ms;
    d = recording_device(&r);
    s = cuda_rig_stream(d, &cuda_rig_compute);
    alive = fake_cuda.events_alive;
    fake_cuda.stuck = true; /* points stay */
    cuda_rig_log(s, log, 1);
    for (int32_t i = 0; i < 3; i++)
        ck_assert_int_eq(lk_stream_mark(s, LK_SPAN_GRADIENT, i), LK_OK);
    ck_assert_int_eq(fake_cuda.events_alive, alive + 1);
    cuda_rig_log(s, log, 2);
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
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_compute);
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

    fake_cuda.takes_ms = cuda_rig_a_ms;
    d = recording_device(&r);
    compute = cuda_rig_stream(d, &cuda_rig_compute);
    net = cuda_rig_stream(d, &cuda_rig_net);
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
    ck_assert_uint_ge(end_ns + 1000 + lk_device_clock_error_ns(d), passed_ns);
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
}
END_TEST

static int tries;

/* Records of events take 8, 2, 6, 9 and 7 ms in turn; all else a millisecond. */
static double uneven_ms(const struct fake_work *w, const struct fake_stream *s)
{
    static const double ms[] = {8, 2, 6, 9, 7};

    (void)s;
    return w->kind == WORK_RECORD ? ms[tries++ % 5] : 1;
}

/* The origin is the shortest of its tries, in the middle of it: the host may be interrupted in any,
 * also in the last. */
START_TEST(the_best_origin_counts)
{
    struct lk_recorder *r = NULL;
    struct lk_device *d;
    struct lk_stream *s;

    fake_cuda.takes_ms = uneven_ms;
    tries = 0;
    d = recording_device(&r);
    s = cuda_rig_stream(d, &cuda_rig_compute);
    ck_assert_int_eq(tries, 5);
    ck_assert_uint_le(lk_device_clock_error_ns(d), LK_NS_PER_MS + 1);
    ck_assert_uint_gt(lk_device_clock_error_ns(d), LK_NS_PER_MS / 2);
    lk_stream_destroy(s);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
}
END_TEST

static double instant_ms(const struct fake_work *w, const struct fake_stream *s)
{
    (void)w;
    (void)s;
    return 0.001;
}

/* Nearly a second after an origin, 50 millionths of drift are 45 us. */
START_TEST(clocks_that_drift)
{
    struct lk_recorder *r = NULL;
    struct lk_device *d;
    struct lk_stream *compute, *net;
    uint64_t passed_ns, end_ns;

    fake_cuda.takes_ms = instant_ms;
    fake_cuda.drift = 50e-6;
    d = recording_device(&r);
    compute = cuda_rig_stream(d, &cuda_rig_compute);
    net = cuda_rig_stream(d, &cuda_rig_net);
    fake_cuda.seen_ms += 20000;
    ck_assert_int_eq(lk_stream_sync(compute, lk_deadline_in(hang_ns)), LK_OK);
    fake_cuda.seen_ms += 900;
    ck_assert_int_eq(lk_stream_range_begin(net, LK_SPAN_COLLECTIVE, 0), LK_OK);
    ck_assert_int_eq(lk_stream_range_end(net), LK_OK);
    ck_assert_int_eq(lk_stream_sync(net, lk_deadline_in(hang_ns)), LK_OK);
    passed_ns = fake_cuda.reset_ns + (uint64_t)(fake_cuda.streams[1].ms * 1e6);
    end_ns = kept_track("net")->spans[0].end_ns;
    ck_assert_uint_le(end_ns, passed_ns + 3000);
    ck_assert_uint_ge(end_ns + 3000, passed_ns);
    /* 20 s with the rate of 1 were off by a millisecond, and the device says so. */
    ck_assert_uint_ge(lk_device_clock_error_ns(d), 990 * LK_NS_PER_US);
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_device_close(d);
    lk_recorder_destroy(r);
    kept_reset();
}
END_TEST

SUITE(device_points_cuda, tc)
{
    tcase_add_checked_fixture(tc, cuda_rig_setup, cuda_rig_teardown);
    tcase_add_test(tc, events_are_used_again);
    tcase_add_loop_test(tc, ranges_are_ready_at_their_own_point, 0, 2);
    tcase_add_test(tc, spans_without_a_track_are_no_events);
    tcase_add_test(tc, times_outlive_their_origin);
    tcase_add_test(tc, the_best_origin_counts);
    tcase_add_test(tc, clocks_that_drift);
    tcase_add_test(tc, instants_together_share_an_event);
    tcase_add_test(tc, what_begins_has_its_own_event);
}
