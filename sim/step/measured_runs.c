/* This file averages the measured runs of a configuration. */
#include "sim/step/measured_runs.h"

#include "base/stats.h"
#include "sim/prior.h"

#include <math.h>
#include <string.h>

/*
 * The sd of few observations may be drawn arbitrarily large; the quantiles that are used lie
 * below.
 */
static const double SD_DRAW_MAX = 20;

bool lk_run_counts(const struct lk_cluster *c, const struct lk_job *j, const struct lk_job_run *r)
{
    bool fits = (c->nodes == 0 || r->config.nodes <= c->nodes) &&
                (r->config.world_size <= r->config.nodes * c->gpus_per_node || c->n_kappa > 0);
    const struct lk_place *p = lk_job_run_place(j, r);

    if (!r->n_steps || (!fits && lk_config_replicas(&r->config) > 1))
        return false;
    return lk_place_on(p, c, r->config.nodes) != LK_PLACE_ELSEWHERE ||
           (lk_config_replicas(&r->config) == 1 && lk_device_same(p->device, c->gpu) > 0);
}

bool lk_runs_same_config(const struct lk_config *a, const struct lk_config *b)
{
    bool same_sync = a->reduce == b->reduce || a->accumulation == 1;
    bool same_buckets = lk_config_replicas(a) == 1 ||
                        (a->cap_bytes == b->cap_bytes && a->first_bytes == b->first_bytes);

    return a->world_size == b->world_size && a->nodes == b->nodes &&
           a->local_batch == b->local_batch && !strcmp(a->batches, b->batches) &&
           a->accumulation == b->accumulation && same_sync && same_buckets &&
           lk_config_same_scheme(a, b);
}

/* Return how unlike a configuration a run is; ranks weigh most, then the batch, then the rest. */
static double distance(const struct lk_config *run, const struct lk_config *at)
{
    static const double MORE_RANKS = 1e6;

    return (run->world_size > at->world_size ? MORE_RANKS : 0) +
           100 * fabs(log2((double)at->world_size / run->world_size)) +
           10 * fabs(log2((double)at->local_batch / run->local_batch)) +
           fabs(log2((double)at->accumulation / run->accumulation)) + (run->reduce != at->reduce) +
           (strcmp(run->batches, at->batches) != 0) + (run->cap_bytes != at->cap_bytes ? 0.5 : 0);
}

/* Return run i if it counts and has this configuration, else NULL. */
static const struct lk_job_run *member(const struct lk_runs *r, const struct lk_config *at,
                                       size_t i)
{
    const struct lk_job_run *run = &r->job->runs[i];

    return lk_run_counts(r->cluster, r->job, run) && lk_runs_same_config(&run->config, at) ? run
                                                                                           : NULL;
}

/* Return the mean of n steps resampled in blocks of about sqrt(n). */
static double resampled_mean(const double *v, size_t n, struct lk_rng *g)
{
    size_t block = (size_t)lround(sqrt((double)n)), taken = 0;
    double sum = 0;

    while (taken < n) {
        size_t at = (size_t)lk_rng_below(g, n - block + 1);

        for (size_t i = 0; i < block && taken < n; i++, taken++)
            sum += v[at + i];
    }
    return sum / (double)n;
}

/* Return the mean over runs of the means of their steps, which are resampled if g is not NULL. */
static double mean_of(const struct lk_runs *r, const struct lk_config *at, struct lk_rng *g,
                      size_t *out_n)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->job->n_runs; i++) {
        const struct lk_job_run *run = member(r, at, i);

        if (!run)
            continue;
        sum += g ? resampled_mean(run->step_s, run->n_steps, g)
                 : lk_stats_mean(run->step_s, run->n_steps);
        n++;
    }
    *out_n = n;
    return n ? sum / (double)n : NAN;
}

double lk_runs_mean(const struct lk_runs *r, const struct lk_config *at, size_t *out_n)
{
    return mean_of(r, at, NULL, out_n);
}

double lk_runs_mean_draw(const struct lk_runs *r, const struct lk_config *at, struct lk_rng *g)
{
    size_t n;

    return mean_of(r, at, g, &n);
}

bool lk_runs_range(const struct lk_runs *r, size_t i, double *lo_s, double *hi_s)
{
    size_t n = 0;

    if (!lk_runs_is_first(r, i))
        return false;
    for (size_t k = i; k < r->job->n_runs; k++) {
        const struct lk_job_run *run = member(r, &r->job->runs[i].config, k);
        double mean_s = 0;

        if (!run)
            continue;
        for (size_t t = 0; t < run->n_steps; t++)
            mean_s += run->step_s[t] / (double)run->n_steps;
        *lo_s = n ? fmin(*lo_s, mean_s) : mean_s;
        *hi_s = n ? fmax(*hi_s, mean_s) : mean_s;
        n++;
    }
    return n > 1;
}

bool lk_runs_losses(const struct lk_runs *r, const struct lk_config *at, double *out_s)
{
    size_t n = 0;

    for (size_t i = 0; i < r->job->n_runs; i++) {
        const struct lk_job_run *run = member(r, at, i);

        if (!run || !lk_losses_known(run->losses_s))
            continue;
        for (int l = 0; l < LK_LOSS_COUNT; l++)
            out_s[l] = n ? out_s[l] + run->losses_s[l] : run->losses_s[l];
        n++;
    }
    for (int l = 0; l < LK_LOSS_COUNT && n; l++)
        out_s[l] /= (double)n;
    return n > 0;
}

/* The range of values that were run. */
struct range {
    double lo, hi;
};

