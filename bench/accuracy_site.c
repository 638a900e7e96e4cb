/*
 * This program scores what a site's own errors make of the next intervals (sim/forecast/site.h).
 * It takes published series (bench/data's published_scaling.csv, or $LOCKSTEP_DATA's) and forecasts
 * them by the constants of FOLDS.csv, which accuracy_scaling fits to other sources.
 *
 *     build/bench/accuracy_site bench/results/scaling_folds.csv     prints tables in Markdown
 *
 * A source file is a site. Its series come in turn, as jobs do, and in each every count is forecast
 * from all smaller ones and is then measured: what was scored before makes the interval of the
 * next. "Of several counts" leaves out forecasts from one count alone. The weight of the prior is
 * the product's, and, for comparison, the one that scores best on the sources of other folds.
 */
#include "base/array.h"
#include "bench/lib/scaling_tests.h"
#include "sim/forecast/site.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double priors[] = {2, 4, 8, 16, 32};
enum { N_PRIORS = sizeof priors / sizeof *priors, OWN = 2 /* the product's */ };

/* A forecast, with the factor that each prior gives it. */
struct forecast {
    const struct scaling_test *t;
    size_t jobs, scored; /* before it, at its site */
    double factor[N_PRIORS];
};

struct forecasts {
    struct forecast *v;
    size_t n;
};

/* The errors of a site so far, a sum and a count for each job. */
struct site {
    double *sums;
    size_t *counts, n, scored;
    const struct published_series *last;
};

static void add_error(struct site *s, const struct scaling_test *t)
{
    const struct lk_scored *f = &t->ours;

    if (s->last != t->s)
        s->n++;
    s->last = t->s;
    s->sums[s->n - 1] += lk_site_error(f->measured, f->predicted, f->lo, f->hi, SCALING_LEVEL);
    s->counts[s->n - 1]++;
    s->scored++;
}

static void add_forecast(struct forecasts *out, const struct site *s, const struct scaling_test *t,
                         double *means)
{
    struct forecast *f = &out->v[out->n++];

    *f = (struct forecast){.t = t, .jobs = s->n, .scored = s->scored};
    for (size_t i = 0; i < s->n; i++)
        means[i] = s->sums[i] / (double)s->counts[i];
    for (int i = 0; i < N_PRIORS; i++)
        f->factor[i] = lk_site_factor_of(means, s->n, priors[i]);
}

/* Forecast what every source measured, in turn. least: counts that are known. */
static enum lk_status replay(const struct scaling_tests *d, size_t least, struct forecasts *out)
{
    enum lk_status st = LK_OK;
    struct site s = {0};
    double *means = NULL;
    bool *done = NULL;

    LK_TRY(lk_alloc(&out->v, d->n, sizeof *out->v));
    LK_TRY(lk_alloc(&s.sums, d->n, sizeof *s.sums));
    LK_TRY(lk_alloc(&s.counts, d->n, sizeof *s.counts));
    LK_TRY(lk_alloc(&means, d->n, sizeof *means));
    LK_TRY(lk_alloc(&done, d->n, sizeof *done));
    for (size_t i = 0; i < d->n; i++) {
        if (done[i])
            continue;
        memset(s.sums, 0, d->n * sizeof *s.sums);
        memset(s.counts, 0, d->n * sizeof *s.counts);
        s.n = s.scored = 0;
        s.last = NULL;
        for (size_t k = i; k < d->n; k++) {
            const struct scaling_test *t = &d->v[k];

            if (strcmp(t->s->source, d->v[i].s->source) != 0)
                continue;
            done[k] = true;
            if (t->target != t->known || t->known < least)
                continue;
            add_forecast(out, &s, t, means);
            add_error(&s, t);
        }
    }
out:
    free(done);
    free(means);
    free(s.counts);
    free(s.sums);
    return st;
}

static struct lk_scored widened(const struct forecast *f, double factor)
{
    const struct lk_scored *o = &f->t->ours;

    return (struct lk_scored){.measured = o->measured,
                              .predicted = o->predicted,
                              .lo = o->predicted * pow(o->lo / o->predicted, factor),
                              .hi = o->predicted * pow(o->hi / o->predicted, factor)};
}

