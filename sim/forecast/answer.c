/*
 * The answer of a forecast.
 *
 * Divisions: words / what does not fit / the best of those asked for / the best against now / notes
 * / the whole.
 */
#include "sim/forecast/pipeline.h"

#include "facts/forecast_answer.h"
#include "sim/planning/memory.h"
#include "sim/planning/plan.h"
#include "sim/prior.h"
#include "sim/step/volume.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A sentence of the answer, or a note. */
typedef enum lk_status teller(struct lk_forecast *f, const char *fmt, ...);

static const struct lk_item *item_of(const struct lk_pipeline *w, size_t point)
{
    return &w->all.v[w->points[point].item];
}

/* ---- Words ---- */

/* Writes "bucket cap 25MiB, accumulation 2": the axes that were asked for, without the GPUs. */
static void describe(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    const struct lk_grid_point *p = &w->points[point];
    size_t at = 0;

    snprintf(out, size, "%s", p->is_current ? "the current configuration" : "");
    for (int a = p->is_current ? LK_AXIS_COUNT : LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++) {
        size_t from = at;

        if (!w->request->axes[a].n || at >= size ||
            !lk_axis_matters((enum lk_axis)a, &item_of(w, point)->config))
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s ", at ? ", " : "",
                               lk_axis_option((enum lk_axis)a));
        for (char *dash = out + from; from < size && (dash = strchr(dash, '-')) != NULL;)
            *dash = ' ';
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "%s",
                                   lk_pipeline_word(w, p, (enum lk_axis)a));
    }
    if (!*out)
        snprintf(out, size, "the only one");
}

/* Writes "+22.0 % throughput (+15.0 to +30.0) against now, beyond the model's error". */
static void describe_gain(const struct lk_pipeline *w, const struct lk_gain *g, char *out,
                          size_t size)
{
    const char *verdict = lk_is_sure(w, g->certainty)       ? "beyond the model's error"
                          : lk_is_sure(w, 1 - g->certainty) ? "surely worse"
                                                            : "within the model's error";

    if (isnan(g->ratio))
        snprintf(out, size, "no gain is known: the current configuration cannot be forecast");
    else
        snprintf(out, size, "%+.1f %% throughput (%+.1f to %+.1f) against now, %s",
                 100 * (g->ratio - 1), 100 * (g->lo - 1), 100 * (g->hi - 1), verdict);
}

/* ---- What does not fit ---- */

static bool is_too_large(const struct lk_pipeline *w, size_t point)
{
    return item_of(w, point)->too_large;
}

/* Notes a faster point that does not fit in memory, and the sharding that would make it fit. */
static enum lk_status note_too_large(struct lk_pipeline *w, int world_size, size_t best)
{
    struct lk_forecast *f = w->out;
    size_t n = w->n_points, large = lk_fastest(w, world_size, is_too_large, n);
    const char *what = best < n ? "What is faster" : "The fastest";
    const struct lk_item *i;
    double device_bytes;
    enum lk_sharding fits;
    char words[256];

    if (large == n ||
        (best < n && f->points[large].throughput_per_s < f->points[best].throughput_per_s))
        return LK_OK;
    describe(w, large, words, sizeof words);
    i = item_of(w, large);
    device_bytes = lk_pipeline_device_bytes(w, i);
    if (lk_memory_sharding_that_fits(w->source->job, &i->config, device_bytes, &fits))
        return lk_forecast_warn(f, "%s at %d GPUs does not fit in memory: %s; with %s it would.",
                                what, world_size, words, lk_sharding_name(fits));
    return lk_forecast_warn(f, "%s at %d GPUs does not fit in memory, with no ZeRO stage: %s.",
                            what, world_size, words);
}

/* ---- The best of those asked for ---- */

/* Says, or notes, which configuration is the best at a count that has several, and by how much. */
static enum lk_status tell_fastest(struct lk_pipeline *w, int world_size, teller *tell)
{
    size_t n = w->n_points, best = lk_fastest(w, world_size, lk_may_be_best, n);
    size_t next = lk_fastest(w, world_size, lk_may_be_best, best);
    const struct lk_forecast_point *points = w->out->points;
    char words[LK_ANSWER_WORDS];
    double sure;

