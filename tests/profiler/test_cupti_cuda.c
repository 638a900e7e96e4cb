/* The CUPTI session without a GPU: opening, refusals, flushing and closing, over the fake CUPTI.
 * test_cupti_records_cuda.c tests the records. */
#include "profiler/record/cupti.h"

#include "tests/rigs/suite.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/rigs/cupti_rig_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/waits.h"

#include <string.h>

START_TEST(nesting_is_pushed_and_popped)
{
    struct lk_span step = lk_span_begin(rig.host, LK_SPAN_STEP, 0, 2, -1);
    struct lk_span op = lk_span_begin(rig.compute, LK_SPAN_KERNEL, rig.gelu, 2, -1);

    ck_assert_uint_eq(fake_cupti_stack.depth, 2);
    ck_assert_uint_ne(fake_cupti_stack.ids[0], fake_cupti_stack.ids[1]);
    lk_span_end(rig.compute, &op);
    ck_assert_uint_eq(fake_cupti_stack.depth, 1);
    lk_span_end(rig.host, &step);
    ck_assert_uint_eq(fake_cupti_stack.depth, 0);
    lk_span_leave(rig.host, &step); /* a surplus leave is harmless */
}
END_TEST

/* Of API calls those that put work on a GPU, one by one: the kinds would be all of them. */
START_TEST(only_needed_calls_are_recorded)
{
    ck_assert_int_gt(fake_cupti.calls_enabled, 20);
    ck_assert(!fake_cupti.enabled[CUPTI_ACTIVITY_KIND_RUNTIME]);
    ck_assert(!fake_cupti.enabled[CUPTI_ACTIVITY_KIND_DRIVER]);
    ck_assert(!fake_cupti.enabled[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION]);
    ck_assert(fake_cupti.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]);
}
END_TEST

/* Put n kernels and the records of their launches, without ids. */
static void put_kernels(uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        cupti_rig_put_call(i, i);
        cupti_rig_put_kernel(i, 13, 2 * i, 2 * i + 1, CUPTI_RIG_GELU);
    }
}

/* Should ids not come with calls that were chosen one by one, all calls are recorded, and the trace
 * says so: no sooner than many kernels tell it, without a wait for the thread's next turn, once. */
START_TEST(without_ids_all_calls_are_recorded)
{
    struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);
    uint64_t id = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1);
    bool fails = _i == 1;

    fake_cupti.fail_call = fails ? "ActivityEnable" : NULL;
    fake_cupti.fail_with = CUPTI_ERROR_NOT_COMPATIBLE;
    put_kernels(1, LK_CUPTI_KERNELS_TELL - 1);
    fake_cupti_deliver(0);
    ck_assert(!fake_cupti.enabled[CUPTI_ACTIVITY_KIND_RUNTIME]);
    for (int again = 0; again < 2; again++) {
        put_kernels(2000 + 10 * (uint32_t)again, 1);
        fake_cupti_deliver(0);
        /* Until the thread has had its turn: the kinds are on, or the refusal was given. */
        while ((fails ? fake_cupti.fail_call != NULL
                      : !fake_cupti.enabled[CUPTI_ACTIVITY_KIND_DRIVER]) &&
               lk_deadline_left_ns(deadline) > 0)
            continue;
    }
    ck_assert_int_eq(fake_cupti.enabled[CUPTI_ACTIVITY_KIND_RUNTIME], !fails);
    cupti_rig_put_issue(5000, id);
    cupti_rig_put_kernel(5000, 13, 9000, 9001, CUPTI_RIG_GELU);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, LK_CUPTI_KERNELS_TELL + 2);
    ck_assert_uint_eq(rig.counts.unmatched, LK_CUPTI_KERNELS_TELL + 1);
    ck_assert_uint_eq(kept.n_facts, 1);
    ck_assert_str_eq(kept.facts[0].key, LK_CUPTI_CONFIG_KEY);
    ck_assert_ptr_nonnull(
        strstr(kept.facts[0].value, fails ? "all calls are refused" : ", all calls, "));
}
END_TEST

