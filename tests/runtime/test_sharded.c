/*
 * Sharded training: every scheme trains as one rank does on the global batch, whatever the ranks,
 * the accumulation, what is reduced and the optimizer; what it divides is divided; its checkpoints
 * go on bit for bit and under other schemes; a rank that leaves in a gather is named.
 */
#include "runtime/train/sharded.h"

#include "base/array.h"
#include "facts/config.h"
#include "runtime/train/checkpoint.h"
#include "tests/rigs/kept_spans.h"
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

enum { STEPS = 3, GLOBAL_BATCH = 72 };

/* A run, whose last weights go to `weights` in the test's folder. */
struct run {
    const char *model;
    enum lk_sharding sharding;
    int ranks, group, accumulation;
    enum lk_reduction reduce;
    enum lk_optim_kind optimizer;
    enum lk_overlap_mode overlap;
    enum lk_plant plant;
    const char *fault;
    const char *weights;
    int every;       /* steps between checkpoints */
    const char *dir; /* of checkpoints, in the test's folder */
    char *resume;
    bool verify, keeps_spans;
    double loss[STEPS];
    struct rank of[RANKS_MAX];
};

static struct lk_train_config config(const struct run *run, int rank)
{
    struct lk_train_config c = small_train("cpu", STEPS);

    c.comm = run->ranks > 1 ? "tcp" : "self";
    c.comm_config.rank = rank;
    c.comm_config.world_size = run->ranks;
    c.comm_config.fault = run->fault;
    c.local_batch = GLOBAL_BATCH / run->ranks / run->accumulation;
    c.samples = 2 * STEPS * GLOBAL_BATCH; /* no epoch ends */
    /* Sizes of which neither 2, 3 nor 4 ranks divide all units. */
    c.model = (struct lk_model_config){
        .name = run->model, .layers = 2, .channels = 14, .context = 6, .vocab = 31, .seed = 7};
    c.model.heads = strcmp(run->model, "gpt") != 0 ? 0 : 2;
    if (!strcmp(run->model, "resnet-small"))
        c.model = (struct lk_model_config){
            .name = run->model, .channels = 4, .image = 8, .vocab = 5, .seed = 7};
    c.optim.kind = run->optimizer;
    c.optim.momentum = 0.9;
    c.optim.weight_decay = 0.1;
    /* Gradients that are zero but for rounding, as of attention's keys' biases, do not count. */
    c.optim.eps = 1e-3;
    c.reducer.first_bytes = c.reducer.cap_bytes = 3000;
    c.reducer.accumulation = run->accumulation;
    c.reducer.sharding = run->sharding;
    c.reducer.shard_group = run->group;
    c.reducer.no_sync = run->reduce == LK_REDUCTION_LAST;
    c.reducer.scatter = run->reduce == LK_REDUCTION_SCATTER;
    c.reducer.overlap = run->overlap;
    c.reducer.plant = run->plant;
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
        .dir = dir, .every = run->every, .keep = 100, .resume = run->resume};
    if (run->keeps_spans && me->rank == 0) {
        kept_reset();
        LK_TRY(lk_recorder_create(&c.recorder));
        LK_TRY(lk_recorder_attach(c.recorder, &kept_ops, &kept));
    }
    if (run->ranks > 1)
        LK_TRY(rank_connect(me, &c.comm_config.store));
    LK_TRY(lk_train(&c, &result));
    if (me->rank == 0)
        memcpy(run->loss, result.loss, sizeof run->loss);
out:
    lk_train_result_fini(&result);
    lk_recorder_destroy(c.recorder);
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
        ck_assert_msg(run->of[r].status == LK_OK, "%s on %d ranks, rank %d: %s",
                      lk_sharding_name(run->sharding), run->ranks, r, run->of[r].text);
}

/* ---- Equivalence ---- */

