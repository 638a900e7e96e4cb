/*
 * CUPTI in a window (preload/cupti.c), with a stand-in for CUPTI (tests/cupti). A job is a child of
 * the test, which reads the file that it leaves.
 */
#include "base/array.h"
#include "base/clock.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/rigs/cupti_rig.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG "600" /* a window that ends with its process */

static struct cupti_rig rig;

/* Run a job in a child, and return how it ended. */
static int job(void (*run)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        run();
        exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void begin(const char *length_s)
{
    foreign_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", length_s);
}

static int64_t now(void)
{
    return (int64_t)lk_now_ns();
}

static bool is_empty(void)
{
    DIR *dir = opendir(scratch_dir);
    size_t n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n == 2;
}

static void launch(const char *name)
{
    const int64_t at = now();

    rig.kernel(name, 7, at, at + 1);
}

/* ---- What is recorded ---- */

enum { KERNELS = 50 };

static void all_kinds(void)
{
    int64_t at;

    foreign_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, getenv("OLD") ? CUPTI_RIG_12 : CUPTI_RIG_13);
    rig.fake->ahead_ns = INT64_C(1763900000000000000);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    cupti_rig_await_window(&rig);
    at = now();
    rig.copy(4096, at, at + 10);
    rig.memset(8192, at + 20, at + 30);
    for (int i = 0; i < KERNELS; i++)
        rig.kernel("_Z4gemmPf", 7, at + 1000 * i + 100, at + 1000 * i + 600);
    rig.wait(at, at + 5000);
    rig.kernel("unfinished", 7, 0, 0);
}

START_TEST(records_are_those_of_the_gpu)
{
    const struct lk_foreign_record *copy, *kernel, *call;
    struct foreign_log l;

    if (_i)
        setenv("OLD", "1", 1);
    ck_assert_int_eq(job(all_kinds), 0);
    foreign_log_read(&l, scratch_dir);
    copy = foreign_log_at(&l, LK_FOREIGN_COPY, 0);
    kernel = foreign_log_at(&l, LK_FOREIGN_KERNEL, 3);
    call = foreign_log_of(&l, LK_FOREIGN_LAUNCH, kernel->link);
    ck_assert_uint_eq(l.header->cupti, LK_FOREIGN_CUPTI_RECORDED);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_KERNEL), KERNELS);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_LAUNCH), KERNELS + 3);
    ck_assert_uint_eq(foreign_log_at(&l, LK_FOREIGN_MEMSET, 0)->count, 8192);
    ck_assert_str_eq(l.names + foreign_log_at(&l, LK_FOREIGN_SYNC, 0)->name,
                     "cudaStreamSynchronize");
    ck_assert_str_eq(l.names + copy->name, "HtoD");
    ck_assert_uint_eq(copy->count, 4096);
    ck_assert_str_eq(l.names + kernel->name, "_Z4gemmPf");
    ck_assert_uint_eq(kernel->lane, 7);
    ck_assert_int_eq(kernel->peer, 1);
    ck_assert_int_eq(kernel->end_ns - kernel->start_ns, 500);
    /* On the host's clock, as exactly as clocks are compared: 1 ms, were it a busy machine. */
    ck_assert_int_lt(llabs((long long)(kernel->start_ns - call->start_ns)), 1000000);
    ck_assert_int_eq(copy->start_ns + 3100, kernel->start_ns);
    ck_assert_int_eq(call->lane == l.header->pid, _i == 0); /* the thread's number, if it can */
    ck_assert_int_ge(l.header->window_start_ns, l.header->pairs[0].before_ns - 1000000000);
    ck_assert_int_ge(l.header->window_end_ns, kernel->end_ns);
    ck_assert_int_ne(l.header->window_end_ns, LK_FOREIGN_NO_END);
    ck_assert_uint_gt(l.header->spent_ns, 0);
    foreign_log_fini(&l);
}
END_TEST

/* CUPTI is left as it was found: others may use it. */
START_TEST(cupti_is_given_back)
{
    begin("0.01");
    cupti_rig_launch_first(&rig);
    cupti_rig_await(&rig.fake->registered, 1);
    cupti_rig_await(&rig.fake->subscribed, 0);
    ck_assert_int_eq(rig.fake->watched, 0);
    ck_assert_int_eq(rig.fake->enabled, 0);
    ck_assert_int_eq(rig.fake->lent, 0);
    launch("later");
    ck_assert_int_eq(rig.fake->lent, 0);
    ck_assert(is_empty()); /* a process that launched nothing leaves no file */
}
END_TEST

/* ---- Who else uses CUPTI ---- */