/* One id is enough, of a kernel that waits for its stream's track as well. */
START_TEST(with_ids_the_choice_stays)
{
    uint64_t id = cupti_rig_id(_i ? rig.host : rig.compute, _i ? LK_SPAN_STEP : LK_SPAN_KERNEL,
                               rig.gelu, 1, -1);

    ck_assert_ptr_nonnull(strstr(lk_cupti_text(rig.cupti), ", calls by id"));
    cupti_rig_put_issue(1, id);
    put_kernels(1, 2 * LK_CUPTI_KERNELS_TELL);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.unmatched, 2 * LK_CUPTI_KERNELS_TELL - 1);
    ck_assert_uint_eq(kept.n_facts, 0);
}
END_TEST

/* CUPTI's clock counts from 1970. Both clocks are read one after the other, as with the real
 * library; a second is far above that error, and far below the difference between the clocks. */
START_TEST(times_become_ours)
{
    static struct lk_cupti_calls one_by_one;
    const struct kept_track *t;
    uint64_t start;

    cupti_rig_close();
    kept_reset();
    one_by_one = fake_cupti_calls;
    one_by_one.clocks = NULL;
    must(lk_recorder_create(&rig.next));
    must(lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.next, .calls = &one_by_one},
                       &rig.cupti));
    must(lk_recorder_attach(rig.next, &lk_cupti_ops, rig.cupti));
    must(lk_recorder_attach(rig.next, &kept_ops, &kept));
    must(lk_recorder_track(
        rig.next,
        &(struct lk_track_info){.name = "compute stream", .kind = LK_TRACK_COMPUTE, .stream = 1},
        &rig.compute));
    start = lk_now_ns();
    rig.t0 = start + fake_cupti.ahead_ns;
    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, 0, 1, -1));
    cupti_rig_put_kernel(1, 13, LK_NS_PER_S / 4, LK_NS_PER_S / 2, CUPTI_RIG_GELU);
    fake_cupti_deliver(0);
    cupti_rig_close();
    t = kept_track("compute stream, GPU records");
    ck_assert_uint_eq(t->n, 1);
    ck_assert_uint_ge(t->spans[0].start_ns, start);
    ck_assert_uint_lt(t->spans[0].start_ns, start + LK_NS_PER_S);
}
END_TEST

START_TEST(a_clock_that_cannot_be_read)
{
    struct lk_cupti_calls calls = fake_cupti_calls;
    struct lk_cupti *g = NULL;

    cupti_rig_close();
    calls.clocks = NULL;
    must(lk_recorder_create(&rig.next));
    fake_cupti.fail_call = "GetTimestamp";
    fake_cupti.fail_with = CUPTI_ERROR_NOT_INITIALIZED;
    ck_assert_int_eq(
        lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.next, .calls = &calls}, &g),
        LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "its clock"));
    ck_assert_int_eq(fake_cupti.kinds_enabled, 0);
}
END_TEST

/* CUPTI 13's default is a buffer for each thread; NCCL starts a thread for every collective. */
START_TEST(buffers_are_of_all_threads)
{
    ck_assert_uint_eq(fake_cupti.by_thread, 0);
}
END_TEST

START_TEST(the_last_buffer_comes_at_the_end)
{
    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    cupti_rig_put_kernel(1, 13, 1, 2, CUPTI_RIG_GELU);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, 1);
    ck_assert_int_eq(fake_cupti.flushes, 3);
}
END_TEST

static enum lk_status open_again(struct lk_cupti **out)
{
    if (!rig.next)
        must(lk_recorder_create(&rig.next));
    return lk_cupti_open(
        &(struct lk_cupti_config){.recorder = rig.next, .calls = &fake_cupti_calls}, out);
}

/* A run that is killed keeps what was fetched before: nothing is closed here, and no buffer is
 * full. */
START_TEST(records_come_while_it_runs)
{
    struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);
    int before;

    cupti_rig_tear_down();
    rig.fetch_ns = LK_NS_PER_MS;
    cupti_rig_set_up();
    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    cupti_rig_put_kernel(1, 13, 1, 2, CUPTI_RIG_GELU);
    before = fake_cupti.flushes;
    while (fake_cupti.flushes < before + 2 && lk_deadline_left_ns(deadline) > 0)
        continue;
    ck_assert_uint_eq(kept_track("compute stream, GPU records")->n, 1);
    /* A kernel that runs keeps its buffer back. */
    cupti_rig_put_kernel(3, 13, 5, 0 - rig.t0, CUPTI_RIG_GELU);
    cupti_rig_put_issue(2, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    cupti_rig_put_kernel(2, 13, 3, 4, CUPTI_RIG_GELU);
    before = fake_cupti.flushes;
    while (fake_cupti.flushes < before + 2 && lk_deadline_left_ns(deadline) > 0)
        continue;
    ck_assert_uint_eq(kept_track("compute stream, GPU records")->n, 1);
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.records, 2);
    ck_assert_uint_eq(rig.counts.untimed, 1);
}
END_TEST

