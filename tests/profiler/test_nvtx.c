/*
 * NVTX ranges as a tool receives them: NVTX loads tests/nvtx/injection.c, like Nsight Systems'
 * library, into runs of the program and into this process.
 */
#include "profiler/record/nvtx.h"

#include "base/array.h"
#include "tests/rigs/nvtx_log.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the program's process: select the run's tool, or the path given. */
static void attach_tool(void *path)
{
    char *log = scratch_path(scratch_dir, "nvtx");

    if (setenv("NVTX_INJECTION64_PATH", path ? path : NVTX_TOOL, 1) || setenv("NVTX_LOG", log, 1))
        _exit(124);
    free(log);
}

static void detach_tool(void *ctx)
{
    (void)ctx;
    unsetenv("NVTX_INJECTION64_PATH");
}

#ifdef LK_HAVE_NVTX

enum { RANKS = 2, STEPS = 3, ACCUMULATION = 2 };

#define RUN                                                                                        \
    "run -n 2 --model=mlp --steps=2 --warmup=1 --accumulation=2 --bucket-cap=100kB "               \
    "--first-bucket=40kB --out=%s/run "

static void run_attached(struct program *p, const char *path, int code, const char *options)
{
    program_start(p, scratch_dir, attach_tool, (void *)(uintptr_t)path, RUN "%s", scratch_dir,
                  options);
    program_wait(p);
    ck_assert_msg(p->code == code, "exit code %d: %s", p->code, p->err);
}

/* ---- The ranges of a step ---- */

static const struct nvtx_range *must_next(const struct nvtx_log *l, size_t *at, const char *text)
{
    const struct nvtx_range *r = nvtx_next(l, at, text);

    ck_assert_msg(r != NULL, "no range '%s'", text);
    return r;
}

/* Return the compute thread's next range with this text and payload in this step. */
static const struct nvtx_range *computes(const struct nvtx_log *l, size_t *at, const char *text,
                                         const struct nvtx_range *step, int payload)
{
    const struct nvtx_range *r = must_next(l, at, text);

    ck_assert_str_eq(r->category, "compute");
    ck_assert_str_eq(r->thread, "compute stream");
    ck_assert_ptr_null(r->within);
    ck_assert_int_eq(r->payload, payload);
    ck_assert_msg(nvtx_during(r, step), "%s is not within its step", text);
    return r;
}

/* Count the ops issued within r. */
static size_t ops_within(const struct nvtx_log *l, const struct nvtx_range *r)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        if (l->ranges[i].within == r) {
            ck_assert_str_eq(l->ranges[i].category, "op");
            n++;
        }
    return n;
}

/* Positions from which to search for the next of each: the host runs ahead
 * of the compute stream. */
struct cursors {
    size_t input, forward, backward, optimizer;
};

static void check_micro_batch(const struct nvtx_log *l, const struct nvtx_range *step,
                              struct cursors *at, int micro_batch)
{
    const struct nvtx_range *input = must_next(l, &at->input, "input");
    const struct nvtx_range *forward = computes(l, &at->forward, "forward", step, micro_batch);
    const struct nvtx_range *backward = computes(l, &at->backward, "backward", step, micro_batch);

    ck_assert_str_eq(input->category, "input");
    ck_assert_ptr_eq(input->within, step);
    ck_assert_int_eq(input->payload, micro_batch);
    ck_assert_uint_gt(forward->pushed, input->popped);
    ck_assert_uint_gt(backward->pushed, forward->popped);
    ck_assert_uint_gt(ops_within(l, forward), 3);
    ck_assert_uint_gt(ops_within(l, backward), 3);
}

/* Check the host thread's range for a bucket: its work is enqueued, and
 * runs on the stream's thread. */
static void check_issued(const struct nvtx_log *l, const struct nvtx_range *step,
                         const struct nvtx_range *reduced)
{
    size_t at = (size_t)(step - l->ranges);
    const struct nvtx_range *r = must_next(l, &at, reduced->text + strlen("all_reduce "));

    ck_assert_str_eq(r->category, "bucket");
    ck_assert_str_eq(r->thread, "host");
    ck_assert_ptr_eq(r->within, step);
    ck_assert_int_eq(r->payload, reduced->payload);
    ck_assert_uint_lt(r->pushed, reduced->pushed);
    r = nvtx_next(l, &at, r->text);
    ck_assert_msg(!r || !nvtx_during(r, step), "%s comes twice in a step", reduced->text);
}

