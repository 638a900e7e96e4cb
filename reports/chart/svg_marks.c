/* Draw the marks of a panel as SVG: lines, bands, points, boxes. See svg.h. */
#include "reports/chart/svg_impl.h"
#include "reports/chart/xml.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW = 400,    /* marks of a layer that are elements of their own, and say their numbers */
    VERTICES = 60 /* of a line that say their numbers */
};
static const char *const dashes[] = {[LK_CHART_SOLID] = "",
                                     [LK_CHART_DASHED] = " stroke-dasharray=\"7 4\"",
                                     [LK_CHART_DOTTED] = " stroke-dasharray=\"1.5 3.5\""};

/* ---- Numbers of a mark ---- */

static enum lk_status put_value(struct lk_writer *w, const struct lk_chart_axis *a, double v)
{
    char text[40];

    if (a->scale == LK_CHART_NAMES) {
        for (size_t i = 0; i < a->n_ticks; i++)
            if (fabs(a->ticks[i].at - v) < 0.5 && a->ticks[i].label)
                return lk_xml_text(w, a->ticks[i].label);
        return lk_writer_printf(w, "%.0f", v);
    }
    if (a->percent)
        return lk_writer_printf(w, "%.1f %%", 100 * v);
    if (a->dim == LK_DIM_NONE || a->dim == LK_DIM_COUNT)
        return lk_writer_printf(w, v == floor(v) && fabs(v) < 1e15 ? "%.0f" : "%.4g", v);
    return lk_xml_text(w, lk_units_format(a->dim, v, text, sizeof text));
}

static enum lk_status put_pair(struct lk_writer *w, const struct lk_chart_axis *a, double from,
                               double to)
{
    LK_PASS(put_value(w, a, from));
    if (a->scale == LK_CHART_NAMES || from == to)
        return LK_OK;
    LK_PASS(lk_writer_printf(w, " to "));
    return put_value(w, a, to);
}

/* Write what a mark shows: "dgx-h100: 64, 93.0 % (90.1 % to 95.0 %)". */
static enum lk_status put_title(struct lk_writer *w, const struct svg_panel *p,
                                const struct lk_chart_layer *l, const struct lk_chart_mark *m)
{
    const struct lk_chart_axis *x = &p->panel->x, *y = &p->panel->y;

    LK_PASS(lk_writer_printf(w, "<title>"));
    if (m->text && *m->text) {
        LK_PASS(lk_xml_text(w, m->text));
        LK_PASS(lk_writer_printf(w, "; "));
    }
    if (l->label && *l->label) {
        LK_PASS(lk_xml_text(w, l->label));
        LK_PASS(lk_writer_printf(w, ": "));
    }
    if (l->kind == LK_CHART_BOXES) {
        LK_PASS(put_pair(w, x, x->scale == LK_CHART_NAMES ? (m->x + m->x2) / 2 : m->x, m->x2));
        LK_PASS(lk_writer_printf(w, ", "));
        LK_PASS(put_pair(w, y, y->scale == LK_CHART_NAMES ? (m->lo + m->hi) / 2 : m->lo, m->hi));
        return lk_writer_printf(w, "</title>");
    }
    LK_PASS(put_value(w, x, m->x));
    LK_PASS(lk_writer_printf(w, ", "));
    LK_PASS(put_value(w, y, m->y));
    if (l->kind == LK_CHART_POINTS && m->lo < m->hi) {
        LK_PASS(lk_writer_printf(w, " ("));
        LK_PASS(put_pair(w, y, m->lo, m->hi));
        LK_PASS(lk_writer_printf(w, ")"));
    }
    return lk_writer_printf(w, "</title>");
}

/* ---- Places ---- */

static enum lk_status put_point(struct lk_writer *w, char how, double x, double y)
{
    if (how)
        LK_PASS(lk_writer_put(w, &how, 1));
    else
        LK_PASS(lk_writer_put(w, " ", 1));
    LK_PASS(svg_put_number(w, x));
    LK_PASS(lk_writer_put(w, " ", 1));
    return svg_put_number(w, y);
}

