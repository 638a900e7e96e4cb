/*
 * The step model of a grid as a source of evidence, on the machine as it is and on altered ones.
 *
 * Divisions: opening and closing / predictions / altered machines.
 */
#include "sim/whatif/grid_model.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/predictor.h"
#include "sim/step/measured_runs.h"
#include "sim/whatif/altered_cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct grid {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    struct lk_predictor_options options;
    struct lk_predictor *predictor;
    struct lk_grid_model *model;
    int reference_gpus;
    bool reference_measured;
    struct grid *as_is; /* of an altered machine: the machine as it is, borrowed; else NULL */
    /* Of the machine as it is: the current forecast over its model, the estimate's and each draw's;
     * NULL: not yet known. */
    double anchor, *anchor_draws;
};

/* ---- Opening and closing ---- */

static void grid_close(void *self)
{
    struct grid *g = self;

    if (!g)
        return;
    lk_grid_model_destroy(g->model);
    lk_predictor_destroy(g->predictor);
    free(g->anchor_draws);
    free(g);
}

static enum lk_status grid_open(struct grid *g, const struct lk_job *job,
                                const struct lk_cluster *cluster)
{
    enum lk_status st = LK_OK;

    g->job = job;
    g->cluster = cluster;
    LK_TRY(lk_predictor_create(job, cluster, &g->options, &g->predictor));
    LK_TRY(lk_grid_model_create(g->predictor, &g->model));
out:
    return st;
}

static enum lk_status prepare(void *self, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    const struct grid *g = self;

    LK_TRY(lk_strdup(&out->job, g->job->name));
    LK_TRY(lk_strdup(&out->cluster, g->cluster->name));
    LK_TRY(lk_strdup(&out->sample_unit, g->job->sample_unit));
    LK_TRY(lk_asprintf(&out->reference, "%d GPU%s, %s, plain DDP on the same machine",
                       g->reference_gpus, g->reference_gpus == 1 ? "" : "s",
                       g->reference_measured ? "measured" : "modelled"));
out:
    return st;
}

/* ---- Predictions ---- */

static enum lk_status set_reference(const void *self, struct lk_config *c)
{
    const struct grid *g = self;

    c->gpus = g->reference_gpus;
    return lk_config_nodes(g->cluster, c);
}

static enum lk_status estimate(void *self, const struct lk_config *c, double *out_step_s)
{
    struct grid *g = self;

    return lk_predictor_estimate(g->predictor, c, out_step_s);
}

/* Multiplies the prediction of an altered machine by the anchor, sets its interval anew, and grades
 * it no better than extrapolated. */
static enum lk_status anchor_prediction(const struct grid *g, struct lk_prediction *p)
{
    enum lk_status st = LK_OK;
    struct lk_estimate e;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, p->n_draws, sizeof *sorted));
    p->step_s *= g->as_is->anchor;
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        p->losses_s[l] *= g->as_is->anchor;
    for (size_t d = 0; d < p->n_draws; d++)
        sorted[d] = p->draws_s[d] *= g->as_is->anchor_draws[d];
    e = lk_stats_interval(p->step_s, sorted, p->n_draws, g->options.level);
    p->lo_s = e.lo;
    p->hi_s = e.hi;
    if (p->evidence < LK_EVIDENCE_EXTRAPOLATED) {
        p->evidence = LK_EVIDENCE_EXTRAPOLATED;
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated to a changed machine");
    }
out:
    free(sorted);
    return st;
}

static enum lk_status at(void *self, const struct lk_config *c, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct grid *g = self;
    struct lk_prediction p = {0};

    LK_TRY(lk_grid_model_at(g->model, c, &p));
    if (g->as_is)
        LK_TRY(anchor_prediction(g, &p));
    *out = p;
    p = (struct lk_prediction){0};
out:
    lk_prediction_fini(&p);
    return st;
}

/* ---- Altered machines ---- */

