/*
 * Altered copies of clusters and jobs.
 *
 * Divisions: links / points / the GPU / the slowest / known to be slow / the whole. Speeds of GPUs:
 * sim/step/gpu_mix.c.
 */
#include "sim/step/altered_cluster.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/coll_cost.h"
#include "sim/collective/links.h"
#include "sim/prior.h"
#include "sim/step/overlap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_none(const struct lk_scaled *s)
{
    return s->value == 0 || (s->is_factor && s->value == 1);
}

static bool changes_links(const struct lk_change *c)
{
    bool some = !is_none(&c->oversubscription) || c->nodes_per_switch || !is_none(&c->node_Bps);

    for (int l = 0; l < LK_LINK_COUNT; l++)
        some |= !is_none(&c->bandwidth_Bps[l]) || !is_none(&c->latency_s[l]);
    return some;
}

static bool scaled_equal(const struct lk_scaled *a, const struct lk_scaled *b)
{
    return a->value == b->value && a->is_factor == b->is_factor;
}

static bool slowed_equal(const struct lk_slowed *a, const struct lk_slowed *b)
{
    return a->at == b->at && a->factor == b->factor;
}

bool lk_change_equal(const struct lk_change *a, const struct lk_change *b)
{
    bool same = scaled_equal(&a->oversubscription, &b->oversubscription) &&
                scaled_equal(&a->overlap_slowdown, &b->overlap_slowdown) &&
                scaled_equal(&a->straggler_spread, &b->straggler_spread) &&
                scaled_equal(&a->node_Bps, &b->node_Bps) &&
                a->nodes_per_switch == b->nodes_per_switch;

    for (int l = 0; l < LK_LINK_COUNT; l++)
        same = same && scaled_equal(&a->bandwidth_Bps[l], &b->bandwidth_Bps[l]) &&
               scaled_equal(&a->latency_s[l], &b->latency_s[l]);
    return same && a->gpus_per_node == b->gpus_per_node && a->gpu == b->gpu && a->mix == b->mix &&
           a->without_ranks == b->without_ranks && a->without_nodes == b->without_nodes &&
           slowed_equal(&a->slow_rank, &b->slow_rank) && slowed_equal(&a->slow_link, &b->slow_link);
}

bool lk_change_is_none(const struct lk_change *c)
{
    return lk_change_equal(c, &(struct lk_change){0});
}

/* ---- Links ---- */

static void scale(struct lk_quantity *q, double factor)
{
    q->value *= factor;
    q->lo *= factor;
    q->hi *= factor;
}

/* Sets a new, exact value and keeps the source of the old one. */
static void replace(const struct lk_altered *to, struct lk_quantity *q, double value)
{
    q->value = value;
    q->lo = q->hi = NAN;
    q->source = q->source ? q->source : to->source;
}

static enum lk_status change_switches(struct lk_altered *to, const struct lk_change *change)
{
    const struct lk_scaled *s = &change->oversubscription;
    struct lk_cluster_topology *t = &to->cluster.topology;
    double now = lk_quantity_known(&t->oversubscription) ? t->oversubscription.value : 1;

    if (change->nodes_per_switch)
        t->nodes_per_switch = change->nodes_per_switch;
    if (is_none(s) || (!s->is_factor && s->value == now))
        return LK_OK;
    if (!t->nodes_per_switch)
        return lk_fail(LK_EEVIDENCE,
                       "cluster %s: oversubscription counts above leaf switches, and nothing says "
                       "how many nodes are below one. Give --nodes-per-switch, or "
                       "topology.nodes_per_switch in the cluster file",
                       to->cluster.name);
    replace(to, &t->oversubscription, s->is_factor ? now * s->value : s->value);
    if (t->oversubscription.value < 1)
        return lk_fail(LK_EUSAGE, "an oversubscription of %g: expected 1 or more",
                       t->oversubscription.value);
    return LK_OK;
}

/* ---- Points ---- */

/* Makes the cost model of a cluster without its points, which are changed one by one. */
static enum lk_status model_without_points(const struct lk_cluster *c, struct lk_cost_model **out)
{
    struct lk_cluster bare = *c;

    bare.points = NULL;
    bare.n_points = 0;
    bare.n_slow = 0;
    return lk_cost_model_create(&bare, NULL, NULL, out);
}

