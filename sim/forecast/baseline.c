/*
 * The simple forecasters.
 *
 * Divisions: one-line models / Pollux / the table of them.
 */
#include "sim/forecast/baseline.h"

#include "base/stats.h"
#include "sim/simplex.h"

#include <math.h>
#include <stdbool.h>

/* ---- One-line models ---- */

static double proportional(const struct lk_scaling_point *p, size_t n,
                           const struct lk_scaling_point *target)
{
    return n ? p[n - 1].throughput / p[n - 1].config.world_size * target->config.world_size : NAN;
}

static double line(const struct lk_scaling_point *p, size_t n,
                   const struct lk_scaling_point *target)
{
    double slope;

    if (n < 2)
        return NAN;
    slope = (p[n - 1].throughput - p[n - 2].throughput) /
            (p[n - 1].config.world_size - p[n - 2].config.world_size);
    return p[n - 1].throughput + slope * (target->config.world_size - p[n - 1].config.world_size);
}

static double amdahl(const struct lk_scaling_point *p, size_t n,
                     const struct lk_scaling_point *target)
{
    double a[2 * LK_BASELINE_POINTS_MAX], ones[LK_BASELINE_POINTS_MAX], c[2];

    if (n < 2 || n > LK_BASELINE_POINTS_MAX)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        double y = p[i].config.world_size / p[i].throughput;

        a[2 * i] = 1 / y;
        a[2 * i + 1] = p[i].config.world_size / y;
        ones[i] = 1;
    }
    if (lk_stats_nnls(a, ones, n, 2, c) != LK_OK)
        return NAN;
    return target->config.world_size / (c[0] + c[1] * target->config.world_size);
}

/*
 * ---- Pollux ----
 *
 * Pollux's model of throughput (Qiao et al., "Pollux: Co-adaptive cluster scheduling for
 * goodput-optimized deep learning", OSDI 2021, section 3.2):
 *
 *     T_grad = alpha_c + beta_c m                                  m: local batch
 *     T_sync = 0 (K = 1); alpha_r + beta_r (K - 2) on one node; alpha_n + beta_n (K - 2) on several
 *     T      = (T_grad^gamma + T_sync^gamma)^(1/gamma) + (accumulation - 1) T_grad
 *
 * fitted as the paper says: least root mean square error of ln T, all parameters >= 0, gamma 1..10;
 * those of a kind of placement that no row has are 0, and the betas are where no row has more than
 * two ranks; a small penalty on gamma - 1 and on beta / alpha, as the authors' implementation has.
 */
/* GAMMA is last; the others are times in units of the first point's step. */
enum { ALPHA_C, BETA_C, ALPHA_N, BETA_N, ALPHA_R, BETA_R, GAMMA, PARAMETERS };

enum { ITERATIONS = 1500, ROUNDS = 3 };
static const double START[PARAMETERS] = {0.5, 0.5, 0.1, 0.01, 0.1, 0.01, 1.5};
static const double GAMMA_MOST = 10;
static const double GAMMA_PENALTY = 1e-3, RETROGRESSION_PENALTY = 1e-2;
static const double STEP = 0.7; /* edge of the first simplex, in ln */
static const double LARGE = 1e6;

struct fit {
    const struct lk_scaling_point *points;
    size_t n;
    double unit_s, unit_batch; /* the first point's: units of times and batches */
    bool free[PARAMETERS];
};

static double or_one(double v)
{
    return v > 0 ? v : 1;
}

static double step_s(const struct lk_scaling_point *p)
{
    return p->config.world_size * or_one(p->config.local_batch) * or_one(p->config.accumulation) /
           p->throughput;
}

/* Return the step time that parameters v give, in units of the fit. */
static double model(const struct fit *f, const double *v, const struct lk_scaling_point *p)
{
    double grad = v[ALPHA_C] + v[BETA_C] * or_one(p->config.local_batch) / f->unit_batch, sync = 0;

    if (or_one(p->config.nodes) > 1)
        sync = v[ALPHA_N] + v[BETA_N] * fmax(p->config.world_size - 2, 0);
    else if (p->config.world_size > 1)
        sync = v[ALPHA_R] + v[BETA_R] * fmax(p->config.world_size - 2, 0);
    return pow(pow(grad, v[GAMMA]) + pow(sync, v[GAMMA]), 1 / v[GAMMA]) +
           (or_one(p->config.accumulation) - 1) * grad;
}

