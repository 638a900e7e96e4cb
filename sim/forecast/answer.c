/*
 * The answer of a forecast.
 *
 * Divisions: words / what does not fit / past the critical batch / the best of those asked for /
 * the best against now / the whole.
 */
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"

#include "base/units.h"
#include "facts/forecast_answer.h"
#include "sim/forecast/contradiction.h"
#include "sim/planning/economics.h"
#include "sim/planning/memory.h"
#include "sim/planning/plan.h"
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

static bool has_numbers(const struct lk_pipeline *w, size_t point)
{
    return !item_of(w, point)->hidden;
}

/* ---- Words ---- */

/* Writes the values of an axis's role that a point has: "inter bandwidth x2, gpu dgx-h100". */
void lk_pipeline_machine_words(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    const struct lk_grid_point *p = &w->points[point];
    const struct lk_change *settled = &w->all.machines[item_of(w, point)->machine].change;
    size_t at = 0;

    snprintf(out, size, "as it is");
    for (int a = 0; a < LK_AXIS_COUNT && !p->is_current; a++) {
        const struct lk_axis_value *v = &w->request->axes[a].v[p->index[a]];

        if (!w->request->axes[a].n || lk_axis_role((enum lk_axis)a) == LK_AXIS_SETTING ||
            lk_axis_without_effect((enum lk_axis)a, v, settled) || at >= size)
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s %s", at ? ", " : "",
                               lk_axis_option((enum lk_axis)a), v->text);
    }
}

static void describe(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    if (w->points[point].is_current)
        snprintf(out, size, "the current configuration");
    else
        lk_answer_config(w->out, &w->out->points[point], out, size);
}

void lk_pipeline_setting_words(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    describe(w, point, out, size);
}

/* Writes "64 GPUs with accumulation 2". */
static void describe_gpus(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    char words[LK_ANSWER_WORDS];
    int n = item_of(w, point)->config.world_size;

    lk_answer_config(w->out, &w->out->points[point], words, sizeof words);
    snprintf(out, size, "%d GPU%s%s%s", n, n == 1 ? "" : "s", *words ? " with " : "", words);
}

/* Returns how much more a sample of a point brings towards the target than one of now. */
static double worth_of(const struct lk_pipeline *w, size_t point)
{
    double noise = w->by_target ? lk_plan_noise_scale(w->source->job, w->request->plan) : INFINITY;
    const struct lk_item *now = &w->all.v[w->points[point].current];

    return lk_statistical_efficiency(lk_config_samples(&item_of(w, point)->config), noise) /
           lk_statistical_efficiency(lk_config_samples(&now->config), noise);
}

/* Writes "+22.0 % throughput (+15.0 to +30.0) against now, beyond the model's error", or by the
 * objective "+22.0 % speed to the target ...". */
static void describe_gain(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    const struct lk_gain *g = &w->out->points[point].gain;
    const struct lk_item *now = &w->all.v[w->points[point].current];
    double worth = worth_of(w, point);
    double certainty = w->by_target && !isnan(g->ratio)
                           ? lk_certainty(w, item_of(w, point), now, worth)
                           : g->certainty;
    const char *verdict = lk_is_sure(w, certainty)       ? "beyond the model's error"
                          : lk_is_sure(w, 1 - certainty) ? "surely worse"
                                                         : "within the model's error";

    if (isnan(g->ratio))
        snprintf(out, size, "no gain is known: the current configuration %s",
                 now->too_large ? "does not fit in memory" : "cannot be forecast");
    else
        snprintf(out, size, "%+.1f %% %s (%+.1f to %+.1f) against now, %s",
                 100 * (worth * g->ratio - 1), w->by_target ? "speed to the target" : "throughput",
                 100 * (worth * g->lo - 1), 100 * (worth * g->hi - 1), verdict);
}

/* ---- What does not fit ---- */

static bool is_too_large(const struct lk_pipeline *w, size_t point)
{
    return item_of(w, point)->too_large;
}

/* Writes what a GPU needs and has, and what would make it fit. */
static void describe_memory(const struct lk_pipeline *w, const struct lk_item *i,
                            struct lk_memory *m, char *out, size_t size)
{
    double device_bytes = lk_pipeline_device_bytes(w, i);
    char needs[32], has[32], with[64] = "no ZeRO stage is known to fit";
    enum lk_sharding fits;

