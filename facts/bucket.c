/* Assignment of gradients to buckets as in PyTorch DDP. */
#include "facts/bucket.h"

#include "base/array.h"

#include <stdbool.h>
#include <stdlib.h>

/* The limits of the first iteration. */
enum first_iteration { ONE_BUCKET, FIRST_AND_CAP };

const struct lk_words lk_ddp_rule_words = LK_WORDS("a DDP rule", LK_DDP_RULE_LIST);

static const struct {
    enum first_iteration first_iteration;
    bool cap_is_first; /* a cap set by the user also limits the first bucket */
} rule_rows[LK_DDP_RULE_COUNT] = {
    [LK_DDP_TORCH_1_13] = {ONE_BUCKET, false},
    [LK_DDP_TORCH_2] = {ONE_BUCKET, true},
    [LK_DDP_TORCH_1_11] = {FIRST_AND_CAP, false},
};

/* The bucket being filled for one dtype. */
struct collector {
    bool seen;
    bool open;
    size_t bucket; /* when open */
    size_t limit;  /* index of the limit in force */
};

/* Buckets in the order in which they were opened. */
struct draft {
    size_t n;
    uint64_t *bytes;
    size_t *place; /* position of the bucket in the list of closed buckets */
    size_t n_closed;
    size_t *owner; /* for each step of the walk: its bucket */
    struct collector collectors[LK_DTYPE_COUNT];
    enum lk_dtype appeared[LK_DTYPE_COUNT]; /* in order of first appearance */
    size_t n_appeared;
};

uint64_t lk_ddp_rule_first_bytes(enum lk_ddp_rule r, uint64_t cap_bytes, bool cap_set_by_user)
{
    return rule_rows[r].cap_is_first && cap_set_by_user ? cap_bytes : LK_BUCKET_FIRST_BYTES;
}

void lk_bucket_plan_fini(struct lk_bucket_plan *p)
{
    free(p->first);
    free(p->index);
    free(p->bytes);
    *p = (struct lk_bucket_plan){0};
}

/* Check that every tensor appears once, with a known dtype. */
static enum lk_status check(const struct lk_bucket_tensor *tensors, size_t n, const size_t *order,
                            size_t n_limits)
{
    enum lk_status st = LK_OK;
    bool *seen = NULL;

    if (!n_limits)
        return lk_fail(LK_EINTERNAL, "bucket assignment without a limit");
    LK_TRY(lk_alloc(&seen, n, sizeof *seen));
    for (size_t i = 0; i < n; i++) {
        size_t t = order ? order[i] : i;

        if (t >= n || seen[t])
            LK_TRY(lk_fail(LK_EPARSE, "gradient order: item %zu is tensor %zu, which is %s", i, t,
                           t >= n ? "out of range" : "there twice"));
        seen[t] = true;
        if ((unsigned)tensors[t].dtype >= LK_DTYPE_COUNT)
            LK_TRY(lk_fail(LK_EPARSE, "tensor %zu has no known dtype", t));
    }
out:
    free(seen);
    return st;
}

static void close_bucket(struct draft *d, struct collector *c)
{
    d->place[c->bucket] = d->n_closed++;
    c->open = false;
}

/* Append first, then test: reducer.cpp, compute_bucket_assignment_by_size. */
static enum lk_status walk(struct draft *d, const struct lk_bucket_tensor *tensors, size_t n,
                           const size_t *order, const uint64_t *limits, size_t n_limits)
{
    for (size_t i = 0; i < n; i++) {
        const struct lk_bucket_tensor *t = &tensors[order ? order[i] : i];
        struct collector *c = &d->collectors[t->dtype];

        if (!c->seen) {
            c->seen = true;
            d->appeared[d->n_appeared++] = t->dtype;
        }
        if (!c->open) {
            c->open = true;
            c->bucket = d->n++;
        }
        d->owner[i] = c->bucket;
        if (t->bytes > UINT64_MAX - d->bytes[c->bucket])
            return lk_fail(LK_EPARSE, "the gradients of one bucket exceed 2^64 bytes");
        d->bytes[c->bucket] += t->bytes;
        if (d->bytes[c->bucket] >= limits[c->limit]) {
            close_bucket(d, c);
            if (c->limit + 1 < n_limits)
                c->limit++;
        }
    }
    for (size_t i = d->n_appeared; i-- > 0;)
        if (d->collectors[d->appeared[i]].open)
            close_bucket(d, &d->collectors[d->appeared[i]]);
    return LK_OK;
}

