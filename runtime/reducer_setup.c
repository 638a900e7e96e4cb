/* What the ranks agree on before they train: parameters, their values, the order of buckets. */
#include "base/array.h"
#include "runtime/reducer_impl.h"

#include <stdlib.h>
#include <string.h>

/* A parameter as the ranks compare it. */
struct fact {
    uint64_t name_hash;
    uint64_t elems;
    uint64_t dtype;
};

/* Bytes of a name that an error shows. */
enum { NAME_SHOWN = 96 };

/* FNV-1a, 64 bits. */
static uint64_t hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325U;

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3U;
    return h;
}

/* Gathers `size` bytes of every rank into all, in rank order. */
static enum lk_status gather(struct lk_comm *c, const void *own, size_t size, void *all)
{
    const struct lk_coll_call call = {
        .coll = LK_ALL_GATHER, .dtype = LK_U8, .buf = all, .count = size, .index = -1};

    memcpy((char *)all + (size_t)lk_comm_rank(c) * size, own, size);
    return lk_comm_run(c, &call);
}

static enum lk_status check_count(struct lk_comm *c, size_t n_params)
{
    size_t world = (size_t)lk_comm_world_size(c);
    uint64_t own = n_params;
    uint64_t *all = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&all, world, sizeof *all));
    LK_TRY(gather(c, &own, sizeof own, all));
    for (size_t r = 1; r < world; r++)
        if (all[r] != all[0]) {
            st = lk_fail(LK_EVERIFY,
                         "the ranks' models differ: rank 0 has %llu parameters, rank %zu has %llu",
                         (unsigned long long)all[0], r, (unsigned long long)all[r]);
            break;
        }
out:
    free(all);
    return st;
}

/* All ranks come here, for the same parameter and rank, so the names can be gathered. */
static enum lk_status report_difference(struct lk_comm *c, const char *name, size_t param,
                                        size_t rank, const struct fact *of_0,
                                        const struct fact *of_rank)
{
    char own[NAME_SHOWN] = "";
    char *all = NULL;
    enum lk_status st = LK_OK;

    strncpy(own, name, sizeof own - 1);
    LK_TRY(lk_alloc(&all, (size_t)lk_comm_world_size(c), sizeof own));
    LK_TRY(gather(c, own, sizeof own, all));
    st = lk_fail(LK_EVERIFY,
                 "the ranks' models differ in parameter %zu: rank 0 has '%s' of %llu %s elements, "
                 "rank %zu has '%s' of %llu %s",
                 param, all, (unsigned long long)of_0->elems,
                 lk_dtype_name((enum lk_dtype)of_0->dtype), rank, all + rank * sizeof own,
                 (unsigned long long)of_rank->elems, lk_dtype_name((enum lk_dtype)of_rank->dtype));
out:
    free(all);
    return st;
}

enum lk_status lk_reducer_check_params(struct lk_comm *c, const struct lk_param *params,
                                       size_t n_params, enum lk_dtype dtype)
{
    size_t world = (size_t)lk_comm_world_size(c);
    struct fact *own = NULL;
    struct fact *all = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(check_count(c, n_params));
    LK_TRY(lk_alloc(&own, n_params, sizeof *own));
    LK_TRY(lk_alloc(&all, world * n_params, sizeof *all));
    for (size_t i = 0; i < n_params; i++)
        own[i] = (struct fact){hash_text(params[i].name), params[i].elems, (uint64_t)dtype};
    LK_TRY(gather(c, own, n_params * sizeof *own, all));
    for (size_t i = 0; i < n_params; i++)
        for (size_t r = 1; r < world; r++)
            if (memcmp(&all[i], &all[r * n_params + i], sizeof *all))
                LK_TRY(report_difference(c, params[i].name, i, r, &all[i], &all[r * n_params + i]));
out:
    free(own);
    free(all);
    return st;
}

enum lk_status lk_reducer_broadcast_params(struct lk_comm *c, struct lk_param *params,
                                           size_t n_params, enum lk_dtype dtype)
{
    struct lk_coll_call call = {.coll = LK_BROADCAST, .index = -1};
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < n_params; i++) {
        call.count = params[i].elems;
        call.dtype = dtype;
        call.buf = params[i].data;
        LK_TRY(lk_fail_context(lk_comm_run(c, &call), "parameter '%s'", params[i].name));
        call.dtype = LK_F32;
        call.buf = params[i].master;
        if (call.buf)
            LK_TRY(lk_fail_context(lk_comm_run(c, &call), "parameter '%s'", params[i].name));
    }
out:
    return st;
}

enum lk_status lk_reducer_broadcast_order(struct lk_comm *c, size_t *order, size_t n)
{
    struct lk_coll_call call = {.coll = LK_BROADCAST, .dtype = LK_I64, .count = n, .index = -1};
    int64_t *wire = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&wire, n, sizeof *wire));
    for (size_t i = 0; i < n; i++)
        wire[i] = (int64_t)order[i];
    call.buf = wire;
    LK_TRY(lk_comm_run(c, &call));
    for (size_t i = 0; i < n; i++)
        order[i] = (size_t)wire[i];
out:
    free(wire);
    return st;
}