/* From its last step on nothing is recorded, no ids are pushed, and CUPTI is switched off, unless
 * it is the version that may hang then. */
START_TEST(records_end_with_their_last_step)
{
    struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);
    struct lk_span step, op;
    uint64_t over, id;
    int before;

    cupti_rig_tear_down();
    rig.fetch_ns = LK_NS_PER_MS;
    rig.end_step = 2;
    rig.version = _i == 1 ? 130000 : 130001;
    cupti_rig_set_up();
    id = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1);
    for (uint32_t i = 0; i < 3; i++) {
        step = lk_span_begin(rig.host, LK_SPAN_STEP, 0, i, -1);
        op = lk_span_begin(rig.compute, LK_SPAN_KERNEL, rig.gelu, i, -1);
        ck_assert_uint_eq(fake_cupti_stack.depth, i < 2 ? 2 : 0);
        lk_span_end(rig.compute, &op);
        lk_span_end(rig.host, &step);
        ck_assert_uint_eq(fake_cupti_stack.depth, 0);
    }
    over = lk_now_ns() + fake_cupti.ahead_ns;
    cupti_rig_put_issue(1, id);
    cupti_rig_put_kernel(1, 13, 1, 2, CUPTI_RIG_GELU);
    cupti_rig_put_issue(2, id);
    cupti_rig_put_kernel(2, 13, over - rig.t0, over - rig.t0 + 1, CUPTI_RIG_GELU);
    before = fake_cupti.flushes;
    while (fake_cupti.flushes < before + 3 && lk_deadline_left_ns(deadline) > 0)
        continue;
    ck_assert_int_eq(fake_cupti.kinds_enabled > 0, _i == 1);
    cupti_rig_close();
    ck_assert_int_eq(fake_cupti.kinds_enabled, 0);
    ck_assert_uint_eq(rig.counts.records, 1);
    ck_assert_uint_eq(kept_track("compute stream, GPU records")->spans[0].step, 1);
}
END_TEST

/* CUPTI is switched off while the GPU is in the step behind the last one to be recorded. What it
 * was doing then may come without times, and whatever is dropped: nobody asked for either. */
START_TEST(work_in_flight_at_the_end_is_no_loss)
{
    struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);
    struct lk_span step;
    uint64_t id;

    cupti_rig_tear_down();
    rig.fetch_ns = LK_NS_PER_MS;
    rig.end_step = 2;
    cupti_rig_set_up();
    id = cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1);
    cupti_rig_put_issue(7, cupti_rig_id(rig.compute, LK_SPAN_COPY, 0, 2, -1)); /* a batch, ahead */
    fake_cupti_hold(true);
    step = lk_span_begin(rig.host, LK_SPAN_STEP, 0, 2, -1);
    lk_span_end(rig.host, &step);
    cupti_rig_put_kernel(2, 13, lk_now_ns() + fake_cupti.ahead_ns - rig.t0, 0 - rig.t0,
                         CUPTI_RIG_GELU); /* a call of no id */
    cupti_rig_put_kernel(7, 13, 1, 0 - rig.t0, CUPTI_RIG_GELU);
    cupti_rig_put_call(3, lk_now_ns() + fake_cupti.ahead_ns - rig.t0);
    cupti_rig_put_kernel(3, 13, 1, 0 - rig.t0, CUPTI_RIG_GELU); /* launched after the end */
    cupti_rig_put_issue(4, id);
    cupti_rig_put_kernel(4, 13, 0 - rig.t0, 0 - rig.t0, CUPTI_RIG_GELU); /* in the window: lost */
    cupti_rig_put_call(5, 1);
    cupti_rig_put_kernel(5, 13, 0 - rig.t0, 0 - rig.t0, CUPTI_RIG_GELU); /* likewise */
    fake_cupti_hold(false);
    while (fake_cupti.kinds_enabled > 0 && lk_deadline_left_ns(deadline) > 0)
        continue;
    fake_cupti.dropped = 9;
    cupti_rig_close();
    ck_assert_uint_eq(rig.counts.untimed, 2);
    ck_assert_uint_eq(rig.counts.dropped, 0);
    ck_assert_uint_eq(rig.counts.records, 0);
}
END_TEST

