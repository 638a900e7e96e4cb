/* Breakdowns of what a device did: intervals, traces of own runs and of imports. */
#include "profiler/analysis/breakdown.h"

#include "base/array.h"
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compute 10-30 and, within it, 12-20; communication 25-50 and 25-40; a copy 60-70. */
START_TEST(intervals_sum)
{
    struct lk_uses u = {0};
    struct lk_breakdown b = lk_uses_sum(&u);

    ck_assert_uint_eq(b.n, 0);
    ck_assert(isnan(lk_breakdown_s(&b, b.span_ns)));
    ck_assert(isnan(lk_breakdown_overlap(&b)));
    must(lk_uses_add(&u, LK_USE_MEMORY, 60, 70));
    must(lk_uses_add(&u, LK_USE_COMMUNICATION, 25, 50));
    must(lk_uses_add(&u, LK_USE_COMPUTE, 10, 30));
    must(lk_uses_add(&u, LK_USE_COMPUTE, 12, 20));
    must(lk_uses_add(&u, LK_USE_COMMUNICATION, 25, 40));
    b = lk_uses_sum(&u);
    ck_assert_uint_eq(b.n, 5);
    ck_assert_int_eq(b.span_ns, 60);
    ck_assert_int_eq(b.idle_ns, 10);
    ck_assert_int_eq(b.compute_ns, 20);
    ck_assert_int_eq(b.comm_ns, 25);
    ck_assert_int_eq(b.exposed_ns, 20);
    ck_assert_double_eq_tol(lk_breakdown_overlap(&b), 0.2, 1e-12);
    lk_uses_fini(&u);
}
END_TEST

/*
 * The model's steps after the warm-up: compute is forward, backward and optimizer; three of four
 * collectives end within the backward, the last is exposed; input and gaps are idle.
 */
START_TEST(a_run_of_hosts)
{
    const struct step_model m = step_model_default((struct step_model){0});
    const int64_t n = m.steps - m.warmup, wire_ns = 564288; /* 2 (20 us + 1 MiB / 2 / 2 GB/s) */
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;

    must(step_model_run(&m, &traces, NULL));
    must(lk_run_take("model", traces, 2, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    must(lk_analysis_table(&a, LK_ANALYSIS_TIME, &t));
    ck_assert_ptr_nonnull(strstr(t->title, "What the hosts did"));
    ck_assert_uint_eq(t->n_rows, 2);
    for (size_t k = 0; k < 2; k++) {
        struct lk_breakdown b;

        must(lk_trace_breakdown(&run.traces[k], m.warmup, NULL, 0, &b));
        ck_assert_int_eq(b.compute_ns, n * 16000000);
        ck_assert_int_le(llabs(b.comm_ns - n * 4 * wire_ns), 4 * n); /* rounded to ns */
        ck_assert_int_le(llabs(b.exposed_ns - n * wire_ns), 4 * n);
        ck_assert_int_eq(b.idle_ns, (n - 1) * 500000);
        ck_assert_int_eq(b.span_ns, b.idle_ns + b.compute_ns + b.exposed_ns);
        ck_assert_double_eq(lk_table_cell(t, k, "compute_s")->number, 1e-9 * (double)b.compute_ns);
        must(lk_trace_breakdown(&run.traces[k], 0, (uint32_t[]){7, 9}, 2, &b));
        ck_assert_int_eq(b.compute_ns, 2 * 16000000);
    }
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A GPU's kernels are its work; without them nothing is known of it. */
START_TEST(a_run_of_gpus)
{
    const struct step_model m = step_model_default(
        (struct step_model){.launch_s = {_i ? 1e-4 : 0, _i ? 1e-4 : 0}}); /* NCCL's kernels */
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < 2; k++) {
        free(traces[k].info.device);
        must(lk_strdup(&traces[k].info.device, "NVIDIA H100"));
    }
    must(lk_run_take("model", traces, 2, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    must(lk_analysis_table(&a, LK_ANALYSIS_TIME, &t));
    if (_i == 0) {
        ck_assert_ptr_null(t);
    } else {
        ck_assert_ptr_nonnull(strstr(t->title, "What the GPUs did"));
        ck_assert_double_eq_tol(lk_table_cell(t, 0, "comm_s")->number, 25 * 4 * 564.288e-6, 1e-6);
    }
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Write the parts of the trace in the mask. */
static char *put_parts(unsigned mask)
{
    char text[8192] = "";

    for (size_t i = 0; i < KINETO_PARTS; i++)
        if (mask >> i & 1)
            strncat(text, kineto_parts[i], sizeof text - strlen(text) - 1);
    return scratch_put(mask == 15 ? "rank1.json" : "part-rank1.json", text, strlen(text));
}

/* An import's breakdown is that of what its file's steps launched, also where a user's kernels
 * communicate. With the last step left out it is that of a file without it. */
START_TEST(an_import_is_its_file)
{
    const struct lk_import_options o = {.patterns = _i == 1 ? "gemm" : NULL, .drop_last = _i == 2};
    struct lk_import run = {0}, of = {0};
    const struct lk_breakdown *want;
    char *paths[2];
    struct lk_breakdown b;

    paths[0] = put_parts(15);
    paths[1] = put_parts(_i == 2 ? 11 : 15);
    must(lk_import_run(&paths[0], 1, &o, &run));
    must(lk_import_run(&paths[1], 1, &(struct lk_import_options){.patterns = o.patterns}, &of));
    want = &of.rows[0].linked;
    must(lk_trace_breakdown(&run.traces[0], 0, NULL, 0, &b));
    ck_assert_int_eq(b.span_ns, want->span_ns);
    ck_assert_int_eq(b.idle_ns, want->idle_ns);
    ck_assert_int_eq(b.compute_ns, want->compute_ns);
    ck_assert_int_eq(b.comm_ns, want->comm_ns);
    ck_assert_int_eq(b.exposed_ns, want->exposed_ns);
    ck_assert_int_eq(b.comm_ns, _i == 0 ? 32000 : _i == 1 ? 92000 : 16000);
    ck_assert_uint_eq(b.n, want->n);
    lk_import_fini(&of);
    lk_import_fini(&run);
    free(paths[0]);
    free(paths[1]);
}
END_TEST

SUITE(breakdown, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, intervals_sum);
    tcase_add_test(t, a_run_of_hosts);
    tcase_add_loop_test(t, a_run_of_gpus, 0, 2);
    tcase_add_loop_test(t, an_import_is_its_file, 0, 3);
}