    lk_memory_of(w->source->job, &i->config, m);
    if (lk_memory_sharding_that_fits(w->source->job, &i->config, device_bytes, &fits))
        snprintf(with, sizeof with, "with %s it would fit", lk_sharding_name(fits));
    snprintf(out, size, "a GPU needs %s and has %s; %s",
             lk_units_format(LK_DIM_BYTES, m->total.value, needs, sizeof needs),
             lk_units_format(LK_DIM_BYTES, device_bytes, has, sizeof has), with);
}

/* Adds a contradiction for a choice of which nothing fits in memory; warns of the fastest of one of
 * which something does. */
static enum lk_status check_memory(struct lk_pipeline *w, size_t choice)
{
    size_t n = w->n_points, fits = lk_fastest(w, choice, lk_may_be_best, false, n);
    size_t large = lk_fastest(w, choice, is_too_large, false, n);
    const struct lk_choice *c = &w->choices[choice];
    char words[LK_ANSWER_WORDS + 32], memory[160];
    struct lk_memory m;
    bool all = true;

    if (large == n)
        return LK_OK;
    for (size_t k = c->from; k < c->to; k++)
        all = all && (is_too_large(w, w->sorted[k]) || w->points[w->sorted[k]].is_current);
    describe_gpus(w, large, words, sizeof words);
    describe_memory(w, item_of(w, large), &m, memory, sizeof memory);
    if (all)
        return lk_forecast_contradict(w->out, LK_CONTRADICTION_MEMORY, words, "a GPU's memory",
                                      lk_pipeline_device_bytes(w, item_of(w, large)), m.total.value,
                                      "%s: does not fit in memory: %s", words, memory);
    if (fits < n && lk_pipeline_speed(w, large) < lk_pipeline_speed(w, fits))
        return LK_OK;
    return lk_forecast_warn(w->out, "What is faster does not fit in memory: %s: %s.", words,
                            memory);
}

/* ---- Past the critical batch ---- */

/* Return true if runs of the job measured the noise scale, early in training: it grows later (arXiv
 * 1812.06162), so it warns and refutes nothing. */
static bool is_noise_early(const struct lk_pipeline *w)
{
    const struct lk_plan_request *plan = w->request->plan;

    return !(plan && plan->noise_scale > 0) && w->source->job->noise_scale.n > 0;
}

/* Says that the steps of a point have more samples than the noise scale. Where a target weighs
 * that, it contradicts nothing. */
static enum lk_status check_batch(struct lk_pipeline *w, size_t point)
{
    const struct lk_job *j = w->source->job;
    double noise = j ? lk_plan_noise_scale(j, w->request->plan) : NAN, samples;
    char words[LK_ANSWER_WORDS + 32], text[160 + LK_ANSWER_WORDS], of[32], scale[32];

    if (point == w->n_points || item_of(w, point)->hidden)
        return LK_OK;
    samples = lk_config_samples(&item_of(w, point)->config);
    if (!(samples > noise))
        return LK_OK;
    describe_gpus(w, point, words, sizeof words);
    snprintf(text, sizeof text,
             "%s: past the critical batch: a step has %s samples, and the noise scale is %s", words,
             lk_answer_number(samples, of, sizeof of),
             lk_answer_number(noise, scale, sizeof scale));
    if (!w->by_target && is_noise_early(w))
        return lk_forecast_say(w->out, "%s, as the runs measured it; it grows in training.", text);
    return w->by_target ? lk_forecast_say(w->out, "%s.", text)
                        : lk_forecast_contradict(w->out, LK_CONTRADICTION_BATCH, words,
                                                 "the noise scale", samples, noise,
                                                 "%s (--target-samples would weigh it)", text);
}

/* Says that the steps of a point have more samples than any job is known to learn from by rule,
 * where nothing is known of this one. */
static enum lk_status tell_large_batch(struct lk_pipeline *w, size_t point)
{
    const struct lk_job *j = w->source->job;
    char of[32];
    double samples;

    if (point == w->n_points || item_of(w, point)->hidden ||
        (j && isfinite(lk_plan_noise_scale(j, w->request->plan))))
        return LK_OK;
    samples = lk_config_samples(&item_of(w, point)->config);
    if (item_of(w, point)->config.local_batch < 1 || !(samples > LK_RATE_GOYAL_BATCH))
        return LK_OK;
    return lk_forecast_say(
        w->out,
        "A step has %s samples, and nothing says that the job learns from so many: "
        "--noise-scale would (ImageNet's did from %d, arXiv:1706.02677).",
        lk_answer_number(samples, of, sizeof of), LK_RATE_GOYAL_BATCH);
}

