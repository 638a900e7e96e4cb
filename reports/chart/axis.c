/* Axes of charts: which range the marks need, and where the ticks are; see chart.h. */
#include "reports/chart/chart.h"

#include "base/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The most ticks with a label; more would run into each other. */
enum { TICKS_MOST = 9 };
/* Room beside the outermost marks, of the range. */
#define MARGIN 0.04

static bool is_log(const struct lk_chart_axis *a)
{
    return a->scale == LK_CHART_LOG2 || a->scale == LK_CHART_LOG10;
}

/* ---- Ranges ---- */

struct range {
    double from, to;
    bool solid;  /* a box or a band is in it: its length is read, so that it begins at 0 */
    size_t left; /* marks that a logarithmic axis cannot show */
};

static void widen(struct range *r, const struct lk_chart_axis *a, double v)
{
    if (!isfinite(v))
        return;
    if (is_log(a) && v <= 0) {
        r->left++;
        return;
    }
    r->from = v < r->from ? v : r->from;
    r->to = v > r->to ? v : r->to;
}

static void widen_by_layer(struct range *x, struct range *y, const struct lk_chart_panel *p,
                           const struct lk_chart_layer *l)
{
    bool boxes = l->kind == LK_CHART_BOXES, band = l->kind == LK_CHART_BAND;

    for (const struct lk_chart_mark *m = l->marks; m < l->marks + l->n_marks; m++) {
        widen(x, &p->x, m->x);
        if (boxes)
            widen(x, &p->x, m->x2);
        if (!boxes && !band)
            widen(y, &p->y, m->y);
        if (boxes || band || lk_chart_has_bar(l, m)) {
            /* An error bar that reaches to 0 is cut on a logarithmic axis; its point is not. */
            bool cut = l->kind == LK_CHART_POINTS && is_log(&p->y);

            widen(y, &p->y, cut && m->lo <= 0 ? NAN : m->lo);
            widen(y, &p->y, m->hi);
        }
    }
    x->solid |= boxes;
    y->solid |= boxes || band;
}

static void set_range(struct lk_chart_axis *a, const struct range *r)
{
    double from = r->from, to = r->to, room;
    bool open_from = isnan(a->from), open_to = isnan(a->to);

    if (a->scale == LK_CHART_NAMES) {
        from = -0.5;
        to = (double)a->n_ticks - 0.5;
    } else if (is_log(a)) {
        room = to > from ? pow(to / from, MARGIN) : 1.3;
        from /= room;
        to *= room;
    } else {
        if (r->solid && from > 0)
            from = 0;
        room = to > from ? MARGIN * (to - from) : to != 0 ? 0.1 * fabs(to) : 1;
        to += room;
        from -= r->solid && from >= 0 ? 0 : room;
    }
    a->from = open_from ? from : a->from;
    a->to = open_to ? to : a->to;
}

/* ---- Ticks ---- */

/* Write a count: "512", "262144", "100k", "2M". */
static void write_count(double v, char *out, size_t size)
{
    static const struct {
        double factor;
        const char *name;
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};

    for (size_t i = 0; i < LK_COUNT(units) && fabs(v) >= 1e5; i++)
        if (fmod(v, units[i].factor) == 0) {
            snprintf(out, size, "%.6g%s", v / units[i].factor, units[i].name);
            return;
        }
    snprintf(out, size, fabs(v) < 1e5 ? "%.6g" : "%.0f", v);
}

/* Return true if the ticks' labels have a unit. */
static bool has_unit(const struct lk_chart_axis *a)
{
    return !a->percent && a->dim != LK_DIM_NONE && a->dim != LK_DIM_COUNT;
}

/* Append a tick, in the unit in which people read values as large as `like`. */
static enum lk_status add_value(struct lk_chart_axis *a, double v, double like)
{
    char text[400]; /* a number of %.0f has up to 309 digits */

    if (a->percent)
        snprintf(text, sizeof text, "%.4g", 100 * v);
    else if (a->dim == LK_DIM_NONE)
        snprintf(text, sizeof text, "%.6g", v);
    else if (a->dim == LK_DIM_COUNT)
        write_count(v, text, sizeof text);
    else
        lk_units_round(a->dim, v, like, text, sizeof text);
    return lk_chart_tick(a, v, text);
}

/* Return the step of ticks: 1, 2 or 5 times a power of ten. */
static double linear_step(double length)
{
    double raw = length / 6, power = pow(10, floor(log10(raw))), digit = raw / power;

    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static enum lk_status add_linear(struct lk_chart_axis *a)
{
    /* There is no half GPU: counts on an axis of powers of two are whole. */
    bool whole = a->scale == LK_CHART_LOG2 && a->dim == LK_DIM_COUNT;
    double like = fmax(fabs(a->from), fabs(a->to));
    double factor = has_unit(a) ? lk_units_shown(a->dim, like) : 1;
    double step = fmax(factor * linear_step((a->to - a->from) / factor), whole ? 1 : 0);
    double first = ceil(a->from / step - 1e-9), last = floor(a->to / step + 1e-9);

    for (double k = first; k <= last; k++)
        LK_PASS(add_value(a, k == 0 ? 0 : k * step, like));
    return LK_OK;
}

static enum lk_status add_log(struct lk_chart_axis *a, double base)
{
    double first = ceil(log(a->from) / log(base) - 1e-9);
    double last = floor(log(a->to) / log(base) + 1e-9), every = 1;

    while ((last - first) / every >= TICKS_MOST)
        every++;
    if (last <= first) /* within one power: as a linear axis has them */
        return add_linear(a);
    for (double k = first; k <= last; k += every)
        LK_PASS(add_value(a, pow(base, k), pow(base, k)));
    return LK_OK;
}

static enum lk_status finish_axis(struct lk_chart_axis *a, const struct range *r)
{
    set_range(a, r);
    if (a->n_ticks)
        return LK_OK;
    if (a->scale == LK_CHART_LOG2 && r->from == r->to) /* all at one count: others tell nothing */
        return add_value(a, r->from, r->from);
    if (is_log(a))
        return add_log(a, a->scale == LK_CHART_LOG2 ? 2 : 10);
    return add_linear(a);
}

static enum lk_status finish_panel(struct lk_chart *c, struct lk_chart_panel *p)
{
    struct range x = {INFINITY, -INFINITY, false, 0}, y = x;

    for (size_t i = 0; i < p->n_layers; i++)
        widen_by_layer(&x, &y, p, p->layers[i]);
    if (x.from > x.to || y.from > y.to)
        return lk_fail(LK_EEVIDENCE, "%s: %s has nothing to draw", c->title,
                       p->title ? p->title : c->name);
    LK_PASS(finish_axis(&p->x, &x));
    LK_PASS(finish_axis(&p->y, &y));
    if (x.left + y.left)
        LK_PASS(lk_chart_note(c, "%zu values that are not positive are not on the logarithmic axis",
                              x.left + y.left));
    return LK_OK;
}

enum lk_status lk_chart_finish(struct lk_chart *c)
{
    if (!c->n_panels)
        return lk_fail(LK_EEVIDENCE, "%s: there is nothing to draw", c->title);
    for (size_t i = 0; i < c->n_panels; i++)
        LK_PASS(finish_panel(c, c->panels[i]));
    return LK_OK;
}

double lk_chart_at(const struct lk_chart_axis *axis, double value)
{
    if (is_log(axis))
        return value > 0 ? log(value / axis->from) / log(axis->to / axis->from) : NAN;
    return (value - axis->from) / (axis->to - axis->from);
}
