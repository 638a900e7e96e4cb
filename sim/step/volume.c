/*
 * This file lists the collectives of a step.
 *
 * Divisions: tensors / groups / gradients / parameters / the scheme / what the job adds /
 * overlap / the whole.
 */
#include "sim/step/volume.h"

#include "base/array.h"
#include "facts/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* powerSGD_hook.py: PowerSGDState.min_compression_rate. */
static const double POWERSGD_MIN_RATE = 2;
/*
 * The passes over a compressed tensor: add the error (3), keep a copy (2), M Q, M^T P and P Q^T (1
 * each), the new error (3); counted in powerSGD_hook.py, with error feedback, its default.
 */
static const double POWERSGD_PASSES = 11;
/* SyncBatchNorm's statistics are float32: torch/nn/modules/_functions.py. */
static const uint64_t STATISTIC_BYTES = 4;
/* The sum of squares of all gradients, or GradScaler's found_inf, is a float32. */
static const uint64_t NORM_BYTES = 4;
/* find_unused_parameters' map has an int32 for each parameter: reducer.cpp, local_used_map_. */
static const uint64_t USED_MAP_BYTES = 4;

/* Ranks that share something, and their nodes. */
struct group {
    int ranks, nodes, groups;
};

struct coll {
    struct lk_step_coll step;
    struct lk_volume_coll of;
};

struct build {
    const struct lk_job *job;
    const struct lk_config *config;
    struct coll *colls;
    size_t n, capacity;
    bool has_shapes, shapes_assumed;
    struct lk_bucket_tensor *tensors; /* with the gradient dtype */
    struct lk_bucket_plan plan;
    double *ready; /* n_buckets + 1: share of backward after bucket i - 1, non-decreasing; [0] 0 */
    int per_node;  /* ranks */
    struct group all;
};

/* ---- Tensors ---- */

static enum lk_status set_tensors(struct build *b)
{
    enum lk_grad_dtype d = b->config->grad_dtype;

    LK_PASS(lk_job_bucket_tensors(b->job, &b->tensors));
    for (size_t i = 0; d != LK_GRAD_OWN && i < b->job->n_tensors; i++)
        if (lk_dtype_is_float(b->job->tensors[i].dtype)) {
            b->tensors[i].bytes = b->job->tensors[i].elems * lk_grad_dtype_bytes(d);
            b->tensors[i].dtype = lk_grad_dtype_elem(d); /* tensors of one dtype share buckets */
        }
    LK_PASS(lk_bucket_rebuilt(b->tensors, b->job->n_tensors, b->job->ready_order,
                              b->config->first_bytes, b->config->cap_bytes, &b->plan));
    LK_PASS(lk_alloc(&b->ready, b->plan.n_buckets + 1, sizeof *b->ready));
    for (size_t k = 0; k < b->plan.n_buckets; k++) {
        b->ready[k + 1] = b->ready[k];
        for (size_t i = b->plan.first[k]; i < b->plan.first[k + 1]; i++)
            b->ready[k + 1] = fmax(b->ready[k + 1], b->job->tensors[b->plan.index[i]].ready);
    }
    return LK_OK;
}

static uint64_t total_bytes(const struct build *b)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < b->plan.n_buckets; k++)
        sum += b->plan.bytes[k];
    return sum;
}

/* ---- Groups ---- */

static int group_size(const struct build *b)
{
    return b->config->shard_group ? b->config->shard_group : b->per_node;
}

/* Set the group of neighbouring ranks, which fill a part of one node or several whole nodes. */
static enum lk_status neighbours(const struct build *b, int size, struct group *out)
{
    int n = b->config->world_size;

    if (size < 1 || n % size || (size % b->per_node && b->per_node % size))
        return lk_fail(LK_EUSAGE,
                       "groups of %d do not divide %d ranks with %d on a node: expected a divisor "
                       "or multiple of %d that divides %d",
                       size, n, b->per_node, b->per_node, n);
    *out = (struct group){size, size > b->per_node ? size / b->per_node : 1, 1};
    return LK_OK;
}

