/* Pollux's model of throughput. */
#include "sim/pollux.h"

#include "sim/simplex.h"

#include <math.h>
#include <stdbool.h>

/* GAMMA is last, the others are times in units of the first point's step. */
enum { ALPHA_C, BETA_C, ALPHA_N, BETA_N, ALPHA_R, BETA_R, GAMMA, PARAMETERS };

enum { ITERATIONS = 1500, ROUNDS = 3 };
static const double START[PARAMETERS] = {0.5, 0.5, 0.1, 0.01, 0.1, 0.01, 1.5};
static const double GAMMA_MOST = 10;
static const double GAMMA_PENALTY = 1e-3, RETROGRESSION_PENALTY = 1e-2;
static const double STEP = 0.7; /* of the first simplex, in ln */
static const double LARGE = 1e6;

struct fit {
    const struct lk_scale_point *points;
    size_t n;
    double unit_s, unit_batch; /* of the first point: what times and batches are measured in */
    bool free[PARAMETERS];
};

static double or_one(double v)
{
    return v > 0 ? v : 1;
}

static double step_s(const struct lk_scale_point *p)
{
    return p->gpus * or_one(p->local_batch) * or_one(p->accumulation) / p->throughput;
}

/* In units of the fit. */
static double model(const struct fit *f, const double *v, const struct lk_scale_point *p)
{
    double grad = v[ALPHA_C] + v[BETA_C] * or_one(p->local_batch) / f->unit_batch, sync = 0;

    if (or_one(p->nodes) > 1)
        sync = v[ALPHA_N] + v[BETA_N] * fmax(p->gpus - 2, 0);
    else if (p->gpus > 1)
        sync = v[ALPHA_R] + v[BETA_R] * fmax(p->gpus - 2, 0);
    return pow(pow(grad, v[GAMMA]) + pow(sync, v[GAMMA]), 1 / v[GAMMA]) +
           (or_one(p->accumulation) - 1) * grad;
}

/* The search is over logarithms of what is free, gamma over that of gamma - 1. */
static void unpack(const struct fit *f, const double *x, double *v)
{
    size_t at = 0;

    for (int i = 0; i < PARAMETERS; i++)
        v[i] = f->free[i] ? exp(fmin(x[at++], 20)) : 0;
    v[GAMMA] = fmin(1 + v[GAMMA], GAMMA_MOST);
    /* One batch alone does not tell its fixed part: half and half, as the authors do. */
    if (!f->free[ALPHA_C])
        v[ALPHA_C] = v[BETA_C];
}

static double penalty(double beta, double alpha)
{
    return alpha > 0 ? RETROGRESSION_PENALTY * fmin(pow(beta / alpha, 2), LARGE) : 0;
}

static enum lk_status objective(const double *x, void *ctx, double *out)
{
    const struct fit *f = ctx;
    double v[PARAMETERS], sum = 0;

    unpack(f, x, v);
    for (size_t i = 0; i < f->n; i++) {
        double d = log(model(f, v, &f->points[i]) * f->unit_s / step_s(&f->points[i]));

        sum += d * d;
    }
    *out = sqrt(sum / (double)f->n) + GAMMA_PENALTY * pow(v[GAMMA] - 1, 2) +
           penalty(v[BETA_N], v[ALPHA_N]) + penalty(v[BETA_R], v[ALPHA_R]);
    if (!isfinite(*out))
        *out = LARGE;
    return LK_OK;
}

static void find_free(struct fit *f)
{
    bool nodes = false, node = false, many = false, batches = false;

    for (size_t i = 0; i < f->n; i++) {
        const struct lk_scale_point *p = &f->points[i];

        nodes |= or_one(p->nodes) > 1;
        node |= or_one(p->nodes) <= 1 && p->gpus > 1;
        many |= p->gpus > 2;
        batches |= or_one(p->local_batch) != f->unit_batch;
    }
    f->free[ALPHA_C] = batches;
    f->free[BETA_C] = true;
    f->free[ALPHA_N] = nodes;
    f->free[BETA_N] = nodes && many;
    f->free[ALPHA_R] = node;
    f->free[BETA_R] = node && many;
    f->free[GAMMA] = nodes || node;
}

double lk_pollux_throughput(const struct lk_scale_point *points, size_t n,
                            const struct lk_scale_point *target)
{
    struct fit f = {.points = points, .n = n};
    double x[PARAMETERS], v[PARAMETERS];
    size_t free = 0;

    if (!n || n > LK_POLLUX_POINTS_MAX)
        return NAN;
    f.unit_s = step_s(&points[0]);
    f.unit_batch = or_one(points[0].local_batch);
    find_free(&f);
    for (int i = 0; i < PARAMETERS; i++)
        if (f.free[i])
            x[free++] = log(i == GAMMA ? START[i] - 1 : START[i]);
    /* A simplex that has collapsed starts anew from where it is. */
    for (int i = 0; i < ROUNDS; i++)
        if (lk_simplex_minimise(objective, &f, x, free, STEP, ITERATIONS, NULL) != LK_OK)
            return NAN;
    unpack(&f, x, v);
    return target->gpus * or_one(target->local_batch) * or_one(target->accumulation) /
           (model(&f, v, target) * f.unit_s);
}
