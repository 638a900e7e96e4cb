/* Read the operands of `lockstep report`; see report_input.h. */
#include "commands/report_input.h"

#include "base/array.h"
#include "base/file.h"
#include "commands/analyze_impl.h"
#include "commands/inputs.h"
#include "commands/job_inputs.h"
#include "facts/forecast.h"
#include "profiler/import/import_files.h"
#include "profiler/import/step_times.h"
#include "runtime/device/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Title ---- */

/* Name what a run ran on: its GPU, or the processor of its host. */
static const char *machine_of(const struct lk_run_info *info)
{
    const char *processor = lk_run_info_value(info, lk_machine_keys[LK_MACHINE_PROCESSOR]);

    return processor && !strcmp(info->device, "cpu") ? processor : info->device;
}

/* Make a title such as "gpt-nano on 2 x Xeon, 2026-01-31"; a simulated run has no date. */
static enum lk_status run_title(const struct lk_run *run, char **out)
{
    const struct lk_run_info *info = lk_run_about(run);
    time_t seconds = (time_t)(run->traces[0].base_epoch_ns / LK_NS_PER_S);
    struct tm tm;
    char date[32];

    if (info->simulated)
        return lk_asprintf(out, "%s, simulated on %s", info->model, info->host);
    if (!gmtime_r(&seconds, &tm) || !strftime(date, sizeof date, "%Y-%m-%d", &tm))
        return lk_fail(LK_EPARSE, "%s: the trace has no sensible date", run->dir);
    return lk_asprintf(out, "%s on %s, %s", info->model, machine_of(info), date);
}

/* Make "gpt2 on dgx-h100 and ethernet-25g"; of many clusters their number. */
static enum lk_status forecast_title(const struct lk_forecast *f, size_t n, char **out)
{
    if (n == 1)
        return lk_asprintf(out, "%s on %s", f[0].job, f[0].cluster);
    if (n == 2 && strcmp(f[0].cluster, f[1].cluster) != 0)
        return lk_asprintf(out, "%s on %s and %s", f[0].job, f[0].cluster, f[1].cluster);
    return lk_asprintf(out, "%s: %zu forecasts", f[0].job, n);
}

enum lk_status report_input_name(struct report_input *r, const char *title)
{
    if (title)
        LK_PASS(lk_strdup(&r->title, title));
    else if (r->runs.n)
        LK_PASS(run_title(&r->runs.runs[r->runs.n - 1], &r->title));
    else if (r->in.n_forecasts)
        LK_PASS(forecast_title(r->forecasts, r->in.n_forecasts, &r->title));
    else if (r->operands[REPORT_CLUSTER].n)
        LK_PASS(lk_asprintf(&r->title, "Collectives of %s", r->cluster.name));
    else if (r->operands[REPORT_TIMES].n)
        LK_PASS(lk_asprintf(&r->title, "Times of %s", r->operands[REPORT_TIMES].names[0]));
    else
        LK_PASS(lk_strdup(&r->title, r->has_job ? r->job.name : "Traces"));
    r->in.title = lk_printable(r->title);
    return LK_OK;
}

/* ---- Runs ---- */

/* List the configurations that were measured. */
static enum lk_status list_measured(struct report_input *r)
{
    LK_PASS(lk_alloc(&r->measured, r->analyzed->n_pools, sizeof *r->measured));
    LK_PASS(lk_strdup(&r->machine, machine_of(lk_run_about(r->analyzed->runs[0].run))));
    for (size_t i = 0; i < r->analyzed->n_pools; i++) {
        const struct lk_pool *p = &r->analyzed->pools[i];
        const struct lk_run_info *info = lk_run_about(p->runs[0].run);

        r->measured[i] = (struct lk_plot_measured){.name = r->machine,
                                                   .config = {.world_size = info->world_size,
                                                              .nodes = info->nodes,
                                                              .local_batch = info->local_batch,
                                                              .accumulation = info->accumulation,
                                                              .cap_bytes = info->cap_bytes},
                                                   .step_s = p->step_s.mean,
                                                   .step_lo_s = p->step_s.lo,
                                                   .step_hi_s = p->step_s.hi,
                                                   .efficiency = p->efficiency.mean,
                                                   .efficiency_lo = p->efficiency.lo,
                                                   .efficiency_hi = p->efficiency.hi,
                                                   .runs = (int)p->n};
    }
    r->in.measured = r->measured;
    r->in.n_measured = r->analyzed->n_pools;
    return LK_OK;
}

/* Take the waterfall of the configuration that `analyze` answers for. */
static enum lk_status take_losses(struct report_input *r, const struct lk_pool *p)
{
    const struct lk_run_info *info = lk_run_about(p->runs[0].run);

