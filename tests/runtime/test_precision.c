/*
 * Training in bfloat16 and float16: ranks x accumulation x sharding train as one rank does on the
 * global batch; scaling by a power of 2 changes no bit; a step that overflows on one rank is
 * skipped on all, and the others are those of a run without it; runs go on from a checkpoint bit
 * for bit.
 */
#include "base/array.h"
#include "base/file.h"
#include "facts/config.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"
#include "tests/rigs/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, GLOBAL = 24 };

/* ---- Runs ---- */

struct run {
    enum lk_dtype dtype;
    const char *model;
    int ranks, accumulation;
    enum lk_sharding sharding;
    int group;
    bool sync_every, scatter, verify;
    int noise; /* steps between measurements of norms; 0: none */
    double clip;
    enum lk_optim_kind optimizer;
    enum lk_compression compression;
    struct lk_scaler_config scaler;
    enum lk_plant plant;
    int steps;           /* 0: STEPS */
    const char *weights; /* file in the test's folder */
    const char *dir;     /* of checkpoints, every 2 steps */
    char *resume;
    int odd_rank; /* -1, or one with another dtype */
    double loss[2 * STEPS];
    struct lk_train_result result; /* rank 0's, without losses */
    struct rank of[RANKS_MAX];
};

static struct lk_train_config config(const struct run *run, int rank)
{
    struct lk_train_config c = small_train("cpu", run->steps ? run->steps : STEPS);

    c.comm = run->ranks > 1 ? "tcp" : "self";
    c.comm_config.rank = rank;
    c.comm_config.world_size = run->ranks;
    c.device_config.real = rank == run->odd_rank ? LK_F32 : run->dtype;
    c.local_batch = GLOBAL / run->ranks / run->accumulation;
    c.samples = 4 * GLOBAL;
    c.model = (struct lk_model_config){
        .name = run->model, .layers = 2, .channels = 16, .context = 8, .vocab = 31, .seed = 7};
    c.model.heads = strcmp(run->model, "gpt") != 0 ? 0 : 2;
    if (!strcmp(run->model, "resnet-small"))
        c.model = (struct lk_model_config){
            .name = run->model, .channels = 4, .image = 8, .vocab = 5, .seed = 7};
    c.optim = (struct lk_optim_config){.kind = run->optimizer,
                                       .learning_rate = 0.05,
                                       .momentum = 0.9,
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .trust = 0.1,
                                       .eps = 1e-3};
    c.clip_norm = run->clip;
    c.scaler = run->scaler;
    c.scaler.growth_interval = run->scaler.growth_interval ? run->scaler.growth_interval : 2000;
    c.scaler.start = run->scaler.start > 0 ? run->scaler.start : LK_SCALER_START;
    c.hook.compression = run->compression;
    c.reducer.first_bytes = c.reducer.cap_bytes = 3000;
    c.reducer.accumulation = run->accumulation;
    c.reducer.sharding = run->sharding;
    c.reducer.shard_group = run->group;
    c.reducer.no_sync = !run->sync_every && !run->scatter;
    c.reducer.scatter = run->scatter;
    c.reducer.plant = run->plant;
    c.reducer.noise_every = run->noise;
    c.check_every = 1;
    c.verify = run->verify;
    return c;
}

static enum lk_status run_rank(struct rank *me)
{
    struct run *run = me->ctx;
    struct lk_train_config c = config(run, me->rank);
    struct lk_train_result result = {0};
    char *weights = run->weights ? scratch_path(scratch_dir, run->weights) : NULL;
    char *dir = run->dir ? scratch_path(scratch_dir, run->dir) : NULL;
    enum lk_status st = LK_OK;

    c.export_path = weights;
    c.checkpoint = (struct lk_checkpoint_config){
        .dir = dir, .every = dir ? 2 : 0, .keep = 100, .resume = run->resume};
    if (run->ranks > 1)
        LK_TRY(rank_connect(me, &c.comm_config.store));
    LK_TRY(lk_train(&c, &result));
    if (me->rank == 0) {
        memcpy(run->loss, result.loss, (size_t)result.n * sizeof *run->loss);
        run->result = result;
        run->result.loss = run->result.step_s = NULL;
    }
out:
    lk_train_result_fini(&result);
    lk_store_close(c.comm_config.store);
    free(dir);
    free(weights);
    return st;
}

