/* Charts of small forecasts, and how tests read and draw them. */
#ifndef LK_TESTS_PLOTS_H
#define LK_TESTS_PLOTS_H

#include "facts/forecast.h"
#include "reports/chart/chart.h"

#include <stdbool.h>
#include <stddef.h>

/* A folder of each test, by a checked fixture. */
extern char plot_dir[64];
void plot_make_dir(void);
void plot_remove_dir(void);

/* Draw a chart, and check its five files; an empty picture has less than 2 kB. */
void plot_draw(const struct lk_chart *c);
/* Read NAME.SUFFIX of the folder; the caller frees it. */
char *plot_read(const char *name, const char *suffix, size_t *out_size);

/* Return a panel's layer of a kind with a label (NULL: without), the nth such; it has to be there.
 */
const struct lk_chart_layer *plot_layer(const struct lk_chart_panel *p, enum lk_chart_kind kind,
                                        const char *label, size_t nth);
/* Return true if some note has the text. */
bool plot_noted(const struct lk_chart *c, const char *text);

/* Make a point on so many GPUs; measured_s NaN: it was not measured. */
struct lk_forecast_point plot_point(int world_size, double step_s, double measured_s);
struct lk_forecast plot_forecast(const char *cluster, struct lk_forecast_point *points, size_t n);
/* Fill a grid of bucket caps and accumulations on 8 GPUs: 4 x 4, the last one is fastest, and
 * number 13 is called the best. */
enum { PLOT_SIDE = 4 };
struct lk_forecast plot_grid(struct lk_forecast_point *points, const char *name);

#endif
