/* Spans without a step get the step of the range that contains them. */
#include "profiler/record/span_file.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

enum { HOST, COMPUTE, COMM, COPY, COMPUTE_GPU, COMM_GPU, TRACKS };

static struct lk_trace_track tracks[TRACKS] = {
    [HOST] = {.kind = LK_TRACK_HOST},           [COMPUTE] = {.kind = LK_TRACK_COMPUTE},
    [COMM] = {.kind = LK_TRACK_COMM},           [COPY] = {.kind = LK_TRACK_COPY},
    [COMPUTE_GPU] = {.kind = LK_TRACK_COMPUTE}, [COMM_GPU] = {.kind = LK_TRACK_COMM},
};

static struct lk_trace_span spans[32];

static void add(struct lk_trace *t, uint32_t track, enum lk_span_kind kind, uint64_t start,
                uint64_t end, uint32_t step, int32_t index)
{
    spans[t->n_spans++] = (struct lk_trace_span){.span = {.start_ns = start,
                                                          .end_ns = end,
                                                          .step = step,
                                                          .index = index,
                                                          .kind = (uint16_t)kind},
                                                 .track = track};
}

/* Make two steps; the passes, collectives and host ranges of step 4 lag behind each other. */
static struct lk_trace ranges(void)
{
    struct lk_trace t = {.tracks = tracks, .n_tracks = TRACKS, .spans = spans};

    add(&t, HOST, LK_SPAN_STEP, 100, 200, 4, -1);
    add(&t, COMPUTE, LK_SPAN_FORWARD, 110, 150, 4, 0);
    add(&t, COMPUTE, LK_SPAN_BACKWARD, 150, 230, 4, 0);
    add(&t, HOST, LK_SPAN_STEP, 200, 300, 5, -1);
    add(&t, COMM, LK_SPAN_COLLECTIVE, 220, 250, 4, 7);
    add(&t, COMPUTE, LK_SPAN_FORWARD, 240, 280, 5, 0);
    add(&t, COMM, LK_SPAN_COLLECTIVE, 260, 290, 5, 8);
    return t;
}

static const struct {
    uint32_t track;
    enum lk_span_kind kind;
    uint64_t start, end;
    uint32_t step;
    int32_t index;
} rows[] = {
    {COMPUTE_GPU, LK_SPAN_KERNEL, 120, 130, 4, -1},
    {COMPUTE_GPU, LK_SPAN_KERNEL, 108, 120, 4, -1}, /* it began before, by another clock */
    {COMPUTE_GPU, LK_SPAN_KERNEL, 238, 248, 5, -1},
    {COMPUTE_GPU, LK_SPAN_MEMSET, 235, 235, 4, -1}, /* between two: the earlier */
    {COMPUTE_GPU, LK_SPAN_KERNEL, 10, 20, 4, -1},   /* before all: the first */
    {COPY, LK_SPAN_COPY, 250, 260, 5, -1},
    {COMM_GPU, LK_SPAN_KERNEL, 221, 249, 4, 7},
    {COMM_GPU, LK_SPAN_KERNEL, 218, 249, 4, 7},
    {COMM_GPU, LK_SPAN_KERNEL, 252, 256, 4, -1}, /* in none: no bucket */
    {COMM_GPU, LK_SPAN_COPY, 262, 264, 5, -1},
    {HOST, LK_SPAN_OVERHEAD, 205, 206, 5, -1},
    {HOST, LK_SPAN_SYNC, 150, 190, 4, -1},
};

START_TEST(a_span_lies_in_a_range)
{
    struct lk_trace t = ranges();
    const struct lk_span *s = &spans[t.n_spans].span;

    add(&t, rows[_i].track, rows[_i].kind, rows[_i].start, rows[_i].end, LK_SPAN_STEP_UNKNOWN, -1);
    ck_assert_int_eq(lk_spans_assign_step(&t), LK_OK);
    ck_assert_uint_eq(s->step, rows[_i].step);
    ck_assert_int_eq(s->index, rows[_i].index);
}
END_TEST

START_TEST(known_steps_stay)
{
    struct lk_trace t = ranges();

    add(&t, COMM_GPU, LK_SPAN_KERNEL, 222, 223, 99, 3);
    ck_assert_int_eq(lk_spans_assign_step(&t), LK_OK);
    ck_assert_uint_eq(spans[7].span.step, 99);
    ck_assert_int_eq(spans[7].span.index, 3);
}
END_TEST

START_TEST(without_ranges_it_is_step_0)
{
    struct lk_trace t = {.tracks = tracks, .n_tracks = TRACKS, .spans = spans};

    add(&t, COMPUTE_GPU, LK_SPAN_KERNEL, 1, 2, LK_SPAN_STEP_UNKNOWN, -1);
    ck_assert_int_eq(lk_spans_assign_step(&t), LK_OK);
    ck_assert_uint_eq(spans[0].span.step, 0);
}
END_TEST

SUITE(assign_step, tc)
{
    tcase_add_loop_test(tc, a_span_lies_in_a_range, 0, (int)LK_COUNT(rows));
    tcase_add_test(tc, known_steps_stay);
    tcase_add_test(tc, without_ranges_it_is_step_0);
}
