/* The end of a run: job.json and the summary. */
#include "commands/run_finish.h"

#include "base/array.h"
#include "base/file.h"
#include "commands/run_result.h"
#include "profiler/job_build.h"
#include "profiler/run_set.h"
#include "reports/print.h"

#include <stdlib.h>

static enum lk_status write_job(const char *out)
{
    struct lk_run_set set = {0};
    struct lk_job job = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_run_set_read(&out, 1, &set));
    LK_TRY(lk_job_build(&set, &job));
    LK_TRY(lk_path_join(&path, out, "job.json"));
    LK_TRY(lk_job_write(path, &job));
out:
    free(path);
    lk_job_fini(&job);
    lk_run_set_fini(&set);
    return st;
}

enum lk_status run_finish(const struct run_sweep *s, const struct run_options *o, const char *out)
{
    struct lk_table *table = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(run_sweep_table(s, o, &table));
    if (o->trace) {
        st = write_job(out);
        if (st == LK_EEVIDENCE)
            st = lk_table_note(table, "no job.json: %s", lk_error_text());
        LK_TRY(st);
    }
    LK_TRY(lk_table_note(table, "run directory: %s", out));
    LK_TRY(lk_report_table(table, (enum lk_format)o->format, "-"));
out:
    lk_table_destroy(table);
    return st;
}

enum lk_status run_finish_single(const struct run_options *given, int ranks, const char *out)
{
    struct run_options o = *given;
    struct run_sweep s = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    o.ranks = ranks;
    LK_TRY(run_sweep_plan(&o, &s));
    LK_TRY(lk_path_join(&path, out, "result.json"));
    LK_TRY(run_result_read(path, &s.parts[0].result));
    s.parts[0].done = true;
    LK_TRY(run_finish(&s, &o, out));
out:
    free(path);
    run_sweep_fini(&s);
    return st;
}