/*
 * Return the group of one rank from each group of neighbours in a stage of so many ranks on so many
 * nodes. A node has as many of these groups as neighbours.
 */
static struct group counterparts(const struct build *b, const struct group *shard, int ranks,
                                 int nodes)
{
    int on_node = shard->ranks < b->per_node ? shard->ranks : b->per_node;
    int apart = nodes / shard->nodes;

    return (struct group){ranks / shard->ranks, apart, apart > 1 ? on_node : 1};
}

/* Set the group that reduces gradients: one rank of each replica, all in one stage. */
static enum lk_status set_replicas(struct build *b)
{
    const struct lk_config *c = b->config;
    int stages = c->pipeline_parallel > 1 ? c->pipeline_parallel : 1;
    struct group layer;

    b->all = (struct group){c->world_size, c->nodes, 1};
    if (lk_config_replica_gpus(c) == 1)
        return LK_OK;
    if (c->shard_group)
        return lk_fail(LK_EUSAGE, "groups of %d ranks with replicas of %d GPUs are not modelled",
                       c->shard_group, lk_config_replica_gpus(c));
    if (c->nodes % stages && stages % c->nodes)
        return lk_fail(LK_EUSAGE, "%d stages do not divide %d nodes evenly", stages, c->nodes);
    LK_PASS(neighbours(b, c->tensor_parallel > 1 ? c->tensor_parallel : 1, &layer));
    b->all =
        counterparts(b, &layer, c->world_size / stages, c->nodes > stages ? c->nodes / stages : 1);
    return LK_OK;
}

/* Add a collective. Tensors are copied into a scatter's buffer, or out of a gather's: read,
 * written.
 */
static enum lk_status add(struct build *b, const struct group *g, struct coll c)
{
    if (!c.step.bytes)
        return LK_OK;
    if (c.step.tensors)
        c.of.memory_bytes += 2 * (double)c.step.bytes;
    c.step.inside = g->nodes < 2;
    c.of.ranks = g->ranks;
    c.of.nodes = g->nodes;
    c.of.groups = g->groups;
    c.of.period = c.of.period ? c.of.period : 1;
    LK_PASS(lk_array_grow(&b->colls, &b->capacity, b->n + 1, sizeof *b->colls));
    b->colls[b->n++] = c;
    return LK_OK;
}

/* Add a collective that carries no gradients, of a unit's parameters if it has tensors. */
static enum lk_status add_other(struct build *b, const struct group *g, enum lk_coll coll,
                                uint64_t bytes, int tensors, double ready, double need, bool every)
{
    struct lk_step_coll c = {.coll = coll,
                             .bytes = bytes,
                             .ready = ready,
                             .need = need,
                             .every_micro_batch = every,
                             .bucket = -1,
                             .tensors = tensors};

    return add(b, g, (struct coll){.step = c});
}

/* ---- Gradients ---- */

static int tensors_of(const struct build *b, size_t k)
{
    return (int)(b->plan.first[k + 1] - b->plan.first[k]);
}

static struct coll of_bucket(const struct build *b, enum lk_coll coll, size_t k, bool every)
{
    return (struct coll){.step = {.coll = coll,
                                  .bytes = b->plan.bytes[k],
                                  .ready = LK_STEP_BACKWARD + b->ready[k + 1],
                                  .need = LK_STEP_OPTIMIZER,
                                  .every_micro_batch = every,
                                  .bucket = (int)k,
                                  .tensors = coll == LK_REDUCE_SCATTER ? tensors_of(b, k) : 0}};
}

/*
 * Halve wider elements to two bytes. The casts read and write to the copy, divide in place, read
 * and write back (default_hooks.py).
 */
