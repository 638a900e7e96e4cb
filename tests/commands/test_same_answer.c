/*
 * The same question has the same answer, whichever command it is put to: `predict` and `whatif` by
 * the step model, by a table of throughputs, and by both; `validate`, which asks what the rest of
 * the runs say of a run that it holds out, and `predict` with a file that lacks this run.
 */
#include "base/array.h"
#include "base/csv.h"
#include "base/stats.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SAME = 1e-3; /* relative */

/* Write the job with runs of `least` to `most` ranks, and what they measured as a table. */
static void write_runs(int least, int most)
{
    struct sim_truth t = sim_truth_default;
    struct lk_job job;
    char name[64], *path;
    FILE *table;

    sim_truth_job(&t, 1, &job);
    for (int k = least; k <= most; k *= 2)
        sim_truth_add_run(&t, &job, k, 8, (uint64_t)k);
    snprintf(name, sizeof name, "job-%s%d.json", least > 1 ? "2-" : "", most);
    path = scratch_path(scratch_dir, name);
    ck_assert_msg(lk_job_write(path, &job) == LK_OK, "%s", lk_error_text());
    free(path);
    snprintf(name, sizeof name, "table-%s%d.csv", least > 1 ? "2-" : "", most);
    path = scratch_path(scratch_dir, name);
    table = fopen(path, "w");
    ck_assert_ptr_nonnull(table);
    fputs("gpus,nodes,throughput,local_batch\n", table);
    for (int k = least, i = 0; k <= most; k *= 2, i++)
        fprintf(table, "%d,%d,%.17g,8\n", k, k,
                8 * k / lk_stats_mean(job.runs[i].step_s, job.runs[i].n_steps));
    ck_assert_int_eq(fclose(table), 0);
    free(path);
    lk_job_fini(&job);
}

static void make_files(void)
{
    struct lk_cluster cluster;
    char *path;

    scratch_set_up();
    write_runs(1, 4);
    write_runs(1, 8);
    write_runs(2, 4);
    path = scratch_path(scratch_dir, "cluster.json");
    sim_truth_cluster(&sim_truth_default, 1, &cluster);
    ck_assert_msg(lk_cluster_write(path, &cluster) == LK_OK, "%s", lk_error_text());
    free(path);
    lk_cluster_fini(&cluster);
}

enum {
    HELD_OUT,
    GPUS,
    BATCH,
    ACCUMULATION,
    CAP,
    STEP,
    LO,
    HI,
    EFFICIENCY,
    EFFICIENCY_LO,
    EFFICIENCY_HI,
    N_COLUMNS
};
static const struct lk_csv_column columns[N_COLUMNS] = {
    [HELD_OUT] = {.name = "held_out"},           [GPUS] = {.name = "gpus"},
    [BATCH] = {.name = "local_batch"},           [ACCUMULATION] = {.name = "accumulation"},
    [CAP] = {.name = "bucket_cap_bytes"},        [STEP] = {.name = "step_s|predicted_s"},
    [LO] = {.name = "step_lo_s|lo_s"},           [HI] = {.name = "step_hi_s|hi_s"},
    [EFFICIENCY] = {.name = "efficiency"},       [EFFICIENCY_LO] = {.name = "efficiency_lo"},
    [EFFICIENCY_HI] = {.name = "efficiency_hi"},
};

/* Run a command that writes its table to `name`, and read that. */
static struct lk_csv *answers(const char *name, const char *words)
{
    struct shell_result r = shell_program(scratch_dir, "%s=%s", words, name);
    char *path = scratch_path(scratch_dir, name);
    struct lk_csv *t = NULL;

    ck_assert_msg(r.code == 0, "%s: %s", words, r.text);
    ck_assert_msg(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_EXTRA, &t) == LK_OK, "%s",
                  lk_error_text());
    free(path);
    return t;
}

static double number(const struct lk_csv *t, size_t row, size_t col)
{
    double v = NAN;

    if (lk_csv_has(t, row, col))
        ck_assert_msg(lk_csv_real(t, row, col, 0, INFINITY, &v) == LK_OK, "%s", lk_error_text());
    return v;
}

static void check_same(const struct lk_csv *a, size_t i, const struct lk_csv *b, size_t j,
                       size_t last)
{
    for (size_t c = STEP; c <= last; c++) {
        double x = number(a, i, c), y = number(b, j, c);

        ck_assert_msg(fabs(x / y - 1) <= SAME || (isnan(x) && isnan(y)),
                      "%s row %zu and %s row %zu: %s %.9g and %.9g", lk_csv_name(a), i,
                      lk_csv_name(b), j, columns[c].name, x, y);
    }
}

