/* Which backward a gradient's instant belongs to. */
#include "base/array.h"
#include "base/clock.h"
#include "profiler/analysis/steps.h"
#include "tests/rigs/suite.h"

#define US LK_NS_PER_US

static const struct lk_trace_track tracks[] = {
    {.name = "host", .kind = LK_TRACK_HOST},
    {.name = "compute", .kind = LK_TRACK_COMPUTE},
};

/* A gradient's time may be a kernel's, by another clock than the backward's: beside it by an error
 * of clocks it is of that backward, at its edge; a millisecond away it is of none. */
START_TEST(marks_beside_their_backward)
{
    static const struct {
        uint64_t at_us;
        int backward; /* -1: none */
        uint64_t moved_us;
    } rows[] = {{500, -1, 0},    {1998, 0, 2000}, {2050, 0, 2050}, {2103, 0, 2100},
                {2290, 1, 2300}, {2404, 1, 2400}, {3600, -1, 0}};
    struct lk_trace_span spans[LK_COUNT(rows) + 5] = {
        {.track = 0, .span = {.kind = LK_SPAN_STEP, .end_ns = 5000 * US, .index = -1}},
        {.track = 1, .span = {.kind = LK_SPAN_FORWARD, .end_ns = 1 * US}},
        {.track = 1,
         .span = {.kind = LK_SPAN_BACKWARD, .start_ns = 2000 * US, .end_ns = 2100 * US}},
        {.track = 1, .span = {.kind = LK_SPAN_FORWARD, .start_ns = 2100 * US, .end_ns = 2200 * US}},
        {.track = 1,
         .span = {.kind = LK_SPAN_BACKWARD, .start_ns = 2300 * US, .end_ns = 2400 * US}},
    };
    struct lk_trace t = {.info = {.world_size = 1, .accumulation = 2, .local_batch = 1},
                         .clock = lk_clock_identity(),
                         .tracks = (struct lk_trace_track *)tracks,
                         .n_tracks = LK_COUNT(tracks),
                         .spans = spans,
                         .n_spans = LK_COUNT(spans)};
    struct lk_rank_steps r;
    const struct lk_range *backwards[2];
    size_t seen[2] = {0};

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        spans[5 + i] = (struct lk_trace_span){.track = 1,
                                              .span = {.kind = LK_SPAN_GRADIENT,
                                                       .start_ns = rows[i].at_us * US,
                                                       .end_ns = rows[i].at_us * US,
                                                       .index = (int32_t)i}};
    ck_assert_int_eq(lk_rank_steps_read(&t, &r), LK_OK);
    ck_assert_uint_eq(r.n_ranges, 4);
    backwards[0] = &r.ranges[1];
    backwards[1] = &r.ranges[3];
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const struct lk_range *b = rows[i].backward < 0 ? NULL : backwards[rows[i].backward];
        const struct lk_mark *x;

        if (!b)
            continue;
        x = &r.marks[b->first_mark + seen[rows[i].backward]++];
        ck_assert_int_eq(x->tensor, (int)i);
        ck_assert_uint_eq(x->at_ns, rows[i].moved_us * US);
    }
    for (int k = 0; k < 2; k++)
        ck_assert_uint_eq(backwards[k]->n_marks, seen[k]);
    lk_rank_steps_fini(&r);
}
END_TEST

SUITE(step_marks, tc)
{
    tcase_add_test(tc, marks_beside_their_backward);
}
