/*
 * Plans.
 *
 * Divisions: inputs / points / where more GPUs stop paying / notes / the memory table / the whole.
 */
#include "sim/plan.h"

#include "base/array.h"
#include "base/units.h"
#include "sim/config.h"
#include "sim/economics.h"
#include "sim/goodput.h"
#include "sim/memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * X(prior, value, lo, hi, source): of failures, where nobody said. Seconds.
 */
#define PRIOR_LIST(X)                                                                              \
    X(PRIOR_MTBF, 50700 * 3600.0, 29500 * 3600.0, 87000 * 3600.0,                                  \
      "a GPU fails once in 50,700 h (29,500 to 87,000): 419 stops in 54 days of 16,384 H100 "      \
      "(arXiv:2407.21783); low: 6.50 failures in 1000 days of 8 A100 (arXiv:2410.21680); high: "   \
      "as far above")                                                                              \
    X(PRIOR_RESTART, 660, 330, 1320,                                                               \
      "a restart takes 11 min: median between retries on 504 B200 (arXiv:2605.09370), bounds a "   \
      "factor of two")

enum {
#define PRIOR_ENUM_(prior, value, lo, hi, source) prior,
    PRIOR_LIST(PRIOR_ENUM_)
#undef PRIOR_ENUM_
        PRIOR_COUNT
};

static const struct {
    double value, lo, hi; /* seconds */
    const char *source;
} priors[PRIOR_COUNT] = {
#define PRIOR_ROW_(prior, value, lo, hi, source) [prior] = {value, lo, hi, source},
    PRIOR_LIST(PRIOR_ROW_)
#undef PRIOR_ROW_
};

static const double S_PER_HOUR = 3600;

struct plan {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_plan_request *request;
    const struct lk_plan_place *places; /* one a point, or NULL */
    struct lk_forecast *f;
    size_t first;        /* the first point that fits */
    double device_bytes; /* NaN: not known */
    struct lk_economics economics;
    struct lk_estimate mtbf_s, restart_s;
    bool failures; /* asked for, and a checkpoint's time can be known */
    bool assumed[PRIOR_COUNT];
};

/* ---- Inputs ---- */

/* The option, the file's quantity with its interval, or unknown. */
static struct lk_estimate input(double option, const struct lk_quantity *q)
{
    if (option > 0)
        return lk_economics_known(option);
    if (!lk_quantity_known(q))
        return lk_economics_unknown();
    return (struct lk_estimate){q->value, isnan(q->lo) ? q->value : q->lo,
                                isnan(q->hi) ? q->value : q->hi, q->n};
}

static struct lk_estimate input_or_prior(struct plan *p, double option, const struct lk_quantity *q,
                                         int prior)
{
    struct lk_estimate e = input(option, q);

    p->assumed[prior] = isnan(e.value);
    if (!p->assumed[prior])
        return e;
    return (struct lk_estimate){priors[prior].value, priors[prior].lo, priors[prior].hi, 0};
}

static enum lk_status set_inputs(struct plan *p)
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
    p->device_bytes = input(q->device_bytes, &c->device.memory_bytes).value;
    e->price_per_hour = input(q->price_per_hour, &c->price_per_hour);
    e->power_W = input(q->power_W, &c->power_W);
    e->noise_scale = input(q->noise_scale, &p->job->noise_scale);
    e->target_samples = input(q->target_samples, &p->job->target_samples);
    if (q->target_batch > 0)
        e->target_samples = lk_economics_known(
            lk_target_samples(q->target_samples, q->target_batch, e->noise_scale.value));
    if (asked && !written)
        return lk_forecast_note(p->f, "goodput: not known, say how long a checkpoint takes: "
                                      "--checkpoint, or \"checkpoint_bandwidth\" in the cluster "
                                      "file");
    p->failures = written;
    if (written) {
        p->mtbf_s = input_or_prior(p, q->gpu_mtbf_s, &c->gpu_mtbf_s, PRIOR_MTBF);
        p->restart_s = input_or_prior(p, q->restart_s, &c->restart_s, PRIOR_RESTART);
    }
    return LK_OK;
}

/* ---- Points ---- */

static struct lk_config config_of(const struct plan *p, size_t i)
{
    return p->places ? p->places[i].config : lk_config_of_point(&p->f->points[i], p->job);
}

