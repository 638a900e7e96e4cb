/* This file computes goodput, cost and time to a target. */
#include "sim/planning/economics.h"

#include <math.h>

static const double S_PER_HOUR = 3600;
static const double J_PER_KWH = 3.6e6;

/* So many halvings of [0, M] determine a period to the last bit of a double. */
enum { BISECTIONS = 64 };

/*
 * With u = period / M and c = write / M the mean time of a unit of training is least where
 * (1 - u) exp(u) = exp(-c): falling in u from 1 at 0 to 0 at 1, so there is one such u. (In terms
 * of Lambert's function u = 1 + W(-exp(-1 - c)).)
 */
double lk_goodput_best_period_s(const struct lk_goodput *g, int world_size)
{
    double m = g->mtbf_s / world_size, lo = 0, hi = 1, right = -expm1(-g->write_s / m);

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

double lk_goodput_share(const struct lk_goodput *g, int world_size, double period_s)
{
    double m = g->mtbf_s / world_size;

    /* Free checkpoints after every instant: only restarts are lost. */
    if (period_s <= 0)
        return g->write_s > 0 ? 0 : exp(-g->restart_s / m);
    return period_s / m / (exp(g->restart_s / m) * expm1((period_s + g->write_s) / m));
}

struct lk_estimate lk_economics_known(double x)
{
    return (struct lk_estimate){x, x, x, 0};
}

struct lk_estimate lk_economics_unknown(void)
{
    return (struct lk_estimate){NAN, NAN, NAN, 0};
}

struct lk_estimate lk_economics_input(double option, const struct lk_quantity *q)
{
    if (option > 0)
        return lk_economics_known(option);
    if (!lk_quantity_known(q))
        return lk_economics_unknown();
    return (struct lk_estimate){q->value, isnan(q->lo) ? q->value : q->lo,
                                isnan(q->hi) ? q->value : q->hi, q->n};
}

double lk_statistical_efficiency(double batch, double noise_scale)
{
    return 1 / (1 + batch / noise_scale);
}

/* The inputs of time and cost. They form a list, so that each can be moved alone. */
enum { STEP, GOODPUT, NOISE, TARGET, PRICE, N_INPUTS };

static double time_to_target(const double x[N_INPUTS], double batch)
{
    return x[TARGET] / lk_statistical_efficiency(batch, x[NOISE]) / batch * x[STEP] / x[GOODPUT];
}

static double cost_to_target(const double x[N_INPUTS], double batch, int world_size)
{
    return time_to_target(x, batch) / S_PER_HOUR * world_size * x[PRICE];
}

/* Add the effect of a moved input, up or down, to the squares. */
static void add_square(double moved, double value, double *down, double *up)
{
    double d = log(moved / value);

    *(d < 0 ? down : up) += d * d;
}

static double or_nan(double v)
{
    return isfinite(v) ? v : NAN;
}

static void to_target(const struct lk_estimate *const inputs[N_INPUTS],
                      const struct lk_economics_point *p, struct lk_plan *out)
{
    double x[N_INPUTS], time, cost, down[2] = {0}, up[2] = {0};

    for (int i = 0; i < N_INPUTS; i++)
        x[i] = inputs[i]->value;
    time = time_to_target(x, p->global_batch);
    cost = cost_to_target(x, p->global_batch, p->world_size);
    for (int i = 0; i < N_INPUTS; i++) {
        const double bounds[2] = {inputs[i]->lo, inputs[i]->hi};

        for (int b = 0; b < 2; b++) {
            x[i] = bounds[b];
            if (i != PRICE)
                add_square(time_to_target(x, p->global_batch), time, &down[0], &up[0]);
            add_square(cost_to_target(x, p->global_batch, p->world_size), cost, &down[1], &up[1]);
        }
        x[i] = inputs[i]->value;
    }
    out->time_to_target_h = or_nan(time / S_PER_HOUR);
    out->time_to_target_lo_h = or_nan(time * exp(-sqrt(down[0])) / S_PER_HOUR);
    out->time_to_target_hi_h = or_nan(time * exp(sqrt(up[0])) / S_PER_HOUR);
    out->cost_to_target = or_nan(cost);
    out->cost_to_target_lo = or_nan(cost * exp(-sqrt(down[1])));
    out->cost_to_target_hi = or_nan(cost * exp(sqrt(up[1])));
}

void lk_economics_at(const struct lk_economics *e, const struct lk_economics_point *p,
                     struct lk_plan *out)
{
    const struct lk_estimate *const inputs[N_INPUTS] = {
        [STEP] = &p->step_s,           [GOODPUT] = &p->goodput,      [NOISE] = &e->noise_scale,
        [TARGET] = &e->target_samples, [PRICE] = &e->price_per_hour,
    };
    double gpu_s_per_million =
        p->world_size * p->step_s.value / p->goodput.value / p->global_batch * 1e6;

    out->cost_per_step = p->world_size * e->price_per_hour.value * p->step_s.value / S_PER_HOUR;
    out->cost_per_million = e->price_per_hour.value * gpu_s_per_million / S_PER_HOUR;
    out->energy_per_million_kWh = e->power_W.value * gpu_s_per_million / J_PER_KWH;
    out->statistical_efficiency = lk_statistical_efficiency(p->global_batch, e->noise_scale.value);
    out->samples_to_target = e->target_samples.value / out->statistical_efficiency;
    to_target(inputs, p, out);
}

void lk_learning_rates(double rate, double tuned_batch, double batch, double noise_scale,
                       struct lk_plan *out)
{
    out->rate_linear = rate * batch / tuned_batch;
    out->rate_sqrt = rate * sqrt(batch / tuned_batch);
    out->rate_noise = rate * (1 + noise_scale / tuned_batch) / (1 + noise_scale / batch);
}
