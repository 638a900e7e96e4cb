/*
 * Averaging of parameters instead of gradients, every few steps: schemes whose pace is a period
 * (LK_PACE_PERIOD of facts/sharding.h). Between averagings each rank trains on its own samples.
 *
 *   local-sgd  Parameters become their mean over the ranks behind step s, counted from 0, where
 *              s >= warmup and (s - warmup) % period == 0: PyTorch's PeriodicModelAverager.
 *   diloco     The mean over the ranks of (old - new) is the gradient of an outer SGD with Nesterov
 *              momentum, which moves the old parameters, those of the averaging before
 *              (Douillard et al. 2023, arXiv:2311.08105). Behind step s, where s >= warmup and
 *              (s + 1 - warmup) % period == 0: a round has `period` steps.
 *
 * The steps before `warmup` all-reduce gradients, as DDP does (PyTorch's post_localSGD_hook). The
 * last step of a run averages too, so that what it leaves behind is all ranks' work. The state of
 * the inner optimizer stays each rank's own. On the compute stream, behind the update:
 *
 *     x /= ranks; x = sum of x over the ranks                              both
 *     d = old - x; b = momentum b + d; old -= rate (d + momentum b); x = old   diloco
 */
#ifndef LK_RUNTIME_AVERAGING_H
#define LK_RUNTIME_AVERAGING_H

#include "base/status.h"
#include "facts/sharding.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/model/kept.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_averaging_config {
    enum lk_sharding scheme;           /* of another pace than a period: nothing is averaged */
    int period;                        /* steps, 1 or more */
    int64_t warmup;                    /* steps that all-reduce gradients first */
    double outer_rate, outer_momentum; /* diloco: above 0; in [0, 1) */
};

/* Return true if the configuration averages parameters. */
bool lk_averaging_is_on(const struct lk_averaging_config *c);
/* Return true if parameters are averaged behind step `step` of a run of n steps. */
bool lk_averaging_is_due(const struct lk_averaging_config *c, int64_t step, int64_t n);

struct lk_averaging;
/*
 * Create the averaging of a model's weights, one block of memory, which are the same on all ranks
 * now. *out is NULL where nothing is averaged: off, or one rank with local-sgd. All pointers are
 * borrowed. LK_EUSAGE for values out of range, LK_EUNSUPPORTED for weights with masters beside
 * them. pre: the streams are idle; the compute stream may have work afterwards.
 */
enum lk_status lk_averaging_create(const struct lk_averaging_config *c, struct lk_comm *comm,
                                   struct lk_stream *compute, struct lk_stream *net,
                                   lk_real *weights, size_t weights_bytes, bool has_masters,
                                   struct lk_averaging **out);
void lk_averaging_destroy(struct lk_averaging *a); /* NULL is legal; pre: the streams are idle */
/* Return the groups of state of the outer optimizer (runtime/model/kept.h), 0 of NULL, and a piece
 * of one: `elems` elements from `first` on of the weights. */
size_t lk_averaging_n_kept(const struct lk_averaging *a);
struct lk_kept lk_averaging_kept(const struct lk_averaging *a, size_t group, const lk_real *first,
                                 size_t elems);
/* Enqueue the averaging on the net stream; the compute stream waits for it. NULL is legal. */
enum lk_status lk_averaging_enqueue(struct lk_averaging *a);

#endif
