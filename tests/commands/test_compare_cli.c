/* Compare runs, clusters, forecasts and jobs as a user does; the slower side is made so. */
#include "base/array.h"
#include "base/csv.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* Write a job and two clusters, of which the second has twice the time of every collective. */
static void make_files(void)
{
    struct sim_truth t = sim_truth_default;
    struct lk_job job;
    struct lk_cluster cluster;
    char *path;

    scratch_set_up();
    sim_truth_cluster(&t, 1, &cluster);
    sim_truth_job(&t, 1, &job);
    path = scratch_path(scratch_dir, "bare.json");
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    sim_truth_add_run(&t, &job, 1, 8, 1);
    sim_truth_add_run(&t, &job, 2, 8, 2);
    path = scratch_path(scratch_dir, "job.json");
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    path = scratch_path(scratch_dir, "a.json");
    ck_assert_int_eq(lk_cluster_write(path, &cluster), LK_OK);
    free(path);
    for (size_t i = 0; i < cluster.n_points; i++) {
        struct lk_quantity *q = &cluster.points[i].time_s;

        ck_assert_int_eq(lk_quantity_set(q, 2 * q->value, 2 * q->lo, 2 * q->hi, q->n, "twice"),
                         LK_OK);
    }
    path = scratch_path(scratch_dir, "b.json");
    ck_assert_int_eq(lk_cluster_write(path, &cluster), LK_OK);
    free(path);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
}

/* Run lockstep and check its exit code and that its output has all texts, up to a NULL. */
static void check(int code, const char *const *texts, const char *words)
{
    struct shell_result r = shell_program(scratch_dir, "%s", words);

    ck_assert_msg(r.code == code, "%s: exit %d: %s", words, r.code, r.text);
    for (; *texts; texts++)
        ck_assert_msg(strstr(r.text, *texts) != NULL, "%s: no '%s' in %s", words, *texts, r.text);
}
#define TEXTS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

START_TEST(clusters)
{
    check(0, TEXTS("all_reduce", "B takes 2.00 times as long as A", "slower at "),
          "compare a.json b.json");
    check(0, TEXTS("C takes 2.00 times as", "A: a.json", "C: b.json"),
          "compare a.json a.json b.json");
    check(0, TEXTS("0.5,"), "compare a.json b.json --format=csv");
    /* Points of one side against what the other expects. */
    check(0, TEXTS("2 GPUs: B has ", "B: ethernet-25g", "what each side predicts"),
          "compare a.json ethernet-25g");
    check(0, TEXTS("B has the same numbers as A, from the same sources"), "compare a.json a.json");
    check(0, TEXTS("bandwidth of a node to the others: B has 4.00 times"),
          "compare ethernet-25g ethernet-100g");
    /* Both sides stand in the table; a rate without an interval is not counted as noise. */
    check(0,
          TEXTS("slower at 1, and within the noise at 0; 1 has",
                "2 are the same number of one source",
                "bandwidth of a node to the others  400 GB/s  200 GB/s"),
          "compare dgx-h100 dgx-a100");
    check(3, TEXTS("failed: ratio{collective=\"all_reduce\""),
          "compare a.json b.json --fail-below=0.9");
    check(0, TEXTS("B is"), "compare b.json a.json --fail-below=0.9");
}
END_TEST

/* The source of each number says the log that it was read from, or the base that it was taken from.
 */
static enum lk_status check_source(struct lk_quantity *q, void *unused)
{
    (void)unused;
    ck_assert_msg(!strncmp(q->source, "gh200-slingshot: ", 17) ||
                      !strncmp(q->source, "slow.csv:", 9),
                  "source '%s'", q->source);
    return LK_OK;
}

/* All-reduces 20 times too slow are compared with what their base expects, by import and by a gate;
 * what the file took over from the base passes no gate. */
