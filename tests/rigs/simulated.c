/* The full way: the model's mean over seeds, and each draw simulated anew. */
#include "tests/rigs/simulated.h"

#include "base/array.h"
#include "sim/forecast/grid_parts.h"
#include "sim/forecast/misfit.h"
#include "sim/prior.h"
#include "sim/step/closed_form.h"

#include <math.h>
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
                    (p->basis.options.draws + ESTIMATE_SEEDS);
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

        LK_TRY(simulate(p, m, p->basis.options.seed + (uint64_t)i, &mean, losses_s));
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
    return lk_config_model_init(out, p->basis.job, p->basis.cluster, p->basis.cost, &p->basis.slow,
                                config);
}

/* The nearest run with a model. */
struct nearest {
    struct lk_config config;
    struct lk_config_model model;
    size_t n_runs; /* 0: there is none */
    double mean;   /* the model's, as the estimates take it */
};

/* One prediction at work. */
struct work {
    struct lk_config_model model;
    size_t n_runs;         /* of the configuration */
    struct nearest own;    /* of one rank: what it is off by is a rank's own work */
    struct nearest anchor; /* of several ranks: what it is off by beyond that is of the step */
    bool modelled;         /* false: measured, and without evidence for a model beside it */
    double scale_error;    /* of the collectives at this distance from what was measured */
    double shared_s;       /* of the step, what ranks share */
    double own_s;          /* measured over the model, of the estimate */
    struct lk_misfit misfit;
    struct lk_misfit_carry carry;
};

static void work_fini(struct work *w)
{
    lk_config_model_fini(&w->model);
    lk_config_model_fini(&w->own.model);
    lk_config_model_fini(&w->anchor.model);
}

/* Find the nearest run. Runs whose model has no cost are passed over, because nothing modelled
 * compares with them. */
static enum lk_status find_nearest(struct lk_predictor *p, const struct lk_config *at,
                                   struct nearest *out)
{
    double distance_from = -INFINITY;

    while (!out->n_runs && lk_runs_nearest(&p->basis.runs, at, &distance_from, &out->config)) {
        enum lk_status st = build(p, &out->config, &out->model);

        if (st != LK_OK && st != LK_EEVIDENCE)
            return st;
        if (st == LK_OK)
            lk_runs_mean(&p->basis.runs, &out->config, &out->n_runs);
    }
    return LK_OK;
}

/* Return the parts of a simulated step. */
static struct lk_step_parts parts_of(double step_s, const double *losses_s)
{
    double exposed_s =
        losses_s[LK_LOSS_WIRE] + losses_s[LK_LOSS_LAUNCH] + losses_s[LK_LOSS_OVERLAP];

    return (struct lk_step_parts){step_s - exposed_s, exposed_s};
}

/* All that several ranks take beyond the model is communication where one rank's own work is known,
 * and unexplained where it is not: the runs have no losses. */
static struct lk_misfit misfit_of(const struct work *w, double measured_s, double step_s,
                                  const double *losses_s)
{
    struct lk_misfit_seen seen = lk_misfit_seen(NULL, NULL, w->own.n_runs > 0);
    struct lk_step_parts parts = parts_of(step_s, losses_s);

    return lk_misfit_of(&seen, measured_s, &parts);
}

/* Return the model with a rank's own work times f. */
static struct lk_step_model with_own(const struct lk_step_model *m, double f)
{
    struct lk_step_model own = *m;

    own.forward_s *= f;
    own.backward_s *= f;
    own.input_s *= f;
    own.load_s *= f;
    own.optimizer_s *= f;
    own.gap_s *= f;
    return own;
}

/* Set the error of the scale, and what it is of. */
static enum lk_status set_scale_error(struct lk_predictor *p, const struct lk_config *at,
                                      struct work *w)
{
    enum lk_status st = LK_OK;
    int anchor = w->anchor.n_runs ? w->anchor.config.world_size : 0, n = p->basis.options.draws;
    struct lk_step_model step = with_own(&w->model.step, w->own_s);
    double sum = 0, squares = 0, mean;

