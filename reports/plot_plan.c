/* Plot throughput, statistical efficiency, time and cost against GPUs; see plot.h. */
#include "reports/plot.h"

#include "reports/gnuplot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Return true if a point fits and differs from the first planned point that fits in GPUs alone. */
static bool on_curve(const struct lk_forecast *f, const struct lk_forecast_point *first,
                     const struct lk_forecast_point *p)
{
    return p->plan.known && !isnan(p->plan.time_to_target_h) &&
           strcmp(p->plan.memory_fit, "no") != 0 && lk_forecast_same_curve(f, first, p);
}

static const struct lk_forecast_point *first_planned(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (on_curve(f, &f->points[i], &f->points[i]))
            return &f->points[i];
    return NULL;
}

static enum lk_status put_data(struct lk_writer *w, const struct lk_forecast *f,
                               const struct lk_forecast_point *first)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_writer_printf(w, "#gpus,throughput_per_s,throughput_lo,throughput_hi,"
                               "statistical_efficiency_pct,time_h,time_lo_h,time_hi_h,cost,"
                               "cost_lo,cost_hi\n"));
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];
        const struct lk_plan *q = &p->plan;

        if (on_curve(f, first, p))
            LK_TRY(lk_writer_printf(
                w, "%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", p->config.gpus,
                p->throughput_per_s, p->throughput_per_s * p->step_s / p->step_hi_s,
                p->throughput_per_s * p->step_s / p->step_lo_s, 100 * q->statistical_efficiency,
                q->time_to_target_h, q->time_to_target_lo_h, q->time_to_target_hi_h,
                q->cost_to_target, q->cost_to_target_lo, q->cost_to_target_hi));
    }
out:
    return st;
}

/* Columns of the data, from 1; lo 0: no band. */
static const struct {
    const char *axis, *setup, *color;
    int line, lo, hi;
} panels[] = {
    {"throughput, samples/s", "set logscale y", LK_COLOR_BLUE, 2, 3, 4},
    {"statistical efficiency, %", "unset logscale y; set yrange [0:105]", LK_COLOR_GREEN, 5, 0, 0},
    {"time to the target, h", "set logscale y; set yrange [*:*]", LK_COLOR_ORANGE, 6, 7, 8},
    {"cost to the target", "set logscale y; set yrange [*:*]", LK_COLOR_RED, 9, 10, 11},
};

static enum lk_status put_script(struct lk_gnuplot *g, const char *title, bool cost)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = g->script;
    size_t n = sizeof panels / sizeof *panels - (cost ? 0 : 1);

    LK_TRY(lk_writer_printf(w, "set datafile separator ','\nset datafile missing 'nan'\n"
                               "set logscale x 2\nset xlabel 'GPUs (ranks)'\nunset key\n"
                               "set grid lc rgb '#dddddd'\nset border 3\nset tics nomirror out\n"
                               "set multiplot layout 2,2 title "));
    LK_TRY(lk_gnuplot_quote(w, title));
    LK_TRY(lk_writer_put(w, "\n", 1));
    for (size_t i = 0; i < n; i++) {
        LK_TRY(lk_writer_printf(w, "%s\nset ylabel '%s'\nplot ", panels[i].setup, panels[i].axis));
        if (panels[i].lo)
            LK_TRY(lk_writer_printf(w,
                                    "'%s.csv' using 1:%d:%d with filledcurves "
                                    "fs transparent solid 0.2 noborder lc rgb '%s', ",
                                    g->name, panels[i].lo, panels[i].hi, panels[i].color));
        LK_TRY(lk_writer_printf(w, "'%s.csv' using 1:%d with linespoints pt 7 lw 2 lc rgb '%s'\n",
                                g->name, panels[i].line, panels[i].color));
    }
    LK_TRY(lk_writer_printf(w, "unset multiplot\n"));
out:
    return st;
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
    LK_TRY(put_data(g.data, f, first));
    LK_TRY(put_script(&g, title, !isnan(first->plan.cost_to_target)));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}

bool lk_plot_plan_possible(const struct lk_forecast *f)
{
    return first_planned(f) != NULL;
}