/* Whose GPU a point runs on. */
static const struct lk_cluster *device_of(const struct plan *p, size_t i)
{
    return p->places && p->places[i].device ? p->places[i].device : p->cluster;
}

static double or_nan(double v)
{
    return isfinite(v) ? v : NAN;
}

static void plan_memory(const struct plan *p, const struct lk_config *c, double device_bytes,
                        struct lk_plan *out)
{
    struct lk_memory m;
    enum lk_memory_fit fit;
    enum lk_sharding sharding;
    int batch;

    if (isnan(device_bytes))
        return;
    lk_memory_of(p->job, c, &m);
    fit = lk_memory_fit(&m, device_bytes);
    batch = lk_memory_largest_batch(&m, device_bytes, false);
    out->memory_bytes = m.total.value;
    out->memory_lo_bytes = m.total.lo;
    out->memory_hi_bytes = or_nan(m.total.hi);
    out->largest_batch = batch >= 0 ? (double)batch : NAN;
    snprintf(out->memory_fit, sizeof out->memory_fit, "%s", lk_memory_fit_name(fit));
    if (fit == LK_MEMORY_TOO_LARGE &&
        lk_memory_sharding_that_fits(p->job, c, device_bytes, &sharding))
        snprintf(out->fits_with, sizeof out->fits_with, "%s", lk_sharding_name(sharding));
}

/* How long a checkpoint stops training. */
static double checkpoint_s(const struct plan *p, const struct lk_config *c)
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

