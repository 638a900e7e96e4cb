/*
 * gnuplot draws a chart from the marks as a table, and from a script that names it. Both are
 * text, and hold nothing but the chart.
 *
 * The table is CSV with a row a mark: x, x2, y, lo, hi, share, then panel, layer and text in words.
 * Behind the header each layer is a block, apart by two blank lines, in the order of the chart; a
 * blank line parts a line. A number that a mark has not is empty.
 *
 * The script sets neither terminal nor output. It takes one number from outside, px: how many units
 * of the terminal's type are a pixel (0.75 where they are points; 1 of the terminal svg).
 */
#ifndef LK_REPORTS_CHART_GNUPLOT_SCRIPT_H
#define LK_REPORTS_CHART_GNUPLOT_SCRIPT_H

#include "base/file.h"
#include "base/status.h"
#include "reports/chart/chart.h"

/* How a picture is drawn. */
struct lk_draw_options {
    double width, height; /* pixels */
    enum lk_chart_theme theme;
};
/* A slide: 1600 x 900, light. */
extern const struct lk_draw_options lk_draw_slide;
/* Return the size of type in pixels: 20 on a slide, in proportion on others, and at least 11. */
double lk_draw_type(const struct lk_draw_options *o);

/* Write the table, or the script, of a finished chart. */
enum lk_status lk_gnuplot_data(struct lk_writer *w, const struct lk_chart *c);
enum lk_status lk_gnuplot_script(struct lk_writer *w, const struct lk_chart *c,
                                 const struct lk_draw_options *o);

/*
 * Write text as a gnuplot string: single quotes around it (in double quotes gnuplot would execute
 * text in backquotes); quotes inside and line breaks by concatenation. Control characters,
 * bytes that are not UTF-8, and characters that turn the direction of text become '?'.
 */
enum lk_status lk_gnuplot_quote(struct lk_writer *w, const char *text);

#endif
