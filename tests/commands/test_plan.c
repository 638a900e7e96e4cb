/* Plans by the program: columns appear with their inputs, notes name missing inputs. */
#include "base/array.h"
#include "base/file.h"
#include "facts/forecast.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dir;

/* A billion parameters by hand: 16 GB of states, 2 GB of buckets, 8 x 1 GB of activations. */
static const char JOB[] =
    "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"1b\", \"optimizer\": \"adamw\",\n"
    " \"master_weights\": true, \"gradients\": [\n"
    "  {\"name\": \"a\", \"elements\": 500000000, \"dtype\": \"bfloat16\"},\n"
    "  {\"name\": \"b\", \"elements\": 500000000, \"dtype\": \"bfloat16\"}],\n"
    " \"compute\": [{\"local_batch\": 8,\n"
    "   \"forward\": {\"value\": 1, \"unit\": \"s\", \"source\": \"by hand\"},\n"
    "   \"backward\": {\"value\": 2, \"unit\": \"s\", \"source\": \"by hand\"}}]";

static const char KNOWN[] =
    ",\n \"memory_fixed\": {\"value\": 20, \"unit\": \"GB\", \"source\": \"nvidia-smi\"},\n"
    " \"memory_per_sample\": {\"value\": 1, \"unit\": \"GB\", \"source\": \"nvidia-smi\"},\n"
    " \"noise_scale\": {\"value\": 640, \"lo\": 320, \"hi\": 1280, \"unit\": \"1\",\n"
    "   \"source\": \"a run\"},\n"
    " \"target_samples\": {\"value\": 1e6, \"unit\": \"1\", \"source\": \"a run\"},\n"
    " \"learning_rate\": {\"value\": 0.001, \"unit\": \"1\", \"source\": \"a run\"},\n"
    " \"learning_rate_batch\": 64";

