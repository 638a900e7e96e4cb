/* Make whole what is divided among ranks, between steps: for checks, checkpoints and exports. */
#include "runtime/train/sharded_impl.h"

/* Run the gather of a unit's parts, `bytes` an element, and wait. */
static enum lk_status gather(struct sharded *s, const struct unit *u, void *whole, size_t bytes)
{
    const struct lk_coll_call call = {.coll = LK_ALL_GATHER,
                                      .dtype = LK_U8,
                                      .buf = whole,
                                      .count = u->shard * bytes,
                                      .group = s->group,
                                      .index = (int32_t)(u - s->units)};

    LK_PASS(lk_stream_sync(s->config.compute, lk_deadline_in(s->config.timeout_ns)));
    return lk_comm_run(s->config.comm, &call);
}

static enum lk_status allocate(struct sharded *s, size_t bytes, char **out)
{
    void *p;

    if (*out)
        return LK_OK;
    LK_PASS(lk_comm_alloc(s->config.comm, s->device, bytes, &p));
    *out = p;
    return LK_OK;
}

static enum lk_status whole_values(struct sharded *s)
{
    enum lk_gathers when = s->traits->gathers;

    if (when == LK_GATHERS_AFTER)
        return LK_OK;
    if (!s->values_whole)
        LK_PASS(allocate(s, s->whole_elems * s->real_bytes, &s->whole_values));
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct unit *u = &s->units[k];
        char *whole = (s->values_whole ? s->values : s->whole_values) + u->whole_at * s->real_bytes;

        if (!s->values_whole)
            LK_PASS(lk_stream_copy(s->config.compute, whole + s->own * u->shard * s->real_bytes,
                                   lk_sharded_own_values(s, u), u->shard * s->real_bytes));
        LK_PASS(gather(s, u, whole, s->real_bytes));
        lk_sharded_point_values(s, k, whole);
    }
    return LK_OK;
}

static enum lk_status whole_gradients(struct sharded *s)
{
    LK_PASS(allocate(s, s->whole_elems * s->real_bytes, &s->whole_gradients));
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct unit *u = &s->units[k];
        char *whole = s->whole_gradients + u->whole_at * s->real_bytes;

        LK_PASS(lk_stream_copy(s->config.compute, whole + s->own * u->shard * s->real_bytes,
                               lk_sharded_own_gradients(s, u), u->shard * s->real_bytes));
        LK_PASS(gather(s, u, whole, s->real_bytes));
        lk_sharded_point_gradients(s, k, whole);
    }
    return LK_OK;
}

static enum lk_status whole_masters(struct sharded *s)
{
    if (!s->masters)
        return LK_OK;
    LK_PASS(allocate(s, s->whole_elems * s->wide_bytes, &s->whole_masters));
    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        struct unit *u = &s->units[k];
        char *whole = s->whole_masters + u->whole_at * s->wide_bytes;

        LK_PASS(lk_stream_copy(s->config.compute, whole + s->own * u->shard * s->wide_bytes,
                               s->masters + u->at * s->wide_bytes, u->shard * s->wide_bytes));
        LK_PASS(gather(s, u, whole, s->wide_bytes));
        lk_sharded_point_masters(s, k, whole);
    }
    s->model->masters = s->whole_masters;
    s->model->masters_bytes = s->whole_elems * s->wide_bytes;
    return LK_OK;
}

static char *state_at(const struct sharded *s, size_t plane, const struct unit *u, size_t at)
{
    return s->whole_states + (plane * s->whole_elems + u->whole_at + at) * s->wide_bytes;
}

static enum lk_status whole_states(struct sharded *s, const struct lk_optim *o)
{
    size_t planes = lk_optim_planes(o);

    LK_PASS(allocate(s, planes * s->whole_elems * s->wide_bytes, &s->whole_states));
    for (size_t plane = 0; plane < planes; plane++) {
        for (size_t i = 0; i < s->n_pieces; i++) {
            size_t p = s->pieces[i].param;

            LK_PASS(lk_stream_copy(
                s->config.compute,
                state_at(s, plane, &s->units[s->unit_of[p]], s->offset_of[p] + s->pieces[i].first),
                lk_optim_state(o, plane, i), s->params[i].elems * s->wide_bytes));
        }
        for (size_t k = 0; k < s->plan.n_buckets; k++)
            LK_PASS(gather(s, &s->units[k], state_at(s, plane, &s->units[k], 0), s->wide_bytes));
    }
    return LK_OK;
}

enum lk_status lk_sharded_whole(struct lk_exchange *e, int what, const struct lk_optim *o)
{
    struct sharded *s = (struct sharded *)e;

    if (what & LK_WHOLE_VALUES) {
        LK_PASS(whole_values(s));
        LK_PASS(whole_masters(s));
    }
    if (what & LK_WHOLE_GRADIENTS)
        LK_PASS(whole_gradients(s));
    return what & LK_WHOLE_STATES && o ? whole_states(s, o) : LK_OK;
}

static void drop(struct sharded *s, char **p)
{
    lk_comm_free(s->config.comm, s->device, *p);
    *p = NULL;
}

void lk_sharded_part(struct lk_exchange *e)
{
    struct sharded *s = (struct sharded *)e;

    for (size_t k = 0; k < s->plan.n_buckets; k++) {
        if (s->whole_values)
            lk_sharded_point_values(s, k, NULL);
        if (s->whole_masters)
            lk_sharded_point_masters(s, k, NULL);
        if (s->whole_gradients)
            lk_sharded_point_gradients(
                s, k, s->gradients_whole ? lk_sharded_whole_gradients(s, &s->units[k]) : NULL);
    }
    if (s->whole_masters) {
        s->model->masters = NULL;
        s->model->masters_bytes = 0;
    }
    drop(s, &s->whole_values);
    drop(s, &s->whole_masters);
    drop(s, &s->whole_gradients);
    drop(s, &s->whole_states);
}

const void *lk_sharded_weights(const struct lk_exchange *e, size_t *out_bytes)
{
    const struct sharded *s = (const struct sharded *)e;

    *out_bytes = s->whole_elems * s->real_bytes;
    return s->values_whole ? s->values : s->whole_values;
}

lk_wide *lk_sharded_state(const struct lk_exchange *e, const struct lk_optim *o, size_t plane,
                          size_t param)
{
    const struct sharded *s = (const struct sharded *)e;

    (void)o;
    return state_at(s, plane, &s->units[s->unit_of[param]], s->offset_of[param]);
}
