/* The page of a report; see report_page.h. Divisions: sections, how it was obtained, the page. */
#include "commands/report_page.h"

#include "base/array.h"
#include "base/file.h"
#include "commands/analyze_impl.h"
#include "commands/collectives_impl.h"
#include "commands/forecast_page.h"
#include "commands/report_changes.h"
#include "commands/step_times_page.h"
#include "facts/forecast_answer.h"
#include "reports/html.h"
#include "reports/plot/grid.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A section, with all that it borrows. */
struct section {
    char *heading, *command;
    struct lk_page page;
    struct report_changes changes;
    struct lk_chart_list charts;
};

enum { SECTIONS_MAX = REPORT_OPERANDS_MAX + 4 };
struct sections {
    struct section v[SECTIONS_MAX];
    size_t n;
};

static void sections_fini(struct sections *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct section *x = &s->v[i];

        free(x->heading);
        free(x->command);
        lk_page_fini(&x->page);
        report_changes_fini(&x->changes);
        lk_chart_list_fini(&x->charts);
    }
}

/* ---- Sections ---- */

/* Begin a section; command: that prints the same about operands, NULL: none does. */
static enum lk_status begin(struct sections *s, const char *heading, const char *command,
                            const struct report_operands *of, struct section **out)
{
    struct section *x = &s->v[s->n++];

    *out = x;
    LK_PASS(lk_strdup(&x->heading, heading));
    if (command)
        LK_PASS(lk_asprintf(&x->command, "lockstep %s", command));
    for (size_t i = 0; command && i < of->n; i++)
        LK_PASS(lk_text_add(&x->command, " %s", of->names[i]));
    return LK_OK;
}

/* Append the charts of a part of the input. A forecast without numbers has none. */
static enum lk_status add_charts(struct section *x, const struct lk_report_input *in)
{
    enum lk_status st = lk_plots_make(in, &x->charts);

    return st == LK_EEVIDENCE ? lk_page_note(&x->page, "%s", lk_error_text()) : st;
}

/* Add the runs, or the import, with the measured part of the input's charts. */
static enum lk_status add_runs(const struct report_input *in, struct sections *s)
{
    const struct report_operands *imports = &in->operands[REPORT_IMPORT];
    struct lk_report_input part = in->in;
    struct section *x;

    if (!in->analyzed && !imports->n)
        return LK_OK;
    LK_PASS(begin(s,
                  imports->n ? "Where the time goes in the imported traces"
                             : "Where the time goes in the measured runs",
                  "analyze", imports->n ? imports : &in->operands[REPORT_RUN], &x));
    if (imports->n)
        LK_PASS(analyze_import_page((struct lk_import *)&in->import, in->analyzed, &x->page));
    else
        LK_PASS(analyze_page(in->analyzed, &x->page));
    LK_PASS(report_changes_of_runs(&x->page, &x->changes));
    part.title = NULL; /* the page's */
    part.forecasts = NULL;
    part.n_forecasts = 0;
    return in->analyzed ? add_charts(x, &part) : LK_OK;
}

/* Add a table of ranks' times in steps. */
static enum lk_status add_times(const struct report_input *in, struct sections *s)
{
    const struct lk_report_input part = {.ranks = in->in.ranks, .step = -1};
    struct section *x;

    if (!in->operands[REPORT_TIMES].n)
        return LK_OK;
    LK_PASS(
        begin(s, "How long ranks work in each step", "analyze", &in->operands[REPORT_TIMES], &x));
    LK_PASS(step_times_page(&in->times, &x->page));
    return add_charts(x, &part);
}

/* Return whether some of n forecasts has a point of a measured configuration's batch. */
static bool has_batch(const struct lk_forecast *f, size_t n, const struct lk_config *measured)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < f[i].n_points; k++) {
            const struct lk_config *c = &f[i].points[k].config;

            if (c->local_batch == measured->local_batch &&
                c->accumulation == measured->accumulation && c->cap_bytes == measured->cap_bytes)
                return true;
        }
    return false;
}

/* Append the charts of n forecasts, with what was measured of the same batches; the section of the
 * runs has the others. */
