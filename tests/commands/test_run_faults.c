/*
 * lockstep run when things go wrong: ranks and launchers killed, stopped, missing; unusable ports,
 * files and disks. In every case: no process is left, the exit code and the message are right, and
 * the recorded spans can be read.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "facts/trace.h"
#include "profiler/analysis/run_set.h"
#include "profiler/record/span_file.h"
#include "tests/rigs/foreign.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Train for an hour, unless something happens. */
#define LONG                                                                                       \
    "--model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 "        \
    "--no-pin -b2 --prefetch=0 --input-delay=50ms --steps=72000 "
#define SHORT                                                                                      \
    "--model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 "        \
    "--no-pin -b2 --prefetch=0 --steps=5 --warmup=1 "

/* ---- Killed at random times ---- */

enum { RANKS = 3, KILLS = 12, LAUNCHER = RANKS };

/* Check that all recorded traces can be read and are marked truncated;
 * return the number of ranks. */
static size_t check_traces(const char *part)
{
    struct lk_trace *traces = NULL;
    char **spans = NULL;
    size_t n_spans;
    size_t n = 0;

    ck_assert_msg(lk_dir_list(part, ".spans", &spans, &n_spans) == LK_OK, "%s", lk_error_text());
    lk_names_free(spans, n_spans);
    ck_assert_uint_eq(n_spans, 0);
    if (lk_traces_read(part, &traces, &n) != LK_OK)
        return 0;
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(traces[i].truncated, "rank %d", traces[i].info.rank);
    lk_traces_free(traces, n);
    return n;
}

/* Count the steps in a span file, finished or not; 0 without a file. */
static size_t steps_in(const char *path)
{
    const struct lk_span_file_header *h;
    char *file = NULL;
    size_t bytes = 0, n = 0;

    if (lk_file_read(path, &file, &bytes) != LK_OK)
        return 0;
    h = (const void *)file;
    for (size_t i = 0; bytes >= sizeof *h && i < atomic_load(&h->n_tracks); i++) {
        const struct lk_span_file_track *t = &h->tracks[i];
        uint64_t head = atomic_load(&t->head);

        for (uint64_t k = 0; k < head && k < t->capacity; k++) {
            size_t offset = (size_t)t->segments[k / LK_SPAN_FILE_SEGMENT] * LK_SPAN_FILE_ALIGN +
                            (size_t)(k % LK_SPAN_FILE_SEGMENT) * sizeof(struct lk_span);

            /* Later ones were written after the file was read. */
            n += offset + sizeof(struct lk_span) <= bytes &&
                 ((const struct lk_span *)(const void *)(file + offset))->kind == LK_SPAN_STEP;
        }
    }
    free(file);
    return n;
}

/* Waits until every rank of a run has finished so many steps. */
static void await_steps(const char *part, size_t steps)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);

    for (int r = 0; r < RANKS; r++) {
        char *path;

        ck_assert_int_eq(lk_asprintf(&path, "%s/rank%d.spans", part, r), LK_OK);
        while (steps_in(path) < steps) {
            ck_assert_msg(lk_deadline_left_ns(end) > 0, "%s has no %zu steps", path, steps);
            lk_sleep_until_ns(lk_monotonic_ns() + 10 * LK_NS_PER_MS);
        }
        free(path);
    }
}

static bool any_spans(const char *part)
{
    char **spans = NULL;
    size_t n = 0;

    if (lk_dir_list(part, ".spans", &spans, &n) != LK_OK)
        return false;
    lk_names_free(spans, n);
    return n > 0;
}