static struct lk_estimate plan_goodput(const struct plan *p, const struct lk_config *c,
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

static void plan_rates(const struct plan *p, double batch, struct lk_plan *out)
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

static void plan_point(const struct plan *p, size_t i)
{
    struct lk_forecast_point *point = &p->f->points[i];
    const struct lk_cluster *device = device_of(p, i);
    struct lk_config c = config_of(p, i);
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
    if (p->places)
        snprintf(out->label, sizeof out->label, "%s", p->places[i].label);
    e.price_per_hour = input(p->request->price_per_hour, &device->price_per_hour);
    e.power_W = input(p->request->power_W, &device->power_W);
    plan_memory(p, &c, input(p->request->device_bytes, &device->device.memory_bytes).value, out);
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

/* ---- Where more GPUs stop paying ---- */

static bool too_large(const struct plan *p, size_t i)
{
    return !strcmp(p->f->points[i].plan.memory_fit, lk_memory_fit_name(LK_MEMORY_TOO_LARGE));
}

/* Points that fit, have a time, and differ in GPUs alone from the first that fits. */
static bool on_curve(const struct plan *p, size_t i)
{
    const struct lk_plan *plan = &p->f->points[i].plan;
    struct lk_config c = config_of(p, i), first = config_of(p, p->first);

    c.gpus = first.gpus;
    c.nodes = first.nodes;
    return lk_config_equal(&c, &first) && device_of(p, i) == device_of(p, p->first) &&
           !too_large(p, i) && !isnan(plan->time_to_target_h);
}

/* What an hour saved costs, from the next smaller count on the curve. Empty where none is saved. */
static void plan_marginal(struct plan *p)
{
    const struct lk_forecast_point *below = NULL;

    for (size_t i = 0; i < p->f->n_points; i++) {
        struct lk_forecast_point *point = &p->f->points[i];
        double saved_h;

        if (!on_curve(p, i))
            continue;
        if (below && point->gpus > below->gpus) {
            saved_h = below->plan.time_to_target_h - point->plan.time_to_target_h;
            if (saved_h > 0)
                point->plan.cost_per_hour_saved =
                    (point->plan.cost_to_target - below->plan.cost_to_target) / saved_h;
        }
        below = point;
    }
}

/* GPUs of the point on the curve with the least time at another noise scale; 0: none. */
static int fastest_gpus(const struct plan *p, double noise_scale)
{
    double least = INFINITY;
    int gpus = 0;

    for (size_t i = 0; i < p->f->n_points; i++) {
        const struct lk_forecast_point *point = &p->f->points[i];
        double batch = (double)point->gpus * point->local_batch * point->accumulation, time;

        if (!on_curve(p, i))
            continue;
        time = point->plan.time_to_target_h * point->plan.statistical_efficiency /
               lk_statistical_efficiency(batch, noise_scale);
        if (time < least) {
            least = time;
            gpus = point->gpus;
        }
    }
    return gpus;
}

/* The point on the curve with the least cost to the target; NULL: none. */
static const struct lk_forecast_point *cheapest(const struct plan *p)
{
    const struct lk_forecast_point *best = NULL;

    for (size_t i = 0; i < p->f->n_points; i++) {
        const struct lk_forecast_point *point = &p->f->points[i];

        if (on_curve(p, i) && !isnan(point->plan.cost_to_target) &&
            (!best || point->plan.cost_to_target < best->plan.cost_to_target))
            best = point;
    }
    return best;
}

static enum lk_status note_paying(const struct plan *p)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = p->f;
    const struct lk_estimate *noise = &p->economics.noise_scale;
    const struct lk_forecast_point *least;
    int fast = fastest_gpus(p, noise->value), lo = fastest_gpus(p, noise->lo);
    int hi = fastest_gpus(p, noise->hi), within = 0;

    if (!fast)
        return isnan(noise->value) || isnan(p->economics.target_samples.value)
                   ? LK_OK
                   : lk_forecast_note(f, "where more GPUs stop paying: not said, nothing that was "
                                         "asked for fits in memory");
    if (lo == hi)
        LK_TRY(lk_forecast_note(f, "time to the target is least at %d GPUs, of those asked for",
                                fast));
    else
        LK_TRY(lk_forecast_note(f,
                                "time to the target is least at %d GPUs, of those asked for; %d to "
                                "%d over the noise scale's interval",
                                fast, lo, hi));
    least = cheapest(p);
    if (!least)
        return LK_OK;
    for (size_t i = 0; i < f->n_points; i++)
        if (on_curve(p, i) && f->points[i].gpus > within &&
            f->points[i].plan.cost_to_target <=
                p->request->cost_factor * least->plan.cost_to_target)
            within = f->points[i].gpus;
    LK_TRY(lk_forecast_note(f,
                            "cost to the target is least at %d GPUs; up to %d it stays below %g "
                            "times that",
                            least->gpus, within, p->request->cost_factor));
out:
    return st;
}

/* ---- Notes ---- */

static enum lk_status note_memory(const struct plan *p)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = p->f;
    struct lk_config c = config_of(p, 0);
    struct lk_memory m;
    size_t none = 0, sharded = 0;

    if (isnan(p->device_bytes))
        return LK_OK;
    for (size_t i = 0; i < f->n_points; i++) {
        none += !strcmp(f->points[i].plan.memory_fit, "no");
        sharded += *f->points[i].plan.fits_with != '\0';
    }
    if (none)
        LK_TRY(lk_forecast_note(f,
                                "memory: %zu of %zu configurations do not fit in a GPU's; %zu of "
                                "them would with ZeRO",
                                none, f->n_points, sharded));
    lk_memory_of(p->job, &c, &m);
    if (isnan(m.per_sample.value))
        LK_TRY(lk_forecast_note(f, "memory: activations are not known and not in the sum: "
                                   "\"memory_per_sample\" in the job file says them"));
    if (m.activations_assumed)
        LK_TRY(lk_forecast_note(f, "memory: activations assumed, none to half of what the layers "
                                   "move; \"memory_per_sample\" in the job file would say"));
    if (m.optimizer_assumed)
        LK_TRY(lk_forecast_note(f, "memory: the job names no \"optimizer\": Adam's states assumed, "
                                   "or none"));
    if (m.runtime_assumed)
        LK_TRY(lk_forecast_note(f, "memory: %s", lk_memory_assumed()));
out:
    return st;
}

static enum lk_status note_target(const struct plan *p)
{
    enum lk_status st = LK_OK;
    const struct lk_economics *e = &p->economics;
    const struct lk_forecast_point *first = &p->f->points[0];
    bool noise = !isnan(e->noise_scale.value), target = !isnan(e->target_samples.value);

    if (target && !noise)
        LK_TRY(lk_forecast_note(p->f, "time to the target: needs the noise scale: \"noise_scale\" "
                                      "in the job file, or --noise-scale"));
    if (!noise)
        return LK_OK;
    LK_TRY(lk_forecast_note(p->f,
                            "critical batch (noise scale): %.4g samples%s; the global batch passes "
                            "it at %.0f GPUs with local batch %d, accumulation %d",
                            e->noise_scale.value,
                            e->noise_scale.lo < e->noise_scale.hi ? "" : ", taken as exact",
                            ceil(e->noise_scale.value / first->local_batch / first->accumulation),
                            first->local_batch, first->accumulation));
    if (!target)
        LK_TRY(lk_forecast_note(p->f, "time to the target: needs the samples that reach it: "
                                      "\"target_samples\" in the job file, or --target-samples"));
out:
    return st;
}

