/* Charts as SVG: the picture, its panels, axes and keys; svg_marks.c draws what is in them. */
#include "reports/chart/svg.h"

#include "base/array.h"
#include "reports/chart/svg_impl.h"
#include "reports/chart/xml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAD = 12,        /* around a cell */
    SIGN = 24,       /* the width of a key's sign */
    TICK_GAP = 6,    /* between an axis and the names of its ticks */
    TITLE_LINE = 23, /* from a line of the title to the next */
    NAME_LINE = 22,  /* of a name on the y axis */
    LINES_MAX = 2000 /* of a text; more are cut */
};
static const double PLOT_MIN = 170, PLOT_MAX = 360, NAMES_MAX = 1600,
                    HEAT_MAX = 700; /* of a heat map, to be seen whole */

/* ---- Numbers, colours, texts ---- */

enum lk_status svg_put_number(struct lk_writer *w, double v)
{
    const double far = 1e6; /* beyond all pictures */
    char text[40];
    int n = snprintf(text, sizeof text, "%.1f", v < far ? (v > -far ? v : -far) : far);

    if (n > 2 && text[n - 1] == '0')
        text[n -= 2] = '\0';
    return lk_writer_put(w, strcmp(text, "-0") ? text : "0", strcmp(text, "-0") ? (size_t)n : 1);
}

enum lk_status svg_put_at(struct lk_writer *w, const char *name, double v)
{
    LK_PASS(lk_writer_printf(w, " %s=\"", name));
    LK_PASS(svg_put_number(w, v));
    return lk_writer_put(w, "\"", 1);
}

enum lk_status svg_put_color(struct lk_writer *w, const char *attribute, enum lk_chart_color color)
{
    return lk_writer_printf(w, " %s=\"var(--lk-%s,#%06x)\"", attribute, lk_chart_color_name(color),
                            lk_chart_rgb(color, LK_CHART_LIGHT));
}

enum lk_status lk_chart_css(struct lk_writer *w, enum lk_chart_theme theme)
{
    for (int c = 0; c < LK_CHART_COLORS; c++)
        LK_PASS(lk_writer_printf(w, "--lk-%s:#%06x;", lk_chart_color_name((enum lk_chart_color)c),
                                 lk_chart_rgb((enum lk_chart_color)c, theme)));
    return LK_OK;
}

/* Write a text at a place; what does not fit within the width is cut, with an ellipsis. */
static enum lk_status put_label(struct lk_writer *w, const char *text, double x, double y,
                                const char *anchor, double width)
{
    size_t n = strlen(text), fit = lk_xml_fit(text, SVG_TEXT, width);
    bool cut = fit < n;

    if (cut)
        fit = lk_xml_fit(text, SVG_TEXT, width - SVG_TEXT);
    LK_PASS(lk_writer_printf(w, "<text"));
    LK_PASS(svg_put_at(w, "x", x));
    LK_PASS(svg_put_at(w, "y", y));
    LK_PASS(lk_writer_printf(w, "%s%s%s>", anchor ? " text-anchor=\"" : "", anchor ? anchor : "",
                             anchor ? "\"" : ""));
    if (cut) {
        LK_PASS(lk_writer_printf(w, "<title>"));
        LK_PASS(lk_xml_text(w, text));
        LK_PASS(lk_writer_printf(w, "</title>"));
    }
    LK_PASS(lk_xml_put(w, text, fit));
    return lk_writer_printf(w, "%s</text>", cut ? "\xe2\x80\xa6" : "");
}

/* Return the size by which the width of a bold text is found. */
static double bold(double size)
{
    return 1.12 * size;
}

/* Return how many lines a text takes. */
static int count_lines(const char *text, double size, double width)
{
    int lines = 0;
    size_t skip;

    for (; *text && lines < LINES_MAX; lines++) {
        (void)lk_xml_line(text, size, width, &skip);
        text += skip;
    }
    return lines;
}

