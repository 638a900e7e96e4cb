/* lockstep report: plots of what was measured and forecast, and a page that holds them all. */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/draw.h"
#include "commands/forecast_ask.h"
#include "commands/forecast_page.h"
#include "commands/ledger.h"
#include "commands/report_forecast.h"
#include "commands/report_input.h"
#include "commands/report_page.h"
#include "sim/forecast/contradiction.h"

#include <stdlib.h>

struct options {
    const char *out;
    const char *title;
    int64_t step;
    const char *ledger;
    struct draw_settings draw;
    const char *log;
};

extern const struct lk_command lk_command_report;

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("out", out, FILE, .role = LK_ROLE_FOLDER, .fallback = "report",
           .help = "directory of the page and the plots; made when it does not exist"),
    OPTION("title", title, TEXT, .help = "title of the plots (default: model, hardware and date)"),
    OPTION("step", step, INT, .min = -1, .max = UINT32_MAX, .fallback = "-1",
           .help = "optimizer step that the timeline shows; -1: the one of median length"),
    OPTION(LEDGER_OPTION),
    PLOT_ROWS(OPTION),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* Write the page of all operands, DIR/report.html. */
static enum lk_status write_page(const struct options *opt, const char **operands, int n,
                                 const struct report_input *in, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char **words = NULL, *path = NULL, *line = NULL;

    LK_TRY(lk_command_argv(&lk_command_report, opt, NULL, &words));
    for (size_t i = 0; words[i]; i++)
        LK_TRY(lk_text_add(&line, "%s%s", i ? " " : "", words[i]));
    for (int i = 0; i < n; i++)
        LK_TRY(lk_text_add(&line, " %s", operands[i]));
    LK_TRY(lk_mkdirs(opt->out));
    LK_TRY(lk_path_join(&path, opt->out, "report.html"));
    LK_TRY(report_page_write(in, path, line));
    st = lk_page_say(page, "%s", path);
out:
    lk_argv_free(words);
    free(path);
    free(line);
    return st;
}

/* Say, of each forecast that something contradicts, what that is; *first becomes the first one. */
static enum lk_status say_contradictions(const struct report_input *in,
                                         const struct lk_forecast **first, struct lk_page *page)
{
    for (size_t i = in->in.n_forecasts; i-- > 0;)
        if (in->in.forecasts[i].n_contradictions)
            *first = &in->in.forecasts[i];
    for (size_t i = 0; i < in->in.n_forecasts; i++)
        for (size_t k = 0; k < lk_contradictions_told(&in->in.forecasts[i]); k++)
            LK_PASS(lk_page_contradict(page, in->in.forecasts[i].answer[k]));
    return LK_OK;
}

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *opt = options;
    const struct forecast_question question = {.command = &lk_command_report,
                                               .options = opt,
                                               .operands = operands,
                                               .n_operands = n,
                                               .ledger = opt->ledger};
    enum lk_status st = LK_OK;
    struct report_input *in = NULL;
    struct lk_chart_list list = {0};
    const struct lk_forecast *contradicted = NULL;

    LK_TRY(lk_alloc(&in, 1, sizeof *in));
    LK_TRY(report_input_read(operands, (size_t)n, in));
    LK_TRY(report_forecast(&question, in, page));
    LK_TRY(report_input_name(in, opt->title));
    in->in.step = opt->step;
    LK_TRY(say_contradictions(in, &contradicted, page));
    LK_TRY(write_page(opt, operands, n, in, page));
    st = lk_plots_make(&in->in, &list);
    if (st == LK_EEVIDENCE && contradicted) /* it has no number to plot: that is said */
        st = LK_OK;
    LK_TRY(st);
    LK_TRY(draw_charts(list.charts, list.n, opt->out, &opt->draw));
    for (size_t i = 0; i < list.n; i++)
        LK_TRY(lk_page_say(page, "%s/%s" DRAW_SUFFIXES, opt->out, list.charts[i].name));
    if (contradicted)
        st = forecast_verdict(contradicted);
out:
    lk_chart_list_fini(&list);
    if (in)
        report_input_fini(in);
    free(in);
    return st;
}

const struct lk_command lk_command_report = {
    .name = "report",
    .usage = "RUN|TRACE|TIMES.csv|FORECAST|CLUSTER|JOB...",
    .help = "write one page, report.html, and plots of runs, traces, forecasts and clusters",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = REPORT_OPERANDS_MAX,
    .no_operand = "what to plot? e.g. lockstep report forecast.json run/",
    .run = run,
};
