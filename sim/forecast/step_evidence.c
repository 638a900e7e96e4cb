/*
 * The step model of a job on a cluster, with the job's runs, as a source of evidence.
 *
 * Divisions: predictions / altered machines / one more measurement / back-tests / names / the
 * whole.
 */
#include "sim/forecast/step_evidence.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/contradiction.h"
#include "sim/forecast/hypothesis.h"
#include "sim/forecast/job_doubts.h"
#include "sim/forecast/predictor.h"
#include "sim/forecast/recorded_buckets.h"
#include "sim/forecast/step_notes.h"
#include "sim/planning/plan.h"
#include "sim/prior.h"
#include "sim/step/altered_cluster.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/measured_runs.h"
#include "sim/step/overlap.h"
#include "sim/step/volume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ESTIMATE_DRAWS = 2 }; /* as few as a predictor takes: for estimates alone */
static const double CHOICE_ROUNDING = 1e-9;

struct model {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    struct lk_fitted_cluster fitted; /* of the machine as it is */
    int64_t global_batch;
    bool compare;
    struct lk_evidence_source law; /* answers where the runs contradict the model; self NULL:
                                      nothing does */
    bool by_law;
    struct lk_predictor_options options;
    struct lk_drawn_costs costs; /* of the cluster: all predictors share them */
    struct lk_predictor *predictor;
    /* For a job of recorded buckets (sim/forecast/recorded_buckets.h), else zeroed and NULL. */
    struct lk_job split_job;
    struct lk_predictor *split;
    int reference_world_size;
    bool reference_measured;
    struct lk_measured *measured;
    size_t n_measured;
    bool estimates_only; /* back-tests need no interval */
    /* These two belong to an altered machine. */
    struct lk_altered altered;
    bool other_links;
    struct lk_hypothetical more; /* with a measurement that was not made */
    const struct model *as_is;   /* the machine as it is; NULL: this is it */
};

static void model_close(void *self)
{
    struct model *m = self;

    if (!m)
        return;
    lk_predictor_destroy(m->predictor);
    lk_predictor_destroy(m->split);
    lk_drawn_costs_fini(&m->costs);
    lk_buckets_fini(&m->split_job);
    lk_altered_fini(&m->altered);
    lk_hypothetical_fini(&m->more);
    lk_fitted_cluster_fini(&m->fitted);
    if (m->law.self)
        m->law.ops->close(m->law.self);
    free(m->measured);
    free(m);
}

/* ---- Predictions ---- */

/* Makes, once, the costs that the predictors of m->job and of parts of it share. */
static enum lk_status make_costs(struct model *m)
{
    if (m->options.costs)
        return LK_OK;
    LK_PASS(lk_drawn_costs_init(&m->costs, m->cluster, m->options.draws, m->options.network_seed));
    m->options.costs = &m->costs;
    return LK_OK;
}

/* Makes the predictors of m->job. */
static enum lk_status make_predictors(struct model *m)
{
    LK_PASS(lk_predictor_create(m->job, m->cluster, &m->options, &m->predictor));
    if (!m->job->recorded_buckets)
        return LK_OK;
    LK_PASS(lk_buckets_split(m->job, &m->split_job));
    return lk_predictor_create(&m->split_job, m->cluster, &m->options, &m->split);
}

/* Sets what NCCL's choices on an altered machine cost beyond those on the machine as it is. */
static enum lk_status set_choice(const struct model *m, struct lk_prediction *p)
{
    enum lk_status st = LK_OK;
    const struct lk_config *c = &p->config;
    const struct lk_basis *here = &m->predictor->basis, *as_is = &m->as_is->predictor->basis;
    const struct lk_overlap o = lk_overlap_of(m->cluster);
    struct lk_volume v = {0};
    double most_s = 0, times = 1;
    char text[64] = "";

