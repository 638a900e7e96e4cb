/* The questions that a user puts to `predict` and `whatif`: none of them is dropped in silence, and
 * the answer is about what was asked. */
#include "base/array.h"
#include "base/csv.h"
#include "sim/step/config.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_job(void)
{
    char *path = scratch_path(scratch_dir, "job.json");
    struct lk_job job;

    sim_truth_job(&sim_truth_default, 1, &job);
    for (int k = 1; k <= 2; k++)
        sim_truth_add_run(&sim_truth_default, &job, k, 8, (uint64_t)k);
    ck_assert_msg(lk_job_write(path, &job) == LK_OK, "%s", lk_error_text());
    lk_job_fini(&job);
    free(path);
}

static void make_files(void)
{
    struct lk_cluster cluster;
    char *path;
    FILE *table;

    scratch_set_up();
    write_job();
    path = scratch_path(scratch_dir, "cluster.json");
    sim_truth_cluster(&sim_truth_default, 1, &cluster);
    ck_assert_msg(lk_cluster_write(path, &cluster) == LK_OK, "%s", lk_error_text());
    lk_cluster_fini(&cluster);
    free(path);
    path = scratch_path(scratch_dir, "table.csv");
    table = fopen(path, "w");
    ck_assert_ptr_nonnull(table);
    fputs("gpus,nodes,throughput,local_batch\n1,1,100,8\n2,1,150,8\n4,1,390,8\n8,1,740,8\n", table);
    ck_assert_int_eq(fclose(table), 0);
    free(path);
}

enum { GPUS, STEP, LO, HI, MEASURED, GAIN, N_COLUMNS };
static const struct lk_csv_column columns[N_COLUMNS] = {
    [GPUS] = {.name = "gpus"},
    [STEP] = {.name = "step_s"},
    [LO] = {.name = "step_lo_s"},
    [HI] = {.name = "step_hi_s"},
    [MEASURED] = {.name = "measured_step_s"},
    [GAIN] = {.name = "gain_pct"},
};

/* Ask; the output contains `says`. The forecast's points are in *out, unless out is NULL. */
static void ask(int code, const char *question, const char *says, struct lk_csv **out)
{
    char *path = scratch_path(scratch_dir, "answer.csv");
    struct shell_result r = shell_program(scratch_dir, "%s --draws=40 --csv=answer.csv", question);

    ck_assert_msg(r.code == code && said(r.text, says), "no '%s' in %s: %s", says, question,
                  r.text);
    if (out)
        ck_assert_msg(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_EXTRA, out) == LK_OK, "%s",
                      lk_error_text());
    free(path);
}

static double number(const struct lk_csv *t, size_t row, size_t col)
{
    double v = NAN;

    ck_assert_msg(lk_csv_real(t, row, col, -INFINITY, INFINITY, &v) == LK_OK, "%s",
                  lk_error_text());
    return v;
}

/* A first bucket's limit that no rule gives was set apart: it holds at any cap. */
START_TEST(a10_a_first_bucket_set_apart_holds_at_any_cap)
{
    struct lk_job job = {.ddp_rule = LK_DDP_TORCH_2, .cap_bytes = 4 << 20, .first_bytes = 65536};
    struct lk_config c = {0};

    lk_config_set_cap(&c, &job, LK_BUCKET_CAP_BYTES);
    ck_assert_uint_eq(c.first_bytes, 65536);
    job.first_bytes = job.cap_bytes; /* by the rule */
    lk_config_set_cap(&c, &job, 2 << 20);
    ck_assert_uint_eq(c.first_bytes, 2 << 20);
    lk_config_set_cap(&c, &job, LK_BUCKET_CAP_BYTES);
    ck_assert_uint_eq(c.first_bytes, LK_BUCKET_FIRST_BYTES);
}
END_TEST

