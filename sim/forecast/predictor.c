/*
 * Predictions with their distribution.
 *
 * Divisions: the model's mean / draws / interface.
 */
#include "sim/forecast/predictor.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/prior.h"
#include "sim/step/closed_form.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN_STEPS = 50,     /* of the fresh run that the interval is about */
    SETTLE_STEPS = 10,  /* enough where nothing is random: the loader's queue has settled */
    ESTIMATE_SEEDS = 8, /* runs that an estimate is the mean of */
};

/* Rank-bucket visits that one configuration's draws may take: about 2 s of one core. */
static const double VISITS_MAX = 2e8;

/* ---- The model's mean ---- */

static bool is_random(const struct lk_step_model *m)
{
    const struct lk_straggler_law *l = &m->law;

    return l->rank_sd > 0 || l->node_sd > 0 || l->transient_sd > 0 || l->common_sd > 0 ||
           l->link_sd > 0 || l->tail_share > 0;
}

static int steps_for(const struct lk_predictor *p, const struct lk_step_model *m)
{
    double visits = (double)m->ranks * (double)(m->n_colls + 1) * m->accumulation *
                    (p->options.draws + ESTIMATE_SEEDS);
    double affordable = VISITS_MAX / visits - LK_SIM_WARMUP;

    if (!is_random(m) || affordable < SETTLE_STEPS)
        return SETTLE_STEPS;
    return affordable < RUN_STEPS ? (int)affordable : RUN_STEPS;
}

static enum lk_status simulate(const struct lk_predictor *p, const struct lk_step_model *m,
                               uint64_t seed, double *out_mean_s, double *losses_s)
{
    enum lk_status st = LK_OK;
    struct lk_sim_request q = {.steps = steps_for(p, m), .seed = seed};
    struct lk_sim_result r;

    LK_TRY(lk_closed_form_run(m, &q, &r));
    *out_mean_s = r.mean_s;
    for (int i = 0; losses_s && i < LK_LOSS_COUNT; i++)
        losses_s[i] += r.losses_s[i];
    lk_sim_result_fini(&r);
out:
    return st;
}

/* Compute the model's mean over some seeds; losses may be NULL. */
static enum lk_status model_mean(const struct lk_predictor *p, const struct lk_step_model *m,
                                 double *out_mean_s, double *losses_s)
{
    enum lk_status st = LK_OK;
    int n = is_random(m) ? ESTIMATE_SEEDS : 1;
    double sum = 0;

    for (int i = 0; losses_s && i < LK_LOSS_COUNT; i++)
        losses_s[i] = 0;
    for (int i = 0; i < n; i++) {
        double mean;

        LK_TRY(simulate(p, m, p->options.seed + (uint64_t)i, &mean, losses_s));
        sum += mean;
    }
    for (int i = 0; losses_s && i < LK_LOSS_COUNT; i++)
        losses_s[i] /= n;
    *out_mean_s = sum / n;
out:
    return st;
}

static enum lk_status build(struct lk_predictor *p, const struct lk_config *config,
                            struct lk_config_model *out)
{
    return lk_config_model_init(out, p->job, p->cluster, p->cost, &p->slow, config);
}

/* ---- Draws ---- */

/* One prediction at work. */
struct work {
    struct lk_config_model model, anchor_model;
    struct lk_config anchor;
    size_t n_runs, n_anchor_runs; /* of the configuration; of the anchor */
    bool anchored;
    bool modelled;      /* false: measured, and without evidence for a model beside it */
    int costless_gpus;  /* GPUs of the nearest run that the cluster has no cost for; 0: none */
    double scale_error; /* of the model at this distance from the anchor, relative */
    double anchor_mean; /* the model's mean at the anchor */
};

static void work_fini(struct work *w)
{
    lk_config_model_fini(&w->model);
    lk_config_model_fini(&w->anchor_model);
}

/* Find the nearest run as anchor. Runs whose model has no cost are passed over, because nothing
 * modelled compares with them. */
static enum lk_status find_anchor(struct lk_predictor *p, const struct lk_config *at,
                                  struct work *w)
{
    enum lk_status st = LK_OK;
    double distance_from = -INFINITY;

