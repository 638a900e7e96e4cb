/* What-if grids: known answers, monotony, verdicts, refusals; and the command as a user runs it. */
#include "base/array.h"
#include "base/file.h"
#include "sim/forecast/predictor.h"
#include "sim/planning/plan.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *lk_suite_whatif(void);

struct rig {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_forecast_request q;
    struct lk_axis_value values[LK_AXIS_COUNT][8];
};

static void rig_init(struct rig *r)
{
    *r = (struct rig){.q = {.level = 0.9, .draws = 40, .seed = 1}};
    sim_truth_cluster(&sim_truth_default, 1, &r->cluster);
    sim_truth_job(&sim_truth_default, 1, &r->job);
    sim_truth_add_run(&sim_truth_default, &r->job, 1, 8, 11);
    sim_truth_add_run(&sim_truth_default, &r->job, 2, 8, 12);
}

static void rig_fini(struct rig *r)
{
    lk_job_fini(&r->job);
    lk_cluster_fini(&r->cluster);
}

/* Add values of an axis, separated by commas. */
static void axis(struct rig *r, enum lk_axis a, const char *words)
{
    char copy[128], *rest = copy, *word;
    size_t n = 0;

    snprintf(copy, sizeof copy, "%s", words);
    for (; (word = strsep(&rest, ",")); n++)
        ck_assert_msg(lk_axis_parse(a, word, &r->values[a][n]) == LK_OK, "%s", lk_error_text());
    r->q.axes[a].v = r->values[a];
    r->q.axes[a].n = n;
}

static struct sim_answer whatif(struct rig *r)
{
    struct sim_answer w;

    ck_assert_msg(sim_whatif(&r->job, &r->cluster, &r->q, &w) == LK_OK, "%s", lk_error_text());
    return w;
}

static double step(const struct sim_answer *w, size_t i)
{
    return w->forecast.points[i].step_s;
}

/* Each row: values of an axis from slower to faster steps, or as fast. */
static const struct {
    enum lk_axis axis, with;
    const char *words, *with_word;
} never_slower[] = {
    {LK_AXIS_NIC_BANDWIDTH, LK_AXIS_GPUS, "x0.5,x1,x2,x4", "4"},
    {LK_AXIS_INTER_LATENCY, LK_AXIS_GPUS, "x4,x2,x1,x0.5", "4"},
    {LK_AXIS_GRAD_DTYPE, LK_AXIS_GPUS, "own,bfloat16", "4"},
    {LK_AXIS_COMPRESSION, LK_AXIS_GPUS, "none,fp16", "4"},
    {LK_AXIS_PERIOD, LK_AXIS_SHARDING, "1,2,10,100", "diloco"},
    {LK_AXIS_PERIOD, LK_AXIS_SHARDING, "1,2,10,100", "local-sgd"},
    {LK_AXIS_REDUCE, LK_AXIS_ACCUMULATION, "every,last", "4"},
};

START_TEST(more_of_it_is_never_slower)
{
    struct rig r;
    struct sim_answer w;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "4");
    axis(&r, never_slower[_i].with, never_slower[_i].with_word);
    axis(&r, never_slower[_i].axis, never_slower[_i].words);
    w = whatif(&r);
    ck_assert_uint_ge(w.forecast.n_points, r.q.axes[never_slower[_i].axis].n);
    for (size_t i = 1; i < r.q.axes[never_slower[_i].axis].n; i++)
        ck_assert_msg(step(&w, i) <= step(&w, i - 1) * 1.002, "row %d: %g then %g", _i,
                      step(&w, i - 1), step(&w, i));
    sim_answer_fini(&w);
    rig_fini(&r);
}
END_TEST

/* However fast a sharded step is by the model, no run showed it: it is neither the best nor as
 * good, until a run of the job was sharded. */
START_TEST(no_sharding_is_best_before_one_was_seen)
{
    struct rig r;
    struct sim_answer w;
    bool said = false;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "4");
    axis(&r, LK_AXIS_SHARDING, "ddp,zero1,zero2,zero3");
    w = whatif(&r);
    ck_assert_uint_eq(w.forecast.n_points, 4);
    for (size_t i = 0; i < w.forecast.n_points; i++)
        ck_assert_int_eq(w.forecast.points[i].gain.verdict,
                         w.forecast.points[i].config.sharding == LK_SHARDING_DDP ? LK_VERDICT_BEST
                                                                                 : LK_VERDICT_NONE);
    for (size_t i = 0; i < w.forecast.n_warnings; i++)
        said |= strstr(w.forecast.warnings[i], "No sharding is named the best") != NULL;
    ck_assert(said);
    sim_answer_fini(&w);
    rig_fini(&r);
}
END_TEST

