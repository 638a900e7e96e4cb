/* lockstep import, of traces: makes a run directory, as `lockstep run` does. */
#include "base/array.h"
#include "base/file.h"
#include "commands/import_impl.h"
#include "commands/output.h"
#include "profiler/import/import.h"
#include "profiler/job_build.h"
#include "profiler/run_set.h"

#include <stdlib.h>

static enum lk_status write_traces(const struct lk_import *i, const char *out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_mkdirs(out));
    for (size_t k = 0; k < i->n; k++) {
        free(path);
        path = NULL;
        LK_TRY(lk_asprintf(&path, "%s/rank%d.trace.json.gz", out, i->rows[k].rank));
        LK_TRY(lk_trace_write(path, &i->traces[k]));
    }
out:
    free(path);
    return st;
}

/* Write the job that a forecast starts from, and take the traces; *why says what it lacks, if there
 * is none. */
static enum lk_status write_job(struct lk_import *i, const char *out, char **why)
{
    struct lk_run run = {0};
    struct lk_run_set set = {.runs = &run, .n = 1};
    struct lk_job job = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_run_take(out, i->traces, i->n, &run));
    i->traces = NULL;
    st = lk_job_build(&set, &job);
    if (st == LK_EEVIDENCE) {
        st = lk_strdup(why, lk_error_text());
        goto out;
    }
    LK_TRY(st);
    LK_TRY(lk_path_join(&path, out, "job.json"));
    LK_TRY(lk_job_write(path, &job));
out:
    free(path);
    lk_job_fini(&job);
    lk_run_fini(&run);
    return st;
}

enum lk_status import_traces(const struct import_options *o, const char **paths, int n)
{
    const struct lk_import_options options = {.patterns = o->comm_kernels,
                                              .world_size = (int)o->world_size,
                                              .nodes = o->nodes.n ? (int)o->nodes.v[0] : 0,
                                              .local_batch = (int)o->local_batch,
                                              .step_range = o->step_range,
                                              .steps_by_gpu = o->steps_by == 1,
                                              .drop_last = o->drop_last};
    enum lk_status st = LK_OK;
    struct lk_table *table = NULL;
    struct lk_import run = {0};
    char **files = NULL, *why = NULL;
    size_t n_files = 0;

    LK_TRY(check_empty(o->out));
    LK_TRY(lk_import_files(paths, (size_t)n, &files, &n_files));
    LK_TRY(lk_import_run(files, n_files, &options, &run));
    if (run.no_steps) {
        st = lk_fail(LK_EEVIDENCE, "%s (lockstep analyze shows what the GPUs did)", run.no_steps);
        goto out;
    }
    LK_TRY(write_traces(&run, o->out));
    LK_TRY(lk_import_table(&run, &table));
    LK_TRY(lk_table_note(table, "%zu of %d ranks; run directory: %s (lockstep analyze %s)", run.n,
                         run.traces[0].info.world_size, o->out, o->out));
    LK_TRY(write_job(&run, o->out, &why));
    if (why)
        LK_TRY(lk_table_note(table, "no job.json: %s", why));
out:
    st = tables_finish(st, &table, 1, o->format);
    free(why);
    lk_import_fini(&run);
    lk_names_free(files, n_files);
    return st;
}
