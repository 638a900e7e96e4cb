/*
 * A table of throughputs as a source of evidence, by the scaling law, alone or weighed with a step
 * model.
 *
 * Divisions: rows / grades / predictions / names and notes / trial / opening / the
 * whole.
 */
#include "sim/throughput/throughput.h"

#include "base/array.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/links.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/contradiction.h"
#include "sim/planning/plan.h"
#include "sim/step/altered_cluster.h"
#include "sim/step/config.h"
#include "sim/throughput/throughput_fit.h"
#include "sim/throughput/throughput_reach.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Odds of the step model against the law below which a note says so. */
static const double ODDS_NOTED = 0.05;

/* The knee is sought up to so many times the measured nodes. */
enum { KNEE_REACH = 8 };

/* With a step model, where each takes a fit: about as long as the forecast itself. */
enum { BACKTESTS_SHOWN = 8 };

struct table {
    const struct lk_throughput_table *t;
    struct lk_throughput_request q;  /* a copy, whose lists are borrowed */
    struct lk_fitted_cluster fitted; /* the model's, with the nodes asked for */
    struct lk_cluster cluster;       /* that, or the altered one; borrows */
    struct lk_step_prior *step;      /* of the machine that is asked for */
    struct lk_step_prior *rows_step; /* of that of the rows, which may be the same */
    struct lk_throughput_fit fit;
    const struct lk_config *largest; /* the row with most GPUs: asked for by default */
    int most_nodes;                  /* measured */
    bool per_node_assumed;
    bool refuted;         /* the step model, which is dropped: the law answers alone, */
    bool asked_elsewhere; /* for the rows' machine, which is not the one asked for */
    struct lk_measured measured[LK_SCALING_POINTS_MAX]; /* the rows */
    bool is_altered;   /* borrows all but `step` and `altered` from the machine as it is */
    bool is_elsewhere; /* not the rows' machine: altered, or another cluster */
    struct lk_altered altered;
    struct lk_throughput_table *more; /* the rows, with one that was not measured; else NULL */
};

/* ---- Rows ---- */

static void read_rows(struct table *e)
{
    e->largest = &e->t->points[0].config;
    for (size_t i = 0; i < e->t->n; i++) {
        const struct lk_config *c = &e->t->points[i].config;

        e->largest = c->world_size > e->largest->world_size ? c : e->largest;
        e->most_nodes = c->nodes > e->most_nodes ? c->nodes : e->most_nodes;
        e->measured[i] =
            (struct lk_measured){*c, lk_config_samples(c) / e->t->points[i].throughput};
    }
}

/* Returns the row of the smallest measured count of a configuration's batch; NULL: none. */
static const struct lk_config *smallest(const struct table *e, const struct lk_config *c)
{
    const struct lk_config *found = NULL;

    for (size_t i = 0; i < e->t->n; i++) {
        const struct lk_config *row = &e->t->points[i].config;

        if (lk_throughput_same_batch(row, c) && (!found || row->world_size < found->world_size))
            found = row;
    }
    return found;
}

/* Takes the smallest measured count of the batch. In strong scaling, and where the batch was not
 * measured but a step model forecasts it, that is the smallest of the table. */
static enum lk_status set_reference(const void *self, struct lk_config *c)
{
    const struct table *e = self;
    const struct lk_config *row = smallest(e, c);

    if (e->q.grid.global_batch || (!row && e->step)) {
        row = &e->t->points[0].config;
        for (size_t i = 0; i < e->t->n; i++)
            row =
                e->t->points[i].config.world_size < row->world_size ? &e->t->points[i].config : row;
    }
    c->world_size = row ? row->world_size : 0;
    c->nodes = row ? row->nodes : c->nodes;
    return LK_OK;
}

/* ---- Grades ---- */

/* Grades a prediction beyond the rows as a preset's where the network is a preset's; its reach is
 * said all the same. */
