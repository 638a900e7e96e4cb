/* This file makes the step model of job, cluster and configuration. */
#include "sim/step/config.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/collective/coll_points.h"
#include "sim/collective/links.h"
#include "sim/prior.h"
#include "sim/step/batch_curve.h"
#include "sim/step/bucket_cost.h"
#include "sim/step/known_stragglers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A loader that makes the step wait for more than this share of it limits the step. */
static const double INPUT_BOUND_SHARE = 0.02;

struct lk_config lk_config_current(const struct lk_job *j)
{
    struct lk_config c = {.tensor_parallel = j->tensor_parallel,
                          .pipeline_parallel = j->pipeline_parallel};

    return (struct lk_config){.world_size = lk_config_replica_gpus(&c),
                              .nodes = 1,
                              .tensor_parallel = j->tensor_parallel,
                              .pipeline_parallel = j->pipeline_parallel,
                              .local_batch = lk_job_usual_batch(j),
                              .accumulation = j->accumulation,
                              .reduce = j->reduce,
                              .overlap = j->overlap,
                              .sharding = j->sharding,
                              .shard_group = j->shard_group,
                              .averaging_period = j->averaging_period,
                              .staleness = j->staleness,
                              .algo = j->algo,
                              .compression = j->compression,
                              .powersgd_rank = j->powersgd_rank,
                              .first_bytes = j->first_bytes,
                              .cap_bytes = j->cap_bytes};
}

/* Return the first bucket's limit by the rule; a cap that is PyTorch's own was not set by the user.
 */
static uint64_t first_by_rule(const struct lk_job *j, uint64_t cap_bytes)
{
    return lk_ddp_rule_first_bytes(j->ddp_rule, cap_bytes, cap_bytes != LK_BUCKET_CAP_BYTES);
}

void lk_config_set_cap(struct lk_config *c, const struct lk_job *j, uint64_t cap_bytes)
{
    bool by_rule = j->first_bytes == first_by_rule(j, j->cap_bytes) ||
                   j->first_bytes == lk_ddp_rule_first_bytes(j->ddp_rule, j->cap_bytes, true);

    c->cap_bytes = cap_bytes;
    c->first_bytes =
        cap_bytes == j->cap_bytes || !by_rule ? j->first_bytes : first_by_rule(j, cap_bytes);
}

enum lk_status lk_config_nodes(const struct lk_cluster *cluster, struct lk_config *c)
{
    int64_t devices = (int64_t)cluster->nodes * cluster->gpus_per_node;

    if (cluster->nodes > 0 && c->world_size > devices && !cluster->n_kappa)
        return lk_fail(LK_EEVIDENCE,
                       "cluster %s has %d node%s of %d: %d ranks would share devices, and "
                       "co-location was not measured. Ask for %d at most, set \"nodes\" to 0 "
                       "to plan for more, or run: lockstep calibrate -n %d",
                       cluster->name, cluster->nodes, cluster->nodes == 1 ? "" : "s",
                       cluster->gpus_per_node, c->world_size, (int)devices, c->world_size);
    return lk_config_fill_nodes(c, cluster->gpus_per_node, cluster->nodes);
}

/* Return a measured kappa where the standard normal number z falls in its 90 % interval. */
static double draw_kappa(const struct lk_quantity *q, double z)
{
    double end = z < 0 ? q->lo : q->hi;

    return fmax(0, q->value + (isnan(end) ? 0 : fabs(z) / LK_Z90 * (end - q->value)));
}

/* Return the co-location between and beyond the measured counts. */
static double measured_kappa(const struct lk_cluster *c, int ranks, double z)
{
    double x0 = 1, y0 = 0, over;

    for (size_t i = 0; i < c->n_kappa; i++) {
        double x1 = c->kappa[i].ranks, y1 = draw_kappa(&c->kappa[i].kappa, z);

        if (ranks <= x1)
            return x1 > x0 ? lk_stats_between(y0, y1, (ranks - x0) / (x1 - x0)) : y1;
        x0 = x1;
        y0 = y1;
    }
    over = ranks / fmax(x0, c->gpus_per_node);
    return over > 1 ? (1 + y0) * over - 1 : y0;
}

double lk_config_kappa(const struct lk_cluster *c, int ranks, double z)
{
    double kappa = measured_kappa(c, ranks, z), least = ranks / fmax(1, c->gpus_per_node) - 1;

    if (least <= 0)
        return kappa;
    return fmax(least, (1 + kappa) * exp(lk_prior_value(LK_PRIOR_TURNS) * z) - 1);
}

