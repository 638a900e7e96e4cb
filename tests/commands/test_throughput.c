/* Forecasts from tables of throughputs, through the program. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Write t.csv, run `WORDS t.csv REST`, and check that the output contains `expect`. */
static void check_run(const char *csv, const char *words, const char *rest, int code,
                      const char *expect)
{
    char *path = scratch_path(scratch_dir, "t.csv");
    FILE *f = fopen(path, "w");
    struct program p;

    ck_assert_ptr_nonnull(f);
    fputs(csv, f);
    ck_assert_int_eq(fclose(f), 0);
    program_run(&p, scratch_dir, code, "%s %s %s --verbose", words, path, rest);
    ck_assert_msg(said(code ? p.err : p.out, expect), "no '%s' in: %s%s", expect, p.out, p.err);
    program_fini(&p);
    free(path);
}

/* Check what a table is warned of, on stderr, before any number. */
static void check_warning(const char *csv, const char *expect)
{
    char *path = scratch_path(scratch_dir, "t.csv");
    FILE *f = fopen(path, "w");
    struct program p;

    ck_assert_ptr_nonnull(f);
    fputs(csv, f);
    ck_assert_int_eq(fclose(f), 0);
    program_run(&p, scratch_dir, expect != NULL, "predict --throughput %s --gpus=8", path);
    if (expect)
        ck_assert_msg(strstr(p.err, expect), "no '%s' in: %s", expect, p.err);
    else
        ck_assert_msg(!strstr(p.err, "warning"), "warned: %s", p.err);
    program_fini(&p);
    free(path);
}

#define SCALE                                                                                      \
    "gpus,nodes,throughput,local_batch\n1,1,100,32\n2,1,195,32\n4,1,380,32\n8,1,745,32\n"          \
    "16,2,1400,32\n32,4,2700,32\n"
#define ONE_NODE "gpus,throughput\n1,100\n2,196\n"

static const struct {
    const char *csv, *words, *rest;
    int code;
    const char *expect;
} cases[] = {
    {SCALE, "predict --throughput", "--gpus=64", 0, "extrapolated x2 on gpus"},
    {SCALE, "predict --throughput", "--gpus=16 --format=csv", 0, "measured"},
    {SCALE, "predict --throughput", "--gpus=64 --local-batch=64", 0,
     "extrapolated to another local batch, x2 on gpus, x2 on local batch"},
    /* Efficiency is of the smallest row, fewer GPUs asked for or not. */
    {"gpus,throughput\n4,390\n8,770\n", "predict --throughput", "--gpus=2,8", 0,
     "of linear scaling from 4 GPUs"},
    /* The rows rise again behind a poor one: there is no knee before. */
    {"gpus,nodes,throughput\n8,1,100\n16,2,140\n32,4,300\n64,8,560\n", "predict --throughput",
     "--gpus=64", 0, "No knee within"},
    {SCALE, "validate --throughput", "", 0, "of 5"},
    {ONE_NODE, "predict --throughput", "--gpus=8", 0, "assumed: GPUs of a node: 8 GPUs a node"},
    {ONE_NODE, "predict --throughput", "--gpus=16", 1, "The cheapest run that would supply it: 2"},
    {SCALE, "predict --throughput", "--gpus=4096", 1, "times the largest count"},
    {SCALE, "predict --throughput", "--gpus=8 --local-batch=1000", 1, "local batch of 1000"},
    {ONE_NODE, "predict --throughput", "--gpus=2 --local-batch=8", 0, "81.6 ms"},
    {"gpus,throughput\n4,9\n", "validate --throughput", "", 1, "nothing to hold out"},
    {"gpus,throughput\n4,-9\n", "validate --throughput", "", 1, "t.csv:2: column 'throughput'"},
    {"gpus,throughput\n0,9\n", "validate --throughput", "", 1, "t.csv:2: column 'gpus'"},
    {"gpus,throughput\n4,nan\n", "validate --throughput", "", 1, "t.csv:2"},
    {"gpus,nodes,throughput\n4,3,9\n", "validate --throughput", "", 1, "do not divide"},
    {"gpus,thruput\n4,9\n", "validate --throughput", "", 1, "thruput"},
    {"gpus,throughput\n", "validate --throughput", "", 1, "no rows"},
    {SCALE, "predict --throughput", "", 2, "--gpus is missing"},
    {SCALE, "predict --throughput", "--gpus=8 --cluster=x", 2, "both or neither"},
    {SCALE, "predict --throughput", "--gpus=8 --bucket-cap=1MiB", 2, "takes the step model"},
    {SCALE, "predict --throughput", "--gpus=8,64 --global-batch=512 --format=csv", 0, "64,8,8,1,"},
    {SCALE, "predict --throughput", "--gpus=1 --global-batch=512 --format=csv", 0, "1,1,32,16,"},
    {SCALE, "predict --throughput", "--gpus=8 --global-batch=100", 2, "does not split"},
    {ONE_NODE, "predict --throughput", "--gpus=2 --global-batch=8", 1, "no column local_batch"},
    {SCALE, "predict --throughput", "--gpus=64", 0, "32 GPUs from 1, 2, 4, 8, 16"},
    {SCALE, "validate --throughput", "", 0, "32 GPUs from 1, 2, 4, 8, 16"},
    {SCALE, "validate --throughput", "run", 2, "both or neither"},
    {SCALE, "whatif --throughput", "--gpus=32,64 --local-batch=32,64 --accumulation=1,4", 0,
     "Most samples/s of all asked for at 64 GPUs, whatever a step learns: local batch 32, "
     "accumulation 4"},
    {SCALE, "whatif --throughput", "--gpus=32 --accumulation=2 --format=csv --table=effects", 0,
     "32,accumulation,2,"},
    {SCALE, "whatif --throughput", "--gpus=32 --gpus-per-node=4,8 --format=csv", 0, "32,8,32,1,"},
    {SCALE, "whatif --throughput", "--gpus=8,16 --global-batch=512 --format=csv", 0, "16,2,32,1,"},
    {SCALE, "whatif --throughput", "--gpus=64,4096", 0,
     "1 configuration is left out. The first: 4096"},
    {SCALE, "whatif --throughput", "--gpus=64 --bucket-cap=1MiB", 2,
     "--bucket-cap takes the step model, and throughputs alone do not tell it: say what the job"},
    {SCALE, "whatif --throughput", "--gpus=64 --nic-bandwidth=x2", 2, "takes the step model"},
    {SCALE, "whatif --throughput", "", 2, "--gpus is missing"},
    {SCALE, "whatif --throughput", "--gpus=8 --cluster=x", 2, "both or neither"},
    {ONE_NODE, "whatif --throughput", "--gpus=2 --local-batch=8", 0, "81.6 ms"},
    {ONE_NODE, "whatif --throughput", "--gpus=2 --global-batch=8", 1, "no column local_batch"},
};

