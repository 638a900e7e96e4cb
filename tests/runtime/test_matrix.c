/*
 * The equivalence matrix: models x ranks x accumulation x how ranks exchange what they learn x
 * optimizers, each against one rank on the global batch.
 *
 * The product of models, ranks and schemes is tested whole; accumulation and optimizer go through
 * their values in such an order that each meets each value of every other axis, which a test
 * counts. What cannot be is left out by name: see `impossible`. Further axes (a precision, batches
 * that are not equal) are a table, a member of `struct cell` and a term of the tolerance.
 *
 * The tolerance is what the arithmetic justifies. Sums in another order differ by some 1e-7 of a
 * gradient, which steps multiply, a network with batch norms more, because it divides by deviations
 * of few values, and its relus turn where a value is a rounding from 0. A hook rounds a gradient
 * once on each rank and once a sum, by a share u of it at most: a step is off by K u of what it
 * gains, twice where ranks' shares exceed their mean.
 */
#include "base/array.h"
#include "base/file.h"
#include "facts/dtype.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/must.h"
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

enum { STEPS = 4, GLOBAL = 24 };

/* ---- The axes ---- */

static const struct model {
    struct lk_model_config config;
    bool joint; /* ranks share statistics of a micro-batch, so that it has to be the same */
    double tolerance;
} models[] = {
    {{.name = "gpt", .layers = 1, .heads = 2, .channels = 14, .context = 6, .vocab = 31, .seed = 3},
     false,
     1e-5},
    {{.name = "mlp", .layers = 2, .channels = 18, .context = 7, .vocab = 23, .seed = 3},
     false,
     1e-5},
    {{.name = "resnet-small",
      .channels = 4,
      .image = 8,
      .vocab = 4,
      .sync_batch_norm = true,
      .seed = 3},
     true,
     5e-3},
};
static const int all_ranks[] = {1, 2, 3, 4}, accumulations[] = {1, 2};

/* A hook of full rank is exact. Averaging behind every step is DDP with plain SGD. */
static const struct scheme {
    enum lk_sharding sharding;
    struct lk_hook_config hook;
    enum lk_reduction reduce;
} schemes[] = {
    {LK_SHARDING_DDP, {0}, LK_REDUCTION_LAST},
    {LK_SHARDING_DDP, {0}, LK_REDUCTION_EVERY},
    {LK_SHARDING_DDP, {.compression = LK_COMPRESSION_FP16}, LK_REDUCTION_LAST},
    {LK_SHARDING_DDP, {.compression = LK_COMPRESSION_BF16}, LK_REDUCTION_EVERY},
    {LK_SHARDING_DDP, {LK_COMPRESSION_POWERSGD, 64, 2, 1e-3, 1, 0}, LK_REDUCTION_LAST},
    {LK_SHARDING_ZERO1, {0}, LK_REDUCTION_LAST},
    {LK_SHARDING_ZERO2, {0}, LK_REDUCTION_EVERY},
    {LK_SHARDING_ZERO3, {0}, LK_REDUCTION_EVERY},
    {LK_SHARDING_GRAD_OP, {0}, LK_REDUCTION_LAST},
    {LK_SHARDING_HSDP, {0}, LK_REDUCTION_SCATTER},
    {LK_SHARDING_LOCAL_SGD, {0}, LK_REDUCTION_LAST},
    {LK_SHARDING_DILOCO, {0}, LK_REDUCTION_LAST},
    {LK_SHARDING_ASYNC, {0}, LK_REDUCTION_LAST},
    {LK_SHARDING_ASYNC, {.compression = LK_COMPRESSION_FP16}, LK_REDUCTION_LAST},
    {LK_SHARDING_ASYNC, {.compression = LK_COMPRESSION_BF16}, LK_REDUCTION_LAST},
    {LK_SHARDING_ASYNC, {LK_COMPRESSION_POWERSGD, 64, 2, 1e-3, 1, 0}, LK_REDUCTION_LAST},
};

static const struct lk_optim_config optimizers[] = {
    {.kind = LK_OPTIM_SGD, .learning_rate = 0.05},
    {.kind = LK_OPTIM_SGD, .learning_rate = 0.02, .momentum = 0.9},
    /* Gradients that are zero but for rounding, as of attention's keys' biases, do not count. */
    {.kind = LK_OPTIM_ADAMW, .learning_rate = 0.005, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-3},
};

