/*
 * Give the program what a person writes by mistake: numbers without a unit or with one that could
 * mean two things, tables with another program's separators, names that would steer a terminal,
 * inputs without an end. Each must be refused with the right spelling, or read as it was meant.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CORPUS  "tests/fuzz/corpus/"
#define JOB     CORPUS "job/full.json"
#define CLUSTER CORPUS "cluster/full.json"
#define GRID    "whatif " JOB " " CLUSTER " --gpus=4 --draws=20 "

/* ---- Options ---- */

static const struct {
    const char *words;
    int code;
    const char *says;
} options[] = {
    {GRID "--bucket-cap=1,25,100", 2,
     "--bucket-cap: '1': which unit? 1MiB (1024-based, as bucket_cap_mb"},
    {GRID "--bucket-cap=25mb", 2, "'25mb': which unit? 25MiB or 25MB"},
    {GRID "--bucket-cap=25Mb", 2, "'25Mb': which unit? 25MiB or 25MB"},
    {GRID "--bucket-cap=25M,25MiB", 2, "'25MiB' is there twice"},
    {GRID "--bucket-cap=26214400B,25m", 2, "'25m' is there twice"},
    {GRID "--bucket-cap=25M,25MB,1mib", 0, ""},
    {GRID "--first-bucket=1", 2, "--first-bucket: '1': which unit?"},
    {GRID "--nic-bandwidth=100", 2, "--nic-bandwidth: '100': which unit? 100Gbit/s or 12.5GB/s"},
    {GRID "--nic-bandwidth=100gbps", 2, "which unit? 100GB/s or 100Gbit/s"},
    {GRID "--nic-bandwidth=100Gbps,100Gbit/s", 2, "'100Gbit/s' is there twice"},
    {GRID "--nic-bandwidth=100Gb/s,400G,25GB/s,x2", 0, ""},
    {GRID "--node-bandwidth=100GB/s,800Gbit/s", 2, "'800Gbit/s' is there twice"},
    {GRID "--node-bandwidth=x2", 0, ""},
    {GRID "--node-bandwidth=100GB/s --nic-bandwidth=x2", 2, "of the same network cards: give one"},
    {GRID "--inter-bandwidth=100G", 2,
     "--inter-bandwidth is no option any more: give --node-bandwidth, of a node's network cards "
     "together"},
    {GRID "--intra-bandwidth=900G", 2, "'900G': which unit? 900GB/s or 900Gbit/s"},
    {GRID "--intra-bandwidth=900", 2, "which unit?"},
    {GRID "--inter-latency=5", 2, "'5': which unit? 5s, 5ms or 5us"},
    {GRID "--inter-latency=5m", 2, "'5m': which unit? 5min or 5ms"},
    {GRID "--inter-latency=5usec", 0, ""},
    {GRID "--grad-dtype=bf16,FP16,fp32", 0, ""},
    {GRID "--grad-dtype=bf16,bfloat16", 2, "'bfloat16' is there twice"},
    {GRID "--grad-dtype=bf17", 2, "'bf17' is not a gradient dtype"},
    {GRID "--compression=BF16,float16", 0, ""},
    {GRID "--reduce=LAST --accumulation=2", 0, ""},
    {GRID "--local-batch=1k", 0, ""},
    {GRID "--mtbf=30d --restart=5min --checkpoint=1min", 0, ""},
    {GRID "--mtbf=1000", 2, "--mtbf: '1000': which unit?"},
    {GRID "--device-memory=80", 2, "--device-memory: '80': which unit?"},
    {GRID "--device-memory=80GB", 0, ""},
    {GRID "--checkpoint-bandwidth=2", 2, "--checkpoint-bandwidth: '2': which unit?"},
    {"predict " JOB " " CLUSTER " --gpus=99999999999999999999", 2,
     "--gpus: must be from 1 to 1048576"},
    {"predict " JOB " " CLUSTER " --gpus=8 --draws=99999999999999999999", 2,
     "--draws: must be from 20 to 100000"},
    {"predict " JOB " " CLUSTER " --gpus=8 --seed=99999999999999999999", 2,
     "--seed: must be from 0 to 1000000000000000"},
    {"predict " JOB " " CLUSTER " --gpus=8 --seed=-99999999999999999999", 2,
     "--seed: must be from 0 to 1000000000000000"},
    {"run --timeout=60", 2, "--timeout: '60': which unit? 60s, 60ms or 60us"},
    {"run --input-delay=5", 2, "--input-delay: '5': which unit?"},
    {"run --bucket-cap=25", 2, "--bucket-cap: '25': which unit? 25MiB"},
    {"run --dtype=bf17", 2, "'bf17' is not one of: float32 bfloat16 float16"},
    {"run --dtype=BF16 --compression=powersgd", 2, "it needs --dtype=float32"}, /* it was read */
    {"run --timed-bandwidth=100", 2, "--timed-bandwidth: '100': which unit?"},
    {"run --fault=delay:time=5", 2, "which unit?"},
    {"profile --for=5 -- true", 2, "--for: '5': which unit?"},
    {"calibrate --budget=10", 2, "--budget: '10': which unit?"},
    {"calibrate --sizes=4096,8192", 2, "--sizes: '4096': which unit?"},
    {"calibrate --dtypes=half,fp16", 2, "'fp16' is there twice"},
    {"replay no-such.json", 1, "no-such.json"},
    {"predict no-such.json dgx-a100 --gpus=8", 1, "no-such.json"},
    {"predict " JOB " no-such.json --gpus=8", 1, "no-such.json"},
    {"predict " JOB " nonsense --gpus=8", 1, "no cluster file and no preset 'nonsense'; presets: "},
    {"predict " JOB " dgx-a10 --gpus=8", 1, "did you mean 'dgx-a100'?"},
    {"whatif " JOB " " CLUSTER " --gpus=8 --gpu=dgx-a10", 1, "did you mean 'dgx-a100'?"},
    {"import --collectives=" CORPUS "csv/points.csv --base=nonsense", 1, "no preset 'nonsense'"},
    {"predict --throughput=/dev/zero --gpus=8", 1, "/dev/zero: larger than 128 MiB"},
    {"import /dev/zero", 1, "/dev/zero: is a pipe or a device"},
};

