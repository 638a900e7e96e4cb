/*
 * Predictions with their distribution.
 *
 * Divisions: intervals / the cost of launches / making one / measured configurations / interface.
 */
#include "sim/forecast/predictor.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/coll_points.h"
#include "sim/forecast/grid_model.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Intervals ---- */

enum lk_status lk_predictor_interval(const struct lk_predictor *p, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, out->n_draws, sizeof *sorted));
    memcpy(sorted, out->draws_s, out->n_draws * sizeof *sorted);
    lk_stats_predictive(sorted, out->n_draws, p->basis.options.level, &out->lo_s, &out->hi_s);
    out->lo_s = fmin(out->step_s, out->lo_s);
    out->hi_s = fmax(out->step_s, out->hi_s);
out:
    free(sorted);
    return st;
}

/* ---- The cost of launches ---- */

/* Return true if two configurations differ in their bucket caps alone. */
static bool differ_in_caps(const struct lk_config *a, const struct lk_config *b)
{
    struct lk_config same = *b;

    same.first_bytes = a->first_bytes;
    same.cap_bytes = a->cap_bytes;
    return lk_config_equal(a, &same) && !lk_config_equal(a, b);
}

/* Return true if two configurations differ in their sharding alone, and what it reduces when. */
static bool differ_in_sharding(const struct lk_config *a, const struct lk_config *b)
{
    struct lk_config same = *b;

    same.sharding = a->sharding;
    same.shard_group = a->shard_group;
    same.reduce = a->reduce;
    return lk_config_equal(a, &same) && !lk_config_equal(a, b);
}

/* A cost that runs tell which differ in one thing alone: sums of a regression through the means of
 * groups of such runs. */
struct launch_fit {
    double *cost_s, assumed_s;
    bool (*differ)(const struct lk_config *a, const struct lk_config *b);
    double xx, xy;
};

/* Set *y to ln(measured / modelled) of a run without the cost, and *x to what a second of it
 * changes. LK_EEVIDENCE: nothing models the run. */
static enum lk_status launch_evidence(struct lk_predictor *p, const struct lk_config *c,
                                      const struct launch_fit *f, double *x, double *y)
{
    double bare, charged;
    size_t n;

    *f->cost_s = 0;
    LK_PASS(lk_grid_model_step(p->grid, c, false, &bare));
    *f->cost_s = f->assumed_s;
    LK_PASS(lk_grid_model_step(p->grid, c, false, &charged));
    *x = log(charged / bare) / f->assumed_s;
    *y = log(lk_runs_mean(&p->basis.runs, c, &n) / bare);
    return LK_OK;
}

/* Add the runs of a group, if its first one is run i. */
static enum lk_status add_group(struct lk_predictor *p, size_t i, struct launch_fit *f)
{
    const struct lk_job *j = p->basis.job;
    double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;

    for (size_t k = 0; k < j->n_runs; k++) {
        const struct lk_config *c = &j->runs[k].config;
        double x, y;
        enum lk_status st;

        if (!lk_runs_is_first(&p->basis.runs, k) || (k != i && !f->differ(&j->runs[i].config, c)))
            continue;
        if (k < i)
            return LK_OK;
        st = launch_evidence(p, c, f, &x, &y);
        if (st == LK_EEVIDENCE)
            continue;
        LK_PASS(st);
        n++;
        x_sum += x;
        y_sum += y;
        xx += x * x;
        xy += x * y;
    }
    if (n > 1) {
        f->xx += xx - x_sum * x_sum / n;
        f->xy += xy - x_sum * y_sum / n;
    }
    return LK_OK;
}

/*
 * Fit a cost to runs: least squares, where the ratio of two runs has the error of
 * LK_PRIOR_RESOLUTION. A fit that knows less than the prior does, with this sd, is not taken, and
 * *out_sd is 0.
 */
static enum lk_status fit_launch(struct lk_predictor *p, struct launch_fit *f, double prior_sd,
                                 double *out_sd)
{
    const struct lk_job *j = p->basis.job;
    double fit, sd;

    *out_sd = 0;
    for (size_t i = 0; i < j->n_runs; i++) {
        bool several = false;

        for (size_t k = i + 1; k < j->n_runs && !several; k++)
            several = f->differ(&j->runs[i].config, &j->runs[k].config);
        if (several && lk_config_replicas(&j->runs[i].config) > 1 &&
            lk_runs_is_first(&p->basis.runs, i))
            LK_PASS(add_group(p, i, f));
    }
    *f->cost_s = f->assumed_s;
    if (!(f->xx > 0))
        return LK_OK;
    fit = fmax(0, f->xy / f->xx);
    sd = lk_prior_value(LK_PRIOR_RESOLUTION) / sqrt(2 * f->xx);
    if (!(sd < prior_sd || fit > LK_Z90 * sd))
        return LK_OK;
    *f->cost_s = fit;
    *out_sd = sd;
    return LK_OK;
}

/* Fit the cost of a collective to runs of several caps, then that of a tensor to sharded runs;
 * but what the cluster file says stands. */
