/* A site's own errors widen or narrow intervals; see the header. */
#include "sim/forecast/site.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* No interval is taken to be narrower than this: what was measured has an error, too. */
static const double HALF_WIDTH_LEAST = 1e-3;

double lk_site_error(double measured, double predicted, double lo, double hi, double level)
{
    double off = log(measured / predicted);
    double half = fmax(off > 0 ? log(hi / predicted) : log(predicted / lo), HALF_WIDTH_LEAST);
    double z = lk_stats_normal_quantile((1 + level) / 2) * off / half;

    return fmin(z * z, LK_SITE_ERROR_MOST);
}

double lk_site_factor_of(const double *errors, size_t n, double prior)
{
    double sum = prior;

    for (size_t i = 0; i < n; i++)
        sum += errors[i];
    return sqrt(sum / (prior + (double)n));
}

/* Return the error of a forecast as it would be without the site's factor. */
static double error_of(const struct lk_ledger_pair *p)
{
    const struct lk_ledger_forecast *f = p->forecast;
    double lo = f->step_s * pow(f->lo_s / f->step_s, 1 / f->site_factor);
    double hi = f->step_s * pow(f->hi_s / f->step_s, 1 / f->site_factor);

    return lk_site_error(p->score->measured_s, f->step_s, lo, hi, f->level);
}

enum lk_status lk_site_factor(const struct lk_ledger_pair *v, size_t n, double *out,
                              size_t *out_jobs)
{
    enum lk_status st = LK_OK;
    double *errors = NULL;
    size_t *counts = NULL, *first = NULL, jobs = 0;

    LK_TRY(lk_alloc(&errors, n, sizeof *errors));
    LK_TRY(lk_alloc(&counts, n, sizeof *counts));
    LK_TRY(lk_alloc(&first, n, sizeof *first));
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < jobs && !lk_ledger_same_job(v[first[k]].forecast, v[i].forecast))
            k++;
        if (k == jobs)
            first[jobs++] = i;
        errors[k] += error_of(&v[i]);
        counts[k]++;
    }
    for (size_t k = 0; k < jobs; k++)
        errors[k] /= (double)counts[k];
    *out = lk_site_factor_of(errors, jobs, LK_SITE_PRIOR_JOBS);
    *out_jobs = jobs;
out:
    free(first);
    free(counts);
    free(errors);
    return st;
}

void lk_prediction_spread(struct lk_prediction *p, double factor)
{
    if (!isnan(p->measured_s) || isnan(p->step_s) || factor == 1)
        return;
    p->lo_s = p->step_s * pow(p->lo_s / p->step_s, factor);
    p->hi_s = p->step_s * pow(p->hi_s / p->step_s, factor);
    for (size_t i = 0; i < p->n_draws; i++)
        p->draws_s[i] = p->step_s * pow(p->draws_s[i] / p->step_s, factor);
    lk_prediction_raise(p);
}
