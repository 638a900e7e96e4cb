/* Chart where the time of a step goes; see losses.h. */
#include "reports/plot/losses.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* A loss below this share of the step is not drawn, but noted. */
#define SHOWN_SHARE 0.001
/* A part of at least this share has its number in it. */
#define NAMED_SHARE 0.06
/* Half the width of a bar, of the room for it. */
#define HALF_BAR 0.36

static const enum lk_chart_color colors[LK_LOSS_COUNT] = {
    [LK_LOSS_IDEAL] = LK_CHART_BLUE,       [LK_LOSS_INPUT] = LK_CHART_PINK,
    [LK_LOSS_SLOW_RANK] = LK_CHART_BROWN,  [LK_LOSS_COLOCATION] = LK_CHART_YELLOW,
    [LK_LOSS_OVERLAP] = LK_CHART_SKY,      [LK_LOSS_LAUNCH] = LK_CHART_INK,
    [LK_LOSS_STRAGGLER] = LK_CHART_ORANGE, [LK_LOSS_WIRE] = LK_CHART_RED,
    [LK_LOSS_OPTIMIZER] = LK_CHART_GREEN,  [LK_LOSS_BATCH] = LK_CHART_GRID,
    [LK_LOSS_REST] = LK_CHART_GRAY,
};

/* ---- Waterfall ---- */

/* The rows that are drawn, from above. */
struct bars {
    struct lk_chart *chart;
    struct lk_chart_panel *panel;
    double step_s, at_s;
    int runs;
};

static enum lk_status add_bar(struct bars *b, const char *name, enum lk_chart_color color,
                              double from_s, double to_s, const char *text)
{
    struct lk_chart_layer *l;
    double row = (double)b->panel->y.n_ticks;

    LK_PASS(lk_chart_tick(&b->panel->y, row, name));
    LK_PASS(lk_chart_layer(b->panel, LK_CHART_BOXES, color, NULL, &l));
    l->place = LK_CHART_RIGHT;
    return lk_chart_mark(l, (struct lk_chart_mark){.x = fmin(from_s, to_s),
                                                   .x2 = fmax(from_s, to_s),
                                                   .lo = row - HALF_BAR,
                                                   .hi = row + HALF_BAR,
                                                   .text = (char *)text});
}

/* Write "+1.20 ms, 9.3 % (1.1 to 1.3 ms)"; the range of runs where there are several. */
static void bar_text(const struct bars *b, double mean_s, double lo_s, double hi_s, bool sign,
                     char *out, size_t size)
{
    char value[32], range[72] = "", interval[64];

    if (b->runs > 1 && lo_s < hi_s)
        snprintf(range, sizeof range, " (%s)",
                 lk_units_interval(LK_DIM_TIME, mean_s, lo_s, hi_s, interval, sizeof interval));
    snprintf(out, size, "%s%s, %.1f %%%s", sign && mean_s > 0 ? "+" : "",
             lk_units_format(LK_DIM_TIME, mean_s, value, sizeof value), 100 * mean_s / b->step_s,
             range);
}

static enum lk_status add_loss(struct bars *b, const struct lk_plot_losses *v, enum lk_loss loss)
{
    double s = v->mean_s[loss];
    bool ideal = loss == LK_LOSS_IDEAL;
    char text[160];

    if (isnan(s) || (!ideal && fabs(s) < SHOWN_SHARE * b->step_s))
        return LK_OK;
    bar_text(b, s, v->lo_s[loss], v->hi_s[loss], !ideal, text, sizeof text);
    LK_PASS(add_bar(b, lk_loss_name(loss),
                    ideal   ? LK_CHART_GREEN
                    : s < 0 ? LK_CHART_SKY
                            : LK_CHART_RED,
                    b->at_s, b->at_s + s, text));
    b->at_s += s;
    return LK_OK;
}

