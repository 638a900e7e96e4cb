/* Chart what a plan says: time and cost to the target against GPUs, with what they come from. */
#ifndef LK_REPORTS_PLOT_TARGET_H
#define LK_REPORTS_PLOT_TARGET_H

#include "base/status.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"

/* Chart time and (with a price) cost to the target, throughput and statistical efficiency, for the
 * points that fit and differ from the first such in GPUs alone. LK_EEVIDENCE when there is none. */
enum lk_status lk_chart_target(struct lk_chart *out, const struct lk_forecast *f);

#endif