static void train(struct run *run)
{
    memset(run->of, 0, sizeof run->of);
    if (run->ranks > 1) {
        ranks_run_threads(run->ranks, WAIT_PLENTY_NS, run_rank, run, run->of);
        return;
    }
    run->of[0] = (struct rank){.world_size = 1, .ctx = run};
    run->of[0].status = run_rank(&run->of[0]);
    snprintf(run->of[0].text, sizeof run->of[0].text, "%s", lk_error_text());
}

static void must_train(struct run *run)
{
    train(run);
    for (int r = 0; r < run->ranks; r++)
        ck_assert_msg(run->of[r].status == LK_OK, "rank %d: %s", r, run->of[r].text);
}

/* ---- Ranks are one rank ---- */

static const struct {
    enum lk_sharding sharding;
    int ranks, group, accumulation;
    bool sync_every, scatter;
} schemes[] = {
    {LK_SHARDING_DDP, 1, 0, 2, false, false},    {LK_SHARDING_DDP, 2, 0, 1, false, false},
    {LK_SHARDING_DDP, 3, 0, 2, true, false},     {LK_SHARDING_DDP, 4, 0, 2, false, false},
    {LK_SHARDING_ZERO1, 2, 0, 2, false, false},  {LK_SHARDING_ZERO1, 3, 0, 1, false, false},
    {LK_SHARDING_ZERO2, 4, 0, 2, true, false},   {LK_SHARDING_ZERO2, 3, 0, 2, false, false},
    {LK_SHARDING_ZERO3, 2, 0, 1, true, false},   {LK_SHARDING_ZERO3, 3, 0, 2, true, false},
    {LK_SHARDING_GRAD_OP, 4, 0, 1, true, false}, {LK_SHARDING_HSDP, 4, 2, 2, true, false},
    {LK_SHARDING_HSDP, 4, 2, 2, false, true},    {LK_SHARDING_ZERO3, 1, 0, 1, true, false},
};
static const enum lk_dtype narrow[] = {LK_BF16, LK_F16};
static const char *const models[] = {"gpt", "mlp"};

/*
 * Each rank's gradient is rounded to the type, and each sum of two, so a gradient is off by a few u
 * of itself, and weights by the rate times that, which momentum adds up over the steps. Measured
 * are 0.4 u for weights and 0.2 u for losses; where a rounding turns a relu, 0.9 and 2.
 */
START_TEST(ranks_are_one_rank)
{
    size_t type = (size_t)_i % 2, scheme = (size_t)_i / 2;
    double u = lk_dtype_unit_roundoff(narrow[type]);
    struct run own = {.dtype = narrow[type],
                      .model = models[(scheme + type) % 2],
                      .ranks = schemes[scheme].ranks,
                      .accumulation = schemes[scheme].accumulation,
                      .sharding = schemes[scheme].sharding,
                      .group = schemes[scheme].group,
                      .sync_every = schemes[scheme].sync_every,
                      .scatter = schemes[scheme].scatter,
                      .clip = scheme % 3 ? 0 : 0.5,
                      .verify = true,
                      .weights = "own",
                      .odd_rank = -1};
    struct run one = {.dtype = narrow[type],
                      .model = own.model,
                      .ranks = 1,
                      .accumulation = 1,
                      .clip = own.clip,
                      .weights = "one",
                      .odd_rank = -1};

    must_train(&one);
    must_train(&own);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_eq_tol(own.loss[i], one.loss[i], 4 * u);
    ck_assert_double_lt(one.loss[STEPS - 1], one.loss[0] - 5 * 4 * u);
    ck_assert_double_le(weights_apart_in_scratch("own", "one"), 2 * u);
    ck_assert_double_le(own.result.verify_max_error, own.result.verify_allowed);
    ck_assert_int_eq(own.result.overflown, 0);
}
END_TEST

