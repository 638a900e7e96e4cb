/* lockstep replay: settings of the job, of the command line, and the resulting run. */
#include "base/array.h"
#include "base/json.h"
#include "commands/command.h"
#include "commands/run_options.h"
#include "facts/job.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB "tests/data/slow_link.job.json" /* first bucket and cap of 64 KiB, local batch 8 */

/* ---- Options ---- */

static const struct {
    const char *options;
    int64_t local_batch, accumulation;
    uint64_t first_bytes, cap_bytes;
} rows[] = {
    {JOB, 8, 1, 64 << 10, 64 << 10},
    {JOB " --bucket-cap=128KiB", 8, 1, 128 << 10, 128 << 10},
    {JOB " --first-bucket=16KiB", 8, 1, 16 << 10, 64 << 10},
    {JOB " --bucket-cap=64KiB", 8, 1, 64 << 10, 64 << 10},
    {JOB " --bucket-cap=25MiB", 8, 1, 1 << 20, 25 << 20},
    {JOB " --accumulation=4 -n2", 8, 4, 64 << 10, 64 << 10},
    {JOB " --local-batch=2 --scaling=1,2", 2, 1, 64 << 10, 64 << 10},
};

/* Split at blanks, in place. */
static int split(char *line, char **argv, int max)
{
    int n = 0;

    for (char *word; n < max && (word = strsep(&line, " ")) != NULL;)
        argv[n++] = word;
    return n;
}

static void parse_words(int argc, char **argv, struct run_options *o)
{
    const char *job = NULL;
    int n;

    ck_assert_msg(lk_command_parse(&lk_command_replay, argc, argv, o, &job, &n) == LK_OK &&
                      run_options_complete(&lk_command_replay, job, o) == LK_OK,
                  "%s", lk_error_text());
}

static void parse(char *line, struct run_options *o)
{
    char *argv[16];

    parse_words(split(line, argv, LK_COUNT(argv)), argv, o);
}

START_TEST(takes_from_job)
{
    struct run_options o;
    struct lk_train_config c;
    char line[256];

    snprintf(line, sizeof line, "%s", rows[_i].options);
    parse(line, &o);
    ck_assert_int_eq(o.local_batch.v[0], rows[_i].local_batch);
    ck_assert_int_eq(o.train.reducer.accumulation, rows[_i].accumulation);
    ck_assert_int_eq(run_options_train(&o, 0, 1, 0, &c), LK_OK);
    ck_assert_uint_eq(c.reducer.first_bytes, rows[_i].first_bytes);
    ck_assert_uint_eq(c.reducer.cap_bytes, rows[_i].cap_bytes);
    ck_assert_str_eq(c.device, "timed");
    ck_assert_str_eq(c.model.name, "replay");
}
END_TEST

/* A rank's command line gives the same settings. */
START_TEST(rank_reads_the_same)
{
    struct run_options o, again;
    struct lk_train_config a, b;
    char line[256];
    char **argv = NULL;
    int n = 0;

    snprintf(line, sizeof line, "%s", rows[_i].options);
    parse(line, &o);
    ck_assert_int_eq(lk_command_argv(&lk_command_replay, &o, o.train.model.job, &argv), LK_OK);
    ck_assert_str_eq(argv[1], "replay");
    while (argv[n])
        n++;
    parse_words(n - 2, argv + 2, &again);
    ck_assert_int_eq(run_options_train(&o, 0, 1, 0, &a), LK_OK);
    ck_assert_int_eq(run_options_train(&again, 0, 1, 0, &b), LK_OK);
    ck_assert_int_eq(a.local_batch, b.local_batch);
    ck_assert_int_eq(a.reducer.accumulation, b.reducer.accumulation);
    ck_assert_int_eq(a.reducer.no_sync, b.reducer.no_sync);
    ck_assert_uint_eq(a.reducer.first_bytes, b.reducer.first_bytes);
    ck_assert_uint_eq(a.reducer.cap_bytes, b.reducer.cap_bytes);
    ck_assert_int_eq(a.prefetch, b.prefetch);
    lk_argv_free(argv);
}
END_TEST

/* ---- The program ---- */

