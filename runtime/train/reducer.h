/*
 * The DDP reducer: PyTorch's Reducer (docs/ddp.md) against our device and comm.
 *
 * Gradients live in the buckets: param.grad is a view, there is no copy. When a bucket's last
 * gradient is enqueued, the bucket's event is recorded on the compute stream; buckets are
 * all-reduced strictly in index order on the comm stream, while backward goes on. The all-reduce is
 * a plain sum: the division by ranks and micro-batches is folded into the seed of the loss gradient
 * (lk_reducer_seed). After the first synchronised backward the buckets are rebuilt, once, in
 * gradient-ready order of rank 0, at the start of the next step.
 *
 * A step on the host thread; backward runs once per micro-batch (accumulate = micro_batch > 0):
 *
 *     lk_reducer_step_begin(r, step, n);
 *     for (m = 0; m < n; m++) {
 *         forward(m);
 *         lk_reducer_backward_begin(r, m);
 *         backward(m, lk_reducer_seed(r), m > 0, lk_reducer_hook(r));
 *         lk_reducer_backward_end(r);
 *     }
 *     optimizer, unless the buckets are updated early (runtime/train/early.h);
 *
 * With PARTIAL overlap the compute stream waits, where a bucket is launched, for the one before;
 * with NONE buckets are launched when the backward has ended. Without no_sync every micro-batch is
 * all-reduced (as PyTorch does outside its no_sync context). The sums are then divided by the ranks
 * before the next micro-batch is added to them. The hook emits a GRADIENT mark for each gradient of
 * a synchronised backward.
 *
 * With a staleness of S the update of step t takes the reduced gradients of step t - S, and the
 * steps before S update nothing: a pipelined all-reduce (Li et al. 2018, "Pipe-SGD",
 * arXiv:1811.03619). There are S + 1 copies of the buckets, which steps use in turn. The compute
 * stream waits for the all-reduces of step t - S behind the backward of step t, so no rank is more
 * than S steps ahead of the slowest (the bound of stale synchronous parallel training: Ho et al.
 * 2013). Every rank applies the same sums in the same order: their parameters stay equal, bit for
 * bit.
 */
#ifndef LK_RUNTIME_REDUCER_H
#define LK_RUNTIME_REDUCER_H

#include "base/status.h"
#include "base/words.h"
#include "facts/bounds.h"
#include "facts/bucket.h"
#include "facts/config.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/model/kept.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(fault, name, description): faults planted on purpose, to show that --verify detects them. */
#define LK_PLANT_LIST(X)                                                                           \
    X(LK_PLANT_NONE, "none", "nothing")                                                            \
    X(LK_PLANT_DROPPED_BUCKET, "dropped-bucket", "one bucket is not all-reduced")                  \
    X(LK_PLANT_WRONG_DIVISOR, "wrong-divisor", "the sum is divided by one rank too many")          \
    X(LK_PLANT_SHARED_SHARD, "shared-shard", "all ranks read rank 0's samples")                    \
    X(LK_PLANT_OVERFLOW, "overflow", "in the second step a gradient of the last rank is infinite") \
    X(LK_PLANT_STALE_VIEW, "stale-view", "a gradient keeps pointing at the old bucket")            \
    X(LK_PLANT_EARLY_BUCKET, "early-bucket", "a bucket is reduced before its last gradient")       \
    X(LK_PLANT_EARLY_UPDATE, "early-update", "parameters are updated before their last reader")

enum lk_plant { LK_PLANT_LIST(LK_WORD_VALUE) };

struct lk_early_config;
struct lk_hook_config;
struct lk_reducer_config {
    struct lk_comm *comm;            /* borrowed */
    struct lk_stream *compute, *net; /* borrowed: compute and comm stream */
    struct lk_track *track;          /* borrowed; the host thread's, for bucket spans; or NULL */
    struct lk_recorder *recorder;    /* (optional) borrowed; gets the names of groups' spans */
    enum lk_ddp_rule ddp_rule;
    uint64_t first_bytes, cap_bytes;
    enum lk_algo algo;
    int accumulation;          /* micro-batches per step */
    bool no_sync;              /* reduce in the last micro-batch only */
    enum lk_sharding sharding; /* DDP: as here; others: runtime/train/sharded.h */
    int shard_group;           /* of LK_SHARERS_GROUP: ranks that share, neighbours */
    bool scatter; /* of groups, without no_sync: all-reduce among them in the last only */
    enum lk_overlap_mode overlap; /* when buckets are launched (facts/config.h) */
    bool find_unused; /* all-reduce the map of used parameters behind the buckets, an int32 each */
    int noise_every;  /* steps between measurements of the two gradient norms; 0: never */
    /* Nothing is all-reduced from step `local_from` on, and gradients are a rank's own: the trainer
     * averages parameters instead (runtime/train/averaging.h). */
    bool local;
    int64_t local_from;
    uint32_t first_step; /* steps that an earlier part of this run made */
    int staleness;       /* steps by which gradients are applied late; 0: in their own step */
    const struct lk_hook_config *hook; /* runtime/train/hook.h, copied; NULL: none */
    enum lk_plant plant;
    /* (optional) The order of an earlier part of this run (lk_reducer_ready_order), copied: buckets
     * are in it from the start, and are not rebuilt. Rank 0's counts. */
    const size_t *order;
    const struct lk_early_config *early; /* runtime/train/early.h, copied; NULL: none are early */
    uint64_t timeout_ns;
};

