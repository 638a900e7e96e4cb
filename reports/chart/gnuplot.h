/*
 * Draw charts by gnuplot. A picture is a table NAME.csv and a script NAME.gp (gnuplot_script.h),
 * both kept, so that it can be redrawn; gnuplot then runs as a child process and makes NAME.svg,
 * NAME.png and NAME.pdf.
 */
#ifndef LK_REPORTS_CHART_GNUPLOT_H
#define LK_REPORTS_CHART_GNUPLOT_H

#include "base/status.h"
#include "reports/chart/chart.h"
#include "reports/chart/gnuplot_script.h"

/*
 * Draw a finished chart into dir, which is made. All files are whole or absent. LK_EUNSUPPORTED
 * when there is no gnuplot: table and script are written all the same.
 */
enum lk_status lk_gnuplot_draw(const struct lk_chart *c, const char *dir,
                               const struct lk_draw_options *o);

#endif