static void compress_half(const struct build *b, size_t k, struct coll *c)
{
    c->step.bytes = 0;
    for (size_t i = b->plan.first[k]; i < b->plan.first[k + 1]; i++) {
        size_t t = b->plan.index[i];
        uint64_t elems = b->job->tensors[t].elems, size = b->tensors[t].bytes / elems;

        if (size > 2 && lk_dtype_is_float(b->job->tensors[t].dtype)) {
            c->step.bytes += 2 * elems;
            c->of.memory_bytes += (double)elems * (2 * (double)size + 4 * 2);
        } else {
            c->step.bytes += b->tensors[t].bytes;
        }
    }
}

/* Return true if PowerSGD compresses a tensor, which it sees as n x m. */
static bool is_worth(const struct build *b, size_t t, double *n, double *m)
{
    const struct lk_job_tensor *x = &b->job->tensors[t];
    double elems = (double)x->elems, rank = b->config->powersgd_rank;
    uint64_t rows = lk_tensor_rows(x, b->has_shapes);

    if (rows < 2)
        return false;
    *n = (double)rows;
    *m = elems / *n;
    return (*n + *m) * rank * POWERSGD_MIN_RATE < elems;
}

static enum lk_status add_powersgd(struct build *b, const struct group *g, size_t k, bool every)
{
    struct coll rest = of_bucket(b, LK_ALL_REDUCE, k, every), p = rest, q = rest;
    double p_bytes = 0, q_bytes = 0, rest_bytes = 0;

    for (size_t i = b->plan.first[k]; i < b->plan.first[k + 1]; i++) {
        size_t t = b->plan.index[i];
        uint64_t bytes = b->tensors[t].bytes;
        double size = (double)bytes / (double)b->job->tensors[t].elems, n, m, rank;

        if (!is_worth(b, t, &n, &m)) {
            rest_bytes += (double)bytes;
            continue;
        }
        b->shapes_assumed |= !b->has_shapes;
        rank = fmin(b->config->powersgd_rank, fmin(n, m));
        p_bytes += n * rank * size;
        q_bytes += m * rank * size;
        p.of.memory_bytes += POWERSGD_PASSES * (double)bytes;
        p.of.matrices++;
    }
    rest.step.bytes = (uint64_t)rest_bytes;
    p.step.bytes = (uint64_t)ceil(p_bytes);
    q.step.bytes = (uint64_t)ceil(q_bytes);
    LK_PASS(add(b, g, rest));
    LK_PASS(add(b, g, p));
    return add(b, g, q);
}

/* Add the reduction of all buckets' gradients within a group; `every` micro-batch or the last. */
static enum lk_status add_gradients(struct build *b, const struct group *g, enum lk_coll coll,
                                    bool every)
{
    enum lk_compression how = b->config->compression;

    for (size_t k = 0; k < b->plan.n_buckets; k++) {
        struct coll c = of_bucket(b, coll, k, every);

        if (how == LK_COMPRESSION_POWERSGD) {
            LK_PASS(add_powersgd(b, g, k, every));
            continue;
        }
        if (how != LK_COMPRESSION_NONE)
            compress_half(b, k, &c);
        LK_PASS(add(b, g, c));
    }
    return LK_OK;
}

/* ---- Parameters ---- */

/* Add the collective of all parameters after the optimizer, for which the next step waits. */
static enum lk_status add_all_parameters(struct build *b, enum lk_coll coll, int period)
{
    struct lk_step_coll c = {.coll = coll,
                             .bytes = total_bytes(b),
                             .ready = LK_STEP_END,
                             .need = LK_STEP_END,
                             .bucket = -1,
                             .tensors = coll == LK_ALL_GATHER ? (int)b->job->n_tensors : 0};

    return add(b, &b->all, (struct coll){.step = c, .of.period = period});
}

/*
 * Add the gathers of a unit's parameters before its forward, which runs from 1 - the end of its
 * backward to 1 - the start of it, the last bucket's first. They run while the unit before
 * computes (FSDP's forward order); the first unit's is not hidden.
 */
static enum lk_status add_forward_gathers(struct build *b, const struct group *g)
{
    size_t n = b->plan.n_buckets;

