/* bench/accuracy_scaling writes what it is told to, and never over a file that is there. */
#include "base/array.h"
#include "base/status.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const struct {
    const char *option, *says;
    int code;
} calls[] = {
    {"", "usage: ", 2},
    {"--points", "table.csv: File exists", 1},
};

START_TEST(a_table_is_not_written_over)
{
    char *command, *path = scratch_put("table.csv", "measured", 8), *text;
    int status;

    ck_assert_int_eq(lk_asprintf(&command,
                                 LK_BUILD_DIR "/bench/accuracy_scaling %s '%s' > '%s/said' 2>&1",
                                 calls[_i].option, path, scratch_dir),
                     LK_OK);
    status = system(command);
    ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, calls[_i].code);
    text = scratch_read(scratch_dir, "said");
    ck_assert_msg(strstr(text, calls[_i].says) != NULL, "%s", text);
    free(text);
    text = scratch_read(scratch_dir, "table.csv");
    ck_assert_str_eq(text, "measured");
    free(text);
    free(command);
    free(path);
}
END_TEST

SUITE(accuracy_output, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, a_table_is_not_written_over, 0, (int)LK_COUNT(calls));
}
