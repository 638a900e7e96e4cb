/* Kinds of GPU that are mixed: --gpu of predict, whatif and plan. */
#include "base/array.h"
#include "base/file.h"
#include "commands/run_kinds.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB "tests/data/slow_link.job.json"

static char *dir;

/* Write a file of the folder: a text with `from` replaced. */
static void write_changed(const char *source, const char *name, const char *from, const char *to)
{
    char *path = scratch_path(dir, name), *text, *at;
    struct lk_writer *w;
    size_t size;

    ck_assert_msg(lk_file_read(source, &text, &size) == LK_OK, "%s", lk_error_text());
    at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    ck_assert(lk_writer_open(path, false, &w) == LK_OK);
    ck_assert(lk_writer_put(w, text, (size_t)(at - text)) == LK_OK);
    ck_assert(lk_writer_put(w, to, strlen(to)) == LK_OK);
    ck_assert(lk_writer_put(w, at + strlen(from), strlen(at + strlen(from))) == LK_OK);
    ck_assert(lk_writer_commit(w) == LK_OK);
    free(text);
    free(path);
}

/* The job computes 120 ms, by layers, and then 10 ms of the optimizer, on an A100. The others have
 * its memory and half and a quarter of its rate. */
static void set_up(void)
{
    dir = scratch_create();
    write_changed(JOB, "job.json", "\"prefetch_depth\"",
                  "\"layers\": [{\"name\": \"l\", \"flops\": {\"value\": 1, \"unit\": \"Tflop\", "
                  "\"source\": \"by hand\"}}], \"prefetch_depth\"");
    write_changed("clusters/dgx-a100.json", "half.json", "{\"value\": 312,", "{\"value\": 156,");
    write_changed("clusters/dgx-a100.json", "quarter.json", "{\"value\": 312,", "{\"value\": 78,");
}

static void tear_down(void)
{
    scratch_remove(dir);
}

/* Return the columns step_s to step_hi_s of the last row; words: "@" stands for the folder. */
static char *ask(int code, const char *words)
{
    struct program p;
    char line[1024] = "", *row, *end, *out;
    size_t n = 0;

    for (; *words && n + 256 < sizeof line; words++)
        n += (size_t)(*words == '@' ? snprintf(line + n, sizeof line - n, "%s/", dir)
                                    : snprintf(line + n, sizeof line - n, "%c", *words));
    program_run(&p, dir, code, "%s", line);
    if (code) {
        out = strdup(p.err);
        program_fini(&p);
        return out;
    }
    p.out[strlen(p.out) - 1] = '\0';
    row = strrchr(p.out, '\n') + 1;
    for (int i = 0; i < 5; i++)
        row = strchr(row, ',') + 1;
    end = row;
    for (int i = 0; i < 3; i++)
        end = strchr(end + (i > 0), ',');
    out = strndup(row, (size_t)(end - row));
    program_fini(&p);
    return out;
}

#define PREDICT "predict @job.json dgx-a100 --format csv --table points "
#define WHATIF  "whatif @job.json dgx-a100 --format csv --table points "

static const struct {
    const char *one, *other;
} alike[] = {
    /* One kind is that kind; */
    {PREDICT "--gpus 4 --gpu 4x@half.json", PREDICT "--gpus 4 --gpu @half.json"},
    {PREDICT "--gpus 4 --gpu 1xown+3xown", PREDICT "--gpus 4"},
    /* ranks are alike, so that their order is nothing; */
    {PREDICT "--gpus 4 --gpu 3xown+1x@half.json", PREDICT "--gpus 4 --gpu 1x@half.json+3xown"},
    {PREDICT "--gpus 4 --gpu 1xown+1x@half.json+2xown",
     PREDICT "--gpus 4 --gpu 2xown+1x@half.json+1xown"},
    {WHATIF "--gpus 4 --rank-batches balanced --gpu 3xown+1x@half.json",
     WHATIF "--gpus 4 --rank-batches balanced --gpu 1x@half.json+3xown"},
    /* a slower kind is a slow rank; */
    {WHATIF "--gpus 4 --gpu 3xown+1x@half.json", WHATIF "--gpus 4 --slow-rank 3:2"},
    {WHATIF "--gpus 4 --gpu 3x@half.json+1x@quarter.json",
     WHATIF "--gpus 4 --gpu @half.json --slow-rank 3:2"},
    {WHATIF "--gpus 4 --rank-batches balanced --gpu 3xown+1x@half.json",
     WHATIF "--gpus 4 --rank-batches balanced --slow-rank 3:2"},
    /* fewer GPUs are the fastest. */
    {PREDICT "--gpus 3 --gpu 1x@half.json+3xown", PREDICT "--gpus 3"},
};

START_TEST(the_same_said_otherwise_is_the_same)
{
    char *one = ask(0, alike[_i].one), *other = ask(0, alike[_i].other);

    ck_assert_str_eq(one, other);
    free(one);
    free(other);
}
END_TEST

/* The step waits for the slowest kind: 120 ms and 10 ms of the optimizer become 240, or 480, and
 * 10, and the little that
 * a node's collectives and the differences of equal ranks take. */
static const struct {
    const char *words;
    double ms;
} by_hand[] = {
    {PREDICT "--gpus 4 --gpu 4xown", 130},
    {PREDICT "--gpus 4 --gpu 3xown+1x@half.json", 250},
    {PREDICT "--gpus 4 --gpu 1x@quarter.json+1xown+2x@half.json", 490},
};

START_TEST(steps_are_those_of_the_slowest_kind)
{
    char *said = ask(0, by_hand[_i].words);
    double step_s = strtod(said, NULL);

    ck_assert_double_ge(step_s, 1e-3 * by_hand[_i].ms);
    ck_assert_double_le(step_s, 1e-3 * by_hand[_i].ms * 1.02);
    free(said);
}
END_TEST

