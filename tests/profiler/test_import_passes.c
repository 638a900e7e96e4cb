/* Passes of a rank: what is one of them, and that many take no longer than few. */
#include "base/array.h"
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

SUITE(import_passes, t)
{
    tcase_add_test(t, a_step_has_one_optimizer);
    tcase_add_loop_test(t, many_passes, 0, 2);
}
