/*
 * The reducer; see the header and docs/ddp.md. Set-up, in which the ranks agree, then one step
 * in the order of its calls:
 * step_begin (rebuild), backward_begin, the hook (launch), backward_end, norms.
 */
#include "runtime/train/reducer.h"
#include "base/array.h"
#include "base/log.h"
#include "facts/span.h"
#include "kernels/ops.h"
#include "runtime/train/early.h"
#include "runtime/train/hook.h"
#include "runtime/train/params_agree.h"
#include "runtime/train/slabs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Buckets start on a cache line of their own. */
enum { BUCKET_ALIGN = 64 };

struct bucket {
    size_t at_elems; /* in the slab */
    size_t elems;
    size_t pending;          /* gradients not yet ready in this backward */
    struct lk_event **ready; /* by slab, on the compute stream: its last gradient is ready */
};

struct lk_reducer {
    struct lk_reducer_config config;
    struct lk_device *device;
    struct lk_param *params;
    size_t n_params;
    enum lk_dtype dtype;           /* type of gradients, in memory and on the wire */
    size_t real_bytes, wide_bytes; /* of lk_real and lk_wide */
    int ranks;
    uint32_t step;
    int micro_batches; /* of the step */
    bool first;        /* this micro-batch is the first */
    bool local;        /* this step all-reduces nothing */

    struct lk_bucket_plan plan;
    struct bucket *buckets; /* plan.n_buckets */
    size_t *bucket_of;      /* by parameter */
    struct lk_slabs slabs;  /* staleness + 1 of all buckets */
    char *slab;             /* of the step in progress */
    char *old_slab;         /* the planted stale view still points here */

    bool synced;            /* this micro-batch all-reduces its gradients */
    bool *seen;             /* by parameter: its gradient is ready, in this backward */
    size_t next;            /* the next bucket to all-reduce */
    size_t n_ready;         /* gradients seen in this backward */
    struct lk_hook *hook;   /* NULL: buckets are all-reduced as they are */
    struct lk_early *early; /* NULL: no updates are early */
    bool updating;          /* this micro-batch updates its buckets early */
    size_t *order;          /* parameters by readiness in the first synchronised backward */
    bool order_known;       /* that backward is over */
    bool rebuilt;
    struct lk_event **apart; /* by slab. PARTIAL: the bucket before is reduced; NONE: the backward
                                ended */
    void *used; /* find_unused: device map, n_params int32; never read, as all are used */
    struct lk_event **marked; /* by slab, on the compute stream: the map is final */

    bool measuring;   /* measure this micro-batch's norms */
    void *norms;      /* device: n_buckets local squares, then n_buckets averaged ones */
    void *norms_host; /* host copy of norms */
    bool measured;    /* norms_host has been written */
    uint32_t measured_step;
};

/* ---- Buckets ---- */

static void drop_buckets(struct lk_reducer *r)
{
    for (size_t b = 0; r->buckets && b < r->plan.n_buckets; b++)
        lk_slab_events_destroy(&r->slabs, r->buckets[b].ready);
    free(r->buckets);
    r->buckets = NULL;
    lk_bucket_plan_fini(&r->plan);
    lk_device_free(r->device, r->norms);
    r->norms = NULL;
    lk_device_free_host(r->device, r->norms_host);
    r->norms_host = NULL;
    r->measured = false;
}

/* Point the gradients into the slab of the step in progress; keep_last: but bucket 0's last. */
static void point_views(struct lk_reducer *r, bool keep_last)
{
    r->slab = lk_slab_of(&r->slabs, r->step);
    for (size_t i = 0; i < r->n_params; i++)
        if (!keep_last || i + 1 != r->plan.first[1])
            r->params[r->plan.index[i]].grad =
                lk_slab_gradient(&r->slabs, r->step, r->plan.index[i]);
}