/* With balanced batches a faster GPU in the place of a slower one never makes the step longer. */
START_TEST(more_of_the_faster_kind_is_no_slower)
{
    static const char *const mixes[] = {"4x@quarter.json", "1xown+3x@quarter.json",
                                        "2xown+2x@quarter.json", "3xown+1x@quarter.json", "4xown"};
    double last = INFINITY;

    for (size_t i = 0; i < LK_COUNT(mixes); i++) {
        char words[256], *said;
        double step_s;

        snprintf(words, sizeof words, WHATIF "--gpus 4 --rank-batches balanced --gpu %s", mixes[i]);
        said = ask(0, words);
        step_s = strtod(said, NULL);
        ck_assert_double_le(step_s, last);
        last = step_s;
        free(said);
    }
}
END_TEST

static const struct {
    const char *words, *says;
} refused[] = {
    {PREDICT "--gpus 2 --gpu 1xown+2x@half.json", "the mix has 3 GPUs, 1 of the fastest kind"},
    {PREDICT "--gpus 4 --gpu 1xown+2x@half.json", "the mix has 3 GPUs"},
    {PREDICT "--gpus 4 --gpu own+2x@half.json", "'own' is no number of GPUs of a kind"},
    {PREDICT "--gpus 4 --gpu 0xown+2x@half.json", "a mix has 1 to 4096 GPUs"},
    {PREDICT "--gpus 4 --gpu 4096xown+1xown", "a mix has 1 to 4096 GPUs"},
};

START_TEST(what_is_no_mix_is_refused)
{
    char *said = ask(2, refused[_i].words);

    ck_assert_msg(strstr(said, refused[_i].says) != NULL, "no '%s' in: %s", refused[_i].says, said);
    free(said);
}
END_TEST

/* All three commands say which kind the others wait for. */
START_TEST(the_wait_is_named)
{
    static const char *const commands[] = {
        "predict %s/job.json dgx-a100 --gpus 4 --gpu 3xown+1x%s/half.json",
        "whatif %s/job.json dgx-a100 --gpus 4 --gpu 3xown+1x%s/half.json",
        "plan %s/job.json dgx-a100 --gpus 4 --gpu 3xown+1x%s/half.json --target-throughput 1"};
    struct program p;

    for (size_t i = 0; i < LK_COUNT(commands); i++) {
        char line[1024];

        snprintf(line, sizeof line, commands[i], dir, dir);
        program_run(&p, dir, 0, "%s --format json", line);
        ck_assert_msg(strstr(p.out,
                             "1 of 4 ranks have A100-SXM4-80GB, which computes a sample 2.00 "
                             "times as long") != NULL,
                      "%s: %s", line, p.out);
        program_fini(&p);
    }
}
END_TEST

/* A replay's ranks compute as much longer as a forecast says. */
static const struct {
    const char *gpu;
    int ranks;
    double slowness[4];
} replayed[] = {
    {"own", 2, {1, 1}},
    {"@half.json", 2, {2, 2}},
    {"3xown+1x@half.json", 4, {1, 1, 1, 2}},
    {"1x@half.json+1xown+2x@quarter.json", 4, {2, 1, 4, 4}},
    {"1x@half.json+3x@quarter.json", 1, {2}},
};

START_TEST(replays_have_the_kinds_of_forecasts)
{
    char *job = scratch_path(dir, "job.json"), gpu[512] = "";
    struct run_options o = {.cluster = "dgx-a100", .gpu = gpu, .train.model.job = job};
    size_t n = 0;

    for (const char *at = replayed[_i].gpu; *at; at++)
        n += (size_t)(*at == '@' ? snprintf(gpu + n, sizeof gpu - n, "%s/", dir)
                                 : snprintf(gpu + n, sizeof gpu - n, "%c", *at));
    for (int r = 0; r < replayed[_i].ranks; r++) {
        double out;

        ck_assert_msg(run_kind_slowdown(&o, r, replayed[_i].ranks, &out) == LK_OK, "%s",
                      lk_error_text());
        ck_assert_double_eq(out, replayed[_i].slowness[r]);
    }
    free(job);
}
END_TEST

START_TEST(a_replay_takes_one_machine)
{
    struct program p;

    program_run(&p, dir, 2, "replay %s/job.json -n 2 --gpu own --out %s/run", dir, dir);
    program_assert_says(&p, "--gpu takes --cluster");
    program_fini(&p);
    program_run(&p, dir, 2,
                "replay %s/job.json -n 2 --gpu own,dgx-2 --cluster dgx-a100 --out %s/run", dir,
                dir);
    program_assert_says(&p, "one value");
    program_fini(&p);
    program_run(&p, dir, 2,
                "replay %s/job.json -n 3 --gpu 1xown+1xdgx-2 --cluster dgx-a100 --out %s/run", dir,
                dir);
    program_assert_says(&p, "the mix has 2 GPUs");
    program_fini(&p);
}
END_TEST

SUITE(gpu_mix, c)
{
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_loop_test(c, the_same_said_otherwise_is_the_same, 0, (int)LK_COUNT(alike));
    tcase_add_loop_test(c, steps_are_those_of_the_slowest_kind, 0, (int)LK_COUNT(by_hand));
    tcase_add_test(c, more_of_the_faster_kind_is_no_slower);
    tcase_add_loop_test(c, what_is_no_mix_is_refused, 0, (int)LK_COUNT(refused));
    tcase_add_test(c, the_wait_is_named);
    tcase_add_loop_test(c, replays_have_the_kinds_of_forecasts, 0, (int)LK_COUNT(replayed));
    tcase_add_test(c, a_replay_takes_one_machine);
}
