/*
 * The equivalence matrix: K ranks with a communication hook, averaged parameters or clipping give
 * the losses of one rank on the same global batch, within what the arithmetic rounds.
 */
#include "runtime/train/trainer.h"

#include "base/array.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <string.h>

enum { STEPS = 8, GLOBAL_BATCH = 24, ACCUMULATIONS = 2 };

/* How ranks exchange what they learn. All rows but the rounding hooks are exact. */
static const struct scheme {
    const char *name;
    struct lk_hook_config hook;
    struct lk_averaging_config averaging;
    double clip_norm;
    bool plain_sgd; /* equal with SGD without momentum alone */
} schemes[] = {
    {"ddp", {0}, {0}, 0, false},
    {"fp16", {.compression = LK_COMPRESSION_FP16}, {0}, 0, false},
    {"bf16", {.compression = LK_COMPRESSION_BF16}, {0}, 0, false},
    {"powersgd of full rank", {LK_COMPRESSION_POWERSGD, 64, 2, 1e-3, 1, 0}, {0}, 0, false},
    {"clipped", {0}, {0}, 0.2, false},
    {"clipped fp16", {.compression = LK_COMPRESSION_FP16}, {0}, 0.2, false},
    {"local-sgd of period 1", {0}, {LK_SHARDING_LOCAL_SGD, 1, 0, 0, 0}, 0, true},
    {"local-sgd in its warm-up", {0}, {LK_SHARDING_LOCAL_SGD, 4, STEPS, 0, 0}, 0, false},
    {"diloco of period 1", {0}, {LK_SHARDING_DILOCO, 1, 3, 1, 0}, 0, true},
};
static const struct {
    const char *name;
    struct lk_optim_config config;
} optimizers[] = {
    {"sgd", {.kind = LK_OPTIM_SGD, .learning_rate = 0.05}},
    {"momentum", {.kind = LK_OPTIM_SGD, .learning_rate = 0.02, .momentum = 0.9}},
    {"adamw",
     {.kind = LK_OPTIM_ADAMW, .learning_rate = 0.002, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6}},
    {"lars", {.kind = LK_OPTIM_LARS, .learning_rate = 0.5, .momentum = 0.9, .trust = 0.02}},
    {"lamb",
     {.kind = LK_OPTIM_LAMB, .learning_rate = 0.005, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6}},
};

struct together {
    const struct scheme *scheme;
    struct lk_optim_config optim;
    int accumulation;
    bool sync_every;
    struct lk_train_result results[RANKS_MAX];
};

static enum lk_status train(struct rank *me)
{
    struct together *t = me->ctx;
    struct lk_train_config c = {.device = "cpu",
                                .comm = me->world_size == 1 ? "self" : "tcp",
                                .local_batch = GLOBAL_BATCH / me->world_size / t->accumulation,
                                .steps = STEPS,
                                .samples = 240,
                                .sampler.shuffle = true,
                                .seed = 5,
                                .check_every = 1,
                                .clip_norm = t->scheme->clip_norm,
                                .hook = t->scheme->hook,
                                .averaging = t->scheme->averaging,
                                .optim = t->optim,
                                .timeout_ns = WAIT_PLENTY_NS};
    enum lk_status st = LK_OK;

    c.device_config.slowdown = 1;
    c.comm_config.rank = me->rank;
    c.comm_config.world_size = me->world_size;
    c.model = (struct lk_model_config){
        .name = "mlp", .layers = 2, .channels = 20, .context = 8, .vocab = 24, .seed = 3};
    c.reducer = (struct lk_reducer_config){.ddp_rule = LK_DDP_TORCH_2,
                                           .first_bytes = 1024,
                                           .cap_bytes = 1024,
                                           .accumulation = t->accumulation,
                                           .no_sync = !t->sync_every};
    LK_TRY(rank_connect(me, &c.comm_config.store));
    st = lk_train(&c, &t->results[me->rank]);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

static void run(int n, struct together *t)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(n, WAIT_PLENTY_NS, train, t, ranks);
    for (int r = 0; r < n; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "%s, rank %d of %d: %s", t->scheme->name, r, n,
                      ranks[r].text);
}

static void drop(int n, struct together *t)
{
    for (int r = 0; r < n; r++)
        lk_train_result_fini(&t->results[r]);
}

/*
 * A hook rounds a gradient once on each rank and once a sum, by a share u of it at most. So what a
 * step gains is off by K u of it, twice where the ranks' shares are larger than their mean; the
 * loss, by as much of what all steps gained. AdamW and LAMB divide by the gradient's own size: an
 * element that is near 0 on the mean is off by more, four times as a rule here. Beyond that, sums
 * in another order: about 1e-7 a step, and the steps multiply it.
 */
