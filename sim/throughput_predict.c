/*
 * Forecasts from a table of throughputs.
 *
 * Divisions: shape / the grid / refusals and grades / points / knee / notes / the whole.
 */
#include "sim/throughput.h"

#include "base/array.h"
#include "sim/throughput_point.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The losses of a forecast's largest count are named when above this share of the step. */
static const double LOSS_WORTH_NAMING = 0.005;

/* Odds of the step model against the law below which a note says so. */
static const double ODDS_NOTED = 0.05;

struct context {
    const struct lk_throughput_table *t;
    const struct lk_throughput_request *q;
    struct lk_cluster cluster; /* the model's, with the nodes asked for; borrows */
    struct lk_step_prior *step;
    struct lk_throughput_fit fit;
    struct lk_scaling_point like; /* the row with most GPUs: what is asked for by default */
    double per_node, most_gpus, most_nodes; /* most: measured */
    bool per_node_assumed;
    bool batch_unknown;
    struct lk_forecast *out;
};

/* ---- Shape ---- */

static void find_largest(struct context *c)
{
    const struct lk_scaling_point *largest = &c->t->points[0];

    for (size_t i = 0; i < c->t->n; i++) {
        const struct lk_scaling_point *p = &c->t->points[i];

        largest = p->gpus > largest->gpus ? p : largest;
        c->most_nodes = fmax(c->most_nodes, p->nodes);
    }
    c->most_gpus = largest->gpus;
    c->like = *largest;
    c->like.throughput = 0;
    c->batch_unknown = !(largest->local_batch > 0);
}

enum lk_status lk_throughput_prior(struct lk_throughput_table *t,
                                   const struct lk_throughput_request *q,
                                   struct lk_cluster *cluster, double per_node,
                                   struct lk_step_prior **out)
{
    enum lk_status st = LK_OK;
    const struct lk_throughput_model *m = q->model;

    *out = NULL;
    if (!m)
        return LK_OK;
    LK_TRY(lk_throughput_complete(t, per_node, q->n_local_batches ? q->local_batches[0] : 0));
    *cluster = *m->cluster;
    cluster->gpus_per_node = (int)per_node;
    LK_TRY(lk_step_prior_create(m->job, m->timed, cluster, (size_t)m->draws * LK_STEP_FIT_PROPOSALS,
                                m->seed, out));
out:
    return st;
}

static enum lk_status prepare(struct context *c, struct lk_throughput_table *t)
{
    enum lk_status st = LK_OK;
    const struct lk_throughput_request *q = c->q;

    c->per_node = lk_throughput_per_node(t, q->gpus_per_node, q->model ? q->model->cluster : NULL,
                                         &c->per_node_assumed);
    LK_TRY(lk_throughput_prior(t, q, &c->cluster, c->per_node, &c->step));
    find_largest(c);
    if (q->n_local_batches && c->batch_unknown)
        LK_TRY(lk_fail(LK_EEVIDENCE,
                       "%s: no column local_batch, so nothing is known of a batch of "
                       "%d. The cheapest run: the same table with that column filled",
                       t->name, q->local_batches[0]));
    LK_TRY(lk_throughput_fit_init(&c->fit, c->step, t->points, t->n));
out:
    return st;
}

/* The smallest measured count of a point's batch; false: none was, and *out is any row. */
static bool find_reference(const struct context *c, const struct lk_scaling_point *target,
                           const struct lk_scaling_point **out)
{
    bool found = false;

    *out = c->t->points;
    for (size_t i = 0; i < c->t->n; i++) {
        const struct lk_scaling_point *p = &c->t->points[i];

        if (lk_throughput_same_batch(p, target) && (!found || p->gpus < (*out)->gpus)) {
            *out = p;
            found = true;
        }
    }
    return found;
}

/* ---- The grid ---- */

static enum lk_status make_target(const struct context *c, double gpus,
                                  const struct lk_scaling_point *like, struct lk_scaling_point *out)
{
    *out = *like;
    out->gpus = gpus;
    out->nodes = ceil(gpus / c->per_node);
    if (fmod(gpus, out->nodes) != 0)
        return lk_fail(LK_EUSAGE, "%g GPUs do not divide among %g nodes of %g", gpus, out->nodes,
                       c->per_node);
    return LK_OK;
}

