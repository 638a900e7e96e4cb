/* Issue windows of collectives: queries while they are written, and long after. */
#include "profiler/record/cupti_clock.h"

#include "tests/rigs/suite.h"

#include <pthread.h>
#include <stdbool.h>

static struct lk_issue_windows windows;

static void setup(void)
{
    ck_assert_int_eq(lk_issue_windows_init(&windows), LK_OK);
}

static void teardown(void)
{
    lk_issue_windows_fini(&windows);
    lk_issue_windows_fini(&windows);
}

/* Begin and end window i, from 10 (i + 1) to 10 (i + 1) + 4. */
static void pass(uint64_t i)
{
    lk_issue_windows_begin(&windows, 10 * (i + 1), 1000 + i);
    lk_issue_windows_end(&windows, 10 * (i + 1) + 4);
}

static const struct {
    uint64_t at;
    enum lk_issue_found found;
    uint64_t id;
} rows[] = {
    {0, LK_ISSUE_BETWEEN, 0},
    {9, LK_ISSUE_BETWEEN, 0},
    {10, LK_ISSUE_WITHIN, 1000},
    {14, LK_ISSUE_WITHIN, 1000},
    {15, LK_ISSUE_BETWEEN, 0},
    {22, LK_ISSUE_WITHIN, 1001},
    {26, LK_ISSUE_BETWEEN, 0},
    {30, LK_ISSUE_WITHIN, 1002},
    {36, LK_ISSUE_WITHIN, 1002}, /* it is not over */
    {UINT64_C(1) << 40, LK_ISSUE_WITHIN, 1002},
};

START_TEST(a_time_has_its_window)
{
    uint64_t id = 0;

    ck_assert_int_eq(lk_issue_windows_find(&windows, rows[_i].at, &id), LK_ISSUE_BETWEEN);
    lk_issue_windows_end(&windows, 5); /* of none */
    pass(0);
    pass(1);
    lk_issue_windows_begin(&windows, 30, 1002);
    ck_assert_int_eq(lk_issue_windows_find(&windows, rows[_i].at, &id), rows[_i].found);
    ck_assert_uint_eq(id, rows[_i].id);
}
END_TEST

START_TEST(old_windows_are_forgotten)
{
    const uint64_t n = 3 * LK_ISSUE_WINDOWS + 5;
    uint64_t id = 0;

    for (uint64_t i = 0; i < n; i++)
        pass(i);
    for (uint64_t i = 0; i < n; i++) {
        enum lk_issue_found found = lk_issue_windows_find(&windows, 10 * (i + 1) + 2, &id);

        if (i < n - LK_ISSUE_WINDOWS + 1)
            ck_assert_int_eq(found, LK_ISSUE_FORGOTTEN);
        else
            ck_assert_int_eq(found, LK_ISSUE_WITHIN);
        if (found == LK_ISSUE_WITHIN)
            ck_assert_uint_eq(id, 1000 + i);
    }
    ck_assert_int_eq(lk_issue_windows_find(&windows, 0, &id), LK_ISSUE_FORGOTTEN);
}
END_TEST

/* The clock was set back, or failed: earlier windows are still found. */
START_TEST(times_that_fall)
{
    uint64_t id = 0;

    pass(0);
    pass(1);
    lk_issue_windows_begin(&windows, 0, 1002);
    lk_issue_windows_end(&windows, 30);
    pass(3);
    ck_assert_int_eq(lk_issue_windows_find(&windows, 12, &id), LK_ISSUE_WITHIN);
    ck_assert_uint_eq(id, 1000);
    ck_assert_int_eq(lk_issue_windows_find(&windows, 28, &id), LK_ISSUE_WITHIN);
    ck_assert_uint_eq(id, 1002);
    ck_assert_int_eq(lk_issue_windows_find(&windows, 41, &id), LK_ISSUE_WITHIN);
    ck_assert_uint_eq(id, 1003);
}
END_TEST

enum { PASSES = 8 * LK_ISSUE_WINDOWS };

static void *write_windows(void *arg)
{
    for (uint64_t i = 0; i < PASSES; i++)
        pass(i);
    return arg;
}

/* Whatever is overwritten meanwhile, a window that is found contains the time. */
START_TEST(reading_while_it_is_written)
{
    pthread_t writer;
    uint64_t n = 0;

    ck_assert_int_eq(pthread_create(&writer, NULL, write_windows, NULL), 0);
    while (n < PASSES) {
        uint64_t id = 0, i;

        n = atomic_load(&windows.n);
        for (uint64_t back = 1; back <= n && back <= 2 * LK_ISSUE_WINDOWS; back = 2 * back + 1) {
            i = n - back;
            if (lk_issue_windows_find(&windows, 10 * (i + 1) + 2, &id) == LK_ISSUE_WITHIN)
                ck_assert_uint_eq(id, 1000 + i);
            else
                ck_assert_uint_gt(atomic_load(&windows.n) - i, LK_ISSUE_WINDOWS - 1);
        }
    }
    ck_assert_int_eq(pthread_join(writer, NULL), 0);
}
END_TEST

SUITE(issue_windows, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_time_has_its_window, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(tc, old_windows_are_forgotten);
    tcase_add_test(tc, times_that_fall);
    tcase_add_test(tc, reading_while_it_is_written);
}
