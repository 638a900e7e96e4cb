/* Means and bootstrap intervals over the steps of several runs. */
#include "profiler/analysis/job_stats.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "facts/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 1000 };
static const double interval_level = 0.90;
/* A fixed seed, so that the same runs give the same intervals. */
static const uint64_t bootstrap_seed = 1;

/* Samples of several runs, one a step, as prefix sums: a block's sum is one difference. */
struct samples {
    size_t n_runs;
    const struct lk_run *runs; /* borrowed */
    double **sums;             /* n_steps + 1 of each run; sums[r][i] is the sum of the first i */
};

static void samples_fini(struct samples *s)
{
    for (size_t r = 0; s->sums && r < s->n_runs; r++)
        free(s->sums[r]);
    free(s->sums);
}

/* Return the sample of step number i of a run. */
typedef double (*sample_fn)(const struct lk_run *run, size_t i, const void *ctx);

static enum lk_status samples_init(struct samples *s, const struct lk_run *runs, size_t n_runs,
                                   sample_fn sample, const void *ctx)
{
    s->runs = runs;
    LK_PASS(lk_alloc(&s->sums, n_runs, sizeof *s->sums));
    for (; s->n_runs < n_runs; s->n_runs++) {
        const struct lk_run *run = &runs[s->n_runs];

        LK_PASS(lk_alloc(&s->sums[s->n_runs], run->n_steps + 1, sizeof(double)));
        for (size_t i = 0; i < run->n_steps; i++)
            s->sums[s->n_runs][i + 1] = s->sums[s->n_runs][i] + sample(run, i, ctx);
    }
    return LK_OK;
}

static double mean_of_all(const struct samples *s, size_t *out_n)
{
    double sum = 0;

    *out_n = 0;
    for (size_t r = 0; r < s->n_runs; r++) {
        sum += s->sums[r][s->runs[r].n_steps];
        *out_n += s->runs[r].n_steps;
    }
    return sum / (double)*out_n;
}

/* Return the mean of one resample: as many runs as there are, as many steps of each as it has. */
static double resample(const struct samples *s, struct lk_rng *g)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_runs; i++) {
        size_t r = (size_t)lk_rng_below(g, s->n_runs);
        size_t steps = s->runs[r].n_steps, block = (size_t)ceil(sqrt((double)steps));

        for (size_t left = steps; left;) {
            size_t take = left < block ? left : block;
            size_t from = (size_t)lk_rng_below(g, steps - take + 1);

            sum += s->sums[r][from + take] - s->sums[r][from];
            left -= take;
            n += take;
        }
    }
    return sum / (double)n;
}

/* Compute the mean of the samples and its percentile interval, widened to contain the mean. */
static enum lk_status estimate(const struct samples *s, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(bootstrap_seed, lk_rng_stream("job intervals", 0));
    double *means = NULL;
    size_t n;
    double value = mean_of_all(s, &n);

    LK_TRY(lk_alloc(&means, RESAMPLES, sizeof *means));
    for (size_t i = 0; i < RESAMPLES; i++)
        means[i] = resample(s, &g);
    *out = lk_stats_interval(value, means, RESAMPLES, interval_level);
    out->n = n;
out:
    free(means);
    return st;
}

/* Return the mean over ranks of a step's part; of forward and backward, that of a micro-batch. */
static double part_sample(const struct lk_run *run, size_t i, const void *ctx)
{
    const enum lk_part part = *(const enum lk_part *)ctx;
    bool repeated = part == LK_PART_FORWARD || part == LK_PART_BACKWARD;
    double sum = 0;

    for (size_t k = 0; k < run->n; k++) {
        struct lk_step_split split;

        lk_step_split(&run->ranks[k], lk_rank_step(&run->ranks[k], run->steps[i]), NULL, &split);
        sum += split.s[part] / (repeated ? lk_run_about(run)->accumulation : 1);
    }
    return sum / (double)run->n;
}

static double hidden_sample(const struct lk_run *run, size_t i, const void *ctx)
{
    double sum = 0;

    (void)ctx;
    for (size_t k = 0; k < run->n; k++)
        sum += lk_s_from_ns(lk_rank_step(&run->ranks[k], run->steps[i])->hidden_ns);
    return sum / (double)run->n;
}

static enum lk_status mean_of(const struct lk_run *runs, size_t n_runs, sample_fn sample,
                              const void *ctx, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct samples s = {0};

    LK_TRY(samples_init(&s, runs, n_runs, sample, ctx));
    LK_TRY(estimate(&s, out));
out:
    samples_fini(&s);
    return st;
}

enum lk_status lk_job_part_mean(const struct lk_run *runs, size_t n_runs, enum lk_part part,
                                struct lk_estimate *out)
{
    return mean_of(runs, n_runs, part_sample, &part, out);
}

enum lk_status lk_job_hidden_mean(const struct lk_run *runs, size_t n_runs, struct lk_estimate *out)
{
    return mean_of(runs, n_runs, hidden_sample, NULL, out);
}

/* ---- Transient ---- */

/* Sum compute and its square over the micro-batches of one step and rank. */
static void add_micro_batches(const struct lk_rank_steps *r, const struct lk_step *p, double mean_s,
                              double *sum, double *sum_sq, size_t *n)
{
    const struct lk_range *end = r->ranges + p->first_range + p->n_ranges;
    double forward_s = 0;

    /* A micro-batch's forward comes before its backward, and they do not interleave. */
    for (const struct lk_range *x = r->ranges + p->first_range; x < end; x++) {
        double s = (double)lk_range_work_ns(r, x->start_ns, x->end_ns) / (double)LK_NS_PER_S;

        if (x->kind == LK_SPAN_FORWARD) {
            forward_s = s;
        } else if (x->kind == LK_SPAN_BACKWARD) {
            *sum += forward_s + s;
            *sum_sq += (forward_s + s - mean_s) * (forward_s + s - mean_s);
            ++*n;
        }
    }
}