static void write_job(const char *name, const char *members)
{
    char *path = scratch_path(dir, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_gt(fprintf(f, "%s%s}\n", JOB, members), 0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static void write_rows(void)
{
    char *path = scratch_path(dir, "rows.csv");
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("gpus,throughput,local_batch\n1,2.6,8\n2,5.1,8\n4,10,8\n", f), 0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static void make_files(void)
{
    char four[1024];

    snprintf(four, sizeof four, "%s,\n \"accumulation\": 4", KNOWN);
    dir = scratch_create();
    write_rows();
    write_job("job.json", KNOWN);
    write_job("bare.json", "");
    write_job("four.json", four);
}

static void remove_files(void)
{
    scratch_remove(dir);
}

static struct shell_result got;

/* Run the program in the folder; return its exit code. */
static int run(const char *arguments)
{
    got = shell_program(dir, "%s%s", arguments,
                        strncmp(arguments, "report", strlen("report")) ? " --verbose" : "");
    return got.code;
}

static void read_forecast(struct lk_forecast *f)
{
    char *path = scratch_path(dir, "f.json");

    ck_assert_msg(lk_forecast_read(path, f) == LK_OK, "%s", lk_error_text());
    free(path);
}

#define PREDICT "predict job.json ethernet-25g --draws=20 --out=f.json --csv=f.csv "

START_TEST(the_plan_follows_from_the_forecast)
{
    struct lk_forecast f;

    ck_assert_msg(run(PREDICT "--gpus=8,80,640 --price=3 --power=500 --device-memory=30GB "
                              "--mtbf=50000h --restart=10min --checkpoint=1min") == 0,
                  "%s", got.text);
    read_forecast(&f);
    ck_assert_uint_eq(f.n_points, 3);
    for (size_t i = 0; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];
        const struct lk_plan *q = &p->plan;
        double batch = p->config.world_size * 8.0, samples = 1e6 * (1 + batch / 640);

        ck_assert_double_eq_tol(q->cost_per_step, p->config.world_size * 3 * p->step_s / 3600,
                                1e-9);
        ck_assert_double_eq_tol(q->statistical_efficiency, 1e6 / samples, 1e-12);
        ck_assert_double_eq_tol(q->samples_to_target, samples, 1e-3);
        ck_assert(q->goodput > 0.9 && q->goodput < 1);
        ck_assert_double_eq_tol(q->time_to_target_h,
                                samples / p->throughput_per_s / q->goodput / 3600, 1e-9);
        ck_assert_double_eq_tol(q->cost_to_target, q->time_to_target_h * p->config.world_size * 3,
                                1e-6);
        ck_assert(q->time_to_target_lo_h < q->time_to_target_h);
        ck_assert(q->time_to_target_hi_h > q->time_to_target_h);
        ck_assert_double_eq_tol(q->rate_linear, 0.001 * batch / 64, 1e-12);
        ck_assert_double_eq_tol(q->rate_sqrt, 0.001 * sqrt(batch / 64), 1e-12);
        ck_assert_double_eq_tol(q->memory_bytes / 1e9, 28, 1e-9);
        ck_assert_str_eq(q->memory_fit, "yes");
        ck_assert_double_eq_tol(q->largest_batch, 10, 1e-12);
    }
    ck_assert(isnan(f.points[0].plan.cost_per_hour_saved));
    ck_assert_double_eq_tol(
        f.points[1].plan.cost_per_hour_saved,
        (f.points[1].plan.cost_to_target - f.points[0].plan.cost_to_target) /
            (f.points[0].plan.time_to_target_h - f.points[1].plan.time_to_target_h),
        1e-6);
    lk_forecast_fini(&f);
    ck_assert_ptr_nonnull(said(got.text, "passes it at 80 GPUs"));
    ck_assert_ptr_nonnull(
        said(got.text, "Cost to the target is least with 8 GPUs, of all that was asked for"));
    ck_assert_ptr_null(said(got.text, "how often GPUs fail"));
}
END_TEST

/* Without inputs there are no plan columns, and nothing that looks like a number for them. */
START_TEST(absent_inputs_leave_no_columns)
{
    char *path = scratch_path(dir, "f.csv"), *csv;
    size_t size;

    ck_assert_msg(run("predict bare.json ethernet-25g --draws=20 --csv=f.csv --gpus=8") == 0, "%s",
                  got.text);
    ck_assert_ptr_null(said(got.text, "Plan:"));
    ck_assert_int_eq(lk_file_read(path, &csv, &size), LK_OK);
    ck_assert_ptr_null(strstr(csv, "cost_per_step"));
    ck_assert_ptr_null(strstr(csv, "memory_bytes"));
    free(csv);
    free(path);
}
END_TEST

START_TEST(what_does_not_fit_is_marked)
{
    struct lk_forecast f;

    ck_assert_msg(run(PREDICT "--gpus=8 --device-memory=24GB") == 1, "%s", got.text);
    read_forecast(&f);
    ck_assert_str_eq(f.points[0].plan.memory_fit, "no");
    ck_assert_str_eq(f.points[0].plan.fits_with, "zero1");
    lk_forecast_fini(&f);
    ck_assert_ptr_nonnull(said(got.text, "1 of 1 configurations do not fit"));
    ck_assert_ptr_nonnull(said(got.text, "nothing that was asked for fits"));
}
END_TEST

#define PLAN "plan job.json ethernet-25g --draws=20 --gpus=8,64,512 "

/* Each option, and a part of the expected output. */
static const struct {
    const char *arguments;
    int code;
    const char *says;
} cases[] = {
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --device-memory=80GB", 0,
     "\"memory_per_sample\" in the job file"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --target-samples=1e6", 0,
     "needs the noise scale"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --noise-scale=100", 0,
     "needs the samples that reach it"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --mtbf=1000h", 0,
     "say how long a checkpoint takes"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --checkpoint=1min", 0,
     "assumed: how often GPUs fail: a GPU fails once in 50,700 h"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --target-batch=100", 2, "--target-batch"},
    {"predict job.json ethernet-25g --draws=20 --gpus=8 --target-batch=640", 0,
     "Time to the target is least"}, /* the job says how many samples that took */
    {"predict job.json ethernet-25g --draws=20 --gpus=8,512 --throughput=rows.csv", 0,
     "Time to the target is least"},
    {"whatif job.json ethernet-25g --draws=20 --gpus=512 --throughput=rows.csv "
     "--accumulation=1,2",
     0, "by time to the target"},
    /* far past the critical batch a step of fewer samples reaches the target sooner */
    {"whatif four.json dgx-h100 --draws=20 --gpus=8 --accumulation=1,4 --noise-scale=2", 0,
     "accumulation 1: +"},
    {"whatif four.json dgx-h100 --draws=20 --gpus=8 --accumulation=1,4 --noise-scale=2", 0,
     "% speed to the target"},
    {"predict --throughput=rows.csv --gpus=2,64 --gpus-per-node=4 -q", 0,
     "1 configuration is left out"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --checkpoint=1min "
     "--checkpoint-bandwidth=1GB/s",
     2, "give one"},
    {"predict bare.json ethernet-25g --draws=20 --gpus=8 --price=-1", 2, "price"},
    {"predict job.json ethernet-25g --draws=20 --gpus=8 --memory", 0, "What fits on which GPU"},
    {"predict job.json ethernet-25g --draws=20 --gpus=8 --memory", 0, "what fits:"},
    {"predict job.json ethernet-25g --draws=20 --gpus=8 --memory --device-memory=30GB", 0,
     "zero1: largest local batch 20"},
    {PLAN "--deadline=10h --price=2", 0, "Smallest and cheapest: 64 GPUs"},
    {PLAN "--deadline=30s --price=2", 0,
     "What binds is the number of GPUs: none with more than 512"},
    {PLAN "--deadline=10h --budget=1 --price=2", 0, "What binds is the budget: without it"},
    {PLAN "--deadline=10h --device-memory=10GB --sharding=ddp", 0,
     "What binds is the memory of a GPU: without it"},
    {PLAN "--deadline=10h --device-memory=24GB", 0, "sharding zero1"},
    {"plan bare.json ethernet-25g --draws=20 --gpus=8,64,512 --target-throughput=1000 "
     "--noise-scale=640",
     0, "What binds is the critical batch: without it"},
    {PLAN "--deadline=10h --probability=0.3", 2, "0.5 to 0.99"},
    {PLAN "--deadline=10h --target-samples=1e6", 2, "--samples"},
    {PLAN "--budget=100", 2, "--price"},
    {PLAN "", 2, "the goal is missing"},
    {PLAN "--narrow=64 --deadline=1h", 2, "takes no goal"},
    {"plan job.json ethernet-25g --draws=20 --narrow=64", 0, "Measure it: mpirun -np"},
    {"plan job.json ethernet-25g --draws=20 --narrow=64 --run-time=1h --available=4", 0, "4.00"},
    {"plan --throughput rows.csv --narrow=8 --gpus-per-node=8", 0, "Nothing that could"},
    {"plan bare.json ethernet-25g --deadline=1h", 2, "--samples"},
    {"plan bare.json ethernet-25g --draws=20 --deadline=1h --samples=1e4", 0,
     "a sample teaches as much in any batch"},
    {"plan bare.json ethernet-25g --draws=20 --deadline=10000h --samples=1e6 --gpus=16384 "
     "--price=1",
     0, "nothing says that the job learns"},
    {"plan --throughput rows.csv --deadline=1h --samples=1e4", 2, "what the job and the cluster"},
    {"plan job.json ethernet-25g --throughput rows.csv --draws=20 --deadline=24h", 0, "Smallest"},
};

START_TEST(inputs_are_checked_and_asked_for)
{
    int code = run(cases[_i].arguments);

    ck_assert_msg(code == cases[_i].code, "%d: %s", code, got.text);
    ck_assert_msg(said(got.text, cases[_i].says) != NULL, "%s: %s", cases[_i].says, got.text);
}
END_TEST

/* The plan of each grid point is of its own configuration; one that does not
 * fit is never the best. */
START_TEST(whatif_plans_each_point)
{
    struct lk_forecast f;

    ck_assert_msg(run("whatif job.json ethernet-25g --draws=20 --out=f.json --gpus=8 "
                      "--sharding=ddp,zero1 --device-memory=24GB --price=3") == 0,
                  "%s", got.text);
    read_forecast(&f);
    ck_assert_uint_eq(f.n_points, 2);
    for (size_t i = 0; i < 2; i++) {
        bool ddp = !strcmp(f.points[i].words[0], "ddp");

        ck_assert_str_eq(f.points[i].plan.memory_fit, ddp ? "no" : "yes");
        ck_assert_int_eq(f.points[i].gain.verdict, ddp ? LK_VERDICT_NONE : LK_VERDICT_BEST);
        ck_assert(ddp == isnan(f.points[i].plan.cost_to_target));
    }
    lk_forecast_fini(&f);
    ck_assert_ptr_nonnull(
        said(got.text, "Best setting at 8 GPUs by time to the target: sharding zero1"));
}
END_TEST

/* The plot's data has a row for each number of GPUs; without gnuplot it is written all the same. */
START_TEST(a_plan_is_plotted)
{
    char *path, *csv;
    size_t size;

    ck_assert_msg(run(PREDICT "--gpus=8,80,640 --price=3") == 0, "%s", got.text);
    (void)run("report f.json --out=plots");
    path = scratch_path(dir, "plots/plan.csv");
    ck_assert_msg(lk_file_read(path, &csv, &size) == LK_OK, "%s", got.text);
    ck_assert_ptr_nonnull(strstr(csv, "\n8,,"));
    ck_assert_ptr_nonnull(strstr(csv, "\n80,,"));
    ck_assert_ptr_nonnull(strstr(csv, "\n640,,"));
    free(csv);
    free(path);
}
END_TEST

/* The plan's file has the points that can be chosen, with their probability; its plot, the
 * frontier.
 */
START_TEST(a_goal_is_planned_and_plotted)
{
    struct lk_forecast f;
    char *path, *csv;
    size_t size, chosen = 0;

    ck_assert_msg(run(PLAN "--deadline=10h --price=2 --out=f.json") == 0, "%s", got.text);
    read_forecast(&f);
    for (size_t i = 0; i < f.n_points; i++)
        chosen += isnan(f.points[i].plan.probability) ? 0 : 1;
    ck_assert_uint_gt(chosen, 0);
    lk_forecast_fini(&f);
    (void)run("report f.json --out=plots");
    path = scratch_path(dir, "plots/frontier.csv");
    ck_assert_msg(lk_file_read(path, &csv, &size) == LK_OK, "%s", got.text);
    ck_assert_ptr_nonnull(strstr(csv, "512 GPUs"));
    free(csv);
    free(path);
    ck_assert_int_eq(run(PLAN "--deadline=30s --price=2 --fail-below=0.9"), 3);
}
END_TEST

/* Samples measured at a batch of 640, the noise scale, are twice those of small batches. */
START_TEST(a_target_seen_at_a_batch)
{
    struct lk_forecast f;

    ck_assert_msg(run(PREDICT "--gpus=80 --target-samples=5e6 --target-batch=640") == 0, "%s",
                  got.text);
    read_forecast(&f);
    ck_assert_double_eq_tol(f.points[0].plan.samples_to_target, 5e6, 1);
    lk_forecast_fini(&f);
}
END_TEST

SUITE(plan, c)
{
    tcase_add_checked_fixture(c, make_files, remove_files);
    tcase_add_test(c, the_plan_follows_from_the_forecast);
    tcase_add_test(c, absent_inputs_leave_no_columns);
    tcase_add_test(c, what_does_not_fit_is_marked);
    tcase_add_loop_test(c, inputs_are_checked_and_asked_for, 0, LK_COUNT(cases));
    tcase_add_test(c, whatif_plans_each_point);
    tcase_add_test(c, a_plan_is_plotted);
    tcase_add_test(c, a_goal_is_planned_and_plotted);
    tcase_add_test(c, a_target_seen_at_a_batch);
}
