/* The loader: batches in sampler order across epochs, prepared ahead or not, stopped at any time.
 */
#include "base/clock.h"
#include "runtime/train/data.h"
#include "tests/rigs/suite.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 6, BATCH = 3, SAMPLES = 17, RANKS = 2, SOON_S = 60 };

static struct lk_device *device;
static struct lk_dataset *dataset;

static void setup(void)
{
    const struct lk_sample_shape shape = lk_sample_text(CONTEXT);
    struct lk_device_config dc = {.slowdown = 1};

    ck_assert_int_eq(lk_device_open("cpu", &dc, &device), LK_OK);
    ck_assert_int_eq(lk_dataset_synthetic(SAMPLES, &shape, 100, 1, &dataset), LK_OK);
}

static void teardown(void)
{
    lk_dataset_destroy(dataset);
    lk_device_close(device);
}

static struct lk_deadline soon(void)
{
    return lk_deadline_in(SOON_S * LK_NS_PER_S);
}

static struct lk_loader *make(int depth, int workers, int accumulation, double delay_s)
{
    struct lk_loader_config c = {.dataset = dataset,
                                 .sampler = {.ranks = RANKS, .rank = 1, .shuffle = true, .seed = 4},
                                 .local_batch = BATCH,
                                 .depth = depth,
                                 .workers = workers,
                                 .accumulation = accumulation,
                                 .delay_s = delay_s};
    struct lk_loader *l = NULL;

    ck_assert_int_eq(lk_loader_create(device, &c, &l), LK_OK);
    return l;
}

/* Check that batch n has the contents that sampler and dataset give. */
static void expect(const struct lk_batch *b, size_t n)
{
    struct lk_sampler_config c = {
        .samples = SAMPLES, .ranks = RANKS, .rank = 1, .shuffle = true, .seed = 4};
    struct lk_sampler *s = NULL;
    size_t an_epoch;
    int32_t in[CONTEXT];
    int32_t target[CONTEXT];

    ck_assert_int_eq(lk_sampler_create(&c, &s), LK_OK);
    an_epoch = lk_sampler_count(s) / BATCH; /* 8 samples a rank: 2 whole batches */
    ck_assert_uint_eq(an_epoch, 2);
    lk_sampler_set_epoch(s, n / an_epoch);
    for (size_t i = 0; i < BATCH; i++) {
        size_t sample = lk_sampler_index(s, n % an_epoch * BATCH + i);

        ck_assert_int_eq(lk_dataset_read(dataset, sample, in, target), LK_OK);
        ck_assert_mem_eq((const int32_t *)b->inputs + i * CONTEXT, in, sizeof in);
        ck_assert_mem_eq(b->targets + i * CONTEXT, target, sizeof target);
    }
    lk_sampler_destroy(s);
}

static const struct {
    int depth, workers, accumulation;
} shapes[] = {{0, 1, 1}, {1, 1, 1}, {2, 1, 1}, {5, 1, 1}, {0, 1, 4}, {1, 1, 4},
              {3, 1, 4}, {2, 2, 1}, {5, 3, 1}, {1, 4, 1}, {0, 3, 2}, {7, 5, 4}};

/* Every batch is right when it is returned, and still right after accumulation - 1 more, whatever
 * the number of threads. */
START_TEST(batches_in_order)
{
    enum { BATCHES = 40 };
    int hold = shapes[_i].accumulation;
    struct lk_loader *l = make(shapes[_i].depth, shapes[_i].workers, hold, 0);
    struct lk_batch got[BATCHES];

    for (size_t n = 0; n < BATCHES; n++) {
        ck_assert_int_eq(lk_loader_next(l, soon(), &got[n]), LK_OK);
        ck_assert_int_eq(got[n].samples, BATCH);
        ck_assert_int_eq(got[n].shape.width, CONTEXT);
        for (size_t back = 0; back < (size_t)hold && back <= n; back++)
            expect(&got[n - back], n - back);
    }
    lk_loader_destroy(l);
}
END_TEST

/* With an hour's delay a batch cannot arrive in time; the loader still ends at once. */
START_TEST(deadline_and_stop)
{
    struct lk_loader *l = make(2, _i, 1, 3600);
    struct lk_batch b;

    ck_assert_int_eq(lk_loader_next(l, lk_deadline_in(LK_NS_PER_MS), &b), LK_ETIMEOUT);
    lk_loader_destroy(l);
}
END_TEST

START_TEST(delay_is_at_least_as_asked)
{
    uint64_t began = lk_monotonic_ns(); /* before the thread, which loads ahead */
    struct lk_loader *l = make(_i, 1, 1, 0.02);
    struct lk_batch b;

    for (int n = 0; n < 3; n++)
        ck_assert_int_eq(lk_loader_next(l, soon(), &b), LK_OK);
    ck_assert_uint_ge(lk_monotonic_ns() - began, 60 * LK_NS_PER_MS);
    lk_loader_destroy(l);
}
END_TEST

START_TEST(stopped_at_any_time)
{
    for (int n = 0; n < 20; n++) {
        struct lk_loader *l = make(3, 1 + n % 3, 2, 0);
        struct lk_batch b;

        for (int i = 0; i < n; i++)
            ck_assert_int_eq(lk_loader_next(l, soon(), &b), LK_OK);
        lk_loader_destroy(l);
    }
}
END_TEST