START_TEST(a10_predict_asks_for_what_is_reduced_and_the_first_bucket)
{
    struct lk_csv *t = NULL;

    ask(0, "predict job.json cluster.json --gpus=8 --accumulation=1,4 --reduce=last,every",
        "8 GPUs with accumulation 4, reduce last reach", &t);
    ck_assert_uint_eq(lk_csv_rows(t), 3); /* one micro-batch knows no other way */
    ck_assert_double_gt(number(t, 2, STEP), number(t, 1, STEP) * 1.1);
    lk_csv_free(t);
    ask(2, "predict job.json cluster.json --gpus=8 --reduce=every", "--reduce changes nothing",
        NULL);
    ask(2, "predict --throughput=table.csv --gpus=8 --reduce=every", "takes the step model", NULL);
}
END_TEST

/* Questions whose values are all worse than the current configuration. */
static const struct {
    const char *axes, *says;
} worse[] = {
    {"--sharding=zero3 --inter-latency=x4", "At 16 GPUs inter-latency x4 brings -"},
    {"--inter-latency=x10", "At 16 GPUs inter-latency x10 brings -"},
    {"--nic-bandwidth=x0.1,x0.2", "At 16 GPUs nic-bandwidth x0.1 brings -"},
    {"--bucket-cap=16KiB",
     "At 16 GPUs no setting asked for is better than the current configuration"},
};

START_TEST(a10_the_current_configuration_is_among_the_points)
{
    char question[160];
    struct lk_csv *t = NULL;
    size_t last;

    snprintf(question, sizeof question, "whatif job.json cluster.json --gpus=4,16 %s",
             worse[_i].axes);
    ask(0, question, worse[_i].says, &t);
    last = lk_csv_rows(t) - 1;
    for (size_t i = 0; i < last / 2; i++)
        ck_assert_double_lt(number(t, i, GAIN), 0);
    ck_assert_double_eq(number(t, last / 2, GAIN), 0);
    ck_assert_double_eq(number(t, last, GAIN), 0);
    lk_csv_free(t);
}
END_TEST

/* Another setting on another machine is not the current one on its own: the answer has the gain of
 * the fastest such point, in the table's number. */
static const char *const elsewhere[] = {
    "--local-batch=4 --inter-latency=x10", "--accumulation=2,4 --slow-rank=1:2",
    "--local-batch=4 --rank-batches=equal --nic-bandwidth=x0.5,x2",
    "--bucket-cap=64KiB --node-bandwidth=x0.2"};

START_TEST(a10_another_setting_on_another_machine_is_answered)
{
    char question[160], gain[32];
    struct lk_csv *t = NULL;
    double most = -INFINITY;

    snprintf(question, sizeof question, "whatif job.json cluster.json --gpus=16 -q --anyway %s",
             elsewhere[_i]);
    ask(0, question, "At 16 GPUs ", &t);
    for (size_t i = 0; i < lk_csv_rows(t); i++)
        if (number(t, i, GAIN) < 0 || number(t, i, GAIN) > 0)
            most = fmax(most, number(t, i, GAIN));
    lk_csv_free(t);
    snprintf(gain, sizeof gain, "%+.1f %%", most);
    ask(0, question, gain, NULL);
}
END_TEST

static const struct {
    const char *axes, *says;
} meaningless[] = {
    {"--period=10", "--period changes nothing"},
    {"--period=10 --sharding=zero1", "goes with --sharding=local-sgd or diloco"},
    {"--shard-group=2", "--shard-group changes nothing"},
    {"--powersgd-rank=4 --compression=fp16", "goes with --compression=powersgd"},
    {"--reduce=last,every --accumulation=1", "goes with --accumulation above 1"},
};

START_TEST(a10_an_axis_without_meaning_is_refused)
{
    char question[160];

    snprintf(question, sizeof question, "whatif job.json cluster.json --gpus=4 %s",
             meaningless[_i].axes);
    ask(2, question, meaningless[_i].says, NULL);
}
END_TEST