static const struct {
    const char *words, *says;
    int code;
} wrong[] = {
    {"replay", "which job?", 2},
    {"replay " JOB " -n0", "ranks", 2},
    {"replay " JOB " --model=gpt", "model", 2},
    {"replay " JOB " --slow-rank=2:1.5 -n2", "the ranks are 0 to 1", 2},
    {"replay " JOB " -b3 --steps=1 --out=%s/out", "local batch", 1},
    {"replay no-such.job.json", "no-such.job.json", 1},
    {"replay tests/data/slow_link.job.json tests/data/x -n2", "tests/data/x", 2},
    {"replay " JOB " --comm=self -n2", "--comm=self", 2},
};

START_TEST(refuses)
{
    struct program p;
    char words[1024];

    snprintf(words, sizeof words, wrong[_i].words, scratch_dir);
    program_run(&p, scratch_dir, wrong[_i].code, "%s", words);
    ck_assert_msg(strstr(p.err, wrong[_i].says) != NULL, "%s", p.err);
    program_fini(&p);
}
END_TEST

/* It writes a run directory like `run`; its job is the replayed one. */
START_TEST(writes_a_run)
{
    struct program p;
    struct lk_job job = {0}, given = {0};
    char *path = scratch_path(scratch_dir, "out/job.json");

    ck_assert_int_eq(lk_job_read(JOB, &given), LK_OK);
    program_run(&p, scratch_dir, 0,
                "replay %s --scaling=1,2 -r1 --steps=12 --warmup=2 --out=%s/out", JOB, scratch_dir);
    ck_assert_msg(strstr(p.out, "efficiency") != NULL, "%s", p.out);
    ck_assert_msg(lk_job_read(path, &job) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(job.n_runs, 2);
    ck_assert_int_eq(job.runs[1].config.world_size, 2);
    ck_assert_uint_eq(job.cap_bytes, given.cap_bytes);
    ck_assert_uint_eq(job.n_tensors, given.n_tensors);
    for (size_t i = 0; i < job.n_tensors; i++) {
        ck_assert_uint_eq(job.tensors[i].elems, given.tensors[i].elems);
        ck_assert_uint_eq(job.ready_order[i], given.ready_order[i]);
    }
    /* Waits end late, never early: a scheduler may delay them, and a clock
     * does not run backwards. */
    ck_assert_double_ge(job.compute[0].forward_s.value, 0.999 * given.compute[0].forward_s.value);
    ck_assert_double_ge(job.compute[0].backward_s.value, 0.999 * given.compute[0].backward_s.value);
    lk_job_fini(&job);
    lk_job_fini(&given);
    free(path);
    program_fini(&p);
}
END_TEST

static void as_rank(void *ctx)
{
    putenv((char *)(uintptr_t) "RANK=0");
    putenv((char *)(uintptr_t) "WORLD_SIZE=1");
    putenv((char *)(uintptr_t) "MASTER_ADDR=127.0.0.1");
    if (setenv("MASTER_PORT", ctx, 1))
        _exit(125);
}

/* Under another launcher the process is a rank, and --out is the run's own directory. */
START_TEST(runs_as_a_rank)
{
    struct program p;
    struct lk_job job = {0};
    char *path = scratch_path(scratch_dir, "out/job.json"), text[16];
    int port, fd = program_hold_port(&port);

    snprintf(text, sizeof text, "%d", port);
    program_start(&p, scratch_dir, as_rank, text, "replay %s --steps=12 --warmup=2 --out=%s/out",
                  JOB, scratch_dir);
    program_wait(&p);
    close(fd);
    ck_assert_msg(p.code == 0, "%s", p.err);
    ck_assert_msg(lk_job_read(path, &job) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(job.n_runs, 1);
    lk_job_fini(&job);
    free(path);
    program_fini(&p);
}
END_TEST

SUITE(replay_cli, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, takes_from_job, 0, LK_COUNT(rows));
    tcase_add_loop_test(c, rank_reads_the_same, 0, LK_COUNT(rows));
    tcase_add_loop_test(c, refuses, 0, LK_COUNT(wrong));
    tcase_add_test(c, writes_a_run);
    tcase_add_test(c, runs_as_a_rank);
}