/* CUPTI hands over buffers with a lock of its own held; asking it something with one of ours held
 * would wait for ever. */
START_TEST(cupti_is_asked_without_a_lock)
{
    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    fake_cupti_deliver(0);
    fake_cupti.checks_order = true;
    cupti_rig_close();
    ck_assert(!fake_cupti.inverted);
}
END_TEST

START_TEST(another_profiler_is_noticed)
{
    struct lk_cupti *g = NULL;

    cupti_rig_close();
    fake_cupti.other_profiler = true;
    ck_assert_int_eq(open_again(&g), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "another profiler"));
    ck_assert_int_eq(fake_cupti.kinds_enabled, 0);
}
END_TEST

START_TEST(a_flush_that_hangs)
{
    struct lk_cupti_counts counts;
    enum lk_status st;

    cupti_rig_put_issue(1, cupti_rig_id(rig.compute, LK_SPAN_KERNEL, rig.gelu, 1, -1));
    cupti_rig_put_kernel(1, 13, 1, 2, CUPTI_RIG_GELU);
    fake_cupti_deliver(0);
    fake_cupti.stuck = true;
    st = lk_cupti_close(rig.cupti, lk_deadline_in(20 * LK_NS_PER_MS), &counts);
    rig.cupti = NULL;
    ck_assert_int_eq(st, LK_ETIMEOUT);
    ck_assert_uint_eq(counts.records, 1);
    fake_cupti.stuck = false;
    while (fake_cupti.flushes < 3)
        continue;
    fake_cupti.kinds_enabled = 0;
}
END_TEST

/* As in CUDA 13.0: CUPTI hangs after all records were fetched. */
START_TEST(an_end_that_hangs)
{
    struct lk_cupti_counts counts;
    enum lk_status st;

    fake_cupti.stuck_disabling = true;
    st = lk_cupti_close(rig.cupti, lk_deadline_in(LK_NS_PER_S), &counts);
    rig.cupti = NULL;
    ck_assert(st == LK_OK || st == LK_ETIMEOUT); /* this host may be slow to start */
    ck_assert_int_gt(fake_cupti.kinds_enabled, 0);
    fake_cupti.stuck_disabling = false;
    while (fake_cupti.flushes < 3)
        continue;
    ck_assert_int_eq(fake_cupti.kinds_enabled, 0);
    ck_assert_int_eq(fake_cupti.flushes_enabled, 2);
}
END_TEST

/* A CUPTI that could not be switched off still asks for buffers; before
 * 12.9 none would crash it. */
START_TEST(a_buffer_after_the_end)
{
    uint8_t *buffer = NULL;
    size_t size = 0, most;

    cupti_rig_close();
    fake_cupti.request(&buffer, &size, &most);
    ck_assert_ptr_nonnull(buffer);
    ck_assert_uint_gt(size, 0);
    fake_cupti.complete(NULL, 0, buffer, size, size);
}
END_TEST

START_TEST(one_session_a_process)
{
    struct lk_cupti *second = NULL;

    ck_assert_int_eq(open_again(&second), LK_EINTERNAL);
    ck_assert_ptr_null(second);
    cupti_rig_close();
    must(open_again(&rig.cupti));
    ck_assert_ptr_nonnull(strstr(lk_cupti_text(rig.cupti), "CUPTI API 1"));
    ck_assert_int_gt(fake_cupti.calls_enabled, 20); /* as in the first one */
}
END_TEST