static enum lk_status grade_model(const struct table *e, struct lk_prediction *p)
{
    enum lk_evidence grade;
    char model[sizeof p->evidence_text];
    size_t at;

    LK_PASS(lk_step_prior_shape(e->step, &p->config, &at));
    lk_step_prior_grade(e->step, at, &grade, model, sizeof model);
    if (grade != LK_EVIDENCE_PRESET)
        return LK_OK;
    p->evidence = grade;
    snprintf(p->reach_text, sizeof p->reach_text, "; %.120s", p->evidence_text);
    snprintf(p->evidence_text, sizeof p->evidence_text, "%.31s%.122s", model, p->reach_text);
    return LK_OK;
}

static enum lk_status grade(const struct table *e, struct lk_prediction *p)
{
    const struct lk_config *c = &p->config;
    bool below = false, above = false;

    for (size_t i = 0; i < e->t->n; i++) {
        const struct lk_config *row = &e->t->points[i].config;

        below |= lk_throughput_same_batch(row, c) && row->world_size <= c->world_size;
        above |= lk_throughput_same_batch(row, c) && row->world_size >= c->world_size;
    }
    p->evidence = !isnan(p->measured_s)                ? LK_EVIDENCE_MEASURED
                  : below && above && !e->is_elsewhere ? LK_EVIDENCE_INTERPOLATED
                                                       : LK_EVIDENCE_EXTRAPOLATED;
    if (p->evidence == LK_EVIDENCE_EXTRAPOLATED)
        lk_throughput_say_beyond(e->t,
                                 !e->is_elsewhere ? NULL
                                 : e->is_altered  ? "a changed machine"
                                                  : "another machine",
                                 p);
    else
        snprintf(p->evidence_text, sizeof p->evidence_text, "%s", lk_evidence_name(p->evidence));
    return e->step && p->evidence == LK_EVIDENCE_EXTRAPOLATED ? grade_model(e, p) : LK_OK;
}

/* ---- Predictions ---- */

static size_t row_of(const struct table *e, const struct lk_config *c)
{
    for (size_t i = e->is_elsewhere ? 0 : e->t->n; i-- > 0;) {
        const struct lk_config *row = &e->t->points[i].config;

        if (lk_throughput_same_batch(row, c) && row->world_size == c->world_size &&
            row->nodes == c->nodes)
            return i;
    }
    return e->t->n;
}

/* Sets the bound of a configuration by the links of a step's cluster; 0: not known. */
static enum lk_status set_bound(struct lk_step_prior *step, struct lk_prediction *p)
{
    size_t shape;

    if (step) {
        LK_PASS(lk_step_prior_shape(step, &p->config, &shape));
        p->bound_s = lk_step_prior_bound_s(step, shape);
    }
    return LK_OK;
}

/* Sets step and interval of p->config by a fit. */
static enum lk_status set_step(struct lk_throughput_fit *fit, double level, struct lk_prediction *p)
{
    struct lk_scaling_point target = {.config = p->config};
    double samples = lk_config_samples(&p->config);
    struct lk_estimate t;

    LK_PASS(lk_throughput_fit_at(fit, &target, level, &t));
    p->step_s = samples / t.value;
    p->lo_s = samples / t.hi;
    p->hi_s = samples / t.lo;
    return LK_OK;
}

/* What was measured is shown, and not what the fit makes of it; the interval holds both. */
static void show_measured(const struct lk_scaling_point *row, struct lk_prediction *p)
{
    double samples = p->measured_s * row->throughput;

    p->step_s = p->measured_s;
    p->lo_s = fmin(p->lo_s, row->most > 0 ? samples / row->most : p->step_s);
    p->hi_s = fmax(p->hi_s, row->least > 0 ? samples / row->least : p->step_s);
}

static enum lk_status set_losses(struct table *e, struct lk_prediction *p)
{
    struct lk_scaling_point target = {.config = p->config};

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        p->losses_s[i] = NAN;
    if (!e->step || !e->fit.step) /* no draw of the model explains the rows */
        return LK_OK;
    LK_PASS(lk_throughput_fit_losses(&e->fit, &target, p->losses_s));
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        p->losses_s[i] *= p->step_s;
    return LK_OK;
}

