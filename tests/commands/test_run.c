/*
 * lockstep run, end to end: files, numbers, curves, verification of every shape of job, planted
 * faults, and training on text at one and at two ranks.
 */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/run_grid.h"
#include "facts/job.h"
#include "facts/trace.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A GPT that computes for a millisecond. */
#define TINY                                                                                       \
    "--model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 "                       \
    "--samples=4096 "                                                                              \
    "--no-pin --prefetch=1 "

static struct lk_train_result result_of(const char *part)
{
    struct lk_train_result r;
    char *path;

    ck_assert_int_eq(lk_asprintf(&path, "%s/run/%s/result.json", scratch_dir, part), LK_OK);
    ck_assert_msg(run_result_read(path, &r) == LK_OK, "%s", lk_error_text());
    free(path);
    return r;
}

static void assert_file(const char *name, bool there)
{
    char *path;

    ck_assert_int_eq(lk_asprintf(&path, "%s/run/%s", scratch_dir, name), LK_OK);
    ck_assert_msg(lk_file_exists(path) == there, "%s", path);
    free(path);
}

static size_t count_spans(const struct lk_trace *t, enum lk_span_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        n += t->spans[i].span.kind == kind;
    return n;
}

/* ---- One run ---- */

static const struct {
    int ranks, accumulation;
} shapes[] = {{1, 1}, {2, 1}, {2, 3}};