/* Convert the owner of each step of the walk into lists, bucket b at place[b]. */
static enum lk_status lay_out(const struct draft *d, size_t n, const size_t *order,
                              struct lk_bucket_plan *p)
{
    enum lk_status st = LK_OK;
    size_t *next = NULL;

    p->n_buckets = d->n;
    LK_TRY(lk_alloc(&p->first, d->n + 1, sizeof *p->first));
    LK_TRY(lk_alloc(&p->index, n, sizeof *p->index));
    LK_TRY(lk_alloc(&p->bytes, d->n, sizeof *p->bytes));
    LK_TRY(lk_alloc(&next, d->n, sizeof *next));
    for (size_t i = 0; i < n; i++)
        p->first[d->place[d->owner[i]] + 1]++;
    for (size_t b = 0; b < d->n; b++) {
        p->first[b + 1] += p->first[b];
        next[b] = p->first[b];
        p->bytes[d->place[b]] = d->bytes[b];
    }
    for (size_t i = 0; i < n; i++)
        p->index[next[d->place[d->owner[i]]]++] = order ? order[i] : i;
out:
    free(next);
    return st;
}

/* Assign as lk_bucket_assign; reversed: the first bucket comes last. pre: then there is no order.
 */
static enum lk_status assign(const struct lk_bucket_tensor *tensors, size_t n, const size_t *order,
                             const uint64_t *limits, size_t n_limits, bool reversed,
                             struct lk_bucket_plan *out)
{
    enum lk_status st = LK_OK;
    struct lk_bucket_plan p = {0};
    struct draft d = {0};

    LK_TRY(check(tensors, n, order, n_limits));
    LK_TRY(lk_alloc(&d.bytes, n, sizeof *d.bytes));
    LK_TRY(lk_alloc(&d.place, n, sizeof *d.place));
    LK_TRY(lk_alloc(&d.owner, n, sizeof *d.owner));
    LK_TRY(walk(&d, tensors, n, order, limits, n_limits));
    /* Without an order each bucket is opened by its smallest index, so sorting by smallest index
     * keeps the order of opening. */
    for (size_t b = 0; !order && b < d.n; b++)
        d.place[b] = reversed ? d.n - 1 - b : b;
    LK_TRY(lay_out(&d, n, order, &p));
    *out = p;
    p = (struct lk_bucket_plan){0};
out:
    lk_bucket_plan_fini(&p);
    free(d.bytes);
    free(d.place);
    free(d.owner);
    return st;
}

enum lk_status lk_bucket_assign(const struct lk_bucket_tensor *tensors, size_t n,
                                const size_t *order, const uint64_t *limits, size_t n_limits,
                                struct lk_bucket_plan *out)
{
    return assign(tensors, n, order, limits, n_limits, false, out);
}

enum lk_status lk_bucket_initial(enum lk_ddp_rule rule, const struct lk_bucket_tensor *tensors,
                                 size_t n, uint64_t first_bytes, uint64_t cap_bytes,
                                 struct lk_bucket_plan *out)
{
    static const uint64_t unlimited[] = {SIZE_MAX};
    const uint64_t limits[] = {first_bytes, cap_bytes};
    bool one = rule_rows[rule].first_iteration == ONE_BUCKET;

    return assign(tensors, n, NULL, one ? unlimited : limits,
                  one ? LK_COUNT(unlimited) : LK_COUNT(limits), true, out);
}

enum lk_status lk_bucket_rebuilt(const struct lk_bucket_tensor *tensors, size_t n,
                                 const size_t *ready_order, uint64_t first_bytes,
                                 uint64_t cap_bytes, struct lk_bucket_plan *out)
{
    const uint64_t limits[] = {first_bytes, cap_bytes};

    return lk_bucket_assign(tensors, n, ready_order, limits, LK_COUNT(limits), out);
}
