/*
 * Checkpoints of a training: one that goes on from any of them ends with the same bits; files that
 * are damaged, of other runs or cannot be written; writers that are killed.
 */
#include "runtime/train/checkpoint.h"

#include "base/array.h"
#include "base/file.h"
#include "base/rng.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 9, WORLD_MAX = 4 };

/* A run in the test's folder. */
struct run {
    int ranks, every, keep, steps;
    enum lk_optim_kind optimizer;
    double momentum;
    int accumulation;
    enum lk_sharding scheme; /* of averaged parameters, or async, 2 steps late */
    enum lk_compression compression;
    const char *dir; /* of checkpoints, in the test's folder */
    char *resume;    /* NULL: a new run */
    double loss[WORLD_MAX][STEPS];
    char *weights; /* exported to here, in the test's folder */
};

static struct run usual(void)
{
    return (struct run){.ranks = 1,
                        .every = 1,
                        .keep = 100,
                        .steps = STEPS,
                        .optimizer = LK_OPTIM_ADAMW,
                        .accumulation = 1,
                        .dir = "all"};
}

static enum lk_status run_rank(struct rank *me)
{
    struct run *run = me->ctx;
    struct lk_train_config c = small_train("cpu", run->steps);
    struct lk_train_result result = {0};
    char *dir = scratch_path(scratch_dir, run->dir), *weights = NULL;
    enum lk_status st = LK_OK;

    c.comm = run->ranks > 1 ? "tcp" : "self";
    c.comm_config.world_size = run->ranks;
    c.comm_config.rank = me->rank;
    c.reducer.accumulation = run->accumulation;
    /* Small buckets, which are rebuilt after the first step: their bounds are in the sums' bits. */
    c.reducer.first_bytes = c.reducer.cap_bytes = 5000;
    c.reducer.staleness = run->scheme == LK_SHARDING_ASYNC ? 2 : 0;
    c.averaging = (struct lk_averaging_config){run->scheme, 3, 1, 0.7, 0.9};
    c.hook = (struct lk_hook_config){run->compression, 2, 3, 1, 1, 0};
    c.samples = 64;
    c.optim.kind = run->optimizer;
    c.optim.momentum = run->momentum;
    c.optim.trust = 0.02;
    c.optim.weight_decay = 0.1;
    c.optim.warmup_steps = 4;
    c.check_every = 1;
    c.checkpoint = (struct lk_checkpoint_config){
        .dir = dir, .every = run->every, .keep = run->keep, .resume = run->resume};
    if (run->weights && me->rank == 0)
        c.export_path = weights = scratch_path(scratch_dir, run->weights);
    if (run->ranks > 1)
        LK_TRY(rank_connect(me, &c.comm_config.store));
    st = lk_train(&c, &result);
    for (int i = 0; i < run->steps && result.loss; i++)
        run->loss[me->rank][i] = result.loss[i];
out:
    lk_train_result_fini(&result);
    lk_store_close(c.comm_config.store);
    free(weights);
    free(dir);
    return st;
}

static enum lk_status train(struct run *run)
{
    struct rank ranks[RANKS_MAX] = {0};

    if (run->ranks == 1) {
        ranks[0].ctx = run;
        return run_rank(&ranks[0]);
    }
    ranks_run_threads(run->ranks, WAIT_PLENTY_NS, run_rank, run, ranks);
    for (int r = 0; r < run->ranks; r++)
        if (ranks[r].status != LK_OK)
            return lk_fail(ranks[r].status, "%s", ranks[r].text);
    return LK_OK;
}

static void must_train(struct run *run)
{
    ck_assert_msg(train(run) == LK_OK, "%s", lk_error_text());
}

static char *checkpoint(const char *dir, int steps)
{
    char *path;

    ck_assert_int_eq(lk_asprintf(&path, "%s/%s/step-%09d.safetensors", scratch_dir, dir, steps),
                     LK_OK);
    return path;
}

static void refused(struct run *r, const char *says)
{
    ck_assert_int_ne(train(r), LK_OK);
    ck_assert_msg(strstr(lk_error_text(), says) != NULL, "%s", lk_error_text());
}

