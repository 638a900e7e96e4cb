/* Draws of what is wrong, and what runs tell in them. Divisions: a draw / a step / measures / the
 * rate of fewest GPUs. */
#include "base/rng.h"
#include "facts/loss.h"
#include "sim/prior.h"
#include "sim/throughput/doctor_impl.h"
#include "sim/throughput/step_prior.h"

#include <math.h>

#define NOISE_(measure, name, noise, floor, text) [measure] = (noise),
#define FLOOR_(measure, name, noise, floor, text) [measure] = (floor),
static const double noise_of[LK_MEASURE_COUNT] = {LK_MEASURE_LIST(NOISE_)};
static const double floor_of[LK_MEASURE_COUNT] = {LK_MEASURE_LIST(FLOOR_)};

const struct lk_words lk_measure_words = LK_WORDS("a measure", LK_MEASURE_LIST);

/* ---- A draw ---- */

/* Return a number from lo to hi, whose logarithm is uniform. */
static double log_uniform(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

struct doctor_draw doctor_draw_healthy(const struct doctor_draw *d)
{
    struct doctor_draw h = *d;

    h.sample_s = h.node_rate = h.host = h.crowding = 0;
    h.hidden = h.sync = false;
    h.collectives = h.between = h.slow = 1;
    h.slow_gpu = -1;
    return h;
}

struct doctor_draw doctor_draw_make(const struct doctor *w, enum lk_cause c, size_t i)
{
    struct lk_rng g = lk_rng_init(w->q->seed, lk_rng_stream(lk_cause_name(c), i));
    struct doctor_draw d = {.prior = i % lk_step_prior_draws(w->prior), .batch = 1, .size = NAN};

    d = doctor_draw_healthy(&d);
    d.noise = noise_of[LK_MEASURE_RATE] * lk_rng_normal(&g);
    if (w->q->batch_guessed)
        d.batch = log_uniform(&g, 0.25, 4);
    d.floor = fmin(lk_prior_value(LK_PRIOR_FLOOR_SHARE) * exp(0.6 * lk_rng_normal(&g)), 0.8);
    if (c == LK_CAUSE_INPUT) {
        double kind = lk_rng_uniform(&g);

        d.size = log_uniform(&g, 1.05, 8);
        d.of_node = kind < 0.5;
        d.share = d.of_node ? 0 : 1 - 1 / d.size;
        d.hidden = kind < 0.75;
    } else if (c == LK_CAUSE_HOST) {
        d.host = d.size = log_uniform(&g, 0.5, 5);
        d.crowding = log_uniform(&g, 0.005, 0.5);
    } else if (c == LK_CAUSE_NETWORK) {
        d.collectives = d.size = log_uniform(&g, 1.5, 30);
    } else if (c == LK_CAUSE_NODES) {
        d.between = d.size = log_uniform(&g, 1.5, 30);
    } else if (c == LK_CAUSE_STRAGGLER) {
        d.slow = d.size = log_uniform(&g, 1.05, 3);
        d.slow_gpu = (int)(lk_rng_uniform(&g) * w->most->trial.config.world_size);
    }
    d.sync = c == LK_CAUSE_SYNC;
    return d;
}

/* ---- A step ---- */

/* A step of training, or of a copy apart, s. */
struct parts {
    double step_s;
    double own_s;   /* the median rank computes, or waits for its host */
    double slow_s;  /* the slow rank does so for so much longer */
    double input_s; /* ranks wait for input */
    double gap_s;   /* of own_s, ranks wait for their host */
    double wire_s;  /* gradients move */
};

int doctor_ranks_of_node(const struct lk_config *c)
{
    return (c->world_size + c->nodes - 1) / c->nodes;
}

/* Compute the step of training alone: without input. slow: the slow GPU takes part. */
static enum lk_status step_without_input(const struct doctor *w, const struct doctor_draw *d,
                                         const struct lk_trial *t, bool slow, struct parts *out)
{
    struct lk_config c = t->config;
    double samples = (double)c.local_batch / w->least->trial.config.local_batch;
    double busy_s = d->compute_s * (d->floor + (1 - d->floor) * samples);
    double host_s = d->compute_s * d->host * (1 + d->crowding * (doctor_ranks_of_node(&c) - 1));
    double pass_s = fmax(busy_s, host_s), slower = slow ? d->slow : 1, collectives;
    double losses_s[LK_LOSS_COUNT] = {0};
    size_t shape;

    if (t->apart)
        c.world_size = c.nodes = 1;
    c.reduce = d->sync && !t->no_sync ? LK_REDUCTION_EVERY : LK_REDUCTION_LAST;
    collectives = d->collectives * (c.nodes > 1 ? d->between : 1);
    LK_PASS(lk_step_prior_shape(w->prior, &c, &shape));
    LK_PASS(lk_step_prior_step_s(w->prior, d->prior, shape, collectives, pass_s * slower,
                                 d->compute_s, losses_s, &out->step_s));
    out->slow_s = c.world_size > 1 ? c.accumulation * pass_s * (slower - 1) : 0;
    out->own_s = out->step_s - losses_s[LK_LOSS_WIRE] - losses_s[LK_LOSS_STRAGGLER] - out->slow_s;
    out->gap_s = c.accumulation * (pass_s - busy_s);
    out->wire_s = lk_step_prior_wire_s(w->prior, d->prior, shape, collectives);
    out->input_s = 0;
    return LK_OK;
}

static double samples_of_rank(const struct doctor_draw *d, const struct lk_config *c)
{
    return d->batch * c->local_batch * c->accumulation;
}

static enum lk_status step_with_input(const struct doctor *w, const struct doctor_draw *d,
                                      const struct lk_trial *t, bool slow, struct parts *out)
{
    double load_s = samples_of_rank(d, &t->config) * d->sample_s, step_s;

    LK_PASS(step_without_input(w, d, t, slow, out));
    step_s = out->step_s;
    if (t->synthetic)
        return LK_OK;
    step_s = d->hidden ? fmax(step_s, load_s) : step_s + load_s;
    if (d->node_rate > 0)
        step_s = fmax(step_s, samples_of_rank(d, &t->config) * doctor_ranks_of_node(&t->config) /
                                  d->node_rate);
    out->input_s = step_s - out->step_s;
    out->step_s = step_s;
    return LK_OK;
}

static bool is_slow(const struct doctor_draw *d, const struct lk_trial *t)
{
    return d->slow_gpu >= 0 && d->slow_gpu < t->config.world_size;
}

/* ---- Measures ---- */

double doctor_scaled(const struct doctor *w, enum lk_measure m, double value)
{
    return log(value + floor_of[m] * w->step_s) / noise_of[m];
}

double doctor_likelihood(double z)
{
    double x = 1 + z * z / 4;

    return 1 / (x * x * sqrt(x)); /* (1 + z^2 / n)^(-(n + 1) / 2) of n = 4 */
}

static double rate_of(const struct doctor_draw *d, const struct lk_trial *t, double step_s)
{
    return d->batch * lk_config_samples(&t->config) / step_s;
}

/* Copies apart tell what they make together, and how much longer the slowest one's step is. */
static enum lk_status predict_apart(const struct doctor *w, const struct doctor_draw *d,
                                    const struct lk_trial *t, double out[LK_MEASURE_COUNT])
{
    double gpus = t->config.world_size;
    struct parts slow, other;

    LK_PASS(step_with_input(w, d, t, is_slow(d, t), &slow));
    LK_PASS(step_with_input(w, d, t, false, &other));
    out[LK_MEASURE_RATE] = rate_of(d, t, gpus / ((gpus - 1) / other.step_s + 1 / slow.step_s));
    out[LK_MEASURE_SLOWEST] = slow.step_s / other.step_s;
    return LK_OK;
}

enum lk_status doctor_predict(const struct doctor *w, const struct doctor_draw *d,
                              const struct lk_trial *t, double out[LK_MEASURE_COUNT])
{
    struct parts p;

    for (int m = 0; m < LK_MEASURE_COUNT; m++)
        out[m] = NAN;
    if (t->apart)
        return predict_apart(w, d, t, out);
    LK_PASS(step_with_input(w, d, t, is_slow(d, t), &p));
    out[LK_MEASURE_RATE] = rate_of(d, t, p.step_s);
    out[LK_MEASURE_WORK] = p.own_s;
    out[LK_MEASURE_OWN] = p.own_s + p.input_s;
    out[LK_MEASURE_INPUT] = p.input_s;
    out[LK_MEASURE_GAP] = p.gap_s;
    if (t->config.world_size == 1)
        return LK_OK;
    out[LK_MEASURE_SLOWEST] = 1 + p.slow_s / (p.own_s + p.input_s);
    out[LK_MEASURE_WIRE] = p.wire_s;
    out[LK_MEASURE_REDUCED] = d->sync && !t->no_sync ? t->config.accumulation : 1;
    return LK_OK;
}

/* ---- The rate of fewest GPUs ---- */

/* Find the compute with which the row of fewest GPUs takes `step_s`; 0: none does. */
static enum lk_status find_compute(const struct doctor *w, struct doctor_draw *d, double step_s)
{
    enum { HALVINGS = 24 };
    const struct lk_trial *t = &w->least->trial;
    double lo = log(step_s * 1e-4), hi = log(step_s);
    struct parts p;

    for (int i = 0; i < HALVINGS; i++) {
        double middle = (lo + hi) / 2;

        d->compute_s = exp(middle);
        LK_PASS(step_with_input(w, d, t, is_slow(d, t), &p));
        if (p.step_s > step_s)
            hi = middle;
        else
            lo = middle;
    }
    if (fabs(p.step_s / step_s - 1) > noise_of[LK_MEASURE_RATE])
        d->compute_s = 0; /* its collectives or the host alone take longer */
    return LK_OK;
}

/* Set what a node's loaders make: too few samples for its ranks together in the row of most GPUs,
 * but enough for those of the row of fewest. */
static enum lk_status limit_node(const struct doctor *w, struct doctor_draw *d)
{
    const struct lk_trial *t = &w->most->trial, *least = &w->least->trial;
    struct parts healthy;

    LK_PASS(step_with_input(w, d, t, false, &healthy));
    d->node_rate = fmax(rate_of(d, t, healthy.step_s) / t->config.nodes / d->size,
                        1.02 * w->least->measured[LK_MEASURE_RATE] / least->config.nodes);
    return LK_OK;
}

enum lk_status doctor_draw_meet(const struct doctor *w, struct doctor_draw *d)
{
    const struct lk_trial *t = &w->least->trial;
    double rate = w->least->measured[LK_MEASURE_RATE] * exp(d->noise);
    double step_s = d->batch * lk_config_samples(&t->config) / rate;

    /* Only batches that load beside the step are seen in it. */
    LK_PASS(find_compute(w, d, step_s * (1 - d->share)));
    if (d->share > 0)
        d->sample_s = (d->hidden ? 1 : d->share) * step_s / samples_of_rank(d, &t->config);
    return d->of_node && d->compute_s > 0 ? limit_node(w, d) : LK_OK;
}
