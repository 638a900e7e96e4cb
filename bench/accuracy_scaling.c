/*
 * The forecast from a table of throughputs against published measurements (bench/data's
 * published_scaling.csv, or $LOCKSTEP_DATA's), with constants fitted to other sources only.
 *
 *     build/bench/accuracy_scaling                    prints tables in Markdown
 *     build/bench/accuracy_scaling --points NEW.csv [NEW_FOLDS.csv]
 *         writes every held-out point, and the constants fitted to all folds but each, too
 *     build/bench/accuracy_scaling --given FOLDS.csv
 *         prints errors and scores as CSV, by these constants: the same without minutes of fits
 *     build/bench/accuracy_scaling --widths FOLDS.csv prints sim/throughput/scaling_widths.h
 *     build/bench/accuracy_scaling --fit              prints the values of LK_SCALING_LIST
 *
 * bench/lib/scaling_tests.h says what is held out of each series. Constants are fitted to series of
 * tier A and, with 0.3 of the weight, those of tier B and of strong scaling, that are of other
 * source files (or of other repositories: the harder test): whole files are dealt to 8 folds, each
 * predicted from the rest. So is the constant width with which intervals are compared: it is the
 * one that scores best on the other folds. An interval has the constant width of its distance where
 * that scores better on the other folds.
 *
 * Divisions: fits / constants of folds / tables / main.
 */
#include "base/array.h"
#include "base/csv.h"
#include "bench/lib/scaling_fit.h"
#include "bench/lib/scaling_tests.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_ITERATIONS = 1500, FOLD_ITERATIONS = 200 };
static const double OTHER_WEIGHT = 0.3; /* of tier B and of strong scaling */

/* ---- Fits ---- */

/* The series outside this fold (-1: all) as the fit takes them. */
static void weigh(const struct scaling_tests *d, int fold, struct scaling_series *out)
{
    for (size_t i = 0; i < d->series.n; i++) {
        const struct published_series *s = &d->series.v[i];
        double same = 0;

        for (size_t k = 0; k < d->series.n; k++)
            same += s->strong == d->series.v[k].strong && !strcmp(s->source, d->series.v[k].source);
        out[i] = (struct scaling_series){
            s->points, s->n, (s->tier == 'B' || s->strong ? OTHER_WEIGHT : 1) / sqrt(same)};
        if (fold >= 0 && d->folds[i] == fold)
            out[i].weight = 0;
    }
}

/* Every series by constants fitted to other groups, which are set in out_folds. */
static enum lk_status predict_all(struct scaling_tests *d, const struct lk_scaling_prior *all,
                                  bool by_repository, struct lk_scaling_prior *out_folds)
{
    enum lk_status st = LK_OK;
    struct scaling_series *v = NULL;

    LK_TRY(lk_alloc(&v, d->series.n, sizeof *v));
    scaling_tests_deal(d, by_repository);
    for (int fold = 0; fold < SCALING_FOLDS; fold++) {
        weigh(d, fold, v);
        LK_TRY(scaling_fit(v, d->series.n, all, FOLD_ITERATIONS, &out_folds[fold]));
    }
    LK_TRY(scaling_tests_predict(d, out_folds));
out:
    free(v);
    return st;
}

/* ---- Constants of folds ---- */

static void write_folds(FILE *f, const struct lk_scaling_prior *folds)
{
    for (int k = 0; k < LK_SCALING_CONSTANT_COUNT; k++)
        fprintf(f, "%s%s", k ? "," : "", scaling_constants[k].name);
    for (int i = 0; i < SCALING_FOLDS; i++)
        for (int k = 0; k < LK_SCALING_CONSTANT_COUNT; k++)
            fprintf(f, "%s%.6g", k ? "," : "\n", ((const double *)&folds[i])[k]);
    fprintf(f, "\n");
}

/* ---- Tables ---- */

/* A subset of the tests; value NULL: all of the tier. */
struct subset {
    enum kind kind;
    char tier;    /* 0: all */
    size_t field; /* offset in struct published_series of the text compared with */
    const char *value;
};

static bool in_subset(const struct scaling_test *t, const struct subset *q)
{
    return t->is[q->kind] && (t->s->tier == q->tier || !q->tier) &&
           (!q->value || !strcmp(*(char *const *)((const char *)t->s + q->field), q->value));
}

/* Whose forecasts are scored: a baseline's, ours, or ours with the constant width. */
enum { OURS = LK_BASELINE_COUNT, CONSTANT };
enum { NAME_BYTES = 96 };