    LK_PASS(lk_asprintf(&r->losses_title, "%d rank%s, local batch %d, accumulation %d%s",
                        info->world_size, info->world_size == 1 ? "" : "s", info->local_batch,
                        info->accumulation, p->n > 1 ? ", pooled" : ""));
    r->losses = (struct lk_plot_losses){.title = r->losses_title,
                                        .reference = p->runs[0].reference,
                                        .own_s = fmax(0, p->reference_own_s.mean),
                                        .runs = (int)p->n};
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        r->losses.mean_s[i] = p->losses_s[i].mean;
        r->losses.lo_s[i] = p->losses_s[i].lo;
        r->losses.hi_s[i] = p->losses_s[i].hi;
    }
    r->in.losses = &r->losses;
    return LK_OK;
}

/* Return what a rank does by itself in a step: all but collectives that it waits for. */
static double own_s(const struct lk_rank_steps *s, uint32_t number)
{
    const struct lk_step *step = lk_rank_step(s, number);
    struct lk_step_split split;

    if (!step)
        return NAN;
    lk_step_split(s, step, NULL, &split);
    return split.s[LK_PART_FORWARD] + split.s[LK_PART_BACKWARD] + split.s[LK_PART_OPTIMIZER] +
           split.s[LK_PART_INPUT] + split.s[LK_PART_GAP];
}

/* Fill the times of all ranks of a run in its steps. */
static enum lk_status take_ranks(struct report_input *r, const struct lk_run *run)
{
    struct lk_step_times *t = &r->times;

    if (!run->n_steps || run->n < 2)
        return LK_OK;
    LK_PASS(lk_step_times_init(t, run->n, run->n_steps));
    memcpy(t->steps, run->steps, run->n_steps * sizeof *t->steps);
    for (size_t k = 0; k < run->n; k++) {
        t->ranks[k] = lk_run_rank(run, k);
        LK_PASS(lk_strdup(&t->hosts[k], run->traces[k].info.host));
        for (size_t i = 0; i < run->n_steps; i++)
            t->own_s[k * run->n_steps + i] = own_s(&run->ranks[k], run->steps[i]);
    }
    return LK_OK;
}

/* Analyse the runs and, with a cluster on which their collectives are known, try what its advice
 * would gain. */
static enum lk_status analyze_with(struct report_input *r)
{
    const struct report_operands *clusters = &r->operands[REPORT_CLUSTER];
    enum lk_status st = LK_EEVIDENCE;

    if (clusters->n) {
        LK_PASS(analyze_alone_init(&r->analyzed->alone, clusters->names[0]));
        st = analyze_pools(&r->runs, &r->runs, NULL, r->analyzed);
        if (st == LK_EEVIDENCE) {
            analyzed_fini(r->analyzed);
            *r->analyzed = (struct analyzed){0};
        }
    }
    LK_PASS(st == LK_EEVIDENCE ? analyze_pools(&r->runs, &r->runs, NULL, r->analyzed) : st);
    return analyze_try(&r->runs, r->analyzed);
}

static enum lk_status take_runs(struct report_input *r)
{
    const struct lk_run *last = &r->runs.runs[r->runs.n - 1];

    LK_PASS(lk_alloc(&r->analyzed, 1, sizeof *r->analyzed));
    LK_PASS(analyze_with(r));
    LK_PASS(list_measured(r));
    LK_PASS(take_losses(r, &r->analyzed->pools[r->analyzed->n_pools - 1]));
    LK_PASS(take_ranks(r, last));
    r->in.traces = last->traces;
    r->in.n_traces = last->n;
    return LK_OK;
}

/* ---- All ---- */

/* Read the kind of a JSON file off its schema. */
static enum lk_status kind_of_file(const char *path, enum report_kind *out)
{
    static const char *const schemas[] = {LK_FORECAST_SCHEMA, LK_CLUSTER_SCHEMA, LK_JOB_SCHEMA};
    static const enum report_kind kinds[] = {REPORT_FORECAST, REPORT_CLUSTER, REPORT_JOB};
    size_t k;

    LK_PASS(find_schema(path, schemas, LK_COUNT(schemas),
                        "a report has runs, traces, forecasts, clusters and a job", &k));
    *out = kinds[k];
    return LK_OK;
}

static enum lk_status kind_of(const char *name, enum report_kind *out)
{
    enum operand operand = operand_of(name);
    bool import =
        operand == OPERAND_FOLDER ? lk_import_is(name) : lk_is_file(name) && lk_import_reads(name);

    *out = import                                       ? REPORT_IMPORT
           : operand == OPERAND_PRESET                  ? REPORT_CLUSTER
           : lk_is_file(name) && lk_step_times_is(name) ? REPORT_TIMES
                                                        : REPORT_RUN;
    return operand == OPERAND_FILE && *out == REPORT_RUN ? kind_of_file(name, out) : LK_OK;
}

