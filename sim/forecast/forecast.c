/*
 * Forecasts.
 *
 * Divisions: the grid / reference and efficiency / points / the best and the answer / the knee /
 * the whole.
 */
#include "sim/forecast/forecast.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"
#include "facts/forecast_answer.h"
#include "sim/forecast/request.h"
#include "sim/prior.h"
#include "sim/step/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growing list of predictions. */
struct predictions {
    struct lk_prediction *v;
    size_t n, capacity;
};

struct forecast {
    const struct lk_evidence_source *evidence;
    const struct lk_predict_request *request;
    struct predictions points;     /* the grid, in its order */
    struct predictions references; /* of the efficiency, where no point of the grid is one */
    size_t n_refused;              /* configurations left out, */
    char *refusal;                 /* why the first was, */
    enum lk_status refused;
    char *no_reference; /* why an efficiency is not known; NULL: all are */
    struct lk_forecast *out;
};

/* ---- The grid ---- */

static struct lk_prediction *find(const struct predictions *p, const struct lk_config *c)
{
    for (size_t i = 0; i < p->n; i++)
        if (lk_config_equal(&p->v[i].config, c))
            return &p->v[i];
    return NULL;
}

static enum lk_status append(struct predictions *p, const struct lk_prediction *one)
{
    LK_PASS(lk_array_grow(&p->v, &p->capacity, p->n + 1, sizeof *p->v));
    p->v[p->n++] = *one;
    return LK_OK;
}

static void predictions_fini(struct predictions *p)
{
    for (size_t i = 0; i < p->n; i++)
        lk_prediction_fini(&p->v[i]);
    free(p->v);
}

/* Returns true if the status refuses one configuration; any other failure is one of all. */
static bool refuses(enum lk_status st)
{
    return st == LK_EUSAGE || st == LK_EEVIDENCE;
}

/* Leaves out a configuration that cannot be forecast. */
static enum lk_status refuse(struct forecast *f, enum lk_status st)
{
    if (!refuses(st))
        return st;
    if (f->n_refused++)
        return LK_OK;
    f->refused = st;
    return lk_strdup(&f->refusal, lk_error_text());
}

static enum lk_status add_config(struct forecast *f, struct lk_config c)
{
    enum lk_status st = lk_config_nodes(f->evidence->cluster, &c);

    if (st == LK_OK)
        st = lk_config_split_global(f->request->global_batch, &c);
    if (st != LK_OK)
        return refuse(f, st);
    if (c.accumulation == 1)
        c.no_sync = f->evidence->current.no_sync; /* so that equal configurations compare equal */
    if (!find(&f->points, &c))
        LK_PASS(append(&f->points, &(struct lk_prediction){.config = c}));
    return LK_OK;
}

static enum lk_status make_grid(struct forecast *f)
{
    size_t n = lk_predict_request_size(f->request);
    bool accumulates = !f->request->n_no_syncs;

    for (size_t i = 0; i < n; i++)
        LK_PASS(add_config(f, lk_predict_request_config(f->request, f->evidence, i)));
    for (size_t i = 0; i < f->points.n; i++)
        accumulates |= f->points.v[i].config.accumulation > 1;
    if (f->points.n && !accumulates)
        return lk_fail(LK_EUSAGE, "no_sync changes nothing in a step of one micro-batch: ask for "
                                  "an accumulation above 1, too");
    return LK_OK;
}

/* ---- Reference and efficiency ---- */

/* Returns the local batch of the reference in strong scaling: the largest that was asked for and
 * divides the global batch there, which counts that share it may have to go below; else the
 * current one. */
static int reference_batch(const struct forecast *f, const struct lk_config *reference)
{
    const struct lk_predict_request *q = f->request;
    int most = 0;

    for (size_t i = 0; i < q->n_local_batches; i++) {
        int batch = (int)q->local_batches[i];

        if (batch > most && lk_config_splits(q->global_batch, reference, batch))
            most = batch;
    }
    return most ? most : f->evidence->current.local_batch;
}

/* Finds the prediction that a configuration's efficiency refers to, or makes it; *out is NULL if
 * none is known. */
