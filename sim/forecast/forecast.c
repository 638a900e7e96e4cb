/* Forecasts: the request checked, and the way of its points (sim/forecast/pipeline.h). */
#include "sim/forecast/forecast.h"

#include "base/array.h"
#include "sim/forecast/contradiction.h"
#include "sim/forecast/pipeline.h"
#include "sim/planning/memory.h"
#include "sim/planning/plan.h"

#include <math.h>
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

/* List what was measured, for plots. */
static enum lk_status list_measured(struct lk_pipeline *w)
{
    const struct lk_evidence_source *e = w->source;
    struct lk_forecast *f = w->out;

    LK_PASS(lk_array_grow(&f->measured, &f->measured_capacity, e->n_measured, sizeof *f->measured));
    for (size_t i = 0; i < e->n_measured; i++)
        if (e->measured[i].step_s > 0)
            f->measured[f->n_measured++] =
                (struct lk_forecast_measured){e->measured[i].config, e->measured[i].step_s};
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
    return list_measured(w);
}

/* ---- Points ---- */

/* Makes all points that were asked for ones without numbers: nothing that is not contradicted can
 * tell them. */
static void empty_all(struct lk_pipeline *w)
{
    lk_contradictions_unanswered(w->out);
    for (size_t i = 0; i < w->n_points; i++) {
        struct lk_item *item = &w->all.v[w->points[i].item];

        lk_prediction_fini(&item->at);
        lk_prediction_init(&item->at, &item->config);
        item->at.step_s = item->at.lo_s = item->at.hi_s = NAN;
        item->at.evidence = LK_EVIDENCE_NONE;
        item->hidden = true;
        item->status = LK_OK;
    }
}

/* Keeps the points that are predicted; counts the others of those asked for. */
static enum lk_status leave_out(struct lk_pipeline *w)
{
    size_t kept = 0, asked = 0, refused = 0;

    for (size_t i = 0; i < w->n_points && w->out->n_contradictions; i++)
        refused += w->all.v[w->points[i].item].status != LK_OK;
    if (refused && refused == w->n_points && !w->request->anyway) {
        w->n_refused = refused;
        w->refusal = w->all.v[w->points[0].item].refusal;
        empty_all(w);
        return LK_OK;
    }

    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_item *item = &w->all.v[w->points[i].item];
        bool added = w->points[i].is_current;

