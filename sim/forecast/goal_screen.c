/*
 * The shortlist of a goal. A search has thousands of configurations, and draws take most of a
 * forecast's time; so all are estimated first, and only those are forecast with their intervals
 * that can be an answer: of each count of GPUs, local batch, accumulation and sharding the fastest,
 * and of each count the one with the fewest changes of the current settings that reaches the goal
 * by its estimate. Those that do not fit or do not learn are listed apart: they tell what limits.
 */
#include "base/array.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"
#include "sim/planning/plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double S_PER_HOUR = 3600;
/* An estimate has to be so far below a limit for a configuration to reach it with a probability. */
static const double MARGIN = 0.98;

/* A configuration by its estimate. */
struct rough {
    size_t point;
    int gpus, changes;
    int bar;              /* what keeps it from being chosen */
    double time_h, share; /* share: of the limit that is nearest; above 1 it is missed */
};

static struct lk_item *item_of(const struct lk_pipeline *w, size_t point)
{
    return &w->all.v[w->points[point].item];
}

static enum lk_status estimate(struct lk_pipeline *w, struct lk_item *i, double *out_step_s)
{
    void *self;

    *out_step_s = NAN;
    if (i->status != LK_OK)
        return LK_OK;
    i->status = lk_scenarios_machine(&w->all, i, &self);
    if (i->status == LK_OK)
        i->status = w->source->ops->estimate(self, &i->config, out_step_s);
    if (i->status == LK_OK || !lk_refuses(i->status))
        return i->status;
    *out_step_s = NAN;
    return lk_strdup(&i->refusal, lk_error_text());
}

/* Plans the estimates as if they were a forecast's points, one for each of the pipeline's. */
static enum lk_status plan_estimates(struct lk_pipeline *w, struct lk_forecast *f)
{
    const struct lk_forecast_request *q = w->request;

    LK_PASS(lk_alloc(&f->points, w->n_points, sizeof *f->points));
    f->n_points = f->points_capacity = w->n_points;
    for (size_t k = 0; k < w->n_points; k++) {
        struct lk_item *i = item_of(w, k);
        struct lk_forecast_point *p = &f->points[k];

        p->config = i->config;
        p->plan = lk_plan_none;
        LK_PASS(estimate(w, i, &p->step_s));
        p->step_lo_s = p->step_hi_s = p->step_s;
        p->throughput_per_s = lk_config_samples(&i->config) / p->step_s;
        if (q->progress && (k + 1) % 64 == 0)
            q->progress(q->user, k + 1, w->n_points);
    }
    return q->plan && w->source->job
               ? lk_plan_points(w->source->job, w->source->cluster, q->plan, NULL, f)
               : LK_OK;
}

static struct rough rough_of(const struct lk_pipeline *w, const struct lk_forecast *f, size_t k)
{
    const struct lk_forecast_point *p = &f->points[k];
    const struct lk_goal *g = w->request->goal;
    const struct lk_item *i = item_of(w, k);
    struct rough r = {.point = k,
                      .gpus = i->config.world_size,
                      .changes = lk_goal_changes(w, &i->config),
                      .bar = lk_goal_bar(w, i),
                      .time_h = p->plan.time_to_target_h};

    if (g->deadline_s > 0)
        r.share = fmax(r.share, r.time_h * S_PER_HOUR / g->deadline_s);
    if (g->budget > 0)
        r.share = fmax(r.share, p->plan.cost_to_target / g->budget);
    if (g->throughput_per_s > 0)
        r.share = fmax(r.share, g->throughput_per_s / p->throughput_per_s);
    return r;
}

/* Returns true if the faster one of two configurations on as many GPUs is the better one: they
 * learn alike, and are as uncertain. */
static bool is_alike(const struct lk_config *a, const struct lk_config *b)
{
    return a->local_batch == b->local_batch && a->accumulation == b->accumulation &&
           a->reduce == b->reduce && a->sharding == b->sharding && a->shard_group == b->shard_group;
}

/* Sorts by count, whether it can be chosen, and time. */
static int by_count(const void *x, const void *y)
{
    const struct rough *a = x, *b = y;
    int order = LK_ORDER(a->gpus, b->gpus);

    order = order ? order : LK_ORDER(a->bar, b->bar);
    order = order ? order : LK_ORDER(a->time_h, b->time_h);
    return order ? order : LK_ORDER(a->point, b->point);
}

/* Lists of n configurations of one count and bar, the fastest first, those that can be an answer.
 */
static void shortlist(const struct lk_pipeline *w, const struct rough *v, size_t n, bool *keep)
{
    const struct rough *least = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct lk_config *c = &item_of(w, v[i].point)->config;
        bool first = true;

        for (size_t k = 0; k < i && first; k++)
            first = !keep[v[k].point] || !is_alike(c, &item_of(w, v[k].point)->config);
        keep[v[i].point] = first;
        if (v[i].share <= MARGIN && (!least || v[i].changes < least->changes))
            least = &v[i];
    }
    if (least)
        keep[least->point] = true;
}

static enum lk_status choose(const struct lk_pipeline *w, const struct lk_forecast *f, bool *keep)
{
    enum lk_status st = LK_OK;
    struct rough *v = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&v, w->n_points, sizeof *v));
    for (size_t k = 0; k < w->n_points; k++)
        if (item_of(w, k)->status != LK_OK)
            keep[k] = true; /* to be counted, with its reason */
        else if (lk_goal_bar(w, item_of(w, k)) != LK_GOAL_NEVER)
            v[n++] = rough_of(w, f, k);
    if (n)
        qsort(v, n, sizeof *v, by_count);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && v[to].gpus == v[from].gpus && v[to].bar == v[from].bar;)
            to++;
        shortlist(w, &v[from], to - from, keep);
    }
out:
    free(v);
    return st;
}

enum lk_status lk_goal_screen(struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    struct lk_forecast f = {0};
    bool *keep = NULL;
    size_t kept = 0;

    LK_TRY(lk_alloc(&keep, w->n_points, sizeof *keep));
    LK_TRY(plan_estimates(w, &f));
    LK_TRY(choose(w, &f, keep));
    for (size_t k = 0; k < w->n_points; k++) {
        item_of(w, k)->skipped = !keep[k];
        item_of(w, k)->is_point = keep[k];
        if (keep[k])
            w->points[kept++] = w->points[k];
    }
    w->n_searched = w->n_points;
    w->n_points = kept;
out:
    lk_forecast_fini(&f);
    free(keep);
    return st;
}