static enum lk_status score(const struct scaling_tests *d, const struct subset *q, int which,
                            struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&v, d->n, sizeof *v));
    for (size_t i = 0; i < d->n; i++) {
        const struct scaling_test *t = &d->v[i];
        double half = exp(t->constant[q->kind]);

        if (!in_subset(t, q))
            continue;
        v[n] = t->ours;
        if (which < LK_BASELINE_COUNT)
            v[n] = (struct lk_scored){v[n].measured, t->baseline[which], NAN, NAN};
        else if (which == CONSTANT)
            v[n] = (struct lk_scored){v[n].measured, v[n].predicted, v[n].predicted / half,
                                      v[n].predicted * half};
        n++;
    }
    LK_TRY(lk_score_of(v, n, SCALING_LEVEL, out));
out:
    free(v);
    return st;
}

/* Return the share of tests in which ours is as near as the line or nearer. */
static double nearer_than_line(const struct scaling_tests *d, const struct subset *q)
{
    double near = 0, n = 0;

    for (size_t i = 0; i < d->n; i++) {
        const struct scaling_test *t = &d->v[i];
        double line = fabs(t->baseline[LK_BASELINE_LINE] / t->ours.measured - 1);

        if (!in_subset(t, q) || isnan(line))
            continue;
        near += fabs(t->ours.predicted / t->ours.measured - 1) <= line;
        n++;
    }
    return near / n;
}

static enum lk_status print_subset(const struct scaling_tests *d, const char *name,
                                   const struct subset *q)
{
    struct lk_score s, line, constant;
    char of_line[96] = "- | -"; /* from one count there is no line */

    LK_PASS(score(d, q, OURS, &s));
    if (!s.n)
        return LK_OK;
    LK_PASS(score(d, q, LK_BASELINE_LINE, &line));
    LK_PASS(score(d, q, CONSTANT, &constant));
    if (!isnan(line.errors.mean))
        snprintf(of_line, sizeof of_line, "%.2f / %.2f / %.1f | %.0f %%", 100 * line.errors.mean,
                 100 * line.errors.median, 100 * line.errors.worst, 100 * nearer_than_line(d, q));
    printf("| %s | %zu | %.2f / %.2f / %.1f | %s | %zu (%.0f to %.0f %%) |"
           " %.1f %% | %.3f | %.1f %% | %.3f |\n",
           name, s.n, 100 * s.errors.mean, 100 * s.errors.median, 100 * s.errors.worst, of_line,
           s.inside, 100 * s.share.lo, 100 * s.share.hi, 100 * s.width, s.score,
           100 * constant.width, constant.score);
    return LK_OK;
}

/* A table of baselines has a row for each forecaster and a column for each of these. */
static const struct {
    const char *name;
    struct subset q;
} columns[] = {
    {"largest, tier A", {LARGEST, 'A', 0, NULL}},
    {"largest, tier B", {LARGEST, 'B', 0, NULL}},
    {"two counts, x2", {TWICE, 0, 0, NULL}},
    {"x4", {FOURFOLD, 0, 0, NULL}},
    {"x8", {EIGHTFOLD, 0, 0, NULL}},
    {"strong scaling", {STRONG, 0, 0, NULL}},
};

static enum lk_status print_baselines(const struct scaling_tests *d)
{
    struct lk_score s;

    printf("\n| error: mean / median / worst %%");
    for (size_t k = 0; k < LK_COUNT(columns); k++) {
        LK_PASS(score(d, &columns[k].q, OURS, &s));
        printf(" | %s (%zu)", columns[k].name, s.n);
    }
    printf(" |\n|---|---|---|---|---|---|---|\n");
    for (int i = OURS; i >= 0; i--) {
        printf("| %s", i == OURS ? "**lockstep**" : lk_baseline_text((enum lk_baseline)i));
        for (size_t k = 0; k < LK_COUNT(columns); k++) {
            LK_PASS(score(d, &columns[k].q, i, &s));
            printf(" | %.2f / %.2f / %.0f", 100 * s.errors.mean, 100 * s.errors.median,
                   100 * s.errors.worst);
        }
        printf(" |\n");
    }
    return LK_OK;
}

static void print_heading(const char *what)
{
    printf("\n| %s | points | error: mean / median / worst %% | of the line | nearer | inside | "
           "mean width | score | constant width | its score |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n",
           what);
}

static enum lk_status print_values(const struct scaling_tests *d, size_t field)
{
    for (size_t i = 0; i < d->n; i++) {
        struct subset q = {LARGEST, 'A', field, *(char *const *)((const char *)d->v[i].s + field)};
        bool seen = !in_subset(&d->v[i], &q);

        for (size_t k = 0; k < i && !seen; k++)
            seen = in_subset(&d->v[k], &q);
        if (!seen)
            LK_PASS(print_subset(d, q.value, &q));
    }
    return LK_OK;
}

