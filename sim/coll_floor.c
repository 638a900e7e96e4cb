/* What links allow. */
#include "sim/coll_floor.h"

#include "sim/nccl_graph.h"

#include <math.h>

static double rate_of(const struct lk_quantity *q, bool best)
{
    if (!lk_quantity_known(q))
        return 0;
    return best && q->hi > q->value ? q->hi : q->value;
}

struct lk_coll_lines lk_coll_lines_of(const struct lk_cluster *c, bool best)
{
    const struct lk_cluster_topology *t = &c->topology;

    return (struct lk_coll_lines){
        .gpu_Bps = rate_of(&c->intra.bandwidth_Bps, best),
        .nics_Bps =
            rate_of(&c->inter.bandwidth_Bps, best) * (t->nics_per_node > 1 ? t->nics_per_node : 1),
        .gpus_per_node = c->gpus_per_node,
        .nvlink_domain = t->nvlink_domain,
        .nvls = lk_nccl_has_nvls(t, c->device.compute_capability),
        .sharp = t->sharp > 0,
    };
}

/* Bytes out of each of n parts. */
static double bytes_out(enum lk_coll coll, double bytes, int n, double in_switch)
{
    double out = lk_coll_wire_bytes(coll, bytes, n);

    return coll == LK_ALL_REDUCE && in_switch > 0 ? fmin(out, in_switch * bytes) : out;
}

double lk_coll_floor_s(const struct lk_coll_lines *l, enum lk_coll coll, double bytes, int ranks,
                       int nodes)
{
    double rate = l->gpu_Bps, nics = l->nics_Bps, out;

    nodes = lk_nccl_nodes(l->nvlink_domain, ranks, nodes);
    if (ranks < 2)
        return 0;
    if (nodes > 1) {
        int domain = l->gpus_per_node > 0 ? ranks / nodes / l->gpus_per_node : 1;

        /* A domain over several nodes has all their links. */
        if (domain > 1)
            nics *= domain;
        rate = nics;
        out = bytes_out(coll, bytes, nodes, l->sharp);
    } else {
        out = bytes_out(coll, bytes, ranks, l->nvls ? 1 + 1.0 / ranks : 0);
    }
    return rate > 0 ? out / rate : 0;
}