    LK_TRY(lk_volume_init(&v, m->job, c));
    for (size_t i = 0; i < v.n; i++) {
        const struct lk_volume_coll *k = &v.colls[i];
        const struct lk_step_coll *s = &v.steps[i];
        enum lk_algo algo = s->coll == LK_ALL_REDUCE ? c->algo : LK_ALGO_AUTO;
        bool again = i && s->coll == s[-1].coll && s->bytes == s[-1].bytes &&
                     k->ranks == k[-1].ranks && k->nodes == k[-1].nodes;
        char bytes[32];
        struct lk_cost cost = {0};
        double more_s;

        if (!again)
            times = lk_cost_choice(here->cost, as_is->cost, s->coll, algo, k->ranks, k->nodes,
                                   s->bytes, text);
        if (!(times > 1 + CHOICE_ROUNDING))
            continue;
        LK_TRY(lk_cost_eval(here->cost, s->coll, algo, k->ranks, k->nodes, &s->bytes, 1, &cost));
        more_s = cost.seconds * (1 - 1 / times) / k->period * (1 + o.delta) * (1 + o.gamma_wire) *
                 (s->every_micro_batch ? c->accumulation : 1);
        p->choice_s += more_s;
        if (more_s > most_s)
            snprintf(p->choice_text, sizeof p->choice_text, "%s for %s of %s", text,
                     lk_coll_name(s->coll),
                     lk_units_format(LK_DIM_BYTES, (double)s->bytes, bytes, sizeof bytes));
        most_s = fmax(most_s, more_s);
    }
out:
    lk_volume_fini(&v);
    return st;
}

static enum lk_status at(void *self, const struct lk_config *c, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct model *m = self;
    struct lk_prediction p = {0}, split = {0};

    if (m->by_law)
        return m->law.ops->at(m->law.self, c, out);
    LK_TRY(lk_predictor_at(m->predictor, c, &p));
    if (m->split && lk_buckets_unknown(m->job, c)) {
        LK_TRY(lk_predictor_at(m->split, c, &split));
        LK_TRY(lk_buckets_mix(&p, &split, m->options.level));
    }
    if (m->as_is && p.evidence < LK_EVIDENCE_EXTRAPOLATED) {
        p.evidence = LK_EVIDENCE_EXTRAPOLATED;
        snprintf(p.evidence_text, sizeof p.evidence_text, "extrapolated to a changed machine");
    }
    if (m->other_links)
        LK_TRY(set_choice(m, &p));
    *out = p;
    p = (struct lk_prediction){0};
out:
    lk_prediction_fini(&split);
    lk_prediction_fini(&p);
    return st;
}

static enum lk_status estimate(void *self, const struct lk_config *c, double *out_step_s)
{
    struct model *m = self;
    double split_s;

    if (m->by_law)
        return m->law.ops->estimate(m->law.self, c, out_step_s);
    LK_PASS(lk_predictor_estimate(m->predictor, c, out_step_s));
    if (!m->split || !lk_buckets_unknown(m->job, c))
        return LK_OK;
    LK_PASS(lk_predictor_estimate(m->split, c, &split_s));
    *out_step_s = (*out_step_s + split_s) / 2;
    return LK_OK;
}

static enum lk_status set_reference(const void *self, struct lk_config *c)
{
    const struct model *m = self;

    if (m->by_law)
        return m->law.ops->set_reference(m->law.self, c);
    c->world_size = m->reference_world_size;
    return lk_config_nodes(m->cluster, c);
}

/* ---- Altered machines ---- */

static bool changes_links(const struct lk_change *c)
{
    const struct lk_scaled *of[] = {&c->bandwidth_Bps[LK_LINK_INTRA],
                                    &c->latency_s[LK_LINK_INTRA],
                                    &c->bandwidth_Bps[LK_LINK_INTER],
                                    &c->latency_s[LK_LINK_INTER],
                                    &c->node_Bps,
                                    &c->oversubscription};
    bool changes = c->nodes_per_switch || c->gpus_per_node;

    for (size_t i = 0; i < LK_COUNT(of); i++)
        changes |= of[i]->value > 0;
    return changes;
}

static enum lk_status alter(void *self, const struct lk_change *change, int world_size, void **out)
{
    enum lk_status st = LK_OK;
    const struct model *as_is = self;
    struct model *m = NULL;

