/*
 * Predictions with their distribution.
 *
 * Divisions: draws / making one / grades / measured configurations / interface.
 */
#include "sim/forecast/predictor.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/coll_points.h"
#include "sim/forecast/grid_model.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Draws ---- */

double lk_predictor_scale_error(const struct lk_predictor *p, const struct lk_config *at,
                                int anchor_world_size)
{
    double scale = isnan(p->options.scale_error)
                       ? lk_prior_value(lk_prior_of_scale(p->cluster->n_points, p->cluster->preset))
                       : p->options.scale_error;

    return scale * log2((double)at->world_size / (anchor_world_size ? anchor_world_size : 1));
}

double lk_predictor_alone_s(const struct lk_step_model *m, int accumulation)
{
    return accumulation * (m->forward_s + m->backward_s + m->input_s) + m->optimizer_s + m->gap_s;
}

double lk_predictor_with_error(double alone_s, double step_s, double scale_error,
                               const struct lk_draw *w)
{
    return fmax(step_s * exp(scale_error * w->scale), fmin(step_s, alone_s)) *
           exp(lk_prior_value(LK_PRIOR_BASE_ERROR) * w->error);
}

/* Draw Student's t. Chi-squared is a sum of squared normal numbers, two of which are exponential.
 */
static double student(struct lk_rng *g, size_t freedom)
{
    double chi2 = 0, z;

    for (size_t i = 0; i < freedom / 2; i++)
        chi2 += 2 * lk_rng_exponential(g);
    if (freedom % 2) {
        z = lk_rng_normal(g);
        chi2 += z * z;
    }
    return lk_rng_normal(g) / sqrt(chi2 / (double)freedom);
}

double lk_predictor_runs_draw(const struct lk_predictor *p, const struct lk_config *at, size_t n,
                              const struct lk_draw *w)
{
    char text[128];
    struct lk_rng g;
    double deviation;

    snprintf(text, sizeof text, "%d %d %d %d %d %llu", at->world_size, at->nodes, at->local_batch,
             at->accumulation, at->no_sync, (unsigned long long)at->cap_bytes);
    g = lk_rng_init(w->past, lk_rng_stream(text, 0));
    deviation = w->run_sd * lk_rng_normal(&g) / sqrt((double)n);
    return lk_runs_mean_draw(&p->runs, at, &g) * exp(deviation);
}

struct lk_draw lk_predictor_draw(const struct lk_predictor *p, size_t i)
{
    struct lk_rng g = lk_rng_init(p->options.seed, lk_rng_stream("predictor.draw", i));
    struct lk_rng fresh = lk_rng_init(p->options.seed, lk_rng_stream("predictor.fresh_run", i));
    struct lk_draw w = {.run_sd = lk_runs_sd_draw(&p->runs, &fresh)};

    w.z_new_run = lk_rng_normal(&fresh);
    w.compute = lk_rng_normal(&g);
    w.error = student(&g, 4) / sqrt(2); /* its variance is 2 */
    w.scale =
        student(&fresh, (size_t)lk_prior_value(LK_PRIOR_SCALE_TESTS) + p->options.scale_tests);
    w.past = lk_rng_u64(&g);
    return w;
}

enum lk_status lk_predictor_interval(const struct lk_predictor *p, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, out->n_draws, sizeof *sorted));
    memcpy(sorted, out->draws_s, out->n_draws * sizeof *sorted);
    lk_stats_predictive(sorted, out->n_draws, p->options.level, &out->lo_s, &out->hi_s);
    out->lo_s = fmin(out->step_s, out->lo_s);
    out->hi_s = fmax(out->step_s, out->hi_s);
out:
    free(sorted);
    return st;
}

/* ---- The cost of a bucket ---- */

/* Return true if two configurations differ in their bucket caps alone. */
static bool differ_in_caps(const struct lk_config *a, const struct lk_config *b)
{
    struct lk_config same = *b;

    same.first_bytes = a->first_bytes;
    same.cap_bytes = a->cap_bytes;
    return lk_config_equal(a, &same) && !lk_config_equal(a, b);
}

/* Set *y to ln(measured / modelled) of a run without the cost of buckets, and *x to what a second
 * of it changes. LK_EEVIDENCE: nothing models the run. */
