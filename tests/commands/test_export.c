/* lockstep export: a step written as Chakra execution traces, and the same step imported again. */
#include "base/array.h"
#include "base/file.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB   "tests/data/slow_link.job.json"
#define ALONE "tests/fuzz/corpus/kineto/alone.json" /* one rank that reduces nothing */

/* Run the program and check what it says. */
static void say(int code, const char *says, const char *format, const char *dir)
{
    char words[1024];
    struct program p;

    snprintf(words, sizeof words, format, dir, dir);
    program_run(&p, dir, code, "%s", words);
    ck_assert_msg(strstr(code ? p.err : p.out, says) != NULL, "%s: no '%s' in: %s%s", words, says,
                  p.out, p.err);
    program_fini(&p);
}

/* Read a folder of exported files as a run. */
static void import(const char *folder, struct lk_run *out)
{
    struct lk_import imported = {0};
    char **files = NULL;
    size_t n = 0;

    must(lk_import_files(&folder, 1, &files, &n));
    must(lk_import_run(files, n, &(struct lk_import_options){0}, &imported));
    ck_assert_ptr_null(imported.no_steps);
    must(lk_run_take(folder, imported.traces, imported.n, out));
    imported.traces = NULL;
    lk_import_fini(&imported);
    lk_names_free(files, n);
}

/* Times of the files are whole microseconds. */
static void assert_near(uint64_t a_ns, uint64_t b_ns)
{
    uint64_t apart = a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns;

    ck_assert_msg(apart <= 1000, "%llu and %llu ns", (unsigned long long)a_ns,
                  (unsigned long long)b_ns);
}

/* Compare a rank's step with the imported one: its length, passes and collectives. */
static void assert_same(const struct lk_rank_steps *was, const struct lk_step *p,
                        const struct lk_rank_steps *is)
{
    const struct lk_step *q = &is->steps[0];
    struct lk_step_split a, b;

    assert_near(p->end_ns - p->begin_ns, q->end_ns - q->begin_ns);
    ck_assert_uint_eq(p->n_collectives, q->n_collectives);
    for (size_t i = 0; i < p->n_collectives; i++) {
        const struct lk_collective *x = &was->collectives[p->first_collective + i];
        const struct lk_collective *y = &is->collectives[q->first_collective + i];

        ck_assert_uint_eq(x->bytes, y->bytes);
        ck_assert_int_eq(x->bucket, y->bucket);
        assert_near(x->due_ns - p->begin_ns, y->due_ns - q->begin_ns);
        assert_near(x->end_ns - p->begin_ns, y->end_ns - q->begin_ns);
    }
    lk_step_split(was, p, NULL, &a);
    lk_step_split(is, q, NULL, &b);
    for (int i = LK_PART_FORWARD; i <= LK_PART_OPTIMIZER; i++)
        ck_assert_double_eq_tol(a.s[i], b.s[i], 2e-6); /* two ends a pass */
}

#define SIMULATE "predict " JOB " ethernet-25g --gpus 2 --trace %s/was --trace-steps 5"

/* Simulated and measured runs, and how many collectives a step has. */
static const struct {
    const char *make;
    size_t n_collectives;
    int accumulation;
} runs[] = {
    {SIMULATE, 4, 1},
    {SIMULATE " --accumulation 3", 4, 3},
    {SIMULATE " --bucket-cap 128KiB", 2, 1},
    {"replay " JOB " -n 2 -a 2 --sync-every --steps 5 --warmup 1 --out %s/was", 8, 2},
};

START_TEST(a_step_comes_back)
{
    char *was = scratch_path(scratch_dir, "was"), *out = scratch_path(scratch_dir, "out");
    const char *paths[] = {was};
    struct lk_run_set set = {0};
    struct lk_run run;
    const struct lk_step *p;

    say(0, "", runs[_i].make, scratch_dir);
    say(0, "step 3", "export %s/was --step 3 --out %s/out", scratch_dir);
    must(lk_run_set_read(paths, 1, &set));
    import(out, &run);
    ck_assert_uint_eq(run.n, 2);
    ck_assert_uint_eq(run.n_steps, 1);
    ck_assert_int_eq(lk_run_world_size(&run), 2);
    ck_assert_int_eq(lk_run_about(&run)->accumulation, runs[_i].accumulation);
    ck_assert_int_eq(lk_run_about(&run)->tensors[0].dtype, LK_F32);
    for (size_t k = 0; k < 2; k++) {
        p = lk_rank_step(&set.runs[0].ranks[k], 3);
        ck_assert_uint_eq(p->n_collectives, runs[_i].n_collectives);
        assert_same(&set.runs[0].ranks[k], p, &run.ranks[k]);
    }
    lk_run_fini(&run);
    lk_run_set_fini(&set);
    free(was);
    free(out);
}
END_TEST

/* The imported step makes a job, whose forecast has the step. */
START_TEST(the_way_around)
{
    say(0, "Forecast", "predict " JOB " ethernet-25g --gpus 2 --trace %s/sim --trace-steps 5",
        scratch_dir);
    say(0, "ASTRA-sim", "export %s/sim --prefix resnet --out %s/out", scratch_dir);
    say(0, "2 of 2 ranks", "import %s/out --local-batch 8 --out %s/imported", scratch_dir);
    say(0, "Forecast", "predict %s/imported/job.json ethernet-25g --gpus 2", scratch_dir);
    say(2, "out: is not empty", "export %s/sim --out %s/out", scratch_dir);
    say(1, "step 77 is not complete on rank 0", "export %s/sim --step 77 --out %s/else",
        scratch_dir);
    say(0, "1 of 2 ranks", "import %s/out/resnet.1.et --out %s/half", scratch_dir);
    say(1, "rank 0 of 2 is not in the run", "export %s/half --out %s/else", scratch_dir);
    say(0, "Forecast", "predict " JOB " ethernet-25g --gpus 1 --trace %s/one", scratch_dir);
    say(0, "one rank: its collectives moved nothing", "export %s/one --out %s/alone", scratch_dir);
    say(0, "1 of 1 ranks", "import " ALONE " --out %s/trace", scratch_dir);
    say(1, "has no collectives: the run has one rank", "export %s/trace --out %s/else",
        scratch_dir);
    say(2, "has 5 runs; name one", "export %s --out %s/else", scratch_dir);
    say(1, "nothing: ", "export %s/nothing", scratch_dir);
    say(2, "--prefix=a/b", "export %s/sim --prefix a/b", scratch_dir);
    say(2, "which run?", "export", scratch_dir);
}
END_TEST

/* A node has no group: collectives of four of eight ranks would become those of all. */
START_TEST(groups_are_refused)
{
    char text[8192] = "";

    for (size_t i = 0; i < KINETO_PARTS; i++)
        strncat(text, kineto_parts[i], sizeof text - strlen(text) - 1);
    memcpy(strstr(text, "\"world_size\": 4"), "\"world_size\": 8", 15);
    free(scratch_put("rank1.json", text, strlen(text)));
    say(0, "1 of 8 ranks", "import %s/rank1.json --out %s/run", scratch_dir);
    say(1, "some collectives are of groups smaller than the job", "export %s/run --out %s/out",
        scratch_dir);
}
END_TEST

SUITE(export, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, a_step_comes_back, 0, LK_COUNT(runs));
    tcase_add_test(t, the_way_around);
    tcase_add_test(t, groups_are_refused);
}