/* Name a kind's tests of a tier, or of both in `tier` 0. */
static const char *name_of(enum kind kind, char tier, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, tier ? "%s, tier %c" : "%s", scaling_kinds[kind].text, tier);
    return name;
}

/* Return the next tier (0: both) in which a kind is compared; '\0' is followed by none. */
static const char *tiers_of(enum kind kind)
{
    return scaling_kinds[kind].by_tier ? "AB" : "";
}

static enum lk_status print_kind(const struct scaling_tests *d, enum kind kind)
{
    const char *tier = tiers_of(kind);
    char name[NAME_BYTES];

    do {
        struct subset q = {kind, *tier, 0, NULL};

        LK_PASS(print_subset(d, name_of(kind, *tier, name), &q));
    } while (*tier && *++tier);
    return LK_OK;
}

static enum lk_status print_details(const struct scaling_tests *d)
{
    print_heading("held out");
    for (int k = 0; k < WEAK_1; k++)
        LK_PASS(print_kind(d, (enum kind)k));
    print_heading("by distance, from one count or more, both tiers");
    for (int k = WEAK_1; k < KIND_COUNT; k++)
        LK_PASS(print_kind(d, (enum kind)k));
    print_heading("tier A by framework");
    LK_PASS(print_values(d, offsetof(struct published_series, framework)));
    print_heading("tier A by GPU");
    LK_PASS(print_values(d, offsetof(struct published_series, gpu)));
    print_heading("tier A by source file");
    LK_PASS(print_values(d, offsetof(struct published_series, source)));
    return LK_OK;
}

static void write_point(FILE *f, const struct scaling_test *t, enum kind kind)
{
    const struct lk_config *c = &t->s->points[t->target].config;

    fprintf(f, "\n%s,%c,\"%s\",\"%s\",%d,%d,%d,%.6g,%.6g,%.6g,%.6g", scaling_kinds[kind].key,
            t->s->tier, t->s->source, t->s->name, t->s->points[t->known - 1].config.world_size,
            c->world_size, c->nodes, t->ours.measured, t->ours.predicted, t->ours.lo, t->ours.hi);
    for (int k = 0; k < LK_BASELINE_COUNT; k++)
        fprintf(f, ",%.6g", t->baseline[k]);
}

static void write_points(FILE *f, const struct scaling_tests *d)
{
    fprintf(f, "#kind,tier,source,series,from_gpus,gpus,nodes,measured,predicted,lo,hi");
    for (int i = 0; i < LK_BASELINE_COUNT; i++)
        fprintf(f, ",baseline_%d", i);
    for (int k = 0; k < KIND_COUNT; k++)
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].is[k])
                write_point(f, &d->v[i], (enum kind)k);
    fprintf(f, "\n");
}

/* ---- Main ---- */

static void set_baselines(struct scaling_tests *d)
{
    for (size_t i = 0; i < d->n; i++)
        for (int k = 0; k < LK_BASELINE_COUNT; k++)
            d->v[i].baseline[k] =
                lk_baseline_throughput((enum lk_baseline)k, d->v[i].s->points, d->v[i].known,
                                       &d->v[i].s->points[d->v[i].target]);
}

static enum lk_status evaluate(struct scaling_tests *d, const struct lk_scaling_prior *all,
                               FILE *points, FILE *fold_file)
{
    const struct subset tier_a = {.kind = LARGEST, .tier = 'A'};
    struct lk_scaling_prior folds[SCALING_FOLDS];

    set_baselines(d);
    LK_PASS(predict_all(d, all, false, folds));
    LK_PASS(print_baselines(d));
    LK_PASS(print_details(d));
    if (points)
        write_points(points, d);
    if (fold_file)
        write_folds(fold_file, folds);
    LK_PASS(predict_all(d, all, true, folds));
    print_heading("constants of other repositories");
    return print_subset(d, "tier A", &tier_a);
}

/* Print a kind's mean error and score, by tier or of both. */
static enum lk_status print_figures(const struct scaling_tests *d, enum kind kind)
{
    const char *tier = tiers_of(kind);
    char name[NAME_BYTES];

    do {
        const struct subset q = {kind, *tier, 0, NULL};
        struct lk_score s;

        LK_PASS(score(d, &q, OURS, &s));
        name_of(kind, *tier, name);
        if (s.n)
            printf("law: %s: mean error in percent,%.4f\nlaw: %s: interval score,%.5f\n", name,
                   100 * s.errors.mean, name, s.score);
    } while (*tier && *++tier);
    return LK_OK;
}

static enum lk_status print_given(struct scaling_tests *d, const struct lk_scaling_prior *folds)
{
    LK_PASS(scaling_tests_predict(d, folds));
    for (int k = 0; k < KIND_COUNT; k++)
        LK_PASS(print_figures(d, (enum kind)k));
    return LK_OK;
}