struct lk_reducer;
/* Check that all ranks have the same parameters (count, names, sizes), broadcast rank 0's values,
 * assign buckets and point every param.grad into them. params outlive the reducer. Collective. */
enum lk_status lk_reducer_create(const struct lk_reducer_config *config, struct lk_param *params,
                                 size_t n_params, struct lk_reducer **out);
/* Destroy. pre: the streams are idle or destroyed, the communicator is not closed. NULL is
 * legal. */
void lk_reducer_destroy(struct lk_reducer *r);

/* Start a step of n micro-batches: rebuild the buckets when it is time (collective), and set the
 * net stream's step. pre: the streams are idle; n is the same on all ranks, and at most the
 * accumulation. */
enum lk_status lk_reducer_step_begin(struct lk_reducer *r, uint32_t step, int n);
/* Prepare the backward of micro-batch 0..n-1: decide if this one all-reduces. */
enum lk_status lk_reducer_backward_begin(struct lk_reducer *r, int micro_batch);
/* Return the seed of the loss gradient, 1 / (ranks * accumulation); in a local step ranks is 1. */
double lk_reducer_seed(const struct lk_reducer *r);
/* Return the hook that the model's backward calls when a gradient is ready. */
struct lk_grad_hook lk_reducer_hook(struct lk_reducer *r);
/* Do in place of a backward what one does that adds nothing to the gradients, as PyTorch's Join
 * does on a rank that ran out: all-reduce the buckets, which are 0 if it is the step's first. pre:
 * lk_reducer_backward_begin; lk_reducer_backward_end follows. */
enum lk_status lk_reducer_shadow(struct lk_reducer *r);
/* End a backward: make the compute stream wait for this micro-batch's all-reduces, and for early
 * updates. LK_EINTERNAL names a parameter whose gradient did not become ready. */
enum lk_status lk_reducer_backward_end(struct lk_reducer *r);

/* Return the memory of all buckets' gradients that this step's update takes, in which gaps are
 * zero. Valid until the next step begins.
 */
lk_real *lk_reducer_gradients(const struct lk_reducer *r, size_t *out_elems);
/*
 * Point the gradients of n_params parameters at those that this step's update takes. Return false
 * if there are none: the gradients of no step were due yet. pre: the step has begun.
 */
bool lk_reducer_due(const struct lk_reducer *r, struct lk_param *params);
/* Wait for the reduction of all gradients that are late. */
enum lk_status lk_reducer_sync(struct lk_reducer *r);
/* Return the groups of state between steps: gradients that are late, "late.0" those that the next
 * step's update takes, and the hook's. pre: lk_reducer_sync. */
size_t lk_reducer_n_kept(const struct lk_reducer *r);
struct lk_kept lk_reducer_kept(const struct lk_reducer *r, size_t group, size_t param);
/* The buckets in force. Valid until the next rebuild. */
const struct lk_bucket_plan *lk_reducer_buckets(const struct lk_reducer *r);
/* Return the order in which gradients became ready in the first synchronised backward (from the
 * rebuild on, rank 0's); NULL before that. */
const size_t *lk_reducer_ready_order(const struct lk_reducer *r);
/*
 * Return the squared norms of the last step that measured them, after the streams were
 * synchronised: *local_sq of this rank's own mean gradient, *mean_sq of the averaged one; *step is
 * that step. LK_EEVIDENCE before there is one.
 */
enum lk_status lk_reducer_norms(const struct lk_reducer *r, uint32_t *step, double *local_sq,
                                double *mean_sq);
/* Return the number of micro-batches in both norms: all of a step's with no_sync, else 1 (the
 * first, because its all-reduce overwrites this rank's own gradient). */
int lk_reducer_norms_micro_batches(const struct lk_reducer *r);

#endif