static const struct {
    const char *call;
    int with;
    uint32_t version;
    enum lk_foreign_cupti what;
    uint32_t error;
} refusals[] = {
    {"cuptiSubscribe", 39, 130001, LK_FOREIGN_CUPTI_TAKEN, 0},
    {"cuptiSubscribe", 12, 130001, LK_FOREIGN_CUPTI_TAKEN, 0},
    {"cuptiSubscribe", 35, 130001, LK_FOREIGN_CUPTI_FORBIDDEN, 0},
    {"cuptiActivityEnable", 14, 130001, LK_FOREIGN_CUPTI_TAKEN, 0},
    {"cuptiActivityRegisterCallbacks", 999, 130001, LK_FOREIGN_CUPTI_REFUSED, 999},
    {"cuptiGetVersion", 1, 130001, LK_FOREIGN_CUPTI_UNKNOWN, 0},
    {NULL, 0, 140000, LK_FOREIGN_CUPTI_UNKNOWN, 0},
    {NULL, 0, 11, LK_FOREIGN_CUPTI_UNKNOWN, 0},
    {NULL, 0, 130000, LK_FOREIGN_CUPTI_HANGS, 0},
};
static int refusal;

static void collective(struct fake_comm *c)
{
    const struct fake_call call = {"AllReduce", "ncclFloat32", 1000, 0, false, false};
    struct fake_call_work w;

    fake_call_enqueue(c, &call, &w);
}

static void open_comm(struct fake_comm *c)
{
    static struct fake_plugin plugin;

    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, FAKE_NCCL_2_30);
    fake_comm_init(c, &plugin, 1, "dp", 2, 0);
}

/* How CUPTI fared is told in the file that collectives make. */
static void refused(void)
{
    struct fake_comm c;

    foreign_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    rig.fake->fail_call = refusals[refusal].call;
    rig.fake->fail_with = refusals[refusal].with;
    rig.fake->version = refusals[refusal].version;
    open_comm(&c);
    collective(&c);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
}

START_TEST(a_refusal_is_told)
{
    const struct lk_deadline deadline = lk_deadline_in(LK_NS_PER_S * 100);
    struct fake_comm c;
    struct foreign_log l;

    refusal = _i;
    refused();
    do {
        foreign_log_read(&l, scratch_dir);
        if (l.header->cupti > LK_FOREIGN_CUPTI_WAITING)
            break;
        foreign_log_fini(&l);
        usleep(1000);
    } while (lk_deadline_left_ns(deadline));
    ck_assert_uint_eq(l.header->cupti, refusals[_i].what);
    ck_assert_uint_eq(l.header->cupti_error, refusals[_i].error);
    ck_assert_int_eq(rig.fake->subscribed, 0);
    ck_assert_int_eq(rig.fake->enabled, 0);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), 1);
    foreign_log_fini(&l);
    open_comm(&c);
    collective(&c); /* the job goes on */
}
END_TEST

/* ---- When ---- */

/* One of several ranks waits for its first collective, whatever it launches before. */
START_TEST(a_rank_waits_for_its_first_collective)
{
    struct fake_comm c;
    struct foreign_log l;

    setenv("WORLD_SIZE", "2", 1);
    begin("0.01");
    usleep(300000);
    ck_assert_int_eq(rig.fake->registered, 0);
    open_comm(&c);
    usleep(300000);
    ck_assert_int_eq(rig.fake->registered, 0);
    collective(&c);
    cupti_rig_await(&rig.fake->registered, 1);
    cupti_rig_await(&rig.fake->subscribed, 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_gt(l.header->n_window, 0);
    foreign_log_fini(&l);
}
END_TEST

static void exits_before(void)
{
    struct fake_comm c;

    foreign_log_to(scratch_dir, 1);
    open_comm(&c);
    collective(&c);
    cupti_rig_inject(LK_PRELOAD_TESTED, "500", LONG);
    usleep(300000);
}

START_TEST(a_process_that_ends_before_says_so)
{
    struct foreign_log l;

    ck_assert_int_eq(job(exits_before), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->cupti, LK_FOREIGN_CUPTI_WAITING);
    ck_assert_uint_eq(l.header->n_window, 0);
    foreign_log_fini(&l);
}
END_TEST

/* Called behind the library's end, which was registered later. */
static void assert_no_thread(void)
{
    if (!rig.fake->lingered)
        _exit(3);
}

static void ends_slowly(void)
{
    ck_assert_int_eq(atexit(assert_no_thread), 0);
    foreign_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    rig.fake->linger_ns = 300 * LK_NS_PER_MS;
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    cupti_rig_await_window(&rig);
}

/* Else AddressSanitizer takes what the thread owns for leaked, and the job's exit code is not its
 * own. */
START_TEST(the_thread_ends_before_its_process)
{
    ck_assert_int_eq(job(ends_slowly), 0);
}
END_TEST

/* ---- Bounds ---- */

static void a_million_kernels(void)
{
    struct fake_comm c;
    const int64_t at = now();

    begin(LONG);
    cupti_rig_await_window(&rig);
    for (int i = 0; i < 1000000; i++)
        rig.kernel("k", 7, at + i, at + i + 1);
    cupti_rig_await(&rig.fake->subscribed, 0); /* its window is full */
    open_comm(&c);
    collective(&c);
}

START_TEST(a_full_window_ends)
{
    struct foreign_log l;

    ck_assert_int_eq(job(a_million_kernels), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_le(l.bytes, (2 << 20) + (1 << 19));
    ck_assert_uint_gt(l.header->window_head, l.header->n_window);
    ck_assert_int_le(
        l.header->window_end_ns,
        foreign_log_at(&l, LK_FOREIGN_KERNEL, foreign_log_count(&l, LK_FOREIGN_KERNEL) - 1)
                ->start_ns +
            1);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), 1);
    foreign_log_fini(&l);
}
END_TEST

