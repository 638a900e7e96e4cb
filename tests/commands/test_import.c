/* lockstep import: logs of nccl-tests in every form, users' tables, and errors in them. */
#include "base/array.h"
#include "facts/cluster.h"
#include "profiler/import/bench_log.h"
#include "tests/rigs/bad_file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* nccl-tests 2.13 to 2.17: four GPUs on two hosts. */
#define RANKS                                                                                      \
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"        \
    "# Using devices\n"                                                                            \
    "#  Rank  0 Group  0 Pid   1234 on     host-a device  0 [0x10] NVIDIA H100 80GB HBM3\n"        \
    "#  Rank  1 Group  0 Pid   1235 on     host-a device  1 [0x16] NVIDIA H100 80GB HBM3\n"        \
    "#  Rank  2 Group  0 Pid   1234 on     host-b device  0 [0x10] NVIDIA H100 80GB HBM3\n"        \
    "#  Rank  3 Group  0 Pid   1235 on     host-b device  1 [0x16] NVIDIA H100 80GB HBM3\n"        \
    "NCCL version 2.20.5+cuda12.4\n"
#define HEADER                                                                                     \
    "#       size    count    type  redop   root   time  algbw  busbw #wrong   time  algbw  busbw" \
    " #wrong\n"                                                                                    \
    "#        (B) (elements)                       (us) (GB/s) (GB/s)          (us) (GB/s)"        \
    " (GB/s)\n"
#define BODY                                                                                       \
    "           0         0   float    sum     -1   0.18   0.00   0.00      0   0.17   0.00   "    \
    "0.00"                                                                                         \
    " 0\n"                                                                                         \
    "        1024       256   float    sum     -1  20.00   0.05   0.08      0  21.00   0.05   "    \
    "0.07"                                                                                         \
    " 0\n"                                                                                         \
    "     1048576    262144   float    sum     -1  50.00  20.97  31.46      0  51.00  20.56  "     \
    "30.84"                                                                                        \
    " N/A\n"                                                                                       \
    "   268435456  67108864   float    sum     -1 2400.0 111.85 167.77      0 2410.0 111.38 "      \
    "167.08"                                                                                       \
    " 0\n"
#define FOOTER "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 81.2\n#\n"
#define LOG    RANKS HEADER BODY FOOTER

static const char json[] =
    "{\"version\":3,\"start_time\":\"2026-01-01 00:00:00\",\n"
    "\"args\":[\".\\/build\\/all_reduce_perf\",\"-J\",\"x.json\"],\"env\":[\"SECRET=x\"],\n"
    "\"nccl_version\":22809,\n"
    "\"config\":{\"nthreads\":1,\"ngpus\":2,\"devices\":[\n"
    "{\"rank\":0,\"group\":0,\"pid\":1,\"hostname\":\"host-a\",\"device\":0,\"device_hex\":\"10\","
    "\n"
    "\"device_info\":\"NVIDIA H100 80GB HBM3\"},\n"
    "{\"rank\":2,\"group\":0,\"pid\":2,\"hostname\":\"host-b\",\"device\":0,\"device_hex\":\"10\","
    "\n"
    "\"device_info\":\"NVIDIA H100 80GB HBM3\"}]},\n"
    "\"results\":[\n"
    "{\"size\":1024,\"count\":256,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\",\n"
    "\"out_of_place\":{\"time\":20.0,\"alg_bw\":0.0512,\"bus_bw\":0.0768,\"nwrong\":0.0},\n"
    "\"in_place\":{\"time\":21.0,\"alg_bw\":0.04876,\"bus_bw\":0.07314,\"nwrong\":null}},\n"
    "{\"size\":1048576,\"count\":262144,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\",\n"
    "\"out_of_place\":{\"time\":50.0,\"alg_bw\":20.97,\"bus_bw\":31.46,\"nwrong\":0.0},\n"
    "\"in_place\":{\"time\":51.0,\"alg_bw\":20.56,\"bus_bw\":30.84,\"nwrong\":0.0}},\n"
    "{\"size\":268435456,\"count\":67108864,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    "
    "-1\",\n"
    "\"out_of_place\":null,\n"
    "\"in_place\":{\"time\":2410.0,\"alg_bw\":111.38,\"bus_bw\":167.08,\"nwrong\":0.0}}],\n"
    "\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"}}\n";

