/* The held-out errors and scores are no worse than bench/results/accuracy.csv says; one that is
 * worse by more than 2 % is named. */
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* Run the gate on a record of which one figure is 3 % better than it was, and one is of nothing
 * that is forecast: these two alone fail. */
START_TEST(a_worse_forecast_is_named)
{
    static const char named[] = "law: x2 from two counts, tier A: interval score";
    char *record = scratch_path(scratch_dir, "record.csv");
    struct shell_result made, got;
    const char *first, *second;

    made =
        shell_run("awk '{ v = $0; sub(/.*,/, \"\", v) } index($0, \"%s\") == 1 { print \"%s,\" v / "
                  "1.03; next } { print } END { print \"law: of nothing: interval score,1\" }' "
                  "bench/results/accuracy.csv > '%s'",
                  named, named, record);
    ck_assert_int_eq(made.code, 0);
    got = shell_run("ACCURACY_RECORD='%s' tools/accuracy_gate " LK_BUILD_DIR " 2>&1", record);
    ck_assert_msg(got.code == 1, "%s", got.text);
    first = strstr(got.text, ", recorded ");
    second = first ? strstr(first + 1, ", recorded ") : NULL;
    ck_assert_msg(strstr(got.text, named) && first && !second, "%s", got.text);
    first = strstr(got.text, "nothing is forecast of ");
    second = first ? strstr(first + 1, "nothing is forecast of ") : NULL;
    ck_assert_msg(first && strstr(first, "law: of nothing") && !second, "%s", got.text);
    free(record);
}
END_TEST

/* A record without figures holds nothing. */
START_TEST(an_empty_record_fails)
{
    struct shell_result got =
        shell_run("echo '#name,value' > '%s/r.csv'; ACCURACY_RECORD='%s/r.csv' "
                  "tools/accuracy_gate " LK_BUILD_DIR " 2>&1",
                  scratch_dir, scratch_dir);

    ck_assert_msg(got.code == 1 && strstr(got.text, "no figures"), "%s", got.text);
}
END_TEST

SUITE(accuracy_gate, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, a_worse_forecast_is_named);
    tcase_add_test(t, an_empty_record_fails);
}
