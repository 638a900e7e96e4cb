/*
 * Times of gradients by CUPTI's records in place of CUDA events: on the fake machine, with a model
 * of time that gives the events and the records of kernels the same times, so that each gradient's
 * time is known both ways.
 */
#include "tests/rigs/suite.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "facts/job.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"
#include "profiler/record/cupti.h"
#include "profiler/record/span_file.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/waits.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, LAUNCHED = 1 << 14 };

/* Events are floats of milliseconds: of a run of some of these they tell nanoseconds. */
#define FLOATS_NS 50

/* What the machine does to records. */
enum mischief {
    NONE,
    TWO_KERNELS, /* every third op launches two, whose records come in the other order */
    NO_KERNEL,   /* every third op has nothing to do, and launches none */
    DROPS,       /* of half of the run one record is dropped, and said to be */
    NO_RECORDS,  /* CUPTI gives no record of a kernel */
    MISCHIEFS
};

static struct {
    char *directory;
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    struct lk_span_file *spans;
    struct lk_cuda_calls cuda;
    struct lk_train_config config;
    struct lk_cupti_counts counts;
    enum mischief mischief;
    bool both; /* marks have an event, too */
    int events, events_at[STEPS];
    /* Launches that wait for their turn, by the stream. */
    struct {
        const void *stream;
        uint32_t correlation;
    } launched[LAUNCHED];
    size_t first, n;
    uint32_t correlation;
} rig;
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;

/* ---- The machine ---- */

static uint32_t stream_number(const void *stream)
{
    return (uint32_t)((uintptr_t)stream % 1000003);
}

static enum lk_status launch(const struct lk_op *op, const void *args, const struct lk_cuda *cuda)
{
    CUpti_ActivityExternalCorrelation e = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0};

    pthread_mutex_lock(&launching);
    e.correlationId = ++rig.correlation;
    ck_assert_uint_lt(rig.n, LAUNCHED);
    rig.launched[rig.n].stream = cuda->stream;
    rig.launched[rig.n++].correlation = e.correlationId;
    pthread_mutex_unlock(&launching);
    if (fake_cupti_stack.depth > 0) {
        e.externalId = fake_cupti_stack.ids[fake_cupti_stack.depth - 1];
        ck_assert(fake_cupti_put(&e, sizeof e));
    }
    return fake_cuda_calls.run_op(op, args, cuda);
}

/* Return the correlation id of the stream's oldest launch, and forget it. */
static uint32_t next_launch(const void *stream)
{
    uint32_t correlation = 0;

    pthread_mutex_lock(&launching);
    for (size_t i = rig.first; i < rig.n && !correlation; i++)
        if (rig.launched[i].stream == stream) {
            correlation = rig.launched[i].correlation;
            rig.launched[i].stream = NULL;
        }
    while (rig.first < rig.n && !rig.launched[rig.first].stream)
        rig.first++;
    if (rig.first == rig.n)
        rig.first = rig.n = 0;
    pthread_mutex_unlock(&launching);
    ck_assert_uint_ne(correlation, 0);
    return correlation;
}

static void put_kernel(const void *stream, uint32_t correlation, double from_ms, double to_ms)
{
    const uint64_t zero = fake_cuda.reset_ns + fake_cupti.ahead_ns;
    const CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      .start = zero + (uint64_t)(from_ms * 1e6),
                                      .end = zero + (uint64_t)(to_ms * 1e6),
                                      .streamId = stream_number(stream),
                                      .correlationId = correlation,
                                      .name = "a_kernel"};

    if (rig.mischief == NO_RECORDS || !fake_cupti.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL])
        return;
    if (rig.mischief == DROPS && correlation == 600)
        fake_cupti.dropped++;
    else
        ck_assert(fake_cupti_put(&k, sizeof k));
}

/* Run an op for some microseconds, and make the records of its kernels. */
static double takes_ms(const struct fake_work *w, const struct fake_stream *s)
{
    double ms = 0.003;
    uint32_t correlation;
    bool third;

    if (w->kind == WORK_COPY)
        return 0.002;
    if (w->kind != WORK_OP)
        return 0;
    correlation = next_launch(s);
    third = correlation % 3 == 0;
    if (rig.mischief == NO_KERNEL && third)
        return 0;
    ms += 0.0007 * (double)(correlation % 5);
    if (rig.mischief == TWO_KERNELS && third) {
        put_kernel(s, correlation, s->ms + ms / 2, s->ms + ms);
        put_kernel(s, correlation, s->ms, s->ms + ms / 2);
    } else {
        put_kernel(s, correlation, s->ms, s->ms + ms);
    }
    return ms;
}

