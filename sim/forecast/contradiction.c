/*
 * Contradictions.
 *
 * Divisions: trials / sentences.
 */
#include "sim/forecast/contradiction.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"
#include "sim/planning/memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A measured step is shorter than the least by more than this share. */
static const double SHORTER = 0.02;
/* One true forecast in so many is refuted by its back-tests. */
static const double CHANCE = 1.0 / 20;
/* One held-out run alone refutes outside the interval of this level, to which the forecast's is
 * widened as of a normal error, and off by this factor, beyond what labs, days and noise do. */
static const double WIDE = 0.99, FAR = 1.5;
/* The rows speak against the step model below these odds to the law. */
static const double ODDS = 1e-4;

enum { TIME_BYTES = 32 };

/* ---- Trials ---- */

double lk_at_most(size_t k, size_t n, double p)
{
    double sum = 0, term = pow(1 - p, (double)n);

    for (size_t i = 0; i <= k && i <= n; i++) {
        sum += term;
        term *= (double)(n - i) / (double)(i + 1) * p / (1 - p);
    }
    return fmin(1, sum);
}

/* Sets the model's least step of a measured configuration; 0: not known, or it was not measured. */
static enum lk_status bound_of(const struct lk_trial *t, const struct lk_measured *m, double *out_s)
{
    struct lk_prediction p = {0};
    enum lk_status st = LK_EEVIDENCE;

    if (!isnan(m->step_s))
        st = t->source->ops->at(t->source->self, &m->config, &p);
    *out_s = st == LK_OK ? p.bound_s : 0;
    lk_prediction_fini(&p);
    return st == LK_EEVIDENCE ? LK_OK : st;
}

/* Tries the measured steps against the least ones, and tells the one that is furthest below. */
static enum lk_status try_bounds(const struct lk_trial *t, const char *model,
                                 struct lk_forecast *out)
{
    const struct lk_measured *worst = NULL;
    char measured[TIME_BYTES], least[TIME_BYTES];
    double most = 1 + SHORTER, bound_s, worst_s = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->source->n_measured; i++) {
        const struct lk_measured *m = &t->source->measured[i];

        LK_PASS(bound_of(t, m, &bound_s));
        n += bound_s > (1 + SHORTER) * m->step_s;
        if (!(bound_s > most * m->step_s))
            continue;
        most = bound_s / m->step_s;
        worst_s = bound_s;
        worst = m;
    }
    if (!worst)
        return LK_OK;
    return lk_forecast_contradict(
        out, LK_CONTRADICTION_BOUND, model, t->by, worst->step_s, worst_s,
        "%d GPU%s on %d node%s take%s %s a step as measured, and at least %s by its links and "
        "compute%s",
        worst->config.world_size, worst->config.world_size == 1 ? "" : "s", worst->config.nodes,
        worst->config.nodes == 1 ? "" : "s", worst->config.world_size == 1 ? "s" : "",
        lk_units_format(LK_DIM_TIME, worst->step_s, measured, sizeof measured),
        lk_units_format(LK_DIM_TIME, worst_s, least, sizeof least),
        n > 1 ? " (other counts likewise)" : "");
}

/* Tells the first configuration that ran with more memory than its GPU has. */
static enum lk_status try_memory(const struct lk_trial *t, const char *model,
                                 struct lk_forecast *out)
{
    const struct lk_evidence_source *e = t->source;
    char needs[32], has[32];

    for (size_t i = 0; i < e->n_measured && e->job; i++) {
        const struct lk_config *c = &e->measured[i].config;
        struct lk_memory m;

        if (isnan(e->measured[i].step_s))
            continue;
        lk_memory_of(e->job, c, &m);
        if (m.total.lo > t->device_bytes)
            return lk_forecast_contradict(
                out, LK_CONTRADICTION_MEMORY_OF_RUN, model, t->by, t->device_bytes, m.total.lo,
                "%d GPU%s ran it, and each would need %s at the least and has %s", c->world_size,
                c->world_size == 1 ? "" : "s",
                lk_units_format(LK_DIM_BYTES, m.total.lo, needs, sizeof needs),
                lk_units_format(LK_DIM_BYTES, t->device_bytes, has, sizeof has));
    }
    return LK_OK;
}

/* Returns true if a back-test's run is off by more than FAR, and outside its interval widened to
 * WIDE. */
static bool is_far(const struct lk_backtest *b, double level)
{
    double times =
        lk_stats_normal_quantile((1 + WIDE) / 2) / lk_stats_normal_quantile((1 + level) / 2);
    double off = log(b->measured_s / b->predicted_s);

    return fabs(off) > log(FAR) && (off < fmax(1, times) * log(b->lo_s / b->predicted_s) ||
                                    off > fmax(1, times) * log(b->hi_s / b->predicted_s));
}

static enum lk_status try_backtests(const struct lk_trial *t, const char *model,
                                    struct lk_forecast *out)
{
    size_t n = out->n_backtests, inside = 0;
    double error = 0;

