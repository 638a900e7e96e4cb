/* What a what-if says beside its numbers. */
#include "sim/whatif_state.h"

#include "sim/memory.h"
#include "sim/plan.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>

/* "bucket-cap=25MiB, accumulation=2": the axes asked for but the GPUs. */
static void describe(const struct lk_whatif_state *w, size_t point, char *out, size_t size)
{
    const struct lk_whatif_item *i = lk_whatif_item_of(w, point);
    size_t at = 0;

    *out = 0;
    for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
        if (w->request->axes[a].n && lk_axis_matters((enum lk_axis)a, &i->s.config) && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s=%s", at ? ", " : "",
                                   lk_axis_option((enum lk_axis)a),
                                   w->request->axes[a].v[i->index[a]].text);
    if (!*out)
        snprintf(out, size, "the only one");
}

/* The point of this count with the highest throughput of those that `take` takes; n_points: none.
 */
static size_t fastest(const struct lk_whatif_state *w, int gpus,
                      bool (*take)(const struct lk_whatif_state *w, size_t point))
{
    const struct lk_forecast_point *f = w->out->forecast.points;
    size_t n = w->out->n_points, best = n;

    for (size_t i = 0; i < n; i++)
        if (f[i].gpus == gpus && take(w, i) &&
            (best == n || f[i].throughput_per_s > f[best].throughput_per_s))
            best = i;
    return best;
}

static bool is_best(const struct lk_whatif_state *w, size_t point)
{
    return w->out->forecast.points[point].gain.verdict == LK_VERDICT_BEST;
}

static bool is_too_large(const struct lk_whatif_state *w, size_t point)
{
    return lk_whatif_item_of(w, point)->too_large;
}

/* Does a step learn the same: as many samples, exact gradients, no rank behind? */
static bool learns_the_same(const struct lk_whatif_state *w, size_t point)
{
    const struct lk_whatif_item *i = lk_whatif_item_of(w, point);
    const struct lk_config *c = &i->s.config, *current = &w->items[i->current].s.config;
    bool exact = c->grad_dtype == LK_GRAD_OWN && c->compression == LK_COMPRESSION_NONE;
    bool together = c->sharding != LK_SHARDING_LOCAL_SGD && c->sharding != LK_SHARDING_DILOCO &&
                    c->sharding != LK_SHARDING_ASYNC;

    return exact && together && !i->too_large && i->at.batch_reach <= 1 &&
           lk_whatif_samples(c) == lk_whatif_samples(current);
}

/* "throughput +2.1 % (-0.3 to +4.0) against the current configuration, within the error" */
static void describe_gain(const struct lk_whatif_state *w, const struct lk_gain *g, char *out,
                          size_t size)
{
    const char *verdict = lk_whatif_surely(w, g->certainty)       ? "beyond the error"
                          : lk_whatif_surely(w, 1 - g->certainty) ? "surely worse"
                                                                  : "within the error";

    if (isnan(g->ratio))
        snprintf(out, size, "the current configuration cannot be forecast");
    else
        snprintf(out, size,
                 "throughput %+.1f %% (%+.1f to %+.1f) against the current configuration, %s",
                 100 * (g->ratio - 1), 100 * (g->lo - 1), 100 * (g->hi - 1), verdict);
}

static bool sharding_that_fits(const struct lk_whatif_state *w, const struct lk_whatif_item *i,
                               enum lk_sharding *out)
{
    const struct lk_cluster *device = i->s.change.gpu ? i->s.change.gpu : w->cluster;

    return lk_memory_sharding_that_fits(w->job, &i->s.config,
                                        lk_plan_device_bytes(device, w->request->plan), out);
}

/* What is faster and does not fit, and what would make it fit. */
static enum lk_status note_too_large(struct lk_whatif_state *w, int gpus, size_t best)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    size_t n = w->out->n_points, large = fastest(w, gpus, is_too_large);
    enum lk_sharding fits;
    char words[256];

    if (large == n ||
        (best < n && f->points[large].throughput_per_s < f->points[best].throughput_per_s))
        return LK_OK;
    describe(w, large, words, sizeof words);
    if (sharding_that_fits(w, lk_whatif_item_of(w, large), &fits))
        LK_TRY(lk_forecast_note(f, "%s at %d GPUs does not fit in memory: %s; with %s it would",
                                best < n ? "what is faster" : "the fastest", gpus, words,
                                lk_sharding_name(fits)));
    else
        LK_TRY(lk_forecast_note(f, "%s at %d GPUs does not fit in memory, with no ZeRO stage: %s",
                                best < n ? "what is faster" : "the fastest", gpus, words));
