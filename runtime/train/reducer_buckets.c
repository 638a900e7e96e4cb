/* The reducer's buckets: where gradients are, from the first step and when they are rebuilt. */
#include "base/array.h"
#include "base/log.h"
#include "runtime/train/hook.h"
#include "runtime/train/reducer_impl.h"

#include <stdlib.h>
#include <string.h>

/* Buckets start on a cache line of their own. */
enum { BUCKET_ALIGN = 64 };

void lk_reducer_drop_buckets_(struct lk_reducer *r)
{
    for (size_t b = 0; r->buckets && b < r->plan.n_buckets; b++)
        lk_event_destroy(r->buckets[b].ready);
    free(r->buckets);
    r->buckets = NULL;
    lk_bucket_plan_fini(&r->plan);
    lk_device_free(r->device, r->norms);
    r->norms = NULL;
    lk_device_free_host(r->device, r->norms_host);
    r->norms_host = NULL;
    r->measured = false;
}

static void point_views(struct lk_reducer *r, size_t b, bool keep_last)
{
    size_t at = r->buckets[b].at_elems;

    for (size_t i = r->plan.first[b]; i < r->plan.first[b + 1]; i++) {
        size_t p = r->plan.index[i];

        r->bucket_of[p] = b;
        r->offset[p] = at;
        if (!keep_last || i + 1 < r->plan.first[b + 1])
            r->params[p].grad = r->slab + at * r->real_bytes;
        at += r->params[p].elems;
    }
}

/* Move gradients that are late, in every slab, from where they were to where they are now. */
static enum lk_status move_late(struct lk_reducer *r, const char *slabs, size_t slab_elems,
                                const size_t *offset)
{
    for (int s = 0; s < lk_reducer_slabs_(r); s++)
        for (size_t p = 0; p < r->n_params; p++)
            LK_PASS(lk_stream_copy(
                r->config.compute,
                r->slabs + ((size_t)s * r->slab_elems + r->offset[p]) * r->real_bytes,
                slabs + ((size_t)s * slab_elems + offset[p]) * r->real_bytes,
                r->params[p].elems * r->real_bytes));
    return lk_stream_sync(r->config.compute, lk_deadline_in(r->config.timeout_ns));
}

/* Point gradients and buckets into slabs that are new, and take late gradients along. */
static enum lk_status take_slabs(struct lk_reducer *r, size_t slab_elems, bool stale)
{
    void *slabs = NULL, *before = r->slabs;
    size_t *offset = NULL, elems_before = r->slab_elems;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&offset, r->n_params, sizeof *offset));
    memcpy(offset, r->offset, r->n_params * sizeof *offset);
    LK_TRY(lk_comm_alloc(r->config.comm, r->device,
                         (size_t)lk_reducer_slabs_(r) * slab_elems * r->real_bytes, &slabs));
    r->slabs = slabs;
    r->slab_elems = slab_elems;
    r->slab = lk_reducer_slab_of_(r, r->step);
    for (size_t b = 0; b < r->plan.n_buckets; b++)
        point_views(r, b, stale && b == 0);
    if (before && r->config.staleness)
        LK_TRY(move_late(r, before, elems_before, offset));
    if (stale) {
        r->old_slab = before;
        before = NULL;
    }
out:
    lk_comm_free(r->config.comm, r->device, slabs ? before : NULL);
    free(offset);
    return st;
}

/* Lay the plan's buckets out in new slabs. Takes ownership of the plan. pre: the net stream is
 * idle. */
static enum lk_status set_buckets(struct lk_reducer *r, struct lk_bucket_plan *plan)
{
    const size_t align = BUCKET_ALIGN / r->real_bytes;
    bool stale = r->config.plant == LK_PLANT_STALE_VIEW && r->slabs;
    size_t at = 0;

    lk_reducer_drop_buckets_(r);
    r->plan = *plan;
    memset(plan, 0, sizeof *plan);
    LK_PASS(lk_alloc(&r->buckets, r->plan.n_buckets, sizeof *r->buckets));
    for (size_t b = 0; b < r->plan.n_buckets; b++) {
        r->buckets[b].at_elems = at;
        r->buckets[b].elems = r->plan.bytes[b] / r->real_bytes;
        at += (r->buckets[b].elems + align - 1) / align * align;
        LK_PASS(lk_event_create(r->device, &r->buckets[b].ready));
    }
    LK_PASS(take_slabs(r, at, stale));
    if (r->config.noise_every > 0) {
        LK_PASS(lk_device_alloc(r->device, 2 * r->plan.n_buckets * r->wide_bytes, &r->norms));
        LK_PASS(
            lk_device_alloc_host(r->device, 2 * r->plan.n_buckets * r->wide_bytes, &r->norms_host));
    }
    return lk_hook_set_buckets(r->hook, &r->plan);
}

static enum lk_status assign_buckets(struct lk_reducer *r, bool rebuild)
{
    const struct lk_reducer_config *c = &r->config;
    struct lk_bucket_tensor *tensors = NULL;
    struct lk_bucket_plan plan = {0};
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&tensors, r->n_params, sizeof *tensors));
    for (size_t i = 0; i < r->n_params; i++)
        tensors[i] = (struct lk_bucket_tensor){r->params[i].elems * r->real_bytes, r->dtype};
    if (rebuild)
        LK_TRY(
            lk_bucket_rebuilt(tensors, r->n_params, r->order, c->first_bytes, c->cap_bytes, &plan));
    else
        LK_TRY(lk_bucket_initial(c->ddp_rule, tensors, r->n_params, c->first_bytes, c->cap_bytes,
                                 &plan));
    LK_TRY(set_buckets(r, &plan));
    lk_log(LK_LOG_DDP, LK_DEBUG, "%zu gradients in %zu %sbuckets", r->n_params, r->plan.n_buckets,
           rebuild ? "rebuilt " : "");
out:
    lk_bucket_plan_fini(&plan);
    free(tensors);
    return st;
}

enum lk_status lk_reducer_rebuild_(struct lk_reducer *r)
{
    const struct lk_coll_call order = {
        .coll = LK_BROADCAST, .dtype = LK_I64, .buf = r->order, .count = r->n_params, .index = -1};

    _Static_assert(sizeof *r->order == sizeof(int64_t), "the order is broadcast as int64");
    LK_PASS(lk_comm_run(r->config.comm, &order));
    LK_PASS(assign_buckets(r, true));
    r->rebuilt = true;
    return LK_OK;
}

enum lk_status lk_reducer_assign_(struct lk_reducer *r)
{
    return assign_buckets(r, false);
}

void lk_reducer_point_(struct lk_reducer *r)
{
    r->slab = lk_reducer_slab_of_(r, r->step);
    for (size_t b = 0; b < r->plan.n_buckets; b++)
        point_views(r, b, false);
}
