/*
 * Which plots an input has. `lockstep report` draws all of them into files, and its page shows
 * them; one table says what each needs (plots.c).
 *
 *     struct lk_report_input in = {.title = "GPT-2", .forecasts = &f, .n_forecasts = 1};
 *     struct lk_chart_list list = {0};
 *
 *     LK_TRY(lk_plots_make(&in, &list));
 *     for (size_t i = 0; i < list.n; i++)
 *         LK_TRY(lk_gnuplot_draw(&list.charts[i], dir, &lk_draw_slide));
 * out:
 *     lk_chart_list_fini(&list);
 */
#ifndef LK_REPORTS_PLOT_PLOTS_H
#define LK_REPORTS_PLOT_PLOTS_H

#include "base/status.h"
#include "facts/forecast.h"
#include "facts/trace.h"
#include "reports/chart/chart.h"
#include "reports/plot/collectives.h"
#include "reports/plot/losses.h"
#include "reports/plot/ranks.h"
#include "reports/plot/scaling.h"

#include <stddef.h>
#include <stdint.h>

/* The operands held these; all is borrowed, and absent where n is 0 or a pointer NULL. */
struct lk_report_input {
    const char *title; /* model, hardware and date: the second line of every chart's; or NULL */
    const struct lk_forecast *forecasts;
    size_t n_forecasts;
    const struct lk_plot_measured *measured; /* configurations of measured runs */
    size_t n_measured;
    const struct lk_plot_losses *losses; /* the waterfall of one configuration */
    const struct lk_step_times *ranks;   /* the times of one run's ranks */
    const struct lk_trace *traces;       /* the ranks of one run, for the timeline */
    size_t n_traces;
    int64_t step; /* that the timeline shows; -1: the one of median length */
    const struct lk_plot_collective *collectives;
    size_t n_collectives;
};

struct lk_chart_list {
    struct lk_chart *charts; /* finished */
    size_t n, capacity;
};

/* Append the charts that fit, those that answer most first. An input without numbers gets none. */
enum lk_status lk_plots_make(const struct lk_report_input *in, struct lk_chart_list *out);
void lk_chart_list_fini(struct lk_chart_list *list); /* safe on a zeroed one */

#endif