/* ---- The best of those asked for ---- */

/* Returns true if all points of a choice that can be chosen have as many samples a step. */
static bool same_batch(const struct lk_pipeline *w, size_t choice)
{
    double samples = NAN;

    for (size_t k = w->choices[choice].from; k < w->choices[choice].to; k++) {
        double of = lk_config_samples(&item_of(w, w->sorted[k])->config);

        if (!lk_may_be_best(w, w->sorted[k]))
            continue;
        if (of != samples && !isnan(samples))
            return false;
        samples = of;
    }
    return true;
}

/* Writes what a choice is by: "by time to the target". */
static const char *objective(const struct lk_pipeline *w, double samples, char *out, size_t size)
{
    char number[32];

    if (w->by_target)
        snprintf(out, size, "by time to the target");
    else
        snprintf(out, size, "by throughput at %s samples a step",
                 lk_answer_number(samples, number, sizeof number));
    return out;
}

/* Says, or notes, which configuration is the best at a count that has several, and by how much. */
static enum lk_status tell_fastest(struct lk_pipeline *w, size_t choice, teller *tell)
{
    size_t n = w->n_points, best = lk_fastest(w, choice, lk_may_be_best, w->by_target, n);
    size_t next = lk_fastest(w, choice, lk_may_be_best, w->by_target, best);
    bool alike = w->by_target || same_batch(w, choice);
    char words[LK_ANSWER_WORDS], by[64];
    const struct lk_config *c;
    double sure, more;

    if (best == n || next == n)
        return LK_OK;
    c = &item_of(w, best)->config;
    sure = lk_certainty_of_points(w, best, next);
    more = lk_pipeline_speed(w, best) / lk_pipeline_speed(w, next);
    if (w->by_target)
        more *= item_of(w, best)->worth / item_of(w, next)->worth;
    lk_answer_config(w->out, &w->out->points[best], words, sizeof words);
    if (!alike)
        return tell(
            w->out,
            "Most samples/s of those asked for at %d GPU%s: %s, %.1f %% more than the next, "
            "%s the model's error (%.0f %% likely); their steps differ in samples, and so "
            "in what they learn (--noise-scale and --target-samples weigh that).",
            c->world_size, c->world_size == 1 ? "" : "s", words, 100 * (more - 1),
            lk_is_sure(w, sure) ? "beyond" : "within", 100 * sure);
    return tell(w->out,
                "Best of those asked for at %d GPU%s, %s: %s, %.1f %% faster than the next, %s the "
                "model's error (%.0f %% likely).",
                c->world_size, c->world_size == 1 ? "" : "s",
                objective(w, lk_config_samples(c), by, sizeof by), words, 100 * (more - 1),
                lk_is_sure(w, sure) ? "beyond" : "within", 100 * sure);
}

/* Returns the point that the answer is about: the best at the most GPUs that have one; n_points:
 * none has. */
static size_t main_point(const struct lk_pipeline *w)
{
    for (size_t c = w->n_choices; c-- > 0;) {
        size_t best = lk_fastest(w, c, lk_may_be_best, w->by_target, w->n_points);

        if (best == w->n_points)
            best = lk_fastest(w, c, has_numbers, false, w->n_points);
        if (best < w->n_points)
            return best;
    }
    return w->n_points;
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
    return lk_forecast_say(w->out,
                           "A run on %d GPUs would narrow this; lockstep plan --narrow %d ranks "
                           "what could be measured.",
                           2 * most, p->config.world_size);
}

/* Answers for the point that matters most. */
static enum lk_status tell_asked(struct lk_pipeline *w)
{
    size_t at = main_point(w), outside = 0;
    const struct lk_forecast_point *p = w->out->points;