START_TEST(killed)
{
    struct lk_rng g = lk_rng_init(2026, (uint64_t)_i);
    int victim = _i % (RANKS + 1);
    /* From the rank's exec to the middle of its steps. */
    uint64_t delay_ns = lk_rng_below(&g, 700 * LK_NS_PER_MS);
    char *part = scratch_path(scratch_dir, "run/k3-b2-a1-r0");
    struct program p;
    pid_t pid;

    program_start(&p, scratch_dir, NULL, NULL, "run -n%d --timeout=100s --out=%s/run " LONG, RANKS,
                  scratch_dir);
    pid = program_rank(&p, victim == LAUNCHER ? RANKS - 1 : victim);
    ck_assert_int_gt(pid, 0);
    lk_sleep_until_ns(lk_monotonic_ns() + delay_ns);
    ck_assert_int_eq(kill(victim == LAUNCHER ? p.pid : pid, SIGKILL), 0);
    program_wait(&p);
    ck_assert_int_eq(program_left(&p), 0);
    if (victim == LAUNCHER) {
        ck_assert_int_eq(p.signal, SIGKILL);
        if (any_spans(part)) /* no process was left to convert them */
            ck_assert_msg(lk_convert_run(part, false, NULL) == LK_OK, "%s", lk_error_text());
    } else {
        char who[64];

        snprintf(who, sizeof who, "rank %d", victim);
        ck_assert_int_eq(p.code, 1);
        program_assert_says(&p, who);
        program_assert_says(&p, "killed by signal 9");
        ck_assert_int_eq(program_error_lines(&p), 1);
    }
    check_traces(part);
    free(part);
    program_fini(&p);
}
END_TEST

/* Two steps later, the traces of all ranks contain these steps. */
START_TEST(killed_traces_have_the_steps)
{
    char *part = scratch_path(scratch_dir, "run/k3-b2-a1-r0");
    struct lk_trace *traces = NULL;
    struct program p;
    size_t n;
    pid_t pid;

    program_start(&p, scratch_dir, NULL, NULL, "run -n%d --timeout=100s --out=%s/run " LONG, RANKS,
                  scratch_dir);
    pid = program_rank(&p, 1);
    ck_assert_int_gt(pid, 0);
    await_steps(part, 2);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    program_wait(&p);
    ck_assert_int_eq(p.code, 1);
    ck_assert_uint_eq(check_traces(part), RANKS);
    ck_assert_int_eq(lk_traces_read(part, &traces, &n), LK_OK);
    for (size_t r = 0; r < n; r++) {
        size_t steps = 0;

        for (size_t i = 0; i < traces[r].n_spans; i++)
            steps += traces[r].spans[i].span.kind == LK_SPAN_STEP;
        ck_assert_uint_ge(steps, 2);
    }
    lk_traces_free(traces, n);
    ck_assert_int_eq(program_left(&p), 0);
    free(part);
    program_fini(&p);
}
END_TEST

/* ---- Nobody is left to make traces ---- */

/* Return the bytes of a folder's files. */
static uint64_t folder_bytes(const char *path)
{
    char **names = NULL;
    size_t n = 0;
    uint64_t bytes = 0;

    ck_assert_int_eq(lk_dir_list(path, "", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++) {
        char *file = scratch_path(path, names[i]);
        struct stat info;

        ck_assert_int_eq(stat(file, &info), 0);
        bytes += (uint64_t)info.st_size;
        free(file);
    }
    lk_names_free(names, n);
    return bytes;
}

/* Who is killed at once, and what a trace says. Ranks that outlive the launcher cut their files. */
static const struct {
    bool launcher, ranks;
    const char *failure; /* NULL: none */
} kills[] = {{true, false, "when its launcher dies"}, {true, true, NULL}};

/* The span files stay, about as long as what was recorded of a long run, until a command reads the
 * run. */
START_TEST(launcher_killed_then_analysed)
{
    char *part = scratch_path(scratch_dir, "run/k3-b2-a1-r0");
    struct lk_trace *traces = NULL;
    struct program p;
    pid_t pids[RANKS];
    size_t n;

    program_start(&p, scratch_dir, NULL, NULL, "run -n%d --timeout=100s --out=%s/run " LONG, RANKS,
                  scratch_dir);
    await_steps(part, 12); /* beyond the warm-up */
    for (int r = 0; r < RANKS; r++)
        pids[r] = program_rank(&p, r);
    ck_assert_int_eq(kill(p.pid, SIGKILL), 0);
    for (int r = 0; r < RANKS && kills[_i].ranks; r++)
        (void)kill(pids[r], SIGKILL); /* one that noticed the launcher's end may be gone */
    program_wait(&p);
    ck_assert_int_eq(program_left(&p), 0);
    ck_assert(any_spans(part));
    ck_assert_uint_lt(folder_bytes(part), 20U << 20);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze %s/run", scratch_dir);
    program_assert_says(&p, "cut off");
    ck_assert_uint_eq(check_traces(part), RANKS);
    ck_assert_int_eq(lk_traces_read(part, &traces, &n), LK_OK);
    for (size_t r = 0; r < n && kills[_i].failure; r++) {
        ck_assert_ptr_nonnull(traces[r].failure);
        ck_assert_msg(strstr(traces[r].failure, kills[_i].failure) != NULL, "%s",
                      traces[r].failure);
    }
    lk_traces_free(traces, n);
    free(part);
    program_fini(&p);
}
END_TEST

static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP};