static enum lk_status add_curves(const struct report_input *in, const struct lk_forecast *f,
                                 size_t n, struct section *x)
{
    enum lk_status st = LK_OK;
    struct lk_report_input part = {.forecasts = f, .n_forecasts = n, .step = -1};
    struct lk_plot_measured *measured = NULL;

    LK_TRY(lk_alloc(&measured, in->in.n_measured, sizeof *measured));
    for (size_t i = 0; i < in->in.n_measured; i++)
        if (has_batch(f, n, &in->in.measured[i].config))
            measured[part.n_measured++] = in->in.measured[i];
    part.measured = measured;
    st = add_charts(x, &part);
out:
    free(measured);
    return st;
}

/* Say what a forecast's point on most GPUs reaches; of one without numbers, its first sentence. */
static enum lk_status say_largest(const struct lk_forecast *f, struct lk_page *page)
{
    const struct lk_forecast_point *p = NULL;
    char step[40], n[32], range[64] = "";

    for (size_t i = 0; i < f->n_points; i++)
        if (!isnan(f->points[i].step_s) &&
            (!p || f->points[i].config.world_size > p->config.world_size))
            p = &f->points[i];
    if (!p)
        return lk_page_say(page, "%s: %s", f->cluster,
                           f->n_answer ? f->answer[0] : "no point has a number.");
    lk_units_format(LK_DIM_TIME, p->step_s, step, sizeof step);
    lk_answer_number(p->config.world_size, n, sizeof n);
    if (!isnan(p->efficiency))
        snprintf(range, sizeof range, "%.0f %% of linear scaling (%.0f to %.0f), ",
                 100 * p->efficiency, 100 * p->efficiency_lo, 100 * p->efficiency_hi);
    return lk_page_say(page, "%s: %s GPUs reach %s%s a step.", f->cluster, n, range, step);
}

/* Add all forecasts on one curve, where there are several. */
static enum lk_status add_forecasts_together(const struct report_input *in, struct sections *s)
{
    struct section *x;

    if (in->in.n_forecasts < 2)
        return LK_OK;
    LK_PASS(begin(s, "The forecasts side by side", NULL, NULL, &x));
    for (size_t i = 0; i < in->in.n_forecasts; i++)
        LK_PASS(say_largest(&in->in.forecasts[i], &x->page));
    return add_curves(in, in->in.forecasts, in->in.n_forecasts, x);
}

/* Append what other settings gain, where they were tried. */
static enum lk_status add_settings(const struct lk_forecast *f, struct section *x)
{
    static enum lk_status (*const make[])(struct lk_chart *, const struct lk_forecast *) = {
        lk_chart_gains, lk_chart_heat_map};

    for (size_t i = 0; f->n_points && i < LK_COUNT(make); i++) {
        struct lk_chart c = {0};
        enum lk_status st;

        LK_PASS(lk_array_grow(&x->charts.charts, &x->charts.capacity, x->charts.n + 1,
                              sizeof *x->charts.charts));
        st = make[i](&c, f);
        if (st == LK_EEVIDENCE)
            continue;
        LK_PASS(st);
        x->charts.charts[x->charts.n++] = c;
    }
    return LK_OK;
}

static enum lk_status add_forecast(const struct report_input *in, size_t at, struct sections *s)
{
    const struct lk_forecast *f = &in->in.forecasts[at];
    enum lk_status st = LK_OK;
    struct section *x;
    char *heading = NULL;

    LK_TRY(lk_asprintf(&heading, "Forecast: %s on %s", f->job, f->cluster));
    LK_TRY(begin(s, heading, NULL, NULL, &x));
    if (in->made_on[at])
        LK_TRY(lk_asprintf(&x->command, "lockstep predict %s %s --gpus=%s",
                           in->operands[REPORT_JOB].names[0], in->made_on[at], in->counts));
    LK_TRY(forecast_page(f, &x->page));
    LK_TRY(report_changes_of_forecast(in->made_on[at] ? &in->settings[at] : f, &x->changes));
    LK_TRY(add_curves(in, f, 1, x));
    st = add_settings(&in->settings[at], x);
out:
    free(heading);
    return st;
}

/* Say why the job was not forecast on a cluster. */
static enum lk_status add_refused(const struct report_input *in, struct sections *s)
{
    struct section *x;

    if (!in->refused)
        return LK_OK;
    LK_PASS(begin(s, "What is not forecast", NULL, NULL, &x));
    return lk_page_say(&x->page, "%s", in->refused);
}

/* Add clusters: their collectives beside what they should take. Those without points are inputs
 * of the what-if alone. */