static enum lk_status at(void *self, const struct lk_config *c, struct lk_prediction *out)
{
    struct table *e = self;
    const size_t row = row_of(e, c);
    struct lk_prediction p;
    const struct lk_throughput_reach reach = {.table = e->t,
                                              .cluster = &e->cluster,
                                              .largest = e->largest->world_size,
                                              .most_nodes = e->most_nodes,
                                              .has_model = e->step != NULL,
                                              .refuted = e->refuted,
                                              .asked_elsewhere = e->asked_elsewhere,
                                              .per_node_assumed = e->per_node_assumed};

    lk_prediction_init(&p, c);
    p.measured_s = row < e->t->n ? e->measured[row].step_s : NAN;
    p.assumed.shard = c->world_size > 1 && c->sharding != LK_SHARDING_DDP;
    LK_PASS(lk_throughput_check_reach(&reach, c, &p.batch_extrapolation));
    LK_PASS(set_step(&e->fit, e->q.grid.level, &p));
    if (row < e->t->n)
        show_measured(&e->t->points[row], &p);
    LK_PASS(grade(e, &p));
    LK_PASS(set_losses(e, &p));
    LK_PASS(set_bound(e->step, &p));
    if (isnan(p.measured_s))
        lk_prediction_raise(&p);
    *out = p;
    return LK_OK;
}

static enum lk_status estimate(void *self, const struct lk_config *c, double *out_step_s)
{
    struct table *e = self;
    struct lk_prediction p = {.config = *c};
    const size_t row = row_of(e, c);

    if (row < e->t->n) {
        *out_step_s = e->measured[row].step_s;
        return LK_OK;
    }
    LK_PASS(set_step(&e->fit, e->q.grid.level, &p));
    LK_PASS(set_bound(e->step, &p));
    *out_step_s = fmax(p.step_s, p.bound_s);
    return LK_OK;
}

static enum lk_status predict_from(const struct table *e, const struct lk_scaling_point *rows,
                                   size_t n, struct lk_step_prior *step, struct lk_prediction *p)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_fit fit = {0};

    LK_TRY(lk_throughput_fit_init(&fit, step, rows, n));
    LK_TRY(set_step(&fit, e->q.grid.level, p));
out:
    lk_throughput_fit_fini(&fit);
    return st;
}

/* A scale needs a row of the same batch that is left, a batch or an accumulation rows of two
 * others.
 */
static enum lk_status predict_held_out(void *self, const struct lk_config *c, enum lk_held held,
                                       struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    const struct table *e = self;
    struct lk_scaling_point rest[LK_SCALING_POINTS_MAX];
    struct lk_prediction p = {.config = *c}, law = p;
    bool enough = false;
    size_t n = 0;

    for (size_t i = 0; i < e->t->n; i++) {
        const struct lk_config *row = &e->t->points[i].config;

        if (!lk_backtest_leaves(row, c, held))
            continue;
        rest[n++] = e->t->points[i];
        enough |= held == LK_HELD_SCALE ? lk_throughput_same_batch(row, c)
                                        : !lk_throughput_same_batch(row, &rest[0].config);
    }
    if (!enough)
        return lk_fail(LK_EEVIDENCE,
                       "%s: nothing to hold out: one batch and accumulation at two or more counts "
                       "of GPUs is needed. The cheapest run that would supply it: %d GPUs",
                       e->t->name, 2 * e->t->points[0].config.world_size);
    LK_TRY(predict_from(e, rest, n, e->rows_step, &p));
    LK_TRY(set_bound(e->rows_step, &p));
    lk_prediction_raise(&p);
    if (e->rows_step)
        LK_TRY(predict_from(e, rest, n, NULL, &law));
    p.law_s = law.step_s;
    *out = p;
out:
    return st;
}

