/*
 * The options' rows give, beside --help, manual pages, which hold every option and which
 * groff formats without a warning, and the tables of docs/, which must not be stale.
 */
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PROGRAM LK_BUILD_DIR "/lockstep"

static const char *const commands[] = {"run",         "replay",   "profile", "calibrate", "import",
                                       "collectives", "analyze",  "doctor",  "predict",   "whatif",
                                       "plan",        "validate", "compare", "report",    "export"};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

START_TEST(help_of_a_command)
{
    struct shell_result a = shell_run(PROGRAM " help %s", commands[_i]);
    struct shell_result b = shell_run(PROGRAM " %s --help", commands[_i]);

    ck_assert_int_eq(a.code, 0);
    ck_assert_str_eq(a.text, b.text);
}
END_TEST

/* The list above is that of the help, so no command is forgotten here or by make install. */
START_TEST(all_commands)
{
    struct shell_result r =
        shell_run(PROGRAM " help | sed -n '/^commands:/,/^$/s/^  \\([a-z]*\\) .*/\\1/p'");
    char *names = r.text;

    for (int i = 0; i < N_COMMANDS; i++) {
        ck_assert_str_eq(strtok_r(i ? NULL : r.text, "\n", &names), commands[i]);
        ck_assert_int_eq(
            shell_run(PROGRAM " help --man | grep -q '^.BR lockstep.-%s (1)$'", commands[i]).code,
            0);
    }
    ck_assert_ptr_null(strtok_r(NULL, "\n", &names));
}
END_TEST

/* Prints the options of --help, or of a manual page formatted for a terminal. */
#define OF_HELP "grep -oE '^ {2,7}(-[a-z], )?--(\\[no-\\])?[a-z0-9-]+' | sed 's/^ *//'"

static bool has_groff(void)
{
    if (shell_run("command -v groff man > /dev/null").code == 0)
        return true;
    skip("no groff or no man here");
    return false;
}

START_TEST(every_option_is_in_the_page)
{
    struct shell_result help, page;

    if (!has_groff())
        return;
    help = shell_run(PROGRAM " %s --help | " OF_HELP, commands[_i]);
    page =
        shell_run(PROGRAM " help --man %s | groff -man -Tascii -P-cbou | " OF_HELP, commands[_i]);
    ck_assert_int_gt((int)strlen(help.text), 0);
    ck_assert_str_eq(page.text, help.text);
}
END_TEST

/* The program's page, then those of the commands. */
START_TEST(pages_have_no_warnings)
{
    const char *command = _i ? commands[_i - 1] : "";
    struct shell_result r;

    if (shell_run("command -v mandoc > /dev/null").code == 0) {
        /* The pages have a version, not a date. */
        r = shell_run(PROGRAM " help --man %s | mandoc -T lint -W warning 2>&1 | "
                              "grep -v 'missing date'",
                      command);
        ck_assert_str_eq(r.text, "");
    } else {
        skip("no mandoc here");
    }
    if (shell_run("command -v groff man > /dev/null").code != 0)
        return;
    r = shell_run(PROGRAM
                  " help --man %s | man --warnings -E UTF-8 -l -Tutf8 -Z - 2>&1 > /dev/null",
                  command);
    ck_assert_str_eq(r.text, "");
    r = shell_run(PROGRAM " help --man %s | groff -ww -man -Tutf8 -z 2>&1", command);
    ck_assert_str_eq(r.text, "");
    /* A dash outside of macros is \-: without, formatters print a hyphen, which cannot be pasted.
     */
    r = shell_run(PROGRAM " help --man %s | grep -v '^\\.' | grep '[^\\]-'", command);
    ck_assert_str_eq(r.text, "");
}
END_TEST

START_TEST(tables_hold_every_option)
{
    struct shell_result help = shell_run(PROGRAM " %s --help | " OF_HELP, commands[_i]);
    struct shell_result table =
        shell_run(PROGRAM " help --markdown %s | sed -n 's/^| \\(`-.*\\)/\\1/p' | tr -d '`' | "
                          "grep -oE '^(-[a-z], )?--(\\[no-\\])?[a-z0-9-]+'",
                  commands[_i]);

    ck_assert_str_eq(table.text, help.text);
}
END_TEST

START_TEST(tables_of_chosen_options)
{
    struct shell_result r = shell_run(PROGRAM " help --markdown run accumulation shuffle");

    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.text,
                     "| option | meaning | values |\n|---|---|---|\n"
                     "| `-a`, `--accumulation=N` | micro-batches of an optimizer step | 1..100000; "
                     "default 1 |\n"
                     "| `--[no-]shuffle` | shuffle every epoch | default yes |\n");
}
END_TEST

static const char *const wrong[][2] = {
    {"runs", "no command 'runs'; did you mean 'run'?"},
    {"run predict", "usage: lockstep help"},
    {"--man run predict", "usage: lockstep help"},
    {"--markdown", "usage: lockstep help"},
    {"--man --markdown", "usage: lockstep help"},
    {"--markdown run cap", "'run' has no option 'cap'"},
};

START_TEST(wrong_words)
{
    struct shell_result r = shell_run(PROGRAM " help %s 2>&1 >/dev/null", wrong[_i][0]);

    ck_assert_int_eq(r.code, 2);
    ck_assert_msg(strstr(r.text, wrong[_i][1]) != NULL, "%s", r.text);
}
END_TEST

START_TEST(docs_are_not_stale)
{
    struct shell_result r;
    char *dir;

    if (shell_run("command -v python3 > /dev/null").code != 0) {
        skip("no python3 here");
        return;
    }
    r = shell_run("tools/options " PROGRAM " --check 2>&1");
    ck_assert_msg(r.code == 0, "%s", r.text);
    dir = scratch_create();
    r = shell_run("sed '/nccl-cga/d' docs/gpu.md > '%s/gpu.md'; "
                  "printf '<!-- options: run nccl-cga -->\\n<!-- end of options -->\\n' >> "
                  "'%s/gpu.md'; tools/options " PROGRAM " --check '%s/gpu.md' 2>&1",
                  dir, dir, dir);
    ck_assert_int_eq(r.code, 1);
    ck_assert_ptr_nonnull(strstr(r.text, "make docs"));
    r = shell_run("tools/options " PROGRAM " '%s/gpu.md' && tools/options " PROGRAM
                  " --check '%s/gpu.md'",
                  dir, dir);
    ck_assert_int_eq(r.code, 0);
    scratch_remove(dir);
}
END_TEST

SUITE(help, c)
{
    tcase_add_loop_test(c, help_of_a_command, 0, N_COMMANDS);
    tcase_add_test(c, all_commands);
    tcase_add_loop_test(c, every_option_is_in_the_page, 0, N_COMMANDS);
    tcase_add_loop_test(c, pages_have_no_warnings, 0, N_COMMANDS + 1);
    tcase_add_loop_test(c, tables_hold_every_option, 0, N_COMMANDS);
    tcase_add_test(c, tables_of_chosen_options);
    tcase_add_loop_test(c, wrong_words, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(c, docs_are_not_stale);
}