/* Write a text in as many lines as it needs, the first one at *y, which moves on; the size is the
 * one that its width is found by, and step is from a line to the next. */
static enum lk_status put_paragraph(struct lk_writer *w, const char *text, double size, double step,
                                    double width, double x, double *y)
{
    size_t skip, n;

    for (int lines = 0; *text && lines < LINES_MAX; lines++, text += skip) {
        n = lk_xml_line(text, size, width, &skip);
        LK_PASS(lk_writer_printf(w, "<text"));
        LK_PASS(svg_put_at(w, "x", x));
        LK_PASS(svg_put_at(w, "y", *y));
        LK_PASS(lk_writer_printf(w, ">"));
        LK_PASS(lk_xml_put(w, text, n));
        LK_PASS(lk_writer_printf(w, "</text>"));
        *y += step;
    }
    return LK_OK;
}

/* ---- Keys ---- */

/* Return the width of an entry of the key, within that of its panel. */
static double entry_width(const struct lk_chart_layer *l, double width)
{
    double needs = SIGN + 6 + lk_xml_width(l->label, strlen(l->label), SVG_TEXT);

    return needs < width ? needs : width;
}

/* Write the key from *y on, or only find its height (w NULL); *y moves on. */
static enum lk_status put_key(struct lk_writer *w, const struct lk_chart_panel *p, double x,
                              double width, double *y)
{
    double at = 0;
    bool any = false;

    for (size_t i = 0; p->key && i < p->n_layers; i++) {
        const struct lk_chart_layer *l = p->layers[i];
        double needs;

        if (!l->label || !*l->label)
            continue;
        needs = entry_width(l, width);
        if (any && at + needs > width) {
            at = 0;
            *y += SVG_LINE + 2;
        }
        if (w) {
            LK_PASS(svg_sign(w, l, x + at, *y - 11));
            LK_PASS(put_label(w, l->label, x + at + SIGN + 6, *y, NULL, needs - SIGN - 4));
        }
        any = true;
        at += needs + 18;
    }
    *y += any ? SVG_LINE + 2 : 0;
    return LK_OK;
}

/* ---- Axes ---- */

double svg_x(const struct svg_panel *p, double x)
{
    return p->plot.x + p->plot.w * lk_chart_at(&p->panel->x, x);
}

double svg_y(const struct svg_panel *p, double y)
{
    double at = lk_chart_at(&p->panel->y, y);

    return p->plot.y + p->plot.h * (p->panel->y.scale == LK_CHART_NAMES ? at : 1 - at);
}

static bool is_inside(double v, double from, double length)
{
    return v >= from - 0.6 && v <= from + length + 0.6;
}

static enum lk_status put_line(struct lk_writer *w, double x1, double y1, double x2, double y2)
{
    LK_PASS(lk_writer_printf(w, "M"));
    LK_PASS(svg_put_number(w, x1));
    LK_PASS(lk_writer_put(w, " ", 1));
    LK_PASS(svg_put_number(w, y1));
    LK_PASS(lk_writer_put(w, x1 == x2 ? "V" : "H", 1));
    return svg_put_number(w, x1 == x2 ? y2 : x2);
}

/* Draw the grid, of ticks that have labels, and the axes' lines. */
static enum lk_status put_grid(struct lk_writer *w, const struct svg_panel *p)
{
    const struct lk_chart_axis *x = &p->panel->x, *y = &p->panel->y;
    const struct svg_box *b = &p->plot;