    if (at == w->n_points)
        return LK_OK;
    LK_PASS(lk_answer_point(w->out, at));
    for (size_t i = 0; i < w->n_points; i++)
        outside += item_of(w, i)->at.batch_extrapolation > 1;
    if (outside && w->n_points > 1)
        LK_PASS(lk_forecast_note(w->out,
                                 "%zu row%s extrapolated on local batch: not named the best",
                                 outside, outside == 1 ? " is" : "s are"));
    for (size_t c = 0; c < w->n_choices; c++)
        LK_PASS(
            tell_fastest(w, c, c == item_of(w, at)->choice ? lk_forecast_say : lk_forecast_note));
    if (!lk_contradictions_refute(w->out))
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

/* Returns the choice of the current configuration at the count of a choice; n_choices: it has none.
 */
static size_t choice_as_is(const struct lk_pipeline *w, size_t choice)
{
    const struct lk_item *i = &w->all.v[w->points[w->sorted[w->choices[choice].from]].current];

    return i->is_point ? i->choice : w->n_choices;
}

/* Names the settings that give most samples a second where other samples or gradients count, if
 * they surely give more than the best. */
static enum lk_status tell_unlike(struct lk_pipeline *w, size_t choice, size_t best, teller *tell)
{
    size_t n = w->n_points, most = lk_fastest(w, choice, lk_may_win, false, n);
    char words[LK_ANSWER_WORDS], gain[160];

    if (most == n || lk_learns_alike(w, most) ||
        (best < n && !(lk_pipeline_speed(w, most) > lk_pipeline_speed(w, best))))
        return LK_OK;
    describe(w, most, words, sizeof words);
    describe_gain(w, most, gain, sizeof gain);
    return tell(w->out,
                "Most samples/s of all asked for at %d GPU%s, whatever a step learns: %s: %s.",
                item_of(w, most)->config.world_size,
                item_of(w, most)->config.world_size == 1 ? "" : "s", words, gain);
}

/* Returns true if a setting of as many samples a step would surely gain, but for that its batch is
 * none that was measured, so that it cannot be called best. */
static bool gains_unmeasured(const struct lk_pipeline *w, const struct lk_choice *c, double samples)
{
    for (size_t k = c->from; k < c->to; k++) {
        const struct lk_item *i = item_of(w, w->sorted[k]);
        const struct lk_gain *g = &w->out->points[w->sorted[k]].gain;

        if (i->at.batch_extrapolation > 1 && g->known && g->lo > 1 &&
            lk_config_samples(&i->config) == samples)
            return true;
    }
    return false;
}

static enum lk_status tell_best(struct lk_pipeline *w, size_t choice, teller *tell)
{
    struct lk_forecast *f = w->out;
    const struct lk_choice *c = &w->choices[choice];
    size_t n = w->n_points, best = lk_fastest(w, choice, is_best, w->by_target, n), ties = 0;
    char words[LK_ANSWER_WORDS], gain[160], others[48] = "", by[64];
    const struct lk_config *of;

    for (size_t k = c->from; k < c->to; k++)
        ties += f->points[w->sorted[k]].gain.verdict == LK_VERDICT_TIE;
    if (ties)
        snprintf(others, sizeof others, "; %zu other%s with it", ties,
                 ties == 1 ? " ties" : "s tie");
    if (best < n && c->to - c->from > 1) {
        of = &item_of(w, best)->config;
        objective(w, lk_config_samples(of), by, sizeof by);
        describe(w, best, words, sizeof words);
        describe_gain(w, best, gain, sizeof gain);
        if (is_current(w, best))
            LK_PASS(
                tell(f,
                     "At %d GPU%s no setting asked for%s is better than the current "
                     "configuration %s%s.",
                     of->world_size, of->world_size == 1 ? "" : "s",
                     gains_unmeasured(w, c, lk_config_samples(of)) ? " with a measured batch" : "",
                     by, others));
        else
            LK_PASS(tell(f, "Best setting at %d GPU%s %s: %s: %s%s.", of->world_size,
                         of->world_size == 1 ? "" : "s", by, words, gain, others));
    }
    return w->by_target ? LK_OK : tell_unlike(w, choice, best, tell);
}

/* Says what the machines of a count bring, and what is broken costs, against the machine as it is.
 */
static enum lk_status tell_machines(struct lk_pipeline *w, const struct lk_gains *gains,
                                    int world_size, teller *tell)
{
    enum { TOLD_MAX = 4 };
    const char *gpus = world_size == 1 ? "" : "s";
    size_t told = 0;

    for (size_t i = 0; i < gains->n_machines; i++) {
        const struct lk_machine_gain *m = &gains->machines[i];
        const struct lk_gain *g = &m->gain;

        if (m->world_size != world_size)
            continue;
        if (told++ == TOLD_MAX)
            return tell(w->out, "The table \"machines\" has the others.");
        if (m->is_damage && g->ratio < 1)
            LK_PASS(tell(w->out, "At %d GPU%s %s costs %.1f %% of the throughput (%.1f to %.1f).",
                         world_size, gpus, m->machine, 100 * (1 - g->ratio), 100 * (1 - g->hi),
                         100 * (1 - g->lo)));
        else
            LK_PASS(tell(w->out, "At %d GPU%s %s brings %+.1f %% throughput (%+.1f to %+.1f).",
                         world_size, gpus, m->machine, 100 * (g->ratio - 1), 100 * (g->lo - 1),
                         100 * (g->hi - 1)));
    }
    return LK_OK;
}

static bool is_another(const struct lk_pipeline *w, size_t point)
{
    return !is_current(w, point) && !is_too_large(w, point);
}

/* Says what the fastest setting of a choice brings against the current configuration on the machine
 * as it is, where both the setting and the machine are others. */
static enum lk_status tell_elsewhere(struct lk_pipeline *w, size_t choice)
{
    size_t point = lk_fastest(w, choice, is_another, w->by_target, w->n_points);
    char words[LK_ANSWER_WORDS], gain[160];
    int n;