START_TEST(files_of_a_run)
{
    int ranks = shapes[_i].ranks;
    int accumulation = shapes[_i].accumulation;
    struct lk_trace *traces = NULL;
    struct lk_job job = {0};
    struct program p;
    char part[64];
    char *path;
    size_t n;

    program_run(&p, scratch_dir, 0, "run -n%d -a%d -b2 --steps=8 --warmup=2 --out=%s/run " TINY,
                ranks, accumulation, scratch_dir);
    snprintf(part, sizeof part, "%s/run/k%d-b2-a%d-r0", scratch_dir, ranks, accumulation);
    assert_file("run.json", true);
    ck_assert_int_eq(lk_traces_read(part, &traces, &n), LK_OK);
    ck_assert_uint_eq(n, (size_t)ranks);
    for (size_t r = 0; r < n; r++) {
        const struct lk_trace *t = &traces[r];

        ck_assert(!t->truncated);
        ck_assert_uint_eq(t->dropped, 0);
        ck_assert_uint_eq(t->info.steps, 10);
        ck_assert_uint_eq(t->info.warmup_steps, 2);
        ck_assert_uint_eq(count_spans(t, LK_SPAN_STEP), 10);
        ck_assert_uint_eq(count_spans(t, LK_SPAN_FORWARD), 10 * (size_t)accumulation);
        ck_assert_uint_eq(count_spans(t, LK_SPAN_BACKWARD), 10 * (size_t)accumulation);
        ck_assert_uint_eq(count_spans(t, LK_SPAN_OPTIMIZER), 10);
        ck_assert_uint_ge(count_spans(t, LK_SPAN_INPUT), 2 * 10 * (size_t)accumulation);
        ck_assert_uint_eq(count_spans(t, LK_SPAN_GRADIENT),
                          10 * (size_t)accumulation * t->info.n_tensors);
        ck_assert_uint_ge(count_spans(t, LK_SPAN_COLLECTIVE), 10);
        ck_assert_uint_ge(count_spans(t, LK_SPAN_COUNTER), 20);
    }
    lk_traces_free(traces, n);
    ck_assert_int_eq(lk_asprintf(&path, "%s/run/job.json", scratch_dir), LK_OK);
    ck_assert_msg(lk_job_read(path, &job) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(job.n_compute, 1);
    ck_assert_int_eq(job.compute[0].local_batch, 2);
    lk_job_fini(&job);
    free(path);
    program_fini(&p);
}
END_TEST

/* Traces as other tools need them, also where the comm stream has kernels of its own: the norms of
 * --noise-every. */
static const char *const checked[] = {"-n2 -b2 --noise-every=2", "-n2 -b2 --device=timed",
                                      "-n1 -b2", "-n2 -b2 --fuse=optimizer --bucket-cap=4KiB"};

START_TEST(traces_are_whole_for_others)
{
    struct program p;
    struct shell_result r;

    program_run(&p, scratch_dir, 0, "run %s --steps=4 --out=%s/run " TINY, checked[_i],
                scratch_dir);
    program_fini(&p);
    r = shell_run("python3 tests/check_trace.py '%s'/run/*/*.trace.json.gz 2>&1", scratch_dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
}
END_TEST

START_TEST(csv_on_stdout_only_results)
{
    struct program p;

    program_run(&p, scratch_dir, 0, "run -b2 --steps=4 --format=csv --verbose --out=%s/run " TINY,
                scratch_dir);
    ck_assert_int_eq(strncmp(p.out, "ranks,local_batch,accumulation,global_batch,runs,step_s", 55),
                     0);
    ck_assert_ptr_nonnull(strstr(p.out, "\n1,2,1,2,1,"));
    ck_assert_ptr_nonnull(strstr(p.err, "local-batch"));
    program_fini(&p);
}
END_TEST

START_TEST(untraced)
{
    struct program p;

    program_run(&p, scratch_dir, 0, "run -n2 -b2 --steps=4 --no-trace --out=%s/run " TINY,
                scratch_dir);
    assert_file("k2-b2-a1-r0/result.json", true);
    assert_file("k2-b2-a1-r0/rank0.trace.json.gz", false);
    assert_file("job.json", false);
    program_fini(&p);
}
END_TEST

/* The same seed gives the same losses, bit for bit, with or without a trace. */
START_TEST(runs_repeat)
{
    struct lk_train_result a, b;
    struct program p;

    program_run(&p, scratch_dir, 0, "run -n2 -b2 --steps=6 --out=%s/run " TINY, scratch_dir);
    program_fini(&p);
    a = result_of("k2-b2-a1-r0");
    ck_assert_int_eq(lk_asprintf(&p.out, "%s/run", scratch_dir), LK_OK);
    scratch_remove(p.out);
    program_run(&p, scratch_dir, 0, "run -n2 -b2 --steps=6 --no-trace --out=%s/run " TINY,
                scratch_dir);
    program_fini(&p);
    b = result_of("k2-b2-a1-r0");
    ck_assert_int_eq(a.n, 11);
    ck_assert_mem_eq(a.loss, b.loss, (size_t)a.n * sizeof *a.loss);
    lk_train_result_fini(&a);
    lk_train_result_fini(&b);
}
END_TEST

/* A run with imported weights continues where the exporting one ended. */
START_TEST(export_and_import)
{
    struct lk_train_result r;
    struct program p;
    double first, last;

    program_run(&p, scratch_dir, 0,
                "run -b4 --steps=40 --warmup=0 --export=%s/weights --out=%s/a " TINY, scratch_dir,
                scratch_dir);
    program_fini(&p);
    program_run(&p, scratch_dir, 0,
                "run -n2 -b2 --steps=1 --warmup=0 --import=%s/weights --export=%s/again "
                "--learning-rate=1e-30 --out=%s/run " TINY,
                scratch_dir, scratch_dir, scratch_dir);
    program_fini(&p);
    r = result_of("k2-b2-a1-r0");
    last = r.loss[0];
    lk_train_result_fini(&r);
    ck_assert_int_eq(lk_asprintf(&p.out, "%s/run", scratch_dir), LK_OK);
    scratch_remove(p.out);
    program_run(&p, scratch_dir, 0, "run -n2 -b2 --steps=1 --warmup=0 --out=%s/run " TINY,
                scratch_dir);
    program_fini(&p);
    r = result_of("k2-b2-a1-r0");
    first = r.loss[0];
    lk_train_result_fini(&r);
    ck_assert_double_lt(last, first - 0.1);
}
END_TEST

/* A device that computes nothing has no loss, rather than a loss of 0. */
START_TEST(timed_has_no_loss)
{
    struct lk_train_result r;
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run -n2 --device=timed -b2 --steps=4 --warmup=0 --format=csv --out=%s/run " TINY,
                scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.out, "\n2,2,1,4,1,"));
    ck_assert_ptr_null(strstr(p.out, ",0\n"));
    program_fini(&p);
    r = result_of("k2-b2-a1-r0");
    ck_assert_int_eq(r.n, 4);
    for (int64_t i = 0; i < r.n; i++)
        ck_assert_double_nan(r.loss[i]);
    lk_train_result_fini(&r);
}
END_TEST

