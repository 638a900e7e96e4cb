/* job.json: hand-written files are read, written files are read back, bad files are refused. */
#include "base/array.h"
#include "facts/job.h"
#include "tests/rigs/bad_file.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define Q(v, unit) "{\"value\": " v ", \"unit\": \"" unit "\", \"source\": \"by hand\"}"

/* clang-format would indent the text after a macro in a literal ever deeper. */
/* clang-format off */
static const char good[] =
    "{ // a job by hand\n"
    "  \"schema\": \"lockstep-job\",\n"
    "  \"version\": 1,\n"
    "  \"name\": \"tiny\",\n"
    "  \"sample_unit\": \"image\",\n"
    "  \"ddp_rule\": \"torch-2.x\",\n"
    "  \"first_bucket_bytes\": 1048576,\n"
    "  \"bucket_cap_bytes\": 26214400,\n"
    "  \"accumulation\": 2,\n"
    "  \"no_sync\": true,\n"
    "  \"prefetch_depth\": 4,\n"
    "  \"gradients\": [\n"
    "    {\"name\": \"a\", \"elements\": 300000, \"dtype\": \"float32\", \"ready\": 1.0},\n"
    "    {\"name\": \"b\", \"elements\": 100, \"dtype\": \"float16\", \"ready\": 0.25}\n"
    "  ],\n"
    "  \"ready_order\": [1, 0],\n"
    "  \"compute\": [\n"
    "    {\"local_batch\": 8, \"forward\": " Q("3", "ms") ", \"backward\": " Q("6000", "us") ",\n"
    "     \"input\": " Q("0", "s") ", \"optimizer\": " Q("1", "ms") ",\n"
    "     \"gap\": " Q("10", "us") ", \"transient\": " Q("2", "%") "}\n"
    "  ],\n"
    "  \"runs\": [\n"
    "    {\"source\": \"x\", \"gpus\": 2, \"nodes\": 1, \"local_batch\": 8, \"accumulation\": 2,\n"
    "     \"no_sync\": true, \"first_bucket_bytes\": 1048576, \"bucket_cap_bytes\": 26214400,\n"
    "     \"step_s\": [0.02, 0.021], \"rank_compute_s\": [0.018, 0.019]},\n"
    "    {\"source\": \"y\", \"gpus\": 1, \"nodes\": 1, \"local_batch\": 8, \"accumulation\": 2,\n"
    "     \"no_sync\": true, \"first_bucket_bytes\": 1048576,\n"
    "     \"bucket_cap_bytes\": 18446744073709551615,\n"
    "     \"step_s\": [0.02]}\n"
    "  ],\n"
    "  \"find_unused_parameters\": true,\n"
    "  \"sync_batch_norm\": [{\"channels\": 64, \"at\": 0.5}],\n"
    "  \"layers\": [{\"name\": \"fc\", \"flops\": " Q("6", "Mflop") "}],\n"
    "  \"optimizer\": \"adamw\",\n"
    "  \"master_weights\": true,\n"
    "  \"gradient_as_bucket_view\": true,\n"
    "  \"transformer\": {\"layers\": 2, \"hidden\": 768, \"heads\": 12, \"sequence\": 1024,\n"
    "    \"recompute\": \"full\"},\n"
    "  \"learning_rate\": " Q("0.1", "1") ",\n"
    "  \"learning_rate_batch\": 256,\n"
    "  \"noise_scale\": " Q("512", "1") "\n"
    "}\n";
/* clang-format on */

static enum lk_status read_and_drop(const char *path)
{
    struct lk_job j;
    enum lk_status st = lk_job_read(path, &j);

    if (st == LK_OK)
        lk_job_fini(&j);
    return st;
}

static void check_job(const struct lk_job *j)
{
    ck_assert_int_eq(j->transformer.hidden, 768);
    ck_assert_int_eq(j->transformer.activation_bytes, 2);
    ck_assert_int_eq(j->transformer.recompute, LK_JOB_RECOMPUTE_FULL);
    ck_assert_str_eq(j->name, "tiny");
    ck_assert_uint_eq(j->n_tensors, 2);
    ck_assert_uint_eq(lk_job_gradient_bytes(j), 1200200);
    ck_assert_uint_eq(j->ready_order[0], 1);
    ck_assert_double_eq_tol(j->compute[0].backward_s.value, 0.006, 1e-15); /* 6000 us, rounded */
    ck_assert_double_eq_tol(j->compute[0].transient.value, 0.02, 1e-15);
    ck_assert_int_eq(j->runs[0].config.world_size, 1); /* sorted */
    ck_assert_uint_eq(j->runs[0].config.cap_bytes, UINT64_MAX);
    ck_assert_uint_eq(j->runs[1].n_steps, 2);
    ck_assert(j->runs[1].rank_compute_s[1] == 0.019);
    ck_assert_ptr_null(j->runs[0].rank_compute_s);
    ck_assert(lk_quantity_known(&j->noise_scale));
    ck_assert(j->find_unused_parameters && j->master_weights && j->gradient_as_bucket_view);
    ck_assert_int_eq(j->optimizer, LK_JOB_OPTIMIZER_ADAMW);
    ck_assert_uint_eq(j->n_sync_bn, 1);
    ck_assert_int_eq(j->sync_bn[0].channels, 64);
    ck_assert_uint_eq(j->n_layers, 1);
    ck_assert(j->layers[0].flops.value == 6e6);
    ck_assert(!lk_quantity_known(&j->layers[0].bytes));
    ck_assert_int_eq(j->learning_rate_batch, 256);
    ck_assert(!lk_quantity_known(&j->flops_per_sample));
}