static double within(double v, double from, double length)
{
    return v < from ? from : v > from + length ? from + length : v;
}

/* Return where a bound is drawn: one that a logarithmic axis has no place for is at its end, and
 * one beyond the axis is at the axis' end. */
static double bound_y(const struct svg_panel *p, double v)
{
    double y = svg_y(p, v);

    return isnan(y) ? p->plot.y + p->plot.h : within(y, p->plot.y, p->plot.h);
}

static double bound_x(const struct svg_panel *p, double v)
{
    double x = svg_x(p, v);

    return isnan(x) ? p->plot.x : within(x, p->plot.x, p->plot.w);
}

static bool is_in_plot(const struct svg_panel *p, double x, double y)
{
    const struct svg_box *b = &p->plot;

    return x >= b->x - 0.6 && x <= b->x + b->w + 0.6 && y >= b->y - 0.6 && y <= b->y + b->h + 0.6;
}

/* ---- Lines ---- */

/* The vertices of a line that fall on one column of pixels: the first, the last, the highest and
 * the lowest are what is seen of them. */
struct column {
    double x[4], y[4]; /* first, highest, lowest, last, as they come */
    size_t n;
    size_t order[4]; /* the number of each among the vertices */
};

static void column_add(struct column *c, double x, double y, size_t number)
{
    size_t lowest = 0, highest = 0;

    if (c->n < 4) {
        c->x[c->n] = x;
        c->y[c->n] = y;
        c->order[c->n++] = number;
        return;
    }
    /* The last one is replaced, and takes the place of one between unless that is an extreme. */
    for (size_t i = 1; i < 4; i++) {
        lowest = c->y[i] < c->y[lowest] ? i : lowest;
        highest = c->y[i] > c->y[highest] ? i : highest;
    }
    for (size_t i = 1; i < 3 && (lowest == 3 || highest == 3); i++)
        if (i != lowest && i != highest) {
            c->x[i] = c->x[3];
            c->y[i] = c->y[3];
            c->order[i] = c->order[3];
            break;
        }
    c->x[3] = x;
    c->y[3] = y;
    c->order[3] = number;
}

static enum lk_status column_put(struct lk_writer *w, struct column *c, bool *begun)
{
    /* In the order of the line: those between may have changed places. */
    if (c->n == 4 && c->order[1] > c->order[2]) {
        double x = c->x[1], y = c->y[1];

        c->x[1] = c->x[2];
        c->y[1] = c->y[2];
        c->x[2] = x;
        c->y[2] = y;
    }
    for (size_t i = 0; i < c->n; i++) {
        LK_PASS(put_point(w, *begun ? (i ? 0 : 'L') : 'M', c->x[i], c->y[i]));
        *begun = true;
    }
    c->n = 0;
    return LK_OK;
}

static enum lk_status put_vertices(struct lk_writer *w, const struct svg_panel *p,
                                   const struct lk_chart_layer *l)
{
    struct column c = {.n = 0};
    bool begun = false;

    for (size_t i = 0; i < l->n_marks; i++) {
        double x = svg_x(p, l->marks[i].x), y = svg_y(p, l->marks[i].y);

        if (isnan(x) || isnan(y)) { /* it parts the line */
            LK_PASS(column_put(w, &c, &begun));
            begun = false;
            continue;
        }
        if (c.n && floor(x) != floor(c.x[0]))
            LK_PASS(column_put(w, &c, &begun));
        column_add(&c, x, y, i);
    }
    return column_put(w, &c, &begun);
}

