/* Flight Recorder's dumps: all three kinds of files give the same events; bad ones do no harm. */
#include "profiler/import/flight_recorder.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define CORPUS "tests/fuzz/corpus/flight_recorder/nccl_trace_rank_"

/* tests/data/make_flight_recorder.py wrote them. */
static const struct {
    const char *path;
    enum lk_status (*read)(const char *path, const char *step_range, struct lk_events *out);
    size_t entries, timed;
} files[] = {
    {CORPUS "0", lk_flight_pickle_read, 9, 7},
    {CORPUS "1", lk_flight_pickle_read, 7, 7},
    {CORPUS "2.json", lk_flight_json_read, 9, 7},
};

static const struct {
    const char *function;
    uint64_t elements, sequence;
    uint8_t state;
    enum lk_dtype dtype;
} entries[] = {
    {"all_reduce", 2049000, 3, LK_COLLECTIVE_COMPLETED, LK_F32},
    {"all_reduce", 7875584, 4, LK_COLLECTIVE_COMPLETED, LK_F32},
    {"all_gather", 1000, 5, LK_COLLECTIVE_SCHEDULED, LK_BF16},
    {"all_gather", 30, 5, LK_COLLECTIVE_SCHEDULED, LK_BF16},
    {"coalesced", 0, 5, LK_COLLECTIVE_COMPLETED, LK_F32},
    {"send", 64, 0, LK_COLLECTIVE_COMPLETED, LK_I64},
    {"barrier", 1, 6, LK_COLLECTIVE_COMPLETED, LK_F32},
    {"all_reduce", 2049000, 7, LK_COLLECTIVE_STARTED, LK_F32},
    {"all_reduce", 7875584, 8, LK_COLLECTIVE_SCHEDULED, LK_F32},
};

START_TEST(entries_become_events)
{
    size_t enqueued = 0, timed = 0;
    struct lk_events e;

    must(files[_i].read(files[_i].path, NULL, &e));
    ck_assert_uint_eq(e.source.n_read, files[_i].entries);
    ck_assert_uint_eq(e.source.n_skipped, 0);
    ck_assert_int_eq(e.source.world_size, 4);
    ck_assert_str_eq(e.source.backend, "nccl");
    ck_assert(e.source.lost && !e.source.cut);
    for (size_t i = 0; i < e.n_events; i++) {
        const struct lk_import_event *x = &e.events[i];
        const struct lk_event_detail *c = &e.details[x->detail - 1];

        if (x->kind == LK_EVENT_COLLECTIVE) {
            ck_assert_int_eq(x->end_ns - x->start_ns, 1500000);
            timed++;
            continue;
        }
        ck_assert_int_eq(x->kind, LK_EVENT_ENQUEUE);
        ck_assert_str_eq(lk_events_text(&e, c->function), entries[enqueued].function);
        ck_assert_str_eq(lk_events_text(&e, c->group), "default_pg");
        ck_assert_uint_eq(c->elements, entries[enqueued].elements);
        ck_assert_uint_eq(c->sequence, entries[enqueued].sequence);
        ck_assert_int_eq(c->state, entries[enqueued].state);
        ck_assert_int_eq(c->dtype_known, c->elements > 0);
        ck_assert_int_eq(c->dtype, entries[enqueued].dtype);
        enqueued++;
    }
    ck_assert_uint_eq(enqueued, files[_i].entries);
    ck_assert_uint_eq(timed, files[_i].timed);
    ck_assert_uint_eq(e.n_groups, 2);
    ck_assert_str_eq(lk_events_text(&e, e.groups[1].name), "1 of ranks 0-1");
    ck_assert_int_eq(e.ranks[e.groups[1].first + 1], 1);
    lk_events_fini(&e);
}
END_TEST

/* An entry of JSON with these members beside its name. */
#define ENTRY(members) "{\"profiling_name\":\"nccl:all_reduce\"," members "}"
#define DUMP(entries)  "{\"entries\":[" entries "],\"version\":\"2.4\"}"

static const struct {
    const char *text;
    size_t events;
    uint64_t skipped;
    bool cut;
} texts[] = {
    {DUMP(ENTRY("\"time_created_ns\":7")), 1, 0, false},
    {DUMP(ENTRY("\"time_created_ns\":7,\"duration_ms\":1e-3")), 2, 0, false},
    {DUMP(ENTRY("\"time_created_ns\":7,\"duration_ms\":null")), 1, 0, false},
    {DUMP(ENTRY("\"time_created_ns\":7,\"duration_ms\":-1")), 0, 1, false},
    {DUMP(ENTRY("\"time_created_ns\":7,\"duration_ms\":NaN")), 0, 1, false},
    {DUMP(ENTRY("\"time_created_ns\":NaN")), 0, 1, false},
    {DUMP(ENTRY("\"time_created_ns\":9223372036854775807")), 0, 1, false},
    {DUMP(ENTRY("\"state\":\"completed\"")), 0, 1, false},
    {DUMP("{\"time_created_ns\":7}"), 0, 1, false},
    {DUMP("[1,{\"a\":2}],3,{}," ENTRY("\"time_created_ns\":7")), 1, 1, false},
    {DUMP(ENTRY("\"time_created_ns\":7,\"process_group\":[\"\xff\xfe\",\"\xc0\"],"
                "\"input_sizes\":[[-3,9],[]],\"input_dtypes\":[7],\"state\":{}")),
     1, 0, false},
    {"{\"entries\":[" ENTRY("\"time_created_ns\":7") ",{\"profiling_name\":\"nc", 1, 0, true},
    {"{\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"d\",\"ranks\":\"[0, 99999999999, x\"},"
     "\"1\":[2],\"3\":4},\"entries\":[]}",
     0, 0, false},
};