    if (as_is->by_law)
        return lk_fail(LK_EEVIDENCE,
                       "%s: the step model, which the runs contradict, would alone tell what "
                       "another machine does",
                       as_is->job->name);
    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    *m = (struct model){.options = as_is->options, .as_is = as_is, .compare = as_is->compare};
    m->options.costs = NULL; /* another machine's */
    m->other_links = changes_links(change);
    LK_TRY(lk_altered_init(&m->altered, as_is->job, as_is->cluster, change, world_size));
    m->job = &m->altered.job;
    m->cluster = &m->altered.cluster;
    LK_TRY(make_costs(m));
    LK_TRY(make_predictors(m));
    lk_predictor_follow(m->predictor, as_is->predictor);
    if (m->split)
        lk_predictor_follow(m->split, as_is->split);
    *out = m;
    m = NULL;
out:
    model_close(m);
    return st;
}

/* ---- One more measurement ---- */

static enum lk_status list_measured(struct model *m);

static enum lk_status with(void *self, const struct lk_hypothesis *h, void **out)
{
    enum lk_status st = LK_OK;
    const struct model *of = self;
    struct model *m = NULL;

    if (of->by_law)
        return lk_fail(LK_EEVIDENCE,
                       "%s: the runs contradict the step model, so what another run "
                       "would tell it is not known",
                       of->job->name);
    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    *m = (struct model){.options = of->options, .global_batch = of->global_batch};
    m->options.scale_error = NAN;
    LK_TRY(lk_hypothetical_init(&m->more, of->job, of->cluster, of->predictor->basis.cost, h));
    m->job = &m->more.job;
    m->cluster = of->cluster;
    if (h->collectives) {
        m->options.costs = NULL; /* another cluster's */
        LK_TRY(lk_fitted_cluster_init(&m->fitted, &m->more.cluster));
        m->cluster = &m->fitted.cluster;
    }
    m->reference_world_size = of->reference_world_size;
    m->reference_measured = of->reference_measured;
    LK_TRY(list_measured(m));
    *out = m;
    m = NULL;
out:
    model_close(m);
    return st;
}

/* ---- Back-tests ---- */

/* Copies a job without its rows of compute and runs, for which it has room; their contents stay the
 * job's. */
static enum lk_status view_init(struct lk_job *v, const struct lk_job *j)
{
    *v = *j;
    v->compute = NULL;
    v->runs = NULL;
    v->n_compute = v->n_runs = 0;
    LK_PASS(lk_alloc(&v->compute, j->n_compute, sizeof *v->compute));
    return lk_alloc(&v->runs, j->n_runs, sizeof *v->runs);
}

/* Keeps the runs that are left, and the compute rows of other batches; where another thing was held
 * out, of batches that a run has that is left, as the other rows came from what was held out. */
static void keep_rest(struct lk_job *v, const struct model *m, const struct lk_config *of,
                      enum lk_held held)
{
    const struct lk_job *j = m->job;

    for (size_t i = 0; i < j->n_runs; i++)
        if (lk_run_counts(m->cluster, j, &j->runs[i]) &&
            lk_backtest_leaves(&j->runs[i].config, of, held))
            v->runs[v->n_runs++] = j->runs[i];
    for (size_t i = 0; i < j->n_compute; i++) {
        bool keep = held == LK_HELD_BATCH && j->compute[i].local_batch != of->local_batch;

        for (size_t r = 0; r < v->n_runs && held != LK_HELD_BATCH; r++)
            keep |= v->runs[r].config.local_batch == j->compute[i].local_batch;
        if (keep)
            v->compute[v->n_compute++] = j->compute[i];
    }
}

/* Lists the configurations that were run, and the batches of which only the compute was measured.
 */
static enum lk_status list_measured(struct model *m)
{
    const struct lk_job *j = m->job;
    const struct lk_runs runs = {.job = j, .cluster = m->cluster};
    struct lk_measured *v;
    size_t n = 0, k;