START_TEST(options_are_read_or_refused)
{
    struct program p;

    program_start(&p, scratch_dir, NULL, NULL, "%s%s", options[_i].words,
                  strncmp(options[_i].words, "run", 3) ? "" : " --out=/dev/null/run");
    program_wait(&p);
    ck_assert_msg(p.code == options[_i].code, "'%s' gave %d: %s", options[_i].words, p.code, p.err);
    ck_assert_msg(strstr(p.err, options[_i].says) != NULL, "'%s' is not in '%s'", options[_i].says,
                  p.err);
    ck_assert(p.code == 0 || !*p.out);
    program_fini(&p);
}
END_TEST

/* ---- Tables ---- */

#define KNOWN "; known columns: gpus, nodes, throughput"

static const struct {
    const char *table;
    int code;
    const char *says;
} tables[] = {
    {"GPUs,Throughput\n8,100\n16,190\n", 0, ""},
    {"gpus;throughput\n8;100\n", 1,
     "t.csv:1: the columns are separated by semicolons; CSV has commas" KNOWN},
    {"gpus;throughput\n8;100,5\n", 1, "separated by semicolons"},
    {"gpus\tthroughput\n8\t100\n", 1,
     "t.csv:1: the columns are separated by tabs; CSV has commas" KNOWN},
    {"gpus|throughput\n8|100\n", 1, "separated by bars"},
    {"8,100\n16,190\n", 1,
     "t.csv:1: '8' is no name of a column; the first row has the names" KNOWN},
    {"gpus,troughput\n8,100\n", 1, "unknown column 'troughput'; did you mean 'throughput'?" KNOWN},
    {"gpus\n8\n", 1, "there is no column 'throughput'" KNOWN},
    {"GPUs,gpus,throughput\n8,8,100\n", 1, "t.csv:1: columns 'GPUs' and 'gpus' are the same thing"},
    {"gpus,throughput,bucket_cap\n8,100,25\n", 1,
     "t.csv:2: column 'bucket_cap': '25': which unit? 25MiB"},
    {"gpus,throughput,bucket_cap\n8,100,25M\n16,190,25MiB\n", 0, ""},
    {"", 1, "t.csv:1: the table is empty"},
};

START_TEST(tables_are_read_or_refused)
{
    struct shell_result r;

    free(scratch_put("t.csv", tables[_i].table, strlen(tables[_i].table)));
    r = shell_program(scratch_dir, "predict --throughput=t.csv --gpus=32 --draws=20");
    ck_assert_msg(r.code == tables[_i].code && strstr(r.text, tables[_i].says), "gave %d: %s",
                  r.code, r.text);
}
END_TEST

/* ---- Names ---- */

static bool has_control(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\n') || *text == 0x7F ||
            ((unsigned char)*text == 0xC2 && (unsigned char)text[1] < 0xA0))
            return true;
    return false;
}

/* A job's name cannot steer a terminal: results, notes, errors and settings have no control
 * characters, in a pipe or not. */
static const char *const steered[] = {
    "predict evil.json dgx-a100 --gpus=2,8 --draws=20",
    "predict evil.json dgx-a100 --gpus=2,8 --draws=20 --format=csv",
    "predict evil.json dgx-a100 --gpus=2,8 --draws=20 --format=json",
    "whatif evil.json dgx-a100 --gpus=8 --bucket-cap=1MiB,25MiB --draws=20",
    "validate evil.json --cluster=dgx-a100",
    "replay evil.json --steps=1 --warmup=0 --out=run",
    "predict $(printf 'no\\033[31msuch') dgx-a100 --gpus=8",
    "predict evil.json $(printf 'no\\033[31msuch') --gpus=8",
};