/* Every axis gives points, with its word in them. */
START_TEST(every_scheme_has_a_forecast)
{
    struct rig r;
    struct sim_answer w;

    rig_init(&r);
    /* Only all-reduce was measured; the others are costed from the link. */
    ck_assert_int_eq(lk_quantity_set(&r.cluster.inter.latency_s, 50e-6, NAN, NAN, 0, "truth"),
                     LK_OK);
    ck_assert_int_eq(lk_quantity_set(&r.cluster.inter.bandwidth_Bps, 1e9, NAN, NAN, 0, "truth"),
                     LK_OK);
    axis(&r, LK_AXIS_GPUS, "4");
    axis(&r, LK_AXIS_SHARDING, "ddp,zero1,zero2,zero3,shard-grad-op,local-sgd,diloco,async");
    axis(&r, LK_AXIS_PERIOD, "10");
    w = whatif(&r);
    ck_assert_uint_eq(w.forecast.n_points, 8);
    ck_assert_uint_eq(w.gains.n_refused, 0);
    for (size_t i = 0; i < 8; i++) {
        const struct lk_forecast_point *p = &w.forecast.points[i];

        ck_assert_double_gt(p->step_s, 0);
        ck_assert_double_le(p->step_lo_s, p->step_s);
        ck_assert_double_ge(p->step_hi_s, p->step_s);
        ck_assert(i == 0 || p->evidence >= LK_EVIDENCE_EXTRAPOLATED);
    }
    ck_assert_double_gt(step(&w, 3), step(&w, 0)); /* full sharding moves half as much again */
    ck_assert_double_lt(step(&w, 6), step(&w, 0)); /* DiLoCo a tenth */
    sim_answer_fini(&w);
    rig_fini(&r);
}
END_TEST

/* The current configuration has no gain; an equally good one is a tie; a
 * far worse one is neither. */
START_TEST(verdicts)
{
    struct rig r;
    const struct lk_forecast_point *p;
    struct sim_answer w;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "4");
    axis(&r, LK_AXIS_NIC_BANDWIDTH, "x1,x1.001,x0.01");
    w = whatif(&r);
    p = w.forecast.points;
    ck_assert_double_eq(p[0].gain.ratio, 1);
    ck_assert(p[0].gain.verdict != LK_VERDICT_NONE && p[1].gain.verdict != LK_VERDICT_NONE);
    ck_assert_int_eq(p[2].gain.verdict, LK_VERDICT_BEST); /* of its machine, which is compared */
    ck_assert_uint_eq(w.gains.n_machines, 2);
    ck_assert_double_eq(w.gains.machines[1].gain.ratio, p[2].gain.ratio);
    ck_assert_double_lt(p[2].gain.hi, 1);
    ck_assert_double_lt(p[2].gain.certainty, 0.05);
    ck_assert_uint_eq(w.gains.n_effects, 3);
    sim_answer_fini(&w);
    rig_fini(&r);
}
END_TEST

/* The same configurations forecast one by one by lockstep predict agree within 0.5
 * %, with the same evidence. */
START_TEST(agrees_with_predict)
{
    struct rig r;
    struct sim_answer w;
    struct lk_predictor *p = NULL;
    const struct lk_predictor_options options = {
        .level = 0.9, .draws = 40, .seed = 1, .scale_error = NAN};

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "2,4,16");
    axis(&r, LK_AXIS_LOCAL_BATCH, "8,16");
    axis(&r, LK_AXIS_BUCKET_CAP, "1MiB,25MiB,100MiB");
    axis(&r, LK_AXIS_ACCUMULATION, "1,4");
    w = whatif(&r);
    ck_assert_uint_eq(w.forecast.n_points,
                      36 + 3); /* the current bucket cap is none of those asked for */
    ck_assert_int_eq(lk_predictor_create(&r.job, &r.cluster, &options, &p), LK_OK);
    for (size_t i = 0; i < w.forecast.n_points; i++) {
        struct lk_prediction one;

        ck_assert_int_eq(lk_predictor_at(p, &w.forecast.points[i].config, &one), LK_OK);
        ck_assert_msg(fabs(step(&w, i) / one.step_s - 1) < 0.005,
                      "%d GPUs, cap %llu, accumulation %d: what-if %.6g s, predict %.6g s",
                      one.config.world_size, (unsigned long long)one.config.cap_bytes,
                      one.config.accumulation, step(&w, i), one.step_s);
        ck_assert_str_eq(w.forecast.points[i].evidence_text, one.evidence_text);
        lk_prediction_fini(&one);
    }
    lk_predictor_destroy(p);
    sim_answer_fini(&w);
    rig_fini(&r);
}
END_TEST

/* The fastest batch does not fit in memory: it is not the best, of a forecast as of a what-if, and
 * the answer says why. */
