/* A curve of a scaling chart; see scaling_curve.h. */
#include "reports/plot/scaling_curve.h"

#include "base/array.h"
#include "facts/forecast_answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* More points than this are not compared with each other. */
enum { CURVE_POINTS_SEEN = 2000 };

/* ---- Curves ---- */

static double samples_per_step(const struct lk_forecast_point *p)
{
    return p->throughput_per_s * p->step_s;
}

/* Set what a point shows. The step of linear scaling is efficiency times the step. */
struct scaling_at scaling_value(enum lk_chart_scaling what, const struct lk_forecast_point *p)
{
    double samples = samples_per_step(p), ideal = p->efficiency * p->step_s;
    double over = what == LK_CHART_EFFICIENCY ? ideal : samples;

    return (struct scaling_at){
        .p = p,
        .y = what == LK_CHART_EFFICIENCY ? p->efficiency : p->throughput_per_s,
        .lo = what == LK_CHART_EFFICIENCY ? p->efficiency_lo : samples / p->step_hi_s,
        .hi = what == LK_CHART_EFFICIENCY ? p->efficiency_hi : samples / p->step_lo_s,
        .measured = over / p->measured_step_s,
        .least = over / p->measured_hi_s,
        .most = over / p->measured_lo_s,
        .ideal = over / ideal};
}

static int by_gpus(const void *a, const void *b)
{
    const struct lk_config *x = &((const struct scaling_at *)a)->p->config;
    const struct lk_config *y = &((const struct scaling_at *)b)->p->config;
    int order = LK_ORDER(x->world_size, y->world_size);

    return order ? order : LK_ORDER(x->nodes, y->nodes);
}

bool scaling_is_one_curve(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points && f->n_points <= CURVE_POINTS_SEEN; i++)
        for (size_t k = 0; k < i; k++)
            if (f->points[i].config.world_size == f->points[k].config.world_size)
                return false;
    return f->n_points <= CURVE_POINTS_SEEN;
}

enum lk_status scaling_curve_init(struct scaling_curve *out, enum lk_chart_scaling what,
                                  const struct lk_forecast *f, const struct lk_forecast_point *like)
{
    struct scaling_curve c = {.f = f};
    bool all = scaling_is_one_curve(f);
    size_t n = 0;

    LK_PASS(lk_alloc(&c.at, f->n_points, sizeof *c.at));
    for (size_t i = 0; i < f->n_points; i++)
        if (all || lk_forecast_same_curve(f, like, &f->points[i]))
            c.at[n++] = scaling_value(what, &f->points[i]);
    qsort(c.at, n, sizeof *c.at, by_gpus);
    for (size_t i = 0; i < n; i++)
        if (!c.n || c.at[i].p->config.world_size != c.at[c.n - 1].p->config.world_size)
            c.at[c.n++] = c.at[i];
    c.left = n - c.n;
    *out = c;
    return LK_OK;
}

static bool is_assumed(const struct scaling_at *a)
{
    return a->p->evidence == LK_EVIDENCE_PRESET || a->p->evidence == LK_EVIDENCE_NONE;
}

/* ---- What is drawn of a curve ---- */

const char *scaling_number(enum lk_chart_scaling what, double y, char *buf, size_t size)
{
    if (what == LK_CHART_EFFICIENCY)
        snprintf(buf, size, y < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * y);
    else if (y < 1e6)
        lk_answer_number(y, buf, size);
    else
        snprintf(buf, size, y < 999.5e6 ? "%.3g M" : "%.4g M", y / 1e6);
    return buf;
}

enum lk_chart_color scaling_color(const struct scaling_drawing *d)
{
    return lk_chart_curves[d->at % LK_CHART_CURVES];
}

/* Return true if a segment, from a point to the next, is of assumed numbers. */
static bool segment_assumed(const struct scaling_curve *c, size_t i)
{
    return is_assumed(&c->at[i]) || (i + 1 < c->n && is_assumed(&c->at[i + 1]));
}

