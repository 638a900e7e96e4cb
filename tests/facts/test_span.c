/* The recorder: every span reaches every sink, names keep their ids, no track means no work. */
#include "base/array.h"
#include "facts/span.h"
#include "tests/rigs/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS_MAX = 20000, TRACKS_MAX = 8 };

/* One track of the sink below. One thread writes it. */
struct kept_track {
    struct lk_track_info info;
    struct lk_span *spans;
    size_t n;
    size_t entered, left;
};

/* A sink that keeps everything. */
struct keeper {
    struct kept_track tracks[TRACKS_MAX];
    int n_tracks;
    char names[16][16]; /* by id */
    int names_added;
    int fail_names; /* this many name_added calls fail first */
};

static enum lk_status keeper_track_open(void *sink, const struct lk_track_info *info, void **ctx)
{
    struct keeper *k = sink;
    struct kept_track *t;
    enum lk_status st;

    if (k->n_tracks == TRACKS_MAX)
        return lk_fail(LK_ENOMEM, "keeper is full");
    t = &k->tracks[k->n_tracks];
    st = lk_alloc(&t->spans, SPANS_MAX, sizeof *t->spans);
    if (st != LK_OK)
        return st;
    t->info = *info;
    k->n_tracks++;
    *ctx = t;
    return LK_OK;
}

static enum lk_status keeper_name_added(void *sink, uint16_t id, const char *name)
{
    struct keeper *k = sink;

    if (k->fail_names) {
        k->fail_names--;
        return lk_fail(LK_EIO, "keeper does not want %s", name);
    }
    ck_assert_uint_lt(id, LK_COUNT(k->names));
    ck_assert_str_eq(k->names[id], "");
    snprintf(k->names[id], sizeof k->names[id], "%s", name);
    k->names_added++;
    return LK_OK;
}

static void keeper_enter(void *ctx, const struct lk_span *s)
{
    struct kept_track *t = ctx;

    (void)s;
    t->entered++;
}

static void keeper_leave(void *ctx, const struct lk_span *s)
{
    struct kept_track *t = ctx;

    (void)s;
    t->left++;
}

static void keeper_emit(void *ctx, const struct lk_span *s)
{
    struct kept_track *t = ctx;

    t->spans[t->n++] = *s;
}

static const struct lk_sink_ops keeper_ops = {.name = "keeper",
                                              .track_open = keeper_track_open,
                                              .name_added = keeper_name_added,
                                              .enter = keeper_enter,
                                              .leave = keeper_leave,
                                              .emit = keeper_emit};
static const struct lk_sink_ops small_ops = {
    .name = "small", .track_open = keeper_track_open, .emit = keeper_emit};

static void keeper_free(struct keeper *k)
{
    for (int i = 0; i < k->n_tracks; i++)
        free(k->tracks[i].spans);
}

static struct lk_recorder *recorder(void)
{
    struct lk_recorder *r;

    ck_assert_int_eq(lk_recorder_create(&r), LK_OK);
    return r;
}

static struct lk_track *track(struct lk_recorder *r, const char *name, enum lk_track_kind kind)
{
    struct lk_track_info info = {.name = name, .kind = kind, .stream = 7};
    struct lk_track *t;

    ck_assert_int_eq(lk_recorder_track(r, &info, &t), LK_OK);
    ck_assert_ptr_nonnull(t);
    return t;
}

START_TEST(a_span_is_one_record)
{
    ck_assert_uint_eq(sizeof(struct lk_span), 48);
}
END_TEST

static bool takes_marks(void *ctx, const struct lk_span *s)
{
    struct kept_track *t = ctx;

    t->entered += s->kind == LK_SPAN_GRADIENT;
    return s->index > 0;
}