static enum lk_status change_points(struct lk_altered *to, const struct lk_cluster *from)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *before = NULL, *after = NULL;

    LK_TRY(model_without_points(from, &before));
    LK_TRY(model_without_points(&to->cluster, &after));
    for (size_t i = 0; i < to->cluster.n_points; i++) {
        struct lk_cluster_point *p = &to->points[i];
        struct lk_cost a, b;

        if (p->ranks < 2 || p->ranks % p->nodes)
            continue;
        LK_TRY(lk_cost_eval(before, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &a));
        LK_TRY(lk_cost_eval(after, p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &b));
        if (a.seconds > 0)
            scale(&p->time_s, b.seconds / a.seconds);
    }
out:
    lk_cost_model_destroy(before);
    lk_cost_model_destroy(after);
    return st;
}

/* Changes links, switches and points. from: the cluster with fits of its points, as the copy has.
 */
static enum lk_status change_network(struct lk_altered *to, const struct lk_cluster *from,
                                     const struct lk_change *c)
{
    for (int l = 0; l < LK_LINK_COUNT; l++) {
        LK_PASS(lk_link_scale(&to->cluster, (enum lk_link)l, LK_LINK_BANDWIDTH,
                              c->bandwidth_Bps[l].value, c->bandwidth_Bps[l].is_factor));
        LK_PASS(lk_link_scale(&to->cluster, (enum lk_link)l, LK_LINK_LATENCY, c->latency_s[l].value,
                              c->latency_s[l].is_factor));
    }
    LK_PASS(lk_link_scale(&to->cluster, LK_LINK_INTER, LK_LINK_BANDWIDTH,
                          c->node_Bps.is_factor ? c->node_Bps.value
                                                : c->node_Bps.value / lk_link_cards(&to->cluster),
                          c->node_Bps.is_factor));
    LK_PASS(change_switches(to, c));
    if (changes_links(c) && to->cluster.n_points)
        LK_PASS(change_points(to, from));
    return LK_OK;
}

/* ---- The GPU ---- */

/* Multiplies a time by a factor with bounds. */
static void scale_between(struct lk_quantity *q, const struct lk_gpu_speed *s)
{
    double lo = lk_quantity_known(q) && q->lo <= q->value ? q->lo : q->value;
    double hi = lk_quantity_known(q) && q->hi >= q->value ? q->hi : q->value;

    q->value *= s->factor;
    q->lo = lo * s->lo;
    q->hi = hi * s->hi;
}

/* Replaces the GPU; of a mix by its fastest kind, and the optimizer's time by the slowest one's,
 * which the next step's collectives wait for. */
static enum lk_status change_gpu(struct lk_altered *to, const struct lk_job *j,
                                 const struct lk_cluster *from, const struct lk_change *change)
{
    const struct lk_cluster *gpu = change->gpu;
    struct lk_gpu_speed compute, optimizer;
    struct lk_gpu_kinds kinds;

    if (!gpu && !change->mix)
        return LK_OK;
    if (change->mix) {
        LK_PASS(lk_gpu_kinds_of(j, from, change->mix, &kinds));
        gpu = kinds.fastest;
    }
    LK_PASS(lk_gpu_speeds(j, from, gpu, &compute, &optimizer));
    if (change->mix) {
        compute = kinds.compute;
        optimizer = kinds.optimizer;
    }
    for (size_t i = 0; i < j->n_compute; i++) {
        scale_between(&to->compute[i].forward_s, &compute);
        scale_between(&to->compute[i].backward_s, &compute);
        scale_between(&to->compute[i].optimizer_s, &optimizer);
    }
    if (!gpu)
        return LK_OK;
    /* Compute of the cluster's device is now the new one's; that of another stays another's. */
    if (lk_device_same(j->place.device, from->gpu) >= 0)
        to->job.place = (struct lk_place){0};
    to->cluster.gpu = gpu->gpu;
    to->cluster.device = gpu->device;
    return LK_OK;
}

/* ---- The slowest ---- */

/* Computes mean and sd of n relative effects without the largest, the sd over that of all n. */
static void without_largest(double *v, size_t n, size_t without, double *out_mean, double *out_sd)
{
    double sums[2] = {0}, means[2];
    size_t counts[] = {n, n - without};

    lk_stats_sort(v, n);
    for (int k = 0; k < 2; k++) {
        means[k] = lk_stats_mean(v, counts[k]);
        for (size_t i = 0; i < counts[k]; i++)
            sums[k] += (v[i] - means[k]) * (v[i] - means[k]);
    }
    *out_mean = means[1];
    *out_sd = sums[0] > 0 ? sqrt(sums[1] / (double)counts[1] / (sums[0] / (double)n)) : 1;
}

