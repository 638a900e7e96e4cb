/*
 * Networks of images whose ranks train together: --verify holds their gradients against the float64
 * reference with the statistics of each rank's own samples and of all ranks', and the losses tell
 * which of them was used. The suite `matrix` compares ranks with one rank.
 */
#include "base/array.h"
#include "base/file.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, GLOBAL = 24 };

static const struct lk_model_config resnet = {.name = "resnet-small",
                                              .channels = 4,
                                              .image = 8,
                                              .vocab = 4,
                                              .sync_batch_norm = true,
                                              .seed = 3};

struct together {
    int accumulation;
    bool sync_every, verify, apart; /* apart: without SyncBatchNorm */
    struct lk_train_result results[RANKS_MAX];
};

static struct lk_train_config config(const struct together *t, int ranks)
{
    struct lk_train_config c = small_train("cpu", STEPS);

    c.comm = ranks == 1 ? "self" : "tcp";
    c.comm_config.world_size = ranks;
    c.model = resnet;
    c.model.sync_batch_norm &= !t->apart;
    c.samples = 4 * GLOBAL;
    c.local_batch = GLOBAL / ranks / t->accumulation;
    c.reducer.accumulation = t->accumulation;
    c.reducer.no_sync = !t->sync_every;
    c.optim =
        (struct lk_optim_config){.kind = LK_OPTIM_SGD, .learning_rate = 0.05, .momentum = 0.9};
    c.broadcast_buffers = true;
    c.verify = t->verify;
    return c;
}

static enum lk_status train_rank(struct rank *me)
{
    struct together *t = me->ctx;
    struct lk_train_config c = config(t, me->world_size);
    enum lk_status st = LK_OK;

    c.comm_config.rank = me->rank;
    LK_TRY(rank_connect(me, &c.comm_config.store));
    st = lk_train(&c, &t->results[me->rank]);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

static void run(struct together *t, int n)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(n, WAIT_PLENTY_NS, train_rank, t, ranks);
    for (int r = 0; r < n; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}

static void free_results(struct together *t, int n)
{
    for (int r = 0; r < n; r++)
        lk_train_result_fini(&t->results[r]);
}

/* --verify of a network of images: statistics of each rank's own samples, and of all ranks'. */
static const struct {
    int ranks, accumulation;
    bool apart, sync_every;
} verified[] = {{1, 1, true, false}, {2, 1, true, false},  {3, 2, true, false},
                {2, 2, true, true},  {2, 1, false, false}, {3, 2, false, false}};

START_TEST(every_step_is_verified)
{
    struct together t = {.accumulation = verified[_i].accumulation,
                         .apart = verified[_i].apart,
                         .sync_every = verified[_i].sync_every,
                         .verify = true};

    run(&t, verified[_i].ranks);
    for (int r = 0; r < verified[_i].ranks; r++) {
        ck_assert_double_le(t.results[r].verify_max_error, t.results[r].verify_allowed);
        ck_assert_double_lt(t.results[r].verify_allowed, 0.05);
    }
    free_results(&t, verified[_i].ranks);
}
END_TEST

/* Without SyncBatchNorm ranks are not one rank: which the losses tell. */
START_TEST(statistics_of_ranks_differ)
{
    struct together t = {.accumulation = 1, .apart = true};
    struct together alone = {.accumulation = 1};

    run(&alone, 1);
    run(&t, 4);
    ck_assert_double_gt(fabs(t.results[0].loss[0] - alone.results[0].loss[0]), 1e-3);
    free_results(&t, 4);
    free_results(&alone, 1);
}
END_TEST

SUITE(equivalence, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, every_step_is_verified, 0, LK_COUNT(verified));
    tcase_add_test(c, statistics_of_ranks_differ);
}
