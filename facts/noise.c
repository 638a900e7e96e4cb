#include "facts/noise.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MAX = 20 };

void lk_noise_init(struct lk_noise *e, double b_small, double b_big)
{
    memset(e, 0, sizeof *e);
    e->b_small = b_small;
    e->b_big = b_big;
}

void lk_noise_fini(struct lk_noise *e)
{
    free(e->gradient_sq);
    free(e->trace);
    memset(e, 0, sizeof *e);
}

enum lk_status lk_noise_add(struct lk_noise *e, double small_sq, double big_sq)
{
    if (!(e->b_big > e->b_small))
        return LK_OK;
    LK_PASS(lk_array_grow(&e->gradient_sq, &e->gradient_capacity, e->n + 1, sizeof(double)));
    LK_PASS(lk_array_grow(&e->trace, &e->trace_capacity, e->n + 1, sizeof(double)));
    e->gradient_sq[e->n] = (e->b_big * big_sq - e->b_small * small_sq) / (e->b_big - e->b_small);
    e->trace[e->n] = (small_sq - big_sq) / (1 / e->b_small - 1 / e->b_big);
    e->n++;
    return LK_OK;
}

/* Return ln(mean(trace) / mean(gradient_sq)) without steps [from, to); NaN unless both are > 0. */
static double log_ratio_without(const struct lk_noise *e, size_t from, size_t to)
{
    double trace = 0;
    double gradient_sq = 0;

    for (size_t i = 0; i < e->n; i++)
        if (i < from || i >= to) {
            trace += e->trace[i];
            gradient_sq += e->gradient_sq[i];
        }
    return trace > 0 && gradient_sq > 0 ? log(trace / gradient_sq) : NAN;
}

struct lk_estimate lk_noise_estimate(const struct lk_noise *e)
{
    struct lk_estimate out = {.value = NAN, .lo = NAN, .hi = NAN, .n = e->n};
    size_t blocks = e->n < BLOCKS_MAX ? e->n : BLOCKS_MAX;
    double all = e->n >= 2 ? log_ratio_without(e, 0, 0) : NAN;
    double mean = 0;
    double sum_sq = 0;
    double without[BLOCKS_MAX];
    double half;

    if (isnan(all))
        return out;
    for (size_t b = 0; b < blocks; b++) {
        without[b] = log_ratio_without(e, b * e->n / blocks, (b + 1) * e->n / blocks);
        mean += without[b] / (double)blocks;
    }
    for (size_t b = 0; b < blocks; b++)
        sum_sq += (without[b] - mean) * (without[b] - mean);
    /* Jackknife variance: (g - 1) / g times the sum of squares (Efron and Stein 1981). */
    half =
        lk_stats_student_t(0.90, blocks - 1) * sqrt((double)(blocks - 1) / (double)blocks * sum_sq);
    out.value = exp(all);
    /* A NaN: without some block the ratio has no logarithm, so the steps do not bound it. */
    out.lo = isnan(half) ? 0 : exp(all - half);
    out.hi = isnan(half) ? INFINITY : exp(all + half);
    return out;
}
