/* Cutting traces into steps, finding runs, and job.json from them. */
#include "profiler/analysis/steps.h"

#include "base/array.h"
#include "base/file.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *lk_suite_steps(void);

/* ---- Splitting a window, on one made by hand (times in us) ---- */

enum { US = 1000 };

static const struct lk_trace_track hand_tracks[] = {
    {.name = "host", .kind = LK_TRACK_HOST},
    {.name = "compute", .kind = LK_TRACK_COMPUTE},
    {.name = "comm", .kind = LK_TRACK_COMM},
};

/*
 * One step, 0 to 100 us. Compute: forward 10-30, backward 30-60, optimizer 80-90. Input 0-8, and
 * the loader's wait 55-58, behind the backward. Collectives: ready 40, 40-50; ready 45, picked up
 * at 50, ends 70; ready 60, picked up at 72, ends 78.
 */
static const struct {
    uint32_t track;
    enum lk_span_kind kind;
    uint64_t start_us, end_us, ready_us;
    int32_t index;
    uint32_t seq;
} hand_spans[] = {
    {0, LK_SPAN_STEP, 0, 100, 0, -1, 0},       {0, LK_SPAN_INPUT, 0, 8, 0, 0, 0},
    {1, LK_SPAN_FORWARD, 10, 30, 0, 0, 0},     {1, LK_SPAN_BACKWARD, 30, 60, 0, 0, 0},
    {1, LK_SPAN_GRADIENT, 40, 40, 0, 2, 0},    {2, LK_SPAN_COLLECTIVE, 40, 50, 40, 0, 0},
    {1, LK_SPAN_GRADIENT, 45, 45, 0, 1, 0},    {2, LK_SPAN_COLLECTIVE, 50, 70, 45, 1, 1},
    {0, LK_SPAN_INPUT, 55, 58, 0, 0, 0},       {1, LK_SPAN_GRADIENT, 60, 60, 0, 0, 0},
    {2, LK_SPAN_COLLECTIVE, 72, 78, 60, 2, 2}, {1, LK_SPAN_OPTIMIZER, 80, 90, 0, -1, 0},
};

static void make_hand_trace(struct lk_trace *t, struct lk_trace_span *spans)
{
    *t = (struct lk_trace){.info = {.world_size = 1, .accumulation = 1, .local_batch = 1},
                           .clock = lk_clock_identity(),
                           .tracks = (struct lk_trace_track *)hand_tracks,
                           .n_tracks = LK_COUNT(hand_tracks),
                           .spans = spans,
                           .n_spans = LK_COUNT(hand_spans)};
    for (size_t i = 0; i < LK_COUNT(hand_spans); i++)
        spans[i] = (struct lk_trace_span){.track = hand_spans[i].track,
                                          .span = {.kind = (uint16_t)hand_spans[i].kind,
                                                   .start_ns = hand_spans[i].start_us * US,
                                                   .end_ns = hand_spans[i].end_us * US,
                                                   .ready_ns = hand_spans[i].ready_us * US,
                                                   .index = hand_spans[i].index,
                                                   .seq = hand_spans[i].seq}};
}