/* ---- Bits ---- */

static const struct {
    int ranks, accumulation;
    enum lk_optim_kind optimizer;
    double momentum;
    enum lk_sharding scheme;
    enum lk_compression compression;
} kinds[] = {
    {1, 1, LK_OPTIM_ADAMW, 0, 0, 0},
    {1, 3, LK_OPTIM_SGD, 0.9, 0, 0},
    {1, 1, LK_OPTIM_SGD, 0, 0, 0},
    {3, 1, LK_OPTIM_ADAMW, 0, 0, 0},
    {1, 1, LK_OPTIM_LAMB, 0, 0, 0},
    {2, 1, LK_OPTIM_LARS, 0.9, 0, 0},
    {4, 2, LK_OPTIM_SGD, 0.9, 0, 0},
    {2, 1, LK_OPTIM_ADAMW, 0, LK_SHARDING_ASYNC, 0},
    {3, 2, LK_OPTIM_SGD, 0.9, LK_SHARDING_ASYNC, LK_COMPRESSION_BF16},
    {2, 1, LK_OPTIM_SGD, 0.9, 0, LK_COMPRESSION_POWERSGD},
    {3, 2, LK_OPTIM_ADAMW, 0, LK_SHARDING_ASYNC, LK_COMPRESSION_POWERSGD},
    {2, 1, LK_OPTIM_ADAMW, 0, LK_SHARDING_LOCAL_SGD, 0},
    {3, 2, LK_OPTIM_SGD, 0.9, LK_SHARDING_DILOCO, 0},
    {1, 1, LK_OPTIM_ADAMW, 0, LK_SHARDING_DILOCO, 0},
};

/* Go on from every checkpoint of a run: the losses, the weights and the files behind it are the
 * same, byte for byte but for the times in them. */
START_TEST(goes_on_bit_for_bit)
{
    struct run whole = usual(), part;

    whole.ranks = kinds[_i].ranks;
    whole.accumulation = kinds[_i].accumulation;
    whole.optimizer = kinds[_i].optimizer;
    whole.momentum = kinds[_i].momentum;
    whole.scheme = kinds[_i].scheme;
    whole.compression = kinds[_i].compression;
    whole.weights = "whole.weights";
    must_train(&whole);
    for (int from = 1; from < STEPS; from++) {
        struct lk_tensor_file a = {0}, b = {0};
        char *last[2];

        part = whole;
        part.dir = "part";
        part.weights = "part.weights";
        part.resume = checkpoint("all", from);
        must_train(&part);
        scratch_same(scratch_dir, "whole.weights", "part.weights");
        for (int r = 0; r < whole.ranks; r++)
            for (int i = 0; i < STEPS; i++) {
                ck_assert_int_eq(isnan(part.loss[r][i]), i < from);
                ck_assert_msg(i < from || part.loss[r][i] == whole.loss[r][i],
                              "from %d: step %d has loss %.17g, not %.17g", from, i,
                              part.loss[r][i], whole.loss[r][i]);
            }
        last[0] = checkpoint("all", STEPS);
        last[1] = checkpoint("part", STEPS);
        ck_assert_int_eq(lk_checkpoint_read(last[0], &a), LK_OK);
        ck_assert_int_eq(lk_checkpoint_read(last[1], &b), LK_OK);
        ck_assert_uint_eq(a.n_rows, b.n_rows);
        for (size_t i = 0; i < a.n_rows; i++) /* the optimizer's state among them */
            ck_assert_msg(!memcmp(a.rows[i].data, b.rows[i].data,
                                  a.rows[i].elems * lk_dtype_bytes(a.rows[i].dtype)),
                          "from %d: %s", from, a.rows[i].name);
        lk_tensor_file_fini(&a);
        lk_tensor_file_fini(&b);
        free(last[0]);
        free(last[1]);
        free(part.resume);
    }
}
END_TEST