    if (point == w->n_points)
        return LK_OK;
    n = item_of(w, point)->config.world_size;
    describe(w, point, words, sizeof words);
    describe_gain(w, point, gain, sizeof gain);
    return lk_forecast_say(w->out, "At %d GPU%s %s: %s.", n, n == 1 ? "" : "s", words, gain);
}

/* Answers for the most GPUs, and where two counts were asked for, for both; notes the others. */
static enum lk_status tell_gains(struct lk_pipeline *w, const struct lk_gains *gains)
{
    enum { SAID_MAX = 2 };
    size_t counts = w->request->axes[LK_AXIS_GPUS].n;
    bool first = true;

    for (size_t c = w->n_choices; c-- > 0;) {
        teller *tell = first || counts <= SAID_MAX ? lk_forecast_say : lk_forecast_note;
        int world_size = item_of(w, w->sorted[w->choices[c].from])->config.world_size;

        if (choice_as_is(w, c) != c)
            continue;
        LK_PASS(tell_best(w, c, tell));
        LK_PASS(tell_machines(w, gains, world_size, tell));
        first = false;
    }
    for (size_t c = w->n_choices, untold = !w->out->n_answer; c-- > 0 && untold;)
        if (w->out->n_answer < SAID_MAX)
            LK_PASS(tell_elsewhere(w, c));
    if (!lk_contradictions_refute(w->out))
        LK_PASS(lk_pipeline_tell_knee(w));
    if (!w->out->n_answer && !w->out->n_contradictions && !w->n_refused)
        LK_PASS(lk_forecast_say(w->out, "Nothing asked for changes a step: it is the current "
                                        "configuration on the machine as it is."));
    return LK_OK;
}

/* ---- The whole ---- */

/* Finds what contradicts the points, and says all contradictions first. */
static enum lk_status tell_contradictions(struct lk_pipeline *w)
{
    struct lk_forecast *f = w->out;

    for (size_t c = 0; c < w->n_choices && !w->request->goal; c++)
        LK_PASS(check_memory(w, c));
    if (!w->request->goal)
        LK_PASS(check_batch(w, main_point(w)));
    return lk_contradictions_tell(f, w->request->anyway);
}

enum lk_status lk_pipeline_tell(struct lk_pipeline *w, const struct lk_gains *gains)
{
    LK_PASS(tell_contradictions(w));
    LK_PASS(lk_pipeline_note_mixes(w));
    if (w->request->goal) {
        LK_PASS(lk_goal_tell(w, &gains->goal));
        return gains->goal.n_reach ? tell_large_batch(w, gains->goal.fastest) : LK_OK;
    }
    LK_PASS(w->request->compare ? tell_gains(w, gains) : tell_asked(w));
    LK_PASS(tell_large_batch(w, main_point(w)));
    if (w->request->compare)
        LK_PASS(lk_pipeline_note_gains(w));
    if (w->no_reference)
        LK_PASS(lk_forecast_warn(w->out, "Efficiency is not known without its reference: %s",
                                 w->no_reference));
    if (w->n_refused)
        LK_PASS(lk_forecast_say(w->out, "%zu configuration%s left out. The first: %s.",
                                w->n_refused, w->n_refused == 1 ? " is" : "s are", w->refusal));
    return LK_OK;
}
