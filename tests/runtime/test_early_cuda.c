/*
 * Early updates on the fake machine (tests/fakes/fake_cuda.h), whose streams and graphs run in any
 * order that waits and edges allow: exact weights, and those rounded to bfloat16, are bit for bit
 * those of updates behind backward.
 */
#include "base/array.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, SEEDS = 6 };

static char *directory;

static void setup(void)
{
    directory = scratch_create_for_gpus();
    fake_cuda_reset(1);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(directory);
}

static const struct setting {
    const char *model;
    enum lk_dtype real;
    int accumulation, noise_every;
    bool no_sync;
    uint64_t cap_bytes;
    enum lk_optim_kind optim;
    enum lk_train_graph graph;
} settings[] = {
    {"gpt", LK_F32, 1, 0, true, 2048, LK_OPTIM_ADAMW, LK_GRAPH_NO},
    {"gpt", LK_BF16, 2, 1, true, 1, LK_OPTIM_ADAMW, LK_GRAPH_NO},
    {"gpt", LK_BF16, 1, 0, true, 2048, LK_OPTIM_ADAMW, LK_GRAPH_YES},
    {"gpt", LK_F32, 2, 3, false, 1, LK_OPTIM_SGD, LK_GRAPH_YES},
    {"mlp", LK_F32, 2, 0, false, 1, LK_OPTIM_ADAMW, LK_GRAPH_YES},
    {"mlp", LK_BF16, 1, 2, true, 1024, LK_OPTIM_SGD, LK_GRAPH_NO},
};

/* Train; return the file of the weights, a name in the directory. */
static void train(const struct setting *s, enum lk_fuse_wish early, const char *name,
                  struct lk_train_result *out)
{
    struct lk_train_config c = small_train("cuda", STEPS);
    char *path = scratch_path(directory, name);

    c.device_config.cuda_calls = &fake_cuda_calls;
    c.device_config.real = s->real;
    c.graph = s->graph;
    c.fuse.wish[LK_FUSE_OPTIMIZER] = early;
    c.export_path = path;
    c.model = (struct lk_model_config){
        .name = s->model, .layers = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 7};
    c.model.heads = strcmp(s->model, "gpt") ? 0 : 2;
    c.optim.kind = s->optim;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = 0.1;
    c.optim.warmup_steps = 3;
    c.reducer.first_bytes = c.reducer.cap_bytes = s->cap_bytes;
    c.reducer.accumulation = s->accumulation;
    c.reducer.no_sync = s->no_sync;
    c.reducer.noise_every = s->noise_every;
    must(lk_train(&c, out));
    free(path);
}

START_TEST(weights_are_the_same_in_any_order)
{
    const struct setting *s = &settings[_i / SEEDS];
    struct lk_train_result early, behind;

    train(s, LK_FUSE_NO, "behind", &behind);
    fake_cuda_check_clean();
    fake_cuda_reset(1);
    fake_cuda.seed = (uint64_t)(_i % SEEDS);
    train(s, LK_FUSE_YES, "early", &early);
    ck_assert_mem_eq(early.loss, behind.loss, STEPS * sizeof(double));
    ck_assert_double_ne(early.loss[0], early.loss[STEPS - 1]);
    scratch_same(directory, "early", "behind");
    lk_train_result_fini(&early);
    lk_train_result_fini(&behind);
}
END_TEST

/* ---- What it adds to a step ---- */

static struct {
    int ops, updates, records, waits;
} count;

static enum lk_status count_op(const struct lk_op *op, const void *args, const struct lk_cuda *cuda)
{
    count.ops++;
    count.updates += op == &lk_op_adamw;
    return fake_cuda_calls.run_op(op, args, cuda);
}

static cudaError_t count_record(cudaEvent_t e, cudaStream_t s)
{
    count.records++;
    return fake_cuda_calls.EventRecord(e, s);
}

static cudaError_t count_wait(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    count.waits++;
    return fake_cuda_calls.StreamWaitEvent(s, e, flags);
}

static enum lk_status start_last_step(void *ctx, int64_t step, double loss)
{
    (void)ctx;
    (void)loss;
    if (step == STEPS - 2)
        memset(&count, 0, sizeof count);
    return LK_OK;
}

START_TEST(every_bucket_adds_a_launch_and_two_events)
{
    struct lk_cuda_calls calls = fake_cuda_calls;
    int ops = 0, updates = 0, records = 0, waits = 0;

    calls.run_op = count_op;
    calls.EventRecord = count_record;
    calls.StreamWaitEvent = count_wait;
    for (int early = 0; early < 2; early++) {
        struct lk_train_config c = small_train("cuda", STEPS);
        struct lk_train_result result;

        c.device_config.cuda_calls = &calls;
        c.prefetch = 0;
        c.progress = start_last_step;
        c.model = (struct lk_model_config){
            .name = "mlp", .layers = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 7};
        c.reducer.first_bytes = c.reducer.cap_bytes = 1; /* a bucket a parameter */
        c.fuse.wish[LK_FUSE_OPTIMIZER] = early ? LK_FUSE_YES : LK_FUSE_NO;
        must(lk_train(&c, &result));
        lk_train_result_fini(&result);
        if (early)
            continue;
        ops = count.ops;
        updates = count.updates;
        records = count.records;
        waits = count.waits;
    }
    ck_assert_int_eq(updates, 1);
    ck_assert_int_eq(count.updates, 6);
    ck_assert_int_eq(count.ops, ops + 5);
    /* Of 6 buckets two, the later layers' weights, are released late; one more for the end. */
    ck_assert_int_eq(count.records, records + 6 + 2 + 1);
    ck_assert_int_eq(count.waits, waits + 6 + 2 + 1);
}
END_TEST

SUITE(early_cuda, tc)
{
    tcase_add_test(tc, every_bucket_adds_a_launch_and_two_events);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, weights_are_the_same_in_any_order, 0, SEEDS * LK_COUNT(settings));
}
