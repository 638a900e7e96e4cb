/* Failures, checkpoints and what they leave. */
#include "sim/goodput.h"

#include <math.h>

/* Halvings of a period's place in [0, M]: to the last bit of a double. */
enum { BISECTIONS = 64 };

double lk_goodput_mtbf_s(const struct lk_goodput *g, int gpus)
{
    return g->mtbf_s / gpus;
}

/*
 * With u = period / M and c = write / M the mean time of a unit of training is least where
 * (1 - u) exp(u) = exp(-c): falling in u from 1 at 0 to 0 at 1, so there is one such u. (In terms
 * of Lambert's function u = 1 + W(-exp(-1 - c)).)
 */
double lk_goodput_best_period_s(const struct lk_goodput *g, int gpus)
{
    double m = lk_goodput_mtbf_s(g, gpus), lo = 0, hi = 1, right = -expm1(-g->write_s / m);

    /* 1 - (1 - u) exp(u) = 1 - exp(-c), in a form that keeps its digits where both are small. */
    for (int i = 0; i < BISECTIONS; i++) {
        double u = (lo + hi) / 2;

        if (u * exp(u) - expm1(u) < right)
            lo = u;
        else
            hi = u;
    }
    return g->write_s > 0 ? (lo + hi) / 2 * m : 0;
}

double lk_goodput_young_period_s(const struct lk_goodput *g, int gpus)
{
    return sqrt(2 * g->write_s * lk_goodput_mtbf_s(g, gpus));
}

double lk_goodput_share(const struct lk_goodput *g, int gpus, double period_s)
{
    double m = lk_goodput_mtbf_s(g, gpus);

    /* Free checkpoints after every instant: only restarts are lost. */
    if (period_s <= 0)
        return g->write_s > 0 ? 0 : exp(-g->restart_s / m);
    return period_s / m / (exp(g->restart_s / m) * expm1((period_s + g->write_s) / m));
}