static void widen(struct range *r, double v)
{
    r->lo = r->hi > 0 ? fmin(r->lo, v) : v;
    r->hi = fmax(r->hi, v);
}

static double times_outside(const struct range *r, double v)
{
    return !(r->hi > 0) ? 1 : v < r->lo ? r->lo / v : v > r->hi ? v / r->hi : 1;
}

struct lk_runs_extrapolation lk_runs_extrapolation(const struct lk_runs *r,
                                                   const struct lk_config *at)
{
    struct range accumulation = {0}, cap = {0};
    double all = (double)lk_job_gradient_bytes(r->job); /* a larger cap is one that holds all */

    for (size_t i = 0; i < r->job->n_runs; i++) {
        const struct lk_job_run *run = &r->job->runs[i];

        if (!lk_run_counts(r->cluster, r->job, run))
            continue;
        if (run->config.accumulation == 1 || at->accumulation == 1 ||
            run->config.reduce == at->reduce)
            widen(&accumulation, run->config.accumulation);
        if (lk_config_replicas(&run->config) > 1) /* one reduces nothing, whatever its buckets */
            widen(&cap, fmin((double)run->config.cap_bytes, all));
    }
    return (struct lk_runs_extrapolation){
        .accumulation = times_outside(&accumulation, at->accumulation),
        .cap =
            lk_config_replicas(at) > 1 ? times_outside(&cap, fmin((double)at->cap_bytes, all)) : 1};
}

int lk_runs_accumulation(const struct lk_runs *r, const struct lk_config *at)
{
    struct range run = {0};

    for (size_t i = 0; i < r->job->n_runs; i++)
        if (lk_run_counts(r->cluster, r->job, &r->job->runs[i]))
            widen(&run, r->job->runs[i].config.accumulation);
    if (!(run.hi > 0))
        return r->job->accumulation > 0 ? r->job->accumulation : 1;
    return (int)fmin(fmax(at->accumulation, run.lo), run.hi);
}

bool lk_runs_are_sharded(const struct lk_runs *r)
{
    for (size_t i = 0; i < r->job->n_runs; i++)
        if (r->job->runs[i].config.sharding != LK_SHARDING_DDP &&
            lk_run_counts(r->cluster, r->job, &r->job->runs[i]))
            return true;
    return false;
}

bool lk_runs_is_first(const struct lk_runs *r, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (member(r, &r->job->runs[i].config, k))
            return false;
    return lk_run_counts(r->cluster, r->job, &r->job->runs[i]);
}

int lk_runs_smallest(const struct lk_job *job, const struct lk_cluster *cluster)
{
    int world_size = 0;

    for (size_t i = 0; i < job->n_runs; i++) {
        const struct lk_job_run *r = &job->runs[i];

        if (lk_run_counts(cluster, job, r) && (!world_size || r->config.world_size < world_size))
            world_size = r->config.world_size;
    }
    return world_size;
}

/*
 * Return the probability that runs deviate as is assumed where there are none, from their sum of
 * squares over that variance: as likely before as any deviation of a decade around it, all
 * scales alike. Runs that agree with the assumption thus make no forecast less certain.
 */
static double as_assumed(double squares, size_t freedom)
{
    double half = (double)freedom / 2;
    double odds = exp(half * log(squares / 2) - squares / 2 - lgamma(half)) * 2 * log(10);

    return odds / (1 + odds);
}

struct lk_runs lk_runs_of(const struct lk_job *job, const struct lk_cluster *cluster)
{
    struct lk_runs r = {job, cluster, lk_prior_value(LK_PRIOR_RUN_SD), 0, 0};
    double squares = 0;
    size_t freedom = 0;

    for (size_t i = 0; i < job->n_runs; i++) {
        const struct lk_config *c = &job->runs[i].config;
        double mean;
        size_t n;

        if (!lk_runs_is_first(&r, i))
            continue;
        mean = lk_runs_mean(&r, c, &n);
        for (size_t k = i; n > 1 && k < job->n_runs; k++) {
            const struct lk_job_run *run = member(&r, c, k);

            if (run)
                squares += pow(lk_stats_mean(run->step_s, run->n_steps) / mean - 1, 2);
        }
        freedom += n - 1;
    }
    if (freedom) {
        double prior = freedom == 1 ? 1 : 0;

        r.as_assumed = as_assumed(squares / (r.sd * r.sd), freedom);
        r.sd_observations = (int)freedom + (int)prior;
        r.sd = sqrt((squares + prior * r.sd * r.sd) / r.sd_observations);
    }
    return r;
}

double lk_runs_sd_draw(const struct lk_runs *r, struct lk_rng *g)
{
    double chi2 = 0;

    for (int i = 0; i < r->sd_observations; i++) {
        double y = lk_rng_normal(g);

        chi2 += y * y;
    }
    if (!r->sd_observations || lk_rng_uniform(g) < r->as_assumed)
        return lk_prior_value(LK_PRIOR_RUN_SD);
    return r->sd * fmin(sqrt(r->sd_observations / chi2), SD_DRAW_MAX);
}

bool lk_runs_nearest(const struct lk_runs *r, const struct lk_config *at, double *distance_io,
                     struct lk_config *out)
{
    double best = INFINITY;

    for (size_t i = 0; i < r->job->n_runs; i++) {
        const struct lk_job_run *run = &r->job->runs[i];
        double d = distance(&run->config, at);

        if (d >= best || d <= *distance_io || !lk_run_counts(r->cluster, r->job, run))
            continue;
        best = d;
        *out = run->config;
    }
    *distance_io = best;
    return best < INFINITY;
}