static enum lk_status reference_of(struct forecast *f, const struct lk_config *c,
                                   const struct lk_prediction **out)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_source *e = f->evidence;
    struct lk_prediction one = {0};
    struct lk_config r = *c;

    *out = NULL;
    LK_TRY(e->ops->set_reference(e->self, &r));
    if (!r.world_size)
        return LK_OK;
    if (f->request->global_batch > 0)
        r.local_batch = reference_batch(f, &r);
    LK_TRY(lk_config_split_global(f->request->global_batch, &r));
    *out = find(&f->points, &r);
    if (!*out)
        *out = find(&f->references, &r);
    if (*out)
        return LK_OK;
    LK_TRY(e->ops->at(e->self, &r, &one));
    LK_TRY(append(&f->references, &one));
    *out = &f->references.v[f->references.n - 1];
    one = (struct lk_prediction){0};
out:
    lk_prediction_fini(&one);
    return st;
}

/* Returns the samples that a GPU computes in a step. */
static double work(const struct lk_config *c)
{
    return lk_config_samples(c) / c->world_size;
}

/* Returns the throughput of one GPU when a step takes this long. */
static double rate(const struct lk_config *c, double step_s)
{
    return work(c) / step_s;
}

/* Returns true if nothing explains an efficiency above 1 but error: the same work a GPU, on more of
 * them, was forecast and not measured. */
static bool at_most_1(const struct lk_prediction *p, const struct lk_prediction *r)
{
    const struct lk_config *a = &p->config, *b = &r->config;

    return isnan(p->measured_s) && a->world_size >= b->world_size &&
           a->local_batch == b->local_batch && a->accumulation == b->accumulation &&
           (b->world_size == 1 || (lk_config_same_scheme(a, b) && a->cap_bytes == b->cap_bytes));
}

/*
 * Makes the losses those beyond the reference, for the same samples a GPU: the ideal is the step
 * that the reference would take for them, so that its share of the step is the efficiency. Where
 * the samples are not dealt to steps and micro-batches alike, the difference of what the ideal
 * holds is the batch's.
 */
static void refer_losses(const struct lk_prediction *p, const struct lk_prediction *r,
                         double reference_s, struct lk_forecast_point *out)
{
    double same = work(&p->config) / work(&r->config), *losses_s = out->losses_s;
    bool alike = p->config.local_batch == r->config.local_batch &&
                 p->config.accumulation == r->config.accumulation;

    if (isnan(p->losses_s[LK_LOSS_IDEAL]) || isnan(r->losses_s[LK_LOSS_IDEAL]))
        return;
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        losses_s[i] -= same * r->losses_s[i];
    losses_s[alike ? LK_LOSS_REST : LK_LOSS_BATCH] += losses_s[LK_LOSS_IDEAL];
    losses_s[LK_LOSS_IDEAL] = same * reference_s;
    lk_losses_close(losses_s, out->step_s);
}

static enum lk_status set_efficiency(const struct lk_prediction *p, const struct lk_prediction *r,
                                     double level, struct lk_forecast_point *out)
{
    enum lk_status st = LK_OK;
    double reference_s = isnan(r->measured_s) ? r->step_s : r->measured_s;
    double of_reference = rate(&r->config, reference_s);
    double value = rate(&p->config, p->step_s) / of_reference, *ratios = NULL;
    struct lk_estimate e = {.value = value,
                            .lo = rate(&p->config, p->hi_s) / of_reference,
                            .hi = rate(&p->config, p->lo_s) / of_reference};

    if (p->n_draws && p->n_draws == r->n_draws) {
        LK_TRY(lk_alloc(&ratios, p->n_draws, sizeof *ratios));
        for (size_t i = 0; i < p->n_draws; i++)
            ratios[i] = rate(&p->config, p->draws_s[i]) / rate(&r->config, r->draws_s[i]);
        e = lk_stats_interval(value, ratios, p->n_draws, level);
    }
    if (at_most_1(p, r)) {
        out->step_s *= fmax(1, e.value);
        out->step_hi_s = fmax(out->step_hi_s, out->step_s);
        out->throughput_per_s /= fmax(1, e.value);
        e.value = fmin(1, e.value);
        e.lo = fmin(1, e.lo);
        e.hi = fmin(1, e.hi);
    }
    refer_losses(p, r, reference_s, out);
    out->efficiency = e.value;
    out->efficiency_lo = e.lo;
    out->efficiency_hi = e.hi;
out:
    free(ratios);
    return st;
}

/* ---- Points ---- */