/* CUPTI that never returns a buffer gets no more than there are; one that would crash without gets
 * more, and the window ends. */
static void keeps_buffers(void)
{
    int64_t at;

    foreign_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    rig.fake->version = getenv("OLD") ? 26 : 130001;
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    cupti_rig_await_window(&rig);
    launch("first");
    rig.deliver();
    rig.fake->keeps = true;
    at = now();
    for (int i = 0; i < 100000; i++)
        rig.kernel("k", 7, at, at + 1);
    cupti_rig_await(&rig.fake->subscribed, 0);
    ck_assert_int_eq(rig.fake->refused > 0, rig.fake->version != 26);
    ck_assert_int_eq(rig.fake->lent > 64, rig.fake->version == 26);
}

START_TEST(buffers_that_never_come_back_end_the_window)
{
    struct foreign_log l;

    if (_i)
        setenv("OLD", "1", 1);
    ck_assert_int_eq(job(keeps_buffers), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_KERNEL), 1);
    ck_assert_int_ne(l.header->window_end_ns, LK_FOREIGN_NO_END);
    foreign_log_fini(&l);
}
END_TEST

/* ---- Ends ---- */

static void late(void)
{
    begin("0.01");
    cupti_rig_launch_first(&rig);
    cupti_rig_await(&rig.fake->registered, 1);
    rig.fake->is_late = true;
    cupti_rig_await(&rig.fake->subscribed, 0);
    rig.deliver();
}

/* Buffers come back behind the window's end, also where one was lent in it. */
START_TEST(late_buffers_are_taken)
{
    ck_assert_int_eq(job(late), 0);
}
END_TEST

static void killed(void)
{
    begin(LONG);
    cupti_rig_await_window(&rig);
    launch("k");
    rig.deliver();
    launch("k");
    raise(SIGKILL);
}

START_TEST(a_killed_process_leaves_its_records)
{
    struct foreign_log l;

    ck_assert(WIFSIGNALED(job(killed)));
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_ge(foreign_log_count(&l, LK_FOREIGN_KERNEL), 1);
    ck_assert_int_eq(l.header->window_end_ns, LK_FOREIGN_NO_END);
    foreign_log_fini(&l);
}
END_TEST

static void in_child(void)
{
    launch("child");
    rig.deliver();
}

static void forks(void)
{
    begin(LONG);
    cupti_rig_await_window(&rig);
    launch("before");
    rig.deliver();
    ck_assert_int_eq(job(in_child), 0);
    launch("after");
}

START_TEST(a_forked_child_records_nothing)
{
    struct foreign_log l;

    ck_assert_int_eq(job(forks), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_KERNEL), 2);
    ck_assert_str_eq(l.names + foreign_log_at(&l, LK_FOREIGN_KERNEL, 1)->name, "after");
    foreign_log_fini(&l);
}
END_TEST

/* Without the variable for the folder nothing is touched. */
START_TEST(nothing_happens_in_other_processes)
{
    cupti_rig_open(&rig, CUPTI_RIG_13);
    unsetenv("LOCKSTEP_PROFILE_DIR");
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", "0");
    usleep(300000);
    ck_assert_int_eq(rig.fake->registered, 0);
}
END_TEST

SUITE(cupti_window, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, records_are_those_of_the_gpu, 0, 2);
    tcase_add_test(tests, cupti_is_given_back);
    tcase_add_loop_test(tests, a_refusal_is_told, 0, (int)LK_COUNT(refusals));
    tcase_add_test(tests, a_rank_waits_for_its_first_collective);
    tcase_add_test(tests, a_process_that_ends_before_says_so);
    tcase_add_test(tests, the_thread_ends_before_its_process);
    tcase_add_test(tests, a_full_window_ends);
    tcase_add_loop_test(tests, buffers_that_never_come_back_end_the_window, 0, 2);
    tcase_add_test(tests, late_buffers_are_taken);
    tcase_add_test(tests, a_killed_process_leaves_its_records);
    tcase_add_test(tests, a_forked_child_records_nothing);
    tcase_add_test(tests, nothing_happens_in_other_processes);
}
