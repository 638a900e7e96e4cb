/* Oracles on widths, by cases whose best factors are found by hand. */
#include "base/array.h"
#include "bench/lib/site_oracle.h"
#include "tests/rigs/suite.h"

/* A group needs 0.5 and 1, of widths 1 and 3, the other 10, of width 1. */
static const struct oracle_case cases[] = {{0, 1, 1}, {0, 0.5, 3}, {1, 10, 1}};

static const struct {
    double share;
    size_t inside;
    double width;
} all[] = {
    {0.3, 1, 2},  /* 0.5 x 4, less than 10 x 1 */
    {0.6, 2, 4},  /* 1 x 4; the second group is given up */
    {1.0, 3, 14}, /* 1 x 4 and 10 x 1 */
};

START_TEST(widths_sum_to_the_least)
{
    struct oracle o;

    ck_assert(oracle_all(cases, LK_COUNT(cases), all[_i].share, &o) == LK_OK);
    ck_assert_uint_eq(o.groups, 2);
    ck_assert_uint_eq(o.inside, all[_i].inside);
    ck_assert_double_eq_tol(o.width, all[_i].width, 1e-12);
}
END_TEST

START_TEST(each_group_keeps_its_share)
{
    struct oracle o;

    ck_assert(oracle_each(cases, LK_COUNT(cases), 0.5, &o) == LK_OK);
    ck_assert_uint_eq(o.inside, 2);
    ck_assert_double_eq_tol(o.width, 0.5 * 4 + 10, 1e-12);
    ck_assert(oracle_each(cases, LK_COUNT(cases), 0.85, &o) == LK_OK);
    ck_assert_uint_eq(o.inside, 3);
    ck_assert_double_eq_tol(o.width, 14, 1e-12);
}
END_TEST

SUITE(site_oracle, c)
{
    tcase_add_loop_test(c, widths_sum_to_the_least, 0, (int)LK_COUNT(all));
    tcase_add_test(c, each_group_keeps_its_share);
}