/* PyTorch's own cap is the same whether a file says it or not; another one limits the first bucket,
 * too, where the rule says so. */
static const struct {
    const char *keys;
    uint64_t first, cap;
} caps[] = {
    {"", LK_BUCKET_FIRST_BYTES, LK_BUCKET_CAP_BYTES},
    {"\"bucket_cap_bytes\": 26214400, ", LK_BUCKET_FIRST_BYTES, LK_BUCKET_CAP_BYTES},
    {"\"bucket_cap_bytes\": 26214401, ", 26214401, 26214401},
    {"\"bucket_cap_bytes\": 26214401, \"ddp_rule\": \"torch-1.13\", ", LK_BUCKET_FIRST_BYTES,
     26214401},
    {"\"bucket_cap_bytes\": 26214400, \"first_bucket_bytes\": 26214400, ", LK_BUCKET_CAP_BYTES,
     LK_BUCKET_CAP_BYTES},
};

START_TEST(the_usual_cap_may_be_said)
{
    char text[1024], path[64];
    struct lk_job j;

    snprintf(text, sizeof text,
             "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"j\", %s"
             "\"gradients\": [{\"name\": \"a\", \"elements\": 9, \"dtype\": \"float32\"}], "
             "\"compute\": [{\"local_batch\": 8, \"forward\": " Q("3", "ms") ", "
                                                                             "\"backward\": " Q(
                                                                                 "6", "ms") "}]}",
             caps[_i].keys);
    bad_file_write(text, strlen(text), path);
    ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(j.first_bytes, caps[_i].first);
    ck_assert_uint_eq(j.cap_bytes, caps[_i].cap);
    lk_job_fini(&j);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(read_write_read)
{
    struct lk_job a, b;
    char path[64];

    bad_file_write(good, strlen(good), path);
    ck_assert_msg(lk_job_read(path, &a) == LK_OK, "%s", lk_error_text());
    check_job(&a);
    ck_assert_int_eq(lk_job_write(path, &a), LK_OK);
    ck_assert_msg(lk_job_read(path, &b) == LK_OK, "%s", lk_error_text());
    check_job(&b);
    lk_job_fini(&a);
    lk_job_fini(&b);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* A file as a user might write it without the manual. */
START_TEST(by_hand)
{
    static const char text[] =
        "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"x\",\n"
        " \"gradients\": [{\"name\": \"a\", \"elements\": 10, \"dtype\": \"float32\"},\n"
        "   {\"name\": \"b\", \"elements\": 20, \"dtype\": \"float32\"}],\n"
        " \"compute\": [{\"local_batch\": 8, \"forward\": " Q("3", "ms") ",\n"
                                                                         "   \"backward\": " Q(
                                                                             "6", "ms") "}]}";
    struct lk_job j;
    char path[64];

    bad_file_write(text, strlen(text), path);
    ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(j.ddp_rule, LK_DDP_TORCH_2);
    ck_assert_uint_eq(j.cap_bytes, LK_BUCKET_CAP_BYTES);
    ck_assert_uint_eq(j.first_bytes, LK_BUCKET_FIRST_BYTES);
    ck_assert(j.reduce == LK_REDUCTION_LAST && j.accumulation == 1);
    ck_assert_uint_eq(j.ready_order[0], 1);
    ck_assert(j.tensors[1].ready == 0.5 && j.tensors[0].ready == 1.0);
    ck_assert(j.compute[0].optimizer_s.value == 0.0);
    ck_assert_ptr_nonnull(strstr(j.compute[0].optimizer_s.source, "assumed"));
    ck_assert(!lk_quantity_known(&j.compute[0].transient));
    ck_assert_uint_eq(j.n_runs, 0);
    lk_job_fini(&j);
}
END_TEST

/* `reduce` and the key that older files have for it; a run without either reduces the last. */
START_TEST(older_files_say_no_sync)
{
    static const struct {
        const char *text;
        enum lk_reduction reduce;
    } rows[] = {{"", LK_REDUCTION_LAST},
                {"\"no_sync\": true,", LK_REDUCTION_LAST},
                {"\"no_sync\": false,", LK_REDUCTION_EVERY},
                {"\"reduce\": \"every\",", LK_REDUCTION_EVERY},
                {"\"reduce\": \"scatter\", \"sharding\": \"hsdp\",", LK_REDUCTION_SCATTER}};

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const char *own = i < 4 ? rows[i].text : "";
        char text[2048], path[64];
        struct lk_job j;

        snprintf(text, sizeof text,
                 "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"x\", %s\n"
                 " \"gradients\": [{\"name\": \"a\", \"elements\": 10, \"dtype\": \"float32\"}],\n"
                 " \"compute\": [{\"local_batch\": 8, \"forward\": " Q(
                     "3", "ms") ",\n"
                                "   \"backward\": " Q(
                                    "6", "ms") "}],\n"
                                               " \"runs\": [{\"source\": \"r\", \"gpus\": 8, "
                                               "\"nodes\": 1, \"local_batch\": 8, %s\n"
                                               "   \"accumulation\": 2, \"first_bucket_bytes\": 1, "
                                               "\"bucket_cap_bytes\": 1,\n"
                                               "   \"step_s\": [0.1]}]}",
                 own, rows[i].text);
        bad_file_write(text, strlen(text), path);
        for (int round = 0; round < 2; round++) { /* and what was written is read again */
            ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
            ck_assert_int_eq(j.runs[0].config.reduce, rows[i].reduce);
            ck_assert_int_eq(j.runs[0].config.sharding,
                             i == 4 ? LK_SHARDING_HSDP : LK_SHARDING_DDP);
            if (i < 4)
                ck_assert_int_eq(j.reduce, rows[i].reduce);
            ck_assert_int_eq(lk_job_write(path, &j), LK_OK);
            lk_job_fini(&j);
        }
        ck_assert_int_eq(unlink(path), 0);
    }
}
END_TEST

/* Without runs the batch that a job uses is the largest that it has the compute of. */
START_TEST(a09_the_usual_batch)
{
    struct lk_job_compute compute[] = {{.local_batch = 1}, {.local_batch = 8}, {.local_batch = 32}};
    struct lk_job_run run = {.config.local_batch = 8};
    struct lk_job j = {.compute = compute, .n_compute = LK_COUNT(compute), .runs = &run};

    ck_assert_int_eq(lk_job_usual_batch(&j), 32);
    j.n_runs = 1;
    ck_assert_int_eq(lk_job_usual_batch(&j), 8);
}
END_TEST

START_TEST(buckets)
{
    struct lk_bucket_plan plan;
    struct lk_job j;
    char path[64];

    bad_file_write(good, strlen(good), path);
    ck_assert_int_eq(lk_job_read(path, &j), LK_OK);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(lk_job_buckets(&j, 1, 1, &plan), LK_OK);
    /* A bucket a dtype, in ready order. */
    ck_assert_uint_eq(plan.n_buckets, 2);
    ck_assert_uint_eq(plan.bytes[0], 200);
    ck_assert_uint_eq(plan.bytes[1], 1200000);
    lk_bucket_plan_fini(&plan);
    lk_job_fini(&j);
}
END_TEST

static const struct bad_file bad[] = {
    {"\"version\": 1", "\"version\": 99", "newer"},
    {"\"name\": \"tiny\",", "", "name"},
    {"\"name\": \"tiny\",", "\"nmae\": \"tiny\",", "name"},
    {"\"prefetch_depth\"", "\"prefetch\"", "prefetch"},
    {"\"adamw\"", "\"adma\"", "did you mean 'adam'"},
    {"\"channels\": 64", "\"channels\": 0", "channels"},
    {"\"at\": 0.5", "\"at\": 1.5", "at"},
    {", \"ready\": 0.25", "", "gradients[1]: ready"},
    {"\"layers\": [", "\"layers\": 3, \"lairs\": [", "layers"},
    {"\"heads\": 12", "\"heads\": 7", "do not divide"},
    {"\"hidden\": 768", "\"hidden\": 0", "hidden"},
    {"\"sequence\": 1024,", "", "sequence"},
    {"\"full\"", "\"ful\"", "did you mean 'full'"},
    {"300000", "0", "elements"},
    {"300000", "1e30", "elements"},
    {"300000", "-4", "elements"},
    {"\"float16\"", "\"float8\"", "float8"},
    {"\"ready\": 0.25", "\"ready\": 1.25", "ready"},
    {"[1, 0]", "[1, 1]", "twice"},
    {"[1, 0]", "[1]", "ready_order"},
    {"[1, 0]", "[1, 2]", "ready_order"},
    {"\"unit\": \"ms\"", "\"unit\": \"MiB\"", "unit"},
    {"\"value\": 3,", "\"value\": -3,", "forward"},
    {"\"value\": 3,", "\"value\": 1e999,", "number"},
    {"\"value\": 3,", "\"value\": NaN,", ""},
    {"\"gpus\": 2", "\"gpus\": 0", "gpus"},
    {"\"gpus\": 2", "\"gpus\": 1000000000", "gpus"},
    {"\"gpus\": 2", "\"gpus\": 3", "rank_compute_s"},
    {"\"nodes\": 1", "\"nodes\": 3", "nodes"},
    {"[0.02, 0.021]", "[]", "step_s"},
    {"[0.02, 0.021]", "[0.02, 0]", "step_s"},
    {"\"local_batch\": 8, \"for", "\"local_batch\": 0, \"for", "local_batch"},
    {"\"bucket_cap_bytes\": 26214400", "\"bucket_cap_bytes\": 0",
     "bucket_cap_bytes: must be above 0"},
    {"\"bucket_cap_bytes\": 26214400", "\"bucket_cap_bytes\": 18446744073709551616",
     "out of range"},
    {"\"bucket_cap_bytes\": 2", "\"bucket_cap_bytes\": -2", "bucket_cap_bytes"},
    {"\"torch-2.x\"", "\"torch-3\"", "torch-3"},
    {"\"no_sync\": true", "\"no_sync\": 1", "no_sync"},
    {"\"no_sync\": true", "\"reduce\": \"last\", \"no_sync\": true", "says it already"},
};

START_TEST(bad_files)
{
    bad_file_check(good, &bad[_i], read_and_drop);
}
END_TEST

/* The sum of gradients exceeds 63 bits of bytes. */
START_TEST(sums_do_not_wrap)
{
    static const char tensor[] =
        "{\"name\": \"x\", \"elements\": 281474976710656, \"dtype\": \"float64\", \"ready\": 0},";
    static const char list[] = "\"gradients\": [";
    const char *at = strstr(good, list) + sizeof list - 1;
    enum { COUNT = 5000 };
    char *text = malloc(sizeof good + COUNT * sizeof tensor);
    size_t n = (size_t)(at - good);
    char path[64];

    ck_assert_ptr_nonnull(text);
    memcpy(text, good, n);
    for (int i = 0; i < COUNT; i++, n += sizeof tensor - 1)
        memcpy(text + n, tensor, sizeof tensor);
    strcpy(text + n, at);
    bad_file_write(text, strlen(text), path);
    ck_assert_int_eq(read_and_drop(path), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "gradients[4095]: the gradients exceed"));
    ck_assert_int_eq(unlink(path), 0);
    free(text);
}
END_TEST

