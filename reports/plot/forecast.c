/*
 * Plots of forecasts against GPUs; see plot.h. Throughput and efficiency, with what was measured;
 * and the plan: throughput, statistical efficiency, time and cost to the target.
 */
#include "reports/plot/plot.h"

#include "reports/chart/gnuplot.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 4 };

static const char *const series_colors[SERIES_MAX] = {LK_COLOR_BLUE, LK_COLOR_GREEN, LK_COLOR_PINK,
                                                      LK_COLOR_ORANGE};

/* ---- Both plots ---- */

static double samples_per_step(const struct lk_forecast_point *p)
{
    return p->throughput_per_s * p->step_s;
}

/* Return the step time at efficiency 1 at this point; measured steps are compared with it. */
static double ideal_step_s(const struct lk_forecast_point *p)
{
    return p->efficiency * p->step_s;
}

/* Begin the script of a picture with several panels; range and key are settings. */
static enum lk_status begin_script(struct lk_writer *w, const char *range, const char *key,
                                   const char *layout, const char *title)
{
    LK_PASS(lk_writer_printf(w,
                             "set datafile separator ','\nset datafile missing 'nan'\n"
                             "set logscale x 2\n%sset xlabel 'GPUs (ranks)'\n%s"
                             "set grid lc rgb '#dddddd'\nset border 3\nset tics nomirror out\n"
                             "set multiplot layout %s title ",
                             range, key, layout));
    LK_PASS(lk_gnuplot_quote(w, title));
    return lk_writer_put(w, "\n", 1);
}

/* ---- Efficiency ---- */

/* Return true if a point belongs on the forecast's curve. */
static bool on_curve(const struct lk_forecast *f, const struct lk_forecast_point *p)
{
    return lk_forecast_same_curve(f, &f->points[0], p);
}

static bool has_measured(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (on_curve(f, &f->points[i]) && !isnan(f->points[i].measured_step_s))
            return true;
    return false;
}

static enum lk_status put_point(struct lk_writer *w, const struct lk_forecast_point *p)
{
    double samples = samples_per_step(p);
    double ideal = ideal_step_s(p);
    bool measured = !isnan(p->measured_step_s);
    double step = measured ? p->measured_step_s : NAN;
    double lo = measured ? p->measured_lo_s : NAN;
    double hi = measured ? p->measured_hi_s : NAN;

    return lk_writer_printf(
        w, "%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n",
        p->config.world_size, p->throughput_per_s, samples / p->step_hi_s, samples / p->step_lo_s,
        100 * p->efficiency, 100 * p->efficiency_lo, 100 * p->efficiency_hi, samples / step,
        samples / hi, samples / lo, 100 * ideal / step, 100 * ideal / hi, 100 * ideal / lo,
        samples / ideal);
}

static enum lk_status put_forecasts(struct lk_writer *w, const struct lk_forecast *forecasts,
                                    size_t n)
{
    LK_PASS(lk_writer_printf(
        w, "#gpus,throughput_per_s,throughput_lo,throughput_hi,efficiency_pct,efficiency_lo_pct,"
           "efficiency_hi_pct,measured_throughput_per_s,measured_throughput_lo,"
           "measured_throughput_hi,measured_efficiency_pct,measured_efficiency_lo_pct,"
           "measured_efficiency_hi_pct,ideal_throughput_per_s\n"));
    for (size_t i = 0; i < n; i++) {
        const struct lk_forecast *f = &forecasts[i];

        LK_PASS(lk_writer_printf(w, "%s# %s\n", i ? "\n\n" : "", f->cluster));
        for (const struct lk_forecast_point *p = f->points; p < f->points + f->n_points; p++)
            if (on_curve(f, p))
                LK_PASS(put_point(w, p));
    }
    return LK_OK;
}

/* Columns of the data, from 1: forecast and measured, each with its interval in the next two. */
struct panel {
    const char *axis;
    int forecast, measured;
    const char *ideal; /* gnuplot expression of x GPUs */
    const char *setup;
};

