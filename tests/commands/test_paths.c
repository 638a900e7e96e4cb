/*
 * No command writes over what it reads: not by the same name, by a link, as a preset, in a folder
 * that it reads, or twice to one file. A folder that is not empty is taken with --force alone,
 * which removes nothing but what lockstep writes.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CORPUS "tests/fuzz/corpus/"

/* Copies of good inputs, and links to them. */
static void make_inputs(void)
{
    static const char *const copies[][2] = {
        {CORPUS "job/full.json", "job.json"},       {CORPUS "cluster/full.json", "cluster.json"},
        {CORPUS "throughput/nodes.csv", "t.csv"},   {CORPUS "gradients/tensors.csv", "g.csv"},
        {CORPUS "nccl_tests/plain.log", "all.log"}, {CORPUS "csv/points.csv", "points.csv"},
    };

    for (size_t i = 0; i < LK_COUNT(copies); i++) {
        char *text;
        size_t n;

        ck_assert_int_eq(lk_file_read(copies[i][0], &text, &n), LK_OK);
        free(scratch_put(copies[i][1], text, n));
        free(text);
    }
}

static void make_link(const char *to, const char *name, bool hard)
{
    char *from = scratch_path(scratch_dir, name), *target = scratch_path(scratch_dir, to);

    ck_assert_int_eq(hard ? link(target, from) : symlink(to, from), 0);
    free(from);
    free(target);
}

/* %1$s is the folder of the inputs. The message has both names. */
static const struct {
    const char *words, *output, *input;
} conflicts[] = {
    {"predict %1$s/job.json %1$s/cluster.json --gpus=2 --out=%1$s/job.json", "--out", "job.json"},
    {"predict %1$s/job.json %1$s/cluster.json --gpus=2 --csv=%1$s/./job.json", "--csv", "job.json"},
    {"predict %1$s/job.json %1$s/cluster.json --gpus=2 --out=%1$s/soft", "--out", "job.json"},
    {"predict %1$s/job.json %1$s/cluster.json --gpus=2 --out=%1$s/hard", "--out", "cluster.json"},
    {"predict %1$s/soft %1$s/hard --gpus=2 --out=%1$s/job.json", "--out", "soft"},
    {"predict %1$s/job.json --cluster=%1$s/cluster.json --gpus=2 --out=%1$s/cluster.json", "--out",
     "--cluster="},
    {"predict --throughput=%1$s/t.csv --gpus=8 --csv=%1$s/t.csv", "--csv", "--throughput="},
    {"predict --throughput=%1$s/t.csv --gradients=%1$s/g.csv --cluster=dgx-h100 --gpus=8 "
     "--out=%1$s/g.csv",
     "--out", "--gradients="},
    {"predict %1$s/job.json dgx-h100 --gpus=8 --out=clusters/dgx-h100.json", "--out", "dgx-h100"},
    {"predict %1$s/job.json dgx-h100 --gpus=8 --trace=%1$s/job.json", "--trace", "job.json"},
    {"predict %1$s/job.json dgx-h100 --gpus=8 --out=%1$s/new --csv=%1$s/new", "--csv", "--out="},
    {"predict %1$s dgx-h100 --gpus=8 --out=%1$s/job.json", "--out", "a file of the input"},
    {"whatif %1$s/job.json dgx-h100 --gpus=8 --gpu=own,dgx-a100 --out=clusters/dgx-a100.json",
     "--out", "--gpu=dgx-a100"},
    {"validate %1$s/job.json --cluster=%1$s/cluster.json --out=%1$s/cluster.json", "--out",
     "--cluster="},
    {"import %1$s/all.log --out=%1$s/all.log", "--out", "all.log"},
    {"import %1$s/all.log --base=%1$s/cluster.json --gpu=x --out=%1$s/cluster.json", "--out",
     "--base="},
    {"import --collectives=%1$s/points.csv --gpu=x --out=%1$s/points.csv", "--out",
     "--collectives="},
    {"replay %1$s/job.json --out=%1$s/job.json", "--out", "job.json"},
    {"run --data=%1$s/all.log --export=%1$s/all.log --out=%1$s/run", "--export", "--data="},
    {"run --import=%1$s/all.log --export=%1$s/all.log --out=%1$s/run", "--export", "--import="},
    {"analyze %1$s --reference=%1$s --step=0", NULL, NULL}, /* reads it twice, which is right */
};

