/*
 * Uneven inputs: ranks whose batches differ, or that run out of samples, train as one rank does on
 * the samples of all, or as PyTorch's Join. Samples are dealt as docs/ddp.md says, none twice.
 */
#include "base/array.h"
#include "base/file.h"
#include "runtime/train/trainer.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"
#include "tests/rigs/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Shares ---- */

static const struct {
    int ranks;
    int64_t batches[4]; /* 0: all have local_batch */
    int local_batch, accumulation;
    size_t samples;
    enum lk_uneven uneven;
    int64_t most[4]; /* 0: none */
    /* An epoch has so many micro-batches of whole steps, samples that are read, and different ones.
     */
    size_t micro_batches, reads, kinds;
} dealt[] = {
    {3, {0}, 2, 1, 20, LK_UNEVEN_DROP, {0}, 3, 18, 18},
    {3, {0}, 2, 1, 20, LK_UNEVEN_PAD, {0}, 4, 21, 20},
    {3, {0}, 2, 1, 20, LK_UNEVEN_JOIN, {0}, 4, 20, 20},
    {3, {0}, 2, 3, 20, LK_UNEVEN_JOIN, {0}, 6, 20, 20},
    {3, {4, 4, 2}, 0, 1, 20, LK_UNEVEN_JOIN, {0}, 2, 20, 20},
    {3, {4, 4, 2}, 0, 1, 25, LK_UNEVEN_JOIN, {0}, 3, 25, 25},
    {3, {4, 4, 2}, 0, 1, 25, LK_UNEVEN_DROP, {0}, 2, 20, 20},
    {3, {4, 4, 2}, 0, 1, 25, LK_UNEVEN_PAD, {0}, 3, 26, 25},
    {3, {4, 4, 2}, 0, 1, 29, LK_UNEVEN_PAD, {0}, 3, 30, 29},
    {4, {1, 2, 3, 4}, 0, 2, 57, LK_UNEVEN_JOIN, {0}, 6, 57, 57},
    {3, {0}, 2, 1, 20, LK_UNEVEN_JOIN, {7, 2, 5}, 4, 14, 14},
};

static struct lk_shares_config shares_of(int i)
{
    return (struct lk_shares_config){
        .sampler = {.samples = dealt[i].samples,
                    .ranks = dealt[i].ranks,
                    .uneven = dealt[i].uneven,
                    .batches = dealt[i].batches[0] ? dealt[i].batches : NULL,
                    .most = dealt[i].most[0] ? dealt[i].most : NULL},
        .local_batch = dealt[i].local_batch,
        .accumulation = dealt[i].accumulation,
    };
}

/* All ranks together read what is said of an epoch, and micro-batch n of them is the positions from
 * n B on, of which the rank before reads the earlier one. */
START_TEST(every_sample_is_dealt_once)
{
    struct lk_shares_config c = shares_of(_i);
    struct lk_sampler *samplers[4] = {NULL};
    struct lk_shares *s = NULL;
    size_t seen[64] = {0}, reads = 0, kinds = 0;

    ck_assert_int_eq(lk_shares_create(&c, &s), LK_OK);
    ck_assert_double_eq(lk_shares_steps_an_epoch(s) * c.accumulation,
                        (double)dealt[_i].micro_batches);
    for (c.sampler.rank = 0; c.sampler.rank < dealt[_i].ranks; c.sampler.rank++)
        ck_assert_int_eq(lk_sampler_create(&c.sampler, &samplers[c.sampler.rank]), LK_OK);
    for (uint64_t n = 0; n < dealt[_i].micro_batches; n++)
        for (int r = 0; r < dealt[_i].ranks; r++) {
            const struct lk_share share = lk_shares_of(s, r, n);

            ck_assert_uint_eq(share.epoch, 0);
            for (int k = 0; k < share.samples; k++) {
                size_t at = lk_sampler_index(samplers[r], share.first + (size_t)k);
                size_t block = (size_t)lk_shares_batch(s);

                ck_assert_msg(at / block == n || dealt[_i].uneven == LK_UNEVEN_PAD,
                              "sample %zu is in micro-batch %zu", at, (size_t)n);
                kinds += seen[at]++ == 0;
                reads++;
            }
        }
    ck_assert_uint_eq(reads, dealt[_i].reads);
    ck_assert_uint_eq(kinds, dealt[_i].kinds);
    for (int r = 0; r < dealt[_i].ranks; r++)
        lk_sampler_destroy(samplers[r]);
    lk_shares_destroy(s);
}
END_TEST