    for (size_t i = 0; i < n; i++) {
        const struct lk_backtest *b = &out->backtests[i];

        inside += b->measured_s >= b->lo_s && b->measured_s <= b->hi_s;
        error += fabs(b->predicted_s / b->measured_s - 1) / (double)n;
    }
    if (lk_at_most(inside, n, out->level) < CHANCE)
        return lk_forecast_contradict(
            out, LK_CONTRADICTION_BACKTESTS, model, t->by, (double)inside, (double)n,
            "%zu of %zu held-out runs %s inside the %.0f %% interval, mean error %.0f %%", inside,
            n, inside == 1 ? "is" : "are", 100 * out->level, 100 * error);
    for (size_t i = 0; i < n; i++) {
        const struct lk_backtest *b = &out->backtests[i];
        char measured[TIME_BYTES], predicted[TIME_BYTES];

        if (is_far(b, out->level))
            return lk_forecast_contradict(
                out, LK_CONTRADICTION_INTERVAL, model, t->by, b->measured_s, b->predicted_s,
                "%s: %s was measured and %s predicted, which is outside the %.0f %% interval",
                b->what, lk_units_format(LK_DIM_TIME, b->measured_s, measured, sizeof measured),
                lk_units_format(LK_DIM_TIME, b->predicted_s, predicted, sizeof predicted),
                100 * WIDE);
    }
    return LK_OK;
}

enum lk_status lk_trial_hold(const struct lk_trial *t, struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    char *model = NULL;

    LK_TRY(t->is_law ? lk_strdup(&model, "the scaling law")
                     : lk_asprintf(&model, "the step model of %s", t->source->cluster->name));
    LK_TRY(try_bounds(t, model, out));
    LK_TRY(try_backtests(t, model, out));
    if (t->odds < ODDS)
        LK_TRY(lk_forecast_contradict(out, LK_CONTRADICTION_ODDS, model, t->by, t->odds, ODDS,
                                      "its odds to the scaling law are %.2g by the measured steps",
                                      t->odds));
    if (!t->is_law)
        LK_TRY(try_memory(t, model, out));
out:
    free(model);
    return st;
}

/* ---- Sentences ---- */

/* Returns true if the kind is of a model; the others are of what is asked for. */
static bool of_model(const struct lk_contradiction *c)
{
    return c->kind < LK_CONTRADICTION_MEMORY;
}

bool lk_contradictions_refute(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_contradictions; i++)
        if (of_model(&f->contradictions[i]) && !f->contradictions[i].instead)
            return true;
    return false;
}

bool lk_contradictions_of_model(const struct lk_forecast *f)
{
    return f->n_contradictions && of_model(&f->contradictions[0]);
}

enum lk_status lk_contradictions_answer(struct lk_forecast *f, const char *instead)
{
    for (size_t i = 0; i < f->n_contradictions; i++)
        if (!f->contradictions[i].instead)
            LK_PASS(lk_strdup(&f->contradictions[i].instead, instead));
    return LK_OK;
}

void lk_contradictions_unanswered(struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_contradictions; i++) {
        free(f->contradictions[i].instead);
        f->contradictions[i].instead = NULL;
    }
}

/* Appends "; SAYS" to a text. */
static enum lk_status append(char **text, const char *says)
{
    char *longer;

    LK_PASS(lk_asprintf(&longer, "%s; %s", *text, says));
    free(*text);
    *text = longer;
    return LK_OK;
}

static const char next[] = "Is it this machine, and are gradients, batch and GPUs of a node this "
                           "job's?";

/* Says the contradictions of what contradiction `first` refutes. */
static enum lk_status tell(struct lk_forecast *f, size_t first, bool anyway)
{
    enum lk_status st = LK_OK;
    const struct lk_contradiction *c = &f->contradictions[first];
    char *text = NULL;

    LK_TRY(lk_strdup(&text, c->says));
    for (size_t i = first + 1; i < f->n_contradictions; i++)
        if (!strcmp(f->contradictions[i].refuted, c->refuted))
            LK_TRY(append(&text, f->contradictions[i].says));
    if (!of_model(c))
        LK_TRY(lk_forecast_say(f, "%s.", text));
    else if (c->instead)
        LK_TRY(lk_forecast_say(f, "By %s, as %s contradicts %s: %s. %s", c->instead, c->by,
                               c->refuted, text, next));
    else
        LK_TRY(lk_forecast_say(f, "%s: %s contradicts %s: %s. %s%s",
                               anyway ? "By what is contradicted" : "No forecast", c->by,
                               c->refuted, text, next,
                               anyway ? "" : " --anyway shows its numbers."));
out:
    free(text);
    return st;
}

/* Returns true if no contradiction before number i refutes the same. */
static bool is_first(const struct lk_forecast *f, size_t i)
{
    size_t k = 0;

    while (strcmp(f->contradictions[k].refuted, f->contradictions[i].refuted) != 0)
        k++;
    return k == i;
}

enum lk_status lk_contradictions_tell(struct lk_forecast *f, bool anyway)
{
    for (size_t i = 0; i < f->n_contradictions; i++)
        if (is_first(f, i))
            LK_PASS(tell(f, i, anyway));
    return LK_OK;
}

size_t lk_contradictions_told(const struct lk_forecast *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_contradictions; i++)
        n += is_first(f, i);
    return n;
}
