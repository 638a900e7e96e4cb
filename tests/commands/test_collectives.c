/*
 * lockstep collectives as a user has it: a log and the cluster file made of it have one verdict, a
 * planted fault has its suspect and fails a gate, two logs stand side by side, and where nothing
 * says what a machine should reach, that is said.
 */
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Write an nccl-tests log of an all-reduce on 2 nodes of 8: time = latency + bytes over a rate, but
 * one size takes ten times that; 0: none does. */
static void put_bad_log(const char *name, const char *gpu, double latency_us, double most_GBps,
                        double bad_bytes)
{
    enum { RANKS = 16, NODES = 2 };
    static const double FACTOR = 2.0 * (RANKS - 1) / RANKS;
    char *path = scratch_path(scratch_dir, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f, "# all_reduce_perf\n");
    for (int r = 0; r < RANKS; r++)
        fprintf(f, "#  Rank %2d Group  0 Pid 1 on host-%d device  %d [0000:1b:00] %s\n", r,
                r * NODES / RANKS, r % (RANKS / NODES), gpu);
    fprintf(f, "#       size         count      type   redop    root     time   algbw   busbw "
               "#wrong     time   algbw   busbw #wrong\n");
    for (double bytes = 1024; bytes <= 8.0 * (1 << 30); bytes *= 2) {
        const double us =
            (bytes == bad_bytes ? 10 : 1) * (latency_us + bytes * FACTOR / (most_GBps * 1e3));
        const double GBps = bytes / us * 1e-3;

        fprintf(f, "%.0f %.0f float sum -1 %.2f %.2f %.2f 0 %.2f %.2f %.2f 0\n", bytes, bytes / 4,
                us, GBps, GBps * FACTOR, us, GBps, GBps * FACTOR);
    }
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static void put_log(const char *name, const char *gpu, double latency_us, double most_GBps)
{
    put_bad_log(name, gpu, latency_us, most_GBps, 0);
}

/* Run a command line and check its exit code and that its output has a text, or lacks it. */
static struct shell_result run(int code, const char *words)
{
    struct shell_result r = shell_program(scratch_dir, "%s", words);

    ck_assert_msg(r.code == code, "%s: exit %d: %s", words, r.code, r.text);
    return r;
}

static void has(const struct shell_result *r, const char *text)
{
    ck_assert_msg(strstr(r->text, text) != NULL, "no '%s' in %s", text, r->text);
}

static void lacks(const struct shell_result *r, const char *text)
{
    ck_assert_msg(!strstr(r->text, text), "'%s' in %s", text, r->text);
}

static const char A100[] = "NVIDIA A100-SXM4-80GB";

START_TEST(sound)
{
    struct shell_result r;

    put_log("good.log", A100, 45, 190);
    r = run(0, "collectives good.log --base dgx-a100-roce --fail-below 0.3 "
               "--fail-if 'slow_bands>0'");
    has(&r, "None of 4 bands of sizes is slow");
    has(&r, "public tables");
    lacks(&r, "uspect");
}
END_TEST

/* One card of 25 GB/s at nine tenths. */
START_TEST(one_rail)
{
    struct shell_result r;

    put_log("rail.log", A100, 45, 22.5);
    r = run(3, "collectives rail.log --base dgx-a100-roce --fail-below 0.3");
    has(&r, "22.5 GB/s, expected 17");
    has(&r, "one network card");
    has(&r, "one_rail");
}
END_TEST

/* One size takes ten times as long as its neighbours: the median of its band hides it, and the gate
 * does not. */
START_TEST(one_bad_size_fails_a_gate)
{
    struct shell_result r;

    put_bad_log("bad.log", A100, 45, 190, 128 << 20);
    r = run(3, "collectives bad.log --base dgx-a100-roce --fail-below 0.3 --format json");
    has(&r, "share_least{side=\"A\",collective=\"all_reduce\",gpus=\"16\",nodes=\"2\",band=");
    run(0, "collectives bad.log --base dgx-a100-roce --fail-if 'share<0.3'");
}
END_TEST

/* The worst of both: a hundredth of the rate, and 5 times the latency. */
START_TEST(other_network)
{
    struct shell_result r;

    put_log("tcp.log", A100, 200, 2);
    r = run(0, "collectives tcp.log --base dgx-a100-roce -q");
    has(&r, "TCP");
}
END_TEST

/* A log, the cluster file made of it, and the import itself say the same sentence. */
START_TEST(one_verdict)
{
    struct shell_result log, file, import;

    put_log("rail.log", A100, 45, 22.5);
    import = run(0, "import rail.log --base dgx-a100-roce --out c.json --format json 2> /dev/null");
    log = run(0, "collectives rail.log --base dgx-a100-roce -q");
    file = run(0, "collectives c.json -q");
    ck_assert_str_eq(log.text, file.text);
    has(&import, "22.5 GB/s, expected 17");
    has(&import, "slow_bands");
}
END_TEST

START_TEST(side_by_side)
{
    struct shell_result r;

    put_log("a.log", A100, 45, 190);
    put_log("b.log", A100, 45, 95);
    r = run(0, "collectives a.log b.log --base dgx-a100-roce --table common --format csv");
    has(&r, "B,all_reduce,16,2,8589934592,");
    /* Times are printed with two decimals of us: half the rate is half the speed. */
    has(&r, "0.500");
    r = run(0, "collectives a.log b.log --base dgx-a100-roce -q");
    has(&r, "A: None");
    has(&r, "B: ");
}
END_TEST

START_TEST(no_expectation)
{
    struct shell_result r;

    put_log("many.log", A100, 45, 190);
    r = run(0, "collectives many.log");
    has(&r, "dgx-a100, dgx-a100-roce, hgx-a100-efa");
    put_log("none.log", "Accelerator 9", 45, 190);
    r = run(0, "collectives none.log");
    has(&r, "'Accelerator 9'");
    has(&r, "no expectation");
    r = run(2, "collectives none.log --fail-below 0.5");
    has(&r, "share");
    r = run(1, "collectives dgx-a100");
    has(&r, "no collective was measured");
}
END_TEST

START_TEST(formats_and_plot)
{
    struct shell_result r;

    put_log("good.log", A100, 45, 190);
    r = run(0, "collectives good.log --base dgx-a100 --format json");
    has(&r, "\"share\"");
    r = run(0, "collectives good.log --base dgx-a100 --format markdown");
    has(&r, "| all\\_reduce |");
    r = run(0, "collectives good.log --base dgx-a100 --verbose");
    has(&r, "Simple");
    r = shell_program(scratch_dir, "collectives good.log --base dgx-a100 --plot p -q");
    ck_assert_int_eq(r.code, shell_run("command -v gnuplot").code ? 1 : 0);
    r = shell_run("head -1 %s/p/collectives.csv", scratch_dir);
    has(&r, "x,x2,y,lo,hi,share,panel,layer,text");
    r = run(2, "collectives good.log --base dgx-a100 --plot p --size 16x9");
    has(&r, "no size in pixels");
}
END_TEST

/* iperf3's rate is that of a card, and no collective. */
START_TEST(a_link)
{
    static const char json[] = "{\"start\": {}, \"intervals\": [{}, {}], \"end\": "
                               "{\"sum_received\": {\"bits_per_second\": 9.4e9}}}";
    struct shell_result r;
    char *text;

    free(scratch_put("iperf.json", json, sizeof json - 1));
    r = run(0, "import iperf.json --base ethernet-10g-8gpu --out c.json");
    has(&r, "1.18 GB/s over a link");
    text = scratch_read(scratch_dir, "c.json");
    ck_assert_ptr_nonnull(strstr(text, "1175000000"));
    free(text);
    r = run(1, "collectives iperf.json");
    has(&r, "no collective was measured");
}
END_TEST

/* A machine that is faster than its base is told so. */
START_TEST(faster)
{
    struct shell_result r;

    put_log("fast.log", A100, 45, 190);
    r = run(0, "collectives fast.log --base ethernet-10g-8gpu -q");
    has(&r, "faster than ethernet-10g-8gpu");
}
END_TEST

/* One size that takes longer than a larger one is the size that is named, with an expectation and
 * without: 8192 MiB at 19.5 GB/s are the rest. */
START_TEST(a_size_that_falls_is_named)
{
    static const char *const gpus[] = {"NVIDIA A100-SXM4-80GB", "NVIDIA Foo"};
    char *path = scratch_path(scratch_dir, "fall.txt");
    struct shell_result r;
    FILE *f;

    put_log("fall.txt", gpus[_i], 30, 150);
    f = fopen(path, "a");
    ck_assert_ptr_nonnull(f);
    fputs("100663296 25165824 float sum -1 90000 1.12 2.10 0 90000 1.12 2.10 0\n", f);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
    r = shell_program(scratch_dir, "collectives fall.txt -q --collective=all_reduce");
    has(&r, "all_reduce on 16 GPUs of 2 nodes, 96.0 MiB: 2.10 GB/s");
    lacks(&r, "nan");
}
END_TEST

SUITE(collectives, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, a_size_that_falls_is_named, 0, 2);
    tcase_add_test(tests, sound);
    tcase_add_test(tests, one_rail);
    tcase_add_test(tests, one_bad_size_fails_a_gate);
    tcase_add_test(tests, other_network);
    tcase_add_test(tests, one_verdict);
    tcase_add_test(tests, side_by_side);
    tcase_add_test(tests, no_expectation);
    tcase_add_test(tests, formats_and_plot);
    tcase_add_test(tests, a_link);
    tcase_add_test(tests, faster);
}