START_TEST(entries_that_make_no_sense)
{
    char *path = scratch_put("rank0.json", texts[_i].text, strlen(texts[_i].text));
    struct lk_events e;

    must(lk_flight_json_read(path, NULL, &e));
    ck_assert_uint_eq(e.n_events, texts[_i].events);
    ck_assert_uint_eq(e.source.n_skipped, texts[_i].skipped);
    ck_assert_int_eq(e.source.cut, texts[_i].cut);
    lk_events_fini(&e);
    free(path);
}
END_TEST

static const struct {
    const char *text, *says;
} refused[] = {
    {"[]", "is no object with entries"},
    {"{\"entries\":7}", "entries is no array"},
    {"{\"pg_config\":[]}", "pg_config is no object"},
};

START_TEST(no_dumps)
{
    char *path = scratch_put("x.json", refused[_i].text, strlen(refused[_i].text));
    struct lk_events e;

    ck_assert_int_eq(lk_flight_json_read(path, NULL, &e), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), refused[_i].says) != NULL, "%s", lk_error_text());
    lk_events_fini(&e);
    free(path);
}
END_TEST

START_TEST(a_pickle_of_something_else)
{
    char *path = scratch_put("p", "\x80\x02}.", 4);
    struct lk_events e;

    ck_assert_int_eq(lk_flight_pickle_read(path, NULL, &e), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no Flight Recorder dump with entries"));
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* The description of a group without a name. */
START_TEST(a_group_without_a_name)
{
    static const char text[] = "\x80\x02}(U\x07"
                               "entries]U\x09pg_config}U\x01g}(U\x05"
                               "ranksU\x03[0]U\x04"
                               "descU\x09undefinedusu.";
    char *path = scratch_put("p", text, sizeof text - 1);
    struct lk_events e;

    must(lk_flight_pickle_read(path, NULL, &e));
    ck_assert_uint_eq(e.n_groups, 1);
    ck_assert_str_eq(lk_events_text(&e, e.groups[0].name), " of ranks 0");
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* 2^16 times the same entry, whose sizes have 2^16 times the same tensor. */
START_TEST(an_entry_many_times)
{
    enum { TIMES = 1 << 16 };
    static const char head[] = "\x80\x02}(X\x07\x00\x00\x00"
                               "entries](}(X\x0b\x00\x00\x00input_sizes](](K\x01"
                               "eq";
    char *bytes = malloc(sizeof head + 8 + 4 * (size_t)TIMES), *path;
    size_t n = sizeof head; /* the NUL is the tensor's place in the memo */
    struct lk_events e;

    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, head, sizeof head);
    for (size_t i = 0; i < TIMES; i++, n += 2)
        memcpy(bytes + n, "h", 2);
    memcpy(bytes + n, "euq\x01", 4);
    n += 4;
    for (size_t i = 0; i < TIMES; i++, n += 2)
        memcpy(bytes + n, "h\x01", 2);
    memcpy(bytes + n, "eu.", 3);
    path = scratch_put("p", bytes, n + 3);
    ck_assert_int_eq(lk_flight_pickle_read(path, NULL, &e), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "in each other too often"));
    lk_events_fini(&e);
    free(bytes);
    free(path);
}
END_TEST

/* A dump that was cut off anywhere is read up to there. */
START_TEST(cut_off_anywhere)
{
    size_t size, last = 0;
    char *whole = NULL;

    must(lk_file_read(files[_i].path, &whole, &size));
    for (size_t n = 64; n < size; n += 61) {
        char *path = scratch_put("cut", whole, n);
        struct lk_events e;

        must(files[_i].read(path, NULL, &e));
        ck_assert(e.source.cut);
        ck_assert_uint_ge(e.n_events, last);
        last = e.n_events;
        lk_events_fini(&e);
        free(path);
    }
    ck_assert_uint_gt(last, 8);
    free(whole);
}
END_TEST

SUITE(flight_recorder, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, entries_become_events, 0, LK_COUNT(files));
    tcase_add_loop_test(t, entries_that_make_no_sense, 0, LK_COUNT(texts));
    tcase_add_loop_test(t, no_dumps, 0, LK_COUNT(refused));
    tcase_add_test(t, a_pickle_of_something_else);
    tcase_add_test(t, a_group_without_a_name);
    tcase_add_test(t, an_entry_many_times);
    tcase_add_loop_test(t, cut_off_anywhere, 0, LK_COUNT(files));
}
