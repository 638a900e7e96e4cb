/* What the event engine and the closed form share: the model in ns, draws, sums. */
#include "sim/step.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* Products of work and slowdowns under these stay within 64 bits: 18 minutes, and 16. */
static const uint64_t NARROW_WORK = 1ULL << 40;
static const uint64_t NARROW_SLOW = 16ULL << LK_SLOW_BITS;
static const double SLOW_MAX = 1000;

/* A rank's draws cannot make it more than this much faster: compute takes time. */
static const double FASTEST = 0.05;

uint64_t lk_slow_time_ns(uint64_t work_ns, uint64_t slow)
{
    if (slow == LK_SLOW_ONE)
        return work_ns;
    if (work_ns < NARROW_WORK && slow < NARROW_SLOW)
        return (work_ns * slow + LK_SLOW_ONE - 1) >> LK_SLOW_BITS;
    return (uint64_t)(((wide)work_ns * slow + LK_SLOW_ONE - 1) >> LK_SLOW_BITS);
}

uint64_t lk_slow_work_ns(uint64_t elapsed_ns, uint64_t slow)
{
    if (slow == LK_SLOW_ONE)
        return elapsed_ns;
    if (elapsed_ns < NARROW_WORK)
        return (elapsed_ns << LK_SLOW_BITS) / slow;
    return (uint64_t)(((wide)elapsed_ns << LK_SLOW_BITS) / slow);
}

uint64_t lk_step_share_ns(uint64_t backward_ns, double share)
{
    uint64_t ns = (uint64_t)((double)backward_ns * share + 0.5);

    return ns < backward_ns ? ns : backward_ns;
}

static uint64_t slow_from(double g)
{
    return (uint64_t)llround((1 + g) * LK_SLOW_ONE);
}

static enum lk_status check_range(const char *name, double v, double max)
{
    if (v >= 0 && v <= max)
        return LK_OK;
    return lk_fail(LK_EUSAGE, "step model: %s is %g, expected 0 to %g", name, v, max);
}

static enum lk_status check(const struct lk_step_model *m)
{
    enum lk_status st = LK_OK;
    static const double DURATION_MAX = 1e6; /* s */
    static const double SD_MAX = 10;        /* a machine shared with others has shown over 1 */
    const struct {
        const char *name;
        double value, max;
    } rows[] = {
        {"forward time",    m->forward_s,        DURATION_MAX},
        {"backward time",   m->backward_s,       DURATION_MAX},
        {"optimizer time",  m->optimizer_s,      DURATION_MAX},
        {"host gap",        m->gap_s,            DURATION_MAX},
        {"input wait",      m->input_s,          DURATION_MAX},
        {"input load time", m->load_s,           DURATION_MAX},
        {"gamma_wait",      m->gamma_wait,       SLOW_MAX    },
        {"gamma_wire",      m->gamma_wire,       SLOW_MAX    },
        {"delta",           m->delta,            SLOW_MAX    },
        {"kappa",           m->kappa,            1e3         },
        {"rank sd",         m->law.rank_sd,      SD_MAX      },
        {"node sd",         m->law.node_sd,      SD_MAX      },
        {"transient sd",    m->law.transient_sd, SD_MAX      },
        {"common sd",       m->law.common_sd,    SD_MAX      },
    };

    if (m->ranks < 1 || m->nodes < 1 || m->nodes > m->ranks || m->accumulation < 1 ||
        m->prefetch_depth < 0)
        return lk_fail(LK_EUSAGE,
                       "step model: %d ranks on %d nodes, accumulation %d, prefetch depth %d",
                       m->ranks, m->nodes, m->accumulation, m->prefetch_depth);
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        LK_TRY(check_range(rows[i].name, rows[i].value, rows[i].max));
    for (size_t k = 0; k < m->n_buckets; k++) {
        LK_TRY(check_range("a bucket's ready share", m->buckets[k].ready, 1));
        LK_TRY(check_range("a bucket's cost", m->buckets[k].cost_s, DURATION_MAX));
    }
out:
    return st;
}

/*
 * An effect of mean 0 and this sd, from a normal number: a lognormal factor less 1. A disturbed
 * micro-batch takes longer, never less than nothing, and disturbances of several times its length
 * do happen; for a small sd this is the normal distribution.
 */
static double skewed(double sd, double z)
{
    double variance = log1p(sd * sd);

    return expm1(sqrt(variance) * z - variance / 2);
}

/* The i-th normal number of a stream: draws need no state, so their order does not matter. */
static double normal_at(uint64_t seed, const char *purpose, uint64_t index, uint64_t i)
{
    struct lk_rng g = lk_rng_init(seed, lk_rng_stream(purpose, index));

    g.next = 2 * i;
    return lk_rng_normal(&g);
}

