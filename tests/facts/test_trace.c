/* Traces: write and read back to the ns, merged files, run directories, and damaged files. */
#include "facts/trace.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static char path[128];

static const char *in_folder(const char *name)
{
    static char buf[160];

    snprintf(buf, sizeof buf, "%s/%s", folder, name);
    return buf;
}

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%.30s/lk-trace-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.json", folder);
}

static void remove_folder(void)
{
    char **names = NULL;
    size_t n = 0;

    ck_assert_int_eq(lk_dir_list(folder, "", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++)
        unlink(in_folder(names[i]));
    lk_names_free(names, n);
    ck_assert_int_eq(rmdir(folder), 0);
}

static const char *const suffixes[] = {"t.json", "t.json.gz"};

START_TEST(round_trip)
{
    const char *file = in_folder(suffixes[_i % 2]);
    struct lk_trace t;
    struct lk_trace back;

    lk_trace_sample(&t, _i / 2, 3);
    ck_assert_msg(lk_trace_write(file, &t) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_trace_read(file, &back) == LK_OK, "%s", lk_error_text());
    lk_trace_assert_same(&t, &back);
    lk_trace_fini(&t);
    lk_trace_fini(&back);
    ck_assert_ptr_null(back.spans);
}
END_TEST

START_TEST(round_trip_without_anything)
{
    struct lk_trace t;
    struct lk_trace back;

    lk_trace_sample(&t, 0, 1);
    t.n_spans = 0;
    ck_assert_int_eq(lk_trace_write(path, &t), LK_OK);
    ck_assert_msg(lk_trace_read(path, &back) == LK_OK, "%s", lk_error_text());
    lk_trace_assert_same(&t, &back);
    lk_trace_fini(&t);
    lk_trace_fini(&back);
}
END_TEST

/* In a merged file times are on rank 0's clock, everything else is unchanged. */
START_TEST(round_trip_merged)
{
    enum { RANKS = 3 };
    struct lk_trace t[RANKS];
    struct lk_trace *back = NULL;
    struct lk_trace one;
    size_t n = 0;

    for (int r = 0; r < RANKS; r++)
        lk_trace_sample(&t[r], r, RANKS);
    const uint64_t epoch_ns = t[0].base_epoch_ns, local_ns = t[0].base_local_ns;
    ck_assert_int_eq(lk_trace_write_merged(path, t, RANKS), LK_OK);
    ck_assert_msg(lk_trace_read_merged(path, &back, &n) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(n, RANKS);
    for (int r = 0; r < RANKS; r++) {
        struct lk_clock_fit clock = t[r].clock;

        for (size_t i = 0; i < t[r].n_spans; i++) {
            struct lk_span *s = &t[r].spans[i].span;

            s->start_ns = lk_clock_apply(&clock, s->start_ns);
            s->end_ns = lk_clock_apply(&clock, s->end_ns);
            s->ready_ns = s->ready_ns ? lk_clock_apply(&clock, s->ready_ns) : 0;
        }
        t[r].clock = lk_clock_identity();
        t[r].clock.uncertainty_ns = clock.uncertainty_ns;
        t[r].base_epoch_ns = epoch_ns;
        t[r].base_local_ns = local_ns;
        lk_trace_assert_same(&t[r], &back[r]);
        lk_trace_fini(&t[r]);
    }
    ck_assert_int_eq(lk_trace_read(path, &one), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "a merged trace"));
    lk_traces_free(back, n);
}
END_TEST

START_TEST(a_single_trace_reads_as_merged_too)
{
    struct lk_trace t;
    struct lk_trace *back = NULL;
    size_t n = 0;

    lk_trace_sample(&t, 2, 3);
    ck_assert_int_eq(lk_trace_write(path, &t), LK_OK);
    ck_assert_int_eq(lk_trace_read_merged(path, &back, &n), LK_OK);
    ck_assert_uint_eq(n, 1);
    lk_trace_assert_same(&t, &back[0]);
    lk_trace_fini(&t);
    lk_traces_free(back, n);
}
END_TEST

START_TEST(a_span_that_cannot_be_written)
{
    struct lk_trace t;

    lk_trace_sample(&t, 0, 1);
    switch (_i) {
    case 0:
        t.spans[3].track = 4;
        break;
    case 1:
        t.spans[3].span.kind = LK_SPAN_KIND_COUNT;
        break;
    case 2:
        t.spans[3].span.name = 4;
        break;
    case 3:
        t.spans[3].span.end_ns = t.spans[3].span.start_ns - 1;
        break;
    default:
        t.spans[8].span.end_ns++;
    }
    ck_assert_int_eq(lk_trace_write(path, &t), LK_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), _i < 4 ? "span 3 has" : "span 8 has"));
    ck_assert(!lk_file_exists(path));
    lk_trace_fini(&t);
}
END_TEST

