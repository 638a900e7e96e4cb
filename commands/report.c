/* lockstep report: plots of forecasts and runs. */
#include "base/array.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/draw.h"
#include "commands/report_input.h"

#include <stdlib.h>

struct options {
    const char *out;
    const char *title;
    int64_t step;
    struct draw_settings draw;
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
    PLOT_ROWS(OPTION),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *opt = options;
    enum lk_status st = LK_OK;
    struct report_input *in = NULL;
    struct lk_chart_list list = {0};

    LK_TRY(lk_alloc(&in, 1, sizeof *in));
    LK_TRY(report_input_read(operands, (size_t)n, opt->title, in));
    in->in.step = opt->step;
    LK_TRY(lk_plots_make(&in->in, &list));
    LK_TRY(draw_charts(list.charts, list.n, opt->out, &opt->draw));
    for (size_t i = 0; i < list.n; i++)
        LK_TRY(lk_page_say(page, "%s/%s" DRAW_SUFFIXES, opt->out, list.charts[i].name));
out:
    lk_chart_list_fini(&list);
    if (in)
        report_input_fini(in);
    free(in);
    return st;
}

const struct lk_command lk_command_report = {
    .name = "report",
    .usage = "FORECAST.json... RUN...",
    .help = "plot forecasts and runs: efficiency, throughput, losses, ranks",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = REPORT_OPERANDS_MAX,
    .no_operand = "what to plot? e.g. lockstep report forecast.json run/",
    .run = run,
};
