/*
 * Forecasts.
 *
 * Divisions: the grid / reference and efficiency / points / notes / the whole.
 */
#include "sim/forecast.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/stats.h"
#include "base/units.h"
#include "sim/backtest.h"
#include "sim/knee.h"
#include "sim/predictor.h"
#include "sim/prior.h"
#include "sim/run_group.h"
#include "sim/slow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct forecast {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_predict_request *request;
    struct lk_predictor *predictor;
    struct lk_config *configs;
    struct lk_prediction *predictions; /* of the configs */
    size_t n, capacity;
    int reference_gpus;
    bool reference_measured;
    struct lk_forecast *out;
};

/* ---- The grid ---- */

static struct lk_config base_config(const struct forecast *f)
{
    struct lk_config c = lk_config_current(f->job);

    if (f->request->no_sync_given)
        c.no_sync = f->request->no_sync;
    return c;
}

static bool already_there(const struct forecast *f, const struct lk_config *c)
{
    for (size_t i = 0; i < f->n; i++)
        if (lk_config_equal(&f->configs[i], c))
            return true;
    return false;
}

static enum lk_status add_config(struct forecast *f, struct lk_config c)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_config_nodes(f->cluster, c.gpus, &c.nodes));
    LK_TRY(lk_config_split_global(f->request->global_batch, &c));
    if (already_there(f, &c))
        return LK_OK;
    LK_TRY(lk_array_grow(&f->configs, &f->capacity, f->n + 1, sizeof *f->configs));
    f->configs[f->n++] = c;
out:
    return st;
}

/* All accumulations and caps of one count and batch. */
static enum lk_status add_variants(struct forecast *f, const struct lk_config *base)
{
    enum lk_status st = LK_OK;
    const struct lk_predict_request *q = f->request;
    size_t accumulations = q->n_accumulations ? q->n_accumulations : 1;
    size_t caps = q->n_caps ? q->n_caps : 1;

    for (size_t i = 0; i < accumulations * caps; i++) {
        struct lk_config c = *base;

        if (q->n_accumulations)
            c.accumulation = q->accumulations[i / caps];
        if (q->n_caps)
            lk_config_set_cap(&c, f->job, q->caps[i % caps]);
        LK_TRY(add_config(f, c));
    }
out:
    return st;
}

static enum lk_status make_grid(struct forecast *f)
{
    enum lk_status st = LK_OK;
    const struct lk_predict_request *q = f->request;
    size_t batches = q->n_local_batches ? q->n_local_batches : 1;

    for (size_t g = 0; g < q->n_gpus; g++)
        for (size_t b = 0; b < batches; b++) {
            struct lk_config c = base_config(f);

            c.gpus = q->gpus[g];
            if (q->n_local_batches)
                c.local_batch = q->local_batches[b];
            LK_TRY(add_variants(f, &c));
        }
out:
    return st;
}

static enum lk_status check_request(const struct lk_predict_request *q)
{
    if (!q->n_gpus)
        return lk_fail(LK_EUSAGE, "no GPU counts to predict");
    for (size_t i = 0; i < q->n_gpus; i++)
        if (q->gpus[i] < 1 || q->gpus[i] > LK_FORECAST_GPUS_MAX)
            return lk_fail(LK_EUSAGE, "%d GPUs: expected 1 to %d", q->gpus[i],
                           LK_FORECAST_GPUS_MAX);
    for (size_t i = 0; i < q->n_local_batches; i++)
        if (q->local_batches[i] < 1)
            return lk_fail(LK_EUSAGE, "a local batch of %d", q->local_batches[i]);
    for (size_t i = 0; i < q->n_accumulations; i++)
        if (q->accumulations[i] < 1)
            return lk_fail(LK_EUSAGE, "%d accumulation steps", q->accumulations[i]);
    if (q->global_batch > 0 && q->n_accumulations)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    return LK_OK;
}

/* ---- Reference and efficiency ---- */