START_TEST(inputs_are_kept)
{
    struct program p;
    char words[1024];
    char *before, *after;
    struct stat s, t;

    make_inputs();
    make_link("job.json", "soft", false);
    make_link("cluster.json", "hard", true);
    before = scratch_read(scratch_dir, "job.json");
    ck_assert_int_eq(stat("clusters/dgx-h100.json", &s), 0);
    snprintf(words, sizeof words, conflicts[_i].words, scratch_dir);
    program_start(&p, scratch_dir, NULL, NULL, "%s", words);
    program_wait(&p);
    if (conflicts[_i].output) {
        ck_assert_msg(p.code == 2, "'%s' gave %d: %s", words, p.code, p.err);
        ck_assert_msg(strstr(p.err, conflicts[_i].output) && strstr(p.err, conflicts[_i].input) &&
                          strstr(p.err, "write over"),
                      "%s", p.err);
    } else {
        ck_assert_ptr_null(strstr(p.err, "write over"));
    }
    after = scratch_read(scratch_dir, "job.json");
    ck_assert_str_eq(before, after);
    ck_assert_int_eq(stat("clusters/dgx-h100.json", &t), 0);
    ck_assert(s.st_mtime == t.st_mtime && s.st_ino == t.st_ino);
    free(before);
    free(after);
    program_fini(&p);
}
END_TEST

/* The default place of a result is checked, too. */
START_TEST(a_default_output_is_no_input)
{
    struct shell_result r;
    char *before, *after;

    make_inputs();
    before = scratch_read(scratch_dir, "cluster.json");
    r = shell_program(scratch_dir, "import all.log --base=cluster.json");
    ck_assert_int_eq(r.code, 2);
    ck_assert_ptr_nonnull(strstr(r.text, "--out=cluster.json would write over"));
    after = scratch_read(scratch_dir, "cluster.json");
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

/* A file of our own in an input folder that no command reads there may be written again. */
START_TEST(results_beside_inputs_may_be_written_again)
{
    struct program p;

    make_inputs();
    for (int i = 0; i < 2; i++) {
        program_run(&p, scratch_dir, 0, "predict %s dgx-h100 --gpus=8 --draws=20 --out=%s/f.json",
                    scratch_dir, scratch_dir);
        program_fini(&p);
    }
}
END_TEST

#define REPLAY "replay " CORPUS "job/full.json --steps=2 --warmup=0 --out=%s/run"

START_TEST(force_takes_our_folder)
{
    struct program p;
    char *text;

    program_run(&p, scratch_dir, 0, REPLAY, scratch_dir);
    program_fini(&p);
    free(scratch_put("run/k1-b8-a1-r0/rank7.trace.json.gz", "old", 3));
    program_run(&p, scratch_dir, 2, REPLAY, scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.err, "--force"));
    program_fini(&p);
    program_run(&p, scratch_dir, 0, REPLAY " --force", scratch_dir);
    program_fini(&p);
    text = scratch_path(scratch_dir, "run/k1-b8-a1-r0/rank7.trace.json.gz");
    ck_assert(!lk_file_exists(text));
    free(text);
}
END_TEST

static const char *const foreign[] = {"run/notes.txt", "run/k1-b8-a1-r0/notes.txt",
                                      "run/traces/thesis.tex", "run/job.json.bak"};

START_TEST(force_keeps_other_files)
{
    struct program p;
    char *text, *folder;

    program_run(&p, scratch_dir, 0, REPLAY, scratch_dir);
    program_fini(&p);
    folder = scratch_path(scratch_dir, "run/traces");
    ck_assert_int_eq(lk_mkdirs(folder), LK_OK);
    free(scratch_put(foreign[_i], "mine", 4));
    program_run(&p, scratch_dir, 2, REPLAY " --force", scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.err, foreign[_i]));
    program_fini(&p);
    text = scratch_read(scratch_dir, foreign[_i]);
    ck_assert_str_eq(text, "mine");
    free(text);
    text = scratch_path(scratch_dir, "run/run.json"); /* nothing at all was removed */
    ck_assert(lk_file_exists(text));
    free(text);
    free(folder);
}
END_TEST

SUITE(paths, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, inputs_are_kept, 0, LK_COUNT(conflicts));
    tcase_add_test(c, a_default_output_is_no_input);
    tcase_add_test(c, results_beside_inputs_may_be_written_again);
    tcase_add_test(c, force_takes_our_folder);
    tcase_add_loop_test(c, force_keeps_other_files, 0, LK_COUNT(foreign));
}
