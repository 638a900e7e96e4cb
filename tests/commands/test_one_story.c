/*
 * One imported trace, five commands, one story: what analyze says of its steps is what predict,
 * whatif, validate and compare rest on, by arithmetic by hand. The traces: one recorded on eight
 * MI300X, where it is present, and the one of tests/rigs/kineto_text.h.
 */
#include "base/array.h"
#include "base/csv.h"
#include "facts/job.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A trace; what is said of its place; and by hand the step, what of it is exposed, and a
 * micro-batch. The kernels of the made one run for 30 us forward and 40 backward in each step, and
 * compute waits for 6 us of the wire. */
static const struct story {
    const char *recorded, *measured_on;
    int gpus, local_batch;
    double step_s, exposed_s, micro_s;
} stories[] = {
    {"tracelens/ddp_resnet18_mi300x_ws8_rank0.json.gz", "", 8, 32, 18.84e-3, 10.97e-3, 7.515e-3},
    {NULL, "--measured-on here", 4, 4, 156e-6, 6e-6, 70e-6},
};

/* Import a story's trace as the run "run"; false: the recorded trace is not present. */
static bool import_trace(const struct story *s)
{
    const char *folder = getenv("LK_TRACES") ? getenv("LK_TRACES") : "../shared/data/traces";
    char *path = s->recorded ? scratch_path(folder, s->recorded) : NULL, text[1 << 16] = "";
    struct shell_result r;

    if (path && access(path, R_OK) != 0) {
        skip("no recorded trace %s", path);
        free(path);
        return false;
    }
    for (int i = 0; !path && i < KINETO_PARTS; i++) {
        ck_assert_uint_lt(strlen(text) + strlen(kineto_parts[i]), sizeof text);
        strcat(text, kineto_parts[i]);
    }
    if (!path)
        path = scratch_put("made.json", text, strlen(text));
    r = shell_run("build=$PWD/%s/lockstep; trace=$(realpath %s); cd %s && $build import $trace "
                  "--local-batch %d --out run 2>&1",
                  LK_BUILD_DIR, path, scratch_dir, s->local_batch);
    ck_assert_msg(r.code == 0, "%s", r.text);
    free(path);
    return true;
}

/* Return a number of a table that a command prints, in the row that has the key in a column. */
static double number_of(const char *question, const char *key_column, const char *key,
                        const char *column)
{
    const struct lk_csv_column columns[] = {{key_column, true}, {column, true}};
    struct shell_result r = shell_run("build=$PWD/%s/lockstep; cd %s && $build %s --format=csv "
                                      "2>error > table.csv || cat error",
                                      LK_BUILD_DIR, scratch_dir, question);
    char *path = scratch_path(scratch_dir, "table.csv");
    struct lk_csv *csv = NULL;
    double v = NAN;

    ck_assert_msg(lk_csv_load(path, columns, 2, LK_CSV_EXTRA, &csv) == LK_OK, "%s: %s %s", question,
                  lk_error_text(), r.text);
    for (size_t i = 0; i < lk_csv_rows(csv); i++) {
        const char *text = NULL;

        ck_assert_int_eq(lk_csv_text(csv, i, 0, &text), LK_OK);
        if (!strcmp(text, key) && isnan(v))
            ck_assert_int_eq(lk_csv_real(csv, i, 1, -INFINITY, INFINITY, &v), LK_OK);
    }
    ck_assert_msg(!isnan(v), "%s: no row '%s' with %s", question, key, column);
    lk_csv_free(csv);
    free(path);
    return v;
}

/* The micro-batch of the imported job. */
static double micro_of_job(void)
{
    char *path = scratch_path(scratch_dir, "run/job.json");
    struct lk_job j;
    double s;

    ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
    s = j.compute[0].forward_s.value + j.compute[0].backward_s.value;
    lk_job_fini(&j);
    free(path);
    return s;
}

/* One GPU alone takes its kernels, which analyze calls ideal, and the gaps between them, its rest.
 * Efficiency and losses are against the run, the smallest measured count, though one GPU is asked
 * for. */
START_TEST(five_answers_one_story)
{
    const struct story *s = &stories[_i];
    double step_s, alone_s, exposed_s, micro_s, by_hand_s;
    char question[256], gpus[16];
    struct shell_result r;

    if (!import_trace(s))
        return;
    snprintf(gpus, sizeof gpus, "%d", s->gpus);
    step_s = number_of("analyze run --table waterfall", "loss", "step", "mean_s");
    alone_s = number_of("analyze run --table waterfall", "loss", "ideal", "mean_s") +
              number_of("analyze run --table waterfall", "loss", "rest", "mean_s");
    exposed_s = number_of("analyze run --table waterfall", "loss", "wire", "mean_s");
    micro_s = micro_of_job();
    ck_assert_double_eq_tol(step_s / s->step_s, 1, 1e-3);
    ck_assert_double_eq_tol(exposed_s / s->exposed_s, 1, 1e-3);
    ck_assert_double_eq_tol(micro_s / s->micro_s, 1, 1e-3);

    snprintf(question, sizeof question, "predict run mi300x-roce %s --gpus 1,%d --table points",
             s->measured_on, s->gpus);
    ck_assert_double_eq_tol(number_of(question, "gpus", gpus, "step_s"), step_s, 1e-3 * step_s);
    ck_assert_double_eq_tol(number_of(question, "gpus", "1", "step_s"), alone_s, 1e-3 * alone_s);
    ck_assert_double_eq(number_of(question, "gpus", gpus, "efficiency"), 1);
    ck_assert_double_eq_tol(number_of(question, "gpus", "1", "efficiency") * alone_s / step_s, 1,
                            1e-3);
    snprintf(question, sizeof question, "predict run mi300x-roce %s --gpus 1,%d --table losses",
             s->measured_on, s->gpus);
    ck_assert_double_eq(number_of(question, "gpus", gpus, "wire_s"), 0);
    ck_assert_double_eq_tol(number_of(question, "gpus", "1", "wire_s"), -exposed_s, 1e-3 * step_s);

    snprintf(question, sizeof question,
             "whatif run mi300x-roce %s --gpus %d --accumulation 4 --table points", s->measured_on,
             s->gpus);
    by_hand_s = step_s + 3 * micro_s;
    ck_assert_double_eq_tol(number_of(question, "accumulation", "4", "step_s") / by_hand_s, 1,
                            0.03);
    ck_assert_double_eq_tol((1 + number_of(question, "accumulation", "4", "gain_pct") / 100) /
                                (4 * step_s / by_hand_s),
                            1, 0.03);
    ck_assert_double_eq_tol(number_of(question, "accumulation", "1", "step_s"), step_s,
                            1e-3 * step_s);

    snprintf(question, sizeof question, "compare run run");
    ck_assert_double_eq_tol(number_of(question, "other", "B", "a"), step_s, 1e-3 * step_s);
    ck_assert_double_eq(number_of(question, "other", "B", "ratio"), 1);

    /* One run has nothing to hold out: that is said, and contradicts nothing. */
    r = shell_program(scratch_dir, "validate run --cluster mi300x-roce");
    ck_assert_int_eq(r.code, 1);
    ck_assert(said(r.text, "nothing to hold out in job imported") && !said(r.text, "contradict"));
}
END_TEST

SUITE(one_story, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, five_answers_one_story, 0, (int)LK_COUNT(stories));
}
