/* This file has what engine and closed form share: the model in ns, draws, sums. */
#include "sim/step/step.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/elementary.h"
#include "base/stats.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Draws make a rank at most this much faster, since compute takes time. */
static const double FASTEST = 0.05;
static const double SLOWEST_LINK_LEAST = 0.05; /* the same for links, all of which may be fast */

static uint64_t slow_from(double g)
{
    return (uint64_t)llround((1 + g) * LK_SLOWDOWN_ONE);
}

static enum lk_status check_range(const char *name, double v, double max)
{
    if (v >= 0 && v <= max)
        return LK_OK;
    return lk_fail(LK_EUSAGE, "step model: %s is %g, expected 0 to %g", name, v, max);
}

/* Check that a collective is ready before it is needed; else compute and stream would deadlock. */
static enum lk_status check_colls(const struct lk_step_model *m)
{
    double latest = 0;

    for (size_t k = 0; k < m->n_colls; k++) {
        const struct lk_step_coll *c = &m->colls[k];

        LK_PASS(check_range("a collective's ready position", c->ready, LK_STEP_END));
        LK_PASS(check_range("a collective's need position", c->need, LK_STEP_END + 2));
        LK_PASS(check_range("a collective's cost", c->cost_s, LK_STEP_DURATION_MAX));
        LK_PASS(check_range("a collective's cost behind another", c->behind, LK_STEP_SLOW_MAX));
        latest = fmax(latest, c->ready);
        if (c->need < latest || c->need > c->ready + LK_STEP_END)
            return lk_fail(LK_EUSAGE,
                           "step model: collective %zu is ready at %g and needed at %g, expected "
                           "%g (when all up to it are ready) to %g",
                           k, c->ready, c->need, latest, c->ready + LK_STEP_END);
        if (c->every_micro_batch && c->need > LK_STEP_OPTIMIZER)
            return lk_fail(LK_EUSAGE,
                           "step model: collective %zu is needed at %g, but a micro-batch ends at "
                           "2",
                           k, c->need);
    }
    return LK_OK;
}

static enum lk_status check(const struct lk_step_model *m)
{
    enum lk_status st = LK_OK;
    const struct {
        const char *name;
        double value, max;
    } rows[] = {
        {"forward time", m->forward_s, LK_STEP_DURATION_MAX},
        {"backward time", m->backward_s, LK_STEP_DURATION_MAX},
        {"optimizer time", m->optimizer_s, LK_STEP_DURATION_MAX},
        {"host gap", m->gap_s, LK_STEP_DURATION_MAX},
        {"input wait", m->input_s, LK_STEP_DURATION_MAX},
        {"input load time", m->load_s, LK_STEP_DURATION_MAX},
        {"gamma_wait", m->gamma_wait, LK_STEP_SLOW_MAX},
        {"gamma_wire", m->gamma_wire, LK_STEP_SLOW_MAX},
        {"delta", m->delta, LK_STEP_SLOW_MAX},
        {"kappa", m->kappa, 1e3},
    };

    if (m->ranks < 1 || m->nodes < 1 || m->nodes > m->ranks || m->accumulation < 1 ||
        m->prefetch_depth < 0)
        return lk_fail(LK_EUSAGE,
                       "step model: %d ranks on %d nodes, accumulation %d, prefetch depth %d",
                       m->ranks, m->nodes, m->accumulation, m->prefetch_depth);
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        LK_TRY(check_range(rows[i].name, rows[i].value, rows[i].max));
#define CHECK_(field, text, max, help) LK_TRY(check_range(text, m->law.field, max));
    LK_STRAGGLER_LIST(CHECK_)
#undef CHECK_
    LK_TRY(check_colls(m));
out:
    return st;
}

/*
 * Return an effect of mean 0 from a normal number: a lognormal factor less 1. A disturbed
 * micro-batch takes longer, sometimes several times its length, and never less than nothing; for a
 * small sd this is the normal distribution.
 */
