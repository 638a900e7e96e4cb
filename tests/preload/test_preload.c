/*
 * The preload library in foreign processes: what it records of MPI, in both ABIs, and that nothing
 * else about them changes. tests/mpi has the stand-in for MPI.
 */
#include "base/array.h"
#include "base/file.h"
#include "profiler/import/format.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"
#include "profiler/import/preload.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 7 /* collectives of a step of tests/mpi/program.c */, STEPS = 20 };

static const char *const abis[] = {"open", "mpich"};

/* ---- Running ---- */

/* Run a line with the library and this folder in the environment, and others: "RANK=1". */
static struct shell_result preloaded(const char *environment, const char *line)
{
    char *library = realpath(LK_BUILD_DIR "/liblockstep_profile.so", NULL);
    struct shell_result r;

    ck_assert_ptr_nonnull(library);
    r = shell_run("export LD_PRELOAD='%s' LOCKSTEP_PROFILE_DIR='%s' %s; { %s; } 2>&1", library,
                  scratch_dir, environment, line);
    free(library);
    return r;
}

/* Run the program on MPI in an ABI as rank 1 of 4, and return its exit code, 128 + a signal's. */
static int run_program(size_t abi, const char *environment, const char *words)
{
    char line[512], settings[256];
    struct shell_result r;

    snprintf(settings, sizeof settings, "RANK=1 WORLD_SIZE=4 %s", environment);
    snprintf(line, sizeof line, "%s/mpi/%s/program %s; exit $?", LK_BUILD_DIR, abis[abi], words);
    r = preloaded(settings, line);
    return r.code;
}

/* ---- Files ---- */

static size_t count_files(void)
{
    char **names = NULL;
    size_t n = 0;

    must(lk_dir_list(scratch_dir, ".probe", &names, &n));
    lk_names_free(names, n);
    return n;
}

/* Return the path of the i-th file, which the caller frees. */
static char *file_at(size_t i)
{
    char **names = NULL, *path = NULL;
    size_t n = 0;

    must(lk_dir_list(scratch_dir, ".probe", &names, &n));
    ck_assert_uint_gt(n, i);
    path = scratch_path(scratch_dir, names[i]);
    lk_names_free(names, n);
    return path;
}

static void read_file(size_t i, struct lk_events *out)
{
    char *path = file_at(i);

    must(lk_preload_read(path, NULL, out));
    lk_events_sort(out);
    free(path);
}

static size_t count(const struct lk_events *e, enum lk_event_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_events; i++)
        n += e->events[i].kind == kind;
    return n;
}

/* Return the i-th collective of a group, or of any (NULL), by start. */
static const struct lk_event_detail *collective(const struct lk_events *e, const char *group,
                                                size_t i)
{
    for (size_t k = 0; k < e->n_events; k++) {
        const struct lk_event_detail *c = &e->details[e->events[k].detail - 1];

        if (e->events[k].kind == LK_EVENT_COLLECTIVE &&
            (!group || !strcmp(lk_events_text(e, c->group), group)) && !i--)
            return c;
    }
    ck_abort_msg("no collective %zu in %s", i, group ? group : "any group");
}

/* ---- Recording ---- */

START_TEST(calls_are_recorded)
{
    static const struct {
        const char *function;
        uint64_t elements;
        enum lk_dtype dtype;
        bool dtype_known;
    } expected[STEP] = {
        {"all_reduce", 1000, LK_F32, true},
        {"all_reduce", 500, LK_F32, true},
        {"all_reduce", 600, LK_F32, true},
        {"all_reduce", 120, LK_U8, true}, /* 10 of a type of 12 bytes */
        {"all_gather", 7, LK_F32, true},
        {"reduce_scatter", 1 + 2 + 3 + 4, LK_F32, true},
        {"barrier", 0, LK_F32, false},
    };
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "", "steps"), 3);
    ck_assert_uint_eq(count_files(), 1);
    read_file(0, &e);
    ck_assert_int_eq(e.source.rank, 1);
    ck_assert_int_eq(e.source.world_size, 4);
    ck_assert_str_eq(e.source.backend, "mpi");
    ck_assert_ptr_nonnull(e.source.clock.name);
    ck_assert_int_gt(e.source.clock.epoch_ns, 0);
    ck_assert_uint_eq(e.source.n_skipped, 0);
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), STEP * STEPS);
    ck_assert_uint_eq(count(&e, LK_EVENT_SYNC), 2 * STEPS); /* a wait, and a test that found it */
    for (size_t i = 0; i < (size_t)STEP * STEPS; i++) {
        const struct lk_event_detail *c = collective(&e, "MPI_COMM_WORLD", i);

        ck_assert_str_eq(lk_events_text(&e, c->function), expected[i % STEP].function);
        ck_assert_uint_eq(c->elements, expected[i % STEP].elements);
        ck_assert_int_eq(c->dtype_known, expected[i % STEP].dtype_known);
        ck_assert_int_eq(c->dtype, expected[i % STEP].dtype);
        ck_assert_uint_eq(c->sequence, i + 1);
        ck_assert_uint_eq(c->ranks, 4);
    }
    lk_events_fini(&e);
}
END_TEST