/* Every element is updated from the same sum of two terms, which has no order. */
static const enum lk_sharding divided[] = {LK_SHARDING_ZERO1, LK_SHARDING_ZERO2, LK_SHARDING_ZERO3,
                                           LK_SHARDING_GRAD_OP};

START_TEST(two_ranks_that_shard_have_the_bits_of_ddp)
{
    struct run ddp = {.dtype = narrow[_i % 2],
                      .model = "gpt",
                      .ranks = 2,
                      .accumulation = 1,
                      .optimizer = LK_OPTIM_ADAMW,
                      .weights = "ddp",
                      .odd_rank = -1};
    struct run sharded = ddp;

    sharded.sharding = divided[_i / 2];
    sharded.weights = "sharded";
    must_train(&ddp);
    must_train(&sharded);
    ck_assert_double_eq(weights_apart_in_scratch("ddp", "sharded"), 0);
}
END_TEST

/* Training in narrow types is training in float32, but for roundings of its activations, which
 * batch norms over few values multiply. */
static const struct {
    const char *model;
    enum lk_dtype dtype;
    enum lk_optim_kind optimizer;
    enum lk_sharding sharding;
} curves[] = {
    {"gpt", LK_BF16, LK_OPTIM_ADAMW, LK_SHARDING_DDP},
    {"gpt", LK_F16, LK_OPTIM_ADAMW, LK_SHARDING_ZERO2},
    {"mlp", LK_BF16, LK_OPTIM_SGD, LK_SHARDING_ZERO3},
    {"mlp", LK_F16, LK_OPTIM_LAMB, LK_SHARDING_DDP},
    {"gpt", LK_BF16, LK_OPTIM_LARS, LK_SHARDING_DDP},
};

START_TEST(curve_is_that_of_float32)
{
    struct run narrow_run = {.dtype = curves[_i].dtype,
                             .model = curves[_i].model,
                             .ranks = 2,
                             .accumulation = 1,
                             .optimizer = curves[_i].optimizer,
                             .sharding = curves[_i].sharding,
                             .steps = 2 * STEPS,
                             .odd_rank = -1};
    struct run wide = narrow_run;
    double u = lk_dtype_unit_roundoff(curves[_i].dtype);

    wide.dtype = LK_F32;
    must_train(&narrow_run);
    must_train(&wide);
    for (int i = 0; i < 2 * STEPS; i++)
        ck_assert_double_eq_tol(narrow_run.loss[i] / wide.loss[i], 1, 8 * u);
    ck_assert_double_lt(wide.loss[2 * STEPS - 1], wide.loss[0]);
}
END_TEST

/* Roundings turn relus, and batch norms over few values multiply them, so that curves part. The
 * first loss is float32's, and training learns. */
START_TEST(networks_of_images_learn)
{
    struct run run = {.dtype = narrow[_i % 2],
                      .model = "resnet-small",
                      .ranks = 2,
                      .accumulation = 1,
                      .sharding = _i / 2 ? LK_SHARDING_ZERO3 : LK_SHARDING_DDP,
                      .sync_every = true,
                      .optimizer = LK_OPTIM_ADAMW,
                      .steps = 2 * STEPS,
                      .odd_rank = -1};
    struct run wide = run;

    wide.dtype = LK_F32;
    wide.steps = 1;
    must_train(&run);
    must_train(&wide);
    ck_assert_double_eq_tol(run.loss[0] / wide.loss[0], 1, 8 * lk_dtype_unit_roundoff(run.dtype));
    ck_assert_double_lt(run.loss[2 * STEPS - 1], 0.8 * run.loss[0]);
}
END_TEST

/* ---- The scale ---- */

/* A power of 2 that neither overflows nor underflows is exact in every product, sum and rounding.
 */