START_TEST(split_by_hand)
{
    /* When all ranks had arrived at the three collectives. */
    const uint64_t begin_ns[] = {41 * US, 65 * US, 75 * US};
    struct lk_trace_span spans[LK_COUNT(hand_spans)];
    struct lk_trace t;
    struct lk_rank_steps r;
    struct lk_step_split x;
    const struct lk_step *p;
    const double tol = 1e-12;

    make_hand_trace(&t, spans);
    ck_assert_int_eq(lk_rank_steps_read(&t, &r), LK_OK);
    ck_assert_uint_eq(r.n_steps, 1);
    p = lk_rank_step(&r, 0);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_null(lk_rank_step(&r, 1));
    ck_assert_double_eq_tol(lk_step_window_s(p), 100e-6, tol);
    /* arrival = max(ready, end of the previous one); the third merely starts late. */
    ck_assert_uint_eq(r.collectives[0].arrival_ns, 40 * US);
    ck_assert_uint_eq(r.collectives[1].arrival_ns, 50 * US);
    ck_assert_uint_eq(r.collectives[2].arrival_ns, 70 * US);

    lk_step_split(&r, p, begin_ns, &x);
    ck_assert_double_eq_tol(x.s[LK_PART_FORWARD], 20e-6, tol);
    ck_assert_double_eq_tol(x.s[LK_PART_BACKWARD], 30e-6, tol);
    ck_assert_double_eq_tol(x.s[LK_PART_OPTIMIZER], 10e-6, tol);
    ck_assert_double_eq_tol(x.s[LK_PART_STRAGGLER], 10e-6, tol); /* 60-65 and 70-75 */
    ck_assert_double_eq_tol(x.s[LK_PART_WIRE], 8e-6, tol);       /* 65-70 and 75-78 */
    ck_assert_double_eq_tol(x.s[LK_PART_INPUT], 8e-6, tol);      /* 55-58 is behind compute */
    ck_assert_double_eq_tol(x.s[LK_PART_GAP], 14e-6, tol);       /* 8-10, 78-80, 90-100 */
    lk_step_split(&r, p, NULL, &x);
    ck_assert_double_eq_tol(x.s[LK_PART_STRAGGLER], 0, tol);
    ck_assert_double_eq_tol(x.s[LK_PART_WIRE], 18e-6, tol);

    ck_assert_uint_eq(lk_step_pending_ns(&r, p, 45 * US, 74 * US), 29 * US);
    ck_assert_uint_eq(lk_step_pending_ns(&r, p, 0, 40 * US), 0);
    ck_assert_uint_eq(lk_step_compute_ns(&r, p, 0, 85 * US), 55 * US);
    ck_assert_uint_eq(r.ranges[2].n_marks, 3); /* in the backward, its end included */
    ck_assert_int_eq(r.marks[r.ranges[2].first_mark].tensor, 2);
    lk_rank_steps_fini(&r);
}
END_TEST

/* Kernels beside the ranges' track, like a GPU's records: of the forward (10-30) and the backward
 * (30-60), whose last gap includes a stall on the collective that ends at 50. */
START_TEST(idle_by_hand)
{
    static const struct {
        enum lk_span_kind kind;
        uint64_t start_us, end_us;
    } kernels[] = {
        {LK_SPAN_KERNEL, 8, 12}, /* began before its range, by another clock */
        {LK_SPAN_KERNEL, 14, 20}, {LK_SPAN_MEMSET, 15, 16}, /* within the previous one */
        {LK_SPAN_COPY, 19, 22},   {LK_SPAN_KERNEL, 32, 47}, {LK_SPAN_KERNEL, 53, 60},
    };
    struct lk_trace_span spans[LK_COUNT(hand_spans) + LK_COUNT(kernels)];
    struct lk_trace_track tracks[LK_COUNT(hand_tracks) + 1];
    struct lk_rank_steps r;
    struct lk_trace t;

    make_hand_trace(&t, spans);
    memcpy(tracks, hand_tracks, sizeof hand_tracks);
    tracks[LK_COUNT(hand_tracks)] = (struct lk_trace_track){.kind = LK_TRACK_COMPUTE};
    t.tracks = tracks;
    t.n_tracks++;
    for (size_t i = 0; i < LK_COUNT(kernels); i++)
        spans[t.n_spans++] = (struct lk_trace_span){.track = LK_COUNT(hand_tracks),
                                                    .span = {.kind = (uint16_t)kernels[i].kind,
                                                             .start_ns = kernels[i].start_us * US,
                                                             .end_ns = kernels[i].end_us * US}};
    ck_assert_int_eq(lk_rank_steps_read(&t, &r), LK_OK);
    ck_assert_uint_eq(r.stalls.n, 1);
    for (size_t i = 0; i < r.n_ranges; i++) {
        const struct lk_range *x = &r.ranges[i];
        uint64_t idle_us = 0; /* the optimizer has no kernels: unknown */

        if (x->kind == LK_SPAN_FORWARD)
            idle_us = 2 + 8; /* 12-14, 22-30 */
        if (x->kind == LK_SPAN_BACKWARD)
            idle_us = 2 + 3; /* 30-32; 50-53, since 47 to 50 is a stall */
        ck_assert_uint_eq(lk_range_work_ns(&r, x->start_ns, x->end_ns) -
                              lk_range_busy_ns(&r, x->start_ns, x->end_ns),
                          idle_us * US);
    }
    lk_rank_steps_fini(&r);
}
END_TEST

