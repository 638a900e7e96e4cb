/* The frontier of time and cost; see the header. */
#include "facts/frontier.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct ranked {
    double time_h, cost;
    size_t point;
};

static int by_time(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;
    int order = LK_ORDER(a->time_h, b->time_h);

    order = order ? order : LK_ORDER(a->cost, b->cost);
    return order ? order : LK_ORDER(a->point, b->point);
}

static size_t collect(const struct lk_forecast *f, struct ranked *v)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_plan *p = &f->points[i].plan;

        if (p->known && !isnan(p->probability) && isfinite(p->time_to_target_h) &&
            isfinite(p->cost_to_target))
            v[n++] = (struct ranked){p->time_to_target_h, p->cost_to_target, i};
    }
    return n;
}

enum lk_status lk_frontier_list(const struct lk_forecast *f, double apart, size_t **out, size_t *n)
{
    enum lk_status st = LK_OK;
    struct ranked *v = NULL;
    size_t *at = NULL, all, kept = 0, last = SIZE_MAX;
    double least = INFINITY, cost = INFINITY;

    LK_TRY(lk_alloc(&v, f->n_points, sizeof *v));
    LK_TRY(lk_alloc(&at, f->n_points, sizeof *at));
    all = collect(f, v);
    if (all)
        qsort(v, all, sizeof *v, by_time);
    for (size_t i = 0; i < all; i++) {
        if (!(v[i].cost < least))
            continue;
        least = v[i].cost;
        last = v[i].point;
        if (!(v[i].cost < cost * (1 - apart)))
            continue;
        cost = v[i].cost;
        at[kept++] = v[i].point;
    }
    if (kept && at[kept - 1] != last)
        at[kept++] = last;
    *n = kept;
    LK_HAND_OVER(out, at);
out:
    free(at);
    free(v);
    return st;
}

#define COLUMNS(X)                                                                                 \
    X("gpus", "GPUs", LK_DIM_NONE, -1, p->config.world_size)                                       \
    X("local_batch", "local batch", LK_DIM_NONE, -1, p->config.local_batch)                        \
    X("accumulation", "accumulation", LK_DIM_NONE, -1, p->config.accumulation)                     \
    X("bucket_cap_bytes", "bucket cap", LK_DIM_BYTES, -1, (double)p->config.cap_bytes)             \
    X("probability", "reaches the goal", LK_DIM_NONE, LK_TABLE_PERCENT, q->probability)            \
    X("time_to_target_h", "hours", LK_DIM_NONE, 2, q->time_to_target_h)                            \
    X("time_to_target_lo_h", "from", LK_DIM_NONE, 2, q->time_to_target_lo_h)                       \
    X("time_to_target_hi_h", "to", LK_DIM_NONE, 2, q->time_to_target_hi_h)                         \
    X("cost_to_target", "cost", LK_DIM_NONE, 2, q->cost_to_target)                                 \
    X("cost_to_target_lo", "from", LK_DIM_NONE, 2, q->cost_to_target_lo)                           \
    X("cost_to_target_hi", "to", LK_DIM_NONE, 2, q->cost_to_target_hi)                             \
    X("throughput_per_s", "samples/s", LK_DIM_NONE, 1, p->throughput_per_s)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};

static enum lk_status add_row(struct lk_table *t, const struct lk_forecast *f,
                              const struct lk_forecast_point *p, const char *what)
{
    const struct lk_plan *q = &p->plan;
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
    for (size_t i = 0; i < f->n_axes; i++)
        if (*p->words[i])
            LK_TRY(lk_table_word(t, f->axes[i], p->words[i]));
    if (what)
        LK_TRY(lk_table_word(t, "what", what));
out:
    return st;
}

enum lk_status lk_frontier_table(const struct lk_forecast *f, const char *title, const size_t *at,
                                 const char *const *what, size_t n, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_column all[1 + LK_COUNT(columns) + LK_FORECAST_AXES_MAX];
    struct lk_table *t = NULL;
    size_t k = 0;

    if (what)
        all[k++] = (struct lk_column){"what", "which", LK_DIM_NONE, -1};
    for (size_t i = 0; i < LK_COUNT(columns); i++)
        all[k++] = columns[i];
    for (size_t i = 0; i < f->n_axes; i++)
        all[k++] = (struct lk_column){f->axes[i], f->axes[i], LK_DIM_NONE, -1};
    LK_TRY(lk_table_create(title, all, k, &t));
    for (size_t i = 0; i < n; i++)
        LK_TRY(add_row(t, f, &f->points[at[i]], what ? what[i] : NULL));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}
