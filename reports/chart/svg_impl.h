/* The files that draw SVG share these; see svg.h. */
#ifndef LK_REPORTS_CHART_SVG_IMPL_H
#define LK_REPORTS_CHART_SVG_IMPL_H

#include "base/file.h"
#include "reports/chart/chart.h"

#include <stdbool.h>
#include <stddef.h>

/* Sizes of type, in pixels. */
#define SVG_TITLE 17.0
#define SVG_TEXT  13.0
#define SVG_LINE  18.0 /* from a line to the next */

struct svg_box {
    double x, y, w, h;
};

/* Texts that are there already: others must not cover them. */
enum { SVG_TEXTS_MAX = 400 };
struct svg_texts {
    struct svg_box boxes[SVG_TEXTS_MAX];
    size_t n;
};

/* A panel and where it is drawn. */
struct svg_panel {
    const struct lk_chart_panel *panel;
    struct svg_box cell, plot; /* with all its texts; within its axes */
    double left, head;         /* room for the names of the y axis; for title and key */
};

/* Write "x", "12.5": a coordinate with its name, as an attribute. */
enum lk_status svg_put_at(struct lk_writer *w, const char *name, double v);
/* Write a coordinate, with one decimal at most. */
enum lk_status svg_put_number(struct lk_writer *w, double v);
/* Write a colour as an attribute's value: fill="var(--lk-blue,#0072b2)". */
enum lk_status svg_put_color(struct lk_writer *w, const char *attribute, enum lk_chart_color color);

/* Return where values are drawn; NaN: nowhere. */
double svg_x(const struct svg_panel *p, double x);
double svg_y(const struct svg_panel *p, double y);

/* Draw all layers of a panel, then their texts. */
enum lk_status svg_layers(struct lk_writer *w, const struct svg_panel *p);
enum lk_status svg_texts(struct lk_writer *w, const struct svg_panel *p);
/* Draw a key's sign of a layer within 24 x 12 pixels. */
enum lk_status svg_sign(struct lk_writer *w, const struct lk_chart_layer *l, double x, double y);

#endif
