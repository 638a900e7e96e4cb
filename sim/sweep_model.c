/* The step model made fast for sweeps. Divisions: one configuration / anchors / interface. */
#include "sim/sweep_model.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/closed_form.h"
#include "sim/predictor_state.h"
#include "sim/sweep_parts.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    FACTORS = 5,
    STEPS = 2,         /* nothing is random, and a steady state is reached in the warm-up */
    STEPS_LOADER = 10, /* until a loader's queue has settled */
};

/* Of the collectives' cost; between them the step is nearly straight, beyond them taken as such. */
static const double factors[FACTORS] = {0.5, 0.8, 1, 1.25, 2};

static const double FASTEST = 0.05; /* as in sim/step.c */

/* Measured over modelled of the runs of one configuration. */
struct anchor {
    struct lk_config config;
    enum lk_status status;
    double factor, *factors; /* the estimate's, each draw's */
};

struct lk_sweep_model {
    struct lk_sweep_parts parts;
    double *fresh; /* each draw's run over the mean of all runs */
    struct anchor *anchors;
    size_t n_anchors, anchors_capacity;
    struct lk_step_coll *colls; /* scratch */
    size_t colls_capacity;
};

/* ---- One configuration ---- */

struct one {
    const struct lk_sweep_shape *shape;
    const struct lk_sweep_compute *compute;
    const struct lk_sweep_straggler *straggler;
    struct lk_step_model step;      /* one rank, the slowest */
    double slowest;                 /* its compute over a rank's mean */
    double at[FACTORS], fixed_s;    /* the step at each factor */
    double losses_s[LK_LOSS_COUNT]; /* at factor 1 */
};

static void set_step(struct one *o, const struct lk_config *c)
{
    const struct lk_step_model *of_batch = &o->compute->model.step;

    o->step = o->shape->model.step;
    o->step.ranks = o->step.nodes = 1;
    o->step.accumulation = c->accumulation;
    o->step.forward_s = of_batch->forward_s * o->slowest * o->shape->model.pace;
    o->step.backward_s = of_batch->backward_s * o->slowest * o->shape->model.pace;
    o->step.optimizer_s = of_batch->optimizer_s / lk_config_sharers(c);
    o->step.gap_s = of_batch->gap_s;
    o->step.input_s = of_batch->input_s;
    o->step.load_s = of_batch->load_s;
    o->step.prefetch_depth = of_batch->prefetch_depth;
    o->step.law = (struct lk_straggler_law){0};
    o->step.rank_slowness = o->step.node_slowness = o->step.node_link = NULL;
    o->fixed_s = o->step.optimizer_s * (1 + o->step.kappa) + o->step.gap_s;
}

static enum lk_status simulate(struct lk_sweep_model *m, struct one *o, double factor,
                               struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct lk_sim_request q = {.steps = o->step.load_s > 0 ? STEPS_LOADER : STEPS, .seed = 1};
    const struct lk_config_model *model = &o->shape->model;
    size_t n = model->step.n_colls;

    LK_TRY(lk_array_grow(&m->colls, &m->colls_capacity, n, sizeof *m->colls));
    for (size_t i = 0; i < n; i++) {
        m->colls[i] = model->colls[i];
        m->colls[i].cost_s *= factor;
    }
    o->step.colls = m->colls;
    LK_TRY(lk_closed_form_run(&o->step, &q, out));
out:
    return st;
}

/* The slowest rank's losses as those of the mean rank, which waits for it. */
static void set_losses(struct one *o, const struct lk_config *c, const struct lk_sim_result *r)
{
    const struct lk_step_model *s = &o->compute->model.step;
    double compute_s = c->accumulation * (s->forward_s + s->backward_s);
    double slow_s = compute_s * (o->slowest - 1);
    double own_s = compute_s * o->straggler->slowest.average;

    memcpy(o->losses_s, r->losses_s, sizeof o->losses_s);
    o->losses_s[LK_LOSS_IDEAL] -= slow_s;
    o->losses_s[LK_LOSS_SLOW_RANK] += own_s;
    o->losses_s[LK_LOSS_STRAGGLER] += slow_s - own_s;
}

