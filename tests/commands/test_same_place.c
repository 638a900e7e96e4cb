/*
 * One measurement in several containers, as a user would ask: the rows of a table, the runs of a
 * job, a preset and a copy of it; and where each says that it was measured. The program is
 * tests/sim/test_place.c's rules, asked by words.
 */
#include "base/csv.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE "--throughput t.csv --local-batch 16 --parameters 124M "

static const struct {
    int gpus;
    double throughput;
} rows[] = {{1, 146}, {2, 286}, {4, 566}, {8, 1117}, {16, 2120}};

static void put(const char *name, const char *text)
{
    free(scratch_put(name, text, strlen(text)));
}

/* Write a preset's copy that does not call itself one. */
static void copy_preset(const char *name)
{
    static const char flag[] = "\"preset\": true,";
    char path[64], *text = NULL, *at;
    size_t n;

    snprintf(path, sizeof path, "clusters/%s.json", name);
    ck_assert_msg(lk_file_read(path, &text, &n) == LK_OK, "%s", lk_error_text());
    at = strstr(text, flag);
    ck_assert_ptr_nonnull(at);
    memcpy(at, "\"preset\":false, ", sizeof flag - 1);
    snprintf(path, sizeof path, "own-%s.json", name);
    free(scratch_put(path, text, n));
    free(text);
}

static void make_files(void)
{
    char job[8192], table[512] = "gpus,throughput\n";
    size_t n = 0, m = strlen(table);

    scratch_set_up();
    n += (size_t)snprintf(job + n, sizeof job - n,
                          "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"J\", "
                          "\"gradients\": [");
    for (int i = 0; i < 38; i++)
        n += (size_t)snprintf(job + n, sizeof job - n,
                              "%s{\"name\": \"w%d\", \"elements\": 3263157, "
                              "\"dtype\": \"float32\"}",
                              i ? ", " : "", i);
    n += (size_t)snprintf(
        job + n, sizeof job - n,
        "], \"compute\": [{\"local_batch\": 16, "
        "\"forward\": {\"value\": 35.5, \"unit\": \"ms\", \"source\": \"by hand\"}, "
        "\"backward\": {\"value\": 71, \"unit\": \"ms\", \"source\": \"by hand\"}, "
        "\"optimizer\": {\"value\": 3, \"unit\": \"ms\", \"source\": \"by hand\"}}], \"runs\": [");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double step_s = 16 * rows[i].gpus / rows[i].throughput;

        n += (size_t)snprintf(job + n, sizeof job - n,
                              "%s{\"source\": \"r%d\", \"gpus\": %d, \"nodes\": %d, "
                              "\"local_batch\": 16, \"accumulation\": 1, \"no_sync\": true, "
                              "\"first_bucket_bytes\": 1048576, \"bucket_cap_bytes\": 26214400, "
                              "\"step_s\": [%.9g, %.9g, %.9g]}",
                              i ? ", " : "", rows[i].gpus, rows[i].gpus, rows[i].gpus > 8 ? 2 : 1,
                              step_s, step_s, step_s);
        m += (size_t)snprintf(table + m, sizeof table - m, "%d,%g\n", rows[i].gpus,
                              rows[i].throughput);
    }
    n += (size_t)snprintf(job + n, sizeof job - n, "]}");
    ck_assert_uint_lt(n, sizeof job);
    put("job.json", job);
    put("t.csv", table);
    copy_preset("dgx-a100");
    copy_preset("mi300x-roce");
}

/* ---- Containers ---- */

enum { GPUS, STEP, LO, HI, N_COLUMNS };
static const struct lk_csv_column columns[N_COLUMNS] = {[GPUS] = {.name = "gpus"},
                                                        [STEP] = {.name = "step_s"},
                                                        [LO] = {.name = "step_lo_s"},
                                                        [HI] = {.name = "step_hi_s"}};

/* Return what a command forecasts in its last row. */
static void ask(const char *words, double out[N_COLUMNS])
{
    struct shell_result r = shell_program(scratch_dir, "%s --draws 100 --csv out.csv", words);
    char *path = scratch_path(scratch_dir, "out.csv");
    struct lk_csv *t = NULL;

    ck_assert_msg(r.code == 0, "%s: %s", words, r.text);
    ck_assert_msg(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_EXTRA, &t) == LK_OK, "%s",
                  lk_error_text());
    for (size_t c = 0; c < N_COLUMNS; c++)
        ck_assert_int_eq(lk_csv_real(t, lk_csv_rows(t) - 1, c, 0, INFINITY, &out[c]), LK_OK);
    lk_csv_free(t);
    free(path);
}