/* Insertion sort would take minutes on this order. */
START_TEST(many_gradients_without_an_order)
{
    enum { COUNT = 100000, ITEM = 96 };
    size_t size = (size_t)COUNT * ITEM + 1024, n;
    char *text = malloc(size), path[64];
    struct lk_job j;

    ck_assert_ptr_nonnull(text);
    n = (size_t)snprintf(text, size,
                         "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"x\",\n"
                         " \"compute\": [{\"local_batch\": 8, \"forward\": %s,"
                         " \"backward\": %s}],\n \"gradients\": [\n",
                         Q("3", "ms"), Q("6", "ms"));
    for (int i = 0; i < COUNT; i++)
        n += (size_t)snprintf(text + n, size - n,
                              "{\"name\": \"g\", \"elements\": %d, \"dtype\": \"float32\", "
                              "\"ready\": %.6f}%s\n",
                              i + 1, i / (double)COUNT, i + 1 < COUNT ? "," : "]}");
    bad_file_write(text, n, path);
    ck_assert_msg(lk_job_read(path, &j) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(j.ready_order[0], 0);
    ck_assert_uint_eq(j.ready_order[COUNT - 1], COUNT - 1);
    lk_job_fini(&j);
    ck_assert_int_eq(unlink(path), 0);
    free(text);
}
END_TEST

START_TEST(torture)
{
    bad_file_torture(good, 3000, read_and_drop);
}
END_TEST

SUITE(job, c)
{
    tcase_add_loop_test(c, the_usual_cap_may_be_said, 0, (int)LK_COUNT(caps));
    tcase_add_test(c, older_files_say_no_sync);
    tcase_add_test(c, read_write_read);
    tcase_add_test(c, by_hand);
    tcase_add_test(c, a09_the_usual_batch);
    tcase_add_test(c, buckets);
    tcase_add_loop_test(c, bad_files, 0, LK_COUNT(bad));
    tcase_add_test(c, sums_do_not_wrap);
    tcase_add_test(c, many_gradients_without_an_order);
    tcase_add_test(c, torture);
}