/* ---- Run grids ---- */

/* job.json, which the launcher made from the traces in its memory, is that of the files, too. */
static void assert_job_is_of_files(void)
{
    char *out = scratch_path(scratch_dir, "run"), *again = scratch_path(scratch_dir, "again.json");
    char *ours = scratch_read(scratch_dir, "run/job.json"), *theirs;
    const char *operand = out;
    struct lk_run_set set;
    struct lk_job job;

    ck_assert_msg(lk_run_set_read(&operand, 1, &set) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_job_build(&set, &job) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_job_write(again, &job), LK_OK);
    theirs = scratch_read(scratch_dir, "again.json");
    ck_assert_str_eq(ours, theirs);
    lk_job_fini(&job);
    lk_run_set_fini(&set);
    free(theirs);
    free(ours);
    free(again);
    free(out);
}

START_TEST(weak_curve_and_batches)
{
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run --scaling=1,2 --local-batches=1,2,4 --repetitions=2 -b2 "
                "--steps=5 --warmup=3 "
                "--format=csv --out=%s/run " TINY,
                scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.out, "\n1,2,1,2,2,"));
    ck_assert_ptr_nonnull(strstr(p.out, "\n2,2,1,4,2,"));
    ck_assert_ptr_nonnull(strstr(p.out, "\n1,1,1,1,2,"));
    ck_assert_ptr_nonnull(strstr(p.out, "\n1,4,1,4,2,"));
    assert_file("k1-b2-a1-r1/rank0.trace.json.gz", true);
    assert_file("k2-b2-a1-r1/rank1.trace.json.gz", true);
    assert_file("k1-b4-a1-r0/rank0.trace.json.gz", true);
    assert_file("job.json", true);
    assert_job_is_of_files();
    program_fini(&p);
}
END_TEST

/* ---- Verification ---- */

/* The largest run of a grid has the slow rank; the smaller ones do without. */
START_TEST(slow_rank_of_a_grid)
{
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run --scaling=1,2 --repetitions=1 --device=timed --slow-rank=1:2 -b2 --steps=4 "
                "--warmup=0 --no-trace --out=%s/run " TINY,
                scratch_dir);
    assert_file("k1-b2-a1-r0/result.json", true);
    assert_file("k2-b2-a1-r0/result.json", true);
    program_fini(&p);
}
END_TEST

static const int verify_ranks[] = {1, 2, 3, 4, 8};
static const int verify_accumulation[] = {1, 4};
static const char *const verify_cap[] = {"1B", "4KiB", "25MiB"};
static const char *const verify_rule[] = {"torch-1.13", "torch-2.x"};
enum { SHAPES = 5 * 2 * 3 * 2 };

static const char *const verify_overlap[] = {"full", "partial", "none"};

