/* The notes of a comparison's answer say what its points rest on. */
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"

#include "base/units.h"
#include "facts/forecast_answer.h"
#include "sim/prior.h"
#include "sim/step/volume.h"

#include <math.h>

static const struct lk_item *item_of(const struct lk_pipeline *w, size_t point)
{
    return &w->all.v[w->points[point].item];
}

/* An averaging that runs beside the next step's compute costs what does not fit in there. */
static enum lk_status note_schemes(const struct lk_pipeline *w)
{
    bool said[LK_SHARDING_COUNT] = {false};

    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_config *c = &item_of(w, i)->config;
        const struct lk_forecast_point *p = &w->out->points[i];
        double hidden = fmin(p->losses_s[LK_LOSS_WIRE], p->step_s / fmax(1, c->averaging_period));

        if (said[c->sharding] || item_of(w, i)->hidden || isnan(p->losses_s[LK_LOSS_WIRE]))
            continue;
        said[c->sharding] = true;
        if (c->staleness)
            LK_PASS(lk_forecast_warn(w->out,
                                     "%s: gradients are applied %d step%s late, beside which they "
                                     "are reduced; what that costs in convergence is not in the "
                                     "numbers",
                                     lk_sharding_name(c->sharding), c->staleness,
                                     c->staleness == 1 ? "" : "s"));
        if (lk_config_meets_seldom(c))
            LK_PASS(lk_forecast_note(
                w->out,
                "%s: an averaging stands alone, its cost spread over the period; overlapped with "
                "the step after it, %d GPUs would take %.4g s a step instead of %.4g; what the "
                "period costs in convergence is not in the numbers",
                lk_sharding_name(c->sharding), c->world_size, p->step_s - hidden, p->step_s));
    }
    return LK_OK;
}

/* Returns in *out whether PowerSGD takes a matrix for square; NULL: no point has it. */
static enum lk_status takes_for_square(const struct lk_job *j, const struct lk_config *power,
                                       bool *out)
{
    enum lk_status st = LK_OK;
    struct lk_volume v = {0};

    if (power)
        LK_TRY(lk_volume_init(&v, j, power));
    *out = v.shapes_assumed;
out:
    lk_volume_fini(&v);
    return st;
}

static enum lk_status note_compression(const struct lk_pipeline *w)
{
    const struct lk_config *power = NULL; /* of the smallest rank, which compresses most */
    bool some = false, square;

    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_config *c = &item_of(w, i)->config;

        some |= c->compression != LK_COMPRESSION_NONE;
        if (c->compression == LK_COMPRESSION_POWERSGD &&
            (!power || c->powersgd_rank < power->powersgd_rank))
            power = c;
    }
    LK_PASS(takes_for_square(w->source->job, power, &square));
    if (square)
        LK_PASS(lk_forecast_assume(w->out, "square matrices for PowerSGD",
                                   "where the job does not give their rows"));
    if (some && !lk_quantity_known(&w->source->cluster->device.memory_Bps))
        LK_PASS(lk_forecast_note(w->out,
                                 "what a hook's casts and products take is not in the numbers: the "
                                 "cluster does not give device.memory_bandwidth"));
    return LK_OK;
}

/* Notes the slowest kind of the GPUs of a point, and the wait for it. */
static enum lk_status note_mix(const struct lk_pipeline *w, const struct lk_gpu_mix *mix,
                               const struct lk_forecast_point *p)
{
    const struct lk_cluster *own = w->source->cluster;
    struct lk_gpu_kinds kinds;
    int slowest = 0, ranks = 0;
    char wait[32] = "";

    LK_PASS(lk_gpu_kinds_of(w->source->job, own, mix, &kinds));
    for (int g = 0; g < mix->n; g++)
        if (kinds.slowness[g] > kinds.slowness[slowest])
            slowest = g;
    for (int g = 0; g < mix->n; g++)
        ranks += kinds.slowness[g] == kinds.slowness[slowest] ? mix->of[g].ranks : 0;
    if (kinds.slowness[slowest] == 1 || isnan(p->step_s))
        return LK_OK;
    lk_units_format(LK_DIM_TIME, p->losses_s[LK_LOSS_STRAGGLER], wait, sizeof wait);
    return lk_forecast_warn(w->out,
                            "%d of %d ranks have %s, which computes a sample %.2f times as long as "
                            "%s: the wait for the "
                            "last rank is %s of a step of %s.",
                            ranks, mix->ranks,
                            mix->of[slowest].gpu ? mix->of[slowest].gpu->gpu : own->gpu,
                            kinds.slowness[slowest], kinds.fastest ? kinds.fastest->gpu : own->gpu,
                            wait, lk_units_format(LK_DIM_TIME, p->step_s, (char[32]){0}, 32));
}

enum lk_status lk_pipeline_note_mixes(const struct lk_pipeline *w)
{
    const struct lk_gpu_mix *last = NULL;

    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_item *item = &w->all.v[w->points[i].item];
        const struct lk_gpu_mix *mix = w->all.machines[item->machine].change.mix;

        if (mix && mix != last)
            LK_PASS(note_mix(w, mix, &w->out->points[i]));
        last = mix ? mix : last;
    }
    return LK_OK;
}

enum lk_status lk_pipeline_note_gains(const struct lk_pipeline *w)
{
    struct lk_assumed_terms assumed = {0};

    for (size_t i = 0; i < w->n_points; i++)
        lk_assumed_terms_add(&assumed, &item_of(w, i)->at);
    LK_PASS(note_schemes(w));
    LK_PASS(note_compression(w));
    LK_PASS(lk_assumed_terms_note(&assumed, w->out));
    return lk_forecast_note(w->out, "the model's own error of a gain is %.0f %% (%s)",
                            100 * lk_prior_value(LK_PRIOR_RESOLUTION),
                            lk_prior_source(LK_PRIOR_RESOLUTION));
}
