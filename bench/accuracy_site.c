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
 *
 * The second table says what is possible at all after three scored runs: how narrow oracles, which
 * know the errors (bench/lib/site_oracle.h), make the intervals, and how narrow the best of many
 * rules by variance components does, each time chosen on all other sources.
 *
 * Divisions: the replay / scores / oracles / variance components / the whole.
 */
#include "base/array.h"
#include "bench/lib/scaling_tests.h"
#include "bench/lib/site_oracle.h"
#include "sim/forecast/site.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The replay ---- */

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

/* ---- Scores ---- */

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

/* ---- Oracles ---- */

enum { SCORED = 3 /* before the forecasts of the second table */ };

static bool is_late(const struct forecast *f)
{
    return f->scored >= SCORED;
}

/* Return the factor by which the interval just contains what was measured. */
static double needs(const struct lk_scored *f)
{
    double off = log(f->measured / f->predicted);

    return fabs(off) / fmax(off > 0 ? log(f->hi / f->predicted) : log(f->predicted / f->lo), 1e-9);
}

enum group { OF_ALL, OF_SITE, OF_SERIES };

static bool same_group(const struct scaling_test *a, const struct scaling_test *b, enum group g)
{
    return g == OF_ALL || (g == OF_SITE && !strcmp(a->s->source, b->s->source)) ||
           (g == OF_SERIES && a->s == b->s);
}

/* List the late forecasts; return how many they are. */
static size_t list_cases(const struct forecasts *a, enum group g, struct oracle_case *out)
{
    const struct scaling_test *last = NULL;
    size_t n = 0, group = 0;

    for (size_t i = 0; i < a->n; i++) {
        const struct lk_scored *f = &a->v[i].t->ours;

        if (!is_late(&a->v[i]))
            continue;
        group += last && !same_group(last, a->v[i].t, g);
        last = a->v[i].t;
        out[n++] = (struct oracle_case){group, needs(f), log(f->hi / f->lo)};
    }
    return n;
}

static void print_possible(const char *what, const char *rule, double inside, double width,
                           double without)
{
    printf("| %s | %s | %.0f %% | %.1f %% (%+.0f %%) | | |\n", what, rule, 100 * inside,
           100 * width, 100 * (width / without - 1));
}

static enum lk_status print_oracles(const struct forecasts *a, const char *what)
{
    static const struct {
        const char *name;
        enum group group;
        double share;
        enum lk_status (*choose)(const struct oracle_case *, size_t, double, struct oracle *);
    } rows[] = {
        {"an oracle's one factor, 85 % inside", OF_ALL, 0.85, oracle_each},
        {"an oracle's one factor, 90 % inside", OF_ALL, 0.90, oracle_each},
        {"an oracle's factor a site, 85 % of each inside", OF_SITE, 0.85, oracle_each},
        {"an oracle's factor a site, 85 % of all inside", OF_SITE, 0.85, oracle_all},
        {"an oracle's factor a site, 90 % of all inside", OF_SITE, 0.90, oracle_all},
        {"an oracle's factor a series, 85 % of each inside", OF_SERIES, 0.85, oracle_each},
    };
    enum lk_status st = LK_OK;
    struct oracle_case *v = NULL;

    LK_TRY(lk_alloc(&v, a->n, sizeof *v));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = list_cases(a, rows[i].group, v);
        double without = 0;
        struct oracle o;

        for (size_t k = 0; k < n; k++)
            without += v[k].width;
        LK_TRY(rows[i].choose(v, n, rows[i].share, &o));
        print_possible(what, rows[i].name, (double)o.inside / (double)n, o.width / (double)n,
                       without / (double)n);
    }
out:
    free(v);
    return st;
}

/* ---- Variance components ---- */

/*
 * A rule takes the mean square error v between the jobs of a site and within a job: with the weight
 * `prior` of `mean` the site's, sqrt of (prior x mean + sum of jobs' v) / (prior + jobs); and with
 * the weight `own` of that, the job's own errors. own 0: the job counts as the others do, which
 * with a mean of 1 is the product's rule.
 */
struct rule {
    double prior, mean, own, most; /* most: that one v counts */
};

static double factor_of(const struct forecasts *a, size_t i, const struct rule *r)
{
    double sum = r->prior * r->mean, weight = r->prior, own = 0, n_own = 0, of_job = 0, n_job = 0;

    for (size_t k = i; k-- > 0 && same_group(a->v[k].t, a->v[i].t, OF_SITE);) {
        const struct scaling_test *t = a->v[k].t;
        double v = fmin(lk_site_error(t->ours.measured, t->ours.predicted, t->ours.lo, t->ours.hi,
                                      SCALING_LEVEL),
                        r->most);

        if (r->own > 0 && t->s == a->v[i].t->s) {
            own += v;
            n_own++;
            continue;
        }
        of_job += v;
        n_job++;
        if (!k || a->v[k - 1].t->s != t->s) { /* the job's first */
            sum += of_job / n_job;
            weight++;
            of_job = n_job = 0;
        }
    }
    if (!(r->own > 0))
        return sqrt(sum / weight);
    return sqrt((r->own * sum / weight + own) / (r->own + n_own));
}

