/* When collectives were being issued: what is asked of it while it is written, and long after. */
#include "profiler/cupti_turns.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>

static struct lk_cupti_turns turns;

static void setup(void)
{
    ck_assert_int_eq(lk_cupti_turns_init(&turns), LK_OK);
}

static void teardown(void)
{
    lk_cupti_turns_fini(&turns);
    lk_cupti_turns_fini(&turns);
}

/* Turn i lasts from 10 (i + 1) to 10 (i + 1) + 4. */
static void pass(uint64_t i)
{
    lk_cupti_turns_begin(&turns, 10 * (i + 1), 1000 + i);
    lk_cupti_turns_end(&turns, 10 * (i + 1) + 4);
}

static const struct {
    uint64_t at;
    enum lk_cupti_found found;
    uint64_t id;
} rows[] = {
    {0,                 LK_CUPTI_BETWEEN, 0   },
    {9,                 LK_CUPTI_BETWEEN, 0   },
    {10,                LK_CUPTI_WITHIN,  1000},
    {14,                LK_CUPTI_WITHIN,  1000},
    {15,                LK_CUPTI_BETWEEN, 0   },
    {22,                LK_CUPTI_WITHIN,  1001},
    {26,                LK_CUPTI_BETWEEN, 0   },
    {30,                LK_CUPTI_WITHIN,  1002},
    {36,                LK_CUPTI_WITHIN,  1002}, /* it is not over */
    {UINT64_C(1) << 40, LK_CUPTI_WITHIN,  1002},
};

START_TEST(a_time_has_its_turn)
{
    uint64_t id = 0;

    ck_assert_int_eq(lk_cupti_turns_find(&turns, rows[_i].at, &id), LK_CUPTI_BETWEEN);
    lk_cupti_turns_end(&turns, 5); /* of none */
    pass(0);
    pass(1);
    lk_cupti_turns_begin(&turns, 30, 1002);
    ck_assert_int_eq(lk_cupti_turns_find(&turns, rows[_i].at, &id), rows[_i].found);
    ck_assert_uint_eq(id, rows[_i].id);
}
END_TEST

START_TEST(old_turns_are_forgotten)
{
    const uint64_t n = 3 * LK_CUPTI_TURNS + 5;
    uint64_t id = 0;

    for (uint64_t i = 0; i < n; i++)
        pass(i);
    for (uint64_t i = 0; i < n; i++) {
        enum lk_cupti_found found = lk_cupti_turns_find(&turns, 10 * (i + 1) + 2, &id);

        if (i < n - LK_CUPTI_TURNS + 1)
            ck_assert_int_eq(found, LK_CUPTI_FORGOTTEN);
        else
            ck_assert_int_eq(found, LK_CUPTI_WITHIN);
        if (found == LK_CUPTI_WITHIN)
            ck_assert_uint_eq(id, 1000 + i);
    }
    ck_assert_int_eq(lk_cupti_turns_find(&turns, 0, &id), LK_CUPTI_FORGOTTEN);
}
END_TEST

/* The clock was set back, or failed: what came before is still found. */
START_TEST(times_that_fall)
{
    uint64_t id = 0;

    pass(0);
    pass(1);
    lk_cupti_turns_begin(&turns, 0, 1002);
    lk_cupti_turns_end(&turns, 30);
    pass(3);
    ck_assert_int_eq(lk_cupti_turns_find(&turns, 12, &id), LK_CUPTI_WITHIN);
    ck_assert_uint_eq(id, 1000);
    ck_assert_int_eq(lk_cupti_turns_find(&turns, 28, &id), LK_CUPTI_WITHIN);
    ck_assert_uint_eq(id, 1002);
    ck_assert_int_eq(lk_cupti_turns_find(&turns, 41, &id), LK_CUPTI_WITHIN);
    ck_assert_uint_eq(id, 1003);
}
END_TEST

enum { PASSES = 8 * LK_CUPTI_TURNS };

static void *write_turns(void *arg)
{
    for (uint64_t i = 0; i < PASSES; i++)
        pass(i);
    return arg;
}

/* Whatever is written over meanwhile, a turn that is found is the one of that time. */
START_TEST(reading_while_it_is_written)
{
    pthread_t writer;
    uint64_t n = 0;

    ck_assert_int_eq(pthread_create(&writer, NULL, write_turns, NULL), 0);
    while (n < PASSES) {
        uint64_t id = 0, i;

        n = atomic_load(&turns.n);
        for (uint64_t back = 1; back <= n && back <= 2 * LK_CUPTI_TURNS; back = 2 * back + 1) {
            i = n - back;
            if (lk_cupti_turns_find(&turns, 10 * (i + 1) + 2, &id) == LK_CUPTI_WITHIN)
                ck_assert_uint_eq(id, 1000 + i);
            else
                ck_assert_uint_gt(atomic_load(&turns.n) - i, LK_CUPTI_TURNS - 1);
        }
    }
    ck_assert_int_eq(pthread_join(writer, NULL), 0);
}
END_TEST

Suite *lk_suite_cupti_turns(void);

Suite *lk_suite_cupti_turns(void)
{
    Suite *s = suite_create("turns of collectives");
    TCase *tc = tcase_create("turns");

    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_time_has_its_turn, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(tc, old_turns_are_forgotten);
    tcase_add_test(tc, times_that_fall);
    tcase_add_test(tc, reading_while_it_is_written);
    return s;
}
