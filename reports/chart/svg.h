/*
 * Draw a finished chart as an SVG element, for a page to hold. It has no script, no file besides
 * and no identifier, so that a page can hold many, and it makes the same text wherever it runs.
 *
 *     LK_TRY(lk_chart_finish(&chart));
 *     LK_TRY(lk_chart_svg(w, &chart, LK_SVG_WIDTH));
 *
 * Colours are CSS variables, e.g. var(--lk-blue,#0072b2): the page's theme governs them, and
 * without one they are those of the light theme. The picture's title and its sentence are its text
 * alternative. A mark says its numbers in a <title>, of layers that have few. Marks that fall on
 * one pixel are drawn once. Texts that would overlap are left out; their marks are not.
 */
#ifndef LK_REPORTS_CHART_SVG_H
#define LK_REPORTS_CHART_SVG_H

#include "base/file.h"
#include "base/status.h"
#include "reports/chart/chart.h"

enum { LK_SVG_WIDTH = 760, LK_SVG_WIDTH_MIN = 320 }; /* pixels */

/* Write a finished chart within a width; its height is what its panels and texts need. */
enum lk_status lk_chart_svg(struct lk_writer *w, const struct lk_chart *c, double width);
/* Write the custom properties of a theme: "--lk-ink:#1a1a1a;...", for a rule of CSS. */
enum lk_status lk_chart_css(struct lk_writer *w, enum lk_chart_theme theme);

#endif
