/*
 * CUPTI's records on a GPU: every launch and copy is recorded once, with its op, step and stream,
 * at the time it ran, and a kernel of known length has that length. The counts of each session are
 * printed: look at them first if a check fails.
 *
 * LK_CUPTI_CAPTURE=FILE writes the records of a small session as text
 * (tests/rigs/cupti_capture_cuda.h), to be kept as tests/data/cupti-GPU.txt.
 */
#include "profiler/record/cupti.h"
#include "tests/cuda/gpu.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "kernels/ops.h"
#include "profiler/record/cupti_impl_cuda.h"
#include "runtime/device/device.h"
#include "tests/rigs/cupti_capture_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/must.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* CUPTI maps the GPU's clock to the system's by lines through samples of both; the test prints
 * their error. With a wrong clock times are off by far more than this. */
#define CLOCKS_NS LK_NS_PER_MS
#define COMPUTE   "compute stream, GPU records"
#define SECOND    "second stream, GPU records"

static struct {
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    struct lk_device *device;
    struct lk_stream *compute, *second;
    uint64_t before_ns, after_ns;
    uint64_t outside_ns; /* the furthest that a record lies outside of the host's times around it */
    struct lk_cupti_counts counts;
} rig;

static void must_cuda(cudaError_t e, const char *what)
{
    ck_assert_msg(e == cudaSuccess, "%s: %s", what, cudaGetErrorString(e));
}

static void open_rig(const struct lk_cupti_calls *calls)
{
    struct lk_cupti_config c = {.calls = calls};
    struct lk_device_config d = {0};

    must(lk_recorder_create(&rig.recorder));
    c.recorder = rig.recorder;
    must(lk_cupti_open(&c, &rig.cupti));
    must(lk_recorder_attach(rig.recorder, &lk_cupti_ops, rig.cupti));
    must(lk_recorder_attach(rig.recorder, &kept_ops, &kept));
    printf("%s\n", lk_cupti_text(rig.cupti));
    d.recorder = rig.recorder;
    must(lk_device_open("cuda", &d, &rig.device));
    must(lk_stream_create(
        rig.device,
        &(struct lk_track_info){.name = "compute stream", .kind = LK_TRACK_COMPUTE, .stream = 1},
        &rig.compute));
    must(lk_stream_create(
        rig.device,
        &(struct lk_track_info){.name = "second stream", .kind = LK_TRACK_COMM, .stream = 2},
        &rig.second));
    rig.before_ns = lk_now_ns();
}

static void setup(void)
{
    open_rig(NULL);
}

static void finish(void)
{
    must(lk_stream_sync(rig.compute, lk_deadline_in(60 * LK_NS_PER_S)));
    must(lk_stream_sync(rig.second, lk_deadline_in(60 * LK_NS_PER_S)));
    rig.after_ns = lk_now_ns();
    must(lk_cupti_close(rig.cupti, lk_deadline_in(20 * LK_NS_PER_S), &rig.counts));
    rig.cupti = NULL;
#define PRINT(field, counter, missing, text)                                                       \
    printf("  %s: %" PRIu64 "\n", counter, rig.counts.field);
    LK_CUPTI_COUNT_LIST(PRINT)
#undef PRINT
    for (size_t i = 0; i < kept.n_facts; i++) /* how calls are recorded, if it changed */
        printf("  %s: %s\n", kept.facts[i].key, kept.facts[i].value);
    ck_assert_uint_eq(rig.counts.dropped, 0);
    ck_assert_uint_eq(rig.counts.untimed, 0);
    ck_assert_uint_eq(rig.counts.broken, 0);
    ck_assert_uint_eq(rig.counts.unknown, 0);
    ck_assert_uint_eq(rig.counts.lost, 0);
}

static void teardown(void)
{
    if (rig.cupti)
        (void)lk_cupti_close(rig.cupti, lk_deadline_in(20 * LK_NS_PER_S), NULL);
    printf("  furthest outside of the host's times: %" PRIu64 " ns\n", rig.outside_ns);
    lk_stream_destroy(rig.compute);
    lk_stream_destroy(rig.second);
    lk_device_close(rig.device);
    lk_recorder_destroy(rig.recorder);
    kept_reset();
    memset(&rig, 0, sizeof rig);
}

