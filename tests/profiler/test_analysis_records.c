/* Analyse runs with records of a GPU: its idle time, and which records are missing. */
#include "profiler/analysis/analysis.h"

#include "base/array.h"
#include "facts/run_facts.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <stdlib.h>
#include <string.h>

/* Add kernels in the first part of each forward and backward, on a track beside the ranges'. */
static void add_kernels(struct lk_trace *t, double share, uint32_t steps)
{
    uint32_t track = trace_add_track(t, "GPU records", LK_TRACK_COMPUTE, 0);
    size_t n = t->n_spans;

    for (size_t i = 0; i < n; i++) {
        struct lk_span s = t->spans[i].span;

        if ((s.kind != LK_SPAN_FORWARD && s.kind != LK_SPAN_BACKWARD) || s.step >= steps)
            continue;
        s.kind = LK_SPAN_KERNEL;
        s.end_ns = s.start_ns + (uint64_t)(share * (double)(s.end_ns - s.start_ns));
        trace_add_span(t, track, s);
    }
}

static void add_counter(struct lk_trace *t, const char *name, double value)
{
    trace_add_span(t, 0,
                   (struct lk_span){.start_ns = 1,
                                    .end_ns = 1,
                                    .value = value,
                                    .kind = LK_SPAN_COUNTER,
                                    .name = trace_add_name(t, name)});
}

/* The analysis reports idle time from a GPU's records, and missing records. */
START_TEST(records_of_a_gpu)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 1});
    struct lk_trace *traces = NULL;
    struct lk_analysis a = {0};
    struct lk_run run = {0};

    must(step_model_run(&m, &traces, NULL));
    free(traces[0].info.device);
    must(lk_strdup(&traces[0].info.device, "NVIDIA H100"));
    add_kernels(&traces[0], _i == 0 ? 0.75 : 0.95, UINT32_MAX);
    if (_i == 0) {
        add_counter(&traces[0], "GPU records dropped", 7);
        add_counter(&traces[0], "GPU records lost", 0);
        add_counter(&traces[0], "GPU records placed by time", 3);
        must(lk_run_info_config(&traces[0].info, "gpu_records_by", "CUPTI"));
    } else {
        must(lk_run_info_config(&traces[0].info, "gpu_records_by", "none: no library"));
    }
    must(lk_run_take("model", traces, 1, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    print_findings(&a);
    assert_adds_up(&a);
    ck_assert(has_finding(&a, "launch bound: no kernel runs in 25 %") == (_i == 0));
    ck_assert(has_finding(&a, "GPU records: 7 were dropped") == (_i == 0));
    ck_assert(has_finding(&a, "GPU records: 3 of NCCL's kernels have step and bucket by their "
                              "time alone") == (_i == 0));
    ck_assert(!has_finding(&a, "GPU records: 0"));
    ck_assert(
        has_finding(&a, "GPU records: none, so kernels and copies are not shown: no library") ==
        (_i == 1));
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Make the forward of the first steps longer, as recording does; later work moves. */
static void lengthen(struct lk_trace *t, uint32_t steps, uint64_t by_ns)
{
    uint64_t *ends = NULL;
    size_t n = 0;

    must(lk_alloc(&ends, steps, sizeof *ends));
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_FORWARD && t->spans[i].span.step < steps)
            ends[n++] = t->spans[i].span.end_ns;
    for (size_t i = 0; i < t->n_spans; i++) {
        struct lk_span *s = &t->spans[i].span;
        size_t before_ready = 0, before_start = 0, before_end = 0;

        for (size_t k = 0; k < n; k++) {
            before_ready += ends[k] <= s->ready_ns;
            before_start += ends[k] <= s->start_ns;
            before_end += ends[k] <= s->end_ns;
        }
        s->ready_ns += before_ready * by_ns;
        s->start_ns += before_start * by_ns;
        s->end_ns += before_end * by_ns;
    }
    free(ends);
}

/*
 * Where some steps have kernels, these are split; all are timed. What recording adds is told from
 * the others, and is not the job's: here, 1 ms more gaps in each of 12 steps.
 */
START_TEST(steps_with_records)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 1});
    const uint32_t recorded = 12;
    struct lk_trace *traces = NULL;
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;
    struct lk_run run = {0};

    must(step_model_run(&m, &traces, NULL));
    free(traces[0].info.device);
    must(lk_strdup(&traces[0].info.device, "NVIDIA H100"));
    add_kernels(&traces[0], 0.75, recorded);
    lengthen(&traces[0], recorded, 1000000);
    must(lk_run_take("model", traces, 1, &run));
    ck_assert_uint_eq(run.n_timed, m.steps - m.warmup);
    ck_assert_uint_eq(run.n_steps, recorded - m.warmup);
    ck_assert_uint_eq(run.steps[run.n_steps - 1], recorded - 1);
    must(lk_analyze(&run, NULL, 0, &a));
    print_findings(&a);
    assert_adds_up(&a);
    ck_assert(has_finding(&a, "launch bound: no kernel runs in 25 % of forward and backward, "
                              "3.75 ms a step (1.00 ms more while recorded)"));
    ck_assert(has_finding(&a, "recording: the 7 steps with records of kernels take 1.00 ms"));
    must(lk_analysis_table(&a, LK_ANALYSIS_WATERFALL, &t));
    ck_assert_uint_eq(t->n_notes, 3);
    ck_assert_ptr_nonnull(strstr(t->notes[2], "others after the warm-up have none"));
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Steps that nobody marked have no forward and backward. */
START_TEST(launches_of_periods)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 1});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    free(traces[0].info.device);
    must(lk_strdup(&traces[0].info.device, "NVIDIA H100"));
    add_kernels(&traces[0], 0.75, UINT32_MAX);
    must(lk_run_info_config(&traces[0].info, LK_PERIOD_CONFIG_KEY, "periods"));
    must(lk_run_take("model", traces, 1, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    print_findings(&a);
    assert_adds_up(&a);
    ck_assert(has_finding(&a, "launch bound: no kernel runs in 25 % of the time from a step's "
                              "first kernel to its last"));
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST
SUITE(analysis_records, t)
{
    tcase_add_loop_test(t, records_of_a_gpu, 0, 2);
    tcase_add_test(t, steps_with_records);
    tcase_add_test(t, launches_of_periods);
}
