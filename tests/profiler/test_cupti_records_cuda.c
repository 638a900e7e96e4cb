/* Convert CUPTI's records to spans without a GPU: buffers of the headers' own structs,
 * played back by the fake CUPTI. */
#include "profiler/record/cupti.h"

#include "tests/rigs/suite.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/rigs/cupti_rig_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <string.h>

/* Check all members of span i of a track. */
static void check_span(const char *name, size_t i, enum lk_span_kind kind, const char *text,
                       uint64_t start, uint64_t end, uint32_t step, int32_t index)
{
    const struct kept_track *t = kept_track(name);
    const struct lk_span *s;

    ck_assert_uint_lt(i, t->n);
    s = &t->spans[i];
    ck_assert_uint_eq(s->kind, kind);
    ck_assert_str_eq(kept.names[s->name], text);
    ck_assert_uint_eq(s->start_ns + fake_cupti.ahead_ns - rig.t0, start);
    ck_assert_uint_eq(s->end_ns + fake_cupti.ahead_ns - rig.t0, end);
    ck_assert_uint_eq(s->step, step);
    ck_assert_int_eq(s->index, index);
    ck_assert_uint_eq(s->ready_ns, 0);
    ck_assert_uint_eq(s->seq, 0);
}

#define COMPUTE "compute stream, GPU records"
#define COMM    "comm stream, GPU records"
#define COPY    "copy stream, GPU records"
#define OTHER   "other streams, GPU records"
#define CALLS   "CUDA calls"
#define GEMM    "_ZN7cutlass6KernelI4TypeEEvNT_6ParamsE"
#define NCCL    "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"

/* Position of the id relative to the kernel. */
enum order { BEFORE, AFTER, BUFFER_BEFORE, BUFFER_AFTER, THREE_BUFFERS_AFTER, ORDERS };

/* Run two ops of two steps on the compute stream, and a bucket's collective. */
START_TEST(records_meet_their_ids)
{
    uint64_t gelu = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 7, -1);
    uint64_t matmul = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.matmul, 8, -1);
    uint64_t bucket = cupti_rig_id(rig.comm, LK_SPAN_COLLECTIVE, 0, 8, 3);
    bool late = _i == AFTER || _i == BUFFER_AFTER || _i == THREE_BUFFERS_AFTER;

    for (int part = 0; part < 2; part++) {
        if ((part == 0) != late) {
            cupti_rig_put_issue(100, gelu);
            cupti_rig_put_issue(101, matmul);
            cupti_rig_put_issue(102, bucket);
        } else {
            cupti_rig_put_kernel(100, 13, 1000, 2000, CUPTI_RIG_GELU);
            cupti_rig_put_kernel(101, 13, 3000, 4500, GEMM);
            cupti_rig_put_kernel(102, 14, 3500, 9000, NCCL);
        }
        if (part == 0 && _i >= BUFFER_BEFORE)
            fake_cupti_deliver(0);
        for (int n = 0; part == 0 && _i == THREE_BUFFERS_AFTER && n < 2; n++) {
            cupti_rig_put_issue(200 + (uint32_t)n, gelu);
            fake_cupti_deliver(0);
        }
    }
    fake_cupti_deliver(0);
    ck_assert_uint_eq(kept_track(COMPUTE)->n, 2);
    ck_assert_uint_eq(kept_track(COMM)->n, 1);
    check_span(COMPUTE, 0, LK_SPAN_KERNEL, "gelu_forward_gpu", 1000, 2000, 7, -1);
    check_span(COMPUTE, 1, LK_SPAN_KERNEL, "matmul_forward: cutlass::Kernel", 3000, 4500, 8, -1);
    check_span(COMM, 0, LK_SPAN_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 3500, 9000, 8,
               3);
    ck_assert_int_eq(kept_track(COMPUTE)->kind, LK_TRACK_COMPUTE);
    ck_assert_int_eq(kept_track(COMPUTE)->stream, 1);
    ck_assert_int_eq(kept_track(COMM)->kind, LK_TRACK_COMM);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, 3);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
}
END_TEST

