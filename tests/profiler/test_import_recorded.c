/*
 * Recorded traces, which are not part of the project: in the folder LK_TRACES, else in
 * ../shared/data/traces. Where they are missing each test says that it was skipped.
 */
#include "profiler/import/import.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/analysis/analysis.h"
#include "profiler/import/kineto.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/split.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folder of recorded traces, which are not part of the project. */
static char *recorded(const char *name)
{
    const char *folder = getenv("LK_TRACES") ? getenv("LK_TRACES") : "../shared/data/traces";
    char *path = NULL;

    must(lk_asprintf(&path, "%s/%s", folder, name));
    if (access(path, R_OK) == 0)
        return path;
    skip("no recorded trace %s", path);
    free(path);
    return NULL;
}

#define RESNET50 "hta/ddp_resnet50_a100_ws2_rank0.nccl_data.json.gz"
#define RESNET18 "tracelens/ddp_resnet18_mi300x_ws8_rank0.json.gz"

/* ns; HTA's and TraceLens's own values of these files. */
static const struct {
    const char *file;
    bool linked;
    struct lk_breakdown b;
} breakdowns[] = {
    {RESNET50, false, {660551005, 503050991, 115655847, 46876493, 39559468, 3774, 0, false}},
    {RESNET50, true, {660551005, 503050991, 115655847, 46876493, 39559468, 3774, 0, false}},
    {RESNET18, false, {86567708, 2565652, 25739303, 71516523, 55625224, 3653, 968, false}},
    {RESNET18, true, {56517603, 283536, 19234094, 47200310, 35283137, 2685, 968, false}},
};