    LK_PASS(lk_alloc(&m->measured, j->n_runs + j->n_compute, sizeof *m->measured));
    v = m->measured;
    for (size_t i = 0; i < j->n_runs; i++)
        if (lk_runs_is_first(&runs, i)) {
            v[n].config = j->runs[i].config;
            v[n++].step_s = lk_runs_mean(&runs, &j->runs[i].config, &k);
        }
    for (size_t i = 0; i < j->n_compute; i++) {
        for (k = 0; k < n && v[k].config.local_batch != j->compute[i].local_batch;)
            k++;
        if (k == n)
            v[n++] = (struct lk_measured){
                .config = {.world_size = 1, .nodes = 1, .local_batch = j->compute[i].local_batch},
                .step_s = NAN};
    }
    m->n_measured = n;
    return LK_OK;
}

static struct lk_evidence_source source_of(struct model *m);

/* Back-tests what was measured, of the rest that is left by a back-test its scales alone, and sets
 * the error of the scale from that. */
static enum lk_status learn_scale_error(struct model *m, struct lk_backtests *out)
{
    struct lk_evidence_source source = source_of(m);
    enum lk_prior prior = lk_prior_of_scale(m->cluster->n_points);

    if (m->estimates_only)
        LK_PASS(lk_backtest_run_scales(&source, m->options.level, out));
    else
        LK_PASS(lk_backtest_run(&source, m->options.level, 0, out));
    m->options.scale_error = lk_backtest_scale_error(out, prior, &m->options.scale_tests);
    return LK_OK;
}

/* As `predict` does from a job that lacks what is held out: what is left is back-tested, too. */
static enum lk_status learn_held_out(const struct model *m, const struct lk_job *rest,
                                     struct lk_predictor_options *out)
{
    enum lk_status st = LK_OK;
    struct model left = {
        .job = rest, .cluster = m->cluster, .options = m->options, .estimates_only = true};
    struct lk_backtests b = {0};

    left.options.draws = ESTIMATE_DRAWS;
    LK_TRY(list_measured(&left));
    LK_TRY(learn_scale_error(&left, &b));
    out->scale_error = left.options.scale_error;
    out->scale_tests = left.options.scale_tests;
out:
    lk_backtests_fini(&b);
    free(left.measured);
    return st;
}

static enum lk_status predict_held_out(void *self, const struct lk_config *c, enum lk_held held,
                                       struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct model *m = self;
    struct lk_job rest = {0};
    struct lk_predictor_options options;
    struct lk_predictor *p = NULL;

    LK_TRY(make_costs(m));
    options = m->options;
    LK_TRY(view_init(&rest, m->job));
    keep_rest(&rest, m, c, held);
    if (held == LK_HELD_BATCH ? rest.n_compute < 2 : !rest.n_runs || !rest.n_compute) {
        st = lk_fail(LK_EEVIDENCE, "job %s: too little is left without it", m->job->name);
        goto out;
    }
    options.scale_error = NAN;
    if (!m->estimates_only)
        LK_TRY(learn_held_out(m, &rest, &options));
    LK_TRY(lk_predictor_create(&rest, m->cluster, &options, &p));
    LK_TRY(lk_predictor_at(p, c, out));
out:
    lk_predictor_destroy(p);
    free(rest.compute);
    free(rest.runs);
    return st;
}

/* ---- Names ---- */

static enum lk_status set_names(const struct model *m, struct lk_forecast *out)
{
    char like[64] = "same local batch and accumulation";

    if (m->global_batch > 0)
        snprintf(like, sizeof like, "the same global batch %lld", (long long)m->global_batch);
    LK_PASS(lk_strdup(&out->job, m->job->name));
    LK_PASS(lk_strdup(&out->cluster, m->cluster->name));
    LK_PASS(lk_strdup(&out->sample_unit, m->job->sample_unit));
    return lk_asprintf(&out->reference, "%d GPU%s%s%s, %s", m->reference_world_size,
                       m->reference_world_size == 1 ? "" : "s",
                       m->reference_measured ? "" : ", modelled",
                       m->compare ? ", plain DDP on the same machine" : "", like);
}