out:
    return st;
}

static enum lk_status note_best(struct lk_whatif_state *w, int gpus)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    size_t n = w->out->n_points, best = fastest(w, gpus, is_best), ties = 0, same;
    char words[256], gain[160];

    if (best < n) {
        for (size_t i = 0; i < n; i++)
            ties += f->points[i].gpus == gpus && f->points[i].gain.verdict == LK_VERDICT_TIE;
        describe(w, best, words, sizeof words);
        describe_gain(w, &f->points[best].gain, gain, sizeof gain);
        LK_TRY(lk_forecast_note(f, "best at %d GPUs: %s; %s; %zu other%s with it", gpus, words,
                                gain, ties, ties == 1 ? " ties" : "s tie"));
    }
    LK_TRY(note_too_large(w, gpus, best));
    same = fastest(w, gpus, learns_the_same);
    if (best < n && same < n && !learns_the_same(w, best)) {
        describe(w, same, words, sizeof words);
        describe_gain(w, &f->points[same].gain, gain, sizeof gain);
        LK_TRY(lk_forecast_note(f,
                                "best at %d GPUs with the same global batch and exact, "
                                "synchronous gradients: %s; %s",
                                gpus, words, gain));
    }
out:
    return st;
}

/* An averaging that runs beside the next step's compute costs what does not fit in there. */
static enum lk_status note_schemes(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    bool said[LK_SHARDING_COUNT] = {false};

    for (size_t i = 0; i < o->n_points; i++) {
        const struct lk_config *c = &o->scenarios[i].config;
        const struct lk_forecast_point *p = &o->forecast.points[i];
        double hidden = fmin(p->losses_s[LK_LOSS_WIRE], p->step_s / fmax(1, c->period));

        if (said[c->sharding])
            continue;
        said[c->sharding] = true;
        if (c->sharding == LK_SHARDING_ASYNC)
            LK_TRY(lk_forecast_note(&o->forecast,
                                    "async: throughput without the barrier, each rank at its own "
                                    "pace; gradients are %d updates old on average at %d GPUs, "
                                    "and what that costs in convergence is not in the numbers",
                                    c->gpus - 1, c->gpus));
        if ((c->sharding == LK_SHARDING_LOCAL_SGD || c->sharding == LK_SHARDING_DILOCO) &&
            c->shard_group < 2)
            LK_TRY(lk_forecast_note(
                &o->forecast,
                "%s: an averaging stands alone, its cost spread over the period; overlapped with "
                "the step after it, %d GPUs would take %.4g s a step instead of %.4g; what the "
                "period costs in convergence is not in the numbers",
                lk_sharding_name(c->sharding), c->gpus, p->step_s - hidden, p->step_s));
    }
out:
    return st;
}

static enum lk_status note_compression(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    bool some = false, power = false, rows = true;

    for (size_t i = 0; i < o->n_points; i++) {
        enum lk_compression c = o->scenarios[i].config.compression;

        some |= c != LK_COMPRESSION_NONE;
        power |= c == LK_COMPRESSION_POWERSGD;
    }
    for (size_t i = 0; i < w->job->n_tensors; i++)
        rows = rows && w->job->tensors[i].rows;
    if (power && !rows)
        LK_TRY(lk_forecast_note(&o->forecast, "assumed: PowerSGD's matrices are square where the "
                                              "job does not give their rows"));
    if (some && !lk_quantity_known(&w->cluster->device.memory_Bps))
        LK_TRY(lk_forecast_note(&o->forecast,
                                "what a hook's casts and products take is not in the numbers: the "
                                "cluster does not give device.memory_bandwidth"));
out:
    return st;
}

enum lk_status lk_whatif_add_notes(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;

    for (size_t g = 0; g < w->request->axes[LK_AXIS_GPUS].n; g++)
        LK_TRY(note_best(w, (int)w->request->axes[LK_AXIS_GPUS].v[g].number.value));
    LK_TRY(note_schemes(w));
    LK_TRY(note_compression(w));
    if (w->n_refused)
        LK_TRY(lk_forecast_note(&o->forecast, "%zu points were left out. The first: %s",
                                w->n_refused, w->refusal));
    LK_TRY(lk_forecast_note(&o->forecast, "two configurations are told apart from %.0f %% on (%s)",
                            100 * lk_prior_value(LK_PRIOR_BASE_ERROR),
                            lk_prior_source(LK_PRIOR_BASE_ERROR)));
out:
    return st;
}