START_TEST(breakdowns_are_those_of_peers)
{
    char *path = recorded(breakdowns[_i].file);
    const struct lk_breakdown *want = &breakdowns[_i].b;
    struct lk_breakdown b;
    struct lk_events e;

    if (!path)
        return;
    must(lk_kineto_read(path, NULL, &e));
    lk_events_sort(&e);
    must(lk_breakdown(&e, -1, &(struct lk_convention){.linked = breakdowns[_i].linked}, &b));
    ck_assert_int_eq(b.span_ns, want->span_ns);
    ck_assert_int_eq(b.idle_ns, want->idle_ns);
    ck_assert_int_eq(b.compute_ns, want->compute_ns);
    ck_assert_int_eq(b.comm_ns, want->comm_ns);
    ck_assert_int_eq(b.exposed_ns, want->exposed_ns);
    ck_assert_uint_eq(b.n, want->n);
    ck_assert_uint_eq(b.n_unlinked, want->n_unlinked);
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* The steps of the run that an import makes compute, communicate and expose as long as the peers
 * say of the events that they launched. */
START_TEST(steps_are_broken_down_alike)
{
    char *path = recorded(breakdowns[_i].file);
    struct lk_import run = {0};

    if (!path)
        return;
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    assert_split(&run.traces[0], &breakdowns[_i].b);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* Kernels by name, as HTA groups them: sums of durations in microseconds by the trace's JSON.
 * NCCL's is the sum of the 15 of HTA's own test. */
START_TEST(kernels_by_name)
{
    static const struct {
        const char *name; /* how it begins */
        double n, total_us;
    } rows[] = {
        {"ncclKernel_AllReduce_RING_LL_Sum_float(", 15, 46762.159},
        {"void cudnn::ops::nchwToNhwcKernel<float, float", 474, 12616.974},
        {"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128", 33, 9592.287},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add", 96,
         8818.791},
    };
    char *path = recorded(RESNET50);
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};
    struct lk_table *t = NULL;
    double kernels_s = 0;
    size_t n = 0;

    if (!path)
        return;
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    must(lk_run_take("imported", run.traces, 1, &r));
    run.traces = NULL;
    must(lk_analyze(&r, NULL, 0, &a));
    must(lk_analysis_table(&a, LK_ANALYSIS_KERNELS, &t));
    for (size_t i = 0; i < t->n_rows; i++) {
        const char *name = lk_table_cell(t, i, "name")->text;

        if (i < LK_COUNT(rows)) {
            ck_assert_msg(!strncmp(name, rows[i].name, strlen(rows[i].name)), "%s", name);
            ck_assert_double_eq(lk_table_cell(t, i, "n")->number, rows[i].n);
            ck_assert_double_eq_tol(1e6 * lk_table_cell(t, i, "total_s")->number, rows[i].total_us,
                                    1e-6);
        }
        if (strcmp(lk_table_cell(t, i, "use")->text, "copies") != 0) {
            kernels_s += lk_table_cell(t, i, "total_s")->number;
            n++;
        }
    }
    ck_assert_uint_eq(n, 70);
    ck_assert_double_eq_tol(1e6 * kernels_s, 162532.34, 1e-3);
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* A data base of Nsight Systems whose job has no steps: sums by SQL, over StringIds. */
START_TEST(kernels_without_steps)
{
    static const struct {
        const char *name; /* how it begins */
        double n, total_ns;
    } rows[] = {
        {"void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)12", 68, 272317378},
        {"nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", 235, 38226009},
        {"void at::native::elementwise_kernel<(int)128, (int)2, void a", 269, 25996204},
    };
    char *path = recorded("nsys_ai/mfu_2gpu_before.sqlite.gz");
    struct lk_import run = {0};
    struct lk_table *t = NULL;

    if (!path)
        return;
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_ptr_nonnull(strstr(run.no_steps, "no steps: it has no ProfilerStep, 0 optimizer"));
    must(lk_table_create("kernels", lk_kernel_columns, lk_n_kernel_columns, &t));
    must(lk_kernel_sums_fill(&run.kernels, NAN, t));
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const char *name = lk_table_cell(t, i, "name")->text;

        ck_assert_msg(!strncmp(name, rows[i].name, strlen(rows[i].name)), "%s", name);
        ck_assert_double_eq(lk_table_cell(t, i, "n")->number, rows[i].n);
        ck_assert_double_eq_tol(lk_table_cell(t, i, "total_s")->number, 1e-9 * rows[i].total_ns,
                                1e-10);
    }
    lk_table_destroy(t);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* The host is a step ahead of the GPU, which is never idle: the three steps are the span of what
 * they launched. */
START_TEST(a_step_is_as_long_as_on_the_gpu)
{
    char *path = recorded(RESNET18);
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};

    if (!path)
        return;
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    must(lk_run_take("imported", run.traces, 1, &r));
    run.traces = NULL;
    must(lk_analyze(&r, NULL, 0, &a));
    ck_assert_double_eq_tol(3 * a.step_s, 56517603e-9, 1e-6);
    assert_adds_up(&a);
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

static const struct {
    const char *file;
    uint64_t elements[5];
    size_t n, n_tensors; /* n_tensors: the buckets where it does not have the gradients' shapes */
    uint32_t first_step;
    int64_t kernels_ns[3][5]; /* 0: not given */
} buckets[] = {
    {RESNET50,
     {2049000, 7875584, 6563840, 6637568, 2431040},
     5,
     5,
     4,
     {{3307000, 2424400, 2368500, 2160800, 1689600},
      {2520600, 2673900, 2621500, 2417200, 2028300},
      {5993400, 5983000, 5807900, 2636700, 2129400}}},
    {RESNET18, {2873320, 8816192}, 2, 62, 15, {{0}}},
};

/* One data base of two processes: the peer's values of each GPU, us. */
START_TEST(data_base_is_broken_down)
{
    static const int64_t span_us[] = {299849, 298662}, busy_us[] = {270863, 264325},
                         compute_us[] = {253691, 256096}, comm_us[] = {17173, 8229};
    char *path = recorded("nsys_ai/mfu_2gpu_before.sqlite.gz");
    struct lk_import run = {0};

    if (!path)
        return;
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_uint_eq(run.n, 2);
    ck_assert_ptr_nonnull(run.no_steps);
    for (size_t k = 0; k < 2; k++) {
        const struct lk_breakdown *b = &run.rows[k].all;

        ck_assert_int_eq((b->span_ns + 500) / 1000, span_us[k]);
        ck_assert_int_eq((b->compute_ns + b->exposed_ns + 500) / 1000, busy_us[k]);
        ck_assert_int_eq((b->compute_ns + 500) / 1000, compute_us[k]);
        ck_assert_int_eq((b->comm_ns + 500) / 1000, comm_us[k]);
    }
    lk_import_fini(&run);
    free(path);
}
END_TEST

START_TEST(buckets_are_those_recorded)
{
    char *path = recorded(buckets[_i].file);
    struct lk_import run = {0};
    const struct lk_trace *t;
    uint64_t sum = 0;

    if (!path)
        return;
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    t = &run.traces[0];
    ck_assert_uint_eq(t->info.n_tensors, buckets[_i].n_tensors);
    for (size_t b = 0; b < buckets[_i].n; b++) {
        const struct lk_span *s =
            kineto_span(t, LK_SPAN_COLLECTIVE, buckets[_i].first_step, (int32_t)b);

        ck_assert_uint_eq(s->bytes,
                          buckets[_i].elements[b] * lk_dtype_bytes(t->info.tensors[0].dtype));
        sum += buckets[_i].elements[b];
    }
    for (size_t i = 0; i < t->info.n_tensors; i++)
        sum -= t->info.tensors[i].elems;
    ck_assert_uint_eq(sum, 0);
    for (uint32_t step = 0; step < 3 && buckets[_i].kernels_ns[0][0]; step++)
        for (size_t b = 0; b < buckets[_i].n; b++) {
            const struct lk_span *s =
                kineto_span(t, LK_SPAN_COLLECTIVE, buckets[_i].first_step + step, (int32_t)b);

            ck_assert_int_eq((int64_t)(s->end_ns - s->start_ns + 50) / 100,
                             buckets[_i].kernels_ns[step][b] / 100);
        }
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* A step of ResNet-50 in both of Chakra's forms, of which its project's own reader gives the sums;
 * the JSON form does not say sizes. */
static const struct {
    const char *archive, *member;
    bool sized;
} graphs[] = {
    {"chakra/feeder_tests_trace.tar.gz", "chakra.0.et", true},
    {"chakra/json_trace.tar.gz", "chakra.0.json", false},
};

START_TEST(chakra_graph_is_the_recorded_one)
{
    static const uint64_t bytes[] = {8196000, 31502336, 26255360, 26550272, 9724160};
    char *archive = recorded(graphs[_i].archive), *path = NULL, *notes;
    struct lk_import run = {0};
    size_t n = 0;

    if (!archive)
        return;
    must(lk_path_join(&path, scratch_dir, graphs[_i].member));
    ck_assert_int_eq(
        shell_run("tar xzOf %s --wildcards '*/%s' > %s", archive, graphs[_i].member, path).code, 0);
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    notes = run.files[0].source.notes[0];
    ck_assert_msg(strstr(notes, "3664 nodes: 3643 COMP of 343769 us, 1209 on the GPU; "
                                "21 COMM_COLL of 38026 us, 7 on the GPU") != NULL,
                  "%s", notes);
    ck_assert_uint_eq(run.rows[0].all.n, 1216);
    /* Dependencies and durations alone give the replay, so both forms give one; the value is that
     * of a program of 30 lines in another language. */
    ck_assert_int_eq(run.rows[0].all.span_ns, 295227000);
    for (size_t i = 0; i < run.traces[0].n_spans; i++) {
        const struct lk_span *s = &run.traces[0].spans[i].span;

        if (s->kind != LK_SPAN_COLLECTIVE || s->index < 0)
            continue;
        ck_assert_int_eq(s->index, (int)n);
        ck_assert_uint_eq(s->bytes, graphs[_i].sized ? bytes[n] : 0);
        n++;
    }
    ck_assert_uint_eq(n, 5);
    lk_import_fini(&run);
    free(path);
    free(archive);
}
END_TEST

SUITE(import_recorded, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, chakra_graph_is_the_recorded_one, 0, LK_COUNT(graphs));
    tcase_add_loop_test(t, breakdowns_are_those_of_peers, 0, (int)LK_COUNT(breakdowns));
    tcase_add_loop_test(t, steps_are_broken_down_alike, 1, 2);
    tcase_add_loop_test(t, steps_are_broken_down_alike, 3, 4);
    tcase_add_test(t, kernels_by_name);
    tcase_add_test(t, kernels_without_steps);
    tcase_add_test(t, a_step_is_as_long_as_on_the_gpu);
    tcase_add_test(t, data_base_is_broken_down);
    tcase_add_loop_test(t, buckets_are_those_recorded, 0, (int)LK_COUNT(buckets));
}
