/* Uneven inputs and batches of each rank, as users ask for them: errors, files, and a what-if. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define SMALL                                                                                      \
    "--model=mlp --layers=1 --channels=8 --context=4 --vocab=16 --warmup=0 --no-pin --out=r"

static struct shell_result *run(const char *options)
{
    static struct shell_result r;

    r = shell_program(scratch_dir, "run %s " SMALL, options);
    return &r;
}

/* The data set, the counts and the options are named, and no rank starts. */
START_TEST(a_run_that_comes_to_the_rest_is_refused)
{
    const struct shell_result *r = run("-n3 --samples=100 -b8 --steps=5 --uneven=error");
    char *path = scratch_path(scratch_dir, "r"), text[500];

    ck_assert_int_eq(r->code, 2);
    ck_assert_msg(strstr(r->text, "the synthetic data: 100 samples") &&
                      strstr(r->text, "24 samples on 3 ranks: 4 of each") &&
                      strstr(r->text, "--uneven=drop") && strstr(r->text, "--uneven=pad") &&
                      strstr(r->text, "--uneven=join"),
                  "%s", r->text);
    ck_assert(!lk_file_exists(path));
    free(path);
    r = run("-n3 --samples=100 -b8 --steps=4 --uneven=error");
    ck_assert_msg(r->code == 0, "%s", r->text);
    r = run("-n3 --samples=100 -b8 --steps=5 --force"); /* synthetic samples are dropped */
    ck_assert_msg(r->code == 0, "%s", r->text);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i % 2 ? 0 : i / 2 % 15);
    free(scratch_put("tokens", text, sizeof text));
    r = run("-n3 --data=tokens --data-format=uint16 -b8 --steps=400 --force"); /* those of a data
                                                                                  set are not */
    ck_assert_int_eq(r->code, 2);
    ck_assert_msg(strstr(r->text, "tokens: ") && strstr(r->text, "--uneven=join"), "%s", r->text);
}
END_TEST

/* Of 100 samples on 3 ranks by 8 the fifth step has 4; the mean of five steps is 20. */
START_TEST(samples_are_counted)
{
    static const struct {
        const char *options, *samples;
    } rows[] = {{"--uneven=join", "\"samples_a_step\": 20,"},
                {"--uneven=join --join-divide=active", "\"samples_a_step\": 20,"},
                {"--uneven=pad", "\"samples_a_step\": 20."}, /* 102 / 5 */
                {"--uneven=drop", "\"samples_a_step\": 24,"},
                {"--drop-last", "\"samples_a_step\": 24,"}};
    char options[128], *path = scratch_path(scratch_dir, "r/k3-b8-a1-r0/result.json"), *text;
    const struct shell_result *r;
    size_t size;

    snprintf(options, sizeof options, "-n3 --samples=100 -b8 --steps=5 %s", rows[_i].options);
    r = run(options);
    ck_assert_msg(r->code == 0, "%s", r->text);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_msg(strstr(text, rows[_i].samples) != NULL, "%s", text);
    free(text);
    free(path);
}
END_TEST

START_TEST(batches_are_in_the_files)
{
    static const char *const files[] = {"r/run.json", "r/job.json"};
    const struct shell_result *r = run("--local-batch=5,3,3 --steps=3 --verify");

    ck_assert_msg(r->code == 0 && strstr(r->text, "3 ranks"), "%s", r->text);
    for (size_t i = 0; i < LK_COUNT(files); i++) {
        char *path = scratch_path(scratch_dir, files[i]), *text;
        size_t size;

        ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
        ck_assert_msg(strstr(text, "\"local_batches\": \"5+2x3\"") != NULL, "%s", text);
        free(text);
        free(path);
    }
    ck_assert_int_eq(
        shell_program(scratch_dir, "analyze r --verbose | grep 'local batch 5+2x3'").code, 0);
}
END_TEST

static const struct {
    const char *options, *text;
} bad[] = {
    {"-n3 --local-batch=8,4", "2 numbers, for 3 ranks"},
    {"-n2 --uneven=join --rank-samples=8,8,8", "3 numbers, for 2 ranks"},
    {"-n2 --uneven=join --sharding=zero3", "no passes"},
    {"-n2 --drop-last --uneven=pad", "--drop-last is --uneven=drop"},
    {"-n2 --rank-samples=8,8", "need --uneven=join"},
    {"-n2 --join-divide=active", "need --uneven=join"},
    {"--local-batch=8,4 --scaling=1,2", "not with --scaling"},
    {"--local-batch=8,4 --sharding=local-sgd", "weigh ranks alike"},
    {"-n2 --uneven=join --sharding=diloco", "weigh ranks alike"},
    {"-n2 --uneven=join --samples=1", "rank 1 has 0 samples"},
};

START_TEST(what_makes_no_sense_is_refused)
{
    const struct shell_result *r = run(bad[_i].options);

    ck_assert_int_eq(r->code, 2);
    ck_assert_msg(strstr(r->text, bad[_i].text) != NULL, "%s", r->text);
}
END_TEST

static const char job_text[] =
    "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"hand\", "
    "\"gradients\": [{\"name\": \"a\", \"elements\": 2097152, \"dtype\": \"float32\"}], "
    "\"compute\": ["
    "{\"local_batch\": 8, \"forward\": {\"value\": 10, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"backward\": {\"value\": 20, \"unit\": \"ms\", \"source\": \"hand\"}}, "
    "{\"local_batch\": 16, \"forward\": {\"value\": 18, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"backward\": {\"value\": 36, \"unit\": \"ms\", \"source\": \"hand\"}}]}";