START_TEST(a_slow_network_fails_against_its_base)
{
    struct lk_cluster bad;
    FILE *f;
    char *path = scratch_path(scratch_dir, "slow.csv");

    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "collective,gpus,nodes,bytes,seconds\n");
    for (double bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2)
        fprintf(f, "all_reduce,8,2,%.0f,%.9f\n", bytes, 20 * (50e-6 + 2 * 7 / 8.0 * bytes / 96e9));
    ck_assert_int_eq(fclose(f), 0);
    free(path);
    check(0,
          TEXTS("times as long as gh200-slingshot expects (median of 11;",
                "11 of them are outside its"),
          "import --collectives slow.csv --base gh200-slingshot --out bad.json");
    path = scratch_path(scratch_dir, "bad.json");
    ck_assert_int_eq(lk_cluster_read(path, &bad), LK_OK);
    ck_assert_int_eq(lk_record_each_quantity(&lk_cluster_record, &bad, check_source, NULL), LK_OK);
    lk_cluster_fini(&bad);
    free(path);
    check(3, TEXTS("failed: ratio{collective=\"all_reduce\"", "4 are the same number"),
          "compare gh200-slingshot bad.json --fail-below 0.9");
    check(1, TEXTS("bad.json has no number of its own beside bad.json"),
          "compare bad.json bad.json --fail-below 0.9");
}
END_TEST

START_TEST(forecasts)
{
    check(0, TEXTS("GPUs"), "predict job.json a.json --gpus=1,2,4,8 --draws=40 --out=fa.json");
    check(1, TEXTS("contradicts the step model of"),
          "predict job.json b.json --gpus=1,2,4 --draws=40 --anyway --out=fb.json");
    /* A contradiction of a side is said before the comparison. */
    check(1,
          TEXTS("fb.json: ", "contradicts the step model of", "4 GPUs, batch 8: B does not differ",
                "beyond their intervals", "of linear scaling from 1 GPU, A ",
                "1 points of A, 0 of the"),
          "compare fa.json fb.json");
}
END_TEST

/* A job's runs are compared, too: repeats, a configuration at a time. */
START_TEST(jobs)
{
    struct lk_job job;
    char *path = scratch_path(scratch_dir, "job.json");

    ck_assert_int_eq(lk_job_read(path, &job), LK_OK);
    free(path);
    for (size_t i = 0; i < job.runs[1].n_steps; i++)
        job.runs[1].step_s[i] *= 1.5;
    path = scratch_path(scratch_dir, "slow.json");
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    lk_job_fini(&job);
    check(0, TEXTS("step of 2 GPUs, batch 8, bucket cap ", "B is 50.0 % slower"),
          "compare job.json slow.json");
    check(3, TEXTS("failed: ratio{gpus=\"2\",local_batch=\"8\",accumulation=\"1\""),
          "compare job.json slow.json --fail-below=0.9");
}
END_TEST

START_TEST(runs)
{
    check(0, TEXTS("GPUs"), "predict job.json a.json --gpus=2 --draws=20 --trace=ra");
    check(1, TEXTS("GPUs"),
          "predict job.json a.json --gpus=2 --draws=20 --slow-rank=1:1.5 --anyway --trace=rb");
    check(0,
          TEXTS("2 GPUs, batch 8: B is ", " % slower", "Most of the difference is in ",
                "one repetition"),
          "compare ra rb");
    check(0, TEXTS("does not differ from A beyond the noise"), "compare ra ra");
    check(0, TEXTS("exposed communication,"), "compare ra rb --format=csv --table=parts");
}
END_TEST

/* Read the ratio and its interval of the only row that a comparison has. */
static struct lk_estimate ratio_of(const char *words)
{
    static const struct lk_csv_column columns[] = {
        {"ratio", true}, {"ratio_lo", true}, {"ratio_hi", true}};
    struct shell_result r =
        shell_program(scratch_dir, "compare %s --format=csv --table=times > ratio.csv", words);
    struct lk_estimate e = {0};
    double *const into[] = {&e.value, &e.lo, &e.hi};
    struct lk_csv *t = NULL;
    char *path = scratch_path(scratch_dir, "ratio.csv");

    ck_assert_msg(r.code == 0, "%s: %s", words, r.text);
    ck_assert_msg(lk_csv_load(path, columns, LK_COUNT(columns), LK_CSV_EXTRA, &t) == LK_OK, "%s",
                  lk_error_text());
    free(path);
    ck_assert_uint_eq(lk_csv_rows(t), 1);
    for (size_t i = 0; i < LK_COUNT(columns); i++)
        ck_assert_int_eq(lk_csv_positive(t, 0, i, into[i]), LK_OK);
    lk_csv_free(t);
    return e;
}