static enum lk_status fit_launches(struct lk_predictor *p)
{
    struct lk_bucket_cost *b = &p->basis.bucket;
    struct launch_fit caps = {.cost_s = &b->s, .differ = differ_in_caps},
                      sharded = {.cost_s = &b->tensor_s, .differ = differ_in_sharding};
    double sd;

    *b = lk_bucket_cost_of(p->basis.cluster);
    caps.assumed_s = b->s;
    sharded.assumed_s = b->tensor_s;
    if (!b->measured) {
        LK_PASS(fit_launch(p, &caps, b->sd, &sd));
        b->measured = sd > 0;
        b->sd = sd > 0 ? sd : b->sd;
    }
    if (!b->tensor_measured) {
        LK_PASS(fit_launch(p, &sharded, b->tensor_s, &sd));
        b->tensor_measured = sd > 0;
        b->tensor_sd = sd;
    }
    return LK_OK;
}

/* ---- Making one ---- */

enum lk_status lk_predictor_create(const struct lk_job *job, const struct lk_cluster *cluster,
                                   const struct lk_predictor_options *options,
                                   struct lk_predictor **out)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = NULL;

    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    LK_TRY(lk_basis_init(&p->basis, job, cluster, options));
    LK_TRY(lk_grid_model_create(&p->basis, &p->grid));
    LK_TRY(fit_launches(p));
    *out = p;
    p = NULL;
out:
    lk_predictor_destroy(p);
    return st;
}

void lk_predictor_follow(struct lk_predictor *p, const struct lk_predictor *as_is)
{
    p->basis.bucket = as_is->basis.bucket;
    lk_grid_model_follow(p->grid, as_is->grid);
}

void lk_predictor_destroy(struct lk_predictor *p)
{
    if (!p)
        return;
    lk_grid_model_destroy(p->grid);
    lk_basis_fini(&p->basis);
    free(p);
}

/* ---- Measured configurations ---- */

/*
 * Put the runs of a configuration in the place of its model: the step of a new run, and the
 * interval of the measured mean itself, which lacks the deviation of a new run. Where no run says
 * where its steps went, that stays the model's.
 */
static enum lk_status set_measured(const struct lk_predictor *p, size_t n_runs,
                                   struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    const struct lk_config *at = &out->config;
    size_t n = (size_t)p->basis.options.draws;
    double *means = NULL;
    struct lk_estimate e;

    LK_TRY(lk_alloc(&means, n, sizeof *means));
    for (size_t i = 0; i < n; i++) {
        struct lk_rng g =
            lk_rng_init(p->basis.options.seed, lk_rng_stream("predictor.measured", i));
        struct lk_draw w = lk_basis_draw(&p->basis, i);
        double between = p->basis.runs.sd * lk_rng_normal(&g);

        means[i] = lk_runs_mean_draw(&p->basis.runs, at, &g) * exp(between / sqrt((double)n_runs));
        out->draws_s[i] =
            lk_basis_runs_draw(&p->basis, at, n_runs, &w) * exp(w.run_sd * w.z_new_run);
    }
    e = lk_stats_interval(NAN, means, n, p->basis.options.level);
    out->measured_s = out->step_s = lk_runs_mean(&p->basis.runs, at, &n_runs);
    out->measured_lo_s = e.lo;
    out->measured_hi_s = e.hi;
    out->batch_extrapolation = 1;
    out->assumed.misfit = false;
    out->evidence = LK_EVIDENCE_MEASURED;
    snprintf(out->evidence_text, sizeof out->evidence_text, "%s",
             lk_evidence_name(LK_EVIDENCE_MEASURED));
    out->losses_measured = lk_runs_losses(&p->basis.runs, at, out->losses_s);
    lk_losses_close(out->losses_s, out->step_s);
out:
    free(means);
    return st;
}

/* ---- Interface ---- */

enum lk_status lk_predictor_at(struct lk_predictor *p, const struct lk_config *config,
                               struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct lk_prediction r;
    size_t n_runs;

    lk_prediction_init(&r, config);
    lk_runs_mean(&p->basis.runs, config, &n_runs);
    LK_TRY(lk_alloc(&r.draws_s, (size_t)p->basis.options.draws, sizeof *r.draws_s));
    r.n_draws = (size_t)p->basis.options.draws;
    st = lk_grid_model_at(p->grid, &r);
    if (st == LK_EEVIDENCE && n_runs)
        st = LK_OK; /* what was measured needs no model; its losses are not known */
    LK_TRY(st);
    if (n_runs)
        LK_TRY(set_measured(p, n_runs, &r));
    else
        lk_prediction_raise(&r);
    LK_TRY(lk_predictor_interval(p, &r));
    *out = r;
    r.draws_s = NULL;
out:
    lk_prediction_fini(&r);
    return st;
}

enum lk_status lk_predictor_estimate(struct lk_predictor *p, const struct lk_config *config,
                                     double *out_step_s)
{
    size_t n_runs;

    *out_step_s = lk_runs_mean(&p->basis.runs, config, &n_runs);
    return n_runs ? LK_OK : lk_grid_model_step(p->grid, config, true, out_step_s);
}