static double known_or(const struct lk_quantity *q, double otherwise)
{
    return lk_quantity_known(q) ? q->value : otherwise;
}

/* Set the straggler law from the job's own runs, else from the cluster, else from priors. */
static void set_law(struct lk_config_model *m, const struct lk_cluster *c,
                    const struct lk_known_stragglers *slow, double job_transient)
{
    struct lk_straggler_law *law = &m->step.law;
    double rank_sd = known_or(&c->rank_sd, slow->rank_sd);
    double transient = isnan(job_transient) ? known_or(&c->transient_sd, NAN) : job_transient;

    m->rank_sd_assumed = isnan(rank_sd);
    m->transient_assumed = isnan(transient);
    law->rank_sd = isnan(rank_sd) ? lk_prior_value(LK_PRIOR_RANK_SD) : rank_sd;
    law->transient_sd = isnan(transient) ? lk_prior_value(LK_PRIOR_TRANSIENT_SD) : transient;
    law->node_sd = known_or(&c->node_sd, isnan(slow->node_sd) ? lk_prior_value(LK_PRIOR_NODE_SD)
                                                              : slow->node_sd);
    law->common_sd = known_or(&c->common_sd, 0);
    law->link_sd = known_or(&c->link_sd, lk_prior_value(LK_PRIOR_LINK_SD));
    law->link_nodes = lk_slow_link_measured_nodes(c, m->step.nodes);
    law->tail_shape = known_or(&c->tail_shape, 0);
    law->tail_scale = known_or(&c->tail_scale, 0);
    law->tail_share = known_or(&c->tail_share, lk_prior_value(LK_PRIOR_TAIL_SHARE));
}

/* Return the slowness of the slowest GPU of a replica, whose others wait for it; NaN: none is
 * known. */
static double slowest_gpu(const struct lk_known_stragglers *slow, const struct lk_config *c,
                          int replica)
{
    int split = c->tensor_parallel > 1 ? c->tensor_parallel : 1;
    int stages = lk_config_replica_gpus(c) / split, stage_ranks = c->world_size / stages;
    double most = NAN;

    for (int p = 0; p < stages; p++)
        for (int t = 0; t < split; t++)
            most = fmax(
                most, lk_known_straggler_rank(slow, p * stage_ranks + replica * split + t, false));
    return most;
}

/* Set the known slowness of each replica and node, and scale compute to one that is not slow. Where
 * a replica has several nodes its slowest counts. */
static enum lk_status set_known(struct lk_config_model *m, const struct lk_known_stragglers *slow,
                                const struct lk_config *c)
{
    struct lk_step_model *s = &m->step;
    size_t ranks = (size_t)s->ranks, nodes = (size_t)s->nodes;
    double reference = lk_known_stragglers_reference(slow, c->local_batch);
    size_t each = (size_t)c->nodes / nodes;

    if (!slow->n)
        return LK_OK;
    LK_PASS(lk_alloc(&m->known, ranks + 2 * nodes, sizeof *m->known));
    for (size_t i = 0; i < ranks; i++)
        m->known[i] = slowest_gpu(slow, c, (int)i) - 1;
    for (size_t i = 0; i < nodes; i++) {
        double own = NAN, link = 0;

        for (size_t k = i * each; k < (i + 1) * each; k++) {
            own = fmax(own, lk_known_straggler_node(slow, (int)k, false));
            link = fmax(link, lk_slow_link_factor(slow->cluster, (int)k, false));
        }
        m->known[ranks + i] = own - 1;
        m->known[ranks + nodes + i] = link;
    }
    s->rank_slowness = m->known;
    s->node_slowness = m->known + ranks;
    s->node_link = m->known + ranks + nodes;
    s->forward_s /= reference;
    s->backward_s /= reference;
    return LK_OK;
}