enum lk_status lk_forecast_point_of(const struct lk_prediction *p,
                                    const struct lk_prediction *reference, double level,
                                    struct lk_forecast_point *out)
{
    struct lk_forecast_point point = {.config = p->config,
                                      .step_s = p->step_s,
                                      .step_lo_s = p->lo_s,
                                      .step_hi_s = p->hi_s,
                                      .throughput_per_s = lk_config_samples(&p->config) / p->step_s,
                                      .efficiency = NAN,
                                      .efficiency_lo = NAN,
                                      .efficiency_hi = NAN,
                                      .evidence = p->evidence,
                                      .measured_step_s = p->measured_s,
                                      .measured_lo_s = p->measured_lo_s,
                                      .measured_hi_s = p->measured_hi_s,
                                      .plan = lk_plan_none};

    if (!point.config.local_batch)
        point.config.local_batch = 1; /* as lk_config_samples counts it */
    memcpy(point.evidence_text, p->evidence_text, sizeof point.evidence_text);
    memcpy(point.losses_s, p->losses_s, sizeof point.losses_s);
    *out = point;
    return reference ? set_efficiency(p, reference, level, out) : LK_OK;
}

enum lk_status lk_forecast_add(struct lk_forecast *f, const struct lk_forecast_point *p)
{
    LK_PASS(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *f->points));
    f->points[f->n_points++] = *p;
    return LK_OK;
}

enum lk_status lk_forecast_note_left_out(struct lk_forecast *f, size_t n, const char *first)
{
    if (!n)
        return LK_OK;
    return lk_forecast_warn(f, "%zu configuration%s left out. The first: %s", n,
                            n == 1 ? " is" : "s are", first);
}

enum lk_status lk_forecast_note_unvaried(struct lk_forecast *f, const struct lk_unvaried *u)
{
    enum lk_prior fixed = u->fixed_sd < lk_prior_value(LK_PRIOR_FIXED_SHARE) ? LK_PRIOR_FIXED_REST
                                                                             : LK_PRIOR_FIXED_SHARE;

    if (u->fixed_sd > 0)
        LK_PASS(
            lk_forecast_assume(f, "steps of several micro-batches",
                               "no run had these accumulations: what a step takes once is known "
                               "to %.0f %% of a micro-batch (%s)",
                               100 * u->fixed_sd, lk_prior_source(fixed)));
    if (u->hook)
        LK_PASS(lk_forecast_assume(f, "what a compression computes",
                                   "known to a factor of two: no run had one"));
    return u->shard ? lk_forecast_assume(f, "the order of a sharded step's collectives",
                                         "their time is known to %.0f %%: no run was sharded",
                                         100 * lk_prior_value(LK_PRIOR_SHARD_ERROR))
                    : LK_OK;
}

enum lk_status lk_forecast_note_no_reference(struct lk_forecast *f, const char *why)
{
    return why ? lk_forecast_warn(f, "Efficiency is not known without its reference: %s", why)
               : LK_OK;
}

/* Predicts all configurations, and leaves out those that are refused. */
static enum lk_status predict_points(struct forecast *f)
{
    const struct lk_evidence_source *e = f->evidence;
    size_t kept = 0;

    for (size_t i = 0; i < f->points.n; i++) {
        struct lk_config c = f->points.v[i].config;
        enum lk_status st = e->ops->at(e->self, &c, &f->points.v[kept]);

        if (st != LK_OK)
            LK_PASS(refuse(f, st));
        else
            kept++;
    }
    f->points.n = kept;
    return kept ? LK_OK : lk_fail(f->refused, "%s", f->refusal);
}

/* Finds the reference of a point, whose step is known without it, too. */
static enum lk_status reference_if_known(struct forecast *f, const struct lk_config *c,
                                         const struct lk_prediction **out)
{
    enum lk_status st = reference_of(f, c, out);

    if (!refuses(st))
        return st;
    *out = NULL;
    return f->no_reference ? LK_OK : lk_strdup(&f->no_reference, lk_error_text());
}

