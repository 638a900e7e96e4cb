/*
 * lockstep run that is killed at random times and resumed ends with the losses and weights of a run
 * that was not. LOCKSTEP_CASES=50 build/test_lockstep run_checkpoint tries as many; the default is
 * quick.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "runtime/train/checkpoint.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { RANKS = 3, STEPS = 40, KILLS = 4 };

/* Three ranks and small buckets: sums depend on their order. Input slows a step to 5 ms or so. */
#define JOB                                                                                        \
    "run -n3 --model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=256 " \
    "--no-pin -b2 --prefetch=2 --input-delay=5ms --bucket-cap=4KiB --warmup=0 --check-every=1 "    \
    "--timeout=100s "
#define WHOLE JOB "--steps=40 "

static void assert_says(const char *text, const char *words)
{
    ck_assert_msg(strstr(text, words) != NULL, "no '%s' in:\n%s", words, text);
}

/* Read the losses of a run from DIR/NAME/PART/result.json. */
static void read_losses(const char *name, const char *part, double losses[STEPS])
{
    struct lk_json_doc *doc = NULL;
    struct lk_json *list;
    char *path;

    ck_assert_int_eq(lk_asprintf(&path, "%s/%s/%s/result.json", scratch_dir, name, part), LK_OK);
    ck_assert_msg(lk_json_load(path, &doc) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_json_array(lk_json_root(doc), "loss", &list), LK_OK);
    ck_assert_uint_eq(lk_json_count(list), STEPS);
    for (size_t i = 0; i < STEPS; i++)
        if (lk_json_type(lk_json_item(list, i)) == LK_JSON_NULL)
            losses[i] = NAN;
        else
            ck_assert_int_eq(lk_json_as_number(lk_json_item(list, i), &losses[i]), LK_OK);
    lk_json_free(doc);
    free(path);
}

/* Check the losses of a resumed run against those of the whole one; return its first step. */
static int same_losses(const double whole[STEPS], const char *name, const char *part)
{
    double losses[STEPS];
    int first = 0;

    read_losses(name, part, losses);
    while (first < STEPS && isnan(losses[first]))
        first++;
    for (int i = first; i < STEPS; i++)
        ck_assert_msg(losses[i] == whole[i], "%s: step %d: %.17g, not %.17g", name, i, losses[i],
                      whole[i]);
    return first;
}

static void run_whole(double losses[STEPS])
{
    struct program p;

    program_run(&p, scratch_dir, 0, WHOLE "--out=%s/whole --export=%s/whole.weights", scratch_dir,
                scratch_dir);
    program_fini(&p);
    read_losses("whole", "k3-b2-a1-r0", losses);
}