/* Check that a span lies between the host's clock readings, and does not end before it begins. */
static void check_times(const struct lk_span *s)
{
    if (s->start_ns < rig.before_ns && rig.before_ns - s->start_ns > rig.outside_ns)
        rig.outside_ns = rig.before_ns - s->start_ns;
    if (s->end_ns > rig.after_ns && s->end_ns - rig.after_ns > rig.outside_ns)
        rig.outside_ns = s->end_ns - rig.after_ns;
    ck_assert_uint_ge(s->end_ns, s->start_ns);
    ck_assert_msg(s->start_ns + CLOCKS_NS >= rig.before_ns && s->end_ns <= rig.after_ns + CLOCKS_NS,
                  "%" PRId64 " to %" PRId64 " ns after the start of %" PRIu64 " ns",
                  (int64_t)(s->start_ns - rig.before_ns), (int64_t)(s->end_ns - rig.before_ns),
                  rig.after_ns - rig.before_ns);
}

/* ---- Lengths ---- */

static const double lengths_s[] = {1e-3, 3e-3, 10e-3};
enum { LAUNCHES = 40 };
static double largest_error; /* over all lengths */

/* 1 % is allowed; launch and end of a kernel take some microseconds of it. */
START_TEST(spin_kernels_have_their_length)
{
    const struct kept_track *t;

    for (uint32_t i = 0; i < LAUNCHES; i++) {
        lk_stream_set_step(rig.compute, i);
        must(LK_LAUNCH(rig.compute, wait, .seconds = lengths_s[_i]));
    }
    finish();
    t = kept_track(COMPUTE);
    ck_assert_uint_eq(t->n, LAUNCHES);
    ck_assert_uint_eq(rig.counts.records, LAUNCHES);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        const struct lk_span *s = &t->spans[i];

        largest_error =
            fmax(largest_error, fabs((double)(s->end_ns - s->start_ns) / 1e9 / lengths_s[_i] - 1));
        check_times(s);
        ck_assert_uint_eq(s->kind, LK_SPAN_KERNEL);
        ck_assert_uint_eq(s->step, i);
        ck_assert_msg(strstr(kept.names[s->name], "wait") != NULL, "%s", kept.names[s->name]);
        ck_assert_msg(i == 0 || s->start_ns >= t->spans[i - 1].end_ns, "kernel %u overlaps", i);
    }
    printf("figure largest_error %.6f\n", largest_error);
    ck_assert_msg(largest_error <= 0.01, "a kernel's length is off by %.2f %%",
                  100 * largest_error);
}
END_TEST

/* ---- Matching ---- */

enum { MANY = 20000 };

/* Launch more than a buffer of CUPTI's holds, on two streams, each launch in its own step. */
START_TEST(every_launch_comes_back_once)
{
    struct lk_stream *streams[] = {rig.compute, rig.second};
    static const char *const tracks[] = {COMPUTE, SECOND};

    for (uint32_t i = 0; i < MANY; i++) {
        lk_stream_set_step(streams[i % 2], i);
        must(LK_LAUNCH(streams[i % 2], wait, .seconds = 1e-6));
    }
    finish();
    printf("figure launches %d\nfigure records %" PRIu64 "\nfigure dropped %" PRIu64 "\n", MANY,
           rig.counts.records, rig.counts.dropped);
    ck_assert_uint_eq(rig.counts.records, MANY);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
    for (uint32_t k = 0; k < 2; k++) {
        const struct kept_track *t = kept_track(tracks[k]);
        bool *seen = calloc(MANY, sizeof *seen);

        ck_assert_ptr_nonnull(seen);
        ck_assert_uint_eq(t->n, MANY / 2);
        for (size_t i = 0; i < t->n; i++) {
            check_times(&t->spans[i]);
            ck_assert_uint_lt(t->spans[i].step, MANY);
            ck_assert_uint_eq(t->spans[i].step % 2, k);
            ck_assert_msg(!seen[t->spans[i].step], "step %u twice", t->spans[i].step);
            seen[t->spans[i].step] = true;
        }
        free(seen);
    }
}
END_TEST

/* Return the mean time from one of many kernels that do nothing to the next, ns, by events on the
 * stream. A long kernel before them lets the host launch ahead. */