static double skewed(double sigma, double z)
{
    return lk_elementary_exp(sigma * z - sigma * sigma / 2) - 1;
}

/* Return the sigma of a lognormal with mean 1 and this sd. */
static double sigma_from(double sd)
{
    return sqrt(log1p(sd * sd));
}

/*
 * Return the i-th normal number of a stream; draws are stateless, so their order does not matter.
 */
static double normal_at(uint64_t seed, uint64_t stream, uint64_t i)
{
    double z;

    lk_rng_normals(seed, stream, i, &z, 1);
    return z;
}

/* ---- The lists ---- */

/* Sort a list by insertion, which is linear here: most lists are nearly in order. */
static void sort_by_ready(const struct lk_step_model *m, struct lk_step_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        size_t j = i;

        for (; j > 0 && m->colls[l->by_ready[j - 1]].ready > m->colls[l->coll[i]].ready; j--)
            l->by_ready[j] = l->by_ready[j - 1];
        l->by_ready[j] = l->coll[i];
    }
}

static enum lk_status list_init(struct lk_step_list *l, const struct lk_step_model *m, bool last)
{
    LK_PASS(lk_alloc(&l->coll, m->n_colls, sizeof *l->coll));
    LK_PASS(lk_alloc(&l->by_ready, m->n_colls, sizeof *l->by_ready));
    for (size_t k = 0; k < m->n_colls; k++)
        if (last || m->colls[k].every_micro_batch)
            l->coll[l->n++] = k;
    LK_PASS(lk_alloc(&l->block, l->n + 1, sizeof *l->block));
    LK_PASS(lk_alloc(&l->late, l->n + 1, sizeof *l->late));
    l->block[l->n] = l->late[l->n] = INFINITY;
    for (size_t i = l->n; i-- > 0;) {
        const struct lk_step_coll *c = &m->colls[l->coll[i]];

        l->block[i] = fmin(l->block[i + 1], c->late ? INFINITY : c->need);
        l->late[i] = fmin(l->late[i + 1], c->late ? c->need : INFINITY);
    }
    sort_by_ready(m, l);
    return LK_OK;
}

static void list_fini(struct lk_step_list *l)
{
    free(l->coll);
    free(l->block);
    free(l->late);
    free(l->by_ready);
}

bool lk_step_plan_last(const struct lk_step_plan *p, uint64_t micro_batch)
{
    uint64_t micro = (uint64_t)p->model->accumulation;

    return micro == 1 || micro_batch % micro + 1 == micro;
}

/* ---- The plan ---- */

/* Return the excess of a micro-batch that belongs to the tail, less the tail's mean. */
static double tail_effect(const struct lk_step_plan *p, uint64_t draw)
{
    const struct lk_straggler_law *l = &p->model->law;
    struct lk_rng g = {.seed = p->seed, .stream = p->tail_stream, .next = 2 * draw};
    double e;

    if (lk_rng_uniform(&g) >= l->tail_share)
        return -p->tail_mean;
    e = lk_rng_exponential(&g);
    return p->tail_scale * (l->tail_shape > 0 ? expm1(l->tail_shape * e) / l->tail_shape : e) -
           p->tail_mean;
}

/*
 * Return the time of the slowest of the first n nodes' links over that of an average one. With
 * floor 1, a draw never makes costs of equal links smaller.
 */
static double slowest_link(const struct lk_step_plan *p, int n, double floor)
{
    const struct lk_step_model *m = p->model;
    uint64_t stream = lk_rng_stream("straggler.link", 0);
    double worst = floor;

    for (int i = 0; i < n; i++) {
        double known = m->node_link && i < m->nodes ? m->node_link[i] : NAN;

        worst =
            fmax(worst, isnan(known) ? 1 + m->law.link_sd * normal_at(p->seed, stream, (uint64_t)i)
                                     : known);
    }
    return worst;
}