    while (!w->anchored && lk_runs_nearest(&p->runs, at, &distance_from, &w->anchor)) {
        st = build(p, &w->anchor, &w->anchor_model);
        if (st != LK_OK && st != LK_EEVIDENCE)
            return st;
        w->anchored = st == LK_OK;
        if (!w->anchored && !w->costless_gpus)
            w->costless_gpus = w->anchor.gpus;
    }
    return LK_OK;
}

/* Build the model. A measured configuration needs none; without one it has no losses. */
static enum lk_status build_model(struct lk_predictor *p, const struct lk_config *at,
                                  struct work *w)
{
    enum lk_status st = build(p, at, &w->model);

    w->modelled = st == LK_OK;
    return st == LK_EEVIDENCE && w->n_runs ? LK_OK : st;
}

double lk_predictor_scale_error(const struct lk_predictor *p, const struct lk_config *at,
                                int anchor_gpus)
{
    double scale = isnan(p->options.scale_error)
                       ? lk_prior_value(lk_prior_of_scale(p->cluster->n_points, p->cluster->preset))
                       : p->options.scale_error;

    return scale * log2((double)at->gpus / (anchor_gpus ? anchor_gpus : 1));
}

double lk_predictor_alone_s(const struct lk_step_model *m, int accumulation)
{
    return accumulation * (m->forward_s + m->backward_s + m->input_s) + m->optimizer_s + m->gap_s;
}

double lk_predictor_with_error(double alone_s, double step_s, double scale_error, double batch_sd,
                               const struct lk_draw *w)
{
    double own_sd = hypot(batch_sd, lk_prior_value(LK_PRIOR_BASE_ERROR));

    return fmax(step_s * exp(scale_error * w->scale), fmin(step_s, alone_s)) *
           exp(own_sd * w->error);
}

static enum lk_status work_init(struct lk_predictor *p, const struct lk_config *at, struct work *w)
{
    enum lk_status st = LK_OK;

    *w = (struct work){0};
    lk_runs_mean(&p->runs, at, &w->n_runs);
    LK_TRY(build_model(p, at, w));
    if (!w->modelled)
        return LK_OK;
    LK_TRY(find_anchor(p, at, w));
    if (w->anchored) {
        lk_runs_mean(&p->runs, &w->anchor, &w->n_anchor_runs);
        LK_TRY(model_mean(p, &w->anchor_model.step, &w->anchor_mean, NULL));
    }
    w->scale_error = lk_predictor_scale_error(p, at, w->anchored ? w->anchor.gpus : 0);
out:
    if (st != LK_OK)
        work_fini(w);
    return st;
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
    struct lk_rng g = w->steps;

    return lk_runs_mean_draw(&p->runs, at, &g) * exp(w->run_sd * w->z_past_runs / sqrt((double)n));
}

struct lk_draw lk_predictor_draw(const struct lk_predictor *p, size_t i)
{
    struct lk_rng g = lk_rng_init(p->options.seed, lk_rng_stream("predictor.draw", i));
    struct lk_rng fresh = lk_rng_init(p->options.seed, lk_rng_stream("predictor.fresh_run", i));
    struct lk_draw w = {.run_sd = lk_runs_sd_draw(&p->runs, &fresh)};

    w.z_new_run = lk_rng_normal(&fresh);
    w.z_past_runs = lk_rng_normal(&g);
    w.compute = lk_rng_normal(&g);
    w.error = student(&g, 4) / sqrt(2); /* its variance is 2 */
    w.scale =
        student(&fresh, (size_t)lk_prior_value(LK_PRIOR_SCALE_TESTS) + p->options.scale_tests);
    w.steps = g;
    return w;
}