static enum lk_status read_text(const char *text, const struct lk_bench_hints *hints,
                                struct lk_bench *b)
{
    char path[64];
    enum lk_status st;

    bad_file_write(text, strlen(text), path);
    st = lk_bench_read_log(path, hints, b);
    unlink(path);
    return st;
}

static const struct lk_bench_hints none = {0};
static const struct lk_bench_hints said = {.coll = "all_reduce", .ranks = 4, .nodes = 2};

/* Logs with the same content: 4 GPUs, 2 nodes, three sizes in place. */
static const struct {
    const char *text;
    const struct lk_bench_hints *hints;
    const char *gpu, *version;
} same[] = {
    {LOG, &none, "NVIDIA H100 80GB HBM3", "2.20.5"},
    {"+ mpirun ./build/all_reduce_perf -b 8\n" LOG, &none, "NVIDIA H100 80GB HBM3", "2.20.5"},
    {"# Collective test starting: all_reduce_perf\n" LOG, &none, "NVIDIA H100 80GB HBM3", "2.20.5"},
    {LOG, &said, "NVIDIA H100 80GB HBM3", "2.20.5"},
    {HEADER BODY, &said, NULL, NULL},
    {HEADER "host-a:12:34 [0] NCCL INFO Channel 00\n" BODY FOOTER, &said, NULL, NULL},
    {json, &none, "NVIDIA H100 80GB HBM3", "2.28.9"},
    {json, &said, "NVIDIA H100 80GB HBM3", "2.28.9"},
};

static void check_points(const struct lk_bench *b)
{
    static const uint64_t bytes[] = {1024, 1048576, 268435456};
    static const double us[] = {21, 51, 2410};

    ck_assert_uint_eq(b->n_points, 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(b->points[i].coll, LK_ALL_REDUCE);
        ck_assert_int_eq(b->points[i].ranks, 4);
        ck_assert_int_eq(b->points[i].nodes, 2);
        ck_assert_uint_eq(b->points[i].bytes, bytes[i]);
        ck_assert_double_eq_tol(b->points[i].time_s.value, us[i] * 1e-6, 1e-12);
    }
}

START_TEST(forms_of_a_log)
{
    struct lk_bench b = {0};

    ck_assert_msg(read_text(same[_i].text, same[_i].hints, &b) == LK_OK, "%s", lk_error_text());
    check_points(&b);
    ck_assert_pstr_eq(b.gpu, same[_i].gpu);
    ck_assert_pstr_eq(b.nccl_version, same[_i].version);
    lk_bench_fini(&b);
}
END_TEST

static const char *const prefixes[] = {
    "[1,0]<stdout>:",
    "[1,0]<stdout> ",
    "[pod/nccl-launcher-abc/main] ",
    "2024-05-01T12:00:00.123456789Z ",
    "2024-05-01 12:00:00,123 ",
    "0: ",
    "worker-0: ",
    "worker-1  | ",
    "2024-05-01T12:00:00Z [1,0]<stdout>:",
};

/* Put a prefix before every line of the log, and CRLF after. */
START_TEST(prefixes_of_a_log)
{
    static const char log[] = LOG;
    char *text = malloc(16 * sizeof log);
    struct lk_bench b = {0};
    size_t n = 0;

    ck_assert_ptr_nonnull(text);
    for (const char *p = log; *p; p += strcspn(p, "\n") + 1)
        n += (size_t)sprintf(text + n, "%s%.*s\r\n", prefixes[_i], (int)strcspn(p, "\n"), p);
    ck_assert_msg(read_text(text, &none, &b) == LK_OK, "%s", lk_error_text());
    check_points(&b);
    ck_assert_str_eq(b.gpu, "NVIDIA H100 80GB HBM3");
    lk_bench_fini(&b);
    free(text);
}
END_TEST

