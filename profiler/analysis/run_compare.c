/* Comparisons of runs; see the header. Divisions: runs of a configuration, comparing, the table. */
#include "profiler/analysis/run_compare.h"

#include "base/array.h"
#include "base/label.h"
#include "base/rng.h"
#include "base/stats.h"
#include "profiler/analysis/analysis.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

const struct lk_words lk_run_part_words = LK_WORDS("a part of a step", LK_RUN_PART_LIST);

enum {
    BLOCK_STEPS = 5, /* of the bootstrap: over so many steps they are assumed to be correlated */
    RESAMPLES = 2000
};

/* ---- Runs of a configuration ---- */

static bool same_configuration(const struct lk_run *x, const struct lk_run *y)
{
    const struct lk_run_info *a = lk_run_about(x), *b = lk_run_about(y);

    return a->world_size == b->world_size && lk_run_info_same_batches(a, b) &&
           a->accumulation == b->accumulation && a->no_sync == b->no_sync &&
           a->overlap == b->overlap && a->algorithm == b->algorithm && a->sharding == b->sharding &&
           a->shard_group == b->shard_group && a->scatter == b->scatter;
}

/* Return the first run of a set with the configuration of another one, or NULL. */
static const struct lk_run *find_run(const struct lk_run_set *s, const struct lk_run *like)
{
    for (size_t i = 0; i < s->n; i++)
        if (same_configuration(&s->runs[i], like))
            return &s->runs[i];
    return NULL;
}

/* The repetitions of one configuration. */
struct group {
    struct lk_series *series; /* owned, with their samples */
    double *means;
    size_t n;
    double parts_s[LK_RUN_PART_COUNT];
};

static void free_group(struct group *g)
{
    for (size_t i = 0; i < g->n; i++)
        free((void *)(uintptr_t)g->series[i].v);
    free(g->series);
    free(g->means);
    *g = (struct group){0};
}

/* Take the times of a run's steps after the warm-up, each the mean over the ranks. */
static enum lk_status step_times(const struct lk_run *run, struct lk_series *out)
{
    double *v = NULL;

    LK_PASS(lk_alloc(&v, run->n_timed + 1, sizeof *v));
    for (size_t i = 0; i < run->n_timed; i++) {
        for (size_t k = 0; k < run->n; k++)
            v[i] += lk_step_window_s(lk_rank_step(&run->ranks[k], run->timed[i]));
        v[i] /= (double)run->n;
    }
    *out = (struct lk_series){v, run->n_timed};
    return LK_OK;
}

/* Add the parts of a run's mean step; unknown ones make the sums NaN. */
static enum lk_status add_parts(const struct lk_run *run, double *parts_s)
{
    static const enum lk_run_part of[LK_PART_COUNT] = {[LK_PART_FORWARD] = LK_RUN_COMPUTE,
                                                       [LK_PART_BACKWARD] = LK_RUN_COMPUTE,
                                                       [LK_PART_OPTIMIZER] = LK_RUN_OPTIMIZER,
                                                       [LK_PART_LAUNCH] = LK_RUN_COMMUNICATION,
                                                       [LK_PART_STRAGGLER] = LK_RUN_COMMUNICATION,
                                                       [LK_PART_WIRE] = LK_RUN_COMMUNICATION,
                                                       [LK_PART_INPUT] = LK_RUN_INPUT,
                                                       [LK_PART_GAP] = LK_RUN_GAP};
    struct lk_analysis a = {0};
    enum lk_status st = lk_analyze(run, NULL, 0, &a);

    for (size_t k = 0; st == LK_OK && k < run->n; k++)
        for (int p = 0; p < LK_PART_COUNT; p++)
            parts_s[of[p]] += a.ranks[k].split.s[p] / (double)run->n;
    for (int p = 0; (st == LK_EEVIDENCE || st == LK_EUSAGE) && p < LK_RUN_PART_COUNT; p++)
        parts_s[p] = NAN;
    lk_analysis_fini(&a);
    return st == LK_EEVIDENCE || st == LK_EUSAGE ? LK_OK : st;
}

/* Gather the runs of a set with the configuration of `like` that have timed steps. */
static enum lk_status gather(const struct lk_run_set *s, const struct lk_run *like,
                             struct group *out)
{
    enum lk_status st = LK_OK;
    struct group g = {0};

    LK_TRY(lk_alloc(&g.series, s->n, sizeof *g.series));
    LK_TRY(lk_alloc(&g.means, s->n, sizeof *g.means));
    for (size_t i = 0; i < s->n; i++) {
        if (!same_configuration(&s->runs[i], like) || !s->runs[i].n_timed)
            continue;
        LK_TRY(step_times(&s->runs[i], &g.series[g.n]));
        g.means[g.n] = lk_stats_mean(g.series[g.n].v, g.series[g.n].n);
        g.n++;
        LK_TRY(add_parts(&s->runs[i], g.parts_s));
    }
    for (int p = 0; p < LK_RUN_PART_COUNT && g.n; p++)
        g.parts_s[p] /= (double)g.n;
    *out = g;
    g = (struct group){0};
out:
    free_group(&g);
    return st;
}