    for (int i = 0; i < n && w->model.step.n_colls; i++) {
        double cost = 0;

        LK_TRY(lk_config_model_costs(&w->model, p->basis.draws[i]));
        for (size_t k = 0; k < w->model.step.n_colls; k++)
            cost += w->model.colls[k].cost_s;
        sum += log(cost);
        squares += log(cost) * log(cost);
    }
    LK_TRY(lk_config_model_costs(&w->model, p->basis.cost));
    LK_TRY(model_mean(p, &step, &mean, NULL));
    w->shared_s = lk_basis_shared_s(&step, lk_basis_alone_s(&step, at->accumulation), mean);
    w->scale_error = lk_basis_scale_error(
        &p->basis, lk_basis_distance(at, anchor, lk_grid_points_distance(p->basis.cluster, at)),
        hypot(sqrt(fmax(0, squares - sum * sum / n) / (n - 1)),
              at->sharding != LK_SHARDING_DDP ? lk_prior_value(LK_PRIOR_SHARD_ERROR) : 0));
out:
    return st;
}

static enum lk_status find_runs(struct lk_predictor *p, const struct lk_config *at, struct work *w)
{
    enum lk_status st = LK_OK;
    struct lk_config alone = *at;
    struct lk_step_model step;
    double mean, losses_s[LK_LOSS_COUNT];
    struct lk_meeting from, to;
    size_t n;

    w->own_s = 1;
    w->misfit = lk_misfit_none;
    alone.world_size = alone.nodes = 1;
    LK_TRY(find_nearest(p, &alone, &w->own));
    LK_TRY(find_nearest(p, at, &w->anchor));
    if (w->own.n_runs) {
        LK_TRY(model_mean(p, &w->own.model.step, &mean, NULL));
        w->own_s = lk_runs_mean(&p->basis.runs, &w->own.config, &n) / mean;
    }
    LK_TRY(set_scale_error(p, at, w));
    if (w->anchor.n_runs && w->anchor.config.world_size > 1) {
        step = with_own(&w->anchor.model.step, w->own_s);
        LK_TRY(model_mean(p, &step, &mean, losses_s));
        w->misfit =
            misfit_of(w, lk_runs_mean(&p->basis.runs, &w->anchor.config, &n), mean, losses_s);
        from = lk_meeting_of(&w->anchor.model, &w->anchor.config);
        to = lk_meeting_of(&w->model, at);
        w->carry = lk_misfit_carry(&from, &to);
    } else {
        w->anchor.n_runs = 0;
    }
out:
    return st;
}

/* Build the model. A measured configuration needs none; without one it has no losses. */
static enum lk_status build_model(struct lk_predictor *p, const struct lk_config *at,
                                  struct work *w)
{
    enum lk_status st = build(p, at, &w->model);

    w->modelled = st == LK_OK;
    return st == LK_EEVIDENCE && w->n_runs ? LK_OK : st;
}

static enum lk_status work_init(struct lk_predictor *p, const struct lk_config *at, struct work *w)
{
    enum lk_status st = LK_OK;

    *w = (struct work){0};
    lk_runs_mean(&p->basis.runs, at, &w->n_runs);
    LK_TRY(build_model(p, at, w));
    if (!w->modelled)
        return LK_OK;
    LK_TRY(find_runs(p, at, w));
out:
    if (st != LK_OK)
        work_fini(w);
    return st;
}

/* Simulate the model of runs in a draw, and draw what they measured. */
static enum lk_status draw_runs(struct lk_predictor *p, struct nearest *r, double own,
                                const struct lk_draw *d, size_t i, uint64_t seed,
                                double *out_measured_s, double *out_s, double *losses_s)
{
    enum lk_status st = LK_OK;
    struct lk_step_model step;

    memset(losses_s, 0, LK_LOSS_COUNT * sizeof *losses_s);
    LK_TRY(lk_config_model_costs(&r->model, p->basis.draws[i]));
    step = with_own(&r->model.step, own);
    LK_TRY(simulate(p, &step, seed, out_s, losses_s));
    *out_measured_s = lk_basis_runs_draw(&p->basis, &r->config, r->n_runs, d);
out:
    return st;
}

/* Return random number `which` of a draw. */
static double number(const struct lk_predictor *p, int which, size_t i)
{
    double z;

    lk_rng_normals(p->basis.options.seed, lk_rng_stream("grid_model.overlap", 0),
                   (uint64_t)(which * p->basis.options.draws) + i, &z, 1);
    return z;
}