    if (best < n)
        LK_PASS(note_too_large(w, world_size, best));
    if (best == n || next == n)
        return LK_OK;
    sure = lk_certainty(w, item_of(w, best), item_of(w, next));
    return tell(w->out,
                "Best of those asked for at %d GPU%s: %s, %.1f %% faster than the next, %s the "
                "model's error (%.0f %% likely).",
                world_size, world_size == 1 ? "" : "s",
                lk_answer_config(w->out, &points[best], words, sizeof words),
                100 * (points[best].throughput_per_s / points[next].throughput_per_s - 1),
                lk_is_sure(w, sure) ? "beyond" : "within", 100 * sure);
}

/* Returns the point that the answer is about: the best at the most GPUs. */
static size_t main_point(const struct lk_pipeline *w)
{
    const struct lk_forecast_point *p = w->out->points;
    size_t most = 0, best;

    for (size_t i = 1; i < w->n_points; i++)
        most = p[i].config.world_size > p[most].config.world_size ? i : most;
    best = lk_fastest(w, p[most].config.world_size, lk_may_be_best, w->n_points);
    return best < w->n_points ? best : most;
}

/* Says which run would narrow a forecast far beyond the measured counts. */
static enum lk_status tell_run(const struct lk_pipeline *w, const struct lk_forecast_point *p)
{
    enum { FAR = 4 }; /* times the measured GPUs */
    const struct lk_evidence_source *e = w->source;
    int most = 0;

    for (size_t i = 0; i < e->n_measured; i++)
        if (!isnan(e->measured[i].step_s) && e->measured[i].config.world_size > most)
            most = e->measured[i].config.world_size;
    if (!most || p->config.world_size < FAR * most || p->evidence != LK_EVIDENCE_EXTRAPOLATED)
        return LK_OK;
    return lk_forecast_say(w->out, "A run on %d GPUs would narrow this most cheaply.", 2 * most);
}

/* Answers for the point that matters most. */
static enum lk_status tell_asked(struct lk_pipeline *w)
{
    size_t at = main_point(w), outside = 0;
    const struct lk_forecast_point *p = w->out->points;
    int most = p[at].config.world_size;

    LK_PASS(lk_answer_point(w->out, at));
    for (size_t i = 0; i < w->n_points; i++)
        outside += item_of(w, i)->at.batch_extrapolation > 1;
    if (outside && w->n_points > 1)
        LK_PASS(lk_forecast_note(w->out,
                                 "%zu row%s extrapolated on local batch: not named the best",
                                 outside, outside == 1 ? " is" : "s are"));
    for (size_t i = 0; i < w->n_points; i++)
        if (!i || p[i - 1].config.world_size != p[i].config.world_size)
            LK_PASS(
                tell_fastest(w, p[i].config.world_size,
                             p[i].config.world_size == most ? lk_forecast_say : lk_forecast_note));
    LK_PASS(lk_pipeline_tell_knee(w));
    return tell_run(w, &p[at]);
}

/* ---- The best against now ---- */

static bool is_best(const struct lk_pipeline *w, size_t point)
{
    return w->out->points[point].gain.verdict == LK_VERDICT_BEST;
}

static bool is_current(const struct lk_pipeline *w, size_t point)
{
    return w->points[point].item == w->points[point].current;
}

/* Returns true if a step learns as the current one does: as many samples, exact gradients, no rank
 * that lags. */
static bool learns_the_same(const struct lk_pipeline *w, size_t point)
{
    const struct lk_config *c = &item_of(w, point)->config,
                           *current = &w->all.v[w->points[point].current].config;
    bool exact = c->grad_dtype == LK_GRAD_OWN && c->compression == LK_COMPRESSION_NONE;

    return exact && lk_config_is_synchronous(c) && lk_may_be_best(w, point) &&
           lk_config_samples(c) == lk_config_samples(current);
}

static enum lk_status tell_best_of(struct lk_pipeline *w, int world_size, size_t best, teller *tell)
{
    struct lk_forecast *f = w->out;
    const char *gpus = world_size == 1 ? "GPU" : "GPUs";
    char words[256], gain[160], others[48] = "";
    size_t ties = 0;

