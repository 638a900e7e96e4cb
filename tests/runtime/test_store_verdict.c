/* Verdicts of the store: who is to blame for a stall, and how ranks are named. */
#include "runtime/rendezvous/rank_names.h"
#include "runtime/rendezvous/store_server_impl.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

#include <string.h>

static const struct {
    struct lk_rank_view ranks[4];
    const char *text;
} stalls[] = {
    {{{LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 0, 0, 0},
      {LK_RANK_HERE, 1, 0, 5}},
     "rank 2 did not answer: stopped, or busy outside of collectives; others are in collective 4"},
    {{{LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_LEFT, 0, 0, 0},
      {LK_RANK_HERE, 0, 0, 0},
      {LK_RANK_HERE, 1, 0, 5}},
     "rank 1 left the run before the others"},
    {{{LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 0, 4},
      {LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 0, 4}},
     "ranks 1 and 3 fell behind: did not enter collective 4, others are in 4"},
    {{{LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 1, 4},
      {LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 1, 5}},
     "rank 1 fell behind: still in collective 3, others are in 4"},
    {{{LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 1, 5},
      {LK_RANK_HERE, 1, 1, 5}},
     "no rank is behind in collective 4: its data do not arrive"},
};

START_TEST(a_stall_names_its_culprit)
{
    char text[256];

    lk_verdict_stall(stalls[_i].ranks, 4, text, sizeof text);
    ck_assert_str_eq(text, stalls[_i].text);
}
END_TEST

static bool is_bit(const void *ctx, int rank)
{
    return (*(const unsigned *)ctx >> rank & 1) != 0;
}

START_TEST(names_of_ranks)
{
    static const struct {
        unsigned bits;
        const char *text;
    } rows[] = {
        {1, "rank 0"},
        {3, "ranks 0 and 1"},
        {0xD, "ranks 0, 2 and 3"},
        {0xFF, "ranks 0 to 7"},
        {0xF7, "ranks 0 to 2 and 4 to 7"},
        {0x95, "ranks 0, 2, 4 and 7"},
    };
    char text[64], few[8];

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        lk_rank_names(is_bit, &rows[i].bits, 8, text, sizeof text);
        ck_assert_str_eq(text, rows[i].text);
        lk_rank_names(is_bit, &rows[i].bits, 8, few, sizeof few); /* cut, not overrun */
        ck_assert_int_eq(strncmp(few, rows[i].text, sizeof few - 1), 0);
    }
}
END_TEST

SUITE(store_verdict, c)
{
    tcase_add_loop_test(c, a_stall_names_its_culprit, 0, LK_COUNT(stalls));
    tcase_add_test(c, names_of_ranks);
}
