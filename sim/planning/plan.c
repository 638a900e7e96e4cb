/*
 * This file adds plans and their notes to a forecast.
 *
 * Divisions: inputs / points / notes / the whole.
 */
#include "sim/planning/plan.h"

#include "base/array.h"
#include "base/units.h"
#include "facts/forecast_answer.h"
#include "sim/planning/economics.h"
#include "sim/planning/memory.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Default failure rates, used when neither option nor file gives one. */
enum lk_plan_prior { LK_PLAN_PRIOR_MTBF, LK_PLAN_PRIOR_RESTART, LK_PLAN_PRIOR_COUNT };

struct state {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_plan_request *request;
    const struct lk_cluster *const *devices; /* one a point, or NULL */
    struct lk_forecast *f;
    size_t first;        /* the point with the least time to the target, else the first that fits */
    double device_bytes; /* NaN: not known */
    struct lk_economics economics;
    struct lk_estimate mtbf_s, restart_s;
    bool failures; /* asked for, and a checkpoint's time can be known */
    bool assumed[LK_PLAN_PRIOR_COUNT];
};

static const struct {
    double value, lo, hi; /* seconds */
    const char *what, *source;
} priors[LK_PLAN_PRIOR_COUNT] = {
    [LK_PLAN_PRIOR_MTBF] = {50700 * 3600.0, 29500 * 3600.0, 87000 * 3600.0, "how often GPUs fail",
                            "a GPU fails once in 50,700 h (29,500 to 87,000): 419 stops in 54 days "
                            "of 16,384 H100 (arXiv:2407.21783); low: 6.50 failures in 1000 days of "
                            "8 A100 (arXiv:2410.21680); high: as far above"},
    [LK_PLAN_PRIOR_RESTART] = {660, 330, 1320, "how long a restart takes",
                               "a restart takes 11 min: median between retries on 504 B200 "
                               "(arXiv:2605.09370), bounds a factor of two"},
};

/* ---- Inputs ---- */

double lk_plan_device_bytes(const struct lk_cluster *device, const struct lk_plan_request *request)
{
    return lk_economics_input(request ? (double)request->device_bytes : 0,
                              &device->device.memory_bytes)
        .value;
}

static struct lk_estimate input_or_prior(struct state *p, double option,
                                         const struct lk_quantity *q, enum lk_plan_prior prior)
{
    struct lk_estimate e = lk_economics_input(option, q);

    p->assumed[prior] = isnan(e.value);
    if (!p->assumed[prior])
        return e;
    return (struct lk_estimate){priors[prior].value, priors[prior].lo, priors[prior].hi, 0};
}

static bool failures_asked(const struct state *p)
{
    return p->request->gpu_mtbf_s > 0 || p->request->restart_s > 0 ||
           lk_quantity_known(&p->cluster->gpu_mtbf_s);
}

static void scale(struct lk_estimate *e, double by)
{
    e->value *= by;
    e->lo *= by;
    e->hi *= by;
}

static enum lk_status set_inputs(struct state *p)
{
    const struct lk_plan_request *q = p->request;
    const struct lk_cluster *c = p->cluster;
    struct lk_economics *e = &p->economics;
    bool written =
        q->checkpoint_s > 0 || q->checkpoint_Bps > 0 || lk_quantity_known(&c->checkpoint_Bps);

    if (q->checkpoint_s > 0 && q->checkpoint_Bps > 0)
        return lk_fail(LK_EUSAGE, "--checkpoint and --checkpoint-bandwidth both say how long a "
                                  "checkpoint takes: give one");
    p->device_bytes = lk_plan_device_bytes(c, q);
    e->price_per_hour = lk_economics_input(q->price_per_hour, &c->price_per_hour);
    e->power_W = lk_economics_input(q->power_W, &c->power_W);
    e->noise_scale = lk_economics_input(q->noise_scale, &p->job->noise_scale);
    e->target_samples = lk_economics_input(q->target_samples, &p->job->target_samples);
    if (q->target_batch > 0 && isnan(e->target_samples.value))
        return lk_fail(LK_EUSAGE, "--target-batch says where the target's samples were seen, which "
                                  "neither --target-samples nor the job gives");
    if (q->target_batch > 0)
        scale(&e->target_samples, lk_statistical_efficiency(q->target_batch, e->noise_scale.value));
    p->failures = written;
    if (written) {
        p->mtbf_s = input_or_prior(p, q->gpu_mtbf_s, &c->gpu_mtbf_s, LK_PLAN_PRIOR_MTBF);
        p->restart_s = input_or_prior(p, q->restart_s, &c->restart_s, LK_PLAN_PRIOR_RESTART);
    }
    return LK_OK;
}