/* Test the largest values that an id holds, and one beyond. */
START_TEST(ids_keep_what_was_issued)
{
    static const struct {
        uint32_t step;
        int32_t index, index_back;
    } rows[] = {
        {0, -1, -1},
        {(1 << 24) - 1, 16382, 16382},
        {5, 0, 0},
        {5, 16383, -1},
    };
    uint64_t id = cupti_rig_id(rig.comm, LK_SPAN_COLLECTIVE, 0, rows[_i].step, rows[_i].index);

    cupti_rig_put_issue(1, id);
    cupti_rig_put_kernel(1, 20, 10, 20, NCCL);
    fake_cupti_deliver(0);
    check_span(COMM, 0, LK_SPAN_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 20,
               rows[_i].step, rows[_i].index_back);
}
END_TEST

/* A stream's track is learnt from ops; work inside ranges or the host's step is assigned by it. */
START_TEST(streams_are_learnt)
{
    uint64_t step = cupti_rig_id(rig.host, LK_SPAN_STEP, 0, 4, -1);
    uint64_t backward = cupti_rig_id(rig.compute, LK_SPAN_BACKWARD, 0, 4, 2);
    uint64_t gelu = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 4, -1);
    uint64_t bucket = cupti_rig_id(rig.comm, LK_SPAN_COLLECTIVE, 0, 4, 0);
    uint64_t thread =
        cupti_rig_id(cupti_rig_track("loader", LK_TRACK_LOADER, 0), LK_SPAN_INPUT, 0, 5, 0);
    uint64_t batch =
        cupti_rig_id(cupti_rig_track("copy stream", LK_TRACK_COPY, 3), LK_SPAN_INPUT, 0, 6, 0);

    cupti_rig_put_issue(1, step);
    cupti_rig_put_issue(2, backward);
    cupti_rig_put_issue(3, gelu);
    cupti_rig_put_issue(4, bucket);
    cupti_rig_put_kernel(1, 13, 100, 200, "plain");
    cupti_rig_put_kernel(2, 14, 300, 400, "plain");
    cupti_rig_put_issue(5, thread);
    cupti_rig_put_issue(6, batch);
    cupti_rig_put_kernel(5, 15, 900, 1000, "plain");
    fake_cupti_deliver(0);
    ck_assert_uint_eq(kept.n_tracks, 5);
    cupti_rig_put_kernel(6, 15, 1100, 1200, "plain");
    cupti_rig_put_kernel(3, 13, 500, 600, CUPTI_RIG_GELU);
    cupti_rig_put_kernel(4, 14, 700, 800, NCCL);
    fake_cupti_deliver(0);
    cupti_rig_close();
    ck_assert_uint_eq(kept_track(COMPUTE)->n, 2);
    check_span(COMPUTE, 0, LK_SPAN_KERNEL, "gelu_forward_gpu", 500, 600, 4, -1);
    check_span(COMPUTE, 1, LK_SPAN_KERNEL, "plain", 100, 200, 4, -1);
    check_span(COMM, 1, LK_SPAN_KERNEL, "plain", 300, 400, 4, -1);
    check_span(COPY, 0, LK_SPAN_KERNEL, "plain", 1100, 1200, 6, -1);
    check_span(COPY, 1, LK_SPAN_KERNEL, "plain", 900, 1000, 5, -1);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
}
END_TEST

/* Work without an id keeps its time: NCCL's on its own thread, and any
 * kernel on an unknown stream. */
START_TEST(work_without_an_id_keeps_its_time)
{
    cupti_rig_put_kernel(1, 14, 100, 200, NCCL);
    cupti_rig_put_kernel(2, 99, 300, 400, "someone");
    fake_cupti_deliver(0);
    ck_assert_uint_eq(kept.n_tracks, 3);
    cupti_rig_close();
    check_span(COMM, 0, LK_SPAN_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 200,
               LK_SPAN_STEP_UNKNOWN, -1);
    check_span(OTHER, 0, LK_SPAN_KERNEL, "someone", 300, 400, LK_SPAN_STEP_UNKNOWN, -1);
    ck_assert_int_eq(kept_track(OTHER)->kind, LK_TRACK_COPY);
    ck_assert_uint_eq(rig.counts.records, 2);
    ck_assert_uint_eq(rig.counts.unmatched, 2);
    ck_assert_uint_eq(rig.counts.by_time, 1);
}
END_TEST

