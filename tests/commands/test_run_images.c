/*
 * lockstep run with networks of images: what job.json says of SyncBatchNorm, buffers and memory,
 * that replay knows it, files of data, and checkpoints with running statistics.
 */
#include "base/array.h"
#include "facts/job.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMS = 12, RECORD = 3073, RECORDS = 24 };

/* A network of ten layers, twelve batch norms with those beside residual connections. */
#define JOB                                                                                        \
    "run --model=resnet-small --channels=4 --image=8 --vocab=4 -b4 --samples=96 --steps=8 "        \
    "--warmup=1 --noise-every=0 --no-pin --timeout=100s "

static struct lk_job job_of(const char *name)
{
    struct lk_job j = {0};
    char *path = NULL;

    ck_assert_int_eq(lk_asprintf(&path, "%s/%s/job.json", scratch_dir, name), LK_OK);
    ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
    free(path);
    return j;
}

/* DDP and SyncBatchNorm exchange this beside gradients, as options choose it. */
static const struct {
    const char *options;
    bool sync;
    size_t collectives; /* in job.json, SyncBatchNorm's left out */
    bool every;         /* of buffers, before every micro-batch's forward */
} exchanges[] = {
    {"-n2 --sync-batch-norm", true, 1, true},
    {"-n2 --sync-batch-norm --no-broadcast-buffers -a2", true, 0, false},
    {"-n2", false, 1, true},
    {"-n2 -a2", false, 1, false},
    {"-n2 -a2 --sync-every", false, 1, true},
    {"-n2 --no-broadcast-buffers", false, 0, false},
    {"-n1 --sync-batch-norm", true, 0,
     false}, /* nothing to exchange, but the job says what more would */
};

START_TEST(the_job_says_what_is_exchanged)
{
    struct lk_job j;
    struct program p;

    program_run(&p, scratch_dir, 0, JOB "%s --out=%s/run", exchanges[_i].options, scratch_dir);
    program_fini(&p);
    j = job_of("run");
    ck_assert_uint_eq(j.n_sync_bn, exchanges[_i].sync ? NORMS : 0);
    ck_assert_uint_eq(j.n_collectives, exchanges[_i].collectives);
    for (size_t i = 0; i < j.n_collectives; i++) {
        ck_assert_str_eq(j.collectives[i].function, "broadcast");
        ck_assert_uint_eq(j.collectives[i].bytes, 2 * 3 * (4 + 8 + 16 + 32) * sizeof(float));
        ck_assert_int_eq(j.collectives[i].every_micro_batch, exchanges[_i].every);
    }
    for (size_t i = 0; i < j.n_sync_bn; i++) {
        static const int channels[NORMS] = {4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32};

        ck_assert_int_eq(j.sync_bn[i].channels, channels[i]);
        ck_assert(j.sync_bn[i].at > 0 && j.sync_bn[i].at <= 1);
        ck_assert(i == 0 || j.sync_bn[i].at >= j.sync_bn[i - 1].at);
    }
    ck_assert_double_gt(j.memory_per_sample_bytes.value, 0);
    lk_job_fini(&j);
}
END_TEST

/* A replay of the job runs its collectives, which its traces then have. */
START_TEST(replay_runs_the_layers)
{
    struct lk_job j;
    struct program p;

    program_run(&p, scratch_dir, 0, JOB "-n2 --sync-batch-norm --out=%s/run", scratch_dir);
    program_fini(&p);
    program_run(&p, scratch_dir, 0,
                "replay %s/run/job.json -n2 --steps=4 --warmup=1 --out=%s/again", scratch_dir,
                scratch_dir);
    program_fini(&p);
    j = job_of("again");
    ck_assert_uint_eq(j.n_collectives, 2 * NORMS);
    lk_job_fini(&j);
}
END_TEST

START_TEST(the_job_has_a_transformers_shape)
{
    struct lk_job j;
    struct program p;

    program_run(
        &p, scratch_dir, 0,
        "run --model=gpt --layers=2 --heads=2 --channels=16 --context=8 --vocab=32 --steps=3 "
        "--warmup=0 --no-pin --out=%s/run",
        scratch_dir);
    program_fini(&p);
    j = job_of("run");
    ck_assert_int_eq(j.transformer.layers, 2);
    ck_assert_int_eq(j.transformer.hidden, 16);
    ck_assert_int_eq(j.transformer.heads, 2);
    ck_assert_int_eq(j.transformer.sequence, 8);
    ck_assert_int_eq(j.transformer.vocabulary, 32);
    ck_assert_int_eq(j.transformer.activation_bytes, 4);
    ck_assert_double_gt(j.memory_per_sample_bytes.value, 8 * 16 * 4 * 2 * 10);
    lk_job_fini(&j);
}
END_TEST