static const struct {
    enum lk_dtype dtype;
    enum lk_optim_kind optimizer;
    enum lk_sharding sharding;
    double clip;
    enum lk_compression compression;
} exact[] = {
    {LK_F32, LK_OPTIM_SGD, LK_SHARDING_DDP, 0, LK_COMPRESSION_NONE},
    {LK_F32, LK_OPTIM_ADAMW, LK_SHARDING_ZERO2, 0, LK_COMPRESSION_NONE},
    {LK_F32, LK_OPTIM_LAMB, LK_SHARDING_DDP, 0.5, LK_COMPRESSION_NONE},
    {LK_F32, LK_OPTIM_LARS, LK_SHARDING_DDP, 0.5, LK_COMPRESSION_BF16},
    {LK_BF16, LK_OPTIM_ADAMW, LK_SHARDING_DDP, 0.5, LK_COMPRESSION_NONE},
    {LK_BF16, LK_OPTIM_SGD, LK_SHARDING_ZERO3, 0.5, LK_COMPRESSION_NONE},
};

START_TEST(scale_changes_no_bit)
{
    struct run plain = {.dtype = exact[_i].dtype,
                        .model = "gpt",
                        .ranks = 2,
                        .accumulation = 2,
                        .sync_every = true,
                        .optimizer = exact[_i].optimizer,
                        .sharding = exact[_i].sharding,
                        .clip = exact[_i].clip,
                        .compression = exact[_i].compression,
                        .noise = exact[_i].sharding == LK_SHARDING_DDP,
                        .weights = "plain",
                        .odd_rank = -1};
    struct run scaled = plain;

    scaled.weights = "scaled";
    scaled.scaler = (struct lk_scaler_config){LK_LOSS_SCALE_FIXED, 1024, 0};
    must_train(&plain);
    must_train(&scaled);
    ck_assert_double_eq(weights_apart_in_scratch("plain", "scaled"), 0);
    ck_assert_double_eq(scaled.result.loss_scale, 1024);
    if (plain.noise) /* norms are those of gradients, not of scaled ones */
        ck_assert_double_eq(scaled.result.noise.value, plain.result.noise.value);
    ck_assert(isnan(plain.result.loss_scale));
}
END_TEST

/* Without a scale small gradients of float16 vanish: the scaler is needed, and this can tell. */
START_TEST(small_gradients_need_the_scale)
{
    struct run run = {
        .dtype = LK_F16,
        .model = "gpt",
        .ranks = 1,
        .accumulation = 1,
        .verify = true,
        .scaler = {_i ? LK_LOSS_SCALE_AUTO : LK_LOSS_SCALE_FIXED, _i ? 0 : 0x1p-16, 0},
        .odd_rank = -1};

    train(&run);
    ck_assert_msg((run.of[0].status == LK_OK) == (_i == 1), "%s", run.of[0].text);
    if (!_i)
        ck_assert_ptr_nonnull(strstr(run.of[0].text, "the gradient check failed in step 0"));
}
END_TEST

static const struct {
    enum lk_sharding sharding;
    int ranks, group, accumulation;
    enum lk_optim_kind optimizer;
    double clip;
} skips[] = {
    {LK_SHARDING_DDP, 1, 0, 1, LK_OPTIM_ADAMW, 0},
    {LK_SHARDING_DDP, 2, 0, 2, LK_OPTIM_ADAMW, 0},
    {LK_SHARDING_ZERO1, 3, 0, 1, LK_OPTIM_SGD, 0.5},
    {LK_SHARDING_ZERO2, 2, 0, 2, LK_OPTIM_ADAMW, 0},
    {LK_SHARDING_ZERO3, 4, 0, 1, LK_OPTIM_SGD, 0},
    {LK_SHARDING_HSDP, 4, 2, 1, LK_OPTIM_ADAMW, 0.5},
};

/* An infinite gradient on the last rank: no rank applies the step. The loss after it is that of the
 * weights before; the number of the update, which adamw's bias correction has, does not count it.
 */
