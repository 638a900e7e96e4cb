/*
 * A job's ranks, each a process with NCCL's profiler plugin and NVTX's injection, and what the
 * importer makes of their files.
 */
#include "base/array.h"
#include "base/clock.h"
#include "profiler/analysis/hops.h"
#include "profiler/import/preload.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/fakes/fake_nvtx.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, STEPS = 12, BUCKETS = 3, KERNEL_US = 300, CHANNELS = 4 };
#define CLOCKS_APART UINT64_C(1763900000000000000) /* the GPU's minus the host's */

static uint64_t gpu_now(void)
{
    return lk_now_ns() + CLOCKS_APART;
}

/* All-reduce as NCCL does it: the call, a kernel of four channels, then the proxy's calls. */
static void all_reduce(struct fake_comm *c, size_t count)
{
    const struct fake_call call = {"AllReduce", "ncclFloat32", count, 0, false, false};
    struct fake_call_work w;
    uint64_t start;

    fake_call_enqueue(c, &call, &w);
    start = gpu_now();
    fake_send(&w, (c->rank + 1) % c->n_ranks, count);
    usleep(KERNEL_US + 100);
    for (int k = 0; k < CHANNELS; k++)
        fake_channel_start(&w, k, start + (uint64_t)k);
    for (int k = 0; k < CHANNELS; k++)
        fake_channel_stop(&w, k, start + KERNEL_US * LK_NS_PER_US);
}

static void run_rank(int rank, int version, bool ranges)
{
    struct fake_plugin plugin;
    struct fake_nvtx nvtx;
    struct fake_comm c;
    char text[32];

    foreign_log_to(scratch_dir, 1);
    setenv("LOCKSTEP_PROFILE_LINKS", "1", 1);
    ck_assert(fake_nvtx_open(&nvtx, LK_PRELOAD_TESTED));
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, version);
    fake_comm_init(&c, &plugin, 4711, "default_pg", RANKS, rank);
    for (int s = 0; s < STEPS; s++) {
        snprintf(text, sizeof text, "ProfilerStep#%d", s);
        if (ranges)
            fake_nvtx_push(&nvtx, text);
        usleep(1000);
        for (size_t b = 0; b < BUCKETS; b++)
            all_reduce(&c, 1000 * (b + 1));
        if (ranges)
            fake_nvtx_pop(&nvtx);
    }
    fake_comm_finalize(&c);
}

