/*
 * The forecast from a table of throughputs against published measurements: the largest count of
 * GPUs of every series from its smaller ones, with constants fitted to other sources only.
 *
 *     build/bench/accuracy_scaling [FILE.csv]     tables in Markdown; FILE.csv: every held-out
 * point build/bench/accuracy_scaling --fit          prints the values of LK_SCALING_LIST
 *
 * Data: $LOCKSTEP_DATA/published_scaling.csv, else bench/data's. A series: rows of one source
 * file, model, GPU, precision, batch per GPU, accumulation, sequence length and interconnect, at
 * three counts or more; of several rows at a count the last one counts. Constants are fitted to the
 * series of tier A and, with 0.3 of the weight, tier B that are of other source files (or of other
 * repositories: the harder test): whole files are dealt to 8 folds, each predicted from the rest.
 */
#include "base/array.h"
#include "base/score.h"
#include "bench/lib/published.h"
#include "bench/lib/scaling_fit.h"
#include "sim/forecast/baseline.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_ITERATIONS = 400, FOLD_ITERATIONS = 120, FOLDS = 8 };
static const double LEVEL = 0.90;
static const double TIER_B_WEIGHT = 0.3;

/* ---- Data ---- */

/* Columns that are equal in all rows of a series. */
static const enum published_column key_columns[] = {
    PUBLISHED_MODEL, PUBLISHED_GPU, PUBLISHED_PRECISION,   PUBLISHED_BATCH,
    PUBLISHED_ACCUM, PUBLISHED_SEQ, PUBLISHED_INTERCONNECT};

struct series {
    char *key, *source, *repository, *name, *gpu, *framework;
    char tier;
    int fold;
    struct lk_scored ours;
    double baseline[LK_BASELINE_COUNT];
    struct lk_scaling_point *points; /* ascending */
    size_t n, capacity;
};

struct data {
    struct series *v;
    size_t n, capacity;
};

static void series_fini(struct series *s)
{
    free(s->key);
    free(s->source);
    free(s->repository);
    free(s->name);
    free(s->gpu);
    free(s->framework);
    free(s->points);
}

static void data_fini(struct data *d)
{
    for (size_t i = 0; i < d->n; i++)
        series_fini(&d->v[i]);
    free(d->v);
}

/* Return the framework that a note ends with. */
static const char *framework_of(const char *note)
{
    static const char *const known[] = {"PyTorch", "TensorFlow", "TensorFlow2", "MxNet"};
    const char *last = strrchr(note, ';');

    for (size_t i = 0; last && i < LK_COUNT(known); i++)
        if (!strcmp(last + 2, known[i]))
            return known[i];
    return "not said";
}

static enum lk_status new_series(struct data *d, const struct lk_csv *t, size_t row, char *key,
                                 size_t source_length, struct series **out)
{
    enum lk_status st = LK_OK;
    struct series s = {.key = key};
    const char *source, *model, *gpu, *precision, *note;

    LK_TRY(published_cell(t, row, PUBLISHED_SOURCE, &source));
    LK_TRY(published_cell(t, row, PUBLISHED_MODEL, &model));
    LK_TRY(published_cell(t, row, PUBLISHED_GPU, &gpu));
    LK_TRY(published_cell(t, row, PUBLISHED_PRECISION, &precision));
    LK_TRY(published_cell(t, row, PUBLISHED_NOTE, &note));
    LK_TRY(lk_array_grow(&d->v, &d->capacity, d->n + 1, sizeof *d->v));
    *out = &d->v[d->n++];
    **out = s;
    LK_TRY(lk_strndup(&(*out)->source, source, source_length));
    LK_TRY(lk_strndup(&(*out)->repository, source, strcspn(source, "@ ")));
    LK_TRY(lk_asprintf(&(*out)->name, "%s %s %s", model, gpu, precision));
    LK_TRY(lk_strndup(&(*out)->gpu, gpu, strcspn(gpu, "- ")));
    LK_TRY(lk_strdup(&(*out)->framework, framework_of(note)));
    (*out)->tier = note[5];
out:
    return st;
}

static enum lk_status add_point(struct series *s, struct lk_scaling_point p)
{
    enum lk_status st = LK_OK;
    size_t at = 0;

