/* Chart time and cost to the target against GPUs; see target.h. */
#include "reports/plot/target.h"

#include "base/array.h"
#include "facts/forecast_answer.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Points ---- */

/* Return true if a point fits and differs from the first planned point that fits in GPUs alone. */
static bool is_planned(const struct lk_forecast *f, const struct lk_forecast_point *like,
                       const struct lk_forecast_point *p)
{
    return p->plan.known && !isnan(p->plan.time_to_target_h) &&
           strcmp(p->plan.memory_fit, "no") != 0 && lk_forecast_same_curve(f, like, p);
}

static const struct lk_forecast_point *first_planned(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (is_planned(f, &f->points[i], &f->points[i]))
            return &f->points[i];
    return NULL;
}

static int by_gpus(const void *a, const void *b)
{
    const struct lk_forecast_point *const *x = a, *const *y = b;

    return LK_ORDER((*x)->config.world_size, (*y)->config.world_size);
}

struct planned {
    const struct lk_forecast_point **v; /* by GPUs */
    size_t n, left;                     /* left: points that are not drawn */
};

static enum lk_status list_planned(const struct lk_forecast *f, struct planned *out)
{
    const struct lk_forecast_point *like = first_planned(f);

    LK_PASS(lk_alloc(&out->v, f->n_points, sizeof(struct lk_forecast_point *)));
    for (size_t i = 0; like && i < f->n_points; i++)
        if (is_planned(f, like, &f->points[i]))
            out->v[out->n++] = &f->points[i];
    out->left = f->n_points - out->n;
    if (out->n)
        qsort(out->v, out->n, sizeof(struct lk_forecast_point *), by_gpus);
    return LK_OK;
}

/* ---- Panels ---- */

enum panel { TIME, COST, THROUGHPUT, STATISTICAL, PANELS };

static const struct {
    const char *label;
    enum lk_chart_scale scale;
    enum lk_chart_color color;
} panels[PANELS] = {
    [TIME] = {"hours to the target", LK_CHART_LOG10, LK_CHART_ORANGE},
    [COST] = {"cost to the target", LK_CHART_LOG10, LK_CHART_RED},
    [THROUGHPUT] = {"throughput, samples/s", LK_CHART_LOG10, LK_CHART_BLUE},
    [STATISTICAL] = {"statistical efficiency, %", LK_CHART_LINEAR, LK_CHART_GREEN},
};

static struct lk_chart_mark mark_of(enum panel what, const struct lk_forecast_point *p)
{
    const struct lk_plan *q = &p->plan;
    double x = p->config.world_size, samples = p->throughput_per_s * p->step_s;

    switch (what) {
    case TIME:
        return (struct lk_chart_mark){.x = x,
                                      .y = q->time_to_target_h,
                                      .lo = q->time_to_target_lo_h,
                                      .hi = q->time_to_target_hi_h};
    case COST:
        return (struct lk_chart_mark){
            .x = x, .y = q->cost_to_target, .lo = q->cost_to_target_lo, .hi = q->cost_to_target_hi};
    case THROUGHPUT:
        return (struct lk_chart_mark){.x = x,
                                      .y = p->throughput_per_s,
                                      .lo = samples / p->step_hi_s,
                                      .hi = samples / p->step_lo_s};
    case STATISTICAL:
    case PANELS:
        break;
    }
    return (struct lk_chart_mark){.x = x, .y = q->statistical_efficiency, .lo = NAN, .hi = NAN};
}

/* Draw the line of one panel in its band, with a number at each point. */
static enum lk_status put_line(struct lk_chart_panel *p, const struct planned *v, enum panel what,
                               const char *interval)
{
    struct lk_chart_layer *band = NULL, *line, *points;

    if (what != STATISTICAL)
        LK_PASS(lk_chart_layer(p, LK_CHART_BAND, panels[what].color, interval, &band));
    LK_PASS(lk_chart_layer(p, LK_CHART_LINE, panels[what].color, NULL, &line));
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, panels[what].color, NULL, &points));
    for (size_t i = 0; i < v->n; i++) {
        struct lk_chart_mark mark = mark_of(what, v->v[i]);
        char text[32];

        if (band)
            LK_PASS(lk_chart_mark(band, mark));
        LK_PASS(lk_chart_mark(line, mark));
        lk_answer_number(what == STATISTICAL ? 100 * mark.y : mark.y, text, sizeof text);
        mark.text = text;
        mark.lo = mark.hi = 0;
        LK_PASS(lk_chart_mark(points, mark));
    }
    return LK_OK;
}