static void find_reference(struct forecast *f)
{
    f->reference_gpus = 0;
    for (size_t i = 0; i < f->job->n_runs; i++) {
        const struct lk_job_run *r = &f->job->runs[i];

        if (lk_run_counts(f->cluster, r) && (!f->reference_gpus || r->gpus < f->reference_gpus))
            f->reference_gpus = r->gpus;
    }
    f->reference_measured = f->reference_gpus > 0;
    if (!f->reference_measured)
        f->reference_gpus = 1;
}

/* The configuration that this one's efficiency refers to. */
static enum lk_status reference_of(const struct forecast *f, const struct lk_config *c,
                                   struct lk_config *out)
{
    enum lk_status st = LK_OK;
    struct lk_config r = *c;

    r.gpus = f->reference_gpus;
    LK_TRY(lk_config_nodes(f->cluster, r.gpus, &r.nodes));
    if (f->request->global_batch > 0) {
        int64_t micro = f->request->global_batch / r.gpus;

        if (micro % r.local_batch)
            return lk_fail(
                LK_EUSAGE,
                "a global batch of %lld does not split into %d GPUs with local batch %d, "
                "the reference of the efficiency",
                (long long)f->request->global_batch, r.gpus, r.local_batch);
        r.accumulation = (int)(micro / r.local_batch);
    }
    *out = r;
out:
    return st;
}

static double samples(const struct lk_config *c)
{
    return (double)c->gpus * c->local_batch * c->accumulation;
}

/* Throughput a GPU over the reference's. */
static double efficiency(const struct lk_config *c, double step_s, const struct lk_config *r,
                         double reference_s)
{
    return samples(c) / c->gpus / step_s / (samples(r) / r->gpus / reference_s);
}

static enum lk_status set_efficiency(struct forecast *f, const struct lk_prediction *p,
                                     struct lk_forecast_point *out)
{
    enum lk_status st = LK_OK;
    struct lk_config r = p->config;
    struct lk_prediction reference = {0};
    double *draws = NULL;
    size_t n = p->n_draws;

    LK_TRY(reference_of(f, &p->config, &r));
    if (lk_config_equal(&r, &p->config)) {
        out->efficiency = out->efficiency_lo = out->efficiency_hi = 1;
        goto out;
    }
    LK_TRY(lk_predictor_at(f->predictor, &r, &reference));
    LK_TRY(lk_alloc(&draws, n, sizeof *draws));
    for (size_t i = 0; i < n; i++)
        draws[i] = efficiency(&p->config, p->draws_s[i], &r, reference.draws_s[i]);
    out->efficiency = efficiency(&p->config, p->step_s, &r, reference.step_s);
    out->efficiency_lo =
        fmin(out->efficiency, lk_stats_quantile(draws, n, (1 - f->request->level) / 2));
    out->efficiency_hi =
        fmax(out->efficiency, lk_stats_quantile_sorted(draws, n, (1 + f->request->level) / 2));
out:
    free(draws);
    lk_prediction_fini(&reference);
    return st;
}

/* ---- Points ---- */

static enum lk_status add_point(struct forecast *f, const struct lk_prediction *p)
{
    enum lk_status st = LK_OK;
    struct lk_forecast_point point = {.gpus = p->config.gpus,
                                      .nodes = p->config.nodes,
                                      .local_batch = p->config.local_batch,
                                      .accumulation = p->config.accumulation,
                                      .cap_bytes = p->config.cap_bytes,
                                      .step_s = p->step_s,
                                      .step_lo_s = p->lo_s,
                                      .step_hi_s = p->hi_s,
                                      .throughput_per_s = samples(&p->config) / p->step_s,
                                      .evidence = p->evidence,
                                      .measured_step_s = p->measured_s,
                                      .measured_lo_s = p->measured_lo_s,
                                      .measured_hi_s = p->measured_hi_s};

    snprintf(point.evidence_text, sizeof point.evidence_text, "%s", p->evidence_text);
    memcpy(point.losses_s, p->losses_s, sizeof point.losses_s);
    LK_TRY(set_efficiency(f, p, &point));
    LK_TRY(lk_array_grow(&f->out->points, &f->out->points_capacity, f->out->n_points + 1,
                         sizeof *f->out->points));
    f->out->points[f->out->n_points++] = point;
out:
    return st;
}