/* The step with the collectives' cost times f. */
static double at_factor(const struct one *o, double f)
{
    int i = 1;

    while (i + 1 < FACTORS && f > factors[i])
        i++;
    return o->at[i - 1] +
           (o->at[i] - o->at[i - 1]) * (f - factors[i - 1]) / (factors[i] - factors[i - 1]);
}

static double estimate_of(const struct one *o)
{
    return at_factor(o, o->shape->link);
}

/* Whether ranks wait for each other in a step's last micro-batch alone: for the sum of all. */
static bool meets_once(const struct lk_step_model *m)
{
    for (size_t i = 0; i < m->n_colls; i++)
        if (m->colls[i].every_micro_batch)
            return false;
    return true;
}

static enum lk_status one_init(struct lk_sweep_model *m, const struct lk_config *c, struct one *o)
{
    enum lk_status st = LK_OK;
    size_t shape, compute, straggler;

    LK_TRY(lk_sweep_shape_of(&m->parts, c, &shape));
    LK_TRY(lk_sweep_compute_of(&m->parts, c->local_batch, &compute));
    LK_TRY(lk_sweep_straggler_of(
        &m->parts, &m->parts.shapes[shape].model.step,
        meets_once(&m->parts.shapes[shape].model.step) ? c->accumulation : 1, &straggler));
    *o = (struct one){.shape = &m->parts.shapes[shape],
                      .compute = &m->parts.computes[compute],
                      .straggler = &m->parts.stragglers[straggler]};
    o->slowest = fmax(FASTEST, 1 + o->straggler->slowest.mean);
    set_step(o, c);
    for (int i = 0; i < FACTORS; i++) {
        struct lk_sim_result r;

        LK_TRY(simulate(m, o, factors[i], &r));
        o->at[i] = r.mean_s;
        if (factors[i] == 1)
            set_losses(o, c, &r);
        lk_sim_result_fini(&r);
    }
    o->losses_s[LK_LOSS_WIRE] += estimate_of(o) - at_factor(o, 1);
out:
    return st;
}

/* The step in a draw, without the model's error and without runs. */
static double draw_of(const struct one *o, size_t i)
{
    const struct lk_slowest *s = &o->straggler->slowest;
    double away = o->straggler->effect[i] - s->mean;
    double x = fmax(FASTEST, 1 + s->persistent * away / o->slowest);

    return o->fixed_s + x * (at_factor(o, o->shape->cost[i] / x) - o->fixed_s);
}

/* ---- Anchors ---- */

static enum lk_status anchor_init(struct lk_sweep_model *m, struct anchor *a)
{
    enum lk_status st = LK_OK;
    struct one o;
    double measured;
    size_t n;

    LK_TRY(lk_alloc(&a->factors, m->parts.n_draws, sizeof *a->factors));
    a->status = one_init(m, &a->config, &o);
    if (a->status != LK_OK)
        return a->status == LK_EEVIDENCE ? LK_OK : a->status;
    measured = lk_runs_mean(&m->parts.p->runs, &a->config, &n);
    a->factor = measured / estimate_of(&o);
    for (size_t i = 0; i < m->parts.n_draws; i++)
        a->factors[i] =
            lk_predictor_runs_draw(m->parts.p, &a->config, n, &m->parts.worlds[i]) / draw_of(&o, i);
out:
    return st;
}

/* The nearest run's that has a model; NULL: none has. */
static enum lk_status anchor_of(struct lk_sweep_model *m, const struct lk_config *c,
                                const struct anchor **out)
{
    enum lk_status st = LK_OK;
    double distance = -INFINITY;
    struct anchor a = {0};

    *out = NULL;
    while (lk_runs_nearest(&m->parts.p->runs, c, &distance, &a.config)) {
        size_t i = 0;

        while (i < m->n_anchors && !lk_config_equal(&m->anchors[i].config, &a.config))
            i++;
        if (i == m->n_anchors) {
            LK_TRY(lk_array_grow(&m->anchors, &m->anchors_capacity, i + 1, sizeof *m->anchors));
            m->anchors[i] = a;
            m->n_anchors++;
            LK_TRY(anchor_init(m, &m->anchors[i]));
        }
        if (m->anchors[i].status != LK_OK)
            continue;
        *out = &m->anchors[i];
        break;
    }
out:
    return st;
}