/* Other tables: the number of points and the first of them. */
static const struct {
    const char *text;
    struct lk_bench_hints hints;
    size_t n, n_other, n_wrong;
    enum lk_coll coll;
    double us;
} tables[] = {
    /* out of place */
    {LOG, {.place = LK_BENCH_OUT_OF_PLACE}, 3, 0, 0, LK_ALL_REDUCE, 20},
    /* 1.0: "bytes N", ms, no root, a residual instead of #wrong */
    {"# bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res\n"
     "1048576  262144  float  sum  0.050  20.97  31.46  1e-07  0.051  20.56  30.84  0e+00\n",
     {.coll = "all_reduce", .ranks = 4, .nodes = 1},
     1,
     0,
     0,
     LK_ALL_REDUCE,
     51},
    /* 2.0: no root, all_gather without a redop */
    {"# size count type time algbw busbw error time algbw busbw error\n"
     "# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\n"
     "1048576 65536 float 50.0 20.97 15.73 0e+00 51.0 20.56 15.42 0e+00\n",
     {.coll = "all_gather", .ranks = 4, .nodes = 1},
     1,
     0,
     0,
     LK_ALL_GATHER,
     51},
    /* 2.19 with per-iteration reports and time stamps */
    {"# Collective test starting: reduce_scatter_perf\n" RANKS
     "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% "
     "time algbw busbw #wrong i_min i_max i_p99 i_cv% timestamp\n"
     "1048576 65536 float sum -1 50.0 20.97 15.73 0 49 52 52 1.0 51.0 20.56 15.42 0 50 53 53 1.0 "
     "2026-07-07 10:00:00\n",
     {0},
     1,
     0,
     0,
     LK_REDUCE_SCATTER,
     51},
    /* the rates tell: reduce_scatter */
    {RANKS HEADER "1048576 65536 float sum -1 50.0 20.97 15.73 0 51.0 20.56 15.42 0\n",
     {0},
     1,
     0,
     0,
     LK_REDUCE_SCATTER,
     51},
    /* wrong results are left out */
    {LOG HEADER "1048576 65536 float sum -1 50.0 20.97 31.46 0 51.0 20.56 30.84 7\n",
     {0},
     3,
     0,
     1,
     LK_ALL_REDUCE,
     21},
    /* two tables of two programs, one of which is not supported */
    {"./alltoall_perf -b 8\n" LOG "./all_reduce_perf -b 8\n" LOG, {0}, 3, 4, 0, LK_ALL_REDUCE, 21},
};