/* A mark is offered to each sink until one takes it; where nobody does, the caller is told. */
START_TEST(a_mark_is_taken_once)
{
    struct lk_recorder *r = recorder();
    struct lk_sink_ops takers = keeper_ops;
    struct keeper keepers[3] = {0};
    struct lk_track *t;

    takers.mark = takes_marks;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lk_recorder_attach(r, i ? &takers : &keeper_ops, &keepers[i]), LK_OK);
    t = track(r, "compute stream", LK_TRACK_COMPUTE);
    for (int32_t i = 0; i < 2; i++)
        ck_assert_int_eq(lk_span_mark(t, &(struct lk_span){.kind = LK_SPAN_GRADIENT, .index = i}),
                         i);
    ck_assert_uint_eq(keepers[1].tracks[0].entered, 2);
    ck_assert_uint_eq(keepers[2].tracks[0].entered, 1);
    ck_assert(!lk_span_mark(NULL, &(struct lk_span){.kind = LK_SPAN_GRADIENT, .index = 1}));
    for (int i = 0; i < 3; i++)
        keeper_free(&keepers[i]);
    lk_recorder_destroy(r);
}
END_TEST

/* Use four sinks, the maximum; one of them without the optional calls. */
START_TEST(every_span_reaches_every_sink)
{
    struct lk_recorder *r = recorder();
    struct keeper keepers[LK_SINKS_MAX] = {0};
    struct keeper one_too_many = {0};
    struct lk_track *t;

    for (int i = 0; i < LK_SINKS_MAX; i++)
        ck_assert_int_eq(lk_recorder_attach(r, i == 2 ? &small_ops : &keeper_ops, &keepers[i]),
                         LK_OK);
    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &one_too_many), LK_EINTERNAL);
    t = track(r, "compute stream", LK_TRACK_COMPUTE);
    for (uint32_t i = 0; i < SPANS_MAX; i++) {
        struct lk_span s = lk_span_begin(t, LK_SPAN_FORWARD, 0, i, (int32_t)(i % 3));

        if (i % 2)
            lk_span_end(t, &s);
        else
            lk_span_emit(t, &(struct lk_span){.step = i, .seq = i, .kind = LK_SPAN_COLLECTIVE});
    }
    for (int k = 0; k < LK_SINKS_MAX; k++) {
        const struct kept_track *kept = &keepers[k].tracks[0];

        ck_assert_int_eq(kept->info.kind, LK_TRACK_COMPUTE);
        ck_assert_int_eq(kept->info.stream, 7);
        ck_assert_uint_eq(kept->n, SPANS_MAX);
        ck_assert_uint_eq(kept->entered, k == 2 ? 0 : SPANS_MAX);
        ck_assert_uint_eq(kept->left, k == 2 ? 0 : SPANS_MAX / 2);
        for (uint32_t i = 0; i < SPANS_MAX; i++) {
            ck_assert_uint_eq(kept->spans[i].step, i);
            ck_assert_uint_eq(kept->spans[i].kind, i % 2 ? LK_SPAN_FORWARD : LK_SPAN_COLLECTIVE);
            ck_assert_uint_le(kept->spans[i].start_ns, kept->spans[i].end_ns);
        }
        keeper_free(&keepers[k]);
    }
    lk_recorder_destroy(r);
}
END_TEST

START_TEST(fields_of_a_range)
{
    struct lk_recorder *r = recorder();
    struct keeper k = {0};
    struct lk_track *t;
    struct lk_span s;
    uint64_t before;
    uint64_t after;
    uint16_t name;

    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &k), LK_OK);
    t = track(r, "host", LK_TRACK_HOST);
    ck_assert_int_eq(lk_recorder_name(r, "gemm", &name), LK_OK);
    before = lk_now_ns();
    s = lk_span_begin(t, LK_SPAN_KERNEL, name, 5, -1);
    lk_span_end(t, &s);
    lk_span_counter(t, name, 6, 0.25);
    after = lk_now_ns();
    s = k.tracks[0].spans[0];
    ck_assert(before <= s.start_ns && s.start_ns <= s.end_ns && s.end_ns <= after);
    ck_assert_uint_eq(s.kind, LK_SPAN_KERNEL);
    ck_assert_uint_eq(s.name, name);
    ck_assert_uint_eq(s.step, 5);
    ck_assert_int_eq(s.index, -1);
    ck_assert(s.ready_ns == 0 && s.bytes == 0 && s.seq == 0);
    s = k.tracks[0].spans[1];
    ck_assert_uint_eq(s.kind, LK_SPAN_COUNTER);
    ck_assert_double_eq(s.value, 0.25);
    ck_assert_uint_eq(s.start_ns, s.end_ns);
    ck_assert_uint_eq(s.step, 6);
    keeper_free(&k);
    lk_recorder_destroy(r);
}
END_TEST

