/* Early updates; see the header. */
#include "runtime/train/early.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
    size_t held; /* parameters that backward still reads */
    bool ready, reduced;
    bool late; /* its last parameter was released after its last gradient was ready */
    struct lk_event *reduced_at, *released_at;
};

struct lk_early {
    struct lk_early_config config;
    struct lk_stream *compute, *net;
    bool plant;
    struct bucket *buckets; /* n_params, since no bucket is empty; the first n_buckets are in use */
    size_t n_params, n_buckets;
    bool *released;        /* by parameter, in this backward */
    struct lk_event *done; /* on the stream of the updates */
};

enum lk_status lk_early_create(const struct lk_early_config *config, struct lk_stream *compute,
                               struct lk_stream *net, size_t n_params, bool plant,
                               struct lk_early **out)
{
    struct lk_early *e = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&e, 1, sizeof *e));
    e->config = *config;
    e->compute = compute;
    e->net = net;
    e->n_params = n_params;
    e->plant = plant;
    LK_TRY(lk_alloc(&e->buckets, n_params, sizeof *e->buckets));
    LK_TRY(lk_alloc(&e->released, n_params, sizeof *e->released));
    LK_TRY(lk_event_create(lk_stream_device(compute), &e->done));
    LK_HAND_OVER(out, e);
out:
    lk_early_destroy(e);
    return st;
}

void lk_early_destroy(struct lk_early *e)
{
    if (!e)
        return;
    for (size_t b = 0; e->buckets && b < e->n_params; b++) {
        lk_event_destroy(e->buckets[b].reduced_at);
        lk_event_destroy(e->buckets[b].released_at);
    }
    free(e->buckets);
    free(e->released);
    lk_event_destroy(e->done);
    free(e);
}

enum lk_status lk_early_begin(struct lk_early *e, const struct lk_bucket_plan *plan)
{
    struct lk_device *d = lk_stream_device(e->compute);

    memset(e->released, 0, e->n_params * sizeof *e->released);
    e->n_buckets = plan->n_buckets;
    for (size_t i = 0; i < plan->n_buckets; i++) {
        struct bucket *b = &e->buckets[i];

        b->held = e->plant ? 0 : plan->first[i + 1] - plan->first[i];
        b->ready = b->reduced = b->late = false;
        if (!b->reduced_at)
            LK_PASS(lk_event_create(d, &b->reduced_at));
        if (!b->released_at)
            LK_PASS(lk_event_create(d, &b->released_at));
    }
    return LK_OK;
}

/* Enqueue a bucket's update if nothing needs the old values of its parameters any more. */
static enum lk_status update_free(struct lk_early *e, size_t bucket)
{
    const struct bucket *b = &e->buckets[bucket];

    if (b->held > 0 || !b->reduced)
        return LK_OK;
    LK_PASS(lk_stream_wait(e->config.stream, b->reduced_at));
    if (b->late)
        LK_PASS(lk_stream_wait(e->config.stream, b->released_at));
    LK_PASS(e->config.update(e->config.ctx, bucket));
    if (!e->plant)
        return LK_OK;
    LK_PASS(lk_event_record(e->done, e->config.stream));
    return lk_stream_wait(e->compute, e->done);
}

/* Release all of a bucket's parameters: what the compute stream runs from now on reads none. */
static enum lk_status release(struct lk_early *e, size_t bucket)
{
    struct bucket *b = &e->buckets[bucket];

    b->held = 0;
    b->late = b->ready;
    if (b->late)
        LK_PASS(lk_event_record(b->released_at, e->compute));
    return update_free(e, bucket);
}

enum lk_status lk_early_released(struct lk_early *e, size_t param, size_t bucket)
{
    if (e->released[param])
        return lk_fail(LK_EINTERNAL, "parameter %zu was released twice", param);
    e->released[param] = true;
    if (e->plant)
        return LK_OK;
    return --e->buckets[bucket].held == 0 ? release(e, bucket) : LK_OK;
}

void lk_early_ready(struct lk_early *e, size_t bucket)
{
    e->buckets[bucket].ready = true;
}

enum lk_status lk_early_reduced(struct lk_early *e, size_t bucket)
{
    e->buckets[bucket].reduced = true;
    LK_PASS(lk_event_record(e->buckets[bucket].reduced_at, e->net));
    return update_free(e, bucket);
}

enum lk_status lk_early_end(struct lk_early *e)
{
    for (size_t b = 0; b < e->n_buckets; b++)
        if (e->buckets[b].held > 0)
            LK_PASS(release(e, b));
    LK_PASS(lk_event_record(e->done, e->config.stream));
    return lk_stream_wait(e->compute, e->done);
}
