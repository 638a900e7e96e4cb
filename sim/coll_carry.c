/* A ring's measured time at one rank count, carried to another. */
#include "sim/coll_carry.h"

#include "sim/prior.h"

#include <math.h>

/* What the two ways differ by is twice the distance to the middle, and either may be right. */
static const double DIFFERENCE_SHARE = 0.5;

double lk_coll_carry_s(const struct lk_coll_set *from, size_t i, struct lk_coll_place at,
                       const struct lk_coll_model *model, double *out_error)
{
    double bytes = from->bytes[i], ratio = (double)at.ranks / from->at.ranks;
    double chunk_bytes = fmax(1, bytes / ratio);
    double here = lk_coll_model_at(model, at, bytes).seconds;
    double by_chunk = lk_curve_at(&from->curve, chunk_bytes) * here /
                      lk_coll_model_at(model, from->at, chunk_bytes).seconds;
    double by_bytes = from->seconds[i] * here / lk_coll_model_at(model, from->at, bytes).seconds;

    *out_error = hypot(lk_prior_value(LK_PRIOR_CARRY_ERROR),
                       DIFFERENCE_SHARE * log(by_chunk / by_bytes) / log2(ratio));
    return by_chunk;
}
