/*
 * This file finds ranks and nodes whose compute is known to be slow.
 *
 * Divisions: finding / compute.
 */
#include "sim/step/known_stragglers.h"

#include "base/array.h"
#include "base/stats.h"
#include "facts/straggler.h"
#include "sim/prior.h"
#include "sim/step/batch_curve.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Finding ---- */

/*
 * Return true if a run tells how ranks spread. A run on another machine does, too, though it does
 * not tell which of ours are slow.
 */
static bool has_ranks(const struct lk_job_run *r)
{
    return r->config.world_size > 1 && r->rank_compute_s;
}

static int most_ranks(const struct lk_job *j)
{
    int most = 0;

    for (size_t i = 0; i < j->n_runs; i++)
        if (has_ranks(&j->runs[i]) && j->runs[i].config.world_size > most)
            most = j->runs[i].config.world_size;
    return most;
}

/* Return the relative sd of the mean of a run's micro-batches, from their transients. */
static double mean_sd(const struct lk_job *j, const struct lk_job_run *r)
{
    double transient = lk_prior_value(LK_PRIOR_TRANSIENT_SD);

    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch == r->config.local_batch &&
            lk_quantity_known(&j->compute[i].transient))
            transient = j->compute[i].transient.value;
    return transient / sqrt(fmax(1, (double)r->n_steps) * r->config.accumulation);
}

/* The runs' findings about one rank. */
struct seen {
    int runs, slow_runs;
    double *factors; /* of the runs that found it slow */
};

static bool in_file(const struct lk_known_stragglers *s, int rank)
{
    for (size_t i = 0; i < s->n_file; i++)
        if (s->list[i].rank == rank && !s->list[i].since && lk_quantity_known(&s->list[i].compute))
            return true;
    return false;
}

/* compute_s: of each rank. */
static void look(const struct lk_job_run *r, const double *compute_s,
                 const struct lk_normal_ranks *p, struct seen *seen)
{
    for (int k = 0; k < r->config.world_size; k++) {
        seen[k].runs++;
        if (compute_s[k] > p->slowest)
            seen[k].factors[seen[k].slow_runs++] = compute_s[k] / p->mean;
    }
}

/* Sums over runs for the spread within and between nodes. */
struct spread {
    double all_ss, all_freedom;       /* ranks around their run's mean */
    double within_ss, within_freedom; /* around their node's; runs on one node: the run's */
    double node_ss, node_freedom;     /* variance of nodes by moments, times its freedom */
};

/* Add the spread of the nodes' means, without the part that the ranks' own effects explain. */
static void add_nodes(struct spread *s, const struct lk_job_run *r, const double *compute_s,
                      const struct lk_normal_ranks *p)
{
    int per_node = r->config.world_size / r->config.nodes, nodes = 0;
    double sum = 0, sum_sq = 0, within_ss = 0, within_freedom = 0, shares = 0;

    for (int i = 0; i < r->config.nodes; i++) {
        const double *v = &compute_s[i * per_node];
        double mean = 0, n = 0;

        for (int k = 0; k < per_node; k++) {
            mean += v[k] <= p->slowest ? v[k] / p->mean : 0;
            n += v[k] <= p->slowest;
        }
        if (!(n > 0))
            continue;
        mean /= n;
        for (int k = 0; k < per_node; k++)
            within_ss += v[k] <= p->slowest ? pow(v[k] / p->mean - mean, 2) : 0;
        within_freedom += n - 1;
        shares += 1 / n;
        sum += mean;
        sum_sq += mean * mean;
        nodes++;
    }
    s->within_ss += within_ss;
    s->within_freedom += within_freedom;
    if (nodes > 1 && within_freedom > 0) {
        s->node_ss +=
            sum_sq - sum * sum / nodes - (nodes - 1) * within_ss / within_freedom * shares / nodes;
        s->node_freedom += nodes - 1;
    }
}

static void add_spread(struct spread *s, const struct lk_job_run *r, const double *compute_s,
                       const struct lk_normal_ranks *p)
{
    s->all_ss += p->sum_sq;
    s->all_freedom += (double)p->n - 1;
    if (r->config.nodes == 1) {
        s->within_ss += p->sum_sq;
        s->within_freedom += (double)p->n - 1;
    } else if (r->config.world_size % r->config.nodes == 0 &&
               r->config.world_size > r->config.nodes) {
        add_nodes(s, r, compute_s, p);
    }
}

/*
 * Set the spreads. With one rank a node, the effects of rank and node are one and count as the
 * rank's.
 */
static void set_spread(struct lk_known_stragglers *s, const struct spread *x)
{
    if (x->all_freedom > 0)
        s->rank_sd = sqrt(x->all_ss / x->all_freedom);
    if (x->node_freedom > 0) {
        s->rank_sd = sqrt(x->within_ss / x->within_freedom);
        s->node_sd = sqrt(fmax(0, x->node_ss / x->node_freedom));
    }
}