static enum lk_status conclude(const void *self, const struct lk_prediction *const *points,
                               size_t n, struct lk_forecast *out)
{
    const struct model *m = self;

    LK_PASS(lk_job_doubts_add(m->job, m->cluster, out));
    LK_PASS(lk_step_repeats_say(&m->predictor->basis, out));
    if (m->by_law)
        return m->law.ops->conclude(m->law.self, points, n, out);
    LK_PASS(lk_step_note_choice(points, n, out));
    LK_PASS(lk_step_places_add(&m->predictor->basis, points, n, out));
    return m->compare ? LK_OK
                      : lk_step_notes_add(&m->predictor->basis, m->split != NULL, points, n, out);
}

/* ---- The whole ---- */

/* Lets the law answer in the place of the refuted model, if the runs do not contradict it, too. */
static enum lk_status let_answer(struct model *m, struct lk_forecast *out)
{
    size_t of_model = out->n_contradictions;

    m->by_law = true;
    LK_PASS(m->law.ops->prepare(m->law.self, out));
    free(out->cluster);
    out->cluster = NULL;
    LK_PASS(lk_strdup(&out->cluster, m->cluster->name));
    return out->n_contradictions == of_model
               ? lk_contradictions_answer(out, "the scaling law alone")
               : LK_OK;
}

static enum lk_status prepare(void *self, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct model *m = self;
    struct lk_evidence_source source = source_of(m);
    struct lk_backtests b = {0};

    LK_TRY(make_costs(m));
    LK_TRY(learn_scale_error(m, &b));
    LK_TRY(lk_backtest_add(&b, out));
    LK_TRY(make_predictors(m));
    LK_TRY(lk_trial_hold(&(struct lk_trial){.source = &source,
                                            .by = m->job->name,
                                            .odds = NAN,
                                            .device_bytes = lk_plan_device_bytes(m->cluster, NULL)},
                         out));
    LK_TRY(m->law.self && out->n_contradictions ? let_answer(m, out) : set_names(m, out));
out:
    lk_backtests_fini(&b);
    return st;
}

static const struct lk_evidence_ops step_model = {
    .prepare = prepare,
    .at = at,
    .estimate = estimate,
    .predict_held_out = predict_held_out,
    .set_reference = set_reference,
    .alter = alter,
    .with = with,
    .close = model_close,
    .conclude = conclude,
};

static struct lk_evidence_source source_of(struct model *m)
{
    return (struct lk_evidence_source){.ops = &step_model,
                                       .self = m,
                                       .cluster = m->cluster,
                                       .job = m->job,
                                       .knows = LK_KNOWS_RANKS,
                                       .measured = m->measured,
                                       .n_measured = m->n_measured,
                                       .current = lk_config_current(m->job)};
}

enum lk_status lk_step_evidence(const struct lk_job *job, const struct lk_cluster *cluster,
                                const struct lk_forecast_request *q, struct lk_evidence_source *out)
{
    enum lk_status st = LK_OK;
    struct model *m = NULL;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    *m = (struct model){.job = job,
                        .global_batch = q->global_batch,
                        .compare = q->compare,
                        .options = {.level = q->level,
                                    .draws = q->draws,
                                    .seed = q->seed,
                                    .network_seed = q->network_seed ? q->network_seed : q->seed,
                                    .scale_error = NAN},
                        .reference_world_size = lk_runs_smallest(job, cluster)};
    LK_TRY(lk_fitted_cluster_init(&m->fitted, cluster));
    m->cluster = &m->fitted.cluster;
    m->reference_measured = m->reference_world_size > 0;
    LK_TRY(list_measured(m));
    *out = source_of(m);
    if (!m->reference_measured)
        m->reference_world_size = out->current.world_size;
    m = NULL;
out:
    model_close(m);
    return st;
}

void lk_step_evidence_set_law(struct lk_evidence_source *of, const struct lk_evidence_source *law)
{
    struct model *m = of->self;

    m->law = *law;
}