static enum lk_status predict_all(struct forecast *f)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&f->predictions, f->n, sizeof *f->predictions));
    for (size_t i = 0; i < f->n; i++) {
        LK_TRY(lk_predictor_at(f->predictor, &f->configs[i], &f->predictions[i]));
        LK_TRY(add_point(f, &f->predictions[i]));
    }
out:
    return st;
}

static enum lk_status add_backtests(struct forecast *f, const struct lk_backtests *b)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *o = f->out;

    for (size_t i = 0; i < b->n; i++) {
        LK_TRY(lk_array_grow(&o->backtests, &o->backtests_capacity, o->n_backtests + 1,
                             sizeof *o->backtests));
        o->backtests[o->n_backtests++] = b->items[i].test;
    }
out:
    return st;
}

/* ---- Notes ---- */

/* The largest loss of each GPU count's first point. */
static enum lk_status note_losses(struct forecast *f)
{
    enum lk_status st = LK_OK;
    char text[32];

    for (size_t i = 0; i < f->out->n_points; i++) {
        const struct lk_forecast_point *p = &f->out->points[i];
        int worst = LK_LOSS_IDEAL + 1;

        if (p->gpus == 1 || (i && p[-1].gpus == p->gpus) || isnan(p->losses_s[worst]))
            continue;
        for (int l = worst; l < LK_LOSS_COUNT; l++)
            if (p->losses_s[l] > p->losses_s[worst])
                worst = l;
        LK_TRY(lk_forecast_note(f->out, "largest loss at %d GPUs: %s, %s (%.1f %% of the step)",
                                p->gpus, lk_loss_text((enum lk_loss)worst),
                                lk_units_format(LK_DIM_TIME, p->losses_s[worst], text, sizeof text),
                                100 * p->losses_s[worst] / p->step_s));
    }
out:
    return st;
}

/* A batch outside the measured ones has its row, but no claim to be the best. */
static bool may_be_best(const struct forecast *f, size_t i)
{
    return !(f->predictions[i].batch_reach > 1);
}

static size_t best_at(const struct forecast *f, int gpus, size_t except)
{
    size_t best = f->n;

    for (size_t i = 0; i < f->n; i++)
        if (i != except && f->configs[i].gpus == gpus && may_be_best(f, i) &&
            (best == f->n ||
             f->out->points[i].throughput_per_s > f->out->points[best].throughput_per_s))
            best = i;
    return best;
}

/* Share of draws in which configuration a has the higher throughput. */
static double certainty(const struct forecast *f, size_t a, size_t b)
{
    const struct lk_prediction *p = &f->predictions[a], *q = &f->predictions[b];
    double n = 0;

    for (size_t i = 0; i < p->n_draws; i++)
        n += samples(&p->config) / p->draws_s[i] > samples(&q->config) / q->draws_s[i];
    return n / (double)p->n_draws;
}

/* Where several configurations of a count were asked for: the best, and by how much. */
static enum lk_status note_best(struct forecast *f)
{
    enum lk_status st = LK_OK;
    char cap[32];
    size_t outside = 0;

    for (size_t i = 0; i < f->n; i++)
        outside += !may_be_best(f, i);
    if (outside)
        LK_TRY(lk_forecast_note(f->out,
                                "%zu row%s extrapolated on local batch: not candidates for the "
                                "best",
                                outside, outside == 1 ? "" : "s"));
    for (size_t i = 0; i < f->n; i++) {
        int gpus = f->configs[i].gpus;
        size_t best, next;
        double gain;

        if (i && f->configs[i - 1].gpus == gpus)
            continue;
        best = best_at(f, gpus, f->n);
        next = best_at(f, gpus, best);
        if (best == f->n || next == f->n)
            continue;
        gain = f->out->points[best].throughput_per_s / f->out->points[next].throughput_per_s - 1;
        LK_TRY(lk_forecast_note(
            f->out,
            "best at %d GPUs: local batch %d, accumulation %d, bucket cap %s: %.1f %% above "
            "the next, %s the error (%.0f %% of draws)",
            gpus, f->configs[best].local_batch, f->configs[best].accumulation,
            lk_units_format(LK_DIM_BYTES, (double)f->configs[best].cap_bytes, cap, sizeof cap),
            100 * gain,
            certainty(f, best, next) >= (1 + f->request->level) / 2 ? "beyond" : "within",
            100 * certainty(f, best, next)));
    }
out:
    return st;
}

