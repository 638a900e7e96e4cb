/*
 * A step of sharded training, in the order of its calls: step_begin, forward_begin, `need` and
 * `done` of the model's passes, backward_begin, the hook (reduce), backward_end, updated. See
 * runtime/train/sharded.h.
 */
#include "facts/config.h"
#include "facts/span.h"
#include "kernels/ops.h"
#include "runtime/train/sharded_impl.h"

#include <string.h>

/* ---- Collectives ---- */

/* Enqueue a collective behind an event. With PARTIAL overlap the compute stream waits here for the
 * one before. */
static enum lk_status collect(struct sharded *s, const struct lk_coll_call *call)
{
    const struct lk_reducer_config *c = &s->config;

    if (c->overlap == LK_OVERLAP_MODE_PARTIAL && s->launched_any) {
        LK_PASS(lk_event_record(s->before, c->net));
        LK_PASS(lk_stream_wait(c->compute, s->before));
    }
    s->launched_any = true;
    LK_PASS(lk_stream_wait(c->net, call->ready));
    return lk_comm_enqueue(c->comm, c->net, call);
}

static struct lk_coll_call call_of(const struct sharded *s, enum lk_coll coll, size_t unit,
                                   void *buf, struct lk_event *ready)
{
    return (struct lk_coll_call){.coll = coll,
                                 .dtype = s->dtype,
                                 .buf = buf,
                                 .count = s->units[unit].shard,
                                 .group = s->group,
                                 .index = (int32_t)unit,
                                 .ready = ready};
}

/* ---- Slots ---- */

/* Take the slot that was released first, where more than the spare ones are free, else a new one;
 * stream s waits until its last use has ended. */
static enum lk_status take(struct sharded *s, struct pool *p, struct lk_stream *user,
                           struct slot **out)
{
    size_t free = 0, largest = 0;
    struct slot *first = NULL;

    for (size_t i = 0; i < p->n; i++) {
        struct slot *x = &p->slots[i];

        free += !x->held;
        if (!x->held && (!first || x->freed < first->freed))
            first = x;
    }
    if (free <= p->spare && p->n < s->plan.n_buckets) {
        void *at;

        for (size_t k = 0; k < s->plan.n_buckets; k++)
            if (s->units[k].shard * s->sharers > largest)
                largest = s->units[k].shard * s->sharers;
        first = &p->slots[p->n];
        LK_PASS(lk_event_create(s->device, &first->free));
        p->n++;
        LK_PASS(lk_comm_alloc(s->config.comm, s->device, largest * s->real_bytes, &at));
        first->at = at;
    }
    if (!first)
        return lk_fail(LK_EINTERNAL, "no slot for a unit: all %zu are held", p->n);
    first->held = true;
    LK_PASS(lk_stream_wait(user, first->free));
    *out = first;
    return LK_OK;
}

static enum lk_status release(struct pool *p, struct slot **slot, struct lk_stream *user)
{
    struct slot *x = *slot;

    x->held = false;
    x->freed = ++p->releases;
    *slot = NULL;
    return lk_event_record(x->free, user);
}

/* ---- Values: gathers ---- */

/* Return true if the pass in progress gathers units. */
static bool gathers(const struct sharded *s)
{
    return s->traits->gathers == LK_GATHERS_TWICE ||
           (s->traits->gathers == LK_GATHERS_FORWARD && !s->backward);
}

/* Launch a unit's gather, where the compute stream has come to the event. */
static enum lk_status gather(struct sharded *s, size_t k, struct lk_event *asked)
{
    struct unit *u = &s->units[k];
    const struct lk_reducer_config *c = &s->config;
    struct lk_coll_call call;

    if (u->launched)
        return LK_OK;
    u->launched = true;
    if (!s->values_whole) {
        LK_PASS(take(s, &s->value_slots, c->net, &u->values));
        LK_PASS(lk_stream_wait(c->net, asked));
        LK_PASS(lk_stream_copy(c->net, u->values->at + s->own * u->shard * s->real_bytes,
                               lk_sharded_own_values(s, u), u->shard * s->real_bytes));
    }
    call = call_of(s, LK_ALL_GATHER, k, lk_sharded_whole_values(s, u), asked);
    LK_PASS(collect(s, &call));
    return lk_event_record(u->gathered, c->net);
}

