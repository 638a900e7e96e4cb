/* The tutorials of docs/tutorials: every command in them runs, and prints what they show. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>

static const char *const tutorials[] = {"plan", "settings", "slow_node", "cluster", "networks"};

START_TEST(its_commands_run)
{
    struct shell_result r =
        shell_run("python3 tests/tools/tutorial.py docs/tutorials/%s.md '%s' '%s' 2>&1",
                  tutorials[_i], scratch_dir, LK_BUILD_DIR "/lockstep");

    ck_assert_msg(r.code == 0, "%s", r.text);
}
END_TEST

/* A tutorial that is not in the list would not be run. */
START_TEST(all_are_listed)
{
    char **names;
    size_t n;

    ck_assert_int_eq(lk_dir_list("docs/tutorials", ".md", &names, &n), LK_OK);
    ck_assert_uint_eq(n, LK_COUNT(tutorials));
    lk_names_free(names, n);
}
END_TEST

SUITE(tutorials, c)
{
    tcase_set_timeout(c, 240);
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, its_commands_run, 0, LK_COUNT(tutorials));
    tcase_add_test(c, all_are_listed);
}
