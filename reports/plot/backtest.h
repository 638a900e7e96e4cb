/* Chart the back-tests of forecasts: what was predicted of runs that were held out. */
#ifndef LK_REPORTS_PLOT_BACKTEST_H
#define LK_REPORTS_PLOT_BACKTEST_H

#include "base/status.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"

#include <stddef.h>

/* Chart the predicted step, with its interval, over the measured one, of all back-tests of n
 * forecasts; the title has how many are inside. LK_EEVIDENCE: there is no back-test. */
enum lk_status lk_chart_backtest(struct lk_chart *out, const struct lk_forecast *f, size_t n);

#endif
