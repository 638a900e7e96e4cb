/* Importing traces of other programs: their files, breakdowns, runs made of them. */
#include "profiler/import/import.h"

#include "base/array.h"
#include "base/file.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/job_build.h"
#include "profiler/import/kineto.h"
#include "profiler/import/rank.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Kineto ---- */

/* Write both steps to DIR/name; rank and base replace the text's where given. */
static char *put_steps(const char *name, const char *rank, const char *base)
{
    char text[8192] = "";

    for (size_t i = 0; i < KINETO_PARTS; i++)
        strncat(text, kineto_parts[i], sizeof text - strlen(text) - 1);
    if (rank)
        memcpy(strstr(text, "\"rank\": 1"), rank, strlen(rank));
    if (base)
        memcpy(strstr(text, "1000000000000}"), base, strlen(base));
    return scratch_put(name, text, strlen(text));
}

START_TEST(steps_passes_and_collectives)
{
    char *path = put_steps("rank1.json", NULL, NULL);
    const uint64_t base_ns = 1000000000000;
    struct lk_import run = {0};
    const struct lk_trace *t;
    const struct lk_span *s;

    must(lk_import_run(&path, 1, &(struct lk_import_options){.local_batch = 3}, &run));
    t = &run.traces[0];
    ck_assert_int_eq(t->info.rank, 1);
    ck_assert_int_eq(t->info.world_size, 4);
    ck_assert_int_eq(t->info.accumulation, 1);
    ck_assert_int_eq(t->info.local_batch, 3);
    ck_assert_str_eq(t->info.device, "GPU \"X\"");
    ck_assert_uint_eq(run.rows[0].all.n_unlinked, 1);
    kineto_assert_span(kineto_span(t, LK_SPAN_FORWARD, 7, 0), 30, 60);
    kineto_assert_span(kineto_span(t, LK_SPAN_BACKWARD, 7, 0), 60, 100);
    kineto_assert_span(kineto_span(t, LK_SPAN_OPTIMIZER, 7, -1), 110, 115);
    kineto_assert_span(kineto_span(t, LK_SPAN_BACKWARD, 8, 0), 260, 300);
    s = kineto_span(t, LK_SPAN_COLLECTIVE, 7, 0);
    kineto_assert_span(s, 85, 95);
    ck_assert_uint_eq(s->ready_ns, base_ns + 80000);
    ck_assert_uint_eq(s->bytes, 2000);
    ck_assert_str_eq(lk_trace_span_name(t, s), "all_reduce");
    s = kineto_span(t, LK_SPAN_COLLECTIVE, 7, 1);
    ck_assert_uint_eq(s->ready_ns, base_ns + 100000);
    /* Two buckets, the last one first; DDP's limits that make them. */
    ck_assert_uint_eq(t->info.n_tensors, 2);
    ck_assert_uint_eq(t->info.tensors[0].elems, 500);
    ck_assert_uint_eq(t->info.tensors[1].elems, 1000);
    ck_assert_uint_eq(t->info.first_bytes, 2000);
    ck_assert_uint_eq(kineto_span(t, LK_SPAN_GRADIENT, 7, 1)->start_ns, base_ns + 80000);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* The host runs ahead: the GPU does the first step's work when it has done that of the step before,
 * whose launches are not in the trace. */
START_TEST(the_first_step_begins_on_the_gpu)
{
    char text[8192] = HEAD KERNEL("before", 7, 0, 12, 98) KERNEL("before", 7, 12, 13, 99), *path;
    struct lk_import run = {0};
    const struct lk_trace *t;

    for (size_t i = 1; i < KINETO_PARTS; i++)
        strncat(text, kineto_parts[i], sizeof text - strlen(text) - 1);
    path = scratch_put("rank1.json", text, strlen(text));
    must(lk_import_run(&path, 1, &(struct lk_import_options){.steps_by_gpu = _i}, &run));
    t = &run.traces[0];
    kineto_assert_span(kineto_span(t, LK_SPAN_STEP, 7, -1), _i ? 0 : 25, 100);
    kineto_assert_span(kineto_span(t, LK_SPAN_STEP, 8, -1), 200, 300);
    if (_i)
        kineto_assert_span(kineto_span(t, LK_SPAN_KERNEL, 7, -1), 0, 12);
    else
        kineto_assert_span(kineto_span(t, LK_SPAN_KERNEL, 7, -1), 30, 40);
    ck_assert_uint_eq(run.rows[0].all.n_unlinked, 2);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* An all-reduce that no backward launched, of a loss or a norm, is no bucket; the analysis has a
 * row for each function and power of two of the size. */
START_TEST(other_reductions_are_no_buckets)
{
    char text[8192] = "", *path;
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};

    strncat(text,
            HEAD CALL(5, 75, 1, 777) REDUCE(120, 2, 777, 1) CALL(5, 76, 1, 778)
                REDUCE(123, 2, 778, 5) CALL(5, 77, 1, 779) REDUCE(126, 3, 779, 7),
            sizeof text - 1);
    strncat(text, kineto_parts[1], sizeof text - strlen(text) - 1);
    strncat(text, TAIL, sizeof text - strlen(text) - 1);
    path = scratch_put("rank1.json", text, strlen(text));
    must(lk_import_run(&path, 1, &(struct lk_import_options){.nodes = 2}, &run));
    ck_assert_uint_eq(run.traces[0].info.n_tensors, 2);
    ck_assert_int_eq(run.traces[0].info.nodes, 2);
    kineto_assert_span(kineto_span(&run.traces[0], LK_SPAN_COLLECTIVE, 7, -1), 120, 122);
    must(lk_run_take("imported", run.traces, 1, &r));
    run.traces = NULL;
    must(lk_analyze(&r, NULL, 0, &a));
    ck_assert_uint_eq(a.n_buckets, 4);
    ck_assert_str_eq(a.buckets[0].function, "all_reduce");
    ck_assert_uint_eq(a.buckets[0].bytes, 2);
    ck_assert_uint_eq(a.buckets[0].n, 1);
    ck_assert_str_eq(a.buckets[1].function, "all_reduce");
    ck_assert_uint_eq(a.buckets[1].bytes, 12); /* of 10 and 14 */
    ck_assert_uint_eq(a.buckets[1].n, 2);
    ck_assert_double_eq_tol(a.buckets[1].wire_s, 2.5e-6, 1e-12);
    ck_assert_int_eq(a.buckets[2].bucket, 0);
    ck_assert_ptr_null(a.buckets[2].function);
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* The launch is the time from the bucket's readiness to its kernel; a job comes of it. */
START_TEST(an_import_is_analysed)
{
    char *path = put_steps("rank1.json", NULL, NULL);
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};
    struct lk_run_set set = {.runs = &r, .n = 1};
    struct lk_job job = {0};

    must(lk_import_run(&path, 1, &(struct lk_import_options){.local_batch = 3}, &run));
    must(lk_run_take("imported", run.traces, 1, &r));
    run.traces = NULL;
    ck_assert_uint_eq(r.n_steps, 2);
    must(lk_analyze(&r, NULL, 0, &a));
    ck_assert(a.launches);
    ck_assert_double_eq_tol(a.buckets[0].launch_s, 5e-6, 1e-12);
    ck_assert_double_eq_tol(a.buckets[1].launch_s, 4e-6, 1e-12);
    ck_assert_double_eq_tol(a.buckets[1].wire_s, 6e-6, 1e-12);
    must(lk_job_build(&set, &job));
    ck_assert_uint_eq(job.n_tensors, 2);
    ck_assert_double_eq_tol(job.tensors[1].ready, 0.5, 1e-9);
    ck_assert_double_eq_tol(job.compute[0].forward_s.value, 30e-6, 1e-12);
    ck_assert_str_eq(job.place.device, "GPU \"X\"");
    ck_assert_str_eq(job.runs[0].place.device, "GPU \"X\"");
    ck_assert(job.reduce == LK_REDUCTION_LAST &&
              job.runs[0].config.reduce ==
                  LK_REDUCTION_EVERY); /* one micro-batch chooses nothing */
    lk_job_fini(&job);
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* Input that is cut off, wrong or huge: read as far as it makes sense, counted, never a crash. */
static const struct {
    const char *text;
    enum lk_status status;
    uint64_t read, skipped;
    size_t kept;
    bool cut;
} hostile[] = {
    {"", LK_EPARSE, 0, 0, 0, false},
    {"17", LK_EPARSE, 0, 0, 0, false},
    {"{}", LK_OK, 0, 0, 0, false},
    {"{\"traceEvents\": 3}", LK_EPARSE, 0, 0, 0, false},
    {HEAD KERNEL("a", 7, NaN, 1, 1) KERNEL("a", 7, 1, -5, 2) KERNEL("a", 7, 3, 1, 3) TAIL, LK_OK, 3,
     2, 1, false},
    {HEAD KERNEL("a", 7, 99999999999999999999, 1, 1) TAIL, LK_OK, 1, 1, 0, false},
    {HEAD KERNEL("a", 7, 1, 1, 1) "{\"ph\":\"X\",\"cat\":\"kern", LK_OK, 1, 0, 1, true},
    {HEAD KERNEL("a", 7, 1, 1, 1), LK_OK, 1, 0, 1, true},
    {HEAD KERNEL("\xff\xfe\x80", 7, 1, 1, 1) TAIL, LK_OK, 1, 0, 1, false},
    {HEAD "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":7,\"ts\":{},\"dur\":[]}," TAIL, LK_OK, 1, 1, 0,
     false},
    {HEAD "[[[1]],{}],3,\"x\",null," KERNEL("a", 7, 1, 1, 1) TAIL, LK_OK, 1, 0, 1, false},
    {"[" KERNEL("a", 7, 1, 1, 1) "]", LK_OK, 1, 0, 1, false},
};

START_TEST(hostile_files)
{
    char *path = scratch_put("x.json", hostile[_i].text, strlen(hostile[_i].text));
    struct lk_events e;

    ck_assert_msg(lk_kineto_read(path, NULL, &e) == hostile[_i].status, "%s", lk_error_text());
    ck_assert_uint_eq(e.source.n_read, hostile[_i].read);
    ck_assert_uint_eq(e.source.n_skipped, hostile[_i].skipped);
    ck_assert_uint_eq(e.n_events, hostile[_i].kept);
    ck_assert(e.source.cut == hostile[_i].cut);
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* A million brackets, and an event of 40 MB of digits, gzipped: bounded memory, the rest is read.
 */
START_TEST(depth_and_length_are_bounded)
{
    enum { DEPTH = 1000000, DIGITS = 40 << 20 };
    const char *head = "{\"traceEvents\": [{\"ph\":\"X\",\"args\":",
               *tail = KERNEL("a", 7, 1, 1, 1);
    size_t n = _i == 0 ? 2 * (size_t)DEPTH : (size_t)DIGITS, used;
    char *text = malloc(n + 1000), *path;
    struct lk_events e;

    ck_assert_ptr_nonnull(text);
    used = (size_t)snprintf(text, 100, "%s", head);
    for (size_t i = 0; i < n; i++)
        text[used + i] = _i == 1 ? '7' : i < n / 2 ? '[' : ']';
    used += n;
    used += (size_t)snprintf(text + used, 900, "},%s]}", tail);
    path = scratch_put("deep.json.gz", text, used);
    must(lk_kineto_read(path, NULL, &e));
    ck_assert_uint_eq(e.source.n_read, 2);
    ck_assert_uint_eq(e.source.n_skipped, (uint64_t)_i);
    ck_assert_uint_eq(e.n_events, 1);
    lk_events_fini(&e);
    free(path);
    free(text);
}
END_TEST

/* Two ranks on clocks 5 ms apart, whose collectives end together. */
START_TEST(ranks_are_aligned_by_ends)
{
    char *paths[2];
    struct lk_import run = {0};

    paths[0] = put_steps("rank1.json", NULL, NULL);
    paths[1] = put_steps("rank3.json", "\"rank\": 3", "1000005000000");
    must(lk_import_run(paths, 2, &(struct lk_import_options){0}, &run));
    ck_assert_int_eq(run.rows[1].rank, 3);
    ck_assert_int_eq(run.traces[1].clock.offset_ns, -5000000);
    ck_assert_uint_eq(run.traces[1].clock.uncertainty_ns, 0);
    ck_assert_int_eq(run.traces[1].info.world_size, 4);
    lk_import_fini(&run);
    /* A rank twice. */
    free(paths[1]);
    paths[1] = put_steps("again.json", NULL, NULL);
    ck_assert_int_eq(lk_import_run(paths, 2, &(struct lk_import_options){0}, &run), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "both of rank 1"));
    free(paths[0]);
    free(paths[1]);
}
END_TEST

/* Four of eight ranks reduce a gradient: ranks 1 and 2 may be of different fours, and the model is
 * split over two GPUs. */
START_TEST(groups_are_smaller_than_the_job)
{
    const struct lk_import_options options = {0};
    char *paths[] = {put_steps("a.json", NULL, NULL),
                     put_steps("b.json", "\"rank\": 2", "1000000300000}")};
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};
    struct lk_run_set set = {.runs = &r, .n = 1};
    struct lk_job job = {0};

    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        size_t n;

        must(lk_file_read(paths[i], &text, &n));
        memcpy(strstr(text, "\"world_size\": 4"), "\"world_size\": 8", 15);
        free(paths[i]);
        paths[i] = scratch_put(i ? "rank2.json" : "rank1.json", text, n);
        free(text);
    }
    must(lk_import_run(paths, 2, &options, &run));
    must(lk_run_take("imported", run.traces, 2, &r));
    run.traces = NULL;
    ck_assert_int_eq(lk_run_gradient_ranks(&r), 4);
    must(lk_analyze(&r, NULL, 0, &a));
    for (size_t i = 0; i < a.n_collectives; i++)
        ck_assert(!a.collectives[i].resolved && a.collectives[i].late_rank < 0);
    ck_assert_double_eq(a.buckets[0].wait_s, 0);
    ck_assert_double_eq_tol(a.buckets[1].wire_s, 6e-6, 1e-12);
    must(lk_job_build(&set, &job));
    ck_assert_int_eq(job.tensor_parallel, 2);
    ck_assert_int_eq(job.runs[0].config.world_size, 8);
    ck_assert_int_eq(lk_config_replicas(&job.runs[0].config), 4);
    lk_job_fini(&job);
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(paths[0]);
    free(paths[1]);
}
END_TEST