/* Where ranks have state of their own, a checkpoint is of as many ranks, and of the scheme. */
START_TEST(own_state_is_of_its_ranks)
{
    struct run two = usual(), other;

    two.ranks = 2;
    two.steps = 5;
    two.compression = LK_COMPRESSION_POWERSGD;
    must_train(&two);
    other = two;
    other.steps = STEPS;
    other.dir = "other";
    other.resume = checkpoint("all", 5);
    other.ranks = 3;
    refused(&other, "has state of its own for each of 2 ranks, and this run has 3");
    other.ranks = 2;
    other.compression = LK_COMPRESSION_NONE;
    refused(&other, "it is of another model, optimizer or scheme");
    other.scheme = LK_SHARDING_LOCAL_SGD;
    refused(&other, "it is of another model, optimizer or scheme");
    free(other.resume);
}
END_TEST

/* On other ranks the samples go on behind those that were read. */
START_TEST(other_ranks_go_on)
{
    struct run one = usual(), two;
    struct lk_tensor_file f = {0};
    char *path;

    one.steps = 4;
    must_train(&one);
    two = usual();
    two.ranks = 2;
    two.dir = "two";
    two.resume = checkpoint("all", 4);
    must_train(&two);
    path = checkpoint("two", STEPS);
    ck_assert_int_eq(lk_checkpoint_read(path, &f), LK_OK);
    ck_assert_str_eq(lk_tensor_file_text(&f, "batches"), "7"); /* 4 / 2 + 5 */
    ck_assert_str_eq(lk_tensor_file_text(&f, "ranks"), "2");
    lk_tensor_file_fini(&f);
    free(two.resume);
    free(path);
}
END_TEST

START_TEST(keeps_the_last)
{
    struct run r = usual();
    char **names = NULL;
    char *dir = scratch_path(scratch_dir, "all");
    size_t n = 0;

    r.every = 2;
    r.keep = 3;
    must_train(&r);
    ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(names[0], "step-000000006.safetensors");
    ck_assert_str_eq(names[1], "step-000000008.safetensors");
    ck_assert_str_eq(names[2], "step-000000009.safetensors"); /* the last step */
    lk_names_free(names, n);
    free(dir);
}
END_TEST

/* ---- Files that are not taken ---- */

/* Change a byte in the middle of a file. */
static void damage(const char *path)
{
    FILE *f = fopen(path, "r+b");
    int byte;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, -5000, SEEK_END), 0);
    byte = fgetc(f);
    ck_assert_int_eq(fseek(f, -5000, SEEK_END), 0);
    ck_assert_int_eq(fputc(byte ^ 1, f), byte ^ 1);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(damaged_one_offers_the_one_before)
{
    struct run r = usual();
    char *two, *offered;

    r.steps = 3;
    must_train(&r);
    r.steps = STEPS;
    r.resume = checkpoint("all", 3);
    two = checkpoint("all", 2);
    ck_assert_int_eq(lk_asprintf(&offered, "--resume=%s/all/step-000000001", scratch_dir), LK_OK);
    damage(r.resume);
    refused(&r, "step-000000003.safetensors: is damaged");
    refused(&r, "all/step-000000002.safetensors");
    damage(two); /* the one before that is offered */
    refused(&r, offered);
    free(r.resume);
    free(offered);
    free(two);
}
END_TEST

START_TEST(of_another_run)
{
    struct run r = usual();

    r.steps = 3;
    must_train(&r);
    r.resume = checkpoint("all", 3);
    refused(&r, "none is left");
    r.steps = STEPS;
    r.optimizer = LK_OPTIM_SGD;
    refused(&r, "it is of another model, optimizer or scheme");
    r.momentum = 0.9;
    refused(&r, "has no 'optimizer.momentum.");
    free(r.resume);
    r.resume = checkpoint("all", 7);
    refused(&r, "step-000000007");
    free(r.resume);
}
END_TEST

/* ---- Writers that fail ---- */