static const struct scheme {
    enum lk_sharding sharding;
    int group;
    enum lk_reduction reduce;
} schemes[] = {
    {LK_SHARDING_ZERO1, 0, LK_REDUCTION_LAST},    {LK_SHARDING_ZERO1, 0, LK_REDUCTION_EVERY},
    {LK_SHARDING_ZERO2, 0, LK_REDUCTION_EVERY},   {LK_SHARDING_ZERO2, 0, LK_REDUCTION_LAST},
    {LK_SHARDING_ZERO3, 0, LK_REDUCTION_EVERY},   {LK_SHARDING_ZERO3, 0, LK_REDUCTION_LAST},
    {LK_SHARDING_GRAD_OP, 0, LK_REDUCTION_EVERY}, {LK_SHARDING_GRAD_OP, 0, LK_REDUCTION_LAST},
    {LK_SHARDING_HSDP, 2, LK_REDUCTION_EVERY},    {LK_SHARDING_HSDP, 2, LK_REDUCTION_LAST},
    {LK_SHARDING_HSDP, 2, LK_REDUCTION_SCATTER},  {LK_SHARDING_HSDP, 1, LK_REDUCTION_SCATTER},
};
static const char *const models[] = {"gpt", "mlp"};
static const enum lk_optim_kind optimizers[] = {LK_OPTIM_SGD, LK_OPTIM_ADAMW};
enum { RANKS = 4, ACCUMULATIONS = 3 };

/*
 * Every scheme with both models and both optimizers; of 1 to 4 ranks and 1 to 3 micro-batches a
 * step every other combination with one of the models, the rest with the other. Float32 sums in
 * another order differ by some units of 2^-24 of their terms; weights are below 1, and the steps
 * change them by less than 1.
 */
START_TEST(trains_as_one_rank_would)
{
    static const double bound = 2e-6;
    size_t i = (size_t)_i;
    struct run one = {.model = models[i % 2], .ranks = 1, .accumulation = 1, .weights = "one"};
    struct run many;
    const struct scheme *s;

    one.optimizer = optimizers[(i + i / 4) % 2];
    s = &schemes[i / 2];
    must_train(&one);
    many = one;
    many.sharding = s->sharding;
    many.reduce = s->reduce;
    many.weights = "many";
    many.verify = i % 4 < 2;
    for (many.ranks = 1; many.ranks <= RANKS; many.ranks++)
        for (many.accumulation = 1; many.accumulation <= ACCUMULATIONS; many.accumulation++) {
            if ((many.ranks + many.accumulation + (int)i) % 2)
                continue;
            many.group = s->group;
            if (s->group && many.ranks % s->group)
                many.group = many.ranks;
            many.overlap =
                (enum lk_overlap_mode)((many.ranks + many.accumulation) % LK_OVERLAP_MODE_COUNT);
            must_train(&many);
            for (int step = 0; step < STEPS; step++)
                ck_assert_msg(fabs(many.loss[step] - one.loss[step]) < bound * 10,
                              "%s, %d ranks, accumulation %d: step %d has loss %.9g, one rank %.9g",
                              lk_sharding_name(s->sharding), many.ranks, many.accumulation, step,
                              many.loss[step], one.loss[step]);
            ck_assert_msg(weights_apart_in_scratch("one", "many") < bound,
                          "%s, %d ranks, accumulation %d: weights differ by %g",
                          lk_sharding_name(s->sharding), many.ranks, many.accumulation,
                          weights_apart_in_scratch("one", "many"));
        }
}
END_TEST

/* A sum of two terms has no order: two ranks with one micro-batch have DDP's bits. */
START_TEST(two_ranks_have_the_bits_of_ddp)
{
    const char *model = _i < 2 ? models[_i] : "resnet-small"; /* whose statistics are its own */
    struct run ddp = {.model = model, .ranks = 2, .accumulation = 1, .weights = "ddp"};
    struct run sharded;

    ddp.optimizer = optimizers[_i % 2];
    must_train(&ddp);
    sharded = ddp;
    sharded.weights = "sharded";
    for (size_t i = 0; i < LK_COUNT(schemes); i++) {
        sharded.sharding = schemes[i].sharding;
        sharded.reduce = schemes[i].reduce;
        sharded.group = schemes[i].group;
        must_train(&sharded);
        scratch_same(scratch_dir, "ddp", "sharded");
    }
}
END_TEST

static const enum lk_plant faults[] = {LK_PLANT_DROPPED_BUCKET, LK_PLANT_WRONG_DIVISOR,
                                       LK_PLANT_SHARED_SHARD};