/* The parts sum to the window, whatever it contains, and windows to the time from end to end. */
START_TEST(parts_sum)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 3,
                                                                       .accumulation = 2,
                                                                       .gamma_wire = 0.3,
                                                                       .slow = {0, 0.3},
                                                                       .bandwidth_Bps = 1e8,
                                                                       .no_sync = _i == 0,
                                                                       .transient = 0.05});
    struct lk_trace *traces = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (int k = 0; k < m.ranks; k++) {
        struct lk_rank_steps r;
        double sum = 0;

        ck_assert_int_eq(lk_rank_steps_read(&traces[k], &r), LK_OK);
        ck_assert_uint_eq(r.n_steps, m.steps);
        for (size_t i = 0; i < r.n_steps; i++) {
            const struct lk_step *p = &r.steps[i];
            struct lk_step_split x;
            double window = lk_step_window_s(p);

            lk_step_split(&r, p, NULL, &x);
            ck_assert_double_eq_tol(x.s[LK_PART_FORWARD] + x.s[LK_PART_BACKWARD] +
                                        x.s[LK_PART_OPTIMIZER] + x.s[LK_PART_STRAGGLER] +
                                        x.s[LK_PART_WIRE] + x.s[LK_PART_INPUT] + x.s[LK_PART_GAP],
                                    window, 1e-12);
            sum += window;
        }
        ck_assert_double_eq_tol(
            sum, (double)(r.steps[r.n_steps - 1].end_ns - r.steps[0].begin_ns) * 1e-9, 1e-9);
        lk_rank_steps_fini(&r);
    }
    lk_traces_free(traces, (size_t)m.ranks);
}
END_TEST

/* A step that lost its forward, its backward or its STEP span is left out. */
START_TEST(incomplete_steps)
{
    static const enum lk_span_kind lost[] = {LK_SPAN_FORWARD, LK_SPAN_BACKWARD, LK_SPAN_STEP};
    const struct step_model m = step_model_default((struct step_model){.ranks = 1, .steps = 9});
    struct lk_trace *traces = NULL;
    struct lk_rank_steps r;
    size_t n = 0;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (size_t i = 0; i < traces->n_spans; i++)
        if (traces->spans[i].span.step != 6 || traces->spans[i].span.kind != lost[_i])
            traces->spans[n++] = traces->spans[i];
    ck_assert_uint_eq(n, traces->n_spans - 1);
    traces->n_spans = n;
    ck_assert_int_eq(lk_rank_steps_read(traces, &r), LK_OK);
    ck_assert_uint_eq(r.n_steps, 8);
    ck_assert_ptr_null(lk_rank_step(&r, 6));
    /* The next window begins where step 6 ended, or at its own start if that is unknown. */
    ck_assert_ptr_nonnull(lk_rank_step(&r, 7));
    ck_assert_double_eq_tol(
        lk_step_window_s(lk_rank_step(&r, 7)),
        lk_step_window_s(lk_rank_step(&r, 5)) - (lost[_i] == LK_SPAN_STEP ? m.gap_s : 0), 2e-9);
    lk_rank_steps_fini(&r);
    lk_traces_free(traces, 1);
}
END_TEST