/* Draw all rows; fill the notes. */
static enum lk_status add_bars(struct bars *b, const struct lk_plot_losses *v)
{
    size_t small = 0;
    char text[160];

    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        b->step_s += isnan(v->mean_s[i]) ? 0 : v->mean_s[i];
        if (isnan(v->mean_s[i]))
            LK_PASS(lk_chart_note(b->chart, "not known: %s", lk_loss_name((enum lk_loss)i)));
    }
    b->step_s += v->own_s;
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        LK_PASS(add_loss(b, v, (enum lk_loss)i));
        small += i != LK_LOSS_IDEAL && fabs(v->mean_s[i]) < SHOWN_SHARE * b->step_s;
        if (i == LK_LOSS_IDEAL && v->own_s > 0) {
            bar_text(b, v->own_s, v->own_s, v->own_s, true, text, sizeof text);
            LK_PASS(add_bar(b, "the reference's own losses", LK_CHART_GRAY, b->at_s,
                            b->at_s + v->own_s, text));
            b->at_s += v->own_s;
        }
    }
    bar_text(b, b->step_s, NAN, NAN, false, text, sizeof text);
    LK_PASS(add_bar(b, "step", LK_CHART_BLUE, 0, b->step_s, text));
    if (small)
        LK_PASS(
            lk_chart_note(b->chart, "%zu losses below 0.1 %% of the step are not drawn", small));
    return LK_OK;
}

enum lk_status lk_chart_waterfall(struct lk_chart *out, const struct lk_plot_losses *losses)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct bars b = {.chart = &c, .runs = losses->runs};

    if (!(losses->mean_s[LK_LOSS_IDEAL] > 0))
        return lk_fail(LK_EEVIDENCE, "the losses of %s are not known", losses->title);
    LK_TRY(lk_chart_init(&c, "waterfall", "Where the time of a step goes"));
    LK_TRY(lk_chart_panel(&c, losses->title, &b.panel));
    b.panel->key = false;
    LK_TRY(lk_chart_axis(&b.panel->x, "time of a step", LK_CHART_LINEAR, LK_DIM_TIME));
    LK_TRY(lk_chart_axis(&b.panel->y, "", LK_CHART_NAMES, LK_DIM_NONE));
    LK_TRY(add_bars(&b, losses));
    b.panel->x.to = 1.45 * fmax(b.step_s, b.at_s); /* room for the numbers */
    if (losses->reference)
        LK_TRY(lk_chart_note(&c, "ideal: %s", losses->reference));
    if (losses->runs > 1)
        LK_TRY(lk_chart_note(&c, "mean of %d runs, in brackets the least and the most of them",
                             losses->runs));
    LK_TRY(lk_chart_say(&c, "%s: of a step %.0f %% is the ideal", losses->title,
                        100 * losses->mean_s[LK_LOSS_IDEAL] / b.step_s));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}

/* ---- Losses by GPUs ---- */

/* The most bars of a panel and the most panels. */
enum { BARS_MAX = 24, PANELS_MAX = 4 };

static int by_gpus(const void *a, const void *b)
{
    const struct lk_config *x = &(*(const struct lk_forecast_point *const *)a)->config;
    const struct lk_config *y = &(*(const struct lk_forecast_point *const *)b)->config;
    int order = LK_ORDER(x->world_size, y->world_size);

    return order ? order : LK_ORDER(x->nodes, y->nodes);
}

static bool has_losses(const struct lk_forecast_point *p)
{
    return lk_losses_known(p->losses_s) && p->step_s > 0;
}

/* Return the first point that has losses; NULL: none has. */
static const struct lk_forecast_point *first_known(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (has_losses(&f->points[i]))
            return &f->points[i];
    return NULL;
}

/* Return true if points have different counts of GPUs: all are then one curve, whatever the batch.
 */
static bool all_differ(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points && f->n_points <= 1000; i++)
        for (size_t k = 0; k < i; k++)
            if (f->points[i].config.world_size == f->points[k].config.world_size)
                return false;
    return f->n_points <= 1000;
}

/* List the points of the first setting by GPUs; of many every few. */
static enum lk_status list_bars(struct lk_chart *c, const struct lk_forecast *f,
                                const struct lk_forecast_point ***out, size_t *out_n)
{
    const struct lk_forecast_point **v, *like = first_known(f);
    bool all = all_differ(f);
    size_t n = 0, kept = 0, others = 0, unknown = 0, every;

    LK_PASS(lk_alloc(&v, f->n_points, sizeof(struct lk_forecast_point *)));
    *out = v;
    for (size_t i = 0; i < f->n_points; i++)
        if (!has_losses(&f->points[i]))
            unknown++;
        else if (all || lk_forecast_same_curve(f, like, &f->points[i]))
            v[n++] = &f->points[i];
        else
            others++;
    qsort(v, n, sizeof(struct lk_forecast_point *), by_gpus);
    every = (n + BARS_MAX - 1) / BARS_MAX;
    for (size_t i = 0; i < n; i++)
        if ((n - 1 - i) % every == 0)
            v[kept++] = v[i];
    *out_n = kept;
    if (unknown)
        LK_PASS(
            lk_chart_note(c, "%s: the losses of %zu points are not known", f->cluster, unknown));
    if (others)
        LK_PASS(lk_chart_note(c,
                              "%s: the losses of the first setting are drawn, not those of %zu "
                              "points with others",
                              f->cluster, others));
    if (kept < n)
        LK_PASS(lk_chart_note(c, "%s: of %zu counts of GPUs %zu are drawn", f->cluster, n, kept));
    return LK_OK;
}