static enum lk_status note_rates(const struct plan *p)
{
    enum lk_status st = LK_OK;
    const struct lk_job *j = p->job;
    bool adam = j->optimizer == LK_JOB_OPTIMIZER_ADAM || j->optimizer == LK_JOB_OPTIMIZER_ADAMW;

    if (!lk_quantity_known(&j->learning_rate))
        return LK_OK;
    if (!j->learning_rate_batch)
        return lk_forecast_note(p->f, "learning rate: \"learning_rate_batch\" in the job file says "
                                      "which global batch it was tuned for");
    LK_TRY(lk_forecast_note(p->f,
                            "learning rate: the linear rule (arXiv:1706.02677) is SGD's and holds "
                            "well below the critical batch; it was seen up to %d images of "
                            "ImageNet, with warm-up. The square-root rule (arXiv:2205.10287) is "
                            "Adam's%s",
                            LK_RATE_GOYAL_BATCH, adam ? ": take that one here" : ""));
out:
    return st;
}

static enum lk_status note_failures(const struct plan *p)
{
    enum lk_status st = LK_OK;

    for (int i = 0; i < PRIOR_COUNT; i++)
        if (p->failures && p->assumed[i])
            LK_TRY(lk_forecast_note(p->f, "goodput: assumed: %s", priors[i].source));
out:
    return st;
}

/* ---- The memory table ---- */

#define SCHEME_COLUMN(name)                                                                        \
    {                                                                                              \
        name "_bytes", name, LK_DIM_BYTES, -1                                                      \
    }
static const struct lk_column memory_columns[] = {
    {"part", "part", LK_DIM_NONE, -1},
    SCHEME_COLUMN("ddp"),
    SCHEME_COLUMN("zero1"),
    SCHEME_COLUMN("zero2"),
    SCHEME_COLUMN("zero3"),
};
#undef SCHEME_COLUMN

enum { N_SCHEMES = 4 };
static const enum lk_sharding memory_schemes[N_SCHEMES] = {LK_SHARDING_DDP, LK_SHARDING_ZERO1,
                                                           LK_SHARDING_ZERO2, LK_SHARDING_ZERO3};

static enum lk_status memory_row(struct lk_table *t, const char *part, const double v[N_SCHEMES])
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "part", "%s", part));
    for (int s = 0; s < N_SCHEMES; s++)
        LK_TRY(lk_table_number(t, memory_columns[1 + s].name, v[s]));
out:
    return st;
}

static enum lk_status memory_notes(struct lk_table *t, const struct plan *p,
                                   const struct lk_memory m[N_SCHEMES])
{
    enum lk_status st = LK_OK;
    char size[32];

    if (isnan(p->device_bytes))
        return lk_table_note(t, "what fits: --device-memory, or \"memory\" of \"device\" in the "
                                "cluster file, says what a GPU has");
    lk_units_format(LK_DIM_BYTES, p->device_bytes, size, sizeof size);
    for (int s = 0; s < N_SCHEMES; s++) {
        int batch = lk_memory_largest_batch(&m[s], p->device_bytes, false);
        int sure = lk_memory_largest_batch(&m[s], p->device_bytes, true);

        LK_TRY(lk_table_note(t, "%s fits in %s: %s", lk_sharding_name(memory_schemes[s]), size,
                             lk_memory_fit_name(lk_memory_fit(&m[s], p->device_bytes))));
        if (batch > 0)
            LK_TRY(lk_table_note(t, "%s: largest local batch %d, surely %d",
                                 lk_sharding_name(memory_schemes[s]), batch, sure));
    }
out:
    return st;
}