static double interval_score(const struct forecast *f, double factor)
{
    const struct lk_scored w = widened(f, factor);

    return lk_score_interval(w.measured, w.lo, w.hi, SCALING_LEVEL);
}

/* Return the prior that scores best on the sources outside a fold. */
static int best_prior(const struct forecasts *a, int fold)
{
    double least = INFINITY;
    int best = OWN;

    for (int i = 0; i < N_PRIORS; i++) {
        double sum = 0;

        for (size_t k = 0; k < a->n; k++)
            sum += a->v[k].t->fold != fold ? interval_score(&a->v[k], a->v[k].factor[i]) : 0;
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

enum { WITHOUT = -1, NESTED = -2 };

static enum lk_status score(const struct forecasts *a, size_t from, size_t to, int prior,
                            struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    int of_fold[SCALING_FOLDS];
    size_t n = 0;

    for (int fold = 0; fold < SCALING_FOLDS; fold++)
        of_fold[fold] = best_prior(a, fold);
    LK_TRY(lk_alloc(&v, a->n, sizeof *v));
    for (size_t i = 0; i < a->n; i++) {
        const struct forecast *f = &a->v[i];
        int which = prior == NESTED ? of_fold[f->t->fold] : prior;

        if (f->scored >= from && f->scored <= to)
            v[n++] = widened(f, which == WITHOUT ? 1 : f->factor[which]);
    }
    LK_TRY(lk_score_of(v, n, SCALING_LEVEL, out));
out:
    free(v);
    return st;
}

static enum lk_status print_rows(const struct forecasts *a, const char *what)
{
    static const struct {
        const char *name;
        size_t from, to;
    } rows[] = {{"none", 0, 0},
                {"1", 1, 1},
                {"2", 2, 2},
                {"3", 3, 3},
                {"4 to 7", 4, 7},
                {"8 and more", 8, SIZE_MAX},
                {"1 and more", 1, SIZE_MAX}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lk_score without, own, nested;

        LK_PASS(score(a, rows[i].from, rows[i].to, WITHOUT, &without));
        LK_PASS(score(a, rows[i].from, rows[i].to, OWN, &own));
        LK_PASS(score(a, rows[i].from, rows[i].to, NESTED, &nested));
        if (!own.n)
            continue;
        printf("| %s | %s | %zu | %.0f %% | %.1f %% | %.3f | %.0f %% | %.1f %% (%+.0f %%) | %.3f | "
               "%.3f |\n",
               what, rows[i].name, own.n, 100 * without.share.value, 100 * without.width,
               without.score, 100 * own.share.value, 100 * own.width,
               100 * (own.width / without.width - 1), own.score, nested.score);
    }
    return LK_OK;
}

static enum lk_status run(const char *path)
{
    static const struct {
        const char *name;
        size_t least;
    } kinds[] = {{"from one count or more", 1}, {"of several counts", 2}};
    enum lk_status st = LK_OK;
    struct scaling_tests d = {0};
    struct lk_scaling_prior folds[SCALING_FOLDS];
    struct forecasts all = {0};

    LK_TRY(scaling_tests_make(&d));
    scaling_tests_deal(&d, false);
    LK_TRY(scaling_tests_read_folds(path, folds));
    LK_TRY(scaling_tests_predict(&d, folds));
    puts(
        "| the next count | scored before | forecasts | inside | mean width | score | inside, with "
        "the site's errors | mean width | score | score, prior of other sources |\n"
        "|---|---|---|---|---|---|---|---|---|---|");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        free(all.v);
        all = (struct forecasts){0};
        LK_TRY(replay(&d, kinds[i].least, &all));
        LK_TRY(print_rows(&all, kinds[i].name));
    }
out:
    free(all.v);
    scaling_tests_fini(&d);
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = argc == 2 ? run(argv[1])
                                  : lk_fail(LK_EUSAGE, "usage: accuracy_site FOLDS.csv; it reads "
                                                       "the table of $LOCKSTEP_DATA");

    if (st != LK_OK)
        fprintf(stderr, "accuracy_site: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