    LK_PASS(lk_writer_printf(w, "<path fill=\"none\""));
    LK_PASS(svg_put_color(w, "stroke", LK_CHART_GRID));
    LK_PASS(lk_writer_printf(w, " d=\""));
    LK_PASS(put_line(w, b->x, b->y + b->h, b->x + b->w, b->y + b->h));
    for (size_t i = 0; x->scale != LK_CHART_NAMES && i < x->n_ticks; i++)
        if (x->ticks[i].label && is_inside(svg_x(p, x->ticks[i].at), b->x, b->w))
            LK_PASS(
                put_line(w, svg_x(p, x->ticks[i].at), b->y, svg_x(p, x->ticks[i].at), b->y + b->h));
    for (size_t i = 0; y->scale != LK_CHART_NAMES && i < y->n_ticks; i++)
        if (y->ticks[i].label && is_inside(svg_y(p, y->ticks[i].at), b->y, b->h))
            LK_PASS(
                put_line(w, b->x, svg_y(p, y->ticks[i].at), b->x + b->w, svg_y(p, y->ticks[i].at)));
    LK_PASS(lk_writer_printf(w, "\"/><path fill=\"none\""));
    LK_PASS(svg_put_color(w, "stroke", LK_CHART_GRAY));
    LK_PASS(lk_writer_printf(w, " d=\""));
    LK_PASS(put_line(w, b->x, b->y, b->x, b->y + b->h));
    LK_PASS(put_line(w, b->x, b->y + b->h, b->x + b->w, b->y + b->h));
    return lk_writer_printf(w, "\"/>");
}

/* Return the room of a tick's label beside the y axis. */
static double tick_width(const struct lk_chart_tick *t)
{
    return t->label ? lk_xml_width(t->label, strlen(t->label), SVG_TEXT) : 0;
}

/* Write the labels below the x axis; those that would run into another are left out. */
static enum lk_status put_x_labels(struct lk_writer *w, const struct svg_panel *p)
{
    const struct lk_chart_axis *a = &p->panel->x;
    const struct svg_box *b = &p->plot;
    bool names = a->scale == LK_CHART_NAMES;
    double slot = names && a->n_ticks ? b->w / (double)a->n_ticks - 6 : b->w / 3;
    double taken = -1e9, y = b->y + b->h + TICK_GAP + SVG_TEXT;

    slot = slot < 60 ? 60 : slot;
    for (size_t i = 0; i < a->n_ticks; i++) {
        double x = svg_x(p, a->ticks[i].at), width = tick_width(&a->ticks[i]);

        width = width < slot ? width : slot;
        if (!a->ticks[i].label || !is_inside(x, b->x, b->w) || x - width / 2 < taken + 5)
            continue;
        LK_PASS(put_label(w, a->ticks[i].label, x, y, "middle", width + 0.1));
        taken = x + width / 2;
    }
    return put_label(w, a->label, b->x + b->w / 2, y + SVG_LINE + 2, "middle", p->cell.w);
}

/* Write the labels beside the y axis, and what they are, turned. */
static enum lk_status put_y_labels(struct lk_writer *w, const struct svg_panel *p)
{
    const struct lk_chart_axis *a = &p->panel->y;
    const struct svg_box *b = &p->plot;
    double taken = NAN, at = p->cell.x + SVG_TEXT, middle = b->y + b->h / 2;

    for (size_t i = 0; i < a->n_ticks; i++) {
        double y = svg_y(p, a->ticks[i].at);

        if (!a->ticks[i].label || !is_inside(y, b->y, b->h) || fabs(y - taken) < SVG_TEXT + 2)
            continue;
        LK_PASS(put_label(w, a->ticks[i].label, b->x - TICK_GAP, y + SVG_TEXT * 0.36, "end",
                          p->left + 0.1));
        taken = y;
    }
    if (!*a->label)
        return LK_OK;
    LK_PASS(lk_writer_printf(w, "<g transform=\"rotate(-90 %.1f %.1f)\">", at, middle));
    LK_PASS(put_label(w, a->label, at, middle, "middle", b->h + 20));
    return lk_writer_printf(w, "</g>");
}

/* ---- Panels ---- */

