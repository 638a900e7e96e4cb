/*
 * What predictions rest on.
 *
 * Divisions: draws / grades / costs / the whole.
 */
#include "sim/forecast/basis.h"

#include "base/array.h"
#include "base/rng.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/prior.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Draws ---- */

/* Return how many times the anchor's GPUs it has, or a replica's where there is no anchor. */
static double times(const struct lk_config *at, int anchor_world_size)
{
    return (double)at->world_size /
           (anchor_world_size ? anchor_world_size : lk_config_replica_gpus(at));
}

double lk_basis_distance(const struct lk_config *at, int anchor_world_size, double of_points)
{
    if (lk_config_replicas(at) == 1)
        return 0; /* one replica waits for none */
    return fmin(fabs(log2(times(at, anchor_world_size))), 1 + of_points);
}

bool lk_basis_grows(const struct lk_config *run, const struct lk_config *c)
{
    struct lk_config same = *run;
    int before = run->nodes > 0 ? run->world_size / run->nodes : 0;
    int now = c->nodes > 0 ? c->world_size / c->nodes : 0;

    same.world_size = c->world_size;
    same.nodes = c->nodes;
    return c->world_size > run->world_size && c->nodes >= run->nodes &&
           (run->nodes == 1 ? now >= before : now == before) && c->sharding == LK_SHARDING_DDP &&
           lk_runs_same_config(&same, c);
}

double lk_basis_scale_error(const struct lk_basis *b, double distance, double cost_sd)
{
    double one = isnan(b->options.scale_error)
                     ? lk_prior_value(lk_prior_of_scale(b->cluster->n_points))
                     : b->options.scale_error;
    double all = one * distance, least = one * fmin(1, distance);

    return sqrt(fmax(least * least, all * all - cost_sd * cost_sd));
}

double lk_basis_shared_s(const struct lk_step_model *m, double alone_s, double step_s)
{
    double sum = 0;

    for (size_t i = 0; i < m->n_colls; i++)
        sum += m->colls[i].cost_s * (m->colls[i].every_micro_batch ? m->accumulation : 1);
    return fmax(sum, step_s - alone_s);
}

double lk_basis_alone_s(const struct lk_step_model *m, int accumulation)
{
    return accumulation * (m->forward_s + m->backward_s + m->input_s) + m->optimizer_s + m->gap_s;
}

double lk_basis_with_error(double alone_s, double step_s, double shared_s, double scale_error,
                           const struct lk_draw *w)
{
    return fmax(step_s + shared_s * expm1(scale_error * w->scale), fmin(step_s, alone_s)) *
           w->model;
}

/* Draw Student's t. Chi-squared is a sum of squared normal numbers, two of which are exponential.
 */
static double student(struct lk_rng *g, size_t freedom)
{
    double chi2 = 0, z;

    for (size_t i = 0; i < freedom / 2; i++)
        chi2 += 2 * lk_rng_exponential(g);
    if (freedom % 2) {
        z = lk_rng_normal(g);
        chi2 += z * z;
    }
    return lk_rng_normal(g) / sqrt(chi2 / (double)freedom);
}

double lk_basis_runs_draw(const struct lk_basis *b, const struct lk_config *at, size_t n,
                          const struct lk_draw *w)
{
    char text[128];
    struct lk_rng g;
    double deviation;

    snprintf(text, sizeof text, "%d %d %d %d %d %llu", at->world_size, at->nodes, at->local_batch,
             at->accumulation, at->reduce, (unsigned long long)at->cap_bytes);
    g = lk_rng_init(w->past, lk_rng_stream(text, 0));
    deviation = w->run_sd * lk_rng_normal(&g) / sqrt((double)n);
    return lk_runs_mean_draw(&b->runs, at, &g) * exp(deviation);
}

struct lk_draw lk_basis_draw(const struct lk_basis *b, size_t i)
{
    struct lk_rng g = lk_rng_init(b->options.seed, lk_rng_stream("predictor.draw", i));
    struct lk_rng fresh = lk_rng_init(b->options.seed, lk_rng_stream("predictor.fresh_run", i));
    struct lk_draw w = {.run_sd = lk_runs_sd_draw(&b->runs, &fresh)};
    enum lk_prior prior = lk_prior_of_scale(b->cluster->n_points);

    w.z_new_run = lk_rng_normal(&fresh);
    w.compute = lk_rng_normal(&g);
    w.error = student(&g, 4) / sqrt(2); /* its variance is 2 */
    w.model = exp(lk_prior_value(LK_PRIOR_BASE_ERROR) * w.error);
    w.scale = student(&fresh, lk_prior_scale_tests(prior) + b->options.scale_tests);
    w.past = lk_rng_u64(&g);
    return w;
}

/* ---- Grades ---- */