        asked += !added;
        if (item->status == LK_OK)
            w->points[kept++] = w->points[i];
        else
            w->all.v[w->points[i].item].is_point = false;
        if (item->status != LK_OK && !added && !w->n_refused++) {
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

/* Returns the cluster whose GPU has least memory of those that a scenario runs on; NULL: the own.
 */
static const struct lk_cluster *device_of(const struct lk_pipeline *w, const struct lk_item *i)
{
    const struct lk_change *c = &w->all.machines[i->machine].change;
    const struct lk_cluster *own = w->source->cluster, *least = c->mix ? c->mix->of[0].gpu : c->gpu;

    for (int g = 1; c->mix && g < c->mix->n; g++) {
        const struct lk_cluster *gpu = c->mix->of[g].gpu;

        if (lk_plan_device_bytes(gpu ? gpu : own, w->request->plan) <
            lk_plan_device_bytes(least ? least : own, w->request->plan))
            least = gpu;
    }
    return least;
}

double lk_pipeline_device_bytes(const struct lk_pipeline *w, const struct lk_item *i)
{
    const struct lk_cluster *gpu = device_of(w, i);

    return lk_plan_device_bytes(gpu ? gpu : w->source->cluster, w->request->plan);
}

bool lk_pipeline_too_large(const struct lk_pipeline *w, const struct lk_item *i)
{
    struct lk_memory m;

    /* A contradicted job tells nothing of memory. */
    if (!w->source->job || lk_contradictions_of_model(w->out))
        return false;
    lk_memory_of(w->source->job, &i->config, &m);
    /* A device whose memory is not known (NaN) makes no point too large. */
    return lk_memory_fit(&m, lk_pipeline_device_bytes(w, i)) == LK_MEMORY_TOO_LARGE;
}

/* Takes the numbers from the point of what is contradicted: what does not fit in memory, and what
 * was not measured of a refuted model, which says nothing of a measured step's losses either. */
static void hide(const struct lk_pipeline *w, const struct lk_item *i, struct lk_forecast_point *p)
{
    if (w->request->anyway || !(lk_contradictions_refute(w->out) || i->too_large))
        return;
    for (int k = 0; k < LK_LOSS_COUNT && !i->at.losses_measured; k++)
        p->losses_s[k] = NAN;
    if (!i->hidden)
        return;
    p->step_s = p->step_lo_s = p->step_hi_s = p->throughput_per_s = NAN;
    p->efficiency = p->efficiency_lo = p->efficiency_hi = NAN;
    p->evidence = LK_EVIDENCE_NONE;
    snprintf(p->evidence_text, sizeof p->evidence_text, "%s",
             i->too_large ? "none: does not fit in memory" : "none: the model is contradicted");
}

/* Returns true if the value of an axis does nothing at a point. */
static bool is_without_effect(const struct lk_pipeline *w, const struct lk_grid_point *g,
                              enum lk_axis a)
{
    const struct lk_machine *m = &w->all.machines[w->all.v[g->item].machine];

    return !g->is_current &&
           lk_axis_without_effect(a, &w->request->axes[a].v[g->index[a]], &m->change);
}

/* Sets the words of the axes that were asked for and that no number of the point says. */
static void set_words(const struct lk_pipeline *w, const struct lk_grid_point *g,
                      struct lk_forecast_point *p)
{
    size_t n = 0;

    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        if (!lk_pipeline_worded(w, (enum lk_axis)a))
            continue;
        if (lk_axis_matters((enum lk_axis)a, &w->all.v[g->item].config) &&
            !is_without_effect(w, g, (enum lk_axis)a))
            snprintf(p->words[n], sizeof p->words[n], "%s",
                     lk_pipeline_word(w, g, (enum lk_axis)a));
        n++;
    }
}

/* Sets which points have no numbers: they do not fit, or their model is contradicted. */
static void set_hidden(struct lk_pipeline *w)
{
    bool refuted = lk_contradictions_refute(w->out);

    for (size_t k = 0; k < w->n_points; k++) {
        struct lk_item *i = &w->all.v[w->points[k].item];

        /* A configuration that ran has fitted. */
        i->too_large = isnan(i->at.measured_s) && lk_pipeline_too_large(w, i);
        i->hidden |= !w->request->anyway &&
                     ((i->too_large && !w->request->goal) || (refuted && isnan(i->at.measured_s)));
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
    if (r && isnan(r->at.measured_s) && lk_contradictions_refute(w->out) && !w->request->anyway)
        r = NULL;
    LK_PASS(lk_point_make(&i->at, r ? &r->at : NULL, r ? lk_most_efficient(w->source, &r->at) : 1,
                          w->request->level, &p));
    hide(w, i, &p);
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

    if (i->status != LK_OK || current->status != LK_OK ||
        (lk_contradictions_refute(w->out) && !w->request->anyway))
        return;
    *e = (struct lk_effect){.world_size = i->config.world_size,
                            .axis = g->axis,
                            .step_s = i->at.step_s,
                            .gain = lk_gain_of(w, i, current)};
    memcpy(e->word, w->request->axes[g->axis].v[g->value].text, sizeof e->word);
    out->n_effects++;
}

typedef enum lk_status planner(const struct lk_job *job, const struct lk_cluster *cluster,
                               const struct lk_plan_request *request,
                               const struct lk_cluster *const *devices, struct lk_forecast *f);

/* Plans every point for the GPU of its machine, or tells the plans; without a job nothing is. */
static enum lk_status plan(const struct lk_pipeline *w, planner *with)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_source *e = w->source;
    const struct lk_cluster **devices = NULL;

    if (!w->request->plan || !e->job)
        return LK_OK;
    LK_TRY(lk_alloc(&devices, w->n_points, sizeof *devices));
    for (size_t i = 0; i < w->n_points; i++)
        devices[i] = device_of(w, &w->all.v[w->points[i].item]);
    LK_TRY(with(e->job, e->cluster, w->request->plan, devices, w->out));
out:
    free(devices);
    return st;
}

/* Searches the points for the goal, with what does not fit in memory, which then loses its numbers.
 */
static enum lk_status seek_goal(struct lk_pipeline *w, struct lk_goal_answer *out)
{
    if (!w->request->goal)
        return LK_OK;
    LK_PASS(lk_goal_seek(w, out));
    for (size_t i = 0; i < w->n_points; i++) {
        struct lk_item *item = &w->all.v[w->points[i].item];
        struct lk_forecast_point *p = &w->out->points[i];

        if (!item->too_large || w->request->anyway)
            continue;
        item->hidden = true;
        hide(w, item, p);
        p->plan.cost_per_step = p->plan.cost_per_million = p->plan.energy_per_million_kWh = NAN;
#define NOT_KNOWN_(field, heading, dim, digits) p->plan.field = NAN;
        LK_PLAN_TARGET_LIST(NOT_KNOWN_)
#undef NOT_KNOWN_
    }
    return LK_OK;
}

/* Sets what the points are chosen by: the time to the target, where one is known. */
static void set_objective(struct lk_pipeline *w)
{
    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_plan *p = &w->out->points[i].plan;

        if (!p->known || isnan(p->time_to_target_h))
            continue;
        w->by_target = true;
        w->all.v[w->points[i].item].worth = p->statistical_efficiency;
    }
}

