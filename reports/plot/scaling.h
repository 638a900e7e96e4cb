/* Chart efficiency and throughput against GPUs: what was measured, what is forecast, the ideal. */
#ifndef LK_REPORTS_PLOT_SCALING_H
#define LK_REPORTS_PLOT_SCALING_H

#include "base/status.h"
#include "facts/config.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"

#include <stddef.h>

/* A measured configuration: means over its runs, with the least and the most of them. */
struct lk_plot_measured {
    const char *name; /* of its curve: the machine, or the folder */
    struct lk_config config;
    double step_s, step_lo_s, step_hi_s;
    double efficiency, efficiency_lo, efficiency_hi; /* NaN: no reference */
    int runs;
};

/* A curve holds at most these. */
enum lk_chart_scaling { LK_CHART_EFFICIENCY, LK_CHART_THROUGHPUT };

/*
 * Chart n forecasts, and m measured configurations: a panel for each batch, accumulation and
 * bucket cap, a curve for each forecast in it, sorted by GPUs. Preset parts are dashed. What is not
 * drawn is in the notes. LK_EEVIDENCE: there is no number to draw.
 */
enum lk_status lk_chart_scaling(struct lk_chart *out, enum lk_chart_scaling what,
                                const struct lk_forecast *f, size_t n,
                                const struct lk_plot_measured *measured, size_t m);

/* The same of forecasts alone. */
static inline enum lk_status lk_chart_efficiency(struct lk_chart *out, const struct lk_forecast *f,
                                                 size_t n)
{
    return lk_chart_scaling(out, LK_CHART_EFFICIENCY, f, n, NULL, 0);
}
static inline enum lk_status lk_chart_throughput(struct lk_chart *out, const struct lk_forecast *f,
                                                 size_t n)
{
    return lk_chart_scaling(out, LK_CHART_THROUGHPUT, f, n, NULL, 0);
}

#endif
