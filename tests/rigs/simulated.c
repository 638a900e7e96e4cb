/* The full way: the model's mean over seeds, and each draw simulated anew. */
#include "tests/rigs/simulated.h"

#include "base/array.h"
#include "sim/step/closed_form.h"

#include <math.h>
#include <stdlib.h>

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

/* One prediction at work. */
struct work {
    struct lk_config_model model, anchor_model;
    struct lk_config anchor;
    size_t n_runs, n_anchor_runs; /* of the configuration; of the anchor */
    bool anchored;
    bool modelled;           /* false: measured, and without evidence for a model beside it */
    int costless_world_size; /* GPUs of the nearest run that the cluster has no cost for; 0: none */
    double scale_error;      /* of the model at this distance from the anchor, relative */
    double anchor_mean;      /* the model's mean at the anchor */
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
        if (!w->anchored && !w->costless_world_size)
            w->costless_world_size = w->anchor.world_size;
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
    w->scale_error = lk_predictor_scale_error(p, at, w->anchored ? w->anchor.world_size : 0);
out:
    if (st != LK_OK)
        work_fini(w);
    return st;
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

static enum lk_status draw_all(struct lk_predictor *p, struct work *w, const struct lk_config *at,
                               struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)p->options.draws;

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
    struct work w = {0};
    double modelled;
    size_t n;

    lk_prediction_init(out, at);
    LK_TRY(work_init(p, at, &w));
    LK_TRY(model_mean(p, &w.model.step, &modelled, NULL));
    if (w.anchored)
        modelled *= lk_runs_mean(&p->runs, &w.anchor, &n) / w.anchor_mean;
    out->step_s = modelled;
    LK_TRY(draw_all(p, &w, at, out));
out:
    work_fini(&w);
    return st;
}
