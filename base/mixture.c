#include "base/mixture.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SQRT2 = 1.4142135623730951;
static const double SQRT_2PI = 2.5066282746310002;
static const double NEGLIGIBLE_LN = -20.7; /* ln of 1e-9 */

double lk_log_add(double a, double b)
{
    double most = fmax(a, b);

    return most > -INFINITY ? most + log1p(exp(fmin(a, b) - most)) : most;
}

void lk_mixture_fini(struct lk_mixture *m)
{
    free(m->parts);
    memset(m, 0, sizeof *m);
}

enum lk_status lk_mixture_add(struct lk_mixture *m, double log_weight, double mean, double sd)
{
    LK_PASS(lk_array_grow(&m->parts, &m->capacity, m->n + 1, sizeof *m->parts));
    m->parts[m->n++] = (struct lk_mixture_part){log_weight, mean, sd};
    return LK_OK;
}

enum lk_status lk_mixture_append(struct lk_mixture *m, const struct lk_mixture *from,
                                 double log_weight)
{
    LK_PASS(lk_array_grow(&m->parts, &m->capacity, m->n + from->n, sizeof *m->parts));
    for (size_t i = 0; i < from->n; i++) {
        m->parts[m->n] = from->parts[i];
        m->parts[m->n++].log_weight += log_weight;
    }
    return LK_OK;
}

/* Return ln of the sum of the weights. */
static double log_sum(const struct lk_mixture *m)
{
    double max = -INFINITY, sum = 0;

    for (size_t i = 0; i < m->n; i++)
        max = fmax(max, m->parts[i].log_weight);
    for (size_t i = 0; i < m->n; i++)
        sum += exp(m->parts[i].log_weight - max);
    return max + log(sum);
}

void lk_mixture_normalise(struct lk_mixture *m, double *out_log_sum)
{
    double total = log_sum(m);
    size_t kept = 0;

    if (out_log_sum)
        *out_log_sum = total;
    for (size_t i = 0; i < m->n; i++)
        if (m->parts[i].log_weight - total > NEGLIGIBLE_LN)
            m->parts[kept++] = m->parts[i];
    m->n = kept;
    total = log_sum(m);
    for (size_t i = 0; i < m->n; i++)
        m->parts[i].log_weight -= total;
}

double lk_mixture_cdf(const struct lk_mixture *m, double x)
{
    double sum = 0;

    for (size_t i = 0; i < m->n; i++) {
        const struct lk_mixture_part *p = &m->parts[i];

        sum += exp(p->log_weight) * 0.5 * erfc((p->mean - x) / (p->sd * SQRT2));
    }
    return sum;
}

/* Return the density at x. */
static double density(const struct lk_mixture *m, double x)
{
    double sum = 0;

    for (size_t i = 0; i < m->n; i++) {
        const struct lk_mixture_part *p = &m->parts[i];
        double z = (x - p->mean) / p->sd;

        sum += exp(p->log_weight - z * z / 2) / (p->sd * SQRT_2PI);
    }
    return sum;
}

/* Take Newton's steps; where one leaves the bracket or is not half as long as the last, take the
 * bracket's middle. */
double lk_mixture_quantile(const struct lk_mixture *m, double q)
{
    double lo = INFINITY, hi = -INFINITY, within, last, x;

    for (size_t i = 0; i < m->n; i++) {
        lo = fmin(lo, m->parts[i].mean - 7 * m->parts[i].sd);
        hi = fmax(hi, m->parts[i].mean + 7 * m->parts[i].sd);
    }
    last = hi - lo;
    within = 1e-9 * last;
    x = lo + last / 2;
    while (hi - lo > within && fabs(last) > within / 2) {
        double off = lk_mixture_cdf(m, x) - q, step = -off / density(m, x);

        if (off < 0)
            lo = x;
        else
            hi = x;
        if (!(x + step > lo && x + step < hi && fabs(step) < fabs(last) / 2))
            step = lo + (hi - lo) / 2 - x;
        x += step;
        last = step;
    }
    return x;
}
