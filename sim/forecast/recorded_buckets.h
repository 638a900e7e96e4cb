/*
 * Jobs whose gradients are known by their buckets alone, as a trace has them (lk_job's
 * recorded_buckets). What DDP makes of their tensors under other limits is not known: whole
 * recorded buckets put together, at the one end, are too large by up to one of them; at the other,
 * tensors so small that every bucket closes at its limit. Both are forecast, and the truth lies
 * between: the estimate is their mean, and half of the draws are of each.
 */
#ifndef LK_SIM_FORECAST_RECORDED_BUCKETS_H
#define LK_SIM_FORECAST_RECORDED_BUCKETS_H

#include "base/status.h"
#include "facts/job.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>

/* What a user is told. */
extern const char lk_buckets_note[];

/* Return true if a configuration of the job has other buckets than those recorded. */
bool lk_buckets_unknown(const struct lk_job *j, const struct lk_config *c);
/* Make the job of small tensors: each bucket in equal parts, ready one after the other until the
 * bucket was. All else stays the job's, which outlives it. */
enum lk_status lk_buckets_split(const struct lk_job *j, struct lk_job *out);
void lk_buckets_fini(struct lk_job *split); /* of lk_buckets_split; safe on a zeroed one */
/* Make p, of whole buckets, the mixture with `split`, of the same configuration, whose draws have
 * the same numbers. */
enum lk_status lk_buckets_mix(struct lk_prediction *p, const struct lk_prediction *split,
                              double level);

#endif
