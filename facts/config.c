/* Configurations: the words of their schemes, comparison, and what follows from a world size. */
#include "facts/config.h"

#include "facts/bounds.h"

#include <string.h>

const struct lk_words lk_sharding_words = LK_WORDS("a sharding", LK_SHARDING_LIST);
const struct lk_words lk_reduction_words = LK_WORDS("a way to reduce", LK_REDUCTION_LIST);
const struct lk_words lk_overlap_mode_words = LK_WORDS("a way to overlap", LK_OVERLAP_MODE_LIST);
const struct lk_words lk_compression_words = LK_WORDS("a compression", LK_COMPRESSION_LIST);
const struct lk_words lk_grad_dtype_words = LK_WORDS("a gradient dtype", LK_GRAD_DTYPE_LIST);

static const struct lk_sharding_traits traits[LK_SHARDING_COUNT] = {
#define TRAITS_(scheme, name, help, ...) [scheme] = {__VA_ARGS__},
    LK_SHARDING_LIST(TRAITS_)
#undef TRAITS_
};

const struct lk_sharding_traits *lk_sharding_traits(enum lk_sharding s)
{
    return &traits[s];
}

static const uint64_t grad_dtype_bytes[] = {LK_GRAD_DTYPE_LIST(LK_WORD_THIRD)};

uint64_t lk_grad_dtype_bytes(enum lk_grad_dtype d)
{
    return grad_dtype_bytes[d];
}

enum lk_dtype lk_grad_dtype_elem(enum lk_grad_dtype d)
{
    static const enum lk_dtype elems[] = {
#define ELEM_(value, name, bytes, elem) [value] = (elem),
        LK_GRAD_DTYPE_LIST(ELEM_)
#undef ELEM_
    };

    return elems[d];
}

static int or_one(int n)
{
    return n > 1 ? n : 1;
}

int lk_config_replica_gpus(const struct lk_config *c)
{
    return or_one(c->tensor_parallel) * or_one(c->pipeline_parallel);
}

int lk_config_replicas(const struct lk_config *c)
{
    return or_one(c->world_size / lk_config_replica_gpus(c));
}

bool lk_config_equal(const struct lk_config *a, const struct lk_config *b)
{
    return a->world_size == b->world_size && a->nodes == b->nodes &&
           a->local_batch == b->local_batch && !strcmp(a->batches, b->batches) &&
           a->accumulation == b->accumulation && a->reduce == b->reduce &&
           a->first_bytes == b->first_bytes && a->cap_bytes == b->cap_bytes &&
           or_one(a->tensor_parallel) == or_one(b->tensor_parallel) &&
           or_one(a->pipeline_parallel) == or_one(b->pipeline_parallel) &&
           lk_config_same_scheme(a, b);
}

bool lk_config_same_scheme(const struct lk_config *a, const struct lk_config *b)
{
    return a->algo == b->algo && a->grad_dtype == b->grad_dtype &&
           a->compression == b->compression && a->powersgd_rank == b->powersgd_rank &&
           a->overlap == b->overlap && a->sharding == b->sharding &&
           a->shard_group == b->shard_group && a->averaging_period == b->averaging_period &&
           a->staleness == b->staleness;
}

double lk_config_samples(const struct lk_config *c)
{
    struct lk_rank_batches b;

    if (*c->batches && lk_rank_batches_parse(c->batches, &b) == LK_OK)
        return (double)b.sum * c->accumulation;
    return (double)lk_config_replicas(c) * or_one(c->local_batch) * c->accumulation;
}

double lk_scaling_efficiency(const struct lk_config *c, double step_s,
                             const struct lk_config *reference, double reference_step_s)
{
    double rate = lk_config_samples(c) / step_s;
    double reference_rate = lk_config_samples(reference) / reference_step_s;

    return rate / c->world_size / (reference_rate / reference->world_size);
}