/* Options that give the job and the machine. */
#define HOSTS  "gpus,throughput\n1,10\n2,16\n"
#define BOX    "gpus,throughput,local_batch\n1,1300,192\n4,5000,192\n8,9800,192\n"
#define FAST   "gpus,throughput,local_batch\n8,1e9,32\n16,2e9,32\n32,4e9,32\n"
#define RESNET "--parameters=25.6M --cluster=dgx-1-v100 --draws=50 "
#define SLOW   "--parameters=1M --cluster=ethernet-10g --local-batch=8 --draws=50 "

static const struct {
    const char *csv, *words, *rest;
    int code;
    const char *expect;
} model_cases[] = {
    {BOX, "predict --throughput", RESNET "--gpus=16,64", 0, "preset"},
    {BOX, "predict --throughput", RESNET "--gpus=8 --format=csv", 0, "measured"},
    {BOX, "predict --throughput", RESNET "--gpus=8,16 --global-batch=3072 --format=csv", 0,
     "16,2,192,1,"},
    {BOX, "predict --throughput",
     RESNET "--gpus=16 --local-batch=96,192 --accumulation=1,2 --format=csv", 0, "16,2,96,2,"},
    {BOX, "predict --throughput", RESNET "--gpus=16 --bucket-cap=1MiB,25MiB", 0, "1.00 MiB"},
    {BOX, "predict --throughput", RESNET "--gpus=16 --format=json", 0, "most is lost to"},
    {BOX, "validate --throughput", RESNET, 0, "law alone"},
    {HOSTS, "predict --throughput", SLOW "--gpus=4,8", 0, "knee"},
    {HOSTS, "predict --throughput", "--parameters=1M --cluster=ethernet-10g --gpus=4", 1,
     "no column local_batch"},
    {HOSTS, "predict --throughput",
     "--parameters=9B --cluster=ethernet-10g --local-batch=8 --gpus=4", 1,
     "contradicts the step model of ethernet-10g"},
    /* No draw of the step model explains these; on another machine the law knows nothing. */
    {FAST, "predict --throughput", "--parameters=1000000000 --cluster=dgx-h100 --gpus=64", 1,
     "By the scaling law alone"},
    {FAST, "predict --throughput",
     "--parameters=1000000000 --measured-on=dgx-h100 --cluster=dgx-1-v100 --gpus=64", 1,
     "No forecast: "},
    /* The rows' machine has the memory; the one asked for has not. */
    {"gpus,throughput,local_batch\n8,1000,32\n16,1950,32\n32,3800,32\n", "predict --throughput",
     "--parameters=3e9 --measured-on=dgx-h100 --cluster=dgx-1-v100 --gpus=64", 1,
     "64 GPUs: does not fit in memory"},
    {BOX, "predict --throughput", RESNET "--gpus=16 --global-batch=100", 2, "does not split"},
    {BOX, "predict --throughput", RESNET "--gpus=16 --gradients=t.csv", 2, "one or the other"},
    {BOX, "predict --throughput", "--parameters=many --cluster=dgx-2 --gpus=16", 2,
     "a count of parameters"},
    {BOX, "predict --throughput", "--parameters=1M --gpus=16", 2, "both or neither"},
    {BOX, "predict --throughput", RESNET "--gpus=16 --trace=x", 2, "--trace"},
    {BOX, "predict", "--parameters=1M --gpus=8", 2, "go with --throughput"},
    {BOX, "predict --throughput", RESNET "--gpus=16384", 1, "times the largest count"},
    {BOX, "whatif --throughput", RESNET "--gpus=16 --bucket-cap=1MiB,25MiB --sharding=ddp,zero3", 0,
     "16  sharding    zero3"},
    {BOX, "whatif --throughput", RESNET "--gpus=16 --nic-bandwidth=x1,x0.1", 0,
     "16  nic-bandwidth  x0.1"},
    {BOX, "whatif --throughput", RESNET "--gpus=16 --gpus-per-node=4,8 --format=csv", 0,
     "16,4,192,1,"},
    {HOSTS, "whatif --throughput", SLOW "--gpus=4 --reduce=last,every --accumulation=1,2", 0,
     "whatever a step learns: accumulation 2, reduce last"},
    {HOSTS, "whatif --throughput",
     "--parameters=1M --cluster=ethernet-10g --gpus=4 --local-batch=8 --grad-dtype=own,bfloat16", 0,
     "whatever a step learns: grad dtype bfloat16"},
    {BOX, "whatif --throughput", RESNET "--gpus=16 --slow-rank=1:2", 2,
     "--slow-rank takes the measured compute of each rank"},
    {BOX, "whatif", "--parameters=1M --gpus=8", 2, "go with --throughput"},
};