    for (size_t k = n; k-- > 0;)
        LK_PASS(add_other(b, g, LK_ALL_GATHER, b->plan.bytes[k], tensors_of(b, k),
                          k + 1 < n ? 1 - b->ready[k + 2] : 0, k + 1 < n ? 1 - b->ready[k + 1] : 0,
                          true));
    return LK_OK;
}

/*
 * Add the gathers before backward, which run while the predecessor computes (BackwardPrefetch's
 * BACKWARD_PRE).
 */
static enum lk_status add_backward_gathers(struct build *b, const struct group *g)
{
    for (size_t k = 0; k < b->plan.n_buckets; k++)
        LK_PASS(add_other(b, g, LK_ALL_GATHER, b->plan.bytes[k], tensors_of(b, k),
                          LK_STEP_BACKWARD + (k ? b->ready[k - 1] : 0),
                          LK_STEP_BACKWARD + b->ready[k], true));
    return LK_OK;
}

/*
 * Add what hybrid sharding reduces over the groups: each bucket's shard, after its reduce-scatter.
 * Both have the same position; the order of the list separates them.
 */
static enum lk_status add_across(struct build *b, const struct group *shard)
{
    struct group across = counterparts(b, shard, b->config->world_size, b->config->nodes);
    size_t first = b->n;

    LK_PASS(add_gradients(b, &across, LK_ALL_REDUCE, b->config->reduce == LK_REDUCTION_EVERY));
    for (size_t i = first; i < b->n; i++) {
        struct coll *c = &b->colls[i];

        c->step.bytes = (c->step.bytes - 1) / (uint64_t)shard->ranks + 1;
        c->of.memory_bytes = 0; /* the cast is the reduce-scatter's */
    }
    return LK_OK;
}

/* ---- The scheme ---- */

static enum lk_status check_pace(const struct build *b, enum lk_pace pace)
{
    if (pace == LK_PACE_PERIOD && b->config->averaging_period < 1)
        return lk_fail(LK_EUSAGE, "%s needs a period: steps from one averaging to the next, >= 1",
                       lk_sharding_name(b->config->sharding));
    if (pace == LK_PACE_BOUNDED && b->config->staleness && b->job->n_sync_bn)
        return lk_fail(LK_EUSAGE, "late gradients with SyncBatchNorm: it is a barrier");
    if (b->config->staleness && b->config->accumulation > 1 &&
        b->config->reduce != LK_REDUCTION_LAST)
        return lk_fail(LK_EUSAGE, "%s reduces gradients of the last micro-batch alone",
                       lk_sharding_name(b->config->sharding));
    return LK_OK;
}

/*
 * Let the step after this one begin before its gradients are reduced. They are needed by the update
 * of the next step, at 5. The model blocks earlier, where the next step's first bucket is ready:
 * the bucket would wait in the stream all the same. A larger bound gains nothing in a step that is
 * as any other.
 */
static void apply_late(struct build *b)
{
    double need = b->n ? LK_STEP_END + b->colls[0].step.ready : 0;

    for (size_t i = 0; i < b->n; i++) {
        b->colls[i].step.need = need;
        b->colls[i].step.late = true;
        b->colls[i].step.every_micro_batch = false; /* there is one */
    }
}

/* Adds the collectives of gradients, and of parameters in units, within a group. */
static enum lk_status add_in_group(struct build *b, const struct lk_sharding_traits *t,
                                   const struct group *g)
{
    bool every = b->config->reduce != LK_REDUCTION_LAST;

    if (t->gathers >= LK_GATHERS_FORWARD)
        LK_PASS(add_forward_gathers(b, g));
    if (t->gathers == LK_GATHERS_TWICE)
        LK_PASS(add_backward_gathers(b, g));
    LK_PASS(add_gradients(b, g, t->scatters ? LK_REDUCE_SCATTER : LK_ALL_REDUCE, every));
    if (b->config->staleness)
        apply_late(b);
    return LK_OK;
}

/* Add the sum over shards of what the update must know of all gradients. Without shards every rank
 * has them all. Gradients of float16 need a scaled loss, whose overflow ranks tell each other. */