/* Set the slowness of ranks with batches of their own: what is known of them, times their work. */
static enum lk_status set_batches(struct lk_config_model *m, const struct lk_job *j,
                                  const struct lk_config *c)
{
    struct lk_step_model *s = &m->step;
    int per_node = (s->ranks + s->nodes - 1) / s->nodes;
    size_t ranks = (size_t)s->ranks, nodes = (size_t)s->nodes;
    double *work = NULL;
    enum lk_status st = LK_OK;

    if (!*c->batches)
        return LK_OK;
    if (lk_config_replica_gpus(c) > 1)
        return lk_fail(LK_EUSAGE, "local batches %s are of GPUs, not of replicas of several",
                       c->batches);
    LK_TRY(lk_alloc(&work, ranks, sizeof *work));
    LK_TRY(lk_batch_work(j, c, work));
    if (!m->known) {
        LK_TRY(lk_alloc(&m->known, ranks + 2 * nodes, sizeof *m->known));
        for (size_t i = 0; i < ranks + nodes; i++)
            m->known[i] = NAN;
        s->rank_slowness = m->known;
        s->node_slowness = m->known + ranks;
        s->node_link = m->known + ranks + nodes;
        for (size_t i = 0; i < nodes; i++)
            m->known[ranks + nodes + i] = NAN;
    }
    for (size_t i = 0; i < ranks; i++) {
        double own = m->known[i];

        if (isnan(own))
            own = s->node_slowness[(int)i / per_node];
        m->known[i] = work[i] * (1 + (isnan(own) ? 0 : own)) - 1;
    }
    s->ranks_vary = true;
out:
    free(work);
    return st;
}

/*
 * Set input waits from input_s, the wait in a step of the runs. Without prefetch it is the time of
 * loading. With it, a long wait means that the loader limits the step, whose time is then the
 * loader's; a short one is the cost of handing a batch over.
 */
static void set_input(struct lk_config_model *m, const struct lk_job *j,
                      const struct lk_batch_point *p, double micro)
{
    double step_s = micro * (p->forward_s + p->backward_s) + p->input_s + p->optimizer_s + p->gap_s;

    m->step.prefetch_depth = j->prefetch_depth;
    if (j->prefetch_depth && p->input_s > INPUT_BOUND_SHARE * step_s)
        m->step.load_s = step_s / micro;
    else
        m->step.input_s = p->input_s / micro;
}

/* Return true if the costs of two collectives are computed together. */
static bool same_kind(const struct lk_volume *v, size_t i, size_t k)
{
    const struct lk_volume_coll *a = &v->colls[i], *b = &v->colls[k];

    return v->steps[i].coll == v->steps[k].coll && a->ranks == b->ranks && a->nodes == b->nodes;
}

/* Return the bytes on the network: groups that cross a node's network at once share its links. */
static uint64_t network_bytes(const struct lk_volume *v, size_t i, int nics)
{
    double share = fmax(1, (double)v->colls[i].groups / (nics > 0 ? nics : 1));

    return (uint64_t)((double)v->steps[i].bytes * share);
}

static void set_order(struct lk_config_model *m, int nics)
{
    size_t n = m->volume.n, at = 0;

    for (size_t i = 0; i < n; i++) {
        bool seen = false;

        for (size_t k = 0; k < at && !seen; k++)
            seen = same_kind(&m->volume, m->order[k], i);
        for (size_t k = i; k < n && !seen; k++)
            if (same_kind(&m->volume, k, i))
                m->order[at++] = k;
    }
    for (size_t k = 0; k < n; k++)
        m->bytes[k] = network_bytes(&m->volume, m->order[k], nics);
}

static enum lk_status set_colls(struct lk_config_model *m, const struct lk_job *j,
                                const struct lk_cluster *c, const struct lk_config *config)
{
    size_t n;

    LK_PASS(lk_volume_init(&m->volume, j, config));
    n = m->volume.n;
    LK_PASS(lk_alloc(&m->colls, n, sizeof *m->colls));
    LK_PASS(lk_alloc(&m->order, n, sizeof *m->order));
    LK_PASS(lk_alloc(&m->bytes, n, sizeof *m->bytes));
    m->memory_Bps = known_or(&c->device.memory_Bps, NAN);
    m->algo = config->algo;
    if (n)
        memcpy(m->colls, m->volume.steps, n * sizeof *m->colls);
    set_order(m, c->topology.nics_per_node);
    m->step.colls = m->colls;
    m->step.n_colls = n;
    return LK_OK;
}

/* Keep the worst evidence; its text gives the extrapolation factor and axis. */
static void weaken(struct lk_config_model *m, enum lk_evidence evidence, double extrapolation,
                   const char *axis)
{
    if (evidence < m->evidence || (evidence == m->evidence && evidence != LK_EVIDENCE_EXTRAPOLATED))
        return;
    m->evidence = evidence;
    if (evidence == LK_EVIDENCE_EXTRAPOLATED)
        snprintf(m->evidence_text, sizeof m->evidence_text, "extrapolated x%.3g on %s",
                 extrapolation, axis);
    else
        snprintf(m->evidence_text, sizeof m->evidence_text, "%s", lk_evidence_name(evidence));
}

