/* Horovod's timelines: fused tensors become one collective, requests become gradients and waits. */
#include "profiler/import/horovod.h"

#include "base/array.h"
#include "profiler/import/lateness.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* tests/data/make_horovod.py wrote them. */
#define KILLED       "tests/fuzz/corpus/horovod/killed.json"
#define HIERARCHICAL "tests/fuzz/corpus/horovod/hierarchical.json"

#define BASE_NS 1700000000000000000

/* Return the i-th event of a kind, by start; the test fails without it. */
static const struct lk_event *find(const struct lk_events *e, enum lk_event_kind kind, size_t i)
{
    for (size_t k = 0; k < e->n_events; k++)
        if (e->events[k].kind == kind && !i--)
            return &e->events[k];
    ck_abort_msg("no event %zu of kind %d", i, kind);
}

static void assert_event(const struct lk_events *e, enum lk_event_kind kind, size_t i,
                         int64_t start_us, int64_t end_us, uint64_t elements, enum lk_dtype dtype)
{
    const struct lk_event *x = find(e, kind, i);
    const struct lk_event_collective *c = &e->details[x->detail - 1];

    ck_assert_int_eq(x->start_ns - BASE_NS, 1000 * start_us);
    ck_assert_int_eq(x->end_ns - BASE_NS, 1000 * end_us);
    ck_assert_uint_eq(c->elements, elements);
    ck_assert(c->dtype_known);
    ck_assert_int_eq(c->dtype, dtype);
}

static const char *function(const struct lk_events *e, size_t i)
{
    const struct lk_event *x = find(e, LK_EVENT_COLLECTIVE, i);

    return lk_events_text(e, e->details[x->detail - 1].function);
}

static size_t count(const struct lk_events *e, enum lk_event_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_events; i++)
        n += e->events[i].kind == kind;
    return n;
}

START_TEST(fused_tensors_are_one_collective)
{
    struct lk_events e;

    must(lk_horovod_read(KILLED, NULL, &e));
    lk_events_sort(&e);
    ck_assert(e.cut);
    ck_assert_uint_eq(e.n_skipped, 0);
    ck_assert_int_eq(e.rank, 0);
    ck_assert_int_eq(e.world_size, 4);
    ck_assert_str_eq(e.backend, "mpi");
    ck_assert_str_eq(function(&e, 0), "broadcast");
    ck_assert_str_eq(function(&e, 1), "all_reduce");
    assert_event(&e, LK_EVENT_COLLECTIVE, 0, 210, 900, 2, LK_I64);
    assert_event(&e, LK_EVENT_COLLECTIVE, 1, 156200, 164201, 512512, LK_F32);
    assert_event(&e, LK_EVENT_COLLECTIVE, 2, 176200, 182201, 9409, LK_F32);
    assert_event(&e, LK_EVENT_COLLECTIVE, 5, 356200, 364201, 512512, LK_F32);
    /* The one that was cut off is left out. */
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), 12);
    /* Rank 0 had asked for its last tensor. */
    ck_assert_uint_eq(count(&e, LK_EVENT_ENQUEUE), 12);
    assert_event(&e, LK_EVENT_ENQUEUE, 1, 150000, 150000, 512512, LK_F32);
    ck_assert_uint_eq(count(&e, LK_EVENT_GRADIENT), 22);
    assert_event(&e, LK_EVENT_GRADIENT, 0, 140000, 140000, 512000, LK_F32);
    assert_event(&e, LK_EVENT_GRADIENT, 3, 170000, 170000, 1, LK_F32);
    lk_events_fini(&e);
}
END_TEST

