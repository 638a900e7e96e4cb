/*
 * Ranks whose local batches differ: how long each computes, and the batches with which all compute
 * equally long.
 */
#ifndef LK_SIM_BALANCE_H
#define LK_SIM_BALANCE_H

#include "base/status.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/step/known_stragglers.h"

/* Set work[r], of world_size ranks, to the compute of a rank's micro-batch over that of the local
 * batch, which is the largest, if all ranks were alike: by the job's compute times
 * (sim/step/batch_curve.h). All 1 if batches do not differ. */
enum lk_status lk_batch_work(const struct lk_job *j, const struct lk_config *c, double *work);

/*
 * Find whole numbers b(r) >= 1, of the same sum as the configuration's batches, that minimise the
 * longest compute, max of s(r) c(b(r)): s(r) is how slow a rank is known to be (1: it is not known
 * to be), c(b) the job's compute of b samples. One sample after the other goes to the rank that is
 * done with it first, which is optimal as c grows. `at` computes `factor` times as long
 * whatever is known (-1: none). Sets the configuration's batches; they stay as they are where none
 * are shorter. LK_EUSAGE: too many ranks or samples, or replicas of several GPUs.
 */
enum lk_status lk_balance(const struct lk_job *j, const struct lk_known_stragglers *slow, int at,
                          double factor, struct lk_config *c);

#endif
