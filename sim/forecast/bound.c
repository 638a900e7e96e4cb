/* The bound of a step: the step model of one rank, the slowest, at the least durations. */
#include "sim/forecast/bound.h"

#include "base/array.h"
#include "sim/collective/links.h"
#include "sim/step/closed_form.h"

#include <math.h>
#include <stdlib.h>

enum {
    STEPS = 2,         /* nothing is random, and a steady state is reached in the warm-up */
    STEPS_LOADER = 10, /* a loader's queue takes so many to settle */
};

/* Return the slowest rank's compute over a typical rank's. */
static double slowest_known(const struct lk_step_model *s)
{
    int per_node = (s->ranks + s->nodes - 1) / s->nodes;
    double most = s->rank_slowness ? -INFINITY : 0;

    for (int i = 0; s->rank_slowness && i < s->ranks; i++) {
        double own = s->rank_slowness[i], node = s->node_slowness[i / per_node];

        most = fmax(most, !isnan(own) ? own : !isnan(node) ? node : 0);
    }
    return 1 + most;
}

/* Set each collective to the least time of its bytes, or to its modelled cost where that is less:
 * a measured point may be faster than the rate that the cluster file gives. */
static void set_colls(const struct lk_config_model *m, const struct lk_step_coll *at,
                      const struct lk_cluster *c, struct lk_step_coll *out)
{
    struct lk_link_rates rates = lk_link_rates_of(c, true);
    double slow_link = fmax(1, lk_slow_link_largest(c, m->step.nodes, false));

    for (size_t k = 0; k < m->step.n_colls; k++) {
        size_t i = m->order[k];
        const struct lk_volume_coll *v = &m->volume.colls[i];
        double least =
            lk_link_bound_s(&rates, at[i].coll, (double)m->bytes[k], v->ranks, v->nodes) /
            v->period;

        out[i] = at[i];
        out[i].behind = 0;
        out[i].cost_s = fmin(m->colls[i].cost_s, least * (v->nodes > 1 ? slow_link : 1));
    }
}

enum lk_status lk_step_bound(const struct lk_config_model *m, const struct lk_step_model *step,
                             const struct lk_cluster *c, double compute, double *out_s)
{
    enum lk_status st = LK_OK;
    struct lk_step_model least = *step;
    struct lk_step_coll *colls = NULL;
    struct lk_sim_request q = {.steps = step->load_s > 0 ? STEPS_LOADER : STEPS, .seed = 1};
    struct lk_sim_result r;

    LK_TRY(lk_alloc(&colls, m->step.n_colls, sizeof *colls));
    set_colls(m, step->colls, c, colls);
    least.ranks = least.nodes = 1;
    least.forward_s *= compute * slowest_known(step);
    least.backward_s *= compute * slowest_known(step);
    least.gamma_wait = least.gamma_wire = least.delta = least.kappa = 0;
    least.law = (struct lk_straggler_law){0};
    least.rank_slowness = least.node_slowness = least.node_link = NULL;
    least.colls = colls;
    least.n_colls = m->step.n_colls;
    LK_TRY(lk_closed_form_run(&least, &q, &r));
    *out_s = r.mean_s;
    lk_sim_result_fini(&r);
out:
    free(colls);
    return st;
}
