/*
 * A job's ranks with kernels by CUPTI and collectives by NCCL's plugin, and what the importer makes
 * of their files.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "profiler/import/preload.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/fakes/fake_nvtx.h"
#include "tests/rigs/cupti_rig.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, STEPS = 12, BUCKETS = 3, COMPUTE = 7, COMM = 20, STEP_MS = 10 };
#define MS           ((int64_t)LK_NS_PER_MS)
#define NCCL_KERNEL  "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"
#define CLOCKS_APART UINT64_C(1763900000000000000) /* the GPU's minus the host's */

static struct cupti_rig rig;

static int64_t now(void)
{
    return (int64_t)lk_now_ns();
}

/* How collectives are launched: one kernel for two calls; each on a thread of its own. */
enum way { ALONE, PAIRS, THREADS };

static void *launch(void *ready_ns)
{
    const int64_t at = *(int64_t *)ready_ns;

    rig.kernel(NCCL_KERNEL, COMM, at, at + MS);
    return NULL;
}

/* Gradients of a bucket are ready at ready_ns; its kernel takes 1 ms. On a thread it begins 0.1 ms
 * behind the call, and its end is seen when it is there. */
static void reduce(struct fake_comm *c, size_t count, int64_t ready_ns, enum way way)
{
    const struct fake_call call = {"AllReduce", "ncclFloat32", count, 0, false, false};
    struct fake_call_work w[2];
    const int n = way == PAIRS ? 2 : 1;
    pthread_t thread;

    for (int i = 0; i < n; i++)
        fake_call_api(c, &call, &w[i]);
    if (way == THREADS) {
        ready_ns = now() + MS / 10;
        ck_assert_int_eq(pthread_create(&thread, NULL, launch, &ready_ns), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    } else {
        launch(&ready_ns);
    }
    for (int i = 0; i < n; i++)
        fake_launch(c, &w[i]);
    if (way == THREADS)
        usleep(1200);
    for (int i = 0; i < n; i++) {
        fake_channel_start(&w[i], 0, (uint64_t)ready_ns + CLOCKS_APART);
        fake_channel_stop(&w[i], 0, (uint64_t)(ready_ns + MS) + CLOCKS_APART);
    }
}

/* Begin a range, or end the last one. nvtx NULL: the program has none. */
static void mark(struct fake_nvtx *nvtx, const char *name)
{
    if (nvtx && name)
        fake_nvtx_push(nvtx, name);
    else if (nvtx)
        fake_nvtx_pop(nvtx);
}

/* A step: a copy of the batch, a forward of 2 ms, a backward of 1 ms a bucket. The GPU works behind
 * the host by the time that a step takes. */
static void step(struct fake_comm *c, struct fake_nvtx *nvtx, int number, enum way way)
{
    const int64_t at = now();
    char name[32];

    snprintf(name, sizeof name, "ProfilerStep#%d", number);
    mark(nvtx, name);
    rig.copy(1 << 20, at, at + MS / 2);
    mark(nvtx, "DistributedDataParallel.forward");
    rig.kernel("_Z7forwardPf", COMPUTE, at + MS / 2, at + 5 * MS / 2);
    mark(nvtx, NULL);
    mark(nvtx, "autograd::engine::evaluate_function: MmBackward0");
    for (int b = 0; b < BUCKETS; b++) {
        const int64_t begin = at + (5 + 2 * b) * MS / 2;

        rig.kernel("_Z8backwardPf", COMPUTE, begin, begin + MS);
        reduce(c, (size_t)1000 * (size_t)(b + 1), begin + MS, way);
    }
    mark(nvtx, NULL);
    mark(nvtx, "Optimizer.step#Adam.step");
    rig.kernel("_Z4adamPf", COMPUTE, at + 13 * MS / 2, at + 7 * MS);
    mark(nvtx, NULL);
    usleep(STEP_MS * 1000);
    mark(nvtx, NULL);
}

static void run_rank(int rank, enum way way, bool ranges)
{
    struct fake_nvtx nvtx;
    struct fake_plugin plugin;
    struct fake_comm c;

    foreign_log_to(scratch_dir, 1);
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, FAKE_NCCL_2_30);
    fake_comm_init(&c, &plugin, 4711, "default_pg", RANKS, rank);
    ck_assert(fake_nvtx_open(&nvtx, LK_PRELOAD_TESTED));
    cupti_rig_open(&rig, CUPTI_RIG_13);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", "600");
    cupti_rig_await_window(&rig);
    for (int s = 0; s < STEPS; s++)
        step(&c, ranges ? &nvtx : NULL, s, way);
    exit(0); /* in the window */
}

