/* --verify on the models of the program, trained over tcp: the whole path of DDP. */
#include "base/array.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <string.h>

static const uint64_t timeout_ns = WAIT_PLENTY_NS;

struct setting {
    const char *model;
    int ranks, accumulation;
    bool no_sync;
    enum lk_ddp_rule rule;
    uint64_t cap_bytes;
    enum lk_plant plant;
    enum lk_compression hook;
    double clip_norm;
};

struct outcome {
    const struct setting *setting;
    double max_error[RANKS_MAX];
};

enum { LOCAL_BATCH = 2, CONTEXT = 8 };

static enum lk_status train(struct rank *me)
{
    struct outcome *outcome = me->ctx;
    const struct setting *s = outcome->setting;
    struct lk_store *store = NULL;
    struct lk_train_result result = {0};
    struct lk_train_config c = {.device = "cpu",
                                .comm = s->ranks == 1 ? "self" : "tcp",
                                .local_batch = LOCAL_BATCH,
                                .steps = 3,
                                .samples = 64, /* on many ranks an epoch ends within the run */
                                .sampler = {.shuffle = true, .uneven = LK_UNEVEN_DROP},
                                .seed = 11,
                                .verify = true,
                                .timeout_ns = timeout_ns};
    enum lk_status st = LK_OK;

    c.model = (struct lk_model_config){
        .name = s->model, .layers = 2, .channels = 16, .context = CONTEXT, .vocab = 32, .seed = 7};
    if (!strcmp(s->model, "gpt"))
        c.model.heads = 2;
    c.optim = (struct lk_optim_config){
        .kind = LK_OPTIM_ADAMW, .learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    c.reducer = (struct lk_reducer_config){.ddp_rule = s->rule,
                                           .first_bytes = s->cap_bytes,
                                           .cap_bytes = s->cap_bytes,
                                           .accumulation = s->accumulation,
                                           .no_sync = s->no_sync,
                                           .plant = s->plant};
    c.hook.compression = s->hook;
    c.clip_norm = s->clip_norm;
    if (s->ranks > 1)
        LK_TRY(rank_connect(me, &store));
    c.comm_config =
        (struct lk_comm_config){.rank = me->rank, .world_size = s->ranks, .store = store};
    LK_TRY(lk_train(&c, &result));
    outcome->max_error[me->rank] = result.verify_max_error;
out:
    lk_train_result_fini(&result);
    lk_store_close(store);
    return st;
}

static const char *const models[] = {"gpt", "mlp"};
static const int worlds[] = {1, 2, 3, 4, 8};
static const int accumulations[] = {1, 4};
static const uint64_t caps[] = {1, 4000, UINT64_MAX};
static const enum lk_ddp_rule rules[] = {LK_DDP_TORCH_1_13, LK_DDP_TORCH_2};

enum {
    COMBINATIONS = LK_COUNT(worlds) * LK_COUNT(accumulations) * LK_COUNT(caps) * LK_COUNT(rules)
};

START_TEST(models_train_as_one_rank_would)
{
    size_t i = (size_t)_i;
    struct setting s = {.model = models[i % LK_COUNT(models)], .no_sync = i / 3 % 2};
    struct outcome outcome = {.setting = &s};
    struct rank ranks[RANKS_MAX];

    s.ranks = worlds[i % LK_COUNT(worlds)];
    i /= LK_COUNT(worlds);
    s.accumulation = accumulations[i % LK_COUNT(accumulations)];
    i /= LK_COUNT(accumulations);
    s.cap_bytes = caps[i % LK_COUNT(caps)];
    s.rule = rules[i / LK_COUNT(caps)];
    ranks_run_threads(s.ranks, timeout_ns, train, &outcome, ranks);
    for (int r = 0; r < s.ranks; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_double_gt(outcome.max_error[r], 0);
    }
}
END_TEST

static const struct setting rounded[] = {
    {"gpt", 2, 1, true, LK_DDP_TORCH_2, 4000, LK_PLANT_NONE, LK_COMPRESSION_FP16, 0},
    {"gpt", 3, 4, true, LK_DDP_TORCH_2, UINT64_MAX, LK_PLANT_NONE, LK_COMPRESSION_BF16, 0},
    {"mlp", 4, 4, false, LK_DDP_TORCH_2, 4000, LK_PLANT_NONE, LK_COMPRESSION_BF16, 0},
    {"mlp", 2, 1, true, LK_DDP_TORCH_2, 4000, LK_PLANT_NONE, LK_COMPRESSION_FP16, 0.05},
    {"gpt", 3, 1, true, LK_DDP_TORCH_2, 4000, LK_PLANT_NONE, LK_COMPRESSION_NONE, 0.05},
};

/* Hooks and clipping pass; the roundings of a hook are seen, as far above float32's. */
START_TEST(hooks_train_as_one_rank_would)
{
    struct setting s = rounded[_i];
    struct outcome outcome = {.setting = &s};
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(s.ranks, timeout_ns, train, &outcome, ranks);
    for (int r = 0; r < s.ranks; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        if (s.hook != LK_COMPRESSION_NONE)
            ck_assert_double_gt(outcome.max_error[r], 1e-5);
        else
            ck_assert_double_lt(outcome.max_error[r], 1e-5);
    }
    s.plant = LK_PLANT_DROPPED_BUCKET;
    ranks_run_threads(s.ranks, timeout_ns, train, &outcome, ranks);
    for (int r = 0; r < s.ranks; r++)
        ck_assert_msg(strstr(ranks[r].text, "verify: the gradient check failed in step"),
                      "rank %d: %s", r, ranks[r].text);
}
END_TEST

static const enum lk_plant faults[] = {LK_PLANT_DROPPED_BUCKET, LK_PLANT_WRONG_DIVISOR,
                                       LK_PLANT_SHARED_SHARD, LK_PLANT_STALE_VIEW,
                                       LK_PLANT_EARLY_BUCKET};
static const struct setting fault_settings[] = {
    {"gpt", 2, 1, false, LK_DDP_TORCH_2, UINT64_MAX, LK_PLANT_NONE, LK_COMPRESSION_NONE, 0},
    {"gpt", 4, 4, true, LK_DDP_TORCH_1_13, 4000, LK_PLANT_NONE, LK_COMPRESSION_NONE, 0},
    {"mlp", 3, 4, false, LK_DDP_TORCH_2, 1, LK_PLANT_NONE, LK_COMPRESSION_NONE, 0},
};

START_TEST(a_planted_fault_ends_the_run)
{
    struct setting s = fault_settings[(size_t)_i / LK_COUNT(faults)];
    struct outcome outcome = {.setting = &s};
    struct rank ranks[RANKS_MAX];

    s.plant = faults[(size_t)_i % LK_COUNT(faults)];
    ranks_run_threads(s.ranks, timeout_ns, train, &outcome, ranks);
    for (int r = 0; r < s.ranks; r++) {
        ck_assert_int_ne(ranks[r].status, LK_OK);
        ck_assert_msg(strstr(ranks[r].text, "verify: the gradient check failed in step"),
                      "rank %d: %s", r, ranks[r].text);
    }
}
END_TEST

SUITE(verify_train, c)
{
    tcase_add_loop_test(c, models_train_as_one_rank_would, 0, COMBINATIONS);
    tcase_add_loop_test(c, hooks_train_as_one_rank_would, 0, LK_COUNT(rounded));
    tcase_add_loop_test(c, a_planted_fault_ends_the_run, 0,
                        LK_COUNT(faults) * LK_COUNT(fault_settings));
}