enum {
    AXIS_MODEL,
    AXIS_RANKS,
    AXIS_SCHEME,
    AXIS_ACCUMULATION,
    AXIS_OPTIMIZER,
    AXES,
    CELLS = LK_COUNT(models) * LK_COUNT(all_ranks) * LK_COUNT(schemes)
};
static const size_t sizes[AXES] = {LK_COUNT(models), LK_COUNT(all_ranks), LK_COUNT(schemes),
                                   LK_COUNT(accumulations), LK_COUNT(optimizers)};

struct cell {
    size_t at[AXES];
};

static const struct scheme *scheme_of(const struct cell *c)
{
    return &schemes[c->at[AXIS_SCHEME]];
}

static bool averages(const struct cell *c)
{
    return lk_sharding_traits(scheme_of(c)->sharding)->pace == LK_PACE_PERIOD;
}

static struct cell cell_of(int i)
{
    struct cell c;
    size_t model = (size_t)i % sizes[AXIS_MODEL], rest = (size_t)i / sizes[AXIS_MODEL];
    size_t ranks = rest % sizes[AXIS_RANKS], scheme = rest / sizes[AXIS_RANKS];

    c.at[AXIS_MODEL] = model;
    c.at[AXIS_RANKS] = ranks;
    c.at[AXIS_SCHEME] = scheme;
    c.at[AXIS_ACCUMULATION] = (model + ranks + scheme) % sizes[AXIS_ACCUMULATION];
    c.at[AXIS_OPTIMIZER] = averages(&c) ? 0 : (model + ranks / 2 + scheme) % sizes[AXIS_OPTIMIZER];
    return c;
}

/* Return why a model on so many ranks cannot be one rank on the global batch; NULL: it can. */
static const char *impossible(const struct cell *c)
{
    int ranks = all_ranks[c->at[AXIS_RANKS]];

    if (scheme_of(c)->sharding == LK_SHARDING_HSDP && ranks > 1 && ranks % 2)
        return "groups of two do not divide three ranks";
    if (scheme_of(c)->sharding == LK_SHARDING_ASYNC && models[c->at[AXIS_MODEL]].joint)
        return "SyncBatchNorm is the barrier that late gradients avoid";
    return NULL;
}

/* ---- A run ---- */

struct run {
    struct cell cell;
    int ranks, accumulation;
    bool plain; /* one rank, as plain as can be */
    char *weights;
    double loss[STEPS];
};

static struct lk_train_config config(const struct run *run)
{
    struct lk_train_config c = small_train("cpu", STEPS);
    const struct scheme *s = scheme_of(&run->cell);

    c.comm = run->ranks == 1 ? "self" : "tcp";
    c.comm_config.world_size = run->ranks;
    c.model = models[run->cell.at[AXIS_MODEL]].config;
    c.samples = 2 * STEPS * GLOBAL;
    c.local_batch = GLOBAL / run->ranks / run->accumulation;
    c.optim = optimizers[run->cell.at[AXIS_OPTIMIZER]];
    c.broadcast_buffers = true;
    c.check_every = 1;
    c.reducer.first_bytes = c.reducer.cap_bytes = 3000;
    c.reducer.accumulation = run->accumulation;
    c.reducer.staleness = s->sharding == LK_SHARDING_ASYNC ? 1 : 0;
    if (run->plain)
        return c;
    c.reducer.sharding = s->sharding;
    c.reducer.shard_group = s->sharding == LK_SHARDING_HSDP ? 2 : 0;
    c.reducer.no_sync = s->reduce == LK_REDUCTION_LAST;
    c.reducer.scatter = s->reduce == LK_REDUCTION_SCATTER;
    c.hook = s->hook;
    c.averaging = (struct lk_averaging_config){s->sharding, 1, 0, 1, 0};
    return c;
}

static enum lk_status run_rank(struct rank *me)
{
    struct run *run = me->ctx;
    struct lk_train_config c = config(run);
    struct lk_train_result result = {0};
    enum lk_status st = LK_OK;

    c.comm_config.rank = me->rank;
    c.export_path = run->weights;
    LK_TRY(rank_connect(me, &c.comm_config.store));
    LK_TRY(lk_train(&c, &result));
    if (me->rank == 0)
        memcpy(run->loss, result.loss, sizeof run->loss);
out:
    lk_train_result_fini(&result);
    lk_store_close(c.comm_config.store);
    return st;
}

static void name_of(const struct cell *c, char *buf, size_t size)
{
    snprintf(buf, size, "%s on %d ranks, accumulation %d, %s, %s, %s",
             models[c->at[AXIS_MODEL]].config.name, all_ranks[c->at[AXIS_RANKS]],
             accumulations[c->at[AXIS_ACCUMULATION]], lk_sharding_name(scheme_of(c)->sharding),
             lk_compression_name(scheme_of(c)->hook.compression),
             c->at[AXIS_OPTIMIZER] == 2   ? "adamw"
             : c->at[AXIS_OPTIMIZER] == 1 ? "momentum"
                                          : "sgd");
}

