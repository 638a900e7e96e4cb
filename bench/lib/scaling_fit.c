/* The scaling law's constants, by a simplex over their logarithms. */
#include "bench/lib/scaling_fit.h"

#include "sim/simplex.h"

#include <math.h>
#include <stddef.h>

/* The last ones, from recovery on, are assumed. */
enum {
    N = (int)(offsetof(struct lk_scaling_prior, recovery) / sizeof(double)),
    FEW = 2,
};

static const double LN_SQRT_2PI = 0.91893853320467274;
static const double EARLIER_WEIGHT = 0.5;
static const double MEDIAN_WEIGHT = 20;
static const double MEDIAN_LIMIT = 0.15;
static const double FIRST_STEP = 0.3; /* of the simplex, in ln */

/* Orders of magnitude: a step loses 5 % to exchange in a node, 6 % between nodes, 1 % a doubling to
 * skew; measurements repeat to half a per cent. */
const struct lk_scaling_prior scaling_start = {.once = 0.02,
                                               .once_spread = 1,
                                               .exchange = 0.04,
                                               .skew = 0.008,
                                               .contention = 0.15,
                                               .crossing = 0.06,
                                               .hops = 0.015,
                                               .growth = 0.005,
                                               .spread = 0.5,
                                               .contended = 0.15,
                                               .walk = 0.01,
                                               .walk_nodes = 0.03,
                                               .sigma = 0.005,
                                               .kappa = 0.015,
                                               .omega = 1.0,
                                               .omega_u = 0.5,
                                               .jump = 0.05,
                                               .jump_size = 0.08,
                                               .hidden = 0.7,
                                               .amortised = 0.7,
                                               .batch = 0.15,
                                               .batch_walk = 0.1,
                                               .serial = 0.05,
                                               .serial_share = 0.005,
                                               .serial_spread = 1.5,
                                               .serial_error = 0.02,
                                               .recovery = 1,
                                               .saturated = 0.01,
                                               .falling = 0.03,
                                               .falling_spread = 1.2,
                                               .levelled = 0.02};

/* Return ln of a normalised mixture's density at x. */
static double log_density(const struct lk_mixture *m, double x)
{
    double max = -INFINITY, sum = 0;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < m->n; i++) {
            const struct lk_mixture_part *p = &m->parts[i];
            double z = (x - p->mean) / p->sd;
            double l = p->log_weight - z * z / 2 - log(p->sd) - LN_SQRT_2PI;

            if (pass == 0)
                max = fmax(max, l);
            else
                sum += exp(l - max);
        }
    return max + log(sum);
}

/* Scores count i of a series by the first n counts; *out_m is the forecast. */
static enum lk_status score_count(const struct scaling_series *s, const struct lk_scaling_prior *p,
                                  size_t n, size_t i, struct lk_mixture *m, double *out)
{
    m->n = 0;
    LK_PASS(lk_scaling_predict(p, s->points, n, &s->points[i], m));
    lk_mixture_normalise(m, NULL);
    *out = -log_density(m, lk_scaling_y(&s->points[i]));
    return LK_OK;
}

/* Returns the loss of the median of a forecast of the last count. */
static double median_loss(const struct scaling_series *s, const struct lk_mixture *m)
{
    double y = lk_scaling_y(&s->points[s->n - 1]);

    return MEDIAN_WEIGHT * fmin(fabs(y - lk_mixture_quantile(m, 0.5)), MEDIAN_LIMIT);
}

static enum lk_status score_series(const struct scaling_series *s, const struct lk_scaling_prior *p,
                                   double *out)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    double one;

    *out = 0;
    if (s->n > FEW + 1) {
        LK_TRY(score_count(s, p, FEW, s->n - 1, &m, &one));
        *out += EARLIER_WEIGHT * (one + median_loss(s, &m));
    }
    for (size_t i = 1; i < s->n; i++) {
        LK_TRY(score_count(s, p, i, i, &m, &one));
        *out += (i + 1 == s->n ? 1 : EARLIER_WEIGHT) * one;
    }
    *out += median_loss(s, &m);
out:
    lk_mixture_fini(&m);
    return st;
}

enum lk_status scaling_objective(const struct scaling_series *series, size_t n,
                                 const struct lk_scaling_prior *p, double *out)
{
    enum lk_status st = LK_OK;
    const double *c = (const double *)p, *start = (const double *)&scaling_start;
    struct lk_scaling_prior one_sided = *p;

    one_sided.recovery = 0;
    *out = 0;
    for (size_t i = 0; i < N; i++)
        *out += pow(log(c[i] / start[i]), 2) / 2;
    for (size_t i = 0; i < n; i++) {
        double v;

        if (!(series[i].weight > 0))
            continue;
        LK_TRY(score_series(&series[i], &one_sided, &v));
        *out += series[i].weight * v;
    }
out:
    return st;
}

struct problem {
    const struct scaling_series *series;
    size_t n;
};

static enum lk_status objective_of_logs(const double *x, void *ctx, double *out)
{
    const struct problem *q = ctx;
    struct lk_scaling_prior p = lk_scaling_default;
    double *c = (double *)&p;

    for (size_t i = 0; i < N; i++)
        c[i] = exp(x[i]);
    return scaling_objective(q->series, q->n, &p, out);
}

enum lk_status scaling_fit(const struct scaling_series *series, size_t n,
                           const struct lk_scaling_prior *from, int iterations,
                           struct lk_scaling_prior *out)
{
    enum lk_status st = LK_OK;
    struct problem q = {series, n};
    const double *start = (const double *)from;
    double *c = (double *)out, x[N], weight = 0;

    for (size_t i = 0; i < n; i++)
        weight += series[i].weight;
    if (!(weight > 0))
        return lk_fail(LK_EEVIDENCE, "no series to fit the scaling law to");
    for (size_t i = 0; i < N; i++)
        x[i] = log(start[i]);
    LK_TRY(lk_simplex_minimise(objective_of_logs, &q, x, N, FIRST_STEP, iterations, NULL));
    *out = *from;
    for (size_t i = 0; i < N; i++)
        c[i] = exp(x[i]);
out:
    return st;
}
