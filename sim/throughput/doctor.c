/* The doctor weighs causes. Divisions: causes / weights / interface. */
#include "base/array.h"
#include "sim/throughput/doctor_impl.h"
#include "sim/throughput/step_prior.h"

#include <math.h>
#include <stdlib.h>

/* A GPU reaches PEAK_SHARE of its peak, known to PEAK_SD (of ln): between training in full
 * precision and large multiplications in bfloat16. Assumed. */
static const double PEAK_SHARE = 0.2, PEAK_SD = 0.7;
/* A cause that makes the step of the most GPUs longer by less explains nothing that one asks for.
 */
static const double LEAST_EFFECT = 0.05;
/* Who asks has seen a loss: it is as many times as likely that a job loses nothing to scaling, with
 * nothing wrong, as that it is asked of with a loss. Assumed. */
static const double LOSES_NOTHING = 0.2;

/* ---- Causes ---- */

static const struct {
    const char *name, *text;
} causes[] = {
#define CAUSE_(cause, name, text, drawn) [cause] = {name, text},
    LK_CAUSE_LIST(CAUSE_)
#undef CAUSE_
};

const char *lk_cause_name(enum lk_cause c)
{
    return causes[c].name;
}

const char *lk_cause_text(enum lk_cause c)
{
    return causes[c].text;
}

static bool is_possible(const struct doctor *w, enum lk_cause c)
{
    if (c == LK_CAUSE_SYNC)
        return w->most->trial.config.accumulation > 1;
    return c != LK_CAUSE_NODES || w->most->trial.config.nodes > 1;
}

/* ---- Weights ---- */

static double peak_share(const struct doctor *w, const struct doctor_draw *d)
{
    return w->q->flops_per_sample * d->batch * w->least->trial.config.local_batch / d->compute_s /
           w->q->peak_flops;
}

static double weight_of_peak(const struct doctor *w, const struct doctor_draw *d)
{
    double share = peak_share(w, d), z = log(share / PEAK_SHARE) / PEAK_SD;

    if (isnan(share))
        return 1;
    return share > 1 ? 0 : exp(-z * z / 2);
}

/* Set the rate of most GPUs with nothing wrong. */
static enum lk_status healthy_rate(const struct doctor *w, const struct doctor_draw *d, double *out)
{
    const struct doctor_draw h = doctor_draw_healthy(d);
    double told[LK_MEASURE_COUNT];

    LK_PASS(doctor_predict(w, &h, &w->most->trial, told));
    *out = told[LK_MEASURE_RATE];
    return LK_OK;
}

/* Weigh a draw by a row; the rate of fewest GPUs is met by all draws. */
static enum lk_status weigh_row(const struct doctor *w, const struct lk_doctor_row *r,
                                struct doctor_draw *d)
{
    double told[LK_MEASURE_COUNT];

    LK_PASS(doctor_predict(w, d, &r->trial, told));
    for (int m = 0; m < LK_MEASURE_COUNT; m++)
        if (!isnan(r->measured[m]) && !isnan(told[m]) && (r != w->least || m != LK_MEASURE_RATE))
            d->weight *= doctor_likelihood(doctor_scaled(w, (enum lk_measure)m, r->measured[m]) -
                                           doctor_scaled(w, (enum lk_measure)m, told[m]));
    return LK_OK;
}

/* Return how likely a draw is before more is known than the rate of fewest GPUs. A cause has to
 * make the step of most GPUs longer; where nothing is wrong, communication has to. */
static enum lk_status weight_of_effect(const struct doctor *w, enum lk_cause c,
                                       const struct doctor_draw *d, double *out)
{
    const struct lk_config *most = &w->most->trial.config, *least = &w->least->trial.config;
    double told[LK_MEASURE_COUNT], without = w->least->measured[LK_MEASURE_RATE] * exp(d->noise) /
                                             least->world_size * most->world_size;

    LK_PASS(doctor_predict(w, d, &w->most->trial, told));
    if (c != LK_CAUSE_NONE)
        LK_PASS(healthy_rate(w, d, &without));
    *out = without > (1 + LEAST_EFFECT) * told[LK_MEASURE_RATE] ? 1
           : c == LK_CAUSE_NONE                                 ? LOSES_NOTHING
                                                                : 0;
    return LK_OK;
}

/* Weigh a draw of a cause, or, where c is NONE, of none. */
static enum lk_status weigh(const struct doctor *w, enum lk_cause c, struct doctor_draw *d)
{
    double effect;

    LK_PASS(doctor_draw_meet(w, d));
    d->weight = d->compute_s > 0 ? weight_of_peak(w, d) : 0;
    if (d->weight > 0) {
        LK_PASS(weight_of_effect(w, c, d, &effect));
        d->weight *= effect;
    }
    for (size_t i = 0; i < w->q->n_rows && d->weight > 0; i++)
        LK_PASS(weigh_row(w, &w->q->rows[i], d));
    return LK_OK;
}