static enum lk_status put_panel(struct lk_writer *w, const char *name, const struct panel *panel,
                                const struct lk_forecast *forecasts, size_t n)
{
    int line = panel->forecast, points = panel->measured;
    bool titled = false;

    LK_PASS(lk_writer_printf(w, "%s\nset ylabel ", panel->setup));
    LK_PASS(lk_gnuplot_quote(w, panel->axis));
    LK_PASS(lk_writer_printf(w,
                             "\nplot %s with lines dashtype 2 lw 1.5 lc rgb '" LK_COLOR_GRAY
                             "' title 'ideal (linear)'",
                             panel->ideal));
    for (size_t i = 0; i < n; i++) {
        LK_PASS(lk_writer_printf(
            w,
            ", \\\n  '%s.csv' index %zu using 1:%d:%d with filledcurves "
            "fs transparent solid 0.2 noborder lc rgb '%s' notitle"
            ", \\\n  '%s.csv' index %zu using 1:%d with lines lw 2 lc rgb '%s' "
            "title ",
            name, i, line + 1, line + 2, series_colors[i], name, i, line, series_colors[i]));
        LK_PASS(lk_gnuplot_quote(w, forecasts[i].cluster));
    }
    for (size_t i = 0; i < n; i++) {
        if (!has_measured(&forecasts[i]))
            continue;
        LK_PASS(lk_writer_printf(w,
                                 ", \\\n  '%s.csv' index %zu using 1:%d:%d:%d with yerrorbars pt 7 "
                                 "ps 0.9 lw 1.5 lc rgb '" LK_COLOR_BLACK "' title '%s'",
                                 name, i, points, points + 1, points + 2,
                                 titled ? "" : "measured"));
        titled = true;
    }
    return lk_writer_put(w, "\n", 1);
}

static int most_gpus(const struct lk_forecast *forecasts, size_t n)
{
    int most = 1;

    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < forecasts[i].n_points; p++)
            if (forecasts[i].points[p].config.world_size > most)
                most = forecasts[i].points[p].config.world_size;
    return most;
}

/* Return the first point that has an efficiency; NULL: no forecast has numbers. */
static const struct lk_forecast_point *first_with_numbers(const struct lk_forecast *forecasts,
                                                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < forecasts[i].n_points; k++)
            if (!isnan(forecasts[i].points[k].efficiency))
                return &forecasts[i].points[k];
    return NULL;
}

static enum lk_status put_curves(struct lk_gnuplot *g, const char *title,
                                 const struct lk_forecast *forecasts, size_t n)
{
    enum lk_status st = LK_OK;
    const struct lk_forecast_point *first = first_with_numbers(forecasts, n);
    char range[64], ideal[64], *axis = NULL;
    const struct panel efficiency = {"scaling efficiency, %", 5, 11, "100",
                                     "unset logscale y; set format y '%g'; set yrange [0:*<110]; "
                                     "set key bottom left"};
    struct panel throughput = {NULL, 2, 8, ideal,
                               "set logscale y; set format y '%.0s%c'; set key top left"};

    LK_TRY(lk_asprintf(&axis, "throughput, %s/s", forecasts[0].sample_unit));
    throughput.axis = axis;
    snprintf(ideal, sizeof ideal, "%.9g*x",
             samples_per_step(first) / ideal_step_s(first) / first->config.world_size);
    snprintf(range, sizeof range, "set xrange [0.9:%g]\n", 1.15 * most_gpus(forecasts, n));
    LK_TRY(begin_script(g->script, range, "", "1,2", title));
    LK_TRY(put_panel(g->script, g->name, &throughput, forecasts, n));
    LK_TRY(put_panel(g->script, g->name, &efficiency, forecasts, n));
    LK_TRY(lk_writer_printf(g->script, "unset multiplot\n"));
out:
    free(axis);
    return st;
}

/* Fail if there is no number to plot, as of a model that measurements contradict. */
static enum lk_status check_numbers(const struct lk_forecast *forecasts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!forecasts[i].n_points)
            return lk_fail(LK_EEVIDENCE, "the forecast on %s has no points", forecasts[i].cluster);
    return first_with_numbers(forecasts, n)
               ? LK_OK
               : lk_fail(LK_EEVIDENCE, "the forecast on %s has no number to plot: %s",
                         forecasts[0].cluster,
                         forecasts[0].n_contradictions ? "what was measured contradicts its model"
                                                       : "its efficiency is not known");
}

