/* Validation of a table of throughputs: what was held out, predicted from the rest. */
#include "base/array.h"
#include "base/score.h"
#include "sim/baseline.h"
#include "sim/throughput.h"
#include "sim/throughput_point.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_column table_columns[] = {
    {"gpus",            "GPUs",        LK_DIM_NONE, -1},
    {"nodes",           "nodes",       LK_DIM_NONE, -1},
    {"local_batch",     "local batch", LK_DIM_NONE, -1},
    {"accumulation",    "accum.",      LK_DIM_NONE, -1},
    {"held_out",        "held out",    LK_DIM_NONE, -1},
    {"from",            "from",        LK_DIM_NONE, -1},
    {"measured_per_s",  "measured/s",  LK_DIM_NONE, 1 },
    {"predicted_per_s", "predicted/s", LK_DIM_NONE, 1 },
    {"lo_per_s",        "from/s",      LK_DIM_NONE, 1 },
    {"hi_per_s",        "to/s",        LK_DIM_NONE, 1 },
    {"error",           "error %",     LK_DIM_NONE, 2 },
    {"law_error",       "law alone %", LK_DIM_NONE, 2 },
    {"inside",          "inside",      LK_DIM_NONE, -1},
};

static const char *const baseline_keys[] = {
#define LK_KEY_(baseline, key, text) key,
    LK_BASELINE_LIST(LK_KEY_)
#undef LK_KEY_
};

static enum lk_status create_table(struct lk_table **out)
{
    struct lk_column c[LK_COUNT(table_columns) + LK_BASELINE_COUNT];
    size_t n = LK_COUNT(table_columns);

    memcpy(c, table_columns, sizeof table_columns);
    for (size_t i = 0; i < LK_BASELINE_COUNT; i++)
        c[n++] = (struct lk_column){baseline_keys[i], baseline_keys[i], LK_DIM_NONE, 2};
    return lk_table_create("predictions of what was held out", c, n, out);
}

struct item {
    const struct lk_scaling_point *target;
    struct lk_scaling_point rest[LK_SCALING_POINTS_MAX]; /* what it is predicted from */
    size_t n;
    bool batch; /* a local batch was held out */
    struct lk_scored scored;
    double law_per_s; /* by the law alone */
};

static struct lk_scale_point scale_point(const struct lk_scaling_point *p)
{
    return (struct lk_scale_point){p->gpus, p->throughput, p->nodes, p->local_batch,
                                   p->accumulation};
}

static void baselines(const struct item *it, double *out)
{
    struct lk_scale_point p[LK_SCALING_POINTS_MAX], target = scale_point(it->target);
    size_t n = 0;

    for (size_t i = 0; i < it->n; i++)
        if (lk_throughput_same_batch(&it->rest[i], it->target) &&
            (!n || it->rest[i].gpus > p[n - 1].gpus))
            p[n++] = scale_point(&it->rest[i]);
    for (int b = 0; b < LK_BASELINE_COUNT; b++)
        out[b] = n && !it->batch ? lk_baseline_throughput((enum lk_baseline)b, p, n, &target) : NAN;
}

static enum lk_status add_row(struct lk_table *t, const struct item *it)
{
    enum lk_status st = LK_OK;
    const struct lk_scaling_point *p = it->target;
    const struct lk_scored *s = &it->scored;
    double b[LK_BASELINE_COUNT];

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_number(t, "gpus", p->gpus));
    LK_TRY(lk_table_number(t, "nodes", p->nodes));
    LK_TRY(lk_table_number(t, "local_batch", p->local_batch > 0 ? p->local_batch : NAN));
    LK_TRY(lk_table_number(t, "accumulation", p->accumulation));
    LK_TRY(lk_table_text(t, "held_out", "%s", it->batch ? "batch" : "scale"));
    LK_TRY(lk_table_text(t, "from", "%zu rows", it->n));
    LK_TRY(lk_table_number(t, "measured_per_s", s->measured));
    LK_TRY(lk_table_number(t, "predicted_per_s", s->predicted));
    LK_TRY(lk_table_number(t, "lo_per_s", s->lo));
    LK_TRY(lk_table_number(t, "hi_per_s", s->hi));
    LK_TRY(lk_table_number(t, "error", 100 * (s->predicted / s->measured - 1)));
    LK_TRY(lk_table_number(t, "law_error", 100 * (it->law_per_s / s->measured - 1)));
    LK_TRY(lk_table_text(t, "inside", "%s",
                         s->measured >= s->lo && s->measured <= s->hi ? "yes" : "no"));
    baselines(it, b);
    for (int i = 0; i < LK_BASELINE_COUNT; i++)
        LK_TRY(lk_table_number(t, baseline_keys[i], 100 * (b[i] / s->measured - 1)));