/* Return the room that texts to the right of boxes need beyond the end of the axis. */
static double room_right(const struct lk_chart_panel *p)
{
    double most = 0;

    for (size_t i = 0; i < p->n_layers; i++) {
        const struct lk_chart_layer *l = p->layers[i];

        for (size_t k = 0; l->kind == LK_CHART_BOXES && l->place == LK_CHART_RIGHT &&
                           k < l->n_marks && k < SVG_TEXTS_MAX;
             k++) {
            const char *text = l->marks[k].text;
            double width = text ? lk_xml_width(text, strlen(text), SVG_TEXT) : 0;

            most = width > most ? width : most;
        }
    }
    return most;
}

static bool is_heat_map(const struct lk_chart_panel *p)
{
    for (size_t i = 0; i < p->n_layers; i++)
        if (p->layers[i]->heat)
            return true;
    return false;
}

/* Find what a panel needs beside its plot; its cell has a width and a place. */
static enum lk_status measure(struct svg_panel *p)
{
    const struct lk_chart_axis *y = &p->panel->y;
    const double inner = p->cell.w - 2 * PAD;
    double most = 0.4 * p->cell.w, key = 0, right = room_right(p->panel);

    p->left = 0;
    for (size_t i = 0; i < y->n_ticks; i++)
        p->left = tick_width(&y->ticks[i]) > p->left ? tick_width(&y->ticks[i]) : p->left;
    p->left = p->left < most ? p->left : most;
    LK_PASS(put_key(NULL, p->panel, 0, inner, &key));
    p->head =
        key + 8 +
        (p->panel->title ? SVG_LINE * count_lines(p->panel->title, bold(SVG_TEXT), inner) + 4 : 0);
    p->plot.w = inner - p->left - TICK_GAP - (*y->label ? SVG_LINE : 0);
    p->plot.x = p->cell.x + p->cell.w - PAD - p->plot.w;
    p->plot.w -= right < 0.3 * p->plot.w ? right : 0.3 * p->plot.w;
    p->plot.h = 0.55 * p->plot.w;
    p->plot.h = p->plot.h < PLOT_MIN ? PLOT_MIN : p->plot.h > PLOT_MAX ? PLOT_MAX : p->plot.h;
    if (y->scale == LK_CHART_NAMES) {
        double names = NAME_LINE * (double)y->n_ticks,
               highest = is_heat_map(p->panel) ? HEAT_MAX : NAMES_MAX;

        names = names < highest ? names : highest;
        p->plot.h = y->n_ticks < 8 ? names + NAME_LINE : p->plot.h > names ? p->plot.h : names;
    }
    return LK_OK;
}

static enum lk_status put_panel(struct lk_writer *w, const struct svg_panel *p)
{
    double y = p->cell.y + SVG_TEXT;

    if (p->panel->title) {
        LK_PASS(lk_writer_printf(w, "<g font-weight=\"600\">"));
        LK_PASS(put_paragraph(w, p->panel->title, bold(SVG_TEXT), SVG_LINE, p->cell.w - 2 * PAD,
                              p->cell.x + PAD, &y));
        LK_PASS(lk_writer_printf(w, "</g>"));
        y += 4;
    }
    LK_PASS(put_key(w, p->panel, p->cell.x + PAD, p->cell.w - 2 * PAD, &y));
    LK_PASS(put_grid(w, p));
    LK_PASS(put_x_labels(w, p));
    LK_PASS(put_y_labels(w, p));
    LK_PASS(svg_layers(w, p));
    return svg_texts(w, p);
}

/* Place all panels, `columns` in a row, from y on; returns where they end. */
static enum lk_status place(struct svg_panel *panels, size_t n, size_t columns, double width,
                            double *y)
{
    for (size_t i = 0; i < n; i += columns) {
        size_t row = n - i < columns ? n - i : columns;
        double head = 0, height = 0;

        for (size_t k = 0; k < row; k++) {
            struct svg_panel *p = &panels[i + k];

            p->cell = (struct svg_box){(double)k * width / (double)columns, *y,
                                       width / (double)columns, 0};
            LK_PASS(measure(p));
            head = p->head > head ? p->head : head;
            height = p->plot.h > height ? p->plot.h : height;
        }
        for (size_t k = 0; k < row; k++) {
            panels[i + k].plot.y = *y + head;
            panels[i + k].plot.h = height;
        }
        *y += head + height + 2 * SVG_LINE + 20;
    }
    return LK_OK;
}

