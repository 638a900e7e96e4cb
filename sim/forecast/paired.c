/* Comparisons of forecasts draw by draw; see paired.h. */
#include "sim/forecast/paired.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>

uint64_t lk_network_seed(uint64_t seed, const struct lk_cluster *c)
{
    uint64_t of = lk_rng_stream(lk_network_words.names[c->topology.network], 0) ^ seed;

    return of ? of : 1;
}

struct pair {
    const struct lk_drawn_forecast *a, *b;
    double *ratios; /* room for the draws of a point */
};

static bool paired_ratio(void *user, size_t i, size_t k, struct lk_estimate *out)
{
    const struct pair *p = user;
    const struct lk_forecast_point *x = &p->a->forecast->points[i], *y = &p->b->forecast->points[k];
    size_t n = p->a->n_draws;

    if (!n || p->b->n_draws != n)
        return false;
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(p->a->seed, lk_rng_stream("whatif.resolution", d));
        double r = p->a->draws_s[i * n + d] / p->b->draws_s[k * n + d];

        if (isnan(r))
            return false;
        p->ratios[d] = r * exp(lk_prior_value(LK_PRIOR_RESOLUTION) * lk_rng_normal(&g));
    }
    *out = lk_stats_interval(x->step_s / y->step_s, p->ratios, n, LK_COMPARE_LEVEL);
    return true;
}

enum lk_status lk_compare_drawn(const struct lk_drawn_forecast *a,
                                const struct lk_drawn_forecast *b, struct lk_comparison *out)
{
    enum lk_status st = LK_OK;
    struct pair p = {.a = a, .b = b};

    LK_TRY(lk_alloc(&p.ratios, a->n_draws, sizeof *p.ratios));
    LK_TRY(lk_compare_forecasts(a->forecast, b->forecast, paired_ratio, &p, out));
out:
    free(p.ratios);
    return st;
}