/* Stack one loss on the bars: what is lost upwards, what is gained below zero. */
static enum lk_status stack(struct lk_chart_panel *p, enum lk_loss loss,
                            const struct lk_forecast_point *const *v, size_t n, double *up,
                            double *down)
{
    struct lk_chart_layer *l = NULL;

    for (size_t i = 0; i < n; i++) {
        double share = v[i]->losses_s[loss] / v[i]->step_s;
        double *end = share < 0 ? &down[i] : &up[i];
        char text[32];

        if (isnan(share) || fabs(share) < SHOWN_SHARE)
            continue;
        if (!l)
            LK_PASS(lk_chart_layer(p, LK_CHART_BOXES, colors[loss], lk_loss_name(loss), &l));
        l->place = LK_CHART_ON;
        snprintf(text, sizeof text, "%.0f", 100 * share);
        LK_PASS(
            lk_chart_mark(l, (struct lk_chart_mark){.x = (double)i - HALF_BAR,
                                                    .x2 = (double)i + HALF_BAR,
                                                    .lo = fmin(*end, *end + share),
                                                    .hi = fmax(*end, *end + share),
                                                    .text = share >= NAMED_SHARE ? text : NULL}));
        *end += share;
    }
    return LK_OK;
}

static enum lk_status put_losses(struct lk_chart *c, const struct lk_forecast *f, bool named)
{
    enum lk_status st = LK_OK;
    const struct lk_forecast_point **v = NULL;
    struct lk_chart_panel *p;
    double *ends = NULL;
    size_t n;

    LK_TRY(list_bars(c, f, &v, &n));
    LK_TRY(lk_alloc(&ends, 2 * n, sizeof *ends));
    LK_TRY(lk_chart_panel(c, named ? f->cluster : NULL, &p));
    LK_TRY(lk_chart_axis(&p->x, "GPUs", LK_CHART_NAMES, LK_DIM_COUNT));
    LK_TRY(lk_chart_axis(&p->y, "share of a step, %", LK_CHART_LINEAR, LK_DIM_NONE));
    p->y.percent = true;
    for (size_t i = 0; i < n; i++) {
        char gpus[32];

        snprintf(gpus, sizeof gpus, "%d", v[i]->config.world_size);
        LK_TRY(lk_chart_tick(&p->x, (double)i, gpus));
    }
    for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
        LK_TRY(stack(p, (enum lk_loss)loss, v, n, ends, ends + n));
out:
    free(ends);
    free(v);
    return st;
}

enum lk_status lk_chart_losses(struct lk_chart *out, const struct lk_forecast *f, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    size_t known = 0, drawn = 0;

    for (size_t i = 0; i < n; i++)
        known += first_known(&f[i]) != NULL;
    if (!known)
        return lk_fail(LK_EEVIDENCE, "no forecast has losses");
    LK_TRY(lk_chart_init(&c, "losses", "Losses by GPUs"));
    for (size_t i = 0; i < n; i++)
        if (!first_known(&f[i]))
            LK_TRY(lk_chart_note(&c, "%s: its losses are not known", f[i].cluster));
        else if (drawn == PANELS_MAX)
            LK_TRY(lk_chart_note(&c, "%s: its losses are not drawn, at most %d clusters have room",
                                 f[i].cluster, PANELS_MAX));
        else {
            LK_TRY(put_losses(&c, &f[i], known > 1));
            drawn++;
        }
    LK_TRY(lk_chart_note(&c, "parts below 0.1 %% of a step are not drawn"));
    lk_chart_share_key(&c);
    c.columns = drawn < 2 ? 1 : 2;
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}