START_TEST(launcher_told_to_stop)
{
    char *part = scratch_path(scratch_dir, "run/k3-b2-a1-r0");
    struct program p;

    program_start(&p, scratch_dir, NULL, NULL, "run -n%d --timeout=100s --out=%s/run " LONG, RANKS,
                  scratch_dir);
    await_steps(part, 1);
    ck_assert_int_eq(kill(p.pid, stop_signals[_i]), 0);
    program_wait(&p);
    ck_assert_int_eq(p.code, 1);
    ck_assert_int_eq(program_left(&p), 0);
    check_traces(part);
    free(part);
    program_fini(&p);
}
END_TEST

/* Timeout within which a healthy rank on a busy machine completes a step. */
#define STALL "--timeout=8s "

/* A rank is stopped: the others give up after the timeout, and it is killed. One run for each rank;
 * they wait at the same time. */
START_TEST(stopped)
{
    struct program p[RANKS];
    char *own[RANKS], *part[RANKS];
    char who[64];
    pid_t pid;

    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(lk_asprintf(&own[r], "%s/%d", scratch_dir, r), LK_OK);
        ck_assert_int_eq(lk_mkdirs(own[r]), LK_OK);
        part[r] = scratch_path(own[r], "run/k3-b2-a1-r0");
        program_start(&p[r], own[r], NULL, NULL, "run -n%d " STALL "--out=%s/run " LONG, RANKS,
                      own[r]);
        await_steps(part[r], 1);
        pid = program_rank(&p[r], r);
        ck_assert_int_gt(pid, 0);
        ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        program_wait(&p[r]);
        ck_assert_int_eq(p[r].code, 1);
        ck_assert_int_eq(program_left(&p[r]), 0);
        snprintf(who, sizeof who, "rank %d", r);
        program_assert_says(&p[r], who);
        ck_assert_int_eq(program_error_lines(&p[r]), 1);
        ck_assert_uint_eq(check_traces(part[r]), RANKS);
        free(part[r]);
        free(own[r]);
        program_fini(&p[r]);
    }
}
END_TEST

/* Faults at a chosen collective: the message names the rank and, if it got
 * there, the collective. */
static const struct {
    const char *fault, *says, *where, *timeout;
} planned[] = {{"kill:call=40,rank=1", "rank 1 was killed by signal 9", "", "--timeout=100s"},
               {"fail:call=40,rank=2", "rank 2 failed", "all_reduce 40", "--timeout=100s"},
               {"stall:call=40,rank=0", "rank 0", "collective 40", STALL}};

START_TEST(planned_fault)
{
    char *part = scratch_path(scratch_dir, "run/k3-b2-a1-r0");
    struct program p;

    program_run(&p, scratch_dir, 1, "run -n%d %s --fault=%s --bucket-cap=4KiB --out=%s/run " LONG,
                RANKS, planned[_i].timeout, planned[_i].fault, scratch_dir);
    ck_assert_int_eq(program_left(&p), 0);
    program_assert_says(&p, planned[_i].says);
    program_assert_says(&p, planned[_i].where);
    ck_assert_int_eq(program_error_lines(&p), 1);
    ck_assert_uint_eq(check_traces(part), RANKS);
    free(part);
    program_fini(&p);
}
END_TEST

