/*
 * What is known to be slow.
 *
 * Divisions: finding / compute / links.
 */
#include "sim/slow.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/prior.h"
#include "sim/run_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double FOUND_LEAST = 0.05; /* relative; below it nobody would call a rank slow */
static const double FOUND_SDS = 4;
static const double PRIOR_RANKS = 2; /* that the prior's sd counts as */

/* ---- Finding ---- */

/* Runs of another machine say how ranks spread, but not which of ours are slow. */
static bool has_ranks(const struct lk_job_run *r)
{
    return r->gpus > 1 && r->rank_compute_s;
}

static int most_ranks(const struct lk_job *j)
{
    int most = 0;

    for (size_t i = 0; i < j->n_runs; i++)
        if (has_ranks(&j->runs[i]) && j->runs[i].gpus > most)
            most = j->runs[i].gpus;
    return most;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Relative sd of the mean of a run's micro-batches, from how these vary. */
static double mean_sd(const struct lk_job *j, const struct lk_job_run *r)
{
    double transient = lk_prior_value(LK_PRIOR_TRANSIENT_SD);

    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch == r->local_batch &&
            lk_quantity_known(&j->compute[i].transient))
            transient = j->compute[i].transient.value;
    return transient / sqrt(fmax(1, (double)r->n_steps) * r->accumulation);
}

/* A run's ranks without the slow ones: their mean and how many they are. */
struct pace {
    double mean, sum_sq; /* s; of relative deviations */
    int n;
};

static struct pace pace_of(const double *sorted, int n)
{
    struct pace p = {.mean = lk_stats_mean(sorted, (size_t)n), .n = n};

    for (int i = 0; i < n; i++)
        p.sum_sq += (sorted[i] / p.mean - 1) * (sorted[i] / p.mean - 1);
    return p;
}

/* Takes the slowest away as long as they stand out from those that stay. */
static struct pace common_pace(const struct lk_job *j, const struct lk_job_run *r, double *sorted)
{
    double prior = lk_prior_value(LK_PRIOR_RANK_SD), noise = mean_sd(j, r);
    struct pace p;
    int n = r->gpus;

    memcpy(sorted, r->rank_compute_s, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    /* From the fastest half up, so that several slow ranks do not hide each other. */
    for (n = (n + 1) / 2; n < r->gpus; n++) {
        double sd;

        p = pace_of(sorted, n);
        sd = hypot(sqrt((PRIOR_RANKS * prior * prior + p.sum_sq) / (PRIOR_RANKS + n - 1)), noise);
        if (sorted[n] / p.mean - 1 > fmax(FOUND_LEAST, FOUND_SDS * sd))
            break;
    }
    return pace_of(sorted, n);
}

/* What the runs said of each rank. */
struct seen {
    int runs, slow_runs;
    double *factors; /* of the runs that found it slow */
};

static bool in_file(const struct lk_slow *s, int rank)
{
    for (size_t i = 0; i < s->n_file; i++)
        if (s->list[i].rank == rank && !s->list[i].since && lk_quantity_known(&s->list[i].compute))
            return true;
    return false;
}

static void look(const struct lk_job_run *r, const struct pace *p, double slowest,
                 struct seen *seen)
{
    for (int k = 0; k < r->gpus; k++) {
        seen[k].runs++;
        if (r->rank_compute_s[k] > slowest)
            seen[k].factors[seen[k].slow_runs++] = r->rank_compute_s[k] / p->mean;
    }
}

static enum lk_status add_found(struct lk_slow *s, int rank, struct seen *seen)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_slow *e = &s->list[s->n];
    size_t n = (size_t)seen->slow_runs;
    double lo, hi, median = lk_stats_quantile(seen->factors, n, 0.5);

    lo = hi = NAN;
    if (n > 2) {
        lo = seen->factors[0]; /* sorted by now */
        hi = seen->factors[n - 1];
    }
    *e = (struct lk_cluster_slow){.rank = rank, .node = -1};
    e->compute = e->link = lk_quantity_none();
    LK_TRY(
        lk_quantity_set(&e->compute, median, lo, hi, n, "found in %zu of %d runs", n, seen->runs));
    s->n++;
out:
    return st;
}

static enum lk_status find(struct lk_slow *s, int ranks)
{
    enum lk_status st = LK_OK;
    const struct lk_job *j = s->job;
    struct seen *seen = NULL;
    double *factors = NULL, *sorted = NULL, sum_sq = 0, freedom = 0;

