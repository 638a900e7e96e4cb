/* CUDA graphs of the device cuda, and steps launched as one (tests/fakes/fake_cuda.h). */
#include "base/array.h"
#include "base/log.h"
#include "kernels/ops.h"
#include "runtime/device/device.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <string.h>

static const uint64_t hang_ns = WAIT_PLENTY_NS;
static char *locks;

static void setup(void)
{
    locks = scratch_create_for_gpus();
    fake_cuda_reset(1);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(locks);
}

/* ---- The device ---- */

struct rig {
    struct lk_device *d;
    struct lk_stream *compute, *net;
    struct lk_event *ready, *reduced;
    float *x, *y; /* device memory, a float each */
};

static enum lk_status open_rig(struct rig *r)
{
    static const struct lk_track_info compute = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    static const struct lk_track_info net = {.name = "net", .kind = LK_TRACK_COMM};
    const struct lk_device_config config = {.cuda_calls = &fake_cuda_calls};
    enum lk_status st = LK_OK;

    memset(r, 0, sizeof *r);
    LK_TRY(lk_device_open("cuda", &config, &r->d));
    LK_TRY(lk_stream_create(r->d, &compute, &r->compute));
    LK_TRY(lk_stream_create(r->d, &net, &r->net));
    LK_TRY(lk_event_create(r->d, &r->ready));
    LK_TRY(lk_event_create(r->d, &r->reduced));
    LK_TRY(lk_device_alloc(r->d, sizeof *r->x, (void **)&r->x));
    LK_TRY(lk_device_alloc(r->d, sizeof *r->y, (void **)&r->y));
    LK_TRY(LK_LAUNCH(r->compute, fill, .x = r->x, .n = 1, .value = 1));
    LK_TRY(lk_stream_sync(r->compute, lk_deadline_in(hang_ns)));
out:
    return st;
}

static void close_rig(struct rig *r, struct lk_graph *g)
{
    lk_stream_destroy(r->net);
    lk_stream_destroy(r->compute);
    lk_graph_destroy(g);
    lk_event_destroy(r->ready);
    lk_event_destroy(r->reduced);
    if (r->d) {
        lk_device_free(r->d, r->x);
        lk_device_free(r->d, r->y);
    }
    lk_device_close(r->d);
}

/* x doubles; the other stream copies it to y; x triples. */
static enum lk_status enqueue_work(const struct rig *r)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_stream_range_begin(r->compute, LK_SPAN_FORWARD, 0));
    LK_TRY(LK_LAUNCH(r->compute, scale, .x = r->x, .n = 1, .factor = 2));
    LK_TRY(lk_stream_range_end(r->compute));
    LK_TRY(lk_event_record(r->ready, r->compute));
    LK_TRY(lk_stream_wait(r->net, r->ready));
    LK_TRY(lk_stream_copy(r->net, r->y, r->x, sizeof *r->x));
    LK_TRY(lk_event_record(r->reduced, r->net));
    LK_TRY(lk_stream_wait(r->compute, r->reduced));
    LK_TRY(LK_LAUNCH(r->compute, scale, .x = r->x, .n = 1, .factor = 3));
out:
    return st;
}

static float peek(const float *p)
{
    float value;

    fake_cuda_peek(&value, p, sizeof value);
    return value;
}

START_TEST(a_graph_runs_at_each_launch_in_its_order)
{
    struct lk_graph *g = NULL;
    struct rig r;
    float x = 1;

    fake_cuda.seed = (uint64_t)_i;
    must(open_rig(&r));
    ck_assert(lk_device_has_graphs(r.d));
    must(lk_graph_begin(r.compute));
    must(enqueue_work(&r));
    must(lk_graph_end(r.compute, &g));
    must(lk_stream_sync(r.compute, lk_deadline_in(hang_ns)));
    ck_assert_float_eq(peek(r.x), 1);
    for (int i = 0; i < 3; i++, x *= 6) {
        must(lk_graph_launch(g, r.compute));
        must(LK_LAUNCH(r.compute, scale, .x = r.x, .n = 1, .factor = 5));
        must(LK_LAUNCH(r.compute, scale, .x = r.x, .n = 1, .factor = 0.2));
        must(lk_stream_sync(r.compute, lk_deadline_in(hang_ns)));
        ck_assert_float_eq_tol(peek(r.y), 2 * x, 1e-3F * x);
        ck_assert_float_eq_tol(peek(r.x), 6 * x, 1e-3F * x);
    }
    ck_assert_int_eq(fake_cuda.graph_launches, 3);
    /* The same work, not as a graph: its events belong to streams again. */
    must(enqueue_work(&r));
    must(lk_event_sync(r.reduced, lk_deadline_in(hang_ns)));
    ck_assert_float_eq_tol(peek(r.y), 2 * x, 1e-3F * x);
    must(lk_stream_sync(r.compute, lk_deadline_in(hang_ns)));
    close_rig(&r, g);
}
END_TEST

