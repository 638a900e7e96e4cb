/* The set-up of sharded training: units, their memory, what this rank owns; see the header. */
#include "runtime/train/sharded.h"

#include "base/array.h"
#include "base/log.h"
#include "facts/config.h"
#include "runtime/train/params_agree.h"
#include "runtime/train/sharded_impl.h"

#include <stdlib.h>
#include <string.h>

/* Units begin on a cache line of their own. */
enum { UNIT_ALIGN = 64 };

/* ---- Addresses ---- */

char *lk_sharded_whole_values(const struct sharded *s, const struct unit *u)
{
    return s->values_whole ? s->values + u->whole_at * s->real_bytes : u->values->at;
}

char *lk_sharded_own_values(const struct sharded *s, const struct unit *u)
{
    return s->values + (s->values_whole ? u->whole_at + s->own * u->shard : u->at) * s->real_bytes;
}

char *lk_sharded_whole_gradients(const struct sharded *s, const struct unit *u)
{
    return s->gradients_whole ? s->gradients + u->whole_at * s->real_bytes : u->gradients->at;
}

char *lk_sharded_own_gradients(const struct sharded *s, const struct unit *u)
{
    return s->gradients_whole ? s->gradients + (u->whole_at + s->own * u->shard) * s->real_bytes
                              : s->sums + u->at * s->real_bytes;
}

void lk_sharded_point_values(struct sharded *s, size_t unit, char *whole)
{
    for (size_t i = s->plan.first[unit]; i < s->plan.first[unit + 1]; i++) {
        size_t p = s->plan.index[i];

        s->model->params[p].data = whole ? whole + s->offset_of[p] * s->real_bytes : NULL;
    }
}

void lk_sharded_point_masters(struct sharded *s, size_t unit, char *whole)
{
    for (size_t i = s->plan.first[unit]; i < s->plan.first[unit + 1]; i++) {
        size_t p = s->plan.index[i];

        s->model->params[p].master = whole ? whole + s->offset_of[p] * s->wide_bytes : NULL;
    }
}

void lk_sharded_point_gradients(struct sharded *s, size_t unit, char *whole)
{
    for (size_t i = s->plan.first[unit]; i < s->plan.first[unit + 1]; i++) {
        size_t p = s->plan.index[i];

        s->model->params[p].grad = whole ? whole + s->offset_of[p] * s->real_bytes : NULL;
    }
}

/* ---- Units ---- */

static enum lk_status plan_units(struct sharded *s)
{
    const struct lk_reducer_config *c = &s->config;
    struct lk_bucket_tensor *tensors = NULL;
    size_t *order = NULL, n = s->model->n_params;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&tensors, n, sizeof *tensors));
    LK_TRY(lk_alloc(&order, n, sizeof *order));
    for (size_t i = 0; i < n; i++) {
        order[i] = n - 1 - i;
        tensors[i] = (struct lk_bucket_tensor){s->model->params[i].elems * s->real_bytes, s->dtype};
    }
    LK_TRY(lk_bucket_rebuilt(tensors, n, order, c->first_bytes, c->cap_bytes, &s->plan));
out:
    free(order);
    free(tensors);
    return st;
}

static size_t aligned(const struct sharded *s, size_t elems)
{
    const size_t align = UNIT_ALIGN / s->real_bytes;

    return (elems + align - 1) / align * align;
}

static enum lk_status lay_out(struct sharded *s)
{
    LK_PASS(plan_units(s));
    LK_PASS(lk_alloc(&s->units, s->plan.n_buckets, sizeof *s->units));
    LK_PASS(lk_alloc(&s->unit_of, s->model->n_params, sizeof *s->unit_of));
    LK_PASS(lk_alloc(&s->offset_of, s->model->n_params, sizeof *s->offset_of));
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct unit *u = &s->units[k];

        for (size_t i = s->plan.first[k]; i < s->plan.first[k + 1]; i++) {
            size_t p = s->plan.index[i];

            s->unit_of[p] = k;
            s->offset_of[p] = u->elems;
            u->elems += s->model->params[p].elems;
        }
        u->shard = (u->elems + s->sharers - 1) / s->sharers;
        u->whole_at = s->whole_elems;
        u->at = s->shard_elems;
        s->whole_elems += aligned(s, u->shard * s->sharers);
        s->shard_elems += aligned(s, u->shard);
        LK_PASS(lk_event_create(s->device, &u->asked));
        LK_PASS(lk_event_create(s->device, &u->gathered));
        LK_PASS(lk_event_create(s->device, &u->ready));
    }
    return LK_OK;
}