/*
 * Return the factor on the cost of a collective between nodes. The cost already contains known
 * links and, if measured on several nodes, the slowest of their draws.
 */
static double link_factor(const struct lk_step_plan *p)
{
    const struct lk_step_model *m = p->model;
    int contained = m->law.link_nodes;
    double known = 0;

    if (m->nodes < 2 || !(m->law.link_sd > 0))
        return 1;
    for (int i = 0; m->node_link && i < m->nodes; i++)
        known = fmax(known, m->node_link[i]); /* fmax ignores NaN */
    if (contained < 2)
        return slowest_link(p, m->nodes, 1) / fmax(known, 1);
    return fmax(SLOWEST_LINK_LEAST, slowest_link(p, m->nodes, 0)) /
           fmax(SLOWEST_LINK_LEAST, slowest_link(p, contained, known));
}

/* Return the effect that a node's ranks share for the whole run. */
static double node_effect(const struct lk_step_plan *p, int node, uint64_t stream)
{
    const struct lk_step_model *m = p->model;

    if (m->node_slowness && !isnan(m->node_slowness[node]))
        return m->node_slowness[node];
    return m->law.node_sd > 0 ? m->law.node_sd * normal_at(p->seed, stream, (uint64_t)node) : 0;
}

/* Set the effects that last the whole run. A rank has the same draw at every number of ranks. */
static void set_persistent(struct lk_step_plan *p)
{
    const struct lk_step_model *m = p->model;
    int per_node = (m->ranks + m->nodes - 1) / m->nodes;
    uint64_t node_stream = lk_rng_stream("straggler.node", 0);
    double *effect = p->rank_effect, node = 0;

    if (m->law.rank_sd > 0)
        lk_rng_normals(p->seed, lk_rng_stream("straggler.rank", 0), 0, effect, (size_t)m->ranks);
    for (int r = 0; r < m->ranks; r++) {
        if (r % per_node == 0)
            node = node_effect(p, r / per_node, node_stream);
        if (m->rank_slowness && !isnan(m->rank_slowness[r]))
            effect[r] =
                (1 + m->rank_slowness[r]) * (1 + (m->ranks_vary ? m->law.rank_sd * effect[r] : 0)) -
                1;
        else
            effect[r] = node + m->law.rank_sd * effect[r];
    }
}

static enum lk_status loaders_init(struct lk_step_plan *p)
{
    size_t n = (size_t)p->model->ranks, depth = (size_t)p->model->prefetch_depth;

    LK_PASS(lk_alloc(&p->loaders, n, sizeof *p->loaders));
    LK_PASS(lk_alloc(&p->taken_ns, n * depth, sizeof *p->taken_ns));
    for (size_t i = 0; i < n; i++)
        p->loaders[i].taken_ns = p->taken_ns + i * depth;
    return LK_OK;
}