static enum lk_status add_found(struct lk_known_stragglers *s, int rank, struct seen *seen)
{
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
    LK_PASS(
        lk_quantity_set(&e->compute, median, lo, hi, n, "found in %zu of %d runs", n, seen->runs));
    s->n++;
    return LK_OK;
}

/* Set the compute of each rank as with equal batches. */
static enum lk_status level(const struct lk_job *j, const struct lk_job_run *r, double *compute_s)
{
    LK_PASS(lk_batch_work(j, &r->config, compute_s));
    for (int k = 0; k < r->config.world_size; k++)
        compute_s[k] = r->rank_compute_s[k] / compute_s[k];
    return LK_OK;
}

static enum lk_status find(struct lk_known_stragglers *s, int ranks)
{
    enum lk_status st = LK_OK;
    const struct lk_job *j = s->job;
    struct seen *seen = NULL;
    struct spread spread = {0};
    double *factors = NULL, *sorted = NULL, *compute_s;

    LK_TRY(lk_alloc(&seen, (size_t)ranks, sizeof *seen));
    LK_TRY(lk_alloc(&factors, (size_t)ranks * j->n_runs, sizeof *factors));
    LK_TRY(lk_alloc(&sorted, 2 * (size_t)ranks, sizeof *sorted));
    compute_s = sorted + ranks;
    for (int k = 0; k < ranks; k++)
        seen[k].factors = factors + (size_t)k * j->n_runs;
    for (size_t i = 0; i < j->n_runs; i++) {
        struct lk_normal_ranks p;

        if (!has_ranks(&j->runs[i]))
            continue;
        LK_TRY(level(j, &j->runs[i], compute_s));
        memcpy(sorted, compute_s, (size_t)j->runs[i].config.world_size * sizeof *sorted);
        p = lk_straggler_normal_ranks(sorted, (size_t)j->runs[i].config.world_size,
                                      lk_prior_value(LK_PRIOR_RANK_SD), mean_sd(j, &j->runs[i]));
        if (lk_run_counts(s->cluster, j, &j->runs[i]))
            look(&j->runs[i], compute_s, &p, seen);
        add_spread(&spread, &j->runs[i], compute_s, &p);
    }
    set_spread(s, &spread);
    for (int k = 0; k < ranks; k++)
        if (2 * seen[k].slow_runs > seen[k].runs && !in_file(s, k))
            LK_TRY(add_found(s, k, &seen[k]));
out:
    free(seen);
    free(factors);
    free(sorted);
    return st;
}

enum lk_status lk_known_stragglers_init(struct lk_known_stragglers *s, const struct lk_job *j,
                                        const struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    int ranks = most_ranks(j);

    *s = (struct lk_known_stragglers){.job = j, .cluster = c, .rank_sd = NAN, .node_sd = NAN};
    LK_TRY(lk_alloc(&s->list, c->n_slow + (size_t)ranks, sizeof *s->list));
    if (c->n_slow)
        memcpy(s->list, c->slow, c->n_slow * sizeof *s->list);
    s->n = s->n_file = c->n_slow;
    if (ranks)
        LK_TRY(find(s, ranks));
out:
    if (st != LK_OK)
        lk_known_stragglers_fini(s);
    return st;
}

void lk_known_stragglers_fini(struct lk_known_stragglers *s)
{
    for (size_t i = s->n_file; i < s->n; i++)
        lk_quantity_fini(&s->list[i].compute);
    free(s->list);
    *s = (struct lk_known_stragglers){0};
}

/* ---- Compute ---- */

/* Return the compute slowdown of an entry; entries marked `since` go before others. */
static double compute_of(const struct lk_known_stragglers *s, int rank, int node, bool then)
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

double lk_known_straggler_rank(const struct lk_known_stragglers *s, int rank, bool then)
{
    return compute_of(s, rank, -1, then);
}

double lk_known_straggler_node(const struct lk_known_stragglers *s, int node, bool then)
{
    return compute_of(s, -1, node, then);
}

double lk_known_stragglers_reference(const struct lk_known_stragglers *s, int local_batch)
{
    const struct lk_job_run *first = NULL;
    double sum = 0;

    if (!s->n)
        return 1;
    for (size_t i = 0; i < s->job->n_runs; i++) {
        const struct lk_job_run *r = &s->job->runs[i];
        bool same = r->config.local_batch == local_batch && !*r->config.batches;
        bool first_same =
            first && first->config.local_batch == local_batch && !*first->config.batches;

        if (lk_run_counts(s->cluster, s->job, r) &&
            (!first || same > first_same ||
             (same == first_same && r->config.world_size < first->config.world_size)))
            first = r;
    }
    if (!first)
        return 1;
    for (int k = 0; k < first->config.world_size; k++) {
        double own = lk_known_straggler_rank(s, k, true);

        if (isnan(own))
            own = lk_known_straggler_node(
                s, k / ((first->config.world_size + first->config.nodes - 1) / first->config.nodes),
                true);
        sum += isnan(own) ? 1 : own;
    }
    return sum / first->config.world_size;
}