static enum lk_status allocate(struct sharded *s, size_t elems, char **out)
{
    void *p;

    LK_PASS(lk_comm_alloc(s->config.comm, s->device, elems * s->real_bytes, &p));
    *out = p;
    return LK_OK;
}

/* ---- Memory ---- */

/* Copy this rank's share of a unit's values out of the model, and point parameters to them. */
static enum lk_status move_values(struct sharded *s, size_t k)
{
    struct unit *u = &s->units[k];
    size_t from = s->values_whole ? 0 : s->own * u->shard;
    size_t to = s->values_whole ? u->elems : from + u->shard;
    char *base = s->values_whole ? lk_sharded_whole_values(s, u) : lk_sharded_own_values(s, u);

    for (size_t i = s->plan.first[k]; i < s->plan.first[k + 1]; i++) {
        size_t p = s->plan.index[i], at = s->offset_of[p];
        size_t end = at + s->model->params[p].elems;
        size_t lo = at > from ? at : from, hi = end < to ? end : to;

        if (lo < hi)
            LK_PASS(
                lk_stream_copy(s->config.compute, base + (lo - from) * s->real_bytes,
                               (const char *)s->model->params[p].data + (lo - at) * s->real_bytes,
                               (hi - lo) * s->real_bytes));
    }
    return LK_OK;
}

/* Copy the exact weights of this rank's shard of a unit out of the model. */
static enum lk_status move_masters(struct sharded *s, size_t k)
{
    const struct unit *u = &s->units[k];
    size_t from = s->own * u->shard, to = from + u->shard, wide = s->wide_bytes;

    for (size_t i = s->plan.first[k]; i < s->plan.first[k + 1] && s->masters; i++) {
        size_t p = s->plan.index[i], at = s->offset_of[p];
        size_t end = at + s->model->params[p].elems;
        size_t lo = at > from ? at : from, hi = end < to ? end : to;

        if (lo < hi)
            LK_PASS(lk_stream_copy(s->config.compute, s->masters + (u->at + lo - from) * wide,
                                   (const char *)s->model->params[p].master + (lo - at) * wide,
                                   (hi - lo) * wide));
    }
    return LK_OK;
}

static enum lk_status make_masters(struct sharded *s)
{
    void *p;

    if (!s->model->masters)
        return LK_OK;
    LK_PASS(lk_device_alloc(s->device, s->shard_elems * s->wide_bytes, &p));
    s->masters = p;
    return LK_OK;
}

static enum lk_status make_memory(struct sharded *s)
{
    LK_PASS(make_masters(s));
    LK_PASS(allocate(s, s->values_whole ? s->whole_elems : s->shard_elems, &s->values));
    if (s->gradients_whole)
        LK_PASS(allocate(s, s->whole_elems, &s->gradients));
    else
        LK_PASS(allocate(s, s->shard_elems, &s->sums));
    LK_PASS(lk_alloc(&s->value_slots.slots, s->plan.n_buckets, sizeof(struct slot)));
    LK_PASS(lk_alloc(&s->gradient_slots.slots, s->plan.n_buckets, sizeof(struct slot)));
    s->gradient_slots.spare = 1; /* a unit's reduction goes on beside the next one's backward */
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        LK_PASS(move_values(s, k));
        LK_PASS(move_masters(s, k));
    }
    LK_PASS(lk_stream_sync(s->config.compute, lk_deadline_in(s->config.timeout_ns)));
    lk_model_leave_weights(s->model);
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct unit *u = &s->units[k];

        lk_sharded_point_values(s, k, s->values_whole ? lk_sharded_whole_values(s, u) : NULL);
        lk_sharded_point_gradients(s, k,
                                   s->gradients_whole ? lk_sharded_whole_gradients(s, u) : NULL);
    }
    return LK_OK;
}

/* Add the piece of parameter p that lies in the unit's own shard, if any. */
static void own_piece(struct sharded *s, const struct unit *u, size_t p)
{
    size_t from = s->own * u->shard, to = from + u->shard;
    size_t at = s->offset_of[p], end = at + s->model->params[p].elems;
    size_t lo = at > from ? at : from, hi = end < to ? end : to;

    if (lo >= hi)
        return;
    s->pieces[s->n_pieces] = (struct lk_piece){p, lo - at};
    s->params[s->n_pieces++] = (struct lk_param){
        .name = s->model->params[p].name,
        .elems = hi - lo,
        .data = lk_sharded_own_values(s, u) + (lo - from) * s->real_bytes,
        .master = s->masters ? s->masters + (u->at + lo - from) * s->wide_bytes : NULL,
        .grad = lk_sharded_own_gradients(s, u) + (lo - from) * s->real_bytes,
        .decay = s->model->params[p].decay};
}

