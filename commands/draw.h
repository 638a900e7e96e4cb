/* Draw charts into a folder, as the options of PLOT_ROWS (commands/common_rows.h) say. */
#ifndef LK_COMMANDS_DRAW_H
#define LK_COMMANDS_DRAW_H

#include "base/status.h"
#include "reports/chart/chart.h"

#include <stddef.h>

struct draw_settings {
    const char *size; /* "1600x900" */
    int theme;        /* enum lk_chart_theme */
};
#define DRAW_SUFFIXES ".svg .png .pdf .csv .gp"
extern const char *const draw_themes[]; /* the words of enum lk_chart_theme */

/*
 * Draw n charts into dir: NAME.svg, .png, .pdf, .csv and .gp. Without gnuplot each chart fails
 * after its table and script are written: all of them are. LK_EUSAGE: the size is none.
 */
enum lk_status draw_charts(const struct lk_chart *charts, size_t n, const char *dir,
                           const struct draw_settings *s);

#endif
