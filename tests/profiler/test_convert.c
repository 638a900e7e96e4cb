/* Convert span files to traces: the traces hold all recorded spans, however the ranks ended. */
#include "profiler/analysis/run_set.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/job_build.h"
#include "profiler/record/span_file.h"
#include "reports/print.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each test's own directory, and a run of two ranks to record. */
static char *dir;
static struct lk_trace *truth;
enum { RANKS = 2 };

static void set_up(void)
{
    const struct step_model m = step_model_default((struct step_model){
        .ranks = RANKS, .steps = 8, .slow = {0, 0.1}, .clock_offset_ns = {0, -7000000}});

    dir = scratch_create();
    ck_assert_int_eq(step_model_run(&m, &truth, NULL), LK_OK);
    ck_assert_int_eq(lk_log_configure("error"), LK_OK);
}

static void tear_down(void)
{
    lk_traces_free(truth, RANKS);
    scratch_remove(dir);
}

/* How a rank's recording ends. */
enum ending { WELL, FAILED, NO_SAMPLES };

/* Make round trips that give: common clock = local + offset, within 2 us. */
static void samples_of(const struct lk_trace *t, uint64_t at_ns, struct lk_clock_sample *out)
{
    uint64_t local = t->base_local_ns + at_ns;

    *out = (struct lk_clock_sample){.local_send_ns = local,
                                    .remote_ns = local + 2000 + (uint64_t)t->clock.offset_ns,
                                    .local_recv_ns = local + 4000};
}