/* ---- Interface ---- */

enum lk_status lk_sweep_model_create(struct lk_predictor *p, struct lk_sweep_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_model *m = NULL;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    LK_TRY(lk_sweep_parts_init(&m->parts, p));
    LK_TRY(lk_alloc(&m->fresh, m->parts.n_draws, sizeof *m->fresh));
    for (size_t i = 0; i < m->parts.n_draws; i++)
        m->fresh[i] = exp(m->parts.worlds[i].run_sd * m->parts.worlds[i].of_fresh);
    *out = m;
    m = NULL;
out:
    lk_sweep_model_destroy(m);
    return st;
}

void lk_sweep_model_destroy(struct lk_sweep_model *m)
{
    if (!m)
        return;
    lk_sweep_parts_fini(&m->parts);
    for (size_t i = 0; i < m->n_anchors; i++)
        free(m->anchors[i].factors);
    free(m->fresh);
    free(m->anchors);
    free(m->colls);
    free(m);
}

static void set_grade(struct lk_sweep_model *m, const struct one *o, int anchor_gpus,
                      struct lk_sweep_point *point)
{
    struct lk_config_model graded = o->shape->model; /* borrows; only grades are read */
    const struct lk_config_model *of_batch = &o->compute->model;

    graded.batch_reach = of_batch->batch_reach;
    if (of_batch->batch_reach > 1 && graded.evidence < LK_EVIDENCE_EXTRAPOLATED) {
        graded.evidence = of_batch->evidence;
        memcpy(graded.evidence_text, of_batch->evidence_text, sizeof graded.evidence_text);
    }
    point->batch_reach = of_batch->batch_reach;
    lk_predictor_grade(m->parts.p, &graded, anchor_gpus, &point->config, &point->evidence,
                       point->evidence_text);
}

static enum lk_status set_interval(const struct lk_sweep_model *m, const double *draws_s,
                                   struct lk_sweep_point *point)
{
    enum lk_status st = LK_OK;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, m->parts.n_draws, sizeof *sorted));
    memcpy(sorted, draws_s, m->parts.n_draws * sizeof *sorted);
    lk_stats_predictive(sorted, m->parts.n_draws, m->parts.p->options.level, &point->lo_s,
                        &point->hi_s);
    point->lo_s = fmin(point->step_s, point->lo_s);
    point->hi_s = fmax(point->step_s, point->hi_s);
out:
    free(sorted);
    return st;
}

enum lk_status lk_sweep_model_at(struct lk_sweep_model *m, struct lk_sweep_point *point,
                                 double *draws_s)
{
    enum lk_status st = LK_OK;
    const struct lk_config *c = &point->config;
    const struct anchor *a;
    struct lk_step_model own;
    struct one o;
    double modelled, scale_error, alone;

    LK_TRY(anchor_of(m, c, &a));
    LK_TRY(one_init(m, c, &o));
    modelled = estimate_of(&o);
    point->step_s = modelled * (a ? a->factor : 1);
    own = o.compute->model.step;
    own.optimizer_s = o.step.optimizer_s;
    alone = lk_predictor_alone_s(&own, c->accumulation);
    scale_error = lk_predictor_scale_error(m->parts.p, c, a ? a->config.gpus : 0);
    for (size_t i = 0; i < m->parts.n_draws; i++) {
        double s = lk_predictor_with_error(alone, draw_of(&o, i), scale_error,
                                           o.compute->model.batch_sd, &m->parts.worlds[i]);

        draws_s[i] = s * m->fresh[i] * (a ? a->factors[i] : o.compute->factors[i]);
    }
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        point->losses_s[i] = o.losses_s[i] * point->step_s / modelled;
    set_grade(m, &o, a ? a->config.gpus : 0, point);
    LK_TRY(set_interval(m, draws_s, point));
out:
    return st;
}
