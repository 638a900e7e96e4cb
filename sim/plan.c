/*
 * Plans.
 *
 * Divisions: inputs / points / the whole.
 */
#include "sim/plan_state.h"

#include "sim/goodput.h"
#include "sim/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * X(prior, value, lo, hi, source): of failures, where nobody said. Seconds.
 */
#define PRIOR_LIST(X)                                                                              \
    X(LK_PLAN_PRIOR_MTBF, 50700 * 3600.0, 29500 * 3600.0, 87000 * 3600.0,                          \
      "a GPU fails once in 50,700 h (29,500 to 87,000): 419 stops in 54 days of 16,384 H100 "      \
      "(arXiv:2407.21783); low: 6.50 failures in 1000 days of 8 A100 (arXiv:2410.21680); high: "   \
      "as far above")                                                                              \
    X(LK_PLAN_PRIOR_RESTART, 660, 330, 1320,                                                       \
      "a restart takes 11 min: median between retries on 504 B200 (arXiv:2605.09370), bounds a "   \
      "factor of two")

static const struct {
    double value, lo, hi; /* seconds */
    const char *source;
} priors[LK_PLAN_PRIOR_COUNT] = {
#define PRIOR_ROW_(prior, value, lo, hi, source) [prior] = {value, lo, hi, source},
    PRIOR_LIST(PRIOR_ROW_)
#undef PRIOR_ROW_
};

static const double S_PER_HOUR = 3600;

/* ---- Inputs ---- */

struct lk_estimate lk_plan_input(double option, const struct lk_quantity *q)
{
    if (option > 0)
        return lk_economics_known(option);
    if (!lk_quantity_known(q))
        return lk_economics_unknown();
    return (struct lk_estimate){q->value, isnan(q->lo) ? q->value : q->lo,
                                isnan(q->hi) ? q->value : q->hi, q->n};
}

const char *lk_plan_prior_source(enum lk_plan_prior p)
{
    return priors[p].source;
}

static struct lk_estimate input_or_prior(struct lk_plan_state *p, double option,
                                         const struct lk_quantity *q, enum lk_plan_prior prior)
{
    struct lk_estimate e = lk_plan_input(option, q);

    p->assumed[prior] = isnan(e.value);
    if (!p->assumed[prior])
        return e;
    return (struct lk_estimate){priors[prior].value, priors[prior].lo, priors[prior].hi, 0};
}

static enum lk_status set_inputs(struct lk_plan_state *p)
{
    const struct lk_plan_request *q = p->request;
    const struct lk_cluster *c = p->cluster;
    struct lk_economics *e = &p->economics;
    bool asked = q->gpu_mtbf_s > 0 || q->restart_s > 0 || lk_quantity_known(&c->gpu_mtbf_s);
    bool written =
        q->checkpoint_s > 0 || q->checkpoint_Bps > 0 || lk_quantity_known(&c->checkpoint_Bps);

    if (q->target_batch > 0 && !(q->target_samples > 0))
        return lk_fail(LK_EUSAGE, "--target-batch says where --target-samples were seen, which are "
                                  "not given");
    if (q->checkpoint_s > 0 && q->checkpoint_Bps > 0)
        return lk_fail(LK_EUSAGE, "--checkpoint and --checkpoint-bandwidth both say how long a "
                                  "checkpoint takes: give one");
    p->device_bytes = lk_plan_input(q->device_bytes, &c->device.memory_bytes).value;
    e->price_per_hour = lk_plan_input(q->price_per_hour, &c->price_per_hour);
    e->power_W = lk_plan_input(q->power_W, &c->power_W);
    e->noise_scale = lk_plan_input(q->noise_scale, &p->job->noise_scale);
    e->target_samples = lk_plan_input(q->target_samples, &p->job->target_samples);
    if (q->target_batch > 0)
        e->target_samples = lk_economics_known(
            lk_target_samples(q->target_samples, q->target_batch, e->noise_scale.value));
    if (asked && !written)
        return lk_forecast_note(p->f, "goodput: not known, say how long a checkpoint takes: "
                                      "--checkpoint, or \"checkpoint_bandwidth\" in the cluster "
                                      "file");
    p->failures = written;
    if (written) {
        p->mtbf_s = input_or_prior(p, q->gpu_mtbf_s, &c->gpu_mtbf_s, LK_PLAN_PRIOR_MTBF);
        p->restart_s = input_or_prior(p, q->restart_s, &c->restart_s, LK_PLAN_PRIOR_RESTART);
    }
    return LK_OK;
}