static enum lk_status predict_all(struct forecast *f)
{
    LK_PASS(predict_points(f));
    lk_predict_request_axes(f->request, f->out);
    for (size_t i = 0; i < f->points.n; i++) {
        const struct lk_prediction *p = &f->points.v[i], *reference;
        struct lk_forecast_point point;

        LK_PASS(reference_if_known(f, &p->config, &reference));
        LK_PASS(lk_forecast_point_of(p, reference, f->request->level, &point));
        lk_predict_request_words(f->request, &point);
        LK_PASS(lk_forecast_add(f->out, &point));
    }
    LK_PASS(lk_forecast_note_no_reference(f->out, f->no_reference));
    return lk_forecast_note_left_out(f->out, f->n_refused, f->refusal);
}

/* ---- The best and the answer ---- */

/* A point with a batch outside the measured ones is shown, but is not named the best. */
static bool may_be_best(const struct lk_prediction *p)
{
    return !(p->batch_extrapolation > 1);
}

static size_t best_at(const struct forecast *f, int world_size, size_t except)
{
    size_t n = f->points.n, best = n;

    for (size_t i = 0; i < n; i++)
        if (i != except && f->points.v[i].config.world_size == world_size &&
            may_be_best(&f->points.v[i]) &&
            (best == n ||
             f->out->points[i].throughput_per_s > f->out->points[best].throughput_per_s))
            best = i;
    return best;
}

/* Computes the probability that point a has a higher throughput than b, over draws and the model's
 * resolution, as a what-if does. */
static enum lk_status certainty(const struct forecast *f, size_t a, size_t b, double *out)
{
    enum lk_status st = LK_OK;
    const struct lk_prediction *p = &f->points.v[a], *q = &f->points.v[b];
    double *ratios = NULL;

    LK_TRY(lk_alloc(&ratios, p->n_draws, sizeof *ratios));
    for (size_t i = 0; i < p->n_draws; i++)
        ratios[i] = rate(&p->config, p->draws_s[i]) / rate(&q->config, q->draws_s[i]);
    *out = lk_stats_above_one(ratios, p->n_draws, lk_prior_value(LK_PRIOR_RESOLUTION));
out:
    free(ratios);
    return st;
}

/* Says, or notes, which configuration is the best at a count that has several, and by how much.
 * Without draws nothing tells whether a difference is one. */
static enum lk_status tell_best_at(const struct forecast *f, int world_size, bool say)
{
    size_t n = f->points.n, best = best_at(f, world_size, n), next = best_at(f, world_size, best);
    const struct lk_forecast_point *points = f->out->points;
    char words[LK_ANSWER_WORDS];
    double sure;

    if (best == n || next == n || !f->points.v[0].n_draws)
        return LK_OK;
    LK_PASS(certainty(f, best, next, &sure));
    return (say ? lk_forecast_say : lk_forecast_note)(
        f->out,
        "Best of those asked for at %d GPU%s: %s, %.1f %% faster than the next, %s the model's "
        "error (%.0f %% likely).",
        world_size, world_size == 1 ? "" : "s",
        lk_answer_config(f->out, &points[best], words, sizeof words),
        100 * (points[best].throughput_per_s / points[next].throughput_per_s - 1),
        sure >= (1 + f->request->level) / 2 ? "beyond" : "within", 100 * sure);
}

/* Returns the point that the answer is about: the best at the most GPUs. */
static size_t main_point(const struct forecast *f)
{
    const struct lk_forecast_point *p = f->out->points;
    size_t most = 0, best;

    for (size_t i = 1; i < f->out->n_points; i++)
        most = p[i].config.world_size > p[most].config.world_size ? i : most;
    best = best_at(f, p[most].config.world_size, f->points.n);
    return best < f->points.n && f->points.v[0].n_draws ? best : most;
}

static enum lk_status tell_best(const struct forecast *f, int most)
{
    const struct lk_prediction *v = f->points.v;
    size_t outside = 0;

    for (size_t i = 0; i < f->points.n; i++)
        outside += !may_be_best(&v[i]);
    if (outside && f->points.n > 1)
        LK_PASS(lk_forecast_note(f->out,
                                 "%zu row%s extrapolated on local batch: not named the best",
                                 outside, outside == 1 ? " is" : "s are"));
    for (size_t i = 0; i < f->points.n; i++)
        if (!i || v[i - 1].config.world_size != v[i].config.world_size)
            LK_PASS(tell_best_at(f, v[i].config.world_size, v[i].config.world_size == most));
    return LK_OK;
}

/* ---- The knee ---- */