START_TEST(names_keep_their_ids)
{
    static const char *const words[] = {"loss", "gemm", "conv", "gemm", "loss", ""};
    static const uint16_t ids[] = {1, 2, 3, 2, 1, 4};
    struct lk_recorder *r = recorder();
    struct keeper k = {0};
    uint16_t id;

    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &k), LK_OK);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < LK_COUNT(words); i++) {
            char copy[16]; /* equal text, another address */

            snprintf(copy, sizeof copy, "%s", words[i]);
            ck_assert_int_eq(lk_recorder_name(r, copy, &id), LK_OK);
            ck_assert_uint_eq(id, ids[i]);
        }
    ck_assert_int_eq(k.names_added, 4);
    ck_assert_str_eq(k.names[2], "gemm");
    lk_recorder_destroy(r);
}
END_TEST

START_TEST(a_late_sink_hears_the_names)
{
    struct lk_recorder *r = recorder();
    struct keeper k = {0};
    struct keeper later = {0};
    uint16_t id;

    ck_assert_int_eq(lk_recorder_name(r, "a", &id), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &k), LK_OK);
    ck_assert_int_eq(lk_recorder_name(r, "b", &id), LK_OK);
    ck_assert_uint_eq(id, 2);
    ck_assert_str_eq(k.names[1], "a");
    ck_assert_str_eq(k.names[2], "b");
    (void)track(r, "host", LK_TRACK_HOST);
    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &later), LK_EINTERNAL);
    keeper_free(&k);
    lk_recorder_destroy(r);
}
END_TEST

/* The first sink accepted id 1 for "a", the second refused: no other name
 * may get 1 from then on. */
START_TEST(a_refused_id_is_not_used_again)
{
    struct lk_recorder *r = recorder();
    struct keeper first = {0};
    struct keeper second = {.fail_names = 1};
    uint16_t id = 99;

    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &first), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &second), LK_OK);
    ck_assert_int_eq(lk_recorder_name(r, "a", &id), LK_EIO);
    ck_assert_uint_eq(id, 99);
    ck_assert_int_eq(lk_recorder_name(r, "b", &id), LK_OK);
    ck_assert_uint_eq(id, 2);
    ck_assert_int_eq(lk_recorder_name(r, "a", &id), LK_OK);
    ck_assert_uint_eq(id, 3);
    ck_assert_str_eq(first.names[3], "a");
    ck_assert_str_eq(second.names[3], "a");
    ck_assert_str_eq(second.names[1], "");
    lk_recorder_destroy(r);
}
END_TEST

START_TEST(a_sink_that_cannot_open)
{
    struct lk_recorder *r = recorder();
    struct keeper full = {.n_tracks = TRACKS_MAX};
    struct lk_track_info info = {.name = "x", .kind = LK_TRACK_HOST};
    struct lk_track *t = NULL;

    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &full), LK_OK);
    ck_assert_int_eq(lk_recorder_track(r, &info, &t), LK_ENOMEM);
    ck_assert_str_eq(lk_error_text(), "keeper is full");
    ck_assert_ptr_null(t);
    lk_recorder_destroy(r);
}
END_TEST

START_TEST(nothing_without_a_recorder)
{
    struct lk_track_info info = {.name = "x", .kind = LK_TRACK_HOST};
    struct lk_track *t;
    struct lk_span s;
    uint16_t id = 7;

    ck_assert_int_eq(lk_recorder_track(NULL, &info, &t), LK_OK);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(lk_recorder_name(NULL, "x", &id), LK_OK);
    ck_assert_uint_eq(id, 0);
    s = lk_span_begin(t, LK_SPAN_STEP, 0, 3, -1);
    ck_assert_uint_eq(s.start_ns, 0); /* the clock was not read */
    lk_span_end(t, &s);
    ck_assert_uint_eq(s.end_ns, 0);
    lk_span_emit(t, &s);
    lk_span_counter(t, 0, 3, 1.0);
    lk_recorder_destroy(NULL);
}
END_TEST