/* ---- Runs in directories ---- */

/* Write the run's traces to dir/name; `without`: a rank that is left out, or -1. */
static void write_run(const char *name, struct step_model change, int without)
{
    const struct step_model m = step_model_default(change);
    char *where = scratch_path(scratch_dir, name);
    struct lk_trace *traces = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    step_model_write(traces, m.ranks, where, without);
    free(where);
}

/* Write two repetitions each of one and two ranks at local batch 4, one rank
 * at 8, with known compute. */
static void write_sweep(void)
{
    const struct step_model one = {.ranks = 1, .transient = 0.02};
    struct step_model m = one;

    for (int r = 0; r < 2; r++) {
        m = one;
        m.seed = (uint64_t)r + 1;
        write_run(r ? "sweep/k1-r1" : "sweep/k1-r0", m, -1);
        m.ranks = 2;
        m.kappa = 0.2;
        write_run(r ? "sweep/k2-r1" : "sweep/k2-r0", m, -1);
    }
    m = one;
    m.local_batch = 8;
    m.forward_s = 10e-3;
    m.backward_s = 20e-3;
    m.seed = 9;
    write_run("sweep/b8", m, -1);
}

START_TEST(runs_are_found)
{
    struct lk_run_set set;
    const char *paths[] = {NULL, NULL};
    char *sub, *sweep;

    write_sweep();
    sweep = scratch_path(scratch_dir, "sweep");
    sub = scratch_path(scratch_dir, "sweep/k2-r0");
    paths[0] = sweep;
    paths[1] = sub; /* again: read once */
    ck_assert_msg(lk_run_set_read(paths, 2, &set) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(set.n, 5);
    ck_assert_int_eq(lk_run_about(&set.runs[0])->world_size, 1);
    ck_assert_int_eq(lk_run_about(&set.runs[2])->local_batch, 8);
    ck_assert_int_eq(lk_run_about(&set.runs[3])->world_size, 2);
    ck_assert_ptr_nonnull(strstr(set.runs[0].dir, "sweep/k1-r0"));
    ck_assert_uint_eq(set.runs[0].n_steps, 25); /* 30 less 5 of warm-up */
    ck_assert_uint_eq(set.runs[0].steps[0], 5);
    lk_run_set_fini(&set);
    free(sub);
    free(sweep);
}
END_TEST

/* The ranks of a run are of one run, and each is there once. */
START_TEST(ranks_that_are_no_run)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 2});
    struct lk_trace *traces = NULL;
    struct lk_run run;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    traces[1].info.rank = 0;
    ck_assert_int_eq(lk_run_take("x", traces, 2, &run), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "two traces are of rank 0"));
    traces[1].info.rank = 1;
    free(traces[1].info.run_id);
    ck_assert_int_eq(lk_strdup(&traces[1].info.run_id, "other"), LK_OK);
    ck_assert_int_eq(lk_run_take("x", traces, 2, &run), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "of different runs"));
    lk_traces_free(traces, 2);
}
END_TEST

START_TEST(bad_run_directories)
{
    struct lk_run_set set;
    const char *path = scratch_dir;

    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no run in it"));
    write_run("x", (struct step_model){.ranks = 3}, 1);
    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank 1 of 3 is missing"));
    path = "/nonexistent";
    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_EIO);
    ck_assert_int_eq(lk_run_set_read(&path, 0, &set), LK_EIO);
}
END_TEST

/* ---- The job ---- */

static void read_sweep(struct lk_run_set *set)
{
    char *sweep = scratch_path(scratch_dir, "sweep");
    const char *path = sweep;

    write_sweep();
    ck_assert_msg(lk_run_set_read(&path, 1, set) == LK_OK, "%s", lk_error_text());
    free(sweep);
}

/* Check that the value is within tol of want, and within its own interval. */
static void assert_quantity(const struct lk_quantity *q, double want, double tol)
{
    ck_assert_double_eq_tol(q->value, want, tol);
    ck_assert_double_le(q->lo, q->value);
    ck_assert_double_ge(q->hi, q->value);
}

