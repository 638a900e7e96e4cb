#include "sim/step/overlap.h"

#include "sim/collective/coll_points.h"
#include "sim/collective/links.h"
#include "sim/prior.h"
#include "sim/step/step.h"

#include <math.h>

static bool is_gpu(const struct lk_cluster *c)
{
    return c->device.compute_capability > 0 || (c->topology.gpu_link != LK_GPU_LINK_UNKNOWN &&
                                                c->topology.gpu_link != LK_GPU_LINK_SHARED_MEMORY);
}

static double assumed_delta(const struct lk_cluster *c)
{
    return is_gpu(c) ? lk_prior_value(LK_PRIOR_OVERLAP_DELTA) : 0;
}

/* Collectives take from compute for as long as they run: a slower network holds the
 * links of a node for longer, and so must not slow compute less. */
static double assumed_gamma(const struct lk_cluster *c)
{
    enum lk_gpu_link link = c->topology.gpu_link;
    bool fast = link == LK_GPU_LINK_NVSWITCH || link == LK_GPU_LINK_NVLINK ||
                link == LK_GPU_LINK_INFINITY_FABRIC;

    if (!is_gpu(c))
        return 0;
    return lk_prior_value(fast ? LK_PRIOR_OVERLAP_LINKS : LK_PRIOR_OVERLAP_NETWORK);
}

static double assumed_start(const struct lk_cluster *c)
{
    return is_gpu(c) ? lk_prior_value(LK_PRIOR_START) : 0;
}

/* Return a draw of a measured quantity, which is at least 0. */
static double draw_measured(const struct lk_quantity *q, double z)
{
    double sd = (q->hi - q->lo) / 2 / LK_Z90;

    return fmax(0, q->value + (isfinite(sd) ? sd * z : 0));
}

struct lk_overlap lk_overlap_of(const struct lk_cluster *c)
{
    bool gamma = lk_quantity_known(&c->gamma_wire), delta = lk_quantity_known(&c->delta);
    bool start = lk_quantity_known(&c->start_s);

    return (struct lk_overlap){.gamma_wait =
                                   lk_quantity_known(&c->gamma_wait) ? c->gamma_wait.value : 0,
                               .gamma_wire = gamma ? c->gamma_wire.value : assumed_gamma(c),
                               .delta = delta ? c->delta.value : assumed_delta(c),
                               .assumed = !gamma || !delta,
                               .start_s = start ? c->start_s.value : assumed_start(c),
                               .start_assumed = !start && is_gpu(c)};
}

struct lk_overlap lk_overlap_draw(const struct lk_cluster *c, double z_gamma, double z_delta)
{
    struct lk_overlap o = lk_overlap_of(c);

    o.gamma_wire = lk_quantity_known(&c->gamma_wire)
                       ? draw_measured(&c->gamma_wire, z_gamma)
                       : lk_prior_half_normal(assumed_gamma(c), z_gamma);
    o.delta = lk_quantity_known(&c->delta) ? draw_measured(&c->delta, z_delta)
                                           : lk_prior_half_normal(assumed_delta(c), z_delta);
    o.gamma_wire = fmin(o.gamma_wire, LK_STEP_SLOW_MAX); /* as far as an interval's ends may lie */
    o.delta = fmin(o.delta, LK_STEP_SLOW_MAX);
    return o;
}

double lk_overlap_draw_start(const struct lk_cluster *c, double z)
{
    return lk_quantity_known(&c->start_s) ? draw_measured(&c->start_s, z)
                                          : lk_prior_within(assumed_start(c), z);
}
