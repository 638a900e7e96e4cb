/* NCCL Inspector's output, in each form: points of the shortest times, and what is missing.
 * Divisions: points, what is left out, what is refused, damage. */
#include "profiler/import/import_files.h"
#include "profiler/import/nccl_inspector.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/inspector_log.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static struct lk_bench b;
static struct lk_inspector what;

static void set_up(void)
{
    scratch_set_up();
    b = (struct lk_bench){0};
}

static void tear_down(void)
{
    lk_bench_fini(&b);
    scratch_tear_down();
}

/* Read the folder's files. */
static enum lk_status read_all(void)
{
    const char *const folder[] = {scratch_dir};
    enum lk_status st;
    char **files = NULL;
    size_t n = 0;

    must(lk_point_files(folder, 1, &files, &n));
    lk_bench_fini(&b);
    st = lk_nccl_inspector_read((const char *const *)files, n, &b, &what);
    lk_names_free(files, n);
    return st;
}

/* ---- Points ---- */

enum { RANKS = 8 };

/* Rank 1 waits for rank 0 in number 1, and rank 0 for rank 1 in the others. */
static const struct inspector_coll of_rank[2][7] = {{{"AllReduce", 0, MIB, 100, NULL},
                                                     {"AllReduce", 1, MIB, 900, NULL},
                                                     {"AllReduce", 2, MIB, 800, NULL},
                                                     {"AllGather", 0, MIB, 57, NULL},
                                                     {"ReduceScatter", 0, MIB, 58, NULL},
                                                     {"Broadcast", 0, 8192, 20, NULL},
                                                     {"AlltoAll", 0, MIB, 7, NULL}},
                                                    {{"AllReduce", 0, MIB, 700, NULL},
                                                     {"AllReduce", 1, MIB, 110, NULL},
                                                     {"AllReduce", 2, MIB, 120, NULL},
                                                     {"AllGather", 0, MIB, 60, NULL},
                                                     {"ReduceScatter", 0, MIB, 50, NULL},
                                                     {"Broadcast", 0, 8192, 25, NULL},
                                                     {"AlltoAll", 0, MIB, 7, NULL}}};

static void put_job(enum inspector_form form, int is_verbose)
{
    for (int rank = 0; rank < 2; rank++) {
        const struct inspector_rank r = {
            .form = form, .rank = rank, .ranks = RANKS, .nodes = 2, .is_verbose = is_verbose};

        inspector_put(scratch_dir, &r, of_rank[rank], 7);
    }
}

static void is_point(size_t i, enum lk_coll coll, uint64_t bytes, double seconds)
{
    const struct lk_cluster_point *p = &b.points[i];

    ck_assert_int_eq(p->coll, coll);
    ck_assert_uint_eq(p->bytes, bytes);
    ck_assert_int_eq(p->ranks, RANKS);
    ck_assert_int_eq(p->nodes, 2);
    ck_assert_int_eq(p->algo, LK_ALGO_AUTO);
    ck_assert_double_eq_tol(p->time_s.value, seconds, 1e-12);
}

/* All forms say the same: of each collective the shortest time, of each size the median; sizes of
 * all ranks together, as nccl-tests has them. */
START_TEST(each_form_gives_the_same_points)
{
    const int form = _i / 2;

    put_job((enum inspector_form)form, _i % 2);
    must(read_all());
    ck_assert_uint_eq(b.n_points, 4);
    is_point(0, LK_ALL_REDUCE, MIB, 110e-6);
    is_point(1, LK_REDUCE_SCATTER, RANKS * MIB, 50e-6);
    is_point(2, LK_ALL_GATHER, RANKS * MIB, 57e-6);
    is_point(3, LK_BROADCAST, 8192, 20e-6);
    ck_assert_uint_eq(b.points[0].time_s.n, 3);
    ck_assert_ptr_nonnull(
        strstr(b.points[0].time_s.source, "3 collectives, the shortest of 2.0 of 8"));
    ck_assert_uint_eq(b.n_other, 2);
    ck_assert_int_eq(what.newest, form < INSPECTOR_V41 ? 0 : form - INSPECTOR_V40);
    ck_assert_int_eq(what.oldest, what.newest);
    ck_assert_int_eq(what.rings, form >= INSPECTOR_V40);
    ck_assert_int_eq(what.unknown, 0);
    ck_assert_uint_eq(what.n_recorded, 12);
    ck_assert_uint_eq(what.n_missing + what.n_lost + what.n_by_host + what.n_stray, 0);
    ck_assert_uint_eq(what.n_cut + what.n_empty, 0);
    ck_assert_double_eq_tol(what.seen, 2. / RANKS, 1e-12);
}
END_TEST

