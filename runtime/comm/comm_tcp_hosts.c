/* Ranks find out which of them share a host, and all-reduce by rings inside hosts and between them;
 * see comm_tcp.h. */
#include "base/array.h"
#include "runtime/comm/comm_tcp.h"

#include <stdlib.h>

/* Gather every rank's host, by a ring. */
static enum lk_status gather_hosts(struct lk_tcp *t, uint64_t *hosts)
{
    const struct lk_tcp_parts p = {.ring = lk_tcp_everyone(t),
                                   .buf = (unsigned char *)hosts,
                                   .dtype = LK_I64,
                                   .elems = (size_t)t->base.world_size,
                                   .steps = t->base.world_size - 1};

    hosts[t->base.rank] = t->host;
    return lk_tcp_ring(t, &p);
}

/* Write into `out` the ranks that are on rank `of`'s host; return their number. */
static int ranks_beside(const uint64_t *hosts, int world, int of, int *out)
{
    int n = 0;

    for (int r = 0; r < world; r++)
        if (hosts[r] == hosts[of])
            out[n++] = r;
    return n;
}

/* Write the rings: of this rank's host, and of the ranks at this rank's place in each host, by the
 * first rank of each. */
static enum lk_status fill_rings(struct lk_tcp *t, const uint64_t *hosts, int *near, int *across,
                                 int *beside)
{
    int world = t->base.world_size;

    t->n_near = ranks_beside(hosts, world, t->base.rank, near);
    while (near[t->at_near] != t->base.rank)
        t->at_near++;
    for (int r = 0; r < world; r++) {
        int n = ranks_beside(hosts, world, r, beside);

        if (n != t->n_near)
            return lk_fail(LK_EUSAGE,
                           "algorithm hierarchical: rank %d's host has %d of the ranks, rank %d's "
                           "has %d; it needs as many on each",
                           t->base.rank, t->n_near, r, n);
        if (beside[0] != r) /* its host was met */
            continue;
        if (hosts[r] == t->host)
            t->at_across = t->n_across;
        across[t->n_across++] = beside[t->at_near];
    }
    return LK_OK;
}

enum lk_status lk_tcp_hosts(struct lk_tcp *t, struct lk_tcp_members *near,
                            struct lk_tcp_members *across)
{
    size_t world = (size_t)t->base.world_size;
    enum lk_status st = LK_OK;
    uint64_t *hosts = NULL;
    int *rings = NULL;

    if (!t->rings) {
        LK_TRY(lk_alloc(&hosts, world, sizeof *hosts));
        LK_TRY(lk_alloc(&rings, 3 * world, sizeof *rings));
        LK_TRY(gather_hosts(t, hosts));
        LK_TRY(fill_rings(t, hosts, rings, rings + world, rings + 2 * world));
        t->rings = rings;
        rings = NULL;
    }
    *near = (struct lk_tcp_members){.ranks = t->rings, .n = t->n_near, .at = t->at_near};
    *across =
        (struct lk_tcp_members){.ranks = t->rings + world, .n = t->n_across, .at = t->at_across};
out:
    free(rings);
    free(hosts);
    return st;
}

/* A part is summed along one path in each phase and then copied: results are bit-identical. */
enum lk_status lk_tcp_hierarchical(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                                   size_t elems)
{
    struct lk_tcp_parts inside = {.buf = buf, .dtype = dtype, .elems = elems};
    struct lk_tcp_parts between = {.dtype = dtype};
    size_t from;

    LK_PASS(lk_tcp_hosts(t, &inside.ring, &between.ring));
    lk_tcp_share(elems, inside.ring.n, inside.ring.at, &from, &between.elems);
    if (inside.ring.n > 1) {
        inside.steps = inside.adds = inside.ring.n - 1;
        inside.first = -1; /* each rank completes its own part */
        LK_PASS(lk_tcp_ring(t, &inside));
    }
    if (between.ring.n > 1 && between.elems) {
        between.buf = buf + from * lk_dtype_bytes(dtype);
        between.adds = between.ring.n - 1;
        between.steps = 2 * between.adds;
        lk_tcp_read_hop(t, &between.ring);
        LK_PASS(lk_tcp_ring(t, &between));
    }
    if (inside.ring.n > 1) {
        inside.adds = inside.first = 0;
        LK_PASS(lk_tcp_ring(t, &inside));
    }
    return LK_OK;
}
