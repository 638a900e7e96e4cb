/* lockstep doctor as a user asks it: rates, tables, results, what is wrong with a question. */
#include "base/array.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATES "doctor --gpus 1,8 --throughput 2500,12000 "
#define WHO   "--model resnet50 --gpu a100 --local-batch 128 "

static const struct {
    const char *words;
    int code;
    const char *says; /* on standard error where the code is not 0 */
} rows[] = {
    {RATES WHO, 0, "8 GPUs make 12,000 samples/s, 60 % of linear scaling against 1"},
    {RATES WHO, 0, "dgx-a100"},
    {RATES WHO, 0, " --throughput=2500,12000"},
    {RATES WHO "--result accumulate-x4=12000", 0, "--result=accumulate-x4=12000"},
    {RATES WHO "--result synthetic=19300", 0, "Most likely the input pipeline"},
    {RATES WHO "--result apart=19000/1500", 0, "Most likely one GPU computes"},
    {RATES WHO, 0, "run for two minutes: lockstep profile --out profile-8 -- JOB, on 8 GPUs"},
    {RATES WHO "nowhere.csv", 2, "a table takes the place of"},
    {"doctor --gpus 1,8 --throughput 410,3200 --model resnet50 --gpu a100", 0,
     "loses nothing that has to be explained"},
    {RATES "--model resnet50 --gpu a100", 0, "the local batch is guessed"},
    {RATES "--parameters 25M --cluster dgx-a100 --local-batch 128", 0, "of dgx-a100."},
    {RATES WHO "--format json", 0, "\"causes\""},
    {RATES WHO "--fail-below 0.9", 3, ""},
    {RATES "--gpu a100", 2, "which model?"},
    {RATES "--model resnet5 --gpu a100", 2, "resnet50, resnet101"},
    {RATES "--model resnet50", 2, "which machine?"},
    {RATES "--model resnet50 --gpu a100 --cluster dgx-a100", 2, "give one or the other"},
    {RATES "--model resnet50 --gpu abacus", 2, "no preset has a 'abacus'"},
    {"doctor --gpus 1,8 --throughput 2500 " WHO, 2, "another number of items"},
    {"doctor --gpus 1,8 --throughput 2500,1,2 " WHO, 2, "another number of items"},
    {"doctor --gpus 1,8 --throughput 2500,none " WHO, 2, "'none' is not a rate"},
    {"doctor --gpus 1,8 --throughput 2.5k,12k " WHO, 2, "'2.5k' is not a rate"},
    {"doctor --gpus 1,8 --throughput 2500,24000 " WHO, 0, "more than is to be expected"},
    {"doctor --gpus 1,8 --throughput 60,470 " WHO, 0, "1 GPU reaches 0.5 % of the peak"},
    {"doctor --gpus 8 --throughput 2500 " WHO, 2, "two counts of GPUs"},
    {"doctor " WHO, 2, "which rates?"},
    {RATES WHO "--result synthetic", 2, "is not NAME=RATE"},
    {RATES WHO "--result synthetic=3/4", 2, "is not NAME=RATE"},
    {RATES WHO "--result magic=3", 2, "there is no experiment 'magic'"},
};

START_TEST(answers)
{
    struct program p;

    program_run(&p, scratch_dir, rows[_i].code, "%s", rows[_i].words);
    ck_assert_msg(strstr(rows[_i].code == 2 ? p.err : p.out, rows[_i].says) != NULL,
                  "no '%s' in: %s%s", rows[_i].says, p.out, p.err);
    program_fini(&p);
}
END_TEST

/* A table is the same question, and its answer by -q is the first sentences alone. */
START_TEST(a_table_is_the_same_question)
{
    static const char table[] = "gpus,throughput,local_batch\n1,2500,128\n8,12000,128\n";
    char *path = scratch_put("t.csv", table, strlen(table));
    struct program a, b;

    program_run(&a, scratch_dir, 0, "%s", RATES WHO "-q");
    program_run(&b, scratch_dir, 0, "doctor %s --model resnet50 --gpu a100 -q", path);
    ck_assert_str_eq(a.out, b.out);
    ck_assert_ptr_null(strstr(a.out, "Causes"));
    program_fini(&a);
    program_fini(&b);
    program_run(&b, scratch_dir, 2, "doctor %s --gpus 1 --model resnet50 --gpu a100", path);
    program_assert_says(&b, "--gpus and --throughput are given together");
    program_fini(&b);
    free(path);
}
END_TEST

/* A machine whose ranks are joined by shared memory. */
static const char machine[] =
    "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"here\", \"preset\": true,"
    " \"nodes\": 1, \"gpus_per_node\": 8, \"gpu\": \"any\", \"intra\": {"
    "\"latency\": {\"value\": 30, \"unit\": \"us\", \"source\": \"assumed\"},"
    "\"bandwidth\": {\"value\": 1, \"unit\": \"GB/s\", \"source\": \"assumed\"}}}";

/* Runs of the program with a cause planted, on one rank and on two: the folder of both is all that
 * the doctor is told. The timed device waits for what is computed, so other work on the machine
 * hardly counts. */
static const struct {
    const char *planted, *says;
} runs[] = {
    {"--slow-rank=1:2", "Most likely one GPU computes more slowly"},
    {"--input-delay=80ms", "Most likely the input pipeline"},
};

START_TEST(runs_are_evidence)
{
    char *path = scratch_put("machine.json", machine, strlen(machine));
    struct program p;

    program_run(&p, scratch_dir, 0,
                "run --scaling=1,2 --repetitions=1 --device=timed --timed-flops=1e9 --model=gpt "
                "--layers=2 --heads=2 --channels=64 --context=32 --vocab=64 -b2 --steps=6 "
                "--warmup=2 --no-pin --out=%s/curve %s",
                scratch_dir, runs[_i].planted);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "doctor %s/curve --cluster %s", scratch_dir, path);
    ck_assert_msg(strstr(p.out, runs[_i].says) != NULL, "%s", p.out);
    program_fini(&p);
    free(path);
}
END_TEST

/* A table of ranks' times goes with the rate on as many GPUs. */
START_TEST(a_table_of_times_is_evidence)
{
    static const char even[] = "rank,step,own_ms\n0,1,51\n1,1,51\n2,1,51\n3,1,85\n0,2,51\n"
                               "1,2,51\n2,2,51\n3,2,85\n";
    char *path = scratch_put("times.csv", even, strlen(even));
    struct program p;

    program_run(&p, scratch_dir, 0, "doctor --gpus 1,4 --throughput 2500,6000 " WHO "%s", path);
    ck_assert_msg(strstr(p.out, "Most likely one GPU computes") != NULL, "%s", p.out);
    program_fini(&p);
    program_run(&p, scratch_dir, 2, RATES WHO "%s", path);
    program_assert_says(&p, "times of 4 ranks, but no rate is of as many GPUs");
    program_fini(&p);
    free(path);
}
END_TEST

SUITE(doctor_cli, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, answers, 0, LK_COUNT(rows));
    tcase_add_test(c, a_table_is_the_same_question);
    tcase_add_loop_test(c, runs_are_evidence, 0, LK_COUNT(runs));
    tcase_add_test(c, a_table_of_times_is_evidence);
}