/* Wait until a folder has a checkpoint of more than so many steps, or the program has ended. */
static void await_checkpoint(const struct program *p, const char *dir, int64_t steps)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);
    siginfo_t info = {0};
    int64_t newest = -1;

    while (newest <= steps && !info.si_pid) {
        char *path = NULL;

        ck_assert_msg(lk_deadline_left_ns(end) > 0, "no checkpoint after step %lld",
                      (long long)steps);
        lk_sleep_until_ns(lk_monotonic_ns() + 2 * LK_NS_PER_MS);
        if (lk_is_folder(dir) && lk_checkpoint_find(dir, INT64_MAX, &path) == LK_OK)
            newest = lk_checkpoint_steps(path);
        free(path);
        ck_assert_int_eq(waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

/* Kill a rank, the launcher or all of them at a random time, resume, and again, until the run ends.
 * A checkpoint is written after every step or some, so that many a kill hits one. */
static int kill_and_resume(struct lk_rng *g, size_t n)
{
    char *dir, *newest = NULL, resume[256] = "";
    struct program p;
    int starts = 0;
    bool ended = false;

    ck_assert_int_eq(lk_asprintf(&dir, "%s/c%zu", scratch_dir, n), LK_OK);
    for (; !ended; starts++) {
        int victim = (int)lk_rng_below(g, RANKS + 2);
        uint64_t delay_ns = lk_rng_below(g, 150 * LK_NS_PER_MS);
        pid_t pid = 0;

        program_start(&p, scratch_dir, NULL, NULL,
                      WHOLE "--checkpoint-every=%d --checkpoint-dir=%s --out=%s/r%zu-%d "
                            "--export=%s/r%zu.weights %s",
                      1 + (int)(n % 3), dir, scratch_dir, n, starts, scratch_dir, n, resume);
        if (starts < KILLS && victim < RANKS)
            pid = program_rank(&p, victim);
        if (starts % 2 == 0 && starts < KILLS) /* else it may be killed while it starts */
            await_checkpoint(&p, dir, newest ? lk_checkpoint_steps(newest) : 0);
        if (starts < KILLS) {
            lk_sleep_until_ns(lk_monotonic_ns() + delay_ns);
            if (victim >= RANKS || pid > 0)
                (void)kill(victim < RANKS ? pid : victim == RANKS ? p.pid : -p.pid, SIGKILL);
        }
        program_wait(&p);
        ck_assert_int_eq(program_left(&p), 0);
        ended = p.code == 0;
        ck_assert_msg(ended || starts < KILLS, "%s", p.err);
        program_fini(&p);
        free(newest);
        newest = NULL;
        if (lk_is_folder(dir) && lk_checkpoint_find(dir, STEPS, &newest) == LK_OK)
            snprintf(resume, sizeof resume, "--resume=%s", dir);
    }
    free(newest);
    free(dir);
    return starts - 1;
}

START_TEST(killed_and_resumed)
{
    struct lk_rng g = lk_rng_init(30, 5);
    double whole[STEPS];
    size_t resumed = 0;

    run_whole(whole);
    for (size_t n = 0; n < cases_or(3); n++) {
        int last = kill_and_resume(&g, n);
        char name[64];

        snprintf(name, sizeof name, "r%zu-%d", n, last);
        resumed += same_losses(whole, name, "k3-b2-a1-r0") > 0;
        snprintf(name, sizeof name, "r%zu.weights", n);
        scratch_same(scratch_dir, "whole.weights", name);
    }
    ck_assert_uint_gt(resumed, 0);
    printf("%zu of %zu runs ended from a checkpoint\n", resumed, cases_or(3));
}
END_TEST

/* A rank kills itself at a collective; the launcher starts again, from the last checkpoint, and its
 * later starts have fewer collectives before them. */
START_TEST(starts_again_by_itself)
{
    double whole[STEPS];
    struct program p;

    run_whole(whole);
    /* About 200 collectives of 40 steps: the first start comes to half of them. */
    program_run(&p, scratch_dir, 0,
                WHOLE "--out=%s/again --export=%s/again.weights --checkpoint-every=3 --restart=9 "
                      "--fault=kill:call=%d,rank=1",
                scratch_dir, scratch_dir, 60);
    assert_says(p.err, "rank 1 was killed by signal 9");
    assert_says(p.err, "start 1 of 9, from ");
    assert_says(p.out, "goodput: ");
    assert_says(p.out, "the model gives ");
    scratch_same(scratch_dir, "whole.weights", "again.weights");
    program_fini(&p);
}
END_TEST

START_TEST(gives_up_after_the_last_start)
{
    struct program p;

    program_run(&p, scratch_dir, 1, WHOLE "--out=%s/r --restart=2 --fault=kill:call=2,rank=1",
                scratch_dir);
    assert_says(p.err, "start 2 of 2, from the beginning");
    ck_assert_ptr_null(strstr(p.err, "start 3"));
    program_fini(&p);
}
END_TEST

/* Options that do not go together, and files that are not there. */
static const struct {
    const char *options, *says;
    int code;
} wrong[] = {
    {"--keep=3", "need --checkpoint-every", 2},
    {"--checkpoint-every=5 --scaling=1,2", "for a single run", 2},
    {"--resume=x --import=y", "exclude each other", 2},
    {"--checkpoint-every=5 --device=timed", "the timed device", 2},
    {"--resume=nothing", "nothing", 1},
};

START_TEST(wrong_options)
{
    struct program p;

    program_run(&p, scratch_dir, wrong[_i].code, "run --model=gpt-nano --steps=2 --out=%s/r %s",
                scratch_dir, wrong[_i].options);
    assert_says(p.err, wrong[_i].says);
    program_fini(&p);
}
END_TEST

/* A folder that has another run's checkpoints is not written to; other options are said; a damaged
 * file is refused before ranks start. */
START_TEST(folder_of_another_run)
{
    struct program p;
    char *path;
    FILE *f;

    program_run(&p, scratch_dir, 0,
                JOB "--steps=4 --checkpoint-every=2 --checkpoint-dir=%s/c --out=%s/a", scratch_dir,
                scratch_dir);
    program_fini(&p);
    program_run(&p, scratch_dir, 2, WHOLE "--checkpoint-every=2 --checkpoint-dir=%s/c --out=%s/b",
                scratch_dir, scratch_dir);
    assert_says(p.err, "has checkpoints");
    program_fini(&p);
    program_run(&p, scratch_dir, 0, JOB "--steps=6 --resume=%s/c --learning-rate=0.5 --out=%s/b",
                scratch_dir, scratch_dir);
    assert_says(p.err, "was made with --learning-rate=0.001");
    program_fini(&p);
    program_run(&p, scratch_dir, 2, JOB "--steps=6 --resume=%s/c --force --out=%s", scratch_dir,
                scratch_dir);
    assert_says(p.err, "--force would remove --resume=");
    program_fini(&p);
    path = scratch_path(scratch_dir, "c/step-000000004.safetensors");
    f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, -64, SEEK_END), 0);
    ck_assert_uint_eq(fwrite("damaged!", 1, 8, f), 8);
    ck_assert_int_eq(fclose(f), 0);
    program_run(&p, scratch_dir, 1, JOB "--steps=6 --resume=%s/c --out=%s/d", scratch_dir,
                scratch_dir);
    assert_says(p.err, "step-000000004.safetensors: is damaged");
    assert_says(p.err, "c/step-000000002.safetensors");
    program_fini(&p);
    free(path);
}
END_TEST

SUITE(run_checkpoint, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, killed_and_resumed);
    tcase_add_test(t, starts_again_by_itself);
    tcase_add_test(t, gives_up_after_the_last_start);
    tcase_add_loop_test(t, wrong_options, 0, (int)LK_COUNT(wrong));
    tcase_add_test(t, folder_of_another_run);
}