static enum lk_status add_clusters(const struct report_input *in, struct sections *s)
{
    const char *names[COLLECTIVES_SIDES_MAX];
    struct report_operands of = in->operands[REPORT_CLUSTER];
    enum lk_status st;
    struct section *x;

    if (!of.n || !in->cluster.n_points)
        return LK_OK;
    of.n = of.n < COLLECTIVES_SIDES_MAX ? of.n : COLLECTIVES_SIDES_MAX;
    memcpy(names, of.names, of.n * sizeof *names);
    LK_PASS(begin(s, "Collectives, measured and expected", "collectives", &of, &x));
    LK_PASS(lk_array_grow(&x->charts.charts, &x->charts.capacity, 1, sizeof *x->charts.charts));
    x->charts.charts[0] = (struct lk_chart){0};
    x->charts.n = 1;
    st = collectives_page(names, (int)of.n, &x->page, &x->charts.charts[0]);
    if (st != LK_EEVIDENCE)
        return st;
    x->charts.n = 0;
    return lk_page_note(&x->page, "%s", lk_error_text());
}

/* ---- How it was obtained ---- */

static const struct lk_column setting_columns[] = {{"setting", "setting", LK_DIM_NONE, -1},
                                                   {"value", "value", LK_DIM_NONE, -1}};
static const struct lk_column input_columns[] = {{"input", "input", LK_DIM_NONE, -1},
                                                 {"kind", "kind", LK_DIM_NONE, -1}};

static enum lk_status add_inputs(const struct report_input *in, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Inputs", input_columns, LK_COUNT(input_columns), &t));
    for (int k = 0; k < REPORT_KINDS; k++)
        for (size_t i = 0; i < in->operands[k].n; i++) {
            LK_TRY(lk_table_row(t));
            LK_TRY(lk_table_word(t, "input", in->operands[k].names[i]));
            LK_TRY(lk_table_word(t, "kind", report_kind_name((enum report_kind)k)));
        }
    st = lk_page_table(page, "inputs", LK_PAGE_MAIN, NULL, 0, &t);
out:
    lk_table_destroy(t);
    return st;
}

/* Say how the clocks of the ranks were brought together, and what of the records is lost. */
static enum lk_status note_clocks(const struct lk_run *run, struct lk_page *page)
{
    uint64_t dropped = 0, worst = 0;
    char text[40];

    for (size_t i = 0; i < run->n; i++) {
        const struct lk_trace *t = &run->traces[i];

        dropped += t->dropped;
        worst = t->clock.uncertainty_ns > worst ? t->clock.uncertainty_ns : worst;
    }
    if (run->n > 1)
        LK_PASS(lk_page_note(
            page, "Clocks of %s: times of all ranks are on the first one's clock, %s%s.", run->dir,
            worst < LK_CLOCK_UNKNOWN_NS ? "within "
                                        : "and by how much they may be off is not known",
            worst < LK_CLOCK_UNKNOWN_NS
                ? lk_units_format(LK_DIM_TIME, lk_s_from_ns(worst), text, sizeof text)
                : ""));
    if (dropped)
        LK_PASS(lk_page_note(page, "%s lacks %llu records, which found their buffer full.",
                             run->dir, (unsigned long long)dropped));
    return LK_OK;
}

/* Add the settings of the run that the answer is about, the program's versions among them. */
static enum lk_status add_run(const struct report_input *in, struct lk_page *page)
{
    const struct lk_run *run = in->runs.n ? &in->runs.runs[in->runs.n - 1] : NULL;
    const struct lk_run_info *info;
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    char cost[256] = "";

    if (!run)
        return LK_OK;
    info = lk_run_about(run);
    LK_TRY(lk_table_create("Settings, machine and versions of the largest run", setting_columns,
                           LK_COUNT(setting_columns), &t));
    for (size_t i = 0; i < info->n_config; i++) {
        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_word(t, "setting", info->config[i].key));
        LK_TRY(lk_table_word(t, "value", info->config[i].value));
    }
    LK_TRY(lk_page_table(page, "settings", LK_PAGE_DETAIL, NULL, 0, &t));
    LK_TRY(lk_page_note(page, "%s: %zu steps of %zu ranks are counted, after %llu of warm-up.",
                        run->dir, run->n_timed, run->n, (unsigned long long)info->warmup_steps));
    LK_TRY(note_clocks(run, page));
    if (in->operands[REPORT_IMPORT].n)
        lk_import_cost(&in->import, cost, sizeof cost);
    if (*cost)
        st = lk_page_note(page, "Recording: %s", cost);
