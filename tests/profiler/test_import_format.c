/* Files and folders that are told by their content. Divisions: files that are not read, folders. */
#include "profiler/import/format.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/import/import_files.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files that are not read ---- */

/* The message says what a file is, and what to give instead. */
static const struct {
    const char *name, *text, *says;
    size_t skip; /* bytes of 'x' before the text */
} refused[] = {
    {"a.tar", "ustar  ", "looks like an archive: unpack it", 257},
    {"a.tar.gz", "ustar", "looks like an archive: unpack it", 257},
    {"a.zip", "PK\3\4\24", "looks like an archive: unpack it", 0},
    {"a.nsys-rep", "\x7fNSYS", "looks like a report of Nsight Systems: nsys export", 0},
    {"a.pftrace", "\n\xc0", "looks like a Perfetto trace: traceconv json", 0},
    {"a.xplane.pb", "\n\xc0", "looks like an XPlane of JAX: JAX writes", 0},
    {"ops.parquet", "PAR1\25", "looks like a Parquet file: of tables CSV is read", 0},
    {"horovod.json",
     "[{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"ts\": 0, \"args\": "
     "{\"start_time_since_epoch_in_micros\": 17}},",
     "looks like a Horovod timeline: lockstep profile", 0},
    {"a.pkl", "\x80\4\x95\3", "looks like a Python pickle: of pickles", 0},
    {"README", "# A text", "is no trace that is known", 0},
    {"empty", "", "is no trace that is known", 0},
};

START_TEST(what_is_not_read_is_named)
{
    size_t n = strlen(refused[_i].text);
    const struct lk_format *format;
    char text[512], *path;

    memset(text, 'x', refused[_i].skip);
    memcpy(text + refused[_i].skip, refused[_i].text, n);
    path = scratch_put(refused[_i].name, text, refused[_i].skip + n);
    must(lk_format_of(path, &format));
    ck_assert(!format || !format->read);
    ck_assert_int_ne(lk_format_refuse(path, format), LK_OK);
    ck_assert_msg(strstr(lk_error_text(), refused[_i].says) != NULL, "%s", lk_error_text());
    free(path);
}
END_TEST

/* ---- Folders ---- */

static const char trace_text[] = "{\"traceEvents\": []}";

/* A folder has other things, too: those that are no files are not opened, let alone waited for. */
START_TEST(folders_have_other_things)
{
    char *folder = scratch_path(scratch_dir, "rank"), *link = scratch_path(folder, "rank0.json"),
         *pipe = scratch_path(folder, "rank2.json"), *trace, **files = NULL;
    const char *const paths[] = {folder, pipe};
    struct lk_trace t;
    size_t n = 0;

    must(lk_mkdirs(folder));
    trace = scratch_put("rank/rank1.json", trace_text, strlen(trace_text));
    free(scratch_put("rank/README", "text", 4));
    ck_assert_int_eq(symlink("nothing", link), 0);
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    ck_assert(lk_import_is(folder));
    must(lk_import_files(paths, 1, &files, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(files[0], trace);
    lk_names_free(files, n);
    ck_assert_int_eq(lk_import_files(paths + 1, 1, &files, &n), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank2.json: is a pipe or a device"));
    ck_assert_int_eq(lk_trace_read(pipe, &t), LK_EIO);
    free(folder);
    free(link);
    free(pipe);
    free(trace);
}
END_TEST

/* A run directory of lockstep's own stays one, also where another profiler wrote into it. */
START_TEST(own_runs_are_no_import)
{
    char *trace = scratch_path(scratch_dir, "rank0.trace.json.gz"), *other;
    const struct step_model m = step_model_default((struct step_model){.ranks = 1});
    const char *const paths[] = {scratch_dir};
    struct lk_trace *traces = NULL;
    char **files = NULL;
    size_t n = 0;

    other = scratch_put("profile.json", trace_text, strlen(trace_text));
    ck_assert(lk_import_is(scratch_dir));
    must(step_model_run(&m, &traces, NULL));
    must(lk_trace_write(trace, &traces[0]));
    ck_assert(!lk_import_is(scratch_dir));
    ck_assert_int_eq(lk_import_files(paths, 1, &files, &n), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "is a run directory of lockstep's own"));
    lk_traces_free(traces, 1);
    free(trace);
    free(other);
}
END_TEST

SUITE(import_format, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, what_is_not_read_is_named, 0, (int)LK_COUNT(refused));
    tcase_add_test(t, folders_have_other_things);
    tcase_add_test(t, own_runs_are_no_import);
}