/* Strong scaling: accumulation from the global batch; a batch above the rank's share shrinks. */
static enum lk_status split_global(double global, struct lk_scaling_point *p)
{
    double share = global / p->gpus;

    if (fmod(global, p->gpus) != 0 || share < 1 ||
        (share > p->local_batch && fmod(share, p->local_batch) != 0))
        return lk_fail(LK_EUSAGE,
                       "a global batch of %g does not split into %g GPUs with local batch %g",
                       global, p->gpus, p->local_batch);
    p->local_batch = fmin(p->local_batch, share);
    p->accumulation = share / p->local_batch;
    return LK_OK;
}

/* ---- Refusals and grades ---- */

/* How many times the batch is beyond the nearest measured one. */
static double batch_reach(const struct context *c, const struct lk_scaling_point *target)
{
    double reach = INFINITY;

    for (size_t i = 0; i < c->t->n; i++)
        reach = fmin(reach, target->local_batch > 0
                                ? exp(fabs(log(target->local_batch / c->t->points[i].local_batch)))
                                : 1);
    return reach;
}

static enum lk_status check_reach(const struct context *c, const struct lk_scaling_point *target)
{
    double reach = batch_reach(c, target);
    int most = c->step ? LK_THROUGHPUT_MODEL_REACH : LK_THROUGHPUT_REACH;

    if (reach > LK_THROUGHPUT_BATCH_REACH)
        return lk_fail(LK_EEVIDENCE,
                       "a local batch of %g is %.1f times beyond the nearest in %s. The cheapest "
                       "run that would supply it: %g GPUs at local batch %g",
                       target->local_batch, reach, c->t->name, c->t->points[0].gpus,
                       target->local_batch);
    if (target->nodes > 1 && c->most_nodes < 2 && !c->step)
        return lk_fail(LK_EEVIDENCE,
                       "%g GPUs take %g nodes, and %s has no run on two: nothing is known of the "
                       "network: say what the job and the cluster are (--parameters, --cluster). "
                       "The cheapest run that would supply it: 2 nodes, %g GPUs%s",
                       target->gpus, target->nodes, c->t->name, 2 * c->per_node,
                       c->t->has_nodes ? "" : " (with a column nodes; or give --gpus-per-node)");
    if (target->gpus > most * c->most_gpus)
        return lk_fail(LK_EEVIDENCE,
                       "%g GPUs are %.0f times the largest count in %s; a forecast reaches %d "
                       "times. The cheapest run that would supply it: %.0f GPUs",
                       target->gpus, target->gpus / c->most_gpus, c->t->name, most,
                       ceil(target->gpus / most / c->per_node) * c->per_node);
    return LK_OK;
}

/* Beyond the rows a preset's network is a preset's. */
static enum lk_status grade_model(const struct context *c, const struct lk_scaling_point *target,
                                  struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;
    enum lk_evidence e;
    char text[sizeof p->evidence_text];
    struct lk_step_shape shape = {(int)target->gpus, (int)target->nodes, (int)target->accumulation,
                                  target->cap_bytes ? target->cap_bytes
                                                    : c->q->model->job->cap_bytes};
    size_t at;

    LK_TRY(lk_step_prior_shape(c->step, &shape, &at));
    lk_step_prior_grade(c->step, at, &e, text, sizeof text);
    if (e == LK_EVIDENCE_PRESET) {
        p->evidence = e;
        snprintf(p->evidence_text, sizeof p->evidence_text, "%s", text);
    }
out:
    return st;
}

/* In what every row differs from the target, its batch first. */
static const char *differs(const struct context *c, const struct lk_scaling_point *target)
{
    const char *what = "local batch";

    for (size_t i = 0; i < c->t->n; i++)
        if (c->t->points[i].local_batch == target->local_batch)
            what = c->t->points[i].accumulation == target->accumulation ? "bucket cap"
                                                                        : "accumulation";
    return what;
}