START_TEST(last_ranks_are_those_a_cycle_behind)
{
    struct lk_table *t = NULL;
    struct lk_events e;

    must(lk_horovod_read(KILLED, NULL, &e));
    ck_assert_uint_eq(e.lateness.n_told, 9);
    ck_assert_uint_eq(e.lateness.n_untold, 16);
    must(lk_lateness_table(&e.lateness, &t));
    ck_assert_uint_eq(t->n_rows, 1);
    ck_assert_double_eq(lk_table_cell(t, 0, "rank")->number, 2);
    ck_assert_double_eq(lk_table_cell(t, 0, "times")->number, 8);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "waited_s")->number, 8 * 4.991e-3, 1e-9);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "longest_s")->number, 4.991e-3, 1e-9);
    lk_table_destroy(t);
    lk_events_fini(&e);
}
END_TEST

START_TEST(waits_at_a_time_count_once)
{
    static const struct lk_late late[] = {{30, 40, 3}, {0, 10, 3}, {5, 12, 3},
                                          {6, 8, 3},   {1, 9, 1},  {1, 2, 0}};
    struct lk_lateness l = {.least_ns = 2};
    struct lk_table *t = NULL;

    must(lk_lateness_table(&l, &t));
    ck_assert_ptr_null(t);
    for (size_t i = 0; i < LK_COUNT(late); i++)
        must(lk_lateness_add(&l, &late[i]));
    must(lk_lateness_table(&l, &t));
    ck_assert_uint_eq(t->n_rows, 2);
    ck_assert_double_eq(lk_table_cell(t, 1, "rank")->number, 3);
    ck_assert_double_eq(lk_table_cell(t, 1, "times")->number, 4);
    ck_assert_double_eq_tol(lk_table_cell(t, 1, "waited_s")->number, 22e-9, 1e-15);
    lk_table_destroy(t);
    lk_lateness_fini(&l);
}
END_TEST

START_TEST(transfers_of_a_hierarchy_are_one_collective)
{
    struct lk_events e;

    must(lk_horovod_read(HIERARCHICAL, NULL, &e));
    lk_events_sort(&e);
    ck_assert(!e.cut);
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), 1);
    ck_assert_str_eq(function(&e, 0), "all_reduce");
    ck_assert_str_eq(e.backend, "nccl");
    assert_event(&e, LK_EVENT_COLLECTIVE, 0, 4120, 7600, 512000, LK_F16);
    assert_event(&e, LK_EVENT_ENQUEUE, 0, 4000, 4000, 512000, LK_F16);
    ck_assert_uint_eq(e.lateness.n, 1);
    ck_assert_int_eq(e.lateness.at[0].rank, 0);
    lk_events_fini(&e);
}
END_TEST

#define E(pid, ts)       "{\"ph\":\"E\",\"ts\":" ts ",\"pid\":" pid "},"
#define B(pid, ts, name) "{\"ph\":\"B\",\"ts\":" ts ",\"pid\":" pid ",\"name\":\"" name "\"},"
#define X(pid, ts, name) "{\"ph\":\"X\",\"ts\":" ts ",\"pid\":" pid ",\"name\":\"" name "\"},"
#define DONE(pid, ts, dtype)                                                                       \
    "{\"ph\":\"E\",\"ts\":" ts ",\"pid\":" pid ",\"args\":{\"dtype\":\"" dtype                     \
    "\",\"shape\":\"[8]\"}},"
#define MANY "{\"ph\":\"M\"},{\"ph\":\"M\"},{\"ph\":\"M\"},"