/* Returns the current configuration at the largest count that was run. */
static struct lk_config largest_run(const struct grid *g)
{
    struct lk_config c = lk_config_current(g->job);

    for (size_t i = 0; i < g->job->n_runs; i++)
        if (lk_run_counts(g->cluster, &g->job->runs[i]) && g->job->runs[i].config.gpus >= c.gpus) {
            c.gpus = g->job->runs[i].config.gpus;
            c.nodes = g->job->runs[i].config.nodes;
        }
    return c;
}

/* Sets the factor of measured runs over the model, from one configuration forecast with its runs
 * and without them, draw by draw. Without evidence there is nothing to compare, and it is 1. */
static enum lk_status set_anchor(struct grid *g)
{
    enum lk_status st = LK_OK;
    const struct lk_change none = {0};
    struct lk_altered bare = {0};
    struct lk_predictor *model = NULL;
    struct lk_prediction a = {0}, b = {0};
    struct lk_config c = largest_run(g);
    size_t n = (size_t)g->options.draws;

    LK_TRY(lk_altered_init(&bare, g->job, g->cluster, &none, c.gpus));
    LK_TRY(lk_predictor_create(&bare.job, &bare.cluster, &g->options, &model));
    LK_TRY(lk_alloc(&g->anchor_draws, n, sizeof *g->anchor_draws));
    g->anchor = 1;
    for (size_t i = 0; i < n; i++)
        g->anchor_draws[i] = 1;
    st = lk_predictor_at(g->predictor, &c, &a);
    if (st == LK_OK)
        st = lk_predictor_at(model, &c, &b);
    if (st == LK_EEVIDENCE) {
        st = LK_OK;
        goto out;
    }
    LK_TRY(st);
    g->anchor = a.step_s / b.step_s;
    for (size_t i = 0; i < n; i++)
        g->anchor_draws[i] = a.draws_s[i] / b.draws_s[i];
out:
    lk_prediction_fini(&a);
    lk_prediction_fini(&b);
    lk_predictor_destroy(model);
    lk_altered_fini(&bare);
    return st;
}

static enum lk_status alter(void *self, const struct lk_job *job, const struct lk_cluster *cluster,
                            void **out)
{
    enum lk_status st = LK_OK;
    struct grid *as_is = self, *g = NULL;

    if (!as_is->anchor_draws)
        LK_TRY(set_anchor(as_is));
    LK_TRY(lk_alloc(&g, 1, sizeof *g));
    *g = (struct grid){.options = as_is->options, .as_is = as_is};
    LK_TRY(grid_open(g, job, cluster));
    *out = g;
    g = NULL;
out:
    grid_close(g);
    return st;
}

static const struct lk_evidence_ops grid_ops = {
    .prepare = prepare,
    .at = at,
    .estimate = estimate,
    .set_reference = set_reference,
    .alter = alter,
    .close = grid_close,
};

enum lk_status lk_grid_evidence(const struct lk_job *job, const struct lk_cluster *cluster,
                                double level, int draws, uint64_t seed,
                                struct lk_evidence_source *out)
{
    enum lk_status st = LK_OK;
    struct lk_backtests b = {0};
    struct grid *g = NULL;

    LK_TRY(lk_alloc(&g, 1, sizeof *g));
    g->options = (struct lk_predictor_options){.level = level, .draws = draws, .seed = seed};
    LK_TRY(lk_predict_calibrate(job, cluster, &g->options, &b));
    g->reference_gpus = lk_runs_smallest(job, cluster);
    g->reference_measured = g->reference_gpus > 0;
    g->reference_gpus = g->reference_measured ? g->reference_gpus : 1;
    LK_TRY(grid_open(g, job, cluster));
    *out = (struct lk_evidence_source){.ops = &grid_ops,
                                       .self = g,
                                       .cluster = cluster,
                                       .job = job,
                                       .knows = LK_KNOWS_RANKS,
                                       .current = lk_config_current(job)};
    g = NULL;
out:
    grid_close(g);
    lk_backtests_fini(&b);
    return st;
}