/* Check that every bucket appears once, and that their payloads add up to all gradients. */
static size_t check_buckets(const struct nvtx_log *l, const struct nvtx_range *step)
{
    long long bytes = 0;
    size_t n = 0, at = (size_t)(step - l->ranges);
    char text[64];

    for (;; n++) {
        const struct nvtx_range *r;
        size_t from = at;

        snprintf(text, sizeof text, "all_reduce bucket %zu", n);
        r = nvtx_next(l, &from, text);
        if (!r || !nvtx_during(r, step))
            break;
        ck_assert_str_eq(r->category, "communication");
        ck_assert_str_eq(r->thread, "comm stream");
        ck_assert_ptr_null(r->within);
        ck_assert_int_gt(r->payload, 0);
        bytes += r->payload;
        check_issued(l, step, r);
        r = nvtx_next(l, &from, text);
        ck_assert_msg(!r || !nvtx_during(r, step), "%s comes twice in a step", text);
    }
    ck_assert_int_eq(bytes, 4LL * 140032); /* parameters of the model mlp */
    return n;
}

static void check_rank(const struct nvtx_log *l)
{
    struct cursors at = {0};
    size_t next = 0;

    for (int s = 0; s < STEPS; s++) {
        const struct nvtx_range *step = must_next(l, &next, "step");

        ck_assert_str_eq(step->category, "step");
        ck_assert_str_eq(step->thread, "host");
        ck_assert_ptr_null(step->within);
        ck_assert_int_eq(step->payload, s);
        for (int i = 0; i < ACCUMULATION; i++)
            check_micro_batch(l, step, &at, i);
        /* PyTorch 2 has one bucket until the order of gradients is known. */
        ck_assert_uint_eq(check_buckets(l, step), s == 0 ? 1 : 3);
        (void)computes(l, &at.optimizer, "optimizer", step, s);
    }
    ck_assert_ptr_null(nvtx_next(l, &next, "step"));
    next = 0;
    ck_assert_str_eq(must_next(l, &next, "prepare batch")->thread, "loader");
}

START_TEST(ranges_of_a_run)
{
    static const char *const options[] = {"", "--no-trace", "--nvtx=yes --device=timed"};
    struct nvtx_log logs[RANKS];
    struct program p;

    run_attached(&p, NULL, 0, options[_i]);
    nvtx_logs_read(scratch_dir, "nvtx.", logs, RANKS);
    for (int k = 0; k < RANKS; k++) {
        check_rank(&logs[k]);
        nvtx_log_fini(&logs[k]);
    }
    program_fini(&p);
}
END_TEST

/* NVTX is not even called: no log. */
START_TEST(ranges_are_not_wanted)
{
    struct program p;

    run_attached(&p, NULL, 0, "--nvtx=no");
    nvtx_logs_read(scratch_dir, "nvtx.", NULL, 0);
    program_fini(&p);
}
END_TEST

/* A library that NVTX cannot use is reported; it is an error if ranges were requested. */
START_TEST(useless_tool)
{
    struct program p;

    run_attached(&p, "/nowhere/tool.so", _i, _i ? "--nvtx=yes" : "");
    ck_assert_msg(strstr(p.err, "NVTX_INJECTION64_PATH=/nowhere/tool.so: it does not load") != NULL,
                  "%s", p.err);
    ck_assert((strstr(p.err, "goes on without ranges") != NULL) == !_i);
    program_fini(&p);
}
END_TEST

START_TEST(no_tool)
{
    struct program p;

    program_start(&p, scratch_dir, detach_tool, NULL, RUN "--nvtx=yes", scratch_dir);
    program_wait(&p);
    ck_assert_int_eq(p.code, 1);
    ck_assert_msg(strstr(p.err, "--nvtx=yes: NVTX: no tool runs this program") != NULL, "%s",
                  p.err);
    program_fini(&p);
}
END_TEST

/* ---- The sink in this process ---- */

static void issue(struct lk_track *t, enum lk_span_kind kind, uint16_t name, int32_t index,
                  uint64_t bytes)
{
    const struct lk_span s = {
        .kind = (uint16_t)kind, .name = name, .step = 7, .index = index, .bytes = bytes};

    lk_span_enter(t, &s);
    lk_span_leave(t, &s);
}