/* By samples, the weights of a step are those of samples, whatever ranks run out. */
START_TEST(weights_are_of_samples)
{
    struct lk_shares_config c = shares_of(_i);
    struct lk_shares *s = NULL;
    double all = (double)c.accumulation * c.sampler.ranks;

    c.divide = LK_DIVIDE_SAMPLES;
    ck_assert_int_eq(lk_shares_create(&c, &s), LK_OK);
    for (uint64_t n = 0; n < 3 * dealt[_i].micro_batches; n += (uint64_t)c.accumulation) {
        double samples = (double)lk_shares_samples(s, n), sum = 0;

        for (int r = 0; r < c.sampler.ranks; r++)
            for (int m = 0; m < c.accumulation; m++) {
                double weight = lk_shares_weight(s, r, n, m) / all;

                ck_assert_double_eq_tol(
                    weight, lk_shares_of(s, r, n + (uint64_t)m).samples / samples, 1e-15);
                sum += weight;
            }
        ck_assert_double_eq_tol(sum, 1, 1e-12);
    }
    lk_shares_destroy(s);
}
END_TEST

/* 20 samples on 3 ranks by 2: ranks 0 and 1 have a last one, rank 2 none. */
START_TEST(joined_ranks_weigh_as_in_join)
{
    struct lk_shares_config c = shares_of(2);
    struct lk_shares *s = NULL;

    for (c.divide = LK_DIVIDE_INITIAL; c.divide <= LK_DIVIDE_SAMPLES; c.divide++) {
        const double last[] = {1, 1.5, 1.5};

        ck_assert_int_eq(lk_shares_create(&c, &s), LK_OK);
        for (int r = 0; r < 3; r++) {
            ck_assert_double_eq(lk_shares_weight(s, r, 1, 0), 1);
            ck_assert_double_eq(lk_shares_weight(s, r, 3, 0), r < 2 ? last[c.divide] : 0);
        }
        ck_assert_int_eq(lk_shares_last_rank(s, 3, 0), 1);
        ck_assert_int_eq(lk_shares_last_rank(s, 2, 0), 2);
        ck_assert(lk_shares_ends_epoch(s, 3) && !lk_shares_ends_epoch(s, 2));
        ck_assert(!lk_shares_is_whole(s, 3) && lk_shares_is_whole(s, 2));
        lk_shares_destroy(s);
    }
}
END_TEST