static enum lk_status host_function(struct lk_stream *s, const void *arg)
{
    (void)s;
    (void)arg;
    return LK_OK;
}

static enum lk_status mistake_sync(struct rig *r)
{
    return lk_stream_sync(r->compute, lk_deadline_in(hang_ns));
}

static enum lk_status mistake_host(struct rig *r)
{
    return lk_stream_host(r->compute, host_function, NULL, 0);
}

static enum lk_status mistake_begin(struct rig *r)
{
    return lk_graph_begin(r->net);
}

static enum lk_status mistake_end(struct rig *r)
{
    struct lk_graph *g;

    return lk_graph_end(r->net, &g);
}

/* Wait for a point recorded on the other stream before the capture, and not passed. */
static enum lk_status mistake_wait(struct rig *r)
{
    return lk_stream_wait(r->compute, r->reduced);
}

static enum lk_status mistake_alloc(struct rig *r)
{
    void *p;

    return lk_device_alloc(r->d, 4, &p);
}

static enum lk_status mistake_fork(struct rig *r)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_event_record(r->ready, r->compute));
    LK_TRY(lk_stream_wait(r->net, r->ready));
    LK_TRY(lk_stream_copy(r->net, r->y, r->x, sizeof *r->x));
out:
    return st;
}

static const struct {
    enum lk_status (*make)(struct rig *r);
    const char *text;
    bool makes; /* CUDA does not notice: the graph can be made */
} mistakes[] = {
    {mistake_sync, "a wait for stream 'compute', whose work goes into a graph", true},
    {mistake_host, "stream 'compute': a host function cannot be part of a graph", true},
    {mistake_begin, "a graph is begun on stream 'net' within another", true},
    {mistake_end, "no graph was begun on stream 'net'", true},
    {mistake_wait, "a wait: dependency created on uncaptured work in another stream", false},
    {mistake_alloc, "4 bytes: device memory: operation not permitted when stream is captur", false},
    {mistake_fork, "the end of a graph: capturing stream has unjoined work", false},
};

/* Each is reported as an error, and the streams work afterwards. */
START_TEST(mistakes_in_a_graph_are_errors)
{
    struct lk_graph *g = NULL;
    enum lk_status made, ended;
    struct rig r;
    char text[512];

    must(open_rig(&r));
    fake_cuda.stuck = true;
    must(lk_event_record(r.reduced, r.net));
    must(lk_graph_begin(r.compute));
    must(LK_LAUNCH(r.compute, scale, .x = r.x, .n = 1, .factor = 2));
    made = mistakes[_i].make(&r);
    snprintf(text, sizeof text, "%s", lk_error_text());
    ended = lk_graph_end(r.compute, &g);
    ck_assert_int_eq(ended == LK_OK, mistakes[_i].makes);
    if (made == LK_OK)
        snprintf(text, sizeof text, "%s", lk_error_text());
    ck_assert(made != LK_OK || ended != LK_OK);
    ck_assert_msg(strstr(text, mistakes[_i].text) == text, "%s", text);
    fake_cuda.stuck = false;
    must(enqueue_work(&r));
    must(lk_stream_sync(r.compute, lk_deadline_in(hang_ns)));
    ck_assert_float_eq(peek(r.x), 6);
    close_rig(&r, g);
}
END_TEST

/* No failure leaks; destroying a stream drops its graph. */
START_TEST(every_call_may_fail)
{
    bool failed = true;

    for (int n = 0; failed; n++) {
        struct lk_graph *g = NULL;
        enum lk_status st = LK_OK;
        struct rig r;

        ck_assert_int_lt(n, 200);
        must(open_rig(&r));
        fake_cuda.fail_at = fake_cuda.calls + n + 1;
        fake_cuda.fail_with = cudaErrorUnknown;
        LK_TRY(lk_graph_begin(r.compute));
        LK_TRY(enqueue_work(&r));
        LK_TRY(lk_graph_end(r.compute, &g));
        LK_TRY(lk_graph_launch(g, r.compute));
        LK_TRY(lk_stream_sync(r.compute, lk_deadline_in(hang_ns)));
    out:
        failed = st != LK_OK;
        fake_cuda.fail_at = 0;
        close_rig(&r, g);
        fake_cuda_check_clean();
        fake_cuda_reset(1);
        ck_assert(failed || n > 10);
    }
}
END_TEST