/* ---- Points ---- */

struct lk_config lk_plan_config(const struct lk_plan_state *p, size_t i)
{
    return p->places ? p->places[i].config : lk_config_of_point(&p->f->points[i], p->job);
}

const struct lk_cluster *lk_plan_device(const struct lk_plan_state *p, size_t i)
{
    return p->places && p->places[i].device ? p->places[i].device : p->cluster;
}

static double or_nan(double v)
{
    return isfinite(v) ? v : NAN;
}

void lk_plan_set_memory(const struct lk_job *job, const struct lk_config *c, double device_bytes,
                        struct lk_plan *out)
{
    struct lk_memory m;
    enum lk_memory_fit fit;
    enum lk_sharding sharding;
    int batch;

    if (isnan(device_bytes))
        return;
    lk_memory_of(job, c, &m);
    fit = lk_memory_fit(&m, device_bytes);
    batch = lk_memory_largest_batch(&m, device_bytes, false);
    out->memory_bytes = m.total.value;
    out->memory_lo_bytes = m.total.lo;
    out->memory_hi_bytes = or_nan(m.total.hi);
    out->largest_batch = batch >= 0 ? (double)batch : NAN;
    snprintf(out->memory_fit, sizeof out->memory_fit, "%s", lk_memory_fit_name(fit));
    if (fit == LK_MEMORY_TOO_LARGE && lk_memory_sharding_that_fits(job, c, device_bytes, &sharding))
        snprintf(out->fits_with, sizeof out->fits_with, "%s", lk_sharding_name(sharding));
}

bool lk_plan_too_large(const struct lk_forecast_point *p)
{
    return !strcmp(p->plan.memory_fit, lk_memory_fit_name(LK_MEMORY_TOO_LARGE));
}

double lk_plan_device_bytes(const struct lk_cluster *device, const struct lk_plan_request *request)
{
    return lk_plan_input(request ? request->device_bytes : 0, &device->device.memory_bytes).value;
}

/* How long a checkpoint stops training. */
static double checkpoint_s(const struct lk_plan_state *p, const struct lk_config *c)
{
    double rate = p->request->checkpoint_Bps > 0 ? p->request->checkpoint_Bps
                                                 : p->cluster->checkpoint_Bps.value;

    if (p->request->checkpoint_s > 0)
        return p->request->checkpoint_s;
    return lk_memory_checkpoint_bytes(p->job, c) / rate;
}

static double best_share(double mtbf_s, double restart_s, double write_s, int gpus)
{
    struct lk_goodput g = {mtbf_s, write_s, restart_s};

    return lk_goodput_share(&g, gpus, lk_goodput_best_period_s(&g, gpus));
}

static struct lk_estimate plan_goodput(const struct lk_plan_state *p, const struct lk_config *c,
                                       struct lk_plan *out)
{
    double write = p->failures ? checkpoint_s(p, c) : 0;
    struct lk_goodput g = {p->mtbf_s.value, write, p->restart_s.value};
    struct lk_estimate e;

    if (!p->failures)
        return lk_economics_known(1);
    e = (struct lk_estimate){best_share(p->mtbf_s.value, p->restart_s.value, write, c->gpus),
                             best_share(p->mtbf_s.lo, p->restart_s.hi, write, c->gpus),
                             best_share(p->mtbf_s.hi, p->restart_s.lo, write, c->gpus), 0};
    out->goodput = e.value;
    out->checkpoint_period_s = lk_goodput_best_period_s(&g, c->gpus);
    return e;
}