/* Lay the gradients out in slabs of `elems` elements, by the buckets. */
static enum lk_status take_slabs(struct lk_reducer *r, size_t elems)
{
    size_t *offset = NULL;
    void *before = NULL;
    bool stale;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&offset, r->n_params, sizeof *offset));
    for (size_t b = 0; b < r->plan.n_buckets; b++)
        for (size_t i = r->plan.first[b], at = r->buckets[b].at_elems; i < r->plan.first[b + 1];
             at += r->params[r->plan.index[i++]].elems) {
            r->bucket_of[r->plan.index[i]] = b;
            offset[r->plan.index[i]] = at;
        }
    LK_TRY(lk_slabs_lay_out(&r->slabs, offset, elems, &before));
    stale = r->config.plant == LK_PLANT_STALE_VIEW && before;
    point_views(r, stale);
    if (stale)
        r->old_slab = before;
    else
        lk_comm_free(r->config.comm, r->device, before);
out:
    free(offset);
    return st;
}

/* Lay the plan's buckets out in new slabs. Takes ownership of the plan. pre: the net stream is
 * idle. */
static enum lk_status set_buckets(struct lk_reducer *r, struct lk_bucket_plan *plan)
{
    const size_t align = BUCKET_ALIGN / r->real_bytes;
    size_t at = 0;

    drop_buckets(r);
    r->plan = *plan;
    memset(plan, 0, sizeof *plan);
    LK_PASS(lk_alloc(&r->buckets, r->plan.n_buckets, sizeof *r->buckets));
    for (size_t b = 0; b < r->plan.n_buckets; b++) {
        r->buckets[b].at_elems = at;
        r->buckets[b].elems = r->plan.bytes[b] / r->real_bytes;
        at += (r->buckets[b].elems + align - 1) / align * align;
        LK_PASS(lk_slab_events_create(&r->slabs, &r->buckets[b].ready));
    }
    LK_PASS(take_slabs(r, at));
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

/* Put the buckets in the order of rank 0, once. Collective. pre: the streams are idle. */
static enum lk_status rebuild(struct lk_reducer *r)
{
    const struct lk_coll_call order = {
        .coll = LK_BROADCAST, .dtype = LK_I64, .buf = r->order, .count = r->n_params, .index = -1};

