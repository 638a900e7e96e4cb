/* Local batches that differ, with which all ranks compute equally long. */
#ifndef LK_SIM_BALANCE_H
#define LK_SIM_BALANCE_H

#include "base/status.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/step/known_stragglers.h"

/*
 * Find whole numbers b(r) >= 1, of the same sum as the configuration's batches, that minimise the
 * longest compute, max of s(r) c(b(r)): s(r) is how slow a rank is known to be (1: it is not known
 * to be), c(b) the job's compute of b samples. One sample after the other goes to the rank that is
 * done with it first, which is optimal as c grows. `at` computes `factor` times as long
 * whatever is known (-1: none); kinds (optional): each rank computes so many times as long beside
 * that, as its kind of GPU does. Sets the configuration's batches; they stay as they are where none
 * are shorter. LK_EUSAGE: too many ranks or samples, or replicas of several GPUs.
 */
enum lk_status lk_balance(const struct lk_job *j, const struct lk_known_stragglers *slow, int at,
                          double factor, const double *kinds, struct lk_config *c);

#endif
