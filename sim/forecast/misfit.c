/* This file splits what runs take beyond the model, and puts it into other configurations. */
#include "sim/forecast/misfit.h"

#include "facts/loss.h"

#include <math.h>
#include <stddef.h>

const struct lk_misfit lk_misfit_none = {.own = 1, .whole = 1};

struct lk_meeting lk_meeting_of(const struct lk_config_model *m, const struct lk_config *c)
{
    struct lk_meeting all = {.between_nodes = c->nodes > 1};
    double step_bytes = 0;

    for (size_t i = 0; i < m->step.n_colls && lk_config_replicas(c) > 1; i++) {
        double bytes = (double)m->colls[i].bytes;

        all.cost_s += m->colls[i].cost_s;
        all.bytes += bytes;
        step_bytes += (m->colls[i].every_micro_batch ? c->accumulation : 1) * bytes;
    }
    all.times = all.bytes > 0 ? step_bytes / all.bytes : 0;
    return all;
}

struct lk_misfit_carry lk_misfit_carry(const struct lk_meeting *from, const struct lk_meeting *to)
{
    struct lk_misfit_carry carry = {0};

    if (!(from->times > 0))
        return carry;
    carry.wait = to->times / from->times;
    if (to->between_nodes == from->between_nodes && from->cost_s > 0)
        carry.exposed = carry.wait * to->cost_s / from->cost_s;
    else
        carry.exposed = carry.wait * to->bytes / from->bytes;
    carry.beside = fmin(1, carry.exposed);
    return carry;
}

double lk_misfit_exposed(double quantile)
{
    return pow(sin(M_PI_2 * quantile), 2);
}

struct lk_misfit_seen lk_misfit_seen(const double *losses_s, const double *modelled_s,
                                     bool own_known)
{
    double step_s = 0;

    if (!losses_s)
        return (struct lk_misfit_seen){.by = own_known ? LK_MISFIT_COMMUNICATES : LK_MISFIT_UNSEEN,
                                       .exposed = lk_misfit_exposed(0.5)};
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        step_s += losses_s[i];
    return (struct lk_misfit_seen){
        .by = LK_MISFIT_SPLIT,
        .exposed = (losses_s[LK_LOSS_WIRE] + losses_s[LK_LOSS_LAUNCH] + losses_s[LK_LOSS_OVERLAP]) /
                   step_s,
        .rest = losses_s[LK_LOSS_REST] / step_s,
        .slow_s = fmax(0, losses_s[LK_LOSS_SLOW_RANK] - modelled_s[LK_LOSS_SLOW_RANK]),
        .wait_s = losses_s[LK_LOSS_STRAGGLER] - modelled_s[LK_LOSS_STRAGGLER],
        .optimizer_s = losses_s[LK_LOSS_OPTIMIZER] - modelled_s[LK_LOSS_OPTIMIZER]};
}

/* Return the own work of a measured step whose losses are known. */
static double own_of(const struct lk_misfit_seen *seen, double measured_s)
{
    return measured_s * (1 - seen->rest) - measured_s * seen->exposed - seen->wait_s -
           seen->optimizer_s;
}

double lk_misfit_beside(const struct lk_misfit_seen *seen, double measured_s,
                        const struct lk_step_parts *modelled)
{
    if (seen->by != LK_MISFIT_SPLIT)
        return 0;
    return fmax(0, own_of(seen, measured_s) - modelled->own_s - seen->slow_s) / modelled->own_s;
}

struct lk_misfit lk_misfit_of(const struct lk_misfit_seen *seen, double measured_s,
                              const struct lk_step_parts *modelled)
{
    struct lk_misfit m = lk_misfit_none;
    double explained_s = measured_s * (1 - seen->rest);
    double own_s = own_of(seen, measured_s);

    if (seen->by == LK_MISFIT_SPLIT && own_s > 0) {
        m.own = own_s / modelled->own_s;
        m.exposed_s = measured_s * seen->exposed - modelled->exposed_s;
        m.wait_s = seen->wait_s;
        m.optimizer_s = seen->optimizer_s;
        m.whole = measured_s / explained_s;
    } else if (seen->by == LK_MISFIT_COMMUNICATES && measured_s >= modelled->own_s) {
        m.exposed_s = measured_s - modelled->own_s - modelled->exposed_s;
    } else {
        double modelled_s = modelled->own_s + modelled->exposed_s;

        if (seen->by == LK_MISFIT_UNSEEN) {
            double more_s = seen->exposed * (measured_s - modelled_s);

            m.exposed_s = fmax(-modelled->exposed_s, more_s * modelled_s / (measured_s - more_s));
        }
        m.whole = measured_s / (modelled_s + m.exposed_s);
    }
    return m;
}

struct lk_misfit lk_misfit_share(const struct lk_misfit *m, double share)
{
    return (struct lk_misfit){.own = 1 + share * (m->own - 1),
                              .exposed_s = share * m->exposed_s,
                              .wait_s = share * m->wait_s,
                              .optimizer_s = share * m->optimizer_s,
                              .beside = m->beside,
                              .whole = 1 + share * (m->whole - 1)};
}

double lk_misfit_step(const struct lk_misfit *m, const struct lk_misfit_carry *carry,
                      const struct lk_step_parts *modelled)
{
    double own_s = m->own * modelled->own_s + carry->wait * m->wait_s;
    double exposed_s = modelled->exposed_s + carry->exposed * m->exposed_s;

    return m->whole *
           (own_s + (exposed_s > 0 ? exposed_s : 0) + (carry->wait > 0 ? m->optimizer_s : 0));
}

double lk_misfit_shared(const struct lk_misfit *m, const struct lk_misfit_carry *carry,
                        double shared_s)
{
    return (shared_s + fmax(0, m->exposed_s) * carry->exposed) * m->whole;
}
