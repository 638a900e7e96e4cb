/* Answers in sentences; see the header. */
#include "facts/forecast_answer.h"

#include "base/array.h"
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 32 };

/* An interval is one-sided where one end is so many times farther off than the other. */
static const double ONE_SIDED = 100;

/* A count of fewer GPUs is named as the faster one only if it is so by more than this. */
static const double FASTER = 1.01;

/* ---- Words ---- */

const char *lk_answer_number(double v, char *out, size_t size)
{
    const bool counts = v == floor(v) && v < 1e6;
    double unit = v > 0 && !counts ? pow(10, floor(log10(v)) - 2) : 1;
    char digits[64];
    size_t n, at = 0;

    if (!(v >= 999.5) || v > 1e15) {
        snprintf(out, size, "%.3g", v);
        return out;
    }
    n = (size_t)snprintf(digits, sizeof digits, "%.0f", round(v / unit) * unit);
    for (size_t i = 0; i < n && at + 2 < size; i++) {
        if (i && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *lk_answer_percent(double ratio, char *out, size_t size)
{
    double v = 100 * ratio;

    snprintf(out, size, "%.*f", fabs(v) < 9.95 && v != floor(v), v);
    return out;
}

/* Write "16.1 ms a step (14.0 to 30.8)", with the unit at each number where they differ. An end
 * that is the estimate is said to be the limit that it is: what is not known hides behind compute,
 * and can only lengthen the step. */
static const char *interval(enum lk_dimension dim, double v, double lo, double hi, char *out,
                            size_t size)
{
    char value[NUMBER_BYTES], from[NUMBER_BYTES], to[NUMBER_BYTES];
    const char *unit, *side;

    lk_units_format(dim, v, value, sizeof value);
    lk_units_format(dim, lo, from, sizeof from);
    lk_units_format(dim, hi, to, sizeof to);
    side = hi - v > ONE_SIDED * (v - lo)   ? "; no less: what is not known can only lengthen it"
           : v - lo > ONE_SIDED * (hi - v) ? "; no more: what is not known can only shorten it"
                                           : "";
    unit = strchr(value, ' ');
    if (unit && strchr(from, ' ') && strchr(to, ' ') && !strcmp(unit, strchr(from, ' ')) &&
        !strcmp(unit, strchr(to, ' ')))
        *strchr(from, ' ') = *strchr(to, ' ') = '\0';
    snprintf(out, size, "%s a step (%s to %s%s)", value, from, to, side);
    return out;
}

/* Two points on as many GPUs can differ in these, beside the axes of a what-if. */
enum part { LOCAL_BATCH, ACCUMULATION, BUCKET_CAP, PARTS };

static bool part_differs(const struct lk_config *a, const struct lk_config *b, enum part part)
{
    switch (part) {
    case LOCAL_BATCH:
        return a->local_batch != b->local_batch && !*b->batches; /* which an axis says */
    case ACCUMULATION:
        return a->accumulation != b->accumulation;
    case BUCKET_CAP:
        return a->cap_bytes != b->cap_bytes;
    case PARTS:
        break;
    }
    return false;
}

static void write_part(const struct lk_config *c, enum part part, char *out, size_t size)
{
    char cap[NUMBER_BYTES];

    if (part == LOCAL_BATCH)
        snprintf(out, size, "local batch %d", c->local_batch);
    else if (part == ACCUMULATION)
        snprintf(out, size, "accumulation %d", c->accumulation);
    else
        snprintf(out, size, "bucket cap %s",
                 lk_units_format(LK_DIM_BYTES, (double)c->cap_bytes, cap, sizeof cap));
}

/* Write "grad dtype bfloat16": the column's name in words, and the value. */
static void write_axis(const char *column, const char *value, char *out, size_t size)
{
    snprintf(out, size, "%s %s", column, value);
    for (size_t i = 0; i < strlen(column) && i < size; i++)
        out[i] = out[i] == '_' ? ' ' : out[i];
}

/* Return true if another point on as many GPUs differs in a part, or on axis `part - PARTS`. */
static bool differs(const struct lk_forecast *f, const struct lk_forecast_point *p, size_t part)
{
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *o = &f->points[i];

        if (o->config.world_size == p->config.world_size &&
            (part < PARTS ? part_differs(&o->config, &p->config, (enum part)part)
                          : strcmp(o->words[part - PARTS], p->words[part - PARTS]) != 0))
            return true;
    }
    return false;
}

const char *lk_answer_config(const struct lk_forecast *f, const struct lk_forecast_point *p,
                             char *out, size_t size)
{
    size_t at = 0;

    *out = '\0';
    for (size_t part = 0; part < PARTS + f->n_axes && at < size; part++) {
        char word[2 * LK_FORECAST_WORD_BYTES];

        if (!differs(f, p, part))
            continue;
        if (part < PARTS)
            write_part(&p->config, (enum part)part, word, sizeof word);
        else if (*p->words[part - PARTS])
            write_axis(f->axes[part - PARTS], p->words[part - PARTS], word, sizeof word);
        else
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", word);
    }
    return out;
}

/* ---- A point ---- */

/* Return true if an efficiency tells something: it is known, and not that of the reference. */
static bool has_efficiency(const struct lk_forecast_point *p)
{
    return !isnan(p->efficiency) && !(p->efficiency_lo == 1 && p->efficiency_hi == 1);
}

/* Write "of linear scaling from 1 GPU": what an efficiency refers to. */
static void write_reference(const struct lk_forecast *f, char *out, size_t size)
{
    const char *reference = f->reference ? f->reference : "";
    bool strong = strstr(reference, "global batch") != NULL;

    snprintf(out, size, "of linear scaling%s%.*s%s", *reference ? " from " : "",
             (int)strcspn(reference, ","), reference, strong ? " at a fixed global batch" : "");
}

/* Write "; most is lost to blocking communication, 8.0 % of the step", or nothing. */
static void write_loss(const struct lk_forecast_point *p, char *out, size_t size)
{
    enum lk_loss loss = lk_forecast_largest_loss(p);
    char share[NUMBER_BYTES];

    *out = '\0';
    if (loss != LK_LOSS_IDEAL && has_efficiency(p))
        snprintf(out, size, "; most is lost to %s, %s %% of the step", lk_loss_name(loss),
                 lk_answer_percent(p->losses_s[loss] / p->step_s, share, sizeof share));
}

static enum lk_status say_headline(struct lk_forecast *f, const struct lk_forecast_point *p)
{
    char words[LK_ANSWER_WORDS], step[6 * NUMBER_BYTES], rate[NUMBER_BYTES], reference[128];
    char value[NUMBER_BYTES], lo[NUMBER_BYTES], hi[NUMBER_BYTES], gpus[LK_ANSWER_WORDS + 64];
    char loss[128];
    bool one = p->config.world_size == 1;

    lk_answer_config(f, p, words, sizeof words);
    snprintf(gpus, sizeof gpus, "%d GPU%s%s%s", p->config.world_size, one ? "" : "s",
             *words ? " with " : "", words);
    lk_answer_number(p->throughput_per_s, rate, sizeof rate);
    interval(LK_DIM_TIME, p->step_s, p->step_lo_s, p->step_hi_s, step, sizeof step);
    if (!has_efficiency(p))
        return lk_forecast_say(f, "%s take%s %s: %s samples/s.", gpus, one ? "s" : "", step, rate);
    write_reference(f, reference, sizeof reference);
    write_loss(p, loss, sizeof loss);
    return lk_forecast_say(f, "%s reach%s %s %% %s (%s to %s): %s, %s samples/s%s.", gpus,
                           one ? "es" : "", lk_answer_percent(p->efficiency, value, sizeof value),
                           reference, lk_answer_percent(p->efficiency_lo, lo, sizeof lo),
                           lk_answer_percent(p->efficiency_hi, hi, sizeof hi), step, rate, loss);
}

/* Say that fewer GPUs are faster, if they are. */
static enum lk_status say_faster(struct lk_forecast *f, const struct lk_forecast_point *p)
{
    const struct lk_forecast_point *best = p;
    char rate[NUMBER_BYTES];

    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].throughput_per_s > FASTER * best->throughput_per_s &&
            f->points[i].config.world_size < p->config.world_size)
            best = &f->points[i];
    if (best == p)
        return LK_OK;
    return lk_forecast_say(f, "Fewer are faster: %d GPU%s, with %s samples/s.",
                           best->config.world_size, best->config.world_size == 1 ? "" : "s",
                           lk_answer_number(best->throughput_per_s, rate, sizeof rate));
}

