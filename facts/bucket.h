/*
 * Assign gradients to buckets as PyTorch DDP does: compute_bucket_assignment_by_size of
 * torch/csrc/distributed/c10d/reducer.cpp, and the limits its callers pass.
 *
 * The algorithm walks the tensors in order; per dtype it appends, then tests size >= limit, then
 * closes. A bucket may exceed its cap by up to one tensor; a tensor is never split.
 */
#ifndef LK_FACTS_BUCKET_H
#define LK_FACTS_BUCKET_H

#include "base/status.h"
#include "base/words.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PyTorch's defaults, reducer.hpp: kDefaultFirstBucketBytes and kDefaultBucketBytesCap. */
#define LK_BUCKET_FIRST_BYTES (1ULL << 20)
#define LK_BUCKET_CAP_BYTES   (25ULL << 20)

/*
 * The PyTorch version whose bucket limits are followed. Up to 1.11 the first iteration had limits
 * [1 MiB, cap]; since 1.12 (pull request 72843) it has one bucket a dtype, unless
 * find_unused_parameters is set. Up to 1.13 the first bucket's limit is 1 MiB whatever the cap; in
 * 2.x a cap set by the user limits the first bucket as well (bucket_bytes_cap_default in
 * distributed.py). Checked against 1.13.1: tests/data.
 *
 * X(rule, name, help)
 */
#define LK_DDP_RULE_LIST(X)                                                                        \
    X(LK_DDP_TORCH_1_13, "torch-1.13", "one bucket a dtype first; first limit 1 MiB at any cap")   \
    X(LK_DDP_TORCH_2, "torch-2.x", "one bucket a dtype first; a cap that is set limits all")       \
    X(LK_DDP_TORCH_1_11, "torch-1.11", "limits [1 MiB, cap] from the first iteration on")

enum lk_ddp_rule { LK_DDP_RULE_LIST(LK_WORD_VALUE) LK_DDP_RULE_COUNT };
LK_WORDS_DECLARE(lk_ddp_rule, enum lk_ddp_rule);

/* The word for the least cap, a byte: each tensor is a bucket. */
#define LK_BUCKET_CAP_TENSOR "tensor"

/* Return the first bucket's limit: 1 MiB or, for torch-2.x and a cap set by the user, the cap. */
uint64_t lk_ddp_rule_first_bytes(enum lk_ddp_rule r, uint64_t cap_bytes, bool cap_set_by_user);

struct lk_bucket_tensor {
    uint64_t bytes;
    enum lk_dtype dtype;
};

/* n_buckets buckets; bucket b holds tensors index[first[b]] .. index[first[b + 1] - 1]. */
struct lk_bucket_plan {
    size_t n_buckets;
    size_t *first;   /* n_buckets + 1 */
    size_t *index;   /* tensor indices, as given by the caller */
    uint64_t *bytes; /* of each bucket */
};
void lk_bucket_plan_fini(struct lk_bucket_plan *p); /* zeroes it; safe on a zeroed plan */

/*
 * Assign tensors to buckets in the order tensors[order[0]], tensors[order[1]], ... A NULL order
 * walks 0..n-1 and sorts the buckets by their smallest index at the end (as PyTorch does when no
 * order is given). limits: n_limits >= 1; each dtype walks along them and stays on the last. With
 * an order, buckets still open at the end come last, the dtype seen last first: PyTorch takes them
 * from a hash map, and libstdc++'s gives this order for every sequence of these dtypes (tried on
 * 1.13.1 with all 13699 of them). LK_EPARSE when the order is no permutation or a bucket exceeds
 * 2^64 bytes.
 */
enum lk_status lk_bucket_assign(const struct lk_bucket_tensor *tensors, size_t n,
                                const size_t *order, const uint64_t *limits, size_t n_limits,
                                struct lk_bucket_plan *out);

/*
 * Assign the buckets of the first iteration: registration order, limits by the rule, the list
 * reversed, so that bucket 0 holds the last registered. cap_bytes: the bucket cap; first_bytes:
 * limit of the first bucket (lk_ddp_rule_first_bytes).
 */
enum lk_status lk_bucket_initial(enum lk_ddp_rule rule, const struct lk_bucket_tensor *tensors,
                                 size_t n, uint64_t first_bytes, uint64_t cap_bytes,
                                 struct lk_bucket_plan *out);
/*
 * Assign the buckets of the second iteration and all later ones: gradient-ready order, limits
 * [first, cap]. PyTorch's DDP_SET_LAST_BUCKET_CAP, which puts the small bucket last, is not
 * offered.
 */
enum lk_status lk_bucket_rebuilt(const struct lk_bucket_tensor *tensors, size_t n,
                                 const size_t *ready_order, uint64_t first_bytes,
                                 uint64_t cap_bytes, struct lk_bucket_plan *out);

#endif