/* Gather a unit that is needed now, and the next one in the pass beside its compute. */
static enum lk_status gather_now(struct sharded *s, size_t k)
{
    size_t n = s->plan.n_buckets, next = s->backward ? k + 1 : k - 1;
    struct unit *u = &s->units[k];

    LK_PASS(lk_event_record(u->asked, s->config.compute));
    LK_PASS(gather(s, k, u->asked));
    LK_PASS(lk_stream_wait(s->config.compute, u->gathered));
    lk_sharded_point_values(s, k, lk_sharded_whole_values(s, u));
    if (s->config.overlap == LK_OVERLAP_MODE_NONE)
        return LK_OK;
    while (next < n && s->units[next].launched) /* below 0 it is above n */
        next = s->backward ? next + 1 : next - 1;
    return next < n ? gather(s, next, u->asked) : LK_OK;
}

/* ---- Gradients ---- */

static enum lk_status zero(struct sharded *s, char *at, size_t from, size_t to)
{
    return from < to ? LK_LAUNCH(s->config.compute, fill, .x = at + from * s->real_bytes,
                                 .n = to - from, .value = 0)
                     : LK_OK;
}

/* Put a unit's gradients in place, for backward to overwrite or to add to. */
static enum lk_status place_gradients(struct sharded *s, size_t k)
{
    struct unit *u = &s->units[k];
    size_t own = s->own * u->shard, whole = s->sharers * u->shard;
    bool adds = s->micro_batch > 0 && !s->config.no_sync;
    char *at;

    if (!s->gradients_whole)
        LK_PASS(take(s, &s->gradient_slots, s->config.compute, &u->gradients));
    at = lk_sharded_whole_gradients(s, u);
    lk_sharded_point_gradients(s, k, at);
    if (!adds) /* a slot may have another unit's gradients where this one is padded */
        return zero(s, at, u->elems, whole);
    LK_PASS(zero(s, at, 0, own));
    LK_PASS(zero(s, at, own + u->shard, whole));
    return s->gradients_whole
               ? LK_OK
               : lk_stream_copy(s->config.compute, at + own * s->real_bytes,
                                lk_sharded_own_gradients(s, u), u->shard * s->real_bytes);
}

static enum lk_status reduce(struct sharded *s, size_t k, struct lk_event *ready)
{
    struct unit *u = &s->units[k];
    const struct lk_reducer_config *c = &s->config;
    char *whole = lk_sharded_whole_gradients(s, u);
    char *own = whole + s->own * u->shard * s->real_bytes;
    struct lk_coll_call scatter = call_of(s, LK_REDUCE_SCATTER, k, whole, ready);
    struct lk_coll_call across = call_of(s, LK_ALL_REDUCE, k, own, ready);
    const struct lk_span span = {
        .kind = LK_SPAN_BUCKET, .step = s->step, .index = (int32_t)k, .bytes = s->plan.bytes[k]};
    enum lk_status st = LK_OK;

    across.group = s->replica;
    lk_span_enter(c->track, &span);
    if (c->plant != LK_PLANT_DROPPED_BUCKET || k != 0)
        LK_TRY(collect(s, &scatter));
    else /* what follows reads the gradients all the same */
        LK_TRY(lk_stream_wait(c->net, ready));
    if (s->crosses && s->replica.n > 1)
        LK_TRY(collect(s, &across));
    if (!s->gradients_whole) {
        LK_TRY(
            lk_stream_copy(c->net, lk_sharded_own_gradients(s, u), own, u->shard * s->real_bytes));
        LK_TRY(release(&s->gradient_slots, &u->gradients, c->net));
    }
out:
    lk_span_leave(c->track, &span);
    return st;
}

/* Reduce the units that are ready, in order: a rank that shadows a backward does likewise. */
static enum lk_status reduce_ready(struct sharded *s)
{
    for (; s->next < s->plan.n_buckets && !s->units[s->next].pending; s->next++)
        LK_PASS(reduce(s, s->next, s->units[s->next].ready));
    return LK_OK;
}