/* Print the header by which the product chooses its widths: no fold is left out. */
static enum lk_status print_widths(struct scaling_tests *d, const struct lk_scaling_prior *folds)
{
    LK_PASS(scaling_tests_by_law(d, folds));
    printf(
        "/* `make accuracy` writes these scores of 90 %% intervals on published series. */\n"
        "/* clang-format off */\n"
        "#ifndef LK_SIM_THROUGHPUT_SCALING_WIDTHS_H\n"
        "#define LK_SIM_THROUGHPUT_SCALING_WIDTHS_H\n\n"
        "/* A kind that fewer sources have is not judged. */\n"
        "enum { LK_SCALING_SOURCES_LEAST = %d };\n\n"
        "/* X(strong, doublings, tests, sources, score of the law's own widths, score of constant\n"
        " * ones chosen on other sources, half width that is used, of ln; 0: the law's own) */\n"
        "#define LK_SCALING_WIDTH_LIST(X)",
        (int)SCALING_SOURCES_LEAST);
    for (int k = WEAK_1; k < KIND_COUNT; k++) {
        struct scaling_rivals r = scaling_tests_rivals(d, (enum kind)k, -1);
        double half = scaling_tests_width(d, (enum kind)k, -1);
        int strong = k >= STRONG_1;

        if (r.n)
            printf(" \\\n    X(%d, %d, %zu, %d, %.4f, %.4f, %.4g)", strong,
                   k - (strong ? STRONG_1 : WEAK_1) + 1, r.n,
                   scaling_tests_sources(d, (enum kind)k, -1), r.law / (double)r.n,
                   r.constant / (double)r.n, isnan(half) ? 0 : half);
    }
    printf("\n\n#endif\n");
    return LK_OK;
}

/* The command line asks for these. */
struct asked {
    bool fit;
    const char *given, *widths; /* constants of folds */
    FILE *points, *folds;
};

static enum lk_status run(const struct asked *q)
{
    enum lk_status st = LK_OK;
    struct scaling_tests d = {0};
    struct scaling_series *v = NULL;
    struct lk_scaling_prior all, folds[SCALING_FOLDS];

    LK_TRY(scaling_tests_make(&d));
    scaling_tests_deal(&d, false);
    if (q->given || q->widths) {
        LK_TRY(scaling_tests_read_folds(q->given ? q->given : q->widths, folds));
        LK_TRY((q->given ? print_given : print_widths)(&d, folds));
        goto out;
    }
    LK_TRY(lk_alloc(&v, d.series.n, sizeof *v));
    weigh(&d, -1, v);
    LK_TRY(scaling_fit(v, d.series.n, &lk_scaling_default, ALL_ITERATIONS, &all));
    if (q->fit) {
#define PRINT(field, value, text) printf("X(%s, %.4g)\n", #field, all.field);
        LK_SCALING_LIST(PRINT)
#undef PRINT
    } else {
        LK_TRY(evaluate(&d, &all, q->points, q->folds));
    }
out:
    free(v);
    scaling_tests_fini(&d);
    return st;
}

/* Never over a table of somebody's measurements. */
static enum lk_status create(const char *path, FILE **out)
{
    *out = fopen(path, "wx");
    return *out ? LK_OK : lk_fail(LK_EIO, "%s: %s", path, strerror(errno));
}

static enum lk_status close_file(FILE *f, const char *path, enum lk_status st)
{
    return f && fclose(f) && st == LK_OK ? lk_fail(LK_EIO, "%s: write failed", path) : st;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool writes = (argc == 3 || argc == 4) && !strcmp(what, "--points");
    struct asked q = {.fit = argc == 2 && !strcmp(what, "--fit"),
                      .given = argc == 3 && !strcmp(what, "--given") ? argv[2] : NULL,
                      .widths = argc == 3 && !strcmp(what, "--widths") ? argv[2] : NULL};
    enum lk_status st = LK_OK;

    if (argc > 1 && !q.fit && !q.given && !q.widths && !writes)
        st = lk_fail(LK_EUSAGE,
                     "usage: accuracy_scaling [--fit | --given FOLDS.csv | --widths FOLDS.csv | "
                     "--points NEW.csv [NEW_FOLDS.csv]]; it reads the table of $LOCKSTEP_DATA");
    if (st == LK_OK && writes)
        st = create(argv[2], &q.points);
    if (st == LK_OK && writes && argc == 4)
        st = create(argv[3], &q.folds);
    if (st == LK_OK)
        st = run(&q);
    st = close_file(q.points, argv[2], st);
    st = close_file(q.folds, argv[3], st);
    if (st != LK_OK)
        fprintf(stderr, "bench/accuracy_scaling: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