START_TEST(a_full_disk)
{
    struct lk_trace t;

    lk_trace_sample(&t, 0, 1);
    ck_assert_int_eq(lk_trace_write("/dev/full", &t), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "/dev/full"));
    ck_assert_int_eq(lk_trace_write("/nonexistent/t.json", &t), LK_EIO);
    lk_trace_fini(&t);
}
END_TEST

/* In a simulation without kernels forward and backward are the work, and have launches. */
START_TEST(ranges_stand_in_for_kernels)
{
    struct lk_trace t;
    struct lk_trace back;
    size_t n = 0;
    size_t size;
    char *text = NULL;

    lk_trace_sample(&t, 0, 1);
    for (size_t i = 0; i < t.n_spans; i++)
        if (t.spans[i].span.kind != LK_SPAN_KERNEL)
            t.spans[n++] = t.spans[i];
    t.n_spans = n;
    ck_assert_int_eq(lk_trace_write(path, &t), LK_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_ptr_nonnull(strstr(text, "\"cat\": \"kernel\", \"name\": \"forward\""));
    ck_assert_ptr_nonnull(strstr(text, "\"cat\": \"kernel\", \"name\": \"optimizer\""));
    ck_assert_int_eq(lk_trace_read(path, &back), LK_OK);
    lk_trace_assert_same(&t, &back);
    lk_trace_fini(&t);
    lk_trace_fini(&back);
    free(text);
}
END_TEST

/* A GPU's records are on tracks of their own: with them, ranges and collectives only annotate. */
START_TEST(records_beside_ranges)
{
    struct lk_trace t;
    struct lk_trace back;
    char *text = NULL;
    size_t size, n;

    lk_trace_sample(&t, 0, 1);
    /* The loader's track becomes the comm stream's second, with its GPU's records. */
    t.tracks[3].kind = t.tracks[2].kind;
    t.tracks[3].stream = t.tracks[2].stream;
    n = t.n_spans;
    for (size_t i = 0; i < n; i++)
        if (t.spans[i].span.kind == LK_SPAN_COPY) {
            t.spans[i].track = 3;
            t.spans[i].span.kind = LK_SPAN_MEMSET;
        } else if (t.spans[i].span.kind == LK_SPAN_SYNC) {
            t.spans[i].span.kind = LK_SPAN_OVERHEAD;
        } else if (t.spans[i].span.kind == LK_SPAN_OPTIMIZER) {
            t.spans[i].span.kind = LK_SPAN_KERNEL;
            t.spans[i].span.name = (uint16_t)t.n_names;
            t.spans[i].track = 3;
        }
    free(t.names[t.n_names - 1]);
    ck_assert_int_eq(lk_strdup(&t.names[t.n_names - 1], "ncclDevKernel_AllReduce"), LK_OK);
    ck_assert_int_eq(lk_trace_write(path, &t), LK_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_ptr_nonnull(strstr(text, "\"cat\": \"gpu_user_annotation\", \"name\": \"nccl:"));
    ck_assert_ptr_null(strstr(text, "\"cat\": \"kernel\", \"name\": \"nccl:"));
    ck_assert_ptr_null(strstr(text, "\"cat\": \"kernel\", \"name\": \"forward\""));
    ck_assert_ptr_nonnull(strstr(text, "\"cat\": \"gpu_memset\", \"name\": \"Memset (Device)\""));
    ck_assert_ptr_nonnull(strstr(text, "\"cat\": \"overhead\", \"name\": \"overhead\""));
    ck_assert_ptr_nonnull(
        strstr(text, "\"sort_index\": 5")); /* next to the third track, not sixth */
    ck_assert_int_eq(lk_trace_read(path, &back), LK_OK);
    lk_trace_assert_same(&t, &back);
    lk_trace_fini(&t);
    lk_trace_fini(&back);
    free(text);
}
END_TEST

START_TEST(run_info_is_copied)
{
    struct lk_trace t;
    struct lk_trace u = {0};

    lk_trace_sample(&t, 0, 1);
    ck_assert_int_eq(lk_run_info_copy(&u.info, &t.info), LK_OK);
    lk_trace_assert_same_info(&u.info, &t.info);
    ck_assert_ptr_ne(u.info.config[0].value, t.info.config[0].value);
    lk_run_info_fini(&u.info);
    lk_trace_fini(&t);
}
END_TEST

/* ---- Run directories ---- */

static void write_rank(int rank, int world, const char *run_id, const char *name)
{
    struct lk_trace t;

    lk_trace_sample(&t, rank, world);
    free(t.info.run_id);
    ck_assert_int_eq(lk_strdup(&t.info.run_id, run_id), LK_OK);
    ck_assert_int_eq(lk_trace_write(in_folder(name), &t), LK_OK);
    lk_trace_fini(&t);
}

START_TEST(a_run_directory)
{
    struct lk_trace *t = NULL;
    size_t n = 0;

    ck_assert_int_eq(lk_traces_read(folder, &t, &n), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no rank*.trace.json.gz"));
    write_rank(10, 11, "a", "rank10.trace.json.gz");
    write_rank(2, 11, "a", "rank2.trace.json.gz");
    write_rank(0, 11, "a", "rank0.trace.json.gz");
    write_rank(1, 11, "other", "merged.trace.json.gz");
    ck_assert_msg(lk_traces_read(folder, &t, &n) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(t[0].info.rank, 0);
    ck_assert_int_eq(t[1].info.rank, 2);
    ck_assert_int_eq(t[2].info.rank, 10);
    lk_traces_free(t, n);
}
END_TEST

static char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = NULL;

    ck_assert_msg(at != NULL, "'%s' is not in the trace", from);
    ck_assert_int_eq(lk_asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)),
                     LK_OK);
    return out;
}

static void put_file(const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static char *sample_text(size_t *out_size)
{
    struct lk_trace t;
    char *text = NULL;

    lk_trace_sample(&t, 1, 3);
    ck_assert_int_eq(lk_trace_write(path, &t), LK_OK);
    lk_trace_fini(&t);
    ck_assert_int_eq(lk_file_read(path, &text, out_size), LK_OK);
    return text;
}

/* ---- A reader other than ours ---- */

/* Return the exit status of the strict checker, which knows Kineto but not our keys. */
static int check_with_python(const char *file)
{
    char *command = NULL;
    int status;

    ck_assert_int_eq(lk_asprintf(&command, "python3 tests/check_trace.py '%s' > '%s' 2>&1", file,
                                 in_folder("said")),
                     LK_OK);
    status = system(command);
    free(command);
    ck_assert(WIFEXITED(status));
    ck_assert_msg(WEXITSTATUS(status) <= 1, "python3 tests/check_trace.py cannot be run");
    return WEXITSTATUS(status);
}

/* Check one rank, one that was killed, and both merged. */
START_TEST(kinetos_rules_hold)
{
    struct lk_trace t[2];

    lk_trace_sample(&t[0], 0, 2);
    lk_trace_sample(&t[1], 1, 2);
    ck_assert(t[1].truncated);
    if (_i < 2)
        ck_assert_int_eq(lk_trace_write(in_folder("a.json.gz"), &t[_i]), LK_OK);
    else
        ck_assert_int_eq(lk_trace_write_merged(in_folder("a.json.gz"), t, 2), LK_OK);
    ck_assert_int_eq(check_with_python(strdupa(in_folder("a.json.gz"))), 0);
    lk_trace_fini(&t[0]);
    lk_trace_fini(&t[1]);
}
END_TEST

/* The checker must detect each of these violations. */
static const struct {
    const char *from, *to, *said;
} violations[] = {
    {"\"schemaVersion\": 1", "\"schemaVersion\": 2", "schemaVersion: not 1"},
    {"\"dur\": 999.999", "\"dur\": 999.99", "has not three decimals"},
    {"\"dur\": 999.999", "\"dur\": 999", "has not three decimals"},
    {"\"dur\": 999.999", "\"dur\": -0.001", "negative dur"},
    {"\"dur\": 999.999", "\"dur\": 750.000", "overlaps another span"},
    {"\"correlation\": 2,", "\"correlation\": 999,", "no launch"},
    {"\"stream\": 2", "\"stream\": 9", "args.stream is not tid"},
    {"\"Group size\": 3, ", "", "of the collective's args"},
    {"\"dtype\": \"Float\"", "\"dtype\": \"float\"", "dtype float"},
    {"\"ProfilerStep#1\"", "\"ProfilerStep#0\"", "ProfilerStep#0 twice"},
    {"\"cat\": \"kernel\"", "\"cat\": \"kernels\"", "cat 'kernels'"},
    {"\"s\": \"t\"", "\"s\": \"x\"", "scope"},
    {"\"pg_size\": 3", "\"pg_size\": 4", "pg_size is not"},
    {"\"process_name\"", "\"process_nam\"", "metadata process_nam"},
    {"\"name\": \"Memcpy\"", "\"name\": \"copy\"", "gpu_memcpy 'copy' is computation"},
    {"\"name\": \"nccl:all_reduce\"", "\"name\": \"all_reduce\"",
     "kernel 'all_reduce' is computation"},
    {"\"name\": \"matmul\"", "\"name\": \"waitSync\"",
     "kernel 'waitSync' is nothing that HTA counts"},
    {"\"displayTimeUnit\": \"ms\",", "\"displayTimeUnit\": \"ms\", \"displayTimeUnit\": \"ms\",",
     "duplicate key"},
};

START_TEST(the_checker_sees_violations)
{
    size_t size;
    char *text = sample_text(&size);
    char *bad = edited(text, violations[_i].from, violations[_i].to);
    char *said = NULL;

    put_file(bad, strlen(bad));
    ck_assert_msg(check_with_python(path) == 1, "'%s' passed", violations[_i].to);
    ck_assert_int_eq(lk_file_read(in_folder("said"), &said, &size), LK_OK);
    ck_assert_msg(strstr(said, violations[_i].said) != NULL, "'%s' lacks '%s'", said,
                  violations[_i].said);
    free(said);
    free(bad);
    free(text);
}
END_TEST

/* ---- Damage ---- */

/* A text in a written trace, its replacement, and the expected error. */
static const struct {
    const char *from, *to, *error;
} edits[] = {
    {"\"version\": 1", "\"version\": 2", "version 2 was written by a newer lockstep"},
    {"\"lockstep-trace\"", "\"lockstep-job\"", "lockstep.schema: expected \"lockstep-trace\""},
    {"\"lockstep\": {", "\"locksteq\": {", "no \"lockstep\" object"},
    {"\"baseTimeNanoseconds\": 17", "\"baseTime\": 17", "baseTimeNanoseconds: missing"},
    {"\"baseTimeNanoseconds\": ", "\"baseTimeNanoseconds\": -", "baseTimeNanoseconds: -"},
    {"\"world_size\": 3,\n          \"local", "\"world_size\": 0,\n          \"local",
     "lockstep.ranks[0].info.world_size: 0 is out of range"},
    {"\"world_size\": 3,\n          \"local", "\"world_size\": 1000000000,\n          \"local",
     "lockstep.ranks[0].info.world_size: 1000000000 is out of range"},
    {"\"world_size\": 3,\n          \"local", "\"world_size\": 1,\n          \"local",
     "lockstep.ranks[0].info.rank: 1 is not below the world size 1"},
    {"\"local_batch\": 4", "\"local_batch\": 0", "local_batch: 0 is out of range"},
    {"\"local_batch\": 4", "\"local_bach\": 4", "local_batch: missing (there is \"local_bach\")"},
    {"\"steps\": 2", "\"steps\": 2, \"stops\": 3", "lockstep.ranks[0].info.stops: unknown key"},
    {"\"torch-2.x\"", "\"torch-9\"", "ddp_rule: unknown word 'torch-9'"},
    {"\"dtype\": \"float32\"", "\"dtype\": \"float99\"", "tensors[0].dtype: "},
    {"\"elems\": 1000,", "\"elems\": -1,", "tensors[0].elems: -1 is out of range"},
    {"\"kind\": \"compute\"", "\"kind\": \"compote\"",
     "tracks[1].kind: unknown word 'compote'; did you mean"},
    {"\"truncated\": true", "\"truncated\": 1", "truncated: expected true or false"},
    {"\"drift_ppb\": 1234.5678", "\"drift_ppb\": 1e30", "clock: a drift of 1e+30 ppb"},
    {"\"spans\": 32", "\"spans\": 33", "rank 1: 32 spans, but lockstep.ranks[].spans says 33"},
    {"\"merged\": false", "\"merged\": false, \"x\": 1", "lockstep.x: unknown key"},
    {"\"ranks\": [\n", "\"ranks\": [], \"z\": [\n", "lockstep.z: unknown key"},
    {"\"lk_kind\": \"input\"", "\"lk_kind\": \"output\"", "args.lk_kind: unknown word 'output'"},
    {"\"lk_kind\": \"input\"", "\"lk_knd\": \"input\"", "args.lk_knd: unknown key"},
    {"\"lk_kind\": \"input\", ", "", "args: a span without lk_kind"},
    {"\"lk_step\": 1", "\"lk_step\": -1", "args.lk_step: -1 is out of range"},
    {"\"lk_step\": 1", "\"lk_stop\": 1", "args.lk_stop: unknown key"},
    {"\"lk_name\": 2", "\"lk_name\": 9", "its lk_name is not in lockstep.ranks[].names"},
    {"\"lk_name\": 2", "\"lk_name\": 99999", "args.lk_name: 99999 is out of range"},
    {"\"lk_bytes\": 4096", "\"lk_bytes\": -4096", "args.lk_bytes: -4096 is out of range"},
    {"\"ph\": \"i\"", "\"ph\": \"X\"", "expected \"i\" for a gradient"},
    {"\"pid\": 1, \"tid\": 1, \"ts\"", "\"pid\": 2, \"tid\": 1, \"ts\"", "pid 2 is no rank"},
    {"\"pid\": 1, \"tid\": 3, \"ts\"", "\"pid\": 1, \"tid\": 9, \"ts\"", "its track (tid)"},
    {"\"pid\": 1, \"tid\": 3, \"ts\"", "\"pid\": 1, \"tid\": \"x\", \"ts\"",
     "tid: expected a number, got a string"},
    {"\"dur\": 999.999", "\"dur\": -999.999", "dur: out of range"},
    {"\"dur\": 999.999", "\"dur\": 999.9995", "dur: 999.9995: expected a number with at most 3"},
    {"\"dur\": 999.999", "\"dur\": 1e300", "dur: 1e300: expected a number with at most 3"},
    {"\"dur\": 999.999", "\"dur\": \"9\"", "dur: expected a number, got a string"},
    {"\"dur\": 999.999, ", "", "dur is missing"},
    {"\"value\": \"nan\"", "\"value\": \"none\"", "args.value: 'none' is no number"},
};

START_TEST(damage_is_named)
{
    size_t size;
    char *text = sample_text(&size);
    char *bad = edited(text, edits[_i].from, edits[_i].to);
    struct lk_trace t;

    put_file(bad, strlen(bad));
    ck_assert_int_eq(lk_trace_read(path, &t), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), path) == lk_error_text() &&
                      strstr(lk_error_text(), edits[_i].error),
                  "'%s' lacks '%s'", lk_error_text(), edits[_i].error);
    free(bad);
    free(text);
}
END_TEST

