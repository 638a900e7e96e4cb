/*
 * Collectives that nobody measured, from the all-reduce that somebody did: a ring's all-reduce is a
 * reduce-scatter and then an all-gather, so that each is half of it, and a broadcast is one pass of
 * the whole buffer. For what only alpha-beta models: NCCL's model relates its collectives itself.
 */
#ifndef LK_SIM_COLL_DERIVE_H
#define LK_SIM_COLL_DERIVE_H

#include "sim/coll_model.h"

/* Whether a cluster says nothing of `coll` itself, but for its links' datasheets, and it is one
 * that an all-reduce gives. */
bool lk_coll_is_derived(const struct lk_cluster *c, enum lk_coll coll);

/*
 * Adds to the sets, for each of all-reduce, those that it gives: its times by the ratio of the
 * model. Their sds are wider: public tables with both on one machine (8 A100 of superbenchmark, 8
 * H100 of SimuMax) have all-gathers and reduce-scatters at 0.51 to 0.68 of the all-reduce where
 * bytes count and up to 1 where an idle launch does.
 */
enum lk_status lk_coll_derive(const struct lk_cluster *c, const struct lk_coll_model *m,
                              struct lk_coll_sets *sets);

#endif
