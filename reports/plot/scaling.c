/* Chart efficiency and throughput against GPUs; see scaling.h. Candidates first, then panels. */
#include "reports/plot/scaling.h"

#include "base/array.h"
#include "base/units.h"
#include "reports/plot/scaling_curve.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Panels ---- */

/* The most panels and curves of a panel: more would not be told apart. */
enum { PANELS_MAX = 6, CURVES_MAX = LK_CHART_CURVES };

/* A curve, or a measured one, before it is drawn. */
struct candidate {
    const struct lk_forecast *f;
    const struct lk_forecast_point *like;
    const char *measured; /* the name of a measured curve; else NULL */
    int local_batch, accumulation;
    bool wanted; /* the first of its forecast, the best at some count, or measured */
};

struct request {
    enum lk_chart_scaling what;
    const struct lk_plot_measured *measured;
    size_t m;
    size_t n_forecasts;
    struct candidate *all;
    size_t n, capacity;
    bool assumed, knee; /* something assumed is drawn; a knee is */
};

static enum lk_status add_candidate(struct request *r, struct candidate c)
{
    LK_PASS(lk_array_grow(&r->all, &r->capacity, r->n + 1, sizeof *r->all));
    r->all[r->n++] = c;
    return LK_OK;
}

static enum lk_status list_forecast(struct request *r, const struct lk_forecast *f)
{
    size_t first = r->n;

    for (size_t i = 0; i < (scaling_is_one_curve(f) ? 1 : f->n_points); i++) {
        const struct lk_forecast_point *p = &f->points[i];
        size_t k = first;

        while (k < r->n && !lk_forecast_same_curve(f, r->all[k].like, p))
            k++;
        if (k == r->n)
            LK_PASS(add_candidate(r, (struct candidate){f, p, NULL, p->config.local_batch,
                                                        p->config.accumulation, k == first}));
        r->all[k].wanted |= p->gain.known && p->gain.verdict == LK_VERDICT_BEST;
    }
    return LK_OK;
}

static enum lk_status list_measured(struct request *r)
{
    for (size_t i = 0; i < r->m; i++) {
        const struct lk_config *c = &r->measured[i].config;
        size_t k = 0;

        while (k < r->n &&
               !(r->all[k].measured && !strcmp(r->all[k].measured, r->measured[i].name) &&
                 r->all[k].local_batch == c->local_batch &&
                 r->all[k].accumulation == c->accumulation))
            k++;
        if (k == r->n)
            LK_PASS(add_candidate(r, (struct candidate){NULL, NULL, r->measured[i].name,
                                                        c->local_batch, c->accumulation, true}));
    }
    return LK_OK;
}

static bool same_panel(const struct candidate *a, const struct candidate *b)
{
    return a->local_batch == b->local_batch && a->accumulation == b->accumulation;
}

/* Draw a measured curve: points with bars from the least run to the most, joined. */
static enum lk_status draw_runs(struct scaling_drawing *d, const struct request *r,
                                const struct candidate *c)
{
    struct lk_chart_layer *line, *points;
    char text[32];

    LK_PASS(lk_chart_layer(d->panel, LK_CHART_LINE, scaling_color(d), NULL, &line));
    LK_PASS(lk_chart_layer(d->panel, LK_CHART_POINTS, scaling_color(d), NULL, &points));
    LK_PASS(lk_asprintf(&points->label, "measured: %s", c->measured));
    for (size_t i = 0; i < r->m; i++) {
        const struct lk_plot_measured *m = &r->measured[i];
        double samples = lk_config_samples(&m->config);
        bool rate = d->what == LK_CHART_THROUGHPUT;
        struct lk_chart_mark mark = {.x = m->config.world_size,
                                     .y = rate ? samples / m->step_s : m->efficiency,
                                     .lo = rate ? samples / m->step_hi_s : m->efficiency_lo,
                                     .hi = rate ? samples / m->step_lo_s : m->efficiency_hi};

        if (strcmp(m->name, c->measured) != 0 || m->config.local_batch != c->local_batch ||
            m->config.accumulation != c->accumulation || isnan(mark.y))
            continue;
        LK_PASS(lk_chart_mark(line, mark));
        scaling_number(d->what, mark.y, text, sizeof text);
        mark.text = text;
        LK_PASS(lk_chart_mark(points, mark));
    }
    return LK_OK;
}

/* Return true if other curves of the same forecast and panel have another word on an axis. */
static bool axis_differs(const struct request *r, const struct candidate *c, size_t axis)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->all[i].f == c->f && same_panel(&r->all[i], c) &&
            strcmp(r->all[i].like->words[axis], c->like->words[axis]) != 0)
            return true;
    return false;
}

static bool cap_differs(const struct request *r, const struct candidate *c)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->all[i].f == c->f && same_panel(&r->all[i], c) &&
            r->all[i].like->config.cap_bytes != c->like->config.cap_bytes)
            return true;
    return false;
}

/* Return a curve's label: the cluster, or what sets it apart from others of its forecast, and the
 * cluster where there are several forecasts. */
