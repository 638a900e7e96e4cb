/* Chart the back-tests of forecasts; see backtest.h. */
#include "reports/plot/backtest.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* Count and score all back-tests together. */
struct score {
    size_t n, inside;
    double errors, from, to, level;
};

static bool is_known(const struct lk_backtest *b)
{
    return b->measured_s > 0 && b->predicted_s > 0;
}

static bool is_inside(const struct lk_backtest *b)
{
    return b->lo_s <= b->measured_s && b->measured_s <= b->hi_s;
}

static struct score score_all(const struct lk_forecast *f, size_t n)
{
    struct score s = {.from = INFINITY};

    for (size_t i = 0; i < n; i++)
        for (const struct lk_backtest *b = f[i].backtests; b < f[i].backtests + f[i].n_backtests;
             b++)
            if (is_known(b)) {
                s.n++;
                s.inside += is_inside(b);
                s.errors += fabs(b->predicted_s / b->measured_s - 1);
                s.from = fmin(s.from, fmin(b->measured_s, b->predicted_s));
                s.to = fmax(s.to, fmax(b->measured_s, b->predicted_s));
                s.level = f[i].level;
            }
    return s;
}

/* Draw those of one forecast: filled inside of their interval, hollow outside. */
static enum lk_status put_points(struct lk_chart_panel *p, const struct lk_forecast *f,
                                 enum lk_chart_color color)
{
    struct lk_chart_layer *in = NULL, *out = NULL;

    for (const struct lk_backtest *b = f->backtests; b < f->backtests + f->n_backtests; b++) {
        struct lk_chart_layer **l = is_inside(b) ? &in : &out;

        if (!is_known(b))
            continue;
        if (!*l) {
            LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, color, in || out ? NULL : f->cluster, l));
            (*l)->style = l == &in ? LK_CHART_SOLID : LK_CHART_DASHED;
            (*l)->place = LK_CHART_RIGHT;
        }
        LK_PASS(lk_chart_mark(*l, (struct lk_chart_mark){.x = b->measured_s,
                                                         .y = b->predicted_s,
                                                         .lo = b->lo_s,
                                                         .hi = b->hi_s,
                                                         .text = (char *)b->what}));
    }
    return LK_OK;
}

enum lk_status lk_chart_backtest(struct lk_chart *out, const struct lk_forecast *f, size_t n)
{
    enum lk_status st = LK_OK;
    struct score s = score_all(f, n);
    struct lk_chart c = {0};
    struct lk_chart_panel *p;
    struct lk_chart_layer *equal;
    char title[160];

    if (!s.n)
        return lk_fail(LK_EEVIDENCE, "there is no back-test");
    snprintf(title, sizeof title,
             "Runs held out: %zu of %zu inside the %.3g %% interval, mean error %.1f %%", s.inside,
             s.n, 100 * s.level, 100 * s.errors / (double)s.n);
    LK_TRY(lk_chart_init(&c, "backtest", title));
    LK_TRY(lk_chart_say(&c, "%s", title));
    LK_TRY(lk_chart_panel(&c, NULL, &p));
    LK_TRY(lk_chart_axis(&p->x, "measured step", LK_CHART_LOG10, LK_DIM_TIME));
    LK_TRY(lk_chart_axis(&p->y, "predicted step", LK_CHART_LOG10, LK_DIM_TIME));
    p->x.from = s.from / 1.1; /* room for the texts beside the points */
    p->x.to = s.to * pow(s.to / s.from, 0.35) * 1.1;
    LK_TRY(lk_chart_layer(p, LK_CHART_LINE, LK_CHART_GRAY, "predicted as measured", &equal));
    equal->style = LK_CHART_DOTTED;
    LK_TRY(lk_chart_mark(equal, (struct lk_chart_mark){.x = s.from, .y = s.from}));
    LK_TRY(lk_chart_mark(equal, (struct lk_chart_mark){.x = s.to, .y = s.to}));
    for (size_t i = 0; i < n; i++)
        LK_TRY(put_points(p, &f[i], lk_chart_curves[i % LK_CHART_CURVES]));
    if (s.inside < s.n)
        LK_TRY(lk_chart_note(&c, "hollow: the measured step is outside the interval"));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}
