/* A curve of a scaling chart: the points of a forecast that differ in GPUs alone, and its drawing.
 */
#ifndef LK_REPORTS_PLOT_SCALING_CURVE_H
#define LK_REPORTS_PLOT_SCALING_CURVE_H

#include "base/status.h"
#include "facts/forecast.h"
#include "reports/chart/chart.h"
#include "reports/plot/scaling.h"

#include <stdbool.h>
#include <stddef.h>

/* A point of a curve, with the value that the chart is of. */
struct scaling_at {
    const struct lk_forecast_point *p;
    double y, lo, hi;                    /* NaN: not known */
    double measured, least, most, ideal; /* of a measured run; of linear scaling */
};

/* The points of a forecast that differ in GPUs alone, by GPUs. */
struct scaling_curve {
    const struct lk_forecast *f;
    struct scaling_at *at;
    size_t n, left; /* left: points of as many GPUs on more nodes */
};

/* The panel that curves are drawn in, and what was drawn: a label stands in the key once. */
struct scaling_drawing {
    struct lk_chart *chart;
    struct lk_chart_panel *panel;
    enum lk_chart_scaling what;
    size_t n_curves; /* of the panel: of several the last number alone stands beside each */
    size_t at;       /* this curve's number */
    bool band, measured, assumed, knee;
};

/* Return what a chart shows of a point. */
struct scaling_at scaling_value(enum lk_chart_scaling what, const struct lk_forecast_point *p);
/* Return true if no two points have as many GPUs: they are one curve, of strong scaling where the
 * batch changes from one to the next. */
bool scaling_is_one_curve(const struct lk_forecast *f);
/* Write a value as it stands beside a point: "87 %", "15,900", "15.3 M". Returns buf. */
const char *scaling_number(enum lk_chart_scaling what, double y, char *buf, size_t size);
enum lk_chart_color scaling_color(const struct scaling_drawing *d);
/* List the points that differ from `like` in GPUs alone; the caller frees out->at. */
enum lk_status scaling_curve_init(struct scaling_curve *out, enum lk_chart_scaling what,
                                  const struct lk_forecast *f,
                                  const struct lk_forecast_point *like);
/* Draw band, line, points and measured points of a curve; notes say what has no number. */
enum lk_status scaling_draw(struct scaling_drawing *d, const struct scaling_curve *c,
                            const char *label);

#endif