START_TEST(a_recorder_without_sinks)
{
    struct lk_recorder *r = recorder();
    struct lk_track *t = track(r, "host", LK_TRACK_HOST);
    struct lk_span s = lk_span_begin(t, LK_SPAN_STEP, 0, 0, -1);

    lk_span_end(t, &s);
    ck_assert_uint_ge(s.end_ns, s.start_ns);
    lk_recorder_destroy(r);
}
END_TEST

struct worker {
    struct lk_recorder *recorder;
    int number;
    uint16_t ids[3];
};

/* Make tracks and names, own and shared ones, while other threads do the same. */
static void *work(void *argument)
{
    static const char *const words[] = {"x", "y", "z"};
    struct worker *w = argument;
    struct lk_track_info info = {.name = "worker", .kind = LK_TRACK_HOST, .stream = w->number};
    struct lk_track *t;

    if (lk_recorder_track(w->recorder, &info, &t) != LK_OK)
        return argument;
    for (int i = 0; i < 3; i++) {
        int pick = (i + w->number) % 3;

        if (lk_recorder_name(w->recorder, words[pick], &w->ids[pick]) != LK_OK)
            return argument;
    }
    for (uint32_t i = 0; i < SPANS_MAX; i++)
        lk_span_emit(t, &(struct lk_span){.step = i, .index = w->number});
    return NULL;
}

START_TEST(threads_have_their_own_tracks)
{
    struct lk_recorder *r = recorder();
    struct keeper k = {0};
    pthread_t threads[TRACKS_MAX];
    struct worker workers[TRACKS_MAX];

    ck_assert_int_eq(lk_recorder_attach(r, &keeper_ops, &k), LK_OK);
    for (int i = 0; i < TRACKS_MAX; i++) {
        workers[i] = (struct worker){.recorder = r, .number = i};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < TRACKS_MAX; i++) {
        void *failed;

        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
        ck_assert_mem_eq(workers[i].ids, workers[0].ids, sizeof workers[i].ids);
    }
    ck_assert_int_eq(k.n_tracks, TRACKS_MAX);
    ck_assert_int_eq(k.names_added, 3);
    for (int i = 0; i < TRACKS_MAX; i++) {
        const struct kept_track *kept = &k.tracks[i];

        ck_assert_uint_eq(kept->n, SPANS_MAX);
        for (uint32_t j = 0; j < SPANS_MAX; j++) {
            ck_assert_uint_eq(kept->spans[j].step, j);
            ck_assert_int_eq(kept->spans[j].index, kept->info.stream);
        }
    }
    keeper_free(&k);
    lk_recorder_destroy(r);
}
END_TEST

START_TEST(kinds)
{
    ck_assert_str_eq(lk_span_kind_name(LK_SPAN_STEP), "ProfilerStep");
    ck_assert_str_eq(lk_span_kind_category(LK_SPAN_INPUT), "user_annotation");
    for (int i = 0; i < LK_SPAN_KIND_COUNT; i++)
        for (int j = i + 1; j < LK_SPAN_KIND_COUNT; j++)
            ck_assert_str_ne(lk_span_kind_name((enum lk_span_kind)i),
                             lk_span_kind_name((enum lk_span_kind)j));
}
END_TEST

SUITE(span, c)
{
    tcase_add_test(c, a_span_is_one_record);
    tcase_add_test(c, every_span_reaches_every_sink);
    tcase_add_test(c, a_mark_is_taken_once);
    tcase_add_test(c, fields_of_a_range);
    tcase_add_test(c, names_keep_their_ids);
    tcase_add_test(c, a_late_sink_hears_the_names);
    tcase_add_test(c, a_refused_id_is_not_used_again);
    tcase_add_test(c, a_sink_that_cannot_open);
    tcase_add_test(c, nothing_without_a_recorder);
    tcase_add_test(c, a_recorder_without_sinks);
    tcase_add_test(c, threads_have_their_own_tracks);
    tcase_add_test(c, kinds);
}
