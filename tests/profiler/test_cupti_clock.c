/* CUPTI's clock mapped to ours: points, interpolation, and a clock that was set. */
#include "profiler/record/cupti_clock.h"

#include "base/clock.h"
#include "tests/rigs/suite.h"

#define EPOCH (UINT64_C(1800000000) * LK_NS_PER_S)

/* Add a point: their clock is EPOCH + by_ns ahead at `at_ns`. */
static void add(struct lk_cupti_clock *c, uint64_t at_ns, int64_t by_ns)
{
    lk_cupti_clock_add(c, at_ns + EPOCH + (uint64_t)by_ns, at_ns);
}

static const struct {
    uint64_t theirs_ns, ours_ns;
} rows[] = {
    /* Before the first point its offset is used; after the last, the last one's. */
    {EPOCH, 0},
    {EPOCH + LK_NS_PER_S, LK_NS_PER_S},
    {EPOCH + 6 * LK_NS_PER_S, 6 * LK_NS_PER_S},
    /* A quarter of 1000 ns at a quarter of the way. */
    {EPOCH + 7000000250, 7 * LK_NS_PER_S},
    {EPOCH + 10000001000, 10 * LK_NS_PER_S},
    {EPOCH + 10000001000 + 777777, 10000777777},
    {EPOCH + 12000000000, 12000000000 + 1000},
    {EPOCH + 90000000000 - 3000, 90 * LK_NS_PER_S},
};

START_TEST(between_points)
{
    struct lk_cupti_clock c = {0};

    add(&c, LK_NS_PER_S, 0);
    add(&c, 6 * LK_NS_PER_S, 0);
    add(&c, 10 * LK_NS_PER_S, 1000);
    add(&c, 14 * LK_NS_PER_S, -3000);
    ck_assert_uint_eq(c.jump_ns, 0);
    ck_assert_uint_eq(lk_cupti_clock_ours_ns(&c, rows[_i].theirs_ns), rows[_i].ours_ns);
}
END_TEST

START_TEST(one_point)
{
    struct lk_cupti_clock c = {0};

    add(&c, LK_NS_PER_S, 5);
    ck_assert_uint_eq(lk_cupti_clock_ours_ns(&c, EPOCH + 5), 0);
    ck_assert_uint_eq(lk_cupti_clock_ours_ns(&c, EPOCH + 5 + 3 * LK_NS_PER_S), 3 * LK_NS_PER_S);
}
END_TEST

/* With a clock that runs 20 ppm fast any number of points fits, and any
 * time of the run is converted. */
START_TEST(many_points)
{
    enum { POINTS = 100000 };
    struct lk_cupti_clock c = {0};
    const uint64_t step_ns = 50 * LK_NS_PER_MS;

    for (uint64_t i = 0; i < POINTS; i++)
        add(&c, i * step_ns, (int64_t)(i * 1000));
    ck_assert_uint_le(c.n, LK_CUPTI_POINTS);
    ck_assert_uint_gt(c.n, LK_CUPTI_POINTS / 4);
    ck_assert_uint_eq(c.jump_ns, 0);
    for (uint64_t i = 0; i < POINTS; i += 997) {
        uint64_t at = lk_cupti_clock_ours_ns(&c, i * step_ns + EPOCH + i * 1000);

        ck_assert_uint_le(at, i * step_ns + 1);
        ck_assert_uint_ge(at + 1, i * step_ns);
    }
}
END_TEST

/* The clock is set back, or forward; times stay in order where the clock did. */
START_TEST(a_clock_that_was_set)
{
    const int64_t by = _i ? -(int64_t)LK_NS_PER_S : (int64_t)(20 * LK_NS_PER_MS);
    struct lk_cupti_clock c = {0};

    add(&c, LK_NS_PER_S, 0);
    add(&c, 3 * LK_NS_PER_S, 0);
    add(&c, 5 * LK_NS_PER_S, by);
    add(&c, 7 * LK_NS_PER_S, by);
    ck_assert_uint_eq(c.jump_ns, _i ? LK_NS_PER_S : 20 * LK_NS_PER_MS);
    ck_assert_uint_eq(lk_cupti_clock_ours_ns(&c, EPOCH + 2 * LK_NS_PER_S), 2 * LK_NS_PER_S);
    ck_assert_uint_eq(lk_cupti_clock_ours_ns(&c, EPOCH + 6 * LK_NS_PER_S + (uint64_t)by),
                      6 * LK_NS_PER_S);
}
END_TEST

SUITE(cupti_clock, tc)
{
    tcase_add_loop_test(tc, between_points, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(tc, one_point);
    tcase_add_test(tc, many_points);
    tcase_add_loop_test(tc, a_clock_that_was_set, 0, 2);
}