static double null_kernel_ns(struct lk_device *d, struct lk_stream *s)
{
    enum { NULLS = 1000 };
    const double shortest_s = 1e-10; /* 0 ns on the GPU's clock; a wait of 0 s launches nothing */
    struct lk_event *from = NULL, *to = NULL;
    double ns;

    must(lk_event_create(d, &from));
    must(lk_event_create(d, &to));
    must(LK_LAUNCH(s, wait, .seconds = 50e-3));
    must(lk_event_record(from, s));
    for (int i = 0; i < NULLS; i++)
        must(LK_LAUNCH(s, wait, .seconds = shortest_s));
    must(lk_event_record(to, s));
    must(lk_event_sync(to, lk_deadline_in(60 * LK_NS_PER_S)));
    ns = (double)(lk_event_time_ns(to) - lk_event_time_ns(from)) / NULLS;
    lk_event_destroy(from);
    lk_event_destroy(to);
    return ns;
}

/* How far recording drives kernels apart: nothing is checked but that they are recorded, the
 * figures are printed. */
START_TEST(null_kernels)
{
    struct lk_device_config plain = {0};
    const struct kept_track *t;
    double recorded_ns, gaps_ns = 0;

    (void)null_kernel_ns(rig.device, rig.compute);
    recorded_ns = null_kernel_ns(rig.device, rig.compute);
    finish();
    t = kept_track(COMPUTE);
    ck_assert_uint_eq(t->n, 2002);
    for (size_t i = 1003; i < t->n; i++)
        gaps_ns += (double)t->spans[i].start_ns - (double)t->spans[i - 1].end_ns;
    printf("figure null_kernel_recorded_ns %.0f\nfigure null_kernel_gap_ns %.0f\n", recorded_ns,
           gaps_ns / 999);
    lk_stream_destroy(rig.compute);
    lk_stream_destroy(rig.second);
    lk_device_close(rig.device);
    rig.second = NULL;
    must(lk_device_open("cuda", &plain, &rig.device));
    must(lk_stream_create(rig.device, &(struct lk_track_info){.name = "plain stream"},
                          &rig.compute));
    (void)null_kernel_ns(rig.device, rig.compute);
    printf("figure null_kernel_ns %.0f\n", null_kernel_ns(rig.device, rig.compute));
}
END_TEST

enum { THREADS = 300 }; /* more than the pool has buffers */

static void *set_bytes(void *bytes)
{
    return (void *)(intptr_t)cudaMemsetAsync(bytes, 1, 64, lk_stream_native(rig.second));
}

/* Use a thread for each collective, as non-blocking NCCL does. */
START_TEST(threads_launch_for_a_collective)
{
    struct lk_track *track = lk_stream_track(rig.second);
    const struct kept_track *t;
    void *bytes = NULL;

    must(lk_device_alloc(rig.device, 64, &bytes)); /* clears it, which is a record of its own */
    must(LK_LAUNCH(rig.second, wait, .seconds = 1e-6)); /* tells the stream's track */
    for (uint32_t i = 0; i < THREADS; i++) {
        const struct lk_span s = {.kind = LK_SPAN_COLLECTIVE, .step = i, .index = (int32_t)(i % 7)};
        pthread_t thread;
        void *error;

        lk_span_enter(track, &s);
        ck_assert_int_eq(pthread_create(&thread, NULL, set_bytes, bytes), 0);
        ck_assert_int_eq(pthread_join(thread, &error), 0);
        lk_span_leave(track, &s);
        must_cuda((cudaError_t)(intptr_t)error, "memset");
    }
    finish();
    ck_assert_uint_eq(rig.counts.records, THREADS + 2);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
    ck_assert_uint_eq(rig.counts.by_time, 0);
    t = kept_track(SECOND);
    ck_assert_uint_eq(t->n, THREADS + 1);
    for (uint32_t i = 0, n = 0; i < t->n; i++)
        if (t->spans[i].kind == LK_SPAN_MEMSET) {
            ck_assert_uint_eq(t->spans[i].step, n);
            ck_assert_int_eq(t->spans[i].index, (int32_t)(n++ % 7));
        }
    lk_device_free(rig.device, bytes);
}
END_TEST

/* ---- Copies ---- */