START_TEST(overflow_on_one_rank_is_skipped_on_all)
{
    struct run hit = {.dtype = LK_F16,
                      .model = "gpt",
                      .ranks = skips[_i].ranks,
                      .accumulation = skips[_i].accumulation,
                      .sharding = skips[_i].sharding,
                      .group = skips[_i].group,
                      .optimizer = skips[_i].optimizer,
                      .clip = skips[_i].clip,
                      .sync_every = true,
                      .plant = LK_PLANT_OVERFLOW,
                      .verify = true,
                      .weights = "hit",
                      .steps = 2,
                      .odd_rank = -1};
    struct run before = hit;

    before.plant = LK_PLANT_NONE;
    before.weights = "before";
    before.steps = 1;
    must_train(&hit);
    must_train(&before);
    ck_assert_int_eq(hit.result.overflown, 1);
    ck_assert_double_eq(hit.result.loss_scale, LK_SCALER_START / 2);
    ck_assert_double_eq(weights_apart_in_scratch("hit", "before"), 0);
    ck_assert(isfinite(hit.loss[1]));
}
END_TEST

/* A skipped step is one that did not happen: the same data, and the scale fixed, give its weights.
 * The run's samples are one batch, so that every step has the same. */
START_TEST(skipped_step_did_not_happen)
{
    struct lk_train_config c;
    struct lk_train_result results[2] = {{0}};
    struct run run = {.dtype = LK_F16,
                      .model = "gpt",
                      .ranks = 1,
                      .accumulation = 1,
                      .optimizer = (enum lk_optim_kind)_i,
                      .odd_rank = -1};

    for (int hit = 0; hit < 2; hit++) {
        run.plant = hit ? LK_PLANT_OVERFLOW : LK_PLANT_NONE;
        run.steps = hit ? 5 : 4;
        /* Half the scale behind the overflow, the same before: what is exact does not differ. */
        run.scaler = (struct lk_scaler_config){LK_LOSS_SCALE_DYNAMIC, 4096, 0};
        c = config(&run, 0);
        c.samples = GLOBAL;
        c.sampler.shuffle = false;
        c.optim.warmup_steps = 3;
        ck_assert_msg(lk_train(&c, &results[hit]) == LK_OK, "%s", lk_error_text());
    }
    ck_assert_double_eq(results[1].loss[1], results[1].loss[2]);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(results[0].loss[i], results[1].loss[i ? i + 1 : 0], 1e-5);
    lk_train_result_fini(&results[0]);
    lk_train_result_fini(&results[1]);
}
END_TEST

/* A hook that sends float16 overflows with a large scale, in the reduction, the same on all ranks:
 * steps are skipped until the scale fits, and the run learns. */
START_TEST(scale_falls_until_a_hook_can_send_it)
{
    struct run run = {.dtype = LK_F32,
                      .model = "gpt",
                      .ranks = 2,
                      .accumulation = 1,
                      .compression = LK_COMPRESSION_FP16,
                      .optimizer = LK_OPTIM_ADAMW,
                      .scaler = {LK_LOSS_SCALE_DYNAMIC, 0x1p23, 0},
                      .verify = true,
                      .steps = 2 * STEPS,
                      .odd_rank = -1};

    must_train(&run);
    ck_assert_int_gt(run.result.overflown, 1);
    ck_assert_int_lt(run.result.overflown, STEPS);
    ck_assert_double_eq(run.result.loss_scale, ldexp(0x1p23, (int)-run.result.overflown));
    ck_assert_double_lt(run.loss[2 * STEPS - 1], run.loss[0]);
}
END_TEST

static const struct {
    struct lk_scaler_config scaler;
    enum lk_dtype dtype;
    enum lk_sharding sharding;
    const char *says;
} ends[] = {
    {{LK_LOSS_SCALE_DYNAMIC, 1, 0},
     LK_F16,
     LK_SHARDING_DDP,
     "which is the smallest: first that of"},
    {{LK_LOSS_SCALE_DYNAMIC, 1.5, 0},
     LK_BF16,
     LK_SHARDING_ZERO3,
     "the gradients of step 1 are not finite at a loss scale of 1.5, which is the smallest: first "
     "that of 'wte.weight'"},
    {{LK_LOSS_SCALE_FIXED, 64, 0},
     LK_F16,
     LK_SHARDING_ZERO2,
     "the gradients of step 1 are not finite at a loss scale of 64, which is fixed: first that of "
     "'wte.weight'"},
};

