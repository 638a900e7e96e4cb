/*
 * docs/schemas: they are what the program prints, and what it writes is as they say. After a change
 * of rows or tables write them again:
 *
 *     LK_RECORD=1 build/test_lockstep schemas
 */
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/rigs/json_schema.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"page",   "job", "cluster", "forecast",
                                    "ledger", "run", "result"};

static char *schema_path(const char *name)
{
    char *path;

    ck_assert_int_eq(lk_asprintf(&path, "docs/schemas/%s.schema.json", name), LK_OK);
    return path;
}

START_TEST(files_are_what_is_printed)
{
    struct shell_result r = shell_program(".", "help --schema %s", names[_i]);
    char *path = schema_path(names[_i]), *old;
    struct lk_writer *w;
    size_t size;

    ck_assert_int_eq(r.code, 0);
    if (getenv("LK_RECORD")) {
        ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
        ck_assert_int_eq(lk_writer_put(w, r.text, strlen(r.text)), LK_OK);
        ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    } else {
        ck_assert_msg(lk_file_read(path, &old, &size) == LK_OK, "%s", lk_error_text());
        ck_assert_msg(!strcmp(old, r.text),
                      "%s is not as the rows are: LK_RECORD=1 build/test_lockstep schemas", path);
        free(old);
    }
    free(path);
}
END_TEST

/* Check a document against a schema; return whether it holds, and say why not. */
static bool holds(const char *name, const char *document, char *why, size_t size)
{
    char *path = schema_path(name);
    struct lk_json_doc *schema, *doc;
    bool ok;

    ck_assert_msg(lk_json_load(path, &schema) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_json_parse("document", document, strlen(document), &doc) == LK_OK, "%s: %s",
                  lk_error_text(), document);
    ok =
        json_schema_holds(lk_json_root(schema), lk_json_root(schema), lk_json_root(doc), why, size);
    lk_json_free(schema);
    lk_json_free(doc);
    free(path);
    return ok;
}

static void check_file(const char *name, const char *path)
{
    char why[256] = "", *text;
    size_t size;

    ck_assert_msg(lk_file_read(path, &text, &size) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(holds(name, text, why, sizeof why), "%s: %s", path, why);
    free(text);
}

static void check_scratch(const char *name, const char *file)
{
    char *path = scratch_path(scratch_dir, file);

    check_file(name, path);
    free(path);
}

/* Write job.json and cluster.json of a made-up machine. */
static void make_files(void)
{
    struct sim_truth t = sim_truth_default;
    struct lk_job job;
    struct lk_cluster cluster;
    char *path;

    scratch_set_up();
    sim_truth_cluster(&t, 1, &cluster);
    sim_truth_job(&t, 1, &job);
    sim_truth_add_run(&t, &job, 1, 4, 1);
    sim_truth_add_run(&t, &job, 1, 8, 2);
    sim_truth_add_run(&t, &job, 2, 8, 3);
    path = scratch_path(scratch_dir, "job.json");
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    path = scratch_path(scratch_dir, "cluster.json");
    ck_assert_int_eq(lk_cluster_write(path, &cluster), LK_OK);
    free(path);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
}

START_TEST(presets)
{
    char **files, *path;
    size_t n;

    ck_assert_int_eq(lk_dir_list("clusters", ".json", &files, &n), LK_OK);
    ck_assert_uint_gt(n, 10);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(lk_path_join(&path, "clusters", files[i]), LK_OK);
        check_file("cluster", path);
        free(path);
    }
    lk_names_free(files, n);
}
END_TEST

#define RUN                                                                                        \
    "run --model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 "    \
    "--no-pin --prefetch=1 --scaling=1,2 -b2 --steps=8 --warmup=2 --repetitions=1 --out=curve"

START_TEST(artefacts)
{
    struct shell_result r = shell_program(scratch_dir, RUN);

    ck_assert_msg(r.code == 0, "%s", r.text);
    check_scratch("run", "curve/run.json");
    check_scratch("result", "curve/k2-b2-a1-r0/result.json");
    check_scratch("job", "curve/job.json");
    check_scratch("job", "job.json");
    check_scratch("cluster", "cluster.json");
    r = shell_program(scratch_dir, "predict job.json cluster.json --gpus=1,2,4 --draws=20 "
                                   "--out=f.json");
    ck_assert_int_eq(r.code, 0);
    check_scratch("forecast", "f.json");
    r = shell_program(scratch_dir, "whatif job.json cluster.json --gpus=2,4 --accumulation=1,4 "
                                   "--draws=20 --out=w.json");
    ck_assert_int_eq(r.code, 0);
    check_scratch("forecast", "w.json");
    r = shell_program(scratch_dir, "predict job.json cluster.json --gpus=8 --draws=20 --ledger=l");
    ck_assert_int_eq(r.code, 0);
    check_scratch("ledger", "l"); /* of one line */
}
END_TEST

