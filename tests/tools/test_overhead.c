/* bench/overhead with a script in lockstep's place: the order of runs, and
 * the result from their steps. */
#include "base/array.h"
#include "base/status.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The script notes whether it records; a step takes 10 ms, or 10.1 ms recorded. */
static const char program[] =
    "#!/bin/sh\n"
    "trace=yes\n"
    "while [ $# -gt 0 ]; do\n"
    "    case $1 in --no-trace) trace=no ;; --out) out=$2 ;; esac\n"
    "    shift\n"
    "done\n"
    "mkdir -p \"$out/run\"\n"
    "printf '%s ' $trace >> \"${0%/*}/order\"\n"
    "s=0.01; [ $trace = no ] || s=0.0101\n"
    "n=0; steps=$s; losses=1\n"
    "while [ $n -lt 29 ]; do n=$((n + 1)); steps=\"$steps,$s\"; losses=\"$losses,1\"; done\n"
    "echo \"{\\\"schema\\\": \\\"lockstep-result\\\", \\\"version\\\": 1, \\\"warmup_steps\\\": "
    "20,\n"
    "\\\"step_s\\\": [$steps], \\\"loss\\\": [$losses],\n"
    "\\\"noise_scale_samples\\\": {\\\"n\\\": 0}}\" > \"$out/run/result.json\"\n";

/* Run bench/overhead with that script, in dir; the output is in dir/said. */
static int overhead(const char *pairs, const char *options)
{
    char *path = scratch_put("lockstep", program, strlen(program)), *command;
    int status;

    ck_assert_int_eq(lk_asprintf(&command,
                                 "chmod +x '%s' && b=$(realpath " LK_BUILD_DIR
                                 "/bench/overhead) && cd '%s' && "
                                 "\"$b\" %s 1 '%s' --steps 10 %s > said 2>&1",
                                 path, scratch_dir, pairs, path, options),
                     LK_OK);
    status = system(command);
    free(command);
    free(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void assert_text(const char *name, const char *what)
{
    char *text = scratch_read(scratch_dir, name);

    ck_assert_msg(strstr(text, what) != NULL, "no '%s' in\n%s", what, text);
    free(text);
}

/* Drift, e.g. of the GPU's temperature, must favour neither: each comes first as often as last. */
START_TEST(each_comes_first_in_turn)
{
    char *order;

    if (overhead("4", "--device cuda --with all --json json"))
        ck_abort_msg("%s", scratch_read(scratch_dir, "said"));
    order = scratch_read(scratch_dir, "order");
    ck_assert_str_eq(order, "no yes yes no no yes yes no ");
    free(order);
    assert_text("json", "\"value\": 0.0100000000000");
}
END_TEST

/* One pair gives no interval, however much time there is: nothing is run. */
START_TEST(one_pair_is_refused)
{
    ck_assert_int_eq(overhead("1", ""), 2);
    assert_text("said", "PAIRS");
}
END_TEST

START_TEST(the_tool_may_have_a_blank)
{
    free(scratch_put("a tool.so", "", 0));
    if (overhead("2", "--with nvtx --nvtx-tool 'a tool.so'"))
        ck_abort_msg("%s", scratch_read(scratch_dir, "said"));
    assert_text("said", "nvtx");
}
END_TEST

SUITE(overhead, tc)
{
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_test(tc, each_comes_first_in_turn);
    tcase_add_test(tc, one_pair_is_refused);
    tcase_add_test(tc, the_tool_may_have_a_blank);
}
