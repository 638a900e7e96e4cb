/* The options of sharding; see the header. */
#include "commands/run_sharding.h"

#include "base/array.h"

enum lk_sharding run_sharding_scheme(const struct run_sharding *s)
{
    return s->scheme ? (enum lk_sharding)(s->scheme - 1) : LK_SHARDING_DDP;
}

enum lk_status run_sharding_check(const struct run_sharding *s, const struct lk_train_config *train,
                                  bool replay, bool mpi)
{
    const struct lk_sharding_traits *traits = lk_sharding_traits(run_sharding_scheme(s));
    bool sharded = traits->sharers != LK_SHARERS_NONE;
    bool grouped = traits->sharers == LK_SHARERS_GROUP;
    bool late = traits->pace == LK_PACE_BOUNDED;
    bool known = s->scheme || !replay; /* else the job says it */
    const struct {
        bool wrong;
        const char *why;
    } rows[] = {
        {late && train->reducer.noise_every, "--noise-every and --sharding=async exclude each "
                                             "other: a step does not wait for its norms"},
        {late && train->fuse.wish[LK_FUSE_OPTIMIZER] == LK_FUSE_YES,
         "--fuse=optimizer and --sharding=async exclude each other: gradients are applied later"},
        {late && train->reducer.plant > LK_PLANT_SHARED_SHARD,
         "--plant and --sharding=async: it has dropped-bucket, wrong-divisor and shared-shard"},
        {late && train->reducer.accumulation > 1 &&
             (s->sync_every || s->reduce == 1 + LK_REDUCTION_EVERY),
         "--sharding=async reduces gradients of the last micro-batch alone: it waits in no other"},
        {late && train->model.sync_batch_norm,
         "--sync-batch-norm and --sharding=async exclude each other: SyncBatchNorm is a barrier"},
        {late && train->verify && train->clip_norm > 0,
         "--verify and --clip-norm exclude each other with --sharding=async"},
        {sharded && train->reducer.noise_every,
         "--noise-every and --sharding exclude each other: no rank has the whole mean gradient"},
        {sharded && train->fuse.wish[LK_FUSE_OPTIMIZER] == LK_FUSE_YES,
         "--fuse=optimizer and --sharding exclude each other: shards are updated behind backward"},
        {sharded && train->reducer.plant > LK_PLANT_OVERFLOW,
         "--plant and --sharding: sharded training has dropped-bucket, wrong-divisor, "
         "shared-shard and overflow"},
        {grouped && !s->group, "--sharding=hsdp needs --shard-group"},
        {!grouped && s->group && known, "--shard-group needs --sharding=hsdp"},
        {grouped && mpi,
         "--sharding=hsdp needs --comm=tcp or nccl: mpi has no collectives of a part of the ranks"},
        {!grouped && s->reduce == 1 + LK_REDUCTION_SCATTER && known,
         "--reduce=scatter needs --sharding=hsdp"},
        {s->reduce && s->sync_every, "--reduce and --sync-every exclude each other"},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].wrong)
            return lk_fail(LK_EUSAGE, "%s", rows[i].why);
    return LK_OK;
}

enum lk_status run_sharding_check_ranks(int group, int ranks)
{
    return group && ranks > 1 && ranks % group
               ? lk_fail(LK_EUSAGE, "--shard-group=%d does not divide %d ranks", group, ranks)
               : LK_OK;
}

void run_sharding_take(struct run_sharding *s, const struct lk_job *job)
{
    if (!s->scheme)
        s->scheme = 1 + (int)job->sharding;
    if (run_sharding_scheme(s) != job->sharding)
        return;
    if (!s->group)
        s->group = job->shard_group;
    if (!s->reduce && !s->sync_every)
        s->reduce = 1 + (int)job->reduce;
}

void run_sharding_fill(const struct run_sharding *s, struct lk_reducer_config *c)
{
    struct lk_config usual = {0};
    enum lk_reduction reduce;

    lk_config_shard(&usual, run_sharding_scheme(s), LK_REDUCTION_LAST);
    reduce = s->reduce       ? (enum lk_reduction)(s->reduce - 1)
             : s->sync_every ? LK_REDUCTION_EVERY
                             : usual.reduce;
    c->sharding = run_sharding_scheme(s);
    c->shard_group = s->group;
    if (lk_sharding_traits(c->sharding)->pace == LK_PACE_BOUNDED)
        c->staleness = c->staleness ? c->staleness : usual.staleness;
    c->no_sync = reduce == LK_REDUCTION_LAST;
    c->scatter = reduce == LK_REDUCTION_SCATTER;
}
