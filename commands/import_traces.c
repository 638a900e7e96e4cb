/* lockstep import, of traces: makes a run directory, as `lockstep run` does. */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/units.h"
#include "commands/import_impl.h"
#include "commands/output.h"
#include "commands/paths.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"

#include <math.h>
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

/* ---- What the traces tell of the recording ---- */

/* List the lengths of a rank's steps, s, which the caller frees; *start_ns is when the first began
 * by the wall clock, since the epoch. */
static enum lk_status list_steps(const struct lk_trace *t, double **lengths, size_t *n,
                                 uint64_t *start_ns)
{
    size_t capacity = 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind != LK_SPAN_STEP)
            continue;
        if (!*n)
            *start_ns = t->base_epoch_ns - t->base_local_ns + s->start_ns;
        LK_PASS(lk_array_grow(lengths, &capacity, *n + 1, sizeof **lengths));
        (*lengths)[(*n)++] = (double)(s->end_ns - s->start_ns) / (double)LK_NS_PER_S;
    }
    return LK_OK;
}

/* Sum up what was recorded when. Ranks that reduce their gradients together begin a step within
 * less than half of one. pre: the traces are there. */
static enum lk_status describe(const struct lk_import *i, struct import_made *m)
{
    enum lk_status st = LK_OK;
    double *lengths = NULL;
    uint64_t first = 0;

    m->n_ranks = i->n;
    m->world_size = i->traces[0].info.world_size;
    for (size_t k = 0; k < i->n; k++) {
        uint64_t start = 0;
        size_t n = 0;

        free(lengths);
        lengths = NULL;
        LK_TRY(list_steps(&i->traces[k], &lengths, &n, &start));
        if (k == 0) {
            first = start;
            m->n_steps = n;
            m->step_s = n ? lk_stats_median(lengths, n) : NAN;
        }
        if (fabs((double)(int64_t)(start - first)) > 0.5 * m->step_s * (double)LK_NS_PER_S)
            m->is_apart = true;
    }
out:
    free(lengths);
    return st;
}

/* ---- The run directory ---- */

void import_made_fini(struct import_made *m)
{
    lk_table_destroy(m->table);
    free(m->no_job);
    *m = (struct import_made){0};
}

enum lk_status import_run(const struct lk_import_options *options, const char *out,
                          const char *const *paths, size_t n, struct import_made *made)
{
    enum lk_status st = LK_OK;
    struct import_made m = {0};
    struct lk_import run = {0};
    char **files = NULL;
    size_t n_files = 0;

    LK_TRY(lk_import_files(paths, n, &files, &n_files));
    LK_TRY(lk_import_run(files, n_files, options, &run));
    if (run.no_steps) {
        st = lk_fail(LK_EEVIDENCE, "%s (lockstep analyze shows what the GPUs did)", run.no_steps);
        goto out;
    }
    LK_TRY(write_traces(&run, out));
    LK_TRY(lk_import_table(&run, &m.table));
    LK_TRY(describe(&run, &m));
    lk_import_cost(&run, m.cost, sizeof m.cost);
    LK_TRY(write_job(&run, out, &m.no_job));
    *made = m;
    m = (struct import_made){0};
out:
    import_made_fini(&m);
    lk_import_fini(&run);
    lk_names_free(files, n_files);
    return st;
}

/* Say what was read. */
static enum lk_status say(const struct import_made *m, struct lk_page *page)
{
    char step[32];

    (void)lk_units_format(LK_DIM_TIME, m->step_s, step, sizeof step);
    LK_PASS(lk_page_say(page,
                        "Read %zu of %d ranks, %zu step%s: %s a step (the first rank's median).",
                        m->n_ranks, m->world_size, m->n_steps, m->n_steps == 1 ? "" : "s", step));
    if (m->is_apart)
        LK_PASS(lk_page_note(page, "the ranks' first steps began more than half a step apart: are "
                                   "these files of one run?"));
    LK_PASS(lk_page_value(page, "step_s", "", LK_DIM_TIME, m->step_s));
    return lk_page_value(page, "ranks", "", LK_DIM_NONE, (double)m->n_ranks);
}

enum lk_status import_traces(const struct import_options *o, const char **paths, int n,
                             struct lk_page *page)
{
    const struct lk_import_options options = {.patterns = o->comm_kernels,
                                              .world_size = o->world_size,
                                              .nodes = o->nodes.n ? (int)o->nodes.v[0] : 0,
                                              .local_batch = o->local_batch,
                                              .step_range = o->step_range,
                                              .steps_by_gpu = o->steps_by == 1,
                                              .drop_last = o->drop_last};
    static const struct lk_view_column view[] = {
        LK_VIEW("rank"),      LK_VIEW("events"), LK_VIEW("span_s"),   LK_VIEW("idle_s"),
        LK_VIEW("compute_s"), LK_VIEW("comm_s"), LK_VIEW("exposed_s")};
    enum lk_status st = LK_OK;
    struct import_made made = {0};

    LK_TRY(claim_folder(o->out, o->force));
    LK_TRY(import_run(&options, o->out, paths, (size_t)n, &made));
    LK_TRY(say(&made, page));
    if (made.no_job)
        LK_TRY(lk_page_note(page, "no job.json: %s", made.no_job));
    LK_TRY(lk_page_table(page, "traces", made.table->n_rows ? LK_PAGE_MAIN : LK_PAGE_DETAIL, view,
                         LK_COUNT(view), &made.table));
    LK_TRY(lk_page_rest(page, "run directory: %s%s", o->out,
                        made.no_job ? "" : ", with the job in job.json"));
    LK_TRY(lk_page_rest(page, "next: lockstep analyze %s", o->out));
out:
    import_made_fini(&made);
    return st;
}