static enum lk_status own_pieces(struct sharded *s)
{
    LK_PASS(lk_alloc(&s->params, s->model->n_params, sizeof *s->params));
    LK_PASS(lk_alloc(&s->pieces, s->model->n_params, sizeof *s->pieces));
    for (size_t k = 0; k < s->plan.n_buckets; k++)
        for (size_t i = s->plan.first[k]; i < s->plan.first[k + 1]; i++)
            own_piece(s, &s->units[k], s->plan.index[i]);
    s->base.owned = (struct lk_owned){s->params, s->pieces, s->n_pieces};
    return LK_OK;
}

/* ---- The whole ---- */

static double sharded_seed(const struct lk_exchange *e)
{
    const struct sharded *s = (const struct sharded *)e;
    int ranks = s->config.plant == LK_PLANT_WRONG_DIVISOR ? s->ranks + 1 : s->ranks;

    return 1.0 / ((double)ranks * s->config.accumulation);
}

static const struct lk_bucket_plan *no_buckets(const struct lk_exchange *e)
{
    (void)e;
    return NULL;
}

static const size_t *unit_order(const struct lk_exchange *e)
{
    return ((const struct sharded *)e)->plan.index;
}

static lk_real *own_gradients(const struct lk_exchange *e, size_t run, size_t *out_elems)
{
    const struct sharded *s = (const struct sharded *)e;

    if (run >= s->plan.n_buckets)
        return NULL;
    *out_elems = s->units[run].shard;
    return lk_sharded_own_gradients(s, &s->units[run]);
}

static enum lk_status no_norms(const struct lk_exchange *e, uint32_t *step, double *local_sq,
                               double *mean_sq)
{
    (void)e;
    (void)step;
    (void)local_sq;
    (void)mean_sq;
    return lk_fail(LK_EEVIDENCE, "sharded training measures no gradient norms");
}

static int no_micro_batches(const struct lk_exchange *e)
{
    (void)e;
    return 1;
}

static const struct lk_exchange_ops ops = {.destroy = lk_sharded_destroy,
                                           .step_begin = lk_sharded_step_begin,
                                           .forward_begin = lk_sharded_forward_begin,
                                           .backward_begin = lk_sharded_backward_begin,
                                           .seed = sharded_seed,
                                           .hook = lk_sharded_hook,
                                           .shadow = lk_sharded_shadow,
                                           .backward_end = lk_sharded_backward_end,
                                           .updated = lk_sharded_updated,
                                           .buckets = no_buckets,
                                           .ready_order = unit_order,
                                           .norms = no_norms,
                                           .norms_micro_batches = no_micro_batches,
                                           .gradients = own_gradients,
                                           .add_up = lk_sharded_add_up,
                                           .whole = lk_sharded_whole,
                                           .part = lk_sharded_part,
                                           .weights = lk_sharded_weights,
                                           .state = lk_sharded_state};

static enum lk_status check(const struct lk_reducer_config *c, const struct lk_model *m)
{
    const char *name = lk_sharding_name(c->sharding);

    if (m->n_params == 0)
        return lk_fail(LK_EUSAGE, "the model has no parameters");
    if (c->accumulation < 1)
        return lk_fail(LK_EUSAGE, "%d micro-batches a step: at least 1", c->accumulation);
    if (lk_sharding_traits(c->sharding)->pace != LK_PACE_STEP)
        return lk_fail(LK_EUNSUPPORTED, "sharding %s is not built", name);
    if (c->early || c->noise_every)
        return lk_fail(LK_EUNSUPPORTED, "sharding %s has no %s", name,
                       c->early ? "early updates" : "gradient norms");
    if (c->plant != LK_PLANT_NONE && c->plant != LK_PLANT_DROPPED_BUCKET &&
        c->plant != LK_PLANT_WRONG_DIVISOR && c->plant != LK_PLANT_SHARED_SHARD &&
        c->plant != LK_PLANT_OVERFLOW)
        return lk_fail(LK_EUNSUPPORTED, "sharding %s: the planted fault is one of DDP's reducer",
                       name);
    return LK_OK;
}

