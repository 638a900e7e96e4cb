/* The machines of a what-if, as they are or changed, and the forecasts on each. */
#include "sim/whatif_state.h"

#include "base/array.h"
#include "sim/run_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static enum lk_status world_of(struct lk_whatif_state *w, const struct lk_change *c,
                               struct lk_whatif_world **out)
{
    enum lk_status st = LK_OK;
    size_t i = 0;

    while (i < w->n_worlds && !lk_change_equal(&w->worlds[i].change, c))
        i++;
    if (i == w->n_worlds) {
        LK_TRY(lk_array_grow(&w->worlds, &w->worlds_capacity, i + 1, sizeof *w->worlds));
        w->worlds[w->n_worlds++] = (struct lk_whatif_world){.change = *c};
    }
    *out = &w->worlds[i];
out:
    return st;
}

static enum lk_status gather(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif_world *world;

    for (size_t i = 0; i < w->n_items; i++) {
        if (w->items[i].status != LK_OK)
            continue;
        LK_TRY(world_of(w, &w->items[i].s.change, &world));
        LK_TRY(lk_array_grow(&world->items, &world->capacity, world->n_items + 1,
                             sizeof *world->items));
        world->items[world->n_items++] = i;
        if (w->items[i].s.config.gpus > world->gpus)
            world->gpus = w->items[i].s.config.gpus;
    }
out:
    return st;
}

static enum lk_status refuse_world(struct lk_whatif_state *w, const struct lk_whatif_world *world,
                                   enum lk_status why)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < world->n_items; i++)
        LK_TRY(lk_whatif_refuse(w, &w->items[world->items[i]], why));
out:
    return st;
}

/*
 * What measured runs say beyond the model: the current configuration at the largest count that was
 * measured, forecast with its runs and without them, draw by draw.
 */
static enum lk_status set_anchor(struct lk_whatif_state *w, struct lk_predictor *anchored)
{
    enum lk_status st = LK_OK;
    const struct lk_change none = {0};
    struct lk_changed bare = {0};
    struct lk_predictor *model = NULL;
    struct lk_prediction a = {0}, b = {0};
    struct lk_config c = lk_config_current(w->job);
    size_t n = (size_t)w->options.draws;

    LK_TRY(lk_alloc(&w->anchor_draws, n, sizeof *w->anchor_draws));
    w->anchor = 1;
    for (size_t i = 0; i < n; i++)
        w->anchor_draws[i] = 1;
    for (size_t i = 0; i < w->job->n_runs; i++)
        if (lk_run_counts(w->cluster, &w->job->runs[i]) && w->job->runs[i].gpus >= c.gpus) {
            c.gpus = w->job->runs[i].gpus;
            c.nodes = w->job->runs[i].nodes;
        }
    LK_TRY(lk_changed_init(&bare, w->job, w->cluster, &none, c.gpus));
    LK_TRY(lk_predictor_create(&bare.job, &bare.cluster, &w->options, &model));
    st = lk_predictor_at(anchored, &c, &a);
    if (st == LK_OK)
        st = lk_predictor_at(model, &c, &b);
    if (st == LK_EEVIDENCE) { /* the model has nothing to be compared with */
        st = LK_OK;
        goto out;
    }
    if (st != LK_OK)
        goto out;
    w->anchor = a.step_s / b.step_s;
    for (size_t i = 0; i < n; i++)
        w->anchor_draws[i] = a.draws_s[i] / b.draws_s[i];
out:
    lk_prediction_fini(&a);
    lk_prediction_fini(&b);
    lk_predictor_destroy(model);
    lk_changed_fini(&bare);
    return st;
}

/* Points of a changed machine: the model times the anchor, new interval, no grade above
 * extrapolated. */
static void anchor_point(const struct lk_whatif_state *w, struct lk_whatif_item *i, double *sorted)
{
    struct lk_sweep_point *p = &i->at;
    size_t n = (size_t)w->options.draws;

    p->step_s *= w->anchor;
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        p->losses_s[l] *= w->anchor;
    for (size_t d = 0; d < n; d++)
        sorted[d] = i->draws_s[d] *= w->anchor_draws[d];
    p->lo_s = fmin(p->step_s, lk_stats_quantile(sorted, n, (1 - w->options.level) / 2));
    p->hi_s = fmax(p->step_s, lk_stats_quantile_sorted(sorted, n, (1 + w->options.level) / 2));
    if (p->evidence < LK_EVIDENCE_EXTRAPOLATED) {
        p->evidence = LK_EVIDENCE_EXTRAPOLATED;
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated to a changed machine");
    }
}

static enum lk_status take_sweep(struct lk_whatif_state *w, struct lk_whatif_world *world)
{
    enum lk_status st = LK_OK;
    struct lk_sweep *s = &world->sweep;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, s->n_draws, sizeof *sorted));
    for (size_t k = 0; k < s->n; k++) {
        struct lk_whatif_item *i = &w->items[world->items[k]];

        i->at = s->points[k];
        i->draws_s = &s->draws_s[k * s->n_draws];
        if (i->at.status != LK_OK) {
            if (s->refusal)
                (void)lk_fail(i->at.status, "%s", s->refusal);
            LK_TRY(lk_whatif_refuse(w, i, i->at.status));
        } else if (!lk_change_is_none(&world->change)) {
            anchor_point(w, i, sorted);
        }
    }
out:
    free(sorted);
    return st;
}

static void tell(void *user, size_t done)
{
    const struct lk_whatif_state *w = user;

    if (w->request->progress)
        w->request->progress(w->request->user, w->done + done, w->n_items);
}

static enum lk_status sweep_world(struct lk_whatif_state *w, struct lk_whatif_world *world)
{
    enum lk_status st = LK_OK;
    struct lk_config *configs = NULL;

    LK_TRY(lk_alloc(&configs, world->n_items, sizeof *configs));
    for (size_t k = 0; k < world->n_items; k++)
        configs[k] = w->items[world->items[k]].s.config;
    LK_TRY(lk_sweep_run(world->predictor, configs, world->n_items,
                        &(struct lk_sweep_watch){tell, w}, &world->sweep));
    w->done += world->n_items;
    LK_TRY(take_sweep(w, world));
out:
    free(configs);
    return st;
}

static enum lk_status run_world(struct lk_whatif_state *w, struct lk_whatif_world *world)
{
    enum lk_status st = LK_OK;
    const struct lk_job *job = w->job;
    const struct lk_cluster *cluster = w->cluster;

    if (!lk_change_is_none(&world->change)) {
        st = lk_changed_init(&world->changed, job, cluster, &world->change, world->gpus);
        if (st == LK_EEVIDENCE || st == LK_EUSAGE)
            return refuse_world(w, world, st);
        if (st != LK_OK)
            return st;
        job = &world->changed.job;
        cluster = &world->changed.cluster;
    }
    LK_TRY(lk_predictor_create(job, cluster, &w->options, &world->predictor));
    LK_TRY(sweep_world(w, world));
out:
    return st;
}

enum lk_status lk_whatif_run_worlds(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = NULL;

    LK_TRY(gather(w));
    LK_TRY(lk_predictor_create(w->job, w->cluster, &w->options, &p));
    LK_TRY(set_anchor(w, p));
    for (size_t i = 0; i < w->n_worlds; i++)
        LK_TRY(run_world(w, &w->worlds[i]));
out:
    lk_predictor_destroy(p);
    return st;
}
