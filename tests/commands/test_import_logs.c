/* lockstep import as a user runs it: logs that contradict each other, name another device, or are
 * of several collectives. */
#include "base/array.h"
#include "facts/cluster.h"
#include "tests/rigs/program.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dir, *out;

static void make_dir(void)
{
    dir = scratch_create();
    out = scratch_path(dir, "c.json");
}

static void remove_dir(void)
{
    free(out);
    scratch_remove(dir);
}

/* What a log says; NULL: it does not. */
struct log {
    const char *name, *program, *gpu, *hosts[2];
    const char *redop;
    double factor, busbw; /* of the times; over algbw */
};

static const struct log plain = {"x.log", "all_reduce_perf", "X", {"host-a", "host-b"}, "sum", 1,
                                 1};

/* Write a log of one GPU on each of two hosts: 50 us and 10 us a MB, for 256 KiB, 4 and 64 MiB. */
static void write_log(const struct log *log)
{
    char *path = scratch_path(dir, log->name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    if (log->program)
        fprintf(f, "# %s\n", log->program);
    for (int i = 0; i < 2 && log->gpu; i++)
        fprintf(f, "#  Rank  %d Group  0 Pid 1 on %s device  0 [0x10] %s\n", i, log->hosts[i],
                log->gpu);
    fprintf(f, "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  "
               "#wrong\n");
    for (int i = 18; i <= 26; i += 4) {
        double bytes = exp2(i), us = log->factor * (50 + bytes * 1e-5), rate = bytes / us * 1e-3;

        fprintf(f, "%.0f %.0f float %s -1", bytes, bytes / 4, log->redop);
        for (int place = 0; place < 2; place++)
            fprintf(f, " %.2f %.2f %.2f 0", us, rate, log->busbw * rate);
        fprintf(f, "\n");
    }
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

/* Run import in the folder; `words` are relative to it. Returns what it wrote to stderr. */
static struct program import(int code, const char *words)
{
    struct program p;

    program_run(&p, dir, code, "import %s --out=%s --format=csv", words, out);
    return p;
}

static struct lk_cluster read_cluster(void)
{
    struct lk_cluster c;

    lk_cluster_init(&c);
    ck_assert_msg(lk_cluster_read(out, &c) == LK_OK, "%s", lk_error_text());
    return c;
}

#define SAYS(p, text) ck_assert_msg(strstr((p).err, text) != NULL, "%s", (p).err)
#define IS_QUIET(p)   ck_assert_msg(!strstr((p).err, "warning"), "%s", (p).err)

/* ---- Measurements that contradict each other ---- */

START_TEST(a03_logs_that_differ_are_named_with_their_hosts)
{
    static const struct log logs[] = {
        {"ab.log", "all_reduce_perf", "X", {"host-a", "host-b"}, "sum", 1, 1},
        {"bc.log", "all_reduce_perf", "X", {"host-b", "host-c"}, "sum", 1.1, 1},
        {"cd.log", "all_reduce_perf", "X", {"host-c", "host-d"}, "sum", 3, 1},
    };
    char words[512];
    struct program p;

    for (size_t i = 0; i < LK_COUNT(logs); i++)
        write_log(&logs[i]);
    snprintf(words, sizeof words, "%s/ab.log %s/bc.log", dir, dir);
    p = import(0, words);
    IS_QUIET(p);
    program_fini(&p);
    snprintf(words, sizeof words, "%s/ab.log %s/bc.log %s/cd.log", dir, dir, dir);
    p = import(0, words);
    SAYS(p, "warning: all_reduce on 2 GPUs over 2 nodes: 4.00 MiB take 276 us (");
    SAYS(p, "cd.log:6, on host-c, host-d), but 91.9 us (");
    SAYS(p, "ab.log:6, on host-a, host-b): 3 times as long, of 3 measurements");
    SAYS(p, "3 of 3 repeated sizes differ");
    program_fini(&p);
    /* Whoever uses the file later is told, too. */
    program_run(&p, dir, 0, "import %s/ab.log --base=%s --out=%s.2", dir, out, out);
    SAYS(p, "cd.log:6, on host-c, host-d");
    program_fini(&p);
}
END_TEST

/* Rows of one table, as of several settings in one log: the lines are named. */
START_TEST(a03_rows_of_one_table_that_differ_are_named)
{
    char *csv = scratch_path(dir, "times.csv"), words[512];
    FILE *f = fopen(csv, "w");
    struct program p;

    ck_assert_ptr_nonnull(f);
    fprintf(f, "collective,gpus,nodes,bytes,time_us\n"
               "all_reduce,8,1,1048576,100\n"
               "all_reduce,8,1,4194304,400\n"
               "all_reduce,8,1,1048576,1000\n"
               "all_reduce,8,1,4194304,410\n"
               "all_reduce,4,1,1048576,900\n");
    ck_assert_int_eq(fclose(f), 0);
    snprintf(words, sizeof words, "--collectives=%s --base=dgx-h100", csv);
    p = import(0, words);
    SAYS(p, "all_reduce on 8 GPUs over 1 node: 1.00 MiB take 1.00 ms (");
    SAYS(p, "times.csv:4), but 100 us (");
    SAYS(p, "times.csv:2): 10 times as long, of 2 measurements. 1 of 2 repeated sizes");
    program_fini(&p);
    free(csv);
}
END_TEST

/* 64 MiB in 0.72 ms are 93 GB/s, over two links of 25 Gbit/s. */
START_TEST(a03_points_faster_than_the_links_are_named)
{
    struct program p;
    char words[512];

    write_log(&plain);
    snprintf(words, sizeof words, "%s/x.log --base=ethernet-25g", dir);
    p = import(0, words);
    SAYS(p, "3 points are faster than the cluster's links allow");
    SAYS(p, "64.0 MiB on 2 GPUs over 2 nodes takes 721 us (");
    SAYS(p, "x.log:7, on host-a, host-b), but needs 21.7 ms at inter.bandwidth");
    program_fini(&p);
}
END_TEST

/* A cluster is of one machine: logs of two devices are refused, in any order and whatever lies
 * between; sizes of memory and spellings do not count. */
START_TEST(logs_of_two_devices_are_refused)
{
    static const struct log logs[] = {
        {"a.log", "all_reduce_perf", "NVIDIA A100-SXM4-80GB", {"a", "b"}, "sum", 1, 1},
        {"none.log", "all_reduce_perf", NULL, {"a", "b"}, "sum", 1, 1},
        {"h.log", "all_reduce_perf", "NVIDIA H100 80GB HBM3", {"c", "d"}, "sum", 1, 1},
        {"s.log", "all_reduce_perf", "A100-SXM4-40GB", {"a", "b"}, "sum", 1, 1},
    };
    static const struct {
        const char *order[3];
        int code;
    } cases[] = {{{"a.log", "none.log", "h.log"}, 2},
                 {{"none.log", "h.log", "a.log"}, 2},
                 {{"a.log", "none.log", "s.log"}, 0}};
    char words[1024];
    struct program p;

    for (size_t i = 0; i < LK_COUNT(logs); i++)
        write_log(&logs[i]);
    snprintf(words, sizeof words,
             "import %s/%s %s/%s %s/%s --gpus 2 --nodes 2 --collective all_reduce --out %s/c.json",
             dir, cases[_i].order[0], dir, cases[_i].order[1], dir, cases[_i].order[2], dir);
    program_run(&p, dir, cases[_i].code, "%s", words);
    if (cases[_i].code) {
        SAYS(p, "a cluster is of one machine");
        SAYS(p, "'NVIDIA H100 80GB HBM3'");
        SAYS(p, "h.log");
    }
    program_fini(&p);
}
END_TEST

/* ---- What the logs say of the machine, and how many there are ---- */

static const struct device {
    const char *gpu, *base;
    double gigabytes;
    bool keeps_bandwidth;
    const char *warning; /* NULL: none */
} devices[] = {
    {"NVIDIA A100-SXM4-40GB", "dgx-a100", 40, false, "has 40 GB of memory, the base's"},
    {"NVIDIA A100-SXM4-80GB", "dgx-a100", 80, true, NULL},
    {"NVIDIA A100 80GB PCIe", "pcie-a100", 80, true, NULL},
    {"NVIDIA H100 80GB HBM3", "dgx-h100", 80, true, NULL},
    {"NVIDIA GH200 480GB", "gh200-slingshot", 96, true, NULL}, /* the host's memory */
    {"NVIDIA H100 80GB HBM3", "dgx-a100", 80, true, "the base is of 'A100-SXM4-80GB'"},
};

START_TEST(a16_the_memory_follows_the_device_of_the_log)
{
    const struct device *d = &devices[_i];
    struct log log = plain;
    struct lk_cluster c;
    struct program p;
    char words[512];

    log.gpu = d->gpu;
    log.factor = 10; /* slower than every base's links */
    write_log(&log);
    snprintf(words, sizeof words, "%s/x.log --base=%s", dir, d->base);
    p = import(0, words);
    if (d->warning)
        SAYS(p, d->warning);
    else
        IS_QUIET(p);
    program_fini(&p);
    c = read_cluster();
    ck_assert_double_eq_tol(c.device.memory_bytes.value, d->gigabytes * 1e9, 1);
    ck_assert_int_eq(lk_quantity_known(&c.device.memory_Bps), d->keeps_bandwidth);
    lk_cluster_fini(&c);
}
END_TEST

/* A row of alltoall has nothing where other tables name the operation. */
START_TEST(a16_a_log_with_a_blank_operation_is_read)
{
    static const struct log alltoall = {
        "alltoall.log", "alltoall_perf", "X", {"host-a", "host-b"}, "", 1, 0.5};
    static const struct log gather = {
        "gather.log", "all_gather_perf", "X", {"host-a", "host-b"}, "", 1, 0.5};
    struct lk_cluster c;
    struct program p;
    char words[512];

    write_log(&plain);
    write_log(&alltoall);
    write_log(&gather);
    snprintf(words, sizeof words, "%s/x.log %s/alltoall.log %s/gather.log", dir, dir, dir);
    p = import(0, words);
    SAYS(p, "left out 3 rows of collectives");
    program_fini(&p);
    c = read_cluster();
    ck_assert_uint_eq(c.n_points, 6);
    ck_assert_int_eq(c.points[0].coll, LK_ALL_REDUCE);
    ck_assert_int_eq(c.points[5].coll, LK_ALL_GATHER);
    ck_assert_double_eq_tol(c.points[5].time_s.value, c.points[2].time_s.value, 1e-12);
    lk_cluster_fini(&c);
}
END_TEST

/* Tables without a head: --collective, --gpus and --nodes have an item for each log. */
START_TEST(a16_logs_of_several_collectives_are_read_at_once)
{
    static const struct log gather = {"g.log", NULL, NULL, {NULL, NULL}, "none", 1, 0.75};
    static const struct log reduce = {"r.log", NULL, NULL, {NULL, NULL}, "sum", 1, 1};
    struct lk_cluster c;
    struct program p;
    char words[512];

    write_log(&gather);
    write_log(&reduce);
    snprintf(words, sizeof words,
             "%s/g.log %s/r.log --collective=all_gather,all_reduce --gpus=4,2 --nodes=2", dir, dir);
    p = import(0, words);
    program_fini(&p);
    c = read_cluster();
    ck_assert_uint_eq(c.n_points, 6);
    ck_assert_int_eq(c.points[0].coll, LK_ALL_REDUCE);
    ck_assert_int_eq(c.points[0].ranks, 2);
    ck_assert_int_eq(c.points[3].coll, LK_ALL_GATHER);
    ck_assert_int_eq(c.points[3].ranks, 4);
    lk_cluster_fini(&c);
    snprintf(words, sizeof words,
             "%s/g.log %s/r.log --collective=all_gather --gpus=4,2,8 --nodes=2", dir, dir);
    p = import(2, words);
    SAYS(p, "--gpus has 3 items for 2 logs");
    program_fini(&p);
}
END_TEST

/* Five sizes between nodes of several GPUs: what a fit lacks is not sizes. */
START_TEST(a16_a_missing_fit_says_what_it_lacks)
{
    static const struct log between = {"b.log", NULL, NULL, {NULL, NULL}, "sum", 1, 1.75};
    struct program p;

    write_log(&between);
    program_run(&p, dir, 0, "import %s/b.log --gpus=8 --nodes=2 --out=%s", dir, out);
    ck_assert_msg(strstr(p.out, "none: a fit between nodes of several GPUs needs one"), "%s",
                  p.out);
    ck_assert_ptr_null(strstr(p.out, "needs 3 sizes"));
    program_fini(&p);
}
END_TEST

/* ---- Sizes beyond the table ---- */

/* Half a GB and more of 8 H100 (the table of tests/sim/test_coll_sizes.c), up to 1 MiB, and all. */
static const struct sweep {
    const char *rows;
    const char *grade;
} sweeps[] = {
    {"536870912,2165.3\n1073741824,4253\n4294967296,15791\n8589934592,31289\n", "on bytes"},
    {"1024,16.4\n16384,17.46\n262144,20.27\n524288,21.17\n1048576,28.56\n", "on bytes"},
    {"1024,16.4\n65536,19.09\n1048576,28.56\n4194304,55.44\n16777216,124\n67108864,326.6\n"
     "268435456,1121.4\n",
     "extrapolated x8 on gpus"},
};

/* Buckets of 1 MiB and 100 MiB of 480 MB, hidden behind 60 ms: no sweep makes one much better. */
START_TEST(a02_a_part_of_a_sweep_does_not_flip_the_best_bucket_cap)
{
    char *csv = scratch_path(dir, "times.csv"), *job = scratch_path(dir, "job.json");
    char words[512];
    const char *line = sweeps[_i].rows;
    FILE *f = fopen(csv, "w");
    struct program p;

    ck_assert_ptr_nonnull(f);
    fprintf(f, "collective,gpus,nodes,bytes,time_us\n");
    for (; *line; line += strcspn(line, "\n") + 1)
        fprintf(f, "all_reduce,8,1,%.*s\n", (int)strcspn(line, "\n"), line);
    ck_assert_int_eq(fclose(f), 0);
    f = fopen(job, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"j\", \"gradients\": [");
    for (int i = 0; i < 48; i++)
        fprintf(f, "%s{\"name\": \"l%d\", \"elements\": 2500000, \"dtype\": \"float32\"}",
                i ? ", " : "", i);
    fprintf(f, "], \"compute\": [{\"local_batch\": 8, \"forward\": {\"value\": 30, \"unit\": "
               "\"ms\", \"source\": \"x\"}, \"backward\": {\"value\": 60, \"unit\": \"ms\", "
               "\"source\": \"x\"}}]}\n");
    ck_assert_int_eq(fclose(f), 0);
    snprintf(words, sizeof words, "--collectives=%s --base=dgx-h100", csv);
    p = import(0, words);
    program_fini(&p);
    program_run(&p, dir, 0, "predict %s %s --gpus=8 --bucket-cap=1MiB,100MiB --draws=100 --verbose",
                job, out);
    ck_assert_msg(strstr(p.out, sweeps[_i].grade) != NULL, "%s", p.out);
    ck_assert_msg(said(p.out, "within the model's error") != NULL, "%s", p.out);
    program_fini(&p);
    free(csv);
    free(job);
}
END_TEST

SUITE(import_logs, tc)
{
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, a03_logs_that_differ_are_named_with_their_hosts);
    tcase_add_test(tc, a03_rows_of_one_table_that_differ_are_named);
    tcase_add_test(tc, a03_points_faster_than_the_links_are_named);
    tcase_add_loop_test(tc, a16_the_memory_follows_the_device_of_the_log, 0, LK_COUNT(devices));
    tcase_add_loop_test(tc, logs_of_two_devices_are_refused, 0, 3);
    tcase_add_test(tc, a16_a_log_with_a_blank_operation_is_read);
    tcase_add_test(tc, a16_logs_of_several_collectives_are_read_at_once);
    tcase_add_test(tc, a16_a_missing_fit_says_what_it_lacks);
    tcase_add_loop_test(tc, a02_a_part_of_a_sweep_does_not_flip_the_best_bucket_cap, 0,
                        LK_COUNT(sweeps));
}
