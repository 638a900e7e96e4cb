/* The texts beside marks of an SVG: each where it covers no other, or not at all. See svg.h. */
#include "reports/chart/svg_impl.h"
#include "reports/chart/xml.h"

#include <math.h>
#include <string.h>

static const double GAP = 7; /* from a mark to its text */

static bool cover(const struct svg_box *a, const struct svg_box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

/* Return whether a text fits into the panel and covers no other. */
static bool is_free(const struct svg_texts *s, const struct svg_panel *p, const struct svg_box *b)
{
    const struct svg_box *cell = &p->cell;

    if (b->x < cell->x + 1 || b->x + b->w > cell->x + cell->w - 1 || b->y < p->plot.y - 14 ||
        b->y + b->h > p->plot.y + p->plot.h + 2)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (cover(&s->boxes[i], b))
            return false;
    return true;
}

/* Return the box of a text of a width at a place beside a mark's box. */
static struct svg_box beside(const struct svg_box *mark, double width, enum lk_chart_place place)
{
    struct svg_box b = {mark->x + mark->w / 2 - width / 2, mark->y + mark->h / 2 - SVG_TEXT / 2,
                        width, SVG_TEXT};

    if (place == LK_CHART_ABOVE)
        b.y = mark->y - GAP - SVG_TEXT;
    else if (place == LK_CHART_BELOW)
        b.y = mark->y + mark->h + GAP;
    else if (place == LK_CHART_LEFT)
        b.x = mark->x - GAP - width;
    else if (place == LK_CHART_RIGHT)
        b.x = mark->x + mark->w + GAP;
    return b;
}

/* Find a mark's box; false: it is nowhere in the plot. */
static bool mark_box(const struct svg_panel *p, const struct lk_chart_layer *l,
                     const struct lk_chart_mark *m, struct svg_box *out)
{
    double x = svg_x(p, m->x), y = svg_y(p, m->y), x2 = x, y2 = y;

    if (l->kind == LK_CHART_BOXES) {
        x2 = svg_x(p, m->x2);
        y = svg_y(p, m->hi);
        y2 = svg_y(p, m->lo);
    } else if (l->kind == LK_CHART_BAND) {
        y = y2 = svg_y(p, m->hi);
    }
    *out = (struct svg_box){x < x2 ? x : x2, y < y2 ? y : y2, fabs(x2 - x), fabs(y2 - y)};
    return out->x + out->w >= p->plot.x - 1 && out->x <= p->plot.x + p->plot.w + 1 &&
           out->y + out->h >= p->plot.y - 1 && out->y <= p->plot.y + p->plot.h + 1;
}

/* Return the colour in which a text can be read on a cell of a heat map. */
static const char *ink_on(unsigned rgb)
{
    unsigned light = 3 * (rgb >> 16 & 0xff) + 6 * (rgb >> 8 & 0xff) + (rgb & 0xff);

    return light > 1250 ? "#000" : "#fff";
}

/* Return whether a colour is dark in the light theme; all are light in the dark one. */
static bool is_dark(enum lk_chart_color color)
{
    return !strcmp(ink_on(lk_chart_rgb(color, LK_CHART_LIGHT)), "#fff");
}

/* Write a text in its box; on a mark in the colour that is read there, else on a seam of paper. */
static enum lk_status put_text(struct lk_writer *w, const struct lk_chart_layer *l,
                               const struct lk_chart_mark *m, const struct svg_box *b, bool is_on)
{
    LK_PASS(lk_writer_printf(w, "<text text-anchor=\"middle\""));
    LK_PASS(svg_put_at(w, "x", b->x + b->w / 2));
    LK_PASS(svg_put_at(w, "y", b->y + SVG_TEXT * 0.86));
    if (l->kind == LK_CHART_BOXES && is_on) {
        LK_PASS(lk_writer_printf(w, " stroke=\"none\""));
        if (l->heat || !is_dark(l->color))
            LK_PASS(lk_writer_printf(w, " fill=\"%s\"",
                                     l->heat ? ink_on(lk_chart_heat(m->share)) : "#000"));
        else
            LK_PASS(svg_put_color(w, "fill", LK_CHART_PAPER));
    }
    LK_PASS(lk_writer_printf(w, ">"));
    LK_PASS(lk_xml_text(w, m->text));
    return lk_writer_printf(w, "</text>");
}

/* Return the place that is tried after n others; LK_CHART_ON stays there. */
static enum lk_chart_place other_place(const struct lk_chart_layer *l, size_t n)
{
    static const enum lk_chart_place of_points[] = {LK_CHART_ABOVE, LK_CHART_BELOW, LK_CHART_RIGHT,
                                                    LK_CHART_LEFT};
    static const enum lk_chart_place of_boxes[] = {LK_CHART_RIGHT, LK_CHART_LEFT, LK_CHART_ON,
                                                   LK_CHART_ON};
    bool beside = l->place == LK_CHART_RIGHT || l->place == LK_CHART_LEFT;

    return l->kind == LK_CHART_BOXES && beside ? of_boxes[n] : of_points[n];
}

static enum lk_status put_mark(struct lk_writer *w, const struct svg_panel *p,
                               const struct lk_chart_layer *l, const struct lk_chart_mark *m,
                               struct svg_texts *s)
{
    double width = lk_xml_width(m->text, strlen(m->text), SVG_TEXT);
    enum lk_chart_place place = l->place;
    struct svg_box mark, b;

    if (!mark_box(p, l, m, &mark))
        return LK_OK;
    b = beside(&mark, width, l->place);
    /* A text on a box stays on it; others may move to another side of their mark. */
    if (l->place == LK_CHART_ON && l->kind == LK_CHART_BOXES &&
        (width > mark.w || SVG_TEXT > mark.h + 2))
        return LK_OK;
    for (size_t i = 0; !is_free(s, p, &b); i++) {
        if (l->place == LK_CHART_ON || i == 4)
            return LK_OK;
        place = other_place(l, i);
        b = beside(&mark, width, place);
    }
    s->boxes[s->n++] = b;
    return put_text(w, l, m, &b, place == LK_CHART_ON);
}

/* Note where the labels of the y axis are. */
static void take_labels(struct svg_texts *s, const struct svg_panel *p)
{
    const struct lk_chart_axis *a = &p->panel->y;

    for (size_t i = 0; i < a->n_ticks && i < SVG_TEXTS_MAX / 4; i++)
        if (a->ticks[i].label)
            s->boxes[s->n++] =
                (struct svg_box){p->plot.x - GAP - p->left, svg_y(p, a->ticks[i].at) - SVG_TEXT / 2,
                                 p->left, SVG_TEXT};
}

enum lk_status svg_texts(struct lk_writer *w, const struct svg_panel *p)
{
    struct svg_texts s = {.n = 0};

    take_labels(&s, p);
    LK_PASS(lk_writer_printf(w, "<g paint-order=\"stroke\" stroke-width=\"3\""));
    LK_PASS(svg_put_color(w, "stroke", LK_CHART_PAPER));
    LK_PASS(lk_writer_printf(w, " stroke-linejoin=\"round\">"));
    for (size_t i = 0; i < p->panel->n_layers; i++) {
        const struct lk_chart_layer *l = p->panel->layers[i];

        for (size_t k = 0; k < l->n_marks && s.n < SVG_TEXTS_MAX; k++)
            if (l->marks[k].text && *l->marks[k].text)
                LK_PASS(put_mark(w, p, l, &l->marks[k], &s));
    }
    return lk_writer_printf(w, "</g>");
}
