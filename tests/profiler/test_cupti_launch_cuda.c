/* Attribute kernels that NCCL launches on its own threads to the collective being issued. */
#include "profiler/record/cupti.h"

#include "tests/rigs/suite.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "profiler/record/cupti_clock.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/rigs/cupti_rig_cuda.h"
#include "tests/rigs/kept_spans.h"

#include <string.h>

#define COMM  "comm stream, GPU records"
#define OTHER "other streams, GPU records"
#define NCCL  "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"

enum { COMM_STREAM = 14, NCCLS_STREAM = 31 };

static uint64_t their_time_ns(void)
{
    return lk_now_ns() + fake_cupti.ahead_ns;
}

/* Put the record of a call made at this time, on a thread without ids. */
static void put_call(uint32_t correlation, uint64_t at_ns)
{
    const CUpti_ActivityAPI r = {.kind = CUPTI_ACTIVITY_KIND_DRIVER,
                                 .start = at_ns,
                                 .end = at_ns ? at_ns + 1 : 0,
                                 .threadId = 4711,
                                 .correlationId = correlation};

    ck_assert(fake_cupti_put(&r, sizeof r));
}

static struct lk_span bucket(uint32_t step, int32_t index)
{
    return (struct lk_span){.kind = LK_SPAN_COLLECTIVE, .step = step, .index = index};
}

/* Issue a collective; return a time at which NCCL may have launched it. */
static uint64_t issue(uint32_t step, int32_t index)
{
    const struct lk_span s = bucket(step, index);
    uint64_t at;

    lk_span_enter(rig.comm, &s);
    at = their_time_ns();
    lk_span_leave(rig.comm, &s);
    while (their_time_ns() <= at)
        continue;
    return at;
}

static void check_kernel(size_t i, uint64_t start, uint32_t step, int32_t index)
{
    const struct kept_track *t = kept_track(COMM);

    ck_assert_uint_lt(i, t->n);
    ck_assert_uint_eq(t->spans[i].start_ns + fake_cupti.ahead_ns - rig.t0, start);
    ck_assert_uint_eq(t->spans[i].step, step);
    ck_assert_int_eq(t->spans[i].index, index);
}

static void check_counts(uint64_t records, uint64_t unmatched, uint64_t by_time)
{
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, records);
    ck_assert_uint_eq(rig.counts.unmatched, unmatched);
    ck_assert_uint_eq(rig.counts.by_time, by_time);
}

/* Position of the call's record relative to the kernel's. */
enum order { BEFORE, AFTER, BUFFER_BEFORE, BUFFER_AFTER, ORDERS };

/* Issue three collectives, one with two kernels and one with none; they
 * run while others are issued. */
START_TEST(kernels_meet_their_collective)
{
    const uint64_t at[] = {issue(7, 0), issue(7, 1), issue(8, 0)};

    for (int part = 0; part < 2; part++) {
        if ((part == 0) == (_i == BEFORE || _i == BUFFER_BEFORE)) {
            put_call(100, at[0]);
            put_call(101, at[0]);
            put_call(102, at[2]);
        } else {
            cupti_rig_put_kernel(100, COMM_STREAM, 1000, 2000, NCCL);
            cupti_rig_put_kernel(101, COMM_STREAM, 3000, 4000, NCCL);
            cupti_rig_put_kernel(102, COMM_STREAM, 5000, 6000, NCCL);
        }
        if (_i >= BUFFER_BEFORE)
            fake_cupti_deliver(0);
    }
    fake_cupti_deliver(0);
    /* The spans are there before the end: none had to wait. */
    ck_assert_uint_eq(kept_track(COMM)->n, 3);
    check_kernel(0, 1000, 7, 0);
    check_kernel(1, 3000, 7, 0);
    check_kernel(2, 5000, 8, 0);
    check_counts(3, 0, 0);
}
END_TEST

/* CUPTI delivers launches while the collective is still being issued. */
START_TEST(a_collective_that_is_being_issued)
{
    const struct lk_span s = bucket(3, 5);

    (void)issue(3, 4);
    lk_span_enter(rig.comm, &s);
    put_call(1, their_time_ns());
    cupti_rig_put_kernel(1, COMM_STREAM, 10, 20, NCCL);
    fake_cupti_deliver(0);
    check_kernel(0, 10, 3, 5);
    lk_span_leave(rig.comm, &s);
    check_counts(1, 0, 0);
}
END_TEST

/* A barrier or a broadcast of parameters belongs to no bucket, and is known as such. */
START_TEST(nobodys_collective)
{
    uint64_t at = issue(7, 0);

    put_call(1, their_time_ns());
    put_call(2, rig.t0 - 1);
    put_call(3, at);
    for (uint32_t i = 1; i <= 3; i++)
        cupti_rig_put_kernel(i, COMM_STREAM, 10 * i, 10 * i + 1, NCCL);
    fake_cupti_deliver(0);
    check_counts(3, 2, 0);
    check_kernel(0, 30, 7, 0);
    check_kernel(1, 10, LK_SPAN_STEP_UNKNOWN, -1);
    check_kernel(2, 20, LK_SPAN_STEP_UNKNOWN, -1);
}
END_TEST

/* The launch has no record, or one without a time: counted, because the
 * reader then goes by time. */