/* Changes that other tools may make to our files: additions, another order. */
static const struct {
    const char *from, *to;
} harmless[] = {
    {"\"traceEvents\": [\n", "\"traceEvents\": [\n{\"ph\": \"X\", \"name\": \"x\"}, {},\n"},
    {"\"traceEvents\": [\n", "\"traceEvents\": [\n{\"args\": {\"lk_synthetic\": true}},\n"},
    {"\"traceEvents\": [\n", "\"traceEvents\": [\n{\"args\": 3, \"ts\": \"?\"},\n"},
    {"\"schemaVersion\": 1", "\"schemaVersion\": 7, \"MAST\": {\"a\": [1]}, \"note\": null"},
    {"\"lk_kind\": \"input\"", "\"grid\": [1, 2], \"lk_kind\": \"input\""},
    {"{\n", "// a comment\n{\n"},
};

START_TEST(foreign_things_are_left_alone)
{
    size_t size;
    char *text = sample_text(&size);
    char *changed = edited(text, harmless[_i].from, harmless[_i].to);
    struct lk_trace t;
    struct lk_trace back;

    put_file(changed, strlen(changed));
    ck_assert_msg(lk_trace_read(path, &back) == LK_OK, "%s", lk_error_text());
    lk_trace_sample(&t, 1, 3);
    lk_trace_assert_same(&t, &back);
    lk_trace_fini(&t);
    lk_trace_fini(&back);
    free(changed);
    free(text);
}
END_TEST

