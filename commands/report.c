/* lockstep report: plots of forecasts and runs. */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "facts/forecast.h"
#include "profiler/analysis/analysis.h"
#include "reports/plot/plot.h"
#include "runtime/device/machine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPERANDS_MAX = 64, FORECASTS_MAX = 4 };

struct options {
    const char *out;
    const char *title;
    int64_t step;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("out", out, FILE, .role = LK_ROLE_FOLDER, .fallback = "report",
           .help = "directory of the plots; made when it does not exist"),
    OPTION("title", title, TEXT, .help = "title of the plots (default: model, hardware and date)"),
    OPTION("step", step, INT, .min = -1, .max = UINT32_MAX, .fallback = "-1",
           .help = "optimizer step that the timeline shows; -1: the one of median length"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* Forecasts and runs that the operands name. */
struct input {
    const char *dirs[OPERANDS_MAX];
    size_t n_dirs;
    struct lk_forecast forecasts[FORECASTS_MAX];
    size_t n_forecasts;
    struct lk_run_set runs;
};

static enum lk_status read_input(const char *const *operands, size_t n, struct input *in)
{
    for (size_t i = 0; i < n; i++) {
        if (!lk_ends_with(operands[i], ".json")) {
            in->dirs[in->n_dirs++] = operands[i];
            continue;
        }
        if (in->n_forecasts == FORECASTS_MAX)
            return lk_fail(LK_EUSAGE, "at most %d forecasts fit on one plot", FORECASTS_MAX);
        LK_PASS(lk_forecast_read(operands[i], &in->forecasts[in->n_forecasts]));
        in->n_forecasts++;
    }
    if (in->n_dirs)
        LK_PASS(lk_run_set_read(in->dirs, in->n_dirs, &in->runs));
    return LK_OK;
}

/* Make a title such as "gpt-nano on 2 x Xeon, 2026-01-31"; a simulated run has no date. */
static enum lk_status run_title(const struct lk_run *run, char *buf, size_t size)
{
    const struct lk_run_info *info = lk_run_about(run);
    const char *processor = lk_run_info_value(info, lk_machine_keys[LK_MACHINE_PROCESSOR]);
    time_t seconds = (time_t)(run->traces[0].base_epoch_ns / LK_NS_PER_S);
    struct tm tm;
    char date[32];

    if (info->simulated) {
        snprintf(buf, size, "%s, simulated on %s", info->model, info->host);
        return LK_OK;
    }
    if (!gmtime_r(&seconds, &tm) || !strftime(date, sizeof date, "%Y-%m-%d", &tm))
        return lk_fail(LK_EPARSE, "%s: the trace has no sensible date", run->dir);
    snprintf(buf, size, "%s on %s, %s", info->model,
             processor && !strcmp(info->device, "cpu") ? processor : info->device, date);
    return LK_OK;
}

static enum lk_status make_title(const struct input *in, const struct options *opt, char *buf,
                                 size_t size)
{
    if (opt->title)
        snprintf(buf, size, "%s", opt->title);
    else if (in->runs.n)
        return run_title(&in->runs.runs[in->runs.n - 1], buf, size);
    else
        snprintf(buf, size, "%s on %s", in->forecasts[0].job, in->forecasts[0].cluster);
    return LK_OK;
}

/* Plot waterfall and timeline of the run with most ranks. */
static enum lk_status plot_run(const struct input *in, const struct options *opt, const char *title)
{
    enum lk_status st = LK_OK;
    const struct lk_run *run = &in->runs.runs[in->runs.n - 1];
    const struct lk_run_info *info = lk_run_about(run);
    const struct lk_run **refs = NULL;
    struct lk_analysis a = {0};
    char text[512];
    size_t n;

    LK_TRY(lk_alloc(&refs, in->runs.n, sizeof(struct lk_run *)));
    n = lk_analysis_reference(&in->runs, run, refs);
    LK_TRY(lk_analyze(run, refs, n, &a));
    snprintf(text, sizeof text, "%s: a step on %d ranks, local batch %d\nideal: %s", title,
             info->world_size, info->local_batch, a.reference);
    st = lk_plot_waterfall(opt->out, "waterfall", text, a.losses_s);
    snprintf(text, sizeof text, "%s: one step on %d ranks", title, info->world_size);
    LK_KEEP(lk_plot_timeline(opt->out, "timeline", text, run->traces, run->n, opt->step));
out:
    lk_analysis_fini(&a);
    free(refs);
    return st;
}

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *opt = options;
    enum lk_status st = LK_OK;
    static const char *const of_runs[] = {"waterfall", "timeline"};
    struct input in = {0};
    char title[256];
    bool plan;

    LK_TRY(read_input(operands, (size_t)n, &in));
    LK_TRY(make_title(&in, opt, title, sizeof title));
    lk_printable(title);
    plan = in.n_forecasts && lk_plot_plan_possible(&in.forecasts[0]);
    /* Without gnuplot each plot fails after it wrote its data and script: all are written. */
    if (in.n_forecasts)
        st = lk_plot_efficiency(opt->out, "efficiency", title, in.forecasts, in.n_forecasts);
    if (plan)
        LK_KEEP(lk_plot_plan(opt->out, "plan", title, &in.forecasts[0]));
    if (in.runs.n)
        LK_KEEP(plot_run(&in, opt, title));
    LK_TRY(st);
    if (in.n_forecasts)
        LK_TRY(lk_page_say(page, "%s/efficiency.svg .png .csv .gp", opt->out));
    if (plan)
        LK_TRY(lk_page_say(page, "%s/plan.svg .png .csv .gp", opt->out));
    for (size_t i = 0; i < LK_COUNT(of_runs) && in.runs.n; i++)
        LK_TRY(lk_page_say(page, "%s/%s.svg .png .csv .gp", opt->out, of_runs[i]));
out:
    for (size_t i = 0; i < in.n_forecasts; i++)
        lk_forecast_fini(&in.forecasts[i]);
    lk_run_set_fini(&in.runs);
    return st;
}

const struct lk_command lk_command_report = {
    .name = "report",
    .usage = "FORECAST.json... RUN...",
    .help = "plot the efficiency curve, the waterfall and the timeline of a step",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = OPERANDS_MAX,
    .no_operand = "what to plot? e.g. lockstep report forecast.json run/",
    .run = run,
};
