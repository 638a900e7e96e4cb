/* Averaging of parameters; see the header. */
#include "runtime/train/averaging.h"

#include "base/array.h"
#include "kernels/ops.h"

#include <stdio.h>
#include <stdlib.h>

struct lk_averaging {
    struct lk_averaging_config config;
    struct lk_comm *comm;
    struct lk_stream *compute, *net;
    struct lk_device *device;
    lk_real *weights;
    size_t elems;
    enum lk_dtype real;
    lk_real *old, *momentum; /* diloco; else NULL */
    struct lk_event *updated, *averaged;
};

bool lk_averaging_is_on(const struct lk_averaging_config *c)
{
    return lk_sharding_traits(c->scheme)->pace == LK_PACE_PERIOD;
}

bool lk_averaging_is_due(const struct lk_averaging_config *c, int64_t step, int64_t n)
{
    int64_t since = step - c->warmup + (c->scheme == LK_SHARDING_DILOCO);

    if (!lk_averaging_is_on(c) || step < c->warmup)
        return false;
    return since % c->period == 0 || step == n - 1;
}

static enum lk_status check(const struct lk_averaging_config *c, bool has_masters)
{
    if (c->period < 1 || c->warmup < 0)
        return lk_fail(LK_EUSAGE, "averaging every %d steps after %lld: 1 or more, after 0 or more",
                       c->period, (long long)c->warmup);
    if (c->scheme == LK_SHARDING_DILOCO &&
        !(c->outer_rate > 0 && c->outer_momentum >= 0 && c->outer_momentum < 1))
        return lk_fail(LK_EUSAGE,
                       "diloco with outer rate %g and momentum %g: above 0, and in [0, 1)",
                       c->outer_rate, c->outer_momentum);
    if (has_masters)
        return lk_fail(LK_EUNSUPPORTED,
                       "%s averages float32 weights; narrower ones have exact ones "
                       "beside them",
                       lk_sharding_name(c->scheme));
    return LK_OK;
}

static enum lk_status make_outer(struct lk_averaging *a, size_t bytes)
{
    if (a->config.scheme != LK_SHARDING_DILOCO)
        return LK_OK;
    LK_PASS(lk_device_alloc(a->device, bytes, &a->old));
    LK_PASS(lk_device_alloc(a->device, bytes, &a->momentum));
    LK_PASS(lk_stream_copy(a->compute, a->old, a->weights, bytes));
    return LK_OK;
}

enum lk_status lk_averaging_create(const struct lk_averaging_config *c, struct lk_comm *comm,
                                   struct lk_stream *compute, struct lk_stream *net,
                                   lk_real *weights, size_t weights_bytes, bool has_masters,
                                   struct lk_averaging **out)
{
    struct lk_averaging *a = NULL;
    enum lk_status st = LK_OK;

    *out = NULL;
    if (!lk_averaging_is_on(c))
        return LK_OK;
    LK_TRY(check(c, has_masters));
    if (c->scheme == LK_SHARDING_LOCAL_SGD && lk_comm_world_size(comm) == 1)
        return LK_OK;
    LK_TRY(lk_alloc(&a, 1, sizeof *a));
    a->config = *c;
    a->comm = comm;
    a->compute = compute;
    a->net = net;
    a->device = lk_stream_device(compute);
    a->weights = weights;
    a->elems = weights_bytes / lk_device_real_bytes(a->device);
    a->real = lk_device_real_dtype(a->device);
    LK_TRY(lk_event_create(a->device, &a->updated));
    LK_TRY(lk_event_create(a->device, &a->averaged));
    LK_TRY(make_outer(a, weights_bytes));
    LK_HAND_OVER(out, a);
out:
    lk_averaging_destroy(a);
    return st;
}

void lk_averaging_destroy(struct lk_averaging *a)
{
    if (!a)
        return;
    lk_event_destroy(a->updated);
    lk_event_destroy(a->averaged);
    lk_device_free(a->device, a->old);
    lk_device_free(a->device, a->momentum);
    free(a);
}

/* Step the outer optimizer: the weights hold the mean over the ranks. */
static enum lk_status step_outer(struct lk_averaging *a)
{
    const struct lk_averaging_config *c = &a->config;
    struct lk_stream *s = a->net;
    lk_real *d = a->weights;

    LK_PASS(LK_LAUNCH(s, scale, .x = d, .n = a->elems, .factor = -1));
    LK_PASS(LK_LAUNCH(s, axpy, .y = d, .x = a->old, .n = a->elems, .factor = 1));
    LK_PASS(LK_LAUNCH(s, scale, .x = a->momentum, .n = a->elems, .factor = c->outer_momentum));
    LK_PASS(LK_LAUNCH(s, axpy, .y = a->momentum, .x = d, .n = a->elems, .factor = 1));
    LK_PASS(LK_LAUNCH(s, axpy, .y = a->old, .x = d, .n = a->elems, .factor = -c->outer_rate));
    LK_PASS(LK_LAUNCH(s, axpy, .y = a->old, .x = a->momentum, .n = a->elems,
                      .factor = -c->outer_rate * c->outer_momentum));
    return lk_stream_copy(s, a->weights, a->old, a->elems * lk_dtype_bytes(a->real));
}

enum lk_status lk_averaging_enqueue(struct lk_averaging *a)
{
    int ranks = a ? lk_comm_world_size(a->comm) : 0;

    if (!a)
        return LK_OK;
    LK_PASS(lk_event_record(a->updated, a->compute));
    LK_PASS(lk_stream_wait(a->net, a->updated));
    if (ranks > 1) {
        const struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                          .dtype = a->real,
                                          .buf = a->weights,
                                          .count = a->elems,
                                          .index = -1,
                                          .ready = a->updated};

        LK_PASS(LK_LAUNCH(a->net, scale, .x = a->weights, .n = a->elems, .factor = 1.0 / ranks));
        LK_PASS(lk_comm_enqueue(a->comm, a->net, &call));
    }
    if (a->old)
        LK_PASS(step_outer(a));
    LK_PASS(lk_event_record(a->averaged, a->net));
    return lk_stream_wait(a->compute, a->averaged);
}

enum { KEPT_START, KEPT_MOMENTUM, N_KEPT };

size_t lk_averaging_n_kept(const struct lk_averaging *a)
{
    return a && a->old ? N_KEPT : 0;
}

struct lk_kept lk_averaging_kept(const struct lk_averaging *a, size_t group, const lk_real *first,
                                 size_t elems)
{
    char *of = group == KEPT_START ? a->old : a->momentum;
    struct lk_kept k = {.data = of + ((const char *)first - (const char *)a->weights),
                        .elems = elems};

    snprintf(k.name, sizeof k.name, "outer.%s", group == KEPT_START ? "start" : "momentum");
    return k;
}
