/* Chart measured collectives: bus bandwidth against size. */
#ifndef LK_REPORTS_PLOT_COLLECTIVES_H
#define LK_REPORTS_PLOT_COLLECTIVES_H

#include "base/status.h"
#include "reports/chart/chart.h"

#include <stddef.h>

/* A size of measured collectives: bus bandwidths in bytes/s; NaN: nothing is expected. */
struct lk_plot_size {
    double bytes, busbw, expected, lo, hi;
};

/* A curve: one collective on one count of GPUs. */
struct lk_plot_collective {
    char *label;
    struct lk_plot_size *sizes; /* by rising bytes */
    size_t n;
};

/* Chart n curves, measured and expected. pre: n >= 1. */
enum lk_status lk_chart_collectives(struct lk_chart *out, const struct lk_plot_collective *curves,
                                    size_t n);

#endif