/* ---- Names and notes ---- */

static struct lk_evidence_source source_of(struct table *e);

static enum lk_status set_names(const struct table *e, struct lk_forecast *out)
{
    const struct lk_forecast_request *q = &e->q.grid;
    const struct lk_config *reference = &e->t->points[0].config;
    struct lk_config like = *e->largest;

    if (q->axes[LK_AXIS_LOCAL_BATCH].n)
        like.local_batch = (int)q->axes[LK_AXIS_LOCAL_BATCH].v[0].count;
    if (q->axes[LK_AXIS_ACCUMULATION].n)
        like.accumulation = (int)q->axes[LK_AXIS_ACCUMULATION].v[0].count;
    if (!q->global_batch)
        reference = smallest(e, &like);
    LK_PASS(lk_strdup(&out->job, e->t->name));
    LK_PASS(lk_strdup(&out->cluster, e->step ? e->cluster.name : "its own machine"));
    LK_PASS(lk_strdup(&out->sample_unit, "sample"));
    if (reference)
        LK_PASS(lk_asprintf(&out->reference, "%d GPU%s%s", reference->world_size,
                            reference->world_size > 1 ? "s" : "",
                            q->global_batch ? ", the same global batch" : ""));
    else
        LK_PASS(lk_strdup(&out->reference, e->step ? "the smallest count, as forecast"
                                                   : "none: no run of this batch"));
    return LK_OK;
}

static enum lk_status note_model(const struct table *e, struct lk_forecast *out)
{
    const struct lk_throughput_model *m = e->q.model;

    if (e->most_nodes < 2 && lk_link_network_assumed(lk_step_prior_cluster(e->step)))
        LK_PASS(lk_forecast_assume(out, "the network between nodes",
                                   "a datasheet's, of %s; fewer cards a node and a lower rate are "
                                   "within the interval; a row of 2 nodes (%d GPUs) in %s would "
                                   "tell it",
                                   m->cluster->name, 2 * e->cluster.gpus_per_node, e->t->name));
    LK_PASS(
        lk_forecast_note(out,
                         "method: the step model of the gradients on the cluster, fitted to the "
                         "rows, weighed with the scaling law of published series (%.0f of %d "
                         "fits tried agree with the rows)",
                         e->fit.effective, e->q.grid.draws * LK_STEP_FIT_PROPOSALS));
    if (e->fit.step_odds < ODDS_NOTED)
        LK_PASS(
            lk_forecast_warn(out,
                             "The rows hardly agree with the step model (odds %.2g to the scaling "
                             "law): is %s this machine, and are gradients and batch this "
                             "job's?",
                             e->fit.step_odds, lk_throughput_measured_on(m)->name));
    if (!m->timed)
        LK_PASS(lk_forecast_assume(out, "when gradients are ready", "evenly over backward, about"));
    return LK_OK;
}

static enum lk_status conclude(const void *self, const struct lk_prediction *const *points,
                               size_t n, struct lk_forecast *out)
{
    const struct table *e = self;

    if (!e->step)
        LK_PASS(lk_throughput_say_width(e->t, points, n, out));
    LK_PASS(lk_throughput_say_compute(e->t, e->q.model, out));
    return lk_throughput_say_place(e->q.model, out);
}

/* ---- Trial ---- */

/* Fits the rows and back-tests the fit. LK_EEVIDENCE: no draw of the step model explains them. */
static enum lk_status fit_rows(struct table *e, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct lk_evidence_source source = source_of(e);
    struct lk_backtests b = {0};

    LK_TRY(lk_throughput_fit_init(&e->fit, e->rows_step, e->t->points, e->t->n));
    e->fit.elsewhere = e->step == e->rows_step ? NULL : e->step;
    LK_TRY(lk_backtest_run(&source, e->q.grid.level, e->step ? BACKTESTS_SHOWN : 0, &b));
    out->n_backtests = 0;
    LK_TRY(lk_backtest_add(&b, out));
out:
    lk_backtests_fini(&b);
    return st;
}