/* Read the parameters from the logarithms that the simplex searches; gamma's is ln(gamma - 1). */
static void unpack(const struct fit *f, const double *x, double *v)
{
    size_t at = 0;

    for (int i = 0; i < PARAMETERS; i++)
        v[i] = f->free[i] ? exp(fmin(x[at++], 20)) : 0;
    v[GAMMA] = fmin(1 + v[GAMMA], GAMMA_MOST);
    /* One batch alone does not tell its fixed part; like the authors, take half of it as fixed. */
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

/* Free the parameters that the points can tell. */
static void find_free(struct fit *f)
{
    bool nodes = false, node = false, many = false, batches = false;

    for (size_t i = 0; i < f->n; i++) {
        const struct lk_scaling_point *p = &f->points[i];

        nodes |= or_one(p->config.nodes) > 1;
        node |= or_one(p->config.nodes) <= 1 && p->config.world_size > 1;
        many |= p->config.world_size > 2;
        batches |= or_one(p->config.local_batch) != f->unit_batch;
    }
    f->free[ALPHA_C] = batches;
    f->free[BETA_C] = true;
    f->free[ALPHA_N] = nodes;
    f->free[BETA_N] = nodes && many;
    f->free[ALPHA_R] = node;
    f->free[BETA_R] = node && many;
    f->free[GAMMA] = nodes || node;
}

double lk_pollux_throughput(const struct lk_scaling_point *points, size_t n,
                            const struct lk_scaling_point *target)
{
    struct fit f = {.points = points, .n = n};
    double x[PARAMETERS], v[PARAMETERS];
    size_t free = 0;

    if (!n || n > LK_BASELINE_POINTS_MAX)
        return NAN;
    f.unit_s = step_s(&points[0]);
    f.unit_batch = or_one(points[0].config.local_batch);
    find_free(&f);
    for (int i = 0; i < PARAMETERS; i++)
        if (f.free[i])
            x[free++] = log(i == GAMMA ? START[i] - 1 : START[i]);
    /* Restart the simplex from where it collapsed. */
    for (int i = 0; i < ROUNDS; i++)
        if (lk_simplex_minimise(objective, &f, x, free, STEP, ITERATIONS, NULL) != LK_OK)
            return NAN;
    unpack(&f, x, v);
    return target->config.world_size * or_one(target->config.local_batch) *
           or_one(target->config.accumulation) / (model(&f, v, target) * f.unit_s);
}

/* ---- The table of them ---- */

static const struct lk_words baseline_words = LK_WORDS("a baseline", LK_BASELINE_LIST);

const char *lk_baseline_name(enum lk_baseline b)
{
    return baseline_words.names[b];
}

const char *lk_baseline_text(enum lk_baseline b)
{
    static const char *const texts[LK_BASELINE_COUNT] = {
#define LK_BASELINE_TEXT_(baseline, key, text) [baseline] = text,
        LK_BASELINE_LIST(LK_BASELINE_TEXT_)
#undef LK_BASELINE_TEXT_
    };

    return texts[b];
}

double lk_baseline_throughput(enum lk_baseline b, const struct lk_scaling_point *points, size_t n,
                              const struct lk_scaling_point *target)
{
    static double (*const models[LK_BASELINE_COUNT])(const struct lk_scaling_point *p, size_t n,
                                                     const struct lk_scaling_point *target) = {
        [LK_BASELINE_PROPORTIONAL] = proportional,
        [LK_BASELINE_LINE] = line,
        [LK_BASELINE_AMDAHL] = amdahl,
        [LK_BASELINE_POLLUX] = lk_pollux_throughput,
    };

    return b == LK_BASELINE_POLLUX && n < 2 ? NAN : models[b](points, n, target);
}
