/* Chart what `plan` chooses from: the cost of each configuration against its time, and the frontier
 * that none beats in both (facts/frontier.h). */
#ifndef LK_REPORTS_PLOT_FRONTIER_H
#define LK_REPORTS_PLOT_FRONTIER_H

#include "base/status.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"

/* LK_EEVIDENCE when no point has a probability to reach a goal. */
enum lk_status lk_chart_frontier(struct lk_chart *out, const struct lk_forecast *f);

#endif