/* Costs below this share of the largest do not change the grade: a counter, a last bucket. */
static const double GRADED_SHARE = 0.01;

/* Grade the evidence of a cost. */
static void grade_cost(struct lk_config_model *m, enum lk_coll coll, const struct lk_cost *c)
{
    char axis[32];

    snprintf(axis, sizeof axis, "%s %s", coll == LK_ALL_REDUCE ? "all-reduce" : lk_coll_name(coll),
             c->extrapolates_bytes ? "bytes" : "ranks");
    if (c->extrapolates_bytes)
        m->bytes_extrapolation = fmax(m->bytes_extrapolation, c->extrapolation);
    weaken(m, c->evidence == LK_EVIDENCE_MEASURED ? LK_EVIDENCE_INTERPOLATED : c->evidence,
           c->extrapolation, axis);
}

static enum lk_status set_costs(struct lk_config_model *m, const struct lk_cost_model *cost,
                                bool grade)
{
    enum lk_status st = LK_OK;
    struct lk_cost *costs = NULL;
    size_t n = m->step.n_colls, end;
    double largest_s = 0, hooks_s = 0, sum_s = 0;

    LK_TRY(lk_alloc(&costs, n, sizeof *costs));
    for (size_t i = 0; i < n; i = end) {
        const struct lk_volume_coll *v = &m->volume.colls[m->order[i]];
        enum lk_coll coll = m->volume.steps[m->order[i]].coll;

        for (end = i + 1; end < n && same_kind(&m->volume, m->order[end], m->order[i]);)
            end++;
        LK_TRY(lk_cost_eval(cost, coll, coll == LK_ALL_REDUCE ? m->algo : LK_ALGO_AUTO, v->ranks,
                            v->nodes, &m->bytes[i], end - i, &costs[i]));
    }
    for (size_t i = 0; i < n; i++)
        largest_s = fmax(largest_s, costs[i].seconds);
    for (size_t i = 0; i < n; i++) {
        const struct lk_volume_coll *v = &m->volume.colls[m->order[i]];
        double hook_s = v->matrices * lk_prior_value(LK_PRIOR_ORTHOGONAL) +
                        (isnan(m->memory_Bps) ? 0 : v->memory_bytes / m->memory_Bps);
        double cost_s = (costs[i].seconds + (v->ranks > 1 ? m->start_s : 0)) / v->period + hook_s;
        struct lk_step_coll *c = &m->colls[m->order[i]];

        hooks_s += hook_s;
        sum_s += cost_s;
        c->cost_s = cost_s;
        c->behind = cost_s > 0 ? fmin(costs[i].behind, LK_STEP_SLOW_MAX) * costs[i].seconds /
                                     v->period / cost_s
                               : 0;
        if (grade && costs[i].seconds >= GRADED_SHARE * largest_s)
            grade_cost(m, m->volume.steps[m->order[i]].coll, &costs[i]);
    }
    m->hook_share = sum_s > 0 ? hooks_s / sum_s : 0;
out:
    free(costs);
    return st;
}

/* Adapt the law to ranks that do not synchronise every step. */
static void synchronise_seldom(struct lk_config_model *m, const struct lk_job *j,
                               const struct lk_config *c)
{
    struct lk_straggler_law *law = &m->step.law;

    if (lk_config_meets_seldom(c) && !j->n_sync_bn)
        law->transient_sd /= sqrt(c->averaging_period);
    else
        law->transient_sd /= sqrt(1 + c->staleness);
}

/* Grade another scheme than plain DDP as extrapolated, since runs are of plain DDP. */
static void grade_scheme(struct lk_config_model *m, const struct lk_config *c)
{
    const char *what = c->sharding != LK_SHARDING_DDP          ? lk_sharding_name(c->sharding)
                       : c->compression != LK_COMPRESSION_NONE ? lk_compression_name(c->compression)
                       : c->grad_dtype != LK_GRAD_OWN          ? lk_grad_dtype_name(c->grad_dtype)
                       : c->algo != LK_ALGO_AUTO               ? lk_algo_name(c->algo)
                                                               : NULL;

    if (!what || m->evidence >= LK_EVIDENCE_EXTRAPOLATED)
        return;
    m->evidence = LK_EVIDENCE_EXTRAPOLATED;
    snprintf(m->evidence_text, sizeof m->evidence_text, "extrapolated to %s", what);
}