START_TEST(models)
{
    check_run(model_cases[_i].csv, model_cases[_i].words, model_cases[_i].rest,
              model_cases[_i].code, model_cases[_i].expect);
}
END_TEST

START_TEST(tables)
{
    check_run(cases[_i].csv, cases[_i].words, cases[_i].rest, cases[_i].code, cases[_i].expect);
}
END_TEST

/* A row ten times too high, the times of steps, repeats that are none; and a table that scales as
 * badly as a published one. */
static const struct {
    const char *csv, *expect;
} contradictions[] = {
    {"gpus,throughput\n1,100\n2,195\n4,3800\n8,740\n",
     "t.csv:4: a GPU of 4 brings 9.74 times what one of 2 brings (line 3)"},
    {"gpus,throughput\n1,100\n2,195\n4,3800\n8,740\n",
     "t.csv:5: 8 GPUs bring 0.195 times the throughput of 4 (line 4)"},
    /* No row is far above the one before it. */
    {"gpus,throughput\n1,0.31\n2,0.32\n4,0.33\n", "t.csv:3: 2 GPUs bring 1.03 times"},
    {"gpus,throughput\n1,100\n1,1000\n4,3800\n",
     "t.csv:3: the same configuration of 1 GPUs has 10 times the throughput of line 2"},
    {"gpus,throughput\n1,100\n2,150\n4,250\n4,245\n", NULL},
};

START_TEST(a03_contradictions_in_a_table)
{
    check_warning(contradictions[_i].csv, contradictions[_i].expect);
}
END_TEST

/* Rows that do not say their nodes are placed on full ones. */
static const struct {
    const char *csv, *rest;
    int code;
    const char *expect;
} places[] = {
    {"gpus,nodes,throughput\n8,1,800\n16,,1590\n32,,3150\n", "--gpus=64 --format=csv", 0, "64,8,"},
    {"gpus,throughput\n1,100\n2,196\n4,390\n8,770\n", "--gpus=16 --gpus-per-node=4", 0,
     "extrapolated x2 on gpus"},
    {"gpus,throughput\n8,800\n16,1590\n32,3150\n", "--gpus=64", 0,
     "assumed: GPUs of a node: 8 GPUs a node"},
    {"gpus,throughput\n1,100\n9,800\n", "--gpus=18", 2, "how many has a node"},
};

/* No row is far above the one before it, and the last is far above the first. */
START_TEST(growth_over_several_rows_is_doubted)
{
    char *path = scratch_put("t.csv", "gpus,throughput\n1,100\n2,215\n4,462\n", 34);
    struct program p;

    program_run(&p, scratch_dir, 0, "predict --throughput %s --gpus=8", path);
    ck_assert_msg(strstr(p.err, "t.csv:4: a GPU of 4 brings 1.16 times what one of 1 brings (line "
                                "2)"),
                  "%s", p.err);
    program_fini(&p);
    free(path);
}
END_TEST