/* A disk that is full: training goes on, its end fails, and the file before stays whole. */
START_TEST(full_disk)
{
    struct run r = usual();
    struct rlimit limit = {20000, 20000}, before;
    struct lk_tensor_file f = {0};
    char *first, *dir = scratch_path(scratch_dir, "all"), **names = NULL;
    size_t n = 0;

    r.steps = 3;
    r.every = 3;
    must_train(&r);
    first = checkpoint("all", 3);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    r.resume = first;
    r.steps = STEPS;
    r.weights = NULL;
    ck_assert_int_eq(train(&r), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "step-000000009.safetensors"));
    ck_assert(isfinite(r.loss[0][STEPS - 1]));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(lk_checkpoint_read(first, &f), LK_OK);
    lk_tensor_file_fini(&f);
    lk_names_free(names, n);
    free(first);
    free(dir);
}
END_TEST

/* Write files of 8 MB without end. */
static void write_for_ever(const char *dir)
{
    const struct lk_tensor_row row = {.name = "x", .dtype = LK_F32, .elems = 2 << 20};
    struct lk_checkpoints *c = NULL;

    if (lk_checkpoints_open(dir, 3, &c) != LK_OK)
        _exit(1);
    for (int64_t step = 1;; step++) {
        struct lk_tensor_file *f = lk_checkpoints_take(c);

        if (lk_tensor_file_lay_out(f, NULL, 0, &row, 1) != LK_OK)
            _exit(1);
        memset(f->rows[0].data, (int)step, row.elems * sizeof(float));
        lk_checkpoints_put(c, step);
    }
}

enum { MOST_KILLS = 50 }; /* until one is in the middle */

/* Return whether a file is being written in the folder. */
static bool is_written(const char *dir)
{
    char **names = NULL;
    size_t n = 0, halves = 0;

    ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
    for (size_t k = 0; k < n; k++)
        halves += strstr(names[k], ".tmp.") != NULL;
    lk_names_free(names, n);
    return halves > 0;
}

/* Whenever a writer is killed, at any time or as soon as it writes, the files with names of
 * checkpoints are whole; the next writer removes what was half written. */
START_TEST(killed_in_the_middle_of_writing)
{
    struct lk_rng g = lk_rng_init(7, 0);
    char *dir = scratch_path(scratch_dir, "killed");
    size_t halves = 0;

    for (size_t i = 0; i < cases_or(8) || (!halves && i < MOST_KILLS); i++) {
        struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);
        char **names = NULL, *path = NULL;
        pid_t child = fork();
        size_t n = 0;

        ck_assert_int_ge(child, 0);
        if (!child)
            write_for_ever(dir);
        while (lk_checkpoint_find(dir, INT64_MAX, &path) != LK_OK)
            ck_assert_int_gt((int64_t)lk_deadline_left_ns(end), 0);
        free(path);
        usleep((useconds_t)lk_rng_below(&g, 60000));
        while (i % 2 && !is_written(dir))
            ck_assert_int_gt((int64_t)lk_deadline_left_ns(end), 0);
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
        for (size_t k = 0; k < n; k++) {
            struct lk_tensor_file f = {0};

            path = scratch_path(dir, names[k]);
            if (lk_checkpoint_steps(names[k]) < 0)
                halves++;
            else
                ck_assert_msg(lk_checkpoint_read(path, &f) == LK_OK, "%s", lk_error_text());
            ck_assert_msg(lk_checkpoint_steps(names[k]) >= 0 || strstr(names[k], ".tmp."), "%s",
                          names[k]);
            lk_tensor_file_fini(&f);
            free(path);
        }
        ck_assert_uint_le(n, 5); /* three, one that was to be removed, a half one */
        lk_names_free(names, n);
    }
    ck_assert_uint_gt(halves, 0);
    free(dir);
}
END_TEST

SUITE(checkpoint, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, goes_on_bit_for_bit, 0, (int)LK_COUNT(kinds));
    tcase_add_test(t, own_state_is_of_its_ranks);
    tcase_add_test(t, other_ranks_go_on);
    tcase_add_test(t, keeps_the_last);
    tcase_add_test(t, damaged_one_offers_the_one_before);
    tcase_add_test(t, of_another_run);
    tcase_add_test(t, full_disk);
    tcase_add_test(t, killed_in_the_middle_of_writing);
}
