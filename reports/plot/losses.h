/* Chart where the time of a step goes: the waterfall of one configuration, and the losses of a
 * forecast by GPUs. */
#ifndef LK_REPORTS_PLOT_LOSSES_H
#define LK_REPORTS_PLOT_LOSSES_H

#include "base/status.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"

#include <stddef.h>

/* The losses of one configuration, s: means over its runs, with the least and the most of them. */
struct lk_plot_losses {
    const char *title;     /* the configuration, and how many runs */
    const char *reference; /* what the ideal is */
    double mean_s[LK_LOSS_COUNT], lo_s[LK_LOSS_COUNT], hi_s[LK_LOSS_COUNT];
    double
        own_s; /* what the reference's step takes beyond the ideal, as a row of its own; 0: none */
    int runs;
};

/* Chart the waterfall from the ideal step to the measured one. LK_EEVIDENCE: no loss is known. */
enum lk_status lk_chart_waterfall(struct lk_chart *out, const struct lk_plot_losses *losses);
/* Chart the losses of n forecasts by GPUs, a panel each: shares of a step, stacked, those below
 * zero downwards. LK_EEVIDENCE: none is known. */
enum lk_status lk_chart_losses(struct lk_chart *out, const struct lk_forecast *f, size_t n);

#endif