static const char *const kind_names[REPORT_KINDS] = {[REPORT_RUN] = "runs",
                                                     [REPORT_IMPORT] = "traces of another program",
                                                     [REPORT_TIMES] = "a table of times",
                                                     [REPORT_FORECAST] = "forecast",
                                                     [REPORT_CLUSTER] = "cluster",
                                                     [REPORT_JOB] = "job"};

const char *report_kind_name(enum report_kind k)
{
    return kind_names[k];
}

/* Refuse operands whose ranks would be those of two measurements. */
static enum lk_status check_measured(const struct report_input *r)
{
    static const enum report_kind measured[] = {REPORT_RUN, REPORT_IMPORT, REPORT_TIMES};
    const char *first = NULL;
    enum report_kind of = REPORT_KINDS;

    for (size_t i = 0; i < LK_COUNT(measured); i++) {
        const struct report_operands *o = &r->operands[measured[i]];

        if (first && o->n)
            return lk_fail(LK_EUSAGE, "%s is %s, %s is %s: make a report of each", first,
                           kind_names[of], o->names[0], kind_names[measured[i]]);
        if (measured[i] == REPORT_TIMES && o->n > 1)
            return lk_fail(LK_EUSAGE, "%s and %s are two tables of times: make a report of each",
                           o->names[0], o->names[1]);
        if (o->n) {
            first = o->names[0];
            of = measured[i];
        }
    }
    return LK_OK;
}

static enum lk_status sort_operands(struct report_input *r, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum report_kind kind;
        struct report_operands *o;

        LK_PASS(kind_of(names[i], &kind));
        o = &r->operands[kind];
        o->names[o->n++] = names[i];
    }
    LK_PASS(check_measured(r));
    if (r->operands[REPORT_JOB].n > 1)
        return lk_fail(LK_EUSAGE, "%s and %s are two jobs: make a report of each",
                       r->operands[REPORT_JOB].names[0], r->operands[REPORT_JOB].names[1]);
    return LK_OK;
}

/* Read the job that was given; else that of the runs, which may have too few steps for one. */
static enum lk_status read_job(struct report_input *r)
{
    const struct report_operands *job = &r->operands[REPORT_JOB], *runs = &r->operands[REPORT_RUN];
    enum lk_status st;

    if (job->n)
        st = find_job(job->names[0], &r->job);
    else if (runs->n)
        st = find_job_of_runs(runs->names, runs->n, &r->job);
    else
        return LK_OK;
    r->has_job = st == LK_OK;
    return st == LK_EEVIDENCE ? LK_OK : st;
}

enum lk_status report_input_read(const char *const *operands, size_t n, struct report_input *out)
{
    const struct report_operands *of = out->operands;

    out->in.step = -1;
    out->in.forecasts = out->forecasts;
    LK_PASS(sort_operands(out, operands, n));
    for (size_t i = 0; i < of[REPORT_FORECAST].n; i++) {
        LK_PASS(lk_forecast_read(of[REPORT_FORECAST].names[i], &out->forecasts[i]));
        out->in.n_forecasts++;
    }
    if (of[REPORT_CLUSTER].n)
        LK_PASS(find_cluster(of[REPORT_CLUSTER].names[0], &out->cluster));
    if (of[REPORT_RUN].n)
        LK_PASS(lk_run_set_read(of[REPORT_RUN].names, of[REPORT_RUN].n, &out->runs));
    if (of[REPORT_IMPORT].n)
        LK_PASS(analyze_import_read(of[REPORT_IMPORT].names, of[REPORT_IMPORT].n, &out->import,
                                    &out->runs));
    if (out->runs.n)
        LK_PASS(take_runs(out));
    if (of[REPORT_TIMES].n)
        LK_PASS(lk_step_times_read(of[REPORT_TIMES].names[0], &out->times));
    if (out->times.n_ranks)
        out->in.ranks = &out->times;
    return read_job(out);
}

void report_input_fini(struct report_input *r)
{
    for (size_t i = 0; i < r->in.n_forecasts; i++) {
        lk_forecast_fini(&r->forecasts[i]);
        lk_forecast_fini(&r->settings[i]);
    }
    if (r->analyzed)
        analyzed_fini(r->analyzed);
    free(r->analyzed);
    lk_run_set_fini(&r->runs);
    lk_import_fini(&r->import);
    lk_cluster_fini(&r->cluster);
    lk_job_fini(&r->job);
    free(r->measured);
    lk_step_times_fini(&r->times);
    free(r->title);
    free(r->losses_title);
    free(r->machine);
    free(r->refused);
}