/* Draw the mean step of a new run. */
static enum lk_status draw(struct lk_predictor *p, struct work *w, const struct lk_config *at,
                           size_t i, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_draw of_draw = lk_predictor_draw(p, i);
    uint64_t seed = lk_rng_at(p->options.seed, lk_rng_stream("predictor.stragglers", 0), i);
    double s, at_anchor;

    if (w->n_runs) {
        s = lk_predictor_runs_draw(p, at, w->n_runs, &of_draw);
    } else {
        LK_TRY(lk_config_model_costs(&w->model, p->draws[i]));
        LK_TRY(simulate(p, &w->model.step, seed, &s, NULL));
        s = lk_predictor_with_error(lk_predictor_alone_s(&w->model.step, at->accumulation), s,
                                    w->scale_error, w->model.batch_sd, &of_draw);
        if (w->anchored) {
            LK_TRY(lk_config_model_costs(&w->anchor_model, p->draws[i]));
            LK_TRY(simulate(p, &w->anchor_model.step, seed, &at_anchor, NULL));
            s *= lk_predictor_runs_draw(p, &w->anchor, w->n_anchor_runs, &of_draw) / at_anchor;
        } else {
            s *= exp(w->model.compute_sd * of_draw.compute);
        }
    }
    *out = s * exp(of_draw.run_sd * of_draw.z_new_run);
out:
    return st;
}

enum lk_status lk_predictor_interval(const struct lk_predictor *p, const double *draws_s,
                                     struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)p->options.draws;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, n, sizeof *sorted));
    memcpy(sorted, draws_s, n * sizeof *sorted);
    lk_stats_predictive(sorted, n, p->options.level, &out->lo_s, &out->hi_s);
    out->lo_s = fmin(out->step_s, out->lo_s);
    out->hi_s = fmax(out->step_s, out->hi_s);
out:
    free(sorted);
    return st;
}

static enum lk_status draw_all(struct lk_predictor *p, struct work *w, const struct lk_config *at,
                               struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)p->options.draws;

    LK_TRY(lk_alloc(&out->draws_s, n, sizeof *out->draws_s));
    for (; out->n_draws < n; out->n_draws++)
        LK_TRY(draw(p, w, at, out->n_draws, &out->draws_s[out->n_draws]));
    LK_TRY(lk_predictor_interval(p, out->draws_s, out));
out:
    return st;
}

/* ---- Interface ---- */

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
    for (int i = 0; p->draws && i < p->options.draws; i++)
        lk_cost_model_destroy(p->draws[i]);
    free(p->draws);
    lk_cost_model_destroy(p->cost);
    lk_known_stragglers_fini(&p->slow);
    free(p);
}

