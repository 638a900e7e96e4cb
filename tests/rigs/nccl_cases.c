/* Cases of collectives; see the header. */
#include "tests/rigs/nccl_cases.h"
#include "tests/rigs/waits.h"

static const uint64_t plenty_ns = WAIT_PLENTY_NS;

/* ---- Values ---- */

static double get(enum lk_dtype t, const void *p, size_t i)
{
    switch (t) {
    case LK_F32:
        return ((const float *)p)[i];
    case LK_F16:
        return lk_f32_from_f16(((const uint16_t *)p)[i]);
    case LK_BF16:
        return lk_f32_from_bf16(((const uint16_t *)p)[i]);
    case LK_F64:
        return ((const double *)p)[i];
    case LK_I32:
        return ((const int32_t *)p)[i];
    case LK_I64:
        return (double)((const int64_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

static void put(enum lk_dtype t, void *p, size_t i, int v)
{
    switch (t) {
    case LK_F32:
        ((float *)p)[i] = (float)v;
        return;
    case LK_F16:
        ((uint16_t *)p)[i] = lk_f16_from_f32((float)v);
        return;
    case LK_BF16:
        ((uint16_t *)p)[i] = lk_bf16_from_f32((float)v);
        return;
    case LK_F64:
        ((double *)p)[i] = v;
        return;
    case LK_I32:
        ((int32_t *)p)[i] = v;
        return;
    case LK_I64:
        ((int64_t *)p)[i] = v;
        return;
    default:
        ((uint8_t *)p)[i] = (uint8_t)v;
    }
}

/* Return a small whole number: every type holds their sums. */
static int value(int rank, size_t i)
{
    return (int)((i * 3 + (size_t)rank * 5 + 1) % 23);
}

static int sum(int world, size_t i)
{
    int s = 0;

    for (int r = 0; r < world; r++)
        s += value(r, i);
    return s;
}

/* Return the required result of element i; -1: any. */
static int wanted(const struct lk_coll_call *c, int rank, int world, size_t i)
{
    switch (c->coll) {
    case LK_ALL_REDUCE:
        return sum(world, i);
    case LK_REDUCE_SCATTER:
        return i / c->count == (size_t)rank ? sum(world, i) : -1;
    case LK_ALL_GATHER:
        return value((int)(i / c->count), i);
    default:
        return value(c->root, i);
    }
}

static enum lk_status run_case(struct lk_comm *comm, struct lk_stream *net,
                               const struct nccl_way *r, struct lk_coll_call *c)
{
    size_t bytes = lk_coll_call_bytes(c, lk_comm_world_size(comm));
    size_t elems = bytes / lk_dtype_bytes(c->dtype);
    void *values = NULL, *device = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_alloc_host(lk_stream_device(net), bytes, &values));
    LK_TRY(lk_comm_alloc(comm, lk_stream_device(net), bytes, &device));
    for (size_t i = 0; i < elems; i++)
        put(c->dtype, values, i, value(lk_comm_rank(comm), i));
    c->buf = r->of_host ? values : device;
    if (!r->of_host)
        LK_TRY(lk_stream_copy(net, device, values, bytes));
    if (!r->on_stream)
        LK_TRY(lk_stream_sync(net, lk_deadline_in(plenty_ns)));
    LK_TRY(r->on_stream ? lk_comm_enqueue(comm, net, c) : lk_comm_run(comm, c));
    if (!r->of_host)
        LK_TRY(lk_stream_copy(net, values, device, bytes));
    LK_TRY(lk_stream_sync(net, lk_deadline_in(plenty_ns)));
    for (size_t i = 0; i < elems; i++) {
        int want = wanted(c, lk_comm_rank(comm), lk_comm_world_size(comm), i);

        if (want >= 0 && get(c->dtype, values, i) != want)
            return lk_fail(LK_EVERIFY, "%s of %s: element %zu is %g, not %d", lk_coll_name(c->coll),
                           lk_dtype_name(c->dtype), i, get(c->dtype, values, i), want);
    }
out:
    lk_comm_free(comm, lk_stream_device(net), device);
    lk_device_free_host(lk_stream_device(net), values);
    return st;
}

enum lk_status nccl_cases_run(struct lk_comm *comm, struct lk_stream *net,
                              const struct nccl_way *way)
{
    enum lk_status st = LK_OK;

    for (int coll = 0; coll < LK_BARRIER; coll++)
        for (int dtype = 0; dtype < LK_DTYPE_COUNT; dtype++) {
            struct lk_coll_call c = {.coll = (enum lk_coll)coll,
                                     .dtype = (enum lk_dtype)dtype,
                                     .count = 37,
                                     .root = lk_comm_world_size(comm) - 1,
                                     .index = -1};

            LK_TRY(run_case(comm, net, way, &c));
        }
    LK_TRY(lk_comm_run(comm, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1}));
    LK_TRY(lk_comm_run(comm, &(struct lk_coll_call){.coll = LK_ALL_REDUCE, .index = -1}));
out:
    return st;
}
