/*
 * PyTorch DDP's assignment of gradients to buckets: compute_bucket_assignment_by_size of
 * torch/csrc/distributed/c10d/reducer.cpp, and who calls it with which limits.
 *
 * Walk the tensors in order; per dtype, append, then test size >= limit, then close. A bucket may
 * exceed its cap by up to one tensor, a tensor is never split.
 */
#ifndef LK_BASE_BUCKET_H
#define LK_BASE_BUCKET_H

#include "base/dtype.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* PyTorch's defaults, reducer.hpp: kDefaultFirstBucketBytes and kDefaultBucketBytesCap. */
#define LK_BUCKET_FIRST_BYTES (1ULL << 20)
#define LK_BUCKET_CAP_BYTES   (25ULL << 20)

/* X(rule, name, help) */
#define LK_DDP_RULE_LIST(X)                                                                        \
    X(LK_DDP_TORCH_1_13, "torch-1.13", "first iteration with limits [first, cap]")                 \
    X(LK_DDP_TORCH_2, "torch-2.x", "first iteration with one bucket a dtype")

enum lk_ddp_rule {
#define LK_DDP_RULE_ENUM_(rule, name, help) rule,
    LK_DDP_RULE_LIST(LK_DDP_RULE_ENUM_)
#undef LK_DDP_RULE_ENUM_
        LK_DDP_RULE_COUNT
};
const char *lk_ddp_rule_name(enum lk_ddp_rule r);
enum lk_status lk_ddp_rule_from_name(const char *name, enum lk_ddp_rule *out); /* LK_EPARSE */

struct lk_bucket_tensor {
    uint64_t bytes;
    enum lk_dtype dtype;
};

/* n_buckets buckets; bucket b holds tensors index[first[b]] .. index[first[b + 1] - 1]. */
struct lk_bucket_plan {
    size_t n_buckets;
    size_t *first; /* n_buckets + 1 */
    size_t *index; /* tensor indices, as given by the caller */
    uint64_t *bytes; /* of each bucket */
};
void lk_bucket_plan_fini(struct lk_bucket_plan *p); /* zeroes it; safe on a zeroed plan */

/*
 * The plain algorithm. tensors[order[0]], tensors[order[1]], ... are walked; order NULL walks
 * 0..n-1 and sorts the buckets by their smallest index at the end (as PyTorch does when no order is
 * given). limits: n_limits >= 1; each dtype walks along them and stays on the last.
 */
enum lk_status lk_bucket_assign(const struct lk_bucket_tensor *tensors, size_t n,
                                const size_t *order, const uint64_t *limits, size_t n_limits,
                                struct lk_bucket_plan *out);

/*
 * Buckets of the first iteration: registration order, limits by the rule, the list reversed, so
 * that bucket 0 holds the last registered. cap_bytes: the bucket cap. first_bytes: limit of the
 * first bucket (PyTorch: 1 MiB when the cap was left at its default, else the cap).
 */
enum lk_status lk_bucket_initial(enum lk_ddp_rule rule, const struct lk_bucket_tensor *tensors,
                                 size_t n, uint64_t first_bytes, uint64_t cap_bytes,
                                 struct lk_bucket_plan *out);
/* Buckets from the second iteration on: gradient-ready order, limits [first, cap]. */
enum lk_status lk_bucket_rebuilt(const struct lk_bucket_tensor *tensors, size_t n,
                                 const size_t *ready_order, uint64_t first_bytes,
                                 uint64_t cap_bytes, struct lk_bucket_plan *out);

#endif