    while (at < s->n && s->points[at].config.world_size < p.config.world_size)
        at++;
    if (at < s->n && s->points[at].config.world_size == p.config.world_size) {
        s->points[at] = p;
        return LK_OK;
    }
    LK_TRY(lk_array_grow(&s->points, &s->capacity, s->n + 1, sizeof *s->points));
    memmove(&s->points[at + 1], &s->points[at], (s->n - at) * sizeof *s->points);
    s->points[at] = p;
    s->n++;
out:
    return st;
}

static enum lk_status add_row(struct data *d, const struct lk_csv *t, size_t row)
{
    enum lk_status st = LK_OK;
    struct series *s = NULL;
    char *key = NULL;
    size_t source_length;
    int64_t world_size, per_node = 0;
    struct lk_scaling_point p = {.config.accumulation = 1};

    LK_TRY(lk_csv_int(t, row, PUBLISHED_N_GPUS, 1, 1 << 24, &world_size));
    if (lk_csv_has(t, row, PUBLISHED_GPUS_PER_NODE))
        LK_TRY(lk_csv_int(t, row, PUBLISHED_GPUS_PER_NODE, 1, 1 << 24, &per_node));
    LK_TRY(lk_csv_positive(t, row, PUBLISHED_THROUGHPUT, &p.throughput));
    p.config.world_size = (int)world_size;
    p.config.nodes = per_node > 0 ? (int)((world_size - 1) / per_node) + 1 : 1;
    LK_TRY(published_key(t, row, key_columns, LK_COUNT(key_columns), &key, &source_length));
    for (size_t i = 0; i < d->n && !s; i++)
        if (!strcmp(d->v[i].key, key))
            s = &d->v[i];
    if (!s) {
        LK_TRY(new_series(d, t, row, key, source_length, &s));
        key = NULL;
    }
    LK_TRY(add_point(s, p));
out:
    free(key);
    return st;
}

static enum lk_status read_data(const char *tiers, struct data *d)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;
    size_t kept = 0;

    LK_TRY(published_load(&t));
    for (size_t i = 0; i < lk_csv_rows(t); i++) {
        bool counts;

        LK_TRY(published_counts(t, i, tiers, &counts));
        if (counts)
            LK_TRY(add_row(d, t, i));
    }
    for (size_t i = 0; i < d->n; i++) {
        struct series s = d->v[i];

        if (s.n < 3)
            series_fini(&s);
        else
            d->v[kept++] = s;
    }
    d->n = kept;
out:
    lk_csv_free(t);
    return st;
}

/* ---- Fits ---- */

static const char *group_of(const struct series *s, bool by_repository)
{
    return by_repository ? s->repository : s->source;
}

/* The series outside this fold (-1: all) as the fit takes them. */
static void weigh(const struct data *d, int fold, struct scaling_series *out)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct series *s = &d->v[i];
        double same = 0;

        for (size_t k = 0; k < d->n; k++)
            same += !strcmp(s->source, d->v[k].source);
        out[i] = (struct scaling_series){s->points, s->n,
                                         (s->tier == 'B' ? TIER_B_WEIGHT : 1) / sqrt(same)};
        if (s->fold == fold)
            out[i].weight = 0;
    }
}

static enum lk_status predict(struct series *s, const struct lk_scaling_prior *p)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    const struct lk_scaling_point *t = &s->points[s->n - 1];

    LK_TRY(lk_scaling_predict(p, s->points, s->n - 1, t, 1, 0, &m));
    lk_mixture_normalise(&m, NULL);
    s->ours = (struct lk_scored){
        .measured = t->throughput,
        .predicted = t->config.world_size / exp(lk_mixture_quantile(&m, 0.5)),
        .lo = t->config.world_size / exp(lk_mixture_quantile(&m, (1 + LEVEL) / 2)),
        .hi = t->config.world_size / exp(lk_mixture_quantile(&m, (1 - LEVEL) / 2))};
    for (int i = 0; i < LK_BASELINE_COUNT; i++)
        s->baseline[i] = lk_baseline_throughput((enum lk_baseline)i, s->points, s->n - 1, t);
out:
    lk_mixture_fini(&m);
    return st;
}

/* Whole groups to folds in turn, in the order of the file. */
static void deal(struct data *d, bool by_repository)
{
    int groups = 0;

    for (size_t i = 0; i < d->n; i++) {
        d->v[i].fold = -1;
        for (size_t k = 0; k < i && d->v[i].fold < 0; k++)
            if (!strcmp(group_of(&d->v[k], by_repository), group_of(&d->v[i], by_repository)))
                d->v[i].fold = d->v[k].fold;
        if (d->v[i].fold < 0)
            d->v[i].fold = groups++ % FOLDS;
    }
}

