/* Plot throughput and efficiency against GPUs; see plot.h. */
#include "reports/plot.h"

#include "reports/gnuplot.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SERIES_MAX = 4 };

static const char *const series_colors[SERIES_MAX] = {LK_COLOR_BLUE, LK_COLOR_GREEN, LK_COLOR_PINK,
                                                      LK_COLOR_ORANGE};

/* Return true if a point belongs on the forecast's curve. */
static bool on_curve(const struct lk_forecast *f, const struct lk_forecast_point *p)
{
    return lk_forecast_same_curve(f, &f->points[0], p);
}

/* Return the step time at efficiency 1 at this point; measured steps are compared with it. */
static double ideal_step_s(const struct lk_forecast_point *p)
{
    return p->efficiency * p->step_s;
}

static double samples_per_step(const struct lk_forecast_point *p)
{
    return p->throughput_per_s * p->step_s;
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
        w, "%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", p->config.gpus,
        p->throughput_per_s, samples / p->step_hi_s, samples / p->step_lo_s, 100 * p->efficiency,
        100 * p->efficiency_lo, 100 * p->efficiency_hi, samples / step, samples / hi, samples / lo,
        100 * ideal / step, 100 * ideal / hi, 100 * ideal / lo, samples / ideal);
}

static enum lk_status put_data(struct lk_writer *w, const struct lk_forecast *const *forecasts,
                               size_t n)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_writer_printf(
        w, "#gpus,throughput_per_s,throughput_lo,throughput_hi,efficiency_pct,efficiency_lo_pct,"
           "efficiency_hi_pct,measured_throughput_per_s,measured_throughput_lo,"
           "measured_throughput_hi,measured_efficiency_pct,measured_efficiency_lo_pct,"
           "measured_efficiency_hi_pct,ideal_throughput_per_s\n"));
    for (size_t i = 0; i < n; i++) {
        LK_TRY(lk_writer_printf(w, "%s# %s\n", i ? "\n\n" : "", forecasts[i]->cluster));
        for (size_t p = 0; p < forecasts[i]->n_points; p++)
            if (on_curve(forecasts[i], &forecasts[i]->points[p]))
                LK_TRY(put_point(w, &forecasts[i]->points[p]));
    }
out:
    return st;
}

/* Columns of the data file, from 1: forecast, its bounds, measured, its bounds. */
struct panel {
    const char *axis;
    int line, lo, hi, measured, measured_lo, measured_hi;
    const char *ideal; /* gnuplot expression of x GPUs */
    const char *setup;
};

static enum lk_status put_panel(struct lk_writer *w, const char *data, const struct panel *panel,
                                const struct lk_forecast *const *forecasts, size_t n)
{
    enum lk_status st = LK_OK;
    bool titled = false;

    LK_TRY(lk_writer_printf(w, "%s\nset ylabel ", panel->setup));
    LK_TRY(lk_gnuplot_quote(w, panel->axis));
    LK_TRY(lk_writer_printf(w,
                            "\nplot %s with lines dashtype 2 lw 1.5 lc rgb '" LK_COLOR_GRAY
                            "' title 'ideal (linear)'",
                            panel->ideal));
    for (size_t i = 0; i < n; i++) {
        const char *color = series_colors[i];

        LK_TRY(lk_writer_printf(w,
                                ", \\\n  '%s' index %zu using 1:%d:%d with filledcurves "
                                "fs transparent solid 0.2 noborder lc rgb '%s' notitle",
                                data, i, panel->lo, panel->hi, color));
        LK_TRY(lk_writer_printf(w,
                                ", \\\n  '%s' index %zu using 1:%d with lines lw 2 lc rgb '%s' "
                                "title ",
                                data, i, panel->line, color));
        LK_TRY(lk_gnuplot_quote(w, forecasts[i]->cluster));
    }
    for (size_t i = 0; i < n; i++) {
        if (!has_measured(forecasts[i]))
            continue;
        LK_TRY(lk_writer_printf(w,
                                ", \\\n  '%s' index %zu using 1:%d:%d:%d with yerrorbars pt 7 "
                                "ps 0.9 lw 1.5 lc rgb '" LK_COLOR_BLACK "' title '%s'",
                                data, i, panel->measured, panel->measured_lo, panel->measured_hi,
                                titled ? "" : "measured"));
        titled = true;
    }
    LK_TRY(lk_writer_put(w, "\n", 1));
out:
    return st;
}

static int most_gpus(const struct lk_forecast *const *forecasts, size_t n)
{
    int most = 1;

    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < forecasts[i]->n_points; p++)
            if (forecasts[i]->points[p].config.gpus > most)
                most = forecasts[i]->points[p].config.gpus;
    return most;
}

static enum lk_status put_script(struct lk_gnuplot *g, const char *title,
                                 const struct lk_forecast *const *forecasts, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = g->script;
    const struct lk_forecast_point *first = &forecasts[0]->points[0];
    char *data = NULL, *axis = NULL, *ideal = NULL;
    struct panel throughput = {
        NULL, 2, 3, 4, 8, 9, 10, NULL, "set logscale y; set format y '%.0s%c'; set key top left"};
    struct panel efficiency = {"scaling efficiency, %",
                               5,
                               6,
                               7,
                               11,
                               12,
                               13,
                               "100",
                               "unset logscale y; set format y '%g'; set yrange [0:*<110]; "
                               "set key bottom left"};

    LK_TRY(lk_asprintf(&data, "%s.csv", g->name));
    LK_TRY(lk_asprintf(&axis, "throughput, %s/s", forecasts[0]->sample_unit));
    LK_TRY(lk_asprintf(&ideal, "%.9g*x",
                       samples_per_step(first) / ideal_step_s(first) / first->config.gpus));
    throughput.axis = axis;
    throughput.ideal = ideal;
    LK_TRY(lk_writer_printf(w,
                            "set datafile separator ','\nset datafile missing 'nan'\n"
                            "set logscale x 2\nset xrange [0.9:%g]\nset xlabel 'GPUs (ranks)'\n"
                            "set grid lc rgb '#dddddd'\nset border 3\nset tics nomirror out\n"
                            "set multiplot layout 1,2 title ",
                            1.15 * most_gpus(forecasts, n)));
    LK_TRY(lk_gnuplot_quote(w, title));
    LK_TRY(lk_writer_put(w, "\n", 1));
    LK_TRY(put_panel(w, data, &throughput, forecasts, n));
    LK_TRY(put_panel(w, data, &efficiency, forecasts, n));
    LK_TRY(lk_writer_printf(w, "unset multiplot\n"));
out:
    free(data);
    free(axis);
    free(ideal);
    return st;
}

enum lk_status lk_plot_efficiency(const char *dir, const char *name, const char *title,
                                  const struct lk_forecast *const *forecasts, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};

    for (size_t i = 0; i < n; i++)
        if (!forecasts[i]->n_points)
            return lk_fail(LK_EEVIDENCE, "the forecast on %s has no points", forecasts[i]->cluster);
    LK_TRY(lk_gnuplot_init(&g, dir, name, 1100, 480));
    LK_TRY(put_data(g.data, forecasts, n));
    LK_TRY(put_script(&g, title, forecasts, n));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}