void lk_prediction_fini(struct lk_prediction *p)
{
    free(p->draws_s);
    memset(p, 0, sizeof *p);
}

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
                        int anchor_gpus, const struct lk_config *at, enum lk_evidence *out,
                        char *text)
{
    static const char scheme[] = "extrapolated to";
    struct lk_runs_extrapolation runs = lk_runs_extrapolation(&p->runs, at);
    double gpus = (double)at->gpus / (anchor_gpus ? anchor_gpus : 1);
    bool preset = p->cluster->preset && at->gpus > 1;
    bool beyond = gpus > 1 || m->batch_extrapolation > 1;
    const char *joint = ",";

    *out = preset ? LK_EVIDENCE_PRESET : m->evidence;
    snprintf(text, EVIDENCE_TEXT_BYTES, "%s",
             preset ? lk_evidence_name(LK_EVIDENCE_PRESET) : m->evidence_text);
    if (preset) {
        joint = "; extrapolated";
        gpus = 1; /* the preset's own */
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
    append_reach(text, &joint, gpus, "gpus");
    append_reach(text, &joint, m->batch_extrapolation, "local batch");
    append_reach(text, &joint, runs.accumulation, "accumulation");
    append_reach(text, &joint, runs.cap, "bucket cap");
}

/* Grade a measured configuration as such, another by the model and the distance to its anchor. */
static void set_evidence(const struct lk_predictor *p, const struct work *w,
                         const struct lk_config *at, struct lk_prediction *out)
{
    out->batch_extrapolation = w->n_runs ? 1 : w->model.batch_extrapolation;
    out->evidence = LK_EVIDENCE_MEASURED;
    snprintf(out->evidence_text, sizeof out->evidence_text, "%s",
             lk_evidence_name(LK_EVIDENCE_MEASURED));
    if (!w->n_runs)
        lk_predictor_grade(p, &w->model, w->anchored ? w->anchor.gpus : 0, at, &out->evidence,
                           out->evidence_text);
}

/*
 * Scale the model's losses to the predicted step: the anchor's correction is spread in proportion,
 * as nothing tells which loss it belongs to. A single rank has no others to be slower than, so its
 * slowness counts as ideal.
 */
static void scale_losses(double *losses_s, int gpus, double factor)
{
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        losses_s[i] *= factor;
    if (gpus == 1) {
        losses_s[LK_LOSS_IDEAL] += losses_s[LK_LOSS_SLOW_RANK];
        losses_s[LK_LOSS_SLOW_RANK] = 0;
    }
}

static enum lk_status set_estimate(struct lk_predictor *p, struct work *w,
                                   const struct lk_config *at, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    double modelled;
    size_t n;

    out->anchor_factor = 1;
    out->anchor_gpus = w->anchored ? w->anchor.gpus : 0;
    out->measured_s = lk_runs_mean(&p->runs, at, &n);
    if (!w->modelled) {
        out->step_s = out->measured_s;
        for (int i = 0; i < LK_LOSS_COUNT; i++)
            out->losses_s[i] = NAN;
        return LK_OK;
    }
    LK_TRY(model_mean(p, &w->model.step, &modelled, out->losses_s));
    if (w->anchored)
        out->anchor_factor = lk_runs_mean(&p->runs, &w->anchor, &n) / w->anchor_mean;
    out->step_s = w->n_runs ? out->measured_s : modelled * out->anchor_factor;
    scale_losses(out->losses_s, at->gpus, out->step_s / modelled);
out:
    return st;
}

/* Set the interval of the measured mean itself, without the deviation of a new run. */
static enum lk_status set_measured_interval(struct lk_predictor *p, struct work *w,
                                            const struct lk_config *at, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    double *means = NULL;
    struct lk_estimate e;
    size_t n = (size_t)p->options.draws;

    out->measured_lo_s = out->measured_hi_s = NAN;
    if (!w->n_runs)
        return LK_OK;
    LK_TRY(lk_alloc(&means, n, sizeof *means));
    for (size_t i = 0; i < n; i++) {
        struct lk_rng g = lk_rng_init(p->options.seed, lk_rng_stream("predictor.measured", i));

        double between = p->runs.sd * lk_rng_normal(&g);

        means[i] = lk_runs_mean_draw(&p->runs, at, &g) * exp(between / sqrt((double)w->n_runs));
    }
    e = lk_stats_interval(NAN, means, n, p->options.level);
    out->measured_lo_s = e.lo;
    out->measured_hi_s = e.hi;
out:
    free(means);
    return st;
}

enum lk_status lk_predictor_at(struct lk_predictor *p, const struct lk_config *config,
                               struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct work w = {0};
    struct lk_prediction r = {.config = *config};

    LK_TRY(work_init(p, config, &w));
    LK_TRY(set_estimate(p, &w, config, &r));
    set_evidence(p, &w, config, &r);
    r.rank_sd_assumed = w.model.rank_sd_assumed && config->gpus > 1;
    r.transient_assumed = w.model.transient_assumed && config->gpus > 1;
    r.overlap_unknown = w.model.overlap_unknown && config->gpus > 1;
    r.kappa_unknown = w.model.kappa_unknown;
    r.costless_gpus = w.costless_gpus;
    LK_TRY(set_measured_interval(p, &w, config, &r));
    LK_TRY(draw_all(p, &w, config, &r));
    *out = r;
    r.draws_s = NULL;
out:
    lk_prediction_fini(&r);
    work_fini(&w);
    return st;
}

enum lk_status lk_predictor_estimate(struct lk_predictor *p, const struct lk_config *config,
                                     double *out_step_s)
{
    enum lk_status st = LK_OK;
    struct work w = {0};
    struct lk_prediction r = {0};

    LK_TRY(work_init(p, config, &w));
    LK_TRY(set_estimate(p, &w, config, &r));
    *out_step_s = r.step_s;
out:
    work_fini(&w);
    return st;
}
