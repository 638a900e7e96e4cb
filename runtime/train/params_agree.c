/* The agreement of all ranks on the model's parameters; see the header. All is collective. */
#include "runtime/train/params_agree.h"

#include "base/array.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* A parameter's properties that the ranks compare. */
struct fact {
    uint64_t name_hash;
    uint64_t elems;
    uint64_t dtype;
};

/* Bytes of a name shown in an error. */
enum { NAME_SHOWN = 96 };

static enum lk_status check_count(struct lk_comm *c, size_t n_params)
{
    size_t world = (size_t)lk_comm_world_size(c);
    uint64_t own = n_params;
    uint64_t *all = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&all, world, sizeof *all));
    LK_TRY(lk_comm_gather(c, LK_I64, &own, 1, all));
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

/* Report a difference. Collective: all ranks call it for the same parameter and rank, so it can
 * gather the names. */
static enum lk_status report_difference(struct lk_comm *c, const char *name, size_t param,
                                        size_t rank, const struct fact *of_0,
                                        const struct fact *of_rank)
{
    char own[NAME_SHOWN] = "";
    char *all = NULL;
    enum lk_status st = LK_OK;

    strncpy(own, name, sizeof own - 1);
    LK_TRY(lk_alloc(&all, (size_t)lk_comm_world_size(c), sizeof own));
    LK_TRY(lk_comm_gather(c, LK_U8, own, sizeof own, all));
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

/* Check that all ranks have the same parameters: their count, and the name, element count and type
 * of each. LK_EVERIFY, on all ranks, names the first difference, both values and both ranks. */
static enum lk_status check_params(struct lk_comm *c, const struct lk_param *params,
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
        own[i] = (struct fact){lk_rng_stream(params[i].name, 0), params[i].elems, (uint64_t)dtype};
    LK_TRY(lk_comm_gather(c, LK_U8, own, n_params * sizeof *own, all));
    for (size_t i = 0; i < n_params; i++)
        for (size_t r = 1; r < world; r++)
            if (memcmp(&all[i], &all[r * n_params + i], sizeof *all))
                LK_TRY(report_difference(c, params[i].name, i, r, &all[i], &all[r * n_params + i]));
out:
    free(own);
    free(all);
    return st;
}

/* Broadcast rank 0's parameter values, including the exact ones. pre: the compute stream is idle.
 */
static enum lk_status broadcast_params(struct lk_comm *c, struct lk_param *params, size_t n_params,
                                       enum lk_dtype dtype)
{
    struct lk_coll_call call = {.coll = LK_BROADCAST, .index = -1};

    for (size_t i = 0; i < n_params; i++) {
        call.count = params[i].elems;
        call.dtype = dtype;
        call.buf = params[i].data;
        LK_PASS(lk_fail_context(lk_comm_run(c, &call), "parameter '%s'", params[i].name));
        call.dtype = LK_F32;
        call.buf = params[i].master;
        if (call.buf)
            LK_PASS(lk_fail_context(lk_comm_run(c, &call), "parameter '%s'", params[i].name));
    }
    return LK_OK;
}

enum lk_status lk_params_agree(struct lk_comm *c, struct lk_param *params, size_t n_params,
                               enum lk_dtype dtype)
{
    LK_PASS(check_params(c, params, n_params, dtype));
    return broadcast_params(c, params, n_params, dtype);
}