/* With more pending records than room the oldest are emitted as they are, and none is lost. */
START_TEST(waiting_is_bounded)
{
    enum { MANY = 70000 };
    uint64_t gelu = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1);

    cupti_rig_put_issue(1, gelu);
    cupti_rig_put_kernel(1, 13, 0, 1, CUPTI_RIG_GELU);
    for (uint32_t i = 2; i <= MANY; i++)
        cupti_rig_put_kernel(i, 13, i, i + 1, CUPTI_RIG_GELU);
    fake_cupti_deliver(0);
    ck_assert_uint_lt(kept_track(COMPUTE)->n, MANY);
    cupti_rig_put_issue(MANY, gelu);
    fake_cupti_deliver(0);
    cupti_rig_close();
    ck_assert_uint_eq(kept_track(COMPUTE)->n, MANY);
    ck_assert_uint_eq(rig.counts.records, MANY);
    ck_assert_uint_eq(rig.counts.unmatched, MANY - 2); /* all but the first and the last */
}
END_TEST

START_TEST(names_are_bounded)
{
    enum { MANY = 600 };
    uint64_t gelu = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1);
    static char symbols[MANY][16];

    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(symbols[i], sizeof symbols[i], "kernel%u", i);
        cupti_rig_put_issue(i, gelu);
        cupti_rig_put_kernel(i, 13, i, i + 1, symbols[i]);
    }
    fake_cupti_deliver(0);
    check_span(COMPUTE, 0, LK_SPAN_KERNEL, "gelu_forward: kernel0", 0, 1, 1, -1);
    check_span(COMPUTE, 511, LK_SPAN_KERNEL, "gelu_forward: kernel511", 511, 512, 1, -1);
    check_span(COMPUTE, 512, LK_SPAN_KERNEL, "gelu_forward", 512, 513, 1, -1);
    check_span(COMPUTE, MANY - 1, LK_SPAN_KERNEL, "gelu_forward", MANY - 1, MANY, 1, -1);
    ck_assert_uint_lt(kept.n_names, 600);
}
END_TEST

START_TEST(copies_and_memsets)
{
    uint64_t copy = cupti_rig_id(rig.compute, LK_SPAN_COPY, 0, 3, -1);
    CUpti_ActivityMemcpy6 c = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                               .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
                               .bytes = 4096,
                               .start = rig.t0 + 10,
                               .end = rig.t0 + 30,
                               .contextId = 1,
                               .streamId = 13,
                               .correlationId = 1};
    const CUpti_ActivityMemcpyPtoP4 p = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP,
                                         .bytes = UINT64_C(1) << 33,
                                         .start = rig.t0 + 40,
                                         .end = rig.t0 + 50,
                                         .contextId = 1,
                                         .streamId = 13,
                                         .srcDeviceId = 7,
                                         .correlationId = 1};
    const CUpti_ActivityMemset4 m = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                                     .value = 255,
                                     .bytes = 77,
                                     .start = rig.t0 + 60,
                                     .end = rig.t0 + 60,
                                     .contextId = 1,
                                     .streamId = 13,
                                     .correlationId = 1};
    const struct kept_track *t;

    cupti_rig_put_issue(1, copy);
    ck_assert(fake_cupti_put(&c, sizeof c));
    ck_assert(fake_cupti_put(&p, sizeof p));
    ck_assert(fake_cupti_put(&m, sizeof m));
    c.copyKind = 200; /* of a version to come */
    ck_assert(fake_cupti_put(&c, sizeof c));
    fake_cupti_deliver(0);
    check_span(COMPUTE, 0, LK_SPAN_COPY, "HtoD", 10, 30, 3, -1);
    check_span(COMPUTE, 1, LK_SPAN_COPY, "PtoP", 40, 50, 3, -1);
    check_span(COMPUTE, 2, LK_SPAN_MEMSET, "", 60, 60, 3, -1);
    check_span(COMPUTE, 3, LK_SPAN_COPY, "", 10, 30, 3, -1);
    t = kept_track(COMPUTE);
    ck_assert_uint_eq(t->spans[0].bytes, 4096);
    ck_assert_uint_eq(t->spans[1].bytes, UINT64_C(1) << 33);
    ck_assert_uint_eq(t->spans[2].bytes, 77);
}
END_TEST

/* CUPTI may lack times of its own activity; no GPU record is missing then. */
static void put_untimed_calls(void)
{
    const CUpti_ActivityOverhead3 o = {.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
                                       .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH,
                                       .start = rig.t0};

    ck_assert(fake_cupti_put(&o, sizeof o));
    fake_cupti_deliver(0);
}