static enum lk_status label_of(const struct request *r, const struct candidate *c, char **out)
{
    char cap[40];
    char *text = NULL;

    if (cap_differs(r, c))
        LK_PASS(lk_text_add(&text, "bucket cap %s",
                            lk_units_round(LK_DIM_BYTES, (double)c->like->config.cap_bytes,
                                           (double)c->like->config.cap_bytes, cap, sizeof cap)));
    for (size_t i = 0; i < c->f->n_axes; i++)
        if (axis_differs(r, c, i))
            LK_PASS(lk_text_add(&text, "%s%s %s", text ? ", " : "", c->f->axes[i],
                                *c->like->words[i] ? c->like->words[i] : "as it is"));
    if (text && r->n_forecasts > 1)
        LK_PASS(lk_text_add(&text, ", %s", c->f->cluster));
    if (!text)
        return lk_strdup(out, c->f->cluster);
    *out = text;
    return LK_OK;
}

static enum lk_status draw_forecast(struct scaling_drawing *d, const struct request *r,
                                    const struct candidate *c)
{
    enum lk_status st = LK_OK;
    struct scaling_curve curve = {0};
    char *label = NULL;

    LK_TRY(label_of(r, c, &label));
    LK_TRY(scaling_curve_init(&curve, r->what, c->f, c->like));
    LK_TRY(scaling_draw(d, &curve, label));
out:
    free(curve.at);
    free(label);
    return st;
}

/* Describe the axes of a panel. */
static enum lk_status put_axes(const struct request *r, struct lk_chart_panel *p)
{
    bool efficiency = r->what == LK_CHART_EFFICIENCY;

    LK_PASS(lk_chart_axis(&p->x, "GPUs", LK_CHART_LOG2, LK_DIM_COUNT));
    if (efficiency) {
        LK_PASS(lk_chart_axis(&p->y, "scaling efficiency, %", LK_CHART_LINEAR, LK_DIM_NONE));
        p->y.percent = true;
        p->y.from = 0;
        return LK_OK;
    }
    return lk_chart_axis(&p->y, "throughput, samples/s", LK_CHART_LOG10, LK_DIM_COUNT);
}

/* Draw linear scaling through the range of a panel, at `rate` a GPU. */
static enum lk_status put_ideal(const struct request *r, double from, double to, double rate,
                                struct lk_chart_layer *l)
{
    bool efficiency = r->what == LK_CHART_EFFICIENCY;

    if (isnan(rate))
        return LK_OK;
    l->style = LK_CHART_DOTTED;
    LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = from, .y = efficiency ? 1 : from * rate}));
    return lk_chart_mark(l, (struct lk_chart_mark){.x = to, .y = efficiency ? 1 : to * rate});
}

/* The counts of GPUs of a panel, and what linear scaling gives a GPU. */
struct span {
    double from, to, rate;
};

static void widen(struct span *s, const struct lk_config *c, double ideal)
{
    s->from = fmin(s->from, c->world_size);
    s->to = fmax(s->to, c->world_size);
    if (isnan(s->rate) && isfinite(ideal))
        s->rate = ideal / c->world_size;
}

static struct span span_of(const struct request *r, const struct candidate *like)
{
    struct span s = {INFINITY, 0, NAN};

    for (size_t i = 0; i < r->n; i++) {
        const struct lk_forecast *f = r->all[i].f;

        for (size_t k = 0; f && same_panel(&r->all[i], like) && k < f->n_points; k++)
            if (scaling_is_one_curve(f) || lk_forecast_same_curve(f, r->all[i].like, &f->points[k]))
                widen(&s, &f->points[k].config, scaling_value(r->what, &f->points[k]).ideal);
    }
    for (size_t i = 0; i < r->m; i++) {
        const struct lk_plot_measured *m = &r->measured[i];

        if (m->config.local_batch == like->local_batch &&
            m->config.accumulation == like->accumulation)
            widen(&s, &m->config,
                  r->what == LK_CHART_EFFICIENCY
                      ? 1
                      : lk_config_samples(&m->config) / (m->efficiency * m->step_s));
    }
    return s;
}

/* Name a panel by its batch; NULL: there is one panel alone. */
static enum lk_status name_panel(const struct candidate *c, char **out)
{
    return c->local_batch ? lk_asprintf(out, "local batch %d, accumulation %d", c->local_batch,
                                        c->accumulation)
                          : lk_asprintf(out, "accumulation %d", c->accumulation);
}