/* Users choose: ranges that are steps, whose GPU time counts, whether the last step is left out. */
START_TEST(steps_are_chosen)
{
    static const char text[] =
        HEAD RANGE("iteration", 5, 0, 100) RANGE("iteration", 5, 200, 100) CALL(5, 90, 2, 1)
            OP("autograd::engine::evaluate_function: A", 6, 45, 20) KERNEL("a", 7, 210, 20, 1) TAIL;
    char *path = scratch_put("rank1.json", text, sizeof text - 1);
    struct lk_import run = {0};

    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_ptr_nonnull(strstr(run.no_steps, "--step-range"));
    ck_assert_uint_eq(run.kernels.n, 1); /* they are known without steps */
    ck_assert_str_eq(run.kernels.at[0].name, "a");
    ck_assert_uint_eq(run.kernels.at[0].n, 1);
    ck_assert_uint_eq(run.kernels.at[0].total_ns, 20000);
    lk_import_fini(&run);
    must(lk_import_run(&path, 1, &(struct lk_import_options){.step_range = "iter"}, &run));
    kineto_assert_span(kineto_span(&run.traces[0], LK_SPAN_STEP, 1, -1), 200, 300);
    kineto_assert_span(kineto_span(&run.traces[0], LK_SPAN_KERNEL, 0, -1), 210, 230);
    lk_import_fini(&run);
    must(lk_import_run(
        &path, 1, &(struct lk_import_options){.step_range = "iter", .steps_by_gpu = true}, &run));
    /* It runs in another step: of which pass is it there? */
    ck_assert_ptr_nonnull(strstr(run.no_steps, "--steps-by=gpu: 1 of its 1 events"));
    lk_import_fini(&run);
    must(lk_import_run(&path, 1,
                       &(struct lk_import_options){.step_range = "iter", .drop_last = true}, &run));
    ck_assert_uint_eq(run.traces[0].info.steps, 1);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* ---- What the host tells ---- */

#define EXECUTED(dims, type)                                                                       \
    ", {\"name\": \"torch::autograd::AccumulateGrad\", \"id\": 9, \"input_shapes\": [" dims        \
    "], \"input_types\": [\"" type "\"]}"
#define EXECUTION                                                                                  \
    "{\"schema\": \"1.0.1\", \"pid\": 7, \"nodes\": [{\"name\": \"aten::add\", \"id\": 1, "        \
    "\"ctrl_deps\": 2, \"input_shapes\": [[9]]}, {\"name\": \"c10d::allreduce_\", \"id\": 2, "     \
    "\"input_shapes\": [[[100]], [], []], \"input_types\": [\"GenericList[Tensor(float)]\"]}, "    \
    "{\"name\": \"c10d::allreduce_\", \"inputs\": {\"values\": [\"x\"], \"shapes\": [[[7], [3, "   \
    "2]]], "                                                                                       \
    "\"types\": [\"GenericList[Tensor(c10::BFloat16)]\"]}}" EXECUTED("[8, 12]", "Tensor(float)")   \
        EXECUTED("[4]", "Tensor(float)") EXECUTED("[13]", "Tensor(c10::BFloat16)") "]}"

#define GLOO(t, t40, t45, t50, last, t70, n)                                                       \
    RANGE("ProfilerStep#" #n, 1, t, 100)                                                           \
    RANGE("DistributedDataParallel.forward", 1, t, 20)                                             \
    OP("autograd::engine::evaluate_function: A", 1, t40, 25)                                       \
    OP("torch::autograd::AccumulateGrad", 1, t40, 1)                                               \
    OP("torch::autograd::AccumulateGrad", 1, t45, 1)                                               \
    OP("c10d::allreduce_", 1, t45, 1)                                                              \
    OP("torch::autograd::AccumulateGrad", 1, t50, 1)                                               \
    OP("gloo:all_reduce", 2, t50, 10)                                                              \
    OP("c10d::allreduce_", 1, t50, 1)                                                              \
    last RANGE("Optimizer.step#SGD.step", 1, t70, 20)

/* Collectives that the host runs are ready when they are asked for; their sizes come from the other
 * file of the rank. */
START_TEST(collectives_of_the_host)
{
    static const char text[] = HEAD GLOO(0, 40, 45, 50, OP("gloo:all_reduce", 3, 60, 10), 70, 3)
        GLOO(200, 240, 245, 250, OP("gloo:all_reduce", 3, 260, 10), 270, 4) TAIL;
    char *paths[] = {scratch_put("rank1.et.json", EXECUTION, sizeof EXECUTION - 1),
                     scratch_put("rank1.json", text, sizeof text - 1)};
    const uint64_t base_ns = 1000000000000;
    struct lk_import run = {0};
    const struct lk_trace *t;

    must(lk_import_run(paths, 2, &(struct lk_import_options){0}, &run));
    ck_assert_uint_eq(run.n, 1);
    t = &run.traces[0];
    kineto_assert_span(kineto_span(t, LK_SPAN_FORWARD, 4, 0), 200, 240);
    kineto_assert_span(kineto_span(t, LK_SPAN_BACKWARD, 4, 0), 240, 265);
    kineto_assert_span(kineto_span(t, LK_SPAN_OPTIMIZER, 4, -1), 270, 290);
    kineto_assert_span(kineto_span(t, LK_SPAN_COLLECTIVE, 4, 1), 260, 270);
    ck_assert_uint_eq(kineto_span(t, LK_SPAN_COLLECTIVE, 4, 1)->ready_ns, base_ns + 250000);
    ck_assert_uint_eq(kineto_span(t, LK_SPAN_COLLECTIVE, 4, 0)->bytes, 400);
    ck_assert_uint_eq(kineto_span(t, LK_SPAN_COLLECTIVE, 3, 1)->bytes, 26);
    ck_assert_uint_eq(t->info.n_tensors, 3);
    ck_assert_uint_eq(t->info.tensors[2].elems, 96);
    ck_assert_ptr_null(lk_run_info_value(&t->info, LK_BUCKETS_CONFIG_KEY));
    lk_import_fini(&run);
    /* That file alone has no times. */
    ck_assert_int_eq(lk_import_run(paths, 1, &(struct lk_import_options){0}, &run), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "has no times"));
    free(paths[0]);
    free(paths[1]);
}
END_TEST

/* A collective that begins behind the backward is of it, as the host asked for it there, where the
 * last one was not recorded to its end, too. */
START_TEST(a_collective_of_the_host_is_cut_off)
{
    static const char text[] = HEAD GLOO(0, 40, 45, 50, OP("gloo:all_reduce", 3, 67, 10), 80, 3)
        GLOO(200, 240, 245, 250, OP("gloo:all_reduce", 3, 267, 10), 280, 4)
            GLOO(400, 440, 445, 450, , 480, 5) TAIL;
    char *paths[] = {scratch_put("rank1.et.json", EXECUTION, sizeof EXECUTION - 1),
                     scratch_put("rank1.json", text, sizeof text - 1)};
    struct lk_import run = {0};
    const struct lk_trace *t;

    must(lk_import_run(paths, 2, &(struct lk_import_options){0}, &run));
    t = &run.traces[0];
    kineto_assert_span(kineto_span(t, LK_SPAN_COLLECTIVE, 3, 1), 67, 77);
    kineto_assert_span(kineto_span(t, LK_SPAN_COLLECTIVE, 4, 1), 267, 277);
    kineto_assert_span(kineto_span(t, LK_SPAN_COLLECTIVE, 5, 0), 450, 460);
    ck_assert_uint_eq(t->info.n_tensors, 3);
    ck_assert_uint_eq(t->info.tensors[2].elems, 96);
    lk_import_fini(&run);
    free(paths[0]);
    free(paths[1]);
}
END_TEST

/* One rank on a GPU: NCCL has no kernel, but the host's ranges tell when buckets are ready. */
START_TEST(one_rank_has_no_kernels)
{
    static const char text[] = HEAD RANGE("ProfilerStep#1", 5, 0, 100) CALL(5, 10, 2, 1)
        OP("autograd::engine::evaluate_function: A", 6, 40, 20)
            CALL(6, 41, 2, 2) "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"nccl:all_"
                              "reduce\",\"pid\":9,\"tid\":6,"
                              "\"ts\":45,\"dur\":2,\"args\":{\"Input Dims\":[[1000]],\"Input "
                              "type\":[\"float\"]}}," RANGE("Optimizer.step#SGD.step", 5, 70, 20)
                                  KERNEL("gemm", 7, 30, 20, 1) KERNEL("bwd", 7, 60, 20, 2) TAIL;
    char *path = scratch_put("rank1.json", text, sizeof text - 1);
    struct lk_import run = {0};

    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    kineto_assert_span(kineto_span(&run.traces[0], LK_SPAN_COLLECTIVE, 1, 0), 80, 80);
    ck_assert_uint_eq(run.traces[0].info.n_tensors, 1);
    ck_assert_uint_eq(run.traces[0].info.tensors[0].elems, 1000);
    lk_import_fini(&run);
    free(path);
}
END_TEST

SUITE(import_traces, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, steps_passes_and_collectives);
    tcase_add_loop_test(t, the_first_step_begins_on_the_gpu, 0, 2);
    tcase_add_test(t, other_reductions_are_no_buckets);
    tcase_add_test(t, an_import_is_analysed);
    tcase_add_loop_test(t, hostile_files, 0, (int)LK_COUNT(hostile));
    tcase_add_loop_test(t, depth_and_length_are_bounded, 0, 2);
    tcase_add_test(t, ranks_are_aligned_by_ends);
    tcase_add_test(t, groups_are_smaller_than_the_job);
    tcase_add_test(t, steps_are_chosen);
    tcase_add_test(t, collectives_of_the_host);
    tcase_add_test(t, a_collective_of_the_host_is_cut_off);
    tcase_add_test(t, one_rank_has_no_kernels);
}