/* A run that goes on from a checkpoint ends with the weights and statistics of one that did not
 * end. */
START_TEST(checkpoints_hold_buffers)
{
    struct program p;

    program_run(&p, scratch_dir, 0, JOB "-n2 --out=%s/whole --export=%s/whole.weights", scratch_dir,
                scratch_dir);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, JOB "-n2 --checkpoint-every=3 --keep=9 --out=%s/first",
                scratch_dir);
    program_fini(&p);
    program_run(&p, scratch_dir, 0,
                JOB "-n2 --resume=%s/first/checkpoints/step-000000006.safetensors --out=%s/second "
                    "--export=%s/second.weights",
                scratch_dir, scratch_dir, scratch_dir);
    program_fini(&p);
    scratch_same(scratch_dir, "whole.weights", "second.weights");
}
END_TEST

/* Train on a file as CIFAR-10's, with one thread and with several: the same weights. */
START_TEST(threads_read_the_same_file)
{
    static unsigned char file[RECORDS * RECORD];
    static const int workers[] = {1, 3};
    struct program p;
    char *path;

    for (size_t i = 0; i < sizeof file; i++)
        file[i] = i % RECORD ? (unsigned char)(i * i % 253) : (unsigned char)(i / RECORD % 10);
    path = scratch_put("cifar.bin", file, sizeof file);
    for (size_t i = 0; i < LK_COUNT(workers); i++) {
        program_run(&p, scratch_dir, 0,
                    "run --model=resnet-small --channels=2 -b4 -n2 --steps=8 --warmup=0 --no-pin "
                    "--data=%s --prefetch=4 --workers=%d --out=%s/run%d --export=%s/weights%d",
                    path, workers[i], scratch_dir, workers[i], scratch_dir, workers[i]);
        program_fini(&p);
    }
    scratch_same(scratch_dir, "weights1", "weights3");
    file[5 * RECORD] = 77;
    free(scratch_put("cifar.bin", file, sizeof file));
    program_run(
        &p, scratch_dir, 1,
        "run --model=resnet-small --channels=2 -b4 --steps=8 --no-pin --data=%s --out=%s/bad", path,
        scratch_dir);
    program_assert_says(&p, "cifar.bin: image 5 has label 77, which is not in 0..9");
    program_fini(&p);
    free(path);
}
END_TEST

static const struct {
    const char *options, *message;
} refused[] = {
    {"--model=gpt --sync-batch-norm", "--sync-batch-norm needs a resnet"},
    {"--model=mlp --image=32", "model mlp: has no images"},
    {"--model=resnet18 --layers=17", "layers 17: there are networks of 10, 18"},
    {"--workers=4 --prefetch=2", "--workers: more threads than --prefetch has batches"},
    {"--data-format=mnist", "--data-format is of --data, not of synthetic data"},
    {"--model=resnet18 --data=/dev/null", "training data must be a regular file"},
};

START_TEST(refused_before_the_start)
{
    struct program p;

    program_run(&p, scratch_dir, 2, "run -n2 %s --out=%s/run", refused[_i].options, scratch_dir);
    program_assert_says(&p, refused[_i].message);
    program_fini(&p);
}
END_TEST

/* The last norms have two rows, which amplify every rounding before them. */
START_TEST(norms_of_few_rows_are_verified)
{
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run --model=resnet-small --image=8 --channels=4 -n4 -b2 -a2 --steps=3 --warmup=0 "
                "--no-pin --verify --seed=%d --timeout=100s --out=%s/run",
                _i, scratch_dir);
    program_fini(&p);
}
END_TEST

SUITE(run_images, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, the_job_says_what_is_exchanged, 0, LK_COUNT(exchanges));
    tcase_add_loop_test(c, norms_of_few_rows_are_verified, 1, 4);
    tcase_add_test(c, replay_runs_the_layers);
    tcase_add_test(c, the_job_has_a_transformers_shape);
    tcase_add_test(c, checkpoints_hold_buffers);
    tcase_add_test(c, threads_read_the_same_file);
    tcase_add_loop_test(c, refused_before_the_start, 0, LK_COUNT(refused));
}
