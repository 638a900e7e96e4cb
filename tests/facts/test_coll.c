/* Collectives: names, and byte formulas against a step-by-step ring. */
#include "base/array.h"
#include "facts/coll.h"
#include "tests/rigs/suite.h"

START_TEST(names)
{
    enum lk_coll c;
    enum lk_algo a;

    for (int i = 0; i < LK_COLL_COUNT; i++) {
        ck_assert_int_eq(lk_words_find(&lk_coll_words, lk_coll_name((enum lk_coll)i), &c), LK_OK);
        ck_assert_int_eq((int)c, i);
    }
    for (int i = 0; i < LK_ALGO_COUNT; i++) {
        ck_assert_int_eq(lk_words_find(&lk_algo_words, lk_algo_name((enum lk_algo)i), &a), LK_OK);
        ck_assert_int_eq((int)a, i);
    }
    ck_assert_str_eq(lk_coll_kineto_name(LK_ALL_REDUCE), "allreduce");
    ck_assert_int_eq(lk_words_find(&lk_coll_words, "allreduce", &c), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "'allreduce' is not a collective (known: all_reduce "
                                      "reduce_scatter all_gather broadcast barrier)");
    ck_assert_int_eq(lk_words_find(&lk_algo_words, "", &a), LK_EPARSE);
}
END_TEST

/* nccl-tests doc/PERFORMANCE.md: bus bandwidth over algorithm bandwidth. */
static const struct {
    enum lk_coll coll;
    int ranks;
    double factor;
} factors[] = {
    {LK_ALL_REDUCE, 1, 0},
    {LK_ALL_REDUCE, 2, 1},
    {LK_ALL_REDUCE, 4, 1.5},
    {LK_ALL_REDUCE, 8, 1.75},
    {LK_ALL_REDUCE, 1024, 2 - 2.0 / 1024},
    {LK_REDUCE_SCATTER, 1, 0},
    {LK_REDUCE_SCATTER, 8, 0.875},
    {LK_ALL_GATHER, 2, 0.5},
    {LK_ALL_GATHER, 16, 0.9375},
    {LK_BROADCAST, 1, 1},
    {LK_BROADCAST, 8, 1},
    {LK_BARRIER, 8, 0},
};

START_TEST(busbw_factor)
{
    ck_assert_double_eq_tol(lk_coll_busbw_factor(factors[_i].coll, factors[_i].ranks),
                            factors[_i].factor, 1e-15); /* one rounding of (K-1)/K */
}
END_TEST

/* A ring in K chunks: reduce-scatter and all-gather send K-1 chunks each, all-reduce does both. */
START_TEST(ring_by_steps)
{
    const double bytes = 25.0 * (1 << 20);

    for (int ranks = 1; ranks <= 64; ranks++) {
        double chunk = bytes / ranks;
        double sent = 0;

        for (int step = 0; step < ranks - 1; step++)
            sent += chunk;
        ck_assert_double_eq_tol(lk_coll_wire_bytes(LK_REDUCE_SCATTER, bytes, ranks), sent, 1e-6);
        ck_assert_double_eq_tol(lk_coll_wire_bytes(LK_ALL_GATHER, bytes, ranks), sent, 1e-6);
        ck_assert_double_eq_tol(lk_coll_wire_bytes(LK_ALL_REDUCE, bytes, ranks), 2 * sent, 1e-6);
        ck_assert_double_eq(lk_coll_wire_bytes(LK_BROADCAST, bytes, ranks), ranks > 1 ? bytes : 0);
        ck_assert_double_eq(lk_coll_wire_bytes(LK_BARRIER, bytes, ranks), 0);
    }
}
END_TEST

START_TEST(more_ranks_never_send_less)
{
    for (int c = 0; c < LK_COLL_COUNT; c++)
        for (int ranks = 1; ranks < 4096; ranks++)
            ck_assert_double_ge(lk_coll_wire_bytes((enum lk_coll)c, 1e6, ranks + 1),
                                lk_coll_wire_bytes((enum lk_coll)c, 1e6, ranks));
}
END_TEST

SUITE(coll, c)
{
    tcase_add_test(c, names);
    tcase_add_loop_test(c, busbw_factor, 0, (int)LK_COUNT(factors));
    tcase_add_test(c, ring_by_steps);
    tcase_add_test(c, more_ranks_never_send_less);
}