/* ---- The whole ---- */

static void pipeline_fini(struct lk_pipeline *w)
{
    lk_scenarios_fini(&w->all);
    free(w->points);
    free(w->effects);
    free(w->no_reference);
    free(w->sorted);
    free(w->choices);
    free(w->resolution);
    free(w->ratios);
}

static enum lk_status conclude(const struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_ops *ops = w->source->ops;
    const struct lk_prediction **p = NULL;
    bool numbers = false;

    for (size_t i = 0; i < w->n_points; i++)
        numbers |= !w->all.v[w->points[i].item].hidden;
    if (!ops->conclude || !numbers)
        return LK_OK;
    LK_TRY(lk_alloc(&p, w->n_points, sizeof *p));
    for (size_t i = 0; i < w->n_points; i++)
        p[i] = &w->all.v[w->points[i].item].at;
    LK_TRY(ops->conclude(w->source->self, p, w->n_points, w->out));
out:
    free(p);
    return st;
}

/* Keeps the draws of the points, for comparisons with another forecast. */
static enum lk_status keep_draws(const struct lk_pipeline *w, struct lk_gains *c)
{
    size_t n = w->request->draws > 0 ? (size_t)w->request->draws : 0;

    LK_PASS(lk_alloc(&c->draws_s, w->n_points * n, sizeof *c->draws_s));
    c->n_draws = n;
    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_item *item = &w->all.v[w->points[i].item];
        bool has = item->at.n_draws == n && !item->hidden;

        for (size_t d = 0; d < n; d++)
            c->draws_s[i * n + d] = has ? item->at.draws_s[d] : NAN;
    }
    return LK_OK;
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
    if (request->goal)
        LK_TRY(lk_goal_screen(&w));
    LK_TRY(lk_pipeline_add_references(&w));
    LK_TRY(lk_scenarios_predict(&w.all, request));
    LK_TRY(leave_out(&w));
    LK_TRY(lk_gains_init(&w));
    set_hidden(&w); /* all, before the first gain is taken */
    for (size_t i = 0; i < w.n_points; i++)
        LK_TRY(add_point(&w, &w.points[i]));
    LK_TRY(plan(&w, lk_plan_points));
    set_objective(&w);
    LK_TRY(seek_goal(&w, &c.goal));
    if (request->compare) {
        lk_mark_best(&w);
        LK_TRY(lk_compare_machines(&w, &c));
    }
    c.n_refused = w.n_refused;
    LK_TRY(lk_alloc(&c.effects, w.n_effects, sizeof *c.effects));
    for (size_t i = 0; i < w.n_effects; i++)
        add_effect(&w, &w.effects[i], &c);
    LK_TRY(lk_pipeline_tell(&w, &c));
    LK_TRY(conclude(&w));
    LK_TRY(plan(&w, lk_plan_tell));
    if (compared)
        LK_TRY(keep_draws(&w, &c));
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
