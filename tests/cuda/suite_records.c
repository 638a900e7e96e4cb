/*
 * GPU records against what was launched: kernels of known length come back within 1 %, as many as
 * were launched and in their order, with their op and step; copies with their bytes; none dropped.
 */
#include "tests/cuda/gpu.h"

#include "base/array.h"
#include "base/span.h"
#include "base/units.h"
#include "kernels/ops.h"
#include "profiler/cupti.h"
#include "runtime/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 20, SHORT_KERNELS = 4000, ELEMS = 1 << 16, SPANS_MAX = 1 << 14, NAMES_MAX = 512 };

/* Long enough that a launch's two microseconds are a small part of the bound. */
static const double lengths_s[] = {1e-3, 2e-3, 5e-3};
static const double longest_error = 0.01;

static struct {
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    struct lk_device *device;
    struct lk_stream *stream;
    struct lk_cupti_counts counts;
} rig;

/* A sink that keeps spans of the GPU. */
static struct {
    struct lk_span spans[SPANS_MAX];
    size_t n;
    char names[NAMES_MAX][96];
} kept;

static enum lk_status keep_track(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)info;
    *out_ctx = sink;
    return LK_OK;
}

static enum lk_status keep_name(void *sink, uint16_t id, const char *name)
{
    (void)sink;
    if (id < NAMES_MAX)
        snprintf(kept.names[id], sizeof kept.names[id], "%s", name);
    return LK_OK;
}

static void keep_span(void *ctx, const struct lk_span *s)
{
    (void)ctx;
    if (s->kind != LK_SPAN_KERNEL && s->kind != LK_SPAN_COPY)
        return;
    if (kept.n < SPANS_MAX)
        kept.spans[kept.n] = *s;
    kept.n++;
}

static const struct lk_sink_ops keep_ops = {
    .name = "keep", .track_open = keep_track, .name_added = keep_name, .emit = keep_span};

static void must(enum lk_status st)
{
    ck_assert_msg(st == LK_OK, "%s", lk_error_text());
}

static void set_up(void)
{
    const struct lk_track_info track = {.name = "stream", .kind = LK_TRACK_COMPUTE, .stream = 1};

    memset(&rig, 0, sizeof rig);
    memset(&kept, 0, sizeof kept);
    must(lk_recorder_create(&rig.recorder));
    must(lk_cupti_open(&(struct lk_cupti_config){.recorder = rig.recorder}, &rig.cupti));
    printf("%s\n", lk_cupti_text(rig.cupti));
    must(lk_recorder_attach(rig.recorder, &lk_cupti_ops, rig.cupti));
    must(lk_recorder_attach(rig.recorder, &keep_ops, &kept));
    must(lk_device_open(
        "cuda", &(struct lk_device_config){.recorder = rig.recorder, .real = LK_F32}, &rig.device));
    must(lk_stream_create(rig.device, &track, &rig.stream));
}

static void finish(void)
{
    must(lk_stream_sync(rig.stream, lk_deadline_in(20 * LK_NS_PER_S)));
    must(lk_cupti_close(rig.cupti, lk_deadline_in(20 * LK_NS_PER_S), &rig.counts));
    ck_assert_uint_eq(rig.counts.dropped, 0);
    ck_assert_uint_eq(rig.counts.untimed, 0);
    ck_assert_uint_eq(rig.counts.broken, 0);
    ck_assert_uint_eq(rig.counts.lost, 0);
    ck_assert_uint_le(kept.n, SPANS_MAX);
}

static void tear_down(void)
{
    lk_stream_destroy(rig.stream);
    lk_device_close(rig.device);
    lk_recorder_destroy(rig.recorder);
}

/* The kept spans of a kind whose name begins so; in order of their start they are those issued. */
static size_t find(enum lk_span_kind kind, const char *op, const struct lk_span **out, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < kept.n; i++) {
        const struct lk_span *s = &kept.spans[i];
        size_t at = n;

        if (s->kind != kind || strncmp(kept.names[s->name], op, strlen(op)) != 0)
            continue;
        ck_assert_uint_lt(n, max);
        for (; at > 0 && out[at - 1]->start_ns > s->start_ns; at--)
            out[at] = out[at - 1];
        out[at] = s;
        n++;
    }
    return n;
}

