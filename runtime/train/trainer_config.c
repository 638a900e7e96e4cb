/* Configurations that no run can have are refused here. The options of a run say it in their words
 * before; this holds for whoever makes one. */
#include "runtime/train/trainer_impl.h"

enum lk_status lk_trainer_check_config(const struct lk_train_config *c)
{
    if (c->steps < 1 || c->warmup_steps < 0 || c->steps + c->warmup_steps > UINT32_MAX)
        return lk_fail(LK_EUSAGE, "%lld steps after %lld of warm-up", (long long)c->steps,
                       (long long)c->warmup_steps);
    if (lk_sharding_traits(c->reducer.sharding)->sharers != LK_SHARERS_NONE &&
        (c->hook.compression != LK_COMPRESSION_NONE || c->optim.kind == LK_OPTIM_LARS ||
         c->optim.kind == LK_OPTIM_LAMB))
        return lk_fail(LK_EUNSUPPORTED, "%s with a hook or an optimizer of whole tensors",
                       lk_sharding_name(c->reducer.sharding));
    if (c->reducer.staleness && c->verify && c->clip_norm > 0)
        return lk_fail(LK_EUNSUPPORTED, "late gradients are not verified when they are clipped");
    if (c->reducer.staleness && c->model.sync_batch_norm)
        return lk_fail(LK_EUNSUPPORTED, "late gradients with SyncBatchNorm, which is a barrier");
    if (!(c->clip_norm >= 0))
        return lk_fail(LK_EUSAGE, "gradients clipped to a norm of %g", c->clip_norm);
    if (c->model.replicas > 1 &&
        (c->comm_config.world_size > 1 || c->verify ||
         lk_sharding_traits(c->reducer.sharding)->sharers != LK_SHARERS_NONE))
        return lk_fail(LK_EUNSUPPORTED,
                       "%d devices of one process: not with other ranks, with --verify or shards",
                       c->model.replicas);
    if (c->model.replicas > c->local_batch)
        return lk_fail(LK_EUSAGE, "a local batch of %d on %d devices: each needs a sample",
                       c->local_batch, c->model.replicas);
    if (c->local_batch < 1 || c->reducer.accumulation < 1)
        return lk_fail(LK_EUSAGE, "local batch %d, accumulation %d", c->local_batch,
                       c->reducer.accumulation);
    return lk_trainer_check_shares(c);
}