/* Return the word for what takes a local batch of its own. */
static const char *unit_of(const struct lk_config *c)
{
    return lk_config_replica_gpus(c) > 1 ? "replicas" : "GPUs";
}

enum lk_status lk_config_split_global(int64_t global, struct lk_config *c)
{
    int replicas = lk_config_replicas(c);
    int64_t share = global / replicas, batch = share < c->local_batch ? share : c->local_batch;

    if (global <= 0)
        return LK_OK;
    if (global % replicas || share % batch)
        return lk_fail(LK_EUSAGE,
                       "a global batch of %lld does not split into %d %s with local batch %d",
                       (long long)global, replicas, unit_of(c), c->local_batch);
    if (share / batch > LK_ACCUMULATION_MAX)
        return lk_fail(
            LK_EUSAGE, "a global batch of %lld is more than %d micro-batches of %lld on %d %s",
            (long long)global, LK_ACCUMULATION_MAX, (long long)batch, replicas, unit_of(c));
    c->local_batch = (int)batch;
    c->accumulation = (int)(share / batch);
    return LK_OK;
}

bool lk_config_splits(int64_t global, const struct lk_config *c, int local_batch)
{
    struct lk_config other = *c;

    other.local_batch = local_batch;
    return lk_config_split_global(global, &other) == LK_OK;
}

enum lk_status lk_config_fill_nodes(struct lk_config *c, int per_node, int most)
{
    int nodes = (c->world_size - 1) / per_node + 1, replica = lk_config_replica_gpus(c);

    if (c->world_size % replica)
        return lk_fail(LK_EUSAGE,
                       "%d GPUs are no whole replicas of %d: tensor parallel %d x pipeline "
                       "parallel %d",
                       c->world_size, replica, or_one(c->tensor_parallel),
                       or_one(c->pipeline_parallel));
    if (most > 0 && nodes > most)
        nodes = most;
    if (c->world_size % nodes)
        return lk_fail(LK_EUSAGE, "%d ranks do not fill %d nodes of %d equally", c->world_size,
                       nodes, per_node);
    c->nodes = nodes;
    return LK_OK;
}

void lk_config_shard(struct lk_config *c, enum lk_sharding s, enum lk_reduction own)
{
    enum lk_reduced usual = traits[s].reduced, before = traits[c->sharding].reduced;
    bool same = c->sharding == s && usual != LK_REDUCED_AS_JOB;

    c->sharding = s;
    if (traits[s].pace == LK_PACE_BOUNDED && !c->staleness)
        c->staleness = 1;
    if (same) /* it may reduce otherwise than its library does */
        return;
    if (before != LK_REDUCED_AS_JOB) /* its habit says nothing of the job's plain DDP */
        own = LK_REDUCTION_LAST;
    c->reduce = usual == LK_REDUCED_AS_JOB ? own
                : usual == LK_REDUCED_LAST ? LK_REDUCTION_LAST
                                           : LK_REDUCTION_EVERY;
}

bool lk_config_keeps_gradients(const struct lk_config *c)
{
    return c->reduce == LK_REDUCTION_LAST && c->accumulation > 1;
}

bool lk_config_is_synchronous(const struct lk_config *c)
{
    enum lk_pace pace = lk_sharding_traits(c->sharding)->pace;

    return pace == LK_PACE_STEP || (pace == LK_PACE_BOUNDED && !c->staleness);
}

bool lk_config_meets_seldom(const struct lk_config *c)
{
    return lk_sharding_traits(c->sharding)->pace == LK_PACE_PERIOD && c->shard_group < 2;
}

double lk_config_sharers(const struct lk_config *c)
{
    switch (lk_sharding_traits(c->sharding)->sharers) {
    case LK_SHARERS_ALL:
        return lk_config_replicas(c);
    case LK_SHARERS_GROUP:
        if (c->world_size == 1)
            return 1;
        return c->shard_group > 0 ? c->shard_group : (double)c->world_size / c->nodes;
    default:
        return 1;
    }
}