static const struct {
    const char *question, *says;
    size_t rows;
} left_out[] = {
    {"predict job.json cluster.json --gpus=2,3,4 --global-batch=64",
     "1 configuration is left out. The first: a global batch of 64 does not split into 3 GPUs", 2},
    {"whatif job.json cluster.json --gpus=2,3,4 --global-batch=64",
     "1 configuration is left out. The first: a global batch of 64 does not split into 3 GPUs", 2},
    {"predict --throughput=table.csv --gpus=8,4096,5000",
     "2 configurations are left out. The first: 4096 GPUs", 1},
    {"predict job.json cluster.json --gpus=2,4 --global-batch=64 --local-batch=8,24",
     "1 configuration is left out. The first: a global batch of 64 does not split into 2 GPUs", 3},
    {"whatif job.json cluster.json --gpus=2,4 --global-batch=64 --local-batch=8,24",
     "1 configuration is left out. The first: a global batch of 64 does not split into 2 GPUs", 3},
    {"predict job.json cluster.json --gpus=4 --global-batch=12",
     "Efficiency is not known without its reference: a global batch of 12 does not split into 1 "
     "GPU",
     1},
    {"whatif job.json cluster.json --gpus=4 --global-batch=12 --bucket-cap=1MiB",
     "Efficiency is not known without its reference: a global batch of 12 does not split into 1 "
     "GPU",
     2},
};

START_TEST(a10_a_count_that_is_refused_leaves_the_others)
{
    struct lk_csv *t = NULL;

    ask(strstr(left_out[_i].question, "table.csv") != NULL, left_out[_i].question,
        left_out[_i].says, &t);
    ck_assert_uint_eq(lk_csv_rows(t), left_out[_i].rows);
    lk_csv_free(t);
    ask(2, "predict job.json cluster.json --gpus=3,7 --global-batch=64", "into 3 GPUs", NULL);
}
END_TEST

/* Two GPUs are far from any smooth curve through the others, which contradicts the scaling law. */
START_TEST(a10_a_measured_row_of_a_table_is_shown_as_measured)
{
    static const double samples_per_s[] = {150, 740};
    char question[80];
    struct lk_csv *t = NULL;

    snprintf(question, sizeof question, "%s --throughput=table.csv --gpus=2,8",
             _i ? "whatif" : "predict");
    ask(1, question, "contradicts the scaling law", &t);
    ck_assert_uint_eq(lk_csv_rows(t), 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_double_eq_tol(number(t, i, STEP), 8 * number(t, i, GPUS) / samples_per_s[i],
                                1e-9);
        ck_assert_double_eq(number(t, i, STEP), number(t, i, MEASURED));
        ck_assert_double_le(number(t, i, LO), number(t, i, STEP));
        ck_assert_double_ge(number(t, i, HI), number(t, i, STEP));
    }
    lk_csv_free(t);
}
END_TEST