/* Holds the step model, or the law alone, against the rows. */
static enum lk_status try_fit(struct table *e, double odds, struct lk_forecast *out)
{
    struct table rows = *e; /* on the machine where they were measured */
    struct lk_evidence_source source;
    struct lk_trial trial = {.source = &source, .by = e->t->name, .is_law = !e->step, .odds = odds};

    rows.step = e->rows_step;
    rows.fit.elsewhere = NULL;
    if (e->is_elsewhere)
        rows.cluster = *lk_throughput_measured_on(e->q.model);
    trial.device_bytes =
        lk_plan_device_bytes(&rows.cluster, e->is_elsewhere ? NULL : e->q.grid.plan);
    source = source_of(&rows);
    return lk_trial_hold(&trial, out);
}

/* Lets the law answer alone in the place of a refuted step model, if the rows do not contradict it,
 * too. */
static enum lk_status drop_model(struct table *e, struct lk_forecast *out)
{
    size_t of_model = out->n_contradictions;

    lk_throughput_fit_fini(&e->fit);
    if (e->rows_step != e->step)
        lk_step_prior_destroy(e->rows_step);
    lk_step_prior_destroy(e->step);
    e->step = e->rows_step = NULL;
    e->asked_elsewhere = e->is_elsewhere;
    e->is_elsewhere = false;
    e->q.model = NULL;
    e->refuted = true;
    LK_PASS(fit_rows(e, out));
    LK_PASS(try_fit(e, NAN, out));
    return out->n_contradictions == of_model && !e->asked_elsewhere
               ? lk_contradictions_answer(out, "the scaling law alone")
               : LK_OK;
}

static enum lk_status prepare(void *self, struct lk_forecast *out)
{
    struct table *e = self;
    enum lk_status st = fit_rows(e, out);
    double odds = !e->step ? NAN : st == LK_OK ? e->fit.step_odds : 0;

    if (!e->step || st != LK_EEVIDENCE)
        LK_PASS(st);
    LK_PASS(try_fit(e, odds, out));
    if (e->step && out->n_contradictions && (!e->q.grid.anyway || st != LK_OK))
        LK_PASS(drop_model(e, out));
    LK_PASS(set_names(e, out));
    if (e->step)
        LK_PASS(note_model(e, out));
    else
        LK_PASS(lk_forecast_note(out, "method: the scaling law of published series, from the "
                                      "throughputs alone; docs/accuracy.md has its errors"));
    if (out->n_backtests && e->step && e->t->n > BACKTESTS_SHOWN)
        LK_PASS(lk_forecast_note(out, "not all rows were held out: validate --throughput does so"));
    if (!e->largest->local_batch)
        LK_PASS(lk_forecast_warn(
            out, "The table has no local batch: a step is taken as one sample a GPU."));
    return e->per_node_assumed
               ? lk_forecast_assume(out, "GPUs of a node", "%d GPUs a node (--gpus-per-node)",
                                    e->cluster.gpus_per_node)
               : LK_OK;
}

/* ---- Opening ---- */

/* Makes the prior of the step model behind a table, NULL without one. */
static enum lk_status make_prior(const struct lk_throughput_request *q,
                                 const struct lk_cluster *machine, struct lk_step_prior **out)
{
    *out = NULL;
    if (!q->model)
        return LK_OK;
    return lk_step_prior_create(q->model->job, q->model->timed, machine,
                                (size_t)q->grid.draws * LK_STEP_FIT_PROPOSALS, q->grid.seed, out);
}

/* ---- The whole ---- */

static void table_close(void *self)
{
    struct table *e = self;

    if (!e)
        return;
    if (!e->is_altered)
        lk_throughput_fit_fini(&e->fit);
    if (!e->is_altered && e->rows_step != e->step)
        lk_step_prior_destroy(e->rows_step);
    lk_step_prior_destroy(e->step);
    if (!e->is_altered)
        lk_fitted_cluster_fini(&e->fitted);
    lk_altered_fini(&e->altered);
    lk_throughput_drop(e->more);
    free(e);
}