/* Several communicators write into one file, dump by dump: numbers are those of each. */
START_TEST(dumps_have_communicators_of_their_own)
{
    const struct inspector_coll c[] = {{"AllReduce", 0, MIB, 100, NULL},
                                       {"AllReduce", 1, MIB, 300, NULL}};
    struct inspector_rank r = {.form = (enum inspector_form)_i, .ranks = 4, .nodes = 1};
    char *path = scratch_path(scratch_dir, "a.log");
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    r.id = "0x1";
    inspector_dump(f, &r, c, 2);
    r.id = "0x2";
    inspector_dump(f, &r, c, 1);
    r.id = "0x1";
    inspector_dump(f, &r, NULL, 0);
    ck_assert_int_eq(fclose(f), 0);
    must(read_all());
    ck_assert_uint_eq(b.n_points, 1);
    ck_assert_double_eq_tol(b.points[0].time_s.value, 100e-6, 1e-12); /* of 100, 100, 300 */
    ck_assert_uint_eq(what.n_recorded, 3);
    ck_assert_uint_eq(what.n_missing, 0);
    ck_assert_uint_eq(what.n_stray, 0);
    free(path);
}
END_TEST

/* ---- What is left out ---- */

/* NCCL numbers a communicator's collectives of a kind from 0: gaps are what Inspector left out. */
START_TEST(what_is_missing_is_counted)
{
    const struct inspector_coll c[] = {{"AllReduce", 3, MIB, 100, NULL},
                                       {"AllReduce", 4, MIB, 100, NULL},
                                       {"AllReduce", 9, MIB, 100, NULL},
                                       {"Broadcast", 1, MIB, 100, NULL}};
    const struct inspector_rank r = {
        .form = (enum inspector_form)_i, .ranks = 2, .nodes = 1, .lost = 5};

    inspector_put(scratch_dir, &r, c, 4);
    must(read_all());
    ck_assert_uint_eq(what.n_recorded, 4);
    ck_assert_uint_eq(what.n_missing, 7 + 1);
    ck_assert_uint_eq(what.n_lost, _i >= INSPECTOR_V41 ? 5 : 0);
}
END_TEST

/* A time that the host's clock took is none of a kernel; one of 0 us is none at all. */
START_TEST(times_of_the_host_are_left_out)
{
    const struct inspector_coll c[] = {{"AllReduce", 0, MIB, 10, "kernel_cpu"},
                                       {"AllReduce", 1, MIB, 10, "collective_cpu"},
                                       {"AllReduce", 2, MIB, 10, "unknown"},
                                       {"AllReduce", 3, MIB, 0, NULL},
                                       {"AllReduce", 4, MIB, 100, NULL}};
    struct inspector_rank r = {.form = INSPECTOR_V40, .ranks = 2, .nodes = 1};

    inspector_put(scratch_dir, &r, c, 5);
    must(read_all());
    ck_assert_uint_eq(b.n_points, 1);
    ck_assert_uint_eq(b.points[0].time_s.n, 1);
    ck_assert_double_eq_tol(b.points[0].time_s.value, 100e-6, 1e-12);
    ck_assert_uint_eq(what.n_by_host, 3);
    ck_assert_uint_eq(what.n_recorded, 5);
    ck_assert_uint_eq(what.n_missing, 0);

    inspector_put(scratch_dir, &r, c, 3);
    ck_assert_int_eq(read_all(), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "the host's clock timed all 3 collectives"));
}
END_TEST

/* ---- What is refused ---- */

static const struct {
    const char *version;
    enum lk_status status;
    bool unknown;
} versions[] = {
    {"v4.4", LK_OK, false},     {"v4.5", LK_OK, true},      {"v4.12", LK_OK, true},
    {"v5.0", LK_EPARSE, false}, {"v5.1", LK_EPARSE, false}, {"v3.9", LK_EPARSE, false},
    {"4.0", LK_EPARSE, false},  {"v4.", LK_EPARSE, false},  {"v4.x", LK_EPARSE, false},
};

START_TEST(other_versions_are_refused_or_flagged)
{
    const struct inspector_coll c = {"AllReduce", 0, MIB, 100, NULL};
    const struct inspector_rank r = {
        .form = INSPECTOR_V43, .version = versions[_i].version, .ranks = 2, .nodes = 1};

    inspector_put(scratch_dir, &r, &c, 1);
    ck_assert_int_eq(read_all(), versions[_i].status);
    ck_assert_int_eq(what.unknown, versions[_i].unknown);
    if (versions[_i].status != LK_OK)
        ck_assert_msg(strstr(lk_error_text(), "v4.0 to v4.4 are read") != NULL, "%s",
                      lk_error_text());
}
END_TEST

/* Rates that are not those of size, time and ranks: something is not what it is taken for. */
static const struct {
    double rates, bus;
    const char *says;
} contradictions[] = {
    {1.02, 1, "record 2: coll_algobw_gbs is 10.6955, but 1048576 bytes in 100 us are 10.4858 GB/s"},
    {1000, 1, "record 2: coll_algobw_gbs is 10485.8"},
    {1, 1.75, "record 2: coll_busbw_gbs is 18.3501, but all_reduce on 2 ranks has 1 times 10.4858"},
};