static bool same_question(const struct lk_csv *a, size_t i, const struct lk_csv *b, size_t j)
{
    for (size_t c = GPUS; c <= CAP; c++) {
        double x = number(a, i, c), y = number(b, j, c);

        if (x != y && !(isnan(x) && isnan(y)))
            return false;
    }
    return true;
}

/* Inputs, and the grid asked for. */
static const struct {
    const char *inputs, *grid;
    size_t points;
} grids[] = {
    {"job-4.json cluster.json",
     "--gpus=4,8,64 --local-batch=4,8,16 --accumulation=1,4 --bucket-cap=1MiB,25MiB", 36},
    {"job-4.json cluster.json", "--gpus=8,32 --global-batch=1024 --local-batch=8", 2},
    {"job-2-4.json cluster.json", "--gpus=2,8 --bucket-cap=64KiB,1MiB,25MiB", 6},
    {"--throughput=table-4.csv", "--gpus=4,8,64 --local-batch=8,16", 6},
    {"--throughput=table-4.csv job-4.json cluster.json",
     "--gpus=4,8,64 --local-batch=8,16 --bucket-cap=1MiB,25MiB", 12},
};

START_TEST(predict_and_whatif)
{
    char words[512];
    struct lk_csv *p, *w;
    size_t found = 0;

    snprintf(words, sizeof words, "predict %s %s --csv", grids[_i].inputs, grids[_i].grid);
    p = answers("predict.csv", words);
    snprintf(words, sizeof words, "whatif %s %s --csv", grids[_i].inputs, grids[_i].grid);
    w = answers("whatif.csv", words);
    for (size_t i = 0; i < lk_csv_rows(p); i++)
        for (size_t j = 0; j < lk_csv_rows(w); j++)
            if (same_question(p, i, w, j)) {
                check_same(p, i, w, j, EFFICIENCY_HI);
                found++;
            }
    ck_assert_uint_eq(found, grids[_i].points);
    lk_csv_free(p);
    lk_csv_free(w);
}
END_TEST

/* All buckets refer to one configuration: the faster point has the higher efficiency. */
START_TEST(the_higher_efficiency_is_faster)
{
    struct lk_csv *p = answers("predict.csv", "predict job-2-4.json cluster.json --gpus=8 "
                                              "--bucket-cap=16KiB,1MiB,25MiB --csv");

    ck_assert_uint_eq(lk_csv_rows(p), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_double_eq_tol(number(p, i, EFFICIENCY) * number(p, i, STEP),
                                number(p, 0, EFFICIENCY) * number(p, 0, STEP), 1e-12);
    lk_csv_free(p);
}
END_TEST

/* The inputs with the run of 8 ranks, and without. */
static const struct {
    const char *with, *without;
} held_out[] = {
    {"job-8.json --cluster=cluster.json", "job-4.json cluster.json"},
    {"--throughput=table-8.csv", "--throughput=table-4.csv"},
    {"--throughput=table-8.csv job-8.json cluster.json",
     "--throughput=table-4.csv job-4.json cluster.json"},
};

START_TEST(validate_and_predict)
{
    char words[512];
    struct lk_csv *v, *p;
    size_t found = 0;

    snprintf(words, sizeof words, "validate %s --out", held_out[_i].with);
    v = answers("validate.csv", words);
    snprintf(words, sizeof words, "predict %s --gpus=8 --csv", held_out[_i].without);
    p = answers("predict.csv", words);
    ck_assert_uint_eq(lk_csv_rows(p), 1);
    for (size_t i = 0; i < lk_csv_rows(v); i++) {
        const char *of;

        ck_assert_int_eq(lk_csv_text(v, i, HELD_OUT, &of), LK_OK);
        if (strncmp(of, "8 GPUs from", 11) != 0)
            continue;
        check_same(v, i, p, 0, HI);
        found++;
    }
    ck_assert_uint_eq(found, 1);
    lk_csv_free(v);
    lk_csv_free(p);
}
END_TEST

SUITE(same_answer, c)
{
    tcase_add_checked_fixture(c, make_files, scratch_tear_down);
    tcase_add_loop_test(c, predict_and_whatif, 0, (int)LK_COUNT(grids));
    tcase_add_test(c, the_higher_efficiency_is_faster);
    tcase_add_loop_test(c, validate_and_predict, 0, (int)LK_COUNT(held_out));
}
