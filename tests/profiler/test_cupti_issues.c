/* The memory of API calls: whatever their numbers, the last ones are known. */
#include "profiler/record/cupti_issues.h"

#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <stdbool.h>

static struct lk_cupti_issues t;

static void setup(void)
{
    ck_assert_int_eq(lk_cupti_issues_init(&t), LK_OK);
}

static void teardown(void)
{
    lk_cupti_issues_fini(&t);
}

static void put(uint32_t correlation)
{
    lk_cupti_issues_put(&t, correlation, LK_CUPTI_CALL_OURS, UINT64_C(7) * correlation);
}

static bool is_known(uint32_t correlation)
{
    const struct lk_cupti_issue_entry *e = lk_cupti_issues_find(&t, correlation);

    return e && e->correlation == correlation && e->call == LK_CUPTI_CALL_OURS &&
           e->id == UINT64_C(7) * correlation;
}

/* Numbers of several threads that are equal in their low bits: a table of the low bits forgets one
 * of each pair. */
START_TEST(calls_of_equal_low_bits)
{
    for (uint32_t i = 1; i <= 1000; i++) {
        put(i);
        put(i + LK_CUPTI_ISSUES);
        put(i + 3U * LK_CUPTI_ISSUES);
    }
    for (uint32_t i = 1; i <= 1000; i++)
        if (!is_known(i) || !is_known(i + LK_CUPTI_ISSUES) || !is_known(i + 3U * LK_CUPTI_ISSUES))
            ck_abort_msg("call %u is forgotten", i);
}
END_TEST

START_TEST(the_oldest_are_forgotten)
{
    struct lk_rng g = lk_rng_init(1, 2);
    static uint32_t order[2 * LK_CUPTI_ISSUES];
    size_t n = sizeof order / sizeof *order, later = n - LK_CUPTI_ISSUES;

    for (size_t i = 0; i < n; i++) /* odd factor: no number comes twice */
        order[i] = (uint32_t)(i * 2654435761U) ^ 5U;
    for (size_t i = 0; i < n; i++)
        put(order[i]);
    for (int i = 0; i < 1000; i++) {
        size_t at = (size_t)(lk_rng_uniform(&g) * LK_CUPTI_ISSUES);

        if (is_known(order[at]) || !is_known(order[later + at]))
            ck_abort_msg("call %zu", at);
    }
}
END_TEST

START_TEST(a_call_that_is_known_is_replaced)
{
    put(5);
    lk_cupti_issues_put(&t, 5, LK_CUPTI_CALL_NOBODYS, 1);
    ck_assert_int_eq(lk_cupti_issues_find(&t, 5)->call, LK_CUPTI_CALL_NOBODYS);
    ck_assert_uint_eq(t.n, 1);
    ck_assert_ptr_null(lk_cupti_issues_find(&t, 6));
}
END_TEST

SUITE(cupti_issues, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, calls_of_equal_low_bits);
    tcase_add_test(tc, the_oldest_are_forgotten);
    tcase_add_test(tc, a_call_that_is_known_is_replaced);
}