static void run_job(int version, bool ranges)
{
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t pid = fork();

        if (pid == 0) {
            run_rank(rank, version, ranges);
            _exit(0);
        }
        ck_assert_int_gt(pid, 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
}

static void read_one(struct lk_events *e)
{
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*.probe", scratch_dir);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, RANKS);
    must(lk_preload_read(found.gl_pathv[0], NULL, e));
    globfree(&found);
}

static const int versions[] = {FAKE_NCCL_2_27, FAKE_NCCL_2_30, FAKE_NCCL_2_32};

START_TEST(a_rank_has_its_collectives)
{
    size_t kernels = 0, calls = 0, steps = 0;
    struct lk_events e;

    run_job(versions[_i], true);
    read_one(&e);
    lk_events_sort(&e);
    ck_assert_int_eq(e.source.world_size, RANKS);
    ck_assert_str_eq(e.source.backend, "nccl");
    for (size_t i = 0; i < e.n_events; i++) {
        const struct lk_import_event *x = &e.events[i];
        const struct lk_event_detail *c = x->detail ? &e.details[x->detail - 1] : NULL;

        calls += x->kind == LK_EVENT_COLLECTIVE;
        if (x->kind == LK_EVENT_STEP)
            ck_assert_uint_eq(x->detail, steps++);
        if (x->kind != LK_EVENT_KERNEL)
            continue;
        ck_assert_int_eq(x->end_ns - x->start_ns, KERNEL_US * (int64_t)LK_NS_PER_US);
        ck_assert_ptr_nonnull(lk_events_launch(&e, x));
        ck_assert_int_ge(x->start_ns, lk_events_launch(&e, x)->start_ns);
        ck_assert_str_eq(lk_events_text(&e, c->function), "all_reduce");
        ck_assert_str_eq(lk_events_text(&e, c->group), "default_pg");
        ck_assert_uint_eq(c->elements, 1000 * (kernels % BUCKETS + 1));
        ck_assert_uint_eq(c->sequence, ++kernels);
        ck_assert_int_eq(c->state, LK_COLLECTIVE_COMPLETED);
    }
    ck_assert_uint_eq(kernels, STEPS * BUCKETS);
    ck_assert_uint_eq(calls, STEPS * BUCKETS);
    ck_assert_uint_eq(steps, STEPS);
    ck_assert_uint_eq(e.n_sent, STEPS * BUCKETS);
    for (size_t i = 0; i < e.n_sent; i++) {
        ck_assert_int_eq(e.sent[i].to, 1 - e.source.rank);
        ck_assert_uint_eq(e.sent[i].bytes, 1000 * (i % BUCKETS + 1));
    }
    lk_events_fini(&e);
}
END_TEST

/* What the proxy sent is a hop of the run: from each rank to the next, over all steps. */
START_TEST(what_was_sent_is_a_hop)
{
    struct lk_run_hops h;
    struct lk_run_set set = {0};
    const struct lk_run *run;
    struct program p;
    char path[4096];

    run_job(FAKE_NCCL_2_30, true);
    program_run(&p, scratch_dir, 0, "import %s --out=%s/run", scratch_dir, scratch_dir);
    program_fini(&p);
    snprintf(path, sizeof path, "%s/run", scratch_dir);
    must(lk_run_set_read((const char *const[]){path}, 1, &set));
    run = &set.runs[0];
    must(lk_run_hops_read(run, &h));
    ck_assert_uint_eq(h.n, RANKS);
    for (size_t k = 0; k < RANKS; k++) {
        ck_assert_uint_eq(h.hops[k].from, k);
        ck_assert_uint_eq(h.hops[k].to, 1 - k);
        ck_assert_double_eq(h.hops[k].sum[LK_HOP_BYTES], 6000.0 * (double)run->n_timed);
        ck_assert_double_gt(lk_run_hop_rate(&h.hops[k]), 0);
    }
    ck_assert_uint_ge(run->n_timed, STEPS / 2);
    lk_run_hops_fini(&h);
    lk_run_set_fini(&set);
}
END_TEST

/* Marks of steps alone tell no passes, so that with and without them the steps come from the
 * sequence of the collectives. What computes is not recorded: it is not known, and not 0. */
START_TEST(a_job_is_imported_and_analyzed)
{
    struct program p;

    run_job(FAKE_NCCL_2_32, _i == 0);
    program_run(&p, scratch_dir, 0, "import %s --out=%s/run --format=csv", scratch_dir,
                scratch_dir);
    ck_assert_msg(strstr(p.out, "\n0,all,36,0.") != NULL, "%s", p.out);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze --verbose %s/run", scratch_dir);
    ck_assert_msg(strstr(p.out, "periods of 3 collectives") != NULL, "%s", p.out);
    ck_assert_msg(strstr(p.out, "300 us") != NULL, "%s", p.out); /* the wire time of each */
    ck_assert_msg(strstr(p.out, "no compute is in these traces") != NULL, "%s", p.out);
    program_fini(&p);
}
END_TEST

/* Rank 2 hangs before its fourth collective; the kernels of the others wait for it until they are
 * killed. */
static void hang(int rank)
{
    const struct fake_call call = {"AllReduce", "ncclFloat32", 1000, 0, false, false};
    struct fake_plugin plugin;
    struct fake_comm c;
    struct fake_call_work w;

    foreign_log_to(scratch_dir, 1);
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, FAKE_NCCL_2_28);
    fake_comm_init(&c, &plugin, 4711, "dp", 3, rank);
    for (size_t i = 0; i < 3; i++)
        all_reduce(&c, 1000);
    if (rank != 2) {
        fake_call_enqueue(&c, &call, &w);
        fake_channel_start(&w, 0, gpu_now());
    }
    raise(SIGKILL);
}

START_TEST(a_hung_job_says_who_is_missing)
{
    struct program p;

    for (int rank = 0; rank < 3; rank++) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
            hang(rank);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    program_run(&p, scratch_dir, 0, "analyze %s", scratch_dir);
    ck_assert_msg(strstr(p.out, "Rank 2 has not joined all_reduce number 4 of group dp") != NULL,
                  "%s", p.out);
    program_fini(&p);
}
END_TEST

SUITE(nccl_import, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, a_rank_has_its_collectives, 0, (int)LK_COUNT(versions));
    tcase_add_test(tests, what_was_sent_is_a_hop);
    tcase_add_loop_test(tests, a_job_is_imported_and_analyzed, 0, 2);
    tcase_add_test(tests, a_hung_job_says_who_is_missing);
}