static const struct {
    const char *call;
    int after;
    CUptiResult error;
    const char *says;
} failures[] = {
    {"GetVersion", 0, CUPTI_ERROR_UNKNOWN, "its version"},
    {"GetVersion", 0, CUPTI_ERROR_UNKNOWN, "CUDA driver"},
    {"ActivityRegisterCallbacks", 0, CUPTI_ERROR_INVALID_PARAMETER, "registering buffers"},
    {"ActivityEnable", 0, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
     "NVreg_RestrictProfilingToAdminUsers"},
    {"ActivityEnable", 0, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
     "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
    {"ActivityEnable", 1, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "Nsight"},
    {"Subscribe", 0, CUPTI_ERROR_NOT_INITIALIZED, "older than this library"},
    {"ActivityEnable", 2, CUPTI_ERROR_NOT_INITIALIZED, "recording copies"},
    {"ActivityEnable", 5, CUPTI_ERROR_NOT_COMPATIBLE, "recording kernels"},
};

START_TEST(each_call_failing)
{
    struct lk_cupti *g = NULL;

    cupti_rig_close();
    fake_cupti_reset();
    fake_cupti.fail_call = failures[_i].call;
    fake_cupti.fail_after = failures[_i].after;
    fake_cupti.fail_with = failures[_i].error;
    ck_assert_int_eq(open_again(&g), LK_EUNSUPPORTED);
    ck_assert_msg(strstr(lk_error_text(), failures[_i].says) != NULL, "%s", lk_error_text());
    ck_assert_ptr_null(g);
    ck_assert_int_eq(fake_cupti.kinds_enabled, 0);
    must(open_again(&rig.cupti)); /* the failed opening left nothing behind */
}
END_TEST

/* Without these calls tracing only costs more. */
START_TEST(calls_that_may_fail)
{
    static const char *const calls[] = {"ActivitySetAttribute", "ActivityGetNumDroppedRecords",
                                        "ActivityDisable"};

    cupti_rig_close();
    fake_cupti.fail_call = calls[_i];
    fake_cupti.fail_with = CUPTI_ERROR_NOT_SUPPORTED;
    must(open_again(&rig.cupti));
    cupti_rig_close();
    ck_assert_ptr_null(fake_cupti.fail_call);
}
END_TEST

START_TEST(a_flush_that_fails)
{
    fake_cupti.fail_call = "ActivityFlushAll";
    fake_cupti.fail_with = CUPTI_ERROR_UNKNOWN;
    ck_assert_int_eq(lk_cupti_close(rig.cupti, lk_deadline_in(WAIT_PLENTY_NS), NULL),
                     LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "last records"));
    rig.cupti = NULL;
}
END_TEST

static const struct {
    uint32_t version;
    bool known;
} versions[] = {
    {11, false}, {12, true}, {24, true}, {130001, true}, {139999, true}, {140000, false},
};

START_TEST(versions_that_are_not_known)
{
    struct lk_cupti *g = NULL;
    enum lk_status st;

    cupti_rig_close();
    fake_cupti.version = versions[_i].version;
    st = open_again(&g);
    ck_assert_int_eq(st, versions[_i].known ? LK_OK : LK_EUNSUPPORTED);
    if (st != LK_OK)
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "not known"));
    must(lk_cupti_close(g, lk_deadline_in(WAIT_PLENTY_NS), NULL));
}
END_TEST

/* An older library lacks some functions. */
START_TEST(an_older_library)
{
    struct lk_cupti_calls older = fake_cupti_calls;
    struct lk_cupti *g = NULL;

    cupti_rig_close();
    must(lk_recorder_create(&rig.next));
    older.ActivityEnableRuntimeApi = NULL;
    older.ActivityEnableDriverApi = NULL;
    must(lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.next, .calls = &older}, &g));
    ck_assert(fake_cupti.enabled[CUPTI_ACTIVITY_KIND_RUNTIME]);
    ck_assert(fake_cupti.enabled[CUPTI_ACTIVITY_KIND_DRIVER]);
    must(lk_cupti_close(g, lk_deadline_in(WAIT_PLENTY_NS), NULL));
}
END_TEST

/* Libraries for a driver of CUDA 12: the newer one says that the driver is too old for it. */
static void make_libraries(const char *dir)
{
    struct shell_result r = shell_run(
        "cd '%s' && { printf '#include <stdint.h>\\n'; for f in "
#define NAME(call) #call " "
        LK_CUPTI_CALL_LIST(NAME)
#undef NAME
            "; do case $f in GetVersion) printf 'int cuptiGetVersion(uint32_t *v) { *v = VERSION; "
            "return 0; }\\n' ;; GetTimestamp) printf 'int cuptiGetTimestamp(uint64_t *t) { *t = 1; "
            "return 0; }\\n' ;; Subscribe) printf 'int cuptiSubscribe(void) { return SUBSCRIBE; "
            "}\\n' "
            ";; GetResultString) printf 'int cuptiGetResultString(int e, const char **t) { *t = "
            "\"too old\"; return 0 * e; }\\n' ;; *) printf \"int cupti$f(void) { return 0; }\\n\" "
            ";; "
            "esac; done; } > cupti.c && cc -shared -fPIC -DVERSION=130000 -DSUBSCRIBE=%d -o "
            "libcupti.so.13 cupti.c && cc -shared -fPIC -DVERSION=24 -DSUBSCRIBE=0 -o "
            "libcupti.so.12 "
            "cupti.c 2>&1",
        dir, (int)CUPTI_ERROR_NOT_INITIALIZED);

    ck_assert_msg(r.code == 0, "%s", r.text);
}

