/* This file holds the assumptions and their sources. */
#include "sim/prior.h"

#include <math.h>

static const struct {
    double value;
    const char *source;
} rows[LK_PRIOR_COUNT] = {
#define LK_PRIOR_ROW_(prior, v, s) [prior] = {v, s},
    LK_PRIOR_LIST(LK_PRIOR_ROW_)
#undef LK_PRIOR_ROW_
};

double lk_prior_value(enum lk_prior p)
{
    return rows[p].value;
}

const char *lk_prior_source(enum lk_prior p)
{
    return rows[p].source;
}

double lk_prior_half_normal(double mean, double z)
{
    static const double ROOT_HALF_PI = 1.2533141373155001;

    return mean * ROOT_HALF_PI * fabs(z);
}

double lk_prior_within(double value, double z)
{
    return value * exp(log(rows[LK_PRIOR_LAUNCH_RANGE].value) / LK_Z90 * z);
}

enum lk_prior lk_prior_of_scale(size_t n_points)
{
    return n_points ? LK_PRIOR_MEASURED_SCALE_ERROR : LK_PRIOR_SCALE_ERROR;
}

size_t lk_prior_scale_tests(enum lk_prior p)
{
    return (size_t)lk_prior_value(p == LK_PRIOR_MEASURED_SCALE_ERROR ? LK_PRIOR_MEASURED_SCALE_TESTS
                                                                     : LK_PRIOR_SCALE_TESTS);
}

double lk_prior_log_sd(const struct lk_quantity *q)
{
    if (q->lo > 0 && q->hi >= q->lo)
        return log(q->hi / q->lo) / (2 * LK_Z90);
    return q->n == 1 ? lk_prior_value(LK_PRIOR_SAMPLE_SD) : 0;
}