/* Returns the largest run that has the compute time of each of its ranks; NULL: none. */
static const struct lk_job_run *widest_run(const struct lk_job *j, int units_min, bool nodes)
{
    const struct lk_job_run *best = NULL;

    for (size_t i = 0; i < j->n_runs; i++) {
        const struct lk_job_run *r = &j->runs[i];

        if ((nodes ? r->config.nodes : r->config.world_size) >= units_min && r->rank_compute_s &&
            r->config.world_size % r->config.nodes == 0 &&
            (!best || r->config.world_size > best->config.world_size))
            best = r;
    }
    return best;
}

/* Returns the mean compute of a run's unit of `each` ranks, without those known to be slow; NaN:
 * all are. */
static double unit_mean(const struct lk_altered *to, const struct lk_job_run *r, size_t unit,
                        size_t each)
{
    double sum = 0;
    size_t n = 0;

    for (size_t k = unit * each; k < (unit + 1) * each; k++) {
        if (!isnan(lk_known_straggler_rank(&to->slow, (int)k, true)))
            continue;
        sum += r->rank_compute_s[k];
        n++;
    }
    return n ? sum / (double)n : NAN;
}

/* Makes the effects of ranks or nodes relative to their mean: measured, or the expected order
 * statistics of n normal numbers (Blom 1958). */
static enum lk_status effects(const struct lk_altered *to, const struct lk_job *j, bool nodes,
                              int n, int without, double sd, double **out, size_t *out_n)
{
    const struct lk_job_run *r = widest_run(j, without + 2, nodes);
    size_t units = r ? (size_t)(nodes ? r->config.nodes : r->config.world_size) : (size_t)n,
           known = 0;
    double *v, mean;

    LK_PASS(lk_alloc(&v, units, sizeof *v));
    for (size_t i = 0; i < units; i++) {
        v[known] = r ? unit_mean(to, r, i, (size_t)r->config.world_size / units)
                     : sd * lk_stats_normal_quantile(((double)i + 1 - 0.375) / ((double)n + 0.25));
        if (!isnan(v[known]))
            known++;
    }
    mean = lk_stats_mean(v, known);
    for (size_t i = 0; r && i < known; i++)
        v[i] = v[i] / mean - 1;
    *out = v;
    *out_n = known;
    return LK_OK;
}

/* Replaces the slowest ranks or nodes: the sd becomes that of the rest, and the compute follows the
 * rest's mean. */
static enum lk_status replace_slowest(struct lk_altered *to, const struct lk_job *j, bool nodes,
                                      int n, int without, struct lk_quantity *sd)
{
    enum lk_status st = LK_OK;
    double *v = NULL, mean, narrower, was;
    size_t units = 0;

    if (!without)
        return LK_OK;
    was = lk_quantity_known(sd) ? sd->value : nodes ? 0 : lk_prior_value(LK_PRIOR_RANK_SD);
    LK_TRY(effects(to, j, nodes, n, without, was, &v, &units));
    if ((size_t)without + 2 > units) {
        st = lk_fail(LK_EUSAGE, "%d of %zu %s cannot be left out: two must stay", without, units,
                     nodes ? "nodes" : "ranks");
        goto out;
    }
    if (!lk_quantity_known(sd) && widest_run(j, without + 2, nodes)) {
        was = 0;
        for (size_t i = 0; i < units; i++)
            was += v[i] * v[i];
        was = sqrt(was / ((double)units - 1));
    }
    without_largest(v, units, (size_t)without, &mean, &narrower);
    replace(to, sd, was * narrower);
    for (size_t i = 0; i < to->job.n_compute; i++) {
        scale(&to->compute[i].forward_s, 1 + mean);
        scale(&to->compute[i].backward_s, 1 + mean);
    }
out:
    free(v);
    return st;
}

/* ---- Known to be slow ---- */

/* Returns the rank or node of an entry; -1: it has none among so many GPUs. */
static int place_of(const struct lk_altered *to, const struct lk_cluster_slow *e, bool nodes,
                    int world_size)
{
    int at = nodes ? lk_slow_link_node(&to->cluster, e) : e->rank;
    int n = nodes ? (world_size - 1) / to->cluster.gpus_per_node + 1 : world_size;

    return lk_quantity_known(&e->compute) && e->compute.value > 1 && at < n ? at : -1;
}