out:
    return st;
}

/* What is left of the table when a point's scale, or its batch, is held out; false: too little. */
static bool hold_out(const struct lk_throughput_table *t, size_t i, bool batch, struct item *it)
{
    const struct lk_scaling_point *p = &t->points[i];
    bool same_batch_left = false;

    *it = (struct item){.target = p, .batch = batch};
    for (size_t k = 0; k < t->n; k++) {
        const struct lk_scaling_point *r = &t->points[k];

        if (batch ? r->local_batch == p->local_batch : r->gpus >= p->gpus)
            continue;
        same_batch_left |= lk_throughput_same_batch(r, p);
        it->rest[it->n++] = *r;
    }
    if (!batch)
        return it->n && same_batch_left;
    for (size_t k = 0; k < i; k++) /* once a batch: its smallest run */
        if (t->points[k].local_batch == p->local_batch)
            return false;
    for (size_t k = 1; k < it->n; k++)
        if (it->rest[k].local_batch != it->rest[0].local_batch)
            return true;
    return false;
}

static enum lk_status summarise(struct lk_table *t, const struct lk_scored *v, size_t n,
                                double level)
{
    enum lk_status st = LK_OK;
    struct lk_score s;

    LK_TRY(lk_score_of(v, n, level, &s));
    LK_TRY(lk_score_note(&s, t));
    LK_TRY(lk_table_note(t,
                         "the baselines' columns are their errors in %%: proportional from the "
                         "largest count, line through the last two, Amdahl, Pollux's model, from "
                         "the same batch's smaller counts"));
out:
    return st;
}

static enum lk_status predict_from(const struct item *it, struct lk_step_prior *step, double level,
                                   struct lk_throughput_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_fit fit = {0};

    LK_TRY(lk_throughput_fit_init(&fit, step, it->rest, it->n));
    LK_TRY(lk_throughput_fit_at(&fit, it->target, level, out));
out:
    lk_throughput_fit_fini(&fit);
    return st;
}

static enum lk_status predict_item(struct item *it, struct lk_step_prior *step, double level)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_estimate e, law;

    LK_TRY(predict_from(it, step, level, &e));
    LK_TRY(predict_from(it, NULL, level, &law));
    it->scored = (struct lk_scored){it->target->throughput, e.value, e.lo, e.hi};
    it->law_per_s = law.value;
out:
    return st;
}

enum lk_status lk_throughput_validate(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *request,
                                      struct lk_table **out)
{
    enum lk_status st = LK_OK;
    const struct lk_throughput_model *m = request->model;
    struct lk_table *table = NULL;
    struct lk_scored *v = NULL;
    struct lk_step_prior *step = NULL;
    struct lk_cluster cluster;
    struct item it;
    size_t n = 0;
    bool assumed;

    LK_TRY(lk_throughput_prior(
        t, request, &cluster,
        lk_throughput_per_node(t, request->gpus_per_node, m ? m->cluster : NULL, &assumed), &step));
    LK_TRY(lk_alloc(&v, 2 * t->n, sizeof *v));
    LK_TRY(create_table(&table));
    for (int batch = 0; batch < 2; batch++)
        for (size_t i = 0; i < t->n; i++) {
            if (!hold_out(t, i, batch, &it))
                continue;
            LK_TRY(predict_item(&it, step, request->level));
            v[n++] = it.scored;
            LK_TRY(add_row(table, &it));
        }
    if (!n) {
        st = lk_fail(LK_EEVIDENCE,
                     "%s: nothing to hold out: one batch and accumulation at two or more counts of "
                     "GPUs is needed. The cheapest run that would supply it: %g GPUs",
                     t->name, 2 * t->points[0].gpus);
        goto out;
    }
    LK_TRY(summarise(table, v, n, request->level));
    *out = table;
    table = NULL;
out:
    lk_step_prior_destroy(step);
    lk_table_destroy(table);
    free(v);
    return st;
}
