/* Validation of a table of throughputs: rows are held out and predicted from the rest. */
#include "base/array.h"
#include "base/score.h"
#include "sim/forecast/baseline.h"
#include "sim/throughput/throughput.h"
#include "sim/throughput/throughput_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* X(name, heading, dimension, digits, value): an item's row. */
#define COLUMNS(X)                                                                                 \
    X("gpus", "GPUs", LK_DIM_NONE, -1, c->gpus)                                                    \
    X("nodes", "nodes", LK_DIM_NONE, -1, c->nodes)                                                 \
    X("local_batch", "local batch", LK_DIM_NONE, -1,                                               \
      c->local_batch > 0 ? (double)c->local_batch : NAN)                                           \
    X("accumulation", "accum.", LK_DIM_NONE, -1, c->accumulation)                                  \
    X("held_out", "held out", LK_DIM_NONE, -1, it->batch ? "batch" : "scale")                      \
    X("from", "from", LK_DIM_NONE, -1, rows)                                                       \
    X("measured_per_s", "measured/s", LK_DIM_NONE, 1, s->measured)                                 \
    X("predicted_per_s", "predicted/s", LK_DIM_NONE, 1, s->predicted)                              \
    X("lo_per_s", "from/s", LK_DIM_NONE, 1, s->lo)                                                 \
    X("hi_per_s", "to/s", LK_DIM_NONE, 1, s->hi)                                                   \
    X("error", "error %", LK_DIM_NONE, 2, 100 * (s->predicted / s->measured - 1))                  \
    X("law_error", "law alone %", LK_DIM_NONE, 2, 100 * (it->law_per_s / s->measured - 1))         \
    X("inside", "inside", LK_DIM_NONE, -1,                                                         \
      s->measured >= s->lo && s->measured <= s->hi ? "yes" : "no")
#define BASELINE_COLUMN_(baseline, key, text) LK_TABLE_COLUMN(key, key, LK_DIM_NONE, 2, 0)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)
                                               LK_BASELINE_LIST(BASELINE_COLUMN_)};

/* A row that is held out, and its prediction from the rest. */
struct item {
    const struct lk_scaling_point *target;
    struct lk_scaling_point rest[LK_SCALING_POINTS_MAX]; /* the rows that it is predicted from */
    size_t n;
    bool batch; /* a local batch was held out */
    struct lk_scored scored;
    double law_per_s; /* by the law alone */
};

static void baselines(const struct item *it, double *out)
{
    struct lk_scaling_point p[LK_SCALING_POINTS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < it->n; i++)
        if (lk_throughput_same_batch(&it->rest[i].config, &it->target->config) &&
            (!n || it->rest[i].config.gpus > p[n - 1].config.gpus))
            p[n++] = it->rest[i];
    for (int b = 0; b < LK_BASELINE_COUNT; b++)
        out[b] =
            n && !it->batch ? lk_baseline_throughput((enum lk_baseline)b, p, n, it->target) : NAN;
}

static enum lk_status add_row(struct lk_table *t, const struct item *it)
{
    enum lk_status st = LK_OK;
    const struct lk_config *c = &it->target->config;
    const struct lk_scored *s = &it->scored;
    double b[LK_BASELINE_COUNT];
    char rows[32];

    snprintf(rows, sizeof rows, "%zu rows", it->n);
    baselines(it, b);
    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
    for (size_t i = 0; i < LK_BASELINE_COUNT; i++)
        LK_TRY(lk_table_number(t, columns[LK_COUNT(columns) - LK_BASELINE_COUNT + i].name,
                               100 * (b[i] / s->measured - 1)));
out:
    return st;
}

/* Takes the rows that are left when a point's scale, or its batch, is held out. Returns false if
 * they are too few. */
static bool hold_out(const struct lk_throughput_table *t, size_t i, bool batch, struct item *it)
{
    const struct lk_scaling_point *p = &t->points[i];
    bool same_batch_left = false;

    *it = (struct item){.target = p, .batch = batch};
    for (size_t k = 0; k < t->n; k++) {
        const struct lk_scaling_point *r = &t->points[k];

        if (batch ? r->config.local_batch == p->config.local_batch
                  : r->config.gpus >= p->config.gpus)
            continue;
        same_batch_left |= lk_throughput_same_batch(&r->config, &p->config);
        it->rest[it->n++] = *r;
    }
    if (!batch)
        return it->n && same_batch_left;
    for (size_t k = 0; k < i; k++) /* once a batch: its smallest run */
        if (t->points[k].config.local_batch == p->config.local_batch)
            return false;
    for (size_t k = 1; k < it->n; k++)
        if (it->rest[k].config.local_batch != it->rest[0].config.local_batch)
            return true;
    return false;
}

/* Predicts the item from the rest, step NULL: by the law alone. */
static enum lk_status predict_from(const struct item *it, struct lk_step_prior *step, double level,
                                   struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_fit fit = {0};

    LK_TRY(lk_throughput_fit_init(&fit, step, it->rest, it->n));
    LK_TRY(lk_throughput_fit_at(&fit, it->target, level, out));
out:
    lk_throughput_fit_fini(&fit);
    return st;
}

enum lk_status lk_throughput_validate(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *request,
                                      struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *table = NULL;
    struct lk_scored *v = NULL;
    struct lk_step_prior *step = NULL;
    struct lk_cluster machine;
    struct item it;
    struct lk_estimate e, law;
    struct lk_score score;
    size_t n = 0;
    bool assumed;

    LK_TRY(lk_throughput_complete(t, request, &machine, &assumed));
    LK_TRY(lk_throughput_prior(request, &machine, &step));
    LK_TRY(lk_alloc(&v, 2 * t->n, sizeof *v));
    LK_TRY(lk_table_create("predictions of what was held out", columns, LK_COUNT(columns), &table));
    for (int batch = 0; batch < 2; batch++)
        for (size_t i = 0; i < t->n; i++) {
            if (!hold_out(t, i, batch, &it))
                continue;
            LK_TRY(predict_from(&it, step, request->grid.level, &e));
            LK_TRY(predict_from(&it, NULL, request->grid.level, &law));
            it.scored = (struct lk_scored){it.target->throughput, e.value, e.lo, e.hi};
            it.law_per_s = law.value;
            v[n++] = it.scored;
            LK_TRY(add_row(table, &it));
        }
    if (!n) {
        st = lk_fail(LK_EEVIDENCE,
                     "%s: nothing to hold out: one batch and accumulation at two or more counts of "
                     "GPUs is needed. The cheapest run that would supply it: %d GPUs",
                     t->name, 2 * t->points[0].config.gpus);
        goto out;
    }
    LK_TRY(lk_score_of(v, n, request->grid.level, &score));
    LK_TRY(lk_score_note(&score, table));
    LK_TRY(lk_table_note(table,
                         "the baselines' columns are their errors in %%: proportional from the "
                         "largest count, line through the last two, Amdahl, Pollux's model, from "
                         "the same batch's smaller counts"));
    *out = table;
    table = NULL;
out:
    lk_step_prior_destroy(step);
    lk_table_destroy(table);
    free(v);
    return st;
}
