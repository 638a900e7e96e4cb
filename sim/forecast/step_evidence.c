/*
 * The step model of a job on a cluster, with the job's runs, as a source of evidence.
 *
 * Divisions: predictions / altered machines / back-tests / names / notes / the whole.
 */
#include "sim/forecast/step_evidence.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/links.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/predictor.h"
#include "sim/forecast/recorded_buckets.h"
#include "sim/prior.h"
#include "sim/step/altered_cluster.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ESTIMATE_DRAWS = 2 }; /* as few as a predictor takes: for estimates alone */

struct model {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    int64_t global_batch;
    bool compare;
    struct lk_predictor_options options;
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
    struct model *as_is; /* the machine as it is; NULL: this is it */
    /* The machine as it is has its measured runs over its model here, of the estimate and of each
     * draw; NULL: not yet known. */
    double anchor, *anchor_draws;
};

static void model_close(void *self)
{
    struct model *m = self;

    if (!m)
        return;
    lk_predictor_destroy(m->predictor);
    lk_predictor_destroy(m->split);
    lk_buckets_fini(&m->split_job);
    lk_altered_fini(&m->altered);
    free(m->measured);
    free(m->anchor_draws);
    free(m);
}

/* ---- Predictions ---- */

/* Multiplies the prediction of an altered machine by the anchor, sets its interval anew, and grades
 * it no better than extrapolated. */
static enum lk_status anchor_prediction(const struct model *m, struct lk_prediction *p)
{
    enum lk_status st = LK_OK;
    struct lk_estimate e;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, p->n_draws, sizeof *sorted));
    p->step_s *= m->as_is->anchor;
    lk_losses_close(p->losses_s, p->step_s);
    for (size_t d = 0; d < p->n_draws; d++)
        sorted[d] = p->draws_s[d] *= m->as_is->anchor_draws[d];
    e = lk_stats_interval(p->step_s, sorted, p->n_draws, m->options.level);
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

/* Makes the predictors of m->job. */
static enum lk_status make_predictors(struct model *m)
{
    LK_PASS(lk_predictor_create(m->job, m->cluster, &m->options, &m->predictor));
    if (!m->job->recorded_buckets)
        return LK_OK;
    LK_PASS(lk_buckets_split(m->job, &m->split_job));
    return lk_predictor_create(&m->split_job, m->cluster, &m->options, &m->split);
}

static enum lk_status at(void *self, const struct lk_config *c, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct model *m = self;
    struct lk_prediction p = {0}, split = {0};

    LK_TRY(lk_predictor_at(m->predictor, c, &p));
    if (m->split && lk_buckets_unknown(m->job, c)) {
        LK_TRY(lk_predictor_at(m->split, c, &split));
        LK_TRY(lk_buckets_mix(&p, &split, m->options.level));
    }
    if (m->as_is)
        LK_TRY(anchor_prediction(m, &p));
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

    c->world_size = m->reference_world_size;
    return lk_config_nodes(m->cluster, c);
}

/* ---- Altered machines ---- */

/* Returns the current configuration at the largest count that was run. */
static struct lk_config largest_run(const struct model *m)
{
    struct lk_config c = lk_config_current(m->job);

    for (size_t i = 0; i < m->job->n_runs; i++)
        if (lk_run_counts(m->cluster, &m->job->runs[i]) &&
            m->job->runs[i].config.world_size >= c.world_size) {
            c.world_size = m->job->runs[i].config.world_size;
            c.nodes = m->job->runs[i].config.nodes;
        }
    return c;
}

/* Sets the factor of measured runs over the model, from one configuration forecast with its runs
 * and without them, draw by draw. Without evidence there is nothing to compare, and it is 1. */
static enum lk_status set_anchor(struct model *m)
{
    enum lk_status st = LK_OK;
    const struct lk_change none = {0};
    struct lk_altered bare = {0};
    struct lk_predictor *model = NULL;
    struct lk_prediction a = {0}, b = {0};
    struct lk_config c = largest_run(m);
    size_t n = (size_t)m->options.draws;

