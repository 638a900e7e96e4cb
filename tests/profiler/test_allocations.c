/* Every reader of a file, with every allocation failing in turn: it says so, and leaks nothing. */
#include "base/array.h"
#include "base/file.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/gradients.h"
#include "facts/job.h"
#include "facts/ledger.h"
#include "facts/tensor_file.h"
#include "facts/trace.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/bench_log.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"
#include "profiler/import/nccl_inspector.h"
#include "profiler/import/step_times.h"
#include "profiler/import/torch_et.h"
#include "profiler/import/training_log.h"
#include "sim/throughput/throughput.h"
#include "tests/rigs/failing_alloc.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_sample.h"

#include <stdlib.h>
#include <string.h>

/* ---- Readers ---- */

/* Each reads a file and releases what it made of it. */
#define READER(name, type, read, fini)                                                             \
    static enum lk_status name(const char *path)                                                   \
    {                                                                                              \
        type x = {0};                                                                              \
        enum lk_status st = read;                                                                  \
                                                                                                   \
        fini(&x);                                                                                  \
        return st;                                                                                 \
    }

static const struct lk_bench_hints hints = {.coll = NULL};
static bool timed;
static struct lk_inspector recorded;

READER(tensors, struct lk_tensor_file, lk_tensor_file_read(path, &x), lk_tensor_file_fini)
READER(job, struct lk_job, lk_job_read(path, &x), lk_job_fini)
READER(cluster, struct lk_cluster, lk_cluster_read(path, &x), lk_cluster_fini)
READER(forecast, struct lk_forecast, lk_forecast_read(path, &x), lk_forecast_fini)
READER(ledger, struct lk_ledger, lk_ledger_read(path, &x), lk_ledger_fini)
READER(trace, struct lk_trace, lk_trace_read(path, &x), lk_trace_fini)
READER(gradients, struct lk_job, lk_gradients_read(path, LK_F32, &x, &timed), lk_job_fini)
READER(throughput, struct lk_throughput_table, lk_throughput_read(path, &x), lk_throughput_fini)
READER(nccl_tests, struct lk_bench, lk_bench_read_log(path, &hints, &x), lk_bench_fini)
READER(points, struct lk_bench, lk_bench_read_csv(path, &hints, &x), lk_bench_fini)
READER(inspector, struct lk_bench, lk_nccl_inspector_read(&path, 1, &x, &recorded), lk_bench_fini)
READER(training_log, struct lk_training_log, lk_training_log_read(path, &x), lk_training_log_fini)
READER(step_times, struct lk_step_times, lk_step_times_read(path, &x), lk_step_times_fini)
READER(run_set, struct lk_run_set, lk_run_set_read(&path, 1, &x), lk_run_set_fini)
READER(sizes, struct lk_events, lk_torch_et_read(path, NULL, &x), lk_events_fini)

/* A file becomes a run: its format is told, its events make a trace and a table. */
static enum lk_status import(const char *path)
{
    const struct lk_import_options options = {.local_batch = 4};
    struct lk_sequence_findings findings = {0};
    struct lk_table *t = NULL;
    struct lk_import i = {0};
    enum lk_status st = LK_OK;
    char **files = NULL;
    size_t n = 0;

    LK_TRY(lk_import_files(&path, 1, &files, &n));
    LK_TRY(lk_import_run(files, n, &options, &i));
    LK_TRY(lk_import_table(&i, &t));
    if (i.sequences.n_items)
        LK_TRY(lk_sequences_find(&i.sequences, &findings));
out:
    lk_sequence_findings_fini(&findings);
    lk_table_destroy(t);
    lk_import_fini(&i);
    lk_names_free(files, n);
    return st;
}

static enum lk_status merged(const char *path)
{
    struct lk_trace *traces = NULL;
    size_t n = 0;
    enum lk_status st = lk_trace_read_merged(path, &traces, &n);

    lk_traces_free(traces, n);
    return st;
}

/* ---- Failing ---- */

#define CORPUS "tests/fuzz/corpus/"

static const struct {
    enum lk_status (*read)(const char *path);
    const char *path; /* a folder, each of whose files is one */
} readers[] = {
    {job, CORPUS "job"},
    {cluster, CORPUS "cluster"},
    {gradients, CORPUS "gradients"},
    {points, CORPUS "csv"},
    {throughput, CORPUS "throughput"},
    {nccl_tests, CORPUS "nccl_tests"},
    {inspector, CORPUS "inspector"},
    {training_log, CORPUS "training_log"},
    {step_times, CORPUS "step_times"},
    {sizes, CORPUS "torch_et"},
};

/* Fail one allocation, or it and all behind it. Where the file can be read without it, as a
 * suggestion for an error text can, the answer is that of before. */
static void fail_at(enum lk_status (*read)(const char *path), const char *path, size_t at,
                    bool for_good, enum lk_status without)
{
    struct failing_alloc end;
    enum lk_status st;

    failing_alloc_begin(at, for_good);
    st = read(path);
    end = failing_alloc_end();
    ck_assert(end.failed);
    ck_assert_msg(st == LK_ENOMEM || st == without, "%s: allocation %zu: status %d: %s", path, at,
                  st, lk_error_text());
    ck_assert_msg(end.held == 0, "%s: allocation %zu%s: %zu blocks were not released", path, at,
                  for_good ? " and all behind it" : "", end.held);
}