/* Of records that nobody asked for, as in captures of older versions, waits are passed over. */
START_TEST(overhead)
{
    const CUpti_ActivitySynchronization2 s = {.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                              .start = rig.t0,
                                              .end = rig.t0 + 5 * LK_NS_PER_MS};
    const CUpti_ActivityOverhead3 o = {.kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
                                       .overheadKind =
                                           CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING,
                                       .start = rig.t0 + 1,
                                       .end = rig.t0 + 2};

    ck_assert(fake_cupti_put(&s, sizeof s));
    ck_assert(fake_cupti_put(&o, sizeof o));
    fake_cupti_deliver(0);
    put_untimed_calls();
    ck_assert_uint_eq(kept_track(CALLS)->n, 1);
    check_span(CALLS, 0, LK_SPAN_OVERHEAD, "loading a function", 1, 2, LK_SPAN_STEP_UNKNOWN, -1);
    ck_assert_int_eq(kept_track(CALLS)->kind, LK_TRACK_HOST);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, 0);
    ck_assert_uint_eq(rig.counts.untimed, 0);
    ck_assert_uint_eq(rig.counts.broken, 0);
    ck_assert_uint_eq(rig.counts.unknown, 0);
}
END_TEST

START_TEST(foreign_records_are_counted)
{
    const CUpti_ActivityDeviceAttribute d = {.kind = CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE};
    const CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME};
    const CUpti_ActivityExternalCorrelation e = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                 .externalKind =
                                                     CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC,
                                                 .externalId = 1,
                                                 .correlationId = 1};

    ck_assert(fake_cupti_put(&d, sizeof d));
    ck_assert(fake_cupti_put(&a, sizeof a));
    ck_assert(fake_cupti_put(&e, sizeof e));
    cupti_rig_put_kernel(1, 13, 5, 6, CUPTI_RIG_GELU);
    fake_cupti_deliver(0);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.unknown, 1);
    ck_assert_uint_eq(rig.counts.records, 1);
    ck_assert_uint_eq(rig.counts.unmatched, 1);
}
END_TEST

START_TEST(times_that_cannot_be)
{
    uint64_t t0 = rig.t0;

    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    rig.t0 = 0;
    cupti_rig_put_kernel(1, 13, 0, 0, CUPTI_RIG_GELU);           /* CUPTI had no times */
    cupti_rig_put_kernel(1, 13, t0 + 9, t0 + 8, CUPTI_RIG_GELU); /* backwards */
    cupti_rig_put_kernel(1, 13, 1000, 2000, CUPTI_RIG_GELU);     /* on another clock */
    cupti_rig_put_kernel(1, 13, t0, t0 + 3600 * LK_NS_PER_S, CUPTI_RIG_GELU);
    rig.t0 = t0;
    cupti_rig_put_kernel(1, 13, 5, 6, CUPTI_RIG_GELU);
    fake_cupti_deliver(0);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.untimed, 1);
    ck_assert_uint_eq(rig.counts.broken, 3);
    ck_assert_uint_eq(rig.counts.records, 1);
}
END_TEST

/* A model made only to describe it runs before the recorder has tracks. */
START_TEST(work_before_the_run_is_left_out)
{
    rig.t0 -= LK_NS_PER_MS;
    cupti_rig_put_kernel(1, 13, 0, 1, CUPTI_RIG_GELU);
    fake_cupti_deliver(0);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, 0);
    ck_assert_uint_eq(rig.counts.broken, 0);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
}
END_TEST

/* Bytes by which a buffer ends too early within a record. */
static const size_t cuts[] = {1, 8, 112, sizeof(CUpti_ActivityKernel10) - 4,
                              sizeof(CUpti_ActivityKernel10) - 1};

START_TEST(a_buffer_cut_short)
{
    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    cupti_rig_put_kernel(1, 13, 1, 2, CUPTI_RIG_GELU);
    cupti_rig_put_kernel(1, 13, 3, 4, CUPTI_RIG_GELU);
    fake_cupti_deliver(cuts[_i]);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, 1);
    ck_assert_uint_eq(rig.counts.broken, 1);
    check_span(COMPUTE, 0, LK_SPAN_KERNEL, "gelu_forward_gpu", 1, 2, 1, -1);
}
END_TEST

