/*
 * A contradiction is in the first sentence, with --quiet, in JSON, in the table "contradictions"
 * and in the exit code, and what is contradicted gives no number.
 */
#include "base/array.h"
#include "base/csv.h"
#include "base/rng.h"
#include "facts/forecast.h"
#include "sim/forecast/contradiction.h"
#include "tests/rigs/cases.h"
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
    free(scratch_put(name, text, strlen(text)));
}

/* Write a job of so many parameters, with the rows from one on as runs, whose steps took so many
 * times as long. */
static void write_job_of(const char *name, double parameters, size_t from, const double *factors)
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
    for (size_t i = from; i < LK_COUNT(rows); i++) {
        double step_s = 16 * rows[i].gpus / rows[i].per_s * factors[i];

        fprintf(f,
                "%s{\"source\": \"r%zu\", \"gpus\": %d, \"nodes\": %d, \"local_batch\": 16, "
                "\"accumulation\": 1, \"no_sync\": true, \"first_bucket_bytes\": 1048576, "
                "\"bucket_cap_bytes\": 26214400, \"step_s\": [%.9g, %.9g, %.9g]}",
                i > from ? ", " : "", i, rows[i].gpus, (rows[i].gpus + 7) / 8, step_s * 0.999,
                step_s, step_s * 1.001);
    }
    fputs("]}\n", f);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static void write_job(const char *name, double parameters, size_t from)
{
    static const double as_they_are[] = {1, 1, 1, 1, 1};

    write_job_of(name, parameters, from, as_they_are);
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
    write_job("runs.json", 124e6, 0);
    write_job("one.json", 124e6, LK_COUNT(rows) - 1);
    write_job("job.json", 124e6, LK_COUNT(rows));
    write_job("huge.json", 175e9, LK_COUNT(rows));
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
    {"predict runs.json own.json --gpus 64",
     "By the scaling law alone, as J contradicts the step model of own",
     "take 121 ms a step as measured, and at least 4", "bound", true},
    {"whatif runs.json own.json --gpus 64 --bucket-cap 1MiB,25MiB",
     "By the scaling law alone, as J contradicts the step model of own",
     "outside the 99 % interval", "bound", true},
    {"predict runs.json own.json --gpus 64 --bucket-cap 1MiB", /* of which the law knows nothing */
     "No forecast: J contradicts the step model of own",
     "take 121 ms a step as measured, and at least 4", "bound", false},
    {"predict one.json own.json --gpus 64", "No forecast: J contradicts the step model of own",
     "take 121 ms a step as measured, and at least 4", "bound", false},
    {"predict " TABLE("175B") "--cluster dgx-a100 --gpus 64",
     "By the scaling law alone, as t16.csv contradicts the step model of dgx-a100",
     "1 GPU ran it, and each would need", "memory_of_run", true},
    {"predict huge.json dgx-a100 --gpus 512", "512 GPUs: does not fit in memory",
     "a GPU needs 3.34 TiB and has 74.5 GiB", "memory", false},
    {"predict job.json dgx-a100 --gpus 8,1024 --noise-scale 640",
     "1024 GPUs: past the critical batch", "a step has 16,384 samples, and the noise scale is 640",
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
    for (size_t i = 0; i < f.n_points; i++) {
        ck_assert_msg(isnan(f.points[i].step_s) == !answered, "%s: a step of %g s", question,
                      f.points[i].step_s);
        ck_assert_msg(answered || isnan(f.points[i].efficiency), "%s: an efficiency of %g",
                      question, f.points[i].efficiency);
    }
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

/* The runs of a refuted job are a table: the law answers as it does to one. */
START_TEST(runs_are_a_table_to_the_law)
{
    static const char *const questions[] = {
        "predict runs.json own.json --gpus 64 --csv=a.csv",
        "predict " TABLE("124M") "--cluster own.json --gpus 64 --csv=b.csv"};
    static const struct lk_csv_column columns[] = {
        {"step_s", true}, {"step_lo_s", true}, {"step_hi_s", true}};
    double v[2][LK_COUNT(columns)];

    for (size_t i = 0; i < 2; i++) {
        struct shell_result r = shell_program(scratch_dir, "%s --draws=40", questions[i]);
        char *path = scratch_path(scratch_dir, i ? "b.csv" : "a.csv");
        struct lk_csv *csv = NULL;

        ck_assert_int_eq(r.code, 1);
        ck_assert_msg(lk_csv_load(path, columns, LK_COUNT(columns), LK_CSV_EXTRA, &csv) == LK_OK,
                      "%s", lk_error_text());
        for (size_t c = 0; c < LK_COUNT(columns); c++)
            ck_assert_int_eq(lk_csv_real(csv, 0, c, 0, INFINITY, &v[i][c]), LK_OK);
        lk_csv_free(csv);
        free(path);
    }
    for (size_t c = 0; c < LK_COUNT(columns); c++)
        ck_assert_double_eq_tol(v[0][c] / v[1][c], 1, 1e-6);
}
END_TEST

/* Questions to validate: whether something contradicts what it prints the errors of. */
static const struct {
    const char *question, *has;
} validated[] = {
    {"validate runs.json --cluster own.json", "J contradicts the step model of own: 16 GPUs on 2"},
    {"validate " TABLE("124M") "--cluster own.json", "t16.csv contradicts the step model of own"},
    {"validate runs.json --cluster dgx-a100", NULL},
    {"validate " TABLE("124M") "--cluster dgx-a100", NULL},
    {"validate --throughput t16.csv", NULL},
};

START_TEST(validate_says_what_predict_says)
{
    const char *q = validated[_i].question, *has = validated[_i].has;
    struct shell_result r = shell_program(scratch_dir, "%s -q --draws=40", q);

    ck_assert_msg(r.code == (has != NULL), "%s: %d: %s", q, r.code, r.text);
    ck_assert_msg(said(r.text, "held-out runs"), "%s: %s", q, r.text);
    ck_assert_msg(!has ||
                      (said(r.text, "By what is contradicted: ") == r.text && said(r.text, has)),
                  "%s: %s", q, r.text);
    r = shell_program(scratch_dir, "%s --draws=40 --format=json", q);
    ck_assert_msg(!strstr(r.text, "\"contradictions\": []") == (has != NULL), "%s", r.text);
}
END_TEST

/* One held-out run refutes where it is outside the 99 % interval and off by more than half: days,
 * labs and noise do less, and an interval that is a little too narrow refutes no true model. */
static const struct {
    double measured, reach; /* of a prediction of 1 s, and of its interval of 90 % */
    bool refutes;
} far[] = {{1.49, 1.05, false},    {1.51, 1.05, true}, {1 / 1.49, 1.05, false},
           {1 / 1.51, 1.05, true}, {1.51, 1.4, false}, {2, 1.4, true}};

START_TEST(one_run_refutes_if_it_is_far)
{
    const struct lk_cluster c = {.name = (char[]){"made"}};
    const struct lk_evidence_source none = {.cluster = &c};
    struct lk_backtest b = {.what = "4 GPUs from 1",
                            .predicted_s = 1,
                            .lo_s = 1 / far[_i].reach,
                            .hi_s = far[_i].reach,
                            .measured_s = far[_i].measured};
    struct lk_forecast f = {.level = 0.9, .backtests = &b, .n_backtests = 1};

    ck_assert_int_eq(
        lk_trial_hold(&(struct lk_trial){.source = &none, .by = "runs", .odds = NAN}, &f), LK_OK);
    ck_assert_uint_eq(f.n_contradictions, far[_i].refutes);
    ck_assert(!f.n_contradictions || f.contradictions[0].kind == LK_CONTRADICTION_INTERVAL);
    f.backtests = NULL;
    f.n_backtests = 0;
    lk_forecast_fini(&f);
}
END_TEST

/* Return the first contradiction of a page as JSON, which holds no escapes; "": there is none. */
static void first_of(const char *page, char *out, size_t size)
{
    const char *list = strstr(page, "\"contradictions\": ["), *begin, *end;

    ck_assert_msg(list != NULL, "%s", page);
    begin = list + strcspn(list, "[") + 1;
    begin += strspn(begin, " \n");
    *out = '\0';
    if (*begin != '"')
        return;
    end = strchr(++begin, '"');
    ck_assert_ptr_nonnull(end);
    snprintf(out, size, "%.*s", (int)(end - begin), begin);
}

/* Questions of random jobs, whose runs took up to three times more or less: the first sentence with
 * --quiet, JSON and the exit code tell of the same contradiction, or all of none. */
START_TEST(every_voice_tells_of_it)
{
    static const char *const questions[] = {
        "predict random.json own.json --gpus 64", "whatif random.json own.json --gpus 8,32",
        "predict random.json dgx-a100 --gpus 8,512", "validate random.json --cluster own.json",
        "whatif random.json dgx-a100 --gpus 16 --accumulation 1,4"};
    size_t told = 0, n = 0;

    for (uint64_t k = 0; k < cases_or(30); k++, n++) {
        struct lk_rng g = lk_rng_init(41, k);
        const char *q = questions[lk_rng_below(&g, LK_COUNT(questions))];
        double factors[LK_COUNT(rows)];
        struct shell_result r, json;
        char first[4096];

        for (size_t i = 0; i < LK_COUNT(rows); i++)
            factors[i] = exp(log(3) * (2 * lk_rng_uniform(&g) - 1) * (double)lk_rng_below(&g, 2));
        write_job_of("random.json", exp(log(1e6) + log(1e5) * lk_rng_uniform(&g)),
                     lk_rng_below(&g, 4), factors);
        r = shell_program(scratch_dir, "%s -q --draws=20", q);
        json = shell_program(scratch_dir, "%s --draws=20 --format=json", q);
        first_of(json.text, first, sizeof first);
        ck_assert_msg(r.code == json.code && (r.code == 1) == (*first != '\0'),
                      "case %llu, %s: exit %d, as JSON %d: %s", (unsigned long long)k, q, r.code,
                      json.code, first);
        ck_assert_msg(!*first || said(r.text, first) == r.text, "case %llu, %s: '%s' in: %s",
                      (unsigned long long)k, q, first, r.text);
        told += *first != '\0';
    }
    ck_assert_msg(told > n / 5 && told < n, "%zu of %zu", told, n); /* both kinds are tried */
}
END_TEST

/* A job that computes longer than the rows' whole steps: of its times the shares count, and the
 * answer says so; by hand 35.5 + 71 + 3 = 110 ms, and 16 / 292 s = 54.8 ms. */
START_TEST(a_jobs_compute_beside_a_tables_steps)
{
    static const char question[] =
        "predict --throughput %s.csv --local-batch 16 job.json dgx-a100 --gpus 64 --draws=40 -q";
    struct shell_result r;
    char text[256] = "gpus,throughput\n";

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%g\n", rows[i].gpus,
                 2 * rows[i].per_s);
    write_text("fast.csv", text);
    r = shell_program(scratch_dir, question, "fast");
    ck_assert_msg(said(r.text, "J computes 110 ms a step, but fast.csv has 54.8 ms for the whole "
                               "step on 1 GPU"),
                  "%s", r.text);
    r = shell_program(scratch_dir, question, "t16");
    ck_assert_msg(!said(r.text, "J computes"), "%s", r.text);
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
    tcase_add_test(t, runs_are_a_table_to_the_law);
    tcase_add_test(t, every_voice_tells_of_it);
    tcase_add_loop_test(t, validate_says_what_predict_says, 0, (int)LK_COUNT(validated));
    tcase_add_loop_test(t, one_run_refutes_if_it_is_far, 0, (int)LK_COUNT(far));
    tcase_add_test(t, a_jobs_compute_beside_a_tables_steps);
    tcase_add_test(t, what_agrees_has_none);
    tcase_add_test(t, how_few_inside_refute);
}