static enum lk_status throughput_of_nodes(const struct lk_evidence_source *e, struct lk_config c,
                                          int nodes, double *out)
{
    double step_s;

    c.nodes = nodes;
    c.world_size = nodes * e->cluster->gpus_per_node;
    LK_PASS(e->ops->estimate(e->self, &c, &step_s));
    *out = lk_config_samples(&c) / step_s;
    return LK_OK;
}

enum lk_status lk_knee_find(const struct lk_evidence_source *e, const struct lk_config *like,
                            int most, int *out_nodes)
{
    double first, last;
    int at = 1;

    LK_PASS(throughput_of_nodes(e, *like, 1, &first));
    last = first;
    while (at < most) {
        int next = at + (at / 4 > 1 ? at / 4 : 1);
        double now;

        if (next > most)
            next = most;
        LK_PASS(throughput_of_nodes(e, *like, next, &now));
        if ((now - last) / (next - at) < first / 2)
            break;
        last = now;
        at = next;
    }
    *out_nodes = at;
    return LK_OK;
}

/* Says where the knee of weak scaling is, from the first point's configuration. */
static enum lk_status tell_knee(const struct forecast *f)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_source *e = f->evidence;
    int nodes = 0, asked = 1, most, per_node = e->cluster->gpus_per_node;

    for (size_t i = 0; i < f->points.n; i++)
        asked = f->points.v[i].config.nodes > asked ? f->points.v[i].config.nodes : asked;
    most = e->knee_nodes ? e->knee_nodes : asked;
    if (f->request->global_batch > 0 || most == 1)
        return LK_OK;
    if (most < 0)
        return lk_forecast_note(f->out, "knee: not known, no run on two nodes");
    st = lk_knee_find(e, &f->points.v[0].config, most, &nodes);
    if (st == LK_EEVIDENCE)
        return lk_forecast_note(f->out, "knee: not known, a count on the way has no evidence");
    if (st != LK_OK)
        return st;
    if (nodes < most)
        return lk_forecast_say(f->out,
                               "The knee is at %d node%s (%d GPUs): a further node adds less than "
                               "half of what the first delivers.",
                               nodes, nodes == 1 ? "" : "s", nodes * per_node);
    return lk_forecast_note(f->out,
                            "No knee within %d nodes: each adds at least half of what the first "
                            "delivers.",
                            most);
}

/* Says which run would narrow a forecast far beyond the measured counts. */
static enum lk_status tell_run(const struct forecast *f, const struct lk_forecast_point *p)
{
    enum { FAR = 4 }; /* times the measured GPUs */
    const struct lk_evidence_source *e = f->evidence;
    int most = 0;

    for (size_t i = 0; i < e->n_measured; i++)
        if (!isnan(e->measured[i].step_s) && e->measured[i].config.world_size > most)
            most = e->measured[i].config.world_size;
    if (!most || p->config.world_size < FAR * most || p->evidence != LK_EVIDENCE_EXTRAPOLATED)
        return LK_OK;
    return lk_forecast_say(f->out, "A run on %d GPUs would narrow this most cheaply.", 2 * most);
}

static enum lk_status tell(const struct forecast *f)
{
    size_t at = main_point(f);
    const struct lk_forecast_point *p = &f->out->points[at];

    LK_PASS(lk_answer_point(f->out, at));
    LK_PASS(tell_best(f, p->config.world_size));
    LK_PASS(tell_knee(f));
    return tell_run(f, p);
}

/* ---- The whole ---- */

enum lk_status lk_forecast_run(const struct lk_evidence_source *evidence,
                               const struct lk_predict_request *request, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct lk_forecast o = {.level = request->level};
    struct forecast f = {.evidence = evidence, .request = request, .out = &o};
    const struct lk_evidence_ops *ops = evidence->ops;

    LK_TRY(lk_predict_request_check(request));
    LK_TRY(make_grid(&f));
    LK_TRY(ops->prepare(evidence->self, &o));
    LK_TRY(predict_all(&f));
    LK_TRY(tell(&f));
    if (ops->conclude)
        LK_TRY(ops->conclude(evidence->self, f.points.v, f.points.n, &o));
    *out = o;
    memset(&o, 0, sizeof o);
out:
    lk_forecast_fini(&o);
    predictions_fini(&f.points);
    predictions_fini(&f.references);
    free(f.refusal);
    free(f.no_reference);
    return st;
}