START_TEST(groups_are_told_by_their_ranks)
{
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "", "names"), 3);
    read_file(0, &e);
    ck_assert_int_eq(e.source.world_size, 4);
    /* Five communicators, by turns of the even and of the odd ranks; freed ones are not mistaken
     * for their successors, whose handles are the same. */
    ck_assert_uint_eq(collective(&e, "ranks 0,2", STEP * STEPS - 1)->sequence, STEP * STEPS);
    ck_assert_uint_eq(collective(&e, "ranks 1,3", 0)->ranks, 2);
    ck_assert_uint_eq(collective(&e, "ranks 0,2 #2", 0)->sequence, 1);
    ck_assert_uint_eq(collective(&e, "ranks 1,3 #2", STEP * STEPS - 1)->sequence, STEP * STEPS);
    ck_assert_uint_eq(collective(&e, "ranks 0,2 #3", 0)->sequence, 1);
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), 5 * STEP * STEPS);
    lk_events_fini(&e);
}
END_TEST

START_TEST(threads_write_one_file)
{
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "", "threads 2000"), 3);
    ck_assert_uint_eq(count_files(), 1);
    read_file(0, &e);
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), 2 * STEP * 2000);
    for (size_t i = 0; i < (size_t)STEP * 20; i++) {
        ck_assert_uint_eq(collective(&e, "ranks 0,2", i)->sequence, i + 1);
        ck_assert_uint_eq(collective(&e, "ranks 1,3", i)->sequence, i + 1);
    }
    lk_events_fini(&e);
}
END_TEST

START_TEST(a_killed_process_leaves_a_file)
{
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "", "kill"), 128 + 9);
    read_file(0, &e);
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), STEP * (STEPS / 2 + 1));
    ck_assert(!e.source.lost);
    lk_events_fini(&e);
}
END_TEST

/* A child shares its parent's file, and so leaves it alone. */
START_TEST(a_child_records_nothing)
{
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "", "fork"), 3);
    ck_assert_uint_eq(count_files(), 1);
    read_file(0, &e);
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), 2 * STEP * STEPS);
    lk_events_fini(&e);
}
END_TEST

START_TEST(an_executed_program_begins_anew)
{
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "", "exec"), 3);
    ck_assert_uint_eq(count_files(), 2);
    for (size_t i = 0; i < 2; i++) {
        read_file(i, &e);
        ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), STEP * STEPS);
        lk_events_fini(&e);
    }
}
END_TEST

START_TEST(a_full_ring_keeps_the_newest)
{
    enum { RECORDS = (1 << 20) / 64 };
    struct lk_events e;

    ck_assert_int_eq(run_program((size_t)_i, "LOCKSTEP_PROFILE_MIB=1", "steps 4000"), 3);
    read_file(0, &e);
    ck_assert_uint_eq(e.source.n_read, RECORDS);
    ck_assert(e.source.lost);
    ck_assert_uint_gt(e.source.n_notes, 0);
    ck_assert_ptr_nonnull(strstr(e.source.notes[0], "overwritten"));
    ck_assert_uint_eq(e.details[e.n_details - 1].sequence, 4000 * STEP);
    lk_events_fini(&e);
}
END_TEST

/* ---- Doing no harm ---- */

/* A file larger than it may be would be a signal, and a full disk one at any store. */
START_TEST(no_room_is_no_signal)
{
    const struct lk_format *format = NULL;
    struct lk_events e;
    char *path;

    ck_assert_int_eq(
        preloaded("", "ulimit -f 64; " LK_BUILD_DIR "/mpi/open/program steps; exit $?").code, 3);
    path = file_at(0);
    ck_assert_int_eq(lk_preload_read(path, NULL, &e), LK_EPARSE);
    lk_events_fini(&e);
    must(lk_format_of(path, &format));
    ck_assert_ptr_nonnull(strstr(format->name, "empty"));
    free(path);
}
END_TEST