static enum lk_status put_line(struct lk_writer *w, const struct svg_panel *p,
                               const struct lk_chart_layer *l)
{
    LK_PASS(lk_writer_printf(w, "<path fill=\"none\" stroke-linejoin=\"round\" stroke-width=\"%s\"",
                             l->style == LK_CHART_DOTTED ? "1.5" : "2"));
    LK_PASS(svg_put_color(w, "stroke", l->color));
    LK_PASS(lk_writer_printf(w, "%s d=\"", dashes[l->style]));
    LK_PASS(put_vertices(w, p, l));
    LK_PASS(lk_writer_printf(w, "\"/>"));
    for (size_t i = 0; l->n_marks <= VERTICES && i < l->n_marks; i++) {
        double x = svg_x(p, l->marks[i].x), y = svg_y(p, l->marks[i].y);

        if (isnan(x) || isnan(y) || !is_in_plot(p, x, y))
            continue;
        LK_PASS(lk_writer_printf(w, "<circle r=\"7\" fill-opacity=\"0\""));
        LK_PASS(svg_put_at(w, "cx", x));
        LK_PASS(svg_put_at(w, "cy", y));
        LK_PASS(lk_writer_printf(w, ">"));
        LK_PASS(put_title(w, p, l, &l->marks[i]));
        LK_PASS(lk_writer_printf(w, "</circle>"));
    }
    return LK_OK;
}

static enum lk_status put_band(struct lk_writer *w, const struct svg_panel *p,
                               const struct lk_chart_layer *l)
{
    double last = NAN;

    LK_PASS(lk_writer_printf(w, "<path stroke=\"none\" fill-opacity=\"%s\"",
                             l->style == LK_CHART_SOLID ? "0.22" : "0.13"));
    LK_PASS(svg_put_color(w, "fill", l->color));
    LK_PASS(lk_writer_printf(w, " d=\""));
    for (size_t i = 0; i < l->n_marks; i++) {
        double x = svg_x(p, l->marks[i].x);

        if (!isnan(x))
            LK_PASS(put_point(w, isnan(last) ? 'M' : 'L', x, bound_y(p, l->marks[i].hi)));
        last = isnan(x) ? last : x;
    }
    for (size_t i = l->n_marks; i-- > 0;) {
        double x = svg_x(p, l->marks[i].x);

        if (!isnan(x))
            LK_PASS(put_point(w, 'L', x, bound_y(p, l->marks[i].lo)));
    }
    return lk_writer_printf(w, "%s\"/>", isnan(last) ? "" : "z");
}

/* ---- Points ---- */

/* The pixels of a plot, two by two, that have a point already. */
struct pixels {
    unsigned char *taken;
    size_t columns, rows;
};

static enum lk_status pixels_init(struct pixels *s, const struct svg_panel *p)
{
    s->columns = (size_t)(p->plot.w / 2) + 2;
    s->rows = (size_t)(p->plot.h / 2) + 2;
    return lk_alloc(&s->taken, s->columns * s->rows, 1);
}

/* Take a place; returns false where another point has it. pre: it is in the plot. */
static bool pixels_take(struct pixels *s, const struct svg_panel *p, double x, double y)
{
    size_t column = (size_t)((x - p->plot.x + 1) / 2), row = (size_t)((y - p->plot.y + 1) / 2);
    unsigned char *taken = &s->taken[row * s->columns + column];
    bool was = *taken;

    *taken = 1;
    return !was;
}