START_TEST(the_best_fits_in_memory)
{
    const struct lk_plan_request plan = {.device_bytes = (uint64_t)10 << 30};
    struct rig r;
    struct lk_forecast f;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "8");
    axis(&r, LK_AXIS_LOCAL_BATCH, "4,16");
    r.q.plan = &plan;
    r.q.compare = _i;
    ck_assert_int_eq(lk_quantity_set(&r.job.memory_per_sample_bytes, 1e9, NAN, NAN, 0, "truth"),
                     LK_OK);
    ck_assert_int_eq(sim_predict(&r.job, &r.cluster, &r.q, &f), LK_OK);
    ck_assert(isnan(f.points[1].throughput_per_s) && isnan(f.points[1].efficiency));
    ck_assert_ptr_nonnull(forecast_says(&f, _i ? "At 8 GPUs" : "8 GPUs with local batch 4 reach"));
    ck_assert_ptr_nonnull(
        forecast_says(&f, "What is faster does not fit in memory: 8 GPUs with local batch 16"));
    lk_forecast_fini(&f);
    rig_fini(&r);
}
END_TEST

/* Beyond the runs' accumulation and bucket cap a point is extrapolated. */
START_TEST(evidence_ends_with_the_runs)
{
    static const struct {
        const char *cap, *accumulation, *text;
    } rows[] = {
        {"4MiB", "1", "measured"},
        {"16MiB", "1", "extrapolated x4 on bucket cap"},
        {"20MiB", "4", "extrapolated x4 on accumulation, x5 on bucket cap"},
    };
    struct rig r;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "2");
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct sim_answer w;

        axis(&r, LK_AXIS_BUCKET_CAP, rows[i].cap);
        axis(&r, LK_AXIS_ACCUMULATION, rows[i].accumulation);
        w = whatif(&r);
        ck_assert_str_eq(w.forecast.points[0].evidence_text, rows[i].text);
        sim_answer_fini(&w);
    }
    rig_fini(&r);
}
END_TEST

/* Strong scaling keeps the samples of a step. */
START_TEST(a_global_batch_is_kept)
{
    struct rig r;
    struct sim_answer w;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "1,2,4");
    r.q.global_batch = 64;
    w = whatif(&r);
    ck_assert_uint_eq(w.forecast.n_points, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(w.forecast.points[i].config.world_size *
                             w.forecast.points[i].config.local_batch *
                             w.forecast.points[i].config.accumulation,
                         64);
    ck_assert_double_eq_tol(w.forecast.points[0].efficiency, 1, 1e-9);
    axis(&r, LK_AXIS_ACCUMULATION, "2");
    sim_answer_fini(&w);
    ck_assert_int_eq(sim_whatif(&r.job, &r.cluster, &r.q, &w), LK_EUSAGE);
    rig_fini(&r);
}
END_TEST

/* Combinations without meaning are not repeated; those without evidence are
 * left out, with a note. */
START_TEST(points_that_are_left_out)
{
    struct rig r;
    struct sim_answer w;

    rig_init(&r);
    axis(&r, LK_AXIS_GPUS, "4");
    axis(&r, LK_AXIS_COMPRESSION, "none,powersgd");
    axis(&r, LK_AXIS_POWERSGD_RANK, "1,2,4");
    w = whatif(&r);
    ck_assert_uint_eq(w.forecast.n_points, 4);
    sim_answer_fini(&w);
    r.q.axes[LK_AXIS_COMPRESSION].n = r.q.axes[LK_AXIS_POWERSGD_RANK].n = 0;
    axis(&r, LK_AXIS_INTRA_BANDWIDTH, "x1,x2"); /* one rank a host: nothing says what it is */
    w = whatif(&r);
    ck_assert_uint_eq(w.forecast.n_points, 1);
    ck_assert_uint_eq(w.gains.n_refused, 1);
    sim_answer_fini(&w);
    axis(&r, LK_AXIS_INTRA_BANDWIDTH, "x2");
    ck_assert_int_eq(sim_whatif(&r.job, &r.cluster, &r.q, &w), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "intra.bandwidth"));
    rig_fini(&r);
}
END_TEST