static enum lk_status on_ready(void *ctx, size_t param)
{
    struct sharded *s = ctx;
    struct unit *u;

    if (param >= s->model->n_params || s->seen[param])
        return lk_fail(LK_EINTERNAL, "the gradient of parameter %zu became ready twice in step %u",
                       param, (unsigned)s->step);
    s->seen[param] = true;
    s->n_ready++;
    u = &s->units[s->unit_of[param]];
    if (--u->pending > 0 || !s->reduces)
        return LK_OK;
    LK_PASS(lk_event_record(u->ready, s->config.compute));
    return s->config.overlap == LK_OVERLAP_MODE_NONE ? LK_OK : reduce_ready(s);
}

struct lk_grad_hook lk_sharded_hook(struct lk_exchange *e)
{
    return (struct lk_grad_hook){.ready = on_ready, .ctx = e};
}

enum lk_status lk_sharded_shadow(struct lk_exchange *e)
{
    struct sharded *s = (struct sharded *)e;

    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct unit *u = &s->units[k];

        LK_PASS(place_gradients(s, k));
        if (s->micro_batch == 0)
            LK_PASS(zero(s, lk_sharded_whole_gradients(s, u), 0, u->elems));
        for (size_t i = s->plan.first[k]; i < s->plan.first[k + 1]; i++)
            LK_PASS(on_ready(s, s->plan.index[i]));
    }
    return LK_OK;
}

/* ---- What a pass uses ---- */

static enum lk_status open_unit(struct sharded *s, size_t k)
{
    struct unit *u = &s->units[k];

    if (u->open)
        return LK_OK;
    u->open = s->plan.first[k + 1] - s->plan.first[k];
    if (gathers(s))
        LK_PASS(gather_now(s, k));
    return s->backward ? place_gradients(s, k) : LK_OK;
}

static enum lk_status on_need(void *ctx, size_t first, size_t n)
{
    struct sharded *s = ctx;

    for (size_t p = first; p < first + n; p++)
        LK_PASS(open_unit(s, s->unit_of[p]));
    return LK_OK;
}

static enum lk_status on_done(void *ctx, size_t first, size_t n)
{
    struct sharded *s = ctx;

    for (size_t p = first; p < first + n; p++) {
        size_t k = s->unit_of[p];
        struct unit *u = &s->units[k];

        if (u->open == 0)
            return lk_fail(LK_EINTERNAL,
                           "a pass is done with parameter '%s', which it did not "
                           "need",
                           s->model->params[p].name);
        if (--u->open > 0 || s->values_whole)
            continue;
        lk_sharded_point_values(s, k, NULL);
        LK_PASS(release(&s->value_slots, &u->values, s->config.compute));
    }
    return LK_OK;
}

struct lk_use_hook lk_sharded_uses(struct sharded *s)
{
    return (struct lk_use_hook){
        .need = on_need, .done = on_done, .ctx = s, .share = 1 / (double)s->sharers};
}

/* Check that the pass before was done with all that it needed. */
static enum lk_status check_closed(const struct sharded *s)
{
    for (size_t k = 0; k < s->plan.n_buckets; k++)
        if (s->units[k].open)
            return lk_fail(LK_EINTERNAL,
                           "step %u: a pass did not say that it was done with unit "
                           "%zu",
                           (unsigned)s->step, k);
    return LK_OK;
}

static enum lk_status pass_begin(struct sharded *s, bool backward)
{
    LK_PASS(check_closed(s));
    s->backward = backward;
    for (size_t k = 0; k < s->plan.n_buckets; k++)
        s->units[k].launched = false;
    return LK_OK;
}

/* ---- A step ---- */

enum lk_status lk_sharded_step_begin(struct lk_exchange *e, uint32_t step, int n)
{
    struct sharded *s = (struct sharded *)e;

    lk_sharded_part(e);
    s->step = step;
    s->micro_batches = n;
    s->launched_any = false;
    lk_stream_set_step(s->config.net, step);
    return LK_OK;
}