/* Every series by constants fitted to other groups. */
static enum lk_status predict_all(struct data *d, const struct lk_scaling_prior *all,
                                  bool by_repository)
{
    enum lk_status st = LK_OK;
    struct scaling_series *v = NULL;
    struct lk_scaling_prior p;

    LK_TRY(lk_alloc(&v, d->n, sizeof *v));
    deal(d, by_repository);
    for (int fold = 0; fold < FOLDS; fold++) {
        weigh(d, fold, v);
        LK_TRY(scaling_fit(v, d->n, all, FOLD_ITERATIONS, &p));
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].fold == fold)
                LK_TRY(predict(&d->v[i], &p));
    }
out:
    free(v);
    return st;
}

/* ---- Tables ---- */

/* A subset of the series; value NULL: all of the tier. */
struct subset {
    char tier;
    size_t field; /* offset in struct series of the text compared with */
    const char *value;
    double least_jump, most_jump; /* of the largest count over the one before */
};

static bool in_subset(const struct series *s, const struct subset *q)
{
    double jump =
        (double)s->points[s->n - 1].config.world_size / s->points[s->n - 2].config.world_size;

    return (s->tier == q->tier || !q->tier) && jump >= q->least_jump && jump <= q->most_jump &&
           (!q->value || !strcmp(*(char *const *)((const char *)s + q->field), q->value));
}

/* which: a baseline, or LK_BASELINE_COUNT for ours. */
static enum lk_status score(const struct data *d, const struct subset *q, int which,
                            struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&v, d->n, sizeof *v));
    for (size_t i = 0; i < d->n; i++)
        if (in_subset(&d->v[i], q)) {
            v[n] = d->v[i].ours;
            if (which < LK_BASELINE_COUNT)
                v[n] = (struct lk_scored){v[n].measured, d->v[i].baseline[which], NAN, NAN};
            n++;
        }
    LK_TRY(lk_score_of(v, n, LEVEL, out));
out:
    free(v);
    return st;
}

static enum lk_status print_subset(const struct data *d, const char *name, const struct subset *q)
{
    enum lk_status st = LK_OK;
    struct lk_score s, line;

    LK_TRY(score(d, q, LK_BASELINE_COUNT, &s));
    if (!s.n)
        return LK_OK;
    LK_TRY(score(d, q, LK_BASELINE_LINE, &line));
    printf(
        "| %s | %zu | %.2f / %.2f / %.1f | %.2f / %.2f / %.1f | %zu (%.0f to %.0f %%) | %.1f %% |"
        " %.3f | %.1f %% | %.3f |\n",
        name, s.n, 100 * s.errors.mean, 100 * s.errors.median, 100 * s.errors.worst,
        100 * line.errors.mean, 100 * line.errors.median, 100 * line.errors.worst, s.inside,
        100 * s.share.lo, 100 * s.share.hi, 100 * s.width, s.score, 100 * s.constant_width,
        s.constant_score);
out:
    return st;
}

static enum lk_status print_baselines(const struct data *d, char tier)
{
    enum lk_status st = LK_OK;
    struct subset q = {.tier = tier, .most_jump = INFINITY};
    struct lk_score s;

    printf("\n| tier %c | mean %% | median %% | worst %% | of |\n|---|---|---|---|---|\n", tier);
    for (int i = LK_BASELINE_COUNT; i >= 0; i--) {
        LK_TRY(score(d, &q, i, &s));
        printf("| %s | %.2f | %.2f | %.1f | %zu |\n",
               i == LK_BASELINE_COUNT ? "**lockstep**" : lk_baseline_text((enum lk_baseline)i),
               100 * s.errors.mean, 100 * s.errors.median, 100 * s.errors.worst, s.errors.n);
    }
out:
    return st;
}

static void print_heading(const char *what)
{
    printf(
        "\n| %s | points | error: mean / median / worst %% | of the line | inside | mean width | "
        "score | constant width | its score |\n|---|---|---|---|---|---|---|---|---|\n",
        what);
}

static enum lk_status print_values(const struct data *d, size_t field)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < d->n; i++) {
        struct subset q = {'A', field, *(char *const *)((const char *)&d->v[i] + field), 0,
                           INFINITY};
        bool seen = !in_subset(&d->v[i], &q);