/* Replaces the slowest of the known stragglers; returns how many of `without` are left to replace.
 */
static int replace_known(struct lk_altered *to, bool nodes, int world_size, int without)
{
    for (; without; without--) {
        struct lk_cluster *c = &to->cluster;
        double slowest = 1;
        size_t kept = 0;
        int at = -1;

        for (size_t i = 0; i < c->n_slow; i++) {
            int place = place_of(to, &c->slow[i], nodes, world_size);

            if (place >= 0 && c->slow[i].compute.value > slowest) {
                slowest = c->slow[i].compute.value;
                at = place;
            }
        }
        if (at < 0)
            break;
        for (size_t i = 0; i < c->n_slow; i++)
            if ((nodes ? lk_slow_link_node(c, &c->slow[i]) : c->slow[i].rank) != at)
                c->slow[kept++] = c->slow[i];
        c->n_slow = kept;
    }
    return without;
}

static void add_slowed(struct lk_altered *to, const struct lk_slowed *s, bool link)
{
    struct lk_cluster_slow *e = &to->known[to->cluster.n_slow];
    struct lk_quantity q = lk_quantity_none();

    if (!(s->factor > 0))
        return;
    replace(to, &q, s->factor);
    *e = (struct lk_cluster_slow){.rank = link ? -1 : s->at, .node = link ? s->at : -1};
    e->compute = link ? lk_quantity_none() : q;
    e->link = link ? q : lk_quantity_none();
    e->since = true;
    to->cluster.n_slow++;
}

/* Makes each rank of a mix that is not of its fastest kind a known straggler, by its kind's compute
 * times what was known of it, or of its node. */
static enum lk_status add_kinds(struct lk_altered *to, const struct lk_job *j,
                                const struct lk_cluster *from, const struct lk_change *change)
{
    const struct lk_gpu_mix *mix = change->mix;
    const struct lk_known_stragglers known = {.list = to->known, .n = to->cluster.n_slow};
    double factors[LK_GPU_MIX_MAX];
    int each = to->cluster.gpus_per_node;

    if (!mix)
        return LK_OK;
    LK_PASS(lk_gpu_mix_slowness(j, from, mix, factors));
    for (int r = 0; r < mix->ranks; r++) {
        double own = lk_known_straggler_rank(&known, r, false);

        if (factors[r] == 1)
            continue;
        if (isnan(own))
            own = lk_known_straggler_node(&known, r / each, false);
        if (change->slow_rank.factor > 0 && change->slow_rank.at == r)
            own = change->slow_rank.factor;
        factors[r] *= isnan(own) ? 1 : own;
        add_slowed(to, &(struct lk_slowed){r, factors[r]}, false);
    }
    return LK_OK;
}

/* Gives the copy, which has no runs, the stragglers that the runs showed, and the compute of a rank
 * that is not slow. */
static enum lk_status take_known(struct lk_altered *to, const struct lk_job *j,
                                 const struct lk_cluster *c, const struct lk_gpu_mix *mix)
{
    LK_PASS(lk_known_stragglers_init(&to->slow, j, c));
    LK_PASS(
        lk_alloc(&to->known, to->slow.n + 2 + (mix ? (size_t)mix->ranks : 0), sizeof *to->known));
    if (to->slow.n)
        memcpy(to->known, to->slow.list, to->slow.n * sizeof *to->known);
    to->cluster.slow = to->known;
    to->cluster.n_slow = to->slow.n;
    if (!lk_quantity_known(&to->cluster.rank_sd) && !isnan(to->slow.rank_sd))
        replace(to, &to->cluster.rank_sd, to->slow.rank_sd);
    if (!lk_quantity_known(&to->cluster.node_sd) && !isnan(to->slow.node_sd))
        replace(to, &to->cluster.node_sd, to->slow.node_sd);
    for (size_t i = 0; i < to->job.n_compute; i++) {
        double reference = lk_known_stragglers_reference(&to->slow, to->compute[i].local_batch);

        scale(&to->compute[i].forward_s, 1 / reference);
        scale(&to->compute[i].backward_s, 1 / reference);
    }
    return LK_OK;
}

/* ---- The whole ---- */

static enum lk_status copy(void *out, const void *from, size_t n, size_t size)
{
    void *to;

    LK_PASS(lk_alloc(&to, n, size));
    if (n)
        memcpy(to, from, n * size);
    *(void **)out = to;
    return LK_OK;
}