out:
    lk_table_destroy(t);
    return st;
}

/* Say what forecasts assume, and how often their intervals held. */
static enum lk_status note_forecast(const struct lk_forecast *f, struct lk_page *page)
{
    size_t inside = 0;

    for (size_t i = 0; i < f->n_backtests; i++)
        inside += f->backtests[i].measured_s >= f->backtests[i].lo_s &&
                  f->backtests[i].measured_s <= f->backtests[i].hi_s;
    if (f->n_backtests)
        LK_PASS(lk_page_note(page,
                             "Forecast on %s: %zu of %zu runs that were held out lie in the %.0f "
                             "%% interval that the others forecast.",
                             f->cluster, inside, f->n_backtests, 100 * f->level));
    else
        LK_PASS(lk_page_note(page, "Forecast on %s: no run was held out to test it.", f->cluster));
    for (size_t i = 0; i < f->n_notes; i++)
        LK_PASS(lk_page_note(page, "%s: %s", f->cluster, f->notes[i]));
    return LK_OK;
}

static enum lk_status fill_obtained(const struct report_input *in, struct lk_page *page)
{
    LK_PASS(add_inputs(in, page));
    LK_PASS(add_run(in, page));
    for (size_t i = 0; i < in->in.n_forecasts; i++)
        LK_PASS(note_forecast(&in->in.forecasts[i], page));
    return LK_OK;
}

/* ---- The page ---- */

static enum lk_status fill_sections(const struct report_input *in, struct sections *s)
{
    LK_PASS(add_forecasts_together(in, s));
    for (size_t i = 0; i < in->in.n_forecasts; i++)
        LK_PASS(add_forecast(in, i, s));
    LK_PASS(add_refused(in, s));
    LK_PASS(add_runs(in, s));
    LK_PASS(add_times(in, s));
    return add_clusters(in, s);
}

/* The artefacts of the what-if as texts of JSON; NULL: there is none. */
struct artefacts {
    char *job, *cluster, *forecast;
};

static void artefacts_fini(struct artefacts *a)
{
    free(a->job);
    free(a->cluster);
    free(a->forecast);
}

static enum lk_status write_artefacts(const struct report_input *in, struct artefacts *out)
{
    size_t size;

    if (in->has_job)
        LK_PASS(lk_record_save_text(&lk_job_record, &in->job, &out->job, &size));
    if (in->operands[REPORT_CLUSTER].n)
        LK_PASS(lk_record_save_text(&lk_cluster_record, &in->cluster, &out->cluster, &size));
    if (in->in.n_forecasts)
        LK_PASS(
            lk_record_save_text(&lk_forecast_record, &in->in.forecasts[0], &out->forecast, &size));
    return LK_OK;
}

static enum lk_status write_page(const char *path, const struct lk_html *html)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_html_write(w, html));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status report_page_write(const struct report_input *in, const char *path,
                                 const char *command_line)
{
    enum lk_status st = LK_OK;
    struct sections *s = NULL;
    struct lk_html_section *shown = NULL;
    struct lk_page obtained = {0};
    struct artefacts a = {0};

    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    LK_TRY(fill_sections(in, s));
    LK_TRY(fill_obtained(in, &obtained));
    LK_TRY(write_artefacts(in, &a));
    LK_TRY(lk_alloc(&shown, s->n, sizeof *shown));
    for (size_t i = 0; i < s->n; i++)
        shown[i] = (struct lk_html_section){.heading = s->v[i].heading,
                                            .command = s->v[i].command,
                                            .page = &s->v[i].page,
                                            .changes = s->v[i].changes.says,
                                            .n_changes = s->v[i].changes.n,
                                            .charts = s->v[i].charts.charts,
                                            .n_charts = s->v[i].charts.n};
    st = write_page(path, &(struct lk_html){.title = in->in.title,
                                            .version = LK_VERSION,
                                            .command_line = command_line,
                                            .sections = shown,
                                            .n_sections = s->n,
                                            .obtained = &obtained,
                                            .job = a.job,
                                            .cluster = a.cluster,
                                            .forecast = a.forecast});
out:
    artefacts_fini(&a);
    lk_page_fini(&obtained);
    free(shown);
    if (s)
        sections_fini(s);
    free(s);
    return st;
}