/* Verification sees what goes wrong in sharded training, too. */
START_TEST(a_planted_fault_ends_the_run)
{
    struct run run = {.model = "gpt", .ranks = 4, .accumulation = 2, .group = 2, .verify = true};

    run.plant = faults[(size_t)_i % LK_COUNT(faults)];
    run.sharding = schemes[2 * (size_t)_i].sharding;
    run.group = run.sharding == LK_SHARDING_HSDP ? 2 : 0;
    train(&run);
    for (int r = 0; r < run.ranks; r++)
        ck_assert_msg(run.of[r].status != LK_OK &&
                          strstr(run.of[r].text, "verify: the gradient check failed in step"),
                      "%s, rank %d: %s", lk_sharding_name(run.sharding), r, run.of[r].text);
}
END_TEST

/* ---- What is divided ---- */

static double state_bytes(void)
{
    for (size_t i = 0; i < kept.n_facts; i++)
        if (!strcmp(kept.facts[i].key, "optimizer_state_bytes"))
            return strtod(kept.facts[i].value, NULL);
    return NAN;
}

static size_t spans_named(const char *name, size_t *out_units)
{
    const struct kept_track *net = kept_track("comm stream");
    size_t n = 0;

    *out_units = 0;
    for (size_t i = 0; i < net->n; i++)
        if (net->spans[i].kind == LK_SPAN_COLLECTIVE && net->spans[i].name &&
            !strcmp(kept.names[net->spans[i].name], name)) {
            n++;
            if (net->spans[i].index >= (int32_t)*out_units)
                *out_units = (size_t)net->spans[i].index + 1;
        }
    return n;
}

/* The optimizer's states are a share of DDP's, up to a unit's padding; the collectives of a step
 * are those that forecasts count (sim/step/volume.h), each with its unit. */
START_TEST(states_and_collectives_are_counted)
{
    static const int gathers[LK_GATHERS_TWICE + 1] = {
        [LK_GATHERS_AFTER] = 1, [LK_GATHERS_FORWARD] = 2, [LK_GATHERS_TWICE] = 4};
    const struct scheme *s = &schemes[_i];
    const struct lk_sharding_traits *t = lk_sharding_traits(s->sharding);
    struct run run = {.model = "gpt", .ranks = 1, .accumulation = 1, .keeps_spans = true};
    bool of_groups = s->group > 0;
    char name[64];
    size_t units, gathered, n_gathers, n_scatters, per_step;
    double whole;

    run.optimizer = LK_OPTIM_ADAMW;
    must_train(&run);
    whole = state_bytes();
    ck_assert_double_gt(whole, 0);
    run.sharding = s->sharding;
    run.group = s->group;
    run.reduce = s->reduce;
    run.accumulation = 2;
    run.ranks = 4;
    must_train(&run);
    snprintf(name, sizeof name, of_groups ? "reduce_scatter of %d ranks" : "reduce_scatter",
             s->group);
    n_scatters = spans_named(name, &units);
    per_step = s->reduce == LK_REDUCTION_LAST ? 1 : 2;
    ck_assert_uint_gt(units, 3);
    ck_assert_uint_eq(n_scatters, per_step * units * STEPS);
    ck_assert_double_le(state_bytes(), whole / (of_groups ? s->group : 4) + 8.0 * (double)units);
    ck_assert_double_ge(state_bytes(), whole / (of_groups ? s->group : 4) - 8.0 * (double)units);
    snprintf(name, sizeof name, of_groups ? "all_gather of %d ranks" : "all_gather", s->group);
    n_gathers = spans_named(name, &gathered);
    ck_assert_uint_eq(gathered, units);
    ck_assert_uint_eq(n_gathers, (size_t)gathers[t->gathers] * units * STEPS);
    if (of_groups) {
        per_step = s->reduce == LK_REDUCTION_EVERY ? 2 : 1;
        snprintf(name, sizeof name, "all_reduce of %d ranks", 4 / s->group);
        ck_assert_uint_eq(spans_named(name, &gathered), per_step * units * STEPS);
    }
}
END_TEST

/* ---- Checkpoints ---- */