/* Lines whose output and exit code the library must not change; those of MPI's program do MPI. */
static const char *const lines[] = {
    LK_BUILD_DIR "/mpi/open/program steps",
    LK_BUILD_DIR "/mpi/mpich/program steps",
    LK_BUILD_DIR "/mpi/open/program close",
    LK_BUILD_DIR "/mpi/open/program setuid",
    LK_BUILD_DIR "/mpi/open/program handler",
    LK_BUILD_DIR "/mpi/open/program kill; echo $?",
    "LOCKSTEP_PROFILE_DIR= " LK_BUILD_DIR "/mpi/open/program steps",
    "LOCKSTEP_PROFILE_DIR=/proc/none " LK_BUILD_DIR "/mpi/open/program steps",
    "bash -c 'echo a; exit 5'",
    "sh -c 'echo b | cat | tr b c; false'",
    "bash -c 'kill -TERM $$'; echo $?",
    "sh -c 'kill -SEGV $$' 2> /dev/null; echo $?",
    "ls /nowhere; echo $?",
    "env -i sh -c 'echo d'",
    "exec 3>&- 4>&-; echo e | { read x; echo $x; }",
    "python3 -c 'import os, subprocess; subprocess.run([\"true\"])'; echo $?",
    "python3 -c 'import os; pid = os.fork(); pid or os._exit(6); print(os.waitpid(pid, 0)[1])'",
    "python3 -c 'import ctypes; ctypes.CDLL(None); raise SystemExit(4)'; echo $?",
};

START_TEST(programs_are_unharmed)
{
    const char *line = lines[_i];
    bool mpi = strstr(line, "mpi/") != NULL;
    struct shell_result with = preloaded("RANK=0", line);
    struct shell_result without = shell_run("export RANK=0; { %s; } 2>&1", line);

    ck_assert_str_eq(with.text, without.text);
    ck_assert_int_eq(with.code, without.code);
    if (!mpi)
        ck_assert_uint_eq(count_files(), 0);
}
END_TEST

/* ---- A run ---- */

/* Processes of a host share its clock: none is aligned. Their steps are found by their calls. */
START_TEST(ranks_become_a_run)
{
    const struct lk_import_options options = {0};
    struct lk_import import;
    char **files = NULL;
    size_t n = 0;

    for (int rank = 0; rank < 4; rank++) {
        char environment[64], line[256];

        snprintf(environment, sizeof environment, "RANK=%d WORLD_SIZE=4", rank);
        snprintf(line, sizeof line, "%s/mpi/%s/program steps 50", LK_BUILD_DIR, abis[_i]);
        ck_assert_int_eq(preloaded(environment, line).code, 3);
    }
    must(lk_import_files((const char *const *)&scratch_dir, 1, &files, &n));
    ck_assert_uint_eq(n, 4);
    must(lk_import_run(files, n, &options, &import));
    ck_assert_msg(import.traces != NULL, "%s", import.no_steps);
    for (size_t k = 0; k < 4; k++) {
        const struct lk_trace *t = &import.traces[k];

        ck_assert_int_eq(t->info.rank, (int)k);
        ck_assert_int_eq(t->info.world_size, 4);
        ck_assert_str_eq(t->info.comm, "mpi");
        ck_assert_int_eq(t->clock.offset_ns, 0);
        ck_assert_uint_eq(t->clock.uncertainty_ns, 0);
        ck_assert_uint_ge(t->info.steps, 45);
    }
    lk_import_fini(&import);
    lk_names_free(files, n);
}
END_TEST

/* A file that another process empties is a SIGBUS, and the program's end, if nobody takes it. */
START_TEST(a_file_that_is_cut_harms_no_program)
{
    ck_assert_int_eq(run_program((size_t)_i, "", "cut"), 3);
}
END_TEST

SUITE(preload, tests)
{
    const int n_abis = (int)LK_COUNT(abis);

    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, calls_are_recorded, 0, n_abis);
    tcase_add_loop_test(tests, groups_are_told_by_their_ranks, 0, n_abis);
    tcase_add_loop_test(tests, threads_write_one_file, 0, n_abis);
    tcase_add_loop_test(tests, a_killed_process_leaves_a_file, 0, n_abis);
    tcase_add_loop_test(tests, a_child_records_nothing, 0, n_abis);
    tcase_add_loop_test(tests, an_executed_program_begins_anew, 0, n_abis);
    tcase_add_loop_test(tests, a_full_ring_keeps_the_newest, 0, n_abis);
    tcase_add_loop_test(tests, a_file_that_is_cut_harms_no_program, 0, n_abis);
    tcase_add_test(tests, no_room_is_no_signal);
    tcase_add_loop_test(tests, programs_are_unharmed, 0, LK_COUNT(lines));
    tcase_add_loop_test(tests, ranks_become_a_run, 0, n_abis);
}