static const double rule_priors[] = {2, 4, 8, 16, 32}, rule_means[] = {0.4, 0.6, 0.8, 1},
                    rule_owns[] = {0, 2, 4, 8, 16}, rule_mosts[] = {9, 25};
enum { RULES = 5 * 4 * 5 * 2 };

static struct rule rule_at(int i)
{
    return (struct rule){rule_priors[i % 5], rule_means[i / 5 % 4], rule_owns[i / 20 % 5],
                         rule_mosts[i / 100]};
}

/* Factors of all rules, and the interval scores that they bring; rule r's of forecast i is at
 * r * n + i. */
struct tried {
    double *factors, *scores;
    size_t n;
};

/* Return the rule that scores best on the late forecasts of other sources than that of i. */
static int best_rule(const struct forecasts *a, const struct tried *x, size_t i)
{
    double least = INFINITY;
    int best = 0;

    for (int r = 0; r < RULES; r++) {
        double sum = 0;

        for (size_t k = 0; k < x->n; k++)
            if (is_late(&a->v[k]) && !same_group(a->v[k].t, a->v[i].t, OF_SITE))
                sum += x->scores[(size_t)r * x->n + k];
        if (sum < least) {
            least = sum;
            best = r;
        }
    }
    return best;
}

static enum lk_status print_scored(const char *what, const char *rule, const struct lk_scored *v,
                                   size_t n, const struct lk_score *without)
{
    struct lk_score s;

    LK_PASS(lk_score_of(v, n, SCALING_LEVEL, &s));
    printf("| %s | %s | %.0f %% | %.1f %% (%+.0f %%) | %.3f | %.3f |\n", what, rule,
           100 * s.share.value, 100 * s.width, 100 * (s.width / without->width - 1), s.score,
           without->score);
    return LK_OK;
}

static enum lk_status try_rules(const struct forecasts *a, struct tried *x)
{
    x->n = a->n;
    LK_PASS(lk_alloc(&x->factors, (size_t)RULES * a->n, sizeof *x->factors));
    LK_PASS(lk_alloc(&x->scores, (size_t)RULES * a->n, sizeof *x->scores));
    for (int r = 0; r < RULES; r++) {
        const struct rule rule = rule_at(r);

        for (size_t i = 0; i < a->n; i++) {
            size_t at = (size_t)r * a->n + i;

            x->factors[at] = factor_of(a, i, &rule);
            x->scores[at] = interval_score(&a->v[i], x->factors[at]);
        }
    }
    return LK_OK;
}

static enum lk_status print_rules(const struct forecasts *a, const char *what)
{
    enum lk_status st = LK_OK;
    struct tried x = {0};
    struct lk_scored *own = NULL, *chosen;
    struct lk_score without;
    size_t n = 0;
    int best = 0;

    LK_TRY(lk_alloc(&own, 2 * a->n, sizeof *own));
    chosen = own + a->n;
    LK_TRY(try_rules(a, &x));
    for (size_t i = 0; i < a->n; i++) {
        const struct forecast *f = &a->v[i];

        if (!i || !same_group(a->v[i - 1].t, f->t, OF_SITE))
            best = best_rule(a, &x, i);
        if (!is_late(f))
            continue;
        own[n] = widened(f, f->factor[OWN]);
        chosen[n++] = widened(f, x.factors[(size_t)best * a->n + i]);
    }
    LK_TRY(score(a, SCORED, SIZE_MAX, WITHOUT, &without));
    LK_TRY(print_scored(what, "the program's rule", own, n, &without));
    LK_TRY(print_scored(what, "variance components, chosen on all other sources", chosen, n,
                        &without));
out:
    free(own);
    free(x.factors);
    free(x.scores);
    return st;
}

/* ---- The whole ---- */

static enum lk_status run(const char *path)
{
    static const struct {
        const char *name;
        size_t least;
    } kinds[] = {{"from one count or more", 1}, {"of several counts", 2}};
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    enum lk_status st = LK_OK;
    struct scaling_tests d = {0};
    struct lk_scaling_prior folds[SCALING_FOLDS];
    struct forecasts all[N_KINDS] = {0};

    LK_TRY(scaling_tests_make(&d));
    scaling_tests_deal(&d, false);
    LK_TRY(scaling_tests_read_folds(path, folds));
    LK_TRY(scaling_tests_predict(&d, folds));
    puts(
        "| the next count | scored before | forecasts | inside | mean width | score | inside, with "
        "the site's errors | mean width | score | score, prior of other sources |\n"
        "|---|---|---|---|---|---|---|---|---|---|");
    for (size_t i = 0; i < N_KINDS; i++) {
        LK_TRY(replay(&d, kinds[i].least, &all[i]));
        LK_TRY(print_rows(&all[i], kinds[i].name));
    }
    puts("\nWhat is possible after three scored runs:\n\n"
         "| the next count | factor on widths | inside | mean width | score | score without |\n"
         "|---|---|---|---|---|---|");
    for (size_t i = 0; i < N_KINDS; i++) {
        LK_TRY(print_oracles(&all[i], kinds[i].name));
        LK_TRY(print_rules(&all[i], kinds[i].name));
    }
out:
    for (size_t i = 0; i < N_KINDS; i++)
        free(all[i].v);
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