static double tolerance(const struct scheme *s, enum lk_optim_kind kind, int n, double gained)
{
    double u =
        lk_hook_rounds(&s->hook) && n > 1 ? lk_dtype_unit_roundoff(lk_hook_wire(&s->hook)) : 0;

    return 1e-5 + (kind == LK_OPTIM_ADAMW || kind == LK_OPTIM_LAMB ? 4 : 1) * 2 * n * u * gained;
}

static void compare(const struct scheme *s, size_t optimizer, int n, int accumulation,
                    bool sync_every)
{
    static const struct scheme plain = {.name = "one rank"};
    struct scheme alone = plain;
    struct together one = {
        .scheme = &alone, .optim = optimizers[optimizer].config, .accumulation = 1};
    struct together all = {
        .scheme = s, .optim = one.optim, .accumulation = accumulation, .sync_every = sync_every};
    double gained, most = 0;

    alone.clip_norm = s->clip_norm;
    run(1, &one);
    run(n, &all);
    gained = one.results[0].loss[0] - one.results[0].loss[STEPS - 1];
    ck_assert_double_gt(gained, 0);
    for (int i = 0; i < STEPS; i++) {
        double off = fabs(all.results[0].loss[i] - one.results[0].loss[i]);

        most = fmax(most, off);
        ck_assert_msg(off <= tolerance(s, one.optim.kind, n, gained),
                      "%s, %s, %d ranks, accumulation %d: the loss of step %d is %g, not %g",
                      s->name, optimizers[optimizer].name, n, accumulation, i,
                      all.results[0].loss[i], one.results[0].loss[i]);
    }
    if (lk_hook_rounds(&s->hook) && n > 1)
        ck_assert_double_gt(most, 0);
    drop(1, &one);
    drop(n, &all);
}

START_TEST(as_one_rank_on_the_global_batch)
{
    const struct scheme *s = &schemes[_i / 4];
    int n = 1 + _i % 4;

    for (size_t k = 0; k < LK_COUNT(optimizers); k++)
        for (int a = 1; a <= (k < 3 ? ACCUMULATIONS : 1); a++)
            if (!s->plain_sgd || k == 0)
                compare(s, k, n, a, false);
    if (!lk_averaging_is_on(&s->averaging))
        compare(s, 1, n, 2, true);
}
END_TEST

/* A limit below the gradients' norm slows SGD down: the matrix's rows do clip. */
START_TEST(clipping_changes_what_is_learnt)
{
    static const struct scheme plain = {.name = "not clipped"};
    struct together free_one = {.scheme = &plain, .optim = optimizers[0].config, .accumulation = 1};
    struct together clipped = {
        .scheme = &schemes[4], .optim = optimizers[0].config, .accumulation = 1};

    run(1, &free_one);
    run(1, &clipped);
    ck_assert_double_gt(clipped.results[0].loss[STEPS - 1],
                        free_one.results[0].loss[STEPS - 1] + 1e-3);
    drop(1, &free_one);
    drop(1, &clipped);
}
END_TEST

/* With plain SGD a step that averages behind it is a step of DDP. So local SGD that averages behind
 * step 0, 3, 6 and DiLoCo of rate 1, without momentum, behind 2, 5 after a step of DDP agree. */
START_TEST(diloco_without_an_outer_optimizer_is_local_sgd)
{
    static const struct scheme local = {.name = "local-sgd",
                                        .averaging = {LK_SHARDING_LOCAL_SGD, 3, 0, 0, 0}};
    static const struct scheme outer = {.name = "diloco",
                                        .averaging = {LK_SHARDING_DILOCO, 3, 1, 1, 0}};
    static const struct scheme momentum = {.name = "diloco with momentum",
                                           .averaging = {LK_SHARDING_DILOCO, 3, 1, 0.7, 0.9}};
    struct together a = {.scheme = &local, .optim = optimizers[0].config, .accumulation = 1};
    struct together b = {.scheme = &outer, .optim = optimizers[0].config, .accumulation = 1};
    struct together c = {.scheme = &momentum, .optim = optimizers[0].config, .accumulation = 1};
    double apart = 0;

    run(3, &a);
    run(3, &b);
    run(3, &c);
    for (int i = 0; i < STEPS; i++) {
        ck_assert_double_eq_tol(a.results[0].loss[i], b.results[0].loss[i], 1e-5);
        apart = fmax(apart, fabs(a.results[0].loss[i] - c.results[0].loss[i]));
    }
    ck_assert_double_gt(apart, 1e-4);
    drop(3, &a);
    drop(3, &b);
    drop(3, &c);
}
END_TEST

SUITE(schemes, tc)
{
    tcase_add_loop_test(tc, as_one_rank_on_the_global_batch, 0, 4 * LK_COUNT(schemes));
    tcase_add_test(tc, clipping_changes_what_is_learnt);
    tcase_add_test(tc, diloco_without_an_outer_optimizer_is_local_sgd);
}
