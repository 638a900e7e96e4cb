/*
 * The step model of a job on a cluster, with the job's runs, as a source of evidence.
 *
 * Divisions: predictions and names / back-tests / notes / the whole.
 */
#include "sim/forecast/forecast.h"

#include "base/array.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/predictor.h"
#include "sim/prior.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdlib.h>

struct model {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    int64_t global_batch;
    struct lk_predictor_options options;
    struct lk_predictor *predictor;
    int reference_gpus;
    bool reference_measured;
};

static enum lk_status at(void *self, const struct lk_config *c, struct lk_prediction *out)
{
    struct model *m = self;

    return lk_predictor_at(m->predictor, c, out);
}

static enum lk_status estimate(void *self, const struct lk_config *c, double *out_step_s)
{
    struct model *m = self;

    return lk_predictor_estimate(m->predictor, c, out_step_s);
}

static enum lk_status set_reference(const void *self, struct lk_config *c)
{
    const struct model *m = self;

    c->gpus = m->reference_gpus;
    return lk_config_nodes(m->cluster, c);
}

static enum lk_status set_names(const struct model *m, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    const char *plural = m->reference_gpus == 1 ? "" : "s";
    const char *origin = m->reference_measured ? "measured" : "modelled";

    LK_TRY(lk_strdup(&out->job, m->job->name));
    LK_TRY(lk_strdup(&out->cluster, m->cluster->name));
    LK_TRY(lk_strdup(&out->sample_unit, m->job->sample_unit));
    if (m->global_batch > 0)
        LK_TRY(lk_asprintf(&out->reference, "%d GPU%s, %s, global batch %lld", m->reference_gpus,
                           plural, origin, (long long)m->global_batch));
    else
        LK_TRY(lk_asprintf(&out->reference, "%d GPU%s, %s, same local batch and accumulation",
                           m->reference_gpus, plural, origin));
out:
    return st;
}

/* ---- Back-tests ---- */

/* Copies a job without its rows of compute and runs, for which it has room; their contents stay the
 * job's. */
static enum lk_status view_init(struct lk_job *v, const struct lk_job *j)
{
    enum lk_status st = LK_OK;

    *v = *j;
    v->compute = NULL;
    v->runs = NULL;
    v->n_compute = v->n_runs = 0;
    LK_TRY(lk_alloc(&v->compute, j->n_compute, sizeof *v->compute));
    LK_TRY(lk_alloc(&v->runs, j->n_runs, sizeof *v->runs));
out:
    return st;
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

static enum lk_status from_rest(void *self, const struct lk_config *c, bool is_batch,
                                struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    const struct model *m = self;
    struct lk_job rest = {0};
    struct lk_predictor *p = NULL;

    LK_TRY(view_init(&rest, m->job));
    keep_rest(&rest, m->job, c, is_batch);
    if (is_batch ? rest.n_compute < 2 : !rest.n_runs || !rest.n_compute) {
        st = lk_fail(LK_EEVIDENCE, "job %s: too little is left without it", m->job->name);
        goto out;
    }
    LK_TRY(lk_predictor_create(&rest, m->cluster, &m->options, &p));
    LK_TRY(lk_predictor_at(p, c, out));
out:
    lk_predictor_destroy(p);
    free(rest.compute);
    free(rest.runs);
    return st;
}

/* Lists the configurations that were run, and the batches of which only the compute was measured.
 */
static enum lk_status list_measured(const struct lk_job *j, const struct lk_cluster *cluster,
                                    struct lk_measured **out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    const struct lk_runs runs = {.job = j, .cluster = cluster};
    struct lk_measured *v = NULL;
    size_t n = 0, k;

    LK_TRY(lk_alloc(&v, j->n_runs + j->n_compute, sizeof *v));
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
                .config = {.gpus = 1, .nodes = 1, .local_batch = j->compute[i].local_batch},
                .step_s = NAN};
    }
    *out = v;
    *out_n = n;
out:
    return st;
}

enum lk_status lk_predict_calibrate(const struct lk_job *job, const struct lk_cluster *cluster,
                                    struct lk_predictor_options *options, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    double prior = lk_prior_value(lk_prior_of_scale(cluster->n_points, cluster->preset));

    options->scale_error = NAN;
    LK_TRY(lk_predict_backtests(job, cluster, options, out));
    options->scale_error = lk_backtest_scale_error(out, prior, &options->scale_tests);
out:
    return st;
}

static enum lk_status prepare(void *self, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct model *m = self;
    struct lk_backtests b = {0};

    LK_TRY(lk_predict_calibrate(m->job, m->cluster, &m->options, &b));
    LK_TRY(lk_backtest_add(&b, out));
    LK_TRY(lk_predictor_create(m->job, m->cluster, &m->options, &m->predictor));
    LK_TRY(set_names(m, out));
out:
    lk_backtests_fini(&b);
    return st;
}

/* ---- Notes ---- */