static cudaError_t count_event(cudaEvent_t e, cudaStream_t s)
{
    rig.events++;
    return fake_cuda_calls.EventRecord(e, s);
}

static enum lk_status step_ended(void *ctx, int64_t step, double loss)
{
    (void)ctx;
    (void)loss;
    rig.events_at[step] = rig.events;
    return LK_OK;
}

/* ---- The rig ---- */

/* Start the machine's time with the first track: earlier work is not recorded. */
static enum lk_status start_time(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    static int nothing;
    bool *started = sink;

    (void)info;
    if (!*started)
        fake_cuda.reset_ns = lk_now_ns();
    *started = true;
    *out_ctx = &nothing;
    return LK_OK;
}

/* Take a mark over, but let the device record its event nevertheless. */
static bool mark_both_ways(void *track_ctx, const struct lk_span *s)
{
    return lk_cupti_ops.mark(track_ctx, s) && !rig.both;
}

static bool mark_always(void *track_ctx, const struct lk_span *s)
{
    (void)track_ctx;
    (void)s;
    return true;
}

static void setup(void)
{
    memset(&rig, 0, sizeof rig);
    rig.directory = scratch_create_for_gpus();
    fake_cuda_reset(1);
    fake_cupti_reset();
    fake_cuda.takes_ms = takes_ms;
    fake_cupti.ahead_ns = 1000 * LK_NS_PER_S;
    rig.cuda = fake_cuda_calls;
    rig.cuda.run_op = launch;
    rig.cuda.EventRecord = count_event;
    rig.config = small_train("cuda", STEPS);
    rig.config.prefetch = 0;
    rig.config.device_config.cuda_calls = &rig.cuda;
    rig.config.progress = step_ended;
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(rig.directory);
}

static void read_trace(struct lk_trace *out)
{
    char *path = scratch_path(rig.directory, "rank0.spans");

    must(lk_spans_read(path, out));
    free(path);
}

/* Train, with records if so wished, until this step (0: all). The trace is in the directory. */
static void train(bool records, uint32_t end_step)
{
    const struct lk_sink_ops clock = {.name = "clock", .track_open = start_time};
    struct lk_sink_ops cupti = lk_cupti_ops;
    struct lk_train_result result = {0};
    struct lk_run_info info = {0};
    char *path = scratch_path(rig.directory, "rank0.spans");
    bool started = false;

    cupti.mark = mark_both_ways;
    must(lk_recorder_create(&rig.recorder));
    if (records) {
        const struct lk_cupti_config config = {.recorder = rig.recorder,
                                               .calls = &fake_cupti_calls,
                                               .buffer_bytes = 1 << 14, /* less than a step's */
                                               .end_step = end_step};

        must(lk_cupti_open(&config, &rig.cupti));
        must(lk_recorder_attach(rig.recorder, &cupti, rig.cupti));
    }
    must(lk_recorder_attach(rig.recorder, &clock, &started));
    must(lk_train_describe(&rig.config, &info));
    rig.first = rig.n = 0;
    must(lk_span_file_create(path, &info, 1 << 15, &rig.spans));
    lk_run_info_fini(&info);
    must(lk_recorder_attach(rig.recorder, &lk_span_file_ops, rig.spans));
    rig.config.recorder = rig.recorder;
    must(lk_train(&rig.config, &result));
    lk_train_result_fini(&result);
    if (records)
        must(lk_cupti_close(rig.cupti, lk_deadline_in(WAIT_PLENTY_NS), &rig.counts));
    lk_recorder_destroy(rig.recorder);
    must(lk_span_file_close(rig.spans));
    free(path);
}

static bool is_of_records(const struct lk_trace *t, const struct lk_trace_span *s)
{
    return strstr(t->tracks[s->track].name, "GPU records") != NULL;
}

static const struct lk_span *by_event(const struct lk_trace *t, const struct lk_span *mark)
{
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_GRADIENT && !is_of_records(t, &t->spans[i]) &&
            s->step == mark->step && s->index == mark->index)
            return s;
    }
    return NULL;
}

static size_t count_gradients(const struct lk_trace *t, bool of_records)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        n += t->spans[i].span.kind == LK_SPAN_GRADIENT &&
             is_of_records(t, &t->spans[i]) == of_records;
    return n;
}

/* Remove the gradients that have their time by records, or those that have it by events. */
static void remove_gradients(struct lk_trace *t, bool of_records)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind != LK_SPAN_GRADIENT ||
            is_of_records(t, &t->spans[i]) != of_records)
            t->spans[kept++] = t->spans[i];
    t->n_spans = kept;
}

