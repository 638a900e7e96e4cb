/* Chart the settings of one forecast on as many GPUs: which is best, and what each axis does. */
#ifndef LK_REPORTS_PLOT_GRID_H
#define LK_REPORTS_PLOT_GRID_H

#include "base/status.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"

/*
 * A panel for each count of GPUs with several settings, at most four, the largest counts. A chart
 * is refused with LK_EEVIDENCE where the forecast has not what it shows.
 *
 * Gains: the settings by throughput against the current one, with intervals, the best first.
 * Heat: throughput over two axes, bucket cap and accumulation where both vary; else local batch
 * with one of them. A cell shows the best of the other axes; the best cell has a star.
 * Lines: throughput over the first axis that varies, a line for each value of the second.
 */
enum lk_status lk_chart_gains(struct lk_chart *out, const struct lk_forecast *f);
enum lk_status lk_chart_heat_map(struct lk_chart *out, const struct lk_forecast *f);
enum lk_status lk_chart_whatif(struct lk_chart *out, const struct lk_forecast *f);
/* Step time and memory of a GPU against the local batch, a curve for each count of GPUs. What does
 * not fit is hollow. */
enum lk_status lk_chart_batch(struct lk_chart *out, const struct lk_forecast *f);

#endif
