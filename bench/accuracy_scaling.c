/*
 * The forecast from a table of throughputs against published measurements (bench/data's
 * published_scaling.csv, or $LOCKSTEP_DATA's), with constants fitted to other sources only.
 *
 *     build/bench/accuracy_scaling                    prints tables in Markdown
 *     build/bench/accuracy_scaling --points NEW.csv [NEW_FOLDS.csv]
 *                                                     writes every held-out point, and the
 * constants fitted to all folds but each, too build/bench/accuracy_scaling --given FOLDS.csv prints
 * errors and scores as CSV, by these constants: the same without minutes of fits
 *     build/bench/accuracy_scaling --fit              prints the values of LK_SCALING_LIST
 *
 * Held out of each series (bench/lib/published_series.h): the largest count, from all smaller ones;
 * every count that is twice, four or eight times the second, from the first two; the largest of
 * strong scaling. Constants are fitted to series of tier A and, with 0.3 of the weight, those of
 * tier B and of strong scaling, that are of other source files (or of other repositories: the
 * harder test): whole files are dealt to 8 folds, each predicted from the rest. So is the constant
 * width with which intervals are compared: it is the one that scores best on the other files.
 *
 * Divisions: tests / fits / constant widths / tables / main.
 */
#include "base/array.h"
#include "base/csv.h"
#include "bench/lib/published_series.h"
#include "bench/lib/scaling_fit.h"
#include "facts/score.h"
#include "sim/forecast/baseline.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_ITERATIONS = 1500, FOLD_ITERATIONS = 200, FOLDS = 8 };
static const double LEVEL = 0.90;
static const double OTHER_WEIGHT = 0.3; /* of tier B and of strong scaling */

/* ---- Tests ---- */

/* X(kind, key, text): what is held out. */
#define KIND_LIST(X)                                                                               \
    X(LARGEST, "largest", "the largest count from all smaller ones")                               \
    X(TWICE, "x2", "x2 from two counts")                                                           \
    X(FOURFOLD, "x4", "x4 from two counts")                                                        \
    X(EIGHTFOLD, "x8", "x8 from two counts")                                                       \
    X(STRONG, "strong", "strong scaling, the largest count")
#define KIND_ENUM(kind, key, text) kind,
enum kind { KIND_LIST(KIND_ENUM) KIND_COUNT };

static const struct {
    const char *key, *text;
} kinds[KIND_COUNT] = {
#define KIND_ROW(kind, key, text) [kind] = {key, text},
    KIND_LIST(KIND_ROW)};

/* A count of a series that is forecast from its first `known`. */
struct test {
    const struct published_series *s;
    enum kind kind;
    size_t known, target;
    int fold;
    double constant; /* the constant half width that scores best on the other folds, of ln */
    struct lk_scored ours;
    double baseline[LK_BASELINE_COUNT];
};

struct data {
    struct published_list series;
    int *folds; /* of each series */
    struct test *v;
    size_t n, capacity;
};

static void data_fini(struct data *d)
{
    published_series_fini(&d->series);
    free(d->folds);
    free(d->v);
}

static enum lk_status add_test(struct data *d, const struct published_series *s, enum kind kind,
                               size_t known, size_t target)
{
    LK_PASS(lk_array_grow(&d->v, &d->capacity, d->n + 1, sizeof *d->v));
    d->v[d->n++] = (struct test){.s = s, .kind = kind, .known = known, .target = target};
    return LK_OK;
}

static enum lk_status make_tests(struct data *d)
{
    for (size_t i = 0; i < d->series.n; i++) {
        const struct published_series *s = &d->series.v[i];

        LK_PASS(add_test(d, s, s->strong ? STRONG : LARGEST, s->n - 1, s->n - 1));
        for (size_t k = 2; k < s->n && !s->strong; k++) {
            int times = s->points[k].config.world_size / s->points[1].config.world_size;
            bool whole = s->points[k].config.world_size % s->points[1].config.world_size == 0;

            for (int kind = TWICE; whole && kind <= EIGHTFOLD; kind++)
                if (times == 2 << (kind - TWICE))
                    LK_PASS(add_test(d, s, (enum kind)kind, 2, k));
        }
    }
    return LK_OK;
}

/* ---- Fits ---- */