START_TEST(job_of_a_sweep)
{
    struct lk_run_set set;
    struct lk_job j;
    struct lk_analysis a;
    const struct lk_run *refs[5];
    size_t n_refs;
    char *path = scratch_path(scratch_dir, "job.json");

    read_sweep(&set);
    ck_assert_msg(lk_job_build(&set, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(j.name, "step-model");
    ck_assert_uint_eq(j.n_tensors, STEP_MODEL_TENSORS);
    for (size_t i = 0; i < j.n_tensors; i++) {
        /* The last tensor is ready first, after a twelfth of the backward. */
        ck_assert_double_eq_tol(j.tensors[i].ready,
                                (double)(STEP_MODEL_TENSORS - i) / STEP_MODEL_TENSORS, 1e-6);
        ck_assert_uint_eq(j.ready_order[i], STEP_MODEL_TENSORS - 1 - i);
    }
    ck_assert_uint_eq(j.n_compute, 2);
    ck_assert_int_eq(j.compute[0].local_batch, 4);
    ck_assert_int_eq(j.compute[1].local_batch, 8);
    /* From one rank, without the 20 % of co-location that the runs with two have. 2 % spread over
     * 50 steps: five standard errors. */
    assert_quantity(&j.compute[0].forward_s, 5e-3, 5 * 0.02 / sqrt(50) * 5e-3);
    assert_quantity(&j.compute[0].backward_s, 10e-3, 5 * 0.02 / sqrt(50) * 10e-3);
    assert_quantity(&j.compute[1].backward_s, 20e-3, 5 * 0.02 / sqrt(25) * 20e-3);
    assert_quantity(&j.compute[0].optimizer_s, 1e-3, 1e-8);
    assert_quantity(&j.compute[0].input_s, 0.2e-3, 1e-8);
    assert_quantity(&j.compute[0].gap_s, 0.3e-3, 1e-8);
    /* The standard deviation of 50 draws is known to a tenth; four of these. */
    assert_quantity(&j.compute[0].transient, 0.02, 4 * 0.02 / sqrt(2 * 50));
    ck_assert_uint_eq(j.compute[0].forward_s.n, 50);
    ck_assert_ptr_nonnull(strstr(j.compute[0].forward_s.source, "k1-r0 and its repetitions"));
    ck_assert_uint_eq(j.n_runs, 5);
    ck_assert_int_eq(j.runs[3].config.world_size, 2);
    ck_assert_uint_eq(j.runs[3].n_steps, 25);
    ck_assert_double_eq_tol(j.runs[3].rank_compute_s[1], 15e-3 * 1.2, 5 * 0.02 / 5 * 18e-3);
    ck_assert_double_gt(j.runs[3].step_s[0], 18e-3);
    ck_assert(!lk_quantity_known(&j.noise_scale));
    /* A reader accepts the built job, with what an analysis says of its runs. */
    ck_assert_msg(lk_job_write(path, &j) == LK_OK, "%s", lk_error_text());
    lk_job_fini(&j);
    ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(j.n_runs, 5);
    ck_assert_uint_gt(n_refs = lk_analysis_reference(&set, &set.runs[3], refs), 0);
    ck_assert_int_eq(lk_analyze(&set.runs[3], refs, n_refs, &a), LK_OK);
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        ck_assert_double_eq_tol(j.runs[3].losses_s[l], a.losses_s[l], 1e-12);
    ck_assert_double_gt(a.losses_s[LK_LOSS_COLOCATION], 0);
    lk_analysis_fini(&a);
    lk_job_fini(&j);
    lk_run_set_fini(&set);
    free(path);
}
END_TEST

/* Append a counter of a step to a trace; its name is the trace's only one. */
static void add_counter(struct lk_trace *t, size_t capacity, uint32_t step, uint16_t name, double v)
{
    ck_assert_uint_lt(t->n_spans, capacity);
    t->spans[t->n_spans++] = (struct lk_trace_span){
        .span = {.kind = LK_SPAN_COUNTER, .step = step, .name = name, .index = -1, .value = v}};
}

/*
 * Norms with exactly |G|^2 = 4 and tr(Sigma) = 4 * 32 give a noise scale of 32 samples: with 4
 * samples a rank |G_small|^2 = 4 + 128 / 4, with 8 in all |G_big|^2 = 4 + 128 / 8.
 */
START_TEST(job_has_the_noise_scale)
{
    static const char *const names[] = {"local gradient norm", "gradient norm"};
    const struct step_model m = step_model_default((struct step_model){.ranks = 2});
    struct lk_trace *traces = NULL;
    struct lk_run_set set = {.n = 1};
    struct lk_job j;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (int k = 0; k < m.ranks; k++) {
        struct lk_trace *t = &traces[k];
        size_t capacity = t->n_spans;

        ck_assert_int_eq(lk_alloc(&t->names, 2, sizeof(char *)), LK_OK);
        for (; t->n_names < 2; t->n_names++)
            ck_assert_int_eq(lk_strdup(&t->names[t->n_names], names[t->n_names]), LK_OK);
        ck_assert_int_eq(
            lk_array_grow(&t->spans, &capacity, t->n_spans + 2 * m.steps, sizeof *t->spans), LK_OK);
        for (uint32_t s = 0; s < m.steps; s++) {
            /* The two ranks' norms differ; their mean square counts. */
            add_counter(t, capacity, s, 1, sqrt(k ? 30 : 42));
            add_counter(t, capacity, s, 2, sqrt(20));
        }
    }
    ck_assert_int_eq(lk_alloc(&set.runs, 1, sizeof *set.runs), LK_OK);
    ck_assert_int_eq(lk_run_take("x", traces, 2, &set.runs[0]), LK_OK);
    ck_assert_msg(lk_job_build(&set, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_double_eq_tol(j.noise_scale.value, 32, 1e-9);
    lk_job_fini(&j);
    lk_run_set_fini(&set);
}
END_TEST

/* States that our own runs keep beside parameters and gradients, by their options. */
static const struct {
    const char *optimizer, *momentum, *dtype; /* NULL: the trace does not say */
    enum lk_job_optimizer want;
    bool ours, master_weights;
} kept[] = {
    {"adamw", "0.9", "bfloat16", LK_JOB_OPTIMIZER_ADAMW, true, true},
    {"adamw", "0.9", "float32", LK_JOB_OPTIMIZER_ADAMW, true, false},
    {"sgd", "0.9", "float32", LK_JOB_OPTIMIZER_MOMENTUM, true, false},
    {"sgd", "0", "float32", LK_JOB_OPTIMIZER_SGD, true, false},
    {"lion", NULL, "bfloat16", LK_JOB_OPTIMIZER_UNKNOWN, false, false},
    {NULL, NULL, NULL, LK_JOB_OPTIMIZER_UNKNOWN, false, false},
};

START_TEST(job_knows_what_memory_holds)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 1});
    const char *const keys[] = {"optimizer", "momentum", "dtype"};
    const char *const values[] = {kept[_i].optimizer, kept[_i].momentum, kept[_i].dtype};
    struct lk_trace *traces = NULL;
    struct lk_run_set set = {.n = 1};
    struct lk_job j;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (size_t i = 0; i < LK_COUNT(keys); i++)
        if (values[i])
            ck_assert_int_eq(lk_run_info_config(&traces[0].info, keys[i], values[i]), LK_OK);
    ck_assert_int_eq(lk_alloc(&set.runs, 1, sizeof *set.runs), LK_OK);
    ck_assert_int_eq(lk_run_take("x", traces, 1, &set.runs[0]), LK_OK);
    ck_assert_msg(lk_job_build(&set, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(j.optimizer, kept[_i].want);
    ck_assert_int_eq(j.gradient_as_bucket_view, kept[_i].ours);
    ck_assert_int_eq(j.master_weights, kept[_i].master_weights);
    lk_job_fini(&j);
    lk_run_set_fini(&set);
}
END_TEST

/* From runs of several ranks only, the numbers include the ranks' mutual
 * slowdown, and the source says so. */
START_TEST(job_without_a_single_rank)
{
    struct lk_run_set set;
    struct lk_job j;
    const char *path = scratch_dir;

    write_run("a", (struct step_model){.ranks = 2, .kappa = 0.2}, -1);
    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_OK);
    ck_assert_int_eq(lk_job_build(&set, &j), LK_OK);
    assert_quantity(&j.compute[0].forward_s, 6e-3, 1e-8);
    ck_assert_ptr_nonnull(strstr(j.compute[0].forward_s.source, "co-location"));
    lk_job_fini(&j);
    lk_run_set_fini(&set);
}
END_TEST

START_TEST(different_jobs)
{
    struct lk_run_set set;
    struct lk_job j;
    const char *path = scratch_dir;

    write_run("a", (struct step_model){.ranks = 1}, -1);
    write_run("b", (struct step_model){.ranks = 1, .bucket_bytes = 1 << 22}, -1);
    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_OK);
    ck_assert_int_eq(lk_job_build(&set, &j), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "different jobs: layer0.weight differs"));
    lk_run_set_fini(&set);
}
END_TEST