/* Does every step learn from the global batch as a whole? Else the noise scale says nothing. */
static bool batch_is_global(const struct lk_config *c)
{
    return c->sharding != LK_SHARDING_LOCAL_SGD && c->sharding != LK_SHARDING_DILOCO &&
           c->sharding != LK_SHARDING_ASYNC;
}

static void plan_rates(const struct lk_plan_state *p, double batch, struct lk_plan *out)
{
    const struct lk_job *j = p->job;
    double tuned = (double)j->learning_rate_batch, noise = p->economics.noise_scale.value;

    if (!lk_quantity_known(&j->learning_rate) || !j->learning_rate_batch)
        return;
    out->rate_linear =
        lk_learning_rate(LK_RATE_LINEAR, j->learning_rate.value, tuned, batch, noise);
    out->rate_sqrt = lk_learning_rate(LK_RATE_SQRT, j->learning_rate.value, tuned, batch, noise);
    out->rate_noise = lk_learning_rate(LK_RATE_NOISE, j->learning_rate.value, tuned, batch, noise);
}

static void plan_point(const struct lk_plan_state *p, size_t i)
{
    struct lk_forecast_point *point = &p->f->points[i];
    const struct lk_cluster *device = lk_plan_device(p, i);
    struct lk_config c = lk_plan_config(p, i);
    struct lk_plan *out = &point->plan;
    struct lk_economics e = p->economics;
    struct lk_economics_result r;
    struct lk_economics_point at = {
        .gpus = c.gpus,
        .global_batch = (double)c.gpus * c.local_batch * c.accumulation,
        .step_s = {point->step_s, point->step_lo_s, point->step_hi_s, 0},
    };

    *out = lk_plan_none;
    out->known = true;
    e.price_per_hour = lk_plan_input(p->request->price_per_hour, &device->price_per_hour);
    e.power_W = lk_plan_input(p->request->power_W, &device->power_W);
    lk_plan_set_memory(p->job, &c,
                       lk_plan_input(p->request->device_bytes, &device->device.memory_bytes).value,
                       out);
    at.goodput = plan_goodput(p, &c, out);
    if (!batch_is_global(&c))
        e.noise_scale = lk_economics_unknown();
    lk_economics_at(&e, &at, &r);
    out->cost_per_step = r.cost_per_step;
    out->cost_per_million = r.cost_per_million;
    out->energy_per_million_kWh = r.energy_per_million_kWh;
    out->statistical_efficiency = r.statistical_efficiency;
    out->samples_to_target = r.samples_to_target;
    out->time_to_target_h = or_nan(r.time_to_target_s.value / S_PER_HOUR);
    out->time_to_target_lo_h = or_nan(r.time_to_target_s.lo / S_PER_HOUR);
    out->time_to_target_hi_h = or_nan(r.time_to_target_s.hi / S_PER_HOUR);
    out->cost_to_target = or_nan(r.cost_to_target.value);
    out->cost_to_target_lo = or_nan(r.cost_to_target.lo);
    out->cost_to_target_hi = or_nan(r.cost_to_target.hi);
    if (batch_is_global(&c))
        plan_rates(p, at.global_batch, out);
}

/* ---- The whole ---- */

enum lk_status lk_plan_forecast(const struct lk_job *job, const struct lk_cluster *cluster,
                                const struct lk_plan_request *request,
                                const struct lk_plan_place *places, struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_plan_state p = {
        .job = job, .cluster = cluster, .request = request, .places = places, .f = f};

    if (!f->n_points)
        return LK_OK;
    LK_TRY(set_inputs(&p));
    for (size_t i = 0; i < f->n_points; i++)
        plan_point(&p, i);
    while (p.first + 1 < f->n_points && lk_plan_too_large(&f->points[p.first]))
        p.first++;
    lk_plan_set_marginal(&p);
    LK_TRY(lk_plan_add_notes(&p));
out:
    return st;
}