    for (size_t i = 0; i < w->n_points; i++)
        ties += f->points[i].config.world_size == world_size &&
                f->points[i].gain.verdict == LK_VERDICT_TIE;
    if (ties)
        snprintf(others, sizeof others, "; %zu other%s with it", ties,
                 ties == 1 ? " ties" : "s tie");
    if (is_current(w, best))
        return tell(f, "At %d %s nothing asked for is faster than the current configuration%s.",
                    world_size, gpus, others);
    describe(w, best, words, sizeof words);
    describe_gain(w, &f->points[best].gain, gain, sizeof gain);
    return tell(f, "Best at %d %s: %s: %s%s.", world_size, gpus, words, gain, others);
}

static enum lk_status tell_best(struct lk_pipeline *w, int world_size, teller *tell)
{
    struct lk_forecast *f = w->out;
    size_t n = w->n_points, best = lk_fastest(w, world_size, is_best, n), alike;
    char words[256], gain[160];

    if (best < n)
        LK_PASS(tell_best_of(w, world_size, best, tell));
    LK_PASS(note_too_large(w, world_size, best));
    alike = lk_fastest(w, world_size, learns_the_same, n);
    if (best == n || alike == n || learns_the_same(w, best))
        return LK_OK;
    if (is_current(w, alike))
        return tell(f, "With the same global batch and exact, synchronous gradients, the current "
                       "configuration is best.");
    describe(w, alike, words, sizeof words);
    describe_gain(w, &f->points[alike].gain, gain, sizeof gain);
    return tell(f, "With the same global batch and exact, synchronous gradients, best is %s: %s.",
                words, gain);
}

/* Answers for the most GPUs, and where two counts were asked for, for both; notes the others. */
static enum lk_status tell_gains(struct lk_pipeline *w)
{
    enum { SAID_MAX = 2 };
    const struct lk_axis_value *v = w->request->axes[LK_AXIS_GPUS].v;
    size_t n = w->request->axes[LK_AXIS_GPUS].n, most = 0;

    for (size_t g = 1; g < n; g++)
        most = v[g].count > v[most].count ? g : most;
    LK_PASS(tell_best(w, (int)v[most].count, lk_forecast_say));
    for (size_t g = 0; g < n; g++)
        if (v[g].count != v[most].count)
            LK_PASS(
                tell_best(w, (int)v[g].count, n <= SAID_MAX ? lk_forecast_say : lk_forecast_note));
    return LK_OK;
}

/* ---- Notes ---- */

/* An averaging that runs beside the next step's compute costs what does not fit in there. */
static enum lk_status note_schemes(const struct lk_pipeline *w)
{
    bool said[LK_SHARDING_COUNT] = {false};

    for (size_t i = 0; i < w->n_points; i++) {
        const struct lk_config *c = &item_of(w, i)->config;
        const struct lk_forecast_point *p = &w->out->points[i];
        double hidden = fmin(p->losses_s[LK_LOSS_WIRE], p->step_s / fmax(1, c->averaging_period));

        if (said[c->sharding])
            continue;
        said[c->sharding] = true;
        if (lk_sharding_traits(c->sharding)->pace == LK_PACE_FREE)
            LK_PASS(lk_forecast_warn(w->out,
                                     "%s: throughput without the barrier, each rank at its own "
                                     "pace; gradients are %d updates old on average at %d GPUs, "
                                     "and what that costs in convergence is not in the numbers",
                                     lk_sharding_name(c->sharding), c->world_size - 1,
                                     c->world_size));
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

/* Notes what the points of a comparison rest on. */
static enum lk_status note_gains(const struct lk_pipeline *w)
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

/* ---- The whole ---- */

enum lk_status lk_pipeline_tell(struct lk_pipeline *w)
{
    LK_PASS(w->request->compare ? tell_gains(w) : tell_asked(w));
    if (w->request->compare)
        LK_PASS(note_gains(w));
    if (w->no_reference)
        LK_PASS(lk_forecast_warn(w->out, "Efficiency is not known without its reference: %s",
                                 w->no_reference));
    if (w->n_refused)
        LK_PASS(lk_forecast_warn(w->out, "%zu configuration%s left out. The first: %s",
                                 w->n_refused, w->n_refused == 1 ? " is" : "s are", w->refusal));
    return LK_OK;
}