    _Static_assert(sizeof *r->order == sizeof(int64_t), "the order is broadcast as int64");
    LK_PASS(lk_comm_run(r->config.comm, &order));
    LK_PASS(assign_buckets(r, true));
    r->rebuilt = true;
    return LK_OK;
}

static enum lk_status check_config(const struct lk_reducer_config *c, size_t n_params)
{
    if (n_params == 0)
        return lk_fail(LK_EUSAGE, "the model has no parameters");
    if (c->accumulation < 1)
        return lk_fail(LK_EUSAGE, "%d micro-batches a step: at least 1", c->accumulation);
    if (c->noise_every < 0)
        return lk_fail(LK_EUSAGE, "norms every %d steps: at least 0", c->noise_every);
    if (c->staleness < 0 || c->staleness > LK_STALENESS_MAX)
        return lk_fail(LK_EUSAGE, "gradients applied %d steps late: 0 to %d", c->staleness,
                       LK_STALENESS_MAX);
    if (c->staleness && !c->no_sync && c->accumulation > 1)
        return lk_fail(LK_EUNSUPPORTED, "late gradients that are reduced in every micro-batch");
    if (c->staleness && (c->early || c->noise_every || c->plant > LK_PLANT_SHARED_SHARD))
        return lk_fail(LK_EUNSUPPORTED,
                       "gradients applied late with early updates, norms or this fault");
    return LK_OK;
}

enum lk_status lk_reducer_create(const struct lk_reducer_config *config, struct lk_param *params,
                                 size_t n_params, struct lk_reducer **out)
{
    struct lk_reducer *r = NULL;
    enum lk_status st = check_config(config, n_params);

    if (st != LK_OK)
        return st;
    LK_TRY(lk_alloc(&r, 1, sizeof *r));
    r->config = *config;
    r->step = config->first_step - 1;
    r->device = lk_stream_device(config->compute);
    r->params = params;
    r->n_params = n_params;
    r->real_bytes = lk_device_real_bytes(r->device);
    r->wide_bytes = lk_device_wide_bytes(r->device);
    r->dtype = lk_device_real_dtype(r->device);
    r->ranks = lk_comm_world_size(config->comm);
    LK_TRY(lk_alloc(&r->bucket_of, n_params, sizeof *r->bucket_of));
    LK_TRY(lk_alloc(&r->seen, n_params, sizeof *r->seen));
    LK_TRY(lk_slabs_init(&r->slabs, config->staleness + 1, config->comm, config->compute, params,
                         n_params, config->timeout_ns));
    LK_TRY(lk_alloc(&r->order, n_params, sizeof *r->order));
    if (config->order)
        memcpy(r->order, config->order, n_params * sizeof *r->order);
    r->order_known = config->order != NULL;
    LK_TRY(lk_slab_events_create(&r->slabs, &r->apart));
    if (config->early)
        LK_TRY(lk_early_create(config->early, config->compute, config->net, n_params,
                               config->plant == LK_PLANT_EARLY_UPDATE, &r->early));
    r->config.early = NULL; /* copied, as are the order and the hook's configuration */
    r->config.hook = NULL;
    r->config.order = NULL;
    if (config->find_unused) {
        LK_TRY(lk_slab_events_create(&r->slabs, &r->marked));
        LK_TRY(lk_device_alloc(r->device, n_params * lk_dtype_bytes(LK_I32), &r->used));
    }
    LK_TRY(lk_stream_sync(config->compute, lk_deadline_in(config->timeout_ns)));
    LK_TRY(lk_params_agree(config->comm, params, n_params, r->dtype));
    if (config->hook)
        LK_TRY(lk_hook_create(config->hook, config->comm, config->net, params, n_params, &r->hook));
    LK_TRY(r->order_known ? rebuild(r) : assign_buckets(r, false));
    LK_HAND_OVER(out, r);
out:
    lk_reducer_destroy(r);
    return st;
}

void lk_reducer_destroy(struct lk_reducer *r)
{
    if (!r)
        return;
    drop_buckets(r);
    lk_hook_destroy(r->hook);
    lk_early_destroy(r->early);
    lk_slab_events_destroy(&r->slabs, r->apart);
    lk_slab_events_destroy(&r->slabs, r->marked);
    lk_device_free(r->device, r->used);
    lk_slabs_fini(&r->slabs);
    lk_comm_free(r->config.comm, r->device, r->old_slab);
    free(r->bucket_of);
    free(r->seen);
    free(r->order);
    free(r);
}

const struct lk_bucket_plan *lk_reducer_buckets(const struct lk_reducer *r)
{
    return &r->plan;
}

lk_real *lk_reducer_gradients(const struct lk_reducer *r, size_t *out_elems)
{
    *out_elems = r->slabs.elems;
    return lk_slab_of(&r->slabs, r->step + 1); /* of r->step - staleness: they are used in turn */
}

const size_t *lk_reducer_ready_order(const struct lk_reducer *r)
{
    return r->order_known ? r->order : NULL;
}

double lk_reducer_seed(const struct lk_reducer *r)
{
    int ranks = r->local ? 1 : r->ranks;

    ranks += r->config.plant == LK_PLANT_WRONG_DIVISOR;
    return 1.0 / ((double)ranks * r->config.accumulation);
}

/* ---- A step ---- */

enum lk_status lk_reducer_step_begin(struct lk_reducer *r, uint32_t step, int n)
{
    if (n < 1 || n > r->config.accumulation)
        return lk_fail(LK_EINTERNAL, "%d micro-batches of %d", n, r->config.accumulation);
    r->step = step;
    r->micro_batches = n;
    r->local = r->config.local && step >= r->config.local_from;
    lk_stream_set_step(r->config.net, step);
    if (r->order_known && !r->rebuilt) {
        LK_PASS(lk_reducer_sync(r));
        LK_PASS(rebuild(r));
    }
    if (r->config.staleness)
        point_views(r, false);
    return LK_OK;
}

bool lk_reducer_due(const struct lk_reducer *r, struct lk_param *params)
{
    for (size_t p = 0; p < r->n_params; p++)
        params[p].grad = lk_slab_gradient(&r->slabs, r->step + 1, p);
    return r->step >= (uint32_t)r->config.staleness;
}

enum lk_status lk_reducer_sync(struct lk_reducer *r)
{
    return r->config.staleness ? lk_stream_sync(r->config.net, lk_deadline_in(r->config.timeout_ns))
                               : LK_OK;
}

size_t lk_reducer_n_kept(const struct lk_reducer *r)
{
    return (size_t)r->config.staleness + lk_hook_n_kept(r->hook);
}

struct lk_kept lk_reducer_kept(const struct lk_reducer *r, size_t group, size_t param)
{
    struct lk_kept k = {.elems = r->params[param].elems};