START_TEST(values_that_are_no_values)
{
    static const struct {
        enum lk_axis axis;
        const char *text, *says;
    } bad[] = {
        {LK_AXIS_GPUS, "0", "--gpus"},
        {LK_AXIS_GPUS, "1e9", "--gpus"},
        {LK_AXIS_GPUS, "", "--gpus"},
        {LK_AXIS_BUCKET_CAP, "-1MiB", "--bucket-cap"},
        {LK_AXIS_BUCKET_CAP, "1.5B", "--bucket-cap"},
        {LK_AXIS_REDUCE, "maybe", "every last scatter"},
        {LK_AXIS_COMPRESSION, "zip", "powersgd"},
        {LK_AXIS_SHARDING, "zero9", "zero3"},
        {LK_AXIS_ALGORITHM, "magic", "ring"},
        {LK_AXIS_GRAD_DTYPE, "float3", "bfloat16"},
        {LK_AXIS_NIC_BANDWIDTH, "x0", "factor"},
        {LK_AXIS_NIC_BANDWIDTH, "xnan", "--nic-bandwidth"},
        {LK_AXIS_NIC_BANDWIDTH, "5ms", "--nic-bandwidth"},
        {LK_AXIS_OVERSUBSCRIPTION, "0.5", "expected 1"},
        {LK_AXIS_PERIOD, "0", "--period"},
    };
    struct lk_axis_value v;

    for (size_t i = 0; i < LK_COUNT(bad); i++) {
        ck_assert_msg(lk_axis_parse(bad[i].axis, bad[i].text, &v) == LK_EUSAGE, "'%s'",
                      bad[i].text);
        ck_assert_msg(strstr(lk_error_text(), bad[i].says) != NULL, "%s", lk_error_text());
    }
}
END_TEST

/* ---- The command ---- */

static char *dir;

static void make_files(void)
{
    struct rig r;
    char *path;

    dir = scratch_create();
    rig_init(&r);
    path = scratch_path(dir, "job.json");
    ck_assert_msg(lk_job_write(path, &r.job) == LK_OK, "%s", lk_error_text());
    free(path);
    path = scratch_path(dir, "cluster.json");
    ck_assert_msg(lk_cluster_write(path, &r.cluster) == LK_OK, "%s", lk_error_text());
    free(path);
    rig_fini(&r);
}

static void remove_files(void)
{
    scratch_remove(dir);
}

START_TEST(the_command_writes_its_files)
{
    struct lk_forecast f;
    char *path = scratch_path(dir, "f.json");
    struct shell_result r =
        shell_program(dir, "whatif job.json cluster.json --gpus=2,4 --bucket-cap=1MiB,25MiB "
                           "--draws=20 --out=f.json --csv=f.csv --verbose");

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(said(r.text, "4 GPUs"));
    ck_assert_ptr_nonnull(said(r.text, "What each change brings alone"));
    ck_assert_int_eq(lk_forecast_read(path, &f), LK_OK);
    ck_assert_uint_eq(f.n_points, 4 + 2);
    lk_forecast_fini(&f);
    free(path);
    path = scratch_path(dir, "f.csv");
    ck_assert(lk_file_exists(path));
    free(path);
}
END_TEST

START_TEST(the_command_refuses)
{
    static const struct {
        const char *arguments, *says;
        int code;
    } rows[] = {
        {"", "which job", 2},
        {"job.json", "which cluster", 2},
        {"job.json cluster.json", "--gpus is missing", 2},
        {"job.json cluster.json --gpus=4,4", "twice", 2},
        {"job.json cluster.json --gpus=4 --bucket-cp=1", "did you mean '--bucket-cap'", 2},
        {"job.json cluster.json --gpus=4 --gpu=nothing", "nothing", 1},
        {"job.json cluster.json --gpus=4 --intra-bandwidth=x2", "intra.bandwidth", 1},
        {"none.json cluster.json --gpus=4", "none.json", 1},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct shell_result r = shell_program(dir, "whatif %s", rows[i].arguments);

        ck_assert_msg(r.code == rows[i].code, "%s: %s", rows[i].arguments, r.text);
        ck_assert_msg(strstr(r.text, rows[i].says) != NULL, "%s", r.text);
    }
}
END_TEST

Suite *lk_suite_whatif(void)
{
    Suite *s = suite_create("whatif");
    TCase *tc = tcase_create("grid"), *cli = tcase_create("command");

    tcase_add_loop_test(tc, more_of_it_is_never_slower, 0, (int)LK_COUNT(never_slower));
    tcase_add_test(tc, every_scheme_has_a_forecast);
    tcase_add_test(tc, no_sharding_is_best_before_one_was_seen);
    tcase_add_test(tc, verdicts);
    tcase_add_loop_test(tc, the_best_fits_in_memory, 0, 2);
    tcase_add_test(tc, agrees_with_predict);
    tcase_add_test(tc, evidence_ends_with_the_runs);
    tcase_add_test(tc, a_global_batch_is_kept);
    tcase_add_test(tc, points_that_are_left_out);
    tcase_add_test(tc, values_that_are_no_values);
    suite_add_tcase(s, tc);
    tcase_add_unchecked_fixture(cli, make_files, remove_files);
    tcase_add_test(cli, the_command_writes_its_files);
    tcase_add_test(cli, the_command_refuses);
    suite_add_tcase(s, cli);
    return s;
}