enum lk_status lk_step_plan_init(struct lk_step_plan *p, const struct lk_step_model *m,
                                 const struct lk_sim_request *request)
{
    enum lk_status st = LK_OK;
    double link;

    *p = (struct lk_step_plan){.model = m, .seed = request->seed, .steps = request->steps};
    if (request->steps < 1)
        return lk_fail(LK_EUSAGE, "%d steps to simulate, expected 1 or more", request->steps);
    LK_TRY(check(m));
    link = link_factor(p);
    p->optimizer_ns = lk_ns_from_s(m->optimizer_s * (1 + m->kappa));
    p->gap_ns = lk_ns_from_s(m->gap_s);
    p->input_ns = lk_ns_from_s(m->input_s);
    p->load_ns = lk_ns_from_s(m->load_s);
    p->slowdown_wait = slow_from(m->gamma_wait);
    p->slowdown_wire = slow_from(m->gamma_wire);
    p->slowdown_delta = slow_from(m->delta);
    p->transient_stream = lk_rng_stream("straggler.transient", 0);
    p->tail_stream = lk_rng_stream("straggler.tail", 0);
    p->tail_scale = m->law.tail_scale * (1 - m->law.tail_shape);
    p->tail_mean = m->law.tail_share * m->law.tail_scale;
    p->common_stream = lk_rng_stream("straggler.common", 0);
    p->transient_sigma = sigma_from(m->law.transient_sd);
    p->common_sigma = sigma_from(m->law.common_sd);
    p->common_micro_batch = UINT64_MAX;
    LK_TRY(lk_alloc(&p->cost_ns, m->n_colls, sizeof *p->cost_ns));
    LK_TRY(lk_alloc(&p->behind_ns, m->n_colls, sizeof *p->behind_ns));
    LK_TRY(list_init(&p->lists[0], m, false));
    LK_TRY(list_init(&p->lists[1], m, true));
    LK_TRY(lk_alloc(&p->rank_effect, (size_t)m->ranks, sizeof *p->rank_effect));
    for (size_t k = 0; k < m->n_colls; k++) {
        double cost_s = m->colls[k].cost_s * (m->colls[k].inside ? 1 : link);

        p->cost_ns[k] = lk_ns_from_s(cost_s);
        p->behind_ns[k] = lk_ns_from_s(
            fmin(cost_s * (1 + m->colls[k].behind), fmax(cost_s, LK_STEP_DURATION_MAX)));
    }
    set_persistent(p);
    LK_TRY(lk_alloc(&p->sums.step_ns, (size_t)p->steps, sizeof *p->sums.step_ns));
    if (m->prefetch_depth && p->load_ns)
        LK_TRY(loaders_init(p));
out:
    if (st != LK_OK)
        lk_step_plan_fini(p);
    return st;
}

void lk_step_plan_fini(struct lk_step_plan *p)
{
    free(p->cost_ns);
    free(p->behind_ns);
    list_fini(&p->lists[0]);
    list_fini(&p->lists[1]);
    free(p->rank_effect);
    free(p->loaders);
    free(p->taken_ns);
    free(p->sums.step_ns);
    memset(p, 0, sizeof *p);
}

static double common_effect(struct lk_step_plan *p, uint64_t micro_batch)
{
    if (p->common_micro_batch != micro_batch) {
        p->common_micro_batch = micro_batch;
        p->common = skewed(p->common_sigma, normal_at(p->seed, p->common_stream, micro_batch));
    }
    return p->common;
}

