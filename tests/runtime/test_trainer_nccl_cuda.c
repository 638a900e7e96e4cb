/*
 * DDP on several GPUs, without any: the trainer over the fake NCCL (tests/fakes/fake_nccl.h), each
 * rank a process, compared with one rank in double precision by its own --verify.
 */
#include "runtime/comm/calls_nccl_cuda.h"

#include "tests/rigs/suite.h"

#ifdef LK_NCCL_BUILT

#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/waits.h"

#include <string.h>

enum { STEPS = 4, IMAGES = 8 };

static const uint64_t timeout_ns = WAIT_PLENTY_NS;

static char *locks;

static void setup(void)
{
    locks = scratch_create_for_gpus();
    fake_nccl_create();
}

static void teardown(void)
{
    fake_nccl_destroy();
    scratch_remove(locks);
}

static const struct shape {
    int ranks, accumulation;
    bool no_sync, registers;
    enum lk_dtype real;
    enum lk_plant plant;
    const char *fault, *says; /* says: the error of all remaining ranks; NULL: success */
    bool images;              /* a small resnet with SyncBatchNorm, not a transformer */
    enum lk_sharding sharding;
    int group;
    enum lk_compression compression;
} shapes[] = {
    {.ranks = 2, .accumulation = 1, .no_sync = true},
    {.ranks = 2, .accumulation = 2, .registers = true},
    {.ranks = 3, .accumulation = 2, .no_sync = true, .real = LK_BF16},
    {.ranks = 4, .accumulation = 1, .no_sync = true, .registers = true},
    {.ranks = 2, .accumulation = 1, .no_sync = true, .fault = "delay:time=1ms"},
    {.ranks = 2,
     .accumulation = 1,
     .no_sync = true,
     .plant = LK_PLANT_DROPPED_BUCKET,
     .says = "dropped-bucket"},
    {.ranks = 2,
     .accumulation = 1,
     .no_sync = true,
     .fault = "kill:call=60,rank=1",
     .says = "rank 1 was killed by signal 9"},
    {.ranks = 3,
     .accumulation = 1,
     .no_sync = true,
     .fault = "fail:call=60,rank=1",
     .says = "a planted failure"},
    [IMAGES] = {.ranks = 2, .accumulation = 2, .no_sync = true, .images = true},
    {.ranks = 2, .accumulation = 1, .no_sync = true, .compression = LK_COMPRESSION_POWERSGD},
    {.ranks = 2, .accumulation = 1, .no_sync = true, .compression = LK_COMPRESSION_BF16},
    {.ranks = 3, .accumulation = 2, .no_sync = true, .real = LK_F16},
    {.ranks = 2, .accumulation = 1, .no_sync = true, .real = LK_F16, .plant = LK_PLANT_OVERFLOW},
    {.ranks = 2, .accumulation = 1, .no_sync = true, .sharding = LK_SHARDING_DILOCO},
    {.ranks = 2, .accumulation = 2, .no_sync = true, .sharding = LK_SHARDING_ZERO1},
    {.ranks = 3, .accumulation = 1, .no_sync = true, .sharding = LK_SHARDING_ZERO3},
    {.ranks = 3, .accumulation = 2, .real = LK_F16, .sharding = LK_SHARDING_ZERO3},
    {.ranks = 2, .accumulation = 2, .sharding = LK_SHARDING_ZERO2},
    {.ranks = 4, .accumulation = 2, .sharding = LK_SHARDING_HSDP, .group = 2},
    {.ranks = 4,
     .accumulation = 1,
     .sharding = LK_SHARDING_HSDP,
     .group = 2,
     .fault = "kill:call=60,rank=1",
     .says = "rank 1 was killed by signal 9"},
};

static struct lk_train_config config(const struct rank *me, const struct shape *s,
                                     struct lk_store *store)
{
    struct lk_train_config c = small_train("cuda", STEPS);

    c.comm = "nccl";
    /* No bound of one step is known, or no global batch is a step's. */
    c.verify = s->compression != LK_COMPRESSION_POWERSGD && s->sharding != LK_SHARDING_DILOCO;
    c.graph = LK_GRAPH_NO;
    for (int i = 0; i < LK_FUSE_COUNT; i++)
        c.fuse.wish[i] = LK_FUSE_AUTO;
    c.device_config.share_gpu = true;
    c.device_config.real = s->real;
    c.scaler = (struct lk_scaler_config){LK_LOSS_SCALE_AUTO, 1024, STEPS};
    c.device_config.cuda_calls = &fake_cuda_calls;
    c.comm_config = (struct lk_comm_config){.rank = me->rank,
                                            .world_size = me->world_size,
                                            .store = store,
                                            .fault = s->fault,
                                            .nccl = {.register_buffers = s->registers},
                                            .nccl_calls = &fake_nccl_calls};
    c.model.seed = 5; /* the loss falls in these few steps */
    c.reducer.accumulation = s->accumulation;
    c.reducer.no_sync = s->no_sync;
    c.reducer.plant = s->plant;
    c.reducer.sharding = s->sharding;
    c.reducer.shard_group = s->group;
    c.averaging = (struct lk_averaging_config){
        .scheme = s->sharding, .period = 2, .outer_rate = 0.7, .outer_momentum = 0.9};
    c.hook = (struct lk_hook_config){.compression = s->compression,
                                     .powersgd_rank = 2,
                                     .powersgd_start = 2,
                                     .powersgd_min_rate = 1,
                                     .timeout_ns = c.timeout_ns};
    if (s->images)
        c.model = (struct lk_model_config){.name = "resnet-small",
                                           .channels = 4,
                                           .image = 8,
                                           .vocab = 3,
                                           .sync_batch_norm = true,
                                           .seed = 5};
    return c;
}