/* Draw the bars of points, from lo to hi where both are known. */
static enum lk_status put_bars(struct lk_writer *w, const struct svg_panel *p,
                               const struct lk_chart_layer *l)
{
    bool any = false;

    for (size_t i = 0; i < l->n_marks; i++) {
        const struct lk_chart_mark *m = &l->marks[i];
        double x = svg_x(p, m->x), cap = l->n_marks > FEW ? 0 : 4;

        if (!(m->lo < m->hi) || !is_in_plot(p, x, bound_y(p, m->y)))
            continue;
        if (!any) {
            LK_PASS(lk_writer_printf(w, "<path fill=\"none\" stroke-width=\"1.5\""));
            LK_PASS(svg_put_color(w, "stroke", l->color));
            LK_PASS(lk_writer_printf(w, " d=\""));
            any = true;
        }
        LK_PASS(put_point(w, 'M', x, bound_y(p, m->lo)));
        LK_PASS(lk_writer_put(w, "V", 1));
        LK_PASS(svg_put_number(w, bound_y(p, m->hi)));
        if (cap > 0) {
            LK_PASS(put_point(w, 'M', x - cap, bound_y(p, m->lo)));
            LK_PASS(lk_writer_printf(w, "h8"));
            LK_PASS(put_point(w, 'M', x - cap, bound_y(p, m->hi)));
            LK_PASS(lk_writer_printf(w, "h8"));
        }
    }
    return any ? lk_writer_printf(w, "\"/>") : LK_OK;
}

/* Draw many points as one path, each as the round end of a line without length. */
static enum lk_status put_crowd(struct lk_writer *w, const struct svg_panel *p,
                                const struct lk_chart_layer *l)
{
    enum lk_status st = LK_OK;
    struct pixels s = {NULL, 0, 0};

    LK_TRY(pixels_init(&s, p));
    LK_TRY(lk_writer_printf(w, "<path fill=\"none\" stroke-linecap=\"round\" stroke-width=\"4\""));
    LK_TRY(svg_put_color(w, "stroke", l->color));
    LK_TRY(lk_writer_printf(w, " d=\""));
    for (size_t i = 0; i < l->n_marks; i++) {
        double x = svg_x(p, l->marks[i].x), y = svg_y(p, l->marks[i].y);

        if (!is_in_plot(p, x, y) || !pixels_take(&s, p, x, y))
            continue;
        LK_TRY(lk_writer_printf(w, "M%.0f %.0fh0", x, y));
    }
    st = lk_writer_printf(w, "\"/>");
out:
    free(s.taken);
    return st;
}

static enum lk_status put_points(struct lk_writer *w, const struct svg_panel *p,
                                 const struct lk_chart_layer *l)
{
    LK_PASS(put_bars(w, p, l));
    if (l->n_marks > FEW)
        return put_crowd(w, p, l);
    LK_PASS(lk_writer_printf(w, "<g stroke-width=\"2\""));
    LK_PASS(svg_put_color(w, "stroke", l->color));
    LK_PASS(svg_put_color(w, "fill", l->style == LK_CHART_SOLID ? l->color : LK_CHART_PAPER));
    LK_PASS(lk_writer_printf(w, ">"));
    for (size_t i = 0; i < l->n_marks; i++) {
        double x = svg_x(p, l->marks[i].x), y = svg_y(p, l->marks[i].y);

        if (!is_in_plot(p, x, y))
            continue;
        LK_PASS(lk_writer_printf(w, "<circle r=\"4\""));
        LK_PASS(svg_put_at(w, "cx", x));
        LK_PASS(svg_put_at(w, "cy", y));
        LK_PASS(lk_writer_printf(w, ">"));
        LK_PASS(put_title(w, p, l, &l->marks[i]));
        LK_PASS(lk_writer_printf(w, "</circle>"));
    }
    return lk_writer_printf(w, "</g>");
}

/* ---- Boxes ---- */

static struct svg_box place_box(const struct svg_panel *p, const struct lk_chart_mark *m)
{
    double x1 = bound_x(p, m->x), x2 = bound_x(p, m->x2);
    double y1 = bound_y(p, m->lo), y2 = bound_y(p, m->hi);

    return (struct svg_box){x1 < x2 ? x1 : x2, y1 < y2 ? y1 : y2, fabs(x2 - x1), fabs(y2 - y1)};
}