/* Draw the factors on the compute times of n ranks from `first` on. */
static void draw_factors(struct lk_step_plan *p, uint64_t micro_batch, int first, double *factor,
                         size_t n)
{
    uint64_t draw = micro_batch << 32 | (uint32_t)first;
    double common = p->common_sigma > 0 ? common_effect(p, micro_batch) : 0;
    const double *effect = p->rank_effect + first;

    if (p->transient_sigma > 0) {
        lk_rng_normals(p->seed, p->transient_stream, draw, factor, n);
        for (size_t i = 0; i < n; i++)
            factor[i] = 1 + effect[i] + common + skewed(p->transient_sigma, factor[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            factor[i] = 1 + effect[i] + common;
    }
    for (size_t i = 0; i < n && p->model->law.tail_share > 0; i++)
        factor[i] += tail_effect(p, draw + i);
    for (size_t i = 0; i < n; i++)
        factor[i] = factor[i] > FASTEST ? factor[i] : FASTEST;
}

/* Convert as lk_ns_from_s, but inline, so that loops are vectorised. */
static uint64_t ns_from(double s)
{
    static const double longest = 0x1p62;
    double ns = s * (double)LK_NS_PER_S + 0.5;

    return (uint64_t)(int64_t)(ns < longest ? ns : longest);
}

uint64_t lk_step_plan_draw(struct lk_step_plan *p, uint64_t micro_batch, int first, size_t n,
                           uint64_t *forward_ns, uint64_t *backward_ns)
{
    enum { TILE = 256 };
    const struct lk_step_model *m = p->model;
    double factor[TILE], kappa = 1 + m->kappa;
    uint64_t kappa_ns = 0;

    for (size_t at = 0; at < n; at += TILE) {
        size_t tile = n - at < TILE ? n - at : TILE;
        uint64_t *forward = forward_ns + at, *backward = backward_ns + at;

        draw_factors(p, micro_batch, first + (int)at, factor, tile);
        for (size_t i = 0; i < tile; i++) {
            double forward_s = m->forward_s * factor[i], backward_s = m->backward_s * factor[i];

            forward[i] = ns_from(forward_s * kappa);
            backward[i] = ns_from(backward_s * kappa);
            kappa_ns += forward[i] + backward[i] - ns_from(forward_s) - ns_from(backward_s);
        }
    }
    return kappa_ns;
}

struct lk_step_compute lk_step_plan_compute(struct lk_step_plan *p, int rank, uint64_t micro_batch)
{
    struct lk_step_compute c;

    c.kappa_ns = lk_step_plan_draw(p, micro_batch, rank, 1, &c.forward_ns, &c.backward_ns);
    c.optimizer_ns = lk_step_plan_last(p, micro_batch) ? p->optimizer_ns : 0;
    return c;
}

uint64_t lk_step_input_ns(struct lk_step_plan *p, size_t rank, uint64_t i, uint64_t now_ns)
{
    uint64_t depth = (uint64_t)p->model->prefetch_depth, at = now_ns + p->input_ns;
    struct lk_step_loader *l = p->loaders + rank;

    if (!p->loaders)
        return at + (depth ? 0 : p->load_ns);
    if (i >= depth && l->taken_ns[i % depth] > l->done_ns)
        l->done_ns = l->taken_ns[i % depth];
    l->done_ns += p->load_ns;
    if (l->done_ns > at)
        at = l->done_ns;
    l->taken_ns[i % depth] = at;
    return at;
}

enum lk_status lk_step_finish(const struct lk_step_plan *p, struct lk_sim_result *out)
{
    const struct lk_step_model *m = p->model;
    const struct lk_step_sums *sums = &p->sums;
    double n = (double)p->steps * m->ranks * 1e9, micro = m->accumulation;
    double compute_s = micro * (m->forward_s + m->backward_s);
    double input_s = micro * (m->input_s + (m->prefetch_depth ? 0 : m->load_s));
    double kappa_s = (double)sums->kappa_ns / n, rest;
    struct lk_sim_result r = {.n = (size_t)p->steps};
    double *loss = r.losses_s;

    LK_PASS(lk_alloc(&r.step_s, r.n, sizeof *r.step_s));
    for (size_t i = 0; i < r.n; i++)
        r.step_s[i] = lk_s_from_ns(sums->step_ns[i]) / m->ranks;
    r.mean_s = lk_stats_mean(r.step_s, r.n);
    loss[LK_LOSS_IDEAL] = compute_s + input_s + m->optimizer_s + m->gap_s;
    loss[LK_LOSS_INPUT] = (double)sums->input_ns / n - input_s;
    loss[LK_LOSS_SLOW_RANK] = (double)sums->compute_ns / n - kappa_s - compute_s;
    loss[LK_LOSS_COLOCATION] = kappa_s;
    loss[LK_LOSS_OVERLAP] = (double)sums->overlap_ns / n;
    loss[LK_LOSS_STRAGGLER] = (double)sums->straggler_ns / n;
    loss[LK_LOSS_WIRE] = (double)sums->wire_ns / n;
    loss[LK_LOSS_OPTIMIZER] = m->optimizer_s * m->kappa;
    rest = r.mean_s;
    for (int i = 0; i < LK_LOSS_REST; i++)
        rest -= loss[i];
    loss[LK_LOSS_REST] = rest;
    *out = r;
    return LK_OK;
}

void lk_sim_result_fini(struct lk_sim_result *r)
{
    free(r->step_s);
    memset(r, 0, sizeof *r);
}