/*
 * Return the GPUs at which a step has as many samples as the gradient's noise scale: there the
 * statistical efficiency, 1 / (1 + B / B_noise), is a half (sim/planning/economics.h). NaN: not
 * known.
 */
static double critical_gpus(const struct planned *v)
{
    const struct lk_forecast_point *p = v->v[v->n - 1];
    double e = p->plan.statistical_efficiency;

    return e > 0 && e < 1 ? p->config.world_size * e / (1 - e) : NAN;
}

static bool has(const struct planned *v, enum panel what)
{
    for (size_t i = 0; i < v->n; i++)
        if (isfinite(mark_of(what, v->v[i]).y))
            return true;
    return false;
}

/* Mark the knee across a panel, where it is among the counts that are drawn. */
static enum lk_status put_knee(struct lk_chart_panel *p, const struct lk_forecast *f,
                               const struct planned *v, enum panel what)
{
    double least = INFINITY, most = -INFINITY;
    struct lk_chart_layer *l;

    if (f->knee_gpus < v->v[0]->config.world_size ||
        f->knee_gpus > v->v[v->n - 1]->config.world_size)
        return LK_OK;
    for (size_t i = 0; i < v->n; i++) {
        least = fmin(least, mark_of(what, v->v[i]).y);
        most = fmax(most, mark_of(what, v->v[i]).y);
    }
    LK_PASS(lk_chart_layer(p, LK_CHART_LINE, LK_CHART_INK, "knee of throughput", &l));
    l->style = LK_CHART_DOTTED;
    LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = f->knee_gpus, .y = least}));
    return lk_chart_mark(l, (struct lk_chart_mark){.x = f->knee_gpus, .y = most});
}

static enum lk_status put_panel(struct lk_chart *c, const struct lk_forecast *f,
                                const struct planned *v, enum panel what)
{
    double critical = critical_gpus(v), lo, hi;
    struct lk_chart_panel *p;
    struct lk_chart_layer *l;
    char interval[48];

    LK_PASS(lk_chart_panel(c, NULL, &p));
    LK_PASS(lk_chart_axis(&p->x, "GPUs", LK_CHART_LOG2, LK_DIM_COUNT));
    LK_PASS(lk_chart_axis(&p->y, panels[what].label, panels[what].scale, LK_DIM_COUNT));
    if (what == COST && lk_forecast_has_currency(f))
        LK_PASS(lk_text_add(&p->y.label, ", %s", f->currency));
    p->y.percent = what == STATISTICAL;
    if (p->y.percent) {
        p->y.from = 0;
        p->y.to = 1.1;
    }
    snprintf(interval, sizeof interval, "%.3g %% interval", 100 * f->level);
    LK_PASS(put_line(p, v, what, interval));
    LK_PASS(put_knee(p, f, v, what));
    lo = v->v[0]->config.world_size;
    hi = v->v[v->n - 1]->config.world_size;
    if (!(critical >= lo && critical <= hi) || what != STATISTICAL)
        return LK_OK;
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, LK_CHART_INK, "critical batch", &l));
    l->style = LK_CHART_DASHED;
    return lk_chart_mark(l, (struct lk_chart_mark){.x = critical, .y = 0.5});
}

enum lk_status lk_chart_target(struct lk_chart *out, const struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct planned v = {0};
    struct lk_chart c = {0};

    LK_TRY(list_planned(f, &v));
    if (!v.n)
        LK_TRY(lk_fail(LK_EEVIDENCE, "no point that fits into memory has a time to the target"));
    LK_TRY(lk_chart_init(&c, "plan", "Time and cost to the target"));
    for (enum panel what = 0; what < PANELS; what++)
        if (has(&v, what))
            LK_TRY(put_panel(&c, f, &v, what));
        else if (what == COST)
            LK_TRY(lk_chart_note(&c, "the cost is not known: the cluster has no price_per_hour"));
    if (has(&v, COST) && !lk_forecast_has_currency(f))
        LK_TRY(lk_chart_note(&c, "the cost is in the currency of the price of a GPU's hour"));
    if (isfinite(critical_gpus(&v)))
        LK_TRY(lk_chart_note(&c,
                             "critical batch: on %.0f GPUs a step has as many samples as the "
                             "gradient's noise scale, and a sample teaches half as much",
                             critical_gpus(&v)));
    if (v.left)
        LK_TRY(lk_chart_note(&c,
                             "%zu points are not drawn: other settings, no target, or too "
                             "little memory",
                             v.left));
    c.columns = 2;
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    free(v.v);
    return st;
}