/* Every third shape without no_sync: an all-reduce after every micro-batch. */
START_TEST(verify)
{
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run --verify --steps=3 --warmup=0 -b2 -n%d -a%d --bucket-cap=%s "
                "--ddp-rule=%s %s --overlap=%s "
                "--no-trace --out=%s/run " TINY,
                verify_ranks[_i % 5], verify_accumulation[_i / 5 % 2], verify_cap[_i / 10 % 3],
                verify_rule[_i / 30], _i % 3 == 0 ? "--sync-every" : "", verify_overlap[_i / 2 % 3],
                scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.out, "verified: largest gradient error "));
    ck_assert_ptr_nonnull(strstr(p.out, " is allowed; parameters bit-identical"));
    program_fini(&p);
}
END_TEST

/* Without overlap no bucket is reduced before the backward has ended, with it some are, and the job
 * knows what was asked for. A pass takes 60 ms. */
START_TEST(overlap_is_as_asked)
{
    static const char *const modes[] = {"full", "none"};
    struct program p;
    struct lk_job job = {0};
    const char *at;
    char *path = NULL;
    double covered;

    program_run(
        &p, scratch_dir, 0,
        "run -n2 --device=timed --timed-flops=1e9 --model=gpt --layers=4 --heads=4 "
        "--channels=64 --context=32 --vocab=256 -b4 --steps=6 --warmup=1 --bucket-cap=16KiB "
        "--no-pin --overlap=%s --out=%s/run",
        modes[_i], scratch_dir);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze --table=overlap --format=csv %s/run", scratch_dir);
    at = strchr(p.out, '\n');
    for (int column = 0; at && column < 8; column++)
        at = strchr(at + 1, ',');
    ck_assert_ptr_nonnull(at);
    covered = strtod(at + 1, NULL);
    ck_assert_msg(_i ? covered == 0 : covered > 0, "%s: %s", modes[_i], p.out);
    program_fini(&p);
    ck_assert_int_eq(lk_path_join(&path, scratch_dir, "run/job.json"), LK_OK);
    ck_assert_int_eq(lk_job_read(path, &job), LK_OK);
    ck_assert_int_eq(job.overlap, _i ? LK_OVERLAP_MODE_NONE : LK_OVERLAP_MODE_FULL);
    lk_job_fini(&job);
    free(path);
}
END_TEST

static const struct {
    const char *plant;
    int ranks;
    const char *more;
} planted[] = {
    {"dropped-bucket", 2, ""},
    {"wrong-divisor", 2, ""},
    {"shared-shard", 2, ""},
    {"stale-view", 2, ""},
    {"early-bucket", 2, ""},
    {"dropped-bucket", 4, ""},
    {"shared-shard", 3, ""},
    {"early-bucket", 4, ""},
    {"early-update", 1, "--fuse=optimizer"},
    {"early-update", 2, "--fuse=optimizer"},
};

START_TEST(planted_faults_are_found)
{
    struct program p;

    program_run(&p, scratch_dir, 1,
                "run --verify --steps=4 --warmup=0 -b2 -n%d --bucket-cap=4KiB --plant=%s %s "
                "--no-trace --out=%s/run " TINY,
                planted[_i].ranks, planted[_i].plant, planted[_i].more, scratch_dir);
    ck_assert_msg(strstr(p.err, planted[_i].plant) != NULL, "%s", p.err);
    ck_assert_msg(strstr(p.err, "step ") != NULL, "%s", p.err);
    program_fini(&p);
}
END_TEST

/* ---- A real text ---- */

/* Make a text of the test's own sources: English and C. */
static char *make_text(void)
{
    static const char *const sources[] = {
        "tests/commands/test_run.c", "tests/rigs/program.c", "runtime/train/trainer.c",
        "commands/run_options.c",    "commands/run.c",       "LICENSE"};
    char *path = scratch_path(scratch_dir, "text");
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < LK_COUNT(sources); i++) {
        char *text;
        size_t size;

        ck_assert_int_eq(lk_file_read(sources[i], &text, &size), LK_OK);
        ck_assert_uint_eq(fwrite(text, 1, size, f), size);
        free(text);
    }
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

