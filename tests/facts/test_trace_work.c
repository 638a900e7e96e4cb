/* What of a trace is device work: each collective once, where records tell its kernels and where
 * they do not. */
#include "facts/trace_work.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

enum { COMPUTE, COMM, RECORDS, COMPUTE_RECORDS, TRACKS };

static struct lk_trace_track tracks[TRACKS] = {
    [COMPUTE] = {.kind = LK_TRACK_COMPUTE, .stream = 1},
    [COMM] = {.kind = LK_TRACK_COMM, .stream = 2},
    [RECORDS] = {.kind = LK_TRACK_COMM, .stream = 2},
    [COMPUTE_RECORDS] = {.kind = LK_TRACK_COMPUTE, .stream = 1},
};

/* Step 0 as a CPU's: kernels on the ranges' own tracks. Step 1 with a GPU's records, step 2
 * without: they are recorded for some steps only. */
static const struct {
    uint32_t track;
    enum lk_span_kind kind;
    uint32_t step;
    int32_t index;
    const char *category;
    int collective; /* row of its collective; -1: none */
} rows[] = {
    {COMPUTE, LK_SPAN_FORWARD, 0, 0, NULL, -1},
    {COMPUTE, LK_SPAN_KERNEL, 0, -1, "kernel", -1},
    {COMM, LK_SPAN_COLLECTIVE, 0, 0, "kernel", 2},
    {COMM, LK_SPAN_KERNEL, 0, -1, "kernel", -1}, /* a norm */
    {COMM, LK_SPAN_COLLECTIVE, 0, 1, "kernel", 4},
    {COMPUTE, LK_SPAN_FORWARD, 1, 0, NULL, -1},
    {COMPUTE_RECORDS, LK_SPAN_KERNEL, 1, -1, "kernel", -1},
    {COMPUTE_RECORDS, LK_SPAN_COPY, 1, -1, "gpu_memcpy", -1},
    {COMM, LK_SPAN_COLLECTIVE, 1, 0, NULL, 8},
    {RECORDS, LK_SPAN_KERNEL, 1, 0, "kernel", 8},
    {COMM, LK_SPAN_COLLECTIVE, 1, 1, NULL, 10},
    {RECORDS, LK_SPAN_KERNEL, 1, 1, "kernel", 10},
    {COMPUTE, LK_SPAN_FORWARD, 2, 0, "kernel", -1},
    {COMM, LK_SPAN_COLLECTIVE, 2, 0, "kernel", 13},
    {RECORDS, LK_SPAN_KERNEL, 2, -1, "kernel", -1}, /* a norm */
    {COMPUTE, LK_SPAN_GRADIENT, 2, 0, NULL, -1},
};

START_TEST(work_is_counted_once)
{
    struct lk_trace_span spans[LK_COUNT(rows)] = {0};
    const struct lk_trace t = {
        .tracks = tracks, .n_tracks = TRACKS, .spans = spans, .n_spans = LK_COUNT(rows)};
    struct lk_trace_work w;

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        spans[i] = (struct lk_trace_span){
            .span = {.kind = (uint16_t)rows[i].kind, .step = rows[i].step, .index = rows[i].index},
            .track = rows[i].track};
    ck_assert_int_eq(lk_trace_work_init(&w, &t), LK_OK);
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const char *category = lk_trace_work_category(&w, &spans[i]);
        const struct lk_span *of = lk_trace_work_collective(&w, &spans[i]);

        ck_assert_msg(!category == !rows[i].category, "row %zu: %s", i, category);
        if (category)
            ck_assert_str_eq(category, rows[i].category);
        ck_assert_msg(of == (rows[i].collective < 0 ? NULL : &spans[rows[i].collective].span),
                      "row %zu", i);
    }
    lk_trace_work_fini(&w);
}
END_TEST

SUITE(trace_work, tc)
{
    tcase_add_test(tc, work_is_counted_once);
}