START_TEST(overflow_that_no_scale_helps_ends_the_run)
{
    struct run run = {.dtype = ends[_i].dtype,
                      .model = "gpt",
                      .ranks = 2,
                      .accumulation = 1,
                      .sync_every = true,
                      .sharding = ends[_i].sharding,
                      .scaler = ends[_i].scaler,
                      .plant = LK_PLANT_OVERFLOW,
                      .odd_rank = -1};

    train(&run);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_ne(run.of[r].status, LK_OK);
        ck_assert_msg(strstr(run.of[r].text, ends[_i].says) != NULL, "%s", run.of[r].text);
    }
}
END_TEST

/* ---- Checkpoints ---- */

static const enum lk_sharding kept[] = {LK_SHARDING_DDP, LK_SHARDING_ZERO1, LK_SHARDING_ZERO3};

/* With a scale that grows and a step that is skipped before the checkpoint. */
START_TEST(runs_go_on_bit_for_bit)
{
    char *dir = scratch_path(scratch_dir, "checkpoints"), *path = NULL;
    struct run whole = {.dtype = narrow[_i % 2],
                        .model = "gpt",
                        .ranks = 2,
                        .accumulation = 2,
                        .sync_every = true,
                        .sharding = kept[_i / 2],
                        .optimizer = LK_OPTIM_ADAMW,
                        .scaler = {LK_LOSS_SCALE_DYNAMIC, 4096, 3},
                        .plant = LK_PLANT_OVERFLOW,
                        .weights = "whole",
                        .dir = "checkpoints",
                        .odd_rank = -1};
    struct run rest = whole;

    must_train(&whole);
    ck_assert_int_eq(lk_checkpoint_find(dir, 5, &path), LK_OK);
    rest.resume = path;
    rest.weights = "rest";
    rest.dir = NULL;
    must_train(&rest);
    for (int i = 4; i < STEPS; i++)
        ck_assert_double_eq(rest.loss[i], whole.loss[i]);
    ck_assert_double_eq(weights_apart_in_scratch("whole", "rest"), 0);
    ck_assert_double_eq(rest.result.loss_scale, whole.result.loss_scale);
    ck_assert_int_eq(rest.result.overflown, 1);
    free(path);
    free(dir);
}
END_TEST

/* ---- Ranks that differ, what is refused ---- */

START_TEST(rank_of_another_type_is_named)
{
    struct run run = {
        .dtype = LK_BF16, .model = "mlp", .ranks = 3, .accumulation = 1, .odd_rank = 2};

    train(&run);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_ne(run.of[r].status, LK_OK);
        ck_assert_msg(strstr(run.of[r].text, "float32") && strstr(run.of[r].text, "bfloat16"), "%s",
                      run.of[r].text);
    }
}
END_TEST

SUITE(precision, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, ranks_are_one_rank, 0, 2 * LK_COUNT(schemes));
    tcase_add_loop_test(c, two_ranks_that_shard_have_the_bits_of_ddp, 0, 2 * LK_COUNT(divided));
    tcase_add_loop_test(c, curve_is_that_of_float32, 0, LK_COUNT(curves));
    tcase_add_loop_test(c, networks_of_images_learn, 0, 4);
    tcase_add_loop_test(c, scale_changes_no_bit, 0, LK_COUNT(exact));
    tcase_add_loop_test(c, small_gradients_need_the_scale, 0, 2);
    tcase_add_loop_test(c, overflow_on_one_rank_is_skipped_on_all, 0, LK_COUNT(skips));
    tcase_add_test(c, scale_falls_until_a_hook_can_send_it);
    tcase_add_loop_test(c, skipped_step_did_not_happen, LK_OPTIM_SGD, LK_OPTIM_ADAMW + 1);
    tcase_add_loop_test(c, overflow_that_no_scale_helps_ends_the_run, 0, LK_COUNT(ends));
    tcase_add_loop_test(c, runs_go_on_bit_for_bit, 0, 2 * LK_COUNT(kept));
    tcase_add_test(c, rank_of_another_type_is_named);
}