enum lk_status lk_plan_memory_table(const struct lk_job *job, const struct lk_cluster *cluster,
                                    const struct lk_plan_request *request,
                                    const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_config c = lk_config_of_point(&f->points[0], job);
    struct plan p = {.device_bytes =
                         input(request->device_bytes, &cluster->device.memory_bytes).value};
    struct lk_memory m[N_SCHEMES];
    struct lk_table *t = NULL;
    double v[N_SCHEMES];
    char title[128];

    for (int s = 0; s < N_SCHEMES; s++) {
        c.sharding = memory_schemes[s];
        lk_memory_of(job, &c, &m[s]);
    }
    snprintf(title, sizeof title, "Memory of a GPU: %d GPUs, local batch %d", c.gpus,
             c.local_batch);
    LK_TRY(lk_table_create(title, memory_columns, LK_COUNT(memory_columns), &t));
    for (int r = 0; r < LK_MEMORY_COUNT; r++) {
        for (int s = 0; s < N_SCHEMES; s++)
            v[s] = m[s].rows[r].value;
        LK_TRY(memory_row(t, lk_memory_text((enum lk_memory_row)r), v));
    }
#define TOTAL_ROW(text, bound)                                                                     \
    for (int s = 0; s < N_SCHEMES; s++)                                                            \
        v[s] = or_nan(m[s].total.bound);                                                           \
    LK_TRY(memory_row(t, text, v));
    TOTAL_ROW("total", value)
    TOTAL_ROW("from", lo)
    TOTAL_ROW("to", hi)
#undef TOTAL_ROW
    LK_TRY(memory_notes(t, &p, m));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

static const struct lk_column device_columns[] = {
    {"gpu",           "GPU",            LK_DIM_NONE,  -1},
    {"device_bytes",  "memory",         LK_DIM_BYTES, -1},
    {"memory_fit",    "fits",           LK_DIM_NONE,  -1},
    {"largest_batch", "largest batch",  LK_DIM_NONE,  -1},
    {"fits_with",     "would fit with", LK_DIM_NONE,  -1},
};

/* Was this GPU, with this memory, in an earlier cluster? */
static bool seen_before(const struct lk_cluster *clusters, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(clusters[k].gpu, clusters[i].gpu) &&
            lk_quantity_known(&clusters[k].device.memory_bytes) &&
            clusters[k].device.memory_bytes.value == clusters[i].device.memory_bytes.value)
            return true;
    return false;
}

static enum lk_status device_row(struct lk_table *t, const struct lk_job *job,
                                 const struct lk_config *c, const struct lk_cluster *cluster)
{
    enum lk_status st = LK_OK;
    struct lk_plan plan = lk_plan_none;
    struct plan p = {.job = job, .device_bytes = cluster->device.memory_bytes.value};

    plan_memory(&p, c, p.device_bytes, &plan);
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "gpu", "%s", cluster->gpu));
    LK_TRY(lk_table_number(t, "device_bytes", p.device_bytes));
    LK_TRY(lk_table_text(t, "memory_fit", "%s", plan.memory_fit));
    LK_TRY(lk_table_number(t, "largest_batch", plan.largest_batch));
    if (*plan.fits_with)
        LK_TRY(lk_table_text(t, "fits_with", "%s", plan.fits_with));
out:
    return st;
}

enum lk_status lk_plan_device_table(const struct lk_job *job, const struct lk_cluster *clusters,
                                    size_t n, const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_config c = lk_config_of_point(&f->points[0], job);
    struct lk_table *t = NULL;
    char title[128];

    snprintf(title, sizeof title, "What fits on which GPU: plain data parallelism, local batch %d",
             c.local_batch);
    *out = NULL;
    LK_TRY(lk_table_create(title, device_columns, LK_COUNT(device_columns), &t));
    for (size_t i = 0; i < n; i++)
        if (lk_quantity_known(&clusters[i].device.memory_bytes) && !seen_before(clusters, i))
            LK_TRY(device_row(t, job, &c, &clusters[i]));
    if (t->n_rows) {
        *out = t;
        t = NULL;
    }
out:
    lk_table_destroy(t);
    return st;
}

/* ---- The whole ---- */

enum lk_status lk_plan_forecast(const struct lk_job *job, const struct lk_cluster *cluster,
                                const struct lk_plan_request *request,
                                const struct lk_plan_place *places, struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct plan p = {.job = job, .cluster = cluster, .request = request, .places = places, .f = f};

    if (!f->n_points)
        return LK_OK;
    LK_TRY(set_inputs(&p));
    for (size_t i = 0; i < f->n_points; i++)
        plan_point(&p, i);
    while (p.first + 1 < f->n_points && too_large(&p, p.first))
        p.first++;
    plan_marginal(&p);
    LK_TRY(note_memory(&p));
    LK_TRY(note_target(&p));
    LK_TRY(note_paying(&p));
    LK_TRY(note_rates(&p));
    LK_TRY(note_failures(&p));
out:
    return st;
}