/* Name the currency of a price that is known. */
static enum lk_status set_currency(const struct state *p)
{
    const char *given = p->request->currency, *cluster = p->cluster->currency;

    if (isnan(p->economics.price_per_hour.value))
        return LK_OK;
    free(p->f->currency);
    p->f->currency = NULL;
    return lk_strdup(&p->f->currency, given ? given : cluster ? cluster : "");
}

/* ---- Points ---- */

static const struct lk_cluster *device_of(const struct state *p, size_t i)
{
    return p->devices && p->devices[i] ? p->devices[i] : p->cluster;
}

static bool too_large(const struct lk_forecast_point *p)
{
    return !strcmp(p->plan.memory_fit, lk_memory_fit_name(LK_MEMORY_TOO_LARGE));
}

/* Return how long a checkpoint stops training. */
static double checkpoint_s(const struct state *p, const struct lk_config *c)
{
    double rate = p->request->checkpoint_Bps > 0 ? p->request->checkpoint_Bps
                                                 : p->cluster->checkpoint_Bps.value;

    if (p->request->checkpoint_s > 0)
        return p->request->checkpoint_s;
    return lk_memory_checkpoint_bytes(p->job, c) / rate;
}

static double best_share(double mtbf_s, double restart_s, double write_s, int world_size)
{
    struct lk_goodput g = {mtbf_s, write_s, restart_s};

    return lk_goodput_share(&g, world_size, lk_goodput_best_period_s(&g, world_size));
}

static struct lk_estimate plan_goodput(const struct state *p, const struct lk_config *c,
                                       struct lk_plan *out)
{
    double write = p->failures ? checkpoint_s(p, c) : 0;
    struct lk_goodput g = {p->mtbf_s.value, write, p->restart_s.value};
    struct lk_estimate e;

    if (!p->failures)
        return lk_economics_known(1);
    e = (struct lk_estimate){best_share(p->mtbf_s.value, p->restart_s.value, write, c->world_size),
                             best_share(p->mtbf_s.lo, p->restart_s.hi, write, c->world_size),
                             best_share(p->mtbf_s.hi, p->restart_s.lo, write, c->world_size), 0};
    out->goodput = e.value;
    out->checkpoint_period_s = lk_goodput_best_period_s(&g, c->world_size);
    return e;
}

static void plan_point(const struct state *p, size_t i)
{
    struct lk_forecast_point *point = &p->f->points[i];
    const struct lk_cluster *device = device_of(p, i);
    const struct lk_config *c = &point->config;
    const struct lk_job *j = p->job;
    struct lk_plan *out = &point->plan;
    struct lk_economics e = p->economics;
    struct lk_economics_point at = {
        .world_size = c->world_size,
        .global_batch = lk_config_samples(c),
        .step_s = {point->step_s, point->step_lo_s, point->step_hi_s, 0},
    };

    *out = lk_plan_none;
    out->known = true;
    e.price_per_hour = lk_economics_input(p->request->price_per_hour, &device->price_per_hour);
    e.power_W = lk_economics_input(p->request->power_W, &device->power_W);
    lk_memory_set_plan(p->job, c, lk_plan_device_bytes(device, p->request), out);
    at.goodput = plan_goodput(p, c, out);
    if (!lk_config_is_synchronous(c))
        e.noise_scale = lk_economics_unknown();
    lk_economics_at(&e, &at, out);
    if (lk_config_is_synchronous(c) && lk_quantity_known(&j->learning_rate) &&
        j->learning_rate_batch)
        lk_learning_rates(j->learning_rate.value, (double)j->learning_rate_batch, at.global_batch,
                          e.noise_scale.value, out);
}

