/* NCCL Inspector's output: one point a size, of the shortest times of its collectives. */
#include "profiler/import/nccl_inspector.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define LINE(rank, sn, coll, bytes, us)                                                            \
    "{\"header\": {\"id\": \"0x1f\", \"rank\": " #rank ", \"n_ranks\": 8, \"nnodes\": 2}, "        \
    "\"metadata\": {\"inspector_output_format_version\": \"v4.0\", \"pid\": 7}, \"coll_perf\": "   \
    "{\"coll\": \"" coll "\", \"coll_sn\": " #sn ", \"coll_msg_size_bytes\": " #bytes              \
    ", \"coll_exec_time_us\": " #us                                                                \
    ", \"event_trace_ts\": {\"kernel_events\": [{\"channel_id\": 0, "                              \
    "\"rank\": 99}]}}}\n"

/* Rank 1 waits for rank 0 in collective 1, and rank 0 for rank 1 in the others. */
static const char rank0[] =
    LINE(0, 1, "AllReduce", 1048576, 100.5) LINE(0, 2, "AllReduce", 1048576, 900)
        LINE(0, 3, "AllReduce", 1048576, 800) LINE(0, 4, "AllGather", 4096, 7)
            LINE(0, 5, "Broadcast", 8192, 20) LINE(0, 6, "AllReduce", 64, NaN);
static const char rank1[] =
    LINE(1, 1, "AllReduce", 1048576, 700) LINE(1, 2, "AllReduce", 1048576, 110)
        LINE(1, 3, "AllReduce", 1048576, 120.25) "{\"header\": {\"id";

START_TEST(shortest_times_are_points)
{
    char *paths[] = {scratch_put("a.json", rank0, sizeof rank0 - 1),
                     scratch_put("b.json.gz", rank1, sizeof rank1 - 1)};
    const char *const files[] = {paths[0], paths[1]};
    struct lk_bench b = {0};

    must(lk_nccl_inspector_read(files, 2, &b));
    ck_assert_uint_eq(b.n_points, 2);
    ck_assert_uint_eq(b.n_other, 1);
    ck_assert_int_eq(b.points[0].coll, LK_ALL_REDUCE);
    ck_assert_uint_eq(b.points[0].bytes, 1048576);
    ck_assert_int_eq(b.points[0].ranks, 8);
    ck_assert_int_eq(b.points[0].nodes, 2);
    ck_assert_double_eq_tol(b.points[0].time_s.value, 110e-6, 1e-12);
    ck_assert_ptr_nonnull(
        strstr(b.points[0].time_s.source, "3 collectives, the shortest of 2.0 of 8"));
    ck_assert_int_eq(b.points[1].coll, LK_BROADCAST);
    lk_bench_fini(&b);
    free(paths[0]);
    free(paths[1]);
}
END_TEST

START_TEST(files_without_any)
{
    static const char *const texts[] = {
        "", "{}", "[1, 2]", "{\"coll_perf\": {\"coll\": \"AllReduce\"}}", "{\"coll_perf\": [[[["};
    char *path = scratch_put("x.json", texts[_i], strlen(texts[_i]));
    const char *const files[] = {path};
    struct lk_bench b = {0};

    ck_assert_int_eq(lk_nccl_inspector_read(files, 1, &b), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "x.json: no all-reduce"));
    lk_bench_fini(&b);
    free(path);
}
END_TEST

SUITE(nccl_inspector, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, shortest_times_are_points);
    tcase_add_loop_test(t, files_without_any, 0, 5);
}
