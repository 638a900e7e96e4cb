/* lockstep import, of traces: makes a run directory, as `lockstep run` does. */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "commands/import_impl.h"
#include "commands/ledger_score.h"
#include "commands/output.h"
#include "commands/paths.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"
#include "profiler/analysis/steps.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"
#include "profiler/import/step_match.h"

#include <math.h>
#include <stdlib.h>

static enum lk_status write_traces(const struct lk_run *run, const char *out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_mkdirs(out));
    for (size_t k = 0; k < run->n; k++) {
        free(path);
        path = NULL;
        LK_TRY(lk_asprintf(&path, "%s/rank%d.trace.json.gz", out, lk_run_rank(run, k)));
        LK_TRY(lk_trace_write(path, &run->traces[k]));
    }
out:
    free(path);
    return st;
}

/* Say which traffic of the job reduces no gradients; *out stays NULL where there is none. */
static enum lk_status tell_traffic(const struct lk_job *j, char **out)
{
    double exposed_s = 0, fixed_s = 0;
    enum lk_coll coll;
    char exposed[32], fixed[32];

    for (size_t i = 0; i < j->n_collectives; i++) {
        const struct lk_job_collective *c = &j->collectives[i];

        exposed_s += c->exposed_s.value;
        fixed_s += lk_job_collective_placed(c, &coll) ? 0 : c->exposed_s.value;
    }
    if (!j->n_collectives)
        return LK_OK;
    lk_units_format(LK_DIM_TIME, exposed_s, exposed, sizeof exposed);
    lk_units_format(LK_DIM_TIME, fixed_s, fixed, sizeof fixed);
    return lk_asprintf(out,
                       "beside its gradients' the job has %zu collective%s a micro-batch or step: "
                       "%s of a step are exposed%s%s%s",
                       j->n_collectives, j->n_collectives == 1 ? "" : "s", exposed,
                       fixed_s > 0 ? "; of these, " : "", fixed_s > 0 ? fixed : "",
                       fixed_s > 0 ? " are of collectives that no model has, and fixed" : "");
}

/* Write the job that a forecast starts from; m->no_job says what it lacks, if there is none. */
static enum lk_status write_job(struct lk_run *run, const char *out, struct import_made *m)
{
    struct lk_run_set set = {.runs = run, .n = 1};
    struct lk_job job = {0};
    enum lk_status st = LK_OK;
    char *path = NULL;

    st = lk_job_build(&set, &job);
    if (st == LK_EEVIDENCE) {
        st = lk_strdup(&m->no_job, lk_error_text());
        goto out;
    }
    LK_TRY(st);
    LK_TRY(tell_traffic(&job, &m->traffic));
    LK_TRY(lk_path_join(&path, out, "job.json"));
    LK_TRY(lk_job_write(path, &job));
out:
    free(path);
    lk_job_fini(&job);
    return st;
}

/* ---- What the traces tell of the recording ---- */

/* Return a rank's span of a step; NULL: it has none. */
static const struct lk_span *find_step(const struct lk_trace *t, uint32_t number)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_STEP && t->spans[i].span.step == number)
            return &t->spans[i].span;
    return NULL;
}

/* Return the mean length of the host's steps but for the first; NaN: there is no other. */
static double host_step_s(const struct lk_trace *t)
{
    const struct lk_span *first = lk_import_first_step(t);
    uint64_t sum_ns = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_STEP && s != first) {
            sum_ns += s->end_ns - s->start_ns;
            n++;
        }
    }
    return n ? lk_s_from_ns(sum_ns) / (double)n : NAN;
}

/* Set the mean length of the steps that an analysis has, and that of the host's marks where it is
 * another one. The first step has no mark of the host's at which it begins. */
static enum lk_status measure_steps(const struct lk_trace *t, struct import_made *m)
{
    const double SAME = 0.05;
    const struct lk_span *first = lk_import_first_step(t);
    double sum_s = 0, rest_s = 0;
    struct lk_rank_steps s;
    size_t n_rest = 0;

    LK_PASS(lk_rank_steps_read(t, &s));
    for (size_t k = 0; k < s.n_steps; k++) {
        bool rest = s.steps[k].step != first->step;

        sum_s += lk_step_window_s(&s.steps[k]);
        rest_s += rest ? lk_step_window_s(&s.steps[k]) : 0;
        n_rest += rest;
    }
    m->n_steps = s.n_steps;
    m->step_s = sum_s / (double)s.n_steps;
    m->host_s = host_step_s(t);
    if (!n_rest || !(fabs(m->host_s / (rest_s / (double)n_rest) - 1) > SAME))
        m->host_s = NAN;
    lk_rank_steps_fini(&s);
    return LK_OK;
}

