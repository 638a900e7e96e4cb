/* Chart the frontier of time and cost; see frontier.h. */
#include "reports/plot/frontier.h"

#include "facts/frontier.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Frontier points that are closer than this in cost have one label. */
static const double APART = 0.15;

static enum lk_status put_points(struct lk_chart_panel *p, const struct lk_forecast *f)
{
    struct lk_chart_layer *layer;

    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, LK_CHART_GRAY, "configurations", &layer));
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_plan *q = &f->points[i].plan;

        if (q->known && isfinite(q->probability) && isfinite(q->time_to_target_h) &&
            isfinite(q->cost_to_target))
            LK_PASS(lk_chart_mark(
                layer, (struct lk_chart_mark){.x = q->time_to_target_h, .y = q->cost_to_target}));
    }
    return LK_OK;
}

/* Draw the frontier: a line through it (texts false), or its points that are apart, with GPUs. */
static enum lk_status put_frontier(struct lk_chart_panel *p, const struct lk_forecast *f,
                                   bool texts)
{
    enum lk_status st = LK_OK;
    struct lk_chart_layer *layer;
    size_t *at = NULL, n = 0;

    LK_TRY(lk_frontier_list(f, texts ? APART : 0, &at, &n));
    LK_TRY(lk_chart_layer(p, texts ? LK_CHART_POINTS : LK_CHART_LINE, LK_CHART_BLUE,
                          texts ? NULL : "frontier", &layer));
    for (size_t i = 0; i < n; i++) {
        const struct lk_forecast_point *point = &f->points[at[i]];
        char text[32];

        snprintf(text, sizeof text, "%d GPU%s", point->config.world_size,
                 point->config.world_size == 1 ? "" : "s");
        LK_TRY(lk_chart_mark(layer, (struct lk_chart_mark){.x = point->plan.time_to_target_h,
                                                           .y = point->plan.cost_to_target,
                                                           .text = texts ? text : NULL}));
    }
out:
    free(at);
    return st;
}

enum lk_status lk_chart_frontier(struct lk_chart *out, const struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct lk_chart_panel *p;
    size_t *at = NULL, n = 0;

    LK_TRY(lk_frontier_list(f, 0, &at, &n));
    if (!n)
        LK_TRY(lk_fail(LK_EEVIDENCE, "no point has a probability to reach a goal"));
    LK_TRY(lk_chart_init(&c, "frontier", "Time and cost of the configurations of a plan"));
    LK_TRY(lk_chart_panel(&c, NULL, &p));
    LK_TRY(lk_chart_axis(&p->x, "hours", LK_CHART_LOG10, LK_DIM_COUNT));
    LK_TRY(
        lk_chart_axis(&p->y, "cost, or GPU-hours without a price", LK_CHART_LOG10, LK_DIM_COUNT));
    LK_TRY(put_points(p, f));
    LK_TRY(put_frontier(p, f, false));
    LK_TRY(put_frontier(p, f, true));
    LK_TRY(lk_chart_note(&c, "no configuration is faster and cheaper than one of the frontier"));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    free(at);
    lk_chart_fini(&c);
    return st;
}