START_TEST(a_device_without_graphs_says_so)
{
    static const struct lk_track_info info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_device_config config = {0};
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL;
    struct lk_graph *g = NULL;

    must(lk_device_open("cpu", &config, &d));
    must(lk_stream_create(d, &info, &s));
    ck_assert(!lk_device_has_graphs(d));
    ck_assert_int_eq(lk_graph_begin(s), LK_EUNSUPPORTED);
    ck_assert_str_eq(lk_error_text(), "device cpu has no graphs");
    ck_assert_int_eq(lk_graph_end(s, &g), LK_EUNSUPPORTED);
    lk_graph_destroy(NULL);
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

/* ---- Steps ---- */

enum { STEPS = 6, SEEDS = 3 };

static struct lk_train_config config(int accumulation, bool no_sync, enum lk_dtype real)
{
    struct lk_train_config c = small_train("cuda", STEPS);

    c.graph = LK_GRAPH_YES;
    c.fuse.wish[LK_FUSE_OPTIMIZER] = LK_FUSE_AUTO;
    c.optim.warmup_steps = STEPS; /* the rate changes in steps that a graph runs */
    c.device_config.cuda_calls = &fake_cuda_calls;
    c.device_config.real = real;
    c.model = (struct lk_model_config){.name = "gpt",
                                       .layers = 1,
                                       .heads = 2,
                                       .channels = 16,
                                       .context = 8,
                                       .vocab = 33,
                                       .seed = 3};
    c.reducer.first_bytes = 4096;
    c.reducer.cap_bytes = 4096;
    c.reducer.accumulation = accumulation;
    c.reducer.no_sync = no_sync;
    return c;
}

static const struct {
    int accumulation, noise_every, verify_steps, launches; /* verify_steps: 0: none */
    bool no_sync;
    enum lk_dtype real;
} runs[] = {
    {1, 0, 0, STEPS - 2, true, LK_F32},  {3, 0, 0, STEPS - 2, true, LK_F32},
    {3, 0, 0, STEPS - 2, false, LK_F32}, {1, 0, 0, STEPS - 2, true, LK_BF16},
    {2, 2, 0, 2, true, LK_F32}, /* steps 3 and 5 */
    {1, 0, 4, 2, true, LK_F32},
};

/* In any order of streams and of the graph's nodes the losses are the same, also if parameters are
 * updated beside backward and all else is fused. */
START_TEST(losses_are_those_without_a_graph)
{
    int i = _i / SEEDS;
    struct lk_train_config c = config(runs[i].accumulation, runs[i].no_sync, runs[i].real);
    struct lk_train_result with, without;

    fake_cuda.seed = (uint64_t)(_i % SEEDS);
    c.fuse.wish[LK_FUSE_OPTIMIZER] = _i % SEEDS ? LK_FUSE_YES : LK_FUSE_NO;
    for (int k = 0; k < LK_FUSE_OPTIMIZER; k++)
        c.fuse.wish[k] = _i % SEEDS ? LK_FUSE_YES : LK_FUSE_NO;
    c.reducer.noise_every = runs[i].noise_every;
    c.verify = runs[i].verify_steps > 0;
    c.verify_steps = runs[i].verify_steps;
    must(lk_train(&c, &with));
    ck_assert_int_eq(fake_cuda.graph_launches, runs[i].launches);
    fake_cuda_check_clean();
    c.graph = LK_GRAPH_NO;
    c.fuse.wish[LK_FUSE_OPTIMIZER] = LK_FUSE_NO;
    must(lk_train(&c, &without));
    ck_assert_int_eq(fake_cuda.graph_launches, runs[i].launches);
    ck_assert_double_ne(with.loss[STEPS - 1], with.loss[0]);
    for (int k = 0; k < STEPS; k++)
        ck_assert_msg(with.loss[k] == without.loss[k], "step %d: %.9g with a graph, %.9g without",
                      k, with.loss[k], without.loss[k]);
    lk_train_result_fini(&with);
    lk_train_result_fini(&without);
}
END_TEST

static void record_steps(struct lk_train_config *c)
{
    (void)c;
}

static void plant(struct lk_train_config *c)
{
    c->reducer.plant = LK_PLANT_DROPPED_BUCKET;
}

static void measure_always(struct lk_train_config *c)
{
    c->reducer.noise_every = 1;
}

static void verify_always(struct lk_train_config *c)
{
    c->verify = true;
}

static void use_cpu(struct lk_train_config *c)
{
    c->device = "cpu";
}

static const struct {
    void (*change)(struct lk_train_config *c);
    const char *why;
} reasons[] = {
    {record_steps, "spans are recorded, and nothing tells the times within a graph"},
    {plant, "a fault is planted"},
    {measure_always, "every step measures the gradients' norms"},
    {verify_always, "every step is verified"},
    {use_cpu, "the device has none"},
};

/* If graphs were requested this is an error; otherwise the run continues without. */
START_TEST(where_a_graph_is_not_legal)
{
    struct lk_train_config c = config(1, true, LK_F32);
    struct lk_train_result result = {0};
    struct lk_recorder *recorder = NULL;
    char text[256];

    must(lk_recorder_create(&recorder));
    if (reasons[_i].change == record_steps)
        c.recorder = recorder;
    reasons[_i].change(&c);
    ck_assert_int_eq(lk_train(&c, &result), LK_EUNSUPPORTED);
    snprintf(text, sizeof text, "steps cannot be launched as a graph: %s", reasons[_i].why);
    ck_assert_str_eq(lk_error_text(), text);
    c.graph = LK_GRAPH_AUTO;
    must(lk_train(&c, &result));
    ck_assert_int_eq(fake_cuda.graph_launches, 0);
    lk_train_result_fini(&result);
    lk_recorder_destroy(recorder);
}
END_TEST

/* Fail in steps that are captured and launched. */
static enum lk_status fail_later(void *ctx, int64_t step, double loss)
{
    (void)loss;
    if (step == 1)
        fake_cuda.fail_at = fake_cuda.calls + *(int *)ctx;
    return LK_OK;
}

START_TEST(a_run_ends_with_any_call_that_fails)
{
    for (int n = 1; n < 400; n += 1 + n / 8) {
        struct lk_train_config c = config(2, true, LK_F32);
        struct lk_train_result result = {0};
        enum lk_status st;

        c.prefetch = 0;
        c.steps = 4;
        c.progress = fail_later;
        c.progress_ctx = &n;
        fake_cuda_reset(1);
        fake_cuda.fail_with = cudaErrorMemoryAllocation;
        st = lk_train(&c, &result);
        ck_assert_msg(st == LK_OK || st == LK_ENOMEM, "call %d: %s", n, lk_error_text());
        ck_assert(n > 100 || st == LK_ENOMEM);
        lk_train_result_fini(&result);
        fake_cuda_check_clean();
    }
}
END_TEST

/* A step that cannot be captured is launched normally, unless graphs were requested. */
START_TEST(a_run_goes_on_without_a_graph)
{
    struct lk_train_config c = config(1, true, LK_F32);
    struct lk_train_result expected = {0};
    int without = 0;

    must(lk_log_configure("error")); /* each fallback would print a warning */
    c.prefetch = 0;
    c.steps = 4;
    must(lk_train(&c, &expected));
    c.graph = LK_GRAPH_AUTO;
    c.progress = fail_later;
    for (int n = 1; n < 60; n += 3) {
        struct lk_train_result result = {0};

        c.progress_ctx = &n;
        fake_cuda_reset(1);
        fake_cuda.fail_with = cudaErrorStreamCaptureUnsupported;
        if (lk_train(&c, &result) == LK_OK) {
            without++;
            ck_assert_int_eq(fake_cuda.graph_launches, 0);
            for (int k = 0; k < 4; k++)
                ck_assert_double_eq(result.loss[k], expected.loss[k]);
        }
        lk_train_result_fini(&result);
        fake_cuda_check_clean();
    }
    ck_assert_int_gt(without, 10);
    lk_train_result_fini(&expected);
}
END_TEST

SUITE(graph_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_graph_runs_at_each_launch_in_its_order, 0, 8);
    tcase_add_loop_test(tc, mistakes_in_a_graph_are_errors, 0, (int)LK_COUNT(mistakes));
    tcase_add_test(tc, every_call_may_fail);
    tcase_add_test(tc, a_device_without_graphs_says_so);
    tcase_add_loop_test(tc, losses_are_those_without_a_graph, 0, SEEDS * (int)LK_COUNT(runs));
    tcase_add_loop_test(tc, where_a_graph_is_not_legal, 0, (int)LK_COUNT(reasons));
    tcase_add_test(tc, a_run_ends_with_any_call_that_fails);
    tcase_add_test(tc, a_run_goes_on_without_a_graph);
}