/* Return how far apart two ranks began the first step that both have; 0: they have none. */
static double apart_ns(const struct lk_trace *a, const struct lk_trace *b)
{
    const struct lk_span *x = lk_import_first_step(a), *y = lk_import_first_step(b);

    if (x && y && x->step < y->step)
        x = find_step(a, y->step);
    else if (x && y && y->step < x->step)
        y = find_step(b, x->step);
    return x && y ? fabs((double)(int64_t)(lk_import_start_ns(a, x) - lk_import_start_ns(b, y)))
                  : 0;
}

/* Sum up what was recorded when. Ranks that reduce their gradients together begin a step within
 * less than half of one. */
static enum lk_status describe(const struct lk_run *run, struct import_made *m)
{
    m->n_ranks = run->n;
    m->world_size = lk_run_world_size(run);
    LK_PASS(measure_steps(&run->traces[0], m));
    for (size_t k = 1; k < run->n; k++)
        m->is_apart = m->is_apart || apart_ns(&run->traces[0], &run->traces[k]) >
                                         0.5 * m->step_s * (double)LK_NS_PER_S;
    return LK_OK;
}

/* ---- The run directory ---- */

void import_made_fini(struct import_made *m)
{
    lk_table_destroy(m->table);
    free(m->no_job);
    free(m->traffic);
    *m = (struct import_made){0};
}

enum lk_status import_run(const struct lk_import_options *options, const char *out,
                          const char *const *paths, size_t n, struct import_made *made)
{
    enum lk_status st = LK_OK;
    struct import_made m = {0};
    struct lk_import i = {0};
    struct lk_run run = {0};
    char **files = NULL;
    size_t n_files = 0;

    LK_TRY(lk_import_files(paths, n, &files, &n_files));
    LK_TRY(lk_import_run(files, n_files, options, &i));
    st = lk_import_take(&i, out, &run);
    if (st == LK_EEVIDENCE)
        st = lk_fail(st, "%s (lockstep analyze shows what the GPUs did)", i.no_steps);
    LK_TRY(st);
    LK_TRY(describe(&run, &m));
    LK_TRY(write_traces(&run, out));
    LK_TRY(lk_import_table(&i, &m.table));
    lk_import_cost(&i, m.cost, sizeof m.cost);
    LK_TRY(write_job(&run, out, &m));
    *made = m;
    m = (struct import_made){0};
out:
    import_made_fini(&m);
    lk_run_fini(&run);
    lk_import_fini(&i);
    lk_names_free(files, n_files);
    return st;
}

/* Say what was read. */
static enum lk_status say(const struct import_made *m, struct lk_page *page)
{
    char step[32], host[32];

    (void)lk_units_format(LK_DIM_TIME, m->step_s, step, sizeof step);
    (void)lk_units_format(LK_DIM_TIME, m->host_s, host, sizeof host);
    LK_PASS(lk_page_say(page,
                        "Read %zu of %d ranks, %zu complete step%s: %s a step (the first rank's).",
                        m->n_ranks, m->world_size, m->n_steps, m->n_steps == 1 ? "" : "s", step));
    if (!isnan(m->host_s))
        LK_PASS(lk_page_say(page, "The host marks a step every %s%s.", host,
                            m->host_s < m->step_s ? ": it runs ahead of its GPU" : ""));
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
                                              .nodes =
                                                  o->bench.nodes.n ? (int)o->bench.nodes.v[0] : 0,
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
    if (!made.no_job)
        LK_TRY(ledger_score_runs(o->out, NULL, page));
    if (made.no_job)
        LK_TRY(lk_page_note(page, "no job.json: %s", made.no_job));
    if (made.traffic)
        LK_TRY(lk_page_note(page, "%s", made.traffic));
    LK_TRY(lk_page_table(page, "traces", made.table->n_rows ? LK_PAGE_MAIN : LK_PAGE_DETAIL, view,
                         LK_COUNT(view), &made.table));
    LK_TRY(lk_page_next(page, "run directory: %s%s", o->out,
                        made.no_job ? "" : ", with the job in job.json"));
    LK_TRY(lk_page_next(page, "next: lockstep analyze %s", o->out));
out:
    import_made_fini(&made);
    return st;
}
