/* Gates of a command, as a user sets them: exit codes, messages, the page before them, JUnit. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static void make_files(void)
{
    struct sim_truth t = sim_truth_default;
    struct lk_job job;
    struct lk_cluster cluster;
    char *path;

    scratch_set_up();
    sim_truth_cluster(&t, 1, &cluster);
    sim_truth_job(&t, 1, &job);
    sim_truth_add_run(&t, &job, 1, 8, 1);
    sim_truth_add_run(&t, &job, 2, 8, 2);
    path = scratch_path(scratch_dir, "job.json");
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    path = scratch_path(scratch_dir, "cluster.json");
    ck_assert_int_eq(lk_cluster_write(path, &cluster), LK_OK);
    free(path);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
}

#define PREDICT "predict job.json cluster.json --gpus=1,2 --local-batch=8 --draws=20 "

static const struct {
    const char *words;
    int code;
    const char *says;
} cases[] = {
    {"--fail-below=0.001", 0, NULL},
    {"--fail-below=2", 3, "lockstep predict: failed: efficiency{gpus=\"2\","},
    {"--fail-if='efficiency{gpus=2}<0.001,step_s>1h'", 0, NULL},
    {"--fail-if='efficiency{gpus=2}<2,step_s>1ns' --fail-below=0.001", 3,
     "lockstep predict: 2 of 3 conditions failed\n"},
    {"--fail-if='speed<2'", 2, "no value 'speed' here; there are: efficiency,"},
    {"--fail-if='speed<2,step_s>1ns'", 2, "lockstep predict: failed: step_s{gpus=\"2\","},
    {"--fail-if='efficiency'", 2, "--fail-if: 'efficiency' is no condition"},
    {"--fail-below=-1", 2, "--fail-below"},
    {"--junit=j.xml", 2, "--junit needs conditions"},
    {"--junit=no/folder/j.xml --fail-below=0.001", 1, "--junit: no/folder/j.xml"},
};

START_TEST(exit_codes_say_the_result)
{
    struct shell_result r = shell_program(scratch_dir, PREDICT "%s", cases[_i].words);

    ck_assert_msg(r.code == cases[_i].code, "%s: exit %d: %s", cases[_i].words, r.code, r.text);
    if (cases[_i].says)
        ck_assert_msg(strstr(r.text, cases[_i].says) != NULL, "%s: %s", cases[_i].words, r.text);
    else
        ck_assert_msg(!strstr(r.text, "lockstep predict:"), "%s", r.text);
}
END_TEST

/* A contradiction ends with 1, and the conditions are judged and filed all the same. */
START_TEST(contradictions_are_judged_too)
{
    struct shell_result r = shell_program(
        scratch_dir, PREDICT "--noise-scale=1 --fail-below=2 --junit=contradicted.xml");
    char *xml = scratch_read(scratch_dir, "contradicted.xml");

    ck_assert_msg(r.code == 1, "exit %d: %s", r.code, r.text);
    ck_assert_msg(strstr(r.text, "failed: efficiency{gpus=\"2\",") != NULL, "%s", r.text);
    ck_assert_msg(strstr(r.text, "past the critical batch") != NULL, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(xml, "<failure"));
    free(xml);
}
END_TEST

/* A page must not be lost to the conditions that judge it. */
START_TEST(page_is_printed_first)
{
    struct shell_result plain = shell_program(scratch_dir, PREDICT "--format=csv");
    struct shell_result r = shell_program(scratch_dir, PREDICT "--format=csv --fail-below=2");

    ck_assert_int_eq(plain.code, 0);
    ck_assert_int_eq(r.code, 3);
    ck_assert_int_gt((int)strlen(r.text), (int)strlen(plain.text));
    ck_assert_int_eq(strncmp(r.text, plain.text, strlen(plain.text)), 0);
    r = shell_program(scratch_dir, PREDICT "--format=csv --fail-if='speed>2'");
    ck_assert_int_eq(strncmp(r.text, plain.text, strlen(plain.text)), 0);
}
END_TEST

START_TEST(junit_is_written_in_any_case)
{
    static const struct {
        const char *bound, *counts;
    } runs[] = {{"efficiency<0.001", "tests=\"1\" failures=\"0\" errors=\"0\""},
                {"efficiency<2,step_s>1h", "tests=\"2\" failures=\"1\" errors=\"0\""},
                {"speed<2", "tests=\"1\" failures=\"0\" errors=\"1\""}};

    for (size_t i = 0; i < LK_COUNT(runs); i++) {
        char *text;

        shell_program(scratch_dir, PREDICT "--junit=j.xml --fail-if='%s'", runs[i].bound);
        text = scratch_read(scratch_dir, "j.xml");
        ck_assert_msg(strstr(text, runs[i].counts) != NULL, "%s", text);
        free(text);
    }
}
END_TEST

/* The words of a command that gates its page agree with its own main value. */
START_TEST(help_names_the_main_value)
{
    static const char *const commands[][2] = {{"analyze", "efficiency"},
                                              {"predict", "efficiency"},
                                              {"whatif", "efficiency"},
                                              {"validate", "inside_share"}};

    for (size_t i = 0; i < LK_COUNT(commands); i++) {
        struct shell_result r = shell_program(scratch_dir, "%s --help", commands[i][0]);
        char *says;

        ck_assert_int_eq(lk_asprintf(&says, "exit with 3 if %s is below", commands[i][1]), LK_OK);
        ck_assert_msg(strstr(r.text, says) != NULL, "%s: %s", says, r.text);
        free(says);
    }
}
END_TEST

SUITE(gates, c)
{
    tcase_add_checked_fixture(c, make_files, scratch_tear_down);
    tcase_add_loop_test(c, exit_codes_say_the_result, 0, LK_COUNT(cases));
    tcase_add_test(c, contradictions_are_judged_too);
    tcase_add_test(c, page_is_printed_first);
    tcase_add_test(c, junit_is_written_in_any_case);
    tcase_add_test(c, help_names_the_main_value);
}