START_TEST(a11_rows_without_nodes_are_placed)
{
    check_run(places[_i].csv, "predict --throughput", places[_i].rest, places[_i].code,
              places[_i].expect);
}
END_TEST

START_TEST(a11_a_refused_count_leaves_the_others)
{
    check_run(SCALE, "predict --throughput", "--gpus=64,4096", 0,
              "1 configuration is left out. The first: 4096 GPUs are 128");
    check_run(SCALE, "predict --throughput", "--gpus=64,4096", 0, "extrapolated x2 on gpus");
    check_run(SCALE, "predict --throughput", "--gpus=4096", 1, "times the largest count");
}
END_TEST

START_TEST(a11_throughputs_have_an_interval)
{
    check_run(SCALE, "predict --throughput", "--gpus=64 --format=csv", 0,
              "throughput_lo_per_s,throughput_hi_per_s");
}
END_TEST

/* Plans take a job and a cluster; from throughputs alone they are refused. */
START_TEST(a11_plans_of_a_table)
{
    check_run(BOX, "predict --throughput", RESNET "--gpus=16 --price=2 --format=json", 0,
              "cost_per_step");
    check_run(BOX, "predict --throughput", RESNET "--gpus=16 --memory", 0, "optimizer states");
    check_run(BOX, "predict --throughput", "--gpus=8 --price=2", 2,
              "memory, cost and time to a target take");
}
END_TEST

/* The cap of a single rank's row says nothing: the answer is that of the same table with the cap of
 * the others. */
START_TEST(a11_the_cap_of_one_rank_does_not_count)
{
    char *out[2];

    for (int i = 0; i < 2; i++) {
        char *path = scratch_path(scratch_dir, "t.csv");
        FILE *f = fopen(path, "w");
        struct program p;

        ck_assert_ptr_nonnull(f);
        fprintf(f,
                "gpus,throughput,local_batch,bucket_cap\n1,1300,192,%s\n"
                "4,5000,192,25MiB\n8,9800,192,25MiB\n",
                i ? "1MiB" : "25MiB");
        ck_assert_int_eq(fclose(f), 0);
        program_run(&p, scratch_dir, 0,
                    "predict --throughput %s " RESNET "--gpus=16 --bucket-cap=25MiB --format=csv",
                    path);
        out[i] = strdup(p.out);
        program_fini(&p);
        free(path);
    }
    ck_assert_str_eq(out[0], out[1]);
    free(out[0]);
    free(out[1]);
}
END_TEST

START_TEST(b_a_smaller_local_batch_is_answered)
{
    check_run(SCALE, "predict --throughput", "--gpus=32 --local-batch=2", 0,
              "extrapolated to another local batch");
    check_run(SCALE, "predict --throughput", "--gpus=32 --local-batch=129", 1,
              "times beyond the nearest");
}
END_TEST

/* Several nodes from one with a preset: its network is assumed, which the first note says, until a
 * row on two nodes tells it. */
START_TEST(b_a_preset_network_is_assumed)
{
    static const char assumed[] =
        "assumed: the network between nodes: a datasheet's, of dgx-1-v100";
    char *path = scratch_path(scratch_dir, "t.csv");
    struct program p;

    check_run(BOX, "predict --throughput", RESNET "--gpus=16", 0, assumed);
    check_run(BOX "16,19000,192\n", "predict --throughput", RESNET "--gpus=32", 0, "preset");
    program_run(&p, scratch_dir, 0, "predict --throughput %s " RESNET "--gpus=32 --verbose", path);
    ck_assert_msg(!strstr(p.out, assumed), "assumed what was measured: %s", p.out);
    program_fini(&p);
    free(path);
}
END_TEST

SUITE(throughput, t)
{
    tcase_add_test(t, b_a_preset_network_is_assumed);
    tcase_add_test(t, growth_over_several_rows_is_doubted);
    tcase_add_test(t, a11_plans_of_a_table);
    tcase_add_test(t, a11_the_cap_of_one_rank_does_not_count);
    tcase_add_test(t, b_a_smaller_local_batch_is_answered);
    tcase_add_loop_test(t, a03_contradictions_in_a_table, 0, (int)LK_COUNT(contradictions));
    tcase_add_loop_test(t, a11_rows_without_nodes_are_placed, 0, (int)LK_COUNT(places));
    tcase_add_test(t, a11_a_refused_count_leaves_the_others);
    tcase_add_test(t, a11_throughputs_have_an_interval);
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, tables, 0, (int)LK_COUNT(cases));
    tcase_add_loop_test(t, models, 0, (int)LK_COUNT(model_cases));
}