static enum lk_status note_assumptions(struct forecast *f, double scale_error, size_t n_backtests)
{
    enum lk_status st = LK_OK;
    bool rank = false, transient = false, overlap = false, kappa = false;
    int costless = 0;
    size_t other = 0;

    for (size_t i = 0; i < f->job->n_runs; i++)
        other += !lk_run_counts(f->cluster, &f->job->runs[i]);
    for (size_t i = 0; i < f->n; i++) {
        rank |= f->predictions[i].rank_sd_assumed;
        transient |= f->predictions[i].transient_assumed;
        overlap |= f->predictions[i].overlap_unknown;
        kappa |= f->predictions[i].kappa_unknown;
        if (f->predictions[i].costless_gpus > costless)
            costless = f->predictions[i].costless_gpus;
    }
    if (n_backtests)
        LK_TRY(lk_forecast_note(f->out,
                                "model error %.1f %% a doubling of the GPUs, from %zu "
                                "back-tests and the prior",
                                100 * scale_error, n_backtests));
    else
        LK_TRY(lk_forecast_note(
            f->out,
            "no held-out evidence: prior model error of %.1f %% a "
            "doubling of the GPUs (%s)",
            100 * scale_error,
            lk_prior_source(lk_prior_of_scale(f->cluster->n_points, f->cluster->preset))));
    if (other)
        LK_TRY(lk_forecast_note(
            f->out, "%zu runs of several GPUs were made on another machine: not used", other));
    if (costless)
        LK_TRY(lk_forecast_note(f->out,
                                "runs of %d GPUs are no anchor: this cluster has no cost of an "
                                "all_reduce on as many ranks",
                                costless));
    if (rank)
        LK_TRY(lk_forecast_note(f->out, "assumed: persistent rank sd %.1f %%",
                                100 * lk_prior_value(LK_PRIOR_RANK_SD)));
    if (transient)
        LK_TRY(lk_forecast_note(f->out, "assumed: transient sd %.1f %%",
                                100 * lk_prior_value(LK_PRIOR_TRANSIENT_SD)));
    if (overlap)
        LK_TRY(
            lk_forecast_note(f->out, "overlap slowdown not measured on this cluster: taken as 0"));
    if (kappa)
        LK_TRY(lk_forecast_note(f->out, "co-location not measured on this cluster: taken as 0"));
out:
    return st;
}

/* What several ranks could differ by and nothing measured says. */
static enum lk_status note_alike(struct forecast *f, const struct lk_slow *slow)
{
    const struct lk_cluster *c = f->cluster;
    const struct {
        bool unknown;
        enum lk_prior prior;
    } rows[] = {
        {!lk_quantity_known(&c->node_sd) && isnan(slow->node_sd), LK_PRIOR_NODE_SD   },
        {!lk_quantity_known(&c->link_sd),                         LK_PRIOR_LINK_SD   },
        {!lk_quantity_known(&c->tail_share),                      LK_PRIOR_TAIL_SHARE}
    };
    enum lk_status st = LK_OK;
    int ranks = 1, nodes = 1;

    for (size_t i = 0; i < f->n; i++) {
        ranks = f->configs[i].gpus > ranks ? f->configs[i].gpus : ranks;
        nodes = f->configs[i].nodes > nodes ? f->configs[i].nodes : nodes;
    }
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].unknown && (rows[i].prior == LK_PRIOR_TAIL_SHARE ? ranks : nodes) > 1)
            LK_TRY(lk_forecast_note(f->out, "assumed: %s", lk_prior_source(rows[i].prior)));
out:
    return st;
}