static void check(enum lk_status (*read)(const char *path), const char *path)
{
    struct failing_alloc end;
    enum lk_status without;

    failing_alloc_begin(0, false);
    without = read(path);
    end = failing_alloc_end();
    ck_assert_msg(end.held == 0, "%s: %zu blocks were not released", path, end.held);
    ck_assert_uint_gt(end.calls, 0);
    for (size_t at = 1; at <= end.calls; at++) {
        fail_at(read, path, at, false, without);
        fail_at(read, path, at, true, without);
    }
}

START_TEST(readers_say_that_there_is_no_memory)
{
    char **names = NULL;
    size_t n = 0;

    must(lk_dir_list(readers[_i].path, "", &names, &n));
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        char *path = scratch_path(readers[_i].path, names[i]);

        check(readers[_i].read, path);
        free(path);
    }
    lk_names_free(names, n);
}
END_TEST

/* Every file of the corpora that an importer reads: those of a new one, too. */
START_TEST(importers_say_that_there_is_no_memory)
{
    char **folders = NULL, **names = NULL;
    size_t n = 0, n_folders = 0, read = 0;

    must(lk_dir_list(CORPUS, "", &folders, &n_folders));
    for (size_t k = 0; k < n_folders; k++) {
        char *folder = scratch_path(CORPUS, folders[k]);

        must(lk_dir_list(folder, "", &names, &n));
        for (size_t i = 0; i < n; i++) {
            char *path = scratch_path(folder, names[i]);

            if (lk_import_reads(path)) {
                check(import, path);
                read++;
            }
            free(path);
        }
        lk_names_free(names, n);
        free(folder);
    }
    lk_names_free(folders, n_folders);
    ck_assert_uint_ge(read, 20);
    check(import, CORPUS "flight_recorder"); /* several ranks */
}
END_TEST

static void check_tensors(void)
{
    const struct lk_tensor_text text = {"step", "40"};
    const struct lk_tensor_row row = {.name = "wte", .dtype = LK_F32, .elems = 7};
    char *path = scratch_path(scratch_dir, "step-000000040.safetensors");
    struct lk_tensor_file f = {0};

    must(lk_tensor_file_lay_out(&f, &text, 1, &row, 1));
    lk_tensor_file_seal(&f);
    must(lk_tensor_file_write(&f, path));
    check(tensors, path);
    lk_tensor_file_fini(&f);
    free(path);
}

static void check_ledger(void)
{
    char *path = scratch_path(scratch_dir, "forecasts.jsonl"), text[] = "made";
    const struct lk_ledger_line lines[] = {
        {.forecast = {.id = text,
                      .date = text,
                      .program = text,
                      .question = text,
                      .job = text,
                      .job_file = text,
                      .config = {.world_size = 2, .nodes = 1, .accumulation = 1},
                      .step_s = 1,
                      .lo_s = 1,
                      .hi_s = 1,
                      .level = 0.9,
                      .site_factor = 1}},
        {.score = {.forecast = text,
                   .date = text,
                   .program = text,
                   .run = text,
                   .n_runs = 1,
                   .measured_s = 1}}};

    must(lk_ledger_append(path, lines, LK_COUNT(lines)));
    check(ledger, path);
    free(path);
}

/* Files that no corpus has. */
START_TEST(files_of_our_own)
{
    char *paths[] = {scratch_path(scratch_dir, "one.json.gz"),
                     scratch_path(scratch_dir, "two.json"),
                     scratch_path(scratch_dir, "forecast.json")};
    struct lk_forecast f = {0};
    const struct step_model m = step_model_default((struct step_model){.ranks = 2, .steps = 7});
    char *run = scratch_path(scratch_dir, "run");
    struct lk_trace t[2], *traces = NULL;

    for (int rank = 0; rank < 2; rank++)
        lk_trace_sample(&t[rank], rank, 2);
    must(lk_trace_write(paths[0], &t[0]));
    must(lk_trace_write_merged(paths[1], t, 2));
    lk_forecast_init(&f);
    must(lk_strdup(&f.job, "gpt-nano"));
    must(lk_strdup(&f.cluster, "here"));
    must(lk_strdup(&f.reference, "1 GPU"));
    must(lk_strdup(&f.sample_unit, "sequence"));
    must(lk_forecast_note(&f, "knee: 16 nodes"));
    must(lk_forecast_write(paths[2], &f));
    must(step_model_run(&m, &traces, NULL));
    step_model_write(traces, m.ranks, run, -1);
    check(run_set, run);
    check(trace, paths[0]);
    check(merged, paths[1]);
    check(forecast, paths[2]);
    check_tensors();
    check_ledger();
    lk_forecast_fini(&f);
    for (size_t i = 0; i < LK_COUNT(paths); i++)
        free(paths[i]);
    free(run);
    for (size_t i = 0; i < LK_COUNT(t); i++)
        lk_trace_fini(&t[i]);
}
END_TEST

SUITE(allocations, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, readers_say_that_there_is_no_memory, 0, (int)LK_COUNT(readers));
    tcase_add_test(t, importers_say_that_there_is_no_memory);
    tcase_add_test(t, files_of_our_own);
}