static enum lk_status grade(const struct context *c, const struct lk_scaling_point *target,
                            struct lk_forecast_point *p)
{
    const struct lk_scaling_point *reference;
    bool measured = false, below = false, above = false;
    bool has_reference = find_reference(c, target, &reference);

    for (size_t i = 0; i < c->t->n; i++) {
        const struct lk_scaling_point *m = &c->t->points[i];

        if (!lk_throughput_same_batch(m, target))
            continue;
        measured |= m->gpus == target->gpus && m->nodes == target->nodes;
        below |= m->gpus <= target->gpus;
        above |= m->gpus >= target->gpus;
    }
    p->evidence = measured         ? LK_EVIDENCE_MEASURED
                  : below && above ? LK_EVIDENCE_INTERPOLATED
                                   : LK_EVIDENCE_EXTRAPOLATED;
    if (p->evidence == LK_EVIDENCE_EXTRAPOLATED && !has_reference)
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated to another %s",
                 differs(c, target));
    else if (p->evidence == LK_EVIDENCE_EXTRAPOLATED)
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated x%.3g on gpus",
                 above ? reference->gpus / target->gpus : target->gpus / c->most_gpus);
    else
        snprintf(p->evidence_text, sizeof p->evidence_text, "%s", lk_evidence_name(p->evidence));
    return c->step && p->evidence == LK_EVIDENCE_EXTRAPOLATED ? grade_model(c, target, p) : LK_OK;
}

/* ---- Points ---- */

/*
 * Throughput a GPU of what efficiency refers to: the smallest measured count of the batch; where
 * none was, and in strong scaling, as forecast there. NaN: not known.
 */
static enum lk_status reference_rate(struct context *c, const struct lk_scaling_point *target,
                                     double *out)
{
    enum lk_status st = LK_OK;
    const struct lk_scaling_point *reference;
    bool measured = find_reference(c, target, &reference);
    struct lk_scaling_point p = *target;
    struct lk_throughput_estimate e;

    *out = measured ? reference->throughput / reference->gpus : NAN;
    if (!c->step || (measured && !c->q->global_batch))
        return LK_OK;
    p.gpus = c->t->points[0].gpus;
    p.nodes = c->t->points[0].nodes;
    for (size_t i = 0; i < c->t->n; i++)
        if (c->t->points[i].gpus < p.gpus) {
            p.gpus = c->t->points[i].gpus;
            p.nodes = c->t->points[i].nodes;
        }
    if (c->q->global_batch) {
        p.local_batch = c->like.local_batch;
        LK_TRY(split_global((double)c->q->global_batch, &p));
    }
    LK_TRY(lk_throughput_fit_at(&c->fit, &p, c->q->level, &e));
    *out = e.value / p.gpus;
out:
    return st;
}

static void set_point(const struct context *c, const struct lk_scaling_point *target,
                      const struct lk_throughput_estimate *e, double reference_rate_s,
                      struct lk_forecast_point *p)
{
    double samples = fmax(target->local_batch, 1) * target->accumulation * target->gpus;
    double ideal = reference_rate_s * target->gpus;
    uint64_t job_cap = c->step ? c->q->model->job->cap_bytes : 0;

    *p = (struct lk_forecast_point){.gpus = (int)target->gpus,
                                    .nodes = (int)target->nodes,
                                    .local_batch = (int)fmax(target->local_batch, 1),
                                    .accumulation = (int)target->accumulation,
                                    .cap_bytes = target->cap_bytes ? target->cap_bytes : job_cap,
                                    .step_s = samples / e->value,
                                    .step_lo_s = samples / e->hi,
                                    .step_hi_s = samples / e->lo,
                                    .throughput_per_s = e->value,
                                    .efficiency = e->value / ideal,
                                    .efficiency_lo = e->lo / ideal,
                                    .efficiency_hi = e->hi / ideal,
                                    .measured_step_s = NAN,
                                    .measured_lo_s = NAN,
                                    .measured_hi_s = NAN,
                                    .plan = lk_plan_none};
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        p->losses_s[i] = NAN;
    for (size_t i = 0; i < c->t->n; i++)
        if (lk_throughput_same_batch(&c->t->points[i], target) &&
            c->t->points[i].gpus == target->gpus && c->t->points[i].nodes == target->nodes)
            p->measured_step_s = samples / c->t->points[i].throughput;
}

