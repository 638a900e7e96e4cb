/*
 * A contradiction is in the first sentence, with --quiet, in JSON, in the table "contradictions"
 * and in the exit code, and what is contradicted gives no number.
 */
#include "base/array.h"
#include "facts/forecast.h"
#include "sim/forecast/contradiction.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps that no 10G network allows: 16 GPUs on two nodes move 496 MB between these in 121 ms. */
static const struct {
    int gpus;
    double per_s;
} rows[] = {{1, 146}, {2, 286}, {4, 566}, {8, 1117}, {16, 2120}};

static void write_text(const char *name, const char *text)
{
    char *path = scratch_path(scratch_dir, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

/* Write a job of so many parameters, with the rows as runs. */
static void write_job(const char *name, double parameters, bool runs)
{
    char *path = scratch_path(scratch_dir, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs("{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"J\", \"sample_unit\": "
          "\"sample\", \"gradients\": [",
          f);
    for (int i = 0; i < 38; i++)
        fprintf(f, "%s{\"name\": \"t%d\", \"elements\": %.0f, \"dtype\": \"float32\"}",
                i ? ", " : "", i, floor(parameters / 38));
    fputs("], \"compute\": [{\"local_batch\": 16", f);
    for (int i = 0; i < 3; i++)
        fprintf(f, ", \"%s\": {\"value\": %g, \"unit\": \"ms\", \"source\": \"by hand\"}",
                (const char *const[]){"forward", "backward", "optimizer"}[i],
                (const double[]){35.5, 71, 3}[i]);
    fputs("}], \"runs\": [", f);
    for (size_t i = 0; i < LK_COUNT(rows) && runs; i++) {
        double step_s = 16 * rows[i].gpus / rows[i].per_s;

        fprintf(f,
                "%s{\"source\": \"r%zu\", \"gpus\": %d, \"nodes\": %d, \"local_batch\": 16, "
                "\"accumulation\": 1, \"no_sync\": true, \"first_bucket_bytes\": 1048576, "
                "\"bucket_cap_bytes\": 26214400, \"step_s\": [%.9g, %.9g, %.9g]}",
                i ? ", " : "", i, rows[i].gpus, (rows[i].gpus + 7) / 8, step_s * 0.999, step_s,
                step_s * 1.001);
    }
    fputs("]}\n", f);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static void make_files(void)
{
    char text[256] = "gpus,throughput\n";

    scratch_set_up();
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%g\n", rows[i].gpus,
                 rows[i].per_s);
    write_text("t16.csv", text);
    write_text("own.json", "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"base\": "
                           "\"ethernet-10g-8gpu\", \"name\": \"own\", \"preset\": false}\n");
    write_job("runs.json", 124e6, true);
    write_job("job.json", 124e6, false);
    write_job("huge.json", 175e9, false);
}

#define TABLE(parameters) "--throughput t16.csv --local-batch 16 --parameters " parameters " "

/* A question, what the first sentence begins with and has, a kind, and whether another model
 * answers. */
static const struct {
    const char *question, *begins, *has, *kind;
    bool answered;
} cases[] = {
    {"predict " TABLE("124M") "--cluster ethernet-10g-8gpu --gpus 64",
     "By the scaling law alone, as t16.csv contradicts the step model of ethernet-10g-8gpu",
     "16 GPUs on 2 nodes take 121 ms a step as measured, and at least 40", "bound", true},
    {"whatif " TABLE("124M") "--cluster ethernet-10g-8gpu --gpus 64 --accumulation 1,2",
     "By the scaling law alone, as t16.csv contradicts the step model of ethernet-10g-8gpu",
     "its odds to the scaling law are", "odds", true},
    {"predict runs.json own.json --gpus 64", "No forecast: J contradicts the step model of own",
     "take 121 ms a step as measured, and at least 4", "bound", false},
    {"whatif runs.json own.json --gpus 64 --bucket-cap 1MiB,25MiB",
     "No forecast: J contradicts the step model of own", "outside the 99 % interval", "bound",
     false},
    {"predict " TABLE("175B") "--cluster dgx-a100 --gpus 64",
     "By the scaling law alone, as t16.csv contradicts the step model of dgx-a100",
     "1 GPU ran it, and each would need", "memory_of_run", true},
    {"predict huge.json dgx-a100 --gpus 512", "512 GPUs: does not fit in memory",
     "a GPU needs 3.34 TiB and has 74.5 GiB", "memory", false},
    {"predict job.json dgx-a100 --gpus 8,1024 --noise-scale 640",
     "1024 GPUs: past the critical batch", "a step has 16,400 samples, and the noise scale is 640",
     "critical_batch", true},
};

/* Read the written forecast, and check its contradictions and numbers. */
static void check_file(const char *question, const char *kind, bool answered)
{
    char *path = scratch_path(scratch_dir, "f.json");
    struct lk_forecast f;
    bool found = false;

    ck_assert_msg(lk_forecast_read(path, &f) == LK_OK, "%s", lk_error_text());
    for (size_t i = 0; i < f.n_contradictions; i++)
        found |= !strcmp(lk_contradiction_name(f.contradictions[i].kind), kind);
    ck_assert_msg(found, "%s: no %s", question, kind);
    for (size_t i = 0; i < f.n_points; i++)
        ck_assert_msg(isnan(f.points[i].step_s) == !answered, "%s: a step of %g s", question,
                      f.points[i].step_s);
    lk_forecast_fini(&f);
    free(path);
}

START_TEST(each_is_said_everywhere)
{
    const char *q = cases[_i].question, *begins = cases[_i].begins;
    struct shell_result r = shell_program(scratch_dir, "%s -q --draws=40 --out=f.json", q);

    ck_assert_msg(r.code == 1 && said(r.text, begins) == r.text && said(r.text, cases[_i].has),
                  "%s: %d: %s", q, r.code, r.text);
    check_file(q, cases[_i].kind, cases[_i].answered);
    r = shell_program(scratch_dir, "%s --draws=40 --format=json", q);
    ck_assert_msg(r.code == 1 && strstr(r.text, "\"contradictions\": [\n"), "%s: %s", q, r.text);
    r = shell_program(scratch_dir, "%s --draws=40 --format=csv --table=contradictions", q);
    ck_assert_msg(r.code == 1 && strstr(r.text, cases[_i].kind), "%s: %s", q, r.text);
}
END_TEST

/* A contradicted model shows its numbers if asked, says so first, and still fails. */
START_TEST(its_numbers_are_shown_if_asked_for)
{
    struct shell_result r =
        shell_program(scratch_dir, "predict runs.json own.json --gpus 64 -q --anyway --draws=40");

    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(said(r.text, "By what is contradicted: J contradicts") == r.text, "%s", r.text);
    ck_assert_msg(said(r.text, "64 GPUs reach"), "%s", r.text);
}
END_TEST

/* Measurements that agree give no contradiction: an empty list, exit code 0. */
START_TEST(what_agrees_has_none)
{
    struct shell_result r = shell_program(
        scratch_dir, "predict " TABLE("124M") "--cluster dgx-a100 --gpus 64 --format=json");

    ck_assert_msg(r.code == 0 && strstr(r.text, "\"contradictions\": []"), "%s", r.text);
}
END_TEST

/* None of 2 runs, and one of 3, inside 90 % have 0.01 and 0.028 by hand; 1 of 2 has 0.19, 0 of 1
 * 0.1.
 */
START_TEST(how_few_inside_refute)
{
    ck_assert_double_eq_tol(lk_at_most(0, 2, 0.9), 0.01, 1e-12);
    ck_assert_double_eq_tol(lk_at_most(1, 3, 0.9), 0.028, 1e-12);
    ck_assert_double_eq_tol(lk_at_most(1, 2, 0.9), 0.19, 1e-12);
    ck_assert_double_eq_tol(lk_at_most(0, 1, 0.9), 0.1, 1e-12);
    ck_assert_double_eq_tol(lk_at_most(3, 3, 0.9), 1, 1e-12);
}
END_TEST

SUITE(contradictions, t)
{
    tcase_add_checked_fixture(t, make_files, scratch_tear_down);
    tcase_add_loop_test(t, each_is_said_everywhere, 0, (int)LK_COUNT(cases));
    tcase_add_test(t, its_numbers_are_shown_if_asked_for);
    tcase_add_test(t, what_agrees_has_none);
    tcase_add_test(t, how_few_inside_refute);
}
