/* Scores of forecasts. */
#include "facts/score.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Level of the Wilson interval of the coverage, whatever the forecasts' own level is. */
static const double SHARE_LEVEL = 0.90;

double lk_score_interval(double measured, double lo, double hi, double level)
{
    double y = log(measured), a = log(lo), b = log(hi);

    return b - a + 2 / (1 - level) * (fmax(0, a - y) + fmax(0, y - b));
}

enum lk_status lk_score_errors_of(const double *measured, const double *predicted, size_t n,
                                  struct lk_score_errors *out)
{
    enum lk_status st = LK_OK;
    double *errors = NULL;
    struct lk_score_errors e = {0, NAN, NAN, NAN};

    LK_TRY(lk_alloc(&errors, n, sizeof *errors));
    for (size_t i = 0; i < n; i++) {
        double error = fabs(predicted[i] / measured[i] - 1);

        if (isfinite(error))
            errors[e.n++] = error;
    }
    if (e.n) {
        e.mean = lk_stats_mean(errors, e.n);
        e.median = lk_stats_median(errors, e.n); /* sorts */
        e.worst = errors[e.n - 1];
    }
    *out = e;
out:
    free(errors);
    return st;
}

static bool has_interval(const struct lk_scored *v)
{
    return isfinite(v->predicted) && isfinite(v->lo) && isfinite(v->hi);
}

/* Score the rival intervals predicted x exp(+-c). off: |ln(measured / predicted)|, sorted. */
static void score_constant(const double *off, struct lk_score *s)
{
    double c = s->inside ? off[s->inside - 1] : 0, sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += 2 * c + 2 / (1 - s->level) * fmax(0, off[i] - c);
    s->constant_width = 2 * c;
    s->constant_score = sum / (double)s->n;
}

static enum lk_status score_intervals(const struct lk_scored *v, size_t n, struct lk_score *s)
{
    enum lk_status st = LK_OK;
    double *off = NULL, width = 0, score = 0;

    LK_TRY(lk_alloc(&off, n, sizeof *off));
    for (size_t i = 0; i < n; i++) {
        if (!has_interval(&v[i]))
            continue;
        off[s->n++] = fabs(log(v[i].measured / v[i].predicted));
        s->inside += v[i].measured >= v[i].lo && v[i].measured <= v[i].hi;
        width += log(v[i].hi / v[i].lo);
        score += lk_score_interval(v[i].measured, v[i].lo, v[i].hi, s->level);
    }
    s->share = lk_stats_wilson(s->inside, s->n, SHARE_LEVEL);
    s->width = s->score = s->constant_width = s->constant_score = NAN;
    if (!s->n)
        goto out;
    s->width = width / (double)s->n;
    s->score = score / (double)s->n;
    lk_stats_sort(off, s->n);
    score_constant(off, s);
out:
    free(off);
    return st;
}

enum lk_status lk_score_of(const struct lk_scored *v, size_t n, double level, struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_score s = {.level = level};
    double *measured = NULL, *predicted = NULL;

    if (!(level > 0 && level < 1))
        return lk_fail(LK_EINTERNAL, "score of intervals at level %g", level);
    LK_TRY(lk_alloc(&measured, n, sizeof *measured));
    LK_TRY(lk_alloc(&predicted, n, sizeof *predicted));
    for (size_t i = 0; i < n; i++) {
        measured[i] = v[i].measured;
        predicted[i] = v[i].predicted;
    }
    LK_TRY(lk_score_errors_of(measured, predicted, n, &s.errors));
    LK_TRY(score_intervals(v, n, &s));
    *out = s;
out:
    free(measured);
    free(predicted);
    return st;
}

enum lk_status lk_score_note(const struct lk_score *s, struct lk_table *t)
{
    if (s->errors.n)
        LK_PASS(lk_table_note(t, "error of %zu: mean %.2f %%, median %.2f %%, worst %.2f %%",
                              s->errors.n, 100 * s->errors.mean, 100 * s->errors.median,
                              100 * s->errors.worst));
    if (s->n)
        LK_PASS(lk_table_note(
            t,
            "%.0f %% interval: %zu of %zu inside (true share %.0f to %.0f %%), mean width %.1f %%, "
            "interval score %.3f; one of constant width with as many inside: %.1f %%, %.3f",
            100 * s->level, s->inside, s->n, 100 * s->share.lo, 100 * s->share.hi, 100 * s->width,
            s->score, 100 * s->constant_width, s->constant_score));
    return LK_OK;
}