static enum lk_status add_point(struct context *c, const struct lk_scaling_point *target)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_estimate e;
    struct lk_forecast *f = c->out;
    struct lk_forecast_point p;
    double rate;

    LK_TRY(check_reach(c, target));
    LK_TRY(lk_throughput_fit_at(&c->fit, target, c->q->level, &e));
    LK_TRY(reference_rate(c, target, &rate));
    set_point(c, target, &e, rate, &p);
    LK_TRY(grade(c, target, &p));
    if (c->step) {
        LK_TRY(lk_step_fit_losses(c->fit.step, target, p.losses_s));
        for (int i = 0; i < LK_LOSS_COUNT; i++)
            p.losses_s[i] *= p.step_s;
    }
    LK_TRY(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *f->points));
    f->points[f->n_points++] = p;
out:
    return st;
}

/* All batches, accumulations and caps of one count. */
static enum lk_status add_variants(struct context *c, double gpus)
{
    enum lk_status st = LK_OK;
    const struct lk_throughput_request *q = c->q;
    size_t accumulations = q->n_accumulations ? q->n_accumulations : 1;
    size_t caps = q->n_caps ? q->n_caps : 1, batches = q->n_local_batches ? q->n_local_batches : 1;

    for (size_t i = 0; i < batches * accumulations * caps; i++) {
        struct lk_scaling_point like = c->like, target;
        size_t batch = i / caps / accumulations;

        if (q->n_local_batches)
            like.local_batch = q->local_batches[batch];
        if (q->n_accumulations)
            like.accumulation = q->accumulations[i / caps % accumulations];
        /* A row without a cap was run with the job's. */
        if (q->n_caps)
            like.cap_bytes = q->caps[i % caps] == q->model->job->cap_bytes && !c->like.cap_bytes
                                 ? 0
                                 : q->caps[i % caps];
        LK_TRY(make_target(c, gpus, &like, &target));
        if (q->global_batch > 0)
            LK_TRY(split_global((double)q->global_batch, &target));
        LK_TRY(add_point(c, &target));
    }
out:
    return st;
}

/* ---- Knee ---- */

static enum lk_status of_nodes(struct context *c, double nodes, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_point target;
    struct lk_throughput_estimate e;

    LK_TRY(make_target(c, nodes * c->per_node, &c->like, &target));
    LK_TRY(lk_throughput_fit_at(&c->fit, &target, c->q->level, &e));
    *out = e.value;
out:
    return st;
}

/* In whole nodes: beyond it the next node adds less than half of what the first delivers. */
static enum lk_status note_knee(struct context *c)
{
    enum lk_status st = LK_OK;
    double first, last, nodes = 1, most = c->most_nodes * 8;

    if (c->most_nodes < 2 && !c->step)
        return lk_forecast_note(c->out, "knee: not known, no run on two nodes");
    LK_TRY(of_nodes(c, 1, &first));
    last = first;
    while (nodes < most) {
        double next = nodes + fmax(1, floor(nodes / 4)), got;

        LK_TRY(of_nodes(c, next, &got));
        if ((got - last) / (next - nodes) < first / 2)
            return lk_forecast_note(c->out,
                                    "knee: %g node%s; the next adds less than half of what "
                                    "the first delivers",
                                    nodes, nodes > 1 ? "s" : "");
        nodes = next;
        last = got;
    }
    LK_TRY(lk_forecast_note(c->out, "knee: not reached within %g nodes", most));
out:
    return st;
}

/* ---- Notes ---- */