/* The rows were measured on the machine as it is: what they say of the job holds on another. */
static enum lk_status alter(void *self, const struct lk_change *change, int world_size, void **out)
{
    enum lk_status st = LK_OK;
    const struct table *as_is = self;
    struct lk_throughput_model model;
    struct lk_throughput_request q = as_is->q;
    struct table *e = NULL;

    if (!as_is->q.model)
        return lk_fail(LK_EEVIDENCE,
                       "%s: the step model, which the rows contradict, would alone tell what "
                       "another machine does",
                       as_is->t->name);
    model = *as_is->q.model;
    LK_TRY(lk_alloc(&e, 1, sizeof *e));
    *e = *as_is;
    e->is_altered = e->is_elsewhere = true;
    e->step = NULL;
    e->more = NULL;
    LK_TRY(lk_altered_init(&e->altered, model.job, &as_is->cluster, change, world_size));
    e->cluster = e->altered.cluster;
    model.job = &e->altered.job;
    q.model = &model;
    LK_TRY(make_prior(&q, &e->cluster, &e->step));
    e->fit.elsewhere = e->step;
    *out = e;
    e = NULL;
out:
    table_close(e);
    return st;
}

static enum lk_status with(void *self, const struct lk_hypothesis *h, void **out)
{
    enum lk_status st = LK_OK;
    const struct table *e = self;
    struct lk_throughput_table *more = NULL;
    struct lk_evidence_source source;

    LK_TRY(lk_throughput_with(e->t, h, &more));
    LK_TRY(lk_throughput_evidence(more, &e->q, &source));
    *out = source.self;
    ((struct table *)source.self)->more = more;
    more = NULL;
out:
    lk_throughput_drop(more);
    return st;
}

static const struct lk_evidence_ops throughputs = {
    .prepare = prepare,
    .at = at,
    .estimate = estimate,
    .predict_held_out = predict_held_out,
    .set_reference = set_reference,
    .alter = alter,
    .with = with,
    .close = table_close,
    .conclude = conclude,
};

static struct lk_evidence_source source_of(struct table *e)
{
    const struct lk_throughput_model *m = e->q.model;
    double nodes = fmin((double)KNEE_REACH * e->most_nodes, INT_MAX / e->cluster.gpus_per_node);

    return (struct lk_evidence_source){.ops = &throughputs,
                                       .self = e,
                                       .cluster = &e->cluster,
                                       .job = m ? m->job : NULL,
                                       .knows = m ? LK_KNOWS_COLLECTIVES : LK_KNOWS_COUNTS,
                                       .measured = e->measured,
                                       .n_measured = e->t->n,
                                       .current = *e->largest,
                                       .knee_nodes = e->most_nodes < 2 && !m ? -1 : (int)nodes};
}

enum lk_status lk_throughput_evidence(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *q,
                                      struct lk_evidence_source *out)
{
    enum lk_status st = LK_OK;
    struct table *e = NULL;

    LK_TRY(lk_alloc(&e, 1, sizeof *e));
    *e = (struct table){.t = t, .q = *q, .refuted = q->refuted};
    LK_TRY(lk_throughput_check_request(t, q));
    LK_TRY(lk_throughput_complete(t, q, &e->cluster, &e->per_node_assumed));
    LK_TRY(lk_fitted_cluster_init(&e->fitted, &e->cluster));
    e->cluster = e->fitted.cluster;
    LK_TRY(make_prior(q, &e->cluster, &e->step));
    e->rows_step = e->step;
    e->is_elsewhere = e->rows_step && q->model->measured_on;
    if (e->is_elsewhere)
        LK_TRY(make_prior(q, q->model->measured_on, &e->rows_step));
    read_rows(e);
    *out = source_of(e);
    e = NULL;
out:
    table_close(e);
    return st;
}
