/* Points: a prediction, with its efficiency and its losses against the reference. */
#include "sim/forecast/pipeline.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the samples that a GPU computes in a step. */
static double work(const struct lk_config *c)
{
    return lk_config_samples(c) / c->world_size;
}

/* Returns true if nothing explains an efficiency above the measured ones but error: the same work a
 * GPU, on more of them, was forecast and not measured. */
static bool is_bounded(const struct lk_prediction *p, const struct lk_prediction *r)
{
    const struct lk_config *a = &p->config, *b = &r->config;

    return isnan(p->measured_s) && a->world_size >= b->world_size &&
           a->local_batch == b->local_batch && !strcmp(a->batches, b->batches) &&
           a->accumulation == b->accumulation &&
           (lk_config_replicas(b) == 1 ||
            (lk_config_same_scheme(a, b) && a->cap_bytes == b->cap_bytes));
}

/*
 * Makes the losses those beyond the reference, for the same samples a GPU: the ideal is the step
 * that the reference would take for them, so that its share of the step is the efficiency. Where
 * the samples are not dealt to steps and micro-batches alike, the difference of what the ideal
 * holds is the batch's.
 */
static void refer_losses(const struct lk_prediction *p, const struct lk_prediction *r,
                         double reference_s, struct lk_forecast_point *out)
{
    double same = work(&p->config) / work(&r->config), *losses_s = out->losses_s;
    bool alike = p->config.local_batch == r->config.local_batch &&
                 p->config.accumulation == r->config.accumulation;

    if (isnan(p->losses_s[LK_LOSS_IDEAL]) || isnan(r->losses_s[LK_LOSS_IDEAL]))
        return;
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        losses_s[i] -= same * r->losses_s[i];
    losses_s[alike ? LK_LOSS_REST : LK_LOSS_BATCH] += losses_s[LK_LOSS_IDEAL];
    losses_s[LK_LOSS_IDEAL] = same * reference_s;
    lk_losses_close(losses_s, out->step_s);
}

double lk_most_efficient(const struct lk_evidence_source *e, const struct lk_prediction *reference)
{
    const struct lk_config *of = &reference->config;
    double reference_s = isnan(reference->measured_s) ? reference->step_s : reference->measured_s;
    double most = 1;

    for (size_t i = 0; i < e->n_measured; i++) {
        const struct lk_config *c = &e->measured[i].config;

        if (c->local_batch == of->local_batch && c->accumulation == of->accumulation &&
            !isnan(e->measured[i].step_s))
            most = fmax(most, lk_scaling_efficiency(c, e->measured[i].step_s, of, reference_s));
    }
    return most;
}

static enum lk_status set_efficiency(const struct lk_prediction *p, const struct lk_prediction *r,
                                     double most, double level, struct lk_forecast_point *out)
{
    enum lk_status st = LK_OK;
    double reference_s = isnan(r->measured_s) ? r->step_s : r->measured_s;
    const struct lk_config *c = &p->config, *of = &r->config;
    double value = lk_scaling_efficiency(c, p->step_s, of, reference_s), *ratios = NULL;
    struct lk_estimate e = {.value = value,
                            .lo = lk_scaling_efficiency(c, p->hi_s, of, reference_s),
                            .hi = lk_scaling_efficiency(c, p->lo_s, of, reference_s)};

    if (p->n_draws && p->n_draws == r->n_draws) {
        LK_TRY(lk_alloc(&ratios, p->n_draws, sizeof *ratios));
        for (size_t i = 0; i < p->n_draws; i++)
            ratios[i] = lk_scaling_efficiency(c, p->draws_s[i], of, r->draws_s[i]);
        e = lk_stats_interval(value, ratios, p->n_draws, level);
    }
    if (is_bounded(p, r)) {
        double longer = fmax(1, e.value / most);

        out->step_s *= longer;
        out->step_hi_s = fmax(out->step_hi_s, out->step_s);
        out->throughput_per_s /= longer;
        e.value = fmin(most, e.value);
        e.lo = fmin(most, e.lo);
        e.hi = fmin(most, e.hi);
    }
    refer_losses(p, r, reference_s, out);
    out->efficiency = e.value;
    out->efficiency_lo = e.lo;
    out->efficiency_hi = e.hi;
out:
    free(ratios);
    return st;
}

enum lk_status lk_point_make(const struct lk_prediction *p, const struct lk_prediction *reference,
                             double most, double level, struct lk_forecast_point *out)
{
    struct lk_forecast_point point = {.config = p->config,
                                      .step_s = p->step_s,
                                      .step_lo_s = p->lo_s,
                                      .step_hi_s = p->hi_s,
                                      .throughput_per_s = lk_config_samples(&p->config) / p->step_s,
                                      .efficiency = NAN,
                                      .efficiency_lo = NAN,
                                      .efficiency_hi = NAN,
                                      .evidence = p->evidence,
                                      .measured_step_s = p->measured_s,
                                      .measured_lo_s = p->measured_lo_s,
                                      .measured_hi_s = p->measured_hi_s,
                                      .plan = lk_plan_none};

    if (!point.config.local_batch)
        point.config.local_batch = 1; /* as lk_config_samples counts it */
    memcpy(point.evidence_text, p->evidence_text, sizeof point.evidence_text);
    memcpy(point.reach_text, p->reach_text, sizeof point.reach_text);
    memcpy(point.losses_s, p->losses_s, sizeof point.losses_s);
    *out = point;
    return reference ? set_efficiency(p, reference, most, level, out) : LK_OK;
}