    if (group >= (size_t)r->config.staleness)
        return lk_hook_kept(r->hook, group - (size_t)r->config.staleness, param);
    snprintf(k.name, sizeof k.name, "late.%zu", group);
    /* The next step uses the slab behind this one's, and takes the one behind that. */
    k.data = lk_slab_gradient(&r->slabs, r->step + 2 + (uint32_t)group, param);
    return k;
}

/* Return the micro-batch whose gradients the norms are of: the first that is all-reduced, because
 * after that a bucket no longer holds this rank's own gradient. */
static int measured_micro_batch(const struct lk_reducer *r)
{
    return r->config.no_sync ? r->config.accumulation - 1 : 0;
}

int lk_reducer_norms_micro_batches(const struct lk_reducer *r)
{
    return measured_micro_batch(r) + 1;
}

/*
 * Divide the buckets' sums by the world size. Without no_sync every micro-batch is all-reduced, and
 * the next one adds to sums over all ranks; all-reducing those again would count them once per
 * rank. (PyTorch does the same by averaging: the mean of equal values is that value.)
 */
static enum lk_status share_sums(struct lk_reducer *r)
{
    if (r->ranks == 1 || r->local)
        return LK_OK;
    return LK_LAUNCH(r->config.compute, scale, .x = r->slab, .n = r->slabs.elems,
                     .factor = 1.0 / r->ranks);
}

static enum lk_status launch_ready(struct lk_reducer *r);

/* Plant the fault: treat bucket 0 as full from the start. The compute stream waits for its
 * all-reduce, so that the fault is certain and not a race. */
static enum lk_status plant_early_bucket(struct lk_reducer *r)
{
    r->buckets[0].pending = 0;
    LK_PASS(
        lk_event_record(lk_slab_event(&r->slabs, r->buckets[0].ready, r->step), r->config.compute));
    LK_PASS(launch_ready(r));
    LK_PASS(lk_event_record(lk_slab_event(&r->slabs, r->apart, r->step), r->config.net));
    return lk_stream_wait(r->config.compute, lk_slab_event(&r->slabs, r->apart, r->step));
}

enum lk_status lk_reducer_backward_begin(struct lk_reducer *r, int micro_batch)
{
    const struct lk_reducer_config *c = &r->config;