/* ---- Notes ---- */

/* Write "64 GPUs, accumulation 2, sharding zero2". */
static void describe(const struct lk_forecast *f, const struct lk_forecast_point *p, char *out,
                     size_t size)
{
    char words[LK_ANSWER_WORDS];

    lk_answer_config(f, p, words, sizeof words);
    snprintf(out, size, "%d GPU%s%s%s", p->config.world_size, p->config.world_size == 1 ? "" : "s",
             *words ? ", " : "", words);
}

/* Return true for points that fit, have a time, and differ in GPUs alone from p->first. */
static bool on_curve(const struct state *p, size_t i)
{
    const struct lk_plan *plan = &p->f->points[i].plan;
    struct lk_config c = p->f->points[i].config, first = p->f->points[p->first].config;

    c.world_size = first.world_size;
    c.nodes = first.nodes;
    return lk_config_equal(&c, &first) && device_of(p, i) == device_of(p, p->first) &&
           !too_large(&p->f->points[i]) && !isnan(plan->time_to_target_h);
}

static void set_marginal(struct state *p)
{
    const struct lk_forecast_point *below = NULL;

    for (size_t i = 0; i < p->f->n_points; i++) {
        struct lk_forecast_point *point = &p->f->points[i];
        double saved_h;

        if (!on_curve(p, i))
            continue;
        if (below && point->config.world_size > below->config.world_size) {
            saved_h = below->plan.time_to_target_h - point->plan.time_to_target_h;
            if (saved_h > 0)
                point->plan.cost_per_hour_saved =
                    (point->plan.cost_to_target - below->plan.cost_to_target) / saved_h;
        }
        below = point;
    }
}

/* Return the GPUs of the point on the curve with the least time at another noise scale; 0: none. */
static int fastest_world_size(const struct state *p, double noise_scale)
{
    double least = INFINITY;
    int world_size = 0;

    for (size_t i = 0; i < p->f->n_points; i++) {
        const struct lk_forecast_point *point = &p->f->points[i];
        double batch = lk_config_samples(&point->config), time;

        if (!on_curve(p, i))
            continue;
        /* over the statistical efficiency, but for a factor that all have: the scale may be 0 */
        time = point->plan.time_to_target_h * point->plan.statistical_efficiency *
               (noise_scale + batch);
        if (time < least) {
            least = time;
            world_size = point->config.world_size;
        }
    }
    return world_size;
}

/* Return the point with the least value of a double at this offset of its plan, of all that fit;
 * NULL: none. */
static const struct lk_forecast_point *least_of(const struct state *p, size_t offset)
{
    const struct lk_forecast_point *best = NULL;
    double least = INFINITY;

    for (size_t i = 0; i < p->f->n_points; i++) {
        const struct lk_forecast_point *point = &p->f->points[i];
        double v = *(const double *)((const char *)&point->plan + offset);

        if (v < least && !too_large(point)) {
            best = point;
            least = v;
        }
    }
    return best;
}

/* Set the point whose settings the notes are about. */
static void set_first(struct state *p)
{
    const struct lk_forecast_point *least = least_of(p, offsetof(struct lk_plan, time_to_target_h));

    p->first = 0;
    while (p->first + 1 < p->f->n_points && too_large(&p->f->points[p->first]))
        p->first++;
    if (least)
        p->first = (size_t)(least - p->f->points);
}

/* Write an interval; its upper end is NaN where the noise scale's lower end is 0. */
static const char *range_text(double lo, double hi, char out[32])
{
    (void)(isnan(hi) ? snprintf(out, 32, "%.4g or more", lo)
                     : snprintf(out, 32, "%.4g to %.4g", lo, hi));
    return out;
}

static enum lk_status note_paying(const struct state *p)
{
    struct lk_forecast *f = p->f;
    const struct lk_estimate *noise = &p->economics.noise_scale;
    const struct lk_forecast_point *least, *first;
    char words[LK_ANSWER_WORDS + 32], range[64] = "", interval[32];
    int fast = fastest_world_size(p, noise->value), lo = fastest_world_size(p, noise->lo);
    int hi = fastest_world_size(p, noise->hi), within = 0;