START_TEST(other_tables)
{
    struct lk_bench b = {0};

    ck_assert_msg(read_text(tables[_i].text, &tables[_i].hints, &b) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_uint_eq(b.n_points, tables[_i].n);
    ck_assert_uint_eq(b.n_other, tables[_i].n_other);
    ck_assert_uint_eq(b.n_wrong, tables[_i].n_wrong);
    ck_assert_int_eq(b.points[0].coll, tables[_i].coll);
    ck_assert_double_eq_tol(b.points[0].time_s.value, tables[_i].us * 1e-6, 1e-12);
    lk_bench_fini(&b);
}
END_TEST

static const struct {
    const char *text;
    struct lk_bench_hints hints;
    enum lk_status status;
    const char *error;
} bad_logs[] = {
    {"", {0}, LK_EPARSE, "no table of nccl-tests"},
    {"hello\n", {0}, LK_EPARSE, ":1: no table of nccl-tests"},
    {RANKS HEADER, {0}, LK_EPARSE, "a table without rows"},
    {HEADER BODY, {0}, LK_EUSAGE, "say --gpus"},
    {HEADER BODY, {.ranks = 4}, LK_EUSAGE, "say --nodes"},
    {HEADER BODY, {.ranks = 4, .nodes = 3}, LK_EPARSE, "do not divide"},
    {LOG, {.ranks = 8}, LK_EPARSE, "has 4 gpus, --gpus says 8"},
    {LOG, {.nodes = 1}, LK_EPARSE, "has 2 nodes, --nodes says 1"},
    {LOG, {.coll = "all_gather"}, LK_EPARSE, ":11: busbw over algbw"},
    {LOG, {.coll = "all_redcue"}, LK_EUSAGE, "--collective=all_redcue"},
    {"./all_gather_perf\n" LOG, {.coll = "all_reduce"}, LK_EPARSE, ":1: this names another"},
    {"./all_gather_perf\n" LOG, {0}, LK_EPARSE, "busbw over algbw"},
    {HEADER BODY,
     {.ranks = 8, .nodes = 1, .coll = "all_reduce"},
     LK_EPARSE,
     "another count of GPUs"},
    {HEADER "1048576 262144 float sum\n",
     {.ranks = 4, .nodes = 1},
     LK_EPARSE,
     ":3: a row of fewer"},
    {HEADER "1048576 1 float sum -1 x 1 1 0 1 1 y 0\n",
     {.ranks = 4, .nodes = 1},
     LK_EPARSE,
     ":3: no number"},
    {HEADER "1048576 1 float sum -1 1 1 1 0 -1 1 1 0\n",
     {.ranks = 4, .nodes = 1},
     LK_EPARSE,
     ":3: a negative time"},
    {HEADER "1048576 1 float sum -1 1 1 1 0 51 40 60 0\n",
     {.ranks = 4, .nodes = 1},
     LK_EPARSE,
     ":3: algbw is 40 GB/s"},
    {"# size count type redop root cputime algbw busbw #wrong\n", {0}, LK_EPARSE, "CPU times"},
    {"#  Rank  1 Group  0 Pid 1 on host-a device  0 [0x10] X\n", {0}, LK_EPARSE, ":1: a rank line"},
    {"{\"args\": [", {0}, LK_EPARSE, "args: the text ends too early"},
    {"{\"args\": []}", {0}, LK_EPARSE, "config"},
};

START_TEST(bad_log)
{
    struct lk_bench b = {0};

    ck_assert_int_eq(read_text(bad_logs[_i].text, &bad_logs[_i].hints, &b), bad_logs[_i].status);
    ck_assert_msg(strstr(lk_error_text(), bad_logs[_i].error) != NULL, "%s", lk_error_text());
    lk_bench_fini(&b);
}
END_TEST

/* ---- CSV ---- */

static const char table[] = "collective,gpus,nodes,bytes,seconds,busbw\n"
                            "all_reduce,8,1,1048576,50e-6,\n"
                            "all_reduce,8,1,16777216,200e-6,146.8\n"
                            "alltoall,8,1,16777216,200e-6,\n"
                            "all_reduce,16,2,268435456,2e-3,\n";

static enum lk_status read_csv(const char *path)
{
    struct lk_bench b = {0};
    enum lk_status st = lk_bench_read_csv(path, &none, &b);

    lk_bench_fini(&b);
    return st;
}

static const struct bad_file bad_tables[] = {
    {"gpus", "gpu_count", "unknown column 'gpu_count'"},
    {"busbw", "buswb", "did you mean 'busbw'?"},
    {"all_reduce", "all_redcue", "'all_redcue' is not a collective"},
    {"8,1", "0,1", "0 is not from 1"},
    {"8,1", "1000000000,1", "is not from 1 to"},
    {"8,1", "8,0", "0 is not from 1"},
    {"8,1", "8,3", "8 GPUs do not divide over 3"},
    {"1048576", "-1048576", "column 'bytes': -1048576"},
    {"1048576", "1 MiB", "not a whole number"},
    {"50e-6", "NaN", "not a finite decimal number"},
    {"50e-6", "0", "0 is not above 0"},
    {"50e-6", "50us", "not a finite decimal number"},
    {"50e-6", "", "nothing there"},
    {"146.8", "200", "column 'busbw': 200 GB/s, but"},
    {"50e-6,", "50e-6", "has 5 fields"},
};

START_TEST(bad_table)
{
    bad_file_check(table, &bad_tables[_i], read_csv);
}
END_TEST

START_TEST(good_table)
{
    struct lk_bench b = {0};
    char path[64], expected[96];

    bad_file_write(table, strlen(table), path);
    ck_assert_msg(lk_bench_read_csv(path, &none, &b) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(b.n_points, 3);
    ck_assert_uint_eq(b.n_other, 1);
    snprintf(expected, sizeof expected, "%s:5", path);
    ck_assert_str_eq(b.points[2].time_s.source, expected);
    lk_bench_fini(&b);
    unlink(path);
}
END_TEST

/* ---- The command ---- */

static int run_import(const char *dir, const char *words, char *err, size_t size)
{
    struct program p;
    int code;

    program_start(&p, dir, NULL, NULL, "import %s", words);
    program_wait(&p);
    code = p.code;
    snprintf(err, size, "%s", p.err);
    program_fini(&p);
    return code;
}

START_TEST(the_command)
{
    char *dir = scratch_create(), *out = scratch_path(dir, "c.json");
    char log[64], csv[64], words[512], err[1024];
    struct lk_cluster c;

    bad_file_write(LOG, strlen(LOG), log);
    bad_file_write(table, strlen(table), csv);
    snprintf(words, sizeof words, "%s --collectives=%s --base=dgx-h100 --name=mine --out=%s", log,
             csv, out);
    ck_assert_msg(run_import(dir, words, err, sizeof err) == 0, "%s", err);
    ck_assert_ptr_nonnull(strstr(err, "left out 1 rows"));
    ck_assert_msg(lk_cluster_read(out, &c) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(c.name, "mine");
    ck_assert_str_eq(c.gpu, "NVIDIA H100 80GB HBM3");
    ck_assert(!c.preset);
    ck_assert_uint_eq(c.n_points, 6);
    ck_assert_int_eq(c.gpus_per_node, 8); /* the base's links and device are kept, too */
    ck_assert_int_eq(c.device.compute_capability, 90);
    ck_assert(lk_quantity_known(&c.inter.bandwidth_Bps));
    lk_cluster_fini(&c);

    ck_assert_int_eq(run_import(dir, "", err, sizeof err), 2);
    ck_assert_ptr_nonnull(strstr(err, "nothing to read"));
    snprintf(words, sizeof words, "%s --out=%s --base=ethernet-25g", log, out);
    ck_assert_int_eq(run_import(dir, words, err, sizeof err), 1);
    ck_assert_ptr_nonnull(strstr(err, "a node of the base has 1"));
    snprintf(words, sizeof words, "%s --out=%s --gpus=8", log, out);
    ck_assert_int_eq(run_import(dir, words, err, sizeof err), 1);
    snprintf(words, sizeof words, "--collectives=%s --where=colour=red --out=%s", csv, out);
    ck_assert_int_eq(run_import(dir, words, err, sizeof err), 2);
    unlink(log);
    unlink(csv);
    free(out);
    scratch_remove(dir);
}
END_TEST

SUITE(import, tc)
{
    tcase_add_loop_test(tc, forms_of_a_log, 0, LK_COUNT(same));
    tcase_add_loop_test(tc, prefixes_of_a_log, 0, LK_COUNT(prefixes));
    tcase_add_loop_test(tc, other_tables, 0, LK_COUNT(tables));
    tcase_add_loop_test(tc, bad_log, 0, LK_COUNT(bad_logs));
    tcase_add_loop_test(tc, bad_table, 0, LK_COUNT(bad_tables));
    tcase_add_test(tc, good_table);
    tcase_add_test(tc, the_command);
}