/* Return the mean compute of a micro-batch of one rank, over the run. */
static double rank_mean(const struct lk_run *run, size_t k)
{
    double sum = 0, unused = 0;
    size_t n = 0;

    for (size_t i = 0; i < run->n_steps; i++)
        add_micro_batches(&run->ranks[k], lk_rank_step(&run->ranks[k], run->steps[i]), 0, &sum,
                          &unused, &n);
    return sum / (double)n;
}

/* Context of variance_sample: mean of each run and rank, [run][rank]; runs tells a run's number. */
struct rank_means {
    const struct lk_run *runs;
    double **means;
};

/* Return the mean over ranks of the step's squared relative deviations, unbiased. */
static double variance_sample(const struct lk_run *run, size_t i, const void *ctx)
{
    const struct rank_means *m = ctx;
    size_t micro_batches = run->n_steps * (size_t)lk_run_about(run)->accumulation;
    double sum = 0;

    for (size_t k = 0; k < run->n; k++) {
        double mean = m->means[run - m->runs][k], unused = 0, sum_sq = 0;
        size_t n = 0;

        add_micro_batches(&run->ranks[k], lk_rank_step(&run->ranks[k], run->steps[i]), mean,
                          &unused, &sum_sq, &n);
        sum += mean > 0 ? sum_sq / (double)n / (mean * mean) : 0;
    }
    return sum / (double)run->n *
           (micro_batches > 1 ? (double)micro_batches / (double)(micro_batches - 1) : 0);
}

enum lk_status lk_job_transient(const struct lk_run *runs, size_t n_runs, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct rank_means m = {.runs = runs};
    struct samples s = {0};
    struct lk_estimate variance;

    LK_TRY(lk_alloc(&m.means, n_runs, sizeof *m.means));
    for (size_t r = 0; r < n_runs; r++) {
        LK_TRY(lk_alloc(&m.means[r], runs[r].n, sizeof(double)));
        for (size_t k = 0; k < runs[r].n; k++)
            m.means[r][k] = rank_mean(&runs[r], k);
    }
    LK_TRY(samples_init(&s, runs, n_runs, variance_sample, &m));
    LK_TRY(estimate(&s, &variance));
    *out = (struct lk_estimate){.value = sqrt(variance.value),
                                .lo = sqrt(variance.lo),
                                .hi = sqrt(variance.hi),
                                .n = variance.n};
out:
    samples_fini(&s);
    for (size_t r = 0; m.means && r < n_runs; r++)
        free(m.means[r]);
    free(m.means);
    return st;
}

/* ---- Noise scale ---- */

/* The trainer's counters, each a step and rank. */
#define COUNTER_LOCAL "local gradient norm" /* of the rank's own mean gradient */
#define COUNTER_MEAN  "gradient norm"       /* of the averaged one */

/* Add the counter's squares over the ranks to sum[step], and their number to counts[step]. */
static void add_squares(const struct lk_trace *t, const char *name, uint64_t n_steps, double *sum,
                        double *counts)
{
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind != LK_SPAN_COUNTER || s->step >= n_steps ||
            strcmp(lk_trace_span_name(t, s), name))
            continue;
        sum[s->step] += s->value * s->value;
        counts[s->step]++;
    }
}

static enum lk_status add_noise(struct lk_noise *noise, const struct lk_run *run)
{
    enum lk_status st = LK_OK;
    size_t n = run->timed[run->n_timed - 1] + (size_t)1;
    double *column[4] = {NULL}; /* local sum and count, mean sum and count */

    for (size_t i = 0; i < LK_COUNT(column); i++)
        LK_TRY(lk_alloc(&column[i], n, sizeof(double)));
    for (size_t k = 0; k < run->n; k++) {
        add_squares(&run->traces[k], COUNTER_LOCAL, n, column[0], column[1]);
        add_squares(&run->traces[k], COUNTER_MEAN, n, column[2], column[3]);
    }
    for (size_t s = 0; s < run->n_timed; s++) {
        size_t i = run->timed[s];

        if (column[1][i] == (double)run->n && column[3][i] > 0)
            LK_TRY(lk_noise_add(noise, column[0][i] / column[1][i], column[2][i] / column[3][i]));
    }
out:
    for (size_t i = 0; i < LK_COUNT(column); i++)
        free(column[i]);
    return st;
}

/* Return the harmonic mean of the ranks' batches, whose gradients have the mean squared norm. */
static double small_batch(const struct lk_run_info *info)
{
    struct lk_rank_batches b;
    double sum = 0;

    if (!*info->local_batches || lk_rank_batches_parse(info->local_batches, &b) != LK_OK)
        return info->local_batch;
    for (int i = 0; i < b.n; i++)
        sum += (double)b.of[i].ranks / b.of[i].batch;
    return b.ranks / sum;
}

enum lk_status lk_job_noise(const struct lk_run *runs, size_t n_runs, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    const struct lk_run_info *info = lk_run_about(&runs[0]);
    struct lk_noise noise;

    lk_noise_init(&noise, small_batch(info) * info->accumulation, lk_run_info_samples(info));
    for (size_t i = 0; i < n_runs; i++)
        LK_TRY(add_noise(&noise, &runs[i]));
    *out = lk_noise_estimate(&noise);
out:
    lk_noise_fini(&noise);
    return st;
}