static void write_table(const char *text)
{
    char *path = scratch_path(scratch_dir, "rows.csv");
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

/* All rows of one configuration are within its interval, however they disagree. */
START_TEST(rows_that_disagree_widen_the_interval)
{
    static const double samples_per_s[] = {3000, 3400, 3800};
    char text[160] = "gpus,nodes,throughput,local_batch\n16,2,6500,64\n";
    struct lk_csv *t = NULL;

    for (size_t i = 0; i < LK_COUNT(samples_per_s); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "8,1,%g,64\n", samples_per_s[i]);
    write_table(text);
    ask(0, "predict --throughput=rows.csv --gpus=8,16", "", &t);
    ck_assert_double_eq_tol(number(t, 0, STEP), 8 * 64 / 3400.0, 1e-9);
    for (size_t i = 0; i < LK_COUNT(samples_per_s); i++) {
        ck_assert_double_le(number(t, 0, LO), 8 * 64 / samples_per_s[i] * (1 + 1e-9));
        ck_assert_double_ge(number(t, 0, HI), 8 * 64 / samples_per_s[i] * (1 - 1e-9));
    }
    lk_csv_free(t);
}
END_TEST

/* Between measured counts a forecast may be as efficient as they are, above 1, too. */
START_TEST(a_count_between_superlinear_rows_is_like_them)
{
    struct lk_csv *t = NULL;

    write_table("gpus,nodes,throughput,local_batch\n1,1,100,8\n4,4,440,8\n8,8,900,8\n");
    ask(0, "predict --throughput=rows.csv --gpus=5,6,7", "", &t);
    for (size_t i = 0; i < lk_csv_rows(t); i++) {
        ck_assert_double_gt(number(t, i, STEP), 0.98 * 8 * 8 / 900.0);
        ck_assert_double_lt(number(t, i, STEP), 1.02 * 8 * 4 / 440.0);
    }
    lk_csv_free(t);
}
END_TEST

static const char *const types[] = {"--gpus=N,N,...",           "--bucket-cap=SIZE,...",
                                    "--reduce=WORD,...",        "--nic-bandwidth=RATE,...",
                                    "--inter-latency=TIME,...", "--oversubscription=X,...",
                                    "--slow-rank=N:X,...",      "[1..1048576]"};

START_TEST(a17_the_help_of_an_axis_says_its_type)
{
    struct shell_result r = shell_program(scratch_dir, "whatif --help");

    ck_assert_msg(strstr(r.text, types[_i]) != NULL, "%s", r.text);
}
END_TEST

/* A step of more than 8,192 samples is warned of where nothing is known of what a job learns from.
 */
static const struct {
    const char *question, *says;
    bool warned;
} large[] = {
    {"predict job.json cluster.json --gpus=1024 --local-batch=8", "1024 GPUs", false},
    {"predict job.json cluster.json --gpus=2048 --local-batch=8",
     "16,384 samples, and nothing says", true},
    {"whatif job.json cluster.json --gpus=2048 --local-batch=8", "nothing says that the job learns",
     true},
    {"predict job.json cluster.json --gpus=2048 --local-batch=8 --noise-scale=1e6", "2048 GPUs",
     false},
};

START_TEST(a_large_batch_is_warned_of)
{
    struct shell_result r =
        shell_program(scratch_dir, "%s --draws=20 --anyway -q", large[_i].question);

    ck_assert_msg(said(r.text, large[_i].says), "%s: %s", large[_i].question, r.text);
    ck_assert_msg((said(r.text, "nothing says that the job learns") != NULL) == large[_i].warned,
                  "%s: %s", large[_i].question, r.text);
}
END_TEST

SUITE(questions, c)
{
    tcase_add_checked_fixture(c, make_files, scratch_tear_down);
    tcase_add_test(c, a10_a_first_bucket_set_apart_holds_at_any_cap);
    tcase_add_test(c, a10_predict_asks_for_what_is_reduced_and_the_first_bucket);
    tcase_add_loop_test(c, a10_the_current_configuration_is_among_the_points, 0,
                        (int)LK_COUNT(worse));
    tcase_add_loop_test(c, a10_another_setting_on_another_machine_is_answered, 0,
                        (int)LK_COUNT(elsewhere));
    tcase_add_loop_test(c, a10_an_axis_without_meaning_is_refused, 0, (int)LK_COUNT(meaningless));
    tcase_add_loop_test(c, a10_a_count_that_is_refused_leaves_the_others, 0,
                        (int)LK_COUNT(left_out));
    tcase_add_loop_test(c, a10_a_measured_row_of_a_table_is_shown_as_measured, 0, 2);
    tcase_add_loop_test(c, a_large_batch_is_warned_of, 0, (int)LK_COUNT(large));
    tcase_add_test(c, rows_that_disagree_widen_the_interval);
    tcase_add_test(c, a_count_between_superlinear_rows_is_like_them);
    tcase_add_loop_test(c, a17_the_help_of_an_axis_says_its_type, 0, (int)LK_COUNT(types));
}
