/*
 * Communication hooks: what a bucket goes through instead of one all-reduce, as PyTorch's hooks of
 * DistributedDataParallel do (docs/ddp.md; the words are those of facts/config.h).
 *
 *   fp16, bf16   The bucket is rounded to two bytes an element, all-reduced, and widened again. Its
 *                gradients are divided before that: the seed of the loss gradient has the divisor
 *                (runtime/train/reducer.h), so a sum of many ranks does not overflow.
 *   powersgd     Matrices are replaced by low-rank factors (runtime/train/hook_powersgd.c).
 *
 * All of a hook runs on the net stream, beside backward; its ops have spans of their own there, and
 * its collectives have the bytes that they send. A gradient of two bytes an element or fewer stays
 * as it is, and so does every gradient of a single rank, which sends nothing.
 */
#ifndef LK_RUNTIME_HOOK_H
#define LK_RUNTIME_HOOK_H

#include "base/status.h"
#include "facts/bucket.h"
#include "facts/config.h"
#include "runtime/comm/comm.h"
#include "runtime/model/kept.h"
#include "runtime/model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_hook_config {
    enum lk_compression compression;
    int powersgd_rank;        /* of the factors, 1 or more */
    int64_t powersgd_start;   /* steps before it all-reduce gradients as they are; 2 or more */
    double powersgd_min_rate; /* a matrix is compressed if its elements become fewer by more */
    uint64_t seed;            /* of powersgd's first factors */
    uint64_t timeout_ns;
};

/* Return true if the hook rounds gradients to another type, which is lk_hook_wire. */
bool lk_hook_rounds(const struct lk_hook_config *config);
enum lk_dtype lk_hook_wire(const struct lk_hook_config *config);

struct lk_hook;
/*
 * Create a hook for the buckets of n_params parameters (borrowed, as comm and net). *out is NULL
 * where buckets are all-reduced as they are. LK_EUSAGE for values out of range.
 */
enum lk_status lk_hook_create(const struct lk_hook_config *config, struct lk_comm *comm,
                              struct lk_stream *net, const struct lk_param *params, size_t n_params,
                              struct lk_hook **out);
void lk_hook_destroy(struct lk_hook *h); /* NULL is legal; pre: the net stream is idle */
/* Take over new buckets. plan is borrowed until the next call. pre: the net stream is idle. */
enum lk_status lk_hook_set_buckets(struct lk_hook *h, const struct lk_bucket_plan *plan);
/* Enqueue the reduction of a bucket on the net stream. call: the all-reduce of it as it is. NULL
 * is legal: the call is enqueued. */
enum lk_status lk_hook_reduce(struct lk_hook *h, struct lk_comm *comm, struct lk_stream *net,
                              const struct lk_coll_call *call, size_t bucket, uint32_t step);

/* Return the groups of state that a hook keeps from step to step (runtime/model/kept.h), 0 of NULL,
 * and a parameter's piece of one. */
size_t lk_hook_n_kept(const struct lk_hook *h);
struct lk_kept lk_hook_kept(const struct lk_hook *h, size_t group, size_t param);

/* Private part: what a hook implements. */
struct lk_hook_ops {
    enum lk_status (*set_buckets)(struct lk_hook *h);
    enum lk_status (*reduce)(struct lk_hook *h, const struct lk_coll_call *call, size_t bucket,
                             uint32_t step);
    void (*destroy)(struct lk_hook *h);
    size_t n_kept;
    struct lk_kept (*kept)(const struct lk_hook *h, size_t group, size_t param); /* n_kept > 0 */
};

struct lk_hook { /* first member of a hook's own struct */
    const struct lk_hook_ops *ops;
    struct lk_hook_config config;
    struct lk_comm *comm;
    struct lk_stream *net;
    struct lk_device *device;
    const struct lk_param *params;
    size_t n_params;
    const struct lk_bucket_plan *plan;
};

enum lk_status lk_hook_powersgd_create(const struct lk_hook_config *c, struct lk_device *d,
                                       struct lk_hook **out);

#endif
