/* Logs of the OSU micro-benchmarks and iperf3's JSON: what is in them, as it was computed by hand.
 */
#include "profiler/import/bench_log.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static enum lk_status read(const char *text, int ranks, int nodes, struct lk_bench *out)
{
    const struct lk_bench_hints hints = {.ranks = ranks, .nodes = nodes};
    char *path = scratch_put("log", text, strlen(text));
    enum lk_status st = lk_bench_read_log(path, &hints, out);

    free(path);
    return st;
}

static const char ALLREDUCE[] =
    "# OSU MPI-CUDA Allreduce Latency Test v7.4\n"
    "# Datatype: MPI_CHAR.\n"
    "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)\n"
    "4                       5.10              5.00              5.30\n"
    "1048576               306.12            300.00            311.00\n";

START_TEST(osu)
{
    struct lk_bench b = {0};

    must(read(ALLREDUCE, 16, 2, &b));
    ck_assert_uint_eq(b.n_points, 2);
    ck_assert_int_eq(b.points[1].coll, LK_ALL_REDUCE);
    ck_assert_int_eq(b.points[1].ranks, 16);
    ck_assert_int_eq(b.points[1].nodes, 2);
    ck_assert_uint_eq(b.points[1].bytes, 1048576);
    ck_assert_double_eq_tol(b.points[1].time_s.value, 306.12e-6, 1e-12);
    ck_assert_ptr_nonnull(strstr(b.points[1].time_s.source, "log:5"));
    lk_bench_fini(&b);
}
END_TEST

/* Two tables in one log; of an all-gather all ranks' bytes count, of others the size as it is. */
START_TEST(osu_sizes)
{
    struct lk_bench b = {0};

    must(read("# OSU MPI Allgather Latency Test v5.9\n# Size       Avg Latency(us)\n1024  10.5\n"
              "\n# OSU MPI Broadcast Latency Test v5.9\n# Size       Avg Latency(us)\n1024  3.5\n"
              "# OSU MPI Reduce_scatter Latency Test v5.9\n# Size    Avg Latency(us)\n1024  7\n"
              "# OSU MPI All-to-All Personalized Exchange Latency Test v5.9\n# Size  Avg "
              "Latency(us)\n1024  7\n",
              8, 1, &b));
    ck_assert_uint_eq(b.n_points, 3);
    ck_assert_uint_eq(b.points[0].bytes, 8 * 1024);
    ck_assert_uint_eq(b.points[1].bytes, 1024);
    ck_assert_int_eq(b.points[1].coll, LK_BROADCAST);
    ck_assert_uint_eq(b.points[2].bytes, 1024);
    ck_assert_int_eq(b.points[2].coll, LK_REDUCE_SCATTER);
    ck_assert_uint_eq(b.n_other, 1);
    lk_bench_fini(&b);
}
END_TEST

static const struct {
    const char *text, *says;
    int ranks;
} bad[] = {
    {ALLREDUCE, "how many GPUs", 0},
    {"# OSU MPI Latency Test v5.9\n# Size  Latency (us)\n0 1.2\n", "no collective", 2},
    {"# OSU MPI Bandwidth Test v5.9\n# Size  Bandwidth (MB/s)\n1 1.2\n", "no collective", 2},
    {"# OSU MPI Non-Blocking Allreduce Latency Test v5.9\n4 5 6 7\n", "nonblocking", 2},
    {"# OSU MPI Allreduce Latency Test v5.9\n# Size Avg Latency(us)\n1024\n", "log:3: no size", 2},
    {"{\"start\": {}, \"error\": \"unable to connect\"}", "iperf3 failed: unable to connect", 0},
    {"{\"start\": {}, \"end\": {\"sum_received\": {\"bits_per_second\": 0}}, \"intervals\": []}",
     "above 0", 0},
};

START_TEST(refused)
{
    struct lk_bench b = {0};

    ck_assert_int_ne(read(bad[_i].text, bad[_i].ranks, 1, &b), LK_OK);
    ck_assert_msg(strstr(lk_error_text(), bad[_i].says) != NULL, "%s", lk_error_text());
    lk_bench_fini(&b);
}
END_TEST

START_TEST(iperf)
{
    struct lk_bench b = {0};

    must(read("{\"start\": {\"version\": \"iperf 3.16\"}, \"intervals\": [{}, {}, {}],\n"
              " \"end\": {\"sum_sent\": {\"bits_per_second\": 9.5e9},\n"
              "  \"sum_received\": {\"bits_per_second\": 9.4e9}}}",
              0, 0, &b));
    ck_assert_uint_eq(b.n_points, 0);
    ck_assert_double_eq_tol(b.link_Bps.value, 9.4e9 / 8, 1e-3);
    ck_assert_uint_eq(b.link_Bps.n, 3);
    lk_bench_fini(&b);
}
END_TEST

SUITE(bench_other, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_test(tests, osu);
    tcase_add_test(tests, osu_sizes);
    tcase_add_test(tests, iperf);
    tcase_add_loop_test(tests, refused, 0, sizeof bad / sizeof *bad);
}
