#include "sim/curve_shapes.h"

#include <math.h>
#include <stdlib.h>

/* A lognormal quantity is summed over so many values, apart by STEP sd of its logarithm. */
enum { VALUES = 41 };
static const double STEP = 0.15;
static const double LN2 = 0.69314718055994531;
static const double LN_SQRT_2PI = 0.91893853320467274;

static double log_normal(double x, double sd)
{
    return -x * x / (2 * sd * sd) - log(sd) - LN_SQRT_2PI;
}

/* Return value i of a lognormal quantity, and ln of its share. */
static double value(double median, double spread, int i, double *out_log_share)
{
    double z = STEP * (i - VALUES / 2);

    *out_log_share = log_normal(z, 1) + log(STEP);
    return median * exp(spread * z);
}

/* Return y at the target on the line between the rows around it; NaN: it lies beyond them. */
static double between(const struct lk_shape_rows *r)
{
    for (size_t i = 1; i < r->n; i++) {
        double width = r->lg_gpus[i] - r->lg_gpus[i - 1];

        if (r->target_lg_gpus <= r->lg_gpus[i])
            return r->y[i - 1] + (width > 0 ? (r->y[i] - r->y[i - 1]) / width : 0) *
                                     (r->target_lg_gpus - r->lg_gpus[i - 1]);
    }
    return NAN;
}

/* Return ln of the density of the sum of an exponential quantity and a normal one. */
static double log_ex_gaussian(double x, double mean, double sd)
{
    double z = (sd / mean - x / sd) / 1.4142135623730951, tail;

    if (z < 20)
        tail = log(erfc(z) / 2) - x / mean + sd * sd / (2 * mean * mean);
    else /* erfc(z) = exp(-z^2) / (z sqrt pi), nearly */
        tail = -x * x / (2 * sd * sd) - log(z) - 0.5723649429247001 - log(2);
    return tail - log(mean);
}

static enum lk_status add_saturated(const struct lk_shape_prior *p, const struct lk_shape_rows *r,
                                    double log_weight, struct lk_mixture *out)
{
    const size_t last = r->n - 1, first = r->lg_gpus[0] > 0 ? 0 : 1;
    double inside = between(r);
    double beyond = fmax(0, r->target_lg_gpus - r->lg_gpus[last]), best = r->y[0];
    double recovery = p->recovery * (1 - pow(1 - fmin(p->jump, 0.9), beyond));

    if (last <= first)
        return LK_OK;
    for (size_t i = 1; i < r->n; i++)
        best = fmin(best, r->y[i]);
    log_weight -= log1p(recovery);
    for (int k = 0; k < VALUES; k++) {
        double share, fall = value(p->falling, p->falling_spread, k, &share);
        double mean = isnan(inside) ? r->y[last] + (LN2 + fall) * beyond : inside;
        double rest = 0, weight = -INFINITY, ends = -INFINITY;

        for (size_t i = last; i > first; i--) {
            double d = r->lg_gpus[i] - r->lg_gpus[i - 1];
            double off = r->y[i] - r->y[i - 1] - LN2 * d;

            rest +=
                d > 0 ? log_ex_gaussian(off, fall * d, p->levelled) : log_normal(off, p->levelled);
            weight = lk_log_add(weight, rest + r->log_evidence[i - 1]);
            /* Each row was disturbed by chance. */
            ends = lk_log_add(ends, rest + r->log_evidence[i - 1] +
                                        (double)(last - i) * log(fmin(p->jump, 0.9)));
        }
        share += log_weight - log((double)(last - first));
        LK_PASS(lk_mixture_add(out, weight + share, mean, hypot(p->levelled, fall * beyond)));
        if (recovery > 0)
            LK_PASS(lk_mixture_add(out, ends + share + log(recovery), best, p->jump_size));
    }
    return LK_OK;
}

static double serial_y(double share, double lg_gpus)
{
    return log1p(share * (exp2(lg_gpus) - 1));
}

/* A share with its evidence, and the target's y by it. */
struct serial {
    double evidence, y, sd;
};

static struct serial serial_of(const struct lk_shape_prior *p, const struct lk_shape_rows *r,
                               double z)
{
    double share = p->serial_share * exp(p->serial_spread * z);
    double evidence = r->log_evidence[0], c = r->y[0] - serial_y(share, r->lg_gpus[0]);
    double n = 1;

    for (size_t i = 1; i < r->n; i++, n++) {
        double off = r->y[i] - serial_y(share, r->lg_gpus[i]) - c;

        evidence += log_normal(off, p->serial_error * sqrt(1 + 1 / n));
        c += off / (n + 1);
    }
    return (struct serial){.evidence = evidence,
                           .y = fmax(r->least_y, c + serial_y(share, r->target_lg_gpus)),
                           .sd = p->serial_error * sqrt(1 + 1 / n)};
}

/*
 * Sum over the share. Rows tell it to a small part of a cell of the usual grid: the cells around
 * the most likely one are cut into as many again, twice, until a cell is far below a row's error.
 */
static enum lk_status add_serial(const struct lk_shape_prior *p, const struct lk_shape_rows *r,
                                 double log_weight, struct lk_mixture *out)
{
    enum { LEVELS = 3 };
    double from = -STEP * VALUES / 2, cell = STEP;

    for (int level = 0; level < LEVELS; level++) {
        struct serial at[VALUES];
        double weight[VALUES];
        int best = 0;

        for (int k = 0; k < VALUES; k++) {
            double z = from + cell * (k + 0.5);

            at[k] = serial_of(p, r, z);
            weight[k] = log_normal(z, 1) + log(cell) + at[k].evidence;
            best = weight[k] > weight[best] ? k : best;
        }
        for (int k = 0; k < VALUES; k++)
            if (level + 1 == LEVELS || abs(k - best) > 1)
                LK_PASS(lk_mixture_add(out, log_weight + weight[k], at[k].y, at[k].sd));
        from += cell * fmax(0, best - 1);
        cell *= (fmin(VALUES, best + 2) - fmax(0, best - 1)) / VALUES;
    }
    return LK_OK;
}

enum lk_status lk_shapes_add(const struct lk_shape_prior *prior, const struct lk_shape_rows *rows,
                             double log_weight, struct lk_mixture *out)
{
    LK_PASS(add_saturated(prior, rows, log_weight + log(prior->saturated), out));
    return add_serial(prior, rows, log_weight + log(prior->serial), out);
}