enum lk_status lk_config_model_costs(struct lk_config_model *m, const struct lk_cost_model *cost)
{
    return set_costs(m, cost, false);
}

size_t lk_config_model_middle(const struct lk_config_model *model)
{
    double total = 0, sum = 0;
    size_t k = 0;

    for (size_t i = 0; i < model->step.n_colls; i++)
        total += model->colls[i].cost_s;
    for (; k + 1 < model->step.n_colls; k++) {
        sum += model->colls[k].cost_s;
        if (sum >= total / 2)
            break;
    }
    return k;
}

/*
 * Stages wait while the first micro-batch comes and the last one goes: m micro-batches take m + P -
 * 1 times one (1F1B and GPipe; Narayanan et al. 2021, arXiv:2104.04473, section 2.2). The job's
 * times, shared out over its micro-batches, have that.
 */
static void fill_stages(const struct lk_job *j, const struct lk_config *c, struct lk_batch_point *p)
{
    double more = c->pipeline_parallel > 1 ? c->pipeline_parallel - 1 : 0;
    double slots = (1 + more / c->accumulation) / (1 + more / j->accumulation);

    p->forward_s *= slots;
    p->backward_s *= slots;
}

enum lk_status lk_config_model_init(struct lk_config_model *m, const struct lk_job *j,
                                    const struct lk_cluster *c, const struct lk_cost_model *cost,
                                    const struct lk_known_stragglers *slow,
                                    const struct lk_config *config)
{
    enum lk_status st = LK_OK;
    struct lk_batch_point p;
    struct lk_known_stragglers fitted = {0};
    struct lk_bucket_cost launch;
    const struct lk_overlap overlap = lk_overlap_of(c);
    double micro_measured = j->accumulation > 0 ? j->accumulation : 1;

    *m = (struct lk_config_model){.bytes_extrapolation = 1};
    LK_TRY(lk_batch_curve_at(j, config->local_batch, &p));
    fill_stages(j, config, &p);
    m->step = (struct lk_step_model){
        .ranks = lk_config_replicas(config),
        .nodes =
            config->nodes < lk_config_replicas(config) ? config->nodes : lk_config_replicas(config),
        .accumulation = config->accumulation,
        .forward_s = p.forward_s,
        .backward_s = p.backward_s,
        .optimizer_s = p.optimizer_s / lk_config_sharers(config),
        .gap_s = p.gap_s,
        .gamma_wait = overlap.gamma_wait,
        .gamma_wire = overlap.gamma_wire,
        .delta = overlap.delta,
        .kappa = lk_config_kappa(c, config->world_size / config->nodes, 0),
    };
    set_input(m, j, &p, micro_measured);
    if (!slow)
        LK_TRY(lk_known_stragglers_init(&fitted, j, c));
    slow = slow ? slow : &fitted;
    set_law(m, c, slow, p.transient);
    LK_TRY(set_known(m, slow, config));
    LK_TRY(set_batches(m, j, config));
    m->overlap_assumed = overlap.assumed;
    m->start_s = overlap.start_s;
    m->kappa_unknown =
        !c->n_kappa && lk_config_replica_gpus(config) == 1 && config->world_size > config->nodes;
    m->compute_sd = p.sd;
    m->batch_extrapolation = p.extrapolation;
    m->batch_sd = p.extrapolation_sd;
    m->evidence = LK_EVIDENCE_INTERPOLATED;
    snprintf(m->evidence_text, sizeof m->evidence_text, "%s",
             lk_evidence_name(LK_EVIDENCE_INTERPOLATED));
    LK_TRY(set_colls(m, j, c, config));
    LK_TRY(lk_volume_own_buckets(j, &m->own_buckets));
    LK_TRY(set_costs(m, cost, true));
    launch = lk_bucket_cost_of(c);
    lk_bucket_cost_charge(&m->step, m->volume.steps, m->colls, m->own_buckets, &launch);
    weaken(m, p.evidence, p.extrapolation, "local batch");
    synchronise_seldom(m, j, config);
    grade_scheme(m, config);
out:
    lk_known_stragglers_fini(&fitted);
    if (st != LK_OK)
        lk_config_model_fini(m);
    return st;
}

void lk_config_model_fini(struct lk_config_model *m)
{
    free(m->colls);
    free(m->known);
    free(m->order);
    free(m->bytes);
    lk_volume_fini(&m->volume);
    memset(m, 0, sizeof *m);
}