static const char *group_of(const struct published_series *s, bool by_repository)
{
    return by_repository ? s->repository : s->source;
}

/* The series outside this fold (-1: all) as the fit takes them. */
static void weigh(const struct data *d, int fold, struct scaling_series *out)
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

static enum lk_status predict(struct test *t, const struct lk_scaling_prior *p)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    const struct lk_scaling_point *target = &t->s->points[t->target];
    int gpus = target->config.world_size;

    LK_TRY(lk_scaling_predict(p, t->s->points, t->known, target, &m));
    lk_mixture_normalise(&m, NULL);
    t->ours = (struct lk_scored){.measured = target->throughput,
                                 .predicted = gpus / exp(lk_mixture_quantile(&m, 0.5)),
                                 .lo = gpus / exp(lk_mixture_quantile(&m, (1 + LEVEL) / 2)),
                                 .hi = gpus / exp(lk_mixture_quantile(&m, (1 - LEVEL) / 2))};
    for (int i = 0; i < LK_BASELINE_COUNT; i++)
        t->baseline[i] =
            lk_baseline_throughput((enum lk_baseline)i, t->s->points, t->known, target);
out:
    lk_mixture_fini(&m);
    return st;
}

/* Whole groups to folds in turn, in the order of the file. */
static void deal(struct data *d, bool by_repository)
{
    const struct published_series *v = d->series.v;
    int groups = 0;

    for (size_t i = 0; i < d->series.n; i++) {
        d->folds[i] = -1;
        for (size_t k = 0; k < i && d->folds[i] < 0; k++)
            if (!strcmp(group_of(&v[k], by_repository), group_of(&v[i], by_repository)))
                d->folds[i] = d->folds[k];
        if (d->folds[i] < 0)
            d->folds[i] = groups++ % FOLDS;
    }
    for (size_t i = 0; i < d->n; i++)
        d->v[i].fold = d->folds[d->v[i].s - v];
}

/* Every series by the constants of its fold. */
static enum lk_status predict_by(struct data *d, const struct lk_scaling_prior *folds)
{
    for (size_t i = 0; i < d->n; i++)
        LK_PASS(predict(&d->v[i], &folds[d->v[i].fold]));
    return LK_OK;
}

/* Every series by constants fitted to other groups, which are set in out_folds. */
static enum lk_status predict_all(struct data *d, const struct lk_scaling_prior *all,
                                  bool by_repository, struct lk_scaling_prior *out_folds)
{
    enum lk_status st = LK_OK;
    struct scaling_series *v = NULL;

    LK_TRY(lk_alloc(&v, d->series.n, sizeof *v));
    deal(d, by_repository);
    for (int fold = 0; fold < FOLDS; fold++) {
        weigh(d, fold, v);
        LK_TRY(scaling_fit(v, d->series.n, all, FOLD_ITERATIONS, &out_folds[fold]));
    }
    LK_TRY(predict_by(d, out_folds));
out:
    free(v);
    return st;
}

/* ---- Constants of folds ---- */

#define COLUMN(field, value, text) {#field, true},
static const struct lk_csv_column constants[] = {LK_SCALING_LIST(COLUMN)};
#undef COLUMN

static void write_folds(FILE *f, const struct lk_scaling_prior *folds)
{
    for (int k = 0; k < LK_SCALING_CONSTANT_COUNT; k++)
        fprintf(f, "%s%s", k ? "," : "", constants[k].name);
    for (int i = 0; i < FOLDS; i++)
        for (int k = 0; k < LK_SCALING_CONSTANT_COUNT; k++)
            fprintf(f, "%s%.6g", k ? "," : "\n", ((const double *)&folds[i])[k]);
    fprintf(f, "\n");
}

static enum lk_status read_folds(const char *path, struct lk_scaling_prior *folds)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;

    LK_TRY(lk_csv_load(path, constants, LK_SCALING_CONSTANT_COUNT, LK_CSV_STRICT, &t));
    if (lk_csv_rows(t) != FOLDS) {
        st = lk_fail(LK_EPARSE, "%s: %zu rows, not %d", path, lk_csv_rows(t), FOLDS);
        goto out;
    }
    for (size_t i = 0; i < FOLDS; i++)
        for (size_t k = 0; k < LK_SCALING_CONSTANT_COUNT; k++)
            LK_TRY(lk_csv_real(t, i, k, 0, 1e6, &((double *)&folds[i])[k]));