/* Find the ranks that share with this one, and those that have the same shard. */
static enum lk_status set_groups(struct sharded *s)
{
    const struct lk_reducer_config *c = &s->config;
    int rank = lk_comm_rank(c->comm), size = s->ranks;

    if (s->traits->sharers == LK_SHARERS_GROUP && s->ranks > 1) /* one rank divides nothing */
        size = c->shard_group;
    if (size < 1 || s->ranks % size)
        return lk_fail(LK_EUSAGE, "a shard group of %d does not divide %d ranks", size, s->ranks);
    s->sharers = (size_t)size;
    s->own = (size_t)(rank % size);
    s->replica.n = 1;
    if (size == s->ranks)
        return LK_OK;
    if (!lk_comm_has_groups(c->comm))
        return lk_fail(LK_EUNSUPPORTED,
                       "sharding %s in groups of %d of %d ranks: %s has no collectives of a part "
                       "of the ranks",
                       lk_sharding_name(c->sharding), size, s->ranks, c->comm->ops->name);
    s->group = (struct lk_rank_group){rank - rank % size, 1, size};
    s->replica = (struct lk_rank_group){rank % size, size, s->ranks / size};
    LK_PASS(lk_comm_name_groups(c->comm, c->recorder, size));
    return lk_comm_name_groups(c->comm, c->recorder, s->ranks / size);
}

enum lk_status lk_sharded_create(const struct lk_reducer_config *config, struct lk_model *m,
                                 struct lk_exchange **out)
{
    struct sharded *s = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(check(config, m));
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->base.ops = &ops;
    s->config = *config;
    s->config.order = NULL; /* a checkpoint's: units do not depend on it */
    s->traits = lk_sharding_traits(config->sharding);
    s->model = m;
    s->device = lk_stream_device(config->compute);
    s->real_bytes = lk_device_real_bytes(s->device);
    s->wide_bytes = lk_device_wide_bytes(s->device);
    s->dtype = lk_device_real_dtype(s->device);
    s->ranks = lk_comm_world_size(config->comm);
    s->values_whole = !s->traits->parameters;
    s->gradients_whole = !s->traits->gradients || (config->no_sync && config->accumulation > 1);
    LK_TRY(set_groups(s));
    LK_TRY(lk_event_create(s->device, &s->before));
    LK_TRY(lk_event_create(s->device, &s->done));
    LK_TRY(lk_alloc(&s->seen, m->n_params, sizeof *s->seen));
    LK_TRY(lk_stream_sync(config->compute, lk_deadline_in(config->timeout_ns)));
    LK_TRY(lk_params_agree(config->comm, m->params, m->n_params, s->dtype));
    LK_TRY(lay_out(s));
    LK_TRY(make_memory(s));
    LK_TRY(own_pieces(s));
    m->uses = lk_sharded_uses(s);
    lk_log(LK_LOG_DDP, LK_DEBUG, "%zu parameters in %zu units, %zu of %zu elements here",
           m->n_params, s->plan.n_buckets, s->shard_elems, s->whole_elems);
    *out = &s->base;
    s = NULL;
out:
    if (s)
        lk_sharded_destroy(&s->base);
    return st;
}

static void free_pool(struct sharded *s, struct pool *p)
{
    for (size_t i = 0; i < p->n; i++) {
        lk_comm_free(s->config.comm, s->device, p->slots[i].at);
        lk_event_destroy(p->slots[i].free);
    }
    free(p->slots);
}

void lk_sharded_destroy(struct lk_exchange *e)
{
    struct sharded *s = (struct sharded *)e;

    lk_sharded_part(e);
    free_pool(s, &s->value_slots);
    free_pool(s, &s->gradient_slots);
    for (size_t k = 0; s->units && k < s->plan.n_buckets; k++) {
        lk_event_destroy(s->units[k].asked);
        lk_event_destroy(s->units[k].gathered);
        lk_event_destroy(s->units[k].ready);
    }
    lk_event_destroy(s->before);
    lk_event_destroy(s->done);
    lk_comm_free(s->config.comm, s->device, s->values);
    lk_comm_free(s->config.comm, s->device, s->gradients);
    lk_comm_free(s->config.comm, s->device, s->sums);
    lk_device_free(s->device, s->masters);
    lk_bucket_plan_fini(&s->plan);
    free(s->units);
    free(s->unit_of);
    free(s->offset_of);
    free(s->params);
    free(s->pieces);
    free(s->seen);
    free(s);
}