/* Draw the segments that are assumed, or those that are not; every number stands on the points. */
static enum lk_status draw_line(struct scaling_drawing *d, const struct scaling_curve *c,
                                bool assumed, const char *label)
{
    struct lk_chart_layer *l;
    bool any = false;

    for (size_t i = 0; i + 1 < c->n; i++)
        any |= segment_assumed(c, i) == assumed;
    if (!any)
        return LK_OK;
    LK_PASS(lk_chart_layer(d->panel, LK_CHART_LINE, scaling_color(d), label, &l));
    l->style = assumed ? LK_CHART_DASHED : LK_CHART_SOLID;
    for (size_t i = 0; i + 1 < c->n; i++) {
        double x = c->at[i].p->config.world_size, next = c->at[i + 1].p->config.world_size;

        if (segment_assumed(c, i) != assumed)
            continue;
        LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = x, .y = c->at[i].y}));
        LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = next, .y = c->at[i + 1].y}));
        if (i + 2 < c->n && segment_assumed(c, i + 1) != assumed)
            LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = next, .y = NAN}));
    }
    return LK_OK;
}

/* Draw the points of the forecast, hollow where they are assumed, with their numbers. */
static enum lk_status draw_points(struct scaling_drawing *d, const struct scaling_curve *c,
                                  bool assumed, const char *label)
{
    struct lk_chart_layer *l = NULL;
    bool alone = c->n == 1; /* a band needs two points */
    char text[32];

    for (size_t i = 0; i < c->n; i++) {
        bool named = d->n_curves < 2 || i + 1 == c->n;

        if (is_assumed(&c->at[i]) != assumed || isnan(c->at[i].y))
            continue;
        if (!l) {
            LK_PASS(lk_chart_layer(d->panel, LK_CHART_POINTS, scaling_color(d), label, &l));
            l->style = assumed ? LK_CHART_DASHED : LK_CHART_SOLID;
        }
        scaling_number(d->what, c->at[i].y, text, sizeof text);
        LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = c->at[i].p->config.world_size,
                                                        .y = c->at[i].y,
                                                        .lo = alone ? c->at[i].lo : NAN,
                                                        .hi = alone ? c->at[i].hi : NAN,
                                                        .text = named ? text : NULL}));
    }
    if (alone && l && c->at[0].lo < c->at[0].hi && !d->band) {
        d->band = true;
        return lk_chart_note(d->chart, "bars: %.3g %% interval", 100 * c->f->level);
    }
    return LK_OK;
}

static enum lk_status draw_band(struct scaling_drawing *d, const struct scaling_curve *c)
{
    struct lk_chart_layer *l;
    char label[48];
    bool any = false;

    for (size_t i = 0; i < c->n; i++)
        any |= c->at[i].lo < c->at[i].hi;
    if (!any || c->n == 1)
        return LK_OK;
    snprintf(label, sizeof label, "%.3g %% interval", 100 * c->f->level);
    LK_PASS(lk_chart_layer(d->panel, LK_CHART_BAND, scaling_color(d), d->band ? NULL : label, &l));
    d->band = true;
    for (size_t i = 0; i < c->n; i++)
        LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = c->at[i].p->config.world_size,
                                                        .lo = c->at[i].lo,
                                                        .hi = c->at[i].hi}));
    return LK_OK;
}

/* Return whether a measured configuration is of a curve, all of whose points have one batch. */
static bool is_on_curve(const struct scaling_curve *c, const struct lk_config *m)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct lk_config *p = &c->at[i].p->config;

        if (p->local_batch != m->local_batch || p->accumulation != m->accumulation ||
            (m->cap_bytes && p->cap_bytes != m->cap_bytes) ||
            (p->world_size == m->world_size && !isnan(c->at[i].measured)))
            return false;
    }
    return c->n;
}

/* Mark a measured point. The first of a panel begins the layer, the first of all has the label. */
static enum lk_status mark_measured(struct scaling_drawing *d, struct lk_chart_layer **l,
                                    struct lk_chart_mark mark)
{
    enum lk_chart_color color = d->n_curves < 2 ? LK_CHART_INK : scaling_color(d);

    if (!*l)
        LK_PASS(
            lk_chart_layer(d->panel, LK_CHART_POINTS, color, d->measured ? NULL : "measured", l));
    d->measured = true;
    return lk_chart_mark(*l, mark);
}

/* Draw what was measured: at the curve's points, with the interval, and at other counts. */
static enum lk_status draw_measured(struct scaling_drawing *d, const struct scaling_curve *c)
{
    struct lk_chart_layer *l = NULL;

