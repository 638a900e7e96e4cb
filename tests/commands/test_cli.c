/* Run the program as a user does: help, version, and the exit codes of wrong usage. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM LK_BUILD_DIR "/lockstep"

START_TEST(help_goes_to_stdout)
{
    static const char *const words[] = {"--help", "-h", "help"};
    struct shell_result r = shell_run(PROGRAM " %s 2>/dev/null", words[_i]);

    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(strncmp(r.text, "usage: lockstep COMMAND", 23), 0);
}
END_TEST

START_TEST(version)
{
    struct shell_result r = shell_run(PROGRAM " --version 2>/dev/null");

    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(strncmp(r.text, "lockstep ", 9), 0);
    ck_assert(r.text[9] >= '0' && r.text[9] <= '9');
    /* Benchmarks print this line beside their peers' BLAS. */
    ck_assert_ptr_nonnull(strstr(r.text, "\nmath: "));
    ck_assert_ptr_nonnull(strstr(r.text, "; vector instructions: "));
    ck_assert_ptr_nonnull(strstr(r.text, "\npages: "));
}
END_TEST

START_TEST(no_arguments_is_wrong_usage)
{
    struct shell_result r = shell_run(PROGRAM " 2>/dev/null");

    ck_assert_int_eq(r.code, 2);
    ck_assert_str_eq(r.text, ""); /* stdout is for results */
    r = shell_run(PROGRAM " 2>&1 >/dev/null");
    ck_assert_int_eq(r.code, 2);
    ck_assert_int_eq(strncmp(r.text, "usage: lockstep COMMAND", 23), 0);
}
END_TEST

START_TEST(unknown_command)
{
    struct shell_result r = shell_run(PROGRAM " xyzzy 2>&1 >/dev/null");

    ck_assert_int_eq(r.code, 2);
    ck_assert_int_eq(strncmp(r.text, "lockstep: no command 'xyzzy'", 28), 0);
    ck_assert_ptr_null(strstr(r.text, "did you mean"));
}
END_TEST

/* List the commands in --help, from its lines "  NAME   text". */
static size_t list_commands(char names[][32], size_t max)
{
    struct shell_result r = shell_run(PROGRAM " --help");
    const char *line = strstr(r.text, "commands:\n");
    size_t n = 0;

    ck_assert_ptr_nonnull(line);
    for (line = strchr(line, '\n') + 1; !strncmp(line, "  ", 2) && n < max; n++) {
        ck_assert_int_eq(sscanf(line, "%31s", names[n]), 1);
        line = strchr(line, '\n') + 1;
    }
    return n;
}

START_TEST(every_command)
{
    char names[32][32];
    size_t n = list_commands(names, LK_COUNT(names));

    for (size_t i = 0; i < n; i++) {
        struct shell_result r = shell_run(PROGRAM " %s --help 2>/dev/null", names[i]);
        char *says;

        ck_assert_msg(r.code == 0, "%s --help exits with %d", names[i], r.code);
        ck_assert_int_eq(lk_asprintf(&says, "usage: lockstep %s", names[i]), LK_OK);
        ck_assert_int_eq(strncmp(r.text, says, strlen(says)), 0);
        free(says);

        /* A wrong option is found before any work, so this starts no command. */
        r = shell_run(PROGRAM " %s --no-such-option 2>&1 >/dev/null", names[i]);
        ck_assert_msg(r.code == 2, "%s exits with %d: %s", names[i], r.code, r.text);
        ck_assert_msg(strstr(r.text, "no option '--no-such-option'") != NULL, "%s: %s", names[i],
                      r.text);

        r = shell_run(PROGRAM " %sx 2>&1", names[i]);
        ck_assert_int_eq(r.code, 2);
        ck_assert_int_eq(lk_asprintf(&says, "did you mean '%s'?", names[i]), LK_OK);
        ck_assert_msg(strstr(r.text, says) != NULL, "%s", r.text);
        free(says);
    }
}
END_TEST

START_TEST(results_that_cannot_be_written)
{
    static const char *const words[] = {"--help", "--version"};
    struct shell_result r = shell_run(PROGRAM " %s 2>&1 >/dev/full", words[_i]);

    ck_assert_int_eq(r.code, 1);
    ck_assert_str_eq(r.text,
                     "lockstep: cannot write to standard output: No space left on device\n");
}
END_TEST

#define TINY                                                                                       \
    "run -n2 --model=mlp --layers=1 --channels=16 --context=8 --vocab=256 --steps=20 --no-pin "    \
    "--log=debug "

/* A run goes on when the reader of its log ends, and then ends as others do without a reader. */
START_TEST(a_reader_that_ends_stops_no_run)
{
    struct shell_result r = shell_run("cd '%s' && { sh -c '\"$0\" " TINY
                                      "--out=run 2>&1; echo $? > code' \"$OLDPWD/" PROGRAM
                                      "\" | head -n1; } && ls run/job.json && cat code",
                                      scratch_dir);

    ck_assert_int_eq(r.code, 0);
    ck_assert_msg(strstr(r.text, "run/job.json\n141\n") != NULL, "%s", r.text);
}
END_TEST

/* Closed descriptors are not taken by files, which the output would go to. */
START_TEST(closed_descriptors_stay_out_of_files)
{
    static const char *const closed[] = {">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"};
    bool no_output = _i != 1;
    struct shell_result r =
        shell_run(PROGRAM " " TINY "--out='%s/run' %s; echo $?", scratch_dir, closed[_i]);

    ck_assert_msg(strlen(r.text) >= 2 &&
                      !strcmp(r.text + strlen(r.text) - 2, no_output ? "1\n" : "0\n"),
                  "%s", r.text);
    r = shell_run(PROGRAM " analyze '%s/run' 2>&1", scratch_dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
}
END_TEST

SUITE(cli, c)
{
    tcase_add_loop_test(c, help_goes_to_stdout, 0, 3);
    tcase_add_test(c, version);
    tcase_add_test(c, no_arguments_is_wrong_usage);
    tcase_add_test(c, unknown_command);
    tcase_add_test(c, every_command);
    tcase_add_loop_test(c, results_that_cannot_be_written, 0, 2);
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, a_reader_that_ends_stops_no_run);
    tcase_add_loop_test(c, closed_descriptors_stay_out_of_files, 0, 4);
}