out:
    lk_csv_free(t);
    return st;
}

/* ---- Constant widths ---- */

static double error_of(const struct test *t)
{
    return fabs(log(t->ours.predicted / t->ours.measured));
}

/* Return the mean score of a constant half width on tests of the same kind and tier as `like`, of
 * other folds. */
static double constant_score(const struct data *d, const struct test *like, double half)
{
    double sum = 0;

    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].kind == like->kind && d->v[i].s->tier == like->s->tier &&
            d->v[i].fold != like->fold)
            sum += lk_score_interval(exp(error_of(&d->v[i])), exp(-half), exp(half), LEVEL);
    return sum;
}

/* The best width is one of the errors, where the score bends. */
static void choose_constants(struct data *d)
{
    for (size_t i = 0; i < d->n; i++) {
        struct test *t = &d->v[i];
        double best = INFINITY, score;

        t->constant = NAN;
        for (size_t k = 0; k < d->n; k++) {
            if (d->v[k].kind != t->kind || d->v[k].fold == t->fold || d->v[k].s->tier != t->s->tier)
                continue;
            score = constant_score(d, t, error_of(&d->v[k]));
            t->constant = score < best ? error_of(&d->v[k]) : t->constant;
            best = fmin(best, score);
        }
    }
}

/* ---- Tables ---- */

/* A subset of the tests; value NULL: all of the tier. */
struct subset {
    enum kind kind;
    char tier;    /* 0: all */
    size_t field; /* offset in struct published_series of the text compared with */
    const char *value;
};

static bool in_subset(const struct test *t, const struct subset *q)
{
    return t->kind == q->kind && (t->s->tier == q->tier || !q->tier) &&
           (!q->value || !strcmp(*(char *const *)((const char *)t->s + q->field), q->value));
}

/* Whose forecasts are scored: a baseline's, ours, or ours with the constant width. */
enum { OURS = LK_BASELINE_COUNT, CONSTANT };

static enum lk_status score(const struct data *d, const struct subset *q, int which,
                            struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&v, d->n, sizeof *v));
    for (size_t i = 0; i < d->n; i++) {
        const struct test *t = &d->v[i];
        double half = exp(t->constant);

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
    LK_TRY(lk_score_of(v, n, LEVEL, out));
out:
    free(v);
    return st;
}

/* Return the share of tests in which ours is as near as the line or nearer. */
static double nearer_than_line(const struct data *d, const struct subset *q)
{
    double near = 0, n = 0;

    for (size_t i = 0; i < d->n; i++) {
        const struct test *t = &d->v[i];
        double line = fabs(t->baseline[LK_BASELINE_LINE] / t->ours.measured - 1);

        if (!in_subset(t, q) || isnan(line))
            continue;
        near += fabs(t->ours.predicted / t->ours.measured - 1) <= line;
        n++;
    }
    return near / n;
}

static enum lk_status print_subset(const struct data *d, const char *name, const struct subset *q)
{
    struct lk_score s, line, constant;

    LK_PASS(score(d, q, OURS, &s));
    if (!s.n)
        return LK_OK;
    LK_PASS(score(d, q, LK_BASELINE_LINE, &line));
    LK_PASS(score(d, q, CONSTANT, &constant));
    printf(
        "| %s | %zu | %.2f / %.2f / %.1f | %.2f / %.2f / %.1f | %.0f %% | %zu (%.0f to %.0f %%) |"
        " %.1f %% | %.3f | %.1f %% | %.3f |\n",
        name, s.n, 100 * s.errors.mean, 100 * s.errors.median, 100 * s.errors.worst,
        100 * line.errors.mean, 100 * line.errors.median, 100 * line.errors.worst,
        100 * nearer_than_line(d, q), s.inside, 100 * s.share.lo, 100 * s.share.hi, 100 * s.width,
        s.score, 100 * constant.width, constant.score);
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

static enum lk_status print_baselines(const struct data *d)
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

static enum lk_status print_values(const struct data *d, size_t field)
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

static enum lk_status print_details(const struct data *d)
{
    char name[96];