/* ---- Under another launcher ---- */

START_TEST(ranks_of_a_foreign_launcher)
{
    struct foreign f[2] = {{.rank = 0, .world_size = 2}, {.rank = 1, .world_size = 2}};
    struct lk_trace *traces = NULL;
    struct program p[2];
    char *sub[2];
    char *out = scratch_path(scratch_dir, "run");
    int port = program_hold_port(&f[0].port);
    size_t n;

    f[1].port = f[0].port;
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(lk_asprintf(&sub[r], "%s/rank%d", scratch_dir, r), LK_OK);
        ck_assert_int_eq(lk_mkdirs(sub[r]), LK_OK);
        program_start(&p[r], sub[r], foreign_as_rank, &f[r], "run --timeout=100s --out=%s " SHORT,
                      out);
    }
    for (int r = 0; r < 2; r++) {
        program_wait(&p[r]);
        ck_assert_msg(p[r].code == 0, "rank %d: %s", r, p[r].err);
    }
    ck_assert_msg(lk_traces_read(out, &traces, &n) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(n, 2);
    ck_assert(!traces[0].truncated && !traces[1].truncated);
    lk_traces_free(traces, n);
    for (int r = 0; r < 2; r++) {
        program_fini(&p[r]);
        free(sub[r]);
    }
    close(port);
    free(out);
}
END_TEST

START_TEST(rank_that_never_arrives)
{
    struct foreign f = {.rank = 0, .world_size = 2};
    int port = program_hold_port(&f.port);
    struct program p;

    program_start(&p, scratch_dir, foreign_as_rank, &f, "run --timeout=3s --out=%s/run " SHORT,
                  scratch_dir);
    program_wait(&p);
    close(port);
    ck_assert_int_eq(p.code, 1);
    program_assert_says(&p, "rank 1");
    program_fini(&p);
}
END_TEST

START_TEST(port_in_use)
{
    struct foreign f = {.rank = 0, .world_size = 2};
    int fd = program_hold_port(&f.port);
    char port[16];
    struct program p;

    ck_assert_int_eq(listen(fd, 1), 0);
    program_start(&p, scratch_dir, foreign_as_rank, &f, "run --timeout=100s --out=%s/run " SHORT,
                  scratch_dir);
    program_wait(&p);
    ck_assert_int_eq(p.code, 1);
    snprintf(port, sizeof port, "%d", f.port);
    program_assert_says(&p, port);
    program_assert_says(&p, "in use");
    close(fd);
    program_fini(&p);
}
END_TEST

START_TEST(foreign_launcher_needs_out)
{
    struct foreign f = {.rank = 0, .world_size = 1};
    int port = program_hold_port(&f.port);
    struct program p;

    program_start(&p, scratch_dir, foreign_as_rank, &f, "run " SHORT);
    program_wait(&p);
    close(port);
    ck_assert_int_eq(p.code, 2);
    program_assert_says(&p, "--out");
    program_fini(&p);
}
END_TEST

SUITE(run_faults, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, killed, 0, KILLS);
    tcase_add_test(c, killed_traces_have_the_steps);
    tcase_add_loop_test(c, launcher_killed_then_analysed, 0, LK_COUNT(kills));
    tcase_add_loop_test(c, launcher_told_to_stop, 0, LK_COUNT(stop_signals));
    tcase_add_test(c, stopped);
    tcase_add_loop_test(c, planned_fault, 0, LK_COUNT(planned));
    tcase_add_test(c, ranks_of_a_foreign_launcher);
    tcase_add_test(c, rank_that_never_arrives);
    tcase_add_test(c, port_in_use);
    tcase_add_test(c, foreign_launcher_needs_out);
}