    LK_TRY(lk_altered_init(&bare, m->job, m->cluster, &none, c.world_size));
    LK_TRY(lk_predictor_create(&bare.job, &bare.cluster, &m->options, &model));
    LK_TRY(lk_alloc(&m->anchor_draws, n, sizeof *m->anchor_draws));
    st = lk_predictor_at(m->predictor, &c, &a);
    if (st == LK_OK)
        st = lk_predictor_at(model, &c, &b);
    m->anchor = st == LK_OK ? a.step_s / b.step_s : 1;
    for (size_t i = 0; i < n; i++)
        m->anchor_draws[i] = st == LK_OK ? a.draws_s[i] / b.draws_s[i] : 1;
    st = st == LK_EEVIDENCE ? LK_OK : st;
out:
    lk_prediction_fini(&a);
    lk_prediction_fini(&b);
    lk_predictor_destroy(model);
    lk_altered_fini(&bare);
    return st;
}

static enum lk_status alter(void *self, const struct lk_change *change, int world_size, void **out)
{
    enum lk_status st = LK_OK;
    struct model *as_is = self, *m = NULL;

    if (!as_is->anchor_draws)
        LK_TRY(set_anchor(as_is));
    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    *m = (struct model){.options = as_is->options, .as_is = as_is, .compare = as_is->compare};
    LK_TRY(lk_altered_init(&m->altered, as_is->job, as_is->cluster, change, world_size));
    m->job = &m->altered.job;
    m->cluster = &m->altered.cluster;
    LK_TRY(make_predictors(m));
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

/* Keeps the runs that are left, and the compute rows of other batches; where a scale was held out,
 * of batches that a run has that is left, as the other rows came from what was held out. */
static void keep_rest(struct lk_job *v, const struct lk_job *j, const struct lk_config *held,
                      bool is_batch)
{
    for (size_t i = 0; i < j->n_runs; i++)
        if (lk_backtest_leaves(&j->runs[i].config, held, is_batch))
            v->runs[v->n_runs++] = j->runs[i];
    for (size_t i = 0; i < j->n_compute; i++) {
        bool keep = is_batch && j->compute[i].local_batch != held->local_batch;

        for (size_t r = 0; r < v->n_runs && !is_batch; r++)
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

/* Back-tests what was measured, and sets the error of the scale from that. */
static enum lk_status learn_scale_error(struct model *m, struct lk_backtests *out)
{
    struct lk_evidence_source source = source_of(m);
    enum lk_prior prior = lk_prior_of_scale(m->cluster->n_points, m->cluster->preset);

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

static enum lk_status predict_held_out(void *self, const struct lk_config *c, bool is_batch,
                                       struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    const struct model *m = self;
    struct lk_job rest = {0};
    struct lk_predictor_options options = m->options;
    struct lk_predictor *p = NULL;

    LK_TRY(view_init(&rest, m->job));
    keep_rest(&rest, m->job, c, is_batch);
    if (is_batch ? rest.n_compute < 2 : !rest.n_runs || !rest.n_compute) {
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

/* ---- Notes ---- */

/* Names the assumed slowdown of compute and collectives, on the most GPUs forecast. */
static enum lk_status note_overlap(const struct model *m, const struct lk_prediction *const *p,
                                   size_t n, struct lk_forecast *out)
{
    const struct lk_config *largest = &p[0]->config;
    struct lk_overlap o;

    for (size_t i = 1; i < n; i++)
        largest = p[i]->config.world_size > largest->world_size ? &p[i]->config : largest;
    o = lk_overlap_of(m->cluster, largest->nodes);
    if (!lk_quantity_known(&m->cluster->gamma_wire))
        LK_PASS(lk_forecast_assume(out, "how communication slows compute",
                                   "compute takes %.0f %% longer while collectives run, on %d GPUs "
                                   "(arXiv:2507.03114; --overlap-slowdown sets it)",
                                   100 * o.gamma_wire, largest->world_size));
    return lk_quantity_known(&m->cluster->delta)
               ? LK_OK
               : lk_forecast_assume(out, "how compute slows communication",
                                    "collectives take %.0f %% longer while compute runs",
                                    100 * o.delta);
}

/* Note that the network between nodes is a preset's. */
static enum lk_status note_network(const struct model *m, const struct lk_prediction *const *p,
                                   size_t n, struct lk_forecast *out)
{
    bool several = false;

    for (size_t i = 0; i < n; i++)
        several |= p[i]->config.nodes > 1;
    if (!several || !lk_link_network_assumed(m->cluster))
        return LK_OK;
    LK_PASS(lk_forecast_assume(out, "the network between nodes",
                               "that of preset %s; slower ones are within the interval",
                               m->cluster->name));
    return lk_forecast_say(out, "All-reduces measured on 2 nodes (lockstep calibrate, or lockstep "
                                "import of nccl-tests) would narrow this most.");
}

/* Note what a bucket costs where a configuration has other buckets than the job. */
static enum lk_status note_bucket(const struct model *m, const struct lk_prediction *const *p,
                                  size_t n, struct lk_forecast *out)
{
    const struct lk_bucket_cost *b = &m->predictor->basis.bucket;
    bool other = false;

    for (size_t i = 0; i < n; i++)
        other |= p[i]->config.world_size > 1 && p[i]->config.cap_bytes != m->job->cap_bytes;
    if (!other)
        return LK_OK;
    if (m->split)
        LK_PASS(lk_forecast_note(out, "%s", lk_buckets_note));
    if (b->measured)
        return lk_forecast_note(out,
                                "a bucket costs %.0f us of compute (sd %.0f us), from runs of "
                                "several bucket caps",
                                1e6 * b->s, 1e6 * b->sd);
    return lk_forecast_assume(out, "a bucket's compute", "%.0f us (%s)", 1e6 * b->s,
                              lk_prior_source(LK_PRIOR_BUCKET));
}

/* Note that ranks outnumber the devices of their node. */
static enum lk_status note_turns(const struct model *m, const struct lk_prediction *const *p,
                                 size_t n, struct lk_forecast *out)
{
    int most = 0;

    for (size_t i = 0; i < n; i++) {
        int ranks = p[i]->config.world_size / p[i]->config.nodes;

        most = ranks > most ? ranks : most;
    }
    if (most <= m->cluster->gpus_per_node)
        return LK_OK;
    return lk_forecast_warn(out,
                            "%d ranks of a node share its devices (%d), which lengthens their "
                            "compute by an amount known to %.0f %% (%s).",
                            most, m->cluster->gpus_per_node, 100 * lk_prior_value(LK_PRIOR_TURNS),
                            lk_prior_source(LK_PRIOR_TURNS));
}

static enum lk_status note_assumptions(const struct model *m, const struct lk_prediction *const *p,
                                       size_t n, struct lk_forecast *out)
{
    bool rank = false, transient = false, overlap = false, kappa = false;
    int costless = 0;
    size_t other = 0;

    for (size_t i = 0; i < m->job->n_runs; i++)
        other += !lk_run_counts(m->cluster, &m->job->runs[i]);
    for (size_t i = 0; i < n; i++) {
        rank |= p[i]->rank_sd_assumed;
        transient |= p[i]->transient_assumed;
        overlap |= p[i]->overlap_assumed;
        kappa |= p[i]->kappa_unknown;
        if (p[i]->costless_world_size > costless)
            costless = p[i]->costless_world_size;
    }
    if (m->options.scale_tests)
        LK_PASS(lk_forecast_note(out,
                                 "model error: %.1f %% of the collectives' time a doubling of the "
                                 "GPUs, by other jobs and scales of this one held out: %zu",
                                 100 * m->options.scale_error, m->options.scale_tests));
    else
        LK_PASS(lk_forecast_note(
            out,
            "model error: %.1f %% of the collectives' time for each doubling of the GPUs, by other "
            "jobs (%s): no scale of this one could be held out",
            100 * m->options.scale_error,
            lk_prior_source(lk_prior_of_scale(m->cluster->n_points, m->cluster->preset))));
    if (other)
        LK_PASS(
            lk_forecast_warn(out, "Not used: %zu runs of several GPUs on another machine.", other));
    if (costless)
        LK_PASS(lk_forecast_warn(out,
                                 "The runs of %d GPUs are not used: the cluster has no "
                                 "all_reduce on as many ranks.",
                                 costless));
    if (rank)
        LK_PASS(lk_forecast_assume(out, "how equal devices differ", "by %.1f %% (sd)",
                                   100 * lk_prior_value(LK_PRIOR_RANK_SD)));
    if (transient)
        LK_PASS(lk_forecast_assume(out, "how micro-batches differ", "by %.1f %% (sd)",
                                   100 * lk_prior_value(LK_PRIOR_TRANSIENT_SD)));
    if (overlap)
        LK_PASS(note_overlap(m, p, n, out));
    if (kappa)
        LK_PASS(lk_forecast_assume(out, "how ranks of one node slow each other",
                                   "not at all: not measured on this cluster"));
    return LK_OK;
}

/* Notes the priors of how ranks, nodes and links differ, where nothing was measured. */
static enum lk_status note_alike(const struct model *m, const struct lk_prediction *const *p,
                                 size_t n, struct lk_forecast *out)
{
    const struct lk_cluster *c = m->cluster;
    const struct lk_known_stragglers *slow = &m->predictor->basis.slow;
    const struct {
        bool unknown;
        enum lk_prior prior;
        const char *what;
    } rows[] = {
        {!lk_quantity_known(&c->node_sd) && isnan(slow->node_sd), LK_PRIOR_NODE_SD, "equal nodes"},
        {!lk_quantity_known(&c->link_sd), LK_PRIOR_LINK_SD, "equal links"},
        {!lk_quantity_known(&c->tail_share), LK_PRIOR_TAIL_SHARE, "no rare slow steps"}};
    int ranks = 1, nodes = 1;

    for (size_t i = 0; i < n; i++) {
        ranks = p[i]->config.world_size > ranks ? p[i]->config.world_size : ranks;
        nodes = p[i]->config.nodes > nodes ? p[i]->config.nodes : nodes;
    }
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].unknown && (rows[i].prior == LK_PRIOR_TAIL_SHARE ? ranks : nodes) > 1)
            LK_PASS(lk_forecast_assume(out, rows[i].what, "%s", lk_prior_source(rows[i].prior)));
    return LK_OK;
}

/* Notes the ranks that the runs showed to be slow: the forecast rests on their staying so. */
static enum lk_status note_slow(const struct model *m, struct lk_forecast *out)
{
    const struct lk_known_stragglers *slow = &m->predictor->basis.slow;

    for (size_t i = slow->n_file; i < slow->n; i++)
        LK_PASS(lk_forecast_warn(out,
                                 "Rank %d computes %.2f times as long as the others (%s), and is "
                                 "taken to do so at every count.",
                                 slow->list[i].rank, slow->list[i].compute.value,
                                 slow->list[i].compute.source));
    return LK_OK;
}

static enum lk_status conclude(const void *self, const struct lk_prediction *const *points,
                               size_t n, struct lk_forecast *out)
{
    const struct model *m = self;
    struct lk_assumed_terms assumed = {0};

    LK_PASS(note_network(m, points, n, out));
    LK_PASS(note_turns(m, points, n, out));
    LK_PASS(note_bucket(m, points, n, out));
    LK_PASS(note_slow(m, out));
    LK_PASS(note_alike(m, points, n, out));
    for (size_t i = 0; i < n; i++)
        lk_assumed_terms_add(&assumed, points[i]);
    LK_PASS(lk_assumed_terms_note(&assumed, out));
    return note_assumptions(m, points, n, out);
}

/* ---- The whole ---- */

static enum lk_status prepare(void *self, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct model *m = self;
    struct lk_backtests b = {0};

    LK_TRY(learn_scale_error(m, &b));
    if (!m->compare)
        LK_TRY(lk_backtest_add(&b, out));
    LK_TRY(make_predictors(m));
    LK_TRY(set_names(m, out));
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
    *m = (struct model){
        .job = job,
        .cluster = cluster,
        .global_batch = q->global_batch,
        .compare = q->compare,
        .options = {.level = q->level, .draws = q->draws, .seed = q->seed, .scale_error = NAN},
        .reference_world_size = lk_runs_smallest(job, cluster)};
    m->reference_measured = m->reference_world_size > 0;
    m->reference_world_size = m->reference_measured ? m->reference_world_size : 1;
    LK_TRY(list_measured(m));
    *out = source_of(m);
    m = NULL;
out:
    model_close(m);
    return st;
}
