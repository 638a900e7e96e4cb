/* Collectives: names, and byte formulas against a step-by-step ring. */
#include "base/array.h"
#include "facts/coll.h"
#include "tests/rigs/suite.h"

#include <string.h>

START_TEST(names)
{
    enum lk_coll c;
    enum lk_algo a;

    for (int i = 0; i < LK_COLL_MODELLED; i++) {
        ck_assert_int_eq(lk_words_find(&lk_modelled_coll_words, lk_coll_name((enum lk_coll)i), &c),
                         LK_OK);
        ck_assert_int_eq((int)c, i);
    }
    for (int i = 0; i < LK_ALGO_COUNT; i++) {
        ck_assert_int_eq(lk_words_find(&lk_algo_words, lk_algo_name((enum lk_algo)i), &a), LK_OK);
        ck_assert_int_eq((int)a, i);
    }
    ck_assert_str_eq(lk_coll_kineto_name(LK_ALL_REDUCE), "allreduce");
    ck_assert_int_eq(lk_words_find(&lk_modelled_coll_words, "allreduce", &c), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "'allreduce' is not a collective (known: all_reduce "
                                      "reduce_scatter all_gather broadcast barrier)");
    ck_assert_int_eq(lk_words_find(&lk_algo_words, "", &a), LK_EPARSE);
}
END_TEST

/* Spellings of PyTorch's backends, Kineto, Flight Recorder, NCCL, nccl-tests and MPI. */
static const struct {
    const char *name;
    enum lk_coll coll;
} spellings[] = {
    {"AllReduce", LK_ALL_REDUCE},
    {"allreduce_coalesced", LK_ALL_REDUCE},
    {"ALLREDUCE", LK_ALL_REDUCE},
    {"all_reduce_barrier", LK_BARRIER},
    {"_allgather_base", LK_ALL_GATHER},
    {"_all_gather_base", LK_ALL_GATHER},
    {"allgather", LK_ALL_GATHER},
    {"all_gather_into_tensor_coalesced", LK_ALL_GATHER},
    {"_reduce_scatter_base", LK_REDUCE_SCATTER},
    {"reduce_scatter_block", LK_REDUCE_SCATTER},
    {"_broadcast_oop", LK_BROADCAST},
    {"_reduce_oop", LK_REDUCE},
    {"AlltoAll", LK_ALL_TO_ALL},
    {"all_to_allv", LK_ALL_TO_ALL},
    {"sendrecv", LK_SEND_RECV},
};

START_TEST(spellings_name_their_collective)
{
    ck_assert(lk_coll_is(spellings[_i].name, spellings[_i].coll));
    ck_assert(!lk_coll_is(spellings[_i].name, (spellings[_i].coll + 1) % LK_COLL_COUNT));
}
END_TEST

START_TEST(other_names_are_none)
{
    static const char *const others[] = {
        "",    "_",         "allreduced",
        "all", "hypercube", "a_name_that_is_longer_than_any_of_those_of_collectives"};
    enum lk_coll c = LK_SEND;

    for (size_t i = 0; i < LK_COUNT(others); i++)
        ck_assert(!lk_coll_find(others[i], strlen(others[i]), &c));
    ck_assert_int_eq(c, LK_SEND);
    ck_assert(lk_coll_find("all_reduce_of_more", strlen("all_reduce"), &c));
    ck_assert_int_eq(c, LK_ALL_REDUCE);
}
END_TEST

/* Every number of Chakra's is a collective's; a collective that has none is none of its. */
START_TEST(numbers_of_chakra)
{
    enum lk_coll c;

    for (int number = 0; number <= 9; number++) {
        ck_assert(lk_coll_of_chakra(number, &c));
        ck_assert(lk_coll_chakra(c) == number || number == 8); /* 8: reduce_scatter_block */
    }
    ck_assert(!lk_coll_of_chakra(-1, &c));
    ck_assert(!lk_coll_of_chakra(10, &c));
    ck_assert_int_eq(lk_coll_chakra(LK_SEND_RECV), -1);
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
    for (int c = 0; c < LK_COLL_MODELLED; c++)
        for (int ranks = 1; ranks < 4096; ranks++)
            ck_assert_double_ge(lk_coll_wire_bytes((enum lk_coll)c, 1e6, ranks + 1),
                                lk_coll_wire_bytes((enum lk_coll)c, 1e6, ranks));
}
END_TEST

SUITE(coll, c)
{
    tcase_add_test(c, names);
    tcase_add_loop_test(c, spellings_name_their_collective, 0, (int)LK_COUNT(spellings));
    tcase_add_test(c, other_names_are_none);
    tcase_add_test(c, numbers_of_chakra);
    tcase_add_loop_test(c, busbw_factor, 0, (int)LK_COUNT(factors));
    tcase_add_test(c, ring_by_steps);
    tcase_add_test(c, more_ranks_never_send_less);
}