static void run_job(enum way way, bool ranges)
{
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t pid = fork();

        if (pid == 0)
            run_rank(rank, way, ranges);
        ck_assert_int_gt(pid, 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
}

/* A kernel of NCCL counts once, with CUPTI's time and stream and the calls' sizes. */
START_TEST(kernels_of_nccl_are_joined_with_calls)
{
    size_t nccl = 0, compute = 0;
    struct lk_events e;
    char pattern[4096];
    glob_t found;

    run_job((enum way)_i, false);
    snprintf(pattern, sizeof pattern, "%s/*.probe", scratch_dir);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    must(lk_preload_read(found.gl_pathv[0], NULL, &e));
    globfree(&found);
    lk_events_sort(&e);
    for (size_t i = 0; i < e.n_events; i++) {
        const struct lk_import_event *x = &e.events[i];
        const struct lk_event_detail *c = x->detail ? &e.details[x->detail - 1] : NULL;

        if (x->kind != LK_EVENT_KERNEL)
            continue;
        compute += e.lanes[x->lane].thread == COMPUTE;
        if (e.lanes[x->lane].thread != COMM)
            continue;
        ck_assert_str_eq(lk_events_text(&e, x->name), "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
        ck_assert_int_eq(x->end_ns - x->start_ns, MS);
        ck_assert_ptr_nonnull(lk_events_launch(&e, x));
        ck_assert_ptr_nonnull(c);
        ck_assert_str_eq(lk_events_text(&e, c->function), "all_reduce");
        ck_assert_str_eq(lk_events_text(&e, c->group), "default_pg");
        ck_assert_uint_eq(c->elements,
                          (size_t)(_i == PAIRS ? 2 : 1) * 1000 * (nccl++ % BUCKETS + 1));
    }
    ck_assert_uint_eq(nccl, STEPS * BUCKETS);
    ck_assert_uint_eq(compute, STEPS * (BUCKETS + 2));
    ck_assert_int_gt(e.source.cost.recorded_ns, 0);
    lk_events_fini(&e);
}
END_TEST

/* The run is as that of a trace of Kineto: it has compute and waits; a job file, where ranges tell
 * the passes. */
START_TEST(a_job_with_kernels_becomes_a_run)
{
    struct program p;
    char *path;

    run_job(ALONE, _i == 1);
    program_run(&p, scratch_dir, 0, "import %s --out=%s/run --local-batch=4 --verbose", scratch_dir,
                scratch_dir);
    ck_assert_msg(strstr(p.out, "recording took") != NULL, "%s", p.out);
    ck_assert_msg(strstr(p.out, "kernels were recorded in a window") != NULL, "%s", p.out);
    ck_assert_msg((strstr(p.out, "no job.json") == NULL) == (_i == 1), "%s", p.out);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze --verbose %s/run", scratch_dir);
    ck_assert_msg((strstr(p.out, "periods of 3 collectives") == NULL) == (_i == 1), "%s", p.out);
    ck_assert_msg(strstr(p.out, "no compute is in these traces") == NULL, "%s", p.out);
    ck_assert_msg(strstr(p.out, "1.00 ms") != NULL, "%s", p.out); /* the wire time */
    program_fini(&p);
    path = scratch_path(scratch_dir, "run/job.json");
    ck_assert_int_eq(lk_file_exists(path), _i == 1);
    free(path);
}
END_TEST

SUITE(cupti_import, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, kernels_of_nccl_are_joined_with_calls, ALONE, THREADS + 1);
    tcase_add_loop_test(tests, a_job_with_kernels_becomes_a_run, 0, 2);
}