enum lk_status lk_sharded_forward_begin(struct lk_exchange *e, int micro_batch)
{
    struct sharded *s = (struct sharded *)e;

    if (micro_batch < 0 || micro_batch >= s->micro_batches)
        return lk_fail(LK_EINTERNAL, "micro-batch %d of %d", micro_batch, s->micro_batches);
    s->micro_batch = micro_batch;
    return pass_begin(s, false);
}

/* Share the sums of the micro-batches so far among the replicas, which will add them up again. */
static enum lk_status share_sums(struct sharded *s)
{
    for (size_t k = 0; k < s->plan.n_buckets; k++)
        LK_PASS(LK_LAUNCH(s->config.compute, scale, .x = lk_sharded_own_gradients(s, &s->units[k]),
                          .n = s->units[k].shard, .factor = 1.0 / s->replica.n));
    return LK_OK;
}

enum lk_status lk_sharded_backward_begin(struct lk_exchange *e, int micro_batch)
{
    struct sharded *s = (struct sharded *)e;
    const struct lk_reducer_config *c = &s->config;
    bool last = micro_batch == s->micro_batches - 1;

    LK_PASS(pass_begin(s, true));
    s->reduces = last || !c->no_sync;
    s->crosses = s->reduces && (last || !c->scatter);
    s->n_ready = 0;
    s->next = 0;
    memset(s->seen, 0, s->model->n_params * sizeof *s->seen);
    for (size_t k = 0; k < s->plan.n_buckets; k++)
        s->units[k].pending = s->plan.first[k + 1] - s->plan.first[k];
    return micro_batch > 0 && !c->no_sync && !c->scatter && s->replica.n > 1 ? share_sums(s)
                                                                             : LK_OK;
}

static enum lk_status missing_gradient(const struct sharded *s)
{
    size_t p = 0;

    while (s->seen[p])
        p++;
    return lk_fail(LK_EINTERNAL, "step %u: backward gave no gradient for parameter '%s'",
                   (unsigned)s->step, s->model->params[p].name);
}

enum lk_status lk_sharded_backward_end(struct lk_exchange *e)
{
    struct sharded *s = (struct sharded *)e;
    const struct lk_reducer_config *c = &s->config;

    if (s->n_ready < s->model->n_params)
        return missing_gradient(s);
    LK_PASS(check_closed(s));
    if (!s->reduces)
        return LK_OK;
    if (c->overlap == LK_OVERLAP_MODE_NONE) {
        LK_PASS(lk_event_record(s->before, c->compute));
        for (size_t k = 0; k < s->plan.n_buckets; k++)
            LK_PASS(reduce(s, k, s->before));
    }
    LK_PASS(lk_event_record(s->done, c->net));
    return lk_stream_wait(c->compute, s->done);
}

enum lk_status lk_sharded_updated(struct lk_exchange *e)
{
    struct sharded *s = (struct sharded *)e;
    const struct lk_reducer_config *c = &s->config;

    if (s->traits->gathers != LK_GATHERS_AFTER)
        return LK_OK;
    LK_PASS(lk_event_record(s->before, c->compute));
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct lk_coll_call call =
            call_of(s, LK_ALL_GATHER, k, lk_sharded_whole_values(s, &s->units[k]), s->before);

        LK_PASS(lk_stream_wait(c->net, s->before));
        LK_PASS(lk_comm_enqueue(c->comm, c->net, &call));
    }
    LK_PASS(lk_event_record(s->done, c->net));
    return lk_stream_wait(c->compute, s->done);
}

enum lk_status lk_sharded_add_up(struct lk_exchange *e, lk_wide *x)
{
    struct sharded *s = (struct sharded *)e;
    const struct lk_reducer_config *c = &s->config;
    const struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                      .dtype = s->wide_bytes == sizeof(double) ? LK_F64 : LK_F32,
                                      .buf = x,
                                      .count = 1,
                                      .group = s->group,
                                      .index = -1,
                                      .ready = s->before};

    return lk_comm_between(c->comm, c->compute, c->net, s->done, &call);
}
