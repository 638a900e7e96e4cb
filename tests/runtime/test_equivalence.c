/*
 * Ranks that train together are one rank that trains on their samples: models x ranks x
 * accumulation, each with the losses and the weights of one rank on the global batch.
 *
 * Sums in another order differ by roundings, 1e-7 of a gradient, which steps multiply; a network
 * with batch norms multiplies them more, because it divides by the deviations of few values.
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

static const struct {
    struct lk_model_config model;
    bool joint; /* ranks share statistics of a micro-batch, so that it has to be the same */
    double tolerance;
} models[] = {
    {{.name = "gpt", .layers = 1, .heads = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 3},
     false,
     1e-5},
    {{.name = "mlp", .layers = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 3},
     false,
     1e-5},
    {{.name = "resnet-small",
      .channels = 4,
      .image = 8,
      .vocab = 4,
      .sync_batch_norm = true,
      .seed = 3},
     true,
     5e-3}, /* a relu may turn by a rounding */
};
static const int all_ranks[] = {1, 2, 3, 4}, accumulations[] = {1, 2};
enum { CASES = LK_COUNT(models) * LK_COUNT(all_ranks) * LK_COUNT(accumulations) };

struct together {
    size_t model;
    int accumulation;
    bool sync_every, verify, apart; /* apart: without SyncBatchNorm */
    const char *path;               /* of the weights */
    struct lk_train_result results[RANKS_MAX];
};

static struct lk_train_config config(const struct together *t, int ranks)
{
    struct lk_train_config c = small_train("cpu", STEPS);

    c.comm = ranks == 1 ? "self" : "tcp";
    c.comm_config.world_size = ranks;
    c.model = models[t->model].model;
    c.model.sync_batch_norm &= !t->apart;
    c.samples = 4 * GLOBAL;
    c.local_batch = GLOBAL / ranks / t->accumulation;
    c.reducer.accumulation = t->accumulation;
    c.reducer.no_sync = !t->sync_every;
    c.optim =
        (struct lk_optim_config){.kind = LK_OPTIM_SGD, .learning_rate = 0.05, .momentum = 0.9};
    c.broadcast_buffers = true;
    c.verify = t->verify;
    c.export_path = t->path;
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

/* Compare two files of weights, in which parameters and buffers follow a line of text. */
static void check_weights(const char *a, const char *b, double tolerance)
{
    char *text[2] = {NULL, NULL};
    size_t size[2], head;

    ck_assert_int_eq(lk_file_read_max(a, SIZE_MAX, &text[0], &size[0]), LK_OK);
    ck_assert_int_eq(lk_file_read_max(b, SIZE_MAX, &text[1], &size[1]), LK_OK);
    ck_assert_uint_eq(size[0], size[1]);
    head = (size_t)((char *)memchr(text[0], '\n', size[0]) - text[0]) + 1;
    ck_assert_mem_eq(text[0], text[1], head);
    for (size_t at = head; at < size[0]; at += sizeof(float)) {
        float x, y;

        memcpy(&x, text[0] + at, sizeof x);
        memcpy(&y, text[1] + at, sizeof y);
        ck_assert_msg(fabs((double)x - (double)y) <= tolerance, "byte %zu: %g and %g", at,
                      (double)x, (double)y);
    }
    free(text[0]);
    free(text[1]);
}

START_TEST(ranks_are_one_rank)
{
    size_t model = (size_t)_i % LK_COUNT(models), rest = (size_t)_i / LK_COUNT(models);
    int ranks = all_ranks[rest % LK_COUNT(all_ranks)];
    char *own = scratch_path(scratch_dir, "own"), *one = scratch_path(scratch_dir, "one");
    struct together t = {
        .model = model, .accumulation = accumulations[rest / LK_COUNT(all_ranks)], .path = own};
    struct together alone = {
        .model = model, .accumulation = models[model].joint ? t.accumulation : 1, .path = one};

    run(&alone, 1);
    run(&t, ranks);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_eq_tol(t.results[0].loss[i], alone.results[0].loss[i],
                                models[model].tolerance);
    ck_assert_double_lt(alone.results[0].loss[STEPS - 1], alone.results[0].loss[0]);
    check_weights(own, one, models[model].tolerance);
    free_results(&t, ranks);
    free_results(&alone, 1);
    free(own);
    free(one);
}
END_TEST

/* --verify of a network of images: statistics of each rank's own samples, and of all ranks'. */
static const struct {
    int ranks, accumulation;
    bool apart, sync_every;
} verified[] = {{1, 1, true, false}, {2, 1, true, false},  {3, 2, true, false},
                {2, 2, true, true},  {2, 1, false, false}, {3, 2, false, false}};

START_TEST(every_step_is_verified)
{
    struct together t = {.model = LK_COUNT(models) - 1,
                         .accumulation = verified[_i].accumulation,
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

/* Without SyncBatchNorm ranks are not one rank: the test above can tell. */
START_TEST(statistics_of_ranks_differ)
{
    struct together t = {.model = LK_COUNT(models) - 1, .accumulation = 1, .apart = true};
    struct together alone = {.model = LK_COUNT(models) - 1, .accumulation = 1};

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
    tcase_add_loop_test(c, ranks_are_one_rank, 0, CASES);
    tcase_add_loop_test(c, every_step_is_verified, 0, LK_COUNT(verified));
    tcase_add_test(c, statistics_of_ranks_differ);
}