    print_heading("held out");
    for (int k = 0; k < KIND_COUNT; k++)
        for (const char *tier = "AB"; *tier; tier++) {
            struct subset q = {(enum kind)k, *tier, 0, NULL};

            snprintf(name, sizeof name, "%s, tier %c", kinds[k].text, *tier);
            LK_PASS(print_subset(d, name, &q));
        }
    print_heading("tier A by framework");
    LK_PASS(print_values(d, offsetof(struct published_series, framework)));
    print_heading("tier A by GPU");
    LK_PASS(print_values(d, offsetof(struct published_series, gpu)));
    print_heading("tier A by source file");
    LK_PASS(print_values(d, offsetof(struct published_series, source)));
    return LK_OK;
}

static void write_points(FILE *f, const struct data *d)
{
    fprintf(f, "#kind,tier,source,series,from_gpus,gpus,nodes,measured,predicted,lo,hi");
    for (int i = 0; i < LK_BASELINE_COUNT; i++)
        fprintf(f, ",baseline_%d", i);
    for (size_t i = 0; i < d->n; i++) {
        const struct test *t = &d->v[i];
        const struct lk_config *c = &t->s->points[t->target].config;

        fprintf(f, "\n%s,%c,\"%s\",\"%s\",%d,%d,%d,%.6g,%.6g,%.6g,%.6g", kinds[t->kind].key,
                t->s->tier, t->s->source, t->s->name, t->s->points[t->known - 1].config.world_size,
                c->world_size, c->nodes, t->ours.measured, t->ours.predicted, t->ours.lo,
                t->ours.hi);
        for (int k = 0; k < LK_BASELINE_COUNT; k++)
            fprintf(f, ",%.6g", t->baseline[k]);
    }
    fprintf(f, "\n");
}

/* ---- Main ---- */

static enum lk_status evaluate(struct data *d, const struct lk_scaling_prior *all, FILE *points,
                               FILE *fold_file)
{
    const struct subset tier_a = {.kind = LARGEST, .tier = 'A'};
    struct lk_scaling_prior folds[FOLDS];

    LK_PASS(predict_all(d, all, false, folds));
    choose_constants(d);
    LK_PASS(print_baselines(d));
    LK_PASS(print_details(d));
    if (points)
        write_points(points, d);
    if (fold_file)
        write_folds(fold_file, folds);
    LK_PASS(predict_all(d, all, true, folds));
    choose_constants(d);
    print_heading("constants of other repositories");
    return print_subset(d, "tier A", &tier_a);
}

/* Prints each kind's and tier's mean error and score. */
static enum lk_status print_given(struct data *d, const char *path)
{
    struct lk_scaling_prior folds[FOLDS];

    LK_PASS(read_folds(path, folds));
    deal(d, false);
    LK_PASS(predict_by(d, folds));
    for (int k = 0; k < KIND_COUNT; k++)
        for (const char *tier = "AB"; *tier; tier++) {
            const struct subset q = {(enum kind)k, *tier, 0, NULL};
            struct lk_score s;

            LK_PASS(score(d, &q, OURS, &s));
            if (s.n)
                printf("law: %s, tier %c: mean error in percent,%.4f\n"
                       "law: %s, tier %c: interval score,%.5f\n",
                       kinds[k].text, *tier, 100 * s.errors.mean, kinds[k].text, *tier, s.score);
        }
    return LK_OK;
}

/* The command line asks for these. */
struct asked {
    bool fit;
    const char *given;
    FILE *points, *folds;
};

static enum lk_status run(const struct asked *q)
{
    enum lk_status st = LK_OK;
    struct data d = {0};
    struct scaling_series *v = NULL;
    struct lk_scaling_prior all;

    LK_TRY(published_series_read(&d.series));
    LK_TRY(make_tests(&d));
    LK_TRY(lk_alloc(&d.folds, d.series.n, sizeof *d.folds));
    if (q->given) {
        LK_TRY(print_given(&d, q->given));
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
    data_fini(&d);
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
                      .given = argc == 3 && !strcmp(what, "--given") ? argv[2] : NULL};
    enum lk_status st = LK_OK;

    if (argc > 1 && !q.fit && !q.given && !writes)
        st = lk_fail(LK_EUSAGE,
                     "usage: accuracy_scaling [--fit | --given FOLDS.csv | --points NEW.csv "
                     "[NEW_FOLDS.csv]]; it reads the table of $LOCKSTEP_DATA");
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