static void start(const struct rank *me, uint64_t seed)
{
    fake_cuda_reset(1);
    fake_cuda.host_threads = true;
    fake_cuda.seed = seed + (uint64_t)me->rank;
    fake_nccl.in_progress = 2;
}

static enum lk_status check_clean(bool aborted)
{
    if (fake_cuda.events_alive || fake_cuda.streams_alive || fake_cuda.allocated ||
        fake_nccl.memory_alive || fake_nccl.comms_alive)
        return lk_fail(LK_EVERIFY, "something is left");
    if ((fake_nccl.aborted > 0) != aborted || (fake_nccl.registered && !aborted))
        return lk_fail(LK_EVERIFY, "%d aborts, %d registrations", fake_nccl.aborted,
                       fake_nccl.registered);
    return LK_OK;
}

static enum lk_status train(struct rank *me)
{
    const struct shape *s = me->ctx;
    struct lk_train_result result = {.n = 0};
    struct lk_train_config c;
    struct lk_store *store = NULL;
    enum lk_status st = LK_OK, end;
    char text[1024];

    start(me, 7);
    LK_TRY(rank_connect(me, &store));
    c = config(me, s, store);
    LK_TRY(lk_train(&c, &result));
    if (!(result.loss[STEPS - 1] < result.loss[0]))
        st = lk_fail(LK_EVERIFY, "losses from %g to %g", result.loss[0], result.loss[STEPS - 1]);
    if (result.overflown != (s->plant == LK_PLANT_OVERFLOW))
        st = lk_fail(LK_EVERIFY, "%d steps were skipped", (int)result.overflown);
out:
    snprintf(text, sizeof text, "%s", lk_error_text());
    lk_train_result_fini(&result);
    lk_store_close(store);
    end = check_clean(st != LK_OK);
    if (end != LK_OK || st == LK_OK)
        return end;
    return lk_fail(st, "%s", text);
}

START_TEST(ranks_agree_with_one)
{
    struct shape s = shapes[_i];
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(s.ranks, timeout_ns, train, &s, 1, NULL, ranks);
    for (int r = 0; r < s.ranks; r++) {
        if (!s.says)
            ck_assert_msg(ranks[r].status == LK_OK && !ranks[r].wait_status, "rank %d: %s", r,
                          ranks[r].text);
        else
            ck_assert_msg(ranks[r].wait_status || strstr(ranks[r].text, s.says), "rank %d: %s", r,
                          ranks[r].text);
    }
}
END_TEST

/* Run twice, launch by launch and as a graph. */
static enum lk_status train_twice(struct rank *me)
{
    const struct shape *s = me->ctx;
    struct lk_train_result results[2] = {{.n = 0}, {.n = 0}};
    struct lk_store *store = NULL;
    struct lk_train_config c;
    enum lk_status st = LK_OK;

    start(me, 0);
    fake_cuda.seed = 0;
    LK_TRY(rank_connect(me, &store));
    c = config(me, s, store);
    c.verify = false;
    c.steps = 8;
    for (int i = 0; i < LK_FUSE_OPTIMIZER; i++) /* by name: not by time, which may differ */
        c.fuse.wish[i] = s->images ? LK_FUSE_NO : LK_FUSE_YES;
    LK_TRY(lk_train(&c, &results[0]));
    c.graph = LK_GRAPH_YES;
    LK_TRY(lk_train(&c, &results[1]));
    for (int64_t i = 0; i < results[0].n; i++)
        if (results[0].loss[i] != results[1].loss[i])
            st = lk_fail(LK_EVERIFY, "step %d: %.9g, as a graph %.9g", (int)i, results[0].loss[i],
                         results[1].loss[i]);
    if (st == LK_OK && !fake_cuda.graph_launches)
        st = lk_fail(LK_EVERIFY, "no graph was launched");
out:
    lk_train_result_fini(&results[0]);
    lk_train_result_fini(&results[1]);
    lk_store_close(store);
    return st == LK_OK ? check_clean(false) : st;
}

START_TEST(a_graph_gives_the_same_losses)
{
    struct shape s = shapes[_i];
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(s.ranks, timeout_ns, train_twice, &s, 1, NULL, ranks);
    for (int r = 0; r < s.ranks; r++)
        ck_assert_msg(ranks[r].status == LK_OK && !ranks[r].wait_status, "rank %d: %s", r,
                      ranks[r].text);
}
END_TEST

static void add_tests(TCase *c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, ranks_agree_with_one, 0, (int)(sizeof shapes / sizeof *shapes));
    tcase_add_loop_test(c, a_graph_gives_the_same_losses, 0, 2);
    tcase_add_loop_test(c, a_graph_gives_the_same_losses, IMAGES, IMAGES + 1);
}

#else

static void add_tests(TCase *c)
{
    (void)c;
}

#endif

SUITE(trainer_nccl_cuda, c)
{
    add_tests(c);
}