START_TEST(a_launch_that_is_not_known)
{
    (void)issue(7, 0);
    put_call(2, 0);
    cupti_rig_put_kernel(1, COMM_STREAM, 10, 11, NCCL);
    cupti_rig_put_kernel(2, COMM_STREAM, 20, 21, NCCL);
    cupti_rig_put_kernel(3, 99, 30, 31, "someone"); /* not NCCL's: assigned to no bucket */
    fake_cupti_deliver(0);
    check_counts(3, 3, 2);
    check_kernel(0, 10, LK_SPAN_STEP_UNKNOWN, -1);
    check_kernel(1, 20, LK_SPAN_STEP_UNKNOWN, -1);
}
END_TEST

START_TEST(a_launch_of_long_ago)
{
    uint64_t at = issue(7, 0);

    for (int i = 0; i < LK_ISSUE_WINDOWS; i++)
        (void)issue(8, 1);
    put_call(1, at);
    cupti_rig_put_kernel(1, COMM_STREAM, 10, 11, NCCL);
    fake_cupti_deliver(0);
    check_counts(1, 1, 1);
}
END_TEST

/* Two communicators issue concurrently: a time does not tell which one launched. */
START_TEST(two_streams_of_collectives)
{
    uint64_t at;

    (void)cupti_rig_track("second", LK_TRACK_COMM, 3);
    at = issue(7, 0);
    put_call(1, at);
    cupti_rig_put_issue(2, cupti_rig_id(rig.comm, LK_SPAN_COLLECTIVE, 0, 7, 0));
    cupti_rig_put_kernel(1, COMM_STREAM, 10, 11, NCCL);
    cupti_rig_put_kernel(2, COMM_STREAM, 20, 21, NCCL);
    fake_cupti_deliver(0);
    check_counts(2, 1, 1);
}
END_TEST

/* Other threads copy and launch meanwhile; their ids may come late, or never. */
START_TEST(others_work_beside_it)
{
    uint64_t at = issue(7, 0);
    struct lk_track *copies = cupti_rig_track("copy stream", LK_TRACK_COPY, 3);
    uint64_t batch = cupti_rig_id(copies, LK_SPAN_INPUT, 0, 9, 0);

    put_call(1, at);
    put_call(2, at);
    put_call(3, at);
    cupti_rig_put_kernel(1, 20, 10, 11, "of a batch");
    cupti_rig_put_kernel(2, NCCLS_STREAM, 20, 21, "someone");
    cupti_rig_put_kernel(3, COMM_STREAM, 30, 31, NCCL);
    fake_cupti_deliver(0);
    check_kernel(0, 30, 7, 0);
    cupti_rig_put_issue(1, batch);
    fake_cupti_deliver(0);
    ck_assert_uint_eq(kept_track("copy stream, GPU records")->n, 1);
    ck_assert_uint_eq(kept_track("copy stream, GPU records")->spans[0].step, 9);
    check_counts(3, 1, 0);
    ck_assert_uint_eq(kept_track(OTHER)->spans[0].step, LK_SPAN_STEP_UNKNOWN);
}
END_TEST

/* A pushed id takes precedence over the time of the call's record. */
START_TEST(an_id_comes_before_a_time)
{
    uint64_t at = issue(7, 0);

    cupti_rig_put_issue(1, cupti_rig_id(rig.comm, LK_SPAN_COLLECTIVE, 0, 5, 2));
    put_call(1, at);
    cupti_rig_put_kernel(1, COMM_STREAM, 10, 11, NCCL);
    fake_cupti_deliver(0);
    check_kernel(0, 10, 5, 2);
    check_counts(1, 0, 0);
}
END_TEST

/* NCCL's copies on the collectives' stream are recognised once a kernel identified the stream. */
START_TEST(copies_of_a_collective)
{
    uint64_t at = issue(7, 3);
    const CUpti_ActivityMemcpy6 c = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                                     .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD,
                                     .bytes = 4096,
                                     .start = rig.t0 + 5,
                                     .end = rig.t0 + 6,
                                     .contextId = 1,
                                     .streamId = COMM_STREAM,
                                     .correlationId = 1};

    put_call(1, at);
    put_call(2, at);
    ck_assert(fake_cupti_put(&c, sizeof c));
    cupti_rig_put_kernel(2, COMM_STREAM, 10, 11, NCCL);
    fake_cupti_deliver(0);
    put_call(3, 0);
    fake_cupti_deliver(0);
    check_kernel(0, 10, 7, 3);
    check_kernel(1, 5, 7, 3);
    check_counts(2, 0, 0);
}
END_TEST

SUITE(cupti_launch_cuda, tc)
{
    tcase_add_checked_fixture(tc, cupti_rig_set_up, cupti_rig_tear_down);
    tcase_add_loop_test(tc, kernels_meet_their_collective, 0, ORDERS);
    tcase_add_test(tc, a_collective_that_is_being_issued);
    tcase_add_test(tc, nobodys_collective);
    tcase_add_test(tc, a_launch_that_is_not_known);
    tcase_add_test(tc, a_launch_of_long_ago);
    tcase_add_test(tc, two_streams_of_collectives);
    tcase_add_test(tc, others_work_beside_it);
    tcase_add_test(tc, an_id_comes_before_a_time);
    tcase_add_test(tc, copies_of_a_collective);
}

#else

SUITE(cupti_launch_cuda, c)
{
    (void)c;
}

#endif