    if (micro_batch < 0 || micro_batch >= r->micro_batches)
        return lk_fail(LK_EINTERNAL, "micro-batch %d of %d", micro_batch, r->micro_batches);
    r->first = micro_batch == 0;
    r->synced = !c->no_sync || micro_batch == r->micro_batches - 1;
    r->measuring = c->noise_every > 0 && r->step % (uint32_t)c->noise_every == 0 &&
                   micro_batch == measured_micro_batch(r);
    r->updating = r->early && micro_batch == r->micro_batches - 1;
    r->next = 0;
    r->n_ready = 0;
    memset(r->seen, 0, r->n_params * sizeof *r->seen);
    for (size_t b = 0; b < r->plan.n_buckets; b++)
        r->buckets[b].pending = r->plan.first[b + 1] - r->plan.first[b];
    if (!c->no_sync && micro_batch > 0)
        LK_PASS(share_sums(r));
    if (r->updating)
        LK_PASS(lk_early_begin(r->early, &r->plan));
    if (r->synced && c->plant == LK_PLANT_EARLY_BUCKET)
        LK_PASS(plant_early_bucket(r));
    return LK_OK;
}

/* Sum a bucket's squares into norms[slot], on the net stream, so that backward does not wait. */
static enum lk_status measure(struct lk_reducer *r, size_t b, size_t slot)
{
    if (!r->measuring)
        return LK_OK;
    return LK_LAUNCH(r->config.net, sum_squares, .out = (char *)r->norms + slot * r->wide_bytes,
                     .in = r->slab + r->buckets[b].at_elems * r->real_bytes,
                     .n = r->buckets[b].elems, .accumulate = false);
}

static enum lk_status launch(struct lk_reducer *r, size_t b)
{
    const struct lk_reducer_config *c = &r->config;
    const bool behind = c->overlap == LK_OVERLAP_MODE_NONE;
    struct lk_event *ready =
        lk_slab_event(&r->slabs, behind ? r->apart : r->buckets[b].ready, r->step);
    const struct lk_span span = {
        .kind = LK_SPAN_BUCKET, .step = r->step, .index = (int32_t)b, .bytes = r->plan.bytes[b]};
    const struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                      .algo = c->algo,
                                      .dtype = r->dtype,
                                      .buf = r->slab + r->buckets[b].at_elems * r->real_bytes,
                                      .count = r->buckets[b].elems,
                                      .index = (int32_t)b,
                                      .ready = ready};
    enum lk_status st = LK_OK;

    lk_span_enter(c->track, &span);
    if (c->overlap == LK_OVERLAP_MODE_PARTIAL && b > 0) {
        LK_TRY(lk_event_record(lk_slab_event(&r->slabs, r->apart, r->step), c->net));
        LK_TRY(lk_stream_wait(c->compute, lk_slab_event(&r->slabs, r->apart, r->step)));
    }
    LK_TRY(lk_stream_wait(c->net, ready));
    LK_TRY(measure(r, b, b));
    if (!r->local && (c->plant != LK_PLANT_DROPPED_BUCKET || b != 0))
        LK_TRY(lk_hook_reduce(r->hook, c->comm, c->net, &call, b, r->step));
    LK_TRY(measure(r, b, r->plan.n_buckets + b));
    if (r->updating)
        LK_TRY(lk_early_reduced(r->early, b));
out:
    lk_span_leave(c->track, &span);
    return st;
}

/* Launch the full buckets, in index order: a bucket that is not full holds back those after it. */
static enum lk_status launch_ready(struct lk_reducer *r)
{
    for (; r->next < r->plan.n_buckets && r->buckets[r->next].pending == 0; r->next++)
        LK_PASS(launch(r, r->next));
    return LK_OK;
}

static enum lk_status on_ready(void *ctx, size_t param)
{
    struct lk_reducer *r = ctx;
    struct bucket *bucket;

    if (param >= r->n_params || r->seen[param])
        return lk_fail(LK_EINTERNAL, "the gradient of parameter %zu became ready twice in step %u",
                       param, (unsigned)r->step);
    r->seen[param] = true;
    if (!r->order_known && r->synced)
        r->order[r->n_ready] = param;
    r->n_ready++;
    if (!r->synced)
        return LK_OK;
    bucket = &r->buckets[r->bucket_of[param]];
    if (bucket->pending == 0) /* only the planted early bucket */
        return LK_OK;
    if (--bucket->pending > 0)
        return LK_OK;
    LK_PASS(lk_event_record(lk_slab_event(&r->slabs, bucket->ready, r->step), r->config.compute));
    if (r->updating)
        lk_early_ready(r->early, r->bucket_of[param]);
    return r->config.overlap == LK_OVERLAP_MODE_NONE ? LK_OK : launch_ready(r);
}

static enum lk_status on_released(void *ctx, size_t param)
{
    struct lk_reducer *r = ctx;

    return r->updating ? lk_early_released(r->early, param, r->bucket_of[param]) : LK_OK;
}