/* A run is refused where it comes to samples that fill no batch of all ranks, and not before. */
START_TEST(an_error_explains)
{
    struct lk_shares_config c = {.sampler = {.samples = 20, .ranks = 3, .uneven = LK_UNEVEN_ERROR},
                                 .local_batch = 2,
                                 .accumulation = 1};
    static const char *const words[] = {"notes.txt",    "20 samples",    "6 samples on 3 ranks",
                                        "2 of each",    "--uneven=drop", "--uneven=pad",
                                        "--uneven=join"};
    struct lk_shares *s = NULL;

    ck_assert_int_eq(lk_shares_create(&c, &s), LK_OK);
    ck_assert_int_eq(lk_shares_check(s, "notes.txt", 3), LK_OK);
    ck_assert_int_eq(lk_shares_check(s, "notes.txt", 4), LK_EUSAGE);
    for (size_t i = 0; i < LK_COUNT(words); i++)
        ck_assert_msg(strstr(lk_error_text(), words[i]) != NULL, "%s", lk_error_text());
    lk_shares_destroy(s);
    c.sampler.samples = 18;
    ck_assert_int_eq(lk_shares_create(&c, &s), LK_OK);
    ck_assert_int_eq(lk_shares_check(s, "notes.txt", 400), LK_OK);
    lk_shares_destroy(s);
    c.sampler.uneven = LK_UNEVEN_JOIN;
    c.sampler.samples = 2; /* rank 2 has none */
    ck_assert_int_eq(lk_shares_create(&c, &s), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank 2"));
}
END_TEST

/* ---- Ranks are one rank ---- */

static const struct lk_model_config models[] = {
    {.name = "gpt", .layers = 1, .heads = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 3},
    {.name = "mlp", .layers = 2, .channels = 16, .context = 8, .vocab = 32, .seed = 3},
    {.name = "resnet-small",
     .channels = 4,
     .image = 8,
     .vocab = 4,
     .sync_batch_norm = true,
     .seed = 3},
};
enum { GPT, MLP, RESNET };

static const struct setting {
    int model, ranks;
    int64_t batches[4]; /* 0: equal */
    int accumulation;
    enum lk_uneven uneven;
    int64_t most[4];
    enum lk_sharding sharding;
    bool every; /* all micro-batches are reduced */
    enum lk_compression hook;
    double tolerance;
} settings[] = {
    {GPT, 2, {5, 3}, 1, LK_UNEVEN_ERROR, {0}, LK_SHARDING_DDP, false, LK_COMPRESSION_NONE, 1e-5},
    {GPT, 3, {4, 3, 1}, 2, LK_UNEVEN_ERROR, {0}, LK_SHARDING_DDP, false, 0, 1e-5},
    {MLP, 4, {1, 1, 2, 4}, 2, LK_UNEVEN_ERROR, {0}, LK_SHARDING_DDP, true, 0, 1e-5},
    {RESNET, 3, {4, 3, 1}, 1, LK_UNEVEN_ERROR, {0}, LK_SHARDING_DDP, false, 0, 5e-3},
    {GPT, 3, {4, 3, 1}, 2, LK_UNEVEN_ERROR, {0}, LK_SHARDING_ZERO1, false, 0, 1e-5},
    {MLP, 2, {5, 3}, 2, LK_UNEVEN_ERROR, {0}, LK_SHARDING_ZERO2, false, 0, 1e-5},
    {GPT, 4, {1, 1, 2, 4}, 1, LK_UNEVEN_ERROR, {0}, LK_SHARDING_ZERO3, false, 0, 1e-5},
    {GPT, 4, {1, 1, 2, 4}, 2, LK_UNEVEN_ERROR, {0}, LK_SHARDING_HSDP, false, 0, 1e-5},
    {GPT, 2, {5, 3}, 1, LK_UNEVEN_ERROR, {0}, LK_SHARDING_DDP, false, LK_COMPRESSION_BF16, 2e-3},
    /* Epochs of 17 samples: two whole micro-batches, and one sample, so that all ranks but one
       shadow. */
    {GPT, 4, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, false, 0, 1e-5},
    {GPT, 2, {0}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, false, 0, 1e-5},
    {MLP, 4, {0}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, true, 0, 1e-5},
    {MLP, 3, {4, 3, 1}, 3, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, false, 0, 1e-5},
    {MLP, 3, {4, 3, 1}, 3, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, true, 0, 1e-5},
    {GPT, 4, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, false, LK_COMPRESSION_FP16, 2e-3},
    {MLP, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, true, LK_COMPRESSION_FP16, 2e-3},
    {GPT, 4, {0}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, false, LK_COMPRESSION_BF16, 8e-3},
    {MLP, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_DDP, true, LK_COMPRESSION_BF16, 8e-3},
    {GPT, 4, {0}, 2, LK_UNEVEN_JOIN, {0}, 0, false, LK_COMPRESSION_POWERSGD, 1e-5},
    {MLP, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, 0, true, LK_COMPRESSION_POWERSGD, 1e-5},
    {GPT, 4, {0}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ASYNC, false, 0, 1e-5},
    {MLP, 3, {4, 3, 1}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ASYNC, false, 0, 1e-5},
    {MLP, 2, {5, 3}, 2, LK_UNEVEN_ERROR, {0}, LK_SHARDING_ASYNC, false, 0, 1e-5},
    {GPT, 2, {0}, 2, LK_UNEVEN_DROP, {0}, LK_SHARDING_ZERO2, false, 0, 1e-5},
    {GPT, 4, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO1, false, 0, 1e-5},
    {MLP, 3, {4, 3, 1}, 3, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO1, false, 0, 1e-5},
    {MLP, 3, {4, 3, 1}, 3, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO1, true, 0, 1e-5},
    {MLP, 4, {0}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO2, true, 0, 1e-5},
    {GPT, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO2, false, 0, 1e-5},
    {GPT, 4, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO2, true, 0, 1e-5},
};
enum { STEPS = 8, BATCH = 8, UNEVEN_SAMPLES = 17, FULL_RANK = 64 };

struct together {
    const struct setting *s;
    bool alone, verify;
    enum lk_divide divide;
    int64_t steps, checkpoint_every;
    const char *path, *resume, *dir;
    struct lk_train_result results[RANKS_MAX];
};

static struct lk_train_config config(const struct together *t, int rank)
{
    const struct setting *s = t->s;
    struct lk_train_config c = small_train("cpu", (int)t->steps);
    int ranks = t->alone ? 1 : s->ranks;

    c.comm = ranks == 1 ? "self" : "tcp";
    c.comm_config.world_size = ranks;
    c.comm_config.rank = rank;
    c.model = models[s->model];
    c.samples = s->uneven == LK_UNEVEN_ERROR ? 4 * STEPS * BATCH : UNEVEN_SAMPLES;
    c.sampler.uneven = s->uneven;
    c.local_batch = BATCH / ranks;
    c.divide = t->divide;
    c.reducer.accumulation = s->accumulation;
    c.reducer.no_sync = !s->every;
    c.optim =
        (struct lk_optim_config){.kind = LK_OPTIM_SGD, .learning_rate = 0.05, .momentum = 0.9};
    c.broadcast_buffers = true;
    c.verify = t->verify;
    c.export_path = t->path;
    c.checkpoint = (struct lk_checkpoint_config){
        .dir = t->dir, .every = t->checkpoint_every, .keep = 9, .resume = t->resume};
    c.reducer.staleness = s->sharding == LK_SHARDING_ASYNC ? 1 : 0;
    if (t->alone) {
        if (s->uneven == LK_UNEVEN_JOIN)
            c.sampler.uneven = LK_UNEVEN_PAD; /* which pads nothing on one rank, by samples */
        return c;
    }
    c.reducer.sharding = s->sharding;
    c.reducer.shard_group = s->sharding == LK_SHARDING_HSDP ? 2 : 0;
    c.hook = (struct lk_hook_config){s->hook, FULL_RANK, 2, 1e-3, 1, 0}; /* powersgd is exact */
    c.check_every = 1; /* a rank that ran out has the others' weights after every step */
    c.sampler.batches = s->batches[0] ? s->batches : NULL;
    c.sampler.most = s->most[0] ? s->most : NULL;
    c.local_batch = s->batches[0] ? (int)s->batches[rank] : c.local_batch;
    return c;
}

static enum lk_status train_rank(struct rank *me)
{
    struct together *t = me->ctx;
    struct lk_train_config c = config(t, me->rank);
    enum lk_status st = LK_OK;

    LK_TRY(rank_connect(me, &c.comm_config.store));
    st = lk_train(&c, &t->results[me->rank]);
    lk_store_close(c.comm_config.store);
out:
    return st;
}

static void run(struct together *t)
{
    struct rank ranks[RANKS_MAX];
    int n = t->alone ? 1 : t->s->ranks;

    t->steps = t->steps ? t->steps : STEPS;
    ranks_run_threads(n, WAIT_PLENTY_NS, train_rank, t, ranks);
    for (int r = 0; r < n; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}

static void free_results(struct together *t)
{
    for (int r = 0; r < (t->alone ? 1 : t->s->ranks); r++)
        lk_train_result_fini(&t->results[r]);
}

START_TEST(ranks_are_one_rank)
{
    char *own = scratch_path(scratch_dir, "own"), *one = scratch_path(scratch_dir, "one");
    struct together t = {.s = &settings[_i], .divide = LK_DIVIDE_SAMPLES, .path = own};
    struct together alone = {.s = &settings[_i], .alone = true, .path = one};

    run(&alone);
    run(&t);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_eq_tol(t.results[0].loss[i], alone.results[0].loss[i],
                                settings[_i].tolerance);
    ck_assert_double_eq(t.results[0].samples, alone.results[0].samples);
    ck_assert_double_le(weights_apart(own, one), settings[_i].tolerance);
    free_results(&t);
    free_results(&alone);
    free(own);
    free(one);
}
END_TEST

/* The reference of --verify has each rank's weight, too. */
static const struct {
    struct setting s;
    enum lk_divide divide;
} verified[] = {
    {{GPT, 2, {5, 3}, 2, LK_UNEVEN_ERROR, {0}, 0, false, 0, 0}, 0},
    {{RESNET, 3, {4, 3, 1}, 2, LK_UNEVEN_ERROR, {0}, 0, false, 0, 0}, 0},
    {{MLP, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, 0, false, 0, 0}, LK_DIVIDE_INITIAL},
    {{MLP, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, 0, true, 0, 0}, LK_DIVIDE_ACTIVE},
    {{MLP, 2, {0}, 2, LK_UNEVEN_JOIN, {3, 9}, 0, false, 0, 0}, LK_DIVIDE_ACTIVE},
    {{MLP, 2, {0}, 1, LK_UNEVEN_JOIN, {9, 3}, 0, false, LK_COMPRESSION_BF16, 0}, 0},
    {{MLP, 2, {0}, 2, LK_UNEVEN_PAD, {0}, LK_SHARDING_ZERO3, false, 0, 0}, 0},
    {{MLP, 2, {0}, 2, LK_UNEVEN_JOIN, {3, 9}, LK_SHARDING_ZERO1, false, 0, 0}, LK_DIVIDE_INITIAL},
    {{GPT, 3, {4, 3, 1}, 2, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO2, true, 0, 0}, LK_DIVIDE_ACTIVE},
};

START_TEST(every_step_is_verified)
{
    struct together t = {.s = &verified[_i].s, .divide = verified[_i].divide, .verify = true};

    run(&t);
    for (int r = 0; r < t.s->ranks; r++)
        ck_assert_double_le(t.results[r].verify_max_error, t.results[r].verify_allowed);
    free_results(&t);
}
END_TEST

/* A run goes on from any step of an epoch, those too in which ranks have run out, bit for bit. */
START_TEST(goes_on_anywhere)
{
    static const enum lk_sharding schemes[] = {LK_SHARDING_DDP, LK_SHARDING_ZERO1,
                                               LK_SHARDING_ZERO2};
    const struct setting s = {MLP,       3,           {4, 3, 1}, 2, LK_UNEVEN_JOIN,
                              {9, 4, 3}, schemes[_i], false,     0, 0};
    char *own = scratch_path(scratch_dir, "own"), *one = scratch_path(scratch_dir, "one");
    char *dir = scratch_path(scratch_dir, "checkpoints"), name[64], *from;
    struct together whole = {.s = &s, .path = one, .dir = dir, .checkpoint_every = 1};

    run(&whole);
    for (int step = 1; step < STEPS; step++) {
        struct together rest = {.s = &s, .path = own};

        snprintf(name, sizeof name, "step-%09d.safetensors", step);
        from = scratch_path(dir, name);
        rest.resume = from;
        run(&rest);
        for (int i = step; i < STEPS; i++)
            ck_assert_double_eq(rest.results[0].loss[i], whole.results[0].loss[i]);
        ck_assert_double_le(weights_apart(own, one), 0);
        free_results(&rest);
        free(from);
    }
    free_results(&whole);
    free(dir);
    free(own);
    free(one);
}
END_TEST

/* What cannot be is refused, by name. */
static const struct {
    struct setting s;
    const char *text;
} refused[] = {
    {{GPT, 2, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_ZERO3, false, 0, 0}, "zero3"},
    {{GPT, 2, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_GRAD_OP, false, 0, 0}, "FSDP"},
    {{GPT, 2, {0}, 1, LK_UNEVEN_JOIN, {0}, LK_SHARDING_LOCAL_SGD, false, 0, 0}, "ranks alike"},
    {{GPT, 2, {0}, 1, LK_UNEVEN_PAD, {0}, LK_SHARDING_DILOCO, false, 0, 0}, "ranks alike"},
    {{RESNET, 2, {0}, 1, LK_UNEVEN_JOIN, {0}, 0, false, 0, 0}, "SyncBatchNorm"},
};

START_TEST(is_refused)
{
    struct together t = {.s = &refused[_i].s, .steps = 1};
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(2, WAIT_PLENTY_NS, train_rank, &t, ranks);
    ck_assert_int_ne(ranks[0].status, LK_OK);
    ck_assert_msg(strstr(ranks[0].text, refused[_i].text) != NULL, "%s", ranks[0].text);
}
END_TEST

SUITE(uneven, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, every_sample_is_dealt_once, 0, LK_COUNT(dealt));
    tcase_add_loop_test(c, weights_are_of_samples, 0, LK_COUNT(dealt));
    tcase_add_test(c, joined_ranks_weigh_as_in_join);
    tcase_add_test(c, an_error_explains);
    tcase_add_loop_test(c, ranks_are_one_rank, 0, LK_COUNT(settings));
    tcase_add_loop_test(c, every_step_is_verified, 0, LK_COUNT(verified));
    tcase_add_loop_test(c, goes_on_anywhere, 0, 3);
    tcase_add_loop_test(c, is_refused, 0, LK_COUNT(refused));
}