    LK_TRY(lk_alloc(&seen, (size_t)ranks, sizeof *seen));
    LK_TRY(lk_alloc(&factors, (size_t)ranks * j->n_runs, sizeof *factors));
    LK_TRY(lk_alloc(&sorted, (size_t)ranks, sizeof *sorted));
    for (int k = 0; k < ranks; k++)
        seen[k].factors = factors + (size_t)k * j->n_runs;
    for (size_t i = 0; i < j->n_runs; i++) {
        struct pace p;

        if (!has_ranks(&j->runs[i]))
            continue;
        p = common_pace(j, &j->runs[i], sorted);
        if (lk_run_counts(s->cluster, &j->runs[i]))
            look(&j->runs[i], &p, sorted[p.n - 1], seen);
        sum_sq += p.sum_sq;
        freedom += p.n - 1;
    }
    if (freedom > 0)
        s->rank_sd = sqrt(sum_sq / freedom);
    for (int k = 0; k < ranks; k++)
        if (2 * seen[k].slow_runs > seen[k].runs && !in_file(s, k))
            LK_TRY(add_found(s, k, &seen[k]));
out:
    free(seen);
    free(factors);
    free(sorted);
    return st;
}

enum lk_status lk_slow_init(struct lk_slow *s, const struct lk_job *j, const struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    int ranks = most_ranks(j);

    *s = (struct lk_slow){.job = j, .cluster = c, .rank_sd = NAN};
    LK_TRY(lk_alloc(&s->list, c->n_slow + (size_t)ranks, sizeof *s->list));
    if (c->n_slow)
        memcpy(s->list, c->slow, c->n_slow * sizeof *s->list);
    s->n = s->n_file = c->n_slow;
    if (ranks)
        LK_TRY(find(s, ranks));
out:
    if (st != LK_OK)
        lk_slow_fini(s);
    return st;
}

void lk_slow_fini(struct lk_slow *s)
{
    for (size_t i = s->n_file; i < s->n; i++)
        lk_quantity_fini(&s->list[i].compute);
    free(s->list);
    *s = (struct lk_slow){0};
}

/* ---- Compute ---- */

/* What is so since then counts before what was. */
static double compute_of(const struct lk_slow *s, int rank, int node, bool then)
{
    double was = NAN;

    for (size_t i = 0; i < s->n; i++) {
        const struct lk_cluster_slow *e = &s->list[i];

        if (e->rank != rank || e->node != node || !lk_quantity_known(&e->compute))
            continue;
        if (e->since && !then)
            return e->compute.value;
        if (!e->since)
            was = e->compute.value;
    }
    return was;
}

double lk_slow_rank(const struct lk_slow *s, int rank, bool then)
{
    return compute_of(s, rank, -1, then);
}

double lk_slow_node(const struct lk_slow *s, int node, bool then)
{
    return compute_of(s, -1, node, then);
}

double lk_slow_reference(const struct lk_slow *s, int local_batch)
{
    const struct lk_job_run *first = NULL;
    double sum = 0;

    if (!s->n)
        return 1;
    for (size_t i = 0; i < s->job->n_runs; i++) {
        const struct lk_job_run *r = &s->job->runs[i];
        bool same = r->local_batch == local_batch;
        bool first_same = first && first->local_batch == local_batch;

        if (lk_run_counts(s->cluster, r) &&
            (!first || same > first_same || (same == first_same && r->gpus < first->gpus)))
            first = r;
    }
    if (!first)
        return 1;
    for (int k = 0; k < first->gpus; k++) {
        double own = lk_slow_rank(s, k, true);

        if (isnan(own))
            own = lk_slow_node(s, k / ((first->gpus + first->nodes - 1) / first->nodes), true);
        sum += isnan(own) ? 1 : own;
    }
    return sum / first->gpus;
}

/* ---- Links ---- */

int lk_slow_node_of(const struct lk_cluster *c, const struct lk_cluster_slow *e)
{
    return e->rank < 0 ? e->node : e->rank / c->gpus_per_node;
}

double lk_slow_link(const struct lk_cluster *c, int node, bool then)
{
    double was = NAN;

    for (size_t i = 0; i < c->n_slow; i++) {
        const struct lk_cluster_slow *e = &c->slow[i];

        if (lk_slow_node_of(c, e) != node || !lk_quantity_known(&e->link))
            continue;
        if (e->since && !then)
            return e->link.value;
        if (!e->since)
            was = isnan(was) ? e->link.value : fmax(was, e->link.value);
    }
    return was;
}

double lk_slow_links(const struct lk_cluster *c, int nodes, bool then)
{
    double slowest = 0;
    int known = 0;

    /* Of the entries, not of the nodes: there may be a million of them. */
    for (size_t i = 0; i < c->n_slow; i++) {
        const struct lk_cluster_slow *e = &c->slow[i];
        int at = lk_slow_node_of(c, e);
        double link = at < nodes ? lk_slow_link(c, at, then) : NAN;
        bool again = false;

        for (size_t k = 0; k < i; k++)
            again |= at == lk_slow_node_of(c, &c->slow[k]);
        if (isnan(link) || again)
            continue;
        slowest = fmax(slowest, link);
        known++;
    }
    return known < nodes ? fmax(slowest, 1) : slowest;
}

int lk_slow_measured_nodes(const struct lk_cluster *c, int nodes)
{
    int best = 0;

    for (size_t i = 0; i < c->n_points; i++) {
        int at = c->points[i].nodes;

        if (at > 1 && (!best || fabs(log((double)at / nodes)) < fabs(log((double)best / nodes))))
            best = at;
    }
    return best;
}