static const char one_batch[] =
    "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"hand\", "
    "\"gradients\": [{\"name\": \"a\", \"elements\": 2097152, \"dtype\": \"float32\"}], "
    "\"compute\": ["
    "{\"local_batch\": 12, \"forward\": {\"value\": 14, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"backward\": {\"value\": 28, \"unit\": \"ms\", \"source\": \"hand\"}}]}";

static const char cluster_text[] =
    "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"hand\", \"preset\": false, "
    "\"nodes\": 0, \"gpus_per_node\": 1, \"gpu\": \"slow\", "
    "\"inter\": {\"latency\": {\"value\": 50, \"unit\": \"us\", \"source\": \"hand\"}, "
    "\"bandwidth\": {\"value\": 1, \"unit\": \"GB/s\", \"source\": \"hand\"}}, "
    "\"stragglers\": {\"known\": [{\"rank\": 1, \"compute\": {\"value\": 1.5, \"unit\": \"1\", "
    "\"source\": \"hand\"}}]}}";

#define ASK                                                                                        \
    "whatif job.json cluster.json --gpus=2 --local-batch=12 --rank-batches=equal,balanced 2>&1 | " \
    "tr '\\n' ' ' | tr -s ' '"

/* 6 + 3 b ms for b samples, and 1.5 times that: 24 samples are 15 and 9 (sim's test_balance). The
 * sentence about the best and that about the split say one thing: where no run had such batches, it
 * is not called best, and the run that shows it is named. */
START_TEST(the_split_is_named_with_its_command)
{
    struct shell_result r;

    free(scratch_put("job.json", job_text, sizeof job_text - 1));
    free(scratch_put("cluster.json", cluster_text, sizeof cluster_text - 1));
    r = shell_program(scratch_dir, ASK);
    ck_assert_msg(strstr(r.text, "Local batches 15+9 of 2 GPUs") &&
                      strstr(r.text, "by lockstep run --local-batch=15,9"),
                  "%s", r.text);
    r = shell_program(scratch_dir, "predict job.json cluster.json --gpus=3 --rank-batches=16+8");
    ck_assert_int_eq(r.code, 2);
    ck_assert_msg(strstr(r.text, "'16+8' is of 2 GPUs") != NULL, "%s", r.text);
    free(scratch_put("job.json", one_batch, sizeof one_batch - 1));
    r = shell_program(scratch_dir, ASK);
    ck_assert_msg(strstr(r.text, "no setting asked for with a measured batch is better") &&
                      strstr(r.text, "but such batches were not measured: lockstep run"),
                  "%s", r.text);
}
END_TEST

static const char node_text[] =
    "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"node\", \"preset\": false, "
    "\"nodes\": 1, \"gpus_per_node\": 2, \"gpu\": \"timed\", "
    "\"intra\": {\"latency\": {\"value\": 5, \"unit\": \"us\", \"source\": \"hand\"}, "
    "\"bandwidth\": {\"value\": 20, \"unit\": \"GB/s\", \"source\": \"hand\"}}}";

/* A run with a slow rank, on links that no machine's loopback contradicts: step, throughput and
 * gain of a split are one number each, of one another, and those of predict. Its samples a second
 * may be more than those of equal batches allow. */
START_TEST(one_split_has_one_step)
{
    double now, step, throughput, gain, asked;
    struct shell_result r;

    r = shell_program(scratch_dir,
                      "run -n2 -b32 --device=timed --slow-rank=1:2 --steps=20 "
                      "--model=gpt --layers=2 --heads=2 --channels=64 --context=32 --vocab=256 "
                      "--no-pin --out=r");
    ck_assert_msg(r.code == 0, "%s", r.text);
    free(scratch_put("cluster.json", node_text, sizeof node_text - 1));
    r = shell_program(scratch_dir,
                      "whatif r/job.json cluster.json --gpus=2 --format=csv "
                      "--rank-batches=equal,45+19 2>/dev/null | "
                      "awk -F, '$3 == 32 { now = $9 } $3 == 45 { print now, $6, $9, $21 }'");
    ck_assert_msg(sscanf(r.text, "%lf %lf %lf %lf", &now, &step, &throughput, &gain) == 4, "%s",
                  r.text);
    ck_assert_double_eq_tol(64 / step, throughput, 1e-6 * throughput);
    ck_assert_double_eq_tol(1 + gain / 100, throughput / now, 1e-6);
    r = shell_program(scratch_dir, "predict r/job.json cluster.json --gpus=2 --format=csv "
                                   "--rank-batches=45+19 2>/dev/null | "
                                   "awk -F, 'NR == 2 { print $6 }'");
    ck_assert_int_eq(sscanf(r.text, "%lf", &asked), 1);
    ck_assert_double_eq_tol(asked, step, 1e-9 * step);
}
END_TEST

SUITE(uneven_cli, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, a_run_that_comes_to_the_rest_is_refused);
    tcase_add_loop_test(c, samples_are_counted, 0, 5);
    tcase_add_test(c, batches_are_in_the_files);
    tcase_add_loop_test(c, what_makes_no_sense_is_refused, 0, LK_COUNT(bad));
    tcase_add_test(c, the_split_is_named_with_its_command);
    tcase_add_test(c, one_split_has_one_step);
}