static enum lk_status add_norm(struct build *b, const struct group *shards)
{
    if (!b->job->global_norm && b->config->grad_dtype != LK_GRAD_F16)
        return LK_OK;
    return add_other(b, shards, LK_ALL_REDUCE, NORM_BYTES, 0, LK_STEP_OPTIMIZER, LK_STEP_OPTIMIZER,
                     false);
}

static enum lk_status add_scheme(struct build *b)
{
    const struct lk_sharding_traits *t = lk_sharding_traits(b->config->sharding);
    bool periodic = t->pace == LK_PACE_PERIOD;
    bool grouped = b->config->world_size > 1 && /* one rank is no group */
                   (periodic ? b->config->shard_group > 1 : t->sharers == LK_SHARERS_GROUP);
    struct group g = b->all;

    LK_PASS(check_pace(b, t->pace));
    if (grouped)
        LK_PASS(neighbours(b, group_size(b), &g));
    if (grouped || !periodic)
        LK_PASS(add_in_group(b, t, &g));
    if (grouped && !periodic)
        LK_PASS(add_across(b, &g));
    if (t->sharers != LK_SHARERS_NONE && t->pace == LK_PACE_STEP)
        LK_PASS(add_norm(b, &g));
    if (t->gathers == LK_GATHERS_AFTER)
        LK_PASS(add_all_parameters(b, LK_ALL_GATHER, 1));
    return periodic ? add_all_parameters(b, LK_ALL_REDUCE, b->config->averaging_period) : LK_OK;
}

/* ---- What the job adds ---- */

/*
 * Add SyncBatchNorm: forward gathers 2C + 1 statistics of every rank, backward sums 2C
 * (_functions.py).
 */
static enum lk_status add_sync_bn(struct build *b)
{
    for (size_t i = 0; i < b->job->n_sync_bn; i++) {
        const struct lk_job_sync_bn *n = &b->job->sync_bn[i];
        uint64_t channels = (uint64_t)n->channels;
        double back = LK_STEP_BACKWARD + 1 - n->at;

        LK_PASS(add_other(b, &b->all, LK_ALL_GATHER,
                          (2 * channels + 1) * STATISTIC_BYTES * (uint64_t)b->all.ranks, 0, n->at,
                          n->at, true));
        LK_PASS(add_other(b, &b->all, LK_ALL_REDUCE, 2 * channels * STATISTIC_BYTES, 0, back, back,
                          true));
    }
    return LK_OK;
}

static enum lk_status add_used_map(struct build *b)
{
    if (!b->job->find_unused_parameters || b->config->sharding != LK_SHARDING_DDP)
        return LK_OK;
    return add_other(b, &b->all, LK_ALL_REDUCE, USED_MAP_BYTES * b->job->n_tensors, 0,
                     LK_STEP_OPTIMIZER, LK_STEP_OPTIMIZER, b->config->reduce != LK_REDUCTION_LAST);
}

/* ---- How collectives and compute overlap ---- */

/* Without overlap a collective is launched where it is needed; late gradients behind backward. */
static void launch_where_needed(struct build *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct lk_step_coll *c = &b->colls[i].step;

        c->ready = c->late ? LK_STEP_OPTIMIZER : c->need;
    }
}

/* One at a time: compute does not pass where the next is launched before this one has ended. */
static void block_at_next(struct lk_volume *v)
{
    for (size_t i = 0; i + 1 < v->n; i++)
        v->steps[i].need = fmin(v->steps[i].need, v->steps[i + 1].ready);
}

/* Add what the runs' traces had beside gradients; the bytes that a rank hands in stay the same. */
static enum lk_status add_of_job(struct build *b)
{
    for (size_t i = 0; i < b->job->n_collectives; i++) {
        const struct lk_job_collective *c = &b->job->collectives[i];
        int world = b->config->world_size, size = c->ranks && c->ranks < world ? c->ranks : world;
        struct group g = {size, size > b->per_node ? size / b->per_node : 1, 1};
        enum lk_coll coll;

        if (!lk_job_collective_placed(c, &coll))
            continue;
        if (world % size || (size % b->per_node && b->per_node % size))
            return lk_fail(LK_EUSAGE,
                           "%s of groups of %d ranks, as the job has it, does not divide %d ranks "
                           "with %d on a node",
                           c->function, size, world, b->per_node);
        LK_PASS(add_other(b, &g, coll, c->bytes * (coll == LK_ALL_GATHER ? (uint64_t)size : 1), 0,
                          c->at, c->needed, c->every_micro_batch));
    }
    return LK_OK;
}