static enum lk_status put_box(struct lk_writer *w, const struct svg_panel *p,
                              const struct lk_chart_layer *l, const struct lk_chart_mark *m)
{
    struct svg_box b = place_box(p, m);

    LK_PASS(lk_writer_printf(w, "<rect"));
    LK_PASS(svg_put_at(w, "x", b.x));
    LK_PASS(svg_put_at(w, "y", b.y));
    LK_PASS(svg_put_at(w, "width", b.w));
    LK_PASS(svg_put_at(w, "height", b.h));
    if (l->heat)
        LK_PASS(lk_writer_printf(w, " fill=\"#%06x\"", lk_chart_heat(m->share)));
    LK_PASS(lk_writer_printf(w, ">"));
    LK_PASS(put_title(w, p, l, m));
    return lk_writer_printf(w, "</rect>");
}

/* Boxes that lie on each other's pixels one after the other, and are drawn as one. */
static enum lk_status put_joined(struct lk_writer *w, const struct svg_box *b)
{
    LK_PASS(put_point(w, 'M', b->x, b->y));
    LK_PASS(lk_writer_put(w, "h", 1));
    LK_PASS(svg_put_number(w, b->w));
    LK_PASS(lk_writer_put(w, "v", 1));
    LK_PASS(svg_put_number(w, b->h));
    LK_PASS(lk_writer_put(w, "h", 1));
    LK_PASS(svg_put_number(w, -b->w));
    return lk_writer_put(w, "z", 1);
}

/* Draw the boxes of a colour as one path; level < 0: all boxes. */
static enum lk_status put_level(struct lk_writer *w, const struct svg_panel *p,
                                const struct lk_chart_layer *l, const unsigned char *levels,
                                int level)
{
    struct svg_box held = {0, 0, -1, 0};

    for (size_t i = 0; i < l->n_marks; i++) {
        struct svg_box b;

        if (level >= 0 && levels[i] != level)
            continue;
        b = place_box(p, &l->marks[i]);
        if (held.w >= 0 && fabs(b.y - held.y) < 0.05 && fabs(b.h - held.h) < 0.05 &&
            b.x >= held.x - 0.05 && b.x - (held.x + held.w) < 0.3) {
            double to = b.x + b.w > held.x + held.w ? b.x + b.w : held.x + held.w;

            held.w = to - held.x;
            continue;
        }
        if (held.w >= 0)
            LK_PASS(put_joined(w, &held));
        held = b;
    }
    return held.w >= 0 ? put_joined(w, &held) : LK_OK;
}

/* Draw many boxes of a heat map: each of 64 colours is one path. */
static enum lk_status put_many_cells(struct lk_writer *w, const struct svg_panel *p,
                                     const struct lk_chart_layer *l)
{
    enum { LEVELS = 64 };
    enum lk_status st = LK_OK;
    size_t counts[LEVELS] = {0};
    unsigned char *levels = NULL;

    LK_TRY(lk_alloc(&levels, l->n_marks, 1));
    for (size_t i = 0; i < l->n_marks; i++) {
        double share = l->marks[i].share;

        levels[i] = (unsigned char)(share > 0 ? (share < 1 ? share * (LEVELS - 1) + 0.5 : 63) : 0);
        counts[levels[i]]++;
    }
    for (int k = 0; k < LEVELS; k++) {
        if (!counts[k])
            continue;
        LK_TRY(lk_writer_printf(w, "<path fill=\"#%06x\" d=\"", lk_chart_heat(k / (LEVELS - 1.0))));
        LK_TRY(put_level(w, p, l, levels, k));
        LK_TRY(lk_writer_printf(w, "\"/>"));
    }
out:
    free(levels);
    return st;
}

static enum lk_status put_many_boxes(struct lk_writer *w, const struct svg_panel *p,
                                     const struct lk_chart_layer *l)
{
    if (l->heat)
        return put_many_cells(w, p, l);
    LK_PASS(lk_writer_printf(w, "<path d=\""));
    LK_PASS(put_level(w, p, l, NULL, -1));
    return lk_writer_printf(w, "\"/>");
}