void lk_basis_grade(const struct lk_basis *b, const struct lk_config_model *m,
                    int anchor_world_size, const struct lk_config *at, enum lk_evidence *out,
                    char *text, char *reach)
{
    static const char scheme[] = "extrapolated to";
    struct lk_runs_extrapolation runs = lk_runs_extrapolation(&b->runs, at);
    double world_size = times(at, anchor_world_size);
    bool beyond = world_size > 1 || m->batch_extrapolation > 1;
    bool is_preset = m->evidence == LK_EVIDENCE_PRESET;
    char *into = is_preset ? reach : text;
    const char *joint = ",";

    *reach = '\0';
    *out = m->evidence;
    snprintf(text, LK_EVIDENCE_TEXT_BYTES, "%s", m->evidence_text);
    if (b->other_device) {
        *out = LK_EVIDENCE_NONE;
        snprintf(text, LK_EVIDENCE_TEXT_BYTES, "none: compute of another GPU");
        return;
    }
    if (is_preset) {
        joint = "; extrapolated";
        world_size = 1; /* the datasheet's own */
    } else if (!beyond && runs.accumulation <= 1 && runs.cap <= 1) {
        return;
    } else {
        *out = LK_EVIDENCE_EXTRAPOLATED;
        if (m->evidence < LK_EVIDENCE_EXTRAPOLATED ||
            (beyond && strncmp(text, scheme, sizeof scheme - 1) != 0)) {
            snprintf(text, LK_EVIDENCE_TEXT_BYTES, "extrapolated");
            joint = "";
        }
    }
    lk_evidence_add_reach(into, &joint, world_size, "gpus");
    lk_evidence_add_reach(into, &joint, m->batch_extrapolation, "local batch");
    if (!strstr(text, "bytes")) /* the model's own text may say it */
        lk_evidence_add_reach(into, &joint, m->bytes_extrapolation, "bytes");
    lk_evidence_add_reach(into, &joint, runs.accumulation, "accumulation");
    lk_evidence_add_reach(into, &joint, runs.cap, "bucket cap");
    if (is_preset)
        snprintf(text, LK_EVIDENCE_TEXT_BYTES, "%.31s%.128s", m->evidence_text, reach);
}

/* ---- Costs ---- */

enum lk_status lk_drawn_costs_init(struct lk_drawn_costs *out, const struct lk_cluster *cluster,
                                   int draws, uint64_t seed)
{
    enum lk_status st = LK_OK;
    struct lk_fitted_cluster fitted = {0};
    struct lk_drawn_costs c = {.n = draws};

    LK_TRY(lk_alloc(&c.draws, (size_t)draws, sizeof *c.draws));
    LK_TRY(lk_fitted_cluster_init(&fitted, cluster));
    LK_TRY(lk_cost_model_create(&fitted.cluster, NULL, NULL, &c.estimate));
    for (int i = 0; i < draws; i++) {
        struct lk_rng g = lk_rng_init(seed, lk_rng_stream("predictor.cost", (uint64_t)i));

        LK_TRY(lk_cost_model_create(&fitted.cluster, &g, NULL, &c.draws[i]));
    }
    *out = c;
    c = (struct lk_drawn_costs){0};
out:
    lk_fitted_cluster_fini(&fitted);
    lk_drawn_costs_fini(&c);
    return st;
}

void lk_drawn_costs_fini(struct lk_drawn_costs *c)
{
    for (int i = 0; c->draws && i < c->n; i++)
        lk_cost_model_destroy(c->draws[i]);
    free(c->draws);
    lk_cost_model_destroy(c->estimate);
    *c = (struct lk_drawn_costs){0};
}

/* ---- The whole ---- */

enum lk_status lk_basis_init(struct lk_basis *out, const struct lk_job *job,
                             const struct lk_cluster *cluster,
                             const struct lk_predictor_options *options)
{
    enum lk_status st = LK_OK;
    struct lk_basis b = {.job = job, .cluster = cluster, .options = *options};
    const struct lk_drawn_costs *costs = options->costs;

    if (options->draws < 2 || !(options->level > 0 && options->level < 1))
        return lk_fail(LK_EUSAGE, "predictor: %d draws at level %g", options->draws,
                       options->level);
    assert(!costs || costs->n >= options->draws);
    if (!b.options.network_seed)
        b.options.network_seed = options->seed;
    b.runs = lk_runs_of(job, cluster);
    b.other_device = lk_device_same(job->place.device, cluster->gpu) < 0;
    LK_TRY(lk_known_stragglers_init(&b.slow, job, cluster));
    if (!costs)
        LK_TRY(lk_drawn_costs_init(&b.own, cluster, options->draws, b.options.network_seed));
    b.cost = costs ? costs->estimate : b.own.estimate;
    b.draws = costs ? costs->draws : b.own.draws;
    *out = b;
    b = (struct lk_basis){0};
out:
    lk_basis_fini(&b);
    return st;
}

void lk_basis_fini(struct lk_basis *b)
{
    lk_drawn_costs_fini(&b->own);
    lk_known_stragglers_fini(&b->slow);
    *b = (struct lk_basis){0};
}
