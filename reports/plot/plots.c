/* Which plots an input has; see plots.h. */
#include "reports/plot/plots.h"

#include "base/array.h"
#include "reports/plot/target.h"

#include <stdbool.h>
#include <stdlib.h>

/* ---- What each needs, and how it is made ---- */

typedef bool (*fits_fn)(const struct lk_report_input *in);
typedef enum lk_status (*make_fn)(struct lk_chart *out, const struct lk_report_input *in);

static bool has_scaling(const struct lk_report_input *in)
{
    return in->n_forecasts || in->n_measured > 1;
}

static bool has_forecast(const struct lk_report_input *in)
{
    return in->n_forecasts;
}

static bool has_target(const struct lk_report_input *in)
{
    return in->n_forecasts && lk_chart_has_target(&in->forecasts[0]);
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

static enum lk_status make_target(struct lk_chart *out, const struct lk_report_input *in)
{
    return lk_chart_target(out, &in->forecasts[0]);
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
    make_fn make;
    bool needed; /* its failure is the input's: the others are left out in silence, as what they
                    show is not known */
} plots[] = {
    {has_scaling, make_efficiency, true}, {has_scaling, make_throughput, false},
    {has_forecast, make_losses, false},   {has_target, make_target, false},
    {has_losses, make_waterfall, false},  {has_ranks, make_stragglers, false},
    {has_traces, make_timeline, true},    {has_collectives, make_collectives, true},
};

/* ---- All of them ---- */

/* Put the input's title below the chart's. */
static enum lk_status add_title(struct lk_chart *c, const char *title)
{
    return title ? lk_text_add(&c->title, "\n%s", title) : LK_OK;
}

enum lk_status lk_plots_make(const struct lk_report_input *in, struct lk_chart_list *out)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < LK_COUNT(plots); i++) {
        struct lk_chart c = {0};

        if (!plots[i].fits(in))
            continue;
        LK_PASS(lk_array_grow(&out->charts, &out->capacity, out->n + 1, sizeof *out->charts));
        st = plots[i].make(&c, in);
        if (st == LK_EEVIDENCE && !plots[i].needed)
            continue;
        LK_PASS(st);
        out->charts[out->n++] = c;
        LK_PASS(add_title(&out->charts[out->n - 1], in->title));
    }
    return LK_OK;
}

void lk_chart_list_fini(struct lk_chart_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        lk_chart_fini(&list->charts[i]);
    free(list->charts);
    *list = (struct lk_chart_list){0};
}