START_TEST(too_little_for_a_job)
{
    struct lk_run_set set;
    struct lk_job j;
    const char *path = scratch_dir;

    write_run("a", (struct step_model){.ranks = 1, .steps = 5, .warmup = 5}, -1);
    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_OK);
    ck_assert_int_eq(lk_job_build(&set, &j), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "warm-up of 5 steps"));
    lk_run_set_fini(&set);
}
END_TEST

/* A run with --share-gpu is never evidence. */
START_TEST(no_job_of_a_shared_gpu)
{
    struct lk_run_set set;
    struct lk_run_facts facts;
    struct lk_job j;
    const char *path = scratch_dir;

    write_run("a", (struct step_model){.ranks = 2}, -1);
    ck_assert_int_eq(lk_run_set_read(&path, 1, &set), LK_OK);
    ck_assert_int_eq(lk_run_facts_read(lk_run_about(&set.runs[0]), &facts), LK_OK);
    ck_assert(!facts.shared_gpu);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(lk_run_info_config(&set.runs[0].traces[r].info, "share-gpu", "yes"),
                         LK_OK);
    ck_assert_int_eq(lk_job_build(&set, &j), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "its ranks shared a GPU (--share-gpu)"));
    lk_run_set_fini(&set);
}
END_TEST

Suite *lk_suite_steps(void)
{
    Suite *s = suite_create("steps");
    TCase *t = tcase_create("steps");
    TCase *d = tcase_create("directories");

    tcase_add_test(t, split_by_hand);
    tcase_add_test(t, idle_by_hand);
    tcase_add_loop_test(t, parts_sum, 0, 2);
    tcase_add_loop_test(t, incomplete_steps, 0, 3);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(d, scratch_set_up, scratch_tear_down);
    tcase_add_test(d, runs_are_found);
    tcase_add_test(d, bad_run_directories);
    tcase_add_test(d, ranks_that_are_no_run);
    tcase_add_test(d, job_of_a_sweep);
    tcase_add_test(d, job_has_the_noise_scale);
    tcase_add_loop_test(d, job_knows_what_memory_holds, 0, LK_COUNT(kept));
    tcase_add_test(d, job_without_a_single_rank);
    tcase_add_test(d, different_jobs);
    tcase_add_test(d, too_little_for_a_job);
    tcase_add_test(d, no_job_of_a_shared_gpu);
    suite_add_tcase(s, d);
    return s;
}
