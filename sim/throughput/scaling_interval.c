/* Quantiles of the scaling law, by scores and by the order of counts. */
#include "sim/throughput/scaling_interval.h"

#include "base/array.h"
#include "sim/throughput/scaling_widths.h"

#include <math.h>

enum { ENDS = 3 }; /* y at the lower end, the median and the upper end */
static const double JUDGED_LEVEL = 0.9;

/* ---- Kinds ---- */

static double samples_a_rank(const struct lk_config *c)
{
    return (double)c->local_batch * c->accumulation;
}

/* Return the row with most GPUs of those with the target's samples a rank, or of its global batch;
 * NULL: none. */
static const struct lk_config *largest(const struct lk_scaling_point *points, size_t n,
                                       const struct lk_config *target, bool strong)
{
    const struct lk_config *found = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct lk_config *c = &points[i].config;
        double more = samples_a_rank(c) * (strong ? c->world_size : 1);
        double asked = samples_a_rank(target) * (strong ? target->world_size : 1);

        if (fabs(more - asked) <= 1e-9 * asked && (!found || c->world_size > found->world_size))
            found = c;
    }
    return found;
}

struct lk_scaling_kind lk_scaling_kind_of(const struct lk_scaling_point *points, size_t n,
                                          const struct lk_config *target)
{
    for (int strong = 0; strong < 2; strong++) {
        const struct lk_config *last = largest(points, n, target, strong);

        if (last && last->world_size < target->world_size) {
            double lg = round(log2((double)target->world_size / last->world_size));

            return (struct lk_scaling_kind){strong, (int)fmax(1, fmin(LK_SCALING_DOUBLINGS, lg))};
        }
        if (last)
            break;
    }
    return (struct lk_scaling_kind){false, 0};
}

/* ---- Widths ---- */

void lk_scaling_widths_none(struct lk_scaling_widths *out)
{
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < LK_SCALING_DOUBLINGS; k++)
            out->half[s][k] = NAN;
}

const struct lk_scaling_judged *lk_scaling_judged(struct lk_scaling_kind kind)
{
    static const struct lk_scaling_judged rows[] = {
#define ROW(...) {__VA_ARGS__},
        LK_SCALING_WIDTH_LIST(ROW)
#undef ROW
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].strong == kind.strong && rows[i].doublings == kind.doublings)
            return &rows[i];
    return NULL;
}

void lk_scaling_widths_init(struct lk_scaling_widths *out)
{
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < LK_SCALING_DOUBLINGS; k++) {
            const struct lk_scaling_judged *j =
                lk_scaling_judged((struct lk_scaling_kind){s, k + 1});

            out->half[s][k] = j && j->half > 0 ? j->half : NAN;
        }
}

/* ---- Quantiles ---- */

/* A forecast's rows and rules. */
struct evidence {
    const struct lk_scaling_prior *prior;
    const struct lk_scaling_widths *widths;
    const struct lk_scaling_point *points;
    size_t n;
    double level;
};

static enum lk_status ends_at(const struct evidence *e, const struct lk_scaling_point *target,
                              double *y)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    struct lk_scaling_kind kind = lk_scaling_kind_of(e->points, e->n, &target->config);
    double half = kind.doublings ? e->widths->half[kind.strong][kind.doublings - 1] : NAN;

    LK_TRY(lk_scaling_predict(e->prior, e->points, e->n, target, &m));
    lk_mixture_normalise(&m, NULL);
    y[1] = lk_mixture_quantile(&m, 0.5);
    if (isnan(half)) {
        y[0] = lk_mixture_quantile(&m, (1 - e->level) / 2);
        y[2] = lk_mixture_quantile(&m, (1 + e->level) / 2);
    } else {
        half *= lk_stats_normal_quantile((1 + e->level) / 2) /
                lk_stats_normal_quantile((1 + JUDGED_LEVEL) / 2);
        y[0] = y[1] - half;
        y[2] = y[1] + half;
    }
out:
    lk_mixture_fini(&m);
    return st;
}

/* Compute the ends at `times` the GPUs of the last row, on nodes as full as the target's. */
static enum lk_status ends_between(const struct evidence *e, const struct lk_config *last,
                                   const struct lk_config *target, int times, double *y)
{
    struct lk_scaling_point p = {.config = *target};
    int per_node = (target->world_size + target->nodes - 1) / target->nodes;

    p.config.world_size = last->world_size * times;
    p.config.nodes = (p.config.world_size + per_node - 1) / per_node;
    p.config.nodes = p.config.nodes > last->nodes ? p.config.nodes : last->nodes;
    return ends_at(e, &p, y);
}

/* Keep the order of steps of one local batch beyond the last row. */
static enum lk_status keep_order(const struct evidence *e, const struct lk_config *last,
                                 const struct lk_config *target, double *y)
{
    double less[ENDS];
    int times = 2;

    if (target->world_size < 2 * last->world_size) {
        LK_PASS(ends_between(e, last, target, 2, less));
        y[0] = fmin(y[0], less[0]);
    }
    for (; (double)last->world_size * times < target->world_size; times *= 2) {
        LK_PASS(ends_between(e, last, target, times, less));
        for (int i = 0; i < ENDS; i++)
            y[i] = fmax(y[i], less[i]);
    }
    return LK_OK;
}

enum lk_status lk_scaling_interval(const struct lk_scaling_prior *prior,
                                   const struct lk_scaling_widths *widths,
                                   const struct lk_scaling_point *points, size_t n,
                                   const struct lk_scaling_point *target, double level,
                                   struct lk_estimate *out)
{
    const struct evidence e = {prior, widths, points, n, level};
    const struct lk_config *c = &target->config, *last = largest(points, n, c, false);
    double y[ENDS];

    LK_PASS(ends_at(&e, target, y));
    if (last && last->world_size < c->world_size && last->nodes <= c->nodes)
        LK_PASS(keep_order(&e, last, c, y));
    out->value = c->world_size / exp(y[1]);
    out->lo = c->world_size / exp(y[2]);
    out->hi = c->world_size / exp(y[0]);
    return LK_OK;
}