static enum lk_status note_model(struct context *c)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = c->out;
    const struct lk_throughput_model *m = c->q->model;

    LK_TRY(lk_forecast_note(f,
                            "from throughputs, gradients and cluster: the step model, its unknowns "
                            "fitted to the rows (%.0f of %d draws' worth), and the scaling law of "
                            "published series",
                            lk_step_fit_effective(c->fit.step), m->draws * LK_STEP_FIT_PROPOSALS));
    if (c->fit.step_odds < ODDS_NOTED)
        LK_TRY(lk_forecast_note(f,
                                "the rows speak against the step model (odds %.2g to the law): is "
                                "%s this machine, and are gradients and batch this job's?",
                                c->fit.step_odds, m->cluster->name));
    if (!m->timed)
        LK_TRY(lk_forecast_note(f, "assumed: gradients ready evenly over backward, give or take"));
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];
        int worst = LK_LOSS_IDEAL + 1;

        for (int l = worst; l < LK_LOSS_COUNT; l++)
            if (p->losses_s[l] > p->losses_s[worst])
                worst = l;
        if ((!i || p[-1].gpus != p->gpus) && p->losses_s[worst] > LOSS_WORTH_NAMING * p->step_s)
            LK_TRY(lk_forecast_note(f, "largest loss at %d GPUs: %s, %.1f %% of the step", p->gpus,
                                    lk_loss_text((enum lk_loss)worst),
                                    100 * p->losses_s[worst] / p->step_s));
    }
out:
    return st;
}

static enum lk_status add_notes(struct context *c)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = c->out;

    if (c->step)
        LK_TRY(note_model(c));
    else
        LK_TRY(lk_forecast_note(f, "from throughputs alone: the scaling law of published series; "
                                   "docs/accuracy.md has its errors on series held out"));
    if (c->batch_unknown)
        LK_TRY(lk_forecast_note(f, "no local batch in the table: a step is one sample a GPU"));
    if (c->per_node_assumed)
        LK_TRY(lk_forecast_note(f, "assumed: %g GPUs a node (--gpus-per-node)", c->per_node));
    LK_TRY(note_knee(c));
out:
    return st;
}

/* ---- The whole ---- */

static enum lk_status set_names(struct context *c)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = c->out;
    const struct lk_scaling_point *reference;
    struct lk_scaling_point like = c->like;

    if (c->q->n_local_batches)
        like.local_batch = c->q->local_batches[0];
    if (c->q->n_accumulations)
        like.accumulation = c->q->accumulations[0];
    LK_TRY(lk_strdup(&f->job, c->t->name));
    LK_TRY(lk_strdup(&f->cluster, c->step ? c->q->model->cluster->name : "as measured"));
    LK_TRY(lk_strdup(&f->sample_unit, "sample"));
    if (c->q->global_batch)
        LK_TRY(lk_asprintf(&f->reference, "%g GPU%s, the same global batch", c->t->points[0].gpus,
                           c->t->points[0].gpus > 1 ? "s" : ""));
    else if (find_reference(c, &like, &reference))
        LK_TRY(lk_asprintf(&f->reference, "%g GPU%s", reference->gpus,
                           reference->gpus > 1 ? "s" : ""));
    else
        LK_TRY(lk_strdup(&f->reference, c->step ? "the smallest count, as forecast"
                                                : "none: no run of this batch"));
out:
    return st;
}

static enum lk_status check_request(const struct lk_throughput_request *q)
{
    if (!q->model && (q->global_batch || q->n_caps))
        return lk_fail(LK_EUSAGE, "bucket caps and a global batch take what the job and the "
                                  "cluster are: --parameters or --gradients, and --cluster");
    if (q->global_batch && q->n_accumulations)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    return LK_OK;
}

enum lk_status lk_throughput_predict(struct lk_throughput_table *t,
                                     const struct lk_throughput_request *request,
                                     struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct lk_forecast f = {.level = request->level};
    struct context c = {.t = t, .q = request, .out = &f};

    LK_TRY(check_request(request));
    LK_TRY(prepare(&c, t));
    LK_TRY(set_names(&c));
    for (size_t i = 0; i < request->n_gpus; i++)
        LK_TRY(add_variants(&c, request->gpus[i]));
    LK_TRY(add_notes(&c));
    *out = f;
    memset(&f, 0, sizeof f);
out:
    lk_throughput_fit_fini(&c.fit);
    lk_step_prior_destroy(c.step);
    lk_forecast_fini(&f);
    return st;
}
