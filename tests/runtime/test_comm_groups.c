/* Collectives of a part of the ranks: what they add up and gather, and who may call them. */
#include "runtime/comm/comm.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <string.h>

static const struct {
    int ranks, n, stride; /* the group of rank 0 is 0, stride, ..., n of them */
} groups[] = {{4, 2, 1}, {4, 2, 2}, {6, 3, 1}, {6, 3, 2}, {6, 2, 3}, {3, 1, 1}, {4, 4, 1}};
enum { GROUP_ELEMS = 5 };

/* Element i of a rank's part for the member `at` of its group. */
static float group_value(int rank, int at, int i)
{
    return (float)(rank * 100 + at * 10 + i);
}

static enum lk_status check_groups(struct lk_comm *c, const struct lk_rank_group *g)
{
    float x[8 * GROUP_ELEMS];
    struct lk_coll_call call = {.coll = LK_REDUCE_SCATTER,
                                .dtype = LK_F32,
                                .buf = x,
                                .count = GROUP_ELEMS,
                                .group = *g,
                                .index = -1};
    int rank = lk_comm_rank(c), own = (rank - g->first) / g->stride;
    float sum, *part = x + own * GROUP_ELEMS;

    for (int i = 0; i < g->n * GROUP_ELEMS; i++)
        x[i] = group_value(rank, i / GROUP_ELEMS, i % GROUP_ELEMS);
    LK_PASS(lk_comm_run(c, &call));
    for (int i = 0; i < GROUP_ELEMS; i++) {
        sum = 0;
        for (int k = 0; k < g->n; k++)
            sum += group_value(g->first + k * g->stride, own, i);
        if (part[i] < sum || part[i] > sum)
            return lk_fail(LK_EVERIFY, "reduce-scatter: %g, not %g", (double)part[i], (double)sum);
        part[i] = group_value(rank, 0, i);
    }
    call.coll = LK_ALL_GATHER;
    LK_PASS(lk_comm_run(c, &call));
    for (int i = 0; i < g->n * GROUP_ELEMS; i++) {
        float want = group_value(g->first + i / GROUP_ELEMS * g->stride, 0, i % GROUP_ELEMS);

        if (x[i] < want || x[i] > want)
            return lk_fail(LK_EVERIFY, "all-gather: %g, not %g", (double)x[i], (double)want);
    }
    call.coll = LK_ALL_REDUCE;
    x[0] = (float)rank;
    call.count = 1;
    LK_PASS(lk_comm_run(c, &call));
    sum = 0;
    for (int k = 0; k < g->n; k++)
        sum += (float)(g->first + k * g->stride);
    return x[0] < sum || x[0] > sum
               ? lk_fail(LK_EVERIFY, "all-reduce: %g, not %g", (double)x[0], (double)sum)
               : LK_OK;
}

static enum lk_status run_groups(struct rank *me)
{
    const int *row = me->ctx;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    struct lk_rank_group g = {.stride = groups[*row].stride, .n = groups[*row].n};
    enum lk_status st = LK_OK;
    float x = 1;

    /* Groups of neighbours lie behind each other, strided ones in each other. */
    g.first = g.stride == 1 ? me->rank / g.n * g.n : me->rank % g.stride;
    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    for (int i = 0; i < 3; i++) {
        LK_TRY(check_groups(c, &g));
        LK_TRY(lk_comm_barrier(c));
        LK_TRY(lk_comm_run(
            c, &(struct lk_coll_call){
                   .coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = &x, .count = 1, .index = -1}));
    }
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

/* Collectives of groups add up and gather their members' parts alone, between those of all. */
START_TEST(groups_of_ranks)
{
    struct rank ranks[RANKS_MAX];
    int row = _i;

    ranks_run_threads(groups[_i].ranks, WAIT_PLENTY_NS, run_groups, &row, ranks);
    for (int r = 0; r < groups[_i].ranks; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}
END_TEST

static enum lk_status call_outside_of_group(struct rank *me)
{
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    float x = 1;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    st = lk_comm_run(c, &(struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                               .dtype = LK_F32,
                                               .buf = &x,
                                               .count = 1,
                                               .group = {me->rank ? 0 : 1, 1, 1},
                                               .index = -1});
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(a_rank_outside_of_its_group_is_told)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(2, WAIT_PLENTY_NS, call_outside_of_group, NULL, ranks);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(strstr(ranks[r].text, "is in no group of 1"), "%s", ranks[r].text);
}
END_TEST

SUITE(comm_groups, c)
{
    tcase_add_loop_test(c, groups_of_ranks, 0, (int)(sizeof groups / sizeof *groups));
    tcase_add_test(c, a_rank_outside_of_its_group_is_told);
}