START_TEST(rates_that_contradict_are_named)
{
    const struct inspector_coll c = {"AllReduce", 0, MIB, 100, NULL};
    struct inspector_rank r = {.form = INSPECTOR_V43, .ranks = 2, .nodes = 1};

    r.rates = contradictions[_i].rates;
    r.bus = contradictions[_i].bus;
    inspector_put(scratch_dir, &r, &c, 1);
    ck_assert_int_eq(read_all(), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), contradictions[_i].says) != NULL, "%s", lk_error_text());
    r.rates = 1.005; /* a time that was cut to a microsecond */
    r.bus = 1;
    inspector_put(scratch_dir, &r, &c, 1);
    must(read_all());
}
END_TEST

/* ---- Damage ---- */

START_TEST(files_without_any)
{
    static const char *const texts[] = {
        "", "{}", "[1, 2]", "{\"coll_perf\": {\"coll\": \"AllReduce\"}}", "{\"coll_perf\": [[[["};
    char *path = scratch_put("x.json", texts[_i], strlen(texts[_i]));
    const char *const files[] = {path};

    ck_assert_int_eq(lk_nccl_inspector_read(files, 1, &b, &what), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "x.json: no all-reduce"));
    free(path);
}
END_TEST

/* Cut off anywhere: what is left has the times that it had, or there is nothing left. */
START_TEST(files_may_end_anywhere)
{
    char *text, *path = scratch_path(scratch_dir, "cut.json");
    const char *const files[] = {path};
    size_t whole;

    put_job((enum inspector_form)_i, 1);
    text = scratch_read(scratch_dir, "node-1-pid1000.log");
    whole = strlen(text);
    for (size_t n = 0; n < whole; n += 31) {
        free(scratch_put("cut.json", text, n));
        lk_bench_fini(&b);
        if (lk_nccl_inspector_read(files, 1, &b, &what) != LK_OK)
            continue;
        ck_assert_uint_gt(b.n_points, 0);
        for (size_t i = 0; i < b.n_points; i++)
            ck_assert_msg(b.points[i].time_s.value >= 20e-6 && b.points[i].time_s.value <= 900e-6,
                          "%g", b.points[i].time_s.value);
        ck_assert_uint_eq(what.n_cut, text[n - 1] != '\n' && text[n] != '\n');
    }
    free(path);
    free(text);
}
END_TEST

/* Without its dump_stats an object of 4.3 is nobody's: not that of the communicator before it. */
START_TEST(objects_without_a_communicator_are_left_out)
{
    const struct inspector_coll c[] = {{"AllReduce", 0, MIB, 100, NULL},
                                       {"AllReduce", 1, MIB, 100, NULL}};
    const struct inspector_rank r = {.form = INSPECTOR_V43, .ranks = 2, .nodes = 1};
    char *text, *second, *end;

    inspector_put(scratch_dir, &r, c, 2);
    text = scratch_read(scratch_dir, "node-1-pid1000.log");
    end = strchr(text, '\n') + 1;
    ck_assert_int_eq(asprintf(&second, "%s%s", text, end),
                     (int)(2 * strlen(text) - (size_t)(end - text)));
    free(scratch_put("node-1-pid1000.log", second, strlen(second)));
    must(read_all());
    ck_assert_uint_eq(b.points[0].time_s.n, 2);
    ck_assert_uint_eq(what.n_stray, 2);
    ck_assert_uint_eq(what.n_recorded, 2);
    free(second);
    free(text);
}
END_TEST

START_TEST(folders_without_any)
{
    const char *const folder[] = {scratch_dir};
    char **files = NULL;
    size_t n = 0;

    free(scratch_put("README", "text", 4));
    ck_assert_int_eq(lk_point_files(folder, 1, &files, &n), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no file of NCCL Inspector"));
    put_job(INSPECTOR_V44, 0);
    must(lk_point_files(folder, 1, &files, &n));
    ck_assert_uint_eq(n, 2);
    lk_names_free(files, n);
}
END_TEST

SUITE(nccl_inspector, t)
{
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, each_form_gives_the_same_points, 0, 2 * INSPECTOR_FORMS);
    tcase_add_loop_test(t, dumps_have_communicators_of_their_own, 0, INSPECTOR_FORMS);
    tcase_add_loop_test(t, what_is_missing_is_counted, 0, INSPECTOR_FORMS);
    tcase_add_test(t, times_of_the_host_are_left_out);
    tcase_add_loop_test(t, other_versions_are_refused_or_flagged, 0, (int)LK_COUNT(versions));
    tcase_add_loop_test(t, rates_that_contradict_are_named, 0, (int)LK_COUNT(contradictions));
    tcase_add_loop_test(t, files_without_any, 0, 5);
    tcase_add_loop_test(t, files_may_end_anywhere, 0, INSPECTOR_FORMS);
    tcase_add_test(t, objects_without_a_communicator_are_left_out);
    tcase_add_test(t, folders_without_any);
}