/* ---- The whole ---- */

static enum lk_status check(const struct lk_config *c)
{
    bool plain = !lk_sharding_traits(c->sharding)->scatters && !lk_config_meets_seldom(c);

    if (c->compression == LK_COMPRESSION_POWERSGD && !plain)
        return lk_fail(LK_EUSAGE, "PowerSGD is a hook of all-reduces: it does not go with %s",
                       lk_sharding_name(c->sharding));
    if (c->compression == LK_COMPRESSION_POWERSGD && c->powersgd_rank < 1)
        return lk_fail(LK_EUSAGE, "PowerSGD needs the rank of its factors, 1 or more");
    return LK_OK;
}

/* List by launch; equals keep the order in which they were added. */
static enum lk_status list(const struct build *b, struct lk_volume *v)
{
    enum lk_status st = LK_OK;
    size_t *from = NULL;

    LK_TRY(lk_alloc(&from, b->n, sizeof *from));
    LK_TRY(lk_alloc(&v->steps, b->n, sizeof *v->steps));
    LK_TRY(lk_alloc(&v->colls, b->n, sizeof *v->colls));
    for (size_t i = 0; i < b->n; i++) {
        size_t at = i;

        for (; at > 0 && b->colls[from[at - 1]].step.ready > b->colls[i].step.ready; at--)
            from[at] = from[at - 1];
        from[at] = i;
    }
    for (size_t i = 0; i < b->n; i++) {
        v->steps[i] = b->colls[from[i]].step;
        v->colls[i] = b->colls[from[i]].of;
        v->tensors += (size_t)v->steps[i].tensors;
    }
    v->n = b->n;
    v->shapes_assumed = b->shapes_assumed;
out:
    free(from);
    return st;
}

enum lk_status lk_volume_init(struct lk_volume *v, const struct lk_job *j,
                              const struct lk_config *c)
{
    enum lk_status st = LK_OK;
    struct build b = {.job = j,
                      .config = c,
                      .per_node = c->world_size / c->nodes,
                      .has_shapes = lk_job_has_shapes(j)};

    *v = (struct lk_volume){0};
    LK_TRY(check(c));
    LK_TRY(set_replicas(&b));
    LK_TRY(set_tensors(&b));
    LK_TRY(add_scheme(&b));
    LK_TRY(add_sync_bn(&b));
    LK_TRY(add_used_map(&b));
    LK_TRY(add_of_job(&b));
    if (c->overlap == LK_OVERLAP_MODE_NONE)
        launch_where_needed(&b);
    LK_TRY(list(&b, v));
    if (c->overlap == LK_OVERLAP_MODE_PARTIAL)
        block_at_next(v);
out:
    free(b.colls);
    free(b.tensors);
    free(b.ready);
    lk_bucket_plan_fini(&b.plan);
    if (st != LK_OK)
        lk_volume_fini(v);
    return st;
}

enum lk_status lk_volume_own_buckets(const struct lk_job *j, int *out)
{
    const struct lk_config own = {.first_bytes = j->first_bytes, .cap_bytes = j->cap_bytes};
    struct build b = {.job = j, .config = &own};
    enum lk_status st = set_tensors(&b);

    if (st == LK_OK)
        *out = (int)b.plan.n_buckets;
    free(b.tensors);
    free(b.ready);
    lk_bucket_plan_fini(&b.plan);
    return st;
}

void lk_volume_fini(struct lk_volume *v)
{
    free(v->steps);
    free(v->colls);
    *v = (struct lk_volume){0};
}