/* A job on two clusters is what `predict` says of each, with less doubt of the ratio than their
 * intervals leave; one network twice is no difference at all. */
START_TEST(a_job_on_clusters)
{
    struct lk_estimate paired, apart, none;

    check(0,
          TEXTS("8 GPUs, batch 16: ethernet-10g", "ethernet-25g", "There ethernet-10g reaches",
                "A: bare.json on ethernet-25g"),
          "compare bare.json ethernet-25g ethernet-10g --gpus 4,8");
    check(0, TEXTS(""), "predict bare.json ethernet-25g --gpus 8 --out one.forecast.json");
    check(0, TEXTS(""), "predict bare.json ethernet-10g --gpus 8 --out two.forecast.json");
    paired = ratio_of("bare.json ethernet-25g ethernet-10g --gpus 8");
    apart = ratio_of("one.forecast.json two.forecast.json");
    none = ratio_of("bare.json ethernet-25g ethernet-25g --gpus 8");
    ck_assert_double_eq_tol(paired.value, apart.value, 1e-9);
    ck_assert_double_lt(paired.hi - paired.lo, apart.hi - apart.lo);
    ck_assert_double_eq_tol(none.value, 1, 1e-12);
    ck_assert_double_lt(none.hi - none.lo, 0.2 * (apart.hi - apart.lo));
    check(0, TEXTS("C: bare.json on ethernet-100g", "ethernet-100g does not differ"),
          "compare bare.json ethernet-25g ethernet-10g ethernet-100g --gpus 8");
    check(3, TEXTS("failed: ratio{"),
          "compare bare.json ethernet-25g ethernet-10g --gpus 8 --fail-below=0.99");
}
END_TEST

static const struct {
    const char *words;
    int code;
    const char *says;
} refused[] = {
    {"compare job.json a.json", 2, "on which other cluster?"},
    {"compare job.json a.json b.json", 2, "--gpus is missing"},
    {"compare job.json a.json none.json --gpus=8", 1, "none.json"},
    {"compare a.json b.json --gpus=8", 2, "--gpus goes with a job on two clusters"},
    {"compare", 2, "which two?"},
    {"compare a.json", 2, "with what?"},
    {"compare a.json job.json", 2, "a.json is a cluster, job.json is a job"},
    {"compare job.json .", 2, "job.json is a job, . is a run"},
    {"compare a.json none.json", 1, "none.json"},
    {"compare a.json ethernet-26g", 1, "ethernet-25g"},
    {"compare a.json other.json", 1, "its schema is 'other'"},
    {"compare a.json list.json", 1, "list.json:1"},
    /* B has nothing of its own: no condition can be judged by it. */
    {"compare a.json a.json --fail-below=0.9", 1, "a.json has no number of its own beside a.json"},
    {"compare a.json a.json b.json --fail-below=0.1", 1, "has no number of its own"},
    {"compare ethernet-25g ethernet-25g '--fail-if=ratio<0.9'", 1, "has no number of its own"},
};

START_TEST(wrong_inputs_are_refused)
{
    static const char other[] = "{\"schema\": \"other\", \"version\": 1}", list[] = "[1]";

    free(scratch_put("other.json", other, sizeof other - 1));
    free(scratch_put("list.json", list, sizeof list - 1));
    check(refused[_i].code, TEXTS(refused[_i].says), refused[_i].words);
}
END_TEST

SUITE(compare_cli, c)
{
    tcase_add_checked_fixture(c, make_files, scratch_tear_down);
    tcase_add_test(c, clusters);
    tcase_add_test(c, a_slow_network_fails_against_its_base);
    tcase_add_test(c, forecasts);
    tcase_add_test(c, jobs);
    tcase_add_test(c, runs);
    tcase_add_test(c, a_job_on_clusters);
    tcase_add_loop_test(c, wrong_inputs_are_refused, 0, LK_COUNT(refused));
}