static enum lk_status weigh_all(struct doctor *w, struct lk_diagnosis *out)
{
    double all = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        double sum = 0, size = 0;

        out->size[c] = NAN;
        if (!is_possible(w, (enum lk_cause)c))
            continue;
        LK_PASS(lk_alloc(&w->draws[c], w->q->draws, sizeof *w->draws[c]));
        for (size_t i = 0; i < w->q->draws; i++) {
            struct doctor_draw *d = &w->draws[c][i];

            *d = doctor_draw_make(w, (enum lk_cause)c, i);
            LK_PASS(weigh(w, (enum lk_cause)c, d));
            sum += d->weight;
            size += d->weight * d->size;
        }
        w->mean_weight[c] = out->odds[c] = sum / (double)w->q->draws;
        out->size[c] = sum > 0 ? size / sum : NAN;
        all += out->odds[c];
    }
    if (!(all > 0))
        return lk_fail(LK_EEVIDENCE, "no cause explains these rates: is a row of another batch, or "
                                     "are rates of single GPUs among rates of all?");
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        out->odds[c] /= all;
    return LK_OK;
}

/* Set the rate that nothing wrong would give, whatever was measured of more GPUs. */
static enum lk_status set_expected(const struct doctor *w, struct lk_diagnosis *out)
{
    double sum = 0, weights = 0, share = 0;

    for (size_t i = 0; i < w->q->draws; i++) {
        const struct doctor_draw *d = &w->draws[LK_CAUSE_NONE][i];
        double weight = d->compute_s > 0 ? weight_of_peak(w, d) : 0, rate;

        if (!(weight > 0))
            continue;
        LK_PASS(healthy_rate(w, d, &rate));
        sum += weight * log(rate);
        share += weight * peak_share(w, d);
        weights += weight;
    }
    out->expected = exp(sum / weights);
    out->peak_share = share / weights;
    return LK_OK;
}

/* ---- Interface ---- */

struct lk_doctor_row lk_doctor_row_of(const struct lk_trial *trial, double rate)
{
    struct lk_doctor_row r = {.trial = *trial};

    for (int m = 0; m < LK_MEASURE_COUNT; m++)
        r.measured[m] = NAN;
    r.measured[LK_MEASURE_RATE] = rate;
    return r;
}

static bool is_plain(const struct lk_trial *t)
{
    return !t->no_sync && !t->synthetic && !t->apart;
}

const struct lk_doctor_row *lk_doctor_end(const struct lk_doctor_question *q, bool most)
{
    const struct lk_doctor_row *found = NULL;

    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lk_doctor_row *r = &q->rows[i];
        int by = found ? LK_ORDER(r->trial.config.world_size, found->trial.config.world_size) : 0;

        if (is_plain(&r->trial) && !isnan(r->measured[LK_MEASURE_RATE]) &&
            (!found || (most ? by > 0 : by < 0)))
            found = r;
    }
    return found;
}

static enum lk_status find_ends(const struct lk_doctor_question *q, struct doctor *w)
{
    w->least = lk_doctor_end(q, false);
    w->most = lk_doctor_end(q, true);
    if (!w->least || w->least->trial.config.world_size == w->most->trial.config.world_size)
        return lk_fail(LK_EUSAGE, "a loss shows in rates of two counts of GPUs or more, e.g. of 1 "
                                  "and of 8");
    w->step_s = lk_config_samples(&w->most->trial.config) / w->most->measured[LK_MEASURE_RATE];
    return LK_OK;
}

enum lk_status lk_doctor(const struct lk_doctor_question *q, struct lk_diagnosis *out)
{
    enum lk_status st = LK_OK;
    struct doctor w = {.q = q};
    struct lk_diagnosis d = {0};

    LK_TRY(find_ends(q, &w));
    LK_TRY(lk_step_prior_create(q->job, false, q->cluster, q->draws, q->seed, &w.prior));
    LK_TRY(weigh_all(&w, &d));
    LK_TRY(set_expected(&w, &d));
    LK_TRY(doctor_judge(&w, &d));
    *out = d;
out:
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        free(w.draws[c]);
    lk_step_prior_destroy(w.prior);
    return st;
}

enum lk_cause lk_diagnosis_first(const struct lk_diagnosis *d, bool *tells)
{
    int first = 0, next = -1;

    for (int c = 1; c < LK_CAUSE_COUNT; c++)
        if (d->odds[c] > d->odds[first])
            first = c;
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        if (c != first && (next < 0 || d->odds[c] > d->odds[next]))
            next = c;
    *tells = d->odds[first] > 0.5 && d->odds[first] >= 1.5 * d->odds[next];
    return (enum lk_cause)first;
}