static char *checkpoint(const char *dir, int steps)
{
    char *path;

    ck_assert_int_eq(lk_asprintf(&path, "%s/%s/step-%09d.safetensors", scratch_dir, dir, steps),
                     LK_OK);
    return path;
}

/* A run goes on from its checkpoint with the same bits, and so, on two ranks, under each other
 * scheme, since a checkpoint holds whole parameters and states. */
START_TEST(goes_on_from_checkpoints)
{
    const struct scheme *s = &schemes[2 * _i];
    struct run whole = {.model = "gpt", .ranks = 2, .accumulation = 1, .every = 1, .dir = "all"};
    struct run part;

    whole.optimizer = LK_OPTIM_ADAMW;
    whole.sharding = s->sharding;
    whole.group = s->group;
    whole.reduce = s->reduce;
    whole.weights = "whole";
    must_train(&whole);
    part = whole;
    part.dir = "parts";
    part.weights = "part";
    part.resume = checkpoint("all", 2);
    for (size_t i = (size_t)_i % 3; i < LK_COUNT(schemes); i += 3) {
        part.sharding = schemes[i].sharding;
        part.group = schemes[i].group;
        part.reduce = schemes[i].reduce;
        must_train(&part);
        scratch_same(scratch_dir, "whole", "part");
    }
    part.sharding = LK_SHARDING_DDP;
    part.group = 0;
    must_train(&part);
    scratch_same(scratch_dir, "whole", "part");
    free(part.resume);
}
END_TEST

/* ---- Faults and refusals ---- */

/* The collectives of a step of zero3 begin with gathers: rank 1 leaves in one of the third step. */
START_TEST(a_rank_that_leaves_in_a_gather_is_named)
{
    struct run run = {.model = "mlp", .ranks = 3, .accumulation = 1, .keeps_spans = true};
    const struct kept_track *net;
    char fault[64];
    uint32_t seq = 0;

    run.sharding = LK_SHARDING_ZERO3;
    must_train(&run);
    net = kept_track("comm stream");
    for (size_t i = 0; i < net->n; i++)
        if (net->spans[i].kind == LK_SPAN_COLLECTIVE && net->spans[i].step == 2 && !seq)
            seq = net->spans[i].seq;
    snprintf(fault, sizeof fault, "fail:rank=1,call=%u", (unsigned)seq);
    run.fault = fault;
    train(&run);
    for (int r = 0; r < run.ranks; r++) {
        ck_assert_int_ne(run.of[r].status, LK_OK);
        ck_assert_msg(strstr(run.of[r].text, "rank 1") || r == 1, "rank %d: %s", r, run.of[r].text);
        ck_assert_msg(strstr(run.of[r].text, "all_gather"), "rank %d: %s", r, run.of[r].text);
    }
}
END_TEST

START_TEST(what_is_not_built_is_refused)
{
    struct run run = {.model = "mlp", .ranks = 3, .accumulation = 1, .group = 2};

    run.sharding = LK_SHARDING_HSDP;
    train(&run);
    ck_assert_msg(strstr(run.of[0].text, "a shard group of 2 does not divide 3 ranks"), "%s",
                  run.of[0].text);
    run.ranks = 2;
    run.sharding = LK_SHARDING_ZERO2;
    run.plant = LK_PLANT_STALE_VIEW;
    train(&run);
    ck_assert_msg(strstr(run.of[1].text, "sharding zero2: the planted fault"), "%s",
                  run.of[1].text);
}
END_TEST

SUITE(sharded, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, trains_as_one_rank_would, 0, 2 * (int)LK_COUNT(schemes));
    tcase_add_loop_test(t, two_ranks_have_the_bits_of_ddp, 0, 3);
    tcase_add_loop_test(t, a_planted_fault_ends_the_run, 0, (int)LK_COUNT(schemes) / 2);
    tcase_add_loop_test(t, states_and_collectives_are_counted, 0, (int)LK_COUNT(schemes));
    tcase_add_loop_test(t, goes_on_from_checkpoints, 0, (int)LK_COUNT(schemes) / 2);
    tcase_add_test(t, a_rank_that_leaves_in_a_gather_is_named);
    tcase_add_test(t, what_is_not_built_is_refused);
}