    for (size_t i = 0; i < c->n; i++)
        if (!isnan(c->at[i].measured))
            LK_PASS(mark_measured(d, &l,
                                  (struct lk_chart_mark){.x = c->at[i].p->config.world_size,
                                                         .y = c->at[i].measured,
                                                         .lo = c->at[i].least,
                                                         .hi = c->at[i].most}));
    for (size_t i = 0; i < c->f->n_measured; i++) {
        const struct lk_forecast_measured *m = &c->f->measured[i];
        const struct lk_forecast_point *p = c->n ? c->at[0].p : NULL;
        double gpus = m->config.world_size;

        if (!p || !is_on_curve(c, &m->config))
            continue;
        LK_PASS(mark_measured(
            d, &l,
            (struct lk_chart_mark){.x = gpus,
                                   .y = d->what == LK_CHART_EFFICIENCY
                                            ? p->efficiency * p->step_s / m->step_s
                                            : samples_per_step(p) / p->config.world_size * gpus /
                                                  m->step_s}));
    }
    return LK_OK;
}

/* Return whether a forecast's knee is that of a curve: it is sought from the first point on. */
static bool has_knee(const struct scaling_curve *c)
{
    return c->f->knee_gpus && c->n &&
           (scaling_is_one_curve(c->f) ||
            lk_forecast_same_curve(c->f, &c->f->points[0], c->at[0].p));
}

/* Mark the knee of a curve across the panel; one beyond the curve's counts is noted. */
static enum lk_status draw_knee(struct scaling_drawing *d, const struct scaling_curve *c)
{
    int knee = c->f->knee_gpus;
    bool efficiency = d->what == LK_CHART_EFFICIENCY;
    double least = INFINITY, most = efficiency ? 1 : 0;
    struct lk_chart_layer *l;
    char text[48];

    if (!has_knee(c))
        return LK_OK;
    if (knee < c->at[0].p->config.world_size || knee > c->at[c->n - 1].p->config.world_size)
        return lk_chart_note(d->chart,
                             "%s: the knee, %d GPU%s, is not among the counts that are drawn",
                             c->f->cluster, knee, knee == 1 ? "" : "s");
    for (size_t i = 0; i < c->n; i++) {
        least = fmin(least, c->at[i].y);
        most = fmax(most, efficiency ? c->at[i].y : c->at[i].ideal);
    }
    snprintf(text, sizeof text, "knee: %d GPU%s", knee, knee == 1 ? "" : "s");
    LK_PASS(lk_chart_layer(d->panel, LK_CHART_LINE, scaling_color(d), NULL, &l));
    l->style = LK_CHART_DOTTED;
    l->place = LK_CHART_RIGHT;
    LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = knee, .y = most}));
    d->knee = true;
    return lk_chart_mark(
        l, (struct lk_chart_mark){.x = knee, .y = efficiency ? 0 : least, .text = text});
}

enum lk_status scaling_draw(struct scaling_drawing *d, const struct scaling_curve *c,
                            const char *label)
{
    size_t unknown = 0, assumed = 0;
    bool dashed;

    for (size_t i = 0; i < c->n; i++) {
        unknown += isnan(c->at[i].y) != 0;
        assumed += is_assumed(&c->at[i]);
    }
    dashed = 2 * assumed > c->n; /* what most of it is stands in the key */
    LK_PASS(draw_band(d, c));
    LK_PASS(draw_knee(d, c));
    LK_PASS(draw_line(d, c, false, dashed ? NULL : label));
    LK_PASS(draw_line(d, c, true, dashed ? label : NULL));
    LK_PASS(draw_points(d, c, false, c->n < 2 && !dashed ? label : NULL));
    LK_PASS(draw_points(d, c, true, c->n < 2 && dashed ? label : NULL));
    LK_PASS(draw_measured(d, c));
    d->assumed |= assumed > 0;
    if (unknown)
        LK_PASS(lk_chart_note(d->chart, "%s: %zu of %zu points have no number and are not drawn",
                              label, unknown, c->n));
    if (c->left)
        LK_PASS(lk_chart_note(d->chart,
                              "%s: %zu points have as many GPUs as others, on more nodes, and are "
                              "not drawn",
                              label, c->left));
    return LK_OK;
}