static void launch_waits(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lk_stream_set_step(rig.stream, (uint32_t)i);
        must(LK_LAUNCH(rig.stream, wait, .seconds = lengths_s[i % LK_COUNT(lengths_s)]));
    }
}

START_TEST(kernels_of_known_length)
{
    enum { N = ROUNDS * (int)LK_COUNT(lengths_s) };
    const struct lk_span *found[N];
    uint64_t began_ns = lk_now_ns();
    double worst = 0;

    /* The first launch of a kernel loads it. */
    launch_waits(N);
    finish();
    ck_assert_uint_eq(find(LK_SPAN_KERNEL, "wait", found, N), N);
    for (size_t i = 0; i < N; i++) {
        double seconds = lk_s_from_ns(found[i]->end_ns - found[i]->start_ns);
        double error = fabs(seconds / lengths_s[i % LK_COUNT(lengths_s)] - 1);

        ck_assert_uint_eq(found[i]->step, i);
        ck_assert_uint_ge(found[i]->start_ns, i ? found[i - 1]->end_ns : began_ns);
        worst = error > worst ? error : worst;
    }
    ck_assert_uint_le(found[N - 1]->end_ns, lk_now_ns());
    printf("figure kernels_of_known_length %d\nfigure largest_error %.6f\n", N, worst);
    ck_assert_msg(worst <= longest_error, "a kernel's length is off by %.2f %%", 100 * worst);
}
END_TEST

/* More records than a buffer holds, faster than anything a training step launches. */
START_TEST(records_equal_launches)
{
    static const struct lk_span *found[SHORT_KERNELS];
    void *x = NULL, *y = NULL;

    must(lk_device_alloc(rig.device, ELEMS * sizeof(float), &x));
    must(lk_device_alloc(rig.device, ELEMS * sizeof(float), &y));
    for (int i = 0; i < SHORT_KERNELS; i++)
        must(LK_LAUNCH(rig.stream, gelu_forward, .out = y, .in = x, .n = ELEMS));
    finish();
    ck_assert_uint_eq(find(LK_SPAN_KERNEL, "gelu", found, SHORT_KERNELS), SHORT_KERNELS);
    printf("figure records_of_%d_launches %d\n", SHORT_KERNELS, SHORT_KERNELS);
    lk_device_free(rig.device, x);
    lk_device_free(rig.device, y);
}
END_TEST

START_TEST(copies_have_their_bytes)
{
    const struct lk_span *found[2];
    void *x = NULL, *host = NULL;

    must(lk_device_alloc(rig.device, ELEMS, &x));
    must(lk_device_alloc_host(rig.device, ELEMS, &host));
    must(lk_stream_copy(rig.stream, x, host, ELEMS));
    must(lk_stream_copy(rig.stream, host, x, ELEMS / 2));
    finish();
    ck_assert_uint_eq(find(LK_SPAN_COPY, "HtoD", found, 2), 1);
    ck_assert_uint_eq(found[0]->bytes, ELEMS);
    ck_assert_uint_eq(find(LK_SPAN_COPY, "DtoH", found, 2), 1);
    ck_assert_uint_eq(found[0]->bytes, ELEMS / 2);
    lk_device_free(rig.device, x);
    lk_device_free_host(rig.device, host);
}
END_TEST

static const char *reason_to_skip(void)
{
#ifdef LK_HAVE_CUPTI
    return NULL;
#else
    return "built without CUPTI";
#endif
}

static Suite *make(void)
{
    Suite *s = suite_create("GPU records");
    TCase *tc = tcase_create("records");

    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, kernels_of_known_length);
    tcase_add_test(tc, records_equal_launches);
    tcase_add_test(tc, copies_have_their_bytes);
    return s;
}

const struct gpu_suite gpu_suite_records = {.reason_to_skip = reason_to_skip, .make = make};
