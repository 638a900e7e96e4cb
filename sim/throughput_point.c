/* One prediction from a table of throughputs. */
#include "sim/throughput_point.h"

#include <math.h>
#include <string.h>

/* What the step model leaves to the law. */
static const double LAW_SHARE = 0.3;
/* Below these odds the rows speak against the step model, which then does not stand alone. */
static const double ODDS_REFUSED = 1e-4;
/* Odds before any row is seen. */
static const double LN_HALF = -0.69314718055994531;

/* The law alone. The first row is the origin, as it is the step model's, so that the evidence of
 * both can be compared. */
static enum lk_status add_law(const struct lk_throughput_fit *f,
                              const struct lk_scaling_point *target, double log_weight,
                              struct lk_mixture *m)
{
    struct lk_scaling_point rows[LK_SCALING_POINTS_MAX], t = *target;

    for (size_t i = 0; i < f->n; i++) {
        rows[i] = f->points[i];
        rows[i].model = lk_scaling_y(&f->points[0]);
    }
    t.model = lk_scaling_y(&f->points[0]);
    return lk_scaling_predict(&lk_scaling_default, rows, f->n, &t, 1, log_weight, m);
}

static enum lk_status compare(struct lk_throughput_fit *f)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    double law;

    LK_TRY(add_law(f, &f->points[f->n - 1], 0, &m));
    lk_mixture_normalise(&m, &law);
    f->step_odds = exp(lk_step_fit_log_evidence(f->step) - law);
out:
    lk_mixture_fini(&m);
    return st;
}

enum lk_status lk_throughput_fit_init(struct lk_throughput_fit *f, struct lk_step_prior *step,
                                      const struct lk_scaling_point *points, size_t n)
{
    enum lk_status st = LK_OK;

    if (!n || n > LK_SCALING_POINTS_MAX)
        return lk_fail(LK_EEVIDENCE, "a forecast takes 1 to %d measured throughputs, got %zu",
                       LK_SCALING_POINTS_MAX, n);
    *f = (struct lk_throughput_fit){.n = n};
    memcpy(f->points, points, n * sizeof *points);
    if (step) {
        LK_TRY(lk_step_fit_create(step, &lk_scaling_default, LAW_SHARE, points, n, &f->step));
        LK_TRY(compare(f));
    }
out:
    return st;
}

void lk_throughput_fit_fini(struct lk_throughput_fit *f)
{
    lk_step_fit_destroy(f->step);
    memset(f, 0, sizeof *f);
}

static bool law_knows(const struct lk_throughput_fit *f, const struct lk_scaling_point *target)
{
    bool nodes = target->nodes <= 1;

    for (size_t i = 0; i < f->n; i++) {
        if (f->points[i].cap_bytes != target->cap_bytes)
            return false;
        nodes |= f->points[i].nodes > 1;
    }
    return nodes;
}

static enum lk_status mix(struct lk_throughput_fit *f, const struct lk_scaling_point *target,
                          struct lk_mixture *m)
{
    enum lk_status st = LK_OK;
    bool law = !f->step || law_knows(f, target);

    if (!law && f->step_odds < ODDS_REFUSED)
        LK_TRY(lk_fail(LK_EEVIDENCE,
                       "by cluster %s the step would scale quite unlike the table's rows. Is it "
                       "this machine, and are the parameters and the local batch this job's?",
                       lk_step_fit_cluster(f->step)->name));
    if (f->step)
        LK_TRY(lk_step_fit_predict(f->step, target, law ? LN_HALF : 0, m));
    if (law)
        LK_TRY(add_law(f, target, LN_HALF, m));
out:
    return st;
}

enum lk_status lk_throughput_fit_at(struct lk_throughput_fit *f,
                                    const struct lk_scaling_point *target, double level,
                                    struct lk_throughput_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};

    LK_TRY(mix(f, target, &m));
    lk_mixture_normalise(&m, NULL);
    out->value = target->gpus / exp(lk_mixture_quantile(&m, 0.5));
    out->lo = target->gpus / exp(lk_mixture_quantile(&m, (1 + level) / 2));
    out->hi = target->gpus / exp(lk_mixture_quantile(&m, (1 - level) / 2));
out:
    lk_mixture_fini(&m);
    return st;
}