static enum lk_status note_assumptions(const struct model *m, const struct lk_prediction *p,
                                       size_t n, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    bool rank = false, transient = false, overlap = false, kappa = false;
    int costless = 0;
    size_t other = 0;

    for (size_t i = 0; i < m->job->n_runs; i++)
        other += !lk_run_counts(m->cluster, &m->job->runs[i]);
    for (size_t i = 0; i < n; i++) {
        rank |= p[i].rank_sd_assumed;
        transient |= p[i].transient_assumed;
        overlap |= p[i].overlap_unknown;
        kappa |= p[i].kappa_unknown;
        if (p[i].costless_gpus > costless)
            costless = p[i].costless_gpus;
    }
    if (m->options.scale_tests)
        LK_TRY(lk_forecast_note(out,
                                "model error %.1f %% a doubling of the GPUs, from %zu "
                                "back-tests and the prior",
                                100 * m->options.scale_error, m->options.scale_tests));
    else
        LK_TRY(lk_forecast_note(
            out,
            "no held-out evidence: prior model error of %.1f %% a "
            "doubling of the GPUs (%s)",
            100 * m->options.scale_error,
            lk_prior_source(lk_prior_of_scale(m->cluster->n_points, m->cluster->preset))));
    if (other)
        LK_TRY(lk_forecast_note(
            out, "%zu runs of several GPUs were made on another machine: not used", other));
    if (costless)
        LK_TRY(lk_forecast_note(out,
                                "runs of %d GPUs are no anchor: this cluster has no cost of an "
                                "all_reduce on as many ranks",
                                costless));
    if (rank)
        LK_TRY(lk_forecast_note(out, "assumed: persistent rank sd %.1f %%",
                                100 * lk_prior_value(LK_PRIOR_RANK_SD)));
    if (transient)
        LK_TRY(lk_forecast_note(out, "assumed: transient sd %.1f %%",
                                100 * lk_prior_value(LK_PRIOR_TRANSIENT_SD)));
    if (overlap)
        LK_TRY(lk_forecast_note(out, "overlap slowdown not measured on this cluster: taken as 0"));
    if (kappa)
        LK_TRY(lk_forecast_note(out, "co-location not measured on this cluster: taken as 0"));
out:
    return st;
}

/* Notes the priors of how ranks, nodes and links differ, where nothing was measured. */
static enum lk_status note_alike(const struct model *m, const struct lk_prediction *p, size_t n,
                                 struct lk_forecast *out)
{
    const struct lk_cluster *c = m->cluster;
    const struct lk_known_stragglers *slow = &m->predictor->slow;
    const struct {
        bool unknown;
        enum lk_prior prior;
    } rows[] = {{!lk_quantity_known(&c->node_sd) && isnan(slow->node_sd), LK_PRIOR_NODE_SD},
                {!lk_quantity_known(&c->link_sd), LK_PRIOR_LINK_SD},
                {!lk_quantity_known(&c->tail_share), LK_PRIOR_TAIL_SHARE}};
    enum lk_status st = LK_OK;
    int ranks = 1, nodes = 1;

    for (size_t i = 0; i < n; i++) {
        ranks = p[i].config.gpus > ranks ? p[i].config.gpus : ranks;
        nodes = p[i].config.nodes > nodes ? p[i].config.nodes : nodes;
    }
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].unknown && (rows[i].prior == LK_PRIOR_TAIL_SHARE ? ranks : nodes) > 1)
            LK_TRY(lk_forecast_note(out, "assumed: %s", lk_prior_source(rows[i].prior)));
out:
    return st;
}

/* Notes the ranks that the runs showed to be slow: the forecast rests on their staying so. */
static enum lk_status note_slow(const struct model *m, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    const struct lk_known_stragglers *slow = &m->predictor->slow;

    for (size_t i = slow->n_file; i < slow->n; i++)
        LK_TRY(lk_forecast_note(out,
                                "rank %d computes %.2f times as long as the others (%s): taken as "
                                "the same rank at every count",
                                slow->list[i].rank, slow->list[i].compute.value,
                                slow->list[i].compute.source));
out:
    return st;
}

static enum lk_status conclude(const void *self, const struct lk_prediction *points, size_t n,
                               struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    const struct model *m = self;

    LK_TRY(note_slow(m, out));
    LK_TRY(note_alike(m, points, n, out));
    LK_TRY(note_assumptions(m, points, n, out));
out:
    return st;
}

/* ---- The whole ---- */

static const struct lk_evidence_ops step_model = {
    .prepare = prepare,
    .at = at,
    .estimate = estimate,
    .from_rest = from_rest,
    .set_reference = set_reference,
    .conclude = conclude,
};

enum lk_status lk_predict_backtests(const struct lk_job *job, const struct lk_cluster *cluster,
                                    const struct lk_predictor_options *options,
                                    struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct model m = {.job = job, .cluster = cluster, .options = *options};
    struct lk_measured *measured = NULL;
    struct lk_evidence_source e = {.ops = &step_model, .self = &m};

    LK_TRY(list_measured(job, cluster, &measured, &e.n_measured));
    e.measured = measured;
    LK_TRY(lk_backtest_run(&e, options->level, out));
out:
    free(measured);
    return st;
}

enum lk_status lk_predict(const struct lk_job *job, const struct lk_cluster *cluster,
                          const struct lk_predict_request *request, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct model m = {.job = job,
                      .cluster = cluster,
                      .global_batch = request->global_batch,
                      .options = {.level = request->level,
                                  .draws = request->draws,
                                  .seed = request->seed,
                                  .scale_error = NAN},
                      .reference_gpus = lk_runs_smallest(job, cluster)};
    struct lk_evidence_source source = {.ops = &step_model,
                                        .self = &m,
                                        .cluster = cluster,
                                        .job = job,
                                        .current = lk_config_current(job)};

    m.reference_measured = m.reference_gpus > 0;
    if (!m.reference_measured)
        m.reference_gpus = 1;
    st = lk_forecast_run(&source, request, out);
    lk_predictor_destroy(m.predictor);
    return st;
}
