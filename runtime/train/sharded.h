/*
 * Sharded training: ZeRO-1 to 3, FSDP's SHARD_GRAD_OP and HSDP, by the traits of facts/sharding.h.
 *
 * The model's parameters are laid out in units. A unit is a bucket of facts/bucket.h in the reverse
 * of registration order, with DDP's limits: the bucket cap is a unit's size, as it is in forecasts
 * (sim/step/volume.h). It is flat, and padded to a multiple of the ranks that share it; each of
 * them owns one part, its shard, whose optimizer states it alone has. The ranks that share are all,
 * or with LK_SHARERS_GROUP a group of neighbours; the ranks with equal places in their groups are
 * replicas of one shard.
 *
 *   values     whole in place, or (trait `parameters`) a shard, gathered into a slot of a pool
 *              between the model's `need` and `done` (runtime/model/model.h). When a unit is needed
 *              the next one's gather is launched, beside this one's compute: two units are gathered
 *              at a time, and more where the model holds one longer, as a tied embedding.
 *   gradients  whole in place, or (trait `gradients`) in a slot from `need` until they are reduced
 *              to `sums`, the shard's. Where only the last micro-batch reduces, they are whole
 *              until then whatever the trait.
 *   reduction  a reduce-scatter in the group when a unit's last gradient is ready, and all units
 *              before it have theirs; then, with replicas, an all-reduce of the shard among them.
 *              A rank without samples does the same with zeros.
 *   update     of the pieces of parameters that lie in own shards (lk_exchange_owned)
 *   gathers    LK_GATHERS_AFTER: of every unit, in place, behind the update
 *
 * What a micro-batch reduces is added to the earlier ones' sums so: the gradients start with the
 * sums in the own shard, over the replicas where all-reduces will add them again, and zero
 * elsewhere; backward adds to that. The order of additions is not DDP's, so results differ by
 * rounding, except that two ranks without accumulation give the same bits.
 */
#ifndef LK_RUNTIME_SHARDED_H
#define LK_RUNTIME_SHARDED_H

#include "base/status.h"

struct lk_exchange;
struct lk_model;
struct lk_reducer_config;

/*
 * Create the exchange of a scheme with sharers: all ranks agree on the model's parameters, whose
 * values move out of the model's memory. LK_EUSAGE: a group that does not divide the ranks;
 * LK_EUNSUPPORTED: a communicator without groups, weights with masters, a planted fault of the
 * reducer's. Collective. pre of destroying the model: it is not used any more.
 */
enum lk_status lk_sharded_create(const struct lk_reducer_config *config, struct lk_model *m,
                                 struct lk_exchange **out);

#endif