START_TEST(texts_and_payloads)
{
    const struct lk_track_info info = {.name = "a stream", .kind = LK_TRACK_COMM};
    struct lk_recorder *r = NULL;
    struct lk_nvtx *n = NULL;
    struct lk_track *t = NULL;
    struct nvtx_log l;
    uint16_t early, reduce, gather;
    static const char *const texts[] = {"all_reduce bucket 0",
                                        "all_reduce bucket 255",
                                        "all_reduce bucket 256 or later",
                                        "all_reduce bucket 256 or later",
                                        "all_reduce",
                                        "all_gather bucket 1",
                                        "a span of its own",
                                        "collective",
                                        "copy",
                                        "synchronize",
                                        "bucket 3",
                                        "bucket 256 or later"};
    static const long long payloads[] = {100, 200, 300, 400, 500, 600, 7, 700, -1, 7, 800, 900};

    attach_tool(NULL);
    ck_assert_int_eq(lk_recorder_create(&r), LK_OK);
    ck_assert_int_eq(lk_recorder_name(r, "a span of its own", &early), LK_OK);
    ck_assert_msg(lk_nvtx_open(&n) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_recorder_attach(r, &lk_nvtx_ops, n), LK_OK);
    ck_assert_int_eq(lk_recorder_track(r, &info, &t), LK_OK);
    ck_assert_int_eq(lk_recorder_name(r, "all_reduce", &reduce), LK_OK);
    ck_assert_int_eq(lk_recorder_name(r, "all_gather", &gather), LK_OK);
    issue(t, LK_SPAN_COLLECTIVE, reduce, 0, 100);
    issue(t, LK_SPAN_COLLECTIVE, reduce, 255, 200);
    issue(t, LK_SPAN_COLLECTIVE, reduce, 256, 300);
    issue(t, LK_SPAN_COLLECTIVE, reduce, 100000, 400);
    issue(t, LK_SPAN_COLLECTIVE, reduce, -1, 500);
    issue(t, LK_SPAN_COLLECTIVE, gather, 1, 600);
    issue(t, LK_SPAN_KERNEL, early, -1, 0);
    issue(t, LK_SPAN_COLLECTIVE, 0, -1, 700);
    issue(t, LK_SPAN_COPY, 0, -1, 0); /* bytes not known yet */
    issue(t, LK_SPAN_SYNC, 0, -1, 0);
    issue(t, LK_SPAN_BUCKET, 0, 3, 800);
    issue(t, LK_SPAN_BUCKET, 0, 256, 900);
    issue(t, LK_SPAN_COUNTER, 0, -1, 0); /* no range */
    issue(t, LK_SPAN_GRADIENT, 0, 3, 0);
    lk_recorder_destroy(r);
    lk_nvtx_close(n);
    lk_nvtx_close(NULL);
    nvtx_logs_read(scratch_dir, "nvtx.", &l, 1);
    ck_assert_uint_eq(l.n, LK_COUNT(texts));
    for (size_t i = 0; i < l.n; i++) {
        ck_assert_str_eq(l.ranges[i].text, texts[i]);
        ck_assert_int_eq(l.ranges[i].has_payload, payloads[i] >= 0);
        if (payloads[i] >= 0)
            ck_assert_int_eq(l.ranges[i].payload, payloads[i]);
        /* The opening thread keeps its name, whichever stream it issues on. */
        ck_assert_str_eq(l.ranges[i].thread, "host");
    }
    nvtx_log_fini(&l);
}
END_TEST

#else

START_TEST(not_in_this_build)
{
    static const char *const options[] = {"--nvtx=yes", ""};
    struct program p;

    program_start(&p, scratch_dir, attach_tool, NULL,
                  "run --model=mlp --steps=2 --warmup=0 %s --out=%s/r", options[_i], scratch_dir);
    program_wait(&p);
    ck_assert_int_eq(p.code, _i == 0);
    ck_assert_msg(strstr(p.err, "NVTX: this build has none") != NULL, "%s", p.err);
    program_fini(&p);
    (void)detach_tool;
}
END_TEST

#endif

SUITE(nvtx, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
#ifdef LK_HAVE_NVTX
    tcase_add_loop_test(t, ranges_of_a_run, 0, 3);
    tcase_add_test(t, ranges_are_not_wanted);
    tcase_add_loop_test(t, useless_tool, 0, 2);
    tcase_add_test(t, no_tool);
    tcase_add_test(t, texts_and_payloads);
#else
    tcase_add_loop_test(t, not_in_this_build, 0, 2);
#endif
}