START_TEST(copies_and_memsets_have_their_bytes)
{
    enum { BYTES = 1 << 20 };
    static const struct {
        enum lk_span_kind kind;
        const char *name;
        uint64_t bytes;
    } rows[] = {
        {LK_SPAN_COPY, "HtoD", BYTES},
        {LK_SPAN_COPY, "DtoD", BYTES / 2},
        {LK_SPAN_COPY, "DtoH", BYTES / 4},
        {LK_SPAN_MEMSET, "", BYTES / 8},
    };
    void *host = NULL, *a = NULL, *b = NULL;
    const struct kept_track *t;

    must(lk_device_alloc_host(rig.device, BYTES, &host));
    must(lk_device_alloc(rig.device, BYTES, &a));
    must(lk_device_alloc(rig.device, BYTES, &b));
    rig.before_ns = lk_now_ns();
    lk_stream_set_step(rig.compute, 7);
    must(lk_stream_copy(rig.compute, a, host, BYTES));
    must(lk_stream_copy(rig.compute, b, a, BYTES / 2));
    must(lk_stream_copy(rig.compute, host, b, BYTES / 4));
    must_cuda(cudaMemsetAsync(a, 1, BYTES / 8, lk_stream_native(rig.compute)), "memset");
    finish();
    t = kept_track(COMPUTE);
    ck_assert_uint_eq(t->n, LK_COUNT(rows));
    for (size_t i = 0; i < t->n; i++) {
        ck_assert_uint_eq(t->spans[i].kind, rows[i].kind);
        ck_assert_str_eq(kept.names[t->spans[i].name], rows[i].name);
        ck_assert_uint_eq(t->spans[i].bytes, rows[i].bytes);
        ck_assert_uint_eq(t->spans[i].step, i < 3 ? 7 : LK_SPAN_STEP_UNKNOWN);
        check_times(&t->spans[i]);
    }
    lk_device_free(rig.device, a);
    lk_device_free(rig.device, b);
    lk_device_free_host(rig.device, host);
}
END_TEST

/* ---- A capture ---- */

static struct {
    FILE *to;
    struct lk_cupti_calls calls;
    uint64_t ahead_ns; /* CUPTI's clock minus ours, assumed constant */
    CUptiResult (*get_next)(uint8_t *buffer, size_t valid, CUpti_Activity **record);
    CUptiResult (*register_callbacks)(CUpti_BuffersCallbackRequestFunc request,
                                      CUpti_BuffersCallbackCompleteFunc complete);
    CUpti_BuffersCallbackCompleteFunc complete;
} capture;

static void write_record(unsigned char *record, size_t bytes)
{
    unsigned char copy[1024];
    uint32_t kind;
    const char *symbol = NULL;

    bytes = bytes < sizeof copy ? bytes : sizeof copy;
    memcpy(copy, record, bytes);
    memcpy(&kind, copy, sizeof kind);
    capture_shift(kind, copy, -(rig.before_ns + capture.ahead_ns));
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        memcpy(&symbol, copy + offsetof(CUpti_ActivityKernel4, name), sizeof symbol);
    fprintf(capture.to, "record %" PRIu32 " ", kind);
    for (size_t i = 0; i < bytes; i++)
        fprintf(capture.to, "%02x", copy[i]);
    fprintf(capture.to, "%s%s\n", symbol ? " " : "", symbol ? symbol : "");
}