/* Use two buffers with room for a few records: the second waits for delivery, there is no third. */
START_TEST(an_empty_pool)
{
    const CUpti_ActivityKernel10 k = {
        .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = 1, .end = 2};
    uint8_t *taken[3];
    size_t size, most;

    cupti_rig_tear_down();
    cupti_rig_set_up_with(1024, 2);
    for (int i = 0; i < 3; i++) {
        fake_cupti.request(&taken[i], &size, &most);
        ck_assert_uint_eq(size, i < 2 ? 1024 : 0);
        ck_assert_uint_eq(most, 0);
        ck_assert((taken[i] != NULL) == (i < 2));
        ck_assert_uint_eq((uintptr_t)taken[i] % 8, 0);
    }
    ck_assert(!fake_cupti_put(&k, sizeof k));
    fake_cupti.dropped = 1;
    memset(taken[0], 0xa5, 1024);
    fake_cupti.complete(NULL, 0, taken[0], 1024, 0);
    fake_cupti.request(&taken[0], &size, &most);
    ck_assert_ptr_nonnull(taken[0]);
    for (size_t i = 0; i < 1024; i++)
        ck_assert_uint_eq(taken[0][i], 0);
    fake_cupti.complete(NULL, 0, taken[0], 1024, 0);
    fake_cupti.complete(NULL, 0, taken[1], 1024, 0);
    fake_cupti.dropped = 4;
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.dropped, 5);
}
END_TEST

/* CUPTI before 12.9 crashes when it is given none. */
START_TEST(a_pool_that_cannot_refuse)
{
    enum { TAKEN = 5 };
    struct lk_cupti *older = NULL;
    uint8_t *taken[TAKEN];
    size_t size, most;

    cupti_rig_close();
    fake_cupti.version = 26;
    ck_assert_int_eq(lk_recorder_create(&rig.next), LK_OK);
    ck_assert_int_eq(lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.next,
                                                             .calls = &fake_cupti_calls,
                                                             .buffer_bytes = 1024,
                                                             .buffers = 2},
                                   &older),
                     LK_OK);
    rig.cupti = older;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < TAKEN; i++) {
            fake_cupti.request(&taken[i], &size, &most);
            ck_assert_ptr_nonnull(taken[i]);
            ck_assert_uint_eq(size, 1024);
        }
        for (int i = 0; i < TAKEN; i++)
            fake_cupti.complete(NULL, 0, taken[i], 1024, 0);
    }
}
END_TEST

/* The counts appear in the trace. */
START_TEST(counts_are_in_the_trace)
{
    const struct kept_track *t;
    bool found = false;

    fake_cupti.dropped = 12;
    cupti_rig_close();
    t = kept_track(CALLS);
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(kept.names[t->spans[i].name], "GPU records dropped")) {
            ck_assert_uint_eq(t->spans[i].kind, LK_SPAN_COUNTER);
            ck_assert_double_eq(t->spans[i].value, 12);
            found = true;
        }
    ck_assert(found);
}
END_TEST

SUITE(cupti_records_cuda, tc)
{
    tcase_add_checked_fixture(tc, cupti_rig_set_up, cupti_rig_tear_down);
    tcase_add_loop_test(tc, records_meet_their_ids, 0, ORDERS);
    tcase_add_loop_test(tc, ids_keep_what_was_issued, 0, 4);
    tcase_add_test(tc, streams_are_learnt);
    tcase_add_test(tc, work_without_an_id_keeps_its_time);
    tcase_add_test(tc, waiting_is_bounded);
    tcase_add_test(tc, names_are_bounded);
    tcase_add_test(tc, copies_and_memsets);
    tcase_add_test(tc, overhead);
    tcase_add_test(tc, foreign_records_are_counted);
    tcase_add_test(tc, times_that_cannot_be);
    tcase_add_test(tc, work_before_the_run_is_left_out);
    tcase_add_loop_test(tc, a_buffer_cut_short, 0, (int)LK_COUNT(cuts));
    tcase_add_test(tc, an_empty_pool);
    tcase_add_test(tc, a_pool_that_cannot_refuse);
    tcase_add_test(tc, counts_are_in_the_trace);
}

#else

SUITE(cupti_records_cuda, c)
{
    (void)c;
}

#endif