        for (size_t k = 0; k < i && !seen; k++)
            seen = in_subset(&d->v[k], &q);
        if (!seen)
            LK_TRY(print_subset(d, q.value, &q));
    }
out:
    return st;
}

static enum lk_status print_details(const struct data *d)
{
    static const struct {
        const char *name;
        struct subset q;
    } jumps[] = {
        {"tiers A and B together", {0, 0, NULL, 0, INFINITY}},
        {"tier A, all", {'A', 0, NULL, 0, INFINITY}},
        {"tier A, to twice the GPUs", {'A', 0, NULL, 0, 2}},
        {"tier A, to more than twice", {'A', 0, NULL, 2.01, INFINITY}},
        {"tier B, all", {'B', 0, NULL, 0, INFINITY}},
        {"tier B, to more than twice", {'B', 0, NULL, 2.01, INFINITY}},
    };
    enum lk_status st = LK_OK;

    print_heading("series");
    for (size_t i = 0; i < LK_COUNT(jumps); i++)
        LK_TRY(print_subset(d, jumps[i].name, &jumps[i].q));
    print_heading("tier A by framework");
    LK_TRY(print_values(d, offsetof(struct series, framework)));
    print_heading("tier A by GPU");
    LK_TRY(print_values(d, offsetof(struct series, gpu)));
    print_heading("tier A by source file");
    LK_TRY(print_values(d, offsetof(struct series, source)));
out:
    return st;
}

static enum lk_status write_csv(const char *path, const struct data *d)
{
    FILE *f = fopen(path, "w");
    int failed;

    if (!f)
        return lk_fail(LK_EIO, "%s: cannot be written", path);
    fprintf(f, "#tier,source,series,from_gpus,gpus,nodes,measured,predicted,lo,hi");
    for (int i = 0; i < LK_BASELINE_COUNT; i++)
        fprintf(f, ",baseline_%d", i);
    for (size_t i = 0; i < d->n; i++) {
        const struct series *s = &d->v[i];
        const struct lk_scaling_point *t = &s->points[s->n - 1];

        fprintf(f, "\n%c,\"%s\",\"%s\",%d,%d,%d,%.6g,%.6g,%.6g,%.6g", s->tier, s->source, s->name,
                t[-1].config.world_size, t->config.world_size, t->config.nodes, s->ours.measured,
                s->ours.predicted, s->ours.lo, s->ours.hi);
        for (int k = 0; k < LK_BASELINE_COUNT; k++)
            fprintf(f, ",%.6g", s->baseline[k]);
    }
    fprintf(f, "\n");
    failed = ferror(f);
    return fclose(f) || failed ? lk_fail(LK_EIO, "%s: write failed", path) : LK_OK;
}

/* ---- Main ---- */

static enum lk_status evaluate(struct data *d, const struct lk_scaling_prior *all, const char *csv)
{
    enum lk_status st = LK_OK;
    struct subset tier_a = {.tier = 'A', .most_jump = INFINITY};

    LK_TRY(predict_all(d, all, false));
    LK_TRY(print_baselines(d, 'A'));
    LK_TRY(print_baselines(d, 'B'));
    LK_TRY(print_details(d));
    if (csv)
        LK_TRY(write_csv(csv, d));
    LK_TRY(predict_all(d, all, true));
    print_heading("constants of other repositories");
    LK_TRY(print_subset(d, "tier A", &tier_a));
out:
    return st;
}

static enum lk_status run(const char *word)
{
    enum lk_status st = LK_OK;
    struct data d = {0};
    struct scaling_series *v = NULL;
    struct lk_scaling_prior all;

    LK_TRY(read_data("AB", &d));
    LK_TRY(lk_alloc(&v, d.n, sizeof *v));
    weigh(&d, -1, v);
    LK_TRY(scaling_fit(v, d.n, &scaling_start, ALL_ITERATIONS, &all));
    if (word && !strcmp(word, "--fit")) {
#define PRINT(field, value, text) printf("X(%s, %.4g)\n", #field, all.field);
        LK_SCALING_LIST(PRINT)
#undef PRINT
    } else {
        LK_TRY(evaluate(&d, &all, word));
    }
out:
    free(v);
    data_fini(&d);
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = run(argc > 1 ? argv[1] : NULL);

    if (st != LK_OK)
        fprintf(stderr, "bench/accuracy_scaling: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
