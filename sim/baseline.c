/* The simple forecasters. */
#include "sim/baseline.h"

#include "base/stats.h"
#include "sim/pollux.h"

#include <math.h>

enum { AMDAHL_POINTS_MAX = 64 };

static double proportional(const struct lk_scale_point *p, size_t n,
                           const struct lk_scale_point *target)
{
    return n ? p[n - 1].throughput / p[n - 1].gpus * target->gpus : NAN;
}

static double line(const struct lk_scale_point *p, size_t n, const struct lk_scale_point *target)
{
    double slope;

    if (n < 2)
        return NAN;
    slope = (p[n - 1].throughput - p[n - 2].throughput) / (p[n - 1].gpus - p[n - 2].gpus);
    return p[n - 1].throughput + slope * (target->gpus - p[n - 1].gpus);
}

static double amdahl(const struct lk_scale_point *p, size_t n, const struct lk_scale_point *target)
{
    double a[2 * AMDAHL_POINTS_MAX], ones[AMDAHL_POINTS_MAX], c[2];

    if (n < 2 || n > AMDAHL_POINTS_MAX)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        double y = p[i].gpus / p[i].throughput;

        a[2 * i] = 1 / y;
        a[2 * i + 1] = p[i].gpus / y;
        ones[i] = 1;
    }
    if (lk_stats_nnls(a, ones, n, 2, c) != LK_OK)
        return NAN;
    return target->gpus / (c[0] + c[1] * target->gpus);
}

static double pollux(const struct lk_scale_point *p, size_t n, const struct lk_scale_point *target)
{
    return n < 2 ? NAN : lk_pollux_throughput(p, n, target);
}

static const struct {
    double (*predict)(const struct lk_scale_point *p, size_t n,
                      const struct lk_scale_point *target);
} rows[LK_BASELINE_COUNT] = {
    [LK_BASELINE_PROPORTIONAL] = {.predict = proportional},
    [LK_BASELINE_LINE] = {.predict = line},
    [LK_BASELINE_AMDAHL] = {.predict = amdahl},
    [LK_BASELINE_POLLUX] = {.predict = pollux},
};

const char *lk_baseline_text(enum lk_baseline b)
{
    static const char *const texts[LK_BASELINE_COUNT] = {
#define LK_BASELINE_TEXT_(baseline, key, text) [baseline] = text,
        LK_BASELINE_LIST(LK_BASELINE_TEXT_)
#undef LK_BASELINE_TEXT_
    };

    return texts[b];
}

double lk_baseline_throughput(enum lk_baseline b, const struct lk_scale_point *points, size_t n,
                              const struct lk_scale_point *target)
{
    return rows[b].predict(points, n, target);
}