/* Draw the curves like one, and say how many are left out. */
static enum lk_status put_panel(struct lk_chart *chart, struct request *r,
                                const struct candidate *like, bool named)
{
    struct scaling_drawing d = {.chart = chart, .what = r->what};
    struct span span = span_of(r, like);
    struct lk_chart_layer *ideal;
    size_t all = 0, wanted = 0, left = 0;
    char *title = NULL;

    for (size_t i = 0; i < r->n; i++)
        if (same_panel(&r->all[i], like)) {
            all++;
            wanted += r->all[i].wanted;
        }
    LK_PASS(lk_chart_panel(chart, NULL, &d.panel));
    if (named) {
        LK_PASS(name_panel(like, &title));
        d.panel->title = title;
    }
    LK_PASS(put_axes(r, d.panel));
    LK_PASS(lk_chart_layer(d.panel, LK_CHART_LINE, LK_CHART_GRAY, "ideal: linear scaling", &ideal));
    LK_PASS(put_ideal(r, span.from, span.to, span.rate, ideal));
    d.n_curves = all <= CURVES_MAX ? all : wanted;
    for (size_t i = 0; i < r->n; i++) {
        const struct candidate *c = &r->all[i];

        if (!same_panel(c, like))
            continue;
        if (all > CURVES_MAX && !c->wanted) {
            left++;
            continue;
        }
        LK_PASS(c->f ? draw_forecast(&d, r, c) : draw_runs(&d, r, c));
        d.at++;
    }
    r->assumed |= d.assumed;
    r->knee |= d.knee;
    if (left)
        LK_PASS(lk_chart_note(chart,
                              "%zu further settings%s%s are not drawn here: the first and "
                              "the best are",
                              left, named ? " of " : "", named ? title : ""));
    return LK_OK;
}

/* Return true if the panel of candidate i is begun by it. */
static bool begins(const struct request *r, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (same_panel(&r->all[k], &r->all[i]))
            return false;
    return true;
}

static bool panel_wanted(const struct request *r, const struct candidate *like)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->all[i].wanted && same_panel(&r->all[i], like))
            return true;
    return false;
}

static enum lk_status put_panels(struct lk_chart *chart, struct request *r)
{
    size_t panels = 0, drawn = 0;

    for (size_t i = 0; i < r->n; i++)
        panels += begins(r, i);
    for (size_t i = 0; i < r->n; i++)
        if (begins(r, i) && drawn < PANELS_MAX &&
            (panels <= PANELS_MAX || panel_wanted(r, &r->all[i]))) {
            LK_PASS(put_panel(chart, r, &r->all[i], panels > 1));
            drawn++;
        }
    chart->columns = drawn < 4 ? drawn : drawn == 4 ? 2 : 3;
    if (drawn < panels)
        LK_PASS(lk_chart_note(chart,
                              "%zu further batches are not drawn here: the first and the "
                              "best are",
                              panels - drawn));
    lk_chart_share_key(chart);
    if (r->knee)
        LK_PASS(lk_chart_note(chart, "knee: a further node adds less than half of what the first "
                                     "delivers"));
    if (r->assumed)
        LK_PASS(lk_chart_note(chart, "dashed and hollow: of a preset, nothing of it was measured"));
    return LK_OK;
}

/* Fail if there is no number to plot, as of a model that measurements contradict. */
static enum lk_status check_numbers(const struct request *r, const struct lk_forecast *f, size_t n)
{
    for (size_t i = 0; i < r->m; i++)
        if (isfinite(r->what == LK_CHART_EFFICIENCY ? r->measured[i].efficiency
                                                    : r->measured[i].step_s))
            return LK_OK;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < f[i].n_points; k++)
            if (isfinite(scaling_value(r->what, &f[i].points[k]).y) ||
                isfinite(scaling_value(r->what, &f[i].points[k]).measured))
                return LK_OK;
    for (size_t i = 0; i < n; i++)
        if (f[i].n_points)
            return lk_fail(LK_EEVIDENCE, "the forecast on %s has no number to plot: %s",
                           f[i].cluster,
                           f[i].n_contradictions && f[i].n_answer ? f[i].answer[0]
                                                                  : "its efficiency is not known");
    return n ? lk_fail(LK_EEVIDENCE, "the forecast on %s has no points", f[0].cluster)
             : lk_fail(LK_EEVIDENCE, "no run has an efficiency");
}

static enum lk_status begin(struct lk_chart *c, enum lk_chart_scaling what,
                            const struct lk_forecast *f, size_t n)
{
    bool efficiency = what == LK_CHART_EFFICIENCY;

    LK_PASS(lk_chart_init(c, efficiency ? "efficiency" : "throughput",
                          efficiency ? "Scaling efficiency" : "Throughput"));
    if (n && !efficiency && f[0].sample_unit && strcmp(f[0].sample_unit, "sample") != 0)
        LK_PASS(lk_chart_note(c, "a sample is a %s", f[0].sample_unit));
    for (size_t i = 0; i < n; i++)
        if (f[i].n_answer)
            return lk_chart_say(c, "%s", f[i].answer[0]);
    return LK_OK;
}

enum lk_status lk_chart_scaling(struct lk_chart *out, enum lk_chart_scaling what,
                                const struct lk_forecast *f, size_t n,
                                const struct lk_plot_measured *measured, size_t m)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct request r = {.what = what, .measured = measured, .m = m, .n_forecasts = n};

    LK_TRY(check_numbers(&r, f, n));
    LK_TRY(begin(&c, what, f, n));
    LK_TRY(list_measured(&r));
    for (size_t i = 0; i < n; i++)
        LK_TRY(list_forecast(&r, &f[i]));
    LK_TRY(put_panels(&c, &r));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    free(r.all);
    lk_chart_fini(&c);
    return st;
}