static enum lk_status bucket_evidence(struct lk_predictor *p, const struct lk_config *c, double *x,
                                      double *y)
{
    const double cost_s = lk_prior_value(LK_PRIOR_BUCKET);
    double bare, charged;
    size_t n;

    p->bucket.s = 0;
    LK_PASS(lk_grid_model_step(p->grid, c, false, &bare));
    p->bucket.s = cost_s;
    LK_PASS(lk_grid_model_step(p->grid, c, false, &charged));
    *x = log(charged / bare) / cost_s;
    *y = log(lk_runs_mean(&p->runs, c, &n) / bare);
    return LK_OK;
}

/* Sums of a regression through the means of groups of runs that differ in their caps alone. */
struct bucket_fit {
    double xx, xy;
};

/* Add the runs of a group, if its first one is run i. */
static enum lk_status add_group(struct lk_predictor *p, size_t i, struct bucket_fit *f)
{
    const struct lk_job *j = p->job;
    double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;

    for (size_t k = 0; k < j->n_runs; k++) {
        const struct lk_config *c = &j->runs[k].config;
        double x, y;
        enum lk_status st;

        if (!lk_runs_is_first(&p->runs, k) || (k != i && !differ_in_caps(&j->runs[i].config, c)))
            continue;
        if (k < i)
            return LK_OK;
        st = bucket_evidence(p, c, &x, &y);
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
 * Fit the cost to runs of several caps: least squares, where the ratio of two runs has the error of
 * LK_PRIOR_RESOLUTION. A fit that knows less than the prior does is not taken.
 */
static enum lk_status fit_bucket_cost(struct lk_predictor *p)
{
    const struct lk_job *j = p->job;
    struct lk_bucket_cost fit = {.measured = true};
    struct bucket_fit f = {0, 0};

    for (size_t i = 0; i < j->n_runs; i++) {
        bool several = false;

        for (size_t k = i + 1; k < j->n_runs && !several; k++)
            several = differ_in_caps(&j->runs[i].config, &j->runs[k].config);
        if (several && j->runs[i].config.world_size > 1 && lk_runs_is_first(&p->runs, i))
            LK_PASS(add_group(p, i, &f));
    }
    p->bucket = lk_bucket_cost_assumed();
    if (!(f.xx > 0))
        return LK_OK;
    fit.s = fmax(0, f.xy / f.xx);
    fit.sd = lk_prior_value(LK_PRIOR_RESOLUTION) / sqrt(2 * f.xx);
    if (fit.sd < p->bucket.sd || fit.s > LK_Z90 * fit.sd)
        p->bucket = fit;
    return LK_OK;
}

/* ---- Making one ---- */

enum lk_status lk_predictor_create(const struct lk_job *job, const struct lk_cluster *cluster,
                                   const struct lk_predictor_options *options,
                                   struct lk_predictor **out)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = NULL;
    struct lk_cluster fitted = {0};
    bool own_fits = false;

    if (options->draws < 2 || !(options->level > 0 && options->level < 1))
        return lk_fail(LK_EUSAGE, "predictor: %d draws at level %g", options->draws,
                       options->level);
    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    p->job = job;
    p->cluster = cluster;
    p->options = *options;
    p->runs = lk_runs_of(job, cluster);
    LK_TRY(lk_known_stragglers_init(&p->slow, job, cluster));
    LK_TRY(lk_alloc(&p->draws, (size_t)options->draws, sizeof *p->draws));
    LK_TRY(lk_alpha_beta_fit_missing(cluster, &fitted, &own_fits));
    LK_TRY(lk_cost_model_create(&fitted, NULL, NULL, &p->cost));
    for (int i = 0; i < options->draws; i++) {
        struct lk_rng g = lk_rng_init(options->seed, lk_rng_stream("predictor.cost", (uint64_t)i));

        LK_TRY(lk_cost_model_create(&fitted, &g, NULL, &p->draws[i]));
    }
    LK_TRY(lk_grid_model_create(p, &p->grid));
    LK_TRY(fit_bucket_cost(p));
    *out = p;
    p = NULL;
out:
    if (own_fits)
        lk_alpha_beta_fits_free(fitted.fits, fitted.n_fits);
    lk_predictor_destroy(p);
    return st;
}

void lk_predictor_destroy(struct lk_predictor *p)
{
    if (!p)
        return;
    lk_grid_model_destroy(p->grid);
    for (int i = 0; p->draws && i < p->options.draws; i++)
        lk_cost_model_destroy(p->draws[i]);
    free(p->draws);
    lk_cost_model_destroy(p->cost);
    lk_known_stragglers_fini(&p->slow);
    free(p);
}

/* ---- Grades ---- */

enum { EVIDENCE_TEXT_BYTES = sizeof((struct lk_prediction *)0)->evidence_text };

/* Appends " x4 on gpus" and the like, apart by commas after `joint`. */
static void append_reach(char *text, const char **joint, double reach, const char *axis)
{
    size_t n = strlen(text);

    if (reach <= 1)
        return;
    snprintf(text + n, EVIDENCE_TEXT_BYTES - n, "%s x%.3g on %s", *joint, reach, axis);
    *joint = ",";
}

void lk_predictor_grade(const struct lk_predictor *p, const struct lk_config_model *m,
                        int anchor_world_size, const struct lk_config *at, enum lk_evidence *out,
                        char *text)
{
    static const char scheme[] = "extrapolated to";
    struct lk_runs_extrapolation runs = lk_runs_extrapolation(&p->runs, at);
    double world_size = (double)at->world_size / (anchor_world_size ? anchor_world_size : 1);
    bool preset = p->cluster->preset && at->world_size > 1;
    bool beyond = world_size > 1 || m->batch_extrapolation > 1;
    const char *joint = ",";

    *out = preset ? LK_EVIDENCE_PRESET : m->evidence;
    snprintf(text, EVIDENCE_TEXT_BYTES, "%s",
             preset ? lk_evidence_name(LK_EVIDENCE_PRESET) : m->evidence_text);
    if (preset) {
        joint = "; extrapolated";
        world_size = 1; /* the preset's own */
    } else if (m->evidence > LK_EVIDENCE_EXTRAPOLATED ||
               (!beyond && runs.accumulation <= 1 && runs.cap <= 1)) {
        return;
    } else {
        *out = LK_EVIDENCE_EXTRAPOLATED;
        if (m->evidence < LK_EVIDENCE_EXTRAPOLATED ||
            (beyond && strncmp(text, scheme, sizeof scheme - 1) != 0)) {
            snprintf(text, EVIDENCE_TEXT_BYTES, "extrapolated");
            joint = "";
        }
    }
    append_reach(text, &joint, world_size, "gpus");
    append_reach(text, &joint, m->batch_extrapolation, "local batch");
    if (!strstr(text, "bytes")) /* the model's own text may say it */
        append_reach(text, &joint, m->bytes_extrapolation, "bytes");
    append_reach(text, &joint, runs.accumulation, "accumulation");
    append_reach(text, &joint, runs.cap, "bucket cap");
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
    size_t n = (size_t)p->options.draws;
    double *means = NULL;
    struct lk_estimate e;

    LK_TRY(lk_alloc(&means, n, sizeof *means));
    for (size_t i = 0; i < n; i++) {
        struct lk_rng g = lk_rng_init(p->options.seed, lk_rng_stream("predictor.measured", i));
        struct lk_draw w = lk_predictor_draw(p, i);
        double between = p->runs.sd * lk_rng_normal(&g);

        means[i] = lk_runs_mean_draw(&p->runs, at, &g) * exp(between / sqrt((double)n_runs));
        out->draws_s[i] = lk_predictor_runs_draw(p, at, n_runs, &w) * exp(w.run_sd * w.z_new_run);
    }
    e = lk_stats_interval(NAN, means, n, p->options.level);
    out->measured_s = out->step_s = lk_runs_mean(&p->runs, at, &n_runs);
    out->measured_lo_s = e.lo;
    out->measured_hi_s = e.hi;
    out->batch_extrapolation = 1;
    out->evidence = LK_EVIDENCE_MEASURED;
    snprintf(out->evidence_text, sizeof out->evidence_text, "%s",
             lk_evidence_name(LK_EVIDENCE_MEASURED));
    out->losses_measured = lk_runs_losses(&p->runs, at, out->losses_s);
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
    lk_runs_mean(&p->runs, config, &n_runs);
    LK_TRY(lk_alloc(&r.draws_s, (size_t)p->options.draws, sizeof *r.draws_s));
    r.n_draws = (size_t)p->options.draws;
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

    *out_step_s = lk_runs_mean(&p->runs, config, &n_runs);
    return n_runs ? LK_OK : lk_grid_model_step(p->grid, config, true, out_step_s);
}
