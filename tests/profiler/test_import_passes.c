/* Passes of a rank: what is one of them, and that many take no longer than few. */
#include "base/array.h"
#include "profiler/analysis/steps.h"
#include "profiler/import/rank.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <string.h>

enum { MS = 1000000 };

/* A trace under construction: the host does nothing but launch. */
struct run {
    struct lk_events e;
    uint32_t host, stream;
};

static void begin(struct run *r, int64_t end_ms)
{
    *r = (struct run){0};
    must(lk_events_init(&r->e, NULL));
    r->e.source.format = "test";
    must(lk_events_lane(&r->e, 9, 1, false, &r->host));
    must(lk_events_lane(&r->e, 0, 7, true, &r->stream));
    must(lk_events_add(&r->e, &(struct lk_import_event){
                                  .kind = LK_EVENT_STEP, .lane = r->host, .end_ns = end_ms * MS}));
}

/* Add a range of the host, half a ms long, and the kernel that it launches, if it has one. */
static void range(struct run *r, enum lk_event_kind kind, int64_t at_ms, bool kernel)
{
    struct lk_import_event x = {.kind = (uint8_t)kind,
                                .lane = r->host,
                                .start_ns = at_ms * MS,
                                .end_ns = at_ms * MS + MS / 2,
                                .link = (uint64_t)at_ms + 1};

    must(lk_events_add(&r->e, &x));
    if (!kernel)
        return;
    x.kind = LK_EVENT_LAUNCH;
    must(lk_events_add(&r->e, &x));
    x.kind = LK_EVENT_KERNEL;
    x.lane = r->stream;
    must(lk_events_add(&r->e, &x));
}

/* Make the trace, and count its spans of a kind. */
static size_t count(struct run *r, enum lk_span_kind kind, int *accumulation)
{
    const struct lk_import_rank_options o = {.source = "test", .device = -1};
    struct lk_trace t;
    size_t n = 0;

    lk_events_sort(&r->e);
    must(lk_import_trace(&r->e, &o, &t));
    lk_events_fini(&r->e);
    for (size_t i = 0; i < t.n_spans; i++)
        n += t.spans[i].span.kind == kind;
    *accumulation = t.info.accumulation;
    lk_trace_fini(&t);
    return n;
}

/* A step has one optimizer, also where much else lies between its parts. */
START_TEST(a_step_has_one_optimizer)
{
    enum { MICRO_BATCHES = 20 };
    int accumulation;
    struct run r;

    begin(&r, 2 * MICRO_BATCHES + 4);
    range(&r, LK_EVENT_OPTIMIZER, 0, true);
    for (int i = 0; i < MICRO_BATCHES; i++) {
        range(&r, LK_EVENT_FORWARD, 2 * i + 1, true);
        range(&r, LK_EVENT_BACKWARD, 2 * i + 2, true);
    }
    range(&r, LK_EVENT_OPTIMIZER, 2 * MICRO_BATCHES + 1, true);
    ck_assert_uint_eq(count(&r, LK_SPAN_OPTIMIZER, &accumulation), 1);
    ck_assert_int_eq(accumulation, MICRO_BATCHES);
}
END_TEST

/* Each pass was looked for in all of its step: 200,000 took longer than a test may. */
START_TEST(many_passes)
{
    enum { MICRO_BATCHES = 100000 };
    int accumulation;
    struct run r;

    begin(&r, 2 * MICRO_BATCHES);
    for (int i = 0; i < MICRO_BATCHES; i++) {
        range(&r, LK_EVENT_FORWARD, 2 * i, _i);
        range(&r, LK_EVENT_BACKWARD, 2 * i + 1, _i);
    }
    ck_assert_uint_eq(count(&r, LK_SPAN_BACKWARD, &accumulation), MICRO_BATCHES);
    ck_assert_int_eq(accumulation, MICRO_BATCHES);
}
END_TEST

/* Add a kernel on a stream of the GPU, and its launch by the host. */
static void launch(struct run *r, uint32_t stream, int64_t launched_ms, int64_t start_ms,
                   int64_t end_ms)
{
    static uint64_t link;
    struct lk_import_event x = {.kind = LK_EVENT_LAUNCH,
                                .lane = r->host,
                                .start_ns = launched_ms * MS,
                                .end_ns = launched_ms * MS + MS / 4,
                                .link = 1000000 + ++link};

    must(lk_events_add(&r->e, &x));
    x.kind = LK_EVENT_KERNEL;
    x.lane = stream;
    x.start_ns = start_ms * MS;
    x.end_ns = end_ms * MS;
    must(lk_events_add(&r->e, &x));
}

static void host_range(struct run *r, enum lk_event_kind kind, int64_t start_ms, int64_t end_ms)
{
    must(lk_events_add(&r->e, &(struct lk_import_event){.kind = (uint8_t)kind,
                                                        .lane = r->host,
                                                        .start_ns = start_ms * MS,
                                                        .end_ns = end_ms * MS}));
}