/* ---- The picture ---- */

static enum lk_status put_head(struct lk_writer *w, const struct lk_chart *c, double width,
                               double height)
{
    LK_PASS(lk_writer_printf(w,
                             "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                             "viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
                             "font-family=\"system-ui,'DejaVu Sans',sans-serif\" "
                             "font-size=\"%.0f\"",
                             width, height, width, height, SVG_TEXT));
    LK_PASS(svg_put_color(w, "fill", LK_CHART_INK));
    LK_PASS(lk_writer_printf(w, "><title>"));
    LK_PASS(lk_xml_text(w, c->title));
    LK_PASS(lk_writer_printf(w, "</title><desc>"));
    LK_PASS(lk_xml_text(w, c->says ? c->says : c->title));
    LK_PASS(lk_writer_printf(w, "</desc><path"));
    LK_PASS(svg_put_color(w, "fill", LK_CHART_PAPER));
    return lk_writer_printf(w, " d=\"M0 0H%.0fV%.0fH0z\"/>\n", width, height);
}

static double notes_height(const struct lk_chart *c, double width)
{
    double height = 0;

    for (size_t i = 0; i < c->n_notes; i++)
        height += SVG_LINE * count_lines(c->notes[i], SVG_TEXT, width);
    return height;
}

enum lk_status lk_chart_svg(struct lk_writer *w, const struct lk_chart *c, double width)
{
    enum lk_status st = LK_OK;
    struct svg_panel *panels = NULL;
    double inner, top, y = SVG_TITLE + PAD;
    /* Panels side by side have to be wide enough to be read. */
    size_t columns = c->columns ? c->columns : 1;

    width = width > LK_SVG_WIDTH_MIN ? width : LK_SVG_WIDTH_MIN;
    inner = width - 2 * PAD;
    while (columns > 1 && width / (double)columns < LK_SVG_WIDTH_MIN)
        columns--;
    LK_TRY(lk_alloc(&panels, c->n_panels, sizeof *panels));
    for (size_t i = 0; i < c->n_panels; i++)
        panels[i].panel = c->panels[i];
    top = y + TITLE_LINE * (count_lines(c->title, bold(SVG_TITLE), inner) - 1) + PAD;
    LK_TRY(place(panels, c->n_panels, columns, width, &top));
    LK_TRY(put_head(w, c, width, top + notes_height(c, inner) + (c->n_notes ? PAD : 0)));
    LK_TRY(lk_writer_printf(w, "<g font-weight=\"600\" font-size=\"%.0f\">", SVG_TITLE));
    LK_TRY(put_paragraph(w, c->title, bold(SVG_TITLE), TITLE_LINE, inner, PAD, &y));
    LK_TRY(lk_writer_printf(w, "</g>\n"));
    for (size_t i = 0; i < c->n_panels; i++) {
        LK_TRY(lk_writer_printf(w, "<g>"));
        LK_TRY(put_panel(w, &panels[i]));
        LK_TRY(lk_writer_printf(w, "</g>\n"));
    }
    y = top + SVG_TEXT / 2;
    LK_TRY(lk_writer_printf(w, "<g opacity=\"0.85\">"));
    for (size_t i = 0; i < c->n_notes; i++)
        LK_TRY(put_paragraph(w, c->notes[i], SVG_TEXT, SVG_LINE, inner, PAD, &y));
    st = lk_writer_printf(w, "</g></svg>\n");
out:
    free(panels);
    return st;
}