enum lk_status lk_plot_efficiency(const char *dir, const char *name, const char *title,
                                  const struct lk_forecast *forecasts, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};

    LK_TRY(check_numbers(forecasts, n));
    LK_TRY(lk_gnuplot_init(&g, dir, name, 1100, 480));
    LK_TRY(put_forecasts(g.data, forecasts, n));
    LK_TRY(put_curves(&g, title, forecasts, n));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}

/* ---- The plan ---- */

/* Return true if a point fits and differs from the first planned point that fits in GPUs alone. */
static bool is_planned(const struct lk_forecast *f, const struct lk_forecast_point *first,
                       const struct lk_forecast_point *p)
{
    return p->plan.known && !isnan(p->plan.time_to_target_h) &&
           strcmp(p->plan.memory_fit, "no") != 0 && lk_forecast_same_curve(f, first, p);
}

static const struct lk_forecast_point *first_planned(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (is_planned(f, &f->points[i], &f->points[i]))
            return &f->points[i];
    return NULL;
}

static enum lk_status put_plan(struct lk_writer *w, const struct lk_forecast *f,
                               const struct lk_forecast_point *first)
{
    LK_PASS(lk_writer_printf(w, "#gpus,throughput_per_s,throughput_lo,throughput_hi,"
                                "statistical_efficiency_pct,time_h,time_lo_h,time_hi_h,cost,"
                                "cost_lo,cost_hi\n"));
    for (const struct lk_forecast_point *p = f->points; p < f->points + f->n_points; p++) {
        const struct lk_plan *q = &p->plan;

        if (is_planned(f, first, p))
            LK_PASS(lk_writer_printf(
                w, "%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", p->config.world_size,
                p->throughput_per_s, samples_per_step(p) / p->step_hi_s,
                samples_per_step(p) / p->step_lo_s, 100 * q->statistical_efficiency,
                q->time_to_target_h, q->time_to_target_lo_h, q->time_to_target_hi_h,
                q->cost_to_target, q->cost_to_target_lo, q->cost_to_target_hi));
    }
    return LK_OK;
}

static enum lk_status put_plan_panels(struct lk_gnuplot *g, const char *title, bool cost)
{
    static const struct {
        const char *axis, *setup, *color;
        int line;  /* column of the data, from 1 */
        bool band; /* its interval is in the next two */
    } panels[] = {
        {"throughput, samples/s", "set logscale y", LK_COLOR_BLUE, 2, true},
        {"statistical efficiency, %", "unset logscale y; set yrange [0:105]", LK_COLOR_GREEN, 5,
         false},
        {"time to the target, h", "set logscale y; set yrange [*:*]", LK_COLOR_ORANGE, 6, true},
        {"cost to the target", "set logscale y; set yrange [*:*]", LK_COLOR_RED, 9, true},
    };
    struct lk_writer *w = g->script;

    LK_PASS(begin_script(w, "", "unset key\n", "2,2", title));
    for (size_t i = 0; i < LK_COUNT(panels) - (cost ? 0 : 1); i++) {
        LK_PASS(lk_writer_printf(w, "%s\nset ylabel '%s'\nplot ", panels[i].setup, panels[i].axis));
        if (panels[i].band)
            LK_PASS(lk_writer_printf(w,
                                     "'%s.csv' using 1:%d:%d with filledcurves "
                                     "fs transparent solid 0.2 noborder lc rgb '%s', ",
                                     g->name, panels[i].line + 1, panels[i].line + 2,
                                     panels[i].color));
        LK_PASS(lk_writer_printf(w, "'%s.csv' using 1:%d with linespoints pt 7 lw 2 lc rgb '%s'\n",
                                 g->name, panels[i].line, panels[i].color));
    }
    return lk_writer_printf(w, "unset multiplot\n");
}

enum lk_status lk_plot_plan(const char *dir, const char *name, const char *title,
                            const struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};
    const struct lk_forecast_point *first = first_planned(f);

    if (!first)
        return lk_fail(LK_EEVIDENCE, "the forecast on %s has no time to a target", f->cluster);
    LK_TRY(lk_gnuplot_init(&g, dir, name, 1100, 800));
    LK_TRY(put_plan(g.data, f, first));
    LK_TRY(put_plan_panels(&g, title, !isnan(first->plan.cost_to_target)));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}

bool lk_plot_plan_possible(const struct lk_forecast *f)
{
    return first_planned(f) != NULL;
}
