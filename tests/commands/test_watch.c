/* Runs are watched while they go on: by their folder, and as jobs of profile. */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB "tests/data/slow_link.job.json" /* steps of 130 ms */

static void assert_says(const char *text, const char *what)
{
    ck_assert_msg(strstr(text, what) != NULL, "no '%s' in: %.3000s", what, text);
}

/* The slow rank is named while it runs, by the words of the analysis at the end. */
START_TEST(a_run_is_followed_to_its_end)
{
    char *runs = scratch_path(scratch_dir, "runs"), *folder = scratch_path(scratch_dir, "follow");
    char *begun = scratch_path(scratch_dir, "run");
    struct program run, follow;

    ck_assert(lk_mkdirs(runs) == LK_OK && lk_mkdirs(folder) == LK_OK);
    program_start(&run, runs, NULL, NULL,
                  "replay " JOB " -n 3 --slow-rank 1:1.5 --steps 22 --warmup 1 --out %s/run",
                  scratch_dir);
    while (!lk_is_folder(begun))
        lk_nap_ns(50 * LK_NS_PER_MS);
    program_run(&follow, folder, 0, "analyze --follow %s/run --interval 0.5s --deadline 60s",
                scratch_dir);
    assert_says(follow.err, "lockstep watch: step ");
    assert_says(follow.err, "slow rank: rank 1 computes ");
    assert_says(follow.err, "waiting for the last rank");
    assert_says(follow.err, " of a processor");
    assert_says(follow.out, "slow rank: rank 1 computes "); /* of the whole, by the same function */
    program_fini(&follow);
    program_wait(&run);
    program_fini(&run);
    free(begun);
    free(folder);
    free(runs);
}
END_TEST

START_TEST(a_deadline_ends_it)
{
    struct program p;

    program_run(&p, scratch_dir, 0, "analyze --follow %s --interval 0.1s --deadline 0.3s",
                scratch_dir);
    assert_says(p.out, "The run goes on: waiting: no rank writes.");
    program_fini(&p);
    program_run(&p, scratch_dir, 2, "analyze --follow %s %s", scratch_dir, scratch_dir);
    assert_says(p.err, "--follow takes one folder");
    program_fini(&p);
}
END_TEST

/* The job's output, and what is made of it, are those without --watch. */
START_TEST(a_job_is_watched)
{
    static const char job[] = "for rank in 0 1; do RANK=$rank WORLD_SIZE=2 " LK_BUILD_DIR
                              "/mpi/open/program steps & done; wait; sleep 1.2; exit 3\n";
    char *path = scratch_put("job.sh", job, strlen(job));
    struct program p;

    program_run(&p, scratch_dir, 3, "profile --watch --interval 0.2s --out %s/run -- sh %s",
                scratch_dir, path);
    ck_assert_str_eq(p.out, "steps: done\nsteps: done\n");
    assert_says(p.err, "lockstep watch: step 19: ");
    assert_says(p.err, "recorded 2 of 2 ranks by the preload library: 19 steps");
    program_fini(&p);
    free(path);
}
END_TEST

SUITE(watch, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, a_run_is_followed_to_its_end);
    tcase_add_test(c, a_deadline_ends_it);
    tcase_add_test(c, a_job_is_watched);
}