/* Pairs of one question in two containers, and how far their steps may be apart. */
static const struct {
    const char *a, *b;
    double apart;
} containers[] = {
    {"predict job.json dgx-a100 --gpus 64", "predict job.json own-dgx-a100.json --gpus 64", 0},
    {"predict " TABLE "--cluster dgx-a100 --gpus 64",
     "predict " TABLE "--cluster own-dgx-a100.json --gpus 64", 0},
    {"predict " TABLE "--cluster dgx-a100 --gpus 32", "predict job.json dgx-a100 --gpus 32", 0.03},
    {"predict " TABLE "--cluster dgx-a100 --gpus 64", "predict job.json dgx-a100 --gpus 64", 0.03},
    {"predict " TABLE "--cluster ethernet-100g-8gpu --gpus 64",
     "predict job.json ethernet-100g-8gpu --gpus 64", 0.03},
    {"whatif " TABLE "--cluster dgx-a100 --gpus 64 --node-bandwidth 100Gbit/s",
     "whatif " TABLE "--cluster own-dgx-a100.json --gpus 64 --node-bandwidth 100Gbit/s", 0},
};

START_TEST(containers_agree)
{
    double a[N_COLUMNS], b[N_COLUMNS];

    ask(containers[_i].a, a);
    ask(containers[_i].b, b);
    ck_assert_msg(fabs(a[STEP] / b[STEP] - 1) <= containers[_i].apart, "%s: %g s; %s: %g s",
                  containers[_i].a, a[STEP], containers[_i].b, b[STEP]);
    ck_assert_double_le(a[LO], b[HI]);
    ck_assert_double_le(b[LO], a[HI]);
}
END_TEST

/* 100 Gbit/s a node, by four spellings: each estimate lies in the others' intervals. */
START_TEST(spellings_of_one_network_overlap)
{
    static const char *const spellings[] = {
        "predict job.json ethernet-100g-8gpu --gpus 64",
        "predict " TABLE "--cluster ethernet-100g-8gpu --gpus 64",
        "whatif " TABLE "--cluster dgx-a100 --gpus 64 --node-bandwidth 100Gbit/s",
        "whatif job.json dgx-a100 --gpus 64 --node-bandwidth 100Gbit/s",
    };
    enum { N = sizeof spellings / sizeof *spellings };
    double v[N][N_COLUMNS];

    for (int i = 0; i < N; i++)
        ask(spellings[i], v[i]);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            ck_assert_msg(v[i][LO] <= v[k][HI] && v[k][LO] <= v[i][HI],
                          "%s: %g to %g s; %s: %g to %g s", spellings[i], v[i][LO], v[i][HI],
                          spellings[k], v[k][LO], v[k][HI]);
    /* A stated rate is not drawn once more. */
    ck_assert_double_lt(v[2][STEP], 0.2);
}
END_TEST

/* ---- Words ---- */

static const struct {
    const char *words;
    int code;
    const char *says;
} words[] = {
    {"predict " TABLE "--cluster dgx-a100 --gpus 64", 0, "taken as measured on dgx-a100"},
    {"predict " TABLE "--cluster dgx-a100 --gpus 64 --measured-on here", 0,
     "were measured on dgx-a100, as was said"},
    {"predict " TABLE "--cluster ethernet-100g-8gpu --gpus 64 --measured-on dgx-a100", 0,
     "were measured on dgx-a100, and the forecast is for ethernet-100g-8gpu"},
    {"whatif " TABLE "--cluster dgx-a100 --gpus 64 --bucket-cap 5MiB", 0,
     "taken as measured on dgx-a100"},
    {"predict " TABLE "--cluster dgx-a100 --gpus 64 --measured-on elsewhere", 2,
     "--measured-on names their cluster"},
    {"predict --throughput t.csv --gpus 64 --measured-on here", 2, "is of its own machine"},
    {"predict " TABLE "--cluster dgx-a100 --gpus 64 --measured-on dgx-a10", 1,
     "did you mean 'dgx-a100'"},
    {"predict --throughput said.csv --local-batch 16 --parameters 124M --cluster dgx-h100 "
     "--gpus 64",
     0, "were measured on dgx-a100, and the forecast is for dgx-h100"},
    {"predict --throughput two.csv --gpus 64", 1, "column 'measured_on': the first row says"},
    {"predict job.json dgx-a100 --gpus 64", 0, "where the runs were measured"},
    {"predict job.json dgx-a100 --gpus 64 --measured-on here --verbose", 0,
     "measured on dgx-a100: as was said"},
    {"predict job.json dgx-a100 --gpus 16 --measured-on dgx-h100", 0,
     "the run of 16 GPUs measured on dgx-h100, not on dgx-a100"},
    {"predict cpu.json dgx-h100 --gpus 1,2", 0,
     "The compute was measured on cpu, and dgx-h100 has"},
    {"predict cpu.json dgx-h100 --gpus 1,2", 0, "4 ms a step; the forecast here is"},
};