/* ---- Times ---- */

/* Both ways a gradient has the same time, whatever an op launches. With a loss of records some have
 * none: those are counted, and none is wrong. */
START_TEST(both_ways_have_the_same_times)
{
    struct lk_trace t = {0};
    size_t n, n_params;

    rig.mischief = (enum mischief)_i;
    rig.both = true;
    train(true, 0);
    read_trace(&t);
    n_params = t.info.n_tensors;
    ck_assert_uint_eq(count_gradients(&t, false), STEPS * n_params);
    for (size_t i = 0; i < t.n_spans; i++) {
        const struct lk_span *s = &t.spans[i].span, *event;

        if (s->kind != LK_SPAN_GRADIENT || !is_of_records(&t, &t.spans[i]))
            continue;
        event = by_event(&t, s);
        ck_assert_ptr_nonnull(event);
        if (s->start_ns > event->start_ns + FLOATS_NS || s->start_ns + FLOATS_NS < event->start_ns)
            ck_abort_msg("tensor %d of step %u: %" PRIu64 " ns by its record, %" PRIu64
                         " by its event",
                         s->index, s->step, s->start_ns, event->start_ns);
    }
    n = count_gradients(&t, true);
    if (rig.mischief == NO_RECORDS)
        ck_assert_uint_eq(n, 0);
    else if (rig.mischief == DROPS)
        ck_assert(n > 0 && n < STEPS * n_params); /* how many were lost is a matter of time */
    else
        ck_assert_uint_ge(n, (STEPS - 2) * n_params); /* less what came before records were seen */
    ck_assert_int_eq(rig.counts.timeless > 0, rig.mischief == DROPS);
    ck_assert_uint_lt(rig.counts.timeless, 4 * n_params);
    lk_trace_fini(&t);
}
END_TEST

/* Read the trace, keep the gradients of one way, and build the job. */
static void build(bool by_records, struct lk_run_set *set, struct lk_job *j)
{
    struct lk_trace *traces = NULL;

    must(lk_alloc(&traces, 1, sizeof *traces));
    must(lk_alloc(&set->runs, 1, sizeof *set->runs));
    set->n = 1;
    read_trace(traces);
    remove_gradients(traces, !by_records);
    must(lk_run_take(rig.directory, traces, 1, &set->runs[0]));
    must(lk_job_build(set, j));
}

/* What is made of a trace does not depend on the way: each backward has all gradients, in the same
 * order, and job.json has the same ready times. */
START_TEST(both_ways_make_the_same_job)
{
    struct lk_run_set sets[2] = {0};
    struct lk_job jobs[2];

    rig.both = true;
    rig.config.warmup_steps = 3;
    rig.config.steps = STEPS - 3;
    rig.config.reducer.accumulation = _i + 1;
    rig.config.reducer.no_sync = _i == 1;
    train(true, 0);
    for (int w = 0; w < 2; w++)
        build(w == 1, &sets[w], &jobs[w]);
    ck_assert_uint_eq(jobs[0].n_tensors, jobs[1].n_tensors);
    for (size_t i = 0; i < jobs[0].n_tensors; i++) {
        ck_assert_uint_eq(jobs[0].ready_order[i], jobs[1].ready_order[i]);
        ck_assert_double_eq_tol(jobs[0].tensors[i].ready, jobs[1].tensors[i].ready, 1e-3);
    }
    for (size_t i = 0; i < sets[0].runs[0].ranks[0].n_ranges; i++) {
        const struct lk_range *a = &sets[0].runs[0].ranks[0].ranges[i],
                              *b = &sets[1].runs[0].ranks[0].ranges[i];

        if (a->step >= 3)
            ck_assert_uint_eq(a->n_marks, b->n_marks);
    }
    for (int w = 0; w < 2; w++) {
        lk_job_fini(&jobs[w]);
        lk_run_set_fini(&sets[w]);
    }
}
END_TEST

/* ---- Events ---- */

/* Return the number of different times of gradients in a step: the events that they need. */
static int times_in_step(const struct lk_trace *t, uint32_t step)
{
    uint64_t last_ns = 0;
    int n = 0;

    for (size_t i = 0; i < t->n_spans; i++) { /* sorted */
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind != LK_SPAN_GRADIENT || s->step != step)
            continue;
        n += s->start_ns != last_ns;
        last_ns = s->start_ns;
    }
    return n;
}