enum lk_status lk_step_plan_init(struct lk_step_plan *p, const struct lk_step_model *m,
                                 uint64_t seed)
{
    enum lk_status st = LK_OK;
    int per_node = m->nodes > 0 ? (m->ranks + m->nodes - 1) / m->nodes : 1;

    *p = (struct lk_step_plan){.model = m, .seed = seed};
    LK_TRY(check(m));
    p->optimizer_ns = lk_ns_from_s(m->optimizer_s * (1 + m->kappa));
    p->gap_ns = lk_ns_from_s(m->gap_s);
    p->input_ns = lk_ns_from_s(m->input_s);
    p->load_ns = lk_ns_from_s(m->load_s);
    p->slow_wait = slow_from(m->gamma_wait);
    p->slow_wire = slow_from(m->gamma_wire);
    p->slow_delta = slow_from(m->delta);
    p->random = m->law.transient_sd > 0 || m->law.common_sd > 0;
    LK_TRY(lk_alloc(&p->cost_ns, m->n_buckets, sizeof *p->cost_ns));
    LK_TRY(lk_alloc(&p->ready, m->n_buckets, sizeof *p->ready));
    LK_TRY(lk_alloc(&p->rank_effect, (size_t)m->ranks, sizeof *p->rank_effect));
    for (size_t k = 0; k < m->n_buckets; k++) {
        p->cost_ns[k] = lk_ns_from_s(m->buckets[k].cost_s);
        p->ready[k] = m->buckets[k].ready;
    }
    for (int r = 0; r < m->ranks; r++) {
        double e = m->rank_slowness ? m->rank_slowness[r] : 0;

        if (m->law.rank_sd > 0)
            e += m->law.rank_sd * normal_at(seed, "straggler.rank", (uint64_t)r, 0);
        if (m->law.node_sd > 0)
            e += m->law.node_sd * normal_at(seed, "straggler.node", (uint64_t)(r / per_node), 0);
        p->rank_effect[r] = e;
    }
out:
    if (st != LK_OK)
        lk_step_plan_fini(p);
    return st;
}

void lk_step_plan_fini(struct lk_step_plan *p)
{
    free(p->cost_ns);
    free(p->ready);
    free(p->rank_effect);
    memset(p, 0, sizeof *p);
}

struct lk_step_compute lk_step_plan_compute(const struct lk_step_plan *p, int rank,
                                            uint64_t micro_batch)
{
    const struct lk_step_model *m = p->model;
    double factor = 1 + p->rank_effect[rank];
    struct lk_step_compute c;
    uint64_t plain_ns;

    if (p->random) {
        if (m->law.transient_sd > 0)
            factor += skewed(m->law.transient_sd, normal_at(p->seed, "straggler.transient",
                                                            (uint64_t)rank, micro_batch));
        if (m->law.common_sd > 0)
            factor +=
                skewed(m->law.common_sd, normal_at(p->seed, "straggler.common", 0, micro_batch));
    }
    factor = fmax(factor, FASTEST);
    plain_ns = lk_ns_from_s(m->forward_s * factor) + lk_ns_from_s(m->backward_s * factor);
    c.forward_ns = lk_ns_from_s(m->forward_s * factor * (1 + m->kappa));
    c.backward_ns = lk_ns_from_s(m->backward_s * factor * (1 + m->kappa));
    c.kappa_ns = c.forward_ns + c.backward_ns - plain_ns;
    return c;
}

uint64_t lk_step_input_ns(const struct lk_step_plan *p, struct lk_step_loader *l, uint64_t i,
                          uint64_t now_ns)
{
    uint64_t depth = (uint64_t)p->model->prefetch_depth, at = now_ns + p->input_ns;

    if (!depth)
        return at + p->load_ns;
    if (!p->load_ns)
        return at;
    if (i >= depth && l->taken_ns[i % depth] > l->done_ns)
        l->done_ns = l->taken_ns[i % depth];
    l->done_ns += p->load_ns;
    if (l->done_ns > at)
        at = l->done_ns;
    l->taken_ns[i % depth] = at;
    return at;
}

void lk_step_finish(const struct lk_step_plan *p, const struct lk_step_sums *sums,
                    uint64_t rank_steps, struct lk_sim_result *out)
{
    const struct lk_step_model *m = p->model;
    double n = (double)rank_steps * 1e9, micro = m->accumulation;
    double compute_s = micro * (m->forward_s + m->backward_s);
    double input_s = micro * (m->input_s + (m->prefetch_depth ? 0 : m->load_s));
    double kappa_s = (double)sums->kappa_ns / n, rest;
    double *loss = out->losses_s;

    out->mean_s = lk_stats_mean(out->step_s, out->n);
    memset(loss, 0, sizeof out->losses_s);
    loss[LK_LOSS_IDEAL] = compute_s + input_s + m->optimizer_s + m->gap_s;
    loss[LK_LOSS_INPUT] = (double)sums->input_ns / n - input_s;
    loss[LK_LOSS_SLOW_RANK] = (double)sums->compute_ns / n - kappa_s - compute_s;
    loss[LK_LOSS_COLOCATION] = kappa_s;
    loss[LK_LOSS_OVERLAP] = (double)sums->overlap_ns / n;
    loss[LK_LOSS_STRAGGLER] = (double)sums->straggler_ns / n;
    loss[LK_LOSS_WIRE] = (double)sums->wire_ns / n;
    loss[LK_LOSS_OPTIMIZER] = m->optimizer_s * m->kappa;
    rest = out->mean_s;
    for (int i = 0; i < LK_LOSS_REST; i++)
        rest -= loss[i];
    loss[LK_LOSS_REST] = rest;
}

void lk_sim_result_fini(struct lk_sim_result *r)
{
    free(r->step_s);
    memset(r, 0, sizeof *r);
}
