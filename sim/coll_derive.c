/* Collectives from an all-reduce. */
#include "sim/coll_derive.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

/* sd of the logarithm where all is bytes, and what is added where none is. */
static const double BYTES_SD = 0.12, LAUNCH_SD = 0.3;

static const enum lk_coll given[] = {LK_REDUCE_SCATTER, LK_ALL_GATHER, LK_BROADCAST};

bool lk_coll_is_derived(const struct lk_cluster *c, enum lk_coll coll)
{
    bool is = false;

    for (size_t i = 0; i < LK_COUNT(given); i++)
        is |= given[i] == coll;
    for (size_t i = 0; is && i < c->n_points; i++)
        is = c->points[i].coll != coll;
    for (size_t i = 0; is && i < c->n_fits; i++)
        is = c->fits[i].coll != coll;
    return is;
}

/* Slope about point i in logarithms: the bytes' share of its time. */
static double bytes_share(const struct lk_coll_set *s, size_t i)
{
    size_t a = i ? i - 1 : 0, b = i + 1 < s->n ? i + 1 : i;

    if (a == b)
        return 0;
    return fmin(1, fmax(0, log(s->seconds[b] / s->seconds[a]) / log(s->bytes[b] / s->bytes[a])));
}

static enum lk_status derive(const struct lk_coll_model *m, const struct lk_coll_set *from,
                             enum lk_coll coll, struct lk_coll_sets *sets)
{
    enum lk_status st = LK_OK;
    struct lk_coll_place at = from->at;
    double *seconds = NULL, *sd = NULL;

    at.coll = coll;
    if (isnan(lk_coll_model_at(m, at, 1).seconds) ||
        isnan(lk_coll_model_at(m, from->at, 1).seconds))
        return LK_OK;
    LK_TRY(lk_alloc(&seconds, from->n, sizeof *seconds));
    LK_TRY(lk_alloc(&sd, from->n, sizeof *sd));
    for (size_t i = 0; i < from->n; i++) {
        double bytes = from->bytes[i], more = BYTES_SD + LAUNCH_SD * (1 - bytes_share(from, i));

        seconds[i] = fmax(from->seconds[i] * lk_coll_model_at(m, at, bytes).seconds /
                              lk_coll_model_at(m, from->at, bytes).seconds,
                          lk_coll_model_floor_s(m, at, bytes, false));
        seconds[i] *= exp(lk_coll_model_shift(m) * more);
        sd[i] = hypot(from->sd[i], more);
    }
    LK_TRY(lk_coll_sets_add(sets, at, from->bytes, seconds, sd, from->n));
out:
    free(seconds);
    free(sd);
    return st;
}

enum lk_status lk_coll_derive(const struct lk_cluster *c, const struct lk_coll_model *m,
                              struct lk_coll_sets *sets)
{
    enum lk_status st = LK_OK;
    size_t measured = sets->n;

    for (size_t k = 0; k < LK_COUNT(given); k++)
        for (size_t i = 0; i < measured && lk_coll_is_derived(c, given[k]); i++) {
            struct lk_coll_place at = sets->list[i].at;

            if (at.coll == LK_ALL_REDUCE && at.ranks > 1 && !lk_coll_model_by_nccl(m, at))
                LK_TRY(derive(m, &sets->list[i], given[k], sets));
        }
out:
    return st;
}