/* Ranks that the runs showed to be slow: the forecast rests on their staying so. */
static enum lk_status note_slow(struct forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_slow slow = {0};

    LK_TRY(lk_slow_init(&slow, f->job, f->cluster));
    for (size_t i = slow.n_file; i < slow.n; i++)
        LK_TRY(lk_forecast_note(f->out,
                                "rank %d computes %.2f times as long as the others (%s): taken as "
                                "the same rank at every count",
                                slow.list[i].rank, slow.list[i].compute.value,
                                slow.list[i].compute.source));
    LK_TRY(note_alike(f, &slow));
out:
    lk_slow_fini(&slow);
    return st;
}

static enum lk_status note_knee(struct forecast *f)
{
    enum lk_status st = LK_OK;
    int nodes = 0, most = 1, per_node = f->cluster->gpus_per_node;

    for (size_t i = 0; i < f->n; i++)
        most = f->configs[i].nodes > most ? f->configs[i].nodes : most;
    if (most < 2 || f->request->global_batch > 0)
        return LK_OK;
    st = lk_knee_find(f->predictor, &f->configs[0], per_node, most, &nodes);
    if (st == LK_EEVIDENCE)
        return lk_forecast_note(f->out, "knee: not known, a count on the way has no evidence");
    if (st != LK_OK)
        return st;
    if (nodes < most)
        LK_TRY(
            lk_forecast_note(f->out,
                             "knee: %d node%s (%d GPUs); beyond it a further node adds less than "
                             "half of what the first delivers",
                             nodes, nodes == 1 ? "" : "s", nodes * per_node));
    else
        LK_TRY(lk_forecast_note(f->out, "knee: not reached within %d nodes", most));
out:
    return st;
}

/* ---- The whole ---- */

static enum lk_status set_header(struct forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *o = f->out;
    const char *plural = f->reference_gpus == 1 ? "" : "s";

    o->level = f->request->level;
    LK_TRY(lk_strdup(&o->job, f->job->name));
    LK_TRY(lk_strdup(&o->cluster, f->cluster->name));
    LK_TRY(lk_strdup(&o->sample_unit, f->job->sample_unit));
    if (f->request->global_batch > 0)
        LK_TRY(lk_asprintf(&o->reference, "%d GPU%s, %s, global batch %lld", f->reference_gpus,
                           plural, f->reference_measured ? "measured" : "modelled",
                           (long long)f->request->global_batch));
    else
        LK_TRY(lk_asprintf(&o->reference, "%d GPU%s, %s, same local batch and accumulation",
                           f->reference_gpus, plural,
                           f->reference_measured ? "measured" : "modelled"));
out:
    return st;
}

static void forecast_fini(struct forecast *f)
{
    for (size_t i = 0; f->predictions && i < f->n; i++)
        lk_prediction_fini(&f->predictions[i]);
    free(f->predictions);
    free(f->configs);
    lk_predictor_destroy(f->predictor);
}

enum lk_status lk_predict(const struct lk_job *job, const struct lk_cluster *cluster,
                          const struct lk_predict_request *request, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct lk_forecast o = {0};
    struct forecast f = {.job = job, .cluster = cluster, .request = request, .out = &o};
    struct lk_backtests backtests = {0};
    struct lk_predictor_options options = {.level = request->level,
                                           .draws = request->draws,
                                           .seed = request->seed,
                                           .scale_error = NAN};
    size_t n_scale;

    LK_TRY(check_request(request));
    LK_TRY(make_grid(&f));
    LK_TRY(lk_backtest_all(job, cluster, &options, &backtests));
    options.scale_error = lk_backtest_scale_error(&backtests, &n_scale);
    options.scale_tests = n_scale;
    LK_TRY(lk_predictor_create(job, cluster, &options, &f.predictor));
    find_reference(&f);
    LK_TRY(set_header(&f));
    LK_TRY(predict_all(&f));
    LK_TRY(add_backtests(&f, &backtests));
    LK_TRY(note_losses(&f));
    LK_TRY(note_best(&f));
    LK_TRY(note_knee(&f));
    LK_TRY(note_slow(&f));
    LK_TRY(note_assumptions(&f, options.scale_error, n_scale));
    *out = o;
    memset(&o, 0, sizeof o);
out:
    lk_forecast_fini(&o);
    lk_backtests_fini(&backtests);
    forecast_fini(&f);
    return st;
}
