/* Which plots an input has; see plots.h. */
#include "reports/plot/plots.h"

#include "base/array.h"
#include "reports/plot/backtest.h"
#include "reports/plot/frontier.h"
#include "reports/plot/grid.h"
#include "reports/plot/target.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- What each needs, and how it is made ---- */

typedef bool (*fits_fn)(const struct lk_report_input *in);
typedef enum lk_status (*make_fn)(struct lk_chart *out, const struct lk_report_input *in);
typedef enum lk_status (*forecast_fn)(struct lk_chart *out, const struct lk_forecast *f);

/* Return whether a forecast has a curve: settings on one count of GPUs have a chart of their own.
 */
static bool scales(const struct lk_forecast *f)
{
    int gpus[2] = {INT_MAX, 0};
    size_t known = 0;

    for (size_t i = 0; i < f->n_points; i++) {
        int n = f->points[i].config.world_size;

        gpus[0] = n < gpus[0] ? n : gpus[0];
        gpus[1] = n > gpus[1] ? n : gpus[1];
        known += isfinite(f->points[i].throughput_per_s) ? 1 : 0;
    }
    return known < 2 || gpus[0] < gpus[1];
}

static bool has_scaling(const struct lk_report_input *in)
{
    bool any = in->n_measured > 1 || in->n_forecasts > 1;

    for (size_t i = 0; i < in->n_forecasts; i++)
        any |= scales(&in->forecasts[i]);
    return any;
}

static bool has_forecast(const struct lk_report_input *in)
{
    return in->n_forecasts;
}

static bool has_losses(const struct lk_report_input *in)
{
    return in->losses;
}

static bool has_ranks(const struct lk_report_input *in)
{
    return in->ranks;
}

static bool has_traces(const struct lk_report_input *in)
{
    return in->n_traces;
}

static bool has_collectives(const struct lk_report_input *in)
{
    return in->n_collectives;
}

static enum lk_status make_efficiency(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_scaling(out, LK_CHART_EFFICIENCY, in->forecasts, in->n_forecasts, in->measured,
                            in->n_measured);
}

static enum lk_status make_throughput(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_scaling(out, LK_CHART_THROUGHPUT, in->forecasts, in->n_forecasts, in->measured,
                            in->n_measured);
}

static enum lk_status make_losses(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_losses(out, in->forecasts, in->n_forecasts);
}

static enum lk_status make_backtest(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_backtest(out, in->forecasts, in->n_forecasts);
}

static enum lk_status make_waterfall(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_waterfall(out, in->losses);
}

static enum lk_status make_stragglers(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_stragglers(out, in->ranks);
}

static enum lk_status make_timeline(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_timeline(out, in->traces, in->n_traces, in->step);
}

static enum lk_status make_collectives(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_collectives(out, in->collectives, in->n_collectives);
}

/* Those that answer most first. */
static const struct plot {
    fits_fn fits;
    make_fn make;        /* of the whole input; or */
    forecast_fn of_each; /* of each forecast */
    bool needed; /* its failure is the input's: the others are left out in silence, as what they
                    show is not known */
} plots[] = {
    {has_scaling, make_efficiency, NULL, true},     {has_scaling, make_throughput, NULL, false},
    {has_forecast, NULL, lk_chart_gains, false},    {has_forecast, NULL, lk_chart_heat_map, false},
    {has_forecast, NULL, lk_chart_whatif, false},   {has_forecast, make_losses, NULL, false},
    {has_forecast, NULL, lk_chart_frontier, false}, {has_forecast, NULL, lk_chart_target, false},
    {has_forecast, NULL, lk_chart_batch, false},    {has_forecast, make_backtest, NULL, false},
    {has_losses, make_waterfall, NULL, false},      {has_ranks, make_stragglers, NULL, false},
    {has_traces, make_timeline, NULL, true},        {has_collectives, make_collectives, NULL, true},
};

/* ---- All of them ---- */

/* Put the input's title below the chart's. */
static enum lk_status add_title(struct lk_chart *c, const char *title)
{
    return title ? lk_text_add(&c->title, "\n%s", title) : LK_OK;
}

/* Name a chart of one of several forecasts by its number, and its cluster. */
static enum lk_status tell_apart(struct lk_chart *c, const struct lk_report_input *in, size_t at)
{
    if (in->n_forecasts < 2)
        return LK_OK;
    if (at)
        LK_PASS(lk_text_add(&c->name, "-%zu", at + 1));
    return lk_text_add(&c->title, ", %s", in->forecasts[at].cluster);
}

/* Make a plot, of a forecast or of the whole input, and append it if there is something to show. */
static enum lk_status add_plot(const struct plot *p, const struct lk_report_input *in, size_t at,
                               struct lk_chart_list *out)
{
    struct lk_chart c = {0};
    enum lk_status st;

    LK_PASS(lk_array_grow(&out->charts, &out->capacity, out->n + 1, sizeof *out->charts));
    st = p->make ? p->make(&c, in) : p->of_each(&c, &in->forecasts[at]);
    if (st == LK_EEVIDENCE && !p->needed)
        return LK_OK;
    LK_PASS(st);
    out->charts[out->n++] = c;
    if (p->of_each)
        LK_PASS(tell_apart(&out->charts[out->n - 1], in, at));
    return add_title(&out->charts[out->n - 1], in->title);
}

enum lk_status lk_plots_make(const struct lk_report_input *in, struct lk_chart_list *out)
{
    for (size_t i = 0; i < LK_COUNT(plots); i++)
        for (size_t k = 0; plots[i].fits(in) && k < (plots[i].make ? 1 : in->n_forecasts); k++)
            LK_PASS(add_plot(&plots[i], in, k, out));
    return LK_OK;
}

void lk_chart_list_fini(struct lk_chart_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        lk_chart_fini(&list->charts[i]);
    free(list->charts);
    *list = (struct lk_chart_list){0};
}
