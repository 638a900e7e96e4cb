/* Forecasts: the request checked, and the way of its points (sim/forecast/pipeline.h). */
#include "sim/forecast/forecast.h"

#include "base/array.h"
#include "sim/forecast/pipeline.h"
#include "sim/planning/memory.h"
#include "sim/planning/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum lk_status check_request(const struct lk_evidence_source *e,
                                    const struct lk_forecast_request *q)
{
    if (!q->axes[LK_AXIS_GPUS].n)
        return lk_fail(LK_EUSAGE, "no GPU counts to forecast");
    if (q->global_batch > 0 && q->axes[LK_AXIS_ACCUMULATION].n)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        enum lk_knowledge needs = lk_axis_needs((enum lk_axis)a);

        if (!q->axes[a].n || needs <= e->knows)
            continue;
        if (needs == LK_KNOWS_RANKS)
            return lk_fail(LK_EUSAGE,
                           "--%s takes the measured compute of each rank, which throughputs do not "
                           "tell: give JOB and CLUSTER without --throughput",
                           lk_axis_option((enum lk_axis)a));
        return lk_fail(LK_EUSAGE,
                       "--%s takes the step model, and throughputs alone do not tell it: say what "
                       "the job (JOB, --parameters or --gradients) and its cluster (CLUSTER or "
                       "--cluster) are",
                       lk_axis_option((enum lk_axis)a));
    }
    return LK_OK;
}

static enum lk_status set_header(struct lk_pipeline *w)
{
    struct lk_forecast *f = w->out;

    f->level = w->request->level;
    LK_PASS(w->source->ops->prepare(w->source->self, f));
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (lk_pipeline_worded(w, (enum lk_axis)a))
            snprintf(f->axes[f->n_axes++], sizeof *f->axes, "%s", lk_axis_column((enum lk_axis)a));
    return LK_OK;
}

/* ---- Points ---- */

/* Keeps the points that are predicted; counts the others of those asked for. */
static enum lk_status leave_out(struct lk_pipeline *w)
{
    size_t kept = 0, asked = 0;

    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_item *item = &w->all.v[w->points[i].item];
        bool added = w->points[i].is_current;

        asked += !added;
        if (item->status == LK_OK)
            w->points[kept++] = w->points[i];
        else if (!added && !w->n_refused++) {
            w->refused = item->status;
            w->refusal = item->refusal;
        }
    }
    w->n_points = kept;
    if (w->n_refused < asked)
        return LK_OK;
    if (asked == 1)
        return lk_fail(w->refused, "%s", w->refusal);
    return lk_fail(w->refused, "none of the %zu points can be forecast. The first: %s", asked,
                   w->refusal);
}

double lk_pipeline_device_bytes(const struct lk_pipeline *w, const struct lk_item *i)
{
    const struct lk_cluster *gpu = w->all.machines[i->machine].change.gpu;

    return lk_plan_device_bytes(gpu ? gpu : w->source->cluster, w->request->plan);
}

static void set_fit(const struct lk_pipeline *w, struct lk_item *i)
{
    struct lk_memory m;

    if (w->source->knows < LK_KNOWS_RANKS)
        return;
    lk_memory_of(w->source->job, &i->config, &m);
    /* A device whose memory is not known (NaN) makes no point too large. */
    i->too_large = lk_memory_fit(&m, lk_pipeline_device_bytes(w, i)) == LK_MEMORY_TOO_LARGE;
}

/* Sets the words of the axes that were asked for and that no number of the point says. */
static void set_words(const struct lk_pipeline *w, const struct lk_grid_point *g,
                      struct lk_forecast_point *p)
{
    size_t n = 0;

    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        if (!lk_pipeline_worded(w, (enum lk_axis)a))
            continue;
        if (lk_axis_matters((enum lk_axis)a, &w->all.v[g->item].config))
            snprintf(p->words[n], sizeof p->words[n], "%s",
                     lk_pipeline_word(w, g, (enum lk_axis)a));
        n++;
    }
}

static enum lk_status add_point(struct lk_pipeline *w, const struct lk_grid_point *g)
{
    struct lk_item *i = &w->all.v[g->item];
    const struct lk_item *r = g->reference == SIZE_MAX ? NULL : &w->all.v[g->reference];
    struct lk_forecast *f = w->out;
    struct lk_forecast_point p;

