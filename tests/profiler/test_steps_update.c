/* Updates beside backward in a trace: what of them is the optimizer's time, by hand. */
#include "base/array.h"
#include "profiler/analysis/steps.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

enum { US = 1000 };

static const struct lk_trace_track tracks[] = {
    {.name = "host", .kind = LK_TRACK_HOST},
    {.name = "compute", .kind = LK_TRACK_COMPUTE},
    {.name = "comm", .kind = LK_TRACK_COMM},
    {.name = "update", .kind = LK_TRACK_UPDATE, .stream = 4},
};

/*
 * Two steps, 0 to 100 us and 100 to 190. In the first backward ends at 60, the last bucket at 78,
 * and the updates take 52-58, 70-80 and 80-88: 14 us are hidden, 10 are the optimizer's. A
 * collective of no bucket ends at 84: it hides nothing, for the optimizer did not wait for it. The
 * second has one rank's collectives, which take no time: there the updates behind backward count.
 */
static const struct {
    uint32_t track, step;
    enum lk_span_kind kind;
    uint64_t start_us, end_us, ready_us;
    int32_t index;
    uint32_t seq;
} spans_of[] = {
    {0, 0, LK_SPAN_STEP, 0, 100, 0, -1, 0},        {1, 0, LK_SPAN_FORWARD, 10, 30, 0, 0, 0},
    {1, 0, LK_SPAN_BACKWARD, 30, 60, 0, 0, 0},     {2, 0, LK_SPAN_COLLECTIVE, 40, 50, 40, 0, 0},
    {2, 0, LK_SPAN_COLLECTIVE, 50, 70, 45, 1, 1},  {3, 0, LK_SPAN_OPTIMIZER, 52, 58, 0, 0, 0},
    {2, 0, LK_SPAN_COLLECTIVE, 70, 78, 60, 2, 2},  {3, 0, LK_SPAN_OPTIMIZER, 70, 80, 0, 1, 0},
    {2, 0, LK_SPAN_COLLECTIVE, 78, 84, 60, -1, 3}, {3, 0, LK_SPAN_OPTIMIZER, 80, 88, 0, 2, 0},
    {0, 1, LK_SPAN_STEP, 100, 190, 0, -1, 0},      {1, 1, LK_SPAN_FORWARD, 110, 130, 0, 0, 0},
    {1, 1, LK_SPAN_BACKWARD, 130, 160, 0, 0, 0},   {2, 1, LK_SPAN_COLLECTIVE, 140, 140, 140, 0, 4},
    {3, 1, LK_SPAN_OPTIMIZER, 150, 165, 0, 0, 0},  {2, 1, LK_SPAN_COLLECTIVE, 160, 160, 160, 1, 5},
    {3, 1, LK_SPAN_OPTIMIZER, 165, 175, 0, 1, 0},
};

static void make_trace(struct lk_trace *t, struct lk_trace_span *spans)
{
    *t = (struct lk_trace){.info = {.world_size = 1, .accumulation = 1, .local_batch = 1},
                           .clock = lk_clock_identity(),
                           .tracks = (struct lk_trace_track *)(uintptr_t)tracks,
                           .n_tracks = LK_COUNT(tracks),
                           .spans = spans,
                           .n_spans = LK_COUNT(spans_of)};
    for (size_t i = 0; i < LK_COUNT(spans_of); i++)
        spans[i] = (struct lk_trace_span){.track = spans_of[i].track,
                                          .span = {.kind = (uint16_t)spans_of[i].kind,
                                                   .step = spans_of[i].step,
                                                   .start_ns = spans_of[i].start_us * US,
                                                   .end_ns = spans_of[i].end_us * US,
                                                   .ready_ns = spans_of[i].ready_us * US,
                                                   .index = spans_of[i].index,
                                                   .seq = spans_of[i].seq}};
}

/* Of each step: its hidden time, and its parts. Together they are all of its window. */
static const struct {
    uint64_t hidden_us;
    double us[LK_PART_COUNT];
} truths[] = {
    {14,
     {[LK_PART_FORWARD] = 20,
      [LK_PART_BACKWARD] = 30,
      [LK_PART_OPTIMIZER] = 10,
      [LK_PART_WIRE] = 18,
      [LK_PART_GAP] = 22}},
    {10,
     {[LK_PART_FORWARD] = 20,
      [LK_PART_BACKWARD] = 30,
      [LK_PART_OPTIMIZER] = 15,
      [LK_PART_GAP] = 25}},
};

START_TEST(hidden_updates_cost_the_step_nothing)
{
    struct lk_trace_span spans[LK_COUNT(spans_of)];
    struct lk_trace t;
    struct lk_rank_steps r;
    struct lk_step_split x;
    const struct lk_step *p;
    double sum = 0;

    make_trace(&t, spans);
    must(lk_rank_steps_read(&t, &r));
    ck_assert_uint_eq(r.n_steps, LK_COUNT(truths));
    p = lk_rank_step(&r, (uint32_t)_i);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(p->hidden_ns, truths[_i].hidden_us * US);
    lk_step_split(&r, p, NULL, &x);
    for (int part = 0; part < LK_PART_COUNT; part++) {
        ck_assert_double_eq_tol(x.s[part], truths[_i].us[part] * 1e-6, 1e-12);
        sum += x.s[part];
    }
    ck_assert_double_eq_tol(sum, lk_step_window_s(p), 1e-12);
    /* Nothing counts twice: not what is beside backward, nor what is beside a bucket. */
    ck_assert_uint_eq(lk_step_compute_ns(&r, p, p->begin_ns, p->end_ns), _i ? 65 * US : 60 * US);
    lk_rank_steps_fini(&r);
}
END_TEST

SUITE(steps_update, c)
{
    tcase_add_loop_test(c, hidden_updates_cost_the_step_nothing, 0, LK_COUNT(truths));
}