/* Write a trace's spans into a span file, as the runtime would. */
static void record(const struct lk_trace *t, enum ending ending)
{
    char name[32];
    char *path;
    struct lk_recorder *rec = NULL;
    struct lk_span_file *f = NULL;
    struct lk_track **tracks = NULL;
    struct lk_clock_sample start, end;

    snprintf(name, sizeof name, "rank%d.spans", t->info.rank);
    path = scratch_path(dir, name);
    ck_assert_msg(lk_span_file_create(path, &t->info, t->n_spans, &f) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_int_eq(lk_recorder_create(&rec), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(rec, &lk_span_file_ops, f), LK_OK);
    ck_assert_int_eq(lk_alloc(&tracks, t->n_tracks, sizeof(struct lk_track *)), LK_OK);
    for (size_t i = 0; i < t->n_tracks; i++)
        ck_assert_int_eq(lk_recorder_track(rec,
                                           &(struct lk_track_info){.name = t->tracks[i].name,
                                                                   .kind = t->tracks[i].kind,
                                                                   .stream = t->tracks[i].stream},
                                           &tracks[i]),
                         LK_OK);
    for (size_t i = 0; i < t->n_spans; i++)
        lk_span_emit(tracks[t->spans[i].track], &t->spans[i].span);
    samples_of(t, 0, &start);
    samples_of(t, LK_NS_PER_S, &end);
    if (t->info.rank && ending != NO_SAMPLES) {
        ck_assert_int_eq(lk_span_file_clock(f, LK_CLOCK_START, &start, 1), LK_OK);
        ck_assert_int_eq(lk_span_file_clock(f, LK_CLOCK_END, &end, 1), LK_OK);
    }
    if (ending == FAILED)
        lk_span_file_fail(f, "rank 0 did not arrive");
    free(tracks);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    free(path);
}

static bool exists(const char *name)
{
    char *path = scratch_path(dir, name);
    bool there = lk_file_exists(path);

    free(path);
    return there;
}

static int by_start_track(const void *a, const void *b)
{
    const struct lk_trace_span *x = a, *y = b;

    if (x->span.start_ns != y->span.start_ns)
        return x->span.start_ns < y->span.start_ns ? -1 : 1;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    return memcmp(&x->span, &y->span, sizeof x->span);
}

/* Check that the trace has exactly the recorded spans, to the ns. */
static void assert_spans(struct lk_trace *got, struct lk_trace *want)
{
    ck_assert_uint_eq(got->n_spans, want->n_spans);
    qsort(got->spans, got->n_spans, sizeof *got->spans, by_start_track);
    qsort(want->spans, want->n_spans, sizeof *want->spans, by_start_track);
    for (size_t i = 0; i < got->n_spans; i++) {
        ck_assert_uint_eq(got->spans[i].track, want->spans[i].track);
        ck_assert_int_eq(memcmp(&got->spans[i].span, &want->spans[i].span, sizeof(struct lk_span)),
                         0);
    }
}

START_TEST(recorder_list_comes_back)
{
    struct lk_convert_summary sum;
    struct lk_trace *got = NULL;
    size_t n = 0;

    for (int k = 0; k < RANKS; k++)
        record(&truth[k], WELL);
    ck_assert_msg(lk_convert_run(dir, true, &sum) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(sum.n_ranks, RANKS);
    ck_assert_uint_eq(sum.n_truncated, 0);
    ck_assert_uint_eq(sum.dropped, 0);
    ck_assert_uint_eq(sum.n_spans, truth[0].n_spans + truth[1].n_spans);
    ck_assert(!exists("rank0.spans") && !exists("rank1.spans"));
    ck_assert(exists("merged.trace.json.gz"));
    ck_assert_int_eq(lk_traces_read(dir, &got, &n), LK_OK);
    ck_assert_uint_eq(n, RANKS);
    for (int k = 0; k < RANKS; k++) {
        lk_trace_assert_same_info(&got[k].info, &truth[k].info);
        assert_spans(&got[k], &truth[k]);
        ck_assert(!got[k].truncated);
        /* The samples know the offset to half a round trip. */
        ck_assert_int_le(llabs(got[k].clock.offset_ns - truth[k].clock.offset_ns), 2000);
        ck_assert_uint_eq(got[k].clock.uncertainty_ns > 0, k > 0);
    }
    lk_traces_free(got, n);
}
END_TEST

/* The merged trace has every span of every rank on rank 0's clock, also for
 * a reader other than ours. */
START_TEST(merged_is_the_recorders_list)
{
    char *path = scratch_path(dir, "merged.trace.json.gz");
    char *command = NULL;
    struct lk_trace *got = NULL, *alone = NULL;
    size_t n = 0, n_alone = 0;

    for (int k = 0; k < RANKS; k++)
        record(&truth[k], WELL);
    ck_assert_int_eq(lk_convert_run(dir, true, NULL), LK_OK);
    ck_assert_int_eq(lk_traces_read(dir, &alone, &n_alone), LK_OK);
    ck_assert_msg(lk_trace_read_merged(path, &got, &n) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(n, RANKS);
    for (int k = 0; k < RANKS; k++) {
        for (size_t i = 0; i < truth[k].n_spans; i++) {
            struct lk_span *s = &truth[k].spans[i].span;

            s->start_ns = lk_clock_apply(&alone[k].clock, s->start_ns);
            s->end_ns = lk_clock_apply(&alone[k].clock, s->end_ns);
            s->ready_ns = s->ready_ns ? lk_clock_apply(&alone[k].clock, s->ready_ns) : 0;
        }
        assert_spans(&got[k], &truth[k]);
    }
    ck_assert_int_eq(lk_asprintf(&command, "python3 tests/check_trace.py '%s' > /dev/null", path),
                     LK_OK);
    ck_assert_int_eq(system(command), 0);
    free(command);
    free(path);
    lk_traces_free(alone, n_alone);
    lk_traces_free(got, n);
}
END_TEST

/* Writes what the job building and the analysis make of a run to DIR/NAME-... . */
static void evaluate(const struct lk_run_set *set, const char *name)
{
    struct lk_table *tables[LK_ANALYSIS_GPUS];
    struct lk_analysis a;
    struct lk_job job;
    char file[64], *path;

    ck_assert_msg(lk_job_build(set, &job) == LK_OK, "%s", lk_error_text());
    snprintf(file, sizeof file, "%s-job.json", name);
    path = scratch_path(dir, file);
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    lk_job_fini(&job);
    ck_assert_msg(lk_analyze(&set->runs[0], NULL, 0, &a) == LK_OK, "%s", lk_error_text());
    for (int i = 0; i < LK_ANALYSIS_GPUS; i++)
        ck_assert_int_eq(lk_analysis_table(&a, (enum lk_analysis_kind)i, &tables[i]), LK_OK);
    snprintf(file, sizeof file, "%s-analysis.json", name);
    path = scratch_path(dir, file);
    ck_assert_int_eq(lk_report_tables((const struct lk_table *const *)tables, LK_ANALYSIS_GPUS,
                                      LK_FORMAT_JSON, path),
                     LK_OK);
    free(path);
    for (int i = 0; i < LK_ANALYSIS_GPUS; i++)
        lk_table_destroy(tables[i]);
    lk_analysis_fini(&a);
}

static void assert_same_file(const char *a, const char *b)
{
    char *x = scratch_read(dir, a), *y = scratch_read(dir, b);

    ck_assert_uint_gt(strlen(x), 100);
    ck_assert_str_eq(x, y);
    free(x);
    free(y);
}

/* Traces handed over in memory give the job and the analysis that their files give, to the byte. */
START_TEST(memory_gives_what_files_give)
{
    struct lk_run_set memory = {0}, files;
    const char *path = dir;

    for (int k = 0; k < RANKS; k++)
        record(&truth[k], WELL);
    ck_assert_msg(lk_run_set_convert(&memory, dir, false, NULL) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_run_set_read(&path, 1, &files), LK_OK);
    ck_assert_uint_eq(files.n, 1);
    evaluate(&memory, "memory");
    evaluate(&files, "files");
    assert_same_file("memory-job.json", "files-job.json");
    assert_same_file("memory-analysis.json", "files-analysis.json");
    for (int k = 0; k < RANKS; k++) {
        struct lk_trace *x = &memory.runs[0].traces[k], *y = &files.runs[0].traces[k];

        lk_trace_assert_same_info(&x->info, &y->info);
        ck_assert_int_eq(memcmp(&x->clock, &y->clock, sizeof x->clock), 0);
        assert_spans(x, y);
    }
    lk_run_set_fini(&memory);
    lk_run_set_fini(&files);
}
END_TEST

/* Rank 1 failed: its trace says so and why, and the other's is complete. */
START_TEST(failure_is_kept)
{
    struct lk_convert_summary sum;
    struct lk_trace *got = NULL;
    size_t n = 0;

    record(&truth[0], WELL);
    record(&truth[1], FAILED);
    ck_assert_int_eq(lk_convert_run(dir, true, &sum), LK_OK);
    ck_assert_uint_eq(sum.n_truncated, 1);
    ck_assert_int_eq(lk_traces_read(dir, &got, &n), LK_OK);
    ck_assert(!got[0].truncated && got[1].truncated);
    ck_assert_ptr_null(got[0].failure);
    ck_assert_str_eq(got[1].failure, "rank 0 did not arrive");
    assert_spans(&got[1], &truth[1]);
    lk_traces_free(got, n);
}
END_TEST

/* Without samples a rank on rank 0's host shares its clock; on another host
 * the offset is unknown. */
START_TEST(clocks_without_samples)
{
    struct lk_trace *got = NULL;
    size_t n = 0;

    if (_i) {
        free(truth[1].info.host);
        ck_assert_int_eq(lk_strdup(&truth[1].info.host, "elsewhere"), LK_OK);
    }
    record(&truth[0], WELL);
    record(&truth[1], NO_SAMPLES);
    ck_assert_int_eq(lk_convert_run(dir, true, NULL), LK_OK);
    ck_assert_int_eq(lk_traces_read(dir, &got, &n), LK_OK);
    ck_assert_uint_eq(got[1].clock.uncertainty_ns, _i ? LK_CLOCK_UNKNOWN_NS : 0);
    ck_assert_uint_eq(got[0].clock.uncertainty_ns, 0);
    if (!_i)
        ck_assert_int_eq(got[1].clock.offset_ns, 0);
    lk_traces_free(got, n);
}
END_TEST

static void write_text(const char *name, const char *text)
{
    char *path = scratch_path(dir, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

/* A bad file is named and kept; the others are converted. Leftovers of a
 * killed start are removed. */
START_TEST(a_bad_file_stays)
{
    struct lk_convert_summary sum;

    ck_assert_int_eq(lk_log_configure("profile=error"), LK_OK);
    record(&truth[0], WELL);
    write_text("rank1.spans", "not spans");
    write_text("rank1.spans.tmp.77", "half a header");
    write_text("notes.txt", "the user's");
    ck_assert_int_eq(lk_convert_run(dir, true, &sum), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank1.spans"));
    ck_assert_uint_eq(sum.n_ranks, 1);
    ck_assert(exists("rank0.trace.json.gz") && exists("merged.trace.json.gz"));
    ck_assert(exists("rank1.spans") && !exists("rank0.spans"));
    ck_assert(!exists("rank1.spans.tmp.77") && exists("notes.txt"));
}
END_TEST

START_TEST(wrong_name)
{
    char *from, *to;

    record(&truth[0], WELL);
    from = scratch_path(dir, "rank0.spans");
    to = scratch_path(dir, "rank5.spans");
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(lk_convert_run(dir, true, NULL), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank5.spans: is of rank 0"));
    free(from);
    free(to);
}
END_TEST

START_TEST(nothing_there)
{
    struct lk_convert_summary sum;

    ck_assert_int_eq(lk_convert_run(dir, true, &sum), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no span file"));
    ck_assert_uint_eq(sum.n_ranks, 0);
    ck_assert_int_eq(lk_convert_run("/nonexistent", true, NULL), LK_EIO);
}
END_TEST

SUITE(convert, t)
{
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, recorder_list_comes_back);
    tcase_add_test(t, merged_is_the_recorders_list);
    tcase_add_test(t, memory_gives_what_files_give);
    tcase_add_test(t, failure_is_kept);
    tcase_add_loop_test(t, clocks_without_samples, 0, 2);
    tcase_add_test(t, a_bad_file_stays);
    tcase_add_test(t, wrong_name);
    tcase_add_test(t, nothing_there);
}