static const char *const pages[] = {
    "predict job.json cluster.json --gpus=1,2,4 --draws=20 --memory --price=2",
    "whatif job.json cluster.json --gpus=2,4 --accumulation=1,4 --draws=20 --memory --price=2",
    "validate job.json --cluster cluster.json --draws=20",
    "analyze sim",
    "analyze sim --step=-1",
    "compare cluster.json cluster.json",
    "compare ethernet-25g ethernet-100g",
    "compare sim sim",
    "export sim --out=chakra",
    "import log.txt --out=c.json",
};

static const char nccl_log[] =
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 33554432\n"
    "#  Rank  0 Group  0 Pid 1 on host device  0 [0x07] NVIDIA A100\n"
    "#  Rank  1 Group  0 Pid 1 on host device  1 [0x0a] NVIDIA A100\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "     1048576        262144     float     sum      -1    120.0    8.74    8.74      0"
    "    119.0    8.81    8.81      0\n"
    "    33554432       8388608     float     sum      -1    900.0   37.28   37.28      0"
    "    890.0   37.70   37.70      0\n";

/* A page in JSON is as its schema says. */
START_TEST(pages_of_commands)
{
    struct shell_result r;

    free(scratch_put("log.txt", nccl_log, sizeof nccl_log - 1));
    r = shell_program(scratch_dir, "predict job.json cluster.json --gpus=1,2 --local-batch=4,8 "
                                   "--draws=20 --trace=sim");
    ck_assert_msg(r.code == 0, "%s", r.text);
    r = shell_program(scratch_dir, "%s --format=json > page.json 2> error || cat error; true",
                      pages[_i]);
    ck_assert_msg(!*r.text, "%s: %s", pages[_i], r.text);
    check_scratch("page", "page.json");
}
END_TEST

/* The schemas refuse what the readers refuse. */
START_TEST(wrong_documents_are_refused)
{
    static const struct {
        const char *schema, *document, *why;
    } cases[] = {
        {"run", "{\"schema\": \"lockstep-run\", \"version\": 1}", "runs"},
        {"run", "{\"schema\": \"lockstep-job\", \"version\": 1, \"runs\": []}", "constant"},
        {"run", "{\"schema\": \"lockstep-run\", \"version\": 2, \"runs\": []}", "maximum"},
        {"run", "{\"schema\": \"lockstep-run\", \"version\": 1, \"runs\": [], \"x\": 1}", "x"},
        {"run", "{\"schema\": \"lockstep-run\", \"version\": 1, \"runs\": 3}", "array"},
        {"run",
         "{\"schema\": \"lockstep-run\", \"version\": 1, \"runs\": [{\"dir\": \"a\", "
         "\"world_size\": 0, \"local_batch\": 1, \"accumulation\": 1, \"repetition\": 0}]}",
         "minimum"},
        {"job",
         "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"a\", "
         "\"gradients\": [], \"compute\": [{\"local_batch\": 1, \"forward\": 3}]}",
         ""},
        {"cluster",
         "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"a\", "
         "\"inter\": {\"latency\": {\"value\": -1, \"unit\": \"s\", \"source\": "
         "\"x\"}}}",
         ""},
        {"page",
         "{\"schema\": \"lockstep-page\", \"version\": 1, \"command\": \"validate\", "
         "\"command_line\": \"\", \"lockstep\": \"\", \"answer\": [], \"notes\": [], "
         "\"values\": [], \"tables\": [{\"name\": \"nothing\", \"title\": \"\", "
         "\"columns\": [], \"rows\": [], \"notes\": []}]}",
         "nothing"},
    };

    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        char why[256] = "";

        ck_assert_msg(!holds(cases[i].schema, cases[i].document, why, sizeof why), "%s",
                      cases[i].document);
        ck_assert_msg(strstr(why, cases[i].why) != NULL, "%s: %s", cases[i].document, why);
    }
}
END_TEST

/* A table that a command never has is refused before it works: there are no inputs here. */
START_TEST(unknown_tables_are_refused_at_once)
{
    static const char *const commands[] = {"predict",     "whatif",   "analyze x", "validate x",
                                           "compare x y", "export x", "import x",  "calibrate"};

    for (size_t i = 0; i < LK_COUNT(commands); i++) {
        struct shell_result r = shell_program(scratch_dir, "%s --table=nothing", commands[i]);

        ck_assert_int_eq(r.code, 2);
        ck_assert_msg(strstr(r.text, "--table=nothing: there is no such table; ") != NULL, "%s",
                      r.text);
    }
}
END_TEST

SUITE(schemas, c)
{
    tcase_add_checked_fixture(c, make_files, scratch_tear_down);
    tcase_add_loop_test(c, files_are_what_is_printed, 0, LK_COUNT(names));
    if (getenv("LK_RECORD"))
        return;
    tcase_add_test(c, presets);
    tcase_add_test(c, artefacts);
    tcase_add_loop_test(c, pages_of_commands, 0, LK_COUNT(pages));
    tcase_add_test(c, wrong_documents_are_refused);
    tcase_add_test(c, unknown_tables_are_refused_at_once);
}
