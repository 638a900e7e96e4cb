/*
 * Early updates: a bucket's parameters are updated as soon as nothing needs their old values, on a
 * stream of their own, while backward goes on with earlier layers.
 *
 * The update of a bucket waits for two events:
 *
 *   reduced    on the net stream, behind its all-reduce: its gradients are final
 *   released   on the compute stream, behind the last op of this backward that reads one of its
 *              parameters, as the model says (runtime/model/model.h). If its last gradient became
 *              ready after that, its all-reduce has waited for it, and no event is recorded.
 *
 * So the order of a model's ops does not matter; a parameter that it does not release is released
 * at the end of backward. There the compute stream waits for all updates: what it runs next reads
 * new values, and may write gradients.
 *
 * Only the last micro-batch of a step updates: the others' backward, and the next forward, need the
 * old values. Gradients are only read, so that measuring their norms and checking them after the
 * step are as without early updates. Where the trainer clips gradients by the norm of all, which
 * needs all of them before the first update, nothing is updated early.
 */
#ifndef LK_RUNTIME_EARLY_H
#define LK_RUNTIME_EARLY_H

#include "base/status.h"
#include "facts/bucket.h"
#include "runtime/device/device.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_early_config {
    struct lk_stream *stream; /* borrowed: the stream of the updates */
    /* Enqueue a bucket's update on the stream. */
    enum lk_status (*update)(void *ctx, size_t bucket);
    void *ctx;
};

struct lk_early;
/* compute, net: borrowed. plant: a planted fault, updates do not wait until parameters are
 * released, and compute waits for each of them, so that the fault is certain. */
enum lk_status lk_early_create(const struct lk_early_config *config, struct lk_stream *compute,
                               struct lk_stream *net, size_t n_params, bool plant,
                               struct lk_early **out);
void lk_early_destroy(struct lk_early *e); /* NULL is legal; pre: its streams are idle */

/* Begin the backward of a step's last micro-batch, with these buckets (borrowed until its end). */
enum lk_status lk_early_begin(struct lk_early *e, const struct lk_bucket_plan *plan);
/* Backward reads a parameter of this bucket no more. LK_EINTERNAL when that was said before. */
enum lk_status lk_early_released(struct lk_early *e, size_t param, size_t bucket);
/* The bucket's last gradient is ready: the compute stream has passed the op that completes it. */
void lk_early_ready(struct lk_early *e, size_t bucket);
/* The bucket's all-reduce was enqueued. */
enum lk_status lk_early_reduced(struct lk_early *e, size_t bucket);
/* End the backward. pre: all buckets' all-reduces were enqueued. */
enum lk_status lk_early_end(struct lk_early *e);

#endif