/* The header after the events, and the events in another order. */
START_TEST(any_order_of_keys_and_events)
{
    size_t size;
    char *text = sample_text(&size);
    char *header = strstr(text, "  \"lockstep\": {");
    char *events = strstr(text, "  \"traceEvents\": [");
    char *end = strstr(text, "  \"traceName\"");
    char *moved = NULL;
    struct lk_trace t;
    struct lk_trace back;

    ck_assert(header && events && end);
    ck_assert_int_eq(lk_asprintf(&moved, "%.*s%.*s%.*s%s", (int)(header - text), text,
                                 (int)(end - events), events, (int)(events - header), header, end),
                     LK_OK);
    put_file(moved, strlen(moved));
    ck_assert_msg(lk_trace_read(path, &back) == LK_OK, "%s", lk_error_text());
    lk_trace_sample(&t, 1, 3);
    lk_trace_assert_same(&t, &back);
    lk_trace_fini(&t);
    lk_trace_fini(&back);
    free(moved);
    free(text);
}
END_TEST

/* Cut and corrupt the file at every place: never a crash, never half a trace. */
START_TEST(cuts_and_wrong_bytes)
{
    static const char bytes[] = {'0', '-', '"', '}', 'e', '\0', (char)0xff};
    size_t size;
    char *text = sample_text(&size);
    struct lk_trace t;

    for (size_t at = 0; at + 2 < size; at += 11) {
        put_file(text, at);
        ck_assert_int_ne(lk_trace_read(path, &t), LK_OK);
    }
    for (size_t at = 0; at < size; at += 7) {
        char was = text[at];

        text[at] = bytes[(at / 7) % sizeof bytes];
        put_file(text, size);
        if (lk_trace_read(path, &t) == LK_OK)
            lk_trace_fini(&t);
        else
            ck_assert_ptr_nonnull(strstr(lk_error_text(), "x.json"));
        text[at] = was;
    }
    free(text);
}
END_TEST

SUITE(trace, t)
{
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_loop_test(t, round_trip, 0, 6);
    tcase_add_test(t, round_trip_without_anything);
    tcase_add_test(t, round_trip_merged);
    tcase_add_test(t, a_single_trace_reads_as_merged_too);
    tcase_add_loop_test(t, a_span_that_cannot_be_written, 0, 5);
    tcase_add_test(t, a_full_disk);
    tcase_add_test(t, ranges_stand_in_for_kernels);
    tcase_add_test(t, records_beside_ranges);
    tcase_add_test(t, run_info_is_copied);
    tcase_add_test(t, a_run_directory);
    tcase_add_loop_test(t, kinetos_rules_hold, 0, 3);
    tcase_add_loop_test(t, the_checker_sees_violations, 0, (int)LK_COUNT(violations));
    tcase_add_loop_test(t, damage_is_named, 0, (int)LK_COUNT(edits));
    tcase_add_loop_test(t, foreign_things_are_left_alone, 0, (int)LK_COUNT(harmless));
    tcase_add_test(t, any_order_of_keys_and_events);
    tcase_add_test(t, cuts_and_wrong_bytes);
}
