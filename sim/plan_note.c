/* What plans mean: where more GPUs stop paying, and notes. */
#include "sim/plan_state.h"

#include "base/units.h"
#include "sim/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "64 GPUs, local batch 4, accumulation 2, bucket cap 25 MiB, sharding zero2" */
static void describe(const struct lk_forecast *f, const struct lk_forecast_point *p, char *out,
                     size_t size)
{
    char cap[32];
    size_t at;

    lk_units_format(LK_DIM_BYTES, (double)p->cap_bytes, cap, sizeof cap);
    at = (size_t)snprintf(out, size, "%d GPUs, local batch %d, accumulation %d, bucket cap %s",
                          p->gpus, p->local_batch, p->accumulation, cap);
    for (size_t i = 0; i < f->n_axes && at < size; i++)
        if (*p->words[i])
            at += (size_t)snprintf(out + at, size - at, ", %s %s", f->axes[i], p->words[i]);
}

/* Over all that was asked for, the least time and the least cost: throughput alone names another
 * configuration where a larger batch learns less from each sample. */
static enum lk_status note_least(const struct lk_plan_state *p)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = p->f;
    const struct lk_forecast_point *fast = NULL, *cheap = NULL;
    char words[256];

    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *q = &f->points[i];

        if (lk_plan_too_large(q))
            continue;
        if (!isnan(q->plan.time_to_target_h) &&
            (!fast || q->plan.time_to_target_h < fast->plan.time_to_target_h))
            fast = q;
        if (!isnan(q->plan.cost_to_target) &&
            (!cheap || q->plan.cost_to_target < cheap->plan.cost_to_target))
            cheap = q;
    }
    if (fast) {
        describe(f, fast, words, sizeof words);
        LK_TRY(lk_forecast_note(f, "least time to the target of all: %.4g h (%.4g to %.4g): %s",
                                fast->plan.time_to_target_h, fast->plan.time_to_target_lo_h,
                                fast->plan.time_to_target_hi_h, words));
    }
    if (cheap) {
        describe(f, cheap, words, sizeof words);
        LK_TRY(lk_forecast_note(f, "least cost to the target of all: %.4g (%.4g to %.4g): %s",
                                cheap->plan.cost_to_target, cheap->plan.cost_to_target_lo,
                                cheap->plan.cost_to_target_hi, words));
    }
out:
    return st;
}

/* Does anything but GPUs differ? Else the notes on the curve say it. */
static bool several_curves(const struct lk_forecast *f)
{
    for (size_t i = 1; i < f->n_points; i++)
        if (!lk_forecast_same_curve(f, &f->points[0], &f->points[i]))
            return true;
    return false;
}

/* Points that fit, have a time, and differ in GPUs alone from the first that fits. */
static bool on_curve(const struct lk_plan_state *p, size_t i)
{
    const struct lk_plan *plan = &p->f->points[i].plan;
    struct lk_config c = lk_plan_config(p, i), first = lk_plan_config(p, p->first);

    c.gpus = first.gpus;
    c.nodes = first.nodes;
    return lk_config_equal(&c, &first) && lk_plan_device(p, i) == lk_plan_device(p, p->first) &&
           !lk_plan_too_large(&p->f->points[i]) && !isnan(plan->time_to_target_h);
}

void lk_plan_set_marginal(struct lk_plan_state *p)
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
static int fastest_gpus(const struct lk_plan_state *p, double noise_scale)
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
static const struct lk_forecast_point *cheapest(const struct lk_plan_state *p)
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

static enum lk_status note_paying(const struct lk_plan_state *p)
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
        LK_TRY(lk_forecast_note(
            f, "time to the target, by GPUs alone, is least at %d, of those asked for", fast));
    else
        LK_TRY(lk_forecast_note(f,
                                "time to the target, by GPUs alone, is least at %d, of those asked "
                                "for; %d to %d over the noise scale's interval",
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

static enum lk_status note_memory(const struct lk_plan_state *p)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = p->f;
    struct lk_config c = lk_plan_config(p, 0);
    struct lk_memory m;
    size_t none = 0, sharded = 0;

    if (isnan(p->device_bytes))
        return LK_OK;
    for (size_t i = 0; i < f->n_points; i++) {
        none += !strcmp(f->points[i].plan.memory_fit, "no");
        sharded += *f->points[i].plan.fits_with != '\0';
    }
    lk_memory_of(p->job, &c, &m);
    if (none && isnan(m.per_sample.value))
        LK_TRY(lk_forecast_note(f, "memory: %zu of %zu configurations do not fit in a GPU's", none,
                                f->n_points));
    else if (none)
        LK_TRY(lk_forecast_note(f,
                                "memory: %zu of %zu configurations do not fit in a GPU's; %zu of "
                                "them would with ZeRO",
                                none, f->n_points, sharded));
    if (isnan(m.per_sample.value))
        LK_TRY(lk_forecast_note(f, "memory: activations are not known and not in the sum: "
                                   "\"memory_per_sample\" in the job file says them, or a "
                                   "\"transformer\"'s shape"));
    if (m.activations_of_shape)
        LK_TRY(lk_forecast_note(f, "memory: activations by the transformer's shape "
                                   "(arXiv:2205.05198), 20 %% either way assumed; "
                                   "\"memory_per_sample\" in the job file would say"));
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

static enum lk_status note_target(const struct lk_plan_state *p)
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

static enum lk_status note_rates(const struct lk_plan_state *p)
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

static enum lk_status note_failures(const struct lk_plan_state *p)
{
    enum lk_status st = LK_OK;

    for (int i = 0; i < LK_PLAN_PRIOR_COUNT; i++)
        if (p->failures && p->assumed[i])
            LK_TRY(lk_forecast_note(p->f, "goodput: assumed: %s",
                                    lk_plan_prior_source((enum lk_plan_prior)i)));
out:
    return st;
}

enum lk_status lk_plan_add_notes(const struct lk_plan_state *p)
{
    enum lk_status st = LK_OK;

    LK_TRY(note_memory(p));
    LK_TRY(note_target(p));
    LK_TRY(note_paying(p));
    if (several_curves(p->f))
        LK_TRY(note_least(p));
    LK_TRY(note_rates(p));
    LK_TRY(note_failures(p));
out:
    return st;
}
