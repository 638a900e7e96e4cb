/*
 * Communicators of a part of the ranks, as hybrid sharding needs them: each is made when a
 * collective first asks for it, with an id that its first rank publishes. All use the same GPU and
 * are used on one stream, in the same order on all ranks, so that no two wait for each other.
 */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first rank's id, for all ranks of the group. The number counts on every rank alike. */
static enum lk_status share_id(struct lk_nccl *n, const struct lk_rank_group *g, ncclUniqueId *id)
{
    uint64_t number = n->store ? lk_store_next_id(n->store) : 0;
    void *got = NULL;
    enum lk_status st = LK_OK;
    size_t bytes = 0;
    char key[64];

    snprintf(key, sizeof key, "nccl-%" PRIu64 "-%d", number, g->first);
    if (n->base.rank == g->first) {
        LK_TRY(lk_nccl_status(n, n->call->GetUniqueId(id)));
        return n->store ? lk_store_set(n->store, key, id, sizeof *id) : LK_OK;
    }
    LK_TRY(lk_store_get(n->store, key, &got, &bytes));
    if (bytes == sizeof *id)
        memcpy(id, got, sizeof *id);
    else
        st = lk_fail(LK_EPARSE, "rank %d is another build of lockstep", g->first);
out:
    free(got);
    return st;
}

/* A failure on the way breaks the communicator: other ranks wait in this group. */
static enum lk_status make(struct lk_nccl *n, const struct lk_rank_group *g)
{
    struct lk_nccl_group *made = &n->groups[n->n_groups];
    ncclUniqueId id;
    enum lk_status st = LK_OK;

    if (n->n_groups == LK_NCCL_GROUPS_MAX)
        return lk_fail(LK_EUNSUPPORTED, "more than %d kinds of groups of ranks",
                       LK_NCCL_GROUPS_MAX);
    LK_TRY(share_id(n, g, &id));
    made->ranks = *g;
    n->n_groups++;
    LK_TRY(lk_nccl_join(n, &id, (n->base.rank - g->first) / g->stride, g->n, &made->comm));
    lk_log(LK_LOG_COMM, LK_DEBUG, "NCCL: a group of %d ranks from %d, every %d", g->n, g->first,
           g->stride);
out:
    return lk_fail_context(st, "a group of %d ranks from rank %d", g->n, g->first);
}

enum lk_status lk_nccl_group(struct lk_nccl *n, const struct lk_rank_group *g, ncclComm_t *out)
{
    size_t i = 0;

    while (i < n->n_groups && memcmp(&n->groups[i].ranks, g, sizeof *g) != 0)
        i++;
    if (g->n && i == n->n_groups)
        LK_PASS(make(n, g));
    *out = g->n ? n->groups[i].comm : n->comm;
    return LK_OK;
}

static void abort_one(struct lk_nccl *n, ncclComm_t *comm)
{
    if (*comm && n->call->CommAbort(*comm) != ncclSuccess)
        lk_log(LK_LOG_COMM, LK_WARN, "NCCL could not abort a communicator");
    *comm = NULL;
}

void lk_nccl_abort(struct lk_nccl *n)
{
    for (size_t i = 0; i < LK_NCCL_GROUPS_MAX; i++)
        abort_one(n, &n->groups[i].comm);
    abort_one(n, &n->comm);
}

#endif