/* With the tensors of gpt2-124m, which are 148. The step before the last is like any other. */
static int events_of_a_step(bool records, int *out_times)
{
    struct lk_trace t = {0};

    train(records, 0);
    read_trace(&t);
    ck_assert_uint_eq(t.info.n_tensors, 148);
    *out_times = times_in_step(&t, STEPS - 2);
    ck_assert_uint_eq(count_gradients(&t, true) + count_gradients(&t, false), STEPS * 148);
    lk_trace_fini(&t);
    return rig.events_at[STEPS - 2] - rig.events_at[STEPS - 3];
}

START_TEST(gradients_need_no_event)
{
    int times = 0, again = 0, by_events, by_records;

    rig.config.model.layers = 12;
    rig.config.model.heads = 2;
    rig.config.model.channels = 16;
    rig.config.reducer.cap_bytes = 12000;
    rig.config.reducer.first_bytes = 2000;
    by_events = events_of_a_step(false, &times);
    by_records = events_of_a_step(true, &again);
    printf("events of a step: %d, and %d with records; gradients have %d times\n", by_events,
           by_records, times);
    ck_assert_int_eq(again, times);
    /* A wait at the step's end may share an event or not. */
    ck_assert_int_le(by_records, by_events - times);
    ck_assert_int_ge(by_records, by_events - times - 2);
}
END_TEST

/* Behind the last step with records gradients have no times: nobody asks for them, since only steps
 * with records are analysed. Without any record they keep their events to the end. */
START_TEST(steps_behind_the_window_cost_nothing)
{
    enum { END = 7 };
    struct lk_trace t = {0};
    size_t n = 0;

    rig.mischief = _i == 1 ? NO_RECORDS : NONE;
    train(true, END);
    read_trace(&t);
    for (size_t i = 0; i < t.n_spans; i++)
        n += t.spans[i].span.kind == LK_SPAN_GRADIENT && t.spans[i].span.step >= END;
    ck_assert_uint_eq(n, _i == 1 ? (STEPS - END) * t.info.n_tensors : 0);
    n = count_gradients(&t, true) + count_gradients(&t, false);
    ck_assert_uint_eq(n, (_i == 1 ? STEPS : END) * t.info.n_tensors);
    lk_trace_fini(&t);
}
END_TEST

/* A gradient behind anything but an op, as a copy, has its event: records do not tell its time. */
START_TEST(only_ops_tell_times)
{
    struct lk_sink_ops taker = {.name = "taker", .track_open = start_time};
    struct lk_device_config config = {.cuda_calls = &rig.cuda};
    const struct lk_track_info info = {.name = "compute stream", .kind = LK_TRACK_COMPUTE};
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL;
    struct lk_event *e = NULL;
    bool started = true;
    int before;

    taker.mark = mark_always;
    must(lk_recorder_create(&rig.recorder));
    must(lk_recorder_attach(rig.recorder, &taker, &started));
    config.recorder = rig.recorder;
    must(lk_device_open("cuda", &config, &d));
    must(lk_stream_create(d, &info, &s));
    must(lk_event_create(d, &e));
    before = rig.events;
    must(lk_stream_mark(s, LK_SPAN_GRADIENT, 0)); /* behind nothing */
    ck_assert_int_eq(rig.events, ++before);
    must(LK_LAUNCH(s, wait, .seconds = 1e-6));
    must(lk_stream_mark(s, LK_SPAN_GRADIENT, 1));
    ck_assert_int_eq(rig.events, before);
    must(lk_event_record(e, s)); /* a bucket's */
    ck_assert_int_eq(rig.events, ++before);
    must(lk_stream_mark(s, LK_SPAN_GRADIENT, 2));
    ck_assert_int_eq(rig.events, before);
    ck_assert_ptr_nonnull(lk_stream_native(s));
    must(lk_stream_mark(s, LK_SPAN_GRADIENT, 3));
    ck_assert_int_eq(rig.events, ++before);
    must(lk_stream_sync(s, lk_deadline_in(WAIT_PLENTY_NS)));
    lk_event_destroy(e);
    lk_stream_destroy(s);
    lk_device_close(d);
    lk_recorder_destroy(rig.recorder);
}
END_TEST

SUITE(gradient_records_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, both_ways_have_the_same_times, 0, MISCHIEFS);
    tcase_add_loop_test(tc, both_ways_make_the_same_job, 0, 2);
    tcase_add_test(tc, gradients_need_no_event);
    tcase_add_loop_test(tc, steps_behind_the_window_cost_nothing, 0, 2);
    tcase_add_test(tc, only_ops_tell_times);
}

#else

SUITE(gradient_records_cuda, tc)
{
    (void)tc;
}

#endif