static enum lk_status put_boxes(struct lk_writer *w, const struct svg_panel *p,
                                const struct lk_chart_layer *l)
{
    LK_PASS(lk_writer_printf(w, "<g"));
    if (l->style == LK_CHART_SOLID) {
        LK_PASS(svg_put_color(w, "fill", l->color));
    } else {
        LK_PASS(svg_put_color(w, "fill", LK_CHART_PAPER));
        LK_PASS(svg_put_color(w, "stroke", l->color));
        LK_PASS(
            lk_writer_printf(w, " stroke-width=\"1.5\" fill-opacity=\"0.3\"%s", dashes[l->style]));
    }
    LK_PASS(lk_writer_printf(w, "%s>", l->heat ? " shape-rendering=\"crispEdges\"" : ""));
    if (l->n_marks > FEW)
        LK_PASS(put_many_boxes(w, p, l));
    for (size_t i = 0; l->n_marks <= FEW && i < l->n_marks; i++)
        LK_PASS(put_box(w, p, l, &l->marks[i]));
    return lk_writer_printf(w, "</g>");
}

/* ---- All ---- */

static enum lk_status put_layer(struct lk_writer *w, const struct svg_panel *p,
                                const struct lk_chart_layer *l)
{
    switch (l->kind) {
    case LK_CHART_LINE:
        return put_line(w, p, l);
    case LK_CHART_BAND:
        return put_band(w, p, l);
    case LK_CHART_POINTS:
        return put_points(w, p, l);
    case LK_CHART_BOXES:
        return put_boxes(w, p, l);
    case LK_CHART_TEXTS:
        break;
    }
    return LK_OK;
}

enum lk_status svg_layers(struct lk_writer *w, const struct svg_panel *p)
{
    const struct svg_box *b = &p->plot;

    /* A picture within the picture cuts what is beyond the axes, without an identifier; points are
     * whole at its rim, since those beyond are not drawn at all. */
    LK_PASS(lk_writer_printf(w,
                             "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                             "viewBox=\"%.1f %.1f %.1f %.1f\">",
                             b->x - 6, b->y - 6, b->w + 12, b->h + 12, b->x - 6, b->y - 6,
                             b->w + 12, b->h + 12));
    for (size_t i = 0; i < p->panel->n_layers; i++)
        LK_PASS(put_layer(w, p, p->panel->layers[i]));
    return lk_writer_printf(w, "</svg>\n");
}

enum lk_status svg_sign(struct lk_writer *w, const struct lk_chart_layer *l, double x, double y)
{
    double middle = y + 6;

    switch (l->kind) {
    case LK_CHART_LINE:
        LK_PASS(lk_writer_printf(w, "<path fill=\"none\" stroke-width=\"2\"%s d=\"M%.1f %.1fh24\"",
                                 dashes[l->style], x, middle));
        LK_PASS(svg_put_color(w, "stroke", l->color));
        break;
    case LK_CHART_POINTS:
        LK_PASS(lk_writer_printf(w, "<circle r=\"4\" stroke-width=\"2\" cx=\"%.1f\" cy=\"%.1f\"",
                                 x + 12, middle));
        LK_PASS(svg_put_color(w, "stroke", l->color));
        LK_PASS(svg_put_color(w, "fill", l->style == LK_CHART_SOLID ? l->color : LK_CHART_PAPER));
        break;
    case LK_CHART_BAND:
    case LK_CHART_BOXES:
    case LK_CHART_TEXTS:
        LK_PASS(
            lk_writer_printf(w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"24\" height=\"12\"", x, y));
        LK_PASS(svg_put_color(w, "fill", l->color));
        if (l->kind == LK_CHART_BAND)
            LK_PASS(lk_writer_printf(w, " fill-opacity=\"0.25\""));
        break;
    }
    return lk_writer_printf(w, "/>");
}