    if (!fast)
        return isnan(noise->value) || isnan(p->economics.target_samples.value)
                   ? LK_OK
                   : lk_forecast_warn(f, "Where more GPUs stop paying is not known: nothing that "
                                         "was asked for fits in memory.");
    first = &f->points[p->first];
    describe(f, first, words, sizeof words);
    if (lo != hi)
        snprintf(range, sizeof range, "; %d to %d GPUs within the noise scale's interval", lo, hi);
    LK_PASS(lk_forecast_say(
        f,
        "Time to the target is least with %s, of all that was asked for: %.4g "
        "h (%s%s).",
        words, first->plan.time_to_target_h,
        range_text(first->plan.time_to_target_lo_h, first->plan.time_to_target_hi_h, interval),
        range));
    least = least_of(p, offsetof(struct lk_plan, cost_to_target));
    if (!least)
        return LK_OK;
    describe(f, least, words, sizeof words);
    LK_PASS(lk_forecast_say(
        f,
        "Cost to the target is least with %s, of all that was asked for: "
        "%.4g%s%s (%s).",
        words, least->plan.cost_to_target, lk_forecast_has_currency(f) ? " " : "",
        lk_forecast_has_currency(f) ? f->currency : "",
        range_text(least->plan.cost_to_target_lo, least->plan.cost_to_target_hi, interval)));
    for (size_t i = 0; i < f->n_points; i++)
        if (on_curve(p, i) && f->points[i].config.world_size > within &&
            f->points[i].plan.cost_to_target <=
                p->request->cost_factor * least->plan.cost_to_target)
            within = f->points[i].config.world_size;
    if (within > least->config.world_size)
        return lk_forecast_say(f,
                               "With the settings of the least time, up to %d GPUs cost below "
                               "%g times that.",
                               within, p->request->cost_factor);
    return LK_OK;
}

/* Note where the numbers of the memory come from, unless they were measured. */
static enum lk_status note_memory_sources(struct lk_forecast *f, const struct lk_memory *m)
{
    const struct {
        bool applies;
        const char *text;
    } rows[] = {
        {isnan(m->per_sample.value), "activations are not known and not in the sum: "
                                     "\"memory_per_sample\" in the job file says them, or a "
                                     "\"transformer\"'s shape"},
        {m->activations_of_shape, "activations by the transformer's shape (arXiv:2205.05198), 20 % "
                                  "either way assumed; \"memory_per_sample\" in the job file would "
                                  "say"},
        {m->activations_assumed, "activations assumed, none to half of what the layers move; "
                                 "\"memory_per_sample\" in the job file would say"},
        {m->optimizer_assumed, "the job names no \"optimizer\": Adam's states assumed, or none"},
        {m->runtime_assumed, lk_memory_assumed()},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].applies)
            LK_PASS(lk_forecast_note(f, "memory: %s", rows[i].text));
    return LK_OK;
}

static enum lk_status note_memory(const struct state *p)
{
    struct lk_forecast *f = p->f;
    struct lk_memory m;
    size_t none = 0, sharded = 0;

    if (isnan(p->device_bytes))
        return LK_OK;
    lk_memory_of(p->job, &f->points[0].config, &m);
    for (size_t i = 0; i < f->n_points; i++) {
        none += !strcmp(f->points[i].plan.memory_fit, "no");
        sharded += *f->points[i].plan.fits_with != '\0';
    }
    if (none && isnan(m.per_sample.value))
        LK_PASS(lk_forecast_warn(f, "%zu of %zu configurations do not fit in a GPU's memory.", none,
                                 f->n_points));
    else if (none)
        LK_PASS(lk_forecast_warn(f,
                                 "%zu of %zu configurations do not fit in a GPU's memory; %zu of "
                                 "them would with ZeRO.",
                                 none, f->n_points, sharded));
    return note_memory_sources(f, &m);
}

static enum lk_status note_target(const struct state *p)
{
    const struct lk_economics *e = &p->economics;
    const struct lk_forecast_point *first = &p->f->points[0];
    bool noise = !isnan(e->noise_scale.value), target = !isnan(e->target_samples.value);