static void train(struct run *run)
{
    struct rank ranks[RANKS_MAX];
    char name[160];

    name_of(&run->cell, name, sizeof name);
    ranks_run_threads(run->ranks, WAIT_PLENTY_NS, run_rank, run, ranks);
    for (int r = 0; r < run->ranks; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "%s: rank %d: %s", name, r, ranks[r].text);
}

/* Return what rounding takes of what the steps gained. */
static double rounding(const struct run *run, const double *loss)
{
    const struct lk_hook_config *hook = &scheme_of(&run->cell)->hook;
    double u =
        lk_hook_rounds(hook) && run->ranks > 1 ? lk_dtype_unit_roundoff(lk_hook_wire(hook)) : 0;
    double moved = 0;

    for (int i = 1; i < STEPS; i++)
        moved = fmax(moved, fabs(loss[i] - loss[0]));
    /* AdamW divides by a gradient's own size: what is near 0 on the mean is off by more. */
    return (run->cell.at[AXIS_OPTIMIZER] == 2 ? 4 : 1) * 2 * run->ranks * u * moved;
}

static void check_cell(const struct cell *c)
{
    const struct model *model = &models[c->at[AXIS_MODEL]];
    struct run all = {.cell = *c,
                      .ranks = all_ranks[c->at[AXIS_RANKS]],
                      .accumulation = accumulations[c->at[AXIS_ACCUMULATION]],
                      .weights = scratch_path(scratch_dir, "all")};
    struct run one = {.cell = *c,
                      .ranks = 1,
                      .plain = true,
                      .accumulation = model->joint ? all.accumulation : 1,
                      .weights = scratch_path(scratch_dir, "one")};
    double tolerance, off;
    char name[160];

    name_of(c, name, sizeof name);
    train(&all);
    train(&one);
    tolerance = model->tolerance + rounding(&all, one.loss);
    for (int i = 0; i < STEPS; i++)
        ck_assert_msg(fabs(all.loss[i] - one.loss[i]) <= tolerance,
                      "%s: the loss of step %d is %.8g, not %.8g +- %.2g", name, i, all.loss[i],
                      one.loss[i], tolerance);
    off = weights_apart(all.weights, one.weights);
    if (!lk_hook_rounds(&scheme_of(c)->hook))
        ck_assert_msg(off <= model->tolerance, "%s: weights differ by %.2g", name, off);
    else if (all.ranks > 1)
        ck_assert_msg(off > 0, "%s: no weight shows a rounding", name);
    free(all.weights);
    free(one.weights);
}

/* A test is of one scheme, so that a failure says which. */
START_TEST(ranks_are_one_rank)
{
    for (int i = 0; i < CELLS; i++) {
        struct cell c = cell_of(i);

        if ((int)c.at[AXIS_SCHEME] == _i && !impossible(&c))
            check_cell(&c);
    }
}
END_TEST

/* Each value of each axis is tested with each of every other axis, but for what cannot be. */
START_TEST(all_pairs_are_there)
{
    bool seen[AXES][32][AXES][32] = {{{{false}}}};

    for (int i = 0; i < CELLS; i++) {
        struct cell c = cell_of(i);

        for (size_t a = 0; a < AXES && !impossible(&c); a++)
            for (size_t b = 0; b < AXES; b++)
                seen[a][c.at[a]][b][c.at[b]] = true;
    }
    for (size_t a = 0; a < AXES; a++)
        for (size_t x = 0; x < sizes[a]; x++)
            for (size_t b = 0; b < a; b++)
                for (size_t y = 0; y < sizes[b]; y++) {
                    struct cell c = {{0}};
                    bool of_scheme = b == AXIS_SCHEME || a == AXIS_SCHEME;

                    c.at[a] = x;
                    c.at[b] = y;
                    if (seen[a][x][b][y] || (of_scheme && impossible(&c)))
                        continue;
                    /* Averaging behind each step is DDP with plain SGD alone. */
                    ck_assert_msg(a == AXIS_OPTIMIZER && b == AXIS_SCHEME && averages(&c),
                                  "axes %zu and %zu: %zu never meets %zu", a, b, x, y);
                }
}
END_TEST

SUITE(matrix, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, ranks_are_one_rank, 0, (int)LK_COUNT(schemes));
    tcase_add_test(c, all_pairs_are_there);
}
