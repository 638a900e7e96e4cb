/* Comparisons of artefacts; see facts/compare.h. */
#include "base/array.h"
#include "base/label.h"
#include "facts/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_estimate estimate_of(const struct lk_quantity *q)
{
    return (struct lk_estimate){q->value, q->lo, q->hi, (size_t)q->n};
}

/* Return true if a text is the other, or ends with it after a name and a colon. */
static bool ends_alike(const char *x, const char *y)
{
    size_t n = strlen(x), m = strlen(y);

    if (n < m)
        return ends_alike(y, x);
    return !strcmp(x + n - m, y) && (n == m || (n - m >= 2 && !memcmp(x + n - m - 2, ": ", 2)));
}

static bool same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

bool lk_compare_one_number(const struct lk_quantity *a, const struct lk_quantity *b)
{
    return same(a->value, b->value) && same(a->lo, b->lo) && same(a->hi, b->hi) && a->n == b->n &&
           ends_alike(a->source, b->source);
}

enum lk_status lk_compare_quantity(struct lk_comparison *c, enum lk_dimension dim,
                                   const struct lk_quantity *a, const struct lk_quantity *b,
                                   const char *what)
{
    struct lk_compared row = {.dim = dim};

    if (!lk_quantity_known(a) || !lk_quantity_known(b) || !(a->value > 0) || !(b->value > 0))
        return LK_OK;
    row.a = estimate_of(a);
    row.b = estimate_of(b);
    row.one_number = lk_compare_one_number(a, b);
    LK_PASS(lk_label_add(&row.labels, "of", "%s", what));
    if (lk_strdup(&row.what, what) != LK_OK) {
        free(row.labels);
        return LK_ENOMEM;
    }
    return lk_compare_add(c, row, NULL);
}

/* ---- Forecasts ---- */

/* Return a point's word on the axis of a name; "": unchanged, or the forecast has no such axis. */
static const char *word_of(const struct lk_forecast *f, const struct lk_forecast_point *p,
                           const char *axis)
{
    for (size_t i = 0; i < f->n_axes; i++)
        if (!strcmp(f->axes[i], axis))
            return p->words[i];
    return "";
}

/* Return true if both points are of one configuration. Nodes are the cluster's, and may differ. */
static bool same_configuration(const struct lk_forecast *a, const struct lk_forecast_point *p,
                               const struct lk_forecast *b, const struct lk_forecast_point *q)
{
    if (p->config.world_size != q->config.world_size ||
        p->config.local_batch != q->config.local_batch ||
        p->config.accumulation != q->config.accumulation ||
        p->config.cap_bytes != q->config.cap_bytes)
        return false;
    for (size_t i = 0; i < a->n_axes; i++)
        if (strcmp(p->words[i], word_of(b, q, a->axes[i])) != 0)
            return false;
    for (size_t i = 0; i < b->n_axes; i++)
        if (strcmp(q->words[i], word_of(a, p, b->axes[i])) != 0)
            return false;
    return true;
}

static enum lk_status name_configuration(const struct lk_forecast *f,
                                         const struct lk_forecast_point *p, struct lk_compared *row)
{
    char *longer;

    LK_PASS(lk_asprintf(&row->what, "%d GPU%s, batch %d", p->config.world_size,
                        p->config.world_size == 1 ? "" : "s", p->config.local_batch));
    if (p->config.accumulation > 1) {
        LK_PASS(lk_asprintf(&longer, "%s x %d", row->what, p->config.accumulation));
        free(row->what);
        row->what = longer;
    }
    LK_PASS(lk_label_add(&row->labels, "gpus", "%d", p->config.world_size));
    LK_PASS(lk_label_add(&row->labels, "local_batch", "%d", p->config.local_batch));
    LK_PASS(lk_label_add(&row->labels, "accumulation", "%d", p->config.accumulation));
    LK_PASS(lk_label_add(&row->labels, "bucket_cap_bytes", "%llu",
                         (unsigned long long)p->config.cap_bytes));
    for (size_t i = 0; i < f->n_axes; i++) {
        if (!*p->words[i])
            continue;
        LK_PASS(lk_label_add(&row->labels, f->axes[i], "%s", p->words[i]));
        LK_PASS(lk_asprintf(&longer, "%s, %s %s", row->what, f->axes[i], p->words[i]));
        free(row->what);
        row->what = longer;
    }
    return LK_OK;
}

static const struct lk_forecast_point *find_configuration(const struct lk_forecast *f,
                                                          const struct lk_forecast *of,
                                                          const struct lk_forecast_point *p)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (same_configuration(of, p, f, &f->points[i]))
            return &f->points[i];
    return NULL;
}

enum lk_status lk_compare_forecasts(const struct lk_forecast *a, const struct lk_forecast *b,
                                    struct lk_comparison *out)
{
    for (size_t i = 0; i < a->n_points; i++) {
        const struct lk_forecast_point *p = &a->points[i], *q = find_configuration(b, a, p);
        struct lk_compared row = {.dim = LK_DIM_TIME, .gpus = p->config.world_size};
        enum lk_status st;

        out->only_a += !q;
        if (!q)
            continue;
        row.a = (struct lk_estimate){p->step_s, p->step_lo_s, p->step_hi_s, 0};
        row.b = (struct lk_estimate){q->step_s, q->step_lo_s, q->step_hi_s, 0};
        row.efficiency_a = p->efficiency;
        row.efficiency_b = q->efficiency;
        st = name_configuration(a, p, &row);
        if (st != LK_OK) {
            free(row.what);
            free(row.labels);
            return st;
        }
        LK_PASS(lk_compare_add(out, row, NULL));
    }
    for (size_t i = 0; i < b->n_points; i++)
        out->only_b += !find_configuration(a, b, &b->points[i]);
    return LK_OK;
}

/* ---- Jobs ---- */

static const struct lk_job_compute *find_compute(const struct lk_job *j, int local_batch)
{
    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch == local_batch)
            return &j->compute[i];
    return NULL;
}

enum lk_status lk_compare_jobs(const struct lk_job *a, const struct lk_job *b,
                               struct lk_comparison *out)
{
    for (size_t i = 0; i < a->n_compute; i++) {
        const struct lk_job_compute *x = &a->compute[i], *y = find_compute(b, x->local_batch);
        const struct {
            const char *name;
            const struct lk_quantity *a, *b;
        } parts[] = {{"forward", &x->forward_s, y ? &y->forward_s : NULL},
                     {"backward", &x->backward_s, y ? &y->backward_s : NULL},
                     {"optimizer", &x->optimizer_s, y ? &y->optimizer_s : NULL}};

        out->only_a += !y;
        for (size_t k = 0; y && k < LK_COUNT(parts); k++) {
            char what[64];

            snprintf(what, sizeof what, "%s, local batch %d", parts[k].name, x->local_batch);
            LK_PASS(lk_compare_quantity(out, LK_DIM_TIME, parts[k].a, parts[k].b, what));
        }
    }
    for (size_t i = 0; i < b->n_compute; i++)
        out->only_b += !find_compute(a, b->compute[i].local_batch);
    return LK_OK;
}