enum { WINDOWS = 5 };

/* Make steps of 100 ms on a GPU that is so many ms behind its host, with a kernel of 1 ms on a side
 * stream at each step's launch, or without; write the windows of the steps. 0: there are none. */
static size_t windows(int64_t behind_ms, bool side, struct lk_import_rank_options o,
                      struct lk_step *out, size_t most)
{
    struct lk_rank_steps s;
    struct lk_trace t;
    struct run r = {0};
    uint32_t other;
    size_t n;

    must(lk_events_init(&r.e, NULL));
    r.e.source.format = "test";
    must(lk_events_lane(&r.e, 9, 1, false, &r.host));
    must(lk_events_lane(&r.e, 0, 7, true, &r.stream));
    must(lk_events_lane(&r.e, 0, 8, true, &other));
    launch(&r, r.stream, 10, 90, 190 + behind_ms); /* of the step before */
    for (int64_t i = 0; i < WINDOWS; i++) {
        int64_t at = 200 + 100 * i, gpu = at + behind_ms;

        host_range(&r, LK_EVENT_STEP, at, at + 100);
        if (side)
            launch(&r, other, at + 1, at + 1, at + 2);
        host_range(&r, LK_EVENT_FORWARD, at + 2, at + 20);
        launch(&r, r.stream, at + 3, gpu, gpu + 30);
        host_range(&r, LK_EVENT_BACKWARD, at + 30, at + 60);
        launch(&r, r.stream, at + 31, gpu + 30, gpu + 80);
        host_range(&r, LK_EVENT_OPTIMIZER, at + 80, at + 90);
        launch(&r, r.stream, at + 81, gpu + 82, gpu + 100);
    }
    lk_events_sort(&r.e);
    o.source = "test";
    o.device = -1;
    if (lk_import_trace(&r.e, &o, &t) != LK_OK) {
        lk_events_fini(&r.e);
        return 0;
    }
    must(lk_rank_steps_read(&t, &s));
    n = s.n_steps < most ? s.n_steps : most;
    memcpy(out, s.steps, n * sizeof *out);
    lk_rank_steps_fini(&s);
    lk_trace_fini(&t);
    lk_events_fini(&r.e);
    return n;
}

/* Windows tile, have the GPU's length however far it is behind, and a small kernel beside them
 * changes nothing. */
START_TEST(a_step_ends_with_the_last_work_that_it_launched)
{
    struct lk_step with[8], without[8];
    const struct lk_import_rank_options plain = {.rank = 0};
    size_t n = windows(_i * 20, true, plain, with, 8);

    ck_assert_uint_eq(n, WINDOWS);
    ck_assert_uint_eq(windows(_i * 20, false, plain, without, 8), n);
    for (size_t k = 0; k < n; k++) {
        ck_assert_uint_eq(with[k].end_ns, without[k].end_ns);
        ck_assert_uint_eq(with[k].begin_ns, without[k].begin_ns);
        if (k) {
            ck_assert_uint_eq(with[k].begin_ns, with[k - 1].end_ns);
            ck_assert_uint_eq(with[k].end_ns - with[k].begin_ns, 100 * MS);
        }
    }
}
END_TEST

/* The last step is left out, and no other changes; steps by the GPU are those by launches where it
 * runs all work in its step, else they are refused. */
START_TEST(chosen_steps_are_right_or_refused)
{
    const struct lk_import_rank_options plain = {.rank = 0}, drop = {.drop_last = true},
                                        by_gpu = {.steps_by_gpu = true};
    struct lk_step all[8], some[8];
    bool side = _i % 2;
    int64_t behind_ms = _i / 2 * 20;
    size_t n = windows(behind_ms, side, plain, all, 8);

    ck_assert_uint_eq(windows(behind_ms, side, drop, some, 8), n - 1);
    for (size_t k = 0; k + 1 < n; k++) {
        ck_assert_uint_eq(some[k].step, all[k].step);
        ck_assert_uint_eq(some[k].begin_ns, all[k].begin_ns);
        ck_assert_uint_eq(some[k].end_ns, all[k].end_ns);
        ck_assert_uint_eq(some[k].n_ranges, all[k].n_ranges);
    }
    ck_assert_uint_eq(windows(behind_ms, side, by_gpu, some, 8), behind_ms ? 0 : n);
    for (size_t k = 0; k < n && !behind_ms; k++)
        ck_assert_uint_eq(some[k].end_ns - some[k].begin_ns, all[k].end_ns - all[k].begin_ns);
    if (behind_ms)
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "--steps-by=gpu: "));
}
END_TEST

SUITE(import_passes, t)
{
    tcase_add_loop_test(t, chosen_steps_are_right_or_refused, 0, 12);
    tcase_add_loop_test(t, a_step_ends_with_the_last_work_that_it_launched, 0, 6);
    tcase_add_test(t, a_step_has_one_optimizer);
    tcase_add_loop_test(t, many_passes, 0, 2);
}