START_TEST(too_few_samples)
{
    struct lk_loader_config c = {.dataset = dataset,
                                 .sampler = {.ranks = 4, .uneven = LK_UNEVEN_DROP},
                                 .local_batch = 5,
                                 .accumulation = 1};
    struct lk_loader *l = NULL;

    ck_assert_int_eq(lk_loader_create(device, &c, &l), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "4 samples"));
    ck_assert_ptr_null(l);
}
END_TEST

/* A file is cut while a run reads it: batches made before are still returned, then the error. */
START_TEST(failing_data)
{
    char path[] = "/tmp/lockstep-loader-XXXXXX";
    int fd = mkstemp(path);
    const struct lk_sample_shape one = lk_sample_text(1);
    struct lk_loader_config c = {
        .sampler = {.ranks = 1}, .local_batch = 1, .depth = _i, .workers = _i, .accumulation = 1};
    struct lk_loader *l = NULL;
    struct lk_batch b;
    enum lk_status st = LK_OK;

    ck_assert_int_eq(write(fd, "abcdef", 6), 6);
    ck_assert_int_eq(lk_dataset_file(path, LK_DATA_AUTO, &one, 256, &c.dataset), LK_OK);
    ck_assert_int_eq(lk_loader_create(device, &c, &l), LK_OK);
    ck_assert_int_eq(lk_loader_next(l, soon(), &b), LK_OK);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    for (int n = 0; n < 5 && st == LK_OK; n++)
        st = lk_loader_next(l, soon(), &b);
    ck_assert_int_eq(st, LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), path));
    lk_loader_destroy(l);
    lk_dataset_destroy(c.dataset);
    close(fd);
    unlink(path);
}
END_TEST

/* ---- Spans of the loader's thread ---- */

struct sink {
    enum lk_track_kind kind;
    atomic_int spans;
    bool in_order;
};

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    ((struct sink *)sink)->kind = info->kind;
    *out_ctx = sink;
    return LK_OK;
}

static void emit(void *ctx, const struct lk_span *s)
{
    struct sink *k = ctx;
    int n = atomic_load(&k->spans);

    k->in_order = k->in_order && s->kind == LK_SPAN_INPUT && s->step == (uint32_t)n / 2 &&
                  s->index == n % 2 && s->end_ns >= s->start_ns;
    atomic_store(&k->spans, n + 1);
}

/* Of several threads that fail, the batch that comes first says why, and all before it come. */
START_TEST(the_first_error_is_reported)
{
    char path[] = "/tmp/lockstep-loader-XXXXXX";
    uint16_t tokens[64];
    int fd = mkstemp(path);
    const struct lk_sample_shape one = lk_sample_text(1);
    struct lk_loader_config c = {
        .sampler = {.ranks = 1}, .local_batch = 1, .depth = 4, .workers = 4, .accumulation = 1};
    struct lk_loader *l = NULL;
    struct lk_batch b;

    for (size_t i = 0; i < 64; i++)
        tokens[i] = i < 20 ? 7 : (uint16_t)(1000 + i); /* beyond the vocabulary from token 20 on */
    ck_assert_int_eq(write(fd, tokens, sizeof tokens), sizeof tokens);
    ck_assert_int_eq(lk_dataset_file(path, LK_DATA_UINT16, &one, 100, &c.dataset), LK_OK);
    ck_assert_int_eq(lk_loader_create(device, &c, &l), LK_OK);
    for (int n = 0; n < 19; n++) /* batch n has tokens n and n + 1 */
        ck_assert_msg(lk_loader_next(l, soon(), &b) == LK_OK, "%d: %s", n, lk_error_text());
    ck_assert_int_eq(lk_loader_next(l, soon(), &b), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), "token 20 is 1020, the vocabulary has 100") != NULL, "%s",
                  lk_error_text());
    lk_loader_destroy(l);
    lk_dataset_destroy(c.dataset);
    close(fd);
    unlink(path);
}
END_TEST

START_TEST(spans)
{
    static const struct lk_sink_ops ops = {.name = "test", .track_open = track_open, .emit = emit};
    struct sink sink = {.in_order = true};
    struct lk_loader_config c = {.dataset = dataset,
                                 .sampler = {.ranks = 1},
                                 .local_batch = 1,
                                 .depth = 2,
                                 .accumulation = 2};
    struct lk_loader *l = NULL;
    struct lk_batch b;

    ck_assert_int_eq(lk_recorder_create(&c.recorder), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(c.recorder, &ops, &sink), LK_OK);
    ck_assert_int_eq(lk_loader_create(device, &c, &l), LK_OK);
    for (int n = 0; n < 9; n++)
        ck_assert_int_eq(lk_loader_next(l, soon(), &b), LK_OK);
    lk_loader_destroy(l);
    lk_recorder_destroy(c.recorder);
    ck_assert_int_eq(sink.kind, LK_TRACK_LOADER);
    ck_assert(sink.in_order);
    ck_assert_int_ge(sink.spans, 9);
    ck_assert_int_le(sink.spans, 11);
}
END_TEST

SUITE(loader, c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, batches_in_order, 0, sizeof shapes / sizeof *shapes);
    tcase_add_loop_test(c, deadline_and_stop, 1, 3);
    tcase_add_loop_test(c, delay_is_at_least_as_asked, 0, 2);
    tcase_add_test(c, stopped_at_any_time);
    tcase_add_test(c, too_few_samples);
    tcase_add_loop_test(c, failing_data, 0, 4);
    tcase_add_test(c, the_first_error_is_reported);
    tcase_add_test(c, spans);
}