START_TEST(answers_say_where)
{
    static const char cpu[] =
        "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"small\", "
        "\"place\": {\"device\": \"cpu\"}, "
        "\"gradients\": [{\"name\": \"w\", \"elements\": 1000000, \"dtype\": \"float32\"}], "
        "\"compute\": [{\"local_batch\": 1, "
        "\"forward\": {\"value\": 1, \"unit\": \"ms\", \"source\": \"run\"}, "
        "\"backward\": {\"value\": 2, \"unit\": \"ms\", \"source\": \"run\"}}], "
        "\"runs\": [{\"source\": \"run\", \"gpus\": 1, \"nodes\": 1, \"local_batch\": 1, "
        "\"accumulation\": 1, \"no_sync\": true, \"first_bucket_bytes\": 1048576, "
        "\"bucket_cap_bytes\": 26214400, \"step_s\": [0.004, 0.004]}]}";
    struct shell_result r;
    char flat[sizeof r.text];
    size_t n = 0;

    put("cpu.json", cpu);
    put("said.csv", "gpus,throughput,measured_on\n1,146,dgx-a100\n8,1117,dgx-a100\n");
    put("two.csv", "gpus,throughput,measured_on\n1,146,dgx-a100\n8,1117,dgx-h100\n");
    r = shell_program(scratch_dir, "%s --draws 100", words[_i].words);
    for (const char *p = r.text; *p; p++) /* the page wraps its lines */
        if (*p != '\n' && !(*p == ' ' && n && flat[n - 1] == ' '))
            flat[n++] = *p;
        else if (*p == '\n' && n && flat[n - 1] != ' ')
            flat[n++] = ' ';
    flat[n] = '\0';
    ck_assert_msg(r.code == words[_i].code, "%s: exit %d: %s", words[_i].words, r.code, r.text);
    ck_assert_msg(strstr(flat, words[_i].says) != NULL, "%s: %s", words[_i].words, r.text);
}
END_TEST

/* ---- A recorded trace ---- */

/* 8 GPUs of an MI300X node, whose steps of 18.8 ms are more exposed communication than compute:
 * they are its forecast there, on a preset and on a copy, and four micro-batches take four times
 * the compute, and communicate once. On another GPU they do not count. */
START_TEST(a_recorded_run_is_its_forecast)
{
    static const double micro_s = 7.515e-3, step_s = 18.84e-3;
    static const char *const clusters[] = {"mi300x-roce", "own-mi300x-roce.json"};
    const char *folder = getenv("LK_TRACES") ? getenv("LK_TRACES") : "../shared/data/traces";
    double v[N_COLUMNS];
    char line[512], *path;
    struct shell_result r;

    path = scratch_path(folder, "tracelens/ddp_resnet18_mi300x_ws8_rank0.json.gz");
    if (access(path, R_OK) != 0) {
        skip("no recorded trace %s", path);
        free(path);
        return;
    }
    r = shell_run("build=$PWD/%s/lockstep; trace=$(realpath %s); cd %s && $build import $trace "
                  "--local-batch 32 --out run 2>&1",
                  LK_BUILD_DIR, path, scratch_dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
    free(path);
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        snprintf(line, sizeof line, "predict run %s --gpus 8", clusters[i]);
        ask(line, v);
        ck_assert_double_eq_tol(v[STEP], step_s, 1e-5);
        snprintf(line, sizeof line, "predict run %s --gpus 64", clusters[i]);
        ask(line, v);
        ck_assert_double_gt(v[STEP], step_s);
        ck_assert_double_lt(v[STEP], 1.1 * step_s);
        snprintf(line, sizeof line, "predict run %s --gpus 8 --accumulation 4", clusters[i]);
        ask(line, v);
        ck_assert_double_eq_tol(v[STEP] / (step_s + 3 * micro_s), 1, 0.03);
    }
    ask("predict run dgx-h100 --gpus 8", v);
    ck_assert_double_lt(v[STEP], 0.5 * step_s);
}
END_TEST

SUITE(same_place, c)
{
    tcase_add_checked_fixture(c, make_files, scratch_tear_down);
    tcase_add_loop_test(c, containers_agree, 0, (int)(sizeof containers / sizeof *containers));
    tcase_add_test(c, spellings_of_one_network_overlap);
    tcase_add_test(c, a_recorded_run_is_its_forecast);
    tcase_add_loop_test(c, answers_say_where, 0, (int)(sizeof words / sizeof *words));
}