/* Lines that make little sense are skipped, and counted. */
static const struct {
    const char *text;
    size_t collectives, gradients;
    uint64_t skipped;
    bool dtype_known;
} rows[] = {
    {"[" MANY B("1", "1", "ALLREDUCE") B("1", "2", "MPI_ALLREDUCE") E("1", "3")
         DONE("1", "4", "float32") "]",
     1, 0, 0, true},
    {"[" MANY B("1", "1", "ALLREDUCE") B("1", "2", "MPI_ALLREDUCE") E("1", "3") E("1", "4") "]", 1,
     0, 0, false},
    {"[" MANY B("1", "1", "ALLREDUCE") B("1", "2", "MPI_ALLREDUCE") E("1", "3")
         DONE("1", "4", "int8") "]",
     1, 0, 0, false},
    /* Time goes backwards. */
    {"[" MANY B("1", "4", "ALLREDUCE") B("1", "3", "MPI_ALLREDUCE") E("1", "2")
         DONE("1", "1", "float32") "]",
     0, 0, 1, false},
    /* Tensors of two types, fused. */
    {"[" MANY B("1", "1", "ALLREDUCE") B("2", "1", "ALLREDUCE") B("1", "2", "GLOO_ALLREDUCE")
         B("2", "2", "GLOO_ALLREDUCE") E("2", "3") E("1", "3") DONE("1", "4", "float32")
             DONE("2", "4", "float64") "]",
     1, 0, 0, false},
    /* One after the other, and an all-gather meanwhile. */
    {"[" MANY B("1", "1", "ALLREDUCE") B("2", "1", "ALLREDUCE") B("3", "1", "ALLGATHER")
         B("1", "2", "GLOO_ALLREDUCE") B("3", "2", "GLOO_ALLGATHER") E("1", "3")
             B("2", "4", "GLOO_ALLREDUCE") E("2", "5") E("3", "6") DONE("1", "7", "float32")
                 DONE("2", "7", "float32") DONE("3", "7", "float32") "]",
     3, 0, 0, true},
    {"[" MANY B("1", "1", "BARRIER") B("1", "2", "NCCL_X") E("1", "3") E("1", "4") "]", 0, 0, 0,
     false},
    {"[" MANY E("1", "1") X("1", "2", "0") B("1", "3", "NEGOTIATE_ALLREDUCE") X("1", "4", "-1")
         X("1", "4", "99999999999") X("1", "4", "a") B("1", "5", "ALLREDUCE") "]",
     0, 0, 6, false},
    {"[" MANY B("9999999", "1", "ALLREDUCE") B("-1", "1", "ALLREDUCE") B("1", "NaN", "ALLREDUCE")
         B("1", "-1", "ALLREDUCE") B("1", "9e18", "ALLREDUCE") B("\"x\"", "1", "ALLREDUCE") "]",
     0, 0, 6, false},
    {"[1, [2, {}], {}, " B("1", "1", "\xff\xfe"), 0, 0, 0, false},
    {"[", 0, 0, 0, false},
};

START_TEST(lines_that_make_little_sense)
{
    char *path = scratch_put("t.json", rows[_i].text, strlen(rows[_i].text));
    struct lk_events e;

    must(lk_horovod_read(path, NULL, &e));
    ck_assert_uint_eq(count(&e, LK_EVENT_COLLECTIVE), rows[_i].collectives);
    ck_assert_uint_eq(count(&e, LK_EVENT_GRADIENT), rows[_i].gradients);
    ck_assert_uint_eq(e.n_skipped, rows[_i].skipped);
    if (rows[_i].collectives)
        ck_assert_int_eq(e.details[find(&e, LK_EVENT_COLLECTIVE, 0)->detail - 1].dtype_known,
                         rows[_i].dtype_known);
    lk_events_fini(&e);
    free(path);
}
END_TEST

START_TEST(no_array)
{
    char *path = scratch_put("t.json", "{}", 2);
    struct lk_events e;

    ck_assert_int_eq(lk_horovod_read(path, NULL, &e), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "is no array of events"));
    lk_events_fini(&e);
    free(path);
}
END_TEST

SUITE(horovod, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, fused_tensors_are_one_collective);
    tcase_add_test(t, last_ranks_are_those_a_cycle_behind);
    tcase_add_test(t, waits_at_a_time_count_once);
    tcase_add_test(t, transfers_of_a_hierarchy_are_one_collective);
    tcase_add_loop_test(t, lines_that_make_little_sense, 0, LK_COUNT(rows));
    tcase_add_test(t, no_array);
}
