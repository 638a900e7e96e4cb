/* Predictions, and the terms that they assume. */
#include "sim/forecast/evidence.h"

#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void lk_prediction_init(struct lk_prediction *p, const struct lk_config *c)
{
    *p = (struct lk_prediction){.config = *c,
                                .measured_s = NAN,
                                .measured_lo_s = NAN,
                                .measured_hi_s = NAN,
                                .batch_extrapolation = 1,
                                .anchor_factor = 1};
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        p->losses_s[i] = NAN;
}

bool lk_prediction_gain_unproven(const struct lk_prediction *p)
{
    return p->assumed.shard;
}

void lk_prediction_raise(struct lk_prediction *p)
{
    double factor = fmax(1, p->bound_s / p->step_s);

    p->step_s = fmax(p->step_s * factor, p->bound_s); /* rounded, a product may be below it */
    p->lo_s = fmax(p->lo_s * factor, p->bound_s);
    p->hi_s = fmax(p->hi_s * factor, p->step_s);
    if (factor > 1)
        lk_losses_close(p->losses_s, p->step_s);
    for (size_t i = 0; i < p->n_draws; i++)
        p->draws_s[i] = fmax(p->draws_s[i] * factor, p->bound_s);
}

void lk_assumed_terms_add(struct lk_assumed_terms *u, const struct lk_prediction *p)
{
    u->fixed_sd = fmax(u->fixed_sd, p->assumed.fixed_sd);
    u->misfit |= p->assumed.misfit;
    u->hook |= p->assumed.hook;
    u->shard |= p->assumed.shard;
}

void lk_prediction_fini(struct lk_prediction *p)
{
    free(p->draws_s);
    memset(p, 0, sizeof *p);
}

enum lk_status lk_assumed_terms_note(const struct lk_assumed_terms *u, struct lk_forecast *f)
{
    enum lk_prior fixed = u->fixed_sd < lk_prior_value(LK_PRIOR_FIXED_SHARE) ? LK_PRIOR_FIXED_REST
                                                                             : LK_PRIOR_FIXED_SHARE;

    if (u->fixed_sd > 0)
        LK_PASS(
            lk_forecast_assume(f, "steps of several micro-batches",
                               "no run had these accumulations: what a step takes once is known "
                               "to %.0f %% of a micro-batch (%s)",
                               100 * u->fixed_sd, lk_prior_source(fixed)));
    if (u->misfit)
        LK_PASS(lk_forecast_assume(f, "where the runs' time beyond the model went",
                                   "any share of it may be communication, half of it by the "
                                   "estimate; a run of 1 GPU, or traces of these, would tell"));
    if (u->hook)
        LK_PASS(lk_forecast_assume(f, "what a compression computes",
                                   "known to a factor of two: no run had one"));
    if (!u->shard)
        return LK_OK;
    LK_PASS(lk_forecast_assume(f, "the order of a sharded step's collectives",
                               "their time is known to %.0f %%: no run was sharded",
                               100 * lk_prior_value(LK_PRIOR_SHARD_ERROR)));
    LK_PASS(lk_forecast_assume(f, "what the host takes for a sharded tensor",
                               "%.0f us to gather or scatter it, within %.0f times (%s)",
                               1e6 * lk_prior_value(LK_PRIOR_TENSOR),
                               lk_prior_value(LK_PRIOR_LAUNCH_RANGE),
                               lk_prior_source(LK_PRIOR_TENSOR)));
    return lk_forecast_warn(f,
                            "No sharding is named the best where plain DDP fits in memory: no run "
                            "of the job was sharded, and on real GPUs plain DDP can be faster "
                            "by factors.");
}