struct lk_grad_hook lk_reducer_hook(struct lk_reducer *r)
{
    return (struct lk_grad_hook){.ready = on_ready, .released = on_released, .ctx = r};
}

enum lk_status lk_reducer_shadow(struct lk_reducer *r)
{
    if (r->first)
        LK_PASS(LK_LAUNCH(r->config.compute, fill, .x = r->slab, .n = r->slabs.elems, .value = 0));
    for (size_t i = 0; i < r->n_params; i++)
        LK_PASS(on_ready(r, r->plan.index[i]));
    return LK_OK;
}

static enum lk_status missing_gradient(const struct lk_reducer *r)
{
    size_t p = 0;

    while (r->seen[p])
        p++;
    return lk_fail(LK_EINTERNAL, "step %u: backward gave no gradient for parameter '%s'",
                   (unsigned)r->step, r->params[p].name);
}

/* All-reduce the map of used parameters behind the last bucket, as PyTorch does with
 * find_unused_parameters. */
static enum lk_status reduce_used(struct lk_reducer *r)
{
    const struct lk_reducer_config *c = &r->config;
    const struct lk_coll_call call = {
        .coll = LK_ALL_REDUCE,
        .dtype = LK_I32,
        .buf = r->used,
        .count = r->n_params,
        .index = -1,
        .ready = c->find_unused ? lk_slab_event(&r->slabs, r->marked, r->step) : NULL};

    if (!c->find_unused || r->local)
        return LK_OK;
    LK_PASS(lk_event_record(lk_slab_event(&r->slabs, r->marked, r->step), c->compute));
    LK_PASS(lk_stream_wait(c->net, lk_slab_event(&r->slabs, r->marked, r->step)));
    return lk_comm_enqueue(c->comm, c->net, &call);
}

enum lk_status lk_reducer_backward_end(struct lk_reducer *r)
{
    const struct lk_reducer_config *c = &r->config;

    if (r->n_ready < r->n_params)
        return missing_gradient(r);
    if (!r->synced)
        return LK_OK;
    r->order_known = true;
    if (c->overlap == LK_OVERLAP_MODE_NONE) {
        LK_PASS(lk_event_record(lk_slab_event(&r->slabs, r->apart, r->step), c->compute));
        LK_PASS(launch_ready(r));
    }
    if (r->measuring) {
        LK_PASS(
            lk_stream_copy(c->net, r->norms_host, r->norms, 2 * r->plan.n_buckets * r->wide_bytes));
        r->measured = true;
        r->measured_step = r->step;
    }
    LK_PASS(reduce_used(r));
    LK_PASS(lk_event_record(lk_slab_reduced(&r->slabs, r->step), c->net));
    /* Where they are late, wait for those that are due: of the slab behind. The event of gradients
     * that a checkpoint had was never recorded: they are there. */
    LK_PASS(lk_stream_wait(c->compute, lk_slab_reduced(&r->slabs, r->step + 1)));
    return r->updating ? lk_early_end(r->early) : LK_OK;
}

/* ---- Norms ---- */

static double sum_wide(const void *sums, size_t wide_bytes, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += wide_bytes == sizeof(double) ? ((const double *)sums)[i]
                                            : (double)((const float *)sums)[i];
    return sum;
}

enum lk_status lk_reducer_norms(const struct lk_reducer *r, uint32_t *step, double *local_sq,
                                double *mean_sq)
{
    size_t n = r->plan.n_buckets;
    /* The buckets' sums contain the seed's factor 1 / (ranks * accumulation). */
    double averaged = (double)r->config.accumulation / lk_reducer_norms_micro_batches(r);
    double local = averaged * r->ranks;

    if (!r->measured)
        return lk_fail(LK_EEVIDENCE, "no step has measured the gradient norms yet");
    *step = r->measured_step;
    *local_sq = local * local * sum_wide(r->norms_host, r->wide_bytes, n);
    *mean_sq = averaged * averaged *
               sum_wide((const char *)r->norms_host + n * r->wide_bytes, r->wide_bytes, n);
    return LK_OK;
}