    if (target && !noise)
        LK_PASS(lk_forecast_note(p->f, "time to the target: needs the noise scale: \"noise_scale\" "
                                       "in the job file, or --noise-scale"));
    if (!noise || isinf(e->noise_scale.value)) /* a sample is worth the same in any batch */
        return LK_OK;
    LK_PASS(lk_forecast_note(
        p->f,
        "critical batch (noise scale): %.4g samples%s; the global batch passes "
        "it at %.0f GPUs with local batch %d, accumulation %d",
        e->noise_scale.value, e->noise_scale.lo < e->noise_scale.hi ? "" : ", taken as exact",
        ceil(e->noise_scale.value / first->config.local_batch / first->config.accumulation),
        first->config.local_batch, first->config.accumulation));
    if (!target)
        LK_PASS(lk_forecast_note(p->f, "time to the target: needs the samples that reach it: "
                                       "\"target_samples\" in the job file, or --target-samples"));
    return LK_OK;
}

static enum lk_status note_rates(const struct state *p)
{
    const struct lk_job *j = p->job;
    bool adam = j->optimizer == LK_JOB_OPTIMIZER_ADAM || j->optimizer == LK_JOB_OPTIMIZER_ADAMW ||
                j->optimizer == LK_JOB_OPTIMIZER_LAMB;

    if (!lk_quantity_known(&j->learning_rate))
        return LK_OK;
    if (!j->learning_rate_batch)
        return lk_forecast_note(p->f, "learning rate: \"learning_rate_batch\" in the job file says "
                                      "which global batch it was tuned for");
    LK_PASS(lk_forecast_note(p->f,
                             "learning rate: the linear rule (arXiv:1706.02677) is SGD's and holds "
                             "well below the critical batch; it was seen up to %d images of "
                             "ImageNet, with warm-up. The square-root rule (arXiv:2205.10287) is "
                             "Adam's%s",
                             LK_RATE_GOYAL_BATCH, adam ? ": take that one here" : ""));
    return LK_OK;
}

static enum lk_status note_failures(const struct state *p)
{
    if (failures_asked(p) && !p->failures)
        return lk_forecast_note(p->f, "goodput: not known, say how long a checkpoint takes: "
                                      "--checkpoint, or \"checkpoint_bandwidth\" in the cluster "
                                      "file");
    for (int i = 0; i < LK_PLAN_PRIOR_COUNT; i++)
        if (p->failures && p->assumed[i])
            LK_PASS(lk_forecast_assume(p->f, priors[i].what, "%s", priors[i].source));
    return LK_OK;
}

static enum lk_status add_notes(const struct state *p)
{
    LK_PASS(note_memory(p));
    LK_PASS(note_target(p));
    if (p->request->cost_factor > 0)
        LK_PASS(note_paying(p));
    LK_PASS(note_rates(p));
    return note_failures(p);
}

/* ---- The whole ---- */

double lk_plan_noise_scale(const struct lk_job *job, const struct lk_plan_request *request)
{
    return lk_economics_input(request ? request->noise_scale : 0, &job->noise_scale).value;
}

enum lk_status lk_plan_points(const struct lk_job *job, const struct lk_cluster *cluster,
                              const struct lk_plan_request *request,
                              const struct lk_cluster *const *devices, struct lk_forecast *f)
{
    struct state p = {
        .job = job, .cluster = cluster, .request = request, .devices = devices, .f = f};

    LK_PASS(set_inputs(&p));
    LK_PASS(set_currency(&p));
    for (size_t i = 0; i < f->n_points; i++)
        plan_point(&p, i);
    set_first(&p);
    set_marginal(&p);
    return LK_OK;
}

enum lk_status lk_plan_tell(const struct lk_job *job, const struct lk_cluster *cluster,
                            const struct lk_plan_request *request,
                            const struct lk_cluster *const *devices, struct lk_forecast *f)
{
    struct state p = {
        .job = job, .cluster = cluster, .request = request, .devices = devices, .f = f};

    if (!f->n_points)
        return LK_OK;
    LK_PASS(set_inputs(&p));
    set_first(&p);
    return add_notes(&p);
}
