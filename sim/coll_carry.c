/* How wrong it may be to carry a measured time to another rank count. */
#include "sim/coll_carry.h"

#include "sim/coll_fit.h"
#include "sim/prior.h"

#include <math.h>

/* Slope of the points about i in logarithms: the bytes' share of the time, 0 to 1. */
static double bytes_share(const struct lk_coll_set *s, size_t i)
{
    size_t a = i ? i - 1 : 0, b = i + 1 < s->n ? i + 1 : i;

    if (a == b)
        return 1;
    return fmin(1, fmax(0, log(s->seconds[b] / s->seconds[a]) / log(s->bytes[b] / s->bytes[a])));
}

static double wire(const struct lk_coll_shape *s)
{
    return s->wire_bytes + s->phase_bytes[LK_LINK_INTRA] + s->phase_bytes[LK_LINK_INTER];
}

double lk_coll_carry_error(const struct lk_coll_set *from, size_t i, struct lk_coll_place at,
                           double ratio)
{
    struct lk_coll_shape there, here;
    double share = bytes_share(from, i), bytes = from->bytes[i], by_slope, hops;

    if (!lk_coll_shape(from->at.coll, from->at.algo, bytes, from->at.ranks, from->at.nodes,
                       &there) ||
        !lk_coll_shape(at.coll, at.algo, bytes, at.ranks, at.nodes, &here))
        return NAN;
    hops = there.hops_intra + there.hops_inter;
    if (!(hops > 0) || !(wire(&there) > 0))
        return NAN;
    by_slope = share * wire(&here) / wire(&there) +
               (1 - share) * (here.hops_intra + here.hops_inter) / hops;
    return hypot(lk_prior_value(LK_PRIOR_CARRY_ERROR),
                 log(by_slope / ratio) / log2((double)at.ranks / from->at.ranks));
}