START_TEST(the_library_that_fits_the_driver)
{
    char *dir = scratch_create();
    struct lk_cupti *g = NULL;

    cupti_rig_close();
    must(lk_recorder_create(&rig.next));
    make_libraries(dir);
    ck_assert_int_eq(setenv("LOCKSTEP_LIBRARY_PATH", dir, 1), 0);
    must(lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.next}, &g));
    ck_assert_msg(strstr(lk_cupti_text(g), "CUPTI API 24") != NULL, "%s", lk_cupti_text(g));
    must(lk_cupti_close(g, lk_deadline_in(WAIT_PLENTY_NS), NULL));
    scratch_remove(dir);
}
END_TEST

/* Open the real library, which here has no driver, or is missing, or works. */
START_TEST(the_library_itself)
{
    struct lk_cupti *g = NULL;
    enum lk_status st;

    cupti_rig_close();
    must(lk_recorder_create(&rig.next));
    st = lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.next}, &g);
    if (st == LK_OK) {
        ck_assert_ptr_nonnull(strstr(lk_cupti_text(g), "libcupti"));
        st = lk_cupti_close(g, lk_deadline_in(WAIT_PLENTY_NS), NULL);
        ck_assert_msg(st == LK_OK, "%s", lk_error_text());
        return;
    }
    ck_assert_int_eq(st, LK_EUNSUPPORTED);
    ck_assert_msg(!strncmp(lk_error_text(), "CUPTI", 5), "%s", lk_error_text());
}
END_TEST

SUITE(cupti_cuda, tc)
{
    tcase_add_checked_fixture(tc, cupti_rig_set_up, cupti_rig_tear_down);
    tcase_add_test(tc, nesting_is_pushed_and_popped);
    tcase_add_test(tc, only_needed_calls_are_recorded);
    tcase_add_loop_test(tc, without_ids_all_calls_are_recorded, 0, 2);
    tcase_add_loop_test(tc, with_ids_the_choice_stays, 0, 2);
    tcase_add_test(tc, times_become_ours);
    tcase_add_test(tc, a_clock_that_cannot_be_read);
    tcase_add_test(tc, buffers_are_of_all_threads);
    tcase_add_test(tc, the_last_buffer_comes_at_the_end);
    tcase_add_test(tc, a_flush_that_hangs);
    tcase_add_test(tc, an_end_that_hangs);
    tcase_add_test(tc, a_buffer_after_the_end);
    tcase_add_test(tc, one_session_a_process);
    tcase_add_loop_test(tc, each_call_failing, 0, (int)LK_COUNT(failures));
    tcase_add_loop_test(tc, calls_that_may_fail, 0, 3);
    tcase_add_test(tc, a_flush_that_fails);
    tcase_add_loop_test(tc, versions_that_are_not_known, 0, (int)LK_COUNT(versions));
    tcase_add_test(tc, records_come_while_it_runs);
    tcase_add_loop_test(tc, records_end_with_their_last_step, 0, 2);
    tcase_add_test(tc, work_in_flight_at_the_end_is_no_loss);
    tcase_add_test(tc, cupti_is_asked_without_a_lock);
    tcase_add_test(tc, another_profiler_is_noticed);
    tcase_add_test(tc, an_older_library);
    tcase_add_test(tc, the_library_that_fits_the_driver);
    tcase_add_test(tc, the_library_itself);
}

#else

START_TEST(a_build_without_cupti_says_so)
{
    struct lk_cupti *g = NULL;

    ck_assert_int_eq(lk_cupti_open(&(struct lk_cupti_config){.recorder = NULL}, &g),
                     LK_EUNSUPPORTED);
}
END_TEST

SUITE(cupti_cuda, tc)
{
    tcase_add_test(tc, a_build_without_cupti_says_so);
}

#endif