/* Return what is drawn of a rank's own work because no run had the accumulation, with the same
 * random numbers as sim/forecast/grid_model.c. */
static double of_accumulation(const struct lk_predictor *p, const struct lk_step_model *m,
                              const struct lk_config *at, size_t i)
{
    int more = at->accumulation - lk_runs_accumulation(&p->basis.runs, at);
    double micro_s = m->forward_s + m->backward_s + m->input_s, once_s = m->optimizer_s + m->gap_s;
    double sd = lk_prior_value(once_s > 0 ? LK_PRIOR_FIXED_REST : LK_PRIOR_FIXED_SHARE);

    return 1 - number(p, 4, i) * sd * more * micro_s / (at->accumulation * micro_s + once_s);
}

/* Draw the mean step of a new run. */
static enum lk_status draw(struct lk_predictor *p, struct work *w, const struct lk_config *at,
                           size_t i, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_draw of_draw = lk_basis_draw(&p->basis, i);
    uint64_t seed = lk_rng_at(p->basis.options.seed, lk_rng_stream("predictor.stragglers", 0), i);
    struct lk_misfit misfit = lk_misfit_none;
    double s, own, measured_s, losses_s[LK_LOSS_COUNT];
    struct lk_step_parts parts;
    struct lk_step_model step;

    if (w->n_runs) {
        s = lk_basis_runs_draw(&p->basis, at, w->n_runs, &of_draw);
    } else {
        own = exp(w->model.compute_sd * of_draw.compute);
        if (w->own.n_runs) {
            LK_TRY(draw_runs(p, &w->own, 1, &of_draw, i, seed, &measured_s, &s, losses_s));
            own = measured_s / s;
        }
        if (w->anchor.n_runs) {
            LK_TRY(draw_runs(p, &w->anchor, own, &of_draw, i, seed, &measured_s, &s, losses_s));
            misfit = misfit_of(w, measured_s, s, losses_s);
        }
        own *= of_accumulation(p, &w->model.step, at, i);
        LK_TRY(lk_config_model_costs(&w->model, p->basis.draws[i]));
        for (size_t k = 0; at->sharding != LK_SHARDING_DDP && k < w->model.step.n_colls; k++)
            w->model.colls[k].cost_s *= exp(lk_prior_value(LK_PRIOR_SHARD_ERROR) * number(p, 6, i));
        step = with_own(&w->model.step, own);
        step.forward_s *= exp(w->model.batch_sd * of_draw.error);
        step.backward_s *= exp(w->model.batch_sd * of_draw.error);
        memset(losses_s, 0, sizeof losses_s);
        LK_TRY(simulate(p, &step, seed, &s, losses_s));
        parts = parts_of(s, losses_s);
        s = lk_basis_with_error(
            misfit.own * misfit.whole * lk_basis_alone_s(&step, at->accumulation),
            lk_misfit_step(&misfit, &w->carry, &parts),
            lk_misfit_shared(&misfit, &w->carry, w->shared_s), w->scale_error, &of_draw);
    }
    *out = s * exp(of_draw.run_sd * of_draw.z_new_run);
out:
    return st;
}

static enum lk_status draw_all(struct lk_predictor *p, struct work *w, const struct lk_config *at,
                               struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)p->basis.options.draws;

    LK_TRY(lk_alloc(&out->draws_s, n, sizeof *out->draws_s));
    for (; out->n_draws < n; out->n_draws++)
        LK_TRY(draw(p, w, at, out->n_draws, &out->draws_s[out->n_draws]));
    LK_TRY(lk_predictor_interval(p, out));
out:
    return st;
}

enum lk_status simulated_at(struct lk_predictor *p, const struct lk_config *at,
                            struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    double losses_s[LK_LOSS_COUNT];
    struct lk_step_parts parts;
    struct work w = {0};
    struct lk_step_model step;

    lk_prediction_init(out, at);
    LK_TRY(work_init(p, at, &w));
    step = with_own(&w.model.step, w.own_s);
    LK_TRY(model_mean(p, &step, &out->step_s, losses_s));
    parts = parts_of(out->step_s, losses_s);
    out->step_s = lk_misfit_step(&w.misfit, &w.carry, &parts);
    LK_TRY(draw_all(p, &w, at, out));
out:
    work_fini(&w);
    return st;
}