    if (r && r->status != LK_OK) {
        if (!w->no_reference)
            LK_PASS(lk_strdup(&w->no_reference, r->refusal));
        r = NULL;
    }
    LK_PASS(lk_point_make(&i->at, r ? &r->at : NULL, w->request->level, &p));
    set_fit(w, i);
    set_words(w, g, &p);
    if (w->request->compare)
        p.gain = lk_gain_of(w, i, &w->all.v[g->current]);
    LK_PASS(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *f->points));
    f->points[f->n_points++] = p;
    return LK_OK;
}

static void add_effect(const struct lk_pipeline *w, const struct lk_grid_effect *g,
                       struct lk_gains *out)
{
    const struct lk_item *i = &w->all.v[g->item], *current = &w->all.v[g->current];
    struct lk_effect *e = &out->effects[out->n_effects];

    if (i->status != LK_OK || current->status != LK_OK)
        return;
    *e = (struct lk_effect){.world_size = i->config.world_size,
                            .axis = g->axis,
                            .step_s = i->at.step_s,
                            .gain = lk_gain_of(w, i, current)};
    memcpy(e->word, w->request->axes[g->axis].v[g->value].text, sizeof e->word);
    out->n_effects++;
}

/* Plans every point for the GPU of its machine; without a job nothing is planned. */
static enum lk_status plan(const struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_source *e = w->source;
    const struct lk_cluster **devices = NULL;

    if (!w->request->plan || !e->job)
        return LK_OK;
    LK_TRY(lk_alloc(&devices, w->n_points, sizeof *devices));
    for (size_t i = 0; i < w->n_points; i++)
        devices[i] = w->all.machines[w->all.v[w->points[i].item].machine].change.gpu;
    LK_TRY(lk_plan_forecast(e->job, e->cluster, w->request->plan, devices, w->out));
out:
    free(devices);
    return st;
}

/* ---- The whole ---- */

static void pipeline_fini(struct lk_pipeline *w)
{
    lk_scenarios_fini(&w->all);
    free(w->points);
    free(w->effects);
    free(w->no_reference);
    free(w->resolution);
    free(w->ratios);
}

static enum lk_status conclude(const struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_ops *ops = w->source->ops;
    const struct lk_prediction **p = NULL;

    if (!ops->conclude)
        return LK_OK;
    LK_TRY(lk_alloc(&p, w->n_points, sizeof *p));
    for (size_t i = 0; i < w->n_points; i++)
        p[i] = &w->all.v[w->points[i].item].at;
    LK_TRY(ops->conclude(w->source->self, p, w->n_points, w->out));
out:
    free(p);
    return st;
}

enum lk_status lk_forecast_run(const struct lk_evidence_source *evidence,
                               const struct lk_forecast_request *request, struct lk_forecast *out,
                               struct lk_gains *compared)
{
    enum lk_status st = LK_OK;
    struct lk_forecast o = {0};
    struct lk_gains c = {0};
    struct lk_pipeline w = {.source = evidence,
                            .request = request,
                            .all = {.source = evidence, .global_batch = request->global_batch},
                            .out = &o};

    LK_TRY(check_request(evidence, request));
    LK_TRY(lk_pipeline_add_grid(&w));
    LK_TRY(set_header(&w));
    LK_TRY(lk_pipeline_add_references(&w));
    LK_TRY(lk_scenarios_predict(&w.all, request));
    LK_TRY(leave_out(&w));
    LK_TRY(lk_gains_init(&w));
    for (size_t i = 0; i < w.n_points; i++)
        LK_TRY(add_point(&w, &w.points[i]));
    if (request->compare)
        lk_mark_best(&w);
    c.n_refused = w.n_refused;
    LK_TRY(lk_alloc(&c.effects, w.n_effects, sizeof *c.effects));
    for (size_t i = 0; i < w.n_effects; i++)
        add_effect(&w, &w.effects[i], &c);
    LK_TRY(lk_pipeline_tell(&w));
    LK_TRY(conclude(&w));
    LK_TRY(plan(&w));
    *out = o;
    o = (struct lk_forecast){0};
    if (compared) {
        *compared = c;
        c = (struct lk_gains){0};
    }
out:
    pipeline_fini(&w);
    lk_gains_fini(&c);
    lk_forecast_fini(&o);
    return st;
}