/* ---- Comparing ---- */

static enum lk_status name_row(const struct lk_run_info *info, struct lk_compared *row)
{
    LK_PASS(lk_label_add(&row->labels, "gpus", "%d", info->world_size));
    LK_PASS(lk_label_add(&row->labels, "local_batch", "%d", info->local_batch));
    LK_PASS(lk_label_add(&row->labels, "accumulation", "%d", info->accumulation));
    return info->accumulation > 1
               ? lk_asprintf(&row->what, "%d GPU%s, batch %d x %d", info->world_size,
                             info->world_size == 1 ? "" : "s", info->local_batch,
                             info->accumulation)
               : lk_asprintf(&row->what, "%d GPU%s, batch %d", info->world_size,
                             info->world_size == 1 ? "" : "s", info->local_batch);
}

static enum lk_status add_pair(const struct lk_run_info *info, const struct group *a,
                               const struct group *b, struct lk_run_comparison *out)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("compare", out->points.n));
    struct lk_compared row = {.dim = LK_DIM_TIME, .gpus = info->world_size};
    struct lk_run_pair pair = {
        .n_a = a->n, .n_b = b->n, .world_size = info->world_size, .local_batch = info->local_batch};
    enum lk_status st = LK_OK;
    struct lk_estimate ratio;
    const bool repeated = a->n > 1 && b->n > 1;

    for (int p = 0; p < LK_RUN_PART_COUNT; p++) {
        pair.a_s[p] = a->parts_s[p];
        pair.b_s[p] = b->parts_s[p];
    }
    LK_TRY(lk_array_grow(&out->pairs, &out->capacity, out->points.n + 1, sizeof *out->pairs));
    LK_TRY(lk_stats_repeated_mean(a->series, a->n, BLOCK_STEPS, RESAMPLES, LK_COMPARE_LEVEL, &g,
                                  &row.a));
    LK_TRY(lk_stats_repeated_mean(b->series, b->n, BLOCK_STEPS, RESAMPLES, LK_COMPARE_LEVEL, &g,
                                  &row.b));
    if (repeated)
        ratio = lk_compare_welch(a->means, a->n, b->means, b->n, LK_COMPARE_LEVEL);
    LK_TRY(name_row(info, &row));
    out->pairs[out->points.n] = pair;
    st = lk_compare_add(&out->points, row, repeated ? &ratio : NULL);
    row.what = row.labels = NULL;
out:
    free(row.what);
    free(row.labels);
    return st;
}

enum lk_status lk_compare_runs(const struct lk_run_set *a, const struct lk_run_set *b,
                               struct lk_run_comparison *out)
{
    enum lk_status st = LK_OK;
    struct group x = {0}, y = {0};

    for (size_t i = 0; i < a->n; i++) {
        const struct lk_run *run = &a->runs[i];

        if (find_run(a, run) != run)
            continue;
        LK_TRY(gather(a, run, &x));
        LK_TRY(gather(b, run, &y));
        if (x.n && y.n)
            LK_TRY(add_pair(lk_run_about(run), &x, &y, out));
        else
            out->points.only_a++;
        free_group(&x);
        free_group(&y);
    }
    for (size_t i = 0; i < b->n; i++)
        out->points.only_b += find_run(b, &b->runs[i]) == &b->runs[i] && !find_run(a, &b->runs[i]);
out:
    free_group(&x);
    free_group(&y);
    return st;
}

void lk_run_comparison_fini(struct lk_run_comparison *c)
{
    lk_comparison_fini(&c->points);
    free(c->pairs);
    *c = (struct lk_run_comparison){0};
}

/* ---- The table ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define COLUMNS(X)                                                                                 \
    X("what",         "runs",       LK_DIM_NONE, -1, c->points.rows[i].what)                       \
    X("part",         "part",       LK_DIM_NONE, -1, lk_run_part_words.names[p])                   \
    X("a_s",          "A",          LK_DIM_TIME, -1, pair->a_s[p])                                 \
    X("b_s",          "B",          LK_DIM_TIME, -1, pair->b_s[p])                                 \
    X("difference_s", "difference", LK_DIM_TIME, -1, pair->b_s[p] - pair->a_s[p])

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
/* clang-format on */

enum lk_status lk_run_parts_table(const struct lk_run_comparison *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Parts of a step, mean over ranks", columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < c->points.n; i++) {
        const struct lk_run_pair *pair = &c->pairs[i];

        for (int p = 0; p < LK_RUN_PART_COUNT; p++) {
            LK_TRY(lk_table_row(t));
            COLUMNS(LK_TABLE_CELL)
        }
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