static struct lk_train_result train_text(const char *text, int ranks)
{
    struct lk_train_result r;
    struct program p;
    char part[32];

    program_run(&p, scratch_dir, 0,
                "run -n%d -b%d --steps=200 --warmup=0 --data=%s --model=gpt "
                "--layers=2 --heads=2 "
                "--channels=32 --context=32 --optimizer=sgd --learning-rate=0.05 "
                "--no-trace "
                "--no-pin --out=%s/%d",
                ranks, 8 / ranks, text, scratch_dir, ranks);
    program_fini(&p);
    snprintf(part, sizeof part, "../%d/k%d-b%d-a1-r0", ranks, ranks, 8 / ranks);
    ck_assert_int_eq(lk_mkdirs((p.out = scratch_path(scratch_dir, "run"))), LK_OK);
    free(p.out);
    r = result_of(part);
    return r;
}

/*
 * Train on the same global batches in the same order at 1 and 2 ranks. Sums in another order differ
 * by rounding, which training multiplies: the bound over 200 steps is 1e-3 of the loss (docs/ddp.md
 * has the measured difference).
 */
START_TEST(text_at_two_ranks_as_at_one)
{
    char *text = make_text();
    struct lk_train_result one = train_text(text, 1);
    struct lk_train_result two = train_text(text, 2);
    double worst = 0, last = 0;

    ck_assert_int_eq(one.n, 200);
    ck_assert_int_eq(two.n, 200);
    for (int64_t i = 0; i < 200; i++)
        worst = fmax(worst, fabs(two.loss[i] - one.loss[i]) / one.loss[i]);
    ck_assert_double_lt(worst, 1e-3);
    for (int64_t i = 190; i < 200; i++) /* a batch alone may be of the text's harder parts */
        last += one.loss[i] / 10;
    ck_assert_double_lt(last, one.loss[0] - 1);
    lk_train_result_fini(&one);
    lk_train_result_fini(&two);
    free(text);
}
END_TEST

/* ---- Weights are written ---- */

/* Weights may go into the run directory, which is made first. */
START_TEST(export_into_run_directory)
{
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run --steps=2 --warmup=0 --export=%s/run/weights --out=%s/run " TINY, scratch_dir,
                scratch_dir);
    assert_file("weights", true);
    program_fini(&p);
}
END_TEST

/* A full disk shows only at the end, when the run's results have been written. */
START_TEST(failed_export_keeps_results)
{
    struct lk_train_result r;
    struct program p;

    program_run(&p, scratch_dir, 1,
                "run -n2 -b2 --steps=3 --warmup=0 --export=/dev/full --out=%s/run " TINY,
                scratch_dir);
    ck_assert_msg(strstr(p.err, "/dev/full") != NULL, "%s", p.err);
    program_fini(&p);
    r = result_of("k2-b2-a1-r0");
    ck_assert_int_eq(r.n, 3);
    lk_train_result_fini(&r);
}
END_TEST

SUITE(run, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, files_of_a_run, 0, LK_COUNT(shapes));
    tcase_add_loop_test(c, traces_are_whole_for_others, 0, LK_COUNT(checked));
    tcase_add_test(c, csv_on_stdout_only_results);
    tcase_add_test(c, untraced);
    tcase_add_test(c, runs_repeat);
    tcase_add_test(c, export_and_import);
    tcase_add_test(c, timed_has_no_loss);
    tcase_add_test(c, weak_curve_and_batches);
    tcase_add_test(c, slow_rank_of_a_grid);
    tcase_add_loop_test(c, verify, 0, SHAPES);
    tcase_add_loop_test(c, overlap_is_as_asked, 0, 2);
    tcase_add_loop_test(c, planted_faults_are_found, 0, LK_COUNT(planted));
    tcase_add_test(c, text_at_two_ranks_as_at_one);
    tcase_add_test(c, export_into_run_directory);
    tcase_add_test(c, failed_export_keeps_results);
}