/* Copy the records: each ends where the next begins, the last where the buffer ends. */
static void CUPTIAPI captured(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid)
{
    CUpti_Activity *record = NULL, *last = NULL;

    ck_assert_ptr_nonnull(capture.to);
    while (capture.get_next(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (last)
            write_record((unsigned char *)last, (size_t)((char *)record - (char *)last));
        last = record;
    }
    if (last)
        write_record((unsigned char *)last, (size_t)(buffer + valid - (uint8_t *)last));
    fputs("buffer\n", capture.to);
    capture.complete(context, stream, buffer, size, valid);
}

static CUptiResult register_captured(CUpti_BuffersCallbackRequestFunc request,
                                     CUpti_BuffersCallbackCompleteFunc complete)
{
    capture.complete = complete;
    return capture.register_callbacks(request, captured);
}

static void captured_clocks(uint64_t *theirs_ns, uint64_t *ours_ns)
{
    *ours_ns = lk_now_ns();
    *theirs_ns = *ours_ns + capture.ahead_ns;
}

static void write_head(void)
{
    struct cudaDeviceProp p;
    int driver = 0;

    must_cuda(cudaGetDeviceProperties(&p, 0), "device");
    must_cuda(cudaDriverGetVersion(&driver), "driver");
    fprintf(capture.to, "# Records of %s, CUDA driver %d, %s.\n# Written by test_gpu records.\n",
            p.name, driver, lk_cupti_text(rig.cupti));
    for (size_t i = 1; i <= kept.n_names; i++)
        fprintf(capture.to, "name %s\n", kept.names[i]);
    for (size_t i = 0; i < kept.n_tracks; i++)
        fprintf(capture.to, "track %d %d %s\n", (int)kept.tracks[i].kind, kept.tracks[i].stream,
                kept.tracks[i].name);
}

static void write_spans(void)
{
    for (size_t k = 0; k < kept.n_tracks; k++)
        for (size_t i = 0; i < kept.tracks[k].n; i++) {
            const struct lk_span *s = &kept.tracks[k].spans[i];

            if (s->kind != LK_SPAN_KERNEL && s->kind != LK_SPAN_COPY && s->kind != LK_SPAN_MEMSET)
                continue;
            fprintf(capture.to,
                    "span %s %" PRIu64 " %" PRIu64 " %" PRId32 " %" PRId32 " %" PRIu64 " %s: %s\n",
                    lk_span_kind_name((enum lk_span_kind)s->kind), s->start_ns - rig.before_ns,
                    s->end_ns - rig.before_ns, (int32_t)s->step, s->index, s->bytes,
                    kept.tracks[k].name, kept.names[s->name]);
        }
}

/* Launch everything once: first launches load kernels, which is not under test. */
static void warm_up(void)
{
    must(LK_LAUNCH(rig.compute, wait, .seconds = 1e-6));
    must(lk_stream_sync(rig.compute, lk_deadline_in(60 * LK_NS_PER_S)));
    must(lk_cupti_close(rig.cupti, lk_deadline_in(20 * LK_NS_PER_S), NULL));
    rig.cupti = NULL;
    teardown();
}

START_TEST(records_are_captured)
{
    const char *path = getenv("LK_CUPTI_CAPTURE");
    char file[1024];

    if (!path) {
        printf("no capture: LK_CUPTI_CAPTURE names no file\n");
        return;
    }
    warm_up();
    must(lk_cupti_library(&(int){0}, &capture.calls, file, sizeof file));
    capture.get_next = capture.calls.ActivityGetNextRecord;
    capture.register_callbacks = capture.calls.ActivityRegisterCallbacks;
    ck_assert_int_eq(capture.calls.GetTimestamp(&capture.ahead_ns), CUPTI_SUCCESS);
    capture.ahead_ns -= lk_now_ns();
    capture.calls.clocks = captured_clocks;
    capture.calls.ActivityRegisterCallbacks = register_captured;
    open_rig(&capture.calls);
    for (uint32_t i = 0; i < 2; i++) { /* the names of both ops, before they are used */
        lk_stream_set_step(rig.compute, 100 + i);
        lk_stream_set_step(rig.second, 100 + i);
        must(LK_LAUNCH(rig.compute, wait, .seconds = 1e-5));
        must(LK_LAUNCH(rig.second, hold, .seconds = 1e-5, .ctas = 1));
        must_cuda(cudaStreamSynchronize(lk_stream_native(rig.compute)), "synchronising");
        if (i == 0) {
            capture.to = fopen(path, "w");
            ck_assert_msg(capture.to != NULL, "%s: cannot create", path);
            write_head();
        }
    }
    finish();
    write_spans();
    ck_assert_int_eq(fclose(capture.to), 0);
    printf("captured: %s\n", path);
}
END_TEST

static const char *reason_to_skip(void)
{
    static char reason[1024];
    struct lk_recorder *r = NULL;
    struct lk_cupti *g = NULL;

    if (lk_recorder_create(&r) != LK_OK ||
        lk_cupti_open(&(struct lk_cupti_config){.recorder = r}, &g) != LK_OK)
        snprintf(reason, sizeof reason, "%s", lk_error_text());
    (void)lk_cupti_close(g, lk_deadline_in(20 * LK_NS_PER_S), NULL);
    lk_recorder_destroy(r);
    return reason[0] ? reason : NULL;
}

static Suite *make(void)
{
    Suite *s = suite_create("CUPTI records on a GPU");
    TCase *tc = tcase_create("records");

    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, spin_kernels_have_their_length, 0, (int)LK_COUNT(lengths_s));
    tcase_add_test(tc, every_launch_comes_back_once);
    tcase_add_test(tc, null_kernels);
    tcase_add_test(tc, threads_launch_for_a_collective);
    tcase_add_test(tc, copies_and_memsets_have_their_bytes);
    tcase_add_test(tc, records_are_captured);
    return s;
}

#else

static const char *reason_to_skip(void)
{
    return "this build has no CUPTI";
}

static Suite *make(void)
{
    return suite_create("CUPTI records on a GPU");
}

#endif

const struct gpu_suite gpu_suite_records = {.reason_to_skip = reason_to_skip, .make = make};