START_TEST(names_do_not_steer_the_terminal)
{
    struct shell_result r =
        shell_run("sed 's/\"name\": \"tiny\"/\"name\": \"t\\\\u001b[31mi\\\\u009bny\"/' " JOB
                  " > %s/evil.json && grep -q u009b %s/evil.json",
                  scratch_dir, scratch_dir);

    ck_assert_int_eq(r.code, 0);
    r = shell_program(scratch_dir, "%s", steered[_i]);
    ck_assert_msg(*r.text && !has_control(r.text), "%s", r.text);
}
END_TEST

START_TEST(error_texts_are_printable)
{
    char turned[] = "a\xE2\x80\xAE"
                    "b\xE2\x81\xA6"
                    "c\xE2\x80\x8F\xE2\x80\x93\xE2\x82\xAC\xE2";
    char text[] = "a\x1b[31m\x07\r\tb\x7F \xC2\x9B \xC3\xA9\n";

    ck_assert_str_eq(lk_printable(turned),
                     "a???b???c???\xE2\x80\x93\xE2\x82\xAC\xE2"); /* a dash and a euro stay */
    ck_assert_str_eq(lk_printable(text), "a?[31m??\tb? ?? \xC3\xA9\n");
    ck_assert_int_eq(lk_fail(LK_EPARSE, "x\x1b[0m"), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "x?[0m");
    ck_assert_int_eq(lk_fail_context(LK_EPARSE, "\x1b%s", "c"), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "?c: x?[0m");
}
END_TEST

/* ---- Runs ---- */

#define SMALL "--model=mlp --layers=1 --channels=8 --context=8 --vocab=16 -b2 --warmup=0 "

/* A run whose loss leaves the numbers ends there and says where; what it recorded is a trace. */
START_TEST(a_loss_that_is_no_number_is_told)
{
    struct shell_result r = shell_program(
        scratch_dir, "run " SMALL "--optimizer=sgd --learning-rate=100 --steps=60 --out=run");
    char *trace = scratch_path(scratch_dir, "run/k1-b2-a1-r0/rank0.trace.json.gz");

    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, "rank 0 failed: the loss of step ") != NULL, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, ": the output of "));
    ck_assert(lk_file_exists(trace));
    free(trace);
}
END_TEST

START_TEST(a_cut_index_is_an_error)
{
    struct shell_result r =
        shell_program(scratch_dir, "run " SMALL "--steps=4 --out=run > %s/log", scratch_dir);
    char *path;

    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(shell_program(scratch_dir, "analyze run").code, 0);
    free(scratch_put("run/run.json", "{\"schema\": \"lockstep-run\", \"ver", 31));
    r = shell_program(scratch_dir, "analyze run");
    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, "run/run.json:1: ") != NULL, "%s", r.text);
    path = scratch_path(scratch_dir, "run");
    r = shell_program(path, "analyze k1-b2-a1-r0"); /* the run itself is whole */
    ck_assert_int_eq(r.code, 0);
    free(path);
}
END_TEST

/* An index may name runs that were moved away: the others are shown. */
START_TEST(a_run_that_is_gone_is_warned_of)
{
    struct shell_result r = shell_program(
        scratch_dir, "run " SMALL "--steps=4 --repetitions=2 --out=run > %s/log", scratch_dir);

    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(shell_run("rm -r %s/run/k1-b2-a1-r1", scratch_dir).code, 0);
    r = shell_program(scratch_dir, "analyze run");
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.text, "has a run k1-b2-a1-r1, which is not there"));
}
END_TEST

/* An endless pipe is given up. */
START_TEST(a_pipe_without_an_end)
{
    struct shell_result r = shell_run("yes '{\"a\": 1,' 2> /dev/null | " LK_BUILD_DIR
                                      "/lockstep predict /dev/stdin dgx-a100 --gpus=8 2>&1");

    ck_assert_int_eq(r.code, 1);
    ck_assert_msg(strstr(r.text, "/dev/stdin: larger than 1024 MiB") != NULL, "%s", r.text);
}
END_TEST

SUITE(unit_traps, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, options_are_read_or_refused, 0, LK_COUNT(options));
    tcase_add_loop_test(c, tables_are_read_or_refused, 0, LK_COUNT(tables));
    tcase_add_loop_test(c, names_do_not_steer_the_terminal, 0, LK_COUNT(steered));
    tcase_add_test(c, error_texts_are_printable);
    tcase_add_test(c, a_loss_that_is_no_number_is_told);
    tcase_add_test(c, a_cut_index_is_an_error);
    tcase_add_test(c, a_run_that_is_gone_is_warned_of);
    tcase_add_test(c, a_pipe_without_an_end);
}
