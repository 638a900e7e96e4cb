/* lockstep run --comm=mpi under the launchers of Open MPI and MPICH, where they are installed. */
#include "base/array.h"
#include "commands/run_grid.h"
#include "tests/rigs/mpirun.h"
#include "tests/rigs/must.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                      \
    "run --model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 "    \
    "-b2 --prefetch=0 --steps=12 --warmup=1 "

/* Collective 12 is the all-reduce of step 3. */
#define SMALL "run --model=mlp -b2 --steps=12 --warmup=1 "

enum { LAUNCHERS = 2 };

/* Train by n ranks and read what they write. */
static void train(const char *mpirun, const char *comm, struct lk_train_result *out)
{
    char *path;
    struct shell_result r = shell_run("%s %s/lockstep %s --comm=%s --out=%s/%s 2>&1", mpirun,
                                      LK_BUILD_DIR, MODEL, comm, scratch_dir, comm);

    ck_assert_msg(r.code == 0, "%s", r.text);
    must(lk_asprintf(&path, "%s/%s/result.json", scratch_dir, comm));
    must(run_result_read(path, out));
    free(path);
}

/* Two numbers have one sum, so two ranks train to the same bits by any communicator. Three are
 * added in another order: each sum of three gradients, and each loss, may differ by roundings of
 * float32, which 12 steps do not carry above a millionth. */
START_TEST(losses_are_those_of_tcp)
{
    const int ranks = 2 + _i / LAUNCHERS;
    char *words = mpirun(_i % LAUNCHERS, ranks);
    struct lk_train_result tcp, mpi;

    if (!words)
        return;
    train(words, "tcp", &tcp);
    train(words, "mpi", &mpi);
    ck_assert_int_eq(tcp.n, 13);
    ck_assert_int_eq(mpi.n, tcp.n);
    for (int64_t i = 0; i < tcp.n; i++)
        ck_assert_msg(fabs(mpi.loss[i] - tcp.loss[i]) <= (ranks == 2 ? 0 : 1e-6 * tcp.loss[i]),
                      "step %d: %.17g, by tcp %.17g", (int)i, mpi.loss[i], tcp.loss[i]);
    lk_train_result_fini(&tcp);
    lk_train_result_fini(&mpi);
    free(words);
}
END_TEST

START_TEST(collectives_are_right)
{
    char *words = mpirun(_i, 3);
    struct shell_result r;

    if (!words)
        return;
    r = shell_run("%s %s/bench/comm_mpi check 2>&1", words, LK_BUILD_DIR);
    ck_assert_msg(r.code == 0 && strstr(r.text, "420 collectives of 3 ranks are right"), "%s",
                  r.text);
    free(words);
}
END_TEST

static const struct {
    const char *options, *says;
} failures[] = {
    {"--fault=fail:call=12,rank=1", "rank 1 failed: all_reduce 12 (bucket 0, step"},
    /* MPI cannot give up its call, in which it polls: the rank that waits ends, and says why. */
    {"--fault=stall:call=12,rank=1 --timeout=4s",
     "rank 1 fell behind: did not enter collective 12, others are in 12"},
    {"--algorithm=ring", "--algorithm: mpi has no ring for all_reduce; it has: auto. MPI chooses"},
};

START_TEST(a_failure_is_named)
{
    const size_t f = (size_t)_i / LAUNCHERS;
    char *words = mpirun(_i % LAUNCHERS, 2);
    struct shell_result r = {0};

    if (!words)
        return;
    /* MPICH's launcher dies of SIGPIPE if a rank ends while others are started, some once in 300
     * times, and what the ranks said is lost. */
    for (int tries = 0; tries < 5 && (!tries || (r.code == 128 + SIGPIPE && !r.text[0])); tries++)
        r = shell_run("%s %s/lockstep %s --comm=mpi %s --out=%s/run 2>&1", words, LK_BUILD_DIR,
                      SMALL, failures[f].options, scratch_dir);
    ck_assert_msg(r.code != 0 && said(r.text, failures[f].says), "code %d: %s", r.code, r.text);
    free(words);
}
END_TEST

/* Open MPI's launcher names a rank that is killed. MPICH's ends the others at once, and names the
 * process and its host. */
START_TEST(a_killed_rank_is_named)
{
    static const char *const says[LAUNCHERS] = {"rank 1", "EXIT STRING: Killed (signal 9)"};
    char *words = mpirun(_i, 2);
    struct shell_result r;

    if (!words)
        return;
    r = shell_run("%s %s/lockstep %s --comm=mpi --fault=kill:call=12,rank=1 --out=%s/run 2>&1",
                  words, LK_BUILD_DIR, SMALL, scratch_dir);
    ck_assert_msg(r.code != 0 && strstr(r.text, says[_i]), "code %d: %s", r.code, r.text);
    free(words);
}
END_TEST

/* Ranks that MPI did not start are told so, before they train. */
START_TEST(other_launchers_are_refused)
{
    struct shell_result r = shell_run("%s/lockstep %s --comm=mpi -n 2 --out=%s/run 2>&1",
                                      LK_BUILD_DIR, SMALL, scratch_dir);

    ck_assert_int_eq(r.code, 2);
    ck_assert_ptr_nonnull(said(r.text, "--comm=mpi needs ranks that MPI's launcher started"));
}
END_TEST

SUITE(run_mpi, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, losses_are_those_of_tcp, 0, 2 * LAUNCHERS);
    tcase_add_loop_test(c, collectives_are_right, 0, LAUNCHERS);
    tcase_add_loop_test(c, a_failure_is_named, 0, (int)LK_COUNT(failures) * LAUNCHERS);
    tcase_add_loop_test(c, a_killed_rank_is_named, 0, LAUNCHERS);
    tcase_add_test(c, other_launchers_are_refused);
}
