/* How a run's samples are shared among ranks and steps: the trainer's part of it
 * (runtime/train/data.h). */
#include "runtime/train/trainer_impl.h"

static const char *data_name(const struct lk_train_config *c)
{
    return c->data ? c->data : "the synthetic data";
}

struct lk_sampler_config lk_trainer_sampler(const struct trainer *t)
{
    struct lk_sampler_config s = t->config->sampler;

    if (s.uneven == LK_UNEVEN_AUTO)
        s.uneven = t->config->data ? LK_UNEVEN_ERROR : LK_UNEVEN_DROP;
    s.ranks = t->ranks;
    s.rank = t->rank;
    s.samples = t->dataset ? lk_dataset_samples(t->dataset) : 0;
    s.seed = t->config->seed;
    return s;
}

struct lk_shares_config lk_trainer_shares(const struct trainer *t)
{
    const struct lk_train_config *c = t->config;

    return (struct lk_shares_config){.sampler = lk_trainer_sampler(t),
                                     .local_batch = c->local_batch,
                                     .accumulation = c->reducer.accumulation,
                                     .divide = c->divide};
}

enum lk_status lk_trainer_open_shares(struct trainer *t)
{
    const struct lk_train_config *c = t->config;
    const struct lk_shares_config sc = lk_trainer_shares(t);
    uint64_t steps = (uint64_t)(t->n_steps - t->course.first_step);

    LK_PASS(lk_shares_create(&sc, &t->shares));
    return lk_shares_check(t->shares, data_name(c),
                           t->first_batch + steps * (uint64_t)c->reducer.accumulation);
}

uint64_t lk_trainer_first_batch(const struct trainer *t, int64_t step)
{
    return t->first_batch +
           (uint64_t)(step - t->course.first_step) * (uint64_t)t->config->reducer.accumulation;
}

enum lk_status lk_trainer_check_shares(const struct lk_train_config *c)
{
    const struct lk_sampler_config *s = &c->sampler;
    const char *scheme = lk_sharding_name(c->reducer.sharding);
    const struct lk_sharding_traits *traits = lk_sharding_traits(c->reducer.sharding);
    bool joins = s->uneven == LK_UNEVEN_JOIN, short_ones = joins || s->uneven == LK_UNEVEN_PAD;

    if (joins && traits->gathers >= LK_GATHERS_FORWARD)
        return lk_fail(
            LK_EUNSUPPORTED,
            "%s with ranks that run out: ranks gather parameters where their model's "
            "passes come to them, and one without samples has no passes. PyTorch's FSDP "
            "is no part of Join either: zero1 and zero2 work, --uneven=drop and pad, too",
            scheme);
    if (joins && c->model.sync_batch_norm)
        return lk_fail(LK_EUNSUPPORTED, "SyncBatchNorm with ranks that run out: its collectives "
                                        "are the model's own, as in PyTorch's Join");
    if (traits->pace == LK_PACE_PERIOD && (s->batches || short_ones))
        return lk_fail(LK_EUNSUPPORTED, "%s with batches that differ: it weighs ranks alike",
                       scheme);
    if (s->batches && s->batches[c->comm_config.rank] != c->local_batch)
        return lk_fail(LK_EINTERNAL, "rank %d: a local batch of %d, not %lld", c->comm_config.rank,
                       c->local_batch, (long long)s->batches[c->comm_config.rank]);
    return LK_OK;
}

enum lk_status lk_train_check_shares(const struct lk_train_config *config, size_t samples)
{
    struct lk_shares_config sc = lk_trainer_shares(&(struct trainer){.config = config});
    struct lk_shares *s = NULL;
    enum lk_status st = LK_OK;

    sc.sampler.ranks = config->comm_config.world_size;
    sc.sampler.samples = samples;
    LK_TRY(lk_shares_create(&sc, &s));
    LK_TRY(lk_shares_check(s, data_name(config),
                           (uint64_t)(config->steps + config->warmup_steps) *
                               (uint64_t)config->reducer.accumulation));
out:
    lk_shares_destroy(s);
    return st;
}

double lk_trainer_small_batch(const struct trainer *t)
{
    double sum = 0;

    for (int r = 0; r < t->ranks; r++)
        sum += 1 / (double)(t->config->sampler.batches ? t->config->sampler.batches[r]
                                                       : t->config->local_batch);
    return t->ranks / sum;
}

double lk_trainer_mean_samples(const struct trainer *t)
{
    int64_t first = lk_train_skipped(t->config), sum = 0;

    for (int64_t step = first; step < t->n_steps; step++)
        sum += lk_shares_samples(t->shares, lk_trainer_first_batch(t, step));
    return (double)sum / (double)(t->n_steps - first);
}

enum lk_status lk_trainer_describe_batches(const struct lk_train_config *c,
                                           struct lk_run_info *info)
{
    const int64_t *batches = c->sampler.batches;

    info->local_batch = c->local_batch;
    if (!batches)
        return LK_OK;
    for (int r = 0; r < c->comm_config.world_size; r++)
        if (batches[r] > info->local_batch)
            info->local_batch = (int)batches[r];
    return lk_rank_batches_write(batches, c->comm_config.world_size, info->local_batches);
}
