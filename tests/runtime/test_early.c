/*
 * Early updates (runtime/train/early.h): on every number of ranks, with every way of accumulation,
 * the weights are bit for bit those of updates behind backward. On the device cpu streams are
 * threads, so that ThreadSanitizer sees an update that does not wait; the suite early_cuda tries
 * orders of streams.
 */
#include "base/array.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/ddp_rig.h"
#include "tests/rigs/must.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t timeout_ns = WAIT_PLENTY_NS;

static const struct setting {
    const char *model, *device;
    int ranks, accumulation;
    bool no_sync;
    uint64_t cap_bytes;
    enum lk_optim_kind optim;
    int noise_every;
} settings[] = {
    {"gpt", "cpu", 1, 1, true, 4096, LK_OPTIM_ADAMW, 0},
    {"gpt", "cpu", 1, 3, true, 1, LK_OPTIM_ADAMW, 1},
    {"gpt", "cpu", 1, 3, false, 2048, LK_OPTIM_SGD, 0},
    {"gpt", "cpu", 2, 1, true, 4096, LK_OPTIM_ADAMW, 2},
    {"gpt", "cpu", 2, 2, false, 2048, LK_OPTIM_ADAMW, 0},
    {"gpt", "cpu", 4, 1, true, UINT64_MAX, LK_OPTIM_ADAMW, 0},
    {"gpt", "cpu", 4, 2, true, 1, LK_OPTIM_SGD, 1},
    {"mlp", "cpu", 1, 1, true, 1, LK_OPTIM_ADAMW, 0},
    {"mlp", "cpu", 2, 2, true, 2048, LK_OPTIM_SGD, 1},
    {"mlp", "cpu", 4, 2, false, 4096, LK_OPTIM_ADAMW, 0},
    {"gpt", "cpu", 2, 1, true, 2048, LK_OPTIM_LARS, 0},
    {"mlp", "cpu", 2, 2, true, 1, LK_OPTIM_LAMB, 0},
    {"mlp", "reference", 1, 2, true, 1, LK_OPTIM_ADAMW, 0},
    {"gpt", "reference", 1, 1, true, 4096, LK_OPTIM_ADAMW, 0},
};

enum { STEPS = 4 };

/* One run: its ranks' results, and the weights of rank 0. */
struct outcome {
    const struct setting *setting;
    enum lk_fuse_wish early;
    enum lk_plant plant;
    bool verify;
    char *weights; /* path */
    struct lk_train_result results[RANKS_MAX];
};

static struct lk_train_config config(const struct outcome *o, int rank)
{
    const struct setting *s = o->setting;
    struct lk_train_config c = small_train(s->device, STEPS);

    c.comm = s->ranks == 1 ? "self" : "tcp";
    c.fuse.wish[LK_FUSE_OPTIMIZER] = o->early;
    c.samples = 64;
    c.verify = o->verify;
    c.export_path = o->weights;
    c.model = (struct lk_model_config){
        .name = s->model, .layers = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 7};
    c.model.heads = strcmp(s->model, "gpt") ? 0 : 2;
    c.optim.kind = s->optim;
    c.optim.momentum = 0.9;
    c.optim.trust = 0.02;
    c.optim.weight_decay = 0.1;
    c.optim.warmup_steps = 2;
    c.reducer.first_bytes = c.reducer.cap_bytes = s->cap_bytes;
    c.reducer.accumulation = s->accumulation;
    c.reducer.no_sync = s->no_sync;
    c.reducer.noise_every = s->noise_every;
    c.reducer.plant = o->plant;
    c.comm_config = (struct lk_comm_config){.rank = rank, .world_size = s->ranks};
    return c;
}

static enum lk_status train(struct rank *me)
{
    struct outcome *o = me->ctx;
    struct lk_train_config c = config(o, me->rank);
    enum lk_status st = LK_OK;

    if (o->setting->ranks > 1)
        LK_TRY(rank_connect(me, &c.comm_config.store));
    LK_TRY(lk_train(&c, &o->results[me->rank]));
out:
    lk_store_close(c.comm_config.store);
    return st;
}