static enum lk_status copy_lists(struct lk_altered *to, const struct lk_job *j,
                                 const struct lk_cluster *c)
{
    to->job = *j;
    to->cluster = *c;
    to->job.runs = NULL;
    to->job.n_runs = 0;
    LK_PASS(copy(&to->compute, j->compute, j->n_compute, sizeof *to->compute));
    LK_PASS(copy(&to->points, c->points, c->n_points, sizeof *to->points));
    LK_PASS(copy(&to->fits, c->fits, c->n_fits, sizeof *to->fits));
    to->job.compute = to->compute;
    to->cluster.points = to->points;
    to->cluster.fits = to->fits;
    return LK_OK;
}

static void change_node(struct lk_altered *to, const struct lk_change *change)
{
    struct lk_cluster_topology *t = &to->cluster.topology;

    if (!change->gpus_per_node)
        return;
    if (t->nvlink_domain == to->cluster.gpus_per_node)
        t->nvlink_domain = change->gpus_per_node;
    to->cluster.gpus_per_node = change->gpus_per_node;
}

static void change_overlap(struct lk_altered *to, const struct lk_scaled *slowdown)
{
    double was = 1 + lk_overlap_of(&to->cluster).gamma_wire;

    if (slowdown->value > 0)
        to->cluster.gamma_wire = (struct lk_quantity){
            .value = fmax(0, slowdown->value * (slowdown->is_factor ? was : 1) - 1),
            .lo = NAN,
            .hi = NAN,
            .source = to->source};
}

/* Multiply a deviation; one that nothing says is `prior`. */
static void spread(struct lk_altered *to, struct lk_quantity *sd, double prior, double factor)
{
    if (lk_quantity_known(sd))
        scale(sd, factor);
    else
        replace(to, sd, factor * prior);
}

/* Multiply the deviations of the straggler law, as sim/step/config.c takes it of cluster and job.
 */
static void change_spread(struct lk_altered *to, double factor)
{
    struct lk_cluster *c = &to->cluster;

    if (factor == 0)
        return;
    spread(to, &c->rank_sd, lk_prior_value(LK_PRIOR_RANK_SD), factor);
    spread(to, &c->node_sd, lk_prior_value(LK_PRIOR_NODE_SD), factor);
    spread(to, &c->link_sd, lk_prior_value(LK_PRIOR_LINK_SD), factor);
    spread(to, &c->transient_sd, lk_prior_value(LK_PRIOR_TRANSIENT_SD), factor);
    scale(&c->common_sd, factor);
    scale(&c->tail_scale, factor);
    for (size_t i = 0; i < to->job.n_compute; i++)
        scale(&to->compute[i].transient, factor);
}

enum lk_status lk_altered_init(struct lk_altered *out, const struct lk_job *j,
                               const struct lk_cluster *c, const struct lk_change *change,
                               int world_size)
{
    enum lk_status st = LK_OK;
    struct lk_altered to = {0};

    LK_TRY(lk_fitted_cluster_init(&to.fitted, c));
    LK_TRY(lk_strdup(&to.source, "a what-if"));
    LK_TRY(copy_lists(&to, j, &to.fitted.cluster));
    LK_TRY(take_known(&to, j, c, change->mix));
    change_node(&to, change);
    change_overlap(&to, &change->overlap_slowdown);
    change_spread(&to, change->straggler_spread.value);
    LK_TRY(change_network(&to, &to.fitted.cluster, change));
    LK_TRY(change_gpu(&to, j, c, change));
    LK_TRY(replace_slowest(&to, j, false, world_size,
                           replace_known(&to, false, world_size, change->without_ranks),
                           &to.cluster.rank_sd));
    LK_TRY(replace_slowest(&to, j, true, (world_size - 1) / to.cluster.gpus_per_node + 1,
                           replace_known(&to, true, world_size, change->without_nodes),
                           &to.cluster.node_sd));
    LK_TRY(add_kinds(&to, j, c, change));
    add_slowed(&to, &change->slow_rank, false);
    add_slowed(&to, &change->slow_link, true);
    *out = to;
    to = (struct lk_altered){0};
out:
    lk_altered_fini(&to);
    return st;
}

void lk_altered_fini(struct lk_altered *c)
{
    free(c->source);
    free(c->compute);
    free(c->points);
    free(c->fits);
    lk_known_stragglers_fini(&c->slow);
    free(c->known);
    lk_fitted_cluster_fini(&c->fitted);
    *c = (struct lk_altered){0};
}