/* Write "; held-out runs: 4 of 4 inside the 90 % interval, mean error 3.6 %", or nothing. */
static void write_held_out(const struct lk_forecast *f, char *out, size_t size)
{
    double sum = 0;
    size_t inside = 0;

    *out = '\0';
    for (size_t i = 0; i < f->n_backtests; i++) {
        const struct lk_backtest *b = &f->backtests[i];

        sum += fabs(b->predicted_s / b->measured_s - 1);
        inside += b->measured_s >= b->lo_s && b->measured_s <= b->hi_s;
    }
    if (f->n_backtests)
        snprintf(out, size,
                 "; held-out runs: %zu of %zu inside the %.0f %% interval, mean error %.1f %%",
                 inside, f->n_backtests, 100 * f->level, 100 * sum / (double)f->n_backtests);
}

static enum lk_status say_evidence(struct lk_forecast *f, const struct lk_forecast_point *p)
{
    char held_out[128];

    write_held_out(f, held_out, sizeof held_out);
    switch (p->evidence) {
    case LK_EVIDENCE_PRESET:
        return lk_forecast_say(f, "Evidence: datasheet numbers of %s%s%s.", f->cluster,
                               p->reach_text, held_out);
    case LK_EVIDENCE_INTERPOLATED:
        return lk_forecast_say(f, "Evidence: between measured configurations%s.", held_out);
    case LK_EVIDENCE_EXTRAPOLATED:
    case LK_EVIDENCE_MEASURED:
    case LK_EVIDENCE_NONE:
        break;
    }
    return lk_forecast_say(f, "Evidence: %s%s.",
                           *p->evidence_text ? p->evidence_text : lk_evidence_name(p->evidence),
                           held_out);
}

enum lk_status lk_answer_point(struct lk_forecast *f, size_t at)
{
    const struct lk_forecast_point *p = &f->points[at];

    LK_PASS(say_headline(f, p));
    LK_PASS(say_faster(f, p));
    return say_evidence(f, p);
}