static void run(struct outcome *o, struct rank *ranks)
{
    ranks_run_threads(o->setting->ranks, timeout_ns, train, o, ranks);
}

static void run_well(struct outcome *o)
{
    struct rank ranks[RANKS_MAX];

    run(o, ranks);
    for (int r = 0; r < o->setting->ranks; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}

static void fini(struct outcome *o)
{
    for (int r = 0; r < o->setting->ranks; r++)
        lk_train_result_fini(&o->results[r]);
    free(o->weights);
}

START_TEST(weights_are_the_same)
{
    const struct setting *s = &settings[_i];
    struct outcome early = {.setting = s, .early = LK_FUSE_YES, .verify = s->ranks == 2};
    struct outcome behind = {.setting = s, .early = LK_FUSE_NO};

    early.weights = scratch_path(scratch_dir, "early");
    behind.weights = scratch_path(scratch_dir, "behind");
    run_well(&early);
    run_well(&behind);
    for (int r = 0; r < s->ranks; r++)
        ck_assert_mem_eq(early.results[r].loss, behind.results[r].loss, STEPS * sizeof(double));
    ck_assert_double_ne(early.results[0].loss[0], early.results[0].loss[STEPS - 1]);
    /* NaN where there is none. */
    ck_assert_mem_eq(&early.results[0].noise.value, &behind.results[0].noise.value, sizeof(double));
    scratch_same(scratch_dir, "early", "behind");
    fini(&early);
    fini(&behind);
}
END_TEST

/* An update before the last reader is what --verify finds: gradients of other weights follow. */
START_TEST(verify_finds_an_update_that_is_too_early)
{
    const struct setting *s = &settings[_i];
    struct outcome o = {
        .setting = s, .early = LK_FUSE_YES, .plant = LK_PLANT_EARLY_UPDATE, .verify = true};
    struct rank ranks[RANKS_MAX];

    run(&o, ranks);
    for (int r = 0; r < s->ranks; r++) {
        ck_assert_int_ne(ranks[r].status, LK_OK);
        ck_assert_msg(strstr(ranks[r].text, "planted early-update: verify: the gradient check"),
                      "rank %d: %s", r, ranks[r].text);
    }
}
END_TEST

/* ---- Where it is legal ---- */

static const struct {
    enum lk_fuse_wish early;
    enum lk_plant plant;
    enum lk_status st;
    const char *says;
} refused[] = {
    {LK_FUSE_YES, LK_PLANT_STALE_VIEW, LK_EUNSUPPORTED,
     "parameters cannot be updated beside backward: a fault is planted"},
    {LK_FUSE_AUTO, LK_PLANT_EARLY_UPDATE, LK_EUSAGE,
     "the planted fault needs parameters that are updated beside backward"},
};

START_TEST(where_it_is_not_legal)
{
    struct outcome o = {
        .setting = &settings[0], .early = refused[_i].early, .plant = refused[_i].plant};
    struct rank ranks[RANKS_MAX];

    run(&o, ranks);
    ck_assert_int_eq(ranks[0].status, refused[_i].st);
    ck_assert_str_eq(ranks[0].text, refused[_i].says);
}
END_TEST

static const struct {
    enum lk_fuse_wish early;
    enum lk_plant plant;
    const char *update;
} descriptions[] = {
    {LK_FUSE_YES, LK_PLANT_NONE, "by bucket, beside backward"},
    {LK_FUSE_NO, LK_PLANT_NONE, "behind backward: not asked for"},
    {LK_FUSE_AUTO, LK_PLANT_NONE,
     "behind backward: the device's streams share the host's processors"},
    {LK_FUSE_AUTO, LK_PLANT_DROPPED_BUCKET, "behind backward: a fault is planted"},
};

START_TEST(the_trace_says_how_parameters_are_updated)
{
    struct outcome o = {
        .setting = &settings[0], .early = descriptions[_i].early, .plant = descriptions[_i].plant};
    struct lk_train_config c = config(&o, 0);
    struct lk_run_info info = {0};

    must(lk_train_describe(&c, &info));
    ck_assert_str_eq(lk_run_info_value(&info, "parameter_update"), descriptions[_i].update);
    lk_run_info_fini(&info);
}
END_TEST

/* ---- Any model ---- */

static struct rig_rank rig_ranks[RIG_RANKS_MAX];

/* How a model releases: a backward in any order, with parameters that are released never, at once
 * or by the op of another parameter. */
static void prepare_rig(struct rig_rank *r)
{
    const size_t steps[] = {2, 4, 5, 7};

    for (size_t k = 0; k < RIG_PARAMS; k++)
        r->order[k] = (k * steps[r->rank] + 3) % RIG_PARAMS;
}

static void keep_weights(struct rig_rank *r, uint32_t step)
{
    size_t n = 0;

    (void)step;
    for (size_t p = 0; p < RIG_PARAMS; p++)
        n += rig_elems[p];
    if (!r->note)
        r->note = calloc(n, sizeof(float));
    ck_assert_ptr_nonnull(r->note);
    for (size_t p = 0, at = 0; p < RIG_PARAMS; at += rig_elems[p++])
        memcpy((float *)r->note + at, r->model->params[p].data, rig_elems[p] * sizeof(float));
}

static const enum rig_release releases[] = {RIG_RELEASE_NONE, RIG_RELEASE_AT_ONCE, RIG_RELEASE_LATE,
                                            RIG_RELEASE_SOME};

START_TEST(any_order_of_a_model_is_safe)
{
    struct rig_case c = {.ranks = 1 + _i % 4,
                         .steps = 4,
                         .accumulation = 1 + _i / 4 % 2,
                         .no_sync = _i / 4 % 2,
                         .cap_bytes = _i % 3 ? 400 : 1,
                         .verify = true,
                         .early = true,
                         .release = releases[_i / 8],
                         .prepare = prepare_rig,
                         .after_step = keep_weights};
    float *weights[RIG_RANKS_MAX];
    size_t n = 0;

    for (size_t p = 0; p < RIG_PARAMS; p++)
        n += rig_elems[p];
    rig_run(&c, rig_ranks);
    for (int i = 0; i < c.ranks; i++) {
        ck_assert_msg(rig_ranks[i].st == LK_OK, "rank %d: %s", i, rig_ranks[i].text);
        ck_assert_uint_eq(rig_ranks[i].n_updates,
                          lk_reducer_buckets(rig_ranks[i].reducer)->n_buckets);
        weights[i] = rig_ranks[i].note;
        rig_ranks[i].note = NULL;
    }
    rig_free(rig_ranks, c.ranks);
    c.early = false;
    rig_run(&c, rig_ranks);
    for (int i = 0; i < c.ranks; i++) {
        ck_assert_mem_eq(rig_ranks[i].note, weights[i], n * sizeof(float));
        free(rig_ranks[i].note);
        rig_ranks[i].note = NULL;
        free(weights[i]);
    }
    rig_free(rig_ranks, c.ranks);
}
END_TEST

START_TEST(a_parameter_is_released_once)
{
    const struct rig_case c = {.ranks = 1, .early = true, .release = RIG_RELEASE_TWICE};

    rig_run(&c, rig_ranks);
    ck_assert_int_eq(rig_ranks[0].st, LK_EINTERNAL);
    ck_assert_str_eq(rig_ranks[0].text, "parameter 8 was released twice");
    rig_free(rig_ranks, 1);
}
END_TEST

SUITE(early, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, weights_are_the_same, 0, LK_COUNT(settings));
    tcase_add_loop_test(c, verify_finds_an_update_that_is_too_early, 3, 5);
    tcase_add_loop_test(c, where_it_is_not_legal, 0, LK_COUNT(refused));
    tcase_add_loop_test(c, the_trace_says_how_parameters_are_updated, 0, LK_COUNT(descriptions));
    tcase_add_loop_test(c, any_order_of_a_model_is_safe, 0, 8 * LK_COUNT(releases));
    tcase_add_test(c, a_parameter_is_released_once);
}
